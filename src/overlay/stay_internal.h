/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stay machine inside: what stay.c (events), stay_plan.c (what a leaver says) and stay_check.c ask of each other.
 *
 * The block: struct stay, then at the offsets it holds
 *
 *   links   stay_link[links_cap]    in no order
 *   ltexts  links_cap * text bytes  addresses of the nodes of links
 *   gone    16 * STAY_GONE bytes for each of the sets: who has left or died
 *   seen    stay_seen[STAY_SEEN] for each of the sets: searches that have been passed on
 *   needs   stay_need[STAY_NEEDS]   in no order
 *   edges   stay_edge[edges_cap]    in no order
 *   order   uint32_t[links_cap]     for a while: links in the order of their ids
 *   class   uint32_t[links_cap + 1] for a while: by link, one of those that it has a way to; last: of `least`
 *   ntexts  (STAY_NEEDS + 1) * text and of needs, and of `least`
 *   fx      stay_fx[fx_cap]         effects of the last step
 */
#ifndef OVERLAY_STAY_INTERNAL_H
#define OVERLAY_STAY_INTERNAL_H

#include "base/id.h"
#include "base/rng.h"
#include "overlay/stay.h"

#define STAY_NEEDS ((uint32_t)64)
#define STAY_SEEN  ((uint32_t)16) /* of each set of searches, by number: the latest */
#define STAY_GONE  ((uint32_t)16) /* of each set of who has gone, by id: the latest */
#define STAY_RINGS ((uint32_t)3)
#define STAY_HOPS  ((uint32_t)32)

struct stay_link {
    uint64_t link, site;
    uint8_t id[16];
    uint64_t said_at;
    uint32_t said, answered; /* numbers: of our last LEAVE here, 0: none; of that which was answered */
    uint32_t heard;          /* of its own last one */
    uint32_t sum;            /* of whom we have named here, if it leaves */
    uint32_t n_text;
    uint8_t accepts, reached, leaving;
    uint8_t owes;    /* READY is to be said when all that it has named is decided */
    uint8_t changed; /* LEAVE is to be said again */
    uint8_t mute;    /* it has not answered that for so long that it is not waited for */
    uint8_t lacks;   /* it leaves, too, and those that stay around it have no way to whom we named but by us */
    uint8_t lost;    /* what was found for it is of no use any more: that is to be said, though it is not decided */
    uint8_t placed;  /* it leaves, too, and has said its place in the order of going (stay_order.c): */
    uint8_t place_links;
    uint8_t done;
    uint8_t ends;    /* others, which it has started: they go before it */
    uint8_t watched; /* there is one who looks at the grid by it */
    uint32_t sees;   /* it stays, and sees so many that do */
    uint64_t place_key;
    uint64_t opens; /* it leaves, too, and does not know yet whether they have; until when that is waited for; or 0 */
};

enum stay_need_state {
    NEED_NEW,    /* not looked at yet */
    NEED_WAY,    /* the driver is asked */
    NEED_LINK,   /* a link is being made, by this node or the other; due: until when that is waited for */
    NEED_SEARCH, /* others are asked; due */
    NEED_OK,
    NEED_LACK, /* there is no way; due: looked for again */
    NEED_GONE, /* it leaves, too, or has */
};

/* Somebody to whom a leaver wants there to be a way. At one that leaves itself: one that stays, as another has said. */
struct stay_need {
    uint64_t link; /* the leaver's; 0: it has gone, and this node leaves, too */
    uint64_t site;
    uint8_t id[16];
    uint64_t due, nonce;
    uint32_t state, n_text;
    uint8_t accepts, reached, retried;
    uint8_t known;   /* it was found, and that was said; it is looked at again */
    uint8_t ring;    /* how far the search goes: the last, as far as it can */
    uint8_t orphan;  /* at one that leaves: the leaver to whom this one was a neighbour has gone */
    uint8_t last;    /* no other part will have more */
    uint16_t weight; /* of the part it is of, as a leaver to which some have no way has said; 0: none has */
};

enum stay_edge_state { EDGE_ASKED, EDGE_OK, EDGE_LACK };

/* That one was named to that neighbour. */
struct stay_edge {
    uint64_t link;
    uint8_t id[16];
    uint32_t state;
    uint8_t wanted, extra, zero[2];
};

struct stay_seen {
    uint64_t nonce, link;
};

struct stay_fx {
    uint64_t link, nonce;
    uint8_t id[16];
    uint32_t kind, frame, number, n;
    uint32_t pick[PEERS_ENTRIES]; /* LEAVE, CONNECT: of needs, or of links behind PICK_LINK; READY: of needs */
};
#define PICK_LINK  ((uint32_t)1 << 31)
#define PICK_LEAST STAY_NEEDS       /* stay.least */
#define PICK_SEES  (STAY_NEEDS + 2) /* from one that stays: how many it sees */
#define PICK_PLACE (STAY_NEEDS + 1) /* to one that leaves: the own place in the order of going */

/* Lifetimes of what is named. */
#define NAMED_ORPHAN ((uint32_t)1)
#define NAMED_STAYS  ((uint32_t)60) /* and twice its weight, and 1 if that is the last word */

