/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving in order, first phase: what a node that is told to leave has begun is finished, nothing of others begins
 * there, and who calls it knows which is which.
 */
#include "tests/public/kit.h"

#include "link/key.h"
#include "tests/support/port.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static moyai_node *node;
static _Atomic uint32_t *counts;
enum { BEGUN, ENDED, TOLD, HOOKS, ONEWAY, COUNTS };

/* ---- the one that leaves --------------------------------------------------------------------- */

/* Until somebody signals. */
static int m_hold(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    counts[BEGUN]++;
    int rc = moyai_sleep(node, MOYAI_FOREVER);
    if (rc == MOYAI_ELEAVING) { /* once */
        counts[TOLD]++;
        FIBER_ASSERT(moyai_leaving(node));
        rc = moyai_sleep(node, MOYAI_FOREVER);
    }
    KIT_RC(rc, MOYAI_SIGNALLED);
    counts[ENDED]++;
    return moyai_return(rq, MOYAI_ARGS(1));
}

/* Calls the caller's object, which calls this one. */
static int m_there_and_back(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *other = NULL;
    int x = 0;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&other)));
    counts[BEGUN]++;
    (void)moyai_sleep(node, MOYAI_FOREVER); /* until the node leaves */
    FIBER_ASSERT(moyai_leaving(node));
    KIT_OK(moyai_call(other, "back", MOYAI_ARGS(moyai_self(rq)), MOYAI_INTO(&x), NULL));
    moyai_ref_unref(other);
    counts[ENDED]++;
    return moyai_return(rq, MOYAI_ARGS(x + 1));
}

static int m_echo(moyai_request *rq, void *self) {
    (void)self;
    int x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    return moyai_return(rq, MOYAI_ARGS(x));
}

static int m_count(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    counts[ONEWAY]++;
    return 0;
}

/* As much as is asked for. */
static int m_give(moyai_request *rq, void *self) {
    (void)self;
    size_t n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&n)));
    counts[BEGUN]++;
    while (!moyai_leaving(node)) (void)moyai_sleep_masked(node, MOYAI_MS);
    uint8_t *p = calloc(n, 1);
    FIBER_ASSERT(p);
    int rc = moyai_return(rq, MOYAI_ARGS(moyai_bytes(p, n)));
    free(p);
    return rc;
}

static int m_once(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    counts[BEGUN]++;
    return 0;
}

static int m_never(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    counts[BEGUN]++;
    return moyai_sleep_masked(node, MOYAI_FOREVER);
}

static moyai_ref *keeper;
static void on_leave(moyai_node *n, moyai_ref *ref, void *self) {
    (void)self;
    int x = 0;
    FIBER_ASSERT(n == node && moyai_ref_is_local(ref));
    counts[HOOKS]++;
    if (!keeper) return;
    KIT_OK(moyai_sleep(n, MOYAI_MS));                                         /* it knows that the node leaves */
    KIT_OK(moyai_call(keeper, "echo", MOYAI_ARGS(41), MOYAI_INTO(&x), NULL)); /* blocks: others run meanwhile */
    FIBER_ASSERT_INT(x, 41);
    KIT_OK(moyai_signal(ref));
    counts[HOOKS]++;
}

static int m_keep(moyai_request *rq, void *self) {
    (void)self;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&keeper)));
    return 0;
}

static const struct moyai_method methods[] = {{"hold", m_hold}, {"there_and_back", m_there_and_back},
                                              {"echo", m_echo}, {"count", m_count},
                                              {"give", m_give}, {"never", m_never},
                                              {"keep", m_keep}, {"once", m_once},
                                              {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS_LEAVING("Leaver", methods, NULL, on_leave);

static int role_leaver(int argc, char **argv) {
    (void)argc;
    counts = kit_shared(argv[0], COUNTS);
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.signals = true;
    node = kit_node(&opts);
    moyai_ref *ref = kit_object(node, &cls, NULL);
    KIT_OK(moyai_register(ref, argv[0]));
    KIT_OK(moyai_node_serve(node, MOYAI_FOREVER));
    FIBER_ASSERT(moyai_leaving(node) && moyai_node_stopping(node));
    moyai_ref_unref(keeper);
    moyai_ref_unref(ref);
    moyai_node_free(node);
    return 0;
}

/* ---- those that stay ------------------------------------------------------------------------- */

static int m_back(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *leaver = NULL;
    int x = 0;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&leaver)));
    KIT_OK(moyai_call(leaver, "echo", MOYAI_ARGS(7), MOYAI_INTO(&x), NULL));
    moyai_ref_unref(leaver);
    return moyai_return(rq, MOYAI_ARGS(x));
}
static const struct moyai_method staying[] = {{"back", m_back}, {"echo", m_echo}, {NULL, NULL}};
static const struct moyai_class stayer = MOYAI_CLASS("Stayer", staying, NULL);

