/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments in, destinations out. */
#include "wire/codec.h"
#include "wire/number.h"
#include "wire/testing.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* One message on its way: encoded with pieces, joined, decoded. */
struct trip {
    struct codec_out o;
    uint8_t *p;
    size_t n;
    struct codec_arena *arena;
    struct moyai_error e;
};

static int trip_put(struct trip *t, const struct moyai_args *args, size_t borrow) {
    memset(t, 0, sizeof *t);
    codec_out_init(&t->o, NULL, 0, borrow, SIZE_MAX);
    int rc = codec_put_args(&t->o, args, &testing_refs, &t->e);
    if (rc == 0) t->p = testing_join(&t->o, &t->n);
    return rc;
}
static int trip_get(struct trip *t, const struct moyai_into *into) {
    return codec_get_into(t->p, t->n, into, &testing_refs, testing_drop, &t->arena, &t->e);
}
static void trip_done(struct trip *t) {
    codec_out_done(&t->o);
    codec_arena_free(t->arena);
    free(t->p);
}
static int trip_hex(struct trip *t, const char *hex, const struct moyai_into *into) {
    memset(t, 0, sizeof *t);
    t->p = aligned_alloc(16, 1024);
    assert_non_null(t->p);
    t->n = testing_hex(hex, t->p, 1023);
    return trip_get(t, into);
}

/* What is lent is read like what was sent, where it lies, and again and again. */
static void lent_values_are_read_where_they_lie(void **state) {
    (void)state;
    static uint8_t raw[32 * 8 + 1];
    static double ds[32];
    for (size_t i = 0; i < sizeof raw; i++) raw[i] = (uint8_t)i;
    for (int i = 0; i < 32; i++) ds[i] = i + 0.5;
    const double *crooked = (const double *)(const void *)(raw + 1); /* never looked into as such */
    struct codec_out o;
    struct moyai_error e;
    codec_out_init(&o, NULL, 0, 64, SIZE_MAX);
    assert_int_equal(codec_reserve(&o, 24), 0);
    o.n = 24; /* what stands before the values */
    assert_int_equal(
        codec_put_args(&o,
                       MOYAI_ARGS(7, moyai_doubles(ds, 32), "text", moyai_bytes(raw, 100), moyai_doubles(crooked, 32),
                                  moyai_doubles(crooked, 16), moyai_doubles(ds, 2), moyai_u8s(raw, 200), "end"),
                       &testing_refs, NULL),
        0);
    assert_int_equal(o.n_pieces, 5);
    uint8_t *p = malloc(o.n - 24 + 1);
    memcpy(p, o.p + 24, o.n - 24);
    size_t n = o.n - 24;
    struct codec_lent lent = {o.pieces, o.n_pieces, 24};
    struct codec_arena *arena = NULL;
    for (int i = 0; i < 3; i++) {
        int x = 0;
        const double *d1, *d2, *d3, *d4;
        const void *b;
        const uint8_t *u;
        const char *t, *end;
        size_t n1, n2, n3, n4, nb, nu;
        assert_int_equal(codec_get_lent(p, n, &lent,
                                        MOYAI_INTO(&x, moyai_into_doubles(&d1, &n1), &t, moyai_into_bytes(&b, &nb),
                                                   moyai_into_doubles(&d2, &n2), moyai_into_doubles(&d3, &n3),
                                                   moyai_into_doubles(&d4, &n4), moyai_into_u8s(&u, &nu), &end),
                                        &testing_refs, testing_drop, &arena, &e),
                         0);
        assert_int_equal(x, 7);
        assert_true(d1 == ds && n1 == 32);
        assert_true(b == raw && nb == 100);
        assert_true(u == raw && nu == 200);
        assert_true(n2 == 32 && n3 == 16 && (uintptr_t)d2 % 8 == 0 && (uintptr_t)d3 % 8 == 0);
        assert_memory_equal(d2, crooked, 32 * 8);
        assert_memory_equal(d3, crooked, 16 * 8);
        assert_true(n4 == 2 && d4[1] == 1.5);
        assert_string_equal(t, "text");
        assert_string_equal(end, "end");
    }
    /* As structured values, which keep a copy; skipped; and refused with the same reasons. */
    moyai_value *v[3] = {NULL};
    static const struct moyai_into_arg skip = {.tag = MOYAI_T_SKIP};
    struct moyai_into_arg to[9];
    for (int i = 0; i < 9; i++) to[i] = skip;
    struct moyai_into all = {to, 9};
    to[1] = (struct moyai_into_arg){.tag = MOYAI_T_VALUE, .p = &v[0]};
    to[3] = (struct moyai_into_arg){.tag = MOYAI_T_VALUE, .p = &v[1]};
    assert_int_equal(codec_get_lent(p, n, &lent, &all, &testing_refs, testing_drop, &arena, &e), 0);
    assert_non_null(v[0]);
    assert_non_null(v[1]);
    moyai_value_free(v[0]);
    moyai_value_free(v[1]);
    int x;
    to[3] = skip;
    to[4] = MOYAI_INTO(&x)->v[0];
    assert_int_equal(codec_get_lent(p, n, &lent, &all, &testing_refs, testing_drop, &arena, &e), MOYAI_ETYPE);
    assert_string_equal(e.text, "value 5: array of double, where int32 is expected");
    all.n = 8;
    assert_int_equal(codec_get_lent(p, n, &lent, &all, &testing_refs, testing_drop, &arena, &e), MOYAI_EARGS);
    assert_string_equal(e.text, "9 values, where 8 are expected");
    codec_arena_free(arena);
    codec_out_done(&o);
    free(p);
}

