/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving, first phase (doc/spec/09-leave.md, 9): what this node has begun is finished, and nothing of others begins.
 *
 * From when it is told to leave, a call from another node is refused, never executed, also one that has come and has
 * not begun; but not what an own method waits for (a nested call with this node among its ancestors), nor a one-way
 * call, of whose refusal nobody would hear, nor the call of one that leaves too: who ends together finishes together.
 * Methods go on: their calls, replies, signals and cancels flow both ways.
 * Who sleeps or waits for one of several, unmasked, is told so once (ELEAVING). Each object whose class has on_leave
 * has it called, in its scope; so has one that is made, or has come here, only then.
 *
 * What is refused when all else is over is not waited for, or one who calls again and again would keep the node here.
 * It and what is still on its way then were never executed, as the farewell says (drain_cleared).
 *
 * It is over when no method of somebody who still waits for it runs, nor an on_leave, no call is open that a method or
 * fiber made, no one-way call or signal is kept until its object has it (that may move), and what was sent has been
 * taken by those it was for; or when the time for it has passed: then what is unfinished fails as in any node that
 * ends, and the log says what that was. Fibers of moyai_go are not waited for, as many only watch over something: what
 * they call is. Nor is what the program calls elsewhere, outside methods and fibers: it is told that all else is over,
 * and ends the node when it has what it wants. A program that does not end its node in time keeps it, without a grid:
 * others have its farewell.
 */
#include "object/drain.h"
#include "object/keep.h"
#include "object/move.h"
#include "object/takers.h"

#include "base/dur.h"
#include "base/err.h"
#include "base/id.h"
#include "overlay/io/leaving.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int drain_gone(const moyai_node *n, struct moyai_error *e) {
    if (!n->drain.gone) return 0;
    failure_set(e, MOYAI_ECLOSED, MOYAI_AT_CALLER, MOYAI_NEVER_EXECUTED,
                "this node has left its grid: its time to leave (%s) was over, and its program had not ended it",
                DUR(n->drain.patience));
    return e->code;
}

/* ---- who waits is told ----------------------------------------------------------------------- */

int drain_tells(moyai_node *n, struct context *c, struct blocked *b) {
    if (!b->tells_leave) return 0;
    if (!n->drain.begun) {
        b->context = c;
        b->tell_next = n->drain.blocked;
        b->tell_at = &n->drain.blocked;
        if (b->tell_next) b->tell_next->tell_at = &b->tell_next;
        n->drain.blocked = b;
        return 0;
    }
    if (c->leave_told) return 0;
    c->leave_told = true;
    return MOYAI_ELEAVING;
}

void drain_untell(struct blocked *b) {
    if (!b->tell_at) return;
    *b->tell_at = b->tell_next;
    if (b->tell_next) b->tell_next->tell_at = b->tell_at;
    b->tell_at = NULL;
}

static void tell_all(moyai_node *n) {
    for (struct blocked *b; (b = n->drain.blocked);) {
        drain_untell(b);
        if (blocked_wake(n, b, MOYAI_ELEAVING)) b->context->leave_told = true;
    }
}

/* ---- on_leave -------------------------------------------------------------------------------- */

static void run_on_leave(struct exec_task *t) {
    struct object *ob = (struct object *)(void *)((char *)t - offsetof(struct object, hook));
    moyai_node *n = ob->node;
    struct context c;
    n->active++;
    fiber_begin(n, &c);
    c.scope = ob;
    c.leave_told = true; /* by this */
    if (!ob->ended) {
        moyai_leave_fn fn = klass_on_leave(ob->klass);
        exec_user_enter(n->x);
        fn(n, ob->ref, ob->self);
        user_leave(n);
    }
    move_leave(ob);
    c.scope = NULL;
    if (ob->goes) move_away_begin(ob);
    fiber_end(n, &c);
    n->drain.hooks--;
    object_leave(ob);
}

