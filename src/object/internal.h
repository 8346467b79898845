/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the object layer and by the composition root.
 *
 * Everything reachable from struct moyai_node is covered by the node lock, except what is said to be a
 * fiber's own. Naming: a *future* is the caller's end of a call, a *request* the callee's.
 */
#ifndef OBJECT_INTERNAL_H
#define OBJECT_INTERNAL_H

#include "base/err.h"
#include "base/id.h"
#include "base/rng.h"
#include "exec/exec.h"
#include "object/drain_state.h"
#include "object/failure.h"
#include "object/future.h"
#include "object/hash.h"
#include "object/moving.h"
#include "object/owed.h"
#include "object/pool.h"
#include "object/request.h"
#include "overlay/io/overlay.h"
#include <moyai.h>
#include <stdatomic.h>
#include <string.h>

#define CALL_DEPTH     1000u        /* nested calls */
#define CALL_ANCESTORS 16u          /* nodes named in a request; more: "any" */
#define CALL_CAUSES    16u          /* levels of an error */
#define ARRAY_BORROW   (64u * 1024) /* arrays and bytes from this size on are not copied */

/* ---- objects --------------------------------------------------------------------------------- */

struct klass; /* a class with its methods hashed */
struct self_id;

struct object_name {
    UT_hash_handle hh;
    struct object *owner;           /* NULL: it has ended, and the name could not be removed */
    struct object_name *next, **at; /* of the owner; or in node.stale */
    const struct self_id *under;    /* the node's id in the rendezvous directory */
    uint64_t claim;                 /* whether it is the object's is not known yet; 0: it is */
    uint8_t object[16];
    char text[];
};

struct name_wait;

struct object {
    UT_hash_handle hh;
    uint8_t id[16];
    uint64_t number; /* among the node's objects, in the order in which they were made */
    moyai_node *node;
    struct klass *klass;
    moyai_ref *ref; /* to itself: what moyai_self lends */
    void *self;
    size_t users;                /* requests queued or in scope */
    struct exec_task task, hook; /* free it; call its on_leave */
    bool ended;
    bool pending;                                 /* a signal nobody has consumed yet */
    struct blocked *blocked_first, *blocked_last; /* unmasked, longest first */
    struct object_name *names;
    /* move.c */
    struct moving at;
    bool moving;   /* no call begins: they wait, in this list */
    size_t inside; /* methods and on_leave functions that run in its scope */
    size_t claims; /* names that it may get: whether it does is not known yet */
    moyai_request *parked_first, *parked_last;
    struct handing *handing; /* while it is offered, or settled; else NULL */
    struct blocked *mover;   /* waits for `inside` to be none */
    bool frozen;             /* nothing runs in its scope till it has moved, or not: its state is packed */
    bool departs;            /* it goes to drain.away when nobody is in its scope */
    bool stays;              /* its node leaves, and nobody else takes it */
    bool told;               /* that it leaves: on_leave has been called, or is about to be */
    bool goes;               /* after on_leave */
    struct object *away;     /* in drain.away */
};

const struct moyai_method *klass_find(const struct klass *k, const char *name, size_t n);
const char *klass_name(const struct klass *k);
moyai_leave_fn klass_on_leave(const struct klass *k);                              /* NULL: none */
void klass_list(const struct klass *k, const char *wanted, char *out, size_t cap); /* behind "has no method" */

struct moyai_ref {
    struct codec_ref head; /* first: structured values hold references by it */
    atomic_uint refs;
    moyai_node *node;
    uint8_t object[16], home[16];
};
moyai_ref *ref_new(moyai_node *n, const uint8_t object[16], const uint8_t home[16]);
struct object *object_find(moyai_node *n, const uint8_t id[16]);
struct object *object_of(const moyai_ref *ref); /* if it is at this node, and has not ended; else NULL */
/* id NULL: a new one. *ret is borrowed. EINVAL, ENOMEM, ESTATE. */
int object_make(moyai_node *n, const struct moyai_class *cls, void *self, const uint8_t *id, struct object **ret,
                struct moyai_error *reterr);
bool class_moves(const struct moyai_class *cls); /* it has pack and unpack */
const struct moyai_class *klass_class(const struct klass *k);
void object_leave(struct object *ob); /* a user less; an ended object without any is freed soon, on a fiber */
void objects_end_all(moyai_node *n);
void names_remove(struct object *ob); /* at its end; gives the lock away between */
void names_init(moyai_node *n);
void names_lost(void *node, const uint8_t key[16]);
void names_again(moyai_node *n); /* the node has another id: soon, those of the directory get it, too */
/* located.c: names of grids without a directory. They block: anything may have ended meanwhile. */
#define GIVEN_UP   "the name \"%s\" was given up again meanwhile"
#define NAMES_FULL "this node has as many names as it may have in a grid without a directory"
int located_claim(moyai_node *n, const char *name, const uint8_t object[16], struct moyai_error *e);
/* until: 0: who has it now. 0; ENOENT, ETIMEDOUT, EUNREACHABLE (there is nobody to ask: e is not set); SIGNALLED,
 * ECANCELED ... */
