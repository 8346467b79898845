/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stay machine: its events, and what a node does that is named others by a leaver.
 *
 *            driver knows a way, or has a link
 *     NEW ------------------------------------------> OK      a link comes, or a search finds it: OK, from any state
 *      |  none        time, or it cannot be made         time
 *      +-------> LINK ------------------------> SEARCH --------> LACK (searched for again from time to time)
 *
 * A search asks all neighbours that stay, and these all of theirs, each once: at first a few links far, then through
 * the whole part in which it begins, which is small where it is needed most.
 */
#include "overlay/peers_wire.h"
#include "overlay/stay_internal.h"

#include <string.h>

/* --- the block ------------------------------------------------------------------------------------ */

static bool span(uint64_t *out, moyai_dur d, moyai_dur otherwise) {
    *out = (uint64_t)(d == 0 ? otherwise : d);
    return d >= 0 && *out <= (uint64_t)MOYAI_SEC * 86400;
}

static size_t layout(struct stay *s, const struct stay_cfg *c) {
    *s = (struct stay){.site = c->site, .accepts = c->accepts, .ended = c->ended};
    memcpy(s->self, c->self.b, 16);
    s->links_cap = c->links ? c->links : 512;
    s->text = c->text ? c->text : 256;
    s->sets = (c->gone ? c->gone : 1024) / STAY_GONE;
    s->seen_sets = (c->seen ? c->seen : 4096) / STAY_SEEN;
    if (s->seen_sets == 0 || s->seen_sets > 4096) return 0;
    if (id_zero(s->self) || s->sets == 0 || s->sets > 4096 || s->links_cap > 65536 || s->text > PEERS_TEXT) return 0;
    if (!span(&s->reply, c->reply, 5 * MOYAI_SEC) || !span(&s->attempt, c->attempt, 1500 * MOYAI_MS) ||
        !span(&s->search, c->search, 1500 * MOYAI_MS) || !span(&s->again, c->again, 4 * MOYAI_SEC) ||
        !span(&s->quiet, c->quiet, 300 * MOYAI_MS))
        return 0;
    s->edges_cap = 4 * s->links_cap;
    /* LEAVE and READY on each link, a search begun and one passed on; and two for each need. */
    s->fx_cap = 16 + 2 * STAY_NEEDS + 4 * s->links_cap;
    size_t at = (sizeof *s + 15) & ~(size_t)15;
    s->off_links = (uint32_t)at;
    s->off_ltexts = (uint32_t)(at += s->links_cap * sizeof(struct stay_link));
    s->off_gone = (uint32_t)(at += ((size_t)s->links_cap * s->text + 15) & ~(size_t)15);
    s->off_seen = (uint32_t)(at += (size_t)s->sets * STAY_GONE * 16);
    s->off_needs = (uint32_t)(at += (size_t)s->seen_sets * STAY_SEEN * sizeof(struct stay_seen));
    s->off_edges = (uint32_t)(at += STAY_NEEDS * sizeof(struct stay_need));
    s->off_fx = (uint32_t)(at += s->edges_cap * sizeof(struct stay_edge));
    s->off_order = (uint32_t)(at += s->fx_cap * sizeof(struct stay_fx));
    s->off_class = (uint32_t)(at += s->links_cap * sizeof(uint32_t));
    s->off_ntexts = (uint32_t)(at += (s->links_cap + 1) * sizeof(uint32_t));
    at += (size_t)(STAY_NEEDS + 1) * s->text;
    return (at + 15) & ~(size_t)15;
}

size_t stay_size(const struct stay_cfg *cfg) {
    struct stay s;
    return layout(&s, cfg);
}

int stay_init(struct stay *s, const struct stay_cfg *cfg) {
    struct stay head;
    if (layout(&head, cfg) == 0) return MOYAI_EINVAL;
    *s = head;
    rng_seed(&s->rng, cfg->seed);
    return 0;
}

struct stay_link *stay_link_to(const struct stay *s, const uint8_t id[16]) {
    for (uint32_t i = 0; i < s->links_n; i++)
        if (id_equal(stay_links(s)[i].id, id)) return &stay_links(s)[i];
    return NULL;
}

