/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/fiber.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#ifdef FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define FIBER_VALGRIND 1
#endif
#endif

/* Boost.Context's assembly, extern "C" there; its own header is C++. */
struct transfer {
    void *ctx; /* the context that was left */
    void *data;
};
extern struct transfer jump_fcontext(void *to, void *data);
extern void *make_fcontext(void *top, size_t size, void (*fn)(struct transfer));

/* First thing on the new stack: keep where the other one goes on. */
static inline void arrive(struct fiber *self, struct transfer t) {
    struct fiber *left = t.data;
    left->ctx = t.ctx;
#ifdef FIBER_ASAN
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(self->fake, &bottom, &size);
    left->bottom = (char *)(uintptr_t)bottom; /* of a thread's context; a fiber's own is what it was */
    left->size = size;
#else
    (void)self;
#endif
}

static inline void depart(struct fiber *from, struct fiber *to, bool last) {
#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(last ? NULL : &from->fake, to->bottom, to->size);
#endif
#ifdef FIBER_TSAN
    __tsan_switch_to_fiber(to->tsan, 0);
#endif
    (void)from, (void)to, (void)last;
}

void fiber_switch(struct fiber *from, struct fiber *to) {
    from->to = to;
    depart(from, to, false);
    arrive(from, jump_fcontext(to->ctx, from));
}

_Noreturn void fiber_finish(struct fiber *from, struct fiber *to) {
    from->to = to;
    depart(from, to, true);
    jump_fcontext(to->ctx, from);
    abort(); /* nobody switches to it again */
}

static void enter(struct transfer t) {
    struct fiber *self = ((struct fiber *)t.data)->to;
    arrive(self, t);
    self->fn(self);
    abort();
}

/* 64 bytes are a cache line; 2 KiB of the upper page are given to colours. */
enum { LINE = 64, COLOURS = 32 };

struct fiber *fiber_new(size_t stack, unsigned colour, void (*fn)(struct fiber *)) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    stack = (stack + page - 1) / page * page;
    size_t mapped = FIBER_GUARD + stack;
    /* The guard is addresses and nothing else, wherever the system counts memory that is promised. */
    char *map = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (map == MAP_FAILED) return NULL;
    if (mprotect(map + FIBER_GUARD, stack, PROT_READ | PROT_WRITE) < 0) {
        munmap(map, mapped);
        return NULL;
    }
    /* A huge page would make a fiber that uses 4 KiB cost 2 MiB. Kernels without huge pages refuse: fine. */
    (void)madvise(map + FIBER_GUARD, stack, MADV_NOHUGEPAGE);

    size_t above = sizeof(struct fiber) + (colour % COLOURS) * LINE;
    above = (above + LINE - 1) / LINE * LINE;
    struct fiber *f = (struct fiber *)(void *)(map + mapped - above);
    memset(f, 0, sizeof *f);
    f->fn = fn;
    f->bottom = map + FIBER_GUARD;
    f->size = (size_t)((char *)f - f->bottom);
    f->mapped = mapped;
    f->ctx = make_fcontext(f, f->size, enter);
#ifdef FIBER_TSAN
    f->tsan = __tsan_create_fiber(0);
#endif
#ifdef FIBER_VALGRIND
    f->valgrind = VALGRIND_STACK_REGISTER(f->bottom, (char *)f);
#endif
#ifdef FIBER_ASAN
    __lsan_register_root_region(f->bottom, stack);
#endif
    return f;
}

void fiber_free(struct fiber *f) {
    char *map = f->bottom - FIBER_GUARD;
    size_t mapped = f->mapped;
#ifdef FIBER_TSAN
    __tsan_destroy_fiber(f->tsan);
#endif
#ifdef FIBER_VALGRIND
    VALGRIND_STACK_DEREGISTER(f->valgrind);
#endif
#ifdef FIBER_ASAN
    /* Frames that were abandoned have left marks, which would outlive the mapping. */
    __asan_unpoison_memory_region(f->bottom, mapped - FIBER_GUARD);
    __lsan_unregister_root_region(map + FIBER_GUARD, mapped - FIBER_GUARD);
#endif
    munmap(map, mapped);
}

void fiber_adopt_thread(struct fiber *f) {
    memset(f, 0, sizeof *f);
#ifdef FIBER_TSAN
    f->tsan = __tsan_get_current_fiber();
#endif
}

size_t fiber_stack_used(const struct fiber *f) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (f->mapped - FIBER_GUARD) / page, used = 0;
    unsigned char *in = malloc(pages);
    /* The stack's pages are private and never swapped in: what is resident has been touched. */
    if (in && mincore(f->bottom, pages * page, in) == 0) {
        size_t i = 0;
        while (i < pages && !(in[i] & 1)) i++;
        used = (pages - i) * page;
    }
    free(in);
    return used;
}
