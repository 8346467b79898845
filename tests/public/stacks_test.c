/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No memory for another stack, as under ulimit -v: what cannot begin is refused when nothing that has begun can go on,
 * what nobody can be told of waits, and nothing is lost once there is memory again.
 */
#include "tests/public/kit.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 60, ROOM_MB = 40 /* for some 17 stacks */ };

struct held {
    moyai_node *node;
    int hanging, echoed, posted;
};

/* ---- the object ------------------------------------------------------------------------------ */

static int m_hang(moyai_request *rq, void *self) {
    struct held *h = self;
    h->hanging++;
    int rc = moyai_sleep_masked(moyai_request_node(rq), MOYAI_FOREVER);
    h->hanging--;
    return rc;
}

static int m_echo(moyai_request *rq, void *self) {
    int64_t x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    ((struct held *)self)->echoed++;
    return moyai_return(rq, MOYAI_ARGS(x));
}

/* deeper(a, b): calls b.deeper(b, a), until that fails: how many calls were under this one, and what stopped them. */
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
        depth = -1;
        code = rc;
    }
    moyai_ref_unref(a);
    moyai_ref_unref(b);
    return moyai_return(rq, MOYAI_ARGS(depth + 1, code));
}

static struct rlimit before;

static void narrow(void) {
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    FIBER_ASSERT(f && fscanf(f, "%llu", &pages) == 1);
    fclose(f);
    FIBER_ASSERT_INT(getrlimit(RLIMIT_AS, &before), 0);
    struct rlimit r = before;
    r.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)ROOM_MB << 20);
    FIBER_ASSERT_INT(setrlimit(RLIMIT_AS, &r), 0);
}

static void widen(void) {
    FIBER_ASSERT_INT(setrlimit(RLIMIT_AS, &before), 0);
}

static int m_narrow(moyai_request *rq, void *self) {
    (void)self;
    narrow();
    return moyai_return(rq, MOYAI_NONE);
}

static int m_widen(moyai_request *rq, void *self) {
    (void)self;
    widen();
    return moyai_return(rq, MOYAI_NONE);
}

