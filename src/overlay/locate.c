/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The locating machine: its layout, its links, evidence of death, and the way of each event.
 *
 * Idea. After AODV (RFC 3561), with what a TCP overlay makes cheap. Links do not lose frames and end noticeably, so
 * neighbours can tell each other what they know in changes, and a node sees two links far without asking. Node ids
 * are never used again, so nothing needs a sequence number: an answer is as new as the request it answers
 * (locate_route.c). And since many nodes ask for one thing at one time (a thousand workers for their master), requests
 * are aggregated: who waits for an answer himself remembers who else does (locate_ask.c).
 *
 * Nothing is queued but notes (BUSY, LOST): what is to be sent on a link is a bit of the link's in the entry that it
 * tells of, so it is never older than the entry, is merged with what comes after, and is bounded by the tables.
 *
 *    locate.c        layout, links, evidence        locate_ask.c   requests of all, answers on their way
 *    locate_look.c   own look-ups, names, claims    locate_route.c routes
 *    locate_tell.c   frames out                     locate_table.c sorted arrays    locate_check.c invariants
 *    locate_digest.c who may be three links away    locate_ring.c  whom to ask, own rings
 *    locate_memo.c   where names were
 *
 * Invariants (locate_check): tables are sorted and within bounds; no set names a link that is not up; nothing is
 * known from a link that is not up; an own request has somebody who asked, and the reverse; a name told has a slot and
 * the reverse; nothing waits for a time that no timer will tell; between steps all effects have been told.
 */
#include "overlay/locate_look.h"

/* --- configuration and layout --------------------------------------------------------------------- */

static uint64_t span(moyai_dur d, moyai_dur otherwise) {
    if (d == 0) d = otherwise;
    return d < 1 ? 1 : (uint64_t)d;
}

static void place(struct locate_table *t, size_t *at, size_t size, size_t key, uint32_t cap) {
    *t = (struct locate_table){.off = (uint32_t)*at, .size = (uint32_t)size, .key = (uint32_t)key, .cap = cap};
    *at += size * cap;
}

static uint32_t or (uint32_t value, uint32_t otherwise) {
    return value ? value : otherwise;
}

/* Everything but what lives. False: values that cannot work. */
static bool layout(struct locate *l, const struct locate_cfg *cfg, size_t *size) {
    memset(l, 0, sizeof *l);
    memcpy(l->self, cfg->self.b, 16);
    l->links = or (cfg->links, 45);
    l->told = or (cfg->told, LOCATE_TOLD);
    l->rate = or (cfg->rate, 500);
    l->burst = or (cfg->burst, 100);
    l->keep = 3 * span(cfg->reattach, 10 * MOYAI_SEC);
    l->route_life = span(cfg->route_life, 60 * MOYAI_SEC);
    l->ring_min = span(cfg->ring_min, 100 * MOYAI_MS);
    l->ring_max = span(cfg->ring_max, 2 * MOYAI_SEC);
    l->interest = span(cfg->interest, 60 * MOYAI_SEC);
    l->fresh = span(cfg->fresh, MOYAI_SEC);
    l->delta_every = span(cfg->delta_every, 50 * MOYAI_MS);
    l->linger = cfg->linger > 0 ? (uint64_t)cfg->linger : 0;
    l->grace = cfg->grace > 0 ? (uint64_t)cfg->grace : 0;
    l->digest_every = cfg->digest_every > 0 ? (uint64_t)cfg->digest_every : 0;
    l->due = l->sweep = l->digest_at = UINT64_MAX;
    const uint32_t caps[] = { or (cfg->names, 16384), or (cfg->requests, 1024), or (cfg->lookups, 4096),
                              or (cfg->routes, 1024), or (cfg->dead, 512),      or (cfg->memos, 256)};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        if (caps[i] > 1u << 16) return false;
    if (l->links > LOCATE_LINKS || l->told > LOCATE_TOLD || id_zero(l->self) || caps[1] < 2 ||
        l->rate > MOYAI_SEC / 1000 || l->ring_min > l->ring_max)
        return false;
    size_t at = sizeof *l;
    l->off_links = (uint32_t)at;
    at += l->links * sizeof(struct locate_link);
    l->off_near_at = (uint32_t)at;
    at += (l->links + 1) * sizeof(uint32_t);
    at = (at + 7) & ~(size_t)7;
    /* What is filled from its beginning, and never full: the longest last, so that few pages are begun. */
    place(&l->names, &at, sizeof(struct locate_name), 16, caps[0]);
    place(&l->lookups, &at, sizeof(struct locate_lookup), 0, caps[2]);
    place(&l->dead, &at, sizeof(struct locate_corpse), 16, caps[4]);
    place(&l->routes, &at, sizeof(struct locate_routes), 16, caps[3]);
    place(&l->memos, &at, sizeof(struct locate_memo), 16, caps[5]);
    place(&l->requests, &at, sizeof(struct locate_request), 17, caps[1]);
    l->off_known = (uint32_t)at;
    at += (size_t)l->links * l->told * sizeof(struct locate_known);
    l->off_digests = (uint32_t)at;
    if (l->digest_every) at += (size_t)(l->links + 1) * LOCATE_DIGEST;
    l->off_near = (uint32_t)at;
    at += (size_t)l->links * l->links * sizeof(struct locate_near);
    *size = (at + 15) & ~(size_t)15;
    return true;
}

