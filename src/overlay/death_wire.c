/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of death frames, little-endian:
 *
 *   ENDED        0 subject (16)   16 seq (8)   24 host (8)   32 the subject's host (8)   40 n (2)   42 zero (6)
 *                then n times: id (16), host (8)
 *   ALIVE, NONE  0 subject (16)   16 seq (8)   24 host (8)
 *   DEAD         0 subject (16)   16 hops (1)  17 cause (1)  18 zero (2)                 20 number (4)
 *   LEFT         0 subject (16)   16 hops (1)  17 zero (7)
 */
#include "overlay/death_wire.h"

#include "base/err.h"

#include <string.h>

static uint64_t get(const uint8_t *p, uint32_t bytes) {
    uint64_t x = 0;
    for (uint32_t i = 0; i < bytes; i++) x |= (uint64_t)p[i] << (8 * i);
    return x;
}
static void put(uint8_t *p, uint64_t x, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++) p[i] = (uint8_t)(x >> (8 * i));
}

static size_t fixed_size(enum death_frame_kind kind) {
    switch (kind) {
    case DEATH_ENDED:
        return 48;
    case DEATH_ALIVE:
    case DEATH_NONE:
        return 32;
    case DEATH_DEAD:
    case DEATH_LEFT:
        return 24;
    case DEATH_FRAMES:
        break;
    }
    return 0;
}

size_t death_wire_size(const struct death_frame *f) {
    return fixed_size(f->kind) + (f->kind == DEATH_ENDED ? (size_t)f->n * 24 : 0);
}

void death_wire_put(uint8_t *out, const struct death_frame *f) {
    memset(out, 0, fixed_size(f->kind));
    memcpy(out, f->subject.b, 16);
    if (f->kind == DEATH_DEAD || f->kind == DEATH_LEFT) {
        out[16] = (uint8_t)f->hops;
        if (f->kind == DEATH_LEFT) out[17] = (uint8_t)f->cleared;
        if (f->kind == DEATH_LEFT) return;
        out[17] = (uint8_t)f->cause;
        put(out + 20, f->number, 4);
        return;
    }
    put(out + 16, f->seq, 8);
    put(out + 24, f->host, 8);
    if (f->kind != DEATH_ENDED) return;
    put(out + 32, f->subject_host, 8);
    put(out + 40, f->n, 2);
    for (uint32_t i = 0; i < f->n; i++) {
        memcpy(out + 48 + i * 24, f->m[i].id.b, 16);
        put(out + 64 + i * 24, f->m[i].host, 8);
    }
}

/* As wait(2) can tell it. It is shown to people, so nobody else's inventions are taken. */
static bool is_number_of(uint32_t cause, uint32_t number) {
    switch ((enum death_cause)cause) {
    case DEATH_SIGNAL:
        return number >= 1 && number <= 127;
    case DEATH_EXIT:
        return number <= 255;
    case DEATH_LINKS:
    case DEATH_REFUSED:
    case DEATH_OTHER:
        return number == 0;
    case DEATH_CAUSES:
        break;
    }
    return false;
}

int death_wire_get(uint8_t type, const uint8_t *p, size_t n, struct death_frame *f, struct moyai_error *reterr) {
    uint32_t kind = (uint32_t)type - FRAME_DEATH;
    if (type < FRAME_DEATH || kind >= DEATH_FRAMES)
        return err_set(reterr, MOYAI_EPROTO, "type %u is no death frame", type);
    size_t fixed = fixed_size((enum death_frame_kind)kind);
    if (n < fixed || (kind != DEATH_ENDED && n != fixed))
        return err_set(reterr, MOYAI_EPROTO, "death frame of type %u and %zu bytes, expected %zu", type, n, fixed);
    f->kind = (enum death_frame_kind)kind;
    f->seq = f->host = f->subject_host = 0;
    f->cause = f->number = f->hops = f->cleared = f->n = 0;
    memcpy(f->subject.b, p, 16);
    if (kind == DEATH_DEAD || kind == DEATH_LEFT) {
        f->hops = p[16];
        if (kind == DEATH_DEAD) {
            f->cause = p[17];
            f->number = (uint32_t)get(p + 20, 4);
        }
        if (kind == DEATH_LEFT) f->cleared = p[17];
        bool zero = p[18] == 0 && p[19] == 0 && (kind == DEATH_DEAD || get(p + 20, 4) == 0);
        bool known = kind == DEATH_LEFT || is_number_of(f->cause, f->number);
        if (f->hops > 1 || !known || f->cleared > 1 || !zero)
            return err_set(reterr, MOYAI_EPROTO, "death frame of type %u: unknown values", type);
        return 0;
    }
    f->seq = get(p + 16, 8);
    f->host = get(p + 24, 8);
    if (kind != DEATH_ENDED) return 0;
    f->subject_host = get(p + 32, 8);
    f->n = (uint32_t)get(p + 40, 2);
    if (f->n > DEATH_MEMBERS || n != 48 + (size_t)f->n * 24 || get(p + 42, 6))
        return err_set(reterr, MOYAI_EPROTO, "death frame of type %u: %u neighbours in %zu bytes", type, f->n, n);
    for (uint32_t i = 0; i < f->n; i++) {
        memcpy(f->m[i].id.b, p + 48 + i * 24, 16);
        f->m[i].host = get(p + 64 + i * 24, 8);
    }
    return 0;
}
