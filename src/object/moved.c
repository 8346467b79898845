/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that may move, from the side of their callers (doc/spec/10-moving.md, 4).
 *
 * A reference says where its object was last seen. A call that comes back from there as never executed, since the
 * object is not there (any more), or its node has gone, is not failed at once: the object is looked for by its id, and
 * the call is made again where it is found. Meanwhile calls of this node to that object wait. They are all made in the
 * order in which the program made them: nothing is sent before the old home has answered for all that it was sent. That
 * is so as well where a call is made after the object has come here, or gone from here, while older ones are out.
 */
#include "object/moved.h"

#include "base/err.h"

#include <stdlib.h>

#ifndef PLACES_MOST
#define PLACES_MOST 65536u /* whereabouts kept; one that is forgotten is looked for again */
#endif
#define TIMES_MOST   100u            /* a call is made */
#define STILL_TRIES  10u             /* looks for an object that is said to be where it was not, just now */
#define LEAVES_TRIES 100u            /* and where it is, but its home leaves */
#define STILL_PAUSE  (10 * MOYAI_MS) /* between them */
#define CROWD_PAUSE  (1 * MOYAI_SEC) /* and the longest, where not all can be asked: each is twice the one before */
#define CROWD_TIME   ((moyai_ns)(60 * MOYAI_SEC)) /* and for how long that goes on */
#define NOWHERE_TIME ((moyai_ns)(200 * MOYAI_MS)) /* and for one that is said to be nowhere: so long, and twice, */
#define NOWHERE_DEAD 3u                           /* or so often, if its home is dead */
#define SOON         ((moyai_ns)(100 * MOYAI_MS))
#define GONE_TIME    ((moyai_ns)MOYAI_SEC) /* that it was nowhere is believed so long, */
#define GONE_TWICE   5u                    /* and twice as long each time that it is found nowhere again */

struct whereabouts {
    UT_hash_handle hh;
    moyai_node *node;
    uint8_t object[16], home[16];
    bool known;          /* home; else what references say */
    bool seeking;        /* a fiber looks for it, and calls wait */
    moyai_ns found;      /* when it was looked for last */
    unsigned soon;       /* how often again, each time soon after that */
    moyai_ns gone;       /* when it was found nowhere; 0: not so */
    bool lost;           /* with that: home was its home, and is dead */
    unsigned gone_again; /* and how often before, without having been found since */
    size_t out;          /* calls that were sent, all to one home, and are waited for before any goes elsewhere */
    uint8_t at[16];      /* that home */
    uint8_t refused[16]; /* where it was not; while calls wait, and one has come back */
    bool is_refused;
    bool returned;              /* who refused it says that it has it now */
    bool fresh;                 /* home: it is known since calls wait, from who had it last */
    bool here;                  /* it has come to this node, and not gone on: if it is not here, it has ended */
    moyai_future *queue, *last; /* in the order in which they were made */
    moyai_future *back;         /* of these, the latest that has come back; NULL: none, or any */
    uint16_t
        round; /* in which calls are sent: another one, when all that were refused in the one before have come back */
    struct blocked *seeker;
    struct failure *why; /* one has come back; what those are told that only wait, if it is nowhere */
};

void moved_name(const uint8_t object[16], char name[MOVED_NAME]) {
    name[0] = '@';
    id_format(object, name + 1);
}

static struct whereabouts *place_find(const moyai_node *n, const uint8_t object[16]) {
    struct whereabouts *w;
    HASH_FIND(hh, n->whereabouts, object, 16, w);
    return w;
}

static void place_free(struct whereabouts *w) {
    failure_unref(w->why);
    HASH_DEL(w->node->whereabouts, w);
    free(w);
}

/* Somebody waits for it. */
static bool is_needed(const struct whereabouts *w) {
    return w->seeking || w->queue || w->out > 0;
}

/* Those that are there for longest make room, if nobody waits for them. */
static struct whereabouts *place_get(moyai_node *n, const uint8_t object[16]) {
    struct whereabouts *w = place_find(n, object), *next;
    if (w) return w;
    if (HASH_COUNT(n->whereabouts) >= PLACES_MOST)
        HASH_ITER (hh, n->whereabouts, w, next) {
            if (is_needed(w)) continue;
            place_free(w);
            n->places_lost = true;
            if (HASH_COUNT(n->whereabouts) < PLACES_MOST) break;
        }
    w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->node = n;
    w->round = ++n->rounds;
    memcpy(w->object, object, 16);
    HASH_ADD(hh, n->whereabouts, object, 16, w);
    if (w->hh.tbl) return w;
    free(w);
    return NULL;
}

