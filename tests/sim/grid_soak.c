/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random grids of whole nodes (sim/grid): no story, only laws.
 *
 *   grid_soak [--seed N] [--runs N] [--nodes N] [--seconds N] [--shuffle-ties] [--trace] [--long] [--no-kept]
 *             [--only NAME] [--without BITS]
 *
 * Each run: sites of both kinds, nodes that join, leave, crash and are stopped, sites that are cut off, links that
 * break or fall silent, calls and names, all drawn from the seed; then all trouble ends, and some time later the grid
 * must be whole and every call have ended.
 */
#include "overlay/death_wire.h"
#include "overlay/relay.h"
#include "sim/grid/grid.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND ((moyai_ns)MOYAI_SEC)
#define CALM   100 /* seconds after the last trouble; then all has grown together */
#define QUIET  75  /* seconds after the last call; then sessions that nobody needs have ended */

struct options {
    uint64_t seed, runs;
    uint32_t nodes, seconds;
    bool shuffle, trace, longer, no_kept;
    const char *only;
    uint32_t without;    /* kinds of faults, as bits */
    uint64_t *never_far; /* calls over paths of which only a farewell's label tells that they were not executed */
};

static uint32_t pick(struct moyai_rng *r, uint32_t n) {
    return (uint32_t)rng_below(r, n);
}

struct run {
    struct world w;
    struct trace trace;
    struct grid g;
    struct moyai_rng rng;
};

static bool go(struct run *x, moyai_dur span) {
    moyai_ns until = x->w.now + (moyai_ns)span;
    while (x->w.now < until && !x->g.broken)
        (void)world_run(&x->w, NULL, NULL, x->w.now + SECOND / 10 < until ? x->w.now + SECOND / 10 : until);
    return !x->g.broken;
}

static void begin(struct run *x, uint64_t seed, const struct options *o, const struct grid_cfg *cfg) {
    memset(x, 0, sizeof *x);
    world_init(&x->w, seed, o->shuffle);
    rng_fork(&x->w.rng, "run", 0, &x->rng);
    trace_init(&x->trace, false, o->trace ? stdout : NULL);
    grid_init(&x->g, &x->w, &x->trace, cfg);
}

static const char *finish(struct run *x, uint64_t *hash) {
    static char why[600];
    bool broken = x->g.broken;
    if (broken) snprintf(why, sizeof why, "%s", x->g.why.text);
    *hash = x->trace.hash;
    grid_done(&x->g);
    world_done(&x->w);
    trace_done(&x->trace);
    return broken ? why : NULL;
}

static void report(const struct run *x) {
    printf("  %" PRIu32 " live; %" PRIu64 " joined, %" PRIu64 " left, %" PRIu64 " crashed; %" PRIu64 " calls, %" PRIu64
           " answered, %" PRIu64 " failed (%" PRIu64 " excused); %" PRIu64 " names found, %" PRIu64
           " not; declared dead alive %" PRIu64 ", told %" PRIu64 ", joined again %" PRIu64 "; %" PRIu64
           " frames relayed; %" PRIu64 " frames\n",
           x->g.live, x->g.count.joins, x->g.count.leaves, x->g.count.crashes, x->g.count.calls, x->g.count.answered,
           x->g.count.failed, x->g.count.excused, x->g.count.found, x->g.count.not_found, x->g.count.declared,
           x->g.count.told_dead, x->g.count.rejoined, x->g.count.relayed, x->g.net.frames);
    printf("  frames by type:");
    for (int i = 0; i < 80; i++)
        if (x->g.count.frames[i]) printf(" %d: %" PRIu64, i, x->g.count.frames[i]);
    printf("\n");
}

static const char *churn(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    struct moyai_rng r;
    rng_seed(&r, seed);
    uint32_t nodes = o->nodes ? o->nodes : 10 + pick(&r, 1u << (4 + pick(&r, 4)));
    struct grid_cfg cfg = {.sites = 1 + pick(&r, 12),
                           .open = pick(&r, 11),
                           .unaware = pick(&r, 11),
                           .silent = pick(&r, 2),
                           .delay = 1 + (moyai_dur)rng_below(&r, 100 * (uint64_t)MOYAI_MS),
                           .rate = pick(&r, 2) ? 0 : 1000000 + pick(&r, 10000000),
                           .large = pick(&r, 10),
                           .largest = 100000,
                           .memory = pick(&r, 2) ? 0 : 1 + pick(&r, 100000),
                           .idle = seed % 3 ? 0 : (1 + (moyai_dur)(seed % 256)) * MOYAI_MS,
                           .checked = 200,
                           .abrupt = 50};
    uint32_t kinds = pick(&r, 128) & ~o->without;
    double often = 1 + pick(&r, 60);
    struct grid_faults f = {.joins = often / 2 + nodes / 10.,
                            .leaves = kinds & 1 ? often / 4 : 0,
                            .crashes = kinds & 2 ? often / 4 : 0,
                            .stops = kinds & 4 ? often / 4 : 0,
                            .breaks = kinds & 8 ? often : 0,
                            .silences = kinds & 16 ? often / 10 : 0,
                            .parts = kinds & 32 ? 1 : 0,
                            .rendezvous = kinds & 64 ? 2 : 0,
                            .resets = seed % 2 ? often / 4 : 0,
                            .stop = 1 + (moyai_dur)rng_below(&r, 60 * (uint64_t)MOYAI_SEC),
                            .part = 1 + (moyai_dur)rng_below(&r, 200 * (uint64_t)MOYAI_SEC),
                            .many = 5};
    double share = nodes > 200 ? 200. / nodes : 1; /* a new name is asked for everywhere, and so is who has crashed: */
    if (nodes > 2000) share *= 2000. / nodes;      /* what that costs grows with the grid */
    struct grid_traffic t = {.calls = (1 + pick(&r, 30)) * share,
                             .lookups = pick(&r, 6) * share,
                             .names = 0.3 * share * share,
                             .near = pick(&r, 101)};
    begin(&x, seed, o, &cfg);
    grid_join(&x.g, nodes, pick(&r, 2) ? MOYAI_SEC : 20 * MOYAI_SEC);
    if (go(&x, 30 * MOYAI_SEC)) {
        grid_talk(&x.g, &t);
        grid_trouble(&x.g, &f);
    }
    if (go(&x, (o->seconds ? o->seconds : 60) * MOYAI_SEC)) grid_trouble(&x.g, NULL);
    if (go(&x, CALM * MOYAI_SEC)) grid_talk(&x.g, NULL);
    if (go(&x, QUIET * MOYAI_SEC)) (void)grid_rest(&x.g);
    if (o->trace || o->runs < 50) report(&x);
    return finish(&x, hash);
}

