/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that runs out: the k-th allocation fails, for each k, in everything a program does with a node. Each function
 * succeeds or says so, nothing is left behind, and when there is memory again everything works.
 *
 * Only our own allocations fail; they are all that the library makes in reaction to the program and its peers.
 */
#include "tests/public/kit.h"
#include "tests/support/alloc.h"

enum { LARGE = 100 * 1024 };

/* ---- objects --------------------------------------------------------------------------------- */

static int m_echo(moyai_request *rq, void *self) {
    (void)self;
    int64_t x;
    int rc = moyai_args(rq, MOYAI_INTO(&x));
    return rc < 0 ? rc : moyai_return(rq, MOYAI_ARGS(x));
}

/* Bytes and a text, there and back. */
static int m_bytes(moyai_request *rq, void *self) {
    (void)self;
    const void *p;
    size_t n;
    const char *text;
    int rc = moyai_args(rq, MOYAI_INTO(moyai_into_bytes(&p, &n), &text));
    return rc < 0 ? rc : moyai_return(rq, MOYAI_ARGS(moyai_bytes(p, n), text));
}

static int m_raise(moyai_request *rq, void *self) {
    (void)self;
    moyai_future *f = moyai_call_async(moyai_self(rq), "nonsense", MOYAI_NONE);
    (void)moyai_future_get(f, MOYAI_NONE); /* ENOMETHOD, or out of memory */
    int rc = moyai_raise_from(rq, f, -1234, "raised");
    moyai_future_free(f);
    return rc;
}

static int m_value(moyai_request *rq, void *self) {
    (void)self;
    moyai_value *v = NULL;
    moyai_ref *ref = NULL;
    int rc = moyai_args(rq, MOYAI_INTO(&v, &ref));
    if (rc < 0) return rc;
    rc = moyai_return(rq, MOYAI_ARGS(ref, v));
    moyai_value_free(v);
    moyai_ref_unref(ref);
    return rc;
}

static int m_nested(moyai_request *rq, void *self) {
    (void)self;
    int64_t x = 0;
    int rc = moyai_call(moyai_self(rq), "echo", MOYAI_ARGS(5), MOYAI_INTO(&x), NULL);
    return rc < 0 ? rc : moyai_return(rq, MOYAI_ARGS(x));
}

static int m_wait(moyai_request *rq, void *self) {
    (void)self;
    moyai_set *set = NULL;
    int rc = moyai_set_new(moyai_request_node(rq), &set);
    if (rc < 0) return rc;
    rc = moyai_wait(set, MOYAI_FOREVER);
    moyai_set_free(set);
    return rc == MOYAI_SIGNALLED ? 0 : rc;
}

/* call_me(ref, what): the other process's side of the tests in which this one serves. */
static int m_call_me(moyai_request *rq, void *self);

static const struct moyai_method methods[] = {{"echo", m_echo},       {"bytes", m_bytes},   {"raise", m_raise},
                                              {"value", m_value},     {"nested", m_nested}, {"wait", m_wait},
                                              {"call_me", m_call_me}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Frugal", methods, NULL);

static int role_frugal(int argc, char **argv) {
    (void)argc, (void)argv;
    return kit_serve(NULL, &cls, NULL, "frugal");
}

/* ---- the world ------------------------------------------------------------------------------- */

static moyai_node *node;
static moyai_ref *refs[2];
static pid_t pid;
static uint8_t *large;

static void works(void) {
    for (int i = 0; i < 2; i++) {
        int64_t x = 0;
        KIT_OK(moyai_call(refs[i], "echo", MOYAI_ARGS(11), MOYAI_INTO(&x), NULL));
        FIBER_ASSERT_INT(x, 11);
        const void *p;
        size_t n;
        const char *text;
        KIT_OK(moyai_call(refs[i], "bytes", MOYAI_ARGS(moyai_bytes(large, LARGE), "text"),
                          MOYAI_INTO(moyai_into_bytes(&p, &n), &text), NULL));
        FIBER_ASSERT(n == LARGE && memcmp(p, large, n) == 0);
    }
}

static int open_world(void **state) {
    (void)state;
    large = malloc(LARGE);
    FIBER_ASSERT(large);
    memset(large, 'L', LARGE);
    node = kit_node(NULL);
    refs[0] = kit_object(node, &cls, NULL);
    KIT_OK(moyai_register(refs[0], "here"));
    pid = kit_child("frugal", NULL);
    refs[1] = kit_lookup(node, "frugal");
    works();
    return 0;
}

static int close_world(void **state) {
    (void)state;
    works();
    moyai_ref_unref(refs[0]);
    moyai_ref_unref(refs[1]);
    moyai_node_free(node);
    kit_end(pid);
    free(large);
    return 0;
}

/* What may come of an operation when memory runs out in its midst: by itself, or by what it waits for. */
static bool fine(int rc) {
    return rc >= 0 || rc == MOYAI_ENOMEM || rc == MOYAI_EUNREACHABLE;
}
/* And it is the last error, of which there is a text. */
static void check_fine(const char *func, const char *expr, int rc, long k) {
    if (!fine(rc)) FIBER_FAIL("%s: %s: %s, k %ld", func, expr, moyai_err_name(rc), k);
    if (rc >= 0 || !node) return;
    struct moyai_error e;
    moyai_last_error(node, &e);
    if (e.code != rc || !e.text[0])
        FIBER_FAIL("%s: %s: %s, but the last error is %s: \"%s\", k %ld", func, expr, moyai_err_name(rc),
                   moyai_err_name(e.code), e.text, k);
}
#define FINE(expr) check_fine(__func__, #expr, expr, k)

/* op(k) with the k-th allocation failing: only it, and all from it on; of this thread, and of all. */
static void starve(void (*op)(long k)) {
    static const unsigned modes[] = {ALLOC_ONE | ALLOC_MINE, ALLOC_ALL | ALLOC_MINE, ALLOC_ONE};
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        long k = 1;
        for (; alloc_next(&k, modes[m]); k++) op(k);
        alloc_disarm();
        if (node) works();
    }
}

