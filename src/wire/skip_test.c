/* SPDX-License-Identifier: Apache-2.0 */
/* codec_skip: lengths of well-formed items, refusal of all else. */
#include "wire/codec.h"
#include "wire/head.h"
#include "wire/testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int length_of(const char *hex, size_t *len) {
    uint8_t b[512];
    return codec_skip(b, testing_hex(hex, b, sizeof b), len);
}

static void well_formed_items_have_their_length(void **state) {
    (void)state;
    static const struct {
        const char *hex;
        size_t len;
    } cases[] = {
        {"00 ff", 1},
        {"1bffffffffffffffff", 9},
        {"40 41", 1},
        {"43 010203 00", 4},
        {"80", 1},
        {"83 01 02 03 04", 4},
        {"9f ff", 2},
        {"9f 01 9f 80 ff ff 00", 6},
        {"a0", 1},
        {"a2 01 02 61 61 a0", 6},
        {"bf 01 02 ff", 4},
        {"bf ff", 2},
        {"5f 41 01 40 ff", 5},
        {"7f 61 61 ff", 4},
        {"c1 00", 2},
        {"d9 d9f7 d9 d9f7 82 c0 61 61 f6", 11},
        {"f0", 1}, /* simple values nobody has given a meaning are well-formed */
        {"f8 ff", 2},
        {"f9 7c00", 3},
        {"fa 00000000", 5},
        {"fb 0000000000000000", 9},
        {"80 ff", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t len = 0;
        assert_int_equal(length_of(cases[i].hex, &len), 0);
        assert_int_equal(len, cases[i].len);
    }
}

static void malformed_items_are_refused(void **state) {
    (void)state;
    static const char *const cases[] = {
        "",
        "18",
        "19 00",
        "1a 000000",
        "1b 00000000000000",
        "1c",
        "1d",
        "1e",
        "1f",
        "3f",
        "df 00",
        "41",
        "61",
        "81",
        "82 00",
        "a1",
        "a1 00",
        "a2 00 00 00",
        "9f",
        "9f 00",
        "bf",
        "bf 00 ff",
        "bf 00 00",
        "5f",
        "5f 41",
        "5f 00 ff",
        "5f 61 00 ff",
        "5f 5f 41 00 ff ff",
        "7f 41 00 ff",
        "7f c0 61 61 ff",
        "ff",
        "81 ff",
        "82 00 ff",
        "a1 00 ff",
        "c0",
        "c0 ff",
        "9f c0 ff",
        "f8 00",
        "f8 1f",
        "fc",
        "fd",
        "fe",
        "fb 00",
        "9b ffffffffffffffff 00",
        "bb ffffffffffffffff 00",
        "5b ffffffffffffffff 00",
        "7b fffffffffffffff7 00",
        "5b fffffffffffffff8 00",
        "5b 7fffffffffffffff 00",
        "bb 8000000000000000 00",
        "9b 8000000000000001 00 00",
        "5f 5b fffffffffffffff8 00 ff",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t len = 77;
        assert_int_equal(length_of(cases[i], &len), MOYAI_EDATA);
        assert_int_equal(len, 77);
    }
}

static void nesting_ends_at_32(void **state) {
    (void)state;
    static const uint8_t openers[] = {0x81, 0x9f};
    for (size_t o = 0; o < sizeof openers; o++) {
        for (size_t depth = 1; depth <= 40; depth++) {
            uint8_t b[128];
            size_t len, n = depth;
            memset(b, openers[o], depth);
            b[n++] = 0;
            if (openers[o] == 0x9f) {
                memset(b + n, 0xff, depth);
                n += depth;
            }
            assert_int_equal(codec_skip(b, n, &len), depth <= 32 ? 0 : MOYAI_EDEPTH);
            if (depth <= 32) assert_int_equal(len, n);
        }
    }
    for (size_t depth = 1; depth <= 40; depth++) { /* maps in the value of a map */
        uint8_t b[128];
        size_t len;
        for (size_t i = 0; i < depth; i++) memcpy(b + 3 * i, "\xa1\x61k", 3);
        b[3 * depth] = 0;
        assert_int_equal(codec_skip(b, 3 * depth + 1, &len), depth <= 32 ? 0 : MOYAI_EDEPTH);
    }
}

/* A reference is a leaf although a list is inside. */
static void a_reference_fits_at_the_last_level(void **state) {
    (void)state;
    uint8_t b[128];
    size_t len;
    memset(b, 0x81, 34);
    struct codec_out o;
    codec_out_init(&o, b + 32, sizeof b - 32, SIZE_MAX, SIZE_MAX);
    moyai_ref *ref = testing_ref(7);
    assert_int_equal(codec_put_args(&o, MOYAI_ARGS(ref), &testing_refs, NULL), 0);
    assert_int_equal(codec_skip(b, 32 + o.n, &len), 0);
    assert_int_equal(len, 32 + o.n);
    memmove(b + 33, b + 32, o.n);
    b[32] = 0x81;
    assert_int_equal(codec_skip(b, 33 + o.n, &len), MOYAI_EDEPTH);
    testing_drop(ref);
}

static void tags_end_at_32(void **state) {
    (void)state;
    uint8_t b[64];
    size_t len;
    memset(b, 0xc1, sizeof b);
    b[32] = 0;
    assert_int_equal(codec_skip(b, 33, &len), 0);
    b[32] = 0xc1;
    b[33] = 0;
    assert_int_equal(codec_skip(b, 34, &len), MOYAI_EDEPTH);
}

/* Random values: the length is found, and no proper prefix has one. */
static void every_truncation_is_refused(void **state) {
    struct moyai_rng rng;
    rng_seed(&rng, *(uint64_t *)*state);
    for (int i = 0; i < 200; i++) {
        moyai_value *v = testing_value(&rng, 4, true);
        if (!v) continue;
        struct codec_out o;
        codec_out_init(&o, NULL, 0, SIZE_MAX, SIZE_MAX);
        assert_int_equal(value_encode(&o, v, NULL), 0);
        size_t len;
        assert_int_equal(codec_skip(o.p, o.n, &len), 0);
        assert_int_equal(len, o.n);
        for (size_t n = 0; n < o.n; n++) {
            uint8_t *cut = malloc(n ? n : 1); /* of its own, so that a sanitizer sees a read behind it */
            memcpy(cut, o.p, n);
            assert_int_equal(codec_skip(cut, n, &len), MOYAI_EDATA);
            free(cut);
            if (n > 300) n += o.n / 50;
        }
        codec_out_done(&o);
        moyai_value_free(v);
    }
    assert_int_equal(testing_refs_alive(), 0);
}

int main(void) {
    static uint64_t seed;
    seed = testing_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_formed_items_have_their_length),
        cmocka_unit_test(malformed_items_are_refused),
        cmocka_unit_test(nesting_ends_at_32),
        cmocka_unit_test(a_reference_fits_at_the_last_level),
        cmocka_unit_test(tags_end_at_32),
        cmocka_unit_test_prestate(every_truncation_is_refused, &seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
