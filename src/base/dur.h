/* SPDX-License-Identifier: Apache-2.0 */
/* Durations in texts for people. */
#ifndef BASE_DUR_H
#define BASE_DUR_H

#include <moyai/base.h>

enum { DUR_TEXT = 24 };

/* "250 ms", "1.5 s", "12 min", "forever": at most four digits, in the largest unit that leaves one before the point
 * (but seconds up to ten minutes, minutes and hours up to two of the next). Below 0: "0 s". Returns text. */
const char *dur_text(moyai_dur d, char text[DUR_TEXT]);
/* The same into a buffer that lives as long as the block around. */
#define DUR(d) dur_text(d, (char[DUR_TEXT]){0})

#endif
