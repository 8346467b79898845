/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded little-endian reading and writing of message fields.
 *
 * A failure is sticky: once a read or write did not fit, all further ones do nothing (reads give zero), so a codec is
 * one call a field, in the order of the message, and one test at the end.
 */
#ifndef WIRE_CURSOR_H
#define WIRE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Little-endian integers in memory of any alignment: one load or store where the machine is little-endian. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define CURSOR_LITTLE(bits, x) __builtin_bswap##bits(x)
#else
#define CURSOR_LITTLE(bits, x) (x)
#endif
#define CURSOR_X(bits)                                                                                                 \
    static inline uint##bits##_t load_le##bits(const uint8_t *p) {                                                     \
        uint##bits##_t x;                                                                                              \
        memcpy(&x, p, sizeof x);                                                                                       \
        return CURSOR_LITTLE(bits, x);                                                                                 \
    }                                                                                                                  \
    static inline void store_le##bits(uint8_t *p, uint##bits##_t x) {                                                  \
        x = CURSOR_LITTLE(bits, x);                                                                                    \
        memcpy(p, &x, sizeof x);                                                                                       \
    }
CURSOR_X(16)
CURSOR_X(32)
CURSOR_X(64)
#undef CURSOR_X

struct cursor_in {
    const uint8_t *p, *end;
    bool bad;
};

static inline struct cursor_in cursor_in(const void *p, size_t n) {
    struct cursor_in c = {(const uint8_t *)p, (const uint8_t *)p + n, false};
    return c;
}
static inline size_t cursor_left(const struct cursor_in *c) {
    return (size_t)(c->end - c->p);
}
/* All read, nothing wrong, nothing left over? */
static inline bool cursor_done(const struct cursor_in *c) {
    return !c->bad && c->p == c->end;
}

/* The next n bytes, in place; NULL (and bad) if they are not there. */
static inline const uint8_t *cursor_get_bytes(struct cursor_in *c, size_t n) {
    if (c->bad || n > cursor_left(c)) {
        c->bad = true;
        return NULL;
    }
    const uint8_t *p = c->p;
    c->p += n;
    return p;
}

static inline uint8_t cursor_get_u8(struct cursor_in *c) {
    const uint8_t *p = cursor_get_bytes(c, 1);
    return p ? p[0] : 0;
}
static inline uint16_t cursor_get_u16(struct cursor_in *c) {
    const uint8_t *p = cursor_get_bytes(c, 2);
    return p ? load_le16(p) : 0;
}
static inline uint32_t cursor_get_u32(struct cursor_in *c) {
    const uint8_t *p = cursor_get_bytes(c, 4);
    return p ? load_le32(p) : 0;
}
static inline uint64_t cursor_get_u64(struct cursor_in *c) {
    const uint8_t *p = cursor_get_bytes(c, 8);
    return p ? load_le64(p) : 0;
}

struct cursor_out {
    uint8_t *p, *end, *begin;
    bool bad;
};

static inline struct cursor_out cursor_out(void *p, size_t n) {
    struct cursor_out c = {(uint8_t *)p, (uint8_t *)p + n, (uint8_t *)p, false};
    return c;
}
/* Bytes written so far. */
static inline size_t cursor_written(const struct cursor_out *c) {
    return (size_t)(c->p - c->begin);
}

static inline uint8_t *cursor_room(struct cursor_out *c, size_t n) {
    if (c->bad || n > (size_t)(c->end - c->p)) {
        c->bad = true;
        return NULL;
    }
    uint8_t *p = c->p;
    c->p += n;
    return p;
}

static inline void cursor_put_bytes(struct cursor_out *c, const void *from, size_t n) {
    uint8_t *p = cursor_room(c, n);
    if (p && n > 0) memcpy(p, from, n);
}
static inline void cursor_put_u8(struct cursor_out *c, uint8_t x) {
    uint8_t *p = cursor_room(c, 1);
    if (p) p[0] = x;
}
static inline void cursor_put_u16(struct cursor_out *c, uint16_t x) {
    uint8_t *p = cursor_room(c, 2);
    if (p) store_le16(p, x);
}
static inline void cursor_put_u32(struct cursor_out *c, uint32_t x) {
    uint8_t *p = cursor_room(c, 4);
    if (p) store_le32(p, x);
}
static inline void cursor_put_u64(struct cursor_out *c, uint64_t x) {
    uint8_t *p = cursor_room(c, 8);
    if (p) store_le64(p, x);
}

#endif
