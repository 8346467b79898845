/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does a node have to do for the grid it is in, and does that grow with the grid? Grids of 100, 1,000 and 10,000
 * whole nodes run in the simulator (sim/grid: the overlay's own driver over virtual time), a third of their sites open,
 * the others behind NATs:
 *
 *   join     all within ten seconds, and half a minute more: connections, frames, bytes of a node
 *   idle     a minute in which nobody wants anything
 *   locate   each node looks up the same name within one second: frames of a node
 *   calls    each node calls another that it has nothing to do with: frames of a call, all told
 *   repair   a minute in which a tenth of the nodes crash and as many join: frames of a node beyond those of an idle
 *            minute
 *   lost     some nodes crash that others have a session with: frames of all for each, of those that look for it, tell
 * of its end, or end paths
 *
 * and the most that one node had: links, known nodes, paths that pass through; and memory.
 *
 *   sim-overlay [--seed N] [--kinds] [NODES...]
 *
 * --kinds: also how many frames of each type (doc/spec/00-links.md, 2.2). 10,000 nodes take 3 GB of memory and some
 * minutes, 100,000 ten times as much.
 *
 * The figure is the worst growth of all costs but the last from 1,000 nodes to the largest grid: 1 is flat. (In a grid
 * of 100 each knows everybody from what its neighbours say, and need not look.)
 */
#include "bench/bench.h"
#include "sim/grid/grid.h"

#include <inttypes.h>

#define SECOND ((moyai_ns)MOYAI_SEC)
#define COSTS  6
#define JOIN   (10 * MOYAI_SEC)
#define LOST   5 /* sessions whose other end crashes */

struct figures {
    uint32_t nodes;
    double cost[COSTS];
    double seconds, kib;
};
static const char *const names[COSTS] = {"join", "join-bytes", "idle", "locate", "call", "repair"};

static double resident(void) {
    long all, here = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &all, &here) != 2) bench_die("/proc/self/statm");
    fclose(f);
    return (double)here * (double)sysconf(_SC_PAGESIZE);
}

static void go(struct grid *g, moyai_dur span) {
    moyai_ns until = g->w->now + (moyai_ns)span;
    while (g->w->now < until && !g->broken)
        (void)world_run(g->w, NULL, NULL, g->w->now + SECOND / 10 < until ? g->w->now + SECOND / 10 : until);
    if (g->broken) bench_die("%s", g->why.text);
}

static bool by_kind;

/* What has come since the last call, of each type: for finding out why a cost grows. */
static void kinds(const struct grid *g, const char *what, double per) {
    static uint64_t was[80];
    for (int i = 0; i < 80; i++) {
        uint64_t n = g->count.frames[i] - (g->count.frames[i] < was[i] ? 0 : was[i]);
        was[i] = g->count.frames[i];
        if (by_kind && what && (double)n / per >= 0.05)
            printf("         %-8s type %2d: %8.2f\n", what, i, (double)n / per);
    }
}

/* Looking for nodes, evidence of death, and paths: not what goes on all the time. */
static uint64_t searching(const struct grid *g) {
    uint64_t n = g->count.frames[FRAME_FORWARD];
    for (int i = FRAME_RELAY; i <= FRAME_LOCATE_LAST; i++)
        if (i != FRAME_LOCATE && i != FRAME_LOCATE_LAST) n += g->count.frames[i]; /* changes of neighbours, digests */
    return n;
}

static uint64_t locating(const struct grid *g) {
    uint64_t n = 0;
    for (int i = FRAME_LOCATE; i <= FRAME_LOCATE_LAST; i++) n += g->count.frames[i];
    return n;
}

