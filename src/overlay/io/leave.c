/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving without being missed. Before a node says farewell, what passes through it goes other ways: its neighbours
 * hear that it has none, so that nobody looks for a way by it (locating, 7.7), and the ends of the paths that it relays
 * hear that it leaves (paths, 7). They lay others and go over to them, while the old ones still work. That takes a few
 * round trips.
 *
 * Of links that go through an ssh of this node's, our side is closed behind the farewell, and ssh is ended when the
 * other side has closed too: then all that was said has been read.
 */
#include "overlay/io/depart.h"
#include "overlay/io/gridfile.h"
#include "overlay/io/lines.h"
#include "overlay/io/mourn.h"
#include "overlay/io/route.h"
#include "overlay/io/staying.h"
#include "overlay/io/wide.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PART_MOST  (1 * MOYAI_SEC) /* a round trip, and what is queued; ssh may hang */
#define PART_LINKS GRIDFILE_LINES

/* ---- before ---------------------------------------------------------------------------------- */

void overlay_withdrawn(struct overlay *o) {
    void (*done)(void *arg) = o->withdrawn;
    o->withdrawn = NULL;
    if (done) done(o->withdrawn_arg);
}

void overlay_passed(struct overlay *o) {
    if (!depart_begin(o->depart)) overlay_withdrawn(o);
}

/* The paths of sessions that nobody needs: relays that leave at the same time wait for those they carry. */
static void close_unused(struct overlay *o) {
    struct peer *p, *tmp;
    HASH_ITER (hh, o->peers, p, tmp)
        if (p->via.path && peer_unused(p)) peer_session_close(p);
}

