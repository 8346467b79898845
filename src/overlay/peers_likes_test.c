/* SPDX-License-Identifier: Apache-2.0 */
/* Those that nobody can connect to: places for them, whom of them to keep, and guests until one is free. */
#include "overlay/peers_testkit.h"

/* 3.5: nodes that accept keep a fifth of degree, one here, to their like. */
static void test_likes(void **state) {
    (void)state;
    struct peers_endpoint one = open_node(1), two = open_node(2);
    for (int accepts = 0; accepts < 2; accepts++) {
        struct tested *t = full(9, 4, 4, 4, accepts);
        accept_not(t, 2, 4);
        assert_int_equal(offers(t, 5, 5, 0, 0), 0);
        assert_non_null(strstr(t->did, accepts ? "YIELD@2 " : "YIELD@1 "));
        tested_free(t);
        t = full(9, 4, 4, 4, accepts);
        accept_not(t, 2, 4);
        assert_int_equal(from(t, 1, &one, PEERS_YIELD, 0, 0, 0), 0);
        expect(t, accepts ? "KEEP@1 c4" : "BYE@1 c4w2 drop@1w2");
        tested_free(t);
        t = full(9, 4, 4, 4, accepts);
        accept_not(t, 2, 4);
        assert_int_equal(from(t, 1, &one, PEERS_YIELD, 0, 0, PEERS_RETIRE), 0);
        expect(t, accepts ? "KEEP@1 c4" : "BYE@1 c4w2 drop@1w2");
        tested_free(t);
    }
    struct tested *t = full(9, 4, 4, 4, true);
    accept_not(t, 4, 4); /* three are more than that, and the one that is kept for another */
    assert_int_equal(offers(t, 5, 5, 0, 0), 0);
    assert_non_null(strstr(t->did, "YIELD@1 "));
    tested_free(t);
    t = full(9, 4, 4, 4, true);
    accept_not(t, 3, 4);
    assert_int_equal(offers(t, 5, 5, 0, 0), 0);
    assert_null(strstr(t->did, "YIELD@1 "));
    tested_free(t);
    t = full(9, 4, 4, 4, true);
    accept_not(t, 3, 4); /* for its like it need not be kept */
    assert_int_equal(offers(t, 5, 5, 0, PEERS_ACCEPTS), 0);
    assert_non_null(strstr(t->did, "YIELD@1 "));
    t->did[0] = 0;
    assert_int_equal(from(t, 3, &two, PEERS_YIELD, 0, 0, 0), MOYAI_EINVAL); /* not its link */
    assert_int_equal(from(t, 2, &two, PEERS_YIELD, 0, 0, 0), 0);
    assert_non_null(strstr(t->did, "drop@2w2"));
    tested_free(t);
}

/* 3.7: and they are taken where there is no place, up to twice as many. */
static void test_likes_taken(void **state) {
    (void)state;
    for (int accepts = 0; accepts < 2; accepts++) {
        struct tested *t = full(1, 1, 1, 1, accepts);
        accept_not(t, 2, 4);
        assert_int_equal(offers(t, 5, 5, 9, 0), 0);
        expect(t, "REFUSE@5 c4 drop@5w0");
        assert_int_equal(offers(t, 6, 6, 9, PEERS_ACCEPTS), 0);
        expect(t, accepts ? "ACCEPT@6 c4 use@6" : "REFUSE@6 c4 drop@6w0");
        assert_int_equal(t->p->rescued, accepts);
        assert_int_equal(offers(t, 7, 7, 9, PEERS_ACCEPTS), 0); /* rescue = 1 */
        assert_non_null(strstr(t->did, "drop@7w0"));
        tested_free(t);
    }
    struct tested *t = full(1, 1, 1, 1, true);
    accept_not(t, 3, 4);
    assert_int_equal(offers(t, 5, 5, 9, PEERS_ACCEPTS), 0);
    expect(t, "REFUSE@5 c4 drop@5w0");
    tested_free(t);
}

/* Accepts, of degree 3 and most 4, with likes links to its like, and the other places of `most` taken. */
static struct tested *hub(uint32_t likes, uint32_t rescue) {
    struct tested *t = tested_new((struct peers_cfg){.degree = 3, .most = 4, .rescue = rescue});
    (void)step(t, EV(START));
    for (uint32_t i = 1; i <= 4; i++) assert_int_equal(offers(t, i, i, 0, i <= likes ? PEERS_ACCEPTS : 0), 0);
    t->did[0] = 0;
    return t;
}

