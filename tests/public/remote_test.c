/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a command is known to who started it, whatever its agent answers in which order. The agent is one of
 * this test's.
 */
#include "agent/remote.h"
#include "tests/public/kit.h"

static moyai_node *node;

/* ---- an agent that leaves -------------------------------------------------------------------- */

static const char *what; /* has become of the command; NULL: refused */

/* The node leaves while this call is in progress, and the one for its output has not come. */
static int m_run(moyai_request *rq, void *self) {
    (void)self;
    KIT_OK(moyai_leave(node, MOYAI_FOREVER));
    KIT_RC(moyai_sleep(node, 100 * MOYAI_MS), MOYAI_ELEAVING);
    (void)moyai_sleep_masked(node, 100 * MOYAI_MS); /* the other is refused meanwhile */
    if (!what) return moyai_raise(rq, MOYAI_ELEAVING, "this agent ends");
    return moyai_return(rq, MOYAI_ARGS(what, 7, "it has ended with status 7"));
}

static int m_read(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    FIBER_ASSERT(false);
    return 0;
}

static const struct moyai_method methods[] = {{"run", m_run}, {"read", m_read}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Agent", methods, NULL);

static int role_agent(int argc, char **argv) {
    what = argc > 1 ? argv[1] : NULL;
    node = kit_node(NULL);
    moyai_ref *ref = kit_object(node, &cls, NULL);
    KIT_OK(moyai_register(ref, argv[0]));
    KIT_OK(moyai_node_serve(node, MOYAI_FOREVER));
    moyai_ref_unref(ref);
    moyai_node_free(node);
    return 0;
}

/* ---- who starts the command ------------------------------------------------------------------ */

static struct remote remote;
static moyai_ref *agent;
static bool over;

static void never_started(pid_t pid, void *arg) {
    (void)pid, (void)arg;
    FIBER_ASSERT(false);
}
static bool no_output(int which, const void *p, size_t n, void *arg) {
    (void)which, (void)p, (void)n, (void)arg;
    FIBER_ASSERT(false);
    return false;
}

static void start(void *arg) {
    (void)arg;
    const struct remote_order order = {.id = "one", .argv = (const char *const[]){"true", NULL}};
    const struct remote_ops ops = {never_started, no_output};
    remote_run(&remote, node, agent, &order, &ops, NULL);
    over = true;
}

static void run_at(const char *name, const char *with) {
    node = kit_node(NULL);
    pid_t pid = kit_child("agent", name, with, NULL);
    agent = kit_lookup(node, name);
    over = false;
    KIT_OK(moyai_go(node, start, NULL));
    KIT_UNTIL(node, over);
    FIBER_ASSERT_INT(kit_reap(pid), 0);
    moyai_ref_unref(agent);
    moyai_node_free(node);
}

/* It is not lost, though its output is refused before its end is told. */
static void an_agent_that_leaves_tells_the_end(void **state) {
    (void)state;
    run_at("ends", "exited");
    FIBER_ASSERT_INT(remote.fate, REMOTE_ENDED);
    FIBER_ASSERT_INT(remote.status, 7 << 8);
}

/* Nor is one that has not begun: another agent may take it. */
static void an_agent_that_leaves_refuses(void **state) {
    (void)state;
    run_at("refuses", NULL);
    FIBER_ASSERT_INT(remote.fate, REMOTE_REFUSED);
    FIBER_ASSERT_INT(remote.why.code, MOYAI_ELEAVING);
}

static const struct kit_role roles[] = {{"agent", role_agent}, {NULL, NULL}};

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(an_agent_that_leaves_tells_the_end),
        cmocka_unit_test(an_agent_that_leaves_refuses),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    return kit_main(argc, argv, roles, tests);
}
