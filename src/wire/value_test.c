/* SPDX-License-Identifier: Apache-2.0 */
/* Structured values: construction, access, comparison, encoding. RFC 8949's examples: vectors_test.c. */
#include "wire/testing.h"
#include "wire/value.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define V(x)      moyai_value_new(MOYAI_ARG(x))
#define COUNT(a)  (sizeof(a) / sizeof((a)[0]))
#define LIST(...) moyai_value_list((moyai_value *const[]){__VA_ARGS__}, COUNT(((moyai_value *const[]){__VA_ARGS__})))

static struct codec_out encoded(const moyai_value *v) {
    struct codec_out o;
    codec_out_init(&o, NULL, 0, 1, SIZE_MAX); /* borrow all: values must not be */
    assert_int_equal(value_encode(&o, v, NULL), 0);
    assert_int_equal(o.n_pieces, 0);
    return o;
}

static int decode_hex(const char *hex, moyai_value **v, struct moyai_error *e) {
    uint8_t b[512];
    size_t used, n = testing_hex(hex, b, sizeof b);
    uint8_t *p = malloc(n ? n : 1);
    memcpy(p, b, n);
    int rc = value_decode(p, n, &testing_refs, v, &used, e);
    if (rc == 0) assert_int_equal(used, n);
    free(p);
    return rc;
}

/* As of a read() that failed. */
static void no_such_length(void **state) {
    (void)state;
    const int32_t one[] = {1};
    assert_null(moyai_value_new(moyai_bytes("ab", (size_t)-1)));
    assert_null(moyai_value_new(moyai_bytes("ab", SIZE_MAX / 2 + 1)));
    assert_null(moyai_value_new(moyai_text("ab", (size_t)-2)));
    assert_null(moyai_value_new(moyai_i32s(one, (size_t)-1)));
    moyai_value *v = V(5);
    assert_int_equal(moyai_value_get(v, MOYAI_DEST((int *)NULL)), MOYAI_EINVAL);
    moyai_value_free(v);
}

static void kinds_and_access(void **state) {
    (void)state;
    static const char *const keys[] = {"zebra", "", "ant", "é"};
    moyai_value *const items[] = {V(1), V("two"), LIST(V(3.5), V((bool)true)), moyai_value_new(moyai_null())};
    moyai_value *m = moyai_value_map(keys, items, 4);
    assert_non_null(m);
    assert_int_equal(moyai_value_kind(m), MOYAI_K_MAP);
    assert_int_equal(moyai_value_count(m), 4);
    for (size_t i = 0; i < 4; i++) { /* in the order they were given */
        assert_string_equal(moyai_value_key(m, i), keys[i]);
        assert_ptr_equal(moyai_value_at(m, i), items[i]);
        assert_ptr_equal(moyai_value_find(m, keys[i]), items[i]);
    }
    assert_null(moyai_value_find(m, "bee"));
    assert_null(moyai_value_at(m, 4));
    assert_null(moyai_value_key(m, 4));
    const moyai_value *list = moyai_value_find(m, "ant");
    assert_int_equal(moyai_value_kind(list), MOYAI_K_LIST);
    assert_int_equal(moyai_value_count(list), 2);
    assert_null(moyai_value_key(list, 0));
    assert_null(moyai_value_find(list, ""));
    assert_int_equal(moyai_value_count(moyai_value_at(list, 0)), 0);
    assert_null(moyai_value_at(moyai_value_at(list, 0), 0));
    const char *text;
    double d;
    bool b;
    int i;
    assert_int_equal(moyai_value_get(moyai_value_find(m, ""), MOYAI_DEST(&text)), 0);
    assert_string_equal(text, "two");
    assert_int_equal(moyai_value_get(moyai_value_at(list, 0), MOYAI_DEST(&d)), 0);
    assert_int_equal(moyai_value_get(moyai_value_at(list, 1), MOYAI_DEST(&b)), 0);
    assert_true(d == 3.5 && b);
    assert_int_equal(moyai_value_get(moyai_value_at(list, 0), MOYAI_DEST(&i)), MOYAI_ERANGE);
    assert_int_equal(moyai_value_get(list, MOYAI_DEST(&i)), MOYAI_ETYPE);
    assert_int_equal(moyai_value_get(list, MOYAI_DEST(&text)), MOYAI_ETYPE);
    assert_int_equal(moyai_value_get(list, moyai_skip()), 0);
    const struct moyai_into_arg null = {.tag = MOYAI_T_NULL};
    assert_int_equal(moyai_value_get(moyai_value_find(m, "é"), null), 0);
    assert_int_equal(moyai_value_get(list, null), MOYAI_ETYPE);
    moyai_value *shared;
    assert_int_equal(moyai_value_get(list, MOYAI_DEST(&shared)), 0);
    assert_ptr_equal(shared, list);
    moyai_value_free(m);
    assert_int_equal(moyai_value_get(moyai_value_at(shared, 0), MOYAI_DEST(&d)), 0); /* outlives the map */
    moyai_value_free(shared);
    moyai_value_free(NULL);
    assert_null(moyai_value_ref(NULL));
}

