/* SPDX-License-Identifier: Apache-2.0 */
/* Opening links: when, how many at once, what follows success and failure; the rendezvous; exchange; ending. */
#include "overlay/peers_testkit.h"

#include "base/rng.h"

static void test_cfg(void **state) {
    (void)state;
    struct peers_cfg good = {.self = open_node(1)}, c = good;
    assert_true(peers_size(&c) > 0 && peers_size(&c) < 200000);
#define BAD(change)                                                                                                    \
    do {                                                                                                               \
        c = good;                                                                                                      \
        change;                                                                                                        \
        assert_int_equal(peers_size(&c), 0);                                                                           \
        assert_int_equal(peers_init(NULL, &c), MOYAI_EINVAL);                                                          \
    } while (0)
    BAD(c.self.id = (struct moyai_node_id){{0}});
    BAD((c.degree = 10, c.most = 9));
    BAD(c.most = 4097);
    BAD(c.degree = 5000);
    BAD(c.rescue = 4097);
    BAD(c.known = 32769);
    BAD(c.attempts = 65);
    BAD(c.text = PEERS_TEXT + 1);
    BAD(c.self.lifetime = PEERS_LIFETIME + 1);
    BAD(c.self.n_text = 3);
    BAD(c.self.text = NULL);
    BAD((c.self.n_text = PEERS_TEXT + 1));
    BAD(c.attempt = -1);
    BAD(c.gap = 3);
    BAD(c.rendezvous = 90000 * MOYAI_SEC);
    BAD(c.exchange = -5);
    c = good;
    c.self.n_text = 0;
    c.self.text = NULL; /* one that nobody can connect to */
    c.self.lifetime = PEERS_LIFETIME;
    c.degree = c.most = 4096;
    c.rescue = 4096;
    c.known = 32768;
    c.attempts = 64;
    c.text = PEERS_TEXT;
    assert_true(peers_size(&c) > 0);
    uint8_t text[PEERS_TEXT]; /* the most addresses in the most bytes */
    memset(text, 'a', sizeof text);
    for (uint32_t i = 0; i < PEERS_ADDRESSES; i++) text[i * PEERS_TEXT / PEERS_ADDRESSES] = 63;
    c.self.text = text;
    c.self.n_text = PEERS_TEXT;
    assert_true(peers_size(&c) > 0);
    c.attempt = 86400 * MOYAI_SEC;
    assert_true(peers_size(&c) > 0);
    c.attempt = 16;
    assert_true(peers_size(&c) > 0);
}

/* What follows from what is given, and how many places are made. */
static void test_sizes(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 5, .rescue = 3, .attempts = 3});
    assert_int_equal(t->p->most, 15);
    assert_int_equal(t->p->gap, 100 * MS);
    assert_int_equal(t->p->links_cap, 15 + 4 + 3 + 16 + 3);
    assert_int_equal(t->p->fx_cap, 16 + 2 * 4 * 3 + t->p->links_cap);
    tested_free(t);
}

/* To whom one from afar has connected, says so: at the rendezvous soon, and to all from then on. */
static void test_reached(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 2});
    (void)step(t, EV(START));
    (void)step(t, EV(LOOKED));
    joins(t, 1, 1, 3);
    assert_false(t->last.frame.e[0].reached); /* ACCEPT */
    t->did[0] = 0;
    assert_int_equal(step(t, EV(REACHED)), 0);
    while (!strstr(t->did, "look")) wait_next(t);
    assert_true(t->now <= 1003 * SEC);
    t->did[0] = 0;
    assert_int_equal(step(t, EV(REACHED)), 0); /* known */
    while (!strstr(t->did, "look")) wait_next(t);
    assert_true(t->now > 1010 * SEC);
    joins(t, 2, 2, 3);
    assert_true(t->last.frame.e[0].reached);
    tested_free(t);
    t = tested_new((struct peers_cfg){.self = at_site(500, 1, false), .degree = 2});
    (void)step(t, EV(START));
    assert_int_equal(step(t, EV(REACHED)), MOYAI_EINVAL);
    tested_free(t);
}

