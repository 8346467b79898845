/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random grids in which nodes are killed, links are reset, the network falls apart in silence, and processes are
 * stopped: who is declared dead?
 *
 *   death_soak [--seed N] [--runs N] [--shuffle-ties] [--trace]
 *
 * Each node is the real machine with the least of a driver. Ends notice a broken link within 60 ms, messages take up
 * to 50 ms, a stopped node does nothing until it goes on, across a cut nothing passes and nothing is reset. A node
 * without links is cut off. Witnesses speak sometimes.
 *
 * Laws. Whoever is declared dead has been killed, or all links of which others had heard were reset within a case's
 * life, or the resets noticed by others within it. A node killed while all is quiet around it, with three neighbours on
 * two other hosts, is dead for all its neighbours within the window and the time of two messages; and so is one that
 * refuses. A live one that was declared dead is told when it has links again.
 */
#include "overlay/death.h"
#include "overlay/death_internal.h"
#include "overlay/death_wire.h"
#include "sim/trace.h"
#include "sim/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS     ((moyai_ns)MOYAI_MS)
#define NODES  32u
#define NOTICE 60u /* ms */
#define DELAY  50u
#define LIFE   (3000 * MS) /* of a case and the messages about it, with some room */
#define QUIET  (700 * MS)  /* around a kill of which the second law speaks */

/* Seeds that once failed, and of what. */
static const uint64_t regressions[] = {
    1008783, /* who had lost a link to it a second before answered those who asked now only at its next look */
    1003027, /* a neighbour on its own host counted as silent, and nobody had asked it */
    1003395, /* the same */
    1003333, /* whose word of one death completed the case of another was not told of that one */
    1000865, /* a link that was gone was written down as broken anew, and when it broke was forgotten: a fault of the
                law */
    1002415, /* the only one who could object was itself taken for dead (spec 06, 6.1): a fault of the law */
    8200430, /* who judged had been stopped, and noticed late that its link had broken (6.5): a fault of the law */
};

struct grid;
struct host {
    struct grid *g;
    uint32_t index, generation, host;
    uint32_t doomed; /* the generation that was declared dead */
    struct death *d; /* NULL: killed */
    bool stopped, side, told;
    moyai_ns timer, until; /* until: stopped */
};

struct grid {
    struct world w;
    struct trace trace;
    struct moyai_rng rng;
    struct host h[NODES];
    uint8_t link[NODES][NODES]; /* 1: up, 2: broken, this end has not noticed; [a][b] is a's end */
    uint32_t born[NODES][NODES];
    moyai_ns made_at[NODES][NODES];
    moyai_ns broke_at[NODES][NODES][2];   /* the last time, and the one before */
    moyai_ns noticed_at[NODES][NODES][2]; /* and when the other end noticed: late, if it was stopped */
    uint32_t list[NODES];                 /* whom each has told its neighbours to be linked to, as bits */
    bool cut;
    moyai_ns disturbed; /* last stop, cut, or kill */
    moyai_ns late_at;   /* last end of a stop or of a cut */
    uint64_t kills, clean, resets, wrong_deaths, told, declared;
    const char *broken;
    char why[256];
};

struct letter {
    struct grid *g;
    uint32_t from, to, generation, from_generation;
    size_t n;
    uint8_t type, p[];
};

static struct moyai_node_id id_of(uint32_t index, uint32_t generation) {
    struct moyai_node_id id = {{(uint8_t)(index + 1), (uint8_t)generation, (uint8_t)(generation >> 8)}};
    id.b[15] = 1;
    return id;
}
static uint32_t index_of(const uint8_t id[16]) {
    return id[0] - 1u;
}
static uint32_t generation_of(const uint8_t id[16]) {
    return id[1] | (uint32_t)id[2] << 8;
}

static void fail(struct grid *g, const char *text, uint32_t i) {
    if (g->broken) return;
    snprintf(g->why, sizeof g->why, "node %" PRIu32 ": %.200s", i, text);
    g->broken = g->why;
}

static void act(struct host *h, struct death_event ev);