/* ---- a node ---------------------------------------------------------------------------------- */

static void start_and_end(long k) {
    moyai_node *n = NULL;
    struct moyai_error e = {0};
    int rc = moyai_node_new(&n, NULL, &e);
    FIBER_ASSERT((rc == 0) == (n != NULL));
    if (rc < 0) {
        FINE(rc);
        FIBER_ASSERT_INT(e.code, rc);
    }
    moyai_node_free(n);
}

static void nodes(void **state) {
    (void)state;
    moyai_node *keep = node;
    node = NULL;
    starve(start_and_end);
    node = keep;
}

/* ---- objects and names ----------------------------------------------------------------------- */

static void make_object(long k) {
    moyai_ref *ref = NULL;
    static const struct moyai_class other = MOYAI_CLASS("Other", methods, NULL);
    struct moyai_error e = {0};
    int rc = moyai_object_new(node, &other, NULL, &ref, &e);
    FINE(rc);
    FIBER_ASSERT((rc == 0) == (ref != NULL) && e.code == rc);
    if (!ref) return;
    FINE(moyai_register(ref, "a name"));
    FINE(moyai_register(ref, "another name"));
    KIT_OK(moyai_object_end(ref));
    moyai_ref_unref(ref);
}

static void objects(void **state) {
    (void)state;
    starve(make_object);
}

static void find_names(long k) {
    moyai_ref *ref = NULL;
    FINE(moyai_lookup(node, "frugal", &ref));
    moyai_ref_unref(ref);
    ref = NULL;
    FINE(moyai_lookup(node, "here", &ref));
    moyai_ref_unref(ref);
    ref = NULL;
    int rc = moyai_lookup(node, "nobody", &ref);
    if (rc != MOYAI_ENOENT) FINE(rc);
    rc = moyai_lookup_wait(node, "nobody", MOYAI_MS, &ref); /* with a watch on the directory */
    if (rc != MOYAI_ETIMEDOUT) FINE(rc);
    FIBER_ASSERT(!ref);
    char text[MOYAI_REF_TEXT];
    moyai_ref_format(refs[1], text);
    rc = moyai_ref_parse(node, text, &ref);
    FINE(rc);
    FIBER_ASSERT((rc == 0) == (ref != NULL));
    moyai_ref_unref(ref);
}

static void names(void **state) {
    (void)state;
    starve(find_names);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int the_ref; /* which of refs the operations call */

static void call_small(long k) {
    int64_t x = 0;
    int rc = moyai_call(refs[the_ref], "echo", MOYAI_ARGS(7), MOYAI_INTO(&x), NULL);
    FINE(rc);
    if (rc == 0) FIBER_ASSERT_INT(x, 7);
    struct moyai_error e;
    moyai_last_error(node, &e);
    if (rc < 0) FIBER_ASSERT_INT(e.code, rc);
    FINE(moyai_call_oneway(refs[the_ref], "echo", MOYAI_ARGS(7)));
    rc = moyai_call(refs[the_ref], "raise", MOYAI_NONE, MOYAI_NONE, NULL);
    if (rc != -1234) FINE(rc);
    rc = moyai_call(refs[the_ref], "nested", MOYAI_NONE, MOYAI_INTO(&x), NULL);
    FINE(rc);
}

/* What has never run is never said to have perhaps, whatever there is no memory for; and the code stays what it is. */
static void call_refused(long k) {
    moyai_future *f = moyai_call_async(refs[the_ref], "nonsense", MOYAI_NONE);
    int rc = moyai_future_get(f, MOYAI_NONE);
    struct moyai_error e = {0};
    FIBER_ASSERT(rc < 0);
    if (rc != MOYAI_ENOMETHOD) FINE(rc);
    FIBER_ASSERT_INT(moyai_future_error(f, 0, &e), rc);
    FIBER_ASSERT_INT(e.executed, MOYAI_NEVER_EXECUTED);
    moyai_future_free(f);
}

static void call_large(long k) {
    const void *p;
    size_t n = 0;
    const char *text = NULL;
    static const size_t sizes[] = {10, 1000, 5000, LARGE};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        moyai_future *f =
            moyai_call_async(refs[the_ref], "bytes", MOYAI_ARGS(moyai_bytes(large, sizes[i]), "some text"));
        FIBER_ASSERT(f);
        int rc = moyai_future_get(f, MOYAI_INTO(moyai_into_bytes(&p, &n), &text));
        FINE(rc);
        if (rc == 0) FIBER_ASSERT(n == sizes[i] && memcmp(p, large, n) == 0 && strcmp(text, "some text") == 0);
        moyai_future_free(f);
        FINE(moyai_call_oneway(refs[the_ref], "bytes", MOYAI_ARGS(moyai_bytes(large, sizes[i]), "")));
    }
}

