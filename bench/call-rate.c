/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many calls a second, pipelined? Calls with a 64-byte argument and a 64-byte result, each with its own future at
 * the caller and its own fiber at the callee, against 64-byte frames on a raw Unix socket pair with writes of 64 KiB.
 * The argument differs from call to call, the callee checks it, the caller checks the result.
 */
#include "bench/baseline.h"
#include "bench/bench.h"
#include "bench/pair.h"

#define BYTES     64
#define IN_FLIGHT 1000
#define CALLS     2000000
#define RUNS      3

struct callee {
    uint64_t next;
};

static int echo(moyai_request *rq, void *self) {
    struct callee *c = self;
    const void *p;
    size_t n;
    if (moyai_args(rq, MOYAI_INTO(moyai_into_bytes(&p, &n))) < 0) return moyai_raise(rq, MOYAI_EARGS, "echo(64 bytes)");
    uint64_t number;
    memcpy(&number, p, sizeof number);
    if (n != BYTES || number != c->next)
        return moyai_raise(rq, MOYAI_EDATA, "expected call %llu", (unsigned long long)c->next);
    c->next++;
    return moyai_return(rq, MOYAI_ARGS(moyai_bytes(p, n)));
}

static const struct moyai_method methods[] = {{"echo", echo}, {NULL, NULL}};
static const struct moyai_class callee_class = MOYAI_CLASS("Callee", methods, NULL);

static moyai_future *flying[IN_FLIGHT];

static void check(struct pair *pair, moyai_future *f, uint64_t number) {
    const void *p;
    size_t n;
    int rc = moyai_future_get(f, MOYAI_INTO(moyai_into_bytes(&p, &n)));
    if (rc < 0) pair_die(pair, rc);
    uint64_t got;
    memcpy(&got, p, sizeof got);
    if (n != BYTES || got != number) bench_die("wrong result");
    moyai_future_free(f);
}

static double run(struct pair *pair, uint64_t calls, uint64_t *number) {
    uint8_t bytes[BYTES] = {0};
    double t = bench_now();
    uint64_t first = *number, sent = 0, done = 0;
    while (done < calls) {
        while (sent < calls && sent - done < IN_FLIGHT) {
            uint64_t x = first + sent;
            memcpy(bytes, &x, sizeof x);
            flying[sent % IN_FLIGHT] = moyai_call_async(pair->ref, "echo", MOYAI_ARGS(moyai_bytes(bytes, BYTES)));
            sent++;
        }
        check(pair, flying[done % IN_FLIGHT], first + done);
        done++;
        while (done < sent && moyai_future_ready(flying[done % IN_FLIGHT])) {
            check(pair, flying[done % IN_FLIGHT], first + done);
            done++;
        }
    }
    *number += calls;
    return (double)calls / (bench_now() - t);
}

int main(void) {
    struct callee state = {0};
    struct pair pair;
    double raw = baseline_rate(10000000, 1);
    pair_open(&pair, &callee_class, &state);
    uint64_t number = 0;
    (void)run(&pair, CALLS / 10, &number);
    double best = 0;
    for (int i = 0; i < RUNS; i++) {
        double r = run(&pair, CALLS, &number);
        if (r > best) best = r;
    }
    pair_close(&pair);
    double again = baseline_rate(10000000, 1);
    if (again > raw) raw = again;
    printf("raw Unix socket pair, 64-byte frames, 64 KiB a write: %.0f requests and replies a second\n", raw);
    printf("calls with 64-byte argument and result, %d in flight: %.0f a second\n", IN_FLIGHT, best);
    const struct bench_demand d[] = {{NULL, best / raw, 0.05, false}};
    return bench_end(d, 1);
}
