/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peers machine inside: its block, and what peers.c (events), peers_link.c (links and room for them) and
 * peers_known.c (endpoints) ask of each other. Tests include it to look inside.
 *
 * The block: struct peers, then at the offsets it holds
 *
 *   links   peers_link[links_cap]   offered, or in use; in no order
 *   dials   peers_dial[dials_cap]   connections being made; in no order
 *   known   peers_known[known]      endpoints; in no order
 *   texts   known * text bytes      their addresses
 *   fx      peers_fx[fx_cap]        effects of the last step
 */
#ifndef OVERLAY_PEERS_INTERNAL_H
#define OVERLAY_PEERS_INTERNAL_H

#include "base/id.h"
#include "base/rng.h"
#include "overlay/peers.h"

#define PEERS_LINES   ((uint32_t)16)                /* places for lines, and for links not yet agreed on */
#define PEERS_SLACK   ((uint32_t)4)                 /* newcomers that may wait for a place that was asked for */
#define PEERS_MIX     ((uint32_t)8)                 /* nodes of the grid that open one link more, each look */
#define PEERS_TOLD    ((moyai_ns)(60 * MOYAI_SEC))  /* a count is believed so long */
#define PEERS_REPLY   ((moyai_ns)(5 * MOYAI_SEC))   /* for an answer to YIELD */
#define PEERS_BACK    ((moyai_ns)(5 * MOYAI_SEC))   /* after a failure; doubled with each, up to 32 times */
#define PEERS_ALONE   ((moyai_ns)(4 * MOYAI_SEC))   /* the longest of these for a node without links */
#define PEERS_DIALS   ((uint32_t)4)                 /* connections being made, of cfg.attempts, with few links */
#define PEERS_PATIENT ((moyai_ns)MOYAI_SEC)         /* then one that is not answered so long holds no other up */
#define PEERS_TELL    ((moyai_ns)(2 * MOYAI_SEC))   /* the rendezvous hears so soon that others have connected to it */
#define PEERS_AGAIN   ((moyai_ns)MOYAI_SEC)         /* after a link was lost, before its node is called again */
#define PEERS_CALM    ((moyai_ns)(30 * MOYAI_SEC))  /* the longest gap between attempts that all fail */
#define PEERS_DOUBT   ((moyai_ns)(300 * MOYAI_SEC)) /* the same if all that is missing are other sites */
#define PEERS_LATE    ((moyai_ns)(15 * MOYAI_SEC))  /* a loss is a late one so long */
#define PEERS_TRIES   ((uint32_t)8)                 /* to mend one for which a session waits */
#define PEERS_SOON    ((moyai_ns)(10 * MOYAI_SEC)) /* after the last link ended all is looked for each second so long */
#define PEERS_HURRY   ((moyai_ns)MOYAI_SEC)        /* the same with few links */

enum peers_link_state { PEERS_OFFERED = 1, PEERS_USED };

enum peers_whom { PEERS_ANY, PEERS_OTHER_SITES, PEERS_LIKE };

enum peers_link_flag {
    LINK_ACCEPTS = 1, /* its node can be connected to */
    LINK_GUEST = 2,   /* taken while somebody is asked for the place */
    LINK_RESCUED = 4, /* beyond cfg.most */
    LINK_EXTRA = 8,   /* opened though there were enough */
    LINK_ASKED = 16,  /* ASK has been sent and not answered */
    LINK_YIELD = 32,  /* YIELD has been sent; due: for how long to wait */
    LINK_FAR = 64,    /* to another site, or one of the two has none */
    LINK_LOOKS = 128, /* its node looks at the grid only; with RESCUED: it has a place that is for such */
};

struct peers_link {
    uint64_t link; /* 0: free */
    uint8_t id[16];
    uint64_t site;
    uint64_t since;
    uint64_t counted; /* when `count` was told */
    uint64_t due;     /* OFFERED: until when; USED: LINK_YIELD; else 0 */
    uint32_t count;
    uint8_t state, kind, flags;
    bool here : 1;    /* to a node of this host */
    bool doubled : 1; /* USED: another that its node offered was refused since */
};

struct peers_dial {
    uint8_t id[16];
    uint64_t until;
    uint64_t extra;
};

