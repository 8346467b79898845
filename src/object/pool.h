/* SPDX-License-Identifier: Apache-2.0 */
/* Records of one size, last in first out (pool.c). Node lock held. */
#ifndef OBJECT_POOL_H
#define OBJECT_POOL_H

#include <stddef.h>

struct pool {
    void *free;
    size_t n_free, size;
    void *slabs; /* chain */
};
void *pool_get(struct pool *p);
void pool_put(struct pool *p, void *x);
/* The end: release is called for each record in use, frees what that holds and may put it back. */
void pool_done(struct pool *p, void (*release)(void *x));

#endif
