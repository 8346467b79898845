/* SPDX-License-Identifier: Apache-2.0 */
/* Random streams. Machines get one of these and never ask the system: one seed, one run. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct moyai_rng {
    uint64_t s[4]; /* xoshiro256**; a plain value, part of whoever owns it */
};

void rng_seed(struct moyai_rng *r, uint64_t seed);
/* A stream of its own for the named purpose, so that one more draw elsewhere does not shift it. */
void rng_fork(const struct moyai_rng *parent, const char *name, uint64_t index, struct moyai_rng *child);
uint64_t rng_next(struct moyai_rng *r);
uint64_t rng_below(struct moyai_rng *r, uint64_t n); /* uniform in [0, n), n > 0 */
void rng_bytes(struct moyai_rng *r, void *p, size_t n);
/* Bytes from the system (getrandom): for ids and seeds of real nodes. 0 or MOYAI_ESYS. */
int rng_system(void *p, size_t n);

#endif