struct stay_link *stay_link_of(const struct stay *s, uint64_t link) {
    for (uint32_t i = 0; link && i < s->links_n; i++)
        if (stay_links(s)[i].link == link) return &stay_links(s)[i];
    return NULL;
}

/* Of its set: the latest first. */
static uint8_t *gone_set(const struct stay *s, const uint8_t id[16]) {
    return (uint8_t *)stay_at(s, s->off_gone) + (id_hash(id) >> 32) % s->sets * STAY_GONE * 16;
}

bool stay_is_gone(const struct stay *s, const uint8_t id[16]) {
    const uint8_t *set = gone_set(s, id);
    for (uint32_t i = 0; i < STAY_GONE && !id_zero(set + (size_t)i * 16); i++)
        if (id_equal(set + (size_t)i * 16, id)) return true;
    return false;
}

static void gone(struct stay *s, const uint8_t id[16]) {
    uint8_t *set = gone_set(s, id);
    if (stay_is_gone(s, id)) return;
    memmove(set + 16, set, (size_t)(STAY_GONE - 1) * 16);
    memcpy(set, id, 16);
}

/* Addresses that do not all fit are the first of them. */
static uint32_t put_text(uint8_t *out, uint32_t cap, const struct peers_endpoint *e) {
    uint32_t n = 0;
    while (n < e->n_text && n + 1 + e->text[n] <= cap) n += 1u + e->text[n];
    if (n) memcpy(out, e->text, n);
    memset(out + n, 0, cap - n);
    return n;
}

static void need_remove(struct stay *s, uint32_t i) {
    struct stay_need *k = stay_needs_of(s);
    const uint32_t last = --s->needs_n;
    k[i] = k[last];
    if (i != last) memcpy(stay_ntext(s, i), stay_ntext(s, last), s->text);
    memset(&k[last], 0, sizeof *k);
    memset(stay_ntext(s, last), 0, s->text);
}

/* Leavers may go by the thousand, and all name the same: what is known of orphans is not to depend on how many are
 * remembered to have gone, and each is kept once. */
static void forget_orphans(struct stay *s) {
    const struct stay_need *k = stay_needs_of(s);
    for (uint32_t i = s->needs_n; i-- > 0;) {
        bool known = stay_is_gone(s, k[i].id);
        for (uint32_t at = 0; at < i && !known; at++) known = !k[at].link && id_equal(k[at].id, k[i].id);
        if (!k[i].link && known) need_remove(s, i);
    }
}

/* --- effects -------------------------------------------------------------------------------------- */

struct stay_fx *stay_say(struct stay *s, enum stay_effect_kind kind, uint64_t link, const uint8_t id[16]) {
    struct stay_fx *fx = &stay_fxs(s)[s->fx_n++];
    *fx = (struct stay_fx){.kind = kind, .link = link};
    if (id) memcpy(fx->id, id, 16);
    return fx;
}

struct stay_fx *stay_send(struct stay *s, const struct stay_link *l, enum peers_frame_kind frame, uint32_t number) {
    struct stay_fx *fx = stay_say(s, STAY_FX_SEND, l->link, l->id);
    fx->frame = frame;
    fx->number = number;
    return fx;
}

static bool decided(const struct stay_need *k) {
    return k->state >= NEED_OK || (k->state == NEED_SEARCH && k->retried);
}

