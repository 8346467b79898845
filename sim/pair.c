/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/pair.h"

#include "base/err.h"
#include "overlay/session_internal.h"
#include "overlay/session_text.h"
#include "sim/check.h"

#include <inttypes.h>
#include <string.h>

#define NOW     1 /* all there is of time */
#define NO_LINK 255

/* A frame in a queue: numbers of small worlds are small. */
struct small_chunk {
    uint8_t stream, flags, len, total, token, offset;
};
struct small_frame {
    uint8_t kind, id, n_chunks, stream;
    uint16_t path, seq, ack, allowed;
    struct small_chunk chunks[PAIR_CHUNKS];
};

struct link {
    uint8_t made, cut;
    uint8_t noticed[2]; /* by each end, that it is cut */
    uint16_t owed[2];   /* payload that end i sent and the other received: credit to come back */
    uint8_t n[2];       /* frames on their way to end i */
    struct small_frame queue[2][PAIR_QUEUE];
};

struct end {
    uint8_t given, path; /* messages given; the session's link */
    uint8_t wants, crashed, told_dead;
    uint8_t opened, closed; /* OPEN, CLOSE said */
    uint8_t dropped;        /* bits of messages */
    uint64_t credit;        /* what the path still takes, kept beside the machine's own count */
};

struct world {
    struct end end[2];
    struct link links[PAIR_LINKS];
    uint8_t cuts, replaces, crashes, timeouts; /* done */
    uint8_t zero[4];
    /* behind it: a check_flow for messages given by end 0 and by end 1, and the two machines */
};

enum {
    MOVE_OPEN,
    MOVE_SEND,
    MOVE_PULL,
    MOVE_ACK_TIME,
    MOVE_LOST_TIME,
    MOVE_CREDIT,
    MOVE_CLOSE,
    MOVE_CRASH,
    MOVE_DEAD,
    MOVE_NEW_LINK,
    MOVE_GRANT, /* one for each message of the other end */
    MOVE_DROP = MOVE_GRANT + PAIR_MESSAGES,
    MOVE_DELIVER = MOVE_DROP + PAIR_MESSAGES, /* one for each link */
    MOVE_USE = MOVE_DELIVER + PAIR_LINKS,
    MOVE_NOTICE = MOVE_USE + PAIR_LINKS,
    MOVES_OF_END = MOVE_NOTICE + PAIR_LINKS,
    MOVE_CUT = 2 * MOVES_OF_END, /* one for each link */
    MOVES = MOVE_CUT + PAIR_LINKS,
};

/* --- layout --------------------------------------------------------------------------------------- */

static size_t up16(size_t n) {
    return (n + 15) & ~(size_t)15;
}

static struct session_cfg session_of(const struct pair_cfg *cfg, int e) {
    struct session_cfg c = cfg->session;
    c.id = e == 0 ? 0xa : 0xb;
    c.lower = e == 0;
    return c;
}

static struct check_flow *flow(struct world *w, int e) {
    return (struct check_flow *)((char *)w + up16(sizeof *w) + (size_t)e * up16(check_flow_size(PAIR_MESSAGES)));
}

static struct session *machine(const struct world *w, const struct pair_cfg *cfg, int e) {
    struct session_cfg c = session_of(cfg, e);
    size_t base = up16(sizeof *w) + 2 * up16(check_flow_size(PAIR_MESSAGES));
    return (struct session *)((char *)(uintptr_t)w + base + (size_t)e * up16(session_size(&c)));
}

static size_t world_size(const struct pair_cfg *cfg) {
    struct session_cfg c = session_of(cfg, 0);
    return up16(sizeof(struct world)) + 2 * up16(check_flow_size(PAIR_MESSAGES)) + 2 * up16(session_size(&c));
}

/* --- a step, its effects, and the laws -------------------------------------------------------------- */

/* What a move works with. */
struct at {
    struct world *w;
    const struct pair_cfg *cfg;
    int e; /* whose move */
    struct moyai_error *why;
    char *text; /* effects in words, or NULL */
    size_t n;
};

