/* SPDX-License-Identifier: Apache-2.0 */
/*
 * move_soak: who has objects. The rules of object/moving.c, driven as object/move.c and drain.c drive them; requests,
 * as serve.c takes them; and the ends of sessions and nodes.
 */
#include "tests/sim/move_world.h"

/* --- requests at the object ------------------------------------------------------------------------- */

struct running {
    struct node *node;
    struct here *here;
    struct request *rq;
};

static void freeze_over(struct here *h);

static void reply(struct node *n, struct request *rq, int code) {
    if (code == MOYAI_ENOOBJECT && rq->from != n->index) {
        uint8_t caller[16], object[16];
        node_name(rq->from, rq->from_gen, caller);
        object_name(rq->call->object, object);
        (void)refused_note(&n->n, caller, object, rq->round);
    }
    const struct letter l = {.kind = REPLY, .call = rq->call->index, .ask = rq->attempt, .code = code};
    (void)post(n, rq->from, rq->from == n->index ? n->gen : rq->from_gen, l);
    n->wanted--;
}

static void method_over(void *who, uint64_t what) {
    const struct running r = *(struct running *)who;
    (void)what;
    if (!alive(r.node)) return;
    reply(r.node, r.rq, 0);
    if (--r.here->ob.inside == 0) {
        if (r.here->mover && r.here->mover->frozen) freeze_over(r.here);
        if (r.here->departs) away_begin(r.node, r.here);
    }
    leave_if_done(r.node);
}

static void begin(struct node *n, struct here *h, struct request *rq) {
    struct sim *s = n->s;
    struct call *c = rq->call;
    uint64_t *last = &s->order[c->caller * OBJECTS + c->object];
    const uint64_t serial = (uint64_t)rq->from_gen << 48 | c->serial;
    if (h->ob.at.state != MOVING_HERE || !alive(n)) wrong(s, "a call begins where its object is not");
    if (c->begun++) wrong(s, "a call begins twice");
    if (c->over && c->never) wrong(s, "a call begins that was never executed, as was said");
    /* Who is reborn is another node to others. */
    if (*last >> 48 == rq->from_gen && serial <= *last) {
        TRACE(s, "call %u of object %u by %u", c->index, c->object, c->caller);
        wrong(s, "calls of one caller begin out of order");
    }
    *last = serial;
    h->ob.inside++;
    struct running *r = kept(s, sizeof *r);
    *r = (struct running){n, h, rq};
    if (drawn(s, 4))
        method_over(r, 0);
    else
        world_in(&s->w, (moyai_dur)drawn(s, drawn(s, 8) ? MS : 40 * MS), method_over, r, 0);
}

static void run(struct node *n, struct here *h, struct request *rq) {
    rq->next = NULL;
    if (h->ob.moving) {
        if (h->last)
            h->last->next = rq;
        else
            h->first = rq;
        h->last = rq;
    } else if (n->drains && rq->from != n->index && !rq->call->oneway && !rq->leaver) {
        reply(n, rq, MOYAI_ELEAVING);
    } else {
        begin(n, h, rq);
    }
}

static bool was_refused(struct node *n, const struct letter *l) {
    uint8_t caller[16], object[16];
    node_name(l->from, l->from_gen, caller);
    object_name(l->object, object);
    return l->from != n->index && refused_before(&n->n, caller, object, l->round);
}

static void request(struct node *n, const struct letter *l) {
    struct here *h = n->here[l->object];
    struct request *rq = kept(n->s, sizeof *rq);
    TRACE(n->s, "%u takes call %u (%" PRIu64 ") of %u to object %u, %s", n->index, l->call, l->ask, l->from, l->object,
          !h             ? "not here"
          : h->ob.moving ? "waits"
                         : "begins");
    *rq = (struct request){n->s->call[l->call], l->from, l->from_gen, l->ask, l->round, l->leaver, NULL};
    n->wanted++;
    if (n->drains && l->from != n->index && !rq->call->oneway && !l->leaver && !(h && h->ob.moving))
        reply(n, rq, MOYAI_ELEAVING);
    else if (!h || was_refused(n, l))
        reply(n, rq, MOYAI_ENOOBJECT);
    else
        run(n, h, rq);
    leave_if_done(n);
}

