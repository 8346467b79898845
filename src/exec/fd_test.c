/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors and directories that are watched. */
#include "exec/exec.h"

#include "exec/testing.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct seen {
    struct exec *x;
    struct exec_fd *f;
    int fd;
    int calls, events, bytes, closed;
    bool eof, stop_at_event;
    struct exec_waiter *waiter;
};

static void on_seen(struct exec_fd *f, int events, void *arg) {
    struct seen *s = arg;
    FIBER_ASSERT(f == s->f);
    s->calls++;
    s->events |= events;
    if (events & (UV_READABLE | UV_DISCONNECT)) {
        char buf[8];
        ssize_t n = read(s->fd, buf, sizeof buf);
        if (n > 0)
            s->bytes += (int)n;
        else if (n == 0 || errno != EAGAIN)
            s->eof = true;
    }
    if (s->eof || s->stop_at_event) exec_fd_events(f, 0);
    if (s->waiter) exec_wake(s->x, s->waiter, 0);
}

static void on_closed(void *arg) {
    struct seen *s = arg;
    s->closed++;
    if (s->waiter) exec_wake(s->x, s->waiter, 0);
}

/* Lock held: until something is called. */
static void await(struct seen *s) {
    struct exec_waiter w;
    exec_waiter_init(s->x, &w);
    s->waiter = &w;
    exec_wait(s->x, &w, UINT64_MAX);
    s->waiter = NULL;
}

static void watch(struct seen *s, struct exec *x, int fd, int events) {
    memset(s, 0, sizeof *s);
    s->x = x;
    s->fd = fd;
    s->f = exec_fd_new(x, fd, events, on_seen, s);
    FIBER_ASSERT(s->f);
}

static void make_pair(int fd[2]) {
    FIBER_ASSERT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
}

static void test_read_write(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    int fd[2];
    make_pair(fd);
    struct seen s;
    exec_lock(x);
    watch(&s, x, fd[0], UV_READABLE);
    assert_int_equal(write(fd[1], "abc", 3), 3);
    await(&s);
    assert_int_equal(s.events, UV_READABLE);
    assert_int_equal(s.bytes, 3);
    s.events = 0;
    exec_fd_events(s.f, UV_READABLE | UV_WRITABLE);
    await(&s);
    assert_int_equal(s.events, UV_WRITABLE);
    exec_fd_events(s.f, 0);
    int calls = s.calls;
    assert_int_equal(write(fd[1], "x", 1), 1);
    for (int i = 0; i < 5; i++) exec_yield(x);
    assert_int_equal(s.calls, calls); /* nothing is watched */
    exec_fd_events(s.f, UV_READABLE);
    await(&s);
    assert_int_equal(s.bytes, 4);
    exec_fd_free(s.f, true, on_closed);
    await(&s);
    assert_int_equal(s.closed, 1);
    exec_unlock(x);
    close(fd[1]);
    exec_free(x);
}

/* The peer goes: everything it wrote is still read, then the end. libuv stops itself on an error; exec goes on. */
static void test_peer_gone(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    exec_lock(x);
    for (int reset = 0; reset < 2; reset++) {
        int fd[2];
        make_pair(fd);
        struct seen s;
        watch(&s, x, fd[0], UV_READABLE);
        assert_int_equal(write(fd[1], "0123456789012345678901234567890123456789", 40), 40);
        if (reset) assert_int_equal(write(fd[0], "unread", 6), 6); /* makes the close a reset: EPOLLERR */
        close(fd[1]);
        while (!s.eof) await(&s);
        if (!reset) assert_int_equal(s.bytes, 40);
        exec_fd_free(s.f, true, NULL);
    }
    /* a pipe nobody reads: an error on the writing side */
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0);
    close(p[0]);
    struct seen s;
    watch(&s, x, p[1], UV_WRITABLE);
    s.stop_at_event = true;
    await(&s);
    assert_true(s.events & UV_DISCONNECT);
    exec_fd_free(s.f, true, NULL);
    exec_unlock(x);
    exec_free(x);
}

static void test_cannot_watch(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct seen s;
    exec_lock(x);
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC); /* a regular file: epoll refuses it */
    assert_true(file >= 0);
    watch(&s, x, file, UV_READABLE);
    s.stop_at_event = true;
    await(&s);
    assert_int_equal(s.events, UV_DISCONNECT);
    exec_fd_free(s.f, true, NULL);
    exec_fd_free(NULL, true, NULL);
    exec_unlock(x);
    exec_free(x);
}

