/* SPDX-License-Identifier: Apache-2.0 */
/* Links that others open: whom to take, whom to make room for and how, two offers that cross; what a peer may say. */
#include "overlay/peers_testkit.h"

static void test_full(void **state) {
    (void)state;
    struct tested *t = full(2, 2, 2, 2, true);
    assert_int_equal(offers(t, 5, 5, 1, PEERS_ACCEPTS), 0); /* nobody has two more than it */
    expect(t, "REFUSE@5 c4 drop@5w0");
    assert_int_equal(t->last.frame.n, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(number(&t->last.frame.e[i].id) <= 4);
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(number(&t->last.frame.e[i].id), number(&t->last.frame.e[k].id));
    }
    assert_int_equal(offers(t, 6, 6, 0, PEERS_ACCEPTS), 0);
    assert_non_null(strstr(t->did, "YIELD@"));
    tested_free(t);
}

static void test_yield(void **state) {
    (void)state;
    struct tested *t = full(2, 4, 3, 3, true);
    struct peers_endpoint two = open_node(2), three = open_node(3), four = open_node(4);
    assert_int_equal(offers(t, 5, 5, 1, 0), 0);
    expect(t, "YIELD@2 c1 ACCEPT@5 c4 use@5"); /* the richest is asked */
    assert_int_equal(peers_count(t->p).mesh, 5);
    assert_true(peers_link_of(t->p, 5)->flags & LINK_GUEST);
    assert_int_equal(from(t, 2, &two, PEERS_BYE, 3, PEERS_YIELDED, 0), 0);
    expect(t, "drop@2w2");
    assert_false(peers_link_of(t->p, 5)->flags & LINK_GUEST);
    /* The next: 3 keeps its link, 4 too; the guest is put out. */
    assert_int_equal(offers(t, 6, 6, 1, 0), 0);
    assert_true(!strcmp(t->did, "YIELD@3 c1 ACCEPT@6 c4 use@6") || !strcmp(t->did, "YIELD@4 c1 ACCEPT@6 c4 use@6"));
    bool first = t->did[6] == '3';
    t->did[0] = 0;
    assert_int_equal(from(t, first ? 3 : 4, first ? &three : &four, PEERS_KEEP, 2, 0, 0), 0);
    expect(t, first ? "YIELD@4 c1" : "YIELD@3 c1");
    moyai_ns at = t->now;
    while (!strstr(t->did, "drop")) wait_next(t); /* the other never answers */
    assert_int_equal(t->now, at + 5 * SEC);
    assert_non_null(strstr(t->did, "REFUSE@6 c5 drop@6w0"));
    assert_int_equal(peers_count(t->p).mesh, 4);
    t->did[0] = 0;
    /* It says it has many and keeps it: it is not asked again for the same newcomer. */
    assert_int_equal(from(t, first ? 3 : 4, first ? &three : &four, PEERS_KEEP, 9, 0, 0), 0);
    assert_int_equal(offers(t, 7, 7, 1, 0), 0);
    t->did[0] = 0;
    assert_int_equal(from(t, first ? 3 : 4, first ? &three : &four, PEERS_KEEP, 9, 0, 0), 0);
    assert_non_null(strstr(t->did, "drop@7w0"));
    tested_free(t);
}

/* A count older than a minute may have become what all strive for. */
static void test_old_count(void **state) {
    (void)state;
    struct tested *t = full(1, 1, 1, 1, true);
    assert_int_equal(offers(t, 5, 5, 1, 0), 0);
    expect(t, "REFUSE@5 c4 drop@5w0");
    t->now += 60 * SEC;
    assert_int_equal(offers(t, 6, 6, 1, 0), 0);
    assert_non_null(strstr(t->did, "use@6"));
    t->did[0] = 0;
    assert_int_equal(offers(t, 7, 7, 2, 0), 0); /* 3 >= 2 + 2 is not so */
    assert_non_null(strstr(t->did, "drop@7w0"));
    tested_free(t);
}

/* A node that accepts and has more than it needs makes room for one that does not accept; the former are asked first.
 */
static void test_who_accepts(void **state) {
    (void)state;
    struct tested *t = full(4, 4, 4, 4, true);
    peers_link_of(t->p, 1)->flags &= (uint8_t)~LINK_ACCEPTS;
    peers_link_of(t->p, 1)->count = 9;
    assert_int_equal(offers(t, 5, 5, 2, PEERS_ACCEPTS), 0);
    assert_non_null(strstr(t->did, "YIELD@2 c2 ")); /* though 1 has more */
    t->did[0] = 0;
    tested_free(t);
    t = full(9, 9, 9, 9, true);
    assert_int_equal(offers(t, 6, 6, 3, PEERS_ACCEPTS), 0); /* it has what it needs */
    assert_non_null(strstr(t->did, "drop@6w0"));
    t->did[0] = 0;
    for (uint32_t i = 1; i <= 4; i++) peers_link_of(t->p, i)->count = 3;
    assert_int_equal(offers(t, 7, 7, 2, 0), 0);
    assert_non_null(strstr(t->did, "drop@7w0"));
    t->did[0] = 0;
    peers_link_of(t->p, 3)->count = 4; /* 4 >= 2 + 2 */
    assert_int_equal(offers(t, 8, 8, 2, 0), 0);
    assert_non_null(strstr(t->did, "YIELD@3 c2 "));
    tested_free(t);
    t = full(4, 4, 4, 4, true); /* the same if the one that does not accept comes last */
    peers_link_of(t->p, 4)->flags &= (uint8_t)~LINK_ACCEPTS;
    peers_link_of(t->p, 4)->count = 9;
    assert_int_equal(offers(t, 5, 5, 2, 0), 0);
    assert_non_null(strstr(t->did, "YIELD@1 c2 "));
    tested_free(t);
}

