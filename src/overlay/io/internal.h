/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the overlay's driver only. */
#ifndef OVERLAY_IO_INTERNAL_H
#define OVERLAY_IO_INTERNAL_H

#include "base/crowd.h"
#include "base/id.h"
#include "base/rng.h"
#include "exec/child.h"
#include "link/hello.h"
#include "link/link.h"
#include "link/rundir.h"
#include "link/tcp.h"
#include "overlay/io/directory.h"
#include "overlay/io/overlay.h"
#include "overlay/io/places.h"
#include "overlay/session.h"

#define HASH_FUNCTION(keyptr, keylen, hashv)                                                                           \
    do {                                                                                                               \
        uint64_t h_;                                                                                                   \
        memcpy(&h_, keyptr, sizeof h_);                                                                                \
        (hashv) = (unsigned)(h_ ^ (h_ >> 32)); /* keys are random bits */                                              \
    } while (0)
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define PEER_STREAMS   64u   /* inbound large messages of one peer at once */
#define HALF_OPEN_MOST 1024u /* links without a hello yet */
#define HELLO_TIME     (5 * MOYAI_SEC)
#define FORGET_HOLD    (1 * MOYAI_MS)  /* the node lock, for what the dead have left */
#define FORGET_LAST    (50 * MOYAI_MS) /* and of it when the node ends */
#define PROBE_TIME     (5 * MOYAI_SEC)
#define ACCEPT_FIRST   (10 * MOYAI_MS)
#define ACCEPT_MOST    (320 * MOYAI_MS)
#define REJOIN_EVERY   (1 * MOYAI_SEC) /* at most */
#define DEAD_MOST      4096u           /* dead nodes remembered */
#define DEAD_FEW       8u              /* with cfg.small */
#define ENTRIES_FEW    64u             /* with cfg.small: messages given to a session at once */
#define SWEEP_MOST     32u             /* entries that a node looks at ... */
#define SWEEP_AFTER    (1 * MOYAI_SEC) /* when it has been there so long */
#define PINGS_MOST     64u             /* unanswered on one link */
#define ANSWERS_MOST   256u            /* sent to a link that has no room */

struct ping_list {
    struct ping *first, *last;
};

/* A link with what the overlay knows of it. */
struct olink {
    struct olink *prev, *next; /* all links of the overlay */
    struct overlay *o;
    struct link *link;
    struct peer *peer;                      /* known from the start (outgoing) or since the hello */
    struct olink *peer_next, *flush_next;   /* of peer; flush_next: route.c */
    UT_hash_handle hh;                      /* by number */
    uint64_t number;                        /* not used twice */
    bool outgoing, tcp, farewell, observer; /* the last: its node looks at the grid, and soon goes */
    bool greeted;                           /* its hello has come */
    bool up;                                /* sessions may use it */
    bool carried;                           /* by a program of another's (ssh): its end says nothing of the node */
    bool lost;                              /* being closed, and a loss: for an ended key, or another one's sake */
    bool half, claims; /* one of overlay.n_half_open, and of n_half_tcp if it is one; of `half` there in the second */
    struct crowd_member stranger;
    uint8_t host[16]; /* of the hello */
    moyai_ns up_since;
    pid_t pid;
    struct exec_timer hello_timer, probe_timer;
    struct ping_list pings;     /* sent and not answered ... */
    unsigned pongs_due;         /* and these with those that were dropped since */
    unsigned answers, measured; /* since it last had room; how often trip was, again */
    moyai_ns heard, waits;      /* when anything came last; when something was sent last for which somebody waits */
    /* wide.c's; see there. */
    bool asked, offered, last;     /* the peers machine waits for it; has it; it was offered as the last resort (3.7) */
    bool mesh;                     /* and both ends have agreed on it */
    bool direct;                   /* for the session with its peer (direct.h), whose end ends it */
    bool orderly, silent, doubted; /* its end is no evidence; it did not answer; beat_doubt */
    bool yielded;                  /* given up, as both ends have agreed */
    /* depart.c: its node knows how to be left; the machine has it; both leave, and we have said our last; both have.
     * staying.c: the machine has it; its node has said that it is to leave. */
    bool leaves, port, parted, over, stays, leaving;
    bool counts;       /* our last words say FAREWELL_COUNTED */
    bool relays;       /* the relay machine knows it; route.c */
    bool flush_listed; /* among those that route_flush writes */
    int slot;          /* its number with the locating machine; -1: none */
    /* The least by which our clock was ahead of the stamps of frames, of the last minutes and those before. */
    uint32_t ahead[2];
    moyai_ns ahead_since;        /* 0: there was no stamp yet */
    moyai_ns probed, measure_at; /* 0: not to be measured again */
    moyai_dur trip;              /* there and back, when last measured; 0: not yet */
    const char *place;
    struct emptied *emptied; /* mourn.c */
    struct line *line;       /* of the grid file (lines.h), by which it goes; NULL: none */
    char at[TCP_TEXT];       /* the address it leads to, or came from; "": a Unix socket */
};

