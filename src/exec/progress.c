/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress thread: drives the loop while the node thread is busy elsewhere. The laws are in exec.c. That libuv's
 * loop may be watched by its descriptor in one thread and turned in another is documented with uv_backend_fd; it has no
 * timers of libuv's here, which a watcher could not see.
 *
 * Awake, it looks once a millisecond at `turns`, which is odd while somebody is in uv_run and changes with every turn:
 *
 *   changed since the last look   the node is active and polls by itself
 *   same and odd                  the node thread sits in the poll; after QUIET_LOOKS of these: sleep
 *   same and even                 nobody has polled for a millisecond, whatever the node thread does: drive
 *
 * A time stamp of the entry into user code was tried on paper and dropped: a method that calls the library every half
 * a millisecond would renew it for ever, and nobody would poll.
 *
 * The looks also beat `tick`, by which the scheduler knows without reading a clock that a millisecond has passed since
 * the last poll of its own. While the thread watches, the tick is ahead of the one the node thread has seen, which so
 * polls as soon as user code lets it. While the thread sleeps, nothing of a millisecond has run.
 */
#include "exec/impl.h"

#include "base/err.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

enum { LOOK_NS = 1000000, QUIET_LOOKS = 100 };

/* Touched pages only count, so this is room for the layers' callbacks (TLS handshakes) and not memory. */
enum { STACK = 256 << 10 };
/* The sanitizers put large state of their own on a thread's stack. */
#if defined(FIBER_ASAN) || defined(FIBER_TSAN)
enum { STACK_MIN = 4 << 20 };
#else
enum { STACK_MIN = 64 << 10 };
#endif

/* Block until there is something for the loop to do, or the watcher is called. Lock held, and released meanwhile. */
static void watch(struct exec *x) {
    struct pollfd fds[] = {
        {.fd = uv_backend_fd(&x->loop), .events = POLLIN},
        {.fd = x->watch_fd, .events = POLLIN},
    };
    eventfd_t calls;
    loop_arm(x);
    x->watching = true;
    exec_unlock(x);
    poll(fds, 2, -1);
    if (fds[1].revents) eventfd_read(x->watch_fd, &calls);
    exec_lock(x);
    x->watching = false;
    x->wake_sent = false;
}

/* Drive and watch until the node thread has polled by itself. Turns follow one another until one has found nothing, as
 * what a callback has left to the hooks or to the loop must be done before this thread blocks. Lock held. */
static void drive(struct exec *x) {
    unsigned turns;
    do {
        loop_turn(x, DRIVER_PROGRESS, false);
        turns = atomic_load_explicit(&x->turns, memory_order_relaxed);
        if (x->stirred) {
            unsigned entered;
            bool crowded = lock_pass(&x->lock, &entered);
            lock_retake(&x->lock, crowded, entered);
            x->now = 0;
        } else {
            watch(x);
        }
    } while (!x->stop && turns == atomic_load_explicit(&x->turns, memory_order_relaxed));
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
    loop_wake(x);
    exec_unlock(x);
    pthread_join(x->progress, NULL);
}
