/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers in order of their time, equal times in the order they were set.
 *
 * A pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986) threaded through the timers themselves: setting one
 * cannot fail for want of memory, and the common fate of a deadline, to be set and cleared long before it is due,
 * costs two links each way.
 */
#ifndef EXEC_TIMER_H
#define EXEC_TIMER_H

#include "exec/exec.h"

struct timers {
    struct exec_timer *root; /* the earliest */
    size_t order;            /* number of the next one set */
};

static inline bool timer_is_set(const struct exec_timer *t) {
    return t->index != SIZE_MAX;
}
void timers_set(struct timers *h, struct exec_timer *t, moyai_ns when);
void timers_clear(struct timers *h, struct exec_timer *t);
/* The earliest if it is due at `now` and was set before h->order was `end`, taken out; else NULL. */
struct exec_timer *timers_take_due(struct timers *h, moyai_ns now, size_t end);

#endif
