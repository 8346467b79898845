/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "search.h"
#include "task.h"

/* A task as it comes from a search in the middle of its work. */
static struct bytes some_task(const struct instance *in, int most_nodes, uint64_t *random) {
    struct search *s = search_new(in);
    assert_non_null(s);
    search_whole(s);
    struct bytes b = {0};
    (void)search_run(s, (uint64_t)random_below(random, most_nodes));
    if (random_below(random, 2) || search_split(s, 1, &b) == 0) (void)search_save(s, &b);
    search_free(s);
    return b;
}

static int decode(const struct instance *in, const uint8_t *p, size_t n, struct bytes *again, struct fail *f) {
    uint8_t *exact = malloc(n + 1); /* of the very size, so that reading on is noticed */
    assert_non_null(exact);
    if (n > 0) memcpy(exact, p, n);
    struct task *t;
    int rc = task_decode(&t, in, exact, n, f);
    free(exact);
    if (rc) return rc;
    task_encode(t, in, again);
    free(t);
    return 0;
}

static void tasks_have_one_form(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    size_t largest = 0;
    for (int round = 0; round < 400; round++) {
        struct instance *in = test_instance(&random, 2 + random_below(&random, 20), 1 + random_below(&random, 8), 99);
        struct bytes b = some_task(in, 200, &random), again = {0};
        struct fail f;
        if (b.n > 0) {
            assert_int_equal(decode(in, b.p, b.n, &again, &f), 0);
            assert_int_equal(again.n, b.n);
            assert_memory_equal(again.p, b.p, b.n);
            for (size_t cut = 0; cut < b.n; cut++) assert_int_equal(decode(in, b.p, cut, &again, &f), -1);
            bytes_put(&b, 0, 1);
            assert_int_equal(decode(in, b.p, b.n, &again, &f), -1);
            largest = largest > b.n ? largest : b.n;
        }
        bytes_done(&again);
        bytes_done(&b);
        instance_free(in);
    }
    print_message("largest task of up to 21 jobs: %zu bytes\n", largest);
    assert_true(largest > 50 && largest < 700);
}

/* Random damage: an error with a text, or a task that a search takes and searches to the end. */
static void any_bytes_are_a_task_or_an_error(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    int good = 0, bad = 0;
    for (int round = 0; round < 300; round++) {
        struct instance *in = test_instance(&random, 2 + random_below(&random, 6), 2, 9);
        struct search *s = search_new(in);
        assert_non_null(s);
        struct bytes b = some_task(in, 2 * in->n, &random);
        for (int k = 0; k < 60 && b.n > 0; k++) {
            uint8_t damaged[256];
            size_t n = b.n < sizeof damaged ? b.n : sizeof damaged;
            memcpy(damaged, b.p, n);
            for (int hits = 1 + random_below(&random, 3); hits > 0; hits--)
                damaged[5 + random_below(&random, (int)n - 5)] = (uint8_t)random_below(&random, k % 2 ? 8 : 256);
            struct bytes again = {0};
            struct fail f = {.text = ""};
            if (decode(in, damaged, n, &again, &f) == 0) {
                good++;
                assert_int_equal(again.n, n);
                assert_memory_equal(again.p, damaged, n);
                assert_int_equal(search_load(s, damaged, n, &f), 0);
                assert_int_equal(search_run(s, 100000), SEARCH_DONE);
            } else {
                bad++;
                assert_int_equal(strncmp(f.text, "task: ", 6), 0);
            }
            bytes_done(&again);
        }
        bytes_done(&b);
        search_free(s);
        instance_free(in);
    }
    print_message("damaged tasks: %d still tasks, %d refused\n", good, bad);
    assert_true(good > 100 && bad > 100);
}

