/* SPDX-License-Identifier: Apache-2.0 */
/* A node that was told to leave: the first phase. All with the node lock held. */
#ifndef OBJECT_DRAIN_H
#define OBJECT_DRAIN_H

#include "object/internal.h"

void drain_init(moyai_node *n);
/* To leave, within that time. Told again: the shorter time holds. */
void drain_begin(moyai_node *n, moyai_dur patience);
/* It is here: if the node leaves, its on_leave is called, once, and it moves to another after that, if it can. */
void drain_object(struct object *ob);
/* How long one may take that is killed after that time: what it has to say comes before. */
moyai_dur drain_before(moyai_dur killed_after);
bool drain_waits(moyai_node *n); /* it has begun, and is to be waited for */
void drain_force(moyai_node *n); /* those that only this node connects with the grid are told to leave, too */
void drain_asked(moyai_node *n, moyai_ref *by); /* told by one with an object that is told what was cut short */
/* That: so many calls and the like, what they are, and how many nodes are cut off, and who. */
void drain_cut(moyai_node *n, size_t cut, const char *what, size_t cut_off, const char *who);
void drain_done(moyai_node *n); /* the node ends */

/* An answer that says that nothing was executed, or of the node itself; and it has been taken, or will not be. */
void drain_refuses(moyai_request *rq);
void drain_refused(moyai_request *rq);
/* Whatever of others has begun here is over, and its caller knows: what they have open here was never executed. */
bool drain_cleared(const moyai_node *n);
/* 0, or why it can reach nobody: its time to leave is over, and it has gone, while its program goes on. */
int drain_gone(const moyai_node *n, struct moyai_error *e);
/* How many of the node's neighbours have no way to the grid but by it, and who: three of them. */
size_t drain_cut_off(const moyai_node *n, char *out, size_t cap);
#define CUT_OFF_TEXT (3 * PEER_NAME + 32)
void drain_name(const moyai_node *n, const struct moyai_node_id *id, char who[PEER_NAME]);

/* Somebody blocks, who is to be told: ELEAVING, if that is so and he has not been. */
int drain_tells(moyai_node *n, struct context *c, struct blocked *b);
void drain_untell(struct blocked *b); /* he blocks no more */

#endif
