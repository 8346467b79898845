/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that is told to leave says so to its neighbours at once, who look that they remain connected without it while
 * it finishes what it has begun; nothing new goes by it, where there is another way.
 *
 * Whether there is a way over a neighbour is known here from what neighbours tell of theirs. What the machine wants
 * beside frames is done in the next turn, as it may say so from within a step of the peers machine.
 */
#include "overlay/io/staying.h"

#include "base/err.h"
#include "overlay/io/leaving.h"
#include "overlay/io/lines.h"
#include "overlay/io/rejoin.h"
#include "overlay/io/route.h"
#include "overlay/io/wide.h"
#include "overlay/locate.h"
#include "overlay/peers_wire.h"
#include "overlay/stay.h"

#include <stdlib.h>
#include <string.h>

struct todo {
    struct todo *next;
    enum stay_effect_kind kind;
    struct peers_endpoint e; /* of WAY: the id only */
    uint8_t text[PEERS_TEXT];
};

struct staying {
    struct overlay *o;
    struct stay *s;
    struct exec_timer timer, soon;
    struct todo *first, **end;
    bool closing;
    struct stay_effect fx; /* large, and of one step at a time */
};

static void send_frame(struct staying *s, const struct stay_effect *fx) {
    struct olink *k = olink_by_number(s->o, fx->link);
    if (!k) return;
    const struct frame_head h = {.type = (uint8_t)(FRAME_PEERS + fx->frame.kind),
                                 .class_ = FRAME_CONTROL,
                                 .hops = 1,
                                 .length = (uint32_t)peers_wire_size(&fx->frame)};
    uint8_t *out = link_reserve(k->link, &h);
    if (!out) {
        link_reset(k->link, MOYAI_ENOMEM, "out of memory");
        return;
    }
    peers_wire_put(out, &fx->frame);
    link_flush(k->link);
}

static void later(struct staying *s, const struct stay_effect *fx) {
    struct todo *t = calloc(1, sizeof *t);
    if (!t) return; /* the machine has time limits */
    t->kind = fx->kind;
    t->e = fx->endpoint;
    if (fx->endpoint.n_text) memcpy(t->text, fx->endpoint.text, fx->endpoint.n_text);
    t->e.text = t->text;
    if (fx->kind == STAY_FX_WAY) t->e.id = fx->id;
    *s->end = t;
    s->end = &t->next;
    exec_timer_set(s->o->x, &s->soon, exec_now(s->o->x));
}

static int step(struct staying *s, struct stay_event *ev) {
    if (s->closing) return 0;
    ev->now = exec_now(s->o->x);
    const int rc = stay_step(s->s, ev);
    while (stay_next(s->s, &s->fx)) {
        struct olink *k;
        switch (s->fx.kind) {
        case STAY_FX_SEND:
            send_frame(s, &s->fx);
            break;
        case STAY_FX_LEAVES:
            k = olink_by_number(s->o, s->fx.link);
            if (k) k->leaving = true;
            break;
        case STAY_FX_WAY:
        case STAY_FX_CONNECT:
            later(s, &s->fx);
            break;
        }
    }
    const moyai_ns when = stay_deadline(s->s);
    if (when == UINT64_MAX)
        exec_timer_clear(s->o->x, &s->timer);
    else if (s->timer.index == SIZE_MAX || s->timer.when != when)
        exec_timer_set(s->o->x, &s->timer, when);
    return rc;
}

static bool counts(const struct olink *k) {
    return k->mesh && !k->observer && !k->direct;
}

#define SEES_ROOM 8192u

static int by_id(const void *a, const void *b) {
    return memcmp(a, b, 16);
}

static size_t without_twins(uint8_t (*ids)[16], size_t n) {
    size_t kept = 0;
    qsort(ids, n, sizeof *ids, by_id);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || memcmp(ids[kept - 1], ids[i], 16) != 0) memmove(ids[kept++], ids[i], 16);
    return kept;
}

