/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of bound.c that depends on the width of numbers and on the processor. Included by bound.c once per
 * kernel, with these defined:
 *     NUM, NUM_MAX   the number type and its largest value, which stands for infinity
 *     LANES, VEC     numbers in a vector; the vector type
 *     VMAX(a, b)     the larger of each lane
 *     BELOW(v, x)    a mask with LANE_BITS bits per lane, the lowest of them set if the lane is below x
 *     TARGET         attributes of functions that use the above
 *     NAME(x)        the kernel's own name for x
 */

static inline NUM *NAME(vectors)(const struct bound *b, int level) {
    return (NUM *)b->vectors + (size_t)level * (size_t)b->pitch;
}

/* Matrix with the given number of groups: per group m vectors. */
static inline NUM *NAME(matrix)(const struct bound *b, int groups) {
    return (NUM *)b->matrices + (size_t)b->m * LANES * (size_t)(groups * (groups - 1) / 2);
}

/* Gives the level a matrix of its own with none but its free jobs, so that it needs as few groups as can be. */
static void NAME(compact)(struct bound *b, int level, const uint16_t *jobs, int count) {
    int groups = (count + LANES - 1) / LANES, m = b->m;
    struct slot *slot = &b->slots[groups];
    NUM *p = NAME(matrix)(b, groups), *dead = NAME(vectors)(b, level) + 3 * b->mp;
    for (int k = 0; k < groups * LANES; k++) {
        bool used = k < count;
        NUM *column = p + (size_t)(k / LANES) * (size_t)m * LANES + k % LANES;
        for (int j = 0; j < m; j++) column[j * LANES] = used ? (NUM)b->in->p[j * b->in->n + jobs[k]] : 0;
        dead[k] = used ? 0 : NUM_MAX;
        if (!used) continue;
        slot->job[k] = jobs[k];
        slot->lane[jobs[k]] = (uint16_t)k;
    }
    b->groups[level] = (uint8_t)groups;
}

/* Level 0. Before a machine's first job lies at least the shortest way of any job to that machine, behind its
 * last the shortest way of any job from it. A child's own times are not changed by starting from these. */
static void NAME(root)(struct bound *b) {
    const struct instance *in = b->in;
    NUM *front = NAME(vectors)(b, 0), *back = front + b->mp, *rest = back + b->mp, *jobs_p = b->jobs;
    memset(front, 0, sizeof(NUM) * (size_t)b->pitch);
    memset(jobs_p, 0, sizeof(NUM) * (size_t)in->n * (size_t)b->mp);
    for (int j = 0; j < in->m; j++) front[j] = back[j] = NUM_MAX;
    uint16_t jobs[INSTANCE_MAX_JOBS];
    for (int i = 0; i < in->n; i++) {
        int32_t head = 0, tail = 0;
        jobs[i] = (uint16_t)i;
        for (int j = 0; j < in->m; j++) {
            int k = in->m - 1 - j;
            front[j] = front[j] < head ? front[j] : (NUM)head;
            back[k] = back[k] < tail ? back[k] : (NUM)tail;
            head += in->p[j * in->n + i];
            tail += in->p[k * in->n + i];
            rest[j] = (NUM)(rest[j] + in->p[j * in->n + i]);
            jobs_p[(size_t)i * (size_t)b->mp + (size_t)j] = (NUM)in->p[j * in->n + i];
        }
    }
    b->free[0] = (uint16_t)in->n;
    NAME(compact)(b, 0, jobs, in->n);
}

static TARGET void NAME(descend)(struct bound *restrict b, int level, enum end end, uint16_t job) {
    const NUM *restrict old = NAME(vectors)(b, level), *restrict p = (NUM *)b->jobs + (size_t)job * (size_t)b->mp;
    NUM *restrict new = NAME(vectors)(b, level + 1);
    int m = b->m, mp = b->mp, groups = b->groups[level], count = b->free[level] - 1;

    memcpy(new, old, 2 * (size_t)mp * sizeof(NUM));
    for (int j = 0; j < mp; j++) new[2 * mp + j] = (NUM)(old[2 * mp + j] - p[j]);
    NUM t = 0;
    if (end == FRONT) {
        for (int j = 0; j < m; j++) {
            t = (NUM)((t > old[j] ? t : old[j]) + p[j]);
            new[j] = t;
        }
    } else {
        for (int j = m - 1; j >= 0; j--) {
            t = (NUM)((t > old[mp + j] ? t : old[mp + j]) + p[j]);
            new[mp + j] = t;
        }
    }
    b->free[level + 1] = (uint16_t)count;
    const struct slot *slot = &b->slots[groups];
    if (count > (groups - 1) * LANES || count == 0) {
        memcpy(new + 3 * mp, old + 3 * mp, (size_t)groups * LANES * sizeof(NUM));
        new[3 * mp + slot->lane[job]] = NUM_MAX;
        b->groups[level + 1] = (uint8_t)groups;
        return;
    }
    uint16_t jobs[INSTANCE_MAX_JOBS];
    int k = 0;
    for (int i = 0; i < groups * LANES; i++)
        if (old[3 * mp + i] == 0 && slot->job[i] != job) jobs[k++] = slot->job[i];
    NAME(compact)(b, level + 1, jobs, count);
}

