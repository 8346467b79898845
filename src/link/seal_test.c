/* SPDX-License-Identifier: Apache-2.0 */
/* Seals hold what they say, for whoever has the key and nobody else. */
#include "link/seal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct keyring ring;

static int set_up(void **state) {
    (void)state;
    ring.n = 2;
    return key_new(&ring.key[0], NULL) | key_new(&ring.key[1], NULL);
}

static void bytes_come_back(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 15, 16, 17, 1000, 65536};
    static uint8_t in[65536], sealed[65536 + SEAL_MORE], again[65536 + SEAL_MORE], out[65536 + SEAL_MORE];
    for (size_t i = 0; i < sizeof in; i++) in[i] = (uint8_t)(i * 31 + (i >> 8));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t k = 0; k < 2; k++) {
            size_t n = sizes[i], got = 1;
            assert_int_equal(seal(&ring.key[k], "test", in, n, sealed), 0);
            assert_int_equal(unseal(&ring, 0, "test", sealed, n + SEAL_MORE, out, &got), 0);
            assert_int_equal(got, n);
            assert_memory_equal(out, in, n);
            assert_int_equal(seal(&ring.key[k], "test", in, n, sealed), 0);
            assert_int_equal(seal(&ring.key[k], "test", in, n, again), 0);
            assert_memory_not_equal(sealed, again, n + SEAL_MORE);
            if (n >= 16) assert_memory_not_equal(sealed + 24, in, n);
        }
}

static void what_was_changed_is_refused(void **state) {
    (void)state;
    uint8_t sealed[100 + SEAL_MORE], again[100 + SEAL_MORE], out[200];
    uint8_t in[100] = "what is sealed carries its own time";
    size_t got;
    assert_int_equal(seal(&ring.key[0], "test", in, sizeof in, sealed), 0);
    for (size_t i = 0; i < 8 * sizeof sealed; i++) {
        sealed[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_int_equal(unseal(&ring, 0, "test", sealed, sizeof sealed, out, &got),
                         i < 64 ? MOYAI_EPERM : MOYAI_EDATA);
        sealed[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    for (size_t n = 0; n < sizeof sealed; n++) assert_true(unseal(&ring, 0, "test", sealed, n, out, &got) < 0);
    assert_int_equal(unseal(&ring, 0, "tesu", sealed, sizeof sealed, out, &got), MOYAI_EDATA);
    char name[SEAL_PURPOSE + 1], name2[SEAL_PURPOSE + 1]; /* the longest names of grids, which differ at their ends */
    seal_for_grid(name, SEAL_WITHDRAWAL, "0123456789012345678901234567890123456789012345678901234567890123");
    seal_for_grid(name2, SEAL_WITHDRAWAL, "0123456789012345678901234567890123456789012345678901234567890124");
    assert_int_equal(seal(&ring.key[0], name, in, sizeof in, again), 0);
    assert_int_equal(unseal(&ring, 0, name, again, sizeof again, out, &got), 0);
    assert_int_equal(unseal(&ring, 0, name2, again, sizeof again, out, &got), MOYAI_EDATA);
    struct keyring other = {.n = 1, .key = {ring.key[1]}};
    assert_int_equal(unseal(&other, 0, "test", sealed, sizeof sealed, out, &got), MOYAI_EPERM);
    other.key[0] = ring.key[0];
    other.key[0].until = 100;
    assert_int_equal(unseal(&other, 99, "test", sealed, sizeof sealed, out, &got), 0);
    assert_int_equal(unseal(&other, 100, "test", sealed, sizeof sealed, out, &got), MOYAI_EPERM);
    memcpy(other.key[0].secret, ring.key[1].secret, KEY_SECRET); /* the id alone does not help */
    assert_int_equal(unseal(&other, 0, "test", sealed, sizeof sealed, out, &got), MOYAI_EDATA);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_come_back),
                                       cmocka_unit_test(what_was_changed_is_refused)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
