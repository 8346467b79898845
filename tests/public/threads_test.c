/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads: two nodes in one process, calls from many threads at once, functions brought to the node thread, and the end
 * of a node whatever is going on in it.
 */
#include "tests/public/kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

struct counter {
    int64_t calls, sum; /* no atomics: the node thread alone comes here */
    moyai_ref *other;
    pthread_t thread;
    bool checked;
};

static int m_add(moyai_request *rq, void *self) {
    struct counter *c = self;
    int64_t x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    if (!c->checked) {
        c->thread = pthread_self();
        c->checked = true;
    }
    FIBER_ASSERT(pthread_equal(c->thread, pthread_self()));
    c->calls++;
    c->sum += x;
    return moyai_return(rq, MOYAI_ARGS(x + 1, "text that has to be somewhere until it is read"));
}

static int m_sum(moyai_request *rq, void *self) {
    struct counter *c = self;
    return moyai_return(rq, MOYAI_ARGS(c->calls, c->sum));
}

/* Calls the other object, which calls nobody. */
static int m_through(moyai_request *rq, void *self) {
    struct counter *c = self;
    int64_t x, y = 0;
    const char *text;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    KIT_OK(moyai_call(c->other, "add", MOYAI_ARGS(x), MOYAI_INTO(&y, &text), NULL));
    return moyai_return(rq, MOYAI_ARGS(y));
}

static int m_sleep(moyai_request *rq, void *self) {
    (void)self;
    return moyai_sleep(moyai_request_node(rq), MOYAI_FOREVER);
}

/* sleep_through(ref): blocked in a call that is blocked. */
static int m_sleep_through(moyai_request *rq, void *self) {
    struct counter *c = self;
    moyai_ref *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref)));
    if (c && moyai_ref_equal(ref, c->other)) { /* an abandoned fiber would keep it */
        moyai_ref_unref(ref);
        ref = c->other;
    }
    int rc = moyai_call(ref, "sleep", MOYAI_NONE, MOYAI_NONE, NULL);
    if (!c || ref != c->other) moyai_ref_unref(ref);
    return rc;
}

static int m_wait_set(moyai_request *rq, void *self) {
    moyai_set *_Atomic *set = self, *mine = kit_set(moyai_request_node(rq));
    *set = mine;
    return moyai_wait(mine, MOYAI_FOREVER);
}

static int m_lookup(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref;
    return moyai_lookup_wait(moyai_request_node(rq), "never there", MOYAI_FOREVER, &ref);
}

static int m_compute(moyai_request *rq, void *self) {
    (void)self;
    while (!moyai_node_stopping(moyai_request_node(rq))) {
    }
    return 0;
}

