/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machinery of MOYAI_ARGS and MOYAI_INTO; include moyai/value.h instead.
 *
 * C: _Generic over each expression inside a compound literal. C++: value_macros_cxx.h.
 */
#ifndef MOYAI_VALUE_MACROS_H
#define MOYAI_VALUE_MACROS_H

#include <moyai/value.h>

/* X(suffix, C type, destination tag): the standard integer types, each exactly once. */
#define MOYAI_INT_TABLE(X)                                                                                             \
    X(schar, signed char, INT, i, sizeof(signed char))                                                                 \
    X(short, short, INT, i, sizeof(short))                                                                             \
    X(int, int, INT, i, sizeof(int))                                                                                   \
    X(long, long, INT, i, sizeof(long))                                                                                \
    X(llong, long long, INT, i, sizeof(long long))                                                                     \
    X(uchar, unsigned char, UINT, u, sizeof(unsigned char))                                                            \
    X(ushort, unsigned short, UINT, u, sizeof(unsigned short))                                                         \
    X(uint, unsigned int, UINT, u, sizeof(unsigned int))                                                               \
    X(ulong, unsigned long, UINT, u, sizeof(unsigned long))                                                            \
    X(ullong, unsigned long long, UINT, u, sizeof(unsigned long long))

#define MOYAI_TAG_INT(size)                                                                                            \
    ((size) == 1 ? MOYAI_T_INT8 : (size) == 2 ? MOYAI_T_INT16 : (size) == 4 ? MOYAI_T_INT32 : MOYAI_T_INT)
#define MOYAI_TAG_UINT(size)                                                                                           \
    ((size) == 1 ? MOYAI_T_UINT8 : (size) == 2 ? MOYAI_T_UINT16 : (size) == 4 ? MOYAI_T_UINT32 : MOYAI_T_UINT)

static inline struct moyai_into_arg moyai_into_raw_(int tag, void *p) {
    struct moyai_into_arg a;
    a.tag = (uint8_t)tag;
    a.elem = 0;
    a.p = p;
    a.n = NULL;
    return a;
}

#define MOYAI_X(suffix, type, tag_, member, size)                                                                      \
    static inline struct moyai_arg moyai_arg_##suffix##_(type x) {                                                     \
        struct moyai_arg a = moyai_null();                                                                             \
        a.tag = MOYAI_T_##tag_;                                                                                        \
        a.v.member = x;                                                                                                \
        return a;                                                                                                      \
    } static inline struct moyai_into_arg moyai_into_##suffix##_(type *p) {                                            \
        return moyai_into_raw_(MOYAI_TAG_##tag_(size), p);                                                             \
    }
MOYAI_INT_TABLE(MOYAI_X)
#undef MOYAI_X

