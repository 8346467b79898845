/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom a request asks: links of others' floods and hints, and the rings of our own.
 *
 * Hints. A flood of two links asks some five hundred nodes. Who has digests (locate_digest.c) asks first whoever may
 * know, else his neighbours whether they have a hint: that reaches as far as two links more would, for the price of
 * one. Who has neither answer nor hint forgets such a request. Only when this finds nothing floods follow: a hint may
 * be old or wrong, and what is new is in no digest yet. Where a flood ends hints are followed, too, but for the last.
 * The best hint is where an answer once came from (locate_memo.c): it is followed alone, and to its end.
 */
#include "overlay/locate_ring.h"

#define FEW   4 /* asked at random */
#define HINTS 2 /* followed, of those that digests give for one key */

#define LEAD_PART 8 /* of ring_min and ring_max: eight who remember wrongly may be on the way */

/* How far an own request goes, one after the other: a flood of so many links, or hints over so many. A ring lasts a
 * part of the time that an answer from so far may take; the early ones are settled by who is near. */
struct ring {
    uint32_t ttl, hint_ttl, part;
};
static const struct ring rings[LOCATE_RINGS] = {
    {0, LOCATE_HINT_TTL, 4},     /* where our digests say, else a few neighbours */
    {0, LOCATE_HINT_TTL, 4},     /* the other neighbours */
    {0, LOCATE_HINT_TTL + 1, 2}, /* all again, and a few of theirs */
    {2, 0, 1},
    {3, 0, 1},
    {LOCATE_REACH, 0, 1},
};
/* In place of the third without digests. What all neighbours know of theirs settles most look-ups in a grid of a
 * thousand. */
static const struct ring ring_plain = {1, 0, 4};
#define RING_OTHERS 1u
#define RING_PLAIN  2u
#define RING_NEAR   3u /* of floods the nearest */
#define RING_CLAIM  3u /* whoever claims a name hopes that nobody holds it, and must ask all */

/* --- asking ------------------------------------------------------------------------------------------ */

/* As many of the set, at random. */
static locate_set some_of(struct locate *l, locate_set set, uint32_t n) {
    locate_set some = SET_NONE;
    for (; n > 0 && set_any(set); n--) {
        uint32_t i = locate_any(l, set);
        set_add(&some, i);
        set_del(&set, i);
    }
    return some;
}

bool locate_by_hints(const struct locate *l, const struct locate_request *r) {
    return r->kind != LOCATE_CLAIM && l->digest_every;
}

/* How far it is by where an answer once came from; 0: from nowhere. */
static uint32_t remembered(const struct locate *l, const struct locate_request *r, locate_set among, locate_set *link) {
    struct locate_hop way;
    if (!locate_memo_hint(l, r->kind, r->key, among, &way)) return 0;
    *link = set_of(way.link);
    return way.hops < LOCATE_REACH ? way.hops : LOCATE_REACH;
}

/* Who is to be asked for hints, or by one. */
static void spread_hints(struct locate *l, struct locate_request *r, locate_set to) {
    to &= ~r->asked;
    bool own = r->flags & REQ_OWN;
    locate_set known = SET_NONE;
    uint32_t far = own && r->ring > 0 ? 0 : remembered(l, r, to, &known);
    if (!far && !r->hint_ttl) return;
    if (far > r->hint_ttl) r->hint_ttl = far;
    if (!far) known = some_of(l, locate_digest_find(l, r->key, to), HINTS);
    if (own && r->ring > 0) {
        known = to;
    } else if (!set_any(known) && (own || (r->flags & REQ_FEW))) {
        uint32_t asked = set_count(r->asked);
        known = some_of(l, to, asked < FEW ? FEW - asked : 0);
    }
    r->asked |= known;
    r->send |= known;
    r->hint |= known;
    l->maybe |= known;
}

/* Whom it may be asked of: not of who alone asks it. */
static locate_set others_of(const struct locate *l, const struct locate_request *r) {
    return (r->flags & REQ_OWN) || locate_several(r) ? l->up : l->up & ~r->askers;
}

