/* SPDX-License-Identifier: Apache-2.0 */
/* The master: hands out subproblems to whoever comes, until every instance is proved. */
#ifndef FLOWSHOP_MASTER_H
#define FLOWSHOP_MASTER_H

#include <stddef.h>
#include <stdint.h>

struct master_opts {
    char **names; /* instances: flowshop master ta011 ta012 ... */
    size_t n_names;
    double greedy;        /* seconds of iterated greedy for the start value, on every worker there is */
    int32_t upper;        /* > 0: start value instead */
    int workers;          /* begin when so many have come; 0: with the first */
    const char *svg;      /* picture of the run; NULL: none */
    const char *progress; /* "tty", "lines", "none" */
};

/* Runs to the end. Exit status. */
int master_main(const struct master_opts *o);

#endif
