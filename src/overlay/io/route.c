/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two machines know nothing of each other: the relay machine asks for routes, and is told the link that locating
 * knows. Their effects go through one queue, first come, first acted on, so that an effect whose action steps a machine
 * again finds it ready.
 *
 * A link of the mesh has a number below LOCATE_LINKS with the locating machine (its slot) and its own with the other. A
 * link beyond the 64 that have slots serves the two nodes at its ends only.
 *
 * Session frames on their way are tokens, the relay machine's as long as it has them.
 */
#include "base/err.h"
#include "overlay/io/beat.h"
#include "overlay/io/depart.h"
#include "overlay/io/mourn.h"
#include "overlay/io/route_internal.h"
#include "overlay/locate_wire.h"
#include "overlay/relay_wire.h"
#include "overlay/session_wire.h"

#include <stdlib.h>
#include <string.h>

#define LINGER       (500 * MOYAI_MS)
#define DIGEST_EVERY (60 * MOYAI_SEC)
#define FIRST_COST   (1 * MOYAI_MS) /* of a link whose round trip is not measured yet */
#define PATHS        4096u          /* that end here or pass through */
#define PATHS_SMALL  128u           /* with cfg.small */
#define SPARE        256u           /* further places, for those that have ended until that is said */
#define WRITE_MOST   (64u * 1024)   /* bytes gathered for one write */
#define QUEUE_MOST   (128u * 1024)  /* on a link, behind which a small frame has to wait; the kernel has as much */
#define QUEUE_TAKES  (QUEUE_MOST - RELAY_MOST) /* with so much there is room for any frame */
#define FRAME_NEED   ((size_t)RELAY_MOST + RELAY_HEAD + FRAME_HEAD)

/* ---- stepping -------------------------------------------------------------------------------- */

static void act_on(struct route *t, const struct effect *fx);

static void queue_push(struct route *t, const struct effect *fx) {
    if (t->first + t->n == t->cap) {
        if (t->first > 0) {
            memmove(t->queue, t->queue + t->first, t->n * sizeof *t->queue);
            t->first = 0;
        } else {
            size_t cap = t->cap ? 2 * t->cap : 8;
            struct effect *q = realloc(t->queue, cap * sizeof *q);
            if (!q) { /* out of turn, then: a machine that it steps may not be ready, and refuses */
                act_on(t, fx);
                return;
            }
            t->queue = q;
            t->cap = cap;
        }
    }
    t->queue[t->first + t->n++] = *fx;
}

static void fetch(struct route *t, bool of_relay) {
    struct effect fx = {.of_relay = of_relay};
    while (of_relay ? relay_next(t->r, &fx.r) : locate_next(t->l, &fx.l)) queue_push(t, &fx);
}

int route_relay(struct route *t, struct relay_event *ev) {
    ev->now = exec_now(t->o->x);
    int rc = relay_step(t->r, ev);
    t->relayed = true;
    fetch(t, true);
    return rc;
}

int route_locate(struct route *t, struct locate_event *ev) {
    ev->now = exec_now(t->o->x);
    int rc = locate_step(t->l, ev);
    fetch(t, false);
    return rc;
}

/* ---- frames out ------------------------------------------------------------------------------ */

static void put(struct olink *k, const struct frame_head *h, const uint8_t *p) {
    uint8_t *out = link_reserve(k->link, h);
    if (out)
        memcpy(out, p, h->length);
    else
        link_reset(k->link, MOYAI_ENOMEM, "out of memory for a frame");
}

/* Frames come one by one; what has gathered in a turn of the loop leaves in one write (route_flush), as it would on a
 * link of its own. */
void route_flush_later(struct route *t, struct olink *k) {
    if (link_queued(k->link) >= WRITE_MOST) link_flush_full(k->link);
    if (k->flush_listed) return;
    k->flush_listed = true;
    k->flush_next = t->flush;
    t->flush = k;
    exec_attention(t->o->x);
}

static void flush_forget(struct route *t, struct olink *k) {
    if (!k->flush_listed) return;
    struct olink **at = &t->flush;
    while (*at != k) at = &(*at)->flush_next;
    *at = k->flush_next;
    k->flush_listed = false;
}

