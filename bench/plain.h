/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traffic of bench/relay on a plain TCP connection, with nothing around it: neither encryption nor calls, sessions
 * or credit. Directly, and through socat. It says what the kernel alone takes, and what people make do with.
 */
#ifndef BENCH_PLAIN_H
#define BENCH_PLAIN_H

#include "bench/apart.h"

#define PLAIN_BYTES 64u /* of a message */

static inline struct sockaddr_in plain_address(const char *place) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    a.sin_port = htons((uint16_t)atoi(strchr(place, ':') + 1));
    return a;
}

static inline int plain_listen(const char *place) {
    struct sockaddr_in here = plain_address(place);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (struct sockaddr *)&here, sizeof here) < 0 || listen(fd, 8) < 0) bench_die("%s", place);
    return fd;
}

/* A process that answers each message: 'b' when all of the `bulk` bytes behind it have come. */
static inline pid_t plain_serve(const char *place, size_t bulk) {
    int one = 1, fd = plain_listen(place);
    pid_t pid = bench_fork();
    if (pid) {
        close(fd);
        return pid;
    }
    static uint8_t buf[64 * 1024];
    uint8_t *all = malloc(bulk);
    if (!all) bench_die("out of memory");
    for (;;) {
        int c = accept(fd, NULL, NULL);
        setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        for (size_t have = 0;;) {
            ssize_t r = read(c, buf + have, sizeof buf - have);
            if (r <= 0) break;
            have += (size_t)r;
            size_t whole = have / PLAIN_BYTES * PLAIN_BYTES;
            if (whole && buf[0] == 'b') {
                size_t begun = have - PLAIN_BYTES;
                memcpy(all, buf + PLAIN_BYTES, begun);
                if (!bench_read(c, all + begun, bulk - begun)) break;
                have = whole = PLAIN_BYTES;
            }
            bench_write(c, buf, whole);
            memmove(buf, buf + whole, have - whole);
            have -= whole;
        }
        close(c);
    }
}

static inline int plain_connect(const char *place) {
    struct sockaddr_in there = plain_address(place);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&there, sizeof there) < 0) bench_die("%s", place);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* The median of n round trips of a message, in seconds. */
static inline double plain_round_trip(int fd, size_t n) {
    double *a = calloc(n, sizeof *a);
    uint8_t m[PLAIN_BYTES] = {'t'};
    if (!a) bench_die("out of memory");
    for (size_t i = 0; i < n; i++) {
        double t = bench_now();
        bench_write(fd, m, sizeof m);
        if (!bench_read(fd, m, sizeof m)) bench_die("a connection has ended");
        a[i] = bench_now() - t;
    }
    bench_sort(a, n);
    double x = bench_percentile(a, n, 0.5);
    free(a);
    return x;
}

/* Messages and answers per second, `flying` at a time. */
static inline double plain_messages(int fd, size_t n, size_t flying) {
    uint8_t *m = calloc(flying, PLAIN_BYTES);
    if (!m) bench_die("out of memory");
    memset(m, 'm', flying * PLAIN_BYTES);
    size_t room = flying, sent = 0, got = 0; /* got: bytes */
    double t = bench_now();
    while (got < n * PLAIN_BYTES) {
        size_t k = n - sent < room ? n - sent : room;
        if (k) bench_write(fd, m, k * PLAIN_BYTES);
        sent += k;
        ssize_t r = read(fd, m, flying * PLAIN_BYTES);
        if (r <= 0) bench_die("a connection has ended");
        room += (got % PLAIN_BYTES + (size_t)r) / PLAIN_BYTES - k;
        got += (size_t)r;
    }
    double x = (double)n / (bench_now() - t);
    free(m);
    return x;
}

/* Bytes per second, of `bulk` of them. */
static inline double plain_bulk(int fd, const void *p, size_t bulk) {
    uint8_t m[PLAIN_BYTES] = {'b'};
    double t = bench_now();
    bench_write(fd, m, sizeof m);
    bench_write(fd, p, bulk);
    if (!bench_read(fd, m, sizeof m)) bench_die("a connection has ended");
    return (double)bulk / (bench_now() - t);
}

/* socat between `place` and `to`. 0: it is not there. */
static inline pid_t plain_socat(const char *place, const char *to) {
    char listens[64], leads[64];
    snprintf(listens, sizeof listens, "TCP-LISTEN:%d,bind=127.0.0.1,reuseaddr,fork,nodelay",
             atoi(strchr(place, ':') + 1));
    snprintf(leads, sizeof leads, "TCP:%s,nodelay", to);
    if (system("command -v socat >/dev/null 2>&1") != 0) return 0;
    pid_t pid = bench_fork();
    if (pid == 0) {
        execlp("socat", "socat", "-b", "65536", listens, leads, (char *)NULL);
        _exit(127);
    }
    apart_await(place);
    return pid;
}

#endif
