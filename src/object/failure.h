/* SPDX-License-Identifier: Apache-2.0 */
/* Errors with their causes (S0/3.2). Node lock held. */
#ifndef OBJECT_FAILURE_H
#define OBJECT_FAILURE_H

#include <moyai/error.h>

/* An error and its causes, level 0 first. Immutable, shared. */
struct failure {
    unsigned refs, n;
    struct moyai_error level[];
};
struct failure *failure_new(const struct moyai_error *e, const struct failure *cause); /* NULL: out of memory */
/* err_set for calls: it knows nothing of where a call failed and how far it had come. Returns code. */
int failure_set(struct moyai_error *e, int code, enum moyai_where where, enum moyai_executed executed, const char *fmt,
                ...) MOYAI_PRINTF(5, 6);
struct failure *failure_ref(struct failure *f);
void failure_unref(struct failure *f);

#endif
