/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold between any two events of the peers machine. Tests and simulations call it; a running node does not.
 */
#include "overlay/peers_internal.h"
#include "overlay/peers_wire.h"

#include "base/err.h"

#include <string.h>

static bool is_zero(const void *at, size_t n) {
    const uint8_t *p = at;
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

static const char *links_check(const struct peers *p) {
    const struct peers_link *l = peers_links(p);
    uint32_t offered = 0, mesh = 0, direct = 0, far = 0, here = 0;
    uint32_t guests = 0, asked = 0, rescued = 0, extra = 0, looking[2] = {0};
    if (p->links_n > p->links_cap || p->dials_n > p->dials_cap) return "more links than places";
    for (uint32_t i = 0; i < p->links_n; i++) {
        if (l[i].link == 0 || id_zero(l[i].id) || id_equal(l[i].id, p->self)) return "a link to nobody";
        if (l[i].state != PEERS_OFFERED && l[i].state != PEERS_USED) return "a link in no state";
        if (l[i].kind > PEERS_LINE) return "a link of no kind";
        for (uint32_t k = 0; k < i; k++)
            if (l[k].link == l[i].link || id_equal(l[k].id, l[i].id)) return "two links to one node";
        bool used = l[i].state == PEERS_USED;
        offered += !used;
        direct += used && l[i].kind == PEERS_DIRECT;
        mesh += used && l[i].kind != PEERS_DIRECT;
        far += used && l[i].kind != PEERS_DIRECT && (l[i].flags & LINK_FAR);
        here += used && l[i].kind != PEERS_DIRECT && l[i].here;
        guests += (l[i].flags & LINK_GUEST) != 0;
        rescued += (l[i].flags & LINK_RESCUED) != 0;
        looking[(l[i].flags & LINK_RESCUED) != 0] += (l[i].flags & LINK_LOOKS) != 0;
        extra += (l[i].flags & LINK_EXTRA) != 0;
        asked += (l[i].flags & LINK_YIELD) != 0;
        if (!used && l[i].flags & ~(uint32_t)(LINK_EXTRA | LINK_FAR))
            return "a link not agreed on has flags of one that is";
        if (used && l[i].flags & LINK_EXTRA) return "an extra link stays marked";
        if ((l[i].due != 0) != (!used || (l[i].flags & LINK_YIELD)))
            return "a link's timer runs when it should not, or not";
        if (l[i].flags & LINK_YIELD && l[i].kind != PEERS_MESH) return "asked for a link that cannot be given up";
    }
    for (uint32_t i = 0; i < p->dials_n; i++) {
        const struct peers_dial *d = &peers_dials(p)[i];
        extra += d->extra != 0;
        if (peers_link_to(p, d->id) || id_equal(d->id, p->self)) return "connecting to a node that has a link";
        for (uint32_t k = 0; k < i; k++)
            if (id_equal(peers_dials(p)[k].id, d->id)) return "connecting twice to one node";
    }
    if (offered != p->offered || mesh != p->mesh || direct != p->direct || far != p->far || here != p->here)
        return "links are miscounted";
    if (guests != p->guests || rescued != p->rescued) return "guests are miscounted";
    if (guests > PEERS_SLACK || rescued > p->rescue) return "too many guests";
    if (looking[0] != p->looking[0] || looking[1] != p->looking[1]) return "those who look are miscounted";
    if (looking[0] > p->most / 3 || looking[1] > peers_look_places(p)) return "too many who look";
    if (guests > asked) return "a guest for whose place nobody is asked";
    if (guests && mesh + direct - rescued <= p->most) return "guests, though there is room";
    if (direct > p->most / 3) return "too many direct links";
    if (extra != (p->extra == 2)) return "the extra link is not where it should be";
    if (p->leaving && p->dials_n) return "connecting while leaving";
    if (!is_zero(&l[p->links_n], (p->links_cap - p->links_n) * sizeof *l)) return "a free link is not zero";
    if (!is_zero(&peers_dials(p)[p->dials_n], (p->dials_cap - p->dials_n) * sizeof(struct peers_dial)))
        return "a free attempt is not zero";
    return NULL;
}

static const char *known_check(const struct peers *p) {
    const struct peers_known *k = peers_knowns(p);
    uint32_t near = 0;
    if (p->known_n > p->known_cap) return "more endpoints than places";
    for (uint32_t i = 0; i < p->known_n; i++) {
        if (id_equal(k[i].id, p->self) || id_zero(k[i].id)) return "an endpoint of nobody";
        if (k[i].n_text == 0 || k[i].n_text > p->text || !peers_addresses_ok(peers_text(p, i), k[i].n_text))
            return "an endpoint without good addresses";
        if (!is_zero(peers_text(p, i) + k[i].n_text, p->text - k[i].n_text))
            return "more behind an endpoint's addresses";
        if (k[i].near != (k[i].site != 0 && k[i].site == p->site)) return "near and of another site, or the reverse";
        if (!k[i].near && !k[i].accepts) return "an endpoint that cannot be connected to";
        if (peers_find(p, k[i].id) != &k[i]) return "an endpoint twice";
        if (k[i].again > (k[i].lost != 0)) return "called again, though it was not lost";
        if (k[i].until < p->expire_at) return "an endpoint that ends when nobody looks";
        near += k[i].near;
    }
    if (near != p->near_n) return "near endpoints are miscounted";
    if (near > p->known_cap / 4 || p->known_n - near > p->known_cap - p->known_cap / 4) return "a share is exceeded";
    if (!is_zero(&k[p->known_n], (p->known_cap - p->known_n) * sizeof *k)) return "a free endpoint is not zero";
    if (!is_zero(peers_text(p, p->known_n), (size_t)(p->known_cap - p->known_n) * p->text))
        return "the addresses of a free endpoint are not zero";
    return NULL;
}

bool peers_check(const struct peers *p, struct moyai_error *why) {
    const char *text = links_check(p);
    if (!text) text = known_check(p);
    if (!text && (p->fx_n > p->fx_cap || p->fx_at > p->fx_n)) text = "more effects than places";
    if (!text && !p->fx_n && (p->now || !is_zero(peers_fxs(p), p->fx_cap * sizeof(struct peers_fx))))
        text = "effects left over";
    if (text) err_set(why, MOYAI_EINTERNAL, "peers: %s", text);
    return !text;
}
