/* SPDX-License-Identifier: Apache-2.0 */
/* What a home remembers of moves that the other may ask about still: how long it is waited for, and what goes when
 * there is too much. */
#include "object/astray.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = ASTRAY_MOST };

static struct world {
    moyai_node n;
    moyai_ns now, due; /* due: 0: the timer is not set */
    void (*fn)(struct exec *x, struct exec_timer *t);
    unsigned attention;
} w;

static const uint8_t A[16] = {1, 1}, B[16] = {1, 2};

/* ---- the layer ------------------------------------------------------------------------------- */

moyai_ns __wrap_moyai_now(void);
moyai_ns __wrap_moyai_now(void) {
    return w.now;
}
void exec_timer_init(struct exec_timer *t, void (*fn)(struct exec *x, struct exec_timer *t)) {
    assert_ptr_equal(t, &w.n.astray_timer);
    t->index = SIZE_MAX;
    w.fn = fn;
}
void exec_timer_set(struct exec *x, struct exec_timer *t, moyai_ns due) {
    (void)x;
    t->index = 0;
    w.due = due;
}
void exec_timer_unset(struct exec *x, struct exec_timer *t) {
    (void)x;
    t->index = SIZE_MAX;
    w.due = 0;
}
void exec_attention(struct exec *x) {
    (void)x;
    w.attention++;
}

static void pass(moyai_ns d) {
    w.now += d;
    if (!w.due || w.due > w.now) return;
    exec_timer_unset(NULL, &w.n.astray_timer);
    w.fn(NULL, &w.n.astray_timer);
}

static int open_world(void **state) {
    (void)state;
    w = (struct world){.now = 1000 * (moyai_ns)MOYAI_SEC};
    return 0;
}

static int close_world(void **state) {
    (void)state;
    astray_done(&w.n);
    assert_int_equal(astray_waits(&w.n), 0);
    assert_int_equal(w.due, 0);
    return 0;
}

static const uint8_t *object(unsigned k) {
    static uint8_t id[16];
    id[0] = (uint8_t)k;
    id[15] = 1;
    return id;
}

