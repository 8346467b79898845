/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of one size, last in first out: the record freed last is in the cache, and its page has been touched.
 * Memory goes back to the system with the node.
 */
#include "object/internal.h"

#include <stdlib.h>

#define SLAB_RECORDS 32u

struct pool_slab {
    struct pool_slab *next;
};

#ifdef __SANITIZE_ADDRESS__
/* Let the sanitizer see every record's life. */
void *pool_get(struct pool *p) {
    return aligned_alloc(64, p->size);
}
void pool_put(struct pool *p, void *x) {
    (void)p;
    free(x);
}
void pool_done(struct pool *p) {
    (void)p;
}
#else
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

void pool_done(struct pool *p) {
    for (struct pool_slab *s = p->slabs, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    p->slabs = p->free = NULL;
    p->n_free = 0;
}
#endif
