/* SPDX-License-Identifier: Apache-2.0 */
/* Threads besides the node thread: waiting, waking, submitting; a node thread of its own; two nodes. */
#include "exec/exec.h"

#include "exec/testing.h"

#include <pthread.h>

enum { THREADS = 4 };

/* ---- foreign threads wait, fibers wake them, and the other way round ---- */

struct post {
    struct exec_task task;
    struct exec *x;
    struct exec_waiter *foreign; /* whom to wake */
    int value;
};

static void answer(struct exec_task *t) {
    struct post *p = (struct post *)(void *)t;
    if (p->value % 3 == 0) { /* leave it a while */
        exec_user_enter(p->x);
        exec_user_leave(p->x);
        exec_yield(p->x);
    }
    exec_wake(p->x, p->foreign, p->value);
}

struct hammer {
    struct exec *x;
    int rounds;
    atomic_int *running;
    struct exec_waiter *main;
};

static void hammer_done(struct hammer *h) {
    exec_lock(h->x);
    if (atomic_fetch_sub(h->running, 1) == 1) exec_wake(h->x, h->main, 9);
    exec_unlock(h->x);
}

static void *hammer(void *arg) {
    struct hammer *h = arg;
    for (int i = 0; i < h->rounds; i++) {
        struct exec_waiter w;
        struct post p = {.task = {.run = answer}, .x = h->x, .foreign = &w, .value = i};
        exec_lock(h->x);
        FIBER_ASSERT(!exec_on_node_thread(h->x));
        exec_waiter_init(h->x, &w);
        FIBER_ASSERT(w.foreign);
        exec_submit(h->x, &p.task);
        FIBER_ASSERT_INT(exec_wait(h->x, &w, UINT64_MAX), i);
        exec_unlock(h->x);
    }
    hammer_done(h);
    return NULL;
}

static void run_hammers(struct exec *x, void *(*fn)(void *), int rounds) {
    pthread_t t[THREADS];
    atomic_int running = THREADS;
    struct exec_waiter w;
    struct hammer h = {x, rounds, &running, &w};
    exec_lock(x);
    exec_waiter_init(x, &w);
    for (int i = 0; i < THREADS; i++) FIBER_ASSERT_INT(pthread_create(&t[i], NULL, fn, &h), 0);
    FIBER_ASSERT_INT(exec_wait(x, &w, UINT64_MAX), 9);
    exec_unlock(x);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}

static void test_foreign_wait(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    run_hammers(x, hammer, FIBER_SCALE(5000, 1000, 200));
    exec_free(x);
}

/* The same on a node whose thread is its own: the test's main thread is then foreign, too. */
static void test_own_thread(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct exec *x = test_exec(&(struct exec_cfg){.own_thread = true});
        assert_false(exec_on_node_thread(x));
        *exec_local(x) = x;
        run_hammers(x, hammer, FIBER_SCALE(300, 100, 30));
        assert_ptr_equal(*exec_local(x), x);
        exec_free(x);
        struct exec *y = test_exec(&(struct exec_cfg){.own_thread = true});
        assert_null(*exec_local(y)); /* even if it lies where x was */
        exec_free(y);
    }
}

/* ---- what a thread keeps in an exec ---- */

enum { EXECS = 7 };
struct keeping {
    struct exec *x[EXECS];
    pthread_barrier_t step;
    int given_back[EXECS];
};
static struct keeping keeping;
static void give_back(void *arg, void *local) {
    FIBER_ASSERT(arg == local);
    (*(int *)local)++;
}

