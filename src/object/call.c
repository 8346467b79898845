/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making calls: encode, then give to the overlay or, for an object of this node, to serve.c. Both ways use the same
 * bytes, so that arguments are copied and checked alike.
 */
#include "base/dur.h"
#include "base/err.h"
#include "object/drain.h"
#include "object/message.h"
#include "object/moved.h"

#include <stdlib.h>

/* What a call gets that has no reference, and so no node. */
static const struct moyai_future no_reference = {.constant = true, .state = FUTURE_DONE, .code = MOYAI_EINVAL};

static moyai_future *without_reference(void) {
    return (moyai_future *)(uintptr_t)&no_reference; /* of a constant future nothing is written */
}

static moyai_future *constant_future(moyai_node *n, bool forked) {
    return forked ? &n->constant_fork : &n->constant_nomem;
}

struct peer_calls *peer_calls(struct peer *p, bool make) {
    void **slot = peer_data(p);
    if (!*slot && make) *slot = calloc(1, sizeof(struct peer_calls));
    return *slot;
}

/* The request's head from who calls. EDEPTH. */
static int fill_head(moyai_node *n, struct request_head *h, uint8_t ancestors[CALL_ANCESTORS * 16]) {
    const moyai_request *rq = context_get(n)->rq;
    if (moyai_leaving(n)) h->flags |= MESSAGE_LEAVER;
    if (!rq) return 0;
    if (rq->depth >= CALL_DEPTH) return MOYAI_EDEPTH;
    h->depth = (uint16_t)(rq->depth + 1);
    h->flags |= MESSAGE_ROOT;
    memcpy(h->root_node, rq->root_node, 16);
    h->root_call = rq->root_call;
    bool known = false, any = rq->any_ancestor;
    uint8_t k = rq->n_ancestors;
    if (k) memcpy(ancestors, rq->ancestors, k * 16u);
    for (uint8_t i = 0; i < k; i++) known |= node_is(n, ancestors + i * 16u);
    if (!known) {
        if (k < CALL_ANCESTORS)
            memcpy(ancestors + k++ * 16u, node_id(n)->b, 16);
        else
            any = true;
    }
    if (any) h->flags |= MESSAGE_ANY;
    h->n_ancestors = k;
    h->ancestors = ancestors;
    return 0;
}

/* Encode into the future's record. Errors are those of the arguments. */
static int encode(moyai_node *n, moyai_future *f, const char *method, const struct moyai_args *args, uint8_t flags,
                  struct moyai_error *why) {
    uint8_t ancestors[CALL_ANCESTORS * 16];
    size_t len = method ? strlen(method) : 0;
    if (len < 1 || len > 255) return err_set(why, MOYAI_EINVAL, "a method's name has 1 to 255 bytes");
    struct request_head h = {
        .flags = flags, .method_len = (uint8_t)len, .call = f->id, .remaining = MOYAI_FOREVER, .method = method};
    memcpy(h.object, f->object, 16);
    if (fill_head(n, &h, ancestors) < 0)
        return err_set(why, MOYAI_EDEPTH, "calls nested more than %u deep", CALL_DEPTH);
    f->msg.nested = h.flags & MESSAGE_ANY;
    for (uint8_t i = 0; i < h.n_ancestors; i++) f->msg.nested |= id_equal(ancestors + i * 16u, f->home);
    const moyai_request *rq = context_get(n)->rq;
    /* A nested call has no longer than the call it is made for. Nobody waits for a one-way call. */
    if (rq && rq->deadline != UINT64_MAX && !(flags & MESSAGE_ONEWAY)) {
        moyai_ns now = moyai_now();
        if (rq->deadline <= now)
            return err_set(why, MOYAI_ETIMEDOUT,
                           "'%.80s' is not called: the deadline of the call it is made for has passed", method);
        h.remaining = (moyai_dur)(rq->deadline - now);
        f->timeout = h.remaining;
        moyai_dur patience = node_is(n, f->home) ? 0 : deadline_patience(h.remaining);
        exec_timer_set(n->x, &f->timer, rq->deadline + (moyai_ns)patience);
    }
    f->method_len = h.method_len;
    memcpy(f->method_copy, method, len < sizeof f->method_copy ? len : sizeof f->method_copy);
    size_t size = request_head_size(&h);
    struct codec_out o;
    /* Nobody can wait for the end of a one-way call: all of it is copied. */
    size_t borrow = flags & MESSAGE_ONEWAY ? SIZE_MAX : ARRAY_BORROW;
    codec_out_init(&o, f->inline_, sizeof f->inline_, borrow, n->max_message);
    int rc = codec_reserve(&o, size);
    if (rc == 0) {
        request_put_head(o.p, &h);
        o.n = size;
        if (args && args->n) rc = codec_put_args(&o, args, &n->refs, why);
    }
    if (rc < 0) {
        codec_out_done(&o);
        if (why->code == 0) err_set(why, rc, "%s", moyai_strerror(rc));
        return err_prefix(why, "arguments of '%.80s'", method);
    }
    f->msg.head = o.p;
    f->msg.owned = !o.fixed;
    f->msg.head_len = (uint32_t)o.n;
    f->msg.pieces = o.pieces;
    f->msg.n_pieces = (uint32_t)o.n_pieces;
    f->msg.length = o.n + o.spliced;
    f->msg.request = true;
    f->msg.lane = id_hash(f->object);
    return 0;
}