static void sixteen_values_of_all_types(void **state) {
    (void)state;
    const double ds[] = {1.5, -2.5, 1e300};
    const int32_t is[] = {-1, 2, 3, 4, 5};
    moyai_ref *ref = testing_ref(9);
    moyai_value *val = moyai_value_new(MOYAI_ARG("deep"));
    struct trip t;
    assert_int_equal(
        trip_put(&t,
                 MOYAI_ARGS((bool)true, (signed char)-128, (short)-32768, -5, 1000000L, LLONG_MIN, (unsigned char)255,
                            (unsigned short)65535, 4000000000u, ULONG_MAX, 'c', 0.5f, 1.0e-310, "naïve 舫い", ref, val),
                 SIZE_MAX),
        0);
    bool b;
    signed char sc;
    short s;
    int i;
    long l;
    long long ll;
    unsigned char uc;
    unsigned short us;
    unsigned u;
    unsigned long ul;
    char c;
    float f;
    double d;
    const char *text, *inner;
    moyai_ref *ref2;
    moyai_value *val2;
    for (int twice = 0; twice < 2; twice++) {
        assert_int_equal(
            trip_get(&t, MOYAI_INTO(&b, &sc, &s, &i, &l, &ll, &uc, &us, &u, &ul, &c, &f, &d, &text, &ref2, &val2)), 0);
        assert_true(b && sc == -128 && s == -32768 && i == -5 && l == 1000000 && ll == LLONG_MIN);
        assert_true(uc == 255 && us == 65535 && u == 4000000000u && ul == ULONG_MAX && c == 'c');
        assert_true(f == 0.5f && d == 1.0e-310);
        assert_string_equal(text, "naïve 舫い");
        uint8_t ids[32];
        testing_ref_ids(ref2, ids);
        assert_int_equal(ids[31], 9);
        testing_drop(ref2);
        assert_int_equal(moyai_value_get(val2, MOYAI_DEST(&inner)), 0);
        assert_string_equal(inner, "deep");
        moyai_value_free(val2);
    }
    trip_done(&t);

    assert_int_equal(trip_put(&t,
                              MOYAI_ARGS(moyai_doubles(ds, 3), moyai_bytes("\0\1", 2), moyai_i32s(is, 5),
                                         moyai_text("ab\0c", 4), moyai_null()),
                              SIZE_MAX),
                     0);
    const double *ds2;
    const int32_t *is2;
    const void *bytes;
    size_t nd, ni, nb, nt;
    assert_int_equal(trip_get(&t, MOYAI_INTO(moyai_skip(), moyai_skip(), moyai_skip(), &text, moyai_skip())),
                     MOYAI_ETYPE); /* its end could not be told */
    assert_string_equal(t.e.text, "value 4: text with a NUL byte (see moyai_into_text), where text is expected");
    assert_int_equal(trip_get(&t, MOYAI_INTO(moyai_into_doubles(&ds2, &nd), moyai_into_bytes(&bytes, &nb),
                                             moyai_into_i32s(&is2, &ni), moyai_into_text(&text, &nt), moyai_skip())),
                     0);
    assert_true(nd == 3 && nb == 2 && ni == 5 && nt == 4);
    assert_memory_equal(ds2, ds, sizeof ds);
    assert_memory_equal(is2, is, sizeof is);
    assert_memory_equal(bytes, "\0\1", 2);
    assert_memory_equal(text, "ab\0c\0", 5);
    trip_done(&t);
    moyai_value_free(val);
    testing_drop(ref);
    assert_int_equal(testing_refs_alive(), 0);
}

static void no_values_and_no_destinations(void **state) {
    (void)state;
    struct trip t;
    const struct moyai_into none = {NULL, 0};
    assert_int_equal(trip_put(&t, MOYAI_NONE, SIZE_MAX), 0);
    assert_int_equal(t.n, 0);
    assert_int_equal(trip_get(&t, MOYAI_NONE), 0);
    assert_int_equal(trip_get(&t, &none), 0);
    int x = 7;
    assert_int_equal(trip_get(&t, MOYAI_INTO(&x)), MOYAI_EARGS);
    assert_int_equal(x, 7);
    trip_done(&t);
    assert_int_equal(trip_put(&t, MOYAI_ARGS(1, "x"), SIZE_MAX), 0);
    assert_int_equal(trip_get(&t, MOYAI_NONE), 0); /* ignored, but looked at */
    assert_int_equal(trip_get(&t, &none), MOYAI_EARGS);
    t.n--;
    assert_int_equal(trip_get(&t, MOYAI_NONE), MOYAI_EDATA);
    trip_done(&t);
}

