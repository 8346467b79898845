/* SPDX-License-Identifier: Apache-2.0 */
/* The session machine, rule by rule: opening, sending, acknowledging, flow control, aborting, what breaks the rules. */
#include "overlay/session_testkit.h"

static const struct session_cfg low = {
    .id = 0xa, .lower = true, .entries = 8, .streams = 4, .small = 10, .chunk = 20, .window = 100};
static const struct session_cfg high = {
    .id = 0xb, .lower = false, .entries = 8, .streams = 4, .small = 10, .chunk = 20, .window = 100};

struct pair {
    struct end *a, *b;
};

static int pair_setup(void **state) {
    struct pair *p = calloc(1, sizeof *p);
    p->a = end_new(&low);
    p->b = end_new(&high);
    *state = p;
    return 0;
}

static int pair_teardown(void **state) {
    struct pair *p = *state;
    end_free(p->a);
    end_free(p->b);
    free(p);
    return 0;
}

#define ENDS                                                                                                           \
    struct pair *pair = *state;                                                                                        \
    struct end *a = pair->a, *b = pair->b

/* --- opening --- */

static void test_configuration(void **state) {
    (void)state;
    struct session_cfg c = {.id = 1};
    assert_in_range(session_size(&c), 1, 300000);
    c.id = 0;
    assert_int_equal(session_size(&c), 0);
    c = (struct session_cfg){.id = 1, .small = 100, .chunk = 99};
    assert_int_equal(session_size(&c), 0);
    c.chunk = 100;
    assert_true(session_size(&c) > 0);
    c.window = 99;
    assert_int_equal(session_size(&c), 0);
    c = (struct session_cfg){.id = 1, .chunk = 1u << 24};
    assert_int_equal(session_size(&c), 0);
    struct session *s = aligned_alloc(16, 1024);
    assert_int_equal(session_init(s, &c), MOYAI_EINVAL);
    free(s);
}

static void test_open(void **state) {
    ENDS;
    assert_int_equal(step(a, EV(PATH_UP)), MOYAI_EINVAL);
    assert_int_equal(step(a, EV(PATH_DOWN)), MOYAI_EINVAL);
    open_pair(a, b);
    assert_int_equal(session_id(b->s), 0xa);
    assert_true(session_idle(a->s) && session_idle(b->s));
    pull(a, "");
    pull(b, "");
    assert_int_equal(step(a, EV(OPEN)), MOYAI_EINVAL);
    struct session_frame again = {.kind = SESSION_ACCEPT, .id = 0xa, .path = 1};
    assert_int_equal(step(a, EV(RECEIVE, .frame = &again)), MOYAI_EPROTO);
    assert_int_equal(session_deadline(a->s), UINT64_MAX);
}

static void test_open_higher(void **state) {
    ENDS;
    step(b, EV(OPEN));
    expect(b, "want");
    step(b, EV(PATH_UP, .credit = 100));
    carry(b, a, "OPEN2");
    expect(a, "opened path");
    carry(a, b, "ACCEPT2");
    expect(b, "opened");
    assert_int_equal(session_id(a->s), 0xb);
}

/* Both open at once, over one link: the lower's stands. */
static void test_open_both(void **state) {
    ENDS;
    step(a, EV(OPEN));
    step(b, EV(OPEN));
    step(a, EV(PATH_UP, .credit = 100));
    step(b, EV(PATH_UP, .credit = 100));
    expect(a, "want");
    expect(b, "want");
    pull(a, "OPEN1");
    carry(b, a, "OPEN2");
    expect(a, "");
    pull(a, "");
    assert_int_equal(step(b, EV(RECEIVE, .frame = &(struct session_frame){.kind = SESSION_OPEN, .id = 0xa, .path = 1})),
                     0);
    expect(b, "opened path");
    carry(b, a, "ACCEPT1");
    expect(a, "opened");
    assert_int_equal(session_id(b->s), 0xa);
    /* the same OPEN, late: it may be a peer that forgot, so it is asked */
    assert_int_equal(step(a, EV(RECEIVE, .frame = &(struct session_frame){.kind = SESSION_OPEN, .id = 0xb, .path = 2})),
                     0);
    expect(a, "");
    carry(a, b, "ACK1");
    expect(b, "");
}

