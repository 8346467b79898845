/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancelling, and deadlines: before a call has left, while it waits, while it computes or blocks, through nested
 * calls; here and in another process.
 */
#include "tests/public/kit.h"

/* ---- the callee ------------------------------------------------------------------------------ */

struct sleeper {
    moyai_node *node;
    int64_t begun, woken, blocked_again, computed, touched;
    moyai_set *set;
    moyai_future *open; /* what "wait_set" waits for */
    bool unwanted;      /* nobody waits any more for "hang" */
};

static int m_touch(moyai_request *rq, void *self) {
    (void)rq;
    ((struct sleeper *)self)->touched++;
    return 0;
}

static int m_unwanted(moyai_request *rq, void *self) {
    (void)rq;
    ((struct sleeper *)self)->unwanted = true;
    return 0;
}

/* once(): for one-way calls, which nobody waits for. */
static int m_once(moyai_request *rq, void *self) {
    FIBER_ASSERT(moyai_remaining(rq) == MOYAI_FOREVER);
    ((struct sleeper *)self)->touched++;
    return 0;
}

/* spray(ref, n): n one-way calls, and then it waits for its deadline. */
static int m_spray(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    int n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref, &n)));
    for (int i = 0; i < n; i++) KIT_OK(moyai_call_oneway(ref, "once", MOYAI_NONE));
    moyai_ref_unref(ref);
    return moyai_sleep_masked(moyai_request_node(rq), MOYAI_FOREVER);
}

/* Blocks, unmasked or masked; a cancel wakes it once, and it can block again. */
static int m_hang(moyai_request *rq, void *self) {
    struct sleeper *s = self;
    bool masked;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&masked)));
    s->begun++;
    moyai_node *n = moyai_request_node(rq);
    int rc = masked ? moyai_sleep_masked(n, MOYAI_FOREVER) : moyai_sleep(n, MOYAI_FOREVER);
    if (rc == MOYAI_ELEAVING && s->unwanted) return rc; /* nobody will cancel it: its node is told to go */
    KIT_RC(rc, MOYAI_ECANCELED);
    FIBER_ASSERT(moyai_cancelled(rq));
    s->woken++;
    KIT_OK(moyai_sleep_masked(n, MOYAI_MS));
    s->blocked_again++;
    return rc;
}

static int m_compute(moyai_request *rq, void *self) {
    struct sleeper *s = self;
    bool yield;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&yield)));
    s->begun++;
    while (!moyai_cancelled(rq)) {
        if (yield) moyai_yield(moyai_request_node(rq));
        FIBER_ASSERT(moyai_remaining(rq) >= 0);
    }
    s->computed++;
    return 0;
}

/* nested(ref, masked): a call of "hang" in a call, synchronous. */
static int m_nested(moyai_request *rq, void *self) {
    struct sleeper *s = self;
    moyai_ref *ref = NULL;
    bool pending;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref, &pending)));
    moyai_future *f = NULL;
    s->begun++;
    int rc = moyai_call(ref, "hang", MOYAI_ARGS(pending), MOYAI_NONE, pending ? &f : NULL);
    if (moyai_remaining(rq) == MOYAI_FOREVER || rc != MOYAI_ETIMEDOUT) KIT_RC(rc, MOYAI_ECANCELED);
    struct moyai_error e;
    moyai_last_error(moyai_request_node(rq), &e);
    FIBER_ASSERT_INT(e.code, rc);
    FIBER_ASSERT_INT(e.executed, MOYAI_MAY_HAVE_EXECUTED); /* what it waited for runs, as far as anybody knows */
    FIBER_ASSERT(!f);
    s->woken++;
    moyai_ref_unref(ref);
    return rc;
}

static int m_busy(moyai_request *rq, void *self) {
    (void)self;
    moyai_dur d;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&d)));
    kit_compute(d);
    return 0;
}

static int m_remaining(moyai_request *rq, void *self) {
    (void)self;
    return moyai_return(rq, MOYAI_ARGS(moyai_remaining(rq)));
}

/* remaining_of(ref): what a call made from here has left. */
static int m_remaining_of(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    moyai_dur d = 0;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref)));
    KIT_OK(moyai_call(ref, "remaining", MOYAI_NONE, MOYAI_INTO(&d), NULL));
    moyai_ref_unref(ref);
    return moyai_return(rq, MOYAI_ARGS(d, moyai_remaining(rq)));
}

