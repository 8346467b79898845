/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured values (moyai/value.h) to CBOR and back.
 *
 * Heads are the shortest, but for those that align arrays; a map keeps the order of its keys.
 */
#ifndef WIRE_VALUE_H
#define WIRE_VALUE_H

#include "wire/codec.h"

/* Lists and maps inside each other. A message is limited by its bytes, but a list of small values takes some forty
 * times its bytes in memory; hence the second limit, on all parts of one value together. */
#define VALUE_DEPTH 32
#define VALUE_PARTS (1u << 24)

/* Append v, all of it copied. EARGS (v is NULL), ENOMEM, ETOOBIG; nothing is appended then. */
int value_encode(struct codec_out *o, const moyai_value *v, struct moyai_error *reterr);

/*
 * Decode the value at p: *ret is the caller's, *used (may be NULL) its length. Nothing of p is kept or written.
 * refs NULL: references are refused with ETYPE. Accepted besides what value_encode writes: indefinite lengths, half
 * floats, any head length, other byte orders; undefined is null; unknown tags are skipped and their content taken.
 * EDATA (malformed, a key twice), ETYPE (a key that is not text; a simple value or array type we have no kind for),
 * ERANGE (an integer below INT64_MIN), EDEPTH, ETOOBIG (parts), ENOMEM.
 */
int value_decode(const uint8_t *p, size_t n, const struct codec_refs *refs, moyai_value **ret, size_t *used,
                 struct moyai_error *reterr);

#endif