static void noise_is_refused(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    struct instance *in = test_taillard(1);
    for (int round = 0; round < 20000; round++) {
        uint8_t noise[64];
        size_t n = (size_t)random_below(&random, sizeof noise);
        for (size_t k = 0; k < n; k++) noise[k] = (uint8_t)random_below(&random, round % 2 ? 4 : 256);
        struct bytes start = {0}, again = {0};
        struct fail f;
        bytes_put(&start, 'T', 1);
        bytes_put(&start, instance_fingerprint(in), 4);
        assert_false(start.failed);
        if (n >= 5 && round % 4 > 0)
            memcpy(noise, start.p, 5);
        else if (n > 0)
            noise[0] = 0;
        if (decode(in, noise, n, &again, &f) == 0) assert_true(round % 4 > 0 && again.n == n);
        bytes_done(&start);
        bytes_done(&again);
    }
    instance_free(in);
}

static void rules_are_enforced(void **state) {
    (void)state;
    uint64_t random = 1;
    struct instance *in = test_instance(&random, 4, 2, 9), *other = test_instance(&random, 4, 2, 9);
    static const struct {
        uint16_t word[16]; /* after 'T' and fingerprint: counts and jobs; an end is 0x100 + end, one byte */
        int n;
        const char *message; /* NULL: a good task */
    } cases[] = {
        {{0, 0, 0}, 3, NULL},
        {{1, 1, 0, 2, 3}, 5, NULL},
        {{0, 0, 1, 0x100, 2, 0, 1}, 7, NULL},
        {{1, 0, 2, 3, 0x101, 1, 0, 1, 0x100, 1, 0}, 11, NULL},
        {{2, 2, 0, 0, 1, 2, 3}, 7, "task: 2 and 2 jobs scheduled and 0 levels, of 4 jobs"},
        {{1, 0, 3, 3}, 4, "task: 1 and 0 jobs scheduled and 3 levels, of 4 jobs"},
        {{1, 0, 0, 4}, 4, "task: job 4 of 4"},
        {{1, 1, 0, 2, 2}, 5, "task: job 2 twice"},
        {{0, 0, 1, 0x102, 2, 0, 1}, 7, "task: end 2"},
        {{0, 0, 1, 0x100, 5, 0, 1, 2, 3, 3}, 10, "task: 5 open subtrees with 4 jobs free"},
        {{0, 0, 2, 0x100, 4, 0, 1, 2, 3}, 9, "task: 4 open subtrees with 4 jobs free"},
        {{0, 0, 1, 0x100, 0}, 5, "task: nothing open at its first or last level"},
        {{0, 0, 2, 0x100, 2, 0, 1, 2, 0x100, 0}, 10, "task: nothing open at its first or last level"},
        {{0, 0, 1, 0x100, 1, 0}, 6, "task: one subtree, not in its own form"},
        {{0, 0, 1, 0x100, 2, 0, 0}, 7, "task: job 0 twice"},
        {{0, 0, 2, 0x100, 2, 0, 1, 1, 0x100, 1, 0}, 11, "task: job 1 twice"},
        {{0, 0, 2, 0x100, 2, 0, 1, 2, 0x100, 1, 2}, 11, "task: job 2 twice"},
        {{0, 0, 1, 0x100, 3, 0, 1}, 7, "task: cut off"},
        {{0, 0, 0, 7}, 4, "task: 2 bytes too many"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct bytes b = {0}, again = {0};
        struct fail f = {.text = ""};
        bytes_put(&b, 'T', 1);
        bytes_put(&b, instance_fingerprint(in), 4);
        for (int i = 0; i < cases[k].n; i++) bytes_put(&b, cases[k].word[i] & 0xff, cases[k].word[i] & 0x100 ? 1 : 2);
        assert_int_equal(decode(in, b.p, b.n, &again, &f), cases[k].message ? -1 : 0);
        if (cases[k].message) assert_string_equal(f.text, cases[k].message);
        assert_int_equal(decode(other, b.p, b.n, &again, &f), -1);
        assert_string_equal(f.text, "task: of another instance than random");
        b.p[0] = 't';
        assert_int_equal(decode(in, b.p, b.n, &again, &f), -1);
        assert_string_equal(f.text, "task: not a task");
        bytes_done(&again);
        bytes_done(&b);
    }
    instance_free(in);
    instance_free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_have_one_form),
        cmocka_unit_test(any_bytes_are_a_task_or_an_error),
        cmocka_unit_test(noise_is_refused),
        cmocka_unit_test(rules_are_enforced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
