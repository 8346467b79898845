/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futures: the caller's end of calls.
 *
 * Laws
 *  - A future completes exactly once: by its reply, a deadline, cancel, a refusal, or the end of the peer. What comes
 *    later is dropped.
 *  - Completion wakes who waits, moves it to the ready list of its set, and submits its `then`.
 *  - A record goes back to the pool when the user has freed it *and* the overlay has said `done` of its request *and*
 *    its `then` is neither in the run queue nor running. In between it is `detached`, in no list, and its id is free.
 *  - Borrowed arrays of the request are not read after completion: the overlay is told to drop the message.
 *  - The result takes the place of the request's bytes when those are no longer needed; else it is allocated.
 */
#include "base/dur.h"
#include "base/err.h"
#include "object/message.h"
#include "object/moved.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- failures -------------------------------------------------------------------------------- */

/* Of too many causes the one at the bottom stays: it is what has happened. */
struct failure *failure_new(const struct moyai_error *e, const struct failure *cause) {
    unsigned more = cause ? cause->n : 0;
    if (more > CALL_CAUSES - 1) more = CALL_CAUSES - 1;
    struct failure *f = malloc(sizeof *f + (1 + more) * sizeof f->level[0]);
    if (!f) return NULL;
    f->refs = 1;
    f->n = 1 + more;
    f->level[0] = *e;
    for (unsigned i = 0; i < more; i++) f->level[1 + i] = cause->level[i];
    if (more > 0) f->level[more] = cause->level[cause->n - 1];
    return f;
}

int failure_set(struct moyai_error *e, int code, enum moyai_where where, enum moyai_executed executed, const char *fmt,
                ...) {
    va_list ap;
    va_start(ap, fmt);
    err_vset(e, code, fmt, ap);
    va_end(ap);
    e->where = where;
    e->executed = executed;
    return code;
}

struct failure *failure_ref(struct failure *f) {
    if (f) f->refs++;
    return f;
}

void failure_unref(struct failure *f) {
    if (f && --f->refs == 0) free(f);
}

/* ---- ids ------------------------------------------------------------------------------------- */

moyai_future *future_by_id(moyai_node *n, uint64_t id) {
    uint32_t slot = (uint32_t)id;
    if (slot == 0 || slot > n->n_slots) return NULL;
    struct call_slot *s = &n->slots[slot - 1];
    return s->f && s->generation == (uint32_t)(id >> 32) ? s->f : NULL;
}

static int id_give(moyai_node *n, moyai_future *f) {
    if (n->free_slot == 0) {
        uint32_t cap = n->n_slots ? n->n_slots * 2 : 64;
        struct call_slot *s = cap > n->n_slots ? realloc(n->slots, cap * sizeof *s) : NULL;
        if (!s) return MOYAI_ENOMEM;
        n->slots = s;
        for (uint32_t i = cap; i > n->n_slots; i--) {
            s[i - 1] = (struct call_slot){NULL, 0, n->free_slot};
            n->free_slot = i;
        }
        n->n_slots = cap;
    }
    uint32_t slot = n->free_slot;
    struct call_slot *s = &n->slots[slot - 1];
    n->free_slot = s->next_free;
    s->f = f;
    s->generation++;
    f->id = (uint64_t)s->generation << 32 | slot;
    return 0;
}

static void id_take(moyai_node *n, moyai_future *f) {
    if (f->id == 0) return;
    uint32_t slot = (uint32_t)f->id;
    struct call_slot *s = &n->slots[slot - 1];
    s->f = NULL;
    s->next_free = n->free_slot;
    n->free_slot = slot;
    f->id = 0;
}

/* ---- records --------------------------------------------------------------------------------- */

static void timer_due(struct exec *x, struct exec_timer *t);

static void deadline_send(const moyai_future *f, moyai_dur timeout) {
    uint8_t bytes[24] = {MESSAGE_DEADLINE};
    struct cursor_out c = cursor_out(bytes + 8, 16);
    cursor_put_u64(&c, f->id);
    cursor_put_u64(&c, (uint64_t)timeout);
    (void)control_send(f->node, f->peer, bytes, sizeof bytes); /* the deadline holds here in any case */
}

