/* SPDX-License-Identifier: Apache-2.0 */
/* What the overlay knows of this node and its links, for reports. */
#include "overlay/io/internal.h"

void overlay_self(const struct overlay *o, struct overlay_self *out) {
    *out = (struct overlay_self){.title = o->title, .site = o->site};
    memcpy(out->host, o->hello.host, sizeof out->host);
}

void overlay_each_link(const struct overlay *o, bool (*fn)(const struct overlay_link_info *l, void *ctx), void *ctx) {
    for (const struct olink *k = o->links; k; k = k->next) {
        if (!k->up) continue;
        const struct overlay_link_info l = {.peer = k->peer->id,
                                            .title = k->peer->title,
                                            .kind = link_tls(k->link) ? "tcp" : "unix",
                                            .outgoing = k->outgoing,
                                            .up = k->up_since,
                                            .queued = link_queued(k->link)};
        if (!fn(&l, ctx)) return;
    }
}
