/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two stores. What lies far ahead is in a heap. What is next is in a batch, sorted: all events before `until`, taken
 * from the heap at once when the batch is through. So it is known what comes next, and a world whose state is far
 * larger than any cache can have it fetched in good time (world.h, `ahead`).
 *
 * Many events would make a heap deep, and each step in it is a wait for memory. From MANY on there is a wheel between
 * the two: lists of events of a quarter of a millisecond each, in no order, which cost nothing until their turn comes.
 */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

#define SLOT_SHIFT 18     /* of nanoseconds: about a quarter of a millisecond */
#define SLOTS      16384u /* of the wheel: four seconds */
#define SPARES     64u    /* lists kept that are not in use */
/* So many events before its own an event has its stage of `ahead`. */
#define WORLD_AHEAD(stage) ((size_t)(WORLD_STAGES - (stage)) * 4)
#define MANY               4096u
#define FRONT              64u /* free places kept in front of the batch, for what is due at once */

struct world_event {
    moyai_ns when;
    uint64_t order;
    world_fn *fn;
    void *who;
    uint64_t what;
};

struct list {
    struct world_event *e;
    size_t n, cap;
};

struct world_wheel {
    struct list slot[SLOTS]; /* of when >> SLOT_SHIFT, modulo */
    uint64_t set[SLOTS / 64];
    size_t n;
    struct list spare[SPARES];
    size_t spares;
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
    for (size_t i = 0; w->wheel && i < SLOTS; i++) free(w->wheel->slot[i].e);
    for (size_t i = 0; w->wheel && i < w->wheel->spares; i++) free(w->wheel->spare[i].e);
    free(w->wheel);
    free(w->heap);
    free(w->batch);
    *w = (struct world){0};
}

static bool before(const struct world_event *a, const struct world_event *b) {
    return a->when != b->when ? a->when < b->when : a->order < b->order;
}

static void *grown(void *p, size_t *cap, size_t n, size_t size) {
    if (n <= *cap) return p;
    *cap = n < 4 ? 4 : 2 * n;
    p = realloc(p, *cap * size);
    if (!p) abort();
    return p;
}

/* ---- far ahead: a heap ------------------------------------------------------------------------- */