static uint32_t links_of(const struct grid *g, uint32_t i) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < NODES; k++) n += g->link[i][k] == 1 && g->link[k][i] == 1;
    return n;
}

/* May messages be late, or have been lost, within the life of a case? */
static bool late(const struct grid *g) {
    bool stopped = false;
    for (uint32_t k = 0; k < NODES; k++) stopped = stopped || g->h[k].stopped;
    return g->cut || stopped || (g->late_at && g->late_at + LIFE >= g->w.now);
}

/* Has it a link by which it cannot be declared dead: older than all that was reset within the life of a case (of
 * younger ones nobody may have heard), to one who is not taken for dead itself (its word counts nothing), and to
 * another host, or to its own if that one's objection was in time? */
static bool rooted(const struct grid *g, uint32_t i) {
    moyai_ns first = UINT64_MAX;
    for (uint32_t k = 0; k < NODES; k++) {
        for (int n = 0; n < 2; n++) {
            moyai_ns t = g->broke_at[i][k][n], noticed = g->noticed_at[i][k][n];
            if (t && (t + LIFE >= g->w.now || noticed + LIFE >= g->w.now) && t < first) first = t;
        }
    }
    for (uint32_t k = 0; k < NODES; k++)
        if (g->link[i][k] == 1 && g->link[k][i] == 1 && g->made_at[i][k] < first &&
            g->h[k].doomed != g->h[k].generation && (g->h[k].host != g->h[i].host || !late(g)))
            return true;
    return false;
}

/* --- messages and timers --------------------------------------------------------------------------- */

static void arrive(void *who, uint64_t what) {
    struct letter *l = who;
    struct grid *g = l->g;
    struct host *h = &g->h[l->to];
    (void)what;
    bool here = h->d && h->generation == l->generation && !(g->cut && h->side != g->h[l->from].side);
    if (here && h->stopped) {
        world_at(&g->w, h->until + 1, arrive, l, 0);
        return;
    }
    if (here && links_of(g, l->to)) {
        static struct death_frame f;
        struct moyai_error why;
        if (death_wire_get(l->type, l->p, l->n, &f, &why) < 0) fail(g, why.text, l->to);
        act(h, (struct death_event){.kind = DEATH_EV_FRAME, .id = id_of(l->from, l->from_generation), .frame = &f});
    }
    free(l);
}

static void post(struct host *h, const struct moyai_node_id *to, const struct death_frame *f) {
    struct grid *g = h->g;
    size_t n = death_wire_size(f);
    if (!links_of(g, h->index)) return;
    struct letter *l = malloc(sizeof *l + n);
    if (!l) abort();
    *l = (struct letter){
        g, h->index, index_of(to->b), generation_of(to->b), h->generation, n, (uint8_t)(FRAME_DEATH + f->kind)};
    death_wire_put(l->p, f);
    world_in(&g->w, (moyai_dur)(rng_below(&g->rng, DELAY * MS)), arrive, l, 0);
}

static void tick(void *who, uint64_t when) {
    struct host *h = who;
    if (!h->d || h->timer != when) return;
    h->timer = 0;
    if (h->stopped) {
        h->timer = h->until + 1;
        world_at(&h->g->w, h->timer, tick, h, h->timer);
        return;
    }
    act(h, (struct death_event){.kind = DEATH_EV_TIMEOUT});
}

static void set_timer(struct host *h) {
    moyai_ns at = death_deadline(h->d);
    if (at == UINT64_MAX || (h->timer && h->timer <= at)) return;
    h->timer = at > h->g->w.now ? at : h->g->w.now;
    world_at(&h->g->w, h->timer, tick, h, h->timer);
}

/* --- links ----------------------------------------------------------------------------------------- */

static uint64_t pair(uint32_t a, uint32_t b, uint32_t born) {
    return (uint64_t)born << 16 | a << 8 | b;
}

