/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heap.h"

#include <moyai/error.h>

#include <assert.h>
#include <stdlib.h>

static bool before(const struct heap_entry *a, const struct heap_entry *b) {
    return a->key != b->key ? a->key < b->key : a->seq < b->seq;
}

static void put(struct heap *h, size_t i, struct heap_entry e) {
    h->v[i] = e;
    *e.place = i;
}

static void sift_up(struct heap *h, size_t i, struct heap_entry e) {
    while (i > 0) {
        size_t up = (i - 1) / 2;
        if (!before(&e, &h->v[up])) break;
        put(h, i, h->v[up]);
        i = up;
    }
    put(h, i, e);
}

static void sift_down(struct heap *h, size_t i, struct heap_entry e) {
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= h->n) break;
        if (child + 1 < h->n && before(&h->v[child + 1], &h->v[child])) child++;
        if (!before(&h->v[child], &e)) break;
        put(h, i, h->v[child]);
        i = child;
    }
    put(h, i, e);
}

static void sift(struct heap *h, size_t i, struct heap_entry e) {
    if (i > 0 && before(&e, &h->v[(i - 1) / 2])) {
        sift_up(h, i, e);
    } else {
        sift_down(h, i, e);
    }
}

void heap_done(struct heap *h) {
    for (size_t i = 0; i < h->n; i++) *h->v[i].place = HEAP_OUT;
    free(h->v);
    *h = (struct heap){0};
}

int heap_reserve(struct heap *h, size_t n) {
    if (n <= h->cap) return 0;
    size_t cap = h->cap ? h->cap : 16;
    while (cap < n) cap *= 2;
    struct heap_entry *v = realloc(h->v, cap * sizeof *v);
    if (!v) return MOYAI_ENOMEM;
    h->v = v;
    h->cap = cap;
    return 0;
}

int heap_push(struct heap *h, uint64_t key, size_t *place) {
    assert(*place == HEAP_OUT);
    int rc = heap_reserve(h, h->n + 1);
    if (rc < 0) return rc;
    sift_up(h, h->n++, (struct heap_entry){key, h->seq++, place});
    return 0;
}

void heap_remove(struct heap *h, size_t *place) {
    size_t i = *place;
    if (i == HEAP_OUT) return;
    assert(i < h->n && h->v[i].place == place);
    *place = HEAP_OUT;
    struct heap_entry last = h->v[--h->n];
    if (i < h->n) sift(h, i, last);
}

void heap_move(struct heap *h, size_t *place, uint64_t key) {
    size_t i = *place;
    assert(i < h->n && h->v[i].place == place);
    sift(h, i, (struct heap_entry){key, h->seq++, place});
}
