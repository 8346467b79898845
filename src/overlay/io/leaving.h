/* SPDX-License-Identifier: Apache-2.0 */
/* What a node asks and says that is told to leave a grid of several hosts (staying.c). With the node lock held. */
#ifndef OVERLAY_IO_LEAVING_H
#define OVERLAY_IO_LEAVING_H

#include "overlay/io/overlay.h"

/* This node is to leave, and finishes what it has begun before: its neighbours look that they remain connected without
 * it, and nothing new goes by it, where there is another way. */
void overlay_leaves(struct overlay *o);
void overlay_ends_others(struct overlay *o); /* it is a run or an agent: before that */
bool overlay_may_leave(const struct overlay *o); /* they are, as far as they have said, or another sees to it */
/* Those of them that this node alone connects with the others: their ids, n at most; how many. */
size_t overlay_cut_off(const struct overlay *o, struct moyai_node_id *ids, size_t n);
bool overlay_answered(const struct overlay *o); /* all have said so, and who is cut off is known */
/* Those of them that are to leave, too (stay.h, stay_dependants): they do as overlay_leaves, but with *from. */
size_t overlay_dependants(const struct overlay *o, struct moyai_node_id *ids, size_t n, struct moyai_node_id *from);
void overlay_depends(struct overlay *o, const uint8_t from[16]);
/* Is it known when that node goes, or has it gone, so that overlay_may_leave heeds it? */
bool overlay_orders(const struct overlay *o, const uint8_t id[16]);
void overlay_done(struct overlay *o); /* what this node has begun is finished: those before it need not fear for that */
/* As overlay_cut_off: neighbours that leave, too, have not finished, and have no nearer way than this node (stay.h,
 * stay_behind); and those that have not said whether they have another. */
size_t overlay_behind(const struct overlay *o, struct moyai_node_id *ids, size_t n);
size_t overlay_unanswered(const struct overlay *o, struct moyai_node_id *ids, size_t n);

#endif