static void signal_here(moyai_future *f);
#define SIGNAL_NAME "(signal)"

static void start(moyai_node *n, moyai_future *f, bool oneway) {
    struct moyai_error e;
    moved_sends(f);
    if (f->movable && f->msg.head[0] == MESSAGE_REQUEST) {
        store_le16(f->msg.head + REQUEST_ROUND_AT, f->round);
        if (moyai_leaving(n)) f->msg.head[1] |= MESSAGE_LEAVER; /* since it was made */
    }
    if (node_is(n, f->home) && f->msg.head[0] == MESSAGE_SIGNAL) {
        signal_here(f);
        return;
    }
    if (node_is(n, f->home)) {
        if (!oneway) future_open(f);
        serve_local(n, f, oneway);
        return;
    }
    if (drain_gone(n, &e) < 0) {
        future_fail(f, &e);
        return;
    }
    struct peer *p = overlay_peer(n->o, f->home);
    if (!p || !peer_calls(p, true)) {
        failure_set(&e, MOYAI_ENOMEM, MOYAI_AT_CALLER, MOYAI_NEVER_EXECUTED, "out of memory for a peer");
        future_fail(f, &e);
        return;
    }
    f->peer = p;
    f->msg.limited = f->msg.request && !oneway;
    int rc = overlay_send(p, &f->msg);
    if (rc == 0) {
        if (!oneway) future_open(f);
        return;
    }
    if (!peer_dead(p, &e)) {
        if (rc == MOYAI_EAGAIN)
            err_set(&e, rc, "the queue towards the object's node is full (%zu calls or %zu bytes): moyai_room() waits",
                    n->queue_calls, n->queue_bytes);
        else
            err_set(&e, rc, "cannot send to the object's node: %s", moyai_strerror(rc));
    }
    e.executed = MOYAI_NEVER_EXECUTED;
    if (e.code == MOYAI_EDEAD || e.code == MOYAI_ECLOSED) e.where = MOYAI_AT_PEER;
    future_fail(f, &e);
}

bool call_home_died(moyai_node *n, const uint8_t home[16], struct moyai_error *e) {
    const struct peer *p = overlay_find(n->o, home);
    return p && peer_dead(p, e) && e->code == MOYAI_EDEAD;
}

