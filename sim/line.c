/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/line.h"

#include "base/err.h"
#include "overlay/relay_internal.h"
#include "overlay/relay_text.h"
#include "overlay/session_internal.h"
#include "overlay/session_text.h"
#include "sim/check.h"

#include <inttypes.h>
#include <string.h>

#define NOW   1 /* all there is of time */
#define SMALL 4
#define OWN   (SMALL + 16 + RELAY_TOLL)
#define LONG  (2 * OWN)

struct wire_frame {
    uint8_t control, kind, code, hops;
    uint8_t to, from, node, class_;
    uint32_t label, amount; /* amount: of a session's frame its bytes */
    uint64_t id;            /* or the token */
};

struct wire {
    uint8_t made, cut;
    uint8_t noticed[2];
    uint8_t number, n[2], zero;
    struct wire_frame queue[2][LINE_QUEUE]; /* towards link.a, link.b */
};

struct line_end {
    uint64_t path, old; /* the session's, and the one it had before */
    uint8_t given, opened, closed, wants, wanted, tries, ended, zero;
};

struct world {
    struct line_end end[2];
    struct wire wire[LINE_LINKS];
    uint8_t crashed[LINE_NODES], leaving[LINE_NODES];
    uint8_t cuts, crashes, withdraws, replaces, numbers, zero[3];
    /* behind it: two check_flows, two sessions, the relay machines */
};

enum {
    MOVE_PULL,                               /* 2 for each link: from b to a, from a to b */
    MOVE_GET = MOVE_PULL + 2 * LINE_LINKS,   /* the same */
    MOVE_NOTICE = MOVE_GET + 2 * LINE_LINKS, /* 2 for each link: by a, by b */
    MOVE_CUT = MOVE_NOTICE + 2 * LINE_LINKS, /* one for each link */
    MOVE_MAKE = MOVE_CUT + LINE_LINKS,       /* the same */
    MOVE_CRASH = MOVE_MAKE + LINE_LINKS,     /* one for each node */
    MOVE_WITHDRAW = MOVE_CRASH + LINE_NODES, /* the same */
    MOVE_OPEN = MOVE_WITHDRAW + LINE_NODES,  /* one for each end */
    MOVE_PATH = MOVE_OPEN + 2,
    MOVE_REPLACE = MOVE_PATH + 2,
    MOVE_ACK = MOVE_REPLACE + 2,
    MOVE_CLOSE = MOVE_ACK + 2,
    MOVES = MOVE_CLOSE + 2,
};

/* --- layout ------------------------------------------------------------------------------------------- */

static size_t up16(size_t n) {
    return (n + 15) & ~(size_t)15;
}

static struct session_cfg session_of(int e) {
    return (struct session_cfg){
        .id = e ? 0xb : 0xa, .lower = e == 0, .entries = 2, .streams = 1, .small = SMALL, .chunk = SMALL, .window = 16};
}

static struct moyai_node_id node_id(uint32_t i) {
    return (struct moyai_node_id){{(uint8_t)(i + 1)}};
}

static struct relay_cfg relay_of(uint32_t i) {
    return (struct relay_cfg){.self = node_id(i),
                              .seed = i,
                              .links = 4,
                              .pointers = 4,
                              .spare = 4,
                              .own = OWN,
                              .most = OWN,
                              .memory = 1,
                              .hops = 3};
}

static size_t relay_bytes(void) {
    struct relay_cfg c = relay_of(0);
    return up16(relay_size(&c));
}
static size_t session_bytes(void) {
    struct session_cfg c = session_of(0);
    return up16(session_size(&c));
}
static size_t world_size(const struct line_cfg *cfg) {
    return up16(sizeof(struct world)) + 2 * up16(check_flow_size(LINE_MESSAGES)) + 2 * session_bytes() +
           cfg->nodes * relay_bytes();
}
static struct check_flow *flow(const struct world *w, int e) {
    return (struct check_flow *)((char *)(uintptr_t)w + up16(sizeof *w) +
                                 (size_t)e * up16(check_flow_size(LINE_MESSAGES)));
}
static struct session *session(const struct world *w, int e) {
    return (struct session *)((char *)flow(w, 2) + (size_t)e * session_bytes());
}
static struct relay *relay(const struct world *w, uint32_t i) {
    return (struct relay *)((char *)session(w, 2) + i * relay_bytes());
}

/* What a move works with. */
struct at {
    struct world *w;
    const struct line_cfg *cfg;
    struct moyai_error *why;
    char *text; /* in words what happens, or NULL */
    size_t n;
    bool broken;
};