static const char *wrong(const char *fmt, double figure) {
    static char text[200];
    snprintf(text, sizeof text, fmt, figure);
    return text;
}

/* A thousand nodes in one second: nobody begins more connections than befits, nobody is overrun, and soon all is one.
 */
static const char *herd(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    struct moyai_rng r;
    rng_seed(&r, seed);
    uint32_t nodes = o->nodes ? o->nodes : 1000;
    const struct grid_cfg cfg = {.sites = 1 + pick(&r, 30),
                                 .open = pick(&r, 11),
                                 .unaware = pick(&r, 11),
                                 .delay = 50 * MOYAI_MS,
                                 .checked = 1000};
    begin(&x, seed, o, &cfg);
    grid_join(&x.g, nodes, MOYAI_SEC);
    uint32_t second = 0;
    struct grid_view v;
    do {
        (void)go(&x, MOYAI_SEC);
        v = grid_look(&x.g);
    } while (!x.g.broken && ++second < 60 && (v.parts > v.parts_least || v.live < nodes));
    const char *no = NULL;
    if (x.g.broken) {
    } else if (v.parts > v.parts_least) {
        no = wrong("the grid is in %.0f parts after a minute", v.parts);
    } else if (second > 20) {
        no = wrong("the grid is whole only after %.0f s", second);
    } else if (x.g.net.dials_most > 15) {
        no = wrong("a node begins %.0f connections in a second", (double)x.g.net.dials_most);
    } else if (x.g.net.calls_most > 150) {
        no = wrong("a node is connected to %.0f times in a second", (double)x.g.net.calls_most);
    }
    if (o->trace || o->runs < 50)
        printf("  %" PRIu32 " nodes are one grid after %" PRIu32 " s; %.1f connections begun each, at most %" PRIu64
               " in a second, %" PRIu64 " to one\n",
               nodes, second, (double)x.g.net.dials / nodes, x.g.net.dials_most, x.g.net.calls_most);
    const char *why = finish(&x, hash);
    return why ? why : no;
}

/* All call all, through relays that lend nothing: everything gets on. */
static const char *crowd(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    struct moyai_rng r;
    rng_seed(&r, seed);
    uint32_t nodes = o->nodes ? o->nodes : 20 + pick(&r, 21);
    const struct grid_cfg cfg = {.sites = 1 + pick(&r, 12),
                                 .open = 2,
                                 .unaware = 5,
                                 .delay = 1 + (moyai_dur)rng_below(&r, 50 * (uint64_t)MOYAI_MS),
                                 .rate = 1000000 + pick(&r, 10000000),
                                 .degree = 2 + pick(&r, 3),
                                 .memory = 1,
                                 .checked = 500,
                                 .patience = 300 * MOYAI_SEC};
    begin(&x, seed, o, &cfg);
    grid_join(&x.g, nodes, MOYAI_SEC);
    if (go(&x, 40 * MOYAI_SEC))
        for (uint32_t a = 0; a < nodes; a++)
            for (uint32_t b = 0; b < nodes; b++) grid_call(&x.g, a, b, pick(&r, 4) ? 100 : pick(&r, 100000));
    moyai_ns from = x.w.now;
    while (grid_open(&x.g) && go(&x, MOYAI_SEC)) {
    }
    if (o->trace || o->runs < 50)
        printf("  %" PRIu32 " nodes have called each other within %.0f s, %" PRIu32 " paths through one, %" PRIu64
               " frames relayed\n",
               nodes, (double)(x.w.now - from) * 1e-9, x.g.count.passing_most, x.g.count.relayed);
    bool goes_on = go(&x, 80 * MOYAI_SEC);
    /* With two links a node, what is retired for a link too many may part it (doc/spec/03-peers.md, 6.3). */
    for (int i = 0; cfg.degree == 2 && goes_on && i < 12; i++) {
        const struct grid_view v = grid_look(&x.g);
        if (v.parts <= v.parts_least) break;
        goes_on = go(&x, 10 * MOYAI_SEC);
    }
    if (goes_on) (void)grid_rest(&x.g);
    bool failed = x.g.count.failed > 0;
    const char *why = finish(&x, hash);
    return why ? why : failed ? "calls have failed" : NULL;
}