void route_flush(struct route *t) {
    struct olink *k;
    while (t && (k = t->flush)) {
        t->flush = k->flush_next;
        k->flush_listed = false;
        link_flush(k->link);
    }
}

/* What has been pulled stands in the order in which it leaves: so little of it that a small frame, which passes all
 * bulk that the machine has, does not wait long behind what is on the link. The link says when it has drained. But
 * beside a session of our own, which fills the link whenever it can, paths take what room there is: there may never be
 * little. */
static bool takes(struct route *t, struct olink *k) {
    const struct peer *p = k->peer;
    if (link_room(k->link) < FRAME_NEED) return false;
    if (link_queued(k->link) < QUEUE_TAKES || (p->via.link == k && p->session && !session_idle(p->session)))
        return true;
    route_flush_later(t, k);
    return link_queued(k->link) < QUEUE_TAKES;
}

static void send_paths(struct route *t, struct olink *k) {
    struct relay_out out;
    bool any = false;
    t->relayed = true;
    while (takes(t, k) && relay_pull(t->r, k->number, &out)) {
        fetch(t, true);
        any = true;
        if (out.control) {
            struct frame_head h;
            uint8_t bytes[RELAY_WIRE_MAX];
            relay_wire_put(&h, bytes, &out.frame);
            put(k, &h, bytes);
        } else {
            struct token *b = (struct token *)(uintptr_t)out.token;
            struct frame_head h = {
                .type = b->type, .class_ = (uint8_t)out.class_, .hops = 1, .label = out.label, .length = b->n};
            put(k, &h, b->p);
            token_free(t, b);
            t->forwarded++;
        }
    }
    if (!any) return;
    olink_wait(k);
    route_flush_later(t, k);
}

/*
 * How long do frames lie before they are read? Each that locates has a stamp of its sender's clock. What our clock is
 * ahead of that changes only by the time on the way, so the least of it was of one that was read at once. Clocks drift
 * apart, by less than a tenth of a second in the ten minutes at most that the least is kept.
 */
#define STAMP_SHIFT 20 /* of nanoseconds: about milliseconds */
#define AHEAD_KEPT  (300 * MOYAI_SEC)

static uint32_t stamp_of(moyai_ns now) {
    uint32_t s = (uint32_t)(now >> STAMP_SHIFT);
    return s ? s : 1;
}

static moyai_dur late_by(struct olink *k, uint32_t stamp, moyai_ns now) {
    uint32_t ahead = (uint32_t)(now >> STAMP_SHIFT) - stamp;
    if (stamp == 0) return 0; /* an older version */
    if (k->ahead_since == 0) k->ahead[0] = k->ahead[1] = ahead;
    if (k->ahead_since == 0 || now - k->ahead_since > (moyai_ns)AHEAD_KEPT) {
        k->ahead[1] = k->ahead[0];
        k->ahead[0] = ahead;
        k->ahead_since = now;
    }
    for (int i = 0; i < 2; i++)
        if ((int32_t)(ahead - k->ahead[i]) < 0) k->ahead[i] = ahead;
    uint32_t least = (int32_t)(k->ahead[0] - k->ahead[1]) < 0 ? k->ahead[0] : k->ahead[1];
    return (moyai_dur)(ahead - least) << STAMP_SHIFT;
}

static void send_locating(struct route *t) {
    moyai_ns now = exec_now(t->o->x);
    struct locate_frame f;
    SET_EACH (i, locate_ready(t->l, now)) {
        struct olink *k = t->slot[i];
        if (!k) continue;
        bool any = false;
        while (link_room(k->link) > 0 && locate_pull(t->l, i, now, &f)) {
            uint8_t bytes[LOCATE_WIRE_MAX];
            struct frame_head h = {.type = (uint8_t)(FRAME_LOCATE + f.kind), .class_ = FRAME_CONTROL, .hops = 1};
            h.length = (uint32_t)locate_wire_put(bytes, &f);
            h.label = stamp_of(moyai_now());
            put(k, &h, bytes);
            t->locating++;
            any = true;
            fetch(t, false);
        }
        if (any) route_flush_later(t, k);
    }
}

void route_counts(const struct route *t, uint64_t *locating, uint64_t *forwarded) {
    *locating = t ? t->locating : 0;
    *forwarded = t ? t->forwarded : 0;
}