static void test_first(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 2});
    assert_int_equal(step(t, EV(TIMEOUT)), MOYAI_EINVAL); /* not started */
    assert_int_equal(step(t, EV(START)), 0);
    assert_int_equal(step(t, EV(START)), MOYAI_EINVAL);
    assert_int_equal(step(t, (struct peers_event){.kind = (enum peers_event_kind)99}), MOYAI_EINVAL);
    expect(t, "look");
    knows(t, open_node(1));
    knows(t, open_node(2));
    knows(t, open_node(3));
    expect(t, ""); /* first hear all of them */
    assert_int_equal(step(t, EV(LOOKED, .entries = 3)), 0);
    assert_true(peers_deadline(t->p) <= t->now + 50 * MS);
    if (!t->dialled_n) wait_next(t);
    expect(t, "connect");
    wait_next(t); /* the gap */
    expect(t, "connect");
    assert_int_equal(peers_count(t->p).open, 2); /* no more than needed */
    assert_true(peers_deadline(t->p) > t->now + SEC / 4);
    struct peers_endpoint a = open_node(t->dialled[0]), b = open_node(t->dialled[1]);
    assert_int_equal(step(t, EV(UP, .link = 0, .id = a.id)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(UP, .link = 7, .id = node(99))), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(UP, .link = 7, .id = a.id, .what = 3)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(UP, .link = 7, .id = t->cfg.self.id, .what = PEERS_LINE)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(UP, .link = 7, .id = a.id)), 0);
    expect(t, "OFFER@7 f1");
    assert_int_equal(t->last.frame.n, 1);
    assert_int_equal(number(&t->last.frame.e[0].id), 500);
    assert_int_equal(t->last.frame.e[0].lifetime, 600);
    assert_int_equal(step(t, EV(UP, .link = 7, .id = b.id)), MOYAI_EINVAL); /* that number is taken */
    assert_int_equal(from(t, 7, &a, PEERS_ACCEPT, 4, 0, 1), 0);
    expect(t, "use@7 ASK@7 c1"); /* it knows few: so it asks at once */
    assert_int_equal(t->last.frame.n, 3);
    assert_int_equal(step(t, EV(UP, .link = 8, .id = b.id)), 0);
    expect(t, "OFFER@8 c1f1");
    assert_int_equal(from(t, 8, &b, PEERS_ACCEPT, 0, 0, 1), 0);
    assert_int_equal(peers_count(t->p).mesh, 2);
    assert_int_equal(peers_count(t->p).open, 0);
    tested_free(t);
}

/* Of two called at once none answers: with few links others are called after a second, until four times as many are
 * under way; with a third of the links wanted nobody is, and one of them that fails makes room at once.
 */
static void test_unanswered(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 15, .attempts = 2});
    (void)step(t, EV(START));
    for (uint32_t i = 1; i <= 30; i++) knows(t, open_node(i));
    (void)step(t, EV(LOOKED, .entries = 30));
    while (t->dialled_n < 2) wait_next(t);
    const moyai_ns second = t->now;
    while (t->dialled_n < 3) wait_next(t);
    assert_true(t->now >= second + SEC - 150 * MS && t->now <= second + SEC);
    while (t->dialled_n < 8) wait_next(t);
    assert_true(t->now >= second + 3 * SEC - 150 * MS && t->now < second + 4 * SEC);
    assert_int_equal(peers_count(t->p).open, 8);
    while (!strstr(t->did, "cancel")) wait_next(t); /* and no more, until the first two end */
    assert_true(t->now >= second + 9 * SEC && t->dialled_n == 8);
    const uint32_t had = t->dialled_n;
    (void)step(t, EV(FAILED, .id = node(t->dialled[2])));
    while (t->dialled_n == had) wait_next(t);
    assert_true(t->now < second + 12 * SEC);
    for (uint32_t i = 1; i <= 5; i++) joins(t, 100 + i, 100 + i, 3);
    for (uint32_t i = 0; i < t->dialled_n; i++)
        if (peers_count(t->p).open > 2) (void)step(t, EV(FAILED, .id = node(t->dialled[i])));
    const uint32_t then = t->dialled_n;
    const moyai_ns until = t->now + 4 * SEC;
    while (peers_deadline(t->p) < until && peers_count(t->p).open == 2) wait_next(t);
    assert_int_equal(t->dialled_n, then);
    tested_free(t);
}

