/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of the search is one array of children (a job and its bound) and one frame per level of the
 * present path:
 *
 *     frame 0       frame 1     frame 2 ...            level = number of scheduled jobs
 *     [ c c c ]     [ c c ]     [ c c c c ]            open children, best last
 *       end, job      end, job    end                  end of the permutation; child that leads on to the next frame
 *
 * A frame's children are those below the upper bound at the end of the permutation that bound_branch has chosen. The
 * best is taken out, becomes the next level, and is explored in one step; so between two steps every node is
 * either explored, or open in exactly one frame, or under an open one: this is why splitting is exact. What is left
 * of a search is the path and the open children and nothing else; fronts and backs are computed again by whoever
 * loads it. Levels above the base of a loaded task are frames without children.
 *
 * Children are dropped, uncounted, when their turn comes and the upper bound has fallen to theirs.
 */
#include "search.h"

#include "bound.h"
#include "task.h"

#include <stdlib.h>
#include <string.h>

struct frame {
    int begin, end; /* children[begin..end-1] are open */
    enum end side;
    uint16_t job; /* taken at this level; not valid at the last level */
};

struct search {
    const struct instance *in;
    struct bound *bound;
    uint64_t nodes;
    int32_t upper;
    int depth;    /* the last frame; -1: nothing is left */
    bool pending; /* the node at level depth is itself open, and its frame is not valid */
    int32_t best; /* -1: none */
    uint16_t best_perm[INSTANCE_MAX_JOBS];
    struct frame frames[INSTANCE_MAX_JOBS];
    struct child children[]; /* n (n + 1) / 2: level k has at most n - k */
};

struct search *search_new(const struct instance *in) {
    size_t most = (size_t)in->n * (size_t)(in->n + 1) / 2;
    struct search *s = calloc(1, sizeof *s + most * sizeof s->children[0]);
    if (!s) return NULL;
    s->in = in;
    s->upper = INT32_MAX;
    s->depth = -1;
    s->best = -1;
    s->bound = bound_new(in);
    if (!s->bound) {
        free(s);
        return NULL;
    }
    return s;
}

void search_free(struct search *s) {
    if (!s) return;
    bound_free(s->bound);
    free(s);
}

void search_whole(struct search *s) {
    s->depth = 0;
    s->pending = true;
}

/* Goes down by one job without exploring; the frame gets no children. */
static void step_down(struct search *s, enum end side, uint16_t job) {
    int begin = s->depth > 0 ? s->frames[s->depth - 1].end : 0;
    s->frames[s->depth] = (struct frame){.begin = begin, .end = begin, .side = side, .job = job};
    bound_descend(s->bound, s->depth, side, job);
    s->depth++;
}

static int by_falling_bound(const void *a, const void *b) {
    const struct child *x = a, *y = b;
    return (x->bound < y->bound) - (x->bound > y->bound);
}

static void load_level(struct search *s, const struct task *t, const struct task_level *l) {
    struct frame *f = &s->frames[s->depth];
    f->side = l->end;
    f->begin = s->depth > 0 ? s->frames[s->depth - 1].end : 0;
    f->end = f->begin + l->count;
    for (int i = 0; i < l->count; i++) {
        uint16_t job = t->open[l->first + i];
        bound_descend(s->bound, s->depth, l->end, job);
        int32_t bound = bound_level(s->bound, s->depth + 1);
        s->children[f->begin + i] = (struct child){.bound = bound, .job = job};
    }
    if (l->count > 1) qsort(s->children + f->begin, (size_t)l->count, sizeof s->children[0], by_falling_bound);
}

int search_load(struct search *s, const uint8_t *bytes, size_t n, struct fail *f) {
    struct task *t;
    if (task_decode(&t, s->in, bytes, n, f)) return -1;
    s->depth = 0;
    s->pending = t->n_levels == 0;
    for (int k = 0; k < t->n_prefix; k++) step_down(s, FRONT, t->prefix[k]);
    for (int k = t->n_suffix - 1; k >= 0; k--) step_down(s, BACK, t->suffix[k]);
    for (int k = 0; k < t->n_levels; k++) {
        load_level(s, t, &t->level[k]);
        if (k + 1 == t->n_levels) break;
        s->frames[s->depth].job = t->level[k].taken;
        bound_descend(s->bound, s->depth, t->level[k].end, t->level[k].taken);
        s->depth++;
    }
    free(t);
    return 0;
}

/* Lays the jobs of the path down to the given level into perm, from both ends; returns where the free
 * places begin. */
static int lay_path(const struct search *s, int level, uint16_t *perm) {
    int left = 0, right = s->in->n;
    for (int k = 0; k < level; k++) {
        if (s->frames[k].side == FRONT)
            perm[left++] = s->frames[k].job;
        else
            perm[--right] = s->frames[k].job;
    }
    return left;
}

static void explore(struct search *s) {
    struct frame *f = &s->frames[s->depth];
    f->begin = s->depth > 0 ? s->frames[s->depth - 1].end : 0;
    s->nodes++;
    int count = bound_branch(s->bound, s->depth, s->upper, s->children + f->begin, &f->side);
    f->end = f->begin + count;
    if (s->depth + 1 < s->in->n || count == 0) return;
    const struct child *c = &s->children[f->begin]; /* the last free job: a solution, and shorter than upper */
    f->end = f->begin;
    s->upper = s->best = c->bound;
    s->best_perm[lay_path(s, s->depth, s->best_perm)] = c->job;
}

