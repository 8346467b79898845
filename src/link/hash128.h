/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 128 bits that tell byte strings apart: for host ids and for files named after long names. The same on every
 * machine. Not against an adversary who looks for collisions: those who can choose the bytes are the user himself.
 *
 * Two chains over the string's little-endian 64-bit words, each stirred by the finaliser of splitmix64, which is a
 * bijection with full avalanche; the second chain also takes the first one's state.
 */
#ifndef LINK_HASH128_H
#define LINK_HASH128_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t hash128_stir(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline void hash128(const void *data, size_t n, uint8_t out[16]) {
    const uint8_t *p = (const uint8_t *)data;
    /* The length first: otherwise a string and the same one with zeros behind it would be one. */
    uint64_t a = hash128_stir(0x9e3779b97f4a7c15u + (uint64_t)n), b = hash128_stir(0xd1b54a32d192ed03u ^ a);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t w = 0;
        for (size_t k = 0; k < 8 && i + k < n; k++) w |= (uint64_t)p[i + k] << (8 * k);
        a = hash128_stir((a ^ w) + 0x9e3779b97f4a7c15u);
        b = hash128_stir((b + w) * 0x9fb21c651e98df25u ^ a);
    }
    for (int k = 0; k < 8; k++) {
        out[k] = (uint8_t)(a >> (8 * k));
        out[8 + k] = (uint8_t)(b >> (8 * k));
    }
}

#endif
