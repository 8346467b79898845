/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a node is, where a name is: one node's part in locating. The protocol is doc/spec/04-locating.md.
 *
 * A pure machine. The driver feeds it events (locate_step), takes what it tells upwards (locate_next, until it says
 * no), and takes frames for each link that is ready (locate_ready, locate_pull). Links have small numbers, which the
 * driver gives; costs are measured round trips. A name is known by 16 bytes, the hash of its text, which stays with
 * the driver.
 *
 *  - Neighbours tell each other who their neighbours are and which names are registered at themselves, in changes.
 *  - Now and then they tell each other a digest of whom they know two links away, and of their neighbours' names: not
 *    who it is, but whether it may be somebody. So a node has a hint where to ask for who is three links away.
 *  - A look-up tries these tables, then follows hints and asks a few neighbours for theirs, then asks in rings of 2, 3
 *    and 8 links. Who is asked for a key while his own request for it is outstanding remembers the asker and does not
 * ask again; one answer serves all.
 *  - The destination or a direct neighbour of it answers, nobody else. Nodes on the way of the answer note a route.
 *  - A name is claimed before it is held: of claims that meet, that of the lower object id stands.
 *  - Evidence of death travels two links far and is kept for 3 x cfg.reattach; it answers look-ups.
 */
#ifndef OVERLAY_LOCATE_H
#define OVERLAY_LOCATE_H

#include "overlay/locate_set.h"

#include <moyai/error.h>

#define LOCATE_TOLD   64 /* the most names told to neighbours */
#define LOCATE_SLOTS  64 /* the most slots told in one frame */
#define LOCATE_RINGS  6
#define LOCATE_DIGEST 1024 /* bytes of a digest */

struct locate; /* one flat block of locate_size(cfg) bytes, offsets only, unused bytes zero */

struct locate_cfg {
    struct moyai_node_id self;
    uint64_t seed;
    uint32_t links;               /* 0: 45 */
    uint32_t told;                /* names told to neighbours; 0: 64 */
    uint32_t names;               /* registered here; 0: 16384 */
    uint32_t requests;            /* outstanding or just answered, own and others'; 0: 1024 */
    uint32_t lookups;             /* own tokens; 0: 4096 */
    uint32_t routes;              /* destinations; 0: 1024 */
    uint32_t dead;                /* 0: 512 */
    uint32_t memos;               /* names of others, of which answers have told; 0: 256 */
    uint32_t rate, burst;         /* frames a second on one link, and at once; 0: 500, 100 */
    moyai_dur reattach;           /* 0: 10 s */
    moyai_dur route_life;         /* of a route that is not used; 0: 60 s */
    moyai_dur ring_min, ring_max; /* an answer's time, whatever was measured; 0: 100 ms, 2 s */
    moyai_dur interest;           /* for which a wait is remembered elsewhere; 0: 60 s */
    moyai_dur fresh;              /* for which an answer also serves who asks late; 0: 1 s */
    moyai_dur delta_every;        /* between two frames of changes on a link; 0: 50 ms */
    moyai_dur linger;       /* for which changes wait for others if no neighbour is lost by them, and until four times
                               that since the last that were told; 0: they do not */
    moyai_dur grace;        /* for which the loss of a neighbour waits: who has died is to be mourned first */
    moyai_dur digest_every; /* between two digests on a link, about; 0: none are sent */
};

enum locate_key_kind {
    LOCATE_NODE,
    LOCATE_NAME,
    LOCATE_CLAIM, /* in frames only: is the name free? */
};

enum locate_how {
    LOCATE_DEAD = 1,
    LOCATE_LEFT = 2,
    LOCATE_CLEARED = 3, /* it has left, and was cleared: what it has not answered it has not executed */
};

enum locate_frame_kind {
    LOCATE_NEIGHBOURS, /* slots: id (zero: empty), cost, host */
    LOCATE_NAMES,      /* slots: id (zero: empty), object */
    LOCATE_REQUEST,    /* key, ttl, flags, nonce, wait; of a claim: owner, object */
    LOCATE_REPLY,      /* key, status, hops, age, cost, owner, object */
    LOCATE_BUSY,       /* key */
    LOCATE_EVIDENCE,   /* key: the node; how, ttl, keep */
    LOCATE_LOST,       /* key: the name; ttl; dest: who has lost it; owner, object: to whom */
    LOCATE_DIGESTED,   /* digest */
};

