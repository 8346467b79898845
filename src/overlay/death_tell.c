/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be said, found in the state: of deaths, of cases, and in answer. */
#include "overlay/death_internal.h"

#include <string.h>

static const uint8_t nobody[16];

static void frame_of(struct death *d, struct death_effect *fx, uint32_t kind, const uint8_t to[16],
                     const uint8_t of[16]) {
    fx->kind = DEATH_FX_SEND;
    memcpy(fx->id.b, to, 16);
    fx->frame.kind = (enum death_frame_kind)kind;
    memcpy(fx->frame.subject.b, of, 16);
    if (kind > DEATH_NONE) return;
    fx->frame.host = d->host;
    fx->frame.seq = ++d->seq;
}

static void frame_dead(struct death *d, struct death_effect *fx, const struct death_dead *x, const uint8_t to[16],
                       uint32_t hops) {
    frame_of(d, fx, x->left ? DEATH_LEFT : DEATH_DEAD, to, x->id);
    fx->frame.cause = x->left ? 0 : x->cause;
    fx->frame.number = x->left ? 0 : x->number;
    fx->frame.cleared = x->left == DEATH_CLEAR;
    fx->frame.hops = hops;
}

/* Where we stand, to a neighbour of the subject or to itself. */
static void frame_case(struct death *d, struct death_effect *fx, const struct death_case *c, const uint8_t to[16]) {
    static const uint8_t kinds[] = {DEATH_NONE, DEATH_ENDED, DEATH_ALIVE, DEATH_NONE};
    frame_of(d, fx, kinds[c->own], to, c->id);
    if (c->own != SAID_ENDED) return;
    fx->frame.subject_host = c->host;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct death_seat *s = &death_seats(d, c)[i];
        struct death_member *m = &fx->frame.m[fx->frame.n++];
        memcpy(m->id.b, s->id, 16);
        m->host = s->host;
    }
}

/* The next to be told of a death: us, it, its neighbours, ours. False: that was all. */
static bool next_news(struct death *d, struct death_effect *fx, struct death_dead *x) {
    struct death_case *c = death_case_of(d, x->id);
    struct death_link *l = death_link_to(d, x->id);
    const uint8_t *from = x->news == 2 ? nobody : d->from; /* a frame of it may have completed the case of another */
    if (d->stage == 0) {
        d->stage = 1;
        fx->kind = x->left ? DEATH_FX_LEFT : DEATH_FX_DECLARED;
        memcpy(fx->id.b, x->id, 16);
        fx->cause = (enum death_cause)x->cause;
        fx->number = x->number;
        fx->cleared = x->left == DEATH_CLEAR;
        return true;
    }
    if (d->stage == 1) {
        d->stage = 2;
        bool tell = l && l->n && !x->left;
        if (tell) frame_dead(d, fx, x, x->id, 0);
        if (l) death_link_remove(d, l);
        if (tell) return true;
    }
    for (; d->stage == 2; d->stage = 3, d->at = 0) {
        while (c && x->news == 2 && d->at < c->n) {
            const struct death_seat *s = &death_seats(d, c)[d->at++];
            if (death_dead_of(d, s->id)) continue;
            frame_dead(d, fx, x, s->id, 1);
            return true;
        }
    }
    bool knows =
        c && (x->news == 2 || death_seat_of(d, c, from)); /* X's neighbours are told by us, or by another one */
    while (x->hops && d->at < d->links_n) {
        const struct death_link *k = &death_links(d)[d->at++];
        if (k->n == 0 || id_equal(k->id, from) || death_dead_of(d, k->id)) continue;
        if (knows && death_seat_of(d, c, k->id)) continue;
        frame_dead(d, fx, x, k->id, x->hops - 1u);
        return true;
    }
    if (c) death_case_close(d, c);
    x->news = x->hops = 0;
    d->stage = d->at = 0;
    return false;
}

static bool next_case(struct death *d, struct death_effect *fx, struct death_case *c) {
    if (c->probe) {
        c->probe = 0;
        fx->kind = DEATH_FX_PROBE;
        memcpy(fx->id.b, c->id, 16);
        return true;
    }
    if (c->ask) {
        c->ask = 0;
        frame_case(d, fx, c, c->id);
        return true;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        struct death_seat *s = &death_seats(d, c)[i];
        if (!s->say) continue;
        s->say = 0;
        s->told = c->own == SAID_ENDED;
        frame_case(d, fx, c, s->id);
        return true;
    }
    return false;
}

bool death_news(const struct death *d, const struct moyai_node_id *id, struct death_frame *f) {
    const struct death_dead *x = death_dead_of(d, id->b);
    if (!x) return false;
    *f = (struct death_frame){.kind = x->left ? DEATH_LEFT : DEATH_DEAD, .subject = *id};
    f->cause = x->left ? 0 : (enum death_cause)x->cause;
    f->number = x->left ? 0 : x->number;
    f->cleared = x->left == DEATH_CLEAR;
    return true;
}

bool death_next(struct death *d, struct death_effect *fx) {
    if (!d->draining) return false;
    memset(fx, 0, sizeof *fx);
    if (d->told == 1) {
        d->told = 2;
        fx->kind = DEATH_FX_TOLD;
        fx->cause = (enum death_cause)d->told_cause;
        fx->number = d->told_number;
        return true;
    }
    if (d->reply) {
        uint32_t kind = d->reply - 1;
        frame_of(d, fx, kind, d->reply_to, d->reply_of);
        fx->frame.cause = kind == DEATH_DEAD ? d->reply_cause : 0;
        fx->frame.cleared = kind == DEATH_LEFT && d->reply_cause;
        fx->frame.number = kind == DEATH_DEAD ? d->reply_number : 0;
        d->reply = d->reply_cause = d->reply_number = 0;
        memset(d->reply_to, 0, 16);
        memset(d->reply_of, 0, 16);
        return true;
    }
    for (uint32_t i = 0; i < d->dead_n; i++)
        if (death_deads(d)[i].news && next_news(d, fx, &death_deads(d)[i])) return true;
    for (uint32_t i = 0; i < d->cases_cap; i++) {
        struct death_case *c = &death_cases(d)[i];
        if (!id_zero(c->id) && next_case(d, fx, c)) return true;
    }
    memset(d->from, 0, 16);
    d->draining = 0;
    return false;
}