bool overlay_withdraw(struct overlay *o, void (*done)(void *arg), void *arg) {
    if (o->closing || !o->route) return false;
    o->withdrawn_arg = arg;
    o->withdrawn = done;
    depart_limit(o->depart);
    if (o->wide) wide_leave(o->wide);
    close_unused(o);
    if (!route_withdraw(o->route)) o->withdrawn = NULL;
    return o->withdrawn;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Links through an ssh of this node's. */
struct parting {
    struct overlay *o;
    size_t n;
    struct olink *link[PART_LINKS]; /* NULL: all is written, and our side closed */
    struct pollfd at[PART_LINKS + 1];
};

/* Write what is queued; behind it our side is closed, and the end of the other is all that is waited for. */
static void part_write(struct parting *p, size_t i) {
    struct olink *k = p->link[i];
    const bool held = p->o->cfg.link_delay || p->o->cfg.link_rate; /* by the loop, which does not turn */
    link_flush(k->link);
    if (link_queued(k->link) > 0 && !held) {
        p->at[i] = (struct pollfd){.fd = link_fd(k->link), .events = POLLOUT};
        return;
    }
    int fd = fcntl(link_fd(k->link), F_DUPFD_CLOEXEC, 0);
    olink_close(k);
    p->link[i] = NULL;
    p->at[i] = (struct pollfd){.fd = fd, .events = POLLIN};
    if (fd >= 0) (void)shutdown(fd, SHUT_WR);
}

/* What still comes is for nobody. */
static void part_read(struct pollfd *at) {
    char buf[16384];
    ssize_t n = read(at->fd, buf, sizeof buf);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
    close(at->fd);
    at->fd = -1;
}

/* The lock is held: nobody else has anything to do with these any more. */
static void part(struct parting *p) {
    const moyai_ns until = moyai_now() + (moyai_ns)PART_MOST;
    bool hurry = false;
    for (size_t i = 0; i < p->n; i++) p->at[i].fd = -1;
    const struct overlay_cfg *c = &p->o->cfg;
    p->at[p->n] = (struct pollfd){.fd = c->hurry_fd ? c->hurry_fd : -1, .events = POLLIN};
    for (moyai_ns now = moyai_now(); !hurry && now < until; now = moyai_now()) {
        bool more = false;
        for (size_t i = 0; i < p->n; i++) {
            if (p->link[i]) part_write(p, i);
            more |= p->at[i].fd >= 0;
        }
        if (!more) break;
        int rc = poll(p->at, (nfds_t)p->n + 1, (int)((until - now) / (moyai_ns)MOYAI_MS) + 1);
        for (size_t i = 0; rc > 0 && i < p->n; i++)
            if (!p->link[i] && p->at[i].fd >= 0 && p->at[i].revents) part_read(&p->at[i]);
        hurry = rc > 0 && p->at[p->n].revents && c->hurries(c->hurry_arg);
    }
    for (size_t i = 0; i < p->n; i++)
        if (p->link[i])
            olink_close(p->link[i]);
        else if (p->at[i].fd >= 0)
            close(p->at[i].fd);
}

void overlay_hurry(struct overlay *o, int fd, bool (*hurries)(void *arg), void *arg) {
    o->cfg.hurry_fd = fd;
    o->cfg.hurries = hurries;
    o->cfg.hurry_arg = arg;
}

void overlay_close(struct overlay *o) {
    overlay_farewell(o);
    rdv_close(o->rdv);
    o->rdv = NULL;
}

/*
 * Who has connected but was not let in yet hears the farewell too; else it would find a refusing socket, which is what
 * a death looks like. The socket's name goes first, so none comes after them.
 */
static void accept_last(struct overlay *o) {
    if (o->dir) rundir_unlink(o->dir, &o->cfg.self);
    for (unsigned i = 0; i < HALF_OPEN_MOST && o->listener >= 0; i++) {
        int fd;
        uid_t uid;
        pid_t pid = 0;
        struct moyai_error why = {0};
        int rc = rundir_accept(o->listener, &fd, &uid, &pid, &why);
        if (rc == MOYAI_EPERM) continue;
        if (rc < 0) return;
        if (!olink_new(o, fd, NULL, NULL, pid)) close(fd);
    }
}

/* Whose farewell has come, and whose link has not ended yet: this node may be the only one that others hear it from. */
static void note_farewells(struct overlay *o) {
    if (!o->mourn) return;
    for (struct olink *k = o->links; k; k = k->next) {
        if (!k->farewell || !k->peer || k->peer->dead) continue;
        route_died(o->route, k->peer->id, MOYAI_ECLOSED, true);
        mourn_farewell(o, k->peer->id);
    }
}

void peer_last_words(struct peer *p) {
    for (struct olink *k = p->links; k; k = k->peer_next) k->counts = false; /* said on another way before */
    if (!p->opened) return;
    peer_pump(p);
    const struct session_event ev = {.kind = SESSION_EV_KEEP};
    if (!p->session || !p->via.link || session_step(p->session, &ev) < 0) return;
    peer_pump(p);
    struct olink *k = p->via.link;
    if (k) k->counts = link_room(k->link) > 0; /* else it was not said */
}

void overlay_last_words(struct overlay *o) {
    struct peer *p, *tmp;
    if (o->closing) return;
    note_farewells(o);
    o->cleared = o->ops->cleared && o->ops->cleared(o->ctx);
    HASH_ITER (hh, o->peers, p, tmp)
        peer_last_words(p); /* last answers and one-way calls leave before the farewell, as far as they can */
    o->closing = true;
    HASH_ITER (hh, o->peers, p, tmp) {
        if (!p->dead) peer_fail(p, MOYAI_ECLOSED, "this node ends");
        pings_fail(p, MOYAI_ECLOSED);
    }
    mourn_close(o->mourn);
    route_close(o->route);
}

uint32_t olink_last_label(const struct olink *k) {
    return (k->o->cleared ? FAREWELL_CLEARED : 0) | (k->counts ? FAREWELL_COUNTED : 0);
}

void olink_last_heard(struct olink *k, uint32_t label) {
    if (label & FAREWELL_CLEARED) k->peer->cleared = true;
    const bool deaf = k->parted && k->counts; /* to the count, too */
    if (label & FAREWELL_COUNTED && k->peer->via.link == k && !deaf) k->peer->counted = true;
}

void olink_farewell(struct olink *k) {
    const struct frame_head h = {
        .type = FRAME_FAREWELL, .class_ = FRAME_CONTROL, .hops = 1, .label = olink_last_label(k)};
    (void)link_send(k->link, &h, NULL, 0); /* if it does not go out, the peer learns it as a death */
}

void overlay_farewell(struct overlay *o) {
    if (o->closed) return;
    o->closed = true;
    o->withdrawn = NULL;
    overlay_last_words(o);
    depart_close(o->depart);
    staying_close(o->staying);
    wide_close(o->wide); /* other threads have the lock meanwhile */
    accept_last(o);
    struct parting parting = {.o = o};
    for (struct olink *k = o->links, *next; k; k = next) {
        next = k->next;
        /* Also if the peer's hello has not come: ours has gone out, so to it this node has been there. */
        olink_farewell(k);
        if (k->carried && k->up && parting.n < PART_LINKS && lines_carry(o->lines))
            parting.link[parting.n++] = k;
        else
            olink_close(k);
    }
    part(&parting);
    lines_close(o->lines);
    o->lines = NULL;
    witness_done(o);
    exec_timer_clear(o->x, &o->accept_timer);
    exec_timer_clear(o->x, &o->rejoin_timer);
    forget_close(o);
    if (o->listen_fd) {
        exec_fd_free(o->listen_fd, true, NULL);
        o->listener = -1;
    }
    o->listen_fd = NULL;
    if (o->listener >= 0) close(o->listener);
    o->listener = -1;
    if (o->rdv) rdv_withdraw(o->rdv);
}
