/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node: one process's membership of a grid.
 *
 * User code of a node runs on one thread, its node thread, as fibers. Normally that is the thread
 * that calls moyai_node_new(): whenever it blocks in a function of this library (get, wait, call,
 * sleep, serve), methods called from elsewhere run meanwhile. With opts.own_thread the node makes a
 * thread of its own. A second, internal thread takes over input and output while user code computes
 * for more than a millisecond; it never runs user code.
 *
 * Functions marked "may switch fibers" end the atomic block of the calling method: other methods
 * of the same object may have run when they return. No other function does.
 * Any thread may call the functions of this header unless stated otherwise.
 */
#ifndef MOYAI_NODE_H
#define MOYAI_NODE_H

#include <moyai/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options of a node; zero or NULL is the default. New fields are added at the end only. */
struct moyai_node_opts {
    size_t size;         /* set by MOYAI_NODE_OPTS_INIT */
    const char *grid;    /* rendezvous: "/dir". Default: $MOYAI_GRID; neither: a node alone */
    const char *run_dir; /* directory for sockets, mode 0700. Default: $MOYAI_RUN_DIR, then
                            $XDG_RUNTIME_DIR/moyai, then /tmp/moyai-UID */
    const char *title;   /* what reports call this process, cut after 63 bytes. Default: program name */
    bool own_thread;     /* the node makes its own node thread */
    bool signals;        /* SIGTERM and SIGUSR1: leave; SIGINT: stop, see below; a second one kills */
    size_t max_fibers;   /* calls in progress at once. Default 25,000 ($MOYAI_MAX_FIBERS) */
    size_t stack;        /* bytes of a fiber's stack. Default 256 KiB ($MOYAI_STACK), at least 16 KiB */
    size_t queue_calls;  /* calls waiting for one peer. Default 1,000,000 ($MOYAI_QUEUE_CALLS) */
    size_t queue_bytes;  /* and their bytes; of answers as many. Default 256 MiB ($MOYAI_QUEUE_BYTES) */
    size_t max_message;  /* bytes of one call's arguments or results. Default 1 GiB ($MOYAI_MAX_MESSAGE) */
    moyai_dur reattach;  /* how long a broken session tries to resume. Default 10 s ($MOYAI_REATTACH) */
    /* Of grids of several hosts. */
    const char *key_file;   /* the grid's keys. Default $MOYAI_KEY_FILE, then ~/.config/moyai/key */
    const char *listen;     /* addresses of this host, or "any". Default $MOYAI_LISTEN, then any */
    const char *advertise;  /* host[:port] by which others reach it. Default $MOYAI_ADVERTISE, then those */
    const char *port_range; /* "9000-9100". Default $MOYAI_PORT_RANGE, then any port */
    const char *site;       /* whose nodes reach each other. Default $MOYAI_SITE, then the host's domain */
    bool outbound_only;     /* do not listen; also $MOYAI_OUTBOUND_ONLY */
};
#define MOYAI_NODE_OPTS_INIT                                                                                           \
    { sizeof(struct moyai_node_opts), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * opts.signals: SIGTERM and SIGUSR1 tell the node to leave, as moyai_leave(node, 0); SIGINT makes moyai_node_serve()
 * return. Each makes moyai_node_stopping() true, also while user code computes, and does nothing else: calls in
 * progress go on, and so do waits and sleeps, but that those are told once of a leave. A program that does not serve
 * asks moyai_node_stopping() in its loop and lets none of its waits last longer than it may take to notice: it waits in
 * sets with a time-out, since nothing wakes moyai_call(), moyai_future_get() and moyai_lookup_wait(MOYAI_FOREVER), see
 * moyai_node(3). A second SIGTERM or SIGINT has its default course: it kills the process. SIGUSR1 may come often.
 */

/*
 * Start a node. opts may be NULL. On success *ret is the node; on failure *ret is untouched and
 * *reterr (may be NULL) says why. The directory of a grid "/dir" is made if it is missing (its parent is
 * not): a mistyped one is a grid in which nobody else is.
 * Errors: EINVAL (options), EPERM (a directory that is a link, too open or not ours), ERANGE (a
 * socket path that is too long), ECLOSED or ESTATE (a directory was removed meanwhile), ENOSPC,
 * ELIMIT, ESYS, ENOMEM.
 */
MOYAI_API MOYAI_MUST_USE int moyai_node_new(moyai_node **ret, const struct moyai_node_opts *opts,
                                            struct moyai_error *reterr);

/*
 * End a node. If it was told to leave, what it has begun is finished first (moyai_leave). Then its objects end, calls
 * in progress on them are abandoned with their fibers, its calls to others fail, its names are removed, peers are told
 * farewell. NULL is fine. Free futures and sets of the node before; references may be released afterwards, but not
 * used. On the thread that made the node, outside methods and fibers, or, with own_thread, on any but the node's:
 * elsewhere that is logged, and nothing happens. Threads that are blocked in a function of the node come back from it
 * with ECLOSED before this returns, and must not use the node, its futures or sets any more; nor may any thread call a
 * function of it from then on.
 */
MOYAI_API void moyai_node_free(moyai_node *node);

/*
 * Serve calls until moyai_node_stop() is called, the timeout passes, (opts.signals) a signal asks to stop, or the node
 * was told to leave (moyai_leave) and has finished what it had begun. But for the latter what is in progress then is in
 * progress still: who wants to finish it ends the objects
 * (moyai_object_end), so that nothing new begins, and sleeps (moyai_sleep_masked) until the fibers of
 * moyai_node_stats() are 0; only then moyai_node_free(), which abandons them. See moyai(7). Returns 0, ETIMEDOUT,
 * ESTATE (not there), EINVAL, or EFORK. May switch fibers. Node thread, not a method or fiber.
 */
MOYAI_API int moyai_node_serve(moyai_node *node, moyai_dur timeout);

/* Make the present or next moyai_node_serve() return 0. Any thread. Not a signal handler. */
MOYAI_API void moyai_node_stop(moyai_node *node);

/* The node's id. It changes if others have declared the node dead and it lives: moyai(7). */
MOYAI_API struct moyai_node_id moyai_node_self(const moyai_node *node);

/* True if the node was asked to end (moyai_node_stop, a signal): long methods should return early. */
MOYAI_API bool moyai_node_stopping(const moyai_node *node);

/*
 * Tell the node to leave the grid in order, within that time; 0: $MOYAI_LEAVE_DEADLINE (30 s), MOYAI_FOREVER: it takes
 * its time, however long a method does not return, or a neighbour is stopped, until it is told again; negative: EINVAL.
 * Returns at once, from any thread; told again, the shorter time holds. From then on
 *  - calls of other nodes that have not begun here are refused with ELEAVING, never executed; not those that a method
 *    of this node waits for, nor those of nodes that leave too, nor one-way calls;
 *  - methods go on, and what they call; moyai_leaving() is true for them, and moyai_sleep() and moyai_wait() tell each
 *    fiber and thread once, by ELEAVING;
 *  - on_leave of each object is called whose class has one; of one that is made only then, too.
 * When no method runs any more whose caller waits, no call is open that a method or fiber has made, and all that was
 * sent has been taken (also by an object that moves meanwhile), moyai_node_serve() returns 0; moyai_node_free() waits
 * for that as well. When the time has passed, too: then what is not finished fails as in any node that ends, the log
 * says what that was (MOYAI-LEAVE-CUT), and a node that is not freed is in no grid any more. Fibers of moyai_go are not
 * waited for. 0, EINVAL, EFORK.
 */
MOYAI_API int moyai_leave(moyai_node *node, moyai_dur time);
MOYAI_API bool moyai_leaving(const moyai_node *node); /* it has been told to. NULL: true */

/*
 * A round trip to another node through its runtime, not its user code: it is answered while a method there computes.
 * 0; EDEAD, EUNREACHABLE, ETIMEDOUT, ECANCELED, EINVAL, ESTATE, ENOMEM, EFORK. May switch fibers; signals are masked.
 */
MOYAI_API MOYAI_MUST_USE int moyai_ping(moyai_node *node, struct moyai_node_id to, moyai_dur timeout);

/* Run fn(arg) on a new fiber of the node thread, in no object's scope. 0, EBUSY, EINVAL (node or fn
 * NULL), ENOMEM, EFORK. */
MOYAI_API MOYAI_MUST_USE int moyai_go(moyai_node *node, void (*fn)(void *arg), void *arg);

/* The same by another name for other threads' use: run fn(arg) on the node thread, once, in order
 * of posting. */
MOYAI_API MOYAI_MUST_USE int moyai_post(moyai_node *node, void (*fn)(void *arg), void *arg);

/* Block this fiber for a duration. 0, MOYAI_SIGNALLED, ECANCELED (the running call was), ELEAVING, EINVAL, EFORK, or,
 * like all that block, ESTATE (the node waits already, further down the stack of this thread, which runs a fiber of
 * another node). May switch fibers. Forced open by signals like get, call and wait; moyai_sleep_masked is not. */
MOYAI_API int moyai_sleep(moyai_node *node, moyai_dur duration);
MOYAI_API int moyai_sleep_masked(moyai_node *node, moyai_dur duration);

/* Let other fibers run once; returns at once if none wants to. May switch fibers. */
MOYAI_API void moyai_yield(moyai_node *node);

/*
 * Details of the last error that a function of this library returned to the calling fiber (or,
 * outside fibers, thread). Overwritten by the next failure; code 0 if there was none. Every negative code counts,
 * MOYAI_SIGNALLED too. Not set: by functions that know no node (moyai_node_new, moyai_value_get, a NULL handle), and by
 * those that only report an error (moyai_raise, moyai_future_error). node NULL: *out is EINVAL.
 */
MOYAI_API void moyai_last_error(moyai_node *node, struct moyai_error *out);

/* Node ids as 32 hexadecimal digits. text must have room for 33 bytes. */
MOYAI_API void moyai_node_id_format(struct moyai_node_id id, char text[33]);
/* Of a text as that. EINVAL: it is none, and *ret is untouched. */
MOYAI_API MOYAI_MUST_USE int moyai_node_id_parse(const char *text, struct moyai_node_id *ret);
MOYAI_API bool moyai_node_id_equal(struct moyai_node_id a, struct moyai_node_id b);

/* Counters since the start of the node, for reports and tests. */
struct moyai_node_stats {
    size_t size;           /* set by the caller: sizeof */
    uint64_t calls_made;   /* calls begun here, local ones included */
    uint64_t calls_served; /* methods begun here */
    uint64_t calls_open;   /* calls begun here and not yet completed */
    uint64_t fibers;       /* methods and fibers in progress */
    uint64_t links;        /* links to other nodes now */
    uint64_t objects;      /* objects of this node now */
};
MOYAI_API void moyai_node_stats(const moyai_node *node, struct moyai_node_stats *out);

#ifdef __cplusplus
}
#endif
#endif
