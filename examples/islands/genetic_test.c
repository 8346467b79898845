/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/flowshop/test_support.h"

#include "examples/flowshop/check.h"
#include "genetic.h"

static void random_permutation(uint64_t *random, int n, uint16_t *perm) {
    for (int i = 0; i < n; i++) {
        int k = random_below(random, i + 1);
        perm[i] = perm[k];
        perm[k] = (uint16_t)i;
    }
}

static void assert_permutation(const uint16_t *perm, int n) {
    bool there[INSTANCE_MAX_JOBS] = {false};
    for (int i = 0; i < n; i++) {
        assert_true(perm[i] < n);
        assert_false(there[perm[i]]);
        there[perm[i]] = true;
    }
}

static void assert_right(const struct instance *in, const uint16_t *perm, int32_t makespan) {
    struct fail f;
    if (check_solution(in, perm, (size_t)in->n, makespan, &f)) fail_msg("%s", f.text);
}

static void a_child_has_the_ends_of_one_and_the_order_of_the_other(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    int mixed = 0;
    for (int round = 0; round < 5000; round++) {
        int n = 1 + random_below(&random, round % 10 ? 12 : INSTANCE_MAX_JOBS);
        uint16_t a[INSTANCE_MAX_JOBS], b[INSTANCE_MAX_JOBS], child[INSTANCE_MAX_JOBS], at[INSTANCE_MAX_JOBS];
        random_permutation(&random, n, a);
        random_permutation(&random, n, b);
        genetic_cross(&random, n, a, b, child);
        assert_permutation(child, n);
        for (int i = 0; i < n; i++) at[b[i]] = (uint16_t)i;
        int from = 0, to = n;
        while (from < n && child[from] == a[from]) from++;
        while (to > from && child[to - 1] == a[to - 1]) to--;
        for (int i = from + 1; i < to; i++) assert_true(at[child[i - 1]] < at[child[i]]);
        mixed += from < to && (from > 0 || to < n);
    }
    assert_true(mixed > 500);
}

static void a_mutation_moves_one_job(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    int moved = 0;
    for (int round = 0; round < 5000; round++) {
        int n = 1 + random_below(&random, 20), from = 0, to = n - 1;
        uint16_t old[INSTANCE_MAX_JOBS], new[INSTANCE_MAX_JOBS];
        random_permutation(&random, n, old);
        memcpy(new, old, sizeof old);
        genetic_mutate(&random, n, new);
        while (from < n && old[from] == new[from]) from++;
        if (from == n) continue;
        while (old[to] == new[to]) to--;
        /* Between the two places all have moved up by one, or down by one. */
        size_t most = (size_t)(to - from) * sizeof *old;
        bool forth = new[to] == old[from] && memcmp(new + from, old + from + 1, most) == 0;
        bool back = new[from] == old[to] && memcmp(new + from + 1, old + from, most) == 0;
        assert_true(forth || back);
        moved++;
    }
    assert_true(moved > 3000);
}

static void improvement_is_right_and_never_worse(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    int better = 0;
    for (int round = 0; round < 300; round++) {
        struct instance *in =
            test_instance(&random, 1 + random_below(&random, 40), 1 + random_below(&random, 10), round % 3 ? 99 : 3);
        struct genetic *g = genetic_new(in, GENETIC_MIN_SIZE, (uint64_t)round);
        assert_non_null(g);
        uint16_t perm[INSTANCE_MAX_JOBS];
        random_permutation(&random, in->n, perm);
        int32_t before = instance_makespan(in, perm, in->n), now = genetic_improve(g, perm);
        assert_right(in, perm, now);
        assert_true(now <= before);
        better += now < before;
        genetic_free(g);
        instance_free(in);
    }
    assert_true(better > 150);
}

static void individuals_stay_right_and_the_best_never_gets_worse(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    for (int round = 0; round < 12; round++) {
        struct instance *in = round < 3 ? test_taillard(1 + 30 * (round % 2))
                                        : test_instance(&random, 1 + random_below(&random, 30), 1 + round % 6, 20);
        int size = round % 4 ? 2 + random_below(&random, 60) : GENETIC_MIN_SIZE;
        struct genetic *g = genetic_new(in, size, random_next(&random));
        assert_non_null(g);
        int32_t best = genetic_best(g, NULL);
        while (genetic_generation(g) < 250) { /* long enough for renewals */
            uint16_t perm[INSTANCE_MAX_JOBS];
            genetic_step(g);
            int32_t now = genetic_best(g, perm);
            assert_right(in, perm, now);
            assert_true(now <= best);
            best = now;
            for (int i = 0; i < 3; i++) {
                int32_t makespan = genetic_any(g, perm);
                assert_right(in, perm, makespan);
                assert_true(makespan >= best);
            }
        }
        genetic_free(g);
        instance_free(in);
    }
}

