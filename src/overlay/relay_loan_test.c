/* SPDX-License-Identifier: Apache-2.0 */
/* Loans: grown, shared, taken back. Section 8.6 and on of doc/spec/05-relays.md. */
#include "overlay/relay_testkit.h"

/* n paths from link 1 to link 2, labels 1, 3, ... on both; node 91's side grants plenty. */
static struct tested *paths(uint32_t n, uint64_t memory) {
    const struct relay_cfg c = {
        .links = 4, .pointers = 2 * n, .spare = 2, .own = OWN, .most = 1600, .memory = memory, .seed = 1};
    struct tested *t = linked(&c);
    for (uint32_t k = 1; k <= n; k++) {
        (void)passing(t, 2 * k - 1, k);
        assert_int_equal(get(t, 2, F(CREDIT, .label = 2 * k - 1, .amount = 1000000)), 0);
    }
    t->told[0] = 0;
    return t;
}

static struct relay_side *side(struct tested *t, uint32_t label) {
    return relay_side_at(t->r, relay_side_find(t->r, relay_link_find(t->r, 1), label));
}

/* Pull all that link has. */
static int pull_all(struct tested *t, uint64_t link) {
    int n = 0;
    for (; relay_pull(t->r, link, &t->out); n++) {
        drain(t);
        check(t);
    }
    drain(t);
    return n;
}

/* The neighbour sends all it may in frames of OWN, says so, and all is passed on. */
static void round_of(struct tested *t, uint32_t label) {
    (void)pull_all(t, 1);
    while (side(t, label)->out >= (int32_t)OWN) assert_int_equal(receive(t, 1, label, 1, OWN), 0);
    (void)pull_all(t, 2);
    assert_int_equal(get(t, 1, F(BLOCKED, .label = label)), 0);
    (void)pull_all(t, 1);
}

/* Doubled while its sender runs out with little waiting here, up to the most. */
static void test_grow(void **state) {
    (void)state;
    struct tested *t = paths(1, 100000);
    const uint32_t limits[] = {200, 400, 800, 1600, 1600};
    for (int i = 0; i < 5; i++) {
        round_of(t, 1);
        assert_int_equal(relay_limit(t->r, side(t, 1)), limits[i]);
    }
    assert_int_equal(t->r->lent, 1500);
    assert_int_equal(relay_count(t->r).lent, 1500);
    assert_int_equal(get(t, 1, F(CLOSE, .label = 1)), 0);
    (void)pull_all(t, 2);
    assert_int_equal(t->r->lent, 0);
    tested_free(t);
}

/* As `passing`, with the usual `own`; the next node grants plenty. */
static void passing_usual(struct tested *t, uint32_t label, uint64_t id) {
    struct relay_frame f = path_frame(label, 10, 91, id);
    f.amount = RELAY_OWN;
    assert_int_equal(get(t, 1, f), 0);
    assert_int_equal(step(t, EV(ROUTED, .path = t->path, .link = 2)), 0);
    assert_true(relay_pull(t->r, 2, &t->out));
    drain(t);
    assert_int_equal(get(t, 2, F(CREDIT, .label = label, .amount = 1000000)), 0);
    t->told[0] = 0;
}

