/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One peer: the session with it, and how session frames meet links. queue.c has the messages before the session.
 *
 * Frames are pulled from the session only while the link has room: what is not pulled is still certainly unsent.
 *
 * Life of a session here: created by the first message (or the peer's OPEN), kept while calls are open, closed in
 * order when idle for cfg.idle, after which the next message opens another. What an orderly close found untaken is
 * put back in front of the queue: it was never executed, so giving it again is right.
 */
#include "base/err.h"
#include "overlay/io/beat.h"
#include "overlay/io/direct.h"
#include "overlay/io/internal.h"
#include "overlay/io/route.h"
#include "overlay/io/wide.h"
#include "overlay/session_wire.h"

#include <stdlib.h>
#include <string.h>

#define FRAME_ROOM    (256u * 1024 + 2 * SESSION_HEAD_MAX) /* of a data frame: a whole chunk, and heads */
#define RETRY_FIRST   (1 * MOYAI_MS)
#define RETRY_MOST    (200 * MOYAI_MS)
#define GRANTS_A_STEP 64
#define ANSWER        (3 * MOYAI_SEC) /* to a session that begins or changes over, until another way is tried */

void peer_mark(struct peer *p) {
    if (p->dirty) return;
    p->dirty = true;
    p->dirty_next = p->o->dirty;
    p->o->dirty = p;
    exec_attention(p->o->x);
}

/* ---- the session ----------------------------------------------------------------------------- */

static void session_timer_due(struct exec *x, struct exec_timer *t);

static void step(struct peer *p, struct session_event *ev) {
    ev->now = exec_now(p->o->x);
    (void)session_step(p->session, ev); /* EINVAL: the event came too late to mean anything */
    peer_drain(p, NULL, NULL, (struct via){0}, NULL, NULL, NULL);
}

#define STREAMS_SIZE ((PEER_STREAMS + 1) * sizeof(struct inbound *))

static int session_make(struct peer *p) {
    struct overlay *o = p->o;
    struct session_cfg c = o->session_cfg;
    do c.id = rng_next(&o->rng);
    while (c.id == 0);
    c.lower = id_cmp(o->cfg.self.b, p->id) < 0;
    size_t n = (session_size(&c) + 63) / 64 * 64;
    struct session *s = aligned_alloc(64, n + (STREAMS_SIZE + 63) / 64 * 64);
    if (!s) return MOYAI_ENOMEM;
    int rc = session_init(s, &c);
    if (rc < 0) {
        free(s);
        return rc;
    }
    p->session = s;
    p->in = memset((char *)s + n, 0, STREAMS_SIZE);
    p->session_key = c.id;
    p->opened = p->closing = p->want_path = false;
    p->via = (struct via){0};
    p->retries = 0;
    return 0;
}

/* The session runs over something else from now on, or over nothing. Over a path of before it stays until it stands on
 * the new one. */
static void set_via(struct peer *p, struct via via, bool stands) {
    uint64_t old = p->via.path != via.path ? p->via.path : 0, older = p->old_path;
    p->via = via;
    p->counted = false;
    p->old_path = stands ? 0 : old;
    if (older && older != p->old_path) route_end(p->o->route, older);
    if (old && stands) route_end(p->o->route, old);
}

static void session_end(struct peer *p) {
    exec_timer_clear(p->o->x, &p->session_timer);
    exec_timer_clear(p->o->x, &p->idle_timer);
    exec_timer_clear(p->o->x, &p->retry_timer);
    for (uint32_t i = 1; p->in && i <= PEER_STREAMS; i++)
        if (p->in[i]) peer_unplace(p, p->in[i]);
    for (uint32_t i = 1; p->in && i <= PEER_STREAMS; i++) {
        struct inbound *in = p->in[i];
        p->in[i] = NULL;
        if (in) p->o->ops->aborted(p->o->ctx, in);
    }
    free(p->session);
    p->session = NULL;
    p->in = NULL;
    set_via(p, (struct via){0}, true);
    p->opened = p->closing = p->want_path = false;
    peer_mark(p);
}

/* Also where everything is late the other way is to be tried before the session's time is over. */
static moyai_ns answer_due(const struct peer *p) {
    moyai_dur patience = beat_patience(p->o);
    return p->via_since + (moyai_ns)((ANSWER << p->unanswered) + (patience < ANSWER ? patience : ANSWER));
}

static void use_via(struct peer *p, struct via via) {
    p->want_path = p->answered = false;
    p->retries = 0;
    p->path_rc = 0;
    set_via(p, via, false);
    p->via_since = exec_now(p->o->x);
    if (p->o->route) exec_timer_set(p->o->x, &p->retry_timer, answer_due(p));
    struct session_event ev = {.kind = SESSION_EV_PATH_UP, .credit = UINT64_MAX};
    step(p, &ev);
    peer_mark(p);
}

static void retry_later(struct peer *p) {
    moyai_dur wait = RETRY_FIRST << (p->retries < 8 ? p->retries : 8);
    if (wait > RETRY_MOST) wait = RETRY_MOST;
    p->retries++;
    exec_timer_set(p->o->x, &p->retry_timer, moyai_now() + (moyai_ns)wait);
    if (p->o->wide) wide_waits(p->o->wide);
}

static bool elsewhere(const struct peer *p) {
    struct moyai_node_id id;
    memcpy(id.b, p->id, 16);
    return p->o->route && !p->here && !rundir_has(p->o->dir, &id); /* not of this host */
}

/* Try to give the session a path. */
static void find_path(struct peer *p) {
    struct overlay *o = p->o;
    if (!p->want_path || !p->session) return;
    struct olink *k = olink_ready(p);
    if (k) {
        use_via(p, (struct via){.link = k});
        return;
    }
    struct moyai_node_id id;
    memcpy(id.b, p->id, 16);
    if (elsewhere(p)) {
        unsigned retries = p->retries;
        uint64_t path = route_open(p);
        if (path) {
            use_via(p, (struct via){.path = path});
            p->retries = retries; /* until something comes by it */
        } else {
            retry_later(p);
        }
        return;
    }
    if (olink_coming(p)) return;
    int rc = p->path_rc = olink_connect(p);
    if (rc == MOYAI_EDEAD) {
        char text[MOYAI_ERROR_TEXT];
        struct moyai_error why = {0};
        if (directory_elsewhere(o, &id, &why)) {
            peer_fail(p, MOYAI_EUNREACHABLE, why.text);
            return;
        }
        if (rundir_has(o->dir, &id)) {
            peer_died_text(p, "its process has ended", text);
        } else { /* who removed it, the node itself or somebody who found it dead, cannot be known any more */
            char who[PEER_NAME];
            peer_name(p, who);
            if (p->pid != 0 || p->here) /* it has said hello, or its entry is there */
                snprintf(text, sizeof text, "%s has ended: its socket is gone", who);
            else
                snprintf(text, sizeof text, "%s has ended, or never was: it has no socket in run directory '%.64s'",
                         who, rundir_path(o->dir));
        }
        p->found_dead = true;
        peer_declare(p, MOYAI_EDEAD, text);
        return;
    }
    if (rc == MOYAI_EUNREACHABLE || rc == MOYAI_EPERM) {
        peer_fail(p, MOYAI_EUNREACHABLE,
                  rc == MOYAI_EPERM ? "its socket belongs to another user"
                                    : "this node is in no grid and can reach no other node");
        return;
    }
    if (rc < 0) retry_later(p);
}

static void leave_path(struct peer *p) {
    const uint64_t path = p->via.path;
    peer_path_down(p, path); /* and it wants another */
    route_end(p->o->route, path);
}

/* Some link on the way is silent, perhaps, of which somebody will know in some seconds: too late for this session. */
static void go_round(struct peer *p) {
    p->unanswered = 1;
    route_unanswered(p, p->via);
    if (p->via.path) {
        leave_path(p);
        return;
    }
    uint64_t path = route_open(p);
    if (path) use_via(p, (struct via){.path = path});
}

static void retry_due(struct exec *x, struct exec_timer *t) {
    struct peer *p = (struct peer *)((char *)t - offsetof(struct peer, retry_timer));
    bool asks = !p->want_path && (p->via.link || p->via.path);
    if (!asks || p->answered || !p->session || p->closing || p->dead || !elsewhere(p))
        find_path(p);
    else if (answer_due(p) > exec_now(x))
        exec_timer_set(x, t, answer_due(p)); /* things have become late meanwhile */
    else
        go_round(p);
}

void peer_link_up(struct peer *p, struct olink *k) {
    p->nowhere = 0;
    pings_send(p);
    /* A link to the peer itself is better than any path through others, above all one by which nobody has answered. */
    const bool over = p->session && p->via.path && !p->want_path && !p->closing;
    if (over && !p->opened) leave_path(p);
    if (over && p->opened)
        use_via(p, (struct via){.link = k});
    else
        find_path(p);
}

void peer_path_down(struct peer *p, uint64_t path) {
    if (p->old_path == path) p->old_path = 0;
    if (p->via.path != path) return;
    p->via.path = 0;
    if (!p->session) return;
    struct session_event ev = {.kind = SESSION_EV_PATH_DOWN};
    step(p, &ev);
}

void peer_path_leaves(struct peer *p, uint64_t path) {
    if (p->via.path != path || !p->session || !p->opened || p->closing) return;
    uint64_t other = route_open(p);
    if (other) use_via(p, (struct via){.path = other});
}

void peer_link_down(struct peer *p, struct olink *k) {
    if (p->via.link == k) {
        p->via.link = NULL;
        if (p->session) {
            struct session_event ev = {.kind = SESSION_EV_PATH_DOWN};
            step(p, &ev);
        }
    } else if (p->want_path && !olink_ready(p) && !olink_coming(p)) {
        /* An attempt ended before its hello: the socket's owner may be dying right now. */
        p->retries++;
        exec_timer_set(p->o->x, &p->retry_timer, moyai_now() + (moyai_ns)RETRY_FIRST);
    }
    pings_connect(p);
    pings_send(p);
}

/* Why everything with the peer fails, which has not died. */
static void set_why(struct peer *p, struct moyai_error *why, int code, const char *text) {
    if (p->o->closing) {
        err_set(why, code, "%s", text); /* it is this node's doing */
    } else {
        char who[PEER_NAME];
        peer_name(p, who);
        err_set(why, code, "%s: %s", who, text);
    }
    why->where = code == MOYAI_EUNREACHABLE ? MOYAI_AT_PATH : MOYAI_AT_PEER;
    const bool never = p->cleared && code == MOYAI_ECLOSED && !p->o->closing;
    why->executed = never ? MOYAI_NEVER_EXECUTED : MOYAI_MAY_HAVE_EXECUTED;
}

/* Everything with this peer fails: messages, then what the layer above has open. */
void peer_fail(struct peer *p, int code, const char *text) {
    struct moyai_error why = *peer_why(p);
    if (!p->dead) {
        set_why(p, &why, code, text);
        peer_set_why(p, &why);
    }
    if (p->session) {
        struct session_event ev = {.kind = p->counted ? SESSION_EV_PEER_LEFT : SESSION_EV_PEER_DEAD,
                                   .now = exec_now(p->o->x)};
        if (session_step(p->session, &ev) == 0) peer_drain(p, NULL, NULL, (struct via){0}, NULL, NULL, NULL);
        if (p->session) session_end(p);
    } else {
        p->o->ops->failed(p->o->ctx, p, &why);
    }
    struct msg_list *const lists[] = {&p->requests, &p->nested, &p->others};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        while (lists[i]->first) {
            struct msg *m = lists[i]->first;
            msg_list_remove(lists[i], m);
            peer_waiting_sub(p, m);
            peer_over(p, m);
            m->done(m, code, MOYAI_NEVER_EXECUTED);
        }
    }
    peer_mark(p);
}

