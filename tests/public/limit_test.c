/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits: what is over them is refused or waits, never executed, and nothing else suffers; and large numbers that are
 * still within them.
 */
#include "tests/public/kit.h"

struct limited {
    moyai_node *node;
    int hanging;
    int64_t ran;
    moyai_set *set;
    bool open;
};

static int m_echo(moyai_request *rq, void *self) {
    int64_t x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    ((struct limited *)self)->ran++;
    return moyai_return(rq, MOYAI_ARGS(x));
}

static int m_bytes(moyai_request *rq, void *self) {
    const void *p;
    size_t n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(moyai_into_bytes(&p, &n))));
    ((struct limited *)self)->ran++;
    return moyai_return(rq, MOYAI_ARGS(n));
}

static int m_give(moyai_request *rq, void *self) {
    (void)self;
    size_t n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&n)));
    void *p = calloc(1, n);
    FIBER_ASSERT(p);
    int rc = moyai_return(rq, MOYAI_ARGS(moyai_bytes(p, n)));
    free(p);
    return rc;
}

static int m_ran(moyai_request *rq, void *self) {
    return moyai_return(rq, MOYAI_ARGS(((struct limited *)self)->ran));
}

/* Holds its place until the call is cancelled. */
static int m_hang(moyai_request *rq, void *self) {
    struct limited *l = self;
    l->hanging++;
    int rc = moyai_sleep_masked(moyai_request_node(rq), MOYAI_FOREVER);
    l->hanging--;
    return rc;
}

static int m_hanging(moyai_request *rq, void *self) {
    return moyai_return(rq, MOYAI_ARGS(((struct limited *)self)->hanging));
}

/* deeper(a, b): calls b.deeper(b, a), until that fails: how many calls were under this one, and the error that
 * stopped them. */
static int m_deeper(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *a = NULL, *b = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&a, &b)));
    int depth = 0, code = 0;
    int rc = moyai_call(b, "deeper", MOYAI_ARGS(b, a), MOYAI_INTO(&depth, &code), NULL);
    if (rc < 0) {
        struct moyai_error e;
        moyai_last_error(moyai_request_node(rq), &e);
        FIBER_ASSERT_INT(e.executed, MOYAI_NEVER_EXECUTED);
        FIBER_ASSERT_INT(e.code, rc);
        depth = -1;
        code = rc;
    }
    moyai_ref_unref(a);
    moyai_ref_unref(b);
    return moyai_return(rq, MOYAI_ARGS(depth + 1, code));
}

/* through(ref, self): calls ref.back(self), which calls self.echo. */
static int m_through(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL, *me = NULL;
    int64_t x = 0;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref, &me)));
    int rc = moyai_call(ref, "back", MOYAI_ARGS(me), MOYAI_INTO(&x), NULL);
    moyai_ref_unref(ref);
    moyai_ref_unref(me);
    return rc < 0 ? rc : moyai_return(rq, MOYAI_ARGS(x));
}

static int m_back(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    int64_t x = 0;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref)));
    int rc = moyai_call(ref, "echo", MOYAI_ARGS(42), MOYAI_INTO(&x), NULL);
    moyai_ref_unref(ref);
    return rc < 0 ? rc : moyai_return(rq, MOYAI_ARGS(x));
}

/* Two calls of the own object at once, waited for in the given way. */
static int m_twice(moyai_request *rq, void *self) {
    (void)self;
    int how;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&how)));
    moyai_node *n = moyai_request_node(rq);
    moyai_future *f[2];
    for (int i = 0; i < 2; i++) f[i] = moyai_call_async(moyai_self(rq), "echo", MOYAI_ARGS(i));
    int64_t x, sum = 0;
    int rc = 0;
    if (how > 0) {
        moyai_set *set = kit_set(n);
        for (int i = 0; i < 2; i++) KIT_OK(moyai_set_add(set, f[i]));
        if (how == 1) KIT_OK(moyai_wait(set, MOYAI_FOREVER));
        if (how == 2) FIBER_ASSERT_INT(moyai_wait_all(set, MOYAI_FOREVER), 2);
        moyai_set_free(set);
    }
    for (int i = 0; i < 2; i++) {
        int one = moyai_future_get(f[i], MOYAI_INTO(&x));
        moyai_future_free(f[i]);
        if (one < 0)
            rc = one;
        else
            sum += x;
    }
    return rc < 0 ? rc : moyai_return(rq, MOYAI_ARGS(sum));
}

