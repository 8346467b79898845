/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench programs share: a clock, percentiles, processes that do not outlive their parent, and the
 * form of the result.
 *
 * A bench program prints its baseline's and its own absolute figures, then for each further demand a
 * line "ratio-NAME X.XX", then, as its last line, "ratio X.XX", the figure of its first demand; it exits
 * with 1 if a bound is missed. bench/run collects these lines.
 *
 * Processes: fork first, start nodes afterwards. A node does not survive fork.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Seconds on a monotonic clock. */
static inline double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A bench that cannot be run has not met its bound. */
__attribute__((noreturn, format(printf, 1, 2))) static inline void bench_die(const char *fmt, ...) {
    int sys = errno;
    va_list ap;
    va_start(ap, fmt);
    fputs("bench: ", stderr);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, sys ? " (errno: %s)\n" : "\n", strerror(sys));
    va_end(ap);
    exit(1);
}

/* fork; the child is killed when this process ends, however it ends. */
static inline pid_t bench_fork(void) {
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) bench_die("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
    }
    return pid;
}

/* Wait for a child's end; anything but exit status 0 ends the bench. */
static inline void bench_join(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) bench_die("waitpid");
    errno = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) bench_die("a child ended with wait status 0x%x", status);
}

/* All n bytes. false: end of file (read). Errors end the bench. */
static inline bool bench_read(int fd, void *p, size_t n) {
    uint8_t *b = (uint8_t *)p;
    while (n > 0) {
        ssize_t r = read(fd, b, n);
        if (r == 0) return false;
        if (r < 0) {
            if (errno == EINTR) continue;
            bench_die("read");
        }
        b += r;
        n -= (size_t)r;
    }
    return true;
}

static inline void bench_write(int fd, const void *p, size_t n) {
    const uint8_t *b = (const uint8_t *)p;
    while (n > 0) {
        ssize_t r = write(fd, b, n);
        if (r < 0) {
            if (errno == EINTR) continue;
            bench_die("write");
        }
        b += r;
        n -= (size_t)r;
    }
}

static inline int bench_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sort samples in place; then bench_percentile(sorted, n, 0.5) is the median. n > 0. */
static inline void bench_sort(double *samples, size_t n) {
    qsort(samples, n, sizeof *samples, bench_compare);
}
static inline double bench_percentile(const double *sorted, size_t n, double p) {
    size_t i = (size_t)ceil(p * (double)n);
    return sorted[i == 0 ? 0 : i > n ? n - 1 : i - 1];
}

/* One demand: a figure and its bound. */
struct bench_demand {
    const char *name; /* NULL: the program's first demand */
    double value;
    double bound;
    bool at_most; /* the bound is the largest value allowed, else the smallest */
};

/* Print the last lines; the first demand is v[0]. Returns the exit status. */
static inline int bench_end(const struct bench_demand *v, size_t n) {
    int status = 0;
    for (size_t i = 0; i < n; i++) {
        bool ok = v[i].at_most ? v[i].value <= v[i].bound : v[i].value >= v[i].bound;
        if (ok) continue; /* a NaN is not ok */
        printf("missed: %s %.3f, %s %.3f\n", v[i].name ? v[i].name : "ratio", v[i].value,
               v[i].at_most ? "at most" : "at least", v[i].bound);
        status = 1;
    }
    for (size_t i = 1; i < n; i++) printf("ratio-%s %.2f\n", v[i].name, v[i].value);
    printf("ratio %.2f\n", v[0].value);
    fflush(stdout);
    return status;
}

#endif