/* Few can be connected to, and many cannot: those few are full, and locating has a number for each link. All are one
 * grid, but those for whom there is no place (doc/spec/03-peers.md, 9.2). */
static const char *all_but_some(struct run *x, const struct options *o) {
    /* `most`, and `rescue` but for who looks; of these so many at most are kept for links between hubs as these are
     * fewer than a fifth of `degree` and one. */
    enum { PLACES = 48 + 12 - 1, KEPT = (12 - 1) / 4, BETWEEN = 4 + 1 };
    const struct grid_view v = grid_look(&x->g);
    uint32_t open = 0, places = 0;
    for (uint32_t i = 0; i < x->g.live; i++) {
        struct ground_node *u = x->g.net.node[x->g.lives[i]];
        if (x->g.net.site[u->site] != GROUND_OPEN) continue;
        uint32_t between = 0;
        for (uint32_t k = 0; k < u->n_conns; k++)
            between += x->g.net.site[ground_other(ground_conn_of(u, k), u)->site] == GROUND_OPEN;
        places += PLACES - between - (between > BETWEEN ? 0 : between + KEPT > BETWEEN ? BETWEEN - between : KEPT);
        open++;
    }
    uint32_t closed = x->g.live - open, out = closed > places ? closed - places : 0;
    if (o->trace || o->runs < 50)
        printf("  %" PRIu32 " hubs; links %" PRIu32 " to %" PRIu32 ", mean %.1f; %" PRIu32
               " nodes left out, %.1f links from each hub to hubs\n",
               open, v.least, v.most, v.mean, v.alone, open ? (double)v.between / open : 0.);
    if (v.alone > out) return wrong("%.0f nodes are left out", v.alone);
    if (out > 0 && v.between > BETWEEN * open)
        return wrong("links between hubs have %.1f places of each that others need", (double)v.between / open);
    return v.parts > v.parts_least + v.alone ? wrong("the grid is in %.0f parts", v.parts - v.alone) : NULL;
}

static const char *hubs(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    const struct grid_cfg cfg = {.sites = 60, .first = 1, .delay = 20 * MOYAI_MS, .degree = 16};
    begin(&x, seed, o, &cfg);
    grid_join(&x.g, o->nodes ? o->nodes : 500, MOYAI_SEC);
    (void)go(&x, 200 * MOYAI_SEC);
    const char *no = all_but_some(&x, o), *why = finish(&x, hash);
    return why ? why : no;
}

/* The same, and it was in two parts of about as many hubs each, or one hub was apart, and those who had no place took
 * those of the links between the parts. */
static const char *halves(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    const struct grid_cfg cfg = {.sites = 60, .first = 1, .delay = 20 * MOYAI_MS, .degree = 16};
    begin(&x, seed, o, &cfg);
    grid_join(&x.g, o->nodes ? o->nodes : 500, MOYAI_SEC);
    (void)go(&x, 60 * MOYAI_SEC);
    uint32_t every = 2 + pick(&x.rng, 7), n = 0;
    for (uint32_t i = 0; i < x.g.n; i++) {
        struct ground_node *u = x.g.net.node[i];
        u->part = (x.g.net.site[u->site] == GROUND_OPEN ? n++ : i) % every == 0;
    }
    ground_part(&x.g.net, true);
    (void)go(&x, 200 * MOYAI_SEC);
    ground_part(&x.g.net, false);
    (void)go(&x, 200 * MOYAI_SEC);
    const char *no = all_but_some(&x, o), *why = finish(&x, hash);
    return why ? why : no;
}

/* In a grid so large that the neighbours of one hardly know ways to each other, they agree that it is dead all the
 * same, and at once: what they first say arrives, it need not be said again after twice the window. */
static const char *deaths(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    const struct grid_cfg cfg = {.sites = 30, .open = 3, .delay = 20 * MOYAI_MS};
    begin(&x, seed, o, &cfg);
    uint32_t nodes = o->nodes ? o->nodes : 700, least = UINT32_MAX;
    moyai_ns longest = 0;
    grid_join(&x.g, nodes, MOYAI_SEC);
    (void)go(&x, 40 * MOYAI_SEC);
    const char *no = NULL;
    for (int i = 0; i < 4 && !x.g.broken; i++) {
        uint32_t a = pick(&x.rng, x.g.live), index = x.g.lives[a], links = x.g.net.node[index]->n_conns;
        moyai_ns from = x.w.now, until = from + 5 * (moyai_ns)MOYAI_SEC;
        grid_crash(&x.g, a);
        while (grid_mourners(&x.g, index) < links / 2 && x.w.now < until && go(&x, 5 * MOYAI_MS)) {
        }
        if (x.w.now - from > longest) longest = x.w.now - from;
        if (x.w.now < until) (void)go(&x, (moyai_dur)(until - x.w.now));
        uint32_t mourners = grid_mourners(&x.g, index);
        if (mourners < least) least = mourners;
        if (mourners < links / 2) no = wrong("%.0f know of a death", mourners);
    }
    if (!no && longest >= 200 * (moyai_ns)MOYAI_MS)
        no = wrong("half know of a death after %.0f ms", (double)longest * 1e-6);
    if (o->trace || o->runs < 50)
        printf("  each death is known to %" PRIu32 " or more, to half within %.0f ms\n", least, (double)longest * 1e-6);
    const char *why = finish(&x, hash);
    return why ? why : no;
}

