/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances of the permutation flow shop: n jobs pass m machines in the same order of machines, and every
 * machine takes the jobs in the same order, the permutation. Wanted is the permutation with the least
 * makespan (the time at which the last job leaves the last machine).
 *
 * An instance never changes after it has been made and may be used by several threads.
 */
#ifndef FLOWSHOP_INSTANCE_H
#define FLOWSHOP_INSTANCE_H

#include "bytes.h"
#include "fail.h"

#include <stdint.h>

#define INSTANCE_MAX_JOBS     512
#define INSTANCE_MAX_MACHINES 64
#define INSTANCE_MAX_TIME     1000000 /* of one operation; keeps every sum within int32_t */

struct instance {
    char name[32];       /* "ta011", or "FILE:K" cut to fit; printable, never empty */
    int n, m;            /* jobs, machines */
    int32_t known_lower; /* bounds that came with a file, 0 if none; for people, the solver ignores them */
    int32_t known_upper;
    int32_t p[]; /* p[j * n + i]: time of job i on machine j (rows are machines) */
};

/* By name: "ta001".."ta120" from Taillard's generator, otherwise a file: "PATH" or "PATH:K", K = 1, 2, ...
 * choosing the K-th instance in it. *ret is the caller's, to be freed by instance_free. -1: *f says why,
 * for files as "PATH:LINE: ...". */
int instance_open(struct instance **ret, const char *name, struct fail *f);

/* The parts of instance_open. number: 1..120. */
int instance_taillard(struct instance **ret, int number, struct fail *f);
int instance_read(struct instance **ret, const char *path, int index, struct fail *f);
/* text need not end in NUL; label stands for the file in messages and in the name. */
int instance_parse(struct instance **ret, const char *text, size_t n, const char *label, int index, struct fail *f);

/* n x m durations by Taillard's generator from any seed of 1..2^31-2. */
int instance_generate(struct instance **ret, const char *name, int n, int m, int32_t seed, struct fail *f);

/* For the way to another process: appends the instance to *out (see out->failed); the reverse takes any
 * bytes and gives an instance or -1. */
void instance_save(const struct instance *in, struct bytes *out);
int instance_load(struct instance **ret, const uint8_t *bytes, size_t size, struct fail *f);

/* A number that differs, in all likelihood, between instances that differ in n, m or a duration. */
uint32_t instance_fingerprint(const struct instance *in);

/* Makespan of the k first jobs of perm (a partial schedule if k < n). No check that they are distinct. */
int32_t instance_makespan(const struct instance *in, const uint16_t *perm, int k);

void instance_free(struct instance *in);

#endif
