/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: the callee's end (serve.c). For the object layer only; internal.h includes it. */
#ifndef OBJECT_REQUEST_H
#define OBJECT_REQUEST_H

#include "exec/exec.h"
#include "object/failure.h"
#include "object/future.h"
#include "object/hash.h"
#include "object/owed.h"
#include "overlay/io/overlay.h"
#include <moyai.h>

struct blocked;
struct context;

struct moyai_request {
    struct exec_task task;
    struct msg msg; /* the reply */
    struct inbound in;
    moyai_node *node;
    struct peer *peer; /* NULL: local, or gone */
    moyai_request *peer_prev, *peer_next;
    moyai_future *caller; /* local calls; NULL: remote, one-way or freed */
    uint64_t id;
    moyai_request *id_next;
    uint8_t caller_node[16];
    struct object *object;
    const uint8_t *sought; /* the id of one that is not here; while it is answered */
    const struct moyai_method *method;
    bool oneway, told, cancelled, cancel_told, answered, arriving, counted, from_local, parked, any_ancestor, of_leaver;
    bool receipt;    /* one-way, and answered */
    bool hurried;    /* with that: as soon as it has begun */
    bool passed;     /* it might have begun, but for its object, which moves: nothing else holds it back any more */
    bool nested;     /* this node is among its ancestors */
    bool wanted;     /* one of node->wanted */
    bool running;    /* user code is in it: what it may write to, `reply` and `out`, is its own */
    bool begun;      /* user code was, or it is a signal that was delivered */
    bool over;       /* finished: the record goes with its reply */
    uint32_t wave;   /* an answer that a node which leaves need not wait for, if it is drain.wave; 0: not such a one */
    uint8_t storage; /* enum result_storage: where the message lives */
    uint8_t n_ancestors;
    uint16_t depth, round;
    const uint8_t *ancestors; /* in the message */
    uint8_t root_node[16];
    uint64_t root_call;
    uint8_t *bytes;
    size_t n_bytes, args_at;
    struct codec_piece *lent; /* arrays that stay with the caller, which is blocked until the method is over */
    size_t n_lent;
    struct codec_arena *arena;
    struct codec_out out; /* results set by moyai_return */
    bool has_out;
    struct failure *raised;
    struct blocked *blocked;
    moyai_ns deadline;
    struct exec_timer timer;
    struct held *held; /* in its list */
    moyai_request *held_prev, *held_next;
    moyai_request *wait_next; /* in local_wait or parked */
    _Alignas(16) uint8_t inline_[INLINE_BYTES + 16];
    _Alignas(16) uint8_t reply[INLINE_BYTES];
};

/* Calls of one peer to one object that have not begun, in order: the first is arriving, a large one. */
struct held {
    UT_hash_handle hh;
    struct object *object;
    moyai_request *first, *last;
};

/* What the object layer keeps for a peer. */
struct peer_calls {
    moyai_future *open;         /* calls to it */
    moyai_request *served;      /* calls from it */
    struct held *held;          /* of these, by object: uthash */
    struct owed parked;         /* calls from it that are held back */
    struct blocked *room;       /* waiting in moyai_room */
    unsigned in_room;           /* contexts in it */
    moyai_request *by_id[1024]; /* calls from it again, by the slot in their id; linked by id_next */
};
struct peer_calls *peer_calls(struct peer *p, bool make);

int serve_message(moyai_node *n, struct peer *p, uint8_t *bytes, size_t len); /* any small message. EPROTO */
struct inbound *serve_begin(moyai_node *n, struct peer *p, const uint8_t *bytes, size_t len, uint64_t total);
int serve_complete(moyai_node *n, struct inbound *in);
void serve_aborted(moyai_node *n, struct inbound *in);
void serve_peer_failed(moyai_node *n, struct peer *p);
/* A local call: f's request. Fails f itself if it cannot be. */
void serve_local(moyai_node *n, moyai_future *f, bool oneway);
void request_turn_away(moyai_request *rq); /* one that has not begun: its node leaves */
/* This node ends: of others' calls those that have not begun do not begin any more, and are answered that now. */
void serve_turn_away(moyai_node *n);
/* Something of others has begun of whose end they have not heard, as far as is known here. */
bool serve_unheard(const moyai_node *n);
/* A fiber has ended or blocks: may a local call that waits begin? */
void serve_waiting(moyai_node *n);
/* Around a fiber that is no method's: moyai_go, moyai_future_then. c is its context. */
void fiber_begin(moyai_node *n, struct context *c);
void fiber_end(moyai_node *n, struct context *c);
/* moyai_go with the lock held. */
int go_locked(moyai_node *n, void (*fn)(void *arg), void *arg);
void posts_free_all(moyai_node *n); /* at the end: what will not be run */
int raised_code(int code);          /* the code that a method has returned, as its caller shall see it */
/* answer.c: unless it is answered. */
void answer_values(moyai_request *rq); /* what moyai_return has set */
void answer_levels(moyai_request *rq, const struct moyai_error *level, unsigned levels);
/* The method has returned an error that it has not raised. If the library told it that, the text is what it was told.
 */
void answer_returned(moyai_request *rq, int rc, const struct moyai_error *told);
void request_unwant(moyai_request *rq); /* nobody waits for it any more */
void answer_begun(moyai_request *rq); /* if it is one whose node leaves, or is this one, and nobody asks for its end */
/* Answer it with an error, unless it is answered. */
void request_fail(moyai_request *rq, int code, enum moyai_where where, enum moyai_executed executed, const char *text);
/* deadline.c */
void request_cancel(moyai_request *rq);
void request_deadline(moyai_request *rq, moyai_dur remaining);
moyai_dur deadline_patience(moyai_dur remaining); /* beyond it, a caller waits for its callee's word of it */
/* Has its deadline passed before it has begun? Then it is answered, and shall not begin. */
bool request_late(moyai_request *rq);
void request_due(struct exec *x, struct exec_timer *t);                /* its timer's function */
void request_describe(const moyai_request *rq, char *out, size_t cap); /* what it is doing, for reports */
void request_abandon(void *rq);                                        /* at the end */
bool call_names(const moyai_future *f, char *out, size_t cap);         /* "'method' of moyai:..." */

#endif
