/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serving calls: the callee's end.
 *
 * A request becomes a record and a task of the run queue; the task runs the method on a fiber of its own and sends the
 * reply. Order: calls from one node to one object start in the order they were made. Small messages arrive whole and
 * in order; a large one takes its place when it begins, and later calls to the same object are held behind it until it
 * is complete or given up.
 *
 * Limits: at most max_calls fibers are in progress at once, methods and others; a nested request (this node is among
 * its ancestors) may use a quarter more, so that the calls everybody waits for get through. What is over the limit is
 * refused, never executed. Local calls over the limit wait here instead, since their caller is in the same process.
 * Those made by fibers, which hold a place each, wait in a queue of their own that goes first; when all fibers are
 * blocked, perhaps on just these, they are nested calls: they use the quarter, and beyond it are refused. So no set of
 * calls waits for ever for places that it holds itself.
 *
 * Memory for stacks is a limit, too: a call without one waits, as long as there are fibers that may end; it is refused
 * when all are blocked, perhaps on just this (exec.c).
 *
 * A call whose node does not take its answers begins later: owed.c.
 *
 * A request is answered exactly once, unless it is one-way: by its method, by a refusal, or by its deadline
 * (deadline.c).
 */
#include "base/err.h"
#include "object/drain.h"
#include "object/message.h"
#include "object/move.h"
#include "object/moved.h"
#include "object/node_object.h"
#include "object/refused.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define LEAVING_TEXT "the object's node is leaving"
#define BUSY_TEXT    "%zu calls and fibers are in progress in the object's node, its limit (max_fibers)"

static void run_request(struct exec_task *t);
static void refuse_request(struct exec_task *t);
static void launch(moyai_node *n, moyai_request *rq);
static void finish(moyai_request *rq);
static void reply_done(struct msg *m, int code, enum moyai_executed executed);

/* ---- records --------------------------------------------------------------------------------- */

static void peer_link(moyai_node *n, moyai_request *rq) {
    moyai_request **first = rq->peer ? &peer_calls(rq->peer, false)->served : &n->all_local;
    rq->peer_prev = NULL;
    rq->peer_next = *first;
    if (rq->peer_next) rq->peer_next->peer_prev = rq;
    *first = rq;
}

/* Requests of a peer by id, for cancels and deadlines: there may be as many as there are calls. */
static moyai_request **id_bucket(struct peer *p, uint64_t id) {
    struct peer_calls *pc = peer_calls(p, false);
    return &pc->by_id[id % (sizeof pc->by_id / sizeof pc->by_id[0])];
}

static void id_set(moyai_request *rq, uint64_t id) {
    rq->id = id;
    if (id == 0 || !rq->peer) return;
    moyai_request **q = id_bucket(rq->peer, id);
    rq->id_next = *q;
    *q = rq;
}

static void id_unlink(moyai_request *rq) {
    if (rq->id == 0 || !rq->peer) return;
    moyai_request **q = id_bucket(rq->peer, rq->id);
    for (; *q && *q != rq; q = &(*q)->id_next) rq->node->id_steps++;
    if (*q) *q = rq->id_next;
    rq->id_next = NULL;
}

static void peer_unlink(moyai_node *n, moyai_request *rq) {
    id_unlink(rq);
    moyai_request **first = rq->peer ? &peer_calls(rq->peer, false)->served : &n->all_local;
    if (rq->peer_prev)
        rq->peer_prev->peer_next = rq->peer_next;
    else if (*first == rq)
        *first = rq->peer_next;
    if (rq->peer_next) rq->peer_next->peer_prev = rq->peer_prev;
    rq->peer_prev = rq->peer_next = NULL;
}

static moyai_request *request_new(moyai_node *n, struct peer *p) {
    moyai_request *rq = pool_get(&n->requests);
    if (!rq) return NULL;
    memset(rq, 0, offsetof(struct moyai_request, inline_));
    rq->node = n;
    rq->peer = p;
    rq->from_local = p == NULL;
    rq->deadline = UINT64_MAX;
    rq->task.run = run_request;
    rq->msg.done = reply_done;
    exec_timer_init(&rq->timer, request_due);
    peer_link(n, rq);
    return rq;
}

