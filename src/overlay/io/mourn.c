/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the death machine says is sent by link, or forwarded from node to node (route_forward); it may get lost. Its
 * verdicts end everything with that node here (peer_declare), which tells the other machines.
 */
#include "overlay/io/mourn.h"

#include "base/err.h"
#include "overlay/death.h"
#include "overlay/death_wire.h"
#include "overlay/io/depart.h"
#include "overlay/io/probe.h"
#include "overlay/io/rejoin.h"
#include "overlay/io/route.h"
#include "overlay/locate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is a node that may have died still there? */
struct asked {
    struct asked *next;
    struct mourn *m;
    struct probe *probe;
    uint8_t id[16];
};
#define PROBES 64u
#define LATER  2048u /* words that wait; more do not */
/* Whoever has just lost a link to a node asks it, too. If it lives its other neighbours say so; mostly it does not, and
 * all of them would let frames wander that never arrive. */
#define SUBJECT_HOPS 4u
#define PROBE_WAIT   (2 * MOYAI_SEC)
#define KEEP_LEAST   (75 * MOYAI_SEC) /* longer than others may take its last word of where it is for new */

/* A word that can wait. */
struct later {
    struct later *next;
    uint8_t to[16];
    struct moyai_node_id subject;
    uint8_t type;
    size_t n;
    uint8_t bytes[];
};

/* All go together, at a time that is drawn, so that of two who would tell each other one does. */
struct waiting {
    struct mourn *m;
    struct exec_timer timer;
    struct later *first, **end; /* in order */
    unsigned n;
    moyai_dur span;
    bool moot; /* if the subject is known to be dead by then, the words need not be said */
};

/* Whom a node was linked to before it told that it is linked to nobody. */
struct emptied {
    moyai_ns at;
    size_t n;
    struct locate_neighbour near[];
};
/* Who leaves tells that first, and has said farewell by then. One that is heard of later has lost its neighbours. */
#define EMPTIED_LEAVES (2 * DEPART_MOST)

struct mourn {
    struct overlay *o;
    struct death *d;
    struct exec_timer timer;
    struct waiting cases, witnessed, news;
    struct asked *asked;
    unsigned n_asked;
    bool stepping, closing;
    struct death_effect *queue; /* said and not acted on yet */
    size_t n, cap;
};

static void step(struct mourn *m, struct death_event *ev);

/* ---- probes ---------------------------------------------------------------------------------- */

static void asked_free(struct asked *a) {
    for (struct asked **q = &a->m->asked; *q; q = &(*q)->next)
        if (*q == a) {
            *q = a->next;
            break;
        }
    a->m->n_asked--;
    probe_cancel(a->probe);
    free(a);
}

static void on_probe(void *arg, bool refused) {
    struct asked *a = arg;
    struct mourn *m = a->m;
    struct death_event ev = {.kind = DEATH_EV_REFUSED};
    memcpy(ev.id.b, a->id, 16);
    a->probe = NULL;
    asked_free(a);
    if (refused) step(m, &ev);
}

static void probe(struct mourn *m, const uint8_t id[16]) {
    const struct peer *peer = overlay_find(m->o, id);
    struct tcp_addr at;
    if (!peer || !peer->at[0] || m->n_asked == PROBES || tcp_parse(peer->at, &at, NULL) < 0) return;
    struct asked *a = calloc(1, sizeof *a);
    if (!a) return;
    a->m = m;
    memcpy(a->id, id, 16);
    a->probe = probe_new(m->o->x, &at, PROBE_WAIT, on_probe, a);
    if (!a->probe) {
        free(a);
        return;
    }
    a->next = m->asked;
    m->asked = a;
    m->n_asked++;
}

/* ---- the machine ----------------------------------------------------------------------------- */

static unsigned hops_to(const uint8_t to[16], uint8_t type, const uint8_t subject[16]) {
    return type == FRAME_DEATH + DEATH_ENDED && id_equal(to, subject) ? SUBJECT_HOPS : FORWARD_HOPS;
}

