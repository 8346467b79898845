/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many links a node of a grid of several hosts may have. Locating has a number for each, and the system a
 * descriptor: who is refused for want of a place goes to others, and it is said; who is not listened to for want of a
 * descriptor waits in vain. So where descriptors are few there are fewer places, first of those beyond `most`.
 *
 * Pure.
 */
#ifndef OVERLAY_IO_ROOM_H
#define OVERLAY_IO_ROOM_H

#include "overlay/io/overlay.h"

struct room {
    uint32_t degree, most, rescue; /* as of peers_cfg */
    uint32_t half;                 /* connections at once that have not said hello */
};

/* EINVAL: the text names the option. */
int room_of(struct room *ret, const struct overlay_cfg *c, struct moyai_error *reterr);

#endif
