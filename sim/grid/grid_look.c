/* SPDX-License-Identifier: Apache-2.0 */
/* The laws of each node, looked at after each of its turns; of frames, as they come; and of the whole grid at rest. */
#include "sim/grid/grid_internal.h"

#include "overlay/death.h"
#include "overlay/io/route_internal.h"
#include "overlay/io/staying.h"
#include "overlay/io/wide.h"
#include "overlay/locate_internal.h"
#include "overlay/peers_internal.h"
#include "overlay/relay_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define IDS (1u << 20)
#define SELDOM                                                                                                         \
    16u /* in how many turns of a node its relay is looked at where laws are not checked: it lies far off              \
         */

/* ---- frames ---------------------------------------------------------------------------------- */

/* What has been seen of late: two halves, of which the older is forgotten when the younger is full. */
struct grid_ids {
    uint64_t id[2][IDS];
    uint32_t n;
    int young;
};

static bool seen(struct grid_ids *s, uint64_t id) {
    id |= 1;
    for (int half = 0; half < 2; half++) {
        const uint64_t *t = s->id[half];
        for (uint32_t i = (uint32_t)(id >> 20) % IDS; t[i]; i = (i + 1) % IDS)
            if (t[i] == id) return true;
    }
    if (s->n == IDS / 2) {
        s->young = 1 - s->young;
        s->n = 0;
        memset(s->id[s->young], 0, sizeof s->id[0]);
    }
    uint64_t *t = s->id[s->young];
    uint32_t i = (uint32_t)(id >> 20) % IDS;
    while (t[i]) i = (i + 1) % IDS;
    t[i] = id;
    s->n++;
    return false;
}

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

void grid_came(void *ctx, struct ground_node *u, const struct ground_node *from, const struct frame_head *h,
               const uint8_t *payload) {
    struct grid *g = ctx;
    g->count.frames[h->type % 80]++;
    g->count.bytes[h->type % 80] += h->length + FRAME_HEAD;
    if (h->type == FRAME_FORWARD && h->length > 32) g->count.forwarded[payload[32] % 80]++;
    if (h->type == FRAME_RELAY + RELAY_ERROR && h->length > 16) g->count.errors[payload[16] % 16]++;
    if (h->type < FRAME_SESSION || h->type > FRAME_SESSION_LAST || !h->label) return;
    g->count.relayed++;
    if (h->type != FRAME_SESSION + SESSION_DATA || h->length < 32) return;
    uint64_t id, seq;
    uint32_t path;
    memcpy(&id, payload, 8);
    memcpy(&path, payload + 8, 4);
    memcpy(&seq, payload + 24, 8);
    if (!g->seen) g->seen = sim_alloc(sizeof *g->seen);
    if (seen(g->seen, mix(mix(mix(mix(id, path), seq), from->index), u->index)))
        grid_law(g, g->node[u->index],
                 "a frame of session %016" PRIx64 ", path %" PRIu32 ", comes over one link twice, from %" PRIu32, id,
                 path, from->index);
}

/* What a turn touches: a part of the node and of the link by which the frame has come, then of the machines. */
void grid_ahead(void *ctx, const struct ground_node *u, const void *owner, unsigned stage) {
    const struct grid *g = ctx;
    const struct olink *k = owner;
    const struct overlay *o;
    const struct route *t;
    if (stage == 3) {
        ground_fetch(g->node[u->index], sizeof(struct grid_node));
        if (k) ground_fetch(k, sizeof *k);
        return;
    }
    if (!(o = g->node[u->index]->o)) return;
    if (stage == 4) {
        ground_fetch(o, 64);
        ground_fetch(&o->hook, offsetof(struct overlay, rejoin_timer) - offsetof(struct overlay, hook));
        return;
    }
    if (!(t = o->route)) return;
    if (stage == 5) {
        ground_fetch(t, offsetof(struct route, slot));
        ground_fetch(&t->flush, offsetof(struct route, hops) - offsetof(struct route, flush));
        ground_fetch(k ? k->peer : NULL, 64);
        ground_fetch(o->peers, 64); /* it leads to their number */
        ground_fetch(o->dead_last, 64);
    } else if (stage == 6) {
        const struct locate *l = t->l;
        ground_fetch(l, offsetof(struct locate, notes));
        ground_fetch(t->r, sizeof *t->r);
        if (o->peers) ground_fetch(o->peers->hh.tbl, sizeof *o->peers->hh.tbl);
        if (!k || k->slot < 0) return;
        ground_fetch((const char *)l + sizeof *l + (size_t)k->slot * sizeof(struct locate_link),
                     sizeof(struct locate_link));
    }
}

