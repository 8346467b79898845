/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/alloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

static struct {
    atomic_bool armed;
    atomic_long seen;
    atomic_size_t bytes;
    atomic_bool hit;
    long k;
    unsigned mode;
} state;
static _Thread_local bool mine;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
int __real_posix_memalign(void **p, size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);

void alloc_arm(long k, unsigned mode) {
    atomic_store(&state.armed, false);
    state.k = k;
    state.mode = mode;
    mine = true;
    atomic_store(&state.seen, 0);
    atomic_store(&state.bytes, 0);
    atomic_store(&state.hit, false);
    atomic_store(&state.armed, true);
}

long alloc_disarm(void) {
    atomic_store(&state.armed, false);
    mine = false;
    return atomic_load(&state.seen);
}

size_t alloc_bytes(void) {
    return atomic_load(&state.bytes);
}

bool alloc_hit(void) {
    return atomic_load(&state.hit);
}

bool alloc_next(const long *k, unsigned mode) {
    bool more = *k <= 1 || alloc_hit();
    alloc_disarm();
    if (more) alloc_arm(*k, mode);
    return more;
}

static bool fails(size_t bytes) {
    if (!atomic_load(&state.armed) || ((state.mode & ALLOC_MINE) && !mine)) return false;
    long i = atomic_fetch_add(&state.seen, 1) + 1;
    atomic_fetch_add(&state.bytes, bytes);
    if (state.k == 0 || i < state.k || (i > state.k && !(state.mode & ALLOC_ALL))) return false;
    atomic_store(&state.hit, true);
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t n) {
    return fails(n) ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size) {
    return fails(n * size) ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n) {
    return fails(n) ? NULL : __real_realloc(p, n);
}
void *__wrap_aligned_alloc(size_t align, size_t n) {
    return fails(n) ? NULL : __real_aligned_alloc(align, n);
}
int __wrap_posix_memalign(void **p, size_t align, size_t n) {
    return fails(n) ? ENOMEM : __real_posix_memalign(p, align, n);
}
