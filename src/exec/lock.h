/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node lock: a futex lock of three states (Drepper, "Futexes Are Tricky", mutex 2), and fairness on request.
 *
 * Not a pthread mutex: a fiber may release what another fiber took, which TSan takes for an error of a mutex,
 * and the lock must be cheap, since it is released and taken around every entry into user code.
 *
 * Fairness: the node thread takes the lock again within nanoseconds of releasing it, while a sleeper needs
 * microseconds to wake; a busy node would never let anybody in. So once a poll turn the driver asks, with
 * lock_pass, whether somebody waits, and lock_retake then lets one of them go first (at most PASS_NS: whoever
 * was woken may have been put off the processor). With lock_close somebody who wants many locks announces it: from then
 * on whoever passes one of them on stays out until lock_open.
 */
#ifndef EXEC_LOCK_H
#define EXEC_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { LOCK_FREE = 0, LOCK_HELD = 1, LOCK_SLEEPERS = 2 /* held, and somebody may sleep */ };

struct lock {
    atomic_uint state;
    atomic_uint waiting;      /* threads in lock_slow */
    atomic_uint entered;      /* how often lock_slow has got the lock: the futex word of lock_retake */
    atomic_uint stepped_back; /* 1: somebody sleeps in lock_retake */
    atomic_uint closed;       /* 1: who passes the lock on stays out until lock_open; a futex word */
};

void lock_slow(struct lock *l);
void lock_wake(struct lock *l);
void lock_retake_slow(struct lock *l, unsigned seen);

static inline void lock_take(struct lock *l) {
    unsigned old = LOCK_FREE;
    if (!atomic_compare_exchange_strong_explicit(&l->state, &old, LOCK_HELD, memory_order_acquire,
                                                 memory_order_relaxed))
        lock_slow(l);
}

static inline bool lock_try(struct lock *l) {
    unsigned old = LOCK_FREE;
    return atomic_compare_exchange_strong_explicit(&l->state, &old, LOCK_HELD, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void lock_release(struct lock *l) {
    if (atomic_exchange_explicit(&l->state, LOCK_FREE, memory_order_release) == LOCK_SLEEPERS) lock_wake(l);
}

/* Release the lock and say whether somebody waits for it; *seen is for lock_retake. */
static inline bool lock_pass(struct lock *l, unsigned *seen) {
    bool crowded = atomic_load_explicit(&l->waiting, memory_order_relaxed) > 0;
    *seen = atomic_load_explicit(&l->entered, memory_order_relaxed);
    lock_release(l);
    return crowded;
}

/* Take it after lock_pass said `crowded`. */
static inline void lock_retake(struct lock *l, bool crowded, unsigned seen) {
    if (crowded) lock_retake_slow(l, seen);
    lock_take(l);
}

/* The same thread closes and opens. In between it takes the lock as everybody does. */
void lock_close(struct lock *l);
void lock_open(struct lock *l);

static inline bool lock_is_held(struct lock *l) {
    return atomic_load_explicit(&l->state, memory_order_relaxed) != LOCK_FREE;
}

/* Futex words that do not leave the process. futex_wait returns at once unless *word == expected, and may return
 * early; timeout in nanoseconds from now, UINT64_MAX: none. */
void futex_wait(atomic_uint *word, unsigned expected, uint64_t timeout);
void futex_wake(atomic_uint *word, int n);

#endif