/* What a session's frame came by or goes by: a link to the peer itself, or a path through relays (route.c). */
struct via {
    struct olink *link;
    uint64_t path;
};

struct msg_list {
    struct msg *first, *last;
};

/* What moves over paths between two nodes; direct.h. */
struct direct {
    moyai_ns since, again; /* counted since; asked at the earliest at */
    uint64_t bytes;
    unsigned tries;
    bool asked;
};

struct peer {
    UT_hash_handle hh;
    uint8_t id[16];
    struct overlay *o;
    void *data;
    struct olink *links; /* up or coming up */

    struct session *session; /* NULL: none */
    uint64_t session_key;    /* its id, looked at for each frame */
    struct via via;          /* what the session runs over; neither: nothing at present */
    uint64_t old_path;       /* a path that it ran over, until it stands on the other; 0: none */
    struct direct direct;
    unsigned n_paths;                          /* that end here */
    bool opened, closing, want_path, answered; /* answered: over the present path or link */
    uint64_t rx_next;                          /* number of the next byte on the present path, for reading in place */
    moyai_ns last_active, via_since;
    moyai_dur idle; /* the session ends when nobody has needed it for so long */
    struct exec_timer session_timer, idle_timer, retry_timer, ping_timer, beat_timer;
    unsigned retries, unanswered, nowhere; /* nowhere: so often all were asked, and nobody had a way to it */
    int path_rc;                           /* of the last attempt to make a link; 0: there was none, or it came up */

    struct msg_list requests, nested, others; /* not yet given to the session */
    uint64_t order;                           /* of the last request */
    size_t waiting_calls, waiting_bytes;
    bool was_full;
    const char *broken; /* why the session is to fail; NULL: it is not */
    size_t waiting_others;
    size_t owed_bytes;        /* of replies and control messages, until they are over */
    bool owes_much;           /* they have reached queue_bytes and are not down to half of it again */
    size_t gathered;          /* bytes given since the last pump */
    bool draining;            /* the session is telling effects: no step of it now */
    struct msg_list drops;    /* to be dropped when it has */
    size_t open;              /* counted requests */
    struct msg_list returned; /* told DROPPED while a session is drained, verdict pending */

    struct inbound **in; /* of the session, PEER_STREAMS + 1; NULL without one */

    struct peer *dirty_next;
    bool dirty;

    int64_t pid;       /* of its hello or its entry in the rendezvous; 0: not known */
    char title[64];    /* and what it calls itself; may be cut */
    bool asked;        /* the rendezvous, for these */
    bool here;         /* it has had a Unix link: it is of this host */
    char at[TCP_TEXT]; /* the address by which this node had a link to it; "": none */

    bool dead, found_dead, cleared; /* found by us, not told by others; its farewell says FAREWELL_CLEARED */
    bool counted;                   /* and FAREWELL_COUNTED, by the link that the session uses */
    int why_code;                   /* why everything with it has failed; 0: it has not */
    struct moyai_error *why;        /* NULL: nothing, or out of memory; peer_why */
    struct peer *dead_next;
    struct ping_list pings; /* not sent, or from hand to hand */
    unsigned ping_tries;    /* in vain, since the way was found */
};