static const struct moyai_method methods[] = {{"hang", m_hang},     {"echo", m_echo},   {"deeper", m_deeper},
                                              {"narrow", m_narrow}, {"widen", m_widen}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Held", methods, NULL);

/* ---- in processes of their own --------------------------------------------------------------- */

static void posted(void *arg) {
    ((struct held *)arg)->posted++;
}

static void then(moyai_future *f, void *arg) {
    (void)f;
    ((struct held *)arg)->posted++;
}

static int deepest(moyai_ref *a, moyai_ref *b, int code_wanted) {
    int depth = 0, code = 0;
    KIT_OK(moyai_call(a, "deeper", MOYAI_ARGS(a, b), MOYAI_INTO(&depth, &code), NULL));
    FIBER_ASSERT_INT(code, code_wanted);
    return depth;
}

static int role_nested(int argc, char **argv) {
    (void)argc, (void)argv;
    struct held h = {0};
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.max_fibers = 200;
    moyai_node *n = kit_node(&opts);
    moyai_ref *a = kit_object(n, &cls, &h), *b = kit_object(n, &cls, &h);
    narrow();
    int few = deepest(a, b, MOYAI_EBUSY), again = deepest(a, b, MOYAI_EBUSY);
    FIBER_ASSERT(few > 0 && few < 100);
    FIBER_ASSERT_INT(again, few);
    widen();
    FIBER_ASSERT(deepest(a, b, MOYAI_EBUSY) >= 200); /* now it is the limit of fibers */
    moyai_ref_unref(a);
    moyai_ref_unref(b);
    moyai_node_free(n);
    return 0;
}

/* Begins CALLS calls that hang: those that have are in f[0] and on, their number is returned. */
static int fill(moyai_node *n, moyai_ref *ref, moyai_future **f, const struct held *h) {
    moyai_set *set = kit_set(n);
    moyai_future *all[CALLS];
    for (int i = 0; i < CALLS; i++) {
        all[i] = moyai_call_async(ref, "hang", MOYAI_NONE);
        KIT_OK(moyai_set_add(set, all[i]));
    }
    int began = 0, refused = 0;
    do {
        (void)moyai_wait(set, MOYAI_SEC);
        moyai_future *r = moyai_set_next(set);
        if (!r) continue;
        struct moyai_error e = KIT_FAILED(r, MOYAI_EBUSY, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
        KIT_TEXT(e.text, "no memory for another stack");
        refused++;
    } while (refused + h->hanging < CALLS);
    for (int i = 0; i < CALLS; i++) {
        if (!moyai_future_ready(all[i]))
            f[began++] = all[i];
        else
            moyai_future_free(all[i]);
    }
    moyai_set_free(set);
    FIBER_ASSERT_INT(began + refused, CALLS);
    FIBER_ASSERT(began > 0 && refused > 0);
    return began;
}

static int role_full(int argc, char **argv) {
    (void)argc, (void)argv;
    struct held h = {0};
    moyai_future *f[CALLS], *g;
    moyai_node *n = kit_node(NULL);
    moyai_ref *ref = kit_object(n, &cls, &h);
    narrow();
    int began = fill(n, ref, f, &h);
    /* What nobody can be told of gets through, if it does not block. */
    KIT_OK(moyai_call_oneway(ref, "echo", MOYAI_ARGS(1)));
    KIT_UNTIL(n, h.echoed == 1);
    g = moyai_call_async(ref, "echo", MOYAI_ARGS(1));
    KIT_OK(moyai_future_then(g, then, &h));
    KIT_RC(moyai_future_get(g, MOYAI_NONE), MOYAI_EBUSY);
    KIT_UNTIL(n, h.posted == 1);
    moyai_future_free(g);
    /* Else it waits. */
    KIT_OK(moyai_call_oneway(ref, "hang", MOYAI_NONE));
    KIT_UNTIL(n, h.hanging == began + 1);
    KIT_OK(moyai_call_oneway(ref, "echo", MOYAI_ARGS(1)));
    KIT_OK(moyai_go(n, posted, &h));
    moyai_dur longer_than_a_refusal = 300 * MOYAI_MS;
    KIT_OK(moyai_sleep(n, longer_than_a_refusal));
    FIBER_ASSERT_INT(h.echoed + h.posted, 2);
    KIT_RC(moyai_go(n, posted, &h), MOYAI_EBUSY);
    widen();
    KIT_UNTIL(n, h.echoed == 2 && h.posted == 2);
    KIT_OK(moyai_go(n, posted, &h));
    KIT_UNTIL(n, h.posted == 3);
    int64_t x = 0;
    KIT_OK(moyai_call(ref, "echo", MOYAI_ARGS(7), MOYAI_INTO(&x), NULL));
    FIBER_ASSERT_INT(x, 7);
    FIBER_ASSERT_INT(h.hanging, began + 1);
    for (int i = 0; i < began; i++) {
        moyai_future_cancel(f[i]);
        KIT_RC(moyai_future_get(f[i], MOYAI_NONE), MOYAI_ECANCELED);
        moyai_future_free(f[i]);
    }
    KIT_UNTIL(n, h.hanging == 1);
    moyai_ref_unref(ref);
    moyai_node_free(n);
    return 0;
}

/* Fibers that end give their stacks to those that wait: all get through, in order. */
static int64_t next;

static int m_nap(moyai_request *rq, void *self) {
    (void)self;
    int64_t x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    FIBER_ASSERT_INT(x, next);
    next++;
    KIT_OK(moyai_sleep_masked(moyai_request_node(rq), MOYAI_MS));
    return moyai_return(rq, MOYAI_NONE);
}

static int role_naps(int argc, char **argv) {
    (void)argc, (void)argv;
    static const struct moyai_method naps[] = {{"nap", m_nap}, {NULL, NULL}};
    static const struct moyai_class napping = MOYAI_CLASS("Napping", naps, NULL);
    moyai_node *n = kit_node(NULL);
    moyai_ref *ref = kit_object(n, &napping, NULL);
    narrow();
    moyai_future *f[10 * CALLS];
    for (int64_t i = 0; i < 10 * CALLS; i++) f[i] = moyai_call_async(ref, "nap", MOYAI_ARGS(i));
    for (int i = 0; i < 10 * CALLS; i++) {
        KIT_OK(moyai_future_get(f[i], MOYAI_NONE));
        moyai_future_free(f[i]);
    }
    moyai_ref_unref(ref);
    moyai_node_free(n);
    return 0;
}

static int role_server(int argc, char **argv) {
    (void)argc, (void)argv;
    struct held h = {0};
    return kit_serve(NULL, &cls, &h, "server");
}

/* ---- the tests ------------------------------------------------------------------------------- */

static bool cannot_run(void) {
    return FIBER_SANITIZED || FIBER_ON_VALGRIND; /* they map what they like */
}

static void in_child(const char *role) {
    if (cannot_run()) skip();
    int status = kit_reap(kit_child(role, NULL));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) FIBER_FAIL("%s ended with 0x%x", role, (unsigned)status);
}

static void nested_calls_fail_instead_of_waiting_for_ever(void **state) {
    (void)state;
    in_child("nested");
}

static void calls_are_refused_and_the_rest_waits(void **state) {
    (void)state;
    in_child("full");
}

static void who_can_wait_waits(void **state) {
    (void)state;
    in_child("naps");
}

static void callers_elsewhere_are_told(void **state) {
    (void)state;
    if (cannot_run()) skip();
    moyai_node *n = kit_node(NULL);
    pid_t pid = kit_child("server", NULL);
    moyai_ref *ref = kit_lookup(n, "server");
    KIT_OK(moyai_call(ref, "narrow", MOYAI_NONE, MOYAI_NONE, NULL));
    moyai_future *f[CALLS];
    for (int i = 0; i < CALLS; i++) f[i] = moyai_call_async(ref, "hang", MOYAI_NONE);
    KIT_FAILED(f[CALLS - 1], MOYAI_EBUSY, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
    int64_t x = 0;
    KIT_RC(moyai_call(ref, "echo", MOYAI_ARGS(1), MOYAI_INTO(&x), NULL), MOYAI_EBUSY);
    moyai_future_cancel(f[0]); /* the oldest runs */
    moyai_future *w;
    do {
        w = moyai_call_async(ref, "widen", MOYAI_NONE);
        int rc = moyai_future_get(w, MOYAI_NONE);
        moyai_future_free(w);
        if (rc == 0) break;
        FIBER_ASSERT_INT(rc, MOYAI_EBUSY);
    } while (true);
    KIT_OK(moyai_call(ref, "echo", MOYAI_ARGS(7), MOYAI_INTO(&x), NULL));
    FIBER_ASSERT_INT(x, 7);
    for (int i = 0; i < CALLS; i++) {
        moyai_future_cancel(f[i]);
        moyai_future_free(f[i]);
    }
    KIT_OK(moyai_call(ref, "echo", MOYAI_ARGS(8), MOYAI_INTO(&x), NULL));
    moyai_ref_unref(ref);
    moyai_node_free(n);
    kit_end(pid);
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(nested_calls_fail_instead_of_waiting_for_ever),
        cmocka_unit_test(calls_are_refused_and_the_rest_waits),
        cmocka_unit_test(who_can_wait_waits),
        cmocka_unit_test(callers_elsewhere_are_told),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {
        {"nested", role_nested}, {"full", role_full}, {"naps", role_naps}, {"server", role_server}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
