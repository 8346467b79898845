/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that come to this node: the new home of move.c (doc/spec/10-moving.md, 2 and 3). An object of class "moyai
 * host" is told by old homes.
 */
#include "base/err.h"
#include "object/astray.h"
#include "object/drain.h"
#include "object/keep.h"
#include "object/move.h"
#include "object/moved.h"

#include <stdlib.h>

#define COME_MOST  (5 * MOYAI_SEC) /* for one that comes back to have gone */
#define REST_PAUSE (2 * MOYAI_MS)  /* to look whether it has */

struct accepted {
    const struct moyai_class *cls;
    struct accepted *next;
};

struct arrival {
    struct object *ob;
    struct peer *from; /* its record is kept */
    uint8_t mine[16];  /* the id by which this node was asked */
    bool claims;       /* a fiber does */
    char **name;
    size_t names;
    struct arrival *next;
};

struct host {
    moyai_node *node;
    moyai_ref *ref;
    struct accepted *accepted;
    struct arrival *arrivals;
    size_t n_arrivals;
    size_t n_names;          /* of those that arrive */
    struct exec_timer timer; /* there was no room for a fiber */
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
    return (n->host ? n->host->n_arrivals : 0) + astray_waits(n);
}

size_t host_names(const moyai_node *n) {
    return n->host ? n->host->n_names : 0;
}

static void arrival_free(struct host *h, struct arrival *a) {
    struct arrival **at = &h->arrivals;
    while (*at != a) at = &(*at)->next;
    *at = a->next;
    h->n_arrivals--;
    h->n_names -= a->names;
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
        if (name_arrives(ob, a->name[i], &e) < 0) {
            const bool again = overlay_rdv(n->o) && e.code != MOYAI_EEXIST && e.code != MOYAI_ENOMEM;
            log_error(n->log, "object", "MOYAI-MOVE-NAME", "an object that has moved here lacks its name%s: %s",
                      again ? ", which is tried again" : "", e.text);
        }
    }
    moved_here(n, ob->id);
    astray_over(n, ob->id);
    log_info(n->log, "object", "MOYAI-MOVED-HERE", "an object of class \"%s\" has moved here", klass_name(ob->klass));
    arrival_free(h, a);
    move_unpark(ob);
    drain_object(ob); /* meanwhile this node may have begun to leave */
    object_leave(ob);
}

/* dead: who said adopt may live, and say settle. */
static void drop(struct host *h, struct arrival *a, bool dead) {
    static const uint8_t none[16];
    struct object *ob = a->ob;
    astray_note(h->node, ASTRAY_DROPPED, ob->id, ob->at.number, a->from ? peer_id(a->from) : none, dead);
    arrival_free(h, a);
    ob->ended = true;
    move_unpark(ob);
    object_leave(ob);
}

/* ---- whose it is ------------------------------------------------------------------------------ */

struct claim {
    moyai_node *node;
    uint8_t id[16];
    uint64_t object; /* as it may have come again since */
};

static struct arrival *claimed(const struct claim *c) {
    struct arrival *a = c->node->host ? arrival_find(c->node->host, c->id) : NULL;
    return a && a->ob->number == c->object ? a : NULL;
}

/* What the old home says; or has become of that. Lock held. */
static void claim_ends(struct host *h, struct arrival *a, enum moving_event ev, bool pending) {
    (void)moving_step(&a->ob->at, ev, 0);
    if (a->ob->at.state == MOVING_HERE) {
        a->ob->pending |= pending;
        settle(h, a);
    } else if (a->ob->at.state == MOVING_NONE) {
        drop(h, a, ev == MOVING_EV_PEER_GONE);
    }
}

/* One that asks for `claim` no more than others can answer: it was before there was that. */
static enum moving_event answer_to_claim(int rc, int64_t what, bool reborn) {
    if (rc == 0) return what > 0 ? MOVING_EV_YES : MOVING_EV_NO;
    if (rc == MOYAI_ENOMETHOD) return MOVING_EV_NO;
    return !reborn && (rc == MOYAI_EDEAD || rc == MOYAI_ECLOSED) ? MOVING_EV_PEER_GONE : MOVING_EV_UNREACHABLE;
}

