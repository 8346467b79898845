/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress thread: drives the loop while the node thread is busy elsewhere. The laws are in exec.c.
 *
 * Awake, it looks once a millisecond at `turns`, which is odd while somebody is in uv_run and changes with every turn:
 *
 *   changed since the last look   the node is active and polls by itself
 *   same and odd                  the node thread sits in the poll; after QUIET_LOOKS of these: sleep
 *   same and even                 nobody has polled for a millisecond, whatever the node thread does: take over
 *
 * A time stamp of the entry into user code was tried on paper and dropped: a method that calls the library every half
 * a millisecond would renew it for ever, and nobody would poll.
 *
 * The looks also beat `tick`, by which the scheduler knows without reading a clock that a millisecond has passed since
 * the last poll. While the thread sleeps or drives, the tick stands still: then the node thread has either been in the
 * poll or not in user code since, and its budget of tasks bounds the time between polls.
 */
#include "exec/impl.h"

#include "base/err.h"

#include <limits.h>
#include <signal.h>

enum { LOOK_NS = 1000000, QUIET_LOOKS = 100 };

/* Touched pages only count, so this is room for the layers' callbacks (TLS handshakes) and not memory. */
enum { STACK = 256 << 10 };
/* The sanitizers put large state of their own on a thread's stack. */
#if defined(FIBER_ASAN) || defined(FIBER_TSAN)
enum { STACK_MIN = 4 << 20 };
#else
enum { STACK_MIN = 64 << 10 };
#endif

static void drive(struct exec *x) {
    x->want_loop = false;
    do {
        loop_turn(x, DRIVER_PROGRESS, true);
    } while (!x->want_loop && !x->stop);
    atomic_fetch_add_explicit(&x->hand_over, 1, memory_order_relaxed);
    if (x->want_loop) futex_wake(&x->hand_over, INT_MAX);
}

/* The node thread has been in the poll for long: sleep until somebody enters user code. Lock held. */
static void sleep_until_roused(struct exec *x) {
    x->progress_asleep = true;
    while (x->progress_asleep && !x->stop) {
        unsigned word = atomic_load_explicit(&x->progress_word, memory_order_relaxed);
        exec_unlock(x);
        futex_wait(&x->progress_word, word, UINT64_MAX);
        exec_lock(x);
    }
    x->progress_asleep = false;
}

static void *progress_main(void *arg) {
    struct exec *x = arg;
    unsigned seen = atomic_load_explicit(&x->turns, memory_order_relaxed), quiet = 0;
    while (!atomic_load_explicit(&x->stop, memory_order_relaxed)) {
        futex_wait(&x->progress_word, atomic_load_explicit(&x->progress_word, memory_order_relaxed), LOOK_NS);
        atomic_fetch_add_explicit(&x->tick, 1, memory_order_relaxed);
        unsigned turns = atomic_load_explicit(&x->turns, memory_order_relaxed);
        bool same = turns == seen, polling = turns & 1;
        seen = turns;
        quiet = same && polling ? quiet + 1 : 0;
        if (!same || (polling && quiet < QUIET_LOOKS)) continue;

        exec_lock(x);
        if (!x->stop && atomic_load_explicit(&x->turns, memory_order_relaxed) == seen) {
            if (polling)
                sleep_until_roused(x);
            else if (x->driver == DRIVER_NONE)
                drive(x);
        }
        seen = atomic_load_explicit(&x->turns, memory_order_relaxed);
        exec_unlock(x);
        quiet = 0;
    }
    return NULL;
}

void progress_rouse(struct exec *x) {
    x->progress_asleep = false;
    atomic_fetch_add_explicit(&x->progress_word, 1, memory_order_relaxed);
    futex_wake(&x->progress_word, 1);
}

/* With something to run the node thread only leaves word, so that the progress thread lets go after its next event, and
 * lets others have the lock as a poll would have done. With nothing to run it waits, since it will be the one to poll.
 */
void progress_yield(struct exec *x) {
    x->want_loop = true;
    x->since_poll = 0;
    x->tick_seen = atomic_load_explicit(&x->tick, memory_order_relaxed);
    if (!x->run.first) loop_hooks(x);
    if (x->run.first) {
        unsigned entered;
        bool crowded = lock_pass(&x->lock, &entered);
        lock_retake(&x->lock, crowded, entered);
        x->now = 0;
        x->polls++;
        return;
    }
    /* Ask again each time: on a crowded machine the progress thread may have let go and taken over once more before
     * this thread got a processor. */
    while (x->driver == DRIVER_PROGRESS) {
        x->want_loop = true;
        loop_wake(x);
        unsigned word = atomic_load_explicit(&x->hand_over, memory_order_relaxed);
        exec_unlock(x);
        futex_wait(&x->hand_over, word, UINT64_MAX);
        exec_lock(x);
    }
}

int thread_start(pthread_t *t, size_t stack, const char *name, void *(*fn)(void *), void *arg) {
    sigset_t all, before;
    pthread_t self;
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc) return rc;
    sigfillset(&all);
    pthread_attr_setstacksize(&attr, stack > STACK_MIN ? stack : STACK_MIN);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&self, &attr, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (rc) return rc;
    pthread_setname_np(self, name);
    if (t)
        *t = self;
    else
        pthread_detach(self);
    return 0;
}

int progress_start(struct exec *x, struct moyai_error *reterr) {
    int rc = thread_start(&x->progress, STACK, "moyai-progress", progress_main, x);
    return rc ? err_sys(reterr, rc, "cannot make the progress thread") : 0;
}

void progress_stop(struct exec *x) {
    exec_lock(x);
    x->stop = true;
    atomic_fetch_add_explicit(&x->progress_word, 1, memory_order_relaxed);
    futex_wake(&x->progress_word, 1);
    if (x->driver == DRIVER_PROGRESS) loop_wake(x);
    exec_unlock(x);
    pthread_join(x->progress, NULL);
}
