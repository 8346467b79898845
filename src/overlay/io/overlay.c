/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overlay's driver, upper half: the node's socket, links and their hellos, pings, evidence of death.
 * peer.c has the sessions that run over the links.
 *
 * A link is made when something is to be sent. Evidence of death on one host is exact and quick: when a link
 * ends without farewell, the next connection attempt is refused, because the kernel closed the listening
 * socket with the process. A witness (the parent that runs the processes) does not even need that: it
 * holds a pidfd of each process that said hello, and tells all nodes linked to it.
 */
#include "overlay/io/beat.h"
#include "overlay/io/buffers.h"
#include "overlay/io/depart.h"
#include "overlay/io/mourn.h"
#include "overlay/io/rejoin.h"
#include "overlay/io/route.h"
#include "overlay/io/staying.h"
#include "overlay/io/wide.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct link_ops olink_ops;

/* ---- links ----------------------------------------------------------------------------------- */

static void not_half(struct olink *k) {
    if (!k->half) return;
    k->half = false;
    k->o->n_half_open--;
    k->o->n_half_tcp -= k->tcp;
    crowd_remove(&k->o->half[k->claims], &k->stranger);
}

static void olink_unlink(struct olink *k) {
    if (k->o->hot == k) {
        k->o->hot = NULL;
        exec_spin(k->o->x, NULL, NULL);
    }
    if (k->prev)
        k->prev->next = k->next;
    else
        k->o->links = k->next;
    if (k->next) k->next->prev = k->prev;
    HASH_DEL(k->o->by_number, k);
    if (k->mesh) {
        k->mesh = false;
        mourn_link_down(k);
        route_link_down(k);
    }
    depart_link_down(k);
    staying_link_down(k);
    k->o->n_links--;
    not_half(k);
    exec_timer_clear(k->o->x, &k->hello_timer);
    exec_timer_clear(k->o->x, &k->probe_timer);
    if (!k->peer) return;
    for (struct olink **q = &k->peer->links; *q; q = &(*q)->peer_next)
        if (*q == k) {
            *q = k->peer_next;
            break;
        }
    pings_link_down(k->peer, k);
}

void olink_close(struct olink *k) {
    olink_unlink(k);
    link_free(k->link);
    free(k->emptied);
    free(k);
}

/* Whose link it is, as far as that is known: "node 0123abcd (worker, pid 4711) at 10.0.0.1:7471". */
#define LINK_NAME (PEER_NAME + TCP_TEXT + 16)
static void olink_name(const struct olink *k, char out[LINK_NAME]) {
    char who[PEER_NAME] = "somebody";
    if (k->peer)
        peer_name(k->peer, who);
    else if (k->place)
        snprintf(who, sizeof who, "a member");
    else if (k->pid > 0)
        snprintf(who, sizeof who, "process %ld", (long)k->pid);
    snprintf(out, LINK_NAME, "%s%s%s", who, k->at[0] ? " at " : "", k->at);
}

static void say_down(struct olink *k, const char *why) {
    char id[33];
    id_format(k->peer->id, id);
    EVENT(k->o->cfg.events, &k->o->cfg.self, "link-down", event_text("peer", id), event_text("why", why),
          event_int("farewell", k->farewell));
    log_debug(k->o->cfg.log, "overlay", "MOYAI-LINK-DOWN", "no link to node %.8s (\"%s\") any more%s%s", id,
              k->peer->title, *why ? ": " : "", why);
}

void olink_end(struct olink *k) {
    struct peer *p = k->peer;
    if (k->up) say_down(k, "");
    if (k->o->wide) wide_link_down(k, NULL);
    olink_close(k);
    if (p) peer_mark(p);
}

static void hello_late(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct olink *k = (struct olink *)((char *)t - offsetof(struct olink, hello_timer));
    link_reset(k->link, MOYAI_ETIMEDOUT,
               k->greeted ? "it was not offered within 5 s" : "it accepts the connection, and says nothing for 5 s");
}

