/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/public/box.h"

const struct box_op_info box_ops[BOX_OPS_N] = {
#define X(op, masked) {#op, masked},
    BOX_OPS(X)
#undef X
};

/* ---- the gate -------------------------------------------------------------------------------- */

static int gate_pass(moyai_request *rq, void *self) {
    struct box *b = self;
    int64_t x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    b->at_gate++;
    while (!b->open) {
        int rc = moyai_wait(b->gate_set, MOYAI_FOREVER);
        if (rc == MOYAI_ESTATE) { /* a set serves one fiber at a time; the others sleep in the same scope */
            rc = moyai_sleep(b->node, MOYAI_FOREVER);
        }
        if (rc == MOYAI_ECANCELED) break;
        KIT_RC(rc, MOYAI_SIGNALLED);
    }
    if (--b->at_gate > 0) KIT_OK(moyai_signal(b->gate)); /* the next */
    return moyai_return(rq, MOYAI_ARGS(x));
}

static const struct moyai_method gate_methods[] = {{"pass", gate_pass}, {NULL, NULL}};
static const struct moyai_class gate_class = MOYAI_CLASS("Gate", gate_methods, NULL);

static void gate_open(struct box *b) {
    b->open = true;
    if (b->at_gate > 0) KIT_OK(moyai_signal(b->gate));
    kit_settle(b->node);
    FIBER_ASSERT_INT(b->at_gate, 0);
}

/* ---- the box --------------------------------------------------------------------------------- */

static int op_wait(struct box *b, bool all, bool masked) {
    moyai_set *set = kit_set(b->node);
    for (int i = 0; i < 2; i++) KIT_OK(moyai_set_add(set, moyai_call_async(b->gate, "pass", MOYAI_ARGS(i))));
    int rc;
    if (all)
        rc = masked ? moyai_wait_all_masked(set, MOYAI_FOREVER) : moyai_wait_all(set, MOYAI_FOREVER);
    else
        rc = masked ? moyai_wait_masked(set, MOYAI_FOREVER) : moyai_wait(set, MOYAI_FOREVER);
    if (rc == MOYAI_SIGNALLED) {
        b->set = set;
        return rc;
    }
    FIBER_ASSERT_INT(rc, 2); /* the gate lets both pass in the same turn */
    moyai_future *f;
    while ((f = moyai_set_next(set))) moyai_future_free(f);
    FIBER_ASSERT_INT(moyai_set_count(set), 0);
    moyai_set_free(set);
    return 0;
}

static int op_run(struct box *b, enum box_op op, bool masked) {
    int64_t x = 0;
    int rc;
    switch (op) {
    case BOX_CALL:
        rc = moyai_call(b->gate, "pass", MOYAI_ARGS(7), MOYAI_INTO(&x), masked ? NULL : &b->pending);
        if (rc == 0) FIBER_ASSERT_INT(x, 7);
        return rc;
    case BOX_GET: {
        moyai_future *f = moyai_call_async(b->gate, "pass", MOYAI_ARGS(8));
        rc = masked ? moyai_future_get_masked(f, MOYAI_INTO(&x)) : moyai_future_get(f, MOYAI_INTO(&x));
        if (rc == 0) FIBER_ASSERT_INT(x, 8);
        if (rc == MOYAI_SIGNALLED)
            b->pending = f;
        else
            moyai_future_free(f);
        return rc;
    }
    case BOX_WAIT:
        return op_wait(b, false, masked);
    case BOX_WAIT_ALL:
        return op_wait(b, true, masked);
    case BOX_SLEEP:
        return masked ? moyai_sleep_masked(b->node, b->nap) : moyai_sleep(b->node, b->nap);
    case BOX_LOOKUP: {
        moyai_ref *ref = NULL;
        rc = moyai_lookup_wait(b->node, b->name, MOYAI_FOREVER, &ref);
        FIBER_ASSERT((rc == 0) == (ref != NULL));
        if (ref) FIBER_ASSERT(moyai_ref_equal(ref, b->gate));
        moyai_ref_unref(ref);
        return rc;
    }
    case BOX_ROOM:
        return moyai_room(b->peer, MOYAI_FOREVER);
    case BOX_OPS_N:
        break;
    }
    FIBER_FAIL("no operation %d", op);
}

