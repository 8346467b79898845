/* SPDX-License-Identifier: Apache-2.0 */
/* What grid.c (lives and faults), grid_talk.c (calls and names, and their laws) and grid_look.c (laws of nodes and of
 * the whole) ask of each other. */
#ifndef SIM_GRID_GRID_INTERNAL_H
#define SIM_GRID_GRID_INTERNAL_H

#include "overlay/io/internal.h"
#include "sim/grid/grid.h"

#define GRID_SECOND ((moyai_ns)MOYAI_SEC)
#define GRID_WELL   (20 * GRID_SECOND) /* after its last trouble a node is well again */
#define GRID_WHOLE                                                                                                     \
    (50 * GRID_SECOND) /* who can be connected to is known to all: they look every 15 to 45 s (03-peers, 6.1) */

struct grid_node {
    struct grid *g;
    struct ground_node *u;
    struct overlay *o;  /* NULL: it is not there any more */
    uint32_t index, at; /* at: its place in grid.lives */
    bool gone;          /* it ends: nobody is to be told anything */
    bool leaving;       /* it is about to */
    uint32_t owes;      /* answers of it that have not been taken */
    bool cleared;       /* its farewell says so */
    bool well_left;     /* it was well then: to nobody it is dead */
    moyai_ns told_to;   /* to leave, since when; 0: it was not */
    bool forces;        /* with those that depend on it */
    uint32_t told_by;   /* 1 + the index of the node on which it depends; 0: it was not told so */
    moyai_ns leaves;    /* since when */
    bool ill;           /* stopped, without links */
    bool told;          /* that it is dead, and has not joined again */
    moyai_ns well;      /* since when; if not ill */
    moyai_ns away;      /* since when it was stopped, or again before it was well */
    bool long_away;     /* stopped for so long once that who had found it dead has forgotten that (06-death, 5.4) */
    size_t dead_seen, links;
    uint8_t dead_last[16]; /* id */
    uint32_t turns, near[4];
    bool named, held;
    moyai_ns held_since;
    struct name_ask claim;
    struct look *looks;
};

#define GRID_LIFE 11 /* the byte of an id that counts how often its node has joined again */

/* Whose id is that, or was? */
static inline struct grid_node *grid_node_of(const struct grid *g, const uint8_t id[16]) {
    uint32_t i;
    memcpy(&i, id + 12, 4);
    return i < g->n && memcmp(g->node[i]->u->id.b, id, GRID_LIFE) == 0 ? g->node[i] : NULL;
}
static inline bool grid_is_now(const struct grid_node *n, const uint8_t id[16]) {
    return n && n->o && id_equal(n->u->id.b, id);
}

void grid_law(struct grid *g, const struct grid_node *n, const char *fmt, ...) MOYAI_PRINTF(3, 4);
void grid_say(struct grid *g, const struct grid_node *n, const char *fmt, ...) MOYAI_PRINTF(3, 4);

/* Were both well from then until now? */
static inline bool grid_well(const struct grid_node *n, moyai_ns since) {
    return n->o && !n->gone && !n->leaving && !n->ill && n->well <= since;
}

/* Nodes behind a NAT that do not know of it listen: those of their own site can connect to them. */
static inline bool grid_listens(const struct grid *g, const struct ground_node *u) {
    return g->net.site[u->site] == GROUND_OPEN || u->site % 10 < g->cfg.unaware;
}

/* grid_talk.c */
extern const struct overlay_ops grid_talk_ops;
void grid_call_of(struct grid_node *n, const struct grid_node *to, uint32_t bytes);
void grid_talk_tick(struct grid *g);
void grid_talk_done(struct grid *g);

/* grid_look.c */
uint32_t grid_parts_staying(const struct grid *g); /* at least, when those that leave have gone */
void grid_turned(void *ctx, struct ground_node *u);
void grid_came(void *ctx, struct ground_node *u, const struct ground_node *from, const struct frame_head *h,
               const uint8_t *payload);
void grid_ahead(void *ctx, const struct ground_node *u, const void *owner, unsigned stage);

#endif
