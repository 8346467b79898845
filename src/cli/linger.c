/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/linger.h"

#include "base/dur.h"
#include "cli/cli.h"

#include <signal.h>

#define LOOK  (200 * MOYAI_MS)
#define LEAST (200 * MOYAI_MS) /* after a kill at the last moment: its starter is to hear of it */

static void on_look(struct exec *x, struct exec_timer *t) {
    struct lingering *l = (struct lingering *)(void *)((char *)t - offsetof(struct lingering, timer));
    char who[NODE_CUT_OFF];
    const size_t n = node_cut_off(l->node, who);
    if (n > 0 && !l->said) {
        cli_say(l->title, "waits for %zu node%s that ha%s no other way to the grid: %s; %s ends it at once", n,
                n == 1 ? "" : "s", n == 1 ? "s" : "ve", who, l->asked ? "another signal" : CLI_TWICE);
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
    exec_lock(x);
    *l = (struct lingering){.node = n, .title = title, .on = true, .asked = l->asked};
    if (l->asked && patience > LINGER_TIME) patience = LINGER_TIME;
    exec_timer_init(&l->timer, on_look);
    exec_timer_set(x, &l->timer, moyai_now() + (moyai_ns)LOOK);
    exec_unlock(x);
    node_drain(n, patience);
    exec_lock(x);
    exec_timer_clear(x, &l->timer);
    l->on = false;
    exec_unlock(x);
}

void linger_hurry(struct lingering *l) {
    if (l->on) node_drain_hurry(l->node, 0);
}

void linger_signal(struct lingering *l, int sig, bool again) {
    char what[40];
    if (!l->on) return;
    node_drain_hurry(l->node, again ? 0 : LINGER_TIME);
    if (!again)
        cli_say(l->title, "%s: leaves within %s; another %s ends it at once", cli_signal_text(sig, what),
                DUR(LINGER_TIME), sig == SIGINT ? "Ctrl-C" : "signal");
}
