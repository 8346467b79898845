/* SPDX-License-Identifier: Apache-2.0 */
/* Memory runs out at every allocation of every encoder and decoder in turn: ENOMEM or NULL, and nothing is lost. */
#include "tests/support/alloc.h"
#include "wire/testing.h"
#include "wire/value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void values_under_construction(void **state) {
    uint64_t seed = *(uint64_t *)*state;
    for (uint64_t i = 0; i < 100; i++) {
        for (long k = 1; alloc_next(&k, ALLOC_ONE); k++) {
            struct moyai_rng rng;
            rng_seed(&rng, seed + i);
            moyai_value *v = testing_value(&rng, 3, false);
            bool hit = alloc_hit();
            if (hit) assert_null(v);
            moyai_value_free(v);
        }
        alloc_disarm();
    }
}

static void values_on_the_wire(void **state) {
    struct moyai_rng rng;
    rng_seed(&rng, *(uint64_t *)*state);
    for (int i = 0; i < 100; i++) {
        moyai_value *v = testing_value(&rng, 3, true), *back = NULL;
        if (!v) continue;
        struct codec_out o;
        for (long k = 1; alloc_next(&k, ALLOC_ONE); k++) {
            codec_out_init(&o, NULL, 0, SIZE_MAX, SIZE_MAX);
            int rc = value_encode(&o, v, NULL);
            assert_int_equal(rc, alloc_hit() ? MOYAI_ENOMEM : 0);
            if (rc < 0) assert_int_equal(o.n, 0);
            if (rc < 0) codec_out_done(&o);
        }
        for (long k = 1; alloc_next(&k, k % 2 ? ALLOC_ONE : ALLOC_ALL); k++) {
            int rc = value_decode(o.p, o.n, &testing_refs, &back, NULL, NULL);
            assert_int_equal(rc, alloc_hit() ? MOYAI_ENOMEM : 0);
        }
        alloc_disarm();
        assert_true(moyai_value_equal(v, back));
        codec_out_done(&o);
        moyai_value_free(v);
        moyai_value_free(back);
    }
    assert_int_equal(testing_refs_alive(), 0);
}

static void arguments_and_destinations(void **state) {
    (void)state;
    static char large[1000];
    memset(large, 'x', sizeof large);
    moyai_ref *ref = testing_ref(4);
    moyai_value *v = moyai_value_new(MOYAI_ARG("inside"));
    const struct moyai_arg big[] = {moyai_bytes(large, 1000), moyai_bytes(large, 999), moyai_bytes(large, 998),
                                    moyai_bytes(large, 997), moyai_bytes(large, 996)};
    struct codec_out o;
    for (long k = 1; alloc_next(&k, ALLOC_ONE); k++) {
        char buf[8];
        codec_out_init(&o, buf, sizeof buf, 990, SIZE_MAX);
        int rc = codec_put_args(&o,
                                MOYAI_ARGS("text that is copied", ref, v, moyai_text(large, 1000), big[0], big[1],
                                           big[2], big[3], big[4], ref),
                                &testing_refs, NULL);
        assert_int_equal(rc, alloc_hit() ? MOYAI_ENOMEM : 0);
        if (rc < 0) assert_true(o.n == 0 && o.n_pieces == 0 && o.spliced == 0);
        if (rc < 0) codec_out_done(&o);
    }
    alloc_disarm();
    size_t n;
    uint8_t *p = testing_join(&o, &n);
    codec_out_done(&o);
    struct moyai_into_arg to[20]; /* more than fit on the stack: skipping takes no memory */
    const char *text = NULL, *text2 = NULL;
    moyai_ref *r1 = NULL, *r2 = NULL;
    moyai_value *back = NULL;
    for (size_t i = 0; i < 20; i++) to[i] = moyai_skip();
    to[0] = MOYAI_DEST(&text);
    to[1] = MOYAI_DEST(&r1);
    to[2] = MOYAI_DEST(&back);
    to[3] = MOYAI_DEST(&text2);
    to[9] = MOYAI_DEST(&r2);
    for (long k = 1; alloc_next(&k, ALLOC_ONE); k++) {
        struct codec_arena *arena = NULL;
        int rc = codec_get_into(p, n, &(const struct moyai_into){to, 10}, &testing_refs, testing_drop, &arena, NULL);
        assert_int_equal(rc, alloc_hit() ? MOYAI_ENOMEM : 0);
        if (rc < 0) assert_true(!text && !r1 && !back && !r2 && testing_refs_alive() == 1);
        if (rc == 0) assert_string_equal(text, "text that is copied");
        if (rc == 0) assert_int_equal(strlen(text2), 1000);
        codec_arena_free(arena);
    }
    alloc_disarm();
    testing_drop(r1);
    testing_drop(r2);
    moyai_value_free(back);
    struct codec_arena *arena = NULL;
    alloc_arm(1, ALLOC_ONE);
    int rc = codec_get_into(p, n, &(const struct moyai_into){to, 20}, &testing_refs, testing_drop, &arena, NULL);
    alloc_disarm();
    assert_int_equal(rc, MOYAI_ENOMEM);
    free(p);
    moyai_value_free(v);
    testing_drop(ref);
    assert_int_equal(testing_refs_alive(), 0);
}

