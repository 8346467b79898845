/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever looks at a node that does nothing wants to know that it has lost the grid. Others that leave in order leave
 * it alone as well, which is as it should be; and links that are made anew within some seconds are worth no word.
 *
 * The last link to end need not be the one that tells: a look at the grid ends in order while the links that broke
 * before it are still missing. So a loss counts for some seconds, whatever comes after it.
 *
 * Who was the last to know another one, which has died, is alone as the first node of a grid is: whoever comes finds
 * it, and there is nothing to say; as long as it can be found where the grid is met.
 */
#include "overlay/io/alone.h"

#include "base/dur.h"
#include "base/id.h"
#include "overlay/io/wide.h"
#include "overlay/peers.h"

#include <string.h>

#define ALONE_TIME  (3 * MOYAI_SEC)
#define ALONE_LOST  (15 * MOYAI_SEC) /* so long a loss counts */
#define ALONE_BACK  (5 * MOYAI_SEC)  /* so long a link stands before it counts: a full node may only try to make room */
#define ALONE_AGAIN (60 * MOYAI_SEC) /* until it is said again; doubled each time, up to the next */
#define ALONE_MOST  (3600 * MOYAI_SEC)
#define ALONE_LOOK  (45 * MOYAI_SEC) /* between looks for others, at the most: 30 s, and half of it */
#define TRIED       600u

static const char *what(const struct alone *a) {
    return a->far ? "host" : "node";
}

/* A process that has ended is no loss of the grid, as the last one of a run whose workers are ended by a signal:
 * whoever comes next finds this node. One that nobody can connect to depended on it. */
static bool nobody_else_is_known(const struct alone *a) {
    const struct peer *last = overlay_find(a->o, a->last_id);
    return last && last->dead && overlay_accepts(a->o) && peers_count(wide_peers(a->o->wide)).known == 0;
}

/* Do who comes and this node meet anywhere, as far as is known? servers: other than at a member's address, where
 * somebody is if there is an answer. */
static bool is_met(const struct alone *a, bool servers) {
    const struct met *m = a->met;
    for (size_t i = 0; i < m->n; i++)
        if (m->of[i].own || (m->of[i].code == 0 && (!servers || strstr(m->of[i].place, ":/")))) return true;
    return m->n == 0; /* but by lines of a grid file */
}

/* Where others are looked for, and what is known of that. */
static const char *tried(const struct alone *a, char out[TRIED]) {
    const struct met *m = a->met;
    (void)met_report(m, (moyai_dur)(moyai_now() - m->began), out, TRIED);
    return out;
}

static void due(struct exec *x, struct exec_timer *t) {
    struct alone *a = (struct alone *)((char *)t - offsetof(struct alone, timer));
    moyai_ns now = moyai_now();
    if (a->back) {
        a->again = 0;
        a->back = 0;
        a->unmet = false;
        log_mended(a->o->cfg.log, "overlay", "MOYAI-ALONE", "there is a link to another %s again", what(a));
        return;
    }
    if (a->again == 0 && (a->found || nobody_else_is_known(a))) {
        a->until = 0;
        a->found = is_met(a, false);
        if (a->found) return;
        a->unmet = true;
    }
    char where[TRIED];
    if (a->again == 0) {
        a->since = now - (moyai_ns)ALONE_TIME;
        a->again = ALONE_AGAIN;
        log_error(a->o->cfg.log, "overlay", "MOYAI-ALONE",
                  "no link to another %s is left; that to %s broke last. Others are looked for, again within %s each "
                  "time: %s",
                  what(a), a->last, DUR(ALONE_LOOK), tried(a, where));
    } else {
        a->again = a->again < ALONE_MOST / 2 ? 2 * a->again : ALONE_MOST;
        log_error(a->o->cfg.log, "overlay", "MOYAI-ALONE",
                  "no link to another %s for %s; others are looked for, again within %s each time: %s", what(a),
                  DUR((moyai_dur)((now - a->since) / (moyai_ns)MOYAI_SEC * (moyai_ns)MOYAI_SEC)), DUR(ALONE_LOOK),
                  tried(a, where));
    }
    exec_timer_set(x, t, now + (moyai_ns)a->again);
}

void alone_init(struct alone *a, struct overlay *o, const struct met *met) {
    a->o = o;
    a->met = met;
    exec_timer_init(&a->timer, due);
}

void alone_lost(struct alone *a, const struct olink *k) {
    if (k->observer) return;
    bool counts = a->timer.index != SIZE_MAX || moyai_now() < a->until;
    if (!a->far || !counts) a->far = alone_elsewhere(k);
    char who[PEER_NAME];
    peer_name(k->peer, who);
    memcpy(a->last_id, k->peer->id, sizeof a->last_id);
    snprintf(a->last, sizeof a->last, "%s%s%s", who, k->at[0] ? " at " : "", k->at);
    a->until = moyai_now() + (moyai_ns)ALONE_LOST;
}

/* Observers are as good as nobody; and to who has lost another host the processes of his own are no grid. */
static bool linked(const struct alone *a) {
    for (const struct olink *k = a->o->links; k; k = k->next)
        if (k->mesh && k->offered && !k->observer && (!a->far || alone_elsewhere(k))) return true;
    return false;
}

void alone_look(struct alone *a) {
    bool waits = a->timer.index != SIZE_MAX;
    if (!waits && !a->found && moyai_now() >= a->until) return;
    bool others = linked(a);
    if (others) a->found = false;
    if (a->found && !waits) {
        if (!is_met(a, false)) exec_timer_set(a->o->x, &a->timer, moyai_now() + (moyai_ns)ALONE_TIME);
        return;
    }
    if (a->unmet && !others && is_met(a, true) && nobody_else_is_known(a)) { /* as it was before */
        exec_timer_clear(a->o->x, &a->timer);
        a->again = 0;
        a->unmet = false;
        a->found = true;
        log_mended(a->o->cfg.log, "overlay", "MOYAI-ALONE",
                   "the grid can be met again, and nobody else is known there");
        return;
    }
    if (others && waits && a->again == 0) {
        exec_timer_clear(a->o->x, &a->timer);
    } else if (others && waits && !a->back) {
        a->back = moyai_now();
        exec_timer_set(a->o->x, &a->timer, a->back + (moyai_ns)ALONE_BACK);
    } else if (!others && waits && a->back) { /* not for long */
        a->back = 0;
        exec_timer_set(a->o->x, &a->timer, moyai_now() + (moyai_ns)a->again);
    } else if (!others && !waits) {
        exec_timer_set(a->o->x, &a->timer, moyai_now() + (moyai_ns)ALONE_TIME);
    }
}

void alone_close(struct alone *a) {
    exec_timer_clear(a->o->x, &a->timer);
    a->until = 0;
    a->found = a->unmet = false;
}
