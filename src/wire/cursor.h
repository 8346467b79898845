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
    if (!p) return 0;
    return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t cursor_get_u32(struct cursor_in *c) {
    const uint8_t *p = cursor_get_bytes(c, 4);
    return p ? (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24 : 0;
}
static inline uint64_t cursor_get_u64(struct cursor_in *c) {
    const uint8_t *p = cursor_get_bytes(c, 8);
    if (!p) return 0;
    uint64_t x = 0;
    for (int i = 7; i >= 0; i--) x = x << 8 | p[i];
    return x;
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
    for (int i = 0; p && i < 2; i++) p[i] = (uint8_t)(x >> (8 * i));
}
static inline void cursor_put_u32(struct cursor_out *c, uint32_t x) {
    uint8_t *p = cursor_room(c, 4);
    for (int i = 0; p && i < 4; i++) p[i] = (uint8_t)(x >> (8 * i));
}
static inline void cursor_put_u64(struct cursor_out *c, uint64_t x) {
    uint8_t *p = cursor_room(c, 8);
    for (int i = 0; p && i < 8; i++) p[i] = (uint8_t)(x >> (8 * i));
}

#endif
