/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints: which to keep, which to tell, which to connect to.
 *
 * Of all endpoints that come by, those with the smallest hashes of their ids are kept, under a secret of this node. A
 * reservoir with coins would count how often an endpoint comes by, and the well-known would become better known; the
 * smallest of hashes is a uniform sample of the distinct ids, needs no count, and cannot be aimed at from outside. The
 * places of expired endpoints, and of those that fail again and again, go to whoever comes by next.
 *
 * A node behind a filter may reach its own site only, and of a small site a uniform sample of a large grid would hold
 * nobody: so a quarter of the places is for the own site. Attempts go to either half the time, and rarely to a kind
 * that has failed several times in a row.
 *
 * The rendezvous keeps for minutes what the killed have left, and a relay that dies again and again, each time at
 * another port, has left much more there dead than alive. So a node without links that could not reach two calls first
 * whom it has called in vain least often, which is all in turn; and every other call goes to whose word is newest: who
 * lives gives it again and again. Not at once, as a thousand that lose their relay in one moment may know
 * of ten more, and shall not all call the same.
 */
#include "overlay/peers_internal.h"

#include <string.h>

#define FAILS_SHIFT 5u /* the longest rest after failures: so often doubled */
#define FAILS_MANY  4u /* an endpoint that failed so often gives way to any other */
#define STREAK      4u /* failures in a row after which a kind is doubted */
#define DEAD_ENDS   2u /* the same, after which a node without links does not call any, but who seems to live */

/* Ranks of those that were called in vain: at first, and with a newer word. Who was not has 0. */
#define IN_VAIN 2u
#define RENEWED 1u
#define LIFE    ((uint64_t)(10 * MOYAI_SEC)) /* a word so much newer is a new one, and not the same by another way */

static uint64_t hash_of(const struct peers *p, const uint8_t id[16]) {
    uint64_t h = (id_lo(id) ^ p->secret) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 32 ^ id_hi(id)) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 29;
}

struct peers_known *peers_find(const struct peers *p, const uint8_t id[16]) {
    struct peers_known *k = peers_knowns(p);
    for (uint32_t i = 0; i < p->known_n; i++)
        if (id_equal(k[i].id, id)) return &k[i];
    return NULL;
}

static void put_text(struct peers *p, uint32_t i, const struct peers_endpoint *e) {
    uint32_t n = 0;
    while (n < e->n_text && n + 1 + e->text[n] <= p->text) n += 1u + e->text[n];
    uint8_t *text = peers_text(p, i);
    memcpy(text, e->text, n);
    memset(text + n, 0, p->text - n);
    peers_knowns(p)[i].n_text = n;
}

static void put(struct peers *p, uint32_t i, const struct peers_endpoint *e, uint64_t until, bool near) {
    struct peers_known *k = &peers_knowns(p)[i];
    *k = (struct peers_known){
        .site = e->site, .until = until, .accepts = e->accepts, .reached = e->reached, .near = near};
    memcpy(k->id, e->id.b, 16);
    k->hash = hash_of(p, e->id.b);
    put_text(p, i, e);
    p->dry_until = 0;
    p->expire_at = peers_min(p->expire_at, until);
}

static void remove_at(struct peers *p, uint32_t i) {
    struct peers_known *k = peers_knowns(p);
    uint32_t last = --p->known_n;
    p->near_n -= k[i].near;
    k[i] = k[last];
    if (i != last) memcpy(peers_text(p, i), peers_text(p, last), p->text);
    memset(&k[last], 0, sizeof *k);
    memset(peers_text(p, last), 0, p->text);
}

void peers_forget(struct peers *p, const uint8_t id[16]) {
    struct peers_known *k = peers_find(p, id);
    if (k) remove_at(p, (uint32_t)(k - peers_knowns(p)));
}

/* Where in those addresses this one is (len: its bytes, the length byte included); n_text: nowhere. */
static uint32_t address_at(const uint8_t *text, uint32_t n_text, const uint8_t *address, uint32_t len) {
    uint32_t at = 0;
    while (at < n_text && (1u + text[at] != len || memcmp(text + at, address, len) != 0)) at += 1u + text[at];
    return at;
}