static void law(struct at *a, uint32_t node, const char *text) {
    if (!text || a->broken) return;
    a->broken = true;
    err_set(a->why, MOYAI_EINTERNAL, "node %u: %s", node, text);
}

static void space(const struct at *a, uint32_t node) {
    if (!a->text) return;
    size_t len = strlen(a->text);
    if (len + 8 < a->n) snprintf(a->text + len, a->n - len, " %u:", node);
}

static uint32_t node_of(const struct at *a, int e) {
    return e ? a->cfg->nodes - 1 : 0;
}
static int end_of(const struct at *a, uint32_t node) {
    return node == 0 ? 0 : node == a->cfg->nodes - 1 ? 1 : -1;
}

/* --- frames of the session in 64 bits ------------------------------------------------------------------- */

static bool pack(const struct session_frame *f, uint64_t *token) {
    bool grant = f->kind == SESSION_GRANT;
    uint64_t seq = grant ? f->allowed : f->seq, n = grant ? f->stream : f->n_chunks;
    if (f->path > 63 || seq > 31 || f->ack > 31 || n > 2) return false;
    uint64_t x = (uint64_t)f->kind | (f->id & 15) << 4 | (uint64_t)f->path << 8 | seq << 14 | f->ack << 19 | n << 24;
    for (uint32_t i = 0; !grant && i < f->n_chunks; i++) {
        const struct session_chunk *c = &f->chunks[i];
        if (c->stream > 3 || c->flags > 7 || c->len > 7 || c->total > 15 || c->token > 3 || c->offset > 15)
            return false;
        uint64_t k = c->stream | c->flags << 2 | c->len << 5 | c->total << 8 | c->token << 12 | c->offset << 14;
        x |= k << (26 + 18 * i);
    }
    *token = x;
    return true;
}

static void unpack(uint64_t x, struct session_frame *f, struct session_chunk *chunks) {
    *f = (struct session_frame){.kind = (enum session_frame_kind)(x & 15),
                                .id = x >> 4 & 15,
                                .path = x >> 8 & 63,
                                .ack = x >> 19 & 31,
                                .chunks = chunks};
    if (f->kind == SESSION_GRANT) {
        f->allowed = x >> 14 & 31;
        f->stream = x >> 24 & 3;
        return;
    }
    f->seq = x >> 14 & 31;
    f->n_chunks = x >> 24 & 3;
    for (uint32_t i = 0; i < f->n_chunks; i++) {
        uint64_t k = x >> (26 + 18 * i);
        chunks[i] = (struct session_chunk){.stream = k & 3,
                                           .flags = k >> 2 & 7,
                                           .len = k >> 5 & 7,
                                           .total = k >> 8 & 15,
                                           .token = k >> 12 & 3,
                                           .offset = k >> 14 & 15};
    }
}

/* --- links ------------------------------------------------------------------------------------------------- */

static bool stands(const struct at *a, uint32_t l) {
    const struct wire *k = &a->w->wire[l];
    return k->made && !k->cut && !a->w->crashed[a->cfg->links[l].a] && !a->w->crashed[a->cfg->links[l].b];
}
static uint32_t node_at(const struct at *a, uint32_t l, int side) {
    return side ? a->cfg->links[l].b : a->cfg->links[l].a;
}
static uint32_t link_of(const struct at *a, uint64_t number) {
    for (uint32_t l = 0; l < LINE_LINKS; l++)
        if (a->w->wire[l].made && a->w->wire[l].number == number) return l;
    return LINE_LINKS;
}

/* The number of a link that begins a shortest way; 0: there is none. */
static uint64_t route(const struct at *a, uint32_t from, uint32_t to, uint64_t not ) {
    uint32_t dist[LINE_NODES], best = UINT32_MAX;
    uint64_t number = 0;
    for (uint32_t i = 0; i < LINE_NODES; i++) dist[i] = i == to ? 0 : 100;
    for (uint32_t round = 0; round < LINE_NODES; round++)
        for (uint32_t l = 0; l < LINE_LINKS; l++)
            for (int s = 0; s < 2 && stands(a, l); s++) {
                uint32_t x = node_at(a, l, s), y = node_at(a, l, 1 - s);
                bool pass = y == to || (y != from && !a->w->leaving[y]);
                if (pass && dist[y] + 1 < dist[x]) dist[x] = dist[y] + 1;
            }
    for (uint32_t l = 0; l < LINE_LINKS; l++)
        for (int s = 0; s < 2 && stands(a, l); s++) {
            uint32_t y = node_at(a, l, 1 - s);
            bool pass = y == to || !a->w->leaving[y];
            if (node_at(a, l, s) != from || a->w->wire[l].number == not || !pass || dist[y] >= 100) continue;
            if (dist[y] >= best) continue;
            best = dist[y];
            number = a->w->wire[l].number;
        }
    return number;
}