/* Do all whose links to it have broken know that it is dead? */
static bool all_know(const struct run *x, uint32_t dead, const uint32_t *near, uint32_t n) {
    bool all = true;
    for (uint32_t i = 0; i < n; i++) all = all && grid_mourns(&x->g, near[i], dead);
    return all;
}

/* Who is told by a witness, before he would ask, does not ask the others whether the node lives: not one of them says
 * ENDED. Without one they do. (A word may get lost on a way over the dead node itself; who has not heard it asks.) */
static const char *witnessed(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    const struct grid_cfg cfg = {.sites = 4, .open = 10, .delay = MOYAI_MS};
    begin(&x, seed, o, &cfg);
    uint64_t asked[2] = {0}, least = UINT64_MAX, in_time = 0;
    grid_join(&x.g, o->nodes ? o->nodes : 100, MOYAI_SEC);
    (void)go(&x, 40 * MOYAI_SEC);
    for (uint32_t i = 0; i < 8 && !x.g.broken; i++) {
        uint32_t a = pick(&x.rng, x.g.live), index = x.g.lives[a], links = x.g.net.node[index]->n_conns;
        struct ground_node *u = x.g.net.node[index];
        uint32_t by = ground_other(ground_conn_of(u, pick(&x.rng, links)), u)->index;
        uint64_t before = x.g.count.forwarded[FRAME_DEATH + DEATH_ENDED];
        uint32_t near[64], n = 0;
        for (uint32_t k = 0; k < links && n < 64; k++) near[n++] = ground_other(ground_conn_of(u, k), u)->index;
        grid_crash(&x.g, a);
        for (uint32_t k = 0; i % 2 && k < x.g.live; k++)
            if (x.g.lives[k] == by) grid_witness(&x.g, k, index);
        (void)go(&x, 8 * MOYAI_MS);
        bool judged = i % 2 == 0 || all_know(&x, index, near, n);
        in_time += i % 2 && judged;
        (void)go(&x, 12 * MOYAI_MS);
        if (i % 2 && grid_mourners(&x.g, index) < least) least = grid_mourners(&x.g, index);
        (void)go(&x, 5 * MOYAI_SEC);
        if (judged) asked[i % 2] += x.g.count.forwarded[FRAME_DEATH + DEATH_ENDED] - before;
    }
    const char *no = NULL;
    if (asked[0] == 0) no = "nobody asks about a death that nobody has seen";
    if (asked[1] > 0) no = wrong("deaths that were seen are asked about by %.0f frames", (double)asked[1]);
    if (!no && in_time == 0) no = "no word of a witness reached all in time";
    if (!no && least < 8) no = wrong("%.0f know of a death that was seen", (double)least);
    if (o->trace || o->runs < 50)
        printf("  without witness %.0f frames a death ask; with one it is known to %" PRIu64 " or more within 20 ms\n",
               (double)asked[0] / 4, least);
    const char *why = finish(&x, hash);
    return why ? why : no;
}

/* Nodes that leave in order: what passes through them goes other ways before, and no path breaks in them. */
static const char *leaves(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    const struct grid_cfg cfg = {
        .sites = 10, .open = 3, .delay = 20 * MOYAI_MS, .large = 5, .largest = 50000, .checked = 200};
    const struct grid_traffic t = {.calls = 60, .near = 90};
    begin(&x, seed, o, &cfg);
    grid_join(&x.g, o->nodes ? o->nodes : 80, MOYAI_SEC);
    if (go(&x, 40 * MOYAI_SEC)) grid_talk(&x.g, &t);
    (void)go(&x, 20 * MOYAI_SEC);
    for (int i = 0; i < 30 && !x.g.broken; i++) {
        grid_leave(&x.g, pick(&x.rng, x.g.live));
        (void)go(&x, 2 * MOYAI_SEC);
    }
    grid_talk(&x.g, NULL);
    if (go(&x, QUIET * MOYAI_SEC)) (void)grid_rest(&x.g);
    uint64_t left = x.g.count.errors[RELAY_LEAVING];
    const char *no = left == 0 ? "no path has passed through who left" : NULL;
    /* By then it breaks those that are left. (Others break as links are given up for new ones.) */
    double ms = (double)x.g.count.leaving * 1e-6;
    if (ms >= 1000) no = wrong("paths through one who left have broken after %.0f ms", ms);
    if (o->trace || o->runs < 50) {
        report(&x);
        printf("  who leaves is gone within %.0f ms; errors of paths:", ms);
        for (int i = 0; i < 16; i++) printf(" %" PRIu64, x.g.count.errors[i]);
        printf("; %" PRIu64 " calls of it were never executed\n", x.g.count.cleared);
    }
    const char *why = finish(&x, hash);
    return why ? why : no;
}

/* Many leave in one moment, perhaps all, while others come, and in every other run some crash. Who leaves is gone soon,
 * as each has a way out, or knows that nobody stays; only a neighbour that ends otherwise may keep it until its time is
 * over. And those that stay are one grid again. */
