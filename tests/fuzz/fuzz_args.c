/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec_get_into: any bytes as the arguments of a call, for every kind of destination, twice: the second reading gives
 * what the first gave, and what one reading stored stays as it was.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/refs.h"
#include "wire/codec.h"

#include <string.h>

enum { MOST = 8 };

/* One destination for each value; the tags follow from a number. */
struct shape {
    struct moyai_into_arg to[MOST];
    union {
        uint64_t u;
        double d;
        const void *p;
        moyai_ref *ref;
        moyai_value *value;
    } got[MOST];
    size_t len[MOST];
    size_t n;
};

static void shape_init(struct shape *s, size_t n, unsigned which) {
    memset(s, 0, sizeof *s);
    s->n = n;
    for (size_t i = 0; i < n; i++) {
        s->to[i].tag = (uint8_t)((which + 5 * i) % (MOYAI_T_SKIP + 1));
        s->to[i].elem = (uint8_t)((which / 7 + i) % (MOYAI_ELEM_F64 + 1));
        s->to[i].p = &s->got[i];
        s->to[i].n = &s->len[i];
    }
}

static void shape_done(struct shape *s) {
    for (size_t i = 0; i < s->n; i++) {
        if (s->to[i].tag == MOYAI_T_REF) fuzz_refs_drop(s->got[i].ref);
        if (s->to[i].tag == MOYAI_T_VALUE) moyai_value_free(s->got[i].value);
    }
}

static void same(const struct shape *a, const struct shape *b) {
    static const uint8_t sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
    for (size_t i = 0; i < a->n; i++) {
        switch ((enum moyai_tag)a->to[i].tag) {
        case MOYAI_T_TEXT:
            FUZZ_CHECK(((const char *)a->got[i].p)[a->len[i]] == 0); /* fall through */
        case MOYAI_T_BYTES:
            FUZZ_CHECK(a->len[i] == b->len[i] && memcmp(a->got[i].p, b->got[i].p, a->len[i]) == 0);
            break;
        case MOYAI_T_ARRAY:
            FUZZ_CHECK((uintptr_t)a->got[i].p % sizes[a->to[i].elem] == 0);
            FUZZ_CHECK(a->len[i] == b->len[i] && a->got[i].p == b->got[i].p);
            FUZZ_CHECK(memcmp(a->got[i].p, b->got[i].p, a->len[i] * sizes[a->to[i].elem]) == 0);
            break;
        case MOYAI_T_VALUE:
            FUZZ_CHECK(moyai_value_equal(a->got[i].value, b->got[i].value));
            break;
        case MOYAI_T_REF:
            break;
        case MOYAI_T_NULL:
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
        case MOYAI_T_UINT32:
        case MOYAI_T_SKIP:
            FUZZ_CHECK(a->got[i].u == b->got[i].u);
            break;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_refs refs;
    struct codec_arena *arena = NULL;
    struct moyai_error e;
    fuzz_refs_init(&refs);
    uint8_t *p = malloc(size + 1); /* the byte behind the body is the decoder's */
    if (!p) return 0;
    if (size) memcpy(p, data, size);
    size_t count = 0, used;
    bool whole = true;
    for (size_t at = 0; at < size && (whole = codec_skip(p + at, size - at, &used) == 0); at += used) count++;
    FUZZ_CHECK((codec_get_into(p, size, NULL, &refs.refs, fuzz_refs_drop, &arena, &e) == 0) == whole);
    for (unsigned which = 0; which < 2 * (MOYAI_T_SKIP + 1); which++) {
        struct shape a, b;
        shape_init(&a, count < MOST ? count : MOST, which);
        shape_init(&b, a.n, which);
        const struct moyai_into into_a = {a.to, a.n}, into_b = {b.to, b.n};
        int rc = codec_get_into(p, size, &into_a, &refs.refs, fuzz_refs_drop, &arena, &e);
        if (rc < 0) {
            FUZZ_CHECK(e.code == rc && e.text[0] && refs.alive == 0);
            for (size_t i = 0; i < a.n; i++) FUZZ_CHECK(a.got[i].u == 0 && a.len[i] == 0); /* nothing stored */
            continue;
        }
        FUZZ_CHECK(whole && count == a.n);
        FUZZ_CHECK(codec_get_into(p, size, &into_b, &refs.refs, fuzz_refs_drop, &arena, &e) == 0);
        same(&a, &b);
        shape_done(&a);
        shape_done(&b);
        FUZZ_CHECK(refs.alive == 0);
    }
    codec_arena_free(arena);
    free(p);
    return 0;
}