/* A mesh link to node n was opened from here, and is not answered yet. */
static void opens(struct tested *t, uint64_t link, uint32_t n) {
    uint32_t before = t->dialled_n;
    knows(t, open_node(n));
    t->p->gap_at = t->p->dry_until = 0;
    while (t->dialled_n == before) wait_next(t);
    assert_int_equal(t->dialled[before], n);
    assert_int_equal(step(t, EV(UP, .link = link, .id = node(n))), 0);
    t->did[0] = 0;
}

static void joins_direct(struct tested *t, uint64_t link, uint32_t n, uint32_t count) {
    struct peers_endpoint e = open_node(n);
    assert_int_equal(from(t, link, &e, PEERS_OFFER, count, PEERS_DIRECT, PEERS_ACCEPTS), 0);
    assert_true(peers_link_of(t->p, link)->kind == PEERS_DIRECT);
    t->did[0] = 0;
}

/* For a newcomer's place nobody is asked whose link is not in use, or not of the mesh. */
static void test_victims(void **state) {
    (void)state;
    const struct peers_cfg c = {.degree = 3, .most = 4, .rescue = 1};
    struct tested *t = tested_new(c);
    (void)step(t, EV(START));
    opens(t, 40, 400); /* of which nothing is known, as of one that has what it needs */
    for (uint32_t i = 1; i <= 4; i++) joins(t, i, i, 1);
    assert_int_equal(offers(t, 6, 6, 1, 0), 0);
    expect(t, "REFUSE@6 c4 drop@6w0");
    tested_free(t);
    t = tested_new(c);
    (void)step(t, EV(START));
    joins_direct(t, 30, 300, 9);
    for (uint32_t i = 1; i <= 3; i++) joins(t, i, i, 1);
    assert_int_equal(offers(t, 6, 6, 1, 0), 0);
    expect(t, "REFUSE@6 c3 drop@6w0");
    tested_free(t);
}

/* One more link than there must be, 50 to node 400, is accepted by a node with so many. */
static void one_more(struct tested *t, uint64_t site, uint32_t count) {
    t->p->extra = 1;
    opens(t, 50, 400);
    struct peers_endpoint e = at_site(400, site, true);
    assert_int_equal(from(t, 50, &e, PEERS_ACCEPT, count, 0, PEERS_ACCEPTS), 0);
}

static struct tested *three(uint32_t most, uint64_t site, uint32_t a, uint32_t b, uint32_t c) {
    struct tested *t = tested_new((struct peers_cfg){.degree = 3, .most = most});
    (void)step(t, EV(START));
    const uint32_t counts[] = {a, b, c};
    for (uint32_t i = 0; i < 3; i++) {
        struct peers_endpoint e = at_site(1 + i, site ? site : 1001 + i, true);
        assert_int_equal(from(t, 1 + i, &e, PEERS_OFFER, counts[i] - 1, PEERS_MESH, PEERS_ACCEPTS), 0);
    }
    return t;
}

/* Who is asked to do without when there is one link more than needed. */
static void test_retire(void **state) {
    (void)state;
    struct tested *t = three(4, 0, 1, 2, 1); /* a single link is nobody's to give */
    one_more(t, 1400, 9);
    expect(t, "use@50 ASK@50 c4 YIELD@2 f4");
    struct peers_endpoint two = open_node(2), e = open_node(400);
    assert_int_equal(from(t, 2, &two, PEERS_KEEP, 2, 0, 0), 0);
    expect(t, ""); /* no newcomer waits: so it is */
    tested_free(t);

    t = three(4, 0, 1, 1, 1); /* nobody; not the one that was added either */
    one_more(t, 1400, 9);
    expect(t, "use@50 ASK@50 c4");
    tested_free(t);

    t = three(4, 0, 1, 1, 1); /* but for who said so a minute ago */
    t->p->extra = 1;
    opens(t, 50, 400);
    peers_link_of(t->p, 2)->counted = t->now - PEERS_TOLD;
    assert_int_equal(from(t, 50, &e, PEERS_ACCEPT, 9, 0, PEERS_ACCEPTS), 0);
    expect(t, "use@50 ASK@50 c4 YIELD@2 f4");
    tested_free(t);

    t = three(4, 0, 5, 5, 5); /* one was lost meanwhile: it is needed */
    t->p->extra = 1;
    opens(t, 50, 400);
    (void)step(t, EV(LOST, .link = 3));
    t->did[0] = 0;
    assert_int_equal(from(t, 50, &e, PEERS_ACCEPT, 9, 0, PEERS_ACCEPTS), 0);
    expect(t, "use@50 ASK@50 c3");
    tested_free(t);

    t = three(3, 0, 1, 4, 1); /* no place for it: as for a newcomer without links */
    one_more(t, 1400, 9);
    expect(t, "use@50 ASK@50 c4 YIELD@2");
    tested_free(t);
}

