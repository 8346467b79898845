/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/head.h"

#include <assert.h>
#include <cbor.h>

static void on_u8(void *h, uint8_t x) {
    ((struct head *)h)->arg = x;
}
static void on_u16(void *h, uint16_t x) {
    ((struct head *)h)->arg = x;
}
static void on_u32(void *h, uint32_t x) {
    ((struct head *)h)->arg = x;
}
static void on_u64(void *h, uint64_t x) {
    ((struct head *)h)->arg = x;
}
static void on_float(void *h, float x) {
    ((struct head *)h)->d = (double)x;
}
static void on_double(void *h, double x) {
    ((struct head *)h)->d = x;
}

/* Only integers and floats are ever shown to libcbor; the rest is filled in because it calls without looking. */
static const struct cbor_callbacks callbacks = {
    .uint8 = on_u8,
    .uint16 = on_u16,
    .uint32 = on_u32,
    .uint64 = on_u64,
    .negint8 = cbor_null_negint8_callback,
    .negint16 = cbor_null_negint16_callback,
    .negint32 = cbor_null_negint32_callback,
    .negint64 = cbor_null_negint64_callback,
    .byte_string_start = cbor_null_byte_string_start_callback,
    .byte_string = cbor_null_byte_string_callback,
    .string = cbor_null_string_callback,
    .string_start = cbor_null_string_start_callback,
    .indef_array_start = cbor_null_indef_array_start_callback,
    .array_start = cbor_null_array_start_callback,
    .indef_map_start = cbor_null_indef_map_start_callback,
    .map_start = cbor_null_map_start_callback,
    .tag = cbor_null_tag_callback,
    .float2 = on_float,
    .float4 = on_float,
    .float8 = on_double,
    .undefined = cbor_null_undefined_callback,
    .null = cbor_null_null_callback,
    .boolean = cbor_null_boolean_callback,
    .indef_break = cbor_null_indef_break_callback,
};

int head_get_long(const uint8_t *p, size_t n, struct head *h) {
    uint8_t info = p[0] & 31;
    h->major = p[0] >> 5;
    h->info = info;
    if (info == HEAD_INDEFINITE) { /* integers and tags have no indefinite form */
        h->len = 1;
        h->arg = 0;
        return h->major == HEAD_UINT || h->major == HEAD_NEG || h->major == HEAD_TAG ? MOYAI_EDATA : 0;
    }
    if (info > 27) return MOYAI_EDATA; /* reserved */
    size_t len = 1 + ((size_t)1 << (info - 24));
    if (len > n) return MOYAI_EDATA;
    h->len = (uint8_t)len;
    uint8_t as[HEAD_MAX];
    memcpy(as, p, len);
    bool is_float = h->major == HEAD_SIMPLE && info > 24;
    if (!is_float) as[0] = info; /* an unsigned integer with the same argument */
    struct cbor_decoder_result r = cbor_stream_decode(as, len, &callbacks, h);
    if (r.status != CBOR_DECODER_FINISHED || r.read != len) return MOYAI_EDATA;
    if (h->major == HEAD_SIMPLE && info == 24 && h->arg < 32) return MOYAI_EDATA; /* has a one-byte form only */
    return 0;
}

void head_put_sized(uint8_t *to, enum head_major major, uint64_t arg, size_t size) {
    size_t put = 1;
    switch (size) {
    case 1:
        to[0] = (uint8_t)arg;
        break;
    case 2: /* cbor_encode_uint8 would take the short form where there is one */
        to[0] = 24;
        to[1] = (uint8_t)arg;
        put = 2;
        break;
    case 3:
        put = cbor_encode_uint16((uint16_t)arg, to, HEAD_MAX);
        break;
    case 5:
        put = cbor_encode_uint32((uint32_t)arg, to, HEAD_MAX);
        break;
    case 9:
        put = cbor_encode_uint64(arg, to, HEAD_MAX);
        break;
    }
    assert(put == size && head_size(arg) <= size);
    (void)put;
    to[0] = (uint8_t)(to[0] | major << 5);
}

size_t head_put_long(uint8_t *to, enum head_major major, uint64_t arg) {
    size_t size = head_size(arg);
    head_put_sized(to, major, arg, size);
    return size;
}

size_t head_put_float(uint8_t *to, float x) {
    return cbor_encode_single(x, to, HEAD_MAX);
}
size_t head_put_double(uint8_t *to, double x) {
    return cbor_encode_double(x, to, HEAD_MAX);
}