size_t locate_size(const struct locate_cfg *cfg) {
    struct locate l;
    size_t size;
    return layout(&l, cfg, &size) ? size : 0;
}

int locate_init(struct locate *l, const struct locate_cfg *cfg) {
    struct locate head;
    size_t size;
    if (!layout(&head, cfg, &size)) return MOYAI_EINVAL;
    rng_seed(&head.rng, cfg->seed);
    *l = head;
    return 0;
}

/* --- evidence --------------------------------------------------------------------------------------- */

bool locate_is_dead(const struct locate *l, const uint8_t node[16], moyai_ns now, uint32_t *how) {
    if (l->dead.n == 0) return false;
    const struct locate_corpse *c = locate_get(l, &l->dead, node);
    if (!c || c->until <= now) return false;
    if (how) *how = c->how;
    return true;
}

int locate_dead(const struct locate *l, const struct moyai_node_id *node, moyai_ns now) {
    uint32_t how;
    return locate_is_dead(l, node->b, now, &how) ? (int)how : 0;
}

/* Room in the table: what is over goes, else what would be forgotten first. (What is still to be told stays: there is
 * one of it at most, the newest.) */
static void graves_sweep(struct locate *l, moyai_ns now) {
    for (uint32_t i = l->dead.n; i > 0; i--) {
        struct locate_corpse *c = locate_entry(l, &l->dead, i - 1);
        if (c->until <= now && !c->tell) locate_cut(l, &l->dead, c);
    }
    if (l->dead.n < l->dead.cap) return;
    struct locate_corpse *first = locate_entry(l, &l->dead, 0);
    for (uint32_t i = 1; i < l->dead.n; i++) {
        struct locate_corpse *c = locate_entry(l, &l->dead, i);
        if (c->until < first->until) first = c;
    }
    locate_cut(l, &l->dead, first);
}

/*
 * A neighbour has as many neighbours as it happens to have: half of what it may have, mostly. Rows of that length, each
 * behind the one before, are looked through in half the time and take half the memory, in a block that has room for
 * all.
 */
static void near_fit(struct locate *l, uint32_t link, uint32_t cap) {
    uint32_t *from = locate_near_at(l), old = locate_near_cap(l, link), tail = from[l->links] - from[link + 1];
    struct locate_near *row = locate_near(l, link);
    if (cap == old) return;
    memmove(row + cap, row + old, tail * sizeof *row);
    if (cap > old)
        memset(row + old, 0, (cap - old) * sizeof *row);
    else
        memset(row + cap + tail, 0, (old - cap) * sizeof *row);
    for (uint32_t i = link + 1; i <= l->links; i++) from[i] += cap - old;
}

