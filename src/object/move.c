/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that move to another node (S4, 2.3.3; doc/spec/10-moving.md). At most one node has an object that calls can
 * reach, whatever fails; moving.h has the rules:
 *
 *     old home                                                new home
 *     stays --move--> moving (calls wait, methods end)
 *                       | packs the state
 *                       +--- adopt(class, id, n, names, ...) --> arriving (calls wait): unpacked
 *     stays <-- refused, dead, gone, or unreachable
 *                       +--- settle(id, n) ------------------->  here: it has the names, calls begin
 *     gone  <-- settled; or the new home is gone
 *
 * The new home that is not told whose it is asks, and has it, or drops it. What waited comes back to its callers, never
 * executed, and they find the object by its id (moved.c). Here is the old home; host.c is the new one.
 */
#include "object/move.h"

#include "base/err.h"
#include "base/events.h"
#include "object/astray.h"
#include "object/drain.h"
#include "object/keep.h"
#include "object/moved.h"
#include "object/takers.h"

#include <stdio.h>
#include <stdlib.h>

#define HOST_TIME (5 * MOYAI_SEC)  /* for a node to say whether it takes objects */
#define BYTE_TIME (1 * MOYAI_US)   /* and as long more for each byte of a state, to take it: at least */
#define ONE_TIME  (1 * MOYAI_SEC)  /* likewise, where others could take it, too */
#define EVER_TIME (60 * MOYAI_SEC) /* that, of a node that takes its time to leave */
#define MOVERS    32u              /* objects of a node that leaves, at once */

/* How long a move waits. */
struct patience {
    moyai_ns names;  /* for names that are being registered; and methods */
    moyai_ns taken;  /* for the new home to take it; but, unless for ever ... */
    moyai_dur least; /* ... as long as this, and BYTE_TIME for each byte, at least */
};

/* An object that is offered, or settled. */
struct handing {
    moyai_ref *host;
    const uint8_t *to; /* its node's id */
    bool yours;        /* which was told so, as it asked */
};

/* ---- its scope ------------------------------------------------------------------------------- */

void move_enter(struct object *ob) {
    ob->inside++;
}

/* Is there nothing left that a move waits for? */
static void is_free(struct object *ob) {
    if (ob->inside > 0 || ob->claims > 0) return;
    if (ob->mover) (void)blocked_wake(ob->node, ob->mover, 0);
    if (ob->departs) move_away_begin(ob);
}

void move_leave(struct object *ob) {
    ob->inside--;
    is_free(ob);
}

void move_waits(struct object *ob) {
    ob->claims++;
}

void move_goes_on(struct object *ob) {
    ob->claims--;
    is_free(ob);
}

/* Nested ones are what methods in its scope may wait for: without them these would not end. */
bool move_parks(moyai_request *rq) {
    struct object *ob = rq->object;
    if (!ob->moving || ob->ended || (ob->inside > 0 && rq->nested)) return false;
    rq->wait_next = NULL;
    if (ob->parked_last)
        ob->parked_last->wait_next = rq;
    else
        ob->parked_first = rq;
    ob->parked_last = rq;
    return true;
}

/* It stays, or has ended here: each begins, or is answered that; before those that have come later, and whose turn to
 * be parked has not come. */
void move_unpark(struct object *ob) {
    moyai_request *last = NULL;
    ob->moving = ob->frozen = false;
    for (moyai_request *rq; (rq = ob->parked_first);) {
        ob->parked_first = rq->wait_next;
        rq->wait_next = last;
        last = rq;
    }
    ob->parked_last = NULL;
    for (moyai_request *rq; (rq = last);) {
        last = rq->wait_next;
        rq->wait_next = NULL;
        exec_submit_first(ob->node->x, &rq->task);
    }
}

void move_late(moyai_node *n) {
    struct object *ob, *tmp;
    HASH_ITER (hh, n->objects, ob, tmp)
        for (moyai_request *rq; (rq = ob->parked_first);) {
            ob->parked_first = rq->wait_next;
            if (!rq->wait_next) ob->parked_last = NULL;
            rq->wait_next = NULL;
            request_turn_away(rq);
        }
}

