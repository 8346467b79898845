/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths through relays: a session between two nodes without a link travels over a chain of links, on each under a
 * label.
 *
 * A pure machine, one for each node, whether it is the path's source, its destination, or passes it on. The driver
 * feeds events (relay_step), does what the machine says (relay_next, until it says no) and takes frames whenever a link
 * has room (relay_pull). The machine never sees the bytes of a session's frame: a token and a length. What travels is
 * doc/spec/05-relays.md, the bytes are in relay_wire.c.
 *
 *  - A PATH frame lays one pointer on each node it passes: (link, label) <-> (link, label). No round trip is spent:
 * frames of the session may follow it at once. An end of a path is a pointer with one side *here*.
 *  - Each hop grants its predecessor credit, cfg.own bytes of its own and more, lent from cfg.memory. So nothing
 * arrives for which there is no room, and no link is ever not read. A frame is charged RELAY_TOLL and what it has
 * behind its first 32 bytes, at most cfg.frame; who holds credit of cfg.own may send any frame.
 *  - A link that breaks, or a node that dies, sends an error both ways along the pointers and removes them.
 */
#ifndef OVERLAY_RELAY_H
#define OVERLAY_RELAY_H

#include <moyai/error.h>

struct relay; /* one flat block of relay_size(cfg) bytes, offsets only, unused bytes zero */

#define RELAY_TOLL 64u /* what a frame is charged beside its bytes: its first 32, and what it costs to keep it */
#define RELAY_OWN  (4096u + 16u + RELAY_TOLL)
#define RELAY_HEAD 32u /* bytes of a session frame that the toll pays */
#define RELAY_MOST                                                                                                     \
    (16384u + 16u + RELAY_TOLL) /* what a frame may be charged at most; more than `own` only bulk needs */

struct relay_cfg {
    struct moyai_node_id self;
    uint64_t seed;      /* of path ids: random */
    uint32_t links;     /* 0: 512 */
    uint32_t pointers;  /* paths through and to this node; 0: 4096 */
    uint32_t spare;     /* further places, for paths that are refused or have broken, until that is said; 0: 256 */
    uint32_t own;       /* bytes of each path and direction; the same at all nodes; 0: RELAY_OWN */
    uint32_t frame;     /* the most that a frame may be charged; the same at all nodes; 0: RELAY_MOST, or a given own */
    uint32_t most;      /* the most credit of a path and direction; 0: 1 MiB */
    uint64_t memory;    /* bytes lent to paths that pass through, together; 0: 64 MiB. 1 is as good as none */
    uint32_t hops;      /* relays that a path from here may pass; 0: 8 */
    uint32_t tries;     /* routes asked for, for one path, before there is none; 0: 3 */
    moyai_dur route;    /* the longest wait for a route; 0: 5 s */
    moyai_dur withdraw; /* the longest that a leaving relay goes on; 0: 1 s */
};

enum relay_code {
    RELAY_CLOSED,    /* in order; travels as CLOSE */
    RELAY_BROKEN,    /* a link */
    RELAY_NO_ROUTE,  /* the node that says so knows none */
    RELAY_DEAD,      /* an end of the path is */
    RELAY_LEFT,      /* an end of the path has */
    RELAY_NO_MEMORY, /* no place for the path */
    RELAY_LOOP,      /* the path came back to a node that it had passed */
    RELAY_TTL,       /* it has passed as many as it may */
    RELAY_LEAVING,   /* a relay leaves soon: another path should be found, this one still works */
    RELAY_REFUSED,   /* by the destination, or by a relay that leaves */
    RELAY_CLEARED,   /* LEFT, and the end that has was cleared: what it has not answered it has not executed */
    RELAY_CODES,
};

enum relay_kind {
    RELAY_PATH,    /* label, hops, to, from, id, amount: credit for the way back */
    RELAY_ERROR,   /* label, code, node: who reports it. But for LEAVING, the label is free */
    RELAY_CREDIT,  /* label, amount: bytes more; 0: places for paths are short where it comes from (FX_SHORT) */
    RELAY_CLOSE,   /* label: nothing more comes, nothing more is wanted. Behind all that was sent */
    RELAY_BLOCKED, /* label: something waits for credit */
    RELAY_TAKE,    /* label, amount: credit to be given back, as far as it can be */
    RELAY_GIVE,    /* label, amount: given back; always answers TAKE */
    RELAY_KINDS,
};

struct relay_frame {
    enum relay_kind kind;
    uint32_t label;
    uint32_t hops;
    uint32_t amount;
    enum relay_code code;
    uint64_t id;
    struct moyai_node_id to, from, node;
};

enum relay_event_kind {
    RELAY_EV_LINK_UP,   /* link, id: the node at its other end */
    RELAY_EV_LINK_DOWN, /* link */
    RELAY_EV_OPEN,      /* id: of the destination; link: the first hop, 0: ROUTE will ask. OPENED tells the path */
    RELAY_EV_ROUTED,    /* path, link (0: none): answers ROUTE, at any time */
    RELAY_EV_FRAME,     /* link, frame */
    RELAY_EV_RECEIVE,   /* link, label, token, bytes, class_: a frame of a session. The token is the machine's now */
    RELAY_EV_WANT,      /* path: this end has something to send; ROOM follows when it may */
    RELAY_EV_SEND,      /* path, token, bytes, class_: one frame, after ROOM */
    RELAY_EV_END,       /* path, code: this end needs it no more. DOWN does not follow */
    RELAY_EV_GONE,      /* id, code: DEAD, LEFT or CLEARED, by the driver's evidence */
    RELAY_EV_WITHDRAW,  /* this node leaves: pass nothing on any more */
    RELAY_EV_TIMEOUT,
};

