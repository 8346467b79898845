/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an endpoint server knows: for each grid, the entries of its nodes. Each has an id (its node's, random), the time
 * at which it was made, and an end; one that is not older replaces it. Readers get a random sample. Of a node that has
 * taken its entry back it is remembered when, so that nobody else puts back an old one: of as many nodes as a grid may
 * have, the last ones. Everything is bounded; nothing is written to disk, as nodes tell their entries again all the
 * time.
 *
 * A value without clock or sockets; not thread-safe.
 */
#ifndef CLI_ENDPOINT_STORE_H
#define CLI_ENDPOINT_STORE_H

#include <moyai/error.h>

#define ENDPOINT_GRID_MAX  64u   /* characters of a grid's name: [A-Za-z0-9._-] */
#define ENDPOINT_ENTRY_MAX 4096u /* bytes */
#define ENDPOINT_SAMPLE    128u  /* entries in one answer */

struct endpoint_limits {
    size_t grids, entries; /* of one grid */
    size_t bytes;          /* of all entries, with what keeping them takes */
};

struct endpoint_store;

int endpoint_store_new(struct endpoint_store **ret, const struct endpoint_limits *limits, uint64_t seed) MOYAI_MUST_USE;
void endpoint_store_free(struct endpoint_store *s);

bool endpoint_grid_name(const char *name); /* of the form that is said above? */

/* Entries made later than this seem to come from the future, as the clock was set back, and give way to any; at first
 * all are believed. What was taken back stays so. */
void endpoint_believe(struct endpoint_store *s, int64_t latest);

/* Keep the bytes until `until`. made: of any clock, to be compared only with others of the same node; where it is not
 * known, 0 for all. Other times are of one clock that never goes back. 0; EINVAL (the grid's name), ETOOBIG (empty or
 * over the limit), ESTATE (there is a newer one, or the node has taken back such an old one), EAGAIN (a limit: the text
 * says which), ENOMEM. */
int endpoint_put(struct endpoint_store *s, const char *grid, const uint8_t id[16], const uint8_t *p, size_t n,
                 int64_t made, moyai_ns until, moyai_ns now, struct moyai_error *reterr) MOYAI_MUST_USE;
/* Forget the entry, whenever it was made. */
void endpoint_delete(struct endpoint_store *s, const char *grid, const uint8_t id[16]);
/* Forget the entry, which is not newer than `made`, and until `until` take none of that node, for any grid, that is
 * not. ESTATE: it is newer. Where memory is short the last is not remembered. */
int endpoint_withdraw(struct endpoint_store *s, const char *grid, const uint8_t id[16], int64_t made, moyai_ns until,
                      moyai_ns now, struct moyai_error *reterr) MOYAI_MUST_USE;

/* Up to n entries that have not ended, each with the same chance, in random order, as 16 bytes id, two bytes length
 * (low byte first), bytes. out: room for n * (18 + ENDPOINT_ENTRY_MAX) bytes. Returns the bytes written. */
size_t endpoint_sample(struct endpoint_store *s, const char *grid, size_t n, moyai_ns now, uint8_t *out);

void endpoint_sweep(struct endpoint_store *s, moyai_ns now); /* forget what has ended */
void endpoint_count(const struct endpoint_store *s, size_t *grids, size_t *entries, size_t *bytes);

#endif
