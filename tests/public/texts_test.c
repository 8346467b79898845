/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of errors say what has happened, whose fault it is, and go on saying it however deep in calls within calls.
 */
#include "tests/public/kit.h"

#include <errno.h>

#define REASON                                                                                                         \
    "cannot write block 17 of \"/data/of/the/experiment/that/ran/all/night/results.bin\": no space left on the disk "  \
    "of host \"a-machine-with-a-long-name.example.org\" (it is the one in drawer seven)"

/* ---- the callee ------------------------------------------------------------------------------ */

static int m_raise(moyai_request *rq, void *self) {
    (void)self;
    int code;
    const char *text;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&code, &text)));
    int rc = moyai_raise(rq, code, "%s", text);
    return rc == code ? rc : code; /* as if it had not looked */
}

static int m_code(moyai_request *rq, void *self) {
    (void)self;
    int code;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&code)));
    return code;
}

/* rec(a, b, n): b.rec(b, a, n - 1); the last raises, or sleeps if n was negative at first. */
static int m_rec(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *a = NULL, *b = NULL;
    int n, rc;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&a, &b, &n)));
    if (n == 0)
        rc = moyai_raise(rq, -1500, "%s", REASON);
    else if (n == -1)
        rc = moyai_sleep(moyai_request_node(rq), MOYAI_FOREVER);
    else
        rc = moyai_call(b, "rec", MOYAI_ARGS(b, a, n > 0 ? n - 1 : n + 1), MOYAI_NONE, NULL);
    moyai_ref_unref(a);
    moyai_ref_unref(b);
    return rc;
}

/* The same, each raising an error of its own with what it heard as the cause. */
static int m_because(moyai_request *rq, void *self) {
    (void)self;
    int n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&n)));
    if (n == 0) return moyai_raise(rq, -1500, "%s", REASON);
    moyai_future *f = moyai_call_async(moyai_self(rq), "because", MOYAI_ARGS(n - 1));
    int rc = moyai_future_get(f, MOYAI_NONE);
    FIBER_ASSERT(rc < 0);
    rc = moyai_raise_from(rq, f, -2000 - n, "level %d", n);
    moyai_future_free(f);
    return rc;
}

static int m_typed(moyai_request *rq, void *self) {
    (void)self;
    int8_t small;
    int rc = moyai_args(rq, MOYAI_INTO(&small));
    return rc < 0 ? rc : moyai_return(rq, MOYAI_ARGS("\xff"));
}

static int m_forced(moyai_request *rq, void *self) {
    (void)self;
    KIT_OK(moyai_signal(moyai_self(rq)));
    return moyai_sleep(moyai_request_node(rq), MOYAI_FOREVER);
}

static int m_await(moyai_request *rq, void *self) {
    (void)self;
    const char *name;
    moyai_ref *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&name)));
    int rc = moyai_lookup_wait(moyai_request_node(rq), name, MOYAI_FOREVER, &ref);
    moyai_ref_unref(ref);
    return rc;
}