void call_again(moyai_future *f) {
    moyai_node *n = f->node;
    if (f->timeout != MOYAI_FOREVER && f->msg.head_len >= REQUEST_HEAD) {
        struct cursor_out c = cursor_out(f->msg.head + REQUEST_DEADLINE_AT, 8);
        cursor_put_u64(&c, (uint64_t)f->timeout); /* its own time is over before that, and it cancels */
    }
    start(n, f, false);
}

/*
 * May the callee read the caller's arrays where they are? It may read them until it returns, blocking between as it
 * likes. So the caller must not come back before: its call cannot be forced open, nor cancelled or late with the call
 * it is made in, and nobody else has its future. That is so of a masked synchronous call that no method makes.
 */
static bool may_lend(moyai_node *n, const moyai_ref *ref) {
    return moyai_ref_is_local(ref) && !context_get(n)->rq;
}

/* f->object and f->home are those of the reference. */
static void find_home(moyai_future *f) {
    f->movable = object_moves(f->object) && !id_equal(f->object, f->home);
    if (!f->movable) return;
    f->seq = ++f->node->last_seq;
    moved_home(f);
}

static moyai_future *call(moyai_node *n, moyai_ref *ref, const char *method, const struct moyai_args *args, bool oneway,
                          bool lends) {
    /* Where a one-way call may have to be made again, it is answered: else nobody would hear that it was not taken. */
    const bool receipt = oneway && object_moves(ref->object) && !id_equal(ref->object, ref->home);
    moyai_future *f = future_new(n, !oneway || receipt);
    if (!f) return constant_future(n, false);
    memcpy(f->object, ref->object, 16);
    memcpy(f->home, ref->home, 16);
    find_home(f);
    f->lends = lends && !f->movable;
    if (!oneway) future_inside(f);
    log_trace(n->log, "object", "MOYAI-CALL-MADE", "call of \"%s\" at node %02x%02x%02x%02x", method ? method : "",
              f->home[0], f->home[1], f->home[2], f->home[3]);
    struct moyai_error why;
    err_none(&why);
    const uint8_t flags = (uint8_t)((oneway ? MESSAGE_ONEWAY : 0) | (receipt ? MESSAGE_RECEIPT : 0));
    if (encode(n, f, method, args, flags, &why) < 0) {
        why.executed = MOYAI_NEVER_EXECUTED;
        f->movable = false;
        future_fail(f, &why);
    } else if (!moved_waits(f)) {
        start(n, f, oneway && !receipt);
    }
    return f;
}

moyai_future *moyai_call_async(moyai_ref *ref, const char *method, const struct moyai_args *args) {
    if (!ref) return without_reference();
    moyai_node *n = ref->node;
    if (exec_forked(n->x)) return constant_future(n, true);
    exec_lock(n->x);
    moyai_future *f = call(n, ref, method, args, false, false);
    exec_unlock(n->x);
    return f;
}

int moyai_call(moyai_ref *ref, const char *method, const struct moyai_args *args, const struct moyai_into *into,
               moyai_future **pending) {
    if (!ref) return MOYAI_EINVAL;
    moyai_node *n = ref->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    api_enter(n);
    /* A call must not be on its way, perhaps with the caller's arrays, when its caller hears that it cannot wait. */
    if (!exec_can_wait(n->x)) {
        int rc = block_failed(n, MOYAI_ESTATE, "waits for a call");
        api_leave(n);
        return rc;
    }
    moyai_future *f = call(n, ref, method, args, false, !pending && may_lend(n, ref));
    int rc = future_get(f, into, !pending);
    struct context *c = context_get(n);
    if (rc == MOYAI_SIGNALLED) {
        *pending = f;
    } else if (!f->constant) {
        if (rc == MOYAI_ECANCELED) future_cancel(f); /* the running call was cancelled: what it waits for, too */
        if (c->held && (rc < 0 || (into && into->n))) {
            moyai_future *old = c->held;
            c->held = NULL;
            future_free_locked(old);
        }
        if (rc == 0 && into && into->n && c != &n->fallback)
            c->held = f; /* text and arrays are borrowed from it */
        else
            future_free_locked(f);
    }
    api_leave(n);
    return rc;
}

