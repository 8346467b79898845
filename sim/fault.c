/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/fault.h"

#include <inttypes.h>

static bool one_in(struct fault *f, uint64_t n) {
    return rng_below(&f->rng, n) == 0;
}
static moyai_dur upto(struct fault *f, moyai_dur most) {
    return (moyai_dur)rng_below(&f->rng, (uint64_t)most + 1);
}

static void up(void *who, uint64_t what) {
    struct fault *f = who;
    (void)what;
    f->net->down = false;
}

static void down(struct fault *f) {
    f->net->down = true;
    world_in(f->net->w, one_in(f, 12) ? 12 * MOYAI_SEC : upto(f, 2 * MOYAI_SEC), up, f, 0);
}

static void cut(struct fault *f) {
    moyai_dur notice[2];
    for (int i = 0; i < 2; i++) notice[i] = one_in(f, 30) ? 12 * MOYAI_SEC : upto(f, f->cfg.notice);
    net_cut(f->net, one_in(f, 2), notice);
    if (one_in(f, 3)) down(f);
}

static void something(void *who, uint64_t what) {
    struct fault *f = who;
    struct net *n = f->net;
    struct host *h = &n->host[rng_below(&f->rng, 2)];
    (void)what;
    if (n->w->now >= f->until || n->broken) return;
    switch (rng_below(&f->rng, 10)) {
    case 0:
    case 1:
    case 2:
        cut(f);
        break;
    case 3:
        host_find(h);
        break;
    case 4:
        host_find(&n->host[0]); /* both at once */
        host_find(&n->host[1]);
        break;
    case 5:
        host_read(h, (enum host_reads)rng_below(&f->rng, 3));
        break;
    case 6:
    case 7:
        host_drop(h, rng_below(&f->rng, h->flow->given + 1));
        break;
    case 8:
        if (f->cfg.ends && one_in(f, 10)) host_close(h);
        break;
    case 9:
        if (f->cfg.ends && one_in(f, 20)) host_crash(h, one_in(f, 3) ? MOYAI_FOREVER : upto(f, MOYAI_SEC));
        break;
    }
    world_in(n->w, upto(f, f->cfg.every), something, f, 0);
}

static void over(void *who, uint64_t what) {
    struct fault *f = who;
    (void)what;
    trace_line(f->net->trace, f->net->w->now, "-", "no more faults");
    f->net->down = false;
    for (int i = 0; i < 2; i++) host_read(&f->net->host[i], READS_ALL);
}

void fault_start(struct fault *f, struct net *net, const struct fault_cfg *cfg, moyai_ns until) {
    *f = (struct fault){.net = net, .cfg = *cfg, .until = until};
    rng_fork(&net->w->rng, "faults", 0, &f->rng);
    world_in(net->w, upto(f, cfg->every), something, f, 0);
    world_at(net->w, until, over, f, 0);
}
