/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of the peers machine: it connects where the machine says so, carries its frames, looks at the places where
 * the grid is met, and takes connections.
 *
 * A member whose address was given is asked for its id and its addresses by a link that says hello and ends; what it
 * says is taken as an entry, and the machine decides.
 */
#include "overlay/io/wide_internal.h"

#include "base/err.h"
#include "overlay/io/beat.h"
#include "overlay/io/lines.h"
#include "overlay/io/room.h"
#include "overlay/io/route.h"
#include "overlay/io/site.h"
#include "overlay/io/staying.h"
#include "overlay/locate.h"
#include "overlay/peers.h"
#include "overlay/peers_entry.h"
#include "overlay/peers_wire.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DIAL_TIME   (8 * MOYAI_SEC)
#define KEYS_SETTLE (2 * DIAL_TIME) /* handshakes with the keys of before have ended */

/* ---- frames out ------------------------------------------------------------------------------ */

static void send_frame(struct wide *w, uint64_t number, const struct peers_frame *f) {
    struct olink *k = olink_by_number(w->o, number);
    if (!k) return;
    struct frame_head h = {.type = (uint8_t)(FRAME_PEERS + f->kind),
                           .class_ = FRAME_CONTROL,
                           .hops = 1,
                           .length = (uint32_t)peers_wire_size(f)};
    uint8_t *out = link_reserve(k->link, &h);
    if (!out) {
        link_reset(k->link, MOYAI_ENOMEM, "out of memory");
        return;
    }
    peers_wire_put(out, f);
    link_flush(k->link);
    k->last |= f->kind == PEERS_OFFER && f->flags & PEERS_LAST;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Before each handshake, and at each look at the rendezvous: is the key file another one, and have keys ended? Links
 * made with a key that is not accepted any more are closed; sessions go on over those made anew. */
void wide_keys_look(struct wide *w) {
    struct overlay *o = w->o;
    struct moyai_error why = {0};
    const int changed = keyfile_refresh(w->keys, &why);
    if (changed < 0) log_error(o->cfg.log, "overlay", "MOYAI-KEY", "%s: the keys read before stay in use", why.text);
    const int64_t now = time(NULL);
    if (changed > 0 || keyring_ended(keyfile_keys(w->keys), w->keys_at, now))
        w->keys_until = exec_now(o->x) + (moyai_ns)KEYS_SETTLE;
    w->keys_at = now;
    if (exec_now(o->x) >= w->keys_until) return; /* all links are of keys that stand */
    for (struct olink *k = o->links; k; k = k->next) {
        const struct tls *tls = link_tls(k->link);
        const char *id = tls ? tls_key_id(tls) : "";
        if (!*id || k->lost || keyring_find(keyfile_keys(w->keys), id, strlen(id), now)) continue;
        k->orderly = k->lost = true;
        /* All links of a node may be ended so at once: who has not been told that this is in order, and sees them
         * break, takes the node for dead. */
        if (k->offered) send_frame(w, k->number, &(struct peers_frame){.kind = PEERS_BYE, .what = PEERS_SILENT});
        log_info(o->cfg.log, "overlay", "MOYAI-KEY", "a link is closed, since its key %s has ended or was withdrawn",
                 id);
        link_reset(k->link, MOYAI_EPERM, "its key has ended or was withdrawn"); /* goes down from the loop */
    }
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void making_free(struct making *m) {
    for (struct making **q = &m->w->making; *q; q = &(*q)->next)
        if (*q == m) {
            *q = m->next;
            break;
        }
    dial_cancel(m->dial);
    free(m);
}

static void tell(struct wide *w, enum peers_event_kind kind, const uint8_t id[16]) {
    struct peers_event ev = {.kind = kind};
    if (id) memcpy(ev.id.b, id, 16);
    wide_step(w, &ev);
}

void wide_has_answered(struct wide *w) {
    if (w->looking > 0 && --w->looking == 0) {
        w->looked = true;
        met_looked(&w->met);
    }
    if (w->looked && !w->stepping) wide_step(w, NULL);
}

/* The member that was met at that place has gone, or does not answer there; or somebody does. */
static void place_away(struct wide *w, size_t i, bool away) {
    struct peers_event ev = {.kind = PEERS_EV_AWAY};
    if (w->member[i].away == away || (away && !w->member[i].answered)) return;
    w->member[i].away = away;
    for (size_t k = 0; k < w->places.n_member; k++) ev.yes |= w->member[k].away;
    if (away || !ev.yes) (void)wide_step(w, &ev);
}

static void place_failed(struct wide *w, const char *place) {
    for (size_t i = 0; i < w->places.n_member; i++)
        if (w->places.member[i] == place) place_away(w, i, true);
}

/* A text may begin with the address: it is said once. */
static bool place_news(struct wide *w, const char *place, int code, enum met_what what, const char **text_) {
    const char *text = *text_;
    size_t len = strlen(place);
    if (strncmp(text, place, len) == 0 && strncmp(text + len, ": ", 2) == 0) *text_ = text += len + 2;
    for (size_t i = 0; i < w->places.n_member; i++)
        if (w->places.member[i] == place) return met_tell(&w->met, w->at_member + i, code, what, text);
    return true;
}

static void on_dialled(void *arg, const struct dialled *got, const struct moyai_error *why) {
    struct making *m = arg;
    struct wide *w = m->w;
    struct overlay *o = w->o;
    m->dial = NULL;
    struct olink *k = NULL;
    if (got) {
        struct peer *p = m->place ? NULL : overlay_peer(o, m->id);
        if (m->place || (p && !p->dead)) k = olink_new(o, got->fd, got->tls, p, 0);
        if (k) {
            k->outgoing = true;
            k->asked = !m->place && !m->direct;
            k->direct = m->direct;
            k->place = m->place;
            tcp_format(&got->at, k->at);
        } else {
            tls_free(got->tls);
            close(got->fd);
        }
    } else {
        char id[33] = "";
        if (!m->place) id_format(m->id, id);
        if (!m->place && !m->direct) met_dial_failed(&w->met, m->id, met_dial_what(why), why->text);
        const char *text = why->text;
        /* What somebody has typed, and that no key fits, is worth a word: once, as long as it stays so. */
        if (m->place ? place_news(w, m->place, why->code, met_dial_what(why), &text) : why->code == MOYAI_EPERM)
            log_warning(o->cfg.log, "overlay", "MOYAI-DIAL", "cannot connect to %s%.8s: %s",
                        m->place ? m->place : "node ", id, text);
        else if (!m->place)
            log_info(o->cfg.log, "overlay", "MOYAI-DIAL", "cannot connect to node %.8s: %s", id, text);
    }
    const char *place = m->place;
    const bool direct = m->direct;
    uint8_t id[16];
    memcpy(id, m->id, 16);
    making_free(m);
    if (!k && place) {
        place_failed(w, place);
        wide_has_answered(w);
    } else if (!k && !direct) {
        staying_failed(o, id);
        tell(w, PEERS_EV_FAILED, id);
    }
}

struct making *wide_making_new(struct wide *w, const char *const *places, size_t n) {
    struct making *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->w = w;
    m->dial = dial_new(w->o->x, w->tls, w->keys, places, n, DIAL_TIME, on_dialled, m);
    if (!m->dial) {
        free(m);
        return NULL;
    }
    m->next = w->making;
    w->making = m;
    return m;
}

static struct making *dial_endpoint(struct wide *w, const struct peers_endpoint *e) {
    char text[PEERS_ADDRESSES][PEERS_ADDRESS + 1];
    const char *places[PEERS_ADDRESSES];
    uint32_t n = 0;
    while (n < PEERS_ADDRESSES && peers_address_get(e, n, text[n])) {
        places[n] = text[n];
        n++;
    }
    wide_keys_look(w);
    struct making *m = wide_making_new(w, places, n);
    if (m) memcpy(m->id, e->id.b, 16);
    return m;
}

/* Within a step: failures are told after it. */
static void connect_to(struct wide *w, const struct peers_endpoint *e) {
    struct overlay *o = w->o;
    struct peer *p = overlay_peer(o, e->id.b);
    if (p && !p->dead && rundir_has(o->dir, &e->id)) { /* of this host */
        int fd;
        pid_t pid = 0;
        if (rundir_connect(o->dir, &e->id, &fd, &pid, NULL) == 0) {
            struct olink *k = olink_new(o, fd, NULL, p, pid);
            if (k) {
                k->outgoing = k->asked = true;
                return;
            }
            close(fd);
        }
    }
    if (p && !p->dead && dial_endpoint(w, e)) return;
    struct making *m = calloc(1, sizeof *m);
    if (!m) return; /* the machine has a limit of its own for it */
    m->w = w;
    memcpy(m->id, e->id.b, 16);
    m->next = w->failed;
    w->failed = m;
}

static void failed_free(struct making **q) {
    struct making *m = *q;
    *q = m->next;
    free(m);
}

static void cancel(struct wide *w, const uint8_t id[16]) {
    for (struct making *m = w->making; m; m = m->next)
        if (!m->place && !m->direct && id_equal(m->id, id)) {
            making_free(m);
            return;
        }
    for (struct making **q = &w->failed; *q; q = &(*q)->next)
        if (id_equal((*q)->id, id)) {
            failed_free(q);
            return;
        }
    struct peer *p = overlay_find(w->o, id);
    for (struct olink *k = p ? p->links : NULL; k; k = k->peer_next)
        if (k->asked && !k->greeted) {
            k->asked = false;
            k->orderly = true;
            link_reset(k->link, MOYAI_ECANCELED, "not needed any more");
            return;
        }
}

/* ---- who is met ------------------------------------------------------------------------------ */

/* A node has said who it is where this one called, or, if `asked`, that another is not there. */
static void found(struct olink *k, const struct link_hello *h, const uint8_t asked[16]) {
    struct wide *w = k->o->wide;
    struct peers_endpoint e = {.id = h->node, .accepts = true, .reached = true, .lifetime = PEERS_ENTRY_LIFETIME};
    uint8_t text[PEERS_TEXT];
    (void)peers_address_put(text, sizeof text, &e.n_text, k->at); /* where it was found, it will be found */
    for (uint32_t i = 0; i < h->n_endpoints; i++)
        if (strcmp(h->endpoints[i], k->at) != 0) (void)peers_address_put(text, sizeof text, &e.n_text, h->endpoints[i]);
    e.text = text;
    w->met.others = true;
    struct peers_event ev = {.kind = PEERS_EV_FOUND, .endpoint = &e};
    if (asked) memcpy(ev.id.b, asked, 16);
    wide_step(w, &ev);
}

void wide_another(struct olink *k, const struct link_hello *h) {
    k->asked = k->direct = false;
    k->orderly = true;
    found(k, h, k->peer->id);
}

/* The member at a given address has said who it is. */
static void met_member(struct olink *k, const struct link_hello *h) {
    struct wide *w = k->o->wide;
    const char *well = "";
    (void)place_news(w, k->place, 0, MET_OTHER, &well);
    for (size_t i = 0; i < w->places.n_member; i++) {
        if (w->places.member[i] != k->place) continue;
        memcpy(w->member[i].id, h->node.b, 16);
        w->member[i].answered = true;
        place_away(w, i, false);
    }
    w->entries++;
    found(k, h, NULL);
}

/* Who is refused by one goes to others; who says that there are none for him, and is still refused, is left out. */
static void refused_as_full(struct wide *w, const struct olink *k) {
    const char *text = met_full_text(w->o->cfg.observer);
    if (peers_count(w->peers).mesh > 0) return;
    met_dial_failed(&w->met, k->peer->id, MET_FULL, text);
    if (k->last) met_full(&w->met, k->peer->id);
    if (k->last) log_warning(w->o->cfg.log, "overlay", "MOYAI-FULL", "the node at %s: %s", k->at, text);
}

/* Nobody else has a place for it, either; but who is refused for another reason has one. */
static void turned_away(struct wide *w, const struct olink *k) {
    w->met.turned_away += !k->observer;
    log_warning(w->o->cfg.log, "overlay", "MOYAI-FULL", "no place for one at %s that has no other link: %s",
                *k->at ? k->at : "this host", "let more nodes listen");
}

/* ---- the machine ----------------------------------------------------------------------------- */

static void effect(struct wide *w, const struct peers_effect *fx) {
    struct overlay *o = w->o;
    struct olink *k;
    switch (fx->kind) {
    case PEERS_FX_CONNECT:
        connect_to(w, &fx->endpoint);
        break;
    case PEERS_FX_CANCEL:
        cancel(w, fx->id.b);
        break;
    case PEERS_FX_SEND:
        send_frame(w, fx->link, &fx->frame);
        break;
    case PEERS_FX_USE:
        k = olink_by_number(o, fx->link);
        w->met.n_full = 0;
        if (k) met_dial_over(&w->met, k->peer->id);
        if (k) olink_used(k);
        if (k && id_equal(w->frame.e[0].id.b, k->peer->id)) staying_link_up(k, &w->frame.e[0]);
        if (k && k->line) lines_used(k->line);
        break;
    case PEERS_FX_DROP:
        k = olink_by_number(o, fx->link);
        if (!k) break;
        if (fx->what == PEERS_LEAVING && k->outgoing) /* the other may have agreed by now */
            send_frame(w, k->number, &(struct peers_frame){.kind = PEERS_BYE, .what = PEERS_LEAVING});
        k->offered = false;
        if (fx->what == PEERS_LEAVING && !k->tcp && k->up && !k->mesh) break; /* sessions use it, until the farewell */
        k->orderly = true;
        k->yielded = fx->what == PEERS_YIELDED;
        link_reset(k->link, MOYAI_ECLOSED, "given up"); /* goes down from the loop, with what could be written */
        if (fx->what == PEERS_FULL && k->outgoing && !k->mesh && !k->direct) refused_as_full(w, k);
        if (fx->what == PEERS_FULL && !k->outgoing && !k->mesh && k->last) turned_away(w, k);
        k->lost |= k->mesh && (fx->what == PEERS_SILENT || fx->what == PEERS_FULL);
        if (k->mesh && fx->what == PEERS_SILENT)
            wide_keys_look(w); /* there is a new key; other links may have the old one */
        break;
    case PEERS_FX_PROBE:
        k = olink_by_number(o, fx->link);
        if (k) beat_doubt(k);
        break;
    case PEERS_FX_LOOK:
        wide_look(w);
        break;
    }
}

static void look_alone(struct wide *w) {
    if (!w->closing) alone_look(&w->alone);
}

int wide_step(struct wide *w, struct peers_event *ev) {
    if (w->closing) return 0;
    assert(!w->stepping);
    w->stepping = true;
    bool more = true;
    int first = 0;
    while (more) {
        if (ev) {
            ev->now = exec_now(w->o->x);
            int rc = peers_step(w->peers, ev);
            if (ev != &w->later) first = rc;
            while (peers_next(w->peers, &w->fx)) effect(w, &w->fx);
        }
        struct peers_event *later = &w->later;
        *later = (struct peers_event){0};
        ev = later;
        if (w->failed) {
            later->kind = PEERS_EV_FAILED;
            memcpy(later->id.b, w->failed->id, 16);
            staying_failed(w->o, w->failed->id);
            failed_free(&w->failed);
        } else if (w->looked) {
            w->looked = false;
            later->kind = PEERS_EV_LOOKED;
            later->entries = w->entries;
        } else if (w->waits) {
            w->waits = false;
            later->kind = PEERS_EV_WAITS;
        } else {
            more = false;
        }
    }
    w->stepping = false;
    look_alone(w);
    moyai_ns when = peers_deadline(w->peers);
    if (when == UINT64_MAX)
        exec_timer_clear(w->o->x, &w->timer);
    else if (w->timer.index == SIZE_MAX || w->timer.when != when)
        exec_timer_set(w->o->x, &w->timer, when);
    return first;
}

static void on_timer(struct exec *x, struct exec_timer *t) {
    (void)x;
    tell((struct wide *)((char *)t - offsetof(struct wide, timer)), PEERS_EV_TIMEOUT, NULL);
}

/* It may be said from within anything. */
void wide_waits(struct wide *w) {
    if (w->waits || w->closing) return;
    w->waits = true;
    exec_timer_set(w->o->x, &w->timer, exec_now(w->o->x));
}

/* ---- links for sessions ---------------------------------------------------------------------- */

const struct peers_endpoint *wide_self(const struct wide *w) {
    return &w->self;
}

void wide_direct(struct wide *w, struct peer *p, const struct peers_endpoint *e) {
    if (w->closing || p->links) return;
    for (const struct making *m = w->making; m; m = m->next)
        if (!m->place && id_equal(m->id, p->id)) return;
    struct making *m = dial_endpoint(w, e);
    if (m) m->direct = true;
}

void wide_direct_end(struct olink *k) {
    struct peers_event ev = {.kind = PEERS_EV_CLOSE, .link = k->number};
    if (k->offered) wide_step(k->o->wide, &ev);
}

/* ---- links ----------------------------------------------------------------------------------- */

/* Another has connected: from afar, so others can, too; or only to meet us, as all do to whose address that is. */
static void came_in(struct olink *k, const struct link_hello *h) {
    struct wide *w = k->o->wide;
    if (w->self.accepts && !w->self.reached && listen_from_afar(k)) {
        w->self.reached = w->cfg.self.reached = true;
        tell(w, PEERS_EV_REACHED, NULL);
    }
    if (h->n_endpoints == 0) return;
    tell(w, PEERS_EV_SEEN, h->node.b);
    if (peers_count(w->peers).mesh > 0 || h->observer) return;
    /* Who has nobody learns of who looks whether somebody is here. */
    struct peers_endpoint e = {.id = h->node, .accepts = true, .lifetime = PEERS_ENTRY_LIFETIME};
    uint8_t text[PEERS_TEXT];
    for (uint32_t i = 0; i < h->n_endpoints; i++)
        (void)peers_address_put(text, sizeof text, &e.n_text, h->endpoints[i]);
    e.text = text;
    (void)wide_step(w, &(struct peers_event){.kind = PEERS_EV_ENTRY, .endpoint = &e});
}

void wide_hello(struct olink *k, const struct link_hello *h) {
    struct wide *w = k->o->wide;
    struct peers_event up = {
        .kind = PEERS_EV_UP, .link = k->number, .id = h->node, .what = PEERS_MESH, .here = !alone_elsewhere(k)};
    if (k->place) {
        met_member(k, h);
        k->place = NULL;
        k->orderly = true;
        link_reset(k->link, MOYAI_ECLOSED, "asked"); /* it has been what it was for */
        wide_has_answered(w);
    } else if (k->asked) {
        k->asked = false;
        k->offered = true;
        wide_step(w, &up);
    } else if (k->direct && !k->peer->session) { /* it has ended while the link was made */
        k->orderly = true;
        link_reset(k->link, MOYAI_ECLOSED, "not needed any more");
    } else if (k->direct) {
        k->offered = true;
        up.what = PEERS_DIRECT;
        wide_step(w, &up);
    } else if (k->line) {
        lines_hello(k->line, h->node.b);
        k->offered = k->carried = true;
        up.what = PEERS_LINE;
        wide_step(w, &up);
    } else if (!k->outgoing) {
        came_in(k, h);
    }
}

int wide_frame(struct olink *k, const struct frame_head *h, const uint8_t *payload, struct moyai_error *why) {
    struct wide *w = k->o->wide;
    struct peers_frame *f = &w->frame;
    int rc = peers_wire_get(h->type, payload, h->length, f, why);
    if (rc < 0 || w->closing) return rc;
    if (f->kind >= PEERS_OWN) return staying_frame(k, f, why);
    wide_living(k, f);
    struct peers_event ev = {
        .kind = PEERS_EV_FRAME, .link = k->number, .frame = f, .looks = k->observer, .here = !alone_elsewhere(k)};
    if (f->kind == PEERS_OFFER || f->kind == PEERS_YIELD) ev.needed = staying_needs(k->o, k->peer->id);
    if (f->kind == PEERS_YIELD && staying_only(k)) ev.needed = true;
    memcpy(ev.id.b, k->peer->id, 16);
    if (f->kind == PEERS_OFFER && !k->offered && !k->outgoing) {
        k->offered = true;
        k->carried = f->what == PEERS_LINE;
        k->direct = f->what == PEERS_DIRECT;
        k->last = f->flags & PEERS_LAST;
    }
    if (!k->offered) return 0; /* dropped: not for the machine */
    rc = wide_step(w, &ev);
    return rc == MOYAI_EPROTO ? err_set(why, rc, "peers frame of type %u breaks the protocol", h->type) : 0;
}

/* What is at the address of a member has not said who it is; or it was this node itself, which is no trouble. */
static void not_met(struct olink *k, const struct moyai_error *why) {
    struct wide *w = k->o->wide;
    const char *text = why && why->text[0] ? why->text : "it ends the connection without a word";
    for (size_t i = 0; k->orderly && i < w->places.n_member; i++)
        if (w->places.member[i] == k->place) w->met.of[w->at_member + i].own = true;
    if (k->orderly || w->closing) return;
    place_failed(w, k->place);
    if (place_news(w, k->place, why && why->code ? why->code : MOYAI_ECLOSED, met_dial_what(why), &text))
        log_warning(k->o->cfg.log, "overlay", "MOYAI-DIAL", "cannot connect to %s: %s", k->place, text);
}

void wide_link_down(struct olink *k, const struct moyai_error *why) {
    struct wide *w = k->o->wide;
    if (k->place) {
        not_met(k, why);
        k->place = NULL;
        wide_has_answered(w);
    }
    if (k->asked) {
        k->asked = false;
        tell(w, PEERS_EV_FAILED, k->peer->id);
    }
    if (k->line) {
        struct line *l = k->line;
        k->line = NULL;
        lines_down(l);
    }
    if (k->offered) {
        k->offered = false;
        struct peers_event ev = {.kind = PEERS_EV_LOST, .link = k->number};
        if (k->lost) ev.what = PEERS_SILENT;
        wide_step(w, &ev);
        lines_lost(w->o->lines, k->peer->id);
    }
    bool left = k->farewell || (k->peer && k->peer->dead && k->peer->why_code == MOYAI_ECLOSED);
    if (k->mesh && !left && (!k->orderly || k->lost)) alone_lost(&w->alone, k);
    look_alone(w);
}

void wide_need(struct wide *w, const struct peers_endpoint *e) {
    struct peers_event ev = {.kind = PEERS_EV_NEED, .endpoint = e};
    (void)wide_step(w, &ev);
}

void wide_departs(struct wide *w) {
    tell(w, PEERS_EV_DEPART, NULL);
}

void wide_leave(struct wide *w) {
    alone_close(&w->alone);
    tell(w, PEERS_EV_LEAVE, NULL);
}

void wide_died(struct wide *w, const uint8_t id[16]) {
    met_dial_over(&w->met, id);
    cancel(w, id);
    tell(w, PEERS_EV_GONE, id);
    for (size_t i = 0; i < w->places.n_member; i++)
        if (id_equal(w->member[i].id, id)) place_away(w, i, true);
}

/* ---- listening ------------------------------------------------------------------------------- */

static void on_connection(void *arg) {
    wide_keys_look(arg);
}

int wide_listen(struct overlay *o, const struct tcp_addr *at, struct moyai_error *reterr) {
    return listen_besides(&o->wide->listeners, at, reterr);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int begin(struct wide *w, struct moyai_error *reterr) {
    struct overlay *o = w->o;
    const struct overlay_cfg *c = &o->cfg;
    char *path = NULL;
    int rc = keyfile_path(&path, c->key_file, reterr);
    if (rc == 0) rc = keyfile_open(&w->keys, path, reterr);
    if (rc == MOYAI_ENOENT && path)
        err_set(reterr, rc,
                "no key file %.120s: a grid of several hosts needs the same on each: copy it from one that has it, or "
                "make the first with 'moyai key new'",
                path);
    free(path);
    if (rc == 0) rc = tls_ctx_new(&w->tls, w->keys, reterr);
    if (rc < 0) return rc;
    w->self.id = c->self;
    char site[256];
    c->site ? (void)snprintf(site, sizeof site, "%s", c->site) : site_default(site);
    w->self.site = site_hash(site);
    hello_text(o->site, sizeof o->site, site);
    w->self.text = w->text;
    w->listeners = (struct listeners){.o = o, .tls = w->tls, .before = on_connection, .arg = w};
    if (!c->outbound_only && (rc = listen_all(&w->listeners, w->text, &w->self.n_text, reterr)) < 0) return rc;
    w->self.accepts = w->self.n_text > 0;
    for (uint32_t i = 0; peers_address_get(&w->self, i, o->hello.endpoints[i]); i++) o->hello.n_endpoints = i + 1;
    struct room room;
    rc = room_of(&room, c, reterr);
    if (rc < 0) return rc;
    w->listeners.half_most = room.half;
    w->cfg = (struct peers_cfg){.self = w->self,
                                .seed = rng_next(&o->rng),
                                .degree = room.degree,
                                .most = room.most,
                                .rescue = room.rescue,
                                .text = c->small ? 32 : 0};
    size_t n = peers_size(&w->cfg);
    if (n == 0)
        return err_set(reterr, MOYAI_EINVAL, "%s: %u links are too many", config_called(c->config, CONFIG_degree),
                       c->degree);
    w->peers = calloc(1, (n + 63) / 64 * 64);
    if (!w->peers) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    rc = peers_init(w->peers, &w->cfg);
    if (rc < 0) return err_set(reterr, rc, "cannot begin to look for others: %s", moyai_strerror(rc));
    const char *urls[PLACES_MOST + 1];
    size_t n_urls = 0;
    if (w->places.file && !o->rdv) urls[n_urls++] = w->places.file;
    for (size_t i = 0; i < w->places.n_http; i++) urls[n_urls++] = w->places.http[i];
    for (size_t i = 0; i < n_urls; i++) (void)met_add(&w->met, urls[i]);
    w->at_member = w->met.n;
    for (size_t i = 0; i < w->places.n_member; i++) { /* behind a forwarded port it may not reach itself there */
        size_t at = met_add(&w->met, w->places.member[i]);
        for (uint32_t k = 0; k < o->hello.n_endpoints; k++)
            w->met.of[at].own |= strcmp(w->places.member[i], o->hello.endpoints[k]) == 0;
    }
    if (w->places.in >= 0) {
        snprintf(w->fd_place, sizeof w->fd_place, "fd:%d,%d", w->places.in, w->places.out);
        w->at_fd = met_add(&w->met, w->fd_place);
        w->met.of[w->at_fd].answered = true; /* who listens there answers to what it hears, if it hears anything */
    }
    if (n_urls > 0) rc = meet_new(&w->meet, o->x, w->keys, urls, n_urls, c->observer, &wide_meet_ops, w, reterr);
    if (rc == 0 && w->places.in >= 0)
        rc = meet_fd_new(&w->fds, o->x, w->keys, w->places.in, w->places.out, &wide_fd_ops, w, reterr);
    if (rc < 0) (void)config_blame(reterr, c->config, CONFIG_grid);
    if (rc == 0 && c->grid_file) {
        rc = lines_new(&o->lines, o, w->tls, w->keys, reterr);
        if (rc < 0) (void)config_blame(reterr, c->config, CONFIG_grid_file);
    }
    return rc;
}

int wide_new(struct overlay *o, const struct places *places, struct moyai_error *reterr) {
    struct wide *w = calloc(1, sizeof *w);
    if (!w) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    w->o = o;
    w->met.began = moyai_now();
    w->places = *places;
    exec_timer_init(&w->timer, on_timer);
    alone_init(&w->alone, o, &w->met);
    o->wide = w;
    int rc = begin(w, reterr);
    if (rc < 0) return rc; /* overlay_close ends what there is */
    tell(w, PEERS_EV_START, NULL);
    return 0;
}

const struct met *wide_met(const struct wide *w) {
    return &w->met;
}

const struct peers *wide_peers(const struct wide *w) {
    return w->peers;
}

void wide_pause(struct wide *w) {
    w->closing = true;
    while (w->making) making_free(w->making);
    while (w->failed) failed_free(&w->failed);
    exec_timer_clear(w->o->x, &w->timer);
}

/* Where it listens and where the grid is met stays as it is. */
void wide_again(struct wide *w) {
    w->self.id = w->cfg.self.id = w->o->cfg.self;
    w->cfg.seed = rng_next(&w->o->rng);
    memset(w->peers, 0, (peers_size(&w->cfg) + 63) / 64 * 64);
    w->looking = 0;
    w->looked = w->waits = false;
    w->closing = peers_init(w->peers, &w->cfg) < 0; /* not so: it has begun before */
    tell(w, PEERS_EV_START, NULL);
}

void wide_close(struct wide *w) {
    if (!w || w->closing) return;
    lines_stop(w->o->lines);
    wide_pause(w);
    alone_close(&w->alone);
    listen_close(&w->listeners);
    meet_fd_free(w->fds);
    w->fds = NULL;
    if (w->meet) meet_free(w->meet);
    w->meet = NULL;
}

/* When no link is left. */
void wide_free(struct wide *w) {
    if (!w) return;
    free(w->peers);
    places_done(&w->places);
    tls_ctx_free(w->tls);
    keyfile_close(w->keys);
    free(w);
}
