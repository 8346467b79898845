/* SPDX-License-Identifier: Apache-2.0 */
/*
 * move_soak: who calls, with the real code of object/moved.c. What that calls of the object layer stands here: fibers,
 * futures as far as it looks at them, what is known of other nodes, sessions, and names.
 */
#include "tests/sim/move_world.h"

struct sim *world;

void wrong(struct sim *s, const char *what) {
    if (s->trace && !s->wrong) printf("%.3f ms: %s\n", (double)s->w.now / 1e6, what);
    if (!s->wrong) s->wrong = what;
}

void *grown(void *p, uint32_t n, uint32_t *cap, size_t each) {
    if (n < *cap) return p;
    *cap = *cap ? *cap * 2 : 256;
    p = realloc(p, *cap * each);
    if (!p) abort();
    return p;
}

/* Zeroed, until the run is over. */
void *kept(struct sim *s, size_t n) {
    struct block *b = sim_alloc(sizeof *b + n);
    b->next = s->blocks;
    s->blocks = b;
    return b->bytes;
}

void node_name(uint32_t i, uint32_t gen, uint8_t id[16]) {
    memset(id, 0, 16);
    id[0] = (uint8_t)i;
    id[1] = (uint8_t)(i >> 8);
    id[2] = (uint8_t)gen;
    id[7] = 1;
}

void object_name(uint32_t o, uint8_t id[16]) {
    memset(id, 0, 16);
    id[0] = (uint8_t)o;
    id[1] = (uint8_t)(o >> 8);
    id[7] = 2;
    id[15] = 1; /* it may move */
}

/* --- fibers: what moved.c does while it waits ------------------------------------------------------- */

static void fiber_main(struct fiber *f) {
    struct fib *b = f->local;
    for (;;) {
        b->fn(b->arg);
        b->runs = false;
        b->node->seeks--;
        fiber_switch(f, &world->main);
    }
}

/* By events only. Those of a node that has ended stay as they are. */
static void resume(struct fib *b) {
    if (world->runs) abort();
    if (!alive(b->node)) return;
    world->runs = b;
    fiber_switch(&world->main, b->fiber);
    world->runs = NULL;
    if (b->runs) return;
    b->next = world->idle;
    world->idle = b;
}

static void fib_event(void *who, uint64_t what) {
    (void)what;
    resume(who);
}

int go_locked(moyai_node *n, void (*fn)(void *arg), void *arg) {
    struct sim *s = ((struct node *)n)->s;
    struct fib *b = s->idle;
    if (b) {
        s->idle = b->next;
    } else {
        b = kept(s, sizeof *b);
        if (!(b->fiber = fiber_new(STACK, 0, fiber_main))) abort();
        b->fiber->local = b;
        b->older = s->all;
        s->all = b;
    }
    b->node = (struct node *)n;
    b->fn = fn;
    b->arg = arg;
    b->runs = true;
    b->node->seeks++;
    world_at(&s->w, s->w.now, fib_event, b, 0);
    return 0;
}

static void time_out(void *who, uint64_t waits) {
    struct fib *b = who;
    if (!b->b || b->waits != waits || b->woken) return;
    b->result = MOYAI_ETIMEDOUT;
    b->woken = true;
    resume(b);
}

int block(moyai_node *n, struct blocked *b, moyai_ns deadline, bool masked) {
    struct fib *me = ((struct node *)n)->s->runs;
    (void)masked;
    b->w.fiber = me->fiber;
    me->b = b;
    me->woken = false;
    me->waits++;
    if (deadline != UINT64_MAX) world_at(&world->w, deadline, time_out, me, me->waits);
    fiber_switch(me->fiber, &world->main);
    me->b = NULL;
    return me->result;
}

bool blocked_wake(moyai_node *n, struct blocked *b, int result) {
    (void)n;
    struct fib *f = b->w.fiber->local;
    if (f->b != b || f->woken) return false;
    f->woken = true;
    f->result = result;
    world_at(&world->w, world->w.now, fib_event, f, 0);
    return true;
}

void blocked_init(moyai_node *n, struct blocked *b, const char *what) {
    (void)n;
    memset(b, 0, sizeof *b);
    b->what = what;
}

void api_enter(moyai_node *n) {
    (void)n;
}
void api_leave(moyai_node *n) {
    (void)n;
}

moyai_ns __wrap_moyai_now(void);
moyai_ns __wrap_moyai_now(void) {
    return world->w.now;
}

static void nap(struct node *n, moyai_ns span) {
    struct blocked b;
    blocked_init(&n->n, &b, "looks");
    (void)block(&n->n, &b, n->s->w.now + span, true);
}

/* --- failures, as future.c has them ----------------------------------------------------------------- */

