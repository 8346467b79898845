/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values: what calls carry.
 *
 * MOYAI_ARGS(...) builds an array of tagged values, MOYAI_INTO(...) an array of tagged pointers to
 * where values are to be stored; types and counts are right by construction. Both take 1 to 16
 * expressions; none is MOYAI_NONE. The arrays live to the end of the enclosing block (C) or of the
 * full expression (C++), and the library never keeps them. In C, true and false are ints: a bool
 * destination accepts the integers 0 and 1.
 *
 *     moyai_call(ref, "add", MOYAI_ARGS(3, 4.5, "text"), MOYAI_INTO(&sum), NULL);
 *
 * Values accepted: bool, all standard integer types, float, double, char * (UTF-8 text),
 * moyai_ref *, moyai_value *, and what the functions below return for bytes and numeric arrays.
 * Pointers accepted by MOYAI_INTO: to those types; a const char ** receives text; for arrays use
 * moyai_into_doubles() and its kin. Text, bytes and arrays read by MOYAI_INTO are borrowed: they
 * live until the method returns (arguments) or the future is freed (results), and must not be
 * written. A moyai_ref ** or moyai_value ** receives a new reference that the reader owns
 * (moyai_ref_unref, moyai_value_free).
 *
 * On the wire values are CBOR (RFC 8949); numeric arrays are typed arrays (RFC 8746) in the
 * sender's byte order, their data aligned to the element size within the message, so that equal
 * machines copy and unequal ones swap in place. An integer or float is stored into any numeric type
 * that holds it exactly, else MOYAI_ERANGE; integers are stored into floating types when exact.
 */
#ifndef MOYAI_VALUE_H
#define MOYAI_VALUE_H

#include <moyai/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum moyai_tag {
    MOYAI_T_NULL,
    MOYAI_T_BOOL,
    MOYAI_T_INT,   /* int64 */
    MOYAI_T_UINT,  /* uint64 */
    MOYAI_T_FLOAT, /* float */
    MOYAI_T_DOUBLE,
    MOYAI_T_TEXT,
    MOYAI_T_BYTES,
    MOYAI_T_ARRAY, /* numeric array: element type in .elem */
    MOYAI_T_REF,
    MOYAI_T_VALUE,
    /* only as destinations: narrower integers */
    MOYAI_T_INT8,
    MOYAI_T_INT16,
    MOYAI_T_INT32,
    MOYAI_T_UINT8,
    MOYAI_T_UINT16,
    MOYAI_T_UINT32,
    MOYAI_T_SKIP, /* read and ignore one value of any type */
};

/* Element types of numeric arrays. */
enum moyai_elem {
    MOYAI_ELEM_U8,
    MOYAI_ELEM_U16,
    MOYAI_ELEM_U32,
    MOYAI_ELEM_U64,
    MOYAI_ELEM_I8,
    MOYAI_ELEM_I16,
    MOYAI_ELEM_I32,
    MOYAI_ELEM_I64,
    MOYAI_ELEM_F32,
    MOYAI_ELEM_F64,
};

/* One argument. Build it with MOYAI_ARGS or the functions below, not by hand. */
struct moyai_arg {
    uint8_t tag;  /* enum moyai_tag */
    uint8_t elem; /* enum moyai_elem, for MOYAI_T_ARRAY */
    union {
        bool b;
        int64_t i;
        uint64_t u;
        float f;
        double d;
        const void *p; /* text (NUL-terminated unless n != SIZE_MAX), bytes, array, ref, value */
    } v;
    size_t n; /* bytes (text, bytes) or elements (array); SIZE_MAX: text ends at its NUL */
};

/* One destination. */
struct moyai_into_arg {
    uint8_t tag;
    uint8_t elem;
    void *p;   /* where the value, or a pointer to it, is stored */
    size_t *n; /* where the length is stored: bytes or elements; NULL where there is none */
};

struct moyai_args {
    const struct moyai_arg *v;
    size_t n;
};

struct moyai_into {
    const struct moyai_into_arg *v;
    size_t n;
};

/* No arguments, or no results wanted (a result that is there is ignored). */
#define MOYAI_NONE NULL

/* Numeric arrays: n elements, borrowed (64 KiB and more: until the future completes; less: copied
 * at once). NULL with n == 0 is an empty array. Any thread. */
#define MOYAI_ARRAY_TABLE(X)                                                                                           \
    X(u8s, uint8_t, MOYAI_ELEM_U8)                                                                                     \
    X(u16s, uint16_t, MOYAI_ELEM_U16)                                                                                  \
    X(u32s, uint32_t, MOYAI_ELEM_U32)                                                                                  \
    X(u64s, uint64_t, MOYAI_ELEM_U64)                                                                                  \
    X(i8s, int8_t, MOYAI_ELEM_I8)                                                                                      \
    X(i16s, int16_t, MOYAI_ELEM_I16)                                                                                   \
    X(i32s, int32_t, MOYAI_ELEM_I32)                                                                                   \
    X(i64s, int64_t, MOYAI_ELEM_I64)                                                                                   \
    X(floats, float, MOYAI_ELEM_F32)                                                                                   \
    X(doubles, double, MOYAI_ELEM_F64)

