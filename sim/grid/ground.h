/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the overlay's driver stands on, without a network: the functions of exec.h, link.h, dial.h, meet.h, rundir.h,
 * key.h and tls.h that src/overlay/io calls, made of virtual time. So the simulator runs the driver that runs over
 * sockets, to the byte; nothing of it is written twice. A program that links this has no real loop and no real sockets:
 * clock, randomness and TCP are replaced by the linker (ground_rest.c).
 *
 * The network: nodes live at sites. Into an open site everybody may connect, into one behind a NAT only its own nodes.
 * A connection is two ways of frames with a delay and, if there is one, a rate; what is not delivered counts as queued
 * beyond what a kernel would hold. It may be cut (both ends notice), or swallow what is sent (after the kernel's time,
 * GROUND_KERNEL, both ends are told that it timed out). A site may be parted from the others: connections across
 * swallow, and go on if it is joined again in time. A node may be stopped: whatever is for it comes when it goes on.
 *
 * One world a thread: the linker's functions know no other context than the node whose turn it is.
 */
#ifndef SIM_GRID_GROUND_H
#define SIM_GRID_GROUND_H

#include "base/log.h"
#include "exec/exec.h"
#include "sim/world.h"
#include "wire/frame.h"

struct link;
struct meet;
struct ground;
struct ground_conn;

#define GROUND_KERNEL  (120 * MOYAI_SEC) /* of silence, until a kernel gives a connection up */
#define GROUND_BACKLOG 262144u           /* bytes that kernels hold of what one end has sent */

enum ground_site { GROUND_OPEN, GROUND_NAT };

struct exec_due {
    moyai_ns when;
    uint64_t order;
    struct exec_timer *timer;
};

struct exec {
    struct ground_node *node;
    struct exec_due *due; /* a heap */
    size_t n, cap;
    uint64_t order;
    moyai_ns wake; /* for which an event is set; 0: none */
    struct exec_hook *hooks;
    bool attention;
};

struct ground_node {
    struct ground *g;
    uint32_t index, site, part;
    struct moyai_node_id id;
    struct exec x;
    bool here;    /* it lives */
    bool stopped; /* and nothing moves it */
    bool mute;    /* what it says now nobody hears: it crashes */
    struct exec_fd *listener;
    struct ground_conn *waiting, *waiting_last; /* to be accepted */
    struct ground_conn *conns;
    struct ground_task *late, *late_last; /* while it is stopped */
    struct meet *meet;
    size_t entry;   /* its place among the entries of the rendezvous + 1 */
    uint64_t dials; /* begun in this second */
    uint64_t calls; /* taken in this second */
    moyai_ns second, second_in;
    uint32_t n_conns;
};

/* What happened, of which the network tells. Any may be NULL. */
struct ground_ops {
    void (*turned)(void *ctx, struct ground_node *n); /* the node has had a turn */
    void (*came)(void *ctx, struct ground_node *n, const struct ground_node *from, const struct frame_head *h,
                 const uint8_t *payload); /* a frame, before the node sees it */
    /* It will soon have a turn: for a frame to the owner of a link, or since a timer is due (owner
     * NULL). Stages from 3 on: memory of what they have is to be fetched. */
    void (*ahead)(void *ctx, const struct ground_node *n, const void *owner, unsigned stage);
};

struct ground {
    struct world *w;
    struct moyai_rng rng, draws; /* draws: what nodes ask of the system */
    const struct ground_ops *ops;
    void *ctx;
    struct ground_node **node;
    uint32_t n, cap;
    enum ground_site *site;
    uint32_t sites;
    moyai_dur delay;         /* one way, between sites; drawn up to it for each connection */
    uint64_t bytes_a_second; /* 0: no limit */
    bool silent;             /* filters drop instead of refusing */
    bool parted;             /* nodes of different parts cannot reach each other */
    bool no_rendezvous;
    uint32_t per_host; /* nodes in a row that are of one host, though they have no sockets there; 0: each has its own */
    struct ground_conn **conn;
    size_t n_conn, cap_conn;
    struct meet **entry;
    size_t n_entry, cap_entry;
    struct ground_spare *spare[2]; /* memory of frames that have arrived */
    uint32_t n_spare[2];
    bool ending;
    /* What happened. */
    uint64_t frames, bytes, dials, dials_most, calls, calls_most, looks, accepted;
};

void ground_init(struct ground *g, struct world *w, const struct ground_ops *ops, void *ctx);
void ground_done(struct ground *g); /* when no node is there any more; before the world is done with */

/* A place for a node: its address is its index. It is there from ground_up to ground_down. */
struct ground_node *ground_add(struct ground *g, uint32_t site);
void ground_up(struct ground_node *n);
void ground_close(struct ground_node *n); /* whatever its process has not closed */
void ground_down(struct ground_node *n);
void ground_address(uint32_t index, char out[32]);

/* Around all that is done to a node from outside. */
void ground_enter(struct ground_node *n);
void ground_leave(struct ground_node *n);

void ground_stop(struct ground_node *n, bool stopped);
void ground_part(struct ground *g, bool parted); /* by the nodes' parts */
void ground_break(struct ground_conn *c);        /* both ends are told at once */
void ground_swallow(struct ground_conn *c);      /* and in GROUND_KERNEL they are */
struct ground_conn *ground_conn_of(struct ground_node *n, uint32_t which);
struct ground_node *ground_other(const struct ground_conn *c, const struct ground_node *n);

/* ---- among the files of this ------------------------------------------------------------------ */

/* Something for a node: done in its turn; not if it is not there any more, when undo is (or nothing if NULL). */
struct ground_task {
    struct ground_task *next;
    struct ground_node *node;
    void (*fn)(void *arg);
    void (*undo)(void *arg);
    void *arg;
};
void ground_task(struct ground_node *n, moyai_dur in, void (*fn)(void *arg), void (*undo)(void *arg), void *arg);
void ground_run_due(struct ground_node *n);

/* Ask for memory that is soon needed. */
static inline void ground_fetch(const void *p, size_t n) {
    for (size_t i = 0; i < n; i += 64) __builtin_prefetch((const char *)p + i);
}
void ground_memory(void);       /* how it is given out, before there are nodes (ground_memory.c) */
void ground_memory_grown(void); /* from time to time */
void ground_memory_rest(void);  /* machines' pages that are zeros again are given back: when little happens */
bool ground_ahead_link(world_fn *fn, void *who, uint64_t what, unsigned stage); /* false: not a link's */

enum ground_answer { GROUND_YES, GROUND_NO, GROUND_NOTHING };
enum ground_answer ground_knock(const struct ground_node *from, const struct ground_node *to);
struct ground_node *ground_at(struct ground *g, const char *address);
moyai_dur ground_delay(struct ground *g, const struct ground_node *a, const struct ground_node *b);
void ground_accepts(struct ground_node *n); /* there may be something to accept */
void ground_meet_forget(struct ground_node *n);
void ground_resume_conns(struct ground_node *n);
extern _Thread_local struct ground_node *ground_now; /* whose turn it is */
extern _Thread_local struct ground *ground_world;

#endif