struct failure *failure_new(const struct moyai_error *e, const struct failure *cause) {
    struct failure *f = malloc(sizeof *f + sizeof f->level[0]);
    (void)cause;
    if (!f) abort();
    f->refs = f->n = 1;
    f->level[0] = *e;
    return f;
}

int failure_set(struct moyai_error *e, int code, enum moyai_where where, enum moyai_executed executed, const char *fmt,
                ...) {
    *e = (struct moyai_error){.code = code, .where = where, .executed = executed};
    (void)fmt;
    return code;
}

struct failure *failure_ref(struct failure *f) {
    if (f) f->refs++;
    return f;
}

void failure_unref(struct failure *f) {
    if (f && --f->refs == 0) free(f);
}

/* --- what one knows of others ----------------------------------------------------------------------- */

struct pair *pair_of(struct sim *s, uint32_t a, uint32_t b) {
    return &s->pair[a < b ? a : b][a < b ? b : a];
}

/* Who meets one that has ended long ago is told so. */
struct peer *peer_get(struct node *n, uint32_t other, uint32_t gen) {
    struct peer *p = n->peers;
    const struct node *k = n->s->node[other];
    while (p && (p->other != other || p->gen != gen)) p = p->next;
    if (p) return p;
    p = kept(n->s, sizeof *p);
    *p = (struct peer){.of = n, .other = other, .gen = gen, .epoch = pair_of(n->s, n->index, other)->epoch};
    p->late = k->ended[gen] && (!alive(k) || k->gen != gen);
    if (k->ended[gen] && k->ended[gen] + NOTICE + SLOWEST < n->s->w.now) p->gone = k->how[gen];
    p->next = n->peers;
    n->peers = p;
    return p;
}

struct peer *overlay_peer(struct overlay *o, const uint8_t id[16]) {
    return peer_get(o->node, number_of(id), id[2]);
}

struct peer *overlay_find(const struct overlay *o, const uint8_t id[16]) {
    return node_is(&o->node->n, id) ? NULL : peer_get(o->node, number_of(id), id[2]);
}

bool call_home_died(moyai_node *node, const uint8_t home[16], struct moyai_error *e) {
    struct node *n = (struct node *)node;
    if (node_is(node, home) || peer_get(n, number_of(home), home[2])->gone != DEAD) return false;
    err_set(e, MOYAI_EDEAD, "it has died");
    return true;
}

struct peer_calls *peer_calls(struct peer *p, bool make) {
    static struct peer_calls c;
    (void)make;
    c.open = p->open;
    return &c;
}

int control_send(moyai_node *n, struct peer *p, const uint8_t *bytes, size_t len) {
    (void)n, (void)p, (void)bytes, (void)len;
    return 0; /* signals are not of this test */
}

void overlay_break(struct peer *p, const char *text) {
    (void)p, (void)text;
    abort(); /* memory has run out */
}

struct object *object_find(moyai_node *n, const uint8_t id[16]) {
    struct here *h = ((struct node *)n)->here[number_of(id)];
    return h ? &h->ob : NULL;
}

uint64_t packed(uint32_t i, uint32_t other, uint32_t gen, uint32_t how) {
    return i | (uint64_t)other << 16 | (uint64_t)gen << 32 | (uint64_t)how << 48;
}

void cut(struct sim *s, uint32_t a, uint32_t b) {
    struct pair *p = pair_of(s, a, b);
    p->epoch++;
    TRACE(s, "the session of %u and %u fails", a, b);
    for (int i = 0; i < 2; i++) {
        const uint32_t at = i ? a : b, other = i ? b : a;
        const moyai_dur late = (moyai_dur)(1 + drawn(s, drawn(s, 8) ? 200 * MS : 3000 * MS));
        world_in(&s->w, late, notice_cut, s, packed(at, other, s->node[other]->gen, 0));
    }
}

/* Its number. */
uint32_t post(struct node *n, uint32_t to, uint32_t to_gen, struct letter l) {
    struct sim *s = n->s;
    struct pair *pair = pair_of(s, n->index, to);
    struct peer *p = peer_get(n, to, to_gen);
    const bool self = to == n->index;
    const struct node *k = s->node[to];
    const uint32_t number = s->letters++;
    s->letter = grown(s->letter, number, &s->letter_cap, sizeof *s->letter);
    l.from = n->index;
    l.from_gen = n->gen;
    l.to = to;
    l.to_gen = to_gen;
    l.epoch = p->epoch;
    l.leaver = n->drains;
    l.unsent = !self && (!alive(k) || k->gen != to_gen) && (p->late || s->w.now > k->ended[to_gen] + SLOWEST);
    s->letter[number] = l;
    if (!self && s->w.now < pair->blocked && p->epoch == pair->epoch) cut(s, n->index, to);
    if (!self && !p->gone && (!alive(k) || k->gen != to_gen)) /* it hears of that at the latest now, some time later */
        world_in(&s->w, (moyai_dur)(NOTICE + SLOWEST), notice_gone, s, packed(n->index, to, to_gen, k->how[to_gen]));
    if (!self && (p->gone || p->epoch < pair->epoch)) {
        s->letter[number].fate = LOST;
        return number;
    }
    const int way = n->index < to;
    moyai_ns at = s->w.now + (self ? 1000 : (moyai_ns)pair->delay[way] + drawn(s, MS / 5));
    if (at <= pair->last[way]) at = pair->last[way] + 1;
    pair->last[way] = at;
    world_at(&s->w, at, arrive, s, number);
    return number;
}

