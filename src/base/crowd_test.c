/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crowd.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void one_source_has_what_nobody_else_wants(void **state) {
    (void)state;
    struct crowd c = {0};
    struct crowd_member m[10] = {0}, other[3] = {0};
    assert_null(crowd_victim(&c));
    for (unsigned i = 0; i < 10; i++) crowd_add(&c, &m[i], 7, i);
    assert_ptr_equal(crowd_victim(&c), &m[0]);
    /* Another comes: it is the first's that go, until both have as many; then the oldest of all. */
    for (unsigned i = 0; i < 3; i++) crowd_add(&c, &other[i], 8, 10 + i);
    for (unsigned i = 0; i < 8; i++) {
        assert_ptr_equal(crowd_victim(&c), &m[i]);
        crowd_remove(&c, &m[i]);
        crowd_remove(&c, &m[i]); /* fine */
    }
    assert_ptr_equal(crowd_victim(&c), &other[0]);
    crowd_remove(&c, &other[1]);
    assert_ptr_equal(crowd_victim(&c), &m[8]);
    assert_null(crowd_before(&c, 8));
    assert_ptr_equal(crowd_before(&c, 9), &m[8]);
    crowd_remove(&c, &m[8]);
    crowd_add(&c, &m[8], 7, 20); /* has begun anew */
    assert_ptr_equal(crowd_victim(&c), &m[9]);
    assert_int_equal(c.n, 4);
    crowd_remove(&c, &m[9]);
    crowd_remove(&c, &m[8]);
    crowd_remove(&c, &other[2]);
    crowd_remove(&c, &other[0]);
    assert_null(c.first);
    assert_int_equal(c.n, 0);
}

/* A long random story against a plain array. */
static void stories(void **state) {
    (void)state;
    enum { N = 60, SOURCES = 8 };
    struct crowd c = {0};
    struct crowd_member m[N] = {0};
    struct moyai_rng rng;
    rng_seed(&rng, 5);
    for (moyai_ns now = 1; now < 20000; now++) {
        size_t i = (size_t)rng_below(&rng, N);
        if (m[i].in)
            crowd_remove(&c, &m[i]);
        else
            crowd_add(&c, &m[i], rng_below(&rng, rng_below(&rng, SOURCES) + 1), now);
        size_t count[SOURCES] = {0}, n = 0;
        for (size_t k = 0; k < N; k++) {
            count[m[k].source] += m[k].in;
            n += m[k].in;
        }
        assert_int_equal(c.n, n);
        const struct crowd_member *want = NULL, *oldest = NULL;
        for (size_t k = 0; k < N; k++) {
            if (!m[k].in) continue;
            size_t a = count[m[k].source], b = want ? count[want->source] : 0;
            if (a > b || (a == b && m[k].since < want->since)) want = &m[k];
            if (!oldest || m[k].since < oldest->since) oldest = &m[k];
        }
        assert_ptr_equal(crowd_victim(&c), want);
        if (!oldest) continue;
        assert_null(crowd_before(&c, oldest->since));
        assert_ptr_equal(crowd_before(&c, oldest->since + 1), oldest);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_source_has_what_nobody_else_wants),
                                       cmocka_unit_test(stories)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
