/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened, one readable line an event: milliseconds, who, what. Lines are hashed, so that two runs can be
 * compared; kept, if a story is to be compared with its expected text; printed, if somebody wants to read along.
 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include <moyai/base.h>

#include <stdio.h>

struct trace {
    uint64_t hash, lines;
    bool keep;
    FILE *print; /* or NULL */
    char *text;  /* kept lines */
    size_t n, cap;
};

void trace_init(struct trace *t, bool keep, FILE *print);
void trace_done(struct trace *t);
void trace_line(struct trace *t, moyai_ns now, const char *who, const char *fmt, ...) MOYAI_PRINTF(4, 5);

/* Are the lines since the last call these? Compared line by line without leading blanks; if not, both are printed. */
bool trace_expect(struct trace *t, const char *expected);

#endif
