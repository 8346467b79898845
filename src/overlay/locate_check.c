/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold between any two events. Tests and simulations call it after each; a running node does not. */
#include "overlay/locate_ring.h"

#include "base/err.h"

static const char *table_check(const struct locate *l, const struct locate_table *t) {
    if (t->n > t->cap) return "a table holds more than it can";
    for (uint32_t i = 1; t->key && i < t->n; i++)
        if (memcmp(locate_entry(l, t, i - 1), locate_entry(l, t, i), t->key) >= 0) return "a table is out of order";
    if (t->n == t->cap) return NULL;
    const uint8_t *p = locate_entry(l, t, t->n);
    for (uint32_t i = 0; i < t->size; i++)
        if (p[i]) return "what is not used is not zero";
    return NULL;
}

static bool blank(const void *p, size_t n) {
    const uint8_t *b = p;
    for (size_t i = 0; i < n; i++)
        if (b[i]) return false;
    return true;
}

static const char *links_check(const struct locate *l) {
    uint32_t near_n = 0;
    uint64_t all = l->told == 64 ? UINT64_MAX : NAME_BIT(l->told) - 1;
    for (uint32_t i = 0; i < l->links; i++) {
        const struct locate_link *k = locate_link(l, i);
        if ((k->state == LINK_UP) != set_has(&l->up, i)) return "a link and the set of links disagree";
        if (k->state == LINK_FREE && !blank(k, sizeof *k)) return "a free link is not zero";
        if (k->state != LINK_UP && locate_changed(k)) return "something is to be told where nobody listens";
        if (k->names_dirty & ~all) return "a name is to be told that has no place";
        if (locate_changed(k) != set_has(&l->changed, i)) return "what has changed is not seen";
        if (locate_changed(k) && locate_changes_at(l, i) < l->changed_at && l->changed_at > 1)
            return "what has changed waits for longer than it should";
        if (set_has(&k->dirty, i)) return "a neighbour is to be told of itself";
        uint32_t cap = locate_near_cap(l, i), last = 0;
        if (k->state != LINK_UP && (cap || !blank(locate_known(l, i), l->told * sizeof(struct locate_known))))
            return "something is known from a link that is not up";
        for (uint32_t s = 0; s < cap; s++) {
            const struct locate_near *near = &locate_near(l, i)[s];
            if (id_equal(near->node, l->self)) return "this node is its neighbour's neighbour";
            if (id_zero(near->node) && near->host) return "the host of nobody is known";
            if (id_zero(near->node)) continue;
            near_n++;
            last = s + 1;
        }
        for (uint32_t s = 0; s < l->told; s++) near_n += !id_zero(locate_known(l, i)[s].name);
        uint32_t steps = (last + LOCATE_NEAR_STEP - 1) / LOCATE_NEAR_STEP * LOCATE_NEAR_STEP;
        if (cap != (steps < l->links ? steps : l->links)) return "a row is longer than what is known";
    }
    if (!blank(locate_near(l, l->links),
               (l->links * l->links - locate_near_at(l)[l->links]) * sizeof(struct locate_near)))
        return "a neighbour's neighbour of nobody";
    return near_n == l->near_n ? NULL : "what neighbours have told is miscounted";
}

static bool own_wanted(const struct locate *l, const struct locate_request *r) {
    const struct locate_name *n = r->kind == LOCATE_CLAIM ? locate_get(l, &l->names, r->key) : NULL;
    if (r->kind == LOCATE_CLAIM) return n && n->state == NAME_CLAIMED;
    for (uint32_t i = 0; i < l->lookups.n; i++) {
        const struct locate_lookup *k = locate_entry(l, &l->lookups, i);
        if (k->kind == r->kind && id_equal(k->key, r->key) && !(k->flags & LOOK_DONE)) return true;
    }
    return false;
}

