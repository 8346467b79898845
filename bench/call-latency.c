/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does a call cost that waits for its answer? A synchronous call with a 64-byte argument between two processes,
 * against a blocking ping-pong of 64 bytes on a Unix socket pair. Rounds of both alternate, so that both see
 * the same minute of a shared machine; the figure is the ratio of the medians. The argument differs from call to call
 * and the callee checks it.
 */
#include "bench/baseline.h"
#include "bench/bench.h"
#include "bench/pair.h"

#define BYTES  64
#define ROUNDS 20
#define CALLS  1000

struct callee {
    uint64_t next;
};

static int take(moyai_request *rq, void *self) {
    struct callee *c = self;
    const void *p;
    size_t n;
    if (moyai_args(rq, MOYAI_INTO(moyai_into_bytes(&p, &n))) < 0) return moyai_raise(rq, MOYAI_EARGS, "take(64 bytes)");
    uint64_t number;
    memcpy(&number, p, sizeof number);
    if (n != BYTES || number != c->next)
        return moyai_raise(rq, MOYAI_EDATA, "expected call %llu", (unsigned long long)c->next);
    c->next++;
    return 0;
}

static const struct moyai_method methods[] = {{"take", take}, {NULL, NULL}};
static const struct moyai_class callee_class = MOYAI_CLASS("Callee", methods, NULL);

int main(void) {
    struct baseline_ping *raw = baseline_ping_open(BYTES);
    struct callee state = {0};
    struct pair pair;
    pair_open(&pair, &callee_class, &state);

    static double a[ROUNDS * CALLS], b[ROUNDS * CALLS];
    uint64_t number = 0;
    uint8_t bytes[BYTES] = {0};
    baseline_ping_run(raw, NULL, CALLS);
    for (int r = -1; r < ROUNDS; r++) {
        double *out = r < 0 ? NULL : b + r * CALLS;
        if (r >= 0) baseline_ping_run(raw, a + r * CALLS, CALLS);
        for (int i = 0; i < CALLS; i++) {
            memcpy(bytes, &number, sizeof number);
            number++;
            double t = bench_now();
            int rc = moyai_call(pair.ref, "take", MOYAI_ARGS(moyai_bytes(bytes, BYTES)), MOYAI_NONE, NULL);
            if (rc < 0) pair_die(&pair, rc);
            if (out) out[i] = bench_now() - t;
        }
    }
    bench_sort(a, ROUNDS * CALLS);
    bench_sort(b, ROUNDS * CALLS);
    double raw50 = bench_percentile(a, ROUNDS * CALLS, 0.5), call50 = bench_percentile(b, ROUNDS * CALLS, 0.5);
    printf("raw Unix socket ping-pong, 64 bytes: %.2f us median, %.2f us 99th percentile\n", raw50 * 1e6,
           bench_percentile(a, ROUNDS * CALLS, 0.99) * 1e6);
    printf("synchronous call, 64-byte argument:  %.2f us median, %.2f us 99th percentile\n", call50 * 1e6,
           bench_percentile(b, ROUNDS * CALLS, 0.99) * 1e6);
    pair_close(&pair);
    baseline_ping_close(raw);
    const struct bench_demand d[] = {{NULL, call50 / raw50, 1.4, true}};
    return bench_end(d, 1);
}
