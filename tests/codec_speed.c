/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the codec takes for the arguments of one small call. Not a test: prints nanoseconds per call, the best of
 * several runs. The values differ from turn to turn and are checked after decoding.
 */
#include "wire/codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 7, TURNS = 200000 };

static uint8_t buf[65536];

struct shape {
    const char *name;
    int (*put)(struct codec_out *o, uint64_t i);
    bool (*get)(uint8_t *p, size_t n, uint64_t i);
};

static int get(uint8_t *p, size_t n, const struct moyai_into *into) {
    struct codec_arena *arena = NULL;
    int rc = codec_get_into(p, n, into, NULL, NULL, &arena, NULL);
    codec_arena_free(arena);
    return rc;
}

static int put_bytes(struct codec_out *o, uint64_t i) {
    char data[64] = {0};
    memcpy(data, &i, sizeof i);
    return codec_put_args(o, MOYAI_ARGS(moyai_bytes(data, 64)), NULL, NULL);
}
static bool get_bytes(uint8_t *p, size_t n, uint64_t i) {
    const void *q;
    size_t m;
    return get(p, n, MOYAI_INTO(moyai_into_bytes(&q, &m))) == 0 && m == 64 && memcmp(q, &i, sizeof i) == 0;
}
static int put_ints(struct codec_out *o, uint64_t i) {
    return codec_put_args(o, MOYAI_ARGS((int)(i % 10), (int64_t)i * 1000, (unsigned)i), NULL, NULL);
}
static bool get_ints(uint8_t *p, size_t n, uint64_t i) {
    int a;
    int64_t b;
    unsigned c;
    return get(p, n, MOYAI_INTO(&a, &b, &c)) == 0 && a == (int)(i % 10) && b == (int64_t)i * 1000 && c == i;
}
static int put_double(struct codec_out *o, uint64_t i) {
    return codec_put_args(o, MOYAI_ARGS((double)i + 0.5), NULL, NULL);
}
static bool get_double(uint8_t *p, size_t n, uint64_t i) {
    double d;
    return get(p, n, MOYAI_INTO(&d)) == 0 && d == (double)i + 0.5;
}
static int put_text(struct codec_out *o, uint64_t i) {
    return codec_put_args(o, MOYAI_ARGS("some text", (int)i), NULL, NULL);
}
static bool get_text(uint8_t *p, size_t n, uint64_t i) {
    const char *text;
    int k;
    return get(p, n, MOYAI_INTO(&text, &k)) == 0 && text[8] == 't' && k == (int)i;
}
static int put_array(struct codec_out *o, uint64_t i) {
    double d[8] = {(double)i};
    return codec_put_args(o, MOYAI_ARGS(moyai_doubles(d, 8)), NULL, NULL);
}
static bool get_array(uint8_t *p, size_t n, uint64_t i) {
    const double *d;
    size_t m;
    return get(p, n, MOYAI_INTO(moyai_into_doubles(&d, &m))) == 0 && m == 8 && d[0] == (double)i;
}

static const struct shape shapes[] = {
    {"64 bytes", put_bytes, get_bytes},           {"3 integers", put_ints, get_ints},
    {"1 double", put_double, get_double},         {"text, integer", put_text, get_text},
    {"array of 8 doubles", put_array, get_array},
};

int main(void) {
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        double put_best = 1e9, get_best = 1e9;
        for (int run = 0; run < RUNS; run++) {
            moyai_ns t0 = moyai_now();
            size_t n = 0;
            for (uint64_t i = 0; i < TURNS; i++) {
                struct codec_out o;
                codec_out_init(&o, buf, sizeof buf, 65536, 1 << 30);
                if (shapes[s].put(&o, i) < 0) abort();
                n += o.n;
            }
            moyai_ns t1 = moyai_now();
            if (n == 0) abort();
            moyai_ns spent = 0;
            for (uint64_t i = 0; i < TURNS; i += 100) {
                static _Alignas(16) uint8_t many[100][256];
                size_t len[100];
                for (uint64_t k = 0; k < 100; k++) {
                    struct codec_out o;
                    codec_out_init(&o, many[k], 255, 65536, 1 << 30);
                    if (shapes[s].put(&o, i + k) < 0) abort();
                    len[k] = o.n;
                }
                moyai_ns t2 = moyai_now();
                for (uint64_t k = 0; k < 100; k++) {
                    if (!shapes[s].get(many[k], len[k], i + k)) abort();
                }
                spent += moyai_now() - t2;
            }
            double put = (double)(t1 - t0) / TURNS, got = (double)spent / TURNS;
            if (put < put_best) put_best = put;
            if (got < get_best) get_best = got;
        }
        printf("%-20s encode %6.1f ns   decode %6.1f ns\n", shapes[s].name, put_best, get_best);
    }
    return 0;
}