static void integers_have_one_kind_each(void **state) {
    (void)state;
    moyai_value *a = V((uint64_t)INT64_MAX), *b = V((int64_t)INT64_MAX), *c = V((uint64_t)INT64_MAX + 1), *d = V(-1);
    assert_int_equal(moyai_value_kind(a), MOYAI_K_INT);
    assert_int_equal(moyai_value_kind(c), MOYAI_K_UINT);
    assert_true(moyai_value_equal(a, b));
    assert_false(moyai_value_equal(b, c));
    uint64_t u = 5;
    int64_t i = 5;
    assert_int_equal(moyai_value_get(c, MOYAI_DEST(&i)), MOYAI_ERANGE);
    assert_int_equal(moyai_value_get(c, MOYAI_DEST(&u)), 0);
    assert_true(u == (uint64_t)1 << 63 && i == 5);
    assert_int_equal(moyai_value_get(d, MOYAI_DEST(&u)), MOYAI_ERANGE);
    assert_int_equal(moyai_value_get(d, MOYAI_DEST(&i)), 0);
    assert_int_equal(i, -1);
    moyai_value *x = V(1), *y = V(1.0);
    assert_false(moyai_value_equal(x, y));
    moyai_value *all[] = {a, b, c, d, x, y};
    for (size_t k = 0; k < COUNT(all); k++) moyai_value_free(all[k]);
}