static const struct moyai_method methods[] = {
    {"await", m_await},     {"raise", m_raise}, {"code", m_code},     {"rec", m_rec},
    {"because", m_because}, {"typed", m_typed}, {"forced", m_forced}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Thing", methods, NULL);

static int role_thing(int argc, char **argv) {
    (void)argc, (void)argv;
    return kit_serve(NULL, &cls, NULL, "thing");
}

static moyai_node *node;
static moyai_ref *near, *far;

static struct moyai_error failed(moyai_ref *ref, const char *method, const struct moyai_args *args, int code) {
    moyai_future *f = moyai_call_async(ref, method, args);
    struct moyai_error e = KIT_FAILED(f, code, MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
    moyai_future_free(f);
    return e;
}

/* ---- deep ------------------------------------------------------------------------------------ */

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

static void the_reason_survives_any_depth(void **state) {
    (void)state;
    static const int depths[] = {1, 2, 8, 9, 10, 50, 200};
    for (int i = 0; i < 3; i++) {
        moyai_ref *a = i == 0 ? near : far, *b = i == 2 ? near : a; /* the last: back and forth */
        for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++) {
            struct moyai_error e = failed(a, "rec", MOYAI_ARGS(a, b, depths[d]), -1500);
            if (!ends_with(e.text, REASON)) FIBER_FAIL("depth %d: the reason is not in \"%s\"", depths[d], e.text);
            FIBER_ASSERT(strncmp(e.text, "rec: ", 5) == 0);
            FIBER_ASSERT(!strstr(e.text, "... ") == (strlen(REASON) + 5 * (size_t)depths[d] < MOYAI_ERROR_TEXT));
        }
    }
}

static void the_first_cause_survives_any_depth(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        moyai_future *f = moyai_call_async(i ? far : near, "because", MOYAI_ARGS(40));
        KIT_FAILED(f, -2040, MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
        struct moyai_error e, last = {0};
        unsigned n = 0;
        for (; moyai_future_error(f, n, &e) != 0; n++) last = e;
        FIBER_ASSERT_INT(n, 16);
        FIBER_ASSERT_INT(last.code, -1500);
        FIBER_ASSERT(strcmp(last.text, REASON) == 0);
        moyai_future_free(f);
    }
}

/* Who waits for whom: the last of the chain is the one that matters. */
static void a_deadline_names_the_last_of_a_long_chain(void **state) {
    (void)state;
    for (int depth = 2; depth <= 16; depth += 7) {
        moyai_future *f = moyai_call_async(near, "rec", MOYAI_ARGS(near, near, -depth));
        kit_settle(node);
        moyai_future_deadline(f, MOYAI_MS);
        int rc = moyai_future_get(f, MOYAI_NONE);
        struct moyai_error e;
        moyai_future_error(f, 0, &e);
        FIBER_ASSERT_INT(rc, MOYAI_ETIMEDOUT);
        if (!ends_with(e.text, "sleeps")) FIBER_FAIL("depth %d: \"%s\"", depth, e.text);
        moyai_future_free(f);
        kit_settle(node);
    }
}

/* A method that waits for a name, and longer than its caller: long before the log says it. */
static void a_deadline_names_the_name_that_is_waited_for(void **state) {
    (void)state;
    moyai_future *f = moyai_call_async(near, "await", MOYAI_ARGS("nobdoy"));
    kit_settle(node);
    moyai_future_deadline(f, MOYAI_MS);
    FIBER_ASSERT_INT(moyai_future_get(f, MOYAI_NONE), MOYAI_ETIMEDOUT);
    struct moyai_error e;
    moyai_future_error(f, 0, &e);
    KIT_TEXT(e.text, "'await' waits for a name that nobody has registered: \"nobdoy\"");
    moyai_future_free(f);
    kit_settle(node);
}

/* ---- codes that are none ---------------------------------------------------------------------- */

static void what_is_no_code_is_named(void **state) {
    (void)state;
    static const int none[] = {1, 5, 17, -32, -500, -999, 2147483647};
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref = i ? far : near;
        for (size_t k = 0; k < sizeof none / sizeof none[0]; k++) {
            char text[40];
            struct moyai_error e = failed(ref, "code", MOYAI_ARGS(none[k]), MOYAI_EUSER);
            snprintf(text, sizeof text, "code: it returned %d,", none[k]);
            KIT_TEXT(e.text, text);
            KIT_TEXT(e.text, "-1000 and below");
            /* Raised: the text is there as well, also if it is not what moyai_raise has returned that is returned. */
            e = failed(ref, "raise", MOYAI_ARGS(none[k], "the text"), MOYAI_EUSER);
            snprintf(text, sizeof text, "'raise' raised %d,", none[k]);
            KIT_TEXT(e.text, text);
            FIBER_ASSERT(ends_with(e.text, ": the text"));
        }
        struct moyai_error e = failed(ref, "forced", MOYAI_NONE, MOYAI_EUSER);
        KIT_TEXT(e.text, "forced: ");
        KIT_TEXT(e.text, "signal");
        /* What is a code stays as it is. */
        e = failed(ref, "raise", MOYAI_ARGS(-1000, "the text"), -1000);
        FIBER_ASSERT(strcmp(e.text, "the text") == 0);
        e = failed(ref, "code", MOYAI_ARGS(-1000), -1000);
        FIBER_ASSERT(strcmp(e.text, "code: the method failed with a code of its own") == 0);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static void values_that_do_not_fit_name_the_method(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref = i ? far : near;
        static const char front[] = "arguments of 'typed': ", results[] = "results of 'typed': ";
        struct moyai_error e = failed(ref, "typed", MOYAI_NONE, MOYAI_EARGS);
        FIBER_ASSERT(strncmp(e.text, front, strlen(front)) == 0); /* once is enough */
        e = failed(ref, "typed", MOYAI_ARGS("text"), MOYAI_ETYPE);
        FIBER_ASSERT(strncmp(e.text, front, strlen(front)) == 0);
        e = failed(ref, "typed", MOYAI_ARGS(300), MOYAI_ERANGE);
        FIBER_ASSERT(strncmp(e.text, front, strlen(front)) == 0);
        e = failed(ref, "typed", MOYAI_ARGS(1), MOYAI_EARGS);
        FIBER_ASSERT(strncmp(e.text, results, strlen(results)) == 0);
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

static int open_world(void **state) {
    (void)state;
    node = kit_node(NULL);
    near = kit_object(node, &cls, NULL);
    far = kit_lookup(node, "thing");
    return 0;
}

static int tests(void) {
    pid_t pid = kit_child("thing", NULL);
    const struct CMUnitTest list[] = {
        cmocka_unit_test(the_reason_survives_any_depth),
        cmocka_unit_test(the_first_cause_survives_any_depth),
        cmocka_unit_test(a_deadline_names_the_last_of_a_long_chain),
        cmocka_unit_test(a_deadline_names_the_name_that_is_waited_for),
        cmocka_unit_test(what_is_no_code_is_named),
        cmocka_unit_test(values_that_do_not_fit_name_the_method),
    };
    int rc = cmocka_run_group_tests(list, open_world, NULL);
    moyai_ref_unref(near);
    moyai_ref_unref(far);
    moyai_node_free(node);
    kit_end(pid);
    return rc;
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"thing", role_thing}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
