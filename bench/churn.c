/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does it cost that workers come and go? A master keeps 64 workers busy with tasks that sleep for 20 ms, two calls
 * to each. Every 200 ms one of them, any, is asked to leave (SIGTERM), and a new one is started. Each task is executed
 * once: what a leaver has begun it finishes, the rest it refuses, and another gets it. The figure is the throughput
 * against that of 64 workers that stay, half of which is measured before, half after. The same with SIGKILL is printed:
 * then tasks run twice.
 *
 *   churn [--quick] [--seed N]
 */
#include "bench/bench.h"
#include "bench/pair.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define POOL   64u
#define DEEP   2u        /* calls to a worker */
#define TASK   20000000L /* ns */
#define EVERY  0.2       /* s: one goes, one comes */
#define SPAN   60.0      /* s */
#define QUICK  6.0
#define SETTLE 0.5        /* s: from when all have joined */
#define SAMPLE 5000u      /* us: the pool's size is looked at */
#define GUARD  60.0       /* s */
#define TASKS  (1u << 20) /* more than there can be */
#define MOST   2000u      /* workers in a phase */

/* Shared by all processes. */
static struct board {
    atomic_bool stop; /* no new tasks */
    atomic_uint members, done, issued, again;
    atomic_bool ready[MOST];   /* workers that have joined */
    atomic_uchar begun[TASKS]; /* how often */
    atomic_uchar ended[TASKS]; /* how often its master has had a result */
} * board;

/* ---- a worker -------------------------------------------------------------------------------- */

static int work(moyai_request *rq, void *self) {
    int64_t task;
    struct timespec t = {.tv_nsec = TASK};
    int rc = moyai_args(rq, MOYAI_INTO(&task));
    (void)self;
    if (rc < 0) return rc;
    atomic_fetch_add(&board->begun[task], 1);
    while (nanosleep(&t, &t) < 0) continue; /* as one that computes: nobody else's turn */
    return moyai_return(rq, MOYAI_ARGS(task * 3));
}

static const struct moyai_method worker_methods[] = {{"work", work}, {NULL, NULL}};
static const struct moyai_class worker_class = MOYAI_CLASS("Worker", worker_methods, NULL);

__attribute__((noreturn)) static void worker(unsigned number) {
    moyai_node *n;
    moyai_ref *ref, *to;
    struct moyai_error e;
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    o.signals = true;
    errno = 0;
    if (moyai_node_new(&n, &o, &e) < 0 || moyai_object_new(n, &worker_class, NULL, &ref, &e) < 0)
        bench_die("%s", e.text);
    if (moyai_lookup_wait(n, "master", 30 * MOYAI_SEC, &to) < 0 ||
        moyai_call(to, "join", MOYAI_ARGS(ref), MOYAI_NONE, NULL) < 0)
        bench_die("worker %u cannot join", number);
    atomic_store(&board->ready[number], true);
    const int rc = moyai_node_serve(n, MOYAI_FOREVER);
    moyai_node_free(n);
    exit(rc != 0);
}

/* ---- the master ------------------------------------------------------------------------------ */

struct member {
    moyai_ref *ref;
    unsigned open; /* calls */
    bool gone;     /* it has refused one, or died */
};

struct call {
    struct member *m;
    uint32_t task;
};

struct master {
    moyai_set *busy;
    struct member *member[MOST];
    unsigned members;
    uint32_t again[POOL * DEEP * 8]; /* tasks that were refused, or lost */
    unsigned n_again;
};

static int join(moyai_request *rq, void *self) {
    struct master *ma = self;
    struct member *m = calloc(1, sizeof *m);
    if (!m || ma->members == MOST) bench_die("too many workers");
    int rc = moyai_args(rq, MOYAI_INTO(&m->ref));
    if (rc < 0) return rc;
    ma->member[ma->members++] = m;
    atomic_fetch_add(&board->members, 1);
    return moyai_signal(moyai_self(rq));
}

