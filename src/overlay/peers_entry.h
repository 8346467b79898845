/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An entry: where a node is, as it is left, sealed, at a place where the grid is met (doc/spec/07-rendezvous.md, 6).
 * Pure: whoever has a clock says what time it is, in seconds since 1970.
 */
#ifndef OVERLAY_PEERS_ENTRY_H
#define OVERLAY_PEERS_ENTRY_H

#include "overlay/peers.h"

#define PEERS_ENTRY_MAX      (16u + 8u + 30u + PEERS_TEXT)
#define PEERS_ENTRY_LIFETIME 600u /* seconds, of what nodes leave */
#define PEERS_ENTRY_SKEW     60   /* seconds that an entry may seem to come from the future */

struct peers_entry {
    int64_t made; /* not negative */
    struct peers_endpoint e;
};

/* Bytes written, at most PEERS_ENTRY_MAX. */
size_t peers_entry_put(uint8_t *out, const struct peers_entry *in);

/* Any bytes; addresses stay where they are. EVERSION: of another version; EDATA: not an entry. *ret is touched on
 * success only. */
int peers_entry_get(const uint8_t *p, size_t n, struct peers_entry *ret) MOYAI_MUST_USE;

/* For how many seconds it is still to be believed; 0: it has ended; negative: it seems to be made that many seconds
 * from now, and is not. */
int64_t peers_entry_left(const struct peers_entry *e, int64_t now);
int64_t peers_entry_over(const struct peers_entry *e, int64_t now); /* seconds since it has ended; 0: it has not */

#endif
