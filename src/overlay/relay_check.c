/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of a relay machine between two calls, and its normal form. */
#include "base/err.h"
#include "overlay/relay_internal.h"

#include <inttypes.h>
#include <string.h>

struct sums {
    uint64_t lent, items, bytes;
    uint32_t lenders, paths, live, passing, ids, sides, tells, routes;
    uint32_t on[SIDE_LISTS];
};

static const char *queue_check(const struct relay *r, const struct relay_side *y, struct sums *t) {
    uint32_t n = 0, bytes = 0, last = 0;
    for (uint32_t ref = y->first; ref && n <= y->n; ref = relay_item_at(r, ref)->next, n++) {
        bytes += relay_charge(relay_item_at(r, ref)->what >> 1);
        last = ref;
    }
    if (n != y->n || bytes != y->bytes || last != y->last) return "a queue is miscounted";
    t->items += n;
    return NULL;
}

static const char *credit_check(const struct relay *r, const struct relay_path *p, const struct relay_side *y) {
    if (p->state != PATH_OPEN && p->state != PATH_ROUTING) {
        if (y->n | y->lent | y->due) return "an ending path holds frames, a loan or credit";
        return NULL;
    }
    if (y->where != BY_LINK) {
        if (y->out || y->credit || (y->due | y->asked | y->take | y->give | y->say))
            return "credit of a side without link";
        if (y->where == HERE && y->n > 1) return "more than a frame waits from here";
        return NULL;
    }
    if (y->deaf) return y->n | y->due | y->lent ? "who is not listened to is given credit" : NULL;
    int64_t sum = (int64_t)y->out + y->bytes + y->due;
    if (sum != relay_limit(r, y)) return "granted, queued and free credit do not add up to the limit";
    if (y->ahead > r->frame - r->own) return "a side is too far ahead of others";
    if (relay_limit(r, y) > r->most) return "a limit above the most";
    if (p->ends && y->n) return "a frame for an end here waits";
    bool owed = y->due && (y->out < (int32_t)r->own || y->due >= relay_limit(r, y) / 4);
    if (owed && !(y->say & RELAY_SAY_CREDIT)) return "credit is due and is not said";
    if ((y->say & RELAY_SAY_CREDIT) && !y->due) return "no credit is due and is said";
    if (!(y->say & RELAY_SAY_TAKE) != !y->take) return "credit to be asked for, and not said, or the reverse";
    if (y->give && !(y->say & RELAY_SAY_GIVE)) return "credit to be given back, and not said";
    return NULL;
}

static const char *turn_check(const struct relay *r, const struct relay_path *p, int s) {
    const struct relay_side *y = &p->side[s], *x = &p->side[1 - s];
    bool small = (y->on >> ON_SMALL) & 1, bulk = (y->on >> ON_BULK) & 1, lent = (y->on >> ON_LENT) & 1;
    if (lent != (y->lent && !p->ends)) return "a loan that is not listed, or the reverse";
    if (y->where != BY_LINK) return (y->on & ~(1u << ON_LENT)) ? "a side without link is on its lists" : NULL;
    if (!((y->on >> ON_LINK) & 1)) return "a side is not on its link's list";
    if (((y->on >> ON_SAY) & 1) != (y->say != 0)) return "something to say and not listed, or the reverse";
    if (p->state != PATH_OPEN) return small || bulk ? "a frame is to be sent on a path that is not open" : NULL;
    const struct relay_item *i = x->first ? relay_item_at(r, x->first) : NULL;
    bool can = i && relay_covers(r, y->credit, relay_charge(i->what >> 1));
    if (small != (can && !(i->what & 1)) || bulk != (can && (i->what & 1)))
        return "a frame can be sent and is not listed, or the reverse";
    if (i && !can && !y->blocked) return "a frame waits for credit, and this was not said";
    if (relay_drains(p, s) && !i && !(y->say & RELAY_SAY_CLOSE))
        return "nothing is left on a side, and it does not close";
    if (!(y->say & RELAY_SAY_CLOSE) == (relay_drains(p, s) && !i)) return "a side closes before its time";
    return NULL;
}

static const char *side_check(const struct relay *r, const struct relay_path *p, int s, struct sums *t) {
    const struct relay_side *y = &p->side[s];
    const char *text = queue_check(r, y, t);
    if (!text) text = credit_check(r, p, y);
    if (!text) text = turn_check(r, p, s);
    if (text) return text;
    if (!p->ends) {
        t->lent += y->lent;
        t->lenders += y->lent > 0;
        t->bytes += y->bytes;
    }
    for (uint32_t k = 0; k < SIDE_LISTS; k++) t->on[k] += (y->on >> k) & 1;
    if (y->where != BY_LINK) return NULL;
    if (y->link == 0 || y->link > r->links_cap || !relay_link_at(r, y->link)->number || !y->label)
        return "a side of no link, or without label";
    if (relay_side_find(r, y->link, y->label) != relay_side_ref(r, p, s)) return "a label that leads elsewhere";
    return NULL;
}

