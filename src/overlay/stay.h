/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those that stay remain connected (doc/spec/09-leave.md, 11): what a node does that is to leave, and its neighbours,
 * from when it is told so until it goes.
 *
 * A pure machine, one for each node. A leaver names its neighbours that stay to each other, each one or two of them, so
 * that all hang together; who is named others keeps a link to them, or makes one, or finds another way that no leaver
 * is on. So when all have answered they are connected without the leaver. Leavers that are neighbours name each other
 * one that stays, so that whoever leaves at the same time is reckoned with. Where there is no other way it is said, and
 * who depends on the leaver is known.
 */
#ifndef OVERLAY_STAY_H
#define OVERLAY_STAY_H

#include "overlay/peers.h"

struct stay; /* one flat block of stay_size(cfg) bytes, offsets only, unused bytes zero */

struct stay_cfg {
    struct moyai_node_id self;
    uint64_t site, seed;
    bool accepts;
    bool ended;        /* by another, which has started it, and goes after it */
    uint32_t links;    /* at once; 0: 512 */
    uint32_t text;     /* bytes of addresses kept of a node; 0: 256 */
    uint32_t gone;     /* of so many who has gone is remembered, in 16ths of them the latest each; 0: 1024 */
    uint32_t seen;     /* so many searches are, in the same way; 0: 4096 */
    moyai_dur reply;   /* who has not answered for so long is not waited for; 0: 5 s; longer than attempt and search */
    moyai_dur attempt; /* to make a link; 0: 1.5 s */
    moyai_dur search;  /* for another way; 0: 1.5 s */
    moyai_dur quiet;   /* a leaver beside others waits for what they may say; 0: 300 ms */
    moyai_dur again;   /* a search that found none is repeated after; 0: 4 s */
};

enum stay_event_kind {
    STAY_EV_UP,    /* link, endpoint: of its node; counts: it is one of the mesh, and its node one that knows of this */
    STAY_EV_DOWN,  /* link */
    STAY_EV_GONE,  /* id: has left or died */
    STAY_EV_LEAVE, /* this node is to leave; yes: others that leave are ended by it; id not zero: as it depends on a
                    * leaver by whom alone it has a way to that one (stay_dependants): once, also when it leaves already
                    */
    STAY_EV_DONE,  /* this node has finished what it has begun */
    STAY_EV_WATCHED, /* yes: there is a link to who looks at the grid only, and hears of ends */
    STAY_EV_FRAME,   /* link, frame */
    STAY_EV_WAY,     /* id, yes: answers FX_WAY */
    STAY_EV_FAILED,  /* id: no link can be made */
    STAY_EV_TIMEOUT,
};

struct stay_event {
    enum stay_event_kind kind;
    moyai_ns now;
    uint64_t link; /* not 0, not used twice */
    struct moyai_node_id id;
    const struct peers_endpoint *endpoint;
    const struct peers_frame *frame; /* of one of the last four kinds */
    uint32_t sees; /* of any kind: how many nodes this one sees that do not leave, itself, its neighbours and theirs; 0:
                    * as before */
    bool yes;
};

enum stay_effect_kind {
    STAY_FX_SEND, /* link, frame */
    STAY_FX_WAY,  /* id: is there a way over a neighbour that does not leave (stay_leaves), as far as is known here? */
    STAY_FX_CONNECT, /* endpoint: make a link to it; UP or FAILED follow, or nothing */
    STAY_FX_LEAVES,  /* link: its node is to leave: nothing new is to go by it */
};

struct stay_effect {
    enum stay_effect_kind kind;
    uint64_t link;
    struct moyai_node_id id;
    struct peers_endpoint endpoint;
    struct peers_frame frame;
};

size_t stay_size(const struct stay_cfg *cfg);                             /* 0: the configuration cannot work */
int stay_init(struct stay *s, const struct stay_cfg *cfg) MOYAI_MUST_USE; /* of zeroed bytes, aligned to 16 */

/* 0; EINVAL: no such event now; EPROTO: a frame that its sender may not say: the link is to be closed. Nothing has
 * changed then. All effects are to be fetched before the next step. */
int stay_step(struct stay *s, const struct stay_event *ev) MOYAI_MUST_USE;
bool stay_next(struct stay *s, struct stay_effect *fx); /* addresses are valid until the next step */
moyai_ns stay_deadline(const struct stay *s);           /* UINT64_MAX: never */
bool stay_check(const struct stay *s, struct moyai_error *why);

bool stay_leaving(const struct stay *s);               /* this node is */
bool stay_leaves(const struct stay *s, uint64_t link); /* the node at its other end has said that it is to leave */
bool stay_needs(const struct stay *s, const uint8_t id[16]); /* a link to it is wanted, because of a leaver */
/* May this node go: are those that stay connected without it, as far as they have said? */
bool stay_may_go(const struct stay *s, moyai_ns now);
/* May it, whether they are or not, if the node at the other end of that link, which leaves, too, has links to all other
 * neighbours of this one? It remains, and looks after them. */
bool stay_may_go_before(const struct stay *s, uint64_t link, moyai_ns now);
/* Those of its neighbours that leave, too, have not finished what they have begun, and have no way to those that stay
 * but by leavers, by this one or as near ones: their ids, at most n; how many. It is to go after them. */
uint32_t stay_behind(const struct stay *s, struct moyai_node_id *ids, uint32_t n);
/* Has that node gone, as far as its link tells, or said when it goes, so that it is waited for if need be? */
bool stay_is_placed(const struct stay *s, const uint8_t id[16]);
/* Those that have not said whether they have a way to the others without it, or may say something else yet. */
uint32_t stay_unanswered(const struct stay *s, struct moyai_node_id *ids, uint32_t n);
/* Those among its neighbours that no way but this node leads to from the others: their ids, at most n; how many. (The
 * others are the largest part, as far as its nodes see it, or, if as large, that in which most can be connected to.) */
uint32_t stay_cut_off(const struct stay *s, struct moyai_node_id *ids, uint32_t n);
/* Those of them that stay. All of those that hang together with one of them are cut off as well: to tell it to leave,
 * as one that depends on this node, and so on, is to tell them all. *from: one of the others, from whom they are cut
 * off. */
uint32_t stay_dependants(const struct stay *s, struct moyai_node_id *ids, uint32_t n, struct moyai_node_id *from);
/* Have all neighbours answered its latest word, or are not waited for? Before, who is cut off may change. */
bool stay_answered(const struct stay *s);

#endif
