/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that answers have told of on their way through here.
 *
 * An answer serves for a second; a name changes its place seldom. So who has passed an answer remembers whose the name
 * was for as long as there is room, and takes the way to that node as a hint: who asks later is led along the
 * way of the old answer to the one who can give a new one, for a few frames instead of a flood over the grid. (A
 * thousand workers that look for their master do so within minutes, not within the second.) Of a node sought the noted
 * route itself is that hint.
 */
#include "overlay/locate_ring.h"

void locate_memo_note(struct locate *l, const uint8_t name[16], const uint8_t owner[16], moyai_ns now) {
    struct locate_memo *m = locate_get(l, &l->memos, name);
    if (!m && l->memos.n == l->memos.cap) {
        struct locate_memo *oldest = locate_entry(l, &l->memos, 0);
        for (uint32_t i = 1; i < l->memos.n; i++) {
            struct locate_memo *e = locate_entry(l, &l->memos, i);
            if (e->noted < oldest->noted) oldest = e;
        }
        locate_cut(l, &l->memos, oldest);
    }
    if (!m) m = locate_put(l, &l->memos, name);
    memcpy(m->owner, owner, 16);
    m->noted = now;
}

void locate_memo_drop(struct locate *l, const uint8_t name[16]) {
    struct locate_memo *m = locate_get(l, &l->memos, name);
    if (m) locate_cut(l, &l->memos, m);
}

bool locate_memo_hint(const struct locate *l, uint32_t kind, const uint8_t key[16], locate_set among,
                      struct locate_hop *hop) {
    if (kind == LOCATE_CLAIM || !l->digest_every) return false;
    if (kind == LOCATE_NAME) {
        const struct locate_memo *m = locate_get(l, &l->memos, key);
        if (!m || locate_is_dead(l, m->owner, 0, NULL)) return false; /* a neighbour may not have heard of it yet */
        key = m->owner;
        SET_EACH (i, among) { /* it has more names than it tells, or no more this one */
            *hop = (struct locate_hop){.link = i, .hops = 1};
            if (id_equal(locate_link(l, hop->link)->node, key)) return true;
        }
        if (locate_near_find(l, key, among, hop)) return true;
    }
    const struct locate_alt *a = locate_route_best(l, key, ~among, 0); /* one that is old is a hint still */
    if (a) *hop = (struct locate_hop){.link = a->link, .hops = a->hops};
    return a;
}