static void counts_must_agree(void **state) {
    (void)state;
    struct trip t;
    int a = 1, b = 2, c = 3;
    assert_int_equal(trip_put(&t, MOYAI_ARGS(10, 20), SIZE_MAX), 0);
    assert_int_equal(trip_get(&t, MOYAI_INTO(&a)), MOYAI_EARGS);
    assert_string_equal(t.e.text, "2 values, where 1 is expected");
    assert_int_equal(trip_get(&t, MOYAI_INTO(&a, &b, &c)), MOYAI_EARGS);
    assert_string_equal(t.e.text, "2 values, where 3 are expected");
    const char *text = "unchanged";
    assert_int_equal(trip_get(&t, MOYAI_INTO(&text)), MOYAI_EARGS); /* the count explains more than the type */
    assert_string_equal(text, "unchanged");
    assert_true(a == 1 && b == 2 && c == 3);
    trip_done(&t);
}

static void a_wrong_type_is_named_and_nothing_stored(void **state) {
    (void)state;
    struct trip t;
    moyai_ref *ref = testing_ref(3), *got = NULL;
    int a = 1;
    int8_t small = 2;
    const char *text = NULL;
    const float *fs = NULL;
    size_t n = 99;
    const double ds[] = {1};
    assert_int_equal(trip_put(&t, MOYAI_ARGS(ref, 300, moyai_doubles(ds, 1), 2.5), SIZE_MAX), 0);
    assert_int_equal(trip_get(&t, MOYAI_INTO(&got, &text, moyai_skip(), moyai_skip())), MOYAI_ETYPE);
    assert_string_equal(t.e.text, "value 2: integer 300, where text is expected");
    assert_int_equal(testing_refs_alive(), 1); /* the one made on the way is gone */
    assert_int_equal(trip_get(&t, MOYAI_INTO(moyai_skip(), &small, moyai_skip(), moyai_skip())), MOYAI_ERANGE);
    assert_string_equal(t.e.text, "value 2: 300 does not fit int8");
    assert_int_equal(trip_get(&t, MOYAI_INTO(moyai_skip(), moyai_skip(), moyai_into_floats(&fs, &n), moyai_skip())),
                     MOYAI_ETYPE);
    assert_string_equal(t.e.text, "value 3: array of double, where array of float is expected");
    assert_int_equal(trip_get(&t, MOYAI_INTO(moyai_skip(), moyai_skip(), moyai_skip(), &a)), MOYAI_ERANGE);
    assert_string_equal(t.e.text, "value 4: 2.5 does not fit int32");
    assert_true(a == 1 && small == 2 && !got && !text && !fs && n == 99);
    trip_done(&t);
    testing_drop(ref);
}

static void a_destination_is_not_null(void **state) {
    (void)state;
    struct trip t;
    int a = 1;
    moyai_ref *ref = testing_ref(3), *got = NULL;
    assert_int_equal(trip_put(&t, MOYAI_ARGS(ref, 300), SIZE_MAX), 0);
    assert_int_equal(trip_get(&t, MOYAI_INTO(&got, (int *)NULL)), MOYAI_EINVAL);
    assert_string_equal(t.e.text, "destination 2 is NULL: moyai_skip() passes over a value");
    assert_int_equal(testing_refs_alive(), 1); /* the one made on the way is gone */
    assert_int_equal(trip_get(&t, MOYAI_INTO((moyai_ref **)NULL, &a)), MOYAI_EINVAL);
    assert_true(a == 1 && !got);
    trip_done(&t);
    testing_drop(ref);
}

static void a_number_is_shown_as_people_write_it(void **state) {
    (void)state;
    static const struct {
        struct number x;
        const char *text;
    } some[] = {
        {{NUMBER_NONE, {0}}, ""},
        {{NUMBER_BOOL, {1}}, "true"},
        {{NUMBER_BOOL, {0}}, "false"},
        {{NUMBER_UINT, {UINT64_MAX}}, "18446744073709551615"},
        {{NUMBER_NEG, {0}}, "-1"},
        {{NUMBER_NEG, {UINT64_MAX - 1}}, "-18446744073709551615"},
        {{NUMBER_NEG, {UINT64_MAX}}, "-18446744073709551616"},
        {{NUMBER_FLOAT, {.d = 0.1}}, "0.1"},
        {{NUMBER_FLOAT, {.d = -1.0 / 3}}, "-0.3333333333333333"},
        {{NUMBER_FLOAT, {.d = -1.7976931348623157e308}}, "-1.7976931348623157e+308"},
        {{NUMBER_FLOAT, {.d = 5e-324}}, "4.94065645841247e-324"},
        {{NUMBER_FLOAT, {.d = INFINITY}}, "inf"},
    };
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        char text[NUMBER_TEXT];
        number_format(some[i].x, text);
        assert_string_equal(text, some[i].text);
    }
    char text[NUMBER_TEXT];
    number_format((struct number){NUMBER_FLOAT, {.d = (double)NAN}}, text);
    assert_non_null(strstr(text, "nan"));
}