static void schedule(struct peer *p) {
    if (!p->session) return;
    moyai_ns when = session_deadline(p->session);
    /* Lazily: a timer that fires too early looks again; one that is later than need be is moved. */
    if (when != UINT64_MAX && (p->session_timer.index == SIZE_MAX || p->session_timer.when > when))
        exec_timer_set(p->o->x, &p->session_timer, when);
}

static void session_timer_due(struct exec *x, struct exec_timer *t) {
    struct peer *p = (struct peer *)((char *)t - offsetof(struct peer, session_timer));
    if (!p->session) return;
    moyai_ns when = session_deadline(p->session);
    if (when <= exec_now(x)) {
        struct session_event ev = {.kind = SESSION_EV_TIMEOUT};
        step(p, &ev);
        if (p->session && session_pending(p->session)) peer_mark(p);
    }
    schedule(p);
}

bool peer_unused(const struct peer *p) {
    return p->session && p->opened && !p->closing && !p->draining && session_idle(p->session) && !peer_waiting(p) &&
           !p->o->ops->busy(p->o->ctx, (struct peer *)(uintptr_t)p);
}

void peer_session_close(struct peer *p) {
    p->closing = true;
    struct session_event ev = {.kind = SESSION_EV_CLOSE};
    step(p, &ev);
    if (p->session) peer_mark(p);
}

