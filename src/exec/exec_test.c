/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler on one thread: tasks, waiting, order, timers. */
#include "exec/exec.h"

#include "exec/testing.h"

#include <string.h>

/* ---- a pair of fibers that wake each other ---- */

struct pair {
    struct exec_waiter *asleep;
    int left, turns;
};

static void bounce(struct exec *x, void *arg) {
    struct pair *p = arg;
    while (p->left > 0) {
        p->left--;
        p->turns++;
        struct exec_waiter w;
        exec_waiter_init(x, &w);
        if (p->asleep) exec_wake(x, p->asleep, 11);
        p->asleep = &w;
        FIBER_ASSERT_INT(exec_wait(x, &w, UINT64_MAX), 11);
    }
    if (p->asleep) exec_wake(x, p->asleep, 11);
    p->asleep = NULL;
}

static void test_ping_pong(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    int pairs = FIBER_SCALE(2000, 100, 50);
    struct pair *p = calloc((size_t)pairs, sizeof *p);
    exec_lock(x);
    struct crew c = {.x = x};
    for (int i = 0; i < pairs; i++) {
        p[i].left = 100;
        crew_go(&c, bounce, &p[i]);
        crew_go(&c, bounce, &p[i]);
    }
    crew_wait(&c);
    assert_int_equal(exec_fibers(x), 0);
    exec_unlock(x);
    for (int i = 0; i < pairs; i++) assert_int_equal(p[i].turns, 100);
    free(p);
    exec_free(x);
}

/* ---- deep recursion that parks at every level ---- */

static int descend(struct exec *x, int n) {
    volatile char frame[200];
    memset((char *)frame, n & 0x7f, sizeof frame);
    if (n % 16 == 0) exec_yield(x);
    int below = n ? descend(x, n - 1) : 0;
    FIBER_ASSERT_INT(frame[n % 200], n & 0x7f);
    return below + 1;
}

static void recurse(struct exec *x, void *arg) {
    *(int *)arg = descend(x, 300);
}

static void test_deep_recursion(void **state) {
    (void)state;
    struct exec *x = test_exec(&(struct exec_cfg){.stack = 1 << 20});
    enum { FIBERS = 50 };
    int depth[FIBERS] = {0};
    exec_lock(x);
    struct crew c = {.x = x};
    for (int i = 0; i < FIBERS; i++) crew_go(&c, recurse, &depth[i]);
    crew_wait(&c);
    assert_true(exec_stack_used(x) >= 300 * 200 || FIBER_ON_VALGRIND || FIBER_SANITIZED);
    exec_unlock(x);
    for (int i = 0; i < FIBERS; i++) assert_int_equal(depth[i], 301);
    exec_free(x);
}

/* ---- many parked fibers and what they cost ---- */

struct gate {
    struct exec_waiter *first;
    int inside;
};

static void pass_gate(struct exec *x, void *arg) {
    struct gate *g = arg;
    struct exec_waiter w;
    exec_waiter_init(x, &w);
    w.next = g->first;
    g->first = &w;
    g->inside++;
    exec_wait(x, &w, UINT64_MAX);
    g->inside--;
}

static size_t resident(void) {
    FILE *f = fopen("/proc/self/statm", "re");
    size_t size = 0, rss = 0;
    FIBER_ASSERT(f && fscanf(f, "%zu %zu", &size, &rss) == 2);
    fclose(f);
    return rss * (size_t)sysconf(_SC_PAGESIZE);
}

static void test_many_parked(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    size_t n = (size_t)FIBER_SCALE(20000, 500, 200);
    struct gate g = {0};
    exec_lock(x);
    struct crew c = {.x = x};
    size_t before = resident();
    for (size_t i = 0; i < n; i++) crew_go(&c, pass_gate, &g);
    while ((size_t)g.inside < n) exec_yield(x);
    double each = (double)(resident() - before) / (double)n;
    assert_int_equal(exec_fibers(x), n);
    double t = (double)boot_ns();
    for (struct exec_waiter *w = g.first, *next; w; w = next) {
        next = w->next;
        exec_wake(x, w, 0);
    }
    crew_wait(&c);
    t = (double)boot_ns() - t;
    assert_int_equal(g.inside, 0);
    exec_unlock(x);
    printf("# %zu parked fibers: %.1f KiB resident each; woken and ended at %.0f ns each\n", n, each / 1024,
           t / (double)n);
    if (!FIBER_SANITIZED && !FIBER_ON_VALGRIND) assert_true(each < 20 * 1024);
    exec_free(x);
}

