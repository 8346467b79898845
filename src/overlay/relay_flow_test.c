/* SPDX-License-Identifier: Apache-2.0 */
/* Frames through a node: credit, order, whose turn it is. Numbers are of doc/spec/05-relays.md. */
#include "overlay/relay_testkit.h"

#define T struct tested *t = linked(&usual)

/* 8.2: the charge of a frame. */
static void test_charge(void **state) {
    (void)state;
    assert_int_equal(relay_charge(0), RELAY_TOLL);
    assert_int_equal(relay_charge(32), RELAY_TOLL);
    assert_int_equal(relay_charge(33), RELAY_TOLL + 1);
    assert_int_equal(relay_charge(RELAY_OWN - RELAY_TOLL + 32), RELAY_OWN);
    T;
    uint64_t p = passing(t, 1, 7);
    assert_int_equal(step(t, EV(RECEIVE, .link = 1, .label = 1, .token = 1, .bytes = 69)), MOYAI_EPROTO);
    assert_int_equal(step(t, EV(RECEIVE, .link = 1, .label = 1, .token = 1, .bytes = 1u << 30)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(RECEIVE, .link = 1, .label = 0, .token = 1, .bytes = 9)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(RECEIVE, .link = 9, .label = 1, .token = 1, .bytes = 9)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(RECEIVE, .link = 1, .label = 1, .token = 1, .bytes = 68)), 0);
    assert_int_equal(step(t, EV(RECEIVE, .link = 1, .label = 3, .token = 2, .bytes = 68)), 0);
    expect(t, "free2");
    assert_int_equal(relay_path_find(t->r, p)->side[0].out, 0);
    tested_free(t);
}

/* No frame is charged more than cfg.frame (`own`, if only that is given), whatever credit there is. */
static void test_charge_most(void **state) {
    (void)state;
    T;
    (void)arrived(t, 1, 7); /* 800 of credit */
    assert_int_equal(receive(t, 1, 1, 1, OWN + 1), MOYAI_EPROTO);
    assert_int_equal(receive(t, 1, 1, 1, OWN), 0);
    tested_free(t);
}

static const struct relay_cfg longer = {
    .links = 4, .pointers = 4, .spare = 2, .own = OWN, .frame = 300, .most = 800, .memory = 1600};

/* 8.2, 8.4: who holds `own` may send a frame that is charged more; then he lacks what it was too much. */
static void test_long(void **state) {
    (void)state;
    struct tested *t = linked(&longer);
    uint64_t p = passing(t, 1, 7);
    const struct relay_side *from = &relay_path_find(t->r, p)->side[0], *to = &relay_path_find(t->r, p)->side[1];
    assert_int_equal(receive_bulk(t, 1, 1, 1, 301), MOYAI_EPROTO);
    assert_int_equal(receive_bulk(t, 1, 1, 1, 300), 0);
    assert_int_equal(from->out, -200);
    assert_int_equal(receive(t, 1, 1, 2, 64), MOYAI_EPROTO);
    assert_int_equal(get(t, 1, F(GIVE, .label = 1, .amount = 1)), MOYAI_EPROTO);
    pull(t, 2, "1:1 bulk");
    assert_int_equal(to->credit, -200);
    pull(t, 1, "CREDIT1 300");
    assert_int_equal(from->out, 100);
    assert_int_equal(receive(t, 1, 1, 2, 64), 0);
    assert_int_equal(receive_bulk(t, 1, 1, 3, 101), MOYAI_EPROTO); /* 36 are less than own */
    pull(t, 2, "BLOCKED1");
    assert_int_equal(get(t, 2, F(TAKE, .label = 1, .amount = 50)), 0); /* it has none to give */
    pull(t, 2, "GIVE1 0");
    assert_int_equal(get(t, 2, F(CREDIT, .label = 1, .amount = 263)), 0);
    pull(t, 2, "BLOCKED1");
    assert_int_equal(get(t, 2, F(CREDIT, .label = 1, .amount = 1)), 0);
    pull(t, 2, "1:2");
    pull(t, 1, "CREDIT1 64");
    assert_int_equal(receive_bulk(t, 1, 1, 3, 101), 0);
    pull(t, 2, "BLOCKED1");
    assert_int_equal(get(t, 2, F(CREDIT, .label = 1, .amount = 99)), 0);
    pull(t, 2, "BLOCKED1");
    assert_int_equal(get(t, 2, F(CREDIT, .label = 1, .amount = 1)), 0); /* own */
    pull(t, 2, "1:3 bulk");
    assert_int_equal(to->credit, -1);
    tested_free(t);
}