static void request_bytes_free(moyai_request *rq) {
    codec_arena_free(rq->arena);
    rq->arena = NULL;
    if (rq->storage == RESULT_MALLOC) free(rq->bytes);
    if (rq->storage == RESULT_BUFFER) overlay_buffer_free(rq->node->o, rq->bytes);
    rq->storage = RESULT_NONE;
    rq->bytes = NULL;
    free(rq->lent);
    rq->lent = NULL;
    rq->n_lent = 0;
}

/* Nothing points to it any more but the pool. */
static void request_free(moyai_request *rq) {
    moyai_node *n = rq->node;
    exec_timer_clear(n->x, &rq->timer);
    drain_refused(rq);
    peer_unlink(n, rq);
    request_bytes_free(rq);
    if (rq->has_out) codec_out_done(&rq->out);
    if (rq->msg.owned) free(rq->msg.head);
    free(rq->msg.pieces);
    failure_unref(rq->raised);
    if (rq->caller) rq->caller->local = NULL;
    pool_put(&n->requests, rq);
}

static bool is_heard_of(const moyai_request *rq) {
    return !rq->oneway || rq->receipt;
}

/* A reply that does not arrive: the caller's side fails the call, if it does not wait for an answer that comes by
 * another way. So it is not to be told that nothing of it has been executed here. */
static void reply_done(struct msg *m, int code, enum moyai_executed executed) {
    (void)executed;
    moyai_request *rq = (moyai_request *)((char *)m - offsetof(struct moyai_request, msg));
    const bool waits = code != 0 && code != MOYAI_ECANCELED && rq->begun && is_heard_of(rq);
    if (waits && rq->peer && !peer_dead(rq->peer, NULL)) rq->node->unheard = true;
    if (rq->over) request_free(rq);
}

/* ---- running --------------------------------------------------------------------------------- */

static size_t nested_limit(const moyai_node *n) {
    return n->max_calls + (n->max_calls + 3) / 4;
}

static moyai_request *local_pop(moyai_node *n, int queue) {
    moyai_request *rq = n->local_wait[queue].first;
    n->local_wait[queue].first = rq->wait_next;
    rq->wait_next = NULL;
    n->local_waiting--;
    return rq;
}

static void local_push(moyai_node *n, int queue, moyai_request *rq) {
    if (n->local_wait[queue].first)
        n->local_wait[queue].last->wait_next = rq;
    else
        n->local_wait[queue].first = rq;
    n->local_wait[queue].last = rq;
    n->local_waiting++;
}

void serve_waiting(moyai_node *n) {
    while (n->local_waiting > 0) {
        int queue = n->local_wait[1].first ? 1 : 0;
        if (n->active < n->max_calls) {
            launch(n, local_pop(n, queue));
        } else if (queue == 0 || n->n_blocked + n->n_parked < n->active) {
            return;
        } else if (n->active < nested_limit(n)) {
            launch(n, local_pop(n, queue));
        } else {
            moyai_request *rq = local_pop(n, queue);
            char text[MOYAI_ERROR_TEXT];
            snprintf(text, sizeof text, BUSY_TEXT, n->active);
            request_fail(rq, MOYAI_EBUSY, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED, text);
            finish(rq);
        }
    }
}

static void count(moyai_request *rq) {
    if (rq->counted) return;
    rq->counted = rq->wanted = true;
    rq->node->active++;
    rq->node->wanted++;
}

/* The request is over: out of all counts; its record goes now, or with its reply. serve_waiting is to follow. */
static void finish(moyai_request *rq) {
    moyai_node *n = rq->node;
    exec_timer_clear(n->x, &rq->timer);
    struct object *ob = rq->object;
    rq->object = NULL;
    rq->over = true;
    request_unwant(rq);
    if (rq->counted) {
        rq->counted = false;
        n->active--;
    }
    request_bytes_free(rq);
    if (rq->caller) {
        rq->caller->local = NULL;
        rq->caller = NULL;
    }
    if (rq->msg.state == MSG_IDLE) request_free(rq);
    if (ob) object_leave(ob);
}

