/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session machine inside: its block, and what session.c (life, paths), session_tx.c (messages out)
 * and session_rx.c (messages in) ask of each other. Nobody else includes this but the explorer, which
 * needs session_settle.
 *
 * The block: struct session, then at the offsets it holds
 *
 *   tx     session_tx[streams]     large messages out, from SEND to the acknowledgement of their last byte
 *   rx     session_rx[streams]     large messages in, from their first byte to their last
 *   bits   six bit sets of streams
 *   wait   ring of session_wait    messages given and not begun, in order; in front of them, for as long as
 *                                  the caller has not fetched the effect, those just dropped
 *   sent   ring of session_seg     what was sent and not acknowledged, in the order of its numbers
 */
#ifndef OVERLAY_SESSION_INTERNAL_H
#define OVERLAY_SESSION_INTERNAL_H

#include "overlay/session.h"

#define SESSION_NUMBER_MAX (UINT64_C(1) << 62) /* of bytes; above it arithmetic could wrap */
#define SESSION_PATH_MAX   (UINT32_MAX - 4)
#define SESSION_CHUNK_MAX  ((1u << 24) - 1) /* the wire has 24 bits for a chunk's length */
#define SESSION_ABORT_BIT  (UINT32_C(1) << 31)

/* In the order in which a life passes them; the diagram is in session.c. */
enum session_state {
    SESSION_NEW,
    SESSION_OPENING,
    SESSION_UP,
    SESSION_RESUMING,
    SESSION_LOST,
    SESSION_CLOSING,
    SESSION_ENDED,  /* closed in order */
    SESSION_FAILED, /* or closing, when the peer was lost: then with code 0, and told as closed */
};

/* Control frames that are due, in the order in which they are said: bit k is the k-th of pull_control. */
enum session_say {
    SAY_OPEN = 1,
    SAY_ACCEPT = 2,
    SAY_RESUME = 4,
    SAY_RESUMED = 8,
    SAY_CLOSE = 16,
    SAY_CLOSED = 32,
    SAY_REFUSE = 64, /* the last word of a session that gave up while it had a path */
    SAY_ACK = 128,   /* unless DATA or a GRANT carries it */
};

/* Effects without an argument that are due. */
enum session_tell {
    TELL_OPENED = 1,
    TELL_PATH = 2,
    TELL_WANT = 4,
    TELL_END = 8, /* CLOSED or FAILED, after all messages */
};

struct session_wait {
    uint64_t token;
    uint32_t length; /* of a small message */
    uint32_t stream; /* of a large one: its slot knows the rest */
};

/* Bytes of one message that were sent in a row. */
struct session_seg {
    uint64_t token; /* of a small message; 1 for a continuation */
    uint32_t length;
    uint32_t stream; /* 0: a small message; with SESSION_ABORT_BIT: the one byte of an ABORT */
};

struct session_tx {
    uint64_t token, total; /* total 0: free */
    uint64_t sent, acked, allowed;
    uint32_t aborted; /* reported already; what is left is to tell the peer */
    uint32_t zero;
};

struct session_rx {
    uint64_t total; /* 0: free */
    uint64_t got;   /* taken */
    uint64_t told;  /* of these, given to the caller as effects: equal to got between steps */
    uint64_t allowed;
    uint64_t aborted; /* an ABORT in the frame being drained */
};

struct session {
    /* configuration */
    uint64_t window;
    uint64_t reattach, ack_delay;
    uint32_t entries, streams, small, chunk;
    uint32_t conts_max; /* continuations in the ring of sent segments */
    uint32_t sent_cap, words;
    uint32_t off_wait, off_sent, off_tx, off_rx, off_bits;
    uint32_t lower;

    /* life and path */
    uint64_t id;
    uint32_t state, path;
    uint32_t path_up, say, tell;
    uint32_t asked;    /* OPEN has been said, so the peer may know the session */
    uint32_t unborn;   /* CLOSING, and the peer has not answered OPEN */
    int32_t code;      /* of FAILED */
    uint32_t counted;  /* FAILED, and tx_acked is final */
    uint32_t draining; /* effects may be left */
    uint32_t cursor;   /* where the search for streams to report stands, while draining */
    uint64_t lost_at;  /* end of the time to find a path, or to be answered on it; 0: none running */
    uint64_t credit;

    /* out */
    uint64_t tx_next;  /* number of the next byte to send */
    uint64_t tx_acked; /* of the first byte in the ring of sent segments */
    uint64_t ack_to;   /* acknowledged; tx_acked follows while the effects are fetched */
    uint32_t wait_head, wait_n, drop_n;
    uint32_t sent_head, sent_n, conts;   /* conts: how many of them are continuations */
    uint32_t used, streams_used;         /* entries and streams taken */
    uint32_t ready_n, abort_n, report_n; /* bits set in these sets */
    uint32_t turn;                       /* the stream whose continuation comes next, from 0 */

