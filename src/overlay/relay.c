/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a path's pointer.
 *
 * Idea (S0/4.3). A message that is passed on leaves a pointer behind, so that an error finds its way back, and whoever
 * notices a broken connection or a dead process sends one along each pointer that led there. In the paper a pointer
 * belongs to one call, and only the caller learns of the break: who stands beyond it computes in vain. Here it belongs
 * to a path of a session, errors travel both ways from where the path broke, and what they end is the path, not the
 * session, which goes on over another (doc/spec/01-session.md).
 *
 *                    PATH for another          ROUTED
 *          +------+ ----------------> +---------+ ---------------> +------+
 *          | FREE |     OPEN          | ROUTING |                  | OPEN | <--- PATH for this node
 *          +------+                   +---------+                  +------+
 *             ^                            | no route, time            |  error, link down, GONE, END: both sides
 *             |                            v                           |  CLOSE: when what was queued has left
 *             |   all is said         +--------+ <---------------------+
 *             +---------------------- | ENDING | <--- PATH that is refused
 *                                     +--------+
 *
 * A side of a pointer is a link and a label, or here, or nowhere: gone, or not yet known. An error ends the pointer at
 * once: queues are emptied, and its place remains only until the ERROR has been pulled by the links that are left, and
 * DOWN has been told. CLOSE takes away one side: what came from it still goes to the other, followed by CLOSE; what
 * comes from the other is dropped (its sender will soon know), because who closes wants nothing more: his session has
 * ended, or uses another path and takes nothing that carries this one's number.
 *
 * A PATH is never sent twice to the same node: each remembers the random ids of the paths that pass, and who sees one
 * again says LOOP. So pointers form simple chains and what travels along them cannot go round, whatever the routes say;
 * a limit of hops ends a PATH that wanders. Trying another route is left to the source: frames that followed the
 * PATH were lost with it, and only the session can send them again.
 *
 * Late frames. A label is given by the one who sends PATH on that link, odd if his node id is the lower, and not again
 * before all others were. So after one side has dropped its pointer the other's frames find nothing and are dropped.
 */
#include "overlay/relay_internal.h"

#include <string.h>

size_t relay_size(const struct relay_cfg *cfg) {
    struct relay r;
    size_t size;
    return relay_layout(&r, cfg, &size) ? size : 0;
}

int relay_init(struct relay *r, const struct relay_cfg *cfg) {
    struct relay head;
    size_t size;
    if (!relay_layout(&head, cfg, &size)) return MOYAI_EINVAL;
    *r = head;
    return 0;
}

/* --- the end of a pointer ----------------------------------------------------------------------------- */

static void place_free(struct relay *r, struct relay_path *p) {
    if (p->state == PATH_ENDING && p->side[0].where == NOWHERE && p->side[1].where == NOWHERE) relay_path_remove(r, p);
}

static void die(struct relay *r, struct relay_path *p) {
    p->state = PATH_ENDING;
    p->wants = p->tell = 0;
    relay_path_list(r, p, ON_TELL, false);
    r->live--;
    if (!p->ends) r->passing--;
    if (r->leaving && !r->withdrawn && r->passing == 0) {
        r->withdrawn = 1;
        r->withdraw_at = 0;
        r->draining = 1;
    }
    relay_path_list(r, p, ON_ROUTE, false);
    relay_id_drop(r, p);
    for (int s = 0; s < 2; s++) {
        relay_queue_free(r, &p->side[s]);
        relay_loan_end(r, p, s);
        p->side[s].due = p->side[s].take = p->side[s].give = 0;
    }
}

static void say_error(struct relay *r, struct relay_path *p, int s, enum relay_code code, const uint8_t who[16]) {
    struct relay_side *y = &p->side[s];
    relay_unsay(r, p, s, UINT16_MAX);
    relay_side_list(r, p, s, ON_SMALL, false);
    relay_side_list(r, p, s, ON_BULK, false);
    y->code = (uint8_t)code;
    memcpy(y->who, who, 16);
    relay_say(r, p, s, RELAY_SAY_ERROR);
}

