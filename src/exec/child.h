/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Child processes and witnesses: posix_spawn with file actions, process group and signal mask; ends
 * are learnt through a pidfd in the loop, so no SIGCHLD handler is needed. libuv's own uv_spawn is not
 * used: it forks, at half the rate of posix_spawn.
 */
#ifndef EXEC_CHILD_H
#define EXEC_CHILD_H

#include "exec/exec.h"

struct exec_child;
struct child_opts {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH */
    const char *const *envp; /* NULL: this process's */
    const char *dir;         /* working directory; NULL: this one's */
    int fd[3];               /* descriptors for 0, 1, 2; -1: /dev/null. Stay open in the parent */
    const int *extra_fds;    /* further descriptors that keep their numbers in the child */
    size_t n_extra_fds;
    bool own_group; /* a process group of its own */
    bool keep_lock; /* within a callback of the driver, which must not release it */
};
/* status: as of waitpid, or EXEC_STATUS_UNKNOWN, which is neither an exit nor a signal: the process had been reaped by
 * somebody else. Called once on the driver, lock held; c stays valid until exec_child_free, which may be called here.
 */
#define EXEC_STATUS_UNKNOWN (-1)
typedef void (*child_exit_fn)(struct exec_child *c, int status, void *arg);

/* Start a process. Lock held; released, unless told to keep it, while the system makes the process, a millisecond or
 * so. The child gets default dispositions for SIGPIPE and an empty signal mask. ENOENT: no such program; EPERM; ELIMIT;
 * ESYS. */
int exec_child_spawn(struct exec *x, struct exec_child **ret, const struct child_opts *opts, child_exit_fn fn,
                     void *arg, struct moyai_error *reterr);
pid_t exec_child_pid(const struct exec_child *c);
/* Signal the process, or its whole group (own_group only). Safe against reuse of the number, since the process is not
 * reaped before exec_child_free; a group is reached after its leader has ended, too. EDEAD: nobody left; EINVAL; EPERM.
 */
int exec_child_kill(struct exec_child *c, int sig, bool group);
/* No callback comes any more. A process that has ended is reaped; one that has not goes on, and is reaped in its time
 * while the exec lives. */
void exec_child_free(struct exec_child *c);

/* What a status says: "was killed by signal 9 (Killed)", "exited with status 1". The same without "was " is a cause of
 * death. */
void exec_status_text(int status, char text[128]);
/* As a shell has it: 128+n for signal n. -1: not known. */
int exec_status_exit(int status);

/* Call fn for every child of this process, whether started by it or left to it by a process that ended (of a subreaper,
 * see prctl(2)). Any thread; reads files of the kernel's, and needs no memory. If they cannot be opened the spare list
 * is read (-1: there is none), which lacks what other threads than the main one have started. False: some may have been
 * left out; a child may be visited twice. */
bool exec_children(int spare, void (*fn)(pid_t pid, void *arg), void *arg);

/* The same for children that exec does not know, for a subreaper: those that have ended are collected and not visited,
 * unless they ended just now. Nobody is overlooked because his parent ends meanwhile. Lock held. */
bool exec_children_left(struct exec *x, int spare, void (*fn)(pid_t pid, void *arg), void *arg);

/* Is that process a child of this one, or of one that is? False also if it has ended. Reads files of the kernel's. */
bool exec_has_started(pid_t pid);

/* A descriptor to be kept for the list, of this process's own: not that of a process it was forked from. -1: errno. */
int exec_children_spare(void);

/* Is it a child that exec has started and will reap, or could it be: one is just being started, and its number not
 * known yet? So a subreaper knows which of its children nobody else collects. Lock held. */
bool exec_child_known(const struct exec *x, pid_t pid);

/* Witness any process (a peer on a Unix socket): fn is called once when it has ended. Status unknown
 * unless it is a child. NULL: the process is gone already, or no pidfd (reterr). Lock held. */
struct exec_witness;
struct exec_witness *exec_witness_new(struct exec *x, pid_t pid, void (*fn)(void *arg), void *arg,
                                      struct moyai_error *reterr);
void exec_witness_free(struct exec_witness *w);

#endif