static bool is_leaving_neighbour(const struct overlay *o, const uint8_t id[16]) {
    for (const struct olink *k = o->links; k; k = k->next)
        if (k->peer && k->leaving && id_equal(k->peer->id, id)) return true;
    return false;
}

/* How many nodes there are here that do not leave: this one, its neighbours and theirs. 0: that cannot be told. */
static uint32_t sees(const struct overlay *o) {
    struct locate_neighbour near[LOCATE_LINKS];
    uint8_t(*ids)[16] = malloc(SEES_ROOM * sizeof *ids);
    size_t n = 0;
    if (!ids) return 0;
    memcpy(ids[n++], o->cfg.self.b, 16);
    for (const struct olink *k = o->links; k; k = k->next) {
        if (!counts(k) || k->leaving) continue;
        const size_t more = route_neighbours(k, near, LOCATE_LINKS);
        if (n + 1 + more > SEES_ROOM) n = without_twins(ids, n);
        if (n + 1 + more > SEES_ROOM) break;
        memcpy(ids[n++], k->peer->id, 16);
        for (size_t i = 0; i < more; i++)
            if (!is_leaving_neighbour(o, near[i].node.b)) memcpy(ids[n++], near[i].node.b, 16);
    }
    n = without_twins(ids, n);
    free(ids);
    return (uint32_t)n;
}

/* One of our neighbours that do not leave has it for a neighbour, as it has told us. */
static bool has_way(const struct overlay *o, const struct moyai_node_id *id) {
    struct locate_neighbour near[LOCATE_LINKS];
    for (const struct olink *k = o->links; k; k = k->next) {
        if (!counts(k) || k->leaving) continue;
        const size_t n = route_neighbours(k, near, LOCATE_LINKS);
        for (size_t i = 0; i < n; i++)
            if (id_equal(near[i].node.b, id->b)) return true;
    }
    return false;
}

static void on_soon(struct exec *x, struct exec_timer *t) {
    struct staying *s = (struct staying *)((char *)t - offsetof(struct staying, soon));
    struct todo *d;
    (void)x;
    while (!s->closing && (d = s->first)) {
        s->first = d->next;
        if (!s->first) s->end = &s->first;
        struct stay_event ev = {.kind = STAY_EV_WAY, .id = d->e.id};
        if (d->kind == STAY_FX_CONNECT) {
            wide_need(s->o->wide, &d->e);
        } else {
            ev.yes = has_way(s->o, &d->e.id);
            (void)step(s, &ev);
        }
        free(d);
    }
}

static void on_timer(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct staying *s = (struct staying *)((char *)t - offsetof(struct staying, timer));
    struct stay_event ev = {.kind = STAY_EV_TIMEOUT, .sees = staying_leaves(s->o) ? 0 : sees(s->o)};
    (void)step(s, &ev);
}

/* ---- what happens ---------------------------------------------------------------------------- */

static void look_who_watches(struct staying *s) {
    struct stay_event ev = {.kind = STAY_EV_WATCHED};
    for (const struct olink *k = s->o->links; k && !ev.yes; k = k->next) ev.yes = k->observer && k->stays;
    (void)step(s, &ev);
}

void staying_link_up(struct olink *k, const struct peers_endpoint *e) {
    struct staying *s = k->o->staying;
    struct stay_event ev = {.kind = STAY_EV_UP, .link = k->number, .endpoint = e};
    if (!s || k->o->cfg.observer) return;
    if (k->observer) {
        k->stays = true;
        look_who_watches(s);
    } else if (k->leaves) {
        k->stays = step(s, &ev) == 0;
    }
}

void staying_link_down(struct olink *k) {
    struct stay_event ev = {.kind = STAY_EV_DOWN, .link = k->number};
    if (!k->stays) return;
    k->stays = false;
    if (k->observer)
        look_who_watches(k->o->staying);
    else
        (void)step(k->o->staying, &ev);
}