/* 9.2: paths have alike, be their frames long or not. */
static void test_long_turns(void **state) {
    (void)state;
    struct relay_cfg c = longer;
    c.memory = 6400;
    struct tested *t = linked(&c);
    for (uint32_t label = 1; label <= 3; label += 2) {
        (void)passing(t, label, label);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(get(t, 1, F(BLOCKED, .label = label)), 0);
            assert_true(relay_pull(t->r, 1, &t->out)); /* CREDIT: 800 in the end */
            drain(t);
        }
        assert_int_equal(get(t, 2, F(CREDIT, .label = label, .amount = 10000)), 0);
    }
    for (uint64_t i = 1; i <= 3; i++) assert_int_equal(receive_bulk(t, 1, 1, i, 300), 0);
    for (uint64_t i = 1; i <= 7; i++) assert_int_equal(receive_bulk(t, 1, 3, i, 100), 0);
    static const char *const turns[] = {"1:1 bulk", "3:1 bulk", "3:2 bulk", "3:3 bulk", "1:2 bulk",
                                        "3:4 bulk", "3:5 bulk", "3:6 bulk", "1:3 bulk", "3:7 bulk"};
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) pull(t, 2, turns[i]);
    tested_free(t);
}

/* 8.6: who has sent a long frame has nothing to give back, and says so. */
static void test_long_give(void **state) {
    (void)state;
    struct tested *t = linked(&longer);
    struct relay_side *from = &relay_path_find(t->r, passing(t, 1, 7))->side[0];
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 1)), 0);
    pull(t, 1, "CREDIT1 100");
    from->asked = 100; /* TAKE is on its way */
    assert_int_equal(receive_bulk(t, 1, 1, 1, 300), 0);
    assert_int_equal(from->out, -100);
    assert_int_equal(get(t, 1, F(GIVE, .label = 1, .amount = 1)), MOYAI_EPROTO);
    assert_int_equal(get(t, 1, F(GIVE, .label = 1)), 0);
    assert_int_equal(from->asked, 0);
    assert_int_equal(from->out, -100);
    tested_free(t);
}

/* 8.2: an end sends a long frame if it has credit for two, else one of `own`. */
static void test_long_here(void **state) {
    (void)state;
    struct tested *t = linked(&longer);
    uint64_t p = opened(t);
    static const struct {
        uint32_t credit;
        const char *room;
    } v[] = {{0, "room36"}, {300, "room36"}, {599, "room36"}, {600, "room236"}, {10000, "room236"}};
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) {
        struct relay_side *y = &relay_path_find(t->r, p)->side[1];
        uint32_t more = v[i].credit ? v[i].credit - (uint32_t)y->credit : 0;
        if (more) assert_int_equal(get(t, 2, F(CREDIT, .label = 1, .amount = more)), 0);
        t->told[0] = 0;
        assert_int_equal(step(t, EV(WANT, .path = p)), 0);
        const char *room = strstr(t->told, "room");
        assert_string_equal(room ? room : "", v[i].room);
    }
    t->told[0] = 0;
    assert_int_equal(send_one(t, p, 1, 301), MOYAI_EINVAL);
    assert_int_equal(send_one(t, p, 1, 300), 0);
    tested_free(t);
}

