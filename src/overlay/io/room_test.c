/* SPDX-License-Identifier: Apache-2.0 */
/* There are no more places than descriptors. */
#include "overlay/io/room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static struct room room(uint64_t files, uint32_t degree, bool lines) {
    struct overlay_cfg c = {.files = files, .degree = degree, .grid_file = lines ? "grid" : NULL};
    struct room r = {0};
    struct moyai_error why = {0};
    assert_int_equal(room_of(&r, &c, &why), 0);
    return r;
}

static void is(struct room r, uint32_t degree, uint32_t most, uint32_t rescue, uint32_t half) {
    assert_int_equal(r.degree, degree);
    assert_int_equal(r.most, most);
    assert_int_equal(r.rescue, rescue);
    assert_int_equal(r.half, half);
}

static void enough(void **state) {
    (void)state;
    is(room(0, 0, false), 15, 45, 207, 256);
    is(room(0, 0, true), 15, 45, 199, 256);
    is(room(20000, 0, false), 15, 45, 207, 256);
    is(room(544, 0, false), 15, 45, 207, 256);
    is(room(320, 0, false), 15, 45, 207, 32);
}

static void few(void **state) {
    (void)state;
    is(room(319, 0, false), 15, 45, 206, 32);
    is(room(256, 0, false), 15, 45, 143, 32);
    is(room(256, 0, true), 15, 45, 135, 32);
    is(room(114, 0, false), 15, 45, 1, 32);
    is(room(113, 0, false), 15, 44, 1, 32);
    is(room(84, 0, false), 15, 15, 1, 32);
    is(room(1, 0, false), 15, 15, 1, 16); /* it will not get far, and says of what it is short */
    is(room(76, 1, false), 1, 3, 5, 32);
    for (uint64_t files = 84; files < 600; files++) {
        struct room r = room(files, 0, false);
        assert_true(r.most + 4 + r.rescue <= 256 && r.most + 4 + r.rescue + r.half + 32 <= files);
    }
}

static void too_many(void **state) {
    (void)state;
    struct overlay_cfg c = {.degree = 65};
    struct room r;
    struct moyai_error why = {0};
    assert_int_equal(room_of(&r, &c, &why), MOYAI_EINVAL);
    assert_non_null(strstr(why.text, "65 links are too many"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(enough), cmocka_unit_test(few), cmocka_unit_test(too_many)};
    return cmocka_run_group_tests_name("room", tests, NULL, NULL);
}
