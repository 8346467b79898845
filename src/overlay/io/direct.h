/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link of their own for two nodes between whom much moves through others, where one is possible: the others have less
 * to carry, and the two have less to wait. For the files of the overlay's driver only; lock held.
 */
#ifndef OVERLAY_IO_DIRECT_H
#define OVERLAY_IO_DIRECT_H

#include "overlay/io/internal.h"

void direct_moved(struct peer *p, size_t bytes); /* of its session, over a path, in either direction */
void direct_over(struct peer *p);                /* its session has ended: so does the link made for it */
/* FRAME_DIRECT_ASK or FRAME_DIRECT_TELL, from hand to hand. What makes no sense is ignored. */
void direct_frame(struct overlay *o, const uint8_t from[16], uint8_t type, const uint8_t *bytes, size_t n);

#endif
