/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The locating machine inside: its block, and what its files ask of each other. Nobody else includes this but tests.
 *
 * The block: struct locate, the links, the tables, then what neighbours told: names, digests, neighbours. A table is an
 * array of entries that begin with their key, sorted by it, so that equal states are equal bytes; a pointer into one is
 * good until the next locate_put or locate_cut on it.
 */
#ifndef OVERLAY_LOCATE_INTERNAL_H
#define OVERLAY_LOCATE_INTERNAL_H

#include "overlay/locate.h"

#include "base/id.h"
#include "base/rng.h"

#define LOCATE_COST_MAX UINT32_MAX
#define LOCATE_HOPS_MAX 255
#define LOCATE_NOTES    16 /* BUSY, LOST and answers to claims, to be sent */
#define LOCATE_ALTS     3
#define LOCATE_LOST_TTL 12
#define LOCATE_FEW_RING 2      /* whose hints say FEW */
#define LOCATE_WAIT_MAX 120000 /* milliseconds that a peer can make us remember what it asks */

struct locate_table {
    uint32_t off, size, key, cap, n, zero;
};

enum link_state {
    LINK_FREE,
    LINK_UP,
    LINK_DEAD, /* its node is declared dead; the driver will close it */
};

struct locate_link {
    uint8_t node[16];
    uint64_t host;
    uint32_t state, cost, told_cost; /* microseconds */
    uint32_t zero;
    locate_set dirty;      /* slots of ours that the neighbour has to be told */
    uint64_t names_dirty;  /* the same of names */
    uint64_t delta_at;     /* changes may be sent from then on */
    uint64_t linger_at;    /* and these need not be before */
    uint64_t paid;         /* the rate: up to then sending is paid for (spec 8.1) */
    uint32_t request_turn; /* where in the table of requests to look for the next; 0: at its beginning */
    uint32_t zero2;
};

#define LOCATE_NEAR_STEP 8u
struct locate_near { /* a neighbour's neighbour */
    uint8_t node[16];
    uint32_t host;
    uint32_t cost;
};

struct locate_known { /* a neighbour's name */
    uint8_t name[16], object[16];
};

enum name_state {
    NAME_CLAIMED,
    NAME_HELD,
    NAME_LOST, /* to be told, then gone */
};

struct locate_name {
    uint8_t name[16], object[16];
    uint8_t owner[16], other[16]; /* of a lost one: to whom, which object */
    uint32_t state, tell;
    uint32_t slot, zero; /* told in slot - 1; 0: not told */
};

enum request_flags {
    REQ_OWN = 1,       /* look-ups or a claim of this node depend on it */
    REQ_DONE = 2,      /* answered */
    REQ_FLOOD = 4,     /* the last ring has come by */
    REQ_LATE = 8,      /* the answer is said again, from memory */
    REQ_FEW = 16,      /* who has no hint asks a few */
    REQ_PUT_OFF = 32,  /* the last ring, for others' */
    REQ_LEADS = 64,    /* asked on where an answer once came from; the others (`busy`) wait */
    REQ_LED = 128,     /* it was, in vain */
    REQ_CROWD = 256,   /* others ask by hints: they begin now, too */
    REQ_LOST = 512,    /* a way to it has just failed: those who know why are asked sooner */
    REQ_UNSURE = 1024, /* own: in the last ring not all could be asked in time */
};

struct locate_request {
    uint8_t kind, key[16], zero8[7];
    uint8_t owner[16], object[16]; /* of a claim: whose. Of an answered look-up: the answer */
    uint64_t nonce;                /* 0: several ask */
    locate_set askers;             /* links that are to have the answer */
    locate_set asked;              /* links that have been asked, or will be */
    locate_set send, direct, hint; /* of these: not yet; with DIRECT; with HINTED or FEW */
    locate_set reply;              /* links that still have to be sent the answer */
    locate_set slow;               /* links to be told that it takes long (BUSY) */
    locate_set busy;               /* links that had no room, or wait for what another will answer */
    uint64_t until;                /* forgotten then */
    uint64_t ring_from, ring_at;   /* own: this ring began, and ends; 0: none */
    uint64_t ring_most;            /* own, the last ring: it waits so long for links that it has to ask; 0: none */
    uint64_t busy_at;              /* `busy` are asked (again); 0: none */
    uint64_t done_at;
    uint64_t others_until; /* another's flood has gone on from here, and is waited for */
    uint32_t flags, ttl;   /* ttl: of the frames we send */
    uint32_t ring;         /* own: which of rings[] (locate_ring.c); LOCATE_RINGS: waiting */
    uint32_t status, hops, cost;
    uint32_t hint_ttl, zero; /* of the frames we send with HINTED or FEW; 0: none */
};