static struct session *self(const struct at *at) {
    return machine(at->w, at->cfg, at->e);
}
static uint64_t full_credit(const struct pair_cfg *cfg) {
    return cfg->credit ? cfg->credit : UINT64_MAX;
}

static int law(const struct at *at, const char *text) {
    if (!text) return 1;
    err_set(at->why, MOYAI_EINTERNAL, "%s: %s", at->e == 0 ? "a" : "b", text);
    return -1;
}

static const char *effect(const struct at *at, const struct session_frame *f, uint8_t link,
                          const struct session_effect *fx) {
    struct end *end = &at->w->end[at->e];
    switch (fx->kind) {
    case SESSION_FX_OPENED:
        return NULL;
    case SESSION_FX_PATH:
        end->path = link;
        end->wants = 0;
        end->credit = full_credit(at->cfg);
        return f ? NULL : "a path without a frame";
    case SESSION_FX_WANT_PATH:
        if (end->wants) return "a path is wanted twice";
        end->wants = 1;
        return NULL;
    case SESSION_FX_DELIVER:
    case SESSION_FX_ABORTED: {
        bool ending = self(at)->state >= SESSION_ENDED;
        if (!f && !ending) return "a delivery without a frame";
        static const struct session_frame none;
        return check_delivered(flow(at->w, 1 - at->e), f ? f : &none, fx);
    }
    case SESSION_FX_ACKED:
    case SESSION_FX_DROPPED:
        return check_reported(flow(at->w, at->e), fx);
    case SESSION_FX_FAILED:
        if (!at->w->crashes && !at->w->timeouts && machine(at->w, at->cfg, 1 - at->e)->state < SESSION_ENDED)
            return "a session failed without a cause";
        return check_ended(flow(at->w, at->e));
    case SESSION_FX_CLOSED:
        return check_ended(flow(at->w, at->e));
    }
    return "an effect of no kind";
}

static int step(const struct at *at, struct session_event ev, uint8_t link) {
    struct session *s = self(at);
    ev.now = ev.now ? ev.now : NOW;
    int rc = session_step(s, &ev);
    if (rc) return rc;
    struct session_effect fx;
    const char *broken = NULL;
    while (session_next(s, &fx)) {
        if (at->text) {
            size_t len = strlen(at->text);
            if (len + 2 < at->n) memcpy(at->text + len, "  ", 3);
            session_effect_text(at->text, at->n, &fx);
        }
        if (!broken) broken = effect(at, ev.frame, link, &fx);
    }
    if (broken) return law(at, broken);
    if (!session_check(s, at->why)) return -1;
    if (!s->path_up) at->w->end[at->e].credit = 0;
    if (at->w->end[at->e].credit != s->credit) return law(at, "credit is miscounted");
    return 1;
}

#define EV(k, ...) ((struct session_event){.kind = SESSION_EV_##k, ##__VA_ARGS__})

/* For events that must be taken. */
static int must_step(const struct at *at, struct session_event ev) {
    int rc = step(at, ev, NO_LINK);
    if (rc == 1 || rc == -1) return rc;
    err_set(at->why, MOYAI_EINTERNAL, "%s: event %d refused: %s", at->e == 0 ? "a" : "b", (int)ev.kind,
            moyai_strerror(rc));
    return -1;
}

/* --- frames ------------------------------------------------------------------------------------------ */

static bool pack(struct small_frame *q, const struct session_frame *f) {
    if (f->n_chunks > PAIR_CHUNKS) return false;
    *q = (struct small_frame){.kind = (uint8_t)f->kind,
                              .id = (uint8_t)f->id,
                              .n_chunks = (uint8_t)f->n_chunks,
                              .stream = (uint8_t)f->stream,
                              .path = (uint16_t)f->path,
                              .seq = (uint16_t)f->seq,
                              .ack = (uint16_t)f->ack,
                              .allowed = (uint16_t)f->allowed};
    for (uint32_t i = 0; i < f->n_chunks; i++) {
        const struct session_chunk *c = &f->chunks[i];
        q->chunks[i] = (struct small_chunk){(uint8_t)c->stream, (uint8_t)c->flags, (uint8_t)c->len,
                                            (uint8_t)c->total,  (uint8_t)c->token, (uint8_t)c->offset};
    }
    return true;
}