/* A path of small frames gets some unasked, so that not each of them takes a CREDIT; while there is plenty. */
static void test_first(void **state) {
    (void)state;
    const struct {
        uint64_t memory;
        uint32_t charge, lent;
    } v[] = {{100000, 64, 3 * RELAY_OWN},    {100000, RELAY_OWN / 4, 3 * RELAY_OWN},
             {100000, RELAY_OWN / 4 + 1, 0}, {3 * RELAY_OWN, 64, 3 * RELAY_OWN},
             {3 * RELAY_OWN - 1, 64, 0},     {1, 64, 0}};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        const struct relay_cfg c = {.links = 4, .pointers = 2, .spare = 2, .memory = v[i].memory, .seed = 1};
        struct tested *t = linked(&c);
        char said[32];
        passing_usual(t, 1, 1);
        assert_int_equal(receive(t, 1, 1, 1, v[i].charge), 0);
        pull(t, 1, "");
        pull(t, 2, "1:1");
        assert_int_equal(t->r->lent, v[i].lent);
        snprintf(said, sizeof said, "CREDIT1 %u", v[i].charge + v[i].lent);
        pull(t, 1, said);
        for (uint64_t k = 2; v[i].lent && k < 20; k++) { /* and nothing is said */
            assert_int_equal(receive(t, 1, 1, k, 64), 0);
            (void)pull_all(t, 2);
            assert_int_equal(pull_all(t, 1), 0);
        }
        assert_int_equal(t->r->lent, v[i].lent);
        tested_free(t);
    }
    /* Less than half is left, or the share does not suffice: who wants it has to ask. */
    const struct relay_cfg c = {.links = 4, .pointers = 3, .spare = 2, .memory = 7 * RELAY_OWN, .seed = 1};
    struct tested *t = linked(&c);
    for (uint32_t k = 1; k <= 3; k++) {
        passing_usual(t, 2 * k - 1, k);
        assert_int_equal(receive(t, 1, 2 * k - 1, k, 64), 0);
        (void)pull_all(t, 2);
        assert_int_equal(side(t, 2 * k - 1)->lent, k < 3 ? 3 * RELAY_OWN : 0);
    }
    tested_free(t);
}

/* Not while half and more of it waits here; and then what is due is said at once. */
static void test_grow_not(void **state) {
    (void)state;
    struct tested *t = paths(1, 100000);
    round_of(t, 1);
    assert_int_equal(receive(t, 1, 1, 1, 69), 0);
    assert_int_equal(receive(t, 1, 1, 2, 64), 0);
    assert_int_equal(receive(t, 1, 1, 3, 64), 0);
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 1)), 0); /* 197 of 200 */
    assert_int_equal(side(t, 1)->lent, 100);
    pull(t, 1, "");
    pull(t, 2, "1:1"); /* 128 */
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 1)), 0);
    assert_int_equal(side(t, 1)->lent, 100);
    pull(t, 1, "CREDIT1 69");
    pull(t, 2, "1:2"); /* 64 */
    pull(t, 1, "CREDIT1 64");
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 1)), 0);
    assert_int_equal(side(t, 1)->lent, 300);
    pull(t, 1, "CREDIT1 200");
    tested_free(t);
    t = paths(1, 100000); /* exactly half: yes */
    round_of(t, 1);
    assert_int_equal(receive(t, 1, 1, 1, OWN), 0);
    assert_int_equal(receive(t, 1, 1, 1, OWN), 0);
    pull(t, 2, "1:1");
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 1)), 0);
    assert_int_equal(side(t, 1)->lent, 300);
    tested_free(t);
}

/* BLOCKED brings out what is due though it is little; at ends too, where nothing is lent. */
static void test_blocked_due(void **state) {
    (void)state;
    struct tested *t = linked(&usual);
    (void)arrived(t, 1, 7);
    assert_int_equal(receive(t, 1, 1, 1, 64), 0);
    pull(t, 1, "");
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 1)), 0);
    pull(t, 1, "CREDIT1 64");
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 1)), 0);
    pull(t, 1, "");
    assert_int_equal(t->r->lent, 0);
    /* Without a route yet it is too early to lend. */
    assert_int_equal(get(t, 1, path_frame(3, 10, 91, 8)), 0);
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 3)), 0);
    assert_int_equal(t->r->lent, 0);
    tested_free(t);
}

/* The memory is at an end: a newcomer gets nothing, those above their share give back, and then it gets its share. */
static void test_share(void **state) {
    (void)state;
    struct tested *t = paths(2, 1600);
    for (int i = 0; i < 4; i++) round_of(t, 1);
    assert_int_equal(side(t, 1)->lent, 1500);
    assert_int_equal(side(t, 1)->out, 1600);
    side(t, 1)->used = 1;
    round_of(t, 3); /* 100 are left */
    assert_int_equal(side(t, 3)->lent, 100);
    assert_int_equal(side(t, 1)->asked, 700); /* above 800 */
    assert_int_equal(get(t, 1, F(GIVE, .label = 3)), MOYAI_EPROTO);
    assert_int_equal(get(t, 1, F(GIVE, .label = 1, .amount = 701)), MOYAI_EPROTO);
    assert_int_equal(get(t, 1, F(GIVE, .label = 1, .amount = 700)), 0);
    assert_int_equal(get(t, 1, F(GIVE, .label = 1, .amount = 0)), MOYAI_EPROTO);
    assert_int_equal(side(t, 1)->lent, 800);
    for (int i = 0; i < 4; i++) round_of(t, 3);
    assert_int_equal(side(t, 3)->lent, 800);
    assert_int_equal(t->r->lent, 1600);
    tested_free(t);
}

