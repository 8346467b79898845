/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured values in memory. A map keeps its pairs in the order they were given and beside them a table sorted by
 * key: look-up, the search for keys given twice, and comparison of maps in different order need no hashing, so that
 * nobody can choose keys that make them slow.
 */
#include "wire/value_body.h"

#include "base/utf8.h"
#include "wire/item.h"
#include "wire/number.h"
#include "wire/typed.h"

#include <assert.h>
#include <stdlib.h>

moyai_value *value_alloc(enum moyai_kind kind, size_t bytes) {
    if (bytes > SIZE_MAX / 2) return NULL;
    moyai_value *v = malloc(sizeof *v + bytes);
    if (!v) return NULL;
    atomic_init(&v->refs, 1);
    v->kind = (uint8_t)kind;
    v->elem = 0;
    v->depth = 0;
    v->u = 0;
    return v;
}

moyai_value *moyai_value_ref(moyai_value *v) {
    if (v) atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
    return v;
}

void moyai_value_free(moyai_value *v) {
    if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1) return;
    if (v->kind == MOYAI_K_LIST) { /* at most VALUE_DEPTH frames deep */
        for (size_t i = 0; i < v->n; i++) moyai_value_free(value_items(v)[i]);
    } else if (v->kind == MOYAI_K_MAP) {
        for (size_t i = 0; i < v->n; i++) {
            free(value_pairs(v)[i].key);
            moyai_value_free(value_pairs(v)[i].item);
        }
    } else if (v->kind == MOYAI_K_REF) {
        ((struct codec_ref *)(void *)v->ref)->ops->drop(v->ref);
    }
    free(v);
}

/* ---- construction --------------------------------------------------------------------------- */

static moyai_value *new_bytes(enum moyai_kind kind, const void *p, size_t n) {
    if ((!p && n > 0) || n > SIZE_MAX / 2) return NULL;
    moyai_value *v = value_alloc(kind, n + 1);
    if (!v) return NULL;
    v->n = n;
    if (n > 0) memcpy(v->data, p, n);
    v->data[n] = 0;
    return v;
}

static moyai_value *new_int(struct number x) {
    bool fits = x.u <= INT64_MAX;
    if (x.kind == NUMBER_NEG && !fits) return NULL;
    moyai_value *v = value_alloc(fits ? MOYAI_K_INT : MOYAI_K_UINT, 0);
    if (!v) return NULL;
    if (x.kind == NUMBER_NEG) {
        v->i = -1 - (int64_t)x.u;
    } else {
        v->u = x.u;
    }
    return v;
}

static moyai_value *new_double(double d) {
    moyai_value *v = value_alloc(MOYAI_K_DOUBLE, 0);
    if (v) v->d = d;
    return v;
}

moyai_value *moyai_value_new(struct moyai_arg a) {
    union {
        const void *p;
        moyai_ref *ref;
        moyai_value *value;
    } x = {.p = NULL};
    moyai_value *v;
    switch ((enum moyai_tag)a.tag) {
    case MOYAI_T_NULL:
        return value_alloc(MOYAI_K_NULL, 0);
    case MOYAI_T_BOOL:
        if ((v = value_alloc(MOYAI_K_BOOL, 0))) v->b = a.v.b;
        return v;
    case MOYAI_T_INT:
        return new_int(number_of_int(a.v.i));
    case MOYAI_T_UINT:
        return new_int((struct number){NUMBER_UINT, {a.v.u}});
    case MOYAI_T_FLOAT:
        return new_double((double)a.v.f);
    case MOYAI_T_DOUBLE:
        return new_double(a.v.d);
    case MOYAI_T_TEXT: {
        if (!a.v.p && a.n != 0) return NULL;
        size_t n = a.n == SIZE_MAX ? strlen(a.v.p) : a.n;
        if (n > SIZE_MAX / 2) return NULL; /* a length of -2, say: there is no such text */
        return utf8_valid(a.v.p, n) ? new_bytes(MOYAI_K_TEXT, a.v.p, n) : NULL;
    }
    case MOYAI_T_BYTES:
        return new_bytes(MOYAI_K_BYTES, a.v.p, a.n);
    case MOYAI_T_ARRAY: {
        if (a.elem > MOYAI_ELEM_F64) return NULL;
        size_t size = typed_size((enum moyai_elem)a.elem);
        if (a.n > SIZE_MAX / 2 / size) return NULL;
        if ((v = new_bytes(MOYAI_K_ARRAY, a.v.p, a.n * size))) v->elem = a.elem;
        return v;
    }
    case MOYAI_T_REF:
        x.p = a.v.p;
        if (!x.p || !(v = value_alloc(MOYAI_K_REF, 0))) return NULL;
        v->ref = ((struct codec_ref *)(void *)x.ref)->ops->share(x.ref);
        return v;
    case MOYAI_T_VALUE:
        x.p = a.v.p;
        return moyai_value_ref(x.value);
    case MOYAI_T_INT8:
    case MOYAI_T_INT16:
    case MOYAI_T_INT32:
    case MOYAI_T_UINT8:
    case MOYAI_T_UINT16:
    case MOYAI_T_UINT32:
    case MOYAI_T_SKIP:
        break;
    }
    return NULL;
}

