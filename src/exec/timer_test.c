/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/timer.h"

#include "exec/testing.h"

enum { N = 200 };

/* Against a plain array: the earliest of what is set, the first set among equals. */
struct model {
    struct timers heap;
    struct exec_timer t[N];
    uint64_t set_at[N]; /* 0: not set */
    uint64_t clock;
};

static int model_first(const struct model *m) {
    int best = -1;
    for (int i = 0; i < N; i++) {
        if (!m->set_at[i]) continue;
        if (best < 0 || m->t[i].when < m->t[best].when ||
            (m->t[i].when == m->t[best].when && m->set_at[i] < m->set_at[best]))
            best = i;
    }
    return best;
}

static uint64_t next(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 33;
}

static void step(struct model *m, uint64_t *rnd) {
    int i = (int)(next(rnd) % N);
    switch (next(rnd) % 4) {
    case 0:
    case 1:
        timers_set(&m->heap, &m->t[i], next(rnd) % 50);
        m->set_at[i] = ++m->clock;
        break;
    case 2:
        timers_clear(&m->heap, &m->t[i]);
        m->set_at[i] = 0;
        break;
    case 3: {
        int first = model_first(m);
        moyai_ns now = next(rnd) % 60;
        struct exec_timer *t = timers_take_due(&m->heap, now, SIZE_MAX);
        if (first < 0 || m->t[first].when > now) {
            assert_null(t);
            break;
        }
        assert_ptr_equal(t, &m->t[first]);
        assert_false(timer_is_set(t));
        m->set_at[first] = 0;
        break;
    }
    }
    int first = model_first(m);
    assert_ptr_equal(m->heap.root, first < 0 ? NULL : &m->t[first]);
}

static void test_against_model(void **state) {
    (void)state;
    struct model *m = calloc(1, sizeof *m);
    for (int i = 0; i < N; i++) exec_timer_init(&m->t[i], NULL);
    uint64_t rnd = 42;
    for (int i = 0; i < FIBER_SCALE(100000, 50000, 5000); i++) step(m, &rnd);
    free(m);
}

static void test_drains_in_order(void **state) {
    (void)state;
    enum { MANY = 5000 };
    struct exec_timer *t = calloc(MANY, sizeof *t);
    struct timers h = {0};
    uint64_t rnd = 7;
    for (int i = 0; i < MANY; i++) {
        exec_timer_init(&t[i], NULL);
        timers_set(&h, &t[i], next(&rnd) % 1000);
    }
    moyai_ns last = 0;
    for (int i = 0; i < MANY; i++) {
        struct exec_timer *d = timers_take_due(&h, UINT64_MAX, SIZE_MAX);
        assert_non_null(d);
        assert_true(d->when >= last);
        last = d->when;
    }
    assert_null(h.root);
    free(t);
}

int main(void) {
    hang_guard();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_model),
        cmocka_unit_test(test_drains_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
