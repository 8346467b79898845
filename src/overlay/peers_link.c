/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links: the table of them, whom to accept, and making room.
 *
 * A node with all places taken does not simply refuse. Where most nodes cannot accept, those that came first would hold
 * all places and late ones have none. So it takes the newcomer as a *guest* and asks the peer that, by its last count,
 * has most links, whether it would give its own up (YIELD with the newcomer's count). The peer judges by its own true
 * count: it yields if it then still has at least as many links as the newcomer. Peers that can accept are asked first,
 * for they will find others more easily. So links move from the rich to the poor only (the sum of the squares
 * of all counts falls with each), nobody gives up its last one, and it ends. If all who might have kept theirs, the
 * guest is put out with three other names.
 *
 * Those who accept keep a few links to each other, though, and are taken for these beyond all places: where the others
 * come to have one link each, it is by them that all are one grid. If one has fewer it looks for them, and the places
 * are kept free meanwhile: after a partition others, who found none before, would have them, and nobody could ask them
 * to go.
 *
 * The count that is told and compared is, on a link between two sites, that of links to other sites only: else a site
 * that nobody can enter would be content with links of its own and drift off. For the same reason a node wants some
 * links to other sites, however many it has to its own.
 *
 * Two nodes that offer each other a link at once: the offer of the lower id stands, whatever comes first at either end.
 * An offer counts from when it is sent; a connection only being made gives way to the other's offer.
 */
#include "overlay/peers_internal.h"

#include <string.h>

struct peers_link *peers_link_of(const struct peers *p, uint64_t link) {
    struct peers_link *l = peers_links(p);
    for (uint32_t i = 0; i < p->links_n; i++)
        if (l[i].link == link) return &l[i];
    return NULL;
}

struct peers_link *peers_link_to(const struct peers *p, const uint8_t id[16]) {
    struct peers_link *l = peers_links(p);
    for (uint32_t i = 0; i < p->links_n; i++)
        if (id_equal(l[i].id, id)) return &l[i];
    return NULL;
}

struct peers_dial *peers_dial_to(const struct peers *p, const uint8_t id[16]) {
    struct peers_dial *d = peers_dials(p);
    for (uint32_t i = 0; i < p->dials_n; i++)
        if (id_equal(d[i].id, id)) return &d[i];
    return NULL;
}

void peers_dial_remove(struct peers *p, struct peers_dial *d) {
    struct peers_dial *last = &peers_dials(p)[--p->dials_n];
    if (d->extra) p->extra = 0;
    *d = *last;
    memset(last, 0, sizeof *last);
    p->dry_until = 0;
}

/* Offered; there must be a place. */
struct peers_link *peers_link_add(struct peers *p, uint64_t link, const uint8_t id[16], uint32_t kind, moyai_ns now) {
    struct peers_link *l = &peers_links(p)[p->links_n++];
    *l = (struct peers_link){.link = link, .since = now, .state = PEERS_OFFERED, .kind = (uint8_t)kind};
    l->due = peers_after(now, p->attempt);
    memcpy(l->id, id, 16);
    const struct peers_known *k = peers_find(p, id);
    if (!k || !k->near) l->flags = LINK_FAR;
    p->offered++;
    return l;
}

uint32_t peers_taken(const struct peers *p) {
    return p->mesh + p->direct - p->rescued;
}

/* It has a place that only those who look may have. */
static bool looks_in(const struct peers_link *l) {
    return l->flags & LINK_LOOKS && l->flags & LINK_RESCUED;
}

/* Those that are offered may all be accepted. */
uint32_t peers_directs(const struct peers *p) {
    uint32_t n = p->direct;
    for (uint32_t i = 0; p->offered && i < p->links_n; i++) {
        const struct peers_link *l = &peers_links(p)[i];
        n += l->state == PEERS_OFFERED && l->kind == PEERS_DIRECT;
    }
    return n;
}

/* A place has become free, of those beyond cfg.most if rescued: the guest that came first has it. */
static void settle_guest(struct peers *p, bool rescued) {
    struct peers_link *found = NULL;
    for (uint32_t i = 0; i < p->links_n; i++) {
        struct peers_link *l = &peers_links(p)[i];
        if (l->flags & LINK_GUEST && (!found || l->since < found->since)) found = l;
    }
    if (!found) return;
    found->flags &= (uint8_t)~LINK_GUEST;
    p->guests--;
    if (rescued) found->flags |= LINK_RESCUED;
    p->rescued += rescued;
}

uint32_t peers_likes(const struct peers *p) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->links_n; i++) {
        const struct peers_link *l = &peers_links(p)[i];
        n += l->state == PEERS_USED && l->kind == PEERS_MESH && (l->flags & LINK_ACCEPTS) != 0;
    }
    return n;
}

