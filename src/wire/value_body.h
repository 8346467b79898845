/* SPDX-License-Identifier: Apache-2.0 */
/* What a moyai_value is made of: for value.c and value_cbor.c only. */
#ifndef WIRE_VALUE_BODY_H
#define WIRE_VALUE_BODY_H

#include "wire/value.h"

#include <stdatomic.h>

struct value_pair {
    char *key; /* malloc'ed, NUL-terminated UTF-8 */
    moyai_value *item;
};

/* One block of memory each. Immutable but for `refs` once its maker has handed it out. */
struct moyai_value {
    atomic_uint refs;
    uint8_t kind;  /* enum moyai_kind */
    uint8_t elem;  /* array: enum moyai_elem */
    uint8_t depth; /* list, map: 1 + the deepest part's; else 0 */
    union {
        bool b;
        int64_t i;
        uint64_t u;
        double d;
        moyai_ref *ref; /* owned */
        size_t n;       /* bytes of text, bytes, array; parts of list, map */
    };
    /* text and its NUL, bytes, elements; the parts of a list; the pairs of a map, in their order, then n indices of
     * type uint32_t that sort them by key */
    _Alignas(16) unsigned char data[];
};

static inline moyai_value **value_items(const moyai_value *v) {
    return (moyai_value **)(void *)v->data;
}
static inline struct value_pair *value_pairs(const moyai_value *v) {
    return (struct value_pair *)(void *)v->data;
}
static inline uint32_t *value_order(const moyai_value *v) {
    return (uint32_t *)(void *)(v->data + v->n * sizeof(struct value_pair));
}

/* A value of that kind with room for `bytes` of data, one reference, all else zero; NULL: out of memory. */
moyai_value *value_alloc(enum moyai_kind kind, size_t bytes);

/* Room of a map's data. */
static inline size_t value_map_bytes(size_t n) {
    return n * (sizeof(struct value_pair) + sizeof(uint32_t));
}

/* Fill the order of a map; false if a key comes twice. */
bool value_sort(moyai_value *map);

#endif
