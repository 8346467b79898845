/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stay: what a leaver says to whom, and whether it may go.
 *
 * Of its neighbours that stay, those to which others can connect are a circle in the order of their ids: each is named
 * the one before and the one after it. To each other one of these is named, in turn, and he to it.
 *
 * Leavers tell each other the least of those that stay, of their own first neighbours and of what others have told: it
 * only falls, unless that one leaves, too. It is named to the first of the own. So all that stay around any number of
 * leavers come to be connected with it, however the leavers are linked. Whom a leaver that has gone has named is an
 * orphan: nobody else may know of it, so it is named to the first of the own as well, or passed on if there is none.
 *
 * A leaver answers for those around it, and for the leavers that have the least by it: so that by whom the least came
 * goes when all to whom it has gone have said that those around them have a way there, and not before.
 *
 * Where two next to each other have no way, others of both sides may have: one of each part that has shown is named to
 * one of each other part, until no more parts grow together. Then these are what the leavers hold together, and all of
 * these must say the same one that is to go on. So a leaver that finds that weighs the best part around it, and tells
 * so: of the heaviest the first is the least then, which by its weight comes before all others. When its leaver knows
 * that nobody looks for a way any more, and nobody has said of a heavier one, it says that this is the last word; and
 * whoever has no way to that part is cut off.
 *
 * One that leaves since it depends on another leaver (force) has been told somebody on the other side of that one. It
 * is his way, and nobody else's, that all its neighbours need: to each he is named, as the least, and no own neighbour
 * takes his place. Who has no way to him is told so in turn. So the whole part that is cut off is told, and nobody of
 * the other parts, whoever finds a way to them meanwhile.
 */
#include "overlay/stay_internal.h"

#include <string.h>

void stay_edge_remove(struct stay *s, struct stay_edge *e) {
    struct stay_edge *last = &stay_edges(s)[--s->edges_n];
    *e = *last;
    memset(last, 0, sizeof *last);
}

static bool settled(const struct stay_link *l) {
    return l->said && (l->said == l->answered || l->mute);
}

/* Can it be connected to? */
static uint32_t grade(const struct stay_link *l) {
    return l->reached ? 2 : l->accepts;
}

/* Those that stay, in the order of their ids; of these first those to which others can connect best: *hubs. */
static uint32_t sort(const struct stay *s, uint32_t *hubs) {
    const struct stay_link *l = stay_links(s);
    uint32_t *order = stay_order(s), n = 0, best = 0;
    for (uint32_t i = 0; i < s->links_n; i++)
        if (!l[i].leaving && grade(&l[i]) > best) best = grade(&l[i]);
    for (uint32_t pass = 0; pass < 2; pass++) {
        const uint32_t from = n;
        for (uint32_t i = 0; i < s->links_n; i++) {
            if (l[i].leaving || (grade(&l[i]) == best) == pass) continue;
            uint32_t at = n++;
            for (; at > from && id_cmp(l[order[at - 1]].id, l[i].id) > 0; at--) order[at] = order[at - 1];
            order[at] = i;
        }
        if (pass == 0) *hubs = n;
    }
    return n;
}

static uint32_t root(uint32_t *class, uint32_t i) {
    while (class[i] != i) i = class[i] = class[class[i]];
    return i;
}

static struct stay_edge *edge_of(const struct stay *s, uint64_t link, const uint8_t id[16]) {
    for (uint32_t i = 0; i < s->edges_n; i++)
        if (stay_edges(s)[i].link == link && id_equal(stay_edges(s)[i].id, id)) return &stay_edges(s)[i];
    return NULL;
}

/* One that stays, as a leaving neighbour says. */
static bool is_told(const struct stay *s, const struct stay_need *k) {
    return !id_zero(k->id) && !stay_is_gone(s, k->id) && !stay_link_to(s, k->id);
}

/* Into which parts do those that stay fall, the least among them, be it a neighbour or not? By link, and the least, if
 * it is none, behind these; in `class` the lowest index of each part's. */
