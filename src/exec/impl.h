/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of exec share. exec.c holds the essay: who drives, who holds the lock, the laws. */
#ifndef EXEC_IMPL_H
#define EXEC_IMPL_H

#include "exec/exec.h"
#include "exec/fiber.h"
#include "exec/lock.h"
#include "exec/timer.h"

#include <assert.h>
#include <pthread.h>

enum exec_driver { DRIVER_NONE, DRIVER_NODE, DRIVER_PROGRESS };

/* Stacks kept warm; what is free beyond is unmapped when there is nothing to run, so many a turn: an munmap among tens
 * of thousands of mappings takes some 10 us, which a burst of ending calls would have to wait for. */
enum { POOL_MAX = 1024, TRIM_BATCH = 16 };
/* Tasks and woken fibers run between two polls at most, if the progress thread's tick does not come before. */
enum { RUN_BUDGET = 256 };
/* How long all fibers stay blocked while tasks wait for a stack, before one is refused; if some of them wait with a
 * time limit; and before the next one is refused. */
enum { STARVE_NS = 100000000, STARVE_NEXT_NS = 1000000 };
#define STARVE_TIMED_NS ((moyai_ns)5 * 1000000000)

struct runq {
    struct exec_task *first, **last;
};

struct exec {
    struct lock lock;

    /* ---- run queue and fibers: lock held; run only by the node thread ---- */
    struct runq run;
    struct runq starved; /* tasks for which there was no fiber; those that come later wait behind them */
    moyai_ns give_up;    /* when one of them is refused, if all fibers stay blocked; 0: not known that they are */
    struct exec_timer give_up_timer;
    moyai_ns starving;   /* since then, with all fibers blocked and none ended; 0: not known */
    size_t timed;        /* fibers that wait with a time limit */
    struct fiber *cur;   /* what runs on the node thread: a fiber or &base */
    struct fiber base;   /* the main context, while it runs the scheduler */
    struct fiber *pool;  /* free fibers, last used first */
    struct fiber *spare; /* for tasks that cannot be refused: not in the pool */
    bool spare_used;
    struct fiber *all; /* all fibers */
    size_t n_pool, n_all, n_max, max_fibers;
    size_t stack;
    unsigned since_poll; /* tasks and fibers run since the last poll */
    unsigned tick_seen;  /* tick at the last poll */
    bool main_turn;      /* the main context's waiter has come to the queue's head */
    bool scheduling;     /* somebody runs the scheduler */
    void *main_local;
    _Atomic(const void *) node_thread; /* address of that thread's thread-local state */
    uint64_t id;                       /* tells this exec from a later one at the same address */

    /* ---- foreign threads: foreign.c ---- */
    struct exec_waiter *waiting; /* lock held */
    struct exec *all_next;       /* PROCESS_EXECS */
    unsigned pins;               /* PROCESS_EXECS: threads that end or fork, and still have to do with it */
    atomic_uint inside;          /* futex word: contexts between exec_foreign_enter and _leave */
    bool draining;               /* lock held; nobody may wait here any more */
    void (*local_done)(void *arg, void *local);
    void *local_arg;

    /* ---- the loop ---- */
    uv_loop_t loop;   /* the driver only */
    uv_async_t async; /* uv_async_send: anybody */
    uv_prepare_t prepare;
    uv_poll_t timer;
    int timer_fd;
    int watch_fd;   /* eventfd: calls the watcher */
    moyai_ns armed; /* no later than when timer_fd fires; UINT64_MAX: not set. Lock held */
    enum exec_driver driver;
    bool unlocked;    /* the driver is in uv_run without the lock. Driver */
    bool crowded;     /* somebody waited for the lock when the driver released it. Driver */
    unsigned entered; /* for lock_retake. Driver */
    bool polling;     /* the node thread, as driver, is in the poll or about to be */
    bool wake_sent;   /* uv_async_send was called and the loop has not turned yet */
    bool watching;    /* the progress thread is in poll(2) on the epoll descriptor, or about to be */
    bool stirred;     /* a callback ran in this turn. Driver */
    uint64_t polls;   /* turns with a poll that have ended */
    bool (*spin_look)(void *arg);
    void *spin_arg;
    int writers;                          /* descriptors watched for room to write */
    unsigned spin_fails, spin_skip, spun; /* spun: successes since the last poll */
    int processors;                       /* this process may run on */
    moyai_ns now;                         /* 0: not read since the last turn or entry */
    struct timers timers;
    struct exec_hook *hooks, *next_hook;     /* next_hook: the one after the one that is being called */
    struct exec_fd *fds;                     /* all */
    struct exec_fd *changed, **last_changed; /* those the driver must look at */
    struct exec_kept *kept;
    struct exec_watches *watches;
    bool no_pidfd;               /* the system has no pidfd_open */
    struct exec_child *orphans;  /* children to be reaped for nobody */
    struct exec_child *children; /* all that have not been reaped, by all_next */
    unsigned spawning;           /* children that may be there and are not among them yet */