/* The end of a at b has broken; it is noticed now, unless a is stopped. */
static void notice(void *who, uint64_t what) {
    struct grid *g = who;
    uint32_t a = what >> 8 & 255, b = what & 255;
    struct host *h = &g->h[a];
    if (g->born[a][b] != what >> 16 || g->link[a][b] != 2) return;
    if (h->d && h->stopped) {
        world_at(&g->w, h->until + 1, notice, g, what);
        return;
    }
    g->link[a][b] = 0;
    g->noticed_at[b][a][0] = g->w.now;
    if (!h->d) return;
    struct death_member m[DEATH_MEMBERS];
    struct death_event ev = {.kind = DEATH_EV_END, .id = id_of(b, g->h[b].generation), .members = m};
    g->list[a] &= ~(1u << b);
    for (uint32_t k = 0; k < NODES; k++)
        if (k != a && g->list[b] >> k & 1)
            m[ev.n++] = (struct death_member){id_of(k, g->h[k].generation), g->h[k].host};
    if (death_of(h->d, &ev.id) == DEATH_NOT_KNOWN && death_link_to(h->d, ev.id.b)) act(h, ev);
}

static void break_link(struct grid *g, uint32_t a, uint32_t b) {
    for (int i = 0; i < 2; i++) {
        uint32_t from = i ? a : b, to = i ? b : a;
        if (g->link[from][to] != 1) continue;
        g->broke_at[from][to][1] = g->broke_at[from][to][0];
        g->broke_at[from][to][0] = g->w.now;
        g->noticed_at[from][to][1] = g->noticed_at[from][to][0];
        g->noticed_at[from][to][0] = 0;
        g->link[from][to] = 2;
        world_in(&g->w, (moyai_dur)rng_below(&g->rng, NOTICE * MS), notice, g, pair(from, to, g->born[from][to]));
    }
}

static void make_link(struct grid *g, uint32_t a, uint32_t b) {
    struct host *x = &g->h[a], *y = &g->h[b];
    if (a == b || g->link[a][b] || g->link[b][a] || !x->d || !y->d || x->stopped || y->stopped) return;
    if (g->cut && x->side != y->side) return;
    g->born[a][b] = g->born[b][a] = g->born[a][b] + 1;
    g->link[a][b] = g->link[b][a] = 1;
    g->made_at[a][b] = g->made_at[b][a] = g->w.now;
    g->list[a] |= 1u << b;
    g->list[b] |= 1u << a;
    for (int i = 0; i < 2; i++) {
        struct host *h = i ? x : y, *o = i ? y : x;
        if (!h->d || !o->d) return;
        struct death_event ev = {.kind = DEATH_EV_UP, .id = id_of(o->index, o->generation), .host = o->host};
        if (death_of(h->d, &ev.id) != DEATH_NOT_KNOWN) { /* refused, and told why */
            g->link[a][b] = g->link[b][a] = 0;
            g->list[a] &= ~(1u << b);
            g->list[b] &= ~(1u << a);
            act(h, (struct death_event){.kind = DEATH_EV_HEARD, .id = ev.id});
            return;
        }
        act(h, ev);
    }
}

/* --- effects --------------------------------------------------------------------------------------- */

static void declared(struct host *h, const struct moyai_node_id *id) {
    struct grid *g = h->g;
    uint32_t k = index_of(id->b);
    struct host *x = &g->h[k];
    g->declared++;
    if (x->generation == generation_of(id->b) && x->d) {
        g->wrong_deaths++;
        bool first = x->doomed != x->generation; /* those that come after have it from the first */
        x->doomed = x->generation;
        if (first && rooted(g, k)) fail(g, "declared dead, and it lives", k);
        if (g->link[h->index][k] == 1) break_link(g, h->index, k);
    }
}

static void probe(void *who, uint64_t what) {
    struct host *h = who;
    uint32_t k = what & 255;
    const struct moyai_node_id id = id_of(k, (uint32_t)(what >> 8));
    if (!h->d || h->stopped) return;
    if (h->g->h[k].d && h->g->h[k].generation == what >> 8) return; /* it listens, or does not answer */
    if (h->g->cut && h->side != h->g->h[k].side) return;
    act(h, (struct death_event){.kind = DEATH_EV_REFUSED, .id = id});
}

