/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two hosts and the network between them. A host is one end of a session with a small driver around it, and an
 * application that gives messages, reads or does not read what arrives, and withdraws or closes when told to.
 * After each event the machine's invariants and the flow's laws are checked; the first that breaks stops the run.
 *
 * Nothing survives a crash: a crashed host does not come back (as a process it would be another node).
 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "overlay/session.h"
#include "sim/check.h"
#include "sim/link.h"
#include "sim/trace.h"
#include "sim/world.h"

/* How an application reads a large message. */
enum host_reads {
    READS_ALL,   /* allows all of it when it begins */
    READS_STEPS, /* 64 KiB more than it has got */
    READS_NOT,   /* until host_reads is called again */
};

struct net_cfg {
    struct session_cfg session; /* of both hosts; id and lower are set */
    struct link_cfg link;
    uint64_t credits[4]; /* a path's credit is one of these, drawn for each; 0: without limit */
    moyai_dur find;      /* the longest time to find a path, drawn */
    uint32_t messages;   /* the most that a host gives */
};

struct host {
    struct net *net;
    const char *name;
    int index;
    struct session *s; /* NULL: crashed */
    struct session_cfg cfg;
    struct check_flow *flow; /* what it gives */
    struct moyai_rng rng;
    struct sim_link *path;
    bool wants, finding, ended;
    enum host_reads reads;
    uint64_t *waiting; /* lengths of messages not yet given, in order */
    uint32_t first_waiting, n_waiting;
    moyai_ns timer;
    uint64_t totals[CHECK_STREAMS + 1]; /* inbound messages being read */
    uint64_t got[CHECK_STREAMS + 1];
};

struct net {
    struct world *w;
    struct trace *trace;
    struct net_cfg cfg;
    struct host host[2];
    struct sim_link **links;
    uint32_t n_links;
    struct back *backs; /* credit on its way */
    bool down;          /* no new links */
    bool broken;
    struct moyai_error why;
};

void net_init(struct net *n, struct world *w, struct trace *t, const struct net_cfg *cfg);
void net_done(struct net *n); /* after the world is done with */

void host_open(struct host *h);
void host_give(struct host *h, uint64_t length);
void host_drop(struct host *h, uint64_t token);
void host_close(struct host *h);
void host_read(struct host *h, enum host_reads reads);
void host_find(struct host *h); /* look for another path, though there may be one */

/* Cut all links. What is on its way is lost if `lose`; host i notices within notice[i]. */
void net_cut(struct net *n, bool lose, const moyai_dur notice[2]);
/* All is lost; the other host is told after `evidence`, or never (MOYAI_FOREVER). */
void host_crash(struct host *h, moyai_dur evidence);

/* Has each host reported all it gave, and does each know what the other knows? */
bool net_settled(const struct net *n);

#endif
