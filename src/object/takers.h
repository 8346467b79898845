/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who takes the objects of a node that leaves (doc/spec/10-moving.md, 3.5). On a fiber, the node lock not held, unless
 * said otherwise.
 */
#ifndef OBJECT_TAKERS_H
#define OBJECT_TAKERS_H

#include "object/internal.h"

struct takers;

/* Those who take objects of that class, looked for when they are asked for first, and again when none of these is left;
 * NULL: *e says why there are none. ELEAVING: nobody stays. ENOENT: nobody who stays takes them. ETIMEDOUT: nor that is
 * known, as some have not answered. */
struct takers *takers_of(moyai_node *n, const char *cls, struct moyai_error *e);
size_t takers_count(const struct takers *t);
/* At which of them the next object begins: at each in turn, so that all get as many. */
size_t takers_turn(moyai_node *n, struct takers *t);
/* The i-th: its host, to be freed, and its id. False: there are no more. */
bool taker_at(moyai_node *n, struct takers *t, size_t i, moyai_ref **host, uint8_t id[16]);
/* It leaves, or has gone, or has no room; silent: it does not answer, and may again. The next takes its place. */
void taker_lost(moyai_node *n, struct takers *t, const uint8_t id[16], bool silent);
void takers_done(moyai_node *n); /* lock held */

#endif