/* ---- a node ---------------------------------------------------------------------------------- */

static void ended(struct grid *g, struct grid_node *n, const struct peer *p) {
    struct grid_node *dead = grid_node_of(g, p->id);
    if (dead && dead->well_left && id_equal(dead->u->id.b, p->id) && p->why_code != MOYAI_ECLOSED)
        grid_law(g, n, "takes %" PRIu32 " for dead, which leaves in order: %s", dead->index, peer_why(p)->text);
    if (!grid_is_now(dead, p->id) || p->why_code == MOYAI_ECLOSED) return;
    g->count.declared++;
    grid_say(g, n, "believes %" PRIu32 " dead: %s", dead->index, peer_why(p)->text);
    if (grid_well(dead, g->w->now))
        grid_law(g, n, "declares %" PRIu32 " dead, which is well: %s", dead->index, peer_why(p)->text);
}

static void relays_within(struct grid *g, struct grid_node *n) {
    const struct overlay *o = n->o;
    const struct relay_count r = relay_count(o->route->r);
    uint64_t own = 2 * (uint64_t)RELAY_MOST * r.passing;
    if (r.lent > g->cfg.memory) grid_law(g, n, "its relay lends %" PRIu64 " bytes", r.lent);
    if (r.held > g->cfg.memory + own)
        grid_law(g, n, "its relay holds %" PRIu64 " bytes for %" PRIu32 " paths", r.held, r.passing);
    if (r.held > g->count.held_most) g->count.held_most = r.held;
    if (r.passing > g->count.passing_most) g->count.passing_most = r.passing;
}

static void within(struct grid *g, struct grid_node *n) {
    const struct overlay *o = n->o;
    if (o->n_links > g->count.links_most) g->count.links_most = (uint32_t)o->n_links;
    uint32_t peers = HASH_COUNT(o->peers) - (uint32_t)o->n_dead;
    if (peers > g->count.peers_most) g->count.peers_most = peers;
    if (o->n_links - o->n_half_open > SMALL_LINKS + 20) grid_law(g, n, "it has %zu links", o->n_links);
}

static void invariants(struct grid *g, struct grid_node *n) {
    struct moyai_error why = {0};
    if (!relay_check(n->o->route->r, &why) || !locate_check(n->o->route->l, &why) || !staying_check(n->o, &why))
        grid_law(g, n, "%s", why.text);
}

static bool has_links(const struct overlay *o) {
    const struct olink *k = o->links;
    while (k && !k->mesh) k = k->next;
    return k;
}

static void numbered(struct grid *g, const struct grid_node *node) {
    bool lacks = false;
    for (const struct olink *k = node->o->links; k; k = k->next) lacks |= k->mesh && k->slot < 0 && !k->peer->dead;
    /* There is none while one link more is up, of which one is about to go. */
    for (uint32_t i = 0; i < SMALL_LINKS && lacks; i++)
        if (!node->o->route->slot[i]) grid_law(g, node, "locating has no number for one of its links");
}

/* The log does not say everything twice. */
static void told_dead(struct grid *g, struct grid_node *n) {
    if (grid_well(n, g->w->now)) grid_law(g, n, "is well and was told that it is dead");
    g->count.told_dead++;
    n->ill = true;
}

