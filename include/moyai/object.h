/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects, references, calls, futures, signals (paper S0, section 3).
 *
 * An object is any state with a class: a constant table of methods. A reference names an object
 * anywhere in the grid; it can be sent, stored, printed and compared. Each incoming call runs on a
 * fiber of its own. While a fiber executes a method it is in the object's scope, and at most one
 * fiber runs in a scope. Blocking (a synchronous call, get, wait, sleep) lets others in: state can
 * change only across a blocking call, never between two of them (the atomic block), so objects need
 * no locks, and A calling B calling A does not deadlock. A plain C call of one's own function stays
 * inside the atomic block; a synchronous call through a reference ends it, even to an object of the
 * same process, even to oneself.
 *
 * moyai_signal() forces at most one fiber that is blocked in the object's scope to go on: its
 * blocking function returns MOYAI_SIGNALLED. If none is blocked, the next that blocks returns at
 * once. Several signals meanwhile count as one, as UNIX signals do. The longest blocked unmasked
 * fiber is chosen; a result that is already there beats a pending signal, which stays pending.
 *
 * Functions here may be called on the node thread and, unless stated otherwise, on any other
 * thread; other threads are in no object's scope and receive no signals.
 */
#ifndef MOYAI_OBJECT_H
#define MOYAI_OBJECT_H

#include <moyai/error.h>
#include <moyai/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- classes and objects ------------------------------------------------------------------- */

/* A method: 0 after moyai_return() (or without it: no results), or the error it raises, by
 * preference the value of moyai_raise(): a code of the table, or an own one of -1000 and below. Anything else becomes
 * MOYAI_EUSER with a text that says so. A code that is not raised keeps the text of moyai_last_error(). self is the
 * object's state. C++ exceptions must not leave it. */
typedef int (*moyai_method_fn)(moyai_request *rq, void *self);

struct moyai_method {
    const char *name; /* 1 to 255 bytes */
    moyai_method_fn fn;
};

/* Called once for each object of a class when its node begins to leave (moyai_leave), on a fiber of its own, in the
 * object's scope: to save its state elsewhere, to take back what it has asked for, to have its methods return early.
 * The node does not end before it has returned, unless the time for leaving has passed. ref is borrowed. */
typedef void (*moyai_leave_fn)(moyai_node *node, moyai_ref *ref, void *self);

/*
 * Of a class whose objects move between nodes (moyai_move, and when their node leaves). pack: the state as a value,
 * *state, which is the library's then; on a fiber, in the object's scope, where no method is in progress; when the
 * object has moved, destroy is called for self. unpack: the other way round, at the new node: state is borrowed, *self
 * is made of it; ref, borrowed, is the object's reference. Both may block. 0, or an error of the table: it stays where
 * it was, unchanged. Whatever else of it is elsewhere (files, pointers) is theirs to see to.
 */
typedef int (*moyai_pack_fn)(moyai_node *node, void *self, moyai_value **state);
typedef int (*moyai_unpack_fn)(moyai_node *node, moyai_ref *ref, const moyai_value *state, void **self);

/* A class. Constant, and valid as long as any object of it exists. */
struct moyai_class {
    size_t size; /* set by MOYAI_CLASS */
    const char *name;
    const struct moyai_method *methods; /* ends with a NULL name */
    void (*destroy)(void *self);        /* frees self once no fiber is in scope; may be NULL */
    moyai_leave_fn on_leave;            /* may be NULL */
    moyai_pack_fn pack;                 /* may be NULL, with unpack: its objects stay where they are */
    moyai_unpack_fn unpack;
};
#define MOYAI_CLASS(name, methods, destroy)                                                                            \
    { sizeof(struct moyai_class), name, methods, destroy, NULL, NULL, NULL }
#define MOYAI_CLASS_LEAVING(name, methods, destroy, on_leave)                                                          \
    { sizeof(struct moyai_class), name, methods, destroy, on_leave, NULL, NULL }
#define MOYAI_CLASS_MOVING(name, methods, destroy, on_leave, pack, unpack)                                             \
    { sizeof(struct moyai_class), name, methods, destroy, on_leave, pack, unpack }

