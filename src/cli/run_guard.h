/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing of a run outlives it: the two processes of `moyai run` that look after each other (run_guard.c).
 */
#ifndef CLI_RUN_GUARD_H
#define CLI_RUN_GUARD_H

#include <moyai/error.h>
#include <sys/types.h>

struct guard {
    bool front;   /* which of the two am I? */
    int lifeline; /* runner: each byte is the number of a signal the front was given; its end is the front's */
    /* the front's own */
    pid_t runner;
    int signals;
    int typed; /* where the terminal's input goes; -1: the input is no terminal, or has ended */
};

/* Divide this process in two. To be called while there is one thread only. On failure (ESYS, ELIMIT) it is still one.
 */
int guard_divide(struct guard *g, struct moyai_error *reterr) MOYAI_MUST_USE;

/* Front: pass signals and, from a terminal, input on to the runner until that has ended, and see to it that nothing is
 * left of the run. Returns the status to exit with; a violent end of the runner is said on standard error. */
int guard_watch(struct guard *g);

/* Kill every process that descends from this one, and wait for them. False: some could not be made to end within 10 s.
 * SIGCHLD must be blocked, and nobody else may wait for children of this process meanwhile. */
bool guard_sweep(void);

/* Call fn for every child of this process, whether started by it or left to it by a process that ended. */
void guard_children(void (*fn)(pid_t pid, void *arg), void *arg);

#endif
