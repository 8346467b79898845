/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line of the grid file, kept standing: the ssh that forwards its port, and when to connect through it.
 *
 * Of the nodes of one host and run directory one does it, the one that has the line's file in the run directory locked
 * (flock: the kernel drops the lock of whoever is killed); the others look again every few seconds, and share the lock
 * of a second file, which shows that they are there (forward_leaves). That one
 *
 *   runs ssh, if its host is the one to: restarted when it ends, after a second at first and a minute at last. Between
 *   node and ssh stands a shell whose standard input is a pipe from the node: at its end, however the node came by it,
 *   all that was started is killed, so that no ssh stays behind and holds the port;
 *
 *   and has its node connect to the forwarded port, if its host is HOST1: again and again until there is a link, and
 *   again when that breaks. If the port does not open in a minute, ssh hangs and is replaced.
 *
 * An ssh that has ended without having been of use is an error in the log, which is shown by default: the
 * last lines that it said, and what to try; then at ever longer times, as of warnings that say the same.
 *
 * So is it if, for half a minute, connections by it were taken, but no node has answered: as ssh does where nothing
 * listens at the far port, which accepts, and closes when it is told so.
 *
 * What the link is, is the driver's business (forward_ops). All functions: node lock held.
 */
#ifndef OVERLAY_IO_FORWARD_H
#define OVERLAY_IO_FORWARD_H

#include "base/log.h"
#include "exec/exec.h"
#include "overlay/io/gridfile.h"

struct forward;

struct forward_ops {
    /* Connect to that port of 127.0.0.1; the answer is forward_failed, with what dial.h says of it, or forward_up and,
     * in any case, forward_down. Not from within. */
    void (*dial)(void *ctx, struct forward *f, uint16_t port);
    void (*cancel)(void *ctx, struct forward *f); /* not any more: no answer is to come, and a link is to end */
};

struct forward_cfg {
    const struct gridfile_line *line; /* lives as long as the forward */
    bool connects;                    /* this host is HOST1; else HOST2 */
    const char *file;                 /* the grid file, for texts */
    const char *ssh;                  /* the program */
    const char *dir;                  /* for the lock: the run directory */
    struct moyai_log *log;            /* may be NULL */
    uint64_t seed;
    const struct forward_ops *ops;
    void *ctx;
    /* 0: the default. */
    moyai_dur look;        /* for the lock; 2 s */
    moyai_dur first, most; /* before ssh is started again; 1 s, 60 s */
    moyai_dur retry;       /* of connecting, at first; 100 ms, doubled up to 10 s */
    moyai_dur patience;    /* until the port is open; 60 s */
    moyai_dur silence;     /* of who is behind the port, before that is an error; 30 s */
    moyai_dur repeat;      /* before an error is logged again, at first; 30 s, doubled up to an hour */
};

/* Does a node of a host with this name have anything to do for the line? As HOST1 (*connects) or by running ssh. */
bool forward_concerns(const struct gridfile_line *l, const char *host, bool *connects);

/* NULL: out of memory. Begins by itself, from the loop. */
struct forward *forward_new(struct exec *x, const struct forward_cfg *cfg);
void forward_stop(struct forward *f); /* what is under way is cancelled, and nothing begun; ssh runs on. NULL is fine */
/* The node leaves: it does not stand ready any more to take the line over, and half a second later gives it to one that
 * does, if there is any: those behind the line have their way by that one then. NULL is fine. */
void forward_leaves(struct forward *f);
void forward_free(struct forward *f);          /* the same, and ssh is killed; NULL is fine */
bool forward_carries(const struct forward *f); /* an ssh of its own runs; f NULL: none does */

/* To `dial`: there is no connection, and why; a node says hello; the link is agreed on; it has ended. */
void forward_failed(struct forward *f, const struct moyai_error *why);
void forward_answered(struct forward *f);
void forward_up(struct forward *f);
void forward_down(struct forward *f);
/* What made the link superfluous has gone: connect now, and not when it would be looked at again. Nothing if there is a
 * link, or an attempt under way, which is then followed by another one soon. */
void forward_hasten(struct forward *f);

bool forward_holds(const struct forward *f); /* it is this node that does it */

enum forward_state {
    FORWARD_OTHERS, /* another node of this host has it, or there is nothing to connect to here */
    FORWARD_WAITS,  /* no link yet; it may come soon */
    FORWARD_FAILED, /* no link, and ssh has ended without one, or what is at the other end does not take our key; or the
                     * ssh that is another host's to run does not lead to a node now */
    FORWARD_LINKED,
};
/* *why, unless there is a link: what went wrong last; "": nothing has. */
enum forward_state forward_state(const struct forward *f, const char **why);

#endif