/* As moyai leave does. */
static void tell(moyai_ref *of) {
    moyai_ref *home = NULL;
    double seconds = 0;
    KIT_OK(moyai_node_ref(node, moyai_ref_home(of), &home));
    KIT_OK(moyai_call(home, "leave", MOYAI_NONE, MOYAI_INTO(&seconds), NULL));
    FIBER_ASSERT(seconds > 0 && seconds <= 30);
    moyai_ref_unref(home);
}

static pid_t begin(const char *name, moyai_ref **ref) {
    counts = kit_shared(name, COUNTS);
    pid_t pid = kit_child_quiet("leaver", name, NULL);
    *ref = kit_lookup(node, name);
    return pid;
}

/* What has begun ends; what comes later is refused, never executed, and one can tell. */
static void what_has_begun_is_finished(void **state) {
    (void)state;
    moyai_ref *ref;
    node = kit_node(NULL);
    pid_t pid = begin("holds", &ref);
    moyai_future *f = moyai_call_async(ref, "hold", MOYAI_NONE);
    KIT_UNTIL(node, counts[BEGUN] == 1);
    tell(ref);
    KIT_UNTIL(node, counts[HOOKS] == 1 && counts[TOLD] == 1);
    for (int i = 0; i < 3; i++) {
        moyai_future *late = moyai_call_async(ref, "echo", MOYAI_ARGS(i));
        struct moyai_error e = KIT_FAILED(late, MOYAI_ELEAVING, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
        KIT_TEXT(e.text, "the object's node is leaving");
        moyai_future_free(late);
    }
    for (int i = 0; i < 5; i++) KIT_OK(moyai_call_oneway(ref, "count", MOYAI_NONE)); /* who would tell of their end? */
    KIT_UNTIL(node, counts[ONEWAY] == 5);
    FIBER_ASSERT(!kit_gone(pid));
    KIT_OK(moyai_signal(ref));
    int x = 0;
    KIT_OK(moyai_future_get(f, MOYAI_INTO(&x)));
    FIBER_ASSERT_INT(x, 1);
    moyai_future_free(f);
    FIBER_ASSERT_INT(kit_reap(pid), 0);
    FIBER_ASSERT_INT(counts[TOLD], 1);
    moyai_ref_unref(ref);
    moyai_node_free(node);
}

static double told_within(moyai_ref *of, double seconds) {
    moyai_ref *home = NULL;
    double left = 0;
    KIT_OK(moyai_node_ref(node, moyai_ref_home(of), &home));
    KIT_OK(moyai_call(home, "leave", MOYAI_ARGS(seconds), MOYAI_INTO(&left), NULL));
    moyai_ref_unref(home);
    return left;
}

/* Without a limit, nothing ends the leave of a node where a method does not return, or that waits for one that is
 * stopped, but a word that gives it a time. */
static void who_takes_its_time_is_told_again(void **state) {
    (void)state;
    for (int stopped = 0; stopped < 2; stopped++) {
        moyai_ref *ref, *other = NULL;
        node = kit_node(NULL);
        pid_t neighbour = kit_child_quiet("leaver", stopped ? "other1" : "other0", NULL);
        other = kit_lookup(node, stopped ? "other1" : "other0");
        counts = kit_shared(stopped ? "ever1" : "ever0", COUNTS);
        pid_t pid = kit_child_quiet("leaver", stopped ? "ever1" : "ever0", NULL);
        ref = kit_lookup(node, stopped ? "ever1" : "ever0");
        moyai_future *f = NULL;
        if (stopped) {
            KIT_OK(moyai_call(ref, "keep", MOYAI_ARGS(other), MOYAI_NONE, NULL));
            kit_stop(neighbour);
        } else {
            f = moyai_call_async(ref, "never", MOYAI_NONE);
            KIT_UNTIL(node, counts[BEGUN] == 1);
        }
        FIBER_ASSERT(isinf(told_within(ref, INFINITY)));
        KIT_UNTIL(node, counts[HOOKS] == 1);
        for (int i = 0; i < 20; i++) {
            KIT_OK(moyai_ping(node, moyai_ref_home(ref), MOYAI_FOREVER));
            KIT_OK(moyai_sleep_masked(node, 5 * MOYAI_MS));
        }
        FIBER_ASSERT(!kit_gone(pid));
        FIBER_ASSERT(isinf(told_within(ref, INFINITY)));
        FIBER_ASSERT(told_within(ref, 0.2) <= 0.2);
        FIBER_ASSERT_INT(kit_reap(pid), 0);
        char *said = kit_stderr(pid);
        KIT_TEXT(said, "MOYAI-LEAVE-CUT this node leaves now, and its time (");
        KIT_TEXT(said, stopped ? "1 on_leave that has not returned" : "1 call in progress here");
        free(said);
        if (stopped) kit_cont(neighbour);
        if (f) KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ECLOSED);
        moyai_future_free(f);
        kit_end(neighbour);
        moyai_ref_unref(other);
        moyai_ref_unref(ref);
        moyai_node_free(node);
    }
}

