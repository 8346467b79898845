/* SPDX-License-Identifier: Apache-2.0 */
/* Entries as bytes, and how long they are believed. */
#include "overlay/peers_entry.h"
#include "overlay/peers_testkit.h"

static void test_bytes(void **state) {
    (void)state;
    struct peers_entry in = {.made = 0x1122334455667788, .e = at_site(0x304, 7, true)}, got;
    in.e.lifetime = PEERS_ENTRY_LIFETIME;
    uint8_t out[PEERS_ENTRY_MAX + 1], again[PEERS_ENTRY_MAX];
    size_t n = peers_entry_put(out, &in);
    static const uint8_t head[] = {1, 0, 0, 0, 0, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    assert_memory_equal(out, head, sizeof head);
    assert_int_equal(peers_entry_get(out, n, &got), 0);
    assert_true(got.made == in.made && id_equal(got.e.id.b, in.e.id.b) && got.e.site == 7 && got.e.accepts);
    assert_int_equal(got.e.lifetime, 600);
    assert_int_equal(peers_entry_put(again, &got), n);
    assert_memory_equal(again, out, n);
    for (size_t i = 0; i < n; i++) assert_int_equal(peers_entry_get(out, i, &got), MOYAI_EDATA);
    assert_int_equal(peers_entry_get(out, n + 1, &got), MOYAI_EDATA);
    for (size_t i = 1; i < 20; i++) { /* zero bytes, the sign of the time, what an OFFER has besides */
        if (i >= 8 && i < 15) continue;
        uint8_t was = out[i];
        out[i] = 0x81;
        assert_int_equal(peers_entry_get(out, n, &got), MOYAI_EDATA);
        out[i] = was;
    }
    out[0] = 2;
    assert_int_equal(peers_entry_get(out, n, &got), MOYAI_EVERSION);
    out[0] = 0;
    assert_int_equal(peers_entry_get(out, n, &got), MOYAI_EVERSION);
}

static void test_time(void **state) {
    (void)state;
    struct peers_entry e = {.made = 1000, .e = {.lifetime = 600}};
    static const struct {
        int64_t now, left;
    } of[] = {{1000, 600},    {1001, 599}, {1599, 1},  {1600, 0},  {99999, 0},
              {INT64_MAX, 0}, {999, 600},  {940, 600}, {939, -61}, {0, -1000}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) assert_int_equal(peers_entry_left(&e, of[i].now), of[i].left);
    e.made = INT64_MAX;
    assert_int_equal(peers_entry_left(&e, 0), -INT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
