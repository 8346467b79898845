/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does the other end still answer? Asked only where somebody waits for it: an idle grid says nothing.
 *
 * Of a link: when something was sent for which somebody waits, and nothing has come for a beat, it is probed by a ping,
 * and reset if there is no answer within another. Links of one host need none of this: their end is noticed.
 *
 * Of a call that stays open (its method runs for an hour), the request was acknowledged long ago. While a peer has such
 * calls, the link to it is probed when it is quiet; over a path an acknowledgement is said again and again, for which
 * nobody answers, but for which each relay on the way looks after its next link.
 */
#include "overlay/io/beat.h"

#include "overlay/io/route.h"

#include <stddef.h>

static void probe(struct olink *k, moyai_dur limit) {
    static const uint8_t token[8] = {0}; /* nobody's */
    struct frame_head h = {.type = FRAME_PING, .class_ = FRAME_CONTROL, .hops = 1, .length = 8};
    struct link_piece piece = {token, 8};
    moyai_ns now = exec_now(k->o->x), due = now + (moyai_ns)limit;
    if (k->probed && k->heard <= k->probed && k->probe_timer.index != SIZE_MAX) {
        /* It is asked already. However often others want to know, that gives it no more time to answer. */
        if (due < k->probe_timer.when) exec_timer_set(k->o->x, &k->probe_timer, due);
        return;
    }
    if (link_send(k->link, &h, &piece, 1) < 0) {
        link_reset(k->link, MOYAI_ENOMEM, "out of memory for a frame");
        return;
    }
    link_flush(k->link);
    k->pongs_due++;
    k->probed = now;
    exec_timer_set(k->o->x, &k->probe_timer, due);
}

/* What made one link silent, a box that forgets or a net that is cut, has silenced others, perhaps. Who learns of them
 * one after the other, each when he has tried the one before, may run out of time. */
static void probe_others(const struct olink *silent, moyai_ns now) {
    for (struct olink *k = silent->o->links; k; k = k->next)
        if (k != silent && k->tcp && k->up && k->heard + (moyai_ns)BEAT <= now) probe(k, BEAT);
}

/* After a probe nothing has come, or something was sent for which somebody waits, and it is time to look what has come
 * since. Who was stopped himself looks again later: what has come meanwhile is still unread. */
void beat_late(struct exec *x, struct exec_timer *t) {
    struct olink *k = (struct olink *)((char *)t - offsetof(struct olink, probe_timer));
    moyai_ns now = exec_now(x);
    if (now > t->when + (moyai_ns)BEAT / 2) {
        exec_timer_set(x, t, now + (moyai_ns)BEAT);
    } else if (k->probed && k->heard <= k->probed) {
        k->silent = true;
        probe_others(k, now);
        link_reset(k->link, MOYAI_ETIMEDOUT, "it does not answer");
    } else if (k->heard <= k->waits) {
        probe(k, BEAT);
    }
}

void olink_probe(struct olink *k) {
    probe(k, PROBE_TIME);
}

void olink_wait(struct olink *k) {
    if (!k->tcp) return; /* of this host: its end is noticed */
    k->waits = exec_now(k->o->x);
    if (k->probe_timer.index == SIZE_MAX) exec_timer_set(k->o->x, &k->probe_timer, k->waits + (moyai_ns)BEAT);
}

/* ---- open calls ------------------------------------------------------------------------------ */

#define QUIET (BEAT / 2) /* found silent after twice a beat at most: this twice, and an unanswered probe */

static void listen_to(struct peer *p, moyai_ns now) {
    struct olink *k = p->via.link;
    if (k && k->tcp && k->heard + (moyai_ns)QUIET <= now) probe(k, BEAT);
    if (!p->via.path || p->last_active + (moyai_ns)QUIET > now) return;
    struct session_event ev = {.kind = SESSION_EV_KEEP, .now = now};
    if (session_step(p->session, &ev) == 0) peer_mark(p);
}

void beat_due(struct exec *x, struct exec_timer *t) {
    struct peer *p = (struct peer *)((char *)t - offsetof(struct peer, beat_timer));
    moyai_ns now = exec_now(x);
    if (p->dead || p->open == 0) return; /* until the next call */
    if (p->session && !p->closing) listen_to(p, now);
    exec_timer_set(x, t, now + (moyai_ns)QUIET);
}

void beat_begin(struct peer *p) {
    if (p->beat_timer.index == SIZE_MAX) exec_timer_set(p->o->x, &p->beat_timer, exec_now(p->o->x) + (moyai_ns)QUIET);
}