static void heap_push(struct world *w, const struct world_event *e) {
    w->heap = grown(w->heap, &w->cap, w->n + 1, sizeof *e);
    size_t i = w->n++;
    for (; i > 0 && before(e, &w->heap[(i - 1) / 2]); i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = *e;
}

static struct world_event heap_pop(struct world *w) {
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

/* ---- nearer: the wheel, from `until` on -------------------------------------------------------- */

static bool wheel_holds(const struct world *w, moyai_ns when) {
    return w->wheel && (when >> SLOT_SHIFT) - (w->until >> SLOT_SHIFT) < SLOTS;
}

static void wheel_push(struct world_wheel *v, const struct world_event *e) {
    size_t i = (size_t)(e->when >> SLOT_SHIFT) % SLOTS;
    struct list *l = &v->slot[i];
    if (!l->e && v->spares) *l = v->spare[--v->spares];
    l->e = grown(l->e, &l->cap, l->n + 1, sizeof *e);
    l->e[l->n++] = *e;
    v->set[i / 64] |= UINT64_C(1) << i % 64;
    v->n++;
}

/* The first time of its next list, from that of `until` on. There is one. */
static moyai_ns wheel_next(const struct world *w) {
    uint64_t at = w->until >> SLOT_SHIFT;
    for (;;) {
        size_t i = (size_t)at % SLOTS;
        uint64_t left = w->wheel->set[i / 64] >> i % 64;
        if (left) return (at + (uint64_t)__builtin_ctzll(left)) << SLOT_SHIFT;
        at += 64 - i % 64;
    }
}

/* ---- what is next: the batch ------------------------------------------------------------------- */

static void batch_room(struct world *w, size_t n) {
    w->batch = grown(w->batch, &w->batch_cap, n, sizeof *w->batch);
}

/* In its place. Mostly it is due at once: then what is before it makes room. */
static void batch_put(struct world *w, const struct world_event *e) {
    size_t from = w->at, to = w->end;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (before(&w->batch[mid], e))
            from = mid + 1;
        else
            to = mid;
    }
    if (w->at > 0 && from - w->at <= w->end - from) {
        memmove(&w->batch[w->at - 1], &w->batch[w->at], (from - w->at) * sizeof *e);
        w->at--;
        w->batch[from - 1] = *e;
        return;
    }
    batch_room(w, w->end + 1);
    memmove(&w->batch[from + 1], &w->batch[from], (w->end - from) * sizeof *e);
    w->batch[from] = *e;
    w->end++;
}

static int by_time(const void *a, const void *b) {
    return before(a, b) ? -1 : 1;
}

static void ahead(const struct world *w, size_t k, unsigned stage) {
    if (k < w->end) w->ahead(w->batch[k].fn, w->batch[k].who, w->batch[k].what, stage);
}

/* All events of the next list's time in which there are some. False: there are none at all. */
static bool batch_fill(struct world *w) {
    struct world_wheel *v = w->wheel;
    if (w->n + (v ? v->n : 0) == 0) return false;
    moyai_ns first = w->n ? w->heap[0].when >> SLOT_SHIFT << SLOT_SHIFT : UINT64_MAX;
    if (v && v->n && wheel_next(w) < first) first = wheel_next(w);
    moyai_ns until = first + ((moyai_ns)1 << SLOT_SHIFT);
    if (until < first) until = UINT64_MAX;
    w->at = w->end = FRONT;
    if (v) {
        size_t i = (size_t)(first >> SLOT_SHIFT) % SLOTS;
        struct list *l = &v->slot[i];
        batch_room(w, FRONT + l->n);
        if (l->n) memcpy(&w->batch[FRONT], l->e, l->n * sizeof *l->e);
        w->end += l->n;
        v->n -= l->n;
        l->n = 0;
        if (l->e && v->spares < SPARES)
            v->spare[v->spares++] = *l;
        else
            free(l->e);
        *l = (struct list){0};
        v->set[i / 64] &= ~(UINT64_C(1) << i % 64);
    }
    size_t listed = w->end;
    w->until = until;
    while (w->n && w->heap[0].when < until) {
        batch_room(w, w->end + 1);
        w->batch[w->end++] = heap_pop(w);
    }
    if (listed > FRONT) qsort(&w->batch[FRONT], w->end - FRONT, sizeof *w->batch, by_time);
    while (v && w->n && wheel_holds(w, w->heap[0].when)) {
        const struct world_event e = heap_pop(w);
        wheel_push(v, &e);
    }
    for (unsigned stage = 0; w->ahead && stage < WORLD_STAGES; stage++)
        for (size_t k = 0; k < WORLD_AHEAD(stage) && w->at + k < w->end; k++) ahead(w, w->at + k, stage);
    return true;
}

void world_at(struct world *w, moyai_ns when, world_fn *fn, void *who, uint64_t what) {
    uint64_t order = w->sequence++;
    if (w->shuffle) order = rng_next(&w->ties);
    const struct world_event e = {when > w->now ? when : w->now, order, fn, who, what};
    if (!w->wheel && w->n >= MANY) w->wheel = sim_alloc(sizeof *w->wheel);
    if (e.when < w->until)
        batch_put(w, &e);
    else if (wheel_holds(w, e.when))
        wheel_push(w->wheel, &e);
    else
        heap_push(w, &e);
}

/* ---- time goes on ------------------------------------------------------------------------------ */

static bool there_is(struct world *w) {
    return w->at < w->end || batch_fill(w);
}

bool world_step(struct world *w) {
    if (!there_is(w)) return false;
    for (unsigned stage = 0; w->ahead && stage < WORLD_STAGES; stage++) ahead(w, w->at + WORLD_AHEAD(stage), stage);
    const struct world_event e = w->batch[w->at++];
    w->now = e.when;
    w->steps++;
    e.fn(e.who, e.what);
    return true;
}

bool world_run(struct world *w, bool (*pred)(void *arg), void *arg, moyai_ns limit) {
    while (there_is(w) && w->batch[w->at].when <= limit) {
        (void)world_step(w);
        if (pred && pred(arg)) return true;
    }
    if (w->now < limit) w->now = limit;
    return false;
}
