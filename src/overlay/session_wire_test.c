/* SPDX-License-Identifier: Apache-2.0 */
/* Session frames as bytes: each kind there and back, the layout byte by byte, and what is refused. */
#include "overlay/session_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static struct session_chunk got_chunks[SESSION_CHUNKS];

static int get(enum session_frame_kind kind, const uint8_t *p, size_t n, struct session_frame *f, size_t *head) {
    struct moyai_error e = {0};
    f->chunks = got_chunks;
    int rc = session_wire_get((uint8_t)(FRAME_SESSION + kind), p, n, f, head, &e);
    if (rc) {
        assert_int_equal(rc, e.code);
        assert_true(strlen(e.text) > 10);
    }
    return rc;
}

static void same_frame(const struct session_frame *f, const struct session_frame *g) {
    assert_int_equal(f->kind, g->kind);
    assert_int_equal(f->id, g->id);
    assert_int_equal(f->path, g->path);
    assert_int_equal(f->seq, g->seq);
    assert_int_equal(f->ack, g->ack);
    assert_int_equal(f->stream, g->stream);
    assert_int_equal(f->allowed, g->allowed);
    assert_int_equal(f->n_chunks, g->n_chunks);
    for (uint32_t i = 0; i < f->n_chunks; i++) assert_memory_equal(&f->chunks[i], &g->chunks[i], sizeof *f->chunks);
}

static void test_plain(void **state) {
    (void)state;
    const struct {
        struct session_frame f;
        size_t n;
    } all[] = {
        {{.kind = SESSION_OPEN, .id = 0x8877665544332211, .path = 0xa4a3a2a1}, 16},
        {{.kind = SESSION_ACCEPT, .id = 1, .path = 2}, 16},
        {{.kind = SESSION_RESUME, .id = 1, .path = 3, .ack = UINT64_MAX}, 24},
        {{.kind = SESSION_RESUMED, .id = 1, .path = 4, .ack = 0x0102030405060708}, 24},
        {{.kind = SESSION_REFUSE, .id = UINT64_MAX}, 8},
        {{.kind = SESSION_CLOSE, .id = 1, .path = 5, .ack = 9}, 24},
        {{.kind = SESSION_CLOSED, .id = 1, .path = 6, .ack = 0}, 24},
        {{.kind = SESSION_ACK, .id = 1, .path = UINT32_MAX, .ack = 77}, 24},
        {{.kind = SESSION_GRANT, .id = 1, .path = 8, .ack = 5, .stream = 0xfffefdfc, .allowed = 0xf8f7f6f5f4f3f2f1},
         32},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct session_frame *f = &all[i].f;
        uint8_t buf[40];
        memset(buf, 0xee, sizeof buf);
        assert_int_equal(session_wire_head_size(f), all[i].n);
        session_wire_put_head(buf, f);
        assert_int_equal(buf[all[i].n], 0xee);
        struct session_frame g;
        size_t head = 0;
        assert_int_equal(get(f->kind, buf, all[i].n, &g, &head), 0);
        assert_int_equal(head, all[i].n);
        same_frame(f, &g);
        assert_int_equal(get(f->kind, buf, all[i].n - 1, &g, &head), MOYAI_EPROTO);
        assert_int_equal(get(f->kind, buf, all[i].n + 1, &g, &head), MOYAI_EPROTO);
        assert_int_equal(get(f->kind, buf, 0, &g, &head), MOYAI_EPROTO);
        if (f->kind == SESSION_GRANT || f->kind == SESSION_REFUSE) continue;
        buf[12] = 1;
        assert_int_equal(get(f->kind, buf, all[i].n, &g, &head), MOYAI_EPROTO);
    }
    struct session_frame g = {.chunks = got_chunks};
    size_t head;
    static const uint8_t none[24];
    static const uint8_t types[] = {0, FRAME_SESSION - 1, FRAME_SESSION_LAST + 1, 255};
    for (size_t i = 0; i < sizeof types; i++) {
        assert_int_equal(session_wire_get(types[i], none, 24, &g, &head, NULL), MOYAI_EPROTO);
        assert_int_equal(session_wire_get(types[i], none, 0, &g, &head, NULL), MOYAI_EPROTO);
    }
}

