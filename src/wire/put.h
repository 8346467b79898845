/* SPDX-License-Identifier: Apache-2.0 */
/* Appending CBOR items to a codec_out: what the argument and the value encoder share. Inside wire only. */
#ifndef WIRE_PUT_H
#define WIRE_PUT_H

#include "wire/codec.h"
#include "wire/head.h"
#include "wire/number.h"

/* Where a codec_out was, to return to if the rest does not fit. */
struct put_mark {
    size_t n, n_pieces, spliced;
};
static inline struct put_mark put_mark(const struct codec_out *o) {
    return (struct put_mark){o->n, o->n_pieces, o->spliced};
}
static inline void put_back(struct codec_out *o, struct put_mark m) {
    o->n = m.n;
    o->n_pieces = m.n_pieces;
    o->spliced = m.spliced;
}

/* All return 0, ENOMEM or ETOOBIG (the limit). */
int put_grow(struct codec_out *o, size_t more);
/* Room for `more` bytes that may be written or not: looks at the buffer, not at the limit. */
static inline int put_room(struct codec_out *o, size_t more) {
    return o->cap - o->n >= more ? 0 : put_grow(o, more);
}
/* Take n bytes that were written behind the end. */
static inline int put_take(struct codec_out *o, size_t n) {
    if (n > o->limit - o->n - o->spliced) return MOYAI_ETOOBIG;
    o->n += n;
    return 0;
}
int put_head(struct codec_out *o, enum head_major major, uint64_t arg);
int put_simple(struct codec_out *o, uint8_t info); /* HEAD_FALSE, HEAD_TRUE, HEAD_NULL */
int put_number(struct codec_out *o, struct number x);
int put_float(struct codec_out *o, float x);
int put_string(struct codec_out *o, enum head_major major, const void *p, size_t n, size_t borrow);
int put_array(struct codec_out *o, enum moyai_elem elem, const void *p, size_t nbytes, size_t borrow);
int put_ref(struct codec_out *o, const uint8_t ids[32]);

#endif
