/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grid's entries stand in an array, for drawing, and in a hash table, for finding. A sample shuffles the front of the
 * array; an entry that is taken out leaves its place to the last one. The hash table of those that were taken back
 * keeps them in the order in which that was, for forgetting the first.
 */
#include "cli/endpoint_store.h"

#include "base/err.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct entry {
    UT_hash_handle hh;
    uint8_t id[16];
    int64_t made;
    moyai_ns until;
    size_t place; /* in the grid's array */
    size_t n;
    uint8_t bytes[];
};

struct grid {
    UT_hash_handle hh;
    char name[ENDPOINT_GRID_MAX + 1];
    struct entry *by_id, **all;
    size_t n, cap;
};

/* A node that has taken its entry back. */
struct gone {
    UT_hash_handle hh;
    uint8_t id[16];
    int64_t made;
    moyai_ns until;
};

struct endpoint_store {
    struct endpoint_limits limits;
    struct moyai_rng rng;
    struct grid *grids;
    struct gone *gone;
    size_t bytes;
    int64_t latest;
};

int endpoint_store_new(struct endpoint_store **ret, const struct endpoint_limits *limits, uint64_t seed) {
    struct endpoint_store *s = calloc(1, sizeof *s);
    if (!s) return MOYAI_ENOMEM;
    s->limits = *limits;
    s->latest = INT64_MAX;
    rng_seed(&s->rng, seed);
    *ret = s;
    return 0;
}

bool endpoint_grid_name(const char *name) {
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return n > 0 && n <= ENDPOINT_GRID_MAX && name[n] == 0;
}

static size_t cost(size_t n) {
    return sizeof(struct entry) + n + 2 * sizeof(void *);
}

static void swap(struct grid *g, size_t i, size_t k) {
    struct entry *e = g->all[i];
    g->all[i] = g->all[k];
    g->all[k] = e;
    g->all[i]->place = i;
    g->all[k]->place = k;
}

static void entry_remove(struct endpoint_store *s, struct grid *g, struct entry *e) {
    swap(g, e->place, g->n - 1);
    g->n--;
    HASH_DEL(g->by_id, e);
    s->bytes -= cost(e->n);
    free(e);
}

static void grid_remove(struct endpoint_store *s, struct grid *g) {
    while (g->n > 0) entry_remove(s, g, g->all[g->n - 1]);
    HASH_DEL(s->grids, g);
    s->bytes -= sizeof *g;
    free(g->all);
    free(g);
}

static void gone_forget(struct endpoint_store *s, struct gone *x) {
    HASH_DEL(s->gone, x);
    s->bytes -= sizeof *x;
    free(x);
}

void endpoint_store_free(struct endpoint_store *s) {
    if (!s) return;
    while (s->gone) gone_forget(s, s->gone);
    struct grid *g, *next;
    HASH_ITER (hh, s->grids, g, next) grid_remove(s, g);
    free(s);
}

static struct grid *find(const struct endpoint_store *s, const char *name) {
    struct grid *g;
    HASH_FIND_STR(s->grids, name, g);
    return g;
}

static struct grid *grid_new(struct endpoint_store *s, const char *name) {
    struct grid *g = calloc(1, sizeof *g);
    if (!g) return NULL;
    strncpy(g->name, name, sizeof g->name - 1);
    HASH_ADD_STR(s->grids, name, g);
    if (!g->hh.tbl) {
        free(g);
        return NULL;
    }
    s->bytes += sizeof *g;
    return g;
}

/* Room for one more in the array. */
static bool place_more(struct grid *g) {
    if (g->n < g->cap) return true;
    size_t cap = g->cap ? 2 * g->cap : 16;
    struct entry **all = realloc(g->all, cap * sizeof *all);
    if (!all) return false;
    g->all = all;
    g->cap = cap;
    return true;
}

static void grid_sweep(struct endpoint_store *s, struct grid *g, moyai_ns now) {
    for (size_t i = g->n; i-- > 0;)
        if (g->all[i]->until <= now) entry_remove(s, g, g->all[i]);
    if (g->n == 0) grid_remove(s, g);
}

void endpoint_sweep(struct endpoint_store *s, moyai_ns now) {
    struct grid *g, *next;
    HASH_ITER (hh, s->grids, g, next) grid_sweep(s, g, now);
    struct gone *x, *after;
    HASH_ITER (hh, s->gone, x, after)
        if (x->until <= now) gone_forget(s, x);
}

static bool full(const struct endpoint_store *s, const struct grid *g, bool replaces, size_t more,
                 struct moyai_error *why) {
    if (!g && HASH_COUNT(s->grids) >= s->limits.grids)
        err_set(why, MOYAI_EAGAIN, "the server knows %zu grids and takes no more", s->limits.grids);
    else if (g && !replaces && g->n >= s->limits.entries)
        err_set(why, MOYAI_EAGAIN, "the server knows %zu nodes of this grid and takes no more", s->limits.entries);
    else if (s->bytes + more > s->limits.bytes)
        err_set(why, MOYAI_EAGAIN, "the server's memory for entries is full (%zu bytes)", s->limits.bytes);
    else
        return false;
    return true;
}

/* Entries go before what is remembered of others. */
static void make_room(struct endpoint_store *s, size_t more) {
    while (s->gone && s->bytes + more > s->limits.bytes) gone_forget(s, s->gone);
}

static struct gone *find_gone(const struct endpoint_store *s, const uint8_t id[16]) {
    struct gone *x;
    HASH_FIND(hh, s->gone, id, 16, x);
    return x;
}