/* --- laws ------------------------------------------------------------------------------------------- */

/* Between two homes it may be lost with the new one, also where that does not have it yet, or has dropped it; and if
 * both are taken for dead. */
static bool may_be_lost(const struct node *n, const struct here *h, enum moving_state from) {
    const bool shunned = n->shunned || n->gen > 1;
    if (from == MOVING_SETTLES) return shunned || (h->mover && n->s->node[h->mover->to]->dead);
    return shunned && (from == MOVING_ARRIVES || from == MOVING_CLAIMS);
}

/* A step of the rules, and whether two have it now. */
enum moving_say rule(struct node *n, struct here *h, enum moving_event ev, uint64_t number) {
    struct sim *s = n->s;
    const uint32_t o = number_of(h->ob.id);
    const bool had = h->ob.at.state == MOVING_HERE;
    const enum moving_state from = h->ob.at.state;
    const enum moving_say say = moving_step(&h->ob.at, ev, number);
    const bool has = h->ob.at.state == MOVING_HERE;
    s->live[o] += (uint32_t)has - (uint32_t)had;
    if (s->live[o] > 1) wrong(s, "an object is at two nodes");
    if (ev == MOVING_EV_PEER_GONE && may_be_lost(n, h, from)) s->excused[o] = true;
    TRACE(s, "object %u at %u: event %d, number %" PRIu64 ": %d -> %d, says %d", o, n->index, (int)ev, number,
          (int)from, (int)h->ob.at.state, (int)say);
    return say;
}

static void call_over(struct call *c, int code, int executed) {
    struct sim *s = world;
    moyai_future *f = &c->f;
    failure_unref(f->failure);
    f->failure = NULL;
    if (s->over) return;
    if (c->over) wrong(s, "a call ends twice");
    c->over = true;
    c->ok = code == 0;
    c->never = code < 0 && executed == MOYAI_NEVER_EXECUTED;
    if (c->ok && c->begun != 1) wrong(s, "a call has an answer, and has not begun");
    if (c->never && c->begun) wrong(s, "a call has begun that was never executed, as is said");
    if (code < 0 && !s->crashes && !s->cuts && !c->lastly && !s->excused[c->object])
        wrong(s, "a call fails without a fault");
    if (code < 0) TRACE(s, "call %u of object %u by %u: %d", c->index, c->object, c->caller, code);
    s->done += c->ok;
    s->failed += !c->ok;
    moved_drop(f);
    atomic_store(&f->state, FUTURE_DONE);
}

static void open_remove(moyai_future *f) {
    struct node *n = (struct node *)f->node;
    if (!f->in_open) return;
    moyai_future **first = f->peer ? &f->peer->open : &n->n.local_open;
    f->in_open = false;
    if (f->open_prev)
        f->open_prev->open_next = f->open_next;
    else
        *first = f->open_next;
    if (f->open_next) f->open_next->open_prev = f->open_prev;
    f->open_prev = f->open_next = NULL;
    f->id = 0;
}

void call_ends(struct call *c, int code, enum moyai_where where, enum moyai_executed executed) {
    struct node *n = world->node[c->caller];
    struct moyai_error e = {.code = code, .where = where, .executed = executed};
    if (code < 0 && moved_again(&c->f, &e)) {
        world->again++;
        return;
    }
    open_remove(&c->f);
    call_over(c, code, (int)executed);
    n->open--;
    leave_if_done(n);
}

void future_back(moyai_future *f) {
    open_remove(f);
    f->peer = NULL;
}

void future_fail_back(moyai_future *f) {
    struct call *c = (struct call *)f;
    struct node *n = (struct node *)f->node;
    const struct moyai_error e = f->failure->level[0];
    call_over(c, e.code, (int)e.executed);
    n->open--;
    leave_if_done(n);
}

/* Its message is taken, as is known some time after its answer came. */
void taken(void *who, uint64_t what) {
    struct call *c = who;
    (void)what;
    if (c->f.msg.state == MSG_IDLE) return;
    c->f.msg.state = MSG_IDLE;
    moved_sent(&c->f);
}

