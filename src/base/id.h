/* SPDX-License-Identifier: Apache-2.0 */
/* Identifiers of 128 random bits: equality, order, hash, text. */
#ifndef BASE_ID_H
#define BASE_ID_H

#include <moyai/base.h>
#include <string.h>

static inline uint64_t id_lo(const uint8_t b[16]) {
    uint64_t x;
    memcpy(&x, b, 8);
    return x;
}
static inline uint64_t id_hi(const uint8_t b[16]) {
    uint64_t x;
    memcpy(&x, b + 8, 8);
    return x;
}
static inline bool id_equal(const uint8_t a[16], const uint8_t b[16]) {
    return id_lo(a) == id_lo(b) && id_hi(a) == id_hi(b);
}
static inline bool id_zero(const uint8_t a[16]) {
    return (id_lo(a) | id_hi(a)) == 0;
}
static inline int id_cmp(const uint8_t a[16], const uint8_t b[16]) {
    return memcmp(a, b, 16);
} /* "lower id" */
/* The bits are random: their first 64 are a good hash. Not against an adversary who picks ids. */
static inline uint64_t id_hash(const uint8_t a[16]) {
    return id_lo(a) ^ (id_hi(a) * 0x9e3779b97f4a7c15u);
}

void id_format(const uint8_t id[16], char text[33]);       /* 32 lower-case hex digits and NUL */
bool id_parse(const char *text, size_t n, uint8_t id[16]); /* exactly 32 hex digits */

#endif
