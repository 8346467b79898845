/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/child.h"

#include "exec/testing.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct kid {
    struct exec *x;
    struct exec_child *c;
    int ended, status;
    struct exec_waiter *waiter;
    bool free_in_callback;
};

static void on_exit_(struct exec_child *c, int status, void *arg) {
    struct kid *k = arg;
    FIBER_ASSERT(c == k->c);
    k->ended++;
    k->status = status;
    if (k->free_in_callback) exec_child_free(c);
    if (k->waiter) exec_wake(k->x, k->waiter, 0);
}

static void start(struct exec *x, struct kid *k, struct child_opts *o) {
    struct moyai_error e;
    memset(k, 0, sizeof *k);
    k->x = x;
    if (exec_child_spawn(x, &k->c, o, on_exit_, k, &e) < 0) FIBER_FAIL("spawn: %s", e.text);
    FIBER_ASSERT(exec_child_pid(k->c) > 0);
}

static void sh(struct exec *x, struct kid *k, const char *script, bool group) {
    const char *argv[] = {"sh", "-c", script, NULL};
    start(x, k, &(struct child_opts){.argv = argv, .fd = {-1, 1, 2}, .own_group = group});
}

static void await(struct kid *k) {
    struct exec_waiter w;
    if (k->ended) return;
    exec_waiter_init(k->x, &w);
    k->waiter = &w;
    exec_wait(k->x, &w, UINT64_MAX);
    k->waiter = NULL;
    FIBER_ASSERT_INT(k->ended, 1);
}

static void test_statuses(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct kid k;
    exec_lock(x);
    sh(x, &k, "exit 0", false);
    await(&k);
    assert_int_equal(k.status, 0);
    exec_child_free(k.c);
    sh(x, &k, "exit 37", false);
    await(&k);
    assert_true(WIFEXITED(k.status) && WEXITSTATUS(k.status) == 37);
    exec_child_free(k.c);
    sh(x, &k, "kill -TERM $$", false);
    await(&k);
    assert_true(WIFSIGNALED(k.status) && WTERMSIG(k.status) == SIGTERM);
    assert_int_equal(exec_child_kill(k.c, 0, false), 0);
    /* not reaped yet: the number still means this process, and signals go nowhere harmful */
    assert_int_equal(kill(exec_child_pid(k.c), 0), 0);
    pid_t pid = exec_child_pid(k.c);
    exec_child_free(k.c);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
    exec_unlock(x);
    exec_free(x);
}

/* What a subreaper asks: is it exec's, which will reap it, or somebody left to it? */
static void test_known(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct kid k;
    char text[128];
    pid_t other = fork();
    if (other == 0) _exit(3);
    exec_lock(x);
    sh(x, &k, "kill -9 $$", false);
    pid_t pid = exec_child_pid(k.c);
    assert_true(exec_child_known(x, pid));
    assert_false(exec_child_known(x, other));
    await(&k);
    assert_true(exec_child_known(x, pid)); /* a zombie still */
    exec_status_text(k.status, text);
    assert_string_equal(text, "was killed by signal 9 (Killed)");
    assert_int_equal(exec_status_exit(k.status), 137);
    exec_child_free(k.c);
    assert_false(exec_child_known(x, pid));
    int status;
    assert_int_equal(waitpid(other, &status, 0), other);
    exec_status_text(status, text);
    assert_string_equal(text, "exited with status 3");
    assert_int_equal(exec_status_exit(status), 3);
    assert_int_equal(exec_status_exit(EXEC_STATUS_UNKNOWN), -1);
    exec_unlock(x);
    exec_free(x);
}

static void count_child(pid_t pid, void *arg) {
    pid_t *wanted = arg;
    if (pid == *wanted) *wanted = 0;
}