static void set_timer(struct route *t, struct exec_timer *timer, moyai_ns when) {
    if (when == UINT64_MAX)
        exec_timer_clear(t->o->x, timer);
    else if (timer->index == SIZE_MAX || timer->when != when)
        exec_timer_set(t->o->x, timer, when);
}

/* After every step from outside: do what the machines say until they have nothing to say. */
void route_run(struct route *t) {
    if (t->acting) return;
    t->acting = true;
    do {
        while (t->n > 0) {
            struct effect fx = t->queue[t->first];
            t->n--;
            t->first = t->n ? t->first + 1 : 0;
            act_on(t, &fx);
        }
        send_locating(t);
    } while (t->n > 0);
    t->acting = false;
    if (t->closing) return;
    if (t->relayed) set_timer(t, &t->r_timer, relay_deadline(t->r));
    t->relayed = false;
    set_timer(t, &t->l_timer, locate_deadline(t->l, exec_now(t->o->x)));
}

/* ---- paths that end here --------------------------------------------------------------------- */

static struct end *end_of(struct route *t, uint64_t path) {
    struct end *e = path ? &t->ends[relay_index(path)] : NULL;
    return e && e->path == path ? e : NULL;
}

static void end_free(struct route *t, struct end *e) {
    struct peer *p = e->p;
    if (e->refusal) token_free(t, e->refusal);
    *e = (struct end){0};
    p->n_paths--;
    peer_mark(p);
}

static void end_make(struct route *t, uint64_t path, struct peer *p) {
    struct end *e = &t->ends[relay_index(path)];
    if (e->path) { /* the machine has said that it is down, but its turn has not come */
        struct peer *old = e->p;
        uint64_t gone = e->path;
        end_free(t, e);
        peer_path_down(old, gone);
    }
    *e = (struct end){.path = path, .p = p};
    p->n_paths++;
}

uint64_t route_open(struct peer *p) {
    struct route *t = p->o->route;
    struct relay_event ev = {.kind = RELAY_EV_OPEN, .now = exec_now(t->o->x)};
    memcpy(ev.id.b, p->id, 16);
    t->relayed = true;
    if (relay_step(t->r, &ev) < 0) return 0;
    struct relay_effect fx;
    if (!relay_next(t->r, &fx) || fx.kind != RELAY_FX_OPENED) return 0;
    uint64_t path = fx.path;
    end_make(t, path, p);
    fetch(t, true);
    route_run(t);
    return end_of(t, path) ? path : 0;
}

void route_end(struct route *t, uint64_t path) {
    struct end *e = end_of(t, path);
    if (!e) return;
    end_free(t, e);
    struct relay_event ev = {.kind = RELAY_EV_END, .path = path, .code = RELAY_CLOSED};
    (void)route_relay(t, &ev);
    route_run(t);
}

void route_want(struct route *t, uint64_t path) {
    struct end *e = end_of(t, path);
    if (!e || e->wanted) return;
    e->wanted = true;
    struct relay_event ev = {.kind = RELAY_EV_WANT, .path = path};
    (void)route_relay(t, &ev);
    route_run(t);
}

static int send_token(struct route *t, uint64_t path, struct token *b, uint32_t class_) {
    struct relay_event ev = {
        .kind = RELAY_EV_SEND, .path = path, .token = (uint64_t)(uintptr_t)b, .bytes = b->n, .class_ = class_};
    int rc = route_relay(t, &ev);
    if (rc < 0) token_free(t, b);
    return rc;
}

uint8_t *route_send(struct route *t, uint64_t path, const struct frame_head *h) {
    struct token *b = token_new(t, h->type, h->length);
    if (!b) return NULL;
    return send_token(t, path, b, h->class_) < 0 ? NULL : b->bytes;
}

void route_refuse(struct route *t, uint64_t path, const struct session_frame *f) {
    struct end *e = end_of(t, path);
    if (!e || e->refusal) return; /* one is enough: it is of the same session, or the next is refused again */
    size_t n = session_wire_head_size(f);
    struct token *b = token_new(t, (uint8_t)(FRAME_SESSION + f->kind), (uint32_t)n);
    if (!b) return;
    session_wire_put_head(b->bytes, f);
    e->refusal = b;
    route_want(t, path);
}

