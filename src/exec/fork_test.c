/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to whole processes: fork without exec, and a stack that overflows. */
#include "exec/exec.h"

#include "exec/process.h"
#include "exec/testing.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

static void test_fork(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    assert_false(exec_forked(x));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(exec_forked(x) ? 0 : 1);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_false(exec_forked(x));
    exec_free(x);
}

/* ---- descriptors ---- */

/* How many sockets of the kind that only this test makes are open. */
static int own_sockets(void) {
    int n = 0;
    for (int fd = 3; fd < 256; fd++) {
        int type;
        socklen_t len = sizeof type;
        n += getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
    }
    return n;
}

static void on_event(struct exec_fd *f, int events, void *arg) {
    (void)events, (void)arg;
    exec_fd_events(f, 0);
}

static atomic_bool forked_enough;

static void *fork_often(void *arg) {
    (void)arg;
    for (int i = 0; i < FIBER_SCALE(200, 40, 10); i++) {
        pid_t pid = fork();
        FIBER_ASSERT(pid >= 0);
        if (pid == 0) _exit(own_sockets());
        int status;
        FIBER_ASSERT(waitpid(pid, &status, 0) == pid);
        FIBER_ASSERT_INT(status, 0);
    }
    forked_enough = true;
    return NULL;
}

/* A child has no descriptor that an exec watches, has yet to watch, keeps, or has just been told to close. */
static void test_descriptors(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    pthread_t t;
    forked_enough = false;
    assert_int_equal(pthread_create(&t, NULL, fork_often, NULL), 0);
    exec_lock(x);
    while (!forked_enough) {
        struct exec_kept more;
        int fd[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
        close(fd[1]);
        struct exec_fd *f = exec_fd_new(x, fd[0], UV_READABLE, on_event, NULL);
        assert_non_null(f);
        exec_yield(x);
        exec_fd_free(f, true, NULL);
        exec_yield(x);
        struct exec_kept kept;
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
        exec_keep(x, &kept, fd[0]);
        exec_keep(x, &more, fd[1]);
        exec_yield(x);
        exec_keep_close(&more);
        exec_keep_close(&kept);
        exec_keep_close(&kept);
        assert_int_equal(kept.fd, -1);
    }
    exec_unlock(x);
    pthread_join(t, NULL);
    exec_free(x);
}

/* ---- the locks of the process ---- */

static atomic_int holds;

static void *hold(void *arg) {
    enum process_lock which = (enum process_lock)(intptr_t)arg;
    process_take(which);
    holds = 1;
    for (int i = 0; i < 2000; i++) sched_yield(); /* somebody may fork meanwhile */
    process_release(which);
    holds = 2;
    return NULL;
}

/* A child finds them free, whatever the parent's other threads are doing. */
static void test_process_locks(void **state) {
    (void)state;
    for (enum process_lock which = 0; which < PROCESS_LOCKS; which++) {
        pthread_t t;
        holds = 0;
        assert_int_equal(pthread_create(&t, NULL, hold, (void *)(intptr_t)which), 0);
        pthread_detach(t); /* ThreadSanitizer minds one that a child cannot join */
        while (!holds) sched_yield();
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            alarm(20);
            process_take(which);
            process_release(which);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        while (holds != 2) sched_yield();
    }
}

/* ---- overflow ---- */

__attribute__((noinline)) static int endless(int n) {
    volatile char frame[1000];
    memset((char *)frame, n & 0x7f, sizeof frame);
    if (n < 0) return 0; /* never */
    int below = endless(n + 1);
    return below + frame[n % 1000];
}

static void overflow(struct exec *x, void *arg) {
    (void)arg;
    exec_user_enter(x);
    volatile int sum = endless(1);
    (void)sum;
    exec_user_leave(x);
}

static void null_write(struct exec *x, void *arg) {
    (void)x, (void)arg;
    volatile uintptr_t nowhere = 8;
    *(volatile int *)nowhere = 1;
}

static void send_segv(struct exec *x, void *arg) {
    (void)x, (void)arg;
    raise(SIGSEGV);
}

static void overflow_in_thread(struct exec *x, void *arg) {
    struct exec_cfg cfg = {.own_thread = true, .stack = 128 << 10};
    struct exec *own = test_exec(&cfg);
    (void)x;
    exec_lock(own);
    struct crew c = {.x = own};
    crew_go(&c, overflow, arg);
    crew_wait(&c);
    exec_unlock(own);
    exec_free(own);
}

/* fn on a fiber in a child process, which must die by SIGSEGV; what it said. */
static void die(void (*fn)(struct exec *, void *), bool two, char *said, size_t size) {
    int p[2];
    assert_int_equal(pipe(p), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGSEGV, SIG_DFL); /* cmocka's handler during a test */
        dup2(p[1], 2);
        close(p[0]);
        close(p[1]);
        struct exec *x = test_exec(NULL), *y = two ? test_exec(NULL) : NULL;
        exec_lock(x);
        struct crew c = {.x = x};
        crew_go(&c, fn, y);
        crew_wait(&c);
        _exit(99);
    }
    close(p[1]);
    size_t n = 0;
    ssize_t r;
    while (n < size - 1 && (r = read(p[0], said + n, size - 1 - n)) > 0) n += (size_t)r;
    said[n] = 0;
    close(p[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void test_overflow(void **state) {
    (void)state;
    if (FIBER_SANITIZED || FIBER_ON_VALGRIND) skip(); /* they have handlers of their own */
    char said[512];
    const char *line = "moyai: a fiber's stack of 256 KiB overflowed (stack option or MOYAI_STACK sets its size)\n";
    die(overflow, false, said, sizeof said);
    assert_string_equal(said, line);
    die(overflow, true, said, sizeof said);
    assert_string_equal(said, line);
    die(overflow_in_thread, false, said, sizeof said);
    assert_string_equal(said,
                        "moyai: a fiber's stack of 128 KiB overflowed (stack option or MOYAI_STACK sets its size)\n");
    die(null_write, false, said, sizeof said);
    assert_string_equal(said, "");
    die(send_segv, false, said, sizeof said);
    assert_string_equal(said, "");
}

/* Installed only where SIGSEGV is at its default, while there is an exec, and taken back. */
static void own_handler(int sig) {
    (void)sig;
}

static bool is_default(void) {
    struct sigaction sa;
    sigaction(SIGSEGV, NULL, &sa);
    return !(sa.sa_flags & SA_SIGINFO) && sa.sa_handler == SIG_DFL;
}

static void test_handler_comes_and_goes(void **state) {
    (void)state;
    if (FIBER_SANITIZED) skip();
    /* cmocka has a handler during a test; this is about a program without */
    struct sigaction dfl = {.sa_handler = SIG_DFL}, mine = {.sa_handler = own_handler}, cmocka, now;
    sigaction(SIGSEGV, &dfl, &cmocka);
    struct exec *x = test_exec(NULL);
    assert_false(is_default());
    struct exec *y = test_exec(&(struct exec_cfg){.own_thread = true});
    exec_free(x);
    exec_free(y);
    assert_true(is_default());
    sigaction(SIGSEGV, &mine, NULL);
    x = test_exec(NULL);
    sigaction(SIGSEGV, NULL, &now);
    assert_true(now.sa_handler == own_handler);
    exec_free(x);
    sigaction(SIGSEGV, NULL, &now);
    assert_true(now.sa_handler == own_handler);
    sigaction(SIGSEGV, &cmocka, NULL);
}

int main(void) {
    hang_guard();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_process_locks),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_handler_comes_and_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
