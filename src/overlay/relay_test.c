/* SPDX-License-Identifier: Apache-2.0 */
/* Paths: laid, refused, broken, closed, withdrawn. Numbers are of doc/spec/05-relays.md. */
#include "overlay/relay_testkit.h"

#define T struct tested *t = linked(&usual)

static void test_cfg(void **state) {
    (void)state;
    struct relay_cfg ok = {.self = node(1)}, c = ok;
    struct relay r;
    assert_true(relay_size(&ok) > 0);
    assert_int_equal(relay_size(&(struct relay_cfg){.links = 1}), 0);
    assert_int_equal(relay_init(&r, &(struct relay_cfg){.links = 1}), MOYAI_EINVAL);
#define BAD(field, value)  c = ok, c.field = value, assert_int_equal(relay_size(&c), 0)
#define GOOD(field, value) c = ok, c.field = value, assert_true(relay_size(&c) > 0)
    BAD(own, RELAY_TOLL);
    GOOD(own, RELAY_TOLL + 1);
    BAD(own, (1u << 18) + 1);
    GOOD(own, 1u << 18);
    BAD(frame, RELAY_OWN - 1);
    GOOD(frame, RELAY_OWN);
    BAD(frame, (1u << 18) + 1);
    GOOD(frame, 1u << 18);
    BAD(most, RELAY_OWN - 1);
    GOOD(most, RELAY_OWN);
    BAD(most, (1u << 24) + 1);
    GOOD(most, 1u << 24);
    BAD(links, (1u << 20) + 1);
    GOOD(links, 1u << 20);
    BAD(pointers, (1u << 20) + 1);
    GOOD(pointers, 1u << 20);
    BAD(spare, (1u << 20) + 1);
    GOOD(spare, 1u << 20);
    BAD(hops, 255);
    GOOD(hops, 254);
    BAD(tries, 201);
    GOOD(tries, 200);
    BAD(memory, UINT64_C(1) << 40);
    GOOD(memory, UINT64_C(1) << 36);
    c = ok, c.memory = 64u << 20; /* places for frames are counted from it */
    assert_int_equal(relay_size(&c), relay_size(&ok));
}

/* How many places are made. */
static void test_sizes(void **state) {
    (void)state;
    struct relay_cfg c = {.links = 4, .pointers = 4, .spare = 2, .own = 128, .most = 800, .memory = 640};
    struct tested *t = tested_new(&c);
    assert_int_equal(t->r->items_cap, 2 * 4 * 2 + 10 + 6 + 1); /* frames: a toll each, and those that nobody granted */
    tested_free(t);
    c.self = node(50);
    c.memory = (UINT32_MAX / 2 - 23) * (uint64_t)RELAY_TOLL; /* the most frames */
    assert_true(relay_size(&c) > 0);
    c.memory += RELAY_TOLL;
    assert_int_equal(relay_size(&c), 0);
    c.memory = 640;
    const struct {
        uint32_t links, pointers, mask;
    } heads[] = {{4, 2, 7}, {4, 3, 15}, {4, 6, 15}, {4, 28, 63}, {64, 6, 63}, {65, 6, 127}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) { /* of chains: twice as many as paths, and for links */
        c.links = heads[i].links;
        c.pointers = heads[i].pointers;
        t = tested_new(&c);
        assert_int_equal(t->r->mask, heads[i].mask);
        tested_free(t);
    }
}

static void test_links(void **state) {
    (void)state;
    T;
    assert_int_equal(step(t, EV(LINK_UP, .link = 0, .id = node(1))), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(LINK_UP, .link = 9, .id = node(50))), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(LINK_UP, .link = 9)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(LINK_UP, .link = 2, .id = node(1))), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(LINK_UP, .link = 4, .id = node(1))), 0);
    assert_int_equal(step(t, EV(LINK_UP, .link = 5, .id = node(1))), MOYAI_ENOMEM);
    assert_int_equal(step(t, EV(LINK_DOWN, .link = 9)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(LINK_DOWN, .link = 2)), 0);
    assert_int_equal(step(t, EV(LINK_DOWN, .link = 2)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(LINK_UP, .link = 5, .id = node(1))), 0);
    assert_int_equal(relay_count(t->r).links, 4);
    assert_int_equal(get(t, 4, path_frame(1, 1, 50, 7)), 0); /* the last place is as good as another */
    struct relay_out out;
    assert_false(relay_pull(t->r, 2, &out));
    tested_free(t);
}

/* 4.1 - 4.5: to another node. */
static void test_passing(void **state) {
    (void)state;
    T;
    assert_int_equal(get(t, 1, path_frame(1, 10, 91, 7)), 0);
    expect(t, "p1:route 10>91 not1");
    assert_int_equal(relay_deadline(t->r), t->now + 5 * (uint64_t)MOYAI_SEC);
    assert_int_equal(receive(t, 1, 1, 4, OWN), 0); /* right behind it */
    expect(t, "");
    assert_int_equal(receive(t, 1, 1, 4, RELAY_TOLL), MOYAI_EPROTO);
    assert_int_equal(relay_count(t->r).held, OWN);
    assert_int_equal(step(t, EV(ROUTED, .path = t->path, .link = 2)), 0);
    expect(t, "wake2");
    assert_int_equal(relay_deadline(t->r), UINT64_MAX);
    pull(t, 2, "PATH1 10>91 hops4 credit100");
    pull(t, 2, "1:4");
    expect(t, "wake1");
    pull(t, 2, "");
    pull(t, 1, "CREDIT1 100");
    pull(t, 1, "");
    assert_int_equal(receive(t, 2, 1, 5, 70), 0); /* the other way */
    expect(t, "wake1");
    assert_int_equal(relay_count(t->r).held, 70);
    pull(t, 1, "1:5");
    expect(t, "wake2");
    pull(t, 2, "CREDIT1 70");
    pull(t, 1, "");
    struct relay_count c = relay_count(t->r);
    assert_int_equal(c.paths, 1);
    assert_int_equal(c.passing, 1);
    assert_int_equal(c.held, 0);
    tested_free(t);
}

