/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a run: its processes, from the first start to the last end (run_life.c). */
#ifndef CLI_RUN_LIFE_H
#define CLI_RUN_LIFE_H

#include "cli/run_args.h"
#include "cli/run_grid.h"
#include "cli/run_guard.h"

/* Be the runner. Returns the status to exit with. Does not return if front or keeper are killed: kills everything,
 * removes the grid's directory, and exits. */
int run_live(const struct run_args *a, struct run_grid *grid, const struct guard *guard);

#endif