static struct peers_endpoint picked(const struct stay *s, uint32_t pick, bool id_only) {
    struct peers_endpoint e = {0};
    if (pick == PICK_PLACE) {
        memcpy(e.id.b, s->self, 16);
        e.site = s->place_key;
        e.lifetime = stay_place_word(s);
        return e;
    }
    if (pick == PICK_SEES) {
        memcpy(e.id.b, s->self, 16);
        e.lifetime = s->sees < PEERS_LIFETIME ? s->sees : PEERS_LIFETIME;
        return e;
    }
    const uint32_t i = pick & ~PICK_LINK;
    if (pick & PICK_LINK) {
        const struct stay_link *l = &stay_links(s)[i];
        memcpy(e.id.b, l->id, 16);
        e.site = l->site;
        e.accepts = l->accepts;
        e.reached = l->reached;
        e.n_text = l->n_text;
        e.text = stay_ltext(s, i);
    } else {
        const struct stay_need *k = stay_need_at(s, i);
        memcpy(e.id.b, k->id, 16);
        e.lifetime = k->state == NEED_GONE ? READY_GONE : decided(k) ? READY_LACK : READY_OPEN;
        if (id_only) return e;
        e.site = k->site;
        e.accepts = k->accepts;
        e.reached = k->reached;
        e.n_text = k->n_text;
        e.text = stay_ntext(s, i);
    }
    e.lifetime = NAMED_STAYS;
    if (pick & PICK_LINK) return e;
    const struct stay_need *k = stay_need_at(s, i);
    e.lifetime = k->orphan ? NAMED_ORPHAN : NAMED_STAYS + 2 * k->weight + k->last;
    return e;
}

bool stay_next(struct stay *s, struct stay_effect *out) {
    if (s->fx_at == s->fx_n) {
        memset(stay_fxs(s), 0, s->fx_n * sizeof(struct stay_fx));
        s->fx_at = s->fx_n = 0;
        return false;
    }
    const struct stay_fx *fx = &stay_fxs(s)[s->fx_at++];
    memset(out, 0, sizeof *out);
    out->kind = (enum stay_effect_kind)fx->kind;
    out->link = fx->link;
    memcpy(out->id.b, fx->id, 16);
    if (fx->kind == STAY_FX_CONNECT) out->endpoint = picked(s, fx->pick[0], false);
    if (fx->kind != STAY_FX_SEND) return true;
    struct peers_frame *f = &out->frame;
    f->kind = (enum peers_frame_kind)fx->frame;
    f->count = fx->number;
    for (uint32_t i = 0; i < fx->n; i++) f->e[f->n++] = picked(s, fx->pick[i], f->kind == PEERS_READY);
    if (f->kind == PEERS_SEARCH || f->kind == PEERS_FOUND) {
        memcpy(f->e[0].id.b, fx->id, 16);
        f->e[0].site = fx->nonce;
        f->n = 1;
    }
    return true;
}

/* --- searching ------------------------------------------------------------------------------------ */

static void say_search(struct stay *s, const struct stay_link *l, enum peers_frame_kind frame, const uint8_t id[16],
                       uint64_t nonce, uint32_t hops) {
    struct stay_fx *fx = stay_send(s, l, frame, hops);
    memcpy(fx->id, id, 16);
    fx->nonce = nonce;
}

static struct stay_seen *seen_set(const struct stay *s, uint64_t nonce) {
    return (struct stay_seen *)stay_at(s, s->off_seen) + nonce % s->seen_sets * STAY_SEEN;
}

static uint64_t *seen(struct stay *s, uint64_t nonce) {
    struct stay_seen *set = seen_set(s, nonce);
    for (uint32_t i = 0; i < STAY_SEEN; i++)
        if (set[i].nonce == nonce) return &set[i].link;
    return NULL;
}

static void remember(struct stay *s, uint64_t nonce, uint64_t link) {
    struct stay_seen *set = seen_set(s, nonce);
    memmove(set + 1, set, (STAY_SEEN - 1) * sizeof *set);
    set[0] = (struct stay_seen){nonce, link};
}

/* To all that stay. False: there is none. */
static bool ask_all(struct stay *s, const uint8_t id[16], uint64_t nonce, uint32_t hops, uint64_t but) {
    bool any = false;
    for (uint32_t i = 0; i < s->links_n; i++) {
        const struct stay_link *l = &stay_links(s)[i];
        if (l->leaving || l->link == but) continue;
        say_search(s, l, PEERS_SEARCH, id, nonce, hops);
        any = true;
    }
    return any;
}

/* Rings: those who have a link to a neighbour of a neighbour; near by; all. */
static const uint32_t rings[STAY_RINGS] = {1, 3, STAY_HOPS};
#define WIDEST (STAY_RINGS - 1)