static uint32_t near_steps(const struct locate *l, uint32_t n) {
    n = (n + LOCATE_NEAR_STEP - 1) / LOCATE_NEAR_STEP * LOCATE_NEAR_STEP;
    return n < l->links ? n : l->links;
}

/* No longer than for the last who is known. */
static void near_trim(struct locate *l, uint32_t link) {
    const struct locate_near *near = locate_near(l, link);
    uint32_t n = locate_near_cap(l, link);
    while (n > 0 && id_zero(near[n - 1].node)) n--;
    near_fit(l, link, near_steps(l, n));
}

/* No neighbour is lost by this change: others may go along with it, so many that come one after the other in one
 * frame. */
static void change_gently(struct locate *l, locate_set to, uint32_t link, moyai_ns now) {
    l->changed |= to;
    l->changed_at = 0;
    SET_EACH (i, to) {
        struct locate_link *k = locate_link(l, i);
        uint64_t at = locate_after(now, l->linger);
        uint64_t told = k->delta_at ? locate_after(k->delta_at - l->delta_every, 4 * l->linger) : 0;
        if (!locate_changed(k)) k->linger_at = !l->linger ? 0 : at > told ? at : told;
        set_add(&k->dirty, link);
    }
}

/* One is. */
static void change_soon(struct locate *l, locate_set to, uint32_t link, moyai_ns now) {
    l->changed |= to;
    l->changed_at = 0;
    SET_EACH (i, to) {
        struct locate_link *k = locate_link(l, i);
        uint64_t at = l->grace ? locate_after(now, l->grace) : 0;
        if (!locate_changed(k) || at < k->linger_at) k->linger_at = at;
        set_add(&k->dirty, link);
    }
}

/* Nothing that was known from this link is believed any more, and nothing is sent on it. */
static void link_forget(struct locate *l, uint32_t link, bool parted, moyai_ns now) {
    const struct locate_near *near = locate_near(l, link);
    struct locate_known *known = locate_known(l, link);
    for (uint32_t i = 0; i < locate_near_cap(l, link); i++) l->near_n -= !id_zero(near[i].node);
    near_fit(l, link, 0);
    for (uint32_t i = 0; i < l->told; i++) { /* what is zero is not written: it may never have been touched */
        if (id_zero(known[i].name)) continue;
        memset(&known[i], 0, sizeof known[i]);
        l->near_n--;
    }
    locate_digest_link_down(l, link);
    set_del(&l->up, link);
    set_del(&l->maybe, link);
    set_del(&l->answers, link);
    set_del(&l->changed, link);
    locate_route_link_down(l, link);
    locate_ask_link_down(l, link);
    for (uint32_t i = 0; i < l->dead.n; i++) {
        struct locate_corpse *c = locate_entry(l, &l->dead, i);
        set_del(&c->send, link);
    }
    for (uint32_t i = l->notes_n; i > 0; i--) {
        if (l->notes[i - 1].link != link) continue;
        memmove(&l->notes[i - 1], &l->notes[i], (l->notes_n - i) * sizeof l->notes[0]);
        memset(&l->notes[--l->notes_n], 0, sizeof l->notes[0]);
    }
    (parted ? change_gently : change_soon)(l, l->up, link, now); /* the slot is empty */
}

