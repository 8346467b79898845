/* SPDX-License-Identifier: Apache-2.0 */
/* The switch and the stacks, below any scheduler. */
#include "exec/fiber.h"

#include "exec/testing.h"

#include <string.h>
#include <sys/wait.h>

static struct fiber main_ctx; /* a test process is one thread */

static void pong(struct fiber *f) {
    while (!f->quit) {
        f->local = (char *)f->local + 1;
        fiber_switch(f, &main_ctx);
    }
    fiber_finish(f, &main_ctx);
}

static void test_ping_pong(void **state) {
    (void)state;
    enum { FIBERS = 100 };
    fiber_adopt_thread(&main_ctx);
    struct fiber *f[FIBERS];
    for (unsigned i = 0; i < FIBERS; i++) {
        f[i] = fiber_new(64 << 10, i, pong);
        assert_non_null(f[i]);
    }
    int rounds = FIBER_SCALE(1000, 100, 20);
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < FIBERS; i++) fiber_switch(&main_ctx, f[i]);
    for (int i = 0; i < FIBERS; i++) {
        assert_int_equal((uintptr_t)f[i]->local, rounds);
        f[i]->quit = true;
        fiber_switch(&main_ctx, f[i]);
        fiber_free(f[i]);
    }
}

__attribute__((noinline)) static unsigned deep(struct fiber *f, unsigned n) {
    volatile char frame[256];
    memset((char *)frame, (int)(n & 0x7f), sizeof frame);
    if (n == 0) fiber_switch(f, &main_ctx); /* at the bottom */
    unsigned below = n ? deep(f, n - 1) : 0;
    return below + (unsigned)frame[n % sizeof frame] - (n & 0x7f) + 1;
}

static void dive(struct fiber *f) {
    f->local = (void *)(uintptr_t)deep(f, 500);
    fiber_finish(f, &main_ctx);
}

static void test_deep_recursion(void **state) {
    (void)state;
    fiber_adopt_thread(&main_ctx);
    enum { FIBERS = 20 };
    struct fiber *f[FIBERS];
    for (unsigned i = 0; i < FIBERS; i++) {
        f[i] = fiber_new(1 << 20, i, dive);
        assert_non_null(f[i]);
        assert_true(fiber_stack_used(f[i]) <= 8192);
        fiber_switch(&main_ctx, f[i]);
        assert_true(fiber_stack_used(f[i]) >= 500 * 256 || FIBER_ON_VALGRIND || FIBER_SANITIZED);
    }
    for (unsigned i = 0; i < FIBERS; i++) {
        fiber_switch(&main_ctx, f[i]);
        assert_int_equal((uintptr_t)f[i]->local, 501);
        fiber_free(f[i]);
    }
}

/* A fiber that never ends can be freed in the middle; the memory can be used again. */
static void test_abandoned(void **state) {
    (void)state;
    fiber_adopt_thread(&main_ctx);
    for (unsigned i = 0; i < 50; i++) {
        struct fiber *f = fiber_new(1 << 20, i, dive);
        assert_non_null(f);
        fiber_switch(&main_ctx, f);
        fiber_free(f);
    }
}

/* Floating-point control belongs to the fiber: a change does not leak out of it. */
static void rounding(struct fiber *f) {
#ifdef __x86_64__
    unsigned csr = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(csr | 0x6000);
    fiber_switch(f, &main_ctx);
    f->local = (void *)(uintptr_t)((__builtin_ia32_stmxcsr() & 0x6000) == 0x6000);
#else
    f->local = (void *)(uintptr_t)1;
    fiber_switch(f, &main_ctx);
#endif
    fiber_finish(f, &main_ctx);
}

static void test_rounding(void **state) {
    (void)state;
    if (FIBER_ON_VALGRIND) return; /* which does not model it */
    fiber_adopt_thread(&main_ctx);
    struct fiber *f = fiber_new(64 << 10, 0, rounding);
    assert_non_null(f);
    fiber_switch(&main_ctx, f);
#ifdef __x86_64__
    assert_int_equal(__builtin_ia32_stmxcsr() & 0x6000, 0);
#endif
    fiber_switch(&main_ctx, f);
    assert_int_equal((uintptr_t)f->local, 1);
    fiber_free(f);
}

int main(void) {
    hang_guard();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ping_pong),
        cmocka_unit_test(test_deep_recursion),
        cmocka_unit_test(test_abandoned),
        cmocka_unit_test(test_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
