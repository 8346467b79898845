/* SPDX-License-Identifier: Apache-2.0 */
#include "link/rundir.h"

#include "base/id.h"
#include "base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct fix {
    char dir[32];   /* of the test's own */
    char path[200]; /* see in() */
};

static int set_up(void **state) {
    struct fix *f = calloc(1, sizeof *f);
    if (!f) return -1;
    strcpy(f->dir, "/tmp/moyai-test-XXXXXX");
    *state = f;
    return mkdtemp(f->dir) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int tear_down(void **state) {
    struct fix *f = *state;
    int rc = nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(f);
    return rc;
}

static const char *in(struct fix *f, const char *name) {
    snprintf(f->path, sizeof f->path, "%s/%s", f->dir, name);
    return f->path;
}

static struct moyai_node_id new_id(void) {
    struct moyai_node_id id;
    assert_int_equal(rng_system(id.b, sizeof id.b), 0);
    return id;
}

static struct rundir *open_ok(const char *path) {
    struct rundir *d = NULL;
    struct moyai_error e = {0};
    if (rundir_open(&d, path, &e) < 0) fail_msg("rundir_open: %s", e.text);
    return d;
}

/* Refused with this code, a text with this word, and the path in it. */
static void refused(const char *path, int code, const char *word) {
    struct rundir *d = (struct rundir *)1;
    struct moyai_error e = {0};
    assert_int_equal(rundir_open(&d, path, &e), code);
    assert_ptr_equal(d, (struct rundir *)1);
    assert_int_equal(e.code, code);
    if (!strstr(e.text, word)) fail_msg("'%s' is not in '%s'", word, e.text);
    char begin[40];
    snprintf(begin, sizeof begin, "%s", path);
    if (strlen(begin) > 1 && begin[strlen(begin) - 1] == '/') begin[strlen(begin) - 1] = 0;
    assert_non_null(strstr(e.text, begin));
    assert_int_equal(rundir_open(&d, path, NULL), code); /* an error object is optional */
}

static int listen_ok(const struct rundir *d, const struct moyai_node_id *id) {
    int fd = -1;
    struct moyai_error e = {0};
    if (rundir_listen(d, id, &fd, &e) < 0) fail_msg("rundir_listen: %s", e.text);
    return fd;
}

/* A child that ends with this process, whatever happens. */
static pid_t start(void) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(120);
    }
    return pid;
}

static void wait_child(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("child: status %#x", (unsigned)status);
}

/* ---- the directory --------------------------------------------------------------------------- */

static void makes_it_private(void **state) {
    struct fix *f = *state;
    mode_t old = umask(0);
    struct rundir *d = open_ok(in(f, "run"));
    umask(old);
    struct stat st;
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_string_equal(rundir_path(d), f->path);
    struct rundir *again = open_ok(in(f, "run//"));
    assert_string_equal(rundir_path(again), rundir_path(d));
    assert_memory_equal(rundir_host(again), rundir_host(d), 16);
    rundir_close(again);
    rundir_close(d);
    rundir_close(NULL);
}

static void does_not_make_parents(void **state) {
    struct fix *f = *state;
    refused(in(f, "a/b"), MOYAI_ESYS, "parent");
    assert_int_equal(access(in(f, "a"), F_OK), -1);
}

static void refuses_bad_paths(void **state) {
    struct fix *f = *state;
    refused("moyai-relative", MOYAI_EINVAL, "absolute");
    assert_int_equal(access("moyai-relative", F_OK), -1);
    refused(in(f, "."), MOYAI_EINVAL, "name");
    refused(in(f, ".."), MOYAI_EINVAL, "name");
    refused("/", MOYAI_EINVAL, "name");
}

