/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strangers in a limited number of places: who has to go when another comes. Of the source that has most of them, the
 * one that has been there longest: one source alone keeps nobody of others out, and gets all places while no other
 * wants them. Who is done with what the place is for is taken out in time.
 *
 * Pure, and allocates nothing: members lie in what waits there. Its operations look at each source once.
 */
#ifndef BASE_CROWD_H
#define BASE_CROWD_H

#include <moyai/error.h>

struct crowd_member { /* zero: in no crowd */
    struct crowd_member *prev, *next,
        *last;                  /* of the source, the oldest first, which alone has `last`, `n` and `other` */
    struct crowd_member *other; /* the first of another source */
    size_t n;
    uint64_t source;
    moyai_ns since;
    bool in;
};

struct crowd { /* zero: nobody */
    struct crowd_member *first;
    size_t n;
};

/* now: never less than at the adds before. */
void crowd_add(struct crowd *c, struct crowd_member *m, uint64_t source, moyai_ns now);
void crowd_remove(struct crowd *c, struct crowd_member *m); /* nothing if it is in none */

struct crowd_member *crowd_victim(const struct crowd *c);                /* stays in; NULL: nobody is */
struct crowd_member *crowd_before(const struct crowd *c, moyai_ns when); /* one that was added before; NULL: none */

#endif
