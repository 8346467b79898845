/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/host.h"

#include "base/err.h"
#include "overlay/session_internal.h"
#include "overlay/session_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROOM  (65536 + SESSION_HEAD_MAX)
#define AHEAD 65536 /* READS_STEPS */

static struct host *other(struct host *h) {
    return &h->net->host[1 - h->index];
}
static struct check_flow *inflow(struct host *h) {
    return other(h)->flow;
}

static void law(struct host *h, const char *broken) {
    struct net *n = h->net;
    if (!broken || n->broken) return;
    n->broken = true;
    err_set(&n->why, MOYAI_EINTERNAL, "%s: %s", h->name, broken);
    trace_line(n->trace, n->w->now, h->name, "BROKEN %s", broken);
}

static void say(struct host *h, const char *fmt, const char *text) {
    trace_line(h->net->trace, h->net->w->now, h->name, fmt, text);
}

static uint64_t some_credit(struct host *h) {
    const uint64_t *c = h->net->cfg.credits;
    uint64_t n = 0;
    while (n < 4 && c[n]) n++;
    return n == 0 || rng_below(&h->rng, 5) == 0 ? UINT64_MAX : c[rng_below(&h->rng, n)];
}

/* --- the driver: effects ---------------------------------------------------------------------------- */

static void pump(struct host *h);
static void step(struct host *h, struct session_event ev, struct sim_link *l);

#define EV(k, ...) ((struct session_event){.kind = SESSION_EV_##k, ##__VA_ARGS__})

static void find(void *who, uint64_t what);

static void find_soon(struct host *h) {
    if (h->finding) return;
    h->finding = true;
    uint64_t span =
        h->net->cfg.find > 1 ? 1 + rng_below(&h->rng, (uint64_t)h->net->cfg.find) : (uint64_t)h->net->cfg.find;
    world_in(h->net->w, (moyai_dur)span, find, h, 0);
}

static void grant(struct host *h, uint32_t stream) {
    uint64_t allowed = h->reads == READS_ALL ? UINT64_MAX : h->got[stream] + AHEAD;
    if (h->reads == READS_NOT || h->totals[stream] == 0) return;
    const struct session_event ev = EV(GRANT, .now = h->net->w->now, .stream = stream, .allowed = allowed);
    if (session_step(h->s, &ev) < 0) law(h, "a grant is refused");
}

static void delivered(struct host *h, const struct session_frame *f, const struct session_effect *fx) {
    static const struct session_frame none; /* what is aborted at the end comes by no frame */
    law(h, check_delivered(inflow(h), f ? f : &none, fx));
    if (fx->stream == 0) return;
    bool over = fx->kind == SESSION_FX_ABORTED || (fx->flags & SESSION_END);
    h->totals[fx->stream] = over ? 0 : fx->total;
    h->got[fx->stream] = over ? 0 : fx->offset + fx->len;
    grant(h, fx->stream);
}

static void effect(struct host *h, const struct session_frame *f, struct sim_link *l, const struct session_effect *fx) {
    switch (fx->kind) {
    case SESSION_FX_OPENED:
        break;
    case SESSION_FX_PATH:
        h->path = l;
        h->wants = false;
        break;
    case SESSION_FX_WANT_PATH:
        h->path = NULL;
        h->wants = true;
        find_soon(h);
        break;
    case SESSION_FX_DELIVER:
    case SESSION_FX_ABORTED:
        delivered(h, f, fx);
        break;
    case SESSION_FX_ACKED:
    case SESSION_FX_DROPPED:
        law(h, check_reported(h->flow, fx));
        break;
    case SESSION_FX_CLOSED:
    case SESSION_FX_FAILED:
        h->ended = true;
        law(h, check_ended(h->flow));
        break;
    }
}

static void tell(struct host *h, const struct session_frame *f, struct sim_link *l) {
    struct session_effect fx;
    char text[512] = "";
    while (session_next(h->s, &fx)) {
        size_t n = strlen(text);
        if (n && n + 2 < sizeof text) memcpy(text + n, " ", 2);
        session_effect_text(text, sizeof text, &fx);
        effect(h, f, l, &fx);
    }
    if (text[0]) say(h, "| %s", text);
}

/* --- the driver: events ------------------------------------------------------------------------------- */

static void timer(void *who, uint64_t what) {
    struct host *h = who;
    if (what != h->timer) return;
    h->timer = 0;
    if (!h->s) return;
    if (session_deadline(h->s) <= h->net->w->now) step(h, EV(TIMEOUT), NULL);
    moyai_ns when = session_deadline(h->s);
    if (when == UINT64_MAX || (h->timer && h->timer <= when)) return;
    h->timer = when;
    world_at(h->net->w, when, timer, h, when);
}

static void give_waiting(struct host *h) {
    while (h->n_waiting && h->s && !h->ended) {
        uint64_t length = h->waiting[h->first_waiting], token = h->flow->given + 1;
        bool room = session_room(h->s, length, true);
        const struct session_event ev =
            EV(SEND, .now = h->net->w->now, .token = token, .length = length, .request = true);
        int rc = session_step(h->s, &ev);
        if (rc == MOYAI_EINVAL) return; /* closing */
        if (room != (rc == 0)) law(h, "room, but not taken, or the reverse");
        if (rc < 0) return;
        law(h, check_given(h->flow, token, length));
        h->first_waiting++;
        h->n_waiting--;
    }
}

