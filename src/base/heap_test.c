/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heap.h"

#include "base/rng.h"
#include "tests/support/alloc.h"

#include <moyai/error.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct item {
    int number;
    uint64_t key, order; /* as the model sees them */
    size_t place;
};

static void check(const struct heap *h) {
    for (size_t i = 0; i < h->n; i++) {
        assert_int_equal(*h->v[i].place, i);
        if (i > 0) {
            const struct heap_entry *up = &h->v[(i - 1) / 2];
            assert_true(up->key < h->v[i].key || (up->key == h->v[i].key && up->seq < h->v[i].seq));
        }
    }
}

static struct item *pop(struct heap *h) {
    size_t *place = heap_first(h, NULL);
    if (!place) return NULL;
    heap_remove(h, place);
    return HEAP_ITEM(place, struct item, place);
}

static void equal_keys_leave_as_they_came(void **state) {
    (void)state;
    struct heap h = {0};
    struct item items[300];
    assert_null(heap_first(&h, NULL));
    for (int i = 0; i < 300; i++) {
        items[i] = (struct item){.number = i, .key = (uint64_t)(i % 3), .place = HEAP_OUT};
        assert_int_equal(heap_push(&h, items[i].key, &items[i].place), 0);
    }
    heap_move(&h, &items[0].place, 0); /* behind its equals now */
    uint64_t key;
    assert_non_null(heap_first(&h, &key));
    assert_int_equal(key, 0);
    for (int k = 0; k < 3; k++) {
        for (int i = k ? k : 3; i < 300; i += 3) assert_int_equal(pop(&h)->number, i);
        if (k == 0) assert_int_equal(pop(&h)->number, 0);
    }
    assert_null(pop(&h));
    heap_remove(&h, &items[5].place); /* not in: nothing happens */
    heap_done(&h);
}

/* Random pushes, removals and moves against a plain search for the smallest. */
static void it_agrees_with_a_search(void **state) {
    struct moyai_rng rng;
    rng_seed(&rng, *(uint64_t *)*state);
    enum { N = 200 };
    struct item items[N];
    struct heap h = {0};
    uint64_t order = 0;
    for (int i = 0; i < N; i++) items[i] = (struct item){.number = i, .place = HEAP_OUT};
    for (int turn = 0; turn < 20000; turn++) {
        struct item *it = &items[rng_below(&rng, N)];
        if (it->place == HEAP_OUT) {
            it->key = rng_below(&rng, 50);
            it->order = order++;
            assert_int_equal(heap_push(&h, it->key, &it->place), 0);
        } else if (rng_below(&rng, 3)) {
            it->key = rng_below(&rng, 50);
            it->order = order++;
            heap_move(&h, &it->place, it->key);
        } else {
            heap_remove(&h, &it->place);
            assert_int_equal(it->place, HEAP_OUT);
        }
        struct item *best = NULL;
        size_t n = 0;
        for (int i = 0; i < N; i++) {
            if (items[i].place == HEAP_OUT) continue;
            n++;
            if (!best || items[i].key < best->key || (items[i].key == best->key && items[i].order < best->order)) {
                best = &items[i];
            }
        }
        assert_int_equal(n, h.n);
        assert_ptr_equal(heap_first(&h, NULL), best ? &best->place : NULL);
        if (turn % 100 == 0) check(&h);
    }
    heap_done(&h);
    for (int i = 0; i < N; i++) assert_int_equal(items[i].place, HEAP_OUT);
}

static void without_memory_nothing_changes(void **state) {
    (void)state;
    struct heap h = {0};
    static struct item items[100];
    for (int i = 0; i < 100; i++) items[i].place = HEAP_OUT;
    alloc_arm(1, ALLOC_ONE);
    assert_int_equal(heap_push(&h, 1, &items[0].place), MOYAI_ENOMEM);
    alloc_disarm();
    assert_int_equal(items[0].place, HEAP_OUT);
    assert_int_equal(heap_reserve(&h, 100), 0);
    alloc_arm(1, ALLOC_ALL);
    for (int i = 0; i < 100; i++) assert_int_equal(heap_push(&h, 1, &items[i].place), 0);
    assert_int_equal(alloc_disarm(), 0); /* reserved: none was needed */
    heap_done(&h);
}

int main(void) {
    static uint64_t seed;
    if (rng_system(&seed, sizeof seed) < 0) return 1;
    if (getenv("MOYAI_TEST_SEED")) seed = strtoull(getenv("MOYAI_TEST_SEED"), NULL, 0);
    printf("# MOYAI_TEST_SEED=%llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_keys_leave_as_they_came),
        cmocka_unit_test_prestate(it_agrees_with_a_search, &seed),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