static void idle_due(struct exec *x, struct exec_timer *t) {
    struct peer *p = (struct peer *)((char *)t - offsetof(struct peer, idle_timer));
    if (!p->session || p->closing) return;
    moyai_ns now = exec_now(x), end = p->last_active + (moyai_ns)p->idle;
    /* It was opened for a message, which is on its way: who closes too early is opened again and again. */
    bool awaits = p->rx_next == UINT64_MAX && now < p->last_active + (moyai_ns)ANSWER;
    if (now >= end && !awaits && peer_unused(p)) {
        peer_session_close(p);
        return;
    }
    if (now >= end) p->idle = p->o->cfg.idle;
    if (p->idle != MOYAI_FOREVER) exec_timer_set(x, t, end > now ? end : now + (moyai_ns)p->idle);
}

struct grant {
    uint32_t stream;
    uint64_t total;
};

/* Tell the layer above what an effect says; bytes: of its chunk. */
static void deliver(struct peer *p, const struct session_effect *fx, uint8_t *bytes, struct grant *grants,
                    size_t *n_grants, int *rc) {
    const struct overlay_ops *ops = p->o->ops;
    void *ctx = p->o->ctx;
    if (fx->stream == 0) {
        int e = ops->message(ctx, p, bytes + fx->skip, fx->len);
        if (e < 0 && rc) *rc = e;
        return;
    }
    struct inbound *in = p->in[fx->stream];
    if (fx->flags & SESSION_BEGIN) {
        in = ops->begin(ctx, p, bytes + fx->skip, fx->len, fx->total);
        p->in[fx->stream] = in;
        if (in) {
            in->peer = p;
            in->stream = fx->stream;
            in->total = fx->total;
            in->have = 0;
        }
        /* Also of one that is refused: it is read and forgotten, so that its stream becomes free. */
        if (*n_grants < GRANTS_A_STEP) grants[(*n_grants)++] = (struct grant){fx->stream, fx->total};
    }
    if (!in) return;
    if (in->body + fx->offset != bytes + fx->skip) memcpy(in->body + fx->offset, bytes + fx->skip, fx->len);
    in->have = fx->offset + fx->len;
    if (fx->flags & SESSION_END) {
        p->in[fx->stream] = NULL;
        peer_unplace(p, in);
        int e = ops->complete(ctx, in);
        if (e < 0 && rc) *rc = e;
    }
}

