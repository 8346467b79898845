/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/met.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void says(const struct met *m, bool nobody, const char *text) {
    char out[512];
    assert_int_equal(met_nobody(m, out, sizeof out), nobody);
    assert_string_equal(out, text);
}

/* What is wrong with places goes before what was seen there; who has met somebody has not met nobody. */
static void tells_why_nobody_was_met(void **state) {
    (void)state;
    struct met m = {0};
    size_t a = met_add(&m, "http://a/g"), b = met_add(&m, "b:1");
    says(&m, false, "");
    assert_true(met_tell(&m, a, -1, "no answer"));
    assert_false(met_tell(&m, a, -1, "no answer"));
    says(&m, true, "http://a/g: no answer");
    assert_true(met_foreign(&m, b, 2));
    assert_false(met_foreign(&m, b, 3));
    says(&m, true, "http://a/g: no answer; b:1: 3 entries there are sealed with another key");
    m.others = true;
    says(&m, false, "http://a/g: no answer; b:1: 3 entries there are sealed with another key");
    assert_true(met_tell(&m, a, 0, ""));
    assert_false(met_foreign(&m, b, 0));
    says(&m, false, "");
}

/* Clocks that differ: said once, and where nothing else is known of. */
static void tells_of_clocks(void **state) {
    (void)state;
    struct met m = {0};
    size_t a = met_add(&m, "http://a/g");
    assert_true(met_ahead(&m, 70));
    assert_false(met_ahead(&m, 71));
    says(&m, false,
         "an entry there seems to be made 71 s from now, and is not believed: this host's clock is behind, or the "
         "other's "
         "ahead");
    const uint8_t id[16] = {0xab, 0xcd, 0xef, 0x01};
    met_dial_failed(&m, id, "refused");
    says(&m, false, "cannot connect to node abcdef01: refused");
    assert_true(met_tell(&m, a, -1, "no answer"));
    says(&m, true, "no answer");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_why_nobody_was_met),
        cmocka_unit_test(tells_of_clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
