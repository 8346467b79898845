/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which way a path goes from here.
 *
 * Locating knows ways, and has no part in what becomes of the paths that are sent by them: a relay on the way may have
 * no place for one, a link behind it may have fallen silent, what a neighbour tells of its neighbours may be old. So
 * here is remembered, of each destination, by which links paths to it have failed of late, own and others'. Another
 * link is taken if one is known. Who opens a path goes on where all known ways have failed: by some other link, whose
 * node knows other ways; and when all links have failed, from the beginning. A relay then takes what it has: where it
 * fails its source finds other ways.
 */
#include "overlay/io/mourn.h"
#include "overlay/io/route_internal.h"

#include <stdlib.h>
#include <string.h>

#define UNUSED_FOR (500 * MOYAI_MS)
#define OWED_FOR   (3 * MOYAI_SEC) /* the death machine has come to its verdict by then, or comes to none */
#define BAD_FOR    (5 * MOYAI_SEC) /* a relay may have places again, a silent link is found out meanwhile */

/* Entries of each; with cfg.small a quarter. */
#define HOPS  256u
#define BADS  64u
#define BACKS 128u
#define OWED  256u

bool ways_new(struct route *t) {
    const uint32_t part = t->o->cfg.small ? 4 : 1;
    t->n_hops = HOPS / part;
    t->n_bad = BADS / part;
    t->n_back = BACKS / part;
    t->n_owed = OWED / part;
    t->hops = calloc(1, t->n_hops * sizeof *t->hops + t->n_bad * sizeof *t->bad + t->n_back * sizeof *t->back +
                            t->n_owed * sizeof *t->owed);
    if (!t->hops) return false;
    t->bad = (struct bad *)(void *)(t->hops + t->n_hops);
    t->back = (struct back *)(void *)(t->bad + t->n_bad);
    t->owed = (struct owed *)(void *)(t->back + t->n_back);
    return true;
}

/* ---- what has failed ------------------------------------------------------------------------- */

static struct bad *bad_at(struct route *t, const uint8_t id[16]) {
    uint64_t h;
    memcpy(&h, id, sizeof h);
    return &t->bad[h % t->n_bad];
}

static locate_set bad_of(struct route *t, const uint8_t id[16]) {
    const struct bad *b = bad_at(t, id);
    return id_equal(b->id, id) && exec_now(t->o->x) < b->until ? b->slots : SET_NONE;
}

static void bad_put(struct route *t, const uint8_t id[16], uint32_t slot) {
    struct bad *b = bad_at(t, id);
    *b = (struct bad){.slots = bad_of(t, id) | set_of(slot), .until = exec_now(t->o->x) + (moyai_ns)BAD_FOR};
    memcpy(b->id, id, 16);
}

static void bad_clear(struct route *t, const uint8_t id[16]) {
    struct bad *b = bad_at(t, id);
    if (id_equal(b->id, id)) *b = (struct bad){0};
}

void ways_link_new(struct route *t, uint32_t slot) {
    for (uint32_t i = 0; i < t->n_bad; i++)
        if (set_has(&t->bad[i].slots, slot)) set_del(&t->bad[i].slots, slot); /* what was never written stays so */
}

void ways_error(struct route *t, const struct olink *k, const struct relay_frame *f) {
    struct moyai_node_id to;
    if (f->kind != RELAY_ERROR || k->slot < 0) return;
    bool ended =
        f->code == RELAY_DEAD || f->code == RELAY_LEFT || f->code == RELAY_CLEARED; /* not the way is at fault */
    if (!ended && relay_leads(t->r, k->number, f->label, &to)) bad_put(t, to.b, (uint32_t)k->slot);
}

void ways_hop_bad(struct route *t, uint64_t path, const uint8_t id[16]) {
    const struct hop *h = &t->hops[path % t->n_hops];
    if (h->path != path) return;
    struct locate_event bad = {.kind = LOCATE_EV_ROUTE_BAD, .link = h->slot};
    memcpy(bad.node.b, id, 16);
    (void)route_locate(t, &bad);
}

void route_unanswered(struct peer *p, struct via via) {
    struct route *t = p->o->route;
    const struct hop *h = &t->hops[via.path % t->n_hops];
    if (via.link && via.link->slot >= 0) bad_put(t, p->id, (uint32_t)via.link->slot);
    if (via.path && h->path == via.path) bad_put(t, p->id, h->slot);
}

/* ---- who is to be told ----------------------------------------------------------------------- */

