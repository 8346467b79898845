/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes come and go, and what happens to them. */
#include "sim/grid/grid_internal.h"

#include "base/err.h"
#include "overlay/io/leaving.h"
#include "overlay/io/mourn.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLD 64u              /* at once; more at the next look */
#define LATE (600 * MOYAI_MS) /* as long as it takes to go, or longer */
#define TICK (100 * MOYAI_MS)

static const struct ground_ops ground_ops = {.turned = grid_turned, .came = grid_came, .ahead = grid_ahead};

void grid_law(struct grid *g, const struct grid_node *n, const char *fmt, ...) {
    if (g->broken) return;
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    g->broken = true;
    err_set(&g->why, MOYAI_EINTERNAL, "%.3f s, node %" PRIu32 ": %s", (double)g->w->now * 1e-9,
            n ? n->index : UINT32_MAX, text);
}

void grid_say(struct grid *g, const struct grid_node *n, const char *fmt, ...) {
    if (!g->trace) return;
    char text[400], who[16];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(who, sizeof who, "%" PRIu32, n->index);
    trace_line(g->trace, g->w->now, who, "%s", text);
}

/* ---- lives ----------------------------------------------------------------------------------- */

static void start(void *who, uint64_t what) {
    struct grid_node *n = who;
    struct grid *g = n->g;
    (void)what;
    if (g->broken || g->ending) return;
    char at[32], site[16];
    ground_address(n->index, at);
    snprintf(site, sizeof site, "site%" PRIu32, n->u->site);
    struct overlay_cfg c = {.grid = "http://rendezvous:80/sim",
                            .title = site,
                            .self = n->u->id,
                            .queue_calls = 1000000,
                            .queue_bytes = UINT64_C(256) << 20,
                            .open_calls = 25000,
                            .max_message = UINT64_C(1) << 30,
                            .reattach = g->cfg.reattach,
                            .idle = g->cfg.idle,
                            .listen = at,
                            .site = site,
                            .outbound_only = !grid_listens(g, n->u),
                            .degree = g->cfg.degree,
                            .relay_memory = g->cfg.memory,
                            .small = true,
                            .log = &g->log};
    struct moyai_error why;
    ground_up(n->u);
    ground_enter(n->u);
    int rc = overlay_new(&n->o, &n->u->x, &c, &grid_talk_ops, n, &why);
    n->ill = true;
    ground_leave(n->u);
    if (rc < 0) {
        grid_law(g, n, "does not start: %s", why.text);
        return;
    }
    n->at = g->live;
    g->lives[g->live++] = n->index;
    g->count.joins++;
    g->changed = g->w->now;
    grid_say(g, n, "joins at site %" PRIu32, n->u->site);
}

static struct grid_node *add(struct grid *g, uint32_t site) {
    if (g->n == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 64;
        g->node = realloc(g->node, g->cap * sizeof *g->node);
        g->lives = realloc(g->lives, g->cap * sizeof *g->lives);
        if (!g->node || !g->lives) abort();
    }
    struct grid_node *n = sim_alloc(sizeof *n);
    *n = (struct grid_node){.g = g, .u = ground_add(&g->net, site), .index = g->n};
    for (uint32_t i = 0; i < g->n; i++) /* where its site is now */
        if (g->node[g->n - 1 - i]->u->site == site) {
            n->u->part = g->node[g->n - 1 - i]->u->part;
            break;
        }
    for (int i = 0; i < 4; i++) n->near[i] = UINT32_MAX;
    g->node[g->n++] = n;
    return n;
}

void grid_join(struct grid *g, uint32_t count, moyai_dur within) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t site = rng_below(&g->rng, 100) < g->cfg.first ? 0 : (uint32_t)rng_below(&g->rng, g->cfg.sites);
        if (g->cfg.per_host && g->n % g->cfg.per_host) site = g->node[g->n - 1]->u->site;
        struct grid_node *n = add(g, site);
        world_in(g->w, (moyai_dur)rng_below(&g->rng, (uint64_t)within + 1), start, n, 0);
    }
}

/* Its process ends. mute: of a sudden. */
static void end(struct grid_node *n, bool mute) {
    struct grid *g = n->g;
    if (!n->o) return;
    g->changed = g->w->now;
    g->lives[n->at] = g->lives[--g->live];
    g->node[g->lives[n->at]]->at = n->at;
    n->gone = true;
    g->stopped -= n->u->stopped;
    n->u->mute = mute;
    if (ground_now) abort();
    ground_now = n->u;
    overlay_close(n->o);
    overlay_free(n->o);
    n->o = NULL;
    ground_now = NULL;
    ground_close(n->u);
    ground_down(n->u);
}

