/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages in: checked, numbered off, handed up; and acknowledgement and grants in return.
 *
 * A DATA frame is checked as a whole before anything of it counts: the chunks are entered one by one
 * into the slots of their streams, and taken out again in reverse if one is wrong, so that a frame that
 * breaks the rules leaves no trace. Its chunks are then given up one by one as effects are fetched; the
 * slot knows how much has been told, which is the offset of the next chunk.
 *
 * Bytes that had been taken before are skipped. Our own sender never repeats any (it unsends exactly
 * what was not taken), but numbers allow it, and another implementation may prefer to.
 */
#include "overlay/session_internal.h"

#include <string.h>

/* --- taking ------------------------------------------------------------------------------------- */

/* Enter the bytes of a chunk from `skip` on. False: the rules forbid it; nothing has happened. */
static bool enter(struct session *s, const struct session_chunk *c, uint32_t skip) {
    if (c->stream > s->streams) return false;
    struct session_rx *r = &session_rxs(s)[c->stream - 1];
    if (c->flags == SESSION_ABORT) {
        if (c->len != 1 || !r->total || r->aborted || r->got == r->total) return false;
        r->aborted = 1;
        return true;
    }
    if (c->flags & SESSION_ABORT) return false;
    if ((c->flags & SESSION_BEGIN) && skip == 0) {
        bool fits = c->total > s->small && c->total < SESSION_NUMBER_MAX && c->len == s->small;
        if (r->total || !fits || (c->flags & SESSION_END)) return false;
        *r = (struct session_rx){.total = c->total, .got = c->len, .allowed = s->small};
        session_bit_put(s, SET_RX_USED, c->stream - 1, true, NULL);
        return true;
    }
    if ((c->flags & SESSION_BEGIN) && c->total != r->total) return false;
    uint32_t n = c->len - skip;
    if (!r->total || r->aborted || n > r->allowed - r->got) return false; /* allowed is at most total */
    if ((r->got + n == r->total) != !!(c->flags & SESSION_END)) return false;
    r->got += n;
    return true;
}

static void rx_free(struct session *s, uint32_t stream) {
    session_rxs(s)[stream - 1] = (struct session_rx){0};
    session_bit_put(s, SET_RX_USED, stream - 1, false, NULL);
    session_bit_put(s, SET_GRANT, stream - 1, false, &s->grant_n);
}

static void leave(struct session *s, const struct session_chunk *c, uint32_t skip) {
    struct session_rx *r = &session_rxs(s)[c->stream - 1];
    if (c->flags & SESSION_ABORT)
        r->aborted = 0;
    else if ((c->flags & SESSION_BEGIN) && skip == 0)
        rx_free(s, c->stream);
    else
        r->got -= c->len - skip;
}

/* Bytes of a chunk that had been taken, where `end` is the sum of all lengths up to and with it. */
static inline uint32_t skipped(const struct session_chunk *c, uint64_t end, uint64_t dup) {
    return end - c->len >= dup ? 0 : (uint32_t)(dup - (end - c->len));
}

static void leave_all(struct session *s, const struct session_chunk *c, uint32_t n, uint64_t end, uint64_t dup) {
    for (; end > dup; end -= c[--n].len)
        if (c[n - 1].stream) leave(s, &c[n - 1], skipped(&c[n - 1], end, dup));
}

/* An acknowledgement is due within ack_delay, or at once if much waits for it on the other side. */
static void owe(struct session *s, moyai_ns now) {
    bool much = s->rx_next - s->rx_said >= (s->window + 3) / 4 || s->got_chunks >= (s->entries + 3) / 4 ||
                s->got_conts >= (s->conts_max + 3) / 4 || s->got_ends >= (s->streams + 3) / 4;
    if (much) {
        s->say |= SAY_ACK;
        s->ack_at = 0;
    } else if (!(s->say & SAY_ACK) && !s->ack_at) {
        s->ack_at = session_after(now, s->ack_delay);
    }
}

