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

static _Thread_local struct region {
    char *at, *end, *first;
    bool tried;
    struct size size[SIZES];
    unsigned sizes;
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

/* Before each block, and not of it: its size. */
struct head {
    struct size *size;
    size_t zero[7];
};

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
    if ((size_t)(r->end - r->at) < sizeof(struct head) + n) return NULL;
    struct head *h = (void *)r->at;
    r->at += sizeof *h + n;
    h->size = s;
    return h + 1;
}

static void block_free(void *p) {
    struct head *h = (struct head *)p - 1;
    struct size *s = h->size;
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
    size_t n = ((struct head *)p - 1)->size->n;
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

void ground_memory_grown(void) {
    uintptr_t from = (mine.heap + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, to = (uintptr_t)sbrk(0);
    if (OWN && from < to) (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
    mine.heap = to;
}
