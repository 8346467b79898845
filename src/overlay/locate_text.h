/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and effects of locating in words, for tests, traces and logs. Ids are told by their first byte. */
#ifndef OVERLAY_LOCATE_TEXT_H
#define OVERLAY_LOCATE_TEXT_H

#include "overlay/locate.h"

/* Appended to text[0..n), which ends with a zero; cut where it does not fit. */
void locate_frame_text(char *text, size_t n, const struct locate_frame *f);
void locate_effect_text(char *text, size_t n, const struct locate_effect *fx);

#endif
