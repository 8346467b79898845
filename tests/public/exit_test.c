/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that end without freeing their node, in order or not: what they leave behind, and what others hear. */
#include "tests/public/kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static moyai_node *node;
static moyai_ref *volatile kept; /* to the end */

static int m_sleep(moyai_request *rq, void *self) {
    (void)self;
    return moyai_sleep(moyai_request_node(rq), MOYAI_FOREVER);
}

static int m_exit(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    exit(5);
}

static const struct moyai_method methods[] = {{"sleep", m_sleep}, {"exit", m_exit}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Ending", methods, NULL);

/* How: main returns, exit in a method, a child of fork exits first, the node is freed in a handler. */
static void free_it(void) {
    struct moyai_node_id other = {{1}};
    moyai_ref *ref = NULL;
    KIT_RC(moyai_ping(node, other, MOYAI_SEC), MOYAI_ECLOSED); /* it has said farewell */
    KIT_RC(moyai_register(kept, "again"), MOYAI_ECLOSED);
    KIT_RC(moyai_lookup(node, "nobody", &ref), MOYAI_ENOENT);
    moyai_node_free(node);
}

/* A thread waits for a name, and its time is over when the farewell has been said. */
static void slow_handler(void) {
    struct timespec ts = {.tv_nsec = 100 * 1000 * 1000};
    nanosleep(&ts, NULL);
}

static void *wait_for_nobody(void *arg) {
    moyai_ref *ref = NULL;
    return moyai_lookup_wait(arg, "nobody", 50 * MOYAI_MS, &ref) == 0 ? arg : NULL;
}

static int role_leaver(int argc, char **argv) {
    FIBER_ASSERT_INT(argc, 2);
    if (strcmp(argv[1], "handler") == 0) atexit(free_it);
    if (strcmp(argv[1], "thread") == 0) atexit(slow_handler);
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.signals = true;
    opts.own_thread = strcmp(argv[1], "own") == 0;
    node = kit_node(&opts);
    kept = kit_object(node, &cls, NULL);
    KIT_OK(moyai_register(kept, argv[0]));
    if (strcmp(argv[1], "fork") == 0) {
        pid_t pid = fork();
        if (pid == 0) exit(0);
        FIBER_ASSERT(waitpid(pid, NULL, 0) == pid);
    }
    pthread_t thread;
    if (strcmp(argv[1], "thread") == 0) {
        FIBER_ASSERT(pthread_create(&thread, NULL, wait_for_nobody, node) == 0);
        pthread_detach(thread); /* it is still there when the process ends */
        (void)moyai_sleep(node, 20 * MOYAI_MS);
        return 0;
    }
    if (opts.own_thread)
        (void)moyai_sleep(node, MOYAI_SEC);
    else
        KIT_OK(moyai_node_serve(node, MOYAI_FOREVER));
    return 0;
}

/* Entries of n/ but for our own, and of sockets. */
static int entries(const char *sub) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", kit_dir(), sub);
    DIR *d = opendir(path);
    FIBER_ASSERT(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        struct stat st;
        if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
        n += *sub ? S_ISREG(st.st_mode) : S_ISSOCK(st.st_mode);
    }
    closedir(d);
    return n;
}