/* ---- the old home ---------------------------------------------------------------------------- */

/* These are called with the lock not held, on a fiber, and may switch it. */

/* Its names go along: so it must be known which it has. */
static int freeze(struct object *ob, moyai_ns until, struct moyai_error *e) {
    moyai_node *n = ob->node;
    int rc = 0;
    while (rc == 0 && (ob->inside > 0 || ob->claims > 0)) {
        struct blocked b;
        blocked_init(n, &b,
                     ob->inside > 0 ? "waits for the methods of an object that is to move"
                                    : "waits for the names of an object that is to move");
        ob->mover = &b;
        rc = block(n, &b, until, true);
        ob->mover = NULL;
    }
    if (rc == MOYAI_ETIMEDOUT)
        return err_set(e, rc,
                       ob->inside > 0 ? "a method of the object is in progress still"
                                      : "a name of the object is being registered still");
    if (rc == 0 && ob->ended) return err_set(e, MOYAI_ENOOBJECT, "the object has ended");
    ob->frozen = rc == 0;
    return rc < 0 ? err_set(e, rc, "%s", moyai_strerror(rc)) : 0;
}

static int host_at(moyai_node *n, const uint8_t to[16], const char *cls, moyai_ref **host, struct moyai_error *e) {
    struct moyai_node_id id;
    moyai_ref *home = NULL;
    memcpy(id.b, to, 16);
    if (moyai_node_ref(n, id, &home) < 0) return err_set(e, MOYAI_ENOMEM, "out of memory");
    moyai_future *f = moyai_call_async(home, "host", MOYAI_ARGS(cls));
    moyai_future_deadline(f, HOST_TIME);
    int rc = moyai_future_get_masked(f, MOYAI_INTO(host));
    if (rc < 0) (void)moyai_future_error(f, 0, e);
    moyai_future_free(f);
    moyai_ref_unref(home);
    return rc;
}

static int pack(struct object *ob, moyai_value **state, struct moyai_error *e) {
    moyai_node *n = ob->node;
    struct context *c = context_get(n);
    c->scope = ob;
    const int rc = klass_class(ob->klass)->pack(n, ob->self, state);
    const char *cls = klass_name(ob->klass);
    c->scope = NULL;
    if (rc == 0 && *state) return 0;
    if (rc > 0) return err_set(e, MOYAI_EUSER, "class \"%.60s\": pack returned %d", cls, rc);
    if (rc == 0) return err_set(e, MOYAI_EUSER, "class \"%.60s\": pack has made no state", cls);
    return err_set(e, rc, "class \"%.60s\" does not pack its state: %s (%d)", cls, moyai_strerror(rc), rc);
}

/* What it is called, and the name that is its id's. NULL: out of memory. */
static moyai_value *names_of(const struct object *ob) {
    size_t n = 1;
    char id[MOVED_NAME];
    bool has = false;
    for (const struct object_name *m = ob->names; m; m = m->next) n++;
    moyai_value **item = calloc(n, sizeof(moyai_value *));
    if (!item) return NULL;
    moved_name(ob->id, id);
    n = 0;
    for (const struct object_name *m = ob->names; m; m = m->next) {
        has |= strcmp(m->text, id) == 0;
        item[n++] = moyai_value_new(moyai_text(m->text, strlen(m->text)));
    }
    if (!has) item[n++] = moyai_value_new(moyai_text(id, strlen(id)));
    moyai_value *list = moyai_value_list(item, n);
    free(item);
    return list;
}

