/* SPDX-License-Identifier: Apache-2.0 */
#include "task.h"

#include <stdlib.h>

struct task *task_new(size_t open) {
    struct task *t = malloc(sizeof *t + open * sizeof t->open[0]);
    if (t) t->n_prefix = t->n_suffix = t->n_levels = t->n_open = 0;
    return t;
}

void task_encode(const struct task *t, const struct instance *in, struct bytes *out) {
    bytes_put(out, 'T', 1);
    bytes_put(out, instance_fingerprint(in), 4);
    bytes_put(out, (uint32_t)t->n_prefix, 2);
    bytes_put(out, (uint32_t)t->n_suffix, 2);
    bytes_put(out, (uint32_t)t->n_levels, 2);
    for (int k = 0; k < t->n_prefix; k++) bytes_put(out, t->prefix[k], 2);
    for (int k = 0; k < t->n_suffix; k++) bytes_put(out, t->suffix[k], 2);
    for (int k = 0; k < t->n_levels; k++) {
        const struct task_level *l = &t->level[k];
        bytes_put(out, l->end, 1);
        bytes_put(out, (uint32_t)l->count, 2);
        for (int i = 0; i < l->count; i++) bytes_put(out, t->open[l->first + i], 2);
        if (k + 1 < t->n_levels) bytes_put(out, l->taken, 2);
    }
}

/* What a decoder knows on its way. */
struct decoder {
    struct cursor c;
    const struct instance *in;
    struct fail *f;
    struct task *t;
    uint16_t seen_at[INSTANCE_MAX_JOBS]; /* job: 0 free, 1 scheduled, k + 2 open at level k */
};

/* Reads a job that is free and, at level k, not open yet; from then on it is what mark says. */
static int take_job(struct decoder *d, uint16_t *ret, int k, int mark) {
    uint32_t job = cursor_get(&d->c, 2);
    if (d->c.failed) return fail_set(d->f, "task: cut off");
    if (job >= (uint32_t)d->in->n) return fail_set(d->f, "task: job %u of %d", job, d->in->n);
    if (d->seen_at[job] == 1 || d->seen_at[job] == k + 2) return fail_set(d->f, "task: job %u twice", job);
    d->seen_at[job] = (uint16_t)mark;
    *ret = (uint16_t)job;
    return 0;
}

static int take_level(struct decoder *d, int k, int free_jobs) {
    struct task *t = d->t;
    struct task_level *l = &t->level[k];
    bool last = k + 1 == t->n_levels;
    uint32_t end = cursor_get(&d->c, 1), count = cursor_get(&d->c, 2);
    if (d->c.failed) return fail_set(d->f, "task: cut off");
    if (end != FRONT && end != BACK) return fail_set(d->f, "task: end %u", end);
    if (count > (uint32_t)(last ? free_jobs : free_jobs - 1))
        return fail_set(d->f, "task: %u open subtrees with %d jobs free", count, free_jobs);
    if (count == 0 && (k == 0 || last)) return fail_set(d->f, "task: nothing open at its first or last level");
    if (count * 2 > d->c.left) return fail_set(d->f, "task: cut off");
    *l = (struct task_level){.end = (enum end)end, .first = t->n_open, .count = (int)count};
    t->n_open += (int)count;
    for (int i = 0; i < l->count; i++)
        if (take_job(d, &t->open[l->first + i], k, k + 2)) return -1;
    return last ? 0 : take_job(d, &l->taken, k, 1);
}

static int take_task(struct decoder *d) {
    struct task *t = d->t;
    int n = d->in->n;
    if (cursor_get(&d->c, 1) != 'T') return fail_set(d->f, "task: not a task");
    if (cursor_get(&d->c, 4) != instance_fingerprint(d->in))
        return fail_set(d->f, "task: of another instance than %s", d->in->name);
    int n_prefix = (int)cursor_get(&d->c, 2), n_suffix = (int)cursor_get(&d->c, 2),
        n_levels = (int)cursor_get(&d->c, 2);
    if (d->c.failed) return fail_set(d->f, "task: cut off");
    if (n_prefix + n_suffix + n_levels >= n) /* every subtree has a free job */
        return fail_set(d->f, "task: %d and %d jobs scheduled and %d levels, of %d jobs", n_prefix, n_suffix, n_levels,
                        n);
    t->n_prefix = n_prefix;
    t->n_suffix = n_suffix;
    t->n_levels = n_levels;
    for (int k = 0; k < n_prefix; k++)
        if (take_job(d, &t->prefix[k], 0, 1)) return -1;
    for (int k = 0; k < n_suffix; k++)
        if (take_job(d, &t->suffix[k], 0, 1)) return -1;
    for (int k = 0; k < n_levels; k++)
        if (take_level(d, k, n - n_prefix - n_suffix - k)) return -1;
    if (n_levels > 0 && t->n_open < 2) return fail_set(d->f, "task: one subtree, not in its own form");
    if (d->c.left > 0) return fail_set(d->f, "task: %zu bytes too many", d->c.left);
    return 0;
}

int task_decode(struct task **ret, const struct instance *in, const uint8_t *bytes, size_t n, struct fail *f) {
    struct decoder d = {.c = {.p = bytes, .left = n}, .in = in, .f = f};
    size_t most = (size_t)in->n * (size_t)(in->n + 1) / 2;
    d.t = task_new(n / 2 < most ? n / 2 : most); /* each open job takes two bytes */
    if (!d.t) return fail_set(f, "task: out of memory");
    if (take_task(&d)) {
        free(d.t);
        return -1;
    }
    *ret = d.t;
    return 0;
}
