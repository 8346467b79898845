/* SPDX-License-Identifier: Apache-2.0 */
/*
 * S0/3.1, the object's scope: who may run in an object, when others may enter, what is atomic, and that nothing
 * deadlocks. signal_test.c has the signals.
 */
#include "tests/public/box.h"

#include <pthread.h>

static struct box box;

/* ---- at most one fiber runs in an object ----------------------------------------------------- */

struct lone {
    moyai_node *node;
    int inside; /* not atomic: the model says that it need not be */
    int64_t calls;
};

static void plain(struct lone *l) {
    FIBER_ASSERT_INT(l->inside, 1);
}

/* Some calls are short, some long enough for the progress thread to take the loop over meanwhile. */
static int lone_enter(moyai_request *rq, void *self) {
    struct lone *l = self;
    FIBER_ASSERT_INT(l->inside, 0);
    l->inside++;
    l->calls++;
    if (l->calls % 64 == 0) kit_compute(3 * MOYAI_MS);
    plain(l);
    /* None of these lets anybody in. */
    moyai_future *f = moyai_call_async(moyai_self(rq), "count", MOYAI_NONE);
    FIBER_ASSERT(!moyai_future_ready(f));
    moyai_future_free(f);
    KIT_OK(moyai_signal(moyai_self(rq)));
    plain(l);
    l->inside--;
    return 0;
}

static int lone_count(moyai_request *rq, void *self) {
    struct lone *l = self;
    FIBER_ASSERT_INT(l->inside, 0);
    return moyai_return(rq, MOYAI_ARGS(l->calls));
}

static const struct moyai_method lone_methods[] = {{"enter", lone_enter}, {"count", lone_count}, {NULL, NULL}};
static const struct moyai_class lone_class = MOYAI_CLASS("Lone", lone_methods, NULL);

enum { ENTER_CALLS = 500 };

static int role_caller(int argc, char **argv) {
    (void)argc, (void)argv;
    moyai_node *n = kit_node(NULL);
    moyai_ref *ref = kit_lookup(n, "lone");
    moyai_future *f[ENTER_CALLS];
    for (int i = 0; i < ENTER_CALLS; i++) f[i] = moyai_call_async(ref, "enter", MOYAI_NONE);
    for (int i = 0; i < ENTER_CALLS; i++) {
        KIT_OK(moyai_future_get(f[i], MOYAI_NONE));
        moyai_future_free(f[i]);
    }
    moyai_ref_unref(ref);
    moyai_node_free(n);
    return 0;
}

static void *thread_caller(void *ref) {
    for (int i = 0; i < ENTER_CALLS; i++) KIT_OK(moyai_call(ref, "enter", MOYAI_NONE, MOYAI_NONE, NULL));
    return NULL;
}

static void one_fiber_runs_in_an_object(void **state) {
    (void)state;
    struct lone l = {.node = kit_node(NULL)};
    moyai_ref *ref = kit_object(l.node, &lone_class, &l);
    KIT_OK(moyai_register(ref, "lone"));
    pid_t pid = kit_child("caller", NULL);
    pthread_t thread;
    FIBER_ASSERT_INT(pthread_create(&thread, NULL, thread_caller, ref), 0);
    for (int i = 0; i < ENTER_CALLS; i++) KIT_OK(moyai_call(ref, "enter", MOYAI_NONE, MOYAI_NONE, NULL));
    int64_t count = 0;
    while (count < 3 * ENTER_CALLS) {
        KIT_OK(moyai_call(ref, "count", MOYAI_NONE, MOYAI_INTO(&count), NULL));
        moyai_yield(l.node);
    }
    FIBER_ASSERT_INT(count, 3 * ENTER_CALLS);
    pthread_join(thread, NULL);
    FIBER_ASSERT_INT(kit_reap(pid), 0); /* the last answers leave while this thread waits */
    moyai_ref_unref(ref);
    moyai_node_free(l.node);
}

/* ---- while one blocks, others enter ---------------------------------------------------------- */

static int touch(void) {
    int n = 0;
    KIT_OK(moyai_call(box.ref, "touch", MOYAI_NONE, MOYAI_INTO(&n), NULL));
    return n;
}