int staying_frame(struct olink *k, const struct peers_frame *f, struct moyai_error *why) {
    struct stay_event ev = {.kind = STAY_EV_FRAME, .link = k->number, .frame = f};
    if (k->o->staying && f->kind == PEERS_LEAVE) ev.sees = sees(k->o);
    if (k->o->staying && step(k->o->staying, &ev) == MOYAI_EPROTO)
        return err_set(why, MOYAI_EPROTO, "peers frame of kind %d breaks the protocol", (int)f->kind);
    return 0; /* EINVAL: of a link that the machine does not have */
}

void staying_died(struct overlay *o, const uint8_t id[16]) {
    struct stay_event ev = {.kind = STAY_EV_GONE};
    memcpy(ev.id.b, id, 16);
    if (o->staying) (void)step(o->staying, &ev);
}

void staying_failed(struct overlay *o, const uint8_t id[16]) {
    struct stay_event ev = {.kind = STAY_EV_FAILED};
    memcpy(ev.id.b, id, 16);
    if (o->staying && stay_needs(o->staying->s, id)) (void)step(o->staying, &ev);
}

bool staying_needs(const struct overlay *o, const uint8_t id[16]) {
    return o->staying && stay_needs(o->staying->s, id);
}

bool staying_only(const struct olink *k) {
    bool leaves = false;
    for (const struct olink *other = k->o->links; other; other = other->next) {
        if (other == k || !counts(other)) continue;
        if (!other->leaving) return false;
        leaves = true;
    }
    return leaves;
}

bool staying_leaves(const struct overlay *o) {
    return o->staying && stay_leaving(o->staying->s);
}

bool staying_check(const struct overlay *o, struct moyai_error *why) {
    return !o->staying || o->staying->closing || stay_check(o->staying->s, why);
}

/* ---- for the layer above --------------------------------------------------------------------- */

static void departs(struct overlay *o) {
    wide_departs(o->wide);
    lines_leave(o->lines);
}

void overlay_leaves(struct overlay *o) {
    struct stay_event ev = {.kind = STAY_EV_LEAVE, .yes = o->ends_others};
    if (!o->leaving && !o->closing && o->rdv) {
        o->leaving = true;
        (void)rejoin_appear(o, NULL); /* so that nobody moves objects here; else they are told when they ask */
    }
    if (!o->staying || o->closing || o->cfg.observer || staying_leaves(o)) return;
    departs(o);
    (void)step(o->staying, &ev);
}

void overlay_depends(struct overlay *o, const uint8_t from[16]) {
    struct stay_event ev = {.kind = STAY_EV_LEAVE, .yes = o->ends_others};
    memcpy(ev.id.b, from, 16);
    if (!o->staying || o->closing || o->cfg.observer) return;
    if (!staying_leaves(o)) departs(o);
    (void)step(o->staying, &ev); /* EINVAL: by another one, before */
}

/* All neighbours but that one are its neighbours, too, as it has told. */
static bool has_all(const struct overlay *o, const struct olink *k) {
    struct locate_neighbour near[LOCATE_LINKS];
    const size_t n = route_neighbours(k, near, LOCATE_LINKS);
    for (const struct olink *other = o->links; other; other = other->next) {
        bool has = other == k || !counts(other);
        for (size_t i = 0; i < n && !has; i++) has = id_equal(near[i].node.b, other->peer->id);
        if (!has) return false;
    }
    return true;
}

/* Another one that leaves, and goes after this one, holds together what this one does. */
static bool is_stood_in(const struct overlay *o) {
    for (const struct olink *k = o->links; k; k = k->next)
        if (counts(k) && k->leaving && stay_may_go_before(o->staying->s, k->number, exec_now(o->x)) && has_all(o, k))
            return true;
    return false;
}

