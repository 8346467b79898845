/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of CBOR items (RFC 8949, 3): the initial byte and its argument, to and from bytes.
 *
 * Heads with an argument below 2^32, which is what calls carry, are read here; longer ones and floats by libcbor, whose
 * stream decoder takes some 25 ns for a head. It never sees a length: an argument is shown to it as a plain integer,
 * because its check "head + length <= bytes there" wraps near 2^64. Whoever reads a head checks what it claims against
 * the bytes that are left.
 */
#ifndef WIRE_HEAD_H
#define WIRE_HEAD_H

#include <moyai/error.h>
#include <string.h>

enum head_major {
    HEAD_UINT,
    HEAD_NEG, /* -1 - arg */
    HEAD_BYTES,
    HEAD_TEXT,
    HEAD_LIST,
    HEAD_MAP,
    HEAD_TAG,
    HEAD_SIMPLE, /* simple values, floats, break */
};

/* Additional information, for HEAD_SIMPLE. */
enum {
    HEAD_FALSE = 20,
    HEAD_TRUE = 21,
    HEAD_NULL = 22,
    HEAD_UNDEFINED = 23,
    HEAD_HALF = 25,
    HEAD_FLOAT = 26,
    HEAD_DOUBLE = 27,
    HEAD_INDEFINITE = 31, /* of any kind: no argument; of HEAD_SIMPLE: break */
};

#define HEAD_MAX 9 /* bytes */

/* Tags we know. Typed arrays: wire/typed.h. */
#define HEAD_TAG_OBJECT 27u    /* ["type name", ...] */
#define HEAD_TAG_CBOR   55799u /* "this is CBOR": no meaning, used as padding */
#define HEAD_BREAK      0xffu
#define HEAD_TAGS       32u /* tags before one item; more is refused like deep nesting */

struct head {
    uint8_t major; /* enum head_major */
    uint8_t info;  /* the initial byte's additional information */
    uint8_t len;   /* bytes of the head itself */
    union {
        uint64_t arg; /* value, length, count, tag or simple value; 0 for HEAD_INDEFINITE */
        double d;     /* HEAD_HALF, HEAD_FLOAT, HEAD_DOUBLE */
    };
};

/* 0, or EDATA (not a head, or cut off): *h is then not to be used. */
int head_get_long(const uint8_t *p, size_t n, struct head *h);
static inline int head_get(const uint8_t *p, size_t n, struct head *h) {
    if (n == 0) return MOYAI_EDATA;
    uint8_t major = p[0] >> 5, info = p[0] & 31;
    if (info < 24) {
        h->arg = info;
        h->len = 1;
    } else if (info == 24 && n >= 2 && major != HEAD_SIMPLE) {
        h->arg = p[1];
        h->len = 2;
    } else if (info == 25 && n >= 3 && major != HEAD_SIMPLE) {
        h->arg = (uint64_t)p[1] << 8 | p[2];
        h->len = 3;
    } else if (info == 26 && n >= 5 && major != HEAD_SIMPLE) {
        h->arg = (uint64_t)p[1] << 24 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 8 | p[4];
        h->len = 5;
    } else {
        return head_get_long(p, n, h);
    }
    h->major = major;
    h->info = info;
    return 0;
}

/* Write the shortest head; returns its bytes. `to` has room for HEAD_MAX. */
size_t head_put_long(uint8_t *to, enum head_major major, uint64_t arg);
static inline size_t head_put(uint8_t *to, enum head_major major, uint64_t arg) {
    if (arg < 24) {
        to[0] = (uint8_t)(major << 5 | (uint8_t)arg);
        return 1;
    }
    if (arg > 0xff) return head_put_long(to, major, arg);
    to[0] = (uint8_t)(major << 5 | 24);
    to[1] = (uint8_t)arg;
    return 2;
}

/* Bytes of the shortest head for arg: 1, 2, 3, 5 or 9. */
static inline size_t head_size(uint64_t arg) {
    return arg < 24 ? 1 : arg <= 0xff ? 2 : arg <= 0xffff ? 3 : arg <= 0xffffffff ? 5 : 9;
}

/* The same with a head of `size` bytes (1, 2, 3, 5, 9; at least head_size(arg)): RFC 8949 allows any. */
void head_put_sized(uint8_t *to, enum head_major major, uint64_t arg, size_t size);

size_t head_put_float(uint8_t *to, float x);   /* 5 bytes */
size_t head_put_double(uint8_t *to, double x); /* 9 bytes */

#endif