struct olink *olink_new(struct overlay *o, int fd, struct tls *tls, struct peer *p, pid_t pid) {
    struct olink *k = calloc(1, sizeof *k);
    if (!k) return NULL;
    k->o = o;
    k->peer = p;
    k->outgoing = p != NULL;
    k->pid = pid;
    k->tcp = tls != NULL;
    k->half = true;
    k->slot = -1;
    k->number = ++o->last_number;
    exec_timer_init(&k->hello_timer, hello_late);
    exec_timer_init(&k->probe_timer, beat_late);
    uint8_t hello[HELLO_MAX];
    int n = hello_encode(&o->hello, hello, NULL);
    HASH_ADD(hh, o->by_number, number, sizeof k->number, k);
    if (!k->hh.tbl) n = -1;
    k->link = n < 0 ? NULL : link_new(o->x, fd, tls, &olink_ops, k);
    if (!k->link) {
        if (k->hh.tbl) HASH_DEL(o->by_number, k);
        free(k);
        return NULL;
    }
    if (o->cfg.link_delay || o->cfg.link_rate) link_shape(k->link, o->cfg.link_delay, o->cfg.link_rate);
    k->next = o->links;
    if (k->next) k->next->prev = k;
    o->links = k;
    o->n_links++;
    o->n_half_open++;
    o->n_half_tcp += k->tcp;
    if (p) {
        k->peer_next = p->links;
        p->links = k;
    }
    struct frame_head h = {.type = FRAME_HELLO, .class_ = FRAME_CONTROL, .hops = 1, .length = (uint32_t)n};
    struct link_piece piece = {hello, (size_t)n};
    if (link_send(k->link, &h, &piece, 1) < 0) {
        olink_close(k);
        return NULL;
    }
    link_flush(k->link);
    exec_timer_set(o->x, &k->hello_timer, moyai_now() + HELLO_TIME);
    return k;
}

int olink_connect(struct peer *p) {
    struct overlay *o = p->o;
    if (o->closing) return MOYAI_ECLOSED;
    if (!o->dir) return MOYAI_EUNREACHABLE;
    int fd;
    pid_t pid = 0;
    struct moyai_node_id id;
    memcpy(id.b, p->id, 16);
    struct moyai_error why = {0};
    int rc = rundir_connect(o->dir, &id, &fd, &pid, &why);
    if (rc < 0) return rc;
    if (!olink_new(o, fd, NULL, p, pid)) {
        close(fd);
        return MOYAI_ENOMEM;
    }
    return 0;
}

struct olink *olink_by_number(struct overlay *o, uint64_t number) {
    struct olink *k;
    HASH_FIND(hh, o->by_number, &number, sizeof number, k);
    return k;
}

struct olink *olink_ready(const struct peer *p) {
    for (struct olink *k = p->links; k; k = k->peer_next)
        if (k->up && !k->parted) return k;
    return NULL;
}

bool olink_coming(const struct peer *p) {
    for (const struct olink *k = p->links; k; k = k->peer_next)
        if (!k->up) return true;
    return false;
}

static void on_accept_later(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct overlay *o = (struct overlay *)((char *)t - offsetof(struct overlay, accept_timer));
    if (o->listen_fd) exec_fd_events(o->listen_fd, UV_READABLE);
}

void overlay_accept(struct exec_fd *f, int events, void *arg) {
    (void)events;
    struct overlay *o = arg;
    if (o->closing) return;
    for (int i = 0; i < 64; i++) { /* then other links get their turn; the rest stays readable */
        int fd;
        uid_t uid;
        pid_t pid = 0;
        struct moyai_error why = {0};
        /* Half-open links have 5 s; the kernel's queue holds the others. */
        int rc = o->n_half_open >= HALF_OPEN_MOST ? MOYAI_ELIMIT : rundir_accept(o->listener, &fd, &uid, &pid, &why);
        if (rc == MOYAI_EAGAIN) {
            o->accept_wait = 0;
            return;
        }
        if (rc == MOYAI_EPERM) {
            log_warning(o->cfg.log, "link", "MOYAI-LINK-REFUSED", "%s", why.text);
            continue;
        }
        if (rc < 0) {
            /* Said once, until it goes on; the connections wait, so there is no use in looking often. */
            if (why.code && !o->accept_wait) log_error(o->cfg.log, "link", "MOYAI-LINK-ACCEPT", "%s", why.text);
            o->accept_wait = o->accept_wait ? o->accept_wait * 2 : ACCEPT_FIRST;
            if (o->accept_wait > ACCEPT_MOST) o->accept_wait = ACCEPT_MOST;
            exec_fd_events(f, 0);
            exec_timer_set(o->x, &o->accept_timer, moyai_now() + (moyai_ns)o->accept_wait);
            return;
        }
        o->accept_wait = 0;
        if (!olink_new(o, fd, NULL, NULL, pid)) close(fd);
    }
}

