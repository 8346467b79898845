/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What locating costs, on random graphs in which each node opens 7 or 8 links, so that it has 15 in all.
 *
 *   locate_cost [--nodes N] [--seed S] [--all] [--hints] [--nine]
 *
 * Prints for each size: frames a join, a look-up of a node and of a name, a registration; links of the routes found
 * against the shortest; what is left of them and of look-ups when a tenth of the nodes has vanished at once. And 948
 * nodes that look up one name within a second: under 100 frames a node, or it fails. --all: 10,000 nodes as well.
 *
 * And with digests: what a look-up of a node costs in a grid of 1,000 and of 4,000 (--all: 20,000). It must not grow
 * with the grid as floods do; nor must one of a node that has died, if its neighbours know. --hints: this only, of
 * --nodes.
 */
#include "sim/graph.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OPENS 15 /* in two nodes */

struct grid {
    struct world w;
    struct trace trace;
    struct graph g;
};

static void quiet(struct grid *s) {
    (void)world_run(&s->w, NULL, NULL, s->w.now + 500 * (moyai_ns)MOYAI_MS);
}

static void grid_init(struct grid *s, uint64_t seed, uint32_t n, bool hints) {
    struct graph_cfg cfg = {
        .locate = {.told = 8, .names = 8, .lookups = 256, .requests = 1024, .routes = 256, .dead = 256},
        .delay = 100 * MOYAI_US,
        .jitter = 5 * MOYAI_MS,
        .notice = 10 * MOYAI_MS,
        .strict = true,
    };
    if (hints) {
        cfg.locate = (struct locate_cfg){.links = 40, .told = 2, .names = 2, .lookups = 64, .requests = 128};
        cfg.locate.routes = cfg.locate.dead = 64;
        cfg.locate.digest_every = 60 * MOYAI_SEC;
        cfg.locate.linger = 500 * MOYAI_MS;
    }
    world_init(&s->w, seed, false);
    trace_init(&s->trace, false, NULL);
    graph_init(&s->g, &s->w, &s->trace, &cfg);
    for (uint32_t i = 0; i < n; i++) (void)graph_add(&s->g);
    for (uint32_t i = 0; i < n; i++) graph_join(&s->g, i, OPENS / 2 + (i & 1));
    quiet(s);
}

static void grid_done(struct grid *s) {
    world_done(&s->w);
    graph_done(&s->g);
    trace_done(&s->trace);
}

static uint32_t live(struct grid *s) {
    for (;;) {
        uint32_t i = (uint32_t)rng_below(&s->g.rng, s->g.n);
        if (s->g.nodes[i].alive) return i;
    }
}

static void key_of(uint8_t key[16], uint64_t n) {
    memset(key, 0, 16);
    memcpy(key, &n, sizeof n);
    key[15] = 7;
}

struct sum {
    uint64_t n, found, hops, shortest, reached, frames;
    moyai_ns time;
};

static void print_sum(const char *what, const struct sum *s) {
    printf("  %-26s %5" PRIu64 " of %5" PRIu64
           " found, %7.1f frames, %6.1f ms, hops %.2f (shortest %.2f), walked %" PRIu64 "\n",
           what, s->found, s->n, (double)s->frames / (double)s->n, (double)s->time / (double)s->n / 1e6,
           (double)s->hops / (double)(s->found ? s->found : 1), (double)s->shortest / (double)(s->found ? s->found : 1),
           s->reached);
}

/* One after the other, between nodes drawn. */
static struct sum look_nodes(struct grid *s, uint32_t n) {
    struct sum t = {.n = n};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = live(s), to = live(s);
        uint64_t before = graph_sent(&s->g);
        uint32_t token = graph_lookup(&s->g, from, LOCATE_NODE, s->g.nodes[to].id.b, 0);
        quiet(s);
        t.frames += graph_sent(&s->g) - before;
        const struct graph_lookup *k = &s->g.lookups[token];
        t.time += k->end - k->start;
        if (k->fate != LOOKUP_FOUND) continue;
        t.found++;
        uint32_t hops = graph_walk(&s->g, from, to);
        t.shortest += graph_distance(&s->g, from, to, NULL);
        t.hops += hops < s->g.n ? hops : 0;
        t.reached += hops < s->g.n;
    }
    return t;
}