/* Who calls it again and again does not keep it here; and knows, of each call, whether it was executed. So he does if
 * the time is over, as another call does not end: only of that it is not known. */
static void is_called_on_and_on(int cut) {
    char name[16];
    snprintf(name, sizeof name, "echoes%d", cut);
    enum { OPEN = 4 };
    moyai_ref *ref;
    moyai_future *f;
    uint32_t answered = 0, refused = 0;
    node = kit_node(NULL);
    moyai_set *set = kit_set(node);
    if (cut) setenv("MOYAI_LEAVE_DEADLINE", "100ms", 1);
    pid_t pid = begin(name, &ref);
    unsetenv("MOYAI_LEAVE_DEADLINE");
    moyai_future *never = cut ? moyai_call_async(ref, "never", MOYAI_NONE) : NULL;
    for (bool gone = false; !gone || moyai_set_count(set) > 0;) {
        while (!gone && moyai_set_count(set) < OPEN)
            KIT_OK(moyai_set_add(set, moyai_call_async(ref, "once", MOYAI_NONE)));
        KIT_OK(moyai_wait_masked(set, MOYAI_FOREVER));
        while ((f = moyai_set_next(set))) {
            struct moyai_error e;
            const int rc = moyai_future_error(f, 0, &e);
            if (rc < 0 && e.executed != MOYAI_NEVER_EXECUTED) FIBER_FAIL("not known: %s", e.text);
            answered += rc == 0;
            refused += rc < 0;
            if (answered == 100 && rc == 0) tell(ref);
            moyai_future_free(f);
        }
        if (!gone) gone = kit_gone(pid);
    }
    char *said = kit_stderr(pid);
    if (cut)
        KIT_TEXT(said, "cut short: 1 call in progress here: 'never' sleeps");
    else if (said[0])
        FIBER_FAIL("it has said: %s", said);
    free(said);
    FIBER_ASSERT(answered >= 100 && refused > 0);
    FIBER_ASSERT_INT(counts[BEGUN], answered + (cut > 0));
    if (cut) (void)KIT_FAILED(never, MOYAI_ECLOSED, MOYAI_AT_PEER, MOYAI_MAY_HAVE_EXECUTED);
    moyai_future_free(never);
    moyai_set_free(set);
    moyai_ref_unref(ref);
    moyai_node_free(node);
}

static void who_is_called_on_and_on_leaves(void **state) {
    (void)state;
    for (int cut = 0; cut < 20; cut++) is_called_on_and_on(cut);
}