/* 4.6: to this node. */
static void test_arrived(void **state) {
    (void)state;
    T;
    assert_int_equal(get(t, 1, path_frame(1, 10, 50, 7)), 0);
    expect(t, "p1:arrived from10 wake1");
    pull(t, 1, "CREDIT1 700");
    assert_int_equal(receive(t, 1, 1, 4, OWN), 0);
    expect(t, "p1:got4");
    pull(t, 1, "");
    assert_int_equal(receive(t, 1, 1, 5, OWN), 0);
    expect(t, "p1:got5 wake1");
    pull(t, 1, "CREDIT1 200"); /* a quarter of the limit */
    assert_int_equal(step(t, EV(WANT, .path = t->path)), 0);
    expect(t, "p1:room36");
    assert_int_equal(send_one(t, t->path, 9, OWN), 0);
    expect(t, "");
    assert_int_equal(relay_count(t->r).held, 0);                  /* of paths that pass */
    assert_int_equal(send_one(t, t->path, 9, OWN), MOYAI_EINVAL); /* one at a time */
    assert_int_equal(step(t, EV(WANT, .path = t->path)), 0);
    expect(t, "");
    pull(t, 1, "1:9");
    expect(t, "");
    pull(t, 1, "BLOCKED1");
    pull(t, 1, "");
    assert_int_equal(get(t, 1, F(CREDIT, .label = 1, .amount = 99)), 0);
    expect(t, "wake1");
    pull(t, 1, "BLOCKED1"); /* again, as credit has come and is not enough */
    assert_int_equal(get(t, 1, F(CREDIT, .label = 1, .amount = 1)), 0);
    expect(t, "p1:room36");
    assert_int_equal(relay_count(t->r).passing, 0);
    tested_free(t);
}

/* 4.1: from this node. */
static void test_opened(void **state) {
    (void)state;
    T;
    assert_int_equal(step(t, EV(OPEN, .id = node(50), .link = 2)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(OPEN, .link = 2)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(OPEN, .id = node(91), .link = 9)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(OPEN, .id = node(91), .link = 2)), 0);
    expect(t, "p1:opened wake2");
    uint64_t a = t->path;
    assert_int_equal(step(t, EV(OPEN, .id = node(9), .link = 1)), 0);
    expect(t, "p2:opened wake1");
    assert_int_equal(step(t, EV(OPEN, .id = node(91))), 0);
    expect(t, "p3:opened p3:route 50>91");
    assert_int_equal(step(t, EV(WANT, .path = t->path)), 0);
    expect(t, "");
    assert_int_equal(send_one(t, t->path, 9, OWN), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(ROUTED, .path = t->path, .link = 2)), 0);
    expect(t, "p3:room36");
    assert_int_equal(step(t, EV(ROUTED, .path = t->path, .link = 2)), MOYAI_EINVAL);
    pull(t, 2, "PATH1 50>91 hops8 credit800");
    pull(t, 2, "PATH3 50>91 hops8 credit800");
    pull(t, 1, "PATH2 50>9 hops8 credit800");
    assert_int_equal(step(t, EV(WANT, .path = a)), 0);
    expect(t, "p1:room36");
    assert_int_equal(send_one(t, a, 4, 70), 0);
    pull(t, 2, "1:4");
    assert_int_equal(send_one(t, a, 5, OWN + 1), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(SEND, .path = a, .bytes = 1u << 30)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(WANT, .path = a + 5)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(OPEN, .id = node(91), .link = 2)), 0);
    assert_int_equal(step(t, EV(OPEN, .id = node(91), .link = 2)), MOYAI_ENOMEM);
    assert_int_equal(receive(t, 2, 1, 6, OWN), 0);
    expect(t, "p4:opened p1:got6");
    tested_free(t);
}