static struct sum look_names(struct grid *s, uint32_t n, moyai_dur after) {
    struct sum t = {.n = n};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = live(s), to = live(s);
        uint8_t key[16];
        key_of(key, 1000 + i);
        (void)graph_name_add(&s->g, to, key, s->g.nodes[to].id.b, true);
        quiet(s);
        (void)world_run(&s->w, NULL, NULL, s->w.now + (moyai_ns)after);
        uint64_t before = graph_sent(&s->g);
        uint32_t token = graph_lookup(&s->g, from, LOCATE_NAME, key, 0);
        quiet(s);
        t.frames += graph_sent(&s->g) - before;
        const struct graph_lookup *k = &s->g.lookups[token];
        t.time += k->end - k->start;
        if (k->fate == LOOKUP_FOUND) {
            t.found++;
            uint32_t hops = graph_walk(&s->g, from, to);
            t.shortest += graph_distance(&s->g, from, to, NULL);
            t.hops += hops < s->g.n ? hops : 0;
            t.reached += hops < s->g.n;
        }
        (void)graph_name_remove(&s->g, to, key);
        quiet(s);
    }
    return t;
}

static int sizes(uint32_t n, uint64_t seed, uint32_t samples) {
    struct grid s;
    grid_init(&s, seed, n, false);
    printf("%" PRIu32 " nodes: %.1f frames a node to come up, all in one moment\n", n,
           (double)graph_sent(&s.g) / (double)n);
    uint64_t before = graph_sent(&s.g);
    for (uint32_t i = 0; i < 10; i++) {
        graph_join(&s.g, graph_add(&s.g), OPENS);
        quiet(&s);
    }
    printf("  a join: %.1f frames\n", (double)(graph_sent(&s.g) - before) / 10.0);
    before = graph_sent(&s.g);
    uint8_t key[16];
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t node = live(&s);
        key_of(key, i);
        (void)graph_name_add(&s.g, node, key, s.g.nodes[node].id.b, false);
        quiet(&s);
    }
    printf("  a registration: %.1f frames a node\n", (double)(graph_sent(&s.g) - before) / 3.0 / (double)n);
    struct sum t = look_nodes(&s, samples);
    print_sum("look-up of a node", &t);
    bool bad = t.found != t.n || t.reached != t.n;
    t = look_names(&s, samples, 0);
    print_sum("look-up of a name", &t);
    bad |= t.found != t.n || t.reached != t.n;

    before = graph_sent(&s.g);
    for (uint32_t i = 0; i < n / 10; i++) graph_kill(&s.g, live(&s), LOCATE_DEAD);
    quiet(&s);
    printf("  a tenth vanishes: %.1f frames a node that is left\n",
           (double)(graph_sent(&s.g) - before) / (double)(n - n / 10));
    uint32_t reached = 0, routes = 0, loops = 0;
    for (uint32_t i = 0; i < s.g.lookups_n; i++) {
        const struct graph_lookup *k = &s.g.lookups[i];
        if (k->fate != LOOKUP_FOUND || !s.g.nodes[k->from].alive || !s.g.nodes[k->node].alive) continue;
        uint32_t hops = graph_walk(&s.g, k->from, k->node);
        routes++;
        reached += hops < s.g.n;
        loops += hops == GRAPH_LOOP;
    }
    printf("  of %" PRIu32 " routes of before between live nodes %" PRIu32 " still lead there, %" PRIu32 " are loops\n",
           routes, reached, loops);
    t = look_nodes(&s, samples);
    print_sum("look-up of a node, after", &t);
    bad |= loops || t.found != t.n;
    if (s.g.broken) printf("broken: %s\n", s.g.why.text);
    bad |= s.g.broken;
    grid_done(&s);
    return bad;
}

struct crowd {
    struct grid s;
    uint8_t key[16];
};

static void looks(void *who, uint64_t node) {
    struct crowd *c = who;
    (void)graph_lookup(&c->s.g, (uint32_t)node, LOCATE_NAME, c->key, 0);
}

/* --- the nine clusters --------------------------------------------------------------------------------- */

