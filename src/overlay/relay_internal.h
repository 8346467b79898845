/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay machine inside: its block, and what relay.c (paths), relay_flow.c (queues and credit), relay_table.c
 * (places, lists, look-ups) ask of each other. Tests include it to look inside.
 *
 * The block: struct relay, then at the offsets it holds
 *
 *   heads   three tables of chains: of links by number, of sides by (link, label), of paths by id
 *   links   relay_link[links]
 *   paths   relay_path[paths_cap]   pointers: places are used from the lowest
 *   items   relay_item[items_cap]   queued frames, and tokens that are to be freed
 *
 * References are indices + 1, so that 0 is none. A side's is 2 * path index + side + 1.
 */
#ifndef OVERLAY_RELAY_INTERNAL_H
#define OVERLAY_RELAY_INTERNAL_H

#include "base/id.h"
#include "base/rng.h"
#include "overlay/relay.h"

struct relay_list {
    uint32_t first, last;
};
struct relay_node {
    uint32_t prev, next;
};

/* Lists that a side may be on. */
enum relay_side_list {
    ON_LINK,  /* its link's sides */
    ON_SAY,   /* its link's: something to be said */
    ON_SMALL, /* its link's: a frame can go to it, not bulk */
    ON_BULK,  /* the same, bulk */
    ON_LENT,  /* it has credit that is lent */
    SIDE_LISTS,
};
/* And a path. */
enum relay_path_list {
    ON_TELL,  /* effects are due */
    ON_ROUTE, /* it waits for a route, until its time */
    PATH_LISTS,
};

struct relay_link {
    uint64_t number; /* 0: free */
    uint8_t id[16];
    uint32_t chain;
    uint32_t label;      /* the next to be given */
    uint32_t smalls;     /* frames in a row that were not bulk, while bulk waited */
    uint16_t idle, wake; /* relay_pull found nothing; WAKE is due */
    uint32_t wake_next;
    struct relay_list all[4]; /* ON_LINK .. ON_BULK */
};

enum relay_where { NOWHERE, HERE, BY_LINK }; /* a side that is gone, or not yet; an end; a link */

enum relay_say {
    RELAY_SAY_PATH = 1,
    RELAY_SAY_GIVE = 2,
    RELAY_SAY_CREDIT = 4,
    RELAY_SAY_TAKE = 8,
    RELAY_SAY_BLOCKED = 16,
    RELAY_SAY_WARN = 32, /* ERROR that a relay leaves */
    RELAY_SAY_ERROR = 64,
    RELAY_SAY_CLOSE = 128,
    RELAY_SAY_SHORT = 256, /* CREDIT of nothing: places are short */
};

#define RELAY_USED       1u
#define RELAY_USED_PLACE 2u /* noted while places are short */

enum relay_tell {
    RELAY_TELL_OPENED = 1,
    RELAY_TELL_ROUTE = 2,
    RELAY_TELL_ARRIVED = 4,
    RELAY_TELL_ROOM = 8,
    RELAY_TELL_LEAVING = 16,
    RELAY_TELL_DOWN = 32,
    RELAY_TELL_SHORT = 64,
};

/* `out`, `due`, `lent` and the queue are of what comes from this side; `credit` and `give` of what goes to it. */
struct relay_side {
    uint8_t where, on; /* on: bits of enum relay_side_list */
    uint16_t say;
    uint8_t code;    /* of the ERROR to be said */
    uint8_t used;    /* something came since the last look at who needs his loan (RELAY_USED), or his place */
    uint8_t blocked; /* has been said, and no credit has come since */
    uint8_t deaf;    /* closed by the other side: what comes is dropped */
    uint32_t link, label, chain;
    uint32_t first, last, n, bytes; /* the queue */
    int32_t out;                    /* credit that the neighbour here holds; below 0 after a frame charged above own */
    uint32_t due;                   /* that is his, and has not been said */
    uint32_t lent, asked;           /* asked: TAKE has been said, of so much; 0: no */
    uint32_t take;                  /* to be said */
    int32_t credit;                 /* that the neighbour here has granted */
    uint32_t give;                  /* to be given back */
    uint32_t ahead;                 /* of others on its link: what its frames were charged above own */
    struct relay_node node[SIDE_LISTS];
    uint8_t who[16]; /* reports the error to be said */
};

