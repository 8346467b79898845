/* SPDX-License-Identifier: Apache-2.0 */
/* Heads, numbers and typed arrays: the pieces below the decoders. */
#include "wire/head.h"

#include "base/rng.h"
#include "wire/number.h"
#include "wire/typed.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const uint64_t interesting[] = {
    0,         1, 23, 24, 255, 256, 65535, 65536, 0xffffffff, 0x100000000, INT64_MAX - 1, INT64_MAX, UINT64_MAX - 1,
    UINT64_MAX};
#define N_INTERESTING (sizeof interesting / sizeof interesting[0])

static void heads_come_back(void **state) {
    (void)state;
    static const uint8_t sizes[] = {1, 2, 3, 5, 9};
    for (unsigned major = HEAD_UINT; major <= HEAD_TAG; major++) {
        for (size_t i = 0; i < N_INTERESTING; i++) {
            uint64_t arg = interesting[i];
            for (size_t s = 0; s < sizeof sizes; s++) {
                uint8_t b[HEAD_MAX];
                struct head h;
                if (sizes[s] < head_size(arg)) continue;
                head_put_sized(b, (enum head_major)major, arg, sizes[s]);
                for (size_t n = 0; n < sizes[s]; n++) assert_int_equal(head_get(b, n, &h), MOYAI_EDATA);
                assert_int_equal(head_get(b, sizes[s], &h), 0);
                assert_int_equal(h.major, major);
                assert_int_equal(h.len, sizes[s]);
                assert_true(h.arg == arg);
            }
            uint8_t b[HEAD_MAX];
            struct head h;
            assert_int_equal(head_put(b, (enum head_major)major, arg), head_size(arg));
            assert_int_equal(head_get(b, sizeof b, &h), 0);
            assert_true(h.arg == arg && h.len == head_size(arg));
        }
    }
}