bool peers_lonely(const struct peers *p) {
    return p->accepts && p->mesh >= p->degree && peers_likes(p) < p->far_least;
}

/* Places beyond cfg.most that members have, or may have. */
static uint32_t beyond(const struct peers *p) {
    return p->rescued - p->looking[1];
}
static uint32_t beyond_most(const struct peers *p) {
    return p->rescue - peers_look_places(p);
}

bool peers_beyond(const struct peers *p, uint32_t n) {
    return p->accepts && beyond(p) + n <= beyond_most(p) && peers_likes(p) < 2 * p->far_least;
}

/* Of these so many are kept for its like. */
static uint32_t kept(const struct peers *p) {
    uint32_t quarter = beyond_most(p) / 4, likes = p->accepts && quarter ? peers_likes(p) : UINT32_MAX;
    uint32_t n = likes <= p->far_least ? p->far_least + 1 - likes : 0;
    return n < quarter ? n : quarter;
}

/* This link, which has gone, had a place. It is the oldest guest's, unless it lacks for its like: then one of those
 * beyond cfg.most is kept free. But a guest for which nobody else is asked has it in any case. */
static void freed(struct peers *p, const struct peers_link *was) {
    bool rescued = was->flags & LINK_RESCUED;
    if (was->flags & LINK_GUEST || looks_in(was)) return;
    if ((p->guests && was->flags & LINK_YIELD) || beyond(p) + rescued + kept(p) <= beyond_most(p)) {
        if (p->guests) settle_guest(p, rescued);
        return;
    }
    for (uint32_t i = 0; i < p->links_n && !rescued; i++) {
        struct peers_link *l = &peers_links(p)[i];
        if (!(l->flags & LINK_RESCUED) || looks_in(l)) continue;
        l->flags &= (uint8_t)~LINK_RESCUED;
        p->rescued--;
        return;
    }
}

void peers_link_use(struct peers *p, struct peers_link *l, const struct peers_frame *f, moyai_ns now) {
    p->offered--;
    l->flags &= (uint8_t)~LINK_FAR;
    if (f->e[0].site == 0 || f->e[0].site != p->site) l->flags |= LINK_FAR;
    if (l->kind == PEERS_DIRECT) {
        p->direct++;
    } else {
        p->mesh++;
        p->far += (l->flags & LINK_FAR) != 0;
        p->here += l->here;
    }
    l->state = PEERS_USED;
    l->due = 0;
    l->since = now;
    l->site = f->e[0].site;
    l->count = f->count + 1; /* with this one */
    l->counted = now;
    bool placed =
        l->kind != PEERS_MESH || l->flags & (LINK_GUEST | LINK_RESCUED) || peers_taken(p) <= p->most + p->guests;
    if (!placed && f->e[0].accepts && peers_beyond(p, 1)) {
        l->flags |= LINK_RESCUED; /* opened from here */
        p->rescued++;
    }
    if (f->e[0].accepts) l->flags |= LINK_ACCEPTS;
    p->looks = 0;
    peers_met(p, l->id, l->site);
    struct peers_fx *fx = peers_say(p, PEERS_FX_USE, l->link, l->id);
    fx->what = l->kind;
}