    /* ---- the progress thread ---- */
    pthread_t progress;
    bool progress_asleep;      /* lock held; it sleeps until somebody enters user code */
    atomic_bool stop;          /* set under the lock */
    atomic_uint progress_word; /* futex word: changes to wake it */
    atomic_uint tick;          /* counts the progress thread's looks */
    atomic_uint turns;         /* odd: somebody is in uv_run; changes with each turn's begin and end */

    /* ---- own node thread ---- */
    pthread_t node;
    bool own_thread, halted;
    atomic_bool node_stop;

    atomic_int *fork_word; /* 1; 0 in a forked child. NULL: compare pid */
    pid_t pid;
};

/* Thread-local state; its address is also the thread's identity. */
struct exec_tls {
    struct exec *running;      /* the innermost exec whose scheduler this thread runs */
    struct exec_local *locals; /* of a foreign thread: foreign.c */
    void *alt_stack;           /* for the overflow handler */
    size_t alt_size;
    unsigned alt_users;
};
struct exec_tls *exec_tls(void);

/* ---- loop.c ---- */
int loop_init(struct exec *x, struct moyai_error *reterr);
void loop_done(struct exec *x);
/* One turn of the loop by `who`, who becomes the driver for it: hooks, changes, timers, poll, callbacks. It blocks if
 * `block` (node thread only) and nothing is runnable. Lock held; driver is DRIVER_NONE. */
void loop_turn(struct exec *x, enum exec_driver who, bool block);
void loop_close_fds(struct exec *x); /* in a forked child */
void loop_arm(struct exec *x);       /* before somebody blocks outside of loop_turn. Lock held */
/* Wake whoever polls or watches, once; nothing if somebody drives. Lock held. */
void loop_wake(struct exec *x);
/* At the head of each libuv callback: the driver takes the lock if it does not hold it. */
void loop_enter(struct exec *x);

/* ---- progress.c ---- */
int progress_start(struct exec *x, struct moyai_error *reterr);
void progress_stop(struct exec *x);  /* lock not held */
void progress_rouse(struct exec *x); /* lock held: it sleeps; it shall look again */

/* ---- process.c ---- */
void process_exec_begin(struct exec *x);                    /* gives it its id */
void process_exec_end(struct exec *x);                      /* lock not held; nobody pins it afterwards */
bool process_exec_lives(const struct exec *x, uint64_t id); /* PROCESS_EXECS held */

/* ---- foreign.c ---- */
void **foreign_local(struct exec *x); /* NULL: out of memory */
void foreign_wait(struct exec *x, struct exec_waiter *w, moyai_ns deadline);

/* ---- overflow.c ---- */
void overflow_thread_begin(void); /* on each node thread */
void overflow_thread_end(void);

/* A thread with all signals blocked. t NULL: detached. 0 or errno. */
int thread_start(pthread_t *t, size_t stack, const char *name, void *(*fn)(void *), void *arg);

/* ---- child.c ---- */
void child_done(struct exec *x); /* stop watching what exec_child_free left to itself */

static inline void runq_init(struct runq *q) {
    q->first = NULL;
    q->last = &q->first;
}
static inline void runq_push(struct runq *q, struct exec_task *t) {
    t->next = NULL;
    *q->last = t;
    q->last = &t->next;
}
static inline void runq_push_first(struct runq *q, struct exec_task *t) {
    t->next = q->first;
    q->first = t;
    if (!t->next) q->last = &t->next;
}
static inline struct exec_task *runq_pop(struct runq *q) {
    struct exec_task *t = q->first;
    q->first = t->next;
    if (!q->first) q->last = &q->first;
    return t;
}

#endif