void moved_put(moyai_node *n, const uint8_t object[16], const uint8_t home[16]) {
    struct whereabouts *w = place_get(n, object);
    if (!w) {
        n->places_lost = true; /* it is looked for */
        return;
    }
    memcpy(w->home, home, 16);
    w->known = w->fresh = true;
    w->here = false;
    w->gone = 0;
    w->gone_again = 0;
}

void moved_here(moyai_node *n, const uint8_t object[16]) {
    struct whereabouts *w = place_find(n, object);
    if (!w) return;
    w->known = w->fresh = false;
    w->here = true;
    w->gone = 0;
    w->gone_again = 0;
}

enum moved_whither moved_whither(const moyai_node *n, const uint8_t object[16], uint8_t to[16]) {
    const struct whereabouts *w = place_find(n, object);
    if (!w) return n->places_lost ? MOVED_UNKNOWN : MOVED_ENDED;
    if (w->here) return MOVED_ENDED;
    if (!w->known || (w->gone && !w->lost) || (w->seeking && !w->fresh) || node_is(n, w->home)) return MOVED_UNKNOWN;
    memcpy(to, w->home, 16);
    return MOVED_THERE;
}

void moved_hint(moyai_future *f, const uint8_t to[16]) {
    struct whereabouts *w = f->movable ? place_get(f->node, f->object) : NULL;
    if (!w) return;
    w->returned = id_equal(to, f->home);
    if (w->returned) return;
    memcpy(w->home, to, 16);
    w->known = w->fresh = true;
}

const uint8_t *moved_to(moyai_node *n, const uint8_t object[16]) {
    const struct whereabouts *w = place_find(n, object);
    return w && w->known ? w->home : NULL;
}

size_t moved_kept(const moyai_node *n) {
    return HASH_COUNT(n->whereabouts);
}

void moved_home(moyai_future *f) {
    moyai_node *n = f->node;
    if (!f->movable) return;
    const struct object *ob = object_find(n, f->object);
    const uint8_t *there = moved_to(n, f->object);
    if (ob && !ob->ended)
        memcpy(f->home, node_id(n)->b, 16);
    else if (there)
        memcpy(f->home, there, 16);
}

/* ---- calls that wait ------------------------------------------------------------------------- */

static void wake(struct whereabouts *w) {
    if (w->seeker && w->out == 0 && !w->node->ending) (void)blocked_wake(w->node, w->seeker, 0);
}

/* New calls come in order, and so do, as a rule, those that come back: behind the one before. */
static void put(struct whereabouts *w, moyai_future *f) {
    moyai_future *before = w->last;
    if (before && before->seq > f->seq) {
        before = w->back && w->back->seq < f->seq ? w->back : NULL;
        for (moyai_future *next = before ? before->seek_next : w->queue; next->seq < f->seq; next = next->seek_next)
            before = next;
        w->back = f;
    }
    f->seek_prev = before;
    f->seek_next = before ? before->seek_next : w->queue;
    if (f->seek_next)
        f->seek_next->seek_prev = f;
    else
        w->last = f;
    if (before)
        before->seek_next = f;
    else
        w->queue = f;
    f->seeking = w;
}

static void take(moyai_future *f) {
    struct whereabouts *w = f->seeking;
    if (f->seek_next)
        f->seek_next->seek_prev = f->seek_prev;
    else
        w->last = f->seek_prev;
    if (f->seek_prev)
        f->seek_prev->seek_next = f->seek_next;
    else
        w->queue = f->seek_next;
    if (w->back == f) w->back = f->seek_prev;
    f->seek_prev = f->seek_next = NULL;
    f->seeking = NULL;
}

static void unawait(moyai_future *f) {
    struct whereabouts *w = f->awaited ? place_find(f->node, f->object) : NULL;
    f->awaited = false;
    if (!w) return;
    w->out--;
    wake(w);
}