void peers_link_remove(struct peers *p, struct peers_link *l, moyai_ns now) {
    const struct peers_link was = *l;
    struct peers_link *last = &peers_links(p)[--p->links_n];
    *l = *last;
    memset(last, 0, sizeof *last);
    if (was.flags & LINK_EXTRA) p->extra = 0;
    p->dry_until = 0;
    if (was.state == PEERS_OFFERED) {
        p->offered--;
        return;
    }
    p->guests -= (was.flags & LINK_GUEST) != 0;
    p->rescued -= (was.flags & LINK_RESCUED) != 0;
    if (was.flags & LINK_LOOKS) p->looking[(was.flags & LINK_RESCUED) != 0]--;
    if (was.kind == PEERS_DIRECT) {
        p->direct--;
    } else {
        p->mesh--;
        p->far -= (was.flags & LINK_FAR) != 0;
        p->here -= was.here;
    }
    freed(p, &was);
    p->misses = 0;
    peers_rest(p, was.id, PEERS_AGAIN, now);
    if (p->mesh) { /* if it has died, its neighbours have more urgent things to do, and all at once */
        uint64_t at = peers_jitter(p, now, p->gap);
        if (p->gap_at < at) p->gap_at = at;
        if (p->mesh < p->degree) /* perhaps it was that of one who has enough, and cannot reach others */
            p->gap_at = peers_min(p->gap_at, peers_jitter(p, now, peers_few(p) ? PEERS_HURRY : PEERS_CALM));
    }
    if (peers_inward(p) && !was.here) peers_calm(p, now);
    if (p->mesh || was.kind == PEERS_DIRECT) return;
    peers_hasten(p, now);
    p->looks = 0;
    p->soon_until = peers_after(now, PEERS_SOON);
    if (!p->leaving) p->look_at = peers_jitter(p, now, PEERS_AGAIN / 10);
}

/* --- room ------------------------------------------------------------------------------------------ */

/* Would a node with so many links give one up for a newcomer? Only if it then still has as many as the newcomer, and
 * that one needs it. (One that has more than it needs always does.) */
static bool yields(const struct peers *p, uint32_t count, uint32_t newcomer) {
    return newcomer < p->degree && count >= newcomer + 2;
}

/* It is one of the few links to its like, no more than these, that a node which accepts does not give up. */
static bool holds(const struct peers *p, const struct peers_link *l, uint32_t few) {
    return p->accepts && l->flags & LINK_ACCEPTS && peers_likes(p) <= few;
}

/* What a peer's count is now, as far as we know: an old one may have grown to what all strive for. */
static uint32_t count_of(const struct peers *p, const struct peers_link *l, moyai_ns now) {
    return now - l->counted < PEERS_TOLD || l->count > p->degree ? l->count : p->degree;
}

/* Whom to ask for the place of a newcomer, which may be `but`, and may accept. */
static struct peers_link *victim(struct peers *p, const struct peers_link *but, uint32_t newcomer, bool like,
                                 moyai_ns now) {
    struct peers_link *best = NULL, *l = peers_links(p);
    uint32_t few = like ? p->far_least : p->far_least + 1;
    for (uint32_t i = 0; i < p->links_n; i++) {
        if (&l[i] == but || l[i].state != PEERS_USED || l[i].kind != PEERS_MESH ||
            l[i].flags & (LINK_GUEST | LINK_YIELD) || looks_in(&l[i]))
            continue;
        bool accepts = l[i].flags & LINK_ACCEPTS;
        if (!yields(p, count_of(p, &l[i], now), newcomer) || holds(p, &l[i], few)) continue;
        bool better = !best;
        if (best && accepts != ((best->flags & LINK_ACCEPTS) != 0))
            better = accepts;
        else if (best)
            better = count_of(p, &l[i], now) > count_of(p, best, now);
        if (better) best = &l[i];
    }
    return best;
}

static void ask(struct peers *p, struct peers_link *l, uint32_t count, uint32_t flags, moyai_ns now) {
    l->flags |= LINK_YIELD;
    l->due = peers_after(now, PEERS_REPLY);
    struct peers_fx *fx = peers_send(p, l, PEERS_YIELD);
    fx->count = count;
    fx->flags = flags;
}