/* More execs than one; the first ends, the second asks for nothing back any more. */
static void *keep(void *arg) {
    (void)arg;
    struct keeping *k = &keeping;
    for (int i = 0; i < EXECS; i++) *exec_local(k->x[i]) = &k->given_back[i];
    for (int i = 0; i < EXECS; i++) FIBER_ASSERT(*exec_local(k->x[i]) == &k->given_back[i]);
    pthread_barrier_wait(&k->step);
    pthread_barrier_wait(&k->step);
    for (int i = 1; i < EXECS; i++) FIBER_ASSERT(*exec_local(k->x[i]) == &k->given_back[i]);
    struct exec *y = test_exec(NULL);
    exec_lock(y);
    exec_local_done(y, give_back, NULL); /* its own thread's is no foreign one's */
    exec_unlock(y);
    FIBER_ASSERT(*exec_local(y) == NULL);
    exec_free(y);
    return NULL;
}

static void test_thread_ends(void **state) {
    (void)state;
    struct keeping *k = &keeping;
    for (int i = 0; i < EXECS; i++) {
        k->x[i] = test_exec(NULL);
        exec_lock(k->x[i]);
        exec_local_done(k->x[i], give_back, &k->given_back[i]);
        exec_unlock(k->x[i]);
    }
    pthread_t t;
    pthread_barrier_init(&k->step, NULL, 2);
    pthread_create(&t, NULL, keep, NULL);
    pthread_barrier_wait(&k->step);
    exec_free(k->x[0]);
    exec_lock(k->x[1]);
    exec_local_done(k->x[1], NULL, NULL);
    exec_unlock(k->x[1]);
    pthread_barrier_wait(&k->step);
    pthread_join(t, NULL);
    for (int i = 0; i < EXECS; i++) assert_int_equal(k->given_back[i], i >= 2);
    for (int i = 1; i < EXECS; i++) exec_free(k->x[i]);
    pthread_barrier_destroy(&k->step);
}

/* Threads that end while others come: in whatever order they take their locks, all get through. */
static void *come_and_go(void *arg) {
    struct exec *x = arg;
    exec_foreign_enter(x);
    *exec_local(x) = x;
    exec_foreign_leave(x);
    return NULL;
}

static void *bring_others(void *arg) {
    for (int i = 0; i < FIBER_SCALE(2000, 300, 100); i++) {
        pthread_t t[2];
        for (int k = 0; k < 2; k++) FIBER_ASSERT(pthread_create(&t[k], NULL, come_and_go, arg) == 0);
        for (int k = 0; k < 2; k++) pthread_join(t[k], NULL);
    }
    return NULL;
}

static void count_it(void *arg, void *local) {
    (void)local;
    ++*(int *)arg;
}

static void test_threads_come_and_go(void **state) {
    (void)state;
    struct exec *x = test_exec(&(struct exec_cfg){.own_thread = true});
    int ended = 0;
    exec_lock(x);
    exec_local_done(x, count_it, &ended);
    exec_unlock(x);
    pthread_t t[2];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, bring_others, x);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    assert_int_equal(ended, 4 * FIBER_SCALE(2000, 300, 100));
    exec_free(x);
}

/* ---- the end of an exec in which threads wait ---- */

struct caught {
    struct exec *x;
    atomic_int *waiting;
    bool forever;
};
static void *be_caught(void *arg) {
    struct caught *c = arg;
    exec_foreign_enter(c->x);
    atomic_fetch_add(c->waiting, 1);
    for (int i = 0; i < 2; i++) {
        struct exec_waiter w;
        exec_waiter_init(c->x, &w);
        moyai_ns until = c->forever ? UINT64_MAX : exec_now(c->x) + 3600 * (moyai_ns)MOYAI_SEC;
        FIBER_ASSERT_INT(exec_wait(c->x, &w, until), MOYAI_ECLOSED);
    }
    exec_foreign_leave(c->x);
    return NULL;
}

static void test_drain(void **state) {
    (void)state;
    for (int round = 0; round < FIBER_SCALE(200, 50, 10); round++) {
        struct exec *x = test_exec(round % 2 ? &(struct exec_cfg){.own_thread = true} : NULL);
        atomic_int waiting = 0;
        struct caught c[2] = {{x, &waiting, false}, {x, &waiting, true}};
        pthread_t t[THREADS];
        for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, be_caught, &c[i % 2]);
        while (atomic_load(&waiting) < THREADS) sched_yield();
        exec_halt(x);
        exec_lock(x);
        exec_foreign_drain(x);
        exec_unlock(x);
        exec_free(x);
        for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    }
}

