/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long it takes until n of 64 processes that want to leave at the same instant have left (S2, 5.1).
 *
 *   leave [--quick] [--runs N] [--seed N]
 *
 * Each process has channels to five others, over the project's own links, which delay frames by a millisecond and let a
 * process send no more than 100 MByte/s over all of them. It leaves by the project's own machine, or as a central
 * server admits it; the same graph, leavers and messages are given to both, one after the other. The figure of a run is
 * the slowest leaver's time from the common instant until it has left. In three cases: no traffic; two messages of two
 * bytes a channel on average, sent about that instant; 10 MByte of state, which each leaver hands over to a neighbour
 * that stays (with the server when it is admitted, as in S2; what would be if it did so before is printed, too). Each
 * message has a number; it is taken by one process, once, or was not taken from its user as that
 * process had left.
 *
 * The processes live through all runs, so that what is measured is not how they start; their sockets do not.
 */
#include "bench/leave.h"

#include "bench/bench.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define RUNS   20
#define QUICK  3
#define GUARD  60.0           /* s: a run that takes longer hangs */
#define SOON   (5 * MOYAI_MS) /* the start, when all are ready */
#define QUIET  200000         /* us: then a node's second thread sleeps, as nothing needs it */
#define SIZES  6              /* 1, 2, 4 ... 32 leavers */
#define LONGER 4              /* of what takes long, a quarter of the runs */

static struct ledger *ledger;
#define draw (ledger->draw)

/* ---- what is drawn --------------------------------------------------------------------------- */

static void draw_channels(struct moyai_rng *rng) {
    static bool linked[NODES][NODES];
    memset(linked, 0, sizeof linked);
    for (uint32_t i = 0, n = 0; i < NODES; i++)
        for (uint32_t k = 0; k < DEGREE;) {
            const uint32_t j = (uint32_t)rng_below(rng, NODES);
            if (j == i || linked[i][j]) continue;
            linked[i][j] = linked[j][i] = true;
            draw.end[n][0] = (uint8_t)i;
            draw.end[n++][1] = (uint8_t)j;
            k++;
        }
}

static void draw_leavers(struct moyai_rng *rng) {
    memset(draw.leaves, 0, sizeof draw.leaves);
    for (uint32_t n = 0; n < draw.leavers;) {
        const uint32_t i = (uint32_t)rng_below(rng, NODES);
        n += !draw.leaves[i];
        draw.leaves[i] = true;
    }
}

/* What S2 asks for: those that stay are connected, and each leaver has a channel to one of them. */
static bool may_leave(void) {
    uint8_t of[NODES];
    bool way[NODES] = {false};
    uint32_t parts = NODES - draw.leavers;
    for (uint32_t i = 0; i < NODES; i++) of[i] = (uint8_t)i;
    for (uint32_t c = 0; c < CHANNELS; c++) {
        uint32_t a = draw.end[c][0], b = draw.end[c][1];
        if (!draw.leaves[a]) way[b] = true;
        if (!draw.leaves[b]) way[a] = true;
        if (draw.leaves[a] || draw.leaves[b]) continue;
        while (of[a] != a) a = of[a];
        while (of[b] != b) b = of[b];
        parts -= a != b;
        of[a] = (uint8_t)b;
    }
    for (uint32_t i = 0; i < NODES; i++)
        if (draw.leaves[i] && !way[i]) return false;
    return parts == 1;
}

/* Each leaver's heir: any neighbour that stays. */
static void draw_heirs(struct moyai_rng *rng) {
    uint32_t seen[NODES] = {0};
    for (uint32_t c = 0; c < CHANNELS; c++)
        for (int k = 0; k < 2; k++) {
            const uint32_t i = draw.end[c][k];
            if (!draw.leaves[draw.end[c][1 - k]] && rng_below(rng, ++seen[i]) == 0) draw.heir[i] = (uint16_t)c;
        }
}