static void others_enter(enum box_op op, bool masked) {
    box_shut(&box, op);
    if (op == BOX_SLEEP) box.nap = 50 * MOYAI_MS;
    moyai_future *f = box_block(&box, op, masked);
    int before = box.touched;
    FIBER_ASSERT_INT(touch(), before + 1);
    FIBER_ASSERT_INT(touch(), before + 2);
    if (op != BOX_SLEEP) { /* which may be over */
        FIBER_ASSERT_INT(box.blocked, 1);
        FIBER_ASSERT(!moyai_future_ready(f));
    }
    box_release(&box, op);
    KIT_OK(box_result(f));
    if (op == BOX_LOOKUP) KIT_OK(moyai_unregister(box.gate, box.name));
}

static void others_enter_while_one_blocks(void **state) {
    (void)state;
    box_open(&box);
    for (enum box_op op = 0; op < BOX_OPS_N; op++) {
        others_enter(op, false);
        if (box_ops[op].masked) others_enter(op, true);
    }
    box_close(&box);
}

/* ---- the atomic block ------------------------------------------------------------------------ */

struct atom {
    moyai_node *node;
    moyai_ref *ref, *other;
    int changes; /* by "change", which is always runnable while "check" runs */
};

static int atom_change(moyai_request *rq, void *self) {
    (void)rq;
    ((struct atom *)self)->changes++;
    return 0;
}

static int nothing(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    return 0;
}

/* Everything that is said not to switch fibers. */
static void not_switching(struct atom *a) {
    moyai_node *n = a->node;
    moyai_future *f = moyai_call_async(a->other, "nothing", MOYAI_NONE);
    moyai_set *set = kit_set(n);
    KIT_OK(moyai_set_add(set, f));
    FIBER_ASSERT(!moyai_set_next(set));
    FIBER_ASSERT_INT(moyai_set_count(set), 1);
    moyai_set_remove(set, f);
    moyai_set_free(set);
    FIBER_ASSERT(!moyai_future_ready(f));
    moyai_future_deadline(f, 60 * MOYAI_SEC);
    moyai_future_cancel(f);
    KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ECANCELED); /* its result is there */
    moyai_future_free(f);
    KIT_OK(moyai_call_oneway(a->other, "nothing", MOYAI_NONE));
    KIT_OK(moyai_signal(a->other));
    f = moyai_signal_async(a->other);
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    moyai_future_free(f);
    KIT_OK(moyai_register(a->ref, "atom"));
    KIT_OK(moyai_unregister(a->ref, "atom"));
    struct moyai_node_stats s = {.size = sizeof s};
    moyai_node_stats(n, &s);
    struct moyai_error e;
    moyai_last_error(n, &e);
    char text[MOYAI_REF_TEXT];
    moyai_ref_format(a->ref, text);
    moyai_ref *again = NULL;
    KIT_OK(moyai_ref_parse(n, text, &again));
    moyai_ref_unref(again);
}

/* A plain C call of the object's own function stays inside. */
static void own_function(struct atom *a, int changes) {
    FIBER_ASSERT_INT(a->changes, changes);
}

static int atom_check(moyai_request *rq, void *self) {
    struct atom *a = self;
    int changes = a->changes;
    KIT_OK(moyai_call_oneway(a->ref, "change", MOYAI_NONE));
    kit_compute(5 * MOYAI_MS); /* the progress thread drives; it runs no user code */
    own_function(a, changes);
    not_switching(a);
    own_function(a, changes);
    FIBER_ASSERT(!moyai_cancelled(rq));
    /* A synchronous call ends the block, also towards another object of this process, also towards oneself. */
    KIT_OK(moyai_call(a->other, "nothing", MOYAI_NONE, MOYAI_NONE, NULL));
    FIBER_ASSERT_INT(a->changes, changes + 1);
    KIT_OK(moyai_call_oneway(a->ref, "change", MOYAI_NONE));
    own_function(a, changes + 1);
    KIT_OK(moyai_call(moyai_self(rq), "nothing", MOYAI_NONE, MOYAI_NONE, NULL));
    FIBER_ASSERT_INT(a->changes, changes + 2);
    /* So does moyai_yield. */
    KIT_OK(moyai_call_oneway(a->ref, "change", MOYAI_NONE));
    own_function(a, changes + 2);
    moyai_yield(a->node);
    FIBER_ASSERT_INT(a->changes, changes + 3);
    /* A get whose result is there does not. */
    moyai_future *f = moyai_call_async(a->other, "nothing", MOYAI_NONE);
    while (!moyai_future_ready(f)) moyai_yield(a->node);
    KIT_OK(moyai_call_oneway(a->ref, "change", MOYAI_NONE));
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    own_function(a, changes + 3);
    moyai_future_free(f);
    moyai_yield(a->node);
    return 0;
}