static const struct moyai_method methods[] = {
    {"echo", m_echo}, {"bytes", m_bytes},     {"give", m_give},     {"ran", m_ran},
    {"hang", m_hang}, {"hanging", m_hanging}, {"deeper", m_deeper}, {"through", m_through},
    {"back", m_back}, {"twice", m_twice},     {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Limited", methods, NULL);

static int role_limited(int argc, char **argv) {
    (void)argc;
    struct limited l = {0};
    return kit_serve(NULL, &cls, &l, argv[0]); /* its options come by the environment */
}

/* ---- the world ------------------------------------------------------------------------------- */

static moyai_node *node;
static moyai_ref *near, *far;
static struct limited here;
static pid_t pid;

static void open_with(const struct moyai_node_opts *opts, const char *there) {
    node = kit_node(opts);
    here = (struct limited){.node = node};
    near = kit_object(node, &cls, &here);
    pid = there ? kit_child("limited", there, "limited", NULL) : kit_child("limited", "limited", NULL);
    far = kit_lookup(node, "limited");
    KIT_OK(moyai_call(far, "echo", MOYAI_ARGS(1), MOYAI_NONE, NULL));
}

static void close_it(void) {
    moyai_ref_unref(near);
    moyai_ref_unref(far);
    moyai_node_free(node);
    kit_end(pid);
}

static int64_t ask(moyai_ref *ref, const char *method) {
    int64_t x = 0;
    KIT_OK(moyai_call(ref, method, MOYAI_NONE, MOYAI_INTO(&x), NULL));
    return x;
}

static void echo(moyai_ref *ref, int64_t i) {
    int64_t x = 0;
    KIT_OK(moyai_call(ref, "echo", MOYAI_ARGS(i), MOYAI_INTO(&x), NULL));
    FIBER_ASSERT_INT(x, i);
}

/* ---- depth ----------------------------------------------------------------------------------- */

static void calls_nest_a_thousand_deep(void **state) {
    (void)state;
    open_with(NULL, NULL);
    moyai_ref *refs[] = {near, far};
    for (int i = 0; i < 4; i++) {
        int depth = 0, code = 0;
        KIT_OK(
            moyai_call(refs[i / 2], "deeper", MOYAI_ARGS(refs[i / 2], refs[i % 2]), MOYAI_INTO(&depth, &code), NULL));
        FIBER_ASSERT_INT(code, MOYAI_EDEPTH);
        FIBER_ASSERT_INT(depth, 1000);
    }
    close_it();
}

/* ---- the queue towards a peer ---------------------------------------------------------------- */

static void wait_for_room(void *woken) {
    KIT_OK(moyai_room(far, MOYAI_FOREVER));
    ++*(int *)woken;
}

static void a_full_queue_refuses(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.queue_calls = 10;
    opts.max_fibers = 16; /* open at the peer at once */
    open_with(&opts, NULL);
    enum { N = 50 };
    moyai_future *f[N];
    kit_stop(pid);
    for (int i = 0; i < N; i++) {
        f[i] = moyai_call_async(far, "echo", MOYAI_ARGS(i));
        kit_settle(node);
    }
    int refused = 0;
    for (int i = 0; i < N; i++) {
        bool ready = moyai_future_ready(f[i]);
        FIBER_ASSERT(ready == (i >= 26)); /* 16 have left, 10 wait */
        if (!ready) continue;
        struct moyai_error e = KIT_FAILED(f[i], MOYAI_EAGAIN, MOYAI_AT_CALLER, MOYAI_NEVER_EXECUTED);
        KIT_TEXT(e.text, "moyai_room");
        refused++;
    }
    KIT_RC(moyai_call_oneway(far, "echo", MOYAI_ARGS(1)), MOYAI_EAGAIN);
    KIT_RC(moyai_room(far, 0), MOYAI_ETIMEDOUT);
    KIT_RC(moyai_room(far, 10 * MOYAI_MS), MOYAI_ETIMEDOUT);
    int woken = 0;
    for (int i = 0; i < 3; i++) KIT_OK(moyai_go(node, wait_for_room, &woken));
    kit_settle(node);
    FIBER_ASSERT_INT(woken, 0);
    kit_cont(pid);
    KIT_OK(moyai_room(far, MOYAI_FOREVER));
    KIT_UNTIL(node, woken == 3);
    for (int i = 0; i < N; i++) {
        if (i < 26) KIT_OK(moyai_future_get(f[i], MOYAI_NONE));
        moyai_future_free(f[i]);
    }
    FIBER_ASSERT_INT(ask(far, "ran"), 1 + N - refused);
    KIT_OK(moyai_room(near, 0)); /* there is no queue towards oneself */
    close_it();
}

static void a_queue_full_of_bytes_refuses(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.queue_bytes = 200000;
    opts.max_fibers = 4;
    open_with(&opts, NULL);
    enum { N = 20, BYTES = 100000 };
    moyai_future *f[N];
    char *p = calloc(1, BYTES); /* borrowed by each */
    kit_stop(pid);
    for (int i = 0; i < N; i++) {
        f[i] = moyai_call_async(far, "bytes", MOYAI_ARGS(moyai_bytes(p, BYTES)));
        kit_settle(node);
    }
    /* The limit is looked at before: the last that is taken may exceed it. */
    int ok = 0;
    for (int i = 0; i < N; i++) ok += !moyai_future_ready(f[i]);
    FIBER_ASSERT_INT(ok, 6);
    KIT_FAILED(f[N - 1], MOYAI_EAGAIN, MOYAI_AT_CALLER, MOYAI_NEVER_EXECUTED);
    kit_cont(pid);
    KIT_OK(moyai_room(far, MOYAI_FOREVER));
    for (int i = 0; i < ok; i++) {
        size_t n = 0;
        KIT_OK(moyai_future_get(f[i], MOYAI_INTO(&n)));
        FIBER_ASSERT_INT(n, BYTES);
    }
    for (int i = 0; i < N; i++) moyai_future_free(f[i]);
    free(p);
    close_it();
}

/* Signals are never held up by calls; but nobody can make this process grow by not reading them. */
static void signals_to_a_stopped_peer_are_bounded(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.queue_calls = 1000;
    open_with(&opts, NULL);
    kit_stop(pid);
    int rc = 0, sent = 0;
    while (rc == 0 && sent < 100000) {
        rc = moyai_signal(far);
        if (++sent % 100 == 0) kit_settle(node);
    }
    KIT_RC(rc, MOYAI_EAGAIN);
    FIBER_ASSERT(sent > 1000);
    kit_cont(pid);
    KIT_UNTIL(node, moyai_signal(far) == 0);
    echo(far, 3);
    close_it();
}

/* ---- answers nobody takes -------------------------------------------------------------------- */

/* The caller is a child, so that it can be stopped: by the first of its calls, when the others are here. */
static struct {
    pid_t pid;
    int begun, most; /* most: calls that come for sure */
    bool wrong;
} owed;

enum { OWED_CALLS = 200, OWED_BYTES = 256 * 1024, OWED_BOUND = 1024 * 1024 };

static size_t in_progress(void) {
    struct moyai_node_stats s = {.size = sizeof s};
    moyai_node_stats(node, &s);
    return s.fibers;
}

static int m_stop_caller(moyai_request *rq, void *self) {
    (void)self;
    /* The node thread stays here, so that none of the others begins. */
    while ((int)in_progress() < 1 + owed.most) kit_compute(MOYAI_MS);
    kit_stop(owed.pid);
    return moyai_return(rq, MOYAI_NONE);
}

static int m_owed(moyai_request *rq, void *self) {
    (void)self;
    int i;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&i)));
    owed.wrong |= i != owed.begun++;
    char *p = malloc(OWED_BYTES);
    FIBER_ASSERT(p);
    memset(p, i, OWED_BYTES);
    int rc = moyai_return(rq, MOYAI_ARGS(moyai_bytes(p, OWED_BYTES)));
    free(p);
    return rc;
}

