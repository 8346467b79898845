/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages out: given, begun, continued, acknowledged; and unsent again.
 *
 * A message waits in one ring until it is begun. Then a segment goes to the other ring, which holds
 * what was sent in the order of its numbers; a small message is one segment, so its token moves along,
 * a large one has a slot and as many segments as it was interrupted by others (neighbours merge). An
 * acknowledgement takes segments off the front.
 *
 * When the peer says how much it has taken on a new path, the segments behind that point are *unsent*:
 * beginnings return to the front of the waiting ring, slots forget what was sent, numbers are given
 * again. Nothing of it reached the peer and nothing of it can, because the peer drops what carries an
 * older path number. So there is no separate way of sending again, cutting anew costs nothing, a message
 * aborted meanwhile shrinks to its ABORT or vanishes, and "sent" in this file always means "may have
 * been received": that is what makes NEVER and MAY HAVE exact.
 *
 * Cost: a small message is written twice (16 bytes each) and never searched for, except that DROP looks
 * through the waiting ring from its oldest message: those are the ones that time out first, and a ring
 * stays long only while its path is blocked. A token may be any number.
 */
#include "overlay/session_internal.h"

#include <string.h>

static inline uint32_t wrap(uint32_t i, uint32_t cap) {
    return i < cap ? i : i - cap;
}

static inline struct session_wait *wait_at(const struct session *s, uint32_t k) {
    return &session_waits(s)[wrap(s->wait_head + k, s->entries)];
}
static inline struct session_seg *seg_at(const struct session *s, uint32_t k) {
    return &session_segs(s)[wrap(s->sent_head + k, s->sent_cap)];
}
static inline struct session_tx *tx_of(const struct session *s, uint32_t stream) {
    return &session_txs(s)[stream - 1];
}

static inline uint64_t min64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* --- giving and taking back -------------------------------------------------------------------- */

static inline uint32_t share(uint32_t n, bool request) {
    return request ? n - n / 4 : n;
}

bool session_room(const struct session *s, uint64_t length, bool request) {
    if (s->used >= share(s->entries, request)) return false;
    return length <= s->small || s->streams_used < share(s->streams, request);
}

int session_tx_send(struct session *s, const struct session_event *ev) {
    if (s->state >= SESSION_CLOSING || ev->length == 0 || ev->length >= SESSION_NUMBER_MAX) return MOYAI_EINVAL;
    if (!session_room(s, ev->length, ev->request)) return MOYAI_EAGAIN;

    struct session_wait w = {.token = ev->token};
    if (ev->length <= s->small) {
        w.length = (uint32_t)ev->length;
    } else {
        uint32_t i = session_bit_free(s, SET_TX_USED);
        session_bit_put(s, SET_TX_USED, i, true, &s->streams_used);
        session_txs(s)[i] = (struct session_tx){.token = ev->token, .total = ev->length, .allowed = s->small};
        w.stream = i + 1;
    }
    *wait_at(s, s->drop_n + s->wait_n++) = w;
    s->used++;
    return 0;
}

static struct session_wait wait_pop(struct session *s) {
    struct session_wait *p = wait_at(s, 0), w = *p;
    *p = (struct session_wait){0};
    s->wait_head = wrap(s->wait_head + 1, s->entries);
    return w;
}

static void wait_rest(struct session *s) {
    if (s->wait_n + s->drop_n == 0) s->wait_head = 0;
}

static void stream_free(struct session *s, uint32_t stream) {
    *tx_of(s, stream) = (struct session_tx){0};
    session_bit_put(s, SET_TX_USED, stream - 1, false, &s->streams_used);
    if (s->streams_used == 0) s->turn = 0;
}

static void stream_ready(struct session *s, uint32_t stream) {
    const struct session_tx *t = tx_of(s, stream);
    bool on = !t->aborted && t->sent > 0 && t->sent < min64(t->total, t->allowed);
    session_bit_put(s, SET_READY, stream - 1, on, &s->ready_n);
}

/* The peer will be told, reliably; the caller is told by the next effects. */
static void stream_abort(struct session *s, uint32_t stream) {
    tx_of(s, stream)->aborted = 1;
    stream_ready(s, stream);
    session_bit_put(s, SET_ABORT, stream - 1, true, &s->abort_n);
    session_bit_put(s, SET_REPORT, stream - 1, true, &s->report_n);
}

