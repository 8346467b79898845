/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was refused here since its object was elsewhere (doc/spec/10-moving.md, 4.5). With the node lock held.
 *
 * The object may come here before its caller hears of that, and calls that were made after the one refused be under way
 * still. They must not begin before that one does, which is made again; so they are refused as well. A caller changes
 * the number of the round in which it sends when it has heard of all refusals. As long as that is the same it has not.
 */
#ifndef OBJECT_REFUSED_H
#define OBJECT_REFUSED_H

#include "object/internal.h"

/* One was refused in this round. Another round ends that. */
bool refused_before(moyai_node *n, const uint8_t caller[16], const uint8_t object[16], uint16_t round);
/* The same of a request whose caller looks for the object now. Out of memory ends the link to it. */
void refused_elsewhere(const moyai_request *rq, const uint8_t caller[16], const uint8_t object[16], uint16_t round);
int refused_note(moyai_node *n, const uint8_t caller[16], const uint8_t object[16], uint16_t round); /* ENOMEM */
void refused_done(moyai_node *n);

#endif
