/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that are not the node's own, and nodes that share a thread: what they may do, and what becomes of them when
 * the node ends first, or they do.
 */
#include "tests/public/kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { LARGE = 1 << 20 /* bytes: lent or borrowed, not copied */ };
static char large[LARGE];

static int m_sleep(moyai_request *rq, void *self) {
    atomic_int *begun = self;
    ++*begun;
    return moyai_sleep_masked(moyai_request_node(rq), MOYAI_FOREVER);
}

static int m_large(moyai_request *rq, void *self) {
    (void)self;
    return moyai_return(rq, MOYAI_ARGS(moyai_bytes(large, sizeof large)));
}

static int m_count(moyai_request *rq, void *self) {
    (void)rq;
    ++*(atomic_int *)self;
    return 0;
}

/* Computes for longer than the runtime lets pass without a poll. */
static int m_compute(moyai_request *rq, void *self) {
    (void)rq;
    ++*(atomic_int *)self;
    moyai_ns end = moyai_now() + 3 * (moyai_ns)MOYAI_MS;
    while (moyai_now() < end) {
    }
    return 0;
}

struct nested {
    moyai_node *node; /* of ref */
    moyai_ref *ref;
    struct moyai_error why;
};

/* A synchronous call to another node of this thread, which is blocked in a call to this one. */
static int m_nested(moyai_request *rq, void *self) {
    (void)rq;
    struct nested *s = self;
    double *p = calloc(LARGE / sizeof *p, sizeof *p);
    FIBER_ASSERT(p);
    int rc = moyai_call(s->ref, "count", MOYAI_ARGS(moyai_doubles(p, LARGE / sizeof *p)), MOYAI_NONE, NULL);
    moyai_last_error(s->node, &s->why);
    memset(p, 0xff, LARGE);
    free(p);
    return rc;
}

