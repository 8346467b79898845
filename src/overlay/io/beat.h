/* SPDX-License-Identifier: Apache-2.0 */
/* Heartbeats, where somebody waits. For the files of the overlay's driver only; lock held. */
#ifndef OVERLAY_IO_BEAT_H
#define OVERLAY_IO_BEAT_H

#include "overlay/io/internal.h"

#define BEAT (2500 * MOYAI_MS) /* of silence where somebody waits, until the link is probed; and until the end */

#define DOUBT (1 * MOYAI_SEC) /* the end, if its node has offered another link as if it had not this one */

#define PATIENCE_MOST (20 * MOYAI_SEC)

/* Where processors are overloaded everything is late, and who took that for silence would end links that are whole,
 * whose replacing makes more work. How long is to be waited beyond the usual time, by how late things have been of
 * late. */
moyai_dur beat_patience(const struct overlay *o);
void beat_late_by(struct overlay *o, moyai_dur late); /* a frame, a timer, or the answer to a ping */

void beat_doubt(struct olink *k); /* it is reset if nothing comes by it very soon */

void beat_measured(struct olink *k); /* the answer to a probe has come */

void beat_begin(struct peer *p); /* a call is open at the peer: until none is, its silence is noticed */

/* The timers of a link and of a peer. */
void beat_late(struct exec *x, struct exec_timer *t);
void beat_due(struct exec *x, struct exec_timer *t);

#endif
