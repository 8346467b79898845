/* SPDX-License-Identifier: Apache-2.0 */
/* The life of objects: when they end, and their state is destroyed; and of classes. */
#include "tests/public/kit.h"

#include <pthread.h>

static int m_number(moyai_request *rq, void *self) {
    return moyai_return(rq, MOYAI_ARGS(*(int *)self));
}

static int m_end(moyai_request *rq, void *self) {
    (void)self;
    return moyai_object_end(moyai_self(rq));
}

static int m_bytes(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    return 0;
}

static int m_wait(moyai_request *rq, void *self) {
    (void)self;
    return moyai_sleep(moyai_request_node(rq), MOYAI_FOREVER);
}

static const struct moyai_method methods[] = {
    {"number", m_number}, {"end", m_end}, {"bytes", m_bytes}, {"wait", m_wait}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Mortals", methods, NULL);

/* Sends a large argument, slowly. */
static int role_sender(int argc, char **argv) {
    (void)argc;
    static char bytes[8 << 20];
    moyai_node *n = kit_node(NULL);
    moyai_ref *ref = kit_lookup(n, argv[0]);
    (void)moyai_call(ref, "bytes", MOYAI_ARGS(moyai_bytes(bytes, sizeof bytes)), MOYAI_NONE, NULL);
    return 1;
}

/* ---- the world ------------------------------------------------------------------------------- */

static moyai_node *node;
static moyai_ref *a; /* of this process */
static int one = 1;

static int open_world(void **state) {
    (void)state;
    node = kit_node(NULL);
    a = kit_object(node, &cls, &one);
    return 0;
}

static int close_world(void **state) {
    (void)state;
    moyai_ref_unref(a);
    moyai_node_free(node);
    return 0;
}

/* ---- objects --------------------------------------------------------------------------------- */

struct state {
    int destroyed;
    pthread_t thread;
};

/* User code like any other: on the node thread, where it may block. */
static void destroy(void *self) {
    struct state *s = self;
    FIBER_ASSERT(pthread_equal(pthread_self(), s->thread));
    int x = 0;
    KIT_OK(moyai_call(a, "number", MOYAI_NONE, MOYAI_INTO(&x), NULL));
    FIBER_ASSERT_INT(x, 1);
    s->destroyed++;
}
static const struct moyai_class mortal = MOYAI_CLASS("Mortal", methods, destroy);

static void count_destroyed(void *self) {
    ((struct state *)self)->destroyed++;
}
static const struct moyai_class simple = MOYAI_CLASS("Simple", methods, count_destroyed);

static void *end_on_a_thread(void *ref) {
    KIT_OK(moyai_object_end(ref));
    return NULL;
}

static void an_object_ends_when_the_last_has_left(void **state) {
    (void)state;
    struct state s = {.thread = pthread_self()};
    struct moyai_node_stats before = {.size = sizeof before}, after = before;
    moyai_node_stats(node, &before);
    moyai_ref *ref = kit_object(node, &mortal, &s);
    moyai_node_stats(node, &after);
    FIBER_ASSERT_INT(after.objects, before.objects + 1);
    KIT_OK(moyai_object_end(ref)); /* nobody is in */
    KIT_UNTIL(node, s.destroyed == 1);
    moyai_ref_unref(ref);
    ref = kit_object(node, &mortal, &s);
    moyai_future *f = moyai_call_async(ref, "wait", MOYAI_NONE);
    kit_settle(node);
    KIT_OK(moyai_object_end(ref));
    kit_settle(node);
    FIBER_ASSERT_INT(s.destroyed, 1); /* one is */
    moyai_future_cancel(f);
    KIT_UNTIL(node, s.destroyed == 2);
    moyai_future_free(f);
    moyai_ref_unref(ref);
    ref = kit_object(node, &mortal, &s);
    KIT_OK(moyai_call(ref, "end", MOYAI_NONE, MOYAI_NONE, NULL)); /* by its own method */
    KIT_UNTIL(node, s.destroyed == 3);
    moyai_ref_unref(ref);
    ref = kit_object(node, &mortal, &s);
    pthread_t thread;
    FIBER_ASSERT_INT(pthread_create(&thread, NULL, end_on_a_thread, ref), 0);
    KIT_UNTIL(node, s.destroyed == 4);
    pthread_join(thread, NULL);
    moyai_ref_unref(ref);
    kit_settle(node);
    FIBER_ASSERT_INT(s.destroyed, 4);
    moyai_node_stats(node, &after);
    FIBER_ASSERT_INT(after.objects, before.objects);
}

/* The last request ends in the thread that reads: its caller is killed while its argument still arrives. */
static void an_object_ends_with_a_dead_caller(void **state) {
    (void)state;
    struct state s = {.thread = pthread_self()};
    moyai_ref *ref = kit_object(node, &mortal, &s);
    KIT_OK(moyai_register(ref, "slow"));
    pid_t pid = kit_child("sender", "MOYAI_LINK_RATE=4MB", "slow", NULL); /* it would take two seconds */
    struct moyai_node_stats st = {.size = sizeof st};
    KIT_UNTIL(node, (moyai_node_stats(node, &st), st.fibers) == 1);
    KIT_OK(moyai_object_end(ref));
    kit_settle(node);
    FIBER_ASSERT_INT(s.destroyed, 0);
    kit_kill(pid);
    kit_compute(20 * MOYAI_MS); /* the progress thread learns it first */
    FIBER_ASSERT_INT(s.destroyed, 0);
    KIT_UNTIL(node, s.destroyed == 1);
    moyai_ref_unref(ref);
}

static void objects_end_with_their_node(void **state) {
    (void)state;
    struct state s[3] = {{0}};
    moyai_node *n = kit_node(NULL);
    for (int i = 0; i < 3; i++) {
        moyai_ref *ref = kit_object(n, &simple, &s[i]);
        if (i == 1) KIT_OK(moyai_call_oneway(ref, "wait", MOYAI_NONE));
        if (i == 2) KIT_OK(moyai_object_end(ref)); /* and before it could be destroyed, the node ends */
        moyai_ref_unref(ref);
    }
    kit_settle(n);
    moyai_node_free(n);
    for (int i = 0; i < 3; i++) FIBER_ASSERT_INT(s[i].destroyed, 1);
}

static moyai_ref *doomed[3];

/* All objects of an ending node have ended, whichever goes first. */
static void end_the_others(void *self) {
    for (int i = 0; i < 3; i++) KIT_RC(moyai_object_end(doomed[i]), MOYAI_ENOOBJECT);
    ((struct state *)self)->destroyed++;
}
static const struct moyai_class murderous = MOYAI_CLASS("Murderous", methods, end_the_others);

static void a_destroy_may_end_others_of_an_ending_node(void **state) {
    (void)state;
    struct state s[3] = {{0}};
    moyai_node *n = kit_node(NULL);
    for (int i = 0; i < 3; i++) doomed[i] = kit_object(n, &murderous, &s[i]);
    moyai_node_free(n);
    for (int i = 0; i < 3; i++) {
        FIBER_ASSERT_INT(s[i].destroyed, 1);
        moyai_ref_unref(doomed[i]);
    }
}

/* ---- classes --------------------------------------------------------------------------------- */

static void a_class_is_checked(void **state) {
    (void)state;
    static const struct moyai_method empty[] = {{NULL, NULL}}, nameless[] = {{"", m_end}, {NULL, NULL}},
                                     none[] = {{"x", NULL}, {NULL, NULL}},
                                     twice[] = {{"x", m_end}, {"x", m_number}, {NULL, NULL}};
    static const struct moyai_class good = MOYAI_CLASS("Empty", empty, NULL);
    static const struct moyai_class bad[] = {
        MOYAI_CLASS("Nameless", nameless, NULL), MOYAI_CLASS("None", none, NULL),
        MOYAI_CLASS("Twice", twice, NULL),       MOYAI_CLASS(NULL, empty, NULL),
        MOYAI_CLASS("Null", NULL, NULL),         {1, "Size", empty, NULL, NULL, NULL, NULL}};
    moyai_ref *ref = kit_object(node, &good, NULL);
    KIT_RC(moyai_call(ref, "x", MOYAI_NONE, MOYAI_NONE, NULL), MOYAI_ENOMETHOD);
    moyai_ref_unref(ref);
    ref = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct moyai_error e = {0};
        KIT_RC(moyai_object_new(node, &bad[i], NULL, &ref, &e), MOYAI_EINVAL);
        FIBER_ASSERT(!ref && e.code == MOYAI_EINVAL && e.text[0]);
        KIT_RC(moyai_object_new(node, &bad[i], NULL, &ref, NULL), MOYAI_EINVAL);
    }
    KIT_RC(moyai_object_new(node, NULL, NULL, &ref, NULL), MOYAI_EINVAL);
    KIT_RC(moyai_object_new(node, &good, NULL, NULL, NULL), MOYAI_EINVAL);
}

