/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leave machine. Its rules have the names of doc/spec/09-leave.md, R1 to R8 and E1, E2, each at its place; S2 is
 * the paper, whose printed protocol (figure 1 there) loses messages and stops: tests/sim/printed.h keeps it, with what
 * goes wrong in it.
 */
#include "member/leave_internal.h"

#include "base/err.h"

#include <string.h>

/* --- the block ----------------------------------------------------------------------------------- */

static size_t layout(struct leave *l, const struct leave_cfg *cfg) {
    *l = (struct leave){.cap = cfg->ports ? cfg->ports : 512};
    if (l->cap > 65536) return 0;
    l->fx_cap = l->cap + 4; /* a frame to each, and what came with it */
    l->off_fx = (uint32_t)(sizeof *l + l->cap * sizeof(struct leave_port));
    return (l->off_fx + l->fx_cap * sizeof(struct leave_effect) + 15) & ~(size_t)15;
}

size_t leave_size(const struct leave_cfg *cfg) {
    struct leave l;
    return layout(&l, cfg);
}

int leave_init(struct leave *l, const struct leave_cfg *cfg) {
    struct leave head;
    if (layout(&head, cfg) == 0) return MOYAI_EINVAL;
    *l = head;
    return 0;
}

static struct leave_port *add(struct leave *l, uint64_t link) {
    struct leave_port *p = &l->p[l->n++];
    p->link = link;
    return p;
}

static void drop(struct leave *l, struct leave_port *p) {
    const size_t at = (size_t)(p - l->p);
    l->n--;
    memmove(p, p + 1, (l->n - at) * sizeof *p);
    memset(&l->p[l->n], 0, sizeof *p);
}

/* --- what it says --------------------------------------------------------------------------------- */

static struct leave_effect *say(struct leave *l, enum leave_effect_kind kind, uint64_t link) {
    struct leave_effect *fx = &leave_fxs(l)[l->fx_n++];
    *fx = (struct leave_effect){.kind = kind, .link = link};
    return fx;
}

static void say_frame(struct leave *l, const struct leave_port *p, enum leave_frame_kind frame, uint32_t n) {
    struct leave_effect *fx = say(l, LEAVE_FX_FRAME, p->link);
    fx->frame = frame;
    fx->n = n;
}

bool leave_next(struct leave *l, struct leave_effect *out) {
    if (l->fx_at < l->fx_n) {
        *out = leave_fxs(l)[l->fx_at++];
        return true;
    }
    memset(leave_fxs(l), 0, l->fx_n * sizeof(struct leave_effect));
    l->fx_at = l->fx_n = 0;
    return false;
}

static void seek_on(struct leave *l, struct leave_port *p) {
    if (++l->seq == 0) l->seq = 1;
    p->mine = l->seq;
    say_frame(l, p, LEAVE_SEEK, p->mine);
}

static void ack_on(struct leave *l, struct leave_port *p) {
    p->flags |= PORT_ACKED;
    p->flags &= ~(uint64_t)PORT_ASKED;
    p->mine = p->req = 0;
    say_frame(l, p, LEAVE_ACK, 0);
}

static void answer(struct leave *l, struct leave_port *p) {
    say_frame(l, p, LEAVE_ROOT, p->req);
    p->req = 0;
    p->flags &= ~(uint64_t)PORT_ASKED;
}

static void hold(struct leave *l) {
    l->held++;
    (void)say(l, LEAVE_FX_HOLD, 0);
}

/* --- asking --------------------------------------------------------------------------------------- */

static struct leave_port *parent(const struct leave *l) {
    return l->parent ? leave_find(l, l->parent) : NULL;
}

/* What children ask is asked of the parent: one question for all that wait, one at a time. */
static void ask(struct leave *l) {
    struct leave_port *up = parent(l);
    bool any = false;
    if (l->phase != LEAVE_ATTACHED || up->mine) return;
    for (uint32_t i = 0; i < l->n; i++) {
        if (!l->p[i].req || leave_is(&l->p[i], PORT_ASKED)) continue;
        l->p[i].flags |= PORT_ASKED;
        any = true;
    }
    if (any) seek_on(l, up);
}

/* What was asked before is asked anew: of an answer to an earlier question nobody knows whether it still holds. */
static void seek_all(struct leave *l) {
    l->phase = LEAVE_SEEKING;
    l->parent = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        struct leave_port *p = &l->p[i];
        p->flags &= ~(uint64_t)PORT_ASKED;
        p->mine = 0;
        if (!leave_is(p, PORT_OPENING) && !leave_is(p, PORT_ACKED)) seek_on(l, p);
    }
}