struct peers_known {
    uint8_t id[16];
    uint64_t site, hash, until, retry;
    uint32_t accepts, reached, fails, n_text;
    uint32_t near;  /* of our own site */
    uint32_t again; /* to be called before others */
    uint32_t vain;  /* so often in a row it was called in vain, as long as its word is the same */
    uint64_t lost;  /* a link to it has broken, lately until this; 0: none */
};

struct peers_fx {
    uint64_t link;
    uint8_t id[16];
    uint32_t kind, what;
    uint32_t frame, flags, count, n;
    uint16_t pick[PEERS_ENTRIES]; /* indices of known endpoints; CONNECT: the first */
};

struct peers {
    /* configuration */
    uint8_t self[16];
    uint64_t site;
    uint64_t attempt, gap, rendezvous, exchange;
    uint32_t accepts, reached, lifetime, n_text;
    uint32_t degree, far_least; /* links wanted in all, and of these to other sites */
    uint32_t most, rescue, known_cap, attempts, dials_cap, text, links_cap, fx_cap;
    uint32_t off_links, off_dials, off_known, off_texts, off_fx;
    uint8_t self_text[PEERS_TEXT];

    /* life */
    struct moyai_rng rng;
    uint64_t secret; /* of the order of known endpoints */
    uint32_t started, leaving, departing;
    uint32_t extra; /* one link more is wanted */
    uint32_t looks; /* since there was a link */
    uint64_t look_at, exchange_at;
    uint64_t gap_at;     /* no attempt before */
    uint64_t dry_until;  /* nobody to connect to before; 0: not known */
    uint64_t late_until; /* a link has broken lately */
    uint64_t soon_until; /* the last link has ended, and who kept sessions over it keeps them still */
    uint64_t away_at;    /* when to look whether somebody is at a place again; UINT64_MAX: not */
    uint64_t away_wait;  /* after the time before */
    uint64_t again_at;   /* when to look after the lost, for whom a session waits; UINT64_MAX: not */
    uint32_t again_n;    /* so often yet */
    uint32_t misses;     /* attempts without success in a row */
    uint32_t streak[2];  /* of these, nodes of [1] our own site or [0] others that could not be reached */

    /* counts */
    uint32_t links_n, offered, mesh, far, direct, guests, rescued, here; /* far, here: of mesh */
    uint32_t looking[2]; /* links of those who look only: [0] of cfg.most, [1] of those rescued */
    uint32_t dials_n, known_n, near_n;
    uint32_t fx_n, fx_at;
    uint64_t now;       /* of the last step, while its effects are fetched */
    uint64_t expire_at; /* no endpoint ends earlier */
};