static void rejoin(void *who, uint64_t what) {
    struct host *h = who;
    if (h->generation == what && h->d) {
        for (uint32_t k = 0; k < NODES; k++) break_link(h->g, h->index, k);
        free(h->d);
        h->d = NULL;
        h->g->told++;
    }
}

static void act(struct host *h, struct death_event ev) {
    static struct death_effect fx;
    struct grid *g = h->g;
    struct moyai_error why;
    if (g->broken) return;
    ev.now = g->w.now;
    int rc = death_step(h->d, &ev);
    if (rc < 0) fail(g, moyai_err_name(rc), h->index);
    while (death_next(h->d, &fx)) {
        const struct moyai_node_id id = fx.id;
        trace_line(&g->trace, g->w.now, "", "%" PRIu32 " fx %d of %" PRIu32 ".%" PRIu32 " frame %d", h->index,
                   (int)fx.kind, index_of(id.b), generation_of(id.b), (int)fx.frame.kind);
        if (fx.kind == DEATH_FX_SEND) post(h, &id, &fx.frame);
        if (fx.kind == DEATH_FX_DECLARED) declared(h, &id);
        if (fx.kind == DEATH_FX_PROBE && (index_of(id.b) + h->index) % 3 == 0)
            world_in(&g->w, (moyai_dur)rng_below(&g->rng, 2 * DELAY * MS), probe, h,
                     (uint64_t)generation_of(id.b) << 8 | index_of(id.b));
        if (fx.kind == DEATH_FX_TOLD) world_in(&g->w, 0, rejoin, h, h->generation);
    }
    if (!death_check(h->d, &why)) fail(g, why.text, h->index);
    set_timer(h);
}

/* --- trouble --------------------------------------------------------------------------------------- */

static void start(struct host *h) {
    const struct death_cfg cfg = {.self = id_of(h->index, ++h->generation), .host = h->host, .links = NODES};
    h->d = sim_alloc(death_size(&cfg));
    if (death_init(h->d, &cfg) < 0) abort();
    h->stopped = h->told = false;
    h->timer = 0;
    h->g->list[h->index] = 0;
    memset(h->g->broke_at[h->index], 0, sizeof h->g->broke_at[h->index]);
    memset(h->g->noticed_at[h->index], 0, sizeof h->g->noticed_at[h->index]);
}

struct kill { /* of which the law speaks */
    struct grid *g;
    struct moyai_node_id id;
    uint32_t near[NODES], generation[NODES], n;
    moyai_ns at;
};

static void examine(void *who, uint64_t what) {
    struct kill *k = who;
    struct grid *g = k->g;
    (void)what;
    uint32_t live = 0, hosts = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        if (!g->h[k->near[i]].d || g->h[k->near[i]].generation != k->generation[i]) continue;
        live++;
        hosts |= 1u << g->h[k->near[i]].host;
    }
    if (g->disturbed == k->at && live >= 3 && hosts & (hosts - 1)) { /* nothing else has happened meanwhile */
        g->clean++;
        for (uint32_t i = 0; i < k->n; i++) {
            struct host *h = &g->h[k->near[i]];
            if (h->d && h->generation == k->generation[i] && death_of(h->d, &k->id) != DEATH_IS_DEAD)
                fail(g, "was killed, and a neighbour does not know", index_of(k->id.b));
        }
    }
    free(k);
}

