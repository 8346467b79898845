/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locating and paths through relays: the driver of the machines overlay/locate.h and overlay/relay.h. For the files of
 * the overlay's driver only.
 */
#ifndef OVERLAY_IO_ROUTE_H
#define OVERLAY_IO_ROUTE_H

#include "overlay/io/internal.h"

#define SMALL_LINKS 64u /* with cfg.small: the most links */

struct route;

int route_new(struct overlay *o, struct moyai_error *reterr);
void route_close(struct route *r); /* everything that waits is given up */
void route_free(struct route *r);
/* The node leaves: what passes through it goes other ways. overlay_passed follows, within this or in a second at the
 * latest. False: not once more. */
bool route_withdraw(struct route *r);
/* The node goes on under another id (o->cfg.self): first nothing is begun any more, and when all links have ended it
 * begins anew, with the names held here and those that are waited for. */
void route_pause(struct route *r);
void route_again(struct route *r);

void route_link_up(struct olink *k); /* a link of the mesh */
void route_link_down(struct olink *k);
void route_cost(struct olink *k, moyai_dur round_trip);
void route_flush(struct route *t);     /* before the poll: write what has gathered; NULL is fine */
void route_link_room(struct olink *k); /* what was queued on it has drained */
/* A frame of one of both machines, or one of a session under a label. */
int route_frame(struct olink *k, const struct frame_head *h, uint8_t *payload, struct moyai_error *why);
/* Where a session over relays goes from here (relay.h): the path's id by its handle, and the next node. */
bool route_path_id(const struct route *r, uint64_t path, uint64_t *id);
bool route_path_next(const struct route *r, uint64_t id, const struct moyai_node_id *end, struct moyai_node_id *next);
/* The neighbours of whom the link leads to. */
struct locate_neighbour;
size_t route_neighbours(const struct olink *k, struct locate_neighbour *out, size_t n);
/* A frame that is to reach another node, from hand to hand; it may get lost. hops: links that it may take. */
void route_forward(struct overlay *o, const uint8_t to[16], const uint8_t from[16], uint8_t type, const uint8_t *p,
                   size_t n, unsigned hops);
int route_forwarded(struct olink *k, const struct frame_head *h, const uint8_t *payload, struct moyai_error *why);
bool route_known(struct overlay *o, const uint8_t id[16]); /* a way there */
/* Look for a way there; bad: another than that which is known. pings_located follows, from the loop or at once. */
void route_find(struct overlay *o, const uint8_t id[16], bool bad);
#define FORWARD_HOPS 16u
#define FORWARD_HEAD 40u
#define FORWARD_MOST 4096u

/* Frames sent since the start: to find nodes and names; of paths, its own and others'. r NULL: none. */
void route_counts(const struct route *r, uint64_t *locating, uint64_t *forwarded);

/* EDEAD, ECLOSED: by evidence. told: the death machine makes it known, or another node has. */
void route_died(struct route *r, const uint8_t id[16], int code, bool told);

/* Locating may have been told of its end when nobody else here had heard of it: overlay_evidence, then. */
void route_was_told(struct overlay *o, const uint8_t id[16]);

/* It has ended, as the death machine knows now: those are told whose paths to it ended here. */
void route_mourn(struct overlay *o, const uint8_t id[16]);

/* Lay a path to the peer. 0: no memory for one. peer_path_down may follow. */
uint64_t route_open(struct peer *p);
void route_unanswered(struct peer *p, struct via via); /* nothing has come back by it: other ways first */
void route_end(struct route *r, uint64_t path);        /* not needed any more */
void route_want(struct route *r, uint64_t path);       /* something is to be sent; peer_room follows when it may */
/* The frame for which peer_room said room: its type and class, and n bytes to be filled. NULL: out of memory. */
uint8_t *route_send(struct route *r, uint64_t path, const struct frame_head *h);
/* A refusal for what came by the path, as soon as there is room. */
void route_refuse(struct route *r, uint64_t path, const struct session_frame *f);

#endif
