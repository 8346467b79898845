/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of the frames of paths, and their words. */
#include "overlay/relay_testkit.h"
#include "overlay/relay_wire.h"

static void goes(const struct relay_frame *f, uint8_t type, uint8_t hops, const char *hex) {
    struct frame_head h;
    uint8_t p[RELAY_WIRE_MAX];
    relay_wire_put(&h, p, f);
    assert_int_equal(h.type, type);
    assert_int_equal(h.class_, FRAME_CONTROL);
    assert_int_equal(h.hops, hops);
    assert_int_equal(h.label, f->label);
    assert_int_equal(h.length, strlen(hex) / 2);
    assert_int_equal(h.length, relay_wire_size(f->kind));
    for (uint32_t i = 0; i < h.length; i++) {
        char byte[3];
        snprintf(byte, sizeof byte, "%02x", p[i]);
        assert_memory_equal(byte, hex + 2 * i, 2);
    }
    struct relay_frame g;
    assert_int_equal(relay_wire_get(&h, p, &g, NULL), 0);
    assert_memory_equal(&g, f, sizeof g);
}

static void test_bytes(void **state) {
    (void)state;
    struct relay_frame f;
    memset(&f, 0, sizeof f);
    f.kind = RELAY_PATH;
    f.label = 0x01020304;
    f.hops = 7;
    f.amount = 0x0a0b0c0d;
    f.id = UINT64_C(0x1122334455667788);
    f.to = node(3);
    f.from = node(4);
    goes(&f, 32, 7,
         "03000000000000000000000000000001"
         "04000000000000000000000000000001"
         "88776655443322110d0c0b0a00000000");
    memset(&f, 0, sizeof f);
    f.kind = RELAY_ERROR;
    f.label = 5;
    f.code = RELAY_REFUSED;
    f.node = node(8);
    goes(&f, 33, 1, "080000000000000000000000000000010900000000000000");
    static const struct {
        enum relay_kind kind;
        uint8_t type;
        const char *hex;
    } rest[] = {{RELAY_CREDIT, 34, "0d0c0b0a"},
                {RELAY_CLOSE, 35, ""},
                {RELAY_BLOCKED, 36, ""},
                {RELAY_TAKE, 37, "0d0c0b0a"},
                {RELAY_GIVE, 38, "0d0c0b0a"}};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        memset(&f, 0, sizeof f);
        f.kind = rest[i].kind;
        f.label = 6;
        if (rest[i].hex[0]) f.amount = 0x0a0b0c0d;
        goes(&f, rest[i].type, 1, rest[i].hex);
    }
    assert_int_equal(relay_wire_size(RELAY_KINDS), 0);
}

static void bad(struct frame_head h, const uint8_t *p, const char *text) {
    struct relay_frame f;
    struct moyai_error e = {0};
    assert_int_equal(relay_wire_get(&h, p, &f, &e), MOYAI_EPROTO);
    if (!strstr(e.text, text)) fail_msg("\"%s\" does not say \"%s\"", e.text, text);
}

static void test_refused(void **state) {
    (void)state;
    uint8_t p[RELAY_WIRE_MAX] = {0};
    bad((struct frame_head){.type = 31, .label = 1}, p, "type 31");
    bad((struct frame_head){.type = 39, .label = 1}, p, "type 39");
    for (uint8_t type = 32; type <= 38; type++) {
        struct frame_head h = {.type = type, .label = 1};
        h.length = (uint32_t)relay_wire_size((enum relay_kind)(type - 32)) + 1;
        bad(h, p, "expected");
        h.length -= 1;
        h.label = 0;
        bad(h, p, "label");
        h.label = 1;
        if (h.length == 0) continue;
        h.length -= 1;
        bad(h, p, "expected");
    }
    for (int i = 44; i < 48; i++) {
        p[i] = 1;
        bad((struct frame_head){.type = 32, .label = 1, .length = 48}, p, "reserved");
        p[i] = 0;
    }
    bad((struct frame_head){.type = 33, .label = 1, .length = 24}, p, "code 0");
    p[16] = RELAY_CODES;
    bad((struct frame_head){.type = 33, .label = 1, .length = 24}, p, "code 11");
    p[16] = 1;
    for (int i = 17; i < 24; i++) {
        p[i] = 1;
        bad((struct frame_head){.type = 33, .label = 1, .length = 24}, p, "reserved");
        p[i] = 0;
    }
}

static void test_text(void **state) {
    (void)state;
    for (int k = 0; k <= RELAY_CODES; k++) assert_non_null(relay_code_text((enum relay_code)k));
    assert_string_equal(relay_code_text(RELAY_CODES), "unknown");
    assert_string_equal(relay_code_text(RELAY_REFUSED), "refused");
    char text[8] = "abc";
    relay_frame_text(text, sizeof text, &F(CLOSE, .label = 123456));
    assert_string_equal(text, "abcCLOS");
    relay_frame_text(text, sizeof text, &F(CLOSE, .label = 123456));
    assert_string_equal(text, "abcCLOS");
    text[0] = 0;
    relay_frame_text(text, sizeof text, &(struct relay_frame){.kind = RELAY_KINDS});
    assert_string_equal(text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