static void knows(unsigned k, enum astray what, uint64_t number, const uint8_t *by) {
    const uint8_t *other = NULL;
    assert_int_equal(astray_find(&w.n, what, object(k), &other), number);
    assert_int_equal(astray_find(&w.n, what, object(k), NULL), number);
    if (by)
        assert_memory_equal(other, by, 16);
    else
        assert_null(other);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void the_latest_of_each_kind_is_known(void **state) {
    (void)state;
    knows(0, ASTRAY_GIVEN, 0, NULL);
    astray_note(&w.n, ASTRAY_GIVEN, object(0), 3, A, false);
    astray_note(&w.n, ASTRAY_DROPPED, object(0), 5, B, false);
    astray_note(&w.n, ASTRAY_GIVEN, object(1), 7, B, false);
    knows(0, ASTRAY_GIVEN, 3, A);
    knows(0, ASTRAY_DROPPED, 5, B);
    knows(1, ASTRAY_GIVEN, 7, B);
    knows(1, ASTRAY_DROPPED, 0, NULL);
    astray_note(&w.n, ASTRAY_GIVEN, object(0), 9, B, false);
    knows(0, ASTRAY_GIVEN, 9, B);
    astray_over(&w.n, object(0)); /* it is here: neither counts any more, of it alone */
    knows(0, ASTRAY_GIVEN, 0, NULL);
    knows(0, ASTRAY_DROPPED, 0, NULL);
    knows(1, ASTRAY_GIVEN, 7, B);
    assert_int_equal(astray_waits(&w.n), 0);
    assert_int_equal(w.due, 0);
    assert_int_equal(w.attention, 0);
}

/* The node does not leave till then; and it looks whether it may as soon as none is left. */
static void who_may_ask_soon_is_waited_for(void **state) {
    (void)state;
    astray_note(&w.n, ASTRAY_GIVEN, object(0), 1, A, true);
    astray_note(&w.n, ASTRAY_DROPPED, object(1), 1, A, true);
    astray_note(&w.n, ASTRAY_GIVEN, object(2), 1, A, false);
    assert_int_equal(astray_waits(&w.n), 2);
    astray_asked(&w.n, ASTRAY_DROPPED, object(0)); /* of the other kind, */
    astray_asked(&w.n, ASTRAY_GIVEN, object(2));   /* or not waited for */
    astray_asked(&w.n, ASTRAY_GIVEN, object(9));
    assert_int_equal(astray_waits(&w.n), 2);
    astray_asked(&w.n, ASTRAY_GIVEN, object(0));
    astray_asked(&w.n, ASTRAY_GIVEN, object(0));
    assert_int_equal(astray_waits(&w.n), 1);
    knows(0, ASTRAY_GIVEN, 1, A); /* he may ask again: the answer may be lost */
    assert_int_equal(w.attention, 0);
    assert_true(w.due != 0);
    astray_over(&w.n, object(1));
    assert_int_equal(astray_waits(&w.n), 0);
    assert_int_equal(w.attention, 1);
    assert_int_equal(w.due, 0);
    astray_note(&w.n, ASTRAY_GIVEN, object(0), 2, A, true); /* one that was there is waited for once */
    astray_note(&w.n, ASTRAY_GIVEN, object(0), 3, A, true);
    assert_int_equal(astray_waits(&w.n), 1);
    astray_note(&w.n, ASTRAY_GIVEN, object(0), 4, A, false);
    assert_int_equal(astray_waits(&w.n), 0);
}

/* Each for as long, whenever it has begun. */
static void who_does_not_ask_is_not_waited_for_long(void **state) {
    (void)state;
    const moyai_ns from = w.now;
    astray_note(&w.n, ASTRAY_GIVEN, object(0), 1, A, true);
    pass((moyai_ns)ASTRAY_TIME / 2);
    astray_note(&w.n, ASTRAY_GIVEN, object(1), 1, A, true);
    astray_note(&w.n, ASTRAY_GIVEN, object(2), 1, A, true);
    astray_note(&w.n, ASTRAY_GIVEN, object(3), 1, A, false);
    assert_int_equal(w.due, from + (moyai_ns)ASTRAY_TIME);
    pass((moyai_ns)ASTRAY_TIME / 2 - 1);
    assert_int_equal(astray_waits(&w.n), 3);
    pass(1);
    assert_int_equal(astray_waits(&w.n), 2);
    assert_int_equal(w.due, from + (moyai_ns)ASTRAY_TIME / 2 * 3);
    assert_int_equal(w.attention, 0);
    pass((moyai_ns)ASTRAY_TIME / 2);
    assert_int_equal(astray_waits(&w.n), 0);
    assert_int_equal(w.attention, 1);
    assert_int_equal(w.due, 0);
    for (unsigned k = 0; k < 4; k++) knows(k, ASTRAY_GIVEN, 1, A); /* not for that forgotten */
}

static void those_that_are_there_for_longest_make_room(void **state) {
    (void)state;
    for (unsigned k = 0; k < MOST; k++) astray_note(&w.n, ASTRAY_GIVEN, object(k), k + 1, A, k < 2);
    for (unsigned k = 0; k < MOST; k++) knows(k, ASTRAY_GIVEN, k + 1, A);
    astray_note(&w.n, ASTRAY_GIVEN, object(0), 20, A, true); /* it is the latest now */
    assert_int_equal(astray_waits(&w.n), 2);
    astray_note(&w.n, ASTRAY_GIVEN, object(50), 21, B, false);
    knows(1, ASTRAY_GIVEN, 0, NULL); /* nor is it waited for */
    assert_int_equal(astray_waits(&w.n), 1);
    knows(0, ASTRAY_GIVEN, 20, A);
    knows(2, ASTRAY_GIVEN, 3, A);
    knows(50, ASTRAY_GIVEN, 21, B);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)
    const struct CMUnitTest tests[] = {
        TEST(the_latest_of_each_kind_is_known),
        TEST(who_may_ask_soon_is_waited_for),
        TEST(who_does_not_ask_is_not_waited_for_long),
        TEST(those_that_are_there_for_longest_make_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
