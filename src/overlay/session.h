/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a session: messages between two nodes, in order, at most once, over paths that break.
 *
 * A pure machine. The driver feeds it events (session_step), takes what it tells upwards
 * (session_next, until it says no), and takes frames whenever the path has room (session_pull). It
 * never sees bytes: a message is a token and a length; which of its bytes go where is arithmetic.
 *
 * The bytes of all messages of one direction are numbered in the order in which they are first sent.
 * A DATA frame names the number of its first byte and lists chunks (stream, length, flags); chunk
 * headers are not numbered, so what is sent again is cut anew, to the credit of the new path.
 *
 *  - Messages of at most cfg.small bytes are one chunk on stream 0. Larger ones get a stream of their
 *    own (1..cfg.streams, used again once acknowledged), begin with at most cfg.small bytes, and go on
 *    as far as their reader grants. Messages *begin* in the order they were given; continuations give
 *    way to beginnings, and take turns by chunk.
 *  - Acknowledgements are cumulative and ride on DATA; without data to carry them one is sent
 *    after cfg.ack_delay, or at once when a quarter of the window or of the entries waits for it.
 *  - Whoever opens draws the session's id; if both open at once, that of the lower node id stands.
 *    Path numbers rise with each new path; what carries an older one is dropped. If both ends raise it
 *    at once to different paths, the higher number wins (the lower node id uses odd numbers).
 *  - Failure: the peer is dead, refuses the session, or cfg.reattach passed without a path. Each
 *    message is then reported: NEVER executed if its last byte cannot have been received, else MAY
 *    HAVE. After an orderly close, what the peer had not taken is NEVER.
 */
#ifndef OVERLAY_SESSION_H
#define OVERLAY_SESSION_H

#include <moyai/error.h>

struct session; /* one flat block of session_size(cfg) bytes, offsets only, unused bytes zero */

struct session_cfg {
    uint64_t id;         /* random and not 0: proposed if this end opens */
    bool lower;          /* this node's id is the lower one */
    uint32_t entries;    /* messages given and not yet acknowledged; 0: 4096 */
    uint32_t streams;    /* large messages under way each way; 0: 64 */
    uint32_t small;      /* bytes; 0: 4096 */
    uint32_t chunk;      /* largest chunk, bytes; 0: 65536 */
    uint64_t window;     /* bytes sent and not acknowledged; 0: 4 MiB */
    moyai_dur reattach;  /* 0: 10 s */
    moyai_dur ack_delay; /* 0: 20 ms */
};

/* Frames of the session protocol, as the machine sees them. All numbers are of bytes. */
enum session_frame_kind {
    SESSION_OPEN,    /* id, path */
    SESSION_ACCEPT,  /* id, path */
    SESSION_RESUME,  /* id, path, ack: last byte taken + 1; and grants follow as GRANT frames */
    SESSION_RESUMED, /* the same, in answer */
    SESSION_REFUSE,  /* id: no such session here (any more) */
    SESSION_CLOSE,   /* id, path, ack */
    SESSION_CLOSED,  /* id, path, ack */
    SESSION_DATA,    /* id, path, seq, ack, chunks */
    SESSION_ACK,     /* id, path, ack */
    SESSION_GRANT,   /* id, path, ack, stream, allowed: bytes of that message allowed in all */
};

enum session_chunk_flags {
    SESSION_BEGIN = 1, /* first chunk of a message; with a total where END is not set too */
    SESSION_END = 2,   /* last chunk */
    SESSION_ABORT = 4, /* the message ends here, unfinished; the chunk is one byte of no meaning */
};

struct session_chunk {
    uint32_t stream; /* 0: a message of one chunk */
    uint32_t flags;
    uint32_t len;   /* 1 and more */
    uint64_t total; /* bytes of the whole message, in a BEGIN chunk of a stream other than 0 */
    /* sender only: where the bytes are */
    uint64_t token;
    uint64_t offset;
};
#define SESSION_CHUNKS   512 /* the most chunks of one frame */
#define SESSION_HEAD_MAX 16  /* bytes of a chunk's head; credit and room count them: 8, or with a total 16 */

struct session_frame {
    enum session_frame_kind kind;
    uint64_t id;
    uint32_t path;
    uint64_t seq, ack;
    uint32_t stream;
    uint64_t allowed;
    uint32_t n_chunks;
    struct session_chunk *chunks; /* pull: room for SESSION_CHUNKS, the caller's; receive: the caller's */
};

