/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes: version (1) = 1, zero (7), when it was made (8, low byte first), and the endpoint as in an OFFER, whose
 * other fields are zero.
 */
#include "overlay/peers_entry.h"

#include "overlay/peers_wire.h"

#include <string.h>

#define HEAD    16u
#define VERSION 1u

_Static_assert(PEERS_ENTRY_MAX >= HEAD + 8 + 30 + PEERS_TEXT, "any entry fits");

static bool zero(const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i]) return false;
    return true;
}

size_t peers_entry_put(uint8_t *out, const struct peers_entry *in) {
    struct peers_frame f = {.kind = PEERS_OFFER, .n = 1};
    f.e[0] = in->e;
    memset(out, 0, HEAD);
    out[0] = VERSION;
    for (unsigned i = 0; i < 8; i++) out[8 + i] = (uint8_t)((uint64_t)in->made >> 8 * i);
    peers_wire_put(out + HEAD, &f);
    return HEAD + peers_wire_size(&f);
}

int peers_entry_get(const uint8_t *p, size_t n, struct peers_entry *ret) {
    struct peers_frame f;
    uint64_t made = 0;
    if (n < HEAD) return MOYAI_EDATA;
    if (p[0] != VERSION) return MOYAI_EVERSION;
    for (unsigned i = 0; i < 8; i++) made |= (uint64_t)p[8 + i] << 8 * i;
    if (!zero(p + 1, 7) || made > INT64_MAX) return MOYAI_EDATA;
    if (peers_wire_get(FRAME_PEERS + PEERS_OFFER, p + HEAD, n - HEAD, &f, NULL) < 0) return MOYAI_EDATA;
    if (f.count || f.flags || f.what) return MOYAI_EDATA;
    *ret = (struct peers_entry){.made = (int64_t)made, .e = f.e[0]};
    return 0;
}

int64_t peers_entry_left(const struct peers_entry *e, int64_t now) {
    int64_t age = now - e->made; /* neither is negative */
    if (age < -PEERS_ENTRY_SKEW) return age;
    if (age < 0) age = 0;
    return age < (int64_t)e->e.lifetime ? (int64_t)e->e.lifetime - age : 0;
}

int64_t peers_entry_over(const struct peers_entry *e, int64_t now) {
    const int64_t age = now - e->made;
    return age > (int64_t)e->e.lifetime ? age - (int64_t)e->e.lifetime : 0;
}
