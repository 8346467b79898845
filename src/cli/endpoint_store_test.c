/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/endpoint_store.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct endpoint_limits limits = {.grids = 3, .entries = 200, .bytes = 1 << 20};
static uint8_t out[ENDPOINT_SAMPLE * (18 + ENDPOINT_ENTRY_MAX)];

static struct endpoint_store *store(const struct endpoint_limits *l) {
    struct endpoint_store *s;
    assert_int_equal(endpoint_store_new(&s, l, 7), 0);
    return s;
}

static void id_of(uint8_t id[16], unsigned i) {
    memset(id, 0, 16);
    memcpy(id, &i, sizeof i);
}

static int put_made(struct endpoint_store *s, const char *grid, unsigned i, size_t n, int64_t made, moyai_ns until,
                    moyai_ns now) {
    static uint8_t bytes[ENDPOINT_ENTRY_MAX + 1];
    uint8_t id[16];
    struct moyai_error e = {0};
    memset(bytes, (int)i, n);
    id_of(id, i);
    int rc = endpoint_put(s, grid, id, bytes, n, made, until, now, &e);
    assert_int_equal(rc != 0, e.text[0] != 0);
    return rc;
}

static int put(struct endpoint_store *s, const char *grid, unsigned i, size_t n, moyai_ns until, moyai_ns now) {
    return put_made(s, grid, i, n, 0, until, now);
}

static int withdraw(struct endpoint_store *s, const char *grid, unsigned i, int64_t made, moyai_ns until,
                    moyai_ns now) {
    uint8_t id[16];
    struct moyai_error e = {0};
    id_of(id, i);
    int rc = endpoint_withdraw(s, grid, id, made, until, now, &e);
    assert_int_equal(rc != 0, e.text[0] != 0);
    return rc;
}

/* How many entries an answer has; each must be what was put. seen[id]++. */
static unsigned look(struct endpoint_store *s, const char *grid, size_t n, moyai_ns now, unsigned *seen) {
    size_t size = endpoint_sample(s, grid, n, now, out);
    unsigned count = 0;
    for (size_t at = 0; at < size; count++) {
        unsigned i;
        memcpy(&i, out + at, sizeof i);
        size_t len = out[at + 16] | (size_t)out[at + 17] << 8;
        for (size_t k = 0; k < len; k++) assert_int_equal(out[at + 18 + k], (uint8_t)i);
        at += 18 + len;
        assert_true(at <= size);
        if (seen) seen[i]++;
    }
    return count;
}

static void what_is_put_is_found_until_its_end(void **state) {
    (void)state;
    struct endpoint_store *s = store(&limits);
    assert_int_equal(look(s, "g", 10, 0, NULL), 0);
    assert_int_equal(put(s, "g", 1, 100, 50, 0), 0);
    assert_int_equal(put(s, "g", 2, ENDPOINT_ENTRY_MAX, 100, 0), 0);
    assert_int_equal(put(s, "h", 3, 1, 100, 0), 0);
    assert_int_equal(look(s, "g", 10, 49, NULL), 2);
    assert_int_equal(look(s, "g", 1, 49, NULL), 1);
    assert_int_equal(look(s, "g", 0, 49, NULL), 0);
    assert_int_equal(look(s, "h", 10, 49, NULL), 1);
    assert_int_equal(look(s, "g", 10, 50, NULL), 1);
    assert_int_equal(put(s, "g", 2, 7, 200, 50), 0); /* replaced */
    assert_int_equal(look(s, "g", 10, 150, NULL), 1);
    assert_int_equal(out[16], 7);
    size_t grids, entries, bytes;
    endpoint_count(s, &grids, &entries, &bytes);
    assert_int_equal(grids, 2);
    assert_int_equal(entries, 2);
    endpoint_sweep(s, 1000);
    endpoint_count(s, &grids, &entries, &bytes);
    assert_int_equal(grids + entries + bytes, 0);
    endpoint_store_free(s);
}

static void entries_are_deleted(void **state) {
    (void)state;
    struct endpoint_store *s = store(&limits);
    uint8_t id[16];
    for (unsigned i = 0; i < 100; i++) assert_int_equal(put(s, "g", i, 10 + i, 1000, 0), 0);
    for (unsigned i = 0; i < 100; i += 2) {
        id_of(id, i);
        endpoint_delete(s, "g", id);
        endpoint_delete(s, "g", id); /* fine */
        endpoint_delete(s, "nowhere", id);
    }
    unsigned seen[100] = {0};
    assert_int_equal(look(s, "g", 100, 0, seen), 50);
    for (unsigned i = 0; i < 100; i++) assert_int_equal(seen[i], i % 2);
    for (unsigned i = 1; i < 100; i += 2) {
        id_of(id, i);
        endpoint_delete(s, "g", id);
    }
    size_t grids, entries, bytes;
    endpoint_count(s, &grids, &entries, &bytes);
    assert_int_equal(grids + entries + bytes, 0);
    endpoint_store_free(s);
}