/*
 * Make an object of this node with the given state; *ret is the caller's reference to it. The
 * object lives until moyai_object_end() or the end of its node, whoever holds references.
 * On failure nothing is kept. Errors: EINVAL (class), ENOMEM, EFORK, ESTATE (node ending).
 */
MOYAI_API MOYAI_MUST_USE int moyai_object_new(moyai_node *node, const struct moyai_class *cls, void *self,
                                              moyai_ref **ret, struct moyai_error *reterr);

/* End an object of this node: calls not yet started fail with ENOOBJECT, never executed; those in
 * its scope go on; its names are removed; cls->destroy runs when the last has left.
 * 0, ENOOBJECT (ended already or not of this node), ESTATE (it has just been packed to move: moyai_move), EINVAL,
 * EFORK. */
MOYAI_API int moyai_object_end(moyai_ref *ref);

/*
 * Objects of this class, by its name, may move to this node, from others that have a class of that name. Any thread.
 * 0; EINVAL (not made with MOYAI_CLASS_MOVING), EEXIST (another class of that name is taken already), ENOMEM, EFORK.
 */
MOYAI_API MOYAI_MUST_USE int moyai_accept(moyai_node *node, const struct moyai_class *cls);

/*
 * Move an object of this node to another one, which accepts its class, when its methods in progress have ended, for
 * which this waits at most that time (MOYAI_FOREVER: no limit); calls of it wait meanwhile. It takes its names, its
 * pending signal and what has been called and not begun along; references to it go on working, whatever node they name,
 * and calls from one node to it start in the order in which they were made. If it cannot move it stays and goes on. It
 * is at most once in the grid, whatever fails. Not in a method of the object. May switch fibers. 0: it is there (or
 * there already). ENOOBJECT (ended, or not of this node), ESTATE (its class has no pack and unpack; or a method of it
 * asks), EBUSY (it moves already; or calls in progress are at their limit), ETIMEDOUT (also if that node has not taken
 * it in that time, or in 5 s and one more for each MByte of its state, if that is longer), ENOENT (objects of this
 * class are not taken there), ELEAVING (that node leaves), EDEAD, ECLOSED, EUNREACHABLE (that node
 * is gone or cannot be reached: the object stays, unless the text says that it is lost with that node), ETOOBIG (its
 * state is larger than max_message), what pack or unpack returned, EINVAL, ENOMEM, EFORK.
 */
MOYAI_API MOYAI_MUST_USE int moyai_move(moyai_ref *ref, struct moyai_node_id to, moyai_dur timeout);

/* ---- references ---------------------------------------------------------------------------- */

/* Text form: "moyai:" + 32 hex digits of the object + "@" + 32 of its home node. NULL: "moyai:none", which is none. */
#define MOYAI_REF_TEXT 72

MOYAI_API moyai_ref *moyai_ref_ref(moyai_ref *ref);                     /* share: returns ref */
MOYAI_API void moyai_ref_unref(moyai_ref *ref);                         /* NULL is fine */
MOYAI_API bool moyai_ref_equal(const moyai_ref *a, const moyai_ref *b); /* same object? */
MOYAI_API uint64_t moyai_ref_hash(const moyai_ref *ref);
MOYAI_API void moyai_ref_format(const moyai_ref *ref, char text[MOYAI_REF_TEXT]);
/* *ret is a reference of the caller's. EINVAL: not such a text; ENOMEM, EFORK. */
MOYAI_API MOYAI_MUST_USE int moyai_ref_parse(moyai_node *node, const char *text, moyai_ref **ret);
/* A reference to a node itself, this one or another: an object that its runtime answers for, also while user code
 * computes or all fibers are in use. Methods: info(), objects(after, most), ping() and way(node, path), see
 * moyai_node_ref(3). It is not registered, signalled or ended (ENOOBJECT). *ret is the caller's. EINVAL (node or ret
 * NULL), ENOMEM, EFORK. */