void endpoint_believe(struct endpoint_store *s, int64_t latest) {
    s->latest = latest;
}

/* There is a later word of the node, and it counts. */
static bool is_later(const struct endpoint_store *s, const struct entry *e, int64_t made, moyai_ns now) {
    return e && e->made > made && e->made <= s->latest && e->until > now;
}

int endpoint_put(struct endpoint_store *s, const char *grid, const uint8_t id[16], const uint8_t *p, size_t n,
                 int64_t made, moyai_ns until, moyai_ns now, struct moyai_error *reterr) {
    if (!endpoint_grid_name(grid)) return err_set(reterr, MOYAI_EINVAL, "not the name of a grid");
    if (n == 0 || n > ENDPOINT_ENTRY_MAX)
        return err_set(reterr, MOYAI_ETOOBIG, "an entry has 1 to %u bytes, not %zu", ENDPOINT_ENTRY_MAX, n);
    const struct gone *left = find_gone(s, id);
    if (left && left->until > now && made <= left->made)
        return err_set(reterr, MOYAI_ESTATE, "the node has taken back what it left then");
    struct moyai_error why;
    for (int again = 0; again < 2; again++) { /* full: once more without what has ended */
        struct grid *g = find(s, grid);
        struct entry *old = NULL;
        if (g) HASH_FIND(hh, g->by_id, id, 16, old);
        if (is_later(s, old, made, now))
            return err_set(reterr, MOYAI_ESTATE,
                           "there is an entry of this node that was made %lld s later: was its clock set back?",
                           (long long)(old->made - made));
        size_t more = cost(n) + (g ? 0 : sizeof *g);
        more = !old ? more : more > cost(old->n) ? more - cost(old->n) : 0;
        if (full(s, g, old != NULL, more, &why)) {
            endpoint_sweep(s, now);
            make_room(s, more);
            continue;
        }
        struct entry *e = calloc(1, sizeof *e + n);
        if (!g) g = grid_new(s, grid);
        if (!e || !g || !place_more(g)) goto out_of_memory;
        memcpy(e->id, id, 16);
        memcpy(e->bytes, p, n);
        e->n = n;
        e->made = made;
        e->until = until;
        if (old) entry_remove(s, g, old);
        HASH_ADD(hh, g->by_id, id, 16, e);
        if (e->hh.tbl) {
            e->place = g->n;
            g->all[g->n++] = e;
            s->bytes += cost(n);
            return 0;
        }
    out_of_memory:
        free(e);
        if (g && g->n == 0) grid_remove(s, g);
        return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    }
    if (reterr) *reterr = why;
    return why.code;
}

void endpoint_delete(struct endpoint_store *s, const char *grid, const uint8_t id[16]) {
    struct grid *g = find(s, grid);
    struct entry *e = NULL;
    if (g) HASH_FIND(hh, g->by_id, id, 16, e);
    if (!e) return;
    entry_remove(s, g, e);
    if (g->n == 0) grid_remove(s, g);
}

/* At the end of those that are remembered. */
static void remember(struct endpoint_store *s, const uint8_t id[16], int64_t made, moyai_ns until) {
    struct gone *x = find_gone(s, id);
    if (x && x->made >= made) return;
    if (x) gone_forget(s, x);
    while (s->gone && HASH_COUNT(s->gone) >= s->limits.entries) gone_forget(s, s->gone);
    make_room(s, sizeof *x);
    x = s->bytes + sizeof *x > s->limits.bytes ? NULL : calloc(1, sizeof *x);
    if (!x) return;
    memcpy(x->id, id, 16);
    x->made = made;
    x->until = until;
    HASH_ADD(hh, s->gone, id, 16, x);
    if (x->hh.tbl)
        s->bytes += sizeof *x;
    else
        free(x);
}

int endpoint_withdraw(struct endpoint_store *s, const char *grid, const uint8_t id[16], int64_t made, moyai_ns until,
                      moyai_ns now, struct moyai_error *reterr) {
    struct grid *g = find(s, grid);
    struct entry *e = NULL;
    if (g) HASH_FIND(hh, g->by_id, id, 16, e);
    if (is_later(s, e, made, now))
        return err_set(reterr, MOYAI_ESTATE, "there is an entry of this node that was made later");
    endpoint_delete(s, grid, id);
    remember(s, id, made, until);
    return 0;
}

size_t endpoint_sample(struct endpoint_store *s, const char *grid, size_t n, moyai_ns now, uint8_t *out) {
    struct grid *g = find(s, grid);
    size_t at = 0;
    for (size_t i = 0; g && i < n && i < g->n;) { /* the first i have been drawn */
        swap(g, i, i + (size_t)rng_below(&s->rng, g->n - i));
        const struct entry *e = g->all[i];
        if (e->until <= now) {
            entry_remove(s, g, g->all[i]);
            if (g->n == 0) {
                grid_remove(s, g);
                break;
            }
            continue;
        }
        memcpy(out + at, e->id, 16);
        out[at + 16] = (uint8_t)e->n;
        out[at + 17] = (uint8_t)(e->n >> 8);
        memcpy(out + at + 18, e->bytes, e->n);
        at += 18 + e->n;
        i++;
    }
    return at;
}

void endpoint_count(const struct endpoint_store *s, size_t *grids, size_t *entries, size_t *bytes) {
    *grids = HASH_COUNT(s->grids);
    *entries = 0;
    for (const struct grid *g = s->grids; g; g = g->hh.next) *entries += g->n;
    *bytes = s->bytes;
}
