/* SPDX-License-Identifier: Apache-2.0 */
/* Who drives the loop: take-over, hand-back, and nobody awake when nothing happens. */
#include "exec/exec.h"

#include "exec/testing.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

/* ---- a descriptor whose callback says on which thread it ran ---- */

struct bell {
    struct exec *x;
    struct exec_fd *f;
    int fd;
    atomic_int rung;
    atomic_bool on_node;
    struct exec_waiter *waiter;
};

static void on_bell(struct exec_fd *f, int events, void *arg) {
    struct bell *b = arg;
    eventfd_t v;
    FIBER_ASSERT(f == b->f && events == UV_READABLE);
    FIBER_ASSERT_INT(eventfd_read(b->fd, &v), 0);
    atomic_store(&b->on_node, exec_on_node_thread(b->x));
    atomic_fetch_add(&b->rung, 1);
    if (b->waiter) exec_wake(b->x, b->waiter, 1);
}

/* Lock held. */
static void bell_open(struct bell *b, struct exec *x) {
    *b = (struct bell){.x = x, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    FIBER_ASSERT(b->fd >= 0);
    b->f = exec_fd_new(x, b->fd, UV_READABLE, on_bell, b);
    FIBER_ASSERT(b->f);
}
static void bell_close(struct bell *b) {
    exec_fd_free(b->f, true, NULL);
}
static void ring(struct bell *b) {
    FIBER_ASSERT_INT(eventfd_write(b->fd, 1), 0);
}

/* User code that computes until I/O has happened behind its back. No clock: without take-over it hangs. */
static void compute_until_rung(struct exec *x, void *arg) {
    struct bell *b = arg;
    int before = atomic_load(&b->rung);
    exec_user_enter(x);
    ring(b);
    while (atomic_load(&b->rung) == before) {
    }
    exec_user_leave(x);
    FIBER_ASSERT(!atomic_load(&b->on_node));
}

static void test_take_over(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct bell b;
    exec_lock(x);
    bell_open(&b, x);
    struct crew c = {.x = x};
    for (int i = 0; i < 10; i++) {
        crew_go(&c, compute_until_rung, &b);
        crew_wait(&c);
    }
    bell_close(&b);
    exec_unlock(x);
    assert_int_equal(atomic_load(&b.rung), 10);
    exec_free(x);
}

/* A method that calls the library all the time never polls either. */
static void call_until_rung(struct exec *x, void *arg) {
    struct bell *b = arg;
    int before = atomic_load(&b->rung);
    exec_user_enter(x);
    ring(b);
    while (atomic_load(&b->rung) == before) {
        exec_user_leave(x);
        exec_attention(x);
        exec_user_enter(x);
    }
    exec_user_leave(x);
    FIBER_ASSERT(!atomic_load(&b->on_node));
}

static void test_take_over_from_caller(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct bell b;
    exec_lock(x);
    bell_open(&b, x);
    struct crew c = {.x = x};
    for (int i = 0; i < 5; i++) {
        crew_go(&c, call_until_rung, &b);
        crew_wait(&c);
    }
    bell_close(&b);
    exec_unlock(x);
    exec_free(x);
}

/* The main program computes: the same holds, from the start. */
static void test_main_computes(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct bell b;
    exec_lock(x);
    bell_open(&b, x);
    exec_unlock(x);
    for (int i = 0; i < 5; i++) {
        int before = atomic_load(&b.rung);
        ring(&b);
        while (atomic_load(&b.rung) == before) {
        }
    }
    exec_lock(x);
    bell_close(&b);
    exec_unlock(x);
    exec_free(x);
}

/* Then the node thread waits, has the loop back, and handles I/O itself; again and again. "Until" and not "at once",
 * since on a crowded machine the progress thread may rightly take over again before this thread gets a processor. */
static void test_hand_back(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct bell b;
    exec_lock(x);
    bell_open(&b, x);
    struct crew c = {.x = x};
    for (int i = 0; i < 20; i++) {
        crew_go(&c, compute_until_rung, &b);
        crew_wait(&c);
        do {
            struct exec_waiter w;
            exec_waiter_init(x, &w);
            b.waiter = &w;
            ring(&b);
            assert_int_equal(exec_wait(x, &w, UINT64_MAX), 1);
            b.waiter = NULL;
        } while (!atomic_load(&b.on_node));
    }
    bell_close(&b);
    exec_unlock(x);
    exec_free(x);
}

/* Whoever becomes runnable while the progress thread drives runs on the node thread, and not before it is free. */
struct shift {
    struct bell *b;
    atomic_bool computing;
    int woken;
};
static void sleeper(struct exec *x, void *arg) {
    struct shift *s = arg;
    struct exec_waiter w;
    exec_waiter_init(x, &w);
    s->b->waiter = &w;
    exec_wait(x, &w, UINT64_MAX);
    s->b->waiter = NULL;
    FIBER_ASSERT(exec_on_node_thread(x));
    FIBER_ASSERT(!atomic_load(&s->computing));
    s->woken++;
}
static void computer(struct exec *x, void *arg) {
    struct shift *s = arg;
    atomic_store(&s->computing, true);
    compute_until_rung(x, s->b);
    atomic_store(&s->computing, false);
}

static void test_runnable_waits_for_node(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct bell b;
    exec_lock(x);
    bell_open(&b, x);
    struct shift s = {.b = &b};
    struct crew c = {.x = x};
    for (int i = 0; i < 10; i++) {
        crew_go(&c, sleeper, &s);
        crew_go(&c, computer, &s);
        crew_wait(&c);
    }
    assert_int_equal(s.woken, 10);
    bell_close(&b);
    exec_unlock(x);
    exec_free(x);
}

/* Long tasks one after another, during each of which the progress thread drives: the main context has its turn. */
struct flow {
    struct bell b;
    struct crew crew;
    atomic_bool stop;
    int ran, after; /* after: behind the stop */
    bool over;
};
static void flow_on(struct exec *x, void *arg) {
    struct flow *f = arg;
    f->ran++;
    f->after += atomic_load(&f->stop);
    compute_until_rung(x, &f->b);
    if (f->ran == 5) atomic_store(&f->stop, true);
    if (!f->over && f->after < 100) crew_go(&f->crew, flow_on, f);
}

static void test_serve_among_long_tasks(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct flow f = {.crew = {.x = x}};
    exec_lock(x);
    bell_open(&f.b, x);
    for (int i = 0; i < 2; i++) crew_go(&f.crew, flow_on, &f);
    assert_int_equal(exec_serve(x, &f.stop, UINT64_MAX), 0);
    int after = f.after;
    f.over = true;
    crew_wait(&f.crew);
    bell_close(&f.b);
    exec_unlock(x);
    exec_free(x);
    assert_true(f.ran >= 5);
    assert_in_range(after, 0, 2);
}

/* A halted node runs no user code any more, but its loop turns. */
static void never(struct exec *x, void *arg) {
    (void)x, (void)arg;
    FIBER_FAIL("ran after the halt");
}

static void test_halt(void **state) {
    (void)state;
    struct exec *x = test_exec(&(struct exec_cfg){.own_thread = true});
    struct bell b;
    static struct crew c; /* what never ran is never counted */
    c = (struct crew){.x = x};
    exec_lock(x);
    bell_open(&b, x);
    exec_unlock(x);
    exec_halt(x);
    exec_halt(x);
    for (int i = 0; i < 3; i++) {
        int before = atomic_load(&b.rung);
        ring(&b);
        while (atomic_load(&b.rung) == before) {
        }
    }
    struct hand h = {{.run = hand_run}, &c, never, NULL};
    exec_lock(x);
    exec_submit(x, &h.task);
    bell_close(&b);
    exec_unlock(x);
    exec_free(x);
}

/* Hooks run by the driver, whoever it is, and timers too. */
struct hooked {
    struct exec_hook hook;
    atomic_int calls;
};
static void on_hook(struct exec_hook *h) {
    atomic_fetch_add(&((struct hooked *)(void *)h)->calls, 1);
}

struct hook_user {
    struct hooked *h;
    atomic_int *fired;
};
static struct exec_timer tick_timer;
static atomic_int ticks;
static void on_tick(struct exec *x, struct exec_timer *t) {
    (void)x, (void)t;
    atomic_fetch_add(&ticks, 1);
}

static void compute_for_hooks(struct exec *x, void *arg) {
    struct hooked *h = arg;
    int before = atomic_load(&h->calls), fired = atomic_load(&ticks);
    exec_timer_set(x, &tick_timer, exec_now(x) + 3 * (moyai_ns)MOYAI_MS);
    exec_user_enter(x);
    while (atomic_load(&h->calls) == before || atomic_load(&ticks) == fired) {
    }
    before = atomic_load(&h->calls);
    exec_user_leave(x);
    exec_attention(x); /* the progress thread polls: it is woken for the hooks */
    exec_user_enter(x);
    while (atomic_load(&h->calls) == before) {
    }
    exec_user_leave(x);
}

static void test_hooks_and_timers(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct hooked h = {.hook = {.fn = on_hook}}, gone = {.hook = {.fn = on_hook}};
    exec_timer_init(&tick_timer, on_tick);
    exec_lock(x);
    exec_hook_add(x, &gone.hook);
    exec_hook_add(x, &h.hook);
    exec_hook_remove(x, &gone.hook);
    struct crew c = {.x = x};
    crew_go(&c, compute_for_hooks, &h);
    crew_wait(&c);
    exec_hook_remove(x, &h.hook);
    exec_unlock(x);
    assert_int_equal(atomic_load(&gone.calls), 0);
    exec_free(x);
}

/* ---- idle ---- */

/* Voluntary context switches of exec's threads: every wake-up that sleeps again is one. (TSan has a thread that ticks.)
 */
static long switches(void) {
    long sum = 0;
    DIR *d = opendir("/proc/self/task");
    FIBER_ASSERT(d);
    struct dirent *e;
    while ((e = readdir(d))) {
        char path[300], line[128];
        bool ours = false;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        FILE *f = fopen(path, "re");
        if (!f) continue;
        while (fgets(line, sizeof line, f)) {
            long n;
            if (strncmp(line, "Name:\tmoyai-", 12) == 0) ours = true;
            if (ours && sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1) sum += n;
        }
        fclose(f);
    }
    closedir(d);
    return sum;
}

/* Time must pass for anything to be seen to happen or not: these sleeps wait for nothing. */
static long switches_in(long ms) {
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    long before = switches();
    nanosleep(&ts, NULL);
    return switches() - before;
}

static void wait_until_quiet(void) {
    while (switches_in(150) > 0) {
    }
}

/* On a crowded machine a thread that still ticks may have got no processor while wait_until_quiet looked, so the first
 * two seconds need not be the quiet ones; one that goes on ticking never has two quiet seconds. */
static long idle_wakeups(void) {
    long n = switches_in(2000);
    for (int i = 0; i < 4 && n > 0; i++) n = switches_in(2000);
    return n;
}

static void test_idle_node_sleeps(void **state) {
    (void)state;
    struct exec *x = test_exec(&(struct exec_cfg){.own_thread = true});
    wait_until_quiet();
    long idle = idle_wakeups();
    printf("# node in its poll: %ld wake-ups in 2 s\n", idle);
    assert_int_equal(idle, 0);
    exec_free(x);
}

/* The main program sleeps by itself: the progress thread sits in the poll. */
static void test_idle_program_sleeps(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct bell b;
    exec_lock(x);
    bell_open(&b, x);
    exec_unlock(x);
    wait_until_quiet();
    long idle = idle_wakeups();
    printf("# node in sleep(): %ld wake-ups in 2 s\n", idle);
    assert_int_equal(idle, 0);
    ring(&b);
    while (atomic_load(&b.rung) == 0) {
    } /* and is awake when something comes */
    exec_lock(x);
    bell_close(&b);
    exec_unlock(x);
    exec_free(x);
}

/* Roused again after it slept. */
static void test_take_over_after_sleep(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct bell b;
    exec_lock(x);
    bell_open(&b, x);
    struct crew c = {.x = x};
    for (int i = 0; i < 3; i++) {
        struct exec_waiter w;
        exec_waiter_init(x, &w);
        assert_int_equal(exec_wait(x, &w, exec_now(x) + 250 * (moyai_ns)MOYAI_MS), MOYAI_ETIMEDOUT);
        crew_go(&c, compute_until_rung, &b);
        crew_wait(&c);
    }
    bell_close(&b);
    exec_unlock(x);
    exec_free(x);
}

static void test_private_memory(void **state) {
    (void)state;
    struct exec *x = test_exec(&(struct exec_cfg){.own_thread = true});
    wait_until_quiet();
    FILE *f = fopen("/proc/self/smaps_rollup", "re");
    long kib = 0, n;
    char line[128];
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "Private_Clean: %ld", &n) == 1 || sscanf(line, "Private_Dirty: %ld", &n) == 1) kib += n;
    fclose(f);
    printf("# an idle process with one exec: %ld KiB private\n", kib);
    if (!FIBER_SANITIZED && !FIBER_ON_VALGRIND) assert_true(kib < 2048);
    exec_free(x);
}

int main(void) {
    hang_guard();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_private_memory),
        cmocka_unit_test(test_take_over),
        cmocka_unit_test(test_take_over_from_caller),
        cmocka_unit_test(test_main_computes),
        cmocka_unit_test(test_hand_back),
        cmocka_unit_test(test_runnable_waits_for_node),
        cmocka_unit_test(test_serve_among_long_tasks),
        cmocka_unit_test(test_hooks_and_timers),
        cmocka_unit_test(test_idle_node_sleeps),
        cmocka_unit_test(test_idle_program_sleeps),
        cmocka_unit_test(test_take_over_after_sleep),
        cmocka_unit_test(test_halt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