/* Those of any thread, and whoever was left to this process. */
static void test_children(void **state) {
    (void)state;
    int ready[2];
    pid_t orphan = 0;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        pid_t kid = fork();
        if (kid > 0) _exit(write(ready[1], &kid, sizeof kid) == sizeof kid ? 0 : 1);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &orphan, sizeof orphan), sizeof orphan);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(exec_has_started(orphan));
    assert_false(exec_has_started(getpid()) || exec_has_started(getppid()) || exec_has_started(pid));
    pid_t wanted = orphan;
    assert_true(exec_children(-1, count_child, &wanted));
    assert_int_equal(wanted, 0);
    kill(orphan, SIGKILL);
    assert_int_equal(waitpid(orphan, NULL, 0), orphan);
    wanted = orphan;
    assert_true(exec_children(-1, count_child, &wanted));
    assert_int_equal(wanted, orphan);
    close(ready[0]);
    close(ready[1]);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

struct two {
    pid_t one, other;
    bool seen;
};

static void find_either(pid_t pid, void *arg) {
    struct two *t = arg;
    t->seen |= pid == t->one || pid == t->other;
}

/* A process whose parent ends while the children are looked at: one of the two is seen. */
static void test_left_meanwhile(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (int i = 0; i < 1000; i++) {
        int ready[2], end[2];
        struct two t = {0};
        assert_int_equal(pipe(ready), 0);
        assert_int_equal(pipe(end), 0);
        t.one = fork();
        if (t.one == 0) {
            close(end[1]);
            pid_t kid = fork();
            if (kid == 0)
                for (;;) pause();
            if (write(ready[1], &kid, sizeof kid) != sizeof kid) _exit(1);
            (void)!read(end[0], &kid, 1);
            _exit(0);
        }
        assert_int_equal(read(ready[0], &t.other, sizeof t.other), sizeof t.other);
        close(end[1]);
        for (int k = 0; k < 5; k++) {
            t.seen = false;
            exec_lock(x);
            assert_true(exec_children_left(x, -1, find_either, &t));
            exec_unlock(x);
            assert_true(t.seen);
        }
        kill(t.other, SIGKILL);
        (void)waitpid(t.one, NULL, 0); /* if it has not been collected */
        assert_int_equal(waitpid(t.other, NULL, 0), t.other);
        close(end[0]);
        close(ready[0]);
        close(ready[1]);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    exec_free(x);
}

static void test_kill(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct kid k;
    exec_lock(x);
    const char *argv[] = {"sleep", "1000", NULL};
    start(x, &k, &(struct child_opts){.argv = argv, .fd = {-1, -1, -1}});
    assert_int_equal(exec_child_kill(k.c, SIGKILL, true), MOYAI_EINVAL); /* no group of its own */
    assert_int_equal(exec_child_kill(k.c, SIGKILL, false), 0);
    k.free_in_callback = true;
    await(&k);
    assert_true(WIFSIGNALED(k.status) && WTERMSIG(k.status) == SIGKILL);
    exec_unlock(x);
    exec_free(x);
}

/* A group outlives its leader and is still reached. */
static void test_group(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct kid k;
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    exec_lock(x);
    const char *argv[] = {"sh", "-c", "sleep 1000 & exit 5", NULL};
    start(x, &k, &(struct child_opts){.argv = argv, .fd = {-1, p[1], 2}, .own_group = true});
    close(p[1]);
    await(&k);
    assert_int_equal(WEXITSTATUS(k.status), 5);
    assert_int_equal(exec_child_kill(k.c, SIGTERM, true), 0);
    exec_child_free(k.c);
    exec_unlock(x);
    char b;
    assert_int_equal(read(p[0], &b, 1), 0); /* the sleeper held the pipe: end of file when it is gone */
    close(p[0]);
    exec_free(x);
}

/* ---- what the child gets ---- */

static void slurp(int fd, char *buf, size_t size) {
    size_t n = 0;
    ssize_t r;
    while (n < size - 1 && (r = read(fd, buf + n, size - 1 - n)) > 0) n += (size_t)r;
    buf[n] = 0;
}

static void test_environment(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    int out[2], err[2], extra[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    assert_int_equal(pipe2(extra, O_CLOEXEC), 0);
    char dir[] = "/tmp/moyai-child-XXXXXX", real[PATH_MAX], script[256], text[256], want[PATH_MAX + 64];
    assert_non_null(mkdtemp(dir));
    assert_non_null(realpath(dir, real));
    snprintf(script, sizeof script,
             "pwd; echo \"$FLAG\"; cat; echo oops >&2; echo more >/dev/fd/%d; test -e /proc/self/fd/%d && echo leak",
             extra[1], out[0]);
    const char *argv[] = {"sh", "-c", script, NULL}, *envp[] = {"FLAG=up", "PATH=/usr/bin:/bin", NULL};
    struct kid k;
    struct sigaction ign = {.sa_handler = SIG_IGN}, old;
    sigset_t mask, old_mask;
    sigaction(SIGPIPE, &ign, &old);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &mask, &old_mask);
    exec_lock(x);
    start(x, &k,
          &(struct child_opts){.argv = argv,
                               .envp = envp,
                               .dir = dir,
                               .fd = {-1, out[1], err[1]},
                               .extra_fds = &extra[1],
                               .n_extra_fds = 1});
    close(out[1]);
    close(err[1]);
    close(extra[1]);
    await(&k);
    exec_child_free(k.c);
    slurp(out[0], text, sizeof text);
    snprintf(want, sizeof want, "%s\nup\n", real);
    assert_string_equal(text, want);
    slurp(err[0], text, sizeof text);
    assert_string_equal(text, "oops\n");
    slurp(extra[0], text, sizeof text);
    assert_string_equal(text, "more\n");

    /* signals: nothing blocked, SIGPIPE at its default */
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    const char *argv2[] = {"grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status", NULL};
    start(x, &k, &(struct child_opts){.argv = argv2, .fd = {-1, out[1], 2}});
    close(out[1]);
    await(&k);
    exec_child_free(k.c);
    exec_unlock(x);
    slurp(out[0], text, sizeof text);
    unsigned long long blocked = 1, ignored = 1;
    assert_int_equal(sscanf(text, "SigBlk: %llx SigIgn: %llx", &blocked, &ignored), 2);
    assert_true(blocked == 0);
    assert_true((ignored & (1ull << (SIGPIPE - 1))) == 0);
    close(out[0]);
    close(err[0]);
    close(extra[0]);
    sigaction(SIGPIPE, &old, NULL);
    pthread_sigmask(SIG_SETMASK, &old_mask, NULL);
    rmdir(dir);
    exec_free(x);
}

/* Standard descriptors given crosswise. */
static void test_swapped(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    int p[2];
    char text[64];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    int save = fcntl(0, F_DUPFD_CLOEXEC, 3);
    assert_int_equal(dup2(p[1], 0), 0); /* our 0 is the pipe; the child gets it as 1 and 2 */
    const char *argv[] = {"sh", "-c", "echo one; echo two >&2", NULL};
    struct kid k;
    exec_lock(x);
    start(x, &k, &(struct child_opts){.argv = argv, .fd = {1, 0, 0}});
    await(&k);
    exec_child_free(k.c);
    exec_unlock(x);
    if (save >= 0) {
        dup2(save, 0);
        close(save);
    } else {
        close(0);
    }
    close(p[1]);
    slurp(p[0], text, sizeof text);
    assert_string_equal(text, "one\ntwo\n");
    close(p[0]);
    exec_free(x);
}

static void test_errors(void **state) {
    (void)state;
    if (FIBER_ON_VALGRIND) skip(); /* its fork cannot report a failed exec */
    struct exec *x = test_exec(NULL);
    struct exec_child *c = NULL;
    struct moyai_error e;
    const char *none[] = {"moyai-no-such-program", NULL}, *denied[] = {"/etc/passwd", NULL}, *empty[] = {NULL},
               *ok[] = {"true", NULL};
    exec_lock(x);
    assert_int_equal(
        exec_child_spawn(x, &c, &(struct child_opts){.argv = none, .fd = {-1, -1, -1}}, on_exit_, NULL, &e),
        MOYAI_ENOENT);
    assert_non_null(strstr(e.text, "moyai-no-such-program"));
    assert_int_equal(
        exec_child_spawn(x, &c, &(struct child_opts){.argv = denied, .fd = {-1, -1, -1}}, on_exit_, NULL, &e),
        MOYAI_EPERM);
    assert_int_equal(
        exec_child_spawn(x, &c, &(struct child_opts){.argv = empty, .fd = {-1, -1, -1}}, on_exit_, NULL, &e),
        MOYAI_EINVAL);
    assert_int_equal(exec_child_spawn(x, &c, &(struct child_opts){.argv = ok, .dir = "/no/such", .fd = {-1, -1, -1}},
                                      on_exit_, NULL, &e),
                     MOYAI_ENOENT);
    assert_non_null(strstr(e.text, "/no/such"));
    int bad = 1;
    assert_int_equal(exec_child_spawn(x, &c, &(struct child_opts){.argv = ok, .extra_fds = &bad, .n_extra_fds = 1},
                                      on_exit_, NULL, &e),
                     MOYAI_EINVAL);
    assert_null(c);
    exec_unlock(x);
    exec_free(x);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    assert_int_equal(errno, ECHILD);
}

/* ---- many; freed early; reaped by others ---- */

static void test_many(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    int n = FIBER_SCALE(200, 200, 40);
    struct kid *k = calloc((size_t)n, sizeof *k);
    char script[32];
    exec_lock(x);
    moyai_ns t = boot_ns();
    for (int i = 0; i < n; i++) {
        snprintf(script, sizeof script, "exit %d", i % 200);
        sh(x, &k[i], script, i % 2);
    }
    for (int i = 0; i < n; i++) await(&k[i]);
    t = boot_ns() - t;
    for (int i = 0; i < n; i++) {
        assert_true(WIFEXITED(k[i].status) && WEXITSTATUS(k[i].status) == i % 200);
        exec_child_free(k[i].c);
    }
    exec_unlock(x);
    printf("# %d children: %.2f ms each\n", n, (double)t / 1e6 / n);
    free(k);
    exec_free(x);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* Freed while it runs: it goes on, no callback comes, and no zombie stays behind. */
static void test_freed_early(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct kid k[4];
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    const char *argv[] = {"cat", NULL};
    exec_lock(x);
    for (int i = 0; i < 4; i++) start(x, &k[i], &(struct child_opts){.argv = argv, .fd = {p[0], -1, 2}});
    for (int i = 0; i < 3; i++) exec_child_free(k[i].c);
    close(p[0]);
    close(p[1]); /* all end */
    await(&k[3]);
    exec_child_free(k[3].c);
    while (waitpid(-1, NULL, WNOHANG | WNOWAIT) >= 0) exec_yield(x);
    for (int i = 0; i < 3; i++) assert_int_equal(k[i].ended, 0);

    /* still running when the exec ends */
    struct kid last;
    int q[2];
    assert_int_equal(pipe2(q, O_CLOEXEC), 0);
    start(x, &last, &(struct child_opts){.argv = argv, .fd = {q[0], -1, 2}});
    pid_t pid = exec_child_pid(last.c);
    exec_child_free(last.c);
    exec_unlock(x);
    exec_free(x);
    close(q[0]);
    close(q[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_reaped_by_others(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct kid k;
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    const char *argv[] = {"cat", NULL};
    exec_lock(x);
    start(x, &k, &(struct child_opts){.argv = argv, .fd = {p[0], -1, 2}});
    close(p[0]);
    close(p[1]);
    assert_int_equal(waitpid(exec_child_pid(k.c), NULL, 0), exec_child_pid(k.c));
    await(&k);
    assert_int_equal(k.status, EXEC_STATUS_UNKNOWN);
    assert_false(WIFEXITED(k.status) || WIFSIGNALED(k.status));
    assert_int_equal(exec_child_kill(k.c, SIGTERM, false), MOYAI_EDEAD);
    exec_child_free(k.c);
    exec_unlock(x);
    exec_free(x);
}

/* ---- witnesses ---- */

struct sight {
    struct exec *x;
    int n;
    struct exec_witness *w;
    struct exec_waiter *waiter;
};
static void on_gone(void *arg) {
    struct sight *s = arg;
    s->n++;
    if (s->waiter) exec_wake(s->x, s->waiter, 0);
}

/* A grandchild, which is not ours to wait for. */
static void test_witness(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct kid k;
    int p[2];
    char text[32];
    struct moyai_error e;
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    exec_lock(x);
    const char *argv[] = {"sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!", NULL};
    start(x, &k, &(struct child_opts){.argv = argv, .fd = {-1, p[1], 2}});
    close(p[1]);
    slurp(p[0], text, sizeof text);
    close(p[0]);
    await(&k);
    exec_child_free(k.c);
    pid_t pid = (pid_t)atol(text);
    assert_true(pid > 0);
    struct sight s = {.x = x}, freed = {.x = x};
    s.w = exec_witness_new(x, pid, on_gone, &s, &e);
    if (!s.w && e.sys == ENOSYS) { /* no pidfd here (valgrind): refused, not wrong */
        kill(pid, SIGKILL);
        exec_unlock(x);
        exec_free(x);
        skip();
    }
    freed.w = exec_witness_new(x, pid, on_gone, &freed, &e);
    assert_non_null(s.w);
    assert_non_null(freed.w);
    exec_witness_free(freed.w);
    for (int i = 0; i < 3; i++) exec_yield(x);
    assert_int_equal(s.n, 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    struct exec_waiter w;
    exec_waiter_init(x, &w);
    s.waiter = &w;
    exec_wait(x, &w, UINT64_MAX);
    assert_int_equal(s.n, 1);
    for (int i = 0; i < 3; i++) exec_yield(x);
    assert_int_equal(s.n, 1);
    assert_int_equal(freed.n, 0);
    exec_witness_free(s.w);
    exec_witness_free(NULL);

    /* one that is gone */
    sh(x, &k, "exit 0", false);
    await(&k);
    pid = exec_child_pid(k.c);
    exec_child_free(k.c);
    assert_null(exec_witness_new(x, pid, on_gone, &s, &e));
    assert_int_equal(e.code, MOYAI_EDEAD);
    exec_unlock(x);
    exec_free(x);
}

/* A system without pidfd_open, as before Linux 5.3: the same tests must pass. */
static void forbid_pidfd(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {sizeof code / sizeof code[0], code};
    FIBER_ASSERT_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    FIBER_ASSERT_INT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0), 0);
    FIBER_ASSERT(syscall(SYS_pidfd_open, getpid(), 0) < 0 && errno == ENOSYS);
}

int main(int argc, char **argv) {
    hang_guard();
    if (argc > 1 && strcmp(argv[1], "no-pidfd") == 0) forbid_pidfd();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statuses),    cmocka_unit_test(test_known),
        cmocka_unit_test(test_children),    cmocka_unit_test(test_left_meanwhile),
        cmocka_unit_test(test_kill),        cmocka_unit_test(test_group),
        cmocka_unit_test(test_environment), cmocka_unit_test(test_swapped),
        cmocka_unit_test(test_errors),      cmocka_unit_test(test_many),
        cmocka_unit_test(test_freed_early), cmocka_unit_test(test_reaped_by_others),
        cmocka_unit_test(test_witness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