/* Of a node that has left and said so (spec/09, 9.4): it has answered what it has executed. Not of what it answers, or
 * takes without an answer, to its very end. */
static bool is_cleared(const moyai_future *f, const struct moyai_error *why) {
    return why->executed == MOYAI_NEVER_EXECUTED && !f->oneway_told && !id_equal(f->object, f->home);
}

static void message_done(struct msg *m, int code, enum moyai_executed executed);

moyai_future *future_new(moyai_node *n, bool wants_reply) {
    moyai_future *f = pool_get(&n->futures);
    if (!f) return NULL;
    memset(f, 0, offsetof(struct moyai_future, inline_));
    f->node = n;
    exec_timer_init(&f->timer, timer_due);
    f->timeout = MOYAI_FOREVER;
    f->msg.done = message_done;
    if (wants_reply && id_give(n, f) < 0) {
        pool_put(&n->futures, f);
        return NULL;
    }
    return f;
}

static void request_bytes_free(moyai_future *f) {
    if (f->msg.owned) free(f->msg.head);
    f->msg.owned = false;
    free(f->msg.pieces);
    f->msg.head = NULL;
    f->msg.pieces = NULL;
    f->msg.n_pieces = 0;
}

static void result_free(moyai_future *f) {
    codec_arena_free(f->arena);
    f->arena = NULL;
    if (f->storage == RESULT_MALLOC) free(f->result);
    if (f->storage == RESULT_BUFFER) overlay_buffer_free(f->node->o, f->result);
    f->storage = RESULT_NONE;
    f->result = NULL;
}

static void open_remove(moyai_future *f) {
    if (!f->in_open) return;
    f->in_open = false;
    moyai_node *n = f->node;
    struct peer_calls *pc = f->peer ? peer_calls(f->peer, false) : NULL;
    moyai_future **first = f->peer ? &pc->open : &n->local_open;
    if (f->open_prev)
        f->open_prev->open_next = f->open_next;
    else
        *first = f->open_next;
    if (f->open_next) f->open_next->open_prev = f->open_prev;
    f->open_prev = f->open_next = NULL;
    n->calls_open--;
}

void future_open(moyai_future *f) {
    moyai_node *n = f->node;
    moyai_future **first = f->peer ? &peer_calls(f->peer, false)->open : &n->local_open;
    f->open_prev = NULL;
    f->open_next = *first;
    if (f->open_next) f->open_next->open_prev = f;
    *first = f;
    f->in_open = true;
    n->calls_open++;
    n->calls_made++;
}

void future_inside(moyai_future *f) {
    f->inside = context_get(f->node)->counted;
    if (f->inside) f->node->calls_inside++;
}

void future_keep(moyai_future *f) {
    f->detached = f->kept = true;
    f->node->calls_kept++;
}

/* It is answered, or will not be. */
static void unawait(moyai_future *f) {
    if (f->inside) f->node->calls_inside--;
    if (f->kept) f->node->calls_kept--;
    f->inside = f->kept = false;
}

/* Those that are sent from now on say so themselves. */
void futures_hurry(moyai_node *n) {
    for (uint32_t i = 0; i < n->n_slots; i++) {
        moyai_future *f = n->slots[i].f;
        if (!f || !f->kept || !f->peer || f->msg.head[0] != MESSAGE_REQUEST) continue;
        if (f->msg.state == MSG_WAITING)
            f->msg.head[1] |= MESSAGE_LEAVER;
        else
            deadline_send(f, MOYAI_FOREVER);
    }
}

/* The record's last step: nothing points to it any more. */
static void future_release(moyai_future *f) {
    request_bytes_free(f);
    result_free(f);
    failure_unref(f->failure);
    free(f->doing);
    pool_put(&f->node->futures, f);
}

void future_abandon(void *f) {
    future_release(f);
}

static void release_if_free(moyai_future *f) {
    if (f->detached && !f->in_open && f->msg.state == MSG_IDLE && !f->seeking && !f->then_queued && !f->then_runs &&
        f->getting == 0)
        future_release(f);
}

void future_back(moyai_future *f) {
    open_remove(f);
    if (f->msg.counted) {
        f->msg.counted = false;
        overlay_call_closed(f->peer);
    }
    if (f->local) f->local->caller = NULL;
    f->local = NULL;
    f->peer = NULL;
    f->never = false;
}

