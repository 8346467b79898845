/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "bound.h"
#include "check.h"
#include "greedy.h"

/* NEH without Taillard's acceleration, as a model: tries every place by computing every makespan. */
static int32_t model_neh(const struct instance *in, uint16_t *perm) {
    uint16_t order[INSTANCE_MAX_JOBS];
    int32_t total[INSTANCE_MAX_JOBS];
    for (int i = 0; i < in->n; i++) {
        order[i] = (uint16_t)i;
        total[i] = 0;
        for (int j = 0; j < in->m; j++) total[i] += in->p[j * in->n + i];
    }
    for (int a = 0; a < in->n; a++) {
        for (int b = a + 1; b < in->n; b++) {
            int32_t x = total[order[a]], y = total[order[b]];
            if (y > x || (y == x && order[b] < order[a])) {
                uint16_t t = order[a];
                order[a] = order[b];
                order[b] = t;
            }
        }
    }
    int32_t best = 0;
    for (int k = 0; k < in->n; k++) {
        int place = 0;
        best = INT32_MAX;
        for (int a = 0; a <= k; a++) {
            uint16_t trial[INSTANCE_MAX_JOBS];
            memcpy(trial, perm, (size_t)a * sizeof *trial);
            trial[a] = order[k];
            memcpy(trial + a + 1, perm + a, (size_t)(k - a) * sizeof *trial);
            int32_t span = instance_makespan(in, trial, k + 1);
            if (span >= best) continue;
            best = span;
            place = a;
        }
        memmove(perm + place + 1, perm + place, (size_t)(k - place) * sizeof *perm);
        perm[place] = order[k];
    }
    return best;
}

static void neh_agrees_with_the_slow_model(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    for (int round = 0; round < 120; round++) {
        struct instance *in = round < 60 ? test_taillard(1 + round % 60)
                                         : test_instance(&random, 1 + random_below(&random, 15),
                                                         1 + random_below(&random, 8), round % 2 ? 5 : 99);
        uint16_t perm[INSTANCE_MAX_JOBS], model[INSTANCE_MAX_JOBS];
        struct fail f;
        int32_t span = greedy_neh(in, perm);
        assert_int_equal(span, model_neh(in, model));
        assert_memory_equal(perm, model, (size_t)in->n * sizeof *perm);
        assert_int_equal(check_solution(in, perm, (size_t)in->n, span, &f), 0);
        instance_free(in);
    }
}

static void neh_gives_the_published_values(void **state) {
    (void)state;
    static const struct {
        int number;
        int32_t span;
    } known[] = {{1, 1286}, {2, 1365}, {11, 1680}, {12, 1729}, {31, 2733}};
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        struct instance *in = test_taillard(known[k].number);
        uint16_t perm[INSTANCE_MAX_JOBS];
        assert_int_equal(greedy_neh(in, perm), known[k].span);
        instance_free(in);
    }
}

/* A generous limit of time; the search ends at the target, usually after some milliseconds. */
static void search_reaches_optima(void **state) {
    (void)state;
    static const int numbers[] = {1, 2, 11, 31};
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
        struct instance *in = test_taillard(numbers[k]);
        uint16_t perm[INSTANCE_MAX_JOBS];
        struct fail f;
        int32_t span = greedy_search(in, 60, 1, test_optimum(numbers[k]), perm);
        assert_int_equal(span, test_optimum(numbers[k]));
        assert_int_equal(check_solution(in, perm, (size_t)in->n, span, &f), 0);
        instance_free(in);
    }
}

static void search_serves_every_size(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    for (int n = 1; n <= 8; n++) {
        for (int m = 1; m <= 4; m++) {
            struct instance *in = test_instance(&random, n, m, 9);
            uint16_t perm[INSTANCE_MAX_JOBS];
            struct fail f;
            int32_t span = greedy_search(in, 0.002, 5, 0, perm);
            assert_int_equal(check_solution(in, perm, (size_t)n, span, &f), 0);
            assert_true(span >= bound_instance(in));
            instance_free(in);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neh_agrees_with_the_slow_model),
        cmocka_unit_test(neh_gives_the_published_values),
        cmocka_unit_test(search_reaches_optima),
        cmocka_unit_test(search_serves_every_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
