/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for a hundred thousand nodes. The linker gives calloc, realloc and free of this program's own objects to this.
 *
 * Machines are large blocks of zeros of which little is ever touched. They lie one behind the other in a region of its
 * own, whose small pages the system gives when they are touched: no page is begun for a block's sake, and none is kept
 * when it ends. All else is small and touched, and lies in the heap, which has large pages (ground_memory_grown): with
 * small ones each look at a node would begin with a look for where its pages are.
 */
#include "sim/grid/ground.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE     4000u /* from here on: a block in the region */
#define REGION    ((size_t)1 << 38)
#define SIZES     32u /* different ones */
#define SMALL     ((uintptr_t)4096)
#define HUGE_PAGE ((uintptr_t)1 << 21)
#define HEAP_STEP (32 << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN 0 /* who watches memory shall see all of it */
#else
#define OWN 1
#endif

struct size {
    size_t n;
    void **spare;
    size_t n_spare, cap;
};

/* Kept apart from the block, which may have no page yet. */
struct block {
    char *at;
    struct size *size;
};

static _Thread_local struct region {
    char *at, *end, *first;
    bool tried;
    struct size size[SIZES];
    unsigned sizes;
    struct block *block; /* in the order of addresses */
    size_t blocks, cap;
    uintptr_t heap; /* has large pages up to here */
} mine;

void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

static struct size *size_of(struct region *r, size_t n) {
    for (unsigned i = 0; i < r->sizes; i++)
        if (r->size[i].n == n) return &r->size[i];
    if (r->sizes == SIZES) return NULL;
    r->size[r->sizes].n = n;
    return &r->size[r->sizes++];
}

static void *block_new(struct region *r, size_t n) {
    n = (n + 63) / 64 * 64;
    if (!r->tried) {
        r->tried = true;
        void *p = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) return NULL;
        (void)madvise(p, REGION, MADV_NOHUGEPAGE);
        r->first = r->at = p;
        r->end = r->at + REGION;
    }
    struct size *s = r->first ? size_of(r, n) : NULL;
    if (!s) return NULL;
    if (s->n_spare > 0) return s->spare[--s->n_spare];
    if ((size_t)(r->end - r->at) < n) return NULL;
    if (r->blocks == r->cap) {
        const size_t cap = r->cap ? 2 * r->cap : 1024;
        struct block *b = __real_realloc(r->block, cap * sizeof *b);
        if (!b) return NULL;
        r->block = b;
        r->cap = cap;
    }
    struct block *b = &r->block[r->blocks++];
    *b = (struct block){r->at, s};
    r->at += n;
    return b->at;
}

static struct size *block_size(const struct region *r, const void *p) {
    size_t from = 0, to = r->blocks;
    while (to - from > 1) {
        const size_t mid = (from + to) / 2;
        if (r->block[mid].at <= (const char *)p)
            from = mid;
        else
            to = mid;
    }
    return r->block[from].size;
}

static void block_free(void *p) {
    struct size *s = block_size(&mine, p);
    uintptr_t from = (uintptr_t)p, to = from + s->n, first = (from + SMALL - 1) / SMALL * SMALL,
              last = to / SMALL * SMALL;
    memset(p, 0, first - from); /* a block is more than a page */
    memset((void *)last, 0, to - last);
    if (first < last && madvise((void *)first, last - first, MADV_DONTNEED) < 0) memset((void *)first, 0, last - first);
    if (s->n_spare == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 64;
        void **q = __real_realloc(s->spare, cap * sizeof *q);
        if (!q) abort();
        s->spare = q;
        s->cap = cap;
    }
    s->spare[s->n_spare++] = p;
}

static bool is_block(const struct region *r, const void *p) {
    return (const char *)p >= r->first && (const char *)p < r->at;
}

void *__wrap_calloc(size_t n, size_t size) {
    size_t all;
    void *p = NULL;
    if (OWN && ground_world && !__builtin_mul_overflow(n, size, &all) && all >= LARGE && all < REGION / 2)
        p = block_new(&mine, all);
    return p ? p : __real_calloc(n, size);
}

void __wrap_free(void *p) {
    if (OWN && p && is_block(&mine, p))
        block_free(p);
    else
        __real_free(p);
}

void *__wrap_realloc(void *p, size_t size) {
    if (!OWN || !p || !is_block(&mine, p)) return __real_realloc(p, size);
    size_t n = block_size(&mine, p)->n;
    void *q = malloc(size);
    if (!q) return NULL;
    memcpy(q, p, n < size ? n : size);
    block_free(p);
    return q;
}

void ground_memory(void) {
    (void)mallopt(M_PERTURB, 0); /* would touch all (MALLOC_PERTURB_, as test runners set it) */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
    (void)mallopt(M_TOP_PAD, HEAP_STEP);
    (void)mallopt(M_TRIM_THRESHOLD, 2 * HEAP_STEP);
    mine.heap = (uintptr_t)sbrk(0);
}

static bool is_zero(const char *page) {
    const uint64_t *p = (const void *)page;
    uint64_t any = 0;
    for (size_t i = 0; i < SMALL / sizeof *p; i += 8) { /* a cache line */
        for (size_t k = 0; k < 8; k++) any |= p[i + k];
        if (any) return false;
    }
    return true;
}

void ground_memory_rest(void) {
    enum { AT_ONCE = 4096 };
    static _Thread_local unsigned char here[AT_ONCE];
    for (char *at = mine.first; at < mine.at; at += AT_ONCE * SMALL) {
        size_t n = (size_t)(mine.at - at) / SMALL;
        if (n > AT_ONCE) n = AT_ONCE;
        if (n == 0 || mincore(at, n * SMALL, here) < 0) return;
        for (size_t i = 0, from = 0; i < n; from = i) {
            while (i < n && (here[i] & 1) && is_zero(at + i * SMALL)) i++;
            if (i > from) (void)madvise(at + from * SMALL, (i - from) * SMALL, MADV_DONTNEED);
            if (i == from) i++;
        }
    }
}

void ground_memory_grown(void) {
    uintptr_t from = (mine.heap + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, to = (uintptr_t)sbrk(0);
    if (OWN && from < to) (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
    mine.heap = to;
}
