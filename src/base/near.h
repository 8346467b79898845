/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are like another: for "did you mean". */
#ifndef BASE_NEAR_H
#define BASE_NEAR_H

#include <stdbool.h>
#include <stddef.h>

#define NEAR_MAX 63 /* bytes; longer names are like none */

/* How many bytes are wrong: missing, too many, others, or two in each other's place. */
size_t near_mistakes(const char *a, const char *b);

/* Is it like what is wanted, two mistakes and no more than a third of it, and nearer than *least (SIZE_MAX at first)?
 * Then *least is set. */
bool near_is(const char *wanted, const char *name, size_t *least);

/* The nearest of many, one after the other: begin with {.wanted = ..., .least = SIZE_MAX}; name is "" if none is like
 * it. near_look is for functions that call back for each: it returns true. */
struct near {
    const char *wanted; /* borrowed */
    char name[NEAR_MAX + 1];
    size_t least;
};
bool near_look(const char *name, void *near);

#endif
