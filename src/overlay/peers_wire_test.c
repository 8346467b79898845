/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the peers protocol as bytes. */
#include "overlay/peers_testkit.h"

static int get(uint32_t kind, const uint8_t *p, size_t n) {
    struct peers_frame f;
    struct moyai_error e = {0};
    int rc = peers_wire_get((uint8_t)(FRAME_PEERS + kind), p, n, &f, &e);
    if (rc) assert_true(e.code == rc && e.text[0]);
    return rc;
}

static void test_bytes(void **state) {
    (void)state;
    struct peers_frame f = {
        .kind = PEERS_OFFER, .what = PEERS_LINE, .flags = PEERS_ACCEPTS | PEERS_LAST, .count = 0x102};
    f.n = 1;
    f.e[0] = at_site(0x304, UINT64_C(0x1122334455667788), true);
    f.e[0].lifetime = 0x50a;
    static const uint8_t expected[] = {
        0x02, 0x01, 3,    2,    1,    0,    0,    0, /* count flags what n zero */
        3,    4,    0,    0,    0,    0,    0,    0,    0,   0,   0,   0,   0, 0,   0,   1, /* id */
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,                                     /* site */
        0x0a, 0x05, 1,    0,    10,   0,    5,    'h',  'o', 's', 't', ':', 3, 'a', ':', '1'};
    uint8_t out[PEERS_WIRE_MAX];
    assert_int_equal(peers_wire_size(&f), sizeof expected);
    peers_wire_put(out, &f);
    assert_memory_equal(out, expected, sizeof expected);
    struct peers_frame g;
    assert_int_equal(peers_wire_get(FRAME_PEERS, out, sizeof expected, &g, NULL), 0);
    assert_true(g.kind == f.kind && g.what == f.what && g.flags == f.flags && g.count == f.count && g.n == 1);
    assert_true(g.e[0].site == f.e[0].site && g.e[0].accepts && g.e[0].lifetime == 0x50a && g.e[0].n_text == 10);
    assert_int_equal(number(&g.e[0].id), 0x304);
    for (size_t n = 0; n < sizeof expected; n++) assert_int_equal(get(PEERS_OFFER, out, n), MOYAI_EPROTO);
    out[sizeof expected] = 0;
    assert_int_equal(get(PEERS_OFFER, out, sizeof expected + 1), MOYAI_EPROTO);
    for (size_t i = 5; i < 8; i++) {
        out[i] = 1;
        assert_int_equal(get(PEERS_OFFER, out, sizeof expected), MOYAI_EPROTO);
        out[i] = 0;
    }
    out[8 + 27] = 1;
    assert_int_equal(get(PEERS_OFFER, out, sizeof expected), MOYAI_EPROTO);
    out[8 + 27] = 0;
    out[8 + 26] = 2;
    assert_int_equal(get(PEERS_OFFER, out, sizeof expected), MOYAI_EPROTO);
    out[8 + 26] = 4;
    assert_int_equal(get(PEERS_OFFER, out, sizeof expected), MOYAI_EPROTO);
    out[8 + 26] = 3;
    assert_int_equal(peers_wire_get(FRAME_PEERS, out, sizeof expected, &g, NULL), 0);
    assert_true(g.e[0].accepts && g.e[0].reached);
    uint8_t again[sizeof expected];
    peers_wire_put(again, &g);
    assert_memory_equal(again, out, sizeof expected);
    out[8 + 26] = 0;
    assert_int_equal(get(PEERS_OFFER, out, sizeof expected), 0);
    out[8 + 24] = 0x10; /* 3600 s is the most */
    out[8 + 25] = 0x0e;
    assert_int_equal(get(PEERS_OFFER, out, sizeof expected), 0);
    out[8 + 24] = 0x11;
    assert_int_equal(get(PEERS_OFFER, out, sizeof expected), MOYAI_EPROTO);
}