/* What the new home says to that; or has become of it. first: it was not said before. */
static enum moving_event ask(moyai_ref *host, const char *method, const struct moyai_args *args,
                             const struct patience *w, bool first, struct moyai_error *e) {
    moyai_future *f = moyai_call_async(host, method, args);
    if (w && w->taken != UINT64_MAX) {
        const moyai_ns now = moyai_now(), bytes = (moyai_ns)f->msg.length * (moyai_ns)BYTE_TIME,
                       least = now + (moyai_ns)w->least + bytes;
        moyai_future_deadline(f, (moyai_dur)((w->taken > least ? w->taken : least) - now));
    }
    int rc = moyai_future_get_masked(f, MOYAI_NONE);
    if (rc < 0) (void)moyai_future_error(f, 0, e);
    moyai_future_free(f);
    if (rc == 0) return MOVING_EV_YES;
    if (e->where == MOYAI_AT_METHOD) return MOVING_EV_NO;
    if (first && e->executed == MOYAI_NEVER_EXECUTED) return MOVING_EV_NEVER;
    return e->code == MOYAI_EDEAD || e->code == MOYAI_ECLOSED ? MOVING_EV_PEER_GONE : MOVING_EV_UNREACHABLE;
}

static enum moving_event ask_adopt(struct object *ob, struct keep *k, const struct patience *w, struct moyai_error *e) {
    moyai_node *n = ob->node;
    exec_lock(n->x);
    k->names = names_of(ob);
    exec_unlock(n->x);
    if (!k->names) {
        err_set(e, MOYAI_ENOMEM, "out of memory");
        return MOVING_EV_NO;
    }
    const enum moving_event ev =
        ask(k->ref, "adopt",
            MOYAI_ARGS(klass_name(ob->klass), moyai_bytes(ob->id, 16), moving_offer(&ob->at), k->names, k->value), w,
            true, e);
    keep_clear_values(k);
    if (e->code == MOYAI_ETOOBIG)
        err_set(e, MOYAI_ETOOBIG, "class \"%.60s\": the packed state is larger than max_message of %s node",
                klass_name(ob->klass), e->where == MOYAI_AT_CALLER ? "this" : "that");
    if (e->code == MOYAI_ETIMEDOUT)
        err_set(e, MOYAI_ETIMEDOUT, "that node has not taken the object in time, whose class is \"%.60s\"",
                klass_name(ob->klass));
    return ev;
}

/* Has this node another id than *self? What it has asked has failed for that reason, unless it was answered. */
static bool is_reborn(const moyai_node *n, const struct self_id **self, enum moving_event ev) {
    const struct self_id *now = atomic_load(&n->self);
    const bool failed = ev == MOVING_EV_PEER_GONE || ev == MOVING_EV_UNREACHABLE;
    if (now == *self) return false;
    *self = now;
    return failed;
}

/* Settle is said until the new home says something, or is gone. The last event; e: why, unless it is there. */
static enum moving_event hand(struct object *ob, struct keep *k, const struct patience *w, uint64_t number,
                              struct moyai_error *e) {
    moyai_node *n = ob->node;
    const struct self_id *self = atomic_load(&n->self);
    enum moving_event ev = ask_adopt(ob, k, w, e);
    for (moyai_dur pause = AGAIN_PAUSE;;) {
        if (is_reborn(n, &self, ev)) {
            ev = MOVING_EV_REBORN;
            err_set(e, MOYAI_EDEAD, "this node was taken for dead meanwhile");
        }
        exec_lock(n->x);
        const bool first = ob->at.state == MOVING_OFFERED;
        const enum moving_say say = moving_step(&ob->at, ev, 0);
        const bool pending = ob->pending; /* what signals it after it is said that it is there finds it there */
        exec_unlock(n->x);
        if (say == MOVING_SAY_DROP)
            (void)!moyai_call_oneway(k->ref, "drop", MOYAI_ARGS(moyai_bytes(ob->id, 16), number));
        if (ob->at.state != MOVING_SETTLES) return ev;
        if (n->drain.late || (!first && moyai_sleep_masked(n, pause) < 0)) {
            ev = MOVING_EV_LATE;
            continue;
        }
        if (!first) pause = pause < AGAIN_MOST / 2 ? 2 * pause : AGAIN_MOST;
        ev = ask(k->ref, "settle", MOYAI_ARGS(moyai_bytes(ob->id, 16), number, pending), NULL, first, e);
    }
}

