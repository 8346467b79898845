/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xoshiro256** by Blackman and Vigna ("Scrambled linear pseudorandom number generators", 2018), its state filled by
 * splitmix64 as they advise: any seed, zero included, gives a state that is not all zero.
 */
#include "base/rng.h"

#include <moyai/error.h>

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static uint64_t splitmix(uint64_t *x) {
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t rotl(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

void rng_seed(struct moyai_rng *r, uint64_t seed) {
    for (int i = 0; i < 4; i++) r->s[i] = splitmix(&seed);
}

void rng_fork(const struct moyai_rng *parent, const char *name, uint64_t index, struct moyai_rng *child) {
    /* Everything that names the stream goes through splitmix, one word after the other. */
    uint64_t h = index;
    h = splitmix(&h);
    for (const char *c = name; *c; c++) {
        h ^= (uint8_t)*c;
        h = splitmix(&h);
    }
    for (int i = 0; i < 4; i++) {
        h ^= parent->s[i];
        h = splitmix(&h);
    }
    rng_seed(child, h);
}

uint64_t rng_next(struct moyai_rng *r) {
    uint64_t *s = r->s;
    uint64_t x = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return x;
}

uint64_t rng_below(struct moyai_rng *r, uint64_t n) {
    uint64_t first = (0 - n) % n; /* 2^64 mod n: the draws below it would favour small results */
    for (;;) {
        uint64_t x = rng_next(r);
        if (x >= first) return x % n;
    }
}

void rng_bytes(struct moyai_rng *r, void *p, size_t n) {
    uint8_t *b = p;
    while (n > 0) {
        uint64_t x = rng_next(r);
        uint8_t le[8];
        for (int i = 0; i < 8; i++) le[i] = (uint8_t)(x >> (8 * i)); /* one seed, one run, on any machine */
        size_t m = n < 8 ? n : 8;
        memcpy(b, le, m);
        b += m;
        n -= m;
    }
}

int rng_system(void *p, size_t n) {
    uint8_t *b = p;
    while (n > 0) {
        ssize_t got = getrandom(b, n, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return MOYAI_ESYS;
        b += got;
        n -= (size_t)got;
    }
    return 0;
}
