/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of the stay machine (overlay/stay.h): those that stay remain connected when a node goes. For the files of
 * the overlay's driver only. A node without routes has no such: NULL is fine everywhere.
 */
#ifndef OVERLAY_IO_STAYING_H
#define OVERLAY_IO_STAYING_H

#include "overlay/io/internal.h"
#include "overlay/peers.h"

struct staying;

int staying_new(struct overlay *o, struct moyai_error *reterr);
void staying_free(struct staying *s);
void staying_close(struct staying *s); /* nothing more is done */
void staying_again(struct staying *s); /* under another id, when all links have ended */

void staying_link_up(struct olink *k, const struct peers_endpoint *e); /* of the mesh; where its node is */
void staying_link_down(struct olink *k);
int staying_frame(struct olink *k, const struct peers_frame *f, struct moyai_error *why);
void staying_died(struct overlay *o, const uint8_t id[16]);
void staying_failed(struct overlay *o, const uint8_t id[16]);         /* it cannot be connected to */
bool staying_needs(const struct overlay *o, const uint8_t id[16]);    /* a link to it is wanted */
bool staying_only(const struct olink *k);                             /* there are others, all to nodes that leave */
bool staying_leaves(const struct overlay *o);                         /* this node has been told to leave */
bool staying_check(const struct overlay *o, struct moyai_error *why); /* its invariants */

#endif