/* A route that leads back, to the source, or nowhere, is asked for again; three times. */
static void test_routes(void **state) {
    (void)state;
    T;
    assert_int_equal(get(t, 1, path_frame(1, 30, 91, 7)), 0);
    expect(t, "p1:route 30>91 not1");
    uint64_t p = t->path;
    assert_int_equal(step(t, EV(ROUTED, .path = p, .link = 1)), 0);
    expect(t, "p1:route 30>91 not1 again1");
    assert_int_equal(step(t, EV(ROUTED, .path = p, .link = 3)), 0);
    expect(t, "p1:route 30>91 not1 again2");
    assert_int_equal(step(t, EV(ROUTED, .path = p, .link = 9)), 0);
    expect(t, "wake1");
    pull(t, 1, "ERROR1 no-route by50");
    assert_int_equal(step(t, EV(ROUTED, .path = p, .link = 2)), MOYAI_EINVAL);

    assert_int_equal(get(t, 1, path_frame(3, 10, 91, 7)), 0);
    expect(t, "p1:route 10>91 not1");
    assert_int_equal(receive(t, 1, 3, 4, 70), 0);
    assert_int_equal(step(t, EV(ROUTED, .path = t->path)), 0);
    expect(t, "free4");
    pull(t, 1, "ERROR3 no-route by50");

    assert_int_equal(step(t, EV(OPEN, .id = node(91))), 0);
    t->now += 1000;
    assert_int_equal(get(t, 1, path_frame(5, 10, 91, 7)), 0);
    t->now += 5 * (uint64_t)MOYAI_SEC - 1001;
    assert_int_equal(step(t, EV(TIMEOUT)), 0);
    expect(t, "p1:opened p1:route 50>91 p2:route 10>91 not1");
    assert_int_equal(relay_deadline(t->r), ++t->now);
    assert_int_equal(step(t, EV(TIMEOUT)), 0);
    expect(t, "p1:down no-route by50");
    t->now += 1000;
    assert_int_equal(relay_deadline(t->r), t->now);
    assert_int_equal(step(t, EV(TIMEOUT)), 0);
    expect(t, "");
    pull(t, 1, "ERROR5 no-route by50");
    assert_int_equal(t->r->paths_n, 0);
    tested_free(t);
}

/* 4.3: what a PATH may say, and when it is refused. */
static void test_path_bad(void **state) {
    (void)state;
    T;
    (void)passing(t, 1, 7);
    struct relay_frame ok = path_frame(3, 10, 91, 8), f;
#define PROTO(field, value) f = ok, f.field = value, assert_int_equal(get(t, 1, f), MOYAI_EPROTO)
    PROTO(label, 0);
    PROTO(label, 2); /* ours to give */
    PROTO(label, 1); /* in use */
    PROTO(amount, OWN - 1);
    PROTO(amount, UINT32_C(1) << 31);
    PROTO(hops, 256);
    PROTO(id, 0);
    PROTO(to, node(10));
    PROTO(to, (struct moyai_node_id){0});
    PROTO(from, (struct moyai_node_id){0});
    assert_int_equal(get(t, 9, ok), MOYAI_EINVAL);
    f = ok, f.amount = UINT32_MAX >> 1, f.hops = 255;
    assert_int_equal(get(t, 1, f), 0);
    expect(t, "p2:route 10>91 not1");
    assert_int_equal(get(t, 2, path_frame(1, 10, 91, 9)), MOYAI_EPROTO);
    assert_int_equal(get(t, 2, path_frame(2, 90, 10, 9)), 0);
    tested_free(t);
}

static void test_path_refused(void **state) {
    (void)state;
    T;
    (void)passing(t, 1, 7);
    assert_int_equal(get(t, 3, path_frame(1, 10, 91, 7)), 0);
    expect(t, "wake3");
    pull(t, 3, "ERROR1 loop by50");
    assert_int_equal(get(t, 3, path_frame(3, 10, 50, 7)), 0);
    pull(t, 3, "ERROR3 loop by50");
    assert_int_equal(get(t, 3, path_frame(5, 50, 91, 8)), 0);
    pull(t, 3, "ERROR5 loop by50");
    struct relay_frame f = path_frame(7, 30, 91, 9);
    f.hops = 0;
    assert_int_equal(get(t, 3, f), 0);
    pull(t, 3, "ERROR7 ttl by50");
    f = path_frame(9, 30, 50, 9);
    f.hops = 0; /* it need not pass */
    assert_int_equal(get(t, 3, f), 0);
    expect(t, "p2:arrived from30");
    pull(t, 3, "CREDIT9 700");
    (void)passing(t, 3, 10);
    (void)passing(t, 5, 11);
    assert_int_equal(t->r->live, 4);
    assert_int_equal(get(t, 3, path_frame(11, 30, 91, 12)), 0);
    assert_int_equal(receive(t, 3, 11, 1, OWN), 0); /* behind it: is dropped */
    assert_int_equal(get(t, 3, path_frame(13, 30, 50, 13)), 0);
    expect(t, "wake1 free1"); /* others are asked for their places */
    assert_int_equal(get(t, 3, path_frame(15, 30, 50, 14)), MOYAI_EBUSY);
    pull(t, 3, "ERROR11 no-memory by50");
    pull(t, 3, "ERROR13 no-memory by50");
    pull(t, 3, "");
    assert_int_equal(t->r->live, t->r->paths_n);
    assert_int_equal(get(t, 3, path_frame(15, 30, 50, 14)), 0); /* places are there again */
    pull(t, 3, "ERROR15 no-memory by50");
    tested_free(t);
}

