/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grid of nodes that locate one another: each is the real machine with the least of a driver around it, links are
 * queues with a delay of their own. Nothing else of a node is there.
 *
 * After each step of a machine its effects are judged: no answer names a node known dead, each look-up is answered
 * once and within its bound, and one that found nothing had a reason. The first law that breaks stops the run.
 */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "overlay/locate.h"
#include "sim/trace.h"
#include "sim/world.h"

#define GRAPH_KINDS 8 /* of frames */
#define GRAPH_FAR   UINT32_MAX

struct graph_cfg {
    struct locate_cfg locate; /* of all; self and seed are set */
    moyai_dur delay, jitter;  /* of a link, one way: delay and at most as much more, drawn once */
    moyai_dur notice;         /* until an end notices that its link is cut, at most, drawn */
    bool check;               /* locate_check after each step */
    bool strict;              /* tables are large and links quick: what is there must be found */
};

/* Something that a node has to do when the machine has time for it. */
struct graph_chore {
    struct graph_chore *next;
    world_fn *fn;
    void *who;
    uint64_t what;
};

#define GRAPH_LINKS 64 /* the most of a node */
struct graph_end {
    uint32_t peer, peer_link; /* node, its number of the link; */
    uint32_t serial;          /* of the link; 0: none */
    moyai_dur delay;
    moyai_ns last; /* when the last frame arrives that was sent: the order stays */
    bool cut;
};

struct graph_node {
    struct locate *l;
    struct moyai_node_id id;
    bool alive;
    uint32_t how; /* its neighbours know of its end so (enum locate_how); 0: they do not */
    uint32_t degree;
    moyai_ns timer;
    uint64_t sent; /* frames */
    struct graph_end ends[GRAPH_LINKS];
    struct graph_chore *chores, **last; /* waiting */
    uint32_t turn;                      /* who waits behind it for the machine, + 1 */
    bool waits;                         /* it is among them, or at work */
};

enum graph_fate {
    LOOKUP_OPEN,
    LOOKUP_FOUND,
    LOOKUP_NOT_FOUND,
    LOOKUP_DEAD,
};

struct graph_lookup {
    uint32_t from, kind;
    uint8_t key[16];
    moyai_ns start, until, end; /* until: of a wait, else 0 */
    enum graph_fate fate;
    bool unsure;         /* not found, but that is not sure */
    uint32_t node, hops; /* found: where */
    struct moyai_object_id object;
};

struct graph {
    struct world *w;
    struct trace *trace;
    struct graph_cfg cfg;
    struct moyai_rng rng;
    struct graph_node *nodes;
    uint32_t n, cap;
    struct graph_flight *flights;
    struct graph_lookup *lookups; /* their index is the token */
    uint32_t lookups_n, lookups_cap;
    uint32_t serial;
    moyai_ns changed; /* when a link last came, was cut or was noticed to be, or a name came or went */
    uint64_t frames[GRAPH_KINDS];
    uint64_t held, lost; /* names, told */
    moyai_dur each;      /* graph_slow; 0: everything is done at once */
    moyai_dur stall;     /* graph_stalls */
    uint32_t stalls;
    uint32_t first_turn, last_turn;
    bool working;
    bool broken;
    struct moyai_error why;
};

void graph_init(struct graph *g, struct world *w, struct trace *t, const struct graph_cfg *cfg);
void graph_done(struct graph *g);

uint32_t graph_add(struct graph *g);                             /* a node without links */
bool graph_link(struct graph *g, uint32_t a, uint32_t b);        /* false: there is one, or no room */
void graph_join(struct graph *g, uint32_t node, uint32_t opens); /* so many links to live nodes, drawn */
void graph_cut(struct graph *g, uint32_t node, uint32_t link);
/* Its links end; its neighbours get evidence if `how` is not 0. */
void graph_kill(struct graph *g, uint32_t node, int how);

/* From now on all nodes share one machine, which takes so long for each frame and whatever else a node does, and for
 * each change from one node to another: who has something to do waits for its turn, then does all that has come. */
void graph_slow(struct graph *g, moyai_dur each);
/* And of so many times that a node has something to do, one time it has to wait longer, up to so long, as the processes
 * of a full machine do. */
void graph_stalls(struct graph *g, uint32_t one_in, moyai_dur most);
void graph_do(struct graph *g, uint32_t node, world_fn *fn, void *who, uint64_t what); /* when it has its turn */

/* Each returns the token, or UINT32_MAX if the machine had no room. until 0: no wait. */
uint32_t graph_lookup(struct graph *g, uint32_t from, uint32_t kind, const uint8_t key[16], moyai_ns until);
int graph_name_add(struct graph *g, uint32_t node, const uint8_t name[16], const uint8_t object[16], bool moved);
int graph_name_remove(struct graph *g, uint32_t node, const uint8_t name[16]);
bool graph_holds(const struct graph *g, uint32_t node, const uint8_t name[16]); /* held and not only claimed */
int graph_step(struct graph *g, uint32_t node, struct locate_event *ev);        /* any other event */

moyai_dur graph_bound(const struct graph *g);                     /* of a look-up */
uint32_t graph_find(const struct graph *g, const uint8_t id[16]); /* the node; GRAPH_FAR: none */
/* Links of the shortest way; GRAPH_FAR: there is none. dist may be NULL, else of all nodes. */
uint32_t graph_distance(const struct graph *g, uint32_t from, uint32_t to, uint32_t *dist);
/* Follow what the nodes say is next. Hops, GRAPH_FAR: the way ends; UINT32_MAX - 1: it is a loop. */
#define GRAPH_LOOP (UINT32_MAX - 1)
uint32_t graph_walk(struct graph *g, uint32_t from, uint32_t to);
uint64_t graph_sent(const struct graph *g); /* frames in all */

#endif