static const char *request_check(const struct locate *l, const struct locate_request *r) {
    bool own = r->flags & REQ_OWN, done = r->flags & REQ_DONE;
    if (set_any((r->askers | r->asked | r->hint | r->send | r->direct | r->reply | r->slow | r->busy) & ~l->up))
        return "a request has to do with a link that is not up";
    if (set_any((r->send & ~r->asked) | ((r->direct | r->hint) & ~r->send) | (r->direct & r->hint) |
                (r->busy & ~r->asked)))
        return "a request's sets disagree";
    if (own && done) return "an answered request is waited for";
    if (done && set_any(r->askers | r->asked | r->slow)) return "an answered request has askers";
    if (!done && set_any(r->reply)) return "an answer without one";
    if (own != (r->ring_at != 0)) return "an own request has no time, or another one has";
    if (own != own_wanted(l, r)) return "a request is waited for by nobody, or not by whom it should";
    if (!own && r->until < l->sweep) return "a request will not be forgotten";
    if ((r->flags & REQ_LEADS) && (done || !r->busy_at || r->kind != LOCATE_NAME))
        return "nobody waits for who is asked first";
    if (set_any(r->busy) != (r->busy_at != 0)) return "who had no room is not asked again";
    if ((r->ring_at && r->ring_at < l->due) || (r->busy_at && r->busy_at < l->due)) return "a timer will not ring";
    if (r->ttl > locate_ttl_most(r->kind, r->flags & REQ_FLOOD) || r->ring > LOCATE_RINGS)
        return "a request goes too far";
    if (set_any(((r->send | r->reply | r->slow) & ~l->maybe) | ((r->reply | r->slow) & ~l->answers)))
        return "what is to be sent is not seen";
    return NULL;
}

static const char *lookups_check(const struct locate *l) {
    uint32_t done = 0;
    for (uint32_t i = 0; i < l->lookups.n; i++) {
        const struct locate_lookup *k = locate_entry(l, &l->lookups, i);
        done += (k->flags & LOOK_DONE) != 0;
        if (k->flags & LOOK_DONE) continue;
        const struct locate_request *r = locate_find_request(l, k->kind, k->key);
        if (!r || !(r->flags & REQ_OWN)) return "a look-up without its request";
        if ((k->flags & LOOK_WAIT) && k->until < l->due) return "a wait will not end";
    }
    return done == l->done_n ? NULL : "look-ups to be told are miscounted";
}

static const char *names_check(const struct locate *l) {
    uint64_t slots = 0;
    uint32_t tell = 0;
    bool untold = false;
    for (uint32_t i = 0; i < l->names.n; i++) {
        const struct locate_name *n = locate_entry(l, &l->names, i);
        tell += n->tell;
        if (n->state == NAME_LOST && !n->tell) return "a lost name is still there";
        if (n->slot && n->state != NAME_HELD) return "a name is told that is not held";
        if (n->state == NAME_HELD && !n->slot) untold = true;
        if (n->slot > l->told || (n->slot && (slots & NAME_BIT(n->slot - 1)))) return "two names in one place";
        if (n->slot) slots |= NAME_BIT(n->slot - 1);
        const struct locate_request *r = locate_find_request(l, LOCATE_CLAIM, n->name);
        if (n->state == NAME_CLAIMED && (!r || !(r->flags & REQ_OWN))) return "a claim without its request";
    }
    if (slots != l->used_slots || tell != l->name_tell) return "names are miscounted";
    if (untold && (uint32_t)__builtin_popcountll(slots) < l->told) return "a name could be told";
    return NULL;
}

static const char *routes_check(const struct locate *l) {
    for (uint32_t i = 0; i < l->routes.n; i++) {
        const struct locate_routes *r = locate_entry(l, &l->routes, i);
        if (r->n == 0 || r->n > LOCATE_ALTS) return "a destination without a way";
        locate_set links = SET_NONE;
        for (uint32_t k = 0; k < r->n; k++) {
            const struct locate_alt *a = &r->alt[k];
            if (!set_has(&l->up, a->link) || set_has(&links, a->link)) return "a way over no link, or over one twice";
            set_add(&links, a->link);
            if (k && r->alt[k - 1].cost > a->cost) return "ways out of order";
            if (a->said >= r->best) return "a way over who is not nearer";
            if (a->cost < r->best) return "a way nearer than the nearest";
        }
        if (!blank(&r->alt[r->n], (LOCATE_ALTS - r->n) * sizeof r->alt[0])) return "a way that is not used is not zero";
    }
    return NULL;
}