static bool all_among(const uint8_t *text, uint32_t n_text, const struct peers_endpoint *e) {
    for (uint32_t at = 0; at < n_text; at += 1u + text[at])
        if (address_at(e->text, e->n_text, text + at, 1u + text[at]) == e->n_text) return false;
    return true;
}

/* The node of e answers at the first of its addresses: whoever else is known there is not there any more. If that one
 * has no address but those of e, it is e in an earlier life. Private addresses may be another node's at another site:
 * so of those that are only claimed nothing follows. */
void peers_found(struct peers *p, const struct peers_endpoint *e, const uint8_t asked[16]) {
    uint32_t len = 1u + e->text[0];
    for (uint32_t i = p->known_n; i-- > 0;) {
        struct peers_known *k = &peers_knowns(p)[i];
        if (id_equal(k->id, e->id.b)) continue;
        uint8_t *text = peers_text(p, i);
        uint32_t at = address_at(text, k->n_text, e->text, len);
        bool here = at < k->n_text;
        if (!here && !id_equal(k->id, asked)) continue;
        if (!here || all_among(text, k->n_text, e)) { /* !here: its name led there */
            remove_at(p, i);
            continue;
        }
        memmove(text + at, text + at + len, k->n_text - at - len);
        memset(text + k->n_text - len, 0, len);
        k->n_text -= len;
    }
}

void peers_expire(struct peers *p, moyai_ns now) {
    if (now < p->expire_at) return;
    p->expire_at = UINT64_MAX;
    for (uint32_t i = p->known_n; i-- > 0;) {
        const uint64_t until = peers_knowns(p)[i].until;
        if (until <= now)
            remove_at(p, i);
        else
            p->expire_at = peers_min(p->expire_at, until);
    }
}

/* Half of the places for other sites are for those that have been reached, if there are so many. */
static bool lacks_reached(const struct peers *p) {
    const struct peers_known *k = peers_knowns(p);
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->known_n; i++) n += !k[i].near && k[i].reached;
    return n <= (p->known_cap - p->known_cap / 4) / 2;
}

/* The place of the endpoint of that kind which is worth least, if it is worth less than this one; NULL: in any case. */
static uint32_t worst(const struct peers *p, bool near, const struct peers_endpoint *e, moyai_ns now) {
    const struct peers_known *k = peers_knowns(p);
    const bool lacks = e && !near && lacks_reached(p);
    uint64_t hash = !e || (lacks && e->reached) ? 0 : hash_of(p, e->id.b);
    uint32_t at = UINT32_MAX;
    for (uint32_t i = 0; i < p->known_n; i++) {
        if (k[i].near != near) continue;
        if (k[i].until <= now) return i;
        const bool fails = k[i].fails >= FAILS_MANY;
        const uint64_t h = fails ? UINT64_MAX : k[i].hash;
        if (h <= hash || (lacks && k[i].reached && !fails)) continue;
        hash = h;
        at = i;
    }
    return at;
}

void peers_learn(struct peers *p, const struct peers_endpoint *e, moyai_ns now) {
    bool near = e->site != 0 && e->site == p->site;
    if (id_equal(e->id.b, p->self) || id_zero(e->id.b) || e->n_text == 0 || e->lifetime == 0) return;
    if (!e->accepts && !near) return;
    if (1u + e->text[0] > p->text) return; /* not even its first address fits */
    uint32_t lifetime = e->lifetime < PEERS_LIFETIME ? e->lifetime : PEERS_LIFETIME;
    uint64_t until = peers_after(now, (uint64_t)lifetime * (uint64_t)MOYAI_SEC);
    struct peers_known *k = peers_find(p, e->id.b);
    if (k) {
        if (until <= k->until) return; /* what we have is newer */
        if (until > peers_after(k->until, LIFE) && k->vain) k->vain = RENEWED;
        if (k->near == near) {
            k->until = until;
            k->site = e->site;
            k->accepts = e->accepts;
            k->reached = e->reached;
            put_text(p, (uint32_t)(k - peers_knowns(p)), e);
            return;
        }
        peers_forget(p, e->id.b);
    }
    uint32_t places = near ? p->known_cap / 4 : p->known_cap - p->known_cap / 4;
    uint32_t used = near ? p->near_n : p->known_n - p->near_n;
    uint32_t at = used < places ? p->known_n : worst(p, near, e, now);
    if (at == UINT32_MAX) return;
    if (at == p->known_n) {
        p->known_n++;
        p->near_n += near;
    }
    put(p, at, e, until, near);
}