static inline struct moyai_arg moyai_arg_char_(char x) {
    struct moyai_arg a = moyai_null();
    a.tag = MOYAI_T_INT;
    a.v.i = x;
    return a;
}
static inline struct moyai_into_arg moyai_into_char_(char *p) {
    return moyai_into_raw_((char)-1 < 0 ? MOYAI_T_INT8 : MOYAI_T_UINT8, p);
}
static inline struct moyai_arg moyai_arg_bool_(bool x) {
    struct moyai_arg a = moyai_null();
    a.tag = MOYAI_T_BOOL;
    a.v.b = x;
    return a;
}
static inline struct moyai_arg moyai_arg_float_(float x) {
    struct moyai_arg a = moyai_null();
    a.tag = MOYAI_T_FLOAT;
    a.v.f = x;
    return a;
}
static inline struct moyai_arg moyai_arg_double_(double x) {
    struct moyai_arg a = moyai_null();
    a.tag = MOYAI_T_DOUBLE;
    a.v.d = x;
    return a;
}
static inline struct moyai_arg moyai_arg_str_(const char *x) {
    struct moyai_arg a = moyai_null();
    a.tag = MOYAI_T_TEXT;
    a.v.p = x;
    a.n = SIZE_MAX;
    return a;
}
static inline struct moyai_arg moyai_arg_ref_(const moyai_ref *x) {
    struct moyai_arg a = moyai_null();
    a.tag = MOYAI_T_REF;
    a.v.p = x;
    return a;
}
static inline struct moyai_arg moyai_arg_value_(const moyai_value *x) {
    struct moyai_arg a = moyai_null();
    a.tag = MOYAI_T_VALUE;
    a.v.p = x;
    return a;
}
static inline struct moyai_arg moyai_arg_self_(struct moyai_arg x) {
    return x;
}
static inline struct moyai_into_arg moyai_into_bool_(bool *p) {
    return moyai_into_raw_(MOYAI_T_BOOL, p);
}
static inline struct moyai_into_arg moyai_into_float_(float *p) {
    return moyai_into_raw_(MOYAI_T_FLOAT, p);
}
static inline struct moyai_into_arg moyai_into_double_(double *p) {
    return moyai_into_raw_(MOYAI_T_DOUBLE, p);
}
static inline struct moyai_into_arg moyai_into_str_(const char **p) {
    return moyai_into_raw_(MOYAI_T_TEXT, (void *)p);
}
static inline struct moyai_into_arg moyai_into_ref_(moyai_ref **p) {
    return moyai_into_raw_(MOYAI_T_REF, (void *)p);
}
static inline struct moyai_into_arg moyai_into_value_(moyai_value **p) {
    return moyai_into_raw_(MOYAI_T_VALUE, (void *)p);
}
static inline struct moyai_into_arg moyai_into_self_(struct moyai_into_arg x) {
    return x;
}

#ifndef __cplusplus

/* What a compiler names when a value is of a type that cannot be sent, or a pointer to one that cannot be read: nothing
 * is of the type that these take. */
struct moyai_type_that_is_none_of_moyai_values_3 {
    int unused;
};
static inline struct moyai_arg
moyai_cannot_send_this_type_see_moyai_values_3_(struct moyai_type_that_is_none_of_moyai_values_3 x) {
    (void)x;
    return moyai_null();
}
static inline struct moyai_into_arg
moyai_cannot_read_into_this_type_see_moyai_values_3_(struct moyai_type_that_is_none_of_moyai_values_3 x) {
    (void)x;
    return moyai_skip();
}

#define MOYAI_ARG_INT_(suffix, type, tag, member, size)                                                                \
    type:                                                                                                              \
    moyai_arg_##suffix##_,
#define MOYAI_ARG(x)                                                                                                   \
    _Generic((x),                                                                                  \
        MOYAI_INT_TABLE(MOYAI_ARG_INT_)                                                            \
        char: moyai_arg_char_,                                                                     \
        bool: moyai_arg_bool_,                                                                     \
        float: moyai_arg_float_,                                                                   \
        double: moyai_arg_double_,                                                                 \
        char *: moyai_arg_str_,                                                                    \
        const char *: moyai_arg_str_,                                                              \
        moyai_ref *: moyai_arg_ref_,                                                               \
        const moyai_ref *: moyai_arg_ref_,                                                         \
        moyai_value *: moyai_arg_value_,                                                           \
        const moyai_value *: moyai_arg_value_,                                                     \
        struct moyai_arg: moyai_arg_self_,                                                         \
        default: moyai_cannot_send_this_type_see_moyai_values_3_)(x)

#define MOYAI_INTO_INT_(suffix, type, tag, member, size) type * : moyai_into_##suffix##_,
#define MOYAI_DEST(x)                                                                                                  \
    _Generic((x),                                                                                  \
        MOYAI_INT_TABLE(MOYAI_INTO_INT_)                                                           \
        char *: moyai_into_char_,                                                                  \
        bool *: moyai_into_bool_,                                                                  \
        float *: moyai_into_float_,                                                                \
        double *: moyai_into_double_,                                                              \
        const char **: moyai_into_str_,                                                            \
        moyai_ref **: moyai_into_ref_,                                                             \
        moyai_value **: moyai_into_value_,                                                         \
        struct moyai_into_arg: moyai_into_self_,                                                   \
        default: moyai_cannot_read_into_this_type_see_moyai_values_3_)(x)

