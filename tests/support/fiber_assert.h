/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions for code that may run on a fiber or on another thread: cmocka's own leave by longjmp, which must not
 * leave a fiber's stack, so these print and end the test process.
 */
#ifndef TESTS_FIBER_ASSERT_H
#define TESTS_FIBER_ASSERT_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FIBER_SANITIZED 1
#elif defined(__has_feature)
#define FIBER_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define FIBER_SANITIZED 0
#endif
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define FIBER_ON_VALGRIND (RUNNING_ON_VALGRIND != 0)
#else
#define FIBER_ON_VALGRIND false
#endif

/* n of something for a plain build; fewer where everything is 10 to 50 times slower. */
#define FIBER_SCALE(n, sanitized, valgrind) (FIBER_ON_VALGRIND ? (valgrind) : FIBER_SANITIZED ? (sanitized) : (n))

/* Of a test's child: the test would wait for what it cannot do any more, and has failed. */
static inline void fiber_tell_parent(void) {
    const char *parent = getenv("KIT_PARENT"); /* tests/public/kit.c */
    if (parent && getppid() == (pid_t)strtol(parent, NULL, 10)) kill(getppid(), SIGKILL);
}

#define FIBER_FAIL(...)                                                                                                \
    do {                                                                                                               \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                                \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fputc('\n', stderr);                                                                                           \
        fiber_tell_parent();                                                                                           \
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
