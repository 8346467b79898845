/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of bench/ninecluster that are nodes (nine_nodes.c), started by the others (ninecluster.c). */
#ifndef BENCH_NINE_H
#define BENCH_NINE_H

/* A worker, until its parent ends: says so on descriptor `said` (one byte) when it has called the master. */
int nine_worker(int said);

/* The master of n workers: waits for them, then measures and prints. The exit status. */
int nine_master(int n);

#endif