static void unpack(const struct small_frame *q, struct session_frame *f, struct session_chunk *chunks) {
    *f = (struct session_frame){.kind = (enum session_frame_kind)q->kind,
                                .id = q->id,
                                .path = q->path,
                                .seq = q->seq,
                                .ack = q->ack,
                                .stream = q->stream,
                                .allowed = q->allowed,
                                .n_chunks = q->n_chunks,
                                .chunks = chunks};
    for (uint32_t i = 0; i < q->n_chunks; i++) {
        const struct small_chunk *c = &q->chunks[i];
        chunks[i] = (struct session_chunk){.stream = c->stream,
                                           .flags = c->flags,
                                           .len = c->len,
                                           .total = c->total,
                                           .token = c->token,
                                           .offset = c->offset};
    }
}

static uint64_t payload(const struct session_frame *f) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < f->n_chunks; i++) n += check_bytes(&f->chunks[i]);
    return n;
}

/* Into the link, towards the other end. */
static int push(const struct at *at, uint8_t l, const struct session_frame *f) {
    struct link *k = &at->w->links[l];
    int to = 1 - at->e;
    if (k->cut || at->w->end[to].crashed) return 1; /* lost */
    if (!pack(&k->queue[to][k->n[to]++], f)) return law(at, "test: a frame of too many chunks");
    return 1;
}

static int move_pull(const struct at *at) {
    struct end *end = &at->w->end[at->e];
    if (end->path == NO_LINK) return 0;
    struct link *k = &at->w->links[end->path];
    if (k->n[1 - at->e] == PAIR_QUEUE) return 0; /* its buffer is full */
    struct session *s = self(at);
    struct session_chunk chunks[SESSION_CHUNKS];
    struct session_frame f = {.chunks = chunks};
    bool pending = session_pending(s);
    if (!pending) return 0; /* and session_pull agrees: checked by tests of the machine */
    if (!session_pull(s, NOW, at->cfg->room, &f)) return law(at, "pending, but nothing to pull");
    if (at->text) session_frame_text(at->text, at->n, &f);
    if (f.kind == SESSION_DATA) {
        uint64_t most = end->credit < at->cfg->room ? end->credit : at->cfg->room;
        const char *broken = check_pulled(flow(at->w, at->e), &f, most);
        if (broken) return law(at, broken);
        if (end->credit != UINT64_MAX) end->credit -= payload(&f);
    }
    if (!session_check(s, at->why)) return -1;
    return push(at, end->path, &f);
}

/* The machine says "not of this session": a driver answers by a refusal. */
static int refuse(const struct at *at, uint8_t l, const struct session_frame *f) {
    struct session_frame out = {0};
    const struct link *k = &at->w->links[l];
    if (f->kind == SESSION_OPEN || !session_refuse(f, &out)) return 1; /* an OPEN: of a next session */
    if (k->n[1 - at->e] == PAIR_QUEUE) return 1;
    return push(at, l, &out);
}

static int move_deliver(const struct at *at, uint8_t l) {
    struct link *k = &at->w->links[l];
    int e = at->e;
    if (k->n[e] == 0 || at->w->end[e].crashed) return 0;
    if (k->noticed[e] && !at->cfg->late) return 0;
    struct session_frame f;
    struct session_chunk chunks[PAIR_CHUNKS];
    unpack(&k->queue[e][0], &f, chunks);
    memmove(&k->queue[e][0], &k->queue[e][1], (PAIR_QUEUE - 1) * sizeof k->queue[e][0]);
    memset(&k->queue[e][PAIR_QUEUE - 1], 0, sizeof k->queue[e][0]);
    k->n[e]--;
    if (at->text) {
        session_frame_text(at->text, at->n, &f);
        size_t len = strlen(at->text);
        if (len + 2 < at->n) memcpy(at->text + len, " |", 3);
    }
    if (at->cfg->credit && f.kind == SESSION_DATA) k->owed[1 - e] = (uint16_t)(k->owed[1 - e] + payload(&f));
    if (check_counts(self(at), &f)) check_counted(flow(at->w, e));
    int rc = step(at, EV(RECEIVE, .frame = &f, .credit = full_credit(at->cfg)), l);
    if (rc == MOYAI_EPROTO) return law(at, "a frame of a right peer was refused");
    if (rc == MOYAI_EINVAL) return refuse(at, l, &f);
    if (rc == 1 && at->w->end[e].path == l && k->noticed[e]) { /* it came by a link that we know is gone */
        at->w->end[e].path = NO_LINK;
        at->w->end[e].credit = 0;
        return must_step(at, EV(PATH_DOWN));
    }
    return rc;
}