/* Settle was said, and not answered: it is there, or lost. */
static int is_astray(const struct object *ob, const uint8_t to[16], bool late, struct moyai_error *e) {
    char id[MOVED_NAME];
    const struct moyai_error why = *e;
    moved_name(ob->id, id);
    if (late)
        err_set(e, MOYAI_EUNREACHABLE,
                "this node ends, and node %02x%02x%02x%02x has not said that the object is there", to[0], to[1], to[2],
                to[3]);
    else
        err_set(e, why.code,
                "the object is lost with its new home, unless it has gone on from there, or that lives: %s", why.text);
    log_error(ob->node->log, "object", "MOYAI-MOVE-LOST",
              "object %s of class \"%s\" is lost, unless node %02x%02x%02x%02x has it: %s", id, klass_name(ob->klass),
              to[0], to[1], to[2], to[3], late ? e->text : why.text);
    return e->code;
}

/* k: its state, and who is to take it. 0: it is there. Else it has stayed, or ob->ended says that nobody knows where it
 * is. */
static int hand_over(struct object *ob, struct keep *k, const uint8_t to[16], const struct patience *w,
                     struct moyai_error *e) {
    moyai_node *n = ob->node;
    struct handing h = {.host = k->ref, .to = to};
    api_enter(n); /* a name may have been registered while it was packed */
    int rc = freeze(ob, w->names, e);
    if (rc == 0 && !ob->ended) (void)moving_step(&ob->at, MOVING_EV_OFFER, 0);
    const uint64_t number = moving_offer(&ob->at);
    if (ob->at.state == MOVING_OFFERED) ob->handing = &h;
    api_leave(n);
    if (rc < 0) return rc;
    if (ob->at.state != MOVING_OFFERED) return err_set(e, MOYAI_ENOOBJECT, "the object has ended");
    const enum moving_event ev = hand(ob, k, w, number, e);
    const bool late = ev == MOVING_EV_LATE;
    exec_lock(n->x);
    ob->handing = NULL;
    if (ob->at.state == MOVING_HERE) { /* that something ended there does not say that the object has */
        for (const struct object_name *m = ob->names; m; m = m->next)
            if (m->under != atomic_load(&n->self)) names_again(n); /* it waited for that */
        const bool other = e->code == 0 || e->code == MOYAI_ENOOBJECT;
        rc = other ? err_set(e, MOYAI_EUNREACHABLE, "that node could not be reached, and has not got the object")
                   : e->code;
        exec_unlock(n->x);
        return rc;
    }
    names_depart(ob);
    moved_put(n, ob->id, to);
    ob->ended = true;
    if (ob->at.given) astray_note(n, ASTRAY_GIVEN, ob->id, ob->at.given, to, !late && !h.yours);
    if (ob->at.given && !h.yours)
        rc = is_astray(ob, to, late, e);
    else
        log_info(n->log, "object", "MOYAI-MOVED", "an object of class \"%s\" has moved to node %02x%02x%02x%02x",
                 klass_name(ob->klass), to[0], to[1], to[2], to[3]);
    exec_unlock(n->x);
    return rc;
}

int move_claimed(moyai_node *n, const uint8_t object[16], uint64_t number, const uint8_t by[16]) {
    struct object *ob = object_find(n, object);
    struct handing *h = ob ? ob->handing : NULL;
    const uint8_t *to = h ? h->to : NULL;
    struct moving gone = {.state = MOVING_NONE};
    if (!ob || ob->ended) gone.given = astray_find(n, ASTRAY_GIVEN, object, &to);
    const bool given = !ob || ob->ended, offered = !given && ob->at.state == MOVING_OFFERED;
    if (!to || !id_equal(to, by)) number = 0;
    const bool yours = moving_step(given ? &gone : &ob->at, MOVING_EV_CLAIM, number) == MOVING_SAY_YES;
    if (yours && h) h->yours = true;
    if (yours && given) astray_asked(n, ASTRAY_GIVEN, object);
    if (offered && ob->at.state == MOVING_HERE)
        (void)call_oneway_locked(h->host, "drop", MOYAI_ARGS(moyai_bytes(object, 16), number));
    return !yours ? 0 : ob && ob->pending ? 2 : 1;
}