static void call_with_values(long k) {
    moyai_value *items[] = {moyai_value_new(MOYAI_ARG(1)), moyai_value_new(MOYAI_ARG("two")),
                            moyai_value_new(moyai_bytes(large, 200)), moyai_value_new(MOYAI_ARG(refs[0]))};
    moyai_value *v = moyai_value_list(items, 4), *w = NULL;
    moyai_ref *ref = NULL;
    if (!v) return; /* the parts are gone with it */
    int rc = moyai_call(refs[the_ref], "value", MOYAI_ARGS(v, refs[1]), MOYAI_INTO(&ref, &w), NULL);
    FINE(rc);
    FIBER_ASSERT((rc == 0) == (ref && w));
    if (rc == 0) FIBER_ASSERT(moyai_value_equal(v, w) && moyai_ref_equal(ref, refs[1]));
    moyai_value_free(v);
    moyai_value_free(w);
    moyai_ref_unref(ref);
}

static void followed(moyai_future *f, void *arg) {
    (void)f;
    ++*(int *)arg;
}

static void use_futures(long k) {
    static int runs;
    moyai_set *set = NULL;
    FINE(moyai_set_new(node, &set));
    moyai_future *f[4];
    int followed_by = 0;
    runs = 0;
    for (int i = 0; i < 4; i++) f[i] = moyai_call_async(refs[the_ref], i < 3 ? "echo" : "wait", MOYAI_ARGS(i));
    moyai_future_deadline(f[0], 60 * MOYAI_SEC);
    if (moyai_future_then(f[1], followed, &runs) == 0) followed_by = 1;
    moyai_future_cancel(f[2]);
    moyai_future_cancel(f[3]);
    if (set) {
        for (int i = 0; i < 4; i++) {
            int rc = moyai_set_add(set, f[i]);
            FINE(rc);
            if (rc < 0) FIBER_ASSERT(moyai_future_ready(f[i])); /* the constant future of no memory is in no set */
        }
        FINE(moyai_wait_all(set, MOYAI_FOREVER));
        while (moyai_set_next(set)) {
        }
        moyai_set_free(set);
    }
    for (int i = 0; i < 4; i++) {
        int rc = moyai_future_get(f[i], MOYAI_NONE);
        if (rc != MOYAI_ECANCELED || i < 2) FINE(rc);
        struct moyai_error e = {0};
        FIBER_ASSERT_INT(moyai_future_error(f[i], 0, &e), rc); /* the code, also without memory for the text */
    }
    while (runs < followed_by) moyai_yield(node);
    for (int i = 0; i < 4; i++) moyai_future_free(f[i]);
}

static void ask_nodes(long k) {
    moyai_ref *ref = NULL;
    FINE(moyai_node_ref(node, moyai_ref_home(refs[the_ref]), &ref));
    static const char *const methods_of_nodes[] = {"info", "objects"};
    for (int i = 0; i < 2 && ref; i++) {
        moyai_value *v = NULL;
        int rc = moyai_call(ref, methods_of_nodes[i], MOYAI_NONE, MOYAI_INTO(&v), NULL);
        FINE(rc);
        FIBER_ASSERT((rc == 0) == (v != NULL));
        moyai_value_free(v);
    }
    moyai_ref_unref(ref);
}

static void use_signals(long k) {
    FINE(moyai_signal(refs[the_ref]));
    moyai_future *f = moyai_signal_async(refs[the_ref]);
    FINE(moyai_future_get(f, MOYAI_NONE));
    moyai_future_free(f);
    FINE(moyai_room(refs[the_ref], MOYAI_FOREVER));
    FINE(moyai_ping(node, moyai_ref_home(refs[the_ref]), MOYAI_FOREVER));
    FINE(moyai_sleep(node, 1));
}