static void every_initial_byte_is_a_head_or_refused(void **state) {
    (void)state;
    for (unsigned ib = 0; ib < 256; ib++) {
        uint8_t b[HEAD_MAX] = {(uint8_t)ib, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
        struct head h;
        unsigned major = ib >> 5, info = ib & 31;
        bool reserved = info >= 28 && info <= 30;
        bool no_indefinite = info == 31 && (major == HEAD_UINT || major == HEAD_NEG || major == HEAD_TAG);
        int want = reserved || no_indefinite ? MOYAI_EDATA : 0;
        assert_int_equal(head_get(b, sizeof b, &h), want);
        if (want < 0) continue;
        assert_int_equal(h.major, major);
        assert_int_equal(h.info, info);
        assert_int_equal(h.len, info < 24 || info == 31 ? 1 : 1 + (1 << (info - 24)));
    }
    struct head h;
    assert_int_equal(head_get((const uint8_t *)"\xf8\x1f", 2, &h), MOYAI_EDATA); /* simple 31 has no such form */
    assert_int_equal(head_get((const uint8_t *)"\xf8\x20", 2, &h), 0);
}

static void floats_come_back(void **state) {
    (void)state;
    static const double doubles[] = {0.0, -0.0, 1.5, -1e300, 5e-324, DBL_MAX, INFINITY, -INFINITY};
    uint8_t b[HEAD_MAX];
    struct head h;
    for (size_t i = 0; i < sizeof doubles / sizeof doubles[0]; i++) {
        assert_int_equal(head_put_double(b, doubles[i]), 9);
        assert_int_equal(head_get(b, 9, &h), 0);
        assert_memory_equal(&h.d, &doubles[i], sizeof h.d);
        assert_int_equal(head_get(b, 8, &h), MOYAI_EDATA);
        float f = (float)(i & 1 ? doubles[i] : 0.1);
        assert_int_equal(head_put_float(b, f), 5);
        assert_int_equal(head_get(b, 5, &h), 0);
        assert_true(h.d == (double)f);
    }
    head_put_double(b, NAN);
    assert_int_equal(head_get(b, 9, &h), 0);
    assert_true(isnan(h.d));
}

/* ---- numbers -------------------------------------------------------------------------------- */

static struct number number_uint(uint64_t u) {
    return (struct number){NUMBER_UINT, {u}};
}
static struct number number_neg(uint64_t u) {
    return (struct number){NUMBER_NEG, {u}};
}
static struct number number_float(double d) {
    return (struct number){NUMBER_FLOAT, {.d = d}};
}

static void integers_fit_exactly_or_not_at_all(void **state) {
    (void)state;
    static const struct {
        uint8_t tag;
        int64_t least;
        uint64_t most;
    } types[] = {
        {MOYAI_T_INT8, INT8_MIN, INT8_MAX},
        {MOYAI_T_INT16, INT16_MIN, INT16_MAX},
        {MOYAI_T_INT32, INT32_MIN, INT32_MAX},
        {MOYAI_T_INT, INT64_MIN, INT64_MAX},
        {MOYAI_T_UINT8, 0, UINT8_MAX},
        {MOYAI_T_UINT16, 0, UINT16_MAX},
        {MOYAI_T_UINT32, 0, UINT32_MAX},
        {MOYAI_T_UINT, 0, UINT64_MAX},
        {MOYAI_T_BOOL, 0, 1},
    };
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        union number_slot s = {0};
        assert_true(number_is_tag(types[t].tag));
        assert_int_equal(number_convert(number_uint(types[t].most), types[t].tag, &s), 0);
        if (types[t].most < UINT64_MAX) {
            assert_int_equal(number_convert(number_uint(types[t].most + 1), types[t].tag, &s), MOYAI_ERANGE);
        }
        assert_int_equal(number_convert(number_of_int(types[t].least), types[t].tag, &s), 0);
        if (types[t].tag != MOYAI_T_BOOL) assert_true(s.i == types[t].least);
        uint64_t below = types[t].least == 0 ? 0 : (uint64_t)~types[t].least + 1;
        assert_int_equal(number_convert(number_neg(below), types[t].tag, &s), MOYAI_ERANGE);
        assert_int_equal(number_convert(number_neg(UINT64_MAX), types[t].tag, &s), MOYAI_ERANGE);
        assert_int_equal(number_convert(number_float(1.0), types[t].tag, &s), 0);
        assert_int_equal(number_convert(number_float(-0.0), types[t].tag, &s), 0);
        assert_int_equal(number_convert(number_float(0.5), types[t].tag, &s), MOYAI_ERANGE);
        assert_int_equal(number_convert(number_float(NAN), types[t].tag, &s), MOYAI_ERANGE);
        assert_int_equal(number_convert(number_float(INFINITY), types[t].tag, &s), MOYAI_ERANGE);
        assert_int_equal(number_convert(number_float(-INFINITY), types[t].tag, &s), MOYAI_ERANGE);
        assert_int_equal(number_convert(number_float(1e30), types[t].tag, &s), MOYAI_ERANGE);
        assert_int_equal(number_convert(number_float(18446744073709551616.0), types[t].tag, &s), MOYAI_ERANGE);
        assert_int_equal(number_convert(number_float(-9223372036854777856.0), types[t].tag, &s), MOYAI_ERANGE);
        assert_int_equal(number_convert(number_float(-9223372036854775808.0), types[t].tag, &s),
                         types[t].tag == MOYAI_T_INT ? 0 : MOYAI_ERANGE);
        assert_int_equal(number_convert((struct number){NUMBER_NONE, {0}}, types[t].tag, &s), MOYAI_ETYPE);
        assert_int_equal(number_convert((struct number){NUMBER_BOOL, {1}}, types[t].tag, &s),
                         types[t].tag == MOYAI_T_BOOL ? 0 : MOYAI_ETYPE);
    }
}

