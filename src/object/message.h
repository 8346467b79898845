/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of calls (doc/spec/02-calls.md). Little-endian; heads are multiples of 8 bytes, so that values behind
 * them are aligned as their encoder meant.
 *
 * REQUEST   0 kind  1 flags  2 method length  3 ancestors  4 depth (2)  6 round (2)  8 call id (8)  16 object (16)
 *           32 remaining time in ns (8; 2^63-1: none)  40 [root: node (16), call (8)] if flag ROOT,
 *           ancestors x node (16), method name, zeros to a multiple of 8, values
 * REPLY     0 kind  1 flags  2 zero (6)  8 call id (8)  16 values, or with flag ERROR [node (16) if flag MOVED,] the
 *           levels of an error
 * CANCEL    0 kind  1 zero (7)  8 call id (8)
 * DEADLINE  0 kind  1 zero (7)  8 call id (8)  16 remaining time in ns (8)
 * DOING     0 kind  1 zero (7)  8 call id (8)  16 text, 1 to DOING_MOST bytes
 * SIGNAL    0 kind  1 zero (7)  8 call id (8; 0: no answer wanted)  16 object (16)
 */
#ifndef OBJECT_MESSAGE_H
#define OBJECT_MESSAGE_H

#include "object/internal.h"
#include "wire/cursor.h"

enum message_kind {
    MESSAGE_REQUEST = 1,
    MESSAGE_REPLY,
    MESSAGE_CANCEL,
    MESSAGE_DEADLINE,
    MESSAGE_SIGNAL,
    MESSAGE_DOING
};
enum message_flags {
    MESSAGE_ONEWAY = 1,   /* request: no reply wanted */
    MESSAGE_ROOT = 2,     /* request: made by a method; root follows */
    MESSAGE_ANY = 4,      /* request: more ancestors than are named */
    MESSAGE_ERROR = 8,    /* reply */
    MESSAGE_LEAVER = 16,  /* request: who makes it leaves */
    MESSAGE_RECEIPT = 32, /* request, one-way: answered all the same, without results */
    MESSAGE_MOVED = 64,   /* reply, with ERROR: the object has gone to the node (16) that stands before the levels */
    MESSAGE_ENDED = 128,  /* reply, with ERROR: it is nowhere else: it has ended here, or is about to */
};
#define REQUEST_HEAD        40u
#define REQUEST_MOST        (REQUEST_HEAD + 24u + CALL_ANCESTORS * 16u + 256u + 8u) /* the longest head */
#define REQUEST_ROUND_AT    6u
#define REQUEST_DEADLINE_AT 32u
#define REPLY_HEAD          16u
#define DOING_HEAD          16u
#define DOING_MOST          240u /* what a method is doing, cut */

struct request_head {
    uint8_t flags, n_ancestors, method_len;
    uint16_t depth, round; /* round: refused.h */
    uint64_t call;
    uint8_t object[16];
    moyai_dur remaining;
    uint8_t root_node[16];
    uint64_t root_call;
    const uint8_t *ancestors;
    const char *method; /* not terminated */
    size_t size;        /* of the whole head: where the values begin */
};
size_t request_head_size(const struct request_head *h);
void request_put_head(uint8_t *out, const struct request_head *h); /* request_head_size bytes */
/* 0, or EPROTO with the reason. n may be less than the message (a first chunk), if it holds the head. */
int request_get_head(const uint8_t *p, size_t n, struct request_head *h);

/* Bytes of an error reply; out NULL: only counts. */
size_t failure_put(uint8_t *out, const struct moyai_error *level, unsigned levels, const uint8_t self[16]);
/* *first: the first level without its text; *ret NULL: there was no memory for all. EPROTO. */
int failure_get(const uint8_t *p, size_t n, const uint8_t from[16], struct moyai_error *first, struct failure **ret);

#endif