static const char *path_check(const struct relay *r, struct relay_path *p, struct sums *t) {
    enum relay_where a = (enum relay_where)p->side[0].where, b = (enum relay_where)p->side[1].where;
    bool told = (p->on >> ON_TELL) & 1, routing = (p->on >> ON_ROUTE) & 1, live = false;
    if (told != (p->tell != 0)) return "something to tell and not listed, or the reverse";
    if (routing != (p->state == PATH_ROUTING)) return "a path that waits for its route is not listed, or the reverse";
    t->tells += told;
    t->routes += routing;
    switch ((enum relay_state)p->state) {
    case PATH_FREE: {
        struct relay_path none = {.generation = p->generation};
        return memcmp(&none, p, sizeof none) ? "a free place is not zero" : NULL;
    }
    case PATH_ROUTING:
        live = true;
        if (a == NOWHERE || b != NOWHERE) return "a path without route has a second side, or no first";
        break;
    case PATH_OPEN:
        live = true;
        if (a == NOWHERE && b == NOWHERE) return "an open path without sides";
        if (a == HERE && b == HERE) return "a path from here to here";
        if ((a == HERE && b == NOWHERE) || (b == HERE && a == NOWHERE)) return "an end here of a path that has closed";
        break;
    case PATH_ENDING:
        if (a == NOWHERE && b == NOWHERE) return "an ended path keeps its place";
        for (int s = 0; s < 2; s++) {
            const struct relay_side *y = &p->side[s];
            if (y->where == BY_LINK && y->say != RELAY_SAY_ERROR) return "an ending path that does not say so";
            if (y->where == HERE && p->tell != RELAY_TELL_DOWN) return "an ending path that does not tell so";
        }
        break;
    }
    t->paths++;
    t->live += live;
    t->passing += live && !p->ends;
    if (live != (p->id && relay_id_find(r, p->id) == p)) return "a path that is not found by its id, or the reverse";
    if (p->wants && (!live || (a != HERE && b != HERE))) return "a path wants to send without an end here";
    for (int s = 0; s < 2; s++) {
        const char *text = side_check(r, p, s, t);
        if (text) return text;
    }
    return NULL;
}

static const char *counts_check(const struct relay *r, const struct sums *t) {
    if (t->paths != r->paths_n || t->live != r->live || t->passing != r->passing) return "paths are miscounted";
    if (t->live > r->pointers) return "more paths than allowed";
    if (t->lent != r->lent || t->lenders != r->lenders) return "loans are miscounted";
    if (r->lent > r->memory) return "more is lent than there is";
    if (t->bytes > 2 * (uint64_t)r->frame * t->passing + r->memory) return "more is held than is allowed";
    uint64_t freed = 0, links = 0, on[SIDE_LISTS] = {0};
    for (uint32_t ref = r->freed.first; ref; ref = relay_item_at(r, ref)->next) freed++;
    if (t->items + freed != r->items_n || r->items_n > r->items_cap) return "frames are miscounted";
    for (uint32_t ref = 1; ref <= r->links_cap; ref++) {
        const struct relay_link *k = relay_link_at(r, ref);
        links += k->number != 0;
        for (uint32_t which = ON_LINK; which < ON_LENT; which++)
            for (uint32_t at = k->all[which].first; at; at = relay_side_at(r, at)->node[which].next) on[which]++;
        bool some = k->all[ON_SAY].first || k->all[ON_SMALL].first || k->all[ON_BULK].first;
        if (k->number && some && k->idle) return "an idle link has something to send";
    }
    for (uint32_t at = r->lents.first; at; at = relay_side_at(r, at)->node[ON_LENT].next) on[ON_LENT]++;
    for (uint32_t which = 0; which < SIDE_LISTS; which++)
        if (on[which] != t->on[which]) return "a list is miscounted";
    if (links != r->links_n) return "links are miscounted";
    uint32_t tells = 0, routes = 0;
    for (uint32_t at = r->tells.first; at; at = relay_path_at(r, at)->node[ON_TELL].next) tells++;
    for (uint32_t at = r->routes.first; at; at = relay_path_at(r, at)->node[ON_ROUTE].next) routes++;
    if (tells != t->tells || routes != t->routes) return "what is to be told is miscounted";
    bool due = r->deliver || r->freed.first || r->tells.first || r->wakes.first || r->withdrawn == 1;
    if (due && !r->draining) return "effects are due, and nobody knows";
    if (r->withdraw_at && (!r->leaving || !r->passing)) return "a time to withdraw by, without need";
    return NULL;
}

bool relay_check(const struct relay *r, struct moyai_error *why) {
    struct sums t = {0};
    const char *text = NULL;
    uint32_t ref = 1;
    for (; ref <= r->paths_top && !text; ref++) text = path_check(r, relay_path_at(r, ref), &t);
    if (text) {
        err_set(why, MOYAI_EINTERNAL, "relay, path %" PRIu32 ": %s", ref - 1, text);
        return false;
    }
    text = counts_check(r, &t);
    if (text) err_set(why, MOYAI_EINTERNAL, "relay: %s", text);
    return !text;
}

#define SETTLED 256u /* frames of a world small enough to be explored */

void relay_settle(struct relay *r) {
    struct relay_item all[SETTLED];
    uint32_t n = 0;
    if (r->items_n > SETTLED || r->items_top == 0) return;
    for (uint32_t side = 1; side <= 2 * r->paths_top; side++)
        for (uint32_t ref = relay_side_at(r, side)->first; ref; ref = relay_item_at(r, ref)->next)
            all[n++] = *relay_item_at(r, ref);
    memset(relay_item_at(r, 1), 0, (size_t)r->items_top * sizeof *all);
    r->items_top = n;
    r->items_free = 0;
    n = 0;
    for (uint32_t side = 1; side <= 2 * r->paths_top; side++) {
        struct relay_side *y = relay_side_at(r, side);
        if (!y->n) continue;
        y->first = n + 1;
        y->last = n + y->n;
        for (; n < y->last; n++) {
            *relay_item_at(r, n + 1) = all[n];
            relay_item_at(r, n + 1)->next = n + 1 < y->last ? n + 2 : 0;
        }
    }
}