/* late(ref): calls when its deadline has passed. */
static int m_late(moyai_request *rq, void *self) {
    moyai_ref *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref)));
    while (moyai_remaining(rq) == MOYAI_FOREVER) moyai_yield(moyai_request_node(rq));
    while (moyai_remaining(rq) > 0) {
    }
    struct moyai_error e;
    KIT_RC(moyai_call(ref, "touch", MOYAI_NONE, MOYAI_NONE, NULL), MOYAI_ETIMEDOUT);
    moyai_last_error(moyai_request_node(rq), &e);
    FIBER_ASSERT(e.executed == MOYAI_NEVER_EXECUTED);
    moyai_ref_unref(ref);
    ((struct sleeper *)self)->computed++;
    return 0;
}

/* Sets results all the time, also when the deadline passes. */
static int m_returning(moyai_request *rq, void *self) {
    struct sleeper *s = self;
    char text[200];
    memset(text, 'r', sizeof text - 1);
    text[sizeof text - 1] = 0;
    s->begun++;
    while (!moyai_cancelled(rq))
        for (int i = 0; i < 100; i++) KIT_OK(moyai_return(rq, MOYAI_ARGS(text)));
    for (int i = 0; i < 2000; i++) KIT_OK(moyai_return(rq, MOYAI_ARGS(text)));
    s->computed++;
    return 0;
}

static int m_counts(moyai_request *rq, void *self) {
    struct sleeper *s = self;
    return moyai_return(rq, MOYAI_ARGS(s->begun, s->woken, s->blocked_again, s->computed, s->touched));
}

static const struct moyai_method sleeper_methods[] = {{"touch", m_touch},
                                                      {"unwanted", m_unwanted},
                                                      {"once", m_once},
                                                      {"spray", m_spray},
                                                      {"hang", m_hang},
                                                      {"late", m_late},
                                                      {"compute", m_compute},
                                                      {"nested", m_nested},
                                                      {"busy", m_busy},
                                                      {"remaining", m_remaining},
                                                      {"remaining_of", m_remaining_of},
                                                      {"returning", m_returning},
                                                      {"counts", m_counts},
                                                      {NULL, NULL}};
static const struct moyai_class sleeper_class = MOYAI_CLASS("Sleeper", sleeper_methods, NULL);

static int role_sleeper(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sleeper s = {0};
    return kit_serve(NULL, &sleeper_class, &s, "sleeper");
}

/* down(i): calls the next of three, the last of which computes until nobody wants it any more. */
static int m_down(moyai_request *rq, void *self) {
    (void)self;
    int i;
    char name[20];
    moyai_ref *next = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&i)));
    while (i == 2 && !moyai_cancelled(rq)) kit_compute(MOYAI_MS);
    if (i == 2) return 0;
    snprintf(name, sizeof name, "chain %d", i + 1);
    KIT_OK(moyai_lookup(moyai_request_node(rq), name, &next));
    int rc = moyai_call(next, "down", MOYAI_ARGS(i + 1), MOYAI_NONE, NULL);
    moyai_ref_unref(next);
    return rc;
}

static int role_chain(int argc, char **argv) {
    (void)argc;
    static const struct moyai_method chain[] = {{"down", m_down}, {NULL, NULL}};
    static const struct moyai_class chain_class = MOYAI_CLASS("Chain", chain, NULL);
    return kit_serve(NULL, &chain_class, NULL, argv[0]);
}

/* Hangs at an object of ours until it is killed. */
static int role_caller(int argc, char **argv) {
    (void)argc, (void)argv;
    moyai_node *n = kit_node(NULL);
    moyai_ref *ref = kit_lookup(n, "called");
    (void)moyai_call(ref, "hang", MOYAI_ARGS((bool)false), MOYAI_NONE, NULL);
    return 1;
}

/* ---- the caller ------------------------------------------------------------------------------ */

static moyai_node *node;
static moyai_ref *near, *far;
static struct sleeper here;
static pid_t pid;

