/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes, blocking and signals (S0/3.1).
 *
 * At most one fiber runs in an object, without any lock: user code of a node runs on one thread, and fibers switch
 * only where they block. What is left of the paper's object lock is the *scope*: which object's method a fiber
 * executes. A signal to an object forces open at most one fiber that is blocked in its scope, whatever it blocks in;
 * if there is none it stays pending, once, and the next fiber that blocks there unmasked does not block.
 *
 * Laws
 *  - The longest blocked unmasked fiber is woken first. Masked ones are in no list and consume nothing.
 *  - Who waits looks for its result before it looks for a pending signal: a result that is there beats the signal,
 *    which stays pending.
 *  - A fiber that has been made runnable by its result or its deadline is not blocked any more: a signal that comes
 *    before it runs goes to another, or stays pending.
 *  - A cancelled call is woken once with ECANCELED, masked or not.
 *  - Who sleeps or waits on a set, unmasked, is woken once with ELEAVING when the node begins to leave (drain.c), or
 *    does not block the next time; a signal that is pending comes before it.
 *  - Contexts outside methods have no scope and receive no signals.
 */
#include "base/err.h"
#include "object/drain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct context *context_get(moyai_node *n) {
    void **slot = exec_local(n->x);
    if (!slot) return &n->fallback;
    if (!*slot) {
        struct context *c = calloc(1, sizeof *c);
        if (!c) return &n->fallback;
        c->next = n->contexts;
        c->prev = &n->contexts;
        if (c->next) c->next->prev = &c->next;
        n->contexts = c;
        *slot = c;
    }
    return *slot;
}

void context_free(void *node, void *context) {
    (void)node;
    struct context *c = context;
    if (c->held) future_free_locked(c->held);
    *c->prev = c->next;
    if (c->next) c->next->prev = c->prev;
    free(c);
}

void blocked_init(moyai_node *n, struct blocked *b, const char *what) {
    memset(b, 0, sizeof *b);
    exec_waiter_init(n->x, &b->w);
    b->what = what;
}

static void scope_remove(struct blocked *b) {
    struct object *ob = b->scope;
    if (!ob) return;
    if (b->prev)
        b->prev->next = b->next;
    else
        ob->blocked_first = b->next;
    if (b->next)
        b->next->prev = b->prev;
    else
        ob->blocked_last = b->prev;
    b->scope = NULL;
}

static void uncount(moyai_node *n, struct blocked *b) {
    if (b->counted) n->n_blocked--;
    b->counted = false;
}

bool blocked_wake(moyai_node *n, struct blocked *b, int result) {
    scope_remove(b);
    uncount(n, b);
    return exec_wake(n->x, &b->w, result);
}

void wait_add(struct blocked **list, struct blocked *b) {
    b->wait_next = *list;
    if (b->wait_next) b->wait_next->wait_at = &b->wait_next;
    b->wait_at = list;
    *list = b;
}

void wait_remove(struct blocked *b) {
    if (!b->wait_at) return;
    *b->wait_at = b->wait_next;
    if (b->wait_next) b->wait_next->wait_at = b->wait_at;
    b->wait_next = NULL;
    b->wait_at = NULL;
}

static int do_block(moyai_node *n, struct context *c, struct blocked *b, moyai_ns deadline, bool masked) {
    moyai_request *rq = c->rq;
    if (rq && rq->cancelled && !rq->cancel_told) {
        rq->cancel_told = true;
        return MOYAI_ECANCELED;
    }
    if (!masked && c->scope) {
        struct object *ob = c->scope;
        if (ob->pending) {
            ob->pending = false;
            return MOYAI_SIGNALLED;
        }
        b->scope = ob;
        b->next = NULL;
        b->prev = ob->blocked_last;
        if (b->prev)
            b->prev->next = b;
        else
            ob->blocked_first = b;
        ob->blocked_last = b;
    }
    int told = drain_tells(n, c, b);
    if (told < 0) {
        scope_remove(b);
        return told;
    }
    if (rq) rq->blocked = b;
    if (c->counted) {
        b->counted = true;
        n->n_blocked++;
        serve_waiting(n);
    }
    int rc = exec_wait(n->x, &b->w, deadline);
    uncount(n, b);
    scope_remove(b);
    drain_untell(b);
    if (rq) rq->blocked = NULL;
    return rc;
}

