/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the peers protocol as bytes: the payload of a wire frame of type FRAME_PEERS + kind. The layout is in
 * peers_wire.c. And addresses of endpoints, which have the same form in frames and in memory.
 */
#ifndef OVERLAY_PEERS_WIRE_H
#define OVERLAY_PEERS_WIRE_H

#include "overlay/peers.h"
#include "wire/frame.h"

#define PEERS_WIRE_MAX (8 + PEERS_ENTRIES * (30 + PEERS_TEXT))

size_t peers_wire_size(const struct peers_frame *f);
void peers_wire_put(uint8_t *out, const struct peers_frame *f);

/* Read the payload p[0..n) of a frame of the given type; addresses stay where they are. EPROTO: not a peers frame, or
 * not well formed, or with another number of endpoints than its kind has; *f is undefined then. */
int peers_wire_get(uint8_t type, const uint8_t *p, size_t n, struct peers_frame *f, struct moyai_error *reterr);

/* Put an address behind the n_text bytes at text (room for cap); false: it does not fit, is empty or too long, or has
 * other characters than visible ASCII. */
bool peers_address_put(uint8_t *text, uint32_t cap, uint32_t *n_text, const char *address);
/* The i-th address; false: there are no more. */
bool peers_address_get(const struct peers_endpoint *e, uint32_t i, char out[PEERS_ADDRESS + 1]);
/* Is this a list of at most PEERS_ADDRESSES addresses? */
bool peers_addresses_ok(const uint8_t *text, size_t n);

#endif