static void nothing_is_left_by_who_ends(void **state) {
    (void)state;
    static const char *const how[] = {"main", "method", "fork", "handler", "own", "thread"};
    moyai_node *n = kit_node(NULL);
    FIBER_ASSERT_INT(entries("n"), 1);
    int sockets = entries("");
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        char events[160];
        snprintf(events, sizeof events, "MOYAI_EVENTS=%s/events%zu", kit_dir(), i);
        pid_t pid = kit_child("leaver", events, "leaver", how[i], NULL);
        moyai_ref *ref = kit_lookup(n, "leaver"), *gone = NULL;
        moyai_future *f = moyai_call_async(ref, strcmp(how[i], "method") == 0 ? "exit" : "sleep", MOYAI_NONE);
        kit_settle(n);
        if (i == 0 || i == 2 || i == 3) kill(pid, SIGTERM);
        /* It has left, or is about to: not a death. A call may come when its process has begun to end; the one that
         * ends it is itself under way. */
        const int rc = moyai_future_get(f, MOYAI_NONE);
        if (rc != MOYAI_ELEAVING || i == 1) KIT_RC(rc, MOYAI_ECLOSED);
        int status = kit_reap(pid);
        FIBER_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == (i == 1 ? 5 : 0));
        FIBER_ASSERT_INT(entries("n"), 1);
        FIBER_ASSERT_INT(entries(""), sockets);
        KIT_RC(moyai_lookup(n, "leaver", &gone), MOYAI_ENOENT);
        FILE *e = fopen(strchr(events, '=') + 1, "re");
        char line[1000];
        bool ended = false;
        FIBER_ASSERT(e);
        while (fgets(line, sizeof line, e)) ended |= strstr(line, "node-end") != NULL;
        fclose(e);
        FIBER_ASSERT(ended);
        moyai_future_free(f);
        moyai_ref_unref(ref);
    }
    moyai_node_free(n);
}

/* Those that were killed when nobody was there to see it. */
static void who_joins_removes_the_dead(void **state) {
    (void)state;
    enum { N = 5 };
    pid_t pid[N];
    moyai_node *n = kit_node(NULL);
    for (int i = 0; i < N; i++) {
        char name[8] = {'d', (char)('0' + i)};
        pid[i] = kit_child("leaver", name, "main", NULL);
        moyai_ref_unref(kit_lookup(n, name));
    }
    moyai_node_free(n);
    for (int i = 0; i < N; i++) kit_kill(pid[i]);
    FIBER_ASSERT_INT(entries("n"), N);
    n = kit_node(NULL);
    KIT_UNTIL(n, entries("n") == 1);
    FIBER_ASSERT_INT(entries("m"), 0);
    FIBER_ASSERT_INT(entries(""), 1);
    moyai_node_free(n);
    FIBER_ASSERT_INT(entries("n"), 0);
}

/* A run asks its processes to end when somebody else has asked already, and they are at it. */
static int role_asked(int argc, char **argv) {
    (void)argc;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.signals = true;
    moyai_node *n = kit_node(&opts);
    moyai_ref *ref = kit_object(n, &cls, NULL);
    KIT_OK(moyai_register(ref, argv[0]));
    KIT_OK(moyai_node_serve(n, MOYAI_FOREVER));
    kill(getppid(), SIGUSR1);
    (void)moyai_sleep_masked(n, 20 * MOYAI_MS); /* the second one comes in between */
    moyai_ref_unref(ref);
    moyai_node_free(n);
    return 7;
}

static volatile sig_atomic_t told;
static void on_told(int sig) {
    (void)sig;
    told = 1;
}

static void a_run_asks_again(void **state) {
    (void)state;
    signal(SIGUSR1, on_told);
    moyai_node *n = kit_node(NULL);
    char id[33], parent[60];
    moyai_node_id_format(moyai_node_self(n), id);
    for (int run = 0; run < 2; run++) {
        snprintf(parent, sizeof parent, run ? "MOYAI_PARENT=%s" : "A=%s", id);
        pid_t pid = kit_child("asked", parent, "asked", NULL);
        moyai_ref_unref(kit_lookup(n, "asked"));
        told = 0;
        kill(pid, SIGTERM);
        KIT_UNTIL(n, told);
        kill(pid, SIGTERM);
        int status = kit_reap(pid);
        if (run)
            FIBER_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        else
            FIBER_ASSERT((WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) || WIFEXITED(status));
    }
    moyai_node_free(n);
    signal(SIGUSR1, SIG_DFL);
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(nothing_is_left_by_who_ends),
        cmocka_unit_test(who_joins_removes_the_dead),
        cmocka_unit_test(a_run_asks_again),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"leaver", role_leaver}, {"asked", role_asked}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