enum search_state search_run(struct search *s, uint64_t max_nodes) {
    uint64_t stop = max_nodes < UINT64_MAX - s->nodes ? s->nodes + max_nodes : UINT64_MAX;
    while (s->depth >= 0) {
        if (s->pending) {
            if (bound_level(s->bound, s->depth) < s->upper) {
                if (s->nodes == stop) return SEARCH_MORE;
                explore(s);
            } else {
                s->depth--;
            }
            s->pending = false;
            continue;
        }
        struct frame *f = &s->frames[s->depth];
        if (f->begin == f->end) {
            s->depth--;
            continue;
        }
        const struct child *c = &s->children[f->end - 1];
        if (c->bound >= s->upper) {
            f->end = f->begin; /* the others' bounds are no smaller */
            continue;
        }
        if (s->nodes == stop) return SEARCH_MORE;
        f->end--;
        f->job = c->job;
        bound_descend(s->bound, s->depth, f->side, c->job);
        s->depth++;
        explore(s);
    }
    return SEARCH_DONE;
}

void search_upper(struct search *s, int32_t upper) {
    if (upper < s->upper) s->upper = upper;
}

int32_t search_get_upper(const struct search *s) {
    return s->upper;
}

int32_t search_best(const struct search *s, uint16_t *perm) {
    if (s->best >= 0 && perm) memcpy(perm, s->best_perm, (size_t)s->in->n * sizeof *perm);
    return s->best;
}

uint64_t search_nodes(const struct search *s) {
    return s->nodes;
}

/* Frames with children: all, but not the invalid one of a pending node. */
static int valid_frames(const struct search *s) {
    return s->depth + (s->pending ? 0 : 1);
}

static bool is_open(const struct search *s, const struct child *c) {
    return c->bound < s->upper;
}

int search_open(const struct search *s, int min_jobs) {
    int open = 0;
    for (int k = 0; k < valid_frames(s); k++) {
        if (s->in->n - k - 1 < min_jobs) break;
        for (int i = s->frames[k].begin; i < s->frames[k].end; i++) open += is_open(s, &s->children[i]);
    }
    return open;
}

/* The base is the node on the path at the given level. */
static void set_base(struct task *t, const struct search *s, int level) {
    uint16_t perm[INSTANCE_MAX_JOBS];
    t->n_prefix = lay_path(s, level, perm);
    t->n_suffix = level - t->n_prefix;
    memcpy(t->prefix, perm, (size_t)t->n_prefix * sizeof *perm);
    memcpy(t->suffix, perm + s->in->n - t->n_suffix, (size_t)t->n_suffix * sizeof *perm);
}

/* A single open subtree is itself the base. */
static void fold(struct task *t) {
    uint16_t job = t->open[0];
    if (t->level[0].end == FRONT) {
        t->prefix[t->n_prefix++] = job;
    } else {
        memmove(t->suffix + 1, t->suffix, (size_t)t->n_suffix * sizeof *t->suffix);
        t->suffix[0] = job;
        t->n_suffix++;
    }
    t->n_levels = 0;
}

/* 1, or -1: out of memory, *out as before. */
static int append(const struct search *s, const struct task *t, struct bytes *out) {
    size_t before = out->n;
    bool failed = out->failed;
    task_encode(t, s->in, out);
    if (!out->failed) return 1;
    out->n = before;
    out->failed = failed;
    return -1;
}

/* Appends the open children, all or only those that are marked, best first. 1; 0: there are none; -1: out of memory,
 * *out as before. */
static int append_open(const struct search *s, bool only_marked, struct bytes *out) {
    size_t most = (size_t)s->in->n * (size_t)(s->in->n + 1) / 2;
    struct task *t = task_new(most);
    if (!t) return -1;
    int last = 0; /* levels up to the last one with open jobs */
    for (int k = 0; k < valid_frames(s); k++) {
        const struct frame *f = &s->frames[k];
        struct task_level l = {.end = f->side, .taken = f->job, .first = t->n_open};
        for (int i = f->end - 1; i >= f->begin; i--) {
            const struct child *c = &s->children[i];
            if (is_open(s, c) && (c->marked || !only_marked)) t->open[t->n_open++] = c->job;
        }
        l.count = t->n_open - l.first;
        if (t->n_open == 0) continue;
        if (t->n_levels == 0) set_base(t, s, k);
        t->level[t->n_levels++] = l;
        if (l.count > 0) last = t->n_levels;
    }
    t->n_levels = last;
    if (t->n_open == 1) fold(t);
    int rc = t->n_open > 0 ? append(s, t, out) : 0;
    free(t);
    return rc;
}

int search_split(struct search *s, int min_jobs, struct bytes *out) {
    bool give = true;
    for (int k = 0; k < valid_frames(s); k++) {
        for (int i = s->frames[k].begin; i < s->frames[k].end; i++) {
            struct child *c = &s->children[i];
            bool eligible = is_open(s, c) && s->in->n - k - 1 >= min_jobs;
            c->marked = eligible && give;
            if (eligible) give = !give;
        }
    }
    int given = append_open(s, true, out);
    for (int k = 0; k < valid_frames(s); k++) {
        struct frame *f = &s->frames[k];
        int kept = f->begin;
        for (int i = f->begin; i < f->end; i++)
            if (given < 0 || !s->children[i].marked) s->children[kept++] = s->children[i];
        f->end = kept;
    }
    return given;
}

static int append_pending(const struct search *s, struct bytes *out) {
    struct task *t = task_new(0);
    if (!t) return -1;
    set_base(t, s, s->depth);
    int rc = append(s, t, out);
    free(t);
    return rc;
}

int search_save(const struct search *s, struct bytes *out) {
    if (s->pending) return bound_level(s->bound, s->depth) < s->upper ? append_pending(s, out) : 0;
    return append_open(s, false, out);
}
