/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does a relay of ours cost? Two nodes that can meet only through a third, against two nodes whose one link is
 * passed on byte for byte by the smallest relay there could be: it reads what a connection has, and writes it to the
 * other, with the same encryption on both. Rounds of both alternate. Arguments differ from call to call, and the callee
 * checks them.
 */
#include "bench/apart.h"
#include "bench/plain.h"
#include "link/tls.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>

#define ROUNDS    15
#define CALLS     1000       /* of a round, each after the other's answer */
#define MESSAGES  50000      /* of a round, pipelined */
#define IN_FLIGHT 1000       /* of them */
#define DOUBLES   (4u << 20) /* 32 MiB: of a round, bulk */
#define BYTES     64

/* ---- the ends -------------------------------------------------------------------------------- */

struct callee {
    uint64_t next;
};

static int m_take(moyai_request *rq, void *self) {
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

static int m_bulk(moyai_request *rq, void *self) {
    struct callee *c = self;
    const double *p;
    size_t n;
    if (moyai_args(rq, MOYAI_INTO(moyai_into_doubles(&p, &n))) < 0)
        return moyai_raise(rq, MOYAI_EARGS, "bulk(doubles)");
    if (n != DOUBLES) return moyai_raise(rq, MOYAI_EDATA, "%zu doubles", n);
    for (size_t i = c->next % 512; i < n; i += 512)
        if (p[i] != (double)(c->next + i)) return moyai_raise(rq, MOYAI_EDATA, "wrong value at %zu", i);
    c->next++;
    return 0;
}

static const struct moyai_method methods[] = {{"take", m_take}, {"bulk", m_bulk}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Callee", methods, NULL);

static double round_trip(moyai_node *n, moyai_ref *callee, uint64_t *number) {
    static double a[CALLS];
    uint8_t bytes[BYTES] = {0};
    for (int i = 0; i < CALLS; i++) {
        memcpy(bytes, number, sizeof *number);
        ++*number;
        double t = bench_now();
        int rc = moyai_call(callee, "take", MOYAI_ARGS(moyai_bytes(bytes, BYTES)), MOYAI_NONE, NULL);
        if (rc < 0) apart_die(n, rc);
        a[i] = bench_now() - t;
    }
    bench_sort(a, CALLS);
    return bench_percentile(a, CALLS, 0.5);
}

static double messages(moyai_node *n, moyai_ref *callee, uint64_t *number) {
    static moyai_future *flying[IN_FLIGHT];
    uint8_t bytes[BYTES] = {0};
    double t = bench_now();
    for (int i = 0; i < MESSAGES + IN_FLIGHT; i++) {
        moyai_future **at = &flying[i % IN_FLIGHT];
        if (*at) {
            int rc = moyai_future_get(*at, MOYAI_NONE);
            if (rc < 0) apart_die(n, rc);
            moyai_future_free(*at);
            *at = NULL;
        }
        if (i >= MESSAGES) continue;
        memcpy(bytes, number, sizeof *number);
        ++*number;
        *at = moyai_call_async(callee, "take", MOYAI_ARGS(moyai_bytes(bytes, BYTES)));
    }
    return MESSAGES / (bench_now() - t);
}

static double bulk(moyai_node *n, moyai_ref *callee, uint64_t *number) {
    static double *a;
    if (!a) a = calloc(DOUBLES, sizeof *a);
    if (!a) bench_die("out of memory");
    for (size_t i = *number % 512; i < DOUBLES; i += 512) a[i] = (double)(*number + i);
    ++*number;
    double t = bench_now();
    int rc = moyai_call(callee, "bulk", MOYAI_ARGS(moyai_doubles(a, DOUBLES)), MOYAI_NONE, NULL);
    if (rc < 0) apart_die(n, rc);
    return DOUBLES * sizeof *a / (bench_now() - t);
}

static double sample(moyai_node *n, moyai_ref *callee, char what) {
    static uint64_t number;
    return what == 't'   ? round_trip(n, callee, &number)
           : what == 'm' ? messages(n, callee, &number)
                         : bulk(n, callee, &number);
}

/* ---- the smallest relay ---------------------------------------------------------------------- */

static struct tls *shake(struct tls_ctx *ctx, int fd, bool server) {
    int one = 1;
    struct moyai_error e;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    struct tls *t = tls_new(ctx, fd, server, 0);
    if (!t) bench_die("out of memory");
    for (;;) {
        int rc = tls_handshake(t, &e);
        if (rc == TLS_READY) return t;
        if (rc < 0) return NULL; /* whoever it was went away */
        struct pollfd p = {.fd = fd, .events = rc == TLS_WANT_READ ? POLLIN : POLLOUT};
        poll(&p, 1, -1);
    }
}

/* Until one of them ends. passed: bytes. */
static void pass(struct tls *t[2], const int fd[2], _Atomic uint64_t *passed) {
    static uint8_t buf[2][64 * 1024];
    size_t n[2] = {0}, at[2] = {0};
    for (;;) {
        bool moved = false;
        for (int i = 0; i < 2; i++) {
            if (at[i] == n[i]) {
                ssize_t r = tls_read(t[i], buf[i], sizeof buf[i]);
                if (r == 0 || (r < 0 && r != -EAGAIN)) return;
                if (r < 0) continue;
                n[i] = (size_t)r;
                at[i] = 0;
                *passed += (uint64_t)r;
            }
            ssize_t w = tls_write(t[1 - i], buf[i] + at[i], n[i] - at[i], false);
            if (w < 0 && w != -EAGAIN) return;
            if (w > 0) {
                at[i] += (size_t)w;
                moved = true;
            }
        }
        if (moved) continue;
        struct pollfd p[2];
        for (int i = 0; i < 2; i++) {
            short in = at[i] == n[i] ? POLLIN : 0, out = at[1 - i] < n[1 - i] ? POLLOUT : 0;
            p[i] = (struct pollfd){.fd = fd[i], .events = (short)(in | out)};
        }
        if (poll(p, 2, -1) < 0 && errno != EINTR) bench_die("poll");
    }
}

static pid_t smallest_relay(const struct apart *a, const char *place, const char *to, _Atomic uint64_t *passed) {
    struct sockaddr_in there = plain_address(to);
    int fd = plain_listen(place);
    pid_t pid = bench_fork();
    if (pid) {
        close(fd);
        return pid;
    }
    struct keyfile *keys;
    struct tls_ctx *ctx;
    struct moyai_error e;
    if (keyfile_open(&keys, a->key, &e) < 0 || tls_ctx_new(&ctx, keys, &e) < 0) bench_die("%s", e.text);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int end[2] = {accept(fd, NULL, NULL), -1};
        if (end[0] < 0) bench_die("accept");
        if (bench_fork() > 0) {
            close(end[0]);
            continue;
        }
        end[1] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(end[1], (struct sockaddr *)&there, sizeof there) < 0) _exit(0); /* not there yet: it comes again */
        struct tls *t[2] = {shake(ctx, end[0], true), shake(ctx, end[1], false)};
        if (t[0] && t[1]) pass(t, end, passed);
        _exit(0);
    }
}