/* 5.1, 5.2: a link breaks. */
/* A relay that is full of others' paths can still be reached, and can reach others. */
static void test_places(void **state) {
    (void)state;
    T;
    struct moyai_node_id to = {0};
    assert_int_equal(relay_left(t->r), 4);
    (void)passing(t, 1, 7);
    (void)passing(t, 3, 8);
    (void)passing(t, 5, 9);
    assert_int_equal(get(t, 1, path_frame(7, 10, 91, 10)), 0);
    pull(t, 1, "CREDIT1 0");
    pull(t, 1, "CREDIT3 0");
    pull(t, 1, "ERROR7 no-memory by50");
    assert_int_equal(relay_left(t->r), 1);
    (void)arrived(t, 9, 11);
    assert_int_equal(relay_left(t->r), 0);
    assert_int_equal(step(t, EV(OPEN, .id = node(91), .link = 2)), MOYAI_ENOMEM);

    assert_true(relay_leads(t->r, 2, 3, &to)); /* which of a path's links leads on? */
    assert_true(id_equal(to.b, node(91).b));
    assert_false(relay_leads(t->r, 1, 1, &to));
    assert_false(relay_leads(t->r, 1, 9, &to));
    assert_false(relay_leads(t->r, 2, 99, &to));
    assert_false(relay_leads(t->r, 9, 3, &to));
    tested_free(t);
}

/* 4.8: who passes is asked for his place, in turn, and first who was not used since he was last looked at. */
static void test_short(void **state) {
    (void)state;
    T;
    uint64_t end = arrived(t, 1, 6); /* not asked for: its end is here, and knows */
    (void)passing(t, 3, 7);
    (void)passing(t, 5, 8);
    assert_int_equal(receive(t, 1, 3, 1, 70), 0); /* no places are short yet */
    pull(t, 2, "1:1");
    pull(t, 1, "CREDIT3 70");
    assert_int_equal(get(t, 2, F(CREDIT, .label = 1, .amount = 70)), 0);
    assert_int_equal(get(t, 1, path_frame(7, 10, 91, 9)), 0);
    assert_int_equal(step(t, EV(ROUTED, .path = t->path, .link = 2)), 0);
    pull(t, 2, "PATH5 10>91 hops4 credit100");
    pull(t, 2, "");
    pull(t, 1, "");
    t->told[0] = 0;
    assert_int_equal(receive(t, 2, 1, 2, 70), 0);              /* now they are */
    assert_int_equal(get(t, 3, path_frame(1, 30, 50, 10)), 0); /* for this they are not needed */
    pull(t, 1, "3:2");
    t->told[0] = 0;
    pull(t, 2, "CREDIT1 70");
    pull(t, 2, "");
    pull(t, 3, "ERROR1 no-memory by50");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(get(t, 3, path_frame(3, 30, 91, 11)), 0);
        pull(t, 3, "ERROR3 no-memory by50");
        pull(t, 1, i == 0 ? "CREDIT5 0" : "CREDIT3 0");
        pull(t, 1, i == 0 ? "CREDIT7 0" : "CREDIT5 0");
        pull(t, 1, "");
        pull(t, 2, i == 0 ? "CREDIT3 0" : "CREDIT1 0");
        pull(t, 2, i == 0 ? "CREDIT5 0" : "CREDIT3 0");
        pull(t, 2, "");
    }
    assert_int_equal(receive(t, 1, 3, 3, 70), 0); /* what waits is of use, too */
    assert_int_equal(receive(t, 1, 5, 4, 70), 0);
    assert_int_equal(receive(t, 1, 7, 5, 70), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(get(t, 3, path_frame(3, 30, 91, 11)), 0);
        pull(t, 3, "ERROR3 no-memory by50");
        pull(t, 1, "");
    }
    pull(t, 2, "1:3");
    assert_int_equal(get(t, 3, path_frame(3, 30, 91, 11)), 0);
    pull(t, 3, "ERROR3 no-memory by50");
    pull(t, 2, "CREDIT1 0");
    pull(t, 1, "CREDIT3 70");
    pull(t, 1, "CREDIT3 0");
    pull(t, 1, "");
    t->told[0] = 0;

    /* It travels on, and grants nothing. */
    assert_int_equal(get(t, 2, F(CREDIT, .label = 3)), 0);
    pull(t, 1, "CREDIT5 0");
    pull(t, 1, "");
    t->told[0] = 0;
    assert_int_equal(get(t, 1, F(CREDIT, .label = 1)), 0);
    expect(t, "p1:short");
    assert_int_equal(step(t, EV(END, .path = end)), 0);
    assert_int_equal(get(t, 1, F(CREDIT, .label = 1)), 0);
    expect(t, "wake1");
    pull(t, 1, "CLOSE1");
    tested_free(t);
}

static void test_link_down(void **state) {
    (void)state;
    T;
    (void)passing(t, 1, 7);
    uint64_t own = opened(t);
    (void)arrived(t, 3, 8);
    assert_int_equal(receive(t, 1, 1, 4, 70), 0);
    assert_int_equal(receive(t, 2, 1, 5, 70), 0);
    assert_int_equal(step(t, EV(WANT, .path = own)), 0);
    assert_int_equal(send_one(t, own, 6, 70), 0);
    t->told[0] = 0;
    assert_int_equal(step(t, EV(LINK_DOWN, .link = 2)), 0);
    expect(t, "p2:down broken by50 free4 free5 free6");
    pull(t, 1, "ERROR1 broken by50");
    pull(t, 1, "");
    assert_int_equal(step(t, EV(LINK_DOWN, .link = 1)), 0);
    expect(t, "p3:down broken by50");
    assert_int_equal(t->r->paths_n, 0);
    tested_free(t);
}

