/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/lock.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Looks before sleeping: about 2 us, what others usually need under the lock, and less than the 4-12 us of a
 * futex hand-off. */
enum { SPINS = 50 };
/* The longest that lock_retake steps back for: several hand-offs. */
enum { PASS_NS = 100000 };

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

void futex_wait(atomic_uint *word, unsigned expected, uint64_t timeout) {
    struct timespec ts = {0};
    if (timeout != UINT64_MAX) {
        ts.tv_sec = (time_t)(timeout / 1000000000u);
        ts.tv_nsec = (long)(timeout % 1000000000u);
    }
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout != UINT64_MAX ? &ts : NULL, NULL, 0);
}

void futex_wake(atomic_uint *word, int n) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

void lock_wake(struct lock *l) {
    futex_wake(&l->state, 1);
}

static void entered(struct lock *l) {
    atomic_fetch_sub_explicit(&l->waiting, 1, memory_order_relaxed);
    atomic_fetch_add(&l->entered, 1);
    if (atomic_load(&l->stepped_back)) futex_wake(&l->entered, INT_MAX);
}

void lock_slow(struct lock *l) {
    atomic_fetch_add_explicit(&l->waiting, 1, memory_order_relaxed);
    for (int i = 0; i < SPINS; i++) {
        unsigned s = atomic_load_explicit(&l->state, memory_order_relaxed);
        if (s == LOCK_FREE && atomic_compare_exchange_weak_explicit(&l->state, &s, LOCK_HELD, memory_order_acquire,
                                                                    memory_order_relaxed)) {
            entered(l);
            return;
        }
        relax();
    }
    /* Whoever slept cannot know whether others still do, so it takes the lock as SLEEPERS. */
    while (atomic_exchange_explicit(&l->state, LOCK_SLEEPERS, memory_order_acquire) != LOCK_FREE)
        futex_wait(&l->state, LOCK_SLEEPERS, UINT64_MAX);
    entered(l);
}

void lock_close(struct lock *l) {
    atomic_store(&l->closed, 1);
    atomic_fetch_add(&l->waiting, 1); /* so that it is passed on */
}

void lock_open(struct lock *l) {
    atomic_fetch_sub(&l->waiting, 1);
    atomic_store(&l->closed, 0);
    futex_wake(&l->closed, INT_MAX);
}

void lock_retake_slow(struct lock *l, unsigned seen) {
    if (atomic_load(&l->closed)) {
        futex_wait(&l->closed, 1, UINT64_MAX); /* if it returns early, nothing is lost but time */
        return;
    }
    atomic_store(&l->stepped_back, 1);
    if (atomic_load(&l->entered) == seen) futex_wait(&l->entered, seen, PASS_NS);
    atomic_store(&l->stepped_back, 0);
}