static void test_failures(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 4, .attempts = 2});
    (void)step(t, EV(START));
    knows(t, open_node(1));
    (void)step(t, EV(LOOKED, .entries = 1));
    if (!t->dialled_n) wait_next(t);
    expect(t, "look connect");
    assert_int_equal(step(t, EV(FAILED, .id = node(2))), MOYAI_EINVAL);
    moyai_ns last = t->now;
    /* With no link at all it is tried again after at most 6 s, however often it fails. */
    for (int i = 0; i < 12; i++) {
        assert_int_equal(step(t, EV(FAILED, .id = node(1))), 0);
        while (!strstr(t->did, "connect")) {
            wait_next(t);
            if (strstr(t->did, "look")) (void)step(t, EV(LOOKED, .entries = 1));
        }
        assert_true(t->now >= last + 2 * SEC - (i ? 0 : SEC / 2) && t->now <= last + 6 * SEC);
        last = t->now;
        t->did[0] = 0;
    }
    /* Neither UP nor FAILED: given up after cfg.attempt. */
    while (!strstr(t->did, "cancel")) wait_next(t);
    assert_int_equal(t->now, last + 10 * SEC);
    /* With links it is left alone for longer and longer. */
    joins(t, 1, 60, 3);
    joins(t, 2, 61, 3);
    moyai_ns spans[4], from_ = t->now;
    for (int i = 0; i < 4; i++) {
        t->did[0] = 0;
        t->dialled_n = 0;
        knows(t, open_node(1)); /* it does not expire meanwhile */
        while (!t->dialled_n || t->dialled[t->dialled_n - 1] != 1) {
            wait_next(t);
            if (t->dialled_n && t->dialled[t->dialled_n - 1] != 1) /* the two are called, if they are not linked */
                fail_msg("called %" PRIu32, t->dialled[t->dialled_n - 1]);
            assert_true(t->now < from_ + 1000 * SEC);
        }
        spans[i] = t->now - from_;
        from_ = t->now;
        assert_int_equal(step(t, EV(FAILED, .id = node(1))), 0);
    }
    assert_true(spans[3] >= 80 * SEC && spans[3] <= 240 * SEC);
    tested_free(t);
}

/* Who knows only one, and is refused, soon says there that it has no link at all: nobody else would take it. */
static void test_only_one(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 3});
    struct peers_endpoint one = open_node(1);
    (void)step(t, EV(START));
    knows(t, one);
    (void)step(t, EV(LOOKED, .entries = 1));
    while (!t->dialled_n) wait_next(t);
    t->did[0] = 0;
    assert_int_equal(step(t, EV(UP, .link = 7, .id = one.id)), 0);
    expect(t, "OFFER@7 f1");
    assert_int_equal(from(t, 7, &one, PEERS_REFUSE, 45, PEERS_FULL, 0), 0);
    moyai_ns refused = t->now;
    while (t->dialled_n == 1) {
        wait_next(t);
        if (strstr(t->did, "look")) (void)step(t, EV(LOOKED, .entries = 1));
        t->did[0] = 0;
    }
    assert_true(t->now - refused <= 1600 * MS);
    assert_int_equal(step(t, EV(UP, .link = 8, .id = one.id)), 0);
    expect(t, "OFFER@8 f3");
    tested_free(t);
}

