/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which links a node keeps: whom to connect to, whom to accept, whom to make room for.
 *
 * A pure machine, one for each node. The driver makes connections, carries frames and looks at the rendezvous; this
 * says when and with whom. It is one block of peers_size(cfg) bytes without pointers; all it holds is bounded by its
 * configuration and does not grow with the grid. The protocol is doc/spec/03-peers.md.
 *
 *  - A node opens links until it has cfg.degree of them, whoever opened them, and takes what others open up to
 *    cfg.most. Then it makes room by asking a peer that has more links than the newcomer to give one up, or refuses,
 *    naming three others.
 *  - It knows up to cfg.known further endpoints: of all that it has heard of, those whose ids have the smallest hashes
 *    under a secret of its own. That is a uniform sample, however often each was heard of, and differs from node to
 *    node. A quarter of it is for its own site, which may be the only one it can reach.
 *  - Now and then it opens one link more than it needs and gives another up: that mends a grid that came apart.
 */
#ifndef OVERLAY_PEERS_H
#define OVERLAY_PEERS_H

#include <moyai/error.h>

struct peers; /* one flat block of peers_size(cfg) bytes, offsets only, unused bytes zero */

#define PEERS_TEXT      512u /* the most bytes of the addresses of an endpoint */
#define PEERS_ADDRESSES 8u
#define PEERS_ADDRESS   64u /* the most characters of one of them */
#define PEERS_ENTRIES   16u /* the most endpoints in a frame */
#define PEERS_OTHERS    3u  /* named in a refusal */
#define PEERS_LIFETIME  UINT32_C(3600)

/* Where a node is. `text` is its addresses as they travel: each a length byte and so many characters. They are the
 * driver's to read; what the machine hands out lies in its block and is valid until the next step. */
struct peers_endpoint {
    struct moyai_node_id id;
    uint64_t site;     /* a hash of the site's name; 0: none */
    bool accepts;      /* nodes of other sites can connect to it */
    bool reached;      /* and one that is no neighbour in its network has */
    uint32_t lifetime; /* seconds until this must not be believed any more; more than PEERS_LIFETIME is that */
    uint32_t n_text;
    const uint8_t *text;
};

struct peers_cfg {
    struct peers_endpoint self; /* lifetime: what others are told, 0: 600 s */
    uint64_t seed;
    uint32_t degree, most; /* links; 0: 15, and 3 * degree */
    uint32_t rescue;       /* nodes taken beyond that because nobody else takes them; 0: 256 */
    uint32_t known;        /* endpoints; 0: 128 */
    uint32_t attempts;     /* connections being made at once; 0: 4 */
    uint32_t text;         /* bytes of addresses kept of an endpoint, what does not fit is left out; 0: 256 */
    moyai_dur attempt;     /* the longest time to connect; 0: 10 s */
    moyai_dur gap;         /* between two attempts to connect, on average; 0: 100 ms */
    moyai_dur rendezvous;  /* between two looks, on average; 0: 30 s */
    moyai_dur exchange;    /* between two exchanges with a peer, on average; 0: 120 s */
};

enum peers_kind {
    PEERS_MESH,   /* opened because this machine said CONNECT */
    PEERS_DIRECT, /* for the traffic of a session; the driver opens and closes it. At most a third of cfg.most */
    PEERS_LINE,   /* a configured one that is to stand always; counts as a mesh link, is never given up */
};

enum peers_frame_kind {
    PEERS_OFFER,  /* the first on a link, from who opened it: what = peers_kind; the sender's endpoint */
    PEERS_ACCEPT, /* the sender's endpoint */
    PEERS_REFUSE, /* what = peers_reason; up to PEERS_OTHERS endpoints. Also says that an accepted link ends */
    PEERS_ASK,    /* exchange of endpoints: the sender's own, then others */
    PEERS_ANSWER,
    PEERS_YIELD,             /* would you give up this link? count: of the node that needs the place; or RETIRE */
    PEERS_KEEP,              /* no */
    PEERS_BYE,               /* this link ends in order: what = peers_reason */
    PEERS_OWN,               /* so many are this machine's; the others stay.h's: */
    PEERS_LEAVE = PEERS_OWN, /* count: its number; endpoints: I am to leave: keep a way to these; to one that leaves as
                                well: these stay */
    PEERS_READY,  /* count: of the LEAVE that it answers; endpoints, of which only ids: those to whom there is no way
                     (lifetime 1), or who are to leave or have (lifetime 0); of whom it is not known yet (of who
                     leaves), or not any more (lifetime 2) */
    PEERS_SEARCH, /* count: links that it may still pass; the endpoint: whom it looks for, its site a number drawn for
                     this. No leaver passes it on */
    PEERS_FOUND,  /* the same, back the same way; count: 1 if that one is to leave, or has */
    PEERS_FRAMES,
};

enum peers_flags {
    PEERS_ACCEPTS = 1, /* of the sender, as in its endpoint */
    PEERS_REACHED = 2, /* of an endpoint only */
    PEERS_LAST = 2,    /* OFFER: the sender has no link, and was refused by those it asked */
    PEERS_RETIRE = 4,  /* YIELD: nobody needs the place, the sender has one link too many */
};

enum peers_reason {
    PEERS_FULL,      /* no room */
    PEERS_DUPLICATE, /* there is a link to this node, or one is being made */
    PEERS_YIELDED,   /* given up, as asked */
    PEERS_SILENT,    /* no answer */
    PEERS_LEAVING,
    PEERS_REASONS,
};

