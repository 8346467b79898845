/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork without exec: what belongs to the parent answers MOYAI_EFORK in the child, whatever the parent's threads were
 * doing, and the parent goes on as if nothing had been.
 */
#include "tests/public/kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

struct world {
    moyai_node *node;
    moyai_ref *near, *far;
    moyai_future *pending, *done;
    moyai_set *set;
    int64_t calls;
};
static struct world w;

static void nothing(void *arg) {
    (void)arg;
}
static void never_run(moyai_future *f, void *arg) {
    (void)f, (void)arg;
    FIBER_FAIL("run in the child");
}

#define FORKED(expr) KIT_RC(expr, MOYAI_EFORK)

static void futures_in_the_child(void) {
    int64_t x = 0;
    moyai_future *made[] = {moyai_call_async(w.near, "count", MOYAI_NONE),
                            moyai_call_async(w.far, "count", MOYAI_NONE),
                            moyai_signal_async(w.near),
                            moyai_signal_async(w.far),
                            w.pending,
                            w.done};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        moyai_future *f = made[i];
        struct moyai_error e;
        FORKED(moyai_future_get(f, MOYAI_INTO(&x)));
        FORKED(moyai_future_get_masked(f, MOYAI_NONE));
        FIBER_ASSERT(moyai_future_ready(f));
        FORKED(moyai_future_error(f, 0, &e));
        FIBER_ASSERT_INT(e.code, MOYAI_EFORK);
        FIBER_ASSERT_INT(moyai_future_error(f, 1, &e), 0);
        FORKED(moyai_future_then(f, never_run, NULL));
        FORKED(moyai_set_add(w.set, f));
        moyai_future_deadline(f, 0);
        moyai_future_cancel(f);
        moyai_set_remove(w.set, f);
        moyai_future_free(f);
    }
}

static void check_child(void) {
    moyai_node *n = w.node;
    int64_t x = 0;
    moyai_ref *ref = NULL;
    moyai_set *set = NULL;
    struct moyai_error e = {0};
    static const struct moyai_method methods[] = {{NULL, NULL}};
    static const struct moyai_class cls = MOYAI_CLASS("None", methods, NULL);
    FORKED(moyai_node_serve(n, MOYAI_FOREVER));
    moyai_node_stop(n);
    FORKED(moyai_go(n, nothing, NULL));
    FORKED(moyai_post(n, nothing, NULL));
    FORKED(moyai_sleep(n, MOYAI_FOREVER));
    FORKED(moyai_sleep_masked(n, MOYAI_FOREVER));
    FORKED(moyai_ping(n, moyai_ref_home(w.far), MOYAI_FOREVER));
    moyai_yield(n);
    moyai_last_error(n, &e);
    FIBER_ASSERT_INT(e.code, MOYAI_EFORK);
    struct moyai_node_stats s = {.size = sizeof s};
    moyai_node_stats(n, &s);
    FORKED(moyai_object_new(n, &cls, NULL, &ref, &e));
    FIBER_ASSERT_INT(e.code, MOYAI_EFORK);
    FORKED(moyai_object_end(w.near));
    FORKED(moyai_register(w.near, "name"));
    FORKED(moyai_unregister(w.near, "forked"));
    FORKED(moyai_lookup(n, "forked", &ref));
    FORKED(moyai_lookup_wait(n, "no such name", MOYAI_FOREVER, &ref));
    char text[MOYAI_REF_TEXT];
    moyai_ref_format(w.near, text);
    FORKED(moyai_ref_parse(n, text, &ref));
    FIBER_ASSERT(!ref);
    FIBER_ASSERT(moyai_ref_is_local(w.near) && !moyai_ref_is_local(w.far));
    moyai_ref_unref(moyai_ref_ref(w.near));
    for (int i = 0; i < 2; i++) {
        moyai_ref *r = i ? w.far : w.near;
        moyai_future *pending = NULL;
        FORKED(moyai_call(r, "count", MOYAI_NONE, MOYAI_INTO(&x), NULL));
        FORKED(moyai_call(r, "count", MOYAI_NONE, MOYAI_INTO(&x), &pending));
        FIBER_ASSERT(!pending);
        FORKED(moyai_call_oneway(r, "count", MOYAI_NONE));
        FORKED(moyai_room(r, MOYAI_FOREVER));
        FORKED(moyai_signal(r));
    }
    futures_in_the_child();
    FORKED(moyai_set_new(n, &set));
    FORKED(moyai_wait(w.set, MOYAI_FOREVER));
    FORKED(moyai_wait_masked(w.set, MOYAI_FOREVER));
    FORKED(moyai_wait_all(w.set, MOYAI_FOREVER));
    FORKED(moyai_wait_all_masked(w.set, MOYAI_FOREVER));
    FIBER_ASSERT(!moyai_set_next(w.set));
    FIBER_ASSERT_INT(moyai_set_count(w.set), 0);
    moyai_set_free(w.set);
    moyai_node_free(n);
}