/* moyai_doubles(p, n) and kin for MOYAI_ARGS; moyai_into_doubles(&p, &n) and kin for MOYAI_INTO. */
#define MOYAI_X(name, type, elem_)                                                                                     \
    static inline struct moyai_arg moyai_##name(const type *p, size_t n) {                                             \
        struct moyai_arg a;                                                                                            \
        a.tag = MOYAI_T_ARRAY;                                                                                         \
        a.elem = elem_;                                                                                                \
        a.v.p = p;                                                                                                     \
        a.n = n;                                                                                                       \
        return a;                                                                                                      \
    }                                                                                                                  \
    static inline struct moyai_into_arg moyai_into_##name(const type **p, size_t *n) {                                 \
        struct moyai_into_arg a;                                                                                       \
        a.tag = MOYAI_T_ARRAY;                                                                                         \
        a.elem = elem_;                                                                                                \
        a.p = (void *)p;                                                                                               \
        a.n = n;                                                                                                       \
        return a;                                                                                                      \
    }
MOYAI_ARRAY_TABLE(MOYAI_X)
#undef MOYAI_X

/* n bytes, borrowed like an array. */
static inline struct moyai_arg moyai_bytes(const void *p, size_t n) {
    struct moyai_arg a;
    a.tag = MOYAI_T_BYTES;
    a.elem = 0;
    a.v.p = p;
    a.n = n;
    return a;
}
/* Text of any kind: *n bytes of UTF-8, and a NUL behind them that is not counted. A plain const char ** takes only text
 * without a NUL byte within (else MOYAI_ETYPE), since its end could not be told. */
static inline struct moyai_into_arg moyai_into_text(const char **p, size_t *n) {
    struct moyai_into_arg a;
    a.tag = MOYAI_T_TEXT;
    a.elem = 0;
    a.p = (void *)p;
    a.n = n;
    return a;
}
static inline struct moyai_into_arg moyai_into_bytes(const void **p, size_t *n) {
    struct moyai_into_arg a;
    a.tag = MOYAI_T_BYTES;
    a.elem = 0;
    a.p = (void *)p;
    a.n = n;
    return a;
}

/* n bytes of UTF-8 text that need no NUL. */
static inline struct moyai_arg moyai_text(const char *p, size_t n) {
    struct moyai_arg a;
    a.tag = MOYAI_T_TEXT;
    a.elem = 0;
    a.v.p = p;
    a.n = n;
    return a;
}

/* The null value; and a destination that accepts and ignores one value of any type. */
static inline struct moyai_arg moyai_null(void) {
    struct moyai_arg a;
    a.tag = MOYAI_T_NULL;
    a.elem = 0;
    a.v.u = 0;
    a.n = 0;
    return a;
}
static inline struct moyai_into_arg moyai_skip(void) {
    struct moyai_into_arg a;
    a.tag = MOYAI_T_SKIP;
    a.elem = 0;
    a.p = NULL;
    a.n = NULL;
    return a;
}

/*
 * Structured values: null, bool, integers, floats, text, bytes, numeric arrays, references, lists,
 * and maps with text keys, nested up to 32 deep. Immutable once built and shared freely; any thread.
 * Each constructor returns NULL when memory is out or an argument is invalid (NULL parts included,
 * which makes nested construction safe); list and map take over their parts in every case. NULL as
 * a value to look at is the null value without parts, so that look-ups can be nested as well.
 */
enum moyai_kind {
    MOYAI_K_NULL,
    MOYAI_K_BOOL,
    MOYAI_K_INT,
    MOYAI_K_UINT, /* only above INT64_MAX */
    MOYAI_K_DOUBLE,
    MOYAI_K_TEXT,
    MOYAI_K_BYTES,
    MOYAI_K_ARRAY,
    MOYAI_K_REF,
    MOYAI_K_LIST,
    MOYAI_K_MAP,
};
MOYAI_API MOYAI_MUST_USE moyai_value *moyai_value_new(struct moyai_arg arg); /* a scalar, text, bytes, array (copied) */
MOYAI_API MOYAI_MUST_USE moyai_value *moyai_value_list(moyai_value *const *items, size_t n);
MOYAI_API MOYAI_MUST_USE moyai_value *moyai_value_map(const char *const *keys, moyai_value *const *items, size_t n);
MOYAI_API moyai_value *moyai_value_ref(moyai_value *v); /* share: returns v */
MOYAI_API void moyai_value_free(moyai_value *v);        /* NULL is fine; frees parts with the last reference */
MOYAI_API enum moyai_kind moyai_value_kind(const moyai_value *v);
/* Store the value into one destination, with the conversions of MOYAI_INTO. 0, ETYPE, ERANGE, EINVAL (v
 * or the destination is NULL). */
MOYAI_API MOYAI_MUST_USE int moyai_value_get(const moyai_value *v, struct moyai_into_arg into);
MOYAI_API size_t moyai_value_count(const moyai_value *v);                    /* parts of a list or map, else 0 */
MOYAI_API const moyai_value *moyai_value_at(const moyai_value *v, size_t i); /* borrowed; NULL past the end */
MOYAI_API const char *moyai_value_key(const moyai_value *v, size_t i);       /* borrowed; NULL if no map */
MOYAI_API const moyai_value *moyai_value_find(const moyai_value *v, const char *key);
MOYAI_API bool moyai_value_equal(const moyai_value *a, const moyai_value *b);

#ifdef __cplusplus
}
#endif

/* ---- MOYAI_ARGS and MOYAI_INTO ------------------------------------------------------------- */

#include <moyai/value_macros.h>

#endif