/* Near by first. Each need has a search of its own: what was found before may have led over who leaves now. */
static void search(struct stay *s, struct stay_need *k, moyai_ns now) {
    if (s->flooded) { /* the next one */
        k->state = NEED_LINK;
        k->due = now + 1;
        return;
    }
    s->flooded = 1;
    do k->nonce = rng_next(&s->rng);
    while (k->nonce == 0);
    remember(s, k->nonce, 0);
    k->state = NEED_SEARCH;
    k->due = now + s->search / (k->ring == WIDEST ? 1 : k->ring ? 3 : 6);
    if (ask_all(s, k->id, k->nonce, rings[k->ring], 0)) return;
    k->ring = WIDEST;
    k->due = now;
}

static void on_search(struct stay *s, struct stay_link *l, const struct peers_frame *f) {
    const uint8_t *id = f->e[0].id.b;
    const uint64_t nonce = f->e[0].site;
    if (seen(s, nonce)) return;
    remember(s, nonce, l->link);
    if (s->leaving) {
        if (id_equal(id, s->self)) say_search(s, l, PEERS_FOUND, id, nonce, 1);
        return;
    }
    const struct stay_link *to = stay_link_to(s, id);
    const bool over = stay_is_gone(s, id) || (to && to->leaving);
    if (id_equal(id, s->self) || over)
        say_search(s, l, PEERS_FOUND, id, nonce, over);
    else if (to)
        say_search(s, to, PEERS_SEARCH, id, nonce, 0);
    else if (f->count > 0 && f->count <= STAY_HOPS)
        (void)ask_all(s, id, nonce, f->count - 1, l->link);
}

static void owed(struct stay *s, const struct stay_need *k) {
    struct stay_link *l = stay_link_of(s, k->link);
    if (l) l->owes = 1;
}

static void decide(struct stay *s, struct stay_need *k, uint32_t state) {
    if (k->state == state) return;
    k->state = state;
    k->retried = k->ring = 0;
    k->due = 0;
    if (state != NEED_OK || !k->known) owed(s, k);
    k->known = 0;
}

/* By what it was found is of no use any more, perhaps. */
static void look_again(struct stay_need *k) {
    k->state = NEED_NEW;
    k->known = 1;
}

static void on_found(struct stay *s, const struct peers_frame *f) {
    const uint64_t nonce = f->e[0].site, *from = seen(s, nonce);
    for (uint32_t i = 0; i < s->needs_n; i++) {
        struct stay_need *k = &stay_needs_of(s)[i];
        if (k->nonce != nonce) continue;
        if (f->count) gone(s, k->id);
        decide(s, k, f->count ? NEED_GONE : NEED_OK);
    }
    const struct stay_link *l = from ? stay_link_of(s, *from) : NULL;
    if (l) say_search(s, l, PEERS_FOUND, f->e[0].id.b, nonce, f->count != 0);
}

/* --- needs ---------------------------------------------------------------------------------------- */

static bool near(const struct stay *s, const struct stay_need *k) {
    return k->site != 0 && k->site == s->site;
}

/* No way is known. One of the two has to connect to the other, if it can. */
static void no_way(struct stay *s, uint32_t i, moyai_ns now) {
    struct stay_need *k = &stay_needs_of(s)[i];
    struct stay_link *l = k->known ? stay_link_of(s, k->link) : NULL;
    if (l) l->lost = l->owes = 1;
    k->known = 0;
    const bool can = k->n_text > 0 && (k->accepts || near(s, k));
    if (!can && !s->accepts && !near(s, k)) {
        search(s, k, now);
        return;
    }
    k->state = NEED_LINK;
    k->due = now + s->attempt;
    if (can) stay_say(s, STAY_FX_CONNECT, 0, k->id)->pick[0] = i;
}

