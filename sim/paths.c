/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/paths.h"

#include "base/err.h"
#include "overlay/relay_internal.h"
#include "overlay/relay_text.h"
#include "overlay/relay_wire.h"
#include "overlay/session_internal.h"
#include "overlay/session_text.h"
#include "overlay/session_wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG 16384 /* bytes in a link; then it takes no more */

/* A frame: of a session, which passes from hand to hand, or of paths. */
struct paths_box {
    struct paths_box *prev, *next; /* of all */
    struct paths_box *behind;      /* in its link */
    moyai_ns due;
    uint32_t bytes, label, class_, hops;
    bool control;
    struct relay_frame path;
    struct session_frame frame;
    struct session_chunk chunks[];
};

struct paths_way {
    struct paths_box *first, *last;
    moyai_ns busy, waking; /* busy: until then it transmits */
    bool full;
};

struct paths_link {
    struct paths *p;
    uint32_t number, node[2];
    uint64_t bytes_a_second;
    bool cut, noticed[2];
    struct paths_way way[2]; /* towards node[0], node[1] */
};

static void after(struct paths_node *n);
static void step_session(struct paths_node *n, uint32_t peer, struct session_event ev, uint64_t path);

#define SEV(k, ...) ((struct session_event){.kind = SESSION_EV_##k, ##__VA_ARGS__})
#define REV(k, ...) ((struct relay_event){.kind = RELAY_EV_##k, ##__VA_ARGS__})

static void law(struct paths_node *n, const char *broken) {
    struct paths *p = n->w;
    if (!broken || p->broken) return;
    p->broken = true;
    err_set(&p->why, MOYAI_EINTERNAL, "node %u: %s", n->index, broken);
    trace_line(p->trace, p->w->now, "-", "BROKEN node %u: %s", n->index, broken);
}

static void say(struct paths_node *n, const char *fmt, const char *text) {
    char name[16];
    snprintf(name, sizeof name, "%u", n->index);
    trace_line(n->w->trace, n->w->w->now, name, fmt, text);
}

/* --- frames and links ------------------------------------------------------------------------------- */

static struct paths_box *box_new(struct paths *p, uint32_t chunks) {
    struct paths_box *b = sim_alloc(sizeof *b + chunks * sizeof *b->chunks);
    b->next = p->boxes;
    if (b->next) b->next->prev = b;
    p->boxes = b;
    return b;
}

static void box_free(struct paths *p, struct paths_box *b) {
    if (b->prev)
        b->prev->next = b->next;
    else
        p->boxes = b->next;
    if (b->next) b->next->prev = b->prev;
    free(b);
}

static struct paths_box *box_of(uint64_t token) {
    return (struct paths_box *)(uintptr_t)token; /* the machine only carries it */
}

static int end_of(const struct paths_link *l, const struct paths_node *n) {
    return l->node[1] == n->index;
}

static moyai_ns backlog(const struct paths_link *l) {
    return l->bytes_a_second ? BACKLOG * (moyai_ns)MOYAI_SEC / l->bytes_a_second : UINT64_MAX / 2;
}

static void drained(void *who, uint64_t from) {
    struct paths_link *l = who;
    l->way[1 - from].full = false;
    struct paths_node *n = &l->p->node[l->node[from]];
    if (n->r && !l->noticed[from]) after(n);
}

/* What a link has not transmitted yet is limited; who finds it full is called again when half of it has gone. */
static bool link_room(struct paths_link *l, int from) {
    struct paths_way *y = &l->way[1 - from];
    moyai_ns now = l->p->w->now;
    if (l->cut || y->busy <= now + backlog(l)) return true;
    if (!y->full) world_at(l->p->w, y->busy - backlog(l) / 2, drained, l, (uint64_t)from);
    y->full = true;
    return false;
}

static void deliver(struct paths_node *n, struct paths_link *l, struct paths_box *b);