/* --- the driver --------------------------------------------------------------------------------------------- */

#define SEV(k, ...) ((struct session_event){.kind = SESSION_EV_##k, .now = NOW, ##__VA_ARGS__})
#define REV(k, ...) ((struct relay_event){.kind = RELAY_EV_##k, .now = NOW, ##__VA_ARGS__})

static void step_session(struct at *a, int e, struct session_event ev, uint64_t path);

static void step_relay(struct at *a, uint32_t node, struct relay_event ev);

static void pull_session(struct at *a, int e, uint32_t room) {
    struct line_end *end = &a->w->end[e];
    struct session_chunk chunks[SESSION_CHUNKS];
    struct session_frame f = {.chunks = chunks};
    uint64_t token;
    if (a->cfg->longer) room = LONG - RELAY_TOLL;
    end->wanted = 0;
    if (!session_pull(session(a->w, e), NOW, room, &f)) return;
    if (f.kind == SESSION_DATA) law(a, node_of(a, e), check_pulled(flow(a->w, e), &f, room));
    if (!pack(&f, &token)) {
        law(a, node_of(a, e), "test: numbers too large for a packed frame");
        return;
    }
    uint32_t bytes = f.kind == SESSION_DATA ? 32 : 16;
    for (uint32_t i = 0; i < f.n_chunks; i++) bytes += (uint32_t)check_bytes(&chunks[i]);
    step_relay(a, node_of(a, e), REV(SEND, .path = end->path, .token = token, .bytes = bytes, .class_ = 1));
}

static void path_down(struct at *a, int e, uint64_t path) {
    struct line_end *end = &a->w->end[e];
    if (end->old == path) end->old = 0;
    if (end->path != path) return;
    end->path = 0;
    end->wanted = 0;
    if (session(a->w, e)->path_up) step_session(a, e, SEV(PATH_DOWN), 0);
}

static void effect(struct at *a, uint32_t node, const struct relay_effect *fx) {
    int e = end_of(a, node);
    struct session_chunk chunks[2];
    struct session_frame f;
    if (a->text && fx->kind != RELAY_FX_WAKE && fx->kind != RELAY_FX_DELIVER && fx->kind != RELAY_FX_FREE) {
        space(a, node);
        relay_effect_text(a->text, a->n, fx);
    }
    switch (fx->kind) {
    case RELAY_FX_ROUTE:
        step_relay(a, node, REV(ROUTED, .path = fx->path, .link = route(a, node, fx->id.b[0] - 1u, fx->link)));
        break;
    case RELAY_FX_DELIVER:
        unpack(fx->token, &f, chunks);
        if (a->text) {
            space(a, node);
            session_frame_text(a->text, a->n, &f);
        }
        if (check_counts(session(a->w, e), &f)) check_counted(flow(a->w, e));
        step_session(a, e, SEV(RECEIVE, .frame = &f, .credit = UINT64_MAX), fx->path);
        break;
    case RELAY_FX_ROOM:
        if (fx->path == a->w->end[e].path) pull_session(a, e, fx->amount);
        break;
    case RELAY_FX_LEAVING:
        if (fx->path == a->w->end[e].path && session(a->w, e)->state < SESSION_ENDED) a->w->end[e].wants = 1;
        break;
    case RELAY_FX_DOWN:
        path_down(a, e, fx->path);
        break;
    case RELAY_FX_OPENED:
    case RELAY_FX_ARRIVED:
    case RELAY_FX_FREE:
    case RELAY_FX_SHORT:
    case RELAY_FX_WAKE:
    case RELAY_FX_WITHDRAWN:
        break;
    }
}

static void drain(struct at *a, uint32_t node) {
    struct relay_effect fx[32];
    uint32_t n;
    do {
        for (n = 0; n < 32 && relay_next(relay(a->w, node), &fx[n]);) n++;
        for (uint32_t i = 0; i < n && !a->broken; i++) effect(a, node, &fx[i]);
    } while (n);
}

