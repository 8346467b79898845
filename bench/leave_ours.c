/* SPDX-License-Identifier: Apache-2.0 */
/* A driver of the machine of member/leave.h. What a leaver has to hand over it gives away first (spec/09, section 9).
 */
#include "bench/leave.h"
#include "member/leave.h"

#include <stddef.h>
#include <stdlib.h>

struct ours {
    struct queue held, waiting; /* waiting: of the user, behind those held */
    struct leave *l;
    max_align_t machine[];
};

static uint64_t link_of(const struct port *q) {
    return (uint64_t)(q - q->p->port) + 1;
}

static int step(struct proc *p, struct leave_event ev, uint16_t message) {
    struct ours *o = p->own;
    struct leave_effect fx;
    const int rc = leave_step(o->l, &ev);
    if (rc == MOYAI_EAGAIN || rc == MOYAI_ELEAVING) return rc;
    if (rc < 0) proc_fail(p, moyai_strerror(rc));
    while (leave_next(o->l, &fx)) {
        struct port *q = fx.link ? &p->port[fx.link - 1] : NULL;
        switch (fx.kind) {
        case LEAVE_FX_FRAME:
            proc_send(q, fx.frame, fx.n);
            break;
        case LEAVE_FX_DATA:
            proc_pass(q, message);
            break;
        case LEAVE_FX_PASS:
            proc_pass(q, o->held.message[o->held.at++]);
            break;
        case LEAVE_FX_DELIVER:
            proc_deliver(p, message);
            break;
        case LEAVE_FX_HOLD:
            o->held.message[o->held.n++] = message;
            break;
        case LEAVE_FX_CLOSE:
            q->open = false;
            break;
        case LEAVE_FX_DONE:
            proc_done(p);
            break;
        }
    }
    return 0;
}

/* What is held goes up, then what the user has said meanwhile. */
static void pass(struct proc *p) {
    struct ours *o = p->own;
    while (leave_phase(o->l) == LEAVE_ATTACHED && leave_held(o->l))
        (void)step(p, (struct leave_event){.kind = LEAVE_EV_PASS}, 0);
    while (o->waiting.at < o->waiting.n) {
        const uint16_t m = o->waiting.message[o->waiting.at];
        if (step(p, (struct leave_event){.kind = LEAVE_EV_SAY}, m) < 0) break;
        o->waiting.at++;
    }
}

static void begin(struct proc *p) {
    static const struct leave_cfg cfg = {.ports = PORTS};
    struct ours *o = calloc(1, sizeof *o + leave_size(&cfg));
    if (!o) proc_fail(p, "out of memory");
    o->l = (struct leave *)o->machine;
    if (leave_init(o->l, &cfg) < 0) proc_fail(p, "the machine does not begin");
    p->own = o;
    for (uint32_t i = 0; i < p->ports; i++)
        (void)step(p, (struct leave_event){.kind = LEAVE_EV_OPEN, .link = link_of(&p->port[i])}, 0);
}

static void handed(struct proc *p) {
    (void)step(p, (struct leave_event){.kind = LEAVE_EV_WANT}, 0);
}

static void want(struct proc *p) {
    if (p->draw->state)
        proc_hand_over(p);
    else
        handed(p);
}

static void frame(struct port *q, uint32_t kind, uint32_t n) {
    const struct leave_event ev = {
        .kind = LEAVE_EV_FRAME, .frame = (enum leave_frame_kind)kind, .link = link_of(q), .n = n};
    (void)step(q->p, ev, 0);
    pass(q->p);
}

static void data(struct port *q, uint16_t message) {
    (void)step(q->p, (struct leave_event){.kind = LEAVE_EV_DATA, .link = link_of(q)}, message);
    pass(q->p);
}

/* Over q, or any other to one that stays, as far as known. */
static bool say(struct port *q, uint16_t message) {
    struct ours *o = q->p->own;
    struct leave_event ev = {.kind = LEAVE_EV_SAY, .link = link_of(q)};
    for (uint32_t i = 0; i < q->p->ports && leave_phase(o->l) == LEAVE_NORMAL && !leave_may_send(o->l, ev.link); i++)
        ev.link = link_of(&q->p->port[i]);
    const int rc = step(q->p, ev, message);
    if (rc == MOYAI_EAGAIN) o->waiting.message[o->waiting.n++] = message;
    return rc != MOYAI_ELEAVING;
}

const struct protocol protocol_ours = {
    .name = "moyai", .begin = begin, .want = want, .handed = handed, .frame = frame, .data = data, .say = say};