void peer_drain(struct peer *p, const struct session_frame *frame, uint8_t *payload, struct via via,
                struct msg *dropping, bool *dropped, int *rc) {
    struct session_effect fx;
    struct grant grants[GRANTS_A_STEP];
    size_t n_grants = 0;
    uint32_t chunk = 0;
    uint8_t *at = payload;
    bool want = false;
    int ended = 0; /* 1 closed, 2 failed */
    int code = 0;
    p->draining = true;
    while (!ended && session_next(p->session, &fx)) {
        switch (fx.kind) {
        case SESSION_FX_OPENED:
            p->opened = true;
            p->session_key = session_id(p->session);
            p->last_active = exec_now(p->o->x);
            p->idle = p->o->cfg.idle;
            if (p->o->cfg.idle != MOYAI_FOREVER)
                exec_timer_set(p->o->x, &p->idle_timer, p->last_active + (moyai_ns)p->o->cfg.idle);
            peer_mark(p);
            break;
        case SESSION_FX_PATH:
            set_via(p, via, true);
            p->want_path = want = false;
            p->answered = true;
            p->rx_next = UINT64_MAX;
            peer_mark(p);
            break;
        case SESSION_FX_WANT_PATH:
            want = true;
            break;
        case SESSION_FX_DELIVER:
            while (chunk < fx.index) at += frame->chunks[chunk++].len;
            deliver(p, &fx, at, grants, &n_grants, rc);
            break;
        case SESSION_FX_ABORTED: {
            struct inbound *in = p->in[fx.stream];
            p->in[fx.stream] = NULL;
            if (!in) break;
            peer_unplace(p, in);
            p->o->ops->aborted(p->o->ctx, in);
            break;
        }
        case SESSION_FX_ACKED: {
            struct msg *m = (struct msg *)(uintptr_t)fx.token;
            peer_drops_remove(p, m);
            /* It was taken by this path; another link may still have to write what it was given of it before. */
            if (m->length >= LINK_LARGE && p->links && (p->links->peer_next || p->links != p->via.link))
                msg_unborrow(p, m);
            peer_over(p, m);
            m->done(m, 0, MOYAI_MAY_HAVE_EXECUTED);
            break;
        }
        case SESSION_FX_DROPPED: {
            struct msg *m = (struct msg *)(uintptr_t)fx.token;
            if (m == dropping) {
                *dropped = true;
                break;
            }
            peer_drops_remove(p, m);
            msg_unborrow(p, m);
            m->state = fx.executed == MOYAI_NEVER_EXECUTED ? MSG_WAITING : MSG_IN_SESSION;
            m->returned = true;
            msg_list_push(&p->returned, m);
            break;
        }
        case SESSION_FX_CLOSED:
            ended = 1;
            break;
        case SESSION_FX_FAILED:
            ended = 2;
            code = fx.code;
            break;
        }
    }
    p->draining = false;
    if (ended) {
        bool dead = p->dead || p->o->closing;
        struct moyai_error e = *peer_why(p);
        if (ended == 2 && !dead && code != MOYAI_EDEAD) {
            set_why(p, &e, MOYAI_EUNREACHABLE,
                    p->path_rc == MOYAI_ELIMIT   ? "no path to it: this process is out of descriptors (raise ulimit -n)"
                    : code == MOYAI_EUNREACHABLE ? "no path to it could be found in time"
                                                 : "the session with it was refused or broke");
        }
        if (ended == 2 && !p->dead) peer_set_why(p, &e);
        session_end(p);
        peer_returned(p, ended == 1, e.code ? e.code : MOYAI_ECLOSED);
        if (ended == 2) p->o->ops->failed(p->o->ctx, p, &e);
        if (peer_waiting(p)) peer_mark(p);
        return;
    }
    while (p->drops.first) {
        struct msg *m = p->drops.first;
        peer_drops_remove(p, m);
        if (peer_drop(p, m)) m->done(m, MOYAI_ECANCELED, MOYAI_NEVER_EXECUTED);
        if (!p->session) return;
    }
    for (size_t i = 0; i < n_grants; i++) {
        struct session_event ev = {.kind = SESSION_EV_GRANT, .stream = grants[i].stream, .allowed = grants[i].total};
        ev.now = exec_now(p->o->x);
        (void)session_step(p->session, &ev); /* complete already: nothing to allow */
    }
    if (want) {
        p->want_path = true;
        set_via(p, (struct via){0}, true);
        if (p->retries > 0 && p->o->route)
            retry_later(p); /* what was found last did not work */
        else
            find_path(p);
        if (p->o->route) p->retries++;
    }
}

