/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of a run on other nodes: which agent of the grid runs which, and what becomes of them (run_nodes.c).
 *
 * Node lock held, everywhere but in nodes_free.
 */
#ifndef CLI_RUN_NODES_H
#define CLI_RUN_NODES_H

#include "cli/run_args.h"
#include "cli/run_output.h"
#include <moyai.h>
#include <sys/types.h>

struct nodes;

/* What became of a process elsewhere. */
struct nodes_end {
    enum { NODES_ENDED, NODES_NOT_STARTED, NODES_LOST } how;
    int status;        /* ENDED: as of waitpid(2) */
    int sys;           /* NOT_STARTED: errno; 0: no matter of the program's */
    const char *text;  /* the others: why */
    const char *where; /* host, or host/site, on which it was or should have been; "": none yet */
    pid_t pid;         /* there; 0: it had not been told */
};

/* Called with the node lock held, never from within a call. rank: which process. */
struct nodes_ops {
    void (*started)(unsigned rank, pid_t pid, const char *where, void *arg);
    void (*ended)(unsigned rank, const struct nodes_end *end, void *arg);
};

/* ENOMEM. group_of and index_of are by rank, and borrowed as all else. */
int nodes_new(struct nodes **ret, moyai_node *n, const struct run_args *a, struct output *out,
              const struct nodes_ops *ops, void *arg, struct moyai_error *why);
/* Begin to look for agents, and start one process after the other as slots are free. ENOMEM, EBUSY. */
int nodes_start(struct nodes *s, struct moyai_error *why);
void nodes_stop(struct nodes *s); /* start no more. Twice is fine */
/* Processes that are on an agent, or on their way to one. */
size_t nodes_running(const struct nodes *s);
bool nodes_is_running(const struct nodes *s, unsigned rank);
/* After nodes_stop: until nobody looks for agents any more, which takes no longer than an agent has to answer. Not to
 * be freed before. */
void nodes_await_scout(struct nodes *s);
void nodes_signal(struct nodes *s, unsigned rank, int sig); /* nothing happens if it is not running */
/* What they write and nobody takes is not waited for any more, but lost. */
void nodes_hurry(struct nodes *s);
/* Wait for none of them any more; each ends as lost. */
void nodes_give_up(struct nodes *s);

/* When the node serves no more, and before it is freed. NULL is fine. Lock not held. */
void nodes_free(struct nodes *s);

#endif
