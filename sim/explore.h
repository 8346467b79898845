/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All interleavings of a small world: breadth first over its states, each of which is one flat block of
 * bytes. Two states are the same if their blocks are; a model makes them so by normal forms ("folding").
 *
 * A model names its moves by numbers. From each state each possible move is made on a copy. The first law that
 * breaks, breadth first, gives a shortest story, which is then told move by move.
 *
 * States are remembered by a hash of 64 bits: of n states, n^2 / 2^65 is the chance that two were taken for one
 * (ten million: three in a million). Blocks are kept only until they are expanded, as difference to the first.
 */
#ifndef SIM_EXPLORE_H
#define SIM_EXPLORE_H

#include <moyai/error.h>

#include <stdio.h>

struct explore_model {
    size_t size;    /* bytes of a world, a multiple of 8 */
    uint32_t moves; /* their numbers are below */
    const void *cfg;
    void (*init)(void *world, const void *cfg);
    /* Make a move: 1; 0 if it is not possible here (and the world is as it was); -1: made, and a law is broken. */
    int (*move)(void *world, const void *cfg, uint32_t m, struct moyai_error *why);
    /* Must this move happen some time if nothing else does? Where no such move is possible the world is at rest. */
    bool (*must)(const void *world, const void *cfg, uint32_t m);
    bool (*rest)(const void *world, const void *cfg, struct moyai_error *why); /* the law of a world at rest */
    void (*settle)(void *world, const void *cfg);                              /* into its normal form */
    /* The move in words, made on a copy of the world to show what it does. */
    void (*tell)(void *world, const void *cfg, uint32_t m, char *text, size_t n);
};

struct explore_result {
    uint64_t states, moves, rests;
    uint32_t depth; /* moves to the farthest state seen */
    bool exhausted; /* no state is left that was not expanded */
    bool broken;    /* why says which law; the story has been told */
    struct moyai_error why;
};

/* budget: the most states. story: where a broken law is told, may be NULL. 0 or ENOMEM (then *r is what was done). */
int explore(const struct explore_model *m, uint64_t budget, FILE *story, struct explore_result *r);

#endif