static void step_relay(struct at *a, uint32_t node, struct relay_event ev) {
    struct relay_effect fx[32];
    uint32_t n = 0;
    bool quiet = ev.kind == RELAY_EV_WANT || ev.kind == RELAY_EV_SEND;
    while (!quiet && n < 16 && relay_next(relay(a->w, node), &fx[n])) n++;
    int rc = relay_step(relay(a->w, node), &ev);
    if (rc == MOYAI_EPROTO || rc == MOYAI_EBUSY) law(a, node, "a frame of a right peer was refused");
    if (rc == MOYAI_EINVAL && ev.kind != RELAY_EV_ROUTED) law(a, node, "an event is refused");
    if (quiet) return;
    for (; n < 32 && relay_next(relay(a->w, node), &fx[n]);) n++;
    if (n == 32) law(a, node, "test: too many effects");
    for (uint32_t i = 0; i < n && !a->broken; i++) effect(a, node, &fx[i]);
}

static void end_path(struct at *a, int e, uint64_t path) {
    if (path && relay_path_find(relay(a->w, node_of(a, e)), path)) step_relay(a, node_of(a, e), REV(END, .path = path));
}

static void session_effect(struct at *a, int e, const struct session_frame *f, uint64_t path,
                           const struct session_effect *fx) {
    static const struct session_frame none;
    struct line_end *end = &a->w->end[e];
    struct session *s = session(a->w, e);
    uint32_t node = node_of(a, e);
    switch (fx->kind) {
    case SESSION_FX_OPENED:
        break;
    case SESSION_FX_PATH:
        end->path = path;
        end->wants = end->wanted = 0;
        if (end->old == path) end->old = 0;
        break;
    case SESSION_FX_WANT_PATH:
        end->path = 0;
        end->wants = 1;
        break;
    case SESSION_FX_DELIVER:
    case SESSION_FX_ABORTED:
        law(a, node, check_delivered(flow(a->w, 1 - e), f ? f : &none, fx));
        if (fx->kind == SESSION_FX_DELIVER && fx->stream && (fx->flags & SESSION_BEGIN)) {
            const struct session_event ev = SEV(GRANT, .stream = fx->stream, .allowed = 31);
            if (session_step(s, &ev) < 0) law(a, node, "a grant is refused");
        }
        break;
    case SESSION_FX_ACKED:
    case SESSION_FX_DROPPED:
        law(a, node, check_reported(flow(a->w, e), fx));
        break;
    case SESSION_FX_FAILED:
        if (!a->w->crashes) law(a, node, "a session failed without a cause");
        end->ended = 1;
        break;
    case SESSION_FX_CLOSED:
        law(a, node, check_ended(flow(a->w, e)));
        end->ended = 1;
        break;
    }
}

static void step_session(struct at *a, int e, struct session_event ev, uint64_t path) {
    struct line_end *end = &a->w->end[e];
    struct session *s = session(a->w, e);
    uint64_t before = end->path;
    int rc = session_step(s, &ev);
    struct session_effect fx;
    while (session_next(s, &fx)) {
        if (a->text) {
            space(a, node_of(a, e));
            session_effect_text(a->text, a->n, &fx);
        }
        session_effect(a, e, ev.frame, path, &fx);
    }
    if (rc == MOYAI_EPROTO) law(a, node_of(a, e), "a frame of a right peer was refused by a session");
    if (rc == MOYAI_EINVAL && !ev.frame) law(a, node_of(a, e), "an event is refused by a session");
    if (path && end->path == path && !relay_path_find(relay(a->w, node_of(a, e)), path)) {
        end->path = 0;
        if (s->path_up) step_session(a, e, SEV(PATH_DOWN), 0);
    }
    if (before != end->path) end_path(a, e, before);
    if (ev.frame && path != end->path && path != end->old && end->path) end_path(a, e, path);
}

/* After each event at a node: what its driver does at once. */
static void settle_node(struct at *a, uint32_t node) {
    int e = end_of(a, node);
    if (a->w->crashed[node] || a->broken) return;
    drain(a, node);
    if (e < 0) return;
    struct line_end *end = &a->w->end[e];
    struct session *s = session(a->w, e);
    if (end->old && (s->state == SESSION_UP || end->ended)) {
        end_path(a, e, end->old);
        end->old = 0;
    }
    if (end->ended && !session_pending(s)) {
        end_path(a, e, end->path);
        end->path = 0;
        end->wants = 0;
    }
    if (end->path && !end->wanted && session_pending(s)) {
        end->wanted = 1;
        step_relay(a, node, REV(WANT, .path = end->path));
    }
    drain(a, node);
}

