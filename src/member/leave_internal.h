/* SPDX-License-Identifier: Apache-2.0 */
/* The leave machine inside, for its own files, and for tests that look into it. */
#ifndef MEMBER_LEAVE_INTERNAL_H
#define MEMBER_LEAVE_INTERNAL_H

#include "member/leave.h"

enum leave_port_flag {
    PORT_OPENING = 1,
    PORT_LEAVING = 2, /* the peer has said SEEK here */
    PORT_ASKED = 4,   /* req has been passed up to the parent; else it waits for that */
    PORT_ACKED = 8,   /* we have said ACK: our last frame here */
};

struct leave_port {
    uint64_t link;
    uint32_t mine; /* of our latest SEEK here, if it is not answered; else 0 */
    uint32_t req;  /* of the peer's, if it is not answered; else 0 */
    uint64_t flags;
};

struct leave {
    uint32_t cap, fx_cap, off_fx;
    uint32_t phase, seq, held;
    uint32_t n, fx_n, fx_at, zero;
    uint64_t parent;       /* link; 0: none */
    struct leave_port p[]; /* in the order in which they were made */
};

static inline struct leave_effect *leave_fxs(const struct leave *l) {
    return (struct leave_effect *)((char *)(uintptr_t)l + l->off_fx);
}

static inline bool leave_is(const struct leave_port *p, enum leave_port_flag flag) {
    return p->flags & flag;
}

static inline struct leave_port *leave_find(const struct leave *l, uint64_t link) {
    for (uint32_t i = 0; i < l->n; i++)
        if (l->p[i].link == link) return (struct leave_port *)(uintptr_t)&l->p[i];
    return NULL;
}

#endif