MOYAI_API MOYAI_MUST_USE int moyai_node_ref(moyai_node *node, struct moyai_node_id id, moyai_ref **ret);
MOYAI_API struct moyai_object_id moyai_ref_object(const moyai_ref *ref);
MOYAI_API struct moyai_node_id moyai_ref_home(const moyai_ref *ref); /* where it was last seen */
MOYAI_API bool moyai_ref_is_local(const moyai_ref *ref);

/* ---- names --------------------------------------------------------------------------------- */

/*
 * Publish an object of this node under a name, 1 to 200 bytes of UTF-8, in the whole grid. Where that is met in a
 * directory exactly one object has the name. In a grid of several hosts all nodes are asked that this one has a way to
 * (some 0.3 s; seconds, where they are far or busy), and of objects in reach of each other exactly one gets it. Who is
 * in a part of the grid that has no link to the others, as for a moment at its start, can register a name that others
 * have. That is found out, as a rule at once, when the parts are linked: the object with the lower id keeps the name,
 * the other loses it, which its node's log tells as an error, MOYAI-NAME-LOST, and nobody else; a look-up finds the
 * former. Errors: EEXIST (taken by a live object; asking again for the same object is fine), EINVAL, ENOOBJECT, EAGAIN
 * (another process is just about to replace or remove it), ENOMEM, EFORK, and those of the rendezvous: ENOSPC, ELIMIT,
 * EPERM, EDATA, EVERSION, ECLOSED, ESYS; ECANCELED (unregistered before it was known). moyai_unregister: 0, ENOENT,
 * EAGAIN, EINVAL, EFORK, or one of the rendezvous; then the object has the name still. moyai_register may switch fibers
 * in a grid of several hosts; moyai_unregister does not.
 */
MOYAI_API MOYAI_MUST_USE int moyai_register(moyai_ref *ref, const char *name);
MOYAI_API int moyai_unregister(moyai_ref *ref, const char *name);

/* Find the object of that name; *ret is the caller's. ENOENT if there is none at the moment; EUNREACHABLE if, in a grid
 * of several hosts, this node has no link to any other, and has got none within 3 s, though there may be others.
 * moyai_lookup_wait waits for the name to appear: ETIMEDOUT, MOYAI_SIGNALLED, ECANCELED. Both: EINVAL, ENOMEM, EFORK,
 * and those of the rendezvous, see moyai_register. Both may switch fibers. */
MOYAI_API MOYAI_MUST_USE int moyai_lookup(moyai_node *node, const char *name, moyai_ref **ret);
MOYAI_API MOYAI_MUST_USE int moyai_lookup_wait(moyai_node *node, const char *name, moyai_dur timeout, moyai_ref **ret);

/* ---- calls --------------------------------------------------------------------------------- */

/*
 * Call asynchronously. Never blocks, never switches fibers, never returns NULL: every error is in
 * the future, which the caller frees. Calls from one node to one object start in the order they were
 * made; only a call that a method makes may overtake others, which wait because a node is at its limit of
 * calls in progress and may be waiting for just this one. Values are copied at once, except bytes and
 * arrays of 64 KiB and more, which are borrowed until the future completes or is freed. When the queue
 * towards the peer is full the future fails with EAGAIN, never executed; moyai_room() waits for room. ref NULL: a
 * future that has failed with EINVAL.
 */
MOYAI_API MOYAI_MUST_USE moyai_future *moyai_call_async(moyai_ref *ref, const char *method,
                                                        const struct moyai_args *args);

/*
 * Call and wait for the result. May switch fibers. With pending NULL signals are masked; otherwise
 * a signal makes it return MOYAI_SIGNALLED, the call goes on, and *pending is its future (yours).
 * Results of text, bytes and array type live until the next failing or result-bearing synchronous
 * call of this fiber; keep a future for longer. Errors as of moyai_future_get.
 * An object of this process reads bytes and arrays of 64 KiB and more where they lie, without a copy, if
 * signals are masked and no method makes the call: then nothing can end it before the method returns.
 */
MOYAI_API int moyai_call(moyai_ref *ref, const char *method, const struct moyai_args *args,
                         const struct moyai_into *into, moyai_future **pending);

