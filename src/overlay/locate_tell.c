/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames out: what is due on a link, in this order: answers and what else is short, evidence, changes of neighbours
 * and names, requests. A link has a rate; what must wait for it is merged with what comes after, or its time runs out.
 *
 * Changes go out at once if none has for delta_every, else gathered then: a node that comes up with fifteen links in a
 * tenth of a second is told of in a few frames, and a lost neighbour is no neighbour after one way over the link.
 */
#include "overlay/locate_ring.h"

/* Sending is paid for at the rate, in advance by as much as a burst (a "leaky bucket" kept as one time). */
static uint64_t pay(const struct locate *l) {
    return (uint64_t)MOYAI_SEC / l->rate;
}
static uint64_t paid_at(const struct locate *l, const struct locate_link *k) {
    uint64_t ahead = pay(l) * (l->burst - 1);
    return k->paid > ahead ? k->paid - ahead : 0;
}

/* What is to be asked by a link waits behind others there, for longer than a part of the shortest ring. */
static bool has_long_queue(const struct locate *l, uint32_t link, moyai_ns now) {
    const struct locate_link *k = locate_link(l, link);
    const uint64_t ahead = k->paid > now ? k->paid - now : 0, most = l->burst + l->ring_min / (4 * pay(l));
    uint64_t n = ahead / pay(l);
    for (uint32_t i = 0; i < l->requests.n && n <= most; i++) n += set_has(&locate_request(l, i)->send, link);
    return n > most;
}

bool locate_waits_long(const struct locate *l, const struct locate_request *r, moyai_ns now) {
    SET_EACH (i, r->send)
        if (has_long_queue(l, i, now)) return true;
    return false;
}

static void frame(struct locate_frame *out, enum locate_frame_kind kind, enum locate_key_kind key_kind,
                  const uint8_t *key) {
    memset(out, 0, offsetof(struct locate_frame, slots));
    out->kind = kind;
    out->key_kind = key_kind;
    if (key) memcpy(out->key, key, 16);
}

static uint32_t milliseconds(uint64_t span) {
    uint64_t ms = span / (uint64_t)MOYAI_MS; /* never more than there is */
    return ms < LOCATE_WAIT_MAX ? (uint32_t)ms : LOCATE_WAIT_MAX;
}

static bool pull_note(struct locate *l, uint32_t link, bool lost, struct locate_frame *out) {
    for (uint32_t i = 0; i < l->notes_n; i++) {
        const struct locate_note *n = &l->notes[i];
        if (n->link != link || (n->kind == LOCATE_LOST) != lost) continue;
        frame(out, (enum locate_frame_kind)n->kind, (enum locate_key_kind)n->key_kind, n->key);
        out->ttl = n->ttl;
        out->status = n->status;
        out->hops = n->hops;
        out->cost = n->cost;
        memcpy(out->owner, n->owner, 16);
        memcpy(out->object, n->object, 16);
        memcpy(out->dest, n->dest, 16);
        memmove(&l->notes[i], &l->notes[i + 1], (l->notes_n - i - 1) * sizeof *n);
        memset(&l->notes[--l->notes_n], 0, sizeof *n);
        return true;
    }
    return false;
}

/* What is asked on later than its asker thinks. */
static bool pull_slow(struct locate *l, uint32_t link, struct locate_frame *out) {
    for (uint32_t i = 0; i < l->requests.n; i++) {
        struct locate_request *r = locate_request(l, i);
        if (!set_has(&r->slow, link)) continue;
        set_del(&r->slow, link);
        frame(out, LOCATE_BUSY, (enum locate_key_kind)r->kind, r->key);
        return true;
    }
    return false;
}

/* An answer from memory is the older for it, so none lives for ever. */
static uint32_t age_of(const struct locate_request *r, moyai_ns now) {
    uint64_t age = (now - r->done_at) / (uint64_t)LOCATE_AGE + (r->flags & REQ_LATE ? 1 : 0);
    return age < UINT8_MAX ? (uint32_t)age : UINT8_MAX;
}

static bool pull_reply(struct locate *l, uint32_t link, moyai_ns now, struct locate_frame *out) {
    for (uint32_t i = 0; i < l->requests.n; i++) {
        struct locate_request *r = locate_request(l, i);
        if (!set_has(&r->reply, link)) continue;
        set_del(&r->reply, link);
        frame(out, LOCATE_REPLY, (enum locate_key_kind)r->kind, r->key);
        out->status = r->status;
        out->hops = r->hops;
        out->age = age_of(r, now);
        out->cost = r->cost;
        memcpy(out->owner, r->owner, 16);
        memcpy(out->object, r->object, 16);
        return true;
    }
    return false;
}

