/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moyai_last_error: whatever function has returned whatever negative code, it has that code and a text that names what
 * is wrong. One row for each function and code that can be brought about; running out of memory is alloc_test's.
 *
 * Before each row another error is made, so that a function that records nothing is found out.
 */
#include "tests/public/kit.h"

#include <pthread.h>

enum { MAX_MESSAGE = 1 << 20, QUEUE = 4 };

/* ---- the world ------------------------------------------------------------------------------- */

static moyai_node *node, *narrow; /* narrow: two fibers */
static moyai_ref *near, *far, *ended, *dead, *stopped;
static moyai_request *now; /* of the method in which a row runs */
static pid_t far_pid, stopped_pid;
static char big[MAX_MESSAGE + 1];

static int m_nothing(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    return 0;
}
static int m_three(moyai_request *rq, void *self) {
    (void)self;
    return moyai_return(rq, MOYAI_ARGS(300, "text", 1));
}
static int m_hang(moyai_request *rq, void *self) {
    (void)self;
    return moyai_sleep_masked(moyai_request_node(rq), MOYAI_FOREVER);
}
static int m_raise(moyai_request *rq, void *self) {
    (void)self;
    int code;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&code)));
    return moyai_raise(rq, code, "raised on purpose");
}
static int m_run(moyai_request *rq, void *self);

