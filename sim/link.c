/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/link.h"

#include <stdlib.h>
#include <string.h>

struct packet *packet_new(const struct session_frame *f, size_t bytes) {
    struct packet *p = sim_alloc(sizeof *p + f->n_chunks * sizeof *f->chunks);
    p->bytes = bytes;
    p->frame = *f;
    p->frame.chunks = p->chunks;
    if (f->n_chunks) memcpy(p->chunks, f->chunks, f->n_chunks * sizeof *f->chunks);
    return p;
}

static void append(struct element *e, struct packet *p) {
    p->next = NULL;
    if (e->last)
        e->last->next = p;
    else
        e->first = p;
    e->last = p;
}

static struct packet *take(struct element *e) {
    struct packet *p = e->first;
    e->first = p->next;
    if (!e->first) e->last = NULL;
    return p;
}

static moyai_ns first_due(const struct element *e) {
    return e->first ? e->first->due : UINT64_MAX;
}

static void pass_on(struct element *e, moyai_ns now) {
    struct packet *p = take(e);
    e->to->ops->push(e->to, p, now);
}

/* --- a bandwidth queue --- */

static void rate_push(struct element *e, struct packet *p, moyai_ns now) {
    struct element_rate *r = (struct element_rate *)e;
    moyai_ns start = r->busy > now ? r->busy : now;
    r->busy = start + (r->bytes_a_second ? p->bytes * (moyai_ns)MOYAI_SEC / r->bytes_a_second : 0);
    p->due = r->busy;
    r->backlog += p->bytes;
    append(e, p);
}

static void rate_run(struct element *e, moyai_ns now) {
    struct element_rate *r = (struct element_rate *)e;
    r->backlog -= e->first->bytes;
    pass_on(e, now);
}

static const struct element_ops rate_ops = {rate_push, first_due, rate_run};

/* --- delay and jitter --- */

static void delay_push(struct element *e, struct packet *p, moyai_ns now) {
    struct element_delay *d = (struct element_delay *)e;
    p->due = now + (moyai_ns)d->delay + (d->jitter ? rng_below(&d->rng, (uint64_t)d->jitter + 1) : 0);
    if (e->last && e->last->due > p->due) p->due = e->last->due;
    append(e, p);
}

static const struct element_ops delay_ops = {delay_push, first_due, pass_on};

/* --- the end --- */

static void end_push(struct element *e, struct packet *p, moyai_ns now) {
    const struct element_end *end = (struct element_end *)e;
    (void)now;
    end->l->ops->received(end->l->who[end->end], end->l, p);
    free(p);
}

static moyai_ns end_next(const struct element *e) {
    (void)e;
    return UINT64_MAX;
}

static const struct element_ops end_ops = {end_push, end_next, pass_on};

/* --- a link --- */

static void way_run(void *who, uint64_t what);

static moyai_ns way_next(const struct way *y) {
    moyai_ns a = y->rate.e.ops->next(&y->rate.e), b = y->delay.e.ops->next(&y->delay.e);
    return a < b ? a : b;
}

static void way_wake(struct world *w, struct way *y) {
    moyai_ns next = way_next(y);
    if (next == UINT64_MAX || (y->waking && y->waking <= next)) return;
    y->waking = next;
    world_at(w, next, way_run, y, next);
}

static void way_run(void *who, uint64_t what) {
    struct way *y = who;
    struct sim_link *l = y->end.l;
    struct world *w = l->w;
    int from = 1 - y->end.end;
    if (y->waking != what) return; /* an earlier one was set since */
    y->waking = 0;
    if (y->rate.e.ops->next(&y->rate.e) <= w->now) y->rate.e.ops->run(&y->rate.e, w->now);
    if (y->delay.e.ops->next(&y->delay.e) <= w->now) y->delay.e.ops->run(&y->delay.e, w->now);
    way_wake(w, y);
    if (l->full[from] && y->rate.backlog <= LINK_BACKLOG / 2) {
        l->full[from] = false;
        if (!l->noticed[from]) l->ops->drained(l->who[from], l);
    }
}

struct sim_link *link_new(struct world *w, uint32_t number, const struct link_cfg *cfg, const struct link_ops *ops,
                          void *a, void *b) {
    struct sim_link *l = sim_alloc(sizeof *l);
    l->w = w;
    l->ops = ops;
    l->number = number;
    l->who[0] = a;
    l->who[1] = b;
    for (int i = 0; i < 2; i++) {
        struct way *y = &l->way[i];
        y->rate =
            (struct element_rate){.e = {&rate_ops, &y->delay.e, NULL, NULL}, .bytes_a_second = cfg->bytes_a_second};
        y->delay = (struct element_delay){
            .e = {&delay_ops, &y->end.e, NULL, NULL}, .delay = cfg->delay, .jitter = cfg->jitter};
        y->end = (struct element_end){.e = {&end_ops, NULL, NULL, NULL}, .l = l, .end = i};
        rng_fork(&w->rng, i ? "link up" : "link down", number, &y->delay.rng);
    }
    return l;
}

static void way_lose(struct way *y) {
    struct element *e[] = {&y->rate.e, &y->delay.e};
    for (int i = 0; i < 2; i++)
        while (e[i]->first) free(take(e[i]));
    y->rate.backlog = 0;
}

void link_free(struct sim_link *l) {
    if (!l) return;
    way_lose(&l->way[0]);
    way_lose(&l->way[1]);
    free(l);
}

bool link_room(const struct sim_link *l, int from) {
    return l->cut || l->way[1 - from].rate.backlog < LINK_BACKLOG;
}

void link_send(struct sim_link *l, int from, const struct session_frame *f, size_t bytes) {
    if (l->cut) return;
    struct way *y = &l->way[1 - from];
    y->rate.e.ops->push(&y->rate.e, packet_new(f, bytes), l->w->now);
    if (y->rate.backlog >= LINK_BACKLOG) l->full[from] = true;
    way_wake(l->w, y);
}

static void notice(void *who, uint64_t end) {
    struct sim_link *l = who;
    if (l->noticed[end]) return;
    l->noticed[end] = true;
    l->ops->closed(l->who[end], l);
}

void link_cut(struct sim_link *l, bool lose, const moyai_dur after[2]) {
    if (l->cut) return;
    l->cut = true;
    for (uint64_t i = 0; i < 2; i++) {
        if (lose) way_lose(&l->way[i]);
        world_in(l->w, after[i], notice, l, i);
    }
}