/* ---- without demand ---------------------------------------------------------------------------- */

/* Of each: a plain connection, and one through socat (0: not installed). */
static void plain(double t[2], double m[2], double b[2]) {
    char place[2][32];
    static const double bytes[DOUBLES];
    for (int i = 0; i < 2; i++) apart_place(place[i]);
    pid_t pid[2] = {plain_serve(place[0], sizeof bytes), plain_socat(place[1], place[0])};
    for (int i = 0; i < 2; i++) {
        t[i] = m[i] = b[i] = 0;
        if (!pid[i]) continue;
        int fd = plain_connect(place[i]);
        double v[3][ROUNDS];
        (void)plain_bulk(fd, bytes, sizeof bytes);
        for (int r = 0; r < ROUNDS; r++) {
            v[0][r] = plain_round_trip(fd, CALLS);
            v[1][r] = plain_messages(fd, MESSAGES, IN_FLIGHT);
            v[2][r] = plain_bulk(fd, bytes, sizeof bytes);
        }
        close(fd);
        for (int k = 0; k < 3; k++) bench_sort(v[k], ROUNDS);
        t[i] = v[0][ROUNDS / 2];
        m[i] = v[1][ROUNDS / 2];
        b[i] = v[2][ROUNDS / 2];
    }
    for (int i = 0; i < 2; i++)
        if (pid[i]) apart_kill(pid[i]);
}

/* ---- */