static struct moyai_error why_failed(const moyai_future *f, int code) {
    struct moyai_error e = {0};
    if (f->peer && peer_why(f->peer)->code == code)
        e = *peer_why(f->peer);
    else
        err_set(&e, code, "%s", moyai_strerror(code));
    return e;
}

static void message_done(struct msg *m, int code, enum moyai_executed executed) {
    moyai_future *f = (moyai_future *)((char *)m - offsetof(struct moyai_future, msg));
    if (f->seeking) { /* it has come back already */
        moved_sent(f);
        return;
    }
    if (f->detached && !f->in_open) {
        release_if_free(f);
        return;
    }
    if (code == 0) {
        if ((f->state == FUTURE_PENDING && !f->movable) || (f->state == FUTURE_DONE && f->storage != RESULT_INLINE))
            request_bytes_free(f);
        if (f->oneway_told && f->state == FUTURE_PENDING && !f->movable) future_complete(f, 0, NULL);
        return;
    }
    f->never = executed == MOYAI_NEVER_EXECUTED;
    if (f->state == FUTURE_DONE) return;
    struct moyai_error e = why_failed(f, code);
    if (is_cleared(f, &e)) executed = MOYAI_NEVER_EXECUTED;
    e.where = code == MOYAI_EUNREACHABLE ? MOYAI_AT_PATH : MOYAI_AT_PEER;
    e.executed = executed;
    future_fail(f, &e);
}

/* Wake who waits for f; f may be gone before they run. */
static void waiters_wake(moyai_future *f, int result) {
    for (struct blocked *b; (b = f->waiters);) {
        wait_remove(b);
        b->on = NULL;
        (void)blocked_wake(f->node, b, result);
    }
}

/* ---- completion ------------------------------------------------------------------------------ */

static void run_then(struct exec_task *t) {
    moyai_future *f = (moyai_future *)((char *)t - offsetof(struct moyai_future, task));
    moyai_node *n = f->node;
    void (*fn)(moyai_future *, void *) = f->then;
    void *arg = f->then_arg;
    f->then_queued = false;
    if (f->detached) { /* freed between completion and now */
        release_if_free(f);
        return;
    }
    n->active++;
    struct context c;
    fiber_begin(n, &c);
    f->then_runs = true;
    exec_user_enter(n->x);
    fn(f, arg);
    user_leave(n);
    f->then_runs = false;
    if (f->freeing) (void)blocked_wake(n, f->freeing, 0);
    release_if_free(f);
    fiber_end(n, &c);
}

static void then_submit(moyai_future *f) {
    f->then_queued = true;
    f->task.run = run_then;
    exec_submit(f->node->x, &f->task);
}

void future_complete(moyai_future *f, int code, struct failure *failure) {
    moyai_node *n = f->node;
    if (f->state == FUTURE_DONE) {
        failure_unref(failure);
        return;
    }
    exec_timer_clear(n->x, &f->timer);
    unawait(f);
    open_remove(f);
    moved_drop(f);
    failure_unref(f->failure);
    if (f->msg.counted) {
        f->msg.counted = false;
        overlay_call_closed(f->peer);
    }
    id_take(n, f);
    if (f->local) {
        f->local->caller = NULL;
        f->local = NULL;
    }
    if (f->in.body) { /* a reply was on its way in */
        overlay_forget_inbound(&f->in);
        result_free(f);
        f->in.body = NULL;
    }
    moyai_set *s = f->set;
    if (s) set_unlink(s, f);
    atomic_store_explicit(&f->state, FUTURE_DONE, memory_order_release);
    f->code = code;
    f->failure = failure;
    if (s) set_link(s, f);
    if (f->msg.state != MSG_IDLE && overlay_drop(&f->msg)) request_bytes_free(f);
    waiters_wake(f, 0);
    if (s) set_wake(s);
    if (f->then)
        then_submit(f);
    else
        release_if_free(f); /* one-way with a receipt: nobody holds it */
}

/* failure NULL: there was no memory for it. */
static void complete_with(moyai_future *f, const struct moyai_error *e, struct failure *failure) {
    if (moved_again(f, e)) {
        failure_unref(failure);
        return;
    }
    if (f->state != FUTURE_DONE) {
        f->where = (uint8_t)e->where;
        f->executed = (uint8_t)e->executed;
    }
    future_complete(f, e->code, failure);
}

