/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child is watched through its pidfd. When it has ended its status is read without reaping it (WNOWAIT), and it is
 * reaped by exec_child_free: until then neither its process number nor its group's can be given to anybody else, so
 * that a signal to the group reaches what the child left behind and nothing else.
 *
 * Kernels before 5.3, and valgrind, have no pidfd_open. There a thread for each child waits for its end, without
 * reaping it, and says so through an eventfd that takes the pidfd's place in the loop.
 */
#include "exec/child.h"

#include "base/err.h"
#include "exec/impl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef P_PIDFD
#define P_PIDFD ((idtype_t)3)
#endif

struct exec_child {
    struct exec *x;
    pid_t pid;
    int pidfd; /* -1: the system has none */
    bool own_group;
    bool ended;
    bool taken; /* somebody else has reaped it: its number may mean another process */
    struct exec_fd *watched;
    child_exit_fn fn; /* NULL: exec_child_free was called, only reap it */
    void *arg;
    struct exec_child *prev, *next; /* in exec.orphans, then */
    struct exec_child *all_next, **all_prev;
};

struct exec_witness {
    struct exec *x;
    struct exec_fd *watched;
    void (*fn)(void *arg); /* NULL: called already */
    void *arg;
};

/* Close-on-exec by itself. */
static int pidfd_open(struct exec *x, pid_t pid) {
    int fd = -1;
    errno = ENOSYS;
    if (!x->no_pidfd) fd = (int)syscall(SYS_pidfd_open, pid, 0u);
    if (fd < 0 && errno == ENOSYS) x->no_pidfd = true;
    return fd;
}

static int wait_status(const siginfo_t *si) {
    if (si->si_code == CLD_EXITED) return (si->si_status & 0xff) << 8;
    return (si->si_status & 0x7f) | (si->si_code == CLD_DUMPED ? 0x80 : 0);
}

/* ---- starting ---- */

static int wait_for(const struct exec_child *c, siginfo_t *si, int how) {
    if (c->pidfd >= 0) return waitid(P_PIDFD, (id_t)c->pidfd, si, how);
    return waitid(P_PID, (id_t)c->pid, si, how);
}

struct look_out {
    pid_t pid;
    int fd;
};