static void send_frame(struct mourn *m, const uint8_t to[16], const struct death_frame *f) {
    uint8_t bytes[DEATH_WIRE_MAX], type = (uint8_t)(FRAME_DEATH + f->kind);
    size_t n = death_wire_size(f);
    death_wire_put(bytes, f);
    route_forward(m->o, to, m->o->cfg.self.b, type, bytes, n, hops_to(to, type, f->subject.b));
}

/* ---- what can wait --------------------------------------------------------------------------- */

static void later_free(struct waiting *w, struct later **at) {
    struct later *l = *at;
    *at = l->next;
    if (!*at) w->end = at;
    w->n--;
    free(l);
}

static void later_clear(struct waiting *w) {
    while (w->first) later_free(w, &w->first);
    exec_timer_clear(w->m->o->x, &w->timer);
}

/*
 * Whoever waits for a node that has died is to know first; and where many processes share a processor he waits for all
 * that these do. So two things come after it.
 *
 * News of the death to those who had nothing to do with the node, so that they do not look for it: each neighbour of
 * each of its neighbours, hundreds of frames.
 *
 * A case about a link that has broken: who has seen the process end, its parent say, declares it dead in a few
 * milliseconds, and what its neighbours would have asked each other, some hundred frames, need not be asked. Where a
 * node of its own host is among those, it has more time for it: of a whole cluster, whose processes end one after the
 * other.
 */
static bool has_witness(const struct mourn *m, const struct death_frame *f) {
    if (f->subject_host == 0) return false;
    bool found = f->host == f->subject_host;
    for (uint32_t i = 0; i < f->n && !found; i++)
        found = f->m[i].host == f->subject_host && death_of(m->d, &f->m[i].id) == DEATH_NOT_KNOWN;
    return found;
}

static struct waiting *waits(struct mourn *m, const uint8_t to[16], const struct death_frame *f) {
    if (f->kind == DEATH_ENDED) return has_witness(m, f) ? &m->witnessed : &m->cases;
    struct peer *p = overlay_find(m->o, to);
    bool linked = p && olink_ready(p);
    return linked && (f->kind == DEATH_DEAD || f->kind == DEATH_LEFT) && f->hops == 0 ? &m->news : NULL;
}

static void say_later(struct waiting *w, const uint8_t to[16], const struct death_frame *f) {
    struct mourn *m = w->m;
    size_t n = death_wire_size(f);
    struct later *l = w->n < LATER ? calloc(1, sizeof *l + n) : NULL;
    if (!l) {
        send_frame(m, to, f);
        return;
    }
    l->subject = f->subject;
    l->type = (uint8_t)(FRAME_DEATH + f->kind);
    l->n = n;
    memcpy(l->to, to, 16);
    death_wire_put(l->bytes, f);
    *w->end = l;
    w->end = &l->next;
    w->n++;
    if (w->first != l) return;
    exec_timer_set(m->o->x, &w->timer,
                   exec_now(m->o->x) + (moyai_ns)w->span + rng_below(&m->o->rng, (uint64_t)w->span));
}

static void on_later(struct exec *x, struct exec_timer *t) {
    struct waiting *w = (struct waiting *)((char *)t - offsetof(struct waiting, timer));
    struct overlay *o = w->m->o;
    (void)x;
    while (w->first) {
        struct later *l = w->first;
        if (!w->moot || death_of(w->m->d, &l->subject) == DEATH_NOT_KNOWN)
            route_forward(o, l->to, o->cfg.self.b, l->type, l->bytes, l->n, hops_to(l->to, l->type, l->subject.b));
        later_free(w, &w->first);
    }
}

static void waiting_init(struct waiting *w, struct mourn *m, moyai_dur span, bool moot) {
    *w = (struct waiting){.m = m, .end = &w->first, .span = span, .moot = moot};
    exec_timer_init(&w->timer, on_later);
}

/* It knows. */
static void later_heard(struct mourn *m, const uint8_t from[16], const struct death_frame *f) {
    struct waiting *w = &m->news;
    if (f->kind != DEATH_DEAD && f->kind != DEATH_LEFT) return;
    for (struct later **at = &w->first; *at;)
        if (id_equal((*at)->to, from) && id_equal((*at)->subject.b, f->subject.b))
            later_free(w, at);
        else
            at = &(*at)->next;
}

