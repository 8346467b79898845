/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A genetic algorithm for permutations of a flow shop: the work of one island, without moyai.
 *
 * Laws. Every individual is a permutation with its true makespan. The best makespan never gets worse. Equal
 * instances, sizes, seeds and guests give equal populations. One thread at a time; no clock, no I/O.
 */
#ifndef ISLANDS_GENETIC_H
#define ISLANDS_GENETIC_H

#include "examples/flowshop/instance.h"

#include <stdbool.h>
#include <stdint.h>

#define GENETIC_MIN_SIZE 2
#define GENETIC_MAX_SIZE 10000

struct genetic;

/* A first population of size individuals: NEH's solution, mutants of it, random ones. in is borrowed until
 * genetic_free. NULL: out of memory. */
struct genetic *genetic_new(const struct instance *in, int size, uint64_t seed);
void genetic_free(struct genetic *g); /* NULL is fine */

/* A slice of work. A generation, as many children as there are individuals, is one slice or, if it is large, several;
 * a slice ends with the generation. */
void genetic_step(struct genetic *g);
uint64_t genetic_generation(const struct genetic *g); /* how many have been completed */

/* Copies the best, or a random, individual to perm (room for n jobs; NULL: not wanted). Returns its makespan. */
int32_t genetic_best(const struct genetic *g, uint16_t *perm);
int32_t genetic_any(struct genetic *g, uint16_t *perm);

/* Takes in an individual, whose makespan must be right, in place of the worst. false: worse than that, or there
 * already. */
bool genetic_admit(struct genetic *g, const uint16_t *perm, int32_t makespan);

/* The operators. Child: a's first and last jobs at a's places, those between in the order in which b has them. */
void genetic_cross(uint64_t *random, int n, const uint16_t *a, const uint16_t *b, uint16_t *child);
/* Moves one job to another place. */
void genetic_mutate(uint64_t *random, int n, uint16_t *perm);
/* Moves each job once, in random order, to its best place. Returns the makespan, which is no worse. */
int32_t genetic_improve(struct genetic *g, uint16_t *perm);

#endif
