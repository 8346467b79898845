/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links, built of elements. An element is given packets (push), says when it next has something to do (next), and
 * does it (run), which pushes into the element behind it. A stream link keeps its order and loses nothing while it
 * lives: each way is a bandwidth queue, then a delay with jitter, then the end. It can be cut; then what is on its
 * way may still arrive or not, and each end notices when the cutter says.
 */
#ifndef SIM_LINK_H
#define SIM_LINK_H

#include "overlay/session.h"
#include "sim/world.h"

struct packet {
    struct packet *next;
    moyai_ns due; /* for the element that holds it */
    size_t bytes;
    struct session_frame frame;
    struct session_chunk chunks[];
};

struct sim_link;
struct packet *packet_new(const struct session_frame *f, size_t bytes); /* a copy */

struct element;
struct element_ops {
    void (*push)(struct element *e, struct packet *p, moyai_ns now);
    moyai_ns (*next)(const struct element *e); /* UINT64_MAX: nothing to do */
    void (*run)(struct element *e, moyai_ns now);
};

struct element {
    const struct element_ops *ops;
    struct element *to;
    struct packet *first, *last; /* waiting here, in order */
};

struct element_rate {
    struct element e;
    uint64_t bytes_a_second;
    moyai_ns busy; /* until then it transmits */
    size_t backlog;
};

struct element_delay {
    struct element e;
    moyai_dur delay, jitter; /* at most as much more, drawn for each packet; the order stays */
    struct moyai_rng rng;
};

/* What the ends of a link are called with. */
struct link_ops {
    void (*received)(void *who, struct sim_link *l, struct packet *p); /* p is freed afterwards */
    void (*closed)(void *who, struct sim_link *l);                     /* noticed that it was cut; once */
    void (*drained)(void *who, struct sim_link *l); /* its backlog is below half of the limit again */
};

struct element_end {
    struct element e;
    struct sim_link *l;
    int end; /* whom it belongs to */
};

struct way {
    struct element_rate rate;
    struct element_delay delay;
    struct element_end end;
    moyai_ns waking; /* for which an event is set */
};

struct sim_link {
    struct world *w;
    const struct link_ops *ops;
    void *who[2];
    struct way way[2]; /* towards end 0 and end 1 */
    bool cut, noticed[2], full[2];
    uint32_t number;
};

struct link_cfg {
    uint64_t bytes_a_second; /* 0: without limit */
    moyai_dur delay, jitter;
};

struct sim_link *link_new(struct world *w, uint32_t number, const struct link_cfg *cfg, const struct link_ops *ops,
                          void *a, void *b);
/* Only when no event for it can be set any more: after its world is done. */
void link_free(struct sim_link *l);

#define LINK_BACKLOG 262144
bool link_room(const struct sim_link *l, int from); /* else wait for drained */
/* Send a copy from end `from` to the other. Into a cut link: lost. */
void link_send(struct sim_link *l, int from, const struct session_frame *f, size_t bytes);
/* Cut it. What is on its way is lost if `lose`; end i notices when after[i] has passed. */
void link_cut(struct sim_link *l, bool lose, const moyai_dur after[2]);

#endif
