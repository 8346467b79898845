/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_ward.h"

#include "base/err.h"
#include "base/events.h"
#include "base/id.h"
#include "node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define OBITUARY_TIME (2 * MOYAI_SEC)

static void on_signals(struct exec_fd *f, int events, void *arg) {
    (void)f, (void)events;
    struct ward *w = arg;
    struct signalfd_siginfo si;
    while (read(w->signals, &si, sizeof si) == sizeof si)
        if (si.ssi_signo != SIGCONT) /* which is sent to us when the keeper ends; those of fg come by the lifeline */
            w->ops->signal((int)si.ssi_signo, w->arg);
        else if (getppid() != w->guard->parent)
            w->ops->orphaned(w->arg);
}

static void on_lifeline(struct exec_fd *f, int events, void *arg) {
    (void)events;
    struct ward *w = arg;
    uint8_t sigs[64];
    ssize_t n = read(w->guard->lifeline, sigs, sizeof sigs);
    for (ssize_t i = 0; i < n; i++) w->ops->signal(sigs[i], w->arg);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
    exec_fd_events(f, 0);
    w->ops->orphaned(w->arg);
}

int ward_watch(struct ward *w, struct moyai_error *why) {
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGCONT};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) sigaddset(&set, taken[i]);
    w->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (w->signals < 0) return err_sys(why, errno, "cannot watch for signals");
    w->signals_watch = exec_fd_new(w->x, w->signals, UV_READABLE, on_signals, w);
    (void)fcntl(w->guard->lifeline, F_SETFL, O_NONBLOCK);
    w->lifeline_watch = exec_fd_new(w->x, w->guard->lifeline, UV_READABLE, on_lifeline, w);
    if (w->signals_watch && w->lifeline_watch) return 0;
    return err_set(why, MOYAI_ENOMEM, "out of memory");
}

void ward_done(struct ward *w) {
    if (w->signals_watch) exec_fd_free(w->signals_watch, true, NULL);
    if (w->lifeline_watch) exec_fd_free(w->lifeline_watch, false, NULL); /* it is looked at to the end: ward_lives */
    w->signals_watch = w->lifeline_watch = NULL;
}

/* ---- what others are told -------------------------------------------------------------------- */

/* The first one asks for what is being done. */
static bool hurries(void *arg) {
    struct ward *w = arg;
    uint8_t sigs[64];
    bool again = false;
    ssize_t n;
    while ((n = read(w->guard->lifeline, sigs, sizeof sigs)) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (sigs[i] == SIGUSR1 || sigs[i] == SIGTSTP || sigs[i] == SIGCONT) continue;
            again |= *w->asked;
            *w->asked = true;
        }
    return again || n == 0 || (errno != EAGAIN && errno != EINTR); /* it ends with the front */
}

void ward_lives(struct ward *w, moyai_node *node, const struct run_grid *grid, bool *asked) {
    const struct guard *g = w->guard;
    w->asked = asked;
    overlay_hurry(node_overlay(node), g->lifeline, hurries, w);
    if (!g->shared || grid->path[0] || strstr(grid->address, "fd:")) return; /* descriptors are the runner's alone */
    struct moyai_node_id id = moyai_node_self(node);
    memcpy(g->shared->node, id.b, 16);
}

void ward_left(const struct guard *g) {
    if (g->shared) memset(g->shared->node, 0, 16);
}

void ward_obituary(const struct guard *g, const struct run_grid *grid, const char *title) {
    if (!g->shared || id_zero(g->shared->node)) return;
    struct moyai_node_id id;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    memcpy(id.b, g->shared->node, 16);
    opts.grid = grid->address;
    opts.run_dir = grid->run_dir[0] ? grid->run_dir : NULL;
    opts.title = title;
    opts.outbound_only = true;
    moyai_node *n = NULL;
    if (node_new_observer(&n, &opts, NULL) < 0) return;
    if (node_await_link(n, OBITUARY_TIME) == 0) node_declare_dead(n, id, "its process has ended");
    moyai_node_free(n);
}

/* The keeper waits for our end, but somebody may stop it before it sees that. While it is our parent its number cannot
 * be another's. Not if something is left that will not be killed: the keeper tries once more. */
_Noreturn void ward_end_orphaned(const struct guard *g, moyai_node *node, struct run_grid *grid) {
    bool gone = guard_sweep(g);
    if (!grid->path[0]) node_obituary(node, "one of the processes that guard it was killed");
    ward_left(g);
    (void)run_grid_end(grid, NULL);
    events_flush(node_events(node));
    if (getppid() == g->parent) kill(g->parent, gone ? SIGKILL : SIGCONT);
    _exit(128 + SIGKILL);
}