static bool pull(struct at *a, uint32_t l, int to) {
    struct wire *k = &a->w->wire[l];
    uint32_t node = node_at(a, l, 1 - to);
    struct relay_out out;
    if (!k->made || a->w->crashed[node] || k->noticed[1 - to] || (k->n[to] == LINE_QUEUE && !k->cut)) return false;
    if (!relay_pull(relay(a->w, node), k->number, &out)) return false;
    struct wire_frame f = {.control = out.control};
    if (out.control) {
        const struct relay_frame *c = &out.frame;
        f = (struct wire_frame){.control = 1,
                                .kind = (uint8_t)c->kind,
                                .code = (uint8_t)c->code,
                                .hops = (uint8_t)c->hops,
                                .to = c->to.b[0],
                                .from = c->from.b[0],
                                .node = c->node.b[0],
                                .label = c->label,
                                .amount = c->amount,
                                .id = c->id};
        if (a->text) {
            space(a, node);
            relay_frame_text(a->text, a->n, c);
        }
    } else {
        struct session_frame s;
        struct session_chunk chunks[2];
        unpack(out.token, &s, chunks);
        f.label = out.label;
        f.class_ = (uint8_t)out.class_;
        f.id = out.token;
        f.amount = s.kind == SESSION_DATA ? 32 : 16;
        for (uint32_t i = 0; i < s.n_chunks; i++) f.amount += (uint32_t)check_bytes(&chunks[i]);
        if (a->text) {
            space(a, node);
            session_frame_text(a->text, a->n, &s);
        }
    }
    if (!k->cut && !a->w->crashed[node_at(a, l, to)]) k->queue[to][k->n[to]++] = f;
    return true;
}

/* --- moves ------------------------------------------------------------------------------------------------------ */

static int move_get(struct at *a, uint32_t l, int to) {
    struct wire *k = &a->w->wire[l];
    uint32_t node = node_at(a, l, to);
    if (k->n[to] == 0 || a->w->crashed[node] || k->noticed[to]) return 0;
    struct wire_frame f = k->queue[to][0];
    memmove(&k->queue[to][0], &k->queue[to][1], (LINE_QUEUE - 1) * sizeof f);
    memset(&k->queue[to][LINE_QUEUE - 1], 0, sizeof f);
    k->n[to]--;
    if (!f.control) {
        step_relay(
            a, node,
            REV(RECEIVE, .link = k->number, .label = f.label, .token = f.id, .bytes = f.amount, .class_ = f.class_));
    } else {
        struct relay_frame c = {.kind = (enum relay_kind)f.kind,
                                .label = f.label,
                                .hops = f.hops,
                                .amount = f.amount,
                                .code = (enum relay_code)f.code,
                                .id = f.id};
        c.to.b[0] = f.to;
        c.from.b[0] = f.from;
        c.node.b[0] = f.node;
        if (a->text) {
            space(a, node);
            relay_frame_text(a->text, a->n, &c);
        }
        step_relay(a, node, REV(FRAME, .link = k->number, .frame = &c));
    }
    settle_node(a, node);
    return 1;
}

static int move_notice(struct at *a, uint32_t l, int side) {
    struct wire *k = &a->w->wire[l];
    uint32_t node = node_at(a, l, side);
    if (!k->made || !k->cut || k->noticed[side] || a->w->crashed[node]) return 0;
    k->noticed[side] = 1;
    k->n[side] = 0;
    memset(k->queue[side], 0, sizeof k->queue[side]);
    step_relay(a, node, REV(LINK_DOWN, .link = k->number));
    settle_node(a, node);
    return 1;
}

static int move_make(struct at *a, uint32_t l) {
    struct wire *k = &a->w->wire[l];
    uint32_t x = a->cfg->links[l].a, y = a->cfg->links[l].b;
    if (!k->made || !k->cut || !k->noticed[0] || !k->noticed[1] || a->w->crashed[x] || a->w->crashed[y]) return 0;
    *k = (struct wire){.made = 1, .number = ++a->w->numbers};
    step_relay(a, x, REV(LINK_UP, .link = k->number, .id = node_id(y)));
    step_relay(a, y, REV(LINK_UP, .link = k->number, .id = node_id(x)));
    return 1;
}

