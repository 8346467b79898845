/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parents are chosen by tournaments of two; two-point order crossover (Murata and Ishibuchi, 1996) keeps what is at the
 * ends of a good schedule, which matters most in flow shops; one child in two is mutated by an insertion, one in
 * LOCAL improved by insertions. A child replaces the worst individual, if it is no worse than that and not there
 * already, so elitism needs no care. When the best has not improved for STALE generations the others are renewed.
 *
 * An insertion tries all places of a job at once in O(n m) (Taillard, 1990): head[a][j] is the end of the a first jobs
 * on machine j, tail[a][j] the time from the begin of the a-th to the end of all; the job at place a adds its own
 * time between the two.
 */
#include "genetic.h"

#include "examples/flowshop/greedy.h"
#include "examples/flowshop/random.h"

#include <stdlib.h>
#include <string.h>

#define LOCAL 8
#define STALE 100
#define SLICE 40 /* children: from microseconds to 50 ms, by the instance */

struct genetic {
    const struct instance *in;
    int n, m, size;
    uint64_t random, generation;
    int children;      /* of this generation */
    int stale;         /* generations since the best improved */
    int32_t *times;    /* job-major */
    int32_t *head;     /* n rows of m */
    int32_t *tail;     /* the same */
    int32_t *makespan; /* of each individual */
    uint16_t *perms;   /* size rows of n; then the child's, then the order of improvement */
};

static uint16_t *row(const struct genetic *g, int i) {
    return g->perms + (size_t)i * (size_t)g->n;
}

static void copy(const struct genetic *g, uint16_t *to, const uint16_t *from) {
    memcpy(to, from, (size_t)g->n * sizeof *to);
}

static void shuffle(uint64_t *random, int n, uint16_t *perm) {
    for (int i = n - 1; i > 0; i--) {
        int k = random_below(random, i + 1);
        uint16_t job = perm[i];
        perm[i] = perm[k];
        perm[k] = job;
    }
}

static int best_of(const struct genetic *g) {
    int best = 0;
    for (int i = 1; i < g->size; i++)
        if (g->makespan[i] < g->makespan[best]) best = i;
    return best;
}

/* ---- operators ------------------------------------------------------------------------------- */

void genetic_cross(uint64_t *random, int n, const uint16_t *a, const uint16_t *b, uint16_t *child) {
    int from = random_below(random, n + 1), to = random_below(random, n + 1);
    if (from > to) {
        int x = from;
        from = to;
        to = x;
    }
    bool between[INSTANCE_MAX_JOBS] = {false};
    memcpy(child, a, (size_t)n * sizeof *child);
    for (int i = from; i < to; i++) between[a[i]] = true;
    for (int i = 0; i < n; i++)
        if (between[b[i]]) child[from++] = b[i];
}

static void move(uint16_t *perm, int from, int to) {
    uint16_t job = perm[from];
    if (from < to)
        memmove(perm + from, perm + from + 1, (size_t)(to - from) * sizeof *perm);
    else
        memmove(perm + to + 1, perm + to, (size_t)(from - to) * sizeof *perm);
    perm[to] = job;
}

void genetic_mutate(uint64_t *random, int n, uint16_t *perm) {
    int from = random_below(random, n);
    move(perm, from, random_below(random, n));
}

/* Moves the last job to its best place, ties at random. Returns the makespan. head[0] and tail[n - 1] are zero. */
static int32_t insert_last(struct genetic *g, uint16_t *perm) {
    int m = g->m, k = g->n - 1;
    for (int a = 0; a < k; a++) {
        const int32_t *p = g->times + perm[a] * m, *before = g->head + a * m;
        int32_t *here = g->head + (a + 1) * m, t = 0;
        for (int j = 0; j < m; j++) here[j] = t = (t > before[j] ? t : before[j]) + p[j];
    }
    for (int a = k - 1; a >= 0; a--) {
        const int32_t *p = g->times + perm[a] * m, *behind = g->tail + (a + 1) * m;
        int32_t *here = g->tail + a * m, t = 0;
        for (int j = m - 1; j >= 0; j--) here[j] = t = (t > behind[j] ? t : behind[j]) + p[j];
    }
    const int32_t *p = g->times + perm[k] * m;
    int32_t best = INT32_MAX;
    int place = 0, ties = 0;
    for (int a = 0; a <= k; a++) {
        const int32_t *before = g->head + a * m, *behind = g->tail + a * m;
        int32_t t = 0, span = 0;
        for (int j = 0; j < m; j++) {
            t = (t > before[j] ? t : before[j]) + p[j];
            span = span > t + behind[j] ? span : t + behind[j];
        }
        if (span > best) continue;
        ties = span < best ? 1 : ties + 1;
        best = span;
        if (random_below(&g->random, ties) == 0) place = a;
    }
    move(perm, k, place);
    return best;
}

