/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing of a run outlives it: the three processes of `moyai run`, or `moyai node`, that look after each other
 * (run_guard.c).
 */
#ifndef CLI_RUN_GUARD_H
#define CLI_RUN_GUARD_H

#include <moyai/error.h>
#include <sys/types.h>

enum guard_role { GUARD_FRONT, GUARD_KEEPER, GUARD_RUNNER };

/* What the three have in common. */
struct guard_shared {
    uint8_t node[16]; /* the id of the runner's node (run_ward.h), or zeros */
    pid_t runner;
};

struct guard {
    enum guard_role role; /* which of the three am I? */
    const char *verb;     /* "run": for messages and the names of processes */
    int lifeline; /* runner: each byte is the number of a signal the front was given; its end is the front's. Keeper:
                     ends with the front. Front: the runner's other end */
    pid_t child;  /* front: the keeper; keeper: the runner */
    pid_t parent; /* runner: the keeper. Whoever is our parent instead: it has ended, of which a SIGCONT tells */
    int signals;  /* front and keeper */
    int children; /* spare list of this process's (exec/child.h): a run shall end where no file can be opened, too */
    struct guard_shared *shared; /* NULL: none */
    /* the front's own */
    int keeping; /* ends with the front: the keeper's other end */
    int typed;   /* where the terminal's input goes; -1: the input is no terminal, or has ended */
};

/* From here on the signals that are for the run wait until guard_watch() passes them on: to be called before anything
 * is made that is to be removed again. guard_divide() does it as well. */
void guard_begin(void);

/* Divide this process in three. To be called while there is one thread only. On failure (ESYS, ELIMIT) it is still one,
 * or that which would have been the keeper fails, and the front sees it end. */
int guard_divide(struct guard *g, const char *verb, struct moyai_error *reterr) MOYAI_MUST_USE;

/* Front: pass signals and, from a terminal, input on to the runner until the run has ended, and see to it that nothing
 * is left of it. Returns the status to exit with; a violent end of the keeper is said on standard error. */
int guard_watch(struct guard *g);

/* Keeper: wait until the runner has ended, and see to it that nothing is left of the run. Returns the status to exit
 * with, the runner's; a violent end of it is said on standard error. What else is to be removed it must not leave to
 * the front, which may be about to die. Overwrites the command line, in which argv and what was parsed from it lie. */
int guard_keep(struct guard *g);

/* Write a line to standard error. Who reads it may not: then the line is dropped after a second, since nobody could
 * interrupt one of the three in that. */
void guard_say(const char *fmt, ...) MOYAI_PRINTF(1, 2);

/* Kill every process that descends from this one, and wait for them. False: some could not be made to end within 10 s.
 * SIGCHLD must be blocked, and nobody else may wait for children of this process meanwhile. */
bool guard_sweep(const struct guard *g);

#endif
