/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec: who runs, when, and who drives the loop.
 *
 * One `struct exec` a node. User code runs on one thread, the node thread, as fibers. One lock, the
 * node lock, covers all runtime state of the node; the node thread holds it except inside user code
 * and inside the poll. Whoever turns the loop is the driver; only the driver touches libuv. The
 * progress thread drives when nobody has polled for about a millisecond.
 *
 * "Lock held" below means: the caller holds the node lock, on any thread.
 */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include <moyai/error.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <uv.h>

struct exec;
struct fiber;

struct exec_cfg {
    size_t stack;      /* bytes of a fiber's stack without its guard; 0: 256 KiB */
    size_t max_fibers; /* 0: 25,000; lowered at start to what vm.max_map_count allows */
    bool own_thread;   /* make a node thread; else the thread that calls exec_new is it */
};

/* Start: loop, progress thread, perhaps the node thread. The lock is not held afterwards. */
int exec_new(struct exec **ret, const struct exec_cfg *cfg, struct moyai_error *reterr);
/* Is this where exec_free may be called: outside fibers on the node thread (own_thread: on any other)? */
bool exec_may_free(const struct exec *x);
/* End. Lock not held; node thread (own_thread: any other). All handles registered below must have been
 * closed. Fibers that never finished are abandoned: their stacks are freed, nothing on them runs. */
void exec_free(struct exec *x);

/* No user code runs any more once this has returned: the node thread of own_thread ends (which waits for the method
 * that computes). The loop still turns. Otherwise nothing happens: the caller is the node thread. Lock not held; any
 * other thread. */
void exec_halt(struct exec *x);

/* The effective limit of ordinary calls in progress. Exec itself allows a quarter more, for nested ones; tasks beyond
 * that wait for a fiber, or are refused (exec_task). */
size_t exec_max_fibers(const struct exec *x);
size_t exec_fibers(const struct exec *x); /* fibers in progress. Lock held */
size_t
exec_stack_used(const struct exec *x); /* most of one stack ever used, in pages: slow, for debugging. Lock held */

/* ---- the lock and user code ------------------------------------------------------------------ */

void exec_lock(struct exec *x);
void exec_unlock(struct exec *x);
void exec_pass(struct exec *x); /* lock held, and given to whoever waits for it: between the parts of long work */
bool exec_on_node_thread(const struct exec *x);
bool exec_forked(const struct exec *x); /* true in a child that was forked without exec; one load */

/* Around each entry into user code on the node thread. exec_lock and exec_unlock would do, but for rousing the progress
 * thread, which watches over user code: main's own code between two calls of the library is user code, too. */
void exec_user_enter(struct exec *x);
void exec_user_leave(struct exec *x);

/* ---- fibers and the run queue ---------------------------------------------------------------- */

/* Something to be run once on a fiber of the node thread; embed it in a larger struct. */
struct exec_task {
    struct exec_task *next;
    void (*run)(struct exec_task *t);    /* called with the lock held, on a fiber; use exec_user_enter/leave
                                            around user code; t may be freed by it */
    void (*refuse)(struct exec_task *t); /* NULL, or called in its place when there is no stack and none comes free: all
                                            fibers are blocked, perhaps on just this. Lock held, node thread, no fiber;
                                            must not block or run user code */
};
void exec_submit(struct exec *x, struct exec_task *t);       /* lock held; wakes the node thread if it polls */
void exec_submit_first(struct exec *x, struct exec_task *t); /* before all that are in the queue */
bool exec_starves(const struct exec *x); /* tasks wait for a stack that nobody gives back just now. Lock held */

struct exec_timer {
    moyai_ns when;
    size_t index;                                     /* order among equal times; SIZE_MAX: not set */
    void (*fn)(struct exec *x, struct exec_timer *t); /* lock held, driver; must not block or run user code */
    struct exec_timer *child, *next, *prev;           /* the heap */
};

/* Where somebody blocks: a fiber, the main context of the node thread, or another thread. Lives on
 * the blocked side's stack. */
struct exec_waiter {
    struct fiber *fiber; /* NULL: main context or a foreign thread */
    atomic_uint woken;   /* 0 waiting, 1 woken (futex word for foreign threads) */
    int result;          /* what exec_wake gave */
    bool foreign;
    struct exec_waiter *foreign_next, **foreign_prev;
    struct exec_waiter *next; /* for the owner's lists; exec does not touch it */
    struct exec_timer timer;  /* set while exec_wait has a deadline */
    struct exec_task item;    /* for the run queue; run == NULL tells it from a task */
    bool parked;              /* in exec_wait: exec_wake must make it runnable */
    uint64_t after;           /* not before the polls have gone beyond this number */
};
/* Prepare: records who waits. Lock held. */
void exec_waiter_init(struct exec *x, struct exec_waiter *w);
/* Block until exec_wake(w) or the deadline (CLOCK_BOOTTIME ns; UINT64_MAX: none). Returns the result
 * given to exec_wake, or MOYAI_ETIMEDOUT. On the node thread outside fibers ("main context") it runs
 * the scheduler meanwhile; ESTATE at once if exec_can_wait says no. Foreign threads: ECLOSED once the exec is drained.
 * Lock held before and after; released in between. */
int exec_wait(struct exec *x, struct exec_waiter *w, moyai_ns deadline);
/* The same for whoever ends the node: nothing of the user's runs on this thread meanwhile, whichever it is; the
 * progress thread turns the loop. */