/* The depth of a list or map of these parts; 0: a part is missing or it gets too deep. */
static uint8_t depth_over(moyai_value *const *items, size_t n) {
    uint8_t deepest = 0;
    for (size_t i = 0; i < n; i++) {
        if (!items[i] || items[i]->depth >= VALUE_DEPTH) return 0;
        if (items[i]->depth > deepest) deepest = items[i]->depth;
    }
    return (uint8_t)(deepest + 1);
}

static void free_items(moyai_value *const *items, size_t n) {
    for (size_t i = 0; items && i < n; i++) moyai_value_free(items[i]);
}

moyai_value *moyai_value_list(moyai_value *const *items, size_t n) {
    uint8_t depth = n <= VALUE_PARTS && (items || n == 0) ? depth_over(items, n) : 0;
    moyai_value *v = depth ? value_alloc(MOYAI_K_LIST, n * sizeof *items) : NULL;
    if (!v) {
        free_items(items, n);
        return NULL;
    }
    v->depth = depth;
    v->n = n;
    if (n > 0) memcpy(v->data, items, n * sizeof *items);
    return v;
}

static int by_key(const void *a, const void *b, void *pairs_) {
    const struct value_pair *pairs = pairs_;
    return strcmp(pairs[*(const uint32_t *)a].key, pairs[*(const uint32_t *)b].key);
}

bool value_sort(moyai_value *map) {
    uint32_t *order = value_order(map);
    const struct value_pair *pairs = value_pairs(map);
    for (size_t i = 0; i < map->n; i++) order[i] = (uint32_t)i;
    if (map->n > 1) qsort_r(order, map->n, sizeof *order, by_key, value_pairs(map));
    for (size_t i = 1; i < map->n; i++) {
        if (strcmp(pairs[order[i - 1]].key, pairs[order[i]].key) == 0) return false;
    }
    return true;
}

static bool put_pairs(moyai_value *v, const char *const *keys, moyai_value *const *items, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t len = keys[i] ? strlen(keys[i]) : 0;
        char *key = keys[i] && utf8_valid(keys[i], len) ? malloc(len + 1) : NULL;
        if (!key) return false;
        memcpy(key, keys[i], len + 1);
        value_pairs(v)[v->n++] = (struct value_pair){key, items[i]};
    }
    return true;
}

moyai_value *moyai_value_map(const char *const *keys, moyai_value *const *items, size_t n) {
    uint8_t depth = n <= VALUE_PARTS && ((keys && items) || n == 0) ? depth_over(items, n) : 0;
    moyai_value *v = depth ? value_alloc(MOYAI_K_MAP, value_map_bytes(n)) : NULL;
    if (!v) {
        free_items(items, n);
        return NULL;
    }
    v->depth = depth;
    v->n = 0;
    bool good = put_pairs(v, keys, items, n);
    size_t taken = v->n;
    if (good && value_sort(v)) return v;
    moyai_value_free(v); /* with the parts it has taken */
    if (taken < n) free_items(items + taken, n - taken);
    return NULL;
}

/* ---- access --------------------------------------------------------------------------------- */

enum moyai_kind moyai_value_kind(const moyai_value *v) {
    return v ? (enum moyai_kind)v->kind : MOYAI_K_NULL;
}

static struct number number_of(const moyai_value *v) {
    switch ((enum moyai_kind)v->kind) {
    case MOYAI_K_BOOL:
        return (struct number){NUMBER_BOOL, {v->b}};
    case MOYAI_K_INT:
        return number_of_int(v->i);
    case MOYAI_K_UINT:
        return (struct number){NUMBER_UINT, {v->u}};
    case MOYAI_K_DOUBLE:
        return (struct number){NUMBER_FLOAT, {.d = v->d}};
    case MOYAI_K_NULL:
    case MOYAI_K_TEXT:
    case MOYAI_K_BYTES:
    case MOYAI_K_ARRAY:
    case MOYAI_K_REF:
    case MOYAI_K_LIST:
    case MOYAI_K_MAP:
        break;
    }
    return (struct number){NUMBER_NONE, {0}};
}

static int give_data(const moyai_value *v, const struct moyai_into_arg *into, size_t size) {
    const void *p = v->data;
    if (into->n) *into->n = v->n / size;
    memcpy(into->p, &p, sizeof p);
    return 0;
}

