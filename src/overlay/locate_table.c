/* SPDX-License-Identifier: Apache-2.0 */
/* Sorted arrays: the tables of the locating machine. */
#include "overlay/locate_internal.h"

/* The first entry that is not below the key. */
static uint32_t lower_bound(const struct locate *l, const struct locate_table *t, const void *key) {
    uint32_t from = 0, to = t->n;
    while (from < to) {
        uint32_t mid = (from + to) / 2;
        if (memcmp(locate_entry(l, t, mid), key, t->key) < 0) {
            from = mid + 1;
        } else {
            to = mid;
        }
    }
    return from;
}

void *locate_get(const struct locate *l, const struct locate_table *t, const void *key) {
    uint32_t i = lower_bound(l, t, key);
    if (i == t->n) return NULL;
    void *e = locate_entry(l, t, i);
    return memcmp(e, key, t->key) == 0 ? e : NULL;
}

void *locate_put(struct locate *l, struct locate_table *t, const void *key) {
    if (t->n == t->cap) return NULL;
    uint32_t i = lower_bound(l, t, key);
    char *e = locate_entry(l, t, i);
    memmove(e + t->size, e, (size_t)(t->n - i) * t->size);
    memset(e, 0, t->size);
    memcpy(e, key, t->key);
    t->n++;
    return e;
}

void locate_cut(struct locate *l, struct locate_table *t, void *entry) {
    char *e = entry, *end = locate_entry(l, t, t->n);
    memmove(e, e + t->size, (size_t)(end - e) - t->size);
    memset(end - t->size, 0, t->size);
    t->n--;
}

void *locate_append(struct locate *l, struct locate_table *t) {
    return t->n < t->cap ? locate_entry(l, t, t->n++) : NULL;
}
