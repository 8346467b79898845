/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of locating frames.
 *
 *   NEIGHBOURS  0 n (1)  1 zero (3), then n times  slot (1) zero (3) cost (4) node (16) host (8)
 *   NAMES       0 n (1)  1 zero (3), then n times  slot (1) zero (3) name (16) object (16)
 *   REQUEST     0 kind (1)  1 ttl (1)    2 flags (1)  3 zero (1)  4 wait (4)  8 nonce (8)  16 key (16)
 *               of a claim then  32 owner (16)  48 object (16)
 *   REPLY       0 kind (1)  1 status (1) 2 hops (1)   3 age (1)   4 cost (4)  8 key (16)  24 owner (16)  40 object (16)
 *   BUSY        0 kind (1)  1 zero (3)   4 key (16)
 *   EVIDENCE    0 how (1)   1 ttl (1)    2 zero (2)   4 keep (4)  8 node (16)
 *   LOST        0 ttl (1)   1 zero (3)   4 name (16)  20 dest (16)  36 owner (16)  52 object (16)
 *   DIGEST      0 bits (1)  1 zero (3)   4 the bits (1024): 2^bits of them, 13
 *
 * So the first four bytes are small numbers in all. A frame of another length than these is refused.
 */
#include "overlay/locate_wire.h"

#include "base/err.h"

#include <string.h>

#define DIGEST_BITS 13u

