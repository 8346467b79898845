/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option `signals` in a program that does not serve: SIGINT and SIGTERM make moyai_node_stopping() true whatever
 * the main context does, and cut nothing short, but that SIGTERM wakes who sleeps or waits, once; a second one kills.
 * And the master of moyai_node(3), which polls.
 */
#include "tests/public/kit.h"

#include <errno.h>
#include <sys/wait.h>

static moyai_node *node;
static int sig;

static void interrupt(void *arg) {
    (void)arg;
    FIBER_ASSERT_INT(kill(getpid(), sig), 0);
}

/* SIGTERM tells the node to leave, which each fiber and thread hears once. */
static bool told(int rc) {
    return sig == SIGTERM && rc == MOYAI_ELEAVING;
}

/* The signal comes while somebody waits for this. */
static int m_interrupt(moyai_request *rq, void *self) {
    (void)self;
    interrupt(NULL);
    int times = 0;
    for (bool more = true; more;) {
        more = !moyai_node_stopping(node);
        const int rc = moyai_sleep(node, MOYAI_MS);
        if (told(rc))
            times++;
        else
            KIT_OK(rc);
    }
    FIBER_ASSERT_INT(times, sig == SIGTERM);
    return moyai_return(rq, MOYAI_ARGS(5));
}

static int m_echo(moyai_request *rq, void *self) {
    (void)self;
    int x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    if (x == 100) interrupt(NULL); /* in the middle of the master's work */
    return moyai_return(rq, MOYAI_ARGS(x));
}

static const struct moyai_method methods[] = {{"interrupt", m_interrupt}, {"echo", m_echo}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Thing", methods, NULL);

static void while_it_computes(moyai_ref *ref) {
    (void)ref;
    interrupt(NULL);
    while (!moyai_node_stopping(node)) {
    }
}

static void while_it_calls(moyai_ref *ref) {
    int x = 0;
    KIT_OK(moyai_call(ref, "interrupt", MOYAI_NONE, MOYAI_INTO(&x), NULL));
    FIBER_ASSERT_INT(x, 5);
}

static void while_it_waits(moyai_ref *ref) {
    moyai_set *set = kit_set(node);
    moyai_future *f = moyai_call_async(ref, "interrupt", MOYAI_NONE);
    KIT_OK(moyai_set_add(set, f));
    int rc = moyai_wait(set, MOYAI_FOREVER);
    if (told(rc)) rc = moyai_wait(set, MOYAI_FOREVER);
    KIT_RC(rc, 1);
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    moyai_future_free(f);
    moyai_set_free(set);
}

static void while_it_sleeps(moyai_ref *ref) {
    (void)ref;
    KIT_OK(moyai_go(node, interrupt, NULL));
    KIT_UNTIL(node, moyai_node_stopping(node)); /* each sleep returns 0 */
}

static void while_it_looks_up(moyai_ref *ref) {
    (void)ref;
    moyai_ref *nobody;
    KIT_OK(moyai_go(node, interrupt, NULL));
    do KIT_RC(moyai_lookup_wait(node, "nobody", MOYAI_MS, &nobody), MOYAI_ETIMEDOUT);
    while (!moyai_node_stopping(node));
}

static void while_it_serves(moyai_ref *ref) {
    (void)ref;
    KIT_OK(moyai_go(node, interrupt, NULL));
    KIT_OK(moyai_node_serve(node, MOYAI_FOREVER));
}

/* The loop of moyai_node(3): calls go out until somebody asks to stop; those that are out are waited for. */
static void while_it_is_a_master(moyai_ref *ref) {
    moyai_set *set = kit_set(node);
    int out = 0, done = 0;
    for (int job = 0; !moyai_node_stopping(node) || out > 0;) {
        while (out < 4 && !moyai_node_stopping(node)) {
            KIT_OK(moyai_set_add(set, moyai_call_async(ref, "echo", MOYAI_ARGS(job++))));
            out++;
        }
        int rc = moyai_wait(set, 200 * MOYAI_MS);
        FIBER_ASSERT(rc > 0 || rc == MOYAI_ETIMEDOUT || told(rc));
        for (moyai_future *f; (f = moyai_set_next(set)); out--, done++) {
            KIT_OK(moyai_future_get(f, MOYAI_NONE));
            moyai_future_free(f);
        }
    }
    FIBER_ASSERT(done > 100);
    FIBER_ASSERT_INT(moyai_set_count(set), 0);
    moyai_set_free(set);
}

static void twice(moyai_ref *ref) {
    while_it_computes(ref);
    interrupt(NULL);
    for (;;) (void)moyai_sleep(node, MOYAI_SEC); /* until the second one kills */
}

static void twice_while_it_computes(moyai_ref *ref) {
    while_it_computes(ref);
    interrupt(NULL);
    for (;;) {
    }
}

static const struct {
    const char *name;
    void (*run)(moyai_ref *ref);
    bool dies;
} cases[] = {
    {"computes", while_it_computes, false},
    {"calls", while_it_calls, false},
    {"waits", while_it_waits, false},
    {"sleeps", while_it_sleeps, false},
    {"looks up", while_it_looks_up, false},
    {"serves", while_it_serves, false},
    {"master", while_it_is_a_master, false},
    {"twice", twice, true},
    {"twice while it computes", twice_while_it_computes, true},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static int role_interrupted(int argc, char **argv) {
    FIBER_ASSERT_INT(argc, 2);
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.signals = true;
    sig = atoi(argv[1]);
    node = kit_node(&opts);
    moyai_ref *ref = kit_object(node, &cls, NULL);
    FIBER_ASSERT(!moyai_node_stopping(node));
    cases[atoi(argv[0])].run(ref);
    FIBER_ASSERT(moyai_node_stopping(node));
    /* Everything works as before. */
    int x = 0;
    KIT_OK(moyai_call(ref, "echo", MOYAI_ARGS(7), MOYAI_INTO(&x), NULL));
    FIBER_ASSERT_INT(x, 7);
    const int rc = moyai_sleep(node, MOYAI_MS);
    if (!told(rc)) KIT_OK(rc);
    KIT_OK(moyai_sleep(node, MOYAI_MS));
    KIT_OK(moyai_node_serve(node, MOYAI_FOREVER)); /* who serves now has been asked to stop already */
    moyai_ref_unref(ref);
    moyai_node_free(node);
    return 0;
}

static void a_signal_is_noticed_whatever_runs(void **state) {
    (void)state;
    static const int sigs[] = {SIGINT, SIGTERM};
    for (int i = 0; i < CASES; i++)
        for (int k = 0; k < 2; k++) {
            char index[8], number[8];
            snprintf(index, sizeof index, "%d", i);
            snprintf(number, sizeof number, "%d", sigs[k]);
            int status = kit_reap(kit_child("interrupted", index, number, NULL));
            bool good = cases[i].dies ? WIFSIGNALED(status) && WTERMSIG(status) == sigs[k] : status == 0;
            if (!good) FIBER_FAIL("%s: signal %d: wait status 0x%x", cases[i].name, sigs[k], (unsigned)status);
        }
}

static int tests(void) {
    const struct CMUnitTest list[] = {cmocka_unit_test(a_signal_is_noticed_whatever_runs)};
    return cmocka_run_group_tests(list, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"interrupted", role_interrupted}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
