/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold between any two events, and a normal form for comparing blocks. Tests and simulations call
 * these after each step; a running node does not.
 */
#include "overlay/session_internal.h"

#include "base/err.h"

#include <inttypes.h>

static const char *life_check(const struct session *s) {
    uint32_t st = s->state;
    if (st > SESSION_FAILED) return "no such state";
    if ((st == SESSION_UP || st == SESSION_RESUMING) && !s->path_up) return "up without a path";
    if ((st == SESSION_NEW || st == SESSION_LOST) && s->path_up) return "a path too many";
    if (!s->path_up && (s->say || s->credit || s->grant_n || s->ack_at)) return "something is due on no path";
    if (s->path_up && s->path == 0) return "a path without a number";
    uint32_t held = st == SESSION_ENDED && s->lost_at ? TELL_END : 0; /* until CLOSED was said */
    bool waits = held || st == SESSION_OPENING || st == SESSION_RESUMING || st == SESSION_LOST || st == SESSION_CLOSING;
    if (waits != (s->lost_at != 0)) return "the time to find a path runs when it should not, or not";
    bool traffic = (s->say & SAY_ACK) || s->grant_n || (s->ack_at && st != SESSION_OPENING);
    if (st != SESSION_UP && traffic) return "traffic while not up";
    if ((s->say & SAY_OPEN) && st != SESSION_OPENING && !s->unborn) return "OPEN is due where it has no place";
    bool answers = s->say & (SAY_ACCEPT | SAY_RESUMED | SAY_ACK);
    if (st == SESSION_UP && !answers && !s->ack_at && s->rx_said != s->rx_next)
        return "what was taken will not be acknowledged";
    if (s->draining) return NULL;
    if (s->tell != held || s->ack_to != s->tx_acked || s->drop_n || s->report_n || s->cursor)
        return "effects left over";
    if (s->chunks || s->chunk_i || s->chunk_n || s->chunk_dup) return "a frame left over";
    if (st >= SESSION_ENDED && (s->used | s->streams_used | s->sent_n | s->wait_n)) return "an end with messages left";
    return NULL;
}

static uint64_t min64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static const struct session_seg *seg_of(const struct session *s, uint32_t k) {
    return &session_segs(s)[(s->sent_head + k) % s->sent_cap];
}

/* A large message out, from its second byte on: its segments, and the sets it is in. */
static const char *tx_slot_check(const struct session *s, uint32_t i) {
    const struct session_tx *t = &session_txs(s)[i];
    bool used = session_bit(s, SET_TX_USED, i), abort = session_bit(s, SET_ABORT, i);
    if (used != (t->total != 0)) return "an outbound slot does not agree with its set";
    if (!used) {
        if (t->token | t->sent | t->acked | t->allowed | t->aborted) return "a free outbound slot is not zero";
        return abort || session_bit(s, SET_READY, i) ? "a free outbound slot is in a set" : NULL;
    }
    if (t->acked > t->sent || t->sent > t->allowed || t->allowed > t->total || t->allowed < s->small)
        return "outbound: acknowledged, sent, allowed, total are out of order";
    uint64_t sum = 0;
    uint32_t aborts = abort;
    for (uint32_t k = 0; k < s->sent_n; k++) {
        const struct session_seg *g = seg_of(s, k);
        if (g->stream == i + 1) sum += g->length;
        aborts += g->stream == ((i + 1) | SESSION_ABORT_BIT);
    }
    if (sum != t->sent - t->acked) return "outbound: segments do not add up to what was sent of a message";
    if (s->state < SESSION_CLOSING && aborts != t->aborted)
        return "an aborted message without its ABORT, or the reverse";
    bool ready = !t->aborted && t->sent > 0 && t->sent < min64(t->total, t->allowed);
    if (ready != session_bit(s, SET_READY, i)) return "outbound: a message is ready or not, and its set says otherwise";
    if (!s->draining && t->acked == t->total) return "an acknowledged message keeps its slot";
    return NULL;
}

