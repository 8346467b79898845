/* SPDX-License-Identifier: Apache-2.0 */
/* The object layer as the overlay sees it, and its beginning and end. */
#include "base/err.h"
#include "object/astray.h"
#include "object/drain.h"
#include "object/keep.h"
#include "object/move.h"
#include "object/moved.h"
#include "object/refused.h"

#include <stdlib.h>

static int on_message(void *ctx, struct peer *p, uint8_t *bytes, size_t len) {
    return serve_message(ctx, p, bytes, len);
}

static struct inbound *on_begin(void *ctx, struct peer *p, const uint8_t *bytes, size_t len, uint64_t total) {
    return serve_begin(ctx, p, bytes, len, total);
}

static int on_complete(void *ctx, struct inbound *in) {
    return serve_complete(ctx, in);
}
static void on_aborted(void *ctx, struct inbound *in) {
    serve_aborted(ctx, in);
}

static void on_room(void *ctx, struct peer *p) {
    struct peer_calls *pc = peer_calls(p, false);
    for (struct blocked *b; pc && (b = pc->room);) {
        wait_remove(b);
        (void)blocked_wake(ctx, b, 0);
    }
}

static void on_owes_less(void *ctx, struct peer *p) {
    owed_less(ctx, p);
}

static void on_failed(void *ctx, struct peer *p, const struct moyai_error *why) {
    future_peer_failed(ctx, p, why);
    serve_peer_failed(ctx, p);
    host_peer_failed(ctx, p, why);
    on_room(ctx, p); /* who waits for room finds it dead */
}

static bool on_cleared(void *ctx) {
    const moyai_node *n = ctx;
    if (!n->o) return true; /* it could not begin */
    serve_turn_away(ctx);
    return drain_cleared(ctx);
}

static bool on_busy(void *ctx, struct peer *p) {
    (void)ctx;
    const struct peer_calls *pc = peer_calls(p, false);
    return pc && (pc->open || pc->served || pc->in_room);
}

/* Objects keep their ids: nobody finds one by that alone, and references made from here on say where they are now. */
static bool on_rejoin(void *ctx, struct moyai_node_id *id) {
    moyai_node *n = ctx;
    struct self_id *s = malloc(sizeof *s);
    if (!s) return false;
    host_rejoins(n);
    rng_bytes(&n->rng, s->id.b, sizeof s->id.b);
    s->before = atomic_load_explicit(&n->self, memory_order_relaxed);
    atomic_store_explicit(&n->self, s, memory_order_release);
    *id = s->id;
    return true;
}

static void on_rejoined(void *ctx) {
    names_again(ctx);
}

static void ids_done(moyai_node *n) {
    const struct self_id *s = atomic_load_explicit(&n->self, memory_order_relaxed), *before;
    for (; s && s != &n->first_id; s = before) {
        before = s->before;
        free((void *)(uintptr_t)s);
    }
    atomic_store_explicit(&n->self, &n->first_id, memory_order_relaxed);
}

const struct overlay_ops object_overlay_ops = {.message = on_message,
                                               .begin = on_begin,
                                               .complete = on_complete,
                                               .aborted = on_aborted,
                                               .failed = on_failed,
                                               .room = on_room,
                                               .owes_less = on_owes_less,
                                               .name_lost = names_lost,
                                               .rejoin = on_rejoin,
                                               .rejoined = on_rejoined,
                                               .cleared = on_cleared,
                                               .busy = on_busy};

static int constant_init(moyai_node *n, moyai_future *f, int code) {
    struct moyai_error e;
    failure_set(&e, code, MOYAI_AT_CALLER, MOYAI_NEVER_EXECUTED, "%s", moyai_strerror(code));
    f->node = n;
    f->constant = true;
    f->state = FUTURE_DONE;
    f->code = code;
    f->failure = failure_new(&e, NULL);
    return f->failure ? 0 : MOYAI_ENOMEM;
}

int object_layer_init(moyai_node *n) {
    n->refs = object_refs_template;
    names_init(n);
    n->refs.ctx = n;
    n->futures.size = (sizeof(struct moyai_future) + 63) / 64 * 64;
    n->requests.size = (sizeof(struct moyai_request) + 63) / 64 * 64;
    uint64_t seed;
    int rc = constant_init(n, &n->constant_nomem, MOYAI_ENOMEM);
    if (rc == 0) rc = constant_init(n, &n->constant_fork, MOYAI_EFORK);
    if (rc == 0) rc = rng_system(&seed, sizeof seed);
    uint64_t seeds[4];
    if (rc == 0) rc = rng_system(seeds, sizeof seeds);
    if (rc < 0) return rc;
    rng_seed(&n->rng, seed);
    memcpy(n->rng.s, seeds, sizeof seeds); /* 256 bits: object ids must not collide in the whole grid */
    return 0;
}

void object_layer_done(moyai_node *n) {
    moved_done(n);
    refused_done(n);
    host_done(n);
    astray_done(n);
    posts_free_all(n);
    names_done(n);
    ids_done(n);
    if (n->x) exec_local_done(n->x, NULL, NULL); /* threads that end from here on */
    while (n->contexts) context_free(n, n->contexts);
    failure_unref(n->constant_nomem.failure);
    failure_unref(n->constant_fork.failure);
    free(n->slots);
    pool_done(&n->requests, request_abandon); /* they point to futures */
    pool_done(&n->futures, future_abandon);
    keep_done(n);
}