/* REFUSE: the others named are tried; the node itself later. */
static void test_refused(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 3, .attempts = 1});
    (void)step(t, EV(START));
    knows(t, open_node(1));
    (void)step(t, EV(LOOKED, .entries = 1));
    if (!t->dialled_n) wait_next(t);
    (void)step(t, EV(UP, .link = 1, .id = node(1)));
    expect(t, "look connect OFFER@1 f1");
    struct peers_frame f = {.kind = PEERS_REFUSE, .what = PEERS_FULL, .n = 2, .e = {open_node(8), open_node(9)}};
    assert_int_equal(step(t, EV(FRAME, .link = 1, .id = node(1), .frame = &f)), 0);
    expect(t, "drop@1w0");
    t->dialled_n = 0;
    for (uint64_t link = 2; link < 4; link++) {
        wait_next(t);
        uint32_t n = t->dialled[t->dialled_n - 1];
        assert_true(n == 8 || n == 9);
        (void)step(t, EV(UP, .link = link, .id = node(n)));
        f.n = 0;
        assert_int_equal(step(t, EV(FRAME, .link = link, .id = node(n), .frame = &f)), 0);
    }
    expect(t, "connect OFFER@2 f1 drop@2w0 connect OFFER@3 f1 drop@3w0");
    assert_int_not_equal(t->dialled[0], t->dialled[1]);
    /* Three refusals and no link: it asks to be rescued. */
    while (!strstr(t->did, "connect")) wait_next(t);
    t->did[0] = 0;
    (void)step(t, EV(UP, .link = 4, .id = node(t->dialled[t->dialled_n - 1])));
    expect(t, "OFFER@4 f3");
    /* Refused as a duplicate is no failure; nor is a silent one left waiting. */
    f.what = PEERS_DUPLICATE;
    uint32_t misses = t->p->misses;
    (void)step(t, EV(FRAME, .link = 4, .id = node(t->dialled[t->dialled_n - 1]), .frame = &f));
    assert_int_equal(t->p->misses, misses);
    t->did[0] = 0;
    while (!strstr(t->did, "connect")) wait_next(t);
    (void)step(t, EV(UP, .link = 5, .id = node(t->dialled[t->dialled_n - 1])));
    t->did[0] = 0;
    moyai_ns at = t->now;
    while (!strstr(t->did, "drop")) wait_next(t);
    assert_non_null(strstr(t->did, "drop@5w3"));
    assert_int_equal(t->now, at + 10 * SEC);
    assert_int_equal(t->p->misses, misses + 1);
    tested_free(t);
}

static void test_look(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 2});
    moyai_ns last = t->now, longest = 0;
    (void)step(t, EV(START));
    expect(t, "look");
    for (int i = 0; i < 12; i++) { /* alone: soon again, then as seldom as always */
        (void)step(t, EV(LOOKED));
        while (!strstr(t->did, "look")) wait_next(t);
        moyai_ns span = t->now - last, most = (UINT64_C(1) << (i < 5 ? i : 5)) * SEC;
        if (most > 30 * SEC) most = 30 * SEC;
        assert_true(span >= most / 2 && span <= most * 3 / 2);
        if (span > longest) longest = span;
        last = t->now;
        t->did[0] = 0;
    }
    assert_true(longest > 20 * SEC);
    joins(t, 1, 1, 0);
    joins(t, 2, 2, 0);
    for (int i = 0; i < 20; i++) {
        while (!strstr(t->did, "look")) wait_next(t);
        assert_true(t->now - last >= 15 * SEC && t->now - last <= 45 * SEC);
        last = t->now;
        t->did[0] = 0;
        t->p->extra = 0;
    }
    (void)step(t, EV(LOST, .link = 1));
    assert_true(peers_deadline(t->p) > t->now + MS || t->dialled_n);
    t->now += 2 * SEC;
    (void)step(t, EV(LOST, .link = 2)); /* the last: at once */
    last = t->now;
    while (!strstr(t->did, "look")) wait_next(t);
    assert_true(t->now - last <= 150 * MS);
    tested_free(t);
}

