/* SPDX-License-Identifier: Apache-2.0 */
/* Between locate_ask.c (the table of requests, what others ask) and locate_ring.c (whom to ask, own rings). */
#ifndef OVERLAY_LOCATE_RING_H
#define OVERLAY_LOCATE_RING_H

#include "overlay/locate_look.h"

#define LOCATE_HINT_TTL   3 /* as far as digests see */
#define LOCATE_REACH      8 /* links to a node that is surely asked */
#define LOCATE_LATE_RINGS 3 /* longest times of a ring: the most that is added */

/* How far a request may go. Three times as far as it must, of a claim: locate_ask.c, goes_enough. */
static inline uint32_t locate_ttl_most(uint32_t kind, bool flood) {
    return kind == LOCATE_CLAIM && flood ? 3 * LOCATE_REACH : LOCATE_REACH;
}

/* locate_ask.c. put: others' requests leave a quarter of the table to our own. NULL: no room. */
struct locate_request *locate_request_put(struct locate *l, uint32_t kind, const uint8_t key[16], bool own,
                                          moyai_ns now);
void locate_request_clear(struct locate_request *r);                    /* as new */
bool locate_request_over(const struct locate_request *r, moyai_ns now); /* nothing depends on it but echoes and those
                                                                           who ask late */
void locate_keep_until(struct locate *l, struct locate_request *r, uint64_t until);

/* locate_tell.c: it is to be asked on by a link where much waits. */
bool locate_waits_long(const struct locate *l, const struct locate_request *r, moyai_ns now);
/* When changes may be told by a link. */
uint64_t locate_changes_at(const struct locate *l, uint32_t link);

/* locate_memo.c */
void locate_memo_note(struct locate *l, const uint8_t name[16], const uint8_t owner[16], moyai_ns now);
void locate_memo_drop(struct locate *l, const uint8_t name[16]);
/* Where an answer once came from: a link of `among`, and how far it is from here. */
bool locate_memo_hint(const struct locate *l, uint32_t kind, const uint8_t key[16], locate_set among,
                      struct locate_hop *hop);

/* locate_ring.c */
/* An own look-up or claim that asks all, for the last time. */
static inline bool locate_own_last(const struct locate_request *r) {
    return (r->flags & REQ_OWN) && r->ring == LOCATE_RINGS - 1;
}
/* More than one link is to have the answer. */
static inline bool locate_several(const struct locate_request *r) {
    return set_count(r->askers) > 1;
}
bool locate_by_hints(const struct locate *l, const struct locate_request *r);
void locate_spread(struct locate *l, struct locate_request *r);             /* whoever is still to be asked will be */
void locate_spread_anew(struct locate *l, struct locate_request *r);        /* also those who have been */
bool locate_lead(struct locate *l, struct locate_request *r, moyai_ns now); /* one is asked first: true */
void locate_held_on(struct locate *l, struct locate_request *r);            /* `busy` wait no more: they are asked */
void locate_held_off(struct locate_request *r);                             /* nor will they be */
void locate_own_end(struct locate *l, struct locate_request *r);            /* nobody here waits any more; others may */
void locate_own_timeout(struct locate *l, struct locate_request *r, moyai_ns now);

#endif