static const char *cause_text(const struct death_effect *fx, char text[64]) {
    switch (fx->cause) {
    case DEATH_SIGNAL:
        snprintf(text, 64, "killed by signal %u", fx->number);
        break;
    case DEATH_EXIT:
        snprintf(text, 64, "exited with status %u", fx->number);
        break;
    case DEATH_LINKS:
        snprintf(text, 64, "all its links have broken");
        break;
    case DEATH_REFUSED:
        snprintf(text, 64, "nobody listens at its address any more");
        break;
    default:
        snprintf(text, 64, "its process has ended");
    }
    return text;
}

static void declare(struct mourn *m, const struct death_effect *fx) {
    struct peer *p = overlay_peer(m->o, fx->id.b);
    char text[MOYAI_ERROR_TEXT], cause[64], who[PEER_NAME];
    if (!p || p->dead) return;
    if (fx->kind == DEATH_FX_LEFT) {
        peer_name(p, who);
        snprintf(text, sizeof text, "%s has left", who);
    } else {
        peer_died_text(p, cause_text(fx, cause), text);
    }
    p->cleared |= fx->cleared;
    peer_declare(p, fx->kind == DEATH_FX_LEFT ? MOYAI_ECLOSED : MOYAI_EDEAD, text);
}

static void act(struct mourn *m, const struct death_effect *fx) {
    char cause[64];
    struct waiting *w;
    switch (fx->kind) {
    case DEATH_FX_SEND:
        w = waits(m, fx->id.b, &fx->frame);
        if (w)
            say_later(w, fx->id.b, &fx->frame);
        else
            send_frame(m, fx->id.b, &fx->frame);
        break;
    case DEATH_FX_DECLARED:
    case DEATH_FX_LEFT:
        declare(m, fx);
        route_mourn(m->o, fx->id.b);
        break;
    case DEATH_FX_TOLD:
        rejoin_told(m->o, fx->cause == DEATH_OTHER ? "" : cause_text(fx, cause));
        break;
    case DEATH_FX_PROBE:
        probe(m, fx->id.b);
        break;
    }
}

/* Effects may lead to further events: they are fetched first, then acted on in order. */
static void step(struct mourn *m, struct death_event *ev) {
    if (m->closing) return;
    ev->now = exec_now(m->o->x);
    (void)death_step(m->d, ev); /* EINVAL: of a link that it has no room for; EAGAIN: that */
    struct death_effect fx;
    while (death_next(m->d, &fx)) {
        if (m->n == m->cap) {
            size_t cap = m->cap ? 2 * m->cap : 2; /* they are large */
            struct death_effect *q = realloc(m->queue, cap * sizeof *q);
            if (!q) continue; /* as if it had got lost */
            m->queue = q;
            m->cap = cap;
        }
        m->queue[m->n++] = fx;
    }
    if (m->stepping) return;
    m->stepping = true;
    for (size_t i = 0; i < m->n; i++) {
        fx = m->queue[i];
        act(m, &fx);
    }
    m->n = m->cap = 0;
    free(m->queue);
    m->queue = NULL;
    m->stepping = false;
    moyai_ns when = death_deadline(m->d);
    if (when == UINT64_MAX)
        exec_timer_clear(m->o->x, &m->timer);
    else if (m->timer.index == SIZE_MAX || m->timer.when != when)
        exec_timer_set(m->o->x, &m->timer, when);
}

static void on_timer(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct death_event ev = {.kind = DEATH_EV_TIMEOUT};
    step((struct mourn *)((char *)t - offsetof(struct mourn, timer)), &ev);
}

/* ---- what happens ---------------------------------------------------------------------------- */

void mourn_link_up(struct olink *k) {
    struct death_event ev = {.kind = DEATH_EV_UP, .host = host_hash(k->host)};
    memcpy(ev.id.b, k->peer->id, 16);
    step(k->o->mourn, &ev);
}

