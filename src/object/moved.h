/* SPDX-License-Identifier: Apache-2.0 */
/* Where objects are that may move, and calls of them that have to be made again there. All with the node lock held. */
#ifndef OBJECT_MOVED_H
#define OBJECT_MOVED_H

#include "object/internal.h"

/* An object's id says whether its class lets it move. */
static inline bool object_moves(const uint8_t id[16]) {
    return id[15] & 1;
}

/* Of a call that is about to be made: where its object is, as far as is known here. f->object and f->home are set. */
void moved_home(moyai_future *f);
/* Its object is being looked for, or calls before it are out elsewhere: it is made when that is over. */
bool moved_waits(moyai_future *f);
void moved_sends(moyai_future *f); /* it is about to be sent to f->home */
/* It has come back, never executed, perhaps because its object is elsewhere: true if it is made again, or e is told to
 * it later. */
bool moved_again(moyai_future *f, const struct moyai_error *e);
void moved_sent(moyai_future *f); /* its message is done */
void moved_drop(moyai_future *f); /* it completes, or is freed */

/* An object that was here is there now. Where it is that was there: for what comes here still. */
void moved_put(moyai_node *n, const uint8_t object[16], const uint8_t home[16]);
const uint8_t *moved_to(moyai_node *n, const uint8_t object[16]); /* NULL: not known */

/* What this node can say of such an object that is not here. */
enum moved_whither {
    MOVED_UNKNOWN,
    MOVED_THERE, /* it has gone to `to`, or was found there */
    MOVED_ENDED, /* here, or it has never been anywhere else: it is nowhere */
};
enum moved_whither moved_whither(const moyai_node *n, const uint8_t object[16], uint8_t to[16]);
void moved_here(moyai_node *n, const uint8_t object[16]); /* it has come to this node */
/* That is what the node said that f was sent to; its own id: it has the object now. */
void moved_hint(moyai_future *f, const uint8_t to[16]);

size_t moved_kept(const moyai_node *n); /* whereabouts: how many */

/* The name by which such an object is found, whatever node it is at. */
#define MOVED_NAME 34u
void moved_name(const uint8_t object[16], char name[MOVED_NAME]);

void moved_done(moyai_node *n);

#endif
