/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving of small worlds in which any nodes may want to leave at any time.
 *
 *   explore_leave [--long] [--only NAME] [--budget STATES]
 *
 * Each node is the real machine. Channels are queues of any length that is reached (never more than QUEUE). Users say
 * up to two messages, at any node, at any time. A node may crash, a channel break (each end notices that some time),
 * new channels be opened. A node may want to leave as long as the assumption (*) of doc/spec/09-leave.md holds at that
 * moment: it has an open channel to one that stays, and those that stay are connected.
 *
 * Laws, after each move: each message is in one place; none is delivered twice; nothing is refused by the machines
 * (which is what they do with a message behind an ACK, I5); parents form no cycle (I1); who has a parent is known to it
 * (I2); nothing is addressed to who is done (I3). At rest: all who wanted to leave are done, but those that crashes and
 * resets have cut off from all that stay; and all messages have been delivered that were not lost with these.
 */
#include "base/err.h"
#include "member/leave_internal.h"
#include "tests/sim/explore_main.h"

#define NODES    4
#define QUEUE    8
#define MESSAGES 2
#define BLOCK    448

struct world_cfg {
    const char *name;
    uint8_t n;            /* nodes */
    uint8_t edges[NODES]; /* of each node to those with higher numbers, as bits */
    uint8_t messages;     /* of users, in all */
    uint8_t crashes, resets, opens;
    bool anyhow;    /* (*) need not hold, but somebody stays */
    uint8_t stayer; /* its number + 1: it never leaves, and takes what comes at once; 0: nobody is known to stay */
};

enum { DATA = LEAVE_FRAMES, OPEN, OPENED, REFUSE };
static const char *const frame_names[] = {"SEEK", "ROOT", "ACK", "DATA", "OPEN", "OPENED", "REFUSE"};

struct letter {
    uint8_t used, kind, n,
        zero; /* n: of SEEK and ROOT: 2, the latest of its asker, 1, an earlier one; DATA: whose + 1 */
};

struct small {
    uint8_t crashes, resets, opens, said, faults, overflow, stray, zero;
    uint8_t dead[NODES], wants[NODES];
    uint8_t broken[NODES][NODES];  /* i has yet to notice that its channel to k is broken */
    uint8_t delivered[8], lost[8]; /* of each message */
    uint8_t held[NODES][8];        /* messages + 1, in order */
    struct letter q[NODES][NODES][QUEUE];
    uint8_t block[NODES][BLOCK] __attribute__((aligned(16)));
};

static struct leave *machine(const struct small *w, uint32_t i) {
    return (struct leave *)(uintptr_t)w->block[i];
}
static uint64_t link_to(uint32_t k) {
    return k + 1;
}
static uint32_t other(uint64_t link) {
    return (uint32_t)link - 1;
}

/* --- channels ------------------------------------------------------------------------------------- */

static void post(struct small *w, uint32_t from, uint32_t to, uint32_t kind, uint32_t n) {
    struct letter *q = w->q[from][to];
    uint32_t k = 0;
    const bool closed = !w->dead[to] && kind < OPEN && !leave_knows(machine(w, to), link_to(from));
    if (closed && !w->broken[from][to]) w->stray = 1;
    if (w->dead[to] || w->broken[from][to] || closed) {
        if (kind == DATA) w->lost[n - 1] = 1;
        return;
    }
    while (k < QUEUE && q[k].used) k++;
    if (k == QUEUE)
        w->overflow = 1;
    else
        q[k] = (struct letter){.used = 1, .kind = (uint8_t)kind, .n = (uint8_t)n};
}

static struct letter take(struct letter *q) {
    struct letter l = q[0];
    memmove(&q[0], &q[1], (QUEUE - 1) * sizeof *q);
    q[QUEUE - 1] = (struct letter){0};
    return l;
}

