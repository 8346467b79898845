/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold between any two events of the death machine. Tests and simulations call it; a running node does not.
 */
#include "overlay/death_internal.h"

#include "base/err.h"

#include <string.h>

static bool is_zero(const void *at, size_t n) {
    const uint8_t *p = at;
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

static const char *case_check(const struct death *d, const struct death_case *c) {
    const struct death_seat *s = death_seats(d, c);
    if (c->n > d->members) return "a case of too many";
    if (!is_zero(&s[c->n], (d->members - c->n) * sizeof *s)) return "a free seat is not zero";
    if (id_zero(c->id)) return is_zero(c, sizeof *c) ? NULL : "a free case is not zero";
    if (death_case_of(d, c->id) != c) return "two cases of one node";
    if (id_equal(c->id, d->self)) return "a case of oneself";
    const struct death_link *l = death_link_to(d, c->id);
    if (c->own == SAID_NOTHING || c->own > SAID_NONE) return "a case without a word of our own";
    if ((c->own == SAID_ALIVE) != (l != NULL)) return "an objection without a link, or the reverse";
    if (c->own != SAID_ENDED && c->refused) return "refused, and not ended";
    if (c->own != SAID_ENDED && c->alone) return "alone, and not ended";
    if (death_dead_of(d, c->id)) return "a case of a dead one";
    if (c->ask || c->probe) return "something left to say";
    for (uint32_t i = 0; i < c->n; i++) {
        if (id_zero(s[i].id) || id_equal(s[i].id, d->self) || id_equal(s[i].id, c->id)) return "a seat of nobody";
        for (uint32_t k = 0; k < i; k++)
            if (id_equal(s[i].id, s[k].id)) return "two seats of one node";
        if (s[i].say || s[i].said > SAID_NONE) return "something left to say";
    }
    return NULL;
}

bool death_check(const struct death *d, struct moyai_error *why) {
    const struct death_link *l = death_links(d);
    const struct death_dead *x = death_deads(d);
    const char *text = NULL;
    if (d->draining) return true;
    if (d->links_n > d->links_cap || d->dead_n > d->dead_cap) text = "more than places";
    for (uint32_t i = 0; !text && i < d->links_n; i++) {
        if (id_zero(l[i].id) || id_equal(l[i].id, d->self)) text = "a link to nobody";
        if (death_link_to(d, l[i].id) != &l[i]) text = "two entries of one node";
        if ((l[i].n == 0) != (l[i].silent != 0)) text = "neither linked nor silent, or both";
        if (death_dead_of(d, l[i].id)) text = "a link to a dead one";
    }
    for (uint32_t i = 0; !text && i < d->dead_n; i++) {
        if (id_zero(x[i].id) || id_equal(x[i].id, d->self)) text = "nobody is dead, or oneself";
        if (death_dead_of(d, x[i].id) != &x[i]) text = "dead twice";
        if (x[i].news || x[i].hops) text = "news left to tell";
        if (x[i].left > DEATH_CLEAR || x[i].cause >= DEATH_CAUSES) text = "dead of nothing";
    }
    if (!text && !is_zero(&l[d->links_n], (d->links_cap - d->links_n) * sizeof *l)) text = "a free link is not zero";
    if (!text && !is_zero(&x[d->dead_n], (d->dead_cap - d->dead_n) * sizeof *x)) text = "a free place is not zero";
    for (uint32_t i = 0; !text && i < d->cases_cap; i++) text = case_check(d, &death_cases(d)[i]);
    if (!text && (d->reply || d->told == 1 || d->stage || d->at || !id_zero(d->from))) text = "effects left over";
    if (text) err_set(why, MOYAI_EINTERNAL, "death: %s", text);
    return !text;
}
