/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges a claimed solution from the definition of the problem. It shares no code with the solver: neither
 * the makespan of instance.c nor the bounds.
 */
#ifndef FLOWSHOP_CHECK_H
#define FLOWSHOP_CHECK_H

#include "instance.h"

#include <stddef.h>

/* 0: perm has count jobs, is a permutation of the instance's jobs, and has exactly this makespan. -1: *f says
 * what is wrong with it. Any perm, count and makespan may be given. */
int check_solution(const struct instance *in, const uint16_t *perm, size_t count, int64_t makespan, struct fail *f);

#endif