void mourn_empties(struct olink *k, const struct locate_frame *f) {
    struct locate_neighbour near[DEATH_MEMBERS];
    for (uint32_t i = 0; i < f->n; i++)
        if (!id_zero(f->slots[i].id)) return;
    const size_t n = route_neighbours(k, near, DEATH_MEMBERS);
    if (n == 0 || f->n < n || k->o->mourn->closing) return; /* f->n < n: some are left */
    free(k->emptied);
    k->emptied = malloc(sizeof *k->emptied + n * sizeof near[0]);
    if (!k->emptied) return;
    *k->emptied = (struct emptied){.at = exec_now(k->o->x), .n = n};
    memcpy(k->emptied->near, near, n * sizeof near[0]);
}

/* Whom it is linked to, as it has told us; of one who leaves, and so tells of nobody, whom it was linked to before. */
static void members_of(const struct olink *k, struct death_event *ev, struct death_member members[DEATH_MEMBERS]) {
    struct locate_neighbour near[DEATH_MEMBERS];
    size_t n = route_neighbours(k, near, DEATH_MEMBERS);
    const struct emptied *e = n == 0 ? k->emptied : NULL;
    if (e && k->heard <= e->at + (moyai_ns)EMPTIED_LEAVES) memcpy(near, e->near, (n = e->n) * sizeof near[0]);
    ev->members = members;
    for (size_t i = 0; i < n; i++) { /* with the host that it told its neighbour, as with all others who ask about it */
        if (id_equal(near[i].node.b, k->o->cfg.self.b)) continue;
        members[ev->n++] = (struct death_member){near[i].node, near[i].host};
    }
}

void mourn_link_down(struct olink *k) {
    struct death_member members[DEATH_MEMBERS];
    struct death_event ev = {.kind = DEATH_EV_END};
    memcpy(ev.id.b, k->peer->id, 16);
    bool says_nothing = k->orderly || k->farewell || k->carried;
    ev.how = says_nothing ? DEATH_ORDERLY : k->silent ? DEATH_SILENT : DEATH_BROKEN;
    members_of(k, &ev, members);
    free(k->emptied);
    k->emptied = NULL;
    step(k->o->mourn, &ev);
}

/* Of one who leaves none but its neighbours need to know, as a rule; but who looks may wait for that end, and where all
 * leave, those who are linked to him are perhaps none of these. */
static void told_of(struct overlay *o, const uint8_t from[16], const uint8_t id[16]) {
    for (const struct olink *k = o->links; k; k = k->next)
        if (k->mesh && k->observer && !id_equal(k->peer->id, from)) mourn_pass_on(o, k->peer->id, id);
    depart_left(o, id);
}

int mourn_frame(struct overlay *o, const uint8_t from[16], uint8_t type, const uint8_t *p, size_t n,
                struct moyai_error *why) {
    struct death_frame f;
    int rc = death_wire_get(type, p, n, &f, why);
    if (rc < 0) return rc;
    struct death_event ev = {.kind = DEATH_EV_FRAME, .frame = &f};
    memcpy(ev.id.b, from, 16);
    later_heard(o->mourn, from, &f);
    const bool news = f.kind == DEATH_LEFT && f.hops == 0 && death_of(o->mourn->d, &f.subject) == DEATH_NOT_KNOWN;
    step(o->mourn, &ev);
    if (news && death_of(o->mourn->d, &f.subject) == DEATH_HAS_LEFT) told_of(o, from, f.subject.b);
    return 0;
}

void mourn_farewell(struct overlay *o, const uint8_t id[16]) {
    const struct peer *p = overlay_find(o, id);
    struct death_event ev = {.kind = DEATH_EV_FAREWELL, .cleared = p && p->cleared};
    memcpy(ev.id.b, id, 16);
    step(o->mourn, &ev);
}

bool mourn_likely(const struct overlay *o, const uint8_t id[16]) {
    struct moyai_node_id node;
    memcpy(node.b, id, 16);
    return o->mourn && death_likely(o->mourn->d, &node);
}

