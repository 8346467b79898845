/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one-machine bound (Lageweg, Lenstra and Rinnooy Kan 1978) with two-ended branching (Potts 1980), for all
 * children of a node in one pass.
 *
 * Per level three numbers of each machine are kept: front, when it has finished the prefix; back, the time from its
 * begin of the suffix to the end of all; rest, the sum of its free jobs. A machine then needs front + rest + back at
 * least. A child changes front (or back) by a recursion over the machines that starts with its own job, which is
 * sequential in machines but independent between children: so a vector register holds one machine's numbers of many
 * *children* (lanes), and a node costs a few instructions per machine, for both ends. Twenty jobs on twenty machines
 * take a tenth of a microsecond on a 2.4 GHz core, descent included.
 *
 * The durations are kept as a matrix of vectors, machine by machine, in groups of LANES jobs. A scheduled job's lane is
 * not taken out but marked dead (bound: infinity); only when the free jobs fit into one group fewer is a new matrix
 * made, which happens at few levels and is shared by all nodes below. One matrix per number of groups is enough as
 * only one path is kept. Numbers are 16 bits wide where all fit, otherwise 32.
 *
 * Tried and left out, for ta029 and ta030: taking, instead of front[j], the least start of any free job on machine j
 * (and the same behind) saves 4 to 8 % of the nodes, but needs a minimum across lanes twice per machine; a two-machine
 * bound (Johnson's rule with lags) over all 190 pairs of machines, most successful pairs first, saves 40 % of the nodes
 * at many times the cost of one; choosing the end by sums of bounds, or of gaps and their powers, instead of by counts
 * gives from 1 % fewer to 25 % more nodes.
 */
#include "bound.h"

#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define ROUND       16 /* machines are padded to a multiple of this */
#define MIN_LANES   4
#define PAGE        4096
#define MAX_GROUPS  (INSTANCE_MAX_JOBS / MIN_LANES)
#define ROUND_UP(x) (((x) + ROUND - 1) / ROUND * ROUND)

struct slot {                         /* which jobs are in a matrix */
    uint16_t job[INSTANCE_MAX_JOBS];  /* of a lane */
    uint16_t lane[INSTANCE_MAX_JOBS]; /* of a job */
};

struct bound {
    const struct kernel *kernel;
    const struct instance *in;
    int m, mp;                             /* machines; the same, padded */
    int pitch;                             /* numbers per level: front[mp], back[mp], rest[mp], dead[jobs, padded] */
    void *vectors;                         /* levels 0 to n */
    void *matrices;                        /* for 1, 2, ... groups one behind the other */
    void *jobs;                            /* durations once more, job by job: [n][mp] */
    uint16_t free[INSTANCE_MAX_JOBS + 1];  /* per level: free jobs */
    uint8_t groups[INSTANCE_MAX_JOBS + 1]; /* per level: which matrix */
    struct slot slots[MAX_GROUPS + 1];     /* per number of groups */
};

struct kernel {
    int width; /* bytes of a number */
    void (*root)(struct bound *b);
    void (*descend)(struct bound *restrict b, int level, enum end end, uint16_t job);
    int (*branch)(struct bound *restrict b, int level, int32_t upper, struct child *restrict out,
                  enum end *restrict end);
    int32_t (*level)(const struct bound *b, int level);
};

/* Vectors may be looked at as the numbers they consist of. */
typedef int16_t vec16x8 __attribute__((vector_size(16), may_alias));
typedef int32_t vec32x4 __attribute__((vector_size(16), may_alias));

/* Where there is no instruction for it: a comparison gives all ones or zero in each lane. */
#define VMAX_ANY(a, b) (((a) & ((a) > (b))) | ((b) & ~((a) > (b))))

static inline uint32_t below16(const vec16x8 *v, int16_t x) {
    uint32_t mask = 0;
    for (int i = 0; i < 8; i++) mask |= (uint32_t)((*v)[i] < x) << i;
    return mask;
}

static inline uint32_t below32(const vec32x4 *v, int32_t x) {
    uint32_t mask = 0;
    for (int i = 0; i < 4; i++) mask |= (uint32_t)((*v)[i] < x) << i;
    return mask;
}

#define NUM         int16_t
#define NUM_MAX     INT16_MAX
#define LANES       8
#define LANE_BITS   1
#define VEC         vec16x8
#define VMAX(a, b)  VMAX_ANY(a, b)
#define BELOW(v, x) below16(&(v), x)
#define TARGET
#define NAME(x) x##_16
#include "bound_kernel.h"
#include "bound_undef.h"

#define NUM         int32_t
#define NUM_MAX     INT32_MAX
#define LANES       4
#define LANE_BITS   1
#define VEC         vec32x4
#define VMAX(a, b)  VMAX_ANY(a, b)
#define BELOW(v, x) below32(&(v), x)
#define TARGET
#define NAME(x) x##_32
#include "bound_kernel.h"
#include "bound_undef.h"

#if defined(__x86_64__)
typedef int16_t vec16x16 __attribute__((vector_size(32), may_alias));
#define NUM        int16_t
#define NUM_MAX    INT16_MAX
#define LANES      16
#define LANE_BITS  2
#define VEC        vec16x16
#define VMAX(a, b) ((VEC)_mm256_max_epi16((__m256i)(a), (__m256i)(b)))
#define BELOW(v, x)                                                                                                    \
    ((uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi16(_mm256_set1_epi16(x), (__m256i)(v))) & 0x55555555u)
#define TARGET  __attribute__((target("avx2,bmi,popcnt")))
#define NAME(x) x##_16_avx2
#include "bound_kernel.h"
#include "bound_undef.h"
#endif

static bool avx2(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
#else
    return false;
#endif
}

/* Every number a kernel forms is the length of a way through n + m + 2 operations at most. */
static bool fits_16_bits(const struct instance *in) {
    int32_t longest = 0;
    for (int k = 0; k < in->n * in->m; k++) longest = longest > in->p[k] ? longest : in->p[k];
    return (int64_t)longest * (in->n + in->m + 2) < INT16_MAX;
}

static const struct {
    const char *name;
    const struct kernel *kernel;
} kernels[BOUND_KERNELS] = {
/* fastest first */
#if defined(__x86_64__)
    {"16 bits, AVX2", &kernel_16_avx2},
#else
    {"16 bits, AVX2", NULL},
#endif
    {"16 bits", &kernel_16},
    {"32 bits", &kernel_32},
};

bool bound_use_kernel(struct bound *b, int k) {
    if (k < 0 || k >= BOUND_KERNELS || (k == 0 && !avx2())) return false;
    if (kernels[k].kernel->width == 2 && !fits_16_bits(b->in)) return false;
    b->kernel = kernels[k].kernel;
    b->kernel->root(b);
    return true;
}

const char *bound_kernel_name(const struct bound *b) {
    for (int k = 0; k < BOUND_KERNELS; k++)
        if (kernels[k].kernel == b->kernel) return kernels[k].name;
    return "";
}

struct bound *bound_new(const struct instance *in) {
    struct bound *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    size_t n = (size_t)in->n, padded = ROUND_UP(n);
    size_t groups = (n + MIN_LANES - 1) / MIN_LANES;
    b->in = in;
    b->m = in->m;
    b->mp = ROUND_UP(in->m);
    b->pitch = 3 * b->mp + (int)padded;
    /* The widest kernel, with 16 lanes of 16 bits, pads as much as the narrowest with 4 of 32, or twice. */
    size_t matrices = (size_t)in->m * MIN_LANES * (groups * (groups + 1) / 2) + (size_t)in->m * 16;
    /* One block at a page's begin: where the three lie to one another in the cache is then no matter of chance. */
    size_t vectors = (n + 1) * (size_t)b->pitch, jobs = n * (size_t)b->mp;
    size_t size = (vectors + jobs + matrices) * sizeof(int32_t);
    b->vectors = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
    if (!b->vectors) {
        bound_free(b);
        return NULL;
    }
    b->jobs = (int32_t *)b->vectors + vectors;
    b->matrices = (int32_t *)b->jobs + jobs;
    for (int k = 0; !bound_use_kernel(b, k);) k++; /* the last one serves for everything */
    return b;
}

void bound_free(struct bound *b) {
    if (!b) return;
    free(b->vectors);
    free(b);
}

void bound_descend(struct bound *b, int level, enum end end, uint16_t job) {
    b->kernel->descend(b, level, end, job);
}

int bound_branch(struct bound *b, int level, int32_t upper, struct child *out, enum end *end) {
    return b->kernel->branch(b, level, upper, out, end);
}

int32_t bound_level(const struct bound *b, int level) {
    return b->kernel->level(b, level);
}

int32_t bound_instance(const struct instance *in) {
    int32_t bound = 0;
    for (int i = 0; i < in->n; i++) {
        int32_t job = 0;
        for (int j = 0; j < in->m; j++) job += in->p[j * in->n + i];
        bound = bound > job ? bound : job;
    }
    int32_t sum[INSTANCE_MAX_MACHINES] = {0}, before[INSTANCE_MAX_MACHINES], behind[INSTANCE_MAX_MACHINES];
    for (int j = 0; j < in->m; j++) before[j] = behind[j] = INT32_MAX;
    for (int i = 0; i < in->n; i++) {
        int32_t head = 0, tail = 0;
        for (int j = 0, k = in->m - 1; k >= 0; j++, k--) {
            before[j] = before[j] < head ? before[j] : head;
            behind[k] = behind[k] < tail ? behind[k] : tail;
            head += in->p[j * in->n + i];
            tail += in->p[k * in->n + i];
            sum[j] += in->p[j * in->n + i];
        }
    }
    for (int j = 0; j < in->m; j++) {
        int32_t x = before[j] + sum[j] + behind[j];
        bound = bound > x ? bound : x;
    }
    return bound;
}