/* What a method here waits for is taken, wherever it comes from. */
static void nested_calls_are_taken(void **state) {
    (void)state;
    moyai_ref *ref;
    node = kit_node(NULL);
    moyai_ref *self = kit_object(node, &stayer, NULL);
    pid_t pid = begin("nested", &ref);
    moyai_future *f = moyai_call_async(ref, "there_and_back", MOYAI_ARGS(self));
    KIT_UNTIL(node, counts[BEGUN] == 1);
    tell(ref);
    int x = 0;
    KIT_OK(moyai_future_get(f, MOYAI_INTO(&x)));
    FIBER_ASSERT_INT(x, 8);
    moyai_future_free(f);
    FIBER_ASSERT_INT(kit_reap(pid), 0);
    moyai_ref_unref(self);
    moyai_ref_unref(ref);
    moyai_node_free(node);
}

/* on_leave runs in the object's scope, may block, and is waited for; here it lets the method go. */
static void objects_are_told(void **state) {
    (void)state;
    moyai_ref *ref;
    node = kit_node(NULL);
    moyai_ref *self = kit_object(node, &stayer, NULL);
    pid_t pid = begin("told", &ref);
    KIT_OK(moyai_call(ref, "keep", MOYAI_ARGS(self), MOYAI_NONE, NULL));
    moyai_future *f = moyai_call_async(ref, "hold", MOYAI_NONE);
    KIT_UNTIL(node, counts[BEGUN] == 1);
    tell(ref);
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    moyai_future_free(f);
    FIBER_ASSERT_INT(kit_reap(pid), 0);
    FIBER_ASSERT_INT(counts[HOOKS], 2);
    FIBER_ASSERT_INT(counts[ENDED], 1);
    moyai_ref_unref(self);
    moyai_ref_unref(ref);
    moyai_node_free(node);
}

/* What is large, and taken slowly: the end comes behind it. */
static void answers_are_taken_before_the_end(void **state) {
    (void)state;
    enum { SIZE = 30000000 };
    moyai_ref *ref;
    setenv("MOYAI_LINK_RATE", "100MiB", 1);
    node = kit_node(NULL);
    pid_t pid = begin("gives", &ref);
    moyai_future *f = moyai_call_async(ref, "give", MOYAI_ARGS((size_t)SIZE));
    KIT_UNTIL(node, counts[BEGUN] == 1);
    tell(ref);
    kit_compute(20 * MOYAI_MS);
    const void *p = NULL;
    size_t n = 0;
    KIT_OK(moyai_future_get(f, MOYAI_INTO(moyai_into_bytes(&p, &n))));
    moyai_future_free(f);
    FIBER_ASSERT_INT(kit_reap(pid), 0);
    FIBER_ASSERT_INT(n, SIZE);
    moyai_ref_unref(ref);
    moyai_node_free(node);
    unsetenv("MOYAI_LINK_RATE");
}

/* A method that does not end is cut short when the time is over, and everybody knows. */
static void what_takes_too_long_is_cut_short(void **state) {
    (void)state;
    moyai_ref *ref;
    setenv("MOYAI_LEAVE_DEADLINE", "300ms", 1);
    node = kit_node(NULL);
    pid_t pid = begin("never", &ref);
    moyai_future *f = moyai_call_async(ref, "never", MOYAI_NONE);
    KIT_UNTIL(node, counts[BEGUN] == 1);
    tell(ref);
    KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ECLOSED);
    moyai_future_free(f);
    FIBER_ASSERT_INT(kit_reap(pid), 0);
    char *said = kit_stderr(pid);
    KIT_TEXT(said, "MOYAI-LEAVE-CUT this node leaves now, and its time (300 ms) is over: cut short: 1 call in progress "
                   "here: 'never' sleeps");
    free(said);
    moyai_ref_unref(ref);
    moyai_node_free(node);
    unsetenv("MOYAI_LEAVE_DEADLINE");
}

/* Who waits behind a message that is on its way has not begun when the leave is cut short, and hears that, though he is
 * stopped meanwhile. */
