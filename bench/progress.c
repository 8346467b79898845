/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a node answer while a method computes? A method computes for 5 s on the node thread; meanwhile round trips
 * through the node's runtime (pings) alternate with round trips through a bare echo thread of the same process. The
 * figure is how many milliseconds longer the 99.9th percentile of the pings is, best of 5 runs.
 */
#include "bench/baseline.h"
#include "bench/bench.h"
#include "bench/pair.h"

#include <sys/socket.h>

#define RUNS    5
#define SECONDS 5.0
#define MOST    200000

static int compute(moyai_request *rq, void *self) {
    (void)self;
    double seconds;
    if (moyai_args(rq, MOYAI_INTO(&seconds)) < 0) return moyai_raise(rq, MOYAI_EARGS, "compute(seconds)");
    volatile double x = 1;
    for (double end = bench_now() + seconds; bench_now() < end;)
        for (int i = 0; i < 100000; i++) x = x * 1.0000001 + 1e-9;
    return moyai_return(rq, MOYAI_ARGS(x));
}

static const struct moyai_method methods[] = {{"compute", compute}, {NULL, NULL}};
static const struct moyai_class callee_class = MOYAI_CLASS("Callee", methods, NULL);

int main(void) {
    int sv[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) < 0) bench_die("socketpair");
    struct pair pair;
    pair_grid(&pair);
    pair.pid = bench_fork();
    if (pair.pid == 0) {
        close(sv[0]);
        baseline_echo_thread(sv[1]);
        pair_serve(&callee_class, NULL, "callee");
    }
    close(sv[1]);
    pair.node = pair_node();
    int rc = moyai_lookup_wait(pair.node, "callee", 10 * MOYAI_SEC, &pair.ref);
    if (rc < 0) pair_die(&pair, rc);

    static double a[MOST], b[MOST];
    double best = INFINITY;
    for (int r = 0; r < RUNS; r++) {
        moyai_future *f = moyai_call_async(pair.ref, "compute", MOYAI_ARGS(SECONDS));
        size_t n = 0;
        uint64_t message = 0;
        while (!moyai_future_ready(f)) {
            double t = bench_now();
            rc = moyai_ping(pair.node, moyai_ref_home(pair.ref), 10 * MOYAI_SEC);
            if (rc < 0) pair_die(&pair, rc);
            if (n == MOST) break;
            b[n] = bench_now() - t;
            message++;
            a[n++] = baseline_echo(sv[0], &message, sizeof message);
        }
        rc = moyai_future_get(f, MOYAI_NONE);
        if (rc < 0) pair_die(&pair, rc);
        moyai_future_free(f);
        bench_sort(a, n);
        bench_sort(b, n);
        double echo = bench_percentile(a, n, 0.999), ping = bench_percentile(b, n, 0.999);
        printf("run %d: %zu round trips each: echo thread %.3f ms median, %.3f ms 99.9th; ping %.3f ms median, %.3f ms "
               "99.9th\n",
               r + 1, n, bench_percentile(a, n, 0.5) * 1e3, echo * 1e3, bench_percentile(b, n, 0.5) * 1e3, ping * 1e3);
        if (ping - echo < best) best = ping - echo;
    }
    pair_close(&pair);
    printf("milliseconds by which the 99.9th percentile of pings exceeds that of an echo thread, best run:\n");
    const struct bench_demand d[] = {{NULL, best * 1e3, 5, true}};
    return bench_end(d, 1);
}