int block_failed(moyai_node *n, int code, const char *what) {
    switch (code) {
    case MOYAI_SIGNALLED:
        return api_fail(n, code, "forced open by a signal to the object (this function %s)", what);
    case MOYAI_ELEAVING:
        return api_fail(
            n, code,
            "this node leaves: what it has begun is to be finished soon (this function %s, and goes on if it "
            "is called again)",
            what);
    case MOYAI_ECANCELED:
        return api_fail(n, code, "the call that runs here, '%s', was cancelled, or nobody waits for it any more",
                        context_get(n)->rq->method->name);
    case MOYAI_ESTATE:
        return api_fail(n, code,
                        "a fiber of another node of this thread cannot wait in this one, which waits for it, further "
                        "down the stack: use moyai_call_async and a callback, or a thread for each node");
    case MOYAI_ECLOSED:
        return api_fail(n, code, "the node was ended while this thread waited in it");
    default:
        return code; /* a result, or a time-out: what it was for, the caller knows */
    }
}

int block(moyai_node *n, struct blocked *b, moyai_ns deadline, bool masked) {
    int rc = do_block(n, context_get(n), b, deadline, masked);
    return rc < 0 ? block_failed(n, rc, b->what) : rc;
}

int object_signal(struct object *ob) {
    if (ob->ended || ob->at.state == MOVING_SETTLES) return MOYAI_ENOOBJECT; /* it is looked for elsewhere */
    while (ob->blocked_first) /* one whose deadline has passed is runnable already: not it */
        if (blocked_wake(ob->node, ob->blocked_first, MOYAI_SIGNALLED)) return 0;
    ob->pending = true;
    return 0;
}

/* ---- entry and errors ------------------------------------------------------------------------ */

void api_enter(moyai_node *n) {
    if (exec_on_node_thread(n->x))
        exec_user_leave(n->x);
    else
        exec_foreign_enter(n->x);
}

void api_leave(moyai_node *n) {
    if (exec_on_node_thread(n->x))
        exec_user_enter(n->x);
    else
        exec_foreign_leave(n->x);
}

void user_leave(moyai_node *n) {
    if (exec_forked(n->x)) { /* it would run the parent's calls and write to the parent's sockets */
        static const char text[] = "moyai: a forked child returned from a method or callback of its parent: it ends\n";
        ssize_t rc = write(STDERR_FILENO, text, sizeof text - 1);
        (void)rc; /* there is nowhere to complain */
        _exit(1);
    }
    exec_user_leave(n->x);
}

int api_error(moyai_node *n, const struct moyai_error *e) {
    context_get(n)->last = *e;
    return e->code;
}

int api_fail(moyai_node *n, int code, const char *fmt, ...) {
    struct moyai_error e = {0};
    va_list ap;
    va_start(ap, fmt);
    err_vset(&e, code, fmt, ap);
    va_end(ap);
    e.executed = MOYAI_NEVER_EXECUTED;
    return api_error(n, &e);
}

int api_refuse(moyai_node *n, int code, const char *fmt, ...) {
    struct moyai_error e = {0};
    va_list ap;
    va_start(ap, fmt);
    err_vset(&e, code, fmt, ap);
    va_end(ap);
    e.executed = MOYAI_NEVER_EXECUTED;
    exec_lock(n->x);
    (void)api_error(n, &e);
    exec_unlock(n->x);
    return code;
}

