/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Own look-ups and waits, and the names registered here.
 *
 * A look-up that finds nothing in the tables shares the request for its key with all others here. Who comes when its
 * rings have begun (LATE) may have missed the first of them: what he looks for can have come after they went by. If
 * they end without an answer they begin anew for him.
 *
 * Names. Without a central place nobody can know that a name is free; but a name that is registered first and looked
 * for afterwards meets any other of which the same holds. So a registration is a *claim*: it answers other claims from
 * the moment it is made, and is made known as a name only when its own rings have met no better one. Held beats
 * claimed; of two claims, and of two held names (a partition has healed), the lower object id stands, and the other
 * owner is told. An object id, because an object keeps it where it moves: the same object at two nodes is one that
 * moves, and no conflict.
 */
#include "overlay/locate_look.h"

static struct locate_lookup *look_at(const struct locate *l, uint32_t i) {
    return locate_entry(l, &l->lookups, i);
}

static bool look_is(const struct locate_lookup *k, uint32_t kind, const uint8_t key[16]) {
    return k->kind == kind && id_equal(k->key, key) && !(k->flags & LOOK_DONE);
}

static void look_done(struct locate *l, struct locate_lookup *k, const struct locate_answer *a) {
    k->flags |= LOOK_DONE;
    l->done_n++;
    if (!a) return;
    memcpy(k->node, a->owner, 16);
    if (a->object) memcpy(k->object, a->object, 16);
    k->status = a->status;
    k->hops = a->hops;
    k->cost = a->cost;
}

/* --- look-ups ----------------------------------------------------------------------------------------- */

/* From all that is known: besides what others may be answered with, two links far and by a noted route. */
static bool known_here(struct locate *l, const struct locate_event *ev, struct locate_answer *a) {
    if (locate_table_answer(l, ev->key_kind, ev->key, NULL, ev->now, a)) return true;
    if (ev->key_kind != LOCATE_NODE) return false;
    struct moyai_node_id node;
    struct locate_hop hop;
    memcpy(node.b, ev->key, 16);
    if (!locate_route(l, &node, SET_NONE, ev->now, &hop)) return false;
    *a = (struct locate_answer){ev->key, NULL, LOCATE_ST_FOUND, hop.hops, (uint32_t)(hop.cost / MOYAI_US), 0};
    return true;
}

int locate_look_step(struct locate *l, const struct locate_event *ev) {
    bool wait = ev->kind == LOCATE_EV_WAIT;
    struct locate_answer a;
    if (id_zero(ev->key) || (unsigned)ev->key_kind >= LOCATE_CLAIM || (wait && ev->key_kind != LOCATE_NAME))
        return MOYAI_EINVAL;
    if (l->lookups.n == l->lookups.cap) return MOYAI_EAGAIN;
    bool known = known_here(l, ev, &a), late = false;
    if (!known) {
        const struct locate_request *r = locate_find_request(l, ev->key_kind, ev->key);
        late = r && (r->flags & REQ_OWN) && r->ring < LOCATE_RINGS;
        if (!locate_ask_own(l, ev->key_kind, ev->key, ev->lost, ev->now)) return MOYAI_EAGAIN;
    }
    struct locate_lookup *k = locate_append(l, &l->lookups);
    k->token = ev->token;
    k->kind = (uint8_t)ev->key_kind;
    memcpy(k->key, ev->key, 16);
    k->flags = (wait ? LOOK_WAIT : 0u) | (late ? LOOK_LATE : 0u);
    if (wait) k->until = ev->until;
    if (wait) locate_due(l, k->until);
    if (known) look_done(l, k, &a);
    return 0;
}

static bool look_any(const struct locate *l, uint32_t kind, const uint8_t key[16]) {
    for (uint32_t i = 0; i < l->lookups.n; i++)
        if (look_is(look_at(l, i), kind, key)) return true;
    return false;
}

int locate_look_cancel(struct locate *l, const struct locate_event *ev) {
    for (uint32_t i = 0; i < l->lookups.n; i++) {
        struct locate_lookup k = *look_at(l, i);
        if (k.token != ev->token) continue;
        if (k.flags & LOOK_DONE) l->done_n--;
        locate_cut(l, &l->lookups, look_at(l, i));
        if (!look_any(l, k.kind, k.key)) locate_ask_own_end(l, k.kind, k.key);
        return 0;
    }
    return MOYAI_EINVAL;
}