int session_tx_drop(struct session *s, uint64_t token) {
    if (s->state >= SESSION_ENDED) return MOYAI_EINVAL;
    if (s->state == SESSION_CLOSING) return 0; /* what is not sent is reported already */

    for (uint32_t i = session_bit_next(s, SET_TX_USED, 0); i < s->streams;
         i = session_bit_next(s, SET_TX_USED, i + 1)) {
        const struct session_tx *t = &session_txs(s)[i];
        if (t->token != token || t->aborted || t->sent == 0) continue;
        if (t->sent < t->total) {
            stream_abort(s, i + 1);
            s->draining = 1;
        }
        return 0;
    }
    for (uint32_t k = 0; k < s->wait_n; k++) {
        struct session_wait w = *wait_at(s, s->drop_n + k);
        if (w.token != token) continue;
        if (w.stream) stream_free(s, w.stream);
        for (; k > 0; k--) *wait_at(s, s->drop_n + k) = *wait_at(s, s->drop_n + k - 1);
        *wait_at(s, s->drop_n) = (struct session_wait){.token = token};
        s->wait_n--;
        s->drop_n++;
        s->draining = 1;
        return 0;
    }
    return 0; /* all of it was sent */
}

/* --- acknowledgement ---------------------------------------------------------------------------- */

bool session_tx_ack_ok(const struct session *s, uint64_t ack) {
    if (ack < s->tx_acked || ack > s->tx_next) return false;
    uint64_t at = s->tx_acked;
    for (uint32_t k = 0; at < ack; k++) { /* and tx_next is the end of the last */
        const struct session_seg *g = seg_at(s, k);
        at += g->length;
        if (at > ack) return g->stream != 0; /* a small message is taken as a whole or not at all */
    }
    return true;
}

static void seg_pop(struct session *s, const struct session_seg *g) {
    s->tx_acked += g->length;
    if (g->stream && !(g->stream & SESSION_ABORT_BIT) && g->token) s->conts--;
    *seg_at(s, 0) = (struct session_seg){0};
    s->sent_head = --s->sent_n ? wrap(s->sent_head + 1, s->sent_cap) : 0;
}

bool session_tx_next_acked(struct session *s, struct session_effect *fx) {
    while (s->sent_n) {
        struct session_seg *p = seg_at(s, 0), g = *p;
        uint64_t n = s->ack_to - s->tx_acked;
        if (n < g.length) {
            if (n) { /* part of a large message's segment */
                tx_of(s, g.stream)->acked += n;
                p->length -= (uint32_t)n;
                s->tx_acked += n;
            }
            return false;
        }
        seg_pop(s, &g);
        uint32_t stream = g.stream & ~SESSION_ABORT_BIT;
        struct session_tx *t = stream ? tx_of(s, stream) : NULL;
        if (g.stream & SESSION_ABORT_BIT) {
            stream_free(s, stream);
            s->used--;
            continue;
        }
        if (t) {
            t->acked += g.length;
            if (t->aborted || t->acked < t->total) continue;
            g.token = t->token;
            stream_free(s, stream);
        }
        s->used--;
        *fx = (struct session_effect){.kind = SESSION_FX_ACKED, .token = g.token};
        return true;
    }
    return false;
}

/* Segments are taken off the end, so that beginnings come back to the front of the ring in their order. */
void session_tx_rewind(struct session *s, uint64_t ack) {
    s->ack_to = ack;
    while (s->tx_next > ack) {
        struct session_seg *p = seg_at(s, s->sent_n - 1), g = *p;
        uint32_t n = (uint32_t)min64(g.length, s->tx_next - ack), stream = g.stream & ~SESSION_ABORT_BIT;
        s->tx_next -= n;
        if (n < g.length) {
            p->length -= n; /* the front part stays, to be acknowledged */
        } else {
            if (stream && !(g.stream & SESSION_ABORT_BIT) && g.token) s->conts--;
            *p = (struct session_seg){0};
            s->sent_n--;
        }
        struct session_wait w = {.token = g.token, .length = g.length, .stream = stream};
        if (g.stream & SESSION_ABORT_BIT) {
            session_bit_put(s, SET_ABORT, stream - 1, true, &s->abort_n);
            continue;
        }
        if (stream) {
            struct session_tx *t = tx_of(s, stream);
            t->sent -= n;
            stream_ready(s, stream);
            if (t->sent) continue;
            if (t->aborted) { /* the peer has never heard of it */
                session_bit_put(s, SET_ABORT, stream - 1, false, &s->abort_n);
                stream_free(s, stream);
                s->used--;
                continue;
            }
            w = (struct session_wait){.token = t->token, .stream = stream};
        }
        s->wait_head = s->wait_head ? s->wait_head - 1 : s->entries - 1;
        *wait_at(s, 0) = w;
        s->wait_n++;
    }
    if (s->sent_n == 0) s->sent_head = 0;
}

/* --- sending ------------------------------------------------------------------------------------ */

