/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes: what the answers that came by said of the way they came.
 *
 * Idea. AODV (RFC 3561) lets each destination number its answers, so that a node can tell a newer route from an older
 * one. Here an answer is made by the destination or its neighbour only, at the time of asking, so the request it
 * answers is its age: the first answer to an outstanding request replaces whatever was noted before, and all nodes it
 * passes have noted the same answer: following them ends at the destination. Further answers to the same request are
 * taken as alternatives if their sender is nearer to the destination than this node has ever been since (`best`): then
 * `best` falls with each step along any of these routes, and no loop can be among them (the feasibility condition of
 * DUAL and Babel). What is left is said in the spec, 7.5.
 */
#include "overlay/locate_internal.h"

bool locate_near_find(const struct locate *l, const uint8_t node[16], locate_set among, struct locate_hop *best) {
    bool found = false;
    SET_EACH (i, among) {
        const struct locate_near *near = locate_near(l, i);
        for (uint32_t k = 0; k < locate_near_cap(l, i); k++) {
            if (!id_equal(near[k].node, node)) continue;
            moyai_dur cost = (moyai_dur)locate_sum(locate_link(l, i)->cost, near[k].cost, LOCATE_COST_MAX) * MOYAI_US;
            if (!found || cost < best->cost) *best = (struct locate_hop){.link = i, .hops = 2, .cost = cost};
            found = true;
            break;
        }
    }
    return found;
}

static void alt_cut(struct locate_routes *r, uint32_t k) {
    memmove(&r->alt[k], &r->alt[k + 1], (LOCATE_ALTS - 1 - k) * sizeof r->alt[0]);
    r->alt[--r->n] = (struct locate_alt){0};
}

/* Full: what would be forgotten first goes. */
static struct locate_routes *routes_put(struct locate *l, const uint8_t node[16]) {
    if (l->routes.n == l->routes.cap) {
        struct locate_routes *oldest = locate_entry(l, &l->routes, 0);
        for (uint32_t i = 1; i < l->routes.n; i++) {
            struct locate_routes *r = locate_entry(l, &l->routes, i);
            if (r->until < oldest->until) oldest = r;
        }
        locate_cut(l, &l->routes, oldest);
    }
    return locate_put(l, &l->routes, node);
}

static void alt_put(struct locate_routes *r, const struct locate_alt *a) {
    for (uint32_t k = 0; k < r->n; k++) {
        if (r->alt[k].link != a->link) continue;
        if (r->alt[k].cost <= a->cost) return;
        alt_cut(r, k);
        break;
    }
    uint32_t k = r->n;
    while (k > 0 && a->cost < r->alt[k - 1].cost) k--;
    if (k == LOCATE_ALTS) return;
    if (r->n == LOCATE_ALTS) r->n--;
    memmove(&r->alt[k + 1], &r->alt[k], (r->n - k) * sizeof *a);
    r->alt[k] = *a;
    r->n++;
}

void locate_route_note(struct locate *l, const uint8_t node[16], uint32_t link, uint32_t hops, uint32_t said,
                       bool first, moyai_ns now) {
    struct locate_routes *r = locate_get(l, &l->routes, node);
    if (said == LOCATE_COST_MAX) said--; /* so that this node is farther than its neighbour in any case */
    const struct locate_alt a = {.link = link,
                                 .hops = locate_sum(hops, 1, LOCATE_HOPS_MAX),
                                 .said = said,
                                 .cost = locate_sum(said, locate_link(l, link)->cost, LOCATE_COST_MAX)};
    if (!first && (!r || said >= r->best)) return;
    if (first && !r) r = routes_put(l, node);
    if (first) {
        memset(r->alt, 0, sizeof r->alt);
        r->n = 0;
        r->best = a.cost;
    }
    alt_put(r, &a);
    if (a.cost < r->best) r->best = a.cost;
    for (uint32_t k = r->n; k > 1; k--)
        if (r->alt[k - 1].said >= r->best) alt_cut(r, k - 1);
    r->until = locate_after(now, l->route_life);
}

const struct locate_alt *locate_route_best(const struct locate *l, const uint8_t node[16], locate_set avoid,
                                           moyai_ns now) {
    const struct locate_routes *r = locate_get(l, &l->routes, node);
    if (!r || r->until <= now) return NULL;
    for (uint32_t k = 0; k < r->n; k++)
        if (!set_has(&avoid, r->alt[k].link)) return &r->alt[k];
    return NULL;
}

static void routes_drop(struct locate *l, struct locate_routes *r, locate_set links) {
    for (uint32_t k = r->n; k > 0; k--)
        if (set_has(&links, r->alt[k - 1].link)) alt_cut(r, k - 1);
    if (r->n == 0) locate_cut(l, &l->routes, r);
}

void locate_route_drop(struct locate *l, const uint8_t node[16], locate_set links) {
    struct locate_routes *r = locate_get(l, &l->routes, node);
    if (r) routes_drop(l, r, links);
}

void locate_route_link_down(struct locate *l, uint32_t link) {
    for (uint32_t i = l->routes.n; i > 0; i--) routes_drop(l, locate_entry(l, &l->routes, i - 1), set_of(link));
}

bool locate_route(struct locate *l, const struct moyai_node_id *node, locate_set avoid, moyai_ns now,
                  struct locate_hop *hop) {
    locate_set links = l->up & ~avoid;
    if (locate_is_dead(l, node->b, now, NULL) || id_equal(node->b, l->self)) return false;
    bool direct = false;
    SET_EACH (i, links) {
        const struct locate_link *k = locate_link(l, i);
        moyai_dur cost = (moyai_dur)k->cost * MOYAI_US;
        if (!id_equal(k->node, node->b) || (direct && cost >= hop->cost)) continue;
        *hop = (struct locate_hop){.link = i, .hops = 1, .cost = cost};
        direct = true;
    }
    if (direct || locate_near_find(l, node->b, links, hop)) return true;
    const struct locate_alt *a = locate_route_best(l, node->b, avoid, now);
    if (!a) return false;
    *hop = (struct locate_hop){.link = a->link, .hops = a->hops, .cost = (moyai_dur)a->cost * MOYAI_US};
    struct locate_routes *r = locate_get(l, &l->routes, node->b);
    r->until = locate_after(now, l->route_life);
    return true;
}

uint32_t locate_names_most(const struct locate *l) {
    return l->names.cap;
}

uint32_t locate_neighbours(const struct locate *l, uint32_t link, struct locate_neighbour *out, uint32_t n) {
    uint32_t k = 0;
    if (link >= l->links) return 0;
    const struct locate_near *near = locate_near(l, link);
    for (uint32_t i = 0; i < locate_near_cap(l, link) && k < n; i++) {
        if (id_zero(near[i].node)) continue;
        memcpy(out[k].node.b, near[i].node, 16);
        out[k++].host = near[i].host;
    }
    return k;
}