/* Where a node has died its neighbours do not all connect to others in the same moment; who has no link left does. */
static void test_replace(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct tested *t = tested_new((struct peers_cfg){.seed = seed, .degree = 3});
        (void)step(t, EV(START));
        for (uint32_t i = 1; i <= 3; i++) joins(t, i, i, 0);
        (void)step(t, EV(LOOKED));
        for (uint32_t i = 11; i <= 30; i++) knows(t, open_node(i));
        t->now += 20 * SEC;
        t->dialled_n = 0;
        (void)step(t, EV(LOST, .link = 1));
        moyai_ns lost = t->now;
        assert_int_equal(t->dialled_n, 0);
        while (t->dialled_n == 0) wait_next(t);
        assert_true(t->now - lost >= 50 * MS && t->now - lost <= 200 * MS);
        tested_free(t);
    }
}

/* After a look, some open one link more; then another is given up. */
static void test_extra(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 2, .most = 6});
    (void)step(t, EV(START));
    joins(t, 1, 1, 5);
    joins(t, 2, 2, 5);
    knows(t, open_node(3));
    t->did[0] = 0;
    (void)step(t, EV(LOOKED, .entries = 7)); /* of 8 nodes each */
    if (!t->dialled_n) wait_next(t);
    assert_int_equal(t->dialled_n, 1);
    assert_int_equal(t->dialled[0], 3); /* the only one without a link */
    t->did[0] = 0;
    assert_int_equal(t->p->extra, 2);
    (void)step(t, EV(UP, .link = 3, .id = node(3)));
    expect(t, "OFFER@3 f1"); /* with a count of 0 */
    struct peers_endpoint c = open_node(3);
    assert_int_equal(from(t, 3, &c, PEERS_ACCEPT, 5, 0, 1), 0);
    assert_non_null(strstr(t->did, "YIELD@"));
    assert_int_equal(t->last.frame.kind == PEERS_ASK || t->last.frame.flags == PEERS_RETIRE, 1);
    assert_int_equal(t->p->extra, 0);
    uint64_t asked = peers_link_of(t->p, 1)->flags & LINK_YIELD ? 1 : 2;
    assert_true(peers_link_of(t->p, asked)->flags & LINK_YIELD);
    struct peers_endpoint e = open_node((uint32_t)asked);
    t->did[0] = 0;
    assert_int_equal(from(t, asked, &e, PEERS_BYE, 0, PEERS_YIELDED, 0), 0);
    assert_int_equal(peers_count(t->p).mesh, 2);
    /* Nobody left that has no link: nothing is opened, and the wish is forgotten. */
    struct tested *u = tested_new((struct peers_cfg){.degree = 2});
    (void)step(u, EV(START));
    joins(u, 1, 1, 5);
    joins(u, 2, 2, 5);
    (void)step(u, EV(LOOKED, .entries = 2));
    wait_next(u);
    assert_int_equal(u->p->extra, 0);
    assert_int_equal(u->dialled_n, 0);
    /* Of a large grid only some: 8 of n. */
    uint32_t n = 0;
    for (int i = 0; i < 1000; i++) {
        (void)step(u, EV(LOOKED, .entries = 79));
        n += u->p->extra;
        u->p->extra = 0;
    }
    assert_in_range(n, 60, 140);
    tested_free(t);
    tested_free(u);
}