enum session_event_kind {
    SESSION_EV_OPEN,      /* begin: wants a path */
    SESSION_EV_SEND,      /* token, length, request. EAGAIN: no entry or stream free; nothing has happened */
    SESSION_EV_DROP,      /* token: withdraw a message; what is not sent yet is aborted (reported DROPPED; none of
                             its bytes is asked for any more); if all of it was sent it stays until acknowledged
                             and is reported ACKED. An unknown token is taken for such a message */
    SESSION_EV_PATH_UP,   /* a path (link) to the peer exists: open or resume over it. credit */
    SESSION_EV_PATH_DOWN, /* the present path broke */
    SESSION_EV_CREDIT,    /* credit: bytes that the path takes in addition: of DATA, behind its fixed head */
    SESSION_EV_RECEIVE,   /* frame, credit (of the path it came by, if that becomes the session's path) */
    SESSION_EV_GRANT,     /* stream, allowed: the reader allows this many bytes of an inbound message in all */
    SESSION_EV_PEER_DEAD,
    SESSION_EV_CLOSE, /* orderly; what is not sent yet is reported NEVER at once. Fails if it takes reattach */
    SESSION_EV_TIMEOUT,
    SESSION_EV_KEEP, /* an ACK, if nothing else is to be sent: whoever passes it on finds out whether his link stands.
                        Nothing answers it. EINVAL: not up */
    SESSION_EV_PEER_LEFT, /* as PEER_DEAD; but while the session is up, what it has not acknowledged it does not take */
};

struct session_event {
    enum session_event_kind kind;
    moyai_ns now;
    uint64_t token, length;
    bool request;    /* requests may use three quarters of entries and streams, so that replies get through */
    uint64_t credit; /* UINT64_MAX: without limit (a direct link) */
    const struct session_frame *frame;
    uint32_t stream;
    uint64_t allowed;
};

enum session_effect_kind {
    SESSION_FX_OPENED,    /* established: id is settled */
    SESSION_FX_PATH,      /* RECEIVE only: the path this frame came by is the session's path from now on */
    SESSION_FX_WANT_PATH, /* find a path and send PATH_UP; said once for each break */
    SESSION_FX_DELIVER,   /* RECEIVE only: bytes [skip, skip + len) of chunk `index` of the frame; stream, flags,
                             total, and `offset`: their place in the message. BEGIN and END only where
                             the message's first and last byte are among them */
    SESSION_FX_ABORTED,   /* stream: the inbound message will not be completed */
    SESSION_FX_ACKED,     /* token: the peer has taken all of it; said once, in the order of the last bytes */
    SESSION_FX_DROPPED,   /* token, executed: the message was not, or not surely, taken (failure, close, DROP) */
    SESSION_FX_CLOSED,    /* orderly; terminal, all messages have been reported (where the peer closed: after the CLOSED
                             frame was pulled, by a TIMEOUT). Whoever keeps the machine a while can go on answering a
                             peer that missed it */
    SESSION_FX_FAILED,    /* code; terminal, all messages have been reported */
};

struct session_effect {
    enum session_effect_kind kind;
    uint64_t token;
    enum moyai_executed executed;
    int code;
    uint32_t index, skip, len, stream, flags;
    uint64_t total, offset;
};

/* Bytes of the block; 0: the configuration cannot work (small <= chunk < 2^24, small <= window, id not 0). */
size_t session_size(const struct session_cfg *cfg);

/* s: session_size(cfg) bytes, aligned to 16. The large rings inside are not touched until used: take the memory
 * from calloc, then an idle session costs a few KiB, and blocks can be compared as bytes. EINVAL as above. */
int session_init(struct session *s, const struct session_cfg *cfg);

/* EAGAIN as said; EPROTO: the frame breaks the protocol (nothing has happened: close its link);
 * EINVAL: an event that makes no sense in this state (nothing has happened). For a frame it means "not of this
 * session": an OPEN may begin a new one if this one has ended, anything else is answered by session_refuse.
 * An OPEN of another id at an established session is 0, and does not mean that the peer has lost the session: it may
 * have been under way while both opened, or late. The machine asks its peer; REFUSE ends the session if it is so, and
 * the peer says OPEN again. (If the session has ended by the effects of such an OPEN, give it to a new machine.) */
int session_step(struct session *s, const struct session_event *ev);

/* The next thing to tell upwards; false: none left. Call until false after each step: the frame of a RECEIVE must
 * live so long. Meanwhile SEND, DROP, GRANT and CREDIT may be stepped (their effects come in the same row), other
 * events are EINVAL. After SEND, GRANT and CREDIT alone there is nothing to tell. */
bool session_next(struct session *s, struct session_effect *fx);

/* Would SEND be taken now? True may follow any RECEIVE, not only one that reports messages. */
bool session_room(const struct session *s, uint64_t length, bool request);

/* The next frame for the session's path; of DATA at most `room` bytes behind the fixed head, as credit is counted
 * (cfg.small + SESSION_HEAD_MAX is always enough to get on); false: nothing to send now. Control frames come first.
 * What is pulled counts as sent. */
bool session_pull(struct session *s, moyai_ns now, uint64_t room, struct session_frame *out);
bool session_pending(const struct session *s); /* would session_pull have something (with enough room)? */

moyai_ns session_deadline(const struct session *s);                   /* when to send TIMEOUT; UINT64_MAX: never */
bool session_check(const struct session *s, struct moyai_error *why); /* invariants */

uint64_t session_id(const struct session *s);
bool session_idle(const struct session *s); /* established, nothing unsent, unacknowledged or unfinished, either way */
uint32_t session_owes(const struct session *s); /* messages that have been given and the peer has not taken all of */
/* A refusal for a frame of an unknown session; true if one is due (never for a REFUSE). */
bool session_refuse(const struct session_frame *in, struct session_frame *out);

#endif