/* As many as there were requests, whose sender has paid for them: these do not wait for the rate, or who waits would
 * not know for what. */
static bool pull_answer(struct locate *l, uint32_t link, moyai_ns now, struct locate_frame *out) {
    if (!set_has(&l->answers, link)) return false;
    if (pull_note(l, link, false, out) || pull_reply(l, link, now, out) || pull_slow(l, link, out)) return true;
    set_del(&l->answers, link);
    return false;
}

static bool pull_evidence(struct locate *l, uint32_t link, moyai_ns now, struct locate_frame *out) {
    for (uint32_t i = 0; i < l->dead.n; i++) {
        struct locate_corpse *c = locate_entry(l, &l->dead, i);
        if (!set_has(&c->send, link)) continue;
        set_del(&c->send, link);
        if (c->until < locate_after(now, (uint64_t)MOYAI_MS)) continue;
        frame(out, LOCATE_EVIDENCE, LOCATE_NODE, c->node);
        out->how = c->how;
        out->ttl = c->ttl;
        out->wait = milliseconds(c->until - now);
        return true;
    }
    return false;
}

static void slot_put(struct locate_frame *out, uint32_t slot, const uint8_t *id, const uint8_t *object, uint32_t cost) {
    struct locate_slot *s = &out->slots[out->n++];
    *s = (struct locate_slot){.slot = slot, .cost = cost};
    if (id) memcpy(s->id, id, 16);
    if (object) memcpy(s->object, object, 16);
}

static void pull_neighbours(struct locate *l, struct locate_link *k, struct locate_frame *out) {
    frame(out, LOCATE_NEIGHBOURS, LOCATE_NODE, NULL);
    SET_EACH (i, k->dirty) {
        const struct locate_link *of = locate_link(l, i);
        bool up = !l->leaving && set_has(&l->up, i);
        slot_put(out, i, up ? of->node : NULL, NULL, up ? of->told_cost : 0);
        if (up) out->slots[out->n - 1].host = of->host;
        set_del(&k->dirty, i);
        if (out->n == LOCATE_SLOTS) break; /* the others in another frame */
    }
}

static const struct locate_name *name_in(const struct locate *l, uint32_t slot) {
    for (uint32_t i = 0; i < l->names.n; i++) {
        const struct locate_name *n = locate_entry(l, &l->names, i);
        if (n->slot == slot + 1) return n;
    }
    return NULL;
}

static void pull_names(struct locate *l, struct locate_link *k, struct locate_frame *out) {
    frame(out, LOCATE_NAMES, LOCATE_NAME, NULL);
    for (uint64_t left = k->names_dirty; left; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        const struct locate_name *n = name_in(l, i);
        slot_put(out, i, n ? n->name : NULL, n ? n->object : NULL, 0);
    }
    k->names_dirty = 0;
}

static bool pull_changes(struct locate *l, uint32_t link, moyai_ns now, struct locate_frame *out) {
    struct locate_link *k = locate_link(l, link);
    if (!locate_changed(k) || now < k->delta_at || now < k->linger_at) return false;
    if (set_any(k->dirty)) {
        pull_neighbours(l, k, out);
    } else {
        pull_names(l, k, out);
    }
    k->linger_at = 0;
    l->changed_at = 0;
    if (locate_changed(k)) return true;
    k->delta_at = locate_after(now, l->delta_every);
    set_del(&l->changed, link);
    return true;
}

/* All have their turn: were it always the first of the table, the others would wait until their time is over where the
 * link's rate is used up. `turn` is where the last one was found. */
static uint32_t place_of(const struct locate *l, uint32_t turn, uint32_t i) {
    const uint32_t n = l->requests.n, from = turn < n ? turn : 0;
    return from + i < n ? from + i : from + i - n;
}

