/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine does without moyai: Unix stream sockets between two processes, blocking, nothing else.
 * Figures of the bench programs are ratios to these, taken in the same run.
 *
 * All of these fork: call them, or at least the _open functions, before a node is started.
 */
#ifndef BENCH_BASELINE_H
#define BENCH_BASELINE_H

#include <stddef.h>
#include <stdint.h>

/* Ping-pong: one process writes `bytes` bytes, the other reads them and writes as many back. The pair stays
 * so that rounds can be interleaved with what is compared. */
struct baseline_ping;
struct baseline_ping *baseline_ping_open(size_t bytes);
void baseline_ping_run(struct baseline_ping *p, double *seconds, size_t n); /* n samples; NULL: only warm up */
void baseline_ping_close(struct baseline_ping *p);

/* The median of `rounds` round trips after a tenth as many to warm up, in seconds. */
double baseline_latency(size_t bytes, size_t rounds);

/* Requests and replies of 64 bytes, pipelined, 64 KiB a write each way; both sides look at every frame's
 * length and number. Frames a second, best of `runs`. */
double baseline_rate(uint64_t frames, unsigned runs);

/* Bulk: `total` bytes (a multiple of 1 MiB) in writes of 1 MiB from a touched buffer, read into a touched buffer of
 * as many bytes at the other end, answered by one byte. Bytes a second over some rounds on the same buffers. */
struct baseline_bulk;
struct baseline_bulk *baseline_bulk_open(size_t total);
double baseline_bulk_run(struct baseline_bulk *b, unsigned rounds);
void baseline_bulk_close(struct baseline_bulk *b);
double baseline_bulk(size_t total, unsigned rounds);

/* A bare echo thread: what comes in on fd goes out again, until end of file; it closes fd. To stand beside a
 * node in the process under load. */
void baseline_echo_thread(int fd);
/* One round trip of n bytes over the other end, in seconds. */
double baseline_echo(int fd, const void *message, size_t n);

#endif