/* Nobody waits for it: it goes with its message, or its receipt. */
static int unwaited(moyai_node *n, moyai_future *f) {
    if (f->constant) return api_fail(n, f->code, "out of memory for a call");
    int rc = 0;
    if (f->state == FUTURE_DONE && f->code) {
        struct moyai_error e = future_error(f);
        rc = api_error(n, &e);
    }
    if (f->state == FUTURE_PENDING && f->movable)
        future_keep(f);
    else if (f->state == FUTURE_PENDING && f->msg.state != MSG_IDLE)
        f->detached = true;
    else
        future_free_locked(f);
    return rc;
}

int call_oneway_locked(moyai_ref *ref, const char *method, const struct moyai_args *args) {
    return unwaited(ref->node, call(ref->node, ref, method, args, true, false));
}

int moyai_call_oneway(moyai_ref *ref, const char *method, const struct moyai_args *args) {
    if (!ref) return MOYAI_EINVAL;
    moyai_node *n = ref->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    exec_lock(n->x);
    const int rc = call_oneway_locked(ref, method, args);
    exec_unlock(n->x);
    return rc;
}

moyai_future *call_oneway_told(moyai_ref *ref, const char *method, const struct moyai_args *args) {
    moyai_node *n = ref->node;
    exec_lock(n->x);
    moyai_future *f = call(n, ref, method, args, true, false);
    if (!f->constant) {
        f->oneway_told = true;
        if (f->state == FUTURE_PENDING && f->msg.state == MSG_IDLE && !f->movable)
            future_complete(f, 0, NULL); /* local: it is there */
    }
    exec_unlock(n->x);
    return f;
}

int moyai_room(moyai_ref *ref, moyai_dur timeout) {
    if (!ref) return MOYAI_EINVAL;
    moyai_node *n = ref->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    if (moyai_ref_is_local(ref)) return 0;
    api_enter(n);
    int rc = 0;
    struct peer *p = overlay_peer(n->o, ref->home);
    struct peer_calls *pc = p ? peer_calls(p, true) : NULL;
    moyai_ns until = timeout == MOYAI_FOREVER ? UINT64_MAX : moyai_now() + (moyai_ns)(timeout > 0 ? timeout : 0);
    if (!pc) rc = api_fail(n, MOYAI_ENOMEM, "out of memory for a peer");
    if (pc) pc->in_room++; /* keeps both while this waits */
    while (rc == 0 && !peer_dead(p, NULL) && !overlay_has_room(p)) {
        struct blocked b;
        blocked_init(n, &b, "waits for room towards a peer");
        wait_add(&pc->room, &b);
        rc = block(n, &b, until, false);
        wait_remove(&b);
        if (rc == MOYAI_ETIMEDOUT) {
            char who[PEER_NAME];
            peer_name(p, who);
            rc = api_fail(n, rc, "no room towards %s within %s", who, DUR(timeout));
        }
    }
    if (pc && --pc->in_room == 0) overlay_release(p);
    api_leave(n);
    return rc;
}

/* ---- control messages and signals ------------------------------------------------------------ */

struct control {
    struct msg msg;
    uint8_t bytes[];
};

static void control_done(struct msg *m, int code, enum moyai_executed executed) {
    (void)code;
    (void)executed;
    free(m);
}

int control_send(moyai_node *n, struct peer *p, const uint8_t *bytes, size_t len) {
    (void)n;
    struct control *c = calloc(1, sizeof *c + len);
    if (!c) return MOYAI_ENOMEM;
    memcpy(c->bytes, bytes, len);
    /* A deadline holds here in any case; there may be any number of them, as of signals, but one CANCEL a call. */
    c->msg.spare = bytes[0] == MESSAGE_SIGNAL || bytes[0] == MESSAGE_DOING || bytes[0] == MESSAGE_DEADLINE;
    c->msg.head = c->bytes;
    c->msg.head_len = (uint32_t)len;
    c->msg.length = len;
    c->msg.done = control_done;
    int rc = overlay_send(p, &c->msg);
    if (rc < 0) free(c);
    return rc;
}

