/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many nodes, links between some of them, and sessions between any two: each node is a relay machine and a session
 * machine for each peer, with the least of a driver around them. Routes come from an oracle that sees the whole graph,
 * late and, if the configuration says so, wrong. After each event the invariants of the node's machines are checked,
 * and the law of each session (sim/check.h): the first that breaks stops the run.
 */
#ifndef SIM_PATHS_H
#define SIM_PATHS_H

#include "overlay/relay.h"
#include "overlay/session.h"
#include "sim/check.h"
#include "sim/trace.h"
#include "sim/world.h"

struct paths_cfg {
    uint32_t nodes;
    struct relay_cfg relay;     /* of all; self and seed are set */
    struct session_cfg session; /* of all; id and lower are set */
    uint64_t bytes_a_second;    /* of a link; 0: without limit */
    moyai_dur delay;            /* of a link */
    moyai_dur route;            /* the longest time for a route, drawn */
    uint32_t wild;              /* of a hundred routes so many lead to any neighbour */
    uint32_t messages;          /* the most from one node to another */
    bool unchecked;             /* no invariants: for worlds that are too large */
};

/* One end of a session. */
struct paths_end {
    struct session *s; /* NULL: none yet */
    struct check_flow *flow;
    uint64_t path;               /* of the relay machine; 0: none */
    uint64_t old;                /* the one before, until the session stands on this */
    bool opening, timed;         /* another path is wanted; and a time has been set to open it */
    bool leaving;                /* though this one stands: one of its relays leaves */
    bool wanted, ended, stopped; /* stopped: grants nothing */
    uint32_t fails;              /* paths that failed since the session last stood */
    uint64_t waiting[64];        /* lengths to be given */
    uint32_t n_waiting;
    uint32_t whole; /* messages received whole */
    uint64_t bytes; /* and bytes in all */
    moyai_ns last;  /* when the last byte came */
};

struct paths_node {
    struct paths *w;
    uint32_t index;
    struct relay *r; /* NULL: crashed */
    struct moyai_node_id id;
    struct paths_end *ends; /* one for each node */
    uint32_t *owner;        /* of each place of the relay machine: node + 1 whose session has it */
    moyai_ns timer;
    bool withdrawn;
};

struct paths_link;
struct paths {
    struct world *w;
    struct trace *trace;
    struct paths_cfg cfg;
    struct paths_node *node;
    struct paths_link **links;
    uint32_t n_links;
    struct paths_box *boxes; /* all frames there are */
    struct asked *asked;     /* all ways that are looked for */
    struct moyai_rng rng;
    uint64_t arrivals, errors, most_held, downs;
    bool broken;
    struct moyai_error why;
};

void paths_init(struct paths *p, struct world *w, struct trace *t, const struct paths_cfg *cfg);
void paths_done(struct paths *p); /* after the world is done with */

/* Returns the link's number; 0: one of the two has crashed. Its bytes a second may be other than usual (0: usual). */
uint32_t paths_link(struct paths *p, uint32_t a, uint32_t b, uint64_t bytes_a_second);
void paths_cut(struct paths *p, uint32_t link, bool lose); /* each end notices within 10 ms */
void paths_crash(struct paths *p, uint32_t node, bool evidence);
void paths_withdraw(struct paths *p, uint32_t node);

void paths_give(struct paths *p, uint32_t from, uint32_t to, uint64_t length);
void paths_stop(struct paths *p, uint32_t at, uint32_t from,
                bool stopped); /* node `at` reads nothing large of `from` */
void paths_close(struct paths *p, uint32_t from, uint32_t to);

/* Everything given has been reported, and nothing is left to happen for it. */
bool paths_settled(const struct paths *p);
/* Every pointer has its neighbours', and no frame is queued: of a world at rest. */
const char *paths_rest(const struct paths *p);

#endif
