/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How soon does a caller learn that the callee was killed? Milliseconds from SIGKILL to the error, of calls that were
 * blocked, computing, and asleep in the poll at the time; the figure is the median over all, the largest is printed.
 */
#include "bench/bench.h"
#include "bench/pair.h"

#define TRIALS 30

static int block(moyai_request *rq, void *self) {
    (void)self;
    return moyai_sleep(moyai_request_node(rq), MOYAI_FOREVER);
}

static int compute(moyai_request *rq, void *self) {
    (void)self;
    (void)rq;
    volatile uint64_t i = 1;
    while (i > 0) i = i + 1;
    return 0;
}

static const struct moyai_method methods[] = {{"block", block}, {"compute", compute}, {NULL, NULL}};
static const struct moyai_class callee_class = MOYAI_CLASS("Callee", methods, NULL);

int main(void) {
    struct pair pair;
    pair_grid(&pair);
    static pid_t pid[TRIALS];
    for (int i = 0; i < TRIALS; i++) {
        char name[32];
        snprintf(name, sizeof name, "callee %d", i);
        pid[i] = bench_fork();
        if (pid[i] == 0) pair_serve(&callee_class, NULL, name);
    }
    pair.node = pair_node();
    double s[TRIALS];
    for (int i = 0; i < TRIALS; i++) {
        char name[32];
        snprintf(name, sizeof name, "callee %d", i);
        int rc = moyai_lookup_wait(pair.node, name, 30 * MOYAI_SEC, &pair.ref);
        if (rc < 0) pair_die(&pair, rc);
        moyai_future *f = moyai_call_async(pair.ref, i % 2 ? "block" : "compute", MOYAI_NONE);
        moyai_sleep(pair.node, 20 * MOYAI_MS);
        double t = bench_now();
        kill(pid[i], SIGKILL);
        rc = moyai_future_get(f, MOYAI_NONE);
        s[i] = bench_now() - t;
        if (rc != MOYAI_EDEAD) bench_die("expected EDEAD, got %s", moyai_err_name(rc));
        moyai_future_free(f);
        moyai_ref_unref(pair.ref);
        waitpid(pid[i], NULL, 0);
    }
    moyai_node_free(pair.node);
    pair_remove(&pair);
    bench_sort(s, TRIALS);
    printf("from SIGKILL to the caller's error: %.3f ms median, %.3f ms most\n", s[TRIALS / 2] * 1e3,
           s[TRIALS - 1] * 1e3);
    const struct bench_demand d[] = {{NULL, s[TRIALS / 2] * 1e3, 50, true}, {"most", s[TRIALS - 1] * 1e3, 50, true}};
    return bench_end(d, 2);
}