static void look(struct stay *s, uint32_t i, moyai_ns now) {
    struct stay_need *k = &stay_needs_of(s)[i];
    const struct stay_link *to = stay_link_to(s, k->id);
    if (to || stay_is_gone(s, k->id)) {
        decide(s, k, !to || to->leaving ? NEED_GONE : NEED_OK);
        return;
    }
    if (k->state == NEED_NEW) {
        k->state = NEED_WAY;
        (void)stay_say(s, STAY_FX_WAY, 0, k->id);
    } else if (k->state == NEED_LINK && now >= k->due) {
        search(s, k, now);
    } else if (k->state == NEED_LACK && now >= k->due) {
        search(s, k, now);
        k->retried = 1; /* it has been said that there is none, and need not be said again */
    }
    if (k->state != NEED_SEARCH || now < k->due) return;
    if (k->ring < WIDEST) {
        k->ring++;
        search(s, k, now);
        return;
    }
    if (!k->retried) decide(s, k, NEED_LACK);
    k->state = NEED_LACK;
    k->retried = k->ring = 0;
    k->due = now + s->again;
}

/* Of a leaver, for another: have those that stay around it a way to whom that has named? The own neighbours to whom he
 * was named have said so; and of the least, to that from whom this one has it, all others are to have answered: the
 * leavers to whom it has passed that on, and who stays, as they may be of a part that is not asked yet. */
static uint32_t state_of(const struct stay *s, const struct stay_need *k) {
    const struct stay_link *to = stay_link_to(s, k->id);
    const bool passed_on = k->link == s->parent && id_equal(s->least.id, k->id);
    bool open = false, lacks = stay_lacks(s, k->id);
    if (stay_is_gone(s, k->id) || (to && to->leaving)) return NEED_GONE;
    for (uint32_t i = 0; i < s->edges_n; i++) {
        const struct stay_edge *e = &stay_edges(s)[i];
        const struct stay_link *l = id_equal(e->id, k->id) ? stay_link_of(s, e->link) : NULL;
        open = open || (l && e->state == EDGE_ASKED && !l->mute);
    }
    for (uint32_t i = 0; i < s->links_n && passed_on; i++) {
        const struct stay_link *l = &stay_links(s)[i];
        if (l->link == k->link || l->mute) continue;
        open = open || l->said != l->answered || l->changed || l->opens;
        lacks = lacks || l->lacks;
    }
    return open ? NEED_NEW : lacks ? NEED_LACK : NEED_OK;
}

static void say_ready(struct stay *s, struct stay_link *l) {
    bool open = false;
    for (uint32_t i = 0; i < s->needs_n && !s->leaving; i++)
        open = open || (stay_needs_of(s)[i].link == l->link && !decided(&stay_needs_of(s)[i]));
    if (open && !l->lost) return;
    struct stay_fx *fx = stay_send(s, l, PEERS_READY, l->heard);
    l->owes = open;
    l->lost = 0;
    for (uint32_t i = 0; i < s->needs_n; i++) {
        struct stay_need *k = &stay_needs_of(s)[i];
        if (k->link == l->link && k->state != NEED_OK && fx->n < PEERS_ENTRIES) fx->pick[fx->n++] = i;
    }
    if (!s->leaving && s->sees && fx->n < PEERS_ENTRIES) fx->pick[fx->n++] = PICK_SEES;
}

/* At one that leaves: what has changed since it was said. */
static void look_leaving(struct stay *s) {
    for (uint32_t i = 0; i < s->needs_n; i++) {
        struct stay_need *k = &stay_needs_of(s)[i];
        const uint32_t state = state_of(s, k);
        if (state != k->state) owed(s, k);
        k->state = state;
    }
}

/* After each event. */
static void settle(struct stay *s, moyai_ns now) {
    s->flooded = 0;
    if (now >= s->quiet_at) s->quiet_at = 0;
    for (uint32_t i = 0; i < s->links_n; i++)
        if (now >= stay_links(s)[i].opens) stay_links(s)[i].opens = 0;
    for (uint32_t i = 0; i < s->needs_n && !s->leaving; i++) look(s, i, now);
    if (s->leaving) forget_orphans(s);
    if (s->leaving) stay_plan(s, now);
    if (s->leaving) look_leaving(s);
    for (uint32_t i = 0; i < s->links_n; i++)
        if (stay_links(s)[i].owes) say_ready(s, &stay_links(s)[i]);
    s->flooded = 0;
}