static void *look_out_main(void *arg) {
    struct look_out *l = arg;
    siginfo_t si;
    while (waitid(P_PID, (id_t)l->pid, &si, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    }
    eventfd_write(l->fd, 1);
    close(l->fd);
    free(l);
    return NULL;
}

/* What to watch where there is no pidfd; -1: errno. */
static int look_out(pid_t pid) {
    struct look_out *l = malloc(sizeof *l);
    int fd = l ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    if (fd < 0) {
        free(l);
        return -1;
    }
    l->pid = pid;
    l->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* its own, so that either side may end first */
    int rc = l->fd < 0 ? errno : thread_start(NULL, 64 << 10, "moyai-lookout", look_out_main, l);
    if (rc == 0) return fd;
    if (l->fd >= 0) close(l->fd);
    close(fd);
    free(l);
    errno = rc;
    return -1;
}

static void free_child(void *arg) {
    struct exec_child *c = arg;
    if (c->pidfd >= 0) close(c->pidfd);
    free(c);
}

/* No callback comes after this, and c goes away. */
static void release(struct exec_child *c) {
    *c->all_prev = c->all_next;
    if (c->all_next) c->all_next->all_prev = c->all_prev;
    exec_fd_free(c->watched, c->pidfd < 0, free_child); /* a pidfd is closed by free_child */
}

static void reap(struct exec_child *c) {
    siginfo_t si;
    if (c->taken) return;
    while (wait_for(c, &si, WEXITED | WNOHANG) < 0 && errno == EINTR) {
    }
}

static void unlist(struct exec_child *c) {
    if (c->prev)
        c->prev->next = c->next;
    else
        c->x->orphans = c->next;
    if (c->next) c->next->prev = c->prev;
}

static void on_end(struct exec_fd *f, int events, void *arg) {
    (void)events;
    struct exec_child *c = arg;
    siginfo_t si = {0};
    int rc = wait_for(c, &si, WEXITED | WNOHANG | WNOWAIT);
    if (rc == 0 && si.si_pid == 0) return; /* it has not */
    /* ECHILD: somebody else has reaped it (SIGCHLD is ignored, or the program waits for any child). */
    int status = rc == 0 ? wait_status(&si) : EXEC_STATUS_UNKNOWN;
    c->ended = true;
    c->taken = rc < 0;
    exec_fd_events(f, 0);
    if (c->fn) {
        c->fn(c, status, c->arg);
        return;
    }
    unlist(c);
    reap(c);
    release(c);
}

/* The three descriptors, moved out of the way of each other: above 2, so that no dup2 hits a source still needed. */
static int add_descriptors(posix_spawn_file_actions_t *fa, const struct child_opts *o, int moved[3]) {
    int rc;
    for (int i = 0; i < 3; i++) {
        int fd = o->fd[i];
        if (fd < 0) continue;
        if (fd < 3 && fd != i) {
            fd = moved[i] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
            if (fd < 0) return errno;
        }
        /* dup2 onto itself clears close-on-exec in the child */
        if ((rc = posix_spawn_file_actions_adddup2(fa, fd, i))) return rc;
    }
    for (int i = 0; i < 3; i++)
        if (o->fd[i] < 0 && (rc = posix_spawn_file_actions_addopen(fa, i, "/dev/null", O_RDWR, 0))) return rc;
    for (size_t i = 0; i < o->n_extra_fds; i++)
        if ((rc = posix_spawn_file_actions_adddup2(fa, o->extra_fds[i], o->extra_fds[i]))) return rc;
    return 0;
}

static int set_attributes(posix_spawnattr_t *at, const struct child_opts *o) {
    sigset_t none, def;
    sigemptyset(&none);
    sigemptyset(&def);
    sigaddset(&def, SIGPIPE);
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    if (o->own_group) flags |= POSIX_SPAWN_SETPGROUP;
    int rc = posix_spawnattr_setflags(at, flags);
    if (!rc) rc = posix_spawnattr_setsigmask(at, &none);
    if (!rc) rc = posix_spawnattr_setsigdefault(at, &def);
    if (!rc) rc = posix_spawnattr_setpgroup(at, 0);
    return rc;
}

/* posix_spawnp with these options: 0 or errno. */
static int spawn(pid_t *pid, const struct child_opts *o) {
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    int moved[3] = {-1, -1, -1};
    int rc = posix_spawn_file_actions_init(&fa);
    if (rc) return rc;
    rc = posix_spawnattr_init(&at);
    if (rc) {
        posix_spawn_file_actions_destroy(&fa);
        return rc;
    }
    rc = set_attributes(&at, o);
    if (!rc) rc = add_descriptors(&fa, o, moved);
    if (!rc && o->dir) rc = posix_spawn_file_actions_addchdir_np(&fa, o->dir);
    /* The prototype lacks const for reasons of history; nothing is written. */
    char *const *argv = (char *const *)(uintptr_t)o->argv;
    char *const *envp = o->envp ? (char *const *)(uintptr_t)o->envp : environ;
    if (!rc) rc = posix_spawnp(pid, argv[0], &fa, &at, argv, envp);
    for (int i = 0; i < 3; i++)
        if (moved[i] >= 0) close(moved[i]);
    posix_spawnattr_destroy(&at);
    posix_spawn_file_actions_destroy(&fa);
    return rc;
}

static int spawn_error(int sys, const struct child_opts *o, struct moyai_error *reterr) {
    int code = sys == ENOENT || sys == ENOTDIR ? MOYAI_ENOENT : sys == ENOMEM ? MOYAI_ELIMIT : err_of_errno(sys);
    if ((sys == ENOENT || sys == ENOTDIR) && o->dir && access(o->dir, X_OK) < 0)
        err_sys(reterr, sys, "cannot run '%s' in '%s'", o->argv[0], o->dir);
    else
        err_sys(reterr, sys, "cannot run '%s'", o->argv[0]);
    if (reterr) reterr->code = code;
    return code;
}

/* It runs already but cannot be watched: end it, so that nothing is left. */
static int give_up(struct exec_child *c, int sys, const struct child_opts *o, struct moyai_error *reterr) {
    kill(c->pid, SIGKILL);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    free_child(c);
    return spawn_error(sys, o, reterr);
}

int exec_child_spawn(struct exec *x, struct exec_child **ret, const struct child_opts *opts, child_exit_fn fn,
                     void *arg, struct moyai_error *reterr) {
    if (!fn || !opts->argv || !opts->argv[0]) return err_set(reterr, MOYAI_EINVAL, "no command to run");
    for (size_t i = 0; i < opts->n_extra_fds; i++)
        if (opts->extra_fds[i] < 3)
            return err_set(reterr, MOYAI_EINVAL, "descriptor %d is not extra", opts->extra_fds[i]);
    struct exec_child *c = calloc(1, sizeof *c);
    if (!c) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    c->x = x;
    c->fn = fn;
    c->arg = arg;
    c->own_group = opts->own_group;

    x->spawning++;
    /* The system calls of a spawn last until the child's exec, a millisecond and more: as user code. */
    bool node = exec_on_node_thread(x);
    if (!opts->keep_lock && node)
        exec_user_enter(x);
    else if (!opts->keep_lock)
        exec_unlock(x);
    int rc = spawn(&c->pid, opts);
    if (!opts->keep_lock && node)
        exec_user_leave(x);
    else if (!opts->keep_lock)
        exec_lock(x);
    x->spawning--;
    if (rc) {
        free(c);
        return spawn_error(rc, opts, reterr);
    }

    c->pidfd = pidfd_open(x, c->pid);
    int fd = c->pidfd;
    if (fd < 0 && x->no_pidfd) fd = look_out(c->pid);
    if (fd < 0) return give_up(c, errno, opts, reterr);
    c->watched = exec_fd_new(x, fd, UV_READABLE, on_end, c);
    if (!c->watched) {
        if (c->pidfd < 0) close(fd);
        return give_up(c, ENOMEM, opts, reterr);
    }
    c->all_next = x->children;
    c->all_prev = &x->children;
    if (c->all_next) c->all_next->all_prev = &c->all_next;
    x->children = c;
    *ret = c;
    return 0;
}

bool exec_child_known(const struct exec *x, pid_t pid) {
    if (x->spawning > 0) return true;
    for (const struct exec_child *c = x->children; c; c = c->all_next)
        if (c->pid == pid) return !c->taken;
    return false;
}

pid_t exec_child_pid(const struct exec_child *c) {
    return c->pid;
}

int exec_child_kill(struct exec_child *c, int sig, bool group) {
    if (group && !c->own_group) return MOYAI_EINVAL;
    if (c->taken) return MOYAI_EDEAD;
    long rc;
    if (group)
        rc = kill(-c->pid, sig);
    else if (c->pidfd >= 0)
        rc = syscall(SYS_pidfd_send_signal, c->pidfd, sig, NULL, 0u);
    else
        rc = kill(c->pid, sig); /* not reaped: still the same process */
    if (rc == 0) return 0;
    return errno == ESRCH ? MOYAI_EDEAD : err_of_errno(errno);
}

void exec_child_free(struct exec_child *c) {
    if (!c) return;
    if (c->ended) {
        reap(c);
        release(c);
        return;
    }
    c->fn = NULL;
    c->prev = NULL;
    c->next = c->x->orphans;
    if (c->next) c->next->prev = c;
    c->x->orphans = c;
}

void child_done(struct exec *x) {
    while (x->orphans) {
        struct exec_child *c = x->orphans;
        x->orphans = c->next;
        release(c);
    }
}

/* ---- statuses ---- */

void exec_status_text(int status, char text[128]) {
    if (status == EXEC_STATUS_UNKNOWN)
        snprintf(text, 128, "ended in an unknown way");
    else if (WIFSIGNALED(status))
        snprintf(text, 128, "was killed by signal %d (%s)%s", WTERMSIG(status), strsignal(WTERMSIG(status)),
                 WCOREDUMP(status) ? ", core dumped" : "");
    else
        snprintf(text, 128, "exited with status %d", WEXITSTATUS(status));
}

int exec_status_exit(int status) {
    if (status == EXEC_STATUS_UNKNOWN) return -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- witnesses ---- */

static void on_witnessed(struct exec_fd *f, int events, void *arg) {
    (void)events;
    struct exec_witness *w = arg;
    void (*fn)(void *) = w->fn;
    exec_fd_events(f, 0);
    w->fn = NULL;
    if (fn) fn(w->arg);
}

struct exec_witness *exec_witness_new(struct exec *x, pid_t pid, void (*fn)(void *arg), void *arg,
                                      struct moyai_error *reterr) {
    int fd = pidfd_open(x, pid);
    if (fd < 0) {
        if (errno == ESRCH)
            err_set(reterr, MOYAI_EDEAD, "process %ld has ended", (long)pid);
        else
            err_sys(reterr, errno, "cannot watch process %ld", (long)pid);
        return NULL;
    }
    struct exec_witness *w = calloc(1, sizeof *w);
    struct exec_fd *f = w ? exec_fd_new(x, fd, UV_READABLE, on_witnessed, w) : NULL;
    if (!f) {
        err_set(reterr, MOYAI_ENOMEM, "out of memory");
        free(w);
        close(fd);
        return NULL;
    }
    w->x = x;
    w->watched = f;
    w->fn = fn;
    w->arg = arg;
    return w;
}

void exec_witness_free(struct exec_witness *w) {
    if (!w) return;
    w->fn = NULL;
    exec_fd_free(w->watched, true, free);
}