static void measure(uint32_t nodes, uint64_t seed, struct figures *f) {
    struct world w;
    static struct grid g; /* large */
    double start = bench_now(), before = resident(), live = nodes;
    const struct grid_cfg cfg = {.sites = 30, .open = 3, .unaware = 3, .delay = 20 * MOYAI_MS};
    *f = (struct figures){.nodes = nodes};
    world_init(&w, seed, false);
    grid_init(&g, &w, NULL, &cfg);
    grid_join(&g, nodes, JOIN);
    go(&g, JOIN);
    uint32_t whole = 0;
    struct grid_view v = grid_look(&g);
    for (; v.parts > v.parts_least && whole <= 60; v = grid_look(&g)) {
        go(&g, MOYAI_SEC);
        whole++;
    }
    if (whole > 60) bench_die("%u nodes are in %u parts", nodes, v.parts);
    go(&g, 30 * MOYAI_SEC);
    f->cost[0] = (double)g.net.frames / live;
    f->cost[1] = (double)g.net.bytes / live;
    f->kib = (resident() - before) / live / 1024;
    v = grid_look(&g);
    printf("%6u nodes: one grid %u s after the last has started; %.1f connections begun each, at most %" PRIu64
           " in a second, %" PRIu64 " to one node\n"
           "       links %u to %u, mean %.1f; %.0f KiB of memory a node\n"
           "       join   %8.1f frames, %.0f bytes a node\n",
           nodes, whole, (double)g.net.dials / live, g.net.dials_most, g.net.calls_most, v.least, v.most, v.mean,
           f->kib, f->cost[0], f->cost[1]);
    kinds(&g, "join", live);

    uint64_t frames = g.net.frames;
    go(&g, 60 * MOYAI_SEC);
    f->cost[2] = (double)(g.net.frames - frames) / live;
    printf("       idle   %8.1f frames a node and minute\n", f->cost[2]);

    kinds(&g, "idle", live);
    grid_name(&g, 0);
    go(&g, 10 * MOYAI_SEC);
    frames = locating(&g);
    for (uint32_t i = 0; i < nodes; i++) {
        grid_lookup(&g, i, 0, 0);
        if (i % (nodes / 20) == 0) go(&g, 50 * MOYAI_MS);
    }
    go(&g, 10 * MOYAI_SEC);
    f->cost[3] = (double)(locating(&g) - frames) / live;
    if (g.count.found < nodes) bench_die("%" PRIu64 " of %u found the name", g.count.found, nodes);
    printf("       locate %8.1f frames a node, all having looked up one name in a second\n", f->cost[3]);

    kinds(&g, "locate", live);
    frames = g.net.frames;
    uint64_t called = g.count.calls;
    for (uint32_t i = 0; i < nodes; i++) {
        grid_call(&g, i, (uint32_t)rng_below(&g.rng, nodes), 100);
        if (i % (nodes / 20) == 0) go(&g, 50 * MOYAI_MS);
    }
    go(&g, 10 * MOYAI_SEC);
    if (grid_open(&g) || g.count.failed) bench_die("%" PRIu64 " calls were not answered", grid_open(&g));
    f->cost[4] = (double)(g.net.frames - frames) / (double)(g.count.calls - called) - f->cost[2] * 11 / 60;
    printf("       call   %8.1f frames, to a node that it has had nothing to do with\n", f->cost[4]);

    kinds(&g, "call", (double)(g.count.calls - called));
    go(&g, 130 * MOYAI_SEC); /* sessions end that nobody needs any more */
    frames = g.net.frames;
    kinds(&g, NULL, 1);
    const struct grid_faults faults = {.joins = nodes / 10., .crashes = nodes / 10.};
    grid_trouble(&g, &faults);
    go(&g, 60 * MOYAI_SEC);
    grid_trouble(&g, NULL);
    f->cost[5] = (double)(g.net.frames - frames) / live - f->cost[2];
    printf("       repair %8.1f frames a node, %" PRIu64 " having crashed and %" PRIu64 " joined in a minute\n",
           f->cost[5], g.count.crashes, g.count.joins - nodes);
    kinds(&g, "repair", live);
    go(&g, 30 * MOYAI_SEC);

    /* What has crashed and is not known to be dead is looked for. */
    uint32_t pairs = nodes / 2 < LOST ? nodes / 2 : LOST;
    for (uint32_t i = 0; i < pairs; i++) grid_call(&g, g.live - 1 - i, i, 100);
    go(&g, 5 * MOYAI_SEC);
    if (grid_open(&g) || g.count.failed) bench_die("%" PRIu64 " calls were not answered", grid_open(&g));
    kinds(&g, NULL, 1);
    frames = searching(&g);
    for (uint32_t i = pairs; i > 0; i--) grid_crash(&g, i - 1);
    go(&g, 15 * MOYAI_SEC);
    kinds(&g, "lost", pairs);
    printf("       lost   %8.1f frames in all for a session whose other end has crashed\n",
           (double)(searching(&g) - frames) / pairs);
    go(&g, 150 * MOYAI_SEC);
    if (!grid_rest(&g)) bench_die("%s", g.why.text);
    f->seconds = bench_now() - start;
    printf("       at most %u links, %u nodes known and %u paths through one; %.0f s\n", g.count.links_most,
           g.count.peers_most, g.count.passing_most, f->seconds);
    fflush(stdout);
    grid_done(&g);
    world_done(&w);
}

int main(int argc, char **argv) {
    uint64_t seed = 1;
    uint32_t nodes[8] = {100, 1000, 10000}, n = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seed") && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--kinds"))
            by_kind = true;
        else if (n < 8 && atoi(argv[i]) >= 20)
            nodes[n++] = (uint32_t)atoi(argv[i]);
        else
            bench_die("usage: sim-overlay [--seed N] [--kinds] [NODES...], NODES at least 20");
    }
    if (n == 0) n = 3;
    printf("seed %" PRIu64 "\n", seed);
    struct figures f[8];
    for (uint32_t i = 0; i < n; i++) measure(nodes[i], seed, &f[i]);
    uint32_t from = 0; /* the first of at least 1,000 */
    while (from + 1 < n && f[from].nodes < 1000) from++;
    struct bench_demand d[COSTS + 1] = {{.bound = 2, .at_most = true}};
    for (int k = 0; k < COSTS; k++) {
        double growth = f[n - 1].cost[k] / f[from].cost[k];
        d[k + 1] = (struct bench_demand){names[k], growth, 2, true};
        if (growth > d[0].value) d[0].value = growth;
    }
    return bench_end(d, COSTS + 1);
}
