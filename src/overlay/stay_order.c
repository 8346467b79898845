/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stay: in which order leavers go that are neighbours.
 *
 * What a leaver has begun goes on until it is finished, and may need a way that leads over other leavers: a gateway
 * that leaves with those behind it has nothing to do itself, and is all that they have. So who is farther from those
 * that stay goes first. A place in that order is a root and how many links it is away: of a leaver with a neighbour
 * that stays one link from the root 0, which comes before all others; of others one more than the least that a leaving
 * neighbour has said. Where nobody stays the leaver with the least key is the root, as in bridges' spanning tree: first
 * those by which somebody looks at the grid, as he waits to hear of the others, and to him nobody may have a way but by
 * them. A leaver waits until all its leaving neighbours have gone that have a farther place than itself, and for no
 * others: as places are in one order, no two wait for each other, also by others.
 *
 * A root may go, or cease to stay, and what was said of it goes on being said. So a leaver takes a place only by a
 * neighbour that is nearer than itself is (the feasibility condition of DUAL: places form no circles at any time). If
 * there is none any more it is its own root, and says so, for a while by no other: by then those whose places were by
 * it have heard that, and have none by it either. In that while it does not go.
 *
 * One that ends others (a run, an agent) waits for these, wherever they are. So none that is ended by such a one waits
 * for such a one: that would be for each other; and the one by which it is ended is there for those behind longer than
 * it.
 *
 * So it is of those, too, that were told to leave as they depend on another (force): who has told them waits for those
 * that are farther, as most of them are. One that is not has found a way past him.
 *
 * Several that leave may have the same neighbours, as the processes of a gateway have. What only they hold together
 * keeps one of them: a leaver may go before another that has links to all its neighbours, if they have nobody else
 * either. Who ends others comes last, then who is watched, then it is by their ids.
 */
#include "overlay/stay_internal.h"

#include <string.h>

static bool is_farther(uint64_t key, uint32_t links, uint64_t than_key, uint32_t than_links) {
    return key != than_key ? key > than_key : links > than_links;
}

static void set_place(struct stay *s, uint64_t key, uint32_t links, uint64_t by) {
    s->place_key = key;
    s->place_links = links;
    s->place_by = by;
}

/* Of those that are nearer than it has been the nearest; of several as near the one that it was by. */
static const struct stay_link *nearest(const struct stay *s) {
    const struct stay_link *l = stay_links(s), *best = NULL;
    for (uint32_t i = 0; i < s->links_n; i++) {
        if (!l[i].leaving || l[i].mute || !l[i].placed || l[i].place_links >= ORDER_LINKS) continue;
        if (!is_farther(s->place_key, s->place_links, l[i].place_key, l[i].place_links)) continue;
        const bool as_near = best && l[i].place_key == best->place_key && l[i].place_links == best->place_links;
        if (!best || (as_near && l[i].link == s->place_by) ||
            is_farther(best->place_key, best->place_links, l[i].place_key, l[i].place_links))
            best = &l[i];
    }
    return best;
}

/* Of a root; not 0, which is for those that stay. */
static uint64_t own_key(const struct stay *s) {
    const uint64_t hash = id_hash(s->self) & ~ORDER_UNWATCHED;
    return s->watched ? hash + !hash : hash | ORDER_UNWATCHED;
}

void stay_place(struct stay *s, moyai_ns now) {
    const uint64_t own = own_key(s);
    uint32_t staying = 0;
    for (uint32_t i = 0; i < s->links_n; i++) staying += !stay_links(s)[i].leaving;
    if (now >= s->place_at) s->place_at = 0;
    if (staying) {
        set_place(s, 0, 1, 0);
        s->place_at = 0;
        return;
    }
    if (!s->place_links || own < s->place_key) set_place(s, own, 1, 0);
    const struct stay_link *l = s->place_at ? NULL : nearest(s);
    if (l) {
        set_place(s, l->place_key, l->place_links + 1, l->link);
    } else if (s->place_key != own) {
        set_place(s, own, 1, 0);
        s->place_at = now + s->quiet;
    }
}

uint32_t stay_place_word(const struct stay *s) {
    return s->place_links | (s->done ? ORDER_DONE : 0) | (s->ends ? ORDER_ENDS : 0) | (s->watched ? ORDER_WATCHED : 0);
}

void stay_placed(struct stay_link *l, const struct peers_endpoint *e) {
    const uint32_t links = e->lifetime & (ORDER_DONE - 1);
    l->placed = links > 0 && links <= ORDER_LINKS;
    l->place_key = e->site;
    l->place_links = (uint8_t)(l->placed ? links : 0);
    l->done = (e->lifetime & ORDER_DONE) != 0;
    l->ends = (e->lifetime & ORDER_ENDS) != 0;
    l->watched = (e->lifetime & ORDER_WATCHED) != 0;
}

bool stay_waits_for(const struct stay *s, const struct stay_link *l) {
    if (!s->leaving || !l->leaving || l->mute || !l->placed || (l->ends && s->ended)) return false;
    return is_farther(l->place_key, l->place_links, s->place_key, s->place_links);
}

bool stay_may_go_before(const struct stay *s, uint64_t link, moyai_ns now) {
    const struct stay_link *l = stay_link_of(s, link);
    if (!s->leaving || !l || !l->leaving || l->mute || !l->placed || (s->place_at && now < s->place_at)) return false;
    if (l->said != l->answered) return false; /* it may have said something else: both would go */
    const int last = s->ends != l->ends ? (int)s->ends - (int)l->ends : (int)s->watched - (int)l->watched;
    if (last ? last > 0 : id_cmp(l->id, s->self) < 0) return false;
    for (uint32_t i = 0; i < s->links_n; i++)
        if (stay_waits_for(s, &stay_links(s)[i])) return false;
    for (uint32_t i = 0; i < s->needs_n; i++) /* of which that one need not know */
        if (stay_needs_of(s)[i].orphan) return false;
    return true;
}

bool stay_is_placed(const struct stay *s, const uint8_t id[16]) {
    const struct stay_link *l = stay_link_to(s, id);
    return !l || (l->leaving && l->placed);
}

uint32_t stay_behind(const struct stay *s, struct moyai_node_id *ids, uint32_t n) {
    const struct stay_link *l = stay_links(s);
    uint32_t found = 0;
    for (uint32_t i = 0; i < s->links_n && !s->place_key; i++) {
        if (!stay_waits_for(s, &l[i]) || l[i].done || l[i].lacks) continue; /* who lacks a way is cut off already */
        if (found < n) memcpy(ids[found].b, l[i].id, 16);
        found++;
    }
    return found;
}