static void run_request(struct exec_task *t) {
    moyai_request *rq = (moyai_request *)((char *)t - offsetof(struct moyai_request, task));
    moyai_node *n = rq->node;
    if (!rq->passed && !owed_may_begin(rq)) return; /* comes again */
    rq->passed = true;
    if (move_parks(rq)) return; /* likewise */
    if (rq->object->ended) {
        refused_elsewhere(rq, rq->caller_node, rq->object->id, rq->round);
        request_fail(rq, MOYAI_ENOOBJECT, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED, "the object has ended");
    } else if (rq->cancelled) {
        request_fail(rq, MOYAI_ECANCELED, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED, "cancelled before it began");
    } else if (n->drain.begun && !rq->from_local && !rq->nested && !rq->oneway && !rq->of_leaver &&
               !host_is(n, rq->object)) {
        request_fail(rq, MOYAI_ELEAVING, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED, LEAVING_TEXT);
    } else if (!request_late(rq)) {
        struct context c;
        context_begin(&c, rq);
        void **slot = exec_local(n->x);
        *slot = &c;
        n->calls_served++;
        log_trace(n->log, "object", "MOYAI-CALL-SERVED", "method \"%s\" of class \"%s\" begins", rq->method->name,
                  klass_name(rq->object->klass));
        rq->running = rq->begun = true;
        answer_begun(rq);
        move_enter(rq->object);
        exec_user_enter(n->x);
        int rc = rq->method->fn(rq, rq->object->self);
        user_leave(n);
        move_leave(rq->object);
        rq->running = false;
        *slot = NULL;
        if (c.held) future_free_locked(c.held);
        if (rc == 0) {
            answer_values(rq);
        } else if (rq->raised && rq->raised->level[0].code == raised_code(rc)) {
            answer_levels(rq, rq->raised->level, rq->raised->n);
        } else {
            answer_returned(rq, rc, &c.last);
        }
    }
    finish(rq);
    serve_waiting(n);
}

void request_turn_away(moyai_request *rq) {
    request_fail(rq, MOYAI_ELEAVING, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED, LEAVING_TEXT);
    finish(rq);
}

/* There is no stack for it, and none comes free. */
static void refuse_request(struct exec_task *t) {
    moyai_request *rq = (moyai_request *)((char *)t - offsetof(struct moyai_request, task));
    moyai_node *n = rq->node;
    owed_withdraw(rq);
    char text[MOYAI_ERROR_TEXT];
    snprintf(
        text, sizeof text,
        "no memory for another stack in the object's node, where %zu calls and fibers are in progress and all that "
        "have begun are blocked",
        n->active);
    request_fail(rq, MOYAI_EBUSY, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED, text);
    finish(rq);
    serve_waiting(n);
}

/* ---- taking requests ------------------------------------------------------------------------- */

/* Tell a remote caller why its request was not taken. */
static void refuse(moyai_node *n, struct peer *p, const uint8_t *bytes, size_t have, const struct moyai_error *no) {
    struct request_head h;
    if (request_get_head(bytes, have, &h) < 0) return;
    if ((h.flags & (MESSAGE_ONEWAY | MESSAGE_RECEIPT)) == MESSAGE_ONEWAY) return;
    moyai_request *rq = request_new(n, p);
    if (!rq) {
        overlay_break(p, "out of memory for an answer");
        return;
    }
    id_set(rq, h.call);
    if (no->code == MOYAI_ELEAVING) drain_refuses(rq);
    if (no->code == MOYAI_ENOOBJECT) refused_elsewhere(rq, peer_id(p), h.object, h.round);
    rq->sought = h.object;
    answer_levels(rq, no, 1);
    rq->sought = NULL;
    finish(rq);
}

/* A call of the node itself, which is answered at once. f: of a local one that wants its answer. */
static int serve_node(moyai_node *n, struct peer *p, moyai_future *f, const uint8_t *bytes, size_t len) {
    struct request_head h;
    struct moyai_error no;
    if (request_get_head(bytes, len, &h) < 0) return MOYAI_EPROTO;
    moyai_request *rq = request_new(n, p);
    if (!rq) {
        failure_set(&no, MOYAI_ENOMEM, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED, "out of memory for a call");
        if (p) overlay_break(p, "out of memory for an answer");
        if (f) future_fail(f, &no);
        return 0;
    }
    rq->oneway = h.flags & MESSAGE_ONEWAY;
    id_set(rq, h.call);
    drain_refuses(rq);
    rq->caller = f;
    rq->has_out = node_object_call(n, p, &h, bytes, len, &rq->out, rq->reply, sizeof rq->reply, &no) == 0;
    if (rq->has_out) answer_values(rq);
    if (!rq->answered) answer_levels(rq, &no, 1);
    finish(rq);
    return 0;
}

