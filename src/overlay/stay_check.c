/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold between any two events of the stay machine; for tests and simulations. */
#include "overlay/stay_internal.h"

#include "base/err.h"

static const char *links_check(const struct stay *s) {
    const struct stay_link *l = stay_links(s);
    if (s->links_n > s->links_cap) return "more links than places";
    for (uint32_t i = 0; i < s->links_n; i++) {
        if (l[i].link == 0 || id_zero(l[i].id) || id_equal(l[i].id, s->self)) return "a link to nobody";
        for (uint32_t k = 0; k < i; k++)
            if (l[k].link == l[i].link || id_equal(l[k].id, l[i].id)) return "two links to one node";
        if (l[i].leaving != (l[i].heard != 0)) return "one leaves that has not said so, or the reverse";
        if (!s->leaving && (l[i].said || l[i].changed)) return "who stays says that it leaves";
        if (s->leaving && (l[i].changed || !l[i].said)) return "one has not been told";
        if (l[i].answered > UINT16_MAX || (l[i].mute && l[i].said == l[i].answered)) return "mute, and has answered";
        if (!l[i].leaving && (l[i].lacks || l[i].opens)) return "who stays answers for others";
        if (!l[i].leaving && l[i].placed) return "who stays has a place in the order of going";
        if (l[i].place_links > ORDER_LINKS) return "a place too far away";
        if (l[i].n_text > s->text) return "more addresses than places";
    }
    return NULL;
}

static const char *needs_check(const struct stay *s) {
    const struct stay_need *k = stay_needs_of(s);
    if (s->needs_n > STAY_NEEDS) return "more needs than places";
    for (uint32_t i = 0; i < s->needs_n; i++) {
        const struct stay_link *of = stay_link_of(s, k[i].link);
        if (k[i].link ? !of || !of->leaving : !s->leaving) return "a need for the sake of nobody";
        if (id_zero(k[i].id) || id_equal(k[i].id, s->self) || k[i].state > NEED_GONE) return "a need of nobody";
        if (s->leaving) continue;
        if (k[i].state == NEED_NEW) return "a need is not looked at";
        const bool times = k[i].state == NEED_LINK || k[i].state == NEED_SEARCH || k[i].state == NEED_LACK;
        if ((k[i].due != 0) != times) return "a need's timer runs when it should not, or not";
        if (stay_link_to(s, k[i].id) && k[i].state < NEED_OK) return "a need though there is a link";
    }
    return NULL;
}

static const char *edges_check(const struct stay *s) {
    if (s->edges_n > s->edges_cap || (s->edges_n && !s->leaving)) return "named by who stays";
    for (uint32_t i = 0; i < s->edges_n; i++) {
        const struct stay_edge *e = &stay_edges(s)[i];
        const struct stay_link *of = stay_link_of(s, e->link);
        if (!of || of->leaving || e->state > EDGE_LACK) return "named to nobody, or to one that leaves";
        for (uint32_t k = 0; k < i; k++)
            if (stay_edges(s)[k].link == e->link && id_equal(stay_edges(s)[k].id, e->id)) return "named twice";
    }
    return NULL;
}

static const char *least_check(const struct stay *s) {
    const struct stay_link *of = stay_link_of(s, s->parent);
    if (s->parent && (!of || !of->leaving || !s->leaving)) return "the least is of one that does not leave";
    if (id_zero(s->least.id) && (s->least.weight || s->least.last || s->parent)) return "the least is nobody";
    if (s->least.last && !s->least.weight) return "the last word on a part that nobody has weighed";
    return NULL;
}

bool stay_check(const struct stay *s, struct moyai_error *why) {
    const char *no = links_check(s);
    if (!no) no = needs_check(s);
    if (!no) no = edges_check(s);
    if (!no) no = least_check(s);
    if (!no && (s->fx_n > s->fx_cap || s->fx_at > s->fx_n)) no = "more effects than places";
    if (no) err_set(why, MOYAI_EINTERNAL, "stay: %s", no);
    return !no;
}
