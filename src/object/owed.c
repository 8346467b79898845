/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of a node that does not take its answers.
 *
 * An answer that has been made is kept until its caller's node takes it or is gone: it must not be lost, and there is
 * nobody who could be asked to wait, for the method has returned. So the bound on the bytes of answers is kept where
 * they come from: when a peer has let queue_bytes of them wait, no further call of it begins until half of them are
 * taken. What waits for a peer is then at most queue_bytes and the results of the methods that were running.
 *
 * Calls held back are *parked*, in the order in which they would have begun; as nobody may overtake them, all later
 * ones of the same peer follow them. One after another is submitted: the first stays in the list until it begins. They
 * keep their place among the calls in progress, since their arguments do take memory.
 *
 * No deadlock comes of it. A node takes answers without any of its methods having to go on; one that does not is
 * stopped, and so is whatever waits for its calls. For calls within this node a parked one counts as blocked.
 */
#include "object/internal.h"

static void submit_first(moyai_node *n, struct peer_calls *pc) {
    if (!pc->parked.first || pc->parked.submitted) return;
    pc->parked.submitted = true;
    exec_submit(n->x, &pc->parked.first->task);
}

static moyai_request *take_first(moyai_node *n, struct peer_calls *pc) {
    moyai_request *rq = pc->parked.first;
    pc->parked.first = rq->wait_next;
    rq->wait_next = NULL;
    rq->parked = false;
    n->n_parked--;
    return rq;
}

bool owed_may_begin(moyai_request *rq) {
    moyai_node *n = rq->node;
    struct peer_calls *pc = rq->peer ? peer_calls(rq->peer, false) : NULL;
    if (!pc) return true;
    bool much = overlay_owes_much(rq->peer);
    if (!rq->parked) {
        if (!much && !pc->parked.first) return true;
        rq->parked = true;
        rq->wait_next = NULL;
        if (pc->parked.first)
            pc->parked.last->wait_next = rq;
        else
            pc->parked.first = rq;
        pc->parked.last = rq;
        n->n_parked++;
        return false;
    }
    pc->parked.submitted = false;
    if (much) return false;
    take_first(n, pc);
    submit_first(n, pc);
    return true;
}

void owed_withdraw(moyai_request *rq) {
    if (!rq->parked) return;
    struct peer_calls *pc = peer_calls(rq->peer, false);
    pc->parked.submitted = false;
    take_first(rq->node, pc);
    if (!overlay_owes_much(rq->peer)) submit_first(rq->node, pc);
}

void owed_less(moyai_node *n, struct peer *p) {
    struct peer_calls *pc = peer_calls(p, false);
    if (pc) submit_first(n, pc);
}

/* Nobody waits for their answers any more: they run, to find that they are cancelled. */
void owed_peer_failed(moyai_node *n, struct peer_calls *pc) {
    bool submitted = pc->parked.submitted;
    pc->parked.submitted = false;
    while (pc->parked.first) {
        moyai_request *rq = take_first(n, pc);
        if (!submitted) exec_submit(n->x, &rq->task);
        submitted = false;
    }
}
