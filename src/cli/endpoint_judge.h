/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an endpoint server with keys believes: entries, and what takes them back, that are sealed with one of its keys
 * for that grid, are about the node whose id the path has, and have not ended (doc/spec/07-rendezvous.md, 3.4).
 */
#ifndef CLI_ENDPOINT_JUDGE_H
#define CLI_ENDPOINT_JUDGE_H

#include "link/key.h"

struct endpoint_claim {
    int64_t made; /* seconds since 1970 */
    int64_t left; /* seconds until it, and what was made before it, must not be believed any more */
};

/* now: seconds since 1970. withdraws: it takes entries back. 0; EPERM (not sealed so, or another node's), EDATA (no
 * such thing, or of another version), ESTATE (it has ended, or comes from the future), each with its text. */
int endpoint_judge(const struct keyring *keys, int64_t now, const char *grid, const uint8_t id[16], bool withdraws,
                   const uint8_t *p, size_t n, struct endpoint_claim *ret, struct moyai_error *reterr) MOYAI_MUST_USE;

#endif
