/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `moyai run`. */
#ifndef CLI_RUN_ARGS_H
#define CLI_RUN_ARGS_H

#include "cli/cli.h"
#include "cli/reach.h"
#include "cli/wall.h"

#define RUN_PROCESSES_MOST 32768 /* of a run; as many as process numbers have by default */

struct run_group {
    char **argv; /* ends with NULL; the strings are the command line's */
    unsigned n;
};

struct run_args {
    struct run_group *groups; /* at least one */
    unsigned n_groups, n_processes;
    const char *title; /* "moyai run", for messages */
    struct cli_grid grids;
    const char *grid, *grid_file, *output; /* grid: of grids; the address is not to be copied with the struct */
    const char *site;
    struct cli_reach reach;
    bool keep, print_grid, no_prefix, no_color;
    bool on_nodes;    /* the processes are for agents of the grid */
    const char *dir;  /* there; NULL: as here */
    const char **env; /* NAME=VALUE, for them */
    size_t n_env;
    moyai_dur grace, timeout, wall_time; /* 0: none, but for grace */
    struct wall wall;                    /* once the run has begun */
};

/* Fills all of *a, or exits with a usage hint. */
void run_args_parse(struct run_args *a, int argc, char **argv);
void run_args_done(struct run_args *a);

#endif
