/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

struct world_event {
    moyai_ns when;
    uint64_t order;
    world_fn *fn;
    void *who;
    uint64_t what;
};

void *sim_alloc(size_t n) {
    n = (n + 15) & ~(size_t)15;
    void *p = aligned_alloc(16, n ? n : 16);
    if (!p) abort();
    memset(p, 0, n);
    return p;
}

void world_init(struct world *w, uint64_t seed, bool shuffle_ties) {
    *w = (struct world){.now = (moyai_ns)MOYAI_SEC, .shuffle = shuffle_ties};
    rng_seed(&w->rng, seed);
    rng_fork(&w->rng, "ties", 0, &w->ties);
}

void world_done(struct world *w) {
    free(w->heap);
    *w = (struct world){0};
}

static bool before(const struct world_event *a, const struct world_event *b) {
    return a->when != b->when ? a->when < b->when : a->order < b->order;
}

void world_at(struct world *w, moyai_ns when, world_fn *fn, void *who, uint64_t what) {
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 64;
        struct world_event *p = realloc(w->heap, cap * sizeof *p);
        if (!p) abort();
        w->heap = p;
        w->cap = cap;
    }
    uint64_t order = w->sequence++;
    if (w->shuffle) order = rng_next(&w->ties);
    const struct world_event e = {when > w->now ? when : w->now, order, fn, who, what};
    size_t i = w->n++;
    for (; i > 0 && before(&e, &w->heap[(i - 1) / 2]); i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = e;
}

static struct world_event pop(struct world *w) {
    struct world_event first = w->heap[0], e = w->heap[--w->n];
    size_t i = 0;
    for (;;) {
        size_t k = 2 * i + 1;
        if (k >= w->n) break;
        if (k + 1 < w->n && before(&w->heap[k + 1], &w->heap[k])) k++;
        if (!before(&w->heap[k], &e)) break;
        w->heap[i] = w->heap[k];
        i = k;
    }
    if (w->n) w->heap[i] = e;
    return first;
}

bool world_step(struct world *w) {
    if (w->n == 0) return false;
    struct world_event e = pop(w);
    w->now = e.when;
    w->steps++;
    e.fn(e.who, e.what);
    return true;
}

bool world_run(struct world *w, bool (*pred)(void *arg), void *arg, moyai_ns limit) {
    while (w->n && w->heap[0].when <= limit) {
        (void)world_step(w);
        if (pred && pred(arg)) return true;
    }
    if (w->now < limit) w->now = limit;
    return false;
}
