/* SPDX-License-Identifier: Apache-2.0 */
/*
 * S0/3.2: what the caller hears when a call fails. The three scenarios (the method raised, the path broke, the
 * callee's process failed) and what this side or the other refuses; each with where it failed and whether the method
 * never, perhaps or surely ran.
 */
#include "tests/public/kit.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>

/* ---- the callee ------------------------------------------------------------------------------ */

struct victim {
    moyai_node *node;
    int begun; /* of "hang" */
    _Atomic uint32_t *ran;
};

static int m_echo(moyai_request *rq, void *self) {
    (void)self;
    int64_t x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    return moyai_return(rq, MOYAI_ARGS(x));
}

static int m_raise(moyai_request *rq, void *self) {
    (void)self;
    int code;
    const char *text;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&code, &text)));
    return moyai_raise(rq, code, "%s", text);
}

static int m_code(moyai_request *rq, void *self) {
    (void)self;
    int code;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&code)));
    return code;
}

/* relay(ref, code, levels): calls ref.raise(code, "the cause"), or with levels > 0 its own relay, and raises what it
 * heard as the cause of an error of its own. */
static int m_relay(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    int code, levels;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref, &code, &levels)));
    moyai_future *f = levels > 0 ? moyai_call_async(moyai_self(rq), "relay", MOYAI_ARGS(ref, code, levels - 1))
                                 : moyai_call_async(ref, "raise", MOYAI_ARGS(code, "the cause"));
    int rc = moyai_future_get(f, MOYAI_NONE);
    FIBER_ASSERT(rc < 0);
    rc = moyai_raise_from(rq, f, -2000 - levels, "level %d", levels);
    moyai_future_free(f);
    moyai_ref_unref(ref);
    return rc;
}

/* Its cause is a call that had no reference. */
static int m_blank(moyai_request *rq, void *self) {
    (void)self;
    moyai_future *f = moyai_call_async(NULL, "echo", MOYAI_NONE);
    int rc = moyai_raise_from(rq, f, -1500, "outer");
    moyai_future_free(f);
    return rc;
}

/* Passes on what a call of its own failed with, without raising it anew. */
static int m_pass(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref)));
    int rc = moyai_call(ref, "raise", MOYAI_ARGS(-1500, "from below"), MOYAI_NONE, NULL);
    moyai_ref_unref(ref);
    return rc;
}

/* rec(ref, n): calls ref.rec(ref, n - 1), and in the end raises; each passes on what it heard. */
static int m_rec(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    int n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref, &n)));
    int rc = n == 0 ? moyai_raise(rq, -1500, "the cause at the bottom")
                    : moyai_call(ref, "rec", MOYAI_ARGS(ref, n - 1), MOYAI_NONE, NULL);
    moyai_ref_unref(ref);
    return rc;
}

static int m_hang(moyai_request *rq, void *self) {
    struct victim *v = self;
    v->begun++;
    return moyai_sleep_masked(moyai_request_node(rq), MOYAI_FOREVER);
}

static int m_begun(moyai_request *rq, void *self) {
    return moyai_return(rq, MOYAI_ARGS(((struct victim *)self)->begun));
}

/* Blocks the whole node thread: it never gets to anything else. */
__attribute__((noreturn)) static int m_stuck(moyai_request *rq, void *self) {
    (void)rq;
    struct victim *v = self;
    v->ran[0]++;
    for (;;) pause();
}

static int m_mark(moyai_request *rq, void *self) {
    struct victim *v = self;
    uint32_t i;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&i)));
    v->ran[i]++;
    return moyai_return(rq, MOYAI_ARGS(i));
}

static int m_stop(moyai_request *rq, void *self) {
    (void)self;
    moyai_node_stop(moyai_request_node(rq));
    return 0;
}

static int m_typed(moyai_request *rq, void *self) {
    (void)self;
    int8_t small;
    const char *text;
    int rc = moyai_args(rq, MOYAI_INTO(&small, &text));
    if (rc < 0) return rc;
    return moyai_return(rq, MOYAI_ARGS(small, text));
}

static const struct moyai_method victim_methods[] = {
    {"echo", m_echo}, {"raise", m_raise}, {"code", m_code},   {"relay", m_relay}, {"pass", m_pass},
    {"rec", m_rec},   {"hang", m_hang},   {"begun", m_begun}, {"stuck", m_stuck}, {"mark", m_mark},
    {"stop", m_stop}, {"typed", m_typed}, {"blank", m_blank}, {NULL, NULL}};
static const struct moyai_class victim_class = MOYAI_CLASS("Victim", victim_methods, NULL);