/* Of those in READY: who leaves, or has; to whom there is no way; of whom that is not known yet, or not any more. */
enum { READY_GONE, READY_LACK, READY_OPEN };

/* Of a place in the order of going, as the lifetime of the sender itself, whose site is the root's key: how far the
 * root is, from 1; and flags. */
#define ORDER_LINKS     ((uint32_t)32)
#define ORDER_DONE      ((uint32_t)64)
#define ORDER_ENDS      ((uint32_t)128)
#define ORDER_WATCHED   ((uint32_t)256)
#define ORDER_UNWATCHED ((uint64_t)1 << 63) /* of a root's key */

/* A part's weight: how large it is, how many of the leaver's neighbours in it were reached, and how many accept. What a
 * large part has is not all seen: above that only how often it has twice as many counts. */
#define WEIGHT_EXACT ((uint32_t)64)
#define WEIGHT_MOST  ((uint32_t)4) /* of the others, each */

struct stay {
    uint8_t self[16];
    uint64_t site, reply, attempt, search, again, quiet;
    uint32_t accepts, text, links_cap, edges_cap, fx_cap, sets, seen_sets;
    uint32_t off_links, off_needs, off_edges, off_order, off_class, off_ltexts, off_ntexts, off_fx, off_gone, off_seen;
    struct moyai_rng rng;
    uint32_t leaving, number;
    uint32_t sees;    /* how many nodes that do not leave; 0: not known */
    uint32_t done;    /* what it has begun is finished */
    uint32_t depends; /* as it depends on another leaver: `least` is one from whom it is cut off then */
    uint32_t ends;    /* others that leave, which it has started */
    uint32_t ended;   /* by such a one */
    uint32_t zero;
    uint32_t links_n, needs_n, edges_n, fx_n, fx_at;
    uint32_t flooded; /* in this step: there is room for one */
    uint64_t parent;  /* link: of the leaver of whom it has `least`; 0: it is its own */
    uint64_t place_key,
        place_by;      /* its place in the order of going: the root, 0 for those that stay; link: as who says */
    uint64_t place_at; /* it has lost its place: until then it takes none by others */
    uint32_t place_links, watched; /* how far the root is; 0: it has had no place yet */
    uint64_t quiet_at;             /* so long others that leave may still have something to say */
    struct stay_need least;        /* of those that stay, as far as leavers have told each other; id 0: none */
};

static inline void *stay_at(const struct stay *s, uint32_t off) {
    return (char *)(uintptr_t)s + off;
}
static inline struct stay_link *stay_links(const struct stay *s) {
    return stay_at(s, s->off_links);
}
static inline struct stay_need *stay_needs_of(const struct stay *s) {
    return stay_at(s, s->off_needs);
}
static inline struct stay_edge *stay_edges(const struct stay *s) {
    return stay_at(s, s->off_edges);
}
static inline uint32_t *stay_order(const struct stay *s) {
    return stay_at(s, s->off_order);
}
static inline uint32_t *stay_class(const struct stay *s) {
    return stay_at(s, s->off_class);
}
static inline uint8_t *stay_ltext(const struct stay *s, uint32_t i) {
    return (uint8_t *)stay_at(s, s->off_ltexts) + (size_t)i * s->text;
}
static inline uint8_t *stay_ntext(const struct stay *s, uint32_t i) {
    return (uint8_t *)stay_at(s, s->off_ntexts) + (size_t)i * s->text;
}
static inline struct stay_fx *stay_fxs(const struct stay *s) {
    return stay_at(s, s->off_fx);
}

/* stay.c */
struct stay_fx *stay_say(struct stay *s, enum stay_effect_kind kind, uint64_t link, const uint8_t id[16]);
struct stay_fx *stay_send(struct stay *s, const struct stay_link *l, enum peers_frame_kind frame, uint32_t number);
struct stay_link *stay_link_to(const struct stay *s, const uint8_t id[16]);
struct stay_link *stay_link_of(const struct stay *s, uint64_t link);
bool stay_lacks(const struct stay *s, const uint8_t id[16]); /* one of our own to whom it was named has no way */
bool stay_is_gone(const struct stay *s, const uint8_t id[16]);

/* stay_order.c */
void stay_place(struct stay *s, moyai_ns now);                         /* where it is in the order of going now */
uint32_t stay_place_word(const struct stay *s);                        /* what is said of it */
void stay_placed(struct stay_link *l, const struct peers_endpoint *e); /* that the other has said */
bool stay_waits_for(const struct stay *s, const struct stay_link *l);  /* until it has gone */

/* stay_plan.c */
void stay_plan(struct stay *s, moyai_ns now); /* who is to be named to whom; and say so */
void stay_edge_remove(struct stay *s, struct stay_edge *e);
void stay_depend(struct stay *s, const uint8_t from[16]); /* it is cut off from that one but for a leaver */

/* Those of PICK_LEAST, too. */
static inline const struct stay_need *stay_need_at(const struct stay *s, uint32_t i) {
    return i == PICK_LEAST ? &s->least : &stay_needs_of(s)[i];
}

#endif
