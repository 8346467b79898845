/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peers machine: its events.
 *
 * Idea (S0/4.1). Each node keeps about fifteen links to nodes drawn at random. Such a graph is connected with high
 * probability, stays so when many nodes vanish at once, has a diameter that grows with the logarithm of the grid, and
 * asks of no node to know all others. We depart from the paper where it says nothing: places are limited and shared
 * (peers_link.c), what is known is a sample that does not favour the well-known (peers_known.c), and a graph that came
 * apart grows together again (below).
 *
 *                      CONNECT                 UP: OFFER sent                 ACCEPT
 *     (known) --------------------> dialling --------------------> offered ------------> used
 *        ^                             |                              |                    |
 *        +---- FAILED, CANCEL, time ---+------- REFUSE, time, LOST ---+---- LOST, BYE, ----+
 *                                                                           REFUSE, DROP
 *     an OFFER received, and taken: used at once
 *
 * No herd. At most cfg.attempts connections are being made at once (with few links, those that nothing answers do not
 * hold the others up), with cfg.gap between two, longer after each that led nowhere; candidates are drawn at random;
 * the first attempt waits for as long as befits the number of nodes that the rendezvous named; whoever was refused is
 * told three others; every span of time has a jitter of half of it.
 *
 * Growing together. A partition leaves each side with enough links of its own; nobody would look for the other when
 * the network is whole again. So after each look at the rendezvous, of the n nodes it names PEERS_MIX open one link
 * more than they need, each by its own coin: the cost is that of the grid, not of each node. The links that become too
 * many are retired where both ends have enough.
 *
 * A relay that is away for some seconds would be missed for longer: who has other links calls it, and looks at the
 * rendezvous, at leisure, and a session whose only path led over it gives up meanwhile. So while a session waits, who
 * was lost lately is called again soon, and, since a process that was started anew has another id, the rendezvous
 * looked at.
 *
 * A node without links keeps on: it looks at the rendezvous at once, and forgets whom it has failed to reach; for as
 * long as others keep their sessions with it, it looks again and calls whom it knows each second, then after 1, 2, 4...
 * s. So does one whose links all end within its host or site, the more seldom the more are there. A relay that is
 * killed again and again may live for no longer than a second. There is no herd: no look begins
 * before the last one is answered, and who hears of a full node has found what there is, and hurries no more.
 */
#include "overlay/peers_internal.h"
#include "overlay/peers_wire.h"

#include <string.h>

#define SPAN_MAX ((uint64_t)MOYAI_SEC * 86400) /* of configured durations */

/* --- configuration and layout --------------------------------------------------------------------- */

static bool span(uint64_t *out, moyai_dur d, moyai_dur otherwise) {
    *out = (uint64_t)(d == 0 ? otherwise : d);
    return d >= 0 && *out <= SPAN_MAX && *out >= 16;
}

static uint32_t or_else(uint32_t n, uint32_t otherwise) {
    return n ? n : otherwise;
}