static void on_room(struct route *t, const struct relay_effect *fx) {
    struct end *e = end_of(t, fx->path);
    if (!e) return;
    e->wanted = false;
    if (e->refusal) {
        struct token *b = e->refusal;
        e->refusal = NULL;
        (void)send_token(t, fx->path, b, FRAME_CONTROL);
        peer_mark(e->p); /* it may want more */
    } else {
        peer_room(e->p, fx->path, fx->amount);
    }
}

static void arrived(struct route *t, const struct relay_effect *fx) {
    struct peer *p = t->closing ? NULL : overlay_peer(t->o, fx->id.b);
    if (p && !p->dead) {
        end_make(t, fx->path, p);
        ways_make_place(t);
        return;
    }
    if (p && p->why_code == MOYAI_EDEAD) mourn_tell(t->o, p->id);
    struct relay_event ev = {.kind = RELAY_EV_END, .path = fx->path, .code = RELAY_CLOSED};
    (void)route_relay(t, &ev);
}

static void deliver(struct route *t, const struct relay_effect *fx) {
    struct token *b = (struct token *)(uintptr_t)fx->token;
    struct end *e = end_of(t, fx->path);
    struct moyai_error why = {0};
    if (e && peer_frame(e->p, (struct via){.path = fx->path}, b->type, b->p, b->n, &why) < 0) {
        char who[PEER_NAME];
        e = end_of(t, fx->path);
        if (e) {
            peer_name(e->p, who);
            log_warning(t->o->cfg.log, "overlay", "MOYAI-PATH-RESET", "%s: %s", who, why.text);
            peer_path_down(e->p, fx->path);
            route_end(t, fx->path);
        }
    }
    token_free(t, b);
}

static void down(struct route *t, const struct relay_effect *fx) {
    struct end *e = end_of(t, fx->path);
    if (!e) return;
    struct peer *p = e->p;
    end_free(t, e);
    p->cleared |= fx->code == RELAY_CLEARED;
    if (fx->code == RELAY_DEAD || fx->code == RELAY_LEFT || fx->code == RELAY_CLEARED)
        overlay_evidence(t->o, p->id, fx->code == RELAY_DEAD ? MOYAI_EDEAD : MOYAI_ECLOSED);
    if (fx->code == RELAY_NO_ROUTE || fx->code == RELAY_BROKEN || fx->code == RELAY_REFUSED)
        ways_hop_bad(t, fx->path, p->id);
    peer_path_down(p, fx->path);
}

/* ---- effects --------------------------------------------------------------------------------- */

static void act_relay(struct route *t, const struct relay_effect *fx) {
    struct olink *k;
    struct end *e;
    switch (fx->kind) {
    case RELAY_FX_OPENED:
        break; /* route_open has taken it */
    case RELAY_FX_ROUTE:
        ways_find(t, fx);
        break;
    case RELAY_FX_ARRIVED:
        arrived(t, fx);
        break;
    case RELAY_FX_DELIVER:
        deliver(t, fx);
        break;
    case RELAY_FX_ROOM:
        on_room(t, fx);
        break;
    case RELAY_FX_LEAVING:
        e = end_of(t, fx->path);
        if (!e) break;
        ways_hop_bad(t, fx->path, e->p->id);
        peer_path_leaves(e->p, fx->path);
        break;
    case RELAY_FX_SHORT:
        e = end_of(t, fx->path);
        if (e) ways_short(e);
        break;
    case RELAY_FX_DOWN:
        down(t, fx);
        break;
    case RELAY_FX_FREE:
        token_free(t, (struct token *)(uintptr_t)fx->token);
        break;
    case RELAY_FX_WAKE:
        k = olink_by_number(t->o, fx->link);
        if (k) send_paths(t, k);
        break;
    case RELAY_FX_WITHDRAWN:
        overlay_passed(t->o);
        break;
    }
}

/* What locating has heard of a node's end. */
static void ended(struct route *t, const uint8_t id[16], enum locate_how how) {
    struct peer *p = overlay_find(t->o, id);
    if (p) p->cleared |= how == LOCATE_CLEARED;
    overlay_evidence(t->o, id, how == LOCATE_DEAD ? MOYAI_EDEAD : MOYAI_ECLOSED);
}