void moved_sends(moyai_future *f) {
    struct whereabouts *w = f->movable && !f->awaited ? place_get(f->node, f->object) : NULL;
    f->round = w ? w->round : ++f->node->rounds;
    if (!w) return;
    f->awaited = true;
    w->out++;
    memcpy(w->at, f->home, 16);
}

static void seek(void *arg);

static bool seek_begins(struct whereabouts *w, struct failure *why) {
    if (!why || go_locked(w->node, seek, w) < 0) return false;
    w->seeking = true;
    w->why = failure_ref(why);
    w->is_refused = false;
    return true;
}

bool moved_waits(moyai_future *f) {
    struct whereabouts *w = f->movable ? place_find(f->node, f->object) : NULL;
    if (!w) return false;
    if (!w->seeking) { /* it goes elsewhere than those before it: when these are answered */
        struct moyai_error e;
        if (w->out == 0 || id_equal(w->at, f->home)) return false;
        failure_set(&e, MOYAI_ENOOBJECT, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED, "the object has moved, and is lost");
        struct failure *why = failure_new(&e, NULL);
        const bool begins = seek_begins(w, why);
        failure_unref(why);
        if (!begins) return false;
    }
    f->failure = failure_ref(w->why);
    put(w, f);
    return true;
}

void moved_sent(moyai_future *f) {
    if (f->seeking) unawait(f);
}

void moved_drop(moyai_future *f) {
    if (f->seeking) take(f);
    unawait(f);
}

/* ---- looking --------------------------------------------------------------------------------- */

/* 0: it is there. ENOENT and others: it cannot be found. */
static int look(struct whereabouts *w, uint8_t home[16], struct moyai_error *e) {
    moyai_node *n = w->node;
    const struct object *ob = object_find(n, w->object);
    char name[MOVED_NAME];
    if (ob && !ob->ended) { /* it has come here */
        memcpy(home, node_id(n)->b, 16);
        return 0;
    }
    moved_name(w->object, name);
    return name_where(n, name, home, e);
}

static int pause_for(moyai_node *n, moyai_dur d) {
    struct blocked b;
    blocked_init(n, &b, "waits for an object that moves");
    const int rc = block(n, &b, moyai_now() + (moyai_ns)d, true);
    return rc == MOYAI_ETIMEDOUT ? 0 : rc;
}

static void fail_all(struct whereabouts *w) {
    for (moyai_future *f; (f = w->queue);) {
        take(f);
        future_fail_back(f);
    }
}

static void send_all(struct whereabouts *w) {
    for (moyai_future *f; !w->seeking && (f = w->queue);) {
        take(f);
        failure_unref(f->failure);
        f->failure = NULL;
        memcpy(f->home, w->home, 16);
        call_again(f);
    }
}

static bool is_nowhere(unsigned times, moyai_ns since, bool dead) {
    if (dead && times == NOWHERE_DEAD) return true;
    return since > NOWHERE_TIME && (dead || times > 1);
}

/* Who refused it has said where it is, or this node had it and knows. */
static bool is_told(struct whereabouts *w, uint8_t home[16]) {
    const bool returned = w->returned && w->is_refused;
    const bool elsewhere = w->fresh && !(w->is_refused && id_equal(w->home, w->refused));
    if (!returned && !elsewhere) return false;
    memcpy(home, returned ? w->refused : w->home, 16);
    return true;
}

/* It is nowhere: has it died with its home? Then who was refused by one before hears of that, and not that it has never
 * been. */
static void lose(struct whereabouts *w) {
    struct moyai_error e;
    w->lost = w->known && call_home_died(w->node, w->home, &e);
    if (!w->lost) return;
    e.where = MOYAI_AT_PEER;
    e.executed = MOYAI_NEVER_EXECUTED;
    struct failure *why = failure_new(&e, NULL);
    for (moyai_future *f = why ? w->queue : NULL; f; f = f->seek_next) {
        if (f->failure->level[0].code != MOYAI_ENOOBJECT) continue;
        failure_unref(f->failure);
        f->failure = failure_ref(why);
    }
    failure_unref(why);
}

