/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that move to another node (doc/spec/10-moving.md). With the node lock held, unless said otherwise. */
#ifndef OBJECT_MOVE_H
#define OBJECT_MOVE_H

#include "object/internal.h"

#define AGAIN_PAUSE                                                                                                    \
    (100 * MOYAI_MS)               /* before a node is asked again that could not be reached, and each time twice as */
#define AGAIN_MOST (3 * MOYAI_SEC) /* long, up to this */

/* A method or on_leave begins in its scope, and is over. */
void move_enter(struct object *ob);
void move_leave(struct object *ob);
/* A name may become its own, and that is decided: it does not move in between, for its names go along. */
void move_waits(struct object *ob);
void move_goes_on(struct object *ob);
/* Its state has been packed, or is about to come to be its own: it is at neither home just now. */
static inline bool move_is_under_way(const struct object *ob) {
    return ob->at.state != MOVING_HERE;
}
/* Must this request wait until its object has moved, or stays? Then it is kept. */
bool move_parks(moyai_request *rq);
/* It stays, or has ended here: each begins, or is answered that; before those that have come later. */
void move_unpark(struct object *ob);

/* This node leaves, and the object with it, to some node that stays and takes it: from now on its calls wait. If it
 * cannot be moved it is as any other. false: its class does not move. */
bool move_away(struct object *ob);
void move_away_begin(struct object *ob); /* it may go now: after on_leave */
void move_away_more(moyai_node *n);      /* some may go, and no fiber sees to it */
/* The time to leave is over: what waits has not begun, and is told so. */
void move_late(moyai_node *n);

/* As moyai_move, for another node: its object `asker` hears how it went, if this returns 0. */
int move_asked(moyai_node *n, moyai_ref *ref, struct moyai_node_id to, moyai_dur timeout, moyai_ref *asker,
               struct moyai_error *e);

/* That object, by move `number`, was offered to this other node, which asks whose it is. 0: it stays here; 1: it is the
 * other's; 2: and a signal is pending for it. */
int move_claimed(moyai_node *n, const uint8_t object[16], uint64_t number, const uint8_t by[16]);

/* Who takes objects of that class here; NULL: nobody. Borrowed. */
moyai_ref *host_of(moyai_node *n, const char *cls);
/* A node is gone, or unreachable: what had not quite moved from there has not, or is claimed. */
void host_peer_failed(moyai_node *n, const struct peer *p, const struct moyai_error *why);
size_t host_arrivals(const moyai_node *n);                  /* objects that are not quite here */
size_t host_names(const moyai_node *n);                     /* that these will have here */
bool host_is(const moyai_node *n, const struct object *ob); /* its calls begin also where the node leaves: it refuses */
void host_rejoins(moyai_node *n); /* this node was taken for dead: what had not quite moved here is claimed */
void host_done(moyai_node *n);

#endif