/* Nobody whose link is not in use, is not of the mesh, or is being asked for already. */
static void test_retire_whom(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 3, .most = 9});
    (void)step(t, EV(START));
    opens(t, 40, 600);
    joins_direct(t, 30, 300, 9);
    joins(t, 1, 1, 9);
    joins(t, 2, 2, 0);
    joins(t, 3, 3, 0);
    peers_link_of(t->p, 1)->flags |= LINK_YIELD;
    peers_link_of(t->p, 1)->due = t->now + 100 * SEC;
    one_more(t, 1400, 9);
    expect(t, "use@50 ASK@50 c4");
    tested_free(t);
}

/* Nor are those to nodes that accept, at one that does. */
static void test_retire_like(void **state) {
    (void)state;
    for (uint32_t likes = 1; likes <= 2; likes++) { /* and the new one; two are to stay */
        struct tested *t = tested_new((struct peers_cfg){.degree = 6, .most = 9});
        (void)step(t, EV(START));
        for (uint32_t i = 1; i <= 6; i++) joins(t, i, i, 9);
        accept_not(t, likes + 1, 6);
        for (uint32_t i = 2; i <= 6; i++) {
            peers_link_of(t->p, i)->flags |= LINK_YIELD;
            peers_link_of(t->p, i)->due = t->now + 100 * SEC;
        }
        one_more(t, 1400, 9);
        expect(t, likes == 1 ? "use@50 ASK@50 c7" : "use@50 ASK@50 c7 YIELD@1 f4");
        tested_free(t);
    }
}

/* The last links to other sites are not for giving up, whatever the number of all. */
static void test_retire_far(void **state) {
    (void)state;
    struct tested *t = three(9, 1, 1, 5, 1);
    assert_int_equal(t->p->far, 0);
    one_more(t, 1400, 9);
    expect(t, "use@50 ASK@50 c1 YIELD@2 f4");
    tested_free(t);
    t = three(9, 1, 1, 1, 1);
    (void)step(t, EV(LOST, .link = 2));
    joins(t, 9, 9, 5); /* the far one */
    assert_int_equal(t->p->far, 1);
    one_more(t, 1, 9);
    expect(t, "use@50 ASK@50 c4");
    tested_free(t);
}

/* Links to other sites are not looked for while nobody of another site is known. */
static void test_near_only(void **state) {
    (void)state;
    struct tested *t = three(9, 1, 1, 1, 1);
    knows(t, at_site(20, 1, true));
    t->p->gap_at = t->p->dry_until = 0;
    wait_next(t);
    assert_int_equal(t->p->near_n, t->p->known_n);
    assert_int_equal(t->p->dry_until, 0); /* nor was it tried */
    knows(t, open_node(21));
    while (!t->dialled_n) wait_next(t);
    assert_int_equal(t->dialled[0], 21);
    tested_free(t);
}

/* All places are taken, by lines, which no other limit has. */
static void test_places(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 1, .most = 1, .rescue = 1, .attempts = 1});
    (void)step(t, EV(START));
    uint32_t cap = t->p->links_cap;
    for (uint32_t i = 1; i <= cap + 1; i++) {
        t->did[0] = 0;
        struct peers_endpoint e = open_node(i);
        assert_int_equal(from(t, i, &e, PEERS_OFFER, 0, PEERS_LINE, 0), 0);
        assert_true((strstr(t->did, "use@") != NULL) == (i <= cap));
    }
    assert_int_equal(t->p->links_n, cap);
    tested_free(t);
}