static void floats_take_what_they_hold(void **state) {
    (void)state;
    union number_slot s;
    assert_int_equal(number_convert(number_uint((uint64_t)1 << 53), MOYAI_T_DOUBLE, &s), 0);
    assert_true(s.d == 9007199254740992.0);
    assert_int_equal(number_convert(number_uint(((uint64_t)1 << 53) + 1), MOYAI_T_DOUBLE, &s), MOYAI_ERANGE);
    assert_int_equal(number_convert(number_uint(((uint64_t)1 << 53) + 2), MOYAI_T_DOUBLE, &s), 0);
    assert_int_equal(number_convert(number_uint((uint64_t)1 << 63), MOYAI_T_DOUBLE, &s), 0);
    assert_int_equal(number_convert(number_uint(UINT64_MAX), MOYAI_T_DOUBLE, &s), MOYAI_ERANGE);
    assert_int_equal(number_convert(number_neg(UINT64_MAX), MOYAI_T_DOUBLE, &s), 0);
    assert_true(s.d == -18446744073709551616.0);
    assert_int_equal(number_convert(number_neg(0), MOYAI_T_FLOAT, &s), 0);
    assert_true(s.f == -1.0f);
    assert_int_equal(number_convert(number_uint(1 << 24), MOYAI_T_FLOAT, &s), 0);
    assert_int_equal(number_convert(number_uint((1 << 24) + 1), MOYAI_T_FLOAT, &s), MOYAI_ERANGE);
    assert_int_equal(number_convert(number_neg((1 << 24)), MOYAI_T_FLOAT, &s), MOYAI_ERANGE);
    assert_int_equal(number_convert(number_float(0.5), MOYAI_T_FLOAT, &s), 0);
    assert_int_equal(number_convert(number_float(0.1), MOYAI_T_FLOAT, &s), MOYAI_ERANGE);
    assert_int_equal(number_convert(number_float((double)0.1f), MOYAI_T_FLOAT, &s), 0);
    assert_int_equal(number_convert(number_float(1e300), MOYAI_T_FLOAT, &s), MOYAI_ERANGE);
    assert_int_equal(number_convert(number_float(INFINITY), MOYAI_T_FLOAT, &s), 0);
    assert_true(isinf(s.f));
    assert_int_equal(number_convert(number_float(NAN), MOYAI_T_FLOAT, &s), 0);
    assert_true(isnan(s.f));
    assert_int_equal(number_convert((struct number){NUMBER_BOOL, {1}}, MOYAI_T_DOUBLE, &s), MOYAI_ETYPE);
    assert_int_equal(number_convert(number_uint(1), MOYAI_T_TEXT, &s), MOYAI_ETYPE);
    assert_false(number_is_tag(MOYAI_T_TEXT));
}

static void stores_have_the_width_of_their_type(void **state) {
    (void)state;
    static const struct {
        uint8_t tag, width;
    } types[] = {
        {MOYAI_T_BOOL, 1}, {MOYAI_T_INT8, 1},  {MOYAI_T_INT16, 2},  {MOYAI_T_INT32, 4},
        {MOYAI_T_INT, 8},  {MOYAI_T_UINT8, 1}, {MOYAI_T_UINT16, 2}, {MOYAI_T_UINT32, 4},
        {MOYAI_T_UINT, 8}, {MOYAI_T_FLOAT, 4}, {MOYAI_T_DOUBLE, 8}, {MOYAI_T_TEXT, 0},
    };
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        uint8_t b[17];
        union number_slot s = {0};
        memset(b, 0xee, sizeof b);
        number_store(&s, types[t].tag, b + 1); /* any alignment */
        for (size_t i = 0; i < sizeof b; i++) assert_int_equal(b[i], i >= 1 && i < 1u + types[t].width ? 0 : 0xee);
    }
}

/* ---- typed arrays --------------------------------------------------------------------------- */

