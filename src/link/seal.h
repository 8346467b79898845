/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed bytes: what members of a grid leave for each other in places that others can read and write (rendezvous
 * servers, directories). Without a key of the grid they can be neither read nor made; they can be withheld, and put
 * back when they are old, so what is sealed carries its own time.
 *
 *   8 bytes id of the key, 16 random bytes, the bytes encrypted (AES-256-GCM), 16 bytes tag
 *
 * The cipher's key is derived from the grid's key, the purpose and the random bytes: no two seals share one. Any
 * thread.
 */
#ifndef LINK_SEAL_H
#define LINK_SEAL_H

#include "link/key.h"

#define SEAL_MORE 40u /* sealed bytes are longer by these */

#define SEAL_PURPOSE 96u /* bytes of a purpose; what is longer is cut */

/* Purposes: of an entry, and of what takes it back, so that neither serves as the other. */
#define SEAL_RENDEZVOUS "rendezvous entry"
#define SEAL_WITHDRAWAL "rendezvous withdrawal"
/* At a server the grid's name follows: what was left for one grid is worth nothing in another. */
void seal_for_grid(char out[SEAL_PURPOSE + 1], const char *purpose, const char *grid);

/* out: n + SEAL_MORE bytes. The purpose is the same for unseal. 0, ENOMEM or ESYS. */
int seal(const struct key *k, const char *purpose, const uint8_t *p, size_t n, uint8_t *out) MOYAI_MUST_USE;

/* out: n bytes are enough; they do not overlap p. *ret: how many were sealed. EDATA (not sealed so, or changed), EPERM
 * (the key is not in the ring, or has ended). */
int unseal(const struct keyring *r, int64_t now, const char *purpose, const uint8_t *p, size_t n, uint8_t *out,
           size_t *ret) MOYAI_MUST_USE;

#endif