struct overlay {
    struct exec *x;
    const struct overlay_ops *ops;
    void *ctx;
    struct overlay_cfg cfg; /* its texts may be gone after overlay_new */
    char title[64], site[OVERLAY_SITE];
    struct moyai_rng rng;
    struct rundir *dir;
    struct rdv *rdv;
    struct forget *forgets, *forgets_last; /* what the dead have left in it, being removed */
    struct exec_timer forget_timer;
    bool forget_look; /* it is to look for the dead */
    struct split split;
    int listener;
    struct exec_fd *listen_fd;
    struct exec_timer accept_timer; /* out of descriptors: look again */
    moyai_dur accept_wait;          /* after this time; 0: connections are taken */
    struct link_hello hello;
    struct exec_hook hook;
    struct peer *peers; /* uthash by id */
    struct olink *links, *hot, *by_number;
    size_t n_links, n_half_open, n_half_tcp, n_dead, dead_most;
    struct crowd half[2]; /* connections that were taken and have shown nothing; and those that claim to hold a key */
    uint64_t last_number;
    struct wide *wide; /* NULL: a grid of one host, or none; the same: */
    struct route *route;
    struct mourn *mourn;
    struct depart *depart;
    struct staying *staying;
    struct lines *lines; /* of the grid file; NULL: none */
    struct peer *dirty, *dead_first, *dead_last;
    struct exec_timer rejoin_timer;               /* rejoin.c */
    moyai_ns rejoined, late_at;                   /* when last; 0: never */
    moyai_dur late;                               /* beat.c: so much were we or others behind, at late_at */
    moyai_dur appear_wait;                        /* until its socket and entry are tried again */
    void (*withdrawn)(void *arg), *withdrawn_arg; /* NULL: it does not leave, or that is over */
    /* leaving: told to; closed: links; told: that it is dead, and has not rejoined; ends_others: a run, an agent */
    bool witness, leaving, closing, closed, cleared, told, ends_others;
    struct witness *witnesses;
    uint64_t next_ping;
    struct session_cfg session_cfg;
    struct session_chunk *tx_chunks, *rx_chunks; /* SESSION_CHUNKS each, in one block */
    struct buffers *buffers;
};

/* overlay.c */
/* Adopt a socket, and say hello on it. p: whom it leads to; NULL: its hello will tell. NULL: out of memory; fd and tls
 * stay the caller's. */
struct olink *olink_new(struct overlay *o, int fd, struct tls *tls, struct peer *p, pid_t pid);
struct olink *olink_by_number(struct overlay *o, uint64_t number);
void olink_used(struct olink *k);  /* both ends have agreed: sessions may use it */
void olink_probe(struct olink *k); /* it is reset if nothing comes by it soon */
void olink_wait(struct olink *k);  /* somebody waits for what was sent over it: the same, but in silence only */
int olink_connect(struct peer *p); /* start a link to the peer. EDEAD, EAGAIN ... */
struct olink *olink_ready(const struct peer *p); /* one that is up, maybe reset and about to end; or NULL */
bool olink_coming(const struct peer *p);         /* is one on its way up? */
void peer_declare(struct peer *p, int code, const char *text);    /* text: who, and what has become of it */
void peer_set_why(struct peer *p, const struct moyai_error *why); /* unless memory is short, all of it */
void peer_died_text(struct peer *p, const char *cause, char text[MOYAI_ERROR_TEXT]);
void olink_close(struct olink *k);
bool olink_may_answer(struct olink *k);                                     /* false: it does not read answers */
void overlay_evidence(struct overlay *o, const uint8_t node[16], int code); /* others say so. EDEAD, ECLOSED */

void olink_end(struct olink *k);                               /* as if it had gone down, at once */
void overlay_accept(struct exec_fd *f, int events, void *arg); /* the overlay's; for its listener */