bool overlay_may_leave(const struct overlay *o) {
    return !o->staying || o->staying->closing || !staying_leaves(o) || stay_may_go(o->staying->s, exec_now(o->x)) ||
           is_stood_in(o);
}

void overlay_ends_others(struct overlay *o) {
    o->ends_others = true;
}

size_t overlay_cut_off(const struct overlay *o, struct moyai_node_id *ids, size_t n) {
    return staying_leaves(o) && !is_stood_in(o) ? stay_cut_off(o->staying->s, ids, (uint32_t)n) : 0;
}

bool overlay_answered(const struct overlay *o) {
    return staying_leaves(o) && stay_answered(o->staying->s);
}

size_t overlay_dependants(const struct overlay *o, struct moyai_node_id *ids, size_t n, struct moyai_node_id *from) {
    return overlay_answered(o) && !is_stood_in(o) ? stay_dependants(o->staying->s, ids, (uint32_t)n, from) : 0;
}

bool overlay_orders(const struct overlay *o, const uint8_t id[16]) {
    for (const struct olink *k = o->links; k; k = k->next)
        if (k->stays && id_equal(k->peer->id, id)) return stay_is_placed(o->staying->s, id);
    return true;
}

void overlay_done(struct overlay *o) {
    struct stay_event ev = {.kind = STAY_EV_DONE};
    if (staying_leaves(o)) (void)step(o->staying, &ev);
}

size_t overlay_behind(const struct overlay *o, struct moyai_node_id *ids, size_t n) {
    return staying_leaves(o) ? stay_behind(o->staying->s, ids, (uint32_t)n) : 0;
}

size_t overlay_unanswered(const struct overlay *o, struct moyai_node_id *ids, size_t n) {
    return staying_leaves(o) && !is_stood_in(o) ? stay_unanswered(o->staying->s, ids, (uint32_t)n) : 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int begin(struct staying *s) {
    const struct overlay *o = s->o;
    const struct peers_endpoint *self = wide_self(o->wide);
    const struct stay_cfg c = {.self = o->cfg.self,
                               .site = self->site,
                               .seed = rng_next(&s->o->rng),
                               .accepts = self->accepts,
                               .ended = !id_zero(o->cfg.parent.b),
                               .links = o->cfg.small ? SMALL_LINKS : 0,
                               .text = o->cfg.small ? 32 : 0,
                               .gone = o->cfg.small ? 128 : 0,
                               .seen = o->cfg.small ? 512 : 0};
    const size_t n = (stay_size(&c) + 63) / 64 * 64;
    if (n == 0) return MOYAI_EINVAL;
    const bool first = !s->s;
    if (first) s->s = calloc(1, n); /* zeros that need not be written */
    if (!s->s) return MOYAI_ENOMEM;
    if (!first) memset(s->s, 0, n);
    return stay_init(s->s, &c);
}

int staying_new(struct overlay *o, struct moyai_error *reterr) {
    struct staying *s = calloc(1, sizeof *s);
    if (!s) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    o->staying = s;
    s->o = o;
    s->end = &s->first;
    exec_timer_init(&s->timer, on_timer);
    exec_timer_init(&s->soon, on_soon);
    const int rc = begin(s);
    return rc < 0 ? err_set(reterr, rc, "cannot begin to look after who leaves: %s", moyai_strerror(rc)) : 0;
}

static void clear(struct staying *s) {
    for (struct todo *d; (d = s->first);) {
        s->first = d->next;
        free(d);
    }
    s->end = &s->first;
    exec_timer_clear(s->o->x, &s->timer);
    exec_timer_clear(s->o->x, &s->soon);
}

void staying_again(struct staying *s) {
    clear(s);
    s->closing = begin(s) < 0; /* not so: it has begun before */
    look_who_watches(s);
}

void staying_close(struct staying *s) {
    if (!s) return;
    s->closing = true;
    clear(s);
}

void staying_free(struct staying *s) {
    if (!s) return;
    free(s->s);
    free(s);
}
