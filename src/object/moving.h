/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an object is while it moves: the rules of doc/spec/10-moving.md, 3, without a clock, a socket or an object.
 * Each node has a state for each object; only where that is MOVING_HERE do calls of it begin. The object belongs to the
 * old home until it says settle, and to the new one from when that comes. Between the two nobody has it, and both keep
 * it: the old home says settle again, and the new one asks whose it is, until one of them hears the other. Its moves
 * are numbered.
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
    MOVING_CLAIMS,  /* the same, and the old home is asked whose it is */
    MOVING_STATES,
};

struct moving {
    enum moving_state state;
    uint64_t number; /* of the move by which it has come, or comes, or of the latest that has failed; 0: none */
    /* Remembered also while it is not here; 0: none. given: the latest move that belongs to the new home by what was
     * said here, though that has not said that it is there; dropped: the latest that did not come to be settled here */
    uint64_t given, dropped;
};

enum moving_event {
    MOVING_EV_OFFER,       /* no method is in progress, and the state is packed */
    MOVING_EV_YES,         /* the other's answer to what was said last */
    MOVING_EV_NO,          /* it was refused */
    MOVING_EV_NEVER,       /* it was said for the first time, and never came to be executed */
    MOVING_EV_PEER_GONE,   /* the other home is dead, or has left: whether it has executed what was said is not known */
    MOVING_EV_UNREACHABLE, /* the session with it has failed: likewise */
    MOVING_EV_REBORN,      /* others have taken this node for dead: it has another id now */
    MOVING_EV_LATE,        /* this node ends */
    MOVING_EV_ADOPT,       /* said by the other, with the number of the move */
    MOVING_EV_SETTLE,
    MOVING_EV_DROP,
    MOVING_EV_CLAIM, /* 0: not by the one to which it is, or was, offered by that move */
    MOVING_EVENTS,
};

enum moving_say {
    MOVING_SAY_NOTHING,
    MOVING_SAY_ADOPT,  /* with the number moving_offer */
    MOVING_SAY_SETTLE, /* with that, too */
    MOVING_SAY_DROP,
    MOVING_SAY_CLAIM, /* with its number */
    MOVING_SAY_YES,
    MOVING_SAY_NO,
};

/* What does not concern m leaves it as it is. number: of ADOPT, SETTLE, DROP and CLAIM. If CLAIM ends an offer, drop is
 * to be said, too: it may be about one before. */
enum moving_say moving_step(struct moving *m, enum moving_event ev, uint64_t number);

/* The number of the move that is said: more than of any before, whether it came about or not. */
static inline uint64_t moving_offer(const struct moving *m) {
    return m->number + 1;
}

/* It has been adopted, and does not belong to this node yet. */
static inline bool moving_arrives(const struct moving *m) {
    return m->state == MOVING_ARRIVES || m->state == MOVING_CLAIMS;
}

#endif