/* Completed with this error; its text and causes are carried when memory for them is there. */
void future_fail(moyai_future *f, const struct moyai_error *e) {
    complete_with(f, e, failure_new(e, NULL));
}

void future_fail_back(moyai_future *f) {
    struct failure *why = f->failure;
    f->failure = NULL;
    f->where = (uint8_t)why->level[0].where;
    f->executed = (uint8_t)why->level[0].executed;
    future_complete(f, why->level[0].code, why);
}

/* A whole reply. The bytes belong to the caller. */
int future_reply(moyai_node *n, struct peer *p, uint8_t *bytes, size_t len) {
    if (len < REPLY_HEAD) return MOYAI_EPROTO;
    struct cursor_in c = cursor_in(bytes + 8, 8);
    moyai_future *f = future_by_id(n, cursor_get_u64(&c));
    if (!f || f->peer != p) return 0;    /* completed otherwise meanwhile */
    if (f->in.body) return MOYAI_EPROTO; /* a second reply while a large one comes in */
    if (bytes[1] & MESSAGE_ERROR) {
        struct moyai_error first;
        struct failure *e;
        const size_t head = REPLY_HEAD + (bytes[1] & MESSAGE_MOVED ? 16u : 0);
        if (len < head) return MOYAI_EPROTO;
        int rc = failure_get(bytes + head, len - head, p ? peer_id(p) : node_id(n)->b, &first, &e);
        if (rc < 0) return rc;
        if (bytes[1] & MESSAGE_ENDED) f->movable = false; /* and is not looked for */
        if (bytes[1] & MESSAGE_MOVED) moved_hint(f, bytes + REPLY_HEAD);
        complete_with(f, &first, e);
        return 0;
    }
    if (f->msg.state == MSG_IDLE && len < INLINE_BYTES) {
        request_bytes_free(f);
        f->result = f->inline_;
        f->storage = RESULT_INLINE;
    } else {
        f->result = malloc(len + 1);
        if (!f->result) {
            struct moyai_error e = {0};
            failure_set(&e, MOYAI_ENOMEM, MOYAI_AT_CALLER, MOYAI_WAS_EXECUTED, "out of memory for a result");
            future_fail(f, &e);
            return 0;
        }
        f->storage = RESULT_MALLOC;
    }
    memcpy(f->result, bytes, len);
    f->result_n = len;
    future_complete(f, 0, NULL);
    return 0;
}

struct inbound *future_reply_begin(moyai_node *n, struct peer *p, const uint8_t *bytes, size_t len, uint64_t total) {
    if (len < REPLY_HEAD) return NULL;
    struct cursor_in c = cursor_in(bytes + 8, 8);
    moyai_future *f = future_by_id(n, cursor_get_u64(&c));
    if (!f || f->peer != p || f->in.body) return NULL;
    if (total > n->max_message || (bytes[1] & MESSAGE_ERROR)) {
        struct moyai_error e = {0};
        failure_set(&e, MOYAI_ETOOBIG, MOYAI_AT_CALLER, MOYAI_WAS_EXECUTED,
                    "a result of %llu bytes; max_message is %zu", (unsigned long long)total, n->max_message);
        future_fail(f, &e);
        return NULL;
    }
    f->result = overlay_buffer(n->o, (size_t)total + 1);
    if (!f->result) {
        struct moyai_error e = {0};
        failure_set(&e, MOYAI_ENOMEM, MOYAI_AT_CALLER, MOYAI_WAS_EXECUTED, "out of memory for a result of %llu bytes",
                    (unsigned long long)total);
        future_fail(f, &e);
        return NULL;
    }
    f->storage = RESULT_BUFFER;
    f->result_n = (size_t)total;
    f->in.body = f->result;
    return &f->in;
}

int future_reply_complete(moyai_node *n, struct inbound *in) {
    moyai_future *f = (moyai_future *)((char *)in - offsetof(struct moyai_future, in));
    (void)n;
    in->body = NULL;
    future_complete(f, 0, NULL);
    return 0;
}

