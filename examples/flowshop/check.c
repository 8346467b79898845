/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of every operation is laid down machine by machine, as early as the definition allows; then each
 * requirement is checked on the finished table, so that a slip in the first part is noticed by the second: an
 * operation begins after the same job's operation on the machine before and after the job before on the same
 * machine, and at the very moment one of the two ends (an earliest schedule has no needless wait). The makespan is
 * the latest end of all operations.
 */
#include "check.h"

#include <stdbool.h>
#include <stdlib.h>

static int check_permutation(const struct instance *in, const uint16_t *perm, size_t count, struct fail *f) {
    if (count != (size_t)in->n) return fail_set(f, "%s: %zu jobs in the solution, not %d", in->name, count, in->n);
    for (int job = 0; job < in->n; job++) {
        int times = 0;
        for (size_t k = 0; k < count; k++) times += perm[k] == job;
        if (times != 1) return fail_set(f, "%s: job %d is %d times in the solution", in->name, job, times);
    }
    return 0;
}

static int64_t duration(const struct instance *in, int machine, int job) {
    return in->p[machine * in->n + job];
}

static int64_t end_of(const struct instance *in, const uint16_t *perm, const int64_t *start, int machine, int place) {
    return start[machine * in->n + place] + duration(in, machine, perm[place]);
}

static bool is_earliest(const struct instance *in, const uint16_t *perm, const int64_t *start) {
    for (int place = 0; place < in->n; place++) {
        for (int machine = 0; machine < in->m; machine++) {
            int64_t here = start[machine * in->n + place];
            int64_t job_ready = machine > 0 ? end_of(in, perm, start, machine - 1, place) : 0;
            int64_t machine_ready = place > 0 ? end_of(in, perm, start, machine, place - 1) : 0;
            if (here < job_ready || here < machine_ready) return false;
            if (here != job_ready && here != machine_ready) return false;
        }
    }
    return true;
}

int check_solution(const struct instance *in, const uint16_t *perm, size_t count, int64_t makespan, struct fail *f) {
    if (check_permutation(in, perm, count, f)) return -1;
    int64_t *start = calloc((size_t)in->n * (size_t)in->m, sizeof *start);
    if (!start) return fail_set(f, "%s: out of memory", in->name);
    for (int machine = 0; machine < in->m; machine++) {
        int64_t free_at = 0;
        for (int place = 0; place < in->n; place++) {
            int64_t arrives = machine > 0 ? end_of(in, perm, start, machine - 1, place) : 0;
            if (arrives > free_at) free_at = arrives;
            start[machine * in->n + place] = free_at;
            free_at += duration(in, machine, perm[place]);
        }
    }
    int64_t latest = 0;
    for (int machine = 0; machine < in->m; machine++)
        for (int place = 0; place < in->n; place++)
            if (end_of(in, perm, start, machine, place) > latest) latest = end_of(in, perm, start, machine, place);
    bool earliest = is_earliest(in, perm, start);
    free(start);
    if (!earliest) return fail_set(f, "%s: internal error: the checker's schedule breaks the rules", in->name);
    if (latest != makespan)
        return fail_set(f, "%s: the solution's makespan is %lld, not %lld", in->name, (long long)latest,
                        (long long)makespan);
    return 0;
}
