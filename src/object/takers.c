/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that leaves asks others for their hosts: those that it is linked to, those of which it knows, and then those
 * that these are linked to, and so on, until some take its objects. Many are asked at once, so one that does not answer
 * holds up nothing that another could say. He is asked again, should those who have answered turn out to leave, or to
 * take nothing: he may be the only one who stays, and slow.
 */
#include "object/takers.h"

#include "base/err.h"
#include "object/drain.h"
#include "object/keep.h"

#include <stdlib.h>

#define ASK_TIME    (5 * MOYAI_SEC)  /* for an answer */
#define TRIES       3u               /* as often: longer than a session is kept up without its other end */
#define ASKS        32u              /* at once */
#define ASKED_MOST  256u             /* nodes */
#define TAKERS_MOST 16u              /* enough: objects are spread over them */
#define MORE_TIME   (50 * MOYAI_MS)  /* so long after the first, others are taken as well */
#define LOOK_TIME   (200 * MOYAI_MS) /* after which those that are not there any more are not waited for */
#define AGAIN_TIME  (300 * MOYAI_MS) /* before those who stay are asked again for whom they are linked to now, */
#define AGAIN_MOST  4u               /* so often, if others leave */
#define NOBODY_TIME (2 * MOYAI_SEC)  /* that there is nobody is believed so long */

enum wants { NOTHING, HOST, NEAR };

struct asked {
    uint8_t id[16];
    moyai_future *f; /* host or near */
    bool near;
    enum wants wants; /* to be asked for next */
    unsigned tries;   /* how often there was no answer */
    bool nowhere;     /* nobody had a way to it: it may come back */
    bool stays;
};

struct taker {
    moyai_ref *host;
    uint8_t id[16];
};

struct takers {
    struct takers *next; /* of another class */
    struct asked asked[ASKED_MOST];
    size_t n_asked;
    struct taker found[TAKERS_MOST];
    size_t n_found;
    size_t turn; /* of whom the next object is; at first anybody's, or all who leave would begin at the same */
    size_t stay; /* have said that they do not take them */
    bool others; /* leave, or do not answer: who stays may be linked to others in a moment */
    bool looking;
    struct blocked *waits; /* fibers, for what that finds */
    moyai_ns nobody;       /* when it was found that there is nobody */
    char cls[];
};

/* ---- whom to ask ----------------------------------------------------------------------------- */

static bool add(struct takers *t, const moyai_node *n, const uint8_t id[16]) {
    if (node_is(n, id)) return true;
    for (size_t i = 0; i < t->n_asked; i++)
        if (id_equal(t->asked[i].id, id)) return true;
    if (t->n_asked == ASKED_MOST) return false;
    struct asked *k = &t->asked[t->n_asked++];
    k->wants = HOST;
    memcpy(k->id, id, 16);
    return true;
}

struct adding {
    struct takers *t;
    const moyai_node *n;
};

static bool add_linked(const struct overlay_link_info *l, void *ctx) {
    struct adding *a = ctx;
    return l->observer || add(a->t, a->n, l->peer);
}

static bool add_known(const struct overlay_known *k, void *ctx) {
    struct adding *a = ctx;
    return add(a->t, a->n, k->id);
}

static bool add_entry(const struct rdv_node *node, const struct moyai_error *bad, void *ctx) {
    struct adding *a = ctx;
    return bad || node->leaving || add(a->t, a->n, node->id.b);
}

/* Lock held, which the directory gives back meanwhile. Those of an earlier time are not asked again. */
static void add_all(moyai_node *n, struct takers *t) {
    struct adding a = {t, n};
    struct rdv *r = overlay_rdv(n->o);
    overlay_each_link(n->o, add_linked, &a);
    overlay_each_known(n->o, add_known, &a);
    if (r) (void)!rdv_nodes(r, add_entry, &a, NULL); /* those that are linked have to do */
}