int located_find(moyai_node *n, const char *name, moyai_ns until, uint8_t object[16], uint8_t node[16],
                 struct moyai_error *e);
#define NAME_AWAITED (5 * MOYAI_SEC) /* after which who waits for a name says so in the log, once */
void name_awaited(moyai_node *n, const char *name);
/* Of an object that moves (move.c): which node has it, by its name. ENOENT ... May switch fibers. */
int name_where(moyai_node *n, const char *name, uint8_t home[16], struct moyai_error *e);
int name_arrives(struct object *ob, const char *name, struct moyai_error *e); /* it is another's no more */
void names_depart(struct object *ob);                                         /* they are another node's already */
void names_unwait(moyai_node *n);                                             /* the node ends: nobody waits any more */
void names_fail(moyai_node *n); /* who waits for one hears that there is no grid any more (ECLOSED) */
void names_done(moyai_node *n); /* it has ended */
extern const struct codec_refs object_refs_template;

/* ---- contexts and blocking ------------------------------------------------------------------- */

/* What runs: a fiber in a method or not, the main context, another thread. Its own, but for `blocked`. */
struct context {
    moyai_request *rq;    /* the call being executed; NULL: none */
    struct object *scope; /* NULL: in no object's scope */
    moyai_future *held;   /* of the last synchronous call: its text and arrays are borrowed from it */
    bool counted;         /* a fiber: one of node->active */
    bool leave_told;      /* that the node leaves */
    struct moyai_error last;
    struct context *next, **prev; /* node's list; of main and foreign contexts */
};
/* Of a fiber: one that runs a method, or (NULL) another one. */
static inline void context_begin(struct context *c, moyai_request *rq) {
    c->rq = rq;
    c->scope = rq ? rq->object : NULL;
    c->held = NULL;
    c->counted = true;
    c->leave_told = false;
    err_none(&c->last);
    c->next = NULL;
    c->prev = NULL;
}
struct context *context_get(moyai_node *n);   /* never NULL: a static fallback if memory is out */
void context_free(void *node, void *context); /* of the list: its thread or its node ends */

/* Somebody blocked. On the blocked side's stack. */
struct blocked {
    struct exec_waiter w;
    struct object *scope; /* in whose list it is; NULL: none */
    struct blocked *prev, *next;
    struct blocked *wait_next, **wait_at; /* in the list of what it waits for; wait_at NULL: in none */
    /* For reports: the call it waits for, or the calls of a set; NULL: something else, or no more. */
    const moyai_future *on;
    const moyai_set *on_set;
    const char *what; /* for reports: "sleeps" ... */
    const char *name; /* and of what name, as long as it blocks; NULL: none */
    bool counted;     /* one of node->n_blocked */
    /* It is told when the node begins to leave, and until then in the list of those. drain.c */
    bool tells_leave;
    struct context *context;
    struct blocked *tell_next, **tell_at;
};
/*
 * Block until blocked_wake or the deadline. Returns what the waker gave, or ETIMEDOUT, SIGNALLED (unless masked),
 * ELEAVING (if b tells_leave; once), ECANCELED (the running call was cancelled; once), ESTATE and ECLOSED of exec_wait.
 * What is no result and no time-out is the last error already. The caller takes b out of whatever list it has put it
 * into.
 */
int block(moyai_node *n, struct blocked *b, moyai_ns deadline, bool masked);
int block_failed(moyai_node *n, int code, const char *what); /* make these the last error; returns code */
void blocked_init(moyai_node *n, struct blocked *b, const char *what);
bool blocked_wake(moyai_node *n, struct blocked *b, int result);
void wait_add(struct blocked **list, struct blocked *b);
void wait_remove(struct blocked *b); /* fine if it is in none */
int object_signal(struct object *ob);

/* Entry into and return from a function that may block, and one that does not. EFORK is the caller's to check. */
void api_enter(moyai_node *n);
void api_leave(moyai_node *n);
/* Back from user code that was entered with exec_user_enter: a method or a callback. */
void user_leave(moyai_node *n);
int api_error(moyai_node *n, const struct moyai_error *e); /* remember as last error; returns its code */
int api_fail(moyai_node *n, int code, const char *fmt, ...) MOYAI_PRINTF(3, 4);
int api_refuse(moyai_node *n, int code, const char *fmt, ...) MOYAI_PRINTF(3, 4); /* the same, lock not held */

