/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the object layer and by the composition root.
 *
 * Everything reachable from struct moyai_node is covered by the node lock, except what is said to be a
 * fiber's own. Naming: a *future* is the caller's end of a call, a *request* the callee's.
 */
#ifndef OBJECT_INTERNAL_H
#define OBJECT_INTERNAL_H

#include "base/id.h"
#include "base/rng.h"
#include "exec/exec.h"
#include "object/failure.h"
#include "object/owed.h"
#include "object/pool.h"
#include "overlay/io/overlay.h"
#include <moyai.h>
#include <stdatomic.h>
#include <string.h>

#define HASH_FUNCTION(keyptr, keylen, hashv)                                                                           \
    do {                                                                                                               \
        uint64_t h_;                                                                                                   \
        memcpy(&h_, keyptr, sizeof h_);                                                                                \
        (hashv) = (unsigned)(h_ ^ (h_ >> 32)); /* keys are random bits or pointers */                                  \
    } while (0)
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define CALL_DEPTH     1000u        /* nested calls */
#define CALL_ANCESTORS 16u          /* nodes named in a request; more: "any" */
#define CALL_CAUSES    16u          /* levels of an error */
#define ARRAY_BORROW   (64u * 1024) /* arrays and bytes from this size on are not copied */
#define INLINE_BYTES   320u         /* a small message lives in its record */

/* ---- objects --------------------------------------------------------------------------------- */

struct klass; /* a class with its methods hashed */

struct object_name {
    struct object_name *next;
    char text[];
};

struct object {
    UT_hash_handle hh;
    uint8_t id[16];
    moyai_node *node;
    struct klass *klass;
    moyai_ref *ref; /* to itself: what moyai_self lends */
    void *self;
    size_t users;          /* requests queued or in scope */
    struct exec_task task; /* frees it */
    bool ended;
    bool pending;                                 /* a signal nobody has consumed yet */
    struct blocked *blocked_first, *blocked_last; /* unmasked, longest first */
    struct object_name *names;
};

const struct moyai_method *klass_find(const struct klass *k, const char *name, size_t n);
const char *klass_name(const struct klass *k);

struct moyai_ref {
    struct codec_ref head; /* first: structured values hold references by it */
    atomic_uint refs;
    moyai_node *node;
    uint8_t object[16], home[16];
};
moyai_ref *ref_new(moyai_node *n, const uint8_t object[16], const uint8_t home[16]);
struct object *object_find(moyai_node *n, const uint8_t id[16]);
void object_leave(struct object *ob); /* a user less; an ended object without any is freed soon, on a fiber */
void objects_end_all(moyai_node *n);
extern const struct codec_refs object_refs_template;

/* ---- contexts and blocking ------------------------------------------------------------------- */

/* What runs: a fiber in a method or not, the main context, another thread. Its own, but for `blocked`. */
struct context {
    moyai_request *rq;    /* the call being executed; NULL: none */
    struct object *scope; /* NULL: in no object's scope */
    moyai_future *held;   /* of the last synchronous call: its text and arrays are borrowed from it */
    bool counted;         /* a fiber: one of node->active */
    struct moyai_error last;
    struct context *next; /* node's list; of main and foreign contexts */
};
struct context *context_get(moyai_node *n); /* never NULL: a static fallback if memory is out */

/* Somebody blocked. On the blocked side's stack. */
struct blocked {
    struct exec_waiter w;
    struct object *scope; /* in whose list it is; NULL: none */
    struct blocked *prev, *next;
    struct blocked *wait_next; /* in the list of what it waits for */
    /* For reports: the call it waits for, or the calls of a set; NULL: something else, or no more. */
    const moyai_future *on;
    const moyai_set *on_set;
    const char *what; /* for reports: "sleeps" ... */
    bool counted;     /* one of node->n_blocked */
};
/*
 * Block until blocked_wake or the deadline. Returns what the waker gave, or ETIMEDOUT, SIGNALLED (unless masked),
 * ECANCELED (the running call was cancelled; once). The caller takes b out of whatever list it has put it into.
 */