static void give(struct master *ma, struct member *m) {
    while (!m->gone && m->open < DEEP && (ma->n_again || !atomic_load(&board->stop))) {
        struct call *c = malloc(sizeof *c);
        if (!c) bench_die("out of memory");
        *c = (struct call){m, ma->n_again ? ma->again[--ma->n_again] : atomic_fetch_add(&board->issued, 1)};
        if (c->task >= TASKS) bench_die("too many tasks");
        moyai_future *f = moyai_call_async(m->ref, "work", MOYAI_ARGS((int64_t)c->task));
        moyai_future_set_user(f, c);
        if (moyai_set_add(ma->busy, f) < 0) bench_die("no set");
        m->open++;
    }
}

static void finish(struct master *ma, moyai_future *f) {
    struct call *c = moyai_future_user(f);
    int64_t result;
    const int rc = moyai_future_get(f, MOYAI_INTO(&result));
    c->m->open--;
    if (rc == 0) {
        if (result != 3 * (int64_t)c->task) bench_die("a wrong result");
        atomic_fetch_add(&board->ended[c->task], 1);
        atomic_fetch_add(&board->done, 1);
    } else {
        struct moyai_error e;
        (void)moyai_future_error(f, 0, &e);
        errno = 0;
        if (moyai_err_category(rc) != MOYAI_CAT_CLOSED && rc != MOYAI_ELEAVING)
            bench_die("%s: %s", moyai_err_name(rc), e.text);
        if (ma->n_again == sizeof ma->again / sizeof *ma->again) bench_die("too many tasks were lost");
        ma->again[ma->n_again++] = c->task;
        atomic_fetch_add(&board->again, 1);
        if (!c->m->gone) atomic_fetch_sub(&board->members, 1);
        c->m->gone = true;
    }
    free(c);
    moyai_future_free(f);
}

static int run(moyai_request *rq, void *self) {
    struct master *ma = self;
    (void)rq;
    do {
        for (unsigned i = 0; i < ma->members; i++) {
            struct member *m = ma->member[i];
            give(ma, m);
            if (!m->gone || m->open) continue;
            moyai_ref_unref(m->ref);
            free(m);
            ma->member[i--] = ma->member[--ma->members];
        }
        (void)moyai_wait(ma->busy, 100 * MOYAI_MS); /* a signal: somebody has joined */
        for (moyai_future *f; (f = moyai_set_next(ma->busy));) finish(ma, f);
    } while (!atomic_load(&board->stop) || ma->n_again || moyai_set_count(ma->busy));
    return 0;
}

static const struct moyai_method master_methods[] = {{"join", join}, {"run", run}, {NULL, NULL}};
static const struct moyai_class master_class = MOYAI_CLASS("Master", master_methods, NULL);

__attribute__((noreturn)) static void master(void) {
    static struct master ma;
    moyai_node *n = pair_node();
    moyai_ref *ref;
    struct moyai_error e;
    errno = 0;
    if (moyai_set_new(n, &ma.busy) < 0 || moyai_object_new(n, &master_class, &ma, &ref, &e) < 0) bench_die("no master");
    if (moyai_register(ref, "master") < 0) bench_die("cannot register");
    if (moyai_call(ref, "run", MOYAI_NONE, MOYAI_NONE, NULL) < 0) bench_die("the master has failed");
    moyai_set_free(ma.busy);
    moyai_node_free(n);
    exit(0);
}

/* ---- a phase --------------------------------------------------------------------------------- */

static pid_t pids[MOST];    /* by number; 0: ended */
static unsigned pool[POOL]; /* numbers of those that were not told to go */
static unsigned started;

static void start_worker(unsigned slot) {
    if (started == MOST) bench_die("too many workers");
    pool[slot] = started;
    pids[started] = bench_fork();
    if (pids[started] == 0) worker(started);
    started++;
}

/* Collect who has ended: those that were told to, in order (sig SIGTERM) or not. Returns how many there still are. */
static unsigned reap(int sig) {
    unsigned alive = 0;
    int status;
    errno = 0;
    for (unsigned i = 0; i < started; i++) {
        if (!pids[i]) continue;
        bool told = true;
        for (unsigned k = 0; k < POOL; k++) told = told && pool[k] != i;
        const pid_t pid = waitpid(pids[i], &status, WNOHANG);
        errno = 0;
        alive += pid == 0;
        if (pid == 0) continue;
        if (!told || (sig == SIGTERM ? status != 0 : !WIFSIGNALED(status)))
            bench_die("worker %u ended with wait status 0x%x", i, status);
        pids[i] = 0;
    }
    return alive;
}