/* queue.c */
void msg_list_push(struct msg_list *l, struct msg *m);
void msg_list_remove(struct msg_list *l, struct msg *m);
struct msg_list *peer_list(struct peer *p, const struct msg *m); /* where it waits */
struct msg *peer_next_request(const struct peer *p);             /* for which the session has room; NULL: none */
static inline bool peer_waiting(const struct peer *p) {
    return p->waiting_calls + p->waiting_others > 0;
}
/* What the session that has ended gives back: to the queue again what was never executed after an orderly end. */
void peer_returned(struct peer *p, bool orderly, int code);
void peer_waiting_sub(struct peer *p, const struct msg *m);
void peer_over(struct peer *p, struct msg *m); /* the message is through, or given up: `done` may follow */
void msg_copy(const struct msg *m, uint64_t offset, size_t n, uint8_t *out);
size_t msg_pieces(const struct msg *m, uint64_t offset, size_t n, struct link_piece *out, size_t room);
void msg_unborrow(struct peer *p, const struct msg *m);
bool peer_drop(struct peer *p, struct msg *m); /* true: forgotten, `done` is not called */
void peer_unplace(struct peer *p, const struct inbound *in);
void peer_drops_remove(struct peer *p, struct msg *m);

/* peer.c */
/* Take all effects of the last step. frame, payload, via: of a RECEIVE step, else NULL. dropping: the message that a
 * DROP step was for; *dropped says whether it was dropped, and then its `done` is not called. */
void peer_drain(struct peer *p, const struct session_frame *frame, uint8_t *payload, struct via via,
                struct msg *dropping, bool *dropped, int *rc);
void peer_mark(struct peer *p);
void peer_pump(struct peer *p);
void peer_link_up(struct peer *p, struct olink *k);
void peer_link_down(struct peer *p, struct olink *k);
void peer_fail(struct peer *p, int code, const char *text);
int peer_frame(struct peer *p, struct via via, uint8_t type, uint8_t *payload, uint32_t n, struct moyai_error *why);
/* Of a path through relays: it may send one frame of `amount` bytes behind the fixed head; it is gone; it will be. */
void peer_room(struct peer *p, uint64_t path, uint32_t amount);
void peer_path_down(struct peer *p, uint64_t path);
void peer_path_leaves(struct peer *p, uint64_t path);
bool peer_unused(const struct peer *p); /* its session stands, and nobody waits for anything of it */
void peer_session_close(struct peer *p);
size_t peer_place(struct peer *p, struct olink *k, const struct frame_head *h, const uint8_t *prefix, uint8_t **dest);
int peer_placed(struct peer *p, struct olink *k, const struct frame_head *h, const uint8_t *prefix, uint8_t *dest,
                struct moyai_error *why);
void peer_init(struct peer *p);
void peer_close(struct peer *p);

/* ping.c */
void pings_send(struct peer *p); /* a link is up, or answers again */
void pings_fail(struct peer *p, int code);
void pings_connect(struct peer *p); /* a link for those that wait */
void pings_due(struct exec *x, struct exec_timer *t);
void pings_link_down(struct peer *p, struct olink *k);
void pings_pong(struct olink *k, const uint8_t bytes[8]);
void pings_located(struct overlay *o, const uint8_t id[16], bool found); /* after route_find */
void pings_far(struct overlay *o, const uint8_t from[16], uint8_t type, const uint8_t *bytes, size_t n); /* forwarded */

/* witness.c */
void witness_hello(struct olink *k); /* the link has come up */
void witness_link_down(struct overlay *o, const uint8_t id[16], bool farewell);
bool witness_watches(const struct overlay *o, const uint8_t id[16]);
void witness_done(struct overlay *o);

/* forget.c */
void forget_init(struct overlay *o);
void forget_close(struct overlay *o);
void forget_node(struct overlay *o, const uint8_t node[16]); /* it is dead */
void forget_joined(struct overlay *o);                       /* look for some that are, soon */

#endif
