/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of peers frames. All kinds have the same head, little-endian, and then their endpoints:
 *
 *   0 count (2)   2 flags (1)   3 what (1)   4 n (1)   5 zero (3)
 *   n times: 0 id (16)   16 site (8)   24 lifetime (2)   26 flags (1)   27 zero (1)   28 bytes of addresses (2),
 * addresses an address: length (1), characters
 *
 * A frame has exactly this length. What can be judged without the machine is judged here: flags and `what` that the
 * kind does not have, the number of endpoints, the form of addresses.
 */
#include "overlay/peers_wire.h"

#include "base/err.h"

#include <string.h>

#define HEAD  8u
#define ENTRY 30u

static uint32_t get16(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}
static void put16(uint8_t *p, uint32_t x) {
    p[0] = (uint8_t)x;
    p[1] = (uint8_t)(x >> 8);
}

/* What each kind may have. */
static const struct shape {
    uint8_t flags, what; /* what: below this */
    uint8_t least, most; /* endpoints */
} shapes[PEERS_FRAMES] = {
    [PEERS_OFFER] = {PEERS_ACCEPTS | PEERS_LAST, PEERS_LINE + 1, 1, 1},
    [PEERS_ACCEPT] = {PEERS_ACCEPTS, 1, 1, 1},
    [PEERS_REFUSE] = {0, PEERS_REASONS, 0, PEERS_OTHERS},
    [PEERS_ASK] = {0, 1, 1, PEERS_ENTRIES},
    [PEERS_ANSWER] = {0, 1, 1, PEERS_ENTRIES},
    [PEERS_YIELD] = {PEERS_RETIRE, 1, 0, 0},
    [PEERS_KEEP] = {0, 1, 0, 0},
    [PEERS_BYE] = {0, PEERS_REASONS, 0, 0},
    [PEERS_LEAVE] = {0, 1, 0, PEERS_ENTRIES},
    [PEERS_READY] = {0, 1, 0, PEERS_ENTRIES},
    [PEERS_SEARCH] = {0, 1, 1, 1},
    [PEERS_FOUND] = {0, 1, 1, 1},
};

bool peers_addresses_ok(const uint8_t *text, size_t n) {
    uint32_t count = 0;
    for (size_t at = 0; at < n; count++) {
        size_t len = text[at++];
        if (len == 0 || len > PEERS_ADDRESS || len > n - at || count == PEERS_ADDRESSES) return false;
        for (size_t i = 0; i < len; i++, at++)
            if (text[at] <= ' ' || text[at] > '~') return false;
    }
    return n <= PEERS_TEXT;
}

bool peers_address_put(uint8_t *text, uint32_t cap, uint32_t *n_text, const char *address) {
    size_t len = strlen(address);
    uint8_t one[1 + PEERS_ADDRESS];
    if (len == 0 || len > PEERS_ADDRESS) return false;
    one[0] = (uint8_t)len;
    memcpy(one + 1, address, len);
    if (!peers_addresses_ok(one, 1 + len) || *n_text > cap || 1 + len > cap - *n_text) return false;
    uint32_t count = 0;
    for (uint32_t at = 0; at < *n_text; at += 1u + text[at]) count++;
    if (count >= PEERS_ADDRESSES) return false;
    memcpy(text + *n_text, one, 1 + len);
    *n_text += (uint32_t)len + 1;
    return true;
}

bool peers_address_get(const struct peers_endpoint *e, uint32_t i, char out[PEERS_ADDRESS + 1]) {
    uint32_t at = 0;
    for (; i > 0 && at < e->n_text; i--) at += 1u + e->text[at];
    if (at >= e->n_text) return false;
    memcpy(out, e->text + at + 1, e->text[at]);
    out[e->text[at]] = 0;
    return true;
}

size_t peers_wire_size(const struct peers_frame *f) {
    size_t n = HEAD;
    for (uint32_t i = 0; i < f->n; i++) n += ENTRY + f->e[i].n_text;
    return n;
}

void peers_wire_put(uint8_t *out, const struct peers_frame *f) {
    memset(out, 0, HEAD);
    put16(out, f->count);
    out[2] = (uint8_t)f->flags;
    out[3] = (uint8_t)f->what;
    out[4] = (uint8_t)f->n;
    out += HEAD;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct peers_endpoint *e = &f->e[i];
        memcpy(out, e->id.b, 16);
        for (uint32_t k = 0; k < 8; k++) out[16 + k] = (uint8_t)(e->site >> (8 * k));
        put16(out + 24, e->lifetime);
        out[26] = (uint8_t)((e->accepts ? PEERS_ACCEPTS : 0) | (e->reached ? PEERS_REACHED : 0));
        out[27] = 0;
        put16(out + 28, e->n_text);
        if (e->n_text) memcpy(out + ENTRY, e->text, e->n_text);
        out += ENTRY + e->n_text;
    }
}

/* Bytes of the endpoint at p; 0: it is not one. */
static size_t get_endpoint(const uint8_t *p, size_t n, struct peers_endpoint *e) {
    if (n < ENTRY) return 0;
    uint32_t n_text = get16(p + 28);
    if (n_text > n - ENTRY || !peers_addresses_ok(p + ENTRY, n_text)) return 0;
    *e = (struct peers_endpoint){.lifetime = get16(p + 24), .n_text = n_text, .text = p + ENTRY};
    memcpy(e->id.b, p, 16);
    for (uint32_t k = 0; k < 8; k++) e->site |= (uint64_t)p[16 + k] << (8 * k);
    e->accepts = p[26] & PEERS_ACCEPTS;
    e->reached = p[26] & PEERS_REACHED;
    if (p[26] > (PEERS_ACCEPTS | PEERS_REACHED) || (e->reached && !e->accepts) || p[27] || e->lifetime > PEERS_LIFETIME)
        return 0;
    return ENTRY + n_text;
}

int peers_wire_get(uint8_t type, const uint8_t *p, size_t n, struct peers_frame *f, struct moyai_error *reterr) {
    uint32_t kind = (uint32_t)type - FRAME_PEERS;
    if (type < FRAME_PEERS || kind >= PEERS_FRAMES)
        return err_set(reterr, MOYAI_EPROTO, "type %u is no peers frame", type);
    if (n < HEAD) return err_set(reterr, MOYAI_EPROTO, "peers frame of type %u and %zu bytes", type, n);
    const struct shape *s = &shapes[kind];
    *f = (struct peers_frame){.kind = (enum peers_frame_kind)kind, .what = p[3], .flags = p[2], .count = get16(p)};
    if (f->flags & ~(uint32_t)s->flags || f->what >= s->what || p[5] || p[6] || p[7])
        return err_set(reterr, MOYAI_EPROTO, "peers frame of type %u: unknown flags or values", type);
    if (p[4] < s->least || p[4] > s->most)
        return err_set(reterr, MOYAI_EPROTO, "peers frame of type %u with %u endpoints", type, p[4]);
    size_t at = HEAD;
    for (; f->n < p[4]; f->n++) {
        size_t len = get_endpoint(p + at, n - at, &f->e[f->n]);
        if (len == 0) return err_set(reterr, MOYAI_EPROTO, "peers frame of type %u: bad endpoint %u", type, f->n);
        at += len;
    }
    if (at != n) return err_set(reterr, MOYAI_EPROTO, "peers frame of type %u: %zu bytes too many", type, n - at);
    return 0;
}