/* It stays, or is here no more (h is NULL). If its node has begun to leave they wait on. */
static void unpark(struct node *n, struct here *h, struct request *first) {
    if (h) {
        h->ob.moving = false;
        if (n->drains && away(n, h)) {
            away_begin(n, h);
            return;
        }
        first = h->first;
        h->first = h->last = NULL;
    }
    for (struct request *rq = first, *next; rq; rq = next) {
        next = rq->next;
        if (h)
            run(n, h, rq);
        else
            reply(n, rq, MOYAI_ENOOBJECT);
    }
}

/* --- homes ------------------------------------------------------------------------------------------ */

static void unasked(void *who, uint64_t what);

static void asking_remove(struct mover *m) {
    struct mover **at = &m->node->asking;
    while (*at && *at != m) at = &(*at)->next;
    if (*at) *at = m->next;
    m->ask = 0;
}

static void ask(struct mover *m, uint8_t kind, bool first) {
    struct node *n = m->node;
    m->asks = kind;
    m->first = first;
    m->ask = ++n->s->asks;
    m->next = n->asking;
    n->asking = m;
    const struct letter l = {.kind = kind, .object = m->object, .number = m->number, .ask = m->ask};
    m->letter = post(n, m->to, m->to_gen, l);
    if (peer_get(n, m->to, m->to_gen)->gone) world_in(&n->s->w, 0, unasked, n, m->ask);
}

static struct here *here_of(const struct mover *m) {
    return m->node->here[m->object];
}

static void answer_to(struct node *n, const struct letter *l, int code) {
    const struct letter a = {.kind = ANSWER, .ask = l->ask, .code = code};
    (void)post(n, l->from, l->from_gen, a);
}

static void here_free(struct node *n, struct here *h) {
    const uint32_t o = number_of(h->ob.id);
    struct request *first = h->first;
    n->here[o] = NULL;
    unpark(n, NULL, first);
}

bool away(struct node *n, struct here *h) {
    if (h->ob.moving || h->ob.stays) return false;
    h->ob.moving = true;
    n->moves++;
    return true;
}

static void mover_ends(struct mover *m, bool stays) {
    struct node *n = m->node;
    struct here *h = here_of(m);
    if (h) {
        h->mover = NULL;
        if (m->leaving) h->ob.stays = stays;
        unpark(n, h, NULL);
    }
    if (!m->leaving) n->asked--;
    if (m->leaving) {
        n->moves--;
        n->movers--;
        if (n->n_away) {
            const uint32_t o = n->away[--n->n_away];
            if (n->here[o]) away_begin(n, n->here[o]);
        }
    }
    leave_if_done(n);
}

/* Of those that are linked or known, the next from one that depends on the object. */
static bool next_target(struct mover *m) {
    struct node *n = m->node;
    struct sim *s = n->s;
    while (m->tried < s->n) {
        const uint32_t i = (m->start + m->tried++) % s->n;
        if (i == n->index || peer_get(n, i, s->node[i]->gen)->gone) continue;
        m->to = i;
        m->to_gen = s->node[i]->gen;
        ask(m, HOST, true);
        return true;
    }
    return false;
}

static void freeze_over(struct here *h) {
    struct mover *m = h->mover;
    m->frozen = false;
    if (rule(m->node, h, MOVING_EV_OFFER, 0) != MOVING_SAY_ADOPT) wrong(m->node->s, "an object is not offered");
    m->number = moving_offer(&h->ob.at);
    m->gen = m->node->gen;
    ask(m, ADOPT, true);
}

static moyai_ns longer(moyai_ns pause) {
    return pause < AGAIN_MOST / 2 ? 2 * pause : AGAIN_MOST;
}

