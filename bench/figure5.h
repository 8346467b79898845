/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of bench/figure5 that are nodes (figure5_nodes.c), started by the others (figure5.c). */
#ifndef BENCH_FIGURE5_H
#define BENCH_FIGURE5_H

/*
 * A worker, until its parent ends: says so on descriptor `said` (one byte) when it has called the master. In the file
 * $FIGURE5_RAN it writes a record of each task, when it begins it.
 */
struct figure5_ran {
    int task, pid;
};
int figure5_worker(int said);

/*
 * The master: so many tasks of so many milliseconds. In the file $FIGURE5_LOG it writes a line of each thing that
 * happens, with the seconds (bench_now):
 *   "J SECONDS PID CLUSTER"        a worker has joined
 *   "D SECONDS PID TASK"           it has done that
 *   "L SECONDS PID TASK CODE WHY"  the call has failed with that error, and will be made again to another
 *   "N SECONDS LINKS"              links of the master's node, each second
 */
int figure5_master(int tasks, int ms);

#endif