/* Call without a result; errors of the method are lost. Never blocks. The deadline of a method that makes it does not
 * hold for it: nobody waits. 0, or the error known at once
 * (EINVAL, EARGS, EDEPTH, ETOOBIG; EAGAIN; ENOOBJECT and ENOMETHOD of a local object; EDEAD, ECLOSED,
 * ENOMEM, EFORK). */
MOYAI_API MOYAI_MUST_USE int moyai_call_oneway(moyai_ref *ref, const char *method, const struct moyai_args *args);

/* Wait until the queue towards the object's node has room for another call. 0, ETIMEDOUT,
 * MOYAI_SIGNALLED, ECANCELED, EINVAL, ESTATE, ENOMEM, EFORK. May switch fibers. */
MOYAI_API int moyai_room(moyai_ref *ref, moyai_dur timeout);

/*
 * Signal an object. Never blocks, never switches fibers. 0 when delivered (local) or on its way
 * (remote); ENOOBJECT for a local object that has ended, EDEAD, ECLOSED, EAGAIN, EINVAL, ENOMEM, EFORK.
 * moyai_signal_async gives a future that completes when the signal was delivered, or with the error.
 */
MOYAI_API int moyai_signal(moyai_ref *ref);
MOYAI_API MOYAI_MUST_USE moyai_future *moyai_signal_async(moyai_ref *ref);

/* ---- futures ------------------------------------------------------------------------------- */

/*
 * Wait for a result and store its values; into may be MOYAI_NONE. Can be repeated: the result stays
 * until the future is freed. MOYAI_SIGNALLED leaves the future as it was. May switch fibers unless
 * the result is there. Errors: what the method raised; EDEAD, EUNREACHABLE (S0/3.2); ETIMEDOUT,
 * ECANCELED, EAGAIN, EBUSY, ENOOBJECT, ENOMETHOD, EARGS, ETYPE, ERANGE, EINVAL (the method's name, a NULL
 * reference or future; or the future was freed meanwhile), ESTATE, EDEPTH, ETOOBIG, EDATA, ECLOSED, ENOMEM, EFORK.
 */
MOYAI_API int moyai_future_get(moyai_future *f, const struct moyai_into *into);
MOYAI_API int moyai_future_get_masked(moyai_future *f, const struct moyai_into *into);

MOYAI_API bool moyai_future_ready(const moyai_future *f); /* completed, well or not */

/* The error of a completed future: its code (0 if it succeeded or has not completed), with the
 * details in *out if that is not NULL. Level 0 is the error, 1 its cause, and so on; code 0 past the
 * last. */
MOYAI_API int moyai_future_error(const moyai_future *f, unsigned level, struct moyai_error *out);

/* Complete with ETIMEDOUT unless it completes within that time from now, at once if it is 0 or less (a call that has
 * not begun is never executed then); MOYAI_FOREVER: no deadline.
 * The callee sees the remaining time, and answers for itself up to a millisecond early, with what it is doing. */
MOYAI_API void moyai_future_deadline(moyai_future *f, moyai_dur timeout);

/* Complete with ECANCELED unless it has completed, and tell the callee: moyai_cancelled() becomes
 * true there, and if the method blocks it is woken once with ECANCELED. */
MOYAI_API void moyai_future_cancel(moyai_future *f);

/* Free a future; NULL is fine. A call that runs goes on, its result is dropped. On other threads than the node thread:
 * waits for the future's function (moyai_future_then) if that runs just now. */
MOYAI_API void moyai_future_free(moyai_future *f);

/* A pointer of the user's, for tables of outstanding work. Initially NULL. */
MOYAI_API void moyai_future_set_user(moyai_future *f, void *user);
MOYAI_API void *moyai_future_user(const moyai_future *f);

/* Run fn(f, arg) once on a fiber of the node thread when f completes (soon, if it has). At most one
 * a future: ESTATE for a second. EINVAL (f or fn NULL), ENOMEM, EFORK. Not run if f is freed first. */