void drain_object(struct object *ob) {
    moyai_node *n = ob->node;
    if (!n->drain.begun || n->drain.late || ob->ended || ob->frozen || ob->at.state != MOVING_HERE) return;
    const bool goes = move_away(ob), hook = klass_on_leave(ob->klass) && !ob->told;
    ob->told = true;
    if (!hook) {
        if (goes) move_away_begin(ob);
        return;
    }
    ob->goes = goes;
    ob->hook.run = run_on_leave;
    move_enter(ob); /* from now on: it is not packed before */
    ob->users++;
    n->drain.hooks++;
    exec_submit(n->x, &ob->hook);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* The program is asked to end the node, once, and who does that goes on. */
static void over(moyai_node *n) {
    if (!n->drain.over) {
        n->drain.over = true;
        overlay_done(n->o);
        atomic_store(&n->stop, true);
        exec_kick(n->x);
    }
    if (n->drain.waiter) (void)exec_wake(n->x, n->drain.waiter, 0);
}

static bool is_quiet(moyai_node *n) {
    const bool rest = n->drain.hooks == 0 && n->drain.moves == 0 && n->drain.asked == 0 && host_arrivals(n) == 0 &&
                      n->wanted == 0 && (n->calls_inside == 0 || n->drain.freeing) && n->calls_kept == 0 &&
                      n->local_waiting == 0;
    if (rest && !n->drain.rest) {
        n->drain.wave++;
        n->drain.refusals = 0;
    }
    n->drain.rest = rest;
    return rest && overlay_untaken(n->o) <= n->drain.refusals;
}

static bool waits_for_told(const moyai_node *n);

/* And those that stay are connected without this node. */
static bool is_done(moyai_node *n) {
    return is_quiet(n) && overlay_may_leave(n->o) && !waits_for_told(n);
}

void drain_refuses(moyai_request *rq) {
    moyai_node *n = rq->node;
    if (!n->drain.rest || !rq->peer) return;
    rq->wave = n->drain.wave;
    n->drain.refusals++;
}

void drain_refused(moyai_request *rq) {
    moyai_node *n = rq->node;
    if (rq->wave && rq->wave == n->drain.wave) n->drain.refusals--;
    rq->wave = 0;
}

bool drain_cleared(const moyai_node *n) {
    return !serve_unheard(n);
}

/* ---- who depends on it ----------------------------------------------------------------------- */

#define NAMED     3u /* of those that are cut off */
#define TELL_MOST (5 * MOYAI_SEC)

void drain_name(const moyai_node *n, const struct moyai_node_id *id, char who[PEER_NAME]) {
    struct peer *p = overlay_find(n->o, id->b);
    if (p)
        peer_name(p, who);
    else
        snprintf(who, PEER_NAME, "node %02x%02x%02x%02x", id->b[0], id->b[1], id->b[2], id->b[3]);
}

/* Of those that `which` gives. */
static size_t name_some(const moyai_node *n,
                        size_t (*which)(const struct overlay *o, struct moyai_node_id *ids, size_t n), char *out,
                        size_t cap) {
    struct moyai_node_id ids[NAMED];
    const size_t all = which(n->o, ids, NAMED);
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < all && i < NAMED && at < cap; i++) {
        char who[PEER_NAME];
        drain_name(n, &ids[i], who);
        at += (size_t)snprintf(out + at, cap - at, "%s%s", i ? ", " : "", who);
    }
    if (all > NAMED && at < cap) snprintf(out + at, cap - at, " and %zu more", all - NAMED);
    return all;
}

size_t drain_cut_off(const moyai_node *n, char *out, size_t cap) {
    return name_some(n, overlay_cut_off, out, cap);
}

struct telling {
    moyai_node *node;
    struct moyai_node_id id, from;
    double seconds;
};

static void could_not_tell(moyai_node *n, const struct moyai_node_id *id, const char *why) {
    log_warning(n->log, "object", "MOYAI-LEAVE-WAITS",
                "node %02x%02x%02x%02x, which depends on this one, could not be told to leave: %s", id->b[0], id->b[1],
                id->b[2], id->b[3], why);
    exec_lock(n->x);
    for (size_t i = 0; i < n->drain.n_told; i++)
        if (id_equal(n->drain.dependant[i].id.b, id->b)) n->drain.dependant[i].failed = true;
    exec_unlock(n->x);
    exec_attention(n->x);
}

/* On a fiber. Who is told so leaves before this node, with those who depend on him. */
static void tell_dependant(void *arg) {
    struct telling d = *(struct telling *)arg;
    struct moyai_error why = {0};
    struct keep k;
    char from[33];
    double left;
    free(arg);
    keep_begin(d.node, &k);
    if (moyai_node_ref(d.node, d.id, &k.ref) < 0) {
        keep_end(d.node, &k);
        could_not_tell(d.node, &d.id, "out of memory");
        return;
    }
    id_format(d.from.b, from);
    moyai_future *f = moyai_call_async(k.ref, "depend", MOYAI_ARGS(d.seconds, from));
    moyai_future_deadline(f, TELL_MOST);
    if (moyai_future_get(f, MOYAI_INTO(&left)) < 0) {
        (void)moyai_future_error(f, 0, &why);
        could_not_tell(d.node, &d.id, why.text);
    }
    moyai_future_free(f);
    keep_end(d.node, &k);
}