/* Both its links break before the first was said; and who has not heard of the path need not hear of its end. */
static void test_links_down(void **state) {
    (void)state;
    T;
    (void)passing(t, 1, 7);
    assert_int_equal(step(t, EV(LINK_DOWN, .link = 2)), 0);
    assert_int_equal(step(t, EV(LINK_DOWN, .link = 1)), 0);
    assert_int_equal(t->r->paths_n, 0);
    assert_int_equal(step(t, EV(LINK_UP, .link = 1, .id = node(10))), 0);
    assert_int_equal(step(t, EV(LINK_UP, .link = 2, .id = node(90))), 0);
    t->told[0] = 0;
    assert_int_equal(get(t, 1, path_frame(1, 10, 91, 7)), 0);
    assert_int_equal(step(t, EV(ROUTED, .path = t->path, .link = 2)), 0);
    expect(t, "p1:route 10>91 not1 wake2");
    assert_int_equal(get(t, 2, F(BLOCKED, .label = 1)), MOYAI_EPROTO); /* it cannot know the label */
    assert_int_equal(step(t, EV(LINK_DOWN, .link = 1)), 0);
    pull(t, 2, "");
    assert_int_equal(t->r->paths_n, 0);
    tested_free(t);
}

/* 5.3: errors travel on. */
static void test_error(void **state) {
    (void)state;
    T;
    (void)passing(t, 1, 7);
    pull(t, 2, "");
    assert_int_equal(receive(t, 1, 1, 4, 70), 0);
    expect(t, "wake2");
    assert_int_equal(get(t, 2, F(ERROR, .label = 1, .code = RELAY_CLOSED)), MOYAI_EPROTO);
    assert_int_equal(get(t, 2, F(ERROR, .label = 1, .code = RELAY_CODES)), MOYAI_EPROTO);
    assert_int_equal(get(t, 2, F(ERROR, .label = 1, .code = RELAY_DEAD, .node = node(70))), 0);
    expect(t, "free4 wake1");
    pull(t, 2, "");
    assert_int_equal(receive(t, 1, 1, 5, 30 + RELAY_TOLL), MOYAI_EPROTO); /* above its credit */
    assert_int_equal(get(t, 1, F(CREDIT, .label = 1, .amount = 10)), 0);  /* late */
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 1)), 0);
    assert_int_equal(get(t, 1, F(TAKE, .label = 1, .amount = 10)), 0);
    expect(t, "");
    pull(t, 1, "ERROR1 dead by70");
    pull(t, 1, "");
    assert_int_equal(receive(t, 1, 1, 6, OWN), 0);
    expect(t, "free6");
    assert_int_equal(get(t, 1, F(ERROR, .label = 1, .code = RELAY_DEAD)), 0);
    assert_int_equal(get(t, 1, F(GIVE, .label = 1)), 0);

    (void)arrived(t, 3, 8);
    assert_int_equal(get(t, 1, F(ERROR, .label = 3, .code = RELAY_BROKEN, .node = node(70))), 0);
    expect(t, "p1:down broken by70");
    uint64_t own = opened(t);
    assert_int_equal(get(t, 2, F(ERROR, .label = 3, .code = RELAY_TTL, .node = node(70))), 0);
    expect(t, "p1:down ttl by70");
    assert_int_equal(step(t, EV(WANT, .path = own)), MOYAI_EINVAL);
    assert_int_equal(t->r->paths_n, 0);
    tested_free(t);
}

/* Both sides say at once that it is over. */
static void test_error_crossing(void **state) {
    (void)state;
    T;
    for (int i = 0; i < 4; i++) {
        (void)passing(t, 1 + 2 * (uint32_t)i, 7);
        assert_int_equal(get(t, 2, F(ERROR, .label = 1 + 2 * (uint32_t)i, .code = RELAY_DEAD)), 0);
        struct relay_frame f = F(CLOSE, .label = 1 + 2 * (uint32_t)i);
        if (i == 1) f.kind = RELAY_ERROR, f.code = RELAY_BROKEN;
        if (i == 2) f.kind = RELAY_ERROR, f.code = RELAY_LEAVING;
        if (i < 3) assert_int_equal(get(t, 1, f), 0);
        if (i == 3) assert_int_equal(step(t, EV(LINK_DOWN, .link = 1)), 0);
        if (i == 2) {
            assert_int_equal(t->r->paths_n, 1);
            pull(t, 1, "ERROR5 dead by0");
        }
        pull(t, 1, "");
        assert_int_equal(t->r->paths_n, 0);
    }
    tested_free(t);
}