/* To whom the request is still to be sent. */
void locate_spread(struct locate *l, struct locate_request *r) {
    locate_set to = others_of(l, r);
    struct locate_hop hop;
    if (r->flags & REQ_LEADS) {
        to &= ~r->asked;
        r->asked |= to;
        r->busy |= to;
        return;
    }
    if (r->kind == LOCATE_NODE && !(r->flags & REQ_FLOOD) && locate_near_find(l, r->key, to & ~r->asked, &hop)) {
        r->asked |= to; /* that one knows */
        set_add(&r->send, hop.link);
        set_add(&r->direct, hop.link);
        set_add(&l->maybe, hop.link);
        return;
    }
    if (r->ttl == 0 && !(r->flags & REQ_FLOOD)) spread_hints(l, r, to);
    if (r->ttl == 0) return;
    to &= ~r->asked;
    r->asked |= to;
    r->send |= to;
    r->direct &= ~to;
    l->maybe |= to;
}

static void forget_asked(struct locate_request *r) {
    r->asked = r->send = r->direct = r->hint = r->busy = SET_NONE;
    r->busy_at = 0;
}

void locate_spread_anew(struct locate *l, struct locate_request *r) {
    forget_asked(r);
    if (r->flags & REQ_LEADS) r->flags ^= REQ_LEADS | REQ_LED;
    locate_spread(l, r);
}

/* --- rings ------------------------------------------------------------------------------------------- */

static const struct ring *ring_of(const struct locate *l, const struct locate_request *r) {
    return r->ring == RING_PLAIN && !locate_by_hints(l, r) ? &ring_plain : &rings[r->ring];
}

/* The turn of this node among all that look for one thing: 0 to 255. */
static uint64_t turn_of(const struct locate *l, const struct locate_request *r) {
    return (uint64_t)(l->self[0] ^ r->key[0]);
}

/*
 * How long an answer from so many links away may take: by the slowest link, twice there and back, and a part of
 * ring_min to ring_max. Where machines are full, frames lie besides at each: who gave up before they can be read would
 * ask again and again, and fill them further (`late`).
 */
static uint64_t way_time(const struct locate *l, uint64_t links, uint64_t part) {
    uint64_t slowest = 0;
    SET_EACH (i, l->up) {
        uint32_t cost = locate_link(l, i)->cost;
        if (cost > slowest) slowest = cost;
    }
    uint64_t span = 2 * links * slowest * (uint64_t)MOYAI_US;
    if (span < l->ring_min / part) return l->ring_min / part;
    return span > l->ring_max / part ? l->ring_max / part : span;
}

static uint64_t late_time(const struct locate *l, uint64_t links, moyai_ns now) {
    uint64_t late = 4 * links * locate_late(l, now), most = LOCATE_LATE_RINGS * l->ring_max;
    return late < most ? late : most;
}

/*
 * Where an answer once came from it is asked first, there alone, and of the others when that has had its time: most
 * that is looked for by many is where it was, and so a flood, which one in a thousand begins since he waits for some
 * who have to wait themselves, ends where somebody has passed the answer. Once for one request. True: it waits now.
 */
bool locate_lead(struct locate *l, struct locate_request *r, moyai_ns now) {
    struct locate_hop way;
    locate_set to = others_of(l, r);
    if ((r->flags & REQ_LEADS) && !(r->flags & REQ_OWN)) { /* who asks now waits, too */
        locate_spread(l, r);
        return true;
    }
    if ((r->flags & (REQ_OWN | REQ_LED)) || r->ttl == 0 || r->kind != LOCATE_NAME) return false;
    if (!locate_memo_hint(l, r->kind, r->key, to, &way)) return false;
    const locate_set others = to & ~set_of(way.link);
    if (!set_any(others)) return false;
    uint32_t far = way.hops < LOCATE_REACH ? way.hops : LOCATE_REACH;
    uint64_t most = (r->until - now) / 2, span = way_time(l, far, LEAD_PART) + late_time(l, far, now);
    forget_asked(r);
    r->hint_ttl = far;
    r->asked = to;
    r->busy = others;
    set_add(&r->send, way.link);
    set_add(&r->hint, way.link);
    set_add(&l->maybe, way.link);
    r->flags |= REQ_LEADS;
    r->busy_at = locate_after(now, span < most ? span : most);
    locate_due(l, r->busy_at);
    return true;
}

void locate_held_off(struct locate_request *r) {
    if (r->flags & REQ_LEADS) r->flags ^= REQ_LEADS | REQ_LED;
    r->asked &= ~r->busy;
    r->busy = SET_NONE;
    r->busy_at = 0;
}