static int open_world(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.max_fibers = 64; /* so many calls are open at a peer at once: further ones wait here */
    node = kit_node(&opts);
    here = (struct sleeper){.node = node};
    near = kit_object(node, &sleeper_class, &here);
    pid = kit_child("sleeper", NULL);
    far = kit_lookup(node, "sleeper");
    KIT_OK(moyai_call(far, "touch", MOYAI_NONE, MOYAI_NONE, NULL));
    here.touched = 1;
    return 0;
}

static int close_world(void **state) {
    (void)state;
    moyai_ref_unref(near);
    moyai_ref_unref(far);
    moyai_node_free(node);
    kit_end(pid);
    return 0;
}

static struct sleeper counts(moyai_ref *ref) {
    struct sleeper s = {0};
    KIT_OK(moyai_call(ref, "counts", MOYAI_NONE,
                      MOYAI_INTO(&s.begun, &s.woken, &s.blocked_again, &s.computed, &s.touched), NULL));
    return s;
}

#define AWAIT(ref, field, n) KIT_UNTIL(node, counts(ref).field >= (n))

static const bool no, yes = true;

/* ---- cancel ---------------------------------------------------------------------------------- */

static void cancelled_before_it_begins(void **state) {
    (void)state;
    moyai_future *f = moyai_call_async(near, "touch", MOYAI_NONE);
    moyai_future_cancel(f);
    moyai_future_cancel(f); /* once more is fine */
    KIT_FAILED(f, MOYAI_ECANCELED, MOYAI_AT_CALLER, MOYAI_NEVER_EXECUTED);
    moyai_future_free(f);
    FIBER_ASSERT_INT(counts(near).touched, 1);
    /* There: taken, but the node thread is busy. */
    moyai_future *busy = moyai_call_async(far, "busy", MOYAI_ARGS(100 * MOYAI_MS));
    f = moyai_call_async(far, "touch", MOYAI_NONE);
    moyai_future *behind = moyai_call_async(far, "remaining", MOYAI_NONE);
    moyai_yield(node); /* they leave */
    moyai_future_cancel(f);
    struct moyai_error e = {0};
    KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ECANCELED);
    moyai_future_error(f, 0, &e);
    FIBER_ASSERT(e.executed != MOYAI_WAS_EXECUTED);
    FIBER_ASSERT_INT(e.where, MOYAI_AT_CALLER);
    KIT_OK(moyai_future_get(busy, MOYAI_NONE));
    KIT_OK(moyai_future_get(behind, MOYAI_NONE));
    FIBER_ASSERT_INT(counts(far).touched, 1);
    moyai_future_free(f);
    moyai_future_free(busy);
    moyai_future_free(behind);
}

static void cancelled_before_it_leaves(void **state) {
    (void)state;
    enum { N = 100 }; /* more than may be open at once */
    moyai_future *f[N];
    kit_stop(pid);
    for (int i = 0; i < N; i++) f[i] = moyai_call_async(far, "touch", MOYAI_NONE);
    kit_settle(node);
    for (int i = N; i-- > 0;) moyai_future_cancel(f[i]);
    struct moyai_error last = KIT_FAILED(f[N - 1], MOYAI_ECANCELED, MOYAI_AT_CALLER, MOYAI_NEVER_EXECUTED);
    KIT_TEXT(last.text, "'touch' of object ");
    KIT_TEXT(last.text, " in node ");
    KIT_TEXT(last.text, ": cancelled by the caller");
    int never = 0;
    for (int i = 0; i < N; i++) {
        struct moyai_error e;
        FIBER_ASSERT_INT(moyai_future_error(f[i], 0, &e), MOYAI_ECANCELED);
        never += e.executed == MOYAI_NEVER_EXECUTED;
        moyai_future_free(f[i]);
    }
    kit_cont(pid);
    int64_t touched = counts(far).touched - 1;
    if (touched > N - never) FIBER_FAIL("%d never executed, %d ran", never, (int)touched);
}

static void cancelled_while_it_blocks(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        moyai_ref *ref = i / 2 ? far : near;
        struct sleeper before = counts(ref);
        moyai_future *f = moyai_call_async(ref, "hang", MOYAI_ARGS(i % 2 ? yes : no));
        AWAIT(ref, begun, before.begun + 1);
        FIBER_ASSERT_INT(counts(ref).woken, before.woken);
        moyai_future_cancel(f);
        KIT_FAILED(f, MOYAI_ECANCELED, MOYAI_AT_CALLER, MOYAI_MAY_HAVE_EXECUTED);
        AWAIT(ref, blocked_again, before.blocked_again + 1);
        FIBER_ASSERT_INT(counts(ref).woken, before.woken + 1);
        moyai_future_free(f);
    }
}