/* Those of bench/ninecluster, with as many links as its nodes have: who opens how many does not matter here. */
enum site_kind {
    SITE_OPEN,
    SITE_INWARD, /* its nodes connect to each other and to open ones; a firewall or NAT lets nobody in */
    SITE_CLOSED, /* to each other only; three lines lead to nodes of hongo */
};
static const struct {
    uint32_t nodes;
    enum site_kind kind;
} sites[] = {{168, SITE_OPEN},  {90, SITE_OPEN},   {28, SITE_OPEN},    {72, SITE_OPEN},  {82, SITE_INWARD},
             {69, SITE_INWARD}, {60, SITE_INWARD}, {315, SITE_CLOSED}, {64, SITE_CLOSED}};
#define SITES      (sizeof sites / sizeof *sites)
#define NINE_OPENS 12 /* 24 in two nodes */
#define NINE_MOST  45
#define HONGO      1
#define ISTBS      7

static uint32_t site_first(uint32_t site) {
    uint32_t first = 0;
    for (uint32_t i = 0; i < site; i++) first += sites[i].nodes;
    return first;
}
static uint32_t site_of(uint32_t node) {
    uint32_t site = 0;
    while (node >= site_first(site + 1)) site++;
    return site;
}
static uint32_t node_in(struct grid *s, uint32_t site) {
    return site_first(site) + (uint32_t)rng_below(&s->g.rng, sites[site].nodes);
}

static void nine_join(struct grid *s, uint32_t node) {
    uint32_t site = site_of(node);
    for (uint32_t tries = 0, opens = 0; opens < NINE_OPENS && tries < 1000; tries++) {
        uint32_t to = (uint32_t)rng_below(&s->g.rng, s->g.n), other = site_of(to);
        bool can = site == other || (sites[site].kind != SITE_CLOSED && sites[other].kind == SITE_OPEN);
        if (can && s->g.nodes[to].degree < NINE_MOST) opens += graph_link(&s->g, node, to);
    }
}

static void nine_init(struct grid *s, uint64_t seed) {
    struct graph_cfg cfg = {
        .locate = {.links = 64, .told = 4, .names = 4, .lookups = 64, .requests = 128, .routes = 256},
        .delay = 100 * MOYAI_US,
        .jitter = MOYAI_MS,
        .notice = 10 * MOYAI_MS,
    };
    cfg.locate.dead = 64;
    cfg.locate.digest_every = 60 * MOYAI_SEC;
    cfg.locate.linger = 500 * MOYAI_MS;
    world_init(&s->w, seed, false);
    trace_init(&s->trace, false, NULL);
    graph_init(&s->g, &s->w, &s->trace, &cfg);
    for (uint32_t i = 0; i < site_first(SITES); i++) (void)graph_add(&s->g);
    for (uint32_t i = 0; i < s->g.n; i++) nine_join(s, i);
    for (uint32_t site = ISTBS; site < SITES; site++)
        for (uint32_t lines = 0; lines < 3;) lines += graph_link(&s->g, node_in(s, site), node_in(s, HONGO));
    (void)world_run(&s->w, NULL, NULL, s->w.now + 200 * (moyai_ns)MOYAI_SEC);
}

static void looks_when_it_can(void *who, uint64_t node) {
    struct crowd *c = who;
    graph_do(&c->s.g, (uint32_t)node, looks, who, node);
}