int session_rx_data(struct session *s, const struct session_frame *f, moyai_ns now) {
    if (f->seq > s->rx_next || f->n_chunks == 0 || f->n_chunks > SESSION_CHUNKS) return MOYAI_EPROTO;
    uint64_t dup = s->rx_next - f->seq, end = 0;
    uint32_t conts = 0, ends = 0, old = 0, i = 0;
    for (; i < f->n_chunks; i++) {
        const struct session_chunk *c = &f->chunks[i];
        if (c->len == 0 || c->len > SESSION_CHUNK_MAX) break;
        if (end + c->len <= dup) {
            end += c->len;
            old++;
            continue;
        }
        uint32_t skip = skipped(c, end + c->len, dup);
        if (c->stream == 0) {
            if (c->flags != (SESSION_BEGIN | SESSION_END) || c->len > s->small || skip) break;
        } else {
            if (!enter(s, c, skip)) break;
            conts += !(c->flags & SESSION_BEGIN);
            ends += !!(c->flags & (SESSION_END | SESSION_ABORT));
        }
        end += c->len;
    }
    if (i < f->n_chunks || f->seq + end >= SESSION_NUMBER_MAX) {
        leave_all(s, f->chunks, i, end, dup);
        return MOYAI_EPROTO;
    }
    if (end <= dup) { /* all of it is old: the sender wants to know */
        s->say |= SAY_ACK;
        s->ack_at = 0;
        return 0;
    }
    s->rx_next = f->seq + end;
    s->got_chunks += f->n_chunks - old;
    s->got_conts += conts;
    s->got_ends += ends;
    s->chunks = f->chunks;
    s->chunk_n = f->n_chunks;
    s->chunk_dup = dup;
    owe(s, now);
    return 0;
}

static bool chunk_told(struct session *s, const struct session_chunk *c, uint32_t skip, struct session_effect *fx) {
    *fx = (struct session_effect){.kind = SESSION_FX_DELIVER,
                                  .index = s->chunk_i,
                                  .skip = skip,
                                  .len = c->len - skip,
                                  .stream = c->stream,
                                  .flags = skip ? c->flags & ~(uint32_t)SESSION_BEGIN : c->flags,
                                  .total = c->len};
    if (c->stream == 0) return true;
    if (c->flags & SESSION_ABORT) {
        *fx = (struct session_effect){.kind = SESSION_FX_ABORTED, .stream = c->stream};
        rx_free(s, c->stream);
        return true;
    }
    struct session_rx *r = &session_rxs(s)[c->stream - 1];
    fx->total = r->total;
    fx->offset = r->told;
    r->told += fx->len;
    if (c->flags & SESSION_END) rx_free(s, c->stream);
    return true;
}

bool session_rx_next(struct session *s, struct session_effect *fx) {
    while (s->chunk_i < s->chunk_n) {
        const struct session_chunk *c = &s->chunks[s->chunk_i];
        if (c->len <= s->chunk_dup) {
            s->chunk_dup -= c->len;
            s->chunk_i++;
            continue;
        }
        bool some = chunk_told(s, c, (uint32_t)s->chunk_dup, fx);
        s->chunk_dup = 0;
        s->chunk_i++;
        return some;
    }
    s->chunks = NULL;
    s->chunk_i = s->chunk_n = 0;
    return false;
}

bool session_rx_next_end(struct session *s, struct session_effect *fx) {
    uint32_t i = session_bit_next(s, SET_RX_USED, 0);
    if (i == s->streams) return false;
    rx_free(s, i + 1);
    *fx = (struct session_effect){.kind = SESSION_FX_ABORTED, .stream = i + 1};
    return true;
}

/* --- acknowledging and granting ------------------------------------------------------------------ */

void session_rx_said(struct session *s) {
    s->rx_said = s->rx_next;
    s->ack_at = 0;
    s->say &= ~(uint32_t)SAY_ACK;
    s->got_chunks = s->got_conts = s->got_ends = 0;
}

static void grants_forget(struct session *s) {
    memset(session_set(s, SET_GRANT), 0, s->words * sizeof(uint64_t));
    s->grant_n = 0;
}

void session_rx_path_lost(struct session *s) {
    grants_forget(s);
    s->ack_at = 0; /* a new path begins with one */
    s->say = 0;
}

void session_rx_path_found(struct session *s) {
    for (uint32_t i = session_bit_next(s, SET_RX_USED, 0); i < s->streams; i = session_bit_next(s, SET_RX_USED, i + 1))
        if (session_rxs(s)[i].allowed > s->small) session_bit_put(s, SET_GRANT, i, true, &s->grant_n);
}

int session_rx_grant(struct session *s, uint32_t stream, uint64_t allowed) {
    if (s->state >= SESSION_CLOSING || stream == 0 || stream > s->streams) return MOYAI_EINVAL;
    struct session_rx *r = &session_rxs(s)[stream - 1];
    if (!r->total) return MOYAI_EINVAL;
    if (allowed > r->total) allowed = r->total;
    if (allowed <= r->allowed) return 0;
    r->allowed = allowed;
    if (s->state == SESSION_UP) session_bit_put(s, SET_GRANT, stream - 1, true, &s->grant_n);
    return 0;
}

bool session_rx_pull_grant(struct session *s, struct session_frame *out) {
    if (!s->grant_n) return false;
    uint32_t i = session_bit_next(s, SET_GRANT, 0);
    session_bit_put(s, SET_GRANT, i, false, &s->grant_n);
    out->kind = SESSION_GRANT;
    out->stream = i + 1;
    out->allowed = session_rxs(s)[i].allowed;
    return true;
}