/* What is under way to `to` is lost. */
static void spill(struct small *w, uint32_t from, uint32_t to) {
    for (uint32_t k = 0; k < QUEUE; k++)
        if (w->q[from][to][k].kind == DATA && w->q[from][to][k].used) w->lost[w->q[from][to][k].n - 1] = 1;
    memset(w->q[from][to], 0, sizeof w->q[from][to]);
}

/* --- a step --------------------------------------------------------------------------------------- */

static uint8_t pop(uint8_t *held) {
    const uint8_t m = held[0];
    memmove(held, held + 1, 7);
    held[7] = 0;
    return m;
}

/* m: the message that comes or is said, + 1. */
static int step(struct small *w, uint32_t i, struct leave_event ev, uint8_t m, struct moyai_error *why) {
    struct leave *l = machine(w, i);
    struct leave_effect fx;
    int rc = leave_step(l, &ev);
    if (rc == MOYAI_EAGAIN || rc == MOYAI_ELEAVING) return 0;
    if (rc < 0)
        return err_set(why, MOYAI_EINTERNAL, "node %" PRIu32 " refuses event %d: %s", i, (int)ev.kind,
                       moyai_err_name(rc)),
               -1;
    while (leave_next(l, &fx)) {
        uint32_t n = 0;
        switch (fx.kind) {
        case LEAVE_FX_FRAME:
            post(w, i, other(fx.link), fx.frame, fx.n);
            break;
        case LEAVE_FX_DATA:
            post(w, i, other(fx.link), DATA, m);
            break;
        case LEAVE_FX_PASS:
            post(w, i, other(fx.link), DATA, pop(w->held[i]));
            break;
        case LEAVE_FX_DELIVER:
            if (w->delivered[m - 1]++) return err_set(why, MOYAI_EINTERNAL, "a message comes twice"), -1;
            break;
        case LEAVE_FX_HOLD:
            while (w->held[i][n]) n++;
            w->held[i][n] = m;
            break;
        case LEAVE_FX_CLOSE: /* the other end has said its last, and heard ours or will */
        case LEAVE_FX_DONE:
            break;
        }
    }
    uint32_t n = 0;
    while (w->held[i][n]) n++;
    if (n != leave_held(l)) return err_set(why, MOYAI_EINTERNAL, "held messages are miscounted"), -1;
    return leave_check(l, why) ? 1 : -1;
}

/* --- laws ----------------------------------------------------------------------------------------- */

static bool stays(const struct small *w, uint32_t i) {
    return !w->dead[i] && leave_phase(machine(w, i)) == LEAVE_NORMAL;
}

static bool is_open(const struct small *w, uint32_t i, uint32_t k) {
    const struct leave_port *p = leave_find(machine(w, i), link_to(k)), *o = leave_find(machine(w, k), link_to(i));
    return p && o && !w->dead[i] && !w->dead[k] && !w->broken[i][k] && !w->broken[k][i] && !leave_is(p, PORT_OPENING) &&
           !leave_is(o, PORT_OPENING) && !leave_is(p, PORT_ACKED) && !leave_is(o, PORT_ACKED);
}

/* All that can be reached from i over open channels, of those in `over` (and i), as bits. */
static uint32_t reach(const struct small *w, uint32_t n, uint32_t i, uint32_t over) {
    uint32_t seen = 1u << i;
    for (uint32_t before = 0; before != seen;) {
        before = seen;
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < n; b++)
                if (seen & 1u << a && over & 1u << b && is_open(w, a, b)) seen |= 1u << b;
    }
    return seen;
}

static uint32_t stayers(const struct small *w, uint32_t n) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < n; i++)
        if (stays(w, i)) bits |= 1u << i;
    return bits;
}

/* (*) for i. */
static bool may_want(const struct small *w, const struct world_cfg *c, uint32_t i) {
    const uint32_t rest = stayers(w, c->n) & ~(1u << i);
    if (!stays(w, i) || !rest) return false;
    if (c->anyhow) return true;
    bool way = false;
    for (uint32_t k = 0; k < c->n; k++) way = way || (rest & 1u << k && is_open(w, i, k));
    return way && (reach(w, c->n, (uint32_t)__builtin_ctz(rest), rest) & rest) == rest;
}