/* --- frames --------------------------------------------------------------------------------------- */

/* R5. */
static void on_seek(struct leave *l, struct leave_port *p, uint32_t n) {
    p->flags |= PORT_LEAVING;
    if (leave_is(p, PORT_ACKED)) return;
    p->req = n;
    p->flags &= ~(uint64_t)PORT_ASKED;
    if (l->phase == LEAVE_NORMAL)
        answer(l, p);
    else if (l->phase == LEAVE_ATTACHED && p->link == l->parent)
        seek_all(l); /* the parent has no root, and so we have none */
    else
        ask(l);
}

/* R6. */
static void on_root(struct leave *l, struct leave_port *p, uint32_t n) {
    if (leave_is(p, PORT_ACKED) || n != p->mine) return; /* the answer to an earlier question */
    p->mine = 0;
    if (l->phase == LEAVE_SEEKING) {
        l->parent = p->link;
        l->phase = LEAVE_ATTACHED;
        p->req = 0; /* it has a root, and it is not us */
        ask(l);
    } else if (p->link == l->parent) {
        for (uint32_t i = 0; i < l->n; i++)
            if (l->p[i].req && leave_is(&l->p[i], PORT_ASKED)) answer(l, &l->p[i]);
        ask(l);
    } else if (leave_is(p, PORT_LEAVING)) {
        ack_on(l, p); /* neither is the other's parent */
    }                 /* else a spare: another way out, if the parent is lost */
}

/* R8. Its last frame: ours goes back. */
static void on_ack(struct leave *l, struct leave_port *p) {
    if (!leave_is(p, PORT_ACKED)) ack_on(l, p);
    (void)say(l, LEAVE_FX_CLOSE, p->link);
    drop(l, p);
}

static bool frame_ok(const struct leave *l, const struct leave_port *p, const struct leave_event *ev) {
    if ((uint32_t)ev->frame >= LEAVE_FRAMES || leave_is(p, PORT_OPENING)) return false;
    if (ev->frame != LEAVE_ACK) return ev->n != 0;
    return p->link != l->parent; /* who is somebody's parent waits for his ACK */
}

/* --- the end -------------------------------------------------------------------------------------- */

/* A port that may be closed: the parent's, or that of a neighbour that stays, and knows that we leave. */
static bool is_spare(const struct leave *l, const struct leave_port *p) {
    if (p->link == l->parent) return true;
    return !leave_is(p, PORT_OPENING) && !leave_is(p, PORT_LEAVING) && !leave_is(p, PORT_ACKED) && !p->mine;
}

/* R7. Leaves close first: a child has asked, so it has to have closed its channel. */
static void finish(struct leave *l) {
    if (l->phase == LEAVE_ATTACHED && l->held == 0) {
        for (uint32_t i = 0; i < l->n; i++)
            if (!is_spare(l, &l->p[i])) return;
        l->phase = LEAVE_CLOSING;
        l->parent = 0;
        for (uint32_t i = 0; i < l->n; i++) ack_on(l, &l->p[i]);
    }
    if (l->phase == LEAVE_CLOSING && l->n == 0) {
        l->phase = LEAVE_DONE;
        (void)say(l, LEAVE_FX_DONE, 0);
    }
}

/* --- events --------------------------------------------------------------------------------------- */

static bool seeks(const struct leave *l) {
    return l->phase == LEAVE_SEEKING || l->phase == LEAVE_ATTACHED;
}

/* E1. Also who seeks opens a channel, as it may be cut off (E2b); none that leaves agrees to one. */
static int opening(struct leave *l, uint64_t link) {
    if (l->phase > LEAVE_SEEKING || link == 0 || leave_find(l, link)) return MOYAI_EINVAL;
    if (l->n == l->cap) return MOYAI_ELIMIT;
    add(l, link)->flags = PORT_OPENING;
    return 0;
}

static int open_(struct leave *l, uint64_t link, struct leave_port *p) {
    if (p ? !leave_is(p, PORT_OPENING) : l->phase != LEAVE_NORMAL || link == 0) return MOYAI_EINVAL;
    if (!p && l->n == l->cap) return MOYAI_ELIMIT;
    if (!p) p = add(l, link);
    p->flags = 0;
    if (seeks(l)) seek_on(l, p);
    return 0;
}