void locate_look_answered(struct locate *l, uint32_t kind, const uint8_t key[16], const struct locate_answer *a) {
    if (kind == LOCATE_CLAIM) {
        struct locate_name *n = locate_get(l, &l->names, key);
        if (n && n->state == NAME_CLAIMED) locate_name_lose(l, n, a->owner, a->object);
        return;
    }
    for (uint32_t i = 0; i < l->lookups.n; i++)
        if (look_is(look_at(l, i), kind, key)) look_done(l, look_at(l, i), a);
}

static void name_hold(struct locate *l, struct locate_name *n, moyai_ns now);

/* That nobody has answered says nothing where not all could be asked, or where what was said may not be here yet. */
enum look_left locate_look_ended(struct locate *l, uint32_t kind, const uint8_t key[16], bool held, moyai_ns now) {
    const bool late = locate_late(l, now) > l->ring_min / 4;
    enum look_left left = LOOK_NONE;
    if (kind == LOCATE_CLAIM) {
        struct locate_name *n = locate_get(l, &l->names, key);
        if (n && n->state == NAME_CLAIMED) name_hold(l, n, now);
        return LOOK_NONE;
    }
    for (uint32_t i = 0; i < l->lookups.n; i++) {
        struct locate_lookup *k = look_at(l, i);
        if (!look_is(k, kind, key)) continue;
        if (k->flags & LOOK_LATE) {
            left = LOOK_AGAIN;
            k->flags &= ~(uint32_t)LOOK_LATE;
        } else if (!(k->flags & (LOOK_WAIT | LOOK_TRIED)) && late) {
            left = LOOK_AGAIN; /* on a full machine the answer may have been given up on its way */
            k->flags |= LOOK_TRIED;
        } else if (!(k->flags & LOOK_WAIT)) {
            if (late || held) k->flags |= LOOK_UNSURE;
            look_done(l, k, NULL);
        } else if (left == LOOK_NONE) {
            left = LOOK_WAITING;
        }
    }
    return left;
}

uint64_t locate_look_wait(const struct locate *l, uint32_t kind, const uint8_t key[16]) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < l->lookups.n; i++) {
        const struct locate_lookup *k = look_at(l, i);
        if (look_is(k, kind, key) && k->until > last) last = k->until;
    }
    return last;
}

void locate_look_timeout(struct locate *l, moyai_ns now) {
    for (uint32_t i = 0; i < l->lookups.n; i++) {
        struct locate_lookup *k = look_at(l, i);
        if (!(k->flags & LOOK_WAIT) || (k->flags & LOOK_DONE)) continue;
        if (k->until > now) {
            locate_due(l, k->until);
            continue;
        }
        look_done(l, k, NULL);
        if (!look_any(l, k->kind, k->key)) locate_ask_own_end(l, k->kind, k->key);
    }
}

/* --- names -------------------------------------------------------------------------------------------- */

static void slot_changed(struct locate *l, uint32_t slot) {
    l->changed = l->up;
    l->changed_at = 0;
    SET_EACH (i, l->up) {
        locate_link(l, i)->names_dirty |= NAME_BIT(slot);
        locate_link(l, i)->linger_at = 0;
    }
}

static void slot_take(struct locate *l, struct locate_name *n) {
    uint64_t all = l->told == 64 ? UINT64_MAX : NAME_BIT(l->told) - 1, free = all & ~l->used_slots;
    if (!free) return; /* found by asking only */
    uint32_t slot = (uint32_t)__builtin_ctzll(free);
    n->slot = slot + 1;
    l->used_slots |= NAME_BIT(slot);
    slot_changed(l, slot);
}

/* The name is told no more; one that was not told takes its place. */
static void slot_leave(struct locate *l, struct locate_name *n) {
    if (!n->slot) return;
    uint32_t slot = n->slot - 1;
    n->slot = 0;
    l->used_slots &= ~NAME_BIT(slot);
    slot_changed(l, slot);
    for (uint32_t i = 0; i < l->names.n; i++) {
        struct locate_name *other = locate_entry(l, &l->names, i);
        if (other == n || other->state != NAME_HELD || other->slot) continue;
        slot_take(l, other);
        return;
    }
}

static void name_hold(struct locate *l, struct locate_name *n, moyai_ns now) {
    n->state = NAME_HELD;
    n->tell = 1;
    l->name_tell++;
    slot_take(l, n);
    locate_ask_came(l, LOCATE_NAME, n->name, now);
}

