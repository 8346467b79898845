/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of a session over a path count what moves on it. Where that is MUCH, an end ASKs the other for its
 * addresses, saying its own, and the other TELLs. One of them connects: it alone if only the other can be connected to;
 * else, turn by turn, the lower id and the higher, for a firewall may be in one's way and not in the other's. What did
 * not work is tried again, ever more seldom. The peers machine says whether there is room for the link (spec 03, 3.4);
 * when both have agreed on it the session moves to it, as to any link to its peer.
 */
#include "overlay/io/direct.h"

#include "overlay/io/route.h"
#include "overlay/io/staying.h"
#include "overlay/io/wide.h"
#include "overlay/peers_wire.h"

#include <string.h>

#define MUCH       (8u << 20) /* bytes */
#define SPAN       (5 * MOYAI_SEC)
#define AGAIN      (5 * MOYAI_SEC)
#define TRIES_MOST 8u /* AGAIN is doubled so often */
#define HEAD       8u /* try (1), zero (7); then an OFFER */

static void say(struct peer *p, uint8_t type, unsigned try) {
    struct overlay *o = p->o;
    struct peers_frame f = {.kind = PEERS_OFFER, .n = 1, .e = {*wide_self(o->wide)}};
    uint8_t bytes[FORWARD_MOST - FORWARD_HEAD] = {(uint8_t)try};
    _Static_assert(HEAD + 40 + PEERS_TEXT <= sizeof bytes, "an endpoint fits");
    peers_wire_put(bytes + HEAD, &f);
    route_forward(o, p->id, o->cfg.self.b, type, bytes, HEAD + peers_wire_size(&f), FORWARD_HOPS);
}

void direct_moved(struct peer *p, size_t bytes) {
    struct direct *d = &p->direct;
    moyai_ns now = exec_now(p->o->x);
    if (now - d->since > (moyai_ns)SPAN) {
        d->since = now;
        d->bytes = 0;
    }
    d->bytes += bytes;
    if (d->bytes < MUCH || now < d->again || p->o->closing || staying_leaves(p->o)) return;
    d->again = now + ((moyai_ns)AGAIN << d->tries);
    d->asked = true;
    say(p, FRAME_DIRECT_ASK, d->tries);
    if (d->tries < TRIES_MOST) d->tries++;
}

static bool reaches(const struct peers_endpoint *from, const struct peers_endpoint *to) {
    return to->n_text > 0 && (to->accepts || (to->site != 0 && to->site == from->site));
}

static bool is_mine(struct peer *p, unsigned try, const struct peers_endpoint *other) {
    const struct peers_endpoint *self = wide_self(p->o->wide);
    if (!reaches(self, other)) return false;
    if (!reaches(other, self)) return true;
    bool lower = id_cmp(self->id.b, p->id) < 0;
    return lower == (try % 2 == 0);
}

void direct_frame(struct overlay *o, const uint8_t from[16], uint8_t type, const uint8_t *bytes, size_t n) {
    struct peer *p = overlay_find(o, from);
    struct peers_frame f;
    /* Only to whom a session goes by a path is a link of any use; a TELL must have been asked for. */
    if (!p || p->dead || o->closing || !p->session || !p->via.path) return;
    if (n < HEAD || peers_wire_get(FRAME_PEERS + PEERS_OFFER, bytes + HEAD, n - HEAD, &f, NULL) < 0) return;
    if (!id_equal(f.e[0].id.b, from)) return;
    if (type == FRAME_DIRECT_ASK)
        say(p, FRAME_DIRECT_TELL, bytes[0]);
    else if (!p->direct.asked)
        return;
    else
        p->direct.asked = false;
    if (is_mine(p, bytes[0], &f.e[0])) wide_direct(o->wide, p, &f.e[0]);
}

void direct_over(struct peer *p) {
    p->direct = (struct direct){0};
    for (struct olink *k = p->links, *next; k; k = next) {
        next = k->peer_next;
        if (k->direct && k->outgoing) wide_direct_end(k);
    }
}