static void cancelled_while_it_computes(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) { /* here it has to yield: the one who cancels runs on the same thread */
        moyai_ref *ref = i ? far : near;
        struct sleeper before = counts(ref);
        moyai_future *f = moyai_call_async(ref, "compute", MOYAI_ARGS(i < 2 ? yes : no));
        if (i < 2)
            AWAIT(ref, begun, before.begun + 1);
        else
            moyai_yield(node); /* nobody answers us there now */
        moyai_future_cancel(f);
        KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ECANCELED);
        moyai_future_free(f);
        if (i < 2) AWAIT(ref, computed, before.computed + 1);
        (void)counts(ref); /* it answers again, so the method has ended, or never began */
    }
}

static void a_cancel_goes_through_nested_calls(void **state) {
    (void)state;
    moyai_ref *refs[] = {near, far};
    for (int i = 0; i < 8; i++) {
        moyai_ref *by = refs[i / 4], *of = refs[i / 2 % 2];
        bool pending = i % 2;
        struct sleeper b = counts(by), o = counts(of);
        moyai_future *f = moyai_call_async(by, "nested", MOYAI_ARGS(of, pending));
        AWAIT(of, begun, o.begun + (by == of ? 2 : 1));
        moyai_future_cancel(f);
        moyai_future_free(f);
        AWAIT(by, woken, b.woken + (by == of ? 2 : 1));
        AWAIT(of, blocked_again, o.blocked_again + 1);
    }
}

static void a_cancel_after_the_result_changes_nothing(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        moyai_dur left = 0;
        moyai_future *f = moyai_call_async(i ? far : near, "remaining", MOYAI_NONE);
        KIT_OK(moyai_future_get(f, MOYAI_NONE));
        moyai_future_cancel(f);
        moyai_future_deadline(f, 0);
        kit_settle(node);
        KIT_OK(moyai_future_get(f, MOYAI_INTO(&left)));
        FIBER_ASSERT(left == MOYAI_FOREVER);
        moyai_future_free(f);
    }
}

/* ---- a cancel and a result in one turn ------------------------------------------------------- */

struct crossing {
    moyai_ref *quick;
    moyai_future *f; /* the running call of "cross" */
    int blocked, told;
};

static int m_quick(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    return 0;
}

static int m_cancel(moyai_request *rq, void *self) {
    (void)rq;
    moyai_future_cancel(((struct crossing *)self)->f);
    return 0;
}

/* When the cancel comes, this one has its result and is runnable: it hears of it in its next block. */
static int m_cross(moyai_request *rq, void *self) {
    struct crossing *c = self;
    moyai_node *n = moyai_request_node(rq);
    moyai_future *f = moyai_call_async(c->quick, "quick", MOYAI_NONE);
    KIT_OK(moyai_call_oneway(moyai_self(rq), "cancel", MOYAI_NONE));
    c->blocked++;
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    FIBER_ASSERT(moyai_cancelled(rq));
    moyai_future_free(f);
    KIT_RC(moyai_sleep(n, MOYAI_FOREVER), MOYAI_ECANCELED);
    c->told++;
    KIT_OK(moyai_sleep(n, MOYAI_MS)); /* once */
    c->told++;
    return 0;
}

static const struct moyai_method crossing_methods[] = {
    {"quick", m_quick}, {"cancel", m_cancel}, {"cross", m_cross}, {NULL, NULL}};
static const struct moyai_class crossing_class = MOYAI_CLASS("Crossing", crossing_methods, NULL);

static void a_cancel_is_not_lost_on_a_runnable_fiber(void **state) {
    (void)state;
    struct crossing c = {0};
    moyai_ref *ref = kit_object(node, &crossing_class, &c);
    c.quick = kit_object(node, &crossing_class, &c);
    c.f = moyai_call_async(ref, "cross", MOYAI_NONE);
    KIT_RC(moyai_future_get(c.f, MOYAI_NONE), MOYAI_ECANCELED);
    KIT_UNTIL(node, c.told == 2);
    FIBER_ASSERT_INT(c.blocked, 1);
    moyai_future_free(c.f);
    moyai_ref_unref(ref);
    moyai_ref_unref(c.quick);
}

