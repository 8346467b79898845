/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that ends closes its links by the leave machine: it asks its neighbours for a way out (SEEK), and closes when
 * one that stays has answered, after those that have their way out by it. Each link is closed when both ends have said
 * their last (ACK), so that neither closes a connection in which something is unread.
 *
 * Nodes have no DATA there. What passed through this node has been led elsewhere before, and what was still on its way
 * then comes again by the other path, as sessions number their bytes; what it knows of others' ends, and has told
 * nobody yet, goes to all neighbours before the farewell.
 *
 * Who looks at the grid only is one that stays: so where all members leave at once those that he is linked to go last,
 * and he hears of each that it has left, as every leaver passes on to its parent what it is told of who has. Nobody is
 * kept by one who looks and does not answer: soon his link is no channel any more.
 *
 * Where nobody stays there is no way out: who seeks, and whose neighbours all do, ends when that has been so for some
 * round trips; and in any case when its time is over, be a neighbour stopped or not. Then the links are closed with a
 * farewell only, as those to nodes that do not know of this (hello, key 14).
 */
#include "overlay/io/depart.h"

#include "base/err.h"
#include "member/leave.h"
#include "overlay/io/mourn.h"
#include "overlay/io/route.h"
#include "overlay/io/staying.h"

#include <stdlib.h>
#include <string.h>

#define PORTS       4096u
#define PORTS_SMALL SMALL_LINKS      /* with cfg.small */
#define ALONE_TIME  (200 * MOYAI_MS) /* and four round trips: a neighbour that has a way out would have passed it on */
#define LOOKS_TIME  (500 * MOYAI_MS) /* the same, for one who looks to answer */
#define WRITTEN     (2 * MOYAI_MS)   /* to look again whether the last word has been written */

#define LEFT_MOST 64u

struct depart {
    struct overlay *o;
    struct leave *l;
    struct exec_timer limit, alone, looks, written;
    bool begun, over;
    bool acting;
    bool farewell;              /* said, on all links that the machine closes */
    struct leave_effect *queue; /* said and not acted on yet */
    size_t n, cap;
    struct moyai_node_id left[LEFT_MOST]; /* others are known to have; for the parent, when there is one */
    size_t n_left;
    uint64_t up; /* the parent, or who was the last */
};

