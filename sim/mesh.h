/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many nodes that keep links to one another: each is a peers machine with the least of a driver around it. Between them
 * is a network of sites, of which some let nobody in (NAT, firewall) and some neither in nor out (blocked), and a
 * rendezvous that answers with a part of what it has. Frames pass through the codec. After each event of a node its
 * invariants are checked if the configuration says so; what the whole graph must be like is asked with mesh_look.
 *
 * A connection that nobody answers is not reported: the machine's own time must end it. One into a filter that says no
 * fails after a round trip.
 */
#ifndef SIM_MESH_H
#define SIM_MESH_H

#include "overlay/peers.h"
#include "sim/trace.h"
#include "sim/world.h"

enum mesh_site_kind {
    SITE_OPEN,    /* everybody can connect to its nodes */
    SITE_NAT,     /* only its own nodes can */
    SITE_BLOCKED, /* and its nodes can connect to no other's */
};

struct mesh_cfg {
    struct peers_cfg peers; /* of all; self and seed are set */
    moyai_dur delay;        /* the longest of a link, drawn for each */
    uint32_t answer;        /* the most entries that the rendezvous names */
    moyai_dur entry;        /* how long it believes one */
    bool check;             /* invariants after each step */
    bool silent;            /* filters say nothing */
};

struct mesh_node {
    struct mesh *m;
    struct peers *p; /* NULL: dead or not started */
    struct moyai_node_id id;
    uint32_t index, site, part;
    moyai_ns timer, until; /* until: of its entry at the rendezvous */
    uint64_t calls;        /* connections to it in this second */
    moyai_ns second;
    uint8_t text[32];
    uint32_t n_text;
    uint64_t dialling[64]; /* ids of connections being made, by their numbers; 0: none */
    uint32_t dial_to[64];
    uint64_t *links; /* numbers of its open links */
    uint32_t links_n, links_cap;
};

struct mesh_link {
    uint32_t node[2];
    bool open[2], used[2];
    moyai_dur delay;
    moyai_ns last[2]; /* arrival of the last frame to each end */
};

struct mesh {
    struct world *w;
    struct trace *trace; /* or NULL */
    struct mesh_cfg cfg;
    struct moyai_rng rng;
    struct mesh_node *node;
    uint32_t n;
    enum mesh_site_kind *site;
    uint32_t sites;
    bool cut; /* nodes of different parts cannot reach each other */
    bool no_rendezvous;
    struct mesh_link *link; /* by number - 1 */
    uint64_t links_n, links_cap;
    uint64_t serial;
    /* what happened */
    uint64_t steps, frames, bytes, calls, refused, calls_most;
    bool broken;
    struct moyai_error why;
};

void mesh_init(struct mesh *m, struct world *w, const struct mesh_cfg *cfg, uint32_t nodes,
               const enum mesh_site_kind *site, uint32_t sites);
void mesh_done(struct mesh *m);                                           /* before the world is done with */
void mesh_start(struct mesh *m, uint32_t i, uint32_t site, moyai_dur in); /* node i, after so long */
void mesh_crash(struct mesh *m, uint32_t i);                /* its links end at the other ends after their delays */
void mesh_line(struct mesh *m, uint32_t from, uint32_t to); /* a configured link; made again when it ends */
void mesh_cut(struct mesh *m, bool cut); /* all links between parts break, both ends notice; and later: none do */

struct mesh_view {
    uint32_t live, parts; /* nodes, and groups of them that are connected with each other */
    uint32_t least, most; /* links of a node */
    double mean;
    uint32_t half;  /* links that only one end has */
    uint32_t known; /* the fewest endpoints known */
};
struct mesh_view mesh_look(struct mesh *m);

#endif