static void way_run(void *who, uint64_t what) {
    struct paths_link *l = who;
    int to = (int)(what & 1);
    struct paths_way *y = &l->way[to];
    struct paths *p = l->p;
    y->waking = 0;
    while (y->first && y->first->due <= p->w->now && !p->broken) {
        struct paths_box *b = y->first;
        y->first = b->behind;
        if (!y->first) y->last = NULL;
        if (p->node[l->node[to]].r && !l->noticed[to])
            deliver(&p->node[l->node[to]], l, b);
        else
            box_free(p, b);
    }
    if (y->first && !y->waking && !p->broken) {
        y->waking = y->first->due;
        world_at(p->w, y->waking, way_run, l, (uint64_t)to);
    }
}

static void link_send(struct paths_link *l, int from, struct paths_box *b) {
    struct paths *p = l->p;
    struct paths_way *y = &l->way[1 - from];
    if (l->cut) {
        box_free(p, b);
        return;
    }
    moyai_ns start = y->busy > p->w->now ? y->busy : p->w->now;
    y->busy = start + (l->bytes_a_second ? b->bytes * (moyai_ns)MOYAI_SEC / l->bytes_a_second : 0);
    b->due = y->busy + (moyai_ns)p->cfg.delay;
    b->behind = NULL;
    if (y->last)
        y->last->behind = b;
    else
        y->first = b;
    y->last = b;
    if (y->waking) return;
    y->waking = y->first->due;
    world_at(p->w, y->waking, way_run, l, (uint64_t)(1 - from));
}

/* --- routes ------------------------------------------------------------------------------------------- */

static bool usable(const struct paths_link *l) {
    return !l->cut && l->p->node[l->node[0]].r && l->p->node[l->node[1]].r;
}

/* A link towards the node by the shortest way that does not begin with `not`; 0: none. Of several, any. */
static uint32_t route(struct paths *p, uint32_t from, uint32_t to, uint32_t not ) {
    uint32_t dist[256], queue[256], head = 0, tail = 0, best = 0, found = 0;
    for (uint32_t i = 0; i < p->cfg.nodes; i++) dist[i] = UINT32_MAX;
    dist[to] = 0;
    queue[tail++] = to;
    while (head < tail) {
        uint32_t at = queue[head++];
        if (at == from) continue;
        for (uint32_t k = 0; k < p->n_links; k++) {
            const struct paths_link *l = p->links[k];
            int e = l->node[1] == at;
            if (!usable(l) || l->node[e] != at || dist[l->node[1 - e]] != UINT32_MAX) continue;
            if (p->node[l->node[1 - e]].withdrawn && l->node[1 - e] != from) continue;
            dist[l->node[1 - e]] = dist[at] + 1;
            queue[tail++] = l->node[1 - e];
        }
    }
    bool wild = rng_below(&p->rng, 100) < p->cfg.wild;
    uint32_t least = UINT32_MAX;
    for (uint32_t k = 0; k < p->n_links; k++) {
        const struct paths_link *l = p->links[k];
        int e = l->node[1] == from;
        if (!usable(l) || l->node[e] != from || l->number == not ) continue;
        uint32_t d = wild ? 0 : dist[l->node[1 - e]];
        if (d == UINT32_MAX || d > least) continue;
        found = d < least ? 1 : found + 1;
        least = d;
        if (rng_below(&p->rng, found) == 0) best = l->number;
    }
    return best;
}

/* --- the relay machine's effects ------------------------------------------------------------------------- */

struct asked {
    struct asked *next;
    struct paths_node *n;
    uint64_t path;
    uint32_t to, not ;
};

static int step_relay(struct paths_node *n, struct relay_event ev);

static void routed(void *who, uint64_t what) {
    struct asked a = *(struct asked *)who, **at = &a.n->w->asked;
    (void)what;
    while (*at != who) at = &(*at)->next;
    *at = a.next;
    free(who);
    if (!a.n->r || a.n->w->broken) return;
    (void)step_relay(a.n, REV(ROUTED, .path = a.path, .link = route(a.n->w, a.n->index, a.to, a.not )));
    after(a.n);
}

static uint32_t number_of(const struct paths *p, const struct moyai_node_id *id) {
    (void)p;
    return (uint32_t)id->b[1] << 8 | id->b[2];
}

static struct paths_end *end_at(struct paths_node *n, uint32_t peer) {
    struct paths *p = n->w;
    struct paths_end *e = &n->ends[peer];
    if (e->s) return e;
    struct session_cfg c = p->cfg.session;
    c.id = rng_next(&p->rng) | 1;
    c.lower = n->index < peer;
    e->s = sim_alloc(session_size(&c));
    if (session_init(e->s, &c) < 0) abort();
    return e;
}

