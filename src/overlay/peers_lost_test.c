/* SPDX-License-Identifier: Apache-2.0 */
/* Links that are lost: a key that has ended, sessions that wait, the last link, many at once; when others are looked
 * for then. */
#include "overlay/peers_testkit.h"

/* Until a link is looked for or the rendezvous looked at, at most so long. False: it was not. */
static bool does_within(struct tested *t, const char *what, moyai_ns span) {
    moyai_ns until = t->now + span;
    t->did[0] = 0;
    while (!strstr(t->did, what) && peers_deadline(t->p) <= until) wait_next(t);
    return strstr(t->did, what);
}

/* A link that ended for its key is made anew at once, whichever end has said so, be it the only one or not: the node is
 * there. */
static void test_key_ended(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct tested *t = tested_new((struct peers_cfg){.seed = seed, .degree = 15});
        struct peers_endpoint one = open_node(1);
        (void)step(t, EV(START));
        joins(t, 1, 1, 3);
        if (seed & 2) joins(t, 2, 2, 3);
        (void)step(t, EV(LOOKED));
        t->did[0] = 0;
        t->dialled_n = 0;
        t->now += 100 * SEC;
        (void)step(t, EV(TIMEOUT));
        if (seed & 1)
            (void)step(t, EV(LOST, .link = 1, .what = PEERS_SILENT));
        else
            (void)from(t, 1, &one, PEERS_BYE, 0, PEERS_SILENT, 0);
        assert_true(does_within(t, "connect", 300 * MS));
        assert_int_equal(t->dialled[0], 1);
        tested_free(t);
    }
}

/* Where somebody was met who has gone it is looked soon, and then later and later; of many some look each time. */
static void test_away(void **state) {
    (void)state;
    uint32_t all = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const bool many = seed % 2;
        struct tested *t = tested_new((struct peers_cfg){.seed = seed, .degree = 2, .rendezvous = 40 * MOYAI_SEC});
        (void)step(t, EV(START));
        for (uint32_t n = 1; n <= 3; n++) joins(t, n, n, 3);
        for (uint32_t n = 4; many && n < 84; n++) knows(t, open_node(n));
        t->p->exchange_at = t->p->look_at = UINT64_MAX;
        (void)step(t, EV(AWAY, .yes = true));
        const moyai_ns began = t->now;
        moyai_ns last = began;
        uint32_t looks = 0;
        while (peers_deadline(t->p) != UINT64_MAX) {
            t->did[0] = 0;
            wait_next(t);
            t->p->look_at = UINT64_MAX;
            if (!strstr(t->did, "look")) continue;
            if (!many)
                assert_in_range(t->now - last, last == began ? 500 * MS : (last - began) / 4,
                                3 * (last - began) + 1500 * MS);
            last = t->now;
            looks++;
        }
        assert_true(t->now - began < 100 * SEC); /* 1, 2, 4, 8, 16 and 32 s, half of each more or less */
        if (many)
            all += looks;
        else
            assert_int_equal(looks, 6);
        /* Somebody is there again; and who leaves looks for nobody. */
        (void)step(t, EV(AWAY, .yes = true));
        assert_true(peers_deadline(t->p) != UINT64_MAX);
        (void)step(t, EV(AWAY));
        assert_int_equal(peers_deadline(t->p), UINT64_MAX);
        (void)step(t, EV(AWAY, .yes = true));
        (void)step(t, EV(LEAVE));
        assert_int_equal(peers_deadline(t->p), UINT64_MAX);
        (void)step(t, EV(AWAY, .yes = true));
        assert_int_equal(peers_deadline(t->p), UINT64_MAX);
        tested_free(t);
    }
    assert_in_range(all, 1, 30 * 6 / 3); /* 8 of 84 each time */
}

