/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving of small worlds in which a node X and its neighbours may lose their links.
 *
 *   explore_death [--long] [--only NAME] [--budget STATES]
 *
 * Each node is the real machine. X may crash, once: then its links break, and each end notices some time. Single links
 * may be reset, and made again. Messages between nodes are queued for each pair and delivered at any time, in some
 * worlds in any order, in some they are lost. A node's time may pass at any moment, window by window. The system of a
 * crashed X refuses connections to whoever had connected to it; that of a living one never does.
 *
 * Laws. At once: a living X is declared dead only if each link to its neighbours had been reset. At rest: all its
 * neighbours have the same verdict (unless messages were lost or lists differ); after a crash it is "dead" where
 * nobody's time had passed meanwhile and there were three on two hosts, or a refusal.
 */

#include "base/err.h"
#include "overlay/death.h"
#include "overlay/death_internal.h"
#include "sim/world.h"
#include "tests/sim/explore_main.h"

#define NEAR_MOST 4 /* neighbours; X is the node after them */
#define NODES     (NEAR_MOST + 1)
#define QUEUE     7
#define WINDOW    10u
#define BLOCK     2048

struct world_cfg {
    const char *name;
    uint32_t n;                           /* neighbours */
    uint8_t host[NODES];                  /* of each, X at index n */
    uint8_t list[NEAR_MOST];              /* whom each believes to be X's neighbours, as bits; 0: all */
    uint8_t resets, makes, losses, ticks; /* how often these may happen */
    uint8_t life;                         /* of a case, in windows; 0: 2, in which nothing is said again */
    uint8_t refuses;                      /* bits: who finds that X's system refuses */
    uint8_t orderly;                      /* bits: whose link may be closed by agreement */
    uint8_t first;                        /* who are told first; 0: all */
    bool crash, any_order;
    bool prompt;  /* time passes only when all is noticed and delivered */
    bool stopped; /* X lives, and hears nothing */
};

struct letter {
    uint8_t used, kind, subject, seq, list, hops, cause, zero;
};

enum { LINK_IS_UP, LINK_BROKEN, LINK_GONE };

struct small {
    uint8_t alive, resets, makes, losses, ticks_left, lost, closed, overflow;
    uint8_t link[8], ever[8], ticks[8], probed[8], dead[8]; /* of each neighbour */
    struct letter q[NODES][NODES][QUEUE];
    uint8_t block[NODES][BLOCK] __attribute__((aligned(16)));
};