static int move_crash(struct at *a, uint32_t node) {
    struct world *w = a->w;
    int e = end_of(a, node);
    if (node >= a->cfg->nodes || w->crashed[node] || w->crashes == a->cfg->crashes) return 0;
    if (e >= 0 && !a->cfg->crash_ends) return 0;
    w->crashes++;
    w->crashed[node] = 1;
    w->leaving[node] = 0;
    memset(relay(w, node), 0, relay_bytes());
    if (e >= 0) {
        w->end[e] = (struct line_end){.opened = 1, .closed = 1};
        memset(session(w, e), 0, session_bytes());
    }
    for (uint32_t l = 0; l < LINE_LINKS; l++) {
        struct wire *k = &w->wire[l];
        for (int s = 0; s < 2 && k->made; s++) {
            if (node_at(a, l, s) != node) continue;
            k->cut = k->noticed[s] = 1;
            k->n[s] = 0;
            memset(k->queue[s], 0, sizeof k->queue[s]);
        }
    }
    return 1;
}

static bool session_wants(const struct at *a, int e) {
    uint32_t st = session(a->w, e)->state;
    return !a->w->crashed[node_of(a, e)] && st != SESSION_NEW && st < SESSION_ENDED;
}

static uint64_t first_link(const struct at *a, uint32_t node, uint64_t path) {
    const struct relay *r = relay(a->w, node);
    const struct relay_path *p = relay_path_find(r, path);
    for (int s = 0; p && s < 2; s++)
        if (p->side[s].where == BY_LINK) return relay_link_at(r, p->side[s].link)->number;
    return 0;
}

static int move_path(struct at *a, int e, bool replace) {
    struct line_end *end = &a->w->end[e];
    uint32_t node = node_of(a, e), peer = node_of(a, 1 - e);
    if (!session_wants(a, e) || end->tries == a->cfg->tries) return 0;
    if (replace) {
        if (end->old || end->wants || !end->path || a->w->replaces == a->cfg->replaces) return 0;
        if (session(a->w, e)->state != SESSION_UP) return 0;
    } else if (!end->wants) {
        return 0;
    }
    uint64_t link = route(a, node, peer, replace ? first_link(a, node, end->path) : 0);
    if (!link) return 0;
    if (replace) a->w->replaces++;
    end->tries++;
    struct relay_event ev = REV(OPEN, .id = node_id(peer), .link = link);
    struct relay_effect fx;
    if (relay_step(relay(a->w, node), &ev) < 0 || !relay_next(relay(a->w, node), &fx)) {
        law(a, node, "no place for a path");
        return 1;
    }
    drain(a, node);
    uint64_t older = end->old; /* of one that was being replaced, when its successor went down */
    end->old = end->path;
    end->path = fx.path;
    end_path(a, e, older);
    end->wants = end->wanted = 0;
    step_session(a, e, SEV(PATH_UP, .credit = UINT64_MAX), 0);
    settle_node(a, node);
    return 1;
}

static int make(struct at *a, uint32_t m) {
    struct world *w = a->w;
    if (m >= MOVE_OPEN) {
        int e = (int)(m & 1) ^ (MOVE_OPEN & 1);
        uint32_t node = node_of(a, e), what = m - (uint32_t)e;
        struct session *s = session(w, e);
        if (w->crashed[node]) return 0;
        if (what == MOVE_OPEN) {
            if (!a->cfg->end[e].opens || w->end[e].opened || s->state != SESSION_NEW) return 0;
            w->end[e].opened = 1;
            step_session(a, e, SEV(OPEN), 0);
        } else if (what == MOVE_PATH || what == MOVE_REPLACE) {
            return move_path(a, e, what == MOVE_REPLACE);
        } else if (what == MOVE_ACK) {
            if (!s->ack_at || s->state == SESSION_OPENING) return 0;
            step_session(a, e, (struct session_event){.kind = SESSION_EV_TIMEOUT, .now = s->ack_at}, 0);
        } else {
            if (!a->cfg->end[e].closes || w->end[e].closed || s->state == SESSION_NEW || s->state >= SESSION_CLOSING)
                return 0;
            w->end[e].closed = 1;
            step_session(a, e, SEV(CLOSE), 0);
        }
        settle_node(a, node);
        return 1;
    }
    if (m >= MOVE_WITHDRAW) {
        uint32_t node = m - MOVE_WITHDRAW;
        if (node >= a->cfg->nodes || end_of(a, node) >= 0 || w->crashed[node] || w->leaving[node]) return 0;
        if (w->withdraws == a->cfg->withdraws) return 0;
        w->withdraws++;
        w->leaving[node] = 1;
        step_relay(a, node, REV(WITHDRAW));
        return 1;
    }
    if (m >= MOVE_CRASH) return move_crash(a, m - MOVE_CRASH);
    if (m >= MOVE_MAKE) return move_make(a, m - MOVE_MAKE);
    if (m >= MOVE_CUT) {
        uint32_t l = m - MOVE_CUT;
        if (!stands(a, l) || w->cuts == a->cfg->cuts) return 0;
        w->cuts++;
        w->wire[l].cut = 1;
        return 1;
    }
    if (m >= MOVE_NOTICE) return move_notice(a, (m - MOVE_NOTICE) / 2, (int)(m - MOVE_NOTICE) & 1);
    if (m >= MOVE_GET) return move_get(a, (m - MOVE_GET) / 2, (int)(m - MOVE_GET) & 1);
    uint32_t l = m / 2;
    int to = (int)m & 1;
    if (a->cfg->eager || !pull(a, l, to)) return 0;
    settle_node(a, node_at(a, l, 1 - to));
    return 1;
}