/* After every event: the machine's invariants, what can be given now, what can be sent, when to wake. */
static void after(struct host *h) {
    struct net *n = h->net;
    struct moyai_error why;
    if (!session_check(h->s, &why)) law(h, why.text);
    give_waiting(h);
    pump(h);
    moyai_ns when = session_deadline(h->s);
    if (when == UINT64_MAX || (h->timer && h->timer <= when)) return;
    h->timer = when;
    world_at(n->w, when, timer, h, when);
}

static void step(struct host *h, struct session_event ev, struct sim_link *l) {
    ev.now = h->net->w->now;
    int rc = session_step(h->s, &ev);
    tell(h, ev.frame, l);
    if (rc == MOYAI_EPROTO) law(h, "a frame of a right peer was refused");
    struct session_frame no = {0};
    if (rc == MOYAI_EINVAL && ev.frame && ev.frame->kind != SESSION_OPEN && session_refuse(ev.frame, &no) &&
        link_room(l, h->index))
        link_send(l, h->index, &no, 24);
    if (rc == MOYAI_EINVAL && !ev.frame) law(h, "an event is refused");
    if (h->path && h->path->noticed[h->index]) { /* it came by a link that is known to be gone */
        h->path = NULL;
        if (h->s->path_up) {
            step(h, EV(PATH_DOWN), NULL);
            return;
        }
    }
    after(h);
}

static void pump(struct host *h) {
    struct session_chunk chunks[SESSION_CHUNKS];
    struct session_frame f = {.chunks = chunks};
    while (h->path && link_room(h->path, h->index)) {
        uint64_t credit = h->s->credit;
        bool pending = session_pending(h->s);
        if (!session_pull(h->s, h->net->w->now, ROOM, &f)) {
            if (pending) law(h, "pending, but nothing to pull");
            return;
        }
        char text[256] = "";
        session_frame_text(text, sizeof text, &f);
        say(h, "> %s", text);
        uint64_t bytes = 48 + 8 * f.n_chunks;
        for (uint32_t i = 0; i < f.n_chunks; i++) bytes += f.chunks[i].len;
        if (f.kind == SESSION_DATA) law(h, check_pulled(h->flow, &f, credit < ROOM ? credit : ROOM));
        link_send(h->path, h->index, &f, bytes);
    }
}

/* Credit on its way back to the sender. */
struct back {
    struct back *next, **at; /* in the net's list */
    struct host *to;
    struct sim_link *l;
    uint32_t path;
    uint64_t bytes;
};

static void credit_back(void *who, uint64_t what) {
    struct back b = *(struct back *)who;
    *b.at = b.next;
    if (b.next) b.next->at = b.at;
    free(who);
    (void)what;
    if (!b.to->s || b.to->path != b.l || b.l->cut || b.to->s->path != b.path || !b.to->s->path_up) return;
    if (b.to->s->credit == UINT64_MAX) return;
    step(b.to, EV(CREDIT, .credit = b.bytes), NULL);
}

static void received(void *who, struct sim_link *l, struct packet *p) {
    struct host *h = who;
    if (!h->s || h->net->broken) return;
    if (p->frame.kind == SESSION_DATA) {
        struct back *b = sim_alloc(sizeof *b);
        *b = (struct back){.next = h->net->backs, .at = &h->net->backs, .to = other(h), .l = l, .path = p->frame.path};
        if (b->next) b->next->at = &b->next;
        h->net->backs = b;
        for (uint32_t i = 0; i < p->frame.n_chunks; i++) b->bytes += check_bytes(&p->frame.chunks[i]);
        world_in(h->net->w, h->net->cfg.link.delay, credit_back, b, 0);
    }
    if (check_counts(h->s, &p->frame)) check_counted(h->flow);
    step(h, EV(RECEIVE, .frame = &p->frame, .credit = some_credit(h)), l);
}

static void closed(void *who, struct sim_link *l) {
    struct host *h = who;
    if (!h->s || h->path != l) return;
    h->path = NULL;
    if (h->s->path_up) step(h, EV(PATH_DOWN), NULL);
}

static void drained(void *who, struct sim_link *l) {
    struct host *h = who;
    if (h->s && h->path == l) after(h);
}

static const struct link_ops host_link = {received, closed, drained};

static struct sim_link *live_link(const struct net *n) {
    for (uint32_t i = n->n_links; i > 0; i--)
        if (!n->links[i - 1]->cut) return n->links[i - 1];
    return NULL;
}

static struct sim_link *new_link(struct net *n) {
    struct sim_link **p = realloc(n->links, (n->n_links + 1) * sizeof *p);
    if (!p) abort();
    n->links = p;
    p[n->n_links] = link_new(n->w, n->n_links, &n->cfg.link, &host_link, &n->host[0], &n->host[1]);
    return p[n->n_links++];
}