/* The lower has no path: it answers by its own OPEN on the path the other's came by. */
static void test_open_both_one_path(void **state) {
    ENDS;
    step(a, EV(OPEN));
    step(b, EV(OPEN));
    step(b, EV(PATH_UP, .credit = 100));
    expect(a, "want");
    expect(b, "want");
    carry(b, a, "OPEN2");
    expect(a, "path");
    carry(a, b, "OPEN3");
    expect(b, "opened path");
    carry(b, a, "ACCEPT3");
    expect(a, "opened");
}

/* ACCEPT is lost with its path: opened again, or resumed by the other. */
static void test_open_again(void **state) {
    ENDS;
    step(a, EV(OPEN));
    step(a, EV(PATH_UP, .credit = 100));
    carry(a, b, "OPEN1");
    pull(b, "ACCEPT1");
    give(b, 7, 5);
    pull(b, "DATA1 #0 0:be5");
    a->told[0] = b->told[0] = 0;
    step(a, EV(PATH_DOWN));
    expect(a, "want");
    step(a, EV(PATH_UP, .credit = 100));
    carry(a, b, "OPEN3");
    expect(b, "path");
    carry(b, a, "ACCEPT3");
    expect(a, "opened");
    carry(b, a, "DATA3 #0 0:be5");
    expect(a, "0:be0+5/5");
}

static void test_open_resumed(void **state) {
    ENDS;
    step(a, EV(OPEN));
    step(a, EV(PATH_UP, .credit = 100));
    carry(a, b, "OPEN1");
    a->told[0] = b->told[0] = 0;
    pull(b, "ACCEPT1");
    step(a, EV(PATH_DOWN));
    step(b, EV(PATH_DOWN));
    step(b, EV(PATH_UP, .credit = 100));
    expect(b, "want");
    carry(b, a, "RESUME2");
    expect(a, "want opened path");
    carry(a, b, "RESUMED2");
    expect(b, "");
    give(a, 1, 3);
    carry(a, b, "DATA2 #0 0:be3");
    expect(b, "0:be0+3/3");
}

static void test_open_timeout(void **state) {
    ENDS;
    (void)b;
    give(a, 1, 3);
    step(a, EV(OPEN));
    give(a, 2, 30);
    assert_int_equal(session_deadline(a->s), 1000 + 10 * MOYAI_SEC);
    a->now = 1000 + (moyai_ns)(10 * MOYAI_SEC) - 1;
    step(a, EV(TIMEOUT));
    step(a, EV(PATH_UP, .credit = 10));
    expect(a, "want");
    a->now++; /* a path, but no answer */
    step(a, EV(TIMEOUT));
    expect(a, "never:1 never:2 failed-14");
    assert_int_equal(session_deadline(a->s), UINT64_MAX);
    assert_int_equal(give(a, 3, 1), MOYAI_EINVAL);
    assert_int_equal(step(a, EV(CLOSE)), MOYAI_EINVAL);
    assert_int_equal(step(a, EV(PEER_DEAD)), MOYAI_EINVAL);
}

/* --- sending --- */

static void test_small(void **state) {
    ENDS;
    give(a, 100, 10);
    give(a, 101, 1);
    assert_int_equal(give(a, 102, 0), MOYAI_EINVAL);
    open_pair(a, b);
    give(a, 102, 5);
    pull_room(a, 9, "");
    pull_room(a, 15, "DATA1 #0 0:be10 0:be1");
    pass(a, b);
    carry(a, b, "DATA1 #11 0:be5");
    expect(b, "0:be0+10/10 0:be0+1/1 0:be0+5/5");
    pull(a, "");
    carry(b, a, "ACK1 ack16"); /* at once: 3 of 8 entries wait for it */
    expect(a, "acked:100 acked:101 acked:102");
    assert_true(session_idle(a->s) && session_idle(b->s));
}

