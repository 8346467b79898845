/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of this folder: references without objects, random values, messages put together. */
#ifndef WIRE_TESTING_H
#define WIRE_TESTING_H

#include "base/rng.h"
#include "wire/value.h"

/* References that only count their owners; testing_refs_alive() is how many are not yet freed. */
extern const struct codec_refs testing_refs;
void testing_drop(moyai_ref *ref);
moyai_ref *testing_ref(uint8_t fill); /* both ids are of this byte; NULL: out of memory */
long testing_refs_alive(void);
void testing_ref_ids(const moyai_ref *ref, uint8_t out[32]);

/* A random value, lists and maps at most `depth` deep; refs: with references among them. NULL: out of memory. */
moyai_value *testing_value(struct moyai_rng *rng, unsigned depth, bool refs);

/* The seed of this run: $MOYAI_TEST_SEED or a random one; printed once. */
uint64_t testing_seed(void);

/* The whole message as it would arrive: buffer and pieces in one block, aligned to 16, one byte more than *n. The
 * caller frees it. */
uint8_t *testing_join(const struct codec_out *o, size_t *n);

/* Bytes from hexadecimal digits, blanks ignored; returns how many. */
size_t testing_hex(const char *hex, uint8_t *to, size_t cap);

#endif
