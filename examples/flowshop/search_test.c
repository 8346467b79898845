/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "check.h"
#include "search.h"

#define FOREVER UINT64_MAX

static int32_t least_makespan(const struct instance *in, uint16_t *perm, int k) {
    if (k == in->n) return instance_makespan(in, perm, k);
    int32_t best = INT32_MAX;
    for (int a = k; a < in->n; a++) {
        uint16_t t = perm[k];
        perm[k] = perm[a];
        perm[a] = t;
        int32_t span = least_makespan(in, perm, k + 1);
        best = best < span ? best : span;
        perm[a] = perm[k];
        perm[k] = t;
    }
    return best;
}

static void agrees_with_brute_force(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    for (int round = 0; round < 500; round++) {
        int n = 1 + random_below(&random, 7), m = 1 + random_below(&random, 6);
        struct instance *in = test_instance(&random, n, m,
                                            round % 5 == 0   ? 2
                                            : round % 5 == 1 ? INSTANCE_MAX_TIME
                                                             : 99);
        uint16_t perm[8];
        for (int i = 0; i < n; i++) perm[i] = (uint16_t)i;
        int32_t least = least_makespan(in, perm, 0);
        struct search *s = search_new(in);
        assert_non_null(s);
        assert_int_equal(search_run(s, FOREVER), SEARCH_DONE); /* nothing loaded */
        search_whole(s);
        assert_int_equal(search_run(s, FOREVER), SEARCH_DONE);
        struct fail f;
        assert_int_equal(search_best(s, perm), least);
        assert_int_equal(check_solution(in, perm, (size_t)n, least, &f), 0);
        assert_int_equal(search_get_upper(s), least);
        search_free(s);

        s = search_new(in);
        assert_non_null(s);
        search_upper(s, least);
        search_upper(s, least + 5); /* changes nothing */
        search_whole(s);
        assert_int_equal(search_run(s, FOREVER), SEARCH_DONE);
        assert_int_equal(search_best(s, NULL), -1);
        search_free(s);
        instance_free(in);
    }
}

/* The optimum is found from one above it, and with itself as upper bound nothing shorter is. */
static void proves_known_optima(void **state) {
    (void)state;
    for (int number = 1; number <= 40; number = number == 12 ? 31 : number + 1) {
        struct instance *in = test_taillard(number);
        for (int above = 0; above <= 1; above++) {
            struct search *s = search_new(in);
            assert_non_null(s);
            search_upper(s, test_optimum(number) + above);
            search_whole(s);
            assert_int_equal(search_run(s, FOREVER), SEARCH_DONE);
            uint16_t perm[INSTANCE_MAX_JOBS];
            struct fail f;
            assert_int_equal(search_best(s, perm), above ? test_optimum(number) : -1);
            if (above) assert_int_equal(check_solution(in, perm, (size_t)in->n, test_optimum(number), &f), 0);
            search_free(s);
        }
        instance_free(in);
    }
}

static void slices_are_exact(void **state) {
    (void)state;
    struct instance *in = test_taillard(5);
    struct search *s = search_new(in);
    assert_non_null(s);
    search_upper(s, test_optimum(5));
    search_whole(s);
    assert_int_equal(search_run(s, 0), SEARCH_MORE);
    assert_int_equal(search_nodes(s), 0);
    assert_int_equal(search_run(s, 1), SEARCH_MORE);
    assert_int_equal(search_nodes(s), 1);
    assert_int_equal(search_run(s, 10), SEARCH_MORE);
    assert_int_equal(search_nodes(s), 11);
    assert_int_equal(search_run(s, FOREVER), SEARCH_DONE);
    assert_int_equal(search_run(s, FOREVER), SEARCH_DONE);
    uint64_t all = search_nodes(s);
    search_whole(s);
    while (search_run(s, 7) == SEARCH_MORE) assert_true(search_nodes(s) < 2 * all);
    assert_int_equal(search_nodes(s), 2 * all);
    search_free(s);
    instance_free(in);
}

#define MOST 40

/* A crowd of searches that share one tree: any of them runs for a while, gives away, or is saved and replaced by a new
 * one that loads what was left. Tasks wait in a bag. */
struct crowd {
    const struct instance *in;
    int32_t upper;
    struct search *search[MOST];
    struct bytes bag[4 * MOST];
    int n_bag, splits, saves;
    uint64_t nodes; /* of searches that are gone */
};

static void crowd_idle(struct crowd *c, int k, uint64_t *random) {
    if (c->n_bag == 0) return;
    int pick = random_below(random, c->n_bag);
    struct fail f;
    assert_int_equal(search_load(c->search[k], c->bag[pick].p, c->bag[pick].n, &f), 0);
    bytes_done(&c->bag[pick]);
    c->bag[pick] = c->bag[--c->n_bag];
}

static void crowd_replace(struct crowd *c, int k) {
    c->nodes += search_nodes(c->search[k]);
    search_free(c->search[k]);
    c->search[k] = search_new(c->in);
    assert_non_null(c->search[k]);
    search_upper(c->search[k], c->upper);
}