MOYAI_API MOYAI_MUST_USE int moyai_future_then(moyai_future *f, void (*fn)(moyai_future *f, void *arg), void *arg);

/* ---- waiting for several ------------------------------------------------------------------- */

/*
 * A set of futures. A future is in at most one set; freeing it takes it out. Not shared between
 * fibers: at most one fiber waits on a set at a time (ESTATE). moyai_set_new: EINVAL, ENOMEM, EFORK.
 */
MOYAI_API MOYAI_MUST_USE int moyai_set_new(moyai_node *node, moyai_set **ret);
MOYAI_API void moyai_set_free(moyai_set *set); /* the futures live on; NULL is fine */
/* ESTATE: the future is in another set. EINVAL (NULL, or the future is of another node than the set), ENOMEM, EFORK. */
MOYAI_API MOYAI_MUST_USE int moyai_set_add(moyai_set *set, moyai_future *f);
MOYAI_API void moyai_set_remove(moyai_set *set, moyai_future *f);
MOYAI_API size_t moyai_set_count(const moyai_set *set);

/* The next completed future, in order of completion, taken out of the set; NULL: none. Never blocks. */
MOYAI_API MOYAI_MUST_USE moyai_future *moyai_set_next(moyai_set *set);

/*
 * Wait until at least one future of the set has completed: returns how many have (> 0), or
 * MOYAI_SIGNALLED, ETIMEDOUT, ECANCELED, EINVAL (the set is NULL, or was freed), ESTATE, EFORK; once, unless masked,
 * ELEAVING when the node begins to leave (moyai_leave). An empty set waits for a signal or the timeout.
 * Consumes nothing. May switch fibers unless a result is there. moyai_wait_all waits for all of
 * them (an empty set: returns 0 at once).
 */
MOYAI_API int moyai_wait(moyai_set *set, moyai_dur timeout);
MOYAI_API int moyai_wait_masked(moyai_set *set, moyai_dur timeout);
MOYAI_API int moyai_wait_all(moyai_set *set, moyai_dur timeout);
MOYAI_API int moyai_wait_all_masked(moyai_set *set, moyai_dur timeout);

/* ---- inside a method ----------------------------------------------------------------------- */

/* Read the arguments: exactly as many as into has. EARGS (count), ETYPE, ERANGE, EDATA, EDEPTH, ETOOBIG, EINVAL,
 * ENOMEM, EFORK. */
MOYAI_API MOYAI_MUST_USE int moyai_args(moyai_request *rq, const struct moyai_into *into);

/* Set the results: values are copied at once. Returns 0 (or EARGS, EDEPTH, EINVAL, ENOMEM, ETOOBIG, EFORK, which the
 * method should return). The last call before the method returns counts. */
MOYAI_API int moyai_return(moyai_request *rq, const struct moyai_args *results);

/* Set the error to raise and return its code: return moyai_raise(rq, MOYAI_EARGS, "work(job)");
 * Codes of the table or own ones of -1000 and below; any other, and MOYAI_SIGNALLED, which is no error, becomes
 * MOYAI_EUSER, which is returned then, and the text says what it was. */
MOYAI_API int moyai_raise(moyai_request *rq, int code, const char *fmt, ...) MOYAI_PRINTF(3, 4);

/* The same with the error of a failed future as cause; its levels travel along: at most 16, and of more the first cause
 * stays. */
MOYAI_API int moyai_raise_from(moyai_request *rq, const moyai_future *cause, int code, const char *fmt, ...)
    MOYAI_PRINTF(4, 5);

/* Has the caller cancelled this call, gone away, or its deadline passed? */
MOYAI_API bool moyai_cancelled(const moyai_request *rq);

MOYAI_API moyai_node *moyai_request_node(const moyai_request *rq);
MOYAI_API moyai_ref *moyai_self(const moyai_request *rq); /* the object called; borrowed */
MOYAI_API struct moyai_node_id moyai_caller(const moyai_request *rq);
MOYAI_API moyai_dur moyai_remaining(const moyai_request *rq); /* to the deadline; MOYAI_FOREVER */

#ifdef __cplusplus
}
#endif
#endif
