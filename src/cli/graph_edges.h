/* SPDX-License-Identifier: Apache-2.0 */
/* The links of a grid as a graph, and its picture. */
#ifndef CLI_GRAPH_EDGES_H
#define CLI_GRAPH_EDGES_H

#include "cli/crawl.h"
#include <stdio.h>

struct edge {
    size_t a, b;      /* indices of crawl's nodes, a < b */
    const char *kind; /* of the info that told it */
    int64_t queued;   /* bytes, at both ends */
};

struct graph {
    const struct crawl *c;
    struct edge *edge; /* sorted; one for all links of a kind between two nodes */
    size_t n;
    size_t *of;    /* the edges of node i, by index: of[first[i]] to of[first[i + 1] - 1] */
    size_t *first; /* c->n + 1 */
};

/* What at least one end tells, between nodes that are in c. ENOMEM. */
int graph_make(struct graph *g, const struct crawl *c);
void graph_done(struct graph *g);

void graph_svg(const struct graph *g, FILE *f);

#endif