/* Each side but `except` (-1: none) is told. gone: towards which the path's end has died or left, or is believed to
 * have
 * (-1: neither): were it told so, it would believe it of the other end. */
static void end_both(struct relay *r, struct relay_path *p, enum relay_code why, const uint8_t who[16], int except,
                     int gone) {
    die(r, p);
    for (int s = 0; s < 2; s++) {
        struct relay_side *y = &p->side[s];
        enum relay_code code = s == gone ? RELAY_BROKEN : why;
        bool heard = s != except && !(y->say & RELAY_SAY_PATH);
        if (y->where == BY_LINK && heard) {
            say_error(r, p, s, code, who);
        } else if (y->where == HERE && heard) {
            p->code = (uint8_t)code;
            memcpy(p->who, who, 16);
            relay_tell(r, p, RELAY_TELL_DOWN);
        } else {
            relay_side_drop(r, p, s);
        }
    }
    place_free(r, p);
}

static void end_path(struct relay *r, struct relay_path *p, enum relay_code code, const uint8_t who[16], int except) {
    end_both(r, p, code, who, except, -1);
}

/* Side s closes. What came from it goes to the other side, and CLOSE behind it. */
static void close_side(struct relay *r, struct relay_path *p, int s) {
    int o = 1 - s;
    struct relay_side *y = &p->side[o];
    bool unheard = (y->say & RELAY_SAY_PATH) && p->side[s].n == 0;
    if (y->where != BY_LINK || unheard) {
        end_path(r, p, RELAY_CLOSED, r->self, s);
        return;
    }
    relay_queue_free(r, y);
    relay_loan_end(r, p, o);
    relay_unsay(r, p, o, RELAY_SAY_CREDIT | RELAY_SAY_TAKE);
    y->due = y->take = 0;
    y->deaf = 1;
    p->wants = 0;
    p->tell = 0;
    relay_path_list(r, p, ON_TELL, false);
    relay_side_drop(r, p, s);
    relay_schedule(r, p, o);
}

void relay_said_last(struct relay *r, struct relay_path *p, int s) {
    if (p->state == PATH_OPEN) die(r, p); /* CLOSE: the other side has been gone before */
    relay_side_drop(r, p, s);
    place_free(r, p);
}

/* --- places ---------------------------------------------------------------------------------------------- */

#define PLACES_LOOKED 64u /* for each PATH that comes while places are short */
#define PLACES_ASKED  2u

/* Side s is told that a relay beyond the other is short of places. */
static void hint(struct relay *r, struct relay_path *p, int s) {
    struct relay_side *y = &p->side[s];
    if (p->state != PATH_OPEN) return;
    if (y->where == HERE)
        relay_tell(r, p, RELAY_TELL_SHORT);
    else if (y->where == BY_LINK)
        relay_say(r, p, s, RELAY_SAY_SHORT);
}

/* Paths stand as long as their sessions do, which may be needed again, and each takes places of nodes that have
 * nothing to do with it. Only its ends know whether somebody waits for something, or soon will: so they are asked, one
 * path after the other, and first those by which nothing has come since they were last looked at. */
static void ask_for_places(struct relay *r) {
    uint32_t asked = 0, most = r->paths_top < PLACES_LOOKED ? r->paths_top : PLACES_LOOKED;
    for (uint32_t n = 0; n < most && asked < PLACES_ASKED; n++) {
        r->paths_asked = r->paths_asked % r->paths_top + 1;
        struct relay_path *p = relay_path_at(r, r->paths_asked);
        if (p->state != PATH_OPEN || p->ends) continue;
        bool used = false;
        for (int s = 0; s < 2; s++) {
            used |= (p->side[s].used & RELAY_USED_PLACE) || p->side[s].bytes;
            p->side[s].used &= (uint8_t)~RELAY_USED_PLACE;
        }
        if (used) continue;
        for (int s = 0; s < 2; s++) hint(r, p, s);
        asked++;
    }
}

/* --- laying a pointer ----------------------------------------------------------------------------------- */

