/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Iterated greedy: from the present permutation take a few random jobs out (destruction), put each back at its
 * best place (construction), then move single jobs to their best places until none improves (local search); accept
 * the result if it is no worse, or with probability exp(-loss / temperature). The temperature is constant, a
 * fraction of the mean duration.
 *
 * Best place of a job (Taillard 1990), among k jobs on m machines in O(k m) instead of O(k^2 m): with
 *     e[a][j]  the end on machine j of the a-th job of the sequence,
 *     q[a][j]  the time from the begin on machine j of the a-th job to the end of all,
 *     f[a][j]  the end on machine j of the new job if put at place a (from e[a-1]),
 * the makespan with the job at place a is max_j f[a][j] + q[a][j].
 *
 * Ties between places are broken at random in the search: the many places of equal makespan of such instances
 * are a plateau, which a fixed choice would not leave.
 */
#include "greedy.h"

#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DESTRUCTION 4   /* jobs taken out at a time; Ruiz and Stützle's choice */
#define TEMPERATURE 0.7 /* times the mean duration / 10; of 0.2 to 1.4 the lower half finds optima later */

struct greedy {
    int n, m;
    uint64_t random;
    int32_t *p;     /* job-major: p[i * m + j] */
    int32_t *e, *q; /* (n + 1) rows of m: e[0] and q[k] are zero */
    uint16_t *now, *next, *order, *out;
};

static struct greedy *greedy_new(const struct instance *in, uint64_t seed) {
    size_t n = (size_t)in->n, m = (size_t)in->m;
    size_t numbers = n * m + 2 * (n + 1) * m;
    struct greedy *g = calloc(1, sizeof *g + numbers * sizeof(int32_t) + 4 * n * sizeof(uint16_t));
    if (!g) return NULL;
    g->n = in->n;
    g->m = in->m;
    g->random = seed;
    g->p = (int32_t *)(g + 1);
    g->e = g->p + n * m;
    g->q = g->e + (n + 1) * m;
    g->now = (uint16_t *)(g->q + (n + 1) * m);
    g->next = g->now + n;
    g->order = g->next + n;
    g->out = g->order + n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++) g->p[i * m + j] = in->p[j * n + i];
    return g;
}

/* Puts job into the k jobs of seq at its best place; returns the makespan. random_ties: any best place. */
static int32_t insert(struct greedy *g, uint16_t *seq, int k, uint16_t job, bool random_ties) {
    int m = g->m;
    for (int a = 0; a < k; a++) {
        const int32_t *p = g->p + seq[a] * m, *before = g->e + a * m;
        int32_t *here = g->e + (a + 1) * m, t = 0;
        for (int j = 0; j < m; j++) {
            t = (t > before[j] ? t : before[j]) + p[j];
            here[j] = t;
        }
    }
    memset(g->q + k * m, 0, (size_t)m * sizeof *g->q);
    for (int a = k - 1; a >= 0; a--) {
        const int32_t *p = g->p + seq[a] * m, *behind = g->q + (a + 1) * m;
        int32_t *here = g->q + a * m, t = 0;
        for (int j = m - 1; j >= 0; j--) {
            t = (t > behind[j] ? t : behind[j]) + p[j];
            here[j] = t;
        }
    }
    const int32_t *p = g->p + job * m;
    int32_t best = INT32_MAX;
    int place = 0, ties = 0;
    for (int a = 0; a <= k; a++) {
        const int32_t *before = g->e + a * m, *behind = g->q + a * m;
        int32_t t = 0, span = 0;
        for (int j = 0; j < m; j++) {
            t = (t > before[j] ? t : before[j]) + p[j];
            span = span > t + behind[j] ? span : t + behind[j];
        }
        if (span > best) continue;
        if (span < best) ties = 0;
        best = span;
        ties++;
        if (ties == 1 || (random_ties && random_below(&g->random, ties) == 0)) place = a;
    }
    memmove(seq + place + 1, seq + place, (size_t)(k - place) * sizeof *seq);
    seq[place] = job;
    return best;
}

static void take_out(uint16_t *seq, int k, int place) {
    memmove(seq + place, seq + place + 1, (size_t)(k - place - 1) * sizeof *seq);
}

static int32_t neh(struct greedy *g, uint16_t *seq) {
    int32_t total[INSTANCE_MAX_JOBS];
    for (int i = 0; i < g->n; i++) {
        total[i] = 0;
        for (int j = 0; j < g->m; j++) total[i] += g->p[i * g->m + j];
        int k = i;
        for (; k > 0 && total[g->order[k - 1]] < total[i]; k--) g->order[k] = g->order[k - 1];
        g->order[k] = (uint16_t)i;
    }
    int32_t span = 0;
    for (int k = 0; k < g->n; k++) span = insert(g, seq, k, g->order[k], false);
    return span;
}

static void shuffle(struct greedy *g, uint16_t *a, int n) {
    for (int i = n - 1; i > 0; i--) {
        int k = random_below(&g->random, i + 1);
        uint16_t x = a[i];
        a[i] = a[k];
        a[k] = x;
    }
}

/* Moves single jobs, in random order, to their best places until a whole round brings no gain. */
static int32_t local_search(struct greedy *g, uint16_t *seq, int32_t span) {
    for (bool better = true; better;) {
        better = false;
        for (int i = 0; i < g->n; i++) g->order[i] = seq[i];
        shuffle(g, g->order, g->n);
        for (int i = 0; i < g->n; i++) {
            int place = 0;
            while (seq[place] != g->order[i]) place++;
            take_out(seq, g->n, place);
            int32_t now = insert(g, seq, g->n - 1, g->order[i], true);
            if (now < span) better = true;
            span = now; /* never more: the old place was among those tried */
        }
    }
    return span;
}

static int32_t rebuild(struct greedy *g, uint16_t *seq, int32_t span) {
    int d = DESTRUCTION < g->n - 1 ? DESTRUCTION : g->n - 1;
    for (int k = 0; k < d; k++) {
        int place = random_below(&g->random, g->n - k);
        g->out[k] = seq[place];
        take_out(seq, g->n - k, place);
    }
    for (int k = 0; k < d; k++) span = insert(g, seq, g->n - d + k, g->out[k], true);
    return span;
}

static double seconds_now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int32_t greedy_neh(const struct instance *in, uint16_t *perm) {
    struct greedy *g = greedy_new(in, 0);
    if (!g) return -1;
    int32_t span = neh(g, perm);
    free(g);
    return span;
}

int32_t greedy_search(const struct instance *in, double seconds, uint64_t seed, int32_t target, uint16_t *perm) {
    double end = seconds_now() + seconds;
    struct greedy *g = greedy_new(in, seed);
    if (!g) return -1;
    int64_t sum = 0;
    for (int k = 0; k < g->n * g->m; k++) sum += in->p[k];
    double temperature = TEMPERATURE * (double)sum / (g->n * g->m) / 10;
    size_t size = (size_t)g->n * sizeof *perm;
    int32_t now = local_search(g, g->now, neh(g, g->now)), best = now;
    memcpy(perm, g->now, size);
    while (best > target && seconds_now() < end) {
        memcpy(g->next, g->now, size);
        int32_t span = local_search(g, g->next, rebuild(g, g->next, now));
        if (span > now && random_unit(&g->random) >= exp((now - span) / temperature)) continue;
        memcpy(g->now, g->next, size);
        now = span;
        if (now >= best) continue;
        best = now;
        memcpy(perm, g->now, size);
    }
    free(g);
    return best;
}