static void bytes_and_arrays_go_to_what_holds_them(void **state) {
    (void)state;
    const double d[] = {1.5, 2.5, 3.5};
    moyai_value *bytes = moyai_value_new(moyai_bytes("ab", 2)),
                *u8 = moyai_value_new(moyai_u8s((const uint8_t *)"cde", 3));
    moyai_value *i8 = moyai_value_new(moyai_i8s((const int8_t *)"f", 1)), *ds = moyai_value_new(moyai_doubles(d, 3));
    const void *p;
    const uint8_t *q;
    const int8_t *r;
    const double *x;
    const float *f;
    size_t n;
    assert_int_equal(moyai_value_get(bytes, moyai_into_bytes(&p, &n)), 0);
    assert_true(n == 2 && memcmp(p, "ab", 2) == 0);
    assert_int_equal(moyai_value_get(bytes, moyai_into_u8s(&q, &n)), 0);
    assert_true(n == 2 && q[1] == 'b');
    assert_int_equal(moyai_value_get(u8, moyai_into_bytes(&p, &n)), 0);
    assert_true(n == 3 && memcmp(p, "cde", 3) == 0);
    assert_int_equal(moyai_value_get(u8, moyai_into_u8s(&q, &n)), 0);
    assert_int_equal(moyai_value_get(i8, moyai_into_i8s(&r, &n)), 0);
    assert_true(n == 1 && r[0] == 'f');
    assert_int_equal(moyai_value_get(ds, moyai_into_doubles(&x, &n)), 0);
    assert_true(n == 3 && x[0] == d[0] && x[1] == d[1] && x[2] == d[2] && (uintptr_t)x % 16 == 0);
    n = 99;
    assert_int_equal(moyai_value_get(i8, moyai_into_bytes(&p, &n)), MOYAI_ETYPE);
    assert_int_equal(moyai_value_get(i8, moyai_into_u8s(&q, &n)), MOYAI_ETYPE);
    assert_int_equal(moyai_value_get(u8, moyai_into_i8s(&r, &n)), MOYAI_ETYPE);
    assert_int_equal(moyai_value_get(bytes, moyai_into_i8s(&r, &n)), MOYAI_ETYPE);
    assert_int_equal(moyai_value_get(ds, moyai_into_floats(&f, &n)), MOYAI_ETYPE);
    assert_int_equal(moyai_value_get(ds, moyai_into_bytes(&p, &n)), MOYAI_ETYPE);
    assert_int_equal(n, 99);
    moyai_value *all[] = {bytes, u8, i8, ds};
    for (size_t k = 0; k < COUNT(all); k++) moyai_value_free(all[k]);
    assert_int_equal(decode_hex("3b 7fffffffffffffff", &bytes, NULL), 0); /* the least integer */
    int64_t i;
    assert_int_equal(moyai_value_get(bytes, MOYAI_DEST(&i)), 0);
    assert_true(i == INT64_MIN);
    moyai_value_free(bytes);
}

static void wrong_construction_gives_null_and_loses_nothing(void **state) {
    (void)state;
    assert_null(moyai_value_new(MOYAI_ARG("\xc0\x80")));
    assert_null(moyai_value_new(MOYAI_ARG((char *)NULL)));
    assert_null(moyai_value_new(MOYAI_ARG((moyai_ref *)NULL)));
    assert_null(moyai_value_new(MOYAI_ARG((moyai_value *)NULL)));
    assert_null(moyai_value_new(moyai_bytes(NULL, 1)));
    assert_null(moyai_value_new(moyai_floats(NULL, 1)));
    assert_null(moyai_value_new((struct moyai_arg){.tag = 99}));
    assert_null(moyai_value_new((struct moyai_arg){.tag = MOYAI_T_INT8}));
    assert_null(moyai_value_new((struct moyai_arg){.tag = MOYAI_T_ARRAY, .elem = 10}));
    /* parts are taken over in every case: the leak checker looks */
    assert_null(LIST(V(1), V("\xff"), V("three")));
    assert_null(moyai_value_list(NULL, 3));
    assert_null(moyai_value_map((const char *const[]){"a", "b", "a"}, (moyai_value *const[]){V(1), V("two"), V(3)}, 3));
    assert_null(
        moyai_value_map((const char *const[]){"a", "\xff", "c"}, (moyai_value *const[]){V(1), V("two"), V(3)}, 3));
    assert_null(moyai_value_map((const char *const[]){"a", NULL}, (moyai_value *const[]){V(1), V(2)}, 2));
    assert_null(moyai_value_map((const char *const[]){"a", "b"}, (moyai_value *const[]){V(1), NULL}, 2));
    assert_null(moyai_value_map(NULL, (moyai_value *const[]){V("x")}, 1));
    moyai_value *l = moyai_value_list(NULL, 0), *m = moyai_value_map(NULL, NULL, 0),
                *b = moyai_value_new(moyai_bytes(NULL, 0));
    assert_true(l && m && b && moyai_value_count(l) == 0 && moyai_value_count(m) == 0);
    moyai_value_free(l);
    moyai_value_free(m);
    moyai_value_free(b);
}

static moyai_value *nested(size_t depth) {
    moyai_value *v = V("core");
    for (size_t i = 0; i < depth; i++) {
        v = i % 2 ? LIST(v) : moyai_value_map((const char *const[]){"k"}, (moyai_value *const[]){v}, 1);
    }
    return v;
}

