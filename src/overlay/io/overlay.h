/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overlay's driver: messages to nodes.
 *
 * The layer above sends a message to a node id and hears what became of it; it neither knows nor
 * cares over which links the session to that node runs: a Unix socket, TLS, or a path through others. All functions:
 * node lock held; callbacks too, on whoever drives the loop (or, where it is said, from within the call).
 */
#ifndef OVERLAY_IO_OVERLAY_H
#define OVERLAY_IO_OVERLAY_H

#include "base/config.h"
#include "base/events.h"
#include "base/log.h"
#include "exec/exec.h"
#include "overlay/io/rendezvous.h"
#include "wire/codec.h"

struct overlay;
struct peer; /* another node, as long as something connects us to it; else it goes in the next turn of the loop */

/* A message on its way. Embedded in whatever it belongs to; its bytes stay there until `done`. */
struct msg {
    struct msg *next, *prev; /* queue of the peer, while waiting */
    uint64_t order;          /* among the peer's requests */
    uint64_t lane;           /* requests of one lane keep their order (the object that is called) */
    struct peer *peer;
    uint8_t *head; /* first bytes, head_len of them; then pieces spliced in as codec.h says */
    uint32_t head_len;
    uint32_t n_pieces;
    struct codec_piece *pieces;
    uint64_t length; /* of all */
    bool owned;      /* head was malloc'ed for this message */
    bool limited;    /* a request that will be answered: counts among the calls open at the peer ... */
    bool dropping;   /* the overlay's own */
    bool returned;   /* the same: by a session that ends, and neither sent nor waiting */
    bool counted;    /* ... from when it is given to the session until overlay_call_closed */
    bool request;    /* waits in order with other requests; others may overtake */
    bool nested;     /* a request on behalf of one of the peer's: not held back when too many are open */
    bool spare;      /* no request, but nobody waits for it either: with no room EAGAIN is all that happens */
    uint8_t state;   /* enum msg_state */
    /* Told once: 0: the peer has taken all of it. Else the code, and whether it may have been taken.
     * Never from within overlay_send. */
    void (*done)(struct msg *m, int code, enum moyai_executed executed);
};
enum msg_state { MSG_IDLE, MSG_WAITING, MSG_IN_SESSION };

/* An inbound message that is larger than a chunk. The layer above embeds it. */
struct inbound {
    struct peer *peer;
    uint32_t stream;
    uint64_t total, have;
    uint8_t *body; /* room for `total` bytes; set by `begin` */
};

struct overlay_ops {
    /* A whole small message; the bytes live until the return. Not 0: the peer broke the protocol. */
    int (*message)(void *ctx, struct peer *p, uint8_t *bytes, size_t n);
    /* A large message begins with these n bytes (at most 4 KiB). Return its record with body set (and the first
     * n bytes NOT yet copied), or NULL to refuse it: it is read and forgotten. */
    struct inbound *(*begin)(void *ctx, struct peer *p, const uint8_t *bytes, size_t n, uint64_t total);
    int (*complete)(void *ctx, struct inbound *in);
    void (*aborted)(void *ctx, struct inbound *in); /* it will not be completed */
    /* The session with p has failed or its process is dead: everything still open with p fails. Messages have
     * been told `done` before. */
    void (*failed)(void *ctx, struct peer *p, const struct moyai_error *why);
    void (*room)(void *ctx, struct peer *p); /* the queue towards p is below its limit again */
    /* overlay_owes_much is false again. Do no more than note it, or submit tasks. */
    void (*owes_less)(void *ctx, struct peer *p);
    /* A name that was held is another's now: two parts of the grid had it, and have met. NULL: no names. */
    void (*name_lost)(void *ctx, const uint8_t key[16]);
    /* Others have declared this node dead: under which id does it go on? False: out of memory, it is asked again. */
    bool (*rejoin)(void *ctx, struct moyai_node_id *id);
    void (*rejoined)(void *ctx); /* it does: everything that was open has failed */
    /* This node ends, or is done with a peer: what has not begun is answered now, and does not begin. Has every call
     * that has begun been answered, and the answer been taken? It is said: what is open was never executed. NULL: no */
    bool (*cleared)(void *ctx);
    /* Keep the session although nothing moves: calls are open with p, or something else points to it. */
    bool (*busy)(void *ctx, struct peer *p);
};