static const struct moyai_method methods[] = {{"nothing", m_nothing}, {"three", m_three}, {"hang", m_hang},
                                              {"raise", m_raise},     {"run", m_run},     {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Thing", methods, NULL);
static const struct moyai_method twice[] = {{"same", m_nothing}, {"same", m_nothing}, {NULL, NULL}};
static const struct moyai_class bad_class = MOYAI_CLASS("Bad", twice, NULL);

static int role_thing(int argc, char **argv) {
    (void)argc;
    return kit_serve(NULL, &cls, NULL, argv[0]);
}

/* ---- what fails ------------------------------------------------------------------------------ */

static void nothing(void *arg) {
    (void)arg;
}
static void then_nothing(moyai_future *f, void *arg) {
    (void)f, (void)arg;
}
static void free_future(void *f) {
    moyai_future_free(f);
}
static void free_set(void *set) {
    moyai_set_free(set);
}

static int serve_late(void) {
    return moyai_node_serve(node, MOYAI_MS);
}
static int serve_here(void) {
    return moyai_node_serve(node, MOYAI_FOREVER);
}
static int ping_dead(void) {
    return moyai_ping(node, moyai_ref_home(dead), 10 * MOYAI_SEC);
}
static int ping_stopped(void) {
    return moyai_ping(node, moyai_ref_home(stopped), 1);
}
static int go_null(void) {
    return moyai_go(node, NULL, NULL);
}
static int post_null(void) {
    return moyai_post(node, NULL, NULL);
}
static int sleep_now(void) {
    return moyai_sleep(node, MOYAI_FOREVER);
}
static int sleep_masked(void) {
    return moyai_sleep_masked(node, MOYAI_FOREVER);
}
static int object_no_class(void) {
    moyai_ref *ref;
    return moyai_object_new(node, NULL, NULL, &ref, NULL);
}
static int object_no_ret(void) {
    return moyai_object_new(node, &cls, NULL, NULL, NULL);
}
static int object_bad_class(void) {
    moyai_ref *ref;
    return moyai_object_new(node, &bad_class, NULL, &ref, NULL);
}
static int end_ended(void) {
    return moyai_object_end(ended);
}
static int end_far(void) {
    return moyai_object_end(far);
}
static int parse_nonsense(void) {
    moyai_ref *ref;
    return moyai_ref_parse(node, "moyai:nonsense", &ref);
}
static int parse_null(void) {
    moyai_ref *ref;
    return moyai_ref_parse(node, NULL, &ref);
}
static int parse_no_ret(void) {
    char text[MOYAI_REF_TEXT];
    moyai_ref_format(near, text);
    return moyai_ref_parse(node, text, NULL);
}
static int register_null(void) {
    return moyai_register(near, NULL);
}
static int register_empty(void) {
    return moyai_register(near, "");
}
static int register_ended(void) {
    return moyai_register(ended, "ended");
}
static int register_taken(void) {
    return moyai_register(near, "taken");
}
static int unregister_other(void) {
    return moyai_unregister(near, "never registered");
}
static int unregister_null(void) {
    return moyai_unregister(near, NULL);
}
static int lookup_nobody(void) {
    moyai_ref *ref;
    return moyai_lookup(node, "nobody", &ref);
}
static int lookup_null(void) {
    moyai_ref *ref;
    return moyai_lookup(node, NULL, &ref);
}
static int lookup_no_ret(void) {
    return moyai_lookup(node, "thing", NULL);
}
static int lookup_late(void) {
    moyai_ref *ref;
    return moyai_lookup_wait(node, "nobody", MOYAI_MS, &ref);
}
static int lookup_forever(void) {
    moyai_ref *ref;
    return moyai_lookup_wait(node, "nobody", MOYAI_FOREVER, &ref);
}

static int call_unnamed(void) {
    return moyai_call(near, "", MOYAI_NONE, MOYAI_NONE, NULL);
}
static int call_null_name(void) {
    return moyai_call(near, NULL, MOYAI_NONE, MOYAI_NONE, NULL);
}
static int call_unknown(void) {
    return moyai_call(far, "unknown", MOYAI_NONE, MOYAI_NONE, NULL);
}
static int call_ended(void) {
    return moyai_call(ended, "nothing", MOYAI_NONE, MOYAI_NONE, NULL);
}
static int call_dead(void) {
    return moyai_call(dead, "nothing", MOYAI_NONE, MOYAI_NONE, NULL);
}
static int call_bad_value(void) {
    return moyai_call(far, "nothing", MOYAI_ARGS(1, (const char *)NULL), MOYAI_NONE, NULL);
}
static int call_big(void) {
    return moyai_call(far, "nothing", MOYAI_ARGS(moyai_bytes(big, sizeof big)), MOYAI_NONE, NULL);
}
static int call_user(void) {
    return moyai_call(far, "raise", MOYAI_ARGS(MOYAI_EUSER), MOYAI_NONE, NULL);
}
static int call_own(void) {
    return moyai_call(near, "raise", MOYAI_ARGS(-1234), MOYAI_NONE, NULL);
}
static int call_count(void) {
    int a;
    return moyai_call(far, "three", MOYAI_NONE, MOYAI_INTO(&a), NULL);
}
static int call_type(void) {
    int a, b, c;
    return moyai_call(far, "three", MOYAI_NONE, MOYAI_INTO(&a, &b, &c), NULL);
}
static int call_range(void) {
    int8_t a;
    const char *b;
    int c;
    return moyai_call(near, "three", MOYAI_NONE, MOYAI_INTO(&a, &b, &c), NULL);
}
static int call_full(void) {
    return moyai_call(stopped, "nothing", MOYAI_NONE, MOYAI_NONE, NULL);
}
static int call_signalled(void) {
    moyai_future *f = NULL;
    int rc = moyai_call(near, "hang", MOYAI_NONE, MOYAI_NONE, &f);
    moyai_future_cancel(f);
    moyai_future_free(f);
    return rc;
}
static int call_hang(void) {
    return moyai_call(far, "hang", MOYAI_NONE, MOYAI_NONE, NULL);
}
static int oneway_unnamed(void) {
    return moyai_call_oneway(far, "", MOYAI_NONE);
}
static int oneway_unknown(void) {
    return moyai_call_oneway(near, "unknown", MOYAI_NONE);
}
static int oneway_ended(void) {
    return moyai_call_oneway(ended, "nothing", MOYAI_NONE);
}
static int oneway_dead(void) {
    return moyai_call_oneway(dead, "nothing", MOYAI_NONE);
}
static int oneway_bad_value(void) {
    return moyai_call_oneway(far, "nothing", MOYAI_ARGS("\xff"));
}
static int oneway_big(void) {
    return moyai_call_oneway(near, "nothing", MOYAI_ARGS(moyai_bytes(big, sizeof big)));
}
static int oneway_full(void) {
    return moyai_call_oneway(stopped, "nothing", MOYAI_NONE);
}
static int room_late(void) {
    return moyai_room(stopped, MOYAI_MS);
}
static int room_forever(void) {
    return moyai_room(stopped, MOYAI_FOREVER);
}
static int signal_ended(void) {
    return moyai_signal(ended);
}
static int signal_dead(void) {
    return moyai_signal(dead);
}

/* ---- futures and sets ------------------------------------------------------------------------ */

static int got(moyai_future *f) {
    int rc = moyai_future_get(f, MOYAI_NONE);
    moyai_future_free(f);
    return rc;
}
static int get_cancelled(void) {
    moyai_future *f = moyai_call_async(far, "hang", MOYAI_NONE);
    moyai_future_cancel(f);
    return got(f);
}
static int get_late(void) {
    moyai_future *f = moyai_call_async(far, "hang", MOYAI_NONE);
    moyai_future_deadline(f, MOYAI_MS);
    return got(f);
}
static int get_freed(void) {
    moyai_future *f = moyai_call_async(far, "hang", MOYAI_NONE);
    KIT_OK(moyai_go(node, free_future, f));
    return moyai_future_get_masked(f, MOYAI_NONE);
}
static int get_masked(void) {
    moyai_future *f = moyai_call_async(far, "hang", MOYAI_NONE);
    int rc = moyai_future_get_masked(f, MOYAI_NONE);
    moyai_future_free(f);
    return rc;
}
static int get_forever(void) {
    return got(moyai_call_async(far, "hang", MOYAI_NONE));
}
static int get_of_signal(void) {
    return got(moyai_signal_async(ended));
}
static int then_with(void (*second)(moyai_future *f, void *arg)) {
    moyai_future *f = moyai_call_async(far, "hang", MOYAI_NONE);
    KIT_OK(moyai_future_then(f, then_nothing, NULL));
    int rc = moyai_future_then(f, second, NULL);
    moyai_future_free(f);
    return rc;
}
static int then_twice(void) {
    return then_with(then_nothing);
}
static int then_null(void) {
    return then_with(NULL);
}

static int set_no_ret(void) {
    return moyai_set_new(node, NULL);
}
static int add_elsewhere(void) {
    moyai_set *a = kit_set(node), *b = kit_set(node);
    moyai_future *f = moyai_call_async(far, "hang", MOYAI_NONE);
    KIT_OK(moyai_set_add(a, f));
    int rc = moyai_set_add(b, f);
    moyai_future_free(f);
    moyai_set_free(a);
    moyai_set_free(b);
    return rc;
}
static int add_null(void) {
    moyai_set *set = kit_set(node);
    int rc = moyai_set_add(set, NULL);
    moyai_set_free(set);
    return rc;
}
static int add_without_reference(void) {
    moyai_set *set = kit_set(node);
    int rc = moyai_set_add(set, moyai_call_async(NULL, "nothing", MOYAI_NONE));
    moyai_set_free(set);
    return rc;
}

static int waited(int (*wait)(moyai_set *, moyai_dur), moyai_dur timeout) {
    moyai_set *set = kit_set(node);
    moyai_future *f = moyai_call_async(far, "hang", MOYAI_NONE);
    KIT_OK(moyai_set_add(set, f));
    int rc = wait(set, timeout);
    moyai_future_free(f);
    moyai_set_free(set);
    return rc;
}
static int wait_late(void) {
    return waited(moyai_wait, MOYAI_MS);
}
static int wait_masked_late(void) {
    return waited(moyai_wait_masked, 0);
}
static int wait_all_late(void) {
    return waited(moyai_wait_all, -1);
}
static int wait_all_masked_late(void) {
    return waited(moyai_wait_all_masked, MOYAI_MS);
}
static int wait_forever(void) {
    return waited(moyai_wait, MOYAI_FOREVER);
}
static int wait_masked(void) {
    return waited(moyai_wait_masked, MOYAI_FOREVER);
}
static int wait_all_forever(void) {
    return waited(moyai_wait_all, MOYAI_FOREVER);
}
static int wait_freed(void) {
    moyai_set *set = kit_set(node);
    KIT_OK(moyai_go(node, free_set, set));
    return moyai_wait_masked(set, MOYAI_FOREVER);
}
static void wait_first(void *set) {
    (void)moyai_wait_masked(set, MOYAI_FOREVER);
}
static int wait_second(void) {
    moyai_set *set = kit_set(node);
    KIT_OK(moyai_go(node, wait_first, set));
    kit_settle(node);
    int rc = moyai_wait(set, MOYAI_FOREVER);
    moyai_set_free(set);
    kit_settle(node);
    return rc;
}

/* ---- in a method ----------------------------------------------------------------------------- */

static int args_count(void) {
    int a, b;
    return moyai_args(now, MOYAI_INTO(&a, &b));
}
static int args_type(void) {
    const char *text;
    return moyai_args(now, MOYAI_INTO(&text));
}
static int args_range(void) {
    int8_t a;
    return moyai_args(now, MOYAI_INTO(&a));
}
static int return_null(void) {
    return moyai_return(now, MOYAI_ARGS((moyai_ref *)NULL));
}
static int return_big(void) {
    return moyai_return(now, MOYAI_ARGS(moyai_bytes(big, sizeof big)));
}

/* ---- the table ------------------------------------------------------------------------------- */

enum how {
    IN_MAIN = 1,
    IN_METHOD = 2,
    BOTH = IN_MAIN | IN_METHOD,
    SIGNALLED = 4, /* in a method of an object that has a pending signal */
    CANCELLED = 8, /* in a method whose call has been cancelled */
};

static const struct row {
    int (*run)(void);
    int code;
    enum how how;
    const char *text; /* part of it */
} rows[] = {
    {serve_late, MOYAI_ETIMEDOUT, IN_MAIN, "1 ms"},
    {serve_here, MOYAI_ESTATE, IN_METHOD, "moyai_node_serve()"},
    {ping_dead, MOYAI_EDEAD, BOTH, "ping"},
    {ping_stopped, MOYAI_ETIMEDOUT, BOTH, "ping"},
    {go_null, MOYAI_EINVAL, BOTH, "function"},
    {post_null, MOYAI_EINVAL, BOTH, "function"},
    {sleep_now, MOYAI_SIGNALLED, SIGNALLED, "sleeps"},
    {sleep_now, MOYAI_ECANCELED, CANCELLED, "'run'"},
    {sleep_masked, MOYAI_ECANCELED, CANCELLED, "'run'"},
    {object_no_class, MOYAI_EINVAL, BOTH, "class"},
    {object_no_ret, MOYAI_EINVAL, BOTH, "ret"},
    {object_bad_class, MOYAI_EINVAL, BOTH, "same"},
    {end_ended, MOYAI_ENOOBJECT, BOTH, "ended"},
    {end_far, MOYAI_ENOOBJECT, BOTH, "not of this node"},
    {parse_nonsense, MOYAI_EINVAL, BOTH, "\"moyai:nonsense\""},
    {parse_null, MOYAI_EINVAL, BOTH, "moyai:OBJECT@NODE"},
    {parse_no_ret, MOYAI_EINVAL, BOTH, "ret"},
    {register_null, MOYAI_EINVAL, BOTH, "name"},
    {register_empty, MOYAI_EINVAL, BOTH, "name"},
    {register_ended, MOYAI_ENOOBJECT, BOTH, "living"},
    {register_taken, MOYAI_EEXIST, BOTH, "\"taken\""},
    {unregister_other, MOYAI_ENOENT, BOTH, "\"never registered\""},
    {unregister_null, MOYAI_ENOENT, BOTH, "name"},
    {lookup_nobody, MOYAI_ENOENT, BOTH, "\"nobody\""},
    {lookup_null, MOYAI_EINVAL, BOTH, "name"},
    {lookup_no_ret, MOYAI_EINVAL, BOTH, "ret"},
    {lookup_late, MOYAI_ETIMEDOUT, BOTH, "\"nobody\""},
    {lookup_forever, MOYAI_SIGNALLED, SIGNALLED, "waits for a name"},
    {lookup_forever, MOYAI_ECANCELED, CANCELLED, "'run'"},
    {call_unnamed, MOYAI_EINVAL, BOTH, "255"},
    {call_null_name, MOYAI_EINVAL, BOTH, "255"},
    {call_unknown, MOYAI_ENOMETHOD, BOTH, "'unknown'"},
    {call_ended, MOYAI_ENOOBJECT, BOTH, "ended"},
    {call_dead, MOYAI_EDEAD, BOTH, "pid"},
    {call_bad_value, MOYAI_EARGS, BOTH, "arguments of 'nothing': value 2"},
    {call_big, MOYAI_ETOOBIG, BOTH, "arguments of 'nothing': value 1"},
    {call_user, MOYAI_EUSER, BOTH, "on purpose"},
    {call_own, -1234, BOTH, "on purpose"},
    {call_count, MOYAI_EARGS, BOTH, "results of 'three' of object "},
    {call_type, MOYAI_ETYPE, BOTH, "results of 'three' of object "},
    {call_range, MOYAI_ERANGE, BOTH, "results of 'three' of object "},
    {call_full, MOYAI_EAGAIN, BOTH, "moyai_room()"},
    {call_signalled, MOYAI_SIGNALLED, SIGNALLED, "waits for a call"},
    {call_hang, MOYAI_ECANCELED, CANCELLED, "'run'"},
    {oneway_unnamed, MOYAI_EINVAL, BOTH, "255"},
    {oneway_unknown, MOYAI_ENOMETHOD, BOTH, "'unknown'"},
    {oneway_ended, MOYAI_ENOOBJECT, BOTH, "ended"},
    {oneway_dead, MOYAI_EDEAD, BOTH, "pid"},
    {oneway_bad_value, MOYAI_EARGS, BOTH, "arguments of 'nothing': value 1"},
    {oneway_big, MOYAI_ETOOBIG, BOTH, "arguments of 'nothing': value 1"},
    {oneway_full, MOYAI_EAGAIN, BOTH, "moyai_room()"},
    {room_late, MOYAI_ETIMEDOUT, BOTH, "1 ms"},
    {room_forever, MOYAI_SIGNALLED, SIGNALLED, "waits for room"},
    {room_forever, MOYAI_ECANCELED, CANCELLED, "'run'"},
    {signal_ended, MOYAI_ENOOBJECT, BOTH, "ended"},
    {signal_dead, MOYAI_EDEAD, BOTH, "pid"},
    {get_cancelled, MOYAI_ECANCELED, BOTH, "'hang'"},
    {get_late, MOYAI_ETIMEDOUT, BOTH, "'hang'"},
    {get_freed, MOYAI_EINVAL, BOTH, "freed"},
    {get_masked, MOYAI_ECANCELED, CANCELLED, "'run'"},
    {get_forever, MOYAI_SIGNALLED, SIGNALLED, "waits for a call"},
    {get_of_signal, MOYAI_ENOOBJECT, BOTH, "ended"},
    {then_twice, MOYAI_ESTATE, BOTH, "already"},
    {then_null, MOYAI_EINVAL, BOTH, "function"},
    {set_no_ret, MOYAI_EINVAL, BOTH, "ret"},
    {add_elsewhere, MOYAI_ESTATE, BOTH, "moyai_set_remove()"},
    {add_null, MOYAI_EINVAL, BOTH, "future"},
    {add_without_reference, MOYAI_EINVAL, BOTH, "reference"},
    {wait_late, MOYAI_ETIMEDOUT, BOTH, "none of 1 futures"},
    {wait_masked_late, MOYAI_ETIMEDOUT, BOTH, "within"},
    {wait_all_late, MOYAI_ETIMEDOUT, BOTH, "not all of 1 futures"},
    {wait_all_masked_late, MOYAI_ETIMEDOUT, BOTH, "1 ms"},
    {wait_forever, MOYAI_SIGNALLED, SIGNALLED, "waits for one"},
    {wait_forever, MOYAI_ECANCELED, CANCELLED, "'run'"},
    {wait_masked, MOYAI_ECANCELED, CANCELLED, "'run'"},
    {wait_all_forever, MOYAI_SIGNALLED, SIGNALLED, "waits for all"},
    {wait_freed, MOYAI_EINVAL, BOTH, "freed"},
    {wait_second, MOYAI_ESTATE, BOTH, "another fiber"},
    {args_count, MOYAI_EARGS, IN_METHOD, "arguments of 'run': 1 value"},
    {args_type, MOYAI_ETYPE, IN_METHOD, "arguments of 'run': value 1"},
    {args_range, MOYAI_ERANGE, IN_METHOD, "arguments of 'run': value 1"},
    {return_null, MOYAI_EARGS, IN_METHOD, "results of 'run': value 1"},
    {return_big, MOYAI_ETOOBIG, IN_METHOD, "results of 'run': value 1"},
};
enum { ROWS = sizeof rows / sizeof rows[0], SHIFT = 1000 }; /* so that no index fits eight bits */

static void check(moyai_node *n, const char *what, int rc, int code, const char *text) {
    struct moyai_error e;
    moyai_last_error(n, &e);
    if (rc != code || e.code != code || !strstr(e.text, text))
        FIBER_FAIL("%s: returned %s (%d), not %s; the last error is %s: \"%s\", which should hold \"%s\"", what,
                   moyai_err_name(rc), rc, moyai_err_name(code), moyai_err_name(e.code), e.text, text);
}

static void check_row(size_t i) {
    char what[40];
    snprintf(what, sizeof what, "row %zu (\"%.20s\")", i, rows[i].text);
    KIT_RC(moyai_unregister(near, "another error"), MOYAI_ENOENT);
    check(node, what, rows[i].run(), rows[i].code, rows[i].text);
}

static int m_run(moyai_request *rq, void *self) {
    (void)self;
    int i;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&i)));
    i -= SHIFT;
    if (rows[i].how == SIGNALLED) KIT_OK(moyai_signal(near));
    now = rq;
    check_row((size_t)i);
    return moyai_return(rq, MOYAI_NONE);
}