static void test_exchange(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 1, .known = 8});
    (void)step(t, EV(START));
    joins(t, 1, 1, 5);
    joins(t, 2, 2, 5);
    moyai_ns last = t->now;
    knows(t, at_site(7, 1, false)); /* of our own site: for it alone */
    for (uint32_t i = 20; i < 26; i++) knows(t, open_node(i));
    while (!strstr(t->did, "ASK")) {
        wait_next(t);
        t->p->extra = 0;
        if (!strstr(t->did, "ASK")) t->did[0] = 0;
    }
    assert_true(t->now - last >= 60 * SEC && t->now - last <= 180 * SEC);
    const struct peers_frame *f = &t->last.frame;
    assert_int_equal(number(&f->e[0].id), 500);
    assert_int_equal(f->n, 6); /* itself, and five of the six: one is the receiver */
    for (uint32_t i = 1; i < f->n; i++) {
        assert_true(f->e[i].accepts && number(&f->e[i].id) != t->last.link);
        assert_true(f->e[i].lifetime <= 600 - 60 && f->e[i].lifetime >= 600 - 181);
    }
    struct peers_endpoint e = open_node((uint32_t)t->last.link), o = open_node(3 - (uint32_t)t->last.link);
    assert_int_equal(from(t, 3 - t->last.link, &o, PEERS_ANSWER, 1, 0, 0), MOYAI_EPROTO); /* not asked */
    assert_int_equal(from(t, t->last.link, &e, PEERS_ANSWER, 1, 0, 0), 0);
    assert_int_equal(from(t, t->last.link, &e, PEERS_ANSWER, 1, 0, 0), MOYAI_EPROTO); /* only once */
    /* Asked, it answers; a node of its own site also hears of those that only it can reach. */
    struct peers_endpoint near = at_site(40, 1, true);
    t->did[0] = 0;
    assert_int_equal(from(t, 9, &near, PEERS_OFFER, 0, PEERS_MESH, 1), 0);
    expect(t, "ACCEPT@9 c2 use@9");
    assert_int_equal(from(t, 9, &near, PEERS_ASK, 0, 0, 0), 0);
    expect(t, "ANSWER@9 c3");
    bool seen = false;
    for (uint32_t i = 1; i < t->last.frame.n; i++) seen = seen || number(&t->last.frame.e[i].id) == 7;
    assert_true(seen);
    tested_free(t);
}

static void test_leave(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 4});
    (void)step(t, EV(START));
    for (uint32_t i = 1; i < 8; i++) knows(t, open_node(i));
    (void)step(t, EV(LOOKED, .entries = 1));
    while (t->dialled_n < 3) wait_next(t);
    (void)step(t, EV(UP, .link = 4, .id = node(t->dialled[2]), .what = PEERS_MESH));
    t->did[0] = 0;
    (void)step(t, EV(LEAVE));
    char text[64];
    snprintf(text, sizeof text, "cancel:%" PRIu32 " cancel:%" PRIu32 " drop@4w4", t->dialled[0], t->dialled[1]);
    expect(t, text);
    struct peers_endpoint e = open_node(90);
    assert_int_equal(from(t, 5, &e, PEERS_OFFER, 0, PEERS_MESH, 0), 0);
    expect(t, "REFUSE@5 w4 drop@5w4");
    (void)step(t, EV(UP, .link = 6, .id = node(91), .what = PEERS_DIRECT));
    expect(t, "drop@6w4");
    tested_free(t);
}

/* Who is to leave takes only those who have nobody else, or look; and looks for others only without any link. */
static void test_depart(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 4});
    (void)step(t, EV(START));
    for (uint32_t i = 1; i < 8; i++) knows(t, open_node(i));
    joins(t, 5, 60, 0);
    (void)step(t, EV(LOOKED, .entries = 1));
    t->dialled_n = 0;
    (void)step(t, EV(DEPART));
    for (moyai_ns until = t->now + 60 * SEC; t->now < until;) wait_next(t);
    assert_int_equal(t->dialled_n, 0);
    t->did[0] = 0;
    struct peers_endpoint e = open_node(61);
    assert_int_equal(from(t, 6, &e, PEERS_OFFER, 3, PEERS_MESH, PEERS_ACCEPTS), 0);
    assert_non_null(strstr(t->did, "REFUSE@6"));
    assert_non_null(strstr(t->did, "drop@6w4"));
    assert_int_equal(t->last.frame.n, PEERS_OTHERS); /* others are named, as by one that is full */
    t->did[0] = 0;
    assert_int_equal(from(t, 7, &e, PEERS_OFFER, 3, PEERS_MESH, PEERS_ACCEPTS | PEERS_LAST), 0);
    assert_non_null(strstr(t->did, "use@7"));
    joins(t, 8, 62, 0); /* its first */
    struct peers_frame f = {.kind = PEERS_OFFER, .count = 3, .n = 1, .e = {open_node(63)}};
    assert_int_equal(step(t, EV(FRAME, .link = 9, .id = node(63), .frame = &f, .looks = true)), 0);
    assert_non_null(strstr(t->did, "use@9"));
    for (uint64_t link = 5; link <= 9; link++) (void)step(t, EV(LOST, .link = link));
    for (moyai_ns until = t->now + 60 * SEC; t->now < until && !t->dialled_n;) wait_next(t);
    assert_true(t->dialled_n > 0);
    tested_free(t);
}