void moyai_last_error(moyai_node *n, struct moyai_error *out) {
    if (!out) return;
    if (!n) {
        err_set(out, MOYAI_EINVAL, "the node is NULL");
        return;
    }
    if (exec_forked(n->x)) {
        err_set(out, MOYAI_EFORK, "the node belongs to the parent process");
        return;
    }
    exec_lock(n->x);
    *out = context_get(n)->last;
    exec_unlock(n->x);
}

/* ---- sleep, yield, go ------------------------------------------------------------------------ */

static int sleep_for(moyai_node *n, moyai_dur d, bool masked) {
    if (!n) return MOYAI_EINVAL;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    api_enter(n);
    struct blocked b;
    blocked_init(n, &b, "sleeps");
    b.tells_leave = !masked;
    moyai_ns until = d == MOYAI_FOREVER ? UINT64_MAX : moyai_now() + (moyai_ns)(d > 0 ? d : 0);
    int rc = block(n, &b, until, masked);
    api_leave(n);
    return rc == MOYAI_ETIMEDOUT ? 0 : rc;
}

int moyai_sleep(moyai_node *n, moyai_dur d) {
    return sleep_for(n, d, false);
}
int moyai_sleep_masked(moyai_node *n, moyai_dur d) {
    return sleep_for(n, d, true);
}

void moyai_yield(moyai_node *n) {
    if (!n || exec_forked(n->x) || !exec_on_node_thread(n->x)) return;
    exec_user_leave(n->x);
    exec_yield(n->x);
    exec_user_enter(n->x);
}

struct posted {
    struct exec_task task;
    struct posted *next, **prev; /* node's list */
    moyai_node *node;
    void (*fn)(void *arg);
    void *arg;
};

static void posted_free(struct posted *p) {
    *p->prev = p->next;
    if (p->next) p->next->prev = p->prev;
    free(p);
}

void posts_free_all(moyai_node *n) {
    while (n->posts) posted_free(n->posts);
}

void fiber_begin(moyai_node *n, struct context *c) {
    context_begin(c, NULL);
    *exec_local(n->x) = c;
}

void fiber_end(moyai_node *n, struct context *c) {
    if (c->held) future_free_locked(c->held);
    *exec_local(n->x) = NULL;
    n->active--;
    serve_waiting(n);
}

static void run_posted(struct exec_task *t) {
    struct posted p = *(struct posted *)t;
    posted_free((struct posted *)t);
    struct context c;
    fiber_begin(p.node, &c);
    exec_user_enter(p.node->x);
    p.fn(p.arg);
    user_leave(p.node);
    fiber_end(p.node, &c);
}

int go_locked(moyai_node *n, void (*fn)(void *arg), void *arg) {
    if (exec_starves(n->x))
        return api_fail(n, MOYAI_EBUSY, "no memory for another stack: %zu calls and fibers are in progress", n->active);
    if (n->active >= n->max_calls)
        return api_fail(n, MOYAI_EBUSY, "%zu calls and fibers are in progress, the limit (max_fibers)", n->active);
    struct posted *p = malloc(sizeof *p);
    if (!p) return api_fail(n, MOYAI_ENOMEM, "out of memory for a fiber");
    *p = (struct posted){
        .task = {.run = run_posted}, .next = n->posts, .prev = &n->posts, .node = n, .fn = fn, .arg = arg};
    n->active++;
    if (p->next) p->next->prev = &p->next;
    n->posts = p;
    exec_submit(n->x, &p->task);
    return 0;
}

static int post(moyai_node *n, void (*fn)(void *arg), void *arg) {
    if (!n) return MOYAI_EINVAL;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    if (!fn) return api_refuse(n, MOYAI_EINVAL, "the function to run is NULL");
    exec_lock(n->x);
    int rc = go_locked(n, fn, arg);
    exec_unlock(n->x);
    return rc;
}

int moyai_go(moyai_node *n, void (*fn)(void *arg), void *arg) {
    return post(n, fn, arg);
}

int moyai_post(moyai_node *n, void (*fn)(void *arg), void *arg) {
    return post(n, fn, arg);
}