/* Where and how far: what this node does not take. */
#define REFUSED MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED

/* Read the head, find the object and the method, make the record. NULL: *no says why. EPROTO: not a request. */
static moyai_request *take(moyai_node *n, struct peer *p, const uint8_t *bytes, size_t have, uint64_t total,
                           struct moyai_error *no) {
    struct request_head h;
    if (request_get_head(bytes, have, &h) < 0) {
        failure_set(no, MOYAI_EPROTO, REFUSED, "malformed request");
        return NULL;
    }
    bool nested = h.flags & MESSAGE_ANY;
    for (uint8_t i = 0; i < h.n_ancestors && !nested; i++) nested = node_is(n, h.ancestors + i * 16u);
    struct object *ob = object_find(n, h.object);
    /* It begins, or not, when the object has moved; or it is about one that arrives. */
    const bool waits = (ob && ob->moving) || host_is(n, ob);
    const bool refuses = n->drain.begun && !nested && !waits && !(h.flags & (MESSAGE_ONEWAY | MESSAGE_LEAVER));
    if (p && (n->leaving || n->drain.late || refuses)) {
        failure_set(no, MOYAI_ELEAVING, REFUSED, LEAVING_TEXT);
        return NULL;
    }
    if (node_is(n, h.object)) {
        failure_set(no, MOYAI_ETOOBIG, REFUSED, "a node's own methods take few arguments");
        return NULL;
    }
    if (!ob || ob->ended || (p && object_moves(h.object) && refused_before(n, peer_id(p), h.object, h.round))) {
        failure_set(no, MOYAI_ENOOBJECT, REFUSED, "no such object in this process, or it has ended");
        return NULL;
    }
    const struct moyai_method *m = klass_find(ob->klass, h.method, h.method_len);
    if (!m) {
        char wanted[256], list[160];
        snprintf(wanted, sizeof wanted, "%.*s", h.method_len, h.method);
        klass_list(ob->klass, wanted, list, sizeof list);
        failure_set(no, MOYAI_ENOMETHOD, REFUSED, "class %.60s has no method '%.60s'%s", klass_name(ob->klass), wanted,
                    list);
        return NULL;
    }
    if (total > n->max_message) {
        failure_set(no, MOYAI_ETOOBIG, REFUSED, "arguments of %llu bytes; max_message of the object's node is %zu",
                    (unsigned long long)total, n->max_message);
        return NULL;
    }
    if (p && n->active >= (nested ? nested_limit(n) : n->max_calls)) {
        failure_set(no, MOYAI_EBUSY, REFUSED, BUSY_TEXT, n->active);
        return NULL;
    }
    moyai_request *rq = request_new(n, p);
    if (!rq) {
        failure_set(no, MOYAI_ENOMEM, REFUSED, "out of memory for a call");
        return NULL;
    }
    rq->n_bytes = (size_t)total;
    if (total + 1 <= sizeof rq->inline_) {
        rq->bytes = rq->inline_;
        rq->storage = RESULT_INLINE;
    } else if (total < ARRAY_BORROW) {
        rq->bytes = malloc((size_t)total + 1);
        rq->storage = RESULT_MALLOC;
    } else {
        rq->bytes = overlay_buffer(n->o, (size_t)total + 1);
        rq->storage = RESULT_BUFFER;
    }
    if (!rq->bytes) {
        rq->storage = RESULT_NONE;
        request_free(rq);
        failure_set(no, MOYAI_ENOMEM, REFUSED, "out of memory for %llu bytes of arguments", (unsigned long long)total);
        return NULL;
    }
    id_set(rq, h.call);
    rq->oneway = h.flags & MESSAGE_ONEWAY;
    rq->receipt = h.flags & MESSAGE_RECEIPT;
    if (!rq->oneway) rq->task.refuse = refuse_request; /* of a one-way call there is nobody to be told: it waits */
    rq->depth = h.depth;
    rq->round = h.round;
    rq->any_ancestor = h.flags & MESSAGE_ANY;
    rq->of_leaver = h.flags & MESSAGE_LEAVER;
    rq->nested = nested;
    rq->n_ancestors = h.n_ancestors;
    rq->ancestors = rq->bytes + (h.ancestors - bytes);
    rq->args_at = h.size;
    memcpy(rq->caller_node, p ? peer_id(p) : node_id(n)->b, 16);
    if (h.flags & MESSAGE_ROOT) {
        memcpy(rq->root_node, h.root_node, 16);
        rq->root_call = h.root_call;
    } else {
        memcpy(rq->root_node, rq->caller_node, 16);
        rq->root_call = h.call;
    }
    rq->object = ob;
    rq->method = m;
    ob->users++;
    if (p) count(rq); /* now and not when all of it is here: the limit holds for what arrives, too */
    if (h.remaining != MOYAI_FOREVER) request_deadline(rq, h.remaining);
    return rq;
}