/* A class need not outlive its objects: another may be where it was. */
static void a_class_ends_with_its_objects(void **state) {
    (void)state;
    struct moyai_method *m = calloc(2, sizeof *m);
    struct moyai_class *c = calloc(1, sizeof *c);
    FIBER_ASSERT(m && c);
    *c = (struct moyai_class)MOYAI_CLASS("First", m, NULL);
    for (int i = 0; i < 4; i++) {
        m[0] = (struct moyai_method){i % 2 ? "number" : "count", m_number};
        c->name = i % 2 ? "First" : "Second";
        int number = i, x = -1;
        moyai_ref *ref = kit_object(node, c, &number), *other = kit_object(node, c, &number);
        KIT_OK(moyai_object_end(other));
        KIT_OK(moyai_call(ref, i % 2 ? "number" : "count", MOYAI_NONE, MOYAI_INTO(&x), NULL));
        FIBER_ASSERT_INT(x, i);
        KIT_RC(moyai_call(ref, i % 2 ? "count" : "number", MOYAI_NONE, MOYAI_INTO(&x), NULL), MOYAI_ENOMETHOD);
        KIT_OK(moyai_object_end(ref));
        moyai_ref_unref(ref);
        moyai_ref_unref(other);
    }
    free(m);
    free(c);
}

static int tests(void) {
#define WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest all[] = {
        WORLD(an_object_ends_when_the_last_has_left),
        WORLD(an_object_ends_with_a_dead_caller),
        WORLD(objects_end_with_their_node),
        WORLD(a_destroy_may_end_others_of_an_ending_node),
        WORLD(a_class_is_checked),
        WORLD(a_class_ends_with_its_objects),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"sender", role_sender}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
