/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads other than the node thread: where they wait, what they keep, and how they are got out of a node that ends.
 *
 * A foreign thread has a local (exec_local) in each exec it uses: entries of a list of its own, which end with the
 * thread, or when the thread makes another entry and their exec is gone. A thread that ends gives its locals back to
 * the execs that still live, which it finds in the list of all (process.c): their addresses alone do not tell, since
 * another may lie there now.
 */
#include "exec/impl.h"
#include "exec/process.h"

#include <limits.h>
#include <stdlib.h>

struct exec_local {
    struct exec_local *next;
    struct exec *x;
    uint64_t id;
    void *slot;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;

/* ---- locals ---- */

static void thread_ends(void *arg) {
    struct exec_tls *tls = arg;
    while (tls->locals) {
        struct exec_local *l = tls->locals;
        tls->locals = l->next;
        process_take(PROCESS_EXECS);
        bool pinned = l->slot && process_exec_lives(l->x, l->id);
        if (pinned) l->x->pins++;
        process_release(PROCESS_EXECS);
        if (pinned) {
            exec_lock(l->x);
            if (l->x->local_done) l->x->local_done(l->x->local_arg, l->slot);
            exec_unlock(l->x);
            process_take(PROCESS_EXECS);
            if (--l->x->pins == 0) process_wake(PROCESS_EXECS);
            process_release(PROCESS_EXECS);
        }
        free(l);
    }
}

static void make_key(void) {
    have_key = pthread_key_create(&key, thread_ends) == 0;
}

static void drop_dead(struct exec_tls *tls) {
    process_take(PROCESS_EXECS);
    for (struct exec_local **p = &tls->locals; *p;) {
        struct exec_local *l = *p;
        if (process_exec_lives(l->x, l->id)) {
            p = &l->next;
        } else {
            *p = l->next;
            free(l);
        }
    }
    process_release(PROCESS_EXECS);
}

void **foreign_local(struct exec *x) {
    struct exec_tls *tls = exec_tls();
    for (struct exec_local *l = tls->locals; l; l = l->next)
        if (l->x == x && l->id == x->id) return &l->slot;
    pthread_once(&once, make_key);
    if (!have_key || pthread_setspecific(key, tls) != 0) return NULL;
    drop_dead(tls);
    struct exec_local *l = malloc(sizeof *l);
    if (!l) return NULL;
    *l = (struct exec_local){.next = tls->locals, .x = x, .id = x->id};
    tls->locals = l;
    return &l->slot;
}

/* ---- waiting ---- */

void foreign_wait(struct exec *x, struct exec_waiter *w, moyai_ns deadline) {
    if (x->draining) {
        w->result = MOYAI_ECLOSED;
        atomic_store_explicit(&w->woken, 1, memory_order_relaxed);
        return;
    }
    w->foreign_prev = &x->waiting;
    w->foreign_next = x->waiting;
    if (w->foreign_next) w->foreign_next->foreign_prev = &w->foreign_next;
    x->waiting = w;
    while (!atomic_load_explicit(&w->woken, memory_order_relaxed)) {
        uint64_t timeout = UINT64_MAX;
        if (deadline != UINT64_MAX) {
            moyai_ns now = exec_now(x);
            if (now >= deadline) {
                w->result = MOYAI_ETIMEDOUT;
                atomic_store_explicit(&w->woken, 1, memory_order_relaxed);
                break;
            }
            timeout = deadline - now;
        }
        exec_unlock(x);
        futex_wait(&w->woken, 0, timeout);
        exec_lock(x);
    }
    *w->foreign_prev = w->foreign_next;
    if (w->foreign_next) w->foreign_next->foreign_prev = w->foreign_prev;
}

void exec_foreign_enter(struct exec *x) {
    atomic_fetch_add(&x->inside, 1); /* before it waits for the lock, perhaps */
    exec_lock(x);
}

void exec_foreign_leave(struct exec *x) {
    /* The exec may be freed as soon as the lock is released: nothing of it is touched behind that. Waking a word that
     * is gone by then would be harmless, but it is done before. */
    if (atomic_fetch_sub(&x->inside, 1) == 1 && x->draining) futex_wake(&x->inside, INT_MAX);
    exec_unlock(x);
}

void exec_foreign_drain(struct exec *x) {
    x->draining = true;
    for (struct exec_waiter *w = x->waiting; w; w = w->foreign_next) exec_wake(x, w, MOYAI_ECLOSED);
    unsigned n;
    while ((n = atomic_load(&x->inside)) > 0) {
        exec_unlock(x);
        futex_wait(&x->inside, n, UINT64_MAX);
        exec_lock(x);
    }
}