/* Fill all of the block that depends on the configuration; 0: it cannot work. */
static size_t layout(struct peers *p, const struct peers_cfg *c) {
    *p = (struct peers){
        .site = c->self.site, .accepts = c->self.accepts, .reached = c->self.reached, .n_text = c->self.n_text};
    p->lifetime = or_else(c->self.lifetime, 600);
    p->degree = or_else(c->degree, 15);
    p->most = or_else(c->most, p->degree <= 4096 ? 3 * p->degree : 0);
    p->far_least = (p->degree + 4) / 5;
    p->rescue = or_else(c->rescue, 256);
    p->known_cap = or_else(c->known, 128);
    p->attempts = or_else(c->attempts, 4);
    p->dials_cap = PEERS_DIALS * p->attempts;
    p->text = or_else(c->text, 256);
    if (!span(&p->attempt, c->attempt, 10 * MOYAI_SEC) || !span(&p->gap, c->gap, 100 * MOYAI_MS) ||
        !span(&p->rendezvous, c->rendezvous, 30 * MOYAI_SEC) || !span(&p->exchange, c->exchange, 120 * MOYAI_SEC))
        return 0;
    if (p->degree > p->most || p->most > 4096 || p->rescue > 4096 || p->known_cap > 32768 || p->attempts > 64) return 0;
    if (p->text > PEERS_TEXT || p->n_text > PEERS_TEXT || id_zero(c->self.id.b) || p->lifetime > PEERS_LIFETIME)
        return 0;
    if (p->n_text && (!c->self.text || !peers_addresses_ok(c->self.text, p->n_text))) return 0;
    memcpy(p->self, c->self.id.b, 16);
    if (p->n_text) memcpy(p->self_text, c->self.text, p->n_text);
    p->links_cap = p->most + PEERS_SLACK + p->rescue + PEERS_LINES + p->attempts;
    p->fx_cap = 16 + 2 * p->dials_cap + p->links_cap; /* each timer of a link may say two things: see timers */
    size_t at = sizeof *p;
    p->off_links = (uint32_t)at;
    p->off_dials = (uint32_t)(at += p->links_cap * sizeof(struct peers_link));
    p->off_known = (uint32_t)(at += p->dials_cap * sizeof(struct peers_dial));
    p->off_fx = (uint32_t)(at += p->known_cap * sizeof(struct peers_known));
    p->off_texts = (uint32_t)(at += p->fx_cap * sizeof(struct peers_fx));
    at += (size_t)p->known_cap * p->text;
    return (at + 15) & ~(size_t)15;
}

size_t peers_size(const struct peers_cfg *cfg) {
    struct peers p;
    return layout(&p, cfg);
}

int peers_init(struct peers *p, const struct peers_cfg *cfg) {
    struct peers head;
    if (layout(&head, cfg) == 0) return MOYAI_EINVAL;
    *p = head;
    rng_seed(&p->rng, cfg->seed);
    p->secret = rng_next(&p->rng);
    p->look_at = p->exchange_at = p->again_at = p->away_at = UINT64_MAX;
    return 0;
}

/* --- effects --------------------------------------------------------------------------------------- */

struct peers_fx *peers_say(struct peers *p, enum peers_effect_kind kind, uint64_t link, const uint8_t id[16]) {
    struct peers_fx *fx = &peers_fxs(p)[p->fx_n++];
    *fx = (struct peers_fx){.kind = kind, .link = link};
    if (id) memcpy(fx->id, id, 16);
    return fx;
}

struct peers_fx *peers_send(struct peers *p, const struct peers_link *l, enum peers_frame_kind frame) {
    struct peers_fx *fx = peers_say(p, PEERS_FX_SEND, l->link, l->id);
    fx->frame = frame;
    fx->count = l->flags & LINK_FAR ? p->far : p->mesh;
    return fx;
}

static struct peers_endpoint self_endpoint(const struct peers *p) {
    struct peers_endpoint e = {.site = p->site, .accepts = p->accepts, .reached = p->reached, .lifetime = p->lifetime};
    memcpy(e.id.b, p->self, 16);
    e.n_text = p->n_text;
    e.text = p->self_text;
    return e;
}

/* `until` is an absolute time; now is that of the step, kept where the effects were made. */
static struct peers_endpoint known_endpoint(const struct peers *p, uint32_t i, moyai_ns now) {
    const struct peers_known *k = &peers_knowns(p)[i];
    struct peers_endpoint e = {
        .site = k->site, .accepts = k->accepts, .reached = k->reached, .n_text = k->n_text, .text = peers_text(p, i)};
    memcpy(e.id.b, k->id, 16);
    e.lifetime = k->until > now ? (uint32_t)((k->until - now) / (uint64_t)MOYAI_SEC) : 0;
    return e;
}

static bool has_self(uint32_t frame) {
    return frame == PEERS_OFFER || frame == PEERS_ACCEPT || frame == PEERS_ASK || frame == PEERS_ANSWER;
}

