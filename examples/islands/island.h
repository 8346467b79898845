/* SPDX-License-Identifier: Apache-2.0 */
/* An island: one object, one process. */
#ifndef ISLANDS_ISLAND_H
#define ISLANDS_ISLAND_H

#include "examples/flowshop/instance.h"

#define ISLAND_PLACES 256 /* the most islands of an instance */

struct island_opts {
    const struct instance *in;
    double seconds;       /* 0: no limit */
    uint64_t generations; /* 0: no limit */
    int32_t target;       /* enough when the makespan is no more than this; 0: never */
    int population;
    uint64_t seed; /* islands of one seed differ in their random numbers all the same */
    int islands;   /* begin when there are so many */
};

/* Joins, breeds until time, target or a signal, agrees on the best and leaves. Returns the exit status. */
int island_main(const struct island_opts *o);

#endif
