/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does a node have to do for the grid it is in, and does that grow with the grid? Grids of 100, 1,000 and 10,000
 * whole nodes run in the simulator (sim/grid: the overlay's own driver over virtual time), a third of their sites open,
 * the others behind NATs:
 *
 *   join     all within ten seconds, and half a minute more: connections, frames, bytes of a node
 *   idle     half a minute in which nobody wants anything; told for a whole one
 *   locate   each node looks up the same name within one second: frames of a node
 *   repair   half a minute in which a twentieth of the nodes crash and as many join: frames of a node beyond those of
 *            half an idle minute
 *   lost     some nodes crash that others have a session with: frames of all for each, of those that look for it, tell
 *            of its end, or end paths
 *   call     a thousand calls of one node to another: frames of sessions, relays and locating for each
 *
 * and the most that one node had: links, known nodes, paths that pass through; memory of a node, and the time of a
 * processor that it took to simulate one. After the calls the laws of a grid at rest hold (sim/grid/grid.h).
 *
 *   sim-overlay [--seed N] [--kinds] [NODES...]
 *
 * --kinds: also how many frames of each type (doc/spec/00-links.md, 2.2). 10,000 nodes take about a minute of a
 * processor and 2 GB of memory; 100,000 took 12 minutes and 23 GB.
 *
 * The figure is how much the costs but `lost` grow with each tenfold number of nodes, from 1,000 to the largest grid,
 * in parts of what they are at 1,000; the worst of them. 1 is flat; a cost that goes with the logarithm has the same
 * figure at any size. (In a grid of 100 each knows everybody from what its neighbours say, and need not look.)
 */
#include "bench/bench.h"
#include "sim/grid/grid.h"
#include "sim/grid/ground.h"

#include <inttypes.h>
#include <math.h>
#include <sys/resource.h>

#define SECOND ((moyai_ns)MOYAI_SEC)
#define JOIN   (10 * MOYAI_SEC)
#define CALLS  1000
#define LOST   5 /* sessions whose other end crashes */

enum { JOINED, JOIN_BYTES, IDLE, LOCATED, REPAIR, CALL, COSTS };

struct figures {
    uint32_t nodes;
    double cost[COSTS];
    double seconds;
};
static const char *const names[COSTS] = {"join", "join-bytes", "idle", "locate", "repair", "call"};

static double resident(void) {
    long all, here = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &all, &here) != 2) bench_die("/proc/self/statm");
    fclose(f);
    return (double)here * (double)sysconf(_SC_PAGESIZE);
}

/* Of this process, user's and system's. */
static double processor(void) {
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) < 0) bench_die("getrusage");
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
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

/* All join, and become one grid. */
static void joining(struct grid *g, uint32_t nodes, double before, struct figures *f) {
    double live = nodes;
    grid_join(g, nodes, JOIN);
    go(g, JOIN);
    uint32_t whole = 0;
    struct grid_view v = grid_look(g);
    for (; v.parts > v.parts_least && whole <= 60; v = grid_look(g)) {
        go(g, MOYAI_SEC);
        whole++;
    }
    if (whole > 60) bench_die("%u nodes are in %u parts", nodes, v.parts);
    go(g, 30 * MOYAI_SEC);
    f->cost[JOINED] = (double)g->net.frames / live;
    f->cost[JOIN_BYTES] = (double)g->net.bytes / live;
    v = grid_look(g);
    printf("%6u nodes: one grid %u s after the last has started; %.1f connections begun each, at most %" PRIu64
           " in a second, %" PRIu64 " to one node\n"
           "       links %u to %u, mean %.1f; %.0f KiB of memory a node\n"
           "       join   %8.1f frames, %.0f bytes a node\n",
           nodes, whole, (double)g->net.dials / live, g->net.dials_most, g->net.calls_most, v.least, v.most, v.mean,
           (resident() - before) / live / 1024, f->cost[JOINED], f->cost[JOIN_BYTES]);
    kinds(g, "join", live);
}

static void idling(struct grid *g, uint32_t nodes, struct figures *f) {
    uint64_t frames = g->net.frames;
    go(g, 30 * MOYAI_SEC);
    f->cost[IDLE] = 2 * (double)(g->net.frames - frames) / nodes;
    printf("       idle   %8.1f frames a node and minute\n", f->cost[IDLE]);
    kinds(g, "idle", nodes / 2.0);
}

static void locating_one(struct grid *g, uint32_t nodes, struct figures *f) {
    grid_name(g, 0);
    go(g, 10 * MOYAI_SEC);
    uint64_t frames = locating(g);
    for (uint32_t i = 0; i < nodes; i++) {
        grid_lookup(g, i, 0, 0);
        if (i % (nodes / 20) == 0) go(g, 50 * MOYAI_MS);
    }
    go(g, 10 * MOYAI_SEC);
    f->cost[LOCATED] = (double)(locating(g) - frames) / nodes;
    if (g->count.found < nodes) bench_die("%" PRIu64 " of %u found the name", g->count.found, nodes);
    printf("       locate %8.1f frames a node, all having looked up one name in a second\n", f->cost[LOCATED]);
    kinds(g, "locate", nodes);
}