static bool is_told(const moyai_node *n, const struct moyai_node_id *id) {
    for (size_t i = 0; i < n->drain.n_told; i++)
        if (id_equal(n->drain.dependant[i].id.b, id->b)) return true;
    return false;
}

static void tell(moyai_node *n, const struct moyai_node_id *id, const struct moyai_node_id *from) {
    const moyai_ns now = moyai_now();
    struct dependant *more = realloc(n->drain.dependant, (n->drain.n_told + 1) * sizeof *more);
    if (more) n->drain.dependant = more;
    struct telling *d = more ? malloc(sizeof *d) : NULL;
    if (!d) return; /* at the next look */
    *d = (struct telling){.node = n, .id = *id, .from = *from, .seconds = INFINITY};
    if (n->drain.until != UINT64_MAX)
        d->seconds = n->drain.until > now ? (double)(n->drain.until - now) * (0.9 * 1e-9) : 0.001;
    if (go_locked(n, tell_dependant, d) < 0) {
        free(d);
        return;
    }
    more[n->drain.n_told++] = (struct dependant){.id = *id};
    log_info(n->log, "object", "MOYAI-LEAVE-TELLS",
             "node %02x%02x%02x%02x depends on this one, which leaves, and is told to leave, too", id->b[0], id->b[1],
             id->b[2], id->b[3]);
}

static void tell_dependants(moyai_node *n) {
    struct moyai_node_id from, *ids;
    const size_t all = overlay_dependants(n->o, NULL, 0, &from);
    if (all == 0 || !(ids = calloc(all, sizeof *ids))) return;
    (void)overlay_dependants(n->o, ids, all, &from);
    for (size_t i = 0; i < all; i++)
        if (!is_told(n, &ids[i])) tell(n, &ids[i], &from);
    free(ids);
}

/* They go first, in the order of leavers, unless they have found another way. */
static bool waits_for_told(const moyai_node *n) {
    for (size_t i = 0; i < n->drain.n_told; i++)
        if (!n->drain.dependant[i].failed && !overlay_orders(n->o, n->drain.dependant[i].id.b)) return true;
    return false;
}

void drain_force(moyai_node *n) {
    n->drain.force = true;
    exec_attention(n->x);
}

/* Who has no other way may find one meanwhile, or leave, too. */
static void look_cut_off(moyai_node *n) {
    char who[CUT_OFF_TEXT];
    struct moyai_node_id ids[NAMED];
    if (!overlay_answered(n->o)) return; /* they have said so of an earlier word only, or not all */
    const size_t all = overlay_cut_off(n->o, ids, NAMED);
    if (n->drain.force) tell_dependants(n);
    uint64_t who_cut = all;
    for (size_t i = 0; i < all && i < NAMED; i++) who_cut = who_cut * 31 + id_hash(ids[i].b);
    if (who_cut == n->drain.who_cut) return;
    const bool fewer = all < n->drain.cut_off; /* those that are told so leave one after the other: that is no news */
    n->drain.cut_off = all;
    n->drain.who_cut = who_cut;
    if (all == 0 || fewer) return;
    (void)drain_cut_off(n, who, sizeof who);
    log_warning(n->log, "object", "MOYAI-LEAVE-WAITS",
                "this node is to leave, and waits for %zu node%s that ha%s no other way to the grid: %s", all,
                all == 1 ? "" : "s", all == 1 ? "s" : "ve", who);
}

static void look(struct exec_hook *h) {
    moyai_node *n = (moyai_node *)(void *)((char *)h - offsetof(struct moyai_node, drain.hook));
    look_cut_off(n);
    if (n->drain.movers == 0) move_away_more(n);
    if (n->drain.begun && is_done(n)) over(n);
}

/* Those who ask hear of what was cut short. */
void drain_asked(moyai_node *n, moyai_ref *by) {
    moyai_ref **at = &n->drain.asker[n->drain.n_askers++ % LEAVE_ASKERS];
    moyai_ref_unref(*at);
    *at = moyai_ref_ref(by);
}

void drain_cut(moyai_node *n, size_t cut, const char *what, size_t cut_off, const char *who) {
    for (size_t i = 0; i < LEAVE_ASKERS && n->drain.asker[i]; i++) /* one that has gone meanwhile need not know */
        (void)call_oneway_locked(n->drain.asker[i], "cut", MOYAI_ARGS(cut, what, cut_off, who));
}

static void tell_unheard(moyai_node *n, size_t unheard, const char *who) {
    for (size_t i = 0; i < LEAVE_ASKERS && n->drain.asker[i]; i++)
        (void)call_oneway_locked(n->drain.asker[i], "unheard", MOYAI_ARGS(unheard, who));
}

