/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs that look at a grid say when they have not found what they looked for. */
#ifndef CLI_SEEK_H
#define CLI_SEEK_H

#include "cli/observe.h"

/* A signal has asked the verb to end, so that it has not seen all: that is said, printed as observer_failed does, and
 * the exit status. 0: no. */
int seek_interrupted(const struct observer *o, bool json);

/* observer_find has failed with that text: what may have been meant is added to it, and where it is to be seen. */
void seek_hint(const char *target, struct moyai_error *why);

/*
 * The node of what is called that (observer_find). Of an object that may move it is the one where it is now, as calls
 * find it: a reference says where it was once. object (may be NULL): a reference to such an object, to be released;
 * NULL: it is none. ENOOBJECT, and what a call says: it is nowhere.
 */
int seek_node(struct observer *o, const char *target, moyai_dur timeout, struct moyai_node_id *id, moyai_ref **object,
              struct moyai_error *why);
/* Where such an object is. */
int seek_home(const struct observer *o, moyai_ref *object, const char *target, moyai_dur timeout,
              struct moyai_node_id *id, struct moyai_error *why);

/* Is a way to that node known? What is said if not: */
#define SEEK_NO_WAY                                                                                                    \
    "no way to the node is known: it does not answer, is in another part of the grid, or has never been; moyai ps "    \
    "shows who is there"
bool seek_way(const struct observer *o, struct moyai_node_id id);
/* A call to that node has timed out with that error: where it has got to, as far as can be known from here, in time. */
const char *seek_silence(const struct observer *o, struct moyai_node_id id, const struct moyai_error *why);
/* Its text then: what was given, and that. Other errors are left as they are. */
void seek_unanswered(const struct observer *o, const char *target, struct moyai_node_id id, moyai_dur timeout,
                     struct moyai_error *why);

/* A list of nodes has none, and for all that is known there are none: an empty one would say so too softly. */
void seek_nobody(const struct observer *o);

#endif
