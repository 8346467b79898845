/* SPDX-License-Identifier: Apache-2.0 */
/* What the dead have left in the rendezvous directory, and in the run directory, is removed. */
#include "base/err.h"
#include "overlay/io/internal.h"
#include "overlay/io/wide.h"
#include "overlay/peers.h"

#include <stdlib.h>
#include <string.h>

/* One after another and in parts: there may be many names to look at. */
struct forget {
    struct forget *next;
    struct moyai_node_id id;
    struct rdv_forget *rdv; /* NULL: not begun */
};

/* Work on the first one. */
static void forget_step(struct overlay *o, moyai_dur most) {
    struct forget *f = o->forgets;
    struct moyai_error why = {0};
    int rc = f->rdv ? 1 : rdv_forget_begin(o->rdv, &f->id, &f->rdv, &why);
    if (rc > 0) rc = rdv_forget_some(f->rdv, most, &why);
    if (rc > 0) return;
    if (rc < 0) log_warning(o->cfg.log, "overlay", "MOYAI-RDV-FORGET", "%s", why.text);
    o->forgets = f->next;
    if (!o->forgets) o->forgets_last = NULL;
    rdv_forget_end(f->rdv);
    free(f);
}

static void forget_some(struct overlay *o);
static void sweep_sockets(struct overlay *o);

static void forget_due(struct exec *x, struct exec_timer *t) {
    struct overlay *o = (struct overlay *)((char *)t - offsetof(struct overlay, forget_timer));
    if (o->forget_look) {
        o->forget_look = false;
        if (o->rdv)
            forget_some(o);
        else
            sweep_sockets(o);
    } else {
        forget_step(o, FORGET_HOLD);
    }
    if (o->forgets) exec_timer_set(x, t, moyai_now()); /* in the next turn of the loop */
}

void forget_node(struct overlay *o, const uint8_t node[16]) {
    struct forget *f = calloc(1, sizeof *f);
    if (!f) {
        log_warning(o->cfg.log, "overlay", "MOYAI-RDV-FORGET", "out of memory for removing a dead node's entries");
        return;
    }
    memcpy(f->id.b, node, 16);
    rundir_unlink(o->dir, &f->id);
    if (o->forgets_last) {
        o->forgets_last->next = f;
        o->forgets_last = f;
        return;
    }
    o->forgets = o->forgets_last = f;
    forget_step(o, FORGET_HOLD); /* as a rule that is all */
    if (o->forgets) exec_timer_set(o->x, &o->forget_timer, moyai_now());
}

/*
 * Processes that were killed while nobody was linked to them have left their entries. Who joins looks at some after a
 * while, which are others each time, and removes those of the dead: the directory does not grow for ever, and a
 * thousand that join at once do not look at a thousand each. In a grid that is met elsewhere there are no entries, and
 * it is the sockets alone, of the run directory, that are looked at.
 */
struct sweep {
    struct overlay *o;
    size_t n, skip;
    size_t n_dead;
    struct moyai_node_id dead[SWEEP_MOST];
};

static bool sweep_count(const struct moyai_node_id *id, void *ctx) {
    (void)id;
    ((struct sweep *)ctx)->n++;
    return true;
}

/* A socket that is there and refuses: one that is not there may have been removed by a cleaner of old files. */
static bool sweep_one(const struct moyai_node_id *id, void *ctx) {
    struct sweep *s = ctx;
    struct overlay *o = s->o;
    if (s->skip > 0) {
        s->skip--;
        return true;
    }
    struct rdv_node e;
    if (!id_equal(id->b, o->cfg.self.b) && rdv_get_node(o->rdv, id, &e, NULL) == 0) {
        if (!id_equal(e.host, o->hello.host))
            directory_note(o, &e);
        else if (rundir_has(o->dir, id) && rundir_is_dead(o->dir, id))
            s->dead[s->n_dead++] = *id;
    }
    return ++s->n < SWEEP_MOST;
}

static void forget_some(struct overlay *o) {
    struct sweep s = {.o = o};
    if (rdv_node_ids(o->rdv, sweep_count, &s, NULL) < 0 || s.n < 2) return;
    s.skip = s.n > SWEEP_MOST ? (size_t)rng_below(&o->rng, s.n - SWEEP_MOST + 1) : 0;
    s.n = 0;
    if (rdv_node_ids(o->rdv, sweep_one, &s, NULL) < 0) return;
    for (size_t i = 0; i < s.n_dead; i++) forget_node(o, s.dead[i].b);
}

static void sweep_sockets(struct overlay *o) {
    struct moyai_error why = {0};
    if (rundir_sweep(o->dir, SWEEP_MOST, id_lo(o->cfg.self.b), &why) < 0)
        log_info(o->cfg.log, "overlay", "MOYAI-RUNDIR-SWEEP", "%s", why.text);
}

void forget_joined(struct overlay *o) {
    o->forget_look = true;
    exec_timer_set(o->x, &o->forget_timer, moyai_now() + (moyai_ns)SWEEP_AFTER);
}

void forget_init(struct overlay *o) {
    exec_timer_init(&o->forget_timer, forget_due);
}

void forget_close(struct overlay *o) {
    exec_timer_clear(o->x, &o->forget_timer);
    /* As far as that can be done soon; who joins next does the rest. */
    for (moyai_ns end = moyai_now() + (moyai_ns)FORGET_LAST; o->forgets && moyai_now() < end;)
        forget_step(o, FORGET_HOLD);
    while (o->forgets) {
        struct forget *f = o->forgets;
        o->forgets = f->next;
        if (f->rdv) rdv_forget_end(f->rdv);
        free(f);
    }
    o->forgets_last = NULL;
}

/* Others that have not heard of it pass on where it was; ages in such frames are its own, so it would be taken for
 * alive once more. */
void wide_living(const struct olink *k, struct peers_frame *f) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct peer *p = overlay_find(k->o, f->e[i].id.b);
        if (!p || !p->dead || p == k->peer) f->e[n++] = f->e[i];
    }
    f->n = n;
}