/* A link that is needed is made whatever there is, also to one that would not be kept, and is taken so. */
static void test_need(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 2, .most = 2, .known = 8, .rescue = 4});
    (void)step(t, EV(START));
    (void)step(t, EV(LOOKED, .entries = 1));
    joins(t, 1, 60, 5);
    joins(t, 2, 61, 5);
    for (uint32_t i = 1; i < 100; i++) knows(t, open_node(i));
    t->did[0] = 0;
    uint32_t made = 0;
    for (uint32_t i = 200; i < 220; i++) {
        const struct peers_endpoint e = open_node(i);
        assert_int_equal(step(t, EV(NEED, .endpoint = &e)), 0);
        assert_int_equal(step(t, EV(NEED, .endpoint = &e)), 0); /* it is being made */
        if (t->dialled_n == made) break;                        /* so many at once */
        assert_int_equal(t->dialled[made++], i);
    }
    assert_int_equal(made, t->p->dials_cap);
    assert_int_equal(step(t, EV(UP, .link = 9, .id = node(200), .what = PEERS_MESH)), 0);
    struct peers_endpoint e = open_node(200), far = at_site(300, 9, false), self = open_node(500);
    assert_int_equal(from(t, 9, &e, PEERS_ACCEPT, 0, 0, 0), 0);
    assert_non_null(strstr(t->did, "use@9"));
    assert_int_equal(step(t, EV(NEED, .endpoint = &far)), 0); /* it cannot be */
    assert_int_equal(step(t, EV(NEED, .endpoint = &self)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(NEED)), MOYAI_EINVAL);
    assert_int_equal(t->dialled_n, made);
    tested_free(t);

    for (int needed = 0; needed < 2; needed++) { /* the other end: full, and nobody would give up */
        t = tested_new((struct peers_cfg){.self = at_site(500, 1, false), .degree = 2, .most = 2, .rescue = 4});
        (void)step(t, EV(START));
        joins(t, 1, 60, 0);
        joins(t, 2, 61, 0);
        struct peers_frame f = {.kind = PEERS_OFFER, .count = 1, .n = 1, .e = {at_site(63, 1, false)}};
        assert_int_equal(step(t, EV(FRAME, .link = 9, .id = node(63), .frame = &f, .needed = needed)), 0);
        assert_int_equal(strstr(t->did, "use@9") != NULL, needed);
        tested_free(t);
        t = tested_new((struct peers_cfg){.degree = 2}); /* nor is it given up for somebody else */
        (void)step(t, EV(START));
        for (uint32_t i = 1; i <= 3; i++) joins(t, i, 60 + i, 5);
        struct peers_frame yield = {.kind = PEERS_YIELD, .count = 0};
        t->did[0] = 0;
        assert_int_equal(step(t, EV(FRAME, .link = 2, .id = node(62), .frame = &yield, .needed = needed)), 0);
        assert_int_equal(!strncmp(t->did, "KEEP@2", 6), needed);
        assert_int_equal(!strncmp(t->did, "BYE@2", 5), !needed);
        assert_int_equal(peers_count(t->p).mesh, 2 + needed);
        tested_free(t);
    }
}