/* Bounds of one group's children at both ends. A child starts on machine j when both itself has left the machine
 * before and the machine is free, front[j]; then the free jobs, itself among them, keep the machine busy for
 * rest[j], and back[j] follows. At the other end the same backwards. */
static inline __attribute__((always_inline)) TARGET void
NAME(group)(int m, const VEC *restrict p, const NUM *restrict front, const NUM *restrict back,
            const NUM *restrict rest_back, const NUM *restrict rest_front, VEC *restrict bound) {
    VEC f = {0}, g = {0}, bound_f = {0}, bound_g = {0};
    for (int j = 0, k = m - 1; j < m; j++, k--) {
        VEC start_f = VMAX(f, (front[j] - (VEC){0})), start_g = VMAX(g, (back[k] - (VEC){0}));
        bound_f = VMAX(bound_f, (start_f + rest_back[j]));
        bound_g = VMAX(bound_g, (start_g + rest_front[k]));
        f = start_f + p[j];
        g = start_g + p[k];
    }
    bound[FRONT] = bound_f;
    bound[BACK] = bound_g;
}

static TARGET int NAME(branch)(struct bound *restrict b, int level, int32_t upper, struct child *restrict out,
                               enum end *restrict ret_end) {
    int m = b->m, mp = b->mp, groups = b->groups[level];
    const NUM *restrict front = NAME(vectors)(b, level), *restrict back = front + mp, *restrict rest = back + mp;
    const VEC *restrict dead = (const VEC *)(rest + mp), *restrict p = (const VEC *)NAME(matrix)(b, groups);
    NUM limit = upper < NUM_MAX ? (NUM)upper : NUM_MAX;
    NUM rest_back[INSTANCE_MAX_MACHINES], rest_front[INSTANCE_MAX_MACHINES];
    for (int j = 0; j < mp; j++) rest_back[j] = (NUM)(rest[j] + back[j]);
    for (int j = 0; j < mp; j++) rest_front[j] = (NUM)(rest[j] + front[j]);

    VEC bound[INSTANCE_MAX_JOBS / LANES][2];
    uint32_t below[INSTANCE_MAX_JOBS / LANES][2];
    int number[2] = {0, 0};
    for (int g = 0; g < groups; g++) {
        NAME(group)(m, p + (size_t)g * (size_t)m, front, back, rest_back, rest_front, bound[g]);
        bound[g][FRONT] = VMAX(bound[g][FRONT], dead[g]);
        bound[g][BACK] = VMAX(bound[g][BACK], dead[g]);
        below[g][FRONT] = BELOW(bound[g][FRONT], limit);
        below[g][BACK] = BELOW(bound[g][BACK], limit);
        number[FRONT] += __builtin_popcount(below[g][FRONT]);
        number[BACK] += __builtin_popcount(below[g][BACK]);
    }
    *ret_end = FRONT;
    if (number[FRONT] == 0 || number[BACK] == 0) return 0;
    int64_t lead = number[FRONT] - number[BACK];
    for (int g = 0; number[FRONT] == number[BACK] && g < groups; g++) {
        VEC more = bound[g][BACK] - bound[g][FRONT]; /* dead lanes: no difference */
        for (int i = 0; i < LANES; i++) lead += more[i];
    }
    enum end end = lead > 0 ? BACK : FRONT;
    *ret_end = end;

    int count = 0;
    for (int g = 0; g < groups; g++) {
        const uint16_t *job = b->slots[groups].job + g * LANES;
        const NUM *value = (const NUM *)&bound[g][end];
        for (uint32_t mask = below[g][end]; mask; mask &= mask - 1) {
            int i = __builtin_ctz(mask) / LANE_BITS, k = count++;
            for (; k > 0 && out[k - 1].bound < value[i]; k--) out[k] = out[k - 1];
            out[k] = (struct child){.bound = value[i], .job = job[i]};
        }
    }
    return count;
}

static int32_t NAME(level)(const struct bound *b, int level) {
    const NUM *front = NAME(vectors)(b, level), *back = front + b->mp, *rest = back + b->mp;
    int32_t bound = 0;
    for (int j = 0; j < b->m; j++) {
        int32_t x = (int32_t)front[j] + rest[j] + back[j];
        bound = bound > x ? bound : x;
    }
    return bound;
}

static const struct kernel NAME(kernel) = {
    .width = sizeof(NUM), .root = NAME(root), .descend = NAME(descend), .branch = NAME(branch), .level = NAME(level)};
