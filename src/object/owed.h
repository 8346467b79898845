/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of a node that does not take its answers: see owed.c. Node lock held. */
#ifndef OBJECT_OWED_H
#define OBJECT_OWED_H

#include <moyai.h>

struct peer;
struct peer_calls;

/* Of one peer: what is held back, in order. */
struct owed {
    moyai_request *first, *last; /* linked by wait_next */
    bool submitted;              /* the first one's task is in the run queue */
};

/* May the call, whose task runs, begin? If not, its task is submitted again later. */
bool owed_may_begin(moyai_request *rq);
void owed_withdraw(moyai_request *rq); /* its task has come, but it is not to begin at all */
void owed_less(moyai_node *n, struct peer *p);
void owed_peer_failed(moyai_node *n, struct peer_calls *pc);

#endif