enum { MARKS = 20000 };

static int role_victim(int argc, char **argv) {
    FIBER_ASSERT_INT(argc, 1);
    struct victim v = {.ran = kit_shared(argv[0], MARKS)};
    return kit_serve(NULL, &victim_class, &v, argv[0]);
}

/* Marks by one-way calls, and goes. */
static int role_leaver(int argc, char **argv) {
    (void)argc;
    moyai_node *n = kit_node(NULL);
    moyai_ref *ref = kit_lookup(n, argv[0]);
    moyai_future *f = moyai_signal_async(ref); /* answered without any method: now it is connected */
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    moyai_future_free(f);
    for (int i = 0; i < 10; i++) KIT_OK(moyai_call_oneway(ref, "mark", MOYAI_ARGS(i)));
    moyai_ref_unref(ref);
    moyai_node_free(n);
    return 0;
}

/* ---- the caller ------------------------------------------------------------------------------ */

static moyai_node *node;
static moyai_ref *near, *far; /* an object here and one of another process */
static struct victim here;
static pid_t pid;

static int open_world(void **state) {
    (void)state;
    node = kit_node(NULL);
    here = (struct victim){.node = node};
    near = kit_object(node, &victim_class, &here);
    pid = kit_child("victim", "victim", NULL);
    far = kit_lookup(node, "victim");
    return 0;
}

static int close_world(void **state) {
    (void)state;
    moyai_ref_unref(near);
    moyai_ref_unref(far);
    moyai_node_free(node);
    if (pid) kit_end(pid);
    return 0;
}

/* The text names the process: who of many it was. */
static void check_names(const char *text, pid_t of) {
    char who[80];
    snprintf(who, sizeof who, "(%s, pid %d)", program_invocation_short_name, of);
    KIT_TEXT(text, "node ");
    KIT_TEXT(text, who);
}

static bool all_zero(struct moyai_node_id id) {
    static const struct moyai_node_id zero;
    return moyai_node_id_equal(id, zero);
}

/* ---- (1) the method raised ------------------------------------------------------------------- */

static void check_raised(moyai_ref *ref, int code, const char *text, int want_code, const char *want_text) {
    moyai_future *f = moyai_call_async(ref, "raise", MOYAI_ARGS(code, text));
    struct moyai_error e = KIT_FAILED(f, want_code, MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
    if (strcmp(e.text, want_text) != 0) FIBER_FAIL("\"%s\", not \"%s\"", e.text, want_text);
    struct moyai_node_id home = moyai_ref_home(ref);
    FIBER_ASSERT(moyai_node_id_equal(e.origin, home) || (ref == near && all_zero(e.origin)));
    FIBER_ASSERT_INT(moyai_future_error(f, 1, &e), 0);
    FIBER_ASSERT_INT(e.code, 0);
    moyai_future_free(f);
    /* The synchronous call says the same, and so does the last error. */
    KIT_RC(moyai_call(ref, "raise", MOYAI_ARGS(code, text), MOYAI_NONE, NULL), want_code);
    moyai_last_error(node, &e);
    FIBER_ASSERT_INT(e.code, want_code);
    FIBER_ASSERT_INT(e.where, MOYAI_AT_METHOD);
    FIBER_ASSERT_INT(e.executed, MOYAI_WAS_EXECUTED);
    FIBER_ASSERT(strcmp(e.text, want_text) == 0);
}

static void what_a_method_raises_is_carried_over(void **state) {
    (void)state;
    char longest[MOYAI_ERROR_TEXT + 100], cut[MOYAI_ERROR_TEXT];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    memcpy(cut, longest, sizeof cut);
    cut[sizeof cut - 1] = 0;
    memcpy(cut + 120, " ... ", 5); /* its ends are there */
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref = i ? far : near;
        check_raised(ref, MOYAI_EARGS, "work(job)", MOYAI_EARGS, "work(job)");
        check_raised(ref, -1000, "its own", -1000, "its own");
        check_raised(ref, -2147483647 - 1, "the least", -2147483647 - 1, "the least");
        check_raised(ref, MOYAI_EUSER, "", MOYAI_EUSER, "");
        check_raised(ref, MOYAI_EDEAD, "a lie", MOYAI_EDEAD, "a lie"); /* where says that it is the method's word */
        check_raised(ref, -1200, longest, -1200, cut);
        check_raised(ref, -1200, "100 %s %d %n", -1200, "100 %s %d %n");
    }
}