static void test_gone(void **state) {
    (void)state;
    struct tested *t = tested_new((struct peers_cfg){.degree = 4});
    (void)step(t, EV(START));
    knows(t, open_node(1));
    (void)step(t, EV(LOOKED, .entries = 1));
    if (!t->dialled_n) wait_next(t);
    joins(t, 5, 2, 0);
    t->did[0] = 0;
    (void)step(t, EV(GONE, .id = node(1)));
    expect(t, "cancel:1");
    (void)step(t, EV(GONE, .id = node(2)));
    assert_int_equal(peers_count(t->p).mesh, 0);
    assert_int_equal(peers_count(t->p).known, 0);
    assert_int_equal(step(t, EV(LOST, .link = 5)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(LOST, .link = 0)), MOYAI_EINVAL);
    tested_free(t);
}

/* Any list of events: no invariant breaks, and what is refused leaves no trace (step sees to both). */
static void test_random(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct moyai_rng r;
        rng_seed(&r, seed);
        struct tested *t = tested_new((struct peers_cfg){.self = at_site(500, 3, seed & 1),
                                                         .seed = seed,
                                                         .degree = 1 + (uint32_t)rng_below(&r, 5),
                                                         .rescue = 2,
                                                         .known = 4 + (uint32_t)rng_below(&r, 20)});
        (void)step(t, EV(START));
        for (int i = 0; i < 800; i++) {
            struct peers_frame f = {.kind = (enum peers_frame_kind)rng_below(&r, PEERS_FRAMES)};
            struct peers_endpoint e = at_site((uint32_t)rng_below(&r, 40), 1 + rng_below(&r, 4), rng_below(&r, 3) > 0);
            struct peers_event ev = {.kind = (enum peers_event_kind)rng_below(&r, PEERS_EV_TIMEOUT + 1)};
            if (ev.kind == PEERS_EV_LEAVE && rng_below(&r, 50)) ev.kind = PEERS_EV_TIMEOUT;
            ev.link = 1 + rng_below(&r, 30);
            const struct peers_link *l = peers_link_of(t->p, ev.link);
            if (l && rng_below(&r, 8)) {
                memcpy(e.id.b, l->id, 16);
            } else if (t->p->dials_n && rng_below(&r, 2)) {
                memcpy(e.id.b, peers_dials(t->p)[0].id, 16);
            }
            ev.id = e.id;
            ev.what = (uint32_t)(rng_below(&r, 3) ? 0 : rng_below(&r, 3));
            ev.entries = (uint32_t)rng_below(&r, 20);
            ev.endpoint = &e;
            ev.frame = &f;
            f.count = (uint32_t)rng_below(&r, 20);
            f.what = (uint32_t)rng_below(&r, 3);
            f.flags = (uint32_t)rng_below(&r, 8);
            f.n = (uint32_t)rng_below(&r, 4);
            f.e[0] = e;
            for (uint32_t k = 1; k < f.n; k++)
                f.e[k] = at_site((uint32_t)rng_below(&r, 40), 1 + rng_below(&r, 4), true);
            (void)step(t, ev);
            t->did[0] = 0;
            t->dialled_n = 0;
            t->now += rng_below(&r, 10) ? rng_below(&r, SEC) : rng_below(&r, 60 * SEC);
        }
        tested_free(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cfg),      cmocka_unit_test(test_sizes),      cmocka_unit_test(test_reached),
        cmocka_unit_test(test_first),    cmocka_unit_test(test_unanswered), cmocka_unit_test(test_failures),
        cmocka_unit_test(test_only_one), cmocka_unit_test(test_refused),    cmocka_unit_test(test_look),
        cmocka_unit_test(test_replace),  cmocka_unit_test(test_extra),      cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_leave),    cmocka_unit_test(test_depart),     cmocka_unit_test(test_need),
        cmocka_unit_test(test_gone),     cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