static void every_failure_is_the_last_error(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].how & IN_MAIN) check_row((size_t)i);
        if (rows[i].how & (IN_METHOD | SIGNALLED))
            KIT_OK(moyai_call(near, "run", MOYAI_ARGS(i + SHIFT), MOYAI_NONE, NULL));
        if (rows[i].how & CANCELLED) {
            struct moyai_node_stats before = {.size = sizeof before}, s = {.size = sizeof s};
            moyai_node_stats(node, &before);
            moyai_future *f = moyai_call_async(near, "run", MOYAI_ARGS(i + SHIFT));
            kit_settle(node); /* it blocks */
            moyai_future_cancel(f);
            moyai_future_free(f);
            KIT_UNTIL(node, (moyai_node_stats(node, &s), s.fibers <= before.fibers));
        }
    }
}

static void a_full_node_says_so(void **state) {
    (void)state;
    int rc, n = 0;
    while ((rc = moyai_go(narrow, nothing, NULL)) == 0) n++;
    check(narrow, "moyai_go", rc, MOYAI_EBUSY, "max_fibers");
    check(narrow, "moyai_post", moyai_post(narrow, nothing, NULL), MOYAI_EBUSY, "max_fibers");
    FIBER_ASSERT(n > 0);
    kit_settle(narrow);
}

