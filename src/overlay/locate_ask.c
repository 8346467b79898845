/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests, everybody's, and the answers on their way back.
 *
 * Idea. A request floods a ring: each node that cannot answer passes it on over all links but the one it came by, with
 * one less to go. As long as it is outstanding here, whoever else asks for the same key becomes an asker of this one.
 * That must not leave anybody without an answer, and it should not send every answer everywhere. So:
 *
 *  - A request carries the number of who began it (`nonce`). Coming back around a circle with the same number it is an
 *    echo, and its sender has its own way to the beginning: no asker. A lone look-up is thus a tree, and the answer
 *    takes one branch of it.
 *  - Where two meet, the second sender becomes an asker. If both are last rings, the entry becomes that of several
 *    (nonce 0), which is told to all links, once: by nonce 0 every neighbour takes this node for an asker whatever it
 *    knew. Then each node of the meeting floods asks all its neighbours, those nearer to the answer among them; so each
 *    gets it, by induction over the distance. That costs one more frame a link and direction, however many ask. Who
 *    meets before the last ring may be left without an answer, and asks again: mostly he has it by then from the other.
 *  - A node with one asker does not ask him; with more it asks all of them too: for each, the others may be the way.
 *  - Who loses a link by which he has asked asks all others, as one of several.
 *
 * An outstanding request is enough for another if it goes as far (ttl), and if at least half of the time that the
 * other wants to wait is left; else it is sent on once more, as far and for as long as the other says. So requests
 * die out: beyond the time of whoever began, an entry can live only by one that had a higher ttl, which has nobody
 * to live by. This holds as the time on the way is counted, also where a full machine lets frames lie.
 *
 * Claims of different objects are not aggregated: of two that meet the better one (lower object) goes on, and who asked
 * for the other is told.
 */
#include "overlay/locate_ring.h"

#define REPLY_HOPS_MAX 64 /* more than any ring: it has gone round, and goes no further */
struct locate_request *locate_find_request(const struct locate *l, uint32_t kind, const uint8_t key[16]) {
    uint8_t k[17] = {(uint8_t)kind};
    memcpy(k + 1, key, 16);
    return locate_get(l, &l->requests, k);
}

/* --- the table --------------------------------------------------------------------------------------- */

void locate_keep_until(struct locate *l, struct locate_request *r, uint64_t until) {
    if (until > r->until) r->until = until;
    if (r->until < l->sweep) l->sweep = r->until;
}

void locate_ask_sweep(struct locate *l, moyai_ns now) {
    if (now < l->sweep) return;
    l->sweep = UINT64_MAX;
    for (uint32_t i = l->requests.n; i > 0; i--) {
        struct locate_request *r = locate_request(l, i - 1);
        if (r->until <= now && !(r->flags & REQ_OWN)) {
            locate_cut(l, &l->requests, r);
        } else if (r->until < l->sweep && !(r->flags & REQ_OWN)) {
            l->sweep = r->until;
        }
    }
}

/* Of those that have been answered, the one that was first. */
static struct locate_request *oldest_done(const struct locate *l) {
    struct locate_request *oldest = NULL;
    for (uint32_t i = 0; i < l->requests.n; i++) {
        struct locate_request *r = locate_request(l, i);
        if ((r->flags & REQ_DONE) && !set_any(r->reply) && (!oldest || r->done_at < oldest->done_at)) oldest = r;
    }
    return oldest;
}

/* Others' requests leave a quarter of the table to our own. NULL: no room. */
struct locate_request *locate_request_put(struct locate *l, uint32_t kind, const uint8_t key[16], bool own,
                                          moyai_ns now) {
    uint8_t k[17] = {(uint8_t)kind};
    uint32_t most = own ? l->requests.cap : l->requests.cap - l->requests.cap / 4;
    uint64_t sweep = l->sweep;
    memcpy(k + 1, key, 16);
    locate_ask_sweep(l, now);
    if (l->requests.n >= most) {
        struct locate_request *r = oldest_done(l);
        if (!r) l->sweep = sweep; /* nothing has happened */
        if (!r) return NULL;
        locate_cut(l, &l->requests, r);
    }
    return locate_put(l, &l->requests, k);
}

