/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/baseline.h"

#include "bench/bench.h"

#include <pthread.h>
#include <sys/socket.h>

/* A connected pair; the parent keeps *mine, the child gets *mine as its own end. */
static pid_t pair_fork(int *mine) {
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0) bench_die("socketpair");
    pid_t pid = bench_fork();
    close(fd[pid == 0 ? 0 : 1]);
    *mine = fd[pid == 0 ? 1 : 0];
    return pid;
}

/* ---- latency --------------------------------------------------------------------------------- */

struct baseline_ping {
    int fd;
    pid_t pid;
    size_t bytes;
    uint32_t serial;
    uint8_t buf[];
};

/* Read and write with one system call each where that is enough, as any blocking program would. */
static void echo_loop(int fd, uint8_t *buf, size_t bytes) {
    while (bench_read(fd, buf, bytes)) bench_write(fd, buf, bytes);
}

struct baseline_ping *baseline_ping_open(size_t bytes) {
    if (bytes < sizeof(uint32_t)) bench_die("a ping has at least 4 bytes");
    struct baseline_ping *p = calloc(1, sizeof *p + bytes);
    if (!p) bench_die("out of memory");
    p->bytes = bytes;
    p->pid = pair_fork(&p->fd);
    if (p->pid == 0) {
        echo_loop(p->fd, p->buf, bytes);
        _exit(0);
    }
    return p;
}

void baseline_ping_run(struct baseline_ping *p, double *seconds, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t sent = ++p->serial, got;
        memcpy(p->buf, &sent, sizeof sent);
        double t = bench_now();
        bench_write(p->fd, p->buf, p->bytes);
        if (!bench_read(p->fd, p->buf, p->bytes)) bench_die("the echo ended");
        t = bench_now() - t;
        memcpy(&got, p->buf, sizeof got);
        if (got != sent) bench_die("the echo differs");
        if (seconds) seconds[i] = t;
    }
}

void baseline_ping_close(struct baseline_ping *p) {
    close(p->fd);
    bench_join(p->pid);
    free(p);
}

double baseline_latency(size_t bytes, size_t rounds) {
    double *v = calloc(rounds, sizeof *v);
    if (!v || rounds == 0) bench_die("no rounds");
    struct baseline_ping *p = baseline_ping_open(bytes);
    baseline_ping_run(p, NULL, rounds / 10);
    baseline_ping_run(p, v, rounds);
    baseline_ping_close(p);
    bench_sort(v, rounds);
    double median = bench_percentile(v, rounds, 0.5);
    free(v);
    return median;
}

/* ---- rate ------------------------------------------------------------------------------------ */

#define FRAME 64u
#define BATCH 65536u /* bytes a write */
/* Batches on their way, both directions together. As many fit into one direction's socket buffer at the
 * kernel's default (208 KiB), so the two ends never wait for each other to read. */
#define BATCHES 3u

struct frame {
    uint32_t length, serial;
    uint8_t payload[FRAME - 8];
};

/* Look at the frames in [p, p + n): lengths and consecutive numbers. Returns how many there are. */
static size_t frames_check(const uint8_t *p, size_t n, uint32_t *next) {
    size_t count = 0;
    for (size_t o = 0; n - o >= FRAME; o += FRAME, count++) {
        uint32_t head[2];
        memcpy(head, p + o, sizeof head);
        if (head[0] != FRAME || head[1] != *next) bench_die("a frame differs");
        ++*next;
    }
    return count;
}

/* Read at least one frame behind the `have` bytes of a broken one at the start of buf (2 * BATCH bytes); leaves
 * the frames in place and returns their number, or 0 at end of file. */
static size_t frames_read(int fd, uint8_t *buf, size_t *have, uint32_t *next) {
    size_t n = 0;
    while (n == 0) {
        ssize_t r = read(fd, buf + *have, 2 * BATCH - *have);
        if (r <= 0) return 0;
        *have += (size_t)r;
        n = frames_check(buf, *have, next);
    }
    return n;
}

static void frames_drop(uint8_t *buf, size_t *have, size_t frames) {
    *have -= frames * FRAME;
    memmove(buf, buf + frames * FRAME, *have);
}

