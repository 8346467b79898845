/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run directory: where the nodes of one user on one host have their sockets.
 *
 * A socket's name is the first 16 hex digits of its node's id, so an id is all one needs to connect. The
 * directory is the user's alone (mode 0700): whoever is not this user can neither connect nor put a socket
 * there, and both ends of a connection check the other's uid besides. The directory is opened once and
 * checked through its descriptor; a link, a directory of somebody else, one that is open to others, or a
 * path that does not fit a socket address is refused with a text that says what to do.
 *
 * A `struct rundir` does not change after rundir_open: any thread may use it.
 */
#ifndef LINK_RUNDIR_H
#define LINK_RUNDIR_H

#include <moyai/error.h>
#include <sys/types.h>

struct rundir;

#define RUNDIR_PATH_MAX 86 /* bytes of the path: 21 more for a socket's name make the 107 of sockaddr_un */

/*
 * Open the run directory and make it if it is missing (its parent must exist): `path` if not NULL, else
 * $MOYAI_RUN_DIR, else $XDG_RUNTIME_DIR/moyai where $XDG_RUNTIME_DIR is a directory of this user's, else
 * /tmp/moyai-UID. Empty variables count as unset. path is copied.
 * EINVAL (not absolute, or ends in "." or ".."), ERANGE (too long), EPERM (a link, not a directory, not
 * ours, open to others), ENOSPC, ELIMIT, ENOMEM, ESYS.
 */
int rundir_open(struct rundir **ret, const char *path, struct moyai_error *reterr) MOYAI_MUST_USE;
int rundir_check(const char *path, struct moyai_error *reterr); /* its form only: EINVAL (not absolute), ERANGE */
void rundir_close(struct rundir *d);                            /* NULL is fine; sockets stay */

const char *rundir_path(const struct rundir *d);

/* The host id: equal exactly for nodes that can reach each other through this directory. Made from boot id,
 * network namespace, uid, and the directory itself (device and inode). */
const uint8_t *rundir_host(const struct rundir *d); /* 16 bytes */

/* Is that the host id of a run directory of this host, whichever? Not if it is of a container with a network of its
 * own, nor of this host before it was booted. True in doubt. */
bool rundir_this_host(const uint8_t host[16]);

/* Make the socket of a node: *ret is a non-blocking listening descriptor, yours to close. It is there under its
 * name only once it listens. EEXIST (a socket of that name), ENOSPC, ELIMIT, EPERM, ESTATE (the directory has been
 * removed, or its path leads elsewhere by now). */
int rundir_listen(const struct rundir *d, const struct moyai_node_id *id, int *ret,
                  struct moyai_error *reterr) MOYAI_MUST_USE;

/*
 * Connect to a node: *ret is a connected non-blocking descriptor, *pid (may be NULL) the process that listens.
 *  EDEAD   nobody listens: the socket refuses or is missing. Evidence of death.
 *  EAGAIN  the listener lives but its queue is full: try again later
 *  EPERM   the listener is another user's process
 *  ESTATE  the directory itself is gone: says nothing about the node
 */
int rundir_connect(const struct rundir *d, const struct moyai_node_id *id, int *ret, pid_t *pid,
                   struct moyai_error *reterr) MOYAI_MUST_USE;

/* Is there a socket of that node? */
bool rundir_has(const struct rundir *d, const struct moyai_node_id *id);

/* Surely dead: nobody has that node's socket open? The listener does not notice the question. False in doubt, also when
 * the directory itself is gone. */
bool rundir_is_dead(const struct rundir *d, const struct moyai_node_id *id);

/*
 * Take one connection from a listening descriptor: *ret is non-blocking; *uid and *pid (may be NULL) are the
 * connecting process's. EAGAIN: none waits. EPERM: it came from another user and has been closed: go on.
 * ELIMIT: out of descriptors; the connection still waits, so the descriptor stays readable: stop watching
 * it for a while. Others as of accept(2).
 */
int rundir_accept(int listener, int *ret, uid_t *uid, pid_t *pid, struct moyai_error *reterr) MOYAI_MUST_USE;

void rundir_unlink(const struct rundir *d, const struct moyai_node_id *id); /* remove a socket; fine if it is gone */

/* Remove the sockets nobody listens on (processes killed by force leave theirs), of at most `most` that are looked at:
 * if there are more, `random` says which. Listeners do not notice. Returns how many were removed, or an error. Other
 * files are left alone. */
int rundir_sweep(const struct rundir *d, size_t most, uint64_t random, struct moyai_error *reterr) MOYAI_MUST_USE;

/*
 * The rules alone: open a directory that must be this user's own, and make it (mode 0700) if it is missing.
 * `at` is a directory descriptor or AT_FDCWD, `name` the path from there, `shown` what texts call it, `what` what it
 * is for ("run directory"). *ret is a descriptor opened with O_DIRECTORY, yours to close. Errors as of rundir_open.
 */
int rundir_private(int *ret, int at, const char *name, const char *shown, const char *what,
                   struct moyai_error *reterr) MOYAI_MUST_USE;

#endif