/* ---- order ---- */

struct order {
    int at[64];
    int n;
};
struct numbered {
    struct order *o;
    int k;
    struct exec_waiter *waiter;
};

static void note(struct exec *x, void *arg) {
    (void)x;
    struct numbered *k = arg;
    k->o->at[k->o->n++] = k->k;
}

static void park_note(struct exec *x, void *arg) {
    struct numbered *k = arg;
    struct exec_waiter w;
    exec_waiter_init(x, &w);
    k->waiter = &w;
    exec_wait(x, &w, UINT64_MAX);
    note(x, arg);
}

/* Tasks and woken waiters leave the queue in the order they came, whatever they are; the main context too. */
static void test_fifo(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct order o = {.n = 0};
    struct numbered k[10];
    exec_lock(x);
    struct crew c = {.x = x};
    for (int i = 0; i < 10; i++) k[i] = (struct numbered){&o, i, NULL};
    for (int i = 0; i < 10; i += 2) crew_go(&c, park_note, &k[i]);
    exec_yield(x);
    for (int i = 0; i < 10; i++) {
        if (i % 2 == 0)
            exec_wake(x, k[i].waiter, 0);
        else
            crew_go(&c, note, &k[i]);
    }
    crew_wait(&c);
    exec_unlock(x);
    assert_int_equal(o.n, 10);
    for (int i = 0; i < 10; i++) assert_int_equal(o.at[i], i);
    exec_free(x);
}

struct spinner {
    int rounds[3];
    int me;
    bool *stop;
};

/* Fibers that yield in a loop take turns, and a timer comes through. */
static void yield_loop(struct exec *x, void *arg) {
    struct spinner *s = arg;
    while (!*s->stop) {
        s->rounds[0]++;
        exec_yield(x);
    }
}

static bool *stop_flag;
static void on_stop(struct exec *x, struct exec_timer *t) {
    (void)x, (void)t;
    *stop_flag = true;
}

static void test_yield_is_fair(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    bool stop = false;
    struct spinner s[5];
    memset(s, 0, sizeof s);
    exec_lock(x);
    struct crew c = {.x = x};
    for (int i = 0; i < 5; i++) {
        s[i].stop = &stop;
        crew_go(&c, yield_loop, &s[i]);
    }
    while (s[0].rounds[0] < 10) exec_yield(x); /* by rounds, as a slow machine may need its time for the first */
    stop_flag = &stop;
    struct exec_timer t;
    exec_timer_init(&t, on_stop);
    exec_timer_set(x, &t, exec_now(x) + 5 * (moyai_ns)MOYAI_MS);
    crew_wait(&c);
    exec_unlock(x);
    for (int i = 1; i < 5; i++) assert_in_range(s[i].rounds[0], s[0].rounds[0] - 1, s[0].rounds[0] + 1);
    exec_free(x);
}

/* A task that submits itself for ever keeps neither timers nor other tasks from running. */
struct eager {
    struct exec_task task;
    struct exec *x;
    bool stop;
    long runs;
    struct exec_waiter *end;
};
static void run_eager(struct exec_task *t) {
    struct eager *e = (struct eager *)(void *)t;
    e->runs++;
    if (!e->stop)
        exec_submit(e->x, t);
    else
        exec_wake(e->x, e->end, 0);
}

static void test_eager_task(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct eager e = {.task = {.run = run_eager}, .x = x};
    struct exec_waiter w;
    exec_lock(x);
    exec_waiter_init(x, &w);
    e.end = &w;
    stop_flag = &e.stop;
    exec_submit(x, &e.task);
    while (e.runs < 100) exec_yield(x);
    struct exec_timer t;
    exec_timer_init(&t, on_stop);
    exec_timer_set(x, &t, exec_now(x) + 5 * (moyai_ns)MOYAI_MS);
    exec_wait(x, &w, UINT64_MAX);
    exec_unlock(x);
    exec_free(x);
}

/* ---- waiting ---- */

static void test_wake_before_wait(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct exec_waiter w;
    exec_lock(x);
    exec_waiter_init(x, &w);
    assert_true(exec_wake(x, &w, 5));
    assert_false(exec_wake(x, &w, 6));
    assert_int_equal(exec_wait(x, &w, UINT64_MAX), 5);
    /* a deadline that has passed */
    exec_waiter_init(x, &w);
    assert_int_equal(exec_wait(x, &w, 0), MOYAI_ETIMEDOUT);
    assert_false(exec_wake(x, &w, 6));
    exec_unlock(x);
    exec_free(x);
}