static void test_layout(void **state) {
    (void)state;
    struct session_chunk c[] = {
        {.stream = 0, .flags = SESSION_BEGIN | SESSION_END, .len = 3},
        {.stream = 0x01020304, .flags = SESSION_BEGIN, .len = 0x020304, .total = 0x1112131415161718},
        {.stream = 2, .flags = SESSION_ABORT, .len = 1},
    };
    const struct session_frame f = {.kind = SESSION_DATA,
                                    .id = 0x0a0b0c0d0e0f0102,
                                    .path = 0x01020304,
                                    .seq = 5,
                                    .ack = 0x0600,
                                    .n_chunks = 3,
                                    .chunks = c};
    static const uint8_t expected[] = {
        0x02, 0x01, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a,
        4,    3,    2,    1,    3,    0,    0,    0, /* id, path, chunks */
        0,    6,    0,    0,    0,    0,    0,    0,
        5,    0,    0,    0,    0,    0,    0,    0, /* ack, seq */
        0,    0,    0,    0,    3,    0,    0,    3, /* chunk */
        4,    3,    2,    1,    4,    3,    2,    1,
        0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* chunk, total */
        2,    0,    0,    0,    1,    0,    0,    4,    /* chunk */
    };
    static uint8_t buf[sizeof expected + 3 + 0x020304 + 1];
    assert_int_equal(session_wire_head_size(&f), sizeof expected);
    memset(buf, 0xee, sizeof expected + 16);
    session_wire_put_head(buf, &f);
    assert_memory_equal(buf, expected, sizeof expected);
    for (size_t i = 0; i < 16; i++) assert_int_equal(buf[sizeof expected + i], 0xee);

    struct session_frame g;
    size_t head;
    assert_int_equal(get(SESSION_DATA, buf, sizeof buf, &g, &head), 0);
    assert_int_equal(head, sizeof expected);
    same_frame(&f, &g);
    for (size_t n = 0; n < sizeof expected; n++) assert_int_equal(get(SESSION_DATA, buf, n, &g, &head), MOYAI_EPROTO);
    assert_int_equal(get(SESSION_DATA, buf, sizeof buf - 1, &g, &head), MOYAI_EPROTO);
    for (size_t n = 0; n < sizeof expected + 3; n++) {
        bool all = session_wire_peek(FRAME_SESSION + SESSION_DATA, buf, n, sizeof buf, &g, &head);
        assert_int_equal(all, n >= sizeof expected);
        if (all) same_frame(&f, &g);
        assert_false(session_wire_peek(FRAME_SESSION + SESSION_DATA, buf, n, sizeof buf - 1, &g, &head));
    }
    buf[39] = 8; /* an unknown flag */
    assert_int_equal(get(SESSION_DATA, buf, sizeof buf, &g, &head), MOYAI_EPROTO);
    buf[39] = 3;
    buf[14] = 1;
    assert_int_equal(get(SESSION_DATA, buf, sizeof buf, &g, &head), MOYAI_EPROTO);
    buf[14] = 0;
    buf[12] = 0; /* no chunk */
    assert_int_equal(get(SESSION_DATA, buf, 32, &g, &head), MOYAI_EPROTO);
    buf[12] = 3;
    buf[36] = 0; /* an empty chunk */
    assert_int_equal(get(SESSION_DATA, buf, sizeof buf - 3, &g, &head), MOYAI_EPROTO);
    buf[36] = 3;
    assert_int_equal(get(SESSION_DATA, buf, sizeof buf, &g, &head), 0);
}

/* The last thing in the head is a total; and what is said of bytes that are missing. */
static void test_edges(void **state) {
    (void)state;
    struct session_chunk c = {.stream = 1, .flags = SESSION_BEGIN, .len = 5, .total = 9};
    const struct session_frame f = {.kind = SESSION_DATA, .id = 1, .path = 1, .n_chunks = 1, .chunks = &c};
    uint8_t buf[48 + 5] = {0};
    struct session_frame g = {.chunks = got_chunks};
    size_t head;
    session_wire_put_head(buf, &f);
    for (size_t have = 0; have <= sizeof buf; have++)
        assert_int_equal(session_wire_peek(FRAME_SESSION + SESSION_DATA, buf, have, sizeof buf, &g, &head), have >= 48);
    struct moyai_error e = {0};
    assert_int_equal(session_wire_get(FRAME_SESSION + SESSION_DATA, buf, sizeof buf - 2, &g, &head, &e), MOYAI_EPROTO);
    assert_string_equal(e.text, "session data: chunks of 5 bytes in all, but 3 are there");
}

static void test_many(void **state) {
    (void)state;
    static struct session_chunk c[SESSION_CHUNKS];
    static uint8_t buf[SESSION_WIRE_HEAD_MAX + SESSION_CHUNKS + 9];
    for (uint32_t i = 0; i < SESSION_CHUNKS; i++)
        c[i] = (struct session_chunk){.stream = i + 1, .flags = SESSION_BEGIN, .len = 1, .total = i};
    struct session_frame f = {.kind = SESSION_DATA, .id = 1, .path = 1, .n_chunks = SESSION_CHUNKS, .chunks = c}, g;
    size_t head;
    assert_int_equal(session_wire_head_size(&f), SESSION_WIRE_HEAD_MAX);
    session_wire_put_head(buf, &f);
    assert_int_equal(get(SESSION_DATA, buf, SESSION_WIRE_HEAD_MAX + SESSION_CHUNKS, &g, &head), 0);
    assert_int_equal(head, SESSION_WIRE_HEAD_MAX);
    same_frame(&f, &g);
    buf[12] = 1; /* 513 */
    assert_int_equal(get(SESSION_DATA, buf, sizeof buf, &g, &head), MOYAI_EPROTO);
    /* lengths beyond 32 bits together are summed without wrapping */
    for (uint32_t i = 0; i < SESSION_CHUNKS; i++) c[i] = (struct session_chunk){.stream = 1, .len = 0xffffff};
    session_wire_put_head(buf, &f);
    assert_int_equal(get(SESSION_DATA, buf, sizeof buf, &g, &head), MOYAI_EPROTO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests_name("session_wire", tests, NULL, NULL);
}