/* --- the other moves ----------------------------------------------------------------------------------- */

static bool usable(const struct world *w, uint8_t l) {
    return w->links[l].made && !w->links[l].cut && !w->end[0].crashed && !w->end[1].crashed;
}

/* A link becomes the session's path: one that is there, or a new one. Without need only if it may be replaced. */
static int path_up(const struct at *at, uint8_t l) {
    struct world *w = at->w;
    struct end *end = &w->end[at->e];
    uint32_t state = self(at)->state;
    if (state == SESSION_NEW || state >= SESSION_ENDED || end->path == l) return 0;
    if (!end->wants) {
        if (w->replaces == at->cfg->replaces) return 0;
        w->replaces++;
    }
    w->links[l].made = 1;
    end->path = l;
    end->wants = 0;
    end->credit = full_credit(at->cfg);
    return must_step(at, EV(PATH_UP, .credit = full_credit(at->cfg)));
}

static int move_new_link(const struct at *at) {
    if (at->w->end[1 - at->e].crashed) return 0;
    for (uint8_t l = 0; !at->cfg->parallel && l < PAIR_LINKS; l++)
        if (usable(at->w, l)) return 0;
    for (uint8_t l = 0; l < PAIR_LINKS; l++) {
        if (at->w->links[l].made) continue;
        return path_up(at, l);
    }
    return 0;
}

static int move_notice(const struct at *at, uint8_t l) {
    struct link *k = &at->w->links[l];
    struct end *end = &at->w->end[at->e];
    if (!k->made || !k->cut || k->noticed[at->e]) return 0;
    k->noticed[at->e] = 1;
    if (end->path != l) return 1;
    end->path = NO_LINK;
    end->credit = 0;
    return self(at)->path_up ? must_step(at, EV(PATH_DOWN)) : 1;
}

static int move_cut(const struct at *at, uint8_t l) {
    struct world *w = at->w;
    if (!usable(w, l) || w->cuts == at->cfg->cuts) return 0;
    w->cuts++;
    w->links[l].cut = 1;
    return 1;
}

static int move_crash(const struct at *at) {
    struct world *w = at->w;
    if (w->crashes == at->cfg->crashes) return 0;
    w->crashes++;
    w->end[at->e] = (struct end){.path = NO_LINK, .crashed = 1, .opened = 1, .closed = 1};
    struct session_cfg c = session_of(at->cfg, at->e);
    memset(self(at), 0, session_size(&c));
    for (uint8_t l = 0; l < PAIR_LINKS; l++) w->links[l].cut = w->links[l].made;
    return 1;
}

static int move_send(const struct at *at) {
    struct end *end = &at->w->end[at->e];
    uint32_t k = end->given;
    if (k == PAIR_MESSAGES || !at->cfg->end[at->e].messages[k] || self(at)->state >= SESSION_CLOSING) return 0;
    uint64_t length = at->cfg->end[at->e].messages[k];
    bool room = session_room(self(at), length, false);
    int rc = step(at, EV(SEND, .token = k + 1, .length = length), NO_LINK);
    if (room != (rc == 1) || (rc != 1 && rc != MOYAI_EAGAIN)) return law(at, "room, but not taken, or the reverse");
    if (rc != 1) return 0;
    end->given++;
    return law(at, check_given(flow(at->w, at->e), k + 1, length));
}