void grid_turned(void *ctx, struct ground_node *u) {
    struct grid *g = ctx;
    struct grid_node *n = g->node[u->index];
    if (!n->o || g->broken) return;
    if (n->o->n_dead > n->dead_seen) {
        const struct peer *p = n->o->dead_first, *seen = p; /* it may be forgotten by now, and all these be new */
        while (seen && !id_equal(seen->id, n->dead_last)) seen = seen->dead_next;
        for (p = seen ? seen->dead_next : p; p; p = p->dead_next) ended(g, n, p);
    }
    n->dead_seen = n->o->n_dead;
    if (n->o->dead_last) memcpy(n->dead_last, n->o->dead_last->id, 16);
    if (n->o->told && !n->told && !n->gone) told_dead(g, n);
    n->told = n->o->told;
    bool alone = n->ill && !n->u->stopped; /* nothing but an end of a link makes it so */
    const bool other = alone || n->links != n->o->n_links;
    if (other) alone = !has_links(n->o);
    if (other && g->cfg.checked) numbered(g, n);
    n->links = n->o->n_links;
    if (alone && !n->ill) grid_say(g, n, "has no links");
    if (alone) {
        n->ill = true;
    } else if (n->ill && !u->stopped) {
        n->ill = false;
        n->well = g->net.parted ? UINT64_MAX : g->w->now + GRID_WELL;
    }
    within(g, n);
    n->turns++;
    if (g->cfg.checked || n->turns % SELDOM == 0) relays_within(g, n);
    if (g->cfg.checked && n->turns % g->cfg.checked == 0) invariants(g, n);
}

static struct peer *peer_of(const struct grid *g, uint32_t a, uint32_t b) {
    return overlay_find(g->node[g->lives[a]]->o, g->node[g->lives[b]]->u->id.b);
}

bool grid_reached(const struct grid *g, uint32_t a) {
    const struct wide *w = g->node[g->lives[a]]->o->wide;
    return wide_self(w)->reached && wide_peers(w)->reached; /* at the rendezvous, and to its peers */
}

bool grid_alone(const struct grid *g, uint32_t a) {
    return overlay_links(g->node[g->lives[a]]->o) == 0;
}

bool grid_linked(const struct grid *g, uint32_t a, uint32_t b) {
    const struct peer *p = peer_of(g, a, b);
    return p && p->links;
}

bool grid_begins(const struct grid *g, uint32_t a, uint32_t b) {
    const struct peer *p = peer_of(g, a, b);
    return p && p->session && p->via.path && !p->opened;
}

void grid_connect(struct grid *g, uint32_t a, uint32_t b) {
    struct grid_node *n = g->node[g->lives[a]], *to = g->node[g->lives[b]];
    ground_enter(n->u);
    wide_direct(n->o->wide, overlay_peer(n->o, to->u->id.b), wide_self(to->o->wide));
    ground_leave(n->u);
}

bool grid_mourns(const struct grid *g, uint32_t who, uint32_t index) {
    const struct peer *p = overlay_find(g->node[who]->o, g->node[index]->u->id.b);
    return p && p->dead;
}

uint32_t grid_mourners(const struct grid *g, uint32_t index) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->live; i++) n += grid_mourns(g, g->lives[i], index);
    return n;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static uint32_t root(uint32_t *to, uint32_t i) {
    while (to[i] != i) i = to[i] = to[to[i]];
    return i;
}

/* In how many parts are the live, if all connect that can? Sites whose nodes nobody else takes, or nobody at all, with
 * nobody to take theirs. */
static uint32_t least_parts(const struct grid *g, bool staying) {
    uint32_t closed = 0;
    bool open = false;
    uint8_t *some = sim_alloc(g->cfg.sites);
    for (uint32_t i = 0; i < g->live; i++) {
        const struct ground_node *u = g->node[g->lives[i]]->u;
        if (staying && g->node[g->lives[i]]->leaving) continue;
        if (g->net.site[u->site] == GROUND_OPEN)
            open = true;
        else if (!grid_listens(g, u) || !some[u->site])
            some[u->site] = 1, closed++;
    }
    free(some);
    return open ? 1 : closed;
}