static const char *exodus(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    struct moyai_rng r;
    rng_seed(&r, seed);
    const struct grid_cfg cfg = {.sites = 1 + pick(&r, 12),
                                 .open = 2 + pick(&r, 9),
                                 .unaware = pick(&r, 11),
                                 .delay = 1 + (moyai_dur)rng_below(&r, 50 * (uint64_t)MOYAI_MS),
                                 .degree = pick(&r, 2) ? 0 : 3 + pick(&r, 5),
                                 .checked = 50,
                                 .late = 40};
    const struct grid_traffic t = {.calls = 30, .lookups = 2, .names = 0.3, .near = 80};
    const struct grid_faults f = {.joins = pick(&r, 2) ? pick(&r, 60) : 0, .crashes = seed % 2 ? pick(&r, 60) : 0};
    const uint32_t nodes = o->nodes ? o->nodes : 8 + pick(&r, 1u << (4 + pick(&r, 4)));
    const uint32_t within = pick(&r, 2) ? 0 : pick(&r, 200); /* ms */
    begin(&x, seed, o, &cfg);
    grid_join(&x.g, nodes, MOYAI_SEC);
    if (go(&x, 40 * MOYAI_SEC)) grid_talk(&x.g, &t);
    const char *no = NULL;
    for (int i = 0; i < 3 && !x.g.broken && !no && x.g.live > 1; i++) {
        (void)go(&x, 10 * MOYAI_SEC);
        grid_trouble(&x.g, &f);
        (void)go(&x, pick(&x.rng, 1000) * MOYAI_MS);
        if (x.g.live < 2) break;
        uint32_t n = i == 2 && seed % 4 == 0 ? x.g.live : 1 + pick(&x.rng, x.g.live - 1);
        for (uint32_t k = 0; k < n && x.g.live && !x.g.broken; k++) {
            grid_leave(&x.g, pick(&x.rng, x.g.live)); /* some are told twice */
            if (within) (void)go(&x, within * MOYAI_MS / n);
        }
        const moyai_ns until = x.w.now + 35 * SECOND;
        while (grid_leaving(&x.g) && x.w.now < until && go(&x, 10 * MOYAI_MS)) {
        }
        const struct grid_view v = grid_look(&x.g);
        grid_trouble(&x.g, NULL);
        if (grid_leaving(&x.g)) no = wrong("%.0f that leave are still there", grid_leaving(&x.g));
        /* Where all can be linked to those that stay are connected without looking for each other anew. */
        if (cfg.open >= 10 && f.crashes + f.joins == 0 && !x.g.broken && v.parts > 1)
            no = wrong("those that stay are in %.0f parts", v.parts);
    }
    *o->never_far += x.g.count.cleared_far;
    const double ms = (double)x.g.count.leaving * 1e-6;
    const double wait = (double)x.g.count.waiting * 1e-9;
    if (!no && cfg.open >= 10 && f.crashes == 0 && wait > 3) no = wrong("a leaver waits for others for %.1f s", wait);
    if (!no && f.crashes == 0 && x.g.count.in_vain)
        no = wrong("%.0f waited in vain, though those that stay could be connected", (double)x.g.count.in_vain);
    if (!no && f.crashes == 0 && ms >= 1400) no = wrong("who leaves is gone after %.0f ms only", ms);
    if (go(&x, CALM * MOYAI_SEC)) grid_talk(&x.g, NULL);
    if (go(&x, QUIET * MOYAI_SEC)) (void)grid_rest(&x.g);
    if (o->trace || o->runs < 50) {
        report(&x);
        printf("  who leaves waits for others for %.2f s, %" PRIu64 " did not wait longer (%" PRIu64
               " without need), and is gone within %.0f ms\n",
               wait, x.g.count.cut_short, x.g.count.in_vain, ms);
        printf("  %" PRIu64 " calls were never executed, as their node was cleared, %" PRIu64
               " of them beyond others; of %" PRIu64 " it is not known\n",
               x.g.count.cleared, x.g.count.cleared_far, x.g.count.unsure);
    }
    const char *why = finish(&x, hash);
    return why ? why : no;
}

/* Most of those by whom the others are connected leave, in rows, with all that depend on them: nobody waits until his
 * time is over, and those that stay are one grid. */
static const char *forced(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    struct moyai_rng r;
    rng_seed(&r, seed);
    const struct grid_cfg cfg = {.sites = 2 + pick(&r, 6),
                                 .first = 1 + pick(&r, 40),
                                 .open = 1 + pick(&r, 3),
                                 .delay = 1 + (moyai_dur)rng_below(&r, 50 * (uint64_t)MOYAI_MS),
                                 .degree = 3 + pick(&r, 5),
                                 .checked = 50};
    const uint32_t nodes = o->nodes ? o->nodes : 8 + pick(&r, 40);
    begin(&x, seed, o, &cfg);
    grid_join(&x.g, nodes, MOYAI_SEC);
    (void)go(&x, 60 * MOYAI_SEC);
    const char *no = NULL;
    const bool one_grid = grid_look(&x.g).parts == 1; /* else there is nobody who can be connected to */
    for (uint32_t k = 0; k < x.g.live; k++)
        if (x.g.net.site[x.g.net.node[x.g.lives[k]]->site] == GROUND_OPEN && pick(&x.rng, 8)) grid_leave_all(&x.g, k);
    const moyai_ns until = x.w.now + 35 * SECOND;
    while (grid_leaving(&x.g) && x.w.now < until && go(&x, 10 * MOYAI_MS)) {
    }
    const struct grid_view v = grid_look(&x.g);
    if (grid_leaving(&x.g)) no = wrong("%.0f that leave are still there", grid_leaving(&x.g));
    if (!no && x.g.count.cut_short) no = wrong("%.0f waited until their time was over", (double)x.g.count.cut_short);
    if (!no && one_grid && !x.g.broken && v.parts > 1) no = wrong("those that stay are in %.0f parts", v.parts);
    if (o->trace || o->runs < 50) {
        report(&x);
        printf("  %" PRIu64 " left, %" PRIu64 " of them as they depended on others, within %.1f s\n", x.g.count.leaves,
               x.g.count.dependants, (double)x.g.count.waiting * 1e-9);
    }
    const char *why = finish(&x, hash);
    return why ? why : no;
}

