/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How soon is a busy worker gone that is asked to go? From SIGTERM to its exit with status 0, while a master keeps
 * calling a method of it that computes for 10 ms: four calls are always open. What has begun is finished, and answered;
 * the rest is refused, never executed. Both are checked: whatever a worker has begun its master has had an answer to.
 *
 *   preempt [--quick] [--seed N]
 */
#include "bench/bench.h"
#include "bench/pair.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define TRIALS 60
#define QUICK  10
#define DEEP   4    /* calls open */
#define TASK   0.01 /* s */
#define GUARD  60.0 /* s */

/* Shared by all processes. */
static struct board {
    struct {
        atomic_uint begun, answered, refused, unclear; /* calls; unclear: failed, and not never executed */
        atomic_bool over, drained;                     /* the worker has ended; and no call to it is open */
    } of[TRIALS];
} * board;

/* ---- the worker ------------------------------------------------------------------------------ */

static int work(moyai_request *rq, void *self) {
    int64_t trial, number;
    int rc = moyai_args(rq, MOYAI_INTO(&trial, &number));
    (void)self;
    if (rc < 0) return rc;
    atomic_fetch_add(&board->of[trial].begun, 1);
    for (const double end = bench_now() + TASK; bench_now() < end;) continue;
    return moyai_return(rq, MOYAI_ARGS(number * 3));
}

static const struct moyai_method methods[] = {{"work", work}, {NULL, NULL}};
static const struct moyai_class worker_class = MOYAI_CLASS("Worker", methods, NULL);

static void name_of(unsigned trial, char name[32]) {
    snprintf(name, 32, "worker %u", trial);
}

__attribute__((noreturn)) static void worker(unsigned trial) {
    moyai_node *n;
    moyai_ref *ref;
    struct moyai_error e;
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    char name[32];
    name_of(trial, name);
    o.signals = true;
    errno = 0;
    if (moyai_node_new(&n, &o, &e) < 0 || moyai_object_new(n, &worker_class, NULL, &ref, &e) < 0)
        bench_die("%s", e.text);
    if (moyai_register(ref, name) < 0) bench_die("cannot register");
    const int rc = moyai_node_serve(n, MOYAI_FOREVER);
    moyai_node_free(n);
    exit(rc != 0);
}

/* ---- the master ------------------------------------------------------------------------------ */

static void call(moyai_set *set, moyai_ref *ref, unsigned trial) {
    static int64_t number;
    moyai_future *f = moyai_call_async(ref, "work", MOYAI_ARGS((int64_t)trial, ++number));
    moyai_future_set_user(f, (void *)(intptr_t)number);
    if (moyai_set_add(set, f) < 0) bench_die("no set");
}

static void master_trial(moyai_node *n, moyai_set *set, unsigned trial) {
    char name[32];
    moyai_ref *ref;
    moyai_future *f;
    struct moyai_error e;
    name_of(trial, name);
    errno = 0;
    if (moyai_lookup_wait(n, name, 30 * MOYAI_SEC, &ref) < 0) bench_die("there is no %s", name);
    for (int i = 0; i < DEEP; i++) call(set, ref, trial);
    while (moyai_set_count(set)) {
        (void)moyai_wait(set, 100 * MOYAI_MS);
        while ((f = moyai_set_next(set))) {
            int64_t result;
            const int64_t number = (intptr_t)moyai_future_user(f);
            const int rc = moyai_future_get(f, MOYAI_INTO(&result));
            const bool over = atomic_load(&board->of[trial].over); /* when it was done already */
            if (rc == 0 && result != 3 * number) bench_die("a wrong result");
            if (rc < 0) (void)moyai_future_error(f, 0, &e);
            if (rc == 0)
                atomic_fetch_add(&board->of[trial].answered, 1);
            else if (e.executed == MOYAI_NEVER_EXECUTED)
                atomic_fetch_add(&board->of[trial].refused, 1);
            else if (atomic_fetch_add(&board->of[trial].unclear, 1) == 0)
                printf("%s: %s: %s\n", name, moyai_err_name(rc), e.text);
            moyai_future_free(f);
            if (rc < 0) moyai_sleep(n, MOYAI_MS); /* somebody else would be called now */
            if (!over) call(set, ref, trial);
        }
    }
    moyai_ref_unref(ref);
    atomic_store(&board->of[trial].drained, true);
}

__attribute__((noreturn)) static void master(unsigned trials) {
    moyai_node *n = pair_node();
    moyai_set *set;
    if (moyai_set_new(n, &set) < 0) bench_die("no set");
    for (unsigned i = 0; i < trials; i++) master_trial(n, set, i);
    moyai_set_free(set);
    moyai_node_free(n);
    exit(0);
}

/* ---- trials ---------------------------------------------------------------------------------- */

static void await(pid_t a, pid_t b, bool (*what)(unsigned trial), unsigned trial) {
    for (const double end = bench_now() + GUARD; !what(trial); usleep(500)) {
        if (waitpid(a, NULL, WNOHANG) != 0 || (b && waitpid(b, NULL, WNOHANG) != 0))
            bench_die("trial %u: a process has ended", trial);
        if (bench_now() > end) bench_die("trial %u hangs", trial);
    }
}

static bool is_busy(unsigned trial) {
    return atomic_load(&board->of[trial].answered) >= 5;
}

static bool is_drained(unsigned trial) {
    return atomic_load(&board->of[trial].drained);
}

int main(int argc, char **argv) {
    unsigned trials = TRIALS, seed = (unsigned)time(NULL), refused = 0, unclear = 0, unanswered = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            trials = QUICK;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = (unsigned)strtoul(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: preempt [--quick] [--seed N]\n");
            return 2;
        }
    }
    printf("seed %u\n", seed);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) bench_die("mmap");
    struct pair pair;
    pair_grid(&pair);
    const pid_t calls = bench_fork();
    if (calls == 0) master(trials);
    double s[TRIALS];
    for (unsigned i = 0; i < trials; i++) {
        const pid_t pid = bench_fork();
        if (pid == 0) worker(i);
        await(calls, pid, is_busy, i);
        usleep((unsigned)rand_r(&seed) % 20000);
        const double t = bench_now();
        kill(pid, SIGTERM);
        bench_join(pid);
        s[i] = bench_now() - t;
        atomic_store(&board->of[i].over, true);
        await(calls, 0, is_drained, i);
        refused += atomic_load(&board->of[i].refused);
        unclear += atomic_load(&board->of[i].unclear);
        unanswered += atomic_load(&board->of[i].begun) != atomic_load(&board->of[i].answered);
    }
    bench_join(calls);
    pair_remove(&pair);
    bench_sort(s, trials);
    printf("from SIGTERM to exit 0 of a worker whose calls take 10 ms: %.1f ms median, %.1f ms most, of %u\n",
           bench_percentile(s, trials, 0.5) * 1e3, s[trials - 1] * 1e3, trials);
    printf("%u calls were refused, never executed; %u failed otherwise; workers whose master has not had all answers: "
           "%u\n",
           refused, unclear, unanswered);
    const struct bench_demand d[] = {{NULL, bench_percentile(s, trials, 0.5) * 1e3, 100, true},
                                     {"most", s[trials - 1] * 1e3, 100, true},
                                     {"unclear", unclear, 0, true},
                                     {"unanswered", unanswered, 0, true}};
    return bench_end(d, sizeof d / sizeof d[0]);
}
