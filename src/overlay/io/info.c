/* SPDX-License-Identifier: Apache-2.0 */
/* What the overlay knows of this node and its links, for reports. */
#include "overlay/io/internal.h"
#include "overlay/io/met.h"
#include "overlay/io/route.h"
#include "overlay/io/wide.h"

void overlay_self(const struct overlay *o, struct overlay_self *out) {
    *out = (struct overlay_self){.title = o->title, .site = o->site};
    memcpy(out->host, o->hello.host, sizeof out->host);
    route_counts(o->route, &out->locating, &out->forwarded);
}

bool overlay_unmet(const struct overlay *o, char out[OVERLAY_UNMET], struct met_about *about) {
    out[0] = 0;
    *about = (struct met_about){0};
    return o->wide && wide_nobody(o->wide, out, OVERLAY_UNMET, about);
}

void overlay_observe(struct overlay *o) {
    o->hello.observer = true;
}

bool overlay_settled(const struct overlay *o, bool new_too) {
    return o->wide && wide_settled(o->wide, new_too);
}

unsigned overlay_report(const struct overlay *o, char *out, size_t n) {
    out[0] = 0;
    return o->wide ? wide_report(o->wide, out, n) : 0;
}

static const char *kind_of(const struct olink *k) {
    return link_tls(k->link) ? "tcp" : "unix";
}

void overlay_each_link(const struct overlay *o, bool (*fn)(const struct overlay_link_info *l, void *ctx), void *ctx) {
    for (const struct olink *k = o->links; k; k = k->next) {
        if (!k->up) continue;
        const struct overlay_link_info l = {.peer = k->peer->id,
                                            .title = k->peer->title,
                                            .kind = kind_of(k),
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
    const struct olink *k = p ? olink_ready((struct peer *)(uintptr_t)p) : NULL;
    out->kind = k ? kind_of(k) : "";
    return true;
}