static struct peers_link *guest(const struct peers *p) {
    struct peers_link *found = NULL;
    for (uint32_t i = 0; i < p->links_n; i++) {
        struct peers_link *l = &peers_links(p)[i];
        if (l->flags & LINK_GUEST && (!found || l->since > found->since)) found = l;
    }
    return found;
}

/* A peer kept its link: ask another, or put the last guest out. */
void peers_kept(struct peers *p, struct peers_link *l, moyai_ns now) {
    l->flags &= (uint8_t)~LINK_YIELD;
    l->due = 0;
    struct peers_link *g = guest(p);
    if (!g) return;
    if (l->count > g->count) l->count = g->count; /* whatever it says, it is not asked for this one again */
    struct peers_link *v = victim(p, NULL, g->count - 1, g->flags & LINK_ACCEPTS, now);
    if (v) {
        ask(p, v, g->count - 1, 0, now);
        return;
    }
    struct peers_fx *fx = peers_send(p, g, PEERS_REFUSE);
    fx->what = PEERS_FULL;
    peers_draw(p, fx, PEERS_OTHERS, g->id, g->site, now);
    fx = peers_say(p, PEERS_FX_DROP, g->link, g->id);
    fx->what = PEERS_FULL;
    peers_link_remove(p, g, now);
}

void peers_yield(struct peers *p, struct peers_link *l, const struct peers_event *ev) {
    const struct peers_frame *f = ev->frame;
    bool far = l->flags & LINK_FAR, yes = l->kind == PEERS_MESH && p->mesh > 1 && !holds(p, l, p->far_least);
    yes = yes && !ev->needed;
    if (f->flags & PEERS_RETIRE)
        yes = yes && p->mesh > p->degree && (!far || p->far > p->far_least);
    else
        yes = yes && yields(p, far ? p->far : p->mesh, f->count);
    if (!yes) {
        (void)peers_send(p, l, PEERS_KEEP);
        return;
    }
    struct peers_fx *fx = peers_send(p, l, PEERS_BYE);
    fx->what = PEERS_YIELDED;
    fx = peers_say(p, PEERS_FX_DROP, l->link, l->id);
    fx->what = PEERS_YIELDED;
    uint8_t id[16];
    memcpy(id, l->id, 16);
    peers_link_remove(p, l, ev->now);
    peers_rest(p, id, PEERS_CALM, ev->now);
}

/* An extra link was added: where there is now one more than needed, ask somebody to do without. */
void peers_retire(struct peers *p, struct peers_link *added, moyai_ns now) {
    struct peers_link *found = NULL;
    uint64_t seen = 0;
    if (peers_taken(p) > p->most) { /* then as for a newcomer */
        found = victim(p, added, 0, added->flags & LINK_ACCEPTS, now);
        if (found) ask(p, found, 0, 0, now);
        return;
    }
    for (uint32_t i = 0; i < p->links_n && p->mesh > p->degree; i++) {
        struct peers_link *l = &peers_links(p)[i];
        if (l == added || l->state != PEERS_USED || l->kind != PEERS_MESH || l->flags & (LINK_GUEST | LINK_YIELD))
            continue;
        if (now - l->counted < PEERS_TOLD && l->count <= p->far_least) continue;
        if ((l->flags & LINK_FAR && p->far <= p->far_least) || holds(p, l, p->far_least)) continue;
        if (rng_below(&p->rng, ++seen) == 0) found = l;
    }
    if (found) ask(p, found, 0, PEERS_RETIRE, now);
}

/* --- offers ---------------------------------------------------------------------------------------- */

static void refuse(struct peers *p, const struct peers_link *l, enum peers_reason why, uint64_t site, moyai_ns now) {
    struct peers_fx *fx = peers_send(p, l, PEERS_REFUSE);
    fx->what = why;
    if (why == PEERS_FULL || why == PEERS_LEAVING) peers_draw(p, fx, PEERS_OTHERS, l->id, site, now);
    fx = peers_say(p, PEERS_FX_DROP, l->link, l->id);
    fx->what = why;
}

