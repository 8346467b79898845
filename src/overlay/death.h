/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence of death: when a node may say of another that its process has ended.
 *
 * A pure machine, one for each node. It knows the nodes that this one has links to, follows *cases* (nodes whose links
 * have broken, and what their other neighbours say about it), and remembers who is dead or has left. The protocol and
 * what it guarantees is doc/spec/06-death.md.
 *
 *  - A witness's word is final.
 *  - Otherwise a node is declared dead by those whose own last link to it broke (reset, or end of file without
 * farewell; silence never counts) when all its other neighbours say the same and none objects; at least three, on two
 * hosts; or when in addition its listening socket refused a connection.
 *  - Neighbours on the node's own host may have died with it: they are asked, and may object, but are not waited for
 *    longer than cfg.window.
 *  - A declaration is final. It is passed to the neighbours and theirs; a node that lives is told, and is to come back
 *    under another id.
 */
#ifndef OVERLAY_DEATH_H
#define OVERLAY_DEATH_H

#include <moyai/error.h>

struct death; /* one flat block of death_size(cfg) bytes, offsets only, unused bytes zero */

#define DEATH_MEMBERS 64u /* neighbours of one node, the most of a case and of a frame */

struct death_cfg {
    struct moyai_node_id self;
    uint64_t host;     /* a hash of this node's host id; 0: not known */
    uint32_t links;    /* nodes this one has links to; 0: 512 */
    uint32_t cases;    /* followed at once; 0: 32 */
    uint32_t members;  /* neighbours of each that are followed, at most DEATH_MEMBERS; 0: that */
    uint32_t dead;     /* remembered; 0: 1024 */
    uint32_t first;    /* neighbours that are told first that a link has ended; 0: 3 */
    moyai_dur window;  /* an objection of who is asked is waited for so long; 0: 100 ms */
    moyai_dur transit; /* messages may be under way so long: a case ends after window + transit; 0: 1.9 s */
    moyai_dur keep;    /* the dead are remembered so long; 0: 30 s */
};

struct death_member {
    struct moyai_node_id id;
    uint64_t host; /* 0: not known */
};

/* Why: what ended it, and a number: the signal or the exit status. */
enum death_cause { DEATH_SIGNAL, DEATH_EXIT, DEATH_LINKS, DEATH_REFUSED, DEATH_OTHER, DEATH_CAUSES };

enum death_frame_kind {
    DEATH_ENDED, /* subject, its host, host, seq, members: my last link to it has broken; these are its neighbours */
    DEATH_ALIVE, /* subject, host, seq: my link to it stands (or I gave it up for silence): I object */
    DEATH_NONE,  /* subject, host, seq: I have no link to it */
    DEATH_DEAD,  /* subject, cause, number, hops: it is dead. To the subject itself: so are you */
    DEATH_LEFT,  /* subject, hops, cleared: what it has not answered it has not executed */
    DEATH_FRAMES,
};

struct death_frame {
    enum death_frame_kind kind;
    struct moyai_node_id subject;
    uint64_t subject_host, host; /* host: of the sender */
    uint64_t seq;                /* rises with each frame of the sender: of two of one sender the later counts */
    uint32_t cause, number, hops, cleared;
    uint32_t n;
    struct death_member m[DEATH_MEMBERS];
};

enum death_how {
    DEATH_BROKEN,  /* reset, or end of file without farewell */
    DEATH_ORDERLY, /* closed by agreement, or by us */
    DEATH_SILENT,  /* given up because it did not answer */
};

enum death_event_kind {
    DEATH_EV_UP,        /* id, host: a link to it (there may be several) */
    DEATH_EV_END,       /* id, how, members (its neighbours, as it told them): a link to it has ended */
    DEATH_EV_FAREWELL,  /* id, cleared: it has left */
    DEATH_EV_WITNESSED, /* id, cause, number, members if known: a witness has seen its process end */
    DEATH_EV_REFUSED,   /* id: see DEATH_FX_PROBE */
    DEATH_EV_FRAME,     /* id: from whom (by whatever path); frame */
    DEATH_EV_HEARD,     /* id: a packet of a node that is declared dead or has left has arrived */
    DEATH_EV_TIMEOUT,
};

struct death_event {
    enum death_event_kind kind;
    moyai_ns now;
    struct moyai_node_id id;
    uint64_t host;
    enum death_how how;
    enum death_cause cause;
    uint32_t number;
    bool cleared;
    uint32_t n;
    const struct death_member *members;
    const struct death_frame *frame;
};

enum death_effect_kind {
    DEATH_FX_SEND,     /* id, frame: by link or by route; it may get lost */
    DEATH_FX_DECLARED, /* id, cause, number: it is dead: drop its links, refuse what it sends (say HEARD), fail its
                          sessions */
    DEATH_FX_LEFT,     /* id, cleared: the same, but it has left */
    DEATH_FX_TOLD,     /* cause, number: others have declared this node dead: come back under another id */
    DEATH_FX_PROBE,    /* id: if its last link was one that this node had opened, connect to the same address again.
                          Refused    by the system of that host (not timed out, not unreachable): REFUSED. Else close it
                          again
                        */
};

struct death_effect {
    enum death_effect_kind kind;
    struct moyai_node_id id;
    enum death_cause cause;
    uint32_t number;
    bool cleared;
    struct death_frame frame;
};

/* 0: the configuration cannot work (an id; links, cases, dead at most 65536). */
size_t death_size(const struct death_cfg *cfg);

/* d: death_size(cfg) bytes, aligned to 16, from calloc so that what is not used costs nothing. EINVAL as above. */
int death_init(struct death *d, const struct death_cfg *cfg);

/* EPROTO: the frame breaks the protocol. EAGAIN: UP, and the table of links is full (close it). EINVAL: an event that
 * makes no sense (END of no link, about oneself, effects not fetched). In all cases nothing has happened. */
int death_step(struct death *d, const struct death_event *ev);

/* The next thing to do; false: none left. Call until false after each step. */
bool death_next(struct death *d, struct death_effect *fx);

moyai_ns death_deadline(const struct death *d);                   /* when to send TIMEOUT; UINT64_MAX: never */
bool death_check(const struct death *d, struct moyai_error *why); /* invariants */

/* The last link to it has just broken, and nobody has objected yet: it may be known to be dead within `window`. */
bool death_likely(const struct death *d, const struct moyai_node_id *id);
/* What is to be said of one that is dead or has left, by hops 0; false: it is neither. */
bool death_news(const struct death *d, const struct moyai_node_id *id, struct death_frame *f);

enum death_state { DEATH_NOT_KNOWN, DEATH_IS_DEAD, DEATH_HAS_LEFT };
enum death_state death_of(const struct death *d, const struct moyai_node_id *id); /* cheap while few are dead */

#endif
