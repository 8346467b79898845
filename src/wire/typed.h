/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed arrays (RFC 8746): numeric arrays as one byte string behind a tag that names element type and byte order.
 *
 * Tag = 64 + f·16 + s·8 + e·4 + ll: f float, s signed, e little-endian, ll the logarithm of the element's bytes
 * (floats: of half of them). So a swap of byte order changes one bit of the tag, and a tag above 23 stands in the last
 * byte of its head whatever the head's size.
 */
#ifndef WIRE_TYPED_H
#define WIRE_TYPED_H

#include "wire/head.h"

#include <moyai/value.h>

#define TYPED_FIRST     64u
#define TYPED_LAST      87u
#define TYPED_ORDER_BIT 4u
#define TYPED_HEAD_MAX  24u /* bytes of padding, tag and length */

static inline bool typed_is_tag(uint64_t tag) {
    return tag >= TYPED_FIRST && tag <= TYPED_LAST;
}

/* Bytes of an element: 1, 2, 4, 8. */
static inline size_t typed_size(enum moyai_elem elem) {
    static const uint8_t size[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
    return size[elem];
}
const char *typed_name(enum moyai_elem elem); /* "uint8" ... */

/* What the tag says: *swap if the elements are in the other byte order. ETYPE: half and quadruple floats, the
 * reserved tag 76, which C has no type for. */
int typed_of_tag(uint64_t tag, enum moyai_elem *elem, bool *swap);

/* Write the heads of an array of nbytes bytes in this machine's order, for data that are aligned to their element
 * size: `at` is the offset in the message at which the heads begin. Returns their bytes, at most TYPED_HEAD_MAX. */
size_t typed_put_head(uint8_t *to, uint64_t at, enum moyai_elem elem, uint64_t nbytes);

/* Reverse the bytes of each element, n bytes in all. Need not be aligned; `to` may be `from`. */
void typed_swap(void *to, const void *from, size_t n, size_t size);

#endif