/* Asked itself. */
static void test_asked(void **state) {
    (void)state;
    const struct {
        bool accepts;
        uint32_t links, count, flags;
        bool yes;
    } cases[] = {
        {true, 3, 1, 0, true},
        {true, 3, 1, PEERS_ACCEPTS, true},
        {true, 3, 2, 0, false},
        {true, 2, 0, 0, true},
        {true, 1, 0, 0, false},
        {true, 4, 2, PEERS_ACCEPTS, true},
        {false, 4, 2, 0, true},
        {false, 4, 3, 0, false},
        {true, 4, 3, 0, false},
        {true, 3, 0, PEERS_RETIRE, false},
        {true, 4, 0, PEERS_RETIRE, true},
        {true, 4, 9, PEERS_RETIRE, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tested *t =
            tested_new((struct peers_cfg){.self = at_site(500, 1, cases[i].accepts), .degree = 3, .most = 9});
        (void)step(t, EV(START));
        for (uint32_t k = 1; k <= cases[i].links; k++) joins(t, k, k, 1);
        struct peers_endpoint e = open_node(1);
        assert_int_equal(from(t, 1, &e, PEERS_YIELD, cases[i].count, 0, cases[i].flags), 0);
        char text[32];
        snprintf(text, sizeof text, "KEEP@1 c%" PRIu32, cases[i].links);
        if (cases[i].yes)
            assert_non_null(strstr(t->did, "w2 drop@1w2")); /* BYE first */
        else
            assert_string_equal(t->did, text);
        tested_free(t);
    }
    /* Of five, a line stays; then one goes. */
    struct tested *t = tested_new((struct peers_cfg){.degree = 4, .most = 9});
    (void)step(t, EV(START));
    for (uint32_t k = 1; k <= 5; k++) joins(t, k, k, 1);
    struct peers_endpoint e = open_node(1), line = open_node(7);
    assert_int_equal(from(t, 7, &line, PEERS_OFFER, 0, PEERS_LINE, 0), 0);
    t->did[0] = 0;
    assert_int_equal(from(t, 7, &line, PEERS_YIELD, 0, 0, 0), 0);
    expect(t, "KEEP@7 c6");
    (void)step(t, EV(LOST, .link = 7));
    t->did[0] = 0;
    t->p->accepts = 0;
    assert_int_equal(from(t, 1, &e, PEERS_YIELD, 3, 0, 0), 0);
    assert_int_equal(peers_count(t->p).mesh, 4); /* 5 >= 3 + 2 */
    t->p->accepts = 1;
    e = open_node(2);
    t->did[0] = 0;
    assert_int_equal(from(t, 2, &e, PEERS_YIELD, 3, 0, 0), 0);
    expect(t, "KEEP@2 c4"); /* not more than it needs */
    joins(t, 8, 8, 1);
    assert_int_equal(from(t, 2, &e, PEERS_YIELD, 3, 0, 0), 0);
    assert_int_equal(peers_count(t->p).mesh, 4);
    tested_free(t);
}

/* The links to other sites are counted apart: they are given up for who has none, not for who has many to its own. */
static void test_far(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 3, .most = 9});
    (void)step(t, EV(START));
    for (uint32_t k = 1; k <= 3; k++) {
        struct peers_endpoint e = at_site(k, 1, true);
        assert_int_equal(from(t, k, &e, PEERS_OFFER, 2, PEERS_MESH, 1), 0);
    }
    expect(t, "look ACCEPT@1 use@1 ACCEPT@2 c1 use@2 ACCEPT@3 c2 use@3"); /* to near ones: all links */
    struct peers_endpoint far = open_node(7), near = at_site(1, 1, true);
    assert_int_equal(from(t, 7, &far, PEERS_OFFER, 2, PEERS_MESH, 1), 0);
    expect(t, "ACCEPT@7 use@7"); /* to a far one: none so far */
    assert_int_equal(t->p->far, 1);
    assert_int_equal(from(t, 7, &far, PEERS_YIELD, 0, 0, 0), 0);
    expect(t, "KEEP@7 c1"); /* the only far one */
    assert_int_equal(from(t, 7, &far, PEERS_YIELD, 0, 0, PEERS_RETIRE), 0);
    expect(t, "KEEP@7 c1");
    assert_int_equal(from(t, 1, &near, PEERS_YIELD, 2, 0, 0), 0);
    expect(t, "BYE@1 c4w2 drop@1w2");
    /* Enough links, but none to another site: that is what it looks for, and only there. */
    (void)step(t, EV(LOST, .link = 7));
    joins(t, 9, 9, 0);
    (void)step(t, EV(LOST, .link = 9));
    struct peers_endpoint own = at_site(11, 1, true);
    assert_int_equal(from(t, 11, &own, PEERS_OFFER, 2, PEERS_MESH, 1), 0);
    assert_true(t->p->mesh == 3 && t->p->far == 0);
    for (uint32_t k = 20; k < 30; k++) knows(t, at_site(k, 1, true));
    t->p->dry_until = 0;
    t->dialled_n = 0;
    while (!t->dialled_n) wait_next(t);
    assert_true(t->dialled[0] == 7 || t->dialled[0] == 9);
    tested_free(t);
}