struct peers_frame {
    enum peers_frame_kind kind;
    uint32_t what, flags;
    uint32_t count; /* mesh links of the sender (YIELD: see there) */
    uint32_t n;
    struct peers_endpoint e[PEERS_ENTRIES];
};

enum peers_event_kind {
    PEERS_EV_START,
    PEERS_EV_ENTRY,  /* endpoint: from the rendezvous */
    PEERS_EV_LOOKED, /* the rendezvous has told all it does; entries: how many it has, 0 also if it cannot be reached */
    PEERS_EV_UP,     /* link, id, what: this node has connected; of PEERS_MESH only what CONNECT asked for */
    PEERS_EV_FAILED, /* id: what CONNECT asked for cannot be had */
    PEERS_EV_FOUND,  /* endpoint: of a node that said hello where this one called, that address first; id: whom CONNECT
                        named, and who is not there; or zero */
    PEERS_EV_REACHED, /* one that is no neighbour in this node's network has connected to it: others can, too */
    PEERS_EV_SEEN,    /* id: it has said hello here, and where it can be reached */
    PEERS_EV_FRAME,   /* link, id, frame: from the node at the other end */
    PEERS_EV_LOST,   /* link: it has ended, and the machine has not said DROP; what: PEERS_SILENT if for its key only */
    PEERS_EV_GONE,   /* id: it is dead or has left; its links are lost, of which LOST need not be said */
    PEERS_EV_CLOSE,  /* link: a direct one of which the driver has no more need: BYE and DROP follow. EINVAL: no such */
    PEERS_EV_LEAVE,  /* this node leaves: it opens and takes no more links */
    PEERS_EV_DEPART, /* it is to leave: the same, but while it has none, and of those who have none */
    PEERS_EV_NEED,   /* endpoint: a link to it is needed, now and be there enough: connect, if there is none */
    PEERS_EV_AWAY,   /* yes: who was met at an address of a member has gone from there; or somebody is there again */
    PEERS_EV_WAITS,  /* a session finds no path; say it again as long as that is so */
    PEERS_EV_TIMEOUT,
};

struct peers_event {
    enum peers_event_kind kind;
    moyai_ns now;
    uint64_t link; /* the driver's number for it, not 0, not used twice */
    struct moyai_node_id id;
    uint32_t what, entries;
    const struct peers_endpoint *endpoint;
    const struct peers_frame *frame;
    bool looks;  /* FRAME: its sender only looks at the grid, and soon goes */
    bool here;   /* UP, FRAME: its sender is of this host */
    bool yes;    /* AWAY */
    bool needed; /* FRAME: a link to its sender is needed here, too: an OFFER is taken, none is given up for a YIELD */
};

enum peers_effect_kind {
    PEERS_FX_CONNECT, /* endpoint: connect to it, say hello, then UP or FAILED */
    PEERS_FX_CANCEL,  /* id: not any more; neither UP nor FAILED is to follow */
    PEERS_FX_SEND,    /* link, frame */
    PEERS_FX_USE,     /* link, id, what: both ends have agreed, it may be used */
    PEERS_FX_DROP,    /* link, reason: close it when what was to be sent on it is; no evidence of death. LOST need not
                         be said, and what still comes by it is not for the machine */
    PEERS_FX_PROBE,   /* link: see that it still works; if not, LOST */
    PEERS_FX_LOOK,    /* look at the rendezvous: ENTRY for each endpoint, then LOOKED */
};

struct peers_effect {
    enum peers_effect_kind kind;
    uint64_t link;
    struct moyai_node_id id;
    uint32_t what; /* enum peers_kind or enum peers_reason */
    struct peers_endpoint endpoint;
    struct peers_frame frame;
};

/* 0: the configuration cannot work (degree <= most <= 4096, known <= 32768, attempts <= 64, text <= PEERS_TEXT,
 * self: an id, well-formed addresses). */
size_t peers_size(const struct peers_cfg *cfg);

/* p: peers_size(cfg) bytes, aligned to 16, from calloc so that what is not used costs nothing. EINVAL as above. */
int peers_init(struct peers *p, const struct peers_cfg *cfg);

/* EPROTO: a frame breaks the protocol: nothing has happened, close its link and say LOST. EINVAL: an event that makes
 * no sense (a link that is not known or known already, effects not fetched): nothing has happened. For a frame it means
 * that its link was dropped meanwhile: ignore it. */
int peers_step(struct peers *p, const struct peers_event *ev);

/* The next thing to do; false: none left. Call until false after each step. */
bool peers_next(struct peers *p, struct peers_effect *fx);

moyai_ns peers_deadline(const struct peers *p);                   /* when to send TIMEOUT; UINT64_MAX: never */
bool peers_check(const struct peers *p, struct moyai_error *why); /* invariants */

struct peers_count {
    uint32_t mesh, direct; /* links in use; lines count as mesh */
    uint32_t open;         /* connections being made, and links not yet agreed on */
    uint32_t known;
};
struct peers_count peers_count(const struct peers *p);
/* The i-th of the known, i < peers_count().known; as it is told to others at that time. Valid until the next step. */
bool peers_knows(const struct peers *p, const uint8_t id[16]);
struct peers_endpoint peers_known_at(const struct peers *p, uint32_t i, moyai_ns now);

#endif