static int move_drop(const struct at *at, uint32_t k) {
    struct end *end = &at->w->end[at->e];
    bool may = at->cfg->end[at->e].drops[k] && k < end->given && !((end->dropped >> k) & 1);
    if (!may || flow(at->w, at->e)->m[k].fate != CHECK_UNTOLD || self(at)->state >= SESSION_ENDED) return 0;
    end->dropped |= (uint8_t)(1 << k);
    return must_step(at, EV(DROP, .token = k + 1));
}

/* The reader of the other end's message k allows all of it. */
static int move_grant(const struct at *at, uint32_t k) {
    const struct check_message *m = &flow(at->w, 1 - at->e)->m[k];
    if (!m->stream || m->whole || m->aborted || at->cfg->end[1 - at->e].unread[k]) return 0;
    if (self(at)->state >= SESSION_CLOSING || session_rxs(self(at))[m->stream - 1].allowed == m->length) return 0;
    return must_step(at, EV(GRANT, .stream = m->stream, .allowed = m->length));
}

static int move_credit(const struct at *at) {
    struct end *end = &at->w->end[at->e];
    if (end->path == NO_LINK || !at->cfg->credit || !usable(at->w, end->path)) return 0;
    uint16_t *owed = &at->w->links[end->path].owed[at->e];
    uint64_t back = *owed < at->cfg->credit - end->credit ? *owed : at->cfg->credit - end->credit;
    *owed = 0;
    if (!back) return 0;
    end->credit += back;
    return must_step(at, EV(CREDIT, .credit = back));
}

static int move_time(const struct at *at, bool lost) {
    const struct session *s = self(at);
    bool over = s->lost_at == NOW; /* CLOSED was said */
    uint64_t when = lost ? (over ? 0 : s->lost_at) : over ? NOW : s->ack_at;
    if (!when) return 0;
    const struct end *end = &at->w->end[at->e];
    if (!lost && s->state == SESSION_OPENING && (!at->cfg->again || at->w->links[end->path].n[1 - at->e]))
        return 0; /* one OPEN at a time */
    if (lost && at->w->timeouts++ == at->cfg->timeouts) {
        at->w->timeouts--;
        return 0;
    }
    return must_step(at, EV(TIMEOUT, .now = when));
}

static int move_dead(const struct at *at) {
    struct end *end = &at->w->end[at->e];
    if (!at->w->end[1 - at->e].crashed || end->told_dead) return 0;
    end->told_dead = 1;
    end->path = NO_LINK;
    end->wants = 0;
    if (self(at)->state >= SESSION_ENDED) return self(at)->path_up ? must_step(at, EV(PATH_DOWN)) : 1;
    return must_step(at, EV(PEER_DEAD));
}

static int move_open(const struct at *at) {
    struct end *end = &at->w->end[at->e];
    if (!at->cfg->end[at->e].opens || end->opened || self(at)->state != SESSION_NEW) return 0;
    end->opened = 1;
    return must_step(at, EV(OPEN));
}

static int move_close(const struct at *at) {
    struct end *end = &at->w->end[at->e];
    if (!at->cfg->end[at->e].closes || end->closed || self(at)->state >= SESSION_CLOSING) return 0;
    end->closed = 1;
    return must_step(at, EV(CLOSE));
}

static int make(const struct at *at, uint32_t k) {
    if (at->w->end[at->e].crashed) return 0;
    if (k >= MOVE_NOTICE) return move_notice(at, (uint8_t)(k - MOVE_NOTICE));
    if (k >= MOVE_USE) return usable(at->w, (uint8_t)(k - MOVE_USE)) ? path_up(at, (uint8_t)(k - MOVE_USE)) : 0;
    if (k >= MOVE_DELIVER) return move_deliver(at, (uint8_t)(k - MOVE_DELIVER));
    if (k >= MOVE_DROP) return move_drop(at, k - MOVE_DROP);
    if (k >= MOVE_GRANT) return move_grant(at, k - MOVE_GRANT);
    switch (k) {
    case MOVE_OPEN:
        return move_open(at);
    case MOVE_SEND:
        return move_send(at);
    case MOVE_PULL:
        return move_pull(at);
    case MOVE_ACK_TIME:
        return move_time(at, false);
    case MOVE_LOST_TIME:
        return move_time(at, true);
    case MOVE_CREDIT:
        return move_credit(at);
    case MOVE_CLOSE:
        return move_close(at);
    case MOVE_CRASH:
        return move_crash(at);
    case MOVE_DEAD:
        return move_dead(at);
    case MOVE_NEW_LINK:
        return move_new_link(at);
    }
    return 0;
}

