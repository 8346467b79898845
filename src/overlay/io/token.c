/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Session frames on their way through this node.
 *
 * What passes through leaves at once as a rule, in the turn in which it came. So a token borrows the bytes from the
 * buffer that they were read into, and they are copied only to where the next link gathers what it writes; a frame
 * that has to wait is copied when the turn is over.
 *
 * Of those that carry a piece of a large message (4 KiB: the allocator is slow with them) some are kept for the next.
 * Smaller ones are made to measure: many of them may wait, and memory is lent by their length.
 */
#include "overlay/io/route_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MOST  ((size_t)RELAY_OWN) /* more than the payload of any frame on a path */
#define LARGE (MOST / 2)
#define KEPT  64u

static bool is_large(uint32_t n) {
    return n >= LARGE && n <= MOST;
}

struct token *token_new(struct route *t, uint8_t type, uint32_t n) {
    struct token *b = is_large(n) ? t->kept : NULL;
    if (b) {
        t->kept = b->next;
        t->n_kept--;
    } else {
        b = malloc(sizeof *b + (is_large(n) ? MOST : n));
        if (!b) return NULL;
    }
    *b = (struct token){.p = b->bytes, .n = n, .type = type};
    return b;
}

void token_lend(struct token *b, uint8_t *p, struct token **lent) {
    b->p = p;
    b->lent = lent;
    *lent = b;
}

void token_keep(struct token *b) {
    assert(b->lent);
    memcpy(b->bytes, b->p, b->n);
    b->p = b->bytes;
    *b->lent = NULL;
    b->lent = NULL;
}

void token_free(struct route *t, struct token *b) {
    if (b->lent) *b->lent = NULL;
    if (!is_large(b->n) || t->n_kept == KEPT) {
        free(b);
        return;
    }
    b->next = t->kept;
    t->kept = b;
    t->n_kept++;
}

void tokens_free(struct route *t) {
    for (struct token *b = t->kept, *next; b; b = next) {
        next = b->next;
        free(b);
    }
}
