/* SPDX-License-Identifier: Apache-2.0 */
/* Moves that one home has ended, while the other may still ask how (doc/spec/10-moving.md, 3.6). All with the node lock
 * held. */
#ifndef OBJECT_ASTRAY_H
#define OBJECT_ASTRAY_H

#include "object/internal.h"

enum astray {
    ASTRAY_GIVEN,   /* settle was said, and the new home is gone: if it lives it claims the object */
    ASTRAY_DROPPED, /* it arrived, and did not come to be settled: if the old home lives it may say that again */
};

/* By move `number`, to or from `other`. soon: who is alive will ask within ASTRAY_TIME; till then this node does not
 * leave. Those that are there for longest make room. */
void astray_note(moyai_node *n, enum astray what, const uint8_t object[16], uint64_t number, const uint8_t other[16],
                 bool soon);
/* The number of that move; 0: none. other: that home, of the object's latest such move; may be NULL. */
uint64_t astray_find(const moyai_node *n, enum astray what, const uint8_t object[16], const uint8_t **other);
void astray_asked(moyai_node *n, enum astray what, const uint8_t object[16]); /* nobody has to wait for that */
void astray_over(moyai_node *n, const uint8_t object[16]);                    /* it is here */
size_t astray_waits(const moyai_node *n);                                     /* how many may be asked for soon */
void astray_done(moyai_node *n);

#define ASTRAY_TIME (10 * MOYAI_SEC)

#endif
