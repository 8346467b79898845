/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/lock.h"

#include "exec/testing.h"

#include <pthread.h>

enum { THREADS = 4 };

struct shared {
    struct lock lock;
    long count; /* under the lock */
    long each;
    atomic_bool stop;
};

static void *counter(void *arg) {
    struct shared *s = arg;
    for (long i = 0; i < s->each; i++) {
        lock_take(&s->lock);
        s->count++;
        lock_release(&s->lock);
    }
    return NULL;
}

static void test_counts(void **state) {
    (void)state;
    struct shared s = {.each = FIBER_SCALE(200000, 20000, 2000)};
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, counter, &s);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    assert_int_equal(s.count, THREADS * s.each);
    assert_false(lock_is_held(&s.lock));
    assert_int_equal(atomic_load(&s.lock.waiting), 0);
}

/* Somebody who holds the lock nearly always and steps back once a turn lets the others in. */
static void *greedy(void *arg) {
    struct shared *s = arg;
    lock_take(&s->lock);
    while (!atomic_load(&s->stop)) {
        unsigned seen;
        bool crowded = lock_pass(&s->lock, &seen);
        lock_retake(&s->lock, crowded, seen);
    }
    lock_release(&s->lock);
    return NULL;
}

static void test_stepping_back(void **state) {
    (void)state;
    struct shared s = {.each = FIBER_SCALE(500, 200, 50)};
    pthread_t g, t[THREADS];
    pthread_create(&g, NULL, greedy, &s);
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, counter, &s);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    atomic_store(&s.stop, true);
    pthread_join(g, NULL);
    assert_int_equal(s.count, THREADS * s.each);
}

static void test_futex_timeout(void **state) {
    (void)state;
    atomic_uint word = 1;
    futex_wait(&word, 0, UINT64_MAX); /* differs: returns */
    futex_wait(&word, 1, 1000000);    /* the time passes */
    moyai_ns t = boot_ns();
    while (boot_ns() - t < 2000000) futex_wait(&word, 1, 500000);
    assert_int_equal(atomic_load(&word), 1);
}

int main(void) {
    hang_guard();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_stepping_back),
        cmocka_unit_test(test_futex_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
