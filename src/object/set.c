/* SPDX-License-Identifier: Apache-2.0 */
/* Sets: futures that are waited for together. Those that have completed are in a list of their own, in that order. */
#include "base/dur.h"
#include "base/err.h"
#include "object/internal.h"

#include <stdlib.h>

void set_unlink(moyai_set *s, moyai_future *f) {
    bool ready = f->state == FUTURE_DONE;
    if (f->set_prev)
        f->set_prev->set_next = f->set_next;
    else if (ready)
        s->ready = f->set_next;
    else
        s->pending = f->set_next;
    if (f->set_next)
        f->set_next->set_prev = f->set_prev;
    else if (ready)
        s->ready_last = f->set_prev;
    f->set_prev = f->set_next = NULL;
    if (ready)
        s->n_ready--;
    else
        s->n_pending--;
}

void set_link(moyai_set *s, moyai_future *f) {
    if (f->state == FUTURE_DONE) {
        f->set_prev = s->ready_last;
        f->set_next = NULL;
        if (s->ready_last)
            s->ready_last->set_next = f;
        else
            s->ready = f;
        s->ready_last = f;
        s->n_ready++;
    } else {
        f->set_prev = NULL;
        f->set_next = s->pending;
        if (s->pending) s->pending->set_prev = f;
        s->pending = f;
        s->n_pending++;
    }
}

static bool set_satisfied(const moyai_set *s, bool all) {
    return all ? s->n_pending == 0 : s->n_ready > 0;
}

void set_wake(moyai_set *s) {
    if (s->waiter && set_satisfied(s, s->wait_all)) (void)blocked_wake(s->node, s->waiter, 0);
}

/* ---- the user's side ------------------------------------------------------------------------- */

int moyai_set_new(moyai_node *n, moyai_set **ret) {
    if (!n) return MOYAI_EINVAL;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    if (!ret) return api_refuse(n, MOYAI_EINVAL, "ret must not be NULL");
    moyai_set *s = calloc(1, sizeof *s);
    if (!s) return api_refuse(n, MOYAI_ENOMEM, "out of memory for a set");
    s->node = n;
    *ret = s;
    return 0;
}

void moyai_set_free(moyai_set *s) {
    if (!s) return;
    if (!exec_forked(s->node->x)) {
        exec_lock(s->node->x);
        for (int i = 0; i < 2; i++)
            for (moyai_future *f = i ? s->ready : s->pending, *next; f; f = next) {
                next = f->set_next;
                f->set = NULL;
                f->set_prev = f->set_next = NULL;
            }
        if (s->waiter) {
            s->waiter->on_set = NULL;
            (void)blocked_wake(s->node, s->waiter, MOYAI_EINVAL);
        }
        exec_unlock(s->node->x);
    }
    free(s);
}

int moyai_set_add(moyai_set *s, moyai_future *f) {
    if (!s) return MOYAI_EINVAL;
    moyai_node *n = s->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    exec_lock(n->x);
    int rc = 0;
    if (future_no_node(f)) {
        rc = api_fail(n, MOYAI_EINVAL, f ? "the future is of a call without a reference (NULL)" : "the future is NULL");
    } else if (f->constant) {
        struct moyai_error e = future_error(f);
        rc = api_error(n, &e);
    } else if (f->node != n) {
        rc = api_fail(n, MOYAI_EINVAL, "the future is of another node of this process: it needs a set of that node");
    } else if (f->set && f->set != s) {
        rc = api_fail(n, MOYAI_ESTATE, "the future is in another set: moyai_set_remove() takes it out");
    } else if (!f->set) {
        f->set = s;
        set_link(s, f);
        set_wake(s);
    }
    exec_unlock(n->x);
    return rc;
}

void moyai_set_remove(moyai_set *s, moyai_future *f) {
    if (!s || !f || f->constant || exec_forked(s->node->x)) return;
    exec_lock(s->node->x);
    if (f->set == s) {
        set_unlink(s, f);
        f->set = NULL;
        set_wake(s); /* it may have been the last that had not completed */
    }
    exec_unlock(s->node->x);
}

size_t moyai_set_count(const moyai_set *s) {
    if (!s || exec_forked(s->node->x)) return 0;
    exec_lock(s->node->x);
    size_t n = s->n_pending + s->n_ready;
    exec_unlock(s->node->x);
    return n;
}

moyai_future *moyai_set_next(moyai_set *s) {
    if (!s || exec_forked(s->node->x)) return NULL;
    exec_lock(s->node->x);
    moyai_future *f = s->ready;
    if (f) {
        set_unlink(s, f);
        f->set = NULL;
    }
    exec_unlock(s->node->x);
    return f;
}

static int set_wait(moyai_set *s, moyai_dur timeout, bool all, bool masked) {
    if (!s) return MOYAI_EINVAL;
    moyai_node *n = s->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    api_enter(n);
    int rc = 0;
    if (s->waiter) {
        rc = api_fail(n, MOYAI_ESTATE, "another fiber waits on this set: give each a set of its own");
    }
    moyai_ns until = UINT64_MAX;
    if (rc == 0 && timeout != MOYAI_FOREVER && !set_satisfied(s, all))
        until = moyai_now() + (moyai_ns)(timeout > 0 ? timeout : 0);
    while (rc == 0 && s && !set_satisfied(s, all)) { /* again, if another fiber has taken what had completed */
        struct blocked b;
        blocked_init(n, &b, all ? "waits for all of several calls" : "waits for one of several calls");
        b.on_set = s;
        b.tells_leave = !masked;
        s->waiter = &b;
        s->wait_all = all;
        rc = block(n, &b, until, masked);
        if (!b.on_set) { /* freed, perhaps after it had become ready */
            s = NULL;
            rc = api_fail(n, MOYAI_EINVAL, "the set was freed while this waited on it");
        } else {
            s->waiter = NULL;
        }
        if (rc == MOYAI_ETIMEDOUT)
            rc = api_fail(n, rc, "%s of %zu futures completed within %s", all ? "not all" : "none",
                          s->n_pending + s->n_ready, DUR(timeout));
    }
    if (rc == 0 && s) rc = s->n_ready > INT32_MAX ? INT32_MAX : (int)s->n_ready;
    api_leave(n);
    return rc;
}

int moyai_wait(moyai_set *s, moyai_dur timeout) {
    return set_wait(s, timeout, false, false);
}
int moyai_wait_masked(moyai_set *s, moyai_dur timeout) {
    return set_wait(s, timeout, false, true);
}
int moyai_wait_all(moyai_set *s, moyai_dur timeout) {
    return set_wait(s, timeout, true, false);
}
int moyai_wait_all_masked(moyai_set *s, moyai_dur timeout) {
    return set_wait(s, timeout, true, true);
}
