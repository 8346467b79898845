/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of session frames.
 *
 *   OPEN, ACCEPT                         0 id (8)   8 path (4)  12 zero (4)
 *   RESUME, RESUMED, CLOSE, CLOSED, ACK  0 id (8)   8 path (4)  12 zero (4)                 16 ack (8)
 *   GRANT                                0 id (8)   8 path (4)  12 stream (4)               16 ack (8)  24 allowed (8)
 *   REFUSE                               0 id (8)
 *   DATA                                 0 id (8)   8 path (4)  12 n_chunks (2) 14 zero (2) 16 ack (8)  24 seq (8)
 *     then n_chunks times                0 stream (4)  4 length (3)  7 flags (1), and where BEGIN is set without END: 8
 * total (8) then the bytes of the chunks
 *
 * So the fields that frames share stand at the same place in all. A frame of another length than these is
 * refused, as are unknown flags; whether a frame makes sense at this moment is the machine's to say.
 */
#include "overlay/session_wire.h"

#include "base/err.h"

#include <string.h>

static inline uint64_t little(uint64_t x) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(x);
#else
    return x;
#endif
}
static inline uint64_t load(const uint8_t *p) {
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return little(x);
}
static inline void store(uint8_t *p, uint64_t x) {
    x = little(x);
    memcpy(p, &x, sizeof x);
}

static inline bool has_total(uint32_t flags) {
    return (flags & (SESSION_BEGIN | SESSION_END)) == SESSION_BEGIN;
}

/* Bytes of the fixed part; 0: no such kind. */
static size_t fixed_size(enum session_frame_kind kind) {
    switch (kind) {
    case SESSION_OPEN:
    case SESSION_ACCEPT:
        return 16;
    case SESSION_RESUME:
    case SESSION_RESUMED:
    case SESSION_CLOSE:
    case SESSION_CLOSED:
    case SESSION_ACK:
        return 24;
    case SESSION_REFUSE:
        return 8;
    case SESSION_DATA:
    case SESSION_GRANT:
        return 32;
    }
    return 0;
}

size_t session_wire_head_size(const struct session_frame *f) {
    size_t n = fixed_size(f->kind);
    if (f->kind != SESSION_DATA) return n;
    for (uint32_t i = 0; i < f->n_chunks; i++) n += has_total(f->chunks[i].flags) ? 16 : 8;
    return n;
}

/* The four bytes behind the path. */
static uint32_t fourth(const struct session_frame *f) {
    if (f->kind == SESSION_DATA) return f->n_chunks;
    return f->kind == SESSION_GRANT ? f->stream : 0;
}

void session_wire_put_head(uint8_t *out, const struct session_frame *f) {
    size_t fixed = fixed_size(f->kind);
    store(out, f->id);
    if (fixed >= 16) store(out + 8, f->path | (uint64_t)fourth(f) << 32);
    if (fixed >= 24) store(out + 16, f->ack);
    if (fixed >= 32) store(out + 24, f->kind == SESSION_DATA ? f->seq : f->allowed);
    if (f->kind != SESSION_DATA) return;
    uint8_t *p = out + fixed;
    for (uint32_t i = 0; i < f->n_chunks; i++) {
        const struct session_chunk *c = &f->chunks[i];
        store(p, c->stream | (uint64_t)(c->len | c->flags << 24) << 32);
        p += 8;
        if (!has_total(c->flags)) continue;
        store(p, c->total);
        p += 8;
    }
}

/* The chunks' heads. Returns where their bytes begin; 0: refused, and reterr says why. */
static size_t get_chunks(const uint8_t *p, size_t have, size_t n, struct session_frame *f, struct moyai_error *reterr) {
    const uint32_t known = SESSION_BEGIN | SESSION_END | SESSION_ABORT;
    size_t at = 32;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < f->n_chunks; i++) {
        struct session_chunk *c = &f->chunks[i];
        if (have - at < 8) {
            err_set(reterr, MOYAI_EPROTO, "session data: the head of chunk %u is cut off", i);
            return 0;
        }
        uint64_t head = load(p + at);
        uint32_t flags = (uint32_t)(head >> 56);
        at += 8;
        *c = (struct session_chunk){.stream = (uint32_t)head, .flags = flags, .len = (uint32_t)(head >> 32) & 0xffffff};
        if ((flags & ~known) || c->len == 0) {
            err_set(reterr, MOYAI_EPROTO, "session data: chunk %u of %u bytes with flags %#x", i, c->len, flags);
            return 0;
        }
        sum += c->len;
        if (!has_total(flags)) continue;
        if (have - at < 8) {
            err_set(reterr, MOYAI_EPROTO, "session data: the total of chunk %u is cut off", i);
            return 0;
        }
        c->total = load(p + at);
        at += 8;
    }
    if (sum == n - at) return at;
    err_set(reterr, MOYAI_EPROTO, "session data: chunks of %llu bytes in all, but %zu are there",
            (unsigned long long)sum, n - at);
    return 0;
}

static int get_data(const uint8_t *p, size_t have, size_t n, struct session_frame *f, size_t *head_len,
                    struct moyai_error *reterr) {
    uint64_t word = load(p + 8);
    f->n_chunks = (uint32_t)(word >> 32) & 0xffff;
    if (word >> 48) return err_set(reterr, MOYAI_EPROTO, "session data: reserved bytes are not zero");
    if (f->n_chunks == 0 || f->n_chunks > SESSION_CHUNKS)
        return err_set(reterr, MOYAI_EPROTO, "session data of %u chunks, 1 to %d are allowed", f->n_chunks,
                       SESSION_CHUNKS);
    f->seq = load(p + 24);
    *head_len = get_chunks(p, have, n, f, reterr);
    return *head_len ? 0 : MOYAI_EPROTO;
}

/* Of a payload of n bytes the first `have` are at p. */
static int get(uint8_t type, const uint8_t *p, size_t have, size_t n, struct session_frame *f, size_t *head_len,
               struct moyai_error *reterr) {
    if (type < FRAME_SESSION || type > FRAME_SESSION_LAST)
        return err_set(reterr, MOYAI_EPROTO, "frame type %u is none of the session's", type);
    enum session_frame_kind kind = (enum session_frame_kind)(type - FRAME_SESSION);
    size_t fixed = fixed_size(kind);
    if (have < fixed || (kind != SESSION_DATA && n != fixed))
        return err_set(reterr, MOYAI_EPROTO, "session frame of type %u and %zu bytes, expected %zu", type, n, fixed);

    *f = (struct session_frame){.kind = kind, .id = load(p), .chunks = f->chunks};
    *head_len = fixed;
    if (fixed < 16) return 0;
    f->path = (uint32_t)load(p + 8);
    if (fixed >= 24) f->ack = load(p + 16);
    if (kind == SESSION_DATA) return get_data(p, have, n, f, head_len, reterr);
    if (kind == SESSION_GRANT) {
        f->stream = (uint32_t)(load(p + 8) >> 32);
        f->allowed = load(p + 24);
    } else if (load(p + 8) >> 32) {
        return err_set(reterr, MOYAI_EPROTO, "session frame of type %u: reserved bytes are not zero", type);
    }
    return 0;
}

int session_wire_get(uint8_t type, const uint8_t *p, size_t n, struct session_frame *f, size_t *head_len,
                     struct moyai_error *reterr) {
    return get(type, p, n, n, f, head_len, reterr);
}

bool session_wire_peek(uint8_t type, const uint8_t *p, size_t have, size_t n, struct session_frame *f,
                       size_t *head_len) {
    return get(type, p, have < n ? have : n, n, f, head_len, NULL) == 0;
}
