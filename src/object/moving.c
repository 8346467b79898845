/* SPDX-License-Identifier: Apache-2.0 */
#include "object/moving.h"

static enum moving_say offered(struct moving *m, enum moving_event ev) {
    switch (ev) {
    case MOVING_EV_YES:
        m->state = MOVING_SETTLES;
        return MOVING_SAY_SETTLE;
    case MOVING_EV_UNREACHABLE: /* what may be there goes as soon as it notices that, too */
        m->state = MOVING_HERE;
        return MOVING_SAY_DROP;
    case MOVING_EV_NO:
    case MOVING_EV_PEER_GONE:
    case MOVING_EV_REBORN:
        m->state = MOVING_HERE;
        return MOVING_SAY_NOTHING;
    default:
        return MOVING_SAY_NOTHING;
    }
}

/* The other has it, unless it says that it has not: it may have given it on already when it dies. */
static enum moving_say settles(struct moving *m, enum moving_event ev) {
    switch (ev) {
    case MOVING_EV_UNREACHABLE:
        return MOVING_SAY_SETTLE;
    case MOVING_EV_NO: /* it may be there, though, if that was not what refused */
        m->state = MOVING_HERE;
        return MOVING_SAY_DROP;
    case MOVING_EV_YES:
    case MOVING_EV_PEER_GONE:
    case MOVING_EV_LATE:
    case MOVING_EV_REBORN:
        m->state = MOVING_NONE;
        return MOVING_SAY_NOTHING;
    default:
        return MOVING_SAY_NOTHING;
    }
}

static enum moving_say adopt(struct moving *m, uint64_t number) {
    if (m->state != MOVING_NONE) return MOVING_SAY_NO;
    m->state = MOVING_ARRIVES;
    m->number = number;
    return MOVING_SAY_YES;
}

/* Said again, of a move that it has come by, it is answered so: it may have gone on since. */
static enum moving_say settle(struct moving *m, uint64_t number) {
    if (m->state == MOVING_ARRIVES && m->number == number) {
        m->state = MOVING_HERE;
        m->seen = number;
    }
    return number <= m->seen ? MOVING_SAY_YES : MOVING_SAY_NO;
}

enum moving_say moving_step(struct moving *m, enum moving_event ev, uint64_t number) {
    const bool ends = ev == MOVING_EV_PEER_GONE || ev == MOVING_EV_UNREACHABLE || ev == MOVING_EV_REBORN;
    switch (ev) {
    case MOVING_EV_ADOPT:
        return adopt(m, number);
    case MOVING_EV_SETTLE:
        return settle(m, number);
    case MOVING_EV_DROP:
        if (m->state == MOVING_ARRIVES && m->number == number) m->state = MOVING_NONE;
        return MOVING_SAY_NOTHING;
    case MOVING_EV_OFFER:
        if (m->state != MOVING_HERE) return MOVING_SAY_NOTHING;
        m->state = MOVING_OFFERED;
        return MOVING_SAY_ADOPT;
    default:
        break;
    }
    if (m->state == MOVING_ARRIVES && ends) m->state = MOVING_NONE;
    if (m->state == MOVING_OFFERED) return offered(m, ev);
    return m->state == MOVING_SETTLES ? settles(m, ev) : MOVING_SAY_NOTHING;
}