static int line_make(void *world, const void *cfg, uint32_t m, struct moyai_error *why, char *text, size_t n) {
    struct at a = {world, cfg, why, text, n, false};
    if (!make(&a, m)) return 0;
    for (bool more = a.cfg->eager; more && !a.broken;) {
        more = false;
        for (uint32_t l = 0; l < LINE_LINKS; l++)
            for (int to = 0; to < 2; to++)
                while (pull(&a, l, to)) {
                    settle_node(&a, node_at(&a, l, 1 - to));
                    more = true;
                }
    }
    for (uint32_t i = 0; i < a.cfg->nodes && !a.broken; i++)
        if (!a.w->crashed[i] && !relay_check(relay(a.w, i), why)) return -1;
    for (int e = 0; e < 2 && !a.broken; e++)
        if (!a.w->crashed[node_of(&a, e)] && !session_check(session(a.w, e), why)) return -1;
    return a.broken ? -1 : 1;
}

/* --- the model ------------------------------------------------------------------------------------------------------
 */

static void line_init(void *world, const void *config) {
    const struct line_cfg *cfg = config;
    struct world *w = world;
    memset(w, 0, world_size(cfg));
    struct moyai_error why;
    struct at a = {w, cfg, &why, NULL, 0, false};
    for (uint32_t i = 0; i < cfg->nodes; i++) {
        struct relay_cfg c = relay_of(i);
        c.frame = cfg->longer ? LONG : OWN;
        (void)relay_init(relay(w, i), &c);
    }
    for (uint32_t l = 0; l < LINE_LINKS; l++) {
        uint32_t x = cfg->links[l].a, y = cfg->links[l].b;
        if (x == y) continue;
        w->wire[l] = (struct wire){.made = 1, .number = ++w->numbers};
        step_relay(&a, x, REV(LINK_UP, .link = w->numbers, .id = node_id(y)));
        step_relay(&a, y, REV(LINK_UP, .link = w->numbers, .id = node_id(x)));
    }
    for (int e = 0; e < 2; e++) {
        struct session_cfg c = session_of(e);
        (void)session_init(session(w, e), &c);
        check_flow_init(flow(w, e), LINE_MESSAGES);
        for (uint32_t k = 0; k < LINE_MESSAGES && cfg->end[e].messages[k]; k++) {
            const struct session_event ev = SEV(SEND, .token = k + 1, .length = cfg->end[e].messages[k]);
            (void)session_step(session(w, e), &ev);
            (void)check_given(flow(w, e), k + 1, cfg->end[e].messages[k]);
            w->end[e].given++;
        }
    }
}

static int line_move(void *world, const void *cfg, uint32_t m, struct moyai_error *why) {
    return line_make(world, cfg, m, why, NULL, 0);
}

static bool line_must(const void *world, const void *cfg, uint32_t m) {
    (void)world;
    (void)cfg;
    if (m < MOVE_CUT) return true; /* PULL, GET, NOTICE */
    if (m >= MOVE_MAKE && m < MOVE_CRASH) return true;
    return (m >= MOVE_PATH && m < MOVE_REPLACE) || (m >= MOVE_ACK && m < MOVE_CLOSE);
}

/* Every pointer leads to another, and nothing is queued. */
static const char *pointers_rest(const struct at *a, uint32_t node) {
    const struct relay *r = relay(a->w, node);
    if (r->items_n) return "a frame is left in a queue";
    for (uint32_t ref = 1; ref <= r->paths_top; ref++) {
        const struct relay_path *p = relay_path_at(r, ref);
        if (p->state == PATH_FREE) continue;
        if (p->state != PATH_OPEN) return "a path is neither open nor gone";
        for (int s = 0; s < 2; s++) {
            const struct relay_side *y = &p->side[s];
            if (y->where == HERE) {
                const struct line_end *end = &a->w->end[end_of(a, node)];
                if (end->path != relay_handle(r, p)) return "an end that no session uses";
                continue;
            }
            if (y->where != BY_LINK) return "a path without its second side";
            uint64_t number = relay_link_at(r, y->link)->number;
            uint32_t l = link_of(a, number);
            if (l == LINE_LINKS || !stands(a, l)) return "a pointer over a link that is gone";
            const struct relay *o = relay(a->w, node_at(a, l, node_at(a, l, 0) == node));
            if (!relay_side_find(o, relay_link_find(o, number), y->label)) return "a pointer whose neighbour has none";
        }
    }
    return NULL;
}