int block(moyai_node *n, struct blocked *b, moyai_ns deadline, bool masked);
void blocked_init(moyai_node *n, struct blocked *b, const char *what);
bool blocked_wake(moyai_node *n, struct blocked *b, int result);
int object_signal(struct object *ob);

/* Entry into and return from a function that may block, and one that does not. EFORK is the caller's to check. */
void api_enter(moyai_node *n);
void api_leave(moyai_node *n);
/* Back from user code that was entered with exec_user_enter: a method or a callback. */
void user_leave(moyai_node *n);
int api_error(moyai_node *n, const struct moyai_error *e); /* remember as last error; returns its code */
int api_fail(moyai_node *n, int code, const char *fmt, ...) MOYAI_PRINTF(3, 4);

/* ---- calls: the caller's end ----------------------------------------------------------------- */

enum future_state { FUTURE_PENDING, FUTURE_DONE };

struct moyai_future {
    struct msg msg;
    moyai_node *node;
    uint64_t id;       /* slot and generation; 0: none (one-way) */
    struct peer *peer; /* NULL: local, or never sent */
    moyai_request *local;
    moyai_future *open_prev, *open_next; /* calls open with the peer */
    uint8_t object[16], home[16];
    uint8_t state;
    bool constant;    /* a failed future of the node itself: nothing of it may change */
    bool detached;    /* the user has freed it; it goes when its message is done and `then` has left the run queue */
    unsigned getting; /* contexts in moyai_future_get that have not looked at it again */
    bool in_open, then_queued;
    bool never;      /* its message came back untaken */
    uint8_t storage; /* enum result_storage */
    int code;
    struct failure *failure;
    uint8_t *result; /* whole reply message; values begin at result + REPLY_HEAD */
    size_t result_n;
    struct codec_arena *arena;
    struct inbound in; /* a large reply arriving */
    struct blocked *waiters;
    moyai_set *set;
    moyai_future *set_prev, *set_next;
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

struct moyai_set {
    moyai_node *node;
    moyai_future *pending, *ready, *ready_last;
    size_t n_pending, n_ready;
    struct blocked *waiter;
    bool wait_all;
};

struct call_slot {
    moyai_future *f;
    uint32_t generation, next_free;
};

moyai_future *future_new(moyai_node *n, bool wants_reply); /* NULL: out of memory */
void future_open(moyai_future *f);                         /* among the calls open at its peer, or local */
void future_free_locked(moyai_future *f);
moyai_future *future_by_id(moyai_node *n, uint64_t id);
void future_complete(moyai_future *f, int code, struct failure *failure); /* takes over failure */
void future_fail(moyai_future *f, const struct moyai_error *e);
int future_reply(moyai_node *n, struct peer *p, uint8_t *bytes, size_t len); /* EPROTO */
struct inbound *future_reply_begin(moyai_node *n, struct peer *p, const uint8_t *bytes, size_t len, uint64_t total);
int future_reply_complete(moyai_node *n, struct inbound *in);
void future_peer_failed(moyai_node *n, struct peer *p, const struct moyai_error *why);
void futures_fail_all(moyai_node *n);
void future_abandon(void *f); /* at the end: of a fiber that is abandoned, or the user's */
int control_send(moyai_node *n, struct peer *p, const uint8_t *bytes, size_t len);

/* ---- calls: the callee's end ----------------------------------------------------------------- */

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
    const struct moyai_method *method;
    bool oneway, cancelled, cancel_told, answered, arriving, counted, from_local, parked, any_ancestor;
    bool running;    /* user code is in it: what it may write to, `reply` and `out`, is its own */
    bool over;       /* finished: the record goes with its reply */
    uint8_t storage; /* enum result_storage: where the message lives */
    uint8_t n_ancestors;
    uint16_t depth;
    const uint8_t *ancestors; /* in the message */
    uint8_t root_node[16];
    uint64_t root_call;
    uint8_t *bytes;
    size_t n_bytes, args_at;
    struct codec_arena *arena;
    struct codec_out out; /* results set by moyai_return */
    bool has_out;
    struct failure *raised;
    struct blocked *blocked;
    moyai_ns deadline;
    struct exec_timer timer;
    moyai_request *held_next; /* in peer_calls.held */
    moyai_request *wait_next; /* in peer_calls.arriving, local_wait or parked */
    _Alignas(16) uint8_t inline_[INLINE_BYTES + 16];
    _Alignas(16) uint8_t reply[INLINE_BYTES];
};