static int laws(const struct small *w, const struct world_cfg *c, struct moyai_error *why) {
    if (w->overflow) return err_set(why, MOYAI_EINTERNAL, "QUEUE is too small"), -1;
    if (w->stray) return err_set(why, MOYAI_EINTERNAL, "a frame is sent to a closed port"), -1;
    for (uint32_t m = 0; m < w->said; m++) {
        uint32_t places = (uint32_t)w->delivered[m] + w->lost[m];
        for (uint32_t i = 0; i < c->n; i++) {
            for (uint32_t k = 0; k < 8; k++) places += w->held[i][k] == m + 1;
            for (uint32_t k = 0; k < c->n; k++)
                for (uint32_t q = 0; q < QUEUE; q++)
                    places += w->q[i][k][q].used && w->q[i][k][q].kind == DATA && w->q[i][k][q].n == m + 1;
        }
        if (places != 1) return err_set(why, MOYAI_EINTERNAL, "a message is in %" PRIu32 " places", places), -1;
        if (w->lost[m] && !w->faults) return err_set(why, MOYAI_EINTERNAL, "a message is lost"), -1;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t at = i, hops = 0;
        if (w->dead[i]) continue;
        const struct leave *l = machine(w, i);
        for (; !w->dead[at] && leave_parent(machine(w, at)); at = other(leave_parent(machine(w, at))))
            if (++hops > c->n) return err_set(why, MOYAI_EINTERNAL, "I1: parents in a circle"), -1;
        for (uint32_t k = 0; k < c->n && leave_phase(l) == LEAVE_DONE; k++)
            if (w->q[k][i][0].used && w->q[k][i][0].kind != OPEN)
                return err_set(why, MOYAI_EINTERNAL, "I3: something is sent to who is done"), -1;
        const uint64_t up = leave_parent(l);
        if (!up || w->broken[i][other(up)] || w->dead[other(up)]) continue;
        const struct leave_port *p = leave_find(machine(w, other(up)), link_to(i));
        if (!p && w->faults) continue;
        if (!p || !leave_is(p, PORT_LEAVING) || leave_is(p, PORT_ACKED))
            return err_set(why, MOYAI_EINTERNAL, "I2: a parent does not know its child"), -1;
    }
    return 1;
}

/* --- moves ---------------------------------------------------------------------------------------- */

enum {
    M_WANT,
    M_PASS = M_WANT + NODES,
    M_CRASH = M_PASS + NODES,
    M_SAY = M_CRASH + NODES, /* i, over the channel to k; k = i: who leaves */
    M_RECV = M_SAY + NODES * NODES,
    M_RESET = M_RECV + NODES * NODES,
    M_NOTICE = M_RESET + NODES * NODES,
    M_OPEN = M_NOTICE + NODES * NODES,
    MOVES = M_OPEN + NODES * NODES
};

static int receive(struct small *w, uint32_t from, uint32_t to, struct moyai_error *why) {
    if (!w->q[from][to][0].used) return 0;
    const struct letter l = take(w->q[from][to]);
    struct leave_event ev = {.link = link_to(from)};
    switch (l.kind) {
    case DATA:
        ev.kind = LEAVE_EV_DATA;
        return step(w, to, ev, l.n, why);
    case OPEN: {
        const bool agreed = stays(w, to);
        ev.kind = LEAVE_EV_OPEN;
        if (agreed && step(w, to, ev, 0, why) < 0) return -1;
        post(w, to, from, agreed ? OPENED : REFUSE, 0);
        return 1;
    }
    case OPENED:
    case REFUSE:
        ev.kind = l.kind == OPENED ? LEAVE_EV_OPEN : LEAVE_EV_REFUSED;
        return step(w, to, ev, 0, why);
    default:
        ev.kind = LEAVE_EV_FRAME;
        ev.frame = (enum leave_frame_kind)l.kind;
        ev.n = l.n;
        return step(w, to, ev, 0, why);
    }
}