static const char *dead_check(const struct locate *l) {
    uint32_t tell = 0;
    for (uint32_t i = 0; i < l->dead.n; i++) {
        const struct locate_corpse *c = locate_entry(l, &l->dead, i);
        tell += c->tell;
        if (set_any((c->send & ~l->up) | (c->send & ~l->maybe)))
            return "evidence for a link that is not up, or not seen";
    }
    for (uint32_t i = 0; i < l->notes_n; i++)
        if (!set_has(&l->up, l->notes[i].link) || !set_has(&l->maybe, l->notes[i].link))
            return "a note for a link that is not up, or not seen";
    if (l->notes_n > LOCATE_NOTES) return "too many notes";
    if (set_any(((l->digests | l->digest_new | l->digest_send) & ~l->up) | (l->digest_send & ~l->maybe)))
        return "a digest of or for a link that is not up, or not seen";
    if (l->digest_at < l->due || (set_any(l->digest_new) && l->digest_at == UINT64_MAX))
        return "a digest will not be made";
    return tell == l->dead_tell ? NULL : "the dead to be told of are miscounted";
}

static const char *requests_check(const struct locate *l) {
    for (uint32_t i = 0; i < l->requests.n; i++) {
        const char *why = request_check(l, locate_request(l, i));
        if (why) return why;
    }
    return NULL;
}

bool locate_check(const struct locate *l, struct moyai_error *why) {
    const struct locate_table *tables[] = {&l->names, &l->requests, &l->lookups, &l->routes, &l->memos, &l->dead};
    const char *text = NULL;
    for (size_t i = 0; !text && i < sizeof tables / sizeof *tables; i++) text = table_check(l, tables[i]);
    if (!text) text = links_check(l);
    if (!text) text = requests_check(l);
    if (!text) text = lookups_check(l);
    if (!text) text = names_check(l);
    if (!text) text = routes_check(l);
    if (!text) text = dead_check(l);
    if (!text) return true;
    err_set(why, MOYAI_EINVAL, "locate: %s", text);
    return false;
}

/* Equal states as equal bytes: what is only a bound is made exact. */
void locate_settle(struct locate *l) {
    locate_set maybe = SET_NONE, answers = SET_NONE;
    uint64_t due = UINT64_MAX, sweep = UINT64_MAX;
    for (uint32_t i = 0; i < l->requests.n; i++) {
        const struct locate_request *r = locate_request(l, i);
        maybe |= r->send | r->reply | r->slow;
        answers |= r->reply | r->slow;
        if (r->ring_at && r->ring_at < due) due = r->ring_at;
        if (r->busy_at && r->busy_at < due) due = r->busy_at;
        if (!(r->flags & REQ_OWN) && r->until < sweep) sweep = r->until;
    }
    for (uint32_t i = 0; i < l->lookups.n; i++) {
        const struct locate_lookup *k = locate_entry(l, &l->lookups, i);
        if ((k->flags & LOOK_WAIT) && k->until < due) due = k->until;
    }
    for (uint32_t i = 0; i < l->notes_n; i++) set_add(&maybe, l->notes[i].link);
    for (uint32_t i = 0; i < l->notes_n; i++)
        if (l->notes[i].kind != LOCATE_LOST) set_add(&answers, l->notes[i].link);
    for (uint32_t i = 0; i < l->dead.n; i++)
        maybe |= ((const struct locate_corpse *)locate_entry(l, &l->dead, i))->send;
    if (l->digest_at < due) due = l->digest_at;
    l->maybe = maybe | l->digest_send;
    l->changed_at = 0;
    l->answers = answers;
    l->due = due;
    l->sweep = sweep;
}