/* What a message makes us allocate is bounded by its own size, whatever it claims: a tower of lists or maps of which
 * each claims all the bytes that follow, and heads that claim everything there is. */
static void claims_cost_nothing(void **state) {
    (void)state;
    enum { N = 1 << 20, LEVELS = 32 };
    static const uint8_t kinds[] = {0x9a, 0xba};
    uint8_t *p = calloc(N, 1);
    assert_non_null(p);
    for (size_t k = 0; k < sizeof kinds; k++) {
        for (uint32_t take = 1; take <= 2; take++) { /* all that is left, half of it */
            size_t each = kinds[k] == 0x9a ? 5 : 6;  /* in a map, the key "" comes first */
            for (size_t i = 0; i < LEVELS; i++) {
                uint32_t claim = (uint32_t)((N - each * (i + 1)) / take / (k + 1));
                p[each * i] = kinds[k];
                for (size_t b = 0; b < 4; b++) p[each * i + 1 + b] = (uint8_t)(claim >> (24 - 8 * b));
                if (each == 6) p[each * i + 5] = 0x60;
            }
            moyai_value *v;
            alloc_arm(0, ALLOC_ONE);
            int rc = value_decode(p, N, NULL, &v, NULL, NULL);
            alloc_disarm();
            assert_int_equal(rc, MOYAI_EDATA);
            assert_true(alloc_bytes() < 24 * (size_t)N); /* a pair of a map claims 2 bytes and takes 20 */
        }
    }
    free(p);
    static const char *const heads[] = {"9b00ffffffffffffff", "bb7fffffffffffffff", "5bffffffffffffffff",
                                        "7b0000000100000000", "d8415b00000000ffffffff"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        uint8_t b[40] = {0};
        size_t n = testing_hex(heads[i], b, sizeof b);
        struct codec_arena *arena = NULL;
        moyai_value *v;
        const char *text;
        const void *bytes;
        const uint16_t *u16;
        size_t m;
        alloc_arm(0, ALLOC_ONE);
        int rc[] = {value_decode(b, n + 20, NULL, &v, NULL, NULL),
                    codec_get_into(b, n + 20, MOYAI_INTO(&text), NULL, NULL, &arena, NULL),
                    codec_get_into(b, n + 20, MOYAI_INTO(moyai_into_bytes(&bytes, &m)), NULL, NULL, &arena, NULL),
                    codec_get_into(b, n + 20, MOYAI_INTO(moyai_into_u16s(&u16, &m)), NULL, NULL, &arena, NULL)};
        long seen = alloc_disarm();
        for (size_t k = 0; k < 4; k++) assert_int_equal(rc[k], MOYAI_EDATA);
        assert_int_equal(seen, 0);
    }
}

int main(void) {
    static uint64_t seed;
    seed = testing_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(values_under_construction, &seed),
        cmocka_unit_test_prestate(values_on_the_wire, &seed),
        cmocka_unit_test(arguments_and_destinations),
        cmocka_unit_test(claims_cost_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