static bool pull_request(struct locate *l, uint32_t link, moyai_ns now, struct locate_frame *out) {
    struct locate_link *k = locate_link(l, link);
    const uint32_t turn = k->request_turn;
    k->request_turn = 0;
    for (uint32_t i = 0; i < l->requests.n; i++) {
        const uint32_t place = place_of(l, turn, i);
        struct locate_request *r = locate_request(l, place);
        if (!set_has(&r->send, link)) continue;
        const bool last = locate_own_last(r) && now < r->ring_most;
        if (locate_own_last(r) && !last) r->flags |= REQ_UNSURE;
        if (last) locate_keep_until(l, r, locate_after(now, (uint64_t)MOYAI_MS)); /* it waits for this */
        bool direct = set_has(&r->direct, link), hint = set_has(&r->hint, link);
        bool few = hint && (r->flags & REQ_OWN) && r->ring == LOCATE_FEW_RING;
        set_del(&r->send, link);
        set_del(&r->direct, link);
        set_del(&r->hint, link);
        if (r->until < locate_after(now, (uint64_t)MOYAI_MS)) continue;
        if (hint && !r->hint_ttl) continue; /* it was for who has his answer, or had to wait too long */
        frame(out, LOCATE_REQUEST, (enum locate_key_kind)r->kind, r->key);
        out->ttl = direct ? 1 : hint ? r->hint_ttl : r->ttl;
        out->flags = direct ? LOCATE_DIRECT : few ? LOCATE_FEW : hint ? LOCATE_HINTED : 0u;
        if (!hint && (r->flags & REQ_FLOOD)) out->flags |= LOCATE_FLOOD;
        out->nonce = r->nonce;
        out->wait = milliseconds(r->until - now);
        if (last) r->ring_from = now; /* an answer takes as long from here */
        k->request_turn = place + 1;
        if (r->kind != LOCATE_CLAIM) return true;
        memcpy(out->owner, r->owner, 16);
        memcpy(out->object, r->object, 16);
        return true;
    }
    return false;
}

static bool pull_digest(struct locate *l, uint32_t link, struct locate_frame *out) {
    if (!set_has(&l->digest_send, link)) return false;
    set_del(&l->digest_send, link);
    frame(out, LOCATE_DIGESTED, LOCATE_NODE, NULL);
    memcpy(out->digest, locate_digest(l, l->links), LOCATE_DIGEST);
    return true;
}

bool locate_pull(struct locate *l, uint32_t link, moyai_ns now, struct locate_frame *out) {
    if (link >= l->links || !set_has(&l->up, link)) return false;
    struct locate_link *k = locate_link(l, link);
    if (pull_answer(l, link, now, out)) return true;
    if (now < paid_at(l, k)) return false;
    bool some = pull_note(l, link, true, out) || pull_evidence(l, link, now, out) || pull_changes(l, link, now, out) ||
                pull_request(l, link, now, out) || pull_digest(l, link, out);
    if (!some) set_del(&l->maybe, link);
    if (some) k->paid = locate_after(k->paid > now ? k->paid : now, pay(l));
    return some;
}

uint64_t locate_changes_at(const struct locate *l, uint32_t link) {
    const struct locate_link *k = locate_link(l, link);
    const uint64_t paid = paid_at(l, k), at = k->delta_at > k->linger_at ? k->delta_at : k->linger_at;
    return paid > at ? paid : at;
}

/* Of one that is in `maybe` or `changed`. */
static uint64_t ready_at(const struct locate *l, uint32_t link) {
    if (set_has(&l->answers, link)) return 0;
    return set_has(&l->maybe, link) ? paid_at(l, locate_link(l, link)) : locate_changes_at(l, link);
}

/* Changes wait for seconds while a grid comes up, on all links: these are not looked at in each turn. */
static locate_set to_look_at(struct locate *l, moyai_ns now) {
    if (!l->changed_at) {
        l->changed_at = UINT64_MAX;
        SET_EACH (i, l->changed) {
            uint64_t ready = locate_changes_at(l, i);
            if (ready < l->changed_at) l->changed_at = ready ? ready : 1;
        }
    }
    return l->changed_at <= now ? l->maybe | l->changed : l->maybe;
}

locate_set locate_ready(struct locate *l, moyai_ns now) {
    locate_set ready = SET_NONE;
    SET_EACH (i, to_look_at(l, now))
        if (ready_at(l, i) <= now) set_add(&ready, i);
    return ready;
}

moyai_ns locate_deadline(struct locate *l, moyai_ns now) {
    const locate_set some = to_look_at(l, now);
    uint64_t at = l->changed_at > now && l->changed_at < l->due ? l->changed_at : l->due;
    SET_EACH (i, some) {
        uint64_t ready = ready_at(l, i);
        if (ready > now && ready < at) at = ready;
    }
    return at;
}
