/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that move to another node (S4, 2.3.3; doc/spec/10-moving.md). At most one node has an object that calls can
 * reach, whatever fails; moving.h has the rules:
 *
 *     old home                                                new home
 *     stays --move--> moving (calls wait, methods end)
 *                       | packs the state
 *                       +--- adopt(class, id, n, names, ...) --> arriving (calls wait): unpacked
 *     stays <-- refused, dead, gone, or unreachable              it goes, when the old home is dead, gone or
 * unreachable
 *                       +--- settle(id, n) ------------------->  here: it has the names, calls begin
 *     gone  <-- settled; or that is not known
 *
 * What waited comes back to its callers, never executed, and they find the object by its id (moved.c).
 */
#include "object/move.h"

#include "base/err.h"
#include "base/events.h"
#include "object/drain.h"
#include "object/moved.h"

#include <stdio.h>
#include <stdlib.h>

#define AGAIN_PAUSE (100 * MOYAI_MS) /* before a node is asked again that could not be reached */
#define SETTLE_MOST (30 * MOYAI_SEC) /* for that */
#define MISSED_TIME (SETTLE_MOST + 5 * MOYAI_SEC)
#define HOST_TIME   (5 * MOYAI_SEC) /* for a node to say whether it takes objects */
#define BYTE_TIME   (1 * MOYAI_US)  /* and as long more for each byte of a state, to take it: at least */
#define MOVERS      32u             /* objects of a node that leaves, at once */
#define TARGETS     256u            /* nodes looked at to find one for an object */
#define REST_PAUSE  (2 * MOYAI_MS)  /* to look whether an object is gone that comes back */

/* ---- its scope ------------------------------------------------------------------------------- */

void move_enter(struct object *ob) {
    ob->inside++;
}