static void ended(struct depart *d) {
    if (d->over) return;
    d->over = true;
    exec_timer_clear(d->o->x, &d->limit);
    exec_timer_clear(d->o->x, &d->alone);
    exec_timer_clear(d->o->x, &d->looks);
    overlay_withdrawn(d->o);
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void put32(uint8_t out[4], uint32_t n) {
    for (unsigned i = 0; i < 4; i++) out[i] = (uint8_t)(n >> 8 * i);
}

static uint32_t get32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void send_frame(struct olink *k, uint8_t type, uint32_t label, const uint8_t *p, size_t n) {
    struct frame_head h = {.type = type, .class_ = FRAME_CONTROL, .hops = 1, .label = label, .length = (uint32_t)n};
    struct link_piece piece = {p, n};
    if (link_send(k->link, &h, &piece, n > 0) < 0) link_reset(k->link, MOYAI_ENOMEM, "out of memory for a frame");
}

/* Two that leave are of no more use to each other; the link goes when the other has said its last, too. Till then its
 * answers count, and what it says of the calls that it has. */
static void part(struct olink *k) {
    k->parted = true;
    if (k->mesh) {
        k->mesh = false;
        mourn_link_down(k);
        route_link_down(k);
    }
}

void peer_parted(struct peer *p) {
    if (!p->dead && !olink_ready(p)) peer_fail(p, MOYAI_ECLOSED, "it leaves, as this node does");
}

static void say_last(struct depart *d, struct olink *k) {
    const enum leave_phase phase = leave_phase(d->l);
    const bool parts = phase == LEAVE_SEEKING || phase == LEAVE_ATTACHED;
    if (phase >= LEAVE_CLOSING && !d->farewell) {
        d->farewell = true;
        overlay_last_words(d->o);
    }
    if (phase >= LEAVE_CLOSING) {
        olink_farewell(k);
    } else if (parts && !d->o->closing) { /* who stays has not said his last of anything */
        d->o->cleared = d->o->ops->cleared && d->o->ops->cleared(d->o->ctx);
        peer_last_words(k->peer);
        k->counts &= k->peer->open == 0 && !peer_waiting(k->peer); /* its answers are taken still */
    }
    send_frame(k, FRAME_LEAVE + LEAVE_ACK, olink_last_label(k), NULL, 0);
    link_flush(k->link);
    link_last(k->link);
    k->orderly = true;
    if (k->farewell) return; /* its end tells that its node has left */
    if (parts) part(k);
}

/* ---- the machine ----------------------------------------------------------------------------- */

/* Both have said their last, and what was said here has been written. */
static void close_written(struct depart *d) {
    bool more = false;
    for (struct olink *k = d->o->links; k; k = k->next) {
        if (!k->over) continue;
        link_flush(k->link);
        if (link_queued(k->link) > 0)
            more = true;
        else
            link_reset(k->link, MOYAI_ECLOSED, "closed in order"); /* goes down from the loop */
    }
    if (more) exec_timer_set(d->o->x, &d->written, exec_now(d->o->x) + (moyai_ns)WRITTEN);
}

static void act(struct depart *d, const struct leave_effect *fx) {
    struct olink *k = fx->link ? olink_by_number(d->o, fx->link) : NULL;
    uint8_t n[4];
    switch (fx->kind) {
    case LEAVE_FX_FRAME:
        if (!k) break;
        if (fx->frame == LEAVE_ACK) {
            say_last(d, k);
            break;
        }
        put32(n, fx->n);
        send_frame(k, (uint8_t)(FRAME_LEAVE + fx->frame), 0, n, sizeof n);
        link_flush(k->link);
        break;
    case LEAVE_FX_CLOSE:
        if (!k) break;
        k->over = true;
        if (k->parted) peer_parted(k->peer);
        close_written(d);
        break;
    case LEAVE_FX_DONE:
        ended(d);
        break;
    case LEAVE_FX_DATA: /* nodes have none */
    case LEAVE_FX_PASS:
    case LEAVE_FX_DELIVER:
    case LEAVE_FX_HOLD:
        break;
    }
}

/* Whom it could ask leaves as well: soon they will know whether there is a way out. */
static void look_alone(struct depart *d) {
    struct exec *x = d->o->x;
    moyai_dur trip = 0;
    if (!d->begun || d->over) return;
    if (!leave_alone(d->l)) {
        exec_timer_clear(x, &d->alone);
        return;
    }
    if (d->alone.index != SIZE_MAX) return;
    bool any = false;
    for (const struct olink *k = d->o->links; k; k = k->next) {
        if (!k->port) continue;
        any = true;
        if (k->trip > trip) trip = k->trip;
    }
    exec_timer_set(x, &d->alone, any ? exec_now(x) + (moyai_ns)(ALONE_TIME + 4 * trip) : exec_now(x));
}

static struct olink *looker_owes(const struct depart *d) {
    for (struct olink *k = d->o->links; k; k = k->next)
        if (k->port && k->observer && leave_waits(d->l, k->number)) return k;
    return NULL;
}

/* Who looks may have been stopped: he is waited for, but not for long. */
static void look_lookers(struct depart *d) {
    struct exec *x = d->o->x;
    const struct olink *k = d->begun && !d->over ? looker_owes(d) : NULL;
    if (!k)
        exec_timer_clear(x, &d->looks);
    else if (d->looks.index == SIZE_MAX)
        exec_timer_set(x, &d->looks, exec_now(x) + (moyai_ns)(LOOKS_TIME + 4 * k->trip));
}

/* What this node has been told of others' ends goes up, to where somebody may wait for it. Who looks knows already. */
static void pass_up(struct depart *d) {
    if (leave_phase(d->l) < LEAVE_ATTACHED) return;
    const struct olink *k = d->up ? olink_by_number(d->o, d->up) : NULL;
    for (size_t i = 0; k && !k->observer && i < d->n_left; i++) mourn_pass_on(d->o, k->peer->id, d->left[i].b);
    d->n_left = 0;
}

void depart_left(struct overlay *o, const uint8_t id[16]) {
    struct depart *d = o->depart;
    if (!d || d->over || !(d->begun || staying_leaves(o)) || d->n_left == LEFT_MOST) return;
    memcpy(d->left[d->n_left++].b, id, 16);
    pass_up(d);
}

/* What is done may lead to further events: effects are fetched first, then acted on in order. */
static int step(struct depart *d, const struct leave_event *ev) {
    const enum leave_phase before = leave_phase(d->l);
    const int rc = leave_step(d->l, ev);
    if (leave_parent(d->l))
        d->up = leave_parent(d->l);
    else if (before == LEAVE_SEEKING && leave_phase(d->l) >= LEAVE_ATTACHED)
        d->up = ev->link; /* it may close at once */
    pass_up(d);
    struct leave_effect fx;
    while (leave_next(d->l, &fx)) {
        if (d->n == d->cap) {
            const size_t cap = d->cap ? 2 * d->cap : 8;
            struct leave_effect *q = realloc(d->queue, cap * sizeof *q);
            if (!q) continue; /* as if it had got lost: the time limit is there */
            d->queue = q;
            d->cap = cap;
        }
        d->queue[d->n++] = fx;
    }
    if (d->acting) return rc;
    d->acting = true;
    for (size_t i = 0; i < d->n; i++) {
        fx = d->queue[i];
        act(d, &fx);
    }
    d->n = d->cap = 0;
    free(d->queue);
    d->queue = NULL;
    d->acting = false;
    look_alone(d);
    look_lookers(d);
    return rc;
}

/* ---- what happens ---------------------------------------------------------------------------- */

void depart_link_up(struct olink *k) {
    struct depart *d = k->o->depart;
    if (!d || !k->leaves) return;
    const struct leave_event ev = {.kind = LEAVE_EV_OPEN, .link = k->number};
    k->port = step(d, &ev) == 0; /* not while this node leaves: then the end of the link is its farewell only */
}

void depart_link_down(struct olink *k) {
    if (!k->port) return;
    k->port = false;
    const struct leave_event ev = {.kind = LEAVE_EV_RESET, .link = k->number};
    if (leave_knows(k->o->depart->l, k->number)) (void)step(k->o->depart, &ev);
    look_alone(k->o->depart);
}

int depart_frame(struct olink *k, const struct frame_head *h, const uint8_t *payload, struct moyai_error *why) {
    struct leave_event ev = {.kind = LEAVE_EV_FRAME, .link = k->number};
    ev.frame = (enum leave_frame_kind)(h->type - FRAME_LEAVE);
    if (h->length != (ev.frame == LEAVE_ACK ? 0u : 4u))
        return err_set(why, MOYAI_EPROTO, "frame of type %u and %u bytes", h->type, h->length);
    if (ev.frame != LEAVE_ACK)
        ev.n = get32(payload);
    else
        olink_last_heard(k, h->label);
    if (step(k->o->depart, &ev) == MOYAI_EPROTO)
        return err_set(why, MOYAI_EPROTO, "frame of type %u breaks the protocol", h->type);
    return 0; /* EINVAL: of a link that is no port of ours */
}

static void on_limit(struct exec *x, struct exec_timer *t) {
    (void)x;
    ended((struct depart *)((char *)t - offsetof(struct depart, limit)));
}

static void on_alone(struct exec *x, struct exec_timer *t) {
    (void)x;
    ended((struct depart *)((char *)t - offsetof(struct depart, alone)));
}

static void on_looks(struct exec *x, struct exec_timer *t) {
    struct depart *d = (struct depart *)((char *)t - offsetof(struct depart, looks));
    (void)x;
    for (struct olink *k; !d->over && (k = looker_owes(d));) depart_link_down(k);
}

static void on_written(struct exec *x, struct exec_timer *t) {
    (void)x;
    close_written((struct depart *)((char *)t - offsetof(struct depart, written)));
}

void depart_limit(struct depart *d) {
    if (!d || d->over || d->limit.index != SIZE_MAX) return;
    exec_timer_set(d->o->x, &d->limit, exec_now(d->o->x) + (moyai_ns)DEPART_MOST);
}

bool depart_begin(struct depart *d) {
    const struct leave_event ev = {.kind = LEAVE_EV_WANT};
    bool any = false;
    if (!d || d->begun || d->over || d->o->cfg.observer) return false;
    for (const struct olink *k = d->o->links; k && !any; k = k->next) any = k->port;
    if (!any) return false;
    d->begun = true;
    (void)step(d, &ev);
    return true;
}

/* ---- life ------------------------------------------------------------------------------------ */

int depart_new(struct overlay *o, struct moyai_error *reterr) {
    struct depart *d = calloc(1, sizeof *d);
    if (!d) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    o->depart = d;
    d->o = o;
    exec_timer_init(&d->limit, on_limit);
    exec_timer_init(&d->alone, on_alone);
    exec_timer_init(&d->looks, on_looks);
    exec_timer_init(&d->written, on_written);
    const struct leave_cfg c = {.ports = o->cfg.small ? PORTS_SMALL : PORTS};
    d->l = calloc(1, (leave_size(&c) + 63) / 64 * 64); /* zeros that need not be written */
    const int rc = d->l ? leave_init(d->l, &c) : MOYAI_ENOMEM;
    return rc < 0 ? err_set(reterr, rc, "cannot begin to be left: %s", moyai_strerror(rc)) : 0;
}

void depart_close(struct depart *d) {
    if (!d) return;
    d->over = true;
    exec_timer_clear(d->o->x, &d->limit);
    exec_timer_clear(d->o->x, &d->alone);
    exec_timer_clear(d->o->x, &d->looks);
    exec_timer_clear(d->o->x, &d->written);
}

void depart_free(struct depart *d) {
    if (!d) return;
    free(d->queue);
    free(d->l);
    free(d);
}
