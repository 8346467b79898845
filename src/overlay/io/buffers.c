/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers for large inbound messages. The first touch of a page can cost far more than filling it, so freed buffers
 * are kept, up to a limit, and given out again: the smallest that fits and is not more than four times too large.
 */
#include "overlay/io/buffers.h"

#include "base/err.h"

#include <stdbool.h>
#include <stdlib.h>

#define KEEP_MOST  16
#define KEEP_BYTES (256u * 1024 * 1024)
#define ROUND      (64u * 1024)

struct head {
    _Alignas(64) size_t cap; /* bytes behind this head */
};

struct buffers {
    struct head *kept[KEEP_MOST];
    size_t n, bytes;
};

int buffers_new(struct buffers **ret) {
    struct buffers *b = calloc(1, sizeof *b);
    if (!b) return MOYAI_ENOMEM;
    *ret = b;
    return 0;
}

void buffers_free(struct buffers *b) {
    if (!b) return;
    for (size_t i = 0; i < b->n; i++) free(b->kept[i]);
    free(b);
}

uint8_t *buffers_get(struct buffers *b, size_t n) {
    size_t best = b->n;
    for (size_t i = 0; i < b->n; i++)
        if (b->kept[i]->cap >= n && b->kept[i]->cap / 4 <= n && (best == b->n || b->kept[i]->cap < b->kept[best]->cap))
            best = i;
    struct head *h;
    if (best < b->n) {
        h = b->kept[best];
        b->bytes -= h->cap;
        b->kept[best] = b->kept[--b->n];
    } else {
        size_t cap = (n + ROUND - 1) / ROUND * ROUND;
        h = cap < n ? NULL : aligned_alloc(64, sizeof *h + cap);
        if (!h) return NULL;
        h->cap = cap;
    }
    return (uint8_t *)(h + 1);
}

void buffers_put(struct buffers *b, uint8_t *p) {
    if (!p) return;
    struct head *h = (struct head *)(void *)p - 1;
    if (h->cap > KEEP_BYTES / 2) {
        free(h);
        return;
    }
    while (b->n == KEEP_MOST || (b->n > 0 && b->bytes + h->cap > KEEP_BYTES)) { /* the oldest goes */
        b->bytes -= b->kept[0]->cap;
        free(b->kept[0]);
        memmove(b->kept, b->kept + 1, --b->n * sizeof b->kept[0]);
    }
    b->kept[b->n++] = h;
    b->bytes += h->cap;
}