bool peers_next(struct peers *p, struct peers_effect *out) {
    if (p->fx_at == p->fx_n) {
        if (p->fx_n) memset(peers_fxs(p), 0, p->fx_n * sizeof(struct peers_fx));
        p->fx_at = p->fx_n = 0;
        p->now = 0;
        return false;
    }
    const struct peers_fx *fx = &peers_fxs(p)[p->fx_at++];
    *out = (struct peers_effect){.kind = (enum peers_effect_kind)fx->kind, .link = fx->link, .what = fx->what};
    memcpy(out->id.b, fx->id, 16);
    if (fx->kind == PEERS_FX_CONNECT) out->endpoint = known_endpoint(p, fx->pick[0], p->now);
    if (fx->kind != PEERS_FX_SEND) return true;
    struct peers_frame *f = &out->frame;
    *f = (struct peers_frame){.kind = (enum peers_frame_kind)fx->frame, .what = fx->what, .flags = fx->flags};
    f->count = fx->count < UINT16_MAX ? fx->count : UINT16_MAX;
    out->what = 0;
    if (has_self(fx->frame)) f->e[f->n++] = self_endpoint(p);
    for (uint32_t i = 0; i < fx->n; i++) f->e[f->n++] = known_endpoint(p, fx->pick[i], p->now);
    return true;
}

/* --- opening --------------------------------------------------------------------------------------- */

/* Attempts under way. */
static uint32_t opening(const struct peers *p) {
    uint32_t n = p->dials_n;
    for (uint32_t i = 0; p->offered && i < p->links_n; i++)
        n += peers_links(p)[i].state == PEERS_OFFERED && peers_links(p)[i].kind == PEERS_MESH;
    return n;
}

/* From when one of n attempts under way leaves its turn to another. With few links it is enough that so many have had
 * no answer for a while: those behind firewalls and NATs, of whom there may be more than others, never answer.
 */
static uint64_t turn(const struct peers *p, uint32_t n) {
    const struct peers_dial *d = peers_dials(p);
    uint64_t at = UINT64_MAX;
    if (n < p->attempts) return 0;
    if (!peers_few(p) || p->dials_n == p->dials_cap) return at;
    for (uint32_t i = 0; i < p->dials_n; i++) {
        uint32_t old = 0;
        for (uint32_t k = 0; k < p->dials_n; k++) old += d[k].until <= d[i].until;
        if (n - old < p->attempts) at = peers_min(at, d[i].until - p->attempt + PEERS_PATIENT);
    }
    return at;
}

/* Is another link wanted, and a place free for it? */
static bool wants(const struct peers *p) {
    if (!p->started || p->leaving || p->known_n == 0 || (p->departing && p->mesh)) return false;
    bool far = p->far < p->far_least && p->known_n > p->near_n, like = peers_lonely(p);
    if (p->mesh >= p->degree && p->extra != 1 && !far && !like) return false;
    uint32_t n = opening(p), taken = peers_taken(p) + n;
    if (taken > p->most || (taken == p->most && p->extra != 1))
        if ((!like && p->extra != 1) || !peers_beyond(p, n + 1)) return false;
    return p->mesh + n < p->degree || p->extra == 1 || (far && p->far + n < p->far_least) ||
           (like && peers_likes(p) + n < p->far_least);
}

static enum peers_whom whom(const struct peers *p) {
    if (p->extra == 1) return peers_taken(p) > p->most ? PEERS_LIKE : PEERS_ANY;
    if (p->mesh < p->degree) return PEERS_ANY;
    return p->far < p->far_least && p->known_n > p->near_n ? PEERS_OTHER_SITES : PEERS_LIKE;
}

static uint64_t wants_at(const struct peers *p) {
    uint64_t at = p->gap_at > p->dry_until ? p->gap_at : p->dry_until, free = turn(p, opening(p));
    return at > free ? at : free;
}

static void fill(struct peers *p, moyai_ns now) {
    if (!wants(p) || now < wants_at(p)) return;
    uint32_t i = peers_candidate(p, whom(p), now);
    if (i == UINT32_MAX) {
        if (p->extra == 1) p->extra = 0;
        return;
    }
    struct peers_dial *d = &peers_dials(p)[p->dials_n++];
    *d = (struct peers_dial){.until = peers_after(now, p->attempt), .extra = p->extra == 1};
    if (p->extra) p->extra = 2; /* on its way */
    memcpy(d->id, peers_knowns(p)[i].id, 16);
    struct peers_fx *fx = peers_say(p, PEERS_FX_CONNECT, 0, d->id);
    fx->pick[0] = (uint16_t)i;
    p->gap_at = peers_jitter(p, now, p->gap);
}