/* The channel between i and k breaks; ends that have a port are yet to notice. */
static void cut(struct small *w, uint32_t i, uint32_t k) {
    spill(w, i, k);
    spill(w, k, i);
    w->broken[i][k] = leave_knows(machine(w, i), link_to(k));
    w->broken[k][i] = leave_knows(machine(w, k), link_to(i));
}

static int crash(struct small *w, const struct world_cfg *c, uint32_t i) {
    if (!w->crashes || w->dead[i] || leave_phase(machine(w, i)) == LEAVE_DONE) return 0;
    if (stayers(w, c->n) == 1u << i) return 0; /* the last that stays: nobody is left to take anything */
    w->crashes--;
    w->faults = 1;
    for (uint32_t k = 0; k < 8; k++)
        if (w->held[i][k]) w->lost[w->held[i][k] - 1] = 1;
    memset(w->held[i], 0, sizeof w->held[i]);
    for (uint32_t k = 0; k < c->n; k++) {
        if (k == i) continue;
        cut(w, i, k);
        w->broken[i][k] = 0;
    }
    w->dead[i] = 1;
    memset(w->block[i], 0, BLOCK);
    return 1;
}

static bool has_channel(const struct small *w, uint32_t i, uint32_t k) {
    return leave_knows(machine(w, i), link_to(k)) || leave_knows(machine(w, k), link_to(i)) || w->q[i][k][0].used ||
           w->q[k][i][0].used;
}

static int pair_move(struct small *w, const struct world_cfg *c, uint32_t what, uint32_t i, uint32_t k,
                     struct moyai_error *why) {
    if (i >= c->n || k >= c->n || w->dead[i]) return 0;
    if (what == M_SAY) {
        if (w->said >= c->messages) return 0;
        if (i == k ? leave_phase(machine(w, i)) == LEAVE_NORMAL : !leave_may_send(machine(w, i), link_to(k))) return 0;
        const int rc = step(w, i, (struct leave_event){.kind = LEAVE_EV_SAY, .link = i == k ? 0 : link_to(k)},
                            (uint8_t)(w->said + 1), why);
        if (rc > 0) w->said++;
        return rc;
    }
    if (i == k || (what != M_NOTICE && w->dead[k])) return 0;
    switch (what) {
    case M_RECV:
        return receive(w, i, k, why);
    case M_RESET:
        if (i > k || !w->resets || !has_channel(w, i, k) || w->broken[i][k] || w->broken[k][i]) return 0;
        w->resets--;
        w->faults = 1;
        cut(w, i, k);
        return 1;
    case M_NOTICE:
        if (!w->broken[i][k]) return 0;
        w->broken[i][k] = 0;
        return step(w, i, (struct leave_event){.kind = LEAVE_EV_RESET, .link = link_to(k)}, 0, why);
    case M_OPEN:
        if (!w->opens || !stays(w, i) || has_channel(w, i, k) || w->broken[i][k] || w->broken[k][i]) return 0;
        w->opens--;
        post(w, i, k, OPEN, 0);
        return step(w, i, (struct leave_event){.kind = LEAVE_EV_OPENING, .link = link_to(k)}, 0, why);
    default:
        return 0;
    }
}

/* Who stays for good may take what comes at once, and nothing else happens before: whatever might have, it does as well
 * before that was sent, or afterwards. (A message that it sends to who has said SEEK, but where that has not come,
 * could have been sent before the SEEK.) In a world without faults; one with each choice of him has all runs between
 * them, since somebody always stays. MOVES: none. */