static int pair_make(struct world *w, const struct pair_cfg *cfg, uint32_t m, struct moyai_error *why, char *text,
                     size_t n) {
    struct at at = {w, cfg, 0, why, text, n};
    if (m >= MOVE_CUT) return move_cut(&at, (uint8_t)(m - MOVE_CUT));
    at.e = m >= MOVES_OF_END;
    return make(&at, at.e ? m - MOVES_OF_END : m);
}

/* --- the model ------------------------------------------------------------------------------------------ */

static void pair_init(void *world, const void *config) {
    const struct pair_cfg *cfg = config;
    struct world *w = world;
    memset(w, 0, world_size(cfg));
    for (int e = 0; e < 2; e++) {
        struct session_cfg c = session_of(cfg, e);
        w->end[e].path = NO_LINK;
        check_flow_init(flow(w, e), PAIR_MESSAGES);
        (void)session_init(machine(w, cfg, e), &c); /* pair_model has asked for its size */
        struct moyai_error why;
        struct at at = {w, cfg, e, &why, NULL, 0};
        while (cfg->end[e].given && move_send(&at) == 1) continue;
    }
}

static int pair_move(void *world, const void *cfg, uint32_t m, struct moyai_error *why) {
    return pair_make(world, cfg, m, why, NULL, 0);
}

static bool pair_must(const void *world, const void *cfg, uint32_t m) {
    const struct world *w = world;
    if (m >= MOVE_CUT) return false;
    uint32_t k = m >= MOVES_OF_END ? m - MOVES_OF_END : m;
    if (k >= MOVE_USE) return true; /* and NOTICE */
    if (k >= MOVE_DELIVER) return !w->links[k - MOVE_DELIVER].cut;
    if (k >= MOVE_DROP) return false;
    if (k >= MOVE_GRANT) return true;
    if (k == MOVE_ACK_TIME && machine(w, cfg, m >= MOVES_OF_END)->state == SESSION_OPENING) return false;
    return k == MOVE_PULL || k == MOVE_ACK_TIME || k == MOVE_CREDIT || k == MOVE_DEAD || k == MOVE_NEW_LINK;
}

/* With a path and nothing left to happen, all that could be delivered has been, and both know. */
static const char *at_rest(struct world *w, const struct pair_cfg *cfg, int e) {
    const struct session *s = machine(w, cfg, e), *o = machine(w, cfg, 1 - e);
    const struct check_flow *f = flow(w, e);
    bool path = w->end[e].path != NO_LINK && s->path_up;
    if (w->end[e].crashed || s->state == SESSION_NEW || s->state >= SESSION_ENDED) return NULL;
    if (w->end[1 - e].crashed) return "the peer is dead, and this end does not know";
    if (!path) return s->state == SESSION_UP ? "up without a path" : NULL;
    if (o->state >= SESSION_ENDED) /* who waits for an answer will not wait for ever */
        return s->state == SESSION_UP ? "the other end has ended, and this end does not learn it" : NULL;
    if (s->state != SESSION_UP) return "an answer never comes";
    if (o->state != SESSION_UP || o->path != s->path || o->id != s->id || w->end[1 - e].path != w->end[e].path)
        return "both have a path, but not the same";
    if (s->wait_n || s->ready_n || s->abort_n || s->sent_n || s->grant_n) return "something could be sent, and is not";
    for (uint32_t k = 0; k < f->given; k++)
        if (f->m[k].fate == CHECK_UNTOLD && !cfg->end[e].unread[k])
            return "a message is not delivered, or not reported";
    return NULL;
}