/* Within the time that a frame takes, before and after the leavers want to leave. */
static void draw_messages(struct moyai_rng *rng) {
    for (uint32_t m = 0; m < draw.messages; m++) {
        const uint32_t c = (uint32_t)rng_below(rng, CHANNELS);
        draw.message[m].channel = (uint16_t)c;
        draw.message[m].from = draw.end[c][rng_below(rng, 2)];
    }
    for (uint32_t m = 0; m < draw.messages; m++) /* in order */
        draw.message[m].at = (int64_t)(2 * (uint64_t)draw.delay * m / draw.messages) - (int64_t)draw.delay;
}

static void draw_run(uint64_t seed, uint32_t leavers) {
    struct moyai_rng rng;
    rng_seed(&rng, seed);
    draw.leavers = leavers;
    do {
        draw_channels(&rng);
        draw_leavers(&rng);
    } while (!may_leave());
    draw_heirs(&rng);
    draw_messages(&rng);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static struct {
    pid_t pid;
    int orders;
} procs[NODES + 1];
static const char *run_name; /* for what is said when it fails */

/* Wait a little. Nobody ends before we do. */
static void wait_a_little(double begun) {
    int status;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    errno = 0;
    for (uint32_t i = 0; pid > 0 && i <= NODES; i++)
        if (procs[i].pid == pid) bench_die("%s: process %u ended with wait status 0x%x", run_name, i, status);
    if (bench_now() - begun > GUARD)
        bench_die("%s: it hangs; %u of %u have left", run_name, atomic_load(&ledger->left), draw.leavers);
    usleep(200);
}

static void start_processes(void) {
    for (uint32_t i = 0; i <= NODES; i++) {
        int fd[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) < 0) bench_die("socketpair");
        procs[i].orders = fd[0];
        procs[i].pid = bench_fork();
        if (procs[i].pid == 0) {
            for (uint32_t k = 0; k <= i; k++) close(procs[k].orders);
            proc_run(ledger, i, fd[1]);
        }
        close(fd[1]);
    }
    usleep(QUIET);
}

static void end_processes(void) {
    for (uint32_t i = 0; i <= NODES; i++) close(procs[i].orders);
    for (uint32_t i = 0; i <= NODES; i++) bench_join(procs[i].pid);
}

/* Tell process i, and give it these descriptors. */
static void tell(uint32_t i, const struct order *o, const int *fd) {
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(PORTS * sizeof(int))];
    } control = {0};
    struct iovec iov = {(void *)(uintptr_t)o, sizeof *o};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (o->n) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(o->n * sizeof *fd);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){CMSG_LEN(o->n * sizeof *fd), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(c), fd, o->n * sizeof *fd);
    }
    if (sendmsg(procs[i].orders, &m, MSG_NOSIGNAL) != sizeof *o) bench_die("%s: process %u", run_name, i);
}

static struct order link_order[NODES + 1];
static int link_fd_of[NODES + 1][PORTS];

static void connect_two(uint32_t a, uint32_t b, uint32_t channel) {
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) < 0) bench_die("socketpair");
    const uint32_t who[] = {a, b};
    for (int k = 0; k < 2; k++) {
        struct order *o = &link_order[who[k]];
        if (o->n == PORTS) bench_die("a process has more than %u channels", PORTS);
        link_fd_of[who[k]][o->n] = fd[k];
        o->of[o->n].peer = who[1 - k];
        o->of[o->n++].channel = channel;
    }
}

static void connect_all(bool server) {
    for (uint32_t i = 0; i <= NODES; i++) link_order[i] = (struct order){.kind = ORDER_LINK, .server = server};
    for (uint32_t c = 0; c < CHANNELS; c++) connect_two(draw.end[c][0], draw.end[c][1], c);
    for (uint32_t i = 0; server && i < NODES; i++) connect_two(i, SERVER, CHANNELS);
    for (uint32_t i = 0; i < NODES + server; i++) {
        tell(i, &link_order[i], link_fd_of[i]);
        for (uint32_t k = 0; k < link_order[i].n; k++) close(link_fd_of[i][k]);
    }
}