void mourn_witnessed(struct overlay *o, const uint8_t id[16]) {
    struct death_event ev = {.kind = DEATH_EV_WITNESSED, .cause = DEATH_OTHER};
    struct death_member members[DEATH_MEMBERS];
    const struct peer *p = overlay_find(o, id);
    memcpy(ev.id.b, id, 16);
    for (const struct olink *k = p ? p->links : NULL; k && ev.n == 0; k = k->peer_next)
        if (k->mesh) members_of(k, &ev, members); /* these are told at once */
    step(o->mourn, &ev);
}

/* By a frame of a link: the machine would take its end for evidence, which there is. */
void mourn_told(struct overlay *o, const uint8_t from[16], const uint8_t id[16]) {
    struct death_frame f = {.kind = DEATH_DEAD, .cause = DEATH_OTHER};
    struct death_event ev = {.kind = DEATH_EV_FRAME, .frame = &f};
    memcpy(f.subject.b, id, 16);
    memcpy(ev.id.b, from, 16);
    step(o->mourn, &ev);
}

void mourn_tell(struct overlay *o, const uint8_t id[16]) {
    struct death_frame f;
    struct moyai_node_id node;
    memcpy(node.b, id, 16);
    /* What was forgotten since it was declared is not known any more. */
    if (!death_news(o->mourn->d, &node, &f) || f.kind != DEATH_DEAD)
        f = (struct death_frame){.kind = DEATH_DEAD, .subject = node, .cause = DEATH_OTHER};
    if (!o->mourn->closing) send_frame(o->mourn, id, &f);
}

void mourn_pass_on(struct overlay *o, const uint8_t to[16], const uint8_t of[16]) {
    struct death_frame f;
    struct moyai_node_id id;
    memcpy(id.b, of, 16);
    if (!o->mourn->closing && death_news(o->mourn->d, &id, &f)) send_frame(o->mourn, to, &f);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int begin(struct mourn *m) {
    const struct overlay *o = m->o;
    struct death_cfg c = {.self = o->cfg.self,
                          .host = host_hash(o->hello.host),
                          .keep = o->cfg.reattach < MOYAI_FOREVER / 3 ? 3 * o->cfg.reattach : MOYAI_FOREVER};
    if (c.keep < KEEP_LEAST) c.keep = KEEP_LEAST;
    if (o->cfg.small) {
        c.links = 2 * SMALL_LINKS;
        c.dead = 128;
    }
    size_t n = (death_size(&c) + 63) / 64 * 64;
    if (n == 0) return MOYAI_EINVAL;
    bool first = !m->d;
    if (first) m->d = calloc(1, n); /* zeros that need not be written */
    if (!m->d) return MOYAI_ENOMEM;
    if (!first) memset(m->d, 0, n);
    return death_init(m->d, &c);
}

void mourn_again(struct mourn *m) {
    m->n = 0;
    later_clear(&m->cases);
    later_clear(&m->witnessed);
    later_clear(&m->news);
    m->closing = begin(m) < 0; /* not so: it has begun before */
}

int mourn_new(struct overlay *o, struct moyai_error *reterr) {
    struct mourn *m = calloc(1, sizeof *m);
    if (!m) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    o->mourn = m;
    m->o = o;
    exec_timer_init(&m->timer, on_timer);
    waiting_init(&m->cases, m, MOURN_CASE, true);
    waiting_init(&m->witnessed, m, MOURN_WITNESSED, true);
    waiting_init(&m->news, m, MOURN_NEWS, false);
    int rc = begin(m);
    return rc < 0 ? err_set(reterr, rc, "cannot begin to watch others: %s", moyai_strerror(rc)) : 0;
}

void mourn_close(struct mourn *m) {
    if (!m || m->closing) return;
    on_later(m->o->x, &m->news.timer); /* perhaps nobody else knows it who stays */
    m->closing = true;
    exec_timer_clear(m->o->x, &m->timer);
    later_clear(&m->cases);
    later_clear(&m->witnessed);
    later_clear(&m->news);
    while (m->asked) asked_free(m->asked);
}

void mourn_free(struct mourn *m) {
    if (!m) return;
    free(m->queue);
    free(m->d);
    free(m);
}
