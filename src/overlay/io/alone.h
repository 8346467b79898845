/* SPDX-License-Identifier: Apache-2.0 */
/* Telling that a node of a grid of several hosts has lost all others, and found some again. Node lock held. */
#ifndef OVERLAY_IO_ALONE_H
#define OVERLAY_IO_ALONE_H

#include "overlay/io/internal.h"

struct alone {
    struct overlay *o;
    struct exec_timer timer;
    bool said;
    char last[PEER_NAME]; /* the link to whom broke last */
};

void alone_init(struct alone *a, struct overlay *o);
void alone_lost(struct alone *a, const struct olink *k); /* no link is left; that one did not end in order */
void alone_linked(struct alone *a);
void alone_close(struct alone *a);

#endif