/* Who has not used his loan since the last look gives back all of it. */
static void test_idle(void **state) {
    (void)state;
    struct tested *t = paths(2, 1600);
    for (int i = 0; i < 4; i++) round_of(t, 1);
    side(t, 1)->used = 0;
    round_of(t, 3);
    assert_int_equal(side(t, 1)->asked, 1500);
    assert_int_equal(get(t, 1, F(GIVE, .label = 1, .amount = 1500)), 0);
    assert_int_equal(t->r->lenders, 1);
    for (int i = 0; i < 4; i++) round_of(t, 3);
    assert_int_equal(side(t, 3)->lent, 1500);
    round_of(t, 1); /* and the other way round */
    assert_int_equal(side(t, 3)->asked, 700);
    side(t, 3)->used = 0;
    tested_free(t);
}

/* A queue is use. What is due is cut first, and only the rest asked for. */
static void test_take_due(void **state) {
    (void)state;
    struct tested *t = paths(2, 1600);
    for (int i = 0; i < 4; i++) round_of(t, 1);
    for (uint64_t i = 0; i < 5; i++) assert_int_equal(receive(t, 1, 1, i, 70), 0);
    for (int i = 0; i < 3; i++) assert_true(relay_pull(t->r, 2, &t->out));
    drain(t);
    struct relay_side *a = side(t, 1);
    a->used = 0;
    assert_int_equal(a->due, 210);
    assert_int_equal(receive(t, 1, 3, 9, 64), 0);
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 3)), 0); /* more than half waits: no */
    assert_int_equal(a->due, 210);
    for (int i = 0; i < 3; i++) assert_true(relay_pull(t->r, 2, &t->out));
    drain(t);
    assert_int_equal(receive(t, 1, 1, 7, 70), 0);
    a->used = 0;
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 3)), 0);
    check(t);
    assert_int_equal(a->due, 0);
    assert_int_equal(a->lent, 1500 - 350);
    assert_int_equal(a->take, 350);
    pull(t, 1, "CREDIT3 164");
    pull(t, 1, "TAKE1 350");
    assert_int_equal(a->asked, 350);
    (void)pull_all(t, 2);
    assert_int_equal(a->lent, 1150);
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 1)), 0); /* no more to who has been asked */
    assert_int_equal(a->lent, 1150);
    assert_int_equal(get(t, 1, F(GIVE, .label = 1, .amount = 350)), 0);
    assert_int_equal(a->lent, 800);
    tested_free(t);
}

/* The credit that is asked for may have been lent no more when it comes: then it is due. */
static void test_give_late(void **state) {
    (void)state;
    struct tested *t = paths(2, 1600);
    for (int i = 0; i < 4; i++) round_of(t, 1);
    struct relay_side *a = side(t, 1);
    a->used = 0;
    round_of(t, 3);
    assert_int_equal(a->asked, 1500);
    t->r->lent -= 1400; /* as if it had shrunk by frames that left */
    a->lent -= 1400;
    a->out -= 1400;
    check(t);
    assert_int_equal(get(t, 1, F(GIVE, .label = 1, .amount = 200)), 0);
    assert_int_equal(a->lent, 0);
    assert_int_equal(a->out, 0);
    pull(t, 1, "CREDIT1 100");
    tested_free(t);
    t = paths(2, 1600);
    for (int i = 0; i < 4; i++) round_of(t, 1);
    a = side(t, 1);
    a->used = 0;
    round_of(t, 3);
    while (a->out >= (int32_t)OWN) assert_int_equal(receive(t, 1, 1, 1, OWN), 0);
    assert_int_equal(get(t, 1, F(GIVE, .label = 1, .amount = 1)), MOYAI_EPROTO); /* it holds none */
    tested_free(t);
}