static uint32_t taken_first(const struct small *w, const struct world_cfg *c) {
    if (!c->stayer) return MOVES;
    for (uint32_t i = 0; i < c->n; i++)
        if (w->q[i][c->stayer - 1][0].used) return M_RECV + i * NODES + (c->stayer - 1);
    return MOVES;
}

static int move(void *world, const void *cfg, uint32_t m, struct moyai_error *why) {
    struct small *w = world;
    const struct world_cfg *c = cfg;
    int rc;
    const uint32_t takes = taken_first(w, c);
    if (takes < MOVES && m != takes) return 0;
    if (m >= M_SAY) {
        const uint32_t at = (m - M_SAY) % (NODES * NODES);
        rc = pair_move(w, c, m - at, at / NODES, at % NODES, why);
    } else {
        const uint32_t i = m % NODES;
        if (i >= c->n || w->dead[i]) return 0;
        if (m >= M_CRASH) {
            rc = crash(w, c, i);
        } else if (m >= M_PASS) {
            if (leave_phase(machine(w, i)) != LEAVE_ATTACHED || !leave_held(machine(w, i))) return 0;
            rc = step(w, i, (struct leave_event){.kind = LEAVE_EV_PASS}, 0, why);
        } else {
            if (i + 1 == c->stayer || !may_want(w, c, i)) return 0;
            w->wants[i] = 1;
            rc = step(w, i, (struct leave_event){.kind = LEAVE_EV_WANT}, 0, why);
        }
    }
    return rc > 0 ? laws(w, c, why) : rc;
}

static bool must(const void *world, const void *cfg, uint32_t m) {
    (void)world, (void)cfg;
    return (m >= M_PASS && m < M_CRASH) || (m >= M_RECV && m < M_RESET) || (m >= M_NOTICE && m < M_OPEN);
}

static bool rest(const void *world, const void *cfg, struct moyai_error *why) {
    const struct small *w = world;
    const struct world_cfg *c = cfg;
    const uint32_t all = (1u << c->n) - 1, stay = stayers(w, c->n);
    bool cut_off = false;
    for (uint32_t i = 0; i < c->n; i++) {
        if (w->dead[i] || !w->wants[i] || leave_phase(machine(w, i)) == LEAVE_DONE) continue;
        if ((!w->faults && !c->anyhow) || reach(w, c->n, i, all) & stay)
            return err_set(why, MOYAI_EINTERNAL, "node %" PRIu32 " cannot leave", i), false;
        cut_off = true;
    }
    for (uint32_t m = 0; m < w->said; m++)
        if (!w->delivered[m] && !w->lost[m] && !cut_off)
            return err_set(why, MOYAI_EINTERNAL, "a message is not delivered"), false;
    return true;
}

/* --- the normal form ------------------------------------------------------------------------------ */

/* In the order of the nodes. */
static void sort_ports(struct leave *l) {
    for (uint32_t a = 1; a < l->n; a++)
        for (uint32_t b = a; b > 0 && l->p[b - 1].link > l->p[b].link; b--) {
            const struct leave_port t = l->p[b];
            l->p[b] = l->p[b - 1];
            l->p[b - 1] = t;
        }
}

static uint32_t is_edge(const struct world_cfg *c, uint32_t a, uint32_t b) {
    return c->edges[a < b ? a : b] >> (a < b ? b : a) & 1u;
}

/* The other names under which the network is the same: n of them. (So in a story nodes may change their names from one
 * move to the next.) */
static struct { uint8_t n, of[23][NODES]; } names;

static void find_names(const struct world_cfg *c) {
    uint8_t p[NODES];
    names.n = 0;
    for (uint32_t k = 1; k < 256; k++) { /* 0xe4, each to itself, is left out */
        bool same = k != 0xe4;
        uint32_t seen = 0;
        for (uint32_t i = 0; i < NODES; i++) {
            p[i] = k >> (2 * i) & 3;
            seen |= 1u << p[i];
            same = same && (i < c->n || p[i] == i);
        }
        same = same && seen == 15 && (!c->stayer || p[c->stayer - 1] == c->stayer - 1);
        for (uint32_t a = 0; a < c->n && same; a++)
            for (uint32_t b = 0; b < a; b++) same = same && is_edge(c, a, b) == is_edge(c, p[a], p[b]);
        if (same) memcpy(names.of[names.n++], p, NODES);
    }
}