static void conversions_through_the_wire(void **state) {
    (void)state;
    struct trip t;
    bool b = true;
    double d;
    float f;
    int i;
    uint64_t u;
    assert_int_equal(trip_put(&t, MOYAI_ARGS(false, 1, 3.0, 7, (uint64_t)1 << 63), SIZE_MAX), 0);
    assert_int_equal(trip_get(&t, MOYAI_INTO(&b, &d, &i, &f, &u)), 0);
    assert_true(!b && d == 1.0 && i == 3 && f == 7.0f && u == (uint64_t)1 << 63);
    trip_done(&t);
    assert_int_equal(trip_put(&t, MOYAI_ARGS((bool)true), SIZE_MAX), 0);
    assert_int_equal(trip_get(&t, MOYAI_INTO(&i)), MOYAI_ETYPE);
    trip_done(&t);
    assert_int_equal(trip_put(&t, MOYAI_ARGS(2), SIZE_MAX), 0);
    assert_int_equal(trip_get(&t, MOYAI_INTO(&b)), MOYAI_ERANGE);
    trip_done(&t);
    const struct moyai_into_arg null = {.tag = MOYAI_T_NULL};
    assert_int_equal(trip_put(&t, MOYAI_ARGS(moyai_null(), 0), SIZE_MAX), 0);
    assert_int_equal(trip_get(&t, MOYAI_INTO(null, &i)), 0);
    assert_int_equal(trip_get(&t, MOYAI_INTO(&i, &i)), MOYAI_ETYPE);
    assert_int_equal(trip_get(&t, MOYAI_INTO(null, null)), MOYAI_ETYPE);
    trip_done(&t);
    /* bytes and arrays of uint8 are the same to a reader */
    const uint8_t *u8;
    const void *bytes;
    size_t n1, n2;
    assert_int_equal(trip_put(&t, MOYAI_ARGS(moyai_bytes("ab", 2), moyai_u8s((const uint8_t *)"cde", 3)), SIZE_MAX), 0);
    assert_int_equal(trip_get(&t, MOYAI_INTO(moyai_into_u8s(&u8, &n1), moyai_into_bytes(&bytes, &n2))), 0);
    assert_true(n1 == 2 && n2 == 3 && u8[1] == 'b' && ((const char *)bytes)[2] == 'e');
    trip_done(&t);
}

static void bad_arguments_are_named_and_nothing_appended(void **state) {
    (void)state;
    struct codec_out o;
    struct moyai_error e;
    codec_out_init(&o, NULL, 0, 4, 1000);
    assert_int_equal(codec_put_args(&o, MOYAI_ARGS(1), NULL, NULL), 0);
    const struct {
        struct moyai_arg arg;
        const char *text;
    } cases[] = {
        {MOYAI_ARG((char *)NULL), "value 2: text that is NULL"},
        {MOYAI_ARG("\xff"), "value 2: text that is not UTF-8"},
        {MOYAI_ARG("\xed\xa0\x80"), "value 2: text that is not UTF-8"},
        {MOYAI_ARG((moyai_ref *)NULL), "value 2: a reference that is NULL"},
        {MOYAI_ARG((moyai_value *)NULL), "value 2: a moyai_value that is NULL"},
        {moyai_bytes(NULL, 1), "value 2: bytes that are NULL"},
        {moyai_doubles(NULL, 1), "value 2: an array that is NULL"},
        {{.tag = MOYAI_T_SKIP}, "value 2: not an argument"},
        {{.tag = 200}, "value 2: not an argument"},
        {{.tag = MOYAI_T_ARRAY, .elem = 10}, "value 2: an array of unknown element type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(codec_put_args(&o, MOYAI_ARGS(moyai_bytes("12345", 5), cases[i].arg), &testing_refs, &e),
                         MOYAI_EARGS);
        assert_non_null(strstr(e.text, cases[i].text));
        assert_true(o.n == 1 && o.n_pieces == 0 && o.spliced == 0);
    }
    assert_int_equal(
        codec_put_args(&o, MOYAI_ARGS(moyai_bytes(NULL, 0), moyai_doubles(NULL, 0), moyai_text(NULL, 0)), NULL, NULL),
        0);
    codec_out_done(&o);
}

/* The message may have exactly `limit` bytes, borrowed ones included. */
static void the_limit_is_exact(void **state) {
    (void)state;
    static const char data[100];
    moyai_ref *ref = testing_ref(1);
    const struct moyai_arg args[] = {MOYAI_ARG(1000),
                                     MOYAI_ARG(1.5),
                                     MOYAI_ARG(1.5f),
                                     MOYAI_ARG("text"),
                                     moyai_bytes(data, 100),
                                     moyai_bytes(data, 10),
                                     moyai_doubles((const double *)(const void *)data, 0),
                                     MOYAI_ARG(ref),
                                     moyai_null()};
    for (size_t k = 1; k <= sizeof args / sizeof args[0]; k++) {
        const struct moyai_args all = {args, k};
        struct codec_out o;
        codec_out_init(&o, NULL, 0, 50, SIZE_MAX);
        assert_int_equal(codec_put_args(&o, &all, &testing_refs, NULL), 0);
        size_t total = o.n + o.spliced;
        codec_out_done(&o);
        struct moyai_error e;
        codec_out_init(&o, NULL, 0, 50, total);
        assert_int_equal(codec_put_args(&o, &all, &testing_refs, &e), 0);
        assert_int_equal(codec_reserve(&o, 0), 0);
        assert_int_equal(codec_reserve(&o, 1), MOYAI_ETOOBIG);
        codec_out_done(&o);
        codec_out_init(&o, NULL, 0, 50, total - 1);
        assert_int_equal(codec_put_args(&o, &all, &testing_refs, &e), MOYAI_ETOOBIG);
        char want[100];
        snprintf(want, sizeof want, "value %zu: with it the message exceeds %zu bytes", k, total - 1);
        assert_string_equal(e.text, want);
        assert_true(o.n == 0 && o.spliced == 0 && o.n_pieces == 0);
        codec_out_done(&o);
    }
    struct codec_out o;
    codec_out_init(&o, NULL, 0, SIZE_MAX, SIZE_MAX / 2);
    assert_int_equal(codec_put_args(&o, MOYAI_ARGS(moyai_doubles((const double *)8, SIZE_MAX / 4)), NULL, NULL),
                     MOYAI_ETOOBIG);
    codec_out_done(&o);
    testing_drop(ref);
}