void locate_request_clear(struct locate_request *r) {
    struct locate_request fresh = {.kind = r->kind};
    memcpy(fresh.key, r->key, 16);
    *r = fresh;
}

/* Nothing depends on it but echoes and those who ask late. */
bool locate_request_over(const struct locate_request *r, moyai_ns now) {
    return !(r->flags & REQ_OWN) && ((r->flags & REQ_DONE) || r->until <= now);
}

/* --- answering --------------------------------------------------------------------------------------- */

static bool known_answer(const struct locate *l, const uint8_t key[16], const uint8_t *claim, struct locate_answer *a) {
    bool found = false;
    SET_EACH (i, l->up) {
        const struct locate_known *known = locate_known(l, i);
        for (uint32_t k = 0; k < l->told; k++) {
            if (!id_equal(known[k].name, key) || id_zero(known[k].object)) continue;
            if (claim && id_equal(known[k].object, claim)) continue; /* the object moves, its name with it */
            if (found && id_cmp(a->object, known[k].object) <= 0) continue;
            const struct locate_link *link = locate_link(l, i);
            *a = (struct locate_answer){link->node, known[k].object, LOCATE_ST_FOUND, 1, link->cost, 0};
            found = true;
        }
    }
    return found;
}

static bool name_answer(const struct locate *l, const uint8_t key[16], const uint8_t *claim, struct locate_answer *a) {
    const struct locate_name *n = locate_get(l, &l->names, key);
    if (n && n->state == NAME_HELD && !(claim && id_equal(n->object, claim))) {
        *a = (struct locate_answer){l->self, n->object, LOCATE_ST_FOUND, 0, 0, 0};
        return true;
    }
    if (known_answer(l, key, claim, a)) return true;
    if (!claim || !n || n->state != NAME_CLAIMED || id_cmp(n->object, claim) >= 0) return false;
    *a = (struct locate_answer){l->self, n->object, LOCATE_ST_CLAIMED, 0, 0, 0};
    return true;
}

bool locate_table_answer(const struct locate *l, uint32_t kind, const uint8_t key[16], const uint8_t *claim,
                         moyai_ns now, struct locate_answer *a) {
    uint32_t how;
    if (kind != LOCATE_NODE) return name_answer(l, key, claim, a);
    if (locate_is_dead(l, key, now, &how)) {
        *a = (struct locate_answer){key, NULL, locate_status_of(how), 0, 0, 0};
        return true;
    }
    if (id_equal(key, l->self)) {
        *a = (struct locate_answer){l->self, NULL, LOCATE_ST_FOUND, 0, 0, 0};
        return true;
    }
    bool found = false;
    SET_EACH (i, l->up) {
        const struct locate_link *link = locate_link(l, i);
        if (!id_equal(link->node, key) || (found && a->cost <= link->cost)) continue;
        *a = (struct locate_answer){link->node, NULL, LOCATE_ST_FOUND, 1, link->cost, 0};
        found = true;
    }
    return found;
}

static void answer_store(struct locate_request *r, const struct locate_answer *a) {
    memcpy(r->owner, a->owner, 16);
    memset(r->object, 0, 16);
    if (a->object) memcpy(r->object, a->object, 16);
    r->status = a->status;
    r->hops = a->hops;
    r->cost = a->cost;
}

/* Where frames come late, answers are older when they come. */
static uint64_t fresh_for(const struct locate *l, moyai_ns now) {
    uint64_t late = 2 * locate_late(l, now);
    return late < 2 * l->fresh ? l->fresh + late : 3 * l->fresh;
}

static void request_done(struct locate *l, struct locate_request *r, uint64_t age, moyai_ns now) {
    uint64_t nonce = r->nonce; /* its echoes may still come */
    if (r->flags & REQ_OWN) locate_own_end(l, r);
    r->nonce = nonce;
    r->flags |= REQ_DONE;
    r->flags &= ~(uint32_t)(REQ_LEADS | REQ_LED);
    r->askers = r->asked = r->send = r->direct = r->hint = r->slow = r->busy = SET_NONE;
    r->busy_at = 0;
    r->done_at = now > age ? now - age : 0;
    locate_keep_until(l, r, locate_after(now, fresh_for(l, now)));
}