static void asks_again(void *who, uint64_t what) {
    struct mover *m = who;
    (void)what;
    if (!alive(m->node)) return;
    ask(m, SETTLE, false);
}

static void astray_over(struct node *n, struct astray *a) {
    if (!a->soon) return;
    a->soon = false;
    n->n_astray--;
    leave_if_done(n);
}

static void given_late(void *who, uint64_t o) {
    struct node *n = who;
    astray_over(n, &n->given[o]);
}

static void dropped_late(void *who, uint64_t o) {
    struct node *n = who;
    astray_over(n, &n->dropped[o]);
}

static void astray_note(struct node *n, struct astray *at, struct astray what) {
    const bool given = at >= n->given && at < n->given + OBJECTS;
    astray_over(n, at);
    *at = what;
    if (!what.soon) return;
    n->n_astray++;
    world_in(&n->s->w, (moyai_dur)ASTRAY_TIME, given ? given_late : dropped_late, n,
             (uint64_t)(given ? at - n->given : at - n->dropped));
}

static void departs(struct mover *m) {
    struct node *n = m->node;
    struct sim *s = n->s;
    struct here *h = here_of(m);
    uint8_t to[16];
    if (s->dir[m->object] == n->index + 1 && s->dir_gen[m->object] == n->gen) s->dir[m->object] = 0;
    node_name(m->to, m->to_gen, to);
    moved_put(&n->n, h->ob.id, to);
    if (h->ob.at.given) astray_note(n, &n->given[m->object], (struct astray){m->number, m->to, m->to_gen, !m->yours});
    s->moved[m->object]++;
    here_free(n, h);
}

static void answer_asked(struct mover *m, enum moving_event ev) {
    struct node *n = m->node;
    struct here *h = here_of(m);
    if (m->asks == HOST) {
        if (ev == MOVING_EV_YES && h->ob.inside == 0) {
            h->mover = m;
            freeze_over(h);
        } else if (ev == MOVING_EV_YES) {
            h->mover = m;
            m->frozen = true;
        } else if (!m->leaving || !next_target(m)) {
            mover_ends(m, true);
        }
        return;
    }
    if (m->gen != n->gen && (ev == MOVING_EV_PEER_GONE || ev == MOVING_EV_UNREACHABLE)) ev = MOVING_EV_REBORN;
    m->gen = n->gen;
    const enum moving_state before = h->ob.at.state;
    const enum moving_say say = rule(n, h, ev, 0);
    if (say == MOVING_SAY_DROP)
        (void)post(n, m->to, m->to_gen, (struct letter){.kind = DROP, .object = m->object, .number = m->number});
    if (h->ob.at.state == MOVING_SETTLES && before == MOVING_OFFERED) {
        m->pause = AGAIN_PAUSE;
        ask(m, SETTLE, true);
    } else if (h->ob.at.state == MOVING_SETTLES) {
        world_in(&n->s->w, (moyai_dur)m->pause, asks_again, m, 0);
        m->pause = longer(m->pause);
    } else if (h->ob.at.state == MOVING_HERE) {
        if (!m->leaving || !next_target(m)) mover_ends(m, true);
    } else {
        departs(m);
        mover_ends(m, false);
    }
}

/* The session with whom was asked has failed, or it has ended. */
static void ask_fails(struct mover *m, bool gone) {
    struct letter *l = &m->node->s->letter[m->letter];
    const bool never = l->fate != TAKEN && (l->fate == LOST || drawn(m->node->s, 2));
    if (never) l->fate = LOST;
    asking_remove(m);
    answer_asked(m, never && m->first ? MOVING_EV_NEVER : gone ? MOVING_EV_PEER_GONE : MOVING_EV_UNREACHABLE);
}

static void unasked(void *who, uint64_t what) {
    struct node *n = who;
    struct mover *m = n->asking;
    while (m && m->ask != what) m = m->next;
    if (m && alive(n)) ask_fails(m, true);
}