/* A caller's buffer is left alone when it is too small, and what is in it comes along. */
static void a_fixed_buffer_is_outgrown(void **state) {
    (void)state;
    for (size_t cap = 4; cap < 40; cap++) {
        uint8_t buf[64];
        struct codec_out o;
        memset(buf, 0xee, sizeof buf);
        codec_out_init(&o, buf, cap, SIZE_MAX, SIZE_MAX);
        assert_int_equal(codec_reserve(&o, 4), 0);
        memcpy(o.p, "head", 4);
        o.n = 4;
        assert_int_equal(codec_put_args(&o, MOYAI_ARGS("0123456789", 100000), NULL, NULL), 0);
        assert_int_equal(o.n, 4 + 11 + 5);
        assert_memory_equal(o.p,
                            "head\x6a"
                            "0123456789\x1a\x00\x01\x86\xa0",
                            20);
        for (size_t i = cap; i < sizeof buf; i++) assert_int_equal(buf[i], 0xee);
        codec_out_done(&o);
    }
}

/* Arrays lie on multiples of their element size in the message, copied or borrowed, whatever stands before them. */
static void arrays_are_aligned_in_the_message(void **state) {
    (void)state;
    static const uint8_t sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
    _Alignas(16) static uint8_t data[4096];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 7);
    for (size_t elem = 0; elem < 10; elem++) {
        for (size_t start = 0; start < 16; start++) {
            for (size_t borrow = 0; borrow < 2; borrow++) {
                for (size_t n = 0; n < 300; n += n < 40 ? 1 : 37) {
                    const struct moyai_arg a = {.tag = MOYAI_T_ARRAY, .elem = (uint8_t)elem, .v.p = data, .n = n};
                    const struct moyai_arg args[] = {a, MOYAI_ARG("odd"), a, moyai_bytes(data, 3), a};
                    const struct moyai_args all = {args, 5};
                    struct codec_out o;
                    codec_out_init(&o, NULL, 0, borrow ? 1 : SIZE_MAX, SIZE_MAX);
                    assert_int_equal(codec_reserve(&o, 16), 0);
                    memset(o.p, 0, 16);
                    o.n = start;
                    assert_int_equal(codec_put_args(&o, &all, NULL, NULL), 0);
                    assert_int_equal(o.n_pieces, borrow ? (n ? 4 : 1) : 0);
                    size_t total;
                    uint8_t *p = testing_join(&o, &total);
                    const void *q[3], *bytes;
                    size_t m[3], nb;
                    const char *text;
                    struct codec_arena *arena = NULL;
                    struct moyai_into_arg to[] = {{MOYAI_T_ARRAY, (uint8_t)elem, &q[0], &m[0]},
                                                  MOYAI_DEST(&text),
                                                  {MOYAI_T_ARRAY, (uint8_t)elem, &q[1], &m[1]},
                                                  moyai_into_bytes(&bytes, &nb),
                                                  {MOYAI_T_ARRAY, (uint8_t)elem, &q[2], &m[2]}};
                    const struct moyai_into into = {to, 5};
                    assert_int_equal(codec_get_into(p + start, total - start, &into, NULL, NULL, &arena, NULL), 0);
                    for (size_t k = 0; k < 3; k++) {
                        assert_int_equal(m[k], n);
                        assert_memory_equal(q[k], data, n * sizes[elem]);
                        assert_true((const uint8_t *)q[k] >= p && (const uint8_t *)q[k] <= p + total); /* not copied */
                        assert_int_equal(((const uint8_t *)q[k] - p) % sizes[elem], 0);
                    }
                    assert_memory_equal(bytes, data, 3);
                    assert_string_equal(text, "odd");
                    codec_arena_free(arena);
                    free(p);
                    codec_out_done(&o);
                }
            }
        }
    }
}

static void only_what_is_large_is_borrowed(void **state) {
    (void)state;
    static char data[200];
    struct codec_out o;
    codec_out_init(&o, NULL, 0, 100, SIZE_MAX);
    memset(data, 'a', sizeof data);
    const struct moyai_arg v[] = {moyai_bytes(data, 99), moyai_bytes(data, 100), moyai_text(data, 200)};
    moyai_value *val = moyai_value_new(v[1]);
    assert_int_equal(codec_put_args(&o, MOYAI_ARGS(v[0], v[1], v[2], val), NULL, NULL), 0);
    assert_int_equal(o.n_pieces, 1);
    assert_ptr_equal(o.pieces[0].p, data);
    assert_int_equal(o.pieces[0].n, 100);
    assert_int_equal(o.pieces[0].at, 2 + 99 + 2);
    assert_int_equal(o.n, 2 + 99 + 2 + 2 + 200 + 2 + 100);
    codec_out_done(&o);
    moyai_value_free(val);

    codec_out_init(&o, NULL, 0, 1, SIZE_MAX); /* many pieces */
    for (size_t i = 0; i < 70; i++)
        assert_int_equal(codec_put_args(&o, MOYAI_ARGS(moyai_bytes(data + i, 2)), NULL, NULL), 0);
    assert_int_equal(o.n_pieces, 70);
    for (size_t i = 0; i < 70; i++) assert_true(o.pieces[i].p == data + i && o.pieces[i].at == i + 1);
    codec_out_done(&o);
}