static void signal_bytes(uint8_t bytes[32], uint64_t id, const uint8_t object[16]) {
    struct cursor_out c = cursor_out(bytes + 8, 24);
    memset(bytes, 0, 8);
    bytes[0] = MESSAGE_SIGNAL;
    cursor_put_u64(&c, id);
    cursor_put_bytes(&c, object, 16);
}

static int signal_remote(moyai_node *n, moyai_ref *ref) {
    uint8_t bytes[32];
    struct moyai_error why;
    if (drain_gone(n, &why) < 0) return api_error(n, &why);
    struct peer *p = overlay_peer(n->o, ref->home);
    signal_bytes(bytes, 0, ref->object);
    const int rc = p ? control_send(n, p, bytes, sizeof bytes) : MOYAI_ENOMEM;
    if (rc == 0) return 0;
    if (p && peer_dead(p, &why)) return api_error(n, &why);
    return api_fail(n, rc, "cannot send a signal to the object's node: %s%s", moyai_strerror(rc),
                    rc == MOYAI_EAGAIN ? "; moyai_room() waits" : "");
}

/* The signal that f stands for, to an object of this node. */
static void signal_here(moyai_future *f) {
    struct object *ob = object_find(f->node, f->object);
    int rc = ob ? object_signal(ob) : MOYAI_ENOOBJECT;
    struct moyai_error e;
    if (rc < 0) {
        failure_set(&e, rc, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED, "the object signalled has ended");
        future_fail(f, &e);
        return;
    }
    memset(f->inline_, 0, REPLY_HEAD);
    f->result = f->inline_;
    f->result_n = REPLY_HEAD;
    f->storage = RESULT_INLINE;
    future_complete(f, 0, NULL);
}

/* waited: the program has its future. */
static moyai_future *signal_told(moyai_node *n, moyai_ref *ref, bool waited) {
    moyai_future *f = future_new(n, true);
    if (!f) return constant_future(n, false);
    memcpy(f->object, ref->object, 16);
    memcpy(f->home, ref->home, 16);
    memcpy(f->method_copy, SIGNAL_NAME, sizeof SIGNAL_NAME - 1);
    f->method_len = sizeof SIGNAL_NAME - 1;
    signal_bytes(f->inline_, f->id, ref->object);
    f->msg.head = f->inline_;
    f->msg.head_len = 32;
    f->msg.length = 32;
    f->msg.spare = true; /* there may be any number of them */
    if (waited) future_inside(f);
    find_home(f);
    if (!moved_waits(f)) start(n, f, false);
    return f;
}

moyai_future *moyai_signal_async(moyai_ref *ref) {
    if (!ref) return without_reference();
    moyai_node *n = ref->node;
    if (exec_forked(n->x)) return constant_future(n, true);
    exec_lock(n->x);
    moyai_future *f = signal_told(n, ref, true);
    exec_unlock(n->x);
    return f;
}

int moyai_signal(moyai_ref *ref) {
    if (!ref) return MOYAI_EINVAL;
    moyai_node *n = ref->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    exec_lock(n->x);
    struct object *ob = object_of(ref);
    const bool goes = ob && ob->at.state == MOVING_SETTLES, local = moyai_ref_is_local(ref);
    const bool moves = object_moves(ref->object) && !id_equal(ref->object, ref->home);
    int rc;
    if (ob && !goes)
        rc = object_signal(ob);
    else if (moves && (goes || !local || moved_to(n, ref->object)))
        rc = unwaited(n, signal_told(n, ref, false)); /* it follows the object */
    else if (local)
        rc = api_fail(n, MOYAI_ENOOBJECT, "the object signalled has ended");
    else
        rc = signal_remote(n, ref);
    exec_unlock(n->x);
    return rc;
}