static void test_kinds(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 3, .most = 6});
    (void)step(t, EV(START));
    struct peers_endpoint e;
    for (uint32_t i = 1; i <= 3; i++) {
        e = open_node(i);
        e.n_text = 0; /* so that it is not called */
        assert_int_equal(from(t, i, &e, PEERS_OFFER, 0, PEERS_DIRECT, 0), 0);
    }
    expect(t, "look ACCEPT@1 use@1 ACCEPT@2 use@2 REFUSE@3 drop@3w0"); /* a third of six */
    assert_int_equal(peers_count(t->p).direct, 2);
    (void)step(t, EV(UP, .link = 8, .id = node(9), .what = PEERS_DIRECT)); /* its own wish likewise */
    expect(t, "drop@8w0");
    (void)step(t, EV(LOST, .link = 1));
    (void)step(t, EV(UP, .link = 8, .id = node(9), .what = PEERS_DIRECT));
    expect(t, "OFFER@8 f1w1");
    e = open_node(10); /* what is offered may be accepted: it has its place */
    e.n_text = 0;
    assert_int_equal(from(t, 10, &e, PEERS_OFFER, 0, PEERS_DIRECT, 0), 0);
    (void)step(t, EV(UP, .link = 19, .id = node(19), .what = PEERS_DIRECT));
    expect(t, "REFUSE@10 drop@10w0 drop@19w0");
    e = open_node(9);
    assert_int_equal(from(t, 8, &e, PEERS_ACCEPT, 0, 0, 0), 0);
    assert_int_equal(peers_count(t->p).direct, 2);
    for (uint32_t i = 11; i <= 14; i++) joins(t, i, i, 1);
    e = open_node(15); /* six in all; but a line has a place */
    assert_int_equal(from(t, 15, &e, PEERS_OFFER, 0, PEERS_LINE, 0), 0);
    assert_non_null(strstr(t->did, "use@15"));
    t->did[0] = 0;
    (void)step(t, EV(LOST, .link = 8)); /* six again, one of them the line */
    e = open_node(16);
    assert_int_equal(from(t, 16, &e, PEERS_OFFER, 0, PEERS_DIRECT, 0), 0);
    expect(t, "REFUSE@16 c5 drop@16w0");
    (void)step(t, EV(UP, .link = 17, .id = node(17), .what = PEERS_DIRECT));
    expect(t, "drop@17w0");
    (void)step(t, EV(UP, .link = 18, .id = node(18), .what = PEERS_LINE));
    assert_non_null(strstr(t->did, "OFFER@18"));
    tested_free(t);
}

/* Who has no more need of a direct link says so, and ends it; of another kind it must not. */
static void test_over(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 3, .most = 6});
    struct peers_endpoint e = open_node(9);
    e.n_text = 0;
    (void)step(t, EV(START));
    (void)step(t, EV(UP, .link = 8, .id = node(9), .what = PEERS_DIRECT));
    assert_int_equal(step(t, EV(CLOSE, .link = 7)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(CLOSE)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(CLOSE, .link = 8)), 0); /* not agreed on yet */
    expect(t, "look OFFER@8 f1w1 drop@8w2");
    assert_int_equal(step(t, EV(CLOSE, .link = 8)), MOYAI_EINVAL);
    (void)step(t, EV(UP, .link = 10, .id = node(9), .what = PEERS_DIRECT));
    assert_int_equal(from(t, 10, &e, PEERS_ACCEPT, 0, 0, 0), 0);
    assert_int_equal(peers_count(t->p).direct, 1);
    t->did[0] = 0;
    assert_int_equal(step(t, EV(CLOSE, .link = 10)), 0);
    expect(t, "BYE@10 w2 drop@10w2");
    assert_int_equal(peers_count(t->p).direct, 0);
    joins(t, 1, 1, 1);
    assert_int_equal(step(t, EV(CLOSE, .link = 1)), MOYAI_EINVAL);
    tested_free(t);
}

/* 3.7: the last sixteenth is for who only looks, who need not say LAST. */
static void test_looks(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 3, .most = 4, .rescue = 33});
    (void)step(t, EV(START));
    for (uint32_t i = 0; i < 4; i++) joins(t, 1 + i, 1 + i, 0);
    uint32_t taken = 0, next = 10;
    for (; next < 50; next++) {
        assert_int_equal(offers(t, next, next, 0, PEERS_LAST), 0);
        taken += strstr(t->did, "use@") != NULL;
        t->did[0] = 0;
    }
    assert_int_equal(taken, 31);
    for (taken = 0; next < 60; next++) {
        struct peers_endpoint e = at_site(next, 1000 + next, false);
        struct peers_frame f = {.kind = PEERS_OFFER, .what = PEERS_MESH, .n = 1, .e = {e}};
        assert_int_equal(step(t, EV(FRAME, .link = next, .id = e.id, .frame = &f, .looks = true)), 0);
        taken += strstr(t->did, "use@") != NULL;
        t->did[0] = 0;
    }
    assert_int_equal(taken, 2);
    assert_int_equal(t->p->rescued, 33);
    tested_free(t);
}

/* And however many look, and first of all, the other places are for members: but for a third of `most`, while there is
 * room. Nobody is asked to give up a link for them. */