static void arrival_over(struct node *n, struct here *h) {
    h->arrives = false;
    n->arrivals--;
}

static void arrival_drop(struct node *n, struct here *h, bool dead) {
    const uint32_t o = number_of(h->ob.id);
    if (h->ob.at.state != MOVING_NONE) wrong(n->s, "what arrives does not go with who can finish its move");
    astray_note(n, &n->dropped[o], (struct astray){h->ob.at.dropped, h->from, h->from_gen, dead});
    arrival_over(n, h);
    here_free(n, h);
    leave_if_done(n);
}

static void arrival_settles(struct node *n, struct here *h) {
    const uint32_t o = number_of(h->ob.id);
    astray_over(n, &n->given[o]);
    astray_over(n, &n->dropped[o]);
    n->given[o] = n->dropped[o] = (struct astray){0};
    name_put(n, h);
    arrival_over(n, h);
    unpark(n, h, NULL);
}

struct claim {
    struct node *node;
    struct here *here;
};

/* Whose it is, the old home is asked. */
static void claim(void *who, uint64_t what) {
    const struct claim *c = who;
    struct node *n = c->node;
    struct here *h = c->here;
    (void)what;
    if (!alive(n) || !h->arrives) return;
    if (peer_get(n, h->from, h->from_gen)->gone) {
        (void)rule(n, h, MOVING_EV_PEER_GONE, 0);
        arrival_drop(n, h, true);
        return;
    }
    h->claim = ++n->s->asks;
    const struct letter l = {
        .kind = CLAIM, .object = number_of(h->ob.id), .number = h->ob.at.number, .ask = h->claim, .mine = h->mine};
    (void)post(n, h->from, h->from_gen, l);
}

static void claim_begin(struct node *n, struct here *h, bool fails) {
    if (h->claims && !(fails && h->claim)) return;
    struct claim *c = kept(n->s, sizeof *c);
    *c = (struct claim){n, h};
    h->pause = h->claims ? longer(h->pause) : AGAIN_PAUSE / 2;
    world_in(&n->s->w, h->claims ? (moyai_dur)h->pause : 0, claim, c, 0);
    h->claims = true;
    h->claim = 0;
}

static void claimed(struct node *n, const struct letter *l) {
    for (uint32_t o = 0; o < n->s->objects; o++) {
        struct here *h = n->here[o];
        if (!h || !h->arrives || h->claim != l->ask) continue;
        (void)rule(n, h, l->code == YES ? MOVING_EV_YES : MOVING_EV_NO, 0);
        if (h->ob.at.state == MOVING_HERE)
            arrival_settles(n, h);
        else
            arrival_drop(n, h, false);
        leave_if_done(n);
        return;
    }
}

/* At the old home. */
static void claim_asked(struct node *n, const struct letter *l) {
    struct here *h = n->here[l->object], gone = {0};
    struct mover *m = h ? h->mover : NULL;
    struct astray *a = &n->given[l->object];
    const bool offered = h && h->ob.at.state == MOVING_OFFERED;
    object_name(l->object, gone.ob.id);
    gone.ob.at.given = a->number;
    const bool by = h ? m && m->to == l->from && m->to_gen == l->mine : a->to == l->from && a->gen == l->mine;
    const bool yours = rule(n, h ? h : &gone, MOVING_EV_CLAIM, by ? l->number : 0) == MOVING_SAY_YES;
    if (yours && h) m->yours = true;
    if (offered && h->ob.at.state == MOVING_HERE)
        (void)post(n, m->to, m->to_gen, (struct letter){.kind = DROP, .object = m->object, .number = m->number});
    (void)post(n, l->from, l->from_gen, (struct letter){.kind = CLAIMED, .ask = l->ask, .code = yours ? YES : NO});
    if (yours && !h) astray_over(n, a);
}

void arrivals_reborn(struct node *n) {
    for (uint32_t o = 0; o < n->s->objects; o++) {
        struct here *h = n->here[o];
        if (!h || !h->arrives) continue;
        (void)rule(n, h, MOVING_EV_REBORN, 0);
        claim_begin(n, h, false);
    }
}

