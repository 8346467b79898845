/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and effects of paths in a few letters: for tests and traces. */
#ifndef OVERLAY_RELAY_TEXT_H
#define OVERLAY_RELAY_TEXT_H

#include "overlay/relay.h"

const char *relay_code_text(enum relay_code code);
/* Appended to the text, which is cut to n bytes. A node is written as its id's first byte, a path as its place. */
void relay_frame_text(char *text, size_t n, const struct relay_frame *f);
void relay_effect_text(char *text, size_t n, const struct relay_effect *fx);

#endif
