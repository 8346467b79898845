/* SPDX-License-Identifier: Apache-2.0 */
/* What the explorers of all machines share: the command line, and a line for each world. */
#ifndef TESTS_SIM_EXPLORE_MAIN_H
#define TESTS_SIM_EXPLORE_MAIN_H

#include "sim/explore.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The worlds of one explorer: the usual ones, which must be exhausted, and then those of --long. */
struct explore_worlds {
    size_t usual, larger; /* how many */
    struct explore_model (*model)(size_t i, const char **name);
    uint64_t budget, long_budget; /* states of one world, unless --budget says otherwise */
};

/* 0; 1: a law is broken, there was no memory, or the world should have been exhausted. */
static int explore_world(const struct explore_worlds *w, size_t i, const char *only, uint64_t budget,
                         bool must_exhaust) {
    const char *name;
    struct explore_model m = w->model(i, &name);
    if (only && strcmp(only, name)) return 0;
    struct explore_result r;
    clock_t start = clock();
    int rc = explore(&m, budget, stdout, &r);
    printf("%-11s %9" PRIu64 " states %10" PRIu64 " moves %6" PRIu64 " at rest, depth %3" PRIu32 ", %6.1f s: ", name,
           r.states, r.moves, r.rests, r.depth, (double)(clock() - start) / CLOCKS_PER_SEC);
    if (rc < 0)
        printf("%s\n", moyai_strerror(rc));
    else if (r.broken)
        printf("broken: %s\n", r.why.text);
    else if (r.exhausted)
        printf("exhausted\n");
    else
        printf("not exhausted (budget %" PRIu64 ")\n", budget);
    fflush(stdout);
    return rc < 0 || r.broken || (must_exhaust && !r.exhausted);
}

static int explore_main(int argc, char **argv, const struct explore_worlds *w) {
    const char *only = NULL;
    uint64_t budget = 0;
    bool longer = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--long")) {
            longer = true;
        } else if (!strcmp(argv[i], "--only") && i + 1 < argc) {
            only = argv[++i];
        } else if (!strcmp(argv[i], "--budget") && i + 1 < argc) {
            budget = strtoull(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: %s [--long] [--only NAME] [--budget STATES]\n", argv[0]);
            return 2;
        }
    }
    bool whole = budget == 0; /* without a budget of the user's the usual set must be seen whole */
    if (whole) budget = longer ? w->long_budget : w->budget;
    size_t n = w->usual + (longer || only ? w->larger : 0);
    for (size_t i = 0; i < n; i++)
        if (explore_world(w, i, only, budget, whole && i < w->usual)) return 1;
    return 0;
}

#endif
