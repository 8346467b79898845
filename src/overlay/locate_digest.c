/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests: who may be three links away.
 *
 * What neighbours say of their neighbours shows a node all who are two links away, some five hundred. In a grid of a
 * hundred thousand that is nobody: to find one node by asking, ring after ring, costs a part of the grid. One link more
 * to be seen makes that part twenty times smaller, but to tell it as lists would cost five hundred ids a link, and
 * changes all the time. So it is told as a Bloom filter: some bits of each id, set in a field of a thousand bytes. It
 * says "no" for certain and "yes" wrongly once in some hundred or thousand times; it is sent seldom and is old by then.
 * That does no harm, since it is a hint and nothing else: whom to ask, never what to answer (after the attenuated
 * filters of Rhea and Kubiatowicz, 2002, with one level).
 *
 * Names are told in the same field: those of neighbours, which are two links away from who is told. Ids are random, and
 * names are hashes, so their bits are as good as a hash of them. The dead that are known are among those told: who
 * looks for one of them is led to somebody who knows, instead of asking the whole grid.
 */
#include "overlay/locate_internal.h"

#define BITS   6u   /* of an id */
#define INDEX  13u  /* bits of an index: 8 * LOCATE_DIGEST = 2^13 */
#define NEWS   8u   /* one of so many has changed: it is told sooner */
#define SOONER 12u  /* so many times */
#define NAMES  512u /* the most of them in one digest: more would make it say yes to everything */
#define GATHER 12u  /* the first on a new link waits for a part of digest_every */

static uint32_t index_of(const uint8_t node[16], uint32_t k) {
    const uint8_t *p = node + k * INDEX / 8;
    uint32_t v = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    return v >> k * INDEX % 8 & (8 * LOCATE_DIGEST - 1);
}

static void add(uint8_t *d, const uint8_t node[16]) {
    for (uint32_t k = 0; k < BITS; k++) {
        uint32_t i = index_of(node, k);
        d[i / 8] |= (uint8_t)(1u << i % 8);
    }
}

static bool has(const uint8_t *d, const uint8_t node[16]) {
    for (uint32_t k = 0; k < BITS; k++) {
        uint32_t i = index_of(node, k);
        if (!(d[i / 8] >> i % 8 & 1)) return false;
    }
    return true;
}

locate_set locate_digest_find(const struct locate *l, const uint8_t node[16], locate_set among) {
    locate_set found = SET_NONE;
    SET_EACH (i, l->digests & among)
        if (has(locate_digest(l, i), node)) set_add(&found, i);
    return found;
}

bool locate_guess(struct locate *l, const struct moyai_node_id *node, locate_set avoid, uint32_t *link) {
    locate_set found = locate_digest_find(l, node->b, l->up & ~avoid);
    if (!set_any(found)) return false;
    *link = locate_any(l, found);
    return true;
}

/* The names that neighbours have told, the first of each before the second of any; and what we could not tell. */
static void add_names(const struct locate *l, uint8_t *d) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < l->told; k++)
        SET_EACH (i, l->up) {
            if (n == NAMES) return;
            const struct locate_known *known = locate_known(l, i);
            if (!id_zero(known[k].name)) add(d, known[k].name);
            n += !id_zero(known[k].name);
        }
    for (uint32_t i = 0; i < l->names.n && n < NAMES; i++) {
        const struct locate_name *name = locate_entry(l, &l->names, i);
        if (name->state == NAME_HELD && !name->slot) add(d, name->name);
        n += name->state == NAME_HELD && !name->slot;
    }
}

static void make(struct locate *l, moyai_ns now) {
    uint8_t *own = locate_digest(l, l->links);
    memset(own, 0, LOCATE_DIGEST);
    SET_EACH (i, l->up) {
        const struct locate_near *near = locate_near(l, i);
        for (uint32_t k = 0; k < locate_near_cap(l, i); k++)
            if (!id_zero(near[k].node)) add(own, near[k].node);
    }
    add_names(l, own);
    for (uint32_t i = 0; i < l->dead.n; i++) {
        const struct locate_corpse *c = locate_entry(l, &l->dead, i);
        if (c->until > now) add(own, c->node);
    }
}

/* --- when it is told ---------------------------------------------------------------------------------- */

static uint64_t drawn(struct locate *l, uint64_t span) {
    return span / 2 + rng_below(&l->rng, span + 1);
}

static void make_at(struct locate *l, uint64_t at) {
    if (at < l->digest_at) l->digest_at = at;
    locate_due(l, l->digest_at);
}

void locate_digest_link_up(struct locate *l, uint32_t link, moyai_ns now) {
    if (!l->digest_every) return;
    set_add(&l->digest_new, link);
    make_at(l, locate_after(now, l->digest_every / GATHER));
}

void locate_digest_link_down(struct locate *l, uint32_t link) {
    if (set_has(&l->digests, link)) memset(locate_digest(l, link), 0, LOCATE_DIGEST);
    set_del(&l->digests, link);
    set_del(&l->digest_new, link);
    set_del(&l->digest_send, link);
}

void locate_digest_news(struct locate *l, uint32_t n, moyai_ns now) {
    bool few = l->near_news * NEWS <= l->near_n;
    if (!l->digest_every || n == 0) return;
    l->near_news += n;
    bool many = l->near_news * NEWS > l->near_n;
    if (l->near_news > n && few != many) return; /* it is set */
    uint64_t at = locate_after(l->digest_all, drawn(l, many ? l->digest_every / SOONER : l->digest_every));
    make_at(l, at > now ? at : now);
}

void locate_digest_timeout(struct locate *l, moyai_ns now) {
    if (now < l->digest_at) {
        locate_due(l, l->digest_at);
        return;
    }
    uint64_t soon = l->digest_every / SOONER / 2;
    bool all = l->near_news * NEWS > l->near_n || now >= locate_after(l->digest_all, l->digest_every / 2);
    all = all && l->near_news > 0 && now >= locate_after(l->digest_all, soon);
    make(l, now);
    locate_set to = all ? l->up : l->digest_new;
    l->digest_new = SET_NONE;
    l->digest_send |= to;
    l->maybe |= to;
    l->digest_at = UINT64_MAX;
    if (all) {
        l->digest_all = now;
        l->near_news = 0;
    } else if (l->near_news) {
        bool many = l->near_news * NEWS > l->near_n;
        make_at(l, locate_after(l->digest_all, drawn(l, many ? l->digest_every / SOONER : l->digest_every)));
    }
}

int locate_digest_receive(struct locate *l, const struct locate_event *ev) {
    if (!l->digest_every) return 0; /* not kept */
    memcpy(locate_digest(l, ev->link), ev->frame->digest, LOCATE_DIGEST);
    set_add(&l->digests, ev->link);
    return 0;
}
