/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world for the explorer: a few nodes in a graph of links, the first and the last hold a session, and all that
 * may happen to its paths.
 *
 * Each node is the real relay machine, each end the real session machine, with the least of a driver around them: a
 * node pulls one frame at a time for a link, takes one frame at a time from a link, knows a shortest way that stands. A
 * link may be cut at any moment; what is on it may still arrive, up to any point, until its end has noticed. A cut link
 * may be made anew. A node may crash, or withdraw; an end may look for another path though it has one (and drops the
 * first when the session stands), or close.
 *
 * A frame of the session is its token: all of it is packed into 64 bits, so that equal states are equal bytes.
 *
 * What is abstracted away: bytes, time, more than LINE_QUEUE frames on a link, a second session, loans.
 */
#ifndef SIM_LINE_H
#define SIM_LINE_H

#include "sim/explore.h"

#include <stdint.h>

#define LINE_NODES    4
#define LINE_LINKS    4
#define LINE_QUEUE    10
#define LINE_MESSAGES 2

struct line_cfg {
    const char *name;
    uint32_t nodes;
    struct {
        uint8_t a, b; /* a < b, or both 0: none */
    } links[LINE_LINKS];
    struct {
        uint32_t messages[LINE_MESSAGES]; /* lengths, 0: none */
        bool opens, closes;
    } end[2]; /* node 0, and the last */
    uint32_t cuts, crashes, withdraws, replaces,
        tries;       /* how often these may happen; tries: paths opened by each end */
    bool crash_ends; /* else only relays crash */
    bool longer;     /* a frame may be charged more than `own` */
    bool eager;      /* nodes send at once: fewer orders, for larger worlds */
};

/* A model of it; cfg must outlive it. */
struct explore_model line_model(const struct line_cfg *cfg);

#endif