static void act_locate(struct route *t, const struct locate_effect *fx) {
    switch (fx->kind) {
    case LOCATE_FX_FOUND:
    case LOCATE_FX_NOT_FOUND:
        ways_located(t, fx);
        names_found(t, fx);
        break;
    case LOCATE_FX_DEAD:
        ways_located(t, fx);
        names_found(t, fx);
        ended(t, fx->node.b, fx->how);
        break;
    case LOCATE_FX_EVIDENCE:
        ended(t, fx->node.b, fx->how);
        break;
    case LOCATE_FX_NAME_HELD:
    case LOCATE_FX_NAME_LOST:
        names_claimed(t, fx);
        break;
    }
}

static void act_on(struct route *t, const struct effect *fx) {
    if (fx->of_relay)
        act_relay(t, &fx->r);
    else
        act_locate(t, &fx->l);
}

/* ---- links ----------------------------------------------------------------------------------- */

static void take_slot(struct route *t, struct olink *k) {
    uint32_t i = 0;
    while (i < LOCATE_LINKS && t->slot[i]) i++;
    struct locate_event le = {.kind = LOCATE_EV_LINK_UP, .link = i, .host = host_hash(k->host), .cost = FIRST_COST};
    memcpy(le.node.b, k->peer->id, 16);
    if (i == LOCATE_LINKS || route_locate(t, &le) < 0) {
        t->lack_slots = true;
        return;
    }
    t->slot[i] = k;
    k->slot = (int)i;
    ways_link_new(t, i);
}

void route_link_up(struct olink *k) {
    struct route *t = k->o->route;
    k->slot = -1;
    take_slot(t, k);
    struct relay_event re = {.kind = RELAY_EV_LINK_UP, .link = k->number};
    memcpy(re.id.b, k->peer->id, 16);
    k->relays = route_relay(t, &re) == 0;
    route_run(t);
}

void route_link_down(struct olink *k) {
    struct route *t = k->o->route;
    flush_forget(t, k);
    if (k->slot >= 0) {
        t->slot[k->slot] = NULL;
        struct locate_event le = {.kind = LOCATE_EV_LINK_DOWN, .link = (uint32_t)k->slot, .parted = k->yielded};
        (void)route_locate(t, &le);
        k->slot = -1;
        struct olink *o = t->lack_slots ? t->o->links : NULL;
        while (o && (o == k || !o->relays || o->slot >= 0 || o->peer->dead)) o = o->next;
        t->lack_slots = o; /* one that found none: of one that was to go first; perhaps there are more */
        if (o) take_slot(t, o);
    }
    if (k->relays) {
        k->relays = false;
        ways_link_ends(t, k);
        struct relay_event re = {.kind = RELAY_EV_LINK_DOWN, .link = k->number};
        (void)route_relay(t, &re);
    }
    route_run(t);
}

void route_cost(struct olink *k, moyai_dur round_trip) {
    struct route *t = k->o->route;
    if (k->slot < 0) return;
    struct locate_event ev = {.kind = LOCATE_EV_COST, .link = (uint32_t)k->slot, .cost = round_trip};
    (void)route_locate(t, &ev);
    route_run(t);
}

void route_link_room(struct olink *k) {
    struct route *t = k->o->route;
    if (!k->relays || t->closing) return;
    send_paths(t, k);
    route_run(t);
}

