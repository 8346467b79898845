/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/dirwatch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT (60 * MOYAI_SEC) /* until a wait counts as hung */

struct fix {
    struct exec *x;
    struct dirwatch w;
    char base[32];
    char dir[40];
    int fd;
    int calls;
    bool stop_in_call;
    atomic_bool stop;
};

static int set_up_directory(void **state) {
    struct fix *f = calloc(1, sizeof *f);
    if (!f) return -1;
    *state = f;
    strcpy(f->base, "/tmp/moyai-test-XXXXXX");
    if (!mkdtemp(f->base)) return -1;
    snprintf(f->dir, sizeof f->dir, "%s/dir", f->base);
    if (mkdir(f->dir, 0700) < 0) return -1;
    f->fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return f->fd < 0 ? -1 : 0;
}

static int set_up(void **state) {
    if (set_up_directory(state) < 0) return -1;
    struct fix *f = *state;
    if (exec_new(&f->x, NULL, NULL) < 0) return -1;
    exec_lock(f->x);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int tear_down(void **state) {
    struct fix *f = *state;
    dirwatch_stop(&f->w);
    if (f->x) {
        exec_unlock(f->x);
        exec_free(f->x);
    }
    close(f->fd);
    nftw(f->base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}

static void called(void *arg) {
    struct fix *f = arg;
    f->calls++;
    if (f->stop_in_call) dirwatch_stop(&f->w);
    atomic_store(&f->stop, true);
    exec_kick(f->x);
}

/* Serve until the next call. */
static void wait_call(struct fix *f) {
    atomic_store(&f->stop, false);
    int before = f->calls;
    (void)exec_serve(f->x, &f->stop, moyai_now() + (moyai_ns)LIMIT);
    if (f->calls == before) fail_msg("no call came");
}

/* Serve for a while; how many calls came? */
static int calls_in(struct fix *f, moyai_dur time) {
    int before = f->calls;
    moyai_ns end = moyai_now() + (moyai_ns)time;
    while (moyai_now() < end) {
        atomic_store(&f->stop, false);
        (void)exec_serve(f->x, &f->stop, end);
    }
    return f->calls - before;
}

static void make(struct fix *f, const char *name) {
    int fd = openat(f->fd, name, O_CREAT | O_WRONLY | O_EXCL, 0600);
    assert_true(fd >= 0);
    close(fd);
}

/* Make the directory's time stamp old: as if nothing had happened for an hour. */
static void age(struct fix *f) {
    struct timespec t[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    assert_int_equal(futimens(f->fd, t), 0);
}

static void sees_changes(void **state, bool look) {
    struct fix *f = *state;
    age(f);
    dirwatch_start(&f->w, f->x, f->dir, f->fd, look, called, f);
    if (look) assert_null(f->w.w);
    make(f, "a");
    wait_call(f);
    if (look) age(f); /* inotify would tell */
    make(f, "b");
    wait_call(f);
    assert_int_equal(renameat(f->fd, "b", f->fd, "c"), 0);
    wait_call(f);
    assert_int_equal(unlinkat(f->fd, "c", 0), 0);
    wait_call(f);
    dirwatch_stop(&f->w);
    dirwatch_stop(&f->w);
}

static void sees_changes_by_inotify(void **state) {
    sees_changes(state, false);
}

static void sees_changes_by_looking(void **state) {
    sees_changes(state, true);
}

/* In a user namespace of its own, where the limit of inotify instances is none. 77: not allowed here. */
static int without_inotify(struct fix *f) {
    if (unshare(CLONE_NEWUSER) < 0) return 77;
    int fd = open("/proc/sys/user/max_inotify_instances", O_WRONLY);
    if (fd < 0 || write(fd, "0", 1) != 1) return 77;
    close(fd);
    if (inotify_init1(IN_CLOEXEC) >= 0 || errno != EMFILE) return 1;
    struct exec *x;
    if (exec_new(&x, NULL, NULL) < 0) return 2;
    f->x = x;
    exec_lock(x);
    dirwatch_start(&f->w, x, f->dir, f->fd, false, called, f);
    if (!f->w.x || f->w.w) return 3;
    if (openat(f->fd, "a", O_CREAT | O_WRONLY, 0600) < 0) return 4;
    (void)exec_serve(x, &f->stop, moyai_now() + (moyai_ns)LIMIT);
    dirwatch_stop(&f->w);
    exec_unlock(x);
    exec_free(x);
    return f->calls > 0 ? 0 : 5;
}

static void falls_back_when_inotify_is_exhausted(void **state) {
    struct fix *f = *state;
    assert_int_equal(chmod(f->base, 0777) | chmod(f->dir, 0777), 0); /* the child has another uid */
    age(f);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(without_inotify(f));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: no user namespaces here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void nothing_happens_without_change(void **state) {
    struct fix *f = *state;
    age(f);
    dirwatch_start(&f->w, f->x, f->dir, f->fd, true, called, f);
    assert_int_equal(calls_in(f, 400 * MOYAI_MS), 0);
    assert_true(f->w.interval > 2 * DIRWATCH_LOOK_FIRST); /* it has slowed down */
    make(f, "a");
    wait_call(f);
    assert_int_equal(f->w.interval, DIRWATCH_LOOK_FIRST); /* and is quick again */
}

/* Two changes within one tick of the file system's clock leave one time stamp. */
static void a_young_time_stamp_counts_as_a_change(void **state) {
    struct fix *f = *state;
    struct timespec t[2];
    struct stat st;
    make(f, "a");
    assert_int_equal(fstat(f->fd, &st), 0);
    dirwatch_start(&f->w, f->x, f->dir, f->fd, true, called, f);
    make(f, "b");
    t[0] = t[1] = st.st_mtim; /* as if b had been made in the tick in which a was */
    assert_int_equal(futimens(f->fd, t), 0);
    wait_call(f);
}

static void tells_of_removal(void **state, bool look) {
    struct fix *f = *state;
    age(f);
    dirwatch_start(&f->w, f->x, f->dir, f->fd, look, called, f);
    assert_int_equal(rmdir(f->dir), 0);
    wait_call(f);
}

static void tells_of_removal_by_inotify(void **state) {
    tells_of_removal(state, false);
}

static void tells_of_removal_by_looking(void **state) {
    tells_of_removal(state, true);
}

static void may_be_stopped_in_the_call(void **state) {
    struct fix *f = *state;
    for (int look = 0; look < 2; look++) {
        f->stop_in_call = true;
        age(f);
        dirwatch_start(&f->w, f->x, f->dir, f->fd, look != 0, called, f);
        make(f, look ? "a" : "b");
        wait_call(f);
        assert_null(f->w.x);
        make(f, look ? "c" : "d");
        assert_int_equal(calls_in(f, 150 * MOYAI_MS), 0);
    }
}

int main(void) {
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        /* No threads where a child is to have some. */
        cmocka_unit_test_setup_teardown(falls_back_when_inotify_is_exhausted, set_up_directory, tear_down),
        T(sees_changes_by_inotify),
        T(sees_changes_by_looking),
        T(nothing_happens_without_change),
        T(a_young_time_stamp_counts_as_a_change),
        T(tells_of_removal_by_inotify),
        T(tells_of_removal_by_looking),
        T(may_be_stopped_in_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