static const char *tx_check(const struct session *s) {
    uint32_t entries = s->wait_n + s->drop_n, begun = 0, conts = 0, slots = 0, ready = 0, aborts = 0, reports = 0;
    if (entries > s->entries || s->sent_n > s->sent_cap) return "a ring holds more than it can";
    for (uint32_t k = 0; k < s->wait_n; k++) {
        const struct session_wait *w = &session_waits(s)[(s->wait_head + s->drop_n + k) % s->entries];
        if (w->stream == 0 && (w->length == 0 || w->length > s->small)) return "a waiting message of no right length";
        if (w->stream == 0) continue;
        const struct session_tx *t = w->stream <= s->streams ? &session_txs(s)[w->stream - 1] : NULL;
        if (!t || !t->total || t->sent || t->aborted || t->token != w->token)
            return "a waiting message without its slot";
    }
    uint64_t sum = 0;
    for (uint32_t k = 0; k < s->sent_n; k++) {
        const struct session_seg *g = seg_of(s, k);
        if (g->length == 0) return "an empty segment";
        sum += g->length;
        entries += g->stream == 0;
        conts += g->stream && !(g->stream & SESSION_ABORT_BIT) && g->token;
    }
    for (uint32_t i = 0; i < s->streams; i++) {
        const char *text = tx_slot_check(s, i);
        if (text) return text;
        slots += session_bit(s, SET_TX_USED, i);
        ready += session_bit(s, SET_READY, i);
        aborts += session_bit(s, SET_ABORT, i);
        reports += session_bit(s, SET_REPORT, i);
        begun += session_txs(s)[i].sent > 0;
    }
    if (sum != s->tx_next - s->tx_acked) return "segments do not add up to what is under way";
    if (sum > s->window) return "more under way than the window allows";
    if (entries + begun != s->used || s->used > s->entries) return "entries are miscounted";
    if (s->turn >= s->streams || (slots == 0 && s->turn)) return "the turn is nobody's";
    if (slots != s->streams_used || ready != s->ready_n || aborts != s->abort_n || reports != s->report_n)
        return "sets of streams are miscounted";
    if (conts != s->conts || conts > s->conts_max) return "continuations are miscounted";
    if ((!s->sent_n && s->sent_head) || (!s->wait_n && !s->drop_n && s->wait_head))
        return "an empty ring not at its start";
    return NULL;
}

static const char *rx_check(const struct session *s) {
    uint32_t grants = 0;
    for (uint32_t i = 0; i < s->streams; i++) {
        const struct session_rx *r = &session_rxs(s)[i];
        bool used = session_bit(s, SET_RX_USED, i), grant = session_bit(s, SET_GRANT, i);
        grants += grant;
        if (used != (r->total != 0) || (grant && !used)) return "an inbound slot does not agree with its sets";
        if (!used && (r->got | r->told | r->allowed | r->aborted)) return "a free inbound slot is not zero";
        if (!used || s->draining) continue;
        if (r->told != r->got || r->aborted) return "inbound: taken and not told";
        if (r->got == 0 || r->got >= r->total || r->got > r->allowed || r->allowed > r->total || r->allowed < s->small)
            return "inbound: taken, allowed, total are out of order";
    }
    if (grants != s->grant_n) return "grants are miscounted";
    if (s->rx_said > s->rx_next) return "more acknowledged than taken";
    return NULL;
}

bool session_check(const struct session *s, struct moyai_error *why) {
    const char *text = life_check(s);
    if (!text) text = tx_check(s);
    if (!text) text = rx_check(s);
    if (text) err_set(why, MOYAI_EINTERNAL, "session %016" PRIx64 " in state %u: %s", s->id, s->state, text);
    return !text;
}

/* Elements of both rings are 16 bytes. */
struct cell {
    uint64_t a, b;
};
_Static_assert(sizeof(struct session_wait) == sizeof(struct cell), "size");
_Static_assert(sizeof(struct session_seg) == sizeof(struct cell), "size");

static void reverse(struct cell *p, uint32_t from, uint32_t to) {
    for (; from + 1 < to; from++, to--) {
        struct cell x = p[from];
        p[from] = p[to - 1];
        p[to - 1] = x;
    }
}

/* Rotate a ring so that what is at `head` comes to its start. */
static void turn(void *ring, uint32_t cap, uint32_t head) {
    if (head == 0) return;
    reverse(ring, 0, head);
    reverse(ring, head, cap);
    reverse(ring, 0, cap);
}

void session_settle(struct session *s) {
    turn(session_waits(s), s->entries, s->wait_head);
    turn(session_segs(s), s->sent_cap, s->sent_head);
    s->wait_head = s->sent_head = 0;
}