/* ---- hello ----------------------------------------------------------------------------------- */

static void has_left(struct peer *p);

static void peer_called(struct peer *p, const char *title, int64_t pid) {
    hello_text(p->title, sizeof p->title, title);
    p->pid = pid;
}

static void olink_up(struct olink *k) {
    struct overlay *o = k->o;
    k->up = true;
    k->up_since = moyai_now();
    exec_timer_clear(o->x, &k->hello_timer);
    char id[33];
    id_format(k->peer->id, id);
    EVENT(o->cfg.events, &o->cfg.self, "link-up", event_text("peer", id), event_text("title", k->peer->title),
          event_int("pid", k->peer->pid), event_text("at", k->at));
    log_debug(o->cfg.log, "overlay", "MOYAI-LINK-UP", "link to node %.8s (\"%s\", pid %lld)%s%s", id, k->peer->title,
              (long long)k->peer->pid, k->at[0] ? " at " : "", k->at);
    depart_link_up(k);
    peer_link_up(k->peer, k);
}

void olink_used(struct olink *k) {
    k->mesh = true;
    if (!k->up) olink_up(k);
    /* By a forwarded port it is ssh that takes connections, or does not. */
    if (k->outgoing && !k->line) memcpy(k->peer->at, k->at, sizeof k->at);
    route_link_up(k);
    mourn_link_up(k);
    olink_probe(k); /* how far is it? */
}

/* Its id belongs to a node of another host, by a link that stands: this one is not that node. */
static bool is_elsewhere(const struct olink *k, const struct peer *p, const struct link_hello *h) {
    for (const struct olink *other = p->links; other; other = other->peer_next)
        if (other != k && other->up && !id_equal(other->host, h->host)) return true;
    return false;
}