static inline void *peers_at(const struct peers *p, uint32_t off) {
    return (char *)(uintptr_t)p + off;
}
static inline struct peers_link *peers_links(const struct peers *p) {
    return peers_at(p, p->off_links);
}
static inline struct peers_dial *peers_dials(const struct peers *p) {
    return peers_at(p, p->off_dials);
}
static inline struct peers_known *peers_knowns(const struct peers *p) {
    return peers_at(p, p->off_known);
}
static inline uint8_t *peers_text(const struct peers *p, uint32_t i) {
    return (uint8_t *)peers_at(p, p->off_texts) + (size_t)i * p->text;
}
static inline struct peers_fx *peers_fxs(const struct peers *p) {
    return peers_at(p, p->off_fx);
}
static inline uint64_t peers_after(moyai_ns now, uint64_t span) {
    return now > UINT64_MAX - span ? UINT64_MAX : now + span;
}
static inline uint64_t peers_min(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
/* A time after now: span, half of it more or less. */
static inline uint64_t peers_jitter(struct peers *p, moyai_ns now, uint64_t span) {
    return peers_after(now, span / 2 + rng_below(&p->rng, span + 1));
}

/* peers.c */
struct peers_fx *peers_say(struct peers *p, enum peers_effect_kind kind, uint64_t link, const uint8_t id[16]);
struct peers_fx *peers_send(struct peers *p, const struct peers_link *l, enum peers_frame_kind frame);

/* Without links, and since so little time that sessions over them are kept still. */
static inline bool peers_hurries(const struct peers *p, moyai_ns now) {
    return p->mesh == 0 && now < p->soon_until;
}

/* Fewer than it should make haste to have. */
static inline bool peers_few(const struct peers *p) {
    return p->mesh < (p->degree + 2) / 3;
}

/* With links, and none that leads to another host. */
static inline bool peers_inward(const struct peers *p) {
    return p->mesh > 0 && p->mesh == p->here;
}

/* peers_known.c */
void peers_learn(struct peers *p, const struct peers_endpoint *e, moyai_ns now);
void peers_seen(struct peers *p, const uint8_t id[16], moyai_ns now); /* its word is new again */
void peers_forget(struct peers *p, const uint8_t id[16]);
/* Somebody has said who he is, at an address where another, if asked is not zero, was known to be. */
void peers_found(struct peers *p, const struct peers_endpoint *e, const uint8_t asked[16]);
void peers_expire(struct peers *p, moyai_ns now);
struct peers_known *peers_find(const struct peers *p, const uint8_t id[16]);
/* Draw up to `most` endpoints to tell to a node of that id and site. */
void peers_draw(struct peers *p, struct peers_fx *fx, uint32_t most, const uint8_t id[16], uint64_t site, moyai_ns now);
/* Keep it, at least until the next step, whatever is kept otherwise; UINT32_MAX: it cannot be connected to. */
uint32_t peers_keep(struct peers *p, const struct peers_endpoint *e, moyai_ns now);
/* Draw somebody of these to connect to; UINT32_MAX: nobody now, and dry_until says when to try again. */
uint32_t peers_candidate(struct peers *p, enum peers_whom whom, moyai_ns now);
void peers_missed(struct peers *p, const uint8_t id[16], bool reached, moyai_ns now); /* no link to it */
void peers_rest(struct peers *p, const uint8_t id[16], uint64_t span, moyai_ns now);  /* not before that time */
void peers_met(struct peers *p, const uint8_t id[16], uint64_t site);                 /* a link to it */
void peers_lately(struct peers *p, const uint8_t id[16], moyai_ns now);    /* a link to it, in use, has broken */
void peers_key_ended(struct peers *p, const uint8_t id[16], moyai_ns now); /* a link to it, in use, for its key */
void peers_again(struct peers *p, moyai_ns now);  /* a session waits: who was lost lately is called */
void peers_hasten(struct peers *p, moyai_ns now); /* without links, everybody is worth another call soon */
void peers_calm(struct peers *p,
                moyai_ns now); /* without links to other hosts, nobody is to rest for longer than that */

/* peers_link.c */
uint32_t peers_taken(const struct peers *p);   /* places of cfg.most */
uint32_t peers_directs(const struct peers *p); /* those that are offered included */
uint32_t peers_look_places(const struct peers *p);
uint32_t peers_likes(const struct peers *p);          /* mesh links to nodes that accept */
bool peers_lonely(const struct peers *p);             /* it accepts, has enough links, and too few to its like */
bool peers_beyond(const struct peers *p, uint32_t n); /* so many of its like can be taken beyond cfg.most */
struct peers_link *peers_link_of(const struct peers *p, uint64_t link);
struct peers_link *peers_link_to(const struct peers *p, const uint8_t id[16]);
struct peers_dial *peers_dial_to(const struct peers *p, const uint8_t id[16]);
void peers_dial_remove(struct peers *p, struct peers_dial *d);
struct peers_link *peers_link_add(struct peers *p, uint64_t link, const uint8_t id[16], uint32_t kind, moyai_ns now);
void peers_link_use(struct peers *p, struct peers_link *l, const struct peers_frame *f, moyai_ns now);
void peers_link_remove(struct peers *p, struct peers_link *l, moyai_ns now);
void peers_offered(struct peers *p, const struct peers_event *ev); /* OFFER, well-formed, on a new link */
void peers_yield(struct peers *p, struct peers_link *l, const struct peers_event *ev);
void peers_kept(struct peers *p, struct peers_link *l, moyai_ns now);
void peers_retire(struct peers *p, struct peers_link *added, moyai_ns now);

#endif