/* ---- output ---------------------------------------------------------------------------------- */

static bool give(struct peer *p, struct msg *m) {
    struct session_event ev = {.kind = SESSION_EV_SEND,
                               .now = exec_now(p->o->x),
                               .token = (uint64_t)(uintptr_t)m,
                               .length = m->length,
                               .request = m->request};
    if (session_step(p->session, &ev) < 0) return false;
    msg_list_remove(peer_list(p, m), m);
    if (m->limited) {
        m->counted = true;
        if (p->open++ == 0) beat_begin(p);
    }
    m->state = MSG_IN_SESSION;
    peer_waiting_sub(p, m);
    return true;
}

/* Give waiting messages to the session. */
static void refill(struct peer *p) {
    struct msg *m;
    while ((m = p->others.first) && give(p, m)) {
    }
    while ((m = peer_next_request(p)) && give(p, m)) {
    }
}

#define PIECES_MOST 64

static void put_chunks(uint8_t *out, const struct session_frame *f) {
    session_wire_put_head(out, f);
    out += session_wire_head_size(f);
    for (uint32_t i = 0; i < f->n_chunks; i++) {
        const struct session_chunk *c = &f->chunks[i];
        if (c->flags & SESSION_ABORT)
            memset(out, 0, c->len); /* of no meaning; its message may be gone already */
        else
            msg_copy((const struct msg *)(uintptr_t)c->token, c->offset, c->len, out);
        out += c->len;
    }
}