bool drain_waits(moyai_node *n) {
    return n->drain.begun && !n->drain.late && !is_done(n);
}

static const moyai_request *oldest_wanted(const moyai_request *first) {
    const moyai_request *found = NULL;
    for (const moyai_request *rq = first; rq; rq = rq->peer_next) /* new ones go to the front */
        if (rq->wanted) found = rq;
    return found;
}

static bool look_wanted(struct peer *p, void *ctx) {
    const moyai_request **found = ctx;
    const struct peer_calls *pc = peer_calls(p, false);
    *found = pc ? oldest_wanted(pc->served) : NULL;
    return !*found;
}

/* One that somebody waits for; NULL: none. */
static const moyai_request *wanted(const moyai_node *n) {
    const moyai_request *found = oldest_wanted(n->all_local);
    if (!found) overlay_each_peer(n->o, look_wanted, &found);
    return found;
}

/* What is cut short; how much: what methods here wait for is part of them. */
static size_t describe(const moyai_node *n, char *out, size_t cap) {
    size_t at = 0;
    const struct {
        size_t n;
        const char *one, *many;
    } what[] = {
        {n->wanted, "call in progress here", "calls in progress here"},
        {n->drain.moves + n->drain.asked, "object that has not quite moved", "objects that have not quite moved"},
        {host_arrivals(n), "object that has not quite moved here", "objects that have not quite moved here"},
        {n->drain.hooks, "on_leave that has not returned", "on_leave that have not returned"},
        {n->calls_kept, "one-way call or signal that has not reached its object",
         "one-way calls and signals that have not reached their objects"},
        {(size_t)n->calls_inside, "call of a method here that has not been answered",
         "calls of methods here that have not been answered"}};
    out[0] = 0;
    for (size_t i = 0; i < sizeof what / sizeof what[0] && at < cap; i++)
        if (what[i].n > 0)
            at += (size_t)snprintf(out + at, cap - at, "%s%zu %s", at ? ", " : "", what[i].n,
                                   what[i].n == 1 ? what[i].one : what[i].many);
    if (at == 0) snprintf(out, cap, "what was sent and its addressee has not taken");
    const size_t all = n->wanted + n->drain.moves + n->drain.asked + host_arrivals(n) + n->drain.hooks + n->calls_kept;
    return all ? all : n->calls_inside ? (size_t)n->calls_inside : 1;
}

static void depart_now(void *arg) {
    moyai_node *n = arg;
    names_fail(n);
    overlay_farewell(n->o);
}

/* The program does not end the node in time: it computes, or waits for what will not come. The grid goes on without
 * it, and whatever it waits for there fails. */
static void depart(moyai_node *n) {
    if (n->leaving || n->drain.freeing) return; /* it does */
    n->leaving = n->drain.gone = true;
    if (!overlay_withdraw(n->o, depart_now, n)) depart_now(n);
}

/* Those who have no other way, or may have none, and those who have not finished behind it. */
static void late_for_others(moyai_node *n, bool said) {
    char who[CUT_OFF_TEXT];
    size_t all = drain_cut_off(n, who, sizeof who);
    if (all > 0) {
        log_error(
            n->log, "object", "MOYAI-LEAVE-CUT",
            "this node leaves now, as its time (%s) is over: %zu node%s cut off from the grid, and all behind: %s",
            DUR(n->drain.patience), all, all == 1 ? " is" : "s are", who);
        drain_cut(n, 0, "", all, who);
        said = true;
    }
    all = name_some(n, overlay_behind, who, sizeof who);
    if (all > 0) {
        log_error(
            n->log, "object", "MOYAI-LEAVE-CUT",
            "this node leaves now, as its time (%s) is over: %zu node%s leave%s, too, and ha%s not finished, %s cut "
            "off from the grid: %s",
            DUR(n->drain.patience), all, all == 1 ? "" : "s", all == 1 ? "s" : "", all == 1 ? "s" : "ve",
            all == 1 ? "is" : "are", who);
        drain_cut(n, 0, "", all, who);
        said = true;
    }
    all = name_some(n, overlay_unanswered, who, sizeof who);
    if (all > 0) tell_unheard(n, all, who);
    if (all > 0 && !said)
        log_error(n->log, "object", "MOYAI-LEAVE-CUT",
                  "this node leaves now, as its time (%s) is over: its neighbours have not said whether they are "
                  "connected without it: %s",
                  DUR(n->drain.patience), who);
}