static struct check_flow *flow_of(struct paths *p, uint32_t from, uint32_t to) {
    struct paths_end *e = &p->node[from].ends[to];
    if (!e->flow) {
        e->flow = sim_alloc(check_flow_size(p->cfg.messages));
        check_flow_init(e->flow, p->cfg.messages);
    }
    return e->flow;
}

static void end_path(struct paths_node *n, uint64_t path) {
    if (path) (void)step_relay(n, REV(END, .path = path));
}

static void path_down(struct paths_node *n, uint32_t peer, uint64_t path) {
    struct paths_end *e = &n->ends[peer];
    if (e->old == path) e->old = 0;
    if (e->path != path) return;
    e->path = 0;
    e->wanted = false;
    e->fails += e->fails < 8; /* until the session stands: who tries again at once would only make more of the same */
    if (e->s->path_up) step_session(n, peer, SEV(PATH_DOWN), 0);
}

static void pull_one(struct paths_node *n, uint32_t peer, uint64_t path, uint32_t room) {
    struct paths *p = n->w;
    struct paths_end *e = &n->ends[peer];
    struct session_chunk chunks[SESSION_CHUNKS];
    struct session_frame f = {.chunks = chunks};
    if (e->path != path) return;
    e->wanted = false;
    if (!session_pull(e->s, p->w->now, room, &f)) return;
    char text[256] = "";
    snprintf(text, sizeof text, "p%u: ", relay_index(path) + 1);
    session_frame_text(text, sizeof text, &f);
    say(n, "> %s", text);
    if (f.kind == SESSION_DATA) law(n, check_pulled(flow_of(p, n->index, peer), &f, room));
    struct paths_box *b = box_new(p, f.n_chunks);
    b->frame = f;
    b->frame.chunks = b->chunks;
    if (f.n_chunks) memcpy(b->chunks, chunks, f.n_chunks * sizeof *chunks);
    b->bytes = (uint32_t)session_wire_head_size(&f);
    bool bulk = false;
    for (uint32_t i = 0; i < f.n_chunks; i++) {
        b->bytes += chunks[i].len;
        bulk = bulk || chunks[i].stream;
    }
    if (step_relay(n, REV(SEND, .path = path, .token = (uint64_t)(uintptr_t)b, .bytes = b->bytes,
                          .class_ = bulk ? FRAME_BULK : FRAME_SMALL)) < 0)
        law(n, "a frame within its room is refused");
}

/* Frames of a path whose session is another by now, or none. */
static void got(struct paths_node *n, uint64_t path, struct paths_box *b) {
    struct paths *p = n->w;
    uint32_t peer = n->owner[relay_index(path)] - 1;
    struct paths_end *e = end_at(n, peer);
    if (check_counts(e->s, &b->frame)) check_counted(flow_of(p, n->index, peer));
    step_session(n, peer, SEV(RECEIVE, .frame = &b->frame, .credit = UINT64_MAX), path);
    box_free(p, b);
}

static void effect(struct paths_node *n, const struct relay_effect *fx) {
    struct paths *p = n->w;
    uint32_t i = relay_index(fx->path), peer = fx->path ? n->owner[i] - 1 : 0;
    switch (fx->kind) {
    case RELAY_FX_OPENED: /* taken by who opened it */
    case RELAY_FX_WAKE:   /* all links are asked after each event */
        break;
    case RELAY_FX_ROUTE: {
        struct asked *a = sim_alloc(sizeof *a);
        *a = (struct asked){p->asked, n, fx->path, number_of(p, &fx->id), (uint32_t)fx->link};
        p->asked = a;
        world_in(p->w, (moyai_dur)rng_below(&p->rng, (uint64_t)p->cfg.route + 1), routed, a, 0);
        break;
    }
    case RELAY_FX_ARRIVED:
        n->owner[i] = number_of(p, &fx->id) + 1;
        p->arrivals++;
        break;
    case RELAY_FX_DELIVER:
        got(n, fx->path, box_of(fx->token));
        break;
    case RELAY_FX_ROOM:
        pull_one(n, peer, fx->path, fx->amount);
        break;
    case RELAY_FX_LEAVING:
        if (n->ends[peer].path != fx->path || n->ends[peer].opening) break;
        n->ends[peer].opening = n->ends[peer].leaving = true; /* after() opens another; this one goes on */
        break;
    case RELAY_FX_SHORT: /* sessions here are not closed before their time */
        break;
    case RELAY_FX_DOWN:
        p->downs++;
        if (n->owner[i]) path_down(n, peer, fx->path);
        break;
    case RELAY_FX_FREE:
        box_free(p, box_of(fx->token));
        break;
    case RELAY_FX_WITHDRAWN:
        n->withdrawn = true;
        break;
    }
}