static void add_near(moyai_node *n, struct takers *t, const uint8_t *ids, size_t bytes) {
    for (; bytes >= 16; ids += 16, bytes -= 16) (void)add(t, n, ids);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool begin(moyai_node *n, struct takers *t, moyai_set *set, struct asked *k) {
    struct moyai_node_id id;
    moyai_ref *ref = NULL;
    memcpy(id.b, k->id, 16);
    k->near = k->wants == NEAR;
    k->wants = NOTHING;
    if (moyai_node_ref(n, id, &ref) < 0) return false;
    k->f = k->near ? moyai_call_async(ref, "near", MOYAI_NONE) : moyai_call_async(ref, "host", MOYAI_ARGS(t->cls));
    moyai_ref_unref(ref);
    moyai_future_deadline(k->f, ASK_TIME);
    moyai_future_set_user(k->f, k);
    if (moyai_set_add(set, k->f) == 0) return true;
    moyai_future_free(k->f);
    k->f = NULL;
    return false;
}

/* Not there any more: others had it among those they know, who keep them a while. */
static bool is_nowhere(const moyai_node *n, const struct asked *k) {
    const struct peer *p = overlay_find(n->o, k->id);
    return p && peer_nowhere(p);
}

static void take_host(struct takers *t, struct asked *k) {
    struct moyai_error e = {0};
    moyai_ref *host = NULL;
    if (moyai_future_get_masked(k->f, MOYAI_INTO(&host)) == 0) {
        k->tries = 0;
        if (t->n_found < TAKERS_MOST) {
            t->found[t->n_found].host = host;
            memcpy(t->found[t->n_found++].id, k->id, 16);
        } else {
            moyai_ref_unref(host);
            k->wants = HOST; /* should those be lost */
        }
        return;
    }
    (void)moyai_future_error(k->f, 0, &e);
    t->others |= e.code != MOYAI_ENOENT;
    switch (e.code) {
    case MOYAI_ENOENT:
        t->stay += !k->stays;
        k->stays = true;
        k->wants = NEAR; /* it may know of others */
        break;
    case MOYAI_ELEAVING:
        k->wants = NEAR;
        break;
    case MOYAI_EDEAD:
    case MOYAI_ECLOSED:
        break;
    default: /* ETIMEDOUT: one that is stopped may go on; else in a while, as it can be known at once */
        if (++k->tries < TRIES && e.code == MOYAI_ETIMEDOUT) k->wants = HOST;
        return;
    }
    k->tries = 0;
}

static void take_near(moyai_node *n, struct takers *t, struct asked *k) {
    const void *ids = NULL;
    size_t bytes = 0;
    if (moyai_future_get_masked(k->f, MOYAI_INTO(moyai_into_bytes(&ids, &bytes))) == 0) add_near(n, t, ids, bytes);
}

/* The next to be asked: for its host, and first who has not been silent; NULL: there is none just now. */
static struct asked *next_of(struct takers *t) {
    struct asked *best = NULL;
    for (size_t i = 0; i < t->n_asked; i++) {
        struct asked *k = &t->asked[i];
        if (k->wants == HOST && (!best || k->tries < best->tries)) best = k;
    }
    for (size_t i = 0; i < t->n_asked && !best && t->n_found == 0; i++)
        if (t->asked[i].wants == NEAR) best = &t->asked[i];
    return best;
}

static size_t drop_nowhere(moyai_node *n, struct takers *t) {
    size_t dropped = 0;
    exec_lock(n->x);
    for (size_t i = 0; i < t->n_asked; i++) {
        struct asked *k = &t->asked[i];
        if (!k->f || !is_nowhere(n, k)) continue;
        future_free_locked(k->f);
        k->f = NULL;
        k->tries = 0;
        k->nowhere = true;
        dropped++;
    }
    exec_unlock(n->x);
    return dropped;
}

static void look(moyai_node *n, struct takers *t, moyai_set *set) {
    moyai_ns enough = UINT64_MAX;
    size_t open = 0;
    while (!n->drain.late && t->n_found < TAKERS_MOST && moyai_now() < enough) {
        for (struct asked *k; open < ASKS && (k = next_of(t));) open += begin(n, t, set, k);
        if (open == 0) break;
        const moyai_ns now = moyai_now();
        const int rc = moyai_wait_masked(set, enough == UINT64_MAX ? LOOK_TIME : (moyai_dur)(enough - now));
        if (rc < 0 && rc != MOYAI_ETIMEDOUT) break; /* the node ends */
        for (moyai_future *f; (f = moyai_set_next(set));) {
            struct asked *k = moyai_future_user(f);
            if (k->near)
                take_near(n, t, k);
            else
                take_host(t, k);
            moyai_future_free(f);
            k->f = NULL;
            open--;
        }
        open -= drop_nowhere(n, t);
        if (t->n_found > 0 && enough == UINT64_MAX) enough = moyai_now() + (moyai_ns)MORE_TIME;
    }
    for (size_t i = 0; i < t->n_asked; i++) { /* who has not answered is not waited for now */
        struct asked *k = &t->asked[i];
        if (!k->f) continue;
        moyai_future_free(k->f);
        k->f = NULL;
        k->wants = k->near ? NEAR : HOST;
    }
}

/* False: there is nobody who could say more. */
static bool look_again(moyai_node *n, struct takers *t, unsigned before) {
    if (n->drain.late || (t->stay == 0 && before > 0) || moyai_sleep_masked(n, AGAIN_TIME) < 0) return false;
    for (size_t i = 0; i < t->n_asked; i++) {
        struct asked *k = &t->asked[i];
        if (k->stays) k->wants = NEAR;
        if (k->nowhere || (k->tries > 0 && k->tries < TRIES)) k->wants = HOST;
        k->nowhere = false;
    }
    exec_lock(n->x);
    add_all(n, t);
    exec_unlock(n->x);
    return true;
}

/* ---- those that have been found --------------------------------------------------------------- */

static struct takers *find(moyai_node *n, const char *cls) {
    struct takers *t = n->drain.takers;
    while (t && strcmp(t->cls, cls) != 0) t = t->next;
    if (t) return t;
    t = calloc(1, sizeof *t + strlen(cls) + 1);
    if (!t) return NULL;
    memcpy(t->cls, cls, strlen(cls) + 1);
    t->turn = (size_t)rng_below(&n->rng, TAKERS_MOST);
    t->next = n->drain.takers;
    n->drain.takers = t;
    return t;
}

/* Another fiber looks for them. 0; or the node ends. Lock held. */
static int await_look(moyai_node *n, struct takers *t) {
    int rc = 0;
    while (t->looking && rc == 0) {
        struct blocked b;
        blocked_init(n, &b, "waits for a node that takes an object");
        wait_add(&t->waits, &b);
        rc = block(n, &b, UINT64_MAX, true);
        wait_remove(&b);
    }
    return rc;
}

static void look_ends(moyai_node *n, struct takers *t) {
    exec_lock(n->x);
    t->looking = false;
    for (struct blocked *b; (b = t->waits);) {
        wait_remove(b);
        (void)blocked_wake(n, b, 0);
    }
    exec_unlock(n->x);
}

struct takers *takers_of(moyai_node *n, const char *cls, struct moyai_error *e) {
    struct keep k;
    keep_begin(n, &k);
    api_enter(n);
    struct takers *t = find(n, cls);
    const int rc = t ? await_look(n, t) : 0;
    const bool looks =
        t && rc == 0 && t->n_found == 0 && (!t->nobody || moyai_now() - t->nobody > (moyai_ns)NOBODY_TIME);
    if (looks) {
        t->looking = true;
        add_all(n, t);
    }
    api_leave(n);
    if (!t || (looks && moyai_set_new(n, &k.set) < 0)) {
        keep_end(n, &k);
        if (t) look_ends(n, t);
        err_set(e, MOYAI_ENOMEM, "out of memory");
        return NULL;
    }
    if (looks) {
        look(n, t, k.set);
        for (unsigned i = 0; i < AGAIN_MOST && t->n_found == 0 && t->others && look_again(n, t, i); i++)
            look(n, t, k.set);
        t->nobody = t->n_found == 0 ? moyai_now() : 0;
        look_ends(n, t);
    }
    keep_end(n, &k);
    if (t->n_found > 0) return t;
    size_t silent = 0;
    for (size_t i = 0; i < t->n_asked; i++) silent += t->asked[i].tries > 0 || t->asked[i].wants == HOST;
    if (t->stay > 0)
        err_set(e, MOYAI_ENOENT,
                "no node that stays takes objects of class \"%.60s\" (moyai_accept), of %zu that were asked", cls,
                t->stay);
    else if (silent > 0)
        err_set(e, MOYAI_ETIMEDOUT,
                "no node has been found that takes objects of class \"%.60s\"; of %zu not answered: %zu", cls,
                t->n_asked, silent);
    else
        err_set(e, MOYAI_ELEAVING, "there is no node that stays");
    return NULL;
}

size_t takers_count(const struct takers *t) {
    return t->n_found;
}

size_t takers_turn(moyai_node *n, struct takers *t) {
    exec_lock(n->x);
    const size_t turn = t->turn++;
    exec_unlock(n->x);
    return turn;
}

bool taker_at(moyai_node *n, struct takers *t, size_t i, moyai_ref **host, uint8_t id[16]) {
    exec_lock(n->x);
    const bool is = i < t->n_found;
    if (is) *host = moyai_ref_ref(t->found[i].host);
    if (is) memcpy(id, t->found[i].id, 16);
    exec_unlock(n->x);
    return is;
}

void taker_lost(moyai_node *n, struct takers *t, const uint8_t id[16], bool silent) {
    moyai_ref *host = NULL;
    exec_lock(n->x);
    for (size_t i = 0; i < t->n_found && !host; i++) {
        if (!id_equal(t->found[i].id, id)) continue;
        host = t->found[i].host;
        t->found[i] = t->found[--t->n_found];
    }
    for (size_t i = 0; i < t->n_asked && host && silent; i++) {
        struct asked *k = &t->asked[i];
        if (id_equal(k->id, id) && ++k->tries < TRIES) k->wants = HOST;
    }
    exec_unlock(n->x);
    moyai_ref_unref(host);
}

void takers_done(moyai_node *n) {
    for (struct takers *t; (t = n->drain.takers);) {
        n->drain.takers = t->next;
        for (size_t i = 0; i < t->n_found; i++) moyai_ref_unref(t->found[i].host);
        free(t);
    }
}