static void is_late(struct exec *x, struct exec_timer *t) {
    (void)x;
    moyai_node *n = (moyai_node *)(void *)((char *)t - offsetof(struct moyai_node, drain.timer));
    char what[200], doing[MOYAI_ERROR_TEXT] = "";
    size_t n_cut = 0;
    what[0] = 0;
    if (is_done(n)) {
        log_error(n->log, "object", "MOYAI-LEAVE-CUT",
                  "this node leaves now: its time (%s) is over, and its program has not ended it",
                  DUR(n->drain.patience));
    } else if (!is_quiet(n)) {
        n_cut = describe(n, what, sizeof what);
        const moyai_request *rq = wanted(n);
        if (rq) request_describe(rq, doing, sizeof doing);
        log_error(n->log, "object", "MOYAI-LEAVE-CUT",
                  "this node leaves now, and its time (%s) is over: cut short: %s%s%s", DUR(n->drain.patience), what,
                  doing[0] ? ": " : "", doing);
    }
    if (n_cut > 0) drain_cut(n, n_cut, what, 0, "");
    late_for_others(n, n_cut > 0);
    n->drain.late = true; /* nothing is taken any more */
    move_late(n);
    serve_turn_away(n);
    over(n);
    depart(n);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void watch(moyai_node *n) {
    if (n->drain.looks) return;
    n->drain.looks = true;
    n->drain.hook.fn = look;
    exec_hook_add(n->x, &n->drain.hook);
}

void drain_begin(moyai_node *n, moyai_dur patience) {
    struct object *ob, *tmp;
    const moyai_ns now = moyai_now();
    const moyai_ns until = patience >= MOYAI_FOREVER - (moyai_dur)now ? UINT64_MAX : now + (moyai_ns)patience;
    if (n->ending || n->drain.late || (n->drain.until && until >= n->drain.until)) return;
    if (!n->drain.since) n->drain.since = now;
    n->drain.patience = until == UINT64_MAX ? patience : (moyai_dur)(until - n->drain.since);
    n->drain.until = until;
    if (n->drain.told) {
        overlay_leaves(n->o);
        watch(n);
        exec_attention(n->x);
        n->drain.told(until, n->drain.told_arg);
        return;
    }
    exec_timer_clear(n->x, &n->drain.timer);
    if (until != UINT64_MAX) exec_timer_set(n->x, &n->drain.timer, until);
    if (n->drain.begun) return;
    log_info(n->log, "object", "MOYAI-LEAVE", "this node leaves: %zu calls are in progress here, and %llu from here",
             n->wanted, (unsigned long long)n->calls_open);
    EVENT(n->events, node_id(n), "node-leave", event_int("calls-in-progress", (int64_t)n->wanted),
          event_int("calls-open", (int64_t)n->calls_open));
    atomic_store(&n->drain.begun, true);
    overlay_leaves(n->o);
    watch(n);
    futures_hurry(n);
    tell_all(n);
    HASH_ITER (hh, n->objects, ob, tmp) drain_object(ob);
    exec_attention(n->x);
}

#define SAY_LEAST (500 * MOYAI_MS) /* to refuse what has not begun, and close its links; */
#define SAY_MOST  (2 * MOYAI_SEC)  /* that takes no longer */

moyai_dur drain_before(moyai_dur killed_after) {
    moyai_dur rest = killed_after / 10;
    if (rest < SAY_LEAST) rest = SAY_LEAST;
    if (rest > SAY_MOST) rest = SAY_MOST;
    if (rest > killed_after / 2) rest = killed_after / 2;
    return killed_after == MOYAI_FOREVER ? killed_after : killed_after - rest;
}

void drain_init(moyai_node *n) {
    exec_timer_init(&n->drain.timer, is_late);
}

void drain_done(moyai_node *n) {
    exec_timer_clear(n->x, &n->drain.timer);
    if (n->drain.looks) exec_hook_remove(n->x, &n->drain.hook);
    for (size_t i = 0; i < LEAVE_ASKERS; i++) moyai_ref_unref(n->drain.asker[i]);
    takers_done(n);
    free(n->drain.dependant);
    n->drain.dependant = NULL;
    n->drain.n_told = 0;
}

bool moyai_leaving(const moyai_node *n) {
    return !n || atomic_load(&n->drain.begun);
}

int moyai_leave(moyai_node *n, moyai_dur patience) {
    if (!n) return MOYAI_EINVAL;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    if (patience < 0)
        return api_refuse(n, MOYAI_EINVAL,
                          "moyai_leave: a time is not negative; 0 stands for MOYAI_LEAVE_DEADLINE, and 1 is at once");
    exec_lock(n->x);
    drain_begin(n, patience > 0 ? patience : n->config.leave_deadline);
    exec_unlock(n->x);
    return 0;
}
