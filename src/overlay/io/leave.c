/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving without being missed. Before a node says farewell, what passes through it goes other ways: its neighbours
 * hear that it has none, so that nobody looks for a way by it (locating, 7.7), and the ends of the paths that it relays
 * hear that it leaves (paths, 7). They lay others and go over to them, while the old ones still work. That takes a few
 * round trips.
 */
#include "overlay/io/route.h"
#include "overlay/io/wide.h"

void overlay_withdrawn(struct overlay *o) {
    void (*done)(void *arg) = o->withdrawn;
    o->withdrawn = NULL;
    if (done) done(o->withdrawn_arg);
}

bool overlay_withdraw(struct overlay *o, void (*done)(void *arg), void *arg) {
    if (o->closing || !o->route) return false;
    o->withdrawn_arg = arg;
    o->withdrawn = done;
    if (!route_withdraw(o->route)) o->withdrawn = NULL;
    if (o->withdrawn && o->wide) wide_leave(o->wide);
    return o->withdrawn;
}