static void values_nest_32_deep(void **state) {
    (void)state;
    for (size_t depth = 30; depth <= 32; depth++) {
        moyai_value *v = nested(depth), *back;
        assert_non_null(v);
        struct codec_out o = encoded(v);
        size_t used;
        assert_int_equal(codec_skip(o.p, o.n, &used), 0);
        assert_int_equal(used, o.n);
        assert_int_equal(value_decode(o.p, o.n, NULL, &back, NULL, NULL), 0);
        assert_true(moyai_value_equal(v, back));
        moyai_value *deeper = LIST(back); /* what was decoded knows its depth */
        assert_int_equal(deeper != NULL, depth < 32);
        moyai_value_free(deeper);
        moyai_value_free(v);
        codec_out_done(&o);
    }
    assert_null(nested(33));
    static const char *const openers[] = {"\x81", "\x9f", "\xa1\x61k", "\xbf\x61k", "\xd9\xd9\xf7\x81"};
    for (size_t i = 0; i < COUNT(openers); i++) {
        for (size_t depth = 31; depth <= 33; depth++) {
            uint8_t b[256];
            size_t n = 0;
            for (size_t k = 0; k < depth; k++) {
                memcpy(b + n, openers[i], strlen(openers[i]));
                n += strlen(openers[i]);
            }
            b[n++] = 0;
            if (i == 1 || i == 3) {
                memset(b + n, 0xff, depth);
                n += depth;
            }
            moyai_value *v;
            assert_int_equal(value_decode(b, n, NULL, &v, NULL, NULL), depth <= 32 ? 0 : MOYAI_EDEPTH);
            if (depth <= 32) moyai_value_free(v);
        }
    }
    /* a reference at the bottom */
    moyai_ref *ref = testing_ref(1);
    moyai_value *v = V(ref), *back;
    testing_drop(ref);
    for (int i = 0; i < 32; i++) v = LIST(v);
    struct codec_out o = encoded(v);
    size_t used;
    assert_int_equal(codec_skip(o.p, o.n, &used), 0);
    assert_int_equal(value_decode(o.p, o.n, &testing_refs, &back, NULL, NULL), 0);
    assert_true(moyai_value_equal(v, back));
    moyai_value_free(v);
    moyai_value_free(back);
    codec_out_done(&o);
    assert_int_equal(testing_refs_alive(), 0);
}

static void maps_compare_without_order(void **state) {
    (void)state;
    moyai_value *a = moyai_value_map((const char *const[]){"x", "y"}, (moyai_value *const[]){V(1), V(2)}, 2);
    moyai_value *b = moyai_value_map((const char *const[]){"y", "x"}, (moyai_value *const[]){V(2), V(1)}, 2);
    moyai_value *c = moyai_value_map((const char *const[]){"y", "x"}, (moyai_value *const[]){V(1), V(2)}, 2);
    moyai_value *d = moyai_value_map((const char *const[]){"x", "z"}, (moyai_value *const[]){V(1), V(2)}, 2);
    moyai_value *e = LIST(V(1), V(2)), *f = LIST(V(2), V(1)), *nan = V(NAN), *nan2 = V(-NAN), *t = V("a"), *u = V("b");
    assert_true(moyai_value_equal(a, b));
    assert_false(moyai_value_equal(a, c));
    assert_false(moyai_value_equal(a, d));
    assert_false(moyai_value_equal(a, e));
    assert_false(moyai_value_equal(e, f));
    assert_true(moyai_value_equal(nan, nan2));
    moyai_value *one = V(1.0);
    assert_false(moyai_value_equal(nan, one));
    assert_false(moyai_value_equal(one, nan));
    moyai_value_free(one);
    assert_false(moyai_value_equal(t, u));
    assert_false(moyai_value_equal(t, NULL));
    assert_true(moyai_value_equal(NULL, NULL));
    moyai_value *all[] = {a, b, c, d, e, f, nan, nan2, t, u};
    for (size_t k = 0; k < COUNT(all); k++) moyai_value_free(all[k]);
}