static void ask_route(struct relay *r, struct relay_path *p, moyai_ns now) {
    p->state = PATH_ROUTING;
    p->until = relay_after(now, r->route);
    relay_path_list(r, p, ON_ROUTE, true);
    relay_tell(r, p, RELAY_TELL_ROUTE);
}

static void go_by(struct relay *r, struct relay_path *p, uint32_t link) {
    struct relay_side *y = &p->side[1];
    relay_path_list(r, p, ON_ROUTE, false);
    p->until = 0;
    p->state = PATH_OPEN;
    relay_side_put(r, p, 1, link, relay_label_new(r, link));
    y->credit = (int32_t)r->own;
    y->out = (int32_t)(p->ends ? r->most : r->own);
    y->lent = (uint32_t)y->out - r->own;
    relay_say(r, p, 1, RELAY_SAY_PATH);
    relay_schedule(r, p, 1);
    relay_room(r, p);
}

static int step_open(struct relay *r, const struct relay_event *ev) {
    uint32_t link = ev->link ? relay_link_find(r, ev->link) : 0;
    if ((ev->link && !link) || id_zero(ev->id.b) || id_equal(ev->id.b, r->self)) return MOYAI_EINVAL;
    struct relay_path *p = r->live < r->pointers ? relay_path_add(r) : NULL;
    if (!p) return MOYAI_ENOMEM;
    uint64_t id;
    do id = rng_next(&r->rng);
    while (id == 0 || relay_id_find(r, id));
    relay_id_put(r, p, id);
    memcpy(p->to, ev->id.b, 16);
    memcpy(p->from, r->self, 16);
    p->hops = (uint8_t)r->hops;
    p->ends = 1;
    p->side[0].where = HERE;
    r->live++;
    relay_tell(r, p, RELAY_TELL_OPENED);
    if (link)
        go_by(r, p, link);
    else
        ask_route(r, p, ev->now);
    return 0;
}

static int step_routed(struct relay *r, const struct relay_event *ev) {
    struct relay_path *p = relay_path_find(r, ev->path);
    if (!p || p->state != PATH_ROUTING) return MOYAI_EINVAL;
    uint32_t link = relay_link_find(r, ev->link);
    if (ev->link == 0) {
        end_path(r, p, RELAY_NO_ROUTE, r->self, -1);
        return 0;
    }
    bool back = p->side[0].where == BY_LINK && p->side[0].link == link;
    if (link && !back && !id_equal(relay_link_at(r, link)->id, p->from)) {
        go_by(r, p, link);
        return 0;
    }
    if (++p->tries < r->tries)
        relay_tell(r, p, RELAY_TELL_ROUTE);
    else
        end_path(r, p, RELAY_NO_ROUTE, r->self, -1);
    return 0;
}

/* Why a PATH goes no further; RELAY_CLOSED: it does. */
static enum relay_code objection(const struct relay *r, const struct relay_frame *f, bool here) {
    if (relay_id_find(r, f->id) || id_equal(f->from.b, r->self)) return RELAY_LOOP;
    if (r->leaving && !here) return RELAY_REFUSED;
    if (f->hops == 0 && !here) return RELAY_TTL;
    bool room = here || r->passing < r->pointers - r->pointers / 4; /* the rest is for those that end here */
    return room && r->live < r->pointers ? RELAY_CLOSED : RELAY_NO_MEMORY;
}