void call_again(moyai_future *f) {
    struct call *c = (struct call *)f;
    struct node *n = (struct node *)f->node;
    struct sim *s = n->s;
    if (f->msg.state != MSG_IDLE) wrong(s, "a call is sent again before its message is done");
    const bool local = node_is(&n->n, f->home);
    struct peer *p = local ? NULL : overlay_peer(&n->o, f->home);
    f->peer = p;
    moved_sends(f);
    if (p && p->gone) {
        call_ends(c, p->gone == DEAD ? MOYAI_EDEAD : MOYAI_ECLOSED, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
        return;
    }
    moyai_future **first = p ? &p->open : &n->n.local_open;
    f->open_prev = NULL;
    f->open_next = *first;
    if (f->open_next) f->open_next->open_prev = f;
    *first = f;
    f->in_open = true;
    f->id = c->attempt = ++s->attempts;
    if (p) f->msg.state = MSG_IN_SESSION;
    const struct letter l = {
        .kind = REQUEST, .object = c->object, .call = c->index, .ask = c->attempt, .round = f->round};
    TRACE(s, "%u sends call %u (%" PRIu64 ") of object %u to %u", n->index, c->index, c->attempt, c->object,
          p ? p->other : n->index);
    c->letter = post(n, p ? p->other : n->index, p ? p->gen : n->gen, l);
}

void call_new(struct node *n, uint32_t o, bool oneway) {
    struct sim *s = n->s;
    struct call *c = kept(s, sizeof *c);
    s->call = grown(s->call, s->calls, &s->call_cap, sizeof(struct call *));
    s->call[s->calls] = c;
    *c = (struct call){.index = s->calls++, .caller = n->index, .gen = n->gen, .object = o, .oneway = oneway};
    c->lastly = s->lastly;
    c->serial = c->f.seq = ++n->n.last_seq;
    c->f.node = &n->n;
    c->f.movable = true;
    object_name(o, c->f.object);
    node_name(s->home[o], 1, c->f.home);
    n->open++;
    moved_home(&c->f);
    if (!moved_waits(&c->f)) call_again(&c->f);
    if (n->open + n->seeks > n->most) n->most = n->open + n->seeks; /* these stay till they have ended */
    if (moved_kept(&n->n) > PLACES_MOST + n->most) wrong(s, "whereabouts are not bounded");
}

/* --- names ------------------------------------------------------------------------------------------ */

static bool names_it(const struct node *n, uint32_t o) {
    return alive(n) && n->here[o] && n->here[o]->named;
}

/* Each answers for itself, at its own time; so nobody may have had it. */
static int located(struct node *n, uint32_t o, uint8_t home[16]) {
    struct sim *s = n->s;
    uint32_t found = MOST;
    const uint32_t first = (uint32_t)drawn(s, s->n);
    for (int round = 0; round < 2; round++) {
        for (uint32_t k = 0; k < s->n; k++) {
            const uint32_t i = (first + k) % s->n;
            if ((int)(i & 1) != round || !names_it(s->node[i], o) || found < MOST) continue;
            found = i;
            node_name(i, s->node[i]->gen, home);
        }
        nap(n, drawn(s, 5 * MS));
    }
    return found < MOST ? 0 : MOYAI_ENOENT;
}

int name_where(moyai_node *node, const char *name, uint8_t home[16], struct moyai_error *e) {
    struct node *n = (struct node *)node;
    struct sim *s = n->s;
    const uint32_t o = (uint32_t)strtoul((char[]){name[3], name[4], name[1], name[2], 0}, NULL, 16);
    int rc = MOYAI_ENOENT;
    nap(n, drawn(s, 5 * MS));
    if (names_it(n, o)) {
        memcpy(home, node_id(node)->b, 16);
        return 0;
    }
    if (s->crowded && n->asks > 0) {
        s->refused++;
        rc = MOYAI_ELIMIT;
    } else if (s->located) {
        n->asks++;
        rc = located(n, o, home);
        n->asks--;
    } else if (s->dir[o] && s->dir[o] - 1 != n->index && !peer_get(n, s->dir[o] - 1, s->dir_gen[o])->gone) {
        node_name(s->dir[o] - 1, s->dir_gen[o], home);
        rc = 0;
        nap(n, drawn(s, 5 * MS));
    }
    if (rc < 0) err_set(e, rc, "it is not found");
    return rc;
}

void name_put(struct node *n, struct here *h) {
    const uint32_t o = number_of(h->ob.id);
    h->named = true;
    n->s->dir[o] = n->index + 1;
    n->s->dir_gen[o] = n->gen;
}
