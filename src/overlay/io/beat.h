/* SPDX-License-Identifier: Apache-2.0 */
/* Heartbeats, where somebody waits. For the files of the overlay's driver only; lock held. */
#ifndef OVERLAY_IO_BEAT_H
#define OVERLAY_IO_BEAT_H

#include "overlay/io/internal.h"

#define BEAT (2500 * MOYAI_MS) /* of silence where somebody waits, until the link is probed; and until the end */

void beat_begin(struct peer *p); /* a call is open at the peer: until none is, its silence is noticed */

/* The timers of a link and of a peer. */
void beat_late(struct exec *x, struct exec_timer *t);
void beat_due(struct exec *x, struct exec_timer *t);

#endif