/* 6.1 - 6.3: closing. */
static void test_close(void **state) {
    (void)state;
    T;
    (void)passing(t, 1, 7);
    assert_int_equal(receive(t, 1, 1, 4, 70), 0);
    assert_int_equal(receive(t, 2, 1, 5, 64), 0);
    t->told[0] = 0;
    assert_int_equal(get(t, 1, F(CLOSE, .label = 1)), 0);
    expect(t, "free5");
    assert_int_equal(get(t, 1, F(CREDIT, .label = 1)), 0); /* late */
    assert_int_equal(receive(t, 2, 1, 6, 64), MOYAI_EPROTO);
    pull(t, 1, "");
    assert_int_equal(get(t, 2, F(BLOCKED, .label = 1)), 0);
    expect(t, "");
    pull(t, 2, "1:4");
    pull(t, 2, "CLOSE1");
    pull(t, 2, "");
    assert_int_equal(t->r->paths_n, 0);
    assert_int_equal(get(t, 2, F(CLOSE, .label = 1)), 0);

    (void)passing(t, 3, 7); /* nothing queued; both at once */
    assert_int_equal(receive(t, 1, 3, 4, 70), 0);
    assert_int_equal(get(t, 1, F(CLOSE, .label = 3)), 0);
    assert_int_equal(receive(t, 2, 3, 6, 64), 0);
    expect(t, "free6");
    assert_int_equal(get(t, 2, F(CLOSE, .label = 3)), 0);
    expect(t, "free4");
    pull(t, 1, "");
    pull(t, 2, "");
    assert_int_equal(t->r->paths_n, 0);

    assert_int_equal(get(t, 1, path_frame(5, 10, 91, 7)), 0); /* without a route yet */
    assert_int_equal(receive(t, 1, 5, 4, 70), 0);
    assert_int_equal(get(t, 1, F(CLOSE, .label = 5)), 0);
    expect(t, "p1:route 10>91 not1 free4");
    assert_int_equal(t->r->paths_n, 0);
    assert_int_equal(step(t, EV(ROUTED, .path = t->path, .link = 2)), MOYAI_EINVAL);

    for (int frame = 0; frame < 2; frame++) { /* before PATH was said */
        assert_int_equal(get(t, 1, path_frame(7, 10, 91, 7)), 0);
        if (frame) assert_int_equal(receive(t, 1, 7, 4, 70), 0);
        assert_int_equal(step(t, EV(ROUTED, .path = t->path, .link = 2)), 0);
        assert_int_equal(get(t, 1, F(CLOSE, .label = 7)), 0);
        pull(t, 2, frame ? "PATH7 10>91 hops4 credit100" : "");
        if (frame) pull(t, 2, "7:4");
        if (frame) pull(t, 2, "CLOSE7");
        assert_int_equal(t->r->paths_n, 0);
    }

    (void)passing(t, 9, 7); /* who is not listened to is given no credit, though it was due */
    assert_int_equal(receive(t, 1, 9, 4, 70), 0);
    assert_true(relay_pull(t->r, 2, &t->out));
    drain(t);
    assert_int_equal(get(t, 2, F(CLOSE, .label = t->out.label)), 0);
    pull(t, 1, "CLOSE9");
    assert_int_equal(t->r->paths_n, 0);
    tested_free(t);
}

static void test_close_here(void **state) {
    (void)state;
    T;
    uint64_t p = arrived(t, 1, 7);
    assert_int_equal(get(t, 1, F(CLOSE, .label = 1)), 0);
    expect(t, "p1:down closed by50");
    assert_int_equal(step(t, EV(END, .path = p)), MOYAI_EINVAL);
    p = arrived(t, 3, 7);
    assert_int_equal(step(t, EV(END, .path = p, .code = RELAY_LEAVING)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(END, .path = p, .code = RELAY_CODES)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(WANT, .path = p)), 0);
    assert_int_equal(send_one(t, p, 9, 70), 0);
    t->told[0] = 0;
    assert_int_equal(step(t, EV(END, .path = p)), 0);
    assert_int_equal(step(t, EV(END, .path = p)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(WANT, .path = p)), MOYAI_EINVAL);
    assert_int_equal(send_one(t, p, 9, 70), MOYAI_EINVAL);
    pull(t, 1, "3:9");
    pull(t, 1, "CLOSE3");
    expect(t, "");
    p = arrived(t, 5, 7);
    assert_int_equal(step(t, EV(END, .path = p, .code = RELAY_REFUSED)), 0);
    pull(t, 1, "ERROR5 refused by50");
    p = opened(t);
    assert_int_equal(step(t, EV(WANT, .path = p)), 0);
    assert_int_equal(send_one(t, p, 9, OWN), 0);
    assert_int_equal(step(t, EV(WANT, .path = p)), 0);
    t->told[0] = 0;
    assert_int_equal(step(t, EV(END, .path = p)), 0);
    pull(t, 2, "1:9");
    pull(t, 2, "CLOSE1");
    expect(t, ""); /* no room is told of */
    assert_int_equal(step(t, EV(OPEN, .id = node(91))), 0);
    assert_int_equal(step(t, EV(END, .path = t->path)), 0);
    assert_int_equal(t->r->paths_n, 0);
    uint64_t other = passing(t, 7, 7);
    assert_int_equal(step(t, EV(END, .path = other)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(WANT, .path = other)), MOYAI_EINVAL);
    assert_int_equal(send_one(t, other, 9, OWN), MOYAI_EINVAL);
    tested_free(t);
}