static void tell_all(uint32_t n, enum order_kind kind) {
    for (uint32_t i = 0; i < n; i++) tell(i, &(struct order){.kind = kind}, NULL);
}

struct result {
    double slowest;    /* s */
    uint32_t frames;   /* of the protocol */
    uint32_t messages; /* that were taken */
    uint32_t lost, twice;
};

static struct result run(bool server) {
    struct result r = {0};
    const uint32_t n = NODES + server; /* processes */
    const double begun = bench_now();
    memset((char *)ledger + sizeof draw, 0, sizeof *ledger - sizeof draw);
    connect_all(server);
    while (atomic_load(&ledger->ready) < n) wait_a_little(begun);
    ledger->start = moyai_now() + (moyai_ns)SOON;
    tell_all(n, ORDER_GO);
    while (atomic_load(&ledger->left) < draw.leavers) wait_a_little(begun);
    while (atomic_load(&ledger->said) + atomic_load(&ledger->refused) < draw.messages) wait_a_little(begun);
    for (double t = bench_now(); atomic_load(&ledger->delivered) < atomic_load(&ledger->said) && bench_now() < t + 5;)
        wait_a_little(begun);
    tell_all(n, ORDER_END);
    while (atomic_load(&ledger->ended) < n) wait_a_little(begun);

    r.messages = atomic_load(&ledger->said);
    for (uint32_t m = 0; m < draw.messages; m++) {
        const unsigned copies = atomic_load(&ledger->copies[m]);
        r.lost += copies == 0;
        r.twice += copies > 1 && copies != REFUSED;
    }
    for (uint32_t i = 0; i <= NODES; i++) {
        r.frames += ledger->of[i].frames;
        if (i == NODES || !draw.leaves[i]) continue;
        r.slowest = fmax(r.slowest, (double)(ledger->of[i].done - ledger->start) * 1e-9);
        if (draw.state && ledger->of[i].state != STATE)
            bench_die("%s: of the state of process %u came %llu bytes", run_name, i,
                      (unsigned long long)ledger->of[i].state);
    }
    if (r.lost || r.twice)
        printf("%s, %s: %u messages lost, %u more than once\n", run_name,
               (server ? &protocol_central : &protocol_ours)->name, r.lost, r.twice);
    return r;
}

/* ---- a case ---------------------------------------------------------------------------------- */

struct sum {
    double mean, median, frames;
};

static struct totals { uint64_t runs, messages, lost, twice; } totals;

static struct sum sum_up(const struct result *r, unsigned runs) {
    struct sum s = {0};
    double *t = calloc(runs, sizeof *t);
    if (!t) bench_die("out of memory");
    for (unsigned i = 0; i < runs; i++) {
        t[i] = r[i].slowest * 1e3;
        s.mean += t[i] / runs;
        s.frames += (double)r[i].frames / runs;
        totals.messages += r[i].messages;
        totals.lost += r[i].lost;
        totals.twice += r[i].twice;
    }
    totals.runs += runs;
    bench_sort(t, runs);
    s.median = bench_percentile(t, runs, 0.5);
    free(t);
    return s;
}

/* n leavers, so many runs by each protocol. Returns the ratio of the means. */
static double compare(uint32_t n, unsigned runs, uint64_t seed, struct sum *ours, struct sum *central) {
    struct result *a = calloc(runs, sizeof *a), *b = calloc(runs, sizeof *b);
    if (!a || !b) bench_die("out of memory");
    for (unsigned i = 0; i < runs; i++) {
        char name[80];
        snprintf(name, sizeof name, "seed %llu, %u leavers, run %u", (unsigned long long)seed, n, i);
        run_name = name;
        draw_run(seed + (uint64_t)n * 1000 + i, n);
        if (i % 2) b[i] = run(true); /* neither is always the first */
        a[i] = run(false);
        if (i % 2 == 0) b[i] = run(true);
    }
    *ours = sum_up(a, runs);
    *central = sum_up(b, runs);
    free(a);
    free(b);
    const double ratio = ours->mean / central->mean;
    printf("%10u   %9.2f %9.2f %8.0f   %9.2f %9.2f %8.0f   %5.2f\n", n, ours->mean, ours->median, ours->frames,
           central->mean, central->median, central->frames, ratio);
    fflush(stdout);
    return ratio;
}

