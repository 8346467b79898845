/* SPDX-License-Identifier: Apache-2.0 */
/* Without memory every function says so, leaves nothing behind and changes nothing. */
#include "test_support.h"

#include "check.h"
#include "greedy.h"
#include "search.h"
#include "tests/support/alloc.h"
#include "timeline.h"

static void instances(void **state) {
    (void)state;
    static const char text[] = "n m seed ub lb\n3 2 0 9 9\ntimes\n3 1 2\n2 4 2\n";
    int failures = 0;
    for (long k = 1; alloc_next(&k, ALLOC_ONE); k++) {
        struct instance *in = NULL;
        struct fail f;
        struct bytes b = {0};
        if (instance_parse(&in, text, strlen(text), "f", 1, &f) == 0) instance_save(in, &b);
        instance_free(in);
        in = NULL;
        if (b.n > 0 && !b.failed && instance_load(&in, b.p, b.n, &f)) {
            assert_string_equal(f.text, "f:1: out of memory");
            assert_null(in);
        }
        failures += alloc_hit();
        assert_true(alloc_hit() || in);
        instance_free(in);
        bytes_done(&b);
    }
    (void)alloc_disarm();
    assert_true(failures >= 3);
}

/* A split, save or load that fails leaves the search as it was: all its nodes are still explored. */
static void searches(void **state) {
    (void)state;
    struct instance *in = test_taillard(5);
    int failures = 0;
    uint64_t all = 0;
    for (long k = 0; k == 0 || alloc_next(&k, ALLOC_ONE); k++) {
        struct search *s = search_new(in), *t = search_new(in);
        struct bytes half = {0}, rest = {0};
        struct fail f;
        if (s && t) {
            search_upper(s, test_optimum(5));
            search_upper(t, test_optimum(5));
            search_whole(s);
            (void)search_run(s, 100);
            int split = search_split(s, 4, &half), save = search_save(s, &rest);
            assert_false(half.failed || rest.failed);
            assert_int_equal(split > 0, half.n > 0);
            assert_int_equal(save > 0, rest.n > 0);
            int loaded = split > 0 ? search_load(t, half.p, half.n, &f) : -1;
            if (loaded && split > 0) {
                assert_string_equal(f.text, "task: out of memory");
                assert_int_equal(search_load(t, half.p, half.n, &f), 0);
            }
            (void)search_run(s, UINT64_MAX);
            (void)search_run(t, UINT64_MAX);
            if (k == 0) all = search_nodes(s) + search_nodes(t);
            assert_int_equal(search_nodes(s) + search_nodes(t), all);
        }
        if (k > 0) failures += alloc_hit();
        search_free(s);
        search_free(t);
        bytes_done(&half);
        bytes_done(&rest);
    }
    (void)alloc_disarm();
    assert_true(failures >= 10);
    instance_free(in);
}

static void the_rest(void **state) {
    (void)state;
    struct instance *in = test_taillard(1);
    static const struct timeline_sample sample = {0, 1, 0, 1};
    static const struct timeline_event event = {0.5, "half", TIMELINE_NOTE};
    const struct timeline t = {
        .title = "picture", .seconds = 1, .samples = &sample, .n_samples = 1, .events = &event, .n_events = 1};
    int failures = 0;
    for (long k = 1; alloc_next(&k, ALLOC_ONE); k++) {
        uint16_t perm[INSTANCE_MAX_JOBS];
        struct fail f;
        struct bytes b = {0};
        int32_t neh = greedy_neh(in, perm);
        if (neh >= 0 && check_solution(in, perm, 20, neh, &f)) assert_string_equal(f.text, "ta001: out of memory");
        int32_t best = greedy_search(in, 0, 1, 0, perm);
        assert_true(best >= -1 && best <= 1286);
        timeline_draw(&t, &b);
        bool complaint = neh < 0 || best < 0 || b.failed;
        assert_true(alloc_hit() || !complaint);
        failures += alloc_hit();
        bytes_done(&b);
    }
    (void)alloc_disarm();
    assert_true(failures >= 5);
    instance_free(in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instances),
        cmocka_unit_test(searches),
        cmocka_unit_test(the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