static uint32_t classify(const struct stay *s) {
    const struct stay_link *l = stay_links(s);
    const uint32_t far = s->links_n;
    const bool is_far = !s->depends && is_told(s, &s->least);
    uint32_t *class = stay_class(s), n = 0;
    for (uint32_t i = 0; i <= far; i++) class[i] = i;
    for (uint32_t i = 0; i < s->edges_n; i++) {
        const struct stay_edge *e = &stay_edges(s)[i];
        const struct stay_link *a = stay_link_of(s, e->link), *b = stay_link_to(s, e->id);
        const bool to_far = is_far && id_equal(e->id, s->least.id);
        const struct stay_edge *back = a && b ? edge_of(s, b->link, a->id) : NULL;
        if (back && back->state == EDGE_LACK) continue; /* what the other has found may be over one that leaves */
        if (e->state != EDGE_OK || !a || a->leaving || (b ? b->leaving : !to_far)) continue;
        uint32_t x = root(class, (uint32_t)(a - l)), y = root(class, b ? (uint32_t)(b - l) : far);
        if (x < y)
            class[y] = x;
        else
            class[x] = y;
    }
    for (uint32_t i = 0; i <= far; i++) {
        class[i] = root(class, i);
        n += class[i] == i && (i == far ? is_far : !l[i].leaving);
    }
    return n;
}

static uint32_t named_to(const struct stay *s, uint64_t link) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->edges_n; i++) n += stay_edges(s)[i].link == link;
    return n;
}

static void want(struct stay *s, struct stay_link *l, const uint8_t id[16], bool extra) {
    struct stay_edge *e = edge_of(s, l->link, id);
    if (!e) {
        if (s->edges_n == s->edges_cap || named_to(s, l->link) == PEERS_ENTRIES) return;
        e = &stay_edges(s)[s->edges_n++];
        *e = (struct stay_edge){.link = l->link, .extra = extra};
        memcpy(e->id, id, 16);
        l->changed = 1;
    }
    e->wanted = 1;
}

/* May this be the least? */
static bool stands(const struct stay *s, const uint8_t id[16]) {
    const struct stay_link *l = stay_link_to(s, id);
    return !id_zero(id) && !stay_is_gone(s, id) && !id_equal(id, s->self) && !(l && l->leaving);
}

/* Comes this one before the least? */
static bool comes_before(const struct stay_need *least, uint32_t weight, const uint8_t id[16]) {
    if (weight != least->weight) return weight > least->weight;
    return id_zero(least->id) || id_cmp(id, least->id) < 0;
}

static void set_least(struct stay *s, const struct stay_need *k, const uint8_t *text) {
    s->least = (struct stay_need){
        .site = k->site, .accepts = k->accepts, .reached = k->reached, .n_text = k->n_text, .weight = k->weight};
    memcpy(s->least.id, k->id, 16);
    memcpy(stay_ntext(s, PICK_LEAST), text, s->text);
}

/* It only falls, as long as it stays: so what goes around among leavers comes to rest. own: the first of ours. */
static void plan_least(struct stay *s, uint32_t own, uint32_t weight) {
    struct stay_need *least = &s->least;
    if (!stands(s, least->id)) {
        memset(least, 0, sizeof *least);
        memset(stay_ntext(s, PICK_LEAST), 0, s->text);
        s->parent = 0;
    }
    const struct stay_link *l = own == UINT32_MAX || s->depends ? NULL : &stay_links(s)[own];
    if (l && comes_before(least, weight, l->id)) {
        struct stay_need k = {.site = l->site, .accepts = l->accepts, .reached = l->reached, .n_text = l->n_text};
        memcpy(k.id, l->id, 16);
        k.weight = (uint16_t)weight;
        set_least(s, &k, stay_ltext(s, own));
        s->parent = 0;
    }
    bool says = false;
    for (uint32_t i = 0; i < s->needs_n; i++) {
        const struct stay_need *k = &stay_needs_of(s)[i];
        if (k->orphan || !stands(s, k->id)) continue;
        const bool addresses = s->depends && id_equal(k->id, least->id) && k->n_text > least->n_text;
        const bool before = comes_before(least, k->weight, k->id) && (!s->depends || k->weight || id_zero(least->id));
        if (addresses || before) set_least(s, k, stay_ntext(s, i));
        if (before) s->parent = k->link;
        if (k->link != s->parent || !id_equal(k->id, least->id)) continue;
        says = true;
        if (k->last) least->last = 1;
    }
    if (!says) s->parent = 0; /* it had not heard that this one leaves, too, or has another one by now */
}

/* To each other. */
static void want_both(struct stay *s, struct stay_link *a, struct stay_link *b) {
    want(s, a, b->id, false);
    want(s, b, a->id, false);
}

