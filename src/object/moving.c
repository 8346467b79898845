/* SPDX-License-Identifier: Apache-2.0 */
#include "object/moving.h"

/* Numbers are not used again: what was said of that move may come still. */
static void stays(struct moving *m) {
    m->state = MOVING_HERE;
    m->number++;
    m->given = 0;
}

static enum moving_say offered(struct moving *m, enum moving_event ev) {
    switch (ev) {
    case MOVING_EV_YES:
        m->state = MOVING_SETTLES;
        return MOVING_SAY_SETTLE;
    case MOVING_EV_UNREACHABLE: /* what may be there goes when it hears that, or asks */
        stays(m);
        return MOVING_SAY_DROP;
    case MOVING_EV_NO:
    case MOVING_EV_NEVER:
    case MOVING_EV_PEER_GONE:
    case MOVING_EV_REBORN:
    case MOVING_EV_LATE:
        stays(m);
        return MOVING_SAY_NOTHING;
    default:
        return MOVING_SAY_NOTHING;
    }
}

/* The other has it, unless it says that it has not: it may have given it on already when it dies. */
static enum moving_say settles(struct moving *m, enum moving_event ev) {
    const bool yours = m->given == moving_offer(m); /* as it was told when it asked */
    switch (ev) {
    case MOVING_EV_UNREACHABLE:
    case MOVING_EV_REBORN:
        return MOVING_SAY_SETTLE;
    case MOVING_EV_NEVER: /* it is there still, though */
        if (yours) return MOVING_SAY_SETTLE;
        stays(m);
        return MOVING_SAY_DROP;
    case MOVING_EV_NO:
        stays(m);
        return MOVING_SAY_DROP;
    case MOVING_EV_YES:
        m->given = 0;
        m->state = MOVING_NONE;
        return MOVING_SAY_NOTHING;
    case MOVING_EV_PEER_GONE:
    case MOVING_EV_LATE:
        m->given = moving_offer(m);
        m->state = MOVING_NONE;
        return MOVING_SAY_NOTHING;
    default:
        return MOVING_SAY_NOTHING;
    }
}

static void comes(struct moving *m) {
    m->state = MOVING_HERE;
    m->given = m->dropped = 0;
}

static void goes(struct moving *m) {
    m->state = MOVING_NONE;
    m->dropped = m->number;
}

/* Nothing was heard of the old home that says whose it is. */
static enum moving_say arrives(struct moving *m, enum moving_event ev) {
    const bool claims = m->state == MOVING_CLAIMS;
    switch (ev) {
    case MOVING_EV_UNREACHABLE:
    case MOVING_EV_REBORN:
        m->state = MOVING_CLAIMS;
        return MOVING_SAY_CLAIM;
    case MOVING_EV_PEER_GONE: /* if it lives, under another id, and has said settle, it says that again */
    case MOVING_EV_LATE:
        goes(m);
        return MOVING_SAY_NOTHING;
    case MOVING_EV_YES:
        if (claims) comes(m);
        return MOVING_SAY_NOTHING;
    case MOVING_EV_NO:
        if (claims) goes(m);
        return MOVING_SAY_NOTHING;
    default:
        return MOVING_SAY_NOTHING;
    }
}

static enum moving_say adopt(struct moving *m, uint64_t number) {
    if (m->state != MOVING_NONE) return MOVING_SAY_NO;
    m->state = MOVING_ARRIVES;
    m->number = number;
    m->dropped = 0;
    return MOVING_SAY_YES;
}

/* Only who has answered yes to adopt is told settle. So it is here, or was, and may have gone on since; unless it was
 * dropped. */
static enum moving_say settle(struct moving *m, uint64_t number) {
    if (moving_arrives(m) && m->number == number) comes(m);
    return m->dropped == number ? MOVING_SAY_NO : MOVING_SAY_YES;
}

/* Whose it is, asks the new home. Told that it stays, that drops it; told the other thing, it may be gone before it
 * hears that, so settle is said all the same. */
static enum moving_say claim(struct moving *m, uint64_t number) {
    if (number == 0) return MOVING_SAY_NO;
    if (m->state == MOVING_OFFERED && moving_offer(m) == number) stays(m);
    if (m->state == MOVING_SETTLES && moving_offer(m) == number) m->given = number;
    return (m->state == MOVING_NONE || m->state == MOVING_SETTLES) && m->given == number ? MOVING_SAY_YES
                                                                                         : MOVING_SAY_NO;
}

enum moving_say moving_step(struct moving *m, enum moving_event ev, uint64_t number) {
    switch (ev) {
    case MOVING_EV_ADOPT:
        return adopt(m, number);
    case MOVING_EV_SETTLE:
        return settle(m, number);
    case MOVING_EV_CLAIM:
        return claim(m, number);
    case MOVING_EV_DROP:
        if (moving_arrives(m) && m->number == number) goes(m);
        return MOVING_SAY_NOTHING;
    case MOVING_EV_OFFER:
        if (m->state != MOVING_HERE) return MOVING_SAY_NOTHING;
        m->state = MOVING_OFFERED;
        return MOVING_SAY_ADOPT;
    default:
        break;
    }
    if (moving_arrives(m)) return arrives(m, ev);
    if (m->state == MOVING_OFFERED) return offered(m, ev);
    return m->state == MOVING_SETTLES ? settles(m, ev) : MOVING_SAY_NOTHING;
}
