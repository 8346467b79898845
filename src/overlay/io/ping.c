/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pings: round trips through a node's runtime.
 *
 * A ping waits at its peer until a link is up and has a place for it, then at that link until its pong comes. It may
 * be dropped at any moment and leaves its list at once; the pong that comes later finds nothing and is ignored. What
 * a link has been sent and not answered is counted on the link, dropped or not, and bounded: a peer that is stopped is
 * sent PINGS_MOST pings, however many are tried, and the one after them goes out when it answers again. One whose
 * socket has too many waiting before it is tried again, as sessions do.
 */
#include "overlay/io/internal.h"

#include <string.h>

#define PING_RETRY (10 * MOYAI_MS)

static void push(struct ping_list *l, struct ping *g) {
    g->in = l;
    g->next = NULL;
    g->prev = l->last;
    if (l->last)
        l->last->next = g;
    else
        l->first = g;
    l->last = g;
}

static void unlist(struct ping *g) {
    struct ping_list *l = g->in;
    if (g->prev)
        g->prev->next = g->next;
    else
        l->first = g->next;
    if (g->next)
        g->next->prev = g->prev;
    else
        l->last = g->prev;
    g->in = NULL;
    g->prev = g->next = NULL;
}

static void done(struct ping *g, int code) {
    unlist(g);
    g->fn(g, code);
}

void pings_fail(struct peer *p, int code) {
    for (struct olink *k = p->links; k; k = k->peer_next)
        while (k->pings.first) done(k->pings.first, code);
    while (p->pings.first) done(p->pings.first, code);
}

void pings_send(struct peer *p) {
    struct olink *k = p->pings.first ? olink_ready(p) : NULL;
    if (!k) return;
    while (p->pings.first && k->pongs_due < PINGS_MOST) {
        struct ping *g = p->pings.first;
        uint8_t bytes[8];
        memcpy(bytes, &g->token, 8);
        struct frame_head h = {.type = FRAME_PING, .class_ = FRAME_CONTROL, .hops = 1, .length = 8};
        struct link_piece piece = {bytes, 8};
        if (link_send(k->link, &h, &piece, 1) < 0) {
            link_reset(k->link, MOYAI_ENOMEM, "out of memory");
            return;
        }
        unlist(g);
        push(&k->pings, g);
        k->pongs_due++;
    }
    link_flush(k->link);
}

/* The link has gone: its pings are sent again over another one, before the others. */
void pings_link_down(struct peer *p, struct olink *k) {
    struct ping_list rest = p->pings;
    p->pings = (struct ping_list){NULL, NULL};
    while (k->pings.first) {
        struct ping *g = k->pings.first;
        unlist(g);
        push(&p->pings, g);
    }
    while (rest.first) {
        struct ping *g = rest.first;
        g->in = &rest;
        unlist(g);
        push(&p->pings, g);
    }
}

void pings_pong(struct olink *k, const uint8_t bytes[8]) {
    uint64_t token;
    memcpy(&token, bytes, 8);
    if (k->pongs_due > 0) k->pongs_due--;
    /* Answers come in order: it is the first, or was dropped. No more than PINGS_MOST in any case. */
    struct ping *g = k->pings.first;
    while (g && g->token != token) g = g->next;
    if (g) done(g, 0);
    pings_send(k->peer);
}

static void connect_later(struct peer *p) {
    exec_timer_set(p->o->x, &p->ping_timer, moyai_now() + (moyai_ns)PING_RETRY);
}

void pings_connect(struct peer *p) {
    if (!p->pings.first || olink_ready(p) || olink_coming(p)) return;
    int rc = olink_connect(p);
    if (rc == MOYAI_EAGAIN)
        connect_later(p);
    else if (rc < 0)
        pings_fail(p, rc == MOYAI_EDEAD ? MOYAI_EDEAD : MOYAI_EUNREACHABLE);
}

void pings_due(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct peer *p = (struct peer *)((char *)t - offsetof(struct peer, ping_timer));
    pings_connect(p);
    peer_mark(p);
}

int overlay_ping(struct overlay *o, const uint8_t node[16], struct ping *g) {
    struct peer *p = overlay_peer(o, node);
    if (o->closing) return MOYAI_ECLOSED;
    if (!p) return MOYAI_ENOMEM;
    if (p->dead) return p->why.code;
    if (!olink_ready(p) && !olink_coming(p)) {
        int rc = olink_connect(p);
        if (rc < 0 && rc != MOYAI_EAGAIN) return rc;
        if (rc < 0) connect_later(p);
    }
    g->peer = p;
    g->token = ++o->next_ping;
    push(&p->pings, g);
    pings_send(p);
    return 0;
}

void overlay_ping_drop(struct ping *g) {
    unlist(g);
    peer_mark(g->peer); /* it may have been the last thing */
}