struct sleeper {
    moyai_ns until, slept, woke;
    int place, *counter, result;
};
static void sleep_until(struct exec *x, void *arg) {
    struct sleeper *s = arg;
    struct exec_waiter w;
    exec_waiter_init(x, &w);
    s->slept = boot_ns();
    s->result = exec_wait(x, &w, s->until);
    s->woke = boot_ns();
    s->place = (*s->counter)++;
}

static void test_deadlines_in_order(void **state) {
    (void)state;
    enum { N = 40 };
    struct exec *x = test_exec(NULL);
    struct sleeper s[N];
    int counter = 0;
    exec_lock(x);
    struct crew c = {.x = x};
    moyai_ns base = exec_now(x) + 5 * (moyai_ns)MOYAI_MS;
    for (int i = 0; i < N; i++) {
        int k = (i * 7) % N; /* scattered */
        s[i] = (struct sleeper){.until = base + (moyai_ns)(k / 2) * (moyai_ns)MOYAI_MS, .counter = &counter};
        crew_go(&c, sleep_until, &s[i]);
    }
    crew_wait(&c);
    exec_unlock(x);
    for (int i = 0; i < N; i++) {
        assert_int_equal(s[i].result, MOYAI_ETIMEDOUT);
        assert_true(s[i].woke >= s[i].until);
        if (s[i].slept >= base) continue; /* began too late to say anything about the order, on a slow machine */
        for (int j = 0; j < N; j++)
            if (s[i].until < s[j].until) assert_true(s[i].place < s[j].place);
    }
    exec_free(x);
}

static int fired;
static struct exec_timer again;
static void count_fire(struct exec *x, struct exec_timer *t) {
    fired++;
    if (t == &again && fired < 10) exec_timer_set(x, t, 0); /* due at once: the next turn's, not this one's */
}

static void test_timers(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct exec_timer a;
    exec_lock(x);
    exec_timer_init(&a, count_fire);
    exec_timer_init(&again, count_fire);
    assert_true(a.index == SIZE_MAX);
    exec_timer_set(x, &a, 1);
    exec_timer_clear(x, &a);
    exec_timer_clear(x, &a);
    exec_timer_set(x, &a, UINT64_MAX - 1);
    exec_yield(x);
    assert_int_equal(fired, 0);
    exec_timer_set(x, &a, exec_now(x) + 1); /* moved forward */
    while (fired == 0) exec_yield(x);
    assert_true(a.index == SIZE_MAX);
    fired = 0;
    exec_timer_set(x, &again, 1);
    while (fired < 10) exec_yield(x);
    exec_unlock(x);
    exec_free(x);
}

/* ---- locals, serve, abandoned fibers, limits ---- */

static void use_local(struct exec *x, void *arg) {
    void **p = exec_local(x);
    FIBER_ASSERT(*p == NULL); /* also when the fiber was used before */
    *p = arg;
    exec_yield(x);
    FIBER_ASSERT(exec_local(x) == p && *p == arg);
}

static void test_locals(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL), *y = test_exec(NULL);
    *exec_local(x) = x;
    *exec_local(y) = y;
    exec_lock(x);
    struct crew c = {.x = x};
    int dummy[50];
    for (int i = 0; i < 50; i++) crew_go(&c, use_local, &dummy[i]);
    crew_wait(&c);
    for (int i = 0; i < 50; i++) crew_go(&c, use_local, &dummy[i]);
    crew_wait(&c);
    exec_unlock(x);
    assert_ptr_equal(*exec_local(x), x);
    assert_ptr_equal(*exec_local(y), y);
    exec_free(x);
    exec_free(y);
}

static void set_stop(struct exec *x, void *arg) {
    (void)x;
    atomic_store((atomic_bool *)arg, true);
}

static void test_serve(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    atomic_bool stop = false;
    exec_lock(x);
    struct crew c = {.x = x};
    assert_int_equal(exec_serve(x, &stop, exec_now(x) + (moyai_ns)MOYAI_MS), MOYAI_ETIMEDOUT);
    crew_go(&c, set_stop, &stop);
    assert_int_equal(exec_serve(x, &stop, UINT64_MAX), 0);
    assert_int_equal(c.left, 0);
    exec_unlock(x);
    exec_free(x);
}

