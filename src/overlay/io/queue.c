/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages towards one peer, before and while the session has them.
 *
 * A message given by the layer above waits in the peer's queue until the session has an entry for it. Requests keep
 * their order among themselves, but for small ones behind a large one that waits for a stream: these pass, if no other
 * of their lane stands before them. Replies, signals and cancels have a queue of their own, so that requests that wait
 * for room never keep a reply back. Both are bounded.
 *
 * The bytes of replies are counted until the peer has acknowledged them. One that is made is always taken: it is in
 * memory already, and its caller waits for it. Over the bound the layer above begins no further call of that peer.
 *
 * When as many calls are open at the peer as it may have in progress, further ones wait here instead of being refused
 * there. Nested ones do not: the peer takes them beyond its limit, and what is open may be waiting for them. They then
 * overtake those that are held back, and only then.
 *
 * A message can be taken back at any time. What waits is unlinked; what the session has is withdrawn there, and if
 * some of it may still have to be sent (again), borrowed pieces are copied first, so that the layer above may free
 * them at once. While the session tells its effects it cannot be asked: then this is done when it has told them all,
 * still under the same hold of the node lock.
 */
#include "overlay/io/internal.h"

#include <stdlib.h>
#include <string.h>

#define FLUSH_AT    (64u * 1024) /* gathered bytes at which a sender writes at once instead of at the end of the turn */
#define PASS_MOST   256u         /* requests looked at for one that may pass */
#define OTHERS_MORE 4096u        /* replies and control messages waiting, beyond two for each call that may be open */

void msg_list_push(struct msg_list *l, struct msg *m) {
    m->next = NULL;
    m->prev = l->last;
    if (l->last)
        l->last->next = m;
    else
        l->first = m;
    l->last = m;
}

/* In front of all that were given later: close to the front, where the list is of messages never taken back. */
static void msg_list_put_back(struct msg_list *l, struct msg *m) {
    struct msg *next = l->first;
    while (next && next->order < m->order) next = next->next;
    if (!next) {
        msg_list_push(l, m);
        return;
    }
    m->next = next;
    m->prev = next->prev;
    next->prev = m;
    if (m->prev)
        m->prev->next = m;
    else
        l->first = m;
}

void msg_list_remove(struct msg_list *l, struct msg *m) {
    if (m->prev)
        m->prev->next = m->next;
    else
        l->first = m->next;
    if (m->next)
        m->next->prev = m->prev;
    else
        l->last = m->prev;
    m->next = m->prev = NULL;
}

/* ---- waiting --------------------------------------------------------------------------------- */

bool overlay_has_room(const struct peer *p) {
    return p->waiting_calls < p->o->cfg.queue_calls && p->waiting_bytes < p->o->cfg.queue_bytes;
}

static void peer_waiting_add(struct peer *p, const struct msg *m) {
    if (!m->request) {
        p->waiting_others++;
        return;
    }
    p->waiting_calls++;
    p->waiting_bytes += m->length;
    if (!overlay_has_room(p)) p->was_full = true;
}

void peer_waiting_sub(struct peer *p, const struct msg *m) {
    if (!m->request) {
        p->waiting_others--;
        return;
    }
    p->waiting_calls--;
    p->waiting_bytes -= m->length;
    /* Half empty before saying so: those who wait come back together, not one by one. */
    if (p->was_full && p->waiting_calls <= p->o->cfg.queue_calls / 2 && p->waiting_bytes <= p->o->cfg.queue_bytes / 2) {
        p->was_full = false;
        p->o->ops->room(p->o->ctx, p);
    }
}

/* Bytes are owed from overlay_send until the message is over. */
static void owe(struct peer *p, const struct msg *m) {
    if (m->request) return;
    p->owed_bytes += m->length;
    if (p->owed_bytes >= p->o->cfg.queue_bytes) p->owes_much = true;
}

void peer_over(struct peer *p, struct msg *m) {
    m->state = MSG_IDLE;
    if (m->request) return;
    p->owed_bytes -= m->length;
    if (p->owes_much && p->owed_bytes <= p->o->cfg.queue_bytes / 2) {
        p->owes_much = false;
        p->o->ops->owes_less(p->o->ctx, p);
    }
}

bool overlay_owes_much(const struct peer *p) {
    return p->owes_much;
}

struct msg_list *peer_list(struct peer *p, const struct msg *m) {
    return !m->request ? &p->others : m->nested ? &p->nested : &p->requests;
}

/* Of two lists the one that was given first. */
static struct msg *earlier(struct msg *m, struct msg *nested) {
    return m && (!nested || m->order < nested->order) ? m : nested;
}