/* 5.4: evidence. */
static void test_gone(void **state) {
    (void)state;
    T;
    (void)passing(t, 1, 7);
    (void)opened(t);
    assert_int_equal(get(t, 3, path_frame(1, 30, 91, 8)), 0);
    assert_int_equal(get(t, 3, path_frame(3, 30, 92, 9)), 0);
    t->told[0] = 0;
    assert_int_equal(step(t, EV(GONE, .id = node(91), .code = RELAY_BROKEN)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(GONE, .id = node(17), .code = RELAY_DEAD)), 0);
    assert_int_equal(step(t, EV(GONE, .id = node(91), .code = RELAY_LEFT)), 0);
    expect(t, "p2:down left by50 wake1 wake3");
    pull(t, 1, "ERROR1 left by50");
    pull(t, 2, "ERROR1 broken by50");
    pull(t, 2, "ERROR3 broken by50");
    pull(t, 3, "ERROR1 left by50");
    assert_int_equal(step(t, EV(GONE, .id = node(30), .code = RELAY_DEAD)), 0);
    pull(t, 3, "ERROR3 broken by50");
    assert_int_equal(t->r->paths_n, 0);
    /* That it was cleared goes along, the whole way. */
    (void)passing(t, 5, 7);
    t->told[0] = 0;
    assert_int_equal(step(t, EV(GONE, .id = node(91), .code = RELAY_CLEARED)), 0);
    pull(t, 1, "ERROR5 cleared by50");
    pull(t, 2, "ERROR5 broken by50");
    (void)passing(t, 7, 8);
    assert_int_equal(get(t, 2, F(ERROR, .label = t->out.frame.label, .code = RELAY_CLEARED, .node = node(20))), 0);
    pull(t, 1, "ERROR7 cleared by20");
    (void)opened(t);
    t->told[0] = 0;
    assert_int_equal(get(t, 2, F(ERROR, .label = t->out.frame.label, .code = RELAY_CLEARED, .node = node(20))), 0);
    assert_non_null(strstr(t->told, "down cleared by20"));
    tested_free(t);
}

/* 7: leaving. */
static void test_withdraw(void **state) {
    (void)state;
    T;
    (void)passing(t, 1, 7);
    (void)passing(t, 3, 1); /* an id that could be taken for another side of the first: an end here */
    (void)opened(t);
    assert_int_equal(get(t, 1, path_frame(5, 10, 92, 9)), 0);
    assert_int_equal(receive(t, 1, 5, 4, 70), 0);
    t->told[0] = 0;
    assert_int_equal(step(t, EV(WITHDRAW)), 0);
    expect(t, "free4 wake1");
    assert_int_equal(step(t, EV(WITHDRAW)), MOYAI_EINVAL);
    assert_int_equal(relay_deadline(t->r), t->now + (uint64_t)MOYAI_SEC);
    pull(t, 1, "ERROR1 leaving by50");
    pull(t, 1, "ERROR3 leaving by50");
    pull(t, 1, "ERROR5 refused by50");
    pull(t, 2, "ERROR1 leaving by50");
    pull(t, 2, "ERROR3 leaving by50");
    pull(t, 2, "");
    assert_int_equal(receive(t, 1, 1, 5, 70), 0); /* it goes on */
    assert_int_equal(get(t, 1, F(CLOSE, .label = 1)), 0);
    pull(t, 2, "1:5");
    pull(t, 2, "CLOSE1");
    assert_int_equal(get(t, 1, path_frame(7, 10, 91, 10)), 0);
    pull(t, 1, "ERROR7 refused by50");
    (void)arrived(t, 9, 10); /* to here: as ever */
    t->told[0] = 0;
    t->now += MOYAI_SEC - 1;
    assert_int_equal(step(t, EV(TIMEOUT)), 0);
    expect(t, "");
    t->now++;
    assert_int_equal(step(t, EV(TIMEOUT)), 0);
    expect(t, "withdrawn");
    pull(t, 1, "ERROR3 broken by50");
    pull(t, 2, "ERROR3 broken by50");
    assert_int_equal(relay_deadline(t->r), UINT64_MAX);
    assert_int_equal(relay_count(t->r).paths, 2);
    tested_free(t);
    t = linked(&usual);
    assert_int_equal(step(t, EV(WITHDRAW)), 0);
    expect(t, "withdrawn");
    tested_free(t);
}

/* 7.2: others are told, and the path stays. */
static void test_leaving(void **state) {
    (void)state;
    T;
    (void)passing(t, 1, 7);
    assert_int_equal(receive(t, 1, 1, 4, 70), 0);
    t->told[0] = 0;
    assert_int_equal(get(t, 2, F(ERROR, .label = 1, .code = RELAY_LEAVING, .node = node(70))), 0);
    assert_int_equal(get(t, 1, F(ERROR, .label = 1, .code = RELAY_LEAVING, .node = node(71))), 0);
    expect(t, "wake1");
    pull(t, 1, "ERROR1 leaving by70");
    pull(t, 2, "ERROR1 leaving by71");
    pull(t, 2, "1:4");
    (void)arrived(t, 3, 8);
    assert_int_equal(get(t, 1, F(ERROR, .label = 3, .code = RELAY_LEAVING, .node = node(70))), 0);
    expect(t, "p2:leaving by70");
    assert_int_equal(get(t, 1, path_frame(5, 10, 92, 9)), 0);
    assert_int_equal(get(t, 1, F(ERROR, .label = 5, .code = RELAY_LEAVING, .node = node(70))), 0);
    expect(t, "p3:route 10>92 not1");
    assert_int_equal(get(t, 1, F(CLOSE, .label = 1)), 0);
    assert_int_equal(get(t, 2, F(ERROR, .label = 1, .code = RELAY_LEAVING, .node = node(70))), 0);
    tested_free(t);
}

