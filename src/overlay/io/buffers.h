/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers for large inbound messages, kept and given out again (buffers.c). Lock held. */
#ifndef OVERLAY_IO_BUFFERS_H
#define OVERLAY_IO_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

struct buffers;

int buffers_new(struct buffers **ret); /* ENOMEM */
void buffers_free(struct buffers *b);
uint8_t *buffers_get(struct buffers *b, size_t n); /* NULL: out of memory */
void buffers_put(struct buffers *b, uint8_t *p);

#endif