int exec_wait_aside(struct exec *x, struct exec_waiter *w, moyai_ns deadline);
/* Not in a fiber of another exec whose scheduler was entered below a wait in this one: nobody could run what is waited
 * for. Own context only. */
bool exec_can_wait(const struct exec *x);
/* Make it runnable; a second wake before it has run is ignored (returns false). Lock held. */
bool exec_wake(struct exec *x, struct exec_waiter *w, int result);

/* A pointer of the upper layer for the running fiber (object scope, last error ...), NULL when its task begins; the
 * main context has one, and each foreign thread. NULL: out of memory (foreign threads only). Own context only. */
void **exec_local(struct exec *x);
/* What to do with the pointer of a foreign thread that ends before the exec, if it is not NULL: done(arg, pointer),
 * lock held, on that thread. done NULL: nothing any more. Lock held. */
void exec_local_done(struct exec *x, void (*done)(void *arg, void *local), void *arg);

/* ---- foreign threads ------------------------------------------------------------------------- */

/* Take the lock as a foreign thread that may wait before it releases it with exec_foreign_leave. */
void exec_foreign_enter(struct exec *x);
void exec_foreign_leave(struct exec *x);
/* Get them out, before the exec ends: their waits return ECLOSED, and all later ones, whosever; returns once all that
 * have entered have left. Lock held, and released meanwhile; not a foreign thread that has entered. */
void exec_foreign_drain(struct exec *x);

void exec_yield(struct exec *x); /* lock held; behind everything now runnable, after one poll */

/* Run the scheduler in the main context until *stop or the deadline: how a node serves. Lock held. */
int exec_serve(struct exec *x, const atomic_bool *stop, moyai_ns deadline);
void exec_kick(struct exec *x); /* wake the node thread so that it looks at *stop again. Any thread. */

/* ---- timers ---------------------------------------------------------------------------------- */

void exec_timer_init(struct exec_timer *t, void (*fn)(struct exec *, struct exec_timer *));
void exec_timer_set(struct exec *x, struct exec_timer *t, moyai_ns when); /* lock held; moves it if set */
void exec_timer_unset(struct exec *x, struct exec_timer *t);              /* lock held; it must be set */
static inline bool exec_timer_is_set(const struct exec_timer *t) {
    return t->index != SIZE_MAX;
}
static inline void exec_timer_clear(struct exec *x, struct exec_timer *t) { /* lock held; fine if not set */
    if (t->index != SIZE_MAX) exec_timer_unset(x, t);
}

/* ---- descriptors: only the driver touches libuv ---------------------------------------------- */

/* A descriptor watched for readiness. Callbacks run on the driver with the lock held, never within a
 * fiber; they move bytes and mark fibers runnable, and must not block or run user code. */
struct exec_fd;
typedef void (*exec_fd_fn)(struct exec_fd *f, int events /* UV_READABLE | UV_WRITABLE | UV_DISCONNECT */, void *arg);
/* Begin to watch; takes effect at the driver's next turn (it is woken). Lock held. NULL: out of memory. */
struct exec_fd *exec_fd_new(struct exec *x, int fd, int events, exec_fd_fn fn, void *arg);
void exec_fd_events(struct exec_fd *f, int events); /* change what is watched. Lock held */
/* Stop watching; no callback comes after it; the descriptor is closed by exec once libuv has let go of
 * it (close_fd), else the caller may close it after `closed(arg)` (may be NULL). Lock held. */
void exec_fd_free(struct exec_fd *f, bool close_fd, void (*closed)(void *arg));

/* A descriptor that nobody watches but that stands for this process, such as one with a lock: a forked child has to
 * close it as it does all that are watched. Closing does nothing if it is -1, and makes it so. Lock held. */
struct exec_kept {
    int fd;
    struct exec_kept *next, **prev;
};
void exec_keep(struct exec *x, struct exec_kept *k, int fd);
void exec_keep_close(struct exec_kept *k);

/* A directory watched for changes (inotify); fn is called once for any number of them, on the driver, lock held. NULL
 * with *reterr filled at once (ELIMIT: the user's limit of watches or instances is reached; the caller polls instead).
 */
struct exec_watch;
struct exec_watch *exec_watch_new(struct exec *x, const char *dir, void (*fn)(void *arg), void *arg,
                                  struct moyai_error *reterr);
void exec_watch_free(struct exec_watch *w);

/* Called on the driver, lock held, before each poll, and also by the node thread when its run queue
 * runs empty: writes what the layers have gathered. One each; order of registration. */
struct exec_hook {
    struct exec_hook *next;
    void (*fn)(struct exec_hook *h);
};
void exec_hook_add(struct exec *x, struct exec_hook *h);
void exec_hook_remove(struct exec *x, struct exec_hook *h);
/* Have the hooks run soon: wakes the driver if somebody polls and the caller is not the driver. Lock held. */
void exec_attention(struct exec *x);

/* Before the node thread sleeps in the poll it may look a few times whether this finds something to do (the descriptor
 * read from last): true if it did. As a descriptor's callback otherwise. NULL: nothing to look at. Lock held. */
void exec_spin(struct exec *x, bool (*look)(void *arg), void *arg);

moyai_ns exec_now(struct exec *x); /* CLOCK_BOOTTIME, cached for one turn. Lock held */

#endif
