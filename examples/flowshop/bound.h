/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lower bounds of partial schedules, for all children of a node at once.
 *
 * A node of the search is a prefix and a suffix of the permutation; the jobs between are still free. A child
 * puts one free job behind the prefix (FRONT) or before the suffix (BACK). This module keeps the state of the
 * nodes on one path from the empty schedule down to the present node, one *level* each (as many jobs are
 * scheduled as the level's number), and knows nothing of the order of search. One thread at a time.
 */
#ifndef FLOWSHOP_BOUND_H
#define FLOWSHOP_BOUND_H

#include "instance.h"

#include <stdbool.h>
#include <stdint.h>

enum end { FRONT, BACK };

struct child {
    int32_t bound; /* no completion is shorter; exact if no job is left free */
    uint16_t job;
    bool marked; /* for the user; bound_branch clears it */
};

struct bound;

/* Level 0, the empty schedule, is ready. in is borrowed until bound_free. NULL: out of memory. */
struct bound *bound_new(const struct instance *in);
void bound_free(struct bound *b);

/* Level + 1 becomes the child of level that has job, free at level, at the given end. The levels below it
 * are lost; those above stay. */
void bound_descend(struct bound *b, int level, enum end end, uint16_t job);

/* Bounds the children of level at both ends and takes the end with fewer children below upper (ties: the
 * one with the larger sum of bounds). Stores these children in out[] (room for all free jobs), largest bound
 * first, and returns how many they are. The level, which must have a free job, stays as it is. */
int bound_branch(struct bound *b, int level, int32_t upper, struct child *out, enum end *end);

/* The bound of the level itself: what bound_branch said when it was a child, and Taillard's machine bound
 * at level 0. */
int32_t bound_level(const struct bound *b, int level);

/* Taillard's lower bound of an instance: the busiest machine with the least possible time before and after
 * it, or the longest job. */
int32_t bound_instance(const struct instance *in);

/* All kernels give the same results: they differ in the width of numbers and in instructions. bound_new takes
 * the fastest. For tests and benches: take number k instead, back at level 0; false: there is no such one, or this
 * processor or instance cannot use it. */
bool bound_use_kernel(struct bound *b, int k);
const char *bound_kernel_name(const struct bound *b);
#define BOUND_KERNELS 3

#endif