enum lookup_flags {
    LOOK_WAIT = 1,
    LOOK_LATE = 2, /* came when the rings had begun: it is given its own if they find nothing */
    LOOK_DONE = 4,
    LOOK_TRIED = 8,   /* once, in vain, where frames come late */
    LOOK_UNSURE = 16, /* done without an answer, and not all could be asked in time */
};

struct locate_lookup {
    uint64_t token;
    uint8_t kind, key[16], zero8[7];
    uint64_t until;
    uint8_t node[16], object[16];
    uint32_t flags, status, hops, cost;
};

struct locate_memo {
    uint8_t name[16], owner[16];
    uint64_t noted;
};

struct locate_alt {
    uint32_t link, hops, cost;
    uint32_t said; /* the cost from the neighbour on, as it said */
};

struct locate_routes {
    uint8_t node[16];
    uint64_t until;
    uint32_t n, best; /* best: the least cost since the request; who says as much is not nearer than this node was */
    struct locate_alt alt[LOCATE_ALTS]; /* by cost */
};

struct locate_corpse {
    uint8_t node[16];
    uint64_t until;
    locate_set send;
    uint32_t how, ttl, tell, zero;
};

struct locate_note {
    uint32_t kind, link; /* LOCATE_BUSY, LOCATE_LOST, or LOCATE_REPLY to a claim */
    uint32_t key_kind, ttl, status, hops, cost, zero;
    uint8_t key[16], owner[16], object[16], dest[16];
};

struct locate {
    uint8_t self[16];
    uint32_t links, told, rate, burst;
    uint64_t keep, route_life, ring_min, ring_max, interest, fresh, delta_every, linger, grace, digest_every;
    uint32_t off_links, off_near, off_known, off_digests; /* digests: our own, then one a link */
    uint32_t off_near_at; /* rows of near, one behind the other: where each begins; one more: the end */
    uint32_t zero32;
    struct locate_table names, requests, lookups, routes, memos, dead;
    struct moyai_rng rng;
    locate_set up;          /* links in state UP */
    locate_set changed;     /* of these: whose neighbour has to be told of slots */
    uint64_t changed_at;    /* none of them is ready earlier; 0: to be looked for */
    uint64_t used_slots;    /* of names told */
    locate_set maybe;       /* links that may have something to be sent */
    locate_set answers;     /* of these: an answer, which does not wait for the link's rate */
    uint64_t due, sweep;    /* no timer of the tables is earlier, and no request to be forgotten */
    uint64_t late, late_at; /* how late frames have come; see locate_late */
    uint32_t done_n;        /* look-ups to be told */
    uint32_t dead_tell;     /* corpses to be told */
    uint32_t name_tell;     /* names to be told */
    uint32_t notes_n;
    uint32_t leaving, zero;
    uint32_t near_n, near_news; /* neighbours' neighbours; how many of them have changed since all had our digest */
    locate_set digests;         /* links whose digest has come */
    locate_set digest_new;      /* links that have not had ours */
    locate_set digest_send;     /* that are to have it now */
    uint64_t digest_at;         /* it is made anew; UINT64_MAX: it need not be */
    uint64_t digest_all;        /* when it was made for all */
    struct locate_note notes[LOCATE_NOTES]; /* in order */
};

#define NAME_BIT(i) (UINT64_C(1) << (i)) /* in a set of names told */

/* By how much frames come late (LOCATE_EV_RECEIVE) and timers fire: halves each second in which neither does. */
static inline uint64_t locate_late(const struct locate *l, moyai_ns now) {
    uint64_t seconds = now > l->late_at ? (now - l->late_at) / (uint64_t)MOYAI_SEC : 0;
    return seconds < 64 ? l->late >> seconds : 0;
}

static inline void *locate_at(const struct locate *l, uint32_t off) {
    return (char *)(uintptr_t)l + off;
}
static inline struct locate_link *locate_link(const struct locate *l, uint32_t i) {
    return (struct locate_link *)locate_at(l, l->off_links) + i;
}
static inline uint32_t *locate_near_at(const struct locate *l) {
    return locate_at(l, l->off_near_at);
}
static inline struct locate_near *locate_near(const struct locate *l, uint32_t link) {
    return (struct locate_near *)locate_at(l, l->off_near) + locate_near_at(l)[link];
}
/* Places in it. Who has a slot beyond them is not known: they end with the last that is, in steps. */
static inline uint32_t locate_near_cap(const struct locate *l, uint32_t link) {
    return locate_near_at(l)[link + 1] - locate_near_at(l)[link];
}
static inline struct locate_known *locate_known(const struct locate *l, uint32_t link) {
    return (struct locate_known *)locate_at(l, l->off_known) + (size_t)link * l->told;
}
static inline void *locate_entry(const struct locate *l, const struct locate_table *t, uint32_t i) {
    return (char *)locate_at(l, t->off) + (size_t)i * t->size;
}
static inline struct locate_request *locate_request(const struct locate *l, uint32_t i) {
    return locate_entry(l, &l->requests, i);
}
/* One of a set that is not empty, at random. */
static inline uint32_t locate_any(struct locate *l, locate_set set) {
    uint32_t i = set_next(&set, 0);
    for (uint64_t skip = rng_below(&l->rng, set_count(set)); skip; skip--) i = set_next(&set, i + 1);
    return i;
}
static inline bool locate_changed(const struct locate_link *k) {
    return k->names_dirty || set_any(k->dirty);
}
static inline uint64_t locate_after(moyai_ns now, uint64_t span) {
    return now > UINT64_MAX - span ? UINT64_MAX : now + span;
}
static inline uint32_t locate_sum(uint32_t a, uint32_t b, uint32_t most) {
    return a > most - b ? most : a + b;
}