void locate_bury(struct locate *l, const uint8_t node[16], uint32_t how, uint32_t ttl, uint64_t keep, locate_set except,
                 bool tell, moyai_ns now) {
    struct locate_corpse *c = locate_get(l, &l->dead, node);
    if (c && c->until > now) return;
    if (!c && l->dead.n == l->dead.cap) graves_sweep(l, now);
    if (!c) c = locate_put(l, &l->dead, node);
    c->until = locate_after(now, keep < l->keep ? keep : l->keep);
    c->how = how;
    c->ttl = ttl;
    c->send = SET_NONE;
    if (tell && !c->tell) l->dead_tell++;
    if (tell) c->tell = 1;
    for (uint32_t i = 0; i < l->links; i++) {
        struct locate_link *k = locate_link(l, i);
        if (k->state != LINK_UP || !id_equal(k->node, node)) continue;
        k->state = LINK_DEAD;
        k->dirty = SET_NONE;
        k->names_dirty = k->delta_at = k->linger_at = k->paid = 0;
        k->request_turn = 0;
        link_forget(l, i, false, now);
    }
    locate_route_drop(l, node, SET_ALL);
    c = locate_get(l, &l->dead, node);
    if (ttl) c->send = l->up & ~except;
    l->maybe |= c->send;
    locate_ask_came(l, LOCATE_NODE, node, now);
}

static bool how_right(uint32_t how) {
    return how >= LOCATE_DEAD && how <= LOCATE_CLEARED;
}

static int step_evidence(struct locate *l, const struct locate_event *ev) {
    if (!how_right(ev->how)) return MOYAI_EINVAL;
    if (id_zero(ev->node.b) || id_equal(ev->node.b, l->self)) return MOYAI_EINVAL;
    locate_bury(l, ev->node.b, ev->how, ev->told ? 0 : 2, l->keep, SET_NONE, false, ev->now);
    return 0;
}

static int receive_evidence(struct locate *l, const struct locate_event *ev) {
    const struct locate_frame *f = ev->frame;
    if (!how_right(f->how) || f->ttl < 1 || f->ttl > 2 || f->wait == 0 || id_zero(f->key)) return MOYAI_EPROTO;
    locate_bury(l, f->key, f->how, f->ttl - 1, f->wait * (uint64_t)MOYAI_MS, set_of(ev->link), true, ev->now);
    return 0;
}

/* --- links ------------------------------------------------------------------------------------------ */

static uint32_t microseconds(moyai_dur d) {
    if (d < MOYAI_US) return 1;
    return d / MOYAI_US > 600000000 ? 600000000 : (uint32_t)(d / MOYAI_US); /* ten minutes are no round trip */
}

static int step_link_up(struct locate *l, const struct locate_event *ev) {
    if (ev->link >= l->links || locate_link(l, ev->link)->state != LINK_FREE || id_zero(ev->node.b) ||
        id_equal(ev->node.b, l->self))
        return MOYAI_EINVAL;
    if (locate_is_dead(l, ev->node.b, ev->now, NULL)) return MOYAI_EDEAD;
    struct locate_link *k = locate_link(l, ev->link);
    memcpy(k->node, ev->node.b, 16);
    k->host = ev->host;
    k->state = LINK_UP;
    k->cost = k->told_cost = microseconds(ev->cost);
    k->names_dirty = l->used_slots;
    k->dirty = l->leaving ? SET_NONE : l->up;
    if (!l->leaving) change_gently(l, l->up, ev->link, ev->now);
    set_add(&l->up, ev->link);
    if (locate_changed(k)) set_add(&l->changed, ev->link);
    l->changed_at = 0;
    locate_digest_link_up(l, ev->link, ev->now);
    locate_ask_came(l, LOCATE_NODE, ev->node.b, ev->now);
    locate_ask_link_up(l, ev->now);
    return 0;
}

static int step_link_down(struct locate *l, const struct locate_event *ev) {
    if (ev->link >= l->links) return MOYAI_EINVAL;
    struct locate_link *k = locate_link(l, ev->link);
    if (k->state == LINK_FREE) return MOYAI_EINVAL;
    bool up = k->state == LINK_UP;
    memset(k, 0, sizeof *k);
    if (up) link_forget(l, ev->link, ev->parted, ev->now);
    return 0;
}

