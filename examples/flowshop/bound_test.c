/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "bound.h"

static void root_bound_is_taillards(void **state) {
    (void)state;
    static const struct {
        int number;
        int32_t bound;
    } known[] = {{1, 1232}, {2, 1290}, {3, 1073}, {11, 1448}};
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        struct instance *in = test_taillard(known[k].number);
        assert_int_equal(bound_instance(in), known[k].bound);
        struct bound *b = bound_new(in);
        assert_non_null(b);
        assert_int_equal(bound_level(b, 0), known[k].bound);
        bound_free(b);
        instance_free(in);
    }
}

static void longest_job_counts(void **state) {
    (void)state;
    uint64_t random = 1;
    struct instance *in = test_instance(&random, 3, 4, 0);
    for (int j = 0; j < 4; j++) in->p[j * 3 + 1] = 10;
    in->p[3 * 3 + 2] = 1;
    assert_int_equal(bound_instance(in), 40);
    instance_free(in);
}

/* The least makespan of all completions of prefix + suffix. */
static int32_t best_completion(const struct instance *in, uint16_t *perm, int left, int right) {
    if (left == right) return instance_makespan(in, perm, in->n);
    int32_t best = INT32_MAX;
    for (int k = left; k < right; k++) {
        uint16_t t = perm[left];
        perm[left] = perm[k];
        perm[k] = t;
        int32_t span = best_completion(in, perm, left + 1, right);
        best = best < span ? best : span;
        perm[k] = perm[left];
        perm[left] = t;
    }
    return best;
}

/* Down a random path: bounds never exceed the best completion, never fall from parent to child, are exact at the end,
 * and each child is there if and only if its bound is below the limit. */
static void bounds_are_bounds(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    for (int round = 0; round < 300; round++) {
        int n = 1 + random_below(&random, 6), m = 1 + random_below(&random, 7);
        struct instance *in = test_instance(&random, n, m, round % 3 ? 99 : 3);
        struct bound *b = bound_new(in);
        assert_non_null(b);
        if (round % 4 == 1) (void)bound_use_kernel(b, random_below(&random, BOUND_KERNELS));
        uint16_t perm[8];
        for (int i = 0; i < n; i++) perm[i] = (uint16_t)i;
        int left = 0, right = n;
        for (int level = 0; level < n; level++) {
            struct child child[8];
            enum end end;
            int count = bound_branch(b, level, INT32_MAX, child, &end);
            assert_int_equal(count, n - level);
            for (int k = 0; k < count; k++) {
                assert_true(k == 0 || child[k].bound <= child[k - 1].bound);
                assert_true(child[k].bound >= bound_level(b, level));
                int at = end == FRONT ? left : right - 1, from = left;
                while (perm[from] != child[k].job) from++;
                assert_true(from < right);
                perm[from] = perm[at];
                perm[at] = child[k].job;
                int32_t best = best_completion(in, perm, left + (end == FRONT), right - (end == BACK));
                assert_true(child[k].bound <= best);
                if (count == 1) assert_int_equal(child[k].bound, best);
                bound_descend(b, level, end, child[k].job);
                assert_int_equal(bound_level(b, level + 1), child[k].bound);
            }
            int32_t limit = child[count / 2].bound;
            struct child fewer[8];
            enum end other;
            int left_over = bound_branch(b, level, limit, fewer, &other);
            for (int k = 0; k < left_over; k++) assert_true(fewer[k].bound < limit);
            const struct child *c = &child[random_below(&random, count)];
            int at = end == FRONT ? left++ : --right, from = 0;
            while (perm[from] != c->job) from++;
            perm[from] = perm[at];
            perm[at] = c->job;
            bound_descend(b, level, end, c->job);
        }
        bound_free(b);
        instance_free(in);
    }
}

static int by_job(const void *a, const void *b) {
    return ((const struct child *)a)->job - ((const struct child *)b)->job;
}