static void references_are_shared_and_compared(void **state) {
    (void)state;
    moyai_ref *r = testing_ref(5), *s = testing_ref(5), *q = testing_ref(6), *got;
    moyai_value *a = V(r), *b = V(s), *c = V(q);
    testing_drop(r);
    testing_drop(s);
    testing_drop(q);
    assert_int_equal(testing_refs_alive(), 3);
    assert_true(moyai_value_equal(a, b));
    assert_false(moyai_value_equal(a, c));
    assert_int_equal(moyai_value_get(a, MOYAI_DEST(&got)), 0);
    assert_ptr_equal(got, r);
    moyai_value_free(a);
    assert_int_equal(testing_refs_alive(), 3);
    testing_drop(got);
    moyai_value_free(b);
    moyai_value_free(c);
    assert_int_equal(testing_refs_alive(), 0);
    moyai_value *v;
    struct moyai_error e;
    const char *hex =
        "81 d81b 82 69 6d6f7961692d726566 5820 0101010101010101010101010101010101010101010101010101010101010101";
    uint8_t p[64];
    size_t n = testing_hex(hex, p, sizeof p);
    assert_int_equal(value_decode(p, n, NULL, &v, NULL, &e), MOYAI_ETYPE);
    assert_non_null(strstr(e.text, "reference"));
    assert_int_equal(value_decode(p, n, &testing_refs, &v, NULL, &e), 0);
    assert_int_equal(moyai_value_kind(moyai_value_at(v, 0)), MOYAI_K_REF);
    moyai_value_free(v);
    /* an object of another kind is the list it is made of */
    assert_int_equal(decode_hex("d81b 82 65 6f74686572 01", &v, &e), 0);
    assert_int_equal(moyai_value_kind(v), MOYAI_K_LIST);
    moyai_value_free(v);
    assert_int_equal(testing_refs_alive(), 0);
}

/* One head or byte is not that of a reference: then it is an ordinary list, as of any other tag 27. */
static void nearly_a_reference_is_a_list(void **state) {
    (void)state;
    static const char *const cases[] = {
        "d81b 83 69 6d6f7961692d726566 5820 @ 00",    "d81b 9f 69 6d6f7961692d726566 5820 @ ff",
        "d81b 82 49 6d6f7961692d726566 5820 @",       "d81b 82 68 6d6f7961692d7265 5820 @",
        "d81b 82 69 6d6f7961692d726567 5820 @",       "d81b 82 7f 69 6d6f7961692d726566 ff 5820 @",
        "d81b 82 69 6d6f7961692d726566 7820 @",       "d81b 82 69 6d6f7961692d726566 5821 @ 00",
        "d81b 82 69 6d6f7961692d726566 5f 5820 @ ff", "d81a 82 69 6d6f7961692d726566 5820 @",
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char hex[256] = "";
        const char *at = strchr(cases[i], '@');
        strncat(hex, cases[i], (size_t)(at - cases[i]));
        for (int k = 0; k < 32; k++) strcat(hex, "41");
        strcat(hex, at + 1);
        moyai_value *v;
        assert_int_equal(decode_hex(hex, &v, NULL), 0);
        assert_int_equal(moyai_value_kind(v), MOYAI_K_LIST);
        moyai_value_free(v);
        assert_int_equal(testing_refs_alive(), 0);
    }
}