static void count_run(void *n) {
    ++*(int *)n;
}

static void use_fibers(long k) {
    static int runs;
    runs = 0;
    int want = 0;
    for (int i = 0; i < 3; i++) {
        int rc = i % 2 ? moyai_post(node, count_run, &runs) : moyai_go(node, count_run, &runs);
        FINE(rc);
        want += rc == 0;
    }
    while (runs < want) moyai_yield(node);
}

static void everywhere(void (*op)(long k)) {
    for (the_ref = 0; the_ref < 2; the_ref++) starve(op);
}

static void refused_calls(void **state) {
    (void)state;
    everywhere(call_refused);
}

static void small_calls(void **state) {
    (void)state;
    everywhere(call_small);
}
static void large_calls(void **state) {
    (void)state;
    everywhere(call_large);
}
static void values(void **state) {
    (void)state;
    everywhere(call_with_values);
}
static void futures(void **state) {
    (void)state;
    everywhere(use_futures);
}
static void nodes_asked(void **state) {
    (void)state;
    everywhere(ask_nodes);
}
static void signals(void **state) {
    (void)state;
    everywhere(use_signals);
}
static void fibers(void **state) {
    (void)state;
    starve(use_fibers);
}

/* From a node that has nothing yet: the first call makes the peer, its link and its session. */
static void first_call(long k) {
    alloc_disarm();
    moyai_node *keep = node, *n = kit_node(NULL);
    moyai_ref *ref = kit_lookup(n, "frugal");
    node = n; /* the one whose last error FINE looks at */
    alloc_arm(k, ALLOC_ONE | ALLOC_MINE);
    int64_t x = 0;
    FINE(moyai_call(ref, "echo", MOYAI_ARGS(7), MOYAI_INTO(&x), NULL));
    FINE(moyai_call(ref, "echo", MOYAI_ARGS(8), MOYAI_INTO(&x), NULL));
    node = keep;
    moyai_ref_unref(ref);
    moyai_node_free(n);
}

static void a_first_call(void **state) {
    (void)state;
    for (long k = 1; k == 1 || alloc_hit(); k++) first_call(k);
    alloc_disarm();
}

/* ---- serving --------------------------------------------------------------------------------- */

/* In the other process: calls of all kinds to ref. Its own memory does not run out. */
static int m_call_me(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref)));
    uint8_t *p = calloc(1, LARGE);
    FIBER_ASSERT(p);
    enum { N = 8 };
    moyai_future *f[N];
    for (int i = 0; i < N; i++) {
        size_t n = i < 2 ? 10 : i < 4 ? 3000 : LARGE;
        f[i] = i == 7   ? moyai_call_async(ref, "raise", MOYAI_NONE)
               : i == 6 ? moyai_signal_async(ref)
               : i == 5 ? moyai_call_async(ref, "nonsense", MOYAI_ARGS(moyai_bytes(p, n)))
                        : moyai_call_async(ref, "bytes", MOYAI_ARGS(moyai_bytes(p, n), "x"));
    }
    int failed = 0;
    for (int i = 0; i < N; i++) { /* each hears something */
        int rc = moyai_future_get(f[i], MOYAI_NONE);
        /* If the session has failed this call is cancelled, too, which is told once. */
        if (rc == MOYAI_ECANCELED && moyai_cancelled(rq)) rc = moyai_future_get(f[i], MOYAI_NONE);
        if (rc < 0 && rc != MOYAI_ENOMEM && rc != MOYAI_EUNREACHABLE && !(i == 7 && rc == -1234) &&
            !(i == 5 && rc == MOYAI_ENOMETHOD))
            FIBER_FAIL("call %d: %s", i, moyai_err_name(rc));
        failed += rc < 0;
        moyai_future_free(f[i]);
    }
    free(p);
    moyai_ref_unref(ref);
    return moyai_return(rq, MOYAI_ARGS(failed));
}

static void serve_calls(long k) {
    int failed = 0;
    moyai_future *f = moyai_call_async(refs[1], "call_me", MOYAI_ARGS(refs[0]));
    int rc = moyai_future_get(f, MOYAI_INTO(&failed));
    FINE(rc);
    moyai_future_free(f);
}

static void serving(void **state) {
    (void)state;
    starve(serve_calls);
}

static int tests(void) {
#define WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest all[] = {
        WORLD(nodes),        WORLD(objects), WORLD(names),       WORLD(small_calls), WORLD(refused_calls),
        WORLD(large_calls),  WORLD(values),  WORLD(futures),     WORLD(signals),     WORLD(fibers),
        WORLD(a_first_call), WORLD(serving), WORLD(nodes_asked),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"frugal", role_frugal}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
