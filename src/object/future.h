/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: the caller's end (future.c, call.c). For the object layer only; internal.h includes it. */
#ifndef OBJECT_FUTURE_H
#define OBJECT_FUTURE_H

#include "exec/exec.h"
#include "object/failure.h"
#include "overlay/io/overlay.h"
#include <moyai.h>
#include <stdatomic.h>

#define INLINE_BYTES 320u /* a small message lives in its record */

struct blocked;

enum future_state { FUTURE_PENDING, FUTURE_DONE };

struct moyai_future {
    struct msg msg;
    moyai_node *node;
    uint64_t id;       /* slot and generation; 0: none (one-way) */
    struct peer *peer; /* NULL: local, or never sent */
    moyai_request *local;
    moyai_future *open_prev, *open_next; /* calls open with the peer */
    uint8_t object[16], home[16];
    atomic_uchar state; /* changes under the lock; moyai_future_ready reads it without */
    bool constant;      /* a failed future of the node itself: nothing of it may change */
    bool oneway_told;   /* a one-way call that completes when its node has taken it */
    bool detached;    /* the user has freed it; it goes when its message is done, `then` has left the run queue and does
                         not run */
    unsigned getting; /* contexts in moyai_future_get that have not looked at it again */
    bool lends;       /* local, and nobody can end it before the method returns: arrays are not copied */
    bool in_open, then_queued, then_runs;
    bool never;              /* its message came back untaken */
    bool movable;            /* its object may be elsewhere: the request is kept until it is answered (moved.c) */
    bool awaited;            /* before others of its object are sent elsewhere */
    uint8_t again;           /* how often it was sent again */
    uint16_t round;          /* in which it was sent last: refused.h */
    bool inside;             /* made by a method or fiber, and not answered: a node that leaves waits for it */
    bool kept;               /* one-way, or a signal, and not answered: likewise. One of node->calls_kept */
    uint8_t storage;         /* enum result_storage */
    uint8_t where, executed; /* of code: what is left of a failure without memory for it */
    int code;
    struct failure *failure;
    char *doing;     /* what the method does, as its node said shortly before a deadline; NULL: not known */
    uint8_t *result; /* whole reply message; values begin at result + REPLY_HEAD */
    size_t result_n;
    struct codec_arena *arena;
    struct inbound in; /* a large reply arriving */
    struct blocked *waiters;
    struct blocked *freeing; /* the thread that frees it while `then` runs */
    moyai_set *set;
    moyai_future *set_prev, *set_next;
    uint64_t seq;                /* among the calls of the node of objects that may move */
    struct whereabouts *seeking; /* it waits there, and `failure` says why it was not made; NULL: it does not */
    moyai_future *seek_prev, *seek_next;
    void *user;
    void (*then)(moyai_future *f, void *arg);
    void *then_arg;
    struct exec_task task;
    struct exec_timer timer;
    moyai_dur timeout;  /* as set, for texts */
    uint32_t method_at; /* offset of the method's name in the request, for texts */
    uint8_t method_len;
    char method_copy[32]; /* its beginning: the request's bytes make way for the result */
    _Alignas(16) uint8_t inline_[INLINE_BYTES];
};
enum result_storage { RESULT_NONE, RESULT_INLINE, RESULT_MALLOC, RESULT_BUFFER };

/* NULL, or the future of a call that had no reference: there is no node to lock, and none that could keep an error. */
static inline bool future_no_node(const moyai_future *f) {
    return !f || !f->node;
}

struct moyai_set {
    moyai_node *node;
    moyai_future *pending, *ready, *ready_last;
    size_t n_pending, n_ready;
    struct blocked *waiter;
    bool wait_all;
};

void set_link(moyai_set *s, moyai_future *f);   /* among its ready or its pending ones, as f is */
void set_unlink(moyai_set *s, moyai_future *f); /* before f's state changes */
/* Wake who waits for s, if what it waits for is there; it stays the waiter until it runs, for s may be freed before. */
void set_wake(moyai_set *s);

struct call_slot {
    moyai_future *f;
    uint32_t generation, next_free;
};

moyai_future *future_new(moyai_node *n, bool wants_reply); /* NULL: out of memory */
void future_open(moyai_future *f);                         /* among the calls open at its peer, or local */
void future_inside(moyai_future *f);                       /* a method or fiber makes it, if that is who runs */
void future_keep(moyai_future *f);                         /* nobody holds it, and it is to be answered */
void futures_hurry(moyai_node *n);                         /* this node leaves: those are answered soon */
void future_free_locked(moyai_future *f);
moyai_future *future_by_id(moyai_node *n, uint64_t id);
void future_complete(moyai_future *f, int code, struct failure *failure); /* takes over failure */
struct moyai_error future_error(const moyai_future *f);                   /* of one that has failed */
void future_fail(moyai_future *f, const struct moyai_error *e);
void future_back(moyai_future *f);      /* it is open at nobody any more, and not completed */
void future_fail_back(moyai_future *f); /* of such a one, with the failure that is kept in it */
void future_cancel(moyai_future *f);
int future_get(moyai_future *f, const struct moyai_into *into, bool masked); /* between api_enter and api_leave */
int future_reply(moyai_node *n, struct peer *p, uint8_t *bytes, size_t len); /* EPROTO */
struct inbound *future_reply_begin(moyai_node *n, struct peer *p, const uint8_t *bytes, size_t len, uint64_t total);
int future_reply_complete(moyai_node *n, struct inbound *in);
int future_doing(moyai_node *n, struct peer *p, const uint8_t *bytes, size_t len); /* EPROTO */
void future_peer_failed(moyai_node *n, struct peer *p, const struct moyai_error *why);
void futures_fail_all(moyai_node *n);
/* A one-way call whose future completes when the object's node has taken it: for who wants to end then. */
int call_oneway_locked(moyai_ref *ref, const char *method, const struct moyai_args *args); /* lock held */
moyai_future *call_oneway_told(moyai_ref *ref, const char *method, const struct moyai_args *args);
void future_abandon(void *f); /* at the end: of a fiber that is abandoned, or the user's */
bool call_home_died(moyai_node *n, const uint8_t home[16], struct moyai_error *e); /* as is known here */
void call_again(moyai_future *f); /* of one that is back: to f->home; it may be gone then */
int control_send(moyai_node *n, struct peer *p, const uint8_t *bytes, size_t len);

#endif
