/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the death protocol as bytes. */
#include "overlay/death_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static int get(uint32_t kind, const uint8_t *p, size_t n) {
    struct death_frame f;
    struct moyai_error e = {0};
    int rc = death_wire_get((uint8_t)(FRAME_DEATH + kind), p, n, &f, &e);
    if (rc) assert_true(rc == MOYAI_EPROTO && e.code == rc && e.text[0]);
    return rc;
}

#define ID(n)                                                                                                          \
    {                                                                                                                  \
        { n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n }                                                             \
    }

static void test_bytes(void **state) {
    (void)state;
    struct death_frame f = {.kind = DEATH_ENDED, .subject = ID(7), .seq = 0x0102, .host = UINT64_C(0x1122334455667788)};
    f.subject_host = 9;
    f.n = 2;
    f.m[0] = (struct death_member){ID(1), 3};
    f.m[1] = (struct death_member){ID(2), UINT64_C(0xff00000000000004)};
    static const uint8_t expected[] = {
        7, 0, 0, 0, 0, 0, 0, 0, 0,    0,    0,    0,    0,    0,    0,    7,    /* subject */
        2, 1, 0, 0, 0, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* seq, host */
        9, 0, 0, 0, 0, 0, 0, 0, 2,    0,    0,    0,    0,    0,    0,    0,    /* subject's host, n, zero */
        1, 0, 0, 0, 0, 0, 0, 0, 0,    0,    0,    0,    0,    0,    0,    1,    3, 0, 0, 0, 0, 0, 0, 0,
        2, 0, 0, 0, 0, 0, 0, 0, 0,    0,    0,    0,    0,    0,    0,    2,    4, 0, 0, 0, 0, 0, 0, 0xff};
    uint8_t out[DEATH_WIRE_MAX + 1];
    struct death_frame g;
    assert_int_equal(death_wire_size(&f), sizeof expected);
    death_wire_put(out, &f);
    assert_memory_equal(out, expected, sizeof expected);
    assert_int_equal(death_wire_get(FRAME_DEATH, out, sizeof expected, &g, NULL), 0);
    assert_true(g.kind == DEATH_ENDED && g.seq == 0x102 && g.host == f.host && g.subject_host == 9 && g.n == 2);
    assert_memory_equal(g.m, f.m, 2 * sizeof *f.m);
    assert_memory_equal(&g.subject, &f.subject, 16);
    for (size_t n = 0; n < sizeof expected; n++) assert_int_equal(get(DEATH_ENDED, out, n), MOYAI_EPROTO);
    assert_int_equal(get(DEATH_ENDED, out, sizeof expected + 1), MOYAI_EPROTO);
    for (size_t i = 42; i < 48; i++) {
        out[i] = 1;
        assert_int_equal(get(DEATH_ENDED, out, sizeof expected), MOYAI_EPROTO);
        out[i] = 0;
    }
    f.n = DEATH_MEMBERS;
    assert_int_equal(death_wire_size(&f), DEATH_WIRE_MAX);
    death_wire_put(out, &f);
    assert_int_equal(get(DEATH_ENDED, out, DEATH_WIRE_MAX), 0);
    uint8_t more[DEATH_WIRE_MAX + 24];
    memcpy(more, out, DEATH_WIRE_MAX);
    memset(more + DEATH_WIRE_MAX, 0, 24);
    more[40] = DEATH_MEMBERS + 1;
    assert_int_equal(get(DEATH_ENDED, more, sizeof more), MOYAI_EPROTO);

    for (uint32_t kind = DEATH_ALIVE; kind <= DEATH_NONE; kind++) {
        f = (struct death_frame){.kind = (enum death_frame_kind)kind, .subject = ID(7), .seq = 5, .host = 6};
        assert_int_equal(death_wire_size(&f), 32);
        death_wire_put(out, &f);
        assert_int_equal(death_wire_get((uint8_t)(FRAME_DEATH + kind), out, 32, &g, NULL), 0);
        assert_true(g.kind == f.kind && g.seq == 5 && g.host == 6 && g.n == 0 && g.subject_host == 0);
        assert_int_equal(get(kind, out, 31), MOYAI_EPROTO);
        assert_int_equal(get(kind, out, 33), MOYAI_EPROTO);
    }
    f = (struct death_frame){.kind = DEATH_DEAD, .subject = ID(7), .cause = DEATH_EXIT, .number = 255, .hops = 1};
    static const uint8_t dead[] = {7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 1, 1, 0, 0, 255, 0, 0, 0};
    death_wire_put(out, &f);
    assert_int_equal(death_wire_size(&f), sizeof dead);
    assert_memory_equal(out, dead, sizeof dead);
    assert_int_equal(death_wire_get(FRAME_DEATH + DEATH_DEAD, out, 24, &g, NULL), 0);
    assert_true(g.cause == DEATH_EXIT && g.number == 255 && g.hops == 1 && g.seq == 0 && g.host == 0);
    static const struct { uint8_t at, value; } bad[] = {{16, 2}, {17, DEATH_CAUSES}, {18, 1}, {19, 1}};
    for (size_t i = 0; i < 4; i++) {
        death_wire_put(out, &f);
        out[bad[i].at] = bad[i].value;
        assert_int_equal(get(DEATH_DEAD, out, 24), MOYAI_EPROTO);
    }
    /* Nobody dies of a signal that there cannot be, nor with such a status. */
    static const struct {
        uint32_t cause, number;
        bool good;
    } numbers[] = {{DEATH_SIGNAL, 0, false},   {DEATH_SIGNAL, 1, true},           {DEATH_SIGNAL, 127, true},
                   {DEATH_SIGNAL, 128, false}, {DEATH_SIGNAL, 0xc57c8c12, false}, {DEATH_EXIT, 0, true},
                   {DEATH_EXIT, 256, false},   {DEATH_EXIT, 0x01000000, false},   {DEATH_LINKS, 0, true},
                   {DEATH_LINKS, 1, false},    {DEATH_REFUSED, 0, true},          {DEATH_REFUSED, 1, false},
                   {DEATH_OTHER, 0, true},     {DEATH_OTHER, 0x01020304, false}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        f.cause = numbers[i].cause;
        f.number = numbers[i].number;
        death_wire_put(out, &f);
        assert_int_equal(get(DEATH_DEAD, out, 24), numbers[i].good ? 0 : MOYAI_EPROTO);
    }
    f.kind = DEATH_LEFT; /* has no cause */
    death_wire_put(out, &f);
    assert_int_equal(get(DEATH_LEFT, out, 24), 0);
    f.cleared = 1;
    death_wire_put(out, &f);
    assert_int_equal(death_wire_get(FRAME_DEATH + DEATH_LEFT, out, 24, &g, NULL), 0);
    assert_true(out[17] == 1 && g.cleared == 1 && g.cause == 0 && g.hops == 1);
    out[17] = 0;
    assert_int_equal(death_wire_get(FRAME_DEATH + DEATH_LEFT, out, 24, &g, NULL), 0);
    assert_int_equal(g.cleared, 0);
    for (uint8_t i = 17; i < 24; i++) {
        out[i] = 1 + (i == 17);
        assert_int_equal(get(DEATH_LEFT, out, 24), MOYAI_EPROTO);
        out[i] = 0;
    }
    assert_int_equal(get(DEATH_LEFT, out, 25), MOYAI_EPROTO);
    static const uint8_t other[] = {0, FRAME_DEATH - 1, FRAME_DEATH_LAST + 1, 255};
    assert_int_equal(FRAME_DEATH + DEATH_FRAMES - 1, FRAME_DEATH_LAST);
    for (size_t i = 0; i < 4; i++) assert_int_equal(death_wire_get(other[i], out, 24, &g, NULL), MOYAI_EPROTO);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests_name("death wire", tests, NULL, NULL);
}