static int role_behind(int argc, char **argv) {
    enum { LARGE = 30000000, CALLS = 20 };
    (void)argc;
    counts = kit_shared(argv[0], COUNTS);
    node = kit_node(NULL);
    moyai_ref *ref = kit_lookup(node, argv[0]), *home = NULL;
    uint8_t *p = calloc(LARGE, 1);
    FIBER_ASSERT(p);
    KIT_OK(moyai_node_ref(node, moyai_ref_home(ref), &home));
    moyai_future *f[CALLS], *large = moyai_call_async(ref, "once", MOYAI_ARGS(moyai_bytes(p, LARGE)));
    for (int i = 0; i < CALLS; i++) f[i] = moyai_call_async(ref, "once", MOYAI_NONE);
    KIT_OK(moyai_call(home, "ping", MOYAI_NONE, MOYAI_NONE, NULL)); /* behind those */
    counts[ENDED] = 1;
    for (int i = 0; i < CALLS; i++) {
        struct moyai_error e;
        const int rc = moyai_future_get(f[i], MOYAI_NONE);
        moyai_future_error(f[i], 0, &e);
        if (rc != MOYAI_ELEAVING || e.executed != MOYAI_NEVER_EXECUTED) FIBER_FAIL("call %d: %s", i, e.text);
        moyai_future_free(f[i]);
    }
    FIBER_ASSERT(moyai_future_get(large, MOYAI_NONE) < 0);
    moyai_future_free(large);
    free(p);
    moyai_ref_unref(home);
    moyai_ref_unref(ref);
    moyai_node_free(node);
    return 0;
}

static void what_has_not_begun_is_not_in_doubt(void **state) {
    (void)state;
    moyai_ref *ref;
    setenv("MOYAI_LEAVE_DEADLINE", "300ms", 1);
    node = kit_node(NULL);
    pid_t pid = begin("behind", &ref);
    unsetenv("MOYAI_LEAVE_DEADLINE");
    pid_t caller = kit_child("behind", "MOYAI_LINK_RATE=100KiB", "behind", NULL);
    KIT_UNTIL(node, counts[ENDED] == 1);
    kit_stop(caller);
    tell(ref);
    FIBER_ASSERT_INT(kit_reap(pid), 0);
    char *said = kit_stderr(pid);
    KIT_TEXT(said, "MOYAI-LEAVE-CUT");
    free(said);
    FIBER_ASSERT_INT(counts[BEGUN], 0);
    kit_cont(caller);
    FIBER_ASSERT_INT(kit_reap(caller), 0);
    moyai_ref_unref(ref);
    moyai_node_free(node);
}

/* ---- in one process -------------------------------------------------------------------------- */

static int waited[2];
static void fiber_waits(void *arg) {
    (void)arg;
    moyai_set *set = kit_set(node);
    waited[0] = moyai_wait(set, MOYAI_FOREVER);
    waited[1] = moyai_wait(set, 10 * MOYAI_MS);
    moyai_set_free(set);
}

/* Who does not serve is told as well, once each; and the shorter time holds. */
static void whoever_waits_is_told_once(void **state) {
    (void)state;
    node = kit_node(NULL);
    KIT_RC(moyai_leave(NULL, 0), MOYAI_EINVAL);
    KIT_RC(moyai_leave(node, -1), MOYAI_EINVAL);
    FIBER_ASSERT(!moyai_leaving(node));
    FIBER_ASSERT(moyai_leaving(NULL) && !moyai_leaving(node) && !moyai_node_stopping(node));
    KIT_OK(moyai_go(node, fiber_waits, NULL));
    kit_settle(node);
    KIT_OK(moyai_leave(node, MOYAI_FOREVER));
    FIBER_ASSERT(moyai_leaving(node) && moyai_node_stopping(node));
    KIT_RC(moyai_sleep(node, MOYAI_FOREVER), MOYAI_ELEAVING);
    struct moyai_error e = {0};
    moyai_last_error(node, &e);
    KIT_TEXT(e.text, "this node leaves");
    KIT_OK(moyai_sleep(node, MOYAI_MS));
    KIT_UNTIL(node, waited[1]);
    KIT_RC(waited[0], MOYAI_ELEAVING);
    KIT_RC(waited[1], MOYAI_ETIMEDOUT);
    KIT_OK(moyai_leave(node, MOYAI_SEC));
    KIT_OK(moyai_leave(node, MOYAI_FOREVER));
    KIT_OK(moyai_node_serve(node, MOYAI_FOREVER)); /* nothing is outstanding */
    moyai_node_free(node);
}

static void *leave_it(void *arg) {
    KIT_OK(moyai_leave(arg, 0));
    return NULL;
}

