/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole grid in one process: every node runs the overlay as it is (peers, locating, relays, sessions, evidence of
 * death, and their driver, src/overlay/io) over a network without sockets (ground.h), and calls others, registers names
 * and looks them up. Nodes come, leave, crash, are stopped and go on; sites are parted and joined again; connections
 * break or fall silent. All of it from one seed.
 *
 * Laws, looked at as it goes. The first that breaks stops the run:
 *
 *  - A message is delivered once at most, whole, its bytes as they were given, and requests of one node to another in
 *    the order in which they were given, unless their session has ended between.
 *  - What was told: that a message was taken: it was delivered. That it never was executed: it was not, and is not.
 *    Every call ends, by its answer or by an error.
 *  - A call between two nodes that were well (up for a while, neither stopped nor parted nor without links) from before
 *    it was made until now is answered, unless they are behind NATs and no other that is well could take them; a name
 *    that such a node has held for a while is found.
 *  - No frame of a session is sent over the same link twice, nor by one node twice: paths have no loops.
 *  - Nobody who is well is declared dead, nor who was and leaves.
 *  - A relay holds no more than its memory and what is each path's own; links, pointers, requests, peers are within
 *    bounds that do not know how large the grid is; no more connections a second are begun than are right.
 *
 * and at rest (grid_rest): all who can be connected are, no session stands at one end only, every call has ended, and
 * nobody who lives is dead to another: who was declared dead has been told, and has joined again.
 */
#ifndef SIM_GRID_GRID_H
#define SIM_GRID_GRID_H

#include "sim/grid/ground.h"
#include "sim/trace.h"

struct grid_cfg {
    uint32_t sites;     /* the first is open and has the rendezvous */
    uint32_t first;     /* of a hundred nodes so many are there, besides those that are drawn as all are; 0: 25 */
    uint32_t open;      /* of ten sites so many are open, the first besides */
    uint32_t unaware;   /* of ten sites behind NATs the nodes of so many do not know: they advertise all the same */
    bool silent;        /* filters drop */
    moyai_dur delay;    /* one way, between sites, at most */
    uint64_t rate;      /* bytes a second of a connection; 0: no limit */
    uint32_t per_host;  /* nodes that join one after another are of one host, so many; 0: each has its own */
    uint32_t degree;    /* 0: 15 */
    uint64_t memory;    /* of a relay; 0: 64 MiB */
    moyai_dur reattach; /* 0: 10 s */
    moyai_dur idle;     /* sessions that nobody needs for so long are closed; 0: 60 s */
    uint32_t large;     /* of a hundred messages so many are large, */
    uint32_t largest;   /* up to so many bytes */
    uint32_t checked;   /* one of so many turns looks at all invariants of its node's machines; 0: none does */
    moyai_dur patience; /* a call ends within it; 0: 60 s */
    uint32_t abrupt;    /* of a hundred that leave so many are not told before: their programs end */
    moyai_dur deadline; /* of who is told; 0: 30 s */
    uint32_t late;      /* so many others call one who leaves while it goes, or when it has gone */
};

/* Each so many times a minute, for the whole grid; counts are drawn. Few are stopped at once: each that a path leads
 * through takes half of `reattach` to be found out. resets: of all links of a node that is stopped then, as by a router
 * that it was behind: it is declared dead. */
struct grid_faults {
    double joins, leaves, crashes, stops, breaks, silences, parts, rendezvous, resets;
    moyai_dur stop, part; /* the longest */
    uint32_t many;        /* of a hundred crashes so many take a tenth of a site with them */
};

struct grid_traffic {
    double calls, lookups, names; /* a node and minute */
    uint32_t near;                /* of a hundred calls so many go to one of four nodes that the caller always calls */
};

struct grid_node;