uint32_t grid_parts_staying(const struct grid *g) {
    return least_parts(g, true);
}

struct grid_view grid_look(struct grid *g) {
    struct grid_view v = {.live = g->live, .least = UINT32_MAX, .parts_least = least_parts(g, false)};
    uint32_t *to = sim_alloc((g->n + 1) * sizeof *to);
    for (uint32_t i = 0; i < g->n; i++) to[i] = i;
    for (uint32_t i = 0; i < g->live; i++) {
        const struct grid_node *n = g->node[g->lives[i]];
        bool open = g->net.site[n->u->site] == GROUND_OPEN;
        uint32_t links = 0;
        for (const struct olink *k = n->o->links; k; k = k->next) {
            if (!k->mesh || !k->peer) continue; /* not agreed on yet */
            const struct grid_node *other = grid_node_of(g, k->peer->id);
            if (!grid_is_now(other, k->peer->id)) continue;
            links++;
            v.between += open && g->net.site[other->u->site] == GROUND_OPEN;
            to[root(to, other->index)] = root(to, n->index);
        }
        v.alone += links == 0;
        if (links < v.least) v.least = links;
        if (links > v.most) v.most = links;
        v.mean += links;
        v.peers += HASH_COUNT(n->o->peers) - (uint32_t)n->o->n_dead;
        v.paths += relay_count(n->o->route->r).paths;
    }
    for (uint32_t i = 0; i < g->live; i++) v.parts += root(to, g->lives[i]) == g->lives[i];
    free(to);
    double live = g->live ? g->live : 1;
    v.mean /= live;
    v.peers /= live;
    v.paths /= live;
    return v;
}

/* Whoever has a session has it with somebody who has it, too. */
static void both_ends(struct grid *g) {
    for (uint32_t i = 0; i < g->live && !g->broken; i++) {
        struct grid_node *n = g->node[g->lives[i]];
        for (const struct peer *p = n->o->peers; p; p = p->hh.next) {
            if (!p->session || !p->opened || p->closing) continue;
            const struct grid_node *to = grid_node_of(g, p->id);
            bool there = grid_is_now(to, p->id);
            const struct peer *q = there ? overlay_find(to->o, n->u->id.b) : NULL;
            if (!there)
                grid_law(g, n, "has a session with one that is not there any more");
            else if (!q || !q->session || q->session_key != p->session_key)
                grid_law(g, n, "has a session with %" PRIu32 ", which has %s", to->index,
                         q && q->session ? "another" : "none");
        }
    }
}

/* Nobody who lives is dead to another: if it was, it was told, and has another id. But for who comes back when all have
 * forgotten it but one who holds a reference to it, and does not meet that one. */
static void alive(struct grid *g) {
    for (uint32_t i = 0; i < g->live && !g->broken; i++) {
        struct grid_node *n = g->node[g->lives[i]];
        for (const struct peer *p = n->o->dead_first; p; p = p->dead_next) {
            const struct grid_node *dead = grid_node_of(g, p->id);
            if (grid_is_now(dead, p->id) && !dead->long_away)
                grid_law(g, n, "still believes %" PRIu32 " dead, which lives: %s", dead->index, peer_why(p)->text);
        }
    }
}

bool grid_rest(struct grid *g) {
    const struct grid_view v = grid_look(g);
    if (v.parts > v.parts_least)
        grid_law(g, NULL, "%" PRIu32 " live nodes in %" PRIu32 " parts, not %" PRIu32, v.live, v.parts, v.parts_least);
    if (grid_open(g)) grid_law(g, NULL, "%" PRIu64 " calls have not ended", grid_open(g));
    both_ends(g);
    alive(g);
    for (uint32_t i = 0; i < g->live && !g->broken; i++) invariants(g, g->node[g->lives[i]]);
    return !g->broken;
}
