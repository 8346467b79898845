/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task: a set of disjoint subtrees of the search, as it travels between processes.
 *
 * All its subtrees hang on one path: from the *base*, a prefix and a suffix of the permutation, the path goes down
 * one level per job taken; at each level some siblings of the job taken are *open*, not yet searched, and all at
 * the same end of the permutation. With no levels, the task is the whole subtree under its base.
 *
 * As bytes, little-endian, jobs as numbers of two bytes:
 *     'T' 1, fingerprint of the instance 4,
 *     number of prefix jobs 2, of suffix jobs 2, of levels 2, prefix jobs, suffix jobs (both left to right),
 *     and for each level: end 1 (0 front, 1 back), number of open jobs 2, open jobs, job taken (all but the last
 * level). First and last level have open jobs, and all levels together at least two (one open subtree alone is a base),
 * so that a task has one form only.
 */
#ifndef FLOWSHOP_TASK_H
#define FLOWSHOP_TASK_H

#include "bound.h"
#include "bytes.h"
#include "instance.h"

struct task_level {
    enum end end;
    int first, count; /* open jobs: task->open[first] and on */
    uint16_t taken;   /* not at the last level */
};

struct task {
    int n_prefix, n_suffix, n_levels, n_open;
    uint16_t prefix[INSTANCE_MAX_JOBS], suffix[INSTANCE_MAX_JOBS];
    struct task_level level[INSTANCE_MAX_JOBS];
    uint16_t open[];
};

/* An empty task with room for the given number of open jobs; freed by free(). NULL: out of memory. */
struct task *task_new(size_t open);

/* Appends the task to *out (see out->failed). */
void task_encode(const struct task *t, const struct instance *in, struct bytes *out);

/* Takes any bytes: 0 and a task of this instance that keeps all the rules above, for the caller to free(), or
 * -1 and *f. */
int task_decode(struct task **ret, const struct instance *in, const uint8_t *bytes, size_t n, struct fail *f);

#endif
