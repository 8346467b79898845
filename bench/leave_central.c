/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine is compared with (S2, 5.1): a fixed server lets one process leave at a time. Who is admitted asks on
 * all channels at once for the last that comes (FLUSH, answered by FLUSHED), gives what has come since it was admitted
 * to a neighbour, and goes. Until it is admitted it is like any other.
 *
 * The neighbour that it gives that to is one that has answered, so it does not leave before the server hears that we
 * have.
 */
#include "bench/leave.h"

#include <stdlib.h>

enum {
    ASK,     /* to the server: may I leave? */
    ADMIT,   /* from it */
    LEFT,    /* to it: the next may */
    FLUSH,   /* I send no more here but what others have given me, and GONE */
    FLUSHED, /* and I nothing */
    GONE,    /* my last frame */
};

struct central {
    enum { STAYS, ADMITTED, OVER } phase;
    uint32_t flushing; /* channels of which the last has not come */
    struct queue held;
    /* the server's */
    struct port *asked[NODES];
    uint32_t at, n;
    bool busy;
};

static void begin(struct proc *p) {
    p->own = calloc(1, sizeof(struct central));
    if (!p->own) proc_fail(p, "out of memory");
}

static struct port *server(struct proc *p) {
    return &p->port[p->ports - 1];
}

static void finish(struct proc *p) {
    struct central *c = p->own;
    struct port *to = NULL;
    for (uint32_t i = 0; i + 1 < p->ports && !to; i++)
        if (p->port[i].open && p->port[i].flushed) to = &p->port[i];
    while (c->held.at < c->held.n) {
        if (!to) proc_fail(p, "nobody is there to take what it holds");
        proc_pass(to, c->held.message[c->held.at++]);
    }
    for (uint32_t i = 0; i + 1 < p->ports; i++) {
        if (!p->port[i].open) continue;
        proc_send(&p->port[i], GONE, 0);
        p->port[i].open = false;
    }
    proc_send(server(p), LEFT, 0);
    server(p)->open = false;
    c->phase = OVER;
    proc_done(p);
}

static void flush(struct proc *p) {
    struct central *c = p->own;
    for (uint32_t i = 0; i + 1 < p->ports; i++) {
        if (!p->port[i].open) continue;
        proc_send(&p->port[i], FLUSH, 0);
        p->port[i].asked = true;
        c->flushing++;
    }
    if (!c->flushing) finish(p);
}

static void one_flushed(struct proc *p) {
    struct central *c = p->own;
    if (--c->flushing == 0) finish(p);
}

static void want(struct proc *p) {
    if (p->draw->state && p->draw->state_before)
        proc_hand_over(p);
    else
        proc_send(server(p), ASK, 0);
}

static void handed(struct proc *p) {
    if (p->draw->state_before)
        proc_send(server(p), ASK, 0);
    else
        flush(p);
}

static void admit_next(struct proc *p) {
    struct central *c = p->own;
    if (c->busy || c->at == c->n) return;
    c->busy = true;
    proc_send(c->asked[c->at++], ADMIT, 0);
}

static void frame(struct port *q, uint32_t kind, uint32_t n) {
    struct proc *p = q->p;
    struct central *c = p->own;
    (void)n;
    switch (kind) {
    case ASK:
        c->asked[c->n++] = q;
        admit_next(p);
        break;
    case LEFT:
        c->busy = false;
        q->open = false;
        admit_next(p);
        break;
    case ADMIT:
        c->phase = ADMITTED;
        if (p->draw->state && !p->draw->state_before)
            proc_hand_over(p);
        else
            flush(p);
        break;
    case FLUSH:
        q->shut = true;
        if (q->open) proc_send(q, FLUSHED, 0);
        break;
    case FLUSHED:
        q->flushed = true;
        one_flushed(p);
        break;
    case GONE:
        q->open = false;
        if (q->asked && !q->flushed) one_flushed(p);
        break;
    default:
        proc_fail(p, "a frame that there is not");
    }
}

static void data(struct port *q, uint16_t message) {
    struct central *c = q->p->own;
    if (c->phase == STAYS)
        proc_deliver(q->p, message);
    else if (c->phase == ADMITTED)
        c->held.message[c->held.n++] = message;
    else
        proc_fail(q->p, "a message for one that has left");
}

static bool say(struct port *q, uint16_t message) {
    struct proc *p = q->p;
    struct central *c = p->own;
    if (c->phase == OVER) return false;
    if (c->phase == ADMITTED) {
        c->held.message[c->held.n++] = message;
        return true;
    }
    for (uint32_t i = 0; !q->open || q->shut; i++) {
        if (i + 1 == p->ports) proc_fail(p, "no channel is left");
        q = &p->port[i];
    }
    proc_pass(q, message);
    return true;
}

const struct protocol protocol_central = {.name = "a central server",
                                          .server = true,
                                          .begin = begin,
                                          .want = want,
                                          .handed = handed,
                                          .frame = frame,
                                          .data = data,
                                          .say = say};
