/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving, second phase: links are closed in the order that the leave machine says (member/leave.h,
 * doc/spec/09-leave.md, 10). For the files of the overlay's driver only. A node without routes (a grid of one host, or
 * none) has no such: NULL is fine everywhere.
 */
#ifndef OVERLAY_IO_DEPART_H
#define OVERLAY_IO_DEPART_H

#include "overlay/io/internal.h"

#define DEPART_MOST (1400 * MOYAI_MS) /* from when what passes is led elsewhere until all is over */

struct depart;

int depart_new(struct overlay *o, struct moyai_error *reterr);
void depart_free(struct depart *d);
void depart_close(struct depart *d); /* nothing more is done or told */

void depart_link_up(struct olink *k);   /* a link that sessions may use */
void depart_link_down(struct olink *k); /* it has ended */
int depart_frame(struct olink *k, const struct frame_head *h, const uint8_t *payload, struct moyai_error *why);

/* Somebody has told this node that the one of that id has left. */
void depart_left(struct overlay *o, const uint8_t id[16]);

/* leave.c. */
void overlay_passed(struct overlay *o);           /* nothing passes through this node any more */
void overlay_withdrawn(struct overlay *o);        /* and it may end */
void overlay_last_words(struct overlay *o);       /* what can still be said is, and all else is given up */
void olink_farewell(struct olink *k);             /* after those */
uint32_t olink_last_label(const struct olink *k); /* of a farewell, or ACK */
void olink_last_heard(struct olink *k, uint32_t label);
/* What can be said to it still is said, and how much of it was taken (`counts` of the link). */
void peer_last_words(struct peer *p);
void peer_parted(struct peer *p); /* by the last link to one that leaves, as this node does, all is said */

/* This node is to leave: overlay_withdrawn follows in DEPART_MOST at the latest. */
void depart_limit(struct depart *d);
/* Nothing passes through it any more: now its links are closed. False: there are none to be closed so. */
bool depart_begin(struct depart *d);

#endif