/* ---- by the program -------------------------------------------------------------------------- */

struct move {
    struct object *ob;
    uint8_t to[16];
    moyai_ns until;
    int rc;
    struct moyai_error e;
    bool done; /* who has asked for it knows how it went */
    unsigned users;
    struct blocked *waiter;
    moyai_ref *asker;        /* of another node, whose method `moved` is called at the end; NULL: none */
    struct exec_timer timer; /* pack takes too long */
};

static void move_unref(struct move *m) {
    if (--m->users == 0) free(m);
}

/* Lock held. */
static void tell(struct move *m) {
    if (m->done) return;
    m->done = true;
    if (m->waiter) (void)blocked_wake(m->ob->node, m->waiter, 0);
    if (m->asker) (void)call_oneway_locked(m->asker, "moved", MOYAI_ARGS(m->rc, m->e.text));
}

static void pack_is_late(struct exec *x, struct exec_timer *t) {
    struct move *m = (struct move *)(void *)((char *)t - offsetof(struct move, timer));
    (void)x;
    m->rc =
        err_set(&m->e, MOYAI_ETIMEDOUT, "class \"%.60s\": its pack has not returned in time", klass_name(m->ob->klass));
    tell(m);
}

/* Nobody is in its scope. */
static void pack_and_hand_over(struct move *m, struct keep *k) {
    moyai_node *n = m->ob->node;
    struct moyai_error e = {0};
    const moyai_ns least = moyai_now() + (moyai_ns)HOST_TIME;
    exec_lock(n->x);
    if (m->until != UINT64_MAX) exec_timer_set(n->x, &m->timer, m->until > least ? m->until : least);
    exec_unlock(n->x);
    int rc = pack(m->ob, &k->value, &e);
    exec_lock(n->x);
    exec_timer_clear(n->x, &m->timer);
    const bool late = m->done;
    exec_unlock(n->x);
    if (late) return;
    const struct patience w = {m->until, m->until, HOST_TIME};
    if (rc == 0) rc = hand_over(m->ob, k, m->to, &w, &e);
    m->rc = rc;
    m->e = e;
}

static void run_move(void *arg) {
    struct move *m = arg;
    struct object *ob = m->ob;
    moyai_node *n = ob->node;
    struct keep k;
    keep_begin(n, &k);
    m->rc = host_at(n, m->to, klass_name(ob->klass), &k.ref, &m->e);
    api_enter(n);
    if (m->rc == 0) m->rc = freeze(ob, m->until, &m->e);
    api_leave(n);
    if (m->rc == 0) pack_and_hand_over(m, &k);
    keep_end(n, &k);
    api_enter(n);
    move_unpark(ob);
    drain_object(ob);
    object_leave(ob);
    n->drain.asked--;
    exec_attention(n->x);
    tell(m);
    moyai_ref_unref(m->asker);
    move_unref(m);
    api_leave(n);
}

static int begin_move(moyai_node *n, moyai_ref *ref, struct moyai_node_id to, moyai_dur timeout, struct move **ret) {
    struct object *ob = object_of(ref);
    if (!ob) return api_fail(n, MOYAI_ENOOBJECT, "the object has ended or is not of this node");
    if (!class_moves(klass_class(ob->klass)))
        return api_fail(n, MOYAI_ESTATE, "objects of class \"%.60s\" do not move: it has no pack and unpack",
                        klass_name(ob->klass));
    if (ob->moving) return api_fail(n, MOYAI_EBUSY, "the object moves already");
    if (context_get(n)->scope == ob)
        return api_fail(n, MOYAI_ESTATE, "a method cannot wait for its own end: move the object from moyai_go()");
    struct move *m = calloc(1, sizeof *m);
    if (!m) return api_fail(n, MOYAI_ENOMEM, "out of memory");
    const moyai_ns now = moyai_now();
    const bool ever = timeout >= MOYAI_FOREVER - (moyai_dur)now;
    *m = (struct move){.ob = ob, .users = 2, .until = ever ? UINT64_MAX : now + (moyai_ns)(timeout > 0 ? timeout : 0)};
    memcpy(m->to, to.b, 16);
    exec_timer_init(&m->timer, pack_is_late);
    int rc = go_locked(n, run_move, m);
    if (rc < 0) {
        free(m);
        return rc;
    }
    ob->moving = true;
    ob->users++;
    n->drain.asked++;
    *ret = m;
    return 0;
}