/* --- frames --------------------------------------------------------------------------------------- */

static void need_put(struct stay *s, uint64_t link, const struct peers_endpoint *e) {
    const uint32_t word = e->lifetime > NAMED_STAYS ? e->lifetime - NAMED_STAYS : 0;
    for (uint32_t i = 0; i < s->needs_n; i++) {
        struct stay_need *k = &stay_needs_of(s)[i];
        if (k->link != link || !id_equal(k->id, e->id.b)) continue;
        k->weight = (uint16_t)(word / 2);
        k->last = word % 2;
        return;
    }
    if (s->needs_n == STAY_NEEDS) return; /* nobody is held up for that */
    struct stay_need *k = &stay_needs_of(s)[s->needs_n];
    *k = (struct stay_need){.link = link, .site = e->site, .accepts = e->accepts, .reached = e->reached};
    memcpy(k->id, e->id.b, 16);
    k->orphan = e->lifetime == NAMED_ORPHAN;
    k->weight = (uint16_t)(word / 2);
    k->last = word % 2;
    k->n_text = put_text(stay_ntext(s, s->needs_n), s->text, e);
    s->needs_n++;
}

static void on_leave(struct stay *s, struct stay_link *l, const struct peers_frame *f, moyai_ns now) {
    s->quiet_at = now + s->quiet;
    if (!l->leaving) (void)stay_say(s, STAY_FX_LEAVES, l->link, l->id);
    for (uint32_t i = 0; i < s->needs_n && !l->leaving && !s->leaving; i++) { /* perhaps over that one */
        struct stay_need *k = &stay_needs_of(s)[i];
        if (k->state == NEED_OK && !stay_link_to(s, k->id)) look_again(k);
    }
    l->leaving = 1;
    l->heard = f->count;
    l->owes = 1;
    for (uint32_t i = s->needs_n; i-- > 0;) {
        const struct stay_need *k = &stay_needs_of(s)[i];
        if (k->link != l->link) continue;
        uint32_t at = 0;
        while (at < f->n && !id_equal(f->e[at].id.b, k->id)) at++;
        if (at == f->n) need_remove(s, i);
    }
    l->placed = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        if (id_equal(f->e[i].id.b, l->id))
            stay_placed(l, &f->e[i]);
        else if (!id_zero(f->e[i].id.b) && !id_equal(f->e[i].id.b, s->self))
            need_put(s, l->link, &f->e[i]);
    }
}

static bool beside_leavers(const struct stay *s) {
    for (uint32_t i = 0; i < s->links_n; i++)
        if (stay_links(s)[i].leaving) return true;
    return false;
}

static void on_ready(struct stay *s, struct stay_link *l, const struct peers_frame *f, moyai_ns now) {
    if (!s->leaving || !l->said || f->count != l->said) return;
    bool open = false;
    l->answered = l->said;
    l->mute = 0;
    l->lacks = 0;
    l->opens = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        const bool own = id_equal(f->e[i].id.b, l->id);
        if (own) l->sees = f->e[i].lifetime;
        if (own || !l->leaving) continue;
        if (f->e[i].lifetime == READY_OPEN)
            l->opens = now + 2 * s->reply;
        else if (f->e[i].lifetime > READY_GONE)
            l->lacks = 1;
        else if (!stay_link_to(s, f->e[i].id.b) && !id_equal(f->e[i].id.b, s->self))
            gone(s, f->e[i].id.b);
    }
    for (uint32_t i = s->edges_n; i-- > 0;) {
        struct stay_edge *e = &stay_edges(s)[i];
        if (e->link != l->link) continue;
        uint32_t at = 0;
        while (at < f->n && !id_equal(f->e[at].id.b, e->id)) at++;
        const uint32_t state = at == f->n ? EDGE_OK : EDGE_LACK;
        /* Another may know of a part that is to stay rather than this one. */
        if (state == EDGE_LACK && e->state != EDGE_LACK && beside_leavers(s)) s->quiet_at = now + s->quiet;
        e->state = state;
        if (at < f->n && f->e[at].lifetime == READY_GONE && !stay_link_to(s, e->id)) gone(s, e->id);
        if (at == f->n || f->e[at].lifetime != READY_OPEN) continue;
        e->state = EDGE_ASKED;
        open = true;
    }
    if (!open) return; /* else it will say so once more */
    l->answered = 0;
    l->said_at = now;
}