/* One link more, to it, whatever else there is. */
static int need(struct peers *p, const struct peers_event *ev) {
    const struct peers_endpoint *e = ev->endpoint;
    if (!e || !peers_addresses_ok(e->text, e->n_text) || id_zero(e->id.b) || id_equal(e->id.b, p->self))
        return MOYAI_EINVAL;
    if (p->leaving || p->dials_n == p->dials_cap || peers_link_to(p, e->id.b) || peers_dial_to(p, e->id.b)) return 0;
    const uint32_t i = peers_keep(p, e, ev->now);
    if (i == UINT32_MAX) return 0;
    struct peers_dial *d = &peers_dials(p)[p->dials_n++];
    *d = (struct peers_dial){.until = peers_after(ev->now, p->attempt)};
    memcpy(d->id, e->id.b, 16);
    peers_say(p, PEERS_FX_CONNECT, 0, d->id)->pick[0] = (uint16_t)i;
    return 0;
}

/* No link by this attempt: the connection failed, the link ended or was dropped before it was accepted. */
static void offer_failed(struct peers *p, struct peers_link *l, bool reached, moyai_ns now) {
    uint8_t id[16];
    memcpy(id, l->id, 16);
    bool mesh = l->kind == PEERS_MESH;
    peers_link_remove(p, l, now);
    if (mesh) peers_missed(p, id, reached, now);
}

/* --- rendezvous and exchange ------------------------------------------------------------------------ */

static void looked(struct peers *p, uint32_t entries, moyai_ns now) {
    uint32_t n = entries > p->known_n ? entries : p->known_n;
    if (p->looks == 0 && p->mesh == 0) /* soon, whatever failed before: the more they are, the longer it takes */
        p->gap_at = peers_after(now, rng_below(&p->rng, (n < 50 ? n : 50) * p->gap / 25 + 1));
    if (now < p->late_until && p->again_n < PEERS_TRIES) /* who has come is called at once, whatever failed before */
        p->gap_at = peers_min(p->gap_at, peers_jitter(p, now, p->gap));
    if (p->mesh) {
        if (p->mesh >= p->degree && !p->extra && rng_below(&p->rng, n + 1) < PEERS_MIX) {
            p->extra = 1;
            if (peers_lonely(p)) p->dry_until = 0; /* that was so of its like only */
        }
        if (p->far && !peers_inward(p)) return;
    }
    uint64_t wait = (uint64_t)MOYAI_SEC << (p->looks < 6 ? p->looks : 6);
    if (p->mesh) wait *= 1 + n / PEERS_MIX; /* the others look as well */
    p->looks += p->looks < 6 && !peers_hurries(p, now);
    p->look_at = peers_jitter(p, now, peers_min(wait, p->rendezvous));
}

static void exchange(struct peers *p, struct peers_link *l, enum peers_frame_kind kind, moyai_ns now) {
    struct peers_fx *fx = peers_send(p, l, kind);
    peers_draw(p, fx, PEERS_ENTRIES - 1, l->id, l->site, now);
    if (kind == PEERS_ASK) l->flags |= LINK_ASKED;
}

static void exchange_some(struct peers *p, moyai_ns now) {
    struct peers_link *found = NULL;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < p->links_n; i++) {
        struct peers_link *l = &peers_links(p)[i];
        if (l->state == PEERS_USED && !(l->flags & LINK_ASKED) && rng_below(&p->rng, ++seen) == 0) found = l;
    }
    if (found) exchange(p, found, PEERS_ASK, now);
}

/* --- frames ---------------------------------------------------------------------------------------- */

