/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A home is taken for dead while it lives, in the midst of a move: the other has to decide without it, and remembers
 * how until it asks, under its next id. What is forgotten is answered so that the object is lost, and never had twice.
 */
#include "object/astray.h"

#include <stdlib.h>

#ifndef ASTRAY_MOST
#define ASTRAY_MOST 65536u
#endif

struct astray_key {
    uint8_t object[16], what;
};

struct astray_move {
    UT_hash_handle hh; /* in the order in which they were noted */
    struct astray_key key;
    uint8_t other[16];
    bool soon;
    uint64_t number;
    moyai_ns until;
};

static struct astray_key key_of(enum astray what, const uint8_t object[16]) {
    struct astray_key k = {.what = (uint8_t)what};
    memcpy(k.object, object, 16);
    return k;
}

static struct astray_move *find(const moyai_node *n, enum astray what, const uint8_t object[16]) {
    const struct astray_key k = key_of(what, object);
    struct astray_move *m;
    HASH_FIND(hh, n->astray, &k, sizeof k, m);
    return m;
}

static void asked(moyai_node *n, struct astray_move *m) {
    if (!m->soon) return;
    m->soon = false;
    if (--n->n_astray > 0) return;
    exec_timer_clear(n->x, &n->astray_timer);
    exec_attention(n->x);
}

static void forget(moyai_node *n, struct astray_move *m) {
    asked(n, m);
    HASH_DEL(n->astray, m);
    free(m);
}

/* Those that were to be asked for soon, and were not. The latest are last. */
static void is_late(struct exec *x, struct exec_timer *t) {
    moyai_node *n = (moyai_node *)(void *)((char *)t - offsetof(struct moyai_node, astray_timer));
    const moyai_ns now = moyai_now();
    struct astray_move *m, *next;
    moyai_ns first = UINT64_MAX;
    HASH_ITER (hh, n->astray, m, next) {
        if (m->soon && m->until <= now) asked(n, m);
        if (m->soon && m->until < first) first = m->until;
    }
    if (first != UINT64_MAX) exec_timer_set(x, t, first);
}

void astray_note(moyai_node *n, enum astray what, const uint8_t object[16], uint64_t number, const uint8_t other[16],
                 bool soon) {
    struct astray_move *m = find(n, what, object);
    if (m) forget(n, m);
    if (HASH_COUNT(n->astray) >= ASTRAY_MOST) forget(n, n->astray);
    m = calloc(1, sizeof *m);
    if (!m) return; /* as one forgotten */
    m->key = key_of(what, object);
    memcpy(m->other, other, 16);
    m->number = number;
    m->soon = soon;
    m->until = moyai_now() + (moyai_ns)ASTRAY_TIME;
    HASH_ADD(hh, n->astray, key, sizeof m->key, m);
    if (!m->hh.tbl) {
        free(m);
        return;
    }
    if (!soon) return;
    if (n->n_astray++ > 0) return;
    exec_timer_init(&n->astray_timer, is_late);
    exec_timer_set(n->x, &n->astray_timer, m->until);
}

uint64_t astray_find(const moyai_node *n, enum astray what, const uint8_t object[16], const uint8_t **other) {
    const struct astray_move *m = find(n, what, object);
    if (m && other) *other = m->other;
    return m ? m->number : 0;
}

void astray_asked(moyai_node *n, enum astray what, const uint8_t object[16]) {
    struct astray_move *m = find(n, what, object);
    if (m) asked(n, m);
}

void astray_over(moyai_node *n, const uint8_t object[16]) {
    for (int what = ASTRAY_GIVEN; what <= ASTRAY_DROPPED; what++) {
        struct astray_move *m = find(n, (enum astray)what, object);
        if (m) forget(n, m);
    }
}

size_t astray_waits(const moyai_node *n) {
    return n->n_astray;
}

void astray_done(moyai_node *n) {
    struct astray_move *m, *next;
    HASH_ITER (hh, n->astray, m, next) forget(n, m);
}
