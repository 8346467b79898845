/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world of one node and one other process for tests of S0/3.1: an object, the *box*, whose methods block in each of
 * the blocking operations, and the means to let each go on in the ordinary way.
 *
 * What the operations wait for is behind a *gate*, another object of the same node: its method "pass" blocks until the
 * gate is opened. moyai_room waits for a peer that has been stopped with SIGSTOP.
 */
#ifndef TESTS_PUBLIC_BOX_H
#define TESTS_PUBLIC_BOX_H

#include "tests/public/kit.h"

/* X(op, has a masked variant) */
#define BOX_OPS(X)                                                                                                     \
    X(CALL, true)                                                                                                      \
    X(GET, true)                                                                                                       \
    X(WAIT, true)                                                                                                      \
    X(WAIT_ALL, true)                                                                                                  \
    X(SLEEP, true)                                                                                                     \
    X(LOOKUP, false)                                                                                                   \
    X(ROOM, false)

enum box_op {
#define X(op, masked) BOX_##op,
    BOX_OPS(X)
#undef X
        BOX_OPS_N
};
extern const struct box_op_info {
    const char *name;
    bool masked; /* has a masked variant */
} box_ops[BOX_OPS_N];

struct box {
    moyai_node *node;
    moyai_ref *ref, *gate, *peer; /* peer: an object of the other process */
    pid_t pid;
    char name[32]; /* what BOX_LOOKUP waits for */
    moyai_dur nap; /* what BOX_SLEEP sleeps */

    bool open; /* the gate */
    int at_gate;
    moyai_set *gate_set;

    int touched;           /* calls of "touch" */
    int blocked;           /* fibers in "block", before or in their operation */
    moyai_future *pending; /* of a synchronous call that was forced open; ours to free */
    moyai_set *set;        /* of a wait that was forced open, with its futures; ours to free */
};

/* The role of the other process: serves "box-peer". */
int box_peer(int argc, char **argv);

void box_open(struct box *b);
void box_close(struct box *b);

/* Methods of the box:
 *   block(op, masked) -> what the operation returned, as a value
 *   touch() -> how often
 *   signal_me() : signals the box from inside its scope */
moyai_future *box_block(struct box *b, enum box_op op, bool masked); /* and settles: it blocks, or has returned */
int box_result(moyai_future *f);                                     /* what the operation returned; frees f */

/* Make what the operation waits for impossible, and true. */
void box_shut(struct box *b, enum box_op op);
void box_release(struct box *b, enum box_op op);

#endif
