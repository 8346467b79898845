/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: one turn of it, the lock around the poll, timers, hooks, and descriptors whose changes are put off until
 * the driver comes by, since only the driver touches libuv. The laws are in exec.c.
 *
 * Of libuv 1.44: a turn is timers, pending, idle, prepare, poll, check, closing. Descriptor callbacks run before
 * uv_check does, which is why the lock is taken at the head of each callback and not there. uv_poll_start costs
 * epoll_ctl twice, so an unchanged set is not set again; level-triggered epoll needs nothing between two events. On
 * POLLERR uv_poll stops itself and says UV_EBADF: that is reported as everything that was watched and UV_DISCONNECT,
 * and the set is started again while the owner keeps it, since there may be more to read before the error.
 *
 * Timers are one timerfd on CLOCK_BOOTTIME and not a uv_timer, which counts whole milliseconds of a clock that stands
 * still while the machine sleeps. Setting it costs a system call, but that is rare: deadlines are mostly later than the
 * earliest, and are cleared long before they are due.
 */
#include "base/err.h"
#include "exec/impl.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

struct exec_fd {
    uv_poll_t poll;
    struct exec *x;
    struct exec_fd *prev, *next; /* all of this exec */
    struct exec_fd *next_changed;
    int fd;
    int want, have;  /* events asked for, events libuv watches */
    bool in_changed; /* in exec.changed */
    bool inited;     /* libuv knows it */
    bool dead;       /* exec_fd_free was called: no more callbacks */
    bool close_fd;
    exec_fd_fn fn;
    void *arg;
    void (*closed)(void *arg);
};

void loop_enter(struct exec *x) {
    if (!x->unlocked) return;
    lock_retake(&x->lock, x->crowded, x->entered);
    x->unlocked = false;
    x->polling = false;
    x->now = 0;
}

static void on_async(uv_async_t *h) {
    struct exec *x = h->data;
    loop_enter(x);
    x->stirred = true;
}

static void on_timer(uv_poll_t *h, int status, int events) {
    struct exec *x = h->data;
    uint64_t expirations;
    (void)status, (void)events;
    loop_enter(x);
    ssize_t rc = read(x->timer_fd, &expirations, sizeof expirations);
    (void)rc; /* nothing there: it was set anew meanwhile */
    x->armed = UINT64_MAX;
    x->stirred = true;
}

void loop_wake(struct exec *x) {
    if (x->wake_sent) return;
    if (x->driver == DRIVER_NODE && x->polling) {
        x->wake_sent = true;
        uv_async_send(&x->async);
    } else if (x->driver == DRIVER_NONE && x->watching) {
        x->wake_sent = true;
        eventfd_write(x->watch_fd, 1);
    }
}

/* ---- timers ---- */

moyai_ns exec_now(struct exec *x) {
    if (x->now == 0) {
        struct timespec ts;
        clock_gettime(CLOCK_BOOTTIME, &ts);
        x->now = (moyai_ns)ts.tv_sec * 1000000000u + (moyai_ns)ts.tv_nsec;
    }
    return x->now;
}

void exec_timer_init(struct exec_timer *t, void (*fn)(struct exec *, struct exec_timer *)) {
    *t = (struct exec_timer){.index = SIZE_MAX, .fn = fn};
}

/* The timer descriptor is moved only if it is too late; one that is too early costs one idle turn at most. Any thread
 * may do so: whoever polls need not wake for it. */
void loop_arm(struct exec *x) {
    struct exec_timer *t = x->timers.root;
    if (!t || t->when >= x->armed) return;
    moyai_ns when = t->when ? t->when : 1; /* 0 would mean: never */
    struct itimerspec its = {
        .it_value = {.tv_sec = (time_t)(when / 1000000000u), .tv_nsec = (long)(when % 1000000000u)},
    };
    if (timerfd_settime(x->timer_fd, TFD_TIMER_ABSTIME, &its, NULL) == 0) x->armed = t->when;
}

void exec_timer_set(struct exec *x, struct exec_timer *t, moyai_ns when) {
    timers_set(&x->timers, t, when);
    if (x->polling || x->watching) loop_arm(x);
}

void exec_timer_unset(struct exec *x, struct exec_timer *t) {
    timers_clear(&x->timers, t);
}

