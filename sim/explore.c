/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/explore.h"

#include "base/err.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct node {
    uint64_t hash;
    uint32_t parent, move;
};

/* Blocks waiting to be expanded, one breadth after the other: a bitmap of the words that differ, and these. */
struct queue {
    uint64_t *p;
    size_t n, cap, at;
};

struct explorer {
    const struct explore_model *m;
    struct explore_result *r;
    struct node *nodes;
    size_t n, cap;
    uint32_t *table; /* of indices + 1 into nodes, open addressing */
    size_t slots;    /* a power of two */
    uint64_t *first, *world, *next;
    struct queue now, later;
};

static size_t words(const struct explorer *x) {
    return x->m->size / 8;
}

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

/* Most words are as they were at first; the others count with their place. */
static uint64_t hash(const struct explorer *x, const uint64_t *w) {
    uint64_t h = 0x51ed270b;
    for (size_t i = 0; i < words(x); i++) {
        uint64_t d = w[i] ^ x->first[i];
        if (d) h = mix(mix(h, i), d);
    }
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    return h ^ (h >> 32);
}

static int queue_put(const struct explorer *x, struct queue *q, const uint64_t *w) {
    size_t maps = (words(x) + 63) / 64, need = q->n + maps + words(x);
    if (need > q->cap) {
        size_t cap = need * 2;
        uint64_t *p = realloc(q->p, cap * sizeof *p);
        if (!p) return MOYAI_ENOMEM;
        q->p = p;
        q->cap = cap;
    }
    uint64_t *map = q->p + q->n;
    memset(map, 0, maps * sizeof *map);
    size_t n = maps;
    for (size_t i = 0; i < words(x); i++) {
        if (w[i] == x->first[i]) continue;
        map[i / 64] |= UINT64_C(1) << (i % 64);
        map[n++] = w[i];
    }
    q->n += n;
    return 0;
}

static void queue_get(const struct explorer *x, struct queue *q, uint64_t *w) {
    size_t maps = (words(x) + 63) / 64;
    const uint64_t *map = q->p + q->at, *p = map + maps;
    for (size_t i = 0; i < words(x); i++) w[i] = (map[i / 64] >> (i % 64)) & 1 ? *p++ : x->first[i];
    q->at = (size_t)(p - q->p);
}

static int table_grow(struct explorer *x) {
    size_t slots = x->slots ? x->slots * 2 : 1 << 16;
    uint32_t *t = calloc(slots, sizeof *t);
    if (!t) return MOYAI_ENOMEM;
    for (size_t i = 0; i < x->n; i++) {
        size_t k = x->nodes[i].hash & (slots - 1);
        while (t[k]) k = (k + 1) & (slots - 1);
        t[k] = (uint32_t)i + 1;
    }
    free(x->table);
    x->table = t;
    x->slots = slots;
    return 0;
}

/* 1: new; 0: known; or ENOMEM. */
static int remember(struct explorer *x, uint64_t h, uint32_t parent, uint32_t move) {
    if (x->n * 2 >= x->slots && table_grow(x) < 0) return MOYAI_ENOMEM;
    size_t k = h & (x->slots - 1);
    for (; x->table[k]; k = (k + 1) & (x->slots - 1))
        if (x->nodes[x->table[k] - 1].hash == h) return 0;
    if (x->n == x->cap) {
        size_t cap = x->cap ? x->cap * 2 : 1 << 16;
        struct node *p = realloc(x->nodes, cap * sizeof *p);
        if (!p) return MOYAI_ENOMEM;
        x->nodes = p;
        x->cap = cap;
    }
    x->nodes[x->n++] = (struct node){h, parent, move};
    x->table[k] = (uint32_t)x->n;
    return 1;
}

/* Tell the moves that lead to a node, and then one more. */
static void tell(struct explorer *x, FILE *out, size_t node, uint32_t last) {
    uint32_t *path = malloc((x->r->depth + 2) * sizeof *path);
    if (!path) return;
    size_t n = 0;
    if (last != UINT32_MAX) path[n++] = last;
    for (; node != 0; node = x->nodes[node].parent) path[n++] = x->nodes[node].move;
    fprintf(out, "broken: %s\n", x->r->why.text);
    memcpy(x->next, x->first, x->m->size);
    for (size_t step = 1; n > 0; step++) {
        struct moyai_error ignored;
        char text[4096] = "";
        memcpy(x->world, x->next, x->m->size);
        x->m->tell(x->world, x->m->cfg, path[--n], text, sizeof text);
        fprintf(out, "  %3zu %s\n", step, text);
        (void)x->m->move(x->next, x->m->cfg, path[n], &ignored); /* was possible before */
        x->m->settle(x->next, x->m->cfg);
    }
    free(path);
}

static int broken(struct explorer *x, FILE *story, size_t node, uint32_t move) {
    x->r->broken = true;
    if (story) tell(x, story, node, move);
    return 1;
}

/* All moves of the state in x->world. 1: a law is broken. */
static int expand(struct explorer *x, size_t node, uint64_t budget, FILE *story) {
    const struct explore_model *m = x->m;
    bool rest = true;
    memcpy(x->next, x->world, m->size);
    for (uint32_t k = 0; k < m->moves; k++) {
        int rc = m->move(x->next, m->cfg, k, &x->r->why);
        if (rc == 0) continue;
        x->r->moves++;
        if (rc < 0) return broken(x, story, node, k);
        if (rest && m->must(x->world, m->cfg, k)) rest = false;
        m->settle(x->next, m->cfg);
        if (x->n >= budget) {
            x->r->exhausted = false;
        } else {
            rc = remember(x, hash(x, x->next), (uint32_t)node, k);
            if (rc == 1) rc = queue_put(x, &x->later, x->next);
            if (rc < 0) return rc;
        }
        memcpy(x->next, x->world, m->size);
    }
    if (!rest) return 0;
    x->r->rests++;
    return m->rest(x->world, m->cfg, &x->r->why) ? 0 : broken(x, story, node, UINT32_MAX);
}

static int run(struct explorer *x, uint64_t budget, FILE *story) {
    x->m->init(x->first, x->m->cfg);
    x->m->settle(x->first, x->m->cfg);
    int rc = remember(x, hash(x, x->first), 0, 0);
    if (rc == 1) rc = queue_put(x, &x->later, x->first);
    for (size_t node = 0; rc == 0 && node < x->n; x->r->depth++) {
        struct queue q = x->now;
        x->now = x->later;
        x->now.at = 0;
        x->later = q;
        x->later.n = 0;
        while (rc == 0 && x->now.at < x->now.n) {
            queue_get(x, &x->now, x->world);
            rc = expand(x, node++, budget, story);
        }
    }
    return rc;
}

int explore(const struct explore_model *m, uint64_t budget, FILE *story, struct explore_result *r) {
    struct explorer x = {.m = m, .r = r};
    *r = (struct explore_result){.exhausted = true};
    if (budget > UINT32_MAX - 2) budget = UINT32_MAX - 2;
    x.first = aligned_alloc(16, (m->size + 15) & ~(size_t)15);
    x.world = aligned_alloc(16, (m->size + 15) & ~(size_t)15);
    x.next = aligned_alloc(16, (m->size + 15) & ~(size_t)15);
    int rc = x.first && x.world && x.next ? run(&x, budget, story) : MOYAI_ENOMEM;
    r->states = x.n;
    if (rc < 0 || r->broken) r->exhausted = false;
    free(x.first);
    free(x.world);
    free(x.next);
    free(x.nodes);
    free(x.table);
    free(x.now.p);
    free(x.later.p);
    return rc < 0 ? rc : 0;
}