/* Labels are given in turn, and at the end from the start again, but for those in use. */
static void test_labels(void **state) {
    (void)state;
    T;
    t->r->rng = (struct moyai_rng){{1, 2, 3, 4}};
    relay_link_at(t->r, relay_link_find(t->r, 2))->label = UINT32_MAX - 2;
    relay_link_at(t->r, relay_link_find(t->r, 1))->label = UINT32_MAX - 1;
    (void)opened(t);
    assert_int_equal(t->out.frame.label, UINT32_MAX - 2);
    (void)opened(t);
    assert_int_equal(t->out.frame.label, UINT32_MAX);
    (void)opened(t);
    assert_int_equal(t->out.frame.label, 1);
    relay_link_at(t->r, relay_link_find(t->r, 2))->label = 1;
    (void)opened(t);
    assert_int_equal(t->out.frame.label, 3);
    assert_int_equal(step(t, EV(LINK_DOWN, .link = 2)), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(step(t, EV(OPEN, .id = node(91), .link = 1)), 0);
        pull(t, 1, i ? "PATH2 50>91 hops8 credit800" : "PATH4294967294 50>91 hops8 credit800");
    }
    tested_free(t);
}

/* An outdated handle is nobody's. */
static void test_handles(void **state) {
    (void)state;
    T;
    uint64_t a = arrived(t, 1, 7);
    assert_int_equal(get(t, 1, F(CLOSE, .label = 1)), 0);
    uint64_t b = arrived(t, 3, 7);
    assert_int_equal(relay_index(a), relay_index(b));
    assert_true(a != b);
    assert_int_equal(step(t, EV(WANT, .path = a)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(WANT, .path = b)), 0);
    assert_int_equal(step(t, EV(WANT, .path = 0)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(WANT, .path = b + 1)), MOYAI_EINVAL);
    /* The lowest free place is used. */
    uint64_t c = arrived(t, 5, 8), d = arrived(t, 7, 9);
    assert_int_equal(step(t, EV(END, .path = b, .code = RELAY_BROKEN)), 0);
    assert_int_equal(step(t, EV(END, .path = c, .code = RELAY_BROKEN)), 0);
    pull(t, 1, "ERROR3 broken by50");
    pull(t, 1, "ERROR5 broken by50");
    assert_int_equal(relay_index(arrived(t, 9, 10)), 0);
    assert_int_equal(relay_index(arrived(t, 11, 11)), 1);
    assert_int_equal(relay_index(arrived(t, 13, 12)), 3);
    assert_int_equal(step(t, EV(END, .path = d, .code = RELAY_BROKEN)), 0);
    tested_free(t);
}

/* Effects must be fetched; WANT and SEND may come meanwhile. */
static void test_draining(void **state) {
    (void)state;
    T;
    uint64_t own = opened(t);
    struct relay_event ev = EV(OPEN, .id = node(91));
    assert_int_equal(relay_step(t->r, &ev), 0);
    assert_int_equal(relay_step(t->r, &ev), MOYAI_EINVAL);
    ev = EV(WANT, .path = own);
    assert_int_equal(relay_step(t->r, &ev), 0);
    struct relay_effect fx;
    assert_true(relay_next(t->r, &fx));
    assert_int_equal(fx.kind, RELAY_FX_OPENED);
    drain(t);
    expect(t, "p2:route 50>91 p1:room36");
    assert_int_equal(step(t, EV(FRAME, .link = 9, .frame = &F(CLOSE, .label = 1))), MOYAI_EINVAL);
    ev.kind = (enum relay_event_kind)99;
    assert_int_equal(relay_step(t->r, &ev), MOYAI_EINVAL);
    tested_free(t);
}

/* WAKE once, until relay_pull found nothing; in the order in which links came to have something. */
static void test_wake(void **state) {
    (void)state;
    T;
    (void)opened(t);
    assert_int_equal(step(t, EV(OPEN, .id = node(91), .link = 2)), 0);
    expect(t, "p2:opened"); /* it was not asked since */
    pull(t, 2, "PATH3 50>91 hops8 credit800");
    pull(t, 2, "");
    assert_int_equal(get(t, 3, path_frame(1, 30, 91, 8)), 0);
    assert_int_equal(step(t, EV(ROUTED, .path = t->path, .link = 1)), 0);
    pull(t, 1, "PATH2 30>91 hops4 credit100");
    pull(t, 1, "");
    t->told[0] = 0;
    assert_int_equal(step(t, EV(GONE, .id = node(91), .code = RELAY_DEAD)), 0);
    expect(t, "p1:down dead by50 p2:down dead by50 wake2 wake3 wake1");
    tested_free(t);
}

#define TEST(f) cmocka_unit_test(f)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_cfg),          TEST(test_sizes),   TEST(test_links),          TEST(test_passing),
        TEST(test_arrived),      TEST(test_opened),  TEST(test_routes),         TEST(test_path_bad),
        TEST(test_path_refused), TEST(test_places),  TEST(test_short),          TEST(test_link_down),
        TEST(test_links_down),   TEST(test_error),   TEST(test_error_crossing), TEST(test_close),
        TEST(test_close_here),   TEST(test_gone),    TEST(test_withdraw),       TEST(test_leaving),
        TEST(test_labels),       TEST(test_handles), TEST(test_draining),       TEST(test_wake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