/* A claim has one asker as a rule; more than there is room for notes ask again. */
static void claim_reply(struct locate *l, const uint8_t key[16], locate_set to, const struct locate_answer *a) {
    SET_EACH (i, to) {
        struct locate_note n = {.kind = LOCATE_REPLY,
                                .link = i,
                                .key_kind = LOCATE_CLAIM,
                                .status = a->status,
                                .hops = a->hops,
                                .cost = a->cost};
        memcpy(n.key, key, 16);
        memcpy(n.owner, a->owner, 16);
        memcpy(n.object, a->object, 16);
        locate_note(l, &n);
    }
}

void locate_ask_answer(struct locate *l, struct locate_request *r, const struct locate_answer *a, locate_set except,
                       moyai_ns now) {
    locate_set to = r->askers & ~except;
    bool own = r->flags & REQ_OWN;
    if (r->kind == LOCATE_CLAIM) {
        claim_reply(l, r->key, to, a);
    } else {
        answer_store(r, a);
        r->reply |= to;
        l->maybe |= to;
        l->answers |= to;
    }
    request_done(l, r, a->age * (uint64_t)LOCATE_AGE, now);
    if (own) locate_look_answered(l, r->kind, r->key, a);
}

/* One whose time is over stays in the table until there is another: an answer that comes late still serves who waits
 * on. But not for ever: what has come long after is no answer to it. */
static struct locate_request *find_live(const struct locate *l, uint32_t kind, const uint8_t key[16], moyai_ns now) {
    struct locate_request *r = locate_find_request(l, kind, key);
    return r && !(r->flags & REQ_OWN) && locate_after(r->until, l->ring_max) <= now ? NULL : r;
}

void locate_ask_came(struct locate *l, uint32_t kind, const uint8_t key[16], moyai_ns now) {
    struct locate_answer a;
    struct locate_request *r = find_live(l, kind, key, now);
    if (r && !(r->flags & REQ_DONE) && locate_table_answer(l, kind, key, NULL, now, &a))
        locate_ask_answer(l, r, &a, SET_NONE, now);
    if (kind != LOCATE_NAME) return;
    r = find_live(l, LOCATE_CLAIM, key, now);
    if (r && !(r->flags & REQ_DONE) && locate_table_answer(l, LOCATE_CLAIM, key, r->object, now, &a))
        locate_ask_answer(l, r, &a, SET_NONE, now);
}

/* --- REQUEST ----------------------------------------------------------------------------------------- */

static bool request_right(const struct locate_frame *f) {
    if ((unsigned)f->key_kind > LOCATE_CLAIM || f->ttl < 1 || f->wait == 0 || id_zero(f->key)) return false;
    if (f->ttl > locate_ttl_most(f->key_kind, f->flags & LOCATE_FLOOD)) return false;
    uint32_t hint = f->flags & (uint32_t)(LOCATE_HINTED | LOCATE_FEW);
    if (f->flags & ~(uint32_t)(LOCATE_DIRECT | LOCATE_FLOOD | LOCATE_HINTED | LOCATE_FEW)) return false;
    if (hint && (f->flags != hint || hint == (LOCATE_HINTED | LOCATE_FEW) || f->key_kind == LOCATE_CLAIM)) return false;
    if (f->key_kind != LOCATE_CLAIM) return true;
    return !id_zero(f->owner) && !id_zero(f->object) && !(f->flags & LOCATE_DIRECT);
}

static void say_busy(struct locate *l, const struct locate_event *ev) {
    struct locate_note n = {.kind = LOCATE_BUSY, .link = ev->link, .key_kind = ev->frame->key_kind};
    memcpy(n.key, ev->frame->key, 16);
    locate_note(l, &n);
}

/* It will be answered, and asked on, but not as soon as its asker thinks. */
static void say_slow(struct locate *l, struct locate_request *r, const struct locate_event *ev) {
    if (!set_has(&r->askers, ev->link) || !locate_waits_long(l, r, ev->now)) return;
    set_add(&r->slow, ev->link);
    set_add(&l->maybe, ev->link);
    set_add(&l->answers, ev->link);
}