struct effects {
    struct relay_effect *fx;
    uint32_t n, cap;
};

static void collect(struct paths_node *n, struct effects *all) {
    struct relay_effect fx;
    while (relay_next(n->r, &fx)) {
        char text[128] = "";
        relay_effect_text(text, sizeof text, &fx);
        if (fx.kind != RELAY_FX_DELIVER && fx.kind != RELAY_FX_FREE && fx.kind != RELAY_FX_WAKE) say(n, "| %s", text);
        if (all->n == all->cap) {
            all->cap = all->cap ? 2 * all->cap : 16;
            all->fx = realloc(all->fx, all->cap * sizeof *all->fx);
            if (!all->fx) abort();
        }
        all->fx[all->n++] = fx;
    }
}

/* What effects lead to may step the machine again: so all are fetched before the first is looked at. */
static void drain(struct paths_node *n) {
    struct effects all = {0};
    do {
        all.n = 0;
        collect(n, &all);
        for (uint32_t i = 0; i < all.n; i++) effect(n, &all.fx[i]);
    } while (all.n);
    free(all.fx);
}

static int step_relay(struct paths_node *n, struct relay_event ev) {
    struct effects all = {0};
    ev.now = n->w->w->now;
    if (ev.kind == RELAY_EV_WANT || ev.kind == RELAY_EV_SEND) return relay_step(n->r, &ev);
    collect(n, &all); /* of a SEND */
    int rc = relay_step(n->r, &ev);
    collect(n, &all);
    for (uint32_t i = 0; i < all.n; i++) effect(n, &all.fx[i]);
    free(all.fx);
    return rc;
}

/* --- sessions -------------------------------------------------------------------------------------------- */

static void session_effect(struct paths_node *n, uint32_t peer, const struct session_frame *f, uint64_t path,
                           const struct session_effect *fx) {
    static const struct session_frame none;
    struct paths *p = n->w;
    struct paths_end *e = &n->ends[peer];
    switch (fx->kind) {
    case SESSION_FX_OPENED:
        break;
    case SESSION_FX_PATH:
        e->leaving = e->leaving && e->path == path;
        e->path = path;
        if (e->old == path) e->old = 0;
        e->wanted = false;
        break;
    case SESSION_FX_WANT_PATH:
        e->path = 0;
        e->opening = true;
        break;
    case SESSION_FX_DELIVER:
        law(n, check_delivered(flow_of(p, peer, n->index), f, fx));
        e->whole += (fx->flags & SESSION_END) != 0;
        e->bytes += fx->len;
        e->last = p->w->now;
        if (fx->stream && (fx->flags & SESSION_BEGIN) && !e->stopped) {
            const struct session_event ev = SEV(GRANT, .now = p->w->now, .stream = fx->stream, .allowed = UINT64_MAX);
            if (session_step(e->s, &ev) < 0) law(n, "a grant is refused");
        }
        break;
    case SESSION_FX_ABORTED:
        law(n, check_delivered(flow_of(p, peer, n->index), f ? f : &none, fx));
        break;
    case SESSION_FX_ACKED:
    case SESSION_FX_DROPPED:
        law(n, check_reported(flow_of(p, n->index, peer), fx));
        break;
    case SESSION_FX_CLOSED:
    case SESSION_FX_FAILED:
        e->ended = true;
        law(n, check_ended(flow_of(p, n->index, peer)));
        break;
    }
}

