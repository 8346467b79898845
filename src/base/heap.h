/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A binary heap of 64-bit keys, smallest first; equal keys leave in the order they came. The heap keeps keys and
 * sequence numbers side by side, an item keeps only its place: a size_t that the heap writes, HEAP_OUT when it is not
 * in the heap. The item is what contains that size_t.
 *
 * Owner: whoever holds the heap; items must leave the heap before their memory goes. Not thread-safe.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <moyai/base.h>

#define HEAP_OUT SIZE_MAX

struct heap_entry {
    uint64_t key, seq;
    size_t *place;
};

struct heap {
    struct heap_entry *v;
    size_t n, cap;
    uint64_t seq;
};

/* All zero is an empty heap. */
void heap_done(struct heap *h); /* frees the heap's own memory; items that are still in are marked HEAP_OUT */

/* Room for n items in all, so that heap_push cannot fail before. 0 or ENOMEM. */
int heap_reserve(struct heap *h, size_t n) MOYAI_MUST_USE;

/* Put the item in (*place must be HEAP_OUT). 0 or ENOMEM (nothing has changed). */
int heap_push(struct heap *h, uint64_t key, size_t *place) MOYAI_MUST_USE;
void heap_remove(struct heap *h, size_t *place);             /* nothing happens if it is not in */
void heap_move(struct heap *h, size_t *place, uint64_t key); /* a new key, behind its equals; the item must be in */

/* The first item's place and key; NULL: empty. */
static inline size_t *heap_first(const struct heap *h, uint64_t *key) {
    if (h->n == 0) return NULL;
    if (key) *key = h->v[0].key;
    return h->v[0].place;
}

/* The item of type `type` whose member `member` is the place p. */
#define HEAP_ITEM(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))

#endif