/* ---- not of the node's thread, and two nodes on one ------------------------------------------- */

static void *on_thread(void *arg) {
    (void)arg;
    KIT_RC(moyai_node_serve(node, 0), MOYAI_ESTATE);
    check(node, "moyai_node_serve", MOYAI_ESTATE, MOYAI_ESTATE, "node thread");
    KIT_RC(moyai_sleep(node, 1), 0);
    check(node, "a thread's own", wait_late(), MOYAI_ETIMEDOUT, "none of 1 futures");
    return NULL;
}

static void each_thread_has_its_own(void **state) {
    (void)state;
    KIT_RC(moyai_unregister(near, "of the main thread"), MOYAI_ENOENT);
    pthread_t thread;
    FIBER_ASSERT_INT(pthread_create(&thread, NULL, on_thread, NULL), 0);
    pthread_join(thread, NULL);
    check(node, "the main thread's", MOYAI_ENOENT, MOYAI_ENOENT, "\"of the main thread\"");
}

static bool nested;

/* On a fiber of narrow, while node's main context waits in moyai_call below. */
static void of_narrow(void *arg) {
    (void)arg;
    check(node, "moyai_sleep", moyai_sleep(node, MOYAI_FOREVER), MOYAI_ESTATE, "stack");
    check(node, "moyai_wait", wait_forever(), MOYAI_ESTATE, "stack");
    check(node, "moyai_future_get", get_forever(), MOYAI_ESTATE, "stack");
    check(node, "moyai_call", call_hang(), MOYAI_ESTATE, "stack");
    check(node, "moyai_lookup_wait", lookup_forever(), MOYAI_ESTATE, "stack");
    check(node, "moyai_room", room_forever(), MOYAI_ESTATE, "stack");
    check(node, "moyai_ping", ping_stopped(), MOYAI_ESTATE, "stack");
    check(node, "moyai_node_serve", serve_here(), MOYAI_ESTATE, "moyai_node_serve()");
    nested = true;
}