static void test_ack_delay(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 4);
    carry(a, b, "DATA1 #0 0:be4");
    pull(b, "");
    assert_false(session_idle(a->s) || session_idle(b->s));
    assert_int_equal(session_deadline(b->s), 1000 + 20 * MOYAI_MS);
    b->now += 19 * MOYAI_MS;
    step(b, EV(TIMEOUT));
    pull(b, "");
    b->now += MOYAI_MS;
    step(b, EV(TIMEOUT));
    assert_int_equal(session_deadline(b->s), UINT64_MAX);
    carry(b, a, "ACK1 ack4");
    b->told[0] = 0;
    expect(a, "acked:1");
    give(a, 2, 4);
    carry(a, b, "DATA1 #4 0:be4");
    give(b, 9, 1); /* data carry it */
    carry(b, a, "DATA1 ack8 #0 0:be1");
    expect(a, "acked:2 0:be0+1/1");
    pull(b, "");
    assert_int_equal(session_deadline(b->s), UINT64_MAX);
}

static void test_large(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 5, 45);
    carry(a, b, "DATA1 #0 1:b10/45");
    expect(b, "1:b0+10/45");
    pull(a, ""); /* the reader has not asked for more */
    assert_int_equal(step(b, EV(GRANT, .stream = 2, .allowed = 99)), MOYAI_EINVAL);
    assert_int_equal(step(b, EV(GRANT, .stream = 0, .allowed = 99)), MOYAI_EINVAL);
    assert_int_equal(step(b, EV(GRANT, .stream = 5, .allowed = 99)), MOYAI_EINVAL);
    assert_int_equal(step(b, EV(GRANT, .stream = 1, .allowed = 10)), 0);
    pull(b, "");
    step(b, EV(GRANT, .stream = 1, .allowed = 40));
    carry(b, a, "GRANT1 ack10 1:40");
    carry(a, b, "DATA1 #10 1:20 1:10");
    pull(a, "");
    step(b, EV(GRANT, .stream = 1, .allowed = UINT64_MAX));
    carry(b, a, "GRANT1 ack40 1:45");
    expect(a, "");
    carry(a, b, "DATA1 #40 1:e5");
    expect(b, "1:10+20/45 1:30+10/45 1:e40+5/45");
    carry(b, a, "ACK1 ack45"); /* at once: one of four streams waits for it */
    expect(a, "acked:5");
    assert_true(session_idle(a->s) && session_idle(b->s));
}

/* Beginnings first, in order; continuations take turns; streams are used again once acknowledged. */
static void test_interleave(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 50);
    give(a, 2, 11);
    give(a, 3, 3);
    pull_room(a, 25, "DATA1 #0 1:b10/50 2:b10/11 0:be3");
    pass(a, b);
    step(b, EV(GRANT, .stream = 1, .allowed = 99));
    step(b, EV(GRANT, .stream = 2, .allowed = 99));
    carry(b, a, "GRANT1 ack23 1:50");
    carry(b, a, "GRANT1 ack23 2:11");
    expect(a, "acked:3");
    give(a, 4, 2);
    pull_room(a, 30, "DATA1 #23 0:be2 1:20 2:e1"); /* 7 bytes left: no sliver of stream 1 */
    pass(a, b);
    b->told[0] = 0;
    carry(b, a, "ACK1 ack46");
    expect(a, "acked:4 acked:2");
    give(a, 5, 12);
    carry(a, b, "DATA1 #46 2:b10/12 1:e20");
    expect(b, "2:b0+10/12 1:e30+20/50");
}