/* ---- foreign machines ----------------------------------------------------------------------- */

static void arrays_of_the_other_byte_order(void **state) {
    (void)state;
    struct trip t;
    const uint16_t *u16;
    const int32_t *i32;
    const int64_t *i64;
    const uint64_t *u64;
    const float *f;
    const double *d, *d2;
    size_t n[7];
    /* Written by hand as a big-endian machine sends it: uint16 {1, 0x8001}, int32 {-2}, int64 {-3, 5}, uint64 {2^63},
     * float {1.5, -0.25}, double {-1.0}; the last double array is little-endian. */
    const char *hex = "d8 41 44 0001 8001"
                      "d8 4a 44 fffffffe"
                      "d8 4b 50 fffffffffffffffd 0000000000000005"
                      "d8 43 48 8000000000000000"
                      "d8 51 48 3fc00000 be800000"
                      "d8 52 48 bff0000000000000"
                      "d8 56 48 000000000000f0bf";
    assert_int_equal(trip_hex(&t, hex, MOYAI_NONE), 0);
    for (int i = 0; i < 3; i++) { /* what was turned in place is not turned again */
        assert_int_equal(trip_get(&t, MOYAI_INTO(moyai_into_u16s(&u16, &n[0]), moyai_into_i32s(&i32, &n[1]),
                                                 moyai_into_i64s(&i64, &n[2]), moyai_into_u64s(&u64, &n[3]),
                                                 moyai_into_floats(&f, &n[4]), moyai_into_doubles(&d, &n[5]),
                                                 moyai_into_doubles(&d2, &n[6]))),
                         0);
        assert_true(n[0] == 2 && n[1] == 1 && n[2] == 2 && n[3] == 1 && n[4] == 2 && n[5] == 1 && n[6] == 1);
        assert_true(u16[0] == 1 && u16[1] == 0x8001 && i32[0] == -2 && i64[0] == -3 && i64[1] == 5);
        assert_true(u64[0] == (uint64_t)1 << 63 && f[0] == 1.5f && f[1] == -0.25f && d[0] == -1.0 && d2[0] == -1.0);
        assert_true((uintptr_t)u16 % 2 == 0 && (uintptr_t)i32 % 4 == 0 && (uintptr_t)i64 % 8 == 0 &&
                    (uintptr_t)u64 % 8 == 0);
        assert_true((uintptr_t)f % 4 == 0 && (uintptr_t)d % 8 == 0 && (uintptr_t)d2 % 8 == 0);
    }
    trip_done(&t);
}

static void a_structured_value_and_an_array_see_the_same(void **state) {
    (void)state;
    struct trip t;
    const uint16_t *a, *b;
    size_t na, nb;
    moyai_value *v;
    for (int order = 0; order < 2; order++) {
        assert_int_equal(trip_hex(&t, "00 d8 41 44 0102 0304", MOYAI_NONE), 0); /* data at offset 4: turned in place */
        for (int i = 0; i < 4; i++) {
            if (i % 2 == order) {
                assert_int_equal(trip_get(&t, MOYAI_INTO(moyai_skip(), moyai_into_u16s(&a, &na))), 0);
                assert_true(na == 2 && a[0] == 0x0102 && a[1] == 0x0304);
                assert_ptr_equal(a, t.p + 4);
            } else {
                assert_int_equal(trip_get(&t, MOYAI_INTO(moyai_skip(), &v)), 0);
                assert_int_equal(moyai_value_get(v, moyai_into_u16s(&b, &nb)), 0);
                assert_true(nb == 2 && b[0] == 0x0102 && b[1] == 0x0304);
                moyai_value_free(v);
            }
        }
        trip_done(&t);
    }
}

/* What other encoders may send and ours does not. */
static void foreign_forms_are_understood(void **state) {
    (void)state;
    struct trip t;
    int i, j;
    double d;
    const char *text, *text2;
    const void *bytes;
    const uint16_t *u16;
    size_t n, m;
    moyai_ref *ref;
    assert_int_equal(trip_hex(&t, "1b 0000000000000005 39 0004 f9 3e00", MOYAI_INTO(&i, &j, &d)),
                     0); /* longer heads, half float */
    assert_true(i == 5 && j == -5 && d == 1.5);
    trip_done(&t);
    assert_int_equal(trip_hex(&t, "7f 62 6162 60 61 63 ff 5f 42 0102 41 03 ff c0 78 01 78",
                              MOYAI_INTO(&text, moyai_into_bytes(&bytes, &n), &text2)),
                     0);
    assert_string_equal(text, "abc"); /* chunks */
    assert_true(n == 3 && memcmp(bytes, "\1\2\3", 3) == 0);
    assert_string_equal(text2, "x"); /* an unknown tag, a longer head */
    const char *first = text;
    assert_int_equal(trip_get(&t, MOYAI_INTO(&text, moyai_into_bytes(&bytes, &n), &text2)), 0);
    assert_ptr_equal(text, first); /* put together once */
    trip_done(&t);
    assert_int_equal(trip_hex(&t, "d9 0041 5f 43 000100 41 02 ff d8 44 41 09",
                              MOYAI_INTO(moyai_into_u16s(&u16, &n), moyai_into_bytes(&bytes, &m))),
                     0);
    assert_true(n == 2 && u16[0] == 1 && u16[1] == 2 &&
                m == 1); /* an array in chunks that cut an element; clamped uint8 */
    trip_done(&t);
    assert_int_equal(trip_hex(&t,
                              "d9 001b 98 02 78 09 6d6f7961692d726566 59 0020 "
                              "0202020202020202020202020202020202020202020202020202020202020202",
                              MOYAI_INTO(&ref)),
                     0);
    testing_drop(ref);
    trip_done(&t);
}