/* Is the frame one that this peer may send at this moment? */
static int frame_ok(const struct peers *p, const struct peers_event *ev, const struct peers_link *l) {
    const struct peers_frame *f = ev->frame;
    if (!f || (uint32_t)f->kind >= PEERS_OWN || f->n > PEERS_ENTRIES) return MOYAI_EINVAL;
    if (has_self(f->kind) && (f->n == 0 || !id_equal(f->e[0].id.b, ev->id.b))) return MOYAI_EPROTO;
    if (!l) {
        if (f->kind != PEERS_OFFER) return MOYAI_EINVAL;
        return ev->link == 0 || id_zero(ev->id.b) || id_equal(ev->id.b, p->self) ? MOYAI_EPROTO : 0;
    }
    if (!id_equal(l->id, ev->id.b)) return MOYAI_EINVAL;
    if (l->state == PEERS_OFFERED)
        return f->kind == PEERS_ACCEPT || f->kind == PEERS_REFUSE || f->kind == PEERS_BYE ? 0 : MOYAI_EPROTO;
    if (f->kind == PEERS_OFFER || f->kind == PEERS_ACCEPT) return MOYAI_EPROTO;
    return f->kind == PEERS_ANSWER && !(l->flags & LINK_ASKED) ? MOYAI_EPROTO : 0;
}

static void accepted(struct peers *p, struct peers_link *l, const struct peers_frame *f, moyai_ns now) {
    bool extra = l->flags & LINK_EXTRA;
    l->flags &= (uint8_t)~LINK_EXTRA;
    peers_link_use(p, l, f, now);
    if (p->known_n < p->known_cap / 2) exchange(p, l, PEERS_ASK, now);
    if (!extra) return;
    p->extra = 0;
    peers_retire(p, l, now);
}

/* The other end ends the link, or does not want it. */
static void refused(struct peers *p, struct peers_link *l, const struct peers_frame *f, moyai_ns now) {
    uint8_t id[16];
    memcpy(id, l->id, 16);
    struct peers_fx *fx = peers_say(p, PEERS_FX_DROP, l->link, l->id);
    fx->what = f->what;
    bool mesh = l->kind == PEERS_MESH, duplicate = f->what == PEERS_DUPLICATE;
    bool lost = l->state == PEERS_USED && f->what == PEERS_SILENT; /* as all links of a key that has ended */
    peers_link_remove(p, l, now);
    if (lost) peers_key_ended(p, id, now);
    if (f->what == PEERS_FULL && mesh) p->soon_until = 0;
    if (!mesh || lost) return;
    if (duplicate)
        peers_rest(p, id, PEERS_AGAIN, now);
    else if (f->what != PEERS_YIELDED)
        peers_missed(p, id, true, now);
    else
        peers_rest(p, id, PEERS_CALM, now);
}

static int frame(struct peers *p, const struct peers_event *ev) {
    const struct peers_frame *f = ev->frame;
    struct peers_link *l = peers_link_of(p, ev->link);
    int rc = frame_ok(p, ev, l);
    if (rc) return rc;
    peers_expire(p, ev->now); /* before endpoints are picked: it moves them */
    for (uint32_t i = 0; i < f->n; i++) peers_learn(p, &f->e[i], ev->now);
    if (l && f->kind != PEERS_YIELD && f->kind != PEERS_ACCEPT) {
        l->count = f->count;
        l->counted = ev->now;
    }
    switch (f->kind) {
    case PEERS_OFFER:
        peers_offered(p, ev);
        break;
    case PEERS_ACCEPT:
        accepted(p, l, f, ev->now);
        break;
    case PEERS_REFUSE:
    case PEERS_BYE:
        refused(p, l, f, ev->now);
        break;
    case PEERS_ASK:
        exchange(p, l, PEERS_ANSWER, ev->now);
        break;
    case PEERS_ANSWER:
        l->flags &= (uint8_t)~LINK_ASKED;
        break;
    case PEERS_YIELD:
        peers_yield(p, l, ev);
        break;
    case PEERS_KEEP:
        if (l->flags & LINK_YIELD) peers_kept(p, l, ev->now);
        break;
    case PEERS_OWN:
    case PEERS_READY:
    case PEERS_SEARCH:
    case PEERS_FOUND:
    case PEERS_FRAMES:
        break;
    }
    return 0;
}