static int nine(uint64_t seed, uint32_t site, uint32_t speed, uint32_t stalls, double most) {
    struct crowd *c = sim_alloc(sizeof *c);
    struct grid *s = &c->s;
    nine_init(s, seed);
    uint32_t n = s->g.n, holder = node_in(s, site), found = 0;
    key_of(c->key, 1);
    (void)graph_name_add(&s->g, holder, c->key, s->g.nodes[holder].id.b, false);
    (void)world_run(&s->w, NULL, NULL, s->w.now + 5 * (moyai_ns)MOYAI_SEC);
    uint64_t before[GRAPH_KINDS], links = 0;
    memcpy(before, s->g.frames, sizeof before);
    for (uint32_t i = 0; i < n; i++) links += s->g.nodes[i].degree;
    graph_slow(&s->g, speed ? MOYAI_SEC / speed : 0);
    graph_stalls(&s->g, stalls, 6 * MOYAI_SEC);
    for (uint32_t i = 0; i < n; i++)
        world_in(&s->w, (moyai_dur)rng_below(&s->g.rng, (uint64_t)MOYAI_SEC), looks_when_it_can, c, i);
    (void)world_run(&s->w, NULL, NULL, s->w.now + 60 * (moyai_ns)MOYAI_SEC);
    moyai_ns slowest = 0;
    for (uint32_t i = 0; i < s->g.lookups_n; i++) {
        const struct graph_lookup *k = &s->g.lookups[i];
        found += k->fate == LOOKUP_FOUND;
        if (k->end - k->start > slowest) slowest = k->end - k->start;
    }
    double asks = (double)(s->g.frames[LOCATE_REQUEST] - before[LOCATE_REQUEST]) / n;
    double tells = (double)(s->g.frames[LOCATE_REPLY] - before[LOCATE_REPLY]) / n;
    double all = 0;
    for (uint32_t i = 0; i < GRAPH_KINDS; i++) all += (double)(s->g.frames[i] - before[i]) / n;
    printf("nine clusters, %.1f links a node, %" PRIu32 " frames/s%s, a name in %s: %" PRIu32
           " found it, %.1f frames a node (%.1f requests, %.1f answers), the slowest %.1f ms\n",
           (double)links / n, speed, stalls ? ", stalls" : "", site == HONGO ? "hongo" : "istbs", found, all, asks,
           tells, (double)slowest / 1e6);
    bool bad = found != n || all > most || s->g.broken;
    if (s->g.broken) printf("broken: %s\n", s->g.why.text);
    grid_done(s);
    free(c);
    return bad;
}

/* Quick machines, and slow ones; such as let a node wait for seconds at one of so many turns. What is held in istbs is
 * known in its cluster, and beyond by few who have a line to it. */
static int nines(uint64_t seed) {
    static const uint32_t speeds[] = {0, 50000, 20000, 10000, 4000}, far[] = {50000, 10000, 4000};
    int bad = 0;
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) bad |= nine(seed, HONGO, speeds[i], 0, 60);
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) bad |= nine(seed, ISTBS, far[i], 0, 100);
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) bad |= nine(seed, ISTBS, far[i], 200, 100);
    bad |= nine(4, ISTBS, 100000, 60, 80); /* one flood made all begin anew: it was 618 */
    return bad;
}

static int together(uint32_t n, uint64_t seed, moyai_dur within, const char *how) {
    struct crowd *c = sim_alloc(sizeof *c);
    struct grid *s = &c->s;
    grid_init(s, seed, n, false);
    key_of(c->key, 1);
    (void)graph_name_add(&s->g, 5, c->key, s->g.nodes[5].id.b, false);
    quiet(s);
    uint64_t before = graph_sent(&s->g), most = 0, *sent = sim_alloc(n * sizeof *sent);
    for (uint32_t i = 0; i < n; i++) sent[i] = s->g.nodes[i].sent;
    for (uint32_t i = 0; i < n; i++) world_in(&s->w, (moyai_dur)rng_below(&s->g.rng, (uint64_t)within), looks, c, i);
    (void)world_run(&s->w, NULL, NULL, s->w.now + (moyai_ns)within);
    quiet(s);
    uint32_t found = 0;
    moyai_ns slowest = 0;
    for (uint32_t i = 0; i < s->g.lookups_n; i++) {
        const struct graph_lookup *k = &s->g.lookups[i];
        found += k->fate == LOOKUP_FOUND;
        if (k->end - k->start > slowest) slowest = k->end - k->start;
    }
    for (uint32_t i = 0; i < n; i++)
        if (s->g.nodes[i].sent - sent[i] > most) most = s->g.nodes[i].sent - sent[i];
    double each = (double)(graph_sent(&s->g) - before) / (double)n;
    printf("%" PRIu32 " nodes look up one name %s: %" PRIu32 " found it, %.1f frames a node, the most of one %" PRIu64
           ", the slowest %.1f ms\n",
           n, how, found, each, most, (double)slowest / 1e6);
    bool bad = found != n || each >= 100 || s->g.broken;
    if (s->g.broken) printf("broken: %s\n", s->g.why.text);
    free(sent);
    grid_done(s);
    free(c);
    return bad;
}

