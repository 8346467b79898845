/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/timer.h"

/* child: the first child; next: the next sibling; prev: the previous sibling or, for a first child, the parent. */

static bool before(const struct exec_timer *a, const struct exec_timer *b) {
    return a->when < b->when || (a->when == b->when && a->index < b->index);
}

/* Two roots, neither NULL, become one. */
static struct exec_timer *meld(struct exec_timer *a, struct exec_timer *b) {
    if (before(b, a)) {
        struct exec_timer *t = a;
        a = b;
        b = t;
    }
    b->next = a->child;
    if (b->next) b->next->prev = b;
    b->prev = a;
    a->child = b;
    a->next = NULL;
    a->prev = NULL;
    return a;
}

/* The children of a removed root: melded in pairs from the left, then from the right into one. */
static struct exec_timer *meld_all(struct exec_timer *first) {
    struct exec_timer *pairs = NULL; /* threaded by next, last pair first */
    while (first) {
        struct exec_timer *a = first, *b = a->next;
        first = b ? b->next : NULL;
        struct exec_timer *m = b ? meld(a, b) : a;
        m->next = pairs;
        pairs = m;
    }
    struct exec_timer *root = NULL;
    while (pairs) {
        struct exec_timer *m = pairs;
        pairs = m->next;
        m->next = NULL;
        m->prev = NULL;
        root = root ? meld(root, m) : m;
    }
    return root;
}

void timers_set(struct timers *h, struct exec_timer *t, moyai_ns when) {
    timers_clear(h, t);
    t->when = when;
    t->index = h->order++;
    t->child = t->next = t->prev = NULL;
    h->root = h->root ? meld(h->root, t) : t;
}

void timers_clear(struct timers *h, struct exec_timer *t) {
    if (!timer_is_set(t)) return;
    t->index = SIZE_MAX;
    if (t == h->root) {
        h->root = meld_all(t->child);
        return;
    }
    if (t->prev->child == t)
        t->prev->child = t->next;
    else
        t->prev->next = t->next;
    if (t->next) t->next->prev = t->prev;
    struct exec_timer *rest = meld_all(t->child);
    if (rest) h->root = meld(h->root, rest);
}

struct exec_timer *timers_take_due(struct timers *h, moyai_ns now, size_t end) {
    struct exec_timer *t = h->root;
    if (!t || t->when > now || t->index >= end) return NULL;
    timers_clear(h, t);
    return t;
}