static void a_call_of_a_killed_caller_is_cancelled(void **state) {
    (void)state;
    KIT_OK(moyai_register(near, "called"));
    struct sleeper before = counts(near);
    pid_t caller = kit_child("caller", NULL);
    AWAIT(near, begun, before.begun + 1);
    kit_kill(caller);
    AWAIT(near, blocked_again, before.blocked_again + 1);
    KIT_OK(moyai_unregister(near, "called"));
}

static void a_call_whose_future_is_freed_goes_on(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref = i ? far : near;
        struct sleeper before = counts(ref);
        moyai_future *f = moyai_call_async(ref, "hang", MOYAI_ARGS(no));
        AWAIT(ref, begun, before.begun + 1);
        moyai_future_free(f);
        KIT_OK(moyai_call(ref, "unwanted", MOYAI_NONE, MOYAI_NONE, NULL));
        for (int k = 0; k < 20; k++) FIBER_ASSERT_INT(counts(ref).woken, before.woken);
    }
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static void a_deadline_passes_while_it_blocks(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref = i ? far : near;
        struct sleeper before = counts(ref);
        moyai_ns begin = moyai_now();
        moyai_future *f = moyai_call_async(ref, "hang", MOYAI_ARGS(no));
        moyai_future_deadline(f, 60 * MOYAI_MS);
        KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ETIMEDOUT);
        FIBER_ASSERT((moyai_dur)(moyai_now() - begin) >= 60 * MOYAI_MS); /* never early */
        struct moyai_error e;
        moyai_future_error(f, 0, &e);
        FIBER_ASSERT_INT(e.executed, MOYAI_MAY_HAVE_EXECUTED);
        FIBER_ASSERT(e.where == MOYAI_AT_CALLER || (ref == far && e.where == MOYAI_AT_PEER));
        KIT_TEXT(e.text, "'hang'");
        AWAIT(ref, blocked_again, before.blocked_again + 1);
        moyai_future_free(f);
    }
}

/* The callee's other thread hears of it while the method looks. */
static void a_deadline_comes_while_it_computes(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        moyai_future *f = moyai_call_async(far, "compute", MOYAI_ARGS(no));
        for (int k = 100; k > 0; k--) {
            moyai_future_deadline(f, k * MOYAI_SEC);
            moyai_yield(node);
        }
        moyai_future_deadline(f, 5 * MOYAI_MS);
        KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ETIMEDOUT);
        moyai_future_free(f);
    }
    (void)counts(far); /* it answers again */
}

static void a_deadline_passes_before_it_leaves(void **state) {
    (void)state;
    enum { N = 100 };
    moyai_future *f[N];
    kit_stop(pid);
    for (int i = 0; i < N; i++) f[i] = moyai_call_async(far, "touch", MOYAI_NONE);
    kit_settle(node);
    moyai_future_deadline(f[N - 1], 20 * MOYAI_MS);
    struct moyai_error e = KIT_FAILED(f[N - 1], MOYAI_ETIMEDOUT, MOYAI_AT_CALLER, MOYAI_NEVER_EXECUTED);
    KIT_TEXT(e.text, "could not be sent");
    KIT_TEXT(e.text, "'touch'");
    moyai_future_deadline(f[0], -1);
    KIT_FAILED(f[0], MOYAI_ETIMEDOUT, MOYAI_AT_CALLER, MOYAI_MAY_HAVE_EXECUTED);
    kit_cont(pid);
    for (int i = 1; i < N - 1; i++) KIT_OK(moyai_future_get(f[i], MOYAI_NONE));
    FIBER_ASSERT(counts(far).touched <= N);
    for (int i = 0; i < N; i++) moyai_future_free(f[i]);
}