/* ---- time-outs race with wake-ups ---- */

struct race {
    struct exec_task task;
    struct exec *x;
    struct exec_waiter *w; /* NULL: the other side has given up */
    bool ran;
};
static void late_answer(struct exec_task *t) {
    struct race *r = (struct race *)(void *)t;
    r->ran = true;
    if (r->w) FIBER_ASSERT(exec_wake(r->x, r->w, 3));
}

static void *racer(void *arg) {
    struct hammer *h = arg;
    struct race *all = calloc((size_t)h->rounds, sizeof *all);
    int late = 0;
    for (int i = 0; i < h->rounds; i++) {
        struct exec_waiter w;
        struct race *r = &all[i];
        *r = (struct race){.task = {.run = late_answer}, .x = h->x, .w = &w};
        exec_lock(h->x);
        exec_waiter_init(h->x, &w);
        exec_submit(h->x, &r->task);
        int rc = exec_wait(h->x, &w, exec_now(h->x) + (moyai_ns)(i % 20) * 1000);
        FIBER_ASSERT(rc == 3 || rc == MOYAI_ETIMEDOUT);
        if (rc == MOYAI_ETIMEDOUT) late++;
        r->w = NULL;
        exec_unlock(h->x);
    }
    for (int i = 0; i < h->rounds; i++) { /* all tasks have run before their memory goes */
        struct exec_waiter w;
        exec_lock(h->x);
        while (!all[i].ran) {
            exec_waiter_init(h->x, &w);
            exec_wait(h->x, &w, exec_now(h->x) + 1000000);
        }
        exec_unlock(h->x);
    }
    free(all);
    hammer_done(h);
    return NULL;
}

static void test_timeouts_race(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    run_hammers(x, racer, FIBER_SCALE(2000, 500, 100));
    exec_free(x);
}

/* ---- tasks handed to a node that polls; nobody waits ---- */

struct counted {
    struct exec_task task;
    struct exec *x;
    int *count;
    struct exec_waiter *end;
    int target;
};
static void count(struct exec_task *t) {
    struct counted *c = (struct counted *)(void *)t;
    FIBER_ASSERT(exec_on_node_thread(c->x));
    if (++*c->count == c->target) exec_wake(c->x, c->end, 4);
    free(c);
}
struct poster {
    struct exec *x;
    int n, *count, target;
    struct exec_waiter *end;
};
static void *post_many(void *arg) {
    struct poster *p = arg;
    for (int i = 0; i < p->n; i++) {
        struct counted *c = malloc(sizeof *c);
        *c = (struct counted){{.run = count}, p->x, p->count, p->end, p->target};
        exec_lock(p->x);
        exec_submit(p->x, &c->task);
        if (i % 5 == 0) exec_attention(p->x);
        exec_unlock(p->x);
        if (i % 64 == 0) exec_kick(p->x);
    }
    return NULL;
}

static void test_posts(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    int n = FIBER_SCALE(10000, 2000, 300), done = 0;
    struct exec_waiter w;
    struct poster p = {x, n, &done, n * THREADS, &w};
    pthread_t t[THREADS];
    exec_lock(x);
    exec_waiter_init(x, &w);
    for (int i = 0; i < THREADS; i++) FIBER_ASSERT_INT(pthread_create(&t[i], NULL, post_many, &p), 0);
    assert_int_equal(exec_wait(x, &w, UINT64_MAX), 4);
    exec_unlock(x);
    assert_int_equal(done, n * THREADS);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    exec_free(x);
}

/* ---- two nodes, two threads, tasks that go to and fro ---- */