/* What each kind may have: flags, values, endpoints. */
static void test_shapes(void **state) {
    (void)state;
    static const struct {
        uint32_t flags, what, least, most;
    } shapes[PEERS_FRAMES] = {{3, 3, 1, 1}, {1, 1, 1, 1}, {0, 5, 0, 3},  {0, 1, 1, 16}, {0, 1, 1, 16}, {4, 1, 0, 0},
                              {0, 1, 0, 0}, {0, 5, 0, 0}, {0, 1, 0, 16}, {0, 1, 0, 16}, {0, 1, 1, 1},  {0, 1, 1, 1}};
    uint8_t p[8 + 17 * 30];
    for (uint32_t kind = 0; kind < PEERS_FRAMES; kind++) {
        for (uint32_t n = 0; n <= 17; n++) {
            memset(p, 0, sizeof p);
            p[4] = (uint8_t)n;
            bool ok = n >= shapes[kind].least && n <= shapes[kind].most;
            assert_int_equal(get(kind, p, 8 + n * 30), ok ? 0 : MOYAI_EPROTO);
            for (uint32_t v = 0; ok && v < 256; v++) {
                p[2] = (uint8_t)v;
                assert_int_equal(get(kind, p, 8 + n * 30), v & ~shapes[kind].flags ? MOYAI_EPROTO : 0);
                p[2] = 0;
                p[3] = (uint8_t)v;
                assert_int_equal(get(kind, p, 8 + n * 30), v < shapes[kind].what ? 0 : MOYAI_EPROTO);
                p[3] = 0;
            }
        }
    }
    static const uint8_t other[] = {0, FRAME_PEERS - 1, FRAME_PEERS_LAST + 1, 255};
    struct peers_frame f;
    assert_int_equal(FRAME_PEERS + PEERS_FRAMES - 1, FRAME_PEERS_LAST);
    for (size_t i = 0; i < sizeof other; i++) assert_int_equal(peers_wire_get(other[i], p, 8, &f, NULL), MOYAI_EPROTO);
}

static void test_addresses(void **state) {
    (void)state;
    uint8_t text[PEERS_TEXT + 80];
    uint32_t n = 0;
    char longest[66], out[PEERS_ADDRESS + 1];
    memset(longest, 'x', 65);
    longest[65] = 0;
    assert_false(peers_address_put(text, 100, &n, ""));
    assert_false(peers_address_put(text, 100, &n, longest));
    assert_false(peers_address_put(text, 100, &n, "a b"));
    assert_false(peers_address_put(text, 100, &n, "a\x7f"));
    assert_false(peers_address_put(text, 3, &n, "a:1"));
    assert_int_equal(n, 0);
    assert_true(peers_address_put(text, 4, &n, "a:1"));
    assert_false(peers_address_put(text, 4, &n, "b"));
    assert_false(peers_address_put(text, 3, &n, "b"));
    assert_true(peers_address_put(text, PEERS_TEXT, &n, longest + 1));
    assert_true(peers_address_put(text, PEERS_TEXT, &n, "!~"));
    for (int i = 0; i < 5; i++) assert_true(peers_address_put(text, PEERS_TEXT, &n, "c:1"));
    assert_false(peers_address_put(text, PEERS_TEXT, &n, "d:9"));
    assert_true(peers_addresses_ok(text, n));
    const struct peers_endpoint e = {.n_text = n, .text = text};
    assert_true(peers_address_get(&e, 0, out));
    assert_string_equal(out, "a:1");
    assert_true(peers_address_get(&e, 1, out));
    assert_string_equal(out, longest + 1);
    assert_true(peers_address_get(&e, 7, out));
    assert_string_equal(out, "c:1");
    assert_false(peers_address_get(&e, 8, out));
    assert_false(peers_addresses_ok(text, n - 1));
    text[n] = 1;
    text[n + 1] = 'x';
    assert_false(peers_addresses_ok(text, n + 2)); /* a ninth */
    assert_false(peers_addresses_ok((const uint8_t *)"\0", 1));
    assert_false(peers_addresses_ok((const uint8_t *)"\1 ", 2));
    assert_true(peers_addresses_ok(NULL, 0));
    memset(text, 'x', sizeof text);
    for (uint32_t i = 0; i < 8; i++) text[i * 65] = 64;
    assert_false(peers_addresses_ok(text, 8 * 65)); /* 520 bytes */
    text[7 * 65] = 56;
    assert_true(peers_addresses_ok(text, 512));
    text[0] = 65;
    assert_false(peers_addresses_ok(text, 66));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests_name("peers wire", tests, NULL, NULL);
}
