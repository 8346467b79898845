/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers for the heuristics and the tests: splitmix64, one word of state, any seed is good. */
#ifndef FLOWSHOP_RANDOM_H
#define FLOWSHOP_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* In [0, n), 0 < n < 2^31. The bias of this way is below n / 2^32. */
static inline int random_below(uint64_t *state, int n) {
    return (int)(((random_next(state) >> 32) * (uint64_t)(uint32_t)n) >> 32);
}

static inline double random_unit(uint64_t *state) {
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

#endif
