/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/testing.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct moyai_ref {
    struct codec_ref head;
    atomic_int owners;
    uint8_t ids[32];
};

static atomic_long alive;

long testing_refs_alive(void) {
    return atomic_load(&alive);
}
void testing_ref_ids(const moyai_ref *ref, uint8_t out[32]) {
    memcpy(out, ref->ids, 32);
}

static moyai_ref *share(moyai_ref *ref) {
    atomic_fetch_add(&ref->owners, 1);
    return ref;
}

void testing_drop(moyai_ref *ref) {
    if (atomic_fetch_sub(&ref->owners, 1) != 1) return;
    atomic_fetch_sub(&alive, 1);
    free(ref);
}

static const struct codec_ref_ops ops = {testing_ref_ids, share, testing_drop};

static moyai_ref *make(void *ctx, const uint8_t in[32]) {
    (void)ctx;
    moyai_ref *ref = malloc(sizeof *ref);
    if (!ref) return NULL;
    ref->head.ops = &ops;
    atomic_init(&ref->owners, 1);
    memcpy(ref->ids, in, 32);
    atomic_fetch_add(&alive, 1);
    return ref;
}

const struct codec_refs testing_refs = {testing_ref_ids, make, NULL};

moyai_ref *testing_ref(uint8_t fill) {
    uint8_t ids[32];
    memset(ids, fill, sizeof ids);
    return make(NULL, ids);
}

/* ---- random values -------------------------------------------------------------------------- */

static moyai_value *random_text(struct moyai_rng *rng) {
    static const char *const letters[] = {"a", "Z", "0", " ", "é", "舫", "🛶", "\x7f", "\n", "\xf4\x8f\xbf\xbf"};
    char text[256];
    size_t n = 0;
    for (uint64_t k = rng_below(rng, 40); k > 0; k--) {
        const char *c = letters[rng_below(rng, sizeof letters / sizeof letters[0])];
        memcpy(text + n, c, strlen(c));
        n += strlen(c);
    }
    if (rng_below(rng, 10) == 0) text[n++] = 0; /* allowed inside moyai_text() */
    return moyai_value_new(moyai_text(text, n));
}

static double random_double(struct moyai_rng *rng) {
    static const double odd[] = {0.0, -0.0, 1.0, -1.5, 1e300, 5e-324, NAN, INFINITY, -INFINITY, 9007199254740993.0};
    if (rng_below(rng, 2)) return odd[rng_below(rng, sizeof odd / sizeof odd[0])];
    uint64_t bits = rng_next(rng);
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static moyai_value *random_array(struct moyai_rng *rng) {
    static const uint8_t sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
    uint8_t bytes[64 * 8];
    struct moyai_arg a = {.tag = MOYAI_T_ARRAY, .elem = (uint8_t)rng_below(rng, 10)};
    a.n = rng_below(rng, 4) ? (size_t)rng_below(rng, 65) : 0;
    rng_bytes(rng, bytes, a.n * sizes[a.elem]);
    a.v.p = bytes;
    return moyai_value_new(a);
}

static moyai_value *random_map(struct moyai_rng *rng, unsigned depth, bool refs) {
    char text[16][32];
    const char *keys[16];
    moyai_value *items[16];
    size_t n = (size_t)rng_below(rng, 17);
    for (size_t i = 0; i < n; i++) {
        int len = (int)rng_below(rng, 8);
        snprintf(text[i], sizeof text[i], "%.*s%zu", len, "ключ", i); /* may cut a letter: refused */
        if (len % 2) snprintf(text[i], sizeof text[i], "%" PRIx64 "-%zu", rng_next(rng) >> 60, i);
        keys[i] = text[i];
        items[i] = testing_value(rng, depth - 1, refs);
    }
    return moyai_value_map(keys, items, n);
}

moyai_value *testing_value(struct moyai_rng *rng, unsigned depth, bool refs) {
    moyai_value *items[16];
    uint8_t bytes[300];
    size_t n;
    switch (rng_below(rng, depth > 0 ? 12 : 9)) {
    case 0:
        return moyai_value_new(moyai_null());
    case 1:
        return moyai_value_new(MOYAI_ARG((bool)(rng_next(rng) & 1)));
    case 2:
        return moyai_value_new(MOYAI_ARG((int64_t)rng_next(rng) >> rng_below(rng, 64)));
    case 3:
        return moyai_value_new(MOYAI_ARG(rng_next(rng) >> rng_below(rng, 64)));
    case 4:
        return moyai_value_new(MOYAI_ARG(random_double(rng)));
    case 5:
        return random_text(rng);
    case 6:
        n = (size_t)rng_below(rng, sizeof bytes);
        rng_bytes(rng, bytes, n);
        return moyai_value_new(moyai_bytes(bytes, n));
    case 7:
        return random_array(rng);
    case 8: {
        moyai_ref *ref = refs ? testing_ref((uint8_t)rng_next(rng)) : NULL;
        if (!ref) return moyai_value_new(moyai_null());
        moyai_value *v = moyai_value_new(MOYAI_ARG(ref));
        testing_drop(ref);
        return v;
    }
    case 9:
        return random_map(rng, depth, refs);
    default:
        n = (size_t)rng_below(rng, 17);
        for (size_t i = 0; i < n; i++) items[i] = testing_value(rng, depth - 1, refs);
        return moyai_value_list(items, n);
    }
}

uint64_t testing_seed(void) {
    const char *env = getenv("MOYAI_TEST_SEED");
    uint64_t seed = 0;
    if (env) {
        seed = strtoull(env, NULL, 0);
    } else if (rng_system(&seed, sizeof seed) < 0) {
        abort();
    }
    printf("# MOYAI_TEST_SEED=%" PRIu64 "\n", seed);
    return seed;
}

uint8_t *testing_join(const struct codec_out *o, size_t *n) {
    *n = o->n + o->spliced;
    uint8_t *p = aligned_alloc(16, (*n + 16) / 16 * 16), *to = p;
    if (!p) return NULL;
    size_t at = 0;
    for (size_t i = 0; i < o->n_pieces; i++) {
        const struct codec_piece *piece = &o->pieces[i];
        memcpy(to, o->p + at, piece->at - at);
        to += piece->at - at;
        at = piece->at;
        memcpy(to, piece->p, piece->n);
        to += piece->n;
    }
    if (o->n > at) memcpy(to, o->p + at, o->n - at);
    return p;
}

size_t testing_hex(const char *hex, uint8_t *to, size_t cap) {
    size_t n = 0;
    for (const char *p = hex; *p; p++) {
        unsigned byte;
        if (*p == ' ' || *p == '\n') continue;
        if (n == cap || sscanf(p, "%2x", &byte) != 1) abort();
        to[n++] = (uint8_t)byte;
        p++;
    }
    return n;
}