struct shuttle {
    struct exec_task task;
    struct exec *at, *home, *away;
    int left;
    struct exec_waiter *end;
};
static void fly(struct exec_task *t) {
    struct shuttle *s = (struct shuttle *)(void *)t;
    struct exec *here = s->at, *there = here == s->home ? s->away : s->home;
    FIBER_ASSERT(exec_on_node_thread(here) && !exec_on_node_thread(there));
    if (here == s->home && --s->left == 0) {
        exec_wake(here, s->end, 2);
        return;
    }
    /* From user code of one node into the other, as a program that uses both would. */
    exec_user_enter(here);
    exec_lock(there);
    s->at = there;
    exec_submit(there, &s->task);
    exec_unlock(there);
    exec_user_leave(here);
}

static void test_two_nodes(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL), *y = test_exec(&(struct exec_cfg){.own_thread = true});
    struct exec_waiter w[8];
    struct shuttle s[8];
    exec_lock(x);
    for (int i = 0; i < 8; i++) {
        exec_waiter_init(x, &w[i]);
        s[i] = (struct shuttle){{.run = fly}, x, x, y, FIBER_SCALE(2000, 300, 50), &w[i]};
        exec_submit(x, &s[i].task);
    }
    for (int i = 0; i < 8; i++) assert_int_equal(exec_wait(x, &w[i], UINT64_MAX), 2);
    exec_unlock(x);
    exec_free(y);
    exec_free(x);
}

/* ---- a foreign thread is let in while the node is busy with short tasks ---- */

struct flood {
    struct exec_task task;
    struct exec *x;
    atomic_bool *stop;
    struct exec_waiter *end;
};
static void run_flood(struct exec_task *t) {
    struct flood *f = (struct flood *)(void *)t;
    exec_user_enter(f->x);
    exec_user_leave(f->x);
    if (atomic_load(f->stop))
        exec_wake(f->x, f->end, 6);
    else
        exec_submit(f->x, t);
}

struct visitor {
    struct exec *x;
    atomic_bool *stop;
};
static void *visit(void *arg) {
    struct visitor *v = arg;
    for (int i = 0; i < FIBER_SCALE(200, 100, 20); i++) {
        exec_lock(v->x);
        exec_unlock(v->x);
    }
    atomic_store(v->stop, true);
    return NULL;
}

static void test_busy_node_lets_others_in(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    atomic_bool stop = false;
    struct exec_waiter w;
    struct flood f = {{.run = run_flood}, x, &stop, &w};
    struct visitor v = {x, &stop};
    pthread_t t;
    exec_lock(x);
    exec_waiter_init(x, &w);
    exec_submit(x, &f.task);
    pthread_create(&t, NULL, visit, &v);
    assert_int_equal(exec_wait(x, &w, UINT64_MAX), 6);
    exec_unlock(x);
    pthread_join(t, NULL);
    exec_free(x);
}

/* exec_kick ends exec_serve from outside the lock. */
struct kicker {
    struct exec *x;
    atomic_bool stop;
};
static void *kick(void *arg) {
    struct kicker *k = arg;
    atomic_store(&k->stop, true);
    exec_kick(k->x);
    return NULL;
}

static void test_kick(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    for (int i = 0; i < FIBER_SCALE(200, 100, 20); i++) {
        struct kicker k = {x, false};
        pthread_t t;
        pthread_create(&t, NULL, kick, &k);
        exec_lock(x);
        assert_int_equal(exec_serve(x, &k.stop, UINT64_MAX), 0);
        exec_unlock(x);
        pthread_join(t, NULL);
    }
    exec_free(x);
}

int main(void) {
    hang_guard();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_foreign_wait),
        cmocka_unit_test(test_own_thread),
        cmocka_unit_test(test_timeouts_race),
        cmocka_unit_test(test_posts),
        cmocka_unit_test(test_two_nodes),
        cmocka_unit_test(test_busy_node_lets_others_in),
        cmocka_unit_test(test_kick),
        cmocka_unit_test(test_thread_ends),
        cmocka_unit_test(test_threads_come_and_go),
        cmocka_unit_test(test_drain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