uint32_t peers_keep(struct peers *p, const struct peers_endpoint *e, moyai_ns now) {
    const bool near = e->site != 0 && e->site == p->site;
    peers_learn(p, e, now);
    const struct peers_known *k = peers_find(p, e->id.b);
    if (k) return (uint32_t)(k - peers_knowns(p));
    if (e->n_text == 0 || (!e->accepts && !near) || 1u + e->text[0] > p->text) return UINT32_MAX;
    const uint32_t at = worst(p, near, NULL, now);
    if (at == UINT32_MAX) return at;
    put(p, at, e, peers_after(now, (uint64_t)p->lifetime * (uint64_t)MOYAI_SEC), near);
    return at;
}

void peers_seen(struct peers *p, const uint8_t id[16], moyai_ns now) {
    struct peers_known *k = peers_find(p, id);
    const uint64_t until = peers_after(now, (uint64_t)p->lifetime * (uint64_t)MOYAI_SEC);
    if (!k || until <= k->until) return;
    if (until > peers_after(k->until, LIFE) && k->vain) k->vain = RENEWED;
    k->until = until;
}

void peers_draw(struct peers *p, struct peers_fx *fx, uint32_t most, const uint8_t id[16], uint64_t site,
                moyai_ns now) {
    const struct peers_known *k = peers_knowns(p);
    uint64_t seen = 0;
    fx->n = 0;
    for (uint32_t i = 0; i < p->known_n; i++) {
        if (k[i].until <= peers_after(now, (uint64_t)MOYAI_SEC) || id_equal(k[i].id, id)) continue;
        if (!k[i].accepts && (site == 0 || k[i].site != site)) continue;
        uint64_t at = seen++;
        if (at >= most) at = rng_below(&p->rng, seen);
        if (at >= most) continue;
        fx->pick[at] = (uint16_t)i;
        if (fx->n < most) fx->n++;
    }
}

uint32_t peers_candidate(struct peers *p, enum peers_whom whom, moyai_ns now) {
    struct peers_known *k = peers_knowns(p);
    uint32_t found[2] = {UINT32_MAX, UINT32_MAX}, least[2] = {UINT32_MAX, UINT32_MAX};
    uint64_t seen[2] = {0, 0}, soon = UINT64_MAX;
    const bool alone = p->mesh == 0, doubt = alone && p->streak[0] + p->streak[1] >= DEAD_ENDS;
    const bool newest = doubt && p->misses >= DEAD_ENDS && rng_below(&p->rng, 2);
    const bool reached = peers_few(p) && rng_below(&p->rng, 2);
    for (uint32_t i = 0; i < p->known_n; i++) {
        if ((whom == PEERS_OTHER_SITES && k[i].near) || (whom == PEERS_LIKE && !k[i].accepts)) continue;
        if (k[i].until <= now || peers_link_to(p, k[i].id) || peers_dial_to(p, k[i].id)) continue;
        if (k[i].again && k[i].retry <= now && k[i].lost > now) {
            k[i].again = 0;
            return i;
        }
        if (k[i].retry > now) {
            soon = peers_min(soon, k[i].retry);
            continue;
        }
        uint32_t kind = k[i].near;
        /* Lower is better. */
        const uint32_t rank = (alone ? k[i].vain : 0) + (reached && !k[i].reached ? 1u << 16 : 0);
        if (rank > least[kind]) continue;
        if (rank < least[kind]) seen[kind] = 0;
        least[kind] = rank;
        if (newest ? seen[kind]++ == 0 || k[i].until > k[found[kind]].until : rng_below(&p->rng, ++seen[kind]) == 0)
            found[kind] = i;
    }
    uint64_t near = p->extra == 1 ? 1 : 4; /* eighths */
    if ((p->streak[0] >= STREAK) != (p->streak[1] >= STREAK)) near = p->streak[0] >= STREAK ? 7 : 1;
    uint32_t kind = rng_below(&p->rng, 8) < near;
    if (found[kind] == UINT32_MAX) kind = !kind;
    if (found[kind] == UINT32_MAX) p->dry_until = soon;
    return found[kind];
}