static void plan_edges(struct stay *s, uint32_t n, uint32_t hubs) {
    struct stay_link *l = stay_links(s);
    const uint32_t *order = stay_order(s);
    for (uint32_t i = 0; i < hubs && hubs > 1; i++) want_both(s, &l[order[i]], &l[order[(i + 1) % hubs]]);
    for (uint32_t i = hubs; i < n; i++) want_both(s, &l[order[i]], &l[order[i % hubs]]);
    for (uint32_t i = 0; i < n && s->depends && !id_zero(s->least.id); i++)
        if (!id_equal(l[order[i]].id, s->least.id)) want(s, &l[order[i]], s->least.id, false);
    if (n > 0 && !s->depends && is_told(s, &s->least)) want(s, &l[order[0]], s->least.id, false);
    for (uint32_t i = 0; i < s->needs_n && n > 0; i++) {
        const struct stay_need *k = &stay_needs_of(s)[i];
        if (k->orphan && is_told(s, k)) want(s, &l[order[0]], k->id, false);
    }
}

/* One of each part is named to one of each other; and to one of each the least, if it is no neighbour. */
static void plan_parts(struct stay *s, uint32_t n) {
    struct stay_link *l = stay_links(s);
    const uint32_t *class = stay_class(s), *order = stay_order(s);
    for (uint32_t i = 0; i < n && is_told(s, &s->least); i++) {
        struct stay_link *to = &l[order[i]];
        uint32_t k = 0; /* the first of the part that answers */
        while (k < i && (class[order[k]] != class[order[i]] || l[order[k]].mute)) k++;
        if (k == i && class[order[i]] != class[s->links_n] && !to->mute) want(s, to, s->least.id, true);
    }
    for (uint32_t i = 0; i < s->links_n; i++) {
        if (l[i].leaving || class[i] != i) continue;
        for (uint32_t k = 0; k < s->links_n; k++)
            if (k != i && !l[k].leaving && class[k] == k) want(s, &l[i], l[k].id, true);
    }
}

static void name(struct stay_fx *fx, uint32_t pick) {
    if (fx->n < PEERS_ENTRIES) fx->pick[fx->n++] = pick;
}

static struct stay_fx *say_leave(struct stay *s, struct stay_link *l, moyai_ns now) {
    if (++s->number > UINT16_MAX) s->number = 1;
    l->said = s->number;
    l->said_at = now;
    l->changed = l->mute = 0;
    return stay_send(s, l, PEERS_LEAVE, l->said);
}

static void tell_staying(struct stay *s, struct stay_link *l, moyai_ns now) {
    struct stay_fx *fx = say_leave(s, l, now);
    for (uint32_t i = 0; i < s->edges_n; i++) {
        const struct stay_edge *e = &stay_edges(s)[i];
        if (e->link != l->link) continue;
        const struct stay_link *to = stay_link_to(s, e->id);
        uint32_t k = 0;
        while (k < s->needs_n && !id_equal(stay_needs_of(s)[k].id, e->id)) k++;
        if (to)
            name(fx, PICK_LINK | (uint32_t)(to - stay_links(s)));
        else if (id_equal(s->least.id, e->id))
            name(fx, PICK_LEAST);
        else if (k < s->needs_n)
            name(fx, k);
    }
}

/* own: have we neighbours that stay? Then the first of these has the orphans. */
static void tell_leaving(struct stay *s, struct stay_link *l, bool own, moyai_ns now) {
    uint32_t pick[PEERS_ENTRIES], n = 0;
    uint64_t sum = 1;
    pick[n++] = PICK_PLACE;
    sum += s->place_key * 37 + stay_place_word(s);
    if (!id_zero(s->least.id)) {
        pick[n++] = PICK_LEAST;
        sum += (uint64_t)(2 * s->least.weight + s->least.last) << 32;
    }
    for (uint32_t i = 0; i < s->needs_n && !own && n < PEERS_ENTRIES; i++) {
        const struct stay_need *k = &stay_needs_of(s)[i];
        if (k->orphan && k->link != l->link && is_told(s, k) && !id_equal(k->id, s->least.id)) pick[n++] = i;
    }
    for (uint32_t i = 1; i < n; i++) sum += id_lo(stay_need_at(s, pick[i])->id) * 31 + 7; /* in any order */
    sum ^= sum >> 32;
    if (l->said && l->sum == (uint32_t)sum) return;
    struct stay_fx *fx = say_leave(s, l, now);
    l->sum = (uint32_t)sum;
    for (uint32_t i = 0; i < n; i++) name(fx, pick[i]);
}