int move_asked(moyai_node *n, moyai_ref *ref, struct moyai_node_id to, moyai_dur timeout, moyai_ref *asker,
               struct moyai_error *e) {
    struct move *m = NULL;
    int rc = 0;
    if (!node_is(n, to.b))
        rc = begin_move(n, ref, to, timeout, &m);
    else if (!object_of(ref))
        rc = api_fail(n, MOYAI_ENOOBJECT, "the object has ended or is not of this node");
    else
        rc = call_oneway_locked(asker, "moved", MOYAI_ARGS(0, ""));
    if (m) {
        m->asker = moyai_ref_ref(asker);
        move_unref(m);
    }
    return rc < 0 ? err_set(e, rc, "%s", context_get(n)->last.text) : 0;
}

int moyai_move(moyai_ref *ref, struct moyai_node_id to, moyai_dur timeout) {
    if (!ref) return MOYAI_EINVAL;
    moyai_node *n = ref->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    api_enter(n);
    struct move *m = NULL;
    int rc = 0;
    if (node_is(n, to.b))
        rc = object_of(ref) ? 0 : api_fail(n, MOYAI_ENOOBJECT, "the object has ended or is not of this node");
    else
        rc = begin_move(n, ref, to, timeout, &m);
    while (m && rc == 0 && !m->done) {
        struct blocked b;
        blocked_init(n, &b, "waits for an object to have moved");
        m->waiter = &b;
        rc = block(n, &b, UINT64_MAX, true);
        m->waiter = NULL;
    }
    if (m && m->done && (rc = m->rc) < 0) rc = api_error(n, &m->e);
    if (m) move_unref(m);
    api_leave(n);
    return rc;
}

/* ---- a node that leaves ---------------------------------------------------------------------- */

bool move_away(struct object *ob) {
    if (ob->moving || ob->ended || ob->stays || !class_moves(klass_class(ob->klass))) return false;
    ob->moving = true;
    ob->users++;
    ob->node->drain.moves++;
    return true;
}

/* Nor any other object, then: it leaves, has gone, does not answer, or has no room for names. */
static bool takes_none(int code) {
    return code == MOYAI_ELEAVING || code == MOYAI_ECLOSED || code == MOYAI_EDEAD || code == MOYAI_EUNREACHABLE ||
           code == MOYAI_ETIMEDOUT || code == MOYAI_ELIMIT;
}

/* One of so many that may be tried yet takes it in its part of the time that is left: it may have been stopped since it
 * said that it would. The last has all. */
static struct patience patience_of(const moyai_node *n, size_t left) {
    struct patience w = {UINT64_MAX, UINT64_MAX, ONE_TIME};
    const moyai_ns now = moyai_now();
    exec_lock(n->x);
    const moyai_ns until = n->drain.until;
    exec_unlock(n->x);
    if (left > 1 && until == UINT64_MAX) w.taken = now + (moyai_ns)EVER_TIME;
    if (left > 1 && until != UINT64_MAX) w.taken = until > now ? now + (until - now) / left : now;
    return w;
}

/* The first that takes it, beginning at one of whom it is the turn. Lock not held. */
static int move_somewhere(struct object *ob, struct keep *k, struct moyai_error *e) {
    moyai_node *n = ob->node;
    struct takers *t;
    int rc = MOYAI_ELEAVING;
    while (rc != 0 && !n->drain.late && (t = takers_of(n, klass_name(ob->klass), e))) {
        uint8_t to[16];
        bool lost = false;
        const size_t all = takers_count(t), from = takers_turn(n, t) % all;
        for (size_t i = 0; i < all && rc != 0 && !n->drain.late && taker_at(n, t, (from + i) % all, &k->ref, to); i++) {
            *e = (struct moyai_error){0};
            rc = pack(ob, &k->value, e);
            const struct patience w = patience_of(n, all - i);
            if (rc == 0) rc = hand_over(ob, k, to, &w, e);
            keep_clear(k);
            if (ob->ended) return rc; /* e may be of a settle that was not answered first */
            lost = rc < 0 && takes_none(e->code);
            if (lost) taker_lost(n, t, to, e->code == MOYAI_EUNREACHABLE || e->code == MOYAI_ETIMEDOUT);
            if (lost) break;
        }
        if (!lost) break;
    }
    return rc == 0 ? 0 : e->code;
}

