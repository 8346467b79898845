/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers: stacks and the switch between them. All context switching of moyai is behind this header; nothing here
 * knows of tasks, locks or loops, and sanitizers and valgrind are told of every stack and every switch.
 *
 * A fiber's stack is a mapping of its own with a guard below it; `struct fiber` itself lies at the stack's upper
 * end, so that a fiber costs no further memory. All functions: the node thread.
 */
#ifndef EXEC_FIBER_H
#define EXEC_FIBER_H

#include <moyai/base.h>

/* gcc says it with a macro, clang with a feature. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define FIBER_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define FIBER_TSAN 1
#endif

struct exec;
struct exec_task;

/* Below each stack. Large, since a function with a large frame jumps over a small one into another fiber's stack (but
 * for compilers that touch every page, -fstack-clash-protection); costs addresses and no memory. */
#define FIBER_GUARD ((size_t)2 << 20)

struct fiber {
    void *ctx;        /* where it goes on; valid while it does not run */
    struct fiber *to; /* whom it left for last */
    void (*fn)(struct fiber *);
    struct exec *x;
    struct exec_task *task; /* what it is to run next */
    void *local;            /* of the upper layer, for this run */
    struct fiber *next;     /* free list */
    struct fiber *all_prev, *all_next;
    bool quit;    /* to end when it runs next */
    char *bottom; /* lowest usable byte of the stack; NULL: not a fiber but the context of a thread */
    size_t size;  /* usable bytes */
    size_t mapped;
    void *fake, *tsan; /* sanitizers: the stack of returned frames, the shadow context */
    unsigned valgrind; /* number of the registered stack */
};

/* Make a fiber that runs fn(f) when first switched to. NULL: no memory or no more mappings (errno).
 * colour: a small number that differs from one to the next; it shifts the upper end by some cache lines, for else
 * the busiest lines of all fibers compete for the same few sets of the cache. */
struct fiber *fiber_new(size_t stack, unsigned colour, void (*fn)(struct fiber *));
void fiber_free(struct fiber *f); /* f does not run */

/* The calling thread's own context as something to switch back to. */
void fiber_adopt_thread(struct fiber *f);

/* Leave `from`, which runs now, for `to`. Returns when somebody switches to `from` again. */
void fiber_switch(struct fiber *from, struct fiber *to);
/* The same for the last time: `from` will not run again. */
_Noreturn void fiber_finish(struct fiber *from, struct fiber *to);

/* The most bytes of its stack that the fiber has ever used, rounded up to pages. For debugging: a system call. */
size_t fiber_stack_used(const struct fiber *f);

#endif