static void step_session(struct paths_node *n, uint32_t peer, struct session_event ev, uint64_t path) {
    struct paths_end *e = &n->ends[peer];
    uint64_t before = e->path;
    ev.now = n->w->w->now;
    int rc = session_step(e->s, &ev);
    struct session_effect fx;
    while (session_next(e->s, &fx)) session_effect(n, peer, ev.frame, path, &fx);
    if (rc == MOYAI_EPROTO) law(n, "a frame of a right peer was refused by a session");
    if (rc == MOYAI_EINVAL && !ev.frame) law(n, "an event is refused by a session");
    if (e->path == path && path && !relay_path_find(n->r, path)) { /* it came by a path that has gone */
        e->path = 0;
        if (e->s->path_up) step_session(n, peer, SEV(PATH_DOWN), 0);
    }
    if (before && before != e->path) end_path(n, before);
    if (ev.frame && path != e->path && path != e->old && e->path) end_path(n, path); /* the session has gone on */
}

static void open_path(void *who, uint64_t peer_) {
    struct paths_node *n = who;
    struct paths *p = n->w;
    uint32_t peer = (uint32_t)peer_;
    if (!n->r || p->broken) return;
    struct paths_end *e = &n->ends[peer];
    bool stands = e->path && !e->leaving; /* the other end has opened one meanwhile */
    e->opening = e->timed = e->leaving = false;
    if (stands || e->ended || e->s->state == SESSION_NEW || e->s->state >= SESSION_ENDED) return;
    struct relay_event ev = REV(OPEN, .now = p->w->now, .id = p->node[peer].id);
    struct relay_effect fx;
    uint32_t link = p->node[peer].r ? route(p, n->index, peer, 0) : 0;
    ev.link = link;
    if (!link || relay_step(n->r, &ev) < 0 || !relay_next(n->r, &fx)) {
        e->opening = e->timed = true;
        e->leaving = e->path != 0;
        world_in(p->w, 100 * MOYAI_MS, open_path, n, peer);
        return;
    }
    uint64_t path = fx.path, old = e->path;
    n->owner[relay_index(path)] = peer + 1;
    drain(n);
    e->path = path;
    e->wanted = false;
    step_session(n, peer, SEV(PATH_UP, .credit = UINT64_MAX), 0);
    if (e->old) end_path(n, e->old);
    e->old = e->path == old ? 0 : old; /* make before break: until the session stands on the new one */
    after(n);
}

static void give_waiting(struct paths_node *n, uint32_t peer) {
    struct paths_end *e = &n->ends[peer];
    while (e->n_waiting && !e->ended) {
        uint64_t token = flow_of(n->w, n->index, peer)->given + 1, length = e->waiting[0];
        const struct session_event ev = SEV(SEND, .now = n->w->w->now, .token = token, .length = length);
        if (session_step(e->s, &ev) < 0) return;
        law(n, check_given(flow_of(n->w, n->index, peer), token, length));
        memmove(e->waiting, e->waiting + 1, --e->n_waiting * sizeof *e->waiting);
    }
}

/* The most links of a path. By wrong routes one that is closed while it is laid may pass a node again, where its
 * pointer has gone already. */
static uint32_t longest(const struct paths *p) {
    uint32_t hops = p->cfg.relay.hops ? p->cfg.relay.hops : 8;
    return p->cfg.wild && p->cfg.nodes < hops + 1 ? hops + 1 : p->cfg.nodes;
}

/* --- a node ---------------------------------------------------------------------------------------------------- */

static void pump(struct paths_node *n) {
    struct paths *p = n->w;
    for (uint32_t k = 0; k < p->n_links; k++) {
        struct paths_link *l = p->links[k];
        if (l->node[0] != n->index && l->node[1] != n->index) continue;
        int e = end_of(l, n);
        if (l->noticed[e]) continue;
        struct relay_out out;
        while (link_room(l, e) && relay_pull(n->r, l->number, &out)) {
            struct paths_box *b = out.control ? box_new(p, 0) : box_of(out.token);
            b->control = out.control;
            b->label = out.label;
            b->class_ = out.class_;
            if (out.control) {
                struct frame_head h;
                uint8_t bytes[RELAY_WIRE_MAX];
                relay_wire_put(&h, bytes, &out.frame);
                b->bytes = FRAME_HEAD + h.length;
                if (relay_wire_get(&h, bytes, &b->path, NULL) < 0) law(n, "a frame of paths is not read");
                char text[128] = "";
                relay_frame_text(text, sizeof text, &out.frame);
                say(n, "> %s", text);
            } else if (++b->hops > longest(p)) {
                law(n, "a frame has passed more links than it may");
            }
            link_send(l, e, b);
            drain(n);
        }
    }
}