void locate_held_on(struct locate *l, struct locate_request *r) {
    locate_held_off(r);
    locate_spread(l, r);
}

/*
 * How long a ring lasts: as long as an answer may take. The last one of a name twice as long: where it is asked first
 * of one alone (locate_lead), it goes on later.
 *
 * When hints have found nothing, and others ask here for the same by hints, many may do so at one time. They begin to
 * flood one after the other: who has an answer first says it to those whom he was asked by. (Floods that come by may be
 * of who has gone long ago.)
 */
static uint64_t ring_time(const struct locate *l, const struct locate_request *r, moyai_ns now) {
    const struct ring *ring = ring_of(l, r);
    uint64_t links = ring->ttl ? ring->ttl + 2 : r->hint_ttl > ring->hint_ttl ? r->hint_ttl : ring->hint_ttl;
    uint64_t span = way_time(l, links, ring->part), late = late_time(l, links, now);
    if (r->ring == LOCATE_RINGS - 1 && r->kind == LOCATE_NAME && locate_by_hints(l, r)) span *= 2;
    bool crowd = r->ring == RING_PLAIN && ring->ttl == 0 && (r->flags & REQ_CROWD) && set_any(r->askers);
    return span + late + (crowd ? 2 * turn_of(l, r) * (l->ring_max + late) / 256 : 0);
}

static uint32_t ring_first(const struct locate *l, const struct locate_request *r) {
    if (r->kind == LOCATE_CLAIM) return RING_CLAIM;
    if ((r->flags & REQ_LOST) && locate_by_hints(l, r)) return RING_OTHERS;
    return locate_by_hints(l, r) && (set_any(l->digests) || r->kind == LOCATE_NAME) ? 0 : RING_PLAIN;
}

/* Whoever was linked to a node that cannot be reached any more knows why, or will in a moment: he waits to be asked,
 * and has no hint to be found by. */
static uint32_t ring_next(const struct locate_request *r) {
    if (r->ring >= LOCATE_RINGS)
        return LOCATE_RINGS - 1; /* after the last a wait: what others remember is renewed then */
    return (r->flags & REQ_LOST) && r->ring == RING_OTHERS ? RING_NEAR : r->ring + 1;
}

static void ring_wait(struct locate *l, struct locate_request *r, moyai_ns now) {
    r->ring_from = now;
    r->ring_at = locate_after(now, ring_time(l, r, now));
    locate_due(l, r->ring_at);
    locate_keep_until(l, r, r->ring_at);
}

/* Whom it has still to ask: its rate has been used up, or they had no room. */
static locate_set held_up(const struct locate_request *r) {
    return r->flags & REQ_LEADS ? r->send : r->send | r->busy;
}

static void ring_begin(struct locate *l, struct locate_request *r, moyai_ns now) {
    const struct ring *ring = ring_of(l, r);
    bool last = r->ring == LOCATE_RINGS - 1;
    locate_set link;
    uint32_t far = r->ring == 0 ? remembered(l, r, l->up & ~r->asked, &link) : 0;
    r->hint_ttl = far > ring->hint_ttl ? far : ring->hint_ttl;
    ring_wait(l, r, now);
    r->ring_most = last ? locate_after(r->ring_at, LOCATE_LATE_RINGS * l->ring_max) : 0;
    const uint32_t ttl = last ? locate_ttl_most(r->kind, true) : ring->ttl;
    if (!set_any(r->askers) || ttl > r->ttl) r->ttl = ttl;
    if (r->ttl == 0) r->send &= r->direct | r->hint; /* who wanted more has gone */
    if (last) {
        r->flags |= REQ_FLOOD;
        uint64_t wait = locate_look_wait(l, r->kind, r->key), most = locate_after(now, l->interest);
        locate_keep_until(l, r, wait < most ? wait : most);
        /* It goes to all, which by itself may make a full machine late: copies are not to die of what was known before.
         */
        if (r->kind != LOCATE_CLAIM) locate_keep_until(l, r, locate_after(r->ring_at, LOCATE_LATE_RINGS * l->ring_max));
    }
    if (ring->ttl == 0 && r->ttl) return; /* another's flood has gone on from here, farther than hints would */
    if (r->ring <= 1)                     /* those who have been asked will say, or have said, what they know */
        locate_spread(l, r);
    else
        locate_spread_anew(l, r);
}

