/* SPDX-License-Identifier: Apache-2.0 */
/* Ids and random streams. */
#include "base/id.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void ids_as_text(void **state) {
    (void)state;
    uint8_t id[16], back[16];
    char text[33];
    for (int i = 0; i < 16; i++) id[i] = (uint8_t)(i * 17);
    id_format(id, text);
    assert_string_equal(text, "00112233445566778899aabbccddeeff");
    assert_true(id_parse(text, 32, back));
    assert_true(id_equal(id, back));
    assert_true(id_parse("00112233445566778899AABBCCDDEEFFtail", 32, back));
    assert_true(id_equal(id, back));
    memset(back, 0x77, 16);
    assert_false(id_parse(text, 31, back));
    assert_false(id_parse(text, 33, back));
    for (size_t at = 0; at < 32; at++) {
        static const char wrong[] = "gG/:@`- \x80";
        for (size_t w = 0; w < sizeof wrong; w++) {
            char bad[33];
            memcpy(bad, text, 33);
            bad[at] = wrong[w];
            assert_false(id_parse(bad, 32, back));
        }
    }
    for (int i = 0; i < 16; i++) assert_int_equal(back[i], 0x77);
}

static void ids_compare_as_bytes(void **state) {
    (void)state;
    uint8_t a[16] = {0}, b[16] = {0};
    assert_true(id_zero(a));
    for (size_t i = 0; i < 16; i++) {
        b[i] = 1;
        assert_false(id_zero(b));
        assert_false(id_equal(a, b));
        assert_true(id_cmp(a, b) < 0 && id_cmp(b, a) > 0);
        assert_true(id_hash(a) != id_hash(b));
        b[i] = 0;
    }
    a[0] = 1;
    b[15] = 255;
    assert_true(id_cmp(a, b) > 0);
}

/* The first numbers of the authors' reference code for the state 1, 2, 3, 4. */
static void the_generator_is_xoshiro(void **state) {
    (void)state;
    static const uint64_t want[] = {11520, 0, 1509978240, 1215971899390074240};
    struct moyai_rng r = {{1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) assert_true(rng_next(&r) == want[i]);
    rng_seed(&r, 0); /* splitmix64 from 0 */
    assert_true(r.s[0] == 0xe220a8397b1dcdaf && r.s[1] == 0x6e789e6aa1b965f4);
}

static void forks_depend_on_everything_that_names_them(void **state) {
    (void)state;
    struct moyai_rng p, q, c[6];
    rng_seed(&p, 1);
    rng_seed(&q, 2);
    struct moyai_rng before = p;
    rng_fork(&p, "link", 0, &c[0]);
    rng_fork(&p, "link", 1, &c[1]);
    rng_fork(&p, "host", 0, &c[2]);
    rng_fork(&q, "link", 0, &c[3]);
    rng_fork(&p, "", 0, &c[4]);
    rng_fork(&p, "link", 0, &c[5]);
    assert_memory_equal(&p, &before, sizeof p);
    assert_memory_equal(&c[0], &c[5], sizeof c[0]);
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < i; k++) assert_true(c[i].s[0] != c[k].s[0]);
    }
}

static void draws_are_in_range_and_even(void **state) {
    (void)state;
    struct moyai_rng r;
    rng_seed(&r, 42);
    unsigned seen[10] = {0};
    for (int i = 0; i < 100000; i++) {
        uint64_t x = rng_below(&r, 10);
        assert_true(x < 10);
        seen[x]++;
    }
    for (int i = 0; i < 10; i++) assert_in_range(seen[i], 9500, 10500);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(rng_below(&r, 1), 0);
        assert_true(rng_below(&r, ((uint64_t)1 << 63) + 1) <= (uint64_t)1 << 63);
    }
}

static void bytes_are_those_of_the_stream(void **state) {
    (void)state;
    for (size_t n = 0; n < 20; n++) {
        struct moyai_rng a, b;
        uint8_t got[21];
        memset(got, 0xee, sizeof got);
        rng_seed(&a, 7);
        rng_seed(&b, 7);
        rng_bytes(&a, got, n);
        for (size_t i = 0; i < n; i += 8) {
            uint64_t x = rng_next(&b);
            for (size_t k = 0; k < 8 && i + k < n; k++) assert_int_equal(got[i + k], (uint8_t)(x >> (8 * k)));
        }
        assert_int_equal(got[n], 0xee);
    }
}

static void the_system_gives_different_bytes(void **state) {
    (void)state;
    uint8_t a[16], b[16], *large = calloc(1, 100000);
    assert_int_equal(rng_system(a, 16), 0);
    assert_int_equal(rng_system(b, 16), 0);
    assert_false(id_equal(a, b));
    assert_int_equal(rng_system(large, 100000), 0); /* more than getrandom gives at once */
    assert_false(id_zero(large + 100000 - 16));
    assert_int_equal(rng_system(a, 0), 0);
    free(large);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_as_text),
        cmocka_unit_test(ids_compare_as_bytes),
        cmocka_unit_test(the_generator_is_xoshiro),
        cmocka_unit_test(forks_depend_on_everything_that_names_them),
        cmocka_unit_test(draws_are_in_range_and_even),
        cmocka_unit_test(bytes_are_those_of_the_stream),
        cmocka_unit_test(the_system_gives_different_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
