/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame.h"

#include "base/rng.h"
#include "wire/cursor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void bytes_are_as_specified(void **state) {
    (void)state;
    const struct frame_head h = {
        .type = 16, .class_ = FRAME_BULK, .hops = 7, .label = 0x04030201, .length = 0x000f4240};
    const uint8_t want[FRAME_HEAD] = {1, 16, 2, 7, 1, 2, 3, 4, 0x40, 0x42, 0x0f, 0, 0, 0, 0, 0};
    uint8_t got[FRAME_HEAD];
    frame_put_head(got, &h);
    assert_memory_equal(got, want, FRAME_HEAD);
    struct frame_head back;
    assert_int_equal(frame_get_head(got, &back, NULL), 0);
    assert_int_equal(back.type, 16);
    assert_int_equal(back.class_, FRAME_BULK);
    assert_int_equal(back.hops, 7);
    assert_int_equal(back.label, 0x04030201);
    assert_int_equal(back.length, 0x000f4240);
}

static void wrong_heads_are_refused_and_touch_nothing(void **state) {
    (void)state;
    static const struct {
        uint8_t at, byte;
        int code;
        const char *text;
    } cases[] = {
        {0, 0, MOYAI_EVERSION, "version 0"},
        {0, 2, MOYAI_EVERSION, "version 2"},
        {0, 255, MOYAI_EVERSION, "version 255"},
        {2, 3, MOYAI_EPROTO, "class 3"},
        {2, 255, MOYAI_EPROTO, "class 255"},
        {10, 0x11, MOYAI_ETOOBIG, "1114113 bytes"},
        {11, 0xff, MOYAI_ETOOBIG, "limit is 1048576"},
        {12, 1, MOYAI_EPROTO, "reserved"},
        {13, 1, MOYAI_EPROTO, "reserved"},
        {14, 1, MOYAI_EPROTO, "reserved"},
        {15, 0x80, MOYAI_EPROTO, "reserved"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct frame_head h = {.type = FRAME_PING, .length = 1}, back = {.label = 99};
        struct moyai_error e;
        uint8_t b[FRAME_HEAD];
        frame_put_head(b, &h);
        b[cases[i].at] = cases[i].byte;
        assert_int_equal(frame_get_head(b, &back, &e), cases[i].code);
        assert_int_equal(e.code, cases[i].code);
        assert_non_null(strstr(e.text, cases[i].text));
        assert_int_equal(back.label, 99);
        assert_int_equal(frame_get_head(b, &back, NULL), cases[i].code);
    }
}

static void the_largest_length_is_taken(void **state) {
    (void)state;
    struct frame_head h = {.type = 1, .length = FRAME_MAX}, back;
    uint8_t b[FRAME_HEAD];
    frame_put_head(b, &h);
    assert_int_equal(frame_get_head(b, &back, NULL), 0);
    h.length++;
    frame_put_head(b, &h);
    assert_int_equal(frame_get_head(b, &back, NULL), MOYAI_ETOOBIG);
}

static void cursors_stop_at_the_end_and_stay_stopped(void **state) {
    (void)state;
    uint8_t b[15] = {0};
    struct cursor_out o = cursor_out(b, sizeof b);
    cursor_put_u8(&o, 1);
    cursor_put_u16(&o, 0x0302);
    cursor_put_u32(&o, 0x07060504);
    cursor_put_u64(&o, 0x0f0e0d0c0b0a0908);
    assert_false(o.bad);
    assert_int_equal(cursor_written(&o), 15);
    for (size_t i = 0; i < 15; i++) assert_int_equal(b[i], i + 1);
    cursor_put_u8(&o, 9);
    assert_true(o.bad);

    struct cursor_in c = cursor_in(b, sizeof b);
    assert_int_equal(cursor_get_u8(&c), 1);
    assert_int_equal(cursor_get_u16(&c), 0x0302);
    assert_int_equal(cursor_get_u32(&c), 0x07060504);
    assert_false(cursor_done(&c));
    assert_int_equal(cursor_get_u64(&c), 0x0f0e0d0c0b0a0908);
    assert_true(cursor_done(&c));

    c = cursor_in(b, 5);
    assert_int_equal(cursor_get_u64(&c), 0); /* too long: from here on nothing is read */
    assert_int_equal(cursor_get_u8(&c), 0);
    assert_int_equal(cursor_left(&c), 5);
    assert_true(c.bad);
    assert_false(cursor_done(&c));
    assert_null(cursor_get_bytes(&c, 0));

    o = cursor_out(b, 5);
    cursor_put_bytes(&o, "123456", 6);
    cursor_put_u8(&o, 0xee);
    assert_int_equal(cursor_written(&o), 0);
    assert_int_equal(b[0], 1);
    c = cursor_in(b, sizeof b);
    assert_null(cursor_get_bytes(&c, SIZE_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_as_specified),
        cmocka_unit_test(wrong_heads_are_refused_and_touch_nothing),
        cmocka_unit_test(the_largest_length_is_taken),
        cmocka_unit_test(cursors_stop_at_the_end_and_stay_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