/* Whoever's the object is: at once, and what has not begun never will. */
static void a_deadline_that_has_passed_already(void **state) {
    (void)state;
    static const moyai_dur past[] = {0, -1, INT64_MIN};
    for (int i = 0; i < 2; i++) {
        moyai_ref *to = i ? far : near;
        int64_t touched = counts(to).touched;
        for (size_t k = 0; k < sizeof past / sizeof past[0]; k++) {
            moyai_future *f = moyai_call_async(to, "touch", MOYAI_NONE);
            moyai_future_deadline(f, past[k]);
            FIBER_ASSERT(moyai_future_ready(f));
            struct moyai_error e = KIT_FAILED(f, MOYAI_ETIMEDOUT, MOYAI_AT_CALLER, MOYAI_NEVER_EXECUTED);
            KIT_TEXT(e.text, "'touch'");
            moyai_future_free(f);
        }
        /* One that runs: it is cancelled. */
        int64_t begun = counts(to).begun, woken = counts(to).woken;
        moyai_future *f = moyai_call_async(to, "hang", MOYAI_ARGS(true));
        AWAIT(to, begun, begun + 1);
        moyai_future_deadline(f, 0);
        KIT_FAILED(f, MOYAI_ETIMEDOUT, MOYAI_AT_CALLER, MOYAI_MAY_HAVE_EXECUTED);
        moyai_future_free(f);
        AWAIT(to, woken, woken + 1);
        FIBER_ASSERT(counts(to).touched == touched);
    }
}

/* The timer of a queued call comes after what is ready; and a method that is late makes no calls. */
static void late_calls_are_not_begun(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        moyai_ref *to = i ? far : near;
        struct sleeper before = counts(to);
        moyai_future *f = moyai_call_async(to, "late", MOYAI_ARGS(to)), *g = moyai_call_async(to, "touch", MOYAI_NONE);
        moyai_future_deadline(f, 10 * MOYAI_MS);
        moyai_future_deadline(g, 5 * MOYAI_MS);
        KIT_RC(moyai_future_get(g, MOYAI_NONE), MOYAI_ETIMEDOUT);
        moyai_future_free(f); /* its result may come before its timer */
        moyai_future_free(g);
        AWAIT(to, computed, before.computed + 1);
        FIBER_ASSERT(counts(to).touched == before.touched);
    }
}

/* The text says who waits for whom. Whether the callee's answer, which knows it, comes before this side gives up is a
 * matter of milliseconds: with ever more of them it does. */
static void the_text_names_who_waits_for_whom(void **state) {
    (void)state;
    moyai_ref *refs[] = {near, far};
    for (int i = 0; i < 4; i++) {
        moyai_ref *by = refs[i / 2], *of = refs[i % 2];
        bool named = false;
        for (moyai_dur d = 100 * MOYAI_MS; !named && d < 30 * MOYAI_SEC; d *= 2) {
            struct sleeper o = counts(of);
            moyai_future *f = moyai_call_async(by, "nested", MOYAI_ARGS(of, no));
            moyai_future_deadline(f, d);
            KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ETIMEDOUT);
            struct moyai_error e;
            moyai_future_error(f, 0, &e);
            KIT_TEXT(e.text, "nested");
            /* By who answers first: "'nested' waits for 'hang' of object ..." or "nested: ... 'hang' sleeps". */
            char id[MOYAI_REF_TEXT], part[64];
            moyai_ref_format(of, id);
            snprintf(part, sizeof part, "'nested' waits for 'hang' of object %.8s", id + strlen("moyai:"));
            named = strstr(e.text, part) || strstr(e.text, "'hang' sleeps");
            moyai_future_free(f);
            AWAIT(of, blocked_again, o.blocked_again + 1);
        }
        FIBER_ASSERT(named);
    }
}

/* The same over four processes, of which only the first has a deadline: its text tells the whole chain. */
static void the_text_tells_the_whole_chain(void **state) {
    (void)state;
    pid_t pids[3];
    moyai_ref *refs[3];
    char name[20], id[MOYAI_REF_TEXT], want[400] = "'down'";
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "chain %d", i);
        pids[i] = kit_child("chain", name, NULL);
        refs[i] = kit_lookup(node, name);
    }
    for (int i = 1; i < 3; i++) {
        moyai_ref_format(refs[i], id);
        size_t n = strlen(want);
        snprintf(want + n, sizeof want - n, " waits for 'down' of object %.8s in node %.8s, which", id + 6, id + 39);
    }
    strcat(want, " computes");
    bool told = false;
    for (moyai_dur d = 200 * MOYAI_MS; !told && d < 30 * MOYAI_SEC; d *= 2) {
        moyai_future *f = moyai_call_async(refs[0], "down", MOYAI_ARGS(0));
        moyai_future_deadline(f, d);
        KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ETIMEDOUT);
        struct moyai_error e;
        moyai_future_error(f, 0, &e);
        told = strstr(e.text, want);
        moyai_future_free(f);
        if (!told) printf("after %.1f s: %s\n", (double)d * 1e-9, e.text);
    }
    FIBER_ASSERT(told);
    for (int i = 0; i < 3; i++) {
        moyai_ref_unref(refs[i]);
        kit_end(pids[i]);
    }
}