static void seek(void *arg) {
    struct whereabouts *w = arg;
    moyai_node *n = w->node;
    uint8_t home[16];
    struct moyai_error e;
    api_enter(n);
    int rc = 0;
    while (rc >= 0 && w->out > 0) {
        struct blocked b;
        blocked_init(n, &b, "waits for what an object's old home has to answer");
        w->seeker = &b;
        rc = block(n, &b, UINT64_MAX, true);
        w->seeker = NULL;
    }
    /* What is said of it may be of a moment ago: that it is here still, or at a home in between, or nowhere. */
    const bool was_not = w->why->level[0].code == MOYAI_ENOOBJECT, dead = w->why->level[0].code == MOYAI_EDEAD;
    const moyai_ns began = moyai_now();
    moyai_dur pause = STILL_PAUSE;
    bool crowded = false; /* not all can be asked just now: that is no answer, and nowhere is not said meanwhile */
    moyai_ns asked = began;
    if (rc == 0 && w->soon > 2) rc = pause_for(n, STILL_PAUSE);
    for (unsigned still = 0, nowhere = 0; rc >= 0 && !is_told(w, home);) {
        rc = look(w, home, &e);
        if (rc == 0 && !(w->is_refused && id_equal(home, w->refused))) break;
        if (rc == 0 && still++ == (was_not ? STILL_TRIES : LEAVES_TRIES)) {
            rc = was_not ? 0 : MOYAI_ENOENT; /* it has come back */
            break;
        }
        crowded = rc == MOYAI_ELIMIT || rc == MOYAI_EBUSY;
        if (crowded && (!w->queue || moyai_now() - began > CROWD_TIME)) break;
        if (crowded) asked = moyai_now();
        if (rc < 0 && !crowded && (rc != MOYAI_ENOENT || is_nowhere(++nowhere, moyai_now() - asked, dead))) break;
        rc = pause_for(n, pause);
        pause = !crowded ? STILL_PAUSE : 2 * pause < CROWD_PAUSE ? 2 * pause : CROWD_PAUSE;
    }
    w->fresh = w->returned = false;
    const moyai_ns now = moyai_now();
    w->soon = now - w->found < SOON ? w->soon + 1 : 0;
    w->found = now;
    w->seeking = false;
    failure_unref(w->why);
    w->why = NULL;
    if (rc == 0) {
        memcpy(w->home, home, 16);
        w->known = true;
        w->gone = 0;
        w->gone_again = 0;
        w->round = ++n->rounds;
        send_all(w);
    } else if (crowded) {
        fail_all(w);
    } else { /* what is said of it is where it was last */
        w->gone_again += w->gone && w->gone_again < GONE_TWICE;
        w->gone = moyai_now();
        lose(w);
        fail_all(w);
    }
    api_leave(n);
}

/* It has been looked for, and nobody who refused it has said since where it is. */
static bool is_gone(const struct whereabouts *w) {
    return w->gone && !w->fresh && !w->returned && moyai_now() - w->gone < GONE_TIME << w->gone_again;
}

static bool is_elsewhere(const moyai_future *f, const struct moyai_error *e) {
    if (!f->movable || f->state == FUTURE_DONE || f->node->ending || f->again >= TIMES_MOST) return false;
    if (e->executed != MOYAI_NEVER_EXECUTED || e->where != MOYAI_AT_PEER || f->in.body) return false;
    return e->code == MOYAI_ENOOBJECT || e->code == MOYAI_ELEAVING || e->code == MOYAI_EDEAD ||
           e->code == MOYAI_ECLOSED;
}

bool moved_again(moyai_future *f, const struct moyai_error *e) {
    moyai_node *n = f->node;
    if (!is_elsewhere(f, e)) return false;
    struct whereabouts *w = place_get(n, f->object);
    if (!w || is_gone(w)) return false;
    struct failure *why = failure_new(e, NULL);
    if (!why || (!w->seeking && !seek_begins(w, why))) {
        failure_unref(why);
        return false;
    }
    if (!w->is_refused && w->why->level[0].code != e->code) { /* it was not refused: now it is known why */
        failure_unref(w->why);
        w->why = failure_ref(why);
    }
    memcpy(w->refused, f->home, 16);
    w->is_refused = true;
    f->again++;
    future_back(f);
    f->failure = why;
    put(w, f);
    if (f->msg.state == MSG_IDLE) unawait(f);
    wake(w);
    return true;
}

void moved_done(moyai_node *n) {
    struct whereabouts *w, *next;
    HASH_ITER (hh, n->whereabouts, w, next) {
        fail_all(w);
        place_free(w);
    }
}