/* *lent: a session's frame, as long as it has not left. */
static int take(struct olink *k, const struct frame_head *h, uint8_t *payload, struct token **lent,
                struct moyai_error *why) {
    struct route *t = k->o->route;
    struct relay_event ev = {.link = k->number, .label = h->label};
    int rc;
    if (h->label && h->type >= FRAME_SESSION && h->type <= FRAME_SESSION_LAST) {
        struct token *b = token_new(t, h->type, h->length);
        if (!b) return err_set(why, MOYAI_ENOMEM, "out of memory for a frame");
        token_lend(b, payload, lent);
        ev.kind = RELAY_EV_RECEIVE;
        ev.token = (uint64_t)(uintptr_t)b;
        ev.bytes = h->length;
        ev.class_ = h->class_;
        rc = route_relay(t, &ev);
        if (rc < 0) token_free(t, b);
    } else if (h->type >= FRAME_RELAY && h->type <= FRAME_RELAY_LAST) {
        struct relay_frame f;
        rc = relay_wire_get(h, payload, &f, why);
        if (rc < 0) return rc;
        ways_error(t, k, &f);
        ev.kind = RELAY_EV_FRAME;
        ev.frame = &f;
        rc = route_relay(t, &ev);
    } else {
        struct locate_frame f;
        rc = locate_wire_get(h->type, payload, h->length, &f, why);
        if (rc < 0) return rc;
        if (k->slot < 0) return 0;
        if (f.kind == LOCATE_NEIGHBOURS) mourn_empties(k, &f);
        struct locate_event le = {.kind = LOCATE_EV_RECEIVE,
                                  .link = (uint32_t)k->slot,
                                  .frame = &f,
                                  .late = late_by(k, h->label, moyai_now())};
        beat_late_by(t->o, le.late);
        rc = route_locate(t, &le);
    }
    if (rc == MOYAI_EPROTO || rc == MOYAI_EBUSY || rc == MOYAI_EDEAD)
        return err_set(why, rc, "frame of type %u breaks the protocol", h->type);
    return 0;
}

int route_frame(struct olink *k, const struct frame_head *h, uint8_t *payload, struct moyai_error *why) {
    struct route *t = k->o->route;
    if (t->closing) return 0;
    if (!k->mesh) return err_set(why, MOYAI_EPROTO, "frame of type %u on a link that is not of the mesh", h->type);
    struct token *lent = NULL;
    int rc = take(k, h, payload, &lent, why);
    route_run(t);
    if (lent) token_keep(lent); /* it has to wait */
    return rc;
}

bool route_path_id(const struct route *t, uint64_t path, uint64_t *id) {
    return relay_path_id(t->r, path, id);
}

bool route_path_next(const struct route *t, uint64_t id, const struct moyai_node_id *end, struct moyai_node_id *next) {
    return relay_path_next(t->r, id, end, next);
}

size_t route_neighbours(const struct olink *k, struct locate_neighbour *out, size_t n) {
    return k->slot < 0 ? 0 : locate_neighbours(k->o->route->l, (uint32_t)k->slot, out, (uint32_t)n);
}

/* ---- evidence, and the beginning -------------------------------------------------------------- */

void route_died(struct route *t, const uint8_t id[16], int code, bool told) {
    const struct peer *p = overlay_find(t->o, id);
    const bool left = code == MOYAI_ECLOSED, cleared = left && p && p->cleared;
    struct relay_event re = {.kind = RELAY_EV_GONE, .code = RELAY_DEAD};
    if (left) re.code = cleared ? RELAY_CLEARED : RELAY_LEFT;
    memcpy(re.id.b, id, 16);
    (void)route_relay(t, &re);
    struct locate_event le = {.kind = LOCATE_EV_EVIDENCE, .how = LOCATE_DEAD};
    if (left) le.how = cleared ? LOCATE_CLEARED : LOCATE_LEFT;
    memcpy(le.node.b, id, 16);
    le.told = told;
    (void)route_locate(t, &le);
    route_run(t);
}

void route_was_told(struct overlay *o, const uint8_t id[16]) {
    struct moyai_node_id node;
    memcpy(node.b, id, 16);
    int how = locate_dead(o->route->l, &node, exec_now(o->x));
    if (how) ended(o->route, id, (enum locate_how)how);
}

static void l_due(struct exec *x, struct exec_timer *timer) {
    struct route *t = (struct route *)((char *)timer - offsetof(struct route, l_timer));
    struct locate_event ev = {.kind = LOCATE_EV_TIMEOUT, .late = (moyai_dur)(exec_now(x) - timer->when)};
    (void)route_locate(t, &ev);
    route_run(t);
}

static void r_due(struct exec *x, struct exec_timer *timer) {
    (void)x;
    struct route *t = (struct route *)((char *)timer - offsetof(struct route, r_timer));
    struct relay_event ev = {.kind = RELAY_EV_TIMEOUT};
    (void)route_relay(t, &ev);
    route_run(t);
}