static const struct moyai_method methods[] = {{"sleep", m_sleep},     {"large", m_large},   {"count", m_count},
                                              {"compute", m_compute}, {"nested", m_nested}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Foreign", methods, NULL);

static moyai_node *own_node(void) {
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.own_thread = true;
    return kit_node(&opts);
}

/* ---- two nodes on one thread ----------------------------------------------------------------- */

static struct {
    moyai_node *a, *b;
    moyai_ref *in_a, *in_b;
    int rc;
    bool done;
} two;

static void from_a_to_b(void *arg) {
    (void)arg;
    two.rc = moyai_call(two.in_b, "nested", MOYAI_NONE, MOYAI_NONE, NULL);
    two.done = true;
}

/* The main context waits in A, A's fiber in B, and B's fiber wants to wait in A: it is told, and nothing is called. */
static void a_wait_that_could_not_end_is_refused(void **state) {
    (void)state;
    atomic_int count = 0;
    two.a = kit_node(NULL);
    two.b = kit_node(NULL);
    two.in_a = kit_object(two.a, &cls, &count);
    struct nested s = {.node = two.a, .ref = two.in_a};
    two.in_b = kit_object(two.b, &cls, &s);
    KIT_OK(moyai_go(two.a, from_a_to_b, NULL));
    KIT_UNTIL(two.a, two.done);
    FIBER_ASSERT_INT(two.rc, MOYAI_ESTATE);
    FIBER_ASSERT_INT(s.why.code, MOYAI_ESTATE);
    FIBER_ASSERT_INT(s.why.executed, MOYAI_NEVER_EXECUTED);
    KIT_TEXT(s.why.text, "another node of this thread");
    kit_settle(two.a);
    FIBER_ASSERT_INT(count, 0);
    moyai_ref_unref(two.in_a);
    moyai_ref_unref(two.in_b);
    moyai_node_free(two.b);
    moyai_node_free(two.a);
}

/* ---- the node ends before the thread --------------------------------------------------------- */

enum how { CALL, SLEEP, LOOKUP, GET, HOWS };
struct caught {
    pthread_t thread;
    moyai_node *node;
    moyai_ref *ref;
    enum how how;
    atomic_int tid; /* set when the next thing it does is to wait */
};

static void *wait_in_it(void *arg) {
    struct caught *c = arg;
    moyai_ref *ref = NULL;
    double *p = calloc(LARGE / sizeof *p, sizeof *p);
    FIBER_ASSERT(p);
    moyai_future *f = c->how == GET ? moyai_call_async(c->ref, "sleep", MOYAI_NONE) : NULL;
    int rc = 0;
    c->tid = gettid();
    switch (c->how) {
    case CALL:
        rc = moyai_call(c->ref, "sleep", MOYAI_ARGS(moyai_doubles(p, LARGE / sizeof *p)), MOYAI_NONE, NULL);
        break;
    case SLEEP:
        rc = moyai_sleep(c->node, MOYAI_FOREVER);
        break;
    case LOOKUP:
        rc = moyai_lookup_wait(c->node, "never there", MOYAI_FOREVER, &ref);
        break;
    default:
        rc = moyai_future_get(f, MOYAI_NONE); /* which goes with the node */
    }
    KIT_RC(rc, MOYAI_ECLOSED);
    memset(p, 0xff, LARGE);
    free(p);
    return NULL;
}

/* Is the thread blocked? It has said that it is about to wait. */
static bool sleeps(const struct caught *c) {
    char path[64], line[256] = "";
    if (!c->tid) return false;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", c->tid);
    FILE *f = fopen(path, "re");
    FIBER_ASSERT(f && fgets(line, sizeof line, f));
    fclose(f);
    return strstr(line, ") S ");
}

static void threads_come_back_from_a_node_that_ends(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        bool own = round % 2;
        atomic_int waiting = 0;
        moyai_node *n = own ? own_node() : kit_node(NULL);
        moyai_ref *ref = kit_object(n, &cls, &waiting);
        struct caught c[HOWS];
        for (int i = 0; i < HOWS; i++) {
            c[i] = (struct caught){.node = n, .ref = ref, .how = (enum how)i};
            FIBER_ASSERT_INT(pthread_create(&c[i].thread, NULL, wait_in_it, &c[i]), 0);
        }
        if (own)
            while (waiting < 2) sched_yield();
        else
            KIT_UNTIL(n, waiting == 2);
        for (int i = 0; i < HOWS; i++)
            while (!sleeps(&c[i])) sched_yield();
        moyai_node_free(n);
        for (int i = 0; i < HOWS; i++) pthread_join(c[i].thread, NULL);
        moyai_ref_unref(ref);
    }
}

/* ---- what may block at the end of a node ---------------------------------------------------------- */

struct ending {
    moyai_node *node;
    bool freeing;
    int rc, went_on;
};
static struct ending ending;

static void on_destroy(void *self) {
    (void)self;
    ending.rc = moyai_sleep(ending.node, 5 * MOYAI_MS);
}

static int m_go_on(moyai_request *rq, void *self) {
    (void)self;
    while (!ending.freeing) (void)moyai_sleep_masked(moyai_request_node(rq), MOYAI_MS);
    ending.went_on++;
    return 0;
}

/* No method runs any more, whatever a destroy function waits for. */
static void a_destroy_function_cannot_wait(void **state) {
    (void)state;
    static const struct moyai_method loop[] = {{"go_on", m_go_on}, {NULL, NULL}}, none[] = {{NULL, NULL}};
    static const struct moyai_class running = MOYAI_CLASS("Running", loop, NULL),
                                    blocking = MOYAI_CLASS("Blocking", none, on_destroy);
    for (int own = 0; own < 2; own++) {
        ending = (struct ending){.node = own ? own_node() : kit_node(NULL)};
        moyai_ref *a = kit_object(ending.node, &running, NULL), *b = kit_object(ending.node, &blocking, NULL);
        KIT_OK(moyai_call_oneway(a, "go_on", MOYAI_NONE));
        if (!own) kit_settle(ending.node);
        if (!own) ending.freeing = true; /* the other one would see it at once */
        moyai_node_free(ending.node);
        FIBER_ASSERT_INT(ending.rc, MOYAI_ECLOSED);
        FIBER_ASSERT_INT(ending.went_on, 0);
        moyai_ref_unref(a);
        moyai_ref_unref(b);
    }
}

