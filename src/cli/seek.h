/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs that look at a grid say when they have not found what they looked for. */
#ifndef CLI_SEEK_H
#define CLI_SEEK_H

#include "cli/observe.h"

/* A signal has asked the verb to end, so that it has not seen all: that is said, printed as observer_failed does, and
 * the exit status. 0: no. */
int seek_interrupted(const struct observer *o, bool json);

/* observer_find has failed with that text: what may have been meant is added to it. */
void seek_hint(const char *target, struct moyai_error *why);

/* A list of nodes has none, and for all that is known there are none: an empty one would say so too softly. */
void seek_nobody(const struct observer *o);

#endif