/* A large request can wait for minutes: all streams are in use, and take turns on a slow path. */
static struct msg *passing(const struct peer *p, struct msg *m, struct msg *nested) {
    uint64_t before = 0; /* lanes, a bit each; some share one */
    for (uint32_t n = 0; n < PASS_MOST && before != UINT64_MAX; n++) {
        struct msg *e = earlier(m, nested);
        if (!e) return NULL;
        const uint64_t lane = UINT64_C(1) << e->lane % 64;
        if (!(before & lane) && session_room(p->session, e->length, true)) return e;
        before |= lane;
        if (e == m)
            m = m->next;
        else
            nested = nested->next;
    }
    return NULL;
}

struct msg *peer_next_request(const struct peer *p) {
    struct msg *m = p->requests.first, *nested = p->nested.first;
    if (m && m->limited && p->open >= p->o->cfg.open_calls) m = NULL;
    struct msg *next = earlier(m, nested);
    if (!next || session_room(p->session, next->length, true)) return next;
    return session_room(p->session, 1, true) ? passing(p, m, nested) : NULL;
}

int overlay_send(struct peer *p, struct msg *m) {
    struct overlay *o = p->o;
    if (p->dead) return p->why_code;
    if (o->closing) return MOYAI_ECLOSED;
    if (m->request && !overlay_has_room(p)) {
        p->was_full = true;
        return MOYAI_EAGAIN;
    }
    /* Signals leave half of the room to what is owed. */
    if (m->spare && p->waiting_others >= o->cfg.open_calls + OTHERS_MORE / 2) return MOYAI_EAGAIN;
    if (!m->request && p->waiting_others >= 2 * o->cfg.open_calls + OTHERS_MORE) {
        /* The peer does not take what it is owed. An answer that is dropped would leave its caller waiting for ever. */
        overlay_break(p, "it does not take the answers to its calls");
        return MOYAI_EAGAIN;
    }
    m->peer = p;
    m->state = MSG_WAITING;
    if (m->request) m->order = ++p->order;
    msg_list_push(peer_list(p, m), m);
    peer_waiting_add(p, m);
    owe(p, m);
    peer_mark(p);
    p->gathered += m->length;
    if (p->gathered >= FLUSH_AT && !p->draining && p->opened && p->via.link && link_room(p->via.link->link) > 0)
        peer_pump(p);
    return 0;
}

void overlay_break(struct peer *p, const char *text) {
    p->broken = text;
    peer_mark(p);
}