enum { DEGREE = 3 };
/* Without a link between them, and with places for one: a node takes three times DEGREE. */
static bool strangers(const struct run *x, uint32_t a, uint32_t b) {
    return a != b && !grid_linked(&x->g, a, b) && !grid_linked(&x->g, b, a) &&
           x->g.net.node[x->g.lives[a]]->n_conns < 2 * DEGREE && x->g.net.node[x->g.lives[b]]->n_conns < 2 * DEGREE;
}

/* A session that is begun by a path on which nobody answers, as all who could have been stopped, goes over to a link to
 * its peer when that comes up: it does not wait for what the path may still bring. */
static const char *begun(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    const struct grid_cfg cfg = {.sites = 10, .open = 10, .delay = 20 * MOYAI_MS, .degree = DEGREE, .checked = 1};
    begin(&x, seed, o, &cfg);
    grid_join(&x.g, o->nodes ? o->nodes : 30, MOYAI_SEC);
    (void)go(&x, 40 * MOYAI_SEC);
    uint32_t a = 0, b = 0;
    for (int i = 0; i < 10000 && !strangers(&x, a, b); i++) {
        a = pick(&x.rng, x.g.live);
        b = pick(&x.rng, x.g.live);
    }
    const char *no = NULL;
    for (uint32_t i = 0; i < x.g.live; i++)
        if (i != a && i != b) grid_stop(&x.g, i);
    grid_call(&x.g, a, b, 100);
    (void)go(&x, (1 + (moyai_dur)pick(&x.rng, 1000)) * MOYAI_MS);
    if (!grid_begins(&x.g, a, b)) no = "the session is not being begun by a path";
    moyai_ns from = x.w.now, until = from + 20 * SECOND;
    grid_connect(&x.g, a, b);
    while (!no && grid_open(&x.g) && x.w.now < until && go(&x, 10 * MOYAI_MS)) {
    }
    /* Seven ways there and back at most: to connect, to agree, to open the session, to call. */
    double ms = (double)(x.w.now - from) * 1e-6;
    if (!no && ms > 300) no = wrong("a call waits for %.0f ms beside a link to its peer", ms);
    if (o->trace || o->runs < 50) printf("  a call is answered %.0f ms after its node has begun to connect\n", ms);
    const char *why = finish(&x, hash);
    return why ? why : no;
}

/* Most nodes are behind NATs that they do not know of, and filters that answer nothing. Those few that others can
 * connect to find out, and say so, and who joins is linked soon. */
static const char *few(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    const struct grid_cfg cfg = {.sites = 60, .first = 6, .unaware = 10, .silent = true, .delay = 20 * MOYAI_MS};
    begin(&x, seed, o, &cfg);
    grid_join(&x.g, o->nodes ? o->nodes : 100, MOYAI_SEC);
    (void)go(&x, 60 * MOYAI_SEC);
    const char *no = NULL;
    uint32_t open = 0;
    for (uint32_t i = 0; i < x.g.live && !x.g.broken; i++) {
        struct ground_node *u = x.g.net.node[x.g.lives[i]];
        const bool is_open = x.g.net.site[u->site] == GROUND_OPEN;
        bool reached = false; /* behind their NATs they have connected */
        for (uint32_t k = 0; k < u->n_conns; k++)
            reached |= x.g.net.site[ground_other(ground_conn_of(u, k), u)->site] == GROUND_NAT;
        open += is_open;
        if (is_open && reached && !grid_reached(&x.g, i)) no = "a node that others have reached does not say so";
        if (!is_open && grid_reached(&x.g, i)) no = "a node behind a NAT says that it was reached";
    }
    moyai_ns longest = 0;
    for (int i = 0; i < 10 && !no && !x.g.broken; i++) {
        const uint32_t n = x.g.live;
        const moyai_ns from = x.w.now, until = from + 60 * SECOND;
        grid_join(&x.g, 1, 0);
        while (x.w.now < until && go(&x, 10 * MOYAI_MS) && (x.g.live == n || grid_alone(&x.g, n))) {
        }
        if (x.w.now - from > longest) longest = x.w.now - from;
        (void)go(&x, 5 * MOYAI_SEC);
    }
    const double s = (double)longest * 1e-9;
    if (!no && open >= 3 && s > 5) no = wrong("who joins has a link after %.1f s only", s);
    if (o->trace || o->runs < 50)
        printf("  %" PRIu32 " of %" PRIu32 " nodes can be connected to; who joins has a link within %.2f s\n", open,
               x.g.live, s);
    const char *why = finish(&x, hash);
    return why ? why : no;
}