static void kernels_agree(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    int used[BOUND_KERNELS] = {0};
    for (int round = 0; round < 60; round++) {
        int n = 1 + random_below(&random, round % 2 ? 70 : 24), m = 1 + random_below(&random, 30);
        struct instance *in = test_instance(&random, n, m, 99);
        struct bound *b[BOUND_KERNELS];
        for (int k = 0; k < BOUND_KERNELS; k++) {
            b[k] = bound_new(in);
            assert_non_null(b[k]);
            if (bound_use_kernel(b[k], k)) used[k]++;
        }
        int32_t limit = INT32_MAX;
        for (int level = 0; level < n; level++) {
            struct child child[BOUND_KERNELS][70];
            enum end end[BOUND_KERNELS];
            int count[BOUND_KERNELS];
            for (int k = 0; k < BOUND_KERNELS; k++) {
                count[k] = bound_branch(b[k], level, limit, child[k], &end[k]);
                qsort(child[k], (size_t)count[k], sizeof child[k][0], by_job);
                assert_int_equal(count[k], count[0]);
                assert_int_equal(end[k], end[0]);
                for (int i = 0; i < count[0]; i++) {
                    assert_int_equal(child[k][i].job, child[0][i].job);
                    assert_int_equal(child[k][i].bound, child[0][i].bound);
                }
            }
            if (count[0] == 0) break;
            const struct child *c = &child[0][random_below(&random, count[0])];
            limit = c->bound + random_below(&random, 40) + 1;
            for (int k = 0; k < BOUND_KERNELS; k++) bound_descend(b[k], level, end[0], c->job);
        }
        for (int k = 0; k < BOUND_KERNELS; k++) bound_free(b[k]);
        instance_free(in);
    }
    struct instance *in = test_taillard(1);
    struct bound *b = bound_new(in);
    assert_non_null(b);
    print_message("fastest kernel here: %s\n", bound_kernel_name(b));
    assert_int_equal(used[1], 60);
    assert_int_equal(used[2], 60);
    assert_false(bound_use_kernel(b, BOUND_KERNELS));
    assert_false(bound_use_kernel(b, -1));
    bound_free(b);
    instance_free(in);
}

/* Narrow numbers are used exactly as long as nothing can overflow. */
static void long_durations_use_wide_numbers(void **state) {
    (void)state;
    uint64_t random = 3;
    struct instance *in = test_instance(&random, 10, 4, 0);
    in->p[7] = 32767 / 16;
    struct bound *b = bound_new(in);
    assert_non_null(b);
    assert_true(bound_use_kernel(b, 1));
    bound_free(b);
    for (int k = 0; k < 40; k++) in->p[k] = INSTANCE_MAX_TIME;
    b = bound_new(in);
    assert_non_null(b);
    assert_false(bound_use_kernel(b, 0));
    assert_false(bound_use_kernel(b, 1));
    assert_int_equal(bound_level(b, 0), 13 * INSTANCE_MAX_TIME);
    bound_free(b);
    instance_free(in);
}

static void largest_instance_fits(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    struct instance *in = test_instance(&random, INSTANCE_MAX_JOBS, INSTANCE_MAX_MACHINES, INSTANCE_MAX_TIME);
    struct bound *b = bound_new(in);
    assert_non_null(b);
    static struct child child[INSTANCE_MAX_JOBS];
    uint16_t perm[INSTANCE_MAX_JOBS];
    int left = 0, right = in->n;
    int32_t last = 0;
    for (int level = 0; level < in->n; level++) {
        enum end end;
        int count = bound_branch(b, level, INT32_MAX, child, &end);
        assert_int_equal(count, in->n - level);
        const struct child *c = &child[random_below(&random, count)];
        assert_true(c->bound >= last);
        last = c->bound;
        perm[end == FRONT ? left++ : --right] = c->job;
        bound_descend(b, level, end, c->job);
    }
    assert_int_equal(last, instance_makespan(in, perm, in->n));
    bound_free(b);
    instance_free(in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(root_bound_is_taillards),
        cmocka_unit_test(longest_job_counts),
        cmocka_unit_test(bounds_are_bounds),
        cmocka_unit_test(kernels_agree),
        cmocka_unit_test(long_durations_use_wide_numbers),
        cmocka_unit_test(largest_instance_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
