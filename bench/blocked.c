/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does a blocked call cost? 20,000 calls block at once in a method that waits for one future; the figure is the
 * KiB of resident memory each takes in the callee. Then all are woken at once: the rate at which their results come
 * back to the caller is printed.
 */
#include "bench/bench.h"
#include "bench/pair.h"

#define CALLS 20000

/* The callee: its method waits for an answer from the caller's gate. */
struct callee {
    moyai_future *gate;
};

static int wait_for_gate(moyai_request *rq, void *self) {
    struct callee *c = self;
    moyai_ref *gate;
    int64_t number;
    if (moyai_args(rq, MOYAI_INTO(&gate, &number)) < 0) return moyai_raise(rq, MOYAI_EARGS, "wait(gate, number)");
    if (!c->gate) c->gate = moyai_call_async(gate, "pass", MOYAI_NONE);
    moyai_ref_unref(gate);
    int rc = moyai_future_get(c->gate, MOYAI_NONE);
    if (rc < 0) return moyai_raise_from(rq, c->gate, rc, "the gate");
    return moyai_return(rq, MOYAI_ARGS(number));
}

static const struct moyai_method callee_methods[] = {{"wait", wait_for_gate}, {NULL, NULL}};
static const struct moyai_class callee_class = MOYAI_CLASS("Callee", callee_methods, NULL);

/* The gate: opened by a signal. */
static int pass(moyai_request *rq, void *self) {
    (void)self;
    moyai_set *none;
    int rc = moyai_set_new(moyai_request_node(rq), &none);
    if (rc < 0) return rc;
    rc = moyai_wait(none, MOYAI_FOREVER);
    moyai_set_free(none);
    return rc == MOYAI_SIGNALLED ? 0 : rc;
}

static const struct moyai_method gate_methods[] = {{"pass", pass}, {NULL, NULL}};
static const struct moyai_class gate_class = MOYAI_CLASS("Gate", gate_methods, NULL);

static double resident(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *f = fopen(path, "r");
    long size, rss = 0;
    if (!f || fscanf(f, "%ld %ld", &size, &rss) != 2) bench_die("%s", path);
    fclose(f);
    return (double)rss * (double)sysconf(_SC_PAGESIZE);
}

int main(void) {
    struct callee state = {0};
    struct pair pair;
    pair_open(&pair, &callee_class, &state);
    moyai_ref *gate;
    int rc = moyai_object_new(pair.node, &gate_class, NULL, &gate, NULL);
    if (rc < 0) bench_die("gate");

    double before = resident(pair.pid), mine = resident(getpid());
    static moyai_future *f[CALLS];
    for (int64_t i = 0; i < CALLS; i++) f[i] = moyai_call_async(pair.ref, "wait", MOYAI_ARGS(gate, i));
    /* All have begun when as many fibers are in progress there; the last one's block follows at once. */
    double deadline = bench_now() + 60, last = 0;
    for (;;) {
        moyai_sleep(pair.node, 100 * MOYAI_MS);
        double now = resident(pair.pid);
        if (now == last && now - before > CALLS * 4096.0) break;
        last = now;
        if (bench_now() > deadline) bench_die("the calls do not block");
    }
    double each = (last - before) / CALLS;
    printf("%d calls blocked: %.1f KiB resident each at the callee, %.1f KiB at the caller\n", CALLS, each / 1024,
           (resident(getpid()) - mine) / CALLS / 1024);

    double t = bench_now();
    moyai_signal(gate);
    for (int64_t i = 0; i < CALLS; i++) {
        int64_t number;
        rc = moyai_future_get(f[i], MOYAI_INTO(&number));
        if (rc < 0) pair_die(&pair, rc);
        if (number != i) bench_die("wrong result");
        moyai_future_free(f[i]);
    }
    t = bench_now() - t;
    printf("woken and answered: %.0f a second\n", CALLS / t);
    moyai_ref_unref(gate);
    pair_close(&pair);
    printf("KiB of resident memory of a blocked call:\n");
    const struct bench_demand d[] = {{NULL, each / 1024, 20, true}};
    return bench_end(d, 1);
}