/* Who was lost lately is called again soon if a session waits, and the rendezvous looked at; some times only. */
static void test_waits(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct tested *t = tested_new((struct peers_cfg){.seed = seed, .degree = 15, .rendezvous = 80000 * MOYAI_SEC});
        (void)step(t, EV(START));
        joins(t, 1, 1, 3);
        joins(t, 2, 2, 3);
        joins(t, 3, 3, 3);
        (void)step(t, EV(LOOKED));
        (void)step(t, EV(WAITS));
        assert_false(does_within(t, "look", 20 * SEC)); /* no link has broken */
        bool gone = seed % 3 == 0;
        struct peers_endpoint one = open_node(1);
        if (gone)
            (void)step(t, EV(GONE, .id = node(1)));
        else if (seed % 3 == 1)
            (void)step(t, EV(LOST, .link = 1));
        else /* as all links that were made with a key which has ended */
            (void)from(t, 1, &one, PEERS_BYE, 0, PEERS_SILENT, 0);
        moyai_ns lost = t->now;
        int looks = 0, calls = 0;
        t->dialled_n = 0;
        while (t->now < lost + 10 * SEC) { /* the driver says it with each attempt to find a path */
            t->did[0] = 0;
            (void)step(t, EV(WAITS));
            moyai_ns turn = t->now + 200 * MS;
            while (peers_deadline(t->p) <= turn) wait_next(t);
            t->now = turn;
            if (strstr(t->did, "connect")) (void)step(t, EV(FAILED, .id = node(1)));
            calls += strstr(t->did, "connect") != NULL;
            looks += strstr(t->did, "look") != NULL;
            if (strstr(t->did, "look")) assert_true(looks > 1 || t->now - lost <= 1000 * MS);
        }
        assert_in_range(looks, 6, 8); /* 0.5, 1.5, 2.5, ... 7.5 s, half of each span more or less */
        assert_true(gone ? calls == 0 : calls >= looks && calls <= looks + 2);
        t->did[0] = 0;
        while (t->now < lost + 100 * SEC) {
            (void)step(t, EV(WAITS));
            t->now += 200 * MS;
            (void)step(t, EV(TIMEOUT));
            if (strstr(t->did, "connect")) (void)step(t, EV(FAILED, .id = node(1)));
            looks += strstr(t->did, "look") != NULL;
            t->did[0] = 0;
        }
        assert_int_equal(looks, 8);
        /* Whoever is found by such a look is called at once, whatever failed before. */
        (void)step(t, EV(LOST, .link = 2));
        t->p->misses = 16;
        t->p->gap_at = t->now + 30 * SEC;
        (void)step(t, EV(WAITS));
        assert_true(does_within(t, "look", SEC));
        t->p->gap_at = t->now + 30 * SEC;
        for (uint32_t i = 0; i < t->p->known_n; i++) peers_knowns(t->p)[i].retry = t->now + 60 * SEC;
        knows(t, open_node(20));
        (void)step(t, EV(LOOKED, .entries = 1));
        t->dialled_n = 0;
        assert_true(does_within(t, "connect", 200 * MS));
        assert_int_equal(t->dialled[0], 20);
        (void)step(t, EV(FAILED, .id = node(20)));
        /* No session waits any more; and who leaves looks for nobody. */
        assert_false(does_within(t, "look", 30 * SEC));
        (void)step(t, EV(LOST, .link = 3));
        (void)step(t, EV(WAITS));
        (void)step(t, EV(LEAVE));
        (void)step(t, EV(WAITS));
        assert_int_equal(t->p->again_at, UINT64_MAX);
        tested_free(t);
    }
}

/* Whose last link has ended, as a relay is killed and started again: for as long as sessions are kept he looks and
 * calls each second, but not all who have lost it in the same moment. Then less and less. */
static void test_last_lost(void **state) {
    (void)state;
    moyai_ns earliest = UINT64_MAX, latest = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct tested *t = tested_new((struct peers_cfg){.seed = seed});
        (void)step(t, EV(START));
        (void)step(t, EV(LOOKED));
        joins(t, 1, 1, 3);
        t->now += 14 * SEC;
        (void)step(t, EV(LOST, .link = 1));
        const moyai_ns lost = t->now, soon = lost + 10 * SEC;
        moyai_ns look = lost, call = lost;
        int looks = 0, more = 0;
        while (peers_deadline(t->p) <= lost + 60 * SEC) {
            t->did[0] = 0;
            t->dialled_n = 0;
            if (t->now < soon) (void)step(t, EV(WAITS)); /* which makes it no more */
            wait_next(t);
            if (strstr(t->did, "look")) {
                looks += t->now < soon;
                more += t->now >= soon;
                if (t->now < soon) assert_true(t->now - look <= (looks == 1 ? 150 : 1500) * MS);
                if (looks == 2 && t->now - lost < earliest) earliest = t->now - lost;
                if (looks == 2 && t->now - lost > latest) latest = t->now - lost;
                t->now += 20 * MS;
                look = t->now;
                (void)step(t, EV(LOOKED, .entries = 1));
            }
            if (t->dialled_n == 0) continue;
            assert_true(t->now >= soon || t->now - call <= 1600 * MS);
            call = t->now;
            (void)step(t, EV(FAILED, .id = node(1)));
        }
        assert_in_range(looks, 7, 14);
        assert_in_range(more, 3, 9); /* after 1, 2, 4, ... s */
        tested_free(t);
    }
    assert_true(latest - earliest >= SEC / 2);
}

