/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node of a grid of several hosts has besides: keys, listening TCP sockets, places where the grid is met, and
 * the links that the peers machine (overlay/peers.h) wants. For the files of the overlay's driver only.
 *
 * A link over TCP is of use when both machines have agreed on it (`up`); a Unix link from its hello on, and if the
 * peers machine wants it, it is one of the mesh besides.
 */
#ifndef OVERLAY_IO_WIDE_H
#define OVERLAY_IO_WIDE_H

#include "overlay/io/internal.h"

struct met;
struct peers;
struct wide;
struct peers_endpoint;
struct peers_frame;

/* Listen, begin to look for others. EINVAL, EPERM, ENOENT (no key), EEXIST (a port is in use) ... */
int wide_new(struct overlay *o, const struct places *places, struct moyai_error *reterr);
void wide_close(struct wide *w); /* no links are made nor taken any more; says goodbye to the places */
void wide_free(struct wide *w);
/* The node goes on under another id (o->cfg.self): first no links are made any more, and when all have ended it begins
 * anew. */
void wide_pause(struct wide *w);
void wide_again(struct wide *w);

const struct met *wide_met(const struct wide *w);     /* of the places where the grid is met */
const struct peers *wide_peers(const struct wide *w); /* the machine, to be looked at */

void wide_hello(struct olink *k, const struct link_hello *h); /* it is greeted */
/* It greets, and is not whom this node called there: the link ends. */
void wide_another(struct olink *k, const struct link_hello *h);
int wide_frame(struct olink *k, const struct frame_head *h, const uint8_t *payload, struct moyai_error *why);
void wide_link_down(struct olink *k,
                    const struct moyai_error *why); /* it has ended, by whoever's doing; it still exists */
void wide_waits(struct wide *w);                    /* a session finds no path; said again with each attempt */
/* What a frame of its peer says of nodes that are dead is left out. forget.c */
void wide_living(const struct olink *k, struct peers_frame *f);
void wide_leave(struct wide *w);   /* no more links are made or taken */
void wide_departs(struct wide *w); /* but while this node has none, and of those who have none */
void wide_need(struct wide *w,
               const struct peers_endpoint *e); /* one link more, to that node; not from within its step */
void wide_died(struct wide *w, const uint8_t id[16]);
const struct peers_endpoint *wide_self(const struct wide *w); /* where this node is */
/* Make a link for the session with that node, which is there; not if there is one, or being made. */
void wide_direct(struct wide *w, struct peer *p, const struct peers_endpoint *e);
void wide_direct_end(struct olink *k); /* it is not needed any more */
int wide_listen(struct overlay *o, const struct tcp_addr *at, struct moyai_error *reterr); /* there, too, told nobody */

#endif