static inline uint8_t *locate_digest(const struct locate *l, uint32_t link) {
    return (uint8_t *)locate_at(l, l->off_digests) + (size_t)(link == l->links ? 0 : link + 1) * LOCATE_DIGEST;
}

/* A timer is set: the machine wakes at `at` at the latest. */
static inline void locate_due(struct locate *l, uint64_t at) {
    if (at < l->due) l->due = at;
}

/* locate_table.c */
void *locate_get(const struct locate *l, const struct locate_table *t, const void *key);
void *locate_put(struct locate *l, struct locate_table *t, const void *key); /* zero but for the key; NULL: full */
void locate_cut(struct locate *l, struct locate_table *t, void *entry);
void *locate_append(struct locate *l, struct locate_table *t); /* of a table in order of arrival */

/* locate_route.c */
bool locate_near_find(const struct locate *l, const uint8_t node[16], locate_set among, struct locate_hop *best);
/* An answer came by a link: first of its request, or a further one. */
void locate_route_note(struct locate *l, const uint8_t node[16], uint32_t link, uint32_t hops, uint32_t said,
                       bool first, moyai_ns now);
const struct locate_alt *locate_route_best(const struct locate *l, const uint8_t node[16], locate_set avoid,
                                           moyai_ns now);
void locate_route_drop(struct locate *l, const uint8_t node[16], locate_set links); /* these ways to a node */
void locate_route_link_down(struct locate *l, uint32_t link);

/* locate_digest.c */
locate_set locate_digest_find(const struct locate *l, const uint8_t node[16], locate_set among); /* who may know it */
void locate_digest_link_up(struct locate *l, uint32_t link, moyai_ns now);
void locate_digest_link_down(struct locate *l, uint32_t link);
void locate_digest_news(struct locate *l, uint32_t n, moyai_ns now); /* so many of whom it tells have changed */
void locate_digest_timeout(struct locate *l, moyai_ns now);
int locate_digest_receive(struct locate *l, const struct locate_event *ev);

/* locate_ask.c: requests and their answers */
struct locate_answer {
    const uint8_t *owner, *object; /* object may be NULL */
    uint32_t status, hops, cost;
    uint32_t age; /* in LOCATE_AGE */
};
struct locate_request *locate_find_request(const struct locate *l, uint32_t kind, const uint8_t key[16]);
int locate_ask_receive(struct locate *l, const struct locate_event *ev);
int locate_ask_reply(struct locate *l, const struct locate_event *ev);
int locate_ask_busy(struct locate *l, const struct locate_event *ev);
void locate_ask_answer(struct locate *l, struct locate_request *r, const struct locate_answer *a, locate_set except,
                       moyai_ns now);
void locate_ask_came(struct locate *l, uint32_t kind, const uint8_t key[16], moyai_ns now); /* into the tables */
/* Own: begin, or join what has begun. NULL: no room, nothing has happened. */
struct locate_request *locate_ask_own(struct locate *l, uint32_t kind, const uint8_t key[16], bool lost, moyai_ns now);
void locate_ask_own_end(struct locate *l, uint32_t kind, const uint8_t key[16]);
int locate_ask_claim(struct locate *l, const uint8_t key[16], const uint8_t object[16], moyai_ns now,
                     struct locate_answer *a);
void locate_ask_link_up(struct locate *l, moyai_ns now);
void locate_ask_link_down(struct locate *l, uint32_t link);
void locate_ask_timeout(struct locate *l, moyai_ns now);
void locate_ask_sweep(struct locate *l, moyai_ns now);
bool locate_table_answer(const struct locate *l, uint32_t kind, const uint8_t key[16], const uint8_t *claim,
                         moyai_ns now, struct locate_answer *a);

/* locate.c */
void locate_note(struct locate *l, const struct locate_note *n);
void locate_settle(struct locate *l); /* equal states are equal bytes then; only between steps, for comparing */
bool locate_is_dead(const struct locate *l, const uint8_t node[16], moyai_ns now, uint32_t *how);
void locate_bury(struct locate *l, const uint8_t node[16], uint32_t how, uint32_t ttl, uint64_t keep, locate_set except,
                 bool tell, moyai_ns now);

#endif