/* Lock held, and released meanwhile. False: it need not ask again. */
static bool claim_once(struct claim *c) {
    moyai_node *n = c->node;
    struct arrival *a = claimed(c);
    if (!a) return false;
    const uint64_t number = a->ob->at.number;
    const struct self_id *self = atomic_load(&n->self);
    uint8_t mine[16];
    struct moyai_node_id from;
    memcpy(mine, a->mine, 16);
    memcpy(from.b, peer_id(a->from), 16);
    api_leave(n);
    moyai_ref *home = NULL;
    int64_t what = 0;
    int rc = moyai_node_ref(n, from, &home);
    if (rc == 0) {
        moyai_future *f =
            moyai_call_async(home, "claim", MOYAI_ARGS(moyai_bytes(c->id, 16), number, moyai_bytes(mine, 16)));
        rc = moyai_future_get_masked(f, MOYAI_INTO(&what));
        moyai_future_free(f);
    }
    moyai_ref_unref(home);
    api_enter(n);
    a = claimed(c);
    if (!a) return false;
    claim_ends(n->host, a, answer_to_claim(rc, what, atomic_load(&n->self) != self), what == 2);
    return claimed(c) != NULL;
}

static void run_claim(void *arg) {
    struct claim *c = arg;
    moyai_node *n = c->node;
    api_enter(n);
    for (moyai_dur pause = AGAIN_PAUSE; claim_once(c) && !n->drain.late;) {
        api_leave(n);
        const int rc = moyai_sleep_masked(n, pause);
        api_enter(n);
        if (rc < 0) break;
        pause = pause < AGAIN_MOST / 2 ? 2 * pause : AGAIN_MOST;
    }
    free(c);
    api_leave(n);
}

/* As long as it is not settled, dropped, or answered, whatever is said to what. Lock held. */
static void claim_begin(struct host *h, struct arrival *a) {
    if (a->claims) return;
    struct claim *c = malloc(sizeof *c);
    if (c) *c = (struct claim){.node = h->node, .object = a->ob->number};
    if (c) memcpy(c->id, a->ob->id, 16);
    a->claims = c && go_locked(h->node, run_claim, c) == 0;
    if (a->claims) return;
    free(c);
    exec_timer_set(h->node->x, &h->timer, moyai_now() + (moyai_ns)AGAIN_PAUSE);
}

static void claim_later(struct exec *x, struct exec_timer *t) {
    struct host *h = (struct host *)(void *)((char *)t - offsetof(struct host, timer));
    (void)x;
    for (struct arrival *a = h->arrivals; a; a = a->next)
        if (a->ob->at.state == MOVING_CLAIMS) claim_begin(h, a);
}

static void step_all(struct host *h, const struct peer *p, enum moving_event ev) {
    for (struct arrival *a = h->arrivals, *next; a; a = next) {
        next = a->next;
        if (p && a->from != p) continue;
        (void)moving_step(&a->ob->at, a->from ? ev : MOVING_EV_PEER_GONE, 0);
        if (a->ob->at.state == MOVING_NONE)
            drop(h, a, true);
        else
            claim_begin(h, a);
    }
}

void host_peer_failed(moyai_node *n, const struct peer *p, const struct moyai_error *why) {
    const bool gone = why->code == MOYAI_EDEAD || why->code == MOYAI_ECLOSED;
    if (n->host) step_all(n->host, p, gone ? MOVING_EV_PEER_GONE : MOVING_EV_UNREACHABLE);
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
    struct moving at = {.state = MOVING_NONE};
    struct peer *p = node_is(n, rq->caller_node) ? NULL : overlay_peer(n->o, rq->caller_node);
    struct peer_calls *pc = p ? peer_calls(p, true) : NULL;
    /* The old home has given it up while it was unpacked: a drop for it has come already, or will not. */
    if (rq->cancelled) return err_set(e, MOYAI_ECANCELED, "nobody waits for the object to arrive any more");
    if (n->drain.begun) return err_set(e, MOYAI_ELEAVING, "this node leaves");
    if (object_find(n, id) || moving_step(&at, MOVING_EV_ADOPT, number) != MOVING_SAY_YES)
        return err_set(e, MOYAI_EEXIST, "there is such an object here already");
    if (overlay_name_room(n->o) < h->n_names + a->names) /* nobody would find it here */
        return err_set(e, MOYAI_ELIMIT, "that node has as many names as it may have in a grid without a directory");
    if (p && !pc) return err_set(e, MOYAI_ENOMEM, "out of memory for a peer");
    if (p && peer_dead(p, e)) return e->code;
    int rc = object_make(n, cls, self, id, &a->ob, e);
    if (rc < 0) return rc;
    a->ob->moving = true;
    a->ob->at = at;
    a->ob->users++;
    a->from = p;
    memcpy(a->mine, node_id(n)->b, 16);
    if (pc) pc->in_room++;
    a->next = h->arrivals;
    h->arrivals = a;
    h->n_arrivals++;
    h->n_names += a->names;
    return 0;
}