/* What we know ourselves is said at once: the answer stays in the table until it is sent. */
static int answer_at_once(struct locate *l, struct locate_request *r, const struct locate_event *ev,
                          const struct locate_answer *a) {
    const struct locate_frame *f = ev->frame;
    if (!r) r = locate_request_put(l, f->key_kind, f->key, false, ev->now);
    if (!r) {
        say_busy(l, ev);
        return 0;
    }
    if (r->flags & REQ_DONE) {
        answer_store(r, a);
        r->done_at = ev->now;
        r->flags &= ~(uint32_t)REQ_LATE;
        set_add(&r->reply, ev->link);
        locate_keep_until(l, r, locate_after(ev->now, fresh_for(l, ev->now)));
        set_add(&l->maybe, ev->link);
        set_add(&l->answers, ev->link);
        return 0;
    }
    set_add(&r->askers, ev->link);
    locate_ask_answer(l, r, a, SET_NONE, ev->now);
    return 0;
}

/* It is of a last ring, and one has gone on from here. */
static bool flooded(const struct locate_request *r, const struct locate_event *ev) {
    return (ev->frame->flags & LOCATE_FLOOD) && (r->flags & REQ_FLOOD) && r->until > ev->now;
}

static bool only_by_sender(const struct locate *l, const struct locate_request *r, const struct locate_event *ev) {
    return locate_route_best(l, r->owner, SET_NONE, ev->now) &&
           !locate_route_best(l, r->owner, set_of(ev->link), ev->now);
}

/*
 * It has been answered just now, and the way that the answer came is still there: the same answer. It says how old it
 * is: else nodes that ask each other in turn would keep an answer alive for ever, whose hops rise with each round.
 */
static bool answer_late(struct locate *l, struct locate_request *r, const struct locate_event *ev) {
    uint64_t serves = fresh_for(l, ev->now);
    /* Who asks in a last ring has done so for that long, at most: the answer is not older than what he asks. */
    if (flooded(r, ev)) serves += LOCATE_LATE_RINGS * l->ring_max;
    if (ev->now >= locate_after(r->done_at, serves) || r->status != LOCATE_ST_FOUND) return false;
    const struct locate_alt *alt = locate_route_best(l, r->owner, set_of(ev->link), ev->now);
    if (!alt) return false;
    r->hops = alt->hops;
    r->cost = alt->cost;
    r->flags |= REQ_LATE;
    set_add(&r->reply, ev->link);
    set_add(&l->maybe, ev->link);
    set_add(&l->answers, ev->link);
    return true;
}

/* How long the frame was on its way. */
static uint64_t way_of(const struct locate *l, const struct locate_event *ev) {
    return locate_link(l, ev->link)->cost / 2 * (uint64_t)MOYAI_US + (uint64_t)ev->late;
}

/* Its asker waits no more. A full machine takes long to read what has come: were it passed on then, copies would come
 * after the first one has been forgotten, each begin anew, and keep the machine full for ever. */
static bool too_late(const struct locate *l, const struct locate_event *ev) {
    return ev->late > 0 && ev->frame->wait * (uint64_t)MOYAI_MS < way_of(l, ev) + (uint64_t)MOYAI_MS;
}

/* When the asker's time is over: what the frame was on its way is counted. */
static uint64_t asked_until(const struct locate *l, const struct locate_event *ev) {
    uint64_t wait = ev->frame->wait < LOCATE_WAIT_MAX ? ev->frame->wait : LOCATE_WAIT_MAX;
    uint64_t way = way_of(l, ev);
    wait *= (uint64_t)MOYAI_MS;
    return locate_after(ev->now, wait > way ? wait - way : 1);
}

/*
 * A request for hints is asked on once, whoever else asks, and not where a flood has gone on already, which reaches
 * farther. So of those who look for one thing at one time each asks a few, and waits for whom he has asked.
 */