/* How many of other hosts it has links to; 0: too few to judge its end (doc/spec/06-death.md, 4.2 and 6.3). */
static uint32_t judges(struct run *x, uint32_t index, uint32_t per) {
    struct ground_node *u = x->g.net.node[index];
    uint32_t outside = 0, some = UINT32_MAX;
    bool two = false;
    for (uint32_t i = 0; i < u->n_conns; i++) {
        uint32_t host = ground_other(ground_conn_of(u, i), u)->index / per;
        if (host == index / per) continue;
        outside++;
        two |= some != UINT32_MAX && host != some;
        some = host;
    }
    return outside >= 3 && two ? outside : 0;
}

/* A host that ends is dead, each of its nodes, to those whom they were linked to: the silence of their neighbours on
 * the host is not waited for, also where nobody who judges has a link to these. */
static const char *hosts(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    enum { PER = 6 };
    const struct grid_cfg cfg = {.sites = 40, .open = 2, .unaware = 10, .delay = 20 * MOYAI_MS, .per_host = PER};
    begin(&x, seed, o, &cfg);
    uint32_t nodes = o->nodes ? o->nodes / PER * PER : 300, least = UINT32_MAX;
    grid_join(&x.g, nodes, MOYAI_SEC);
    (void)go(&x, 40 * MOYAI_SEC);
    const char *no = NULL;
    for (int i = 0; i < 6 && !x.g.broken; i++) {
        uint32_t first = x.g.lives[pick(&x.rng, x.g.live)] / PER * PER, links[PER];
        for (uint32_t k = 0; k < PER; k++) links[k] = judges(&x, first + k, PER);
        for (uint32_t k = 0; k < x.g.live; k++)
            if (x.g.lives[k] / PER * PER == first) grid_crash(&x.g, k--);
        (void)go(&x, 5 * MOYAI_SEC);
        for (uint32_t k = 0; k < PER; k++) {
            uint32_t mourners = grid_mourners(&x.g, first + k);
            if (links[k] > 0 && mourners < least) least = mourners;
            if (mourners < links[k] / 2) no = wrong("%.0f know of a death", mourners);
        }
    }
    if (o->trace || o->runs < 50) printf("  each death is known to %" PRIu32 " or more\n", least);
    const char *why = finish(&x, hash);
    return why ? why : no;
}

/* Nodes that are declared dead and live are told, and join again: nobody stays dead to anybody. */
static const char *told(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    struct moyai_rng r;
    rng_seed(&r, seed);
    const struct grid_cfg cfg = {.sites = 1 + pick(&r, 8),
                                 .open = pick(&r, 11),
                                 .delay = 1 + (moyai_dur)rng_below(&r, 50 * (uint64_t)MOYAI_MS),
                                 .checked = 200};
    const struct grid_faults f = {
        .resets = 20, .many = 5, .joins = pick(&r, 5), .crashes = pick(&r, 5), .stop = 1 + pick(&r, 40) * MOYAI_SEC};
    const struct grid_traffic t = {.calls = 5, .lookups = 2, .names = 0.5, .near = pick(&r, 101)};
    begin(&x, seed, o, &cfg);
    grid_join(&x.g, o->nodes ? o->nodes : 10 + pick(&r, 60), MOYAI_SEC);
    if (go(&x, 30 * MOYAI_SEC)) {
        grid_talk(&x.g, &t);
        grid_trouble(&x.g, &f);
    }
    if (go(&x, 120 * MOYAI_SEC)) grid_trouble(&x.g, NULL);
    if (go(&x, CALM * MOYAI_SEC)) grid_talk(&x.g, NULL);
    if (go(&x, QUIET * MOYAI_SEC)) (void)grid_rest(&x.g);
    const char *no = NULL;
    if (x.g.count.rejoined != x.g.count.told_dead) no = "who is told that it is dead does not join again";
    if (x.g.count.resets > 10 && x.g.count.rejoined == 0) no = "nobody was declared dead";
    if (o->trace || o->runs < 50) report(&x);
    const char *why = finish(&x, hash);
    return why ? why : no;
}

/* Who has died is remembered as long as others may pass on where it was, and no longer (doc/spec/06-death.md, 5.4):
 * here for longer than three times `reattach`. */
static const char *kept(uint64_t seed, const struct options *o, uint64_t *hash) {
    static struct run x;
    const struct grid_cfg cfg = {.sites = 10, .open = 5, .delay = 20 * MOYAI_MS, .reattach = 5 * MOYAI_SEC};
    static const moyai_dur at[] = {74 * MOYAI_SEC, 76 * MOYAI_SEC};
    begin(&x, seed, o, &cfg);
    grid_join(&x.g, o->nodes ? o->nodes : 30, MOYAI_SEC);
    (void)go(&x, 40 * MOYAI_SEC);
    const uint32_t a = pick(&x.rng, x.g.live), index = x.g.lives[a];
    const moyai_ns from = x.w.now;
    const char *no = NULL;
    grid_crash(&x.g, a);
    (void)go(&x, MOYAI_SEC / 2);
    uint32_t who = 0;
    while (who < x.g.live && !grid_mourns(&x.g, x.g.lives[who], index)) who++;
    if (!x.g.broken && who == x.g.live) no = "nobody knows of a death";
    for (int i = 0; i < 2 && !no; i++) {
        (void)go(&x, (moyai_dur)(from + (moyai_ns)at[i] - x.w.now));
        const uint64_t before = x.g.count.forwarded[FRAME_DEATH + DEATH_DEAD];
        if (x.g.broken) break;
        grid_pass_on(&x.g, who, (who + 1) % x.g.live, index);
        (void)go(&x, MOYAI_SEC / 2);
        const bool said = x.g.count.forwarded[FRAME_DEATH + DEATH_DEAD] > before;
        if (said != (i == 0)) no = said ? "a death is remembered for too long" : "a death has been forgotten";
    }
    const char *why = finish(&x, hash);
    return why ? why : no;
}

