/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions for code that may run on a fiber or on another thread: cmocka's own leave by longjmp, which must not
 * leave a fiber's stack, so these print and end the test process.
 */
#ifndef TESTS_FIBER_ASSERT_H
#define TESTS_FIBER_ASSERT_H

#include <stdio.h>
#include <unistd.h>

#define FIBER_FAIL(...)                                                                                                \
    do {                                                                                                               \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                                \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fputc('\n', stderr);                                                                                           \
        _exit(1);                                                                                                      \
    } while (0)

#define FIBER_ASSERT(cond)                                                                                             \
    do {                                                                                                               \
        if (!(cond)) FIBER_FAIL("%s: not true: %s", __func__, #cond);                                                  \
    } while (0)

#define FIBER_ASSERT_INT(a, b)                                                                                         \
    do {                                                                                                               \
        long long fiber_a = (long long)(a), fiber_b = (long long)(b);                                                  \
        if (fiber_a != fiber_b) FIBER_FAIL("%s: %s is %lld, not %s = %lld", __func__, #a, fiber_a, #b, fiber_b);       \
    } while (0)

#endif