void future_peer_failed(moyai_node *n, struct peer *p, const struct moyai_error *why) {
    (void)n;
    struct peer_calls *pc = peer_calls(p, false);
    while (pc && pc->open) {
        struct moyai_error e = *why;
        bool never = pc->open->never || msg_untouched(&pc->open->msg) || is_cleared(pc->open, why);
        e.executed = never ? MOYAI_NEVER_EXECUTED : MOYAI_MAY_HAVE_EXECUTED;
        future_fail(pc->open, &e);
    }
}

void futures_fail_all(moyai_node *n) {
    struct moyai_error e = {0};
    err_set(&e, MOYAI_ECLOSED, "the node has ended");
    while (n->local_open) future_fail(n->local_open, &e);
    for (uint32_t i = 0; i < n->n_slots; i++)
        if (n->slots[i].f) future_fail(n->slots[i].f, &e);
}

/* ---- deadline -------------------------------------------------------------------------------- */

bool call_names(const moyai_future *f, char *out, size_t cap) {
    char id[33];
    id_format(f->object, id);
    int n = snprintf(out, cap, "'%.*s%s' of object %.8s", f->method_len < 31 ? f->method_len : 31, f->method_copy,
                     f->method_len > 31 ? "..." : "", id);
    return n > 0;
}

/* Only a call that waits for a deadline of its own caller is told of: it is for the texts of those above. */
int future_doing(moyai_node *n, struct peer *p, const uint8_t *bytes, size_t len) {
    if (len <= DOING_HEAD || len > DOING_HEAD + DOING_MOST) return MOYAI_EPROTO;
    struct cursor_in c = cursor_in(bytes + 8, 8);
    moyai_future *f = future_by_id(n, cursor_get_u64(&c));
    if (!f || f->peer != p) return 0;
    char *text = strndup((const char *)bytes + DOING_HEAD, len - DOING_HEAD);
    if (!text) return 0;
    free(f->doing);
    f->doing = text;
    return 0;
}

static void timer_due(struct exec *x, struct exec_timer *t) {
    (void)x;
    moyai_future *f = (moyai_future *)((char *)t - offsetof(struct moyai_future, timer));
    struct moyai_error e = {0};
    char names[128], doing[MOYAI_ERROR_TEXT] = "", who[PEER_NAME] = "";
    call_names(f, names, sizeof names);
    if (f->peer) peer_name(f->peer, who);
    if (f->local)
        request_describe(f->local, doing, sizeof doing);
    else if (f->doing)
        snprintf(doing, sizeof doing, "it %s", f->doing);
    bool unsent = f->msg.state == MSG_WAITING || f->seeking;
    failure_set(&e, MOYAI_ETIMEDOUT, MOYAI_AT_CALLER,
                unsent || (f->local && !f->local->running) ? MOYAI_NEVER_EXECUTED : MOYAI_MAY_HAVE_EXECUTED,
                "no result of %s%s%s within %s%s%s", names, who[0] ? " in " : "", who, DUR(f->timeout),
                unsent     ? ", which could not be sent yet"
                : doing[0] ? ": "
                           : "",
                unsent ? "" : doing);
    moyai_request *local = f->local;
    struct peer *p = f->peer;
    uint64_t id = f->id;
    future_fail(f, &e);
    if (local)
        request_cancel(local);
    else if (p && !unsent && id) {
        uint8_t bytes[16] = {MESSAGE_CANCEL};
        struct cursor_out c = cursor_out(bytes + 8, 8);
        cursor_put_u64(&c, id);
        (void)control_send(f->node, p, bytes, sizeof bytes); /* a courtesy: the result is dropped in any case */
    }
}

void moyai_future_deadline(moyai_future *f, moyai_dur timeout) {
    if (future_no_node(f)) return;
    moyai_node *n = f->node;
    if (f->constant || exec_forked(n->x)) return;
    exec_lock(n->x);
    if (f->state == FUTURE_PENDING && timeout <= 0) { /* now: what has not begun, here or there, never will */
        exec_timer_clear(n->x, &f->timer);
        f->timeout = 0;
        timer_due(n->x, &f->timer);
    } else if (f->state == FUTURE_PENDING) {
        f->timeout = timeout;
        if (timeout == MOYAI_FOREVER)
            exec_timer_clear(n->x, &f->timer);
        else
            exec_timer_set(n->x, &f->timer,
                           moyai_now() + (moyai_ns)timeout + (moyai_ns)(f->local ? 0 : deadline_patience(timeout)));
        if (f->local) {
            request_deadline(f->local, timeout);
        } else if (f->peer && f->id) {
            if (f->msg.state == MSG_WAITING) {
                struct cursor_out c = cursor_out(f->msg.head + REQUEST_DEADLINE_AT, 8);
                cursor_put_u64(&c, (uint64_t)timeout);
            } else {
                deadline_send(f, timeout);
            }
        }
    }
    exec_unlock(n->x);
}