/* Of the places beyond `most`: for who looks only. A full grid is to be looked at. */
uint32_t peers_look_places(const struct peers *p) {
    return p->rescue < 32 ? p->rescue > 1 : p->rescue / 16;
}

/* Who looks only takes these first; of the others, when there are very many of them, a third and none that would have
 * to be given up. */
static bool room_to_look(struct peers *p, uint8_t *flags) {
    *flags = LINK_LOOKS | LINK_RESCUED;
    if (p->looking[1] < peers_look_places(p)) return true;
    *flags = LINK_LOOKS;
    return peers_taken(p) < p->most && p->looking[0] < p->most / 3;
}

/* May it be taken? *v: the peer to be asked for its place; *flags: as what. */
static bool room(struct peers *p, const struct peers_event *ev, struct peers_link **v, uint8_t *flags) {
    const struct peers_frame *f = ev->frame;
    const moyai_ns now = ev->now;
    *v = NULL;
    *flags = 0;
    if (p->links_n >= p->links_cap) return false;
    if (f->what == PEERS_LINE) return true;
    if (f->what == PEERS_DIRECT) return peers_taken(p) < p->most && peers_directs(p) < p->most / 3;
    if (ev->looks) return room_to_look(p, flags);
    if (peers_taken(p) < p->most) return true;
    bool like = f->e[0].accepts && peers_beyond(p, 1);
    uint32_t keep = kept(p);
    *flags = LINK_RESCUED;
    if ((like && keep) || (ev->needed && beyond(p) < beyond_most(p))) return true;
    if (p->guests < PEERS_SLACK) {
        *v = victim(p, NULL, f->count, f->e[0].accepts, now);
        *flags = LINK_GUEST;
        if (*v) return true;
    }
    *flags = LINK_RESCUED;
    return like || (f->flags & PEERS_LAST && beyond(p) + keep < beyond_most(p));
}

void peers_offered(struct peers *p, const struct peers_event *ev) {
    const struct peers_frame *f = ev->frame;
    const moyai_ns now = ev->now;
    const uint8_t *id = f->e[0].id.b;
    struct peers_link *have = peers_link_to(p, id), one = {.link = ev->link};
    struct peers_dial *d = peers_dial_to(p, id);
    memcpy(one.id, id, 16);
    if (p->leaving || (p->departing && !ev->looks && f->count > 0 && !(f->flags & PEERS_LAST))) {
        refuse(p, &one, PEERS_LEAVING, f->e[0].site, now);
        return;
    }
    if (have && have->state == PEERS_USED) {
        refuse(p, &one, PEERS_DUPLICATE, 0, now);
        /* Its offer was under way when ours was accepted, or it has lost the link and we do not know. */
        if (have->doubled || now - have->since > p->attempt) (void)peers_say(p, PEERS_FX_PROBE, have->link, id);
        have->doubled = true;
        return;
    }
    if (have && id_cmp(p->self, id) < 0) { /* ours stands */
        refuse(p, &one, PEERS_DUPLICATE, 0, now);
        return;
    }
    struct peers_link *v;
    uint8_t flags;
    if (have) { /* theirs stands: it will refuse ours */
        struct peers_fx *fx = peers_say(p, PEERS_FX_DROP, have->link, have->id);
        fx->what = PEERS_DUPLICATE;
        peers_link_remove(p, have, now);
    }
    if (!room(p, ev, &v, &flags)) {
        refuse(p, &one, PEERS_FULL, f->e[0].site, now);
        return;
    }
    if (d) {
        (void)peers_say(p, PEERS_FX_CANCEL, 0, id);
        peers_dial_remove(p, d);
    }
    if (v) ask(p, v, f->count, 0, now);
    struct peers_link *l = peers_link_add(p, ev->link, id, f->what, now);
    l->flags |= flags;
    l->here = ev->here;
    p->guests += (flags & LINK_GUEST) != 0;
    p->rescued += (flags & LINK_RESCUED) != 0;
    if (flags & LINK_LOOKS) p->looking[(flags & LINK_RESCUED) != 0]++;
    (void)peers_send(p, l, PEERS_ACCEPT);
    peers_link_use(p, l, f, now);
}