static int frame(struct stay *s, const struct stay_event *ev) {
    const struct peers_frame *f = ev->frame;
    if (!f || f->kind < PEERS_OWN || f->kind >= PEERS_FRAMES || f->n > PEERS_ENTRIES) return MOYAI_EINVAL;
    const bool of_search = f->kind == PEERS_SEARCH || f->kind == PEERS_FOUND;
    if (of_search ? f->n != 1 || f->e[0].site == 0 : f->count == 0) return MOYAI_EPROTO;
    struct stay_link *l = stay_link_of(s, ev->link);
    if (!l) return MOYAI_EINVAL;
    if (f->kind == PEERS_LEAVE) on_leave(s, l, f, ev->now);
    if (f->kind == PEERS_READY) on_ready(s, l, f, ev->now);
    if (f->kind == PEERS_SEARCH) on_search(s, l, f);
    if (f->kind == PEERS_FOUND) on_found(s, f);
    return 0;
}

/* --- events --------------------------------------------------------------------------------------- */

static int up(struct stay *s, const struct stay_event *ev) {
    const struct peers_endpoint *e = ev->endpoint;
    if (ev->link == 0 || !e || id_zero(e->id.b) || id_equal(e->id.b, s->self)) return MOYAI_EINVAL;
    if (stay_link_of(s, ev->link) || stay_link_to(s, e->id.b) || s->links_n == s->links_cap) return MOYAI_EINVAL;
    if (!peers_addresses_ok(e->text, e->n_text)) return MOYAI_EINVAL;
    struct stay_link *l = &stay_links(s)[s->links_n];
    *l = (struct stay_link){.link = ev->link, .site = e->site, .accepts = e->accepts, .reached = e->reached};
    memcpy(l->id, e->id.b, 16);
    l->n_text = put_text(stay_ltext(s, s->links_n), s->text, e);
    s->links_n++;
    return 0;
}

static int down(struct stay *s, uint64_t link) {
    struct stay_link *l = stay_link_of(s, link);
    if (!l) return MOYAI_EINVAL;
    for (uint32_t i = s->needs_n; i-- > 0;) {
        if (stay_needs_of(s)[i].link != link) continue;
        if (s->leaving) { /* what it said is this node's to say now */
            stay_needs_of(s)[i].link = 0;
            stay_needs_of(s)[i].orphan = 1;
        } else {
            need_remove(s, i);
        }
    }
    for (uint32_t i = s->edges_n; i-- > 0;)
        if (stay_edges(s)[i].link == link || id_equal(stay_edges(s)[i].id, l->id)) {
            struct stay_link *of = stay_link_of(s, stay_edges(s)[i].link);
            if (of) of->changed = 1;
            stay_edge_remove(s, &stay_edges(s)[i]);
        }
    for (uint32_t i = 0; i < s->needs_n && !s->leaving; i++) {
        struct stay_need *k = &stay_needs_of(s)[i];
        const bool over_it = !l->leaving && !stay_link_to(s, k->id); /* perhaps */
        if (k->state == NEED_OK && (over_it || id_equal(k->id, l->id))) look_again(k);
    }
    if (id_equal(s->least.id, l->id)) memset(s->least.id, 0, 16); /* as others say, from now on */
    if (s->parent == link) s->parent = 0;
    if (l->leaving) gone(s, l->id); /* whoever says that it stays has not heard of it yet */
    const uint32_t i = (uint32_t)(l - stay_links(s)), last = --s->links_n;
    *l = stay_links(s)[last];
    if (i != last) memcpy(stay_ltext(s, i), stay_ltext(s, last), s->text);
    memset(&stay_links(s)[last], 0, sizeof *l);
    memset(stay_ltext(s, last), 0, s->text);
    return 0;
}