static bool pair_rest(const void *world, const void *config, struct moyai_error *why) {
    struct world *w = (struct world *)(uintptr_t)world;
    for (int e = 0; e < 2; e++) {
        const char *broken = at_rest(w, config, e);
        if (!broken) continue;
        err_set(why, MOYAI_EINTERNAL, "at rest, %s: %s", e == 0 ? "a" : "b", broken);
        return false;
    }
    return true;
}

/* Links nobody takes anything from any more are alike, and so are two dead ones whatever their order. */
static void links_settle(struct world *w, const struct pair_cfg *cfg) {
    for (uint8_t l = 0; l < PAIR_LINKS; l++) {
        struct link *k = &w->links[l];
        for (int e = 0; k->cut && e < 2; e++) {
            k->owed[e] = 0;
            if (w->end[e].crashed) k->noticed[e] = 1;
            bool deaf =
                w->end[e].crashed || machine(w, cfg, e)->state == SESSION_FAILED || (k->noticed[e] && !cfg->late);
            if (!deaf) continue;
            k->n[e] = 0;
            memset(k->queue[e], 0, sizeof k->queue[e]);
        }
    }
    for (uint8_t i = 1; i < PAIR_LINKS; i++) {
        for (uint8_t l = i; l > 0; l--) {
            struct link *k = &w->links[l], *before = &w->links[l - 1];
            bool idle = k->made && before->made && k->cut && before->cut && k->noticed[0] && k->noticed[1] &&
                        before->noticed[0] && before->noticed[1];
            if (!idle || memcmp(before, k, sizeof *k) <= 0) break;
            struct link x = *k;
            *k = *before;
            *before = x;
        }
    }
}

static void pair_settle(void *world, const void *cfg) {
    struct world *w = world;
    for (int e = 0; e < 2; e++)
        if (!w->end[e].crashed) session_settle(machine(w, cfg, e));
    links_settle(w, cfg);
}

static void pair_tell(void *world, const void *cfg, uint32_t m, char *text, size_t n) {
    static const char *const plain[] = {
        "is told to open",  "is given a message", "pulls",   "has to acknowledge",           "has waited too long",
        "gets credit back", "is told to close",   "crashes", "learns that its peer is dead", "makes a link"};
    struct moyai_error why;
    if (m >= MOVE_CUT) {
        snprintf(text, n, "link %u is cut", m - MOVE_CUT);
        return;
    }
    uint32_t e = m >= MOVES_OF_END, k = m - e * MOVES_OF_END;
    const char *name = e ? "b" : "a";
    const struct world *w = world;
    if (k >= MOVE_NOTICE)
        snprintf(text, n, "%s notices that link %u is cut:", name, k - MOVE_NOTICE);
    else if (k >= MOVE_USE)
        snprintf(text, n, "%s uses link %u:", name, k - MOVE_USE);
    else if (k >= MOVE_DELIVER)
        snprintf(text, n, "%s gets by link %u: ", name, k - MOVE_DELIVER);
    else if (k >= MOVE_DROP)
        snprintf(text, n, "%s drops message %u:", name, k - MOVE_DROP + 1);
    else if (k >= MOVE_GRANT)
        snprintf(text, n, "%s grants message %u:", name, k - MOVE_GRANT + 1);
    else if (k == MOVE_PULL)
        snprintf(text, n, "%s sends by link %u: ", name, w->end[e].path);
    else
        snprintf(text, n, "%s %s:", name, plain[k]);
    (void)pair_make(world, cfg, m, &why, text, n);
}

struct explore_model pair_model(const struct pair_cfg *cfg) {
    return (struct explore_model){.size = world_size(cfg),
                                  .moves = MOVES,
                                  .cfg = cfg,
                                  .init = pair_init,
                                  .move = pair_move,
                                  .must = pair_must,
                                  .rest = pair_rest,
                                  .settle = pair_settle,
                                  .tell = pair_tell};
}