/* All of its bytes are here: to the run queue, unless an earlier call to the object is still arriving. */
static void launch(moyai_node *n, moyai_request *rq) {
    count(rq);
    exec_submit(n->x, &rq->task);
}

static struct held *held_for(const struct peer_calls *pc, const struct object *ob) {
    struct held *h;
    HASH_FIND(hh, pc->held, &ob, sizeof ob, h);
    return h;
}

/* NULL: out of memory. */
static struct held *held_make(struct peer_calls *pc, struct object *ob) {
    struct held *h = held_for(pc, ob);
    if (h) return h;
    h = calloc(1, sizeof *h);
    if (!h) return NULL;
    h->object = ob;
    HASH_ADD(hh, pc->held, object, sizeof h->object, h);
    if (h->hh.tbl) return h;
    free(h);
    return NULL;
}

static void hold(struct held *h, moyai_request *rq) {
    rq->held = h;
    rq->held_next = NULL;
    rq->held_prev = h->last;
    if (h->last)
        h->last->held_next = rq;
    else
        h->first = rq;
    h->last = rq;
}

static void unhold(struct held *h, moyai_request *rq) {
    if (rq->held_prev)
        rq->held_prev->held_next = rq->held_next;
    else
        h->first = rq->held_next;
    if (rq->held_next)
        rq->held_next->held_prev = rq->held_prev;
    else
        h->last = rq->held_prev;
    rq->held = NULL;
    rq->held_prev = rq->held_next = NULL;
}

/* Launch what no arriving request is ahead of any more. */
static void release(moyai_node *n, struct peer_calls *pc, struct held *h) {
    while (h->first && !h->first->arriving) {
        moyai_request *rq = h->first;
        unhold(h, rq);
        launch(n, rq);
    }
    if (h->first) return;
    HASH_DEL(pc->held, h);
    free(h);
}

static int take_small(moyai_node *n, struct peer *p, uint8_t *bytes, size_t len) {
    struct moyai_error no;
    if (node_object_is(n, bytes, len)) return serve_node(n, p, NULL, bytes, len);
    moyai_request *rq = take(n, p, bytes, len, len, &no);
    if (!rq) {
        if (no.code == MOYAI_EPROTO) return no.code;
        refuse(n, p, bytes, len, &no);
        return 0;
    }
    memcpy(rq->bytes, bytes, len);
    struct held *h = held_for(peer_calls(p, false), rq->object);
    if (h)
        hold(h, rq);
    else
        launch(n, rq);
    return 0;
}

