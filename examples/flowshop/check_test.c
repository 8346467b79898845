/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "check.h"

static void random_permutation(uint64_t *random, uint16_t *perm, int n) {
    for (int i = 0; i < n; i++) {
        int k = random_below(random, i + 1);
        perm[i] = perm[k];
        perm[k] = (uint16_t)i;
    }
}

static void agrees_with_the_solvers_makespan(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    for (int round = 0; round < 500; round++) {
        int n = 1 + random_below(&random, 30), m = 1 + random_below(&random, 12);
        struct instance *in = test_instance(&random, n, m, round % 3 == 0 ? 1 : INSTANCE_MAX_TIME);
        uint16_t perm[32];
        random_permutation(&random, perm, n);
        int32_t span = instance_makespan(in, perm, n);
        struct fail f;
        assert_int_equal(check_solution(in, perm, (size_t)n, span, &f), 0);
        assert_int_equal(check_solution(in, perm, (size_t)n, span - 1, &f), -1);
        assert_int_equal(check_solution(in, perm, (size_t)n, span + 1, &f), -1);
        assert_non_null(strstr(f.text, "the solution's makespan is"));
        instance_free(in);
    }
}

static void catches_wrong_permutations(void **state) {
    (void)state;
    struct instance *in = test_taillard(1);
    uint16_t perm[21];
    for (int i = 0; i < 21; i++) perm[i] = (uint16_t)i;
    int32_t span = instance_makespan(in, perm, 20);
    struct fail f;
    assert_int_equal(check_solution(in, perm, 20, span, &f), 0);
    assert_int_equal(check_solution(in, perm, 19, span, &f), -1);
    assert_string_equal(f.text, "ta001: 19 jobs in the solution, not 20");
    assert_int_equal(check_solution(in, perm, 21, span, &f), -1);
    perm[4] = 7;
    assert_int_equal(check_solution(in, perm, 20, span, &f), -1);
    assert_string_equal(f.text, "ta001: job 4 is 0 times in the solution");
    perm[4] = 20;
    assert_int_equal(check_solution(in, perm, 20, span, &f), -1);
    perm[4] = 65535;
    assert_int_equal(check_solution(in, perm, 20, span, NULL), -1);
    perm[4] = 5; /* and 5 again */
    assert_int_equal(check_solution(in, perm, 20, span, &f), -1);
    perm[5] = 4; /* exchanged: a permutation, of another makespan */
    int32_t other = instance_makespan(in, perm, 20);
    assert_int_not_equal(other, span);
    assert_int_equal(check_solution(in, perm, 20, span, &f), -1);
    assert_int_equal(check_solution(in, perm, 20, other, &f), 0);
    instance_free(in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_solvers_makespan),
        cmocka_unit_test(catches_wrong_permutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
