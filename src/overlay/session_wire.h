/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the session protocol as bytes: the payload of a wire frame of type FRAME_SESSION + kind.
 * All integers are little-endian; the layout of each is in session_wire.c.
 */
#ifndef OVERLAY_SESSION_WIRE_H
#define OVERLAY_SESSION_WIRE_H

#include "overlay/session.h"
#include "wire/frame.h"

/* The most a head can take: leave room for it under FRAME_MAX when DATA is pulled. */
#define SESSION_WIRE_HEAD_MAX (32 + SESSION_CHUNKS * 16)

/* Everything but the bytes of the chunks, which follow in the order of the chunks. An ABORT's byte is 0. */
size_t session_wire_head_size(const struct session_frame *f);
void session_wire_put_head(uint8_t *out, const struct session_frame *f);

/*
 * Read the payload p[0..n) of a frame of the given type. f->chunks has room for SESSION_CHUNKS and stays the caller's;
 * *head_len is where the bytes of the first chunk begin. EPROTO: not a session frame, too short or too long, a field
 * that must be zero is not, chunks that are empty or do not add up to the rest; *f is undefined then.
 */
int session_wire_get(uint8_t type, const uint8_t *p, size_t n, struct session_frame *f, size_t *head_len,
                     struct moyai_error *reterr);

/* The same for a payload of n bytes of which only the first `have` are at p. False: its head reaches further than
 * these, or session_wire_get would refuse it. */
bool session_wire_peek(uint8_t type, const uint8_t *p, size_t have, size_t n, struct session_frame *f,
                       size_t *head_len);

#endif