/* ---- the thread ends before the node --------------------------------------------------------- */

static void *call_once(void *arg) {
    const void *p;
    size_t n;
    KIT_OK(moyai_call(arg, "large", MOYAI_NONE, MOYAI_INTO(moyai_into_bytes(&p, &n)), NULL));
    FIBER_ASSERT_INT(n, LARGE);
    return NULL;
}

static long resident_kib(void) {
    FILE *f = fopen("/proc/self/statm", "re");
    long all, resident;
    FIBER_ASSERT(f && fscanf(f, "%ld %ld", &all, &resident) == 2);
    fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A result that a thread has borrowed goes with it. */
static void threads_that_have_ended_keep_nothing(void **state) {
    (void)state;
    moyai_node *n = own_node();
    moyai_ref *ref = kit_object(n, &cls, NULL);
    long before = 0;
    for (int i = 0; i < 220; i++) {
        pthread_t t;
        FIBER_ASSERT_INT(pthread_create(&t, NULL, call_once, ref), 0);
        pthread_join(t, NULL);
        if (i == 19) before = resident_kib();
    }
    long grown = resident_kib() - before;
    if (!FIBER_SANITIZED && !FIBER_ON_VALGRIND) FIBER_ASSERT(grown < 100 * (LARGE / 1024)); /* of 200 */
    moyai_ref_unref(ref);
    moyai_node_free(n);
}

/* ---- serving among long calls ---------------------------------------------------------------- */

struct flow {
    moyai_ref *ref;
    atomic_int *ran;
    int ran_at_stop;
    moyai_node *node;
    atomic_bool served, done;
};

/* Two calls are always under way. */
static void *keep_calling(void *arg) {
    struct flow *w = arg;
    moyai_future *f[2];
    for (int i = 0; i < 2; i++) f[i] = moyai_call_async(w->ref, "compute", MOYAI_NONE);
    for (int i = 0; !w->served && *w->ran < 400; i++) {
        KIT_OK(moyai_future_get(f[i % 2], MOYAI_NONE));
        moyai_future_free(f[i % 2]);
        f[i % 2] = moyai_call_async(w->ref, "compute", MOYAI_NONE);
        if (i == 10) {
            w->ran_at_stop = *w->ran;
            moyai_node_stop(w->node);
        }
    }
    for (int i = 0; i < 2; i++) {
        KIT_OK(moyai_future_get(f[i], MOYAI_NONE));
        moyai_future_free(f[i]);
    }
    w->done = true;
    return NULL;
}

static void a_node_hears_stop_among_long_calls(void **state) {
    (void)state;
    atomic_int ran = 0;
    moyai_node *n = kit_node(NULL);
    struct flow w = {.ref = kit_object(n, &cls, &ran), .ran = &ran, .node = n};
    pthread_t t;
    FIBER_ASSERT_INT(pthread_create(&t, NULL, keep_calling, &w), 0);
    KIT_OK(moyai_node_serve(n, MOYAI_FOREVER));
    int late = ran - w.ran_at_stop;
    w.served = true;
    KIT_UNTIL(n, w.done);
    pthread_join(t, NULL);
    if (late > 30) FIBER_FAIL("%d calls were served after the stop", late);
    moyai_ref_unref(w.ref);
    moyai_node_free(n);
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(a_wait_that_could_not_end_is_refused),
        cmocka_unit_test(threads_come_back_from_a_node_that_ends),
        cmocka_unit_test(a_destroy_function_cannot_wait),
        cmocka_unit_test(threads_that_have_ended_keep_nothing),
        cmocka_unit_test(a_node_hears_stop_among_long_calls),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