static int m_slow(moyai_request *rq, void *self) {
    (void)self;
    counts[BEGUN]++;
    (void)moyai_sleep_masked(moyai_request_node(rq), 50 * MOYAI_MS);
    counts[ENDED]++;
    return 0;
}
static const struct moyai_method slow_methods[] = {{"slow", m_slow}, {NULL, NULL}};
static const struct moyai_class slow = MOYAI_CLASS("Slow", slow_methods, NULL);

/* As of a program that was compiled when classes had no on_leave: what lies behind them is not looked at. */
static void classes_of_before_have_none(void **state) {
    (void)state;
    static const struct {
        struct moyai_class cls;
    } old = {{offsetof(struct moyai_class, on_leave), "Old", slow_methods, NULL, on_leave, NULL, NULL}};
    counts = kit_shared("old", COUNTS);
    node = kit_node(NULL);
    moyai_ref *ref = kit_object(node, &old.cls, NULL);
    KIT_OK(moyai_leave(node, MOYAI_SEC));
    KIT_OK(moyai_node_serve(node, MOYAI_FOREVER));
    FIBER_ASSERT_INT(counts[HOOKS], 0);
    moyai_ref_unref(ref);
    moyai_node_free(node);
}

/* moyai_node_free waits for what has begun, also of a node with a thread of its own. */
static void who_frees_it_waits(void **state) {
    (void)state;
    counts = kit_shared("slow", COUNTS);
    for (int own = 0; own < 2; own++) {
        counts[BEGUN] = counts[ENDED] = 0;
        struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
        opts.own_thread = own;
        node = kit_node(&opts);
        moyai_ref *ref = kit_object(node, &slow, NULL);
        KIT_OK(moyai_call_oneway(ref, "slow", MOYAI_NONE));
        KIT_UNTIL(node, counts[BEGUN] == 1);
        pthread_t t;
        FIBER_ASSERT(pthread_create(&t, NULL, leave_it, node) == 0 && pthread_join(t, NULL) == 0);
        moyai_ref_unref(ref);
        moyai_node_free(node);
        FIBER_ASSERT_INT(counts[ENDED], 1);
    }
}

/* Its time passes while it computes, or waits for what will not come: the grid does without it, and it hears that. */
static int role_late(int argc, char **argv) {
    FIBER_ASSERT_INT(argc, 3);
    const bool waits = strcmp(argv[1], "waits") == 0;
    counts = kit_shared(argv[2], COUNTS); /* a call may begin */
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.signals = true;
    node = kit_node(&opts);
    moyai_ref *ref = kit_object(node, &slow, NULL), *other = kit_lookup(node, "stays"), *nobody;
    KIT_OK(moyai_register(ref, argv[0]));
    struct moyai_error e;
    if (waits) {
        KIT_RC(moyai_lookup_wait(node, "nobody", MOYAI_FOREVER, &nobody), MOYAI_ECLOSED);
        moyai_last_error(node, &e);
        KIT_TEXT(e.text, "node"); /* it was ended, or has left */
        KIT_RC(moyai_lookup_wait(node, "nobody", MOYAI_FOREVER, &nobody), MOYAI_ECLOSED);
        moyai_last_error(node, &e);
        KIT_TEXT(e.text, "this node has left its grid");
    } else {
        while (!moyai_leaving(node)) kit_compute(MOYAI_MS);
        kit_compute(200 * MOYAI_MS);
    }
    int x = 0;
    while (!waits && moyai_call(other, "echo", MOYAI_ARGS(1), MOYAI_INTO(&x), NULL) == 0) kit_compute(MOYAI_MS);
    KIT_RC(moyai_call(other, "echo", MOYAI_ARGS(1), MOYAI_INTO(&x), NULL), MOYAI_ECLOSED);
    moyai_last_error(node, &e);
    KIT_TEXT(e.text, "this node has left its grid");
    FIBER_ASSERT_INT(e.executed, MOYAI_NEVER_EXECUTED);
    KIT_RC(moyai_lookup(node, "stays", &nobody), MOYAI_ECLOSED);
    KIT_RC(moyai_register(ref, "later"), MOYAI_ECLOSED);
    KIT_RC(moyai_signal(other), MOYAI_ECLOSED);
    KIT_OK(moyai_signal(ref)); /* here all goes on */
    moyai_ref *own = NULL;
    KIT_OK(moyai_lookup(node, argv[0], &own));
    moyai_ref_unref(own);
    moyai_ref_unref(other);
    moyai_ref_unref(ref);
    moyai_node_free(node);
    return 0;
}

