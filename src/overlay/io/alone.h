/* SPDX-License-Identifier: Apache-2.0 */
/* Telling that a node of a grid of several hosts has lost all others, and found some again. Node lock held. */
#ifndef OVERLAY_IO_ALONE_H
#define OVERLAY_IO_ALONE_H

#include "overlay/io/internal.h"
#include "overlay/io/met.h"

struct alone {
    struct overlay *o;
    const struct met *met;   /* the places where the grid is met */
    struct exec_timer timer; /* set: no link is left, one was lost */
    moyai_ns until;          /* a loss counts until then */
    bool far;                /* a link to another host was lost: those to nodes of this one do not make good for it */
    moyai_ns since;          /* alone, if it has been said */
    bool found;              /* no link, nobody is known, and nothing is said: whoever comes finds this node */
    bool unmet;              /* that it would not was the reason to say it */
    moyai_dur again;         /* after which it is said again; 0: it has not been said */
    moyai_ns back;           /* it has been said, and there is a link since then; 0: none */
    uint8_t last_id[16];
    char last[PEER_NAME + TCP_TEXT + 4]; /* whose link was lost last, and where that led */
};

/* Does the link lead to another host, as far as is known? */
static inline bool alone_elsewhere(const struct olink *k) {
    return id_zero(k->host) || !id_equal(k->host, k->o->hello.host);
}

void alone_init(struct alone *a, struct overlay *o, const struct met *met);
void alone_lost(struct alone *a, const struct olink *k); /* that one was used, and did not end as its node wished */
void alone_look(struct alone *a);                        /* after whatever may have changed which are used */
void alone_close(struct alone *a);

#endif