struct unpacking {
    struct node *node;
    struct letter l;
};

/* The object is made, if it may still be. */
static void unpacked(void *who, uint64_t what) {
    const struct unpacking u = *(struct unpacking *)who;
    struct node *n = u.node;
    (void)what;
    if (!alive(n)) return;
    n->wanted--;
    struct here *h = kept(n->s, sizeof *h);
    object_name(u.l.object, h->ob.id);
    const struct peer *p = peer_get(n, u.l.from, u.l.from_gen);
    if (n->drains || p->gone || p->epoch != u.l.epoch || n->gen != u.l.to_gen || n->here[u.l.object] ||
        rule(n, h, MOVING_EV_ADOPT, u.l.number) != MOVING_SAY_YES) {
        answer_to(n, &u.l, NO);
    } else {
        n->here[u.l.object] = h;
        h->ob.node = &n->n;
        h->ob.moving = h->arrives = true;
        h->from = u.l.from;
        h->from_gen = u.l.from_gen;
        h->mine = n->gen;
        n->arrivals++;
        answer_to(n, &u.l, YES);
    }
    leave_if_done(n);
}

static void settle(struct node *n, const struct letter *l) {
    struct here *h = n->here[l->object];
    struct here gone = {0};
    if (!h) {
        object_name(l->object, gone.ob.id);
        gone.ob.at.dropped = n->dropped[l->object].number;
    }
    const enum moving_say say = rule(n, h ? h : &gone, MOVING_EV_SETTLE, l->number);
    const bool comes = h && h->arrives && h->ob.at.state == MOVING_HERE;
    if (comes) arrival_settles(n, h);
    answer_to(n, l, say == MOVING_SAY_YES ? YES : NO);
    astray_over(n, &n->dropped[l->object]);
    leave_if_done(n);
}

/* What a node's host and the node itself are asked. */
static void asked(struct node *n, const struct letter *l) {
    struct here *h = n->here[l->object];
    switch (l->kind) {
    case HOST:
        answer_to(n, l, n->drains ? NO : YES);
        break;
    case ADOPT: {
        if (n->drains && !l->leaver) {
            answer_to(n, l, LEAVES);
            break;
        }
        struct unpacking *u = kept(n->s, sizeof *u);
        *u = (struct unpacking){n, *l};
        n->wanted++;
        if (drawn(n->s, 2))
            unpacked(u, 0);
        else
            world_in(&n->s->w, (moyai_dur)drawn(n->s, drawn(n->s, 16) ? 5 * MS : 500 * MS), unpacked, u, 0);
        break;
    }
    case SETTLE: /* also where it is leaving: it is waited for */
        settle(n, l);
        break;
    case CLAIM:
        claim_asked(n, l);
        break;
    default:
        astray_over(n, &n->dropped[l->object]);
        if (!h || !h->arrives) break;
        (void)rule(n, h, MOVING_EV_DROP, l->number);
        if (h->ob.at.state == MOVING_NONE) arrival_drop(n, h, false);
    }
}

static void answered(struct node *n, const struct letter *l) {
    struct mover *m = n->asking;
    while (m && m->ask != l->ask) m = m->next;
    if (!m) return;
    const bool first = m->first;
    asking_remove(m);
    const enum moving_event refused = l->code == NO || first ? MOVING_EV_NO : MOVING_EV_UNREACHABLE;
    answer_asked(m, l->code == YES ? MOVING_EV_YES : refused);
}

void move_ask(struct node *n, uint32_t o, uint32_t to) {
    struct here *h = n->here[o];
    if (!alive(n) || n->drains || !h || h->ob.moving || to == n->index) return;
    struct mover *m = kept(n->s, sizeof *m);
    *m = (struct mover){.node = n, .object = o, .to = to, .to_gen = n->s->node[to]->gen, .gen = n->gen};
    h->ob.moving = true;
    n->asked++;
    ask(m, HOST, true);
}