#define OVERLAY_SITE 64u /* of its name, with a zero */

struct overlay_cfg {
    const char *grid;    /* NULL: none; the node can talk to itself only */
    const char *run_dir; /* NULL: the default */
    const char *title;
    struct moyai_node_id self;
    struct moyai_node_id parent; /* zero: none; else a link to it is kept from the start */
    size_t queue_calls, queue_bytes;
    size_t open_calls; /* calls open at one peer at once: what the peer would refuse is not sent */
    uint64_t max_message;
    moyai_dur reattach, idle;
    /* Of grids of several hosts; texts NULL: the default. */
    const char *key_file, *listen, *advertise, *port_range, *site;
    const char *grid_file, *ssh; /* NULL: none; "ssh" */
    bool outbound_only;
    bool observer; /* it looks at others, who need not take it for one of them, and find it in no directory */
    int hurry_fd;  /* 0: none. While it says farewell: readable, and `hurries`, which reads all, says so: to end now */
    bool (*hurries)(void *arg);
    void *hurry_arg;
    uint32_t degree;
    uint64_t files;        /* descriptors that the process may have: links are fewer where these are few. 0: enough */
    uint64_t relay_memory; /* bytes */
    bool small;            /* one of very many nodes in a process: tables for what such a one is in */
    moyai_dur link_delay;
    uint64_t link_rate;
    struct moyai_log *log;
    struct events *events;
    const struct config *config; /* what errors call the options; may be NULL */
};

int overlay_new(struct overlay **ret, struct exec *x, const struct overlay_cfg *cfg, const struct overlay_ops *ops,
                void *ctx, struct moyai_error *reterr);
/* Before the end, if there is time: links are made and taken no more, and the sessions of others that pass through this
 * node go over to other ways, so that they hardly notice its end. False: none does. Else done(arg) is called from the
 * loop, after a second at most; not after the next two. */
bool overlay_withdraw(struct overlay *o, void (*done)(void *arg), void *arg);
/* First half of the end: farewell on all links, entries removed, everything pending told. */
void overlay_close(struct overlay *o);
/* The same, but the rendezvous may still be asked, as somebody may. overlay_close follows, or nothing. */
void overlay_farewell(struct overlay *o);
/* In place of those of cfg. */
void overlay_hurry(struct overlay *o, int fd, bool (*hurries)(void *arg), void *arg);
void overlay_free(struct overlay *o);
/* This process is about to be ended, and what it ran has been: say so of this node, and of those that it was the
 * witness of, so that nobody need find it out. Nothing but the process's end may follow. */
void overlay_obituary(struct overlay *o, const char *cause);

struct rdv *overlay_rdv(struct overlay *o); /* NULL without a grid, or without a directory */

/*
 * Names of grids without a directory: they are located among the nodes (doc/spec/04-locating.md).
 */
bool overlay_locates(const struct overlay *o);
/* Who is asked for them. */
struct overlay_asks {
    bool linked; /* somebody */
    bool alone;  /* nobody, and as far as is known there is nobody else */
    moyai_ns
        sure;  /* linked: a look-up that begins later reaches all; before, others may be without links as this was */
    bool late; /* it was without for more than a moment */
};
struct overlay_asks overlay_asks(const struct overlay *o);
/* Somebody who waits to be told; embedded in what is his. told: once, from the loop or the asking itself; 0, ENOENT
 * (find), EEXIST (claim: whose it is), ECANCELED (claim: released), ECLOSED (the node ends). NULL object: not known. */
struct name_ask {
    uint64_t token; /* 0: not waiting */
    void (*told)(struct name_ask *a, int code, const uint8_t object[16], const uint8_t node[16]);
};
/* until: 0: who has it now; else wait for somebody to register it so long. 0, or EAGAIN (too many look-ups): `told`
 * will not be called. Told is ENOENT (nobody has it), EBUSY (not all could be asked in time), ECLOSED. */
int overlay_name_find(struct overlay *o, const char *name, moyai_ns until, struct name_ask *a);
/* EEXIST (this node has it, for whatever object), EAGAIN (too many names): as above. a NULL: held at once, with its
 * object. */