static void put32(uint8_t *p, uint32_t x) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(x >> (8 * i));
}
static uint32_t get32(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void head(uint8_t *out, uint32_t a, uint32_t b, uint32_t c) {
    out[0] = (uint8_t)a;
    out[1] = (uint8_t)b;
    out[2] = (uint8_t)c;
    out[3] = 0;
}

static size_t put_slots(uint8_t *out, const struct locate_frame *f) {
    uint8_t *p = out + 4;
    head(out, f->n, 0, 0);
    for (uint32_t i = 0; i < f->n; i++) {
        const struct locate_slot *s = &f->slots[i];
        head(p, s->slot, 0, 0);
        p += 4;
        if (f->kind == LOCATE_NEIGHBOURS) {
            put32(p, s->cost);
            p += 4;
        }
        memcpy(p, s->id, 16);
        p += 16;
        if (f->kind == LOCATE_NEIGHBOURS) {
            put32(p, (uint32_t)s->host);
            put32(p + 4, (uint32_t)(s->host >> 32));
            p += 8;
            continue;
        }
        memcpy(p, s->object, 16);
        p += 16;
    }
    return (size_t)(p - out);
}

static size_t put_request(uint8_t *out, const struct locate_frame *f) {
    head(out, f->key_kind, f->ttl, f->flags);
    put32(out + 4, f->wait);
    put32(out + 8, (uint32_t)f->nonce);
    put32(out + 12, (uint32_t)(f->nonce >> 32));
    memcpy(out + 16, f->key, 16);
    if (f->key_kind != LOCATE_CLAIM) return 32;
    memcpy(out + 32, f->owner, 16);
    memcpy(out + 48, f->object, 16);
    return 64;
}

size_t locate_wire_put(uint8_t *out, const struct locate_frame *f) {
    switch (f->kind) {
    case LOCATE_NEIGHBOURS:
    case LOCATE_NAMES:
        return put_slots(out, f);
    case LOCATE_REQUEST:
        return put_request(out, f);
    case LOCATE_REPLY:
        head(out, f->key_kind, f->status, f->hops);
        out[3] = (uint8_t)f->age;
        put32(out + 4, f->cost);
        memcpy(out + 8, f->key, 16);
        memcpy(out + 24, f->owner, 16);
        memcpy(out + 40, f->object, 16);
        return 56;
    case LOCATE_BUSY:
        head(out, f->key_kind, 0, 0);
        memcpy(out + 4, f->key, 16);
        return 20;
    case LOCATE_EVIDENCE:
        head(out, f->how, f->ttl, 0);
        put32(out + 4, f->wait);
        memcpy(out + 8, f->key, 16);
        return 24;
    case LOCATE_LOST:
        head(out, f->ttl, 0, 0);
        memcpy(out + 4, f->key, 16);
        memcpy(out + 20, f->dest, 16);
        memcpy(out + 36, f->owner, 16);
        memcpy(out + 52, f->object, 16);
        return 68;
    case LOCATE_DIGESTED:
        head(out, DIGEST_BITS, 0, 0);
        memcpy(out + 4, f->digest, LOCATE_DIGEST);
        return 4 + LOCATE_DIGEST;
    }
    return 0;
}

/* What a payload of this kind that begins with these bytes must be long; 0: refused. */
static size_t right_size(enum locate_frame_kind kind, const uint8_t *p) {
    switch (kind) {
    case LOCATE_NEIGHBOURS:
        return p[0] <= LOCATE_SLOTS ? 4 + p[0] * 32u : 0;
    case LOCATE_NAMES:
        return p[0] <= LOCATE_SLOTS ? 4 + p[0] * 36u : 0;
    case LOCATE_REQUEST:
        return p[0] == LOCATE_CLAIM ? 64 : 32;
    case LOCATE_REPLY:
        return 56;
    case LOCATE_BUSY:
        return 20;
    case LOCATE_EVIDENCE:
        return 24;
    case LOCATE_LOST:
        return 68;
    case LOCATE_DIGESTED:
        return p[0] == DIGEST_BITS ? 4 + LOCATE_DIGEST : 0;
    }
    return 0;
}

/* Of the first four bytes, how many say something. */
static size_t head_bytes(enum locate_frame_kind kind) {
    if (kind == LOCATE_REPLY) return 4;
    if (kind == LOCATE_REQUEST) return 3;
    return kind == LOCATE_EVIDENCE ? 2 : 1;
}

static bool zero(const uint8_t *p, size_t from) {
    for (size_t i = from; i < 4; i++)
        if (p[i]) return false;
    return true;
}

static bool get_slots(const uint8_t *p, struct locate_frame *f) {
    f->n = p[0];
    p += 4;
    for (uint32_t i = 0; i < f->n; i++) {
        struct locate_slot *s = &f->slots[i];
        *s = (struct locate_slot){.slot = p[0]};
        if (!zero(p, 1)) return false;
        p += 4;
        if (f->kind == LOCATE_NEIGHBOURS) {
            s->cost = get32(p);
            p += 4;
        }
        memcpy(s->id, p, 16);
        p += 16;
        if (f->kind == LOCATE_NEIGHBOURS) {
            s->host = get32(p) | (uint64_t)get32(p + 4) << 32;
            p += 8;
            continue;
        }
        memcpy(s->object, p, 16);
        p += 16;
    }
    return true;
}

static bool get_body(const uint8_t *p, struct locate_frame *f) {
    switch (f->kind) {
    case LOCATE_NEIGHBOURS:
    case LOCATE_NAMES:
        if (f->kind == LOCATE_NAMES) f->key_kind = LOCATE_NAME;
        return get_slots(p, f);
    case LOCATE_REQUEST:
        f->key_kind = (enum locate_key_kind)p[0];
        f->ttl = p[1];
        f->flags = p[2];
        f->wait = get32(p + 4);
        f->nonce = get32(p + 8) | (uint64_t)get32(p + 12) << 32;
        memcpy(f->key, p + 16, 16);
        if (f->key_kind != LOCATE_CLAIM) return true;
        memcpy(f->owner, p + 32, 16);
        memcpy(f->object, p + 48, 16);
        return true;
    case LOCATE_REPLY:
        f->key_kind = (enum locate_key_kind)p[0];
        f->status = p[1];
        f->hops = p[2];
        f->age = p[3];
        f->cost = get32(p + 4);
        memcpy(f->key, p + 8, 16);
        memcpy(f->owner, p + 24, 16);
        memcpy(f->object, p + 40, 16);
        return true;
    case LOCATE_BUSY:
        f->key_kind = (enum locate_key_kind)p[0];
        memcpy(f->key, p + 4, 16);
        return true;
    case LOCATE_EVIDENCE:
        f->how = p[0];
        f->ttl = p[1];
        f->wait = get32(p + 4);
        memcpy(f->key, p + 8, 16);
        return true;
    case LOCATE_LOST:
        f->ttl = p[0];
        memcpy(f->key, p + 4, 16);
        memcpy(f->dest, p + 20, 16);
        memcpy(f->owner, p + 36, 16);
        memcpy(f->object, p + 52, 16);
        return true;
    case LOCATE_DIGESTED:
        memcpy(f->digest, p + 4, LOCATE_DIGEST);
        return true;
    }
    return false;
}

int locate_wire_get(uint8_t type, const uint8_t *p, size_t n, struct locate_frame *f, struct moyai_error *reterr) {
    if (type < FRAME_LOCATE || type > FRAME_LOCATE_LAST)
        return err_set(reterr, MOYAI_EPROTO, "frame type %u is none of locating", type);
    enum locate_frame_kind kind = (enum locate_frame_kind)(type - FRAME_LOCATE);
    size_t right = n >= 4 ? right_size(kind, p) : 0;
    if (right == 0 || n != right)
        return err_set(reterr, MOYAI_EPROTO, "locating frame of type %u and %zu bytes, expected %zu", type, n, right);
    memset(f, 0, offsetof(struct locate_frame, slots));
    f->kind = kind;
    if (!zero(p, head_bytes(kind)) || !get_body(p, f))
        return err_set(reterr, MOYAI_EPROTO, "locating frame of type %u: reserved bytes are not zero", type);
    return 0;
}