/* 8.3, 8.4: frames wait for credit, in their order; credit comes back when they leave. */
static void test_credit(void **state) {
    (void)state;
    T;
    uint64_t p = passing(t, 1, 7);
    const struct relay_side *from = &relay_path_find(t->r, p)->side[0], *to = &relay_path_find(t->r, p)->side[1];
    assert_int_equal(receive(t, 1, 1, 1, 70), 0);
    pull(t, 2, "1:1");
    assert_int_equal(to->credit, 30);
    assert_int_equal(from->due, 70);
    pull(t, 1, "CREDIT1 70");
    assert_int_equal(from->out, 100);
    assert_int_equal(receive(t, 1, 1, 2, 70), 0);
    pull(t, 2, "BLOCKED1"); /* once */
    pull(t, 2, "");
    assert_int_equal(get(t, 2, F(CREDIT, .label = 1, .amount = 39)), 0);
    pull(t, 2, "BLOCKED1");
    pull(t, 2, "");
    assert_int_equal(get(t, 2, F(CREDIT, .label = 1, .amount = 1)), 0);
    pull(t, 2, "1:2");
    assert_int_equal(to->credit, 0);
    assert_int_equal(get(t, 2, F(CREDIT, .label = 1, .amount = INT32_MAX)), 0);
    assert_int_equal(get(t, 2, F(CREDIT, .label = 1, .amount = 1)), MOYAI_EPROTO);
    assert_int_equal(get(t, 2, F(CREDIT, .label = 1, .amount = UINT32_MAX)), MOYAI_EPROTO);
    tested_free(t);
}

/* BLOCKED that was not yet said when credit came is not said, if it is not true any more. */
static void test_blocked_unsaid(void **state) {
    (void)state;
    T;
    (void)passing(t, 1, 7);
    assert_int_equal(receive(t, 1, 1, 1, 70), 0);
    pull(t, 2, "1:1");
    pull(t, 1, "CREDIT1 70");
    assert_int_equal(receive(t, 1, 1, 2, 70), 0);
    assert_int_equal(get(t, 2, F(CREDIT, .label = 1, .amount = 70)), 0);
    pull(t, 2, "1:2");
    pull(t, 2, "");
    tested_free(t);
}

/* 8.5: credit is said at a quarter of the limit, or if less than `own` is left. */
static void test_owe(void **state) {
    (void)state;
    T;
    (void)arrived(t, 1, 7);
    pull(t, 1, "");
    for (uint64_t i = 1; i <= 2; i++) { /* 800 - 2 * 99: 198 is no quarter */
        assert_int_equal(receive(t, 1, 1, i, 99), 0);
        pull(t, 1, "");
    }
    assert_int_equal(receive(t, 1, 1, 3, 64), 0);
    pull(t, 1, "CREDIT1 262");
    pull(t, 1, "");
    tested_free(t);

    t = linked(&(struct relay_cfg){.links = 4, .pointers = 4, .spare = 2, .own = 200, .most = 250, .memory = 1600});
    struct relay_frame f = path_frame(1, 10, 50, 7);
    f.amount = 200;
    assert_int_equal(get(t, 1, f), 0);
    pull(t, 1, "");                               /* 50 due: of 250, less than a quarter, and own is there */
    assert_int_equal(receive(t, 1, 1, 1, 64), 0); /* 136 left */
    pull(t, 1, "CREDIT1 114");
    tested_free(t);
}

/* 8.1: frames of a path keep their order whatever their class; its first decides for the path. */
static void test_order(void **state) {
    (void)state;
    struct relay_cfg c = usual;
    c.own = 400;
    struct tested *t = linked(&c);
    struct relay_frame f = path_frame(1, 10, 91, 7);
    f.amount = 400;
    assert_int_equal(get(t, 1, f), 0);
    assert_int_equal(receive_bulk(t, 1, 1, 1, 64), 0);
    assert_int_equal(receive(t, 1, 1, 2, 64), 0);
    assert_int_equal(receive_bulk(t, 1, 1, 3, 64), 0);
    assert_int_equal(step(t, EV(ROUTED, .path = t->path, .link = 2)), 0);
    pull(t, 2, "PATH1 10>91 hops4 credit400");
    pull(t, 2, "1:1 bulk");
    pull(t, 2, "1:2");
    pull(t, 2, "1:3 bulk");
    pull(t, 2, "");
    tested_free(t);
}

/* A node with many paths from link 1 to link 2: path k (from 1) has label 2k - 1 on both. */
static struct tested *crowd(uint32_t n, uint32_t own) {
    struct relay_cfg c = {.links = 4, .pointers = 2 * n, .spare = 2, .own = own, .most = 8 * own, .memory = 16 * own};
    struct tested *t = linked(&c);
    for (uint32_t k = 1; k <= n; k++) {
        struct relay_frame f = path_frame(2 * k - 1, 10, 91, k);
        f.amount = own;
        assert_int_equal(get(t, 1, f), 0);
        assert_int_equal(step(t, EV(ROUTED, .path = t->path, .link = 2)), 0);
    }
    while (relay_pull(t->r, 2, &t->out)) drain(t);
    t->told[0] = 0;
    return t;
}