static moyai_ns deadline(const struct paths_node *n) {
    moyai_ns at = relay_deadline(n->r);
    for (uint32_t i = 0; i < n->w->cfg.nodes; i++) {
        if (!n->ends[i].s) continue;
        moyai_ns d = session_deadline(n->ends[i].s);
        if (d < at) at = d;
    }
    return at;
}

static void timer(void *who, uint64_t what) {
    struct paths_node *n = who;
    struct paths *p = n->w;
    if (!n->r || what != n->timer || p->broken) return;
    n->timer = 0;
    if (relay_deadline(n->r) <= p->w->now) (void)step_relay(n, REV(TIMEOUT));
    for (uint32_t i = 0; i < p->cfg.nodes; i++)
        if (n->ends[i].s && session_deadline(n->ends[i].s) <= p->w->now) step_session(n, i, SEV(TIMEOUT), 0);
    after(n);
}

/* After every event: invariants, what can be given and sent now, when to wake. */
static void after(struct paths_node *n) {
    struct paths *p = n->w;
    struct moyai_error why;
    if (p->broken) return;
    for (uint32_t i = 0; i < p->cfg.nodes; i++) {
        struct paths_end *e = &n->ends[i];
        if (!e->s) continue;
        give_waiting(n, i);
        if (e->s->state == SESSION_UP || e->ended) {
            e->fails = 0;
            end_path(n, e->old);
            e->old = 0;
        }
        if (e->ended && !e->wanted && !session_pending(e->s)) { /* the last word has been said */
            end_path(n, e->path);
            e->path = 0;
        }
        if (e->opening && !e->timed && (!e->path || e->s->state == SESSION_UP)) {
            e->timed = true;
            uint64_t wait = (uint64_t)p->cfg.route + (e->fails ? (uint64_t)(5 * MOYAI_MS) << e->fails : 0);
            world_in(p->w, (moyai_dur)rng_below(&p->rng, wait + 1), open_path, n, i);
        }
        if (!e->path || e->wanted || !session_pending(e->s)) continue;
        e->wanted = true;
        struct relay_event ev = REV(WANT, .path = e->path, .now = p->w->now);
        if (relay_step(n->r, &ev) < 0) law(n, "an end that is up may not want");
    }
    drain(n);
    pump(n);
    if (!p->cfg.unchecked) {
        if (!relay_check(n->r, &why)) law(n, why.text);
        uint64_t held = relay_count(n->r).held;
        if (held > p->most_held) p->most_held = held;
        for (uint32_t i = 0; i < p->cfg.nodes; i++)
            if (n->ends[i].s && !session_check(n->ends[i].s, &why)) law(n, why.text);
    }
    for (uint32_t i = 0; i < p->cfg.nodes && !p->broken; i++) { /* what was pulled made room for more */
        const struct paths_end *e = &n->ends[i];
        if (!e->s || !e->path || e->wanted || !session_pending(e->s)) continue;
        after(n);
        return;
    }
    moyai_ns when = deadline(n);
    if (when == UINT64_MAX || (n->timer && n->timer <= when)) return;
    n->timer = when;
    world_at(p->w, when, timer, n, when);
}

static void deliver(struct paths_node *n, struct paths_link *l, struct paths_box *b) {
    struct paths *p = n->w;
    int rc;
    if (b->control) {
        if (b->path.kind == RELAY_ERROR) p->errors++;
        rc = step_relay(n, REV(FRAME, .link = l->number, .frame = &b->path));
        box_free(p, b);
    } else {
        rc = step_relay(n, REV(RECEIVE, .link = l->number, .label = b->label, .token = (uint64_t)(uintptr_t)b,
                               .bytes = b->bytes, .class_ = b->class_));
    }
    if (rc < 0) law(n, moyai_strerror(rc));
    after(n);
}

/* --- the world --------------------------------------------------------------------------------------------------- */