static void join_hints(struct locate *l, struct locate_request *r, const struct locate_event *ev) {
    const struct locate_frame *f = ev->frame;
    uint64_t until = asked_until(l, ev);
    bool few = f->flags & LOCATE_FEW, alone = !(r->flags & REQ_OWN) && r->ttl == 0;
    bool echo = f->nonce && f->nonce == r->nonce;
    bool farther = few && !(r->flags & REQ_FEW), longer = !echo && r->until < ev->now + (until - ev->now) / 2;
    if (echo && !(alone && farther)) return;
    if (r->until == 0)
        r->nonce = f->nonce;
    else if (longer && alone)
        r->nonce = 0;
    set_add(&r->askers, ev->link);
    r->flags |= REQ_CROWD;
    locate_keep_until(l, r, until);
    if (!alone || !(farther || longer)) return;
    if (few) r->flags |= REQ_FEW;
    r->hint_ttl = f->ttl - 1;
    locate_spread_anew(l, r);
}

/*
 * The flood of a claim has more links to go than it must reach, so that a copy that has come by many short links need
 * not be followed by those that come by fewer: where it has gone on for the rest of what is promised, it is not sent
 * again. (That of a look-up is: its answer shows a way, of which only so many links may be used.)
 */
static bool goes_enough(const struct locate_request *r) {
    return r->kind == LOCATE_CLAIM && r->ttl >= LOCATE_REACH - 1;
}

/* Take the asker in; whether to ask further. `r` is new (zero) or outstanding. */
static void join(struct locate *l, struct locate_request *r, const struct locate_event *ev) {
    const struct locate_frame *f = ev->frame;
    uint64_t until = asked_until(l, ev);
    bool own = r->flags & REQ_OWN, fresh = r->until == 0, flood = f->flags & LOCATE_FLOOD;
    bool first = fresh || !(r->flags & REQ_FLOOD), echo = !fresh && f->nonce && f->nonce == r->nonce;
    uint32_t ttl = f->ttl - 1;
    bool farther = (first && flood) || (ttl > r->ttl && !goes_enough(r));
    bool longer = !echo && r->until < ev->now + (until - ev->now) / 2;
    if (echo && (own || !farther)) return;
    bool meets = flood && !first && !echo && !own && r->nonce, further = farther || longer || meets;
    if (fresh || (!own && farther && first)) {
        r->nonce = f->nonce;
    } else if (!own && !echo && further) {
        r->nonce = 0;
    }
    if (fresh && r->kind == LOCATE_CLAIM) {
        memcpy(r->owner, f->owner, 16);
        memcpy(r->object, f->object, 16);
    }
    /* The sender of such an echo is nearer to the beginning than the one before. */
    if (echo && !locate_several(r)) r->askers = SET_NONE;
    set_add(&r->askers, ev->link);
    /* Who asks for longer asks no farther than he says: else requests could keep one another alive. */
    if (longer || (further && ttl > r->ttl)) r->ttl = ttl;
    if (flood) r->flags |= REQ_FLOOD;
    if (!own && !(r->flags & REQ_LEADS))
        r->hint_ttl = locate_by_hints(l, r) && !flood ? LOCATE_HINT_TTL - 1 : 0; /* where the flood ends */
    if (further) {
        locate_keep_until(l, r, until);
        if (until > r->others_until) r->others_until = until;
        if (!locate_lead(l, r, ev->now)) locate_spread_anew(l, r);
    } else if (!r->nonce) { /* he who was the only asker */
        locate_spread(l, r);
    }
}

/* Of two claims the one of the lower object goes on. True: it is not this one, or it is known. */
static bool claim_beaten(struct locate *l, struct locate_request *r, const struct locate_event *ev) {
    const struct locate_frame *f = ev->frame;
    int order = id_cmp(r->object, f->object);
    if (order == 0) return false;
    struct locate_answer a = {f->owner, f->object, LOCATE_ST_CLAIMED, 0, 0, 0};
    if (order < 0) {
        a.owner = r->owner;
        a.object = r->object;
        claim_reply(l, f->key, set_of(ev->link), &a);
        return true;
    }
    claim_reply(l, f->key, r->askers & ~set_of(ev->link), &a);
    locate_request_clear(r);
    return false;
}

