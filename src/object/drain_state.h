/* SPDX-License-Identifier: Apache-2.0 */
/* What a node knows of its own leaving (drain.c, move.c). For internal.h. */
#ifndef OBJECT_DRAIN_STATE_H
#define OBJECT_DRAIN_STATE_H

#include "exec/exec.h"
#include <moyai.h>
#include <stdatomic.h>

struct blocked;
struct object;

#define DEPENDANTS 16u /* that a node tells to leave */

struct drain {
    atomic_bool begun;
    bool over;    /* nothing was outstanding; or its time has passed: the program has been asked to end it */
    bool late;    /* its time has passed */
    bool gone;    /* and its farewell is said, though its program goes on */
    bool freeing; /* the program ends it: nobody reads answers any more but methods */
    moyai_ns until;
    moyai_dur patience;
    size_t moves, movers; /* objects that are to move and have not, and fibers that see to it */
    struct object *away;  /* those that no fiber has begun with */
    size_t stay;          /* that could not move */
    struct moyai_error why_stay;
    size_t hooks;    /* on_leave functions that have not returned */
    bool rest;       /* all is over but that what was said is taken */
    uint32_t wave;   /* how often that has come true */
    size_t refusals; /* since then, that have not been taken */
    bool force;      /* those that depend on it are told to leave, too: these have been */
    struct moyai_node_id dependant[DEPENDANTS];
    size_t n_told;
    size_t cut_off;                          /* neighbours that have no other way to the grid, as was said last */
    void (*told)(moyai_ns until, void *arg); /* instead of all this, for who ends the node by himself; NULL: none */
    void *told_arg;
    struct blocked *blocked;
    struct exec_waiter *waiter; /* for its end */
    struct exec_hook hook;
    struct exec_timer timer;
};

#endif
