/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of the grid file that concern this host (gridfile.h, forward.h): connections through them, and loopback
 * listeners at which they arrive. For the files of the overlay's driver only.
 *
 * A node of HOST2 that may listen does so at the line's port of 127.0.0.1, whose user need not be told where: of
 * several nodes one has the port, and another takes it when that has ended.
 */
#ifndef OVERLAY_IO_LINES_H
#define OVERLAY_IO_LINES_H

#include "link/tls.h"
#include "overlay/io/internal.h"

struct lines;
struct line;

/* Read the grid file; tls and keys are borrowed. EINVAL, ENOENT ...: what
 * is wrong with the file. */
int lines_new(struct lines **ret, struct overlay *o, struct tls_ctx *tls, const struct keyfile *keys,
              struct moyai_error *reterr);
/* No connection is made or taken any more; links go on, and have nothing to do with the lines. ssh runs on. NULL is
 * fine */
void lines_stop(struct lines *s);
void lines_leave(struct lines *s);       /* the node leaves: forward_leaves. NULL is fine */
bool lines_carry(const struct lines *s); /* an ssh of this node's runs, through which links may go; s NULL: none does */
void lines_close(struct lines *s);       /* the same, and ssh ends. NULL is fine */

void lines_hello(struct line *l, const uint8_t id[16]); /* whom it leads to */
void lines_used(struct line *l);                        /* its link is agreed on */
void lines_down(struct line *l);                        /* it has ended */
/* As overlay_each_line; s NULL is fine. */
void lines_each(const struct lines *s, bool (*fn)(const struct overlay_line *l, void *ctx), void *ctx);
void lines_lost(struct lines *s, const uint8_t id[16]); /* another link to that node has ended; s NULL is fine */

#endif
