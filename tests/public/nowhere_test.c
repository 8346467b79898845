/* SPDX-License-Identifier: Apache-2.0 */
/* NULL where a node, a reference, a future, a set, a request or a value belongs: an error, and no crash. */
#include "tests/public/kit.h"

static void fn(void *arg) {
    (void)arg;
}
static void then(moyai_future *f, void *arg) {
    (void)f, (void)arg;
}

static bool all_zero(const void *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (((const uint8_t *)p)[i]) return false;
    return true;
}

static void without_a_node(void **state) {
    (void)state;
    moyai_ref *ref = NULL;
    moyai_set *set = NULL;
    struct moyai_error e = {0};
    struct moyai_node_id id = {{1}};
    static const struct moyai_class cls = MOYAI_CLASS("Thing", NULL, NULL);
    moyai_node_free(NULL);
    moyai_node_stop(NULL);
    moyai_yield(NULL);
    FIBER_ASSERT(moyai_node_stopping(NULL)); /* a loop that asks it ends */
    id = moyai_node_self(NULL);
    FIBER_ASSERT(all_zero(&id, sizeof id));
    KIT_RC(moyai_node_new(NULL, NULL, &e), MOYAI_EINVAL);
    KIT_RC(moyai_node_serve(NULL, MOYAI_FOREVER), MOYAI_EINVAL);
    KIT_RC(moyai_ping(NULL, id, MOYAI_FOREVER), MOYAI_EINVAL);
    KIT_RC(moyai_go(NULL, fn, NULL), MOYAI_EINVAL);
    KIT_RC(moyai_post(NULL, fn, NULL), MOYAI_EINVAL);
    KIT_RC(moyai_sleep(NULL, MOYAI_FOREVER), MOYAI_EINVAL);
    KIT_RC(moyai_sleep_masked(NULL, MOYAI_FOREVER), MOYAI_EINVAL);
    KIT_RC(moyai_object_new(NULL, &cls, NULL, &ref, &e), MOYAI_EINVAL);
    KIT_TEXT(e.text, "node");
    KIT_RC(moyai_ref_parse(NULL, "moyai:", &ref), MOYAI_EINVAL);
    KIT_RC(moyai_node_ref(NULL, id, &ref), MOYAI_EINVAL);
    KIT_RC(moyai_lookup(NULL, "name", &ref), MOYAI_EINVAL);
    KIT_RC(moyai_lookup_wait(NULL, "name", MOYAI_FOREVER, &ref), MOYAI_EINVAL);
    KIT_RC(moyai_set_new(NULL, &set), MOYAI_EINVAL);
    FIBER_ASSERT(!ref && !set);
    memset(&e, 0xee, sizeof e);
    moyai_last_error(NULL, &e);
    FIBER_ASSERT_INT(e.code, MOYAI_EINVAL);
    KIT_TEXT(e.text, "NULL");
    struct moyai_node_stats s;
    memset(&s, 0xee, sizeof s);
    s.size = sizeof s;
    moyai_node_stats(NULL, &s);
    FIBER_ASSERT_INT(s.size, sizeof s);
    FIBER_ASSERT(s.calls_made == 0 && s.objects == 0);
}

static void without_a_reference(void **state) {
    (void)state;
    moyai_future *f = NULL;
    char text[MOYAI_REF_TEXT];
    FIBER_ASSERT(!moyai_ref_ref(NULL));
    moyai_ref_unref(NULL);
    FIBER_ASSERT(moyai_ref_equal(NULL, NULL) && !moyai_ref_is_local(NULL));
    FIBER_ASSERT(moyai_ref_hash(NULL) == 0);
    struct moyai_object_id object = moyai_ref_object(NULL);
    struct moyai_node_id home = moyai_ref_home(NULL);
    FIBER_ASSERT(all_zero(&object, sizeof object) && all_zero(&home, sizeof home));
    moyai_ref_format(NULL, text);
    FIBER_ASSERT(strcmp(text, "moyai:none") == 0);
    KIT_RC(moyai_object_end(NULL), MOYAI_EINVAL);
    KIT_RC(moyai_register(NULL, "name"), MOYAI_EINVAL);
    KIT_RC(moyai_unregister(NULL, "name"), MOYAI_EINVAL);
    KIT_RC(moyai_call(NULL, "method", MOYAI_NONE, MOYAI_NONE, NULL), MOYAI_EINVAL);
    KIT_RC(moyai_call(NULL, "method", MOYAI_NONE, MOYAI_NONE, &f), MOYAI_EINVAL);
    FIBER_ASSERT(!f);
    KIT_RC(moyai_call_oneway(NULL, "method", MOYAI_NONE), MOYAI_EINVAL);
    KIT_RC(moyai_room(NULL, MOYAI_FOREVER), MOYAI_EINVAL);
    KIT_RC(moyai_signal(NULL), MOYAI_EINVAL);
}

