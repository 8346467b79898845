/* SPDX-License-Identifier: Apache-2.0 */
/* Turns, timers and hooks (exec.h), and what the world does with nodes. */
#include "sim/grid/ground.h"

#include "exec/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local struct ground_node *ground_now;
_Thread_local struct ground *ground_world;

/* ---- timers ---------------------------------------------------------------------------------- */

static bool before(const struct exec_due *a, const struct exec_due *b) {
    return a->when != b->when ? a->when < b->when : a->order < b->order;
}

static void place(struct exec *x, size_t i, struct exec_due d) {
    x->due[i] = d;
    d.timer->index = i;
}

static void up(struct exec *x, size_t i, struct exec_due d) {
    for (; i > 0 && before(&d, &x->due[(i - 1) / 2]); i = (i - 1) / 2) place(x, i, x->due[(i - 1) / 2]);
    place(x, i, d);
}

static void down(struct exec *x, size_t i, struct exec_due d) {
    for (;;) {
        size_t k = 2 * i + 1;
        if (k >= x->n) break;
        if (k + 1 < x->n && before(&x->due[k + 1], &x->due[k])) k++;
        if (!before(&x->due[k], &d)) break;
        place(x, i, x->due[k]);
        i = k;
    }
    place(x, i, d);
}

void exec_timer_init(struct exec_timer *t, void (*fn)(struct exec *, struct exec_timer *)) {
    *t = (struct exec_timer){.index = SIZE_MAX, .fn = fn};
}

void exec_timer_unset(struct exec *x, struct exec_timer *t) {
    size_t i = t->index;
    t->index = SIZE_MAX;
    const struct exec_due last = x->due[--x->n];
    if (last.timer == t) return;
    if (i > 0 && before(&last, &x->due[(i - 1) / 2]))
        up(x, i, last);
    else
        down(x, i, last);
}

void exec_timer_set(struct exec *x, struct exec_timer *t, moyai_ns when) {
    if (t->index != SIZE_MAX) exec_timer_unset(x, t);
    if (x->n == x->cap) {
        x->cap = x->cap ? 2 * x->cap : 16;
        x->due = realloc(x->due, x->cap * sizeof *x->due);
        if (!x->due) abort();
    }
    t->when = when;
    up(x, x->n++, (struct exec_due){when, x->order++, t});
}

moyai_ns exec_now(struct exec *x) {
    return x->node->g->w->now;
}

/* ---- hooks ----------------------------------------------------------------------------------- */

void exec_hook_add(struct exec *x, struct exec_hook *h) {
    struct exec_hook **q = &x->hooks;
    while (*q) q = &(*q)->next;
    h->next = NULL;
    *q = h;
}

void exec_hook_remove(struct exec *x, struct exec_hook *h) {
    for (struct exec_hook **q = &x->hooks; *q; q = &(*q)->next)
        if (*q == h) {
            *q = h->next;
            return;
        }
}

void exec_attention(struct exec *x) {
    x->attention = true;
}

void exec_spin(struct exec *x, bool (*look)(void *arg), void *arg) {
    (void)x, (void)look, (void)arg;
}

/* Nodes of one host are not simulated: nobody has a process to watch. */
struct exec_witness *exec_witness_new(struct exec *x, pid_t pid, void (*fn)(void *arg), void *arg,
                                      struct moyai_error *reterr) {
    (void)x, (void)pid, (void)fn, (void)arg, (void)reterr;
    return NULL;
}
void exec_witness_free(struct exec_witness *w) {
    (void)w;
}

/* ---- turns ----------------------------------------------------------------------------------- */

void ground_enter(struct ground_node *n) {
    if (ground_now) abort(); /* a turn in a turn */
    ground_now = n;
}

static void wake(void *who, uint64_t when) {
    struct ground_node *n = who;
    if (n->x.wake != when) return;
    n->x.wake = 0;
    if (!n->here || n->stopped) return;
    ground_enter(n);
    ground_run_due(n);
    ground_leave(n);
}

static void task_run(void *who, uint64_t what);

/* What the next events will touch lies anywhere in gigabytes: it is asked for while those before them run. */
static void ahead(world_fn *fn, void *who, uint64_t what, unsigned stage) {
    if (ground_ahead_link(fn, who, what, stage)) return;
    const struct ground_task *t = fn == task_run ? who : NULL;
    const struct ground_node *n = fn == wake ? who : t && stage > 0 ? t->node : NULL;
    if (stage == 0 && t) {
        ground_fetch(t, sizeof *t);
    } else if (!n) {
        return;
    } else if (stage < 2) {
        ground_fetch(n, sizeof *n);
    } else if (stage == 2) {
        ground_fetch(n->x.due, 128);
    } else {
        if (stage == 3 && n->x.n > 0) ground_fetch(n->x.due[0].timer, sizeof *n->x.due[0].timer);
        if (n->here && n->g->ops->ahead) n->g->ops->ahead(n->g->ctx, n, NULL, stage);
    }
}