/* Have those that stay answered? */
static bool all_settled(const struct stay *s) {
    const struct stay_link *l = stay_links(s);
    for (uint32_t i = 0; i < s->links_n; i++)
        if (!l[i].leaving && (l[i].changed || !settled(&l[i]))) return false;
    return true;
}

/* And leavers, and those to whom these have passed on what they were told? */
static bool is_known(const struct stay *s) {
    const struct stay_link *l = stay_links(s);
    for (uint32_t i = 0; i < s->links_n; i++)
        if (l[i].changed || !settled(&l[i]) || (l[i].opens && !l[i].mute)) return false;
    return true;
}

/* own: the first of ours. */
static void plan_names(struct stay *s, uint32_t n, uint32_t hubs, uint32_t own, uint32_t weight) {
    plan_least(s, own, weight);
    for (uint32_t i = 0; i < s->edges_n; i++) {
        struct stay_edge *e = &stay_edges(s)[i];
        const struct stay_link *a = stay_link_of(s, e->link), *b = stay_link_to(s, e->id);
        e->wanted = e->extra && a && !a->leaving && (b ? !b->leaving : id_equal(e->id, s->least.id));
    }
    plan_edges(s, n, hubs);
    if (all_settled(s) && classify(s) > 1) plan_parts(s, n);
}

static uint32_t least_of(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* Of a part by `class`; 0: nobody of it has answered. How large it is: as many as who sees most of it has said; at
 * least the own neighbours are of it. */
static uint32_t weight_of(const struct stay *s, uint32_t part) {
    const struct stay_link *l = stay_links(s);
    uint32_t reached = 0, accept = 0, own = 0, sees = 0;
    for (uint32_t i = 0; i < s->links_n; i++) {
        if (l[i].leaving || l[i].mute || stay_class(s)[i] != part) continue;
        reached += l[i].reached;
        accept += l[i].accepts;
        own++;
        if (l[i].sees > sees) sees = l[i].sees;
    }
    if (own == 0) return 0;
    uint32_t size = sees > own ? sees : own, doubled = 0;
    for (; size >= 2 * WEIGHT_EXACT; size /= 2) doubled++;
    size = least_of(size, WEIGHT_EXACT) + doubled;
    return (size * (WEIGHT_MOST + 1) + least_of(reached, WEIGHT_MOST)) * (WEIGHT_MOST + 1) +
           least_of(accept, WEIGHT_MOST);
}

/* By `class`: the weight of the best part. *own: the first of that. 0: nobody has answered. */
static uint32_t weigh(const struct stay *s, uint32_t n, uint32_t *own) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t one = stay_order(s)[i], weight = weight_of(s, stay_class(s)[one]);
        if (weight <= most) continue;
        *own = one;
        most = weight;
    }
    return most;
}

void stay_plan(struct stay *s, moyai_ns now) {
    struct stay_link *l = stay_links(s);
    uint32_t hubs = 0;
    const uint32_t n = sort(s, &hubs);
    uint32_t own = n > 0 ? stay_order(s)[0] : UINT32_MAX;
    for (uint32_t i = 0; i < s->links_n; i++)
        if (l[i].said != l[i].answered && now - l[i].said_at >= s->reply) l[i].mute = 1;
    stay_place(s, now);
    plan_names(s, n, hubs, own, 0);
    if (!s->depends && all_settled(s) && classify(s) > 1) {
        const uint32_t weight = weigh(s, n, &own);
        if (weight > 0) plan_names(s, n, hubs, own, weight);
    }
    if (s->least.weight > 0 && !s->parent && !s->quiet_at && is_known(s)) s->least.last = 1;
    for (uint32_t i = s->edges_n; i-- > 0;) {
        struct stay_edge *e = &stay_edges(s)[i];
        struct stay_link *a = stay_link_of(s, e->link);
        if (e->wanted) continue;
        if (a) a->changed = 1;
        stay_edge_remove(s, e);
    }
    for (uint32_t i = 0; i < s->links_n; i++) {
        if (l[i].leaving)
            tell_leaving(s, &l[i], n > 0, now);
        else if (l[i].changed || !l[i].said)
            tell_staying(s, &l[i], now);
    }
}

