/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the locating protocol as bytes: the payload of a wire frame of type FRAME_LOCATE + kind, of class control.
 * All integers are little-endian; the layout of each is in locate_wire.c.
 */
#ifndef OVERLAY_LOCATE_WIRE_H
#define OVERLAY_LOCATE_WIRE_H

#include "overlay/locate.h"
#include "wire/frame.h"

#define LOCATE_WIRE_MAX (4 + LOCATE_SLOTS * 36)

/* out: LOCATE_WIRE_MAX bytes. Returns how many were written. */
size_t locate_wire_put(uint8_t *out, const struct locate_frame *f);
/* EPROTO: not a frame of this protocol, of another length than its kind has, or with reserved bytes that are not zero;
 * *f is undefined then. Whether its values make sense is the machine's to say. */
int locate_wire_get(uint8_t type, const uint8_t *p, size_t n, struct locate_frame *f, struct moyai_error *reterr);

#endif
