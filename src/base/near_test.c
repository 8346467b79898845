/* SPDX-License-Identifier: Apache-2.0 */
#include "base/near.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void mistakes(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        size_t n;
    } some[] = {
        {"", "", 0},         {"", "abc", 3},      {"abc", "abc", 0},
        {"abc", "ab", 1},    {"abc", "axc", 1},   {"abc", "acb", 1},
        {"abcd", "badc", 2}, {"grid", "gird", 1}, {"kitten", "sitting", 3},
        {"ca", "abc", 3}, /* nothing is mended twice */
    };
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        assert_int_equal(near_mistakes(some[i].a, some[i].b), some[i].n);
        assert_int_equal(near_mistakes(some[i].b, some[i].a), some[i].n);
    }
    char longest[NEAR_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[NEAR_MAX] = 0;
    assert_int_equal(near_mistakes(longest, longest), 0);
    assert_int_equal(near_mistakes(longest, ""), NEAR_MAX);
    longest[NEAR_MAX] = 'x';
    longest[NEAR_MAX + 1] = 0;
    assert_true(near_mistakes(longest, longest) == SIZE_MAX);
    assert_true(near_mistakes("", longest) == SIZE_MAX);
}

static void nearest(void **state) {
    (void)state;
    size_t least = SIZE_MAX;
    assert_false(near_is("adder", "subtracter", &least));
    assert_false(near_is("ab", "ac", &least)); /* of so little nothing is like */
    assert_true(near_is("abc", "abd", &least));
    least = SIZE_MAX;
    assert_false(near_is("adder", "oder", &least)); /* two of five */
    assert_true(near_is("worker", "orkers", &least));
    assert_false(near_is("worker", "wrokres", &least));
    assert_true(near_is("worker", "worked", &least));
    assert_false(near_is("worker", "worken", &least)); /* not nearer than that */
    assert_int_equal(least, 1);
}

static void the_nearest_of_many(void **state) {
    (void)state;
    struct near n = {.wanted = "worker", .least = SIZE_MAX};
    assert_true(near_look("master", &n));
    assert_string_equal(n.name, "");
    assert_true(near_look("wokers", &n));
    assert_string_equal(n.name, "wokers");
    assert_true(near_look("workers", &n));
    assert_string_equal(n.name, "workers");
    assert_true(near_look("wrokers", &n));
    assert_string_equal(n.name, "workers");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(mistakes), cmocka_unit_test(the_nearest_of_many),
                                       cmocka_unit_test(nearest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