/* RFC 8746, table 1 and 2. */
static void tags_are_those_of_the_rfc(void **state) {
    (void)state;
    static const struct {
        unsigned tag;
        int elem;   /* -1: refused */
        int little; /* 1, 0; -1: has no order */
    } table[] = {
        {64, MOYAI_ELEM_U8, -1},
        {65, MOYAI_ELEM_U16, 0},
        {66, MOYAI_ELEM_U32, 0},
        {67, MOYAI_ELEM_U64, 0},
        {68, MOYAI_ELEM_U8, -1},
        {69, MOYAI_ELEM_U16, 1},
        {70, MOYAI_ELEM_U32, 1},
        {71, MOYAI_ELEM_U64, 1},
        {72, MOYAI_ELEM_I8, -1},
        {73, MOYAI_ELEM_I16, 0},
        {74, MOYAI_ELEM_I32, 0},
        {75, MOYAI_ELEM_I64, 0},
        {76, -1, -1},
        {77, MOYAI_ELEM_I16, 1},
        {78, MOYAI_ELEM_I32, 1},
        {79, MOYAI_ELEM_I64, 1},
        {80, -1, 0},
        {81, MOYAI_ELEM_F32, 0},
        {82, MOYAI_ELEM_F64, 0},
        {83, -1, 0},
        {84, -1, 1},
        {85, MOYAI_ELEM_F32, 1},
        {86, MOYAI_ELEM_F64, 1},
        {87, -1, 1},
    };
    const uint16_t one = 1;
    bool little_here = *(const uint8_t *)&one == 1;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        enum moyai_elem elem;
        bool swap;
        assert_true(typed_is_tag(table[i].tag));
        int rc = typed_of_tag(table[i].tag, &elem, &swap);
        assert_int_equal(rc, table[i].elem < 0 ? MOYAI_ETYPE : 0);
        if (rc < 0) continue;
        assert_int_equal(elem, table[i].elem);
        assert_int_equal(swap, table[i].little >= 0 && (table[i].little == 1) != little_here);
    }
    assert_false(typed_is_tag(63));
    assert_false(typed_is_tag(88));
}

static void arrays_are_aligned_at_every_offset(void **state) {
    (void)state;
    static const uint64_t lengths[] = {0, 8, 16, 184, 192, 248, 256, 65528, 65536, 0xfffffff8, 0x100000000};
    for (unsigned elem = 0; elem <= MOYAI_ELEM_F64; elem++) {
        size_t size = typed_size((enum moyai_elem)elem);
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            for (uint64_t at = 0; at < 16; at++) {
                uint8_t b[TYPED_HEAD_MAX];
                struct head h = {0};
                size_t n = typed_put_head(b, at, (enum moyai_elem)elem, lengths[l]), used = 0;
                assert_in_range(n, 3, TYPED_HEAD_MAX);
                assert_int_equal((at + n) % size, 0);
                do {
                    used += h.len;
                    assert_int_equal(head_get(b + used, n - used, &h), 0);
                } while (h.major == HEAD_TAG && h.arg == HEAD_TAG_CBOR);
                assert_int_equal(h.major, HEAD_TAG);
                enum moyai_elem back;
                bool swap;
                assert_int_equal(typed_of_tag(h.arg, &back, &swap), 0);
                assert_int_equal(back, elem);
                assert_false(swap);
                used += h.len;
                assert_int_equal(b[used - 1], h.arg); /* the number stands in the last byte of its head */
                assert_int_equal(head_get(b + used, n - used, &h), 0);
                assert_int_equal(h.major, HEAD_BYTES);
                assert_true(h.arg == lengths[l]);
                assert_int_equal(used + h.len, n);
            }
        }
    }
}

static void swapping_reverses_each_element(void **state) {
    (void)state;
    const uint8_t in[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    for (size_t size = 1; size <= 8; size *= 2) {
        uint8_t b[17], c[17];
        memcpy(b + 1, in, 16);
        typed_swap(b + 1, b + 1, 16, size);
        typed_swap(c + 1, in, 16, size);
        for (size_t i = 0; i < 16; i++) assert_int_equal(b[1 + i], in[i / size * size + size - 1 - i % size]);
        assert_memory_equal(b + 1, c + 1, 16);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_come_back),
        cmocka_unit_test(every_initial_byte_is_a_head_or_refused),
        cmocka_unit_test(floats_come_back),
        cmocka_unit_test(integers_fit_exactly_or_not_at_all),
        cmocka_unit_test(floats_take_what_they_hold),
        cmocka_unit_test(stores_have_the_width_of_their_type),
        cmocka_unit_test(tags_are_those_of_the_rfc),
        cmocka_unit_test(arrays_are_aligned_at_every_offset),
        cmocka_unit_test(swapping_reverses_each_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