/* ---- the node -------------------------------------------------------------------------------- */

/* An id of the node. It gets another one when others have declared it dead; those before stay its own here. Read
 * without the node lock, so a record never changes, and goes with the node. */
struct self_id {
    struct moyai_node_id id;
    const struct self_id *before; /* NULL: it was the first */
};

struct moyai_node {
    moyai_node *live_next; /* node.c */
    struct exec *x;
    struct overlay *o;
    struct moyai_log *log;
    struct events *events;
    struct self_id first_id;
    _Atomic(const struct self_id *) self; /* the present one */
    struct config config;
    char title[80]; /* where the program has not given one */
    struct moyai_rng rng;
    struct codec_refs refs;
    struct object *objects; /* uthash by id */
    struct klass *klasses;  /* uthash by class */
    struct call_slot *slots;
    uint32_t n_slots, free_slot; /* free_slot: index + 1; 0: none */
    moyai_future *local_open;    /* calls to objects of this node */
    uint64_t last_number;        /* of an object */
    uint64_t last_claim;         /* object_name.claim */
    moyai_ns started;
    bool observer; /* looks at others and is not to be counted among them */
    struct {       /* commands that it runs for others: node_object.c. ref NULL: none */
        moyai_ref *ref;
        uint64_t slots, used;
    } agent;
    size_t n_objects, max_message, max_calls, queue_calls, queue_bytes;
    size_t active;    /* fibers, and requests that will have one: taken and not finished */
    size_t n_blocked; /* of these: in block(), and not woken as far as is known */
    size_t n_parked;  /* of these: calls held back by owed.c */
    size_t wanted;    /* requests that have not been answered, one-way ones: that are not over */
    bool unheard;     /* a session has failed whose other end had calls here of whose end it had not heard */
    /* Calls within this node that wait for a place; [1]: made by fibers, which hold one. serve.c */
    struct {
        moyai_request *first, *last;
    } local_wait[2];
    size_t local_waiting;
    moyai_request *all_local; /* requests of local calls (peer_prev/next) */
    struct context *contexts;
    struct posted *posts; /* not begun */
    struct keep *kept;    /* what fibers of ours have */
    struct context fallback;
    struct pool futures, requests;
    moyai_future constant_nomem, constant_fork;
    struct object_name *names; /* of this node's objects: uthash by text */
    struct name_wait *waits;   /* names waited for: uthash by text */
    /* Names of ended objects that could not be removed yet: to be tried in this round, and tried in it. */
    struct object_name *stale[2];
    moyai_dur stale_wait;
    struct exec_timer stale_timer;
    moyai_dur again_wait; /* names to be put into the directory again, as the node has another id */
    struct exec_timer again_timer;
    uint8_t watching; /* names in the rendezvous; name.c */
    bool leaving;     /* it is about to end: nothing begins for others */
    struct drain drain;
    bool ending;
    atomic_bool stop;
    bool signalled; /* by a signal: another one is the second */
    int signal_fd;
    struct exec_fd *signal_watch;
    uint64_t calls_made, calls_served, calls_open;
    uint64_t last_seq;               /* future->seq */
    struct whereabouts *whereabouts; /* moved.c */
    uint16_t rounds;                 /* the last one given to calls there */
    struct refused *refused;         /* refused.c */
    bool places_lost;                /* there were too many of these */
    size_t looks;                    /* for objects that may move, under way */
    struct blocked *look_waits;      /* and not begun */
    struct host *host;               /* of objects that move here: move.c. NULL: it takes none */
    struct astray_move *astray;      /* astray.c */
    size_t n_astray;                 /* of these, to be asked for soon */
    struct exec_timer astray_timer;  /* for the end of that */
    uint64_t calls_inside; /* not answered, made by methods and fibers; also those that wait for their object */
    size_t calls_kept;     /* nobody waits for them, but they are to begin: future.kept */
    uint64_t id_steps;     /* requests looked at to find one by its id */
    struct moyai_log own_log;
};
static inline const struct moyai_node_id *node_id(const moyai_node *n) {
    return &atomic_load_explicit(&n->self, memory_order_acquire)->id;
}
/* Is that this node, by its present id or one that it had? */
static inline bool node_is(const moyai_node *n, const uint8_t id[16]) {
    const struct self_id *s = atomic_load_explicit(&n->self, memory_order_acquire);
    while (s && !id_equal(s->id.b, id)) s = s->before;
    return s;
}
/* Where its object is, by the present id if that is this node. */
static inline const uint8_t *ref_home(const moyai_ref *r) {
    return node_is(r->node, r->home) ? node_id(r->node)->b : r->home;
}
int object_layer_init(moyai_node *n);
void object_layer_done(moyai_node *n);
extern const struct overlay_ops object_overlay_ops;

#endif
