/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a call may take, at the callee's end: cancels, deadlines, and what a method does meanwhile, for the texts of
 * those who wait for it.
 *
 * All calls made for one call have its deadline. Shortly before it each tells the node of its caller what it does, the
 * deepest first, so that the outermost knows who waits for whom. That one is answered at the deadline; its caller waits
 * for that answer a little longer than the deadline (deadline_patience), since it knows more, before it gives up by
 * itself. So does each in between, whose answer nobody waits for by then.
 */
#include "base/err.h"
#include "object/message.h"

#include <stdio.h>

#define TELL_STEP (50 * MOYAI_MS) /* between what nested calls tell before their deadline */
#define PATIENCE  (10 * MOYAI_MS) /* a process that sleeps may be waked a few milliseconds late */

void request_cancel(moyai_request *rq) {
    if (rq->cancelled) return;
    rq->cancelled = true;
    /* One that is runnable already, but has not run, hears of it when it blocks again. */
    if (rq->blocked && !rq->cancel_told) rq->cancel_told = blocked_wake(rq->node, rq->blocked, MOYAI_ECANCELED);
}

/* What it does, and what that does which it waits for, and so on as far as is known here: "waits for 'b' of object 1234
 * in node 5678, which computes". */
static void describe(const moyai_request *rq, char *out, size_t cap, unsigned levels) {
    char names[128], id[33];
    const struct blocked *b = rq->blocked;
    const moyai_future *on = !b ? NULL : b->on_set ? b->on_set->pending : b->on;
    if (!rq->running) {
        snprintf(out, cap, "has not begun%s", rq->parked ? ": its caller does not take earlier answers" : "");
    } else if (!b) {
        snprintf(out, cap, "computes");
    } else if (b->name) {
        snprintf(out, cap, "%s that nobody has registered: \"%s\"", b->what, b->name);
    } else if (!on || !call_names(on, names, sizeof names)) {
        snprintf(out, cap, "%s", b->what);
    } else {
        char below[MOYAI_ERROR_TEXT] = "";
        id_format(on->home, id);
        if (on->local && levels > 0)
            describe(on->local, below, sizeof below, levels - 1);
        else if (on->doing)
            snprintf(below, sizeof below, "%s", on->doing);
        char text[2 * MOYAI_ERROR_TEXT];
        int n = snprintf(text, sizeof text, "waits for %s%s%.*s%s%s", names, on->local ? "" : " in node ",
                         on->local ? 0 : 8, id, below[0] ? ", which " : "", below);
        err_fit(out, cap, text, (size_t)n); /* the last of the chain is the one that does not come to its end */
    }
}

void request_describe(const moyai_request *rq, char *out, size_t cap) {
    char what[MOYAI_ERROR_TEXT];
    describe(rq, what, sizeof what, CALL_CAUSES);
    char text[3 * MOYAI_ERROR_TEXT];
    int n = snprintf(text, sizeof text, "'%s' %s", rq->method ? rq->method->name : "?", what);
    err_fit(out, cap, text, (size_t)n);
}

/* Tell the caller's node what the method does: for the texts of those who wait for its caller. */
static void tell(moyai_request *rq) {
    char what[DOING_MOST + 1];
    uint8_t bytes[DOING_HEAD + DOING_MOST] = {MESSAGE_DOING};
    describe(rq, what, sizeof what, CALL_CAUSES);
    size_t n = strnlen(what, DOING_MOST);
    struct cursor_out c = cursor_out(bytes + 8, sizeof bytes - 8);
    cursor_put_u64(&c, rq->id);
    cursor_put_bytes(&c, what, n);
    (void)control_send(rq->node, rq->peer, bytes, DOING_HEAD + n); /* without it the text is shorter */
}

/* How long before its deadline: it costs nothing, and on a busy host it takes its time. */
static moyai_dur tell_early(const moyai_request *rq, moyai_dur remaining) {
    moyai_dur step = remaining / 40 < TELL_STEP ? remaining / 40 : TELL_STEP;
    return step * (rq->depth < 8 ? rq->depth : 8);
}

moyai_dur deadline_patience(moyai_dur remaining) {
    return remaining / 20 < PATIENCE ? remaining / 20 : PATIENCE;
}

void request_due(struct exec *x, struct exec_timer *t) {
    moyai_request *rq = (moyai_request *)((char *)t - offsetof(struct moyai_request, timer));
    if (rq->depth > 0 && rq->peer && rq->id && !rq->told && !rq->answered) {
        rq->told = true;
        tell(rq);
        exec_timer_set(x, t, rq->deadline + (moyai_ns)MOYAI_MS); /* after that of the call it is made for */
        return;
    }
    char text[3 * MOYAI_ERROR_TEXT], doing[2 * MOYAI_ERROR_TEXT], who[PEER_NAME]; /* cut when it is set */
    request_describe(rq, doing, sizeof doing);
    overlay_self_name(rq->node->o, who);
    snprintf(text, sizeof text, "the deadline passed: in %s %s", who, doing);
    if (!rq->from_local)
        request_fail(rq, MOYAI_ETIMEDOUT, MOYAI_AT_PEER, rq->running ? MOYAI_MAY_HAVE_EXECUTED : MOYAI_NEVER_EXECUTED,
                     text);
    request_cancel(rq);
}

/* On a busy node the timer comes too late: what is ready runs first. */
bool request_late(moyai_request *rq) {
    if (rq->deadline == UINT64_MAX || moyai_now() < rq->deadline) return false;
    char text[MOYAI_ERROR_TEXT], who[PEER_NAME];
    overlay_self_name(rq->node->o, who);
    snprintf(text, sizeof text, "the deadline passed: in %s '%s' has not begun", who, rq->method->name);
    request_fail(rq, MOYAI_ETIMEDOUT, rq->from_local ? MOYAI_AT_CALLER : MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED, text);
    return true;
}

void request_deadline(moyai_request *rq, moyai_dur remaining) {
    moyai_node *n = rq->node;
    if (rq->answered) return;
    if (remaining == MOYAI_FOREVER) {
        rq->deadline = UINT64_MAX;
        exec_timer_clear(n->x, &rq->timer);
        return;
    }
    rq->deadline = moyai_now() + (moyai_ns)remaining;
    rq->told = false;
    exec_timer_set(n->x, &rq->timer,
                   rq->from_local ? rq->deadline : rq->deadline - (moyai_ns)tell_early(rq, remaining));
}