/* The number of a descriptor that was closed comes back at once: the new one hears nothing of the old one's events,
 * and the old one's owner nothing at all. */
static void test_number_reused(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    exec_lock(x);
    for (int i = 0; i < 50; i++) {
        int a[2], b[2];
        struct seen old, now;
        make_pair(a);
        watch(&old, x, a[0], UV_READABLE);
        if (i % 2) exec_yield(x);
        assert_int_equal(write(a[1], "x", 1), 1);
        exec_fd_free(old.f, true, on_closed);
        while (!old.closed) exec_yield(x);
        assert_int_equal(old.calls, 0);
        make_pair(b);
        int same = b[0] == a[0] ? b[0] : b[1], peer = same == b[0] ? b[1] : b[0];
        assert_int_equal(same, a[0]);
        watch(&now, x, same, UV_READABLE);
        for (int k = 0; k < 3; k++) exec_yield(x);
        assert_int_equal(now.calls, 0);
        assert_int_equal(write(peer, "yz", 2), 2);
        await(&now);
        assert_int_equal(now.bytes, 2);
        exec_fd_free(now.f, false, on_closed);
        while (!now.closed) exec_yield(x);
        close(same); /* not closed by exec: still ours */
        close(peer);
        close(a[1]);
    }
    exec_unlock(x);
    exec_free(x);
}

/* Freed before the driver ever saw it, and from within callbacks, its own and another's. */
struct killer {
    struct seen *victims[2];
    int n;
};
static void on_kill(struct exec_fd *f, int events, void *arg) {
    (void)f, (void)events;
    struct killer *k = arg;
    k->n++;
    for (int i = 0; i < 2; i++) {
        if (k->victims[i]->f) exec_fd_free(k->victims[i]->f, true, NULL);
        k->victims[i]->f = NULL;
    }
}

static void test_free_anywhere(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    exec_lock(x);
    int fd[2];
    make_pair(fd);
    struct seen s;
    watch(&s, x, fd[0], UV_READABLE);
    exec_fd_free(s.f, true, on_closed);
    while (!s.closed) exec_yield(x);
    close(fd[1]);

    /* two descriptors ready in one poll, the first one's callback frees both */
    int a[2], b[2];
    make_pair(a);
    make_pair(b);
    struct seen sa = {.x = x}, sb = {.x = x};
    struct killer k = {{&sa, &sb}, 0};
    sa.f = exec_fd_new(x, a[0], UV_READABLE, on_kill, &k);
    sb.f = exec_fd_new(x, b[0], UV_READABLE, on_kill, &k);
    exec_yield(x);
    assert_int_equal(write(a[1], "x", 1), 1);
    assert_int_equal(write(b[1], "x", 1), 1);
    while (k.n == 0) exec_yield(x);
    for (int i = 0; i < 3; i++) exec_yield(x);
    assert_int_equal(k.n, 1);
    close(a[1]);
    close(b[1]);
    exec_unlock(x);
    exec_free(x);
}

/* ---- looking before the poll ---- */

struct hot {
    int fd;
    atomic_int looks, reads;
};

static bool always(void *arg) {
    atomic_fetch_add(&((struct hot *)arg)->looks, 1);
    return true;
}

static void on_hot(struct exec_fd *f, int events, void *arg) {
    struct hot *h = arg;
    char b;
    (void)f, (void)events;
    if (read(h->fd, &b, 1) == 1) atomic_fetch_add(&h->reads, 1);
}

/* A descriptor that always has something when looked at keeps no other one waiting, also while the progress thread
 * sleeps and no tick tells that a poll is due. The test does not touch the lock, which would bring about a poll. */