/* NULL itself, and the future of a call without a reference. */
static void check_future(moyai_node *n, moyai_future *f) {
    struct moyai_error e;
    int x = 1;
    moyai_set *set = kit_set(n);
    for (int i = 0; i < 2; i++) {
        FIBER_ASSERT(moyai_future_ready(f));
        KIT_RC(moyai_future_get(f, MOYAI_INTO(&x)), MOYAI_EINVAL);
        KIT_RC(moyai_future_get_masked(f, MOYAI_NONE), MOYAI_EINVAL);
        KIT_RC(moyai_future_error(f, 0, &e), MOYAI_EINVAL);
        FIBER_ASSERT_INT(e.code, MOYAI_EINVAL);
        FIBER_ASSERT_INT(e.executed, MOYAI_NEVER_EXECUTED);
        FIBER_ASSERT_INT(e.where, MOYAI_AT_CALLER);
        KIT_TEXT(e.text, f ? "reference" : "future");
        KIT_RC(moyai_future_error(f, 0, NULL), MOYAI_EINVAL);
        KIT_RC(moyai_future_error(f, 1, &e), 0);
        moyai_future_deadline(f, MOYAI_SEC);
        moyai_future_cancel(f);
        moyai_future_set_user(f, &x);
        FIBER_ASSERT(!moyai_future_user(f));
        KIT_RC(moyai_future_then(f, then, NULL), MOYAI_EINVAL);
        KIT_RC(moyai_set_add(set, f), MOYAI_EINVAL);
        moyai_set_remove(set, f);
        moyai_future_free(f); /* and again: it is nobody's */
    }
    FIBER_ASSERT_INT(moyai_set_count(set), 0);
    FIBER_ASSERT_INT(x, 1);
    moyai_set_free(set);
}

static void without_a_call(void **state) {
    (void)state;
    moyai_node *n = kit_node(NULL);
    check_future(n, NULL);
    moyai_future *f = moyai_call_async(NULL, "method", MOYAI_NONE), *g = moyai_signal_async(NULL);
    FIBER_ASSERT(f && g);
    check_future(n, f);
    check_future(n, g);
    moyai_node_free(n);
}

static void without_a_set(void **state) {
    (void)state;
    moyai_set_free(NULL);
    KIT_RC(moyai_set_add(NULL, NULL), MOYAI_EINVAL);
    moyai_set_remove(NULL, NULL);
    FIBER_ASSERT_INT(moyai_set_count(NULL), 0);
    FIBER_ASSERT(!moyai_set_next(NULL));
    KIT_RC(moyai_wait(NULL, MOYAI_FOREVER), MOYAI_EINVAL);
    KIT_RC(moyai_wait_masked(NULL, MOYAI_FOREVER), MOYAI_EINVAL);
    KIT_RC(moyai_wait_all(NULL, MOYAI_FOREVER), MOYAI_EINVAL);
    KIT_RC(moyai_wait_all_masked(NULL, MOYAI_FOREVER), MOYAI_EINVAL);
}

static void without_a_request(void **state) {
    (void)state;
    int x;
    KIT_RC(moyai_args(NULL, MOYAI_INTO(&x)), MOYAI_EINVAL);
    KIT_RC(moyai_return(NULL, MOYAI_ARGS(1)), MOYAI_EINVAL);
    KIT_RC(moyai_raise(NULL, -1234, "%d", 1), -1234);
    KIT_RC(moyai_raise(NULL, 17, "%d", 1), MOYAI_EUSER);
    KIT_RC(moyai_raise_from(NULL, NULL, -1234, "%d", 1), -1234);
    FIBER_ASSERT(moyai_cancelled(NULL));
    FIBER_ASSERT(!moyai_request_node(NULL) && !moyai_self(NULL));
    struct moyai_node_id id = moyai_caller(NULL);
    FIBER_ASSERT(all_zero(&id, sizeof id));
    FIBER_ASSERT(moyai_remaining(NULL) == 0);
}