void future_cancel(moyai_future *f) {
    if (f->state != FUTURE_PENDING) return;
    moyai_request *local = f->local;
    struct peer *p = f->peer;
    uint64_t id = f->id;
    bool unsent = f->msg.state == MSG_WAITING || f->seeking || (local && !local->running);
    struct moyai_error e = {0};
    char names[128] = "", who[PEER_NAME] = "";
    call_names(f, names, sizeof names);
    if (p) peer_name(p, who);
    failure_set(&e, MOYAI_ECANCELED, MOYAI_AT_CALLER, unsent ? MOYAI_NEVER_EXECUTED : MOYAI_MAY_HAVE_EXECUTED,
                "%s%s%s: cancelled by the caller", names, who[0] ? " in " : "", who);
    future_fail(f, &e);
    if (local) {
        request_cancel(local);
    } else if (p && !unsent && id) {
        uint8_t bytes[16] = {MESSAGE_CANCEL};
        struct cursor_out c = cursor_out(bytes + 8, 8);
        cursor_put_u64(&c, id);
        (void)control_send(f->node, p, bytes, sizeof bytes);
    }
}

void moyai_future_cancel(moyai_future *f) {
    if (future_no_node(f)) return;
    moyai_node *n = f->node;
    if (f->constant || exec_forked(n->x)) return;
    exec_lock(n->x);
    future_cancel(f);
    exec_unlock(n->x);
}

/* ---- the user's side ------------------------------------------------------------------------- */

struct moyai_error future_error(const moyai_future *f) {
    if (f->failure) return f->failure->level[0];
    struct moyai_error e;
    failure_set(&e, f->code, (enum moyai_where)f->where, (enum moyai_executed)f->executed, "%s",
                moyai_strerror(f->code));
    return e;
}

int future_get(moyai_future *f, const struct moyai_into *into, bool masked) {
    moyai_node *n = f->node;
    int rc = 0;
    if (f->state == FUTURE_PENDING) {
        struct blocked b;
        blocked_init(n, &b, "waits for a call");
        b.on = f;
        wait_add(&f->waiters, &b);
        f->getting++;
        rc = block(n, &b, UINT64_MAX, masked);
        f->getting--;
        wait_remove(&b);
        if (f->detached) { /* freed by somebody else meanwhile, before or after it completed */
            release_if_free(f);
            f = NULL;
            rc = MOYAI_EINVAL;
        }
        if (rc != 0 && rc != MOYAI_SIGNALLED) {          /* the call waited for has left, perhaps, and runs */
            struct moyai_error e = context_get(n)->last; /* of block */
            if (rc == MOYAI_EINVAL) err_set(&e, rc, "the future was freed while this waited for it");
            e.executed = MOYAI_MAY_HAVE_EXECUTED;
            rc = api_error(n, &e);
        }
    }
    if (rc == 0 && f && f->code != 0) {
        struct moyai_error e = future_error(f);
        rc = api_error(n, &e);
    } else if (rc == 0 && into) {
        struct moyai_error e;
        err_none(&e);
        rc = codec_get_into(f->result + REPLY_HEAD, f->result_n - REPLY_HEAD, into, &n->refs, moyai_ref_unref,
                            &f->arena, &e);
        if (rc < 0) {
            char names[128];
            call_names(f, names, sizeof names);
            err_prefix(&e, "results of %s", names);
            e.executed = MOYAI_WAS_EXECUTED;
            rc = api_error(n, &e);
        }
    }
    return rc;
}