static const struct moyai_method owed_methods[] = {{"stop", m_stop_caller}, {"owed", m_owed}, {NULL, NULL}};
static const struct moyai_class owed_cls = MOYAI_CLASS("Owed", owed_methods, NULL);

/* How many of the calls have a deadline, which passes while this process is stopped. */
static int role_owed(int argc, char **argv) {
    (void)argc;
    int late = atoi(argv[0]), timed_out = 0;
    moyai_node *n = kit_node(NULL);
    moyai_ref *ref = kit_lookup(n, "owed");
    moyai_future *stop = moyai_call_async(ref, "stop", MOYAI_NONE), *f[OWED_CALLS];
    for (int i = 0; i < OWED_CALLS; i++) {
        f[i] = moyai_call_async(ref, "owed", MOYAI_ARGS(i));
        if (i >= OWED_CALLS - late) moyai_future_deadline(f[i], 500 * MOYAI_MS);
    }
    KIT_OK(moyai_future_get(stop, MOYAI_NONE));
    for (int i = 0; i < OWED_CALLS; i++) {
        const char *p;
        size_t size = 0;
        int rc = moyai_future_get(f[i], MOYAI_INTO(moyai_into_bytes((const void **)&p, &size)));
        if (rc == MOYAI_ETIMEDOUT && i >= OWED_CALLS - late) {
            timed_out++;
        } else {
            KIT_OK(rc);
            FIBER_ASSERT_INT(size, OWED_BYTES);
            FIBER_ASSERT_INT((unsigned char)p[OWED_BYTES - 1], i);
        }
        moyai_future_free(f[i]);
    }
    FIBER_ASSERT_INT(timed_out, late);
    moyai_future_free(stop);
    moyai_ref_unref(ref);
    moyai_node_free(n);
    return 0;
}