static void what_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *hex;
        int code;
        const char *why;
    } cases[] = {
        {"", MOYAI_EDATA, "the end of the data"},
        {"a2 61 61 01 61 61 02", MOYAI_EDATA, "a map with a key twice"},
        {"bf 61 61 01 61 62 00 61 61 02 ff", MOYAI_EDATA, "a map with a key twice"},
        {"a1 01 02", MOYAI_ETYPE, "a map with a key that is not text"},
        {"a1 41 61 02", MOYAI_ETYPE, "a map with a key that is not text"},
        {"a1 62 6100 02", MOYAI_EDATA, "a map with a NUL in a key"},
        {"3b 8000000000000000", MOYAI_ERANGE, "an integer below -2^63"},
        {"3b ffffffffffffffff", MOYAI_ERANGE, "an integer below -2^63"},
        {"f0", MOYAI_ETYPE, "a simple value of unknown meaning"},
        {"ff", MOYAI_EDATA, "a break where a value is due"},
        {"82 01 ff", MOYAI_EDATA, "a break where a value is due"},
        {"bf 61 61 ff", MOYAI_EDATA, "a break where a value is due"},
        {"a1 ff 00", MOYAI_EDATA, "a break where a value is due"},
        {"a1 ff", MOYAI_EDATA, "a list or map that is cut off"},
        {"9f 01", MOYAI_EDATA, "the end of the data"},
        {"5f 61 61 ff", MOYAI_EDATA, "a chunk of another kind in a string"},
        {"7f 41 61 ff", MOYAI_EDATA, "a chunk of another kind in a string"},
        {"5f 5f 41 61 ff ff", MOYAI_EDATA, "a chunk of another kind in a string"},
        {"5f 01 ff", MOYAI_EDATA, "a chunk of another kind in a string"},
        {"5f 41 61", MOYAI_EDATA, "a string that is cut off"},
        {"5f 1c ff", MOYAI_EDATA, "a malformed head in a string"},
        {"82 01", MOYAI_EDATA, "a list or map that is cut off"},
        {"82 82 00 00", MOYAI_EDATA, "a list or map that is cut off"}, /* each claim fits, both together do not */
        {"81 5a 00000001", MOYAI_EDATA, "a string that is cut off"},
        {"82 43 010203", MOYAI_EDATA, "a list or map that is cut off"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        moyai_value *v = NULL;
        struct moyai_error e;
        assert_int_equal(decode_hex(cases[i].hex, &v, &e), cases[i].code);
        assert_string_equal(e.text, cases[i].why);
        assert_null(v);
    }
}

/* Ten bytes promise a great deal. What it would cost to believe them: alloc_test.c. */
static void claims_are_not_believed(void **state) {
    (void)state;
    static const uint8_t heads[] = {0x9b, 0xbb, 0x5b, 0x7b};
    static const uint64_t counts[] = {1,
                                      100,
                                      0xffffff,
                                      0x1000000,
                                      0x1000001,
                                      0x7fffffff,
                                      0xffffffff,
                                      0x100000000,
                                      (uint64_t)1 << 60,
                                      INT64_MAX,
                                      UINT64_MAX / 2 + 1,
                                      UINT64_MAX - 15,
                                      UINT64_MAX - 8,
                                      UINT64_MAX - 1,
                                      UINT64_MAX};
    for (size_t h = 0; h < sizeof heads; h++) {
        for (size_t c = 0; c < COUNT(counts); c++) {
            uint8_t p[10];
            p[0] = heads[h];
            for (int i = 0; i < 8; i++) p[1 + i] = (uint8_t)(counts[c] >> (56 - 8 * i));
            p[9] = 0x60;
            moyai_value *v;
            size_t len;
            bool fits = counts[c] == 1 && heads[h] != 0xbb;
            assert_int_equal(value_decode(p, 10, NULL, &v, NULL, NULL), fits ? 0 : MOYAI_EDATA);
            assert_int_equal(codec_skip(p, 10, &len), fits ? 0 : MOYAI_EDATA);
            if (fits) moyai_value_free(v);
        }
    }
}

/* One part more than allowed: in one list, and in lists of lists. */
static void parts_are_limited(void **state) {
    (void)state;
    size_t n = 5 + 2 * (size_t)VALUE_PARTS;
    uint8_t *p = calloc(n, 1); /* zeros: small integers */
    moyai_value *v;
    p[0] = 0x9a;
    p[1] = 0x01;
    p[4] = 0x01; /* 2^24 + 1 */
    assert_int_equal(value_decode(p, n, NULL, &v, NULL, NULL), MOYAI_ETOOBIG);
    free(p);
}