static void refuses_a_link(void **state) {
    struct fix *f = *state;
    char target[64];
    snprintf(target, sizeof target, "%s/target", f->dir);
    assert_int_equal(mkdir(target, 0700), 0);
    assert_int_equal(symlink(target, in(f, "link")), 0);
    refused(in(f, "link"), MOYAI_EPERM, "symbolic link");
    refused(in(f, "link/"), MOYAI_EPERM, "symbolic link"); /* would be followed if the slash stayed */
    assert_int_equal(symlink("/nonexistent", in(f, "dangling")), 0);
    refused(in(f, "dangling"), MOYAI_EPERM, "symbolic link");
    /* A link on the way is the user's affair. */
    assert_int_equal(symlink(f->dir, in(f, "way")), 0);
    rundir_close(open_ok(in(f, "way/target")));
}

static void refuses_a_file(void **state) {
    struct fix *f = *state;
    int fd = open(in(f, "file"), O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    refused(f->path, MOYAI_EPERM, "not a directory");
    assert_int_equal(mkfifo(in(f, "pipe"), 0600), 0);
    refused(f->path, MOYAI_EPERM, "not a directory"); /* and does not wait for a writer */
}

static void refuses_an_open_directory(void **state) {
    struct fix *f = *state;
    static const mode_t modes[] = {0755, 0710, 0701, 0720, 0704, 0777};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(mkdir(in(f, "open"), 0700), 0);
        assert_int_equal(chmod(f->path, modes[i]), 0);
        refused(f->path, MOYAI_EPERM, "of mode 0700");
        assert_int_equal(rmdir(f->path), 0);
    }
}

static void refuses_a_foreign_directory(void **state) {
    struct fix *f = *state;
    if (geteuid() != 0) {
        refused("/usr", MOYAI_EPERM, "belongs to uid 0");
        return;
    }
    assert_int_equal(mkdir(in(f, "foreign"), 0700), 0);
    assert_int_equal(chown(f->path, 1, 1), 0);
    refused(f->path, MOYAI_EPERM, "belongs to uid 1");
}

