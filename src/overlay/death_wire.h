/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the death protocol as bytes: the payload of a wire frame of type FRAME_DEATH + kind; layout: death_wire.c.
 */
#ifndef OVERLAY_DEATH_WIRE_H
#define OVERLAY_DEATH_WIRE_H

#include "overlay/death.h"
#include "wire/frame.h"

#define DEATH_WIRE_MAX (48 + DEATH_MEMBERS * 24)

size_t death_wire_size(const struct death_frame *f);
void death_wire_put(uint8_t *out, const struct death_frame *f);

/* Read the payload p[0..n) of a frame of the given type. EPROTO: not a death frame or not well formed; *f is undefined
 * then. */
int death_wire_get(uint8_t type, const uint8_t *p, size_t n, struct death_frame *f, struct moyai_error *reterr);

#endif