static void rings_begin(struct locate *l, struct locate_request *r, moyai_ns now) {
    r->ring = ring_first(l, r);
    r->flags &= ~(uint32_t)(REQ_PUT_OFF | REQ_CROWD | REQ_UNSURE);
    if (!set_any(r->askers)) r->flags &= ~(uint32_t)REQ_FLOOD;
    ring_begin(l, r, now);
}

struct locate_request *locate_ask_own(struct locate *l, uint32_t kind, const uint8_t key[16], bool lost, moyai_ns now) {
    struct locate_request *r = locate_find_request(l, kind, key);
    if (r && locate_request_over(r, now)) locate_request_clear(r);
    if (!r) r = locate_request_put(l, kind, key, true, now);
    if (!r) return NULL;
    if ((r->flags & REQ_OWN) && r->ring < LOCATE_RINGS) return r; /* begun */
    if (!(r->flags & REQ_OWN)) r->nonce = rng_next(&l->rng) | 1;
    r->flags |= REQ_OWN | (lost && kind == LOCATE_NODE ? REQ_LOST : 0u);
    rings_begin(l, r, now);
    return r;
}

/* Nobody here waits any more; others may. */
void locate_own_end(struct locate *l, struct locate_request *r) {
    r->flags &= ~(uint32_t)(REQ_OWN | REQ_LOST | REQ_UNSURE);
    r->ring = r->hint_ttl = 0;
    r->ring_at = r->ring_from = r->ring_most = 0;
    r->nonce = 0;
    locate_keep_until(l, r, r->until); /* may be swept from now on */
}

void locate_ask_own_end(struct locate *l, uint32_t kind, const uint8_t key[16]) {
    struct locate_request *r = locate_find_request(l, kind, key);
    if (r && (r->flags & REQ_OWN)) locate_own_end(l, r);
}

/* Frames have come later, or this node has had its turn later, than could be known when the ring began: it lasts as
 * long as it would have been given then. And the last one until all have been asked, and as long again. */
static bool ring_lasts(struct locate *l, struct locate_request *r, moyai_ns now) {
    if (r->ring >= LOCATE_RINGS) return false;
    uint64_t end = locate_after(r->ring_from, ring_time(l, r, now));
    if (locate_own_last(r) && set_any(held_up(r)) && now < r->ring_most) end = locate_after(now, l->ring_min / 2);
    if (end <= now) return false;
    r->ring_at = end;
    locate_due(l, end);
    locate_keep_until(l, r, end);
    l->maybe |= r->send;
    return true;
}

/*
 * A last ring of others has come by, and is outstanding: where two meet they cost twice what each does alone. So, once,
 * all are asked by hints instead: who has his answer gives it, and who waits for it will.
 */
static bool put_off(struct locate *l, struct locate_request *r, moyai_ns now) {
    locate_set to = l->up & ~r->send;
    if (r->ring != LOCATE_RINGS - 2 || (r->flags & REQ_PUT_OFF) || !locate_by_hints(l, r)) return false;
    if (!(r->flags & REQ_FLOOD) || r->others_until <= now) return false;
    r->flags |= REQ_PUT_OFF;
    r->hint_ttl = LOCATE_HINT_TTL;
    r->asked |= to;
    r->send |= to;
    r->hint |= to;
    l->maybe |= to;
    ring_wait(l, r, now);
    return true;
}

void locate_own_timeout(struct locate *l, struct locate_request *r, moyai_ns now) {
    if (ring_lasts(l, r, now) || put_off(l, r, now)) return;
    if (r->ring != LOCATE_RINGS - 1) {
        r->ring = ring_next(r);
        ring_begin(l, r, now);
        return;
    }
    switch (locate_look_ended(l, r->kind, r->key, set_any(held_up(r)) || r->flags & REQ_UNSURE, now)) {
    case LOOK_NONE:
        locate_own_end(l, r);
        break;
    case LOOK_AGAIN:
        if (!r->nonce) r->nonce = rng_next(&l->rng) | 1;
        forget_asked(r);
        rings_begin(l, r, now);
        break;
    case LOOK_WAITING:
        r->ring = LOCATE_RINGS;
        r->ring_from = r->ring_most = 0;
        r->ring_at = locate_after(now, l->interest / 4 * 3);
        break;
    }
}
