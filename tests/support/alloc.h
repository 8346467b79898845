/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that fail on purpose.
 *
 * A test program that is linked with alloc.c and
 *     -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc -Wl,--wrap=aligned_alloc -Wl,--wrap=posix_memalign
 * (in Meson: sources: alloc_src, link_args: alloc_link_args) counts and can fail the allocations made by code that is
 * linked statically, that is, ours. What shared libraries allocate for themselves (libc, libuv, libcbor) is not seen.
 *
 * The usual test runs one operation again and again, failing the first, then the second allocation and so on, until
 * none was left to fail; it asserts that each run succeeds or gives MOYAI_ENOMEM and changes nothing, and leak
 * checkers assert that nothing stays behind:
 *
 *     for (long k = 1; alloc_next(&k, ALLOC_ONE); k++) {   // arms; ends after the first run without a failure
 *         rc = operation();
 *         ...
 *     }
 *     alloc_disarm();
 *
 * Counts are of the whole process, all threads; arm and disarm while no other thread allocates, or use ALLOC_MINE.
 */
#ifndef TESTS_SUPPORT_ALLOC_H
#define TESTS_SUPPORT_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

enum alloc_mode {
    ALLOC_ONE,     /* only the k-th fails */
    ALLOC_ALL,     /* the k-th and all that follow */
    ALLOC_MINE = 2 /* flag: only what the arming thread allocates is counted and fails */
};

/* Let the k-th allocation from now on fail (1: the next). k 0: none fails, they are only counted. */
void alloc_arm(long k, unsigned mode);
/* Everything works again. Returns how many allocations there were since alloc_arm. */
long alloc_disarm(void);
/* Bytes asked for since alloc_arm, freed or not: what a hostile message can make us allocate. */
size_t alloc_bytes(void);
/* Has one failed since alloc_arm? */
bool alloc_hit(void);

/* The loop above: false if k > 1 and the run before had no allocation left to fail; otherwise arms for k. */
bool alloc_next(const long *k, unsigned mode);

#endif