/* Of the worlds that differ in names only, the one whose bytes come first. */
static void rename_all(struct small *w, const struct world_cfg *c) {
    static struct small best, other_;
    best = *w;
    for (uint32_t k = 0; k < names.n; k++) {
        const uint8_t *as = names.of[k];
        other_ = *w;
        for (uint32_t i = 0; i < c->n; i++) {
            other_.dead[as[i]] = w->dead[i];
            other_.wants[as[i]] = w->wants[i];
            memcpy(other_.held[as[i]], w->held[i], sizeof w->held[i]);
            memcpy(other_.block[as[i]], w->block[i], BLOCK);
            struct leave *l = machine(&other_, as[i]);
            for (uint32_t p = 0; p < l->n; p++) l->p[p].link = link_to(as[other(l->p[p].link)]);
            if (l->parent) l->parent = link_to(as[other(l->parent)]);
            sort_ports(l);
            for (uint32_t j = 0; j < c->n; j++) {
                other_.broken[as[i]][as[j]] = w->broken[i][j];
                memcpy(other_.q[as[i]][as[j]], w->q[i][j], sizeof w->q[i][j]);
            }
        }
        if (memcmp(&other_, &best, sizeof best) < 0) best = other_;
    }
    *w = best;
}

/* Of the numbers of questions only this counts: is it the latest of its asker on this channel, and not answered? */
static void settle(void *world, const void *cfg) {
    struct small *w = world;
    const struct world_cfg *c = cfg;
    for (uint32_t i = 0; i < c->n; i++) {
        if (w->dead[i]) continue;
        struct leave *l = machine(w, i);
        for (uint32_t k = 0; k < c->n; k++) {
            if (k == i) continue;
            struct leave_port *p = leave_find(l, link_to(k));
            struct leave_port *o = w->dead[k] ? NULL : leave_find(machine(w, k), link_to(i));
            const uint32_t mine = p ? p->mine : 0;
            for (uint32_t q = 0; q < QUEUE; q++) {
                struct letter *out = &w->q[i][k][q], *in = &w->q[k][i][q];
                if (out->used && out->kind == LEAVE_SEEK) out->n = mine && out->n == mine ? 2 : 1;
                if (in->used && in->kind == LEAVE_ROOT) in->n = mine && in->n == mine ? 2 : 1;
            }
            if (o && o->req) o->req = mine && o->req == mine ? 2 : 1;
            if (mine) p->mine = 2;
        }
        l->seq = 2;
        sort_ports(l);
    }
    rename_all(w, c);
}

static void init(void *world, const void *cfg) {
    struct small *w = world;
    const struct world_cfg *c = cfg;
    const struct leave_cfg lc = {.ports = NODES - 1};
    struct moyai_error why;
    memset(w, 0, sizeof *w);
    w->crashes = c->crashes;
    w->resets = c->resets;
    w->opens = c->opens;
    if (leave_size(&lc) > BLOCK) abort();
    for (uint32_t i = 0; i < c->n; i++)
        if (leave_init(machine(w, i), &lc) < 0) abort();
    for (uint32_t i = 0; i < c->n; i++)
        for (uint32_t k = 0; k < c->n; k++)
            if (k != i && c->edges[k < i ? k : i] & 1u << (k < i ? i : k) &&
                step(w, i, (struct leave_event){.kind = LEAVE_EV_OPEN, .link = link_to(k)}, 0, &why) < 0)
                abort();
    settle(w, cfg);
}