static double compare(const struct caller c[2], char what, double x[2]) {
    double v[2][ROUNDS], q[ROUNDS];
    (void)apart_take(&c[0], what);
    (void)apart_take(&c[1], what);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < 2; i++) v[i][r] = apart_take(&c[i], what);
        q[r] = what == 't' ? v[0][r] / v[1][r] : v[1][r] / v[0][r];
    }
    for (int i = 0; i < 2; i++) {
        bench_sort(v[i], ROUNDS);
        x[i] = v[i][ROUNDS / 2];
    }
    bench_sort(q, ROUNDS);
    return q[ROUNDS / 2];
}

/* Both ways of passing on, and who calls by them. */
struct world {
    pid_t pid[4];
    struct caller c[2];
    _Atomic uint64_t *passed;
};

/* Where what is forked from now on runs, if there are two to choose from; -1: anywhere. */
static void place_on(int cpu) {
    static cpu_set_t all;
    static bool known;
    cpu_set_t one;
    if (!known && sched_getaffinity(0, sizeof all, &all) < 0) bench_die("sched_getaffinity");
    known = true;
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && cpu >= 0 && CPU_COUNT(&all) >= 2; i++)
        if (CPU_ISSET(i, &all) && cpu-- == 0) CPU_SET(i, &one);
    if (sched_setaffinity(0, sizeof one, CPU_COUNT(&one) ? &one : &all) < 0) bench_die("sched_setaffinity");
}

/* apart: the ends on one processor and who passes on, on another. */
static struct world begin(const struct apart *a, struct callee *state, bool apart) {
    struct world w;
    char place[3][32];
    int ends = apart ? 0 : -1, between = apart ? 1 : -1;
    w.passed = mmap(NULL, sizeof *w.passed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w.passed == MAP_FAILED) bench_die("mmap");
    for (int i = 0; i < 3; i++) apart_place(place[i]);
    place_on(ends);
    w.pid[0] = apart_serve(a, "bare", place[0], place[0], place[1], &cls, state);
    place_on(between);
    w.pid[1] = apart_serve(a, "relay", place[2], place[2], NULL, NULL, NULL);
    apart_await(place[0]);
    apart_await(place[2]);
    w.pid[2] = smallest_relay(a, place[1], place[0], w.passed);
    place_on(ends);
    w.pid[3] = apart_serve(a, "callee", place[2], NULL, NULL, &cls, state);
    w.c[0] = apart_caller(a, "caller-bare", place[1], "bare", NULL, sample);
    w.c[1] = apart_caller(a, "caller", place[2], "callee", NULL, sample);
    place_on(-1);
    return w;
}

static void end(struct world *w) {
    for (int i = 0; i < 2; i++) {
        apart_kill(w->c[i].pid);
        close(w->c[i].fd);
    }
    for (size_t i = 0; i < sizeof w->pid / sizeof *w->pid; i++) apart_kill(w->pid[i]);
}

int main(void) {
    struct apart a;
    struct callee state = {0};
    double t[2], m[2], b[2], pt[2], pm[2], pb[2];
    apart_begin(&a);
    /* A round trip is four wake-ups, and one on another processor takes several times as long as one on the same: where
     * the system puts the processes would decide. */
    struct world w = begin(&a, &state, true);
    double qt = compare(w.c, 't', t);
    end(&w);
    w = begin(&a, &state, false);
    double qm = compare(w.c, 'm', m), qb = compare(w.c, 'b', b);
    if (*w.passed < (uint64_t)DOUBLES * sizeof(double) * ROUNDS) bench_die("the smallest relay was gone round");
    end(&w);
    apart_end(&a);
    plain(pt, pm, pb);
    printf("                                   smallest relay      a node   ratio     plain TCP     socat\n");
    printf("round trip of a 64-byte call:        %9.1f us %8.1f us    %.2f   %8.1f us %6.1f us\n", t[0] * 1e6,
           t[1] * 1e6, qt, pt[0] * 1e6, pt[1] * 1e6);
    printf("64-byte calls, %d in flight:       %9.0f /s %8.0f /s    %.2f   %8.0f /s %6.0f /s\n", IN_FLIGHT, m[0], m[1],
           qm, pm[0], pm[1]);
    printf("calls with an array of 32 MiB:     %9.2f GB/s %6.2f GB/s    %.2f   %6.2f GB/s %4.2f GB/s\n", b[0] * 1e-9,
           b[1] * 1e-9, qb, pb[0] * 1e-9, pb[1] * 1e-9);
    if (pt[1] <= 0) printf("(socat is not installed: nothing was passed through it)\n");
    const struct bench_demand d[] = {{NULL, fmin(qt, fmin(qm, qb)), 0.8, false}};
    return bench_end(d, 1);
}