/* 9.2: paths take turns by frame. */
static void test_turns(void **state) {
    (void)state;
    struct tested *t = crowd(3, 400);
    for (uint64_t i = 1; i <= 3; i++) assert_int_equal(receive(t, 1, 1, i, 64), 0);
    for (uint64_t i = 11; i <= 13; i++) assert_int_equal(receive(t, 1, 3, i, 64), 0);
    assert_int_equal(receive(t, 1, 5, 21, 64), 0);
    pull(t, 2, "1:1");
    pull(t, 2, "3:11");
    pull(t, 2, "5:21");
    pull(t, 2, "1:2");
    pull(t, 2, "3:12");
    assert_int_equal(receive(t, 1, 5, 22, 64), 0);
    pull(t, 2, "1:3");
    pull(t, 2, "3:13");
    pull(t, 2, "5:22");
    pull(t, 2, "");
    tested_free(t);
}

/* 9.3: control first, then small, then bulk; but of nine frames one is bulk. */
static void test_classes(void **state) {
    (void)state;
    struct tested *t = crowd(4, 2000);
    assert_int_equal(receive_bulk(t, 1, 1, 1, 64), 0);
    assert_int_equal(receive_bulk(t, 1, 1, 2, 64), 0);
    assert_int_equal(receive_bulk(t, 1, 3, 3, 64), 0);
    for (uint64_t i = 11; i < 31; i++) assert_int_equal(receive(t, 1, 5, i, 64), 0);
    assert_int_equal(get(t, 2, F(TAKE, .label = 7, .amount = 1)), 0);
    pull(t, 2, "GIVE7 0");
    char text[32];
    uint64_t small = 11;
    for (int k = 0; k < 20 + 2; k++) {
        snprintf(text, sizeof text, "5:%" PRIu64, small);
        if (k % 9 == 8) snprintf(text, sizeof text, "%s", k == 8 ? "1:1 bulk" : "3:3 bulk");
        small += k % 9 != 8;
        pull(t, 2, text);
    }
    pull(t, 2, "1:2 bulk");
    /* Small frames while no bulk waits do not count. */
    for (uint64_t i = 41; i < 50; i++) assert_int_equal(receive(t, 1, 7, i, 64), 0);
    for (int i = 0; i < 7; i++) assert_true(relay_pull(t->r, 2, &t->out));
    assert_int_equal(receive_bulk(t, 1, 1, 3, 64), 0);
    pull(t, 2, "7:48");
    pull(t, 2, "7:49");
    pull(t, 2, "1:3 bulk");
    pull(t, 2, "");
    tested_free(t);
}

/* Several links, each with its own turns; one that is full holds up nobody else. */
static void test_links(void **state) {
    (void)state;
    T;
    (void)passing(t, 1, 7);
    struct relay_frame f = path_frame(3, 10, 93, 8);
    assert_int_equal(get(t, 1, f), 0);
    assert_int_equal(step(t, EV(ROUTED, .path = t->path, .link = 3)), 0);
    assert_int_equal(receive(t, 1, 1, 1, OWN), 0);
    assert_int_equal(receive(t, 1, 3, 2, OWN), 0);
    pull(t, 3, "PATH2 10>93 hops4 credit100");
    pull(t, 3, "2:2");
    pull(t, 1, "CREDIT3 100");
    assert_int_equal(receive(t, 1, 3, 3, OWN), 0);
    assert_int_equal(get(t, 3, F(CREDIT, .label = 2, .amount = 100)), 0);
    pull(t, 3, "2:3");
    assert_int_equal(receive(t, 1, 1, 4, OWN), MOYAI_EPROTO);
    pull(t, 2, "1:1");
    tested_free(t);
}