static int step_leave(struct locate *l) {
    if (l->leaving) return MOYAI_EINVAL;
    l->leaving = 1;
    l->changed_at = 0;
    SET_EACH (i, l->up) {
        struct locate_link *k = locate_link(l, i);
        k->dirty |= l->up & ~set_of(i);
        k->linger_at = 0;
        if (locate_changed(k)) set_add(&l->changed, i);
    }
    return 0;
}

/* Neighbours hear of it when it has changed by half or doubled. */
static int step_cost(struct locate *l, const struct locate_event *ev) {
    if (ev->link >= l->links || !set_has(&l->up, ev->link)) return MOYAI_EINVAL;
    struct locate_link *k = locate_link(l, ev->link);
    k->cost = microseconds(ev->cost);
    if (k->cost <= 2 * k->told_cost && k->cost >= k->told_cost / 2) return 0;
    k->told_cost = k->cost;
    change_gently(l, l->up & ~set_of(ev->link), ev->link, ev->now);
    return 0;
}

static int receive_neighbours(struct locate *l, const struct locate_event *ev) {
    const struct locate_frame *f = ev->frame;
    if (f->n == 0 || f->n > LOCATE_SLOTS) return MOYAI_EPROTO;
    for (uint32_t i = 0; i < f->n; i++)
        if (f->slots[i].slot >= LOCATE_LINKS || (id_zero(f->slots[i].id) != (f->slots[i].cost == 0)) ||
            (id_zero(f->slots[i].id) && f->slots[i].host))
            return MOYAI_EPROTO;
    uint32_t news = 0, cap = locate_near_cap(l, ev->link);
    bool fewer = false;
    for (uint32_t i = 0; i < f->n; i++) { /* who has more links than we could: not known, found by asking */
        const struct locate_slot *s = &f->slots[i];
        bool some = s->slot < l->links && !id_zero(s->id) && !id_equal(s->id, l->self);
        if (some && s->slot >= cap) cap = near_steps(l, s->slot + 1);
    }
    near_fit(l, ev->link, cap);
    struct locate_near *near = locate_near(l, ev->link);
    for (uint32_t i = 0; i < f->n; i++) {
        const struct locate_slot *s = &f->slots[i];
        if (s->slot >= cap) {
            news += s->slot < l->links && !id_zero(s->id);
            continue;
        }
        news += !id_equal(near[s->slot].node, s->id);
        l->near_n -= !id_zero(near[s->slot].node);
        memset(&near[s->slot], 0, sizeof *near);
        if (id_zero(s->id) || id_equal(s->id, l->self)) {
            fewer = true;
            continue;
        }
        memcpy(near[s->slot].node, s->id, 16);
        near[s->slot].cost = s->cost;
        near[s->slot].host = (uint32_t)s->host;
        l->near_n++;
    }
    if (fewer) near_trim(l, ev->link);
    locate_digest_news(l, news, ev->now);
    return 0;
}

/* --- events ----------------------------------------------------------------------------------------- */

void locate_note(struct locate *l, const struct locate_note *n) {
    if (l->notes_n == LOCATE_NOTES) return; /* asked again, or noticed again */
    l->notes[l->notes_n++] = *n;
    set_add(&l->maybe, n->link);
    if (n->kind != LOCATE_LOST) set_add(&l->answers, n->link);
}

static int receive(struct locate *l, const struct locate_event *ev) {
    switch (ev->frame->kind) {
    case LOCATE_NEIGHBOURS:
        return receive_neighbours(l, ev);
    case LOCATE_NAMES:
        return locate_names_receive(l, ev);
    case LOCATE_REQUEST:
        return locate_ask_receive(l, ev);
    case LOCATE_REPLY:
        return locate_ask_reply(l, ev);
    case LOCATE_BUSY:
        return locate_ask_busy(l, ev);
    case LOCATE_EVIDENCE:
        return receive_evidence(l, ev);
    case LOCATE_LOST:
        return locate_name_lost(l, ev);
    case LOCATE_DIGESTED:
        return locate_digest_receive(l, ev);
    }
    return MOYAI_EPROTO;
}