static void test_limits(void **state) {
    ENDS;
    open_pair(a, b);
    for (uint64_t i = 0; i < 6; i++) assert_int_equal(step(a, EV(SEND, .token = i, .length = 1, .request = true)), 0);
    assert_false(session_room(a->s, 1, true));
    assert_int_equal(step(a, EV(SEND, .token = 9, .length = 1, .request = true)), MOYAI_EAGAIN);
    assert_true(session_room(a->s, 1, false));
    assert_int_equal(give(a, 6, 1), 0);
    assert_int_equal(give(a, 7, 1), 0);
    assert_false(session_room(a->s, 1, false));
    assert_int_equal(give(a, 8, 1), MOYAI_EAGAIN);
    settle(a, b);
    b->now += (moyai_ns)MOYAI_SEC;
    step(b, EV(TIMEOUT));
    settle(a, b);
    expect(a, "acked:0 acked:1 acked:2 acked:3 acked:4 acked:5 acked:6 acked:7");
    for (uint64_t i = 0; i < 3; i++) assert_int_equal(step(a, EV(SEND, .token = i, .length = 11, .request = true)), 0);
    assert_false(session_room(a->s, 11, true));
    assert_true(session_room(a->s, 10, true));
    assert_int_equal(step(a, EV(SEND, .token = 9, .length = 11, .request = true)), MOYAI_EAGAIN);
    assert_int_equal(give(a, 3, 11), 0);
    assert_int_equal(give(a, 4, 11), MOYAI_EAGAIN);
    assert_int_equal(step(a, EV(SEND, .token = 4, .length = 10, .request = true)), 0);
}

static void test_window(void **state) {
    ENDS;
    open_pair(a, b);
    for (uint64_t i = 0; i < 4; i++) give(a, i, 28);
    pull(a, "DATA1 #0 1:b10/28 2:b10/28 3:b10/28 4:b10/28");
    pass(a, b);
    for (uint32_t i = 1; i <= 4; i++) step(b, EV(GRANT, .stream = i, .allowed = 99));
    for (uint32_t i = 1; i <= 4; i++) {
        pull_at(__FILE__, __LINE__, b, 0,
                (const char *[]){"", "GRANT1 ack40 1:28", "GRANT1 ack40 2:28", "GRANT1 ack40 3:28",
                                 "GRANT1 ack40 4:28"}[i]);
        pass(b, a);
    }
    for (uint64_t i = 0; i < 4; i++) give(a, 10 + i, 10);
    pull(a, "DATA1 #40 0:be10 0:be10 0:be10 0:be10 1:e18 2:e18 3:e18");
    assert_int_equal(pass(a, b), 0);
    pull(a, "DATA1 #134 4:6");
    assert_int_equal(pass(a, b), 0);
    pull(a, ""); /* 100 bytes are under way */
    carry(b, a, "ACK1 ack140");
    expect(a, "acked:10 acked:11 acked:12 acked:13 acked:0 acked:1 acked:2");
    carry(a, b, "DATA1 #140 4:e12");
}

static void test_credit(void **state) {
    ENDS;
    a->credit = 15;
    open_pair(a, b);
    give(a, 1, 10);
    give(a, 2, 10);
    give(a, 3, 30);
    carry(a, b, "DATA1 #0 0:be10");
    pull(a, ""); /* 5 bytes are not enough for a small message, and nothing may pass it */
    step(a, EV(CREDIT, .credit = 4));
    pull(a, "");
    step(a, EV(CREDIT, .credit = 4));
    carry(a, b, "DATA1 #10 0:be10");
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configuration),
        TEST(test_open),
        TEST(test_open_higher),
        TEST(test_open_both),
        TEST(test_open_both_one_path),
        TEST(test_open_again),
        TEST(test_open_resumed),
        TEST(test_open_timeout),
        TEST(test_small),
        TEST(test_ack_delay),
        TEST(test_large),
        TEST(test_interleave),
        TEST(test_limits),
        TEST(test_window),
        TEST(test_credit),
    };
    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