bool stay_lacks(const struct stay *s, const uint8_t id[16]) {
    for (uint32_t i = 0; i < s->edges_n; i++)
        if (stay_edges(s)[i].state == EDGE_LACK && id_equal(stay_edges(s)[i].id, id) && !stay_link_to(s, id))
            return true;
    return false;
}

/* ---- may it go? ------------------------------------------------------------------------------ */

bool stay_may_go(const struct stay *s, moyai_ns now) {
    const struct stay_link *l = stay_links(s);
    if (!s->leaving || (s->quiet_at && now < s->quiet_at) || (s->place_at && now < s->place_at)) return false;
    for (uint32_t i = 0; i < s->links_n; i++)
        if (!settled(&l[i]) || ((l[i].lacks || l[i].opens) && !l[i].mute) || stay_waits_for(s, &l[i])) return false;
    for (uint32_t i = 0; i < s->edges_n; i++) { /* to whom others have named */
        const struct stay_edge *e = &stay_edges(s)[i];
        const struct stay_link *a = stay_link_of(s, e->link);
        if (e->state == EDGE_LACK && a && !a->mute && !stay_link_to(s, e->id)) return false;
    }
    return stay_cut_off(s, NULL, 0) == 0;
}

/* *kept: the part that is not cut off, the least's. false: it is not known yet who is, or there is but one part. */
static bool parts(const struct stay *s, uint32_t *kept) {
    const struct stay_link *l = stay_links(s), *to = stay_link_to(s, s->least.id);
    for (uint32_t i = 0; i < s->links_n; i++)
        if (!l[i].leaving && (l[i].changed || !l[i].said)) return false;
    if (s->depends || classify(s) < 2) return false;
    *kept = stay_class(s)[to ? (uint32_t)(to - l) : s->links_n];
    return true;
}

static bool is_cut_off(const struct stay *s, uint32_t i, bool in_parts, uint32_t kept) {
    const struct stay_link *l = &stay_links(s)[i];
    if (!s->leaving || l->said != l->answered) return false;
    if (l->leaving) return l->lacks;
    const struct stay_edge *e = s->depends ? edge_of(s, l->link, s->least.id) : NULL;
    return (e && e->state == EDGE_LACK) || (in_parts && stay_class(s)[i] != kept);
}

uint32_t stay_cut_off(const struct stay *s, struct moyai_node_id *ids, uint32_t n) {
    const struct stay_link *l = stay_links(s);
    uint32_t kept = UINT32_MAX, found = 0;
    const bool in_parts = s->leaving && parts(s, &kept);
    for (uint32_t i = 0; i < s->links_n; i++) {
        if (!is_cut_off(s, i, in_parts, kept)) continue;
        if (found < n) memcpy(ids[found].b, l[i].id, 16);
        found++;
    }
    return found;
}

uint32_t stay_dependants(const struct stay *s, struct moyai_node_id *ids, uint32_t n, struct moyai_node_id *from) {
    const struct stay_link *l = stay_links(s);
    uint32_t kept = UINT32_MAX, found = 0;
    const bool in_parts = s->leaving && parts(s, &kept);
    if (s->depends ? id_zero(s->least.id) : !in_parts || !s->least.last) return 0;
    if (!stay_answered(s) || s->quiet_at) return 0;
    memcpy(from->b, s->least.id, 16);
    for (uint32_t i = 0; i < s->links_n; i++) {
        if (l[i].leaving || !is_cut_off(s, i, in_parts, kept)) continue;
        if (found < n) memcpy(ids[found].b, l[i].id, 16);
        found++;
    }
    return found;
}

uint32_t stay_unanswered(const struct stay *s, struct moyai_node_id *ids, uint32_t n) {
    const struct stay_link *l = stay_links(s);
    uint32_t found = 0;
    for (uint32_t i = 0; i < s->links_n && s->leaving; i++) {
        if (!l[i].changed && settled(&l[i]) && (!l[i].opens || l[i].mute)) continue;
        if (found < n) memcpy(ids[found].b, l[i].id, 16);
        found++;
    }
    return found;
}

bool stay_answered(const struct stay *s) {
    return s->leaving && is_known(s);
}

void stay_depend(struct stay *s, const uint8_t from[16]) {
    s->depends = 1;
    s->least = (struct stay_need){0};
    memset(stay_ntext(s, PICK_LEAST), 0, s->text);
    memcpy(s->least.id, from, 16);
}