int overlay_name_claim(struct overlay *o, const char *name, const uint8_t object[16], struct name_ask *a);
void overlay_name_drop(struct overlay *o, struct name_ask *a); /* not interested any more; fine if it was told */
/* How many more there may be; SIZE_MAX: any, they are not located. */
size_t overlay_name_room(const struct overlay *o);
void overlay_name_release(struct overlay *o, const char *name);
void overlay_name_key(const char *name, uint8_t key[16]);
/* Is that node certainly dead? May try a connection; never blocks. */
bool overlay_is_dead(struct overlay *o, const uint8_t node[16]);

/* The peer of that id, made if need be (not connected by this). NULL: out of memory. */
struct peer *overlay_peer(struct overlay *o, const uint8_t node[16]);
struct peer *overlay_find(const struct overlay *o, const uint8_t node[16]); /* NULL: not known */
void overlay_release(struct peer *p); /* `busy` may be false now, and no message or link has to do with it */
/* What people call it: "node 0123abcd (worker, pid 4711)", as far as that is known. */
#define PEER_NAME ENTRY_CALLED
void peer_name(struct peer *p, char out[PEER_NAME]);
void overlay_self_name(const struct overlay *o, char out[PEER_NAME]);
const uint8_t *peer_id(const struct peer *p);
void **peer_data(struct peer *p); /* the layer above's: NULL at first, malloc'ed, freed with the peer */
bool peer_dead(const struct peer *p, struct moyai_error *why);
bool peer_nowhere(const struct peer *p); /* looked for twice, in the whole grid: nobody has a way to it */
const struct moyai_error *peer_why(const struct peer *p); /* everything with it failed last; code 0: never yet */

/* Until fn returns false. */
void overlay_each_peer(const struct overlay *o, bool (*fn)(struct peer *p, void *ctx), void *ctx);
size_t overlay_untaken(const struct overlay *o); /* messages that those they are for have not taken */

/* Room in the queue? Requests only; others are always taken. */
bool overlay_has_room(const struct peer *p);
/* Do answers of more than queue_bytes wait to be taken by the peer? Then nothing should begin that makes more of them.
 */
bool overlay_owes_much(const struct peer *p);
/* Give a message. 0; EAGAIN (a request or spare, no room), EDEAD, ECLOSED (closing): nothing has happened. */
int overlay_send(struct peer *p, struct msg *m);
/* Something that the peer waits for will never come, for lack of memory or of sense: its session fails soon, from the
 * loop, so that both sides hear of it. text: static. */
void overlay_break(struct peer *p, const char *text);
/* Take a message back. True: it was not begun and is forgotten (done is not called). False: it is under way; it
 * will be aborted if unfinished, and done is still to come. Its borrowed pieces are no longer read after this:
 * what may be needed again has been copied. */
bool overlay_drop(struct msg *m);
/* A counted request has been answered (or given up): another may follow. The caller has cleared m->counted. */
void overlay_call_closed(struct peer *p);
/* The reader does not want the rest of an inbound message: its body is about to vanish. */
void overlay_forget_inbound(struct inbound *in);
/* Has any of it been given to the session? If not its bytes may still be changed. */
static inline bool msg_untouched(const struct msg *m) {
    return m->state == MSG_WAITING;
}

/* Big buffers for inbound messages, reused so that their pages are touched already. 16-byte aligned. */
uint8_t *overlay_buffer(struct overlay *o, size_t n);
void overlay_buffer_free(struct overlay *o, uint8_t *p);

size_t overlay_links(const struct overlay *o); /* that are up */
/* What is wrong with the places where others are to be met (met.h); "": nothing that is known of. True: so nobody could
 * be met there, since the beginning. what: of the text. */
#define OVERLAY_UNMET 240
bool overlay_unmet(const struct overlay *o, char out[OVERLAY_UNMET], unsigned *what);
/* All of these places have answered, twice, that they know of nobody: there is no use in waiting for a link. */
bool overlay_settled(const struct overlay *o, bool new_too);
/* Nobody listens at any of them, or who does takes no key of ours, and that has been tried some times: one that is just
 * starting would be there soon. Nor is there a grid file, by whose lines a link may come that needs none of them. */
