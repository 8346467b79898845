/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of bench/leave: links to others, a user who sends messages, and a protocol by which to leave: the project's
 * own machine (leave_ours.c), or a central server (leave_central.c). What is the same for both is in leave_process.c.
 */
#ifndef BENCH_LEAVE_H
#define BENCH_LEAVE_H

#include "base/rng.h"
#include "exec/exec.h"
#include "link/link.h"

#define NODES    64u
#define DEGREE   5u               /* channels that each opens */
#define CHANNELS (NODES * DEGREE) /* they are all different */
#define SERVER   NODES            /* the process that is the central server */
#define MESSAGES (2 * CHANNELS)
#define STATE    10000000u /* bytes that a leaver hands over */
#define PORTS    64u

/* What happens in a run. It is drawn once, and given to both protocols. */
struct draw {
    uint8_t end[CHANNELS][2];
    bool leaves[NODES];
    uint32_t leavers, messages; /* how many */
    struct {
        uint16_t channel;
        uint8_t from;
        int64_t at; /* ns after the leavers want to leave */
    } message[MESSAGES];
    uint16_t heir[NODES]; /* the channel to the neighbour that gets a leaver's state */
    bool state;           /* leavers have some */
    bool state_before;    /* with a central server, they hand it over before they ask, and not when they are admitted */
    moyai_dur delay;      /* of a frame, one way */
    uint64_t rate;        /* bytes a second out of a process; 0: no limit */
};

/* What happens, and has happened, in memory that all processes share. */
struct ledger {
    struct draw draw;
    moyai_ns start;                       /* when the leavers want to leave */
    atomic_uint ready, left, ended;       /* processes */
    atomic_uint said, refused, delivered; /* messages */
    atomic_uchar copies[MESSAGES];        /* how often it was delivered; REFUSED: not taken, as the sender had left */
    struct {
        moyai_ns done; /* of a leaver */
        uint64_t state;
        uint32_t frames, hops; /* of the protocol; messages of users, each channel counted */
    } of[NODES + 1];
};
#define REFUSED 128u

enum wire_kind {
    WIRE_DATA = 200, /* 2 bytes: the number of a user's message */
    WIRE_STATE,
    WIRE_HELLO, /* the first on each channel: a process is ready when it has all */
    WIRE_BYE,   /* the run is over, nothing follows */
    WIRE_OWN,   /* and more: a protocol's own, with a number */
};

struct port {
    struct proc *p;
    struct link *l;
    uint32_t peer, channel;
    bool open, bye;            /* open: until the protocol has closed it; bye: the peer has said it */
    bool down;                 /* the link has ended */
    bool shut, asked, flushed; /* leave_central.c */
};

struct protocol {
    const char *name;
    bool server; /* there is one, to which all have a link: the last port */
    void (*begin)(struct proc *p);
    void (*want)(struct proc *p);   /* to leave, now */
    void (*handed)(struct proc *p); /* what proc_hand_over was told to is on its way: what follows comes behind it */
    void (*frame)(struct port *q, uint32_t kind, uint32_t n); /* kind: 0 for WIRE_OWN, and so on */
    void (*data)(struct port *q, uint16_t message);
    /* The user sends a message, over q if possible. false: this process has left. */
    bool (*say)(struct port *q, uint16_t message);
};
extern const struct protocol protocol_ours, protocol_central;

struct proc {
    const struct draw *draw;
    struct ledger *ledger;
    uint32_t me;
    int orders; /* from the bench: see struct order */
    struct exec *x;
    struct exec_hook hook;
    struct exec_timer start, say;
    atomic_bool stop;
    /* of a run */
    const struct protocol *protocol;
    void *own; /* the protocol's; freed when the run is over */
    uint32_t ports, greeted;
    struct port port[PORTS];
    struct link_line line;
    uint32_t next;     /* message to look at */
    uint64_t state_to; /* bytes of state not handed over */
    bool ending;       /* the run is over */
};

/* The numbers of messages, first in first out. */
struct queue {
    uint32_t at, n;
    uint16_t message[MESSAGES];
};

/* What a process is told: a packet, with the descriptors of its channels. */
enum order_kind { ORDER_LINK, ORDER_GO, ORDER_END }; /* these are its channels; the start is known; it is over */
struct order {
    enum order_kind kind;
    bool server; /* which protocol */
    uint32_t n;
    struct {
        uint32_t peer, channel;
    } of[PORTS];
};

/* Run process `me` until `orders` ends. In a child: never returns. */
__attribute__((noreturn)) void proc_run(struct ledger *g, uint32_t me, int orders);

void proc_send(struct port *q, uint32_t kind, uint32_t n); /* a frame of the protocol */
void proc_pass(struct port *q, uint16_t message);          /* DATA */
void proc_deliver(struct proc *p, uint16_t message);       /* to this process */
void proc_hand_over(struct proc *p);                       /* the state, to its heir */
void proc_done(struct proc *p);                            /* it has left */
__attribute__((noreturn)) void proc_fail(const struct proc *p, const char *what);

#endif
