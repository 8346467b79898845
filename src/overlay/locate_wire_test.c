/* SPDX-License-Identifier: Apache-2.0 */
/* Locating frames as bytes: each field at its place, there and back, and what is refused. */
#include "overlay/locate_testkit.h"

static void hex(const uint8_t *p, size_t n, char *text) {
    for (size_t i = 0; i < n; i++) (void)sprintf(text + 2 * i, "%02x", p[i]);
}

/* Ids of 16 equal bytes, so that places can be read. */
static void fill(uint8_t id[16], uint8_t b) {
    memset(id, b, 16);
}

struct vector {
    const char *bytes;
    struct locate_frame f;
};

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "cccccccccccccccccccccccccccccccc"
#define D "dddddddddddddddddddddddddddddddd"

static void test_vectors(void **state) {
    (void)state;
    static struct vector v[] = {
        {"02000000"
         "05000000"
         "44332211" A "8877665544332211"
         "3f000000"
         "00000000" B "0000000000000000",
         {.kind = LOCATE_NEIGHBOURS,
          .n = 2,
          .slots = {{.slot = 5, .cost = 0x11223344, .host = 0x1122334455667788}, {.slot = 63}}}},
        {"02000000"
         "05000000" A B "3f000000" B A,
         {.kind = LOCATE_NAMES, .key_kind = LOCATE_NAME, .n = 2, .slots = {{.slot = 5}, {.slot = 63}}}},
        {"01080200"
         "44332211"
         "8877665544332211" A,
         {.kind = LOCATE_REQUEST,
          .key_kind = LOCATE_NAME,
          .ttl = 8,
          .flags = 2,
          .wait = 0x11223344,
          .nonce = 0x1122334455667788}},
        {"02080200"
         "44332211"
         "8877665544332211" A B C,
         {.kind = LOCATE_REQUEST,
          .key_kind = LOCATE_CLAIM,
          .ttl = 8,
          .flags = 2,
          .wait = 0x11223344,
          .nonce = 0x1122334455667788}},
        {"010405c8"
         "44332211" A B C,
         {.kind = LOCATE_REPLY, .key_kind = LOCATE_NAME, .status = 4, .hops = 5, .age = 200, .cost = 0x11223344}},
        {"00050100"
         "00000000" A B C,
         {.kind = LOCATE_REPLY, .key_kind = LOCATE_NODE, .status = 5, .hops = 1}},
        {"02000000" A, {.kind = LOCATE_BUSY, .key_kind = LOCATE_CLAIM}},
        {"01020000"
         "44332211" A,
         {.kind = LOCATE_EVIDENCE, .how = 1, .ttl = 2, .wait = 0x11223344}},
        {"03010000"
         "01000000" A,
         {.kind = LOCATE_EVIDENCE, .how = 3, .ttl = 1, .wait = 1}},
        {"0c000000" A D B C, {.kind = LOCATE_LOST, .ttl = 12}},
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        struct locate_frame *f = &v[i].f, got;
        uint8_t bytes[LOCATE_WIRE_MAX];
        char text[2 * LOCATE_WIRE_MAX + 1];
        bool slots = f->kind == LOCATE_NEIGHBOURS || f->kind == LOCATE_NAMES;
        if (!slots) fill(f->key, 0xaa);
        if ((f->kind == LOCATE_REQUEST && f->key_kind == LOCATE_CLAIM) || f->kind == LOCATE_REPLY ||
            f->kind == LOCATE_LOST) {
            fill(f->owner, 0xbb);
            fill(f->object, 0xcc);
        }
        if (f->kind == LOCATE_LOST) fill(f->dest, 0xdd);
        if (slots) fill(f->slots[0].id, 0xaa);
        if (slots) fill(f->slots[1].id, 0xbb);
        if (f->kind == LOCATE_NAMES) fill(f->slots[0].object, 0xbb);
        if (f->kind == LOCATE_NAMES) fill(f->slots[1].object, 0xaa);
        size_t n = locate_wire_put(bytes, f);
        hex(bytes, n, text);
        assert_string_equal(text, v[i].bytes);
        memset(&got, 0, sizeof got);
        uint8_t type = (uint8_t)(FRAME_LOCATE + f->kind);
        assert_int_equal(locate_wire_get(type, bytes, n, &got, NULL), 0);
        assert_memory_equal(&got, f, sizeof got);
        for (size_t k = 0; k < n; k++) { /* cut off, and with one byte too many */
            struct moyai_error e = {0};
            assert_int_equal(locate_wire_get(type, bytes, k, &got, &e), MOYAI_EPROTO);
            assert_true(e.text[0] != 0);
        }
        assert_int_equal(locate_wire_get(type, bytes, n + 1, &got, NULL), MOYAI_EPROTO);
    }
}