void locate_name_lose(struct locate *l, struct locate_name *n, const uint8_t owner[16], const uint8_t object[16]) {
    if (n->state == NAME_CLAIMED) locate_ask_own_end(l, LOCATE_CLAIM, n->name);
    slot_leave(l, n);
    n->state = NAME_LOST;
    memcpy(n->owner, owner, 16);
    memcpy(n->other, object, 16);
    if (!n->tell) l->name_tell++;
    n->tell = 1;
}

int locate_name_add(struct locate *l, const struct locate_event *ev) {
    struct locate_answer a;
    if (id_zero(ev->key) || id_zero(ev->object.b)) return MOYAI_EINVAL;
    if (locate_get(l, &l->names, ev->key)) return MOYAI_EEXIST;
    if (l->names.n == l->names.cap) return MOYAI_EAGAIN;
    bool taken = !ev->moved && locate_table_answer(l, LOCATE_CLAIM, ev->key, ev->object.b, ev->now, &a);
    if (!ev->moved && !taken) {
        int rc = locate_ask_claim(l, ev->key, ev->object.b, ev->now, &a);
        if (rc == MOYAI_EAGAIN) return rc;
        taken = rc != 0;
    }
    struct locate_name *n = locate_put(l, &l->names, ev->key);
    memcpy(n->object, ev->object.b, 16);
    if (ev->moved) name_hold(l, n, ev->now);
    if (taken) locate_name_lose(l, n, a.owner, a.object);
    return 0;
}

int locate_name_remove(struct locate *l, const struct locate_event *ev) {
    struct locate_name *n = locate_get(l, &l->names, ev->key);
    if (!n) return MOYAI_EINVAL;
    if (n->state == NAME_CLAIMED) locate_ask_own_end(l, LOCATE_CLAIM, n->name);
    slot_leave(l, n);
    if (n->tell) l->name_tell--;
    locate_cut(l, &l->names, n);
    return 0;
}

void locate_name_conflict(struct locate *l, const uint8_t name[16], const uint8_t owner_a[16],
                          const uint8_t object_a[16], const uint8_t owner_b[16], const uint8_t object_b[16],
                          moyai_ns now) {
    bool a_stands = id_cmp(object_a, object_b) < 0;
    struct locate_note n = {.kind = LOCATE_LOST, .ttl = LOCATE_LOST_TTL};
    struct moyai_node_id loser;
    struct locate_hop hop;
    memcpy(loser.b, a_stands ? owner_b : owner_a, 16);
    if (!locate_route(l, &loser, SET_NONE, now, &hop)) return; /* noticed again when somebody asks again */
    n.link = hop.link;
    memcpy(n.key, name, 16);
    memcpy(n.dest, loser.b, 16);
    memcpy(n.owner, a_stands ? owner_a : owner_b, 16);
    memcpy(n.object, a_stands ? object_a : object_b, 16);
    locate_note(l, &n);
}

/* A name held here is said to be held elsewhere by another object. */
static void name_meets(struct locate *l, struct locate_name *n, const uint8_t owner[16], const uint8_t object[16],
                       moyai_ns now) {
    if (n->state != NAME_HELD) return;
    int order = id_cmp(object, n->object);
    if (order < 0) locate_name_lose(l, n, owner, object);
    if (order > 0) locate_name_conflict(l, n->name, l->self, n->object, owner, object, now);
}

int locate_name_lost(struct locate *l, const struct locate_event *ev) {
    const struct locate_frame *f = ev->frame;
    if (f->ttl < 1 || f->ttl > LOCATE_LOST_TTL || id_zero(f->key) || id_zero(f->dest) || id_zero(f->owner) ||
        id_zero(f->object))
        return MOYAI_EPROTO;
    if (id_equal(f->dest, l->self)) {
        struct locate_name *n = locate_get(l, &l->names, f->key);
        if (n && n->state == NAME_HELD && id_cmp(f->object, n->object) < 0) locate_name_lose(l, n, f->owner, f->object);
        return 0;
    }
    struct locate_note n = {.kind = LOCATE_LOST, .ttl = f->ttl - 1};
    struct moyai_node_id dest;
    struct locate_hop hop;
    memcpy(dest.b, f->dest, 16);
    if (n.ttl == 0 || !locate_route(l, &dest, set_of(ev->link), ev->now, &hop)) return 0;
    n.link = hop.link;
    memcpy(n.key, f->key, 16);
    memcpy(n.dest, f->dest, 16);
    memcpy(n.owner, f->owner, 16);
    memcpy(n.object, f->object, 16);
    locate_note(l, &n);
    return 0;
}