#define LOCATE_AGE (16 * MOYAI_MS)

enum locate_flags {
    LOCATE_DIRECT = 1, /* answer or forget: not to be asked on */
    LOCATE_FLOOD = 2,  /* the last ring: ask everybody, whatever tables say */
    LOCATE_HINTED = 4, /* ask on only where tables and digests say */
    LOCATE_FEW = 8,    /* the same; if they say nothing, a few at random */
};

enum locate_status {
    LOCATE_ST_FOUND = 1,   /* of a claim: the name is held by another */
    LOCATE_ST_DEAD = 2,    /* the node has died */
    LOCATE_ST_LEFT = 3,    /* or left */
    LOCATE_ST_CLAIMED = 4, /* a claim that goes before is under way */
    LOCATE_ST_CLEARED = 5, /* the node has left, and was cleared */
};

/* The end that a status tells of: enum locate_how; 0: none. And the other way. */
static inline uint32_t locate_how_of(uint32_t status) {
    return status == LOCATE_ST_DEAD      ? LOCATE_DEAD
           : status == LOCATE_ST_LEFT    ? LOCATE_LEFT
           : status == LOCATE_ST_CLEARED ? LOCATE_CLEARED
                                         : 0;
}
static inline uint32_t locate_status_of(uint32_t how) {
    return how == LOCATE_DEAD ? LOCATE_ST_DEAD : how == LOCATE_LEFT ? LOCATE_ST_LEFT : LOCATE_ST_CLEARED;
}

struct locate_slot {
    uint8_t id[16], object[16];
    uint64_t host; /* a hash of 32 bits; 0: not known */
    uint32_t cost; /* microseconds */
    uint32_t slot;
};

struct locate_neighbour {
    struct moyai_node_id node;
    uint64_t host;
};

struct locate_frame {
    enum locate_frame_kind kind;
    enum locate_key_kind key_kind;
    uint8_t key[16], owner[16], object[16], dest[16];
    uint32_t ttl, flags, status, how, hops;
    uint32_t wait; /* milliseconds for which the asker waits; of evidence: for which it is to be kept */
    uint32_t cost; /* microseconds */
    uint32_t age;  /* of an answer, in LOCATE_AGE */
    uint32_t n;
    uint64_t nonce; /* of who asks; 0: several */
    union {
        struct locate_slot slots[LOCATE_SLOTS];
        uint8_t digest[LOCATE_DIGEST];
    };
};

enum locate_event_kind {
    LOCATE_EV_LINK_UP,     /* link (free, below cfg.links), node, host, cost. EDEAD: the node is known to be */
    LOCATE_EV_LINK_DOWN,   /* link, parted: both ends have agreed to end it */
    LOCATE_EV_COST,        /* link, cost: measured anew */
    LOCATE_EV_RECEIVE,     /* link, frame */
    LOCATE_EV_LOOKUP,      /* token, key_kind (NODE, NAME), key. EAGAIN: no room; nothing has happened */
    LOCATE_EV_WAIT,        /* the same for a name that need not be there yet, until `until` */
    LOCATE_EV_CANCEL,      /* token: nothing will be told of it. Unknown: EINVAL */
    LOCATE_EV_NAME_ADD,    /* key, object: claim the name; NAME_HELD or NAME_LOST follows. EEXIST: registered here;
                              EAGAIN: no room. With `moved` the name came with its object: it is held at once */
    LOCATE_EV_NAME_REMOVE, /* key. Unknown: EINVAL */
    LOCATE_EV_EVIDENCE,    /* node, how, told (it is made known otherwise: not passed on) */
    LOCATE_EV_ROUTE_BAD,   /* node, link: do not go there by it */
    LOCATE_EV_LEAVE,       /* this node leaves: nobody is to go by it any more */
    LOCATE_EV_TIMEOUT,
};