/* Single frames come late on any machine: of each only a part counts. */
static void heard_late(struct locate *l, uint64_t late, bool timer, moyai_ns now) {
    if (late > l->ring_max) late = l->ring_max; /* more is of no use, and a machine that slept comes later than that */
    uint64_t was = locate_late(l, now);
    if (late < was && timer) return;
    if (!timer) late = late > was ? was + (late - was) / 2 : was - (was - late) / 8;
    l->late = late;
    l->late_at = late ? now : 0;
}

static int step_receive(struct locate *l, const struct locate_event *ev) {
    if (ev->link >= l->links) return MOYAI_EINVAL;
    enum link_state state = (enum link_state)locate_link(l, ev->link)->state;
    if (state != LINK_UP) return state == LINK_DEAD ? MOYAI_EDEAD : MOYAI_EINVAL;
    int rc = receive(l, ev);
    if (rc == 0 && (ev->late > 0 || l->late)) heard_late(l, (uint64_t)ev->late, false, ev->now);
    return rc;
}

static int step_timeout(struct locate *l, const struct locate_event *ev) {
    moyai_ns now = ev->now;
    if (ev->late > 0) heard_late(l, (uint64_t)ev->late, true, now); /* what has come meanwhile lies there unread */
    if (now < l->due) return 0;
    l->due = UINT64_MAX; /* what stands sets it again */
    locate_look_timeout(l, now);
    locate_ask_timeout(l, now);
    locate_digest_timeout(l, now);
    return 0;
}

static int step_route_bad(struct locate *l, const struct locate_event *ev) {
    if (ev->link >= l->links) return MOYAI_EINVAL;
    locate_route_drop(l, ev->node.b, set_of(ev->link));
    return 0;
}

int locate_step(struct locate *l, const struct locate_event *ev) {
    switch (ev->kind) {
    case LOCATE_EV_LINK_UP:
        return step_link_up(l, ev);
    case LOCATE_EV_LINK_DOWN:
        return step_link_down(l, ev);
    case LOCATE_EV_COST:
        return step_cost(l, ev);
    case LOCATE_EV_RECEIVE:
        return step_receive(l, ev);
    case LOCATE_EV_LOOKUP:
    case LOCATE_EV_WAIT:
        return locate_look_step(l, ev);
    case LOCATE_EV_CANCEL:
        return locate_look_cancel(l, ev);
    case LOCATE_EV_NAME_ADD:
        return locate_name_add(l, ev);
    case LOCATE_EV_NAME_REMOVE:
        return locate_name_remove(l, ev);
    case LOCATE_EV_EVIDENCE:
        return step_evidence(l, ev);
    case LOCATE_EV_ROUTE_BAD:
        return step_route_bad(l, ev);
    case LOCATE_EV_LEAVE:
        return step_leave(l);
    case LOCATE_EV_TIMEOUT:
        return step_timeout(l, ev);
    }
    return MOYAI_EINVAL;
}

static bool next_corpse(struct locate *l, struct locate_effect *fx) {
    if (l->dead_tell == 0) return false;
    uint32_t i = 0;
    struct locate_corpse *c = locate_entry(l, &l->dead, 0);
    while (!c->tell) c = locate_entry(l, &l->dead, ++i);
    c->tell = 0;
    l->dead_tell--;
    *fx = (struct locate_effect){.kind = LOCATE_FX_EVIDENCE, .how = (enum locate_how)c->how};
    memcpy(fx->node.b, c->node, 16);
    return true;
}

bool locate_next(struct locate *l, struct locate_effect *fx) {
    return next_corpse(l, fx) || locate_look_next(l, fx);
}