/* A caller that does not read its answers: further calls of it do not begin, and nothing is lost when it goes on. */
static void answers_to_a_stopped_caller_are_bounded(void **state) {
    (void)state;
    enum { LATE = 20 };
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.queue_bytes = OWED_BOUND;
    opts.max_fibers = OWED_CALLS + 1;
    open_with(&opts, NULL);
    moyai_ref *ref = kit_object(node, &owed_cls, NULL);
    KIT_OK(moyai_register(ref, "owed"));
    for (int round = 0; round < 3; round++) {
        owed.begun = 0;
        owed.wrong = false;
        owed.most = round == 1 ? OWED_CALLS - LATE : OWED_CALLS; /* the others may be too late on a busy machine */
        owed.pid = kit_child("owed", round == 1 ? "20" : "0", NULL);
        /* All have come, and each has begun and ended or is held back. */
        KIT_UNTIL(node, owed.begun > 0 && (int)in_progress() + owed.begun >= owed.most);
        kit_settle(node);
        int begun = owed.begun;
        FIBER_ASSERT((int)in_progress() + begun >= owed.most);
        FIBER_ASSERT(begun >= OWED_BOUND / OWED_BYTES);
        FIBER_ASSERT(begun < OWED_CALLS / 4); /* the bound, and what fits into the socket */
        /* Calls within this process that need places do not wait for the stopped one; others are served. */
        int64_t x = 0;
        KIT_OK(moyai_call(near, "back", MOYAI_ARGS(near), MOYAI_INTO(&x), NULL));
        KIT_OK(moyai_call(far, "through", MOYAI_ARGS(near, far), MOYAI_INTO(&x), NULL));
        FIBER_ASSERT_INT(x, 42);
        if (round == 1) { /* until the last one's deadline has passed here, too */
            moyai_ns past = moyai_now() + (moyai_ns)(600 * MOYAI_MS);
            KIT_UNTIL(node, moyai_now() > past);
        }
        if (round < 2) {
            kit_cont(owed.pid);
            KIT_UNTIL(node, in_progress() == 0);
            FIBER_ASSERT_INT(kit_reap(owed.pid), 0);
            FIBER_ASSERT_INT(owed.begun, owed.most);
        } else {
            kit_kill(owed.pid);
            KIT_UNTIL(node, in_progress() == 0);
            FIBER_ASSERT_INT(owed.begun, begun); /* nobody waits for the others */
        }
        FIBER_ASSERT(!owed.wrong);
    }
    moyai_ref_unref(ref);
    close_it();
}