void away_begin(struct node *n, struct here *h) {
    const uint32_t o = number_of(h->ob.id);
    h->departs = h->ob.inside > 0;
    if (h->departs) return;
    if (n->movers == MOVERS) {
        n->away[n->n_away++] = o;
        return;
    }
    struct mover *m = kept(n->s, sizeof *m);
    *m = (struct mover){.node = n, .object = o, .gen = n->gen, .leaving = true, .start = o * 7919u};
    n->movers++;
    if (!next_target(m)) mover_ends(m, true);
}

/* --- ends of sessions and nodes --------------------------------------------------------------------- */

static void all_fails(struct node *n, struct peer *p, enum gone how) {
    struct sim *s = n->s;
    /* What has surely not been taken, as far as is known here: nothing that was said before something that may have
     * been. */
    const uint64_t untaken = drawn(s, 2) ? s->letters - drawn(s, 1 + (s->letters < 200 ? s->letters : 200)) : 0;
    while (p->open) {
        struct call *c = (struct call *)p->open;
        struct letter *l = &s->letter[c->letter];
        const bool never = how == CLEARED || l->unsent || (l->fate != TAKEN && c->letter >= untaken);
        if (never && l->fate == FLYING) l->fate = LOST;
        c->f.msg.state = MSG_IDLE;
        call_ends(c,
                  how == HERE_STILL ? MOYAI_EUNREACHABLE
                  : how == DEAD     ? MOYAI_EDEAD
                                    : MOYAI_ECLOSED,
                  how == HERE_STILL ? MOYAI_AT_PATH : MOYAI_AT_PEER,
                  never ? MOYAI_NEVER_EXECUTED : MOYAI_MAY_HAVE_EXECUTED);
    }
    for (uint32_t o = 0; o < s->objects; o++) {
        struct here *h = n->here[o];
        if (!h || !h->arrives || h->from != p->other || h->from_gen != p->gen) continue;
        (void)rule(n, h, how ? MOVING_EV_PEER_GONE : MOVING_EV_UNREACHABLE, 0);
        if (how)
            arrival_drop(n, h, true);
        else
            claim_begin(n, h, true);
    }
    const uint64_t before = s->asks; /* what is asked now is another question */
    for (struct mover *m = n->asking; m;) {
        if (m->to != p->other || m->to_gen != p->gen || m->ask > before) {
            m = m->next;
            continue;
        }
        ask_fails(m, how != HERE_STILL);
        m = n->asking;
    }
}

void session_fails(struct node *n, struct peer *p) {
    p->epoch = pair_of(n->s, n->index, p->other)->epoch;
    all_fails(n, p, HERE_STILL);
}

void notice_cut(void *who, uint64_t what) {
    struct sim *s = who;
    struct node *n = s->node[what & 0xffff];
    const uint32_t other = (uint32_t)(what >> 16 & 0xffff);
    if (!alive(n)) return;
    struct peer *p = peer_get(n, other, (uint32_t)(what >> 32 & 0xffff));
    if (!p->gone && p->epoch < pair_of(s, n->index, other)->epoch) session_fails(n, p);
}

static void ends(struct node *n, uint32_t other, uint32_t gen, enum gone how) {
    struct peer *p = peer_get(n, other, gen);
    if (!alive(n) || p->gone) return;
    if (p->epoch < pair_of(n->s, n->index, other)->epoch) session_fails(n, p);
    p->gone = how;
    all_fails(n, p, how);
}

void notice_gone(void *who, uint64_t what) {
    struct sim *s = who;
    ends(s->node[what & 0xffff], (uint32_t)(what >> 16 & 0xffff), (uint32_t)(what >> 32 & 0xffff),
         (enum gone)(what >> 48));
}

