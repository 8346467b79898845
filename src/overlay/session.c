/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a session, and its paths.
 *
 * Idea. In S0/4.3 every call lays a pointer on each process it passes, and a connection that breaks
 * anywhere fails all calls that travelled it. The pointers tell both ends quickly that a path is gone,
 * which is worth keeping; but a path is not a peer. So here calls do not travel paths, they travel a
 * session between two nodes, and the session outlives its paths: both ends number what they send, and
 * on a new path they tell each other how much they have taken and go on from there. A broken link costs
 * a round trip. A call fails only when its peer is dead or cannot be reached at all, and then the numbers
 * say for each message whether it can have arrived.
 *
 *                        OPEN event                 ACCEPT, RESUME
 *             +-----+ ----------------> +---------+ -----------------+
 *             | NEW |                   | OPENING | <-+ path broke,  |
 *             +-----+                   +---------+ --+ path up      |
 *                |                           | OPEN of the lower     v
 *                |  OPEN received            +-----------------> +-------+ <---+ RESUME, OPEN
 *                +---------------------------------------------> |  UP   | ----+ received again
 *                                                                +-------+
 *                                         path up (another one)   |  |  ^ RESUMED (or RESUME,
 *                                    +---------------------------+   |  |  on a higher path)
 *                                    v                               v  |
 *                               +----------+ <---- path up ----- +------+
 *                               | RESUMING | ----- path broke -> | LOST |
 *                               +----------+                     +------+
 *      UP, RESUMING, LOST --CLOSE event--> CLOSING --CLOSED, CLOSE--> ENDED
 *      all but NEW and the last two --CLOSE, CLOSED received--> ENDED; OPENING, NEW --CLOSE event--> ENDED
 *      all but the last two --peer dead, REFUSE, time over--> FAILED (CLOSING with nothing unreported: ENDED)
 *
 * Paths. A path number names one attempt to use one path. Whoever brings a path up takes the next
 * number of its own parity (the lower node id: odd) above all it has seen and says RESUME with the
 * count of what it has taken; from that moment it takes nothing that carries a lower number, so the
 * count is final. Who receives a RESUME above its own number adopts it, answers RESUMED with its own
 * count, final likewise, and may send at once. A RESUME below one's own number is dropped: the other
 * side will receive ours. So of two that cross the higher wins at both ends. (If we have no path at that
 * moment ours may have been lost with it: then we say a new RESUME on the path the other's came by.)
 *
 * Opening is the same with OPEN for RESUME and ACCEPT for RESUMED: there is nothing to count yet. An end
 * that has accepted but whose ACCEPT was lost either receives OPEN again on a higher path or says RESUME
 * itself; to the opener, which has taken nothing, both mean the same. If both open at once the lower
 * end ignores the other's OPEN (or, having no path, says its own OPEN on the path that one came by), and
 * the higher adopts the lower's id and path. An OPEN of a foreign id at an established end is either
 * such a leftover or the sign that the peer has lost the session; an acknowledgement, or a RESUME on that
 * path, finds out: the peer of a lost session answers REFUSE. Its OPEN is said again until it is answered.
 *
 * Closing. CLOSE carries the count of what was taken; nothing is taken after it. The other end reports
 * what is below the count as acknowledged and all else as NEVER, and answers CLOSED with its own count. It
 * remains as ENDED and answers again if its CLOSED was lost, for as long as the driver keeps it.
 *
 * Invariants (session_check): the lengths of all sent segments add up to tx_next - tx_acked, at most the
 * window; a large message's segments add up to its sent - acked; a message is in exactly one place and
 * counted once; sets agree with slots; without a path nothing is due on it; in the end nothing is left.
 *
 * What was tried in thought and dropped: sending again by walking the ring of sent segments (needs cursors,
 * keeps the bytes of aborted messages alive; see session_tx.c); adopting the higher path but the lower
 * id when openings cross (needs a memory of aliases to tell a repeated OPEN from a new session); data
 * before ACCEPT (an OPEN of a restarted peer could then deliver twice).
 */
#include "overlay/session_internal.h"

#include <string.h>

/* A peer that could not take an OPEN, because it had to ask about an old session first, can take the next. */
#define OPEN_AGAIN ((uint64_t)MOYAI_SEC)

/* --- configuration and layout --------------------------------------------------------------------- */

static uint64_t span(moyai_dur d, moyai_dur otherwise) {
    if (d == 0) d = otherwise;
    return d < 1 ? 1 : (uint64_t)d;
}

/* Everything but what lives. False: values that cannot work. */
static bool layout(struct session *s, const struct session_cfg *cfg, size_t *size) {
    *s = (struct session){
        .window = cfg->window ? cfg->window : 4u << 20,
        .reattach = span(cfg->reattach, 10 * MOYAI_SEC),
        .ack_delay = span(cfg->ack_delay, 20 * MOYAI_MS),
        .entries = cfg->entries ? cfg->entries : 4096,
        .streams = cfg->streams ? cfg->streams : 64,
        .small = cfg->small ? cfg->small : 4096,
        .chunk = cfg->chunk ? cfg->chunk : 65536,
        .lower = cfg->lower,
        .id = cfg->id,
    };
    if (s->entries > 1u << 20 || s->streams > 4096 || s->chunk > SESSION_CHUNK_MAX || s->small > s->chunk ||
        s->small > s->window || s->window >= SESSION_NUMBER_MAX || cfg->id == 0)
        return false;
    s->conts_max = 4 * s->streams;
    s->sent_cap = s->entries + s->streams + s->conts_max; /* beginnings, aborts, continuations */
    s->words = (s->streams + 63) / 64;
    size_t at = (sizeof *s + 15) & ~(size_t)15;
    s->off_tx = (uint32_t)at;
    at += s->streams * sizeof(struct session_tx);
    s->off_rx = (uint32_t)at;
    at += s->streams * sizeof(struct session_rx);
    s->off_bits = (uint32_t)at;
    at += (size_t)SETS * s->words * sizeof(uint64_t);
    at = (at + 15) & ~(size_t)15;
    s->off_wait = (uint32_t)at;
    at += s->entries * sizeof(struct session_wait);
    s->off_sent = (uint32_t)at;
    at += s->sent_cap * sizeof(struct session_seg);
    *size = (at + 15) & ~(size_t)15;
    return true;
}

size_t session_size(const struct session_cfg *cfg) {
    struct session s;
    size_t size;
    return layout(&s, cfg, &size) ? size : 0;
}

/* The rings are not touched: most sessions never use more than their first pages. */
int session_init(struct session *s, const struct session_cfg *cfg) {
    struct session head;
    size_t size;
    if (!layout(&head, cfg, &size)) return MOYAI_EINVAL;
    memset(s, 0, head.off_wait);
    *s = head;
    return 0;
}

/* --- sets ------------------------------------------------------------------------------------------ */

void session_bit_put(struct session *s, enum session_set set, uint32_t i, bool on, uint32_t *count) {
    uint64_t *w = &session_set(s, set)[i / 64], bit = UINT64_C(1) << (i % 64);
    if (((*w & bit) != 0) == on) return;
    *w ^= bit;
    if (count) *count += on ? 1 : UINT32_MAX;
}

uint32_t session_bit_next(const struct session *s, enum session_set set, uint32_t from) {
    const uint64_t *w = session_set(s, set);
    for (uint32_t i = from; i < s->streams; i = (i | 63) + 1) {
        uint64_t x = w[i / 64] & (UINT64_MAX << (i % 64));
        if (x) return (i & ~63u) + (uint32_t)__builtin_ctzll(x);
    }
    return s->streams;
}

uint32_t session_bit_free(const struct session *s, enum session_set set) {
    const uint64_t *w = session_set(s, set);
    uint32_t k = 0;
    while (w[k] == UINT64_MAX) k++;
    return k * 64 + (uint32_t)__builtin_ctzll(~w[k]);
}

/* --- paths ----------------------------------------------------------------------------------------- */

static bool parity_of(const struct session *s, uint32_t path, bool own) {
    return ((path & 1) != 0) == (s->lower == own);
}

/* A path number above `least` that this end may give. */
static uint32_t path_above(const struct session *s, uint32_t least) {
    return parity_of(s, least, true) ? least + 2 : least + 1;
}

static void path_set(struct session *s, uint32_t path, uint64_t credit) {
    session_rx_path_lost(s);
    s->path = path;
    s->path_up = 1;
    s->credit = credit;
}

/* This end brings a path up and speaks first on it. */
static void path_raise(struct session *s, uint32_t least, uint64_t credit, moyai_ns now) {
    path_set(s, path_above(s, least), credit);
    if (!s->lost_at) s->lost_at = session_after(now, s->reattach);
    if (s->state == SESSION_OPENING) {
        s->say = SAY_OPEN;
    } else if (s->state == SESSION_CLOSING) {
        s->say = s->unborn ? SAY_OPEN | SAY_CLOSE : SAY_CLOSE;
    } else {
        s->state = SESSION_RESUMING;
        s->say = SAY_RESUME;
    }
}

/* The peer has brought a path up: it becomes the session's, and `answer` is what we say on it. */
static void path_adopt(struct session *s, const struct session_event *ev, uint32_t answer) {
    path_set(s, ev->frame->path, ev->credit);
    s->tell |= TELL_PATH;
    s->unborn = 0;
    s->say = s->state == SESSION_CLOSING ? (uint32_t)SAY_CLOSE : answer;
}

/* Both ends know what the other has taken on this path. */
static void path_works(struct session *s, uint64_t ack) {
    session_tx_rewind(s, ack);
    if (s->state == SESSION_CLOSING) return;
    s->state = SESSION_UP;
    s->lost_at = 0;
    session_rx_path_found(s);
}

static int step_path_up(struct session *s, const struct session_event *ev) {
    if (s->state == SESSION_NEW || s->state >= SESSION_ENDED || s->path >= SESSION_PATH_MAX) return MOYAI_EINVAL;
    path_raise(s, s->path, ev->credit, ev->now);
    return 0;
}

static int step_path_down(struct session *s, moyai_ns now) {
    if (!s->path_up) return MOYAI_EINVAL;
    session_rx_path_lost(s);
    s->path_up = 0;
    s->credit = 0;
    if (s->state >= SESSION_ENDED) {
        s->lost_at = 0;
        return 0;
    }
    s->tell |= TELL_WANT;
    if (!s->lost_at) s->lost_at = session_after(now, s->reattach);
    if (s->state == SESSION_UP || s->state == SESSION_RESUMING) s->state = SESSION_LOST;
    return 0;
}

/* --- the end --------------------------------------------------------------------------------------- */

static void end_closed(struct session *s) {
    s->state = SESSION_ENDED;
    s->lost_at = 0;
    session_rx_path_lost(s);
    s->tell |= TELL_END;
}

/* Who owes a CLOSED tells of the end when it has been said, so that the driver lets it be said; or now. */
static int end_told(struct session *s) {
    if (!s->lost_at) return MOYAI_EINVAL;
    s->lost_at = 0;
    return 0;
}

/* A closing session of which no message is unreported has closed, whatever else happened. */
static int end_failed(struct session *s, int code) {
    bool closed = s->state == SESSION_CLOSING && s->sent_n == 0;
    end_closed(s);
    s->state = SESSION_FAILED;
    s->code = closed ? 0 : code;
    if (code == MOYAI_EUNREACHABLE && s->path_up) {
        s->say = SAY_REFUSE; /* a path, but no answer: the peer should know that we wait no longer */
    } else {
        s->path_up = 0;
        s->credit = 0;
    }
    return 0;
}

static int step_close(struct session *s, moyai_ns now) {
    if (s->state >= SESSION_CLOSING) return MOYAI_EINVAL;
    if (s->state <= SESSION_OPENING && !s->asked) { /* the peer has never heard of it */
        end_closed(s);
        return 0;
    }
    bool said = !(s->say & SAY_OPEN); /* on this path, if there is one */
    uint32_t up = s->path_up;
    s->unborn = s->state == SESSION_OPENING;
    session_rx_path_lost(s);
    s->state = SESSION_CLOSING;
    if (up) s->say = said ? SAY_CLOSE : SAY_OPEN | SAY_CLOSE;
    if (!s->lost_at) s->lost_at = session_after(now, s->reattach);
    return 0;
}

/* --- frames ---------------------------------------------------------------------------------------- */

/* A frame that means nothing to us any more still came from the peer: who has no path takes the one it came by. */
static int path_offered(struct session *s, const struct session_event *ev) {
    if (s->path_up) return 0;
    uint32_t least = s->path > ev->frame->path ? s->path : ev->frame->path;
    path_raise(s, least, ev->credit, ev->now);
    s->tell |= TELL_PATH;
    return 0;
}

static int receive_foreign_open(struct session *s, const struct session_event *ev) {
    if (s->state == SESSION_UP) s->say |= SAY_ACK;
    return path_offered(s, ev);
}

/* The peer opens, and so may we: the lower end's OPEN stands. */
static int receive_rival_open(struct session *s, const struct session_event *ev) {
    if (s->state != SESSION_NEW && ev->frame->id == s->id) return MOYAI_EPROTO;
    if (s->state != SESSION_NEW && s->lower) return receive_foreign_open(s, ev);
    s->id = ev->frame->id;
    path_adopt(s, ev, SAY_ACCEPT);
    path_works(s, 0);
    s->tell |= TELL_OPENED;
    return 0;
}

static int receive_open(struct session *s, const struct session_event *ev) {
    const struct session_frame *f = ev->frame;
    if (f->id == 0 || f->path == 0 || f->path > SESSION_PATH_MAX || !parity_of(s, f->path, false)) return MOYAI_EPROTO;
    switch ((enum session_state)s->state) {
    case SESSION_NEW:
    case SESSION_OPENING:
        return receive_rival_open(s, ev);
    case SESSION_UP:
    case SESSION_RESUMING:
    case SESSION_LOST:
    case SESSION_CLOSING:
        if (s->unborn) return receive_rival_open(s, ev);
        if (f->id != s->id) return receive_foreign_open(s, ev);
        if (f->path <= s->path) return path_offered(s, ev);
        if (s->rx_next || !session_tx_ack_ok(s, 0)) return MOYAI_EPROTO;
        path_adopt(s, ev, SAY_ACCEPT);
        path_works(s, 0);
        return 0;
    case SESSION_ENDED:
        if (f->id != s->id) return end_told(s); /* the peer has gone on to another session */
        if (f->path > s->path) path_adopt(s, ev, SAY_CLOSED);
        return 0;
    case SESSION_FAILED:
        break;
    }
    return MOYAI_EINVAL;
}

static int receive_refuse(struct session *s) {
    if (s->state == SESSION_ENDED) {
        (void)end_told(s); /* or it is told already */
        return 0;
    }
    return end_failed(s, MOYAI_ECLOSED);
}

/* Who comes back with a new path has not heard that we closed. */
static int receive_ended(struct session *s, const struct session_event *ev) {
    const struct session_frame *f = ev->frame;
    if (f->path <= s->path || (f->kind != SESSION_RESUME && f->kind != SESSION_CLOSE)) return 0;
    path_adopt(s, ev, SAY_CLOSED);
    return 0;
}

static int receive_resume(struct session *s, const struct session_event *ev) {
    const struct session_frame *f = ev->frame;
    if (f->path == s->path || !session_tx_ack_ok(s, f->ack)) return MOYAI_EPROTO;
    if (s->state == SESSION_OPENING) s->tell |= TELL_OPENED;
    path_adopt(s, ev, SAY_RESUMED);
    path_works(s, f->ack);
    return 0;
}

/* CLOSE and CLOSED: all below the count is acknowledged, all else was never taken. */
static int receive_close(struct session *s, const struct session_event *ev) {
    const struct session_frame *f = ev->frame;
    if (!session_tx_ack_ok(s, f->ack)) return MOYAI_EPROTO;
    s->ack_to = f->ack;
    end_closed(s);
    if (f->kind == SESSION_CLOSE) s->lost_at = session_after(ev->now, s->reattach);
    if (f->path > s->path)
        path_adopt(s, ev, SAY_CLOSED);
    else if (f->kind == SESSION_CLOSE)
        s->say = SAY_CLOSED;
    return 0;
}

static int receive_accept(struct session *s) {
    if (s->state != SESSION_OPENING && !s->unborn) return MOYAI_EPROTO;
    s->say &= ~(uint32_t)SAY_OPEN; /* it may be due again just now */
    s->unborn = 0;
    if (s->state == SESSION_CLOSING) return 0;
    s->state = SESSION_UP;
    s->lost_at = s->ack_at = 0;
    s->tell |= TELL_OPENED;
    return 0;
}

static int receive_resumed(struct session *s, const struct session_frame *f) {
    if ((s->state != SESSION_RESUMING && s->state != SESSION_CLOSING) || !session_tx_ack_ok(s, f->ack))
        return MOYAI_EPROTO;
    path_works(s, f->ack);
    return 0;
}

/* DATA, ACK, GRANT: what travels while the session is up. Before we have answered nothing of it can. */
static int receive_traffic(struct session *s, const struct session_event *ev) {
    const struct session_frame *f = ev->frame;
    bool up = s->state == SESSION_UP && !(s->say & (SAY_ACCEPT | SAY_RESUMED));
    if ((!up && s->state != SESSION_CLOSING) || !session_tx_ack_ok(s, f->ack)) return MOYAI_EPROTO;
    if (up && f->kind == SESSION_GRANT) {
        if (!session_tx_grant_ok(s, f->stream, f->allowed)) return MOYAI_EPROTO;
        session_tx_grant(s, f->stream, f->allowed);
    } else if (up && f->kind == SESSION_DATA) {
        int rc = session_rx_data(s, f, ev->now);
        if (rc < 0) return rc;
    }
    s->ack_to = f->ack;
    return 0;
}

static int step_receive(struct session *s, const struct session_event *ev) {
    const struct session_frame *f = ev->frame;
    if (s->state == SESSION_FAILED) return MOYAI_EINVAL;
    if (f->kind == SESSION_OPEN) return receive_open(s, ev);
    if (s->state == SESSION_NEW || f->id != s->id) return MOYAI_EINVAL;
    if (f->kind == SESSION_REFUSE) return receive_refuse(s);
    if (s->state == SESSION_ENDED) return receive_ended(s, ev);

    bool raises = f->kind == SESSION_RESUME || f->kind == SESSION_CLOSE;
    if (f->path < s->path || (f->path == s->path && !s->path_up)) return raises ? path_offered(s, ev) : 0; /* late */
    if (f->path > s->path) {
        if (!raises || f->path > SESSION_PATH_MAX || !parity_of(s, f->path, false)) return MOYAI_EPROTO;
    }
    switch (f->kind) {
    case SESSION_ACCEPT:
        return receive_accept(s);
    case SESSION_RESUME:
        return receive_resume(s, ev);
    case SESSION_RESUMED:
        return receive_resumed(s, f);
    case SESSION_CLOSE:
    case SESSION_CLOSED:
        return receive_close(s, ev);
    case SESSION_DATA:
    case SESSION_ACK:
    case SESSION_GRANT:
        return receive_traffic(s, ev);
    case SESSION_OPEN:
    case SESSION_REFUSE:
        break; /* above */
    }
    return MOYAI_EPROTO;
}

/* --- steps ----------------------------------------------------------------------------------------- */

static int step_open(struct session *s, moyai_ns now) {
    if (s->state != SESSION_NEW) return MOYAI_EINVAL;
    s->state = SESSION_OPENING;
    s->lost_at = session_after(now, s->reattach);
    s->tell |= TELL_WANT;
    return 0;
}

static int step_credit(struct session *s, uint64_t more) {
    if (!s->path_up) return MOYAI_EINVAL;
    s->credit = more > UINT64_MAX - s->credit ? UINT64_MAX : s->credit + more;
    return 0;
}

static int step_keep(struct session *s) {
    if (s->state != SESSION_UP) return MOYAI_EINVAL;
    s->say |= SAY_ACK;
    s->ack_at = 0;
    return 0;
}

static int step_timeout(struct session *s, moyai_ns now) {
    if (s->ack_at && now >= s->ack_at) {
        s->ack_at = 0;
        s->say |= s->state == SESSION_OPENING ? SAY_OPEN : SAY_ACK;
    }
    if (!s->lost_at || now < s->lost_at) return 0;
    if (s->state == SESSION_ENDED) return end_told(s);
    return end_failed(s, MOYAI_EUNREACHABLE);
}

int session_step(struct session *s, const struct session_event *ev) {
    /* What adds to the effects that are being fetched, and disturbs none of them. */
    switch (ev->kind) {
    case SESSION_EV_SEND:
        return session_tx_send(s, ev);
    case SESSION_EV_DROP:
        return session_tx_drop(s, ev->token);
    case SESSION_EV_CREDIT:
        return step_credit(s, ev->credit);
    case SESSION_EV_GRANT:
        return session_rx_grant(s, ev->stream, ev->allowed);
    case SESSION_EV_KEEP:
        return step_keep(s);
    case SESSION_EV_OPEN:
    case SESSION_EV_PATH_UP:
    case SESSION_EV_PATH_DOWN:
    case SESSION_EV_RECEIVE:
    case SESSION_EV_PEER_DEAD:
    case SESSION_EV_PEER_LEFT:
    case SESSION_EV_CLOSE:
    case SESSION_EV_TIMEOUT:
        break;
    }
    if (s->draining) return MOYAI_EINVAL;
    int rc = MOYAI_EINVAL;
    switch (ev->kind) {
    case SESSION_EV_RECEIVE:
        rc = step_receive(s, ev);
        break;
    case SESSION_EV_OPEN:
        rc = step_open(s, ev->now);
        break;
    case SESSION_EV_PATH_UP:
        rc = step_path_up(s, ev);
        break;
    case SESSION_EV_PATH_DOWN:
        rc = step_path_down(s, ev->now);
        break;
    case SESSION_EV_PEER_LEFT:
        if (s->state == SESSION_UP) s->counted = 1;
        rc = s->state < SESSION_ENDED ? end_failed(s, MOYAI_EDEAD) : end_told(s);
        break;
    case SESSION_EV_PEER_DEAD:
        rc = s->state < SESSION_ENDED ? end_failed(s, MOYAI_EDEAD) : end_told(s);
        break;
    case SESSION_EV_CLOSE:
        rc = step_close(s, ev->now);
        break;
    case SESSION_EV_TIMEOUT:
        rc = step_timeout(s, ev->now);
        break;
    case SESSION_EV_SEND:
    case SESSION_EV_DROP:
    case SESSION_EV_CREDIT:
    case SESSION_EV_GRANT:
    case SESSION_EV_KEEP:
        break; /* above */
    }
    if (rc == 0) s->draining = 1;
    return rc;
}

static bool tell(struct session *s, struct session_effect *fx, enum session_tell bit, enum session_effect_kind kind) {
    if (!(s->tell & bit)) return false;
    s->tell &= ~(uint32_t)bit;
    *fx = (struct session_effect){.kind = kind};
    return true;
}

static bool tell_end(struct session *s, struct session_effect *fx) {
    if (session_tx_next_end(s, fx) || session_rx_next_end(s, fx)) return true;
    if (s->lost_at || !tell(s, fx, TELL_END, s->code ? SESSION_FX_FAILED : SESSION_FX_CLOSED)) return false;
    fx->code = s->code;
    return true;
}

bool session_next(struct session *s, struct session_effect *fx) {
    if (!s->draining) return false;
    if (s->tell) {
        if (tell(s, fx, TELL_OPENED, SESSION_FX_OPENED)) return true;
        if (tell(s, fx, TELL_PATH, SESSION_FX_PATH)) return true;
        if (tell(s, fx, TELL_WANT, SESSION_FX_WANT_PATH)) return true;
    }
    if (s->tx_acked != s->ack_to && session_tx_next_acked(s, fx)) return true;
    if (s->chunks && session_rx_next(s, fx)) return true;
    if (s->drop_n + s->report_n && session_tx_next_dropped(s, fx)) return true;
    if (s->state == SESSION_CLOSING && session_tx_next_closing(s, fx)) return true;
    if (s->state >= SESSION_ENDED && tell_end(s, fx)) return true;
    s->draining = 0;
    return false;
}

/* The first that is due. */
static void pull_control(struct session *s, struct session_frame *out) {
    static const enum session_frame_kind kinds[] = {SESSION_OPEN,  SESSION_ACCEPT, SESSION_RESUME, SESSION_RESUMED,
                                                    SESSION_CLOSE, SESSION_CLOSED, SESSION_REFUSE};
    out->kind = kinds[__builtin_ctz(s->say)];
    s->say &= s->say - 1;
}

/* Controls first; an acknowledgement only if nothing else carries it. */
static bool pull_any(struct session *s, uint64_t room, struct session_frame *out) {
    if (s->say & ~(uint32_t)SAY_ACK) {
        pull_control(s, out);
        return true;
    }
    if (session_rx_pull_grant(s, out)) return true;
    if (s->state == SESSION_UP && session_tx_pull(s, room, out)) return true;
    out->kind = SESSION_ACK;
    return (s->say & SAY_ACK) != 0;
}

bool session_pull(struct session *s, moyai_ns now, uint64_t room, struct session_frame *out) {
    if (!s->path_up) return false;
    struct session_chunk *chunks = out->chunks;
    *out = (struct session_frame){.id = s->id, .path = s->path, .ack = s->rx_next, .chunks = chunks};
    if (!pull_any(s, room, out)) return false;
    session_rx_said(s); /* OPEN and ACCEPT too: what has no count to carry has taken nothing */
    if (out->kind == SESSION_OPEN) {
        s->asked = 1;
        if (s->state == SESSION_OPENING) s->ack_at = session_after(now, OPEN_AGAIN);
    }
    if (out->kind == SESSION_CLOSED && s->lost_at) s->lost_at = 1; /* over */
    return true;
}

bool session_pending(const struct session *s) {
    if (!s->path_up) return false;
    return s->say || s->grant_n || (s->state == SESSION_UP && session_tx_ready(s));
}

moyai_ns session_deadline(const struct session *s) {
    uint64_t at = s->ack_at ? s->ack_at : UINT64_MAX;
    return s->lost_at && s->lost_at < at ? s->lost_at : at;
}

uint64_t session_id(const struct session *s) {
    return s->id;
}

bool session_idle(const struct session *s) {
    return s->state == SESSION_UP && s->used == 0 && s->rx_said == s->rx_next && !session_pending(s) &&
           session_bit_next(s, SET_RX_USED, 0) == s->streams;
}

uint32_t session_owes(const struct session *s) {
    return s->used;
}

bool session_refuse(const struct session_frame *in, struct session_frame *out) {
    if (in->kind == SESSION_REFUSE || in->kind == SESSION_CLOSED) return false;
    struct session_chunk *chunks = out->chunks;
    *out = (struct session_frame){.kind = SESSION_REFUSE, .id = in->id, .chunks = chunks};
    return true;
}