static const char *end_rest(const struct at *a, int e) {
    const struct world *w = a->w;
    const struct session *s = session(w, e), *o = session(w, 1 - e);
    if (w->crashed[node_of(a, e)] || s->state == SESSION_NEW || s->state >= SESSION_ENDED) return NULL;
    for (int i = 0; i < 2; i++)
        if (w->end[i].wants && w->end[i].tries == a->cfg->tries) return NULL; /* it would go on */
    if (w->crashed[node_of(a, 1 - e)] || !route(a, node_of(a, e), node_of(a, 1 - e), 0)) {
        if (!w->end[e].path) return NULL;
        /* A relay that leaves carries on what it has until its time is over. */
        return w->withdraws ? NULL : "a path to nowhere";
    }
    if (o->state >= SESSION_ENDED) return NULL; /* seen from there */
    if (!w->end[e].path) return "a route, and no path";
    if (s->state != SESSION_UP && s->state != SESSION_CLOSING) return "an answer never comes";
    if (s->state == SESSION_UP && (o->state != SESSION_UP || s->path != o->path)) return "the ends disagree";
    for (uint32_t k = 0; s->state == SESSION_UP && k < w->end[e].given; k++)
        if (flow(w, e)->m[k].fate != CHECK_ACKED) return "a message is not delivered, or not reported";
    return NULL;
}

static bool line_rest(const void *world, const void *config, struct moyai_error *why) {
    struct at a = {(struct world *)(uintptr_t)world, config, why, NULL, 0, false};
    for (uint32_t i = 0; i < a.cfg->nodes; i++)
        if (!a.w->crashed[i]) law(&a, i, pointers_rest(&a, i));
    for (int e = 0; e < 2; e++) law(&a, node_of(&a, e), end_rest(&a, e));
    return !a.broken;
}

static void line_settle(void *world, const void *config) {
    const struct line_cfg *cfg = config;
    struct world *w = world;
    for (uint32_t i = 0; i < cfg->nodes; i++)
        if (!w->crashed[i]) relay_settle(relay(w, i));
    for (int e = 0; e < 2; e++)
        if (!w->crashed[e ? cfg->nodes - 1 : 0]) session_settle(session(w, e));
}

static void line_tell(void *world, const void *config, uint32_t m, char *text, size_t n) {
    static const char *const ends[] = {"opens", "opens a path", "opens another path", "has to acknowledge", "closes"};
    const struct line_cfg *cfg = config;
    struct moyai_error why;
    uint32_t l = m / 2 % LINE_LINKS;
    if (m >= MOVE_OPEN)
        snprintf(text, n, "node %u %s:", (m - MOVE_OPEN) & 1 ? cfg->nodes - 1 : 0, ends[(m - MOVE_OPEN) / 2]);
    else if (m >= MOVE_WITHDRAW)
        snprintf(text, n, "node %u withdraws:", m - MOVE_WITHDRAW);
    else if (m >= MOVE_CRASH)
        snprintf(text, n, "node %u crashes:", m - MOVE_CRASH);
    else if (m >= MOVE_CUT)
        snprintf(text, n, "link %u is %s:", (m - MOVE_CUT) % LINE_LINKS, m >= MOVE_MAKE ? "made anew" : "cut");
    else
        snprintf(text, n, "link %u, node %u %s:", l, (m & 1) == (m >= MOVE_GET) ? cfg->links[l].b : cfg->links[l].a,
                 m >= MOVE_NOTICE ? "notices"
                 : m >= MOVE_GET  ? "receives"
                                  : "sends");
    (void)line_make(world, cfg, m, &why, text, n);
}

struct explore_model line_model(const struct line_cfg *cfg) {
    return (struct explore_model){.size = world_size(cfg),
                                  .moves = MOVES,
                                  .cfg = cfg,
                                  .init = line_init,
                                  .move = line_move,
                                  .must = line_must,
                                  .rest = line_rest,
                                  .settle = line_settle,
                                  .tell = line_tell};
}