enum relay_state { PATH_FREE, PATH_ROUTING, PATH_OPEN, PATH_ENDING };

struct relay_path {
    uint64_t id;
    uint8_t to[16], from[16];
    uint8_t who[16]; /* reports what is told */
    uint64_t until;
    uint32_t chain, generation;
    uint8_t state, code, hops, on;
    uint8_t tell, tries;
    uint8_t wants; /* its end here has something to send, and was not told that it may */
    uint8_t ends;  /* here, either way */
    struct relay_node node[PATH_LISTS];
    struct relay_side side[2]; /* towards the source, and the destination */
};

struct relay_item {
    uint64_t token;
    uint32_t next;
    uint32_t what; /* bytes of payload << 1 | bulk */
};

struct relay {
    /* configuration */
    uint8_t self[16];
    uint64_t memory, route, withdraw;
    uint32_t links_cap, pointers, paths_cap, items_cap, own, frame, most, hops, tries;
    uint32_t mask; /* of the tables of chains */
    uint32_t off_links, off_paths, off_heads, zero_off;
    uint64_t off_items;

    /* life */
    struct moyai_rng rng;
    uint64_t withdraw_at; /* 0: not leaving */
    uint32_t leaving;
    uint32_t withdrawn;                       /* 1: to be told; 2: told */
    uint32_t links_n, paths_n, live, passing; /* live: not ending; passing: of these, ends here neither way */
    uint32_t paths_top;                       /* no place above it was used yet */
    uint32_t paths_low;                       /* no place below it is free */
    uint32_t paths_asked;                     /* up to here it was last looked for those that are not needed */
    struct relay_list tells, routes, lents, wakes;
    uint64_t lent; /* sum of loans, of cfg.memory */
    uint32_t lenders;
    uint32_t draining;

    /* frames */
    uint32_t items_top, items_free, items_n; /* a place above was never used; a chain of free ones */
    struct relay_list freed;
    uint64_t deliver; /* path of the token to be told; 0: none */
    uint64_t deliver_token;
};

static inline void *relay_at(const struct relay *r, size_t off) {
    return (char *)(uintptr_t)r + off;
}
static inline struct relay_link *relay_link_at(const struct relay *r, uint32_t ref) {
    return (struct relay_link *)relay_at(r, r->off_links) + (ref - 1);
}
static inline struct relay_path *relay_path_at(const struct relay *r, uint32_t ref) {
    return (struct relay_path *)relay_at(r, r->off_paths) + (ref - 1);
}
static inline struct relay_path *relay_path_of(const struct relay *r, uint32_t side) {
    return relay_path_at(r, (side + 1) / 2);
}
static inline struct relay_side *relay_side_at(const struct relay *r, uint32_t side) {
    return &relay_path_of(r, side)->side[(side - 1) & 1];
}
static inline uint32_t relay_path_ref(const struct relay *r, const struct relay_path *p) {
    return (uint32_t)(p - relay_path_at(r, 1)) + 1;
}
static inline uint32_t relay_side_ref(const struct relay *r, const struct relay_path *p, int s) {
    return 2 * relay_path_ref(r, p) - 1 + (uint32_t)s;
}
static inline struct relay_item *relay_item_at(const struct relay *r, uint32_t ref) {
    return (struct relay_item *)relay_at(r, r->off_items) + (ref - 1);
}
static inline uint64_t relay_handle(const struct relay *r, const struct relay_path *p) {
    return (uint64_t)p->generation << 32 | relay_path_ref(r, p);
}
static inline uint32_t relay_charge(uint32_t bytes) {
    return RELAY_TOLL + (bytes > RELAY_HEAD ? bytes - RELAY_HEAD : 0);
}
/* Who has `own` may send any frame. */
static inline bool relay_covers(const struct relay *r, int32_t credit, uint32_t charge) {
    return credit >= (int32_t)(charge < r->own ? charge : r->own);
}
static inline uint32_t relay_limit(const struct relay *r, const struct relay_side *y) {
    return r->own + y->lent;
}
/* Its open side s is all that is left: the other has closed. */
static inline bool relay_drains(const struct relay_path *p, int s) {
    return p->state == PATH_OPEN && p->side[1 - s].where == NOWHERE;
}
/* Hardly another path may pass through. */
static inline bool relay_short(const struct relay *r) {
    return r->passing + r->pointers / 16 >= r->pointers - r->pointers / 4;
}
static inline uint64_t relay_after(moyai_ns now, uint64_t span) {
    return now > UINT64_MAX - span ? UINT64_MAX : now + span;
}