/* E2. What was under way is lost, nothing else. */
static void reset(struct leave *l, struct leave_port *p) {
    const bool up = p->link == l->parent;
    drop(l, p);
    if (l->phase == LEAVE_ATTACHED && up) seek_all(l);
}

/* R1. */
static int user_says(struct leave *l, uint64_t link) {
    switch ((enum leave_phase)l->phase) {
    case LEAVE_NORMAL:
        if (!leave_may_send(l, link)) return MOYAI_EINVAL;
        (void)say(l, LEAVE_FX_DATA, link);
        return 0;
    case LEAVE_SEEKING:
        hold(l);
        return 0;
    case LEAVE_ATTACHED:
        if (l->held) return MOYAI_EAGAIN; /* or a user that sends on and on would keep it here for ever */
        (void)say(l, LEAVE_FX_DATA, l->parent);
        return 0;
    default:
        return MOYAI_ELEAVING;
    }
}

int leave_step(struct leave *l, const struct leave_event *ev) {
    struct leave_port *p = ev->link ? leave_find(l, ev->link) : NULL;
    int rc = 0;
    if (l->fx_n || (uint32_t)ev->kind >= LEAVE_EVENTS) return MOYAI_EINVAL;
    switch (ev->kind) {
    case LEAVE_EV_OPENING:
        rc = opening(l, ev->link);
        break;
    case LEAVE_EV_OPEN:
        rc = open_(l, ev->link, p);
        break;
    case LEAVE_EV_REFUSED:
        if (!p || !leave_is(p, PORT_OPENING)) return MOYAI_EINVAL;
        drop(l, p);
        break;
    case LEAVE_EV_RESET:
        if (!p) return MOYAI_EINVAL;
        reset(l, p);
        break;
    case LEAVE_EV_WANT: /* R2 */
        if (l->phase != LEAVE_NORMAL) return MOYAI_EINVAL;
        seek_all(l);
        break;
    case LEAVE_EV_FRAME:
        if (!p) return MOYAI_EINVAL;
        if (!frame_ok(l, p, ev)) return MOYAI_EPROTO;
        if (ev->frame == LEAVE_SEEK) on_seek(l, p, ev->n);
        if (ev->frame == LEAVE_ROOT) on_root(l, p, ev->n);
        if (ev->frame == LEAVE_ACK) on_ack(l, p);
        break;
    case LEAVE_EV_DATA: /* R3 */
        if (!p) return MOYAI_EINVAL;
        if (leave_is(p, PORT_OPENING) || leave_is(p, PORT_ACKED)) return MOYAI_EPROTO;
        if (seeks(l))
            hold(l);
        else
            (void)say(l, LEAVE_FX_DELIVER, ev->link);
        break;
    case LEAVE_EV_SAY:
        rc = user_says(l, ev->link);
        break;
    case LEAVE_EV_PASS: /* R4 */
        if (l->phase != LEAVE_ATTACHED || l->held == 0) return MOYAI_EINVAL;
        l->held--;
        (void)say(l, LEAVE_FX_PASS, l->parent);
        break;
    case LEAVE_EVENTS:
        return MOYAI_EINVAL;
    }
    if (rc == 0) finish(l);
    return rc;
}

/* --- looking -------------------------------------------------------------------------------------- */

enum leave_phase leave_phase(const struct leave *l) {
    return (enum leave_phase)l->phase;
}

uint64_t leave_parent(const struct leave *l) {
    return l->parent;
}

uint32_t leave_held(const struct leave *l) {
    return l->held;
}

bool leave_knows(const struct leave *l, uint64_t link) {
    return link && leave_find(l, link);
}

bool leave_waits(const struct leave *l, uint64_t link) {
    const struct leave_port *p = link ? leave_find(l, link) : NULL;
    return p && (p->mine || leave_is(p, PORT_ACKED));
}

bool leave_alone(const struct leave *l) {
    if (l->phase != LEAVE_SEEKING) return false;
    for (uint32_t i = 0; i < l->n; i++)
        if (!leave_is(&l->p[i], PORT_LEAVING) && !leave_is(&l->p[i], PORT_ACKED)) return false;
    return true;
}

bool leave_may_send(const struct leave *l, uint64_t link) {
    const struct leave_port *p = link ? leave_find(l, link) : NULL;
    return p && l->phase == LEAVE_NORMAL && !(p->flags & (PORT_OPENING | PORT_LEAVING | PORT_ACKED));
}