static int box_method_block(moyai_request *rq, void *self) {
    struct box *b = self;
    int op;
    bool masked;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&op, &masked)));
    b->blocked++;
    int rc = op_run(b, (enum box_op)op, masked);
    b->blocked--;
    return moyai_return(rq, MOYAI_ARGS(rc));
}

static int box_method_touch(moyai_request *rq, void *self) {
    struct box *b = self;
    return moyai_return(rq, MOYAI_ARGS(++b->touched));
}

static int box_method_signal_me(moyai_request *rq, void *self) {
    (void)self;
    KIT_OK(moyai_signal(moyai_self(rq)));
    return 0;
}

static const struct moyai_method box_methods[] = {
    {"block", box_method_block}, {"touch", box_method_touch}, {"signal_me", box_method_signal_me}, {NULL, NULL}};
static const struct moyai_class box_class = MOYAI_CLASS("Box", box_methods, NULL);

moyai_future *box_block(struct box *b, enum box_op op, bool masked) {
    bool m = masked;
    moyai_future *f = moyai_call_async(b->ref, "block", MOYAI_ARGS((int)op, m));
    kit_settle(b->node);
    return f;
}

int box_result(moyai_future *f) {
    int rc = 12345;
    KIT_OK(moyai_future_get(f, MOYAI_INTO(&rc)));
    moyai_future_free(f);
    return rc;
}

void box_shut(struct box *b, enum box_op op) {
    b->open = false;
    b->nap = 3600 * MOYAI_SEC;
    if (op == BOX_ROOM) {
        kit_stop(b->pid);
        /* What waits goes to the session at the next turn of the loop, as long as that takes any. */
        for (bool more = true; more; kit_settle(b->node)) {
            int rc;
            more = false;
            while ((rc = moyai_call_oneway(b->peer, "take", MOYAI_NONE)) == 0) more = true;
            KIT_RC(rc, MOYAI_EAGAIN);
        }
    }
}

void box_release(struct box *b, enum box_op op) {
    switch (op) {
    case BOX_CALL:
    case BOX_GET:
    case BOX_WAIT:
    case BOX_WAIT_ALL:
        gate_open(b);
        return;
    case BOX_SLEEP:
        return; /* it ends by itself, after b->nap */
    case BOX_LOOKUP:
        KIT_OK(moyai_register(b->gate, b->name));
        return;
    case BOX_ROOM:
        kit_cont(b->pid);
        return;
    case BOX_OPS_N:
        break;
    }
}

/* ---- the other process ----------------------------------------------------------------------- */

static int peer_take(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    return 0;
}

/* signal(ref): from another process. */
static int peer_signal(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref)));
    moyai_future *f = moyai_signal_async(ref);
    int rc = moyai_future_get(f, MOYAI_NONE);
    moyai_future_free(f);
    moyai_ref_unref(ref);
    return rc;
}

static const struct moyai_method peer_methods[] = {{"take", peer_take}, {"signal", peer_signal}, {NULL, NULL}};
static const struct moyai_class peer_class = MOYAI_CLASS("Peer", peer_methods, NULL);

int box_peer(int argc, char **argv) {
    (void)argc, (void)argv;
    return kit_serve(NULL, &peer_class, NULL, "box-peer");
}

/* ---- life ------------------------------------------------------------------------------------ */

void box_open(struct box *b) {
    *b = (struct box){.nap = 3600 * MOYAI_SEC};
    strcpy(b->name, "box-name");
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.queue_calls = 8; /* soon full */
    b->node = kit_node(&opts);
    b->ref = kit_object(b->node, &box_class, b);
    b->gate = kit_object(b->node, &gate_class, b);
    b->gate_set = kit_set(b->node);
    b->pid = kit_child("box-peer", NULL);
    b->peer = kit_lookup(b->node, "box-peer");
    KIT_OK(moyai_call(b->peer, "take", MOYAI_NONE, MOYAI_NONE, NULL)); /* the session is there */
}

void box_close(struct box *b) {
    moyai_set_free(b->gate_set);
    moyai_ref_unref(b->ref);
    moyai_ref_unref(b->gate);
    moyai_ref_unref(b->peer);
    moyai_node_free(b->node);
    kit_end(b->pid);
}