static const struct moyai_method atom_methods[] = {
    {"change", atom_change}, {"check", atom_check}, {"nothing", nothing}, {NULL, NULL}};
static const struct moyai_class atom_class = MOYAI_CLASS("Atom", atom_methods, NULL);

static void atomic_block(void **state) {
    (void)state;
    struct atom a = {.node = kit_node(NULL)}, other = {0};
    a.ref = kit_object(a.node, &atom_class, &a);
    a.other = kit_object(a.node, &atom_class, &other);
    for (int i = 0; i < 10; i++) KIT_OK(moyai_call(a.ref, "check", MOYAI_NONE, MOYAI_NONE, NULL));
    FIBER_ASSERT_INT(a.changes, 40);
    moyai_ref_unref(a.ref);
    moyai_ref_unref(a.other);
    moyai_node_free(a.node);
}

/* ---- recursion ------------------------------------------------------------------------------- */

/* down(n, a, b): calls b.down(n - 1, b, a); the sum of all n. a and b may be one and the same. */
static int down(moyai_request *rq, void *self) {
    int64_t n, sum = 0;
    moyai_ref *a = NULL, *b = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&n, &a, &b)));
    FIBER_ASSERT(moyai_ref_equal(a, moyai_self(rq)));
    ++*(int *)self;
    if (n > 0) KIT_OK(moyai_call(b, "down", MOYAI_ARGS(n - 1, b, a), MOYAI_INTO(&sum), NULL));
    moyai_ref_unref(a);
    moyai_ref_unref(b);
    return moyai_return(rq, MOYAI_ARGS(sum + n));
}

static const struct moyai_method down_methods[] = {{"down", down}, {NULL, NULL}};
static const struct moyai_class down_class = MOYAI_CLASS("Down", down_methods, NULL);

static int role_down(int argc, char **argv) {
    (void)argc, (void)argv;
    int entered = 0;
    return kit_serve(NULL, &down_class, &entered, "down");
}

static void recursion_does_not_deadlock(void **state) {
    (void)state;
    moyai_node *n = kit_node(NULL);
    int in_a = 0, in_b = 0;
    moyai_ref *a = kit_object(n, &down_class, &in_a), *b = kit_object(n, &down_class, &in_b);
    pid_t pid = kit_child("down", NULL);
    moyai_ref *far = kit_lookup(n, "down");
    int64_t depth = 200, sum = 0, want = depth * (depth + 1) / 2;
    KIT_OK(moyai_call(a, "down", MOYAI_ARGS(depth, a, b), MOYAI_INTO(&sum), NULL)); /* A -> B -> A */
    FIBER_ASSERT_INT(sum, want);
    FIBER_ASSERT_INT(in_a, 101);
    FIBER_ASSERT_INT(in_b, 100);
    KIT_OK(moyai_call(a, "down", MOYAI_ARGS(depth, a, a), MOYAI_INTO(&sum), NULL)); /* oneself, by reference */
    FIBER_ASSERT_INT(sum, want);
    FIBER_ASSERT_INT(in_a, 302);
    KIT_OK(moyai_call(a, "down", MOYAI_ARGS(depth, a, far), MOYAI_INTO(&sum), NULL)); /* between processes */
    FIBER_ASSERT_INT(sum, want);
    FIBER_ASSERT_INT(in_a, 403);
    KIT_OK(moyai_call(far, "down", MOYAI_ARGS(depth, far, a), MOYAI_INTO(&sum), NULL)); /* begun on the other side */
    FIBER_ASSERT_INT(sum, want);
    FIBER_ASSERT_INT(in_a, 503);
    KIT_OK(moyai_call(far, "down", MOYAI_ARGS(depth, far, far), MOYAI_INTO(&sum), NULL)); /* oneself, over there */
    FIBER_ASSERT_INT(sum, want);
    moyai_ref_unref(a);
    moyai_ref_unref(b);
    moyai_ref_unref(far);
    moyai_node_free(n);
    kit_end(pid);
}