void serve_local(moyai_node *n, moyai_future *f, bool oneway) {
    struct msg *m = &f->msg;
    struct moyai_error e;
    if (node_object_is(n, m->head, m->head_len) && m->n_pieces == 0) {
        (void)serve_node(n, NULL, oneway ? NULL : f, m->head, m->head_len); /* our own bytes */
        return;
    }
    bool full = n->active >= n->max_calls;
    if (full && n->local_waiting >= n->queue_calls) {
        failure_set(&e, MOYAI_EAGAIN, MOYAI_AT_CALLER, MOYAI_NEVER_EXECUTED, "%zu calls within this node wait already",
                    n->local_waiting);
        future_fail(f, &e);
        return;
    }
    moyai_request *rq = take(n, NULL, m->head, m->head_len, f->lends ? m->head_len : m->length, &e);
    if (!rq) {
        future_fail(f, &e);
        return;
    }
    if (f->lends) {
        rq->lent = m->pieces;
        rq->n_lent = m->n_pieces;
        m->pieces = NULL;
        m->n_pieces = 0;
    }
    size_t at = 0, from = 0;
    for (uint32_t i = 0; i < m->n_pieces; i++) {
        size_t k = m->pieces[i].at - from;
        memcpy(rq->bytes + at, m->head + from, k);
        at += k;
        from += k;
        memcpy(rq->bytes + at, m->pieces[i].p, m->pieces[i].n);
        at += m->pieces[i].n;
    }
    memcpy(rq->bytes + at, m->head + from, m->head_len - from);
    if (!oneway) {
        rq->caller = f;
        f->local = rq;
    }
    if (full)
        local_push(n, context_get(n)->counted, rq);
    else
        launch(n, rq);
}

struct inbound *serve_begin(moyai_node *n, struct peer *p, const uint8_t *bytes, size_t len, uint64_t total) {
    if (!peer_calls(p, true)) {
        overlay_break(p, "out of memory for a peer");
        return NULL;
    }
    if (len && bytes[0] == MESSAGE_REPLY) return future_reply_begin(n, p, bytes, len, total);
    struct moyai_error no = {.code = MOYAI_EPROTO};
    moyai_request *rq = len && bytes[0] == MESSAGE_REQUEST ? take(n, p, bytes, len, total, &no) : NULL;
    if (!rq) {
        if (no.code == MOYAI_EPROTO)
            overlay_break(p, "a message of it broke the protocol"); /* nobody could be told, and might wait for ever */
        else
            refuse(n, p, bytes, len, &no);
        return NULL;
    }
    struct held *h = held_make(peer_calls(p, false), rq->object);
    if (!h) {
        request_fail(rq, MOYAI_ENOMEM, REFUSED, "out of memory for a call");
        finish(rq);
        serve_waiting(n);
        return NULL;
    }
    hold(h, rq);
    rq->arriving = true;
    rq->in.body = rq->bytes;
    return &rq->in;
}

int serve_complete(moyai_node *n, struct inbound *in) {
    if (in->body[0] == MESSAGE_REPLY) return future_reply_complete(n, in);
    moyai_request *rq = (moyai_request *)((char *)in - offsetof(struct moyai_request, in));
    in->body = NULL;
    rq->arriving = false;
    release(n, peer_calls(rq->peer, false), rq->held);
    return 0;
}

void serve_aborted(moyai_node *n, struct inbound *in) {
    /* A reply's record is a future: which it is, its first byte says; body is set as long as it arrives. */
    if (in->body && in->have > 0 && in->body[0] == MESSAGE_REPLY) {
        moyai_future *f = (moyai_future *)((char *)in - offsetof(struct moyai_future, in));
        in->body = NULL;
        if (f->storage == RESULT_BUFFER) {
            overlay_buffer_free(n->o, f->result);
            f->storage = RESULT_NONE;
            f->result = NULL;
        }
        return; /* the session's failure, or an error reply, completes it */
    }
    moyai_request *rq = (moyai_request *)((char *)in - offsetof(struct moyai_request, in));
    in->body = NULL;
    struct held *h = rq->held;
    rq->answered = true;
    unhold(h, rq);
    release(n, peer_calls(rq->peer, false), h);
    finish(rq);
    serve_waiting(n);
}

/* ---- messages -------------------------------------------------------------------------------- */

static moyai_request *served_by_id(struct peer *p, uint64_t id) {
    moyai_request *rq = *id_bucket(p, id);
    for (; rq && (rq->id != id || rq->answered); rq = rq->id_next) rq->node->id_steps++;
    return rq;
}

