/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that others have declared dead, and that lives (doc/spec/06-death.md, 5.6): it comes back under another id.
 *
 * What it held with others is over for them, so it is over here, too: everything open fails, all links end. Then the
 * machines begin anew in their memory, under the new id; so nothing can fail for want of memory but the id itself. What
 * is the process's own stays: the sockets of its TCP addresses, the places where the grid is met, what it knows of the
 * dead, names held and waited for. The old id is one of the dead here as well: what is addressed to it, or was left
 * under it, is nobody's.
 *
 * It all happens from the loop, when no machine is in the middle of a step.
 */
#include "overlay/io/rejoin.h"
#include "base/err.h"
#include "overlay/io/mourn.h"
#include "overlay/io/route.h"
#include "overlay/io/staying.h"
#include "overlay/io/wide.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define APPEAR_FIRST (100 * MOYAI_MS)
#define APPEAR_MOST  (10 * MOYAI_SEC)

/* ---- what is said of it ---------------------------------------------------------------------- */

void rejoin_tell(struct olink *k, const uint8_t node[16], const char *text) {
    uint8_t bytes[16 + MOYAI_ERROR_TEXT];
    size_t n = strlen(text);
    memcpy(bytes, node, 16);
    memcpy(bytes + 16, text, n);
    struct frame_head h = {.type = FRAME_DEAD, .class_ = FRAME_CONTROL, .hops = 1, .length = (uint32_t)(16 + n)};
    struct link_piece piece = {bytes, 16 + n};
    if (link_send(k->link, &h, &piece, 1) < 0)
        link_reset(k->link, MOYAI_ENOMEM, "out of memory");
    else
        link_flush(k->link);
}

int rejoin_dead_frame(struct olink *k, const uint8_t *p, size_t n, struct moyai_error *why) {
    char text[MOYAI_ERROR_TEXT];
    struct overlay *o = k->o;
    if (n < 16 || n - 16 >= sizeof text) return err_set(why, MOYAI_EPROTO, "evidence of death of %zu bytes", n);
    bool own = id_equal(p, o->cfg.self.b);
    if (!own && !k->up) return err_set(why, MOYAI_EPROTO, "evidence of death before the link was agreed on");
    memcpy(text, p + 16, n - 16);
    text[n - 16] = 0;
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ') *c = '?';
    if (own) {
        rejoin_told(o, text);
        return 0;
    }
    struct peer *peer = overlay_peer(o, p);
    uint8_t id[16], from[16];
    memcpy(id, p, 16);
    memcpy(from, k->peer->id, 16);
    if (peer) peer_declare(peer, MOYAI_EDEAD, text);
    if (o->mourn && k->mesh) mourn_told(o, from, id);
    return 0;
}

/* ---- being found ----------------------------------------------------------------------------- */

/* In the run directory, and in that of the grid if it has one. */
int rejoin_appear(struct overlay *o, struct moyai_error *reterr) {
    if (!o->listen_fd) {
        int rc = o->listener < 0 ? rundir_listen(o->dir, &o->cfg.self, &o->listener, reterr) : 0;
        if (rc < 0) return rc;
        o->listen_fd = exec_fd_new(o->x, o->listener, UV_READABLE, overlay_accept, o);
        if (!o->listen_fd) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    }
    if (!o->rdv || o->cfg.observer) return 0; /* only who it is linked to has to do with one that looks */
    struct rdv_node e;
    rdv_node_fill(&e, &o->cfg.self, rundir_host(o->dir), rundir_path(o->dir), o->hello.title);
    e.leaving = o->leaving;
    return rdv_put_node(o->rdv, &e, reterr);
}

static void appear(struct overlay *o) {
    struct moyai_error why = {0};
    if (rejoin_appear(o, &why) == 0) {
        o->appear_wait = 0;
        return;
    }
    if (o->appear_wait == 0)
        log_error(o->cfg.log, "overlay", "MOYAI-REJOIN",
                  "others of this host cannot find this node under its new id until this is mended: %s", why.text);
    o->appear_wait = o->appear_wait == 0 ? APPEAR_FIRST : 2 * o->appear_wait;
    if (o->appear_wait > APPEAR_MOST) o->appear_wait = APPEAR_MOST;
    exec_timer_set(o->x, &o->rejoin_timer, moyai_now() + (moyai_ns)o->appear_wait);
}

