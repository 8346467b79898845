/* SPDX-License-Identifier: Apache-2.0 */
/* A process that runs out of descriptors, before its node starts and while it runs, or has closed the standard ones. */
#include "tests/public/kit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DESCRIPTORS = 128 };

static int count_open(void) {
    int n = 0;
    for (int fd = 0; fd < DESCRIPTORS; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static int fill[DESCRIPTORS], n_filled;

static void fill_up(void) {
    int fd;
    while ((fd = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0) fill[n_filled++] = fd;
}

static void leave(int n) {
    for (; n > 0; n--) close(fill[--n_filled]);
}

static void few_descriptors(void) {
    struct rlimit r = {DESCRIPTORS, DESCRIPTORS}; /* the hard limit, too, for nodes raise the soft one to it */
    FIBER_ASSERT_INT(setrlimit(RLIMIT_NOFILE, &r), 0);
}

/* A node starts with as many descriptors left as you like, or says that there are too few; none is lost. */
static int role_starts_poor(int argc, char **argv) {
    (void)argc, (void)argv;
    few_descriptors();
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    int lost = 0;
    for (int variant = 0; variant < 3; variant++) {
        opts.signals = variant == 1;
        opts.own_thread = variant == 2;
        bool worked = false;
        for (int left = 0; left < 40; left++) {
            fill_up();
            leave(left);
            int before = count_open();
            FIBER_ASSERT_INT(before, DESCRIPTORS - left);
            moyai_node *n = NULL;
            struct moyai_error e = {0};
            int rc = moyai_node_new(&n, &opts, &e);
            if (rc == 0) {
                worked = true;
                moyai_node_free(n);
            } else {
                FIBER_ASSERT(!n && !worked); /* with more it works as well */
                FIBER_ASSERT_INT(rc, MOYAI_ELIMIT);
                KIT_TEXT(e.text, "ulimit -n");
            }
            lost += count_open() - before;
            FIBER_ASSERT(lost <= 2); /* libuv keeps a pipe for the life of the process */
        }
        FIBER_ASSERT(worked);
        leave(n_filled);
    }
    return 0;
}

static void a_node_starts_or_says_what_it_lacks(void **state) {
    (void)state;
    FIBER_ASSERT_INT(kit_reap(kit_child("starts-poor", NULL)), 0);
}

static int m_echo(moyai_request *rq, void *self) {
    (void)self;
    int64_t x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    return moyai_return(rq, MOYAI_ARGS(x));
}

static int m_fill(moyai_request *rq, void *self) {
    (void)self;
    fill_up();
    return moyai_return(rq, MOYAI_NONE);
}

static int m_leave(moyai_request *rq, void *self) {
    (void)self;
    leave(n_filled);
    return moyai_return(rq, MOYAI_NONE);
}

/* reach(ref): the text of the error of a call to it */
static int m_reach(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref)));
    int rc = moyai_call(ref, "echo", MOYAI_ARGS(1), MOYAI_NONE, NULL);
    struct moyai_error e = {0};
    if (rc < 0) moyai_last_error(moyai_request_node(rq), &e);
    moyai_ref_unref(ref);
    return moyai_return(rq, MOYAI_ARGS(rc, e.text));
}

static int m_cpu(moyai_request *rq, void *self) {
    (void)self;
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    int64_t us = t.tv_sec * 1000000 + t.tv_nsec / 1000;
    return moyai_return(rq, MOYAI_ARGS(us));
}

static const struct moyai_method poor_methods[] = {{"echo", m_echo},   {"fill", m_fill}, {"leave", m_leave},
                                                   {"reach", m_reach}, {"cpu", m_cpu},   {NULL, NULL}};
static const struct moyai_class poor_cls = MOYAI_CLASS("Poor", poor_methods, NULL);

static int role_poor(int argc, char **argv) {
    (void)argc;
    few_descriptors();
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.reattach = 300 * MOYAI_MS;
    return kit_serve(&opts, &poor_cls, NULL, argv[0]);
}

