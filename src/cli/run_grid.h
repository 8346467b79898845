/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grid of a run: a private one, in a directory that lives as long as the run, or one that is there already.
 *
 *   $XDG_RUNTIME_DIR/moyai-run-XXXXXX    rendezvous; /tmp where there is no such directory of this user's
 *     s/                                 run directory: sockets
 *     keep                               not to be removed
 *
 * A run has its grid's directory locked (flock, shared) in all of its processes; the kernel drops the lock with the
 * last of them. So a directory that can be locked exclusively belongs to nobody any more: each run begins by removing
 * those. A number of a process and its start time, written into it, would say the same less well: both have to be
 * compared, and there is a moment when the directory is there and they are not.
 */
#ifndef CLI_RUN_GRID_H
#define CLI_RUN_GRID_H

#include <limits.h>
#include <moyai/error.h>

struct run_grid {
    char path[PATH_MAX];        /* empty: it has no directory */
    char address[PATH_MAX + 8]; /* file:PATH, or where it is met */
    char run_dir[PATH_MAX];     /* empty: the library's default */
    bool own;                   /* made by us, to be removed by us */
    bool keep;
    int lock;
    char told[PATH_MAX]; /* file that the address was, or will be, written to; empty: none */
};

/* Make a private grid, after removing those left behind by runs that were killed. keep: it stays after the end. */
int run_grid_make(struct run_grid *g, bool keep, struct moyai_error *reterr) MOYAI_MUST_USE;

/* Could that be the address of a grid? EINVAL: it is empty or an option, as where a shell's $(...) gave nothing. */
int run_grid_check(const char *where, struct moyai_error *reterr) MOYAI_MUST_USE;

/* Join the grid at DIR or file:DIR, or any other address of MOYAI_GRID, with the run directory of its nodes on this
 * host. ENOENT: no such directory; EINVAL: no such address; EPERM, ERANGE and what the rendezvous says. */
int run_grid_join(struct run_grid *g, const char *where, struct moyai_error *reterr) MOYAI_MUST_USE;

/* The same for this process alone, which has the descriptors of fd: addresses. */
int run_grid_look(struct run_grid *g, const char *where, struct moyai_error *reterr) MOYAI_MUST_USE;

/* Write the address to a file, whole or not at all. */
int run_grid_tell(struct run_grid *g, const char *file, struct moyai_error *reterr) MOYAI_MUST_USE;

/* Remove what was made (the file only if it still holds this address), and let go of the rest. 0 or why some of it is
 * still there. */
int run_grid_end(struct run_grid *g, struct moyai_error *reterr);

/* Remove private grids in `base` that nobody has locked. Returns how many. */
int run_grid_sweep(const char *base);

#endif