/*
 * Where the link to a path's end breaks, that end has died as a rule, which is known here some milliseconds later: as
 * this node is its neighbour. The path's other end, whose calls wait for that, may be far, and has been told only that
 * the path has broken. It is told of the death, too, before all those who do not need it.
 */
static void owe(struct route *t, const uint8_t to[16], const uint8_t of[16]) {
    struct owed *w = &t->owed[t->owed_next++ % t->n_owed];
    *w = (struct owed){.until = exec_now(t->o->x) + (moyai_ns)OWED_FOR};
    memcpy(w->to, to, 16);
    memcpy(w->of, of, 16);
}

void ways_link_ends(struct route *t, const struct olink *k) {
    uint32_t at = 0;
    struct moyai_node_id end;
    while (!k->peer->dead && relay_beyond(t->r, k->number, &at, &end)) owe(t, end.b, k->peer->id);
}

void route_mourn(struct overlay *o, const uint8_t id[16]) {
    struct route *t = o->route;
    moyai_ns now = exec_now(o->x);
    for (uint32_t i = 0; i < t->n_owed; i++) {
        struct owed *w = &t->owed[i];
        if (w->until <= now || !id_equal(w->of, id)) continue;
        uint8_t to[16];
        memcpy(to, w->to, 16);
        for (uint32_t k = i; k < t->n_owed; k++) /* once, though it had several paths */
            if (id_equal(t->owed[k].of, id) && id_equal(t->owed[k].to, to)) t->owed[k].until = 0;
        mourn_pass_on(o, to, id);
    }
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Sessions that nobody needs stand for a while, as they may be needed again. Where places for paths run short the one
 * that was used longest ago ends now: its place is for who has something to say. */
void ways_make_place(struct route *t) {
    struct peer *oldest = NULL;
    moyai_ns before = exec_now(t->o->x) - (moyai_ns)UNUSED_FOR;
    if (relay_left(t->r) > t->n_ends / 16) return;
    for (size_t i = 0; i < t->n_ends; i++) {
        struct peer *p = t->ends[i].path ? t->ends[i].p : NULL;
        if (!p || p->via.path != t->ends[i].path || p->last_active > before || !peer_unused(p)) continue;
        if (!oldest || p->last_active < oldest->last_active) oldest = p;
    }
    if (oldest) peer_session_close(oldest);
}

/* The same for a relay that others need. Whether the session is needed is looked at when it has not been for a while.
 */
void ways_short(const struct end *e) {
    struct peer *p = e->p;
    if (p->via.path != e->path || !p->session || !p->opened || p->closing || p->idle <= UNUSED_FOR) return;
    p->idle = UNUSED_FOR;
    exec_timer_set(p->o->x, &p->idle_timer, p->last_active + (moyai_ns)p->idle);
}

/* ---- finding --------------------------------------------------------------------------------- */

static void routed(struct route *t, uint64_t path, uint64_t link) {
    struct relay_event ev = {.kind = RELAY_EV_ROUTED, .path = path, .link = link};
    (void)route_relay(t, &ev); /* EINVAL: the path has ended meanwhile */
}

static void use_link(struct route *t, uint64_t path, const struct olink *k) {
    t->hops[path % t->n_hops] = (struct hop){path, (uint32_t)k->slot};
    routed(t, path, k->number);
}

static bool use_route(struct route *t, uint64_t path, const struct moyai_node_id *id, locate_set avoid) {
    struct locate_hop hop;
    if (!locate_route(t->l, id, avoid, exec_now(t->o->x), &hop) || !t->slot[hop.link]) return false;
    use_link(t, path, t->slot[hop.link]);
    return true;
}

/* Those that are to leave; but they are found themselves. */
static locate_set leavers(const struct route *t, const struct moyai_node_id *id) {
    locate_set set = SET_NONE;
    for (uint32_t i = 0; i < LOCATE_LINKS; i++)
        if (t->slot[i] && t->slot[i]->leaving && !id_equal(t->slot[i]->peer->id, id->b)) set_add(&set, i);
    return set;
}

/* own: the path begins here. False: no way is known. */
static bool use_any(struct route *t, uint64_t path, const struct moyai_node_id *id, locate_set avoid, bool own) {
    struct locate_hop hop;
    locate_set bad = bad_of(t, id->b), leave = leavers(t, id);
    if (set_any(leave) && use_route(t, path, id, avoid | bad | leave)) return true;
    if (use_route(t, path, id, avoid | bad)) return true;
    if (!set_any(bad) || !locate_route(t->l, id, avoid, exec_now(t->o->x), &hop)) return false;
    struct olink *k = own ? route_any_link(t, avoid | bad) : NULL;
    if (k) {
        use_link(t, path, k);
        return true;
    }
    if (own) bad_clear(t, id->b);
    return use_route(t, path, id, avoid);
}

static void asker_free(struct route *t, struct asker *a) {
    HASH_DEL(t->askers, a);
    free(a);
}

/* path, avoid, own: as in asker. False: it cannot be asked for. */
static bool ask(struct route *t, const uint8_t id[16], uint64_t path, locate_set avoid, bool own) {
    struct asker *a = calloc(1, sizeof *a);
    if (!a) return false;
    a->token = ++t->last_token;
    a->path = path;
    a->avoid = avoid;
    a->own = own;
    memcpy(a->id, id, 16);
    HASH_ADD(hh, t->askers, token, sizeof a->token, a);
    if (!a->hh.tbl) {
        free(a);
        return false;
    }
    struct locate_event ev = {.kind = LOCATE_EV_LOOKUP, .key_kind = LOCATE_NODE, .token = a->token};
    const struct peer *p = own ? overlay_find(t->o, id) : NULL;
    ev.lost = set_any(bad_of(t, id)) || (p && p->opened);
    memcpy(ev.key, id, 16);
    if (route_locate(t, &ev) == 0) return true;
    asker_free(t, a);
    return false;
}

bool route_known(struct overlay *o, const uint8_t id[16]) {
    struct locate_hop hop;
    struct moyai_node_id node;
    memcpy(node.b, id, 16);
    return locate_route(o->route->l, &node, SET_NONE, exec_now(o->x), &hop);
}

void route_find(struct overlay *o, const uint8_t id[16], bool bad) {
    struct route *t = o->route;
    struct locate_event ev = {.kind = LOCATE_EV_ROUTE_BAD};
    struct locate_hop hop;
    memcpy(ev.node.b, id, 16);
    if (t->closing) return;
    if (bad && locate_route(t->l, &ev.node, SET_NONE, exec_now(o->x), &hop)) {
        ev.link = hop.link;
        (void)route_locate(t, &ev);
    }
    if (!ask(t, id, 0, SET_NONE, false)) pings_located(o, id, false);
    route_run(t);
}

void ways_find(struct route *t, const struct relay_effect *fx) {
    locate_set avoid = SET_NONE;
    ways_make_place(t);
    for (uint32_t i = 0; fx->link && i < LOCATE_LINKS; i++)
        if (t->slot[i] && t->slot[i]->number == fx->link) set_add(&avoid, i);
    if (fx->amount > 0) ways_hop_bad(t, fx->path, fx->id.b); /* what was said before did not work */
    if (use_any(t, fx->path, &fx->id, avoid, fx->link == 0)) return;
    /* The neighbours of a node that has died need not go through the whole grid to look for it: they will know. */
    bool likely = mourn_likely(t->o, fx->id.b);
    if (likely && fx->link) owe(t, fx->from.b, fx->id.b);
    if (likely || !ask(t, fx->id.b, fx->path, avoid, fx->link == 0)) routed(t, fx->path, 0);
}

void ways_located(struct route *t, const struct locate_effect *fx) {
    struct asker *a;
    HASH_FIND(hh, t->askers, &fx->token, sizeof fx->token, a);
    if (!a) return;
    uint64_t path = a->path;
    locate_set avoid = a->avoid;
    bool own = a->own;
    struct moyai_node_id id;
    memcpy(id.b, a->id, 16);
    asker_free(t, a);
    if (path == 0) {
        pings_located(t->o, id.b, fx->kind == LOCATE_FX_FOUND);
        return;
    }
    struct peer *p = own ? overlay_find(t->o, id.b) : NULL;
    if (p && fx->kind != LOCATE_FX_NOT_FOUND) p->nowhere = 0;
    if (p && fx->kind == LOCATE_FX_NOT_FOUND && !fx->unsure) p->nowhere++;
    if (fx->kind == LOCATE_FX_FOUND && use_any(t, path, &id, avoid, own)) return;
    routed(t, path, 0);
}

void ways_forget(struct route *t) {
    struct asker *a, *tmp;
    HASH_ITER (hh, t->askers, a, tmp) asker_free(t, a);
    memset(t->hops, 0, t->n_hops * sizeof *t->hops);
    memset(t->bad, 0, t->n_bad * sizeof *t->bad);
    memset(t->owed, 0, t->n_owed * sizeof *t->owed);
}