/* It asks on along hints only, and there is none. */
static bool no_hint(const struct locate *l, const struct locate_event *ev) {
    const struct locate_frame *f = ev->frame;
    struct locate_hop hop;
    locate_set to = l->up & ~set_of(ev->link);
    if (!(f->flags & LOCATE_HINTED)) return false;
    if (f->key_kind == LOCATE_NODE && locate_near_find(l, f->key, to, &hop)) return false;
    if (locate_memo_hint(l, f->key_kind, f->key, to, &hop)) return false;
    return f->ttl == 1 || !set_any(locate_digest_find(l, f->key, to));
}

static int receive_claim(struct locate *l, const struct locate_event *ev) {
    const struct locate_frame *f = ev->frame;
    struct locate_answer a;
    if (locate_table_answer(l, LOCATE_CLAIM, f->key, f->object, ev->now, &a)) {
        claim_reply(l, f->key, set_of(ev->link), &a);
        return 0;
    }
    struct locate_name *n = locate_get(l, &l->names, f->key);
    if (n && n->state == NAME_CLAIMED && !id_equal(n->object, f->object)) locate_name_lose(l, n, f->owner, f->object);
    struct locate_request *r = locate_find_request(l, LOCATE_CLAIM, f->key);
    if (r && (r->flags & REQ_DONE) && f->nonce == r->nonce && f->ttl - 1 <= r->ttl) return 0; /* an echo */
    if (r && locate_request_over(r, ev->now)) locate_request_clear(r);
    if (r && r->until && claim_beaten(l, r, ev)) return 0;
    if (!r) r = locate_request_put(l, LOCATE_CLAIM, f->key, false, ev->now);
    if (!r) {
        say_busy(l, ev);
        return 0;
    }
    join(l, r, ev);
    say_slow(l, r, ev);
    return 0;
}

/* An own claim, of which nothing is known in the tables. 0; EAGAIN; EEXIST: a better one is under way, which *a names.
 */
int locate_ask_claim(struct locate *l, const uint8_t key[16], const uint8_t object[16], moyai_ns now,
                     struct locate_answer *a) {
    struct locate_request *r = locate_find_request(l, LOCATE_CLAIM, key);
    if (r && !locate_request_over(r, now) && !id_equal(r->object, object)) {
        if (id_cmp(r->object, object) < 0) {
            *a = (struct locate_answer){r->owner, r->object, LOCATE_ST_CLAIMED, 0, 0, 0};
            return MOYAI_EEXIST;
        }
        const struct locate_answer ours = {l->self, object, LOCATE_ST_CLAIMED, 0, 0, 0};
        claim_reply(l, key, r->askers, &ours);
        locate_request_clear(r);
    }
    r = locate_ask_own(l, LOCATE_CLAIM, key, false, now);
    if (!r) return MOYAI_EAGAIN;
    memcpy(r->owner, l->self, 16);
    memcpy(r->object, object, 16);
    return 0;
}

/* Who leaves answers for himself. What he knows of others leads by him, and what he would ask for them, too. */
static bool of_itself(const struct locate *l, const struct locate_frame *f) {
    if (f->key_kind == LOCATE_NODE) return id_equal(f->key, l->self);
    return locate_get(l, &l->names, f->key);
}

/* Of what has been answered here, and goes no farther than it went then. */
static bool idle_echo(const struct locate_request *r, const struct locate_event *ev) {
    const struct locate_frame *f = ev->frame;
    return r && (r->flags & REQ_DONE) && r->until > ev->now && f->nonce && f->nonce == r->nonce &&
           ((f->flags & LOCATE_HINTED) || f->ttl - 1 <= r->ttl);
}