static double rate_once(uint64_t frames) {
    int fd;
    pid_t pid = pair_fork(&fd);
    uint8_t *in = malloc(2 * BATCH), *out = malloc(BATCH);
    if (!in || !out) bench_die("out of memory");
    memset(in, 0, 2 * BATCH);
    memset(out, 1, BATCH);
    size_t have = 0;
    uint32_t next = 0;
    if (pid == 0) {
        size_t n;
        while ((n = frames_read(fd, in, &have, &next)) > 0) {
            bench_write(fd, in, n * FRAME);
            frames_drop(in, &have, n);
        }
        _exit(0);
    }
    uint64_t sent = 0, got = 0;
    double t = bench_now();
    while (got < frames) {
        while (sent < frames && (sent - got) * FRAME + BATCH <= BATCHES * BATCH) {
            uint64_t n = BATCH / FRAME;
            if (n > frames - sent) n = frames - sent;
            for (uint64_t i = 0; i < n; i++) {
                uint32_t head[2] = {FRAME, (uint32_t)(sent + i)};
                memcpy(out + i * FRAME, head, sizeof head);
            }
            bench_write(fd, out, n * FRAME);
            sent += n;
        }
        size_t n = frames_read(fd, in, &have, &next);
        if (n == 0) bench_die("the echo ended");
        frames_drop(in, &have, n);
        got += n;
    }
    t = bench_now() - t;
    close(fd);
    bench_join(pid);
    free(in);
    free(out);
    return (double)frames / t;
}

double baseline_rate(uint64_t frames, unsigned runs) {
    double best = 0;
    for (unsigned i = 0; i < runs; i++) best = fmax(best, rate_once(frames));
    return best;
}

/* ---- bulk ------------------------------------------------------------------------------------ */

#define WRITE (1u << 20)

struct baseline_bulk {
    pid_t pid;
    int fd;
    size_t total;
    uint8_t *buf;
    uint8_t round;
};

struct baseline_bulk *baseline_bulk_open(size_t total) {
    if (total == 0 || total % WRITE != 0) bench_die("not a multiple of 1 MiB");
    struct baseline_bulk *b = malloc(sizeof *b);
    if (!b) bench_die("out of memory");
    b->total = total;
    b->round = 0;
    b->pid = pair_fork(&b->fd);
    b->buf = malloc(total);
    if (!b->buf) bench_die("out of memory");
    memset(b->buf, b->pid == 0 ? 0 : 1, total);
    if (b->pid == 0) {
        while (bench_read(b->fd, b->buf, total)) bench_write(b->fd, b->buf + total - 1, 1); /* a call has an answer */
        _exit(0);
    }
    (void)baseline_bulk_run(b, 1);
    return b;
}

double baseline_bulk_run(struct baseline_bulk *b, unsigned rounds) {
    double t = bench_now();
    for (unsigned i = 0; i < rounds; i++) {
        uint8_t answer;
        b->buf[b->total - 1] = ++b->round;
        for (size_t o = 0; o < b->total; o += WRITE) bench_write(b->fd, b->buf + o, WRITE);
        if (!bench_read(b->fd, &answer, 1) || answer != b->round) bench_die("the receiver differs");
    }
    return (double)b->total * rounds / (bench_now() - t);
}

void baseline_bulk_close(struct baseline_bulk *b) {
    close(b->fd);
    bench_join(b->pid);
    free(b->buf);
    free(b);
}

double baseline_bulk(size_t total, unsigned rounds) {
    struct baseline_bulk *b = baseline_bulk_open(total);
    double rate = baseline_bulk_run(b, rounds);
    baseline_bulk_close(b);
    return rate;
}

/* ---- an echo thread -------------------------------------------------------------------------- */

static void *echo_main(void *arg) {
    int fd = (int)(intptr_t)arg;
    uint8_t buf[4096];
    ssize_t n;
    while ((n = read(fd, buf, sizeof buf)) > 0) bench_write(fd, buf, (size_t)n);
    close(fd);
    return NULL;
}

void baseline_echo_thread(int fd) {
    pthread_t thread;
    errno = pthread_create(&thread, NULL, echo_main, (void *)(intptr_t)fd);
    if (errno) bench_die("pthread_create");
    pthread_detach(thread);
}

double baseline_echo(int fd, const void *message, size_t n) {
    uint8_t buf[4096];
    if (n > sizeof buf) bench_die("too long a message");
    double t = bench_now();
    bench_write(fd, message, n);
    if (!bench_read(fd, buf, n)) bench_die("the echo ended");
    t = bench_now() - t;
    if (memcmp(buf, message, n) != 0) bench_die("the echo differs");
    return t;
}