static int on_hello(struct olink *k, const uint8_t *p, size_t n, struct moyai_error *why) {
    struct overlay *o = k->o;
    struct link_hello h;
    if (k->greeted) return err_set(why, MOYAI_EPROTO, "second hello on a link");
    int rc = hello_decode(p, n, &h, why);
    if (rc >= 0 && o->wide && k->tcp && id_equal(h.node.b, o->cfg.self.b)) {
        k->orderly = true; /* its own address is among those where the grid is met */
        return err_set(why, MOYAI_ECLOSED, "the node has reached itself");
    }
    if (rc >= 0) rc = hello_accept(&o->hello, &h, why);
    if (rc >= 0 && !k->tcp && !id_equal(h.host, o->hello.host))
        rc = err_set(why, MOYAI_EPROTO, "a Unix link from another host: hosts must not share a run directory");
    if (rc < 0) {
        char who[LINK_NAME];
        olink_name(k, who);
        log_error(o->cfg.log, "link", "MOYAI-LINK-HELLO", "refused: %s: %s", who, why->text);
        return rc;
    }
    struct peer *peer = overlay_peer(o, h.node.b);
    if (!peer) return err_set(why, MOYAI_ENOMEM, "out of memory for a peer");
    if (o->route) route_was_told(o, h.node.b);
    if (peer->dead) {
        if (peer->why_code == MOYAI_EDEAD) rejoin_tell(k, h.node.b, peer_why(peer)->text);
        return err_set(why, MOYAI_EDEAD, "a node that was declared dead says hello");
    }
    if (k->peer && !id_equal(k->peer->id, h.node.b)) {
        if (k->tcp && o->wide) wide_another(k, &h); /* as does a node that was started anew */
        return err_set(why, k->tcp ? MOYAI_ECLOSED : MOYAI_EPROTO,
                       "another node answers at the address of this one: is its id right?");
    }
    if (is_elsewhere(k, peer, &h)) {
        char id[33];
        id_format(h.node.b, id);
        log_error(o->cfg.log, "link", "MOYAI-LINK-HELLO",
                  "refused: a node on another host (%s, pid %lld%s%s) says it is %s", h.title, (long long)h.pid,
                  k->at[0] ? ", at " : "", k->at, id);
        return err_set(why, MOYAI_EEXIST, "there is a link to a node of that id on another host");
    }
    if (!k->peer) {
        k->peer = peer;
        k->peer_next = peer->links;
        peer->links = k;
    }
    peer_called(peer, h.title, h.pid);
    memcpy(k->host, h.host, sizeof k->host);
    k->observer = h.observer;
    k->leaves = h.leave > 0;
    k->greeted = true;
    not_half(k);
    /* Who has taken a connection is offered it; who has made one hears of it from what is asked. */
    if (k->outgoing) exec_timer_clear(o->x, &k->hello_timer);
    if (!k->tcp) {
        peer->here = true;
        witness_hello(k);
        olink_up(k);
    }
    if (o->wide) wide_hello(k, &h);
    return 0;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* A link may be without room because of what is sent over it; it is not the peer's fault, as long as it asks little. */
bool olink_may_answer(struct olink *k) {
    if (link_room(k->link) > 0) k->answers = 0;
    return k->answers++ < ANSWERS_MOST;
}

static bool look(void *arg) {
    return link_look(((struct olink *)arg)->link);
}

/* Of one that leaves, as this node does, after this node has said its last there: till it has, too, unless it was told
 * that nothing more is taken. */
static bool is_last_word(const struct olink *k, const struct frame_head *h) {
    if (h->type == FRAME_FAREWELL || (h->type >= FRAME_LEAVE && h->type <= FRAME_LEAVE_LAST)) return true;
    return !k->over && !k->counts && !h->label && h->type >= FRAME_SESSION && h->type <= FRAME_SESSION_LAST;
}

static int on_frame(struct link *l, const struct frame_head *h, uint8_t *payload, struct moyai_error *why) {
    struct olink *k = link_owner(l);
    if (k->o->hot != k) { /* where something came from last, something may come from next */
        k->o->hot = k;
        exec_spin(k->o->x, look, k);
    }
    if (h->type == FRAME_HELLO) return on_hello(k, payload, h->length, why);
    if (!k->greeted) return err_set(why, MOYAI_EPROTO, "frame of type %u before the hello", h->type);
    k->heard = exec_now(k->o->x);
    if (k->parted && !is_last_word(k, h)) return 0;
    if (k->o->wide && h->type >= FRAME_PEERS && h->type <= FRAME_PEERS_LAST) return wide_frame(k, h, payload, why);
    if (!k->up && h->type != FRAME_FAREWELL && h->type != FRAME_PING && h->type != FRAME_DEAD) {
        if (k->o->closing) return 0; /* what it has agreed to was not heard any more */
        return err_set(why, MOYAI_EPROTO, "frame of type %u before the link was agreed on", h->type);
    }
    if (h->type >= FRAME_SESSION && h->type <= FRAME_SESSION_LAST) {
        if (h->label) return k->o->route ? route_frame(k, h, payload, why) : MOYAI_EPROTO;
        return peer_frame(k->peer, (struct via){.link = k}, h->type, payload, h->length, why);
    }
    if (k->o->route && h->type >= FRAME_RELAY && h->type <= FRAME_LOCATE_LAST) return route_frame(k, h, payload, why);
    if (k->mesh && h->type >= FRAME_DEATH && h->type <= FRAME_DEATH_LAST)
        return mourn_frame(k->o, k->peer->id, h->type, payload, h->length, why);
    /* Also by a Unix link that is none of the mesh: who has it sends what is for its node by it. */
    if (k->o->route && h->type == FRAME_FORWARD) return route_forwarded(k, h, payload, why);
    if (k->o->depart && h->type >= FRAME_LEAVE && h->type <= FRAME_LEAVE_LAST) return depart_frame(k, h, payload, why);
    switch (h->type) {
    case FRAME_FAREWELL:
        k->farewell = true;
        olink_last_heard(k, h->label);
        return 0;
    case FRAME_PING: {
        if (h->length != 8) return err_set(why, MOYAI_EPROTO, "ping of %u bytes", h->length);
        if (!olink_may_answer(k)) return err_set(why, MOYAI_EPROTO, "it does not read the answers to its pings");
        struct frame_head a = *h;
        a.type = FRAME_PONG;
        struct link_piece piece = {payload, 8};
        if (link_send(l, &a, &piece, 1) < 0) return err_set(why, MOYAI_ENOMEM, "out of memory");
        link_flush(l);
        return 0;
    }
    case FRAME_PONG:
        if (h->length != 8) return err_set(why, MOYAI_EPROTO, "pong of %u bytes", h->length);
        if (k->probed) beat_measured(k);
        pings_pong(k, payload);
        return 0;
    case FRAME_DEAD:
        return rejoin_dead_frame(k, payload, h->length, why);
    default:
        return err_set(why, MOYAI_EPROTO, "unknown frame type %u", h->type);
    }
}

static size_t on_place(struct link *l, const struct frame_head *h, const uint8_t *prefix, uint8_t **dest) {
    struct olink *k = link_owner(l);
    if (!k->up || h->label || h->type != FRAME_SESSION + SESSION_DATA || (k->parted && k->counts)) return 0;
    return peer_place(k->peer, k, h, prefix, dest);
}

static int on_placed(struct link *l, const struct frame_head *h, const uint8_t *prefix, uint8_t *dest,
                     struct moyai_error *why) {
    struct olink *k = link_owner(l);
    return k->parted && k->counts ? 0 : peer_placed(k->peer, k, h, prefix, dest, why);
}

static void on_room(struct link *l) {
    struct olink *k = link_owner(l);
    if (k->peer && k->peer->via.link == k) peer_mark(k->peer);
    if (k->mesh) route_link_room(k);
}

static void on_down(struct link *l, const struct moyai_error *why) {
    struct olink *k = link_owner(l);
    struct overlay *o = k->o;
    struct peer *p = k->peer;
    bool was_up = k->up;
    bool left = p && p->dead && p->why_code == MOYAI_ECLOSED;
    if (why->code && why->code != MOYAI_ESYS && !k->orderly && !left) {
        char who[LINK_NAME];
        olink_name(k, who);
        const char *id = "MOYAI-LINK-RESET";
        if (!k->greeted && !k->outgoing && k->tcp) /* what strangers do keeps back nothing that is said of members */
            id = why->code == MOYAI_EPERM ? "MOYAI-LINK-KEY" : "MOYAI-LINK-STRANGER";
        log_warning(o->cfg.log, "link", id, "the link to %s is closed: %s", who, why->text);
    }
    if (was_up) say_down(k, why->text);
    bool farewell = k->farewell, parted = k->parted;
    int code = why->code;
    char text[MOYAI_ERROR_TEXT];
    memcpy(text, why->text, sizeof text);
    if (o->wide) wide_link_down(k, why);
    /* First: paths that lead there end as it has, and not as if they had broken. */
    if (farewell && o->route && !o->closing) route_died(o->route, p->id, MOYAI_ECLOSED, true);
    olink_unlink(k);
    if (!p || o->closing) {
        link_free(l);
        free(k);
        return;
    }
    if (farewell && o->mourn) mourn_farewell(o, p->id);
    if (parted && !farewell) peer_parted(p);
    if (farewell)
        has_left(p);
    else if (!was_up && !k->tcp && (code == MOYAI_EVERSION || code == MOYAI_EPROTO)) {
        peer_fail(p, code, text); /* trying again would end the same way */
        if (!olink_ready(p) && !olink_coming(p)) pings_fail(p, code);
    } else
        peer_link_down(p, k);
    peer_mark(p); /* it may have been the last thing */
    if (was_up && !k->tcp) {
        uint8_t id[16];
        memcpy(id, p->id, 16);
        witness_link_down(o, id, farewell || parted);
    }
    link_free(l);
    free(k);
}

static const struct link_ops olink_ops = {
    .frame = on_frame, .place = on_place, .placed = on_placed, .room = on_room, .down = on_down};

/* ---- peers and death ------------------------------------------------------------------------- */

struct peer *overlay_find(const struct overlay *o, const uint8_t node[16]) {
    struct peer *p;
    HASH_FIND(hh, o->peers, node, 16, p);
    return p;
}

struct peer *overlay_peer(struct overlay *o, const uint8_t node[16]) {
    struct peer *p = overlay_find(o, node);
    if (p) return p;
    p = calloc(1, sizeof *p);
    if (!p) return NULL;
    memcpy(p->id, node, 16);
    p->o = o;
    HASH_ADD(hh, o->peers, id, 16, p);
    if (!p->hh.tbl) {
        free(p);
        return NULL;
    }
    peer_init(p);
    peer_mark(p); /* if nothing comes of it, it is forgotten in the next turn */
    return p;
}

void peer_name(struct peer *p, char out[PEER_NAME]) {
    struct rdv_node e;
    struct moyai_node_id id;
    memcpy(id.b, p->id, 16);
    if (p->pid == 0 && !p->asked && p->o->rdv) {
        p->asked = true;
        if (rdv_get_node(p->o->rdv, &id, &e, NULL) == 0) peer_called(p, e.title, e.pid);
    }
    entry_called(out, p->id, p->title, p->pid);
}

void overlay_self_name(const struct overlay *o, char out[PEER_NAME]) {
    entry_called(out, o->cfg.self.b, o->title, getpid());
}

void overlay_release(struct peer *p) {
    peer_mark(p);
}

const uint8_t *peer_id(const struct peer *p) {
    return p->id;
}
void **peer_data(struct peer *p) {
    return &p->data;
}

bool peer_dead(const struct peer *p, struct moyai_error *why) {
    if (p->dead && why) *why = *peer_why(p);
    return p->dead;
}

bool peer_nowhere(const struct peer *p) {
    return p->nowhere > 1 && !p->links;
}

const struct moyai_error *peer_why(const struct peer *p) {
    static const struct moyai_error short_ones[] = {
        {.where = MOYAI_AT_PEER},
        {.code = MOYAI_EDEAD, .where = MOYAI_AT_PEER, .text = "the node has died"},
        {.code = MOYAI_ECLOSED, .where = MOYAI_AT_PEER, .text = "the node has left"},
        {.code = MOYAI_EUNREACHABLE, .where = MOYAI_AT_PATH, .text = "the node cannot be reached"},
    };
    size_t i = sizeof short_ones / sizeof *short_ones - 1;
    if (p->why) return p->why;
    while (i > 0 && short_ones[i].code != p->why_code) i--;
    return &short_ones[i];
}

void peer_set_why(struct peer *p, const struct moyai_error *why) {
    p->why_code = why->code;
    if (!p->why) p->why = malloc(sizeof *p->why);
    if (p->why) *p->why = *why;
}

void peer_died_text(struct peer *p, const char *cause, char text[MOYAI_ERROR_TEXT]) {
    char who[PEER_NAME];
    peer_name(p, who);
    snprintf(text, MOYAI_ERROR_TEXT, "%s has died: %s", who, cause);
}

static void has_left(struct peer *p) {
    char who[PEER_NAME], text[MOYAI_ERROR_TEXT];
    peer_name(p, who);
    snprintf(text, sizeof text, "%s has left", who);
    peer_declare(p, MOYAI_ECLOSED, text);
}

/* Final: the node is dead (EDEAD) or has left (ECLOSED). */
void peer_declare(struct peer *p, int code, const char *text) {
    struct overlay *o = p->o;
    if (p->dead) return;
    p->dead = true;
    struct moyai_error why = {0};
    err_set(&why, code, "%s", text);
    why.where = MOYAI_AT_PEER;
    if (p->cleared && code == MOYAI_ECLOSED) why.executed = MOYAI_NEVER_EXECUTED;
    peer_set_why(p, &why);
    char hex[33];
    id_format(p->id, hex);
    EVENT(o->cfg.events, &o->cfg.self, code == MOYAI_EDEAD ? "node-dead" : "node-left", event_text("peer", hex),
          event_text("why", text));
    log_debug(o->cfg.log, "overlay", code == MOYAI_EDEAD ? "MOYAI-NODE-DEAD" : "MOYAI-NODE-LEFT", "%s", text);
    peer_fail(p, code, text);
    pings_fail(p, code);
    for (struct olink *k = p->links, *next; k; k = next) {
        next = k->peer_next;
        if (k->up && code == MOYAI_EDEAD) rejoin_tell(k, p->id, text);
        link_reset(k->link, code, text); /* goes down from the loop */
    }
    if (o->wide) wide_died(o->wide, p->id);
    staying_died(o, p->id);
    if (o->route) route_died(o->route, p->id, code, !p->found_dead);
    if (o->rdv && code == MOYAI_EDEAD && !o->closing) forget_node(o, p->id);
    if (!o->rdv && code == MOYAI_EDEAD && p->here) { /* nobody else would remove its socket */
        struct moyai_node_id id;
        memcpy(id.b, p->id, 16);
        rundir_unlink(o->dir, &id);
    }
    p->dead_next = NULL;
    if (o->dead_last)
        o->dead_last->dead_next = p;
    else
        o->dead_first = p;
    o->dead_last = p;
    o->n_dead++;
    peer_mark(p);
}

static void peer_free(struct peer *p) {
    HASH_DEL(p->o->peers, p);
    peer_close(p);
    free(p->why);
    free(p);
}

/*
 * Forget a peer that nothing connects us to any more: anybody may connect, say hello and go, and programs may ask for
 * many objects once. Should we meet again, it is as if for the first time. Of a dead one it must be known that it is
 * dead, and no more. Run when nothing holds pointers to peers; whatever may have been the last of its kind (a link, a
 * session, a message, someone who waits in the layer above) marks the peer, so that it comes by here.
 */
static void peer_settle(struct peer *p) {
    if (p->links || p->session || p->n_paths || p->pings.first || peer_waiting(p) || p->o->ops->busy(p->o->ctx, p))
        return;
    if (!p->dead) {
        if (!witness_watches(p->o, p->id)) peer_free(p);
        return;
    }
    free(p->data);
    p->data = NULL;
}

/* Forget the longest dead beyond the limit; run when nothing holds pointers to peers. */
static void forget_dead(struct overlay *o) {
    while (o->n_dead > o->dead_most && !o->dead_first->links && !o->ops->busy(o->ctx, o->dead_first)) {
        struct peer *p = o->dead_first;
        o->dead_first = p->dead_next;
        if (!o->dead_first) o->dead_last = NULL;
        o->n_dead--;
        peer_free(p);
    }
}

void overlay_evidence(struct overlay *o, const uint8_t node[16], int code) {
    if (id_equal(node, o->cfg.self.b) && code == MOYAI_EDEAD) rejoin_told(o, "their neighbours say so");
    struct peer *p = overlay_find(o, node);
    char who[PEER_NAME], text[MOYAI_ERROR_TEXT];
    if (!p || p->dead) return;
    if (code == MOYAI_ECLOSED && olink_ready(p)) return; /* it says so itself, behind its last words */
    peer_name(p, who);
    snprintf(text, sizeof text, "%s %s", who, code == MOYAI_ECLOSED ? "has left" : "has died: its neighbours say so");
    peer_declare(p, code, text);
}

bool overlay_is_dead(struct overlay *o, const uint8_t node[16]) {
    if (id_equal(node, o->cfg.self.b)) return false;
    struct peer *p = overlay_find(o, node);
    if (p && p->dead) return true;
    if ((p && olink_ready(p)) || !o->dir) return false;
    struct moyai_node_id id;
    memcpy(id.b, node, 16);
    return directory_is_dead(o, &id);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_hook(struct exec_hook *h) {
    struct overlay *o = (struct overlay *)((char *)h - offsetof(struct overlay, hook));
    while (o->dirty) {
        struct peer *p = o->dirty;
        o->dirty = p->dirty_next;
        p->dirty = false;
        peer_pump(p);
        if (!p->dirty) peer_settle(p);
    }
    route_flush(o->route);
    if (o->n_dead > o->dead_most) forget_dead(o);
}

static int join(struct overlay *o, struct moyai_error *reterr) {
    const struct overlay_cfg *c = &o->cfg;
    struct places places;
    bool wide = false;
    int rc = places_parse(&places, c->grid, reterr);
    if (rc == 0) rc = places_kind(&places, c->key_file, &wide, reterr);
    if (rc < 0) (void)config_blame(reterr, c->config, CONFIG_grid);
    if (rc == 0) rc = directory_open(o, wide ? NULL : places.file, reterr);
    if (rc == 0) {
        hello_fill(&o->hello, &c->self, rundir_host(o->dir), c->title, FRAME_MAX, c->max_message);
        o->hello.observer = c->observer;
        rc = rejoin_appear(o, reterr);
    }
    if (rc == 0) forget_joined(o);
    if (rc == 0 && (wide || c->grid_file)) {
        rc = route_new(o, reterr);
        if (rc == 0) rc = mourn_new(o, reterr);
        if (rc == 0) rc = depart_new(o, reterr);
        o->hello.leave = HELLO_LEAVE;
        if (rc == 0) rc = wide_new(o, &places, reterr);
        if (rc == 0) rc = staying_new(o, reterr);
    }
    if (!o->wide) places_done(&places); /* else they are its own now */
    if (rc < 0) return rc;
    if (!id_zero(c->parent.b)) {
        struct peer *p = overlay_peer(o, c->parent.b);
        if (p) (void)olink_connect(p); /* a parent that has just gone is no reason not to start */
    }
    return 0;
}

int overlay_new(struct overlay **ret, struct exec *x, const struct overlay_cfg *cfg, const struct overlay_ops *ops,
                void *ctx, struct moyai_error *reterr) {
    struct overlay *o = calloc(1, sizeof *o);
    if (!o) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    o->x = x;
    o->cfg = *cfg;
    hello_text(o->title, sizeof o->title, cfg->title ? cfg->title : "");
    hello_text(o->site, sizeof o->site, cfg->site ? cfg->site : "");
    o->ops = ops;
    o->ctx = ctx;
    o->listener = -1;
    o->dead_most = cfg->small ? DEAD_FEW : DEAD_MOST;
    uint64_t seed;
    int rc = rng_system(&seed, sizeof seed);
    if (rc == 0) rc = buffers_new(&o->buffers);
    if (rc == 0 && !(o->tx_chunks = calloc(2 * SESSION_CHUNKS, sizeof *o->tx_chunks))) rc = MOYAI_ENOMEM;
    if (rc < 0) {
        buffers_free(o->buffers);
        free(o);
        return err_set(reterr, rc, "cannot start the overlay: %s", moyai_strerror(rc));
    }
    o->rx_chunks = o->tx_chunks + SESSION_CHUNKS;
    rng_seed(&o->rng, seed);
    exec_timer_init(&o->accept_timer, on_accept_later);
    forget_init(o);
    rejoin_init(o);
    /* On one host a chunk of this size takes well under a millisecond: nothing waits long behind it. */
    o->session_cfg =
        (struct session_cfg){.reattach = cfg->reattach, .chunk = 256u * 1024, .entries = cfg->small ? ENTRIES_FEW : 0};
    o->hook.fn = on_hook;
    exec_hook_add(x, &o->hook);
    if (cfg->grid) rc = join(o, reterr);
    if (rc < 0) {
        overlay_close(o);
        overlay_free(o);
        return rc;
    }
    *ret = o;
    return 0;
}

void overlay_free(struct overlay *o) {
    if (!o) return;
    struct peer *p, *tmp;
    HASH_ITER (hh, o->peers, p, tmp) peer_free(p);
    exec_hook_remove(o->x, &o->hook);
    wide_free(o->wide);
    route_free(o->route);
    mourn_free(o->mourn);
    depart_free(o->depart);
    staying_free(o->staying);
    rundir_close(o->dir);
    buffers_free(o->buffers);
    free(o->tx_chunks);
    free(o);
}

struct rdv *overlay_rdv(struct overlay *o) {
    return o->rdv;
}
size_t overlay_links(const struct overlay *o) {
    size_t n = 0;
    for (const struct olink *k = o->links; k; k = k->next) n += k->up;
    return n;
}
uint8_t *overlay_buffer(struct overlay *o, size_t n) {
    return buffers_get(o->buffers, n);
}
void overlay_buffer_free(struct overlay *o, uint8_t *p) {
    buffers_put(o->buffers, p);
}