bool session_tx_grant_ok(const struct session *s, uint32_t stream, uint64_t allowed) {
    if (stream == 0 || stream > s->streams) return false;
    const struct session_tx *t = tx_of(s, stream);
    return t->total && t->sent && min64(allowed, t->total) >= t->allowed;
}

void session_tx_grant(struct session *s, uint32_t stream, uint64_t allowed) {
    struct session_tx *t = tx_of(s, stream);
    t->allowed = min64(allowed, t->total);
    stream_ready(s, stream);
}

/* Bytes of a chunk's head: where it tells the total it has 8 more. What credit and room count beside the bytes. */
#define HEAD       8u
#define HEAD_TOTAL 16u

static uint64_t window_left(const struct session *s) {
    return s->window - (s->tx_next - s->tx_acked);
}

bool session_tx_ready(const struct session *s) {
    uint64_t left = window_left(s);
    if (left == 0 || s->credit <= HEAD) return false;
    if (s->abort_n) return true;
    if (s->drop_n) return false; /* not while a drop is being told */
    if (s->wait_n) {
        const struct session_wait *w = wait_at(s, 0);
        uint64_t bytes = w->stream ? s->small : w->length;
        return bytes <= left && bytes + (w->stream ? HEAD_TOTAL : HEAD) <= s->credit;
    }
    return s->ready_n && s->conts < s->conts_max;
}

/* What is being filled: `left` more bytes of messages are allowed by the window, and `room` bytes, heads and all, by
 * the frame and the path's credit. */
struct filling {
    struct session *s;
    struct session_frame *out;
    uint64_t left, room;
};

static void fill(struct filling *f, uint32_t stream, uint32_t flags, uint32_t len, uint64_t token, uint64_t offset,
                 uint64_t total) {
    f->out->chunks[f->out->n_chunks++] = (struct session_chunk){
        .stream = stream, .flags = flags, .len = len, .total = total, .token = token, .offset = offset};
    f->s->tx_next += len;
    f->left -= len;
    f->room -= len + (total ? HEAD_TOTAL : HEAD);
}

/* Bytes of a message that one more chunk can take. */
static uint64_t takes(const struct filling *f, uint32_t head) {
    return f->room <= head ? 0 : min64(f->left, f->room - head);
}

static inline void seg_push(struct session *s, uint64_t token, uint32_t length, uint32_t stream) {
    *seg_at(s, s->sent_n++) = (struct session_seg){.token = token, .length = length, .stream = stream};
}

static void fill_aborts(struct filling *f) {
    struct session *s = f->s;
    uint32_t i = 0;
    while (s->abort_n && takes(f, HEAD) && f->out->n_chunks < SESSION_CHUNKS) {
        i = session_bit_next(s, SET_ABORT, i);
        session_bit_put(s, SET_ABORT, i, false, &s->abort_n);
        const struct session_tx *t = tx_of(s, i + 1);
        seg_push(s, 0, 1, (i + 1) | SESSION_ABORT_BIT);
        fill(f, i + 1, SESSION_ABORT, 1, t->token, t->sent, 0);
    }
}

/* A frame that has chunks already does not take a sliver of the next; an empty one takes what there is. */
static bool sliver(const struct filling *f, uint64_t takes, uint64_t want) {
    return takes == 0 || (takes < want && f->out->n_chunks > 0);
}

/* False: a beginning is left over, so that no continuation may pass it. */
static bool fill_beginnings(struct filling *f) {
    struct session *s = f->s;
    while (s->wait_n) {
        struct session_wait *w = wait_at(s, 0);
        if (f->out->n_chunks == SESSION_CHUNKS) return false;
        if (w->stream == 0) {
            if (w->length > takes(f, HEAD)) return false;
            seg_push(s, w->token, w->length, 0);
            fill(f, 0, SESSION_BEGIN | SESSION_END, w->length, w->token, 0, 0);
        } else {
            if (s->small > takes(f, HEAD_TOTAL)) return false;
            struct session_tx *t = tx_of(s, w->stream);
            t->sent = s->small;
            stream_ready(s, w->stream);
            seg_push(s, 0, s->small, w->stream);
            fill(f, w->stream, SESSION_BEGIN, s->small, t->token, 0, t->total);
        }
        (void)wait_pop(s);
        s->wait_n--;
    }
    wait_rest(s);
    return true;
}

/* A continuation's segment: its token is 1, to be told from a beginning's; it is counted. */
static void seg_continue(struct session *s, uint32_t stream, uint32_t len) {
    struct session_seg *last = s->sent_n ? seg_at(s, s->sent_n - 1) : NULL;
    if (last && last->stream == stream && last->length <= UINT32_MAX / 2) {
        last->length += len;
        return;
    }
    seg_push(s, 1, len, stream);
    s->conts++;
}