static void errors_say_which_value(void **state) {
    (void)state;
    struct trip t;
    int i;
    const double *d;
    size_t n;
    assert_int_equal(trip_hex(&t, "01 1c", MOYAI_INTO(&i, &i)), MOYAI_EDATA);
    assert_string_equal(t.e.text, "value 2: a malformed head");
    trip_done(&t);
    assert_int_equal(trip_hex(&t, "61 78 01 81", MOYAI_INTO(&i, &i)), MOYAI_EDATA); /* malformed comes first */
    assert_string_equal(t.e.text, "value 3: malformed data");
    trip_done(&t);
    assert_int_equal(trip_hex(&t, "01 61 78", MOYAI_INTO(&i, moyai_into_doubles(&d, &n))), MOYAI_ETYPE);
    assert_string_equal(t.e.text, "value 2: text, where array of double is expected");
    trip_done(&t);
    moyai_value *v;
    assert_int_equal(trip_hex(&t, "01 a2 6161 01 6161 02", MOYAI_INTO(&i, &v)), MOYAI_EDATA);
    assert_string_equal(t.e.text, "value 2: a map with a key twice");
    trip_done(&t);
    assert_int_equal(trip_hex(&t, "01 1c", MOYAI_NONE), MOYAI_EDATA);
    assert_string_equal(t.e.text, "at byte 1: malformed data");
    trip_done(&t);
}

static void malformed_messages_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *hex, *why;
        int code;
    } cases[] = {
        {"18", NULL, MOYAI_EDATA},
        {"1c", NULL, MOYAI_EDATA},
        {"ff", NULL, MOYAI_EDATA},
        {"c0", NULL, MOYAI_EDATA},
        {"81", NULL, MOYAI_EDATA},
        {"5b ffffffffffffffff 00", NULL, MOYAI_EDATA},
        {"7b fffffffffffffff6 00", NULL, MOYAI_EDATA},
        {"d8 40 5b fffffffffffffff5 00", NULL, MOYAI_EDATA},
        {"5f 5b fffffffffffffff5 00 ff", NULL, MOYAI_EDATA},
        {"9b ffffffffffffffff 00", NULL, MOYAI_EDATA},
        {"61 ff", "text that is not UTF-8", MOYAI_EDATA},
        {"7f 61 c3 61 a9 ff", "text that is not UTF-8", MOYAI_EDATA}, /* a letter over two chunks */
        {"d8 41 43 010203", "an array with a part of an element", MOYAI_EDATA},
        {"d8 41 80", "the tag of an array before something else", MOYAI_EDATA},
        {"d8 54 42 0000", "an array of an element type C has not", MOYAI_ETYPE},
        {"d8 4c 41 00", "an array of an element type C has not", MOYAI_ETYPE},
        {"f8 20", "a simple value of unknown meaning", MOYAI_ETYPE},
        {"f3", "a simple value of unknown meaning", MOYAI_ETYPE},
    };
    static const struct moyai_into_arg kinds[] = {
        {.tag = MOYAI_T_INT},   {.tag = MOYAI_T_TEXT},
        {.tag = MOYAI_T_BYTES}, {.tag = MOYAI_T_ARRAY, .elem = MOYAI_ELEM_U16},
        {.tag = MOYAI_T_REF},   {.tag = MOYAI_T_VALUE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            uint64_t untouched = 77;
            struct moyai_into_arg to = kinds[k];
            to.p = &untouched;
            struct trip t;
            assert_int_equal(trip_hex(&t, cases[i].hex, &(const struct moyai_into){&to, 1}), cases[i].code);
            assert_int_equal(t.e.code, cases[i].code);
            if (cases[i].why) assert_non_null(strstr(t.e.text, cases[i].why));
            assert_true(untouched == 77);
            trip_done(&t);
        }
    }
}

/* Reading again, with other types too, gives the same and needs no more memory than once. */
static void reading_again_gives_the_same(void **state) {
    (void)state;
    struct trip t;
    const char *a, *b, *c;
    assert_int_equal(trip_put(&t, MOYAI_ARGS("first", "", "", "last"), SIZE_MAX), 0);
    uint8_t before[64];
    memcpy(before, t.p, t.n);
    const char *e1, *e2, *first = NULL;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(trip_get(&t, MOYAI_INTO(&a, &e1, &e2, &b)), 0);
        assert_int_equal(trip_get(&t, MOYAI_INTO(&a, &e1, &e2, &t.n)), MOYAI_ETYPE);
        assert_string_equal(a, "first");
        assert_string_equal(e1, "");
        assert_string_equal(e2, "");
        assert_string_equal(b, "last");
        if (!first) first = a;
        assert_ptr_equal(a, first);
    }
    assert_memory_equal(before, t.p, t.n);
    assert_ptr_equal(b, t.p + t.n - 4); /* the text at the end is not copied */
    assert_int_equal(trip_get(&t, MOYAI_INTO(moyai_skip(), moyai_skip(), &c, moyai_skip())), 0);
    assert_string_equal(c, "");
    trip_done(&t);
}

