/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Equals that watch each other, as moyai(7) shows it: a call that does not return as long as both live. It fails when
 * the other has died or left, and its method is cancelled when its caller has.
 */
#include "tests/public/kit.h"

#include <errno.h>

struct equal {
    moyai_node *node;
    int staying; /* calls of "stay" that others have here */
};

static int m_stay(moyai_request *rq, void *self) {
    struct equal *q = self;
    q->staying++;
    int rc = moyai_sleep(moyai_request_node(rq), MOYAI_FOREVER);
    q->staying--;
    return rc;
}

static int m_staying(moyai_request *rq, void *self) {
    return moyai_return(rq, MOYAI_ARGS(((struct equal *)self)->staying));
}

static const struct moyai_method methods[] = {{"stay", m_stay}, {"staying", m_staying}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Equal", methods, NULL);

/* An equal that watches the one whose name it is given, and answers for as long as it is there. */
static int role_equal(int argc, char **argv) {
    FIBER_ASSERT_INT(argc, 2);
    struct equal q = {0};
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.signals = true;
    q.node = kit_node(&opts);
    moyai_ref *me = kit_object(q.node, &cls, &q);
    KIT_OK(moyai_register(me, argv[0]));
    moyai_ref *other = kit_lookup(q.node, argv[1]);
    moyai_future *f = moyai_call_async(other, "stay", MOYAI_NONE);
    KIT_OK(moyai_node_serve(q.node, MOYAI_FOREVER));
    FIBER_ASSERT(!moyai_future_ready(f));
    moyai_future_free(f);
    moyai_ref_unref(other);
    moyai_ref_unref(me);
    moyai_node_free(q.node);
    return 0;
}

static void on_gone(moyai_future *f, void *arg) {
    *(int *)arg = moyai_future_error(f, 0, NULL);
}

static int staying(moyai_ref *ref) {
    int n = -1;
    KIT_OK(moyai_call(ref, "staying", MOYAI_NONE, MOYAI_INTO(&n), NULL));
    return n;
}

static void equals_hear_of_each_others_end(void **state) {
    (void)state;
    struct equal q = {.node = kit_node(NULL)};
    moyai_ref *me = kit_object(q.node, &cls, &q);
    KIT_OK(moyai_register(me, "me"));
    for (int dies = 0; dies < 2; dies++) {
        pid_t pid = kit_child("equal", dies ? "b" : "a", "me", NULL);
        moyai_ref *other = kit_lookup(q.node, dies ? "b" : "a");
        int heard = 0;
        moyai_set *set = kit_set(q.node);
        moyai_future *f = moyai_call_async(other, "stay", MOYAI_NONE), *g = moyai_call_async(other, "stay", MOYAI_NONE);
        KIT_OK(moyai_future_then(g, on_gone, &heard));
        KIT_OK(moyai_set_add(set, f));
        KIT_UNTIL(q.node, q.staying == 1); /* it watches this one, too */
        KIT_UNTIL(q.node, staying(other) == 2);
        KIT_RC(moyai_wait(set, 10 * MOYAI_MS), MOYAI_ETIMEDOUT);
        if (dies)
            kit_kill(pid);
        else
            kit_end(pid);
        KIT_RC(moyai_wait(set, MOYAI_FOREVER), 1);
        int code = dies ? MOYAI_EDEAD : MOYAI_ELEAVING;
        struct moyai_error e = dies ? KIT_FAILED(f, code, MOYAI_AT_PEER, MOYAI_MAY_HAVE_EXECUTED)
                                    : KIT_FAILED(f, code, MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
        if (dies) KIT_TEXT(e.text, "pid");
        KIT_UNTIL(q.node, heard == code);
        KIT_UNTIL(q.node, q.staying == 0); /* nobody waits for the answer: it is over here, too */
        moyai_future_free(f);
        moyai_future_free(g);
        moyai_set_free(set);
        moyai_ref_unref(other);
    }
    moyai_ref_unref(me);
    moyai_node_free(q.node);
}

static void a_watch_can_be_given_up(void **state) {
    (void)state;
    struct equal q = {.node = kit_node(NULL)};
    moyai_ref *me = kit_object(q.node, &cls, &q);
    KIT_OK(moyai_register(me, "me"));
    pid_t pid = kit_child("equal", "c", "me", NULL);
    moyai_ref *other = kit_lookup(q.node, "c");
    moyai_future *f = moyai_call_async(other, "stay", MOYAI_NONE);
    KIT_UNTIL(q.node, staying(other) == 1);
    moyai_future_cancel(f);
    KIT_UNTIL(q.node, staying(other) == 0);
    moyai_future_free(f);
    kit_end(pid);
    moyai_ref_unref(other);
    moyai_ref_unref(me);
    moyai_node_free(q.node);
}

static int tests(void) {
    const struct CMUnitTest list[] = {
        cmocka_unit_test(equals_hear_of_each_others_end),
        cmocka_unit_test(a_watch_can_be_given_up),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"equal", role_equal}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