struct locate_event {
    enum locate_event_kind kind;
    moyai_ns now;
    uint32_t link;
    moyai_dur cost; /* a round trip */
    moyai_dur late; /* RECEIVE: how much longer than half of that the frame was on its way; TIMEOUT: how long after the
                       deadline, because the machine is full */
    struct moyai_node_id node;
    uint64_t host;
    enum locate_how how;
    const struct locate_frame *frame;
    uint64_t token;
    enum locate_key_kind key_kind;
    uint8_t key[16];
    struct moyai_object_id object;
    moyai_ns until;
    bool moved, told;
    bool lost;   /* LOOKUP of a node: a way to it has just failed */
    bool parted; /* LINK_DOWN */
};

enum locate_effect_kind {
    LOCATE_FX_FOUND,     /* token, node, object (of a name), hops, cost: locate_route has a way now */
    LOCATE_FX_NOT_FOUND, /* token, unsure: not all could be asked, or have had the time to answer */
    LOCATE_FX_DEAD,      /* token, node, how */
    LOCATE_FX_EVIDENCE,  /* node, how: learnt from others; once for each node. It may be oneself */
    LOCATE_FX_NAME_HELD, /* key */
    LOCATE_FX_NAME_LOST, /* key, node, object: who has it. The name is registered here no more. Rarely after NAME_HELD
                          */
};

struct locate_effect {
    enum locate_effect_kind kind;
    uint64_t token;
    struct moyai_node_id node;
    struct moyai_object_id object;
    uint8_t key[16];
    enum locate_how how;
    uint32_t hops;
    moyai_dur cost;
    bool unsure;
};

struct locate_hop {
    uint32_t link, hops;
    moyai_dur cost; /* to the destination, the link's own included */
};

/* Bytes of the block; 0: the configuration cannot work (more links or names told than there can be, a table without an
 * entry, the zero id). */
size_t locate_size(const struct locate_cfg *cfg);
/* l: locate_size(cfg) zero bytes, aligned to 16 (calloc: most of it is never touched). EINVAL as above. */
int locate_init(struct locate *l, const struct locate_cfg *cfg);

/* EPROTO: the frame breaks the protocol (nothing has happened: close its link); EDEAD: it came from a node known to
 * be dead (the same); EINVAL: the event makes no sense here (the same); others as said with the events. */
int locate_step(struct locate *l, const struct locate_event *ev);
/* The next thing to tell upwards; false: none left. Call until false after each step and each pull. */
bool locate_next(struct locate *l, struct locate_effect *fx);

/* The links on which something may be sent now. */
locate_set locate_ready(struct locate *l, moyai_ns now);
/* The next frame for a link; false: none (any more, or at this moment). What is pulled counts as sent. */
bool locate_pull(struct locate *l, uint32_t link, moyai_ns now, struct locate_frame *out);
/* When to send TIMEOUT and look who is ready again; UINT64_MAX: never. What is ready now does not count: a driver
 * that cannot write comes back when it can. */
moyai_ns locate_deadline(struct locate *l, moyai_ns now);

/*
 * The next link towards a node, from what is known now, over none of the links in `avoid`: to the node itself, to a
 * neighbour of it, by a noted route (which lives longer for being used). False: none, or the node is dead. Where a
 * frame came by a link, that link is to be avoided.
 */
bool locate_route(struct locate *l, const struct moyai_node_id *node, locate_set avoid, moyai_ns now,
                  struct locate_hop *hop);
/* Where there is no route: a link by whose digest the node may be near, of those not in `avoid`. False: none. */
bool locate_guess(struct locate *l, const struct moyai_node_id *node, locate_set avoid, uint32_t *link);
uint32_t locate_names_most(const struct locate *l); /* names that this node may have */
/* The neighbours of the node at a link's other end, as it told them; at most n. Returns how many. */
uint32_t locate_neighbours(const struct locate *l, uint32_t link, struct locate_neighbour *out, uint32_t n);
/* What is known of a node's end: 0, or enum locate_how. */
int locate_dead(const struct locate *l, const struct moyai_node_id *node, moyai_ns now);

bool locate_check(const struct locate *l, struct moyai_error *why); /* invariants */

#endif
