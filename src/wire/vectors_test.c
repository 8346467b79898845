/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RFC 8949, appendix A: the examples that our kinds of value can hold, each decoded from the RFC's bytes and compared
 * with the value built here; where the RFC's encoding is also ours, the bytes we make are compared too. Left out:
 * bignums as numbers (their tag is skipped: bytes), simple values without a meaning, maps with integer keys (refused).
 */
#include "wire/testing.h"
#include "wire/value.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define V(x)      moyai_value_new(MOYAI_ARG(x))
#define COUNT(a)  (sizeof(a) / sizeof((a)[0]))
#define LIST(...) moyai_value_list((moyai_value *const[]){__VA_ARGS__}, COUNT(((moyai_value *const[]){__VA_ARGS__})))

enum { ONE_WAY, BOTH_WAYS };

static void check(const char *hex, moyai_value *want, int ways) {
    uint8_t b[256];
    size_t n = testing_hex(hex, b, sizeof b), used;
    moyai_value *got;
    assert_non_null(want);
    assert_int_equal(value_decode(b, n, NULL, &got, &used, NULL), 0);
    assert_int_equal(used, n);
    assert_true(moyai_value_equal(got, want));
    assert_int_equal(codec_skip(b, n, &used), 0);
    assert_int_equal(used, n);
    struct codec_out o;
    codec_out_init(&o, NULL, 0, SIZE_MAX, SIZE_MAX);
    assert_int_equal(value_encode(&o, got, NULL), 0);
    if (ways == BOTH_WAYS) {
        assert_int_equal(o.n, n);
        assert_memory_equal(o.p, b, n);
    }
    codec_out_done(&o);
    moyai_value_free(got);
    moyai_value_free(want);
}

static void integers(void **state) {
    (void)state;
    check("00", V(0), BOTH_WAYS);
    check("01", V(1), BOTH_WAYS);
    check("0a", V(10), BOTH_WAYS);
    check("17", V(23), BOTH_WAYS);
    check("1818", V(24), BOTH_WAYS);
    check("1819", V(25), BOTH_WAYS);
    check("1864", V(100), BOTH_WAYS);
    check("1903e8", V(1000), BOTH_WAYS);
    check("1a000f4240", V(1000000), BOTH_WAYS);
    check("1b000000e8d4a51000", V(1000000000000), BOTH_WAYS);
    check("1bffffffffffffffff", V(UINT64_MAX), BOTH_WAYS);
    check("20", V(-1), BOTH_WAYS);
    check("29", V(-10), BOTH_WAYS);
    check("3863", V(-100), BOTH_WAYS);
    check("3903e7", V(-1000), BOTH_WAYS);
    check("c249010000000000000000", moyai_value_new(moyai_bytes("\1\0\0\0\0\0\0\0\0", 9)), ONE_WAY); /* a bignum */
}

static void floats(void **state) {
    (void)state;
    check("f90000", V(0.0), ONE_WAY);
    check("f98000", V(-0.0), ONE_WAY);
    check("f93c00", V(1.0), ONE_WAY);
    check("fb3ff199999999999a", V(1.1), BOTH_WAYS);
    check("f93e00", V(1.5), ONE_WAY);
    check("f97bff", V(65504.0), ONE_WAY);
    check("fa47c35000", V(100000.0), ONE_WAY);
    check("fa7f7fffff", V(3.4028234663852886e+38), ONE_WAY);
    check("fb7e37e43c8800759c", V(1.0e+300), BOTH_WAYS);
    check("f90001", V(5.960464477539063e-8), ONE_WAY);
    check("f90400", V(0.00006103515625), ONE_WAY);
    check("f9c400", V(-4.0), ONE_WAY);
    check("fbc010666666666666", V(-4.1), BOTH_WAYS);
    check("f97c00", V(INFINITY), ONE_WAY);
    check("f97e00", V(NAN), ONE_WAY);
    check("f9fc00", V(-INFINITY), ONE_WAY);
    check("fa7f800000", V(INFINITY), ONE_WAY);
    check("fa7fc00000", V(NAN), ONE_WAY);
    check("faff800000", V(-INFINITY), ONE_WAY);
    check("fb7ff0000000000000", V(INFINITY), BOTH_WAYS);
    check("fb7ff8000000000000", V(NAN), BOTH_WAYS);
    check("fbfff0000000000000", V(-INFINITY), BOTH_WAYS);
}

