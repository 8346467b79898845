/* SPDX-License-Identifier: Apache-2.0 */
/* A node that was declared dead, told so, and joins again under another id. For the files of the overlay's driver only.
 */
#ifndef OVERLAY_IO_REJOIN_H
#define OVERLAY_IO_REJOIN_H

#include "overlay/io/internal.h"

void rejoin_init(struct overlay *o);
void rejoin_told(struct overlay *o,
                 const char *cause); /* others have declared this node dead; "": they do not say why */
int rejoin_dead_frame(struct olink *k, const uint8_t *p, size_t n, struct moyai_error *why);
void rejoin_tell(struct olink *k, const uint8_t node[16], const char *text); /* say there that node is dead */
int rejoin_appear(struct overlay *o, struct moyai_error *reterr); /* be found at this host: socket, and entry */

#endif