static void tell(void *world, const void *cfg, uint32_t m, char *text, size_t n) {
    static const char *const pair[] = {"says a message, to", "'s frame is received by", ": broken, the channel to",
                                       "notices the end of its channel to", "opens a channel to"};
    const struct small *w = world;
    (void)cfg;
    const uint32_t at = m >= M_SAY ? (m - M_SAY) % (NODES * NODES) : 0, i = at / NODES, k = at % NODES;
    if (m >= M_SAY)
        snprintf(text, n, "%" PRIu32 " %s %" PRIu32 " %s", i, pair[(m - M_SAY) / (NODES * NODES)], k,
                 m >= M_RECV && m < M_RESET && w->q[i][k][0].used ? frame_names[w->q[i][k][0].kind] : "");
    else
        snprintf(text, n, "%" PRIu32 " %s", m % NODES,
                 m >= M_CRASH  ? "crashes"
                 : m >= M_PASS ? "passes a message up"
                               : "wants to leave");
}

/* --- worlds --------------------------------------------------------------------------------------- */

#define CHAIN3    .n = 3, .edges = {2, 4}
#define TRIANGLE  .n = 3, .edges = {6, 4}
#define STAR4     .n = 4, .edges = {14}
#define CHAIN4    .n = 4, .edges = {2, 4, 8}
#define CYCLE4    .n = 4, .edges = {10, 4, 8}
#define PAW       .n = 4, .edges = {14, 4}
#define DIAMOND   .n = 4, .edges = {14, 12}
#define COMPLETE4 .n = 4, .edges = {14, 12, 8}

static const struct world_cfg usual[] = {
    {.name = "chain", CHAIN3, .messages = 2},
    {.name = "triangle", TRIANGLE, .messages = 2},
    {.name = "anyhow-3", TRIANGLE, .messages = 1, .anyhow = true},
    {.name = "crash-3", TRIANGLE, .messages = 1, .crashes = 1},
    {.name = "reset-3", TRIANGLE, .messages = 1, .resets = 1},
    {.name = "open-3", CHAIN3, .messages = 1, .opens = 1},
    {.name = "star-4", STAR4, .messages = 1},
    {.name = "chain-4", CHAIN4, .messages = 1},
    {.name = "cycle-4", CYCLE4},
    {.name = "paw", PAW},
    {.name = "diamond", DIAMOND},
};

static const struct world_cfg larger[] = {
    {.name = "L-all-3", TRIANGLE, .messages = 2, .crashes = 1, .resets = 1, .opens = 1},
    {.name = "L-star-4", STAR4, .messages = 2},
    {.name = "L-chain-4", CHAIN4, .messages = 2},
    {.name = "L-cycle-4", CYCLE4, .messages = 2},
    {.name = "L-paw", PAW, .messages = 2},
    {.name = "L-diamond", DIAMOND, .messages = 1},
    {.name = "L-diamond-2a", DIAMOND, .messages = 2, .stayer = 1},
    {.name = "L-diamond-2b", DIAMOND, .messages = 2, .stayer = 2},
    {.name = "L-complete", COMPLETE4},
    {.name = "L-complete-1", COMPLETE4, .messages = 1, .stayer = 1},
    {.name = "L-complete-2", COMPLETE4, .messages = 2, .stayer = 1},
    {.name = "L-crash-4", CYCLE4, .messages = 1, .crashes = 1},
    {.name = "L-reset-4", CYCLE4, .resets = 1},
    {.name = "L-open-4", STAR4, .opens = 1},
    {.name = "L-all-4", PAW, .messages = 1, .crashes = 1, .resets = 1, .opens = 1},
};

static struct explore_model model(size_t i, const char **called) {
    const size_t n = sizeof usual / sizeof *usual;
    const struct world_cfg *world = i < n ? &usual[i] : &larger[i - n];
    *called = world->name;
    find_names(world);
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
                                                 .budget = 5000000,
                                                 .long_budget = 20000000};
    return explore_main(argc, argv, &worlds);
}