/* A node whose process runs out of descriptors goes on with the links it has, does not spin, says so once, and takes
 * the others when there are descriptors again. */
static void a_node_without_descriptors_goes_on(void **state) {
    (void)state;
    pid_t poor = kit_child_quiet("poor", "poor", NULL), other = kit_child("poor", "other", NULL);
    moyai_node *n = kit_node(NULL), *late = NULL;
    moyai_ref *ref = kit_lookup(n, "poor"), *unknown = kit_lookup(n, "other"), *again;
    KIT_OK(moyai_call(ref, "fill", MOYAI_NONE, MOYAI_NONE, NULL));

    int code = 0;
    const char *text;
    KIT_OK(moyai_call(ref, "reach", MOYAI_ARGS(unknown), MOYAI_INTO(&code, &text), NULL));
    FIBER_ASSERT_INT(code, MOYAI_EUNREACHABLE);
    KIT_TEXT(text, "ulimit -n");

    late = kit_node(NULL);
    again = kit_lookup(late, "poor");
    moyai_future *f = moyai_call_async(again, "echo", MOYAI_ARGS(7));
    int64_t cpu[2] = {0};
    KIT_OK(moyai_call(ref, "cpu", MOYAI_NONE, MOYAI_INTO(&cpu[0]), NULL));
    KIT_RC(moyai_sleep(late, 500 * MOYAI_MS), 0);
    KIT_OK(moyai_call(ref, "cpu", MOYAI_NONE, MOYAI_INTO(&cpu[1]), NULL));
    FIBER_ASSERT(cpu[1] - cpu[0] < 250000); /* half of one processor: what spins has all of it */
    FIBER_ASSERT(!moyai_future_ready(f));

    KIT_OK(moyai_call(ref, "leave", MOYAI_NONE, MOYAI_NONE, NULL));
    int64_t x = 0;
    KIT_OK(moyai_future_get(f, MOYAI_INTO(&x)));
    FIBER_ASSERT_INT(x, 7);
    KIT_OK(moyai_call(ref, "reach", MOYAI_ARGS(unknown), MOYAI_INTO(&code, &text), NULL));
    FIBER_ASSERT_INT(code, 0);

    char *said = kit_stderr(poor);
    const char *first = strstr(said, "MOYAI-LINK-ACCEPT");
    FIBER_ASSERT(first);
    FIBER_ASSERT(!strstr(first + 1, "MOYAI-LINK-ACCEPT"));
    free(said);
    moyai_future_free(f);
    moyai_ref_unref(again);
    moyai_ref_unref(unknown);
    moyai_ref_unref(ref);
    moyai_node_free(late);
    moyai_node_free(n);
    kit_end(poor);
    kit_end(other);
}

/* What a daemon has closed is not taken for the library's own. */
static void standard_descriptors_may_be_closed(void **state) {
    (void)state;
    if (FIBER_SANITIZED) return; /* a forked child may not do much there */
    fflush(NULL);
    pid_t child = fork();
    FIBER_ASSERT(child >= 0);
    if (child == 0) {
        for (int fd = 0; fd <= 2; fd++) close(fd);
        moyai_node *n;
        if (moyai_node_new(&n, NULL, NULL) < 0) _exit(1);
        char at[32] = "";
        ssize_t len = readlink("/proc/self/fd/2", at, sizeof at - 1);
        if (len < 0 || strcmp(at, "/dev/null") != 0) _exit(2);
        moyai_node_free(n);
        _exit(0);
    }
    int status;
    FIBER_ASSERT(waitpid(child, &status, 0) == child);
    FIBER_ASSERT_INT(status, 0);
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(standard_descriptors_may_be_closed),
        cmocka_unit_test(a_node_starts_or_says_what_it_lacks),
        cmocka_unit_test(a_node_without_descriptors_goes_on),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"starts-poor", role_starts_poor}, {"poor", role_poor}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