/* Returns the ratio of the means for most leavers. */
static double whole_case(const char *title, unsigned runs, uint64_t seed, unsigned first) {
    double ratio = NAN;
    struct sum ours[SIZES], central[SIZES];
    printf("\n%s; %u runs\n", title, runs);
    printf("   leavers   moyai: mean    median   frames  server: mean   median   frames   ratio\n");
    for (unsigned k = first; k < SIZES; k++) ratio = compare(1u << k, runs, seed, &ours[k], &central[k]);
    if (first == 0)
        printf("from 1 to %u leavers: %.1f times as long; with the server %.1f times\n", 1u << (SIZES - 1),
               ours[SIZES - 1].mean / ours[0].mean, central[SIZES - 1].mean / central[0].mean);
    return ratio;
}

static void set(uint32_t messages, bool state, bool before, bool slow) {
    draw.messages = messages;
    draw.state = state;
    draw.state_before = before;
    draw.delay = slow ? MOYAI_MS : 0;
    draw.rate = slow || state ? 100000000 : 0;
}

static int all_cases(unsigned runs, uint64_t seed) {
    const unsigned few = (runs + LONGER - 1) / LONGER;
    printf("seed %llu; %u processes, %u channels; one way takes 1 ms, a process sends 100 MByte/s\n"
           "milliseconds from wanting to leave until it has left, of the slowest leaver; frames of the protocol, all\n",
           (unsigned long long)seed, NODES, CHANNELS);
    set(0, false, false, true);
    const double quiet = whole_case("no traffic", runs, seed, 0);
    set(MESSAGES, false, false, true);
    const double busy = whole_case("two messages a channel", runs, seed, 0);
    set(0, true, false, true);
    const double state = whole_case("10 MByte of state each", runs, seed, 0);
    set(0, true, true, true);
    (void)whole_case("the same, if with the server all hand it over before they ask (no bound)", runs, seed, SIZES - 1);
    set(0, false, false, false);
    (void)whole_case("no traffic, no delay (no bound)", runs, seed, 0);
    set(MESSAGES, false, false, false);
    (void)whole_case("two messages a channel, no delay (no bound)", runs, seed, 0);
    set(0, true, false, false);
    (void)whole_case("10 MByte of state each, no delay (no bound)", few, seed, SIZES - 1);
    printf("\n%llu runs, %llu messages: %llu lost, %llu more than once\n", (unsigned long long)totals.runs,
           (unsigned long long)totals.messages, (unsigned long long)totals.lost, (unsigned long long)totals.twice);
    const struct bench_demand d[] = {{NULL, fmax(quiet, busy), 0.25, true},
                                     {"state", state, 0.5, true},
                                     {"lost", (double)totals.lost, 0, true},
                                     {"twice", (double)totals.twice, 0, true}};
    return bench_end(d, sizeof d / sizeof d[0]);
}

int main(int argc, char **argv) {
    unsigned runs = RUNS;
    uint64_t seed = (uint64_t)time(NULL);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            runs = QUICK;
        } else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
            runs = (unsigned)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 10);
        } else {
            runs = 0;
            break;
        }
    }
    if (runs == 0 || runs > 999) {
        fprintf(stderr, "usage: leave [--quick] [--runs N] [--seed N], of 1 to 999 runs\n");
        return 2;
    }
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most) == 0) {
        most.rlim_cur = most.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &most); /* socketpair says it if that is too few */
    }
    ledger = mmap(NULL, sizeof *ledger, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ledger == MAP_FAILED) bench_die("mmap");
    run_name = "at the start";
    start_processes();
    const int status = all_cases(runs, seed);
    end_processes();
    return status;
}
