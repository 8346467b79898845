/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the simulated world happen in the order of their times, and of equal times in that in which they were set,
 * however many there are and whatever is set meanwhile. */
#include "sim/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

struct test {
    struct world w;
    struct moyai_rng rng;
    uint64_t set, happened, most;
    moyai_ns *when; /* of each that was set */
    moyai_ns last_when;
    uint64_t last, ahead;
};

static struct test t;

static void happens(void *who, uint64_t what);

/* Soon, later, much later, at once, and together with others. */
static moyai_dur span(void) {
    switch (rng_below(&t.rng, 6)) {
    case 0:
        return 0;
    case 1:
        return (moyai_dur)rng_below(&t.rng, MOYAI_MS / 10);
    case 2:
        return (moyai_dur)rng_below(&t.rng, 30 * MOYAI_MS);
    case 3:
        return (moyai_dur)rng_below(&t.rng, 100) * 100 * MOYAI_MS;
    case 4:
        return (moyai_dur)rng_below(&t.rng, 5 * MOYAI_SEC);
    default:
        return (moyai_dur)rng_below(&t.rng, 1000 * MOYAI_SEC);
    }
}

static void set(void) {
    if (t.set == t.most) return;
    moyai_dur in = span();
    t.when[t.set] = t.w.now + (moyai_ns)in;
    world_in(&t.w, in, happens, &t, t.set++);
}

static void happens(void *who, uint64_t what) {
    assert_ptr_equal(who, &t);
    assert_true(t.w.now == t.when[what]);
    assert_true(t.happened == 0 || t.w.now > t.last_when || (t.w.now == t.last_when && what > t.last));
    t.last = what;
    t.last_when = t.w.now;
    t.happened++;
    for (uint64_t n = rng_below(&t.rng, 3); n; n--) set();
}

static void looks_ahead(world_fn *fn, void *who, uint64_t what, unsigned stage) {
    assert_true(fn == happens && who == &t && stage < WORLD_STAGES);
    assert_true(what < t.set && t.when[what] >= t.w.now);
    t.ahead++;
}

static void run(uint64_t seed, uint64_t first, uint64_t most) {
    t = (struct test){.most = most, .when = calloc(most, sizeof *t.when)};
    assert_non_null(t.when);
    world_init(&t.w, seed, false);
    rng_fork(&t.w.rng, "test", 0, &t.rng);
    t.w.ahead = looks_ahead;
    for (uint64_t i = 0; i < first; i++) set();
    while (t.happened < t.set) {
        moyai_ns limit = t.w.now + rng_below(&t.rng, 20 * MOYAI_SEC);
        (void)world_run(&t.w, NULL, NULL, limit);
        assert_true(t.w.now == limit); /* and time has come to where it was to */
        set();
    }
    assert_false(world_step(&t.w));
    assert_true(t.happened == t.set && t.ahead > 0);
    world_done(&t.w);
    free(t.when);
}

static void test_few(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) run(seed, 1 + seed % 7, 200);
}

static void test_many(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) run(seed, seed * 10000, 200000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_few), cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
