/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an object is while it moves: the rules of doc/spec/10-moving.md, 3, without a clock, a socket or an object.
 * Each node has a state for each object; only where that is MOVING_HERE do calls of it begin. The object belongs to the
 * old home until it says settle, and to the new one from when that comes. Its moves are numbered, so that a settle of
 * an earlier one, said again because its answer was not heard, is known when the object comes round.
 */
#ifndef OBJECT_MOVING_H
#define OBJECT_MOVING_H

#include <stdbool.h>
#include <stdint.h>

enum moving_state {
    MOVING_NONE,    /* not at this node */
    MOVING_HERE,    /* calls begin */
    MOVING_OFFERED, /* adopt has been said */
    MOVING_SETTLES, /* settle has been said */
    MOVING_ARRIVES, /* adopted, and not settled */
    MOVING_STATES,
};

struct moving {
    enum moving_state state;
    uint64_t number; /* of the move by which it has come, or comes; 0: it was made here */
    uint64_t seen;   /* of the latest move by which it has come: what has gone is remembered; 0: none */
};

enum moving_event {
    MOVING_EV_OFFER,       /* no method is in progress, and the state is packed */
    MOVING_EV_YES,         /* the other's answer to what was said last */
    MOVING_EV_NO,          /* it was refused, or never came to be executed */
    MOVING_EV_PEER_GONE,   /* the other home is dead, or has left: whether it has executed what was said is not known */
    MOVING_EV_UNREACHABLE, /* the session with it has failed: likewise */
    MOVING_EV_LATE,        /* that has been so for long */
    MOVING_EV_REBORN,      /* others have taken this node for dead: it has another id now */
    MOVING_EV_ADOPT,       /* said by the other, with the number of the move */
    MOVING_EV_SETTLE,
    MOVING_EV_DROP,
    MOVING_EVENTS,
};

enum moving_say {
    MOVING_SAY_NOTHING,
    MOVING_SAY_ADOPT,  /* with the number moving_offer */
    MOVING_SAY_SETTLE, /* with that, too */
    MOVING_SAY_DROP,
    MOVING_SAY_YES,
    MOVING_SAY_NO,
};

/* What does not concern m leaves it as it is. number: of ADOPT, SETTLE and DROP. */
enum moving_say moving_step(struct moving *m, enum moving_event ev, uint64_t number);

/* The number of the move that is said. */
static inline uint64_t moving_offer(const struct moving *m) {
    return m->number + 1;
}

#endif