/* Who comes meanwhile is called as soon as he is heard of; that he has no place is worth no hurry. */
static void test_last_lost_found(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct tested *t = tested_new((struct peers_cfg){.seed = seed});
        (void)step(t, EV(START));
        (void)step(t, EV(LOOKED));
        joins(t, 1, 1, 3);
        t->now += 14 * SEC;
        (void)step(t, EV(LOST, .link = 1));
        while (t->dialled_n == 0) {
            t->did[0] = 0;
            wait_next(t);
            if (strstr(t->did, "look")) (void)step(t, EV(LOOKED, .entries = 1));
        }
        (void)step(t, EV(FAILED, .id = node(1)));
        assert_true(does_within(t, "look", 1500 * MS));
        peers_knowns(t->p)[0].retry = 0; /* it is not the one that is called */
        t->p->streak[0] = 2;
        t->p->gap_at = t->now + 30 * SEC;
        knows(t, open_node(20));
        t->dialled_n = 0;
        (void)step(t, EV(LOOKED, .entries = 1));
        while (t->dialled_n == 0) {
            assert_true(peers_deadline(t->p) < t->now + 200 * MS);
            wait_next(t);
        }
        assert_int_equal(t->dialled[0], 20);
        struct peers_endpoint e = open_node(20);
        (void)step(t, EV(UP, .link = 2, .id = e.id));
        assert_int_equal(from(t, 2, &e, PEERS_REFUSE, 45, PEERS_FULL, 0), 0);
        moyai_ns refused = t->now;
        int looks = 0;
        while (peers_deadline(t->p) <= refused + 8 * SEC) {
            t->did[0] = 0;
            wait_next(t);
            if (!strstr(t->did, "look")) continue;
            looks++;
            (void)step(t, EV(LOOKED, .entries = 1));
        }
        assert_in_range(looks, 1, 5); /* now, 1, 2, 4 s */
        tested_free(t);
    }
}

/* Of many that were lost at once as many are called as may be, before any other; each time others. */
static void test_many_lost(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 20, .attempts = 3, .gap = MOYAI_MS});
    (void)step(t, EV(START));
    (void)step(t, EV(LOOKED));
    for (uint32_t i = 1; i <= 12; i++) joins(t, i, i, 3);
    for (uint32_t i = 2; i <= 10; i++) (void)step(t, EV(LOST, .link = i));
    for (uint32_t i = 1; i <= 9; i++) peers_knowns(t->p)[i].fails = 9;
    for (uint32_t i = 30; i < 60; i++) knows(t, open_node(i));
    t->dialled_n = 0;
    t->p->gap_at = t->now + 30 * SEC;
    (void)step(t, EV(WAITS));
    assert_true(does_within(t, "look", SEC));
    while (t->dialled_n < 3) wait_next(t);
    for (uint32_t i = 0; i < 3; i++) assert_in_range(t->dialled[i], 2, 10);
    assert_int_equal(peers_count(t->p).open, 3);
    for (uint32_t i = 0; i < 3; i++) (void)step(t, EV(FAILED, .id = node(t->dialled[i])));
    t->did[0] = 0;
    while (t->dialled_n < 4) wait_next(t);
    assert_in_range(t->dialled[3], 30, 60); /* then any other */
    tested_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits),     cmocka_unit_test(test_away),      cmocka_unit_test(test_key_ended),
        cmocka_unit_test(test_many_lost), cmocka_unit_test(test_last_lost), cmocka_unit_test(test_last_lost_found),
    };
    return cmocka_run_group_tests_name("peers lost", tests, NULL, NULL);
}