/* relay_table.c */
bool relay_layout(struct relay *r, const struct relay_cfg *cfg, size_t *size);
uint32_t relay_link_find(const struct relay *r, uint64_t number);
uint32_t relay_link_add(struct relay *r, uint64_t number, const uint8_t id[16]); /* 0: no place */
void relay_link_remove(struct relay *r, uint32_t link);
struct relay_path *relay_path_add(struct relay *r); /* NULL: no place */
void relay_path_remove(struct relay *r, struct relay_path *p);
struct relay_path *relay_path_find(const struct relay *r, uint64_t handle); /* NULL: none (any more), or ending */
struct relay_path *relay_id_find(const struct relay *r, uint64_t id);
void relay_id_put(struct relay *r, struct relay_path *p, uint64_t id);
void relay_id_drop(struct relay *r, struct relay_path *p);
uint32_t relay_side_find(const struct relay *r, uint32_t link, uint32_t label);
void relay_side_put(struct relay *r, struct relay_path *p, int s, uint32_t link, uint32_t label);
void relay_side_drop(struct relay *r, struct relay_path *p, int s); /* off its link and all lists */
uint32_t relay_label_new(struct relay *r, uint32_t link);
bool relay_wake_next(struct relay *r, uint64_t *number);                     /* of the next link whose WAKE is due */
bool relay_label_ours(const struct relay *r, uint32_t link, uint32_t label); /* of our parity? */
void relay_side_list(struct relay *r, struct relay_path *p, int s, enum relay_side_list which, bool on);
void relay_path_list(struct relay *r, struct relay_path *p, enum relay_path_list which, bool on);
struct relay_list *relay_list_of(struct relay *r, const struct relay_side *y, enum relay_side_list which);
void relay_tell(struct relay *r, struct relay_path *p, enum relay_tell what);
void relay_say(struct relay *r, struct relay_path *p, int s, enum relay_say what);
void relay_unsay(struct relay *r, struct relay_path *p, int s, uint32_t what);

/* relay_flow.c */
void relay_queue_free(struct relay *r, struct relay_side *y); /* its tokens are to be freed */
void relay_token_free(struct relay *r, uint64_t token);
bool relay_freed_next(struct relay *r, uint64_t *token); /* the next of these */
/* After anything that may let a frame go to side s, or not any more. */
void relay_schedule(struct relay *r, struct relay_path *p, int s);
void relay_room(struct relay *r, struct relay_path *p); /* tell the end here that it may send, if it wants to and may */
void relay_loan_end(struct relay *r, struct relay_path *p, int s);
void relay_owe(struct relay *r, struct relay_path *p, int s); /* say credit, if it is time */
int relay_receive(struct relay *r, const struct relay_event *ev);
int relay_send(struct relay *r, const struct relay_event *ev);
int relay_want(struct relay *r, uint64_t path);
int relay_flow_frame(struct relay *r, struct relay_path *p, int s, const struct relay_frame *f);

/* relay.c */
void relay_said_last(struct relay *r, struct relay_path *p, int s); /* ERROR or CLOSE was pulled */

/* relay_check.c */
/* Number queued frames anew in the order of their queues, so that equal states are equal bytes. Only between steps,
 * with all effects fetched. */
void relay_settle(struct relay *r);

#endif