void peers_rest(struct peers *p, const uint8_t id[16], uint64_t span, moyai_ns now) {
    struct peers_known *k = peers_find(p, id);
    if (peers_inward(p)) span = peers_min(span, PEERS_CALM);
    if (k) k->retry = peers_jitter(p, now, p->mesh ? span : peers_min(span, PEERS_ALONE));
    p->dry_until = 0;
}

/* Is there somebody to be called whom nobody has called in vain? To lose no time over those that cannot be reached. */
static bool never_called(const struct peers *p, moyai_ns now) {
    const struct peers_known *k = peers_knowns(p);
    for (uint32_t i = 0; i < p->known_n; i++)
        if (k[i].vain == 0 && k[i].retry <= now && k[i].until > now && !peers_dial_to(p, k[i].id)) return true;
    return false;
}

void peers_missed(struct peers *p, const uint8_t id[16], bool reached, moyai_ns now) {
    struct peers_known *k = peers_find(p, id);
    if (p->misses < 16) p->misses++;
    if (k) {
        if (!reached && p->streak[k->near] < STREAK) p->streak[k->near]++;
        uint64_t back = p->mesh || !reached ? PEERS_BACK : PEERS_AGAIN;
        back <<= k->fails < FAILS_SHIFT ? k->fails : FAILS_SHIFT;
        peers_rest(p, id, !reached && peers_hurries(p, now) ? PEERS_AGAIN : back, now);
        if (k->fails < 255) k->fails++;
        if (k->vain < 255) k->vain = k->vain < IN_VAIN ? IN_VAIN : k->vain + 1;
    }
    p->dry_until = 0;
    uint64_t most = peers_few(p) ? PEERS_HURRY : PEERS_CALM;
    if (p->mesh >= p->degree && p->streak[0] >= STREAK && !peers_inward(p)) most = PEERS_DOUBT;
    const bool more = p->mesh == 0 && !reached && never_called(p, now);
    p->gap_at = peers_jitter(p, now, more ? p->gap : peers_min(p->gap << p->misses, most));
}

void peers_met(struct peers *p, const uint8_t id[16], uint64_t site) {
    struct peers_known *k = peers_find(p, id);
    if (k) {
        k->fails = k->again = k->vain = 0;
        k->lost = 0;
    }
    p->misses = 0;
    p->streak[site != 0 && site == p->site] = 0;
}

void peers_hasten(struct peers *p, moyai_ns now) {
    struct peers_known *k = peers_knowns(p);
    for (uint32_t i = 0; i < p->known_n; i++) {
        k[i].fails = 0;
        if (k[i].retry > now) k[i].retry = peers_min(k[i].retry, peers_jitter(p, now, PEERS_AGAIN));
    }
    p->dry_until = 0;
    p->misses = 0;
}

void peers_calm(struct peers *p, moyai_ns now) {
    struct peers_known *k = peers_knowns(p);
    for (uint32_t i = 0; i < p->known_n; i++)
        if (k[i].retry > now) k[i].retry = peers_min(k[i].retry, peers_jitter(p, now, PEERS_CALM));
    p->dry_until = 0;
}

void peers_lately(struct peers *p, const uint8_t id[16], moyai_ns now) {
    struct peers_known *k = peers_find(p, id);
    p->late_until = peers_after(now, PEERS_LATE);
    p->again_n = PEERS_TRIES;
    if (k) k->lost = p->late_until;
}

/* Its node is there, and waits for a link with the new key: no rest, as there would be for one that may be dead. */
void peers_key_ended(struct peers *p, const uint8_t id[16], moyai_ns now) {
    peers_lately(p, id, now);
    peers_rest(p, id, p->gap, now);
}

/* At most so many as may be called at once, drawn at random: a whole host may have gone. */
void peers_again(struct peers *p, moyai_ns now) {
    struct peers_known *k = peers_knowns(p);
    uint64_t seen = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->known_n; i++) seen += k[i].lost > now;
    for (uint32_t i = 0; i < p->known_n; i++) {
        k[i].again = 0;
        if (k[i].lost <= now) continue;
        if (rng_below(&p->rng, seen--) >= p->attempts - n) continue;
        k[i].again = 1;
        k[i].retry = 0;
        n++;
    }
    p->dry_until = 0;
    if (p->gap_at > now) p->gap_at = now;
}