/* All others are to hear of its end. */
void spread(struct node *n, enum gone how) {
    struct sim *s = n->s;
    if (!n->ended[n->gen]) n->ended[n->gen] = s->w.now;
    n->how[n->gen] = how;
    for (uint32_t i = 0; i < s->n; i++)
        if (i != n->index)
            world_in(&s->w, (moyai_dur)drawn(s, NOTICE), notice_gone, s, packed(i, n->index, n->gen, how));
}

static void leave_now(struct node *n) {
    struct sim *s = n->s;
    bool stayers = false;
    for (uint32_t i = 0; i < s->n; i++) stayers |= s->node[i]->never_leaves && alive(s->node[i]);
    for (uint32_t i = 0; i < s->n; i++) {
        if (i == n->index || !alive(s->node[i])) continue;
        (void)post(n, i, s->node[i]->gen, (struct letter){.kind = FAREWELL});
        /* Whom that does not reach, as the session has failed, finds nobody there. */
        world_in(&s->w, (moyai_dur)(NOTICE + 2 * SLOWEST), notice_gone, s, packed(i, n->index, n->gen, LEFT));
    }
    for (uint32_t o = 0; o < s->objects; o++) {
        struct here *h = n->here[o];
        if (!h) continue;
        if (h->ob.at.state != MOVING_HERE) wrong(s, "a node has left with what is between two nodes");
        if (stayers && !s->cuts && !s->crashes) wrong(s, "an object has gone with a node that left");
        s->excused[o] = true;
        s->stays++;
        s->live[o]--;
        n->here[o] = NULL;
    }
    n->ended[n->gen] = s->w.now;
    n->how[n->gen] = LEFT;
    n->left = true;
    s->left++;
    TRACE(s, "%u has left", n->index);
}

static void leave_look(void *who, uint64_t what) {
    struct node *n = who;
    (void)what;
    n->looks = false;
    if (alive(n) && !n->moves && !n->arrivals && !n->wanted && !n->open && !n->asked && !n->n_astray) leave_now(n);
}

void leave_if_done(struct node *n) {
    if (!n->drains || n->looks) return;
    n->looks = true;
    world_in(&n->s->w, 0, leave_look, n, 0);
}

/* --- letters ---------------------------------------------------------------------------------------- */

static void replied(struct node *n, const struct letter *l) {
    struct sim *s = n->s;
    struct call *c = s->call[l->call];
    if (c->over || c->f.id != l->ask || !c->f.in_open) return;
    if (c->f.msg.state != MSG_IDLE && drawn(s, 8))
        c->f.msg.state = MSG_IDLE;
    else if (c->f.msg.state != MSG_IDLE)
        world_in(&s->w, (moyai_dur)drawn(s, 5 * MS), taken, c, 0);
    TRACE(s, "call %u (%" PRIu64 ") of object %u by %u: answer %d", c->index, l->ask, c->object, c->caller, l->code);
    call_ends(c, l->code, MOYAI_AT_PEER, l->code ? MOYAI_NEVER_EXECUTED : MOYAI_WAS_EXECUTED);
}

void arrive(void *who, uint64_t what) {
    struct sim *s = who;
    struct letter l = s->letter[what];
    struct node *n = s->node[l.to];
    const bool self = l.from == l.to;
    struct peer *p = self ? NULL : peer_get(n, l.from, l.from_gen);
    if (l.fate == LOST) return;
    s->letter[what].fate = LOST;
    if (!alive(n) || (!self && (n->gen != l.to_gen || p->gone))) return;
    if (!self && l.epoch < pair_of(s, l.from, l.to)->epoch) return;
    if (!self && l.epoch > p->epoch) session_fails(n, p);
    if (!alive(n)) return;
    s->letter[what].fate = TAKEN;
    switch (l.kind) {
    case ANSWER:
        answered(n, &l);
        break;
    case CLAIMED:
        claimed(n, &l);
        break;
    case REQUEST:
        request(n, &l);
        break;
    case REPLY:
        replied(n, &l);
        break;
    case FAREWELL:
        ends(n, l.from, l.from_gen, CLEARED);
        break;
    default:
        asked(n, &l);
    }
}