static void kill_node(struct grid *g, uint32_t i, bool witness) {
    struct host *h = &g->h[i];
    if (!h->d) return;
    struct kill *k = sim_alloc(sizeof *k);
    *k = (struct kill){.g = g, .id = id_of(i, h->generation), .at = g->w.now};
    uint32_t hosts = 0, mask = 0;
    bool whole = true;
    for (uint32_t n = 0; n < NODES; n++) {
        whole = whole && g->link[i][n] != 2 && g->link[n][i] != 2;
        whole = whole &&
                (!g->broke_at[i][n][0] || g->broke_at[i][n][0] + LIFE < g->w.now); /* no words of an earlier case */
        if (g->link[i][n] != 1) continue;
        k->near[k->n] = n;
        k->generation[k->n++] = g->h[n].generation;
        if (!(mask >> g->h[n].host & 1)) hosts++;
        mask |= 1u << g->h[n].host;
    }
    bool quiet = whole && !g->cut && g->disturbed + QUIET < g->w.now && k->n >= 3 && hosts >= 2;
    for (uint32_t n = 0; n < NODES; n++) quiet = quiet && !g->h[n].stopped;
    g->disturbed = g->w.now;
    for (uint32_t n = 0; n < NODES; n++) break_link(g, i, n);
    free(h->d);
    h->d = NULL;
    g->kills++;
    if (witness && k->n) {
        struct host *w = &g->h[k->near[0]];
        if (w->d && !w->stopped)
            act(w, (struct death_event){.kind = DEATH_EV_WITNESSED, .id = k->id, .cause = DEATH_SIGNAL, .number = 9});
    }
    uint32_t n = 0; /* those without another link cannot be told */
    for (uint32_t old = 0; old < k->n; old++) {
        if (!links_of(g, k->near[old])) continue;
        k->near[n] = k->near[old];
        k->generation[n++] = k->generation[old];
    }
    k->n = n;
    if (quiet)
        world_in(&g->w, (moyai_dur)((NOTICE + 100 + 3 * DELAY) * MS), examine, k, 0);
    else
        free(k);
}

static void go_on(void *who, uint64_t what) {
    struct host *h = who;
    (void)what;
    h->stopped = false;
    h->g->disturbed = h->g->late_at = h->g->w.now;
}

static void trouble(struct grid *g) {
    uint32_t i = (uint32_t)rng_below(&g->rng, NODES), b = (uint32_t)rng_below(&g->rng, NODES);
    struct host *h = &g->h[i];
    switch (rng_below(&g->rng, 12)) {
    case 0:
    case 1:
    case 2:
        kill_node(g, i, false);
        break;
    case 3:
        kill_node(g, i, true);
        break;
    case 4: /* all of one host */
        for (uint32_t k = 0; k < NODES; k++)
            if (g->h[k].host == h->host) kill_node(g, k, false);
        break;
    case 5: /* stopped */
        if (!h->d || h->stopped) break;
        h->stopped = true;
        h->until = g->w.now + 1 + rng_below(&g->rng, 5000 * MS);
        g->disturbed = g->w.now;
        world_at(&g->w, h->until, go_on, h, 0);
        break;
    case 6: /* a cut in silence */
        g->cut = !g->cut;
        g->disturbed = g->late_at = g->w.now;
        for (uint32_t k = 0; g->cut && k < NODES; k++) g->h[k].side = rng_below(&g->rng, 2);
        break;
    case 7: /* all links of one that lives are reset */
        if (!h->d) break;
        g->disturbed = g->w.now;
        for (uint32_t k = 0; k < NODES; k++) break_link(g, i, k);
        break;
    case 8: /* all but one */
        for (uint32_t k = 0, kept = 0; k < NODES; k++) {
            if (g->link[i][k] == 1 && g->link[k][i] == 1 && kept++ == 0) continue;
            break_link(g, i, k);
        }
        g->disturbed = g->w.now;
        g->resets++;
        break;
    default:
        break_link(g, i, b);
        g->resets++;
        if (g->link[i][b]) g->disturbed = g->w.now;
    }
}

/* Dead places are filled again, and links made until each has enough. */
static void mend(void *who, uint64_t what) {
    struct grid *g = who;
    if (g->broken) return;
    for (uint32_t i = 0; i < NODES; i++) {
        struct host *h = &g->h[i];
        bool settled = true;
        for (uint32_t k = 0; k < NODES; k++) settled = settled && !g->link[k][i];
        if (!h->d && settled && rng_below(&g->rng, 4) == 0) start(h);
        for (int n = 0; h->d && links_of(g, i) < 6 && n < 3; n++) make_link(g, i, (uint32_t)rng_below(&g->rng, NODES));
    }
    world_in(&g->w, (moyai_dur)(300 * MS), mend, g, what);
}

