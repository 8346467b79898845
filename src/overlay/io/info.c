/* SPDX-License-Identifier: Apache-2.0 */
/* What the overlay knows of this node and its links, for reports. */
#include "overlay/io/internal.h"
#include "overlay/io/lines.h"
#include "overlay/io/met.h"
#include "overlay/io/route.h"
#include "overlay/io/wide.h"
#include "overlay/peers.h"
#include "overlay/peers_entry.h"
#include "overlay/peers_wire.h"

#define FRESH 60u /* seconds: nodes say anew where they are within 45 */

void overlay_self(const struct overlay *o, struct overlay_self *out) {
    *out = (struct overlay_self){.title = o->title, .site = o->site};
    memcpy(out->host, o->hello.host, sizeof out->host);
    route_counts(o->route, &out->locating, &out->forwarded);
}

bool overlay_unmet(const struct overlay *o, char out[OVERLAY_UNMET], unsigned *what) {
    out[0] = 0;
    *what = 0;
    return o->wide && met_nobody(wide_met(o->wide), out, OVERLAY_UNMET, what);
}

bool overlay_settled(const struct overlay *o, bool new_too) {
    return o->wide && !o->closing && met_settled(wide_met(o->wide), new_too);
}

bool overlay_refused(const struct overlay *o) {
    return o->wide && !o->cfg.grid_file && met_refused(wide_met(o->wide));
}

bool overlay_heard(const struct overlay *o) {
    return o->wide && met_heard(wide_met(o->wide));
}

#define LINK_YOUNG MOYAI_SEC
#define LINK_LATE  (5 * MOYAI_SEC) /* others that were without as well have looked several times */

struct overlay_asks overlay_asks(const struct overlay *o) {
    moyai_ns near = 0, far = 0; /* the oldest of each */
    for (const struct olink *k = o->links; k; k = k->next) {
        moyai_ns *oldest = k->tcp ? &far : &near;
        if (k->mesh && !k->observer && (*oldest == 0 || k->up_since < *oldest)) *oldest = k->up_since;
    }
    const moyai_ns since = far ? far : near;
    struct overlay_asks a = {.linked = since > 0};
    /* Not at its beginning: it was without for some time, or all have been replaced. */
    a.late = a.linked && o->wide && since > wide_met(o->wide)->began + 2 * (moyai_ns)LINK_YOUNG;
    a.sure = since + (moyai_ns)(a.late ? LINK_LATE : LINK_YOUNG);
    a.alone = since == 0 && o->wide && met_empty(wide_met(o->wide)) && peers_count(wide_peers(o->wide)).known == 0;
    return a;
}

bool overlay_left_out(const struct overlay *o) {
    if (!o->wide || !met_heard(wide_met(o->wide))) return false;
    const struct peers *p = wide_peers(o->wide);
    const struct peers_count c = peers_count(p);
    bool all = c.mesh == 0 && c.known > 0;
    for (uint32_t i = 0; all && i < c.known; i++)
        all = met_is_full(wide_met(o->wide), peers_known_at(p, i, exec_now(o->x)).id.b);
    return all;
}

bool overlay_accepts(const struct overlay *o) {
    return o->wide && wide_self(o->wide)->accepts;
}

size_t overlay_turned_away(const struct overlay *o) {
    return o->wide ? wide_met(o->wide)->turned_away : 0;
}

/* All who have said lately where they are. */
static bool none_is_reached(const struct overlay *o) {
    const struct peers *p = wide_peers(o->wide);
    const uint32_t n = peers_count(p).known;
    uint32_t fresh = 0;
    if (peers_count(p).mesh > 0) return false;
    for (uint32_t i = 0; i < n; i++) {
        const struct peers_endpoint e = peers_known_at(p, i, exec_now(o->x));
        if (e.lifetime + FRESH < PEERS_ENTRY_LIFETIME) continue;
        if (!met_dial_has_failed(wide_met(o->wide), e.id.b)) return false;
        fresh++;
    }
    return fresh > 0;
}

unsigned overlay_report(const struct overlay *o, char *out, size_t n) {
    out[0] = 0;
    if (!o->wide) return 0;
    const struct met *m = wide_met(o->wide);
    const unsigned what = met_report(m, (moyai_dur)(moyai_now() - m->began), out, n);
    return what | (none_is_reached(o) ? MET_UNREACHED : 0);
}

void overlay_each_known(const struct overlay *o, bool (*fn)(const struct overlay_known *k, void *ctx), void *ctx) {
    const struct peers *p = o->wide ? wide_peers(o->wide) : NULL;
    const uint32_t n = p ? peers_count(p).known : 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct peers_endpoint e = peers_known_at(p, i, exec_now(o->x));
        char at[PEERS_ADDRESS + 1];
        if (!peers_address_get(&e, 0, at)) continue;
        uint32_t age = e.lifetime < PEERS_ENTRY_LIFETIME ? PEERS_ENTRY_LIFETIME - e.lifetime : 0;
        const struct peer *q = overlay_find(o, e.id.b);
        const struct overlay_known known = {e.id.b, at, (moyai_dur)age * MOYAI_SEC, q && olink_ready(q)};
        if (!fn(&known, ctx)) return;
    }
}

void overlay_each_line(const struct overlay *o, bool (*fn)(const struct overlay_line *l, void *ctx), void *ctx) {
    lines_each(o->lines, fn, ctx);
}

static const char *kind_of(const struct olink *k) {
    return link_tls(k->link) ? "tcp" : "unix";
}

void overlay_each_peer(const struct overlay *o, bool (*fn)(struct peer *p, void *ctx), void *ctx) {
    struct peer *p, *tmp;
    HASH_ITER (hh, o->peers, p, tmp)
        if (!fn(p, ctx)) return;
}

static bool add_untaken(struct peer *p, void *ctx) {
    size_t *n = ctx;
    if (!p->dead) *n += p->waiting_calls + p->waiting_others + (p->session ? session_owes(p->session) : 0);
    return true;
}

size_t overlay_untaken(const struct overlay *o) {
    size_t n = 0;
    overlay_each_peer(o, add_untaken, &n);
    return n;
}

void overlay_each_link(const struct overlay *o, bool (*fn)(const struct overlay_link_info *l, void *ctx), void *ctx) {
    for (const struct olink *k = o->links; k; k = k->next) {
        if (!k->up) continue;
        const struct overlay_link_info l = {.peer = k->peer->id,
                                            .title = k->peer->title,
                                            .kind = kind_of(k),
                                            .pid = k->tcp ? 0 : k->peer->pid,
                                            .outgoing = k->outgoing,
                                            .direct = k->direct,
                                            .observer = k->observer,
                                            .up = k->up_since,
                                            .queued = link_queued(k->link)};
        if (!fn(&l, ctx)) return;
    }
}

bool overlay_way(struct overlay *o, const struct moyai_node_id *end, uint64_t path, struct overlay_way *out) {
    const struct peer *p = path ? NULL : overlay_find(o, end->b);
    *out = (struct overlay_way){.path = path};
    if (p && p->via.link) {
        out->next = *end;
        out->kind = kind_of(p->via.link);
        return true;
    }
    if (p && p->via.path && !route_path_id(o->route, p->via.path, &out->path)) return false;
    if (!out->path || !o->route || !route_path_next(o->route, out->path, end, &out->next)) return false;
    p = overlay_find(o, out->next.b);
    const struct olink *k = p ? olink_ready(p) : NULL;
    out->kind = k ? kind_of(k) : "";
    return true;
}