/* --- events ---------------------------------------------------------------------------------------- */

static int up(struct peers *p, const struct peers_event *ev) {
    struct peers_dial *d = peers_dial_to(p, ev->id.b);
    struct peers_link *l = peers_link_to(p, ev->id.b);
    if (ev->link == 0 || ev->what > PEERS_LINE || id_zero(ev->id.b) || id_equal(ev->id.b, p->self)) return MOYAI_EINVAL;
    if (peers_link_of(p, ev->link) || (ev->what == PEERS_MESH && !d)) return MOYAI_EINVAL;
    enum peers_reason why = PEERS_REASONS;
    if (p->leaving)
        why = PEERS_LEAVING;
    else if (l)
        why = PEERS_DUPLICATE;
    else if (p->links_n >= p->links_cap ||
             (ev->what == PEERS_DIRECT && (p->mesh + p->direct >= p->most || peers_directs(p) >= p->most / 3)))
        why = PEERS_FULL;
    uint64_t extra = 0;
    if (d) {
        if (ev->what != PEERS_MESH) (void)peers_say(p, PEERS_FX_CANCEL, 0, d->id);
        extra = ev->what == PEERS_MESH ? d->extra : 0;
        if (extra) d->extra = 0; /* the link has it now */
        peers_dial_remove(p, d);
    }
    if (why != PEERS_REASONS) {
        if (extra) p->extra = 0;
        struct peers_fx *fx = peers_say(p, PEERS_FX_DROP, ev->link, ev->id.b);
        fx->what = why;
        return 0;
    }
    l = peers_link_add(p, ev->link, ev->id.b, ev->what, ev->now);
    l->here = ev->here;
    if (extra) l->flags |= LINK_EXTRA;
    struct peers_fx *fx = peers_send(p, l, PEERS_OFFER);
    fx->what = ev->what;
    fx->flags = p->accepts ? PEERS_ACCEPTS : 0;
    if (extra || peers_lonely(p)) fx->count = 0; /* as dear as a first one */
    if (p->mesh == 0 && p->misses && p->misses >= peers_min(p->known_n, 3)) fx->flags |= PEERS_LAST;
    return 0;
}

static int failed(struct peers *p, const struct peers_event *ev) {
    struct peers_dial *d = peers_dial_to(p, ev->id.b);
    if (!d) return MOYAI_EINVAL;
    peers_dial_remove(p, d);
    peers_missed(p, ev->id.b, false, ev->now);
    return 0;
}

/* Who was called is not there, and who is instead is worth a call: no failure, after which others would be called
 * later.
 */
static int found(struct peers *p, const struct peers_event *ev) {
    const struct peers_endpoint *e = ev->endpoint;
    if (!e || e->n_text == 0 || !peers_addresses_ok(e->text, e->n_text) || id_equal(e->id.b, ev->id.b))
        return MOYAI_EINVAL;
    struct peers_dial *d = peers_dial_to(p, ev->id.b);
    if (d) peers_dial_remove(p, d);
    peers_found(p, e, ev->id.b);
    peers_learn(p, e, ev->now);
    if (d) p->gap_at = peers_min(p->gap_at, peers_jitter(p, ev->now, p->gap));
    return 0;
}

static int lost(struct peers *p, const struct peers_event *ev) {
    struct peers_link *l = ev->link ? peers_link_of(p, ev->link) : NULL;
    if (!l) return MOYAI_EINVAL;
    if (l->state == PEERS_OFFERED) {
        offer_failed(p, l, true, ev->now);
        return 0;
    }
    uint8_t id[16];
    memcpy(id, l->id, 16);
    peers_link_remove(p, l, ev->now);
    if (ev->what == PEERS_SILENT)
        peers_key_ended(p, id, ev->now);
    else
        peers_lately(p, id, ev->now);
    return 0;
}