#define MOYAI_ARGS(...)                                                                                                \
    (&(const struct moyai_args){(const struct moyai_arg[]){MOYAI_EACH_(MOYAI_ARG, __VA_ARGS__)},                       \
                                MOYAI_COUNT_(__VA_ARGS__)})
#define MOYAI_INTO(...)                                                                                                \
    (&(const struct moyai_into){(const struct moyai_into_arg[]){MOYAI_EACH_(MOYAI_DEST, __VA_ARGS__)},                 \
                                MOYAI_COUNT_(__VA_ARGS__)})

#define MOYAI_COUNT_(...)                                                                                              \
    MOYAI_PICK_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6,   \
                5, 4, 3, 2, 1, 0)
#define MOYAI_PICK_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, a2, b2, c2, d2, e2, f2, g2, h2, i2, j2, k2, l2,    \
                    m2, n2, o2, p2, q, ...)                                                                            \
    q
/* 17 to 32 values: an error that says it. */
#define MOYAI_MANY_(F, ...) MOYAI_ARGS_and_MOYAI_INTO_take_at_most_16_values
#define MOYAI_EACH_(F, ...)                                                                                            \
    MOYAI_PICK_(__VA_ARGS__, MOYAI_MANY_, MOYAI_MANY_, MOYAI_MANY_, MOYAI_MANY_, MOYAI_MANY_, MOYAI_MANY_,             \
                MOYAI_MANY_, MOYAI_MANY_, MOYAI_MANY_, MOYAI_MANY_, MOYAI_MANY_, MOYAI_MANY_, MOYAI_MANY_,             \
                MOYAI_MANY_, MOYAI_MANY_, MOYAI_MANY_, MOYAI_E16_, MOYAI_E15_, MOYAI_E14_, MOYAI_E13_, MOYAI_E12_,     \
                MOYAI_E11_, MOYAI_E10_, MOYAI_E9_, MOYAI_E8_, MOYAI_E7_, MOYAI_E6_, MOYAI_E5_, MOYAI_E4_, MOYAI_E3_,   \
                MOYAI_E2_, MOYAI_E1_, 0)                                                                               \
    (F, __VA_ARGS__)
#define MOYAI_E1_(F, x)       F(x)
#define MOYAI_E2_(F, x, ...)  F(x), MOYAI_E1_(F, __VA_ARGS__)
#define MOYAI_E3_(F, x, ...)  F(x), MOYAI_E2_(F, __VA_ARGS__)
#define MOYAI_E4_(F, x, ...)  F(x), MOYAI_E3_(F, __VA_ARGS__)
#define MOYAI_E5_(F, x, ...)  F(x), MOYAI_E4_(F, __VA_ARGS__)
#define MOYAI_E6_(F, x, ...)  F(x), MOYAI_E5_(F, __VA_ARGS__)
#define MOYAI_E7_(F, x, ...)  F(x), MOYAI_E6_(F, __VA_ARGS__)
#define MOYAI_E8_(F, x, ...)  F(x), MOYAI_E7_(F, __VA_ARGS__)
#define MOYAI_E9_(F, x, ...)  F(x), MOYAI_E8_(F, __VA_ARGS__)
#define MOYAI_E10_(F, x, ...) F(x), MOYAI_E9_(F, __VA_ARGS__)
#define MOYAI_E11_(F, x, ...) F(x), MOYAI_E10_(F, __VA_ARGS__)
#define MOYAI_E12_(F, x, ...) F(x), MOYAI_E11_(F, __VA_ARGS__)
#define MOYAI_E13_(F, x, ...) F(x), MOYAI_E12_(F, __VA_ARGS__)
#define MOYAI_E14_(F, x, ...) F(x), MOYAI_E13_(F, __VA_ARGS__)
#define MOYAI_E15_(F, x, ...) F(x), MOYAI_E14_(F, __VA_ARGS__)
#define MOYAI_E16_(F, x, ...) F(x), MOYAI_E15_(F, __VA_ARGS__)

#else
#include <moyai/value_macros_cxx.h>
#endif
#endif