static int receive_path(struct relay *r, uint32_t link, const struct relay_event *ev) {
    const struct relay_frame *f = ev->frame;
    if (f->label == 0 || relay_label_ours(r, link, f->label) || relay_side_find(r, link, f->label)) return MOYAI_EPROTO;
    if (f->amount < r->own || f->amount > INT32_MAX || f->hops > 255 || f->id == 0 || id_zero(f->to.b) ||
        id_zero(f->from.b) || id_equal(f->to.b, f->from.b))
        return MOYAI_EPROTO;
    bool here = id_equal(f->to.b, r->self);
    enum relay_code code = objection(r, f, here);
    struct relay_path *p = relay_path_add(r);
    if (!p) return MOYAI_EBUSY;
    if (!here && relay_short(r)) ask_for_places(r);
    relay_side_put(r, p, 0, link, f->label);
    memcpy(p->to, f->to.b, 16);
    memcpy(p->from, f->from.b, 16);
    struct relay_side *y = &p->side[0];
    y->out = (int32_t)r->own;
    if (code != RELAY_CLOSED) {
        p->state = PATH_ENDING;
        say_error(r, p, 0, code, r->self);
        return 0;
    }
    relay_id_put(r, p, f->id);
    y->credit = (int32_t)f->amount;
    r->live++;
    if (!here) {
        r->passing++;
        p->hops = (uint8_t)(f->hops - 1);
        ask_route(r, p, ev->now);
        return 0;
    }
    p->state = PATH_OPEN;
    p->ends = 1;
    p->side[1].where = HERE;
    y->lent = y->due = r->most - r->own;
    relay_owe(r, p, 0);
    relay_tell(r, p, RELAY_TELL_ARRIVED);
    return 0;
}

/* --- what travels along it ---------------------------------------------------------------------------------- */

/* A relay on the path leaves: the path goes on, its ends should look for another. */
static void warn(struct relay *r, struct relay_path *p, int s, const uint8_t who[16]) {
    struct relay_side *y = &p->side[s];
    if (p->state != PATH_OPEN) return;
    if (y->where == HERE) {
        memcpy(p->who, who, 16);
        relay_tell(r, p, RELAY_TELL_LEAVING);
    } else if (y->where == BY_LINK) {
        memcpy(y->who, who, 16);
        relay_say(r, p, s, RELAY_SAY_WARN);
    }
}

static int receive_error(struct relay *r, struct relay_path *p, int s, const struct relay_frame *f) {
    if (f->code == RELAY_CLOSED || f->code >= RELAY_CODES) return MOYAI_EPROTO;
    if (f->code == RELAY_LEAVING) {
        warn(r, p, 1 - s, f->node.b);
        return 0;
    }
    end_path(r, p, f->code, f->node.b, s);
    return 0;
}

static int step_frame(struct relay *r, const struct relay_event *ev) {
    const struct relay_frame *f = ev->frame;
    uint32_t link = relay_link_find(r, ev->link);
    if (!link) return MOYAI_EINVAL;
    if (f->kind == RELAY_PATH) return receive_path(r, link, ev);
    uint32_t ref = relay_side_find(r, link, f->label);
    if (!ref) return 0; /* late */
    struct relay_path *p = relay_path_of(r, ref);
    int s = (int)((ref - 1) & 1);
    if (p->side[s].say & RELAY_SAY_PATH) return MOYAI_EPROTO; /* before it could know the label */
    bool last = f->kind == RELAY_CLOSE || (f->kind == RELAY_ERROR && f->code != RELAY_LEAVING);
    if (last && p->state == PATH_ENDING) { /* both at once */
        relay_side_drop(r, p, s);
        place_free(r, p);
        return 0;
    }
    if (f->kind == RELAY_ERROR) return receive_error(r, p, s, f);
    if (f->kind == RELAY_CREDIT && f->amount == 0) {
        hint(r, p, 1 - s);
        return 0;
    }
    if (f->kind != RELAY_CLOSE) return relay_flow_frame(r, p, s, f);
    close_side(r, p, s);
    return 0;
}

/* --- other events ---------------------------------------------------------------------------------------------- */

static int step_link_up(struct relay *r, const struct relay_event *ev) {
    if (ev->link == 0 || id_zero(ev->id.b) || id_equal(ev->id.b, r->self) || relay_link_find(r, ev->link))
        return MOYAI_EINVAL;
    return relay_link_add(r, ev->link, ev->id.b) ? 0 : MOYAI_ENOMEM;
}

static int step_link_down(struct relay *r, uint64_t number) {
    uint32_t link = relay_link_find(r, number), ref;
    if (!link) return MOYAI_EINVAL;
    while ((ref = relay_link_at(r, link)->all[ON_LINK].first) != 0) {
        struct relay_path *p = relay_path_of(r, ref);
        int s = (int)((ref - 1) & 1);
        if (p->state != PATH_ENDING) {
            end_path(r, p, RELAY_BROKEN, r->self, s);
            continue;
        }
        relay_side_drop(r, p, s);
        place_free(r, p);
    }
    relay_link_remove(r, link);
    return 0;
}