static void test_abandoned(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct gate g = {0};
    static struct crew c; /* outlives the fibers */
    c = (struct crew){.x = x};
    struct hand *h[20];
    exec_lock(x);
    for (int i = 0; i < 20; i++) {
        h[i] = malloc(sizeof *h[i]);
        *h[i] = (struct hand){{.run = hand_run}, &c, pass_gate, &g};
        exec_submit(x, &h[i]->task);
    }
    while (g.inside < 20) exec_yield(x);
    exec_unlock(x);
    exec_free(x);
    for (int i = 0; i < 20; i++) free(h[i]);
}

/* Beyond the limit tasks wait for a fiber, and get one in order; nothing is lost. */
static void test_fiber_limit(void **state) {
    (void)state;
    struct exec *x = test_exec(&(struct exec_cfg){.max_fibers = 8, .stack = 64 << 10});
    assert_int_equal(exec_max_fibers(x), 8);
    struct gate g = {0};
    exec_lock(x);
    struct crew c = {.x = x};
    for (int i = 0; i < 100; i++) crew_go(&c, pass_gate, &g);
    exec_yield(x);
    int rounds = 0;
    assert_in_range(g.inside, 8, 12);
    while (c.left > 0) {
        struct exec_waiter *list = g.first;
        g.first = NULL;
        while (list) {
            struct exec_waiter *next = list->next;
            exec_wake(x, list, 0);
            list = next;
        }
        exec_yield(x);
        assert_true(g.inside <= 12);
        assert_true(++rounds < 1000);
    }
    exec_unlock(x);
    exec_free(x);
}

/* ---- no stack to be had ---- */

/* What counts: whether it ran, or was refused, as which in a row. */
struct starving {
    struct exec_task task;
    int *count, at;
    bool refused;
    struct exec *x;
    struct gate *gate; /* parks there */
};

static void starving_run(struct exec_task *t) {
    struct starving *s = (struct starving *)t;
    s->at = ++*s->count;
    if (s->gate) pass_gate(s->x, s->gate);
}

static void starving_refuse(struct exec_task *t) {
    struct starving *s = (struct starving *)t;
    s->at = ++*s->count;
    s->refused = true;
}

static void submit_starving(struct exec *x, struct starving *s, bool refusable, int *count, struct gate *gate) {
    *s = (struct starving){
        {.run = starving_run, .refuse = refusable ? starving_refuse : NULL}, .count = count, .x = x, .gate = gate};
    exec_submit(x, &s->task);
}

static void sleep_long(struct exec *x, void *arg) {
    (void)arg;
    struct exec_waiter w;
    exec_waiter_init(x, &w);
    (void)exec_wait(x, &w, moyai_now() + (moyai_ns)(400 * MOYAI_MS));
}

/* Those that sleep will end: nothing is refused meanwhile. */
static void test_sleepers(void **state) {
    (void)state;
    struct exec *x = test_exec(&(struct exec_cfg){.max_fibers = 8, .stack = 64 << 10});
    enum { ORDINARY = 11, LATER = 20 };
    int count = 0;
    struct starving s[LATER];
    exec_lock(x);
    struct crew c = {.x = x};
    for (int i = 0; i < ORDINARY; i++) crew_go(&c, sleep_long, NULL);
    exec_yield(x);
    for (int i = 0; i < LATER; i++) submit_starving(x, &s[i], true, &count, NULL);
    crew_wait(&c);
    while (count < LATER) exec_yield(x);
    for (int i = 0; i < LATER; i++) assert_false(s[i].refused);
    exec_unlock(x);
    exec_free(x);
}

/* But those that wait for what is to be run, looking again and again, are not waited for without end. */
struct looker {
    const int *count;
};

static void look_again(struct exec *x, void *arg) {
    struct looker *l = arg;
    while (*l->count == 0) {
        struct exec_waiter w;
        exec_waiter_init(x, &w);
        (void)exec_wait(x, &w, moyai_now() + (moyai_ns)(10 * MOYAI_MS));
    }
}

static void test_lookers(void **state) {
    (void)state;
    struct exec *x = test_exec(&(struct exec_cfg){.max_fibers = 8, .stack = 64 << 10});
    enum { ORDINARY = 11 };
    int count = 0;
    struct looker l = {&count};
    struct starving s;
    exec_lock(x);
    struct crew c = {.x = x};
    for (int i = 0; i < ORDINARY; i++) crew_go(&c, look_again, &l);
    exec_yield(x);
    submit_starving(x, &s, true, &count, NULL);
    crew_wait(&c);
    assert_int_equal(count, 1);
    assert_true(s.refused);
    exec_unlock(x);
    exec_free(x);
}

/* With all fibers blocked: what can be refused is, the first first; of the rest, the spare stack takes what comes
 * first. A fiber that ends gives its stack to the next that waits. */