void paths_init(struct paths *p, struct world *w, struct trace *t, const struct paths_cfg *cfg) {
    *p = (struct paths){.w = w, .trace = t, .cfg = *cfg};
    rng_fork(&w->rng, "paths", 0, &p->rng);
    p->node = sim_alloc(cfg->nodes * sizeof *p->node);
    for (uint32_t i = 0; i < cfg->nodes; i++) {
        struct paths_node *n = &p->node[i];
        *n = (struct paths_node){.w = p, .index = i};
        n->id.b[1] = (uint8_t)(i >> 8);
        n->id.b[2] = (uint8_t)i;
        n->id.b[0] = (uint8_t)(i + 1); /* in the order of their numbers, none zero, and short to read */
        struct relay_cfg c = cfg->relay;
        c.self = n->id;
        c.seed = rng_next(&p->rng);
        n->r = aligned_alloc(16, relay_size(&c));
        if (!n->r) abort();
        memset(n->r, 0, relay_size(&c));
        if (relay_init(n->r, &c) < 0) abort();
        n->ends = sim_alloc(cfg->nodes * sizeof *n->ends);
        n->owner = sim_alloc(n->r->paths_cap * sizeof *n->owner);
    }
}

void paths_done(struct paths *p) {
    for (uint32_t i = 0; i < p->cfg.nodes; i++) {
        struct paths_node *n = &p->node[i];
        for (uint32_t k = 0; k < p->cfg.nodes; k++) {
            free(n->ends[k].s);
            free(n->ends[k].flow);
        }
        free(n->ends);
        free(n->owner);
        free(n->r);
    }
    while (p->boxes) box_free(p, p->boxes);
    for (struct asked *a; (a = p->asked); free(a)) p->asked = a->next;
    for (uint32_t k = 0; k < p->n_links; k++) free(p->links[k]);
    free(p->links);
    free(p->node);
    *p = (struct paths){0};
}

uint32_t paths_link(struct paths *p, uint32_t a, uint32_t b, uint64_t bytes_a_second) {
    if (!p->node[a].r || !p->node[b].r) return 0;
    struct paths_link **more = realloc(p->links, (p->n_links + 1) * sizeof(struct paths_link *));
    if (!more) abort();
    p->links = more;
    struct paths_link *l = sim_alloc(sizeof *l);
    *l = (struct paths_link){.p = p, .number = p->n_links + 1, .node = {a, b}};
    l->bytes_a_second = bytes_a_second ? bytes_a_second : p->cfg.bytes_a_second;
    p->links[p->n_links++] = l;
    for (int e = 0; e < 2; e++)
        if (step_relay(&p->node[l->node[e]], REV(LINK_UP, .link = l->number, .id = p->node[l->node[1 - e]].id)) < 0)
            abort();
    return l->number;
}

static void notice(void *who, uint64_t e) {
    struct paths_link *l = who;
    struct paths_node *n = &l->p->node[l->node[e]];
    if (l->noticed[e] || l->p->broken) return;
    l->noticed[e] = true;
    if (!n->r) return;
    (void)step_relay(n, REV(LINK_DOWN, .link = l->number));
    after(n);
}

void paths_cut(struct paths *p, uint32_t link, bool lose) {
    struct paths_link *l = p->links[link - 1];
    if (l->cut) return;
    l->cut = true;
    trace_line(p->trace, p->w->now, "-", "link %u is cut", link);
    for (uint64_t e = 0; e < 2; e++) {
        struct paths_way *y = &l->way[e];
        while (lose && y->first) {
            struct paths_box *b = y->first;
            y->first = b->behind;
            box_free(p, b);
        }
        if (!y->first) y->last = NULL;
        world_in(p->w, (moyai_dur)rng_below(&p->rng, 10 * (uint64_t)MOYAI_MS), notice, l, e);
    }
}

static void dead(void *who, uint64_t node) {
    struct paths *p = who;
    for (uint32_t i = 0; i < p->cfg.nodes; i++) {
        struct paths_node *n = &p->node[i];
        if (!n->r || p->broken) continue;
        (void)step_relay(n, REV(GONE, .id = p->node[node].id, .code = RELAY_DEAD));
        if (n->ends[node].s && n->ends[node].s->state < SESSION_ENDED)
            step_session(n, (uint32_t)node, SEV(PEER_DEAD), 0);
        after(n);
    }
}

