/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depth-first branch and bound over a set of subtrees, in slices of any length, that can at any time between two slices
 * give away part of what is left, or all of it, as bytes for another search of the same instance.
 *
 * Laws. A node is *explored* when its children are bounded, and counted then. Whatever is split off, saved and
 * loaded elsewhere: no node is explored twice and none is lost. With the same fixed upper bound all along, the searches
 * that share a tree explore together exactly as many nodes as one search alone.
 *
 * One thread at a time. No clock, no I/O, no randomness.
 */
#ifndef FLOWSHOP_SEARCH_H
#define FLOWSHOP_SEARCH_H

#include "bytes.h"
#include "fail.h"
#include "instance.h"

#include <stdint.h>

struct search;

enum search_state { SEARCH_DONE, SEARCH_MORE };

/* A search with nothing to do. in is borrowed until search_free. NULL: out of memory. */
struct search *search_new(const struct instance *in);
void search_free(struct search *s);

/* Replaces what is left to search by the whole tree, or by a task of search_split or search_save. Any
 * bytes may come: -1 and *f if they are no task of this instance, and the search is as before. Upper bound,
 * best solution and count of nodes stay. */
void search_whole(struct search *s);
int search_load(struct search *s, const uint8_t *bytes, size_t n, struct fail *f);

/* Explores at most max_nodes nodes. SEARCH_DONE: nothing is left. */
enum search_state search_run(struct search *s, uint64_t max_nodes);

/* From now on only solutions shorter than upper count; a larger value than the present one changes nothing. */
void search_upper(struct search *s, int32_t upper);
/* The present one: the least of those given and of the makespans found; INT32_MAX at first. */
int32_t search_get_upper(const struct search *s);

/* Makespan of the best solution found by this search itself and, if perm is not NULL, its n jobs; -1: none
 * so far (none shorter than the upper bounds it was given). */
int32_t search_best(const struct search *s, uint16_t *perm);

/* Nodes explored since search_new. */
uint64_t search_nodes(const struct search *s);

/* How many subtrees search_split would choose from: untouched, with at least min_jobs free jobs. (A task that is one
 * subtree has none before its first node is explored.) */
int search_open(const struct search *s, int min_jobs);

/* Takes about half of the untouched subtrees with at least min_jobs free jobs out of this search and appends
 * them to *out as a task: every other one, level by level from the root of the tree down, so that both sides get
 * promising and poor ones, and the first one given is one of the largest. 1: given; 0: there is none, *out
 * is as before; -1: out of memory, nothing has changed (out->failed is not set). */
int search_split(struct search *s, int min_jobs, struct bytes *out);

/* Appends all that is left to *out, as one task; the search keeps it. 1, 0 (nothing is left) and -1 as above. */
int search_save(const struct search *s, struct bytes *out);

#endif