static void limits_hold(void **state) {
    (void)state;
    struct endpoint_store *s = store(&limits);
    static const char *const bad[] = {"", "a/b", "a b", "\xc3\xa9",
                                      "0123456789012345678901234567890123456789012345678901234567890123x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_int_equal(put(s, bad[i], 1, 1, 10, 0), MOYAI_EINVAL);
    assert_int_equal(put(s, "g", 1, 0, 10, 0), MOYAI_ETOOBIG);
    assert_int_equal(put(s, "g", 1, ENDPOINT_ENTRY_MAX + 1, 10, 0), MOYAI_ETOOBIG);
    assert_int_equal(put(s, "A.b-c_9", 1, 1, 10, 0), 0);
    assert_int_equal(put(s, "h", 1, 1, 20, 0), 0);
    assert_int_equal(put(s, "i", 1, 1, 20, 0), 0);
    assert_int_equal(put(s, "k", 1, 1, 20, 0), MOYAI_EAGAIN);
    assert_int_equal(put(s, "k", 1, 1, 20, 10), 0); /* the first grid's last entry has ended */
    for (unsigned i = 2; i <= 200; i++) assert_int_equal(put(s, "h", i, 1, i == 50 ? 15 : 20, 10), 0);
    assert_int_equal(put(s, "h", 201, 1, 20, 14), MOYAI_EAGAIN);
    assert_int_equal(put(s, "h", 7, 2, 30, 14), 0); /* one that is there */
    assert_int_equal(put(s, "h", 201, 1, 20, 15), 0);
    endpoint_store_free(s);
    /* Memory: also of what is replaced by something larger. */
    struct endpoint_limits small = {.grids = 100, .entries = 1000, .bytes = 20000};
    s = store(&small);
    unsigned n = 0;
    while (put(s, "g", n, 1000, 100, 0) == 0) n++;
    assert_in_range(n, 15, 20);
    assert_int_equal(put(s, "g", 0, 4000, 100, 0), MOYAI_EAGAIN);
    assert_int_equal(put(s, "g", 0, 500, 100, 0), 0);
    size_t grids, entries, bytes;
    endpoint_count(s, &grids, &entries, &bytes);
    assert_true(bytes <= 20000);
    assert_int_equal(put(s, "new", 0, 4000, 300, 200), 0);
    endpoint_store_free(s);
    endpoint_store_free(NULL);
}

/* Each has the same chance; the end of some does not shift that of others. */
static void samples_are_fair(void **state) {
    (void)state;
    struct endpoint_store *s = store(&limits);
    unsigned seen[200] = {0};
    for (unsigned i = 0; i < 200; i++) assert_int_equal(put(s, "g", i, 1 + i, i % 4 == 0 ? 5 : 1000, 0), 0);
    for (unsigned r = 0; r < 3000; r++) assert_int_equal(look(s, "g", 10, 5, seen), 10);
    for (unsigned i = 0; i < 200; i++) {
        if (i % 4 == 0)
            assert_int_equal(seen[i], 0);
        else
            assert_in_range(seen[i], 120, 280); /* 200 expected */
    }
    endpoint_store_free(s);
}

/* What was made earlier takes the place of nothing, be it there or taken back, in any grid. */
static void old_entries_do_not_come_back(void **state) {
    (void)state;
    struct endpoint_store *s = store(&limits);
    assert_int_equal(put_made(s, "g", 1, 5, 10, 100, 0), 0);
    assert_int_equal(put_made(s, "g", 1, 5, 10, 100, 1), 0); /* the same again */
    assert_int_equal(put_made(s, "g", 1, 6, 9, 100, 1), MOYAI_ESTATE);
    assert_int_equal(put_made(s, "g", 1, 7, 11, 100, 1), 0);
    assert_int_equal(withdraw(s, "g", 1, 10, 100, 2), MOYAI_ESTATE);
    assert_int_equal(look(s, "g", 10, 2, NULL), 1);
    assert_int_equal(out[16], 7);
    assert_int_equal(withdraw(s, "g", 1, 11, 100, 2), 0);
    assert_int_equal(withdraw(s, "g", 1, 5, 200, 2), 0); /* an old one again: no harm, and no longer */
    assert_int_equal(look(s, "g", 10, 2, NULL), 0);
    assert_int_equal(put_made(s, "g", 1, 7, 11, 100, 3), MOYAI_ESTATE);
    assert_int_equal(put_made(s, "h", 1, 7, 10, 100, 3), MOYAI_ESTATE);
    assert_int_equal(put_made(s, "g", 2, 7, 10, 100, 3), 0);
    assert_int_equal(put_made(s, "g", 1, 8, 12, 101, 3), 0); /* it has come back itself */
    assert_int_equal(look(s, "g", 10, 3, NULL), 2);
    assert_int_equal(withdraw(s, "x", 3, 50, 300, 3), 0); /* one that was never there */
    assert_int_equal(put_made(s, "g", 3, 1, 50, 300, 100), MOYAI_ESTATE);
    assert_int_equal(put_made(s, "g", 1, 7, 11, 300, 100), MOYAI_ESTATE); /* by the entry, not the memory */
    endpoint_sweep(s, 101);
    assert_int_equal(put_made(s, "g", 1, 7, 11, 300, 101), 0); /* its time is over */
    assert_int_equal(put_made(s, "g", 3, 1, 50, 400, 300), 0);
    endpoint_sweep(s, 1000);
    size_t grids, entries, bytes;
    endpoint_count(s, &grids, &entries, &bytes);
    assert_int_equal(grids + entries + bytes, 0);
    endpoint_store_free(s);
}

/* The clock was set back: what was made before that, and so seems to come from the future, stands in nobody's way; but
 * what was taken back does not come again by that. */
static void what_comes_from_the_future_gives_way(void **state) {
    (void)state;
    struct endpoint_store *s = store(&limits);
    assert_int_equal(put_made(s, "g", 1, 5, 3600, 100, 0), 0);
    assert_int_equal(put_made(s, "g", 2, 5, 3600, 100, 0), 0);
    assert_int_equal(withdraw(s, "g", 3, 3600, 100, 0), 0);
    endpoint_believe(s, 3600);
    assert_int_equal(put_made(s, "g", 1, 6, 3599, 100, 1), MOYAI_ESTATE);
    assert_int_equal(withdraw(s, "g", 2, 3599, 100, 1), MOYAI_ESTATE);
    endpoint_believe(s, 3599);
    assert_int_equal(put_made(s, "g", 1, 6, 10, 100, 1), 0);
    assert_int_equal(put_made(s, "g", 1, 7, 9, 100, 1), MOYAI_ESTATE);
    assert_int_equal(withdraw(s, "g", 2, 10, 100, 1), 0);
    assert_int_equal(put_made(s, "g", 2, 7, 10, 100, 1), MOYAI_ESTATE);
    assert_int_equal(put_made(s, "g", 3, 7, 10, 100, 1), MOYAI_ESTATE);
    assert_int_equal(look(s, "g", 10, 2, NULL), 1);
    assert_int_equal(out[16], 6);
    endpoint_store_free(s);
}

/* The last ones are remembered, as many as a grid may have nodes, and as long as no entry needs the memory. */
static void memory_of_the_gone_is_bounded(void **state) {
    (void)state;
    struct endpoint_store *s = store(&limits);
    size_t grids, entries, bytes, more;
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(withdraw(s, "g", i, 10, 1000, 0), 0);
        if (i == 199) endpoint_count(s, &grids, &entries, &bytes);
    }
    endpoint_count(s, &grids, &entries, &more);
    assert_int_equal(grids + entries, 0);
    assert_int_equal(more, bytes);
    assert_int_equal(put_made(s, "g", 799, 1, 10, 1000, 1), 0);
    assert_int_equal(put_made(s, "g", 800, 1, 10, 1000, 1), MOYAI_ESTATE);
    assert_int_equal(put_made(s, "g", 999, 1, 10, 1000, 1), MOYAI_ESTATE);
    endpoint_store_free(s);
    const struct endpoint_limits small = {.grids = 100, .entries = 1000, .bytes = 20000};
    s = store(&small);
    for (unsigned i = 0; i < 1000; i++) assert_int_equal(withdraw(s, "g", i, 10, 1000, 0), 0);
    endpoint_count(s, &grids, &entries, &bytes);
    assert_in_range(bytes, 10000, 20000);
    assert_int_equal(put_made(s, "g", 999, 1, 10, 1000, 1), MOYAI_ESTATE);
    unsigned n = 0;
    while (put_made(s, "g", n, 1000, 11, 1000, 1) == 0) n++;
    assert_in_range(n, 15, 20);
    endpoint_count(s, &grids, &entries, &bytes);
    assert_true(bytes <= 20000);
    endpoint_store_free(s);
}