/* Timers that are set within the functions called wait for the next turn. */
static void timers_run(struct exec *x) {
    if (!x->timers.root) return;
    moyai_ns now = exec_now(x);
    size_t end = x->timers.order;
    struct exec_timer *t;
    while ((t = timers_take_due(&x->timers, now, end))) {
        x->stirred = true;
        t->fn(x, t);
    }
}

static void on_prepare(uv_prepare_t *h) {
    struct exec *x = h->data;
    if (x->driver != DRIVER_NODE) return;
    x->unlocked = true;
    x->polling = true;
    x->crowded = lock_pass(&x->lock, &x->entered);
}

/* ---- descriptors ---- */

static void set_want(struct exec_fd *f, int events) {
    f->x->writers -= !!(f->want & UV_WRITABLE);
    f->want = events;
    f->x->writers += !!(events & UV_WRITABLE);
}

static void change(struct exec_fd *f) {
    if (f->in_changed) return;
    f->in_changed = true;
    f->next_changed = NULL;
    *f->x->last_changed = f;
    f->x->last_changed = &f->next_changed;
    loop_wake(f->x);
}

static void on_closed(uv_handle_t *h) {
    struct exec_fd *f = h->data;
    struct exec *x = f->x;
    loop_enter(x);
    x->stirred = true;
    /* Only now: a child that is forked meanwhile has to close it, too. */
    if (f->prev)
        f->prev->next = f->next;
    else
        x->fds = f->next;
    if (f->next) f->next->prev = f->prev;
    if (f->close_fd) close(f->fd);
    if (f->closed) f->closed(f->arg);
    free(f);
}

static void on_poll(uv_poll_t *h, int status, int events) {
    struct exec_fd *f = h->data;
    loop_enter(f->x);
    f->x->stirred = true;
    if (f->dead) return;
    if (status < 0) {
        events = f->have | UV_DISCONNECT;
        f->have = 0;
        change(f);
    }
    f->fn(f, events, f->arg);
}

/* True: a callback was called. */
static bool apply(struct exec_fd *f) {
    struct exec *x = f->x;
    if (f->dead) {
        if (f->inited) {
            uv_close((uv_handle_t *)&f->poll, on_closed);
            return false;
        }
        f->poll.data = f;
        on_closed((uv_handle_t *)&f->poll);
        return true;
    }
    if (f->want == f->have) return false;
    int rc = 0;
    if (!f->inited) {
        rc = uv_poll_init(&x->loop, &f->poll, f->fd);
        if (rc == 0) {
            f->inited = true;
            f->poll.data = f;
        }
    }
    if (rc == 0) rc = uv_poll_start(&f->poll, f->want, on_poll);
    if (rc == 0) {
        f->have = f->want;
        return false;
    }
    /* A descriptor that cannot be watched: not open, watched already, or a file that is always ready. */
    set_want(f, 0);
    f->fn(f, UV_DISCONNECT, f->arg);
    return true;
}

static bool apply_changes(struct exec *x) {
    bool called = false;
    while (x->changed) {
        struct exec_fd *f = x->changed;
        x->changed = f->next_changed;
        if (!x->changed) x->last_changed = &x->changed;
        f->in_changed = false;
        if (apply(f)) called = true;
    }
    return called;
}

struct exec_fd *exec_fd_new(struct exec *x, int fd, int events, exec_fd_fn fn, void *arg) {
    struct exec_fd *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->x = x;
    f->fd = fd;
    set_want(f, events);
    f->fn = fn;
    f->arg = arg;
    f->next = x->fds;
    if (f->next) f->next->prev = f;
    x->fds = f;
    change(f);
    return f;
}

void loop_close_fds(struct exec *x) {
    for (struct exec_fd *f = x->fds; f; f = f->next) close(f->fd);
    for (struct exec_kept *k = x->kept; k; k = k->next) close(k->fd);
}

void exec_keep(struct exec *x, struct exec_kept *k, int fd) {
    *k = (struct exec_kept){fd, x->kept, &x->kept};
    if (k->next) k->next->prev = &k->next;
    x->kept = k;
}

void exec_keep_close(struct exec_kept *k) {
    if (k->fd < 0) return;
    *k->prev = k->next;
    if (k->next) k->next->prev = k->prev;
    close(k->fd);
    k->fd = -1;
}