bool overlay_refused(const struct overlay *o);
/* In a grid of one host: is there an entry of another one? Looks at some, if they changed. text: also what to do. */
bool overlay_split(struct overlay *o, char text[MOYAI_ERROR_TEXT]);
bool overlay_heard(const struct overlay *o); /* they have answered, whatever they know */
/* No link, and none to be had now: all places where the grid is met have answered, and all that are known have no place
 * for this node, though they know that it has no other link. */
bool overlay_left_out(const struct overlay *o);
bool overlay_accepts(const struct overlay *o); /* nodes of other hosts can connect to this one, as far as it knows */
size_t overlay_turned_away(const struct overlay *o); /* members without any other link for whom it had no place */
/* Each of them, and what was last known of it. Returns of what the text is: enum met_what. */
unsigned overlay_report(const struct overlay *o, char *out, size_t n);

/* For reports (info.c): what this node calls itself, and its links that are up until fn returns false. */
struct overlay_self {
    const char *title, *site; /* site: where it says it is; "": not known */
    uint8_t host[16];         /* all zero: in no grid */
    uint64_t locating;        /* frames sent to find nodes and names ... */
    uint64_t forwarded;       /* and of sessions through relays, its own and others', since the start */
};
void overlay_self(const struct overlay *o, struct overlay_self *out);
struct overlay_link_info {
    const uint8_t *peer; /* its node id */
    const char *title;   /* what it calls itself */
    const char *kind;    /* "unix", "tcp" */
    int64_t pid;         /* of this host; 0: not known, or of another */
    bool outgoing;       /* made from here */
    bool direct;         /* for the traffic of the session with the peer */
    bool observer;       /* its node looks at the grid only, and soon goes */
    moyai_ns up;         /* since when */
    size_t queued;       /* bytes not written yet */
};
void overlay_each_link(const struct overlay *o, bool (*fn)(const struct overlay_link_info *l, void *ctx), void *ctx);

/* Nodes that may be linked to, and need not be: by what they left where the grid is met, or others tell of them. */
struct overlay_known {
    const uint8_t *id;
    const char *at; /* the first of its addresses */
    moyai_dur age;  /* since it has said so */
    bool linked;
};
void overlay_each_known(const struct overlay *o, bool (*fn)(const struct overlay_known *k, void *ctx), void *ctx);

/* The lines of the grid file through which this node is to connect, and has no link yet. */
struct overlay_line {
    const char *file;
    unsigned number;
    bool failed;     /* what makes the connection has ended, or is another host's to make and is not there, or the other
                      * end takes no key of ours: it is tried again */
    const char *why; /* what went wrong last; "": nothing has */
};
void overlay_each_line(const struct overlay *o, bool (*fn)(const struct overlay_line *l, void *ctx), void *ctx);

/* The next node on the way of a session's messages. path: its id, where it goes over others; 0: find it by the peer,
 * with whom this node has the session. False: there is none here. */
struct overlay_way {
    struct moyai_node_id next;
    uint64_t path;    /* 0: the next is the end itself, over a link */
    const char *kind; /* of the link to it: "unix", "tcp" */
};
bool overlay_way(struct overlay *o, const struct moyai_node_id *end, uint64_t path, struct overlay_way *out);

/* Round trip to a node through its runtime (not its user code). The record is the caller's, who has set fn: 0: it is
 * used until fn has been called (not from within) or overlay_ping_drop, whichever is first. */
struct ping {
    void (*fn)(struct ping *g, int code);
    struct ping *prev, *next; /* the overlay's own from here on */
    struct ping_list *in;
    struct peer *peer;
    uint64_t token;
};
int overlay_ping(struct overlay *o, const uint8_t node[16], struct ping *g);
void overlay_ping_drop(struct ping *g);

/* Evidence of death, from a witness: tell all linked nodes and end everything with that node. */
void overlay_declare_dead(struct overlay *o, const uint8_t node[16], const char *cause);
/* As a witness: that process has ended, of this cause. If a node in it had not said farewell, declare it dead as soon
 * as what it sent last has been read. Returns true if it had. */
bool overlay_process_ended(struct overlay *o, pid_t pid, const char *cause);
/* Be a witness: every linked process that ends without farewell is declared dead to all. */
void overlay_set_witness(struct overlay *o, bool on);

#endif
