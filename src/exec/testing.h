/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of exec share: one node, functions run on fibers, and an end for tests that hang. */
#ifndef EXEC_TESTING_H
#define EXEC_TESTING_H

#include "exec/exec.h"
#include "tests/support/fiber_assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Long enough for valgrind on a busy machine; SIGALRM ends the process. */
static inline void hang_guard(void) {
    alarm(300);
}

static inline struct exec *test_exec(const struct exec_cfg *cfg) {
    struct exec *x = NULL;
    struct moyai_error e;
    if (exec_new(&x, cfg, &e) < 0) FIBER_FAIL("exec_new: %s", e.text);
    return x;
}

/* fn(arg) on a fiber; whoever started several waits for all with crew_wait. */
struct crew {
    struct exec *x;
    int left;
    struct exec_waiter *waiter;
};
struct hand {
    struct exec_task task;
    struct crew *crew;
    void (*fn)(struct exec *x, void *arg);
    void *arg;
};

static inline void hand_run(struct exec_task *t) {
    struct hand *h = (struct hand *)(void *)t;
    struct crew *c = h->crew;
    h->fn(c->x, h->arg);
    free(h);
    if (--c->left == 0 && c->waiter) exec_wake(c->x, c->waiter, 7);
}

/* Lock held. */
static inline void crew_go(struct crew *c, void (*fn)(struct exec *, void *), void *arg) {
    struct hand *h = malloc(sizeof *h);
    FIBER_ASSERT(h);
    *h = (struct hand){{.run = hand_run}, c, fn, arg};
    c->left++;
    exec_submit(c->x, &h->task);
}

/* Lock held. */
static inline void crew_wait(struct crew *c) {
    struct exec_waiter w;
    if (c->left == 0) return;
    exec_waiter_init(c->x, &w);
    c->waiter = &w;
    FIBER_ASSERT_INT(exec_wait(c->x, &w, UINT64_MAX), 7);
    c->waiter = NULL;
}

static inline moyai_ns boot_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (moyai_ns)ts.tv_sec * 1000000000u + (moyai_ns)ts.tv_nsec;
}

#endif
