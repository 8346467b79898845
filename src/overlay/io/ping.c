/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pings: round trips through a node's runtime.
 *
 * A ping waits at its peer until a link is up and has a place for it, then at that link until its pong comes. It may
 * be dropped at any moment and leaves its list at once; the pong that comes later finds nothing and is ignored. What
 * a link has been sent and not answered is counted on the link, dropped or not, and bounded: a peer that is stopped is
 * sent PINGS_MOST pings, however many are tried, and the one after them goes out when it answers again. One whose
 * socket has too many waiting before it is tried again, as sessions do.
 *
 * A node of another host to which there is no link is pinged from hand to hand. Such frames may get lost, so a ping
 * that is not answered is sent again, and after some times by another way.
 */
#include "overlay/io/internal.h"
#include "overlay/io/route.h"

#include <string.h>

#define PING_RETRY (10 * MOYAI_MS)
#define FAR_RETRY  (250 * MOYAI_MS)
#define FAR_TRIES  3u /* by one way */

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

static void try_later(struct peer *p, moyai_dur wait) {
    exec_timer_set(p->o->x, &p->ping_timer, moyai_now() + (moyai_ns)wait);
}

static bool is_far(const struct peer *p) {
    struct moyai_node_id id;
    memcpy(id.b, p->id, 16);
    return p->o->route && !p->here && !rundir_has(p->o->dir, &id);
}

static void send_far(struct peer *p) {
    struct overlay *o = p->o;
    unsigned n = 0;
    bool bad = ++p->ping_tries > FAR_TRIES;
    try_later(p, FAR_RETRY);
    if (bad || !route_known(o, p->id)) {
        p->ping_tries = 0;
        route_find(o, p->id, bad); /* pings_located */
        return;
    }
    for (const struct ping *g = p->pings.first; g && n < PINGS_MOST; g = g->next, n++) {
        uint8_t bytes[8];
        memcpy(bytes, &g->token, 8);
        route_forward(o, p->id, o->cfg.self.b, FRAME_PING, bytes, 8, FORWARD_HOPS);
    }
}

void pings_located(struct overlay *o, const uint8_t id[16], bool found) {
    struct peer *p = overlay_find(o, id);
    if (!p || !p->pings.first || olink_ready(p)) return;
    if (!found)
        pings_fail(p, MOYAI_EUNREACHABLE);
    else if (route_known(o, id)) /* else it has gone again: at the next try */
        send_far(p);
}

void pings_far(struct overlay *o, const uint8_t from[16], uint8_t type, const uint8_t *bytes, size_t n) {
    if (n != 8) return;
    if (type == FRAME_PING) {
        route_forward(o, from, o->cfg.self.b, FRAME_PONG, bytes, 8, FORWARD_HOPS);
        if (!route_known(o, from)) route_find(o, from, false); /* for the next */
        return;
    }
    struct peer *p = overlay_find(o, from);
    uint64_t token;
    memcpy(&token, bytes, 8);
    struct ping *g = p ? p->pings.first : NULL;
    while (g && g->token != token) g = g->next;
    if (!g) return;
    p->ping_tries = 0;
    done(g, 0);
    peer_mark(p);
}

void pings_connect(struct peer *p) {
    if (!p->pings.first || olink_ready(p) || olink_coming(p)) return;
    if (is_far(p)) {
        send_far(p);
        return;
    }
    int rc = olink_connect(p);
    if (rc == MOYAI_EAGAIN)
        try_later(p, PING_RETRY);
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
    if (p->dead) return p->why_code;
    bool far = !olink_ready(p) && !olink_coming(p) && is_far(p);
    if (!far && !olink_ready(p) && !olink_coming(p)) {
        int rc = olink_connect(p);
        if (rc < 0 && rc != MOYAI_EAGAIN) return rc;
        if (rc < 0) try_later(p, PING_RETRY);
    }
    g->peer = p;
    g->token = ++o->next_ping;
    push(&p->pings, g);
    if (far)
        try_later(p, 0); /* from the loop: fn is never called from here */
    else
        pings_send(p);
    return 0;
}

void overlay_ping_drop(struct ping *g) {
    unlist(g);
    peer_mark(g->peer); /* it may have been the last thing */
}