/* What the object layer keeps for a peer. */
struct peer_calls {
    moyai_future *open;              /* calls to it */
    moyai_request *served;           /* calls from it */
    moyai_request *arriving;         /* large ones of them, not complete; linked by wait_next */
    moyai_request *held, *held_last; /* these, and complete ones that follow one to the same object, in order */
    struct owed parked;              /* calls from it that are held back */
    struct blocked *room;            /* waiting in moyai_room */
    unsigned in_room;                /* contexts in it */
    moyai_request *by_id[1024];      /* calls from it again, by the slot in their id; linked by id_next */
};
struct peer_calls *peer_calls(struct peer *p, bool make);

int serve_message(moyai_node *n, struct peer *p, uint8_t *bytes, size_t len); /* any small message. EPROTO */
struct inbound *serve_begin(moyai_node *n, struct peer *p, const uint8_t *bytes, size_t len, uint64_t total);
int serve_complete(moyai_node *n, struct inbound *in);
void serve_aborted(moyai_node *n, struct inbound *in);
void serve_peer_failed(moyai_node *n, struct peer *p);
/* A local call: f's request. Fails f itself if it cannot be. */
void serve_local(moyai_node *n, moyai_future *f, bool oneway);
/* A fiber has ended or blocks: may a local call that waits begin? */
void serve_waiting(moyai_node *n);
/* Around a fiber that is no method's: moyai_go, moyai_future_then. c is its context. */
void fiber_begin(moyai_node *n, struct context *c);
void fiber_end(moyai_node *n, struct context *c);
void posts_free_all(moyai_node *n); /* at the end: what will not be run */
void request_cancel(moyai_request *rq);
void request_deadline(moyai_request *rq, moyai_dur remaining);
void request_abandon(void *rq);                                        /* at the end */
void request_describe(const moyai_request *rq, char *out, size_t cap); /* what it is doing, for reports */
bool call_names(const moyai_future *f, char *out, size_t cap);         /* "'method' of moyai:..." */

/* ---- the node -------------------------------------------------------------------------------- */

struct moyai_node {
    struct exec *x;
    struct overlay *o;
    struct moyai_log *log;
    struct events *events;
    struct moyai_node_id id;
    struct config config;
    struct moyai_rng rng;
    struct codec_refs refs;
    struct object *objects; /* uthash by id */
    struct klass *klasses;  /* uthash by class */
    struct call_slot *slots;
    uint32_t n_slots, free_slot; /* free_slot: index + 1; 0: none */
    moyai_future *local_open;    /* calls to objects of this node */
    size_t n_objects, max_message, max_calls, queue_calls, queue_bytes;
    size_t active;    /* fibers, and requests that will have one: taken and not finished */
    size_t n_blocked; /* of these: in block(), and not woken as far as is known */
    size_t n_parked;  /* of these: calls held back by owed.c */
    /* Calls within this node that wait for a place; [1]: made by fibers, which hold one. serve.c */
    struct {
        moyai_request *first, *last;
    } local_wait[2];
    size_t local_waiting;
    moyai_request *all_local; /* requests of local calls (peer_prev/next) */
    struct context *contexts;
    struct posted *posts; /* not begun */
    struct context fallback;
    struct pool futures, requests;
    moyai_future constant_nomem, constant_fork;
    struct blocked *lookups; /* waiting for a name to appear */
    bool watching, ending;
    atomic_bool stop;
    int signal_fd;
    struct exec_fd *signal_watch;
    uint64_t calls_made, calls_served, calls_open;
    struct moyai_log own_log;
};
int object_layer_init(moyai_node *n);
void object_layer_done(moyai_node *n);
extern const struct overlay_ops object_overlay_ops;

#endif