void exec_fd_events(struct exec_fd *f, int events) {
    set_want(f, events);
    if (f->want != f->have) change(f);
}

void exec_fd_free(struct exec_fd *f, bool close_fd, void (*closed)(void *arg)) {
    if (!f) return;
    f->dead = true;
    set_want(f, 0);
    f->close_fd = close_fd;
    f->closed = closed;
    change(f);
}

/* ---- hooks ---- */

void exec_hook_add(struct exec *x, struct exec_hook *h) {
    struct exec_hook **p = &x->hooks;
    while (*p) p = &(*p)->next;
    h->next = NULL;
    *p = h;
}

void exec_hook_remove(struct exec *x, struct exec_hook *h) {
    for (struct exec_hook **p = &x->hooks; *p; p = &(*p)->next) {
        if (*p != h) continue;
        if (x->next_hook == h) x->next_hook = h->next;
        *p = h->next;
        return;
    }
}

static void hooks_run(struct exec *x) {
    for (struct exec_hook *h = x->hooks; h; h = x->next_hook) {
        x->next_hook = h->next;
        h->fn(h);
    }
}

void exec_attention(struct exec *x) {
    loop_wake(x);
}

/* ---- spinning ---- */

/*
 * A sleep and a wake-up cost more than a short call, the more so from one processor to another. So before a blocking
 * poll the node thread looks for a while whether the descriptor that was read last has more; two nodes that call each
 * other then stay awake until one has nothing to say. Time spent for nothing is paid back by looking less often: after
 * SPIN_FAILS failures in a row only before every 2nd, 4th ... SPIN_SKIP-th poll, so a process that computes on a
 * crowded machine, or whose peers are slow, pays next to nothing, and an idle one nothing.
 */
enum {
    SPIN_TIME = 50000 /* ns: a wake-up on another processor, and a short method */,
    SPIN_FAILS = 4,
    SPIN_SKIP = 256
};
enum { SPIN_RUN = 32 /* successes between two polls */ };

void exec_spin(struct exec *x, bool (*look)(void *arg), void *arg) {
    x->spin_look = look;
    x->spin_arg = arg;
}

static bool spin(struct exec *x) {
    /* Who waits to write must hear from the poll. */
    if (!x->spin_look || x->processors < 2 || x->writers > 0) return false;
    if (x->spin_skip > 0) {
        x->spin_skip--;
        return false;
    }
    moyai_ns end = moyai_now() + SPIN_TIME;
    do {
        if (atomic_load_explicit(&x->lock.waiting, memory_order_relaxed) > 0) return false;
        if (x->spin_look(x->spin_arg)) {
            x->spin_fails = 0;
            x->spun++;
            return true;
        }
        if (!x->spin_look) return false;
    } while (moyai_now() < end);
    if (x->spin_fails < SPIN_FAILS + 8) x->spin_fails++;
    if (x->spin_fails >= SPIN_FAILS) x->spin_skip = 1u << (x->spin_fails - SPIN_FAILS);
    if (x->spin_skip > SPIN_SKIP) x->spin_skip = SPIN_SKIP;
    return false;
}

/* ---- the turn ---- */