static void crowd_act(struct crowd *c, int k, int longest, uint64_t *random) {
    struct search *s = c->search[k];
    if (search_run(s, 1 + (uint64_t)random_below(random, longest)) == SEARCH_DONE) {
        crowd_idle(c, k, random);
        return;
    }
    struct bytes b = {0};
    int what = random_below(random, 4), min_jobs = 1 + random_below(random, 8), rc = 0;
    if (what == 0 && c->n_bag < 4 * MOST) {
        int open = search_open(s, min_jobs), before = search_open(s, 1);
        rc = search_split(s, min_jobs, &b);
        assert_int_equal(rc, open > 0);
        assert_int_equal(before - search_open(s, 1), (open + 1) / 2);
        c->splits += rc;
    } else if (what == 1 && c->n_bag < 4 * MOST) {
        rc = search_save(s, &b);
        crowd_replace(c, k);
        c->saves += rc;
    }
    assert_int_equal(b.n > 0, rc == 1);
    if (rc == 1) c->bag[c->n_bag++] = b;
}

static bool crowd_done(const struct crowd *c) {
    for (int k = 0; k < MOST; k++)
        if (search_run(c->search[k], 0) == SEARCH_MORE) return false;
    return c->n_bag == 0;
}

static uint64_t crowd_explore(struct crowd *c, int longest, uint64_t *random) {
    for (int k = 0; k < MOST; k++) {
        c->search[k] = search_new(c->in);
        assert_non_null(c->search[k]);
        search_upper(c->search[k], c->upper);
    }
    search_whole(c->search[0]);
    while (!crowd_done(c))
        for (int k = 0; k < MOST; k++) crowd_act(c, k, longest, random);
    uint64_t nodes = c->nodes;
    for (int k = 0; k < MOST; k++) {
        nodes += search_nodes(c->search[k]);
        assert_int_equal(search_best(c->search[k], NULL), -1);
        search_free(c->search[k]);
    }
    return nodes;
}

static void splitting_neither_repeats_nor_loses(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    int splits = 0, saves = 0;
    static const int numbers[] = {2, 5, 11, 12};
    for (int round = 0; round < 60; round++) {
        bool known = round < 4;
        struct instance *in =
            known ? test_taillard(numbers[round])
                  : test_instance(&random, 5 + random_below(&random, 9), 2 + random_below(&random, 14), 99);
        struct search *s = search_new(in);
        assert_non_null(s);
        if (known) search_upper(s, test_optimum(numbers[round]));
        search_whole(s);
        assert_int_equal(search_run(s, FOREVER), SEARCH_DONE);
        int32_t upper = search_get_upper(s);
        search_free(s);

        s = search_new(in);
        assert_non_null(s);
        search_upper(s, upper);
        search_whole(s);
        assert_int_equal(search_run(s, FOREVER), SEARCH_DONE);
        struct crowd c = {.in = in, .upper = upper};
        int longest = search_nodes(s) > 10000 ? 400 : 1 + random_below(&random, 30);
        assert_int_equal(crowd_explore(&c, longest, &random), search_nodes(s));
        search_free(s);
        instance_free(in);
        splits += c.splits;
        saves += c.saves;
    }
    print_message("%d splits, %d saves\n", splits, saves);
    assert_true(splits > 200 && saves > 200);
}

/* Without a start value, each half finds solutions of its own; the better one is the optimum. */
static void halves_find_the_optimum(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    for (int round = 0; round < 100; round++) {
        int n = 3 + random_below(&random, 6);
        struct instance *in = test_instance(&random, n, 2 + random_below(&random, 6), 99);
        struct search *one = search_new(in), *a = search_new(in), *b = search_new(in);
        assert_true(one && a && b);
        search_whole(one);
        (void)search_run(one, FOREVER);
        search_whole(a);
        (void)search_run(a, 1 + (uint64_t)random_below(&random, n));
        struct bytes half = {0};
        struct fail f;
        if (search_split(a, 2, &half) == 1) {
            assert_int_equal(search_load(b, half.p, half.n, &f), 0);
            search_upper(b, search_get_upper(a));
            (void)search_run(b, FOREVER);
            search_upper(a, search_get_upper(b));
        }
        (void)search_run(a, FOREVER);
        assert_int_equal(search_get_upper(a) < search_get_upper(b) ? search_get_upper(a) : search_get_upper(b),
                         search_get_upper(one));
        bytes_done(&half);
        search_free(one);
        search_free(a);
        search_free(b);
        instance_free(in);
    }
}

static void refused_task_changes_nothing(void **state) {
    (void)state;
    struct instance *in = test_taillard(2), *other = test_taillard(3);
    struct search *s = search_new(in), *t = search_new(other);
    assert_true(s && t);
    search_upper(s, test_optimum(2));
    search_whole(s);
    (void)search_run(s, 5);
    struct bytes left = {0}, same = {0}, foreign = {0};
    assert_int_equal(search_save(s, &left), 1);
    search_whole(t);
    assert_int_equal(search_save(t, &foreign), 1);
    struct fail f;
    assert_int_equal(search_load(s, foreign.p, foreign.n, &f), -1);
    assert_int_equal(search_load(s, NULL, 0, &f), -1);
    assert_int_equal(search_save(s, &same), 1);
    assert_int_equal(same.n, left.n);
    assert_memory_equal(same.p, left.p, left.n);
    assert_int_equal(search_run(s, FOREVER), SEARCH_DONE);
    bytes_done(&same);
    assert_int_equal(search_save(s, &same), 0);
    assert_int_equal(search_split(s, 1, &same), 0);
    assert_int_equal(search_open(s, 1), 0);
    assert_int_equal(same.n, 0);
    bytes_done(&left);
    bytes_done(&foreign);
    search_free(s);
    search_free(t);
    instance_free(in);
    instance_free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force), cmocka_unit_test(proves_known_optima),
        cmocka_unit_test(slices_are_exact),        cmocka_unit_test(splitting_neither_repeats_nor_loses),
        cmocka_unit_test(halves_find_the_optimum), cmocka_unit_test(refused_task_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
