/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pair of descriptors as a meeting place: what a member writes to its W can be read at every member's R, as a
 * launcher such as GXP offers it (doc/spec/07-rendezvous.md, 5). Entries are lines of at most 4,096 bytes:
 *
 *   moyai 1 <sealed entry, in hex>
 *
 * Each write is one line, which pipes pass on whole. What is no such line, or sealed by nobody we know, is passed over.
 * Nothing is kept for those who come later: a newcomer says its entry, and some of those who have not met it before
 * answer. How many, and how many speak at each look, does not grow with the grid.
 *
 * The program's descriptors are not closed, and not made non-blocking, as others may have them, too. All functions:
 * node lock held; callbacks come from the loop.
 */
#ifndef OVERLAY_IO_MEET_FD_H
#define OVERLAY_IO_MEET_FD_H

#include "exec/exec.h"
#include "link/key.h"

#define MEET_FD_ENTRY_MAX 1900u /* bytes of an entry before it is sealed */

struct meet_fd;

struct meet_fd_ops {
    void (*entry)(void *ctx, const uint8_t *p, size_t n); /* unsealed; it may be old, or this node's own */
    size_t (*own)(void *ctx, uint8_t *out);               /* the own entry as of now, up to that size; 0: none */
    void (*trouble)(void *ctx, int code, const char *text); /* EPERM: another key is in use there; told once */
};

/* EINVAL: they are no descriptors that can be waited for. keys: borrowed. */
int meet_fd_new(struct meet_fd **ret, struct exec *x, const struct keyfile *keys, int in, int out,
                const struct meet_fd_ops *ops, void *ctx, struct moyai_error *reterr) MOYAI_MUST_USE;
void meet_fd_look(struct meet_fd *m); /* say the own entry, if it is our turn. Calls own and trouble from within */
void meet_fd_free(struct meet_fd *m); /* NULL is fine */

#endif