/* On a fiber of node: drives narrow. */
static void of_node(void *arg) {
    (void)arg;
    KIT_OK(moyai_go(narrow, of_narrow, NULL));
    while (!nested) KIT_OK(moyai_sleep_masked(narrow, 1));
}

static void a_node_that_waits_further_down_says_so(void **state) {
    (void)state;
    KIT_OK(moyai_go(node, of_node, NULL));
    while (!nested) KIT_OK(moyai_sleep_masked(node, 1));
}

/* ---- the program ----------------------------------------------------------------------------- */

static int open_world(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.max_message = MAX_MESSAGE;
    opts.queue_calls = QUEUE;
    node = kit_node(&opts);
    opts.max_fibers = 2;
    narrow = kit_node(&opts);
    near = kit_object(node, &cls, NULL);
    ended = kit_object(node, &cls, NULL);
    KIT_OK(moyai_object_end(ended));
    far_pid = kit_child("thing", "thing", NULL);
    stopped_pid = kit_child("thing", "taken", NULL);
    pid_t dead_pid = kit_child("thing", "dead", NULL);
    far = kit_lookup(node, "thing");
    dead = kit_lookup(node, "dead");
    stopped = kit_lookup(node, "taken");
    KIT_OK(moyai_call(far, "nothing", MOYAI_NONE, MOYAI_NONE, NULL));
    KIT_OK(moyai_call(stopped, "nothing", MOYAI_NONE, MOYAI_NONE, NULL));
    KIT_OK(moyai_call(dead, "nothing", MOYAI_NONE, MOYAI_NONE, NULL));
    kit_kill(dead_pid);
    KIT_UNTIL(node, moyai_call(dead, "nothing", MOYAI_NONE, MOYAI_NONE, NULL) == MOYAI_EDEAD);
    kit_stop(stopped_pid);
    while (moyai_call_oneway(stopped, "nothing", MOYAI_ARGS(moyai_bytes(big, 65536))) == 0) {
    }
    return 0;
}

static int close_world(void **state) {
    (void)state;
    kit_cont(stopped_pid);
    moyai_ref_unref(near);
    moyai_ref_unref(far);
    moyai_ref_unref(ended);
    moyai_ref_unref(dead);
    moyai_ref_unref(stopped);
    moyai_node_free(narrow);
    moyai_node_free(node);
    kit_end(far_pid);
    kit_end(stopped_pid);
    return 0;
}

static int tests(void) {
    const struct CMUnitTest list[] = {
        cmocka_unit_test(every_failure_is_the_last_error),
        cmocka_unit_test(a_full_node_says_so),
        cmocka_unit_test(each_thread_has_its_own),
        cmocka_unit_test(a_node_that_waits_further_down_says_so),
    };
    return cmocka_run_group_tests(list, open_world, close_world);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"thing", role_thing}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
