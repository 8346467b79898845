/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes wrong, drawn from a seed: links are cut, with or without what is on its way, and the ends notice sooner
 * or later; no link can be made for a while; a path is replaced though it works; readers stop; messages are
 * withdrawn; rarely a host closes or crashes. At `until` all of it stops: links can be made and readers read.
 */
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

#include "sim/host.h"

struct fault_cfg {
    moyai_dur every;  /* twice the mean time between two faults */
    moyai_dur notice; /* the longest time to notice a cut; now and then longer than reattach */
    bool ends;        /* closes and crashes too */
};

struct fault {
    struct net *net;
    struct fault_cfg cfg;
    struct moyai_rng rng;
    moyai_ns until;
};

void fault_start(struct fault *f, struct net *net, const struct fault_cfg *cfg, moyai_ns until);

#endif