/* A neighbour's name has come: who waits for it is answered; who else has it may have to be told. */
static void known_came(struct locate *l, const struct locate_slot *s, const struct locate_event *ev) {
    const uint8_t *owner = locate_link(l, ev->link)->node;
    struct locate_name *n = locate_get(l, &l->names, s->id);
    if (n) name_meets(l, n, owner, s->object, ev->now);
    SET_EACH (i, l->up & ~set_of(ev->link)) {
        const struct locate_known *known = locate_known(l, i);
        for (uint32_t k = 0; k < l->told; k++)
            if (id_equal(known[k].name, s->id) && !id_equal(known[k].object, s->object))
                locate_name_conflict(l, s->id, owner, s->object, locate_link(l, i)->node, known[k].object, ev->now);
    }
    locate_ask_came(l, LOCATE_NAME, s->id, ev->now);
}

int locate_names_receive(struct locate *l, const struct locate_event *ev) {
    const struct locate_frame *f = ev->frame;
    if (f->n == 0 || f->n > LOCATE_SLOTS) return MOYAI_EPROTO;
    for (uint32_t i = 0; i < f->n; i++)
        if (f->slots[i].slot >= LOCATE_TOLD || id_zero(f->slots[i].id) != id_zero(f->slots[i].object))
            return MOYAI_EPROTO;
    struct locate_known *known = locate_known(l, ev->link);
    uint32_t news = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct locate_slot *s = &f->slots[i];
        if (s->slot >= l->told) continue; /* found by asking */
        news += !id_equal(known[s->slot].name, s->id);
        l->near_n += !id_zero(s->id);
        l->near_n -= !id_zero(known[s->slot].name);
        memcpy(known[s->slot].name, s->id, 16);
        memcpy(known[s->slot].object, s->object, 16);
    }
    for (uint32_t i = 0; i < f->n; i++)
        if (f->slots[i].slot < l->told && !id_zero(f->slots[i].id)) known_came(l, &f->slots[i], ev);
    locate_digest_news(l, news, ev->now);
    return 0;
}

/* --- effects ------------------------------------------------------------------------------------------ */

static bool next_look(struct locate *l, struct locate_effect *fx) {
    if (l->done_n == 0) return false;
    uint32_t i = l->lookups.n - 1;
    while (!(look_at(l, i)->flags & LOOK_DONE)) i--;
    const struct locate_lookup *k = look_at(l, i);
    *fx = (struct locate_effect){.token = k->token, .hops = k->hops, .cost = (moyai_dur)k->cost * MOYAI_US};
    memcpy(fx->key, k->key, 16);
    memcpy(fx->node.b, k->node, 16);
    memcpy(fx->object.b, k->object, 16);
    fx->kind = k->status == LOCATE_ST_FOUND ? LOCATE_FX_FOUND : k->status ? LOCATE_FX_DEAD : LOCATE_FX_NOT_FOUND;
    fx->unsure = k->flags & LOOK_UNSURE;
    if (fx->kind == LOCATE_FX_DEAD) fx->how = (enum locate_how)locate_how_of(k->status);
    l->done_n--;
    locate_cut(l, &l->lookups, look_at(l, i));
    return true;
}

static bool next_name(struct locate *l, struct locate_effect *fx) {
    if (l->name_tell == 0) return false;
    uint32_t i = 0;
    struct locate_name *n = locate_entry(l, &l->names, 0);
    while (!n->tell) n = locate_entry(l, &l->names, ++i);
    *fx = (struct locate_effect){.kind = n->state == NAME_LOST ? LOCATE_FX_NAME_LOST : LOCATE_FX_NAME_HELD};
    memcpy(fx->key, n->name, 16);
    memcpy(fx->node.b, n->owner, 16);
    memcpy(fx->object.b, n->state == NAME_LOST ? n->other : n->object, 16);
    n->tell = 0;
    l->name_tell--;
    if (n->state == NAME_LOST) locate_cut(l, &l->names, n);
    return true;
}

bool locate_look_next(struct locate *l, struct locate_effect *fx) {
    return next_look(l, fx) || next_name(l, fx);
}