static uint32_t lasts(struct tested *t, uint32_t from, uint32_t flags) {
    uint32_t taken = 0;
    for (uint32_t i = from; i < from + 20; i++) {
        t->did[0] = 0;
        assert_int_equal(offers(t, i, i, 0, flags), 0);
        taken += strstr(t->did, "use@") != NULL;
    }
    t->did[0] = 0;
    return taken;
}

/* 3.9: places beyond `most` are kept for its like: as many as it lacks of two (a fifth of degree is one), a quarter of
 * them at most; who does not accept keeps none. */
static void test_likes_kept(void **state) {
    (void)state;
    const struct {
        uint32_t likes, rescue, taken, more;
        bool accepts;
    } cases[] = {{0, 9, 6, 2, true}, {1, 9, 7, 1, true}, {2, 9, 8, 0, true},  {3, 9, 8, 0, true},
                 {0, 5, 3, 1, true}, {0, 1, 1, 0, true}, {0, 9, 8, 0, false}, {1, 9, 8, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) { /* one of nine, and of five, is for who looks */
        struct tested *t = hub(cases[i].likes, cases[i].rescue);
        t->p->accepts = cases[i].accepts;
        assert_int_equal(lasts(t, 10, PEERS_LAST), cases[i].taken);
        assert_int_equal(lasts(t, 40, PEERS_ACCEPTS), cases[i].more);
        assert_int_equal(peers_taken(t->p), 4);
        tested_free(t);
    }
    struct tested *t = hub(0, 9); /* and nobody is asked for them, though somebody would yield */
    assert_int_equal(lasts(t, 10, PEERS_LAST), 6);
    peers_link_of(t->p, 1)->count = 9;
    assert_int_equal(offers(t, 40, 40, 0, PEERS_ACCEPTS), 0);
    expect(t, "ACCEPT@40 c10 use@40");
    assert_int_equal(offers(t, 41, 41, 0, PEERS_LAST), 0);
    expect(t, "YIELD@1 ACCEPT@41 c11 use@41");
    tested_free(t);
}

/* 3.9: they stay kept when a link to its like ends, be its place one of `most` or not, and whoever waits for one. */
static void test_likes_stay_kept(void **state) {
    (void)state;
    struct tested *t = hub(1, 9);
    assert_int_equal(lasts(t, 10, PEERS_LAST), 7);
    assert_int_equal(lasts(t, 40, PEERS_ACCEPTS), 1);
    (void)step(t, EV(LOST, .link = 40)); /* beyond `most` */
    assert_int_equal(t->p->rescued, 7);
    (void)step(t, EV(LOST, .link = 1)); /* of it: one that was beyond has its place */
    assert_true(t->p->rescued == 6 && peers_taken(t->p) == 4);
    assert_int_equal(lasts(t, 60, PEERS_LAST), 0);
    peers_link_of(t->p, 3)->count = 9;
    assert_int_equal(offers(t, 80, 80, 0, 0), 0);
    expect(t, "YIELD@3 ACCEPT@80 c10 use@80");
    assert_int_equal(lasts(t, 90, PEERS_ACCEPTS), 2);
    (void)step(t, EV(LOST, .link = 90));
    assert_int_equal(t->p->guests, 1); /* it is not the guest's, for whom somebody is asked */
    (void)step(t, EV(LOST, .link = 91));
    assert_true(t->p->guests == 1 && t->p->rescued == 6);
    (void)step(t, EV(LOST, .link = 3)); /* that one's is */
    assert_true(t->p->guests == 0 && t->p->rescued == 6 && peers_taken(t->p) == 4);
    assert_int_equal(lasts(t, 120, PEERS_ACCEPTS), 2);
    tested_free(t);
}

/* 3.9: it looks for its like, though all places are taken, and as dear as a first link; but not where it knows none. */
static void test_likes_sought(void **state) {
    (void)state;
    for (uint32_t likes = 0; likes < 2; likes++) {
        struct tested *t = hub(likes, 7);
        for (uint32_t i = 50; i < 60; i++) knows(t, at_site(i, 1, false));
        t->p->gap_at = t->p->dry_until = 0;
        for (int i = 0; i < 5; i++) wait_next(t);
        assert_int_equal(t->dialled_n, 0);
        knows(t, at_site(70, 1, true));
        for (int i = 0; i < 5 && !t->dialled_n; i++) wait_next(t);
        assert_int_equal(t->dialled_n, 1 - likes);
        if (likes == 0) {
            assert_int_equal(t->dialled[0], 70);
            t->did[0] = 0;
            (void)step(t, EV(UP, .link = 70, .id = node(70)));
            expect(t, "OFFER@70 f1");
            struct peers_endpoint e = at_site(70, 1, true);
            assert_int_equal(from(t, 70, &e, PEERS_ACCEPT, 9, 0, PEERS_ACCEPTS), 0);
            assert_true(peers_link_of(t->p, 70)->flags & LINK_RESCUED && peers_taken(t->p) == 4);
        }
        tested_free(t);
    }
    struct tested *t = hub(0, 7); /* who does not accept does not */
    t->p->accepts = 0;
    knows(t, open_node(70));
    t->p->gap_at = t->p->dry_until = 0;
    for (int i = 0; i < 5; i++) wait_next(t);
    assert_int_equal(t->dialled_n, 0);
    tested_free(t);
}

/* At most four guests; a guest that leaves settles nobody. */
static void test_guests(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 4, .most = 6});
    (void)step(t, EV(START));
    for (uint32_t i = 1; i <= 6; i++) joins(t, i, i, 3);
    for (uint32_t i = 0; i < 5; i++) {
        t->now++;
        assert_int_equal(offers(t, 11 + i, 11 + i, 1, 0), 0);
    }
    assert_non_null(strstr(t->did, "drop@15w0"));
    assert_int_equal(t->p->guests, 4);
    (void)step(t, EV(LOST, .link = 12));
    assert_int_equal(t->p->guests, 3);
    (void)step(t, EV(LOST, .link = 1));
    assert_int_equal(t->p->guests, 2);
    assert_false(peers_link_of(t->p, 11)->flags & LINK_GUEST); /* the first has it */
    assert_true(peers_link_of(t->p, 13)->flags & LINK_GUEST && peers_link_of(t->p, 14)->flags & LINK_GUEST);
    tested_free(t);
}