void ground_leave(struct ground_node *n) {
    struct exec *x = &n->x;
    while (x->attention) {
        x->attention = false;
        for (struct exec_hook *h = x->hooks, *next; h; h = next) {
            next = h->next;
            h->fn(h);
        }
    }
    if (n->here && n->g->ops->turned) n->g->ops->turned(n->g->ctx, n);
    ground_now = NULL;
    if (!n->here || x->n == 0) return;
    moyai_ns when = x->due[0].when;
    if (when <= n->g->w->now) when = n->g->w->now + 1;
    if (x->wake && x->wake <= when) return;
    x->wake = when;
    world_at(n->g->w, when, wake, n, when);
}

/* What is set at once by one of them is the next turn's. */
void ground_run_due(struct ground_node *n) {
    struct exec *x = &n->x;
    uint64_t until = x->order;
    while (x->n && x->due[0].when <= n->g->w->now && x->due[0].order < until) {
        struct exec_timer *t = x->due[0].timer;
        exec_timer_unset(x, t);
        t->fn(x, t);
    }
}

static void task_end(struct ground_task *t) {
    if (t->undo) t->undo(t->arg);
    free(t);
}

static void task_run(void *who, uint64_t what) {
    struct ground_task *t = who;
    struct ground_node *n = t->node;
    (void)what;
    if (!n->here) {
        task_end(t);
        return;
    }
    if (n->stopped) {
        t->next = NULL;
        if (n->late)
            n->late_last->next = t;
        else
            n->late = t;
        n->late_last = t;
        return;
    }
    ground_enter(n);
    t->fn(t->arg);
    ground_leave(n);
    free(t);
}

void ground_task(struct ground_node *n, moyai_dur in, void (*fn)(void *arg), void (*undo)(void *arg), void *arg) {
    struct ground_task *t = sim_alloc(sizeof *t);
    *t = (struct ground_task){.node = n, .fn = fn, .undo = undo, .arg = arg};
    world_in(n->g->w, in, task_run, t, 0);
}

void ground_stop(struct ground_node *n, bool stopped) {
    if (n->stopped == stopped) return;
    n->stopped = stopped;
    if (stopped) return;
    struct ground_task *t = n->late;
    n->late = n->late_last = NULL;
    for (struct ground_task *next; t; t = next) {
        next = t->next;
        task_run(t, 0);
    }
    if (!n->here) return;
    ground_enter(n);
    ground_run_due(n);
    ground_leave(n);
    ground_resume_conns(n);
}

/* ---- places ---------------------------------------------------------------------------------- */

void ground_init(struct ground *g, struct world *w, const struct ground_ops *ops, void *ctx) {
    *g = (struct ground){.w = w, .ops = ops, .ctx = ctx, .delay = 20 * MOYAI_MS};
    rng_fork(&w->rng, "ground", 0, &g->rng);
    rng_fork(&w->rng, "system", 0, &g->draws);
    w->ahead = ahead;
    ground_world = g;
}

struct ground_node *ground_add(struct ground *g, uint32_t site) {
    if (g->n == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 64;
        g->node = realloc(g->node, g->cap * sizeof *g->node);
        if (!g->node) abort();
    }
    struct ground_node *n = sim_alloc(sizeof *n);
    *n = (struct ground_node){.g = g, .index = g->n, .site = site, .part = site};
    n->x.node = n;
    rng_bytes(&g->rng, n->id.b, 12);
    n->id.b[0] |= 1; /* not zero */
    memcpy(n->id.b + 12, &n->index, 4);
    g->node[g->n++] = n;
    return n;
}

void ground_up(struct ground_node *n) {
    n->here = true;
}

void ground_down(struct ground_node *n) {
    n->here = n->stopped = false;
    struct ground_task *t = n->late;
    n->late = n->late_last = NULL;
    for (struct ground_task *next; t; t = next) {
        next = t->next;
        task_end(t);
    }
    ground_meet_forget(n);
    free(n->x.due);
    n->x.due = NULL;
    n->x.n = n->x.cap = 0;
}

void ground_address(uint32_t index, char out[32]) {
    snprintf(out, 32, "10.%u.%u.%u:7", index >> 16 & 255, index >> 8 & 255, index & 255);
}

struct ground_node *ground_at(struct ground *g, const char *address) {
    unsigned a, b, c;
    if (sscanf(address, "10.%u.%u.%u:7", &a, &b, &c) != 3) return NULL;
    uint32_t i = a << 16 | b << 8 | c;
    return i < g->n ? g->node[i] : NULL;
}

static bool parted(const struct ground_node *a, const struct ground_node *b) {
    return a->g->parted && a->part != b->part;
}

enum ground_answer ground_knock(const struct ground_node *from, const struct ground_node *to) {
    const struct ground *g = from->g;
    if (parted(from, to)) return GROUND_NOTHING;
    if (from->site != to->site && g->site[to->site] == GROUND_NAT) return g->silent ? GROUND_NOTHING : GROUND_NO;
    return to->here && to->listener ? GROUND_YES : GROUND_NO;
}

moyai_dur ground_delay(struct ground *g, const struct ground_node *a, const struct ground_node *b) {
    uint64_t most = (uint64_t)g->delay / (a->site == b->site ? 20 : 1);
    return 1 + (moyai_dur)(most / 4 + rng_below(&g->rng, most + 1) * 3 / 4);
}