static void test_many_look(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 3, .most = 6, .rescue = 33});
    (void)step(t, EV(START));
    t->did[0] = 0;
    uint32_t taken = 0, next = 10;
    for (; next < 60; next++) {
        struct peers_endpoint e = at_site(next, 1000 + next, next & 1);
        struct peers_frame f = {.kind = PEERS_OFFER, .what = PEERS_MESH, .n = 1, .e = {e}};
        f.flags = (next & 1 ? PEERS_ACCEPTS : 0) | (next & 2 ? PEERS_LAST : 0);
        assert_int_equal(step(t, EV(FRAME, .link = next, .id = e.id, .frame = &f, .looks = true)), 0);
        taken += strstr(t->did, "use@") != NULL;
        t->did[0] = 0;
    }
    assert_int_equal(taken, 2 + 2);
    assert_int_equal(t->p->looking[0], 2);
    assert_int_equal(t->p->looking[1], 2);
    for (taken = 0; next < 110; next++) {
        assert_int_equal(offers(t, next, next, 0, PEERS_LAST), 0);
        taken += strstr(t->did, "use@") != NULL;
        t->did[0] = 0;
    }
    assert_int_equal(taken, 4 + 31);
    (void)step(t, EV(LOST, .link = 10)); /* they are for who looks, as before */
    assert_int_equal(t->p->looking[1], 1);
    assert_int_equal(offers(t, 110, 110, 0, PEERS_LAST), 0);
    assert_null(strstr(t->did, "use@"));
    (void)step(t, EV(LOST, .link = 12)); /* one of the others */
    assert_int_equal(t->p->looking[0], 1);
    assert_int_equal(t->p->looking[1], 1);
    tested_free(t);
}

static void test_rescue(void **state) {
    (void)state;
    struct tested *t = full(1, 1, 1, 1, true);
    assert_int_equal(offers(t, 5, 5, 0, 0), 0);
    expect(t, "REFUSE@5 c4 drop@5w0");
    assert_int_equal(offers(t, 6, 6, 0, PEERS_LAST), 0);
    expect(t, "ACCEPT@6 c4 use@6");
    assert_int_equal(t->p->rescued, 1);
    assert_int_equal(offers(t, 7, 7, 0, PEERS_LAST), 0); /* rescue = 1 */
    expect(t, "REFUSE@7 c5 drop@7w0");
    (void)step(t, EV(LOST, .link = 6));
    assert_int_equal(t->p->rescued, 0);
    assert_int_equal(offers(t, 8, 8, 0, PEERS_LAST), 0);
    expect(t, "ACCEPT@8 c4 use@8");
    (void)step(t, EV(LOST, .link = 1)); /* a place: for the next */
    assert_int_equal(offers(t, 9, 9, 0, 0), 0);
    expect(t, "ACCEPT@9 c4 use@9");
    tested_free(t);
}

static struct tested *dialling(uint32_t n) {
    struct tested *t = tested_new((struct peers_cfg){.degree = 3});
    (void)step(t, EV(START));
    knows(t, open_node(n));
    (void)step(t, EV(LOOKED, .entries = 1));
    if (!t->dialled_n) wait_next(t);
    t->did[0] = 0;
    return t;
}

static void test_cross(void **state) {
    (void)state;
    /* Only connecting: it gives way to the other's offer, whoever is lower. */
    for (uint32_t n = 400; n <= 600; n += 200) {
        struct tested *t = dialling(n);
        char text[64];
        assert_int_equal(offers(t, 5, n, 0, PEERS_ACCEPTS), 0);
        snprintf(text, sizeof text, "cancel:%" PRIu32 " ACCEPT@5 use@5", n);
        expect(t, text);
        assert_int_equal(step(t, EV(UP, .link = 6, .id = node(n))), MOYAI_EINVAL);
        assert_int_equal(offers(t, 7, n, 0, PEERS_ACCEPTS), 0); /* and one that comes late */
        expect(t, "REFUSE@7 c1w1 drop@7w1");
        assert_int_equal(offers(t, 8, n, 0, PEERS_ACCEPTS), 0); /* a second has not crossed it */
        expect(t, "REFUSE@8 c1w1 drop@8w1 probe@5");
        tested_free(t);
    }
    for (uint32_t late = 0; late < 2; late++) {
        struct tested *t = dialling(400);
        assert_int_equal(offers(t, 5, 400, 0, PEERS_ACCEPTS), 0);
        t->did[0] = 0;
        t->now += 10 * SEC + late; /* an attempt's time: it may have been under way */
        assert_int_equal(offers(t, 9, 400, 0, PEERS_ACCEPTS), 0);
        /* or much later it has lost the link, or somebody else uses its id */
        expect(t, late ? "REFUSE@9 c1w1 drop@9w1 probe@5" : "REFUSE@9 c1w1 drop@9w1");
        (void)step(t, EV(LOST, .link = 5)); /* of the next one nothing is known */
        assert_int_equal(offers(t, 6, 400, 0, PEERS_ACCEPTS), 0);
        t->did[0] = 0;
        assert_int_equal(offers(t, 7, 400, 0, PEERS_ACCEPTS), 0);
        expect(t, "REFUSE@7 c1w1 drop@7w1");
        tested_free(t);
    }
    /* Both have offered: that of the lower stands. */
    struct tested *t = dialling(600);
    (void)step(t, EV(UP, .link = 5, .id = node(600)));
    assert_int_equal(offers(t, 6, 600, 0, PEERS_ACCEPTS), 0);
    expect(t, "OFFER@5 f1 REFUSE@6 w1 drop@6w1");
    struct peers_endpoint e = open_node(600);
    assert_int_equal(from(t, 5, &e, PEERS_ACCEPT, 0, 0, 0), 0);
    assert_int_equal(peers_count(t->p).mesh, 1);
    tested_free(t);
    t = dialling(400);
    (void)step(t, EV(UP, .link = 5, .id = node(400)));
    assert_int_equal(offers(t, 6, 400, 0, PEERS_ACCEPTS), 0);
    expect(t, "OFFER@5 f1 drop@5w1 ACCEPT@6 use@6");
    assert_int_equal(peers_count(t->p).mesh, 1);
    /* Connected to one that has a link. */
    (void)step(t, EV(UP, .link = 7, .id = node(400), .what = PEERS_LINE));
    expect(t, "drop@7w1");
    tested_free(t);
    t = dialling(400);
    (void)step(t, EV(UP, .link = 7, .id = node(400), .what = PEERS_LINE)); /* a line to whom it was connecting to */
    expect(t, "cancel:400 OFFER@7 f1w2");
    (void)step(t, EV(LOST, .link = 7));
    assert_int_equal(peers_count(t->p).open, 0);
    tested_free(t);
}