static void decoding_undoes_encoding(void **state) {
    struct moyai_rng rng;
    rng_seed(&rng, *(uint64_t *)*state);
    int good = 0;
    for (int i = 0; i < 3000; i++) {
        moyai_value *v = testing_value(&rng, 4, true), *back;
        if (!v) continue;
        good++;
        size_t used;
        struct codec_out a = encoded(v);
        uint8_t *p = malloc(a.n);
        memcpy(p, a.p, a.n);
        assert_int_equal(value_decode(p, a.n, &testing_refs, &back, &used, NULL), 0);
        assert_int_equal(used, a.n);
        assert_true(moyai_value_equal(v, back));
        struct codec_out b = encoded(back);
        assert_int_equal(a.n, b.n);
        assert_memory_equal(a.p, b.p, a.n);
        for (int k = 0; k < 5; k++) { /* and no prefix is a value */
            moyai_value *none;
            size_t n = (size_t)rng_below(&rng, a.n);
            uint8_t *cut = malloc(n ? n : 1);
            memcpy(cut, a.p, n);
            assert_int_equal(value_decode(cut, n, &testing_refs, &none, NULL, NULL), MOYAI_EDATA);
            free(cut);
        }
        free(p);
        codec_out_done(&a);
        codec_out_done(&b);
        moyai_value_free(v);
        moyai_value_free(back);
    }
    assert_true(good > 1000);
    assert_int_equal(testing_refs_alive(), 0);
}

static void encoding_keeps_the_limit(void **state) {
    (void)state;
    moyai_value *v = LIST(V("abc"), V(1000), V(1.5));
    for (size_t limit = 0; limit < 18; limit++) {
        struct codec_out o;
        codec_out_init(&o, NULL, 0, SIZE_MAX, limit);
        int rc = value_encode(&o, v, NULL);
        assert_int_equal(rc, limit < 17 ? MOYAI_ETOOBIG : 0);
        assert_int_equal(o.n, rc ? 0 : 17);
        codec_out_done(&o);
    }
    struct codec_out o;
    codec_out_init(&o, NULL, 0, SIZE_MAX, 100);
    assert_int_equal(value_encode(&o, NULL, NULL), MOYAI_EARGS);
    codec_out_done(&o);
    moyai_value_free(v);
}

static void *share_and_free(void *v) {
    for (int i = 0; i < 20000; i++) moyai_value_free(moyai_value_ref(v));
    moyai_value_free(v);
    return NULL;
}

static void owners_on_several_threads(void **state) {
    (void)state;
    moyai_value *v = LIST(V("shared"), V(2));
    pthread_t t[2];
    for (int i = 0; i < 2; i++) {
        moyai_value_ref(v);
        assert_int_equal(pthread_create(&t[i], NULL, share_and_free, v), 0);
    }
    share_and_free(v);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
}

int main(void) {
    static uint64_t seed;
    seed = testing_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_such_length),
        cmocka_unit_test(kinds_and_access),
        cmocka_unit_test(integers_have_one_kind_each),
        cmocka_unit_test(bytes_and_arrays_go_to_what_holds_them),
        cmocka_unit_test(wrong_construction_gives_null_and_loses_nothing),
        cmocka_unit_test(values_nest_32_deep),
        cmocka_unit_test(maps_compare_without_order),
        cmocka_unit_test(references_are_shared_and_compared),
        cmocka_unit_test(nearly_a_reference_is_a_list),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(claims_are_not_believed),
        cmocka_unit_test(parts_are_limited),
        cmocka_unit_test_prestate(decoding_undoes_encoding, &seed),
        cmocka_unit_test(encoding_keeps_the_limit),
        cmocka_unit_test(owners_on_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