void grid_witness(struct grid *g, uint32_t a, uint32_t index) {
    struct grid_node *n = g->node[g->lives[a]];
    ground_enter(n->u);
    mourn_witnessed(n->o, g->node[index]->u->id.b);
    ground_leave(n->u);
}

void grid_pass_on(struct grid *g, uint32_t a, uint32_t b, uint32_t index) {
    struct grid_node *n = g->node[g->lives[a]];
    ground_enter(n->u);
    mourn_pass_on(n->o, g->node[g->lives[b]]->u->id.b, g->node[index]->u->id.b);
    ground_leave(n->u);
}

void grid_crash(struct grid *g, uint32_t a) {
    struct grid_node *n = g->node[g->lives[a]];
    g->count.crashes++;
    n->well_left = false;
    grid_say(g, n, "crashes");
    end(n, true);
}

static void leave_now(void *who, uint64_t what) {
    struct grid_node *n = who;
    (void)what;
    if (!n->o || n->gone) return; /* it has crashed on its way out */
    grid_say(n->g, n, "has withdrawn");
    end(n, false);
}

static void withdrawn(void *arg) {
    struct grid_node *n = arg;
    moyai_dur took = (moyai_dur)(n->g->w->now - n->leaves);
    if (took > n->g->count.leaving) n->g->count.leaving = took;
    world_in(n->g->w, 0, leave_now, n, 0);
}

static void late_call(void *who, uint64_t what) {
    struct grid_node *n = who, *from = n->g->node[what];
    if (from->o && !from->gone) grid_call_of(from, n, 100);
}

static void late_calls(struct grid_node *n) {
    struct grid *g = n->g;
    for (uint32_t i = 0; i < g->cfg.late; i++)
        world_in(g->w, (moyai_dur)rng_below(&g->rng, (uint64_t)LATE), late_call, n,
                 g->lives[rng_below(&g->rng, g->live)]);
}

static void go_away(void *who, uint64_t what);

/* As src/object/drain.c does: those that depend on it leave, too. */
static void tell_dependants(struct grid_node *n) {
    struct grid *g = n->g;
    struct moyai_node_id ids[TOLD], from;
    const size_t all = n->forces ? overlay_dependants(n->o, ids, TOLD, &from) : 0;
    for (size_t i = 0; i < all && i < TOLD; i++) {
        struct grid_node *d = grid_node_of(g, ids[i].b);
        if (!grid_is_now(d, ids[i].b) || d->gone || d->forces || d->u->stopped) continue;
        grid_say(g, d, "depends on %" PRIu32 ", and is to leave", n->u->index);
        g->count.leaves += !d->leaving;
        g->count.dependants++;
        d->well_left = d->leaving ? d->well_left : grid_well(d, g->w->now);
        d->told_to = n->told_to;
        d->told_by = n->u->index + 1;
        d->forces = true;
        ground_enter(d->u);
        overlay_depends(d->o, from.b);
        ground_leave(d->u);
        if (!d->leaving) world_in(g->w, 0, go_away, d, 0);
        d->leaving = true;
    }
}

/* They go first. */
static bool waits_for_told(const struct grid_node *n) {
    const struct grid *g = n->g;
    for (uint32_t i = 0; i < g->live; i++) {
        const struct grid_node *d = g->node[g->lives[i]];
        if (d->told_by == n->u->index + 1 && !overlay_orders(n->o, d->u->id.b)) return true;
    }
    return false;
}

/* Second phase, when the first is over: when those that stay are connected without it, or its time is over. */
static void go_away(void *who, uint64_t what) {
    struct grid_node *n = who;
    struct grid *g = n->g;
    (void)what;
    if (!n->o || n->gone) return;
    const bool over = n->told_to && g->w->now - n->told_to >= (moyai_ns)g->cfg.deadline;
    if (!n->u->stopped) tell_dependants(n);
    if (n->u->stopped || (n->told_to && !over && (!overlay_may_leave(n->o) || waits_for_told(n)))) {
        world_in(g->w, 2 * MOYAI_MS, go_away, n, 0);
        return;
    }
    if (n->told_to) {
        const moyai_dur took = (moyai_dur)(g->w->now - n->told_to);
        if (took > g->count.waiting) g->count.waiting = took;
        g->count.cut_short += over;
        g->count.in_vain += over && grid_parts_staying(g) < 2;
    }
    grid_say(g, n, "goes");
    late_calls(n);
    n->leaves = g->w->now;
    ground_enter(n->u);
    bool later = overlay_withdraw(n->o, withdrawn, n);
    ground_leave(n->u);
    if (!later) end(n, false);
}