static int send_frame(struct peer *p, const struct session_frame *f) {
    size_t head = session_wire_head_size(f), n = head;
    bool large = false;
    for (uint32_t i = 0; i < f->n_chunks; i++) {
        n += f->chunks[i].len;
        large |= f->chunks[i].len >= LINK_LARGE;
    }
    struct frame_head h = {.type = (uint8_t)(FRAME_SESSION + f->kind),
                           .class_ = f->kind != SESSION_DATA ? FRAME_CONTROL
                                     : large                 ? FRAME_BULK
                                                             : FRAME_SMALL,
                           .hops = 1,
                           .length = (uint32_t)n};
    if (large && f->n_chunks == 1) {
        uint8_t bytes[LINK_PREFIX];
        struct link_piece pieces[PIECES_MOST];
        const struct msg *m = (const struct msg *)(uintptr_t)f->chunks[0].token;
        size_t k = msg_pieces(m, f->chunks[0].offset, f->chunks[0].len, pieces + 1, PIECES_MOST - 1);
        if (k > 0) {
            session_wire_put_head(bytes, f);
            pieces[0] = (struct link_piece){bytes, head};
            return link_send(p->via.link->link, &h, pieces, k + 1);
        }
    }
    uint8_t *out = link_reserve(p->via.link->link, &h);
    if (!out) return MOYAI_ENOMEM;
    put_chunks(out, f);
    return 0;
}

void peer_room(struct peer *p, uint64_t path, uint32_t amount) {
    struct overlay *o = p->o;
    if (p->via.path != path || !p->session) return;
    moyai_ns now = exec_now(o->x);
    struct session_frame f = {.chunks = o->tx_chunks};
    if (p->opened && !p->closing) refill(p);
    if (!session_pull(p->session, now, amount, &f)) return;
    size_t n = session_wire_head_size(&f);
    bool bulk = false;
    for (uint32_t i = 0; i < f.n_chunks; i++) {
        n += f.chunks[i].len;
        bulk |= f.chunks[i].stream != 0;
    }
    struct frame_head h = {.type = (uint8_t)(FRAME_SESSION + f.kind),
                           .class_ = f.kind != SESSION_DATA ? FRAME_CONTROL
                                     : bulk                 ? FRAME_BULK
                                                            : FRAME_SMALL,
                           .length = (uint32_t)n};
    uint8_t *out = route_send(o->route, path, &h);
    if (out) {
        put_chunks(out, &f);
        p->last_active = now;
        direct_moved(p, n);
    } else { /* it counts as sent: only another path helps */
        peer_path_down(p, path);
        route_end(o->route, path);
        return;
    }
    if (session_pending(p->session) || peer_waiting(p)) route_want(o->route, path);
    schedule(p);
}