static void way(struct stay *s, const struct stay_event *ev) {
    for (uint32_t i = 0; i < s->needs_n; i++) {
        struct stay_need *k = &stay_needs_of(s)[i];
        if (k->state != NEED_WAY || !id_equal(k->id, ev->id.b)) continue;
        if (ev->yes)
            decide(s, k, NEED_OK);
        else
            no_way(s, i, ev->now);
    }
}

/* But the other may still connect to this node. */
static void failed(struct stay *s, const struct stay_event *ev) {
    for (uint32_t i = 0; i < s->needs_n; i++) {
        struct stay_need *k = &stay_needs_of(s)[i];
        if (k->state == NEED_LINK && id_equal(k->id, ev->id.b) && !s->accepts && !near(s, k)) k->due = ev->now;
    }
}

int stay_step(struct stay *s, const struct stay_event *ev) {
    int rc = 0;
    if (s->fx_n || (uint32_t)ev->kind > STAY_EV_TIMEOUT) return MOYAI_EINVAL;
    const uint32_t saw = s->sees;
    if (ev->sees) s->sees = ev->sees; /* whatever it says is said with that */
    switch (ev->kind) {
    case STAY_EV_UP:
        rc = up(s, ev);
        break;
    case STAY_EV_DOWN:
        rc = down(s, ev->link);
        break;
    case STAY_EV_GONE:
        rc = id_zero(ev->id.b) ? MOYAI_EINVAL : 0;
        if (rc == 0) gone(s, ev->id.b);
        break;
    case STAY_EV_LEAVE:
        rc = s->leaving && (s->depends || id_zero(ev->id.b)) ? MOYAI_EINVAL : 0;
        if (rc < 0) break;
        s->leaving = 1;
        s->ends = ev->yes;
        if (!id_zero(ev->id.b)) stay_depend(s, ev->id.b);
        break;
    case STAY_EV_DONE:
        rc = s->leaving ? 0 : MOYAI_EINVAL;
        if (rc == 0) s->done = 1;
        break;
    case STAY_EV_WATCHED:
        s->watched = ev->yes;
        break;
    case STAY_EV_FRAME:
        rc = frame(s, ev);
        break;
    case STAY_EV_WAY:
        way(s, ev);
        break;
    case STAY_EV_FAILED:
        failed(s, ev);
        break;
    case STAY_EV_TIMEOUT:
        break;
    }
    if (rc < 0) s->sees = saw;
    if (rc == 0) settle(s, ev->now);
    return rc;
}

/* --- looking -------------------------------------------------------------------------------------- */

moyai_ns stay_deadline(const struct stay *s) {
    uint64_t at = UINT64_MAX;
    for (uint32_t i = 0; i < s->needs_n && !s->leaving; i++) {
        const struct stay_need *k = &stay_needs_of(s)[i];
        if (k->due && k->due < at && (k->state == NEED_LINK || k->state == NEED_SEARCH || k->state == NEED_LACK))
            at = k->due;
    }
    for (uint32_t i = 0; i < s->links_n && s->leaving; i++) {
        const struct stay_link *l = &stay_links(s)[i];
        if (l->said != l->answered && !l->mute && l->said_at + s->reply < at) at = l->said_at + s->reply;
        if (l->opens && l->opens < at) at = l->opens;
    }
    if (s->leaving && s->quiet_at && s->quiet_at < at) at = s->quiet_at;
    if (s->leaving && s->place_at && s->place_at < at) at = s->place_at;
    return at;
}

bool stay_leaving(const struct stay *s) {
    return s->leaving;
}

bool stay_leaves(const struct stay *s, uint64_t link) {
    const struct stay_link *l = stay_link_of(s, link);
    return l && l->leaving;
}

bool stay_needs(const struct stay *s, const uint8_t id[16]) {
    for (uint32_t i = 0; i < s->needs_n; i++)
        if (!s->leaving && id_equal(stay_needs_of(s)[i].id, id)) return true;
    return false;
}
