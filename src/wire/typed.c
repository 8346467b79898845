/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/typed.h"

#define FLOAT_BIT  16u
#define SIGNED_BIT 8u

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE_ORDER TYPED_ORDER_BIT
#else
#define NATIVE_ORDER 0u
#endif

const char *typed_name(enum moyai_elem elem) {
    static const char names[][8] = {"uint8", "uint16", "uint32", "uint64", "int8",
                                    "int16", "int32",  "int64",  "float",  "double"};
    return names[elem];
}

int typed_of_tag(uint64_t tag, enum moyai_elem *elem, bool *swap) {
    unsigned t = (unsigned)(tag - TYPED_FIRST), ll = t & 3;
    bool little = t & TYPED_ORDER_BIT;
    if (t & FLOAT_BIT) {
        if (ll == 0 || ll == 3) return MOYAI_ETYPE;
        *elem = ll == 1 ? MOYAI_ELEM_F32 : MOYAI_ELEM_F64;
        *swap = (t & TYPED_ORDER_BIT) != NATIVE_ORDER;
        return 0;
    }
    bool is_signed = t & SIGNED_BIT;
    if (ll == 0) { /* one byte has no order: unsigned with the bit means "clamped", signed is reserved */
        if (is_signed && little) return MOYAI_ETYPE;
        *elem = is_signed ? MOYAI_ELEM_I8 : MOYAI_ELEM_U8;
        *swap = false;
        return 0;
    }
    *elem = (enum moyai_elem)((is_signed ? MOYAI_ELEM_I8 : MOYAI_ELEM_U8) + ll);
    *swap = (t & TYPED_ORDER_BIT) != NATIVE_ORDER;
    return 0;
}

static unsigned tag_of(enum moyai_elem elem) {
    switch (elem) {
    case MOYAI_ELEM_U8:
        return TYPED_FIRST;
    case MOYAI_ELEM_U16:
        return TYPED_FIRST + NATIVE_ORDER + 1;
    case MOYAI_ELEM_U32:
        return TYPED_FIRST + NATIVE_ORDER + 2;
    case MOYAI_ELEM_U64:
        return TYPED_FIRST + NATIVE_ORDER + 3;
    case MOYAI_ELEM_I8:
        return TYPED_FIRST + SIGNED_BIT;
    case MOYAI_ELEM_I16:
        return TYPED_FIRST + SIGNED_BIT + NATIVE_ORDER + 1;
    case MOYAI_ELEM_I32:
        return TYPED_FIRST + SIGNED_BIT + NATIVE_ORDER + 2;
    case MOYAI_ELEM_I64:
        return TYPED_FIRST + SIGNED_BIT + NATIVE_ORDER + 3;
    case MOYAI_ELEM_F32:
        return TYPED_FIRST + FLOAT_BIT + NATIVE_ORDER + 1;
    case MOYAI_ELEM_F64:
        return TYPED_FIRST + FLOAT_BIT + NATIVE_ORDER + 2;
    }
    return 0;
}

/*
 * Alignment without a padding item, which CBOR has not: heads longer than needed. The tag's may take 2, 3, 5 or 9
 * bytes, the length's from its shortest up to 9, and tag 55799, which means nothing, may stand before (3 bytes), once
 * or twice. The first combination by number of prefixes, then length head, then tag head, is taken; every offset modulo
 * 8 is reached for every length (typed_test tries them all).
 */
size_t typed_put_head(uint8_t *to, uint64_t at, enum moyai_elem elem, uint64_t nbytes) {
    static const uint8_t tag_sizes[] = {2, 3, 5, 9}, len_sizes[] = {1, 2, 3, 5, 9};
    const size_t shortest = head_size(nbytes), mask = typed_size(elem) - 1;
    const unsigned tag = tag_of(elem);
    for (size_t prefix = 0; prefix <= 6; prefix += 3) {
        for (size_t l = 0; l < sizeof len_sizes; l++) {
            if (len_sizes[l] < shortest) continue;
            for (size_t t = 0; t < sizeof tag_sizes; t++) {
                size_t heads = prefix + tag_sizes[t] + len_sizes[l];
                if ((at + heads) & mask) continue;
                for (size_t i = 0; i < prefix; i += 3) head_put_sized(to + i, HEAD_TAG, HEAD_TAG_CBOR, 3);
                head_put_sized(to + prefix, HEAD_TAG, tag, tag_sizes[t]);
                head_put_sized(to + prefix + tag_sizes[t], HEAD_BYTES, nbytes, len_sizes[l]);
                return heads;
            }
        }
    }
    return 0; /* not reached */
}

void typed_swap(void *to_, const void *from_, size_t n, size_t size) {
    uint8_t *to = to_;
    const uint8_t *from = from_;
    switch (size) {
    case 2:
        for (size_t i = 0; i + 2 <= n; i += 2) {
            uint16_t x;
            memcpy(&x, from + i, 2);
            x = __builtin_bswap16(x);
            memcpy(to + i, &x, 2);
        }
        break;
    case 4:
        for (size_t i = 0; i + 4 <= n; i += 4) {
            uint32_t x;
            memcpy(&x, from + i, 4);
            x = __builtin_bswap32(x);
            memcpy(to + i, &x, 4);
        }
        break;
    case 8:
        for (size_t i = 0; i + 8 <= n; i += 8) {
            uint64_t x;
            memcpy(&x, from + i, 8);
            x = __builtin_bswap64(x);
            memcpy(to + i, &x, 8);
        }
        break;
    default: /* one byte has no order */
        if (to != from && n > 0) memmove(to, from, n);
        break;
    }
}
