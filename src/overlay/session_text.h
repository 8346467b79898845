/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and effects of a session in one line of text, for traces, tests and debugging. */
#ifndef OVERLAY_SESSION_TEXT_H
#define OVERLAY_SESSION_TEXT_H

#include "overlay/session.h"

/*
 * Append to the NUL-terminated text of at most n bytes; what does not fit is cut off.
 *
 * A frame: kind and path number, then what it has of: ack, grant as "stream:allowed", number of the first byte after
 * '#', and each chunk as "stream:flags length/total", flags b(egin), e(nd), x (abort): "DATA3 ack7 #12 0:be5 1:b4/30".
 * An effect: "1:b0+4/30" is bytes 0 to 3 of 30 of the message on stream 1, its first among them.
 */
void session_frame_text(char *text, size_t n, const struct session_frame *f);
void session_effect_text(char *text, size_t n, const struct session_effect *fx);

#endif
