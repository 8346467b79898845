/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence of death in grids of several hosts: the driver of overlay/death.h. For the files of the overlay's driver
 * only.
 */
#ifndef OVERLAY_IO_MOURN_H
#define OVERLAY_IO_MOURN_H

#include "overlay/io/internal.h"

#include <string.h>

/* So long after a death only those are told who wait for it; then those are who ought to know. Longer than the deaths
 * of a whole cluster take on a full machine: with 30 ms the news of the first of them came before the last. */
#define MOURN_NEWS (250 * MOYAI_MS)
/* And so long it stays in what neighbours are told of each other, which routes go by. */
#define MOURN_GRACE (30 * MOYAI_MS)
/* And so long after a link has broken its node's neighbours ask each other, if nobody has seen it die. */
#define MOURN_CASE (8 * MOYAI_MS)
/* The same where a node of its host is there that is about to: 13 processes killed at once on two processors end within
 * 20 to 70 ms, and what all their neighbours begin meanwhile is what that end waits for. */
#define MOURN_WITNESSED (30 * MOYAI_MS)

struct mourn;
struct locate_frame;

/* What machines know a host by. 0: not known. */
static inline uint64_t host_hash(const uint8_t host[16]) {
    uint32_t h;
    memcpy(&h, host, 4);
    return id_zero(host) ? 0 : h ? h : 1;
}

int mourn_new(struct overlay *o, struct moyai_error *reterr);
void mourn_close(struct mourn *m);
void mourn_free(struct mourn *m);
void mourn_again(struct mourn *m); /* closed before; the node has another id */

void mourn_link_up(struct olink *k);   /* a link of the mesh */
void mourn_link_down(struct olink *k); /* before locating forgets whom it led to */
/* Its node tells whom it is linked to; before locating takes it in. */
void mourn_empties(struct olink *k, const struct locate_frame *f);
/* A frame of the death protocol that came from that node, by whatever way. */
int mourn_frame(struct overlay *o, const uint8_t from[16], uint8_t type, const uint8_t *p, size_t n,
                struct moyai_error *why);
void mourn_farewell(struct overlay *o, const uint8_t id[16]);
bool mourn_likely(const struct overlay *o, const uint8_t id[16]); /* death_likely */
void mourn_witnessed(struct overlay *o, const uint8_t id[16]);    /* its process has ended without farewell */
/* `from` has told this node that the node of that id is dead, by no frame of this protocol. */
void mourn_told(struct overlay *o, const uint8_t from[16], const uint8_t id[16]);
void mourn_tell(struct overlay *o, const uint8_t id[16]); /* that node: it is dead to the others */
void mourn_pass_on(struct overlay *o, const uint8_t to[16], const uint8_t of[16]); /* what is known of `of`'s end */

#endif