static const struct moyai_method methods[] = {{"add", m_add},
                                              {"sum", m_sum},
                                              {"through", m_through},
                                              {"sleep", m_sleep},
                                              {"sleep_through", m_sleep_through},
                                              {"wait_set", m_wait_set},
                                              {"lookup", m_lookup},
                                              {"compute", m_compute},
                                              {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Counter", methods, NULL);

static int role_counter(int argc, char **argv) {
    (void)argc, (void)argv;
    struct counter c = {0};
    return kit_serve(NULL, &cls, &c, "counter");
}

static moyai_node *own_node(void) {
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.own_thread = true;
    return kit_node(&opts);
}

/* ---- many threads call ----------------------------------------------------------------------- */

struct caller {
    pthread_t thread;
    moyai_ref *ref;
    moyai_node *node;
    int calls;
    atomic_int done; /* threads */
};
enum { THREADS = 8 };

/* Synchronous, asynchronous, one-way, sets and last errors: each thread has its own. */
static void *call_much(void *arg) {
    struct caller *c = arg;
    for (int i = 0; i < c->calls; i++) {
        int64_t y = 0;
        const char *text = NULL;
        switch (i % 4) {
        case 0:
            KIT_OK(moyai_call(c->ref, "add", MOYAI_ARGS(i), MOYAI_INTO(&y, &text), NULL));
            FIBER_ASSERT(strcmp(text, "text that has to be somewhere until it is read") == 0);
            break;
        case 1: {
            moyai_future *f = moyai_call_async(c->ref, "add", MOYAI_ARGS(i));
            KIT_OK(moyai_future_get(f, MOYAI_INTO(&y, moyai_skip())));
            moyai_future_free(f);
            break;
        }
        case 2: {
            moyai_set *set = kit_set(c->node);
            moyai_future *f = moyai_call_async(c->ref, "add", MOYAI_ARGS(i));
            KIT_OK(moyai_set_add(set, f));
            FIBER_ASSERT_INT(moyai_wait(set, MOYAI_FOREVER), 1);
            KIT_OK(moyai_future_get(moyai_set_next(set), MOYAI_INTO(&y, moyai_skip())));
            moyai_set_free(set);
            moyai_future_free(f);
            break;
        }
        default: {
            struct moyai_error e;
            KIT_RC(moyai_call(c->ref, "nonsense", MOYAI_NONE, MOYAI_NONE, NULL), MOYAI_ENOMETHOD);
            moyai_last_error(c->node, &e);
            FIBER_ASSERT_INT(e.code, MOYAI_ENOMETHOD);
            KIT_OK(moyai_call_oneway(c->ref, "add", MOYAI_ARGS(i)));
            y = i + 1;
        }
        }
        FIBER_ASSERT_INT(y, i + 1);
    }
    c->done++;
    return NULL;
}

static void call_from_threads(moyai_node *n, moyai_ref *ref, bool own) {
    struct caller c[THREADS];
    const int calls = FIBER_SCALE(1000, 400, 100);
    int64_t n_calls = 0, sum = 0;
    KIT_OK(moyai_call(ref, "sum", MOYAI_NONE, MOYAI_INTO(&n_calls, &sum), NULL));
    int64_t want = n_calls + THREADS * calls, want_sum = sum + (int64_t)THREADS * calls * (calls - 1) / 2;
    for (int i = 0; i < THREADS; i++) {
        c[i] = (struct caller){.ref = ref, .node = n, .calls = calls};
        FIBER_ASSERT_INT(pthread_create(&c[i].thread, NULL, call_much, &c[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        if (!own) KIT_UNTIL(n, c[i].done); /* this is the node thread: it has to serve */
        pthread_join(c[i].thread, NULL);
    }
    KIT_OK(moyai_call(ref, "sum", MOYAI_NONE, MOYAI_INTO(&n_calls, &sum), NULL));
    FIBER_ASSERT_INT(n_calls, want); /* also the one-way ones: they were made before */
    FIBER_ASSERT_INT(sum, want_sum);
}

static void threads_call(void **state) {
    (void)state;
    pid_t pid = kit_child("counter", NULL);
    for (int own = 0; own < 2; own++) {
        struct counter c = {0};
        moyai_node *n = own ? own_node() : kit_node(NULL);
        moyai_ref *near = kit_object(n, &cls, &c), *far = kit_lookup(n, "counter");
        call_from_threads(n, near, own);
        call_from_threads(n, far, own);
        moyai_ref_unref(near);
        moyai_ref_unref(far);
        moyai_node_free(n);
    }
    kit_end(pid);
}

/* ---- two nodes in one process ---------------------------------------------------------------- */

/* Calls both ways between nodes of own threads, each method of which calls the other node. */
static void two_nodes_with_threads_of_their_own(void **state) {
    (void)state;
    moyai_node *n[2];
    struct counter c[2] = {{0}};
    moyai_ref *at[2], *to[2]; /* object i as its own node knows it, and as the other does */
    for (int i = 0; i < 2; i++) {
        n[i] = own_node();
        at[i] = kit_object(n[i], &cls, &c[i]);
        KIT_OK(moyai_register(at[i], i ? "second" : "first"));
    }
    for (int i = 0; i < 2; i++) to[i] = kit_lookup(n[1 - i], i ? "second" : "first");
    c[0].other = to[1];
    c[1].other = to[0];
    enum { N = 300 };
    moyai_future *f[2][N];
    for (int k = 0; k < N; k++)
        for (int i = 0; i < 2; i++) f[i][k] = moyai_call_async(at[i], "through", MOYAI_ARGS(k));
    for (int k = 0; k < N; k++)
        for (int i = 0; i < 2; i++) {
            int64_t y = 0;
            KIT_OK(moyai_future_get(f[i][k], MOYAI_INTO(&y)));
            FIBER_ASSERT_INT(y, k + 1);
            moyai_future_free(f[i][k]);
        }
    for (int i = 0; i < 2; i++) {
        int64_t calls = 0, sum = 0;
        KIT_OK(moyai_call(to[i], "sum", MOYAI_NONE, MOYAI_INTO(&calls, &sum), NULL));
        FIBER_ASSERT_INT(calls, N);
    }
    FIBER_ASSERT(!pthread_equal(c[0].thread, c[1].thread) && !pthread_equal(c[0].thread, pthread_self()));
    for (int i = 0; i < 2; i++) {
        moyai_ref_unref(at[i]);
        moyai_ref_unref(to[i]);
    }
    moyai_node_free(n[0]);
    moyai_node_free(n[1]);
}

/* Each node belongs to the thread that made it. */
struct party {
    pthread_t thread;
    const char *name, *other;
    atomic_int *done;
};

static void *be_a_party(void *arg) {
    struct party *p = arg;
    moyai_node *n = kit_node(NULL);
    struct counter c = {0};
    moyai_ref *ref = kit_object(n, &cls, &c);
    KIT_OK(moyai_register(ref, p->name));
    moyai_ref *other = kit_lookup(n, p->other);
    for (int i = 0; i < 200; i++) {
        int64_t y = 0;
        KIT_OK(moyai_call(other, "add", MOYAI_ARGS(i), MOYAI_INTO(&y, moyai_skip()), NULL));
        FIBER_ASSERT_INT(y, i + 1);
    }
    ++*p->done;
    KIT_UNTIL(n, *p->done == 2); /* the other one's calls have to be served */
    FIBER_ASSERT(pthread_equal(c.thread, pthread_self()));
    FIBER_ASSERT_INT(c.calls, 200);
    moyai_ref_unref(ref);
    moyai_ref_unref(other);
    moyai_node_free(n);
    return NULL;
}

static void two_nodes_on_two_threads(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        atomic_int done = 0;
        struct party p[2] = {{.name = "left", .other = "right", .done = &done},
                             {.name = "right", .other = "left", .done = &done}};
        for (int i = 0; i < 2; i++) FIBER_ASSERT_INT(pthread_create(&p[i].thread, NULL, be_a_party, &p[i]), 0);
        for (int i = 0; i < 2; i++) pthread_join(p[i].thread, NULL);
    }
}

/* ---- brought to the node thread -------------------------------------------------------------- */

struct posting {
    moyai_node *node;
    pthread_t node_thread;
    int next[THREADS], total; /* the node thread's */
};
struct posted {
    struct posting *p;
    int thread, number;
};

static void run_posted(void *arg) {
    struct posted *x = arg;
    struct posting *p = x->p;
    FIBER_ASSERT(pthread_equal(pthread_self(), p->node_thread));
    FIBER_ASSERT_INT(x->number, p->next[x->thread]); /* once, and in order of posting */
    p->next[x->thread]++;
    p->total++;
    if (x->number % 16 == 0) KIT_OK(moyai_sleep(p->node, 1)); /* it may block */
    free(x);
}

struct poster {
    pthread_t thread;
    struct posting *p;
    int index, n;
};

static void *post_much(void *arg) {
    struct poster *t = arg;
    for (int i = 0; i < t->n; i++) {
        struct posted *x = malloc(sizeof *x);
        FIBER_ASSERT(x);
        *x = (struct posted){t->p, t->index, i};
        int rc;
        while ((rc = moyai_post(t->p->node, run_posted, x)) == MOYAI_EBUSY) sched_yield();
        KIT_OK(rc);
    }
    return NULL;
}

static void functions_are_posted_from_threads(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.max_fibers = 100; /* so that it is reached */
    struct posting p = {.node = kit_node(&opts), .node_thread = pthread_self()};
    struct poster t[THREADS];
    const int n = FIBER_SCALE(500, 200, 60);
    for (int i = 0; i < THREADS; i++) {
        t[i] = (struct poster){.p = &p, .index = i, .n = n};
        FIBER_ASSERT_INT(pthread_create(&t[i].thread, NULL, post_much, &t[i]), 0);
    }
    KIT_UNTIL(p.node, p.total == THREADS * n);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i].thread, NULL);
    kit_settle(p.node);
    FIBER_ASSERT_INT(p.total, THREADS * n);
    moyai_node_free(p.node);
}

/* ---- the end of a node ----------------------------------------------------------------------- */

static void *stop_it(void *n) {
    moyai_node_stop(n);
    return NULL;
}

static void *free_it(void *n) {
    moyai_node_free(n);
    return NULL;
}

static int m_free(moyai_request *rq, void *self) {
    (void)self;
    moyai_node_free(moyai_request_node(rq));
    return 0;
}

/* On a thread where it does not belong it does nothing; nor in a method. */
static void a_node_is_freed_where_it_belongs(void **state) {
    (void)state;
    static const struct moyai_method freeing[] = {{"free", m_free}, {NULL, NULL}};
    static const struct moyai_class its = MOYAI_CLASS("Freeing", freeing, NULL);
    for (int own = 0; own < 2; own++) {
        struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
        opts.own_thread = own;
        moyai_node *n = kit_node(&opts);
        moyai_ref *ref = kit_object(n, &its, NULL);
        pthread_t thread;
        if (!own) {
            FIBER_ASSERT_INT(pthread_create(&thread, NULL, free_it, n), 0);
            pthread_join(thread, NULL);
        }
        KIT_OK(moyai_call(ref, "free", MOYAI_NONE, MOYAI_NONE, NULL));
        KIT_OK(moyai_call(ref, "free", MOYAI_NONE, MOYAI_NONE, NULL));
        moyai_ref_unref(ref);
        moyai_node_free(n);
    }
}

static void a_thread_stops_a_node(void **state) {
    (void)state;
    moyai_node *n = kit_node(NULL);
    FIBER_ASSERT(!moyai_node_stopping(n));
    KIT_RC(moyai_node_serve(n, 0), MOYAI_ETIMEDOUT);
    KIT_RC(moyai_node_serve(n, 5 * MOYAI_MS), MOYAI_ETIMEDOUT);
    pthread_t thread;
    FIBER_ASSERT_INT(pthread_create(&thread, NULL, stop_it, n), 0);
    KIT_OK(moyai_node_serve(n, MOYAI_FOREVER));
    pthread_join(thread, NULL);
    FIBER_ASSERT(moyai_node_stopping(n));
    moyai_node_free(n);
    /* Before it serves: the next one returns. */
    n = kit_node(NULL);
    moyai_node_stop(n);
    KIT_OK(moyai_node_serve(n, MOYAI_FOREVER));
    moyai_node_free(n);
    /* A method that computes sees it. */
    n = kit_node(NULL);
    moyai_ref *ref = kit_object(n, &cls, NULL);
    moyai_future *f = moyai_call_async(ref, "compute", MOYAI_NONE);
    FIBER_ASSERT_INT(pthread_create(&thread, NULL, stop_it, n), 0);
    KIT_OK(moyai_node_serve(n, MOYAI_FOREVER));
    pthread_join(thread, NULL);
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    moyai_future_free(f);
    moyai_ref_unref(ref);
    moyai_node_free(n);
    moyai_node_free(NULL);
}

static void sleep_for_ever(void *n) {
    (void)moyai_sleep(n, MOYAI_FOREVER);
    FIBER_FAIL("a fiber that was abandoned goes on");
}

static void not_any_more(void *arg) {
    (void)arg;
    FIBER_FAIL("run after its node's end");
}

/* Fibers that are blocked, in whatever, and calls that wait for ever, here and over there: nothing is left behind. */
static void a_node_ends_with_everything_open(void **state) {
    (void)state;
    pid_t pid = kit_child("counter", NULL);
    for (int round = 0; round < 4; round++) {
        bool own = round % 2, settle = round / 2;
        moyai_node *n = own ? own_node() : kit_node(NULL);
        struct counter c[2] = {{0}};
        moyai_ref *near = kit_object(n, &cls, &c[0]), *near2 = kit_object(n, &cls, &c[1]);
        moyai_ref *far = kit_lookup(n, "counter");
        c[0].other = near;
        c[1].other = far;
        moyai_set *_Atomic set = NULL;
        moyai_ref *waiter = kit_object(n, &cls, &set);
        static char large[1 << 20];
        for (int i = 0; i < 3; i++) {
            KIT_OK(moyai_call_oneway(near, "sleep", MOYAI_NONE));
            KIT_OK(moyai_call_oneway(near, "sleep_through", MOYAI_ARGS(near)));
            KIT_OK(moyai_call_oneway(near2, "sleep_through", MOYAI_ARGS(far)));
            KIT_OK(moyai_call_oneway(near, "lookup", MOYAI_NONE));
            KIT_OK(moyai_call_oneway(far, "sleep_through", MOYAI_ARGS(near)));
            KIT_OK(moyai_call_oneway(far, "sleep", MOYAI_ARGS(moyai_bytes(large, sizeof large))));
            KIT_OK(moyai_go(n, sleep_for_ever, n));
        }
        if (settle) KIT_OK(moyai_call_oneway(waiter, "wait_set", MOYAI_NONE));
        moyai_future *f = moyai_call_async(far, "sleep", MOYAI_NONE), *g = moyai_call_async(near, "sleep", MOYAI_NONE);
        if (settle) {
            KIT_OK(moyai_call(far, "sum", MOYAI_NONE, MOYAI_NONE, NULL));
            KIT_UNTIL(n, set);
        }
        moyai_future_free(f);
        moyai_future_free(g);
        if (!own) KIT_OK(moyai_post(n, not_any_more, NULL));
        moyai_set_free(set); /* somebody waits on it, who will not hear of it any more */
        moyai_node_free(n);
        moyai_ref_unref(near);
        moyai_ref_unref(near2);
        moyai_ref_unref(far);
        moyai_ref_unref(waiter);
    }
    /* The other process has lost four callers, and is well. */
    moyai_node *n = kit_node(NULL);
    moyai_ref *far = kit_lookup(n, "counter");
    int64_t y = 0;
    KIT_OK(moyai_call(far, "add", MOYAI_ARGS(1), MOYAI_INTO(&y, moyai_skip()), NULL));
    FIBER_ASSERT_INT(y, 2);
    moyai_ref_unref(far);
    moyai_node_free(n);
    kit_end(pid);
}

/* A node's options: what is wrong is said. */
static void options_are_checked(void **state) {
    (void)state;
    moyai_node *n = NULL;
    struct moyai_error e = {0};
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    KIT_RC(moyai_node_new(NULL, &opts, &e), MOYAI_EINVAL);
    opts.stack = 1000;
    KIT_RC(moyai_node_new(&n, &opts, &e), MOYAI_EINVAL);
    KIT_TEXT(e.text, "stack");
    opts = (struct moyai_node_opts)MOYAI_NODE_OPTS_INIT;
    opts.size = 4;
    KIT_RC(moyai_node_new(&n, &opts, NULL), MOYAI_EINVAL);
    opts.size = sizeof opts + 8;
    KIT_RC(moyai_node_new(&n, &opts, &e), MOYAI_EINVAL);
    opts = (struct moyai_node_opts)MOYAI_NODE_OPTS_INIT;
    opts.grid = "ftp://nowhere";
    KIT_RC(moyai_node_new(&n, &opts, &e), MOYAI_EINVAL);
    KIT_TEXT(e.text, "ftp://nowhere");
    opts = (struct moyai_node_opts)MOYAI_NODE_OPTS_INIT;
    opts.run_dir = "/tmp";
    KIT_RC(moyai_node_new(&n, &opts, &e), MOYAI_EPERM); /* open to others */
    setenv("MOYAI_STACK", "much", 1);
    KIT_RC(moyai_node_new(&n, NULL, &e), MOYAI_EINVAL);
    KIT_TEXT(e.text, "MOYAI_STACK");
    unsetenv("MOYAI_STACK");
    FIBER_ASSERT(!n);
    opts = (struct moyai_node_opts)MOYAI_NODE_OPTS_INIT;
    opts.size = offsetof(struct moyai_node_opts, max_message); /* of a program that is older */
    n = kit_node(&opts);
    moyai_node_free(n);
}

/* ---- a future is freed while its function runs ---- */

struct freed {
    moyai_node *node;
    atomic_int runs, freeing, returned;
    bool blocks;
};

/* It has the future until it returns, whoever frees it, and blocked or not. */
static void then_slowly(moyai_future *f, void *arg) {
    struct freed *d = arg;
    d->runs = 1;
    while (!d->freeing) { /* from then on it is freed at any moment */
        if (d->blocks)
            (void)moyai_sleep(d->node, MOYAI_MS);
        else
            usleep(1000);
    }
    for (int i = 0; i < 20; i++) {
        int64_t x = 0;
        const char *text = NULL;
        KIT_OK(moyai_future_get(f, MOYAI_INTO(&x, &text)));
        FIBER_ASSERT_INT(x, 2);
        if (d->blocks)
            (void)moyai_sleep(d->node, MOYAI_MS);
        else
            usleep(1000);
        KIT_TEXT(text, "somewhere");
    }
    d->returned = 1;
}

static void a_future_is_freed_while_its_function_runs(void **state) {
    (void)state;
    for (int round = 0; round < 4; round++) {
        bool here = round >= 2; /* by the thread that makes the calls; or by another fiber */
        struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
        opts.own_thread = !here;
        struct counter c = {0};
        moyai_node *n = kit_node(&opts);
        moyai_ref *ref = kit_object(n, &cls, &c);
        struct freed d = {.node = n, .blocks = here || round == 1};
        moyai_future *f = moyai_call_async(ref, "add", MOYAI_ARGS(1));
        KIT_OK(moyai_future_then(f, then_slowly, &d));
        while (!d.runs) (void)moyai_sleep_masked(n, MOYAI_MS);
        d.freeing = 1;
        moyai_future_free(f);
        if (!here) FIBER_ASSERT_INT(d.returned, 1); /* what it uses may go now */
        while (!d.returned) (void)moyai_sleep_masked(n, MOYAI_MS);
        moyai_ref_unref(ref);
        moyai_node_free(n);
    }
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(threads_call),
        cmocka_unit_test(two_nodes_with_threads_of_their_own),
        cmocka_unit_test(two_nodes_on_two_threads),
        cmocka_unit_test(functions_are_posted_from_threads),
        cmocka_unit_test(a_node_is_freed_where_it_belongs),
        cmocka_unit_test(a_thread_stops_a_node),
        cmocka_unit_test(a_future_is_freed_while_its_function_runs),
        cmocka_unit_test(a_node_ends_with_everything_open),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"counter", role_counter}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