/* Nobody is looked at more than once for one that asks, and at most sixteen. */
static void test_looks(void **state) {
    (void)state;
    struct tested *t = paths(21, 6000);
    for (uint32_t k = 1; k <= 20; k++) {
        round_of(t, 2 * k - 1);
        round_of(t, 2 * k - 1);
    }
    assert_int_equal(t->r->lenders, 20);
    uint32_t asked = 0;
    for (uint32_t k = 1; k <= 20; k++) {
        side(t, 2 * k - 1)->used = 0;
        side(t, 2 * k - 1)->asked = 0;
    }
    round_of(t, 41);
    for (int more = 0; more < 2; more++) {
        asked = 0;
        for (uint32_t k = 1; k <= 20; k++) asked += side(t, 2 * k - 1)->asked != 0;
        assert_int_equal(asked, more ? 20 : 16);
        round_of(t, 41);
    }
    tested_free(t);
}

/* Scarce: less than an eighth is left. Who has more than the share does not get back what his frames used. */
static void test_shrink(void **state) {
    (void)state;
    struct tested *t = paths(2, 1600);
    for (int i = 0; i < 4; i++) round_of(t, 1);
    side(t, 1)->used = 1;
    round_of(t, 3);
    assert_int_equal(get(t, 1, F(GIVE, .label = 1, .amount = 0)), 0); /* it had none to give */
    for (int i = 0; i < 4; i++) assert_int_equal(receive(t, 1, 1, 1, OWN), 0);
    (void)pull_all(t, 2);
    assert_int_equal(side(t, 1)->lent, 1300); /* two of them: then an eighth is free */
    assert_int_equal(side(t, 1)->due, 200);
    round_of(t, 3);
    assert_int_equal(side(t, 3)->lent, 300);
    tested_free(t);
}

/* There is some left, but not as much as is wanted: then it is the share that counts. */
static void test_tight(void **state) {
    (void)state;
    struct tested *t = paths(2, 2000);
    for (int i = 0; i < 3; i++) round_of(t, 1);
    for (int i = 0; i < 3; i++) round_of(t, 3);
    assert_int_equal(t->r->lent, 1400);
    round_of(t, 1);
    assert_int_equal(side(t, 1)->lent, 1000);
    assert_int_equal(side(t, 3)->asked, 0);
    tested_free(t);
    t = paths(2, 1600); /* exactly as much as is wanted: that is enough */
    for (int i = 0; i < 3; i++) round_of(t, 1);
    round_of(t, 3);
    assert_int_equal(t->r->lent, 800);
    round_of(t, 1);
    assert_int_equal(side(t, 1)->lent, 1500);
    tested_free(t);
}

/* Credit that was to be said and is taken for others is not said. */
static void test_unsaid(void **state) {
    (void)state;
    struct tested *t = paths(2, 1600);
    for (int i = 0; i < 4; i++) round_of(t, 1);
    for (uint64_t i = 0; i < 4; i++) assert_int_equal(receive(t, 1, 1, i, OWN), 0);
    t->r->memory += 1000; /* not scarce while they leave */
    (void)pull_all(t, 2);
    t->r->memory -= 1000;
    assert_int_equal(side(t, 1)->due, 400);
    assert_int_equal(side(t, 1)->say, RELAY_SAY_CREDIT);
    side(t, 1)->used = 0;
    assert_int_equal(receive(t, 1, 3, 9, OWN), 0);
    assert_true(relay_pull(t->r, 2, &t->out));
    drain(t);
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 3)), 0);
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 3)), 0); /* and nobody is asked twice */
    assert_int_equal(side(t, 1)->due, 0);
    assert_int_equal(side(t, 1)->say, RELAY_SAY_TAKE);
    tested_free(t);
}

/* Without memory paths work with what is their own. */
static void test_none(void **state) {
    (void)state;
    struct tested *t = paths(2, 1);
    for (int i = 0; i < 4; i++) {
        round_of(t, 1);
        round_of(t, 3);
        assert_true(side(t, 1)->lent + side(t, 3)->lent <= 1);
        assert_true(side(t, 1)->out >= (int32_t)OWN && side(t, 3)->out >= (int32_t)OWN);
    }
    tested_free(t);
}