/* No result and no error may be taken for "forced open": the caller would wait for ever. */
static void no_method_can_raise_a_signal(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref = i ? far : near;
        check_raised(ref, MOYAI_SIGNALLED, "forced open", MOYAI_EUSER, "forced open");
        moyai_future *f = moyai_call_async(ref, "code", MOYAI_ARGS(MOYAI_SIGNALLED));
        struct moyai_error e = KIT_FAILED(f, MOYAI_EUSER, MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
        KIT_TEXT(e.text, "code");
        moyai_future_free(f);
    }
}

static void a_method_may_just_return_a_code(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref = i ? far : near;
        static const int codes[][2] = {
            {MOYAI_EDATA, MOYAI_EDATA}, {-1001, -1001}, {5, MOYAI_EUSER}, {MOYAI_ENOOBJECT, MOYAI_ENOOBJECT}};
        for (size_t k = 0; k < sizeof codes / sizeof codes[0]; k++) {
            moyai_future *f = moyai_call_async(ref, "code", MOYAI_ARGS(codes[k][0]));
            struct moyai_error e = KIT_FAILED(f, codes[k][1], MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
            KIT_TEXT(e.text, "code"); /* the method's name */
            moyai_future_free(f);
        }
        /* What it was told by the library is in the text. */
        moyai_future *f = moyai_call_async(ref, "pass", MOYAI_ARGS(near));
        struct moyai_error e = KIT_FAILED(f, -1500, MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
        KIT_TEXT(e.text, "from below");
        moyai_future_free(f);
        /* 0 without moyai_return: no results. */
        KIT_OK(moyai_call(ref, "code", MOYAI_ARGS(0), MOYAI_NONE, NULL));
    }
}

static void causes_travel_along(void **state) {
    (void)state;
    moyai_ref *refs[] = {near, far};
    for (int i = 0; i < 4; i++) {
        moyai_ref *by = refs[i / 2], *of = refs[i % 2];
        moyai_future *f = moyai_call_async(by, "relay", MOYAI_ARGS(of, -1111, 2));
        KIT_FAILED(f, -2002, MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
        static const int codes[] = {-2002, -2001, -2000, -1111};
        static const char *const texts[] = {"level 2", "level 1", "level 0", "the cause"};
        struct moyai_error e;
        for (unsigned level = 0; level < 4; level++) {
            FIBER_ASSERT_INT(moyai_future_error(f, level, &e), codes[level]);
            FIBER_ASSERT(strcmp(e.text, texts[level]) == 0);
            FIBER_ASSERT_INT(e.where, MOYAI_AT_METHOD);
            FIBER_ASSERT_INT(e.executed, MOYAI_WAS_EXECUTED);
            FIBER_ASSERT(moyai_node_id_equal(e.origin, moyai_ref_home(level < 3 ? by : of)));
        }
        FIBER_ASSERT_INT(moyai_future_error(f, 4, &e), 0);
        FIBER_ASSERT_INT(moyai_future_error(f, 1, NULL), -2001);
        moyai_future_free(f);
    }
    /* 16 levels at most: the latest stay, and what it all began with. */
    moyai_future *f = moyai_call_async(far, "relay", MOYAI_ARGS(near, -1111, 30));
    KIT_FAILED(f, -2030, MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
    FIBER_ASSERT_INT(moyai_future_error(f, 14, NULL), -2016);
    FIBER_ASSERT_INT(moyai_future_error(f, 15, NULL), -1111);
    FIBER_ASSERT_INT(moyai_future_error(f, 16, NULL), 0);
    moyai_future_free(f);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void check_refused(moyai_ref *ref, const char *method, const struct moyai_args *args, int code,
                          enum moyai_where where, const char *text) {
    moyai_future *f = moyai_call_async(ref, method, args);
    struct moyai_error e = KIT_FAILED(f, code, where, MOYAI_NEVER_EXECUTED);
    KIT_TEXT(e.text, text);
    moyai_future_free(f);
}

/* However deep it was, the text says who was called and what the cause was; only what is between them is cut. */
static void a_deep_error_keeps_its_ends(void **state) {
    (void)state;
    moyai_ref *refs[] = {near, far};
    for (int i = 0; i < 2; i++) {
        for (int depth = 1; depth < 200; depth += 18) {
            moyai_future *f = moyai_call_async(refs[i], "rec", MOYAI_ARGS(refs[i], depth));
            struct moyai_error e = KIT_FAILED(f, -1500, MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
            FIBER_ASSERT_INT(strncmp(e.text, "rec: ", 5), 0);
            static const char cause[] = "the cause at the bottom";
            FIBER_ASSERT(strlen(e.text) > sizeof cause);
            FIBER_ASSERT_INT(strcmp(e.text + strlen(e.text) - sizeof cause + 1, cause), 0);
            moyai_future_free(f);
        }
    }
}

static void what_cannot_be_called_is_never_executed(void **state) {
    (void)state;
    char name[257];
    memset(name, 'm', 256);
    name[256] = 0;
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref = i ? far : near;
        check_refused(ref, "nonsense", MOYAI_NONE, MOYAI_ENOMETHOD, MOYAI_AT_PEER, "nonsense");
        check_refused(ref, "nonsense", MOYAI_NONE, MOYAI_ENOMETHOD, MOYAI_AT_PEER, "Victim");
        check_refused(
            ref, "nonsense", MOYAI_NONE, MOYAI_ENOMETHOD, MOYAI_AT_PEER,
            "class Victim has no method 'nonsense'; it has: echo, raise, code, relay, pass, rec, hang, begun, ");
        check_refused(ref, "ech", MOYAI_ARGS(1), MOYAI_ENOMETHOD, MOYAI_AT_PEER,
                      "'ech'; did you mean 'echo'? It has: echo, raise, ");
        moyai_future *f = moyai_call_async(ref, "blank", MOYAI_NONE);
        (void)KIT_FAILED(f, -1500, MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
        struct moyai_error cause;
        FIBER_ASSERT_INT(moyai_future_error(f, 1, &cause), MOYAI_EINVAL);
        KIT_TEXT(cause.text, "the reference to call is NULL");
        FIBER_ASSERT_INT(moyai_future_error(f, 2, &cause), 0);
        moyai_future_free(f);
        check_refused(ref, "", MOYAI_NONE, MOYAI_EINVAL, MOYAI_AT_CALLER, "255");
        check_refused(ref, name, MOYAI_NONE, MOYAI_EINVAL, MOYAI_AT_CALLER, "255");
        check_refused(ref, name + 1, MOYAI_NONE, MOYAI_ENOMETHOD, MOYAI_AT_PEER, "mmm");
        check_refused(ref, "echo", MOYAI_ARGS((const char *)NULL), MOYAI_EARGS, MOYAI_AT_CALLER, "value 1");
        check_refused(ref, "echo", MOYAI_ARGS(1, "\xff\xfe"), MOYAI_EARGS, MOYAI_AT_CALLER, "value 2");
        check_refused(ref, "echo", MOYAI_ARGS((moyai_ref *)NULL), MOYAI_EARGS, MOYAI_AT_CALLER, "value 1");
        check_refused(ref, "echo", MOYAI_ARGS(moyai_doubles(NULL, 3)), MOYAI_EARGS, MOYAI_AT_CALLER, "value 1");
        struct moyai_arg wrong = moyai_null();
        wrong.tag = 200;
        check_refused(ref, "echo", MOYAI_ARGS(wrong), MOYAI_EARGS, MOYAI_AT_CALLER, "value 1");
        /* An object that never was. */
        char text[MOYAI_REF_TEXT];
        moyai_ref *none = NULL;
        moyai_ref_format(ref, text);
        text[6] = text[6] == '0' ? '1' : '0';
        KIT_OK(moyai_ref_parse(node, text, &none));
        check_refused(none, "echo", MOYAI_ARGS(1), MOYAI_ENOOBJECT, MOYAI_AT_PEER, "object");
        moyai_ref_unref(none);
    }
    /* The one-way call says what is known at once. */
    KIT_RC(moyai_call_oneway(near, "nonsense", MOYAI_NONE), MOYAI_ENOMETHOD);
    KIT_RC(moyai_call_oneway(far, "", MOYAI_NONE), MOYAI_EINVAL);
    KIT_OK(moyai_call_oneway(far, "nonsense", MOYAI_NONE));
    struct moyai_error e;
    KIT_RC(moyai_call(far, "nonsense", MOYAI_NONE, MOYAI_NONE, NULL), MOYAI_ENOMETHOD);
    moyai_last_error(node, &e);
    FIBER_ASSERT_INT(e.executed, MOYAI_NEVER_EXECUTED);
    FIBER_ASSERT_INT(e.where, MOYAI_AT_PEER);
}

static void an_ended_object_refuses(void **state) {
    (void)state;
    moyai_ref *ref = moyai_ref_ref(near);
    moyai_future *f = moyai_call_async(ref, "hang", MOYAI_NONE);
    kit_settle(node);
    moyai_future *queued = moyai_call_async(ref, "echo", MOYAI_ARGS(1)); /* not begun when the object ends */
    KIT_OK(moyai_object_end(ref));
    KIT_FAILED(queued, MOYAI_ENOOBJECT, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
    moyai_future_free(queued);
    check_refused(ref, "echo", MOYAI_ARGS(1), MOYAI_ENOOBJECT, MOYAI_AT_PEER, "ended");
    KIT_RC(moyai_object_end(ref), MOYAI_ENOOBJECT);
    KIT_RC(moyai_object_end(far), MOYAI_ENOOBJECT);
    KIT_RC(moyai_call_oneway(ref, "echo", MOYAI_NONE), MOYAI_ENOOBJECT);
    FIBER_ASSERT(!moyai_future_ready(f)); /* what was in its scope goes on */
    moyai_future_cancel(f);
    moyai_future_free(f);
    kit_settle(node);
    check_refused(ref, "echo", MOYAI_ARGS(1), MOYAI_ENOOBJECT, MOYAI_AT_PEER, "object");
    moyai_ref_unref(ref);
}

/* ---- arguments and results that do not fit --------------------------------------------------- */

static void arguments_and_results_are_checked(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref = i ? far : near;
        const struct {
            const struct moyai_args *args;
            int code;
            const char *text;
        } wrong[] = {
            {MOYAI_NONE, MOYAI_EARGS, "2"},
            {MOYAI_ARGS(1), MOYAI_EARGS, "2"},
            {MOYAI_ARGS(1, "x", 3), MOYAI_EARGS, "2"},
            {MOYAI_ARGS("x", "x"), MOYAI_ETYPE, "1"},
            {MOYAI_ARGS(1, 2), MOYAI_ETYPE, "2"},
            {MOYAI_ARGS(128, "x"), MOYAI_ERANGE, "1"},
            {MOYAI_ARGS(1.5, "x"), MOYAI_ERANGE, "1"},
        };
        for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
            moyai_future *f = moyai_call_async(ref, "typed", wrong[k].args);
            struct moyai_error e = KIT_FAILED(f, wrong[k].code, MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
            KIT_TEXT(e.text, "typed");
            KIT_TEXT(e.text, wrong[k].text);
            moyai_future_free(f);
        }
        moyai_future *f = moyai_call_async(ref, "typed", MOYAI_ARGS(-7, "seven"));
        int a = 1;
        unsigned b = 2;
        int8_t c = 3;
        const char *text = "before";
        struct moyai_error e;
        KIT_RC(moyai_future_get(f, MOYAI_INTO(&a)), MOYAI_EARGS);
        moyai_last_error(node, &e);
        FIBER_ASSERT_INT(e.executed, MOYAI_WAS_EXECUTED);
        KIT_RC(moyai_future_get(f, MOYAI_INTO(&text, &text)), MOYAI_ETYPE);
        KIT_RC(moyai_future_get(f, MOYAI_INTO(&b, &text)), MOYAI_ERANGE);
        FIBER_ASSERT_INT(a, 1);
        FIBER_ASSERT_INT(b, 2);
        FIBER_ASSERT(strcmp(text, "before") == 0);          /* nothing has been stored */
        KIT_OK(moyai_future_get(f, MOYAI_INTO(&c, &text))); /* and nothing is lost */
        FIBER_ASSERT_INT(c, -7);
        FIBER_ASSERT(strcmp(text, "seven") == 0);
        KIT_OK(moyai_future_get(f, MOYAI_NONE));
        moyai_future_free(f);
    }
}

/* ---- (3) the callee's process failed --------------------------------------------------------- */

static int begun_there(void) {
    int n = 0;
    KIT_OK(moyai_call(far, "begun", MOYAI_NONE, MOYAI_INTO(&n), NULL));
    return n;
}

static void a_callee_is_killed_during_calls(void **state) {
    (void)state;
    enum { N = 20 };
    moyai_future *f[N];
    for (int i = 0; i < N; i++) f[i] = moyai_call_async(far, "hang", MOYAI_NONE);
    while (begun_there() < N) {
    }
    KIT_OK(moyai_call(near, "echo", MOYAI_ARGS(1), MOYAI_NONE, NULL));
    FIBER_ASSERT(!moyai_future_ready(f[0]));
    kit_kill(pid);
    for (int i = 0; i < N; i++) {
        struct moyai_error e = KIT_FAILED(f[i], MOYAI_EDEAD, MOYAI_AT_PEER, MOYAI_MAY_HAVE_EXECUTED);
        check_names(e.text, pid);
        KIT_TEXT(e.text, "has died: ");
        moyai_future_free(f[i]);
    }
    /* From here on it is known: nothing is sent any more. */
    check_refused(far, "echo", MOYAI_ARGS(1), MOYAI_EDEAD, MOYAI_AT_PEER, "");
    KIT_RC(moyai_signal(far), MOYAI_EDEAD);
    KIT_RC(moyai_call_oneway(far, "echo", MOYAI_ARGS(1)), MOYAI_EDEAD);
    moyai_future *s = moyai_signal_async(far);
    KIT_FAILED(s, MOYAI_EDEAD, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
    moyai_future_free(s);
    KIT_OK(moyai_room(far, MOYAI_FOREVER)); /* there is nothing to wait for */
    int64_t x = 0;
    KIT_OK(moyai_call(near, "echo", MOYAI_ARGS(5), MOYAI_INTO(&x), NULL)); /* the others live on */
    FIBER_ASSERT_INT(x, 5);
    pid = 0;
}

static void a_callee_is_killed_while_it_computes(void **state) {
    (void)state;
    _Atomic uint32_t *ran = kit_shared("stuck", MARKS);
    pid_t other = kit_child("victim", "stuck", NULL);
    moyai_ref *ref = kit_lookup(node, "stuck");
    moyai_future *f = moyai_call_async(ref, "stuck", MOYAI_NONE);
    moyai_future *behind = moyai_call_async(ref, "echo", MOYAI_ARGS(1)); /* taken, and never begun */
    while (!ran[0]) moyai_yield(node);
    kit_kill(other);
    KIT_FAILED(f, MOYAI_EDEAD, MOYAI_AT_PEER, MOYAI_MAY_HAVE_EXECUTED);
    KIT_FAILED(behind, MOYAI_EDEAD, MOYAI_AT_PEER, MOYAI_MAY_HAVE_EXECUTED); /* nobody can know */
    moyai_future_free(f);
    moyai_future_free(behind);
    moyai_ref_unref(ref);
}

static void a_callee_was_killed_before_the_call(void **state) {
    (void)state;
    /* Nothing connects us to it yet: the reference comes by another's hand. */
    pid_t other = kit_child("victim", "doomed", NULL);
    moyai_ref *ref = kit_lookup(node, "doomed");
    kit_kill(other);
    char who[80]; /* who it was is in the grid until it is found dead */
    snprintf(who, sizeof who, "(%s, pid %d) has died", program_invocation_short_name, other);
    check_refused(ref, "echo", MOYAI_ARGS(1), MOYAI_EDEAD, MOYAI_AT_PEER, who);
    check_refused(ref, "echo", MOYAI_ARGS(1), MOYAI_EDEAD, MOYAI_AT_PEER, "");
    moyai_ref_unref(ref);
}

/* Of a grid of this host only: dead, as whose socket is gone, and told apart from it as far as that can be known. */
static void a_callee_never_was(void **state) {
    (void)state;
    moyai_ref *ref = NULL, *home = NULL;
    KIT_OK(moyai_ref_parse(node, "moyai:00112233445566778899aabbccddeeff@ffeeddccbbaa99887766554433221100", &ref));
    KIT_OK(moyai_node_ref(node, (struct moyai_node_id){{1, 2, 3}}, &home));
    for (int i = 0; i < 2; i++) { /* and again: it is known now */
        check_refused(ref, "echo", MOYAI_ARGS(1), MOYAI_EDEAD, MOYAI_AT_PEER,
                      "node ffeeddcc has ended, or never was: ");
        check_refused(ref, "echo", MOYAI_ARGS(1), MOYAI_EDEAD, MOYAI_AT_PEER, "in run directory '/");
        check_refused(home, "info", MOYAI_NONE, MOYAI_EDEAD, MOYAI_AT_PEER, "node 01020300 has ended, or never was: ");
    }
    KIT_RC(moyai_ping(node, (struct moyai_node_id){{4}}, MOYAI_FOREVER), MOYAI_EDEAD);
    moyai_ref_unref(ref);
    moyai_ref_unref(home);
}

/* Calls at any moment of its life: what is said to have never run has not, what succeeded has, once. */
static void never_executed_is_exact(void **state) {
    (void)state;
    enum { CALLS = 4000, ROUNDS = 5 };
    static moyai_future *f[CALLS];
    uint32_t rng = (uint32_t)kit_seed();
    int seen[3] = {0};
    for (int round = 0; round < FIBER_SCALE(ROUNDS, 3, 2); round++) {
        char name[32];
        snprintf(name, sizeof name, "mark%d", round);
        _Atomic uint32_t *ran = kit_shared(name, MARKS);
        pid_t other = kit_child("victim", name, NULL);
        moyai_ref *ref = kit_lookup(node, name);
        /* 3,072 are what a session takes; killed while it is stopped, some are still here. */
        bool stopped = round % 2;
        KIT_OK(moyai_call(ref, "mark", MOYAI_ARGS(MARKS - 1), MOYAI_NONE, NULL));
        if (stopped) kit_stop(other);
        rng = rng * 1664525u + 1013904223u;
        uint32_t when = rng % CALLS;
        for (uint32_t i = 0; i < CALLS; i++) {
            f[i] = moyai_call_async(ref, "mark", MOYAI_ARGS(i));
            if (i % 16 == 0) moyai_yield(node);
            if (i == when && !stopped) {
                KIT_OK(moyai_future_get(f[0], MOYAI_NONE)); /* some have run by now */
                kill(other, SIGKILL);
            }
        }
        if (stopped) kill(other, SIGKILL);
        (void)kit_reap(other);
        for (uint32_t i = 0; i < CALLS; i++) {
            uint32_t x = 0;
            struct moyai_error e;
            int rc = moyai_future_get(f[i], MOYAI_INTO(&x));
            if (rc == 0) {
                FIBER_ASSERT_INT(x, i);
                FIBER_ASSERT_INT(ran[i], 1);
                seen[MOYAI_WAS_EXECUTED]++;
            } else {
                KIT_RC(rc, MOYAI_EDEAD);
                moyai_future_error(f[i], 0, &e);
                FIBER_ASSERT_INT(e.where, MOYAI_AT_PEER);
                if (e.executed == MOYAI_NEVER_EXECUTED && ran[i] != 0)
                    FIBER_FAIL("call %u ran, never executed it says", i);
                FIBER_ASSERT(e.executed != MOYAI_WAS_EXECUTED);
                FIBER_ASSERT(ran[i] <= 1);
                seen[e.executed]++;
            }
            moyai_future_free(f[i]);
        }
        moyai_ref_unref(ref);
    }
    printf("%d may have, %d never, %d was executed\n", seen[0], seen[1], seen[2]);
    for (int i = 0; i < 3; i++) FIBER_ASSERT(seen[i] > 0);
}

/* ---- (2) the path broke ---------------------------------------------------------------------- */

static void a_stopped_callee_and_a_deadline(void **state) {
    (void)state;
    KIT_OK(moyai_call(far, "echo", MOYAI_ARGS(1), MOYAI_NONE, NULL));
    _Atomic uint32_t *ran = kit_shared("victim", MARKS);
    uint32_t before = ran[3];
    kit_stop(pid);
    moyai_future *f = moyai_call_async(far, "mark", MOYAI_ARGS(3));
    moyai_future_deadline(f, 50 * MOYAI_MS);
    struct moyai_error e = KIT_FAILED(f, MOYAI_ETIMEDOUT, MOYAI_AT_CALLER, MOYAI_MAY_HAVE_EXECUTED);
    KIT_TEXT(e.text, "mark");
    check_names(e.text, pid);
    moyai_future_free(f);
    FIBER_ASSERT_INT(ran[3], before);
    kit_cont(pid);
    /* Silence is no evidence of death: it is as usable as before. */
    KIT_OK(moyai_call(far, "mark", MOYAI_ARGS(4), MOYAI_NONE, NULL));
    /* Where it can, the callee answers itself, and says who it is. */
    f = moyai_call_async(far, "hang", MOYAI_NONE);
    moyai_future_deadline(f, 200 * MOYAI_MS);
    KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ETIMEDOUT);
    KIT_RC(moyai_future_error(f, 0, &e), MOYAI_ETIMEDOUT);
    KIT_TEXT(e.text, "hang");
    check_names(e.text, pid);
    moyai_future_free(f);
}

static void a_callee_that_cannot_be_reached(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.reattach = 200 * MOYAI_MS;
    pid_t other = kit_child("victim", "asleep", NULL);
    moyai_ref *probe = kit_lookup(node, "asleep");
    moyai_ref_unref(probe);
    kit_stop(other);
    moyai_node *n = kit_node(&opts);
    moyai_ref *ref = kit_lookup(n, "asleep");
    moyai_future *f = moyai_call_async(ref, "echo", MOYAI_ARGS(1));
    struct moyai_error e = KIT_FAILED(f, MOYAI_EUNREACHABLE, MOYAI_AT_PATH, MOYAI_NEVER_EXECUTED);
    KIT_TEXT(e.text, "in time");
    check_names(e.text, other);
    moyai_future_free(f);
    kit_cont(other);
    KIT_OK(moyai_call(ref, "echo", MOYAI_ARGS(1), MOYAI_NONE, NULL)); /* a new session */
    moyai_ref_unref(ref);
    moyai_node_free(n);
    kit_end(other);
}

static void a_node_without_a_grid_reaches_itself_only(void **state) {
    (void)state;
    char *grid = strdup(getenv("MOYAI_GRID"));
    unsetenv("MOYAI_GRID");
    moyai_node *n = kit_node(NULL);
    setenv("MOYAI_GRID", grid, 1);
    free(grid);
    char text[MOYAI_REF_TEXT];
    moyai_ref_format(far, text);
    moyai_ref *ref = NULL, *own;
    KIT_OK(moyai_ref_parse(n, text, &ref));
    moyai_future *f = moyai_call_async(ref, "echo", MOYAI_ARGS(1));
    KIT_FAILED(f, MOYAI_EUNREACHABLE, MOYAI_AT_PATH, MOYAI_NEVER_EXECUTED);
    moyai_future_free(f);
    struct victim v = {.node = n};
    own = kit_object(n, &victim_class, &v);
    KIT_OK(moyai_call(own, "echo", MOYAI_ARGS(1), MOYAI_NONE, NULL));
    moyai_ref_unref(ref);
    moyai_ref_unref(own);
    moyai_node_free(n);
}

/* ---- ended in order -------------------------------------------------------------------------- */

static void a_callee_leaves_in_order(void **state) {
    (void)state;
    moyai_future *f = moyai_call_async(far, "hang", MOYAI_NONE);
    while (begun_there() < 1) {
    }
    KIT_OK(moyai_call_oneway(far, "stop", MOYAI_NONE));
    FIBER_ASSERT_INT(kit_reap(pid), 0);
    KIT_FAILED(f, MOYAI_ECLOSED, MOYAI_AT_PEER, MOYAI_MAY_HAVE_EXECUTED);
    moyai_future_free(f);
    check_refused(far, "echo", MOYAI_ARGS(1), MOYAI_ECLOSED, MOYAI_AT_PEER, "left");
    pid = 0;
}

/* The answer to the call that ends the callee arrives before its farewell. */
static void the_last_answer_arrives(void **state) {
    (void)state;
    KIT_OK(moyai_call(far, "stop", MOYAI_NONE, MOYAI_NONE, NULL));
    FIBER_ASSERT_INT(kit_reap(pid), 0);
    pid = 0;
}

/* One-way calls that have arrived are executed, though their caller has left before they could begin. */
static void one_way_calls_outlive_their_caller(void **state) {
    (void)state;
    KIT_OK(moyai_call(far, "echo", MOYAI_ARGS(1), MOYAI_NONE, NULL)); /* one link stays */
    here.ran = kit_shared("outlive", MARKS);
    KIT_OK(moyai_register(near, "outlive"));
    FIBER_ASSERT_INT(kit_reap(kit_child("leaver", "outlive", NULL)), 0); /* no method can run here meanwhile */
    struct moyai_node_stats s = {.size = sizeof s};
    do { /* until it is known here, and still nothing has run */
        kit_compute(MOYAI_MS);
        moyai_node_stats(node, &s);
    } while (s.links > 1);
    for (int i = 0; i < 10; i++) KIT_UNTIL(node, here.ran[i] == 1);
}

static int tests(void) {
#define WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest all[] = {
        WORLD(what_a_method_raises_is_carried_over),
        WORLD(no_method_can_raise_a_signal),
        WORLD(a_method_may_just_return_a_code),
        WORLD(causes_travel_along),
        WORLD(a_deep_error_keeps_its_ends),
        WORLD(what_cannot_be_called_is_never_executed),
        WORLD(an_ended_object_refuses),
        WORLD(a_callee_never_was),
        WORLD(arguments_and_results_are_checked),
        WORLD(a_callee_is_killed_during_calls),
        WORLD(a_callee_is_killed_while_it_computes),
        WORLD(a_callee_was_killed_before_the_call),
        WORLD(never_executed_is_exact),
        WORLD(a_stopped_callee_and_a_deadline),
        WORLD(a_callee_that_cannot_be_reached),
        WORLD(a_node_without_a_grid_reaches_itself_only),
        WORLD(a_callee_leaves_in_order),
        WORLD(the_last_answer_arrives),
        WORLD(one_way_calls_outlive_their_caller),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"victim", role_victim}, {"leaver", role_leaver}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