/* A session finds no path, and a link has broken lately over which it may have gone. */
static void waits(struct peers *p, moyai_ns now) {
    if (p->again_at != UINT64_MAX || now >= p->late_until || p->again_n == 0 || p->leaving) return;
    if (peers_hurries(p, now)) return; /* it looks already */
    p->again_at = peers_jitter(p, now, p->again_n == PEERS_TRIES ? PEERS_AGAIN / 2 : PEERS_AGAIN);
    p->again_n--;
}

/* Who comes next to where a member was met is alone there, and nobody looks before the next time: so that is soon, and
 * then later and later. */
static void away(struct peers *p, bool yes, moyai_ns now) {
    p->away_wait = PEERS_AGAIN;
    p->away_at = yes && !p->leaving ? peers_jitter(p, now, p->away_wait) : UINT64_MAX;
}

/* Of all that know the place a few look each time. */
static void look_away(struct peers *p, moyai_ns now) {
    p->away_wait *= 2;
    p->away_at = p->away_wait < p->rendezvous ? peers_jitter(p, now, p->away_wait) : UINT64_MAX;
    if (rng_below(&p->rng, p->known_n + 1) < PEERS_MIX) p->look_at = now;
}

/* The driver has no more need of a direct link. */
static int over(struct peers *p, const struct peers_event *ev) {
    struct peers_link *l = ev->link ? peers_link_of(p, ev->link) : NULL;
    if (!l || l->kind != PEERS_DIRECT) return MOYAI_EINVAL;
    if (l->state == PEERS_USED) {
        struct peers_fx *fx = peers_send(p, l, PEERS_BYE);
        fx->what = PEERS_YIELDED;
    }
    struct peers_fx *fx = peers_say(p, PEERS_FX_DROP, l->link, l->id);
    fx->what = PEERS_YIELDED;
    peers_link_remove(p, l, ev->now);
    return 0;
}

static void gone(struct peers *p, const struct peers_event *ev) {
    struct peers_dial *d = peers_dial_to(p, ev->id.b);
    struct peers_link *l;
    peers_forget(p, ev->id.b);
    if (d) {
        (void)peers_say(p, PEERS_FX_CANCEL, 0, d->id);
        peers_dial_remove(p, d);
    }
    while ((l = peers_link_to(p, ev->id.b))) {
        if (l->state == PEERS_USED) peers_lately(p, ev->id.b, ev->now);
        peers_link_remove(p, l, ev->now);
    }
}

static void leave(struct peers *p, moyai_ns now) {
    p->leaving = 1;
    p->again_at = p->away_at = UINT64_MAX;
    while (p->dials_n) {
        (void)peers_say(p, PEERS_FX_CANCEL, 0, peers_dials(p)->id);
        peers_dial_remove(p, peers_dials(p));
    }
    for (uint32_t i = p->links_n; i-- > 0;) {
        struct peers_link *l = &peers_links(p)[i];
        if (l->state != PEERS_OFFERED) continue;
        struct peers_fx *fx = peers_say(p, PEERS_FX_DROP, l->link, l->id);
        fx->what = PEERS_LEAVING;
        peers_link_remove(p, l, now);
    }
}

static void timers(struct peers *p, moyai_ns now) {
    peers_expire(p, now);
    for (uint32_t i = p->dials_n; i-- > 0;) {
        struct peers_dial d = peers_dials(p)[i];
        if (d.until > now) continue;
        (void)peers_say(p, PEERS_FX_CANCEL, 0, d.id);
        peers_dial_remove(p, &peers_dials(p)[i]);
        peers_missed(p, d.id, false, now);
    }
    for (uint32_t i = p->links_n; i-- > 0;) {
        if (i >= p->links_n) continue; /* a guest was put out */
        struct peers_link *l = &peers_links(p)[i];
        if (l->due == 0 || l->due > now) continue;
        if (l->state == PEERS_USED) {
            l->count = 0; /* as good as none: it is not asked again soon */
            l->counted = now;
            peers_kept(p, l, now);
            continue;
        }
        struct peers_fx *fx = peers_say(p, PEERS_FX_DROP, l->link, l->id);
        fx->what = PEERS_SILENT;
        offer_failed(p, l, false, now);
    }
    if (now >= p->again_at) {
        p->again_at = UINT64_MAX;
        peers_again(p, now);
        p->look_at = now;
    }
    if (now >= p->away_at) look_away(p, now);
    if (now >= p->look_at) {
        (void)peers_say(p, PEERS_FX_LOOK, 0, NULL);
        p->look_at = peers_jitter(p, now, p->rendezvous);
    }
    if (now >= p->exchange_at) {
        p->exchange_at = peers_jitter(p, now, p->exchange);
        exchange_some(p, now);
    }
}