struct relay_event {
    enum relay_event_kind kind;
    moyai_ns now;
    uint64_t link; /* the driver's number for it, not 0 */
    uint64_t path;
    struct moyai_node_id id;
    uint32_t label;
    uint64_t token;
    uint32_t bytes;  /* payload */
    uint32_t class_; /* enum frame_class; only FRAME_BULK makes a difference */
    enum relay_code code;
    const struct relay_frame *frame;
};

enum relay_effect_kind {
    RELAY_FX_OPENED,  /* path: of OPEN; the first effect of its step */
    RELAY_FX_ROUTE,   /* path, id: the destination, from: the source, link: it came by (0: opened here), amount: how
                         often it was asked before. Answer by ROUTED */
    RELAY_FX_ARRIVED, /* path, id: the source, link: a path ends here. Frames follow as DELIVER */
    RELAY_FX_DELIVER, /* RECEIVE only: path, token: a frame for this end; the token is the driver's again */
    RELAY_FX_ROOM,    /* path, amount: SEND one frame of at most so many bytes behind its first 32; said once a WANT */
    RELAY_FX_LEAVING, /* path, id: who reports it: find another path, use it, then END this one */
    RELAY_FX_SHORT,   /* path: a relay of it has hardly a place left: END it if it is not needed */
    RELAY_FX_DOWN,    /* path, code, id: who reports it: this end of the path is gone */
    RELAY_FX_FREE,    /* token: it will not be sent; the driver's again */
    RELAY_FX_WAKE,    /* link: relay_pull has something, where it had nothing when it was last asked */
    RELAY_FX_WITHDRAWN, /* no path passes through this node any more, and none will */
};

struct relay_effect {
    enum relay_effect_kind kind;
    uint64_t path, link, token;
    struct moyai_node_id id, from;
    enum relay_code code;
    uint32_t amount;
};

/* What relay_pull found: a frame of its own, or a token. */
struct relay_out {
    bool control;
    struct relay_frame frame; /* if control; of class FRAME_CONTROL */
    uint32_t label, class_;   /* else */
    uint64_t token;           /* the driver's again */
};

/* 0: the configuration cannot work (an own below RELAY_TOLL + 1, frame below own or above 2^18, most below own or above
 * 2^24, self zero, counts above 2^20). */
size_t relay_size(const struct relay_cfg *cfg);

/* r: relay_size(cfg) bytes, aligned to 16, from calloc so that what is not used costs nothing. EINVAL as above. */
int relay_init(struct relay *r, const struct relay_cfg *cfg);

/* EPROTO: a frame breaks the protocol: nothing has happened, close its link and say LINK_DOWN. EBUSY: more is refused
 * to its link than it takes: the same. EINVAL: an event that makes no sense (a link or a path that is not known, or
 * effects not fetched): nothing has happened, a token stays the driver's. Frames and tokens of labels that are not
 * known (any more) are late ones, and taken. ENOMEM: LINK_UP, or OPEN: no place. */
int relay_step(struct relay *r, const struct relay_event *ev);

/* The next thing to do; false: none left. Call until false after each step and each relay_pull that was true; WANT and
 * SEND may be stepped meanwhile (their effects come in the same row). */
bool relay_next(struct relay *r, struct relay_effect *fx);

/* The next frame for a link that can take cfg.frame bytes; false: nothing now, WAKE says when again. Control first;
 * then the paths in turn, a frame each, those whose next frame is bulk after the others, but at least one in RELAY_TURN
 * + 1. */
bool relay_pull(struct relay *r, uint64_t link, struct relay_out *out);
#define RELAY_TURN 8u

moyai_ns relay_deadline(const struct relay *r);                   /* when to send TIMEOUT; UINT64_MAX: never */
bool relay_check(const struct relay *r, struct moyai_error *why); /* invariants */

/* A number below pointers + spare that no other path has as long as this one lives: for a table of the driver's. */
static inline uint32_t relay_index(uint64_t path) {
    return (uint32_t)path - 1;
}

/* Where a path leads from here, for reports. id: of the path, the same at all nodes that it passes. */
bool relay_path_id(const struct relay *r, uint64_t path, uint64_t *id);
/* The node at the other end of the link by which what goes to `end`, one of the path's two ends, leaves this node.
 * False: no such path here, or it ends here. */
bool relay_path_next(const struct relay *r, uint64_t id, const struct moyai_node_id *end, struct moyai_node_id *next);
/* The paths that lead over a link to the node at its other end, or come from it, and have their other end elsewhere:
 * begin with *at 0; false: no more. */
bool relay_beyond(const struct relay *r, uint64_t link, uint32_t *at, struct moyai_node_id *end);
/* So many paths more may pass through or end here; before the last quarter is begun, only end. */
uint32_t relay_left(const struct relay *r);
/* Does a path go on towards its destination by that link, under that label? */
bool relay_leads(const struct relay *r, uint64_t link, uint32_t label, struct moyai_node_id *to);

struct relay_count {
    uint32_t links, paths, passing; /* passing: of these, that end elsewhere */
    uint64_t lent, held;            /* bytes: of cfg.memory; queued, of paths that pass */
};
struct relay_count relay_count(const struct relay *r);

#endif