/* What may not be said: nothing happens (step looks at the bytes), and the code says whether the link is to be closed.
 */
static void test_said_wrong(void **state) {
    (void)state;
    struct tested *t = dialling(400);
    (void)step(t, EV(UP, .link = 5, .id = node(400)));
    struct peers_endpoint e = open_node(400), other = open_node(3), self = open_node(500);
    for (uint32_t k = 0; k < PEERS_OWN; k++) {
        if (k == PEERS_ACCEPT || k == PEERS_REFUSE || k == PEERS_BYE) continue;
        assert_int_equal(from(t, 5, &e, (enum peers_frame_kind)k, 0, 0, 0), MOYAI_EPROTO);
    }
    struct peers_frame f = {.kind = PEERS_ACCEPT, .n = 1, .e = {other}};
    assert_int_equal(step(t, EV(FRAME, .link = 5, .id = node(400), .frame = &f)), MOYAI_EPROTO); /* another's id */
    assert_int_equal(step(t, EV(FRAME, .link = 5, .id = node(3), .frame = &f)), MOYAI_EINVAL);
    f.n = 0;
    assert_int_equal(step(t, EV(FRAME, .link = 5, .id = node(400), .frame = &f)), MOYAI_EPROTO);
    f.n = 17;
    assert_int_equal(step(t, EV(FRAME, .link = 5, .id = node(400), .frame = &f)), MOYAI_EINVAL);
    f = (struct peers_frame){.kind = PEERS_OWN};
    assert_int_equal(step(t, EV(FRAME, .link = 5, .id = node(400), .frame = &f)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(FRAME, .link = 5, .id = node(400))), MOYAI_EINVAL);
    assert_int_equal(from(t, 9, &other, PEERS_KEEP, 0, 0, 0), MOYAI_EINVAL); /* an unknown link */
    assert_int_equal(from(t, 0, &other, PEERS_OFFER, 0, 0, 0), MOYAI_EPROTO);
    assert_int_equal(from(t, 9, &self, PEERS_OFFER, 0, 0, 0), MOYAI_EPROTO);
    other.id = (struct moyai_node_id){{0}};
    assert_int_equal(from(t, 9, &other, PEERS_OFFER, 0, 0, 0), MOYAI_EPROTO);
    assert_int_equal(from(t, 5, &e, PEERS_ACCEPT, 0, 0, 0), 0);
    assert_int_equal(from(t, 5, &e, PEERS_ACCEPT, 0, 0, 0), MOYAI_EPROTO);
    assert_int_equal(from(t, 5, &e, PEERS_OFFER, 0, 0, 0), MOYAI_EPROTO);
    assert_int_equal(from(t, 5, &e, PEERS_KEEP, 0, 0, 0), 0); /* not asked: perhaps too late */
    t->did[0] = 0;
    assert_int_equal(from(t, 5, &e, PEERS_BYE, 0, PEERS_LEAVING, 0), 0);
    expect(t, "drop@5w4");
    /* Effects must be fetched before the next event. */
    struct peers_event ev = EV(LEAVE, .now = t->now);
    struct peers_effect fx;
    ev.kind = PEERS_EV_FRAME;
    f = (struct peers_frame){.kind = PEERS_OFFER, .n = 1, .e = {e}};
    ev.frame = &f;
    ev.id = e.id;
    ev.link = 12;
    assert_int_equal(peers_step(t->p, &ev), 0);
    ev.link = 13;
    assert_int_equal(peers_step(t->p, &ev), MOYAI_EINVAL);
    while (peers_next(t->p, &fx)) {
    }
    tested_free(t);
}