static void without_a_value(void **state) {
    (void)state;
    int x;
    FIBER_ASSERT(!moyai_value_ref(NULL));
    moyai_value_free(NULL);
    FIBER_ASSERT_INT(moyai_value_kind(NULL), MOYAI_K_NULL);
    FIBER_ASSERT_INT(moyai_value_count(NULL), 0);
    FIBER_ASSERT(!moyai_value_at(NULL, 0) && !moyai_value_key(NULL, 0) && !moyai_value_find(NULL, "key"));
    FIBER_ASSERT(moyai_value_equal(NULL, NULL));
    KIT_RC(moyai_value_get(NULL, MOYAI_INTO(&x)->v[0]), MOYAI_EINVAL);
    moyai_value *map = moyai_value_map(NULL, NULL, 0);
    FIBER_ASSERT(map && !moyai_value_find(map, NULL) && !moyai_value_equal(map, NULL));
    moyai_value_free(map);
}

/* Every function that returns a code and takes a handle, with NULL for it: a code, and since no node is known, the last
 * error of every node stays what it was, as moyai_error(3) says. X(expression) */
#define WITHOUT(X)                                                                                                     \
    X(moyai_node_serve(NULL, 0))                                                                                       \
    X(moyai_ping(NULL, id, 0))                                                                                         \
    X(moyai_go(NULL, fn, NULL))                                                                                        \
    X(moyai_post(NULL, fn, NULL))                                                                                      \
    X(moyai_sleep(NULL, 0))                                                                                            \
    X(moyai_sleep_masked(NULL, 0))                                                                                     \
    X(moyai_object_new(NULL, &cls, NULL, &ref, NULL))                                                                  \
    X(moyai_object_end(NULL))                                                                                          \
    X(moyai_ref_parse(NULL, "moyai:", &ref))                                                                           \
    X(moyai_node_ref(NULL, id, &ref))                                                                                  \
    X(moyai_register(NULL, "name"))                                                                                    \
    X(moyai_unregister(NULL, "name"))                                                                                  \
    X(moyai_lookup(NULL, "name", &ref))                                                                                \
    X(moyai_lookup_wait(NULL, "name", 0, &ref))                                                                        \
    X(moyai_call(NULL, "method", MOYAI_NONE, MOYAI_NONE, NULL))                                                        \
    X(moyai_call_oneway(NULL, "method", MOYAI_NONE))                                                                   \
    X(moyai_room(NULL, 0))                                                                                             \
    X(moyai_signal(NULL))                                                                                              \
    X(moyai_future_get(NULL, MOYAI_NONE))                                                                              \
    X(moyai_future_get_masked(NULL, MOYAI_NONE))                                                                       \
    X(moyai_future_error(NULL, 0, NULL))                                                                               \
    X(moyai_future_then(NULL, then, NULL))                                                                             \
    X(moyai_set_new(NULL, &set))                                                                                       \
    X(moyai_set_add(NULL, NULL))                                                                                       \
    X(moyai_wait(NULL, 0))                                                                                             \
    X(moyai_wait_masked(NULL, 0))                                                                                      \
    X(moyai_wait_all(NULL, 0))                                                                                         \
    X(moyai_wait_all_masked(NULL, 0))                                                                                  \
    X(moyai_args(NULL, MOYAI_NONE))                                                                                    \
    X(moyai_return(NULL, MOYAI_NONE))                                                                                  \
    X(moyai_value_get(NULL, moyai_skip()))

static void the_last_error_of_a_node_stays(void **state) {
    (void)state;
    moyai_node *n = kit_node(NULL);
    moyai_ref *ref = NULL;
    moyai_set *set = NULL;
    struct moyai_node_id id = {{1}};
    struct moyai_error before, after;
    static const struct moyai_class cls = MOYAI_CLASS("Thing", NULL, NULL);
    for (int i = 0; i < 2; i++) { /* without any error before, and with one */
        if (i == 1) KIT_RC(moyai_lookup(n, "nobody", &ref), MOYAI_ENOENT);
        moyai_last_error(n, &before);
        FIBER_ASSERT_INT(before.code, i ? MOYAI_ENOENT : 0);
#define X(call)                                                                                                        \
    KIT_RC(call, MOYAI_EINVAL);                                                                                        \
    moyai_last_error(n, &after);                                                                                       \
    if (after.code != before.code || strcmp(after.text, before.text) != 0) FIBER_FAIL("%s: \"%s\"", #call, after.text);
        WITHOUT(X)
#undef X
    }
    moyai_node_free(n);
}

static int tests(void) {
    const struct CMUnitTest list[] = {
        cmocka_unit_test(without_a_node),
        cmocka_unit_test(without_a_reference),
        cmocka_unit_test(without_a_call),
        cmocka_unit_test(without_a_set),
        cmocka_unit_test(without_a_request),
        cmocka_unit_test(without_a_value),
        cmocka_unit_test(the_last_error_of_a_node_stays),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