static void test_digest(void **state) {
    (void)state;
    static struct locate_frame f = {.kind = LOCATE_DIGESTED}, got;
    uint8_t bytes[LOCATE_WIRE_MAX], type = FRAME_LOCATE + LOCATE_DIGESTED;
    for (uint32_t i = 0; i < LOCATE_DIGEST; i++) f.digest[i] = (uint8_t)(i * 7);
    assert_int_equal(locate_wire_put(bytes, &f), 4 + LOCATE_DIGEST);
    assert_memory_equal(bytes, "\x0d\0\0\0\0\x07\x0e", 7);
    assert_int_equal(locate_wire_get(type, bytes, 4 + LOCATE_DIGEST, &got, NULL), 0);
    assert_memory_equal(&f, &got, sizeof f);
    assert_int_equal(locate_wire_get(type, bytes, 3 + LOCATE_DIGEST, &got, NULL), MOYAI_EPROTO);
    assert_int_equal(locate_wire_get(type, bytes, 5 + LOCATE_DIGEST, &got, NULL), MOYAI_EPROTO);
    for (uint8_t bits = 0; bits < 64; bits++) { /* no other size yet */
        bytes[0] = bits;
        int rc = locate_wire_get(type, bytes, 4 + LOCATE_DIGEST, &got, NULL);
        assert_int_equal(rc, bits == 13 ? 0 : MOYAI_EPROTO);
    }
    bytes[0] = 13;
    for (size_t at = 1; at < 4; at++) {
        bytes[at] = 1;
        assert_int_equal(locate_wire_get(type, bytes, 4 + LOCATE_DIGEST, &got, NULL), MOYAI_EPROTO);
        bytes[at] = 0;
    }
}

static void refused(uint8_t kind, size_t at, uint8_t value, size_t n) {
    uint8_t bytes[LOCATE_WIRE_MAX + 36] = {0};
    struct locate_frame f;
    if (kind <= LOCATE_NAMES) bytes[0] = 1;
    if (n > 1000) bytes[0] = LOCATE_SLOTS + 1;
    if (n < 1000) assert_int_equal(locate_wire_get((uint8_t)(FRAME_LOCATE + kind), bytes, n, &f, NULL), 0);
    bytes[at] |= value;
    struct moyai_error e = {0};
    assert_int_equal(locate_wire_get((uint8_t)(FRAME_LOCATE + kind), bytes, n, &f, &e), MOYAI_EPROTO);
    assert_true(e.text[0] != 0);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        uint8_t kind, used;
        size_t n;
    } all[] = {{LOCATE_NEIGHBOURS, 1, 36}, {LOCATE_NAMES, 1, 40},    {LOCATE_REQUEST, 3, 32}, {LOCATE_REPLY, 4, 56},
               {LOCATE_BUSY, 1, 20},       {LOCATE_EVIDENCE, 2, 24}, {LOCATE_LOST, 1, 68}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t at = all[i].used; at < 4; at++) refused(all[i].kind, at, 0x80, all[i].n);
    for (size_t at = 5; at < 8; at++) {
        refused(LOCATE_NEIGHBOURS, at, 1, 36);
        refused(LOCATE_NAMES, at, 1, 40);
    }
    refused(LOCATE_NEIGHBOURS, 0, 0, 4 + (LOCATE_SLOTS + 1) * 32);
    refused(LOCATE_NAMES, 0, 0, 4 + (LOCATE_SLOTS + 1) * 36);
    struct locate_frame f;
    uint8_t bytes[64] = {0};
    assert_int_equal(locate_wire_get(FRAME_LOCATE - 1, bytes, 20, &f, NULL), MOYAI_EPROTO);
    assert_int_equal(locate_wire_get(FRAME_LOCATE_LAST + 1, bytes, 20, &f, NULL), MOYAI_EPROTO);
    assert_int_equal(locate_wire_get(FRAME_LOCATE + LOCATE_BUSY, bytes, 20, &f, NULL), 0);
}

/* As many as there can be. */
static void test_largest(void **state) {
    (void)state;
    static struct locate_frame f = {.kind = LOCATE_NAMES, .key_kind = LOCATE_NAME, .n = LOCATE_SLOTS}, got;
    uint8_t bytes[LOCATE_WIRE_MAX];
    for (uint32_t i = 0; i < LOCATE_SLOTS; i++) f.slots[i].slot = i;
    assert_int_equal(locate_wire_put(bytes, &f), LOCATE_WIRE_MAX);
    assert_int_equal(locate_wire_get(FRAME_LOCATE + LOCATE_NAMES, bytes, sizeof bytes, &got, NULL), 0);
    assert_memory_equal(&f, &got, sizeof f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_digest),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
