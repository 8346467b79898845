/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time: events by (time, sequence) and nothing global, so that many worlds fit in a process and a run depends
 * on its seed alone. Events of equal time happen in the order in which they were set, or, to find code that relies
 * on it, in an order drawn from the seed.
 *
 * A simulation that runs out of memory aborts.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "base/rng.h"

#include <moyai/base.h>

typedef void world_fn(void *who, uint64_t what);

struct world {
    moyai_ns now;
    uint64_t steps;       /* events that have happened */
    struct moyai_rng rng; /* fork it for each purpose */
    bool shuffle;
    struct moyai_rng ties;
    uint64_t sequence;
    struct world_event *heap; /* far ahead */
    size_t n, cap;
    struct world_wheel *wheel; /* between the two, once there are many; else NULL */
    struct world_event *batch; /* what is next: all before `until`, from at to end */
    size_t at, end, batch_cap;
    moyai_ns until;
    /* NULL, or called for events that are soon to happen, in turn with each stage: to have memory fetched, nothing
     * else. Not for all: an event may be set at once. */
    void (*ahead)(world_fn *fn, void *who, uint64_t what, unsigned stage);
};
#define WORLD_STAGES 7u

void world_init(struct world *w, uint64_t seed, bool shuffle_ties); /* time starts at one second */
void world_done(struct world *w);

/* Call fn(who, what) at that time, or now if it has passed. It cannot be taken back: what tells an outdated one. */
void world_at(struct world *w, moyai_ns when, world_fn *fn, void *who, uint64_t what);
static inline void world_in(struct world *w, moyai_dur span, world_fn *fn, void *who, uint64_t what) {
    world_at(w, w->now + (moyai_ns)span, fn, who, what);
}

bool world_step(struct world *w); /* the next event; false: there is none */
/* Step until pred(arg) holds (checked after each step; NULL: never) or the next event lies beyond `limit`; then it is
 * `limit`. Returns whether pred holds. */
bool world_run(struct world *w, bool (*pred)(void *arg), void *arg, moyai_ns limit);

void *sim_alloc(size_t n); /* zeroed, aligned to 16; free() it */

#endif