int peers_step(struct peers *p, const struct peers_event *ev) {
    int rc = 0;
    if (p->fx_n || (uint32_t)ev->kind > PEERS_EV_TIMEOUT) return MOYAI_EINVAL;
    if (!p->started && ev->kind != PEERS_EV_START) return MOYAI_EINVAL;
    switch (ev->kind) {
    case PEERS_EV_START:
        if (p->started) return MOYAI_EINVAL;
        p->started = 1;
        p->look_at = ev->now;
        p->exchange_at = peers_jitter(p, ev->now, p->exchange);
        timers(p, ev->now);
        break;
    case PEERS_EV_ENTRY:
        if (!ev->endpoint || !peers_addresses_ok(ev->endpoint->text, ev->endpoint->n_text)) return MOYAI_EINVAL;
        peers_learn(p, ev->endpoint, ev->now);
        break;
    case PEERS_EV_LOOKED:
        looked(p, ev->entries, ev->now);
        break;
    case PEERS_EV_UP:
        rc = up(p, ev);
        break;
    case PEERS_EV_FAILED:
        rc = failed(p, ev);
        break;
    case PEERS_EV_FOUND:
        rc = found(p, ev);
        break;
    case PEERS_EV_REACHED:
        if (!p->accepts) return MOYAI_EINVAL;
        if (!p->reached) p->look_at = peers_min(p->look_at, peers_jitter(p, ev->now, PEERS_TELL));
        p->reached = 1;
        break;
    case PEERS_EV_SEEN:
        peers_seen(p, ev->id.b, ev->now);
        break;
    case PEERS_EV_FRAME:
        rc = frame(p, ev);
        break;
    case PEERS_EV_LOST:
        rc = lost(p, ev);
        break;
    case PEERS_EV_CLOSE:
        rc = over(p, ev);
        break;
    case PEERS_EV_GONE:
        gone(p, ev);
        break;
    case PEERS_EV_LEAVE:
        leave(p, ev->now);
        break;
    case PEERS_EV_DEPART:
        p->departing = 1;
        break;
    case PEERS_EV_NEED:
        rc = need(p, ev);
        break;
    case PEERS_EV_AWAY:
        away(p, ev->yes, ev->now);
        break;
    case PEERS_EV_WAITS:
        waits(p, ev->now);
        break;
    case PEERS_EV_TIMEOUT:
        timers(p, ev->now);
        break;
    }
    if (rc) return rc;
    if (ev->kind != PEERS_EV_ENTRY) fill(p, ev->now); /* first hear all of them */
    p->now = p->fx_n ? ev->now : 0;
    return 0;
}

moyai_ns peers_deadline(const struct peers *p) {
    uint64_t at = peers_min(peers_min(p->look_at, p->exchange_at), peers_min(p->again_at, p->away_at));
    for (uint32_t i = 0; i < p->dials_n; i++) at = peers_min(at, peers_dials(p)[i].until);
    for (uint32_t i = 0; i < p->links_n; i++)
        if (peers_links(p)[i].due) at = peers_min(at, peers_links(p)[i].due);
    if (wants(p)) at = peers_min(at, wants_at(p));
    return at;
}

bool peers_knows(const struct peers *p, const uint8_t id[16]) {
    return peers_find(p, id);
}

struct peers_endpoint peers_known_at(const struct peers *p, uint32_t i, moyai_ns now) {
    return known_endpoint(p, i, now);
}

struct peers_count peers_count(const struct peers *p) {
    return (struct peers_count){p->mesh, p->direct, p->dials_n + p->offered, p->known_n};
}