/* Digests go around, then nothing happens: all frames are those of the look-ups. */
static int hinted(uint32_t n, uint64_t seed, uint32_t samples, double *each) {
    struct grid s;
    grid_init(&s, seed, n, true);
    (void)world_run(&s.w, NULL, NULL, s.w.now + 200 * (moyai_ns)MOYAI_SEC);
    printf("%" PRIu32 " nodes with digests: %.1f frames a node until all have them\n", n,
           (double)graph_sent(&s.g) / (double)n);
    struct sum t = look_nodes(&s, samples);
    print_sum("look-up of a node", &t);
    bool bad = t.found != t.n || t.reached != t.n;
    *each = (double)t.frames / (double)t.n;
    t = look_names(&s, samples, 0);
    print_sum("look-up of a new name", &t);
    bad |= t.found != t.n || t.reached != t.n;
    t = look_names(&s, samples, 200 * MOYAI_SEC);
    print_sum("look-up of an old name", &t);
    bad |= t.found != t.n || t.reached != t.n || t.frames > t.n * n / 10;

    uint64_t asked = 0;
    uint32_t told = 0;
    for (uint32_t i = 0; i < samples; i++) {
        uint32_t from = live(&s), to = live(&s);
        if (from == to) continue;
        struct moyai_node_id id = s.g.nodes[to].id;
        graph_kill(&s.g, to, LOCATE_DEAD);
        quiet(&s);
        uint64_t before = s.g.frames[LOCATE_REQUEST] + s.g.frames[LOCATE_REPLY];
        uint32_t token = graph_lookup(&s.g, from, LOCATE_NODE, id.b, 0);
        quiet(&s);
        (void)world_run(&s.w, NULL, NULL, s.w.now + 5 * (moyai_ns)MOYAI_SEC);
        asked += s.g.frames[LOCATE_REQUEST] + s.g.frames[LOCATE_REPLY] - before;
        told += s.g.lookups[token].fate == LOOKUP_DEAD;
    }
    printf("  look-up of a dead node     %5" PRIu32 " of %5" PRIu32 " told,  %7.1f requests and replies\n", told,
           samples, (double)asked / (double)samples);
    bad |= asked > 100 * samples || told < samples - 1;
    if (s.g.broken) printf("broken: %s\n", s.g.why.text);
    bad |= s.g.broken;
    grid_done(&s);
    return bad;
}

static int grows(const uint32_t *n, uint32_t sizes_n, uint64_t seed) {
    double first = 0, last = 0;
    int bad = 0;
    for (uint32_t i = 0; i < sizes_n; i++) {
        bad |= hinted(n[i], seed, 50, &last);
        if (i == 0) first = last;
        if (last > 100 || last > 4 * first + 20) {
            printf("too many frames a look-up\n");
            bad = 1;
        }
    }
    return bad;
}

int main(int argc, char **argv) {
    uint64_t seed = 1;
    uint32_t only = 0;
    bool all = false, hints = false, only_nine = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seed") && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--nodes") && i + 1 < argc) {
            only = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--all")) {
            all = true;
        } else if (!strcmp(argv[i], "--nine")) {
            only_nine = true;
        } else if (!strcmp(argv[i], "--hints")) {
            hints = true;
        } else {
            fprintf(stderr, "usage: %s [--nodes N] [--seed S] [--all] [--hints] [--nine]\n", argv[0]);
            return 2;
        }
    }
    if (only_nine) return nines(seed);
    if (only) return hints ? grows(&only, 1, seed) : sizes(only, seed, 100);
    int bad = nines(seed);
    bad |= together(948, seed, MOYAI_SEC, "within a second");
    bad |= together(948, seed, MOYAI_MS, "within a millisecond");
    bad |= sizes(100, seed, 100);
    bad |= sizes(1000, seed, 30);
    if (all) bad |= sizes(10000, seed, 20);
    static const uint32_t n[] = {1000, 4000, 20000};
    bad |= grows(n, all ? 3 : 2, seed);
    return bad;
}