/* As good as certainly, in a small population. */
static int32_t worst_of(struct genetic *g) {
    int32_t worst = 0;
    for (int i = 0; i < 500; i++) {
        int32_t makespan = genetic_any(g, NULL);
        worst = worst > makespan ? worst : makespan;
    }
    return worst;
}

static void a_population_that_stands_still_is_renewed(void **state) {
    (void)state;
    struct instance *in = test_taillard(1);
    struct genetic *g = genetic_new(in, 8, 1);
    assert_non_null(g);
    int32_t before = worst_of(g);
    int renewals = 0;
    while (genetic_generation(g) < 1000) {
        genetic_step(g);
        int32_t now = worst_of(g);
        renewals += now > before;
        before = now;
    }
    assert_in_range(renewals, 5, 20); /* children never make the worst any worse */
    genetic_free(g);
    instance_free(in);
}

/* Every order of the jobs from place k on. */
static int32_t optimum(const struct instance *in, uint16_t *perm, int k) {
    if (k == in->n) return instance_makespan(in, perm, k);
    int32_t best = INT32_MAX;
    for (int i = k; i < in->n; i++) {
        uint16_t job = perm[i];
        perm[i] = perm[k];
        perm[k] = job;
        int32_t x = optimum(in, perm, k + 1);
        best = best < x ? best : x;
        perm[k] = perm[i];
        perm[i] = job;
    }
    return best;
}

static void small_instances_are_solved(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    for (int round = 0; round < 40; round++) {
        struct instance *in = test_instance(&random, 1 + round % 7, 1 + random_below(&random, 6), 50);
        uint16_t perm[INSTANCE_MAX_JOBS];
        for (int i = 0; i < in->n; i++) perm[i] = (uint16_t)i;
        int32_t least = optimum(in, perm, 0);
        struct genetic *g = genetic_new(in, 10, (uint64_t)round);
        assert_non_null(g);
        for (int i = 0; i < 3000 && genetic_best(g, NULL) > least; i++) genetic_step(g);
        assert_int_equal(genetic_best(g, NULL), least);
        genetic_free(g);
        instance_free(in);
    }
}

static void guests_are_taken_in_if_they_are_good_and_new(void **state) {
    (void)state;
    struct instance *in = test_taillard(31);
    struct genetic *g = genetic_new(in, 8, 1), *other = genetic_new(in, 8, 2);
    assert_non_null(g);
    assert_non_null(other);
    uint16_t guest[INSTANCE_MAX_JOBS], perm[INSTANCE_MAX_JOBS];
    int32_t start = genetic_best(g, NULL), makespan = genetic_best(other, guest);
    while (makespan >= start) {
        genetic_step(other);
        makespan = genetic_best(other, guest);
    }
    assert_true(genetic_admit(g, guest, makespan));
    assert_int_equal(genetic_best(g, perm), makespan);
    assert_memory_equal(perm, guest, (size_t)in->n * sizeof *perm);
    assert_false(genetic_admit(g, guest, makespan)); /* is there already */
    for (int i = 0; i < 20; i++) genetic_step(g);
    random_permutation(&(uint64_t){5}, in->n, guest);
    makespan = instance_makespan(in, guest, in->n);
    assert_true(makespan > worst_of(g));
    assert_false(genetic_admit(g, guest, makespan));
    genetic_free(g);
    genetic_free(other);
    instance_free(in);
}

static void one_seed_is_one_course(void **state) {
    (void)state;
    struct instance *in = test_taillard(11);
    struct genetic *g[3];
    for (int i = 0; i < 3; i++) {
        g[i] = genetic_new(in, 10, i < 2 ? 7 : 8);
        assert_non_null(g[i]);
    }
    bool differ = false;
    for (int k = 0; k < 50; k++) {
        uint16_t perm[3][INSTANCE_MAX_JOBS];
        for (int i = 0; i < 3; i++) {
            genetic_step(g[i]);
            (void)genetic_any(g[i], perm[i]);
        }
        assert_memory_equal(perm[0], perm[1], (size_t)in->n * sizeof perm[0][0]);
        differ |= memcmp(perm[0], perm[2], (size_t)in->n * sizeof perm[0][0]) != 0;
    }
    assert_true(differ);
    for (int i = 0; i < 3; i++) genetic_free(g[i]);
    instance_free(in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_has_the_ends_of_one_and_the_order_of_the_other),
        cmocka_unit_test(a_mutation_moves_one_job),
        cmocka_unit_test(improvement_is_right_and_never_worse),
        cmocka_unit_test(individuals_stay_right_and_the_best_never_gets_worse),
        cmocka_unit_test(a_population_that_stands_still_is_renewed),
        cmocka_unit_test(small_instances_are_solved),
        cmocka_unit_test(guests_are_taken_in_if_they_are_good_and_new),
        cmocka_unit_test(one_seed_is_one_course),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
