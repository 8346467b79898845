/* SPDX-License-Identifier: Apache-2.0 */
/* What a node asks and says that is told to leave a grid of several hosts (staying.c). With the node lock held. */
#ifndef OVERLAY_IO_LEAVING_H
#define OVERLAY_IO_LEAVING_H

#include "overlay/io/overlay.h"

/* This node is to leave, and finishes what it has begun before: its neighbours look that they remain connected without
 * it, and nothing new goes by it, where there is another way. */
void overlay_leaves(struct overlay *o);
bool overlay_may_leave(const struct overlay *o); /* they are, as far as they have said */
/* Those of them that this node alone connects with the others: their ids, n at most; how many. */
size_t overlay_cut_off(const struct overlay *o, struct moyai_node_id *ids, size_t n);
bool overlay_answered(const struct overlay *o); /* all have said so, and who is cut off is known */
/* Those of them that are to leave, too (stay.h, stay_dependants): they do as overlay_leaves, but with *from. */
size_t overlay_dependants(const struct overlay *o, struct moyai_node_id *ids, size_t n, struct moyai_node_id *from);
void overlay_depends(struct overlay *o, const uint8_t from[16]);
bool overlay_linked(const struct overlay *o, const uint8_t id[16]);

#endif