static void test_starving(void **state) {
    (void)state;
    struct exec *x = test_exec(&(struct exec_cfg){.max_fibers = 8, .stack = 64 << 10});
    enum { ORDINARY = 11 };
    struct gate g = {0};
    int count = 0;
    struct starving s[6];
    exec_lock(x);
    struct crew c = {.x = x};
    for (int i = 0; i < ORDINARY; i++) crew_go(&c, pass_gate, &g);
    exec_yield(x);
    assert_int_equal(g.inside, ORDINARY);
    assert_false(exec_starves(x));
    /* 0 ends by itself on the spare stack, 2 stays on it, 4 waits. */
    for (int i = 0; i < 6; i++) submit_starving(x, &s[i], i & 1, &count, i == 2 || i == 4 ? &g : NULL);
    while (count < 5) exec_yield(x);
    assert_true(exec_starves(x));
    for (int i = 0; i < 4; i++) assert_int_equal(s[i].at, i + 1);
    assert_int_equal(s[4].at, 0);
    assert_int_equal(s[5].at, 5);
    for (int i = 0; i < 6; i++) assert_int_equal(s[i].refused, i & 1);
    assert_int_equal(g.inside, ORDINARY + 1);
    /* They wait as long as fibers are runnable, whatever they can. */
    submit_starving(x, &s[0], true, &count, NULL);
    struct exec_waiter *list = g.first;
    g.first = NULL;
    for (struct exec_waiter *next; list; list = next) {
        next = list->next;
        exec_wake(x, list, 0);
    }
    while (count < 7) exec_yield(x);
    assert_int_equal(s[4].at, 6);
    assert_int_equal(s[0].at, 7);
    assert_false(s[0].refused);
    assert_false(exec_starves(x));
    while (!g.first) exec_yield(x);
    exec_wake(x, g.first, 0);
    while (g.inside > 0) exec_yield(x);
    assert_int_equal(exec_fibers(x), 0);
    exec_unlock(x);
    exec_free(x);
}

/* ---- two nodes on one thread ---- */

static void enough(struct exec *x, void *arg) {
    (void)x;
    ++*(int *)arg;
}

static struct exec *other;
static void back_into_first(struct exec *y, void *arg) {
    (void)y;
    struct exec *x = arg;
    struct exec_waiter w;
    exec_lock(x);
    exec_waiter_init(x, &w);
    /* x's scheduler is further down this very stack of contexts */
    FIBER_ASSERT_INT(exec_wait(x, &w, UINT64_MAX), MOYAI_ESTATE);
    exec_unlock(x);
}

static void wait_in_other(struct exec *x, void *arg) {
    int *n = arg;
    exec_user_enter(x);
    exec_lock(other);
    struct crew c = {.x = other};
    crew_go(&c, enough, n);
    crew_go(&c, back_into_first, x);
    crew_wait(&c);
    exec_unlock(other);
    exec_user_leave(x);
}

static void test_two_on_one_thread(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL), *y = test_exec(NULL);
    int n = 0;
    for (int i = 0; i < 20; i++) {
        struct crew cx = {.x = x}, cy = {.x = y};
        exec_lock(x);
        crew_go(&cx, enough, &n);
        crew_wait(&cx);
        exec_unlock(x);
        exec_lock(y);
        crew_go(&cy, enough, &n);
        crew_wait(&cy);
        exec_unlock(y);
    }
    assert_int_equal(n, 40);
    other = y;
    exec_lock(x);
    struct crew c = {.x = x};
    crew_go(&c, wait_in_other, &n);
    crew_wait(&c);
    exec_unlock(x);
    assert_int_equal(n, 41);
    exec_free(y);
    exec_free(x);
}

int main(void) {
    hang_guard();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ping_pong),
        cmocka_unit_test(test_deep_recursion),
        cmocka_unit_test(test_many_parked),
        cmocka_unit_test(test_fifo),
        cmocka_unit_test(test_yield_is_fair),
        cmocka_unit_test(test_eager_task),
        cmocka_unit_test(test_wake_before_wait),
        cmocka_unit_test(test_deadlines_in_order),
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_locals),
        cmocka_unit_test(test_serve),
        cmocka_unit_test(test_abandoned),
        cmocka_unit_test(test_fiber_limit),
        cmocka_unit_test(test_starving),
        cmocka_unit_test(test_sleepers),
        cmocka_unit_test(test_lookers),
        cmocka_unit_test(test_two_on_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
