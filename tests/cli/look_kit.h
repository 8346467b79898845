/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the verbs that look at a grid: a grid of three nodes, a, b and the run that has started them. */
#ifndef TESTS_CLI_LOOK_KIT_H
#define TESTS_CLI_LOOK_KIT_H

#include "tests/cli/kit.h"

#include <string.h>

extern struct cli run;
extern char grid[200];
extern pid_t pid_a, pid_b;
/* What the command prints; the last run's texts. */
extern struct cli c;

/* Do it in the grid and give the status. */
#define IN_GRID(...) in_grid((const char *const[]){__VA_ARGS__, NULL})
int in_grid(const char *const *words);

#define HAS(text, part)                                                                                                \
    do {                                                                                                               \
        if (!strstr(text, part)) fail_msg("no '%s' in:\n%s", part, text);                                              \
    } while (0)
#define HAS_NOT(text, part)                                                                                            \
    do {                                                                                                               \
        if (strstr(text, part)) fail_msg("'%s' in:\n%s", part, text);                                                  \
    } while (0)

/* Around a test. */
#define RUN(test) cmocka_unit_test_setup_teardown(test, open_run, close_run)
int open_run(void **state);
int close_run(void **state);

pid_t pid_of(const char *name); /* of the process that has that object */
/* The node's id of the process, as ps has it. */
void id_of(pid_t pid, char id[33]);
/* Entries of nodes in the rendezvous: who looked is out of it again. */
int entries(void);

#endif
