/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that travel: a growing buffer to write to and a cursor to read with, both little-endian. Each
 * keeps its first failure, so that a sequence of reads or writes is checked once, at its end.
 */
#ifndef FLOWSHOP_BYTES_H
#define FLOWSHOP_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* {0} is an empty buffer. The owner frees p, or calls bytes_done. */
struct bytes {
    uint8_t *p;
    size_t n, room;
    bool failed; /* there was no memory; what is in p is incomplete */
};

void bytes_put(struct bytes *b, uint32_t value, int width); /* width: 1, 2 or 4 bytes */
void bytes_put_text(struct bytes *b, const char *text, size_t n);
void bytes_done(struct bytes *b); /* frees the contents, leaves {0} */

struct cursor {
    const uint8_t *p;
    size_t left;
    bool failed; /* more was read than there is; all later reads give 0 */
};

uint32_t cursor_get(struct cursor *c, int width);

#endif