int32_t genetic_improve(struct genetic *g, uint16_t *perm) {
    uint16_t *order = row(g, g->size + 1);
    int32_t span = 0;
    copy(g, order, perm);
    shuffle(&g->random, g->n, order);
    for (int i = 0; i < g->n; i++) {
        int from = 0;
        while (perm[from] != order[i]) from++;
        move(perm, from, g->n - 1);
        span = insert_last(g, perm); /* no worse: the old place is among those tried */
    }
    return span;
}

/* ---- the population -------------------------------------------------------------------------- */

/* New individuals for old, in [from, size): mutants of the best and random ones by turns. */
static void renew(struct genetic *g, int from) {
    for (int i = from; i < g->size; i++) {
        copy(g, row(g, i), row(g, 0));
        if (i % 2)
            shuffle(&g->random, g->n, row(g, i));
        else
            for (int k = 0; k < 2 + g->n / 10; k++) genetic_mutate(&g->random, g->n, row(g, i));
        g->makespan[i] = instance_makespan(g->in, row(g, i), g->n);
    }
    g->stale = 0;
}

struct genetic *genetic_new(const struct instance *in, int size, uint64_t seed) {
    size_t n = (size_t)in->n, m = (size_t)in->m, rows = (size_t)size + 2;
    size_t numbers = 3 * n * m + (size_t)size;
    struct genetic *g = calloc(1, sizeof *g + numbers * sizeof(int32_t) + rows * n * sizeof(uint16_t));
    if (!g) return NULL;
    *g = (struct genetic){.in = in, .n = in->n, .m = in->m, .size = size, .random = seed};
    g->times = (int32_t *)(g + 1);
    g->head = g->times + n * m;
    g->tail = g->head + n * m;
    g->makespan = g->tail + n * m;
    g->perms = (uint16_t *)(g->makespan + size);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++) g->times[i * m + j] = in->p[j * n + i];
    g->makespan[0] = greedy_neh(in, row(g, 0));
    if (g->makespan[0] < 0) {
        free(g);
        return NULL;
    }
    renew(g, 1);
    return g;
}

void genetic_free(struct genetic *g) {
    free(g);
}

bool genetic_admit(struct genetic *g, const uint16_t *perm, int32_t makespan) {
    int worst = 0;
    for (int i = 0; i < g->size; i++) {
        if (g->makespan[i] > g->makespan[worst]) worst = i;
        if (g->makespan[i] == makespan && memcmp(row(g, i), perm, (size_t)g->n * sizeof *perm) == 0) return false;
    }
    if (makespan > g->makespan[worst]) return false;
    if (makespan < g->makespan[best_of(g)]) g->stale = 0;
    copy(g, row(g, worst), perm);
    g->makespan[worst] = makespan;
    return true;
}

static const uint16_t *parent(struct genetic *g) {
    int a = random_below(&g->random, g->size), b = random_below(&g->random, g->size);
    return row(g, g->makespan[a] < g->makespan[b] ? a : b);
}

static void breed(struct genetic *g) {
    uint16_t *child = row(g, g->size);
    const uint16_t *a = parent(g), *b = parent(g);
    genetic_cross(&g->random, g->n, a, b, child);
    if (random_below(&g->random, 2)) genetic_mutate(&g->random, g->n, child);
    bool improve = random_below(&g->random, LOCAL) == 0;
    genetic_admit(g, child, improve ? genetic_improve(g, child) : instance_makespan(g->in, child, g->n));
}

void genetic_step(struct genetic *g) {
    for (int i = 0; i < SLICE; i++) {
        breed(g);
        if (++g->children < g->size) continue;
        g->children = 0;
        g->generation++;
        if (++g->stale <= STALE) return;
        int best = best_of(g);
        copy(g, row(g, 0), row(g, best));
        g->makespan[0] = g->makespan[best];
        renew(g, 1);
        return;
    }
}

uint64_t genetic_generation(const struct genetic *g) {
    return g->generation;
}

static int32_t give(const struct genetic *g, int i, uint16_t *perm) {
    if (perm) copy(g, perm, row(g, i));
    return g->makespan[i];
}

int32_t genetic_best(const struct genetic *g, uint16_t *perm) {
    return give(g, best_of(g), perm);
}

int32_t genetic_any(struct genetic *g, uint16_t *perm) {
    return give(g, random_below(&g->random, g->size), perm);
}