static const char *run(uint64_t seed, bool shuffle, FILE *print, uint64_t *hash, struct grid *sum) {
    static struct grid g;
    static char why[512];
    memset(&g, 0, sizeof g);
    world_init(&g.w, seed, shuffle);
    rng_fork(&g.w.rng, "death", 0, &g.rng);
    trace_init(&g.trace, false, print);
    uint32_t hosts = 4 + (uint32_t)rng_below(&g.rng, 27);
    for (uint32_t i = 0; i < NODES; i++) {
        g.h[i] = (struct host){.g = &g, .index = i, .host = 1 + i % hosts};
        start(&g.h[i]);
    }
    mend(&g, 0);
    moyai_ns end = g.w.now + 60000 * MS;
    uint64_t every = 200 + rng_below(&g.rng, 4000);
    while (g.w.now < end && !g.broken) {
        (void)world_run(&g.w, NULL, NULL, g.w.now + rng_below(&g.rng, every * MS));
        trouble(&g);
    }
    g.cut = false;
    (void)world_run(&g.w, NULL, NULL, g.w.now + 8000 * MS);
    const char *wrong = g.broken ? strncpy(why, g.broken, sizeof why - 1) : NULL;
    *hash = g.trace.hash;
    sum->kills += g.kills;
    sum->clean += g.clean;
    sum->resets += g.resets;
    sum->declared += g.declared;
    sum->wrong_deaths += g.wrong_deaths;
    sum->told += g.told;
    g.broken = "over";
    (void)world_run(&g.w, NULL, NULL, g.w.now + 20000 * MS); /* letters free themselves */
    world_done(&g.w);
    for (uint32_t i = 0; i < NODES; i++) free(g.h[i].d);
    trace_done(&g.trace);
    return wrong;
}

int main(int argc, char **argv) {
    uint64_t seed = 1, runs = 60, failed = 0;
    bool shuffle = false, trace = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seed") && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--runs") && i + 1 < argc) {
            runs = strtoull(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--shuffle-ties")) {
            shuffle = true;
        } else if (!strcmp(argv[i], "--trace")) {
            trace = true;
            runs = 1;
        } else {
            fprintf(stderr, "usage: %s [--seed N] [--runs N] [--shuffle-ties] [--trace]\n", argv[0]);
            return 2;
        }
    }
    printf("seed %" PRIu64 ", %" PRIu64 " runs\n", seed, runs);
    fflush(stdout);
    static struct grid t;
    const size_t old = trace ? 0 : sizeof regressions / sizeof *regressions;
    for (uint64_t i = 0; i < old + runs && failed < 5; i++) {
        uint64_t s = i < old ? regressions[i] : seed + i - old, hash, again;
        static struct grid unused;
        const char *wrong = run(s, shuffle, trace ? stdout : NULL, &hash, &t);
        if (!wrong && s % 16 == 0) wrong = run(s, shuffle, NULL, &again, &unused);
        if (!wrong && s % 16 == 0 && hash != again) wrong = "the same seed twice, two different runs";
        if (!wrong && s % 16 == 0) wrong = run(s, !shuffle, NULL, &again, &unused);
        if (wrong) printf("seed %" PRIu64 ": %s\n", s, wrong);
        failed += wrong != NULL;
    }
    printf("%" PRIu64 " killed, %" PRIu64 " of them while all was quiet; %" PRIu64 " resets; %" PRIu64
           " declarations, %" PRIu64 " of a live node without links, %" PRIu64 " told\n",
           t.kills, t.clean, t.resets, t.declared, t.wrong_deaths, t.told);
    if (!failed && runs >= 50 && (!t.clean || !t.wrong_deaths || !t.told)) {
        printf("something never happens: the soak does not do its work\n");
        return 1;
    }
    return failed != 0;
}