static void end_late(const struct moyai_node_opts *opts, const char *run_dir) {
    char dir[160], shared[160];
    snprintf(dir, sizeof dir, "MOYAI_RUN_DIR=%s", run_dir);
    snprintf(shared, sizeof shared, "%s/late", kit_dir());
    node = kit_node(opts);
    moyai_ref *self = kit_object(node, &stayer, NULL);
    KIT_OK(moyai_register(self, "stays"));
    for (int waits = 0; waits < 2; waits++) {
        const char *name = waits ? "waiting" : "computing";
        pid_t pid = kit_child_quiet("late", dir, waits ? "MOYAI_LEAVE_DEADLINE=50ms" : "MOYAI_GRACE=50ms", name,
                                    waits ? "waits" : "computes", shared, NULL);
        moyai_ref *ref = kit_lookup(node, name);
        moyai_future *f = moyai_call_async(ref, "slow", MOYAI_NONE); /* in progress, or not begun */
        kill(pid, waits ? SIGUSR1 : SIGTERM);
        int rc = moyai_future_get(f, MOYAI_NONE);
        moyai_future_free(f);
        const int status = kit_reap(pid);
        char *said = kit_stderr(pid);
        if (status != 0) FIBER_FAIL("'late' ended with wait status 0x%x, and said:\n%s", (unsigned)status, said);
        if (rc != 0 && rc != MOYAI_ELEAVING) KIT_RC(rc, MOYAI_ECLOSED);
        KIT_TEXT(said, "MOYAI-LEAVE-CUT this node leaves now");
        KIT_TEXT(said, waits ? "its time (50 ms) is over" : "its time (25 ms) is over"); /* before it is killed */
        free(said);
        moyai_ref_unref(ref);
    }
    moyai_ref_unref(self);
    moyai_node_free(node);
}

static void who_does_not_end_it_is_gone(void **state) {
    (void)state;
    end_late(NULL, getenv("MOYAI_RUN_DIR"));
}

/* The same where names are located. */
static void on_several_hosts_too(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    struct keyring r = {.n = 1};
    char place[40], key[160], here[160], there[160], *grid = strdup(getenv("MOYAI_GRID"));
    snprintf(place, sizeof place, "127.0.0.1:%u", test_free_port());
    snprintf(key, sizeof key, "%s/key", kit_dir());
    snprintf(here, sizeof here, "%s/here", kit_dir());
    snprintf(there, sizeof there, "%s/there", kit_dir());
    KIT_OK(key_new(&r.key[0], NULL));
    KIT_OK(keyfile_write(&r, key, false, NULL));
    setenv("MOYAI_GRID", place, 1);
    setenv("MOYAI_KEY_FILE", key, 1);
    opts.listen = place;
    opts.run_dir = here;
    end_late(&opts, there);
    unsetenv("MOYAI_KEY_FILE");
    setenv("MOYAI_GRID", grid, 1);
    free(grid);
}

static int tests(void) {
    const struct CMUnitTest list[] = {
        cmocka_unit_test(what_has_begun_is_finished),
        cmocka_unit_test(who_takes_its_time_is_told_again),
        cmocka_unit_test(who_is_called_on_and_on_leaves),
        cmocka_unit_test(nested_calls_are_taken),
        cmocka_unit_test(objects_are_told),
        cmocka_unit_test(answers_are_taken_before_the_end),
        cmocka_unit_test(what_takes_too_long_is_cut_short),
        cmocka_unit_test(what_has_not_begun_is_not_in_doubt),
        cmocka_unit_test(whoever_waits_is_told_once),
        cmocka_unit_test(who_frees_it_waits),
        cmocka_unit_test(classes_of_before_have_none),
        cmocka_unit_test(who_does_not_end_it_is_gone),
        cmocka_unit_test(on_several_hosts_too),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {
        {"leaver", role_leaver}, {"late", role_late}, {"behind", role_behind}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
