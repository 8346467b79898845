/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dur.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void durations(void **state) {
    (void)state;
    static const struct {
        moyai_dur d;
        const char *text;
    } all[] = {
        {INT64_MIN, "0 s"},
        {-1, "0 s"},
        {0, "0 s"},
        {1, "1 ns"},
        {999, "999 ns"},
        {1500, "1.5 us"},
        {MOYAI_MS - 1, "1000 us"},
        {MOYAI_MS, "1 ms"},
        {50 * MOYAI_MS, "50 ms"},
        {1234567, "1.235 ms"},
        {MOYAI_SEC, "1 s"},
        {3 * MOYAI_SEC / 2, "1.5 s"},
        {90 * MOYAI_SEC, "90 s"},
        {599 * MOYAI_SEC, "599 s"},
        {600 * MOYAI_SEC, "10 min"},
        {5400 * MOYAI_SEC, "90 min"},
        {7200 * MOYAI_SEC, "2 h"},
        {36 * 3600 * MOYAI_SEC, "36 h"},
        {7 * 86400 * MOYAI_SEC, "7 days"},
        {MOYAI_FOREVER - 1, "106752 days"},
        {MOYAI_FOREVER, "forever"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) assert_string_equal(DUR(all[i].d), all[i].text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(durations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