/* A long random story against a plain list. */
static void stories(void **state) {
    (void)state;
    struct endpoint_store *s = store(&limits);
    struct moyai_rng rng;
    rng_seed(&rng, 11);
    struct {
        bool there;
        moyai_ns until;
    } want[64] = {0};
    for (moyai_ns now = 0; now < 20000; now++) {
        unsigned i = (unsigned)rng_below(&rng, 64);
        uint8_t id[16];
        id_of(id, i);
        switch (rng_below(&rng, 4)) {
        case 0:
        case 1:
            want[i].there = true;
            want[i].until = now + 1 + rng_below(&rng, 100);
            assert_int_equal(put(s, "g", i, 1 + rng_below(&rng, 200), want[i].until, now), 0);
            break;
        case 2:
            want[i].there = false;
            endpoint_delete(s, "g", id);
            break;
        default:
            if (rng_below(&rng, 10) == 0) endpoint_sweep(s, now);
        }
        unsigned seen[64] = {0};
        (void)look(s, "g", 64, now, seen);
        for (unsigned k = 0; k < 64; k++) assert_int_equal(seen[k], want[k].there && want[k].until > now);
    }
    endpoint_store_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_found_until_its_end),
        cmocka_unit_test(entries_are_deleted),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(samples_are_fair),
        cmocka_unit_test(old_entries_do_not_come_back),
        cmocka_unit_test(what_comes_from_the_future_gives_way),
        cmocka_unit_test(memory_of_the_gone_is_bounded),
        cmocka_unit_test(stories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