static void nested_calls_have_no_longer(void **state) {
    (void)state;
    moyai_ref *refs[] = {near, far};
    for (int i = 0; i < 4; i++) {
        moyai_ref *by = refs[i / 2], *of = refs[i % 2];
        moyai_dur inner = 0, outer = 0;
        moyai_future *f = moyai_call_async(by, "remaining_of", MOYAI_ARGS(of));
        KIT_OK(moyai_future_get(f, MOYAI_INTO(&inner, &outer)));
        FIBER_ASSERT(inner == MOYAI_FOREVER && outer == MOYAI_FOREVER);
        moyai_future_free(f);
        f = moyai_call_async(by, "remaining_of", MOYAI_ARGS(of));
        moyai_future_deadline(f, 100 * MOYAI_SEC);
        KIT_OK(moyai_future_get(f, MOYAI_INTO(&inner, &outer)));
        FIBER_ASSERT(inner > 0 && inner <= 100 * MOYAI_SEC);
        FIBER_ASSERT(outer > 0 && outer <= 100 * MOYAI_SEC);
        moyai_future_free(f);
    }
}

/* One-way calls of a method with a deadline have none themselves, and all arrive; their records are used again. */
static void one_way_calls_have_no_deadline(void **state) {
    (void)state;
    enum { N = 50 };
    moyai_ref *refs[] = {near, far};
    for (int i = 0; i < 8; i++) {
        moyai_ref *by = refs[i / 2 % 2], *of = refs[i % 2];
        struct sleeper before = counts(of);
        moyai_future *f = moyai_call_async(by, "spray", MOYAI_ARGS(of, (int)N));
        moyai_future_deadline(f, 200 * MOYAI_MS);
        KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ETIMEDOUT);
        moyai_future_free(f);
        AWAIT(of, touched, before.touched + N);
        FIBER_ASSERT_INT(counts(of).touched, before.touched + N);
    }
}

static void a_deadline_can_be_changed_and_taken_away(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref = i ? far : near;
        struct sleeper before = counts(ref);
        moyai_future *f = moyai_call_async(ref, "hang", MOYAI_ARGS(no));
        moyai_future_deadline(f, 20 * MOYAI_SEC);
        AWAIT(ref, begun, before.begun + 1);
        moyai_future_deadline(f, 30 * MOYAI_MS); /* sooner, to a method that runs */
        KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ETIMEDOUT);
        moyai_future_free(f);
        AWAIT(ref, blocked_again, before.blocked_again + 1);
        f = moyai_call_async(ref, "hang", MOYAI_ARGS(no));
        moyai_future_deadline(f, 200 * MOYAI_MS);
        AWAIT(ref, begun, before.begun + 2);
        if (counts(ref).woken == before.woken + 1) { /* on a slow machine it has passed already */
            moyai_future_deadline(f, MOYAI_FOREVER);
            KIT_OK(moyai_sleep(node, 250 * MOYAI_MS)); /* what does not happen has to be waited for */
            if (!moyai_future_ready(f)) FIBER_ASSERT_INT(counts(ref).woken, before.woken + 1);
        }
        moyai_future_cancel(f);
        moyai_future_free(f);
        AWAIT(ref, blocked_again, before.blocked_again + 2);
    }
}

/* They pass at the callee while its node thread computes: answered by the thread that drives the loop, and never
 * begun afterwards. */
