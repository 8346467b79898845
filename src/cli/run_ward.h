/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a runner (run_guard.h) has to watch whatever it runs: signals, the lifeline to its front, and whether its
 * keeper is there still.
 */
#ifndef CLI_RUN_WARD_H
#define CLI_RUN_WARD_H

#include "cli/run_grid.h"
#include "cli/run_guard.h"
#include "exec/exec.h"
#include <moyai.h>

/* Both are called on the driver, lock held. */
struct ward_ops {
    void (*signal)(int sig, void *arg); /* SIGCHLD: a child has ended, perhaps one that was left to us */
    void (*orphaned)(void *arg);        /* front or keeper have been killed: end at once, and ward_end_orphaned */
};

struct ward {
    struct exec *x;
    const struct guard *guard;
    const struct ward_ops *ops;
    void *arg;
    int signals;
    struct exec_fd *signals_watch, *lifeline_watch;
    bool *asked; /* ward_lives */
};

/* Begin to watch: the fields above `signals` are the caller's. Lock held. ESYS. */
int ward_watch(struct ward *w, struct moyai_error *why);
void ward_done(struct ward *w); /* all zero is fine, too. Lock held */

/* Others may wait for what becomes of the runner's node, which lives, or has left in order. If it is killed, who is
 * left of the three says so (ward_obituary): in a grid of several hosts those who had the only link to it would wait
 * for it to come back. grid: to be the node's; not if that is in a directory, where the end of its socket tells.
 * While it says farewell, after ward_done, a signal that asks for an end sets *asked, and hurries it if that was set.
 */
void ward_lives(struct ward *w, moyai_node *node, const struct run_grid *grid, bool *asked);
void ward_left(const struct guard *g);
/* Front, or a keeper whose front is gone, when nothing of the run is left. It takes some seconds at most. */
void ward_obituary(const struct guard *g, const struct run_grid *grid, const char *title);

/* When front or keeper have been killed: nobody may be there who would look after what we leave. */
_Noreturn void ward_end_orphaned(const struct guard *g, moyai_node *node, struct run_grid *grid);

#endif