int locate_ask_receive(struct locate *l, const struct locate_event *ev) {
    const struct locate_frame *f = ev->frame;
    struct locate_answer a;
    if (!request_right(f)) return MOYAI_EPROTO;
    if (too_late(l, ev) || (l->leaving && !of_itself(l, f))) return 0;
    if (f->key_kind == LOCATE_CLAIM) return receive_claim(l, ev);
    struct locate_request *r = locate_find_request(l, f->key_kind, f->key);
    /* Who asks for a node has no way to it; but an echo may be of one that has it from another meanwhile. */
    if (f->key_kind == LOCATE_NODE && !idle_echo(r, ev)) locate_route_drop(l, f->key, set_of(ev->link));
    bool known = locate_table_answer(l, f->key_kind, f->key, NULL, ev->now, &a);
    if (!known && (f->flags & LOCATE_DIRECT)) return 0;
    bool over = r && r->until <= ev->now && !(r->flags & REQ_OWN);
    /* Whom digests call near to a node may have just lost it, and hear soon that it is dead: they remember who asked.
     */
    if (!known && (!r || over) && f->key_kind != LOCATE_NODE && no_hint(l, ev)) return 0;
    if (over) locate_request_clear(r);
    if (known) return answer_at_once(l, r, ev, &a);
    if (r && (r->flags & REQ_DONE)) {
        bool echo = f->nonce && f->nonce == r->nonce;
        if (echo && ((f->flags & LOCATE_HINTED) || f->ttl - 1 <= r->ttl)) return 0;
        /* An echo that goes farther comes from nearer to the beginning: the answer has missed its sender. */
        if (answer_late(l, r, ev)) {
            if (echo) r->ttl = f->ttl - 1;
            return 0;
        }
        if (!echo && no_hint(l, ev)) return 0;
        /* The way leads by its sender, who is nearer. Were it asked on, floods of many would not end: each node that
         * begins anew makes those behind it begin anew. */
        if (flooded(r, ev) && f->ttl - 1 <= r->ttl && only_by_sender(l, r, ev)) return 0;
        locate_request_clear(r);
    }
    if (!r) r = locate_request_put(l, f->key_kind, f->key, false, ev->now);
    if (!r) {
        say_busy(l, ev);
        return 0;
    }
    if (f->flags & (LOCATE_HINTED | LOCATE_FEW))
        join_hints(l, r, ev);
    else
        join(l, r, ev);
    say_slow(l, r, ev);
    return 0;
}

/* --- REPLY, BUSY -------------------------------------------------------------------------------------- */

static bool reply_right(const struct locate_frame *f) {
    bool node = f->key_kind == LOCATE_NODE, claim = f->key_kind == LOCATE_CLAIM;
    if ((unsigned)f->key_kind > LOCATE_CLAIM || id_zero(f->key) || id_zero(f->owner)) return false;
    if (f->hops > REPLY_HOPS_MAX || node != id_zero(f->object) || (claim && f->age)) return false;
    switch (f->status) {
    case LOCATE_ST_FOUND:
        return !node || id_equal(f->owner, f->key);
    case LOCATE_ST_DEAD:
    case LOCATE_ST_LEFT:
    case LOCATE_ST_CLEARED:
        return node && id_equal(f->owner, f->key);
    case LOCATE_ST_CLAIMED:
        return claim;
    default:
        return false;
    }
}

static int claim_answered(struct locate *l, struct locate_request *r, const struct locate_event *ev,
                          const struct locate_answer *a) {
    if (r->flags & REQ_DONE) return 0;
    int order = id_cmp(a->object, r->object);
    if (order == 0 || (order > 0 && a->status == LOCATE_ST_CLAIMED)) return 0;
    locate_ask_answer(l, r, a, set_of(ev->link), ev->now);
    return 0;
}

int locate_ask_reply(struct locate *l, const struct locate_event *ev) {
    const struct locate_frame *f = ev->frame;
    if (!reply_right(f)) return MOYAI_EPROTO;
    const uint32_t how = locate_how_of(f->status);
    if (how) {
        locate_bury(l, f->key, how, 0, l->keep, SET_NONE, true, ev->now);
        return 0;
    }
    if (f->hops == REPLY_HOPS_MAX || locate_is_dead(l, f->owner, ev->now, NULL) || id_equal(f->owner, l->self))
        return 0;
    struct locate_request *r = find_live(l, f->key_kind, f->key, ev->now);
    if (!r) return 0;
    const struct locate_answer a = {f->owner,
                                    f->object,
                                    f->status,
                                    locate_sum(f->hops, 1, LOCATE_HOPS_MAX),
                                    locate_sum(f->cost, locate_link(l, ev->link)->cost, LOCATE_COST_MAX),
                                    f->age};
    if (f->key_kind == LOCATE_CLAIM) return claim_answered(l, r, ev, &a);
    bool first = !(r->flags & REQ_DONE);
    locate_route_note(l, f->owner, ev->link, f->hops, f->cost, first, ev->now);
    if (first) {
        if (f->key_kind == LOCATE_NAME) locate_memo_note(l, f->key, f->owner, ev->now);
        locate_ask_answer(l, r, &a, set_of(ev->link), ev->now);
    } else if (f->key_kind == LOCATE_NAME && !id_equal(f->object, r->object)) {
        locate_name_conflict(l, f->key, f->owner, f->object, r->owner, r->object, ev->now);
    }
    return 0;
}