void loop_turn(struct exec *x, enum exec_driver who, bool block) {
    assert(x->driver == DRIVER_NONE);
    if (who == DRIVER_NODE && x->watching) {
        /* Else each event would wake the watcher, too, and it would mostly find nothing left to look at. */
        x->watching = false;
        eventfd_write(x->watch_fd, 1);
    }
    x->driver = who;
    x->stirred = false;
    hooks_run(x);
    if (apply_changes(x)) {
        x->stirred = true; /* the hooks may have work again */
        block = false;
    }
    if (x->run.first) block = false;
    if (block && x->timers.root) {
        if (x->timers.root->when <= exec_now(x))
            block = false;
        else
            loop_arm(x);
    }
    unsigned turns = atomic_load_explicit(&x->turns, memory_order_relaxed);
    /* What was found by spinning needs no poll; but one is due every millisecond, and after SPIN_RUN times (the tick
     * stands still while the progress thread sleeps), for all other descriptors: one that does not block. */
    bool due = x->tick_seen != atomic_load_explicit(&x->tick, memory_order_relaxed) || x->spun >= SPIN_RUN;
    if (due && x->spun > 0 && x->writers == 0) block = false;
    if (block && !due && spin(x)) {
        atomic_store_explicit(&x->turns, turns + 2, memory_order_relaxed);
        x->now = 0;
        timers_run(x);
        x->driver = DRIVER_NONE;
        return;
    }
    atomic_store_explicit(&x->turns, turns + 1, memory_order_relaxed);
    /* The progress thread's turns do not count: the node thread shall come by the main context, too. */
    if (who == DRIVER_NODE) x->tick_seen = atomic_load_explicit(&x->tick, memory_order_relaxed);
    uv_run(&x->loop, block ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    loop_enter(x);
    atomic_store_explicit(&x->turns, turns + 2, memory_order_relaxed);
    x->wake_sent = false;
    timers_run(x);
    x->polls++;
    if (who == DRIVER_NODE) x->since_poll = 0;
    x->spun = 0;
    x->driver = DRIVER_NONE;
}

/*
 * The first loop of a process makes a pipe for signals, and libuv aborts the process if it cannot. So have as many
 * descriptors as a loop needs, then give them back to it: a thread that takes them in between must be quick. Later,
 * libuv would abort if epoll refused a descriptor; those epoll has no room for are refused by uv_poll_init before.
 */
static int check_descriptors(struct moyai_error *reterr) {
    enum { NEED = 8 }; /* libuv 1.44: 6 */
    int fds[NEED], n = 0, e = 0;
    while (n < NEED && !e) {
        int fd = eventfd(0, EFD_CLOEXEC);
        if (fd < 0)
            e = errno;
        else
            fds[n++] = fd;
    }
    for (int i = 0; i < n; i++) close(fds[i]);
    return e ? err_sys(reterr, e, "cannot make an event loop of %d descriptors", NEED) : 0;
}

int loop_init(struct exec *x, struct moyai_error *reterr) {
    int rc = check_descriptors(reterr);
    if (rc < 0) return rc;
    rc = uv_loop_init(&x->loop);
    if (rc < 0) return err_sys(reterr, -rc, "cannot make an event loop");
    x->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (x->timer_fd < 0) {
        rc = err_sys(reterr, errno, "cannot make a timer");
        goto out_loop;
    }
    x->watch_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (x->watch_fd < 0) {
        rc = err_sys(reterr, errno, "cannot make a wake-up descriptor");
        goto out_timer;
    }
    rc = uv_async_init(&x->loop, &x->async, on_async);
    if (rc < 0) {
        rc = err_sys(reterr, -rc, "cannot make a wake-up descriptor for the event loop");
        goto out_watch;
    }
    rc = uv_poll_init(&x->loop, &x->timer, x->timer_fd);
    if (rc < 0) {
        rc = err_sys(reterr, -rc, "cannot watch a timer");
        goto out_async;
    }
    uv_poll_start(&x->timer, UV_READABLE, on_timer);
    uv_prepare_init(&x->loop, &x->prepare);
    uv_prepare_start(&x->prepare, on_prepare);
    x->async.data = x->prepare.data = x->timer.data = x;
    x->armed = UINT64_MAX;
    x->last_changed = &x->changed;
    return 0;

out_async:
    uv_close((uv_handle_t *)&x->async, NULL);
    uv_run(&x->loop, UV_RUN_DEFAULT);
out_watch:
    close(x->watch_fd);
out_timer:
    close(x->timer_fd);
out_loop:
    uv_loop_close(&x->loop);
    return rc;
}

void loop_done(struct exec *x) {
    assert(x->driver == DRIVER_NONE);
    x->driver = DRIVER_NODE;
    apply_changes(x);
    uv_prepare_stop(&x->prepare); /* the lock is not released any more */
    uv_close((uv_handle_t *)&x->async, NULL);
    uv_close((uv_handle_t *)&x->prepare, NULL);
    uv_close((uv_handle_t *)&x->timer, NULL);
    for (struct exec_fd *f = x->fds; f; f = f->next) assert(f->dead); /* everything registered has been freed */
    uv_run(&x->loop, UV_RUN_DEFAULT);
    int rc = uv_loop_close(&x->loop);
    assert(rc == 0);
    (void)rc;
    close(x->timer_fd);
    close(x->watch_fd);
}