static uint32_t pointers_of(const struct overlay_cfg *c) {
    return c->small ? PATHS_SMALL : PATHS;
}
static uint32_t spare_of(const struct overlay_cfg *c) {
    return c->small ? PATHS_SMALL / 8 : SPARE;
}

/* Both machines as they are at the start, in the memory that they had before. */
static int begin(struct route *t, struct moyai_error *reterr) {
    const struct overlay_cfg *c = &t->o->cfg;
    struct locate_cfg lc = {.self = c->self,
                            .seed = rng_next(&t->o->rng),
                            .links = LOCATE_LINKS,
                            .reattach = c->reattach,
                            .linger = LINGER,
                            .grace = MOURN_GRACE,
                            .digest_every = DIGEST_EVERY};
    struct relay_cfg rc = {.self = c->self,
                           .seed = rng_next(&t->o->rng),
                           .pointers = pointers_of(c),
                           .spare = spare_of(c),
                           .memory = c->relay_memory};
    if (c->small) { /* few names, few look-ups at a time */
        lc.told = lc.names = 4;
        lc.lookups = 16;
        lc.requests = 128;
        lc.routes = lc.dead = 64;
        lc.links = SMALL_LINKS;
        rc.links = SMALL_LINKS;
    }
    size_t ln = (locate_size(&lc) + 63) / 64 * 64, rn = (relay_size(&rc) + 63) / 64 * 64;
    if (ln == 0 || rn == 0) return err_set(reterr, MOYAI_EINVAL, "a bad limit for locating or relaying");
    bool first = !t->l;
    t->relayed = true;
    if (first) { /* zeros that need not be written */
        t->l = calloc(1, ln);
        t->r = calloc(1, rn);
    }
    if (!t->l || !t->r) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    if (!first) {
        memset(t->l, 0, ln);
        memset(t->r, 0, rn);
    }
    int e = locate_init(t->l, &lc);
    if (e == 0) e = relay_init(t->r, &rc);
    return e < 0 ? err_set(reterr, e, "cannot begin to route: %s", moyai_strerror(e)) : 0;
}

int route_new(struct overlay *o, struct moyai_error *reterr) {
    struct route *t = calloc(1, sizeof *t);
    if (!t) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    o->route = t;
    t->o = o;
    exec_timer_init(&t->l_timer, l_due);
    exec_timer_init(&t->r_timer, r_due);
    t->n_ends = pointers_of(&o->cfg) + spare_of(&o->cfg); /* relay_index is below */
    t->ends = calloc(t->n_ends, sizeof *t->ends);
    if (!t->ends || !ways_new(t)) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    return begin(t, reterr);
}

bool route_withdraw(struct route *t) {
    if (t->closing || (t->o->cfg.observer && relay_count(t->r).passing == 0)) return false;
    struct locate_event le = {.kind = LOCATE_EV_LEAVE}; /* first: who looks for another way is not to find this one */
    (void)route_locate(t, &le);
    route_run(t);
    struct relay_event re = {.kind = RELAY_EV_WITHDRAW};
    (void)route_relay(t, &re);
    route_run(t);
    return true;
}

void route_pause(struct route *t) {
    t->closing = true;
    exec_timer_clear(t->o->x, &t->l_timer);
    exec_timer_clear(t->o->x, &t->r_timer);
}

void route_again(struct route *t) {
    struct moyai_error why;
    ways_forget(t);
    for (size_t i = 0; i < t->n_ends; i++)
        if (t->ends[i].path) end_free(t, &t->ends[i]);
    t->n = t->first = 0;
    t->closing = begin(t, &why) < 0; /* not so: it has begun before */
    if (t->closing) return;
    names_repeat(t);
    route_run(t);
}

void route_close(struct route *t) {
    if (!t || t->closing) return;
    route_pause(t);
    names_close(t);
}

void route_free(struct route *t) {
    if (!t) return;
    for (size_t i = 0; t->ends && i < t->n_ends; i++) free(t->ends[i].refusal);
    if (t->hops) ways_forget(t);
    tokens_free(t);
    free(t->queue);
    free(t->ends);
    free(t->hops);
    free(t->l);
    free(t->r);
    free(t);
}