/* Who has told it to leave hears of each; the log says it again when there are twice as many, since objects may be made
 * meanwhile, one after the other. */
static void say_that_some_stay(moyai_node *n) {
    char text[MOYAI_ERROR_TEXT + 200];
    struct drain *d = &n->drain;
    const bool all_leave = d->why_stay.code == MOYAI_ELEAVING; /* that is no error */
    snprintf(text, sizeof text, "this node leaves, and %zu of its objects end%s with it that could have moved: %s",
             d->stay, d->stay == 1 ? "s" : "", d->why_stay.text);
    if (d->stay >= 2 * d->stay_said) {
        if (all_leave)
            log_warning(n->log, "object", "MOYAI-LEAVE-STAYS", "%s", text);
        else
            log_error(n->log, "object", "MOYAI-LEAVE-STAYS", "%s", text);
        d->stay_said = d->stay;
    }
    const size_t more = all_leave ? 0 : d->stay - d->stay_told;
    if (more == 0) return;
    snprintf(text, sizeof text, "%zu object%s that could have moved (%s)", more, more == 1 ? "" : "s",
             d->why_stay.text);
    drain_cut(n, more, text, 0, "");
    d->stay_told = d->stay;
}

/* It has gone, or not: then it is as any other from now on. */
static void stays(struct object *ob, int rc, const struct moyai_error *e) {
    moyai_node *n = ob->node;
    const bool astray = rc < 0 && ob->ended && e->code != MOYAI_ENOOBJECT;
    ob->stays = rc < 0 && !ob->ended;
    if (astray && !n->drain.late) drain_cut(n, 1, "an object whose new home has not said that it is there", 0, "");
    n->drain.moves--;
    if (ob->stays) {
        const bool worse = e->code != MOYAI_ELEAVING && n->drain.why_stay.code == MOYAI_ELEAVING;
        if (n->drain.stay++ == 0 || e->code != MOYAI_ELEAVING) n->drain.why_stay = *e;
        if (worse) n->drain.stay_said = 0;
    }
    if (n->drain.moves == 0 && n->drain.stay > 0) say_that_some_stay(n);
    move_unpark(ob);
    object_leave(ob);
}

/* Lock held, and released meanwhile. */
static void run_one(moyai_node *n, struct object *ob) {
    struct moyai_error e = {0};
    struct keep k;
    int rc = freeze(ob, UINT64_MAX, &e);
    api_leave(n);
    keep_begin(n, &k);
    if (rc == 0) rc = move_somewhere(ob, &k, &e);
    keep_end(n, &k);
    api_enter(n);
    stays(ob, rc, &e);
}

static void run_away(void *arg) {
    moyai_node *n = arg;
    api_enter(n);
    for (struct object *ob; (ob = n->drain.away);) {
        n->drain.away = ob->away;
        ob->away = NULL;
        run_one(n, ob);
    }
    n->drain.movers--;
    exec_attention(n->x);
    api_leave(n);
}

void move_away_more(moyai_node *n) {
    if (n->drain.away && n->drain.movers < MOVERS && go_locked(n, run_away, n) == 0) n->drain.movers++;
}

void move_away_begin(struct object *ob) {
    moyai_node *n = ob->node;
    ob->departs =
        ob->inside > 0 || ob->claims > 0; /* no fiber waits for its methods: these may take long, and others can go */
    if (ob->departs) return;
    ob->away = n->drain.away;
    n->drain.away = ob;
    move_away_more(n); /* if there is no room for a fiber, later */
}