static void repairing(struct grid *g, uint32_t nodes, struct figures *f) {
    uint64_t frames = g->net.frames;
    const struct grid_faults faults = {.joins = nodes / 10., .crashes = nodes / 10.};
    grid_trouble(g, &faults);
    go(g, 30 * MOYAI_SEC);
    grid_trouble(g, NULL);
    f->cost[REPAIR] = (double)(g->net.frames - frames) / nodes - f->cost[IDLE] / 2;
    printf("       repair %8.1f frames a node, %" PRIu64 " having crashed and %" PRIu64 " joined in half a minute\n",
           f->cost[REPAIR], g->count.crashes, g->count.joins - nodes);
    kinds(g, "repair", nodes);
    go(g, 15 * MOYAI_SEC);
}

static void all_answered(const struct grid *g) {
    if (grid_open(g) || g->count.failed) bench_die("%" PRIu64 " calls were not answered", grid_open(g));
}

/* What has crashed and is not known to be dead is looked for. */
static void losing(struct grid *g, uint32_t nodes) {
    uint32_t pairs = nodes / 2 < LOST ? nodes / 2 : LOST;
    for (uint32_t i = 0; i < pairs; i++) grid_call(g, g->live - 1 - i, i, 100);
    go(g, 5 * MOYAI_SEC);
    all_answered(g);
    kinds(g, NULL, 1);
    uint64_t frames = searching(g);
    for (uint32_t i = pairs; i > 0; i--) grid_crash(g, i - 1);
    go(g, 15 * MOYAI_SEC);
    kinds(g, "lost", pairs);
    printf("       lost   %8.1f frames in all for a session whose other end has crashed\n",
           (double)(searching(g) - frames) / pairs);
}

/* What calls cause, and nothing else does but what `searching` counts; without the pings that watch links on which
 * somebody waits. */
static uint64_t calls_frames(const struct grid *g) {
    uint64_t n = searching(g);
    for (int i = FRAME_SESSION; i <= FRAME_SESSION_LAST; i++) n += g->count.frames[i];
    return n;
}

/* Last: sessions stand for a minute. */
static void calling(struct grid *g, struct figures *f) {
    uint64_t frames = calls_frames(g), called = g->count.calls;
    kinds(g, NULL, 1);
    for (uint32_t i = 0; i < CALLS; i++) {
        grid_call(g, (uint32_t)rng_below(&g->rng, g->live), (uint32_t)rng_below(&g->rng, g->live), 100);
        if (i % (CALLS / 20) == 0) go(g, 50 * MOYAI_MS);
    }
    go(g, 10 * MOYAI_SEC);
    all_answered(g);
    double calls = (double)(g->count.calls - called);
    f->cost[CALL] = (double)(calls_frames(g) - frames) / calls;
    printf("       call   %8.1f frames, to a node that it has had nothing to do with\n", f->cost[CALL]);
    kinds(g, "call", calls);
}

static void measure(uint32_t nodes, uint64_t seed, struct figures *f) {
    struct world w;
    static struct grid g; /* large */
    double start = bench_now(), work = processor(), before = resident();
    const struct grid_cfg cfg = {.sites = 30, .open = 3, .unaware = 3, .delay = 20 * MOYAI_MS, .memory = 1 << 20};
    *f = (struct figures){.nodes = nodes};
    world_init(&w, seed, false);
    grid_init(&g, &w, NULL, &cfg);
    joining(&g, nodes, before, f);
    ground_memory_rest();
    idling(&g, nodes, f);
    locating_one(&g, nodes, f);
    ground_memory_rest();
    repairing(&g, nodes, f);
    ground_memory_rest();
    losing(&g, nodes);
    calling(&g, f);
    double most = (resident() - before) / nodes / 1024;
    if (!grid_rest(&g)) bench_die("%s", g.why.text);
    work = processor() - work;
    f->seconds = bench_now() - start;
    printf(
        "       at most %u links, %u nodes known and %u paths through one\n"
        "       %.1f ms of a processor and, with sessions, %.0f KiB of memory a node; %.0f s of a processor, %.0f s\n",
        g.count.links_most, g.count.peers_most, g.count.passing_most, work / nodes * 1e3, most, work, f->seconds);
    grid_done(&g);
    world_done(&w);
}

int main(int argc, char **argv) {
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a large grid takes minutes */
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
        const double tenfold = f[n - 1].nodes > f[from].nodes ? log10((double)f[n - 1].nodes / f[from].nodes) : 1;
        double growth = 1 + (f[n - 1].cost[k] / f[from].cost[k] - 1) / tenfold;
        d[k + 1] = (struct bench_demand){names[k], growth, 2, true};
        if (growth > d[0].value) d[0].value = growth;
    }
    return bench_end(d, COSTS + 1);
}