static void check_child_request(moyai_request *rq) {
    FORKED(moyai_args(rq, MOYAI_NONE));
    FORKED(moyai_return(rq, MOYAI_ARGS(1)));
    FIBER_ASSERT_INT(moyai_raise(rq, -1234, "raised"), -1234);
    FIBER_ASSERT_INT(moyai_raise_from(rq, w.pending, -1235, "raised"), -1235);
    FIBER_ASSERT(moyai_cancelled(rq)); /* nobody waits for the child's result */
    FIBER_ASSERT_INT(moyai_remaining(rq), 0);
    FIBER_ASSERT(moyai_request_node(rq) == w.node);
    FIBER_ASSERT(moyai_ref_equal(moyai_self(rq), w.near));
    (void)moyai_caller(rq);
}

/* fork; in the child run all checks and then end, or go back where the parent goes as well. */
static pid_t fork_here(moyai_request *rq, bool come_back) {
    fflush(NULL);
    pid_t pid = fork();
    FIBER_ASSERT(pid >= 0);
    if (pid > 0) return pid;
    alarm(300); /* the parent's is not inherited */
    check_child();
    if (rq) check_child_request(rq);
    if (!come_back) _exit(0);
    return 0;
}

static void reap_child(pid_t pid, int want) {
    int status = kit_reap(pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != want)
        FIBER_FAIL("the child ended with wait status 0x%x", (unsigned)status);
}

/* ---- the object ------------------------------------------------------------------------------ */

static int m_count(moyai_request *rq, void *self) {
    return moyai_return(rq, MOYAI_ARGS(++*(int64_t *)self));
}

static int m_hang(moyai_request *rq, void *self) {
    (void)self;
    return moyai_sleep_masked(moyai_request_node(rq), MOYAI_FOREVER);
}

static int m_fork(moyai_request *rq, void *self) {
    (void)self;
    pid_t pid = fork_here(rq, false);
    reap_child(pid, 0);
    return moyai_return(rq, MOYAI_ARGS((int64_t)pid));
}

/* The child does what it must not: it returns into the library. It ends there, says so, and does no harm. */
static int m_fork_and_return(moyai_request *rq, void *self) {
    (void)self;
    pid_t pid = fork_here(rq, true);
    if (pid == 0) return 0;
    reap_child(pid, 1);
    return moyai_return(rq, MOYAI_ARGS((int64_t)pid));
}

/* Leave a child behind, until it is told to end. */
static int m_leave_child(moyai_request *rq, void *self) {
    (void)self;
    _Atomic uint32_t *shared = kit_shared("left", 2);
    pid_t pid = fork();
    FIBER_ASSERT(pid >= 0);
    if (pid > 0) return moyai_return(rq, MOYAI_ARGS((int64_t)pid));
    alarm(300);
    shared[0] = 1;
    while (!shared[1]) usleep(1000);
    shared[0] = 2;
    _exit(0);
}

static void go_fork(void *done) {
    pid_t pid = fork_here(NULL, true);
    if (pid == 0) return;
    reap_child(pid, 1);
    *(bool *)done = true;
}