static struct moyai_node_id node(uint32_t i) {
    return (struct moyai_node_id){{(uint8_t)(i + 1), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
}
static uint32_t number(const uint8_t id[16]) {
    return id[0] - 1u;
}
static struct death *machine(const struct small *w, uint32_t i) {
    return (struct death *)(uintptr_t)w->block[i];
}
static uint64_t host(const struct world_cfg *c, uint32_t i) {
    return 100u + c->host[i];
}
static uint8_t list_of(const struct world_cfg *c, uint32_t i) {
    return c->list[i] ? c->list[i] : (uint8_t)((1u << c->n) - 1u);
}

/* --- what may happen ------------------------------------------------------------------------------- */

enum {
    M_CRASH,
    M_RESET,
    M_NOTICE = M_RESET + NEAR_MOST,
    M_MAKE = M_NOTICE + NEAR_MOST,
    M_TICK = M_MAKE + NEAR_MOST,
    M_REFUSE = M_TICK + NEAR_MOST,
    M_CLOSE = M_REFUSE + NEAR_MOST,
    M_LETTER = M_CLOSE + NEAR_MOST,
    M_LOSE = M_LETTER + NODES * NODES * QUEUE,
    MOVES = M_LOSE + NODES * NODES
};

static void post(struct small *w, uint32_t from, uint32_t to, const struct death_frame *f) {
    struct letter *q = w->q[from][to];
    uint32_t k = 0;
    while (k < QUEUE && q[k].used) k++;
    if (k == QUEUE) {
        w->overflow = 1;
        return;
    }
    q[k] = (struct letter){.used = 1, .kind = (uint8_t)f->kind, .subject = (uint8_t)number(f->subject.b)};
    q[k].seq = (uint8_t)f->seq;
    q[k].hops = (uint8_t)f->hops;
    q[k].cause = (uint8_t)f->cause;
    for (uint32_t i = 0; i < f->n; i++) q[k].list |= (uint8_t)(1u << number(f->m[i].id.b));
}

static int step(struct small *w, const struct world_cfg *c, uint32_t i, struct death_event ev,
                struct moyai_error *why) {
    static struct death_effect fx;
    struct death *d = machine(w, i);
    ev.now = 1 + WINDOW * (i < c->n ? w->ticks[i] : 0u);
    int rc = death_step(d, &ev);
    if (rc < 0) {
        err_set(why, MOYAI_EINTERNAL, "node %" PRIu32 " refuses event %d: %s", i, (int)ev.kind, moyai_err_name(rc));
        return -1;
    }
    while (death_next(d, &fx)) {
        uint32_t of = number(fx.id.b);
        if (fx.kind == DEATH_FX_SEND) {
            if (of < c->n || (of == c->n && w->alive && !c->stopped)) post(w, i, of, &fx.frame);
        } else if (fx.kind == DEATH_FX_DECLARED) {
            bool all = true;
            w->dead[i] = 1;
            for (uint32_t k = 0; k < c->n; k++) all = all && w->ever[k];
            if (of != c->n) return err_set(why, MOYAI_EINTERNAL, "a neighbour is declared dead"), -1;
            if (w->alive && !all) return err_set(why, MOYAI_EINTERNAL, "a live node with a standing link is dead"), -1;
            w->link[i] = LINK_GONE; /* also one that is broken, and will not be noticed any more */
        } else if (fx.kind == DEATH_FX_PROBE) {
            w->probed[i] = 1;
        } else if (fx.kind == DEATH_FX_TOLD && i != c->n) {
            return err_set(why, MOYAI_EINTERNAL, "a neighbour is told that it is dead"), -1;
        }
    }
    return death_check(d, why) ? 1 : -1;
}

static int notice(struct small *w, const struct world_cfg *c, uint32_t i, enum death_how how, struct moyai_error *why) {
    struct death_member m[NEAR_MOST];
    struct death_event ev = {.kind = DEATH_EV_END, .id = node(c->n), .how = how, .members = m};
    for (uint32_t k = 0; k < c->n; k++)
        if (k != i && list_of(c, i) & 1u << k) m[ev.n++] = (struct death_member){node(k), host(c, k)};
    w->link[i] = LINK_GONE;
    return step(w, c, i, ev, why);
}

static bool busy(const struct small *w, const struct world_cfg *c) {
    for (uint32_t i = 0; i < c->n; i++)
        if (w->link[i] == LINK_BROKEN) return true;
    for (uint32_t i = 0; i <= c->n; i++)
        for (uint32_t k = 0; k <= c->n; k++)
            if (w->q[i][k][0].used) return true;
    return false;
}

static struct letter take(struct letter *q, uint32_t at) {
    struct letter l = q[at];
    memmove(&q[at], &q[at + 1], (QUEUE - 1 - at) * sizeof *q);
    q[QUEUE - 1] = (struct letter){0};
    return l;
}

static int deliver(struct small *w, const struct world_cfg *c, uint32_t from, uint32_t to, uint32_t at,
                   struct moyai_error *why) {
    static struct death_frame f;
    if (!w->q[from][to][at].used || (at && !c->any_order)) return 0;
    const struct letter l = take(w->q[from][to], at);
    if (to == c->n && !w->alive) return 1;
    f = (struct death_frame){.kind = (enum death_frame_kind)l.kind, .subject = node(l.subject), .seq = l.seq};
    f.hops = l.hops;
    f.cause = l.cause;
    f.host = host(c, from);
    f.subject_host = host(c, c->n);
    for (uint32_t k = 0; k < c->n; k++)
        if (l.list & 1u << k) f.m[f.n++] = (struct death_member){node(k), host(c, k)};
    return step(w, c, to, (struct death_event){.kind = DEATH_EV_FRAME, .id = node(from), .frame = &f}, why);
}

static int move(void *world, const void *cfg, uint32_t m, struct moyai_error *why) {
    struct small *w = world;
    const struct world_cfg *c = cfg;
    int rc = 0;
    if (m == M_CRASH) {
        if (!c->crash || !w->alive) return 0;
        w->alive = 0;
        for (uint32_t i = 0; i < c->n; i++) {
            if (w->link[i] == LINK_IS_UP) w->link[i] = LINK_BROKEN;
            memset(w->q[i][c->n], 0, sizeof w->q[i][c->n]);
        }
        memset(w->block[c->n], 0, BLOCK);
        return 1;
    }
    if (m >= M_LOSE) {
        uint32_t from = (m - M_LOSE) / NODES, to = (m - M_LOSE) % NODES;
        if (!w->losses || !w->q[from][to][0].used) return 0;
        w->losses--;
        w->lost = 1;
        (void)take(w->q[from][to], 0);
        return 1;
    }
    if (m >= M_LETTER) {
        uint32_t k = m - M_LETTER;
        rc = deliver(w, c, k / QUEUE / NODES, k / QUEUE % NODES, k % QUEUE, why);
    } else {
        uint32_t i = (m - M_RESET) % NEAR_MOST, what = m - i;
        if (i >= c->n) return 0;
        struct death_event ev = {.id = node(c->n), .host = host(c, c->n)};
        if (what == M_RESET && w->alive && w->link[i] == LINK_IS_UP && w->resets) {
            w->resets--;
            w->ever[i] = 1;
            w->link[i] = LINK_BROKEN;
            rc = 1;
        } else if (what == M_NOTICE && w->link[i] == LINK_BROKEN) {
            rc = notice(w, c, i, DEATH_BROKEN, why);
        } else if (what == M_MAKE && w->alive && w->link[i] == LINK_GONE && w->makes && !w->dead[i]) {
            w->makes--;
            w->link[i] = LINK_IS_UP;
            ev.kind = DEATH_EV_UP;
            rc = step(w, c, i, ev, why);
        } else if (what == M_TICK && w->ticks_left && !(c->prompt && busy(w, c))) {
            w->ticks[i]++;
            w->ticks_left--;
            ev.kind = DEATH_EV_TIMEOUT;
            rc = step(w, c, i, ev, why);
        } else if (what == M_REFUSE && !w->alive && w->probed[i] == 1 && c->refuses & 1u << i) {
            w->probed[i] = 2;
            ev.kind = DEATH_EV_REFUSED;
            rc = step(w, c, i, ev, why);
        } else if (what == M_CLOSE && w->link[i] == LINK_IS_UP && w->alive && c->orderly & 1u << i) {
            w->closed = 1;
            w->ever[i] = 1;
            rc = notice(w, c, i, DEATH_ORDERLY, why);
        }
    }
    if (rc > 0 && w->overflow) return err_set(why, MOYAI_EINTERNAL, "QUEUE is too small"), -1;
    return rc;
}

static bool must(const void *world, const void *cfg, uint32_t m) {
    (void)world, (void)cfg;
    return (m >= M_NOTICE && m < M_MAKE) || (m >= M_LETTER && m < M_LOSE) || (m >= M_REFUSE && m < M_CLOSE);
}

static bool rest(const void *world, const void *cfg, struct moyai_error *why) {
    const struct small *w = world;
    const struct world_cfg *c = cfg;
    bool same = true, early = false, lists = true, other = false;
    for (uint32_t i = 0; i < c->n; i++) {
        same = same && w->dead[i] == w->dead[0];
        early = early || w->ticks[i];
        lists = lists && list_of(c, i) == (1u << c->n) - 1;
        other = other || c->host[i] != c->host[0];
    }
    if (w->lost) return true;
    if (!same && lists) return err_set(why, MOYAI_EINTERNAL, "neighbours have different verdicts"), false;
    bool inside = false;
    for (uint32_t i = 0; i < c->n; i++) inside = inside || c->host[i] == c->host[c->n];
    bool enough = (c->n >= 3 && other) || c->refuses;
    if (w->alive || !lists || early || w->closed || !enough || c->resets || inside) return true;
    if (!w->dead[0]) return err_set(why, MOYAI_EINTERNAL, "it has crashed, and nobody says so"), false;
    return true;
}

/* Numbers of messages only have an order: the earliest of each sender that is still known becomes 1, and so on. */
static void settle(void *world, const void *cfg) {
    struct small *w = world;
    const struct world_cfg *c = cfg;
    for (uint32_t i = 0; i <= c->n; i++) {
        struct death *d = machine(w, i);
        uint64_t *known[64];
        uint32_t n = 0;
        if (i == c->n && !w->alive) continue;
        for (uint32_t k = 0; k <= c->n; k++) {
            struct death *o = machine(w, k);
            if (k == i || (k == c->n && !w->alive)) continue;
            for (uint32_t s = 0; s < o->cases_cap * o->members; s++) {
                struct death_seat *seat = &death_seats(o, death_cases(o))[s];
                if (seat->id[0] && number(seat->id) == i && seat->seq) known[n++] = &seat->seq;
            }
        }
        /* letters hold theirs in a byte */
        uint64_t map[256] = {0}, next = 0;
        for (uint32_t k = 0; k < n; k++) map[*known[k]] = 1;
        for (uint32_t k = 0; k <= c->n; k++)
            for (uint32_t q = 0; q < QUEUE; q++) map[w->q[i][k][q].seq] = w->q[i][k][q].seq != 0;
        map[0] = 0;
        for (uint32_t k = 0; k < n; k++) map[*known[k]] = 1;
        for (uint32_t k = 0; k <= c->n; k++)
            for (uint32_t q = 0; q < QUEUE; q++)
                if (w->q[i][k][q].seq) map[w->q[i][k][q].seq] = 1;
        for (uint32_t v = 1; v < 256; v++)
            if (map[v]) map[v] = ++next;
        for (uint32_t k = 0; k < n; k++) *known[k] = map[*known[k]];
        for (uint32_t k = 0; k <= c->n; k++)
            for (uint32_t q = 0; q < QUEUE; q++) w->q[i][k][q].seq = (uint8_t)map[w->q[i][k][q].seq];
        d->seq = next;
    }
}

static void init(void *world, const void *cfg) {
    struct small *w = world;
    const struct world_cfg *c = cfg;
    struct moyai_error why;
    memset(w, 0, sizeof *w);
    w->alive = 1;
    w->resets = c->resets;
    w->makes = c->makes;
    w->losses = c->losses;
    w->ticks_left = c->ticks;
    for (uint32_t i = 0; i <= c->n; i++) {
        const struct death_cfg d = {.self = node(i),
                                    .host = host(c, i),
                                    .links = 2,
                                    .cases = 1,
                                    .members = c->n,
                                    .first = c->first ? c->first : NEAR_MOST,
                                    .dead = 1,
                                    .window = WINDOW,
                                    .transit = WINDOW * (c->life ? c->life - 1 : 1)};
        if (death_size(&d) > BLOCK || death_init(machine(w, i), &d) < 0) abort();
        if (i == c->n) continue;
        if (step(w, c, i, (struct death_event){.kind = DEATH_EV_UP, .id = node(c->n), .host = host(c, c->n)}, &why) < 0)
            abort();
        /* By which they hear of each other; nothing happens to it. */
        if (step(w, c, i, (struct death_event){.kind = DEATH_EV_UP, .id = node(NODES)}, &why) < 0) abort();
    }
}

static void tell(void *world, const void *cfg, uint32_t m, char *text, size_t n) {
    static const char *const words[] = {"reset", "notice", "make", "tick", "refuse", "close"};
    static const char *const kinds[] = {"ENDED", "ALIVE", "NONE", "DEAD", "LEFT"};
    const struct small *w = world;
    (void)cfg;
    if (m == M_CRASH) {
        snprintf(text, n, "X crashes");
    } else if (m < M_LETTER) {
        snprintf(text, n, "%s %" PRIu32, words[(m - M_RESET) / NEAR_MOST], (m - M_RESET) % NEAR_MOST);
    } else {
        bool lose = m >= M_LOSE;
        uint32_t k = lose ? (m - M_LOSE) * QUEUE : m - M_LETTER, from = k / QUEUE / NODES, to = k / QUEUE % NODES;
        const struct letter *l = &w->q[from][to][k % QUEUE];
        snprintf(text, n, "%s %" PRIu32 " > %" PRIu32 " %s of %u seq %u list %x", lose ? "lose" : "deliver", from, to,
                 l->used ? kinds[l->kind] : "?", l->subject, l->seq, l->list);
    }
}

/* --- worlds ---------------------------------------------------------------------------------------- */

static const struct world_cfg usual[] = {
    {.name = "crash", .n = 3, .host = {1, 2, 3, 4}, .crash = true, .ticks = 1},
    {.name = "reset", .n = 3, .host = {1, 2, 3, 4}, .resets = 2, .ticks = 2},
    {.name = "crash-reset", .n = 3, .host = {1, 2, 2, 4}, .crash = true, .resets = 1},
    {.name = "make", .n = 3, .host = {1, 2, 3, 4}, .resets = 2, .makes = 1},
    {.name = "any-order", .n = 3, .host = {1, 2, 3, 4}, .resets = 2, .makes = 1, .any_order = true},
    {.name = "loss", .n = 3, .host = {1, 2, 3, 4}, .resets = 2, .losses = 1},
    {.name = "again", .n = 3, .host = {1, 2, 3, 4}, .losses = 1, .ticks = 2, .life = 4, .crash = true},
    {.name = "refuse", .n = 2, .host = {1, 2, 4}, .crash = true, .resets = 1, .refuses = 3, .ticks = 2},
    {.name = "refuse-3", .n = 3, .host = {1, 1, 1, 4}, .crash = true, .refuses = 1},
    {.name = "one-host", .n = 3, .host = {1, 1, 1, 4}, .crash = true, .resets = 1},
    {.name = "inside", .n = 3, .host = {1, 2, 4, 4}, .crash = true, .refuses = 1, .ticks = 2, .prompt = true},
    {.name = "inside-asked",
     .n = 4,
     .host = {1, 2, 3, 4, 4},
     .first = 1,
     .resets = 3,
     .ticks = 2,
     .prompt = true,
     .stopped = true},
    {.name = "lists", .n = 3, .host = {1, 2, 3, 4}, .list = {3, 7, 7}, .resets = 2, .crash = true},
    {.name = "orderly", .n = 3, .host = {1, 2, 3, 4}, .resets = 2, .orderly = 4, .crash = true},
    {.name = "first", .n = 3, .host = {1, 2, 3, 4}, .first = 1, .crash = true, .ticks = 1},
    {.name = "first-reset", .n = 3, .host = {1, 2, 3, 4}, .first = 1, .resets = 2, .ticks = 2},
    {.name = "first-make", .n = 3, .host = {1, 2, 3, 4}, .first = 1, .resets = 2, .makes = 1},
    {.name = "first-lists", .n = 3, .host = {1, 2, 3, 4}, .first = 1, .list = {3, 7, 7}, .resets = 2, .crash = true},
    {.name = "first-4", .n = 4, .host = {1, 2, 3, 4, 5}, .first = 1, .crash = true},
};

static const struct world_cfg larger[] = {
    {.name = "L-first", .n = 4, .host = {1, 2, 3, 5, 5}, .first = 2, .crash = true},
    {.name = "L-first-3", .n = 3, .host = {1, 2, 3, 4}, .first = 1, .resets = 3, .ticks = 3},
    {.name = "L-in", .n = 4, .host = {1, 2, 3, 4, 4}, .resets = 3, .ticks = 1, .prompt = true},
    {.name = "L-crash", .n = 4, .host = {1, 2, 3, 4, 5}, .crash = true},
    {.name = "L-reset", .n = 4, .host = {1, 2, 3, 4, 5}, .resets = 3, .ticks = 1},
    {.name = "L-both", .n = 4, .host = {1, 2, 3, 4, 5}, .resets = 1, .crash = true, .ticks = 1},
    {.name = "L-make", .n = 3, .host = {1, 2, 3, 4}, .resets = 3, .makes = 2, .ticks = 2, .crash = true},
    {.name = "L-lists", .n = 4, .host = {1, 2, 3, 4, 5}, .list = {7, 15, 15, 15}, .resets = 3},
    {.name = "L-again", .n = 3, .host = {1, 2, 3, 4}, .resets = 2, .losses = 1, .ticks = 3, .life = 4},
    {.name = "L-inside", .n = 4, .host = {1, 2, 3, 5, 5}, .resets = 3, .makes = 1, .ticks = 2, .prompt = true},
};

static struct explore_model model(size_t i, const char **called) {
    size_t n = sizeof usual / sizeof *usual;
    const struct world_cfg *world = i < n ? &usual[i] : &larger[i - n];
    *called = world->name;
    return (struct explore_model){.size = sizeof(struct small),
                                  .moves = MOVES,
                                  .cfg = world,
                                  .init = init,
                                  .move = move,
                                  .must = must,
                                  .rest = rest,
                                  .settle = settle,
                                  .tell = tell};
}

int main(int argc, char **argv) {
    static const struct explore_worlds worlds = {.usual = sizeof usual / sizeof *usual,
                                                 .larger = sizeof larger / sizeof *larger,
                                                 .model = model,
                                                 .budget = 3000000,
                                                 .long_budget = 3000000};
    return explore_main(argc, argv, &worlds);
}
