/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values to CBOR and back, for calls: argument arrays in, destination arrays out.
 *
 * The encoder writes into a growing buffer and sets large bytes and arrays aside as borrowed pieces.
 * Array data are aligned: offsets from the start of the message are multiples of the element size,
 * which is reached by CBOR's longer heads (RFC 8949 allows them; a decoder must accept any).
 */
#ifndef WIRE_CODEC_H
#define WIRE_CODEC_H

#include <moyai/value.h>

/* Bytes of a message that stay where the user has them: they follow `at` bytes of the buffer. */
struct codec_piece {
    size_t at; /* offset in the buffer at which the piece is to be spliced in */
    const void *p;
    size_t n;
};

struct codec_out {
    uint8_t *p; /* malloc'ed, or the caller's initial buffer (fixed) */
    size_t n, cap;
    bool fixed;                 /* p is not malloc'ed: copied on growth */
    size_t borrow;              /* bytes and arrays of at least this size become pieces; SIZE_MAX: copy all */
    size_t spliced;             /* bytes of all pieces so far */
    struct codec_piece *pieces; /* malloc'ed */
    size_t n_pieces;
    size_t limit; /* n + spliced may not exceed it: ETOOBIG */
};

/* buf may be NULL (cap 0). base: bytes that will precede p in the message count for alignment: put them
 * into the buffer first. */
void codec_out_init(struct codec_out *o, void *buf, size_t cap, size_t borrow, size_t limit);
void codec_out_done(struct codec_out *o);            /* frees what was malloc'ed */
int codec_reserve(struct codec_out *o, size_t more); /* room for `more` bytes at p + n. ENOMEM, ETOOBIG */

/* What a moyai_ref begins with, so that values can hold references without knowing what they are:
 * `struct moyai_ref { struct codec_ref head; ... }`, filled by the object layer. Any thread may call the ops. */
struct codec_ref_ops {
    void (*ids)(const moyai_ref *ref, uint8_t out[32]); /* object id, home node id */
    moyai_ref *(*share)(moyai_ref *ref);                /* one more owner: moyai_ref_ref */
    void (*drop)(moyai_ref *ref);                       /* one owner less: moyai_ref_unref */
};
struct codec_ref {
    const struct codec_ref_ops *ops;
};

/* How a reference is encoded and made: given by the object layer; NULL where there can be none. A reference travels as
 * tag 27 (generic object) ["moyai-ref", 32 bytes: object id, home node id]. */
struct codec_refs {
    void (*get)(const moyai_ref *ref, uint8_t out[32]);
    moyai_ref *(*make)(void *ctx, const uint8_t in[32]); /* a new reference; NULL: out of memory */
    void *ctx;
};

/* Append all values. 0, EARGS (a tag that is none, text that is not UTF-8 or NULL), ENOMEM, ETOOBIG, EDEPTH. */
int codec_put_args(struct codec_out *o, const struct moyai_args *args, const struct codec_refs *refs,
                   struct moyai_error *reterr);

/*
 * Read a whole message body [p, p + n): exactly into->n values and nothing behind them. Bytes and arrays are borrowed
 * from it. Text gets a NUL: text that ends the body in place (p[n] must be writable), other text in a copy. Arrays of
 * the other byte order are swapped in place (once: their tag is rewritten). An array that is not aligned (a foreign
 * encoder) and strings that came in chunks are copied. *arena, NULL at first, collects the copies, one for each value
 * however often it is read: codec_arena_free it when the body goes.
 * Decoding again gives the same; not two threads at a time. into NULL: checks only that the body is well-formed.
 * EARGS (count), ETYPE, ERANGE (which argument, in reterr), EDATA (malformed), EDEPTH, ETOOBIG (a structured value of
 * too many parts), ENOMEM; nothing has been stored then, and references made on the way are released through `drop`.
 */
struct codec_arena;
int codec_get_into(uint8_t *p, size_t n, const struct moyai_into *into, const struct codec_refs *refs,
                   void (*drop)(moyai_ref *ref), struct codec_arena **arena, struct moyai_error *reterr);
/* The same where the pieces of codec_out have not been spliced in: values in them are borrowed from where they are, and
 * [p, p + n) is all the rest. `at` of a piece counts from `from`, which is p's place in what the encoder wrote. */
struct codec_lent {
    const struct codec_piece *pieces;
    size_t n, from;
};
int codec_get_lent(uint8_t *p, size_t n, const struct codec_lent *lent, const struct moyai_into *into,
                   const struct codec_refs *refs, void (*drop)(moyai_ref *ref), struct codec_arena **arena,
                   struct moyai_error *reterr);
void codec_arena_free(struct codec_arena *a); /* NULL is fine */

/* One value at *p: its length in bytes, or EDATA, EDEPTH (nesting over 32). The lengths it claims are
 * checked against n before libcbor sees them. */
int codec_skip(const uint8_t *p, size_t n, size_t *len);

#endif
