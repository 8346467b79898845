/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the verbs that look at a grid share (ping, call, ps, graph): they join it as a node of their own for a moment,
 * which is in no report.
 */
#ifndef CLI_OBSERVE_H
#define CLI_OBSERVE_H

#include "cli/run_grid.h"
#include <moyai.h>
#include <stdio.h>

struct observer {
    moyai_node *node;
    struct run_grid grid;
};

/* --grid, for --help. */
#define OBSERVE_GRID_HELP "The grid: a directory, or as MOYAI_GRID (the default); again for several places"

/* Join the grid; NULL: that of MOYAI_GRID. title: what the node is called. SIGINT and SIGTERM ask it to stop. 0
 * or the exit status, and the reason has been printed. */
int observer_join(struct observer *o, const char *title, const char *grid);
void observer_leave(struct observer *o);

/*
 * What is called that: a reference "moyai:OBJECT@NODE"; a node id of 32 hex digits; a name that an object has; else the
 * beginning of a node's id, four digits or more, if there is just one such node. Nodes are referred
 * to as objects (moyai_node_ref). ENOENT and others, with the text.
 */
int observer_find(struct observer *o, const char *target, moyai_ref **ret, struct moyai_error *why);

/* For a terminal: control characters become '?'. */
void print_clean(FILE *f, const char *text);

#endif