static int step_end(struct relay *r, const struct relay_event *ev) {
    struct relay_path *p = relay_path_find(r, ev->path);
    if (!p || ev->code == RELAY_LEAVING || ev->code >= RELAY_CODES) return MOYAI_EINVAL;
    int h = p->side[1].where == HERE;
    if (p->side[h].where != HERE) return MOYAI_EINVAL;
    if (ev->code == RELAY_CLOSED)
        close_side(r, p, h);
    else
        end_path(r, p, ev->code, r->self, h);
    return 0;
}

static bool lives(const struct relay_path *p) {
    return p->state == PATH_ROUTING || p->state == PATH_OPEN;
}

static int step_gone(struct relay *r, const struct relay_event *ev) {
    if (ev->code != RELAY_DEAD && ev->code != RELAY_LEFT && ev->code != RELAY_CLEARED) return MOYAI_EINVAL;
    for (uint32_t ref = 1; ref <= r->paths_top; ref++) {
        struct relay_path *p = relay_path_at(r, ref);
        if (lives(p) && (id_equal(p->to, ev->id.b) || id_equal(p->from, ev->id.b)))
            end_both(r, p, ev->code, r->self, -1, id_equal(p->to, ev->id.b));
    }
    return 0;
}

static int step_withdraw(struct relay *r, moyai_ns now) {
    if (r->leaving) return MOYAI_EINVAL;
    r->leaving = 1;
    r->withdraw_at = relay_after(now, r->withdraw);
    if (r->passing == 0) {
        r->withdraw_at = 0;
        r->withdrawn = 1;
        r->draining = 1;
    }
    for (uint32_t ref = 1; ref <= r->paths_top; ref++) {
        struct relay_path *p = relay_path_at(r, ref);
        if (!lives(p) || p->ends) continue;
        if (p->state == PATH_ROUTING)
            end_path(r, p, RELAY_REFUSED, r->self, -1);
        else
            for (int s = 0; s < 2; s++) warn(r, p, s, r->self);
    }
    return 0;
}

static int step_timeout(struct relay *r, moyai_ns now) {
    while (r->routes.first && relay_path_at(r, r->routes.first)->until <= now)
        end_path(r, relay_path_at(r, r->routes.first), RELAY_NO_ROUTE, r->self, -1);
    if (!r->withdraw_at || now < r->withdraw_at) return 0;
    for (uint32_t ref = 1; ref <= r->paths_top; ref++) {
        struct relay_path *p = relay_path_at(r, ref);
        if (lives(p) && !p->ends) end_path(r, p, RELAY_BROKEN, r->self, -1);
    }
    return 0;
}

int relay_step(struct relay *r, const struct relay_event *ev) {
    if (ev->kind == RELAY_EV_WANT) return relay_want(r, ev->path);
    if (ev->kind == RELAY_EV_SEND) return relay_send(r, ev);
    if (r->draining) return MOYAI_EINVAL;
    switch (ev->kind) {
    case RELAY_EV_LINK_UP:
        return step_link_up(r, ev);
    case RELAY_EV_LINK_DOWN:
        return step_link_down(r, ev->link);
    case RELAY_EV_OPEN:
        return step_open(r, ev);
    case RELAY_EV_ROUTED:
        return step_routed(r, ev);
    case RELAY_EV_FRAME:
        return step_frame(r, ev);
    case RELAY_EV_RECEIVE:
        return relay_receive(r, ev);
    case RELAY_EV_END:
        return step_end(r, ev);
    case RELAY_EV_GONE:
        return step_gone(r, ev);
    case RELAY_EV_WITHDRAW:
        return step_withdraw(r, ev->now);
    case RELAY_EV_TIMEOUT:
        return step_timeout(r, ev->now);
    case RELAY_EV_WANT:
    case RELAY_EV_SEND:
        break; /* above */
    }
    return MOYAI_EINVAL;
}