static void deadlines_pass_in_the_callees_queue(void **state) {
    (void)state;
    enum { N = 40 };
    for (int round = 0; round < 3; round++) {
        int64_t before = counts(far).touched;
        moyai_future *f[N], *busy = moyai_call_async(far, "busy", MOYAI_ARGS(300 * MOYAI_MS));
        for (int i = 0; i < N; i++) {
            f[i] = moyai_call_async(far, "touch", MOYAI_NONE);
            moyai_future_deadline(f[i], (30 + i) * MOYAI_MS);
        }
        int ran = 0;
        for (int i = 0; i < N; i++) {
            int rc = moyai_future_get(f[i], MOYAI_NONE);
            if (rc < 0) KIT_RC(rc, MOYAI_ETIMEDOUT);
            ran += rc == 0; /* they may have overtaken none, but the machine may have stood still */
            moyai_future_free(f[i]);
        }
        KIT_OK(moyai_future_get(busy, MOYAI_NONE));
        moyai_future_free(busy);
        FIBER_ASSERT_INT(counts(far).touched, before + ran);
    }
}

/* The answer to a deadline leaves while the method makes its own. */
static void a_deadline_passes_while_the_method_returns(void **state) {
    (void)state;
    for (int round = 0; round < 10; round++) {
        moyai_future *f = moyai_call_async(far, "returning", MOYAI_NONE);
        moyai_future_deadline(f, (10 + round) * MOYAI_MS);
        KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ETIMEDOUT);
        moyai_future_free(f);
    }
    (void)counts(far);
}

/* ---- who waits for what is gone -------------------------------------------------------------- */

static int m_wait_set(moyai_request *rq, void *self) {
    struct sleeper *s = self;
    s->set = kit_set(moyai_request_node(rq));
    s->open = moyai_call_async(moyai_self(rq), "hang", MOYAI_ARGS(no));
    KIT_OK(moyai_set_add(s->set, s->open));
    int rc = moyai_wait(s->set, MOYAI_FOREVER);
    moyai_set_free(s->set);
    return rc;
}

static void the_text_survives_what_it_speaks_of(void **state) {
    (void)state;
    static const struct moyai_method methods[] = {{"wait_set", m_wait_set}, {"hang", m_hang}, {NULL, NULL}};
    static const struct moyai_class cls = MOYAI_CLASS("Waiter", methods, NULL);
    struct sleeper s = {0};
    moyai_ref *ref = kit_object(node, &cls, &s);
    moyai_future *f = moyai_call_async(ref, "wait_set", MOYAI_NONE);
    moyai_future_deadline(f, 50 * MOYAI_MS);
    kit_settle(node);
    moyai_future_free(s.open); /* takes it out of the set, which goes on waiting */
    struct moyai_error e = KIT_FAILED(f, MOYAI_ETIMEDOUT, MOYAI_AT_CALLER, MOYAI_MAY_HAVE_EXECUTED);
    KIT_TEXT(e.text, "wait_set");
    moyai_future_free(f);
    kit_settle(node);
    moyai_ref_unref(ref);
}

static int tests(void) {
#define WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest all[] = {
        WORLD(cancelled_before_it_begins),
        WORLD(cancelled_before_it_leaves),
        WORLD(cancelled_while_it_blocks),
        WORLD(cancelled_while_it_computes),
        WORLD(a_cancel_goes_through_nested_calls),
        WORLD(a_cancel_after_the_result_changes_nothing),
        WORLD(a_cancel_is_not_lost_on_a_runnable_fiber),
        WORLD(a_call_of_a_killed_caller_is_cancelled),
        WORLD(a_call_whose_future_is_freed_goes_on),
        WORLD(a_deadline_passes_while_it_blocks),
        WORLD(a_deadline_comes_while_it_computes),
        WORLD(a_deadline_passes_before_it_leaves),
        WORLD(a_deadline_that_has_passed_already),
        WORLD(late_calls_are_not_begun),
        WORLD(the_text_names_who_waits_for_whom),
        WORLD(the_text_tells_the_whole_chain),
        WORLD(nested_calls_have_no_longer),
        WORLD(one_way_calls_have_no_deadline),
        WORLD(a_deadline_can_be_changed_and_taken_away),
        WORLD(deadlines_pass_in_the_callees_queue),
        WORLD(a_deadline_passes_while_the_method_returns),
        WORLD(the_text_survives_what_it_speaks_of),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {
        {"sleeper", role_sleeper}, {"chain", role_chain}, {"caller", role_caller}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