static const struct moyai_method methods[] = {{"count", m_count},
                                              {"hang", m_hang},
                                              {"fork", m_fork},
                                              {"fork_and_return", m_fork_and_return},
                                              {"leave_child", m_leave_child},
                                              {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Forking", methods, NULL);

static int role_counter(int argc, char **argv) {
    int64_t calls = 0;
    return kit_serve(NULL, &cls, &calls, argc > 0 ? argv[0] : "counter");
}

/* ---- the tests ------------------------------------------------------------------------------- */

static pid_t far_pid;

static int open_world(void **state) {
    (void)state;
    w = (struct world){.node = kit_node(NULL)};
    w.near = kit_object(w.node, &cls, &w.calls);
    KIT_OK(moyai_register(w.near, "forked"));
    far_pid = kit_child("counter", NULL);
    w.far = kit_lookup(w.node, "counter");
    w.set = kit_set(w.node);
    w.done = moyai_call_async(w.far, "count", MOYAI_NONE);
    KIT_OK(moyai_future_get(w.done, MOYAI_NONE));
    w.pending = moyai_call_async(w.far, "hang", MOYAI_NONE);
    KIT_OK(moyai_set_add(w.set, w.pending));
    return 0;
}

/* Everything is as it was. */
static int close_world(void **state) {
    (void)state;
    int64_t x = 0, y = 0;
    KIT_OK(moyai_call(w.near, "count", MOYAI_NONE, MOYAI_INTO(&x), NULL));
    KIT_OK(moyai_call(w.far, "count", MOYAI_NONE, MOYAI_INTO(&y), NULL));
    FIBER_ASSERT_INT(x, w.calls);
    FIBER_ASSERT(!moyai_future_ready(w.pending));
    KIT_OK(moyai_future_get(w.done, MOYAI_INTO(&y)));
    FIBER_ASSERT_INT(y, 1);
    FIBER_ASSERT_INT(moyai_set_count(w.set), 1);
    moyai_ref *ref = NULL;
    KIT_OK(moyai_lookup(w.node, "forked", &ref));
    FIBER_ASSERT(moyai_ref_equal(ref, w.near));
    moyai_ref_unref(ref);
    moyai_future_free(w.pending);
    moyai_future_free(w.done);
    moyai_set_free(w.set);
    moyai_ref_unref(w.near);
    moyai_ref_unref(w.far);
    moyai_node_free(w.node);
    kit_end(far_pid);
    return 0;
}

static void in_the_main_program(void **state) {
    (void)state;
    reap_child(fork_here(NULL, false), 0);
}

static void in_a_method(void **state) {
    (void)state;
    int64_t pid = 0;
    for (int i = 0; i < 3; i++) {
        KIT_OK(moyai_call(w.near, "fork", MOYAI_NONE, MOYAI_INTO(&pid), NULL));
        FIBER_ASSERT(pid > 0);
    }
}

static void in_a_method_and_back(void **state) {
    (void)state;
    int64_t pid = 0;
    for (int i = 0; i < 3; i++) {
        KIT_OK(moyai_call(w.near, "fork_and_return", MOYAI_NONE, MOYAI_INTO(&pid), NULL));
        FIBER_ASSERT(pid > 0);
    }
    bool done = false;
    KIT_OK(moyai_go(w.node, go_fork, &done));
    KIT_UNTIL(w.node, done);
}

/* Whatever the other threads hold at that moment. */
static atomic_bool enough;

static void *hammer(void *arg) {
    (void)arg;
    while (!enough) {
        KIT_OK(moyai_call(w.far, "count", MOYAI_NONE, MOYAI_NONE, NULL));
        moyai_future_free(moyai_call_async(w.far, "count", MOYAI_NONE));
        KIT_OK(moyai_signal(w.far));
    }
    return NULL;
}

static void while_other_threads_are_busy(void **state) {
    (void)state;
    pthread_t thread[2];
    enough = false;
    for (int i = 0; i < 2; i++) FIBER_ASSERT_INT(pthread_create(&thread[i], NULL, hammer, NULL), 0);
    int64_t pid = 0;
    for (int i = 0; i < FIBER_SCALE(30, 5, 3); i++) {
        reap_child(fork_here(NULL, false), 0);
        KIT_OK(moyai_call(w.near, "fork", MOYAI_NONE, MOYAI_INTO(&pid), NULL));
    }
    enough = true;
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
}

/* ---- many nodes ------------------------------------------------------------------------------ */

/* TSan does not let a forked child start threads, and does not see libuv close a descriptor, whose number another
 * thread may get. ASan's allocator is left locked in a child if another thread was in it. */
enum { NODES = 8, CHILD_THREADS = !FIBER_SANITIZED };
#ifdef __SANITIZE_THREAD__
enum { RENEWERS = 1 };
#else
enum { RENEWERS = 2 };
#endif

struct busy {
    moyai_node *node;
    moyai_ref *ref;
    int64_t calls;
};

/* Never idle: its driver takes the lock again as soon as it has released it. */
static void work(void *arg) {
    struct busy *b = arg;
    while (!enough) KIT_OK(moyai_call(b->ref, "count", MOYAI_NONE, MOYAI_NONE, NULL));
}

static void busy_node(struct busy *b) {
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.own_thread = true;
    b->calls = 0;
    b->node = kit_node(&opts);
    b->ref = kit_object(b->node, &cls, &b->calls);
    KIT_OK(moyai_go(b->node, work, b));
}

static void busy_end(struct busy *b) {
    moyai_ref_unref(b->ref);
    moyai_node_free(b->node);
}

/* Nodes that come and go while others fork. */
static void *renew(void *arg) {
    (void)arg;
    while (!enough) {
        struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
        opts.own_thread = true;
        moyai_node_free(kit_node(&opts));
    }
    return NULL;
}

/* A child may make a node of its own: nothing that belongs to the process is left locked in it. */
static void own_node_in_the_child(void) {
    alarm(300);
    int64_t calls = 0, x = 0;
    moyai_node *n = kit_node(NULL);
    moyai_ref *ref = kit_object(n, &cls, &calls);
    KIT_OK(moyai_call(ref, "count", MOYAI_NONE, MOYAI_INTO(&x), NULL));
    FIBER_ASSERT_INT(x, 1);
    moyai_ref_unref(ref);
    moyai_node_free(n);
}

static void *fork_often(void *arg) {
    moyai_ns most = 0, sum = 0;
    int forks = FIBER_SCALE(40, 8, 4);
    for (int i = 0; i < forks; i++) {
        fflush(NULL);
        moyai_ns begin = moyai_now();
        pid_t pid = fork();
        FIBER_ASSERT(pid >= 0);
        if (pid == 0) {
            if (!arg && CHILD_THREADS) own_node_in_the_child();
            _exit(0);
        }
        moyai_ns took = moyai_now() - begin;
        sum += took;
        if (took > most) most = took;
        reap_child(pid, 0);
    }
    printf("# a fork took %.3f ms, at most %.3f ms\n", (double)sum / forks * 1e-6, (double)most * 1e-6);
    return NULL;
}

static void many_busy_nodes(void **state) {
    (void)state;
    struct busy b[NODES];
    enough = false;
    for (int i = 0; i < NODES; i++) busy_node(&b[i]);
    (void)fork_often(&b);
    int64_t before[NODES];
    for (int i = 0; i < NODES; i++) KIT_OK(moyai_call(b[i].ref, "count", MOYAI_NONE, MOYAI_INTO(&before[i]), NULL));
    for (int i = 0; i < NODES; i++) { /* they go on */
        int64_t x;
        do {
            KIT_OK(moyai_call(b[i].ref, "count", MOYAI_NONE, MOYAI_INTO(&x), NULL));
        } while (x < before[i] + 10);
    }
    enough = true;
    for (int i = 0; i < NODES; i++) busy_end(&b[i]);
}

static void many_threads_fork_while_nodes_come_and_go(void **state) {
    (void)state;
    struct busy b[2];
    pthread_t renewer[RENEWERS], forker[2];
    enough = false;
    for (int i = 0; i < 2; i++) busy_node(&b[i]);
    for (int i = 0; i < RENEWERS; i++) FIBER_ASSERT_INT(pthread_create(&renewer[i], NULL, renew, NULL), 0);
    for (int i = 0; i < 2; i++) FIBER_ASSERT_INT(pthread_create(&forker[i], NULL, fork_often, NULL), 0);
    for (int i = 0; i < 2; i++) pthread_join(forker[i], NULL);
    enough = true;
    for (int i = 0; i < RENEWERS; i++) pthread_join(renewer[i], NULL);
    for (int i = 0; i < 2; i++) busy_end(&b[i]);
}

/* A child that lives on has copies of the parent's sockets: they do not keep it from being known as dead. */
static void a_child_does_not_hide_its_parent_s_death(void **state) {
    (void)state;
    _Atomic uint32_t *shared = kit_shared("left", 2);
    moyai_node *n = kit_node(NULL);
    pid_t pid = kit_child("counter", "parent", NULL);
    moyai_ref *ref = kit_lookup(n, "parent"), *found = NULL;
    int64_t child = 0;
    KIT_OK(moyai_call(ref, "leave_child", MOYAI_NONE, MOYAI_INTO(&child), NULL));
    moyai_future *f = moyai_call_async(ref, "hang", MOYAI_NONE);
    KIT_UNTIL(n, shared[0] == 1);
    kit_kill(pid);
    KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_EDEAD);
    KIT_RC(moyai_lookup(n, "parent", &found), MOYAI_ENOENT);
    FIBER_ASSERT_INT(shared[0], 1); /* it lives */
    shared[1] = 1;
    KIT_UNTIL(n, shared[0] == 2);
    moyai_future_free(f);
    moyai_ref_unref(ref);
    moyai_node_free(n);
}

static int tests(void) {
#define WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest all[] = {
        WORLD(in_the_main_program),
        WORLD(in_a_method),
        WORLD(in_a_method_and_back),
        WORLD(while_other_threads_are_busy),
        cmocka_unit_test(many_busy_nodes),
        cmocka_unit_test(many_threads_fork_while_nodes_come_and_go),
        cmocka_unit_test(a_child_does_not_hide_its_parent_s_death),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"counter", role_counter}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