/* Once in `every` runs; and seeds that once failed, and of what. churn: 102, 321: ways that did not work were tried
 * again and again; 1033: full relays, too; 1139: each new probe of a silent link put off its end;
 * 1199: several silent links, one after the other; 5055: what locating alone had been told of a death; 1000074: judged
 * where nobody was left to whom others could connect; 2000007: stopped twice in a row; 7000013: what was said of a node
 * before counted after a stop, when it had left; 8100061: who leaves tells that it has no neighbours, and then nobody
 * was asked; 8500023: what others had said of a leaver came to one who was stopped when he went on, without links.
 * crowd: 1: both opened, and one gave the other's session up that had been settled; others: sessions that nobody needed
 * held all places of relays. hosts: 3044: a node had one link to another host, from where its end is not to be judged.
 * leaves: 3040: links were given up for new ones meanwhile. hubs: 12, 906: the hubs gave up the links between them, and
 * the grid fell into as many parts; 5000, 7072: the place that is for who looks was taken for one of the others', and
 * guests for whom nobody was asked any more hid that from the seeds before. halves: hubs of the two parts had no place
 * for each other any more. forced: the link over which a way to another was had been given up for a newcomer.
 * witnessed: words that were lost on their way over the dead node. */
struct kind {
    const char *name;
    const char *(*run)(uint64_t seed, const struct options *o, uint64_t *hash);
    uint64_t every;
    uint64_t failed[12]; /* 0 ends them */
};
static const struct kind kinds[] = {
    {"churn", churn, 1, {102, 321, 1033, 1139, 1199, 5055, 1000074, 2000007, 7000013, 8100061, 8500023}},
    {"crowd", crowd, 1, {1, 906, 3004, 3016, 3038, 3044, 4243, 1000013}},
    {"told", told, 1, {0}},
    {"kept", kept, 4, {0}},
    {"deaths", deaths, 4, {0}},
    {"hosts", hosts, 4, {3044}},
    {"witnessed", witnessed, 4, {1000044, 1000357}},
    {"leaves", leaves, 4, {3040}},
    {"exodus", exodus, 1, {0}},
    {"forced", forced, 1, {5045, 60065, 60217}},
    {"begun", begun, 1, {0}},
    {"few", few, 4, {0}},
    {"hubs", hubs, 8, {12, 906, 5000, 7072}},
    {"halves", halves, 8, {906, 5000}},
    {"herd", herd, 8, {0}},
};

static int one(const struct kind *k, uint64_t seed, const struct options *o) {
    uint64_t hash, again;
    const char *wrong = k->run(seed, o, &hash);
    if (!wrong && seed % 16 == 0 && !o->trace) {
        wrong = k->run(seed, o, &again);
        if (!wrong && hash != again) wrong = "the same seed twice, two different runs";
    }
    if (wrong) printf("%s, seed %" PRIu64 ": %s\n", k->name, seed, wrong);
    fflush(stdout);
    return wrong != NULL;
}

int main(int argc, char **argv) {
    uint64_t never_far = 0;
    struct options o = {.seed = 1, .runs = 4, .never_far = &never_far};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seed") && i + 1 < argc) {
            o.seed = strtoull(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--runs") && i + 1 < argc) {
            o.runs = strtoull(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--nodes") && i + 1 < argc) {
            o.nodes = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--seconds") && i + 1 < argc) {
            o.seconds = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--only") && i + 1 < argc) {
            o.only = argv[++i];
        } else if (!strcmp(argv[i], "--without") && i + 1 < argc) {
            o.without = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--shuffle-ties")) {
            o.shuffle = true;
        } else if (!strcmp(argv[i], "--no-kept")) {
            o.no_kept = true;
        } else if (!strcmp(argv[i], "--long")) {
            o.longer = true;
        } else if (!strcmp(argv[i], "--trace")) {
            o.trace = true;
            o.runs = 1;
        } else {
            fprintf(stderr,
                    "usage: %s [--seed N] [--runs N] [--nodes N] [--seconds N] [--shuffle-ties] [--trace] [--long] "
                    "[--no-kept] "
                    "[--only NAME] [--without BITS]\n",
                    argv[0]);
            return 2;
        }
    }
    printf("seed %" PRIu64 ", %" PRIu64 " runs\n", o.seed, o.runs);
    fflush(stdout);
    int failed = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (o.only && strcmp(o.only, kinds[k].name) != 0) continue;
        /* With another number of nodes they would be other grids. */
        for (int i = 0; !o.trace && !o.nodes && !o.no_kept && kinds[k].failed[i]; i++)
            failed += one(&kinds[k], kinds[k].failed[i], &o);
        for (uint64_t i = 0; i < o.runs && failed < 5; i += kinds[k].every) failed += one(&kinds[k], o.seed + i, &o);
        if (kinds[k].run == exodus && o.runs >= 4 && failed == 0 && never_far == 0) {
            printf("exodus: no call to one who was cleared, over a path, was under way when it left\n");
            failed++;
        }
    }
    return failed != 0;
}