struct grid {
    struct world *w;
    struct trace *trace; /* or NULL */
    struct ground net;
    struct grid_cfg cfg;
    struct grid_faults faults;
    struct grid_traffic traffic;
    struct moyai_rng rng;
    struct moyai_log log;
    struct grid_node **node;
    uint32_t n, cap, live, stopped;
    uint32_t *lives; /* indices of those that live, in any order */
    struct letter *letter;
    uint64_t letters, letters_cap;
    struct grid_ids *seen; /* frames of late */
    bool calm;             /* nothing more happens to nodes */
    bool ending;
    moyai_ns changed; /* when something last did */
    struct {
        uint64_t calls, answered, failed, maybe, excused, found, not_found, held, taken, told_dead, rejoined, declared;
        uint64_t cleared;     /* calls that were never executed, as who has left has said; */
        uint64_t cleared_far; /* of these so many that were sent, by one without a link to it */
        uint64_t unsure;      /* calls to such that may have been executed, as far as their callers know */
        uint64_t joins, leaves, crashes, stops, breaks, silences, parts, resets;
        uint64_t frames[80], bytes[80]; /* by type */
        uint64_t forwarded[80];         /* of those that are forwarded, by the type of what they carry */
        uint64_t errors[16];            /* of paths, by code */
        uint64_t relayed;               /* session frames under a label */
        moyai_dur leaving;              /* the longest that one took to go, after the longest wait ... */
        moyai_dur waiting;              /* ... for those that stay to be connected without it; */
        uint64_t dependants;            /* so many were told to leave by others */
        uint64_t cut_short,
            in_vain; /* so many have not waited for that, of these so many though those that stay could be connected */
        uint32_t links_most, peers_most, passing_most;
        uint64_t held_most; /* by one relay */
    } count;
    bool broken;
    struct moyai_error why;
};

void grid_init(struct grid *g, struct world *w, struct trace *t, const struct grid_cfg *cfg);
void grid_done(struct grid *g); /* before the world is done with */

void grid_join(struct grid *g, uint32_t n, moyai_dur within); /* so many new nodes, at sites that are drawn */
/* Faults and traffic from now on; NULL: none any more (who is stopped goes on, what is parted is joined). */
void grid_trouble(struct grid *g, const struct grid_faults *f);
void grid_talk(struct grid *g, const struct grid_traffic *t);
/* A call from the a-th to the b-th of those that live, of so many bytes. */
void grid_call(struct grid *g, uint32_t a, uint32_t b, uint32_t bytes);
void grid_lookup(struct grid *g, uint32_t a, uint32_t b, moyai_dur wait); /* of the b-th's name, if it has one */
void grid_name(struct grid *g, uint32_t a);
void grid_crash(struct grid *g, uint32_t a);
void grid_witness(struct grid *g, uint32_t a, uint32_t index); /* the a-th sees that the node of that index has ended */
/* The a-th says to the b-th what it knows of the end of the node of that index, if anything. */
void grid_pass_on(struct grid *g, uint32_t a, uint32_t b, uint32_t index);
void grid_leave(struct grid *g, uint32_t a);
void grid_leave_all(struct grid *g, uint32_t a);           /* with those that depend on it (09-leave, 11.10) */
uint32_t grid_leaving(const struct grid *g);               /* so many are on their way out */
void grid_stop(struct grid *g, uint32_t a);                /* until grid_trouble(g, NULL) */
void grid_connect(struct grid *g, uint32_t a, uint32_t b); /* a direct link, as after TELL (03-peers, 4.7) */

bool grid_reached(const struct grid *g, uint32_t a); /* the a-th says that others have reached it (03-peers, 1.3) */
bool grid_alone(const struct grid *g, uint32_t a);   /* it has no link that is of use */
bool grid_linked(const struct grid *g, uint32_t a, uint32_t b); /* the a-th has a link to the b-th, or one coming */
bool grid_begins(const struct grid *g, uint32_t a, uint32_t b); /* a session with it, by a path, as yet unanswered */
bool grid_mourns(const struct grid *g, uint32_t who, uint32_t index); /* a live one knows that the other is dead */
uint32_t grid_mourners(const struct grid *g,
                       uint32_t index);   /* live nodes that know the node of that index to be dead */
uint64_t grid_open(const struct grid *g); /* calls that have not ended */

struct grid_view {
    uint32_t live, parts, parts_least; /* parts_least: if all connect that can */
    uint32_t alone;                    /* without links */
    uint32_t least, most;              /* links of a node */
    uint32_t between;                  /* ends of links between two nodes of open sites */
    double mean, peers, paths, routes; /* of a node */
};
struct grid_view grid_look(struct grid *g);
bool grid_rest(struct grid *g); /* false: broken */

#endif
