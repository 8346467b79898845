/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Good permutations quickly, without any proof: the constructive heuristic NEH (Nawaz, Enscore and Ham, 1983) and
 * the iterated greedy method of Ruiz and Stützle (2007), both with Taillard's way of trying all places of a
 * job in one pass.
 */
#ifndef FLOWSHOP_GREEDY_H
#define FLOWSHOP_GREEDY_H

#include "instance.h"

/* NEH: jobs in order of falling total time (ties: lower number), each to its best place (ties: first).
 * perm has room for n jobs. Returns the makespan, -1 without memory. */
int32_t greedy_neh(const struct instance *in, uint16_t *perm);

/* Iterated greedy from NEH for about the given seconds (of wall time; 0: NEH and one local search), ending early
 * at a makespan of target or less (0: no target). Equal seeds take equal steps, but how many depends on the
 * time. Returns the makespan of perm, -1 without memory. */
int32_t greedy_search(const struct instance *in, double seconds, uint64_t seed, int32_t target, uint16_t *perm);

#endif