/* What is to be said of one path is said in a fixed order, and paths take turns. */
static void test_say(void **state) {
    (void)state;
    T;
    uint64_t p = passing(t, 1, 7);
    struct relay_path *q = relay_path_find(t->r, p);
    assert_int_equal(receive(t, 1, 1, 1, OWN), 0);
    pull(t, 2, "1:1");
    assert_int_equal(receive(t, 2, 1, 2, OWN), 0);
    pull(t, 1, "CREDIT1 100");
    pull(t, 1, "1:2");
    assert_int_equal(receive(t, 1, 1, 3, OWN), 0);                    /* BLOCKED */
    assert_int_equal(get(t, 2, F(TAKE, .label = 1, .amount = 5)), 0); /* GIVE */
    assert_int_equal(get(t, 2, F(TAKE, .label = 1, .amount = 5)), MOYAI_EPROTO);
    assert_int_equal(get(t, 1, F(ERROR, .label = 1, .code = RELAY_LEAVING, .node = node(3))), 0);
    assert_true(q->side[1].say == (RELAY_SAY_GIVE | RELAY_SAY_CREDIT | RELAY_SAY_BLOCKED | RELAY_SAY_WARN));
    assert_int_equal(step(t, EV(OPEN, .id = node(91), .link = 2)), 0);
    pull(t, 2, "GIVE1 0");
    pull(t, 2, "PATH3 50>91 hops8 credit800");
    pull(t, 2, "CREDIT1 100");
    pull(t, 2, "BLOCKED1");
    pull(t, 2, "ERROR1 leaving by3");
    pull(t, 2, "");
    tested_free(t);
}

/* Frames of an end here: one at a time, within its credit. */
static void test_here(void **state) {
    (void)state;
    T;
    uint64_t p = opened(t);
    for (uint64_t i = 1; i <= 2; i++) {
        assert_int_equal(step(t, EV(WANT, .path = p)), 0);
        if (i == 2) assert_int_equal(get(t, 2, F(CREDIT, .label = 1, .amount = 64)), 0);
        assert_int_equal(send_one(t, p, i, 64), 0);
        char text[16];
        snprintf(text, sizeof text, "1:%d", (int)i);
        pull(t, 2, text);
    }
    expect(t, "p1:room36 p1:room36");
    assert_int_equal(step(t, EV(WANT, .path = p)), 0);
    assert_int_equal(step(t, EV(WANT, .path = p)), 0);
    pull(t, 2, "BLOCKED1");
    pull(t, 2, "");
    assert_int_equal(step(t, EV(LINK_DOWN, .link = 2)), 0);
    expect(t, "p1:down broken by50");
    tested_free(t);
}

/* Places of frames are used again, and forgotten when there is none. */
static void test_items(void **state) {
    (void)state;
    struct tested *t = crowd(2, 400);
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 1; i <= 5; i++) assert_int_equal(receive(t, 1, 1, i, 64), 0);
        assert_int_equal(t->r->items_top, 5);
        pull(t, 2, "1:1");
        pull(t, 2, "1:2");
        assert_int_equal(receive(t, 1, 3, 6, 64), 0);
        assert_int_equal(receive(t, 1, 3, 7, 64), 0);
        assert_int_equal(t->r->items_top, 5);
        assert_int_equal(receive(t, 1, 3, 8, 64), 0);
        assert_int_equal(t->r->items_top, 6);
        while (relay_pull(t->r, 2, &t->out)) drain(t);
        assert_int_equal(t->r->items_top, 0);
        for (uint32_t i = 1; i <= 6; i++)
            assert_int_equal(relay_item_at(t->r, i)->next + relay_item_at(t->r, i)->token, 0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(get(t, 2, F(CREDIT, .label = 1 + 2 * (uint32_t)i, .amount = 400)), 0);
        while (relay_pull(t->r, 1, &t->out)) drain(t);
    }
    tested_free(t);
}

#define TEST(f) cmocka_unit_test(f)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_charge), TEST(test_charge_most), TEST(test_credit),    TEST(test_blocked_unsaid),
        TEST(test_owe),    TEST(test_order),       TEST(test_turns),     TEST(test_classes),
        TEST(test_links),  TEST(test_say),         TEST(test_here),      TEST(test_items),
        TEST(test_long),   TEST(test_long_here),   TEST(test_long_give), TEST(test_long_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