/* --- effects -------------------------------------------------------------------------------------------------------
 */

/* For the next frame from here. With plenty of credit it may be a long one, so that a transfer takes fewer of them: who
 * may lend little is not to hold more for it. */
static uint32_t room(const struct relay *r, const struct relay_path *p) {
    int64_t credit = p->side[p->side[0].where == HERE].credit;
    return credit >= 2 * (int64_t)r->frame ? r->frame : r->own;
}

static void tell_next(struct relay *r, struct relay_effect *fx) {
    struct relay_path *p = relay_path_at(r, r->tells.first);
    uint32_t bit = p->tell & (uint32_t) - (int32_t)p->tell;
    const struct relay_side *back = &p->side[0];
    *fx = (struct relay_effect){.path = relay_handle(r, p)};
    p->tell &= (uint8_t)~bit;
    if (!p->tell) relay_path_list(r, p, ON_TELL, false);
    switch ((enum relay_tell)bit) {
    case RELAY_TELL_OPENED:
        fx->kind = RELAY_FX_OPENED;
        break;
    case RELAY_TELL_ROUTE:
        fx->kind = RELAY_FX_ROUTE;
        memcpy(fx->id.b, p->to, 16);
        memcpy(fx->from.b, p->from, 16);
        fx->amount = p->tries;
        fx->link = back->where == BY_LINK ? relay_link_at(r, back->link)->number : 0;
        break;
    case RELAY_TELL_ARRIVED:
        fx->kind = RELAY_FX_ARRIVED;
        memcpy(fx->id.b, p->from, 16);
        fx->link = relay_link_at(r, back->link)->number;
        break;
    case RELAY_TELL_ROOM:
        fx->kind = RELAY_FX_ROOM;
        fx->amount = room(r, p) - RELAY_TOLL;
        break;
    case RELAY_TELL_LEAVING:
        fx->kind = RELAY_FX_LEAVING;
        memcpy(fx->id.b, p->who, 16);
        break;
    case RELAY_TELL_SHORT:
        fx->kind = RELAY_FX_SHORT;
        break;
    case RELAY_TELL_DOWN:
        fx->kind = RELAY_FX_DOWN;
        fx->code = (enum relay_code)p->code;
        memcpy(fx->id.b, p->who, 16);
        for (int s = 0; s < 2; s++)
            if (p->side[s].where == HERE) relay_side_drop(r, p, s);
        place_free(r, p);
        break;
    }
}

bool relay_next(struct relay *r, struct relay_effect *fx) {
    if (!r->draining) return false;
    *fx = (struct relay_effect){.kind = RELAY_FX_DELIVER, .path = r->deliver, .token = r->deliver_token};
    if (r->deliver) {
        r->deliver = r->deliver_token = 0;
        return true;
    }
    if (r->tells.first) {
        tell_next(r, fx);
        return true;
    }
    fx->kind = RELAY_FX_FREE;
    if (relay_freed_next(r, &fx->token)) return true;
    fx->kind = RELAY_FX_WAKE;
    if (relay_wake_next(r, &fx->link)) return true;
    fx->kind = RELAY_FX_WITHDRAWN;
    if (r->withdrawn == 1) {
        r->withdrawn = 2;
        return true;
    }
    r->draining = 0;
    return false;
}

moyai_ns relay_deadline(const struct relay *r) {
    uint64_t at = r->routes.first ? relay_path_at(r, r->routes.first)->until : UINT64_MAX;
    return r->withdraw_at && r->withdraw_at < at ? r->withdraw_at : at;
}

struct relay_count relay_count(const struct relay *r) {
    struct relay_count c = {.links = r->links_n, .paths = r->live, .passing = r->passing, .lent = r->lent};
    for (uint32_t ref = 1; ref <= r->paths_top; ref++) {
        const struct relay_path *p = relay_path_at(r, ref);
        if (lives(p) && !p->ends) c.held += (uint64_t)p->side[0].bytes + p->side[1].bytes;
    }
    return c;
}
