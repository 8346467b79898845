/* SPDX-License-Identifier: Apache-2.0 */
/* What a node knows of its own leaving (drain.c, move.c). For internal.h. */
#ifndef OBJECT_DRAIN_STATE_H
#define OBJECT_DRAIN_STATE_H

#include "exec/exec.h"
#include <moyai.h>
#include <stdatomic.h>

struct blocked;
struct object;
struct takers;

#define LEAVE_ASKERS 8u /* of those who have told it, the last: they are told what was cut short */

/* One that depends on this node, and was told to leave. */
struct dependant {
    struct moyai_node_id id;
    bool failed; /* it could not be told: it is not waited for */
};

struct drain {
    atomic_bool begun;
    bool ends;             /* it will begin when what it has started has ended */
    bool over;             /* nothing was outstanding; or its time has passed: the program has been asked to end it */
    bool late;             /* its time has passed */
    bool gone;             /* and its farewell is said, though its program goes on */
    bool freeing;          /* the program ends it: nobody reads answers any more but methods */
    moyai_ns since, until; /* 0: it was not told */
    moyai_dur patience;
    size_t moves, movers; /* objects that are to move and have not, and fibers that see to it */
    struct object *away;  /* those that no fiber has begun with */
    size_t asked;         /* moves that the program has asked for, and that are not over */
    size_t stay;          /* that could not move */
    size_t stay_told;     /* of these, those of which who has told it to leave has heard */
    size_t stay_said;     /* likewise, the log */
    struct moyai_error why_stay;
    struct takers *takers; /* who takes them, by class */
    size_t hooks;          /* on_leave functions that have not returned */
    bool rest;             /* all is over but that what was said is taken */
    uint32_t wave;         /* how often that has come true */
    size_t refusals;       /* since then, that have not been taken */
    bool force;            /* those that depend on it are told to leave, too: these have been */
    struct dependant *dependant;
    size_t n_told;
    size_t cut_off;   /* neighbours that have no other way to the grid, as was said last */
    uint64_t who_cut; /* who these were */
    moyai_ref *asker[LEAVE_ASKERS];
    size_t n_askers;                         /* so far */
    void (*told)(moyai_ns until, void *arg); /* instead of all this, for who ends the node by himself; NULL: none */
    void *told_arg;
    struct blocked *blocked;
    struct exec_waiter *waiter; /* for its end */
    struct exec_hook hook;
    bool looks; /* the hook is set */
    struct exec_timer timer;
};

#endif
