/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at the places where the grid is met, and what they say. An entry (peers_entry.h) is made anew at each look,
 * so that who finds it knows how old it is: clocks that differ by less than its lifetime do no harm.
 */
#include "overlay/io/wide_internal.h"

#include "base/err.h"
#include "overlay/peers_entry.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

_Static_assert(PEERS_ENTRY_MAX <= MEET_FD_ENTRY_MAX, "an entry is said in one line");

/* A clock that is set back a little makes no entry that is older than the last one: servers would refuse it. */
static size_t entry_put(struct wide *w, uint8_t *out) {
    int64_t now = (int64_t)time(NULL);
    if (now > w->made || w->made - now > PEERS_ENTRY_SKEW) w->made = now;
    struct peers_entry e = {.made = w->made, .e = w->self};
    e.e.lifetime = PEERS_ENTRY_LIFETIME;
    return peers_entry_put(out, &e);
}

/* What somebody has left: unsealed, so a member's. */
static void on_entry(void *ctx, const uint8_t *p, size_t n) {
    struct wide *w = ctx;
    struct peers_entry of;
    if (peers_entry_get(p, n, &of) < 0) return; /* of a later version */
    struct peers_endpoint *e = &of.e;
    int64_t left = peers_entry_left(&of, (int64_t)time(NULL));
    char text[MET_TEXT];
    if (left < 0 && met_ahead(&w->met, -left))
        log_warning(w->o->cfg.log, "overlay", "MOYAI-RENDEZVOUS", "%s", met_ahead_text(&w->met, text));
    if (left == 0) met_over(&w->met, peers_entry_over(&of, (int64_t)time(NULL)) + 1);
    if (left <= 0) return;
    e->lifetime = (uint32_t)left;
    if (id_equal(e->id.b, w->o->cfg.self.b) || e->n_text == 0) return;
    struct peer *known = overlay_find(w->o, e->id.b);
    if (known && known->dead) return;
    w->entries++;
    w->met.others = true;
    struct peers_event ev = {.kind = PEERS_EV_ENTRY, .endpoint = e};
    wide_step(w, &ev);
}

/* What stays as it is need not be said each time. */
static void on_asked(void *ctx, size_t place, const char *url, int code, enum met_what what, const char *text) {
    struct wide *w = ctx;
    if (!met_tell(&w->met, place, code, what, text)) return;
    if (code < 0)
        log_warning(w->o->cfg.log, "overlay", "MOYAI-RENDEZVOUS", "%s: %s", url, text);
    else
        log_info(w->o->cfg.log, "overlay", "MOYAI-RENDEZVOUS", "%s answers", url);
}

static void on_foreign(void *ctx, size_t place, const char *url, size_t n) {
    struct wide *w = ctx;
    char text[MET_TEXT];
    if (!met_foreign(&w->met, place, n)) return;
    met_foreign_text(n, text);
    log_warning(w->o->cfg.log, "overlay", "MOYAI-RENDEZVOUS", "%s: %s", url, text);
}

static void on_done(void *ctx) {
    wide_has_answered(ctx);
}

/* Also if nobody can connect to us: then somebody answers. */
static size_t own_entry(void *ctx, uint8_t *out) {
    return entry_put(ctx, out);
}

static void on_fd_trouble(void *ctx, int code, const char *text) {
    struct wide *w = ctx;
    if (code == MOYAI_EPERM)
        (void)met_foreign(&w->met, w->at_fd, 1);
    else
        (void)met_tell(&w->met, w->at_fd, code, MET_OTHER, text);
    log_warning(w->o->cfg.log, "overlay", "MOYAI-RENDEZVOUS", "%s: %s", w->fd_place, text);
}

const struct meet_fd_ops wide_fd_ops = {.entry = on_entry, .own = own_entry, .trouble = on_fd_trouble};
const struct meet_ops wide_meet_ops = {.entry = on_entry, .asked = on_asked, .foreign = on_foreign, .done = on_done};

/* Within a step: what is told at once is told after it. */
void wide_look(struct wide *w) {
    struct moyai_error why = {0};
    wide_keys_look(w);
    log_left_out(w->o->cfg.log);
    if (w->met.dial[0] && !peers_knows(w->peers, w->met.dial_id)) met_dial_over(&w->met, w->met.dial_id);
    w->looking = 1; /* this function */
    w->entries = 0;
    if (w->meet) {
        uint8_t entry[MEET_ENTRY_MAX];
        size_t n = w->self.n_text > 0 ? entry_put(w, entry) : 0;
        int rc = meet_entry(w->meet, w->o->cfg.self.b, entry, n, (moyai_dur)PEERS_ENTRY_LIFETIME * MOYAI_SEC);
        if (rc == 0) rc = meet_look(w->meet, &why);
        if (rc == 0) w->looking++;
        for (size_t i = 0; i < w->at_member && rc < 0; i++)
            on_asked(w, i, w->met.of[i].place, rc, MET_OTHER, why.code ? why.text : moyai_strerror(rc));
    }
    if (w->fds) meet_fd_look(w->fds);
    for (size_t i = 0; i < w->places.n_member; i++) {
        const char *place = w->places.member[i];
        struct making *m = wide_making_new(w, &place, 1);
        if (!m) continue;
        m->place = place;
        w->looking++;
    }
    wide_has_answered(w);
}
