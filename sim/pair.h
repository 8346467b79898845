/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world for the explorer: two ends of a session, the links between them, and all that may happen.
 *
 * Each end is the real machine with the least of a driver around it: it gives its messages in order, one by one, at
 * any moment; pulls one frame at a time; takes a link for its path if there is one, else makes one. A link is two
 * queues of frames. It may be cut at any moment: what is in its queues may still arrive, even after the end has
 * noticed and gone on with another path, up to any point; what is sent into it is lost. An end may crash; the other
 * is told, sooner or later. An acknowledgement's delay may be over at any moment, and so may, if the configuration
 * says so, the time to find a path. Readers grant, or never do; the path's credit comes back when frames arrive.
 *
 * Folding. Rings start at their beginning; a crashed end, and a link nobody can receive from, are blanked; links that
 * are cut and of no further use but for late frames are sorted. The two ends are not exchanged: their path numbers
 * have an order and a parity, so they are not alike.
 *
 * What is abstracted away: bytes (chunks carry token and offset), time (only which timer), more than
 * PAIR_QUEUE frames under way in one direction, and a second session of the same pair.
 */
#ifndef SIM_PAIR_H
#define SIM_PAIR_H

#include "overlay/session.h"
#include "sim/explore.h"

#define PAIR_MESSAGES 4
#define PAIR_LINKS    4
#define PAIR_QUEUE    6
#define PAIR_CHUNKS   6

struct pair_cfg {
    const char *name;
    struct session_cfg session; /* of both; id and lower are set here: end 0 is the lower */
    uint64_t credit;            /* of a path; 0: without limit */
    uint32_t room;              /* of a DATA frame, behind its fixed head */
    struct {
        uint32_t messages[PAIR_MESSAGES]; /* lengths; 0: no more */
        bool unread[PAIR_MESSAGES];       /* large: its reader never grants */
        bool drops[PAIR_MESSAGES];        /* may be withdrawn at any moment */
        bool opens, closes;
        bool given; /* all messages are there from the start */
    } end[2];
    uint32_t cuts, replaces, crashes, timeouts; /* how often these may happen */
    bool parallel;                              /* a link may be made while there is one */
    bool again;                                 /* OPEN may be said again, for want of an answer */
    bool late;                                  /* frames may arrive on a link that is known to be cut */
};

/* A model of it; cfg must outlive it. */
struct explore_model pair_model(const struct pair_cfg *cfg);

#endif