/* The other side of TAKE: what is above `own`, as far as it is there. */
static void test_give(void **state) {
    (void)state;
    struct tested *t = paths(1, 1600);
    assert_int_equal(get(t, 2, F(TAKE, .label = 1, .amount = 999999)), 0);
    pull(t, 2, "GIVE1 999999");
    assert_int_equal(get(t, 2, F(TAKE, .label = 1, .amount = 999999)), 0);
    pull(t, 2, "GIVE1 1");
    assert_int_equal(get(t, 2, F(TAKE, .label = 1, .amount = 999999)), 0);
    pull(t, 2, "GIVE1 0");
    assert_int_equal(receive(t, 1, 1, 1, OWN), 0);
    pull(t, 2, "1:1");
    assert_int_equal(get(t, 2, F(TAKE, .label = 1, .amount = 1)), 0);
    pull(t, 2, "GIVE1 0");
    assert_int_equal(t->r->draining, 0);
    tested_free(t);
}

/* 8.7: the most that is ever held. */
static void test_held(void **state) {
    (void)state;
    struct tested *t = paths(2, 200);
    for (uint32_t label = 1; label <= 3; label += 2) {
        round_of(t, label);
        assert_int_equal(side(t, label)->lent, 100);
    }
    for (uint32_t label = 1; label <= 3; label += 2) {
        for (uint64_t i = 0; i < 2; i++) assert_int_equal(receive(t, 1, label, i, OWN), 0);
        assert_int_equal(receive(t, 2, label, 2, OWN), 0);
    }
    assert_int_equal(relay_count(t->r).held, 2 * 2 * OWN + 200);
    tested_free(t);
}

/* Who was asked for credit and is not listened to any more when it comes is given none of it back. */
static void test_give_deaf(void **state) {
    (void)state;
    struct tested *t = paths(2, 1600);
    for (int i = 0; i < 4; i++) round_of(t, 1);
    struct relay_side *a = side(t, 1);
    a->used = 0;
    round_of(t, 3);
    assert_int_equal(a->asked, 1500);
    assert_int_equal(get(t, 2, F(CLOSE, .label = 1)), 0);
    assert_int_equal(a->lent, 0);
    int32_t out = a->out;
    assert_int_equal(get(t, 1, F(GIVE, .label = 1, .amount = 1)), 0);
    check(t);
    assert_int_equal(a->out, out - 1);
    assert_int_equal(a->due, 0);
    tested_free(t);
}

/* Loans end with their path, however it ends. */
static void test_end(void **state) {
    (void)state;
    for (int how = 0; how < 4; how++) {
        struct tested *t = paths(2, 1600);
        for (int i = 0; i < 3; i++) round_of(t, 1);
        assert_int_equal(receive(t, 1, 1, 1, OWN), 0);
        if (how == 0) assert_int_equal(step(t, EV(LINK_DOWN, .link = 2)), 0);
        if (how == 1) assert_int_equal(get(t, 1, F(ERROR, .label = 1, .code = RELAY_DEAD)), 0);
        if (how == 2) assert_int_equal(get(t, 2, F(CLOSE, .label = 1)), 0); /* who is not listened to needs none */
        if (how == 3) {
            assert_int_equal(get(t, 1, F(CLOSE, .label = 1)), 0);
            assert_int_equal(t->r->lent, 700);
            (void)pull_all(t, 2);
        }
        assert_int_equal(t->r->lent, 0);
        assert_int_equal(t->r->lenders, 0);
        tested_free(t);
    }
}

#define TEST(f) cmocka_unit_test(f)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_first), TEST(test_grow),      TEST(test_grow_not),  TEST(test_blocked_due), TEST(test_share),
        TEST(test_idle),  TEST(test_take_due),  TEST(test_give_late), TEST(test_looks),       TEST(test_shrink),
        TEST(test_none),  TEST(test_give),      TEST(test_end),       TEST(test_tight),       TEST(test_unsaid),
        TEST(test_held),  TEST(test_give_deaf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