static void disappear(struct overlay *o) {
    exec_timer_clear(o->x, &o->accept_timer);
    o->accept_wait = 0;
    rundir_unlink(o->dir, &o->cfg.self);
    if (o->listen_fd)
        exec_fd_free(o->listen_fd, true, NULL);
    else if (o->listener >= 0)
        close(o->listener);
    o->listen_fd = NULL;
    o->listener = -1;
    if (o->rdv) (void)rdv_del_node(o->rdv, &o->cfg.self, NULL); /* who stays is removed by whoever finds it */
}

/* ---- coming back ----------------------------------------------------------------------------- */

static void end_all(struct overlay *o, const char *text) {
    struct peer *p, *tmp;
    o->closing = true; /* nothing begins */
    if (o->mourn) mourn_close(o->mourn);
    if (o->wide) wide_pause(o->wide);
    HASH_ITER (hh, o->peers, p, tmp) {
        p->broken = NULL;
        if (!p->dead)
            peer_fail(p, MOYAI_EUNREACHABLE, "others have declared this node dead, so what it had open failed");
        pings_fail(p, MOYAI_EUNREACHABLE);
        p->direct = (struct direct){0};
        exec_timer_clear(o->x, &p->ping_timer);
    }
    if (o->route) route_pause(o->route);
    while (o->links) {
        struct olink *k = o->links;
        /* Who does not know of it yet need not find it out. */
        if (k->up) rejoin_tell(k, o->cfg.self.b, text);
        olink_end(k);
    }
    disappear(o);
}

static void begin_again(struct overlay *o, const struct moyai_node_id *old, const char *text) {
    o->closing = false;
    if (o->mourn) mourn_again(o->mourn);
    if (o->route) route_again(o->route);
    struct peer *p = overlay_peer(o, old->b);
    if (p) peer_declare(p, MOYAI_EDEAD, text);
    appear(o);
    if (o->staying) staying_again(o->staying);
    if (o->wide) wide_again(o->wide);
    if (id_zero(o->cfg.parent.b)) return;
    p = overlay_peer(o, o->cfg.parent.b);
    if (p && !p->dead) (void)olink_connect(p);
}

static void rejoin(struct overlay *o) {
    struct moyai_node_id id, old = o->cfg.self;
    char text[MOYAI_ERROR_TEXT], who[PEER_NAME], before[33], now[33];
    if (o->closing) return;
    if (!o->ops->rejoin(o->ctx, &id)) {
        exec_timer_set(o->x, &o->rejoin_timer, moyai_now() + (moyai_ns)REJOIN_EVERY);
        return;
    }
    id_format(old.b, before);
    id_format(id.b, now);
    overlay_self_name(o, who);
    snprintf(text, sizeof text, "%s has been declared dead, and lives: it has joined again as node %.8s", who, now);
    end_all(o, text);
    o->told = false;
    o->rejoined = moyai_now();
    o->cfg.self = o->hello.node = id;
    begin_again(o, &old, text);
    log_error(o->cfg.log, "overlay", "MOYAI-REJOIN", "this node, %.8s until now, is node %.8s from here on", before,
              now);
    EVENT(o->cfg.events, &o->cfg.self, "node-rejoin", event_text("before", before));
    o->ops->rejoined(o->ctx);
}

static void due(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct overlay *o = (struct overlay *)((char *)t - offsetof(struct overlay, rejoin_timer));
    if (o->told)
        rejoin(o);
    else if (!o->closing)
        appear(o);
}

void rejoin_told(struct overlay *o, const char *cause) {
    if (o->told || o->closing) return;
    o->told = true;
    if (!*cause) cause = "they do not say why";
    log_error(o->cfg.log, "overlay", "MOYAI-TOLD-DEAD",
              "others have declared this node dead (%s): what it has open fails, and it joins again under another id",
              cause);
    EVENT(o->cfg.events, &o->cfg.self, "told-dead", event_text("why", cause));
    moyai_ns now = moyai_now(), at = o->rejoined + (moyai_ns)REJOIN_EVERY;
    exec_timer_set(o->x, &o->rejoin_timer, o->rejoined && at > now ? at : now);
}

void rejoin_init(struct overlay *o) {
    exec_timer_init(&o->rejoin_timer, due);
}