void move_leave(struct object *ob) {
    if (--ob->inside > 0) return;
    if (ob->mover) (void)blocked_wake(ob->node, ob->mover, 0);
    if (ob->departs) move_away_begin(ob);
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
static void unpark(struct object *ob) {
    moyai_request *last = NULL;
    ob->moving = false;
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

/* ---- the new home ---------------------------------------------------------------------------- */

struct accepted {
    const struct moyai_class *cls;
    struct accepted *next;
};

struct arrival {
    struct object *ob;
    struct peer *from; /* its record is kept */
    char **name;
    size_t names;
    struct arrival *next;
};

/* One that went, as its old home could not be reached: that may have said settle, says it again, and has to hear that
 * the object is not here. Till then this node does not leave. */
struct missed {
    uint8_t id[16], from[16];
    moyai_ns until;
    struct missed *next;
};

struct host {
    moyai_node *node;
    moyai_ref *ref;
    struct accepted *accepted;
    struct arrival *arrivals;
    size_t n_arrivals, n_missed;
    struct missed *missed;   /* the latest first */
    struct exec_timer timer; /* for the end of these */
};

static const struct moyai_class *accepts(const struct host *h, const char *name) {
    for (const struct accepted *a = h ? h->accepted : NULL; a; a = a->next)
        if (strcmp(a->cls->name, name) == 0) return a->cls;
    return NULL;
}

moyai_ref *host_of(moyai_node *n, const char *cls) {
    return accepts(n->host, cls) ? n->host->ref : NULL;
}

bool host_is(const moyai_node *n, const struct object *ob) {
    return n->host && ob && id_equal(ob->id, n->host->ref->object);
}

size_t host_arrivals(const moyai_node *n) {
    return n->host ? n->host->n_arrivals + n->host->n_missed : 0;
}

static void arrival_free(struct host *h, struct arrival *a) {
    struct arrival **at = &h->arrivals;
    while (*at != a) at = &(*at)->next;
    *at = a->next;
    h->n_arrivals--;
    struct peer_calls *pc = a->from ? peer_calls(a->from, false) : NULL;
    if (pc && --pc->in_room == 0) overlay_release(a->from);
    for (size_t i = 0; i < a->names; i++) free(a->name[i]);
    free(a->name);
    free(a);
}

static struct arrival *arrival_find(const struct host *h, const uint8_t id[16]) {
    struct arrival *a = h->arrivals;
    while (a && !id_equal(a->ob->id, id)) a = a->next;
    return a;
}

/* It is here. */
static void settle(struct host *h, struct arrival *a) {
    struct object *ob = a->ob;
    moyai_node *n = h->node;
    for (size_t i = 0; i < a->names; i++) {
        struct moyai_error e = {0};
        if (name_arrives(ob, a->name[i], &e) < 0)
            log_error(n->log, "object", "MOYAI-MOVE-NAME", "an object that has moved here lacks its name%s: %s",
                      e.code == MOYAI_EEXIST || e.code == MOYAI_ENOMEM ? "" : ", which is tried again", e.text);
    }
    moved_here(n, ob->id);
    log_info(n->log, "object", "MOYAI-MOVED-HERE", "an object of class \"%s\" has moved here", klass_name(ob->klass));
    arrival_free(h, a);
    unpark(ob);
    if (n->drain.begun && move_away(ob)) move_away_begin(ob); /* meanwhile this node has begun to leave */
    object_leave(ob);
}

static void drop(struct host *h, struct arrival *a) {
    struct object *ob = a->ob;
    arrival_free(h, a);
    ob->ended = true;
    unpark(ob);
    object_leave(ob);
}

/* Those of that id, of that node, and of before that time are over; NULL: any. */
static void missed_over(struct host *h, const uint8_t *id, const uint8_t *from, moyai_ns before) {
    for (struct missed **at = &h->missed, *m; (m = *at);) {
        if ((id && !id_equal(m->id, id)) || (from && !id_equal(m->from, from)) || m->until > before) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        h->n_missed--;
        free(m);
    }
    if (h->n_missed == 0) exec_timer_clear(h->node->x, &h->timer);
    exec_attention(h->node->x);
}

static void missed_late(struct exec *x, struct exec_timer *t) {
    struct host *h = (struct host *)(void *)((char *)t - offsetof(struct host, timer));
    const moyai_ns now = moyai_now();
    missed_over(h, NULL, NULL, now);
    if (h->missed) exec_timer_set(x, t, now + (moyai_ns)AGAIN_PAUSE);
}

/* Without memory for it the object may be lost, if this node leaves at once. */
static void missed_new(struct host *h, const struct arrival *a) {
    struct missed *m = a->from ? malloc(sizeof *m) : NULL;
    if (!m) return;
    *m = (struct missed){.until = moyai_now() + (moyai_ns)MISSED_TIME, .next = h->missed};
    memcpy(m->id, a->ob->id, 16);
    memcpy(m->from, peer_id(a->from), 16);
    if (!h->missed) exec_timer_set(h->node->x, &h->timer, m->until);
    h->missed = m;
    h->n_missed++;
}

void host_peer_failed(moyai_node *n, const struct peer *p, const struct moyai_error *why) {
    const bool gone = why->code == MOYAI_EDEAD || why->code == MOYAI_ECLOSED;
    if (n->host && n->host->missed && gone) missed_over(n->host, NULL, peer_id(p), UINT64_MAX);
    for (struct arrival *a = n->host ? n->host->arrivals : NULL, *next; a; a = next) {
        next = a->next;
        if (a->from != p) continue;
        (void)moving_step(&a->ob->at, gone ? MOVING_EV_PEER_GONE : MOVING_EV_UNREACHABLE, 0);
        if (!gone) missed_new(n->host, a);
        drop(n->host, a);
    }
}

/* The texts of a list of names. NULL: out of memory, or it is none. */
static struct arrival *arrival_new(const moyai_value *names) {
    struct arrival *a = calloc(1, sizeof *a);
    const size_t n = moyai_value_count(names);
    if (a) a->name = calloc(n + 1, sizeof *a->name);
    for (size_t i = 0; a && a->name && i < n; i++) {
        const char *text = NULL;
        if (moyai_value_get(moyai_value_at(names, i), MOYAI_INTO(&text)->v[0]) == 0) a->name[i] = strdup(text);
        if (!a->name[i]) break;
        a->names++;
    }
    if (a && a->name && a->names == n) return a;
    for (size_t i = 0; a && i < a->names; i++) free(a->name[i]);
    if (a) free(a->name);
    free(a);
    return NULL;
}

static void arrival_abort(struct arrival *a) {
    for (size_t i = 0; i < a->names; i++) free(a->name[i]);
    free(a->name);
    free(a);
}

/* The object is made, and waits. Lock held. */
static int arrive(const moyai_request *rq, struct arrival *a, const struct moyai_class *cls, const uint8_t id[16],
                  void *self, uint64_t number, struct moyai_error *e) {
    moyai_node *n = rq->node;
    struct host *h = n->host;
    struct moving at = {.seen = moved_seen(n, id)};
    struct peer *p = node_is(n, rq->caller_node) ? NULL : overlay_peer(n->o, rq->caller_node);
    struct peer_calls *pc = p ? peer_calls(p, true) : NULL;
    /* The old home has given it up while it was unpacked: a drop for it has come already, or will not. */
    if (rq->cancelled) return err_set(e, MOYAI_ECANCELED, "nobody waits for the object to arrive any more");
    if (n->drain.begun) return err_set(e, MOYAI_ELEAVING, "this node leaves");
    if (object_find(n, id) || moving_step(&at, MOVING_EV_ADOPT, number) != MOVING_SAY_YES)
        return err_set(e, MOYAI_EEXIST, "there is such an object here already");
    if (p && !pc) return err_set(e, MOYAI_ENOMEM, "out of memory for a peer");
    if (p && peer_dead(p, e)) return e->code;
    int rc = object_make(n, cls, self, id, &a->ob, e);
    if (rc < 0) return rc;
    a->ob->moving = true;
    a->ob->at = at;
    a->ob->users++;
    a->from = p;
    if (pc) pc->in_room++;
    a->next = h->arrivals;
    h->arrivals = a;
    h->n_arrivals++;
    return 0;
}

/* It has gone from here a moment ago, and comes back before the answer to that has come: soon. */
static void rest_goes(const moyai_request *rq, const uint8_t id[16]) {
    moyai_node *n = rq->node;
    const moyai_ns until = moyai_now() + (moyai_ns)HOST_TIME;
    for (bool here = true; here && moyai_now() < until;) {
        api_enter(n);
        const struct object *ob = object_find(n, id);
        here = ob && (ob->ended || ob->at.state == MOVING_SETTLES) && !rq->cancelled;
        api_leave(n);
        if (here && moyai_sleep_masked(n, REST_PAUSE) < 0) return;
    }
}

/* adopt(class, id, number of the move, names, state) */
static int m_adopt(moyai_request *rq, void *host) {
    struct host *h = host;
    moyai_node *n = h->node;
    const char *name;
    const void *id;
    size_t id_n;
    uint64_t number;
    moyai_value *names = NULL, *state = NULL;
    void *self = NULL;
    struct moyai_error e = {0};
    int rc = moyai_args(rq, MOYAI_INTO(&name, moyai_into_bytes(&id, &id_n), &number, &names, &state));
    if (rc < 0) return rc;
    api_enter(n);
    const struct moyai_class *cls = accepts(h, name);
    const bool leaves = n->drain.begun;
    struct arrival *a = id_n == 16 && cls && !leaves ? arrival_new(names) : NULL;
    moyai_ref *ref = a ? ref_new(n, id, node_id(n)->b) : NULL;
    api_leave(n);
    if (leaves) rc = err_set(&e, MOYAI_ELEAVING, "this node leaves");
    if (rc == 0 && !cls) rc = err_set(&e, MOYAI_ENOENT, "objects of class \"%.60s\" are not taken here", name);
    if (rc == 0 && !ref) rc = err_set(&e, id_n == 16 ? MOYAI_ENOMEM : MOYAI_EARGS, "adopt: its arguments, or memory");
    if (rc == 0) {
        rc = cls->unpack(n, ref, state, &self);
        if (rc < 0) err_set(&e, rc, "class \"%.60s\" cannot unpack the state: %s", name, moyai_strerror(rc));
        if (rc > 0)
            rc = err_set(&e, MOYAI_EUSER, "class \"%.60s\": unpack returned %d, which is no error code", name, rc);
    }
    if (rc == 0) {
        rest_goes(rq, id);
        api_enter(n);
        rc = arrive(rq, a, cls, id, self, number, &e);
        api_leave(n);
        if (rc < 0 && cls->destroy) cls->destroy(self);
        if (rc == 0) a = NULL;
    }
    if (a) arrival_abort(a);
    moyai_ref_unref(ref);
    moyai_value_free(names);
    moyai_value_free(state);
    return rc < 0 ? moyai_raise(rq, rc, "%s", e.text) : 0;
}

static int read_move(moyai_request *rq, const void **id, uint64_t *number, bool *pending) {
    size_t n;
    const int rc = moyai_args(rq, MOYAI_INTO(moyai_into_bytes(id, &n), number, pending));
    if (rc < 0) return rc;
    return n == 16 ? 0 : moyai_raise(rq, MOYAI_EARGS, "an object's id has 16 bytes");
}

/* settle(id, number, a signal is pending): it is here now, or was before. */
static int m_settle(moyai_request *rq, void *host) {
    struct host *h = host;
    const void *id;
    uint64_t number;
    bool pending;
    const int rc = read_move(rq, &id, &number, &pending);
    if (rc < 0) return rc;
    api_enter(h->node);
    struct object *ob = object_find(h->node, id);
    struct moving gone = {.seen = moved_seen(h->node, id)};
    struct arrival *a = arrival_find(h, id);
    const enum moving_say say = moving_step(ob ? &ob->at : &gone, MOVING_EV_SETTLE, number);
    if (a && ob->at.state == MOVING_HERE) {
        ob->pending |= pending;
        settle(h, a);
    }
    if (h->missed) missed_over(h, id, NULL, UINT64_MAX);
    api_leave(h->node);
    return say == MOVING_SAY_YES ? 0 : moyai_raise(rq, MOYAI_ENOOBJECT, "no such object has come here");
}

/* drop(id, number, no matter) */
static int m_drop(moyai_request *rq, void *host) {
    struct host *h = host;
    const void *id;
    uint64_t number;
    bool pending;
    const int rc = read_move(rq, &id, &number, &pending);
    if (rc < 0) return rc;
    api_enter(h->node);
    struct arrival *a = arrival_find(h, id);
    if (a) (void)moving_step(&a->ob->at, MOVING_EV_DROP, number);
    if (a && a->ob->at.state == MOVING_NONE) drop(h, a);
    if (h->missed) missed_over(h, id, NULL, UINT64_MAX);
    api_leave(h->node);
    return 0;
}

static const struct moyai_method host_methods[] = {
    {"adopt", m_adopt}, {"settle", m_settle}, {"drop", m_drop}, {NULL, NULL}};
static const struct moyai_class host_class = MOYAI_CLASS("moyai host", host_methods, NULL);

int moyai_accept(moyai_node *n, const struct moyai_class *cls) {
    if (!n) return MOYAI_EINVAL;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    api_enter(n);
    int rc = 0;
    if (!cls || !cls->name || !class_moves(cls))
        rc = api_fail(n, MOYAI_EINVAL, "a class whose objects move here is made with MOYAI_CLASS_MOVING");
    if (rc == 0 && accepts(n->host, cls->name) && accepts(n->host, cls->name) != cls)
        rc = api_fail(n, MOYAI_EEXIST, "objects of another class \"%.60s\" move here already", cls->name);
    if (rc == 0 && !n->host) {
        struct moyai_error e = {0};
        struct host *h = calloc(1, sizeof *h);
        struct object *ob;
        if (h) {
            h->node = n;
            exec_timer_init(&h->timer, missed_late);
        }
        rc = h ? object_make(n, &host_class, h, NULL, &ob, &e) : err_set(&e, MOYAI_ENOMEM, "out of memory");
        if (rc == 0) {
            h->ref = moyai_ref_ref(ob->ref);
            n->host = h;
        } else {
            free(h);
            (void)api_error(n, &e);
        }
    }
    struct accepted *a = rc == 0 && !accepts(n->host, cls->name) ? calloc(1, sizeof *a) : NULL;
    if (a) {
        *a = (struct accepted){cls, n->host->accepted};
        n->host->accepted = a;
    } else if (rc == 0 && !accepts(n->host, cls->name)) {
        rc = api_fail(n, MOYAI_ENOMEM, "out of memory");
    }
    api_leave(n);
    return rc;
}

void host_rejoins(moyai_node *n) {
    while (n->host && n->host->arrivals) drop(n->host, n->host->arrivals);
}

void host_done(moyai_node *n) {
    struct host *h = n->host;
    if (!h) return;
    if (h->missed) missed_over(h, NULL, NULL, UINT64_MAX);
    n->host = NULL;
    while (h->arrivals) {
        struct arrival *a = h->arrivals;
        h->arrivals = a->next;
        arrival_abort(a);
    }
    for (struct accepted *a = h->accepted, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    moyai_ref_unref(h->ref);
    free(h);
}

/* ---- the old home ---------------------------------------------------------------------------- */

/* These are called with the lock not held, on a fiber, and may switch it. */

static int freeze(struct object *ob, moyai_ns until, struct moyai_error *e) {
    moyai_node *n = ob->node;
    int rc = 0;
    while (rc == 0 && ob->inside > 0) {
        struct blocked b;
        blocked_init(n, &b, "waits for the methods of an object that is to move");
        ob->mover = &b;
        rc = block(n, &b, until, true);
        ob->mover = NULL;
    }
    if (rc == MOYAI_ETIMEDOUT) return err_set(e, rc, "a method of the object is in progress still");
    if (rc == 0 && ob->ended) return err_set(e, MOYAI_ENOOBJECT, "the object has ended");
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
    int rc = klass_class(ob->klass)->pack(n, ob->self, state);
    c->scope = NULL;
    if (rc == 0 && !*state) rc = MOYAI_EUSER;
    if (rc < 0)
        err_set(e, rc, "class \"%.60s\" does not pack its state: %s", klass_name(ob->klass), moyai_strerror(rc));
    if (rc > 0) rc = err_set(e, MOYAI_EUSER, "class \"%.60s\": pack returned %d", klass_name(ob->klass), rc);
    return rc;
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
static enum moving_event ask(moyai_ref *host, const char *method, const struct moyai_args *args, moyai_ns until,
                             bool first, struct moyai_error *e) {
    moyai_future *f = moyai_call_async(host, method, args);
    const moyai_ns now = moyai_now(), least = now + (moyai_ns)HOST_TIME + (moyai_ns)f->msg.length * (moyai_ns)BYTE_TIME;
    if (until != UINT64_MAX) moyai_future_deadline(f, (moyai_dur)((until > least ? until : least) - now));
    int rc = moyai_future_get_masked(f, MOYAI_NONE);
    if (rc < 0) (void)moyai_future_error(f, 0, e);
    moyai_future_free(f);
    if (rc == 0) return MOVING_EV_YES;
    if (e->where == MOYAI_AT_METHOD || (first && e->executed == MOYAI_NEVER_EXECUTED)) return MOVING_EV_NO;
    return e->code == MOYAI_EDEAD || e->code == MOYAI_ECLOSED ? MOVING_EV_PEER_GONE : MOVING_EV_UNREACHABLE;
}

static enum moving_event ask_adopt(struct object *ob, moyai_ref *host, moyai_value *state, moyai_ns until,
                                   struct moyai_error *e) {
    moyai_node *n = ob->node;
    exec_lock(n->x);
    moyai_value *names = names_of(ob);
    exec_unlock(n->x);
    if (!names) {
        err_set(e, MOYAI_ENOMEM, "out of memory");
        return MOVING_EV_NO;
    }
    const enum moving_event ev = ask(
        host, "adopt", MOYAI_ARGS(klass_name(ob->klass), moyai_bytes(ob->id, 16), moving_offer(&ob->at), names, state),
        until, true, e);
    moyai_value_free(names);
    if (e->code == MOYAI_ETOOBIG)
        err_set(e, MOYAI_ETOOBIG, "class \"%.60s\": the packed state is larger than max_message of %s node",
                klass_name(ob->klass), e->where == MOYAI_AT_CALLER ? "this" : "that");
    if (e->code == MOYAI_ETIMEDOUT)
        err_set(e, MOYAI_ETIMEDOUT, "that node has not taken the object in time, whose class is \"%.60s\"",
                klass_name(ob->klass));
    return ev;
}

/* Nobody is in its scope. 0: it is there, or nobody knows where. */
static int hand_over(struct object *ob, moyai_ref *host, const uint8_t to[16], moyai_ns until, struct moyai_error *e) {
    moyai_node *n = ob->node;
    moyai_value *state = NULL;
    const struct self_id *self = atomic_load(&n->self);
    int rc = pack(ob, &state, e);
    if (rc < 0) return rc;
    exec_lock(n->x);
    if (!ob->ended) (void)moving_step(&ob->at, MOVING_EV_OFFER, 0);
    const uint64_t number = moving_offer(&ob->at);
    exec_unlock(n->x);
    if (ob->at.state != MOVING_OFFERED) {
        moyai_value_free(state);
        return err_set(e, MOYAI_ENOOBJECT, "the object has ended");
    }
    enum moving_event ev = ask_adopt(ob, host, state, until, e);
    moyai_value_free(state);
    const moyai_ns late = moyai_now() + (moyai_ns)SETTLE_MOST;
    for (bool first = true;; first = false) {
        if (atomic_load(&n->self) != self) {
            ev = MOVING_EV_REBORN;
            err_set(e, MOYAI_EDEAD, "this node was taken for dead meanwhile");
        }
        exec_lock(n->x);
        const enum moving_say say = moving_step(&ob->at, ev, 0);
        const bool pending = ob->pending; /* what signals it after it is said that it is there finds it there */
        exec_unlock(n->x);
        if (say == MOVING_SAY_DROP)
            (void)!moyai_call_oneway(host, "drop", MOYAI_ARGS(moyai_bytes(ob->id, 16), number, false));
        if (ob->at.state != MOVING_SETTLES) break;
        if (!first && (moyai_now() > late || moyai_sleep_masked(n, AGAIN_PAUSE) < 0))
            ev = MOVING_EV_LATE;
        else
            ev = ask(host, "settle", MOYAI_ARGS(moyai_bytes(ob->id, 16), number, pending), UINT64_MAX, first, e);
    }
    if (ob->at.state == MOVING_HERE) return e->code;
    exec_lock(n->x);
    names_depart(ob);
    moved_put(n, ob->id, to, ob->at.seen);
    ob->ended = true;
    log_info(n->log, "object", "MOYAI-MOVED", "an object of class \"%s\" has moved to node %02x%02x%02x%02x",
             klass_name(ob->klass), to[0], to[1], to[2], to[3]);
    exec_unlock(n->x);
    return 0;
}

/* ---- by the program -------------------------------------------------------------------------- */

struct move {
    struct object *ob;
    uint8_t to[16];
    moyai_ns until;
    int rc;
    struct moyai_error e;
    bool done;
    unsigned users;
    struct blocked *waiter;
    moyai_ref *asker; /* of another node, whose method `moved` is called at the end; NULL: none */
};

static void move_unref(struct move *m) {
    if (--m->users == 0) free(m);
}

static void run_move(void *arg) {
    struct move *m = arg;
    struct object *ob = m->ob;
    moyai_node *n = ob->node;
    moyai_ref *host = NULL;
    m->rc = host_at(n, m->to, klass_name(ob->klass), &host, &m->e);
    api_enter(n);
    if (m->rc == 0) m->rc = freeze(ob, m->until, &m->e);
    api_leave(n);
    if (m->rc == 0) m->rc = hand_over(ob, host, m->to, m->until, &m->e);
    moyai_ref_unref(host);
    api_enter(n);
    unpark(ob);
    if (n->drain.begun && move_away(ob)) move_away_begin(ob);
    object_leave(ob);
    n->drain.asked--;
    exec_attention(n->x);
    m->done = true;
    if (m->waiter) (void)blocked_wake(n, m->waiter, 0);
    if (m->asker) (void)call_oneway_locked(m->asker, "moved", MOYAI_ARGS(m->rc, m->e.text));
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

/* Nodes that may take it, those that are linked first. */
struct targets {
    const moyai_node *n;
    size_t count;
    uint8_t id[TARGETS][16];
};

static bool add_target(struct targets *t, const uint8_t id[16]) {
    if (node_is(t->n, id)) return true;
    for (size_t i = 0; i < t->count; i++)
        if (id_equal(t->id[i], id)) return true;
    memcpy(t->id[t->count++], id, 16);
    return t->count < TARGETS;
}

static bool add_linked(const struct overlay_link_info *l, void *ctx) {
    return l->observer || add_target(ctx, l->peer);
}

static bool add_known(const struct overlay_known *k, void *ctx) {
    return add_target(ctx, k->id);
}

static bool add_entry(const struct rdv_node *node, const struct moyai_error *bad, void *ctx) {
    return bad || node->leaving || add_target(ctx, node->id.b);
}

/* Nodes that leave, do not answer, or cannot be reached are not asked for each object again. Lock not held. */
static bool is_useless(moyai_node *n, const uint8_t id[16]) {
    bool found = false;
    exec_lock(n->x);
    for (size_t i = 0; i < n->drain.n_useless && !found; i++) found = id_equal(n->drain.useless[i].b, id);
    exec_unlock(n->x);
    return found;
}

static void add_useless(moyai_node *n, const uint8_t id[16]) {
    exec_lock(n->x);
    if (n->drain.n_useless < USELESS) memcpy(n->drain.useless[n->drain.n_useless++].b, id, 16);
    exec_unlock(n->x);
}

/* Lock not held. The first that takes it; who was asked by another object begins elsewhere. */
static int move_somewhere(struct object *ob, struct targets *t, struct moyai_error *e) {
    moyai_node *n = ob->node;
    const size_t from = t->count ? id_hash(ob->id) % t->count : 0;
    int rc = err_set(e, MOYAI_ELEAVING, "no node that stays takes objects of its class (moyai_accept)");
    for (size_t i = 0; rc != 0 && i < t->count && !n->drain.late; i++) {
        const uint8_t *to = t->id[(from + i) % t->count];
        struct moyai_error why = {0};
        moyai_ref *host = NULL;
        if (is_useless(n, to)) continue;
        const int asked = host_at(n, to, klass_name(ob->klass), &host, &why);
        if (asked == 0 && (rc = hand_over(ob, host, to, UINT64_MAX, &why)) < 0) *e = why;
        if (asked < 0 && asked != MOYAI_ENOENT) add_useless(n, to);
        moyai_ref_unref(host);
    }
    return rc;
}

/* It has gone, or not: then it is as any other from now on. */
static void stays(struct object *ob, int rc, const struct moyai_error *e) {
    moyai_node *n = ob->node;
    ob->stays = rc < 0 && !ob->ended;
    n->drain.moves--;
    if (ob->stays && n->drain.stay++ == 0) n->drain.why_stay = *e;
    if (ob->stays && e->code != MOYAI_ELEAVING) n->drain.why_stay = *e;
    if (n->drain.moves == 0 && n->drain.stay > 0) {
        char text[MOYAI_ERROR_TEXT + 200];
        snprintf(text, sizeof text,
                 "this node leaves, and %zu of its objects end%s with it that could have moved: class \"%.60s\": %s",
                 n->drain.stay, n->drain.stay == 1 ? "s" : "", klass_name(ob->klass), n->drain.why_stay.text);
        if (n->drain.why_stay.code == MOYAI_ELEAVING) /* as always when all leave */
            log_warning(n->log, "object", "MOYAI-LEAVE-STAYS", "%s", text);
        else
            log_error(n->log, "object", "MOYAI-LEAVE-STAYS", "%s", text);
    }
    unpark(ob);
    object_leave(ob);
}

/* Lock held, and released meanwhile. */
static void run_one(moyai_node *n, struct object *ob) {
    struct moyai_error e = {0};
    struct targets *t = calloc(1, sizeof *t);
    int rc = t ? freeze(ob, UINT64_MAX, &e) : err_set(&e, MOYAI_ENOMEM, "out of memory");
    struct rdv *r = overlay_rdv(n->o);
    if (t) {
        t->n = n;
        overlay_each_link(n->o, add_linked, t);
        if (t->count < TARGETS) overlay_each_known(n->o, add_known, t);
        if (t->count < TARGETS && r && rdv_nodes(r, add_entry, t, NULL) < 0)
            r = NULL; /* those that are linked have to do */
    }
    api_leave(n);
    if (rc == 0) rc = move_somewhere(ob, t, &e);
    free(t);
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
    ob->departs = ob->inside > 0; /* no fiber waits for its methods: these may take long, and others can go */
    if (ob->departs) return;
    ob->away = n->drain.away;
    n->drain.away = ob;
    move_away_more(n); /* if there is no room for a fiber, later */
}
