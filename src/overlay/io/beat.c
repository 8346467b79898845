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

/* ---- patience -------------------------------------------------------------------------------- */

#define HALVES (5 * MOYAI_SEC)  /* what was late once counts half after so long */
#define USUAL  (200 * MOYAI_MS) /* no more than this is no sign of anything */
#define TIMES  4

static moyai_dur late_now(const struct overlay *o) {
    uint64_t halvings = (exec_now(o->x) - o->late_at) / (uint64_t)HALVES;
    return halvings < 63 ? o->late >> halvings : 0;
}

moyai_dur beat_patience(const struct overlay *o) {
    moyai_dur late = late_now(o);
    if (late <= USUAL) return 0;
    return late < PATIENCE_MOST / TIMES ? TIMES * late : PATIENCE_MOST;
}

void beat_late_by(struct overlay *o, moyai_dur late) {
    if (late <= USUAL || late <= late_now(o)) return;
    o->late = late;
    o->late_at = exec_now(o->x);
}

static void timer_late(struct exec *x, const struct exec_timer *t, struct overlay *o) {
    if (exec_now(x) > t->when) beat_late_by(o, (moyai_dur)(exec_now(x) - t->when));
}

/* ---- links ----------------------------------------------------------------------------------- */

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
    moyai_ns quiet = (moyai_ns)(BEAT + beat_patience(silent->o));
    for (struct olink *k = silent->o->links; k; k = k->next)
        if (k != silent && k->tcp && k->up && k->heard + quiet <= now) probe(k, BEAT);
}

/* So long it may be silent, then. Who is doubted has just said something by another link: it is not stopped. */
static moyai_dur silence(const struct olink *k) {
    moyai_dur limit = BEAT, far = TIMES * k->trip;
    if (k->doubted && far < BEAT) limit = far > DOUBT ? far : DOUBT;
    return limit + beat_patience(k->o);
}

void beat_doubt(struct olink *k) {
    k->doubted = true;
    probe(k, silence(k));
}

/* After a probe nothing has come, or something was sent for which somebody waits, and it is time to look what has come
 * since. Who was stopped himself looks again later: what has come meanwhile is still unread. */
void beat_late(struct exec *x, struct exec_timer *t) {
    struct olink *k = (struct olink *)((char *)t - offsetof(struct olink, probe_timer));
    moyai_ns now = exec_now(x);
    timer_late(x, t, k->o);
    if (k->heard > k->probed) k->doubted = false;
    moyai_ns limit = (moyai_ns)silence(k);
    if (now > t->when + (moyai_ns)BEAT / 2) {
        exec_timer_set(x, t, now + (moyai_ns)BEAT);
    } else if (k->probed && k->heard <= k->probed && now < k->probed + limit) {
        exec_timer_set(x, t, k->probed + limit);
    } else if (k->probed && k->heard <= k->probed) {
        k->silent = true;
        probe_others(k, now);
        link_reset(k->link, MOYAI_ETIMEDOUT, "it does not answer");
    } else if (k->heard <= k->waits) {
        probe(k, BEAT);
    } else if (k->measure_at && k->measure_at <= now) {
        probe(k, PROBE_TIME);
    } else if (k->measure_at) {
        exec_timer_set(x, t, k->measure_at);
    }
}

/* How far is it? Look-ups wait by that. A link that comes up while a thousand nodes start is measured when everything
 * is late, and would count as far for ever: one that does not seem near is measured again, later and later, until two in
 * a row are alike while nothing is late. Of the last two the lesser counts. */
#define NEAR          (5 * MOYAI_MS)
#define MEASURE_AFTER (5 * MOYAI_SEC) /* then four times as long each */
#define MEASURE_MOST  3u

static bool are_alike(moyai_dur a, moyai_dur b) {
    return a < b ? b - a <= a / 8 : a - b <= b / 8;
}

void beat_measured(struct olink *k) {
    moyai_ns now = exec_now(k->o->x);
    moyai_dur trip = (moyai_dur)(now - k->probed), least = k->trip && k->trip < trip ? k->trip : trip;
    bool sure = k->trip && are_alike(k->trip, trip);
    k->probed = 0;
    k->doubted = false;
    k->trip = trip;
    beat_late_by(k->o, trip);
    if (!k->mesh) return;
    route_cost(k, least);
    if (k->measure_at > now) return;
    k->measure_at = 0;
    if (least <= NEAR || k->measured == MEASURE_MOST || (sure && beat_patience(k->o) == 0)) return;
    k->measure_at = now + ((moyai_ns)MEASURE_AFTER << 2 * k->measured++);
}

void olink_probe(struct olink *k) {
    probe(k, PROBE_TIME);
}

void olink_wait(struct olink *k) {
    if (!k->tcp) return; /* of this host: its end is noticed */
    k->waits = exec_now(k->o->x);
    moyai_ns look = k->waits + (moyai_ns)BEAT;
    if (k->probe_timer.index == SIZE_MAX || k->probe_timer.when > look) exec_timer_set(k->o->x, &k->probe_timer, look);
}

/* ---- open calls ------------------------------------------------------------------------------ */

#define QUIET (BEAT / 2) /* found silent after twice a beat at most: this twice, and an unanswered probe */

static void listen_to(struct peer *p, moyai_ns now, moyai_ns quiet) {
    struct olink *k = p->via.link;
    if (k && k->tcp && k->heard + quiet <= now) probe(k, BEAT);
    if (!p->via.path || p->last_active + quiet > now) return;
    struct session_event ev = {.kind = SESSION_EV_KEEP, .now = now};
    if (session_step(p->session, &ev) == 0) peer_mark(p);
}

void beat_due(struct exec *x, struct exec_timer *t) {
    struct peer *p = (struct peer *)((char *)t - offsetof(struct peer, beat_timer));
    moyai_ns now = exec_now(x);
    timer_late(x, t, p->o);
    if (p->dead || p->open == 0) return; /* until the next call */
    moyai_ns quiet = (moyai_ns)(QUIET + beat_patience(p->o) / 2);
    if (p->session && !p->closing) listen_to(p, now, quiet);
    exec_timer_set(x, t, now + quiet);
}

void beat_begin(struct peer *p) {
    if (p->beat_timer.index == SIZE_MAX) exec_timer_set(p->o->x, &p->beat_timer, exec_now(p->o->x) + (moyai_ns)QUIET);
}
