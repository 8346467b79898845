/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/linger.h"

#include "cli/cli.h"

#define LOOK  (200 * MOYAI_MS)
#define LEAST (200 * MOYAI_MS) /* after a kill at the last moment: its starter is to hear of it */

static void on_look(struct exec *x, struct exec_timer *t) {
    struct lingering *l = (struct lingering *)(void *)((char *)t - offsetof(struct lingering, timer));
    char who[NODE_CUT_OFF];
    const size_t n = node_cut_off(l->node, who);
    if (n > 0 && !l->said) {
        cli_say(l->title, "waits for %zu node%s that ha%s no other way to the grid: %s; a signal ends it at once", n,
                n == 1 ? "" : "s", n == 1 ? "s" : "ve", who);
        l->said = true;
    }
    exec_timer_set(x, t, moyai_now() + (moyai_ns)LOOK);
}

moyai_dur linger_time(moyai_ns until) {
    const moyai_ns now = moyai_now();
    if (until == 0) return LINGER_TIME;
    if (until == UINT64_MAX) return MOYAI_FOREVER;
    return until > now + (moyai_ns)LEAST ? (moyai_dur)(until - now) : LEAST;
}

void linger(struct lingering *l, moyai_node *n, const char *title, moyai_dur patience) {
    struct exec *x = node_exec(n);
    *l = (struct lingering){.node = n, .title = title, .on = true};
    exec_lock(x);
    exec_timer_init(&l->timer, on_look);
    exec_timer_set(x, &l->timer, moyai_now() + (moyai_ns)LOOK);
    exec_unlock(x);
    node_drain(n, patience);
    exec_lock(x);
    exec_timer_clear(x, &l->timer);
    l->on = false;
    exec_unlock(x);
}

bool linger_hurry(struct lingering *l) {
    if (l->on) node_drain_hurry(l->node);
    return l->on;
}
