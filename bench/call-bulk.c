/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast do large arguments go? Calls with an array of 64 MiB, against writes of 1 MiB from a touched buffer into a
 * touched, reused buffer of 64 MiB at the other end. Buffers are warm on both sides. The array differs from call to
 * call in places that the callee checks; rounds of both alternate.
 */
#include "bench/baseline.h"
#include "bench/bench.h"
#include "bench/pair.h"

#define DOUBLES (8u << 20) /* 64 MiB */
#define ROUNDS  5
#define CALLS   8
#define STRIDE  4096 /* checked: one in so many, another one each time */

struct callee {
    uint64_t next;
};

static double expected(uint64_t number, size_t i) {
    return (double)(number * 31 + i);
}

static int take(moyai_request *rq, void *self) {
    struct callee *c = self;
    const double *p;
    size_t n;
    if (moyai_args(rq, MOYAI_INTO(moyai_into_doubles(&p, &n))) < 0)
        return moyai_raise(rq, MOYAI_EARGS, "take(doubles)");
    if (n != DOUBLES) return moyai_raise(rq, MOYAI_EDATA, "%zu doubles", n);
    for (size_t i = c->next % STRIDE; i < n; i += STRIDE)
        if (p[i] != expected(c->next, i)) return moyai_raise(rq, MOYAI_EDATA, "wrong value at %zu", i);
    c->next++;
    return 0;
}

static const struct moyai_method methods[] = {{"take", take}, {NULL, NULL}};
static const struct moyai_class callee_class = MOYAI_CLASS("Callee", methods, NULL);

static double run(struct pair *pair, double *a, uint64_t *number) {
    double busy = 0;
    for (int k = 0; k < CALLS; k++) {
        for (size_t i = *number % STRIDE; i < DOUBLES; i += STRIDE) a[i] = expected(*number, i);
        ++*number;
        double t = bench_now();
        int rc = moyai_call(pair->ref, "take", MOYAI_ARGS(moyai_doubles(a, DOUBLES)), MOYAI_NONE, NULL);
        if (rc < 0) pair_die(pair, rc);
        busy += bench_now() - t;
    }
    return (double)CALLS * DOUBLES * sizeof *a / busy;
}

int main(void) {
    struct callee state = {0};
    struct pair pair;
    struct baseline_bulk *raw = baseline_bulk_open(DOUBLES * sizeof(double));
    pair_open(&pair, &callee_class, &state);
    double *a = malloc(DOUBLES * sizeof *a);
    if (!a) bench_die("out of memory");
    memset(a, 0, DOUBLES * sizeof *a);
    uint64_t number = 0;
    (void)run(&pair, a, &number);
    double x[ROUNDS], y[ROUNDS], q[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        x[r] = baseline_bulk_run(raw, CALLS);
        y[r] = run(&pair, a, &number);
        q[r] = y[r] / x[r];
    }
    bench_sort(x, ROUNDS);
    bench_sort(y, ROUNDS);
    bench_sort(q, ROUNDS);
    printf("raw Unix socket pair, 1 MiB writes:  %.2f GB/s median, %.2f best\n", x[ROUNDS / 2] * 1e-9,
           x[ROUNDS - 1] * 1e-9);
    printf("calls with an array of 64 MiB:       %.2f GB/s median, %.2f best\n", y[ROUNDS / 2] * 1e-9,
           y[ROUNDS - 1] * 1e-9);
    free(a);
    pair_close(&pair);
    baseline_bulk_close(raw);
    const struct bench_demand d[] = {{NULL, q[ROUNDS / 2], 0.85, false}};
    return bench_end(d, 1);
}