static void test_spin_starves_nobody(void **state) {
    (void)state;
    struct exec *x = test_exec(&(struct exec_cfg){.own_thread = true});
    int fd[2];
    make_pair(fd);
    struct hot h = {.fd = fd[0]};
    exec_lock(x);
    struct exec_fd *f = exec_fd_new(x, fd[0], UV_READABLE, on_hot, &h);
    struct exec_waiter w;
    exec_waiter_init(x, &w);
    exec_wait(x, &w, exec_now(x) + 300 * (moyai_ns)MOYAI_MS); /* lets the progress thread fall asleep */
    exec_spin(x, always, &h);
    exec_unlock(x);
    cpu_set_t cpus; /* on one processor nobody spins */
    bool spins = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1;
    while (spins && atomic_load(&h.looks) < 100) exec_kick(x);
    assert_int_equal(write(fd[1], "x", 1), 1);
    while (atomic_load(&h.reads) == 0) {
    }
    exec_lock(x);
    exec_spin(x, NULL, NULL);
    exec_fd_free(f, true, NULL);
    exec_unlock(x);
    close(fd[1]);
    exec_free(x);
}

/* ---- directories ---- */

struct dir_seen {
    struct exec *x;
    int n;
    struct exec_watch *free_in_callback;
};
static void on_dir(void *arg) {
    struct dir_seen *d = arg;
    d->n++;
    exec_watch_free(d->free_in_callback);
    d->free_in_callback = NULL;
}

static void touch(const char *dir, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    FIBER_ASSERT(fd >= 0);
    close(fd);
}
static void erase(const char *dir, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FIBER_ASSERT_INT(unlink(path), 0);
}

static void await_dir(struct dir_seen *d, int n) {
    while (d->n < n) {
        struct exec_waiter w;
        exec_waiter_init(d->x, &w);
        exec_wait(d->x, &w, exec_now(d->x) + 1000000);
    }
}

static void test_watch(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    char one[] = "/tmp/moyai-watch-XXXXXX", two[] = "/tmp/moyai-watch-XXXXXX";
    assert_non_null(mkdtemp(one));
    assert_non_null(mkdtemp(two));
    struct dir_seen a = {.x = x}, b = {.x = x}, c = {.x = x};
    struct moyai_error e;
    exec_lock(x);
    struct exec_watch *wa = exec_watch_new(x, one, on_dir, &a, &e);
    struct exec_watch *wb = exec_watch_new(x, one, on_dir, &b, &e); /* the same directory */
    struct exec_watch *wc = exec_watch_new(x, two, on_dir, &c, &e);
    assert_non_null(wa);
    assert_non_null(wb);
    assert_non_null(wc);
    touch(one, "f");
    await_dir(&a, 1);
    await_dir(&b, 1);
    assert_int_equal(c.n, 0);
    exec_watch_free(wa); /* the other one on it goes on */
    int before = b.n;
    erase(one, "f");
    await_dir(&b, before + 1);
    b.free_in_callback = wb;
    touch(one, "g");
    await_dir(&b, before + 2);
    erase(one, "g");
    assert_int_equal(rmdir(two), 0); /* reported as a change */
    await_dir(&c, 1);
    c.free_in_callback = NULL;
    exec_watch_free(wc); /* the last one: the inotify descriptor goes */
    exec_watch_free(NULL);

    assert_null(exec_watch_new(x, two, on_dir, &c, &e));
    assert_int_equal(e.sys, ENOENT);
    assert_non_null(strstr(e.text, two));
    exec_unlock(x);
    assert_int_equal(rmdir(one), 0);
    exec_free(x);
}

/* The user's limit of inotify instances, or of open files, is told at once. */
static void test_watch_limit(void **state) {
    (void)state;
    struct exec *x = test_exec(NULL);
    struct dir_seen d = {.x = x};
    struct moyai_error e;
    int fds[1024], n = 0;
    exec_lock(x);
    while (n < 1024 && (fds[n] = dup(0)) >= 0) n++;
    if (n < 1024) { /* the limit of open files was in reach */
        assert_null(exec_watch_new(x, "/tmp", on_dir, &d, &e));
        assert_int_equal(e.code, MOYAI_ELIMIT);
        assert_int_equal(e.sys, EMFILE);
    }
    while (n > 0) close(fds[--n]);
    struct exec_watch *w = exec_watch_new(x, "/tmp", on_dir, &d, &e);
    assert_non_null(w);
    exec_watch_free(w);
    exec_unlock(x);
    exec_free(x);
}

int main(void) {
    hang_guard();
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){256, 256});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_write),    cmocka_unit_test(test_peer_gone),
        cmocka_unit_test(test_cannot_watch),  cmocka_unit_test(test_number_reused),
        cmocka_unit_test(test_free_anywhere), cmocka_unit_test(test_watch),
        cmocka_unit_test(test_watch_limit),   cmocka_unit_test(test_spin_starves_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