static void find(void *who, uint64_t what) {
    struct host *h = who;
    struct net *n = h->net;
    (void)what;
    h->finding = false;
    /* It may have ended since another path was looked for, with a CLOSED still to be said: by the path it has. */
    if (!h->s || !h->wants || h->s->state >= SESSION_ENDED) return;
    if (n->down || !other(h)->s) {
        h->finding = true;
        world_in(n->w, 100 * MOYAI_MS, find, h, 0);
        return;
    }
    struct sim_link *l = live_link(n);
    if (!l || rng_below(&h->rng, 4) == 0) l = new_link(n);
    h->wants = false;
    h->path = l;
    say(h, "= path up%s", "");
    step(h, EV(PATH_UP, .credit = some_credit(h)), NULL);
}

/* --- the application ------------------------------------------------------------------------------------ */

void net_init(struct net *n, struct world *w, struct trace *t, const struct net_cfg *cfg) {
    *n = (struct net){.w = w, .trace = t, .cfg = *cfg};
    for (int i = 0; i < 2; i++) {
        struct host *h = &n->host[i];
        *h = (struct host){.net = n, .name = i == 0 ? "a" : "b", .index = i, .cfg = cfg->session};
        rng_fork(&w->rng, "host", (uint64_t)i, &h->rng);
        h->cfg.id = rng_next(&h->rng) | 1;
        h->cfg.lower = i == 0;
        h->s = sim_alloc(session_size(&h->cfg));
        if (session_init(h->s, &h->cfg) < 0) abort();
        h->flow = sim_alloc(check_flow_size(cfg->messages));
        check_flow_init(h->flow, cfg->messages);
        h->waiting = sim_alloc(cfg->messages * sizeof *h->waiting);
    }
}

void net_done(struct net *n) {
    for (int i = 0; i < 2; i++) {
        free(n->host[i].s);
        free(n->host[i].flow);
        free(n->host[i].waiting);
    }
    for (uint32_t i = 0; i < n->n_links; i++) link_free(n->links[i]);
    free(n->links);
    for (struct back *b = n->backs, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *n = (struct net){0};
}

void host_open(struct host *h) {
    if (h->s && h->s->state == SESSION_NEW) step(h, EV(OPEN), NULL);
}

void host_give(struct host *h, uint64_t length) {
    if (!h->s || h->first_waiting + h->n_waiting == h->net->cfg.messages) return;
    h->waiting[h->first_waiting + h->n_waiting++] = length;
    after(h);
}

void host_drop(struct host *h, uint64_t token) {
    if (!h->s || h->ended || token == 0 || token > h->flow->given) return;
    if (h->flow->m[token - 1].fate != CHECK_UNTOLD) return;
    trace_line(h->net->trace, h->net->w->now, h->name, "= drops %" PRIu64, token);
    step(h, EV(DROP, .token = token), NULL);
}

void host_close(struct host *h) {
    if (!h->s || h->s->state >= SESSION_CLOSING) return;
    say(h, "= closes%s", "");
    h->n_waiting = 0;
    step(h, EV(CLOSE), NULL);
}

void host_read(struct host *h, enum host_reads reads) {
    h->reads = reads;
    if (!h->s || h->s->state >= SESSION_CLOSING) return;
    for (uint32_t i = 1; i <= CHECK_STREAMS; i++) grant(h, i);
    after(h);
}

void host_find(struct host *h) {
    if (!h->s || h->ended || h->s->state == SESSION_NEW) return;
    h->wants = true;
    find_soon(h);
}

void net_cut(struct net *n, bool lose, const moyai_dur notice[2]) {
    trace_line(n->trace, n->w->now, "-", "cut%s", lose ? ", all lost" : "");
    for (uint32_t i = 0; i < n->n_links; i++) link_cut(n->links[i], lose, notice);
}

static void dead(void *who, uint64_t what) {
    struct host *h = who;
    (void)what;
    if (!h->s || h->s->state >= SESSION_ENDED) return;
    h->path = NULL;
    h->wants = false;
    step(h, EV(PEER_DEAD), NULL);
}

void host_crash(struct host *h, moyai_dur evidence) {
    if (!h->s) return;
    say(h, "= crashes%s", "");
    free(h->s);
    h->s = NULL;
    h->path = NULL;
    h->wants = false;
    const moyai_dur notice[2] = {MOYAI_MS, MOYAI_MS};
    net_cut(h->net, false, notice);
    if (evidence != MOYAI_FOREVER) world_in(h->net->w, evidence, dead, other(h), 0);
}

bool net_settled(const struct net *n) {
    for (int i = 0; i < 2; i++) {
        const struct host *h = &n->host[i], *o = &n->host[1 - i];
        if (!h->s || h->s->state == SESSION_NEW) continue;
        if (h->flow->told != h->flow->given) return false;
        if (h->s->state >= SESSION_ENDED) continue;
        if (!o->s || h->n_waiting || !session_idle(h->s) || o->s->state >= SESSION_ENDED) return false;
    }
    return true;
}
