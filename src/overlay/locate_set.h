/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of links, by their numbers: as many bits as there may be links. They are vectors of the compiler's, so that | &
 * ~ are its operators, in four words as in one; one link at a time goes by the functions.
 */
#ifndef OVERLAY_LOCATE_SET_H
#define OVERLAY_LOCATE_SET_H

#include <stdbool.h>
#include <stdint.h>

#define LOCATE_LINKS 256 /* the most links of a node */

/* Aligned as a word is: blocks of machines are no stricter. */
typedef uint64_t locate_set __attribute__((vector_size(LOCATE_LINKS / 8), aligned(8)));

#define SET_WORDS (LOCATE_LINKS / 64)
#define SET_NONE  ((locate_set){0})
#define SET_ALL   (~SET_NONE)

static inline bool set_has(const locate_set *s, uint32_t i) {
    return (*s)[i / 64] >> i % 64 & 1;
}
static inline void set_add(locate_set *s, uint32_t i) {
    (*s)[i / 64] |= UINT64_C(1) << i % 64;
}
static inline void set_del(locate_set *s, uint32_t i) {
    (*s)[i / 64] &= ~(UINT64_C(1) << i % 64);
}
static inline locate_set set_of(uint32_t i) {
    locate_set s = SET_NONE;
    set_add(&s, i);
    return s;
}

static inline bool set_any(locate_set s) {
    uint64_t any = 0;
    for (uint32_t w = 0; w < SET_WORDS; w++) any |= s[w];
    return any;
}
static inline uint32_t set_count(locate_set s) {
    int n = 0;
    for (uint32_t w = 0; w < SET_WORDS; w++) n += __builtin_popcountll(s[w]);
    return (uint32_t)n;
}

/* The first that is not below i; LOCATE_LINKS: none. */
static inline uint32_t set_next(const locate_set *s, uint32_t i) {
    for (uint32_t w = i / 64; w < SET_WORDS; w++, i = w * 64) {
        uint64_t left = (*s)[w] >> i % 64;
        if (left) return i + (uint32_t)__builtin_ctzll(left);
    }
    return LOCATE_LINKS;
}

/* A loop over the set as it is when the loop begins. */
#define SET_EACH(i, set)                                                                                               \
    for (const locate_set i##_all = (set), *i##_set = &i##_all; i##_set; i##_set = NULL)                               \
        for (uint32_t i = set_next(i##_set, 0); i < LOCATE_LINKS; i = set_next(i##_set, i + 1))

#endif