static void refuses_a_long_path(void **state) {
    struct fix *f = *state;
    char path[300];
    size_t n = (size_t)snprintf(path, sizeof path, "%s/", f->dir);
    memset(path + n, 'x', sizeof path - n);
    path[RUNDIR_PATH_MAX + 1] = 0;
    refused(path, MOYAI_ERANGE, "87 bytes");
    path[RUNDIR_PATH_MAX + 1] = 'x';
    path[sizeof path - 1] = 0;
    refused(path, MOYAI_ERANGE, "choose a shorter path");

    /* The longest one that is taken works, and nothing is cut off. */
    path[RUNDIR_PATH_MAX] = 0;
    struct rundir *d = open_ok(path);
    struct moyai_node_id id = new_id();
    int l = listen_ok(d, &id), c = -1;
    assert_int_equal(rundir_connect(d, &id, &c, NULL, NULL), 0);
    char hex[33], name[400];
    id_format(id.b, hex);
    snprintf(name, sizeof name, "%s/%.16s", path, hex);
    struct stat st;
    assert_int_equal(lstat(name, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0600);
    close(c);
    close(l);
    rundir_close(d);
}

static void many_make_it_at_once(void **state) {
    struct fix *f = *state;
    int go[2];
    assert_int_equal(pipe(go), 0);
    pid_t pids[8];
    for (size_t i = 0; i < 8; i++) {
        pids[i] = start();
        if (pids[i] == 0) {
            char c;
            close(go[1]);
            (void)!read(go[0], &c, 1);
            struct rundir *d = NULL;
            int rc = rundir_open(&d, in(f, "run"), NULL);
            rundir_close(d);
            _exit(rc == 0 ? 0 : 1);
        }
    }
    close(go[0]);
    close(go[1]);
    for (size_t i = 0; i < 8; i++) wait_child(pids[i]);
}

static void chooses_by_environment(void **state) {
    struct fix *f = *state;
    char run[64], xdg[64], text[80];
    snprintf(run, sizeof run, "%s/run", f->dir);
    snprintf(xdg, sizeof xdg, "%s/xdg", f->dir);
    setenv("MOYAI_RUN_DIR", run, 1);
    setenv("XDG_RUNTIME_DIR", xdg, 1);

    struct rundir *d = open_ok(in(f, "own"));
    assert_string_equal(rundir_path(d), f->path);
    rundir_close(d);
    d = open_ok(NULL);
    assert_string_equal(rundir_path(d), run);
    rundir_close(d);

    assert_int_equal(mkdir(xdg, 0700), 0);
    setenv("MOYAI_RUN_DIR", "", 1); /* counts as unset */
    d = open_ok(NULL);
    snprintf(text, sizeof text, "%s/moyai", xdg);
    assert_string_equal(rundir_path(d), text);
    rundir_close(d);

    /* Texts say where the path came from. */
    struct moyai_error e;
    assert_int_equal(chmod(text, 0755), 0);
    assert_int_equal(rundir_open(&d, NULL, &e), MOYAI_EPERM);
    assert_non_null(strstr(e.text, "$XDG_RUNTIME_DIR"));
    setenv("MOYAI_RUN_DIR", text, 1);
    assert_int_equal(rundir_open(&d, NULL, &e), MOYAI_EPERM);
    assert_non_null(strstr(e.text, "$MOYAI_RUN_DIR"));
    unsetenv("MOYAI_RUN_DIR");

    /* $XDG_RUNTIME_DIR that cannot serve: not there, relative, a file, another user's. */
    char fallback[40], file[64];
    snprintf(fallback, sizeof fallback, "/tmp/moyai-%u", (unsigned)geteuid());
    snprintf(file, sizeof file, "%s/file", f->dir);
    int fd = open(file, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    bool was_there = access(fallback, F_OK) == 0;
    const char *unfit[] = {"/nonexistent", "relative", "", file, geteuid() == 0 ? "/nonexistent/x" : "/usr", NULL};
    for (size_t i = 0; i < 6; i++) {
        if (unfit[i])
            setenv("XDG_RUNTIME_DIR", unfit[i], 1);
        else
            unsetenv("XDG_RUNTIME_DIR");
        d = open_ok(NULL);
        assert_string_equal(rundir_path(d), fallback);
        rundir_close(d);
    }
    if (!was_there) rmdir(fallback);
}

static void host_id_tells_hosts_apart(void **state) {
    struct fix *f = *state;
    static const uint8_t zero[16];
    struct rundir *a = open_ok(in(f, "a")), *b = open_ok(in(f, "b"));
    assert_memory_not_equal(rundir_host(a), zero, 16);
    assert_memory_not_equal(rundir_host(a), rundir_host(b), 8); /* which is what the overlay tells hosts apart by */
    uint8_t other_boot[16];
    memcpy(other_boot, rundir_host(a), 16);
    other_boot[15] ^= 1;
    assert_true(rundir_this_host(rundir_host(a)));
    assert_true(rundir_this_host(rundir_host(b)));
    assert_false(rundir_this_host(other_boot));
    /* Another network namespace is another host. */
    pid_t pid = start();
    if (pid == 0) {
        if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) _exit(0); /* not allowed here */
        struct rundir *c;
        if (geteuid() != 0) _exit(0); /* of another uid now: nothing is left to compare */
        if (rundir_open(&c, rundir_path(a), NULL) < 0) _exit(1);
        bool other = memcmp(rundir_host(c), rundir_host(a), 8) != 0 && !rundir_this_host(rundir_host(a));
        rundir_close(c);
        rundir_close(b);
        rundir_close(a);
        _exit(other ? 0 : 2);
    }
    wait_child(pid);
    rundir_close(a);
    rundir_close(b);
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void connects_and_tells_who(void **state) {
    struct fix *f = *state;
    struct rundir *d = open_ok(in(f, "run"));
    struct moyai_node_id id = new_id();
    int l = listen_ok(d, &id), c, s;
    struct moyai_error e = {0};
    assert_int_equal(rundir_accept(l, &s, NULL, NULL, &e), MOYAI_EAGAIN);
    pid_t pid = 0;
    assert_int_equal(rundir_connect(d, &id, &c, &pid, &e), 0);
    assert_int_equal(pid, getpid());
    uid_t uid = 12345;
    pid = 0;
    assert_int_equal(rundir_accept(l, &s, &uid, &pid, &e), 0);
    assert_int_equal(uid, geteuid());
    assert_int_equal(pid, getpid());
    const int fds[] = {l, c, s};
    for (int i = 0; i < 3; i++) {
        assert_true(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
    }
    char x = 'x', y = 0;
    assert_int_equal(write(c, &x, 1), 1);
    assert_int_equal(read(s, &y, 1), 1);
    assert_int_equal(y, 'x');
    close(c);
    close(s);

    /* The same id again cannot be. */
    int again = -7;
    assert_int_equal(rundir_listen(d, &id, &again, &e), MOYAI_EEXIST);
    assert_int_equal(again, -7);
    close(l);
    assert_int_equal(rundir_listen(d, &id, &again, &e), MOYAI_EEXIST);
    rundir_unlink(d, &id);
    rundir_unlink(d, &id);
    close(listen_ok(d, &id));
    rundir_close(d);
}

static void a_full_queue_is_not_death(void **state) {
    struct fix *f = *state;
    struct rundir *d = open_ok(in(f, "run"));
    struct moyai_node_id id = new_id();
    int l = listen_ok(d, &id);
    assert_int_equal(listen(l, 0), 0); /* room for one */
    int c[8], rc = 0, n = 0;
    struct moyai_error e = {0};
    while (n < 8 && (rc = rundir_connect(d, &id, &c[n], NULL, &e)) == 0) n++;
    assert_int_equal(rc, MOYAI_EAGAIN);
    assert_int_equal(e.code, MOYAI_EAGAIN);
    assert_false(rundir_is_dead(d, &id));
    while (n > 0) close(c[--n]);
    close(l);
    rundir_close(d);
}

static void a_killed_listener_is_dead(void **state) {
    struct fix *f = *state;
    struct rundir *d = open_ok(in(f, "run"));
    struct moyai_node_id id = new_id();
    int c = -7, ready[2];
    struct moyai_error e = {0};
    assert_int_equal(rundir_connect(d, &id, &c, NULL, &e), MOYAI_EDEAD); /* never was */
    assert_true(rundir_is_dead(d, &id));

    assert_int_equal(pipe(ready), 0);
    pid_t pid = start();
    if (pid == 0) {
        int l;
        if (rundir_listen(d, &id, &l, NULL) < 0) _exit(1);
        (void)!write(ready[1], "x", 1);
        for (;;) pause();
    }
    char x;
    assert_int_equal(read(ready[0], &x, 1), 1);
    close(ready[0]);
    close(ready[1]);
    pid_t who = 0;
    assert_int_equal(rundir_connect(d, &id, &c, &who, &e), 0);
    assert_int_equal(who, pid);
    close(c);
    c = -7;
    assert_false(rundir_is_dead(d, &id));
    assert_int_equal(kill(pid, SIGSTOP), 0); /* silence is no death */
    assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
    assert_false(rundir_is_dead(d, &id));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(rundir_connect(d, &id, &c, NULL, &e), MOYAI_EDEAD);
    assert_int_equal(c, -7);
    assert_non_null(strstr(e.text, rundir_path(d)));
    assert_true(rundir_is_dead(d, &id));
    rundir_close(d);
}

static void a_lost_directory_is_not_death(void **state) {
    struct fix *f = *state;
    struct rundir *d = open_ok(in(f, "run"));
    char run[64], moved[64];
    snprintf(run, sizeof run, "%s/run", f->dir);
    snprintf(moved, sizeof moved, "%s/moved", f->dir);
    struct moyai_node_id id = new_id(), other = new_id();
    int l = listen_ok(d, &id), c = -7;
    assert_int_equal(rename(run, moved), 0);
    struct moyai_error e = {0};
    assert_int_equal(rundir_connect(d, &id, &c, NULL, &e), MOYAI_ESTATE);
    assert_non_null(strstr(e.text, "removed"));
    assert_int_equal(rundir_listen(d, &other, &c, &e), MOYAI_ESTATE);
    assert_int_equal(rundir_sweep(d, SIZE_MAX, 0, &e), MOYAI_ESTATE);
    assert_false(rundir_is_dead(d, &id));

    assert_int_equal(mkdir(run, 0700), 0);
    assert_int_equal(rundir_connect(d, &id, &c, NULL, &e), MOYAI_ESTATE);
    assert_non_null(strstr(e.text, "replaced"));
    assert_false(rundir_is_dead(d, &id));
    assert_int_equal(rundir_listen(d, &other, &c, &e), MOYAI_ESTATE);
    assert_int_equal(c, -7);
    assert_int_equal(rmdir(run), 0); /* nothing was left in it */
    close(l);
    rundir_close(d);
}

/* Run fn as another user (root only); it returns what the child exits with. */
static pid_t as_another(int (*fn)(struct fix *f, int ready), struct fix *f) {
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = start();
    if (pid == 0) {
        close(ready[0]);
        _exit(fn(f, ready[1]));
    }
    close(ready[1]);
    char x;
    assert_int_equal(read(ready[0], &x, 1), 1);
    close(ready[0]);
    return pid;
}

static int connect_open_socket(struct fix *f, int ready) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/open", f->dir);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (seteuid(1) < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0) return 1;
    (void)!write(ready, "x", 1);
    char x;
    return read(fd, &x, 1) == 0 ? 0 : 2; /* closed */
}

static void refuses_a_foreign_caller(void **state) {
    struct fix *f = *state;
    if (geteuid() != 0) {
        print_message("skipped: only root can be two users\n");
        skip();
    }
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/open", f->dir);
    int l = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), s = -7;
    assert_int_equal(bind(l, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(l, 8), 0);
    assert_int_equal(chmod(f->dir, 0755), 0);
    assert_int_equal(chmod(a.sun_path, 0777), 0);
    pid_t pid = as_another(connect_open_socket, f);
    struct moyai_error e = {0};
    assert_int_equal(rundir_accept(l, &s, NULL, NULL, &e), MOYAI_EPERM);
    assert_int_equal(s, -7);
    assert_non_null(strstr(e.text, "uid 1"));
    wait_child(pid);
    close(l);
}

static const struct moyai_node_id foreign_id = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

static int listen_in_run_dir(struct fix *f, int ready) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/run/0102030405060708", f->dir);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || seteuid(1) < 0 || listen(fd, 8) < 0) return 1;
    (void)!write(ready, "x", 1);
    fd = accept(fd, NULL, NULL);
    char x;
    return fd >= 0 && read(fd, &x, 1) == 0 ? 0 : 2;
}

static void refuses_a_foreign_listener(void **state) {
    struct fix *f = *state;
    if (geteuid() != 0) {
        print_message("skipped: only root can be two users\n");
        skip();
    }
    struct rundir *d = open_ok(in(f, "run"));
    pid_t pid = as_another(listen_in_run_dir, f);
    int c = -7;
    struct moyai_error e = {0};
    assert_int_equal(rundir_connect(d, &foreign_id, &c, NULL, &e), MOYAI_EPERM);
    assert_int_equal(c, -7);
    wait_child(pid);
    rundir_close(d);
}

/* ---- sweeping -------------------------------------------------------------------------------- */

static bool there(struct fix *f, const char *name) {
    struct stat st;
    return lstat(in(f, name), &st) == 0;
}

static void sweeps_what_nobody_has(void **state) {
    struct fix *f = *state;
    struct rundir *d = open_ok(in(f, "run"));
    struct moyai_node_id live = new_id(), dead = new_id();
    int l = listen_ok(d, &live), s;
    close(listen_ok(d, &dead));
    char hex[33], live_name[64], dead_name[64];
    id_format(live.b, hex);
    snprintf(live_name, sizeof live_name, "run/%.16s", hex);
    id_format(dead.b, hex);
    snprintf(dead_name, sizeof dead_name, "run/%.16s", hex);
    assert_true(there(f, live_name) && there(f, dead_name));

    /* What is not a node's socket stays: a file of such a name, a socket of another name, a link. */
    int fd = open(in(f, "run/00000000000000aa"), O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(symlink(dead_name, in(f, "run/00000000000000bb")), 0);
    const char *sockets[] = {"run/foreign", "run/00000000000000cc.new", "run/00000000000000dd.new"};
    for (int i = 0; i < 3; i++) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        snprintf(a.sun_path, sizeof a.sun_path, "%s/%s", f->dir, sockets[i]);
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
        close(fd);
    }
    /* One of the unfinished ones is from long ago. */
    struct timespec old[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    assert_int_equal(utimensat(AT_FDCWD, in(f, sockets[2]), old, 0), 0);

    struct moyai_error e = {0};
    assert_int_equal(rundir_sweep(d, SIZE_MAX, 0, &e), 2);
    assert_true(there(f, live_name));
    assert_false(there(f, dead_name));
    assert_true(there(f, "run/00000000000000aa"));
    assert_true(there(f, "run/00000000000000bb"));
    assert_true(there(f, sockets[0]));
    assert_true(there(f, sockets[1]));
    assert_false(there(f, sockets[2]));
    assert_int_equal(rundir_accept(l, &s, NULL, NULL, &e), MOYAI_EAGAIN); /* it has noticed nothing */
    assert_int_equal(rundir_sweep(d, SIZE_MAX, 0, &e), 0);

    /* Of many only some are looked at, others each time: in the end all that are dead. */
    for (uint8_t i = 0; i < 20; i++) {
        struct moyai_node_id id = {{0xee, i, 1}};
        close(listen_ok(d, &id));
    }
    int removed = 0, rc = 0;
    for (uint64_t i = 0; removed < 20; i++) {
        assert_true(i < 1000);
        rc = rundir_sweep(d, 4, i * 7919, &e);
        assert_in_range(rc, 0, 4);
        removed += rc;
    }
    assert_int_equal(removed, 20);
    assert_true(there(f, live_name));
    close(l);
    rundir_close(d);
}

/* Listeners come and go while others sweep: none may lose its socket. */
static void sweeping_takes_no_new_socket(void **state) {
    struct fix *f = *state;
    struct rundir *d = open_ok(in(f, "run"));
    pid_t pid = start();
    if (pid == 0)
        for (;;)
            if (rundir_sweep(d, SIZE_MAX, 0, NULL) < 0) _exit(1);
    for (int i = 0; i < 300; i++) {
        struct moyai_node_id id = new_id();
        int l = listen_ok(d, &id), c;
        struct moyai_error e = {0};
        if (rundir_connect(d, &id, &c, NULL, &e) < 0) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            fail_msg("round %d: %s", i, e.text);
        }
        close(c);
        close(l);
    }
    kill(pid, SIGKILL);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status)); /* it swept to the end */
    assert_true(rundir_sweep(d, SIZE_MAX, 0, NULL) >= 0);
    rundir_close(d);
}

int main(void) {
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(makes_it_private),
        T(does_not_make_parents),
        T(refuses_bad_paths),
        T(refuses_a_link),
        T(refuses_a_file),
        T(refuses_an_open_directory),
        T(refuses_a_foreign_directory),
        T(refuses_a_long_path),
        T(many_make_it_at_once),
        T(chooses_by_environment),
        T(host_id_tells_hosts_apart),
        T(connects_and_tells_who),
        T(a_full_queue_is_not_death),
        T(a_killed_listener_is_dead),
        T(a_lost_directory_is_not_death),
        T(refuses_a_foreign_caller),
        T(refuses_a_foreign_listener),
        T(sweeps_what_nobody_has),
        T(sweeping_takes_no_new_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
