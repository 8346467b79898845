/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The locks that belong to the process and not to a node, and what happens to them at a fork: process.c.
 *
 * A lock at file scope anywhere else would be held for ever in a child that was forked meanwhile; tools/check-layers
 * refuses it.
 */
#ifndef EXEC_PROCESS_H
#define EXEC_PROCESS_H

/* In the order in which they are taken: who holds one may take one that stands below. */
enum process_lock {
    PROCESS_NODES, /* which nodes say farewell when the program ends (src/node) */
    /* Here the locks of nodes; who holds one takes no other node's. */
    PROCESS_EXECS,     /* which execs there are (process.c) */
    PROCESS_OVERFLOW,  /* the handler of SIGSEGV (overflow.c) */
    PROCESS_LIBRARIES, /* what is loaded on demand (src/overlay/io/meet_http.c) */
    PROCESS_LOCKS
};
void process_take(enum process_lock which);
void process_release(enum process_lock which);

/* Release, wait for a process_wake of the same lock, or for nothing, and take again. */
void process_wait(enum process_lock which);
void process_wake(enum process_lock which); /* all who wait. Lock held */

#endif