/* 3.5: a place beyond `most` that is given up is the guest's, too: nobody else is asked for one. */
static void test_guest_rescued(void **state) {
    (void)state;
    for (int yields = 0; yields < 2; yields++) {
        struct tested *t = full(1, 1, 1, 1, true);
        struct peers_endpoint six = open_node(6);
        assert_int_equal(offers(t, 6, 6, 0, PEERS_LAST), 0);
        assert_true(peers_link_of(t->p, 6)->flags & LINK_RESCUED);
        assert_int_equal(from(t, 6, &six, PEERS_KEEP, 9, 0, 0), 0); /* it has found others */
        t->did[0] = 0;
        assert_int_equal(offers(t, 7, 7, 0, 0), 0);
        expect(t, "YIELD@6 ACCEPT@7 c5 use@7");
        assert_int_equal(t->p->guests, 1);
        if (yields)
            assert_int_equal(from(t, 6, &six, PEERS_BYE, 8, PEERS_YIELDED, 0), 0);
        else
            (void)step(t, EV(LOST, .link = 6));
        assert_true((peers_link_of(t->p, 7)->flags & (LINK_GUEST | LINK_RESCUED)) == LINK_RESCUED);
        assert_true(t->p->guests == 0 && t->p->rescued == 1 && peers_taken(t->p) == 4);
        tested_free(t);
    }
}

/* But one that only who looks may have is of no use to a guest, and is not asked for. */
static void test_guest_looks(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 3, .most = 4, .rescue = 2});
    (void)step(t, EV(START));
    for (uint32_t i = 1; i <= 4; i++) joins(t, i, i, 0);
    struct peers_frame f = {.kind = PEERS_OFFER, .what = PEERS_MESH, .n = 1, .count = 9, .e = {open_node(6)}};
    assert_int_equal(step(t, EV(FRAME, .link = 6, .id = node(6), .frame = &f, .looks = true)), 0);
    expect(t, "ACCEPT@6 c4 use@6");
    assert_int_equal(offers(t, 7, 7, 0, 0), 0);
    expect(t, "REFUSE@7 c5 drop@7w0");
    peers_link_of(t->p, 1)->count = 3;
    assert_int_equal(offers(t, 8, 8, 0, 0), 0);
    expect(t, "YIELD@1 ACCEPT@8 c5 use@8");
    (void)step(t, EV(LOST, .link = 6)); /* nor does it get it when it becomes free */
    assert_true(peers_link_of(t->p, 8)->flags & LINK_GUEST);
    assert_int_equal(t->p->rescued, 0);
    tested_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guests),          cmocka_unit_test(test_likes),        cmocka_unit_test(test_likes_taken),
        cmocka_unit_test(test_guest_rescued),   cmocka_unit_test(test_guest_looks),  cmocka_unit_test(test_likes_kept),
        cmocka_unit_test(test_likes_stay_kept), cmocka_unit_test(test_likes_sought),
    };
    return cmocka_run_group_tests_name("peers likes", tests, NULL, NULL);
}