int serve_message(moyai_node *n, struct peer *p, uint8_t *bytes, size_t len) {
    if (len < 8) return MOYAI_EPROTO;
    if (!peer_calls(p, true)) {
        overlay_break(p, "out of memory for a peer");
        return 0;
    }
    switch ((enum message_kind)bytes[0]) {
    case MESSAGE_REQUEST:
        return take_small(n, p, bytes, len);
    case MESSAGE_REPLY:
        return future_reply(n, p, bytes, len);
    case MESSAGE_CANCEL: {
        struct cursor_in c = cursor_in(bytes + 8, len - 8);
        uint64_t id = cursor_get_u64(&c);
        if (!cursor_done(&c)) return MOYAI_EPROTO;
        moyai_request *rq = served_by_id(p, id);
        if (rq) request_cancel(rq);
        return 0;
    }
    case MESSAGE_DEADLINE: {
        struct cursor_in c = cursor_in(bytes + 8, len - 8);
        uint64_t id = cursor_get_u64(&c), remaining = cursor_get_u64(&c);
        if (!cursor_done(&c) || remaining > (uint64_t)MOYAI_FOREVER) return MOYAI_EPROTO;
        moyai_request *rq = served_by_id(p, id);
        if (rq && rq->oneway) {
            rq->hurried = true;
            answer_begun(rq);
        } else if (rq) {
            request_deadline(rq, (moyai_dur)remaining);
        }
        return 0;
    }
    case MESSAGE_DOING:
        return future_doing(n, p, bytes, len);
    case MESSAGE_SIGNAL: {
        struct cursor_in c = cursor_in(bytes + 8, len - 8);
        uint64_t id = cursor_get_u64(&c);
        const uint8_t *object = cursor_get_bytes(&c, 16);
        if (!cursor_done(&c)) return MOYAI_EPROTO;
        struct object *ob = object_find(n, object);
        int rc = ob ? object_signal(ob) : MOYAI_ENOOBJECT;
        if (id == 0) return 0;
        moyai_request *rq = request_new(n, p);
        if (!rq) {
            overlay_break(p, "out of memory for an answer");
            return 0;
        }
        id_set(rq, id);
        rq->sought = object;
        if (rc < 0)
            request_fail(rq, rc, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED, "the object signalled has ended");
        else
            answer_values(rq);
        rq->begun = rc == 0;
        rq->sought = NULL;
        finish(rq);
        return 0;
    }
    }
    return MOYAI_EPROTO;
}

/* ---- ends --------------------------------------------------------------------------------------- */

static bool turn_away_of(struct peer *p, void *ctx) {
    const struct peer_calls *pc = peer_calls(p, false);
    (void)ctx;
    for (moyai_request *rq = pc ? pc->served : NULL; rq; rq = rq->peer_next) {
        if (rq->begun || rq->over || !is_heard_of(rq)) continue;
        request_fail(rq, MOYAI_ELEAVING, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED, LEAVING_TEXT);
        request_cancel(rq); /* so it is not begun when its turn comes */
    }
    return true;
}

void serve_turn_away(moyai_node *n) {
    overlay_each_peer(n->o, turn_away_of, NULL);
}

/* Its record is there until the answer has been taken. */
static bool all_heard(struct peer *p, void *ctx) {
    const struct peer_calls *pc = peer_calls(p, false);
    bool *unheard = ctx;
    for (const moyai_request *rq = pc ? pc->served : NULL; rq && !*unheard; rq = rq->peer_next)
        *unheard = rq->begun && is_heard_of(rq);
    return !*unheard;
}

bool serve_unheard(const moyai_node *n) {
    bool unheard = n->unheard;
    if (!unheard) overlay_each_peer(n->o, all_heard, &unheard);
    return unheard;
}

/* The caller's node is gone: nobody wants the results. But if it lives it still has the calls. */
void serve_peer_failed(moyai_node *n, struct peer *p) {
    struct peer_calls *pc = peer_calls(p, false);
    if (!pc) return;
    if (!peer_dead(p, NULL)) (void)all_heard(p, &n->unheard);
    owed_peer_failed(n, pc);
    while (pc->served) {
        moyai_request *rq = pc->served;
        peer_unlink(n, rq);
        rq->peer = NULL;
        peer_link(n, rq);
        rq->answered = true;
        if (!rq->oneway) request_unwant(rq); /* one-way calls outlive their caller */
        if (rq->object && !rq->oneway) request_cancel(rq);
    }
}

void request_abandon(void *rq) {
    request_free(rq); /* its fiber is gone; its reply has been told done */
}