void peer_pump(struct peer *p) {
    p->gathered = 0;
    if (p->dead) return;
    if (p->broken) {
        const char *text = p->broken;
        p->broken = NULL;
        peer_fail(p, MOYAI_EUNREACHABLE, text);
        return;
    }
    if (!p->session) {
        if (!peer_waiting(p)) {
            direct_over(p);
            return;
        }
        int rc = session_make(p);
        if (rc < 0) {
            peer_fail(p, rc, "out of memory for a session");
            return;
        }
        struct session_event ev = {.kind = SESSION_EV_OPEN};
        step(p, &ev);
        if (!p->session) return;
    }
    if (p->opened && !p->closing) refill(p);
    if (p->via.path) {
        if (session_pending(p->session)) route_want(p->o->route, p->via.path);
        if (p->session) schedule(p);
        return;
    }
    if (!p->via.link) {
        schedule(p);
        return;
    }
    struct overlay *o = p->o;
    moyai_ns now = exec_now(o->x);
    bool sent = false;
    for (;;) {
        size_t room = link_room(p->via.link->link);
        if (room == 0) break; /* the link calls for more when it has drained */
        struct session_frame f = {.chunks = o->tx_chunks};
        if (!session_pull(p->session, now, FRAME_ROOM, &f)) {
            if (p->opened && !p->closing && peer_waiting(p)) {
                refill(p);
                if (session_pending(p->session)) continue;
            }
            break;
        }
        sent = true;
        if (send_frame(p, &f) < 0) {
            link_reset(p->via.link->link, MOYAI_ENOMEM, "out of memory for a frame");
            break;
        }
    }
    if (sent) p->last_active = now;
    if (sent) olink_wait(p->via.link);
    link_flush(p->via.link->link);
    schedule(p);
}

/* ---- input ----------------------------------------------------------------------------------- */

static int receive(struct peer *p, struct via via, struct session_frame *f, uint8_t *payload, struct moyai_error *why) {
    struct overlay *o = p->o;
    if (!p->session || f->id != p->session_key) {
        bool open = f->kind == SESSION_OPEN;
        if (open && p->session && p->opened && !p->dead) {
            /* It was under way while both opened, or the peer has given our session up: the machine asks it. */
            struct session_event ev = {.kind = SESSION_EV_RECEIVE, .frame = f, .credit = UINT64_MAX};
            step(p, &ev);
            if (p->session) {
                if (session_pending(p->session)) peer_mark(p);
                schedule(p);
                return 0;
            }
        }
        if (open && !p->dead && !o->closing && !p->session) {
            int rc = session_make(p);
            if (rc < 0) return err_set(why, rc, "out of memory for a session");
        }
        if (!open || !p->session) {
            if (o->closing) return 0; /* a farewell follows, which says more than that there is no such session */
            struct session_frame refuse = {0};
            if (!session_refuse(f, &refuse)) return 0;
            if (!via.link) {
                route_refuse(o->route, via.path, &refuse);
                return 0;
            }
            size_t n = session_wire_head_size(&refuse);
            struct frame_head h = {.type = (uint8_t)(FRAME_SESSION + refuse.kind),
                                   .class_ = FRAME_CONTROL,
                                   .hops = 1,
                                   .length = (uint32_t)n};
            if (!olink_may_answer(via.link))
                return err_set(why, MOYAI_EPROTO, "it does not read the answers to its frames");
            uint8_t *out = link_reserve(via.link->link, &h);
            if (!out) return err_set(why, MOYAI_ENOMEM, "out of memory for a refusal");
            session_wire_put_head(out, &refuse);
            link_flush(via.link->link);
            return 0;
        }
    }
    bool current = via.link == p->via.link && via.path == p->via.path;
    if (current && p->old_path) set_via(p, p->via, true);
    if (current) {
        p->retries = p->unanswered = 0;
        p->answered = true;
    }
    if (f->kind == SESSION_DATA && !current) return 0; /* late, of an older path: what it carries comes again */
    struct session_event ev = {.kind = SESSION_EV_RECEIVE, .now = exec_now(o->x), .frame = f, .credit = UINT64_MAX};
    int rc = session_step(p->session, &ev);
    if (rc == MOYAI_EPROTO) return err_set(why, rc, "session frame of kind %d breaks the protocol", (int)f->kind);
    if (rc < 0) return 0; /* means nothing in this state: a late frame */
    if (f->kind == SESSION_DATA) {
        uint64_t n = 0;
        for (uint32_t i = 0; i < f->n_chunks; i++) n += f->chunks[i].len;
        p->rx_next = f->seq + n;
    }
    rc = 0;
    peer_drain(p, f, payload, via, NULL, NULL, &rc);
    if (rc < 0) { /* the message is lost: with another link all would go on as if it had never been */
        overlay_break(p, "a message of it broke the protocol");
        return err_set(why, rc, "message breaks the protocol: %s", moyai_strerror(rc));
    }
    if (p->session) {
        p->last_active = exec_now(o->x);
        /* An acknowledgement may have made room for what waits. */
        if (peer_waiting(p) || session_pending(p->session)) peer_mark(p);
        schedule(p);
    }
    return 0;
}

