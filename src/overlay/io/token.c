/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Session frames on their way through this node.
 *
 * What passes through leaves at once as a rule, in the turn in which it came. So a token borrows the bytes from the
 * buffer that they were read into, and they are copied only to where the next link gathers what it writes; a frame
 * that has to wait is copied when the turn is over.
 *
 * Of those that carry a piece of a large message (4 KiB, or 16: the allocator is slow with them) some are kept for the
 * next. Others are made to measure: many of them may wait, and memory is lent by their length.
 */
#include "overlay/io/route_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* More than the payload of any frame on a path that has little credit, or much; the least that is put into it. */
static const struct {
    size_t size, least;
    uint32_t kept;
} kinds[TOKEN_KINDS] = {{RELAY_OWN, RELAY_OWN / 2, 64}, {RELAY_MOST, RELAY_MOST - RELAY_MOST / 8, 16}};

/* TOKEN_KINDS: none. */
static size_t kind_of(uint32_t n) {
    for (size_t k = 0; k < TOKEN_KINDS; k++)
        if (n <= kinds[k].size) return n >= kinds[k].least ? k : TOKEN_KINDS;
    return TOKEN_KINDS;
}

struct token *token_new(struct route *t, uint8_t type, uint32_t n) {
    size_t k = kind_of(n);
    struct token *b = k < TOKEN_KINDS ? t->kept[k] : NULL;
    if (b) {
        t->kept[k] = b->next;
        t->n_kept[k]--;
    } else {
        b = malloc(sizeof *b + (k < TOKEN_KINDS ? kinds[k].size : n));
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
    size_t k = kind_of(b->n);
    if (b->lent) *b->lent = NULL;
    if (k == TOKEN_KINDS || t->n_kept[k] == kinds[k].kept) {
        free(b);
        return;
    }
    b->next = t->kept[k];
    t->kept[k] = b;
    t->n_kept[k]++;
}

void tokens_free(struct route *t) {
    for (size_t k = 0; k < TOKEN_KINDS; k++)
        for (struct token *b = t->kept[k], *next; b; b = next) {
            next = b->next;
            free(b);
        }
}
