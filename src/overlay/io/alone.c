/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever looks at a node that does nothing wants to know that it has lost the grid. Others that leave in order leave
 * it alone as well, which is as it should be; and links that are made anew within some seconds are worth no word.
 */
#include "overlay/io/alone.h"

#define ALONE_TIME (3 * MOYAI_SEC)

static void due(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct alone *a = (struct alone *)((char *)t - offsetof(struct alone, timer));
    a->said = true;
    log_error(a->o->cfg.log, "overlay", "MOYAI-ALONE",
              "no link to another node is left; that to %s broke last. Others are looked for", a->last);
}

void alone_init(struct alone *a, struct overlay *o) {
    a->o = o;
    exec_timer_init(&a->timer, due);
}

void alone_lost(struct alone *a, const struct olink *k) {
    if (a->said) return;
    peer_name(k->peer, a->last);
    exec_timer_set(a->o->x, &a->timer, moyai_now() + (moyai_ns)ALONE_TIME);
}

void alone_linked(struct alone *a) {
    exec_timer_clear(a->o->x, &a->timer);
    if (a->said) log_error(a->o->cfg.log, "overlay", "MOYAI-ALONE", "there is a link to another node again");
    a->said = false;
}

void alone_close(struct alone *a) {
    exec_timer_clear(a->o->x, &a->timer);
}