/* ---- calls in progress ----------------------------------------------------------------------- */

static void a_busy_node_refuses(void **state) {
    (void)state;
    open_with(NULL, "MOYAI_MAX_FIBERS=4");
    moyai_future *hang[4];
    for (int i = 0; i < 3; i++) hang[i] = moyai_call_async(far, "hang", MOYAI_NONE);
    KIT_UNTIL(node, ask(far, "hanging") == 3);
    hang[3] = moyai_call_async(far, "hang", MOYAI_NONE);
    for (int i = 0; i < 5; i++) {
        moyai_future *f = moyai_call_async(far, "echo", MOYAI_ARGS(1));
        struct moyai_error e = KIT_FAILED(f, MOYAI_EBUSY, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
        KIT_TEXT(e.text, "max_fibers");
        moyai_future_free(f);
        KIT_OK(moyai_call_oneway(far, "echo", MOYAI_ARGS(1))); /* nobody hears that it was refused */
    }
    /* Large ones are refused before their bytes have come; and there is an end to what the refused ones hold. */
    static char large[300000];
    for (int i = 0; i < 200; i++) {
        moyai_future *f = moyai_call_async(far, "bytes", MOYAI_ARGS(moyai_bytes(large, sizeof large)));
        KIT_FAILED(f, MOYAI_EBUSY, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
        moyai_future_free(f);
    }
    for (int i = 0; i < 200; i++) KIT_OK(moyai_call_oneway(far, "bytes", MOYAI_ARGS(moyai_bytes(large, sizeof large))));
    KIT_OK(moyai_ping(node, moyai_ref_home(far), MOYAI_FOREVER));
    for (int i = 0; i < 4; i++) {
        moyai_future_cancel(hang[i]);
        moyai_future_free(hang[i]);
    }
    int64_t x = 0;
    KIT_UNTIL(node, moyai_call(far, "echo", MOYAI_ARGS(1), MOYAI_INTO(&x), NULL) == 0);
    FIBER_ASSERT_INT(ask(far, "hanging"), 0);
    size_t n = 0;
    for (int i = 0; i < 100; i++) /* those of the one-way calls that were not refused then are before it */
        KIT_OK(moyai_call(far, "bytes", MOYAI_ARGS(moyai_bytes(large, sizeof large)), MOYAI_INTO(&n), NULL));
    FIBER_ASSERT_INT(n, sizeof large);
    close_it();
}

/* What the callee is known to refuse waits here: a caller with the same limit is not refused. */
static void calls_wait_for_a_place(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.max_fibers = 4;
    open_with(&opts, "MOYAI_MAX_FIBERS=4");
    enum { N = 500 };
    moyai_future *f[N];
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref = i ? far : near;
        for (int k = 0; k < N; k++) f[k] = moyai_call_async(ref, "echo", MOYAI_ARGS(k));
        for (int k = 0; k < N; k++) {
            int64_t x = 0;
            KIT_OK(moyai_future_get(f[k], MOYAI_INTO(&x)));
            FIBER_ASSERT_INT(x, k);
            moyai_future_free(f[k]);
        }
    }
    close_it();
}

/* A nested call has a quarter more, rounded up, so that what everybody waits for gets through. */
static void nested_calls_get_through(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.max_fibers = 2;
    open_with(&opts, "MOYAI_MAX_FIBERS=2");
    moyai_ref *refs[] = {near, far};
    for (int i = 0; i < 4; i++) {
        moyai_ref *a = refs[i / 2], *b = refs[i % 2];
        int depth = 0, code = 0;
        KIT_OK(moyai_call(a, "deeper", MOYAI_ARGS(a, b), MOYAI_INTO(&depth, &code), NULL));
        FIBER_ASSERT_INT(code, MOYAI_EBUSY);
        FIBER_ASSERT_INT(depth, a == b ? 2 : 5); /* three places each */
        int64_t x = 0;
        KIT_OK(moyai_call(a, "through", MOYAI_ARGS(b, a), MOYAI_INTO(&x), NULL));
        FIBER_ASSERT_INT(x, 42);
    }
    /* Beside a call that holds its place, too: far has "through", "hang" and then "echo". */
    moyai_future *hang = moyai_call_async(far, "hang", MOYAI_NONE);
    KIT_UNTIL(node, ask(far, "hanging") == 1);
    int64_t x = 0;
    for (int i = 0; i < 10; i++) KIT_OK(moyai_call(far, "through", MOYAI_ARGS(near, far), MOYAI_INTO(&x), NULL));
    moyai_future_cancel(hang);
    moyai_future_free(hang);
    close_it();
}

/* Signals are no calls: they do not wait for a place, and keep nobody's answer back. */
static void signals_do_not_wait_for_a_place(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.max_fibers = 2;
    open_with(&opts, NULL);
    moyai_future *hang[2], *waiting;
    for (int i = 0; i < 2; i++) hang[i] = moyai_call_async(far, "hang", MOYAI_NONE);
    waiting = moyai_call_async(far, "echo", MOYAI_ARGS(1)); /* two are open, as many as may be */
    for (int i = 0; i < 20; i++) {
        moyai_future *f = moyai_signal_async(far);
        KIT_OK(moyai_future_get(f, MOYAI_NONE));
        moyai_future_free(f);
    }
    KIT_UNTIL(node, moyai_signal(far) == 0);
    FIBER_ASSERT(!moyai_future_ready(waiting));
    moyai_future_cancel(hang[0]);
    KIT_OK(moyai_future_get(waiting, MOYAI_NONE));
    moyai_future_cancel(hang[1]);
    for (int i = 0; i < 2; i++) moyai_future_free(hang[i]);
    moyai_future_free(waiting);
    close_it();
}

/* More calls than places, each of which needs another: they all finish, one after the other. */
static void methods_that_call_their_own_process_do_not_deadlock(void **state) {
    (void)state;
    for (size_t most = 1; most <= 5; most++) {
        struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
        opts.max_fibers = most;
        node = kit_node(&opts);
        here = (struct limited){.node = node};
        near = kit_object(node, &cls, &here);
        enum { N = 60 };
        moyai_future *f[N];
        for (int i = 0; i < N; i++) {
            f[i] = i % 4 < 3 ? moyai_call_async(near, "twice", MOYAI_ARGS(i % 3))
                             : moyai_call_async(near, "back", MOYAI_ARGS(near));
        }
        for (int i = 0; i < N; i++) {
            int64_t x = 0;
            KIT_OK(moyai_future_get(f[i], MOYAI_INTO(&x)));
            FIBER_ASSERT_INT(x, i % 4 < 3 ? 1 : 42);
            moyai_future_free(f[i]);
        }
        moyai_ref_unref(near);
        moyai_node_free(node);
    }
}

/* The same between two processes. What is refused there is refused as never executed, and tried again. */
static void calls_that_call_back_do_not_deadlock(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.max_fibers = 4;
    open_with(&opts, "MOYAI_MAX_FIBERS=4");
    enum { N = 100 };
    moyai_future *f[N];
    bool done[N] = {false};
    for (int left = N; left > 0;) {
        for (int i = 0; i < N; i++)
            if (!done[i]) f[i] = moyai_call_async(far, "through", MOYAI_ARGS(near, far));
        for (int i = 0; i < N; i++) {
            if (done[i]) continue;
            int64_t x = 0;
            int rc = moyai_future_get(f[i], MOYAI_INTO(&x));
            if (rc == 0) {
                FIBER_ASSERT_INT(x, 42);
                done[i] = true;
                left--;
            } else {
                KIT_RC(rc, MOYAI_EBUSY);
            }
            moyai_future_free(f[i]);
        }
    }
    close_it();
}

static void hold(void *go_on) {
    while (!*(bool *)go_on) KIT_OK(moyai_sleep(node, MOYAI_MS));
    here.hanging--;
}

static void fibers_of_the_program_are_counted(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.max_fibers = 8;
    open_with(&opts, NULL);
    bool go_on = false;
    for (int i = 0; i < 8; i++) {
        KIT_OK(moyai_go(node, hold, &go_on));
        here.hanging++;
    }
    KIT_RC(moyai_go(node, hold, &go_on), MOYAI_EBUSY);
    KIT_RC(moyai_post(node, hold, &go_on), MOYAI_EBUSY);
    kit_settle(node);
    struct moyai_node_stats s = {.size = sizeof s};
    moyai_node_stats(node, &s);
    FIBER_ASSERT_INT(s.fibers, 8);
    go_on = true;
    KIT_UNTIL(node, here.hanging == 0);
    kit_settle(node);
    moyai_node_stats(node, &s);
    FIBER_ASSERT_INT(s.fibers, 0);
    KIT_OK(moyai_go(node, hold, &go_on));
    here.hanging++;
    KIT_UNTIL(node, here.hanging == 0);
    echo(near, 1);
    close_it();
}

static void call_from_a_fiber(void *code) {
    int64_t x = 0;
    *(int *)code = moyai_call(near, "twice", MOYAI_ARGS(2), MOYAI_INTO(&x), NULL);
}

/* Fibers of the program that hold all places and call: some get through, the others hear it. */
static void fibers_that_call_do_not_deadlock(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.max_fibers = 8;
    open_with(&opts, NULL);
    int code[8];
    for (int i = 0; i < 8; i++) {
        code[i] = 1;
        KIT_OK(moyai_go(node, call_from_a_fiber, &code[i]));
    }
    int ok = 0;
    for (int i = 0; i < 8; i++) {
        KIT_UNTIL(node, code[i] <= 0);
        if (code[i] < 0) KIT_RC(code[i], MOYAI_EBUSY);
        ok += code[i] == 0;
    }
    FIBER_ASSERT(ok > 0);
    echo(near, 1);
    close_it();
}

/* ---- the size of a message ------------------------------------------------------------------- */

static void a_message_has_a_largest_size(void **state) {
    (void)state;
    enum { OURS = 300000, THEIRS = 100000 };
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.max_message = OURS;
    open_with(&opts, "MOYAI_MAX_MESSAGE=100000");
    static char p[2 * OURS];
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref = i ? far : near;
        moyai_future *f = moyai_call_async(ref, "bytes", MOYAI_ARGS(moyai_bytes(p, OURS)));
        struct moyai_error e = KIT_FAILED(f, MOYAI_ETOOBIG, MOYAI_AT_CALLER, MOYAI_NEVER_EXECUTED);
        KIT_TEXT(e.text, "300000");
        moyai_future_free(f);
        size_t n = 0, most = (i ? THEIRS : OURS) - 500; /* room for the head */
        KIT_OK(moyai_call(ref, "bytes", MOYAI_ARGS(moyai_bytes(p, most)), MOYAI_INTO(&n), NULL));
        FIBER_ASSERT_INT(n, most);
        f = moyai_call_async(ref, "give", MOYAI_ARGS(2 * OURS));
        e = KIT_FAILED(f, MOYAI_ETOOBIG, MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
        KIT_TEXT(e.text, "give");
        moyai_future_free(f);
        const void *q;
        f = moyai_call_async(ref, "give", MOYAI_ARGS(most));
        KIT_OK(moyai_future_get(f, MOYAI_INTO(moyai_into_bytes(&q, &n))));
        FIBER_ASSERT_INT(n, most);
        moyai_future_free(f);
    }
    for (int i = 0; i < 100; i++) { /* more than the streams of a session */
        moyai_future *f = moyai_call_async(far, "bytes", MOYAI_ARGS(moyai_bytes(p, 2 * THEIRS)));
        struct moyai_error e = KIT_FAILED(f, MOYAI_ETOOBIG, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
        KIT_TEXT(e.text, "100000");
        moyai_future_free(f);
    }
    echo(far, 5);
    close_it();
}

static void a_result_may_be_too_large_for_the_caller(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.max_message = 100000;
    open_with(&opts, NULL);
    for (int i = 0; i < 100; i++) {
        moyai_future *f = moyai_call_async(far, "give", MOYAI_ARGS(200000));
        KIT_FAILED(f, MOYAI_ETOOBIG, MOYAI_AT_CALLER, MOYAI_WAS_EXECUTED);
        moyai_future_free(f);
    }
    size_t n = 0;
    const void *q;
    moyai_future *f = moyai_call_async(far, "give", MOYAI_ARGS(90000));
    KIT_OK(moyai_future_get(f, MOYAI_INTO(moyai_into_bytes(&q, &n))));
    FIBER_ASSERT_INT(n, 90000);
    moyai_future_free(f);
    close_it();
}

/* ---- large numbers --------------------------------------------------------------------------- */

static void a_hundred_thousand_futures(void **state) {
    (void)state;
    open_with(NULL, NULL);
    const int n = FIBER_SCALE(100000, 20000, 3000);
    moyai_future **f = calloc((size_t)n, sizeof(moyai_future *));
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref = i ? far : near;
        for (int k = 0; k < n; k++) f[k] = moyai_call_async(ref, "echo", MOYAI_ARGS(k));
        struct moyai_node_stats s = {.size = sizeof s};
        moyai_node_stats(node, &s);
        FIBER_ASSERT(s.calls_open > 0 && s.calls_open <= (uint64_t)n); /* some are through already */
        for (int k = 0; k < n; k++) {
            int64_t x = 0;
            KIT_OK(moyai_future_get(f[k], MOYAI_INTO(&x)));
            FIBER_ASSERT_INT(x, k);
            moyai_future_free(f[k]);
        }
        moyai_node_stats(node, &s);
        FIBER_ASSERT_INT(s.calls_open, 0);
    }
    free(f);
    close_it();
}

static void a_set_of_a_hundred_thousand(void **state) {
    (void)state;
    open_with(NULL, NULL);
    const int n = FIBER_SCALE(100000, 20000, 3000);
    bool *seen = calloc((size_t)n, 1);
    moyai_set *set = kit_set(node);
    for (intptr_t k = 0; k < n; k++) {
        moyai_future *f = moyai_call_async(k % 2 ? far : near, "echo", MOYAI_ARGS(k));
        moyai_future_set_user(f, &seen[k]);
        KIT_OK(moyai_set_add(set, f));
    }
    FIBER_ASSERT_INT(moyai_set_count(set), n);
    for (int left = n; left > 0;) {
        int ready = moyai_wait(set, MOYAI_FOREVER);
        FIBER_ASSERT(ready > 0 && ready <= left);
        moyai_future *f;
        while ((f = moyai_set_next(set))) {
            int64_t x = 0;
            KIT_OK(moyai_future_get(f, MOYAI_INTO(&x)));
            bool *mine = moyai_future_user(f);
            FIBER_ASSERT(mine == &seen[x] && !*mine);
            *mine = true;
            moyai_future_free(f);
            left--;
            ready--;
        }
        FIBER_ASSERT(ready <= 0); /* meanwhile more may have come */
    }
    FIBER_ASSERT_INT(moyai_set_count(set), 0);
    moyai_set_free(set);
    free(seen);
    close_it();
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(calls_nest_a_thousand_deep),
        cmocka_unit_test(a_full_queue_refuses),
        cmocka_unit_test(a_queue_full_of_bytes_refuses),
        cmocka_unit_test(signals_to_a_stopped_peer_are_bounded),
        cmocka_unit_test(answers_to_a_stopped_caller_are_bounded),
        cmocka_unit_test(a_busy_node_refuses),
        cmocka_unit_test(calls_wait_for_a_place),
        cmocka_unit_test(nested_calls_get_through),
        cmocka_unit_test(signals_do_not_wait_for_a_place),
        cmocka_unit_test(methods_that_call_their_own_process_do_not_deadlock),
        cmocka_unit_test(calls_that_call_back_do_not_deadlock),
        cmocka_unit_test(fibers_of_the_program_are_counted),
        cmocka_unit_test(fibers_that_call_do_not_deadlock),
        cmocka_unit_test(a_message_has_a_largest_size),
        cmocka_unit_test(a_result_may_be_too_large_for_the_caller),
        cmocka_unit_test(a_hundred_thousand_futures),
        cmocka_unit_test(a_set_of_a_hundred_thousand),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"limited", role_limited}, {"owed", role_owed}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
