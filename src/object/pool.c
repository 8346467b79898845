/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of one size, last in first out: the record freed last is in the cache, and its page has been touched.
 * Memory goes back to the system with the node.
 */
#include "object/pool.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
/* Let the sanitizer see every record's life: each is an allocation of its own, in a ring before it. */

struct pool_record {
    _Alignas(64) struct pool_record *next, **prev;
};

void *pool_get(struct pool *p) {
    struct pool_record *r = aligned_alloc(64, sizeof *r + p->size);
    if (!r) return NULL;
    r->next = p->slabs;
    r->prev = (struct pool_record **)&p->slabs;
    if (r->next) r->next->prev = &r->next;
    p->slabs = r;
    return r + 1;
}

void pool_put(struct pool *p, void *x) {
    (void)p;
    struct pool_record *r = (struct pool_record *)x - 1;
    *r->prev = r->next;
    if (r->next) r->next->prev = r->prev;
    free(r);
}

void pool_done(struct pool *p, void (*release)(void *x)) {
    while (p->slabs) release((struct pool_record *)p->slabs + 1);
}

#else

#define SLAB_RECORDS 32u

struct pool_slab {
    struct pool_slab *next;
};

/* What a free record is told by at the end: no pointer is like that. */
struct pool_free {
    void *next;
    uintptr_t mark;
};
#define MARK         ((uintptr_t)0x5a5a5a5a5a5a5a5a)

void *pool_get(struct pool *p) {
    void *x = p->free;
    if (!x) {
        uint8_t *slab = aligned_alloc(64, 64 + SLAB_RECORDS * p->size);
        if (!slab) return NULL;
        ((struct pool_slab *)(void *)slab)->next = p->slabs;
        p->slabs = slab;
        for (size_t i = SLAB_RECORDS; i-- > 0;) pool_put(p, slab + 64 + i * p->size);
        x = p->free;
    }
    memcpy(&p->free, x, sizeof p->free);
    p->n_free--;
    return x;
}

void pool_put(struct pool *p, void *x) {
    memcpy(x, &p->free, sizeof p->free);
    p->free = x;
    p->n_free++;
}

static void mark_free(struct pool *p) {
    for (struct pool_free *x = p->free; x; x = x->next) x->mark = (uintptr_t)x ^ MARK;
}

void pool_done(struct pool *p, void (*release)(void *x)) {
    mark_free(p);
    for (struct pool_slab *s = p->slabs; s; s = s->next)
        for (size_t i = 0; i < SLAB_RECORDS; i++) {
            struct pool_free *x = (struct pool_free *)(void *)((uint8_t *)s + 64 + i * p->size);
            if (x->mark != ((uintptr_t)x ^ MARK)) release(x);
        }
    for (struct pool_slab *s = p->slabs, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    p->slabs = p->free = NULL;
    p->n_free = 0;
}
#endif
