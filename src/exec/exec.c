/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who runs, who drives, who holds the lock.
 *
 * The parties. The *node thread* runs all user code, as fibers; where no fiber runs it is in its *main context*: the
 * program's own main function, or, with own_thread, a loop that only serves. The *progress thread* never runs a fiber.
 * *Foreign threads* are all others. *Driver* is whoever is inside uv_run: the node thread, the progress thread, or
 * nobody.
 *
 * The laws.
 *  1. The node lock covers all state of the node. The node thread holds it except in user code (between
 *     exec_user_enter and exec_user_leave; main's own code counts) and in the poll.
 *  2. Only the driver touches libuv, uv_async_send excepted. Others leave changes in queues (exec_fd, timers) and wake
 *     the driver. `driver` changes under the lock only, so driving is handed over with all memory it has touched.
 *  3. uv_run is entered and left with the lock held. For the node thread, uv_prepare, right before the poll, releases
 *     it; the first callback after the poll takes it again (loop_enter at the head of each), or loop_turn does after
 *     uv_run has returned. Before it may sleep there the node thread looks a few times, with the lock held, where
 *     something came from last.
 *  4. No fiber is resumed and no uv_run entered inside a callback. Callbacks mark fibers runnable; these run after
 *     uv_run has returned, on the node thread only. So fibers never migrate, and libuv's frames never lie below one.
 *  5. The progress thread drives without blocking and with the lock held throughout. Where it blocks is outside of
 *     uv_run: it *watches* the loop's epoll descriptor with poll(2), and drives once something is there. So the loop is
 *     free whenever the node thread wants it, and nobody ever waits for it to be handed back.
 *  6. Somebody who polls or watches is woken at most once (wake_sent) until the loop has turned: the node thread if
 *     something has become runnable; whoever it is if a descriptor or a hook needs the driver. A node thread in user
 *     code needs no waking: it looks at the queue when it comes back.
 *  7. Between two polls of its own the node thread runs at most RUN_BUDGET tasks and woken fibers, and after a
 *     millisecond (the progress thread's tick, one load to look at) no further one. So neither short methods in a row
 *     nor long ones starve I/O and the main context, which serves until it is told to stop; nor does a single long one
 *     starve I/O, since:
 *  8. If nobody has polled for a millisecond, the progress thread begins to drive and to watch (progress.c).
 *
 *     node thread                         lock    progress thread
 *         |                                              |
 *     fiber: user code (long)             free    looks: nobody polls
 *         |                               P       drives: hooks, a turn that does not block
 *         |                               free    watches . . . .        I/O, heartbeats, relaying go on
 *         |                               P       drives: a callback makes fiber B runnable (no waking: law 6)
 *         |                               free    watches . . . .
 *     user code ends                      N              .
 *     fiber B runs, then nothing to run   N              .
 *     drives: calls the watcher off       N              .
 *     hooks, poll . . . . . . . .         free    looks once a millisecond; after 100 ms in which
 *         |                                       the node thread sat in the poll: futex sleep
 *         |                                              .
 *     a call comes; fiber: user code      free    roused by exec_user_enter (one load on the hot path)
 *
 * Dropped: the progress thread inside a blocking uv_run. The node thread then had to wake it and to wait until it let
 * go after every method of a millisecond: 20 us on an idle machine, and milliseconds where all processors were busy.
 *
 * The scheduler is whatever gives up the node thread: pick() says what runs next, and the fiber that parks switches
 * straight to it, so parking and waking costs one switch. A fiber whose task has ended puts itself on top of the pool
 * and asks pick(); for a task pick takes the pool's top, itself, so that tasks which do not block run one after another
 * on one warm stack without any switch. Only polling goes back to the main context (libuv's poll has 12 KiB of events
 * on its stack, which must not be touched on every fiber's).
 *
 * Stacks may run out: of memory, of mappings, or of the number that is allowed. A task without one waits, and all later
 * ones behind it, for the next fiber that ends. If all fibers are blocked none may ever end, for they may wait for just
 * these tasks: then, after STARVE_NS, the first task that can be refused is, and its caller hears of it and may end.
 * Fibers that wait with a time limit (they sleep, say) go on by themselves, and may end: while there are such the
 * tasks wait longer, but no longer than STARVE_TIMED_NS without the end of any fiber, since they may as well sleep
 * again and again until one of these tasks has run. One at a time, since the end of one fiber gives its stack to
 * another. Tasks that nobody can be told of (functions to be run, one-way calls) wait for as long as it takes; for them
 * there is one spare stack, so that those which do not block get through even so. Memory that is there again is found
 * when the next look is due.
 *
 * The main context is an item of the run queue like a fiber when it waits: when its turn comes (main_turn) the
 * scheduler it runs returns from exec_wait. Two execs may have the same node thread; then each runs only while the main
 * context waits in it, and a fiber of one is main context for the other. If such waits come back to an exec that waits
 * further down, there is no way to run it: MOYAI_ESTATE.
 */
#include "exec/impl.h"

#include "base/err.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_STACK = 256 << 10, MIN_STACK = 16 << 10, DEFAULT_FIBERS = 25000 };
/* Mappings left to everybody else when the number of fibers is computed. */
enum { OTHER_MAPS = 2048 };

struct exec_tls *exec_tls(void) {
    /* initial-exec: no allocation and no call, so that the overflow handler may look at it. */
    static _Thread_local struct exec_tls tls __attribute__((tls_model("initial-exec")));
    return &tls;
}

/* ---- the lock and user code ---- */

void exec_lock(struct exec *x) {
    lock_take(&x->lock);
    x->now = 0;
}

void exec_unlock(struct exec *x) {
    lock_release(&x->lock);
}

void exec_pass(struct exec *x) {
    if (x->progress_asleep) progress_rouse(x); /* it drives meanwhile, if this takes long */
    unsigned entered;
    bool crowded = lock_pass(&x->lock, &entered);
    lock_retake(&x->lock, crowded, entered);
    x->now = 0;
}

bool exec_on_node_thread(const struct exec *x) {
    return atomic_load_explicit(&x->node_thread, memory_order_relaxed) == exec_tls();
}

bool exec_forked(const struct exec *x) {
    if (!x->fork_word) return getpid() != x->pid;
    return atomic_load_explicit(x->fork_word, memory_order_relaxed) == 0;
}

void exec_user_enter(struct exec *x) {
    if (x->progress_asleep) progress_rouse(x);
    lock_release(&x->lock);
}

void exec_user_leave(struct exec *x) {
    lock_take(&x->lock);
    x->now = 0;
}

/* ---- fibers ---- */

static void fiber_main(struct fiber *f);

static struct fiber *fiber_get(struct exec *x) {
    struct fiber *f = x->pool;
    if (f) {
        x->pool = f->next;
        x->n_pool--;
    } else {
        if (x->n_all >= x->n_max) return NULL;
        f = fiber_new(x->stack, (unsigned)x->n_all, fiber_main);
        if (!f) return NULL;
        f->x = x;
        f->all_prev = NULL;
        f->all_next = x->all;
        if (x->all) x->all->all_prev = f;
        x->all = f;
        x->n_all++;
    }
    f->local = NULL;
    return f;
}

static void fiber_put(struct exec *x, struct fiber *f) {
    f->next = x->pool;
    x->pool = f;
    x->n_pool++;
}

static void fiber_drop(struct exec *x, struct fiber *f) {
    if (f->all_prev)
        f->all_prev->all_next = f->all_next;
    else
        x->all = f->all_next;
    if (f->all_next) f->all_next->all_prev = f->all_prev;
    x->n_all--;
    fiber_free(f);
}

static void go(struct exec *x, struct fiber *to) {
    struct fiber *from = x->cur;
    x->cur = to;
    fiber_switch(from, to);
}

/* End free fibers properly, so that sanitizers can let go of them. Base only. */
static void trim(struct exec *x, size_t keep) {
    if (keep == 0 && !x->spare_used) {
        fiber_put(x, x->spare);
        x->spare_used = true;
    }
    while (x->n_pool > keep) {
        struct fiber *f = x->pool;
        x->pool = f->next;
        x->n_pool--;
        f->quit = true;
        go(x, f);
        fiber_drop(x, f);
    }
}

/* ---- the scheduler ---- */

/* The next task to be run on a fiber that there is for one. */
static struct exec_task *starved_pop(struct exec *x) {
    x->give_up = 0;
    x->starving = 0;
    exec_timer_clear(x, &x->give_up_timer);
    return runq_pop(&x->starved);
}

static struct exec_waiter *waiter_of(struct exec_task *t) {
    return (struct exec_waiter *)(void *)((char *)t - offsetof(struct exec_waiter, item));
}

static bool poll_due(const struct exec *x) {
    return x->since_poll >= RUN_BUDGET || atomic_load_explicit(&x->tick, memory_order_relaxed) != x->tick_seen;
}

/* What runs next; called by whoever gives up the node thread. &base: it has to poll, or its own turn has come. */
static struct fiber *pick(struct exec *x) {
    for (;;) {
        struct exec_task *t = x->run.first;
        if (!t || poll_due(x)) return &x->base;
        if (t->run) {
            struct fiber *f = fiber_get(x);
            runq_pop(&x->run);
            if (!f || x->starved.first) {
                runq_push(&x->starved, t);
                if (!f) continue;
                t = starved_pop(x);
            }
            x->since_poll++;
            f->task = t;
            return f;
        }
        struct exec_waiter *w = waiter_of(t);
        if (w->after > x->polls) return &x->base;
        runq_pop(&x->run);
        x->since_poll++;
        if (w->fiber) return w->fiber;
        x->main_turn = true;
        return &x->base;
    }
}

static void fiber_main(struct fiber *f) {
    struct exec *x = f->x;
    while (!f->quit) {
        f->task->run(f->task);
        if (f == x->spare) {
            x->spare_used = false;
        } else if (x->starved.first) {
            f->task = starved_pop(x);
            f->local = NULL;
            x->since_poll++;
            continue;
        } else {
            fiber_put(x, f);
        }
        struct fiber *to = pick(x);
        if (to != f) go(x, to);
    }
    x->cur = &x->base;
    fiber_finish(f, &x->base);
}

static bool all_blocked(const struct exec *x) {
    const struct exec_task *t = x->run.first;
    return !t || (!t->run && !waiter_of(x->run.first)->fiber && !t->next); /* or the main context alone is not */
}

static void on_give_up(struct exec *x, struct exec_timer *t) {
    (void)x, (void)t; /* the scheduler looks again */
}

static void refuse_first(struct exec *x) {
    for (struct exec_task **p = &x->starved.first, *t; (t = *p); p = &t->next) {
        if (!t->refuse) continue;
        *p = t->next;
        if (x->starved.last == &t->next) x->starved.last = p;
        t->refuse(t);
        return;
    }
}

/* Tasks wait for a stack, and all fibers are blocked. True: something has been done. */
static bool relieve(struct exec *x) {
    struct fiber *f = fiber_get(x);
    if (!f && !x->spare_used && !x->starved.first->refuse) {
        f = x->spare;
        f->local = NULL;
        x->spare_used = true;
    }
    if (f) {
        f->task = starved_pop(x);
        x->since_poll++;
        go(x, f);
        return true;
    }
    moyai_ns now = exec_now(x);
    if (x->starving == 0) x->starving = now;
    bool due = x->give_up > 0 && x->give_up <= now;
    if (due && x->timed > 0 && now - x->starving < STARVE_TIMED_NS) {
        due = false;
        x->give_up = 0; /* looks again */
    }
    if (due) refuse_first(x);
    if (due || x->give_up == 0) x->give_up = now + (due ? STARVE_NEXT_NS : STARVE_NS);
    exec_timer_set(x, &x->give_up_timer, x->give_up);
    return due;
}

bool exec_starves(const struct exec *x) {
    return x->starved.first && x->give_up > 0;
}

/* The main context does something for the scheduler: runs what is runnable, or polls. */
static void step(struct exec *x) {
    struct fiber *to = pick(x);
    if (to != &x->base) {
        go(x, to);
        return;
    }
    if (x->main_turn) return;
    bool block = true;
    if (x->starved.first && all_blocked(x)) {
        if (poll_due(x))
            block = false; /* what comes of it may end a fiber */
        else if (relieve(x))
            return;
    }
    if (!x->run.first && x->n_pool > POOL_MAX) {
        trim(x, x->n_pool - POOL_MAX > TRIM_BATCH ? x->n_pool - TRIM_BATCH : POOL_MAX);
        block = x->n_pool <= POOL_MAX;
    }
    loop_turn(x, DRIVER_NODE, block);
}

static struct exec *enter_scheduler(struct exec *x) {
    struct exec_tls *tls = exec_tls();
    struct exec *outer = tls->running;
    tls->running = x;
    x->scheduling = true;
    fiber_adopt_thread(&x->base);
    x->cur = &x->base;
    return outer;
}

static void leave_scheduler(struct exec *x, struct exec *outer) {
    exec_tls()->running = outer;
    x->scheduling = false;
    x->cur = NULL;
    if (x->progress_asleep) progress_rouse(x); /* what follows is user code */
}

void exec_submit(struct exec *x, struct exec_task *t) {
    runq_push(&x->run, t);
    if (x->driver == DRIVER_NODE) loop_wake(x);
}

void exec_submit_first(struct exec *x, struct exec_task *t) {
    runq_push_first(&x->run, t);
    if (x->driver == DRIVER_NODE) loop_wake(x);
}

/* ---- waiting ---- */

static struct fiber *current(const struct exec *x) {
    struct exec_tls *tls = exec_tls();
    if (tls->running != x || x->cur == &x->base) return NULL;
    return x->cur;
}

static void on_deadline(struct exec *x, struct exec_timer *t) {
    exec_wake(x, (struct exec_waiter *)(void *)((char *)t - offsetof(struct exec_waiter, timer)), MOYAI_ETIMEDOUT);
}

void exec_waiter_init(struct exec *x, struct exec_waiter *w) {
    atomic_init(&w->woken, 0);
    w->foreign = !exec_on_node_thread(x);
    w->fiber = w->foreign ? NULL : current(x);
    w->result = 0;
    w->next = NULL;
    w->parked = false;
    w->item.run = NULL;
    w->after = 0;
}

static void wait_main(struct exec *x) {
    struct exec *outer = enter_scheduler(x);
    while (!x->main_turn) step(x);
    x->main_turn = false;
    leave_scheduler(x, outer);
}

static void park(struct exec *x, struct exec_waiter *w) {
    if (!w->fiber) {
        wait_main(x);
        return;
    }
    struct fiber *to = pick(x);
    if (to != w->fiber) go(x, to);
}

int exec_wait(struct exec *x, struct exec_waiter *w, moyai_ns deadline) {
    if (atomic_load_explicit(&w->woken, memory_order_relaxed)) return w->result;
    if (w->foreign) {
        foreign_wait(x, w, deadline);
        return w->result;
    }
    if (!w->fiber && x->scheduling) return MOYAI_ESTATE; /* see exec_can_wait */
    if (x->draining) return MOYAI_ECLOSED;               /* no fiber is to run any more */
    w->parked = true;
    if (deadline == UINT64_MAX) {
        park(x, w);
        return w->result;
    }
    exec_timer_init(&w->timer, on_deadline);
    exec_timer_set(x, &w->timer, deadline);
    bool fiber = w->fiber;
    x->timed += fiber;
    park(x, w);
    x->timed -= fiber;
    exec_timer_clear(x, &w->timer);
    return w->result;
}

int exec_wait_aside(struct exec *x, struct exec_waiter *w, moyai_ns deadline) {
    if (x->progress_asleep) progress_rouse(x);
    w->foreign = true;
    if (!atomic_load_explicit(&w->woken, memory_order_relaxed)) foreign_wait(x, w, deadline);
    return w->result;
}

bool exec_can_wait(const struct exec *x) {
    return !exec_on_node_thread(x) || !x->scheduling || current(x);
}

bool exec_wake(struct exec *x, struct exec_waiter *w, int result) {
    if (atomic_load_explicit(&w->woken, memory_order_relaxed)) return false;
    w->result = result;
    atomic_store_explicit(&w->woken, 1, memory_order_relaxed);
    if (w->foreign)
        futex_wake(&w->woken, 1); /* it cannot go on, and w cannot go away, before the lock is released */
    else if (w->parked)
        exec_submit(x, &w->item);
    return true;
}

void exec_yield(struct exec *x) {
    struct exec_waiter w;
    exec_waiter_init(x, &w);
    if (w.foreign || (!w.fiber && x->scheduling) || x->draining) return;
    w.after = x->polls + 1;
    w.parked = true;
    exec_wake(x, &w, 0);
    park(x, &w);
}

static void on_serve_deadline(struct exec *x, struct exec_timer *t) {
    (void)x;
    t->fn = NULL;
}

int exec_serve(struct exec *x, const atomic_bool *stop, moyai_ns deadline) {
    if (x->scheduling || !exec_on_node_thread(x) || x->draining) return MOYAI_ESTATE;
    struct exec *outer = enter_scheduler(x);
    struct exec_timer timer;
    exec_timer_init(&timer, on_serve_deadline);
    if (deadline != UINT64_MAX) exec_timer_set(x, &timer, deadline);
    while (!atomic_load(stop) && timer.fn) step(x);
    exec_timer_clear(x, &timer);
    leave_scheduler(x, outer);
    return timer.fn ? 0 : MOYAI_ETIMEDOUT;
}

void exec_kick(struct exec *x) {
    uv_async_send(&x->async);
}

void **exec_local(struct exec *x) {
    if (!exec_on_node_thread(x)) return foreign_local(x);
    struct fiber *f = current(x);
    return f ? &f->local : &x->main_local;
}

void exec_local_done(struct exec *x, void (*done)(void *arg, void *local), void *arg) {
    x->local_done = done;
    x->local_arg = arg;
}

size_t exec_max_fibers(const struct exec *x) {
    return x->max_fibers;
}
size_t exec_fibers(const struct exec *x) {
    return x->n_all - x->n_pool - !x->spare_used;
}
size_t exec_stack_used(const struct exec *x) {
    size_t most = 0;
    for (struct fiber *f = x->all; f; f = f->all_next) {
        size_t used = fiber_stack_used(f);
        if (used > most) most = used;
    }
    return most;
}

/* ---- start and end ---- */

/* A fiber is two mappings. Nested calls may exceed the limit by a quarter, so the hard limit is 5/4 of it. */
static size_t limit_fibers(size_t asked) {
    size_t maps = 65530;
    FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
    if (f) {
        unsigned long long n;
        if (fscanf(f, "%llu", &n) == 1) maps = (size_t)n;
        fclose(f);
    }
    size_t most = maps > OTHER_MAPS + 64 ? (maps - OTHER_MAPS) / 2 / 5 * 4 : 25;
    return asked < most ? asked : most;
}

static int make_fork_word(struct exec *x, struct moyai_error *reterr) {
    x->pid = getpid();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return err_sys(reterr, errno, "cannot map a page");
    if (madvise(p, page, MADV_WIPEONFORK) < 0) {
        munmap(p, page); /* an emulator, perhaps; getpid is a system call but right */
        return 0;
    }
    x->fork_word = p;
    atomic_store_explicit(x->fork_word, 1, memory_order_relaxed);
    return 0;
}

static void *node_main(void *arg) {
    struct exec *x = arg;
    overflow_thread_begin();
    exec_lock(x);
    atomic_store_explicit(&x->node_thread, exec_tls(), memory_order_relaxed);
    exec_serve(x, &x->node_stop, UINT64_MAX);
    struct exec *outer = enter_scheduler(x);
    trim(x, 0);
    leave_scheduler(x, outer);
    exec_unlock(x);
    overflow_thread_end();
    return NULL;
}

static void free_parts(struct exec *x) {
    while (x->all) fiber_drop(x, x->all);
    if (x->fork_word) munmap(x->fork_word, (size_t)sysconf(_SC_PAGESIZE));
    free(x);
}

int exec_new(struct exec **ret, const struct exec_cfg *cfg, struct moyai_error *reterr) {
    struct exec *x = calloc(1, sizeof *x);
    if (!x) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    struct exec_cfg none = {0};
    if (!cfg) cfg = &none;
    x->stack = cfg->stack ? cfg->stack : DEFAULT_STACK;
    if (x->stack < MIN_STACK) x->stack = MIN_STACK;
    x->max_fibers = limit_fibers(cfg->max_fibers ? cfg->max_fibers : DEFAULT_FIBERS);
    x->n_max = x->max_fibers + x->max_fibers / 4 + 2; /* the spare one is one of them */
    x->own_thread = cfg->own_thread;
    cpu_set_t cpus;
    x->processors = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
    runq_init(&x->run);
    runq_init(&x->starved);

    int rc = make_fork_word(x, reterr);
    if (rc < 0) goto out_parts;
    exec_timer_init(&x->give_up_timer, on_give_up);
    /* One fiber at least, so that a task never waits for memory while nothing else runs. */
    struct fiber *first = fiber_get(x);
    x->spare = first ? fiber_get(x) : NULL;
    if (!x->spare) {
        rc = err_sys(reterr, errno, "cannot make a stack of %zu bytes", x->stack);
        goto out_parts;
    }
    fiber_put(x, first);
    if ((rc = loop_init(x, reterr)) < 0) goto out_parts;
    if ((rc = progress_start(x, reterr)) < 0) goto out_loop;
    if (x->own_thread) {
        int e = pthread_create(&x->node, NULL, node_main, x);
        if (e) {
            rc = err_sys(reterr, e, "cannot make the node thread");
            goto out_progress;
        }
        pthread_setname_np(x->node, "moyai-node");
    } else {
        atomic_store_explicit(&x->node_thread, exec_tls(), memory_order_relaxed);
        overflow_thread_begin();
    }
    process_exec_begin(x);
    *ret = x;
    return 0;

out_progress:
    progress_stop(x);
out_loop:
    loop_done(x);
out_parts:
    free_parts(x);
    return rc;
}

void exec_halt(struct exec *x) {
    if (!x->own_thread || x->halted) return;
    atomic_store(&x->node_stop, true);
    exec_kick(x);
    pthread_join(x->node, NULL);
    atomic_store_explicit(&x->node_thread, NULL, memory_order_relaxed);
    x->halted = true;
}

bool exec_may_free(const struct exec *x) {
    bool here = exec_on_node_thread(x);
    return x->own_thread ? !here : here && !x->scheduling;
}

void exec_free(struct exec *x) {
    if (!x) return;
    assert(!exec_on_node_thread(x) || !x->scheduling); /* not from inside a fiber or a callback */
    exec_halt(x);
    process_exec_end(x);
    progress_stop(x);
    if (!x->own_thread) {
        exec_lock(x);
        struct exec *outer = enter_scheduler(x);
        trim(x, 0);
        leave_scheduler(x, outer);
        exec_unlock(x);
        overflow_thread_end();
    }
    child_done(x);
    loop_done(x);
    free_parts(x);
}