int moyai_value_get(const moyai_value *v, struct moyai_into_arg into) {
    if (!v || (!into.p && into.tag != MOYAI_T_NULL && into.tag != MOYAI_T_SKIP)) return MOYAI_EINVAL;
    bool bytes = v->kind == MOYAI_K_BYTES || (v->kind == MOYAI_K_ARRAY && v->elem == MOYAI_ELEM_U8);
    union {
        const moyai_value *from;
        moyai_value *to;
    } x = {v};
    switch ((enum moyai_tag)into.tag) {
    case MOYAI_T_NULL:
        return v->kind == MOYAI_K_NULL ? 0 : MOYAI_ETYPE;
    case MOYAI_T_TEXT:
        if (v->kind != MOYAI_K_TEXT || (!into.n && memchr(v->data, 0, v->n))) return MOYAI_ETYPE;
        return give_data(v, &into, 1);
    case MOYAI_T_BYTES:
        return bytes ? give_data(v, &into, 1) : MOYAI_ETYPE;
    case MOYAI_T_ARRAY:
        if (into.elem == MOYAI_ELEM_U8 ? !bytes : v->kind != MOYAI_K_ARRAY || v->elem != into.elem) return MOYAI_ETYPE;
        return give_data(v, &into, typed_size((enum moyai_elem)into.elem));
    case MOYAI_T_REF: {
        if (v->kind != MOYAI_K_REF) return MOYAI_ETYPE;
        moyai_ref *ref = ((struct codec_ref *)(void *)v->ref)->ops->share(v->ref);
        memcpy(into.p, &ref, sizeof ref);
        return 0;
    }
    case MOYAI_T_VALUE:
        moyai_value_ref(x.to);
        memcpy(into.p, &x.to, sizeof x.to);
        return 0;
    case MOYAI_T_SKIP:
        return 0;
    case MOYAI_T_BOOL:
    case MOYAI_T_INT:
    case MOYAI_T_UINT:
    case MOYAI_T_FLOAT:
    case MOYAI_T_DOUBLE:
    case MOYAI_T_INT8:
    case MOYAI_T_INT16:
    case MOYAI_T_INT32:
    case MOYAI_T_UINT8:
    case MOYAI_T_UINT16:
    case MOYAI_T_UINT32: {
        union number_slot slot;
        int rc = number_convert(number_of(v), into.tag, &slot);
        if (rc == 0) number_store(&slot, into.tag, into.p);
        return rc;
    }
    }
    return MOYAI_ETYPE;
}

size_t moyai_value_count(const moyai_value *v) {
    return v && (v->kind == MOYAI_K_LIST || v->kind == MOYAI_K_MAP) ? v->n : 0;
}

const moyai_value *moyai_value_at(const moyai_value *v, size_t i) {
    if (i >= moyai_value_count(v)) return NULL;
    return v->kind == MOYAI_K_LIST ? value_items(v)[i] : value_pairs(v)[i].item;
}

const char *moyai_value_key(const moyai_value *v, size_t i) {
    return v && v->kind == MOYAI_K_MAP && i < v->n ? value_pairs(v)[i].key : NULL;
}

const moyai_value *moyai_value_find(const moyai_value *v, const char *key) {
    if (!v || !key || v->kind != MOYAI_K_MAP) return NULL;
    const uint32_t *order = value_order(v);
    for (size_t low = 0, high = v->n; low < high;) {
        size_t mid = low + (high - low) / 2;
        int c = strcmp(key, value_pairs(v)[order[mid]].key);
        if (c == 0) return value_pairs(v)[order[mid]].item;
        if (c < 0) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return NULL;
}

static bool same_ref(moyai_ref *a, moyai_ref *b) {
    uint8_t x[32], y[32];
    ((struct codec_ref *)(void *)a)->ops->ids(a, x);
    ((struct codec_ref *)(void *)b)->ops->ids(b, y);
    return memcmp(x, y, 16) == 0; /* the object; its home is a hint */
}

bool moyai_value_equal(const moyai_value *a, const moyai_value *b) {
    if (a == b) return true;
    if (!a || !b || a->kind != b->kind) return false;
    switch ((enum moyai_kind)a->kind) {
    case MOYAI_K_NULL:
        return true;
    case MOYAI_K_BOOL:
        return a->b == b->b;
    case MOYAI_K_INT:
    case MOYAI_K_UINT:
        return a->u == b->u;
    case MOYAI_K_DOUBLE:
        return a->d == b->d || (a->d != a->d && b->d != b->d);
    case MOYAI_K_TEXT:
    case MOYAI_K_BYTES:
    case MOYAI_K_ARRAY:
        return a->n == b->n && a->elem == b->elem && memcmp(a->data, b->data, a->n) == 0;
    case MOYAI_K_REF:
        return same_ref(a->ref, b->ref);
    case MOYAI_K_LIST:
        if (a->n != b->n) return false;
        for (size_t i = 0; i < a->n; i++) {
            if (!moyai_value_equal(value_items(a)[i], value_items(b)[i])) return false;
        }
        return true;
    case MOYAI_K_MAP:
        if (a->n != b->n) return false;
        for (size_t i = 0; i < a->n; i++) {
            const struct value_pair *x = &value_pairs(a)[value_order(a)[i]], *y = &value_pairs(b)[value_order(b)[i]];
            if (strcmp(x->key, y->key) != 0 || !moyai_value_equal(x->item, y->item)) return false;
        }
        return true;
    }
    return false;
}