/* What was offered and is not answered counts as an attempt, and as a link to come. */
static void test_under_way(void **state) {
    (void)state;
    for (uint32_t attempts = 1; attempts <= 4; attempts += 3) {
        struct tested *t = tested_new((struct peers_cfg){.degree = 2, .attempts = attempts});
        (void)step(t, EV(START));
        for (uint32_t i = 1; i <= 5; i++) knows(t, open_node(i));
        (void)step(t, EV(LOOKED, .entries = 5));
        for (uint64_t link = 1; link <= 8; link++) {
            if (t->dialled_n < link) wait_next(t);
            if (t->dialled_n < link) break;
            (void)step(t, EV(UP, .link = link, .id = node(t->dialled[link - 1])));
        }
        assert_int_equal(t->dialled_n, attempts == 1 ? 1 : 2);
        assert_int_equal(peers_count(t->p).open, t->dialled_n);
        /* A direct link that was offered is neither. */
        (void)step(t, EV(UP, .link = 20, .id = node(90), .what = PEERS_DIRECT));
        struct peers_endpoint e = open_node(t->dialled[0]);
        assert_int_equal(from(t, 1, &e, PEERS_REFUSE, 0, PEERS_FULL, 0), 0);
        uint32_t before = t->dialled_n;
        for (int i = 0; i < 9 && t->dialled_n == before; i++) wait_next(t);
        assert_int_equal(t->dialled_n, before + 1);
        assert_non_null(peers_link_of(t->p, 20)); /* and while it is */
        tested_free(t);
    }
}

/* Only who could not be reached makes its kind doubtful. */
static void test_streak(void **state) {
    (void)state;
    struct tested *t = dialling(400);
    (void)step(t, EV(FAILED, .id = node(400)));
    assert_int_equal(t->p->streak[0], 1);
    while (!strstr(t->did, "connect")) wait_next(t);
    while (!strstr(t->did, "cancel")) wait_next(t);
    assert_int_equal(t->p->streak[0], 2);
    t->did[0] = 0;
    while (!strstr(t->did, "connect")) wait_next(t);
    (void)step(t, EV(UP, .link = 5, .id = node(400)));
    (void)step(t, EV(LOST, .link = 5));
    assert_int_equal(t->p->streak[0], 2);
    assert_int_equal(t->p->misses, 3);
    t->did[0] = 0;
    while (!strstr(t->did, "connect")) wait_next(t);
    (void)step(t, EV(UP, .link = 6, .id = node(400)));
    struct peers_endpoint e = open_node(400);
    assert_int_equal(from(t, 6, &e, PEERS_REFUSE, 0, PEERS_FULL, 0), 0);
    assert_int_equal(t->p->streak[0], 2);
    assert_int_equal(t->p->misses, 4);
    joins(t, 7, 400, 0);
    assert_int_equal(t->p->streak[0] + t->p->misses, 0);
    tested_free(t);
}

/* The end of the last mesh link sends it to the rendezvous at once; that of another, or of a direct one, does not. */
static void test_last(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 2});
    struct peers_endpoint d = open_node(9);
    (void)step(t, EV(START));
    joins(t, 1, 1, 0);
    joins(t, 2, 2, 0);
    (void)from(t, 9, &d, PEERS_OFFER, 0, PEERS_DIRECT, 0);
    moyai_ns look = t->p->look_at;
    assert_true(look > t->now + 10 * SEC);
    (void)step(t, EV(LOST, .link = 1));
    assert_int_equal(t->p->look_at, look);
    (void)step(t, EV(LOST, .link = 2));
    assert_true(t->p->look_at <= t->now + SEC / 5);
    t->p->look_at = look;
    (void)step(t, EV(LOST, .link = 9));
    assert_int_equal(t->p->look_at, look);
    tested_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),        cmocka_unit_test(test_yield),       cmocka_unit_test(test_old_count),
        cmocka_unit_test(test_who_accepts), cmocka_unit_test(test_asked),       cmocka_unit_test(test_far),
        cmocka_unit_test(test_kinds),       cmocka_unit_test(test_over),        cmocka_unit_test(test_rescue),
        cmocka_unit_test(test_looks),       cmocka_unit_test(test_many_look),   cmocka_unit_test(test_cross),
        cmocka_unit_test(test_said_wrong),  cmocka_unit_test(test_under_way),   cmocka_unit_test(test_streak),
        cmocka_unit_test(test_last),        cmocka_unit_test(test_victims),     cmocka_unit_test(test_retire),
        cmocka_unit_test(test_retire_whom), cmocka_unit_test(test_retire_far),  cmocka_unit_test(test_places),
        cmocka_unit_test(test_near_only),   cmocka_unit_test(test_retire_like),
    };
    return cmocka_run_group_tests_name("peers room", tests, NULL, NULL);
}