/* More destinations than MOYAI_INTO makes. */
static void many_values(void **state) {
    (void)state;
    enum { N = 100 };
    struct moyai_arg v[N];
    struct moyai_into_arg to[N];
    int64_t got[N];
    for (size_t i = 0; i < N; i++) {
        v[i] = MOYAI_ARG((int64_t)(i * i) - 50);
        to[i] = MOYAI_DEST(&got[i]);
    }
    struct trip t;
    assert_int_equal(trip_put(&t, &(const struct moyai_args){v, N}, SIZE_MAX), 0);
    assert_int_equal(trip_get(&t, &(const struct moyai_into){to, N}), 0);
    for (size_t i = 0; i < N; i++) assert_true(got[i] == (int64_t)(i * i) - 50);
    assert_int_equal(trip_get(&t, &(const struct moyai_into){to, N - 1}), MOYAI_EARGS);
    trip_done(&t);
}

/* Random bytes, and random damage to good messages: an answer, never more. */
static void any_bytes_are_answered(void **state) {
    struct moyai_rng rng;
    rng_seed(&rng, *(uint64_t *)*state);
    for (int i = 0; i < 20000; i++) {
        struct codec_out o;
        codec_out_init(&o, NULL, 0, SIZE_MAX, SIZE_MAX);
        moyai_value *v = i % 2 ? testing_value(&rng, 2, true) : NULL;
        if (v) {
            assert_int_equal(codec_put_args(&o, MOYAI_ARGS("text", v, 5), &testing_refs, NULL), 0);
            for (uint64_t k = rng_below(&rng, 4); k > 0; k--) o.p[rng_below(&rng, o.n)] = (uint8_t)rng_next(&rng);
        } else {
            assert_int_equal(codec_reserve(&o, 30), 0);
            o.n = (size_t)rng_below(&rng, 30);
            rng_bytes(&rng, o.p, o.n);
        }
        moyai_value_free(v);
        size_t n = o.n ? o.n - (size_t)rng_below(&rng, 2) : 0;
        uint8_t *p = malloc(n + 1);
        if (n) memcpy(p, o.p, n);
        codec_out_done(&o);
        struct codec_arena *arena = NULL;
        const char *text;
        moyai_value *v1, *v2;
        moyai_ref *ref;
        const double *ds;
        size_t nd;
        int64_t k;
        (void)codec_get_into(p, n, MOYAI_NONE, &testing_refs, testing_drop, &arena, NULL);
        if (codec_get_into(p, n, MOYAI_INTO(&text, &v1, &k), &testing_refs, testing_drop, &arena, NULL) == 0) {
            assert_int_equal(strlen(text) <= n, 1);
            moyai_value_free(v1);
        }
        if (codec_get_into(p, n, MOYAI_INTO(&v1), &testing_refs, testing_drop, &arena, NULL) == 0) moyai_value_free(v1);
        if (codec_get_into(p, n, MOYAI_INTO(&v1, &v2), &testing_refs, testing_drop, &arena, NULL) == 0) {
            moyai_value_free(v1);
            moyai_value_free(v2);
        }
        if (codec_get_into(p, n, MOYAI_INTO(&ref), &testing_refs, testing_drop, &arena, NULL) == 0) testing_drop(ref);
        (void)!codec_get_into(p, n, MOYAI_INTO(moyai_into_doubles(&ds, &nd)), &testing_refs, testing_drop, &arena,
                              NULL);
        codec_arena_free(arena);
        free(p);
    }
    assert_int_equal(testing_refs_alive(), 0);
}

int main(void) {
    static uint64_t seed;
    seed = testing_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lent_values_are_read_where_they_lie),
        cmocka_unit_test(sixteen_values_of_all_types),
        cmocka_unit_test(no_values_and_no_destinations),
        cmocka_unit_test(counts_must_agree),
        cmocka_unit_test(a_wrong_type_is_named_and_nothing_stored),
        cmocka_unit_test(a_destination_is_not_null),
        cmocka_unit_test(a_number_is_shown_as_people_write_it),
        cmocka_unit_test(conversions_through_the_wire),
        cmocka_unit_test(bad_arguments_are_named_and_nothing_appended),
        cmocka_unit_test(the_limit_is_exact),
        cmocka_unit_test(a_fixed_buffer_is_outgrown),
        cmocka_unit_test(arrays_are_aligned_in_the_message),
        cmocka_unit_test(only_what_is_large_is_borrowed),
        cmocka_unit_test(arrays_of_the_other_byte_order),
        cmocka_unit_test(a_structured_value_and_an_array_see_the_same),
        cmocka_unit_test(foreign_forms_are_understood),
        cmocka_unit_test(errors_say_which_value),
        cmocka_unit_test(malformed_messages_are_refused),
        cmocka_unit_test(reading_again_gives_the_same),
        cmocka_unit_test(many_values),
        cmocka_unit_test_prestate(any_bytes_are_answered, &seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
