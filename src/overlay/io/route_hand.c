/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that go from hand to hand, without a path: evidence of death, pings, offers of direct links. */
#include "base/err.h"
#include "overlay/death.h"
#include "overlay/io/direct.h"
#include "overlay/io/mourn.h"
#include "overlay/io/route_internal.h"

#include <string.h>

struct olink *route_any_link(struct route *t, locate_set avoid) {
    struct olink *some = NULL;
    uint64_t n = 0;
    for (uint32_t i = 0; i < LOCATE_LINKS; i++)
        if (t->slot[i] && !set_has(&avoid, i) && rng_below(&t->o->rng, ++n) == 0) some = t->slot[i];
    return some;
}

/* Frames that were forwarded came from somewhere: answers go back the same way while it stands. */
static void back_note(struct route *t, const uint8_t from[16], const struct olink *k) {
    uint64_t h;
    memcpy(&h, from, sizeof h);
    struct back *b = &t->back[h % t->n_back];
    memcpy(b->id, from, 16);
    b->link = k->number;
}

static struct olink *back_link(struct route *t, const uint8_t to[16], locate_set avoid) {
    uint64_t h;
    memcpy(&h, to, sizeof h);
    const struct back *b = &t->back[h % t->n_back];
    struct olink *k = b->link && id_equal(b->id, to) ? olink_by_number(t->o, b->link) : NULL;
    return k && k->slot >= 0 && !set_has(&avoid, (uint32_t)k->slot) ? k : NULL;
}

/* Links by which nothing leaves. One may just be ending, and still have its place here: where it led to are the dead
 * node's neighbours, whom this node has to tell, and they seem to be nearest by it. */
static locate_set shut_links(const struct route *t) {
    locate_set shut = SET_NONE;
    for (uint32_t i = 0; i < LOCATE_LINKS; i++)
        if (t->slot[i] && (!t->slot[i]->mesh || link_room(t->slot[i]->link) == 0)) set_add(&shut, i);
    return shut;
}

/* Who knows no way goes by where the other's frames came from, by a digest, or lets a neighbour try: in a large grid
 * hardly two neighbours of a third know one to each other, and to ask for it would cost more than all of this. */
static void forward(struct route *t, locate_set avoid, const uint8_t to[16], const struct frame_head *h,
                    const struct link_piece *pieces, size_t n) {
    struct locate_hop hop;
    struct moyai_node_id id;
    memcpy(id.b, to, 16);
    struct olink *k = NULL;
    const struct peer *p = overlay_find(t->o, to);
    if (p) k = olink_ready(p);
    if (!k) avoid |= shut_links(t);
    if (!k && h->hops > 0 && locate_route(t->l, &id, avoid, exec_now(t->o->x), &hop)) k = t->slot[hop.link];
    if (!k && h->hops > 0) k = back_link(t, to, avoid);
    uint32_t slot;
    if (!k && h->hops > 0 && locate_guess(t->l, &id, avoid, &slot)) k = t->slot[slot];
    if (!k && h->hops > 0) k = route_any_link(t, avoid);
    if (!k || link_room(k->link) == 0) return;
    if (link_send(k->link, h, pieces, n) < 0) return;
    if (k->mesh)
        route_flush_later(t, k);
    else
        link_flush(k->link);
}

void route_forward(struct overlay *o, const uint8_t to[16], const uint8_t from[16], uint8_t type, const uint8_t *p,
                   size_t n, unsigned hops) {
    uint8_t head[FORWARD_HEAD] = {0};
    memcpy(head, to, 16);
    memcpy(head + 16, from, 16);
    head[32] = type;
    struct frame_head h = {
        .type = FRAME_FORWARD, .class_ = FRAME_CONTROL, .hops = (uint8_t)hops, .length = (uint32_t)(FORWARD_HEAD + n)};
    struct link_piece pieces[] = {{head, FORWARD_HEAD}, {p, n}};
    forward(o->route, SET_NONE, to, &h, pieces, n > 0 ? 2 : 1);
    route_run(o->route);
}

int route_forwarded(struct olink *k, const struct frame_head *h, const uint8_t *payload, struct moyai_error *why) {
    struct overlay *o = k->o;
    struct route *t = o->route;
    if (h->length < FORWARD_HEAD || h->length > FORWARD_MOST)
        return err_set(why, MOYAI_EPROTO, "forwarded frame of %u bytes", h->length);
    const uint8_t *to = payload, *from = payload + 16;
    uint8_t type = payload[32];
    back_note(t, from, k);
    bool ping = type == FRAME_PING || type == FRAME_PONG;
    bool direct = type == FRAME_DIRECT_ASK || type == FRAME_DIRECT_TELL;
    if (!ping && !direct && (type < FRAME_DEATH || type > FRAME_DEATH_LAST))
        return err_set(why, MOYAI_EPROTO, "a frame of type %u is not to be forwarded", type);
    if (!id_equal(to, o->cfg.self.b)) {
        if (h->hops == 0) return 0; /* it has been on its way for too long */
        struct frame_head on = *h;
        on.hops = (uint8_t)((h->hops < FORWARD_HOPS ? h->hops : FORWARD_HOPS) - 1);
        struct link_piece piece = {payload, h->length};
        forward(t, k->slot >= 0 ? set_of((uint32_t)k->slot) : SET_NONE, to, &on, &piece, 1);
        route_run(t);
        return 0;
    }
    /* What its sender made is no reason to close the link to whoever passed it on. */
    struct moyai_error of_sender;
    if (id_equal(from, o->cfg.self.b)) return 0;
    const struct peer *sender = overlay_find(o, from);
    /* But of one that tells this node the same: the two would go on telling each other. */
    if (sender && sender->dead && type != FRAME_DEATH + DEATH_DEAD) {
        if (sender->why_code == MOYAI_EDEAD) mourn_tell(o, from);
        return 0;
    }
    if (ping)
        pings_far(o, from, type, payload + FORWARD_HEAD, h->length - FORWARD_HEAD);
    else if (direct)
        direct_frame(o, from, type, payload + FORWARD_HEAD, h->length - FORWARD_HEAD);
    else
        (void)mourn_frame(o, from, type, payload + FORWARD_HEAD, h->length - FORWARD_HEAD, &of_sender);
    return 0;
}