void paths_crash(struct paths *p, uint32_t node, bool evidence) {
    struct paths_node *n = &p->node[node];
    if (!n->r) return;
    say(n, "= crashes%s", "");
    free(n->r);
    n->r = NULL;
    for (uint32_t k = 0; k < p->n_links; k++)
        if (p->links[k]->node[0] == node || p->links[k]->node[1] == node) paths_cut(p, k + 1, false);
    if (evidence) world_in(p->w, 20 * MOYAI_MS, dead, p, node);
}

void paths_withdraw(struct paths *p, uint32_t node) {
    struct paths_node *n = &p->node[node];
    if (!n->r) return;
    say(n, "= withdraws%s", "");
    n->withdrawn = true;
    (void)step_relay(n, REV(WITHDRAW));
    after(n);
}

void paths_give(struct paths *p, uint32_t from, uint32_t to, uint64_t length) {
    struct paths_node *n = &p->node[from];
    if (!n->r || p->broken) return;
    struct paths_end *e = end_at(n, to);
    if (e->n_waiting + flow_of(p, from, to)->given >= p->cfg.messages || e->n_waiting == 64 || e->ended) return;
    e->waiting[e->n_waiting++] = length;
    if (e->s->state == SESSION_NEW) step_session(n, to, SEV(OPEN), 0);
    after(n);
}

void paths_stop(struct paths *p, uint32_t at, uint32_t from, bool stopped) {
    struct paths_node *n = &p->node[at];
    struct paths_end *e = end_at(n, from);
    e->stopped = stopped;
    for (uint32_t i = 1; !stopped && i <= e->s->streams; i++) {
        const struct session_event ev = SEV(GRANT, .now = p->w->now, .stream = i, .allowed = UINT64_MAX);
        (void)session_step(e->s, &ev); /* of those that are there */
    }
    after(n);
}

void paths_close(struct paths *p, uint32_t from, uint32_t to) {
    struct paths_node *n = &p->node[from];
    struct paths_end *e = n->r ? &n->ends[to] : NULL;
    if (!e || !e->s || e->s->state >= SESSION_CLOSING) return;
    e->n_waiting = 0;
    step_session(n, to, SEV(CLOSE), 0);
    after(n);
}

bool paths_settled(const struct paths *p) {
    for (uint32_t i = 0; i < p->cfg.nodes; i++) {
        const struct paths_node *n = &p->node[i];
        for (uint32_t k = 0; n->r && k < p->cfg.nodes; k++) {
            const struct paths_end *e = &n->ends[k];
            if (!e->s || e->s->state == SESSION_NEW || e->s->state >= SESSION_ENDED) continue;
            if (e->flow && e->flow->told != e->flow->given) return false;
            if (!session_idle(e->s) || e->n_waiting || (e->opening && !e->path)) return false;
            if (!p->node[k].r || p->node[k].ends[i].s->state >= SESSION_ENDED) return false;
        }
    }
    return true;
}

const char *paths_rest(const struct paths *p) {
    for (uint32_t i = 0; i < p->cfg.nodes; i++) {
        const struct relay *r = p->node[i].r;
        if (!r) continue;
        if (r->items_n) return "a frame is left in a queue";
        for (uint32_t ref = 1; ref <= r->paths_top; ref++) {
            const struct relay_path *q = relay_path_at(r, ref);
            if (q->state == PATH_FREE) continue;
            if (q->state != PATH_OPEN) return "a path is neither open nor gone";
            for (int s = 0; s < 2; s++) {
                const struct relay_side *y = &q->side[s];
                if (y->where == HERE) continue;
                if (y->where != BY_LINK) return "a path without its second side";
                uint64_t number = relay_link_at(r, y->link)->number;
                const struct paths_link *l = p->links[number - 1];
                const struct relay *o = p->node[l->node[l->node[0] == i]].r;
                uint32_t there = o ? relay_link_find(o, number) : 0;
                if (!there || !relay_side_find(o, there, y->label)) return "a pointer whose neighbour has none";
            }
        }
    }
    return NULL;
}