void overlay_call_closed(struct peer *p) {
    if (p->open-- == p->o->cfg.open_calls && p->requests.first) peer_mark(p);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Copy message bytes [offset, offset + n) to out. */
void msg_copy(const struct msg *m, uint64_t offset, size_t n, uint8_t *out) {
    if (m->n_pieces == 0) {
        memcpy(out, m->head + offset, n);
        return;
    }
    uint64_t at = 0; /* position in the message */
    size_t from = 0; /* position in head */
    for (uint32_t i = 0; i <= m->n_pieces && n > 0; i++) {
        size_t upto = i < m->n_pieces ? m->pieces[i].at : m->head_len;
        for (int part = 0; part < 2 && n > 0; part++) {
            const uint8_t *src = part == 0 ? m->head + from : i < m->n_pieces ? m->pieces[i].p : NULL;
            size_t len = part == 0 ? upto - from : i < m->n_pieces ? m->pieces[i].n : 0;
            if (offset < at + len) {
                size_t skip = (size_t)(offset - at), k = len - skip < n ? len - skip : n;
                memcpy(out, src + skip, k);
                out += k;
                offset += k;
                n -= k;
            }
            at += len;
        }
        from = upto;
    }
}

/* Message bytes [offset, offset + n) as pieces; returns how many (at most `room`), 0 if they do not fit. */
size_t msg_pieces(const struct msg *m, uint64_t offset, size_t n, struct link_piece *out, size_t room) {
    uint64_t at = 0;
    size_t from = 0, k = 0;
    for (uint32_t i = 0; i <= m->n_pieces && n > 0; i++) {
        size_t upto = i < m->n_pieces ? m->pieces[i].at : m->head_len;
        for (int part = 0; part < 2 && n > 0; part++) {
            const uint8_t *src = part == 0 ? m->head + from : i < m->n_pieces ? m->pieces[i].p : NULL;
            size_t len = part == 0 ? upto - from : i < m->n_pieces ? m->pieces[i].n : 0;
            if (offset < at + len) {
                size_t skip = (size_t)(offset - at), take = len - skip < n ? len - skip : n;
                if (k == room) return 0;
                out[k++] = (struct link_piece){src + skip, take};
                offset += take;
                n -= take;
            }
            at += len;
        }
        from = upto;
    }
    return k;
}

/* ---- taking back ----------------------------------------------------------------------------- */

/* Links may still hold frames that refer to the message's bytes, which are about to go. */
void msg_unborrow(struct peer *p, const struct msg *m) {
    for (struct olink *k = p->links; k; k = k->peer_next) {
        (void)link_unborrow(k->link, m->head, m->head_len); /* without memory for the copy the link is reset */
        for (uint32_t i = 0; i < m->n_pieces; i++) (void)link_unborrow(k->link, m->pieces[i].p, m->pieces[i].n);
    }
}

static void copy_pieces(struct msg *m) {
    /* Rare: a call that ended early while its array was on its way. */
    uint8_t *all = malloc((size_t)m->length);
    if (!all) return; /* the caller resets the link instead */
    size_t at = 0, from = 0;
    for (uint32_t i = 0; i < m->n_pieces; i++) {
        size_t k = m->pieces[i].at - from;
        memcpy(all + at, m->head + from, k);
        at += k;
        from += k;
        memcpy(all + at, m->pieces[i].p, m->pieces[i].n);
        at += m->pieces[i].n;
    }
    memcpy(all + at, m->head + from, m->head_len - from);
    /* From here on the message is one run. */
    if (m->owned) free(m->head);
    m->owned = true;
    m->head = all;
    m->head_len = (uint32_t)m->length;
    m->n_pieces = 0;
}

/* Have the session forget a message, or at least never read its borrowed pieces again. */
bool peer_drop(struct peer *p, struct msg *m) {
    msg_unborrow(p, m);
    struct session_event ev = {.kind = SESSION_EV_DROP, .now = exec_now(p->o->x), .token = (uint64_t)(uintptr_t)m};
    if (p->session && session_step(p->session, &ev) == 0) {
        bool dropped = false;
        peer_drain(p, NULL, NULL, (struct via){0}, m, &dropped, NULL);
        peer_mark(p);
        if (dropped) {
            peer_over(p, m);
            return true;
        }
    }
    if (m->n_pieces && m->state != MSG_IDLE) {
        copy_pieces(m);
        if (m->n_pieces) /* no memory for the copy: the session goes, and the rest is never read */
            peer_fail(p, MOYAI_ENOMEM, "out of memory for a message given up early");
    }
    return false;
}

void peer_drops_remove(struct peer *p, struct msg *m) {
    if (!m->dropping) return;
    msg_list_remove(&p->drops, m);
    m->dropping = false;
}

bool overlay_drop(struct msg *m) {
    struct peer *p = m->peer;
    if (m->state == MSG_IDLE) return true;
    if (m->returned) {                             /* by a session that ends, and is in no other list */
        if (m->state != MSG_WAITING) return false; /* it is over in a moment */
        msg_list_remove(&p->returned, m);
        m->returned = false;
        peer_over(p, m);
        return true;
    }
    if (m->state == MSG_WAITING) {
        msg_list_remove(peer_list(p, m), m);
        peer_over(p, m);
        peer_waiting_sub(p, m);
        return true;
    }
    if (p->draining) { /* the session tells its effects: it is asked when it has told them all */
        if (!m->dropping) {
            m->dropping = true;
            msg_list_push(&p->drops, m);
        }
        return false;
    }
    return peer_drop(p, m);
}

/* The body of an inbound message leaves the overlay's hands: no link, be it an old path, may go on reading into it. */
void peer_unplace(struct peer *p, const struct inbound *in) {
    if (!in->body) return;
    for (struct olink *k = p->links; k; k = k->peer_next) link_unplace(k->link, in->body, (size_t)in->total);
}

void overlay_forget_inbound(struct inbound *in) {
    struct peer *p = in->peer;
    if (!p || !p->in || p->in[in->stream] != in) return;
    p->in[in->stream] = NULL;
    peer_unplace(p, in);
}

void peer_returned(struct peer *p, bool orderly, int code) {
    /* The session tells large ones after small ones. The queue has them in the order in which they were given. */
    while (p->returned.last) {
        struct msg *m = p->returned.last;
        msg_list_remove(&p->returned, m);
        m->returned = false;
        bool never = m->state == MSG_WAITING; /* marked so by drain */
        if (orderly && never && !p->dead && !p->o->closing) {
            if (m->counted) {
                m->counted = false;
                p->open--;
            }
            msg_list_put_back(peer_list(p, m), m);
            peer_waiting_add(p, m);
            continue;
        }
        peer_over(p, m);
        m->done(m, code, never ? MOYAI_NEVER_EXECUTED : MOYAI_MAY_HAVE_EXECUTED);
    }
}