static void simple_values_and_tags(void **state) {
    (void)state;
    check("f4", V((bool)false), BOTH_WAYS);
    check("f5", V((bool)true), BOTH_WAYS);
    check("f6", moyai_value_new(moyai_null()), BOTH_WAYS);
    check("f7", moyai_value_new(moyai_null()), ONE_WAY); /* undefined */
    check("c074323031332d30332d32315432303a30343a30305a", V("2013-03-21T20:04:00Z"), ONE_WAY);
    check("c11a514b67b0", V(1363896240), ONE_WAY);
    check("c1fb41d452d9ec200000", V(1363896240.5), ONE_WAY);
    check("d74401020304", moyai_value_new(moyai_bytes("\1\2\3\4", 4)), ONE_WAY);
    check("d818456449455446", moyai_value_new(moyai_bytes("dIETF", 5)), ONE_WAY);
    check("d82076687474703a2f2f7777772e6578616d706c652e636f6d", V("http://www.example.com"), ONE_WAY);
    moyai_value *v;
    assert_int_equal(value_decode((const uint8_t *)"\xf0", 1, NULL, &v, NULL, NULL), MOYAI_ETYPE);
    assert_int_equal(value_decode((const uint8_t *)"\xf8\xff", 2, NULL, &v, NULL, NULL), MOYAI_ETYPE);
    assert_int_equal(value_decode((const uint8_t *)"\xa2\x01\x02\x03\x04", 5, NULL, &v, NULL, NULL), MOYAI_ETYPE);
}

static void strings(void **state) {
    (void)state;
    check("40", moyai_value_new(moyai_bytes("", 0)), BOTH_WAYS);
    check("4401020304", moyai_value_new(moyai_bytes("\1\2\3\4", 4)), BOTH_WAYS);
    check("60", V(""), BOTH_WAYS);
    check("6161", V("a"), BOTH_WAYS);
    check("6449455446", V("IETF"), BOTH_WAYS);
    check("62225c", V("\"\\"), BOTH_WAYS);
    check("62c3bc", V("ü"), BOTH_WAYS);
    check("63e6b0b4", V("水"), BOTH_WAYS);
    check("64f0908591", V("\U00010151"), BOTH_WAYS);
    check("5f42010243030405ff", moyai_value_new(moyai_bytes("\1\2\3\4\5", 5)), ONE_WAY);
    check("7f657374726561646d696e67ff", V("streaming"), ONE_WAY);
}

static moyai_value *pair(const char *k1, moyai_value *v1, const char *k2, moyai_value *v2) {
    return moyai_value_map((const char *const[]){k1, k2}, (moyai_value *const[]){v1, v2}, k2 ? 2 : 1);
}
static moyai_value *nest(void) {
    return LIST(V(1), LIST(V(2), V(3)), LIST(V(4), V(5)));
}
static moyai_value *count_to_25(void) {
    moyai_value *v[25];
    for (int i = 0; i < 25; i++) v[i] = V(i + 1);
    return moyai_value_list(v, 25);
}