/* It has gone from here a moment ago, and comes back before the answer to that has come: soon. */
static void rest_goes(const moyai_request *rq, const uint8_t id[16]) {
    moyai_node *n = rq->node;
    const moyai_ns until = moyai_now() + (moyai_ns)COME_MOST;
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
    struct keep k;
    void *self = NULL;
    struct moyai_error e = {0};
    keep_begin(n, &k);
    int rc = moyai_args(rq, MOYAI_INTO(&name, moyai_into_bytes(&id, &id_n), &number, &k.names, &k.value));
    if (rc < 0) {
        keep_end(n, &k);
        return rc;
    }
    api_enter(n);
    const struct moyai_class *cls = accepts(h, name);
    const bool leaves = n->drain.begun;
    struct arrival *a = id_n == 16 && cls && !leaves ? arrival_new(k.names) : NULL;
    k.ref = a ? ref_new(n, id, node_id(n)->b) : NULL;
    api_leave(n);
    if (leaves) rc = err_set(&e, MOYAI_ELEAVING, "this node leaves");
    if (rc == 0 && !cls) rc = err_set(&e, MOYAI_ENOENT, "objects of class \"%.60s\" are not taken here", name);
    if (rc == 0 && !k.ref) rc = err_set(&e, id_n == 16 ? MOYAI_ENOMEM : MOYAI_EARGS, "adopt: its arguments, or memory");
    if (rc == 0) {
        rc = cls->unpack(n, k.ref, k.value, &self);
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
    keep_end(n, &k);
    return rc < 0 ? moyai_raise(rq, rc, "%s", e.text) : 0;
}

/* pending NULL: that is no argument. */
static int read_move(moyai_request *rq, const void **id, uint64_t *number, bool *pending) {
    size_t n;
    const int rc = pending ? moyai_args(rq, MOYAI_INTO(moyai_into_bytes(id, &n), number, pending))
                           : moyai_args(rq, MOYAI_INTO(moyai_into_bytes(id, &n), number));
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
    struct moving gone = {.dropped = astray_find(h->node, ASTRAY_DROPPED, id, NULL)};
    struct arrival *a = arrival_find(h, id);
    const enum moving_say say = moving_step(ob ? &ob->at : &gone, MOVING_EV_SETTLE, number);
    if (a && ob->at.state == MOVING_HERE) {
        ob->pending |= pending;
        settle(h, a);
    }
    astray_asked(h->node, ASTRAY_DROPPED, id);
    api_leave(h->node);
    return say == MOVING_SAY_YES ? 0
                                 : moyai_raise(rq, MOYAI_EUNREACHABLE,
                                               "the object was dropped there, as its old home could not be reached");
}

/* drop(id, number) */
static int m_drop(moyai_request *rq, void *host) {
    struct host *h = host;
    const void *id;
    uint64_t number;
    const int rc = read_move(rq, &id, &number, NULL);
    if (rc < 0) return rc;
    api_enter(h->node);
    struct arrival *a = arrival_find(h, id);
    if (a) (void)moving_step(&a->ob->at, MOVING_EV_DROP, number);
    if (a && a->ob->at.state == MOVING_NONE) drop(h, a, false);
    astray_asked(h->node, ASTRAY_DROPPED, id);
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
            exec_timer_init(&h->timer, claim_later);
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
    if (n->host) step_all(n->host, NULL, MOVING_EV_REBORN);
}

void host_done(moyai_node *n) {
    struct host *h = n->host;
    if (!h) return;
    exec_timer_clear(n->x, &h->timer);
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