/* Two that call each other at the same time, many times: each call finds the other's object blocked, and enters. */
static void mutual_calls_do_not_deadlock(void **state) {
    (void)state;
    moyai_node *n = kit_node(NULL);
    int in_a = 0;
    moyai_ref *a = kit_object(n, &down_class, &in_a);
    pid_t pid = kit_child("down", NULL);
    moyai_ref *b = kit_lookup(n, "down");
    enum { N = 200 };
    moyai_future *f[N];
    for (int64_t i = 0; i < N; i++)
        f[i] = i % 2 ? moyai_call_async(a, "down", MOYAI_ARGS(i % 20, a, b))
                     : moyai_call_async(b, "down", MOYAI_ARGS(i % 20, b, a));
    for (int64_t i = 0; i < N; i++) {
        int64_t sum = 0, k = i % 20;
        KIT_OK(moyai_future_get(f[i], MOYAI_INTO(&sum)));
        FIBER_ASSERT_INT(sum, k * (k + 1) / 2);
        moyai_future_free(f[i]);
    }
    moyai_ref_unref(a);
    moyai_ref_unref(b);
    moyai_node_free(n);
    kit_end(pid);
}

/* ---- figure 1's start ------------------------------------------------------------------------ */

static int empty_wait(moyai_request *rq, void *self) {
    (void)self;
    moyai_dur timeout;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&timeout)));
    moyai_set *set = kit_set(moyai_request_node(rq));
    int rc = moyai_wait(set, timeout);
    KIT_RC(moyai_wait_all(set, MOYAI_FOREVER), 0); /* all of none are there */
    moyai_set_free(set);
    return moyai_return(rq, MOYAI_ARGS(rc));
}

static const struct moyai_method start_methods[] = {{"wait", empty_wait}, {"nothing", nothing}, {NULL, NULL}};
static const struct moyai_class start_class = MOYAI_CLASS("Start", start_methods, NULL);

static void waiting_for_nothing_blocks_until_a_signal(void **state) {
    (void)state;
    moyai_node *n = kit_node(NULL);
    moyai_ref *ref = kit_object(n, &start_class, NULL);
    moyai_future *f = moyai_call_async(ref, "wait", MOYAI_ARGS(MOYAI_FOREVER));
    for (int i = 0; i < 100; i++) {
        KIT_OK(moyai_call(ref, "nothing", MOYAI_NONE, MOYAI_NONE, NULL));
        FIBER_ASSERT(!moyai_future_ready(f));
    }
    KIT_OK(moyai_signal(ref));
    FIBER_ASSERT_INT(box_result(f), MOYAI_SIGNALLED);
    static const moyai_dur timeouts[] = {0, -5, 1, 20 * MOYAI_MS};
    for (size_t i = 0; i < sizeof timeouts / sizeof timeouts[0]; i++) {
        moyai_ns begin = moyai_now();
        FIBER_ASSERT_INT(box_result(moyai_call_async(ref, "wait", MOYAI_ARGS(timeouts[i]))), MOYAI_ETIMEDOUT);
        FIBER_ASSERT((moyai_dur)(moyai_now() - begin) >= timeouts[i]);
    }
    moyai_ref_unref(ref);
    moyai_node_free(n);
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(one_fiber_runs_in_an_object),
        cmocka_unit_test(others_enter_while_one_blocks),
        cmocka_unit_test(atomic_block),
        cmocka_unit_test(recursion_does_not_deadlock),
        cmocka_unit_test(mutual_calls_do_not_deadlock),
        cmocka_unit_test(waiting_for_nothing_blocks_until_a_signal),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {
        {"caller", role_caller}, {"down", role_down}, {"box-peer", box_peer}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