struct result {
    double rate, size; /* tasks a second; of the pool, on average */
    unsigned gone, tasks, again, twice, wrong;
};

/* Every EVERY seconds a worker gets that signal, and another is started. 0: none. */
static struct result phase(int sig, double seconds, unsigned *seed) {
    struct result r = {0};
    struct pair pair;
    memset(board, 0, sizeof *board);
    started = 0;
    pair_grid(&pair);
    const pid_t calls = bench_fork();
    if (calls == 0) master();
    for (unsigned i = 0; i < POOL; i++) start_worker(i);
    for (double end = bench_now() + GUARD; atomic_load(&board->members) < POOL; usleep(SAMPLE))
        if (reap(sig) < POOL || bench_now() > end) bench_die("not all can join");
    usleep((unsigned)(SETTLE * 1e6));

    const unsigned before = atomic_load(&board->done);
    const double t = bench_now();
    double next = t + EVERY, size = 0;
    unsigned samples = 0;
    for (; bench_now() < t + seconds; usleep(SAMPLE)) {
        size += atomic_load(&board->members);
        samples++;
        if (!sig || bench_now() < next) continue;
        next += EVERY;
        unsigned slot;
        do slot = (unsigned)rand_r(seed) % POOL;
        while (!atomic_load(&board->ready[pool[slot]]));
        kill(pids[pool[slot]], sig);
        start_worker(slot);
        r.gone++;
        (void)reap(sig);
    }
    r.rate = (atomic_load(&board->done) - before) / (bench_now() - t);
    r.size = size / samples;

    atomic_store(&board->stop, true);
    bench_join(calls);
    for (double end = bench_now() + GUARD; reap(sig) > POOL; usleep(SAMPLE))
        if (bench_now() > end) bench_die("not all that were told to leave have");
    for (unsigned i = 0; i < POOL; i++) {
        kill(pids[pool[i]], SIGKILL);
        waitpid(pids[pool[i]], NULL, 0);
    }
    pair_remove(&pair);
    r.tasks = atomic_load(&board->issued);
    r.again = atomic_load(&board->again);
    for (unsigned i = 0; i < r.tasks; i++) {
        r.twice += board->begun[i] > 1;
        r.wrong += board->begun[i] == 0 || board->ended[i] != 1;
    }
    return r;
}

int main(int argc, char **argv) {
    unsigned seed = (unsigned)time(NULL);
    double span = SPAN;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            span = QUICK;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = (unsigned)strtoul(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: churn [--quick] [--seed N]\n");
            return 2;
        }
    }
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) bench_die("mmap");
    printf("seed %u; tasks of 20 ms, %u workers\n", seed, POOL);
    fflush(stdout);
    const struct result a = phase(0, span / 2, &seed), leave = phase(SIGTERM, span, &seed),
                        b = phase(0, span / 2, &seed), killed = phase(SIGKILL, span, &seed);
    const double whole = (a.rate + b.rate) / 2;
    printf("all stay:                                   %.0f tasks/s before, %.0f after\n", a.rate, b.rate);
    printf("one leaves and one joins every 200 ms, %u:  %.0f tasks/s, %.2f workers on average; %u tasks refused and "
           "given to another, %u executed twice\n",
           leave.gone, leave.rate, leave.size, leave.again, leave.twice);
    printf("the same with SIGKILL, %u:                  %.0f tasks/s (%.3f), %.2f workers; %u tasks lost and given to "
           "another, %u begun twice\n",
           killed.gone, killed.rate, killed.rate / whole, killed.size, killed.again, killed.twice);
    const struct bench_demand d[] = {
        {NULL, leave.rate / whole, 0.95, false},
        {"twice", leave.twice + a.twice + b.twice, 0, true},
        {"undone", leave.wrong + a.wrong + b.wrong + killed.wrong, 0, true},
    };
    return bench_end(d, sizeof d / sizeof d[0]);
}
