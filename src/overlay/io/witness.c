/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The witness: who runs the processes of a grid holds a pidfd of each that says hello, and tells all linked nodes when
 * one has ended without a farewell.
 *
 * A record outlives the links to its node: the system closes a dying process's sockets before the process counts as
 * ended, so the link's end always comes first. It does not outlive a farewell. When the process has ended the record
 * still waits LAST_WORDS, for two things that may be in the same poll but come after the end: the farewell, which may
 * lie unread in the link's socket, and the parent's knowledge of what it died of (overlay_process_ended). If the parent
 * has spoken and no link is up, there is nothing to wait for.
 */
#include "base/err.h"
#include "overlay/io/internal.h"
#include "overlay/io/mourn.h"
#include "overlay/io/rejoin.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAST_WORDS (1 * MOYAI_MS)

struct witness {
    UT_hash_handle hh;
    struct overlay *o;
    uint8_t id[16];
    pid_t pid;
    struct exec_witness *end; /* NULL: it had ended when we looked */
    struct exec_timer timer;
    bool ended;
    char cause[128];
};

static void forget(struct witness *w) {
    HASH_DEL(w->o->witnesses, w);
    struct peer *p = overlay_find(w->o, w->id);
    if (p) peer_mark(p); /* it was kept for its name */
    exec_timer_clear(w->o->x, &w->timer);
    exec_witness_free(w->end);
    free(w);
}

static void tell(struct overlay *o, const uint8_t node[16], const char *text) {
    for (struct olink *k = o->links; k; k = k->next)
        if (k->up && !(o->mourn && k->mesh) && !id_equal(k->peer->id, node)) /* those of the mesh: mourn_witnessed */
            rejoin_tell(k, node, text);
}

void overlay_declare_dead(struct overlay *o, const uint8_t node[16], const char *cause) {
    struct peer *p = overlay_peer(o, node);
    if (p && p->dead && p->why_code != MOYAI_EDEAD) return; /* it has left */
    if (!p) {
        tell(o, node, cause);
        return;
    }
    char text[MOYAI_ERROR_TEXT];
    peer_died_text(p, cause, text);
    peer_declare(p, MOYAI_EDEAD, text); /* it may be known from a refused connection, but not to the others */
    if (o->mourn) mourn_witnessed(o, node);
    tell(o, node, text);
}

static void declare(struct witness *w) {
    uint8_t id[16];
    char cause[sizeof w->cause];
    memcpy(id, w->id, 16);
    memcpy(cause, w->cause, sizeof cause);
    struct overlay *o = w->o;
    forget(w);
    overlay_declare_dead(o, id, cause[0] ? cause : "its process has ended");
}

static bool linked(const struct witness *w) {
    const struct peer *p = overlay_find(w->o, w->id);
    return p && olink_ready(p);
}

static void on_timer(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct witness *w = (struct witness *)((char *)t - offsetof(struct witness, timer));
    const struct peer *p = overlay_find(w->o, w->id);
    for (const struct olink *k = p ? p->links : NULL; k; k = k->peer_next)
        if (k->farewell) {
            forget(w);
            return;
        }
    declare(w);
}

static void ended(struct witness *w, const char *cause) {
    if (cause) snprintf(w->cause, sizeof w->cause, "%s", cause);
    if (cause && !linked(w)) {
        declare(w);
        return;
    }
    if (!w->ended) exec_timer_set(w->o->x, &w->timer, moyai_now() + (moyai_ns)LAST_WORDS);
    w->ended = true;
}

static void on_end(void *arg) {
    ended(arg, NULL);
}

static struct witness *find(const struct overlay *o, const uint8_t id[16]) {
    struct witness *w;
    HASH_FIND(hh, o->witnesses, id, 16, w);
    return w;
}

bool witness_watches(const struct overlay *o, const uint8_t id[16]) {
    return find(o, id);
}

void witness_hello(struct olink *k) {
    struct overlay *o = k->o;
    if (!o->witness || k->pid <= 0 || find(o, k->peer->id)) return;
    struct moyai_error why = {0};
    struct witness *w = calloc(1, sizeof *w);
    struct exec_witness *end = w ? exec_witness_new(o->x, k->pid, on_end, w, &why) : NULL;
    if (w && (end || why.code == MOYAI_EDEAD)) {
        memcpy(w->id, k->peer->id, 16);
        HASH_ADD(hh, o->witnesses, id, 16, w);
    }
    if (!w || !w->hh.tbl) {
        /* Its end will be found by whoever next wants to connect to it. */
        log_warning(o->cfg.log, "overlay", "MOYAI-WITNESS", "cannot watch process %ld: %s", (long)k->pid,
                    w && why.code ? why.text : "out of memory");
        exec_witness_free(end);
        free(w);
        return;
    }
    w->o = o;
    w->pid = k->pid;
    w->end = end;
    exec_timer_init(&w->timer, on_timer);
    if (!end) ended(w, NULL);
}

void witness_link_down(struct overlay *o, const uint8_t id[16], bool farewell) {
    struct witness *w = find(o, id);
    if (!w) return;
    if (farewell)
        forget(w);
    else if (w->ended && w->cause[0] && !linked(w))
        declare(w);
}

/* No loop will tell us of those any more. */
void overlay_obituary(struct overlay *o, const char *cause) {
    if (o->closing) return;
    for (struct witness *w = o->witnesses, *next; w; w = next) {
        next = w->hh.next;
        if (w->pid != getpid() && kill(w->pid, 0) < 0 && errno == ESRCH) declare(w);
    }
    char who[PEER_NAME], text[MOYAI_ERROR_TEXT];
    overlay_self_name(o, who);
    snprintf(text, sizeof text, "%s has died: %s", who, cause);
    for (struct olink *k = o->links; k; k = k->next)
        if (k->up) rejoin_tell(k, o->cfg.self.b, text);
}

void witness_done(struct overlay *o) {
    while (o->witnesses) forget(o->witnesses);
}

bool overlay_process_ended(struct overlay *o, pid_t pid, const char *cause) {
    bool found = false;
    for (struct witness *w = o->witnesses, *next; w; w = next) { /* a process may have several nodes */
        next = w->hh.next;
        if (w->pid != pid) continue;
        found = true;
        ended(w, cause);
    }
    return found;
}

void overlay_set_witness(struct overlay *o, bool on) {
    o->witness = on;
    for (struct olink *k = o->links; on && k; k = k->next)
        if (k->up) witness_hello(k);
}