    /* in */
    uint64_t rx_next; /* bytes taken */
    uint64_t rx_said; /* of these, acknowledged */
    uint64_t ack_at;  /* when an acknowledgement is due; 0: none is, or it is due now (SAY_ACK) */
    uint32_t got_chunks, got_conts, got_ends; /* since rx_said */
    uint32_t grant_n;
    const struct session_chunk *chunks; /* of the frame being drained, else NULL and zero */
    uint32_t chunk_i, chunk_n;
    uint64_t chunk_dup; /* leading bytes that had been taken before */
};

static inline void *session_at(const struct session *s, uint32_t off) {
    return (char *)(uintptr_t)s + off;
}
static inline struct session_wait *session_waits(const struct session *s) {
    return session_at(s, s->off_wait);
}
static inline struct session_seg *session_segs(const struct session *s) {
    return session_at(s, s->off_sent);
}
static inline struct session_tx *session_txs(const struct session *s) {
    return session_at(s, s->off_tx);
}
static inline struct session_rx *session_rxs(const struct session *s) {
    return session_at(s, s->off_rx);
}

/* Bit sets over the streams, counted from 0. */
enum session_set {
    SET_TX_USED,
    SET_READY,  /* begun, and more may be sent */
    SET_ABORT,  /* an ABORT is to be sent */
    SET_REPORT, /* dropped by the caller, to be told */
    SET_RX_USED,
    SET_GRANT, /* a grant is to be sent */
    SETS,
};
static inline uint64_t *session_set(const struct session *s, enum session_set set) {
    return (uint64_t *)session_at(s, s->off_bits) + (uint32_t)set * s->words;
}
static inline bool session_bit(const struct session *s, enum session_set set, uint32_t i) {
    return (session_set(s, set)[i / 64] >> (i % 64)) & 1;
}
/* Set or clear a bit and keep its set's count (NULL: not counted). */
void session_bit_put(struct session *s, enum session_set set, uint32_t i, bool on, uint32_t *count);
/* The first member at or after `from`, not wrapping; s->streams: none. session_bit_free: the first that is none
 * (there must be one). */
uint32_t session_bit_next(const struct session *s, enum session_set set, uint32_t from);
uint32_t session_bit_free(const struct session *s, enum session_set set);

/* A time after now; what passes the end of time is never. */
static inline uint64_t session_after(moyai_ns now, uint64_t span) {
    return now > UINT64_MAX - span ? UINT64_MAX : now + span;
}

/* session_tx.c */
int session_tx_send(struct session *s, const struct session_event *ev);
int session_tx_drop(struct session *s, uint64_t token);
bool session_tx_ack_ok(const struct session *s, uint64_t ack); /* could the peer have taken that much, no more? */
void session_tx_rewind(struct session *s, uint64_t ack);       /* the peer has taken that much and no more */
bool session_tx_grant_ok(const struct session *s, uint32_t stream, uint64_t allowed);
void session_tx_grant(struct session *s, uint32_t stream, uint64_t allowed);
bool session_tx_ready(const struct session *s);
bool session_tx_pull(struct session *s, uint64_t room, struct session_frame *out);
bool session_tx_next_acked(struct session *s, struct session_effect *fx);
bool session_tx_next_dropped(struct session *s, struct session_effect *fx); /* if drop_n or report_n */
bool session_tx_next_closing(struct session *s, struct session_effect *fx); /* what a close drops at once */
bool session_tx_next_end(struct session *s, struct session_effect *fx);     /* what is left at the end */

/* session_rx.c */
int session_rx_data(struct session *s, const struct session_frame *f, moyai_ns now);
int session_rx_grant(struct session *s, uint32_t stream, uint64_t allowed);
void session_rx_said(struct session *s);       /* an acknowledgement of all that was taken has been pulled */
void session_rx_path_lost(struct session *s);  /* nothing is due on a path that is gone */
void session_rx_path_found(struct session *s); /* grants are repeated */
bool session_rx_pull_grant(struct session *s, struct session_frame *out);
bool session_rx_next(struct session *s, struct session_effect *fx);
bool session_rx_next_end(struct session *s, struct session_effect *fx);

/* session_check.c */
/* Turn the rings so that they start at index 0: then equal states are equal bytes. Only between steps; not needed
 * for anything else than comparing blocks. */
void session_settle(struct session *s);

#endif
