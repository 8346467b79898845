/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of exec cost on this machine. Prints; asserts nothing. */
#include "exec/exec.h"
#include "exec/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static double clock_s(clockid_t id) {
    struct timespec ts;
    clock_gettime(id, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}
/* Processor time of this thread, so that other programs do not count; and the time that passes. */
static double now(void) {
    return clock_s(CLOCK_THREAD_CPUTIME_ID);
}
static double wall(void) {
    return clock_s(CLOCK_MONOTONIC);
}

static void report(const char *what, double seconds, long n) {
    printf("%-44s %9.1f ns\n", what, seconds / (double)n * 1e9);
}

struct bench {
    struct exec *x;
    long left, done, target;
    struct exec_waiter main;
    bool user;
};

struct job {
    struct exec_task task;
    struct bench *b;
};

static void run_job(struct exec_task *t) {
    struct bench *b = ((struct job *)t)->b;
    if (b->user) {
        exec_user_enter(b->x);
        exec_user_leave(b->x);
    }
    if (++b->done == b->target) exec_wake(b->x, &b->main, 0);
    if (b->left > 0) {
        b->left--;
        exec_submit(b->x, t);
    }
}

static void tasks(struct exec *x, long n, int at_once, bool user, const char *what) {
    struct bench b = {.x = x, .left = n - at_once, .target = n, .user = user};
    struct job *j = calloc((size_t)at_once, sizeof *j);
    exec_lock(x);
    exec_waiter_init(x, &b.main);
    double t = now();
    for (int i = 0; i < at_once; i++) {
        j[i] = (struct job){{.run = run_job}, &b};
        exec_submit(x, &j[i].task);
    }
    exec_wait(x, &b.main, UINT64_MAX);
    t = now() - t;
    exec_unlock(x);
    report(what, t, n);
    free(j);
}

struct ring {
    struct exec_task task;
    struct bench *b;
    struct ring *next;
    struct exec_waiter *w; /* where it sleeps */
};

static void run_ring(struct exec_task *t) {
    struct ring *r = (struct ring *)t;
    struct bench *b = r->b;
    struct exec_waiter w;
    while (b->left > 0) {
        b->left--;
        exec_waiter_init(b->x, &w);
        r->w = &w;
        if (r->next->w) exec_wake(b->x, r->next->w, 0);
        exec_wait(b->x, &w, UINT64_MAX);
        r->w = NULL;
    }
    if (r->next->w) exec_wake(b->x, r->next->w, 0);
    if (++b->done == b->target) exec_wake(b->x, &b->main, 0);
}

static void ring(struct exec *x, long n, int fibers) {
    struct bench b = {.x = x, .left = n, .target = fibers};
    struct ring *r = calloc((size_t)fibers, sizeof *r);
    exec_lock(x);
    exec_waiter_init(x, &b.main);
    for (int i = 0; i < fibers; i++) {
        r[i].task.run = run_ring;
        r[i].b = &b;
        r[i].next = &r[(i + 1) % fibers];
        exec_submit(x, &r[i].task);
    }
    double t = now();
    exec_wait(x, &b.main, UINT64_MAX);
    t = now() - t;
    exec_unlock(x);
    char what[64];
    snprintf(what, sizeof what, "park and wake, %d fibers in a ring", fibers);
    report(what, t, n);
    free(r);
}

static void on_fd(struct exec_fd *f, int events, void *arg) {
    (void)events;
    (void)f;
    struct bench *b = arg;
    eventfd_t v;
    eventfd_read((int)b->target, &v);
    exec_wake(b->x, &b->main, 0);
}

int main(void) {
    struct exec *x;
    struct moyai_error e;
    if (exec_new(&x, NULL, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    enum { N = 2000000 };
    double t = now();
    for (int i = 0; i < N; i++) {
        exec_lock(x);
        exec_unlock(x);
    }
    report("lock pair", now() - t, N);
    t = now();
    exec_lock(x);
    for (int i = 0; i < N; i++) {
        exec_user_enter(x);
        exec_user_leave(x);
    }
    exec_unlock(x);
    report("user code entered and left", now() - t, N);
    tasks(x, N, 100, false, "task, start to end");
    tasks(x, N, 100, true, "task with user code, start to end");
    ring(x, N, 2);
    ring(x, N, 16);
    ring(x, N, 1000);
    ring(x, N, 10000);

    struct exec_waiter w;
    exec_lock(x);
    double back = 0;
    for (int i = 0; i < 100; i++) {
        exec_unlock(x);
        for (t = wall(); wall() - t < 3e-3;) {
        } /* long enough for the progress thread to take over */
        exec_lock(x);
        t = wall();
        exec_waiter_init(x, &w);
        exec_wait(x, &w, 1); /* nothing to run: one turn of the loop */
        back += wall() - t;
    }
    report("first turn after 3 ms of user code", back, 100);
    t = now();
    for (int i = 0; i < N / 10; i++) exec_yield(x);
    report("NOWAIT turn of the loop (main yields)", now() - t, N / 10);
    t = now();
    for (int i = 0; i < N; i++) {
        exec_waiter_init(x, &w);
        exec_wake(x, &w, 0);
        exec_wait(x, &w, UINT64_MAX);
    }
    report("wait that is over before it begins", now() - t, N);
    t = now();
    struct exec_timer timer;
    exec_timer_init(&timer, NULL);
    for (int i = 0; i < N; i++) {
        exec_timer_set(x, &timer, UINT64_MAX - 1);
        exec_timer_clear(x, &timer);
    }
    report("timer set and cleared", now() - t, N);
    exec_unlock(x);

    struct bench b = {.x = x, .target = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    exec_lock(x);
    struct exec_fd *f = exec_fd_new(x, (int)b.target, UV_READABLE, on_fd, &b);
    t = wall();
    for (int i = 0; i < N / 20; i++) {
        exec_waiter_init(x, &b.main);
        eventfd_write((int)b.target, 1);
        exec_wait(x, &b.main, UINT64_MAX);
    }
    report("descriptor ready to main running (3 calls)", wall() - t, N / 20);
    exec_fd_free(f, true, NULL);
    exec_unlock(x);
    exec_free(x);
    return 0;
}