static int get(moyai_future *f, const struct moyai_into *into, bool masked) {
    if (future_no_node(f)) return MOYAI_EINVAL;
    moyai_node *n = f->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    api_enter(n);
    int rc = future_get(f, into, masked);
    api_leave(n);
    return rc;
}

int moyai_future_get(moyai_future *f, const struct moyai_into *into) {
    return get(f, into, false);
}
int moyai_future_get_masked(moyai_future *f, const struct moyai_into *into) {
    return get(f, into, true);
}

bool moyai_future_ready(const moyai_future *f) {
    if (future_no_node(f) || f->constant || exec_forked(f->node->x)) return true;
    return atomic_load_explicit(&f->state, memory_order_acquire) == FUTURE_DONE;
}

int moyai_future_error(const moyai_future *f, unsigned level, struct moyai_error *out) {
    struct moyai_error e = {0};
    if (future_no_node(f)) {
        if (level == 0)
            failure_set(&e, MOYAI_EINVAL, MOYAI_AT_CALLER, MOYAI_NEVER_EXECUTED, "%s",
                        f ? "the reference to call is NULL" : "the future is NULL");
        if (out) *out = e;
        return e.code;
    }
    bool forked = exec_forked(f->node->x);
    if (!forked) exec_lock(f->node->x);
    if (forked) {
        if (level == 0) err_set(&e, MOYAI_EFORK, "the future belongs to the parent process");
    } else if (f->state == FUTURE_DONE && f->code != 0) {
        if (level == 0)
            e = future_error(f);
        else if (f->failure && level < f->failure->n)
            e = f->failure->level[level];
    }
    if (!forked) exec_unlock(f->node->x);
    if (out) *out = e;
    return e.code;
}

void future_free_locked(moyai_future *f) {
    moyai_node *n = f->node;
    moyai_set *s = f->set;
    if (s) {
        set_unlink(s, f);
        f->set = NULL;
        set_wake(s); /* it may have been the last that had not completed */
    }
    exec_timer_clear(n->x, &f->timer);
    waiters_wake(f, MOYAI_EINVAL);
    unawait(f);
    open_remove(f);
    moved_drop(f);
    if (f->msg.counted) {
        f->msg.counted = false;
        overlay_call_closed(f->peer);
    }
    id_take(n, f);
    if (f->local) {
        f->local->caller = NULL;
        f->local = NULL;
    }
    if (f->in.body) {
        overlay_forget_inbound(&f->in);
        f->in.body = NULL;
    }
    (void)overlay_drop(&f->msg); /* it may be told done within */
    f->detached = true;
    release_if_free(f);
}

void moyai_future_free(moyai_future *f) {
    if (future_no_node(f) || f->constant || exec_forked(f->node->x)) return;
    moyai_node *n = f->node;
    if (exec_on_node_thread(n->x)) { /* never blocks; its function may be what frees it */
        exec_lock(n->x);
        future_free_locked(f);
        exec_unlock(n->x);
        return;
    }
    api_enter(n);
    struct blocked b;
    bool runs = f->then_runs;
    if (runs) {
        blocked_init(n, &b, "waits for a function of moyai_future_then");
        f->freeing = &b;
    }
    future_free_locked(f);
    if (runs) (void)block(n, &b, UINT64_MAX, true); /* f is gone, unless the node ends */
    api_leave(n);
}

void moyai_future_set_user(moyai_future *f, void *user) {
    if (f && !f->constant) f->user = user;
}
void *moyai_future_user(const moyai_future *f) {
    return !f || f->constant ? NULL : f->user;
}

int moyai_future_then(moyai_future *f, void (*fn)(moyai_future *f, void *arg), void *arg) {
    if (future_no_node(f)) return MOYAI_EINVAL;
    moyai_node *n = f->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    exec_lock(n->x);
    int rc = 0;
    if (!fn) {
        rc = api_fail(n, MOYAI_EINVAL, "the function to run is NULL");
    } else if (f->constant) {
        struct moyai_error e = future_error(f);
        rc = api_error(n, &e);
    } else if (f->then) {
        rc = api_fail(n, MOYAI_ESTATE,
                      "the future has a function already that runs when it completes, and takes one only");
    } else {
        f->then = fn;
        f->then_arg = arg;
        if (f->state == FUTURE_DONE) then_submit(f);
    }
    exec_unlock(n->x);
    return rc;
}
