/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A method that recurses without end: its process dies as it would have without moyai, but says why; the caller learns
 * of the death, and the next process takes over the name.
 */
#include "tests/public/kit.h"

#include <sys/resource.h>
#include <sys/wait.h>

static __attribute__((noinline)) int deeper(const volatile char *above, int n) {
    volatile char here[512];
    memset((void *)(uintptr_t)here, n, sizeof here);
    return n < 0 ? 0 : deeper(here, n + 1) + here[3] + above[3];
}

static int m_overflow(moyai_request *rq, void *self) {
    (void)self;
    volatile char top[8] = {0};
    return moyai_return(rq, MOYAI_ARGS(deeper(top, 0)));
}

/* One frame that is larger than the stack by far. */
static int m_large(moyai_request *rq, void *self) {
    (void)self;
    volatile double a[400][400];
    for (int i = 0; i < 400; i++)
        for (int j = 0; j < 400; j++) a[i][j] = i + j;
    return moyai_return(rq, MOYAI_ARGS(a[17][4]));
}

static int m_fault(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    volatile int *volatile nowhere = NULL;
    return *nowhere;
}

/* Half of the usual stack is there to be used. */
static int m_deep(moyai_request *rq, void *self) {
    (void)self;
    volatile char big[128 * 1024];
    memset((void *)(uintptr_t)big, 1, sizeof big);
    return moyai_return(rq, MOYAI_ARGS(big[sizeof big - 1]));
}

static const struct moyai_method methods[] = {
    {"overflow", m_overflow}, {"large", m_large}, {"fault", m_fault}, {"deep", m_deep}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Deep", methods, NULL);

static int role_deep(int argc, char **argv) {
    (void)argc;
    const struct rlimit none = {0, 0}; /* no core file */
    setrlimit(RLIMIT_CORE, &none);
    if (strcmp(argv[0], "main") == 0) return kit_serve(NULL, &cls, NULL, "deep");
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.own_thread = true;
    moyai_node *n = kit_node(&opts);
    moyai_ref *ref = kit_object(n, &cls, NULL);
    KIT_OK(moyai_register(ref, "deep"));
    return moyai_sleep(n, MOYAI_FOREVER) == 0; /* on this thread, which is none of the node's */
}

/* Call a method that kills; its process must say the line, or nothing. */
static void die(const char *env, const char *thread, const char *method, const char *line) {
    moyai_node *n = kit_node(NULL);
    pid_t pid = kit_child_quiet("deep", env, thread, NULL);
    moyai_ref *ref = kit_lookup(n, "deep");
    moyai_future *f = moyai_call_async(ref, method, MOYAI_NONE);
    KIT_FAILED(f, MOYAI_EDEAD, MOYAI_AT_PEER, MOYAI_MAY_HAVE_EXECUTED);
    moyai_future_free(f);
    moyai_ref_unref(ref);
    moyai_node_free(n);
    int status = kit_reap(pid);
    char *text = kit_stderr(pid);
    if (!FIBER_SANITIZED) { /* the sanitizers have handlers and words of their own */
        FIBER_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
        if (line)
            KIT_TEXT(text, line);
        else
            FIBER_ASSERT(!*text);
    }
    FIBER_ASSERT(status != 0);
    free(text);
}

static void a_fiber_s_stack_overflows(void **state) {
    (void)state;
    die("A=1", "main", "overflow", "moyai: a fiber's stack of 256 KiB overflowed");
    die("MOYAI_STACK=64KiB", "main", "overflow", "moyai: a fiber's stack of 64 KiB overflowed");
    die("A=1", "own", "overflow", "moyai: a fiber's stack of 256 KiB overflowed");
    die("A=1", "main", "large", "moyai: a fiber's stack of 256 KiB overflowed");
}

static void another_fault_is_no_overflow(void **state) {
    (void)state;
    die("A=1", "main", "fault", NULL);
    die("A=1", "own", "fault", NULL);
}

static void the_stack_is_there(void **state) {
    (void)state;
    moyai_node *n = kit_node(NULL);
    pid_t pid = kit_child("deep", "main", NULL);
    moyai_ref *ref = kit_lookup(n, "deep");
    int x = 0;
    for (int i = 0; i < 10; i++) KIT_OK(moyai_call(ref, "deep", MOYAI_NONE, MOYAI_INTO(&x), NULL));
    FIBER_ASSERT_INT(x, 1);
    moyai_ref_unref(ref);
    moyai_node_free(n);
    kit_end(pid);
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(a_fiber_s_stack_overflows),
        cmocka_unit_test(another_fault_is_no_overflow),
        cmocka_unit_test(the_stack_is_there),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"deep", role_deep}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