int peer_frame(struct peer *p, struct via via, uint8_t type, uint8_t *payload, uint32_t n, struct moyai_error *why) {
    struct session_frame f = {.chunks = p->o->rx_chunks};
    size_t head;
    int rc = session_wire_get(type, payload, n, &f, &head, why);
    if (rc < 0) return rc;
    if (via.path && p->session) direct_moved(p, n);
    return receive(p, via, &f, payload + head, why);
}

/* The usual large frame: one chunk that continues a message we are taking, exactly the next bytes. */
size_t peer_place(struct peer *p, struct olink *k, const struct frame_head *h, const uint8_t *prefix, uint8_t **dest) {
    struct session_frame f = {.chunks = p->o->rx_chunks};
    size_t head;
    if (!session_wire_peek(h->type, prefix, LINK_PREFIX, h->length, &f, &head)) return 0;
    if (k != p->via.link || !p->session || f.id != p->session_key || f.n_chunks != 1 || f.seq != p->rx_next) return 0;
    const struct session_chunk *c = &f.chunks[0];
    if (c->stream == 0 || c->stream > PEER_STREAMS || (c->flags & (SESSION_BEGIN | SESSION_ABORT))) return 0;
    struct inbound *in = p->in[c->stream];
    if (!in || !in->body || c->len != h->length - head || in->total - in->have < c->len) return 0;
    *dest = in->body + in->have;
    return head;
}

int peer_placed(struct peer *p, struct olink *k, const struct frame_head *h, const uint8_t *prefix, uint8_t *dest,
                struct moyai_error *why) {
    struct session_frame f = {.chunks = p->o->rx_chunks};
    size_t head;
    if (!session_wire_peek(h->type, prefix, LINK_PREFIX, h->length, &f, &head)) return MOYAI_EINTERNAL;
    if (!dest) return 0; /* its session has ended meanwhile */
    return receive(p, (struct via){.link = k}, &f, dest, why);
}

/* ---- life ------------------------------------------------------------------------------------ */

void peer_init(struct peer *p) {
    exec_timer_init(&p->session_timer, session_timer_due);
    exec_timer_init(&p->idle_timer, idle_due);
    exec_timer_init(&p->retry_timer, retry_due);
    exec_timer_init(&p->ping_timer, pings_due);
    exec_timer_init(&p->beat_timer, beat_due);
    p->rx_next = UINT64_MAX;
}

void peer_close(struct peer *p) {
    if (p->session) session_end(p);
    exec_timer_clear(p->o->x, &p->retry_timer);
    exec_timer_clear(p->o->x, &p->ping_timer);
    exec_timer_clear(p->o->x, &p->beat_timer);
    for (struct peer **q = &p->o->dirty; *q; q = &(*q)->dirty_next)
        if (*q == p) {
            *q = p->dirty_next;
            break;
        }
    free(p->data);
}