static void begin_to_leave(struct grid *g, uint32_t a, bool forces) {
    struct grid_node *n = g->node[g->lives[a]];
    if (n->u->stopped || n->leaving) return;
    g->count.leaves++;
    grid_say(g, n, "is to leave");
    n->well_left = grid_well(n, g->w->now);
    n->leaving = true;
    n->forces = forces;
    if (forces || rng_below(&g->rng, 100) >= g->cfg.abrupt) { /* or its program just ends */
        n->told_to = g->w->now;
        ground_enter(n->u);
        overlay_leaves(n->o);
        ground_leave(n->u);
    }
    go_away(n, 0);
}

void grid_leave(struct grid *g, uint32_t a) {
    begin_to_leave(g, a, false);
}

void grid_leave_all(struct grid *g, uint32_t a) {
    begin_to_leave(g, a, true);
}

uint32_t grid_leaving(const struct grid *g) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->live; i++) n += g->node[g->lives[i]]->leaving;
    return n;
}

static void on_log(const struct log_event *ev, void *arg) {
    struct grid *g = arg;
    if (!ground_now) return;
    struct grid_node *n = g->node[ground_now->index];
    grid_say(g, n, "%s %s", ev->id, ev->text);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static struct grid_node *draw(struct grid *g) {
    return g->live ? g->node[g->lives[rng_below(&g->rng, g->live)]] : NULL;
}

static void go_on(void *who, uint64_t what) {
    struct grid_node *n = who;
    (void)what;
    if (!n->o || !n->u->stopped) return;
    grid_say(n->g, n, "goes on");
    ground_stop(n->u, false);
    n->g->stopped--; /* it is ill until it has been seen to have links (grid_turned): it may never have had any */
}

/* Nothing moves it, until go_on. */
static void halt(struct grid_node *n) {
    struct grid *g = n->g;
    g->stopped++;
    g->count.stops++;
    ground_stop(n->u, true);
    if (!n->ill) n->away = g->w->now;
    n->ill = true;
}

static struct grid_node *stop(struct grid *g) {
    struct grid_node *n = draw(g);
    if (!n || n->u->stopped || g->stopped > g->live / 100) return NULL;
    moyai_dur span = 1 + (moyai_dur)rng_below(&g->rng, (uint64_t)g->faults.stop);
    grid_say(g, n, "is stopped for %.1f s", (double)span * 1e-9);
    halt(n);
    n->long_away |= g->w->now + (moyai_ns)span - n->away > 3 * (moyai_ns)g->cfg.reattach;
    world_in(g->w, span, go_on, n, 0);
    return n;
}

void grid_stop(struct grid *g, uint32_t a) {
    struct grid_node *n = g->node[g->lives[a]];
    if (n->u->stopped) return;
    grid_say(g, n, "is stopped");
    halt(n);
}

static void reset_all(struct grid *g) {
    struct grid_node *n = stop(g);
    if (!n) return;
    grid_say(g, n, "loses all its links");
    g->count.resets++;
    for (uint32_t i = n->u->n_conns; i-- > 0;) ground_break(ground_conn_of(n->u, i));
}

static void join_again(void *who, uint64_t what) {
    struct grid *g = who;
    (void)what;
    if (!g->net.parted) return;
    trace_line(g->trace, g->w->now, "-", "all can reach each other again");
    ground_part(&g->net, false);
    for (uint32_t i = 0; i < g->live; i++) g->node[g->lives[i]]->well = g->w->now + GRID_WHOLE;
    g->changed = g->w->now;
}

static void part(struct grid *g) {
    if (g->net.parted) return;
    uint32_t site = (uint32_t)rng_below(&g->rng, g->cfg.sites);
    trace_line(g->trace, g->w->now, "-", "site %" PRIu32 " is cut off", site);
    g->count.parts++;
    for (uint32_t i = 0; i < g->n; i++) g->node[i]->u->part = g->node[i]->u->site == site;
    for (uint32_t i = 0; i < g->live; i++) g->node[g->lives[i]]->well = UINT64_MAX;
    ground_part(&g->net, true);
    world_in(g->w, 1 + (moyai_dur)rng_below(&g->rng, (uint64_t)g->faults.part), join_again, g, 0);
}

static void crash(struct grid *g) {
    struct grid_node *n = draw(g);
    if (!n) return;
    uint32_t site = n->u->site;
    bool many = rng_below(&g->rng, 100) < g->faults.many;
    grid_crash(g, n->at);
    for (uint32_t i = 0; many && i < g->live; i++)
        if (g->node[g->lives[i]]->u->site == site && rng_below(&g->rng, 10) == 0) grid_crash(g, i--);
}

static void leave(struct grid *g) {
    struct grid_node *n = draw(g);
    if (n) grid_leave(g, n->at);
}

static void of_link(struct grid *g, bool swallow) {
    struct grid_node *n = draw(g);
    if (!n || n->u->n_conns == 0) return;
    struct ground_conn *c = ground_conn_of(n->u, (uint32_t)rng_below(&g->rng, n->u->n_conns));
    grid_say(g, n, "%s the link to %" PRIu32, swallow ? "silence on" : "breaks", ground_other(c, n->u)->index);
    if (swallow) {
        g->count.silences++;
        ground_swallow(c);
    } else {
        g->count.breaks++;
        ground_break(c);
    }
}

static uint32_t times(struct grid *g, double a_minute) {
    double each = a_minute * (double)TICK / 60e9;
    uint32_t n = (uint32_t)each;
    return n + ((double)rng_below(&g->rng, 1u << 30) < (each - n) * (1u << 30));
}

static void tick(void *who, uint64_t what) {
    struct grid *g = who;
    (void)what;
    if (g->ending || g->broken) return;
    const struct grid_faults *f = &g->faults;
    for (uint32_t n = times(g, f->joins); n; n--) grid_join(g, 1, TICK);
    for (uint32_t n = times(g, f->leaves); n; n--) leave(g);
    for (uint32_t n = times(g, f->crashes); n; n--) crash(g);
    for (uint32_t n = times(g, f->stops); n; n--) (void)stop(g);
    for (uint32_t n = times(g, f->resets); n; n--) reset_all(g);
    for (uint32_t n = times(g, f->breaks); n; n--) of_link(g, false);
    for (uint32_t n = times(g, f->silences); n; n--) of_link(g, true);
    for (uint32_t n = times(g, f->parts); n; n--) part(g);
    for (uint32_t n = times(g, f->rendezvous); n; n--) {
        g->net.no_rendezvous = !g->net.no_rendezvous;
        trace_line(g->trace, g->w->now, "-", "the rendezvous %s", g->net.no_rendezvous ? "goes" : "is there");
    }
    grid_talk_tick(g);
    ground_memory_grown();
    world_in(g->w, TICK, tick, g, 0);
}

void grid_trouble(struct grid *g, const struct grid_faults *f) {
    g->faults = f ? *f : (struct grid_faults){0};
    if (f) return;
    g->net.no_rendezvous = false;
    join_again(g, 0);
    for (uint32_t i = 0; i < g->live; i++) go_on(g->node[g->lives[i]], 0);
}

void grid_talk(struct grid *g, const struct grid_traffic *t) {
    g->traffic = t ? *t : (struct grid_traffic){0};
}

/* ---- the world ------------------------------------------------------------------------------- */

void grid_init(struct grid *g, struct world *w, struct trace *t, const struct grid_cfg *cfg) {
    *g = (struct grid){.w = w, .trace = t, .cfg = *cfg};
    ground_memory();
    if (!g->cfg.first) g->cfg.first = 25;
    if (!g->cfg.degree) g->cfg.degree = 15;
    if (!g->cfg.memory) g->cfg.memory = UINT64_C(64) << 20;
    if (!g->cfg.reattach) g->cfg.reattach = 10 * MOYAI_SEC;
    if (!g->cfg.idle) g->cfg.idle = 60 * MOYAI_SEC;
    if (!g->cfg.patience) g->cfg.patience = 60 * MOYAI_SEC;
    if (!g->cfg.deadline) g->cfg.deadline = 30 * MOYAI_SEC;
    rng_fork(&w->rng, "grid", 0, &g->rng);
    ground_init(&g->net, w, &ground_ops, g);
    g->net.delay = cfg->delay;
    g->net.bytes_a_second = cfg->rate;
    g->net.silent = cfg->silent;
    g->net.sites = cfg->sites;
    g->net.per_host = cfg->per_host;
    g->net.site = sim_alloc(cfg->sites * sizeof *g->net.site);
    for (uint32_t i = 0; i < cfg->sites; i++) g->net.site[i] = i == 0 || i % 10 < cfg->open ? GROUND_OPEN : GROUND_NAT;
    if (log_init(&g->log, t ? "warning" : "error", NULL) < 0) abort();
    log_set_sink(&g->log, on_log, g);
    world_in(w, TICK, tick, g, 0);
}

void grid_done(struct grid *g) {
    g->ending = true;
    while (g->live) end(g->node[g->lives[g->live - 1]], true);
    (void)world_run(g->w, NULL, NULL, g->w->now + 400 * GRID_SECOND); /* what is on its way is freed where it arrives */
    for (uint32_t i = 0; i < g->n; i++) free(g->node[i]);
    free(g->node);
    free(g->lives);
    free(g->seen);
    grid_talk_done(g);
    log_done(&g->log); /* says what it has left out: by this world's time */
    ground_done(&g->net);
}
