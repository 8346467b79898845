/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of paths as bytes: the payload of a wire frame of type FRAME_RELAY + kind. The layout is in relay_wire.c. */
#ifndef OVERLAY_RELAY_WIRE_H
#define OVERLAY_RELAY_WIRE_H

#include "overlay/relay.h"
#include "wire/frame.h"

#define RELAY_WIRE_MAX 48

size_t relay_wire_size(enum relay_kind kind); /* of the payload */
/* The frame's head (of class FRAME_CONTROL) and its payload. */
void relay_wire_put(struct frame_head *head, uint8_t out[RELAY_WIRE_MAX], const struct relay_frame *f);
/* Read a frame. EPROTO: not one of paths, of another length, an unknown code, or bytes that must be zero are not; *f is
 * undefined then. Whether it makes sense is the machine's to say. */
int relay_wire_get(const struct frame_head *head, const uint8_t *p, struct relay_frame *f, struct moyai_error *reterr);

#endif
