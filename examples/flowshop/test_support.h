/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of this folder share. */
#ifndef FLOWSHOP_TEST_SUPPORT_H
#define FLOWSHOP_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "instance.h"
#include "random.h"

/* Optima of Taillard's instances that tests rely on. */
static const int32_t test_optimum_1_to_20[20] = {1278, 1359, 1081, 1293, 1235, 1195, 1234, 1206, 1230, 1108,
                                                 1582, 1659, 1496, 1377, 1419, 1397, 1484, 1538, 1593, 1591};
static const int32_t test_optimum_31_to_40[10] = {2724, 2834, 2621, 2751, 2863, 2829, 2725, 2683, 2552, 2782};

static inline int32_t test_optimum(int number) {
    return number <= 20 ? test_optimum_1_to_20[number - 1] : test_optimum_31_to_40[number - 31];
}

static inline struct instance *test_taillard(int number) {
    struct fail f;
    struct instance *in = NULL;
    assert_int_equal(instance_taillard(&in, number, &f), 0);
    return in;
}

/* Random durations of 0..longest. */
static inline struct instance *test_instance(uint64_t *random, int n, int m, int longest) {
    struct fail f;
    struct instance *in = NULL;
    assert_int_equal(instance_generate(&in, "random", n, m, 1, &f), 0);
    for (int k = 0; k < n * m; k++) in->p[k] = random_below(random, longest + 1);
    return in;
}

/* The seed of a test with random input: FLOWSHOP_SEED, or a fixed one; printed. */
static inline uint64_t test_seed(const char *test) {
    const char *text = getenv("FLOWSHOP_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 20081;
    print_message("%s: FLOWSHOP_SEED=%llu\n", test, (unsigned long long)seed);
    return seed;
}

#endif