static void lists_and_maps(void **state) {
    (void)state;
    check("80", moyai_value_list(NULL, 0), BOTH_WAYS);
    check("83010203", LIST(V(1), V(2), V(3)), BOTH_WAYS);
    check("8301820203820405", nest(), BOTH_WAYS);
    check("98190102030405060708090a0b0c0d0e0f101112131415161718181819", count_to_25(), BOTH_WAYS);
    check("a0", moyai_value_map(NULL, NULL, 0), BOTH_WAYS);
    check("a26161016162820203", pair("a", V(1), "b", LIST(V(2), V(3))), BOTH_WAYS);
    check("826161a161626163", LIST(V("a"), pair("b", V("c"), NULL, NULL)), BOTH_WAYS);
    check("a56161614161626142616361436164614461656145",
          moyai_value_map((const char *const[]){"a", "b", "c", "d", "e"},
                          (moyai_value *const[]){V("A"), V("B"), V("C"), V("D"), V("E")}, 5),
          BOTH_WAYS);
    check("9fff", moyai_value_list(NULL, 0), ONE_WAY);
    check("9f018202039f0405ffff", nest(), ONE_WAY);
    check("9f01820203820405ff", nest(), ONE_WAY);
    check("83018202039f0405ff", nest(), ONE_WAY);
    check("83019f0203ff820405", nest(), ONE_WAY);
    check("9f0102030405060708090a0b0c0d0e0f101112131415161718181819ff", count_to_25(), ONE_WAY);
    check("bf61610161629f0203ffff", pair("a", V(1), "b", LIST(V(2), V(3))), ONE_WAY);
    check("826161bf61626163ff", LIST(V("a"), pair("b", V("c"), NULL, NULL)), ONE_WAY);
    check("bf6346756ef563416d7421ff", pair("Fun", V((bool)true), "Amt", V(-2)), ONE_WAY);
}

/* RFC 8746: the same numbers from a machine of either byte order. */
static void typed_arrays(void **state) {
    (void)state;
    const double d[] = {1.0, -2.5};
    const float f[] = {1.0f, -2.5f};
    const uint16_t u16[] = {1, 0x0203};
    const int32_t i32[] = {-2, 0x01020304};
    const uint64_t u64[] = {0x0102030405060708};
    const int16_t i16[] = {-300};
    const int64_t i64[] = {-2};
    const uint32_t u32[] = {0xdeadbeef};
    check("d852503ff0000000000000c004000000000000", moyai_value_new(moyai_doubles(d, 2)), ONE_WAY);
    check("d85650000000000000f03f00000000000004c0", moyai_value_new(moyai_doubles(d, 2)), ONE_WAY);
    check("d851483f800000c0200000", moyai_value_new(moyai_floats(f, 2)), ONE_WAY);
    check("d855480000803f000020c0", moyai_value_new(moyai_floats(f, 2)), ONE_WAY);
    check("d8414400010203", moyai_value_new(moyai_u16s(u16, 2)), ONE_WAY);
    check("d8454401000302", moyai_value_new(moyai_u16s(u16, 2)), ONE_WAY);
    check("d84a48fffffffe01020304", moyai_value_new(moyai_i32s(i32, 2)), ONE_WAY);
    check("d84e48feffffff04030201", moyai_value_new(moyai_i32s(i32, 2)), ONE_WAY);
    check("d843480102030405060708", moyai_value_new(moyai_u64s(u64, 1)), ONE_WAY);
    check("d847480807060504030201", moyai_value_new(moyai_u64s(u64, 1)), ONE_WAY);
    check("d84942fed4", moyai_value_new(moyai_i16s(i16, 1)), ONE_WAY);
    check("d84d42d4fe", moyai_value_new(moyai_i16s(i16, 1)), ONE_WAY);
    check("d84b48fffffffffffffffe", moyai_value_new(moyai_i64s(i64, 1)), ONE_WAY);
    check("d84f48feffffffffffffff", moyai_value_new(moyai_i64s(i64, 1)), ONE_WAY);
    check("d84244deadbeef", moyai_value_new(moyai_u32s(u32, 1)), ONE_WAY);
    check("d84644efbeadde", moyai_value_new(moyai_u32s(u32, 1)), ONE_WAY);
    check("d84043010203", moyai_value_new(moyai_u8s((const uint8_t *)"\1\2\3", 3)), BOTH_WAYS);
    check("d84443010203", moyai_value_new(moyai_u8s((const uint8_t *)"\1\2\3", 3)), ONE_WAY);
    check("d8484301feff", moyai_value_new(moyai_i8s((const int8_t *)"\1\xfe\xff", 3)), BOTH_WAYS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers), cmocka_unit_test(floats),         cmocka_unit_test(simple_values_and_tags),
        cmocka_unit_test(strings),  cmocka_unit_test(lists_and_maps), cmocka_unit_test(typed_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