/* Asked again when a quarter of the time has passed: seldom where there is much. */
int locate_ask_busy(struct locate *l, const struct locate_event *ev) {
    const struct locate_frame *f = ev->frame;
    if ((unsigned)f->key_kind > LOCATE_CLAIM || id_zero(f->key)) return MOYAI_EPROTO;
    struct locate_request *r = find_live(l, f->key_kind, f->key, ev->now);
    if (!r || !set_has(&r->asked, ev->link) || set_has(&r->send, ev->link) || r->until <= ev->now) return 0;
    set_add(&r->busy, ev->link);
    if (r->busy_at) return 0;
    uint64_t span = (r->until - ev->now) / 4;
    if (span < l->ring_min / 4) span = l->ring_min / 4;
    r->busy_at = locate_after(ev->now, span);
    locate_due(l, r->busy_at);
    return 0;
}

/* --- links and time ----------------------------------------------------------------------------------- */

/* What is outstanding is asked of the newcomer too. */
void locate_ask_link_up(struct locate *l, moyai_ns now) {
    for (uint32_t i = 0; i < l->requests.n; i++) {
        struct locate_request *r = locate_request(l, i);
        if (!(r->flags & REQ_DONE) && r->until > now) locate_spread(l, r);
    }
}

/*
 * Of a lone look-up each node has its answer by one link, and it may have been this one: whoever was asked by it may
 * have been on the way to all that lies behind, and does not know who else would have the answer. So this node asks the
 * others again, as one of several: then each node that is reached has the answer by any of its links. Once is enough.
 */
static void ask_around(struct locate *l, struct locate_request *r) {
    if (!r->nonce || !(r->flags & REQ_FLOOD)) return;
    r->nonce = 0;
    locate_spread_anew(l, r);
}

void locate_ask_link_down(struct locate *l, uint32_t link) {
    for (uint32_t i = l->requests.n; i > 0; i--) {
        struct locate_request *r = locate_request(l, i - 1);
        bool asks = set_has(&r->askers, link), held = (r->flags & REQ_LEADS) && set_has(&r->busy, link);
        bool lost = set_has(&r->asked, link) && !held, asked = lost && !set_has(&r->send, link);
        set_del(&r->askers, link);
        set_del(&r->asked, link);
        set_del(&r->send, link);
        set_del(&r->direct, link);
        set_del(&r->hint, link);
        set_del(&r->reply, link);
        set_del(&r->slow, link);
        set_del(&r->busy, link);
        if (!set_any(r->busy)) r->busy_at = 0;
        if (asks && !set_any(r->askers) && !(r->flags & (REQ_OWN | REQ_DONE))) {
            locate_cut(l, &l->requests, r);
            continue;
        }
        if (asked) ask_around(l, r);
        if ((r->flags & REQ_LEADS) && (lost || !set_any(r->busy))) locate_held_on(l, r);
    }
}

void locate_ask_timeout(struct locate *l, moyai_ns now) {
    for (uint32_t i = 0; i < l->requests.n; i++) {
        struct locate_request *r = locate_request(l, i);
        if (r->busy_at && r->busy_at <= now) {
            if (r->flags & REQ_LEADS) locate_memo_drop(l, r->key); /* it is wrong, or the way by it is gone */
            if (r->until > now)
                locate_held_on(l, r);
            else
                locate_held_off(r);
        }
        if (r->ring_at && r->ring_at <= now) locate_own_timeout(l, r, now);
        if (r->busy_at) locate_due(l, r->busy_at);
        if (r->ring_at) locate_due(l, r->ring_at);
    }
}