static void fill_continuations(struct filling *f) {
    struct session *s = f->s;
    while (s->ready_n && s->conts < s->conts_max && f->out->n_chunks < SESSION_CHUNKS) {
        uint32_t i = session_bit_next(s, SET_READY, s->turn);
        if (i == s->streams) i = session_bit_next(s, SET_READY, 0);
        struct session_tx *t = tx_of(s, i + 1);
        uint64_t want = min64(min64(t->total, t->allowed) - t->sent, s->chunk), most = takes(f, HEAD);
        if (sliver(f, most, min64(want, s->small))) return;
        uint32_t len = (uint32_t)min64(want, most);
        seg_continue(s, i + 1, len);
        fill(f, i + 1, t->sent + len == t->total ? SESSION_END : 0, len, t->token, t->sent, 0);
        t->sent += len;
        stream_ready(s, i + 1);
        s->turn = i + 1 < s->streams ? i + 1 : 0;
    }
}

bool session_tx_pull(struct session *s, uint64_t room, struct session_frame *out) {
    struct filling f = {s, out, window_left(s), min64(room, s->credit)};
    uint64_t first = s->tx_next, before = f.room;
    out->n_chunks = 0;
    fill_aborts(&f);
    /* During the draining of a step dropped messages stand before those that wait: they go first. */
    if (s->drop_n == 0 && fill_beginnings(&f)) fill_continuations(&f);
    if (out->n_chunks == 0) return false;
    if (s->credit != UINT64_MAX) s->credit -= before - f.room;
    out->kind = SESSION_DATA;
    out->seq = first;
    return true;
}

/* --- telling what became of messages ------------------------------------------------------------- */

static bool dropped(struct session *s, struct session_effect *fx, uint64_t token, bool never) {
    s->used--;
    *fx = (struct session_effect){
        .kind = SESSION_FX_DROPPED, .token = token, .executed = never ? MOYAI_NEVER_EXECUTED : MOYAI_MAY_HAVE_EXECUTED};
    return true;
}

bool session_tx_next_dropped(struct session *s, struct session_effect *fx) {
    if (s->drop_n) {
        struct session_wait w = wait_pop(s);
        s->drop_n--;
        wait_rest(s);
        return dropped(s, fx, w.token, true);
    }
    uint32_t i = session_bit_next(s, SET_REPORT, 0);
    session_bit_put(s, SET_REPORT, i, false, &s->report_n);
    s->used++; /* the entry is free when the peer knows */
    return dropped(s, fx, session_txs(s)[i].token, true);
}

/* The oldest message that waits is dropped. */
static bool wait_dropped(struct session *s, struct session_effect *fx) {
    struct session_wait w = wait_pop(s);
    s->wait_n--;
    wait_rest(s);
    if (w.stream) stream_free(s, w.stream);
    return dropped(s, fx, w.token, true);
}

bool session_tx_next_closing(struct session *s, struct session_effect *fx) {
    if (s->wait_n) return wait_dropped(s, fx);
    for (;; s->cursor++) {
        s->cursor = session_bit_next(s, SET_TX_USED, s->cursor);
        if (s->cursor == s->streams) break;
        struct session_tx *t = &session_txs(s)[s->cursor];
        session_bit_put(s, SET_ABORT, s->cursor, false, &s->abort_n); /* CLOSE says it all */
        if (t->aborted || t->sent == t->total) continue;
        t->aborted = 1;
        stream_ready(s, s->cursor + 1);
        s->used++;
        return dropped(s, fx, t->token, true);
    }
    s->cursor = 0;
    return false;
}

bool session_tx_next_end(struct session *s, struct session_effect *fx) {
    bool closed = s->state == SESSION_ENDED || s->counted; /* the count is final */
    while (s->sent_n) {
        struct session_seg g = *seg_at(s, 0);
        seg_pop(s, &g);
        s->ack_to = s->tx_acked;
        if (g.stream == 0) return dropped(s, fx, g.token, closed);
    }
    if (s->wait_n) return wait_dropped(s, fx);
    while (s->streams_used) {
        uint32_t i = session_bit_next(s, SET_TX_USED, 0);
        struct session_tx t = session_txs(s)[i];
        session_bit_put(s, SET_ABORT, i, false, &s->abort_n);
        session_bit_put(s, SET_READY, i, false, &s->ready_n);
        stream_free(s, i + 1);
        if (!t.aborted) return dropped(s, fx, t.token, closed || t.sent < t.total);
        s->used--;
    }
    return false;
}
