/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that break the rules leave no trace; what happens when tables are full and links slow; invariants are
 * noticed when they are broken; no list of events breaks the machine.
 */
#include "overlay/locate_testkit.h"

#include "base/err.h"

static const struct locate_cfg small = {.seed = 1,
                                        .links = 6,
                                        .told = 2,
                                        .names = 3,
                                        .requests = 4,
                                        .lookups = 3,
                                        .routes = 3,
                                        .dead = 3,
                                        .rate = 100,
                                        .burst = 10};

static int setup(void **state) {
    *state = kit_new(&small);
    return 0;
}
static int teardown(void **state) {
    kit_free(*state);
    return 0;
}
static struct kit *three(void **state) {
    struct kit *k = *state;
    assert_int_equal(up(k, 0, 0xa1, 1000), 0);
    assert_int_equal(up(k, 1, 0xa2, 2000), 0);
    assert_int_equal(up(k, 2, 0xa3, 3000), 0);
    drain(k);
    k->now += 1000 * MS;
    return k;
}

static void test_config(void **state) {
    (void)state;
    const struct locate_cfg good = {.self = {.b = {1}}, .links = 64, .told = 64, .requests = 2, .names = 1};
    assert_true(locate_size(&good) > 0);
    assert_true(locate_size(&(struct locate_cfg){.self = {.b = {1}}}) > 0);
    struct locate_cfg all[10];
    for (int i = 0; i < 10; i++) all[i] = good;
    all[0].links = LOCATE_LINKS + 1;
    all[1].told = LOCATE_TOLD + 1;
    all[2].requests = 1;
    all[3].names = (1u << 16) + 1;
    all[4].requests = (1u << 16) + 1;
    all[5].lookups = (1u << 16) + 1;
    all[6].routes = all[7].dead = (1u << 16) + 1;
    all[8].rate = 1000001;
    memset(all[9].self.b, 0, 16);
    static uint64_t block[64];
    for (int i = 0; i < 10; i++) {
        assert_int_equal(locate_size(&all[i]), 0);
        assert_int_equal(locate_init((struct locate *)block, &all[i]), MOYAI_EINVAL);
    }
    all[0] = good;
    all[0].ring_min = 3 * MOYAI_SEC;
    assert_int_equal(locate_size(&all[0]), 0);
    all[0].ring_max = 3 * MOYAI_SEC;
    all[0].rate = 1000000;
    all[0].names = all[0].lookups = 1u << 16;
    assert_true(locate_size(&all[0]) > 0);
}

/* 10.1: each of these is refused. */
static void test_frames(void **state) {
    struct kit *k = three(state);
    const struct locate_frame ok[] = {
        {.kind = LOCATE_REQUEST, .ttl = 1, .wait = 1, .key = {9}, .nonce = 1},
        {.kind = LOCATE_REQUEST,
         .key_kind = LOCATE_CLAIM,
         .ttl = 1,
         .wait = 1,
         .key = {9},
         .owner = {8},
         .object = {7}},
        {.kind = LOCATE_REPLY, .status = LOCATE_ST_FOUND, .key = {0x99}, .owner = {0x99}, .hops = 64},
        {.kind = LOCATE_REPLY,
         .key_kind = LOCATE_NAME,
         .status = LOCATE_ST_FOUND,
         .key = {9},
         .owner = {8},
         .object = {7}},
        {.kind = LOCATE_REPLY,
         .key_kind = LOCATE_CLAIM,
         .status = LOCATE_ST_CLAIMED,
         .key = {9},
         .owner = {8},
         .object = {7}},
        {.kind = LOCATE_BUSY, .key = {9}},
        {.kind = LOCATE_EVIDENCE, .key = {0x98}, .how = 1, .ttl = 2, .wait = 1},
        {.kind = LOCATE_LOST, .key = {9}, .dest = {0x97}, .owner = {8}, .object = {7}, .ttl = LOCATE_LOST_TTL},
        {.kind = LOCATE_NEIGHBOURS, .n = 2, .slots = {{.slot = 1, .id = {5}, .cost = 1}, {.slot = 0}}},
        {.kind = LOCATE_NAMES, .n = 2, .slots = {{.slot = 1, .id = {5}, .object = {6}}, {.slot = 0}}},
    };
    for (size_t i = 0; i < sizeof ok / sizeof *ok; i++) assert_int_equal(receive(k, 0, &ok[i]), 0);
#define BAD(i, ...)                                                                                                    \
    do {                                                                                                               \
        struct locate_frame f = ok[i];                                                                                 \
        __VA_ARGS__;                                                                                                   \
        if (receive(k, 0, &f) != MOYAI_EPROTO) fail_msg("taken: %d, %s", i, #__VA_ARGS__);                             \
    } while (0)
    BAD(0, f.kind = (enum locate_frame_kind)8);
    BAD(0, f.key_kind = (enum locate_key_kind)3);
    BAD(0, f.ttl = 0);
    BAD(0, f.ttl = 9);
    BAD(0, f.ttl = 9; f.flags = LOCATE_FLOOD);
    BAD(1, f.ttl = 9);
    BAD(1, f.ttl = 25; f.flags = LOCATE_FLOOD);
    BAD(0, f.wait = 0);
    BAD(0, f.flags = 16);
    BAD(0, f.flags = LOCATE_HINTED | LOCATE_FEW);
    BAD(0, f.flags = LOCATE_HINTED | LOCATE_DIRECT);
    BAD(0, f.flags = LOCATE_FEW | LOCATE_FLOOD);
    BAD(0, f.key[0] = 0);
    BAD(1, f.owner[0] = 0);
    BAD(1, f.object[0] = 0);
    BAD(1, f.flags = LOCATE_DIRECT);
    BAD(1, f.flags = LOCATE_HINTED);
    BAD(1, f.flags = LOCATE_FEW);
    BAD(2, f.key_kind = (enum locate_key_kind)3);
    BAD(2, f.key[0] = 0);
    BAD(2, f.owner[0] = 0);
    BAD(2, f.owner[0] = 1);
    BAD(2, f.object[0] = 1);
    BAD(2, f.hops = 65);
    BAD(2, f.status = 0);
    BAD(2, f.status = 6);
    BAD(2, f.status = LOCATE_ST_CLAIMED);
    BAD(2, f.status = LOCATE_ST_DEAD; f.owner[0] = 1);
    BAD(3, f.object[0] = 0);
    BAD(3, f.status = LOCATE_ST_CLAIMED);
    BAD(3, f.status = LOCATE_ST_DEAD);
    BAD(3, f.status = LOCATE_ST_LEFT; f.owner[0] = 9);
    BAD(2, f.status = LOCATE_ST_CLEARED; f.owner[0] = 1);
    BAD(3, f.status = LOCATE_ST_CLEARED);
    BAD(5, f.key_kind = (enum locate_key_kind)3);
    BAD(5, f.key[0] = 0);
    BAD(6, f.how = 0);
    BAD(6, f.how = 4);
    BAD(6, f.ttl = 0);
    BAD(6, f.ttl = 3);
    BAD(6, f.wait = 0);
    BAD(6, f.key[0] = 0);
    BAD(7, f.ttl = 0);
    BAD(7, f.ttl = LOCATE_LOST_TTL + 1);
    BAD(7, f.key[0] = 0);
    BAD(7, f.dest[0] = 0);
    BAD(7, f.owner[0] = 0);
    BAD(7, f.object[0] = 0);
    BAD(8, f.n = 0);
    BAD(8, f.n = LOCATE_SLOTS + 1);
    BAD(8, f.slots[0].slot = LOCATE_LINKS);
    BAD(8, f.slots[0].cost = 0);
    BAD(8, f.slots[1].cost = 1);
    BAD(8, f.slots[1].host = 1);
    BAD(9, f.n = 0);
    BAD(9, f.n = LOCATE_SLOTS + 1);
    BAD(9, f.slots[1].slot = LOCATE_TOLD);
    BAD(9, f.slots[0].object[0] = 0);
    BAD(9, f.slots[1].object[0] = 1);
    assert_int_equal(step(k, (struct locate_event){.kind = (enum locate_event_kind)20}), MOYAI_EINVAL);
}

/* 4.9: three quarters for others; who finds no room is told, and asks again. */
static void test_full(void **state) {
    struct kit *k = three(state);
    for (uint8_t i = 0; i < 3; i++) assert_int_equal(ask(k, 0, .key = (uint8_t)(0xc0 + i), .ttl = 1, .nonce = 1), 0);
    ask(k, 0, .key = 0xc3, .ttl = 1, .nonce = 1);
    pull(k, 0, "BUSY nc3");
    ask(k, 0, .key = 0xa2, .ttl = 1, .nonce = 1); /* although we know it */
    pull(k, 0, "BUSY na2");
    ask(k, 1, .kind = LOCATE_CLAIM, .key = 0x51, .ttl = 1, .nonce = 1, .owner = 1, .object = 2);
    pull(k, 1, "BUSY c51");
    assert_int_equal(look(k, 1, LOCATE_NODE, 0xc4), 0);
    assert_int_equal(look(k, 2, LOCATE_NODE, 0xc5), MOYAI_EAGAIN);
    assert_int_equal(add_name(k, 0x51, 0x61, false), MOYAI_EAGAIN);
    assert_int_equal(look(k, 2, LOCATE_NODE, 0xc4), 0);
    assert_int_equal(look(k, 3, LOCATE_NODE, 0xc4), 0);
    assert_int_equal(look(k, 4, LOCATE_NODE, 0xa1), MOYAI_EAGAIN); /* no token free */
    drain(k);
    /* an answered one makes room, the first of them, when its answer has been sent */
    reply(k, 1, .key = 0xc1, .owner = 0xc1);
    ask(k, 0, .key = 0xc6, .ttl = 1, .nonce = 1);
    pull(k, 0, "BUSY nc6; REPLY nc1 found c1 1:2000");
    k->now += MS;
    reply(k, 1, .key = 0xc0, .owner = 0xc0);
    drain(k);
    ask(k, 0, .key = 0xc7, .ttl = 1, .nonce = 1);
    pull(k, 0, "");
    assert_null(locate_find_request(k->l, LOCATE_NODE, id_of(0xc1).b));
    assert_non_null(locate_find_request(k->l, LOCATE_NODE, id_of(0xc0).b));
    k->now += 20000 * MS; /* what is over makes room, but for our own */
    ask(k, 0, .key = 0xc8, .ttl = 1, .nonce = 1);
    assert_int_equal(k->l->requests.n, 2);
}

static void test_busy(void **state) {
    struct kit *k = three(state);
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 1, .wait = 1000);
    pull(k, 1, "REQUEST ncc/3");
    pull(k, 2, "REQUEST ncc/3");
    struct locate_frame f = {.kind = LOCATE_BUSY};
    key_put(f.key, 0xcc);
    assert_int_equal(receive(k, 1, &f), 0);
    assert_true(k->l->due == k->now + 249875 * (moyai_ns)MOYAI_US);
    assert_int_equal(receive(k, 2, &f), 0);
    assert_int_equal(receive(k, 0, &f), 0); /* was not asked */
    timeout(k);
    pull(k, 0, "");
    pull(k, 1, "REQUEST ncc/3");
    pull(k, 2, "REQUEST ncc/3");
    assert_true(k->l->due == UINT64_MAX);
    assert_int_equal(receive(k, 1, &f), 0);
    assert_int_equal(down(k, 1), 0);
    assert_true(k->l->due == UINT64_MAX || (timeout(k), 1));
    k->now += 480 * MS;
    assert_int_equal(receive(k, 2, &f), 0); /* little time left: not faster than a quarter of a ring's least */
    assert_true(k->l->due == k->now + 25 * MS);
    k->now += 500 * MS;
    timeout(k);
    pull(k, 2, "NEIGHBOURS 1:00"); /* and over */
    assert_int_equal(receive(k, 2, &f), 0);
    assert_true(k->l->due == UINT64_MAX);
    key_put(f.key, 0xcd);
    assert_int_equal(receive(k, 2, &f), 0);
    /* an own look-up: its ring goes on */
    look(k, 1, LOCATE_NODE, 0xce);
    drain(k);
    key_put(f.key, 0xce);
    timeout(k);
    drain(k);
    assert_int_equal(receive(k, 2, &f), 0);
    for (int i = 0; i < 3; i++) {
        timeout(k);
        drain(k);
    }
    expect(k, "not-found1");
}

/* 8.1: a hundred frames a second, ten at once. */
static void test_rate(void **state) {
    struct kit *k = three(state);
    struct locate_frame f = {.kind = LOCATE_LOST, .ttl = 3};
    key_put(f.key, 1);
    key_put(f.dest, 0xa1);
    key_put(f.owner, 3);
    key_put(f.object, 4);
    int sent = 0;
    for (int i = 0; i < 20; i++) { /* notes: no more than 16 */
        assert_int_equal(receive(k, 1, &f), 0);
    }
    assert_int_equal(k->l->notes_n, 16);
    while (locate_pull(k->l, 0, k->now, &k->out)) sent++;
    assert_int_equal(sent, 10);
    assert_false(set_any(locate_ready(k->l, k->now)));
    assert_true(locate_deadline(k->l, k->now) == k->now + 10 * MS);
    k->now += 10 * MS - 1;
    assert_false(locate_pull(k->l, 0, k->now, &k->out));
    k->now += 1;
    assert_true(is_ready(k, 0) && set_count(locate_ready(k->l, k->now)) == 1);
    assert_true(locate_pull(k->l, 0, k->now, &k->out));
    assert_false(locate_pull(k->l, 0, k->now, &k->out));
    k->now += 30 * MS;
    sent = 0;
    while (locate_pull(k->l, 0, k->now, &k->out)) sent++;
    assert_int_equal(sent, 3);
    k->now += 1000 * MS;
    sent = 0;
    while (locate_pull(k->l, 0, k->now, &k->out)) sent++;
    assert_int_equal(sent, 2);
    /* changes that must wait are waited for as well */
    assert_int_equal(receive(k, 1, &f), 0);
    for (int i = 0; i < 7; i++) assert_int_equal(receive(k, 1, &f), 0);
    while (locate_pull(k->l, 0, k->now, &k->out)) {
    }
    assert_int_equal(up(k, 3, 0xa4, 1), 0);
    assert_false(is_ready(k, 0));
    k->now += 20 * MS;
    pull(k, 0, "NEIGHBOURS 3:a4");
    assert_int_equal(down(k, 3), 0);
    assert_true(locate_deadline(k->l, k->now) > k->now);
    /* what is for a link that has gone is gone */
    for (int i = 0; i < 5; i++) assert_int_equal(receive(k, 1, &f), 0);
    struct locate_frame g = f;
    key_put(g.dest, 0xa3);
    assert_int_equal(receive(k, 1, &g), 0);
    assert_int_equal(down(k, 0), 0);
    assert_int_equal(k->l->notes_n, 1);
    pull(k, 2, "LOST 01 of a3 to 03=04/2; NEIGHBOURS 0:00 3:00");
}

/* 5.2: the last ring lasts until all have been asked, and as long as an answer takes from there; what could not be
 * asked in time says nothing. 8.1: one after the other is asked. */
static void test_held(void **state) {
    struct kit *k = three(state);
    look(k, 1, LOCATE_NODE, 0xcc);
    for (int i = 0; i < 3; i++) timeout(k);
    const moyai_ns begun = k->now;
    timeout(k);
    timeout(k);
    expect(k, ""); /* nothing has been sent */
    send_all(k);
    const moyai_ns sent = k->now;
    for (int i = 0; i < 9 && !*k->told; i++) timeout(k);
    expect(k, "not-found1");
    assert_true(sent > begun + 100 * MS && k->now == sent + 100 * MS);
    look(k, 2, LOCATE_NODE, 0xcd);
    for (int i = 0; i < 3; i++) timeout(k);
    const moyai_ns end = k->now + 100 * MS + 3 * 2 * (moyai_ns)MOYAI_SEC;
    for (int i = 0; i < 999 && !*k->told; i++) timeout(k);
    expect(k, "not-found2?");
    assert_true(k->now >= end && k->now < end + 100 * MS);
}

/* 4.9: who is told BUSY waits until it has asked again. */
static void test_held_busy(void **state) {
    struct kit *k = three(state);
    struct locate_frame f = {.kind = LOCATE_BUSY, .key_kind = LOCATE_NODE};
    look(k, 1, LOCATE_NODE, 0xcc);
    for (int i = 0; i < 3; i++) send_all(k), timeout(k);
    send_all(k);
    key_put(f.key, 0xcc);
    assert_int_equal(receive(k, 1, &f), 0);
    const moyai_ns busy = k->now;
    for (int i = 0; i < 99 && k->now < busy + (moyai_ns)MOYAI_SEC; i++) timeout(k);
    expect(k, "");
    for (int i = 0; i < 99 && !set_has(&locate_request(k->l, 0)->send, 1); i++) timeout(k);
    pull(k, 1, "REQUEST ncc/8 flood");
    const moyai_ns again = k->now;
    for (int i = 0; i < 99 && !*k->told; i++) timeout(k);
    expect(k, "not-found1");
    assert_true(k->now == again + 100 * MS);
    look(k, 2, LOCATE_NODE, 0xcd); /* and if it is told so each time, nobody knows */
    key_put(f.key, 0xcd);
    for (int i = 0; i < 999 && !*k->told; i++) {
        send_all(k);
        if (!set_has(&locate_request(k->l, k->l->requests.n - 1)->busy, 2)) assert_int_equal(receive(k, 2, &f), 0);
        timeout(k);
    }
    expect(k, "not-found2?");
}

/* 4.9, 8.1: who asks for what is asked on late is told so; answers and that wait for no rate. */
static void test_slow(void **state) {
    (void)state;
    struct locate_cfg cfg = small;
    cfg.requests = 64;
    struct kit *k = kit_new(&cfg);
    (void)three((void **)&k);
    for (uint8_t i = 0; i < 16; i++) ask(k, 0, .key = (uint8_t)(0xb0 + i), .ttl = 2, .nonce = 5);
    send_all(k); /* ten at once */
    ask(k, 0, .key = 0xe0, .ttl = 2, .nonce = 5);
    pull(k, 0, "BUSY ne0");
    ask(k, 0, .key = 0xa2, .ttl = 2, .nonce = 5);
    ask(k, 1, .key = 0xa3, .ttl = 2, .nonce = 5);
    pull(k, 1, "REPLY na3 found a3 1:3000");
    pull(k, 0, "REPLY na2 found a2 1:2000");
    ask(k, 1, .key = 0xe1, .ttl = 2, .nonce = 6); /* it is asked of link 0, where nothing waits, and of 2 */
    pull(k, 1, "BUSY ne1");
    k->now += (moyai_ns)MOYAI_SEC;
    send_all(k);
    k->now += (moyai_ns)MOYAI_SEC;
    send_all(k);
    ask(k, 0, .key = 0xe2, .ttl = 2, .nonce = 5);
    pull(k, 0, "");
    kit_free(k);
}

/* 7.6: the route that would be forgotten first goes, wherever it is in the table. */
static void test_routes_full(void **state) {
    struct kit *k = three(state);
    static const uint8_t nodes[][4] = {{0xd0, 0xd1, 0xd2}, {0xd1, 0xd2, 0xd0}, {0xd2, 0xd0, 0xd1}};
    for (int i = 0; i < 3; i++) { /* the first of each row is noted first */
        for (int n = 0; n < 4; n++) {
            uint8_t node = n < 3 ? nodes[i][n] : (uint8_t)(0xe0 + i);
            step(k, EV(ROUTE_BAD, .node = id_of(node), .link = 1));
            look(k, 1, LOCATE_NODE, node);
            reply(k, 1, .key = node, .owner = node, .hops = 1, .cost = 50);
            drain(k);
            k->now += MS;
        }
        route(k, nodes[i][0], 0, "none");
        route(k, nodes[i][1], 0, "1/2:2050");
        route(k, nodes[i][2], 0, "1/2:2050");
        step(k, EV(ROUTE_BAD, .node = id_of((uint8_t)(0xe0 + i)), .link = 1));
        for (int n = 0; n < 3; n++) step(k, EV(ROUTE_BAD, .node = id_of(nodes[i][n]), .link = 1));
        assert_int_equal(k->l->routes.n, 0);
        k->now += 2000 * MS;
    }
}

/* 4.5: over means: at that moment. */
static void test_over(void **state) {
    struct kit *k = three(state);
    for (uint8_t i = 0; i < 3; i++) ask(k, 0, .key = (uint8_t)(0xc0 + i), .ttl = 4, .nonce = 1, .wait = 100);
    moyai_ns until = k->now + 100 * MS - MS / 2;
    drain(k);
    k->now = until - 1;
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 1);
    pull(k, 0, "BUSY ncc");
    k->now = until;
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 1);
    pull(k, 0, "");
    assert_int_equal(k->l->requests.n, 1);
    /* an own look-up where others' request has just ended begins anew, where it has not it goes as far */
    ask(k, 0, .key = 0xcd, .ttl = 4, .nonce = 1, .wait = 100);
    until = k->now + 100 * MS - MS / 2;
    drain(k);
    k->now = until - 1;
    look(k, 1, LOCATE_NODE, 0xcd);
    pull(k, 1, "REQUEST ncd/3");
    step(k, EV(CANCEL, .token = 1));
    ask(k, 0, .key = 0xce, .ttl = 4, .nonce = 1, .wait = 100);
    until = k->now + 100 * MS - MS / 2;
    drain(k);
    k->now = until;
    look(k, 1, LOCATE_NODE, 0xce);
    pull(k, 1, "REQUEST nce/1");
}

/* What has waited too long to be sent is not sent. */
static void test_outlived(void **state) {
    struct kit *k = three(state);
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 1, .wait = 100);
    k->now += 100 * MS;
    pull(k, 1, "");
    step(k, EV(EVIDENCE, .node = id_of(0xcd), .how = LOCATE_DEAD));
    k->now += 30000 * MS;
    pull(k, 1, "");
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 1, .wait = 100); /* the same again is new */
    pull(k, 1, "REQUEST ncc/3");
}

/* 4.5: what has lain for too long is not passed on, and leaves no trace: nothing can begin anew by it. */
static void test_late(void **state) {
    struct kit *k = three(state);
    struct locate_frame f = request_of((struct ask){.key = 0xcc, .ttl = 8, .flags = LOCATE_FLOOD, .wait = 1000});
    assert_int_equal(step(k, EV(RECEIVE, .link = 0, .frame = &f, .late = 999 * MOYAI_MS)), 0);
    pull(k, 1, "");
    assert_null(locate_find_request(k->l, LOCATE_NODE, id_of(0xcc).b));
    assert_int_equal(step(k, EV(RECEIVE, .link = 0, .frame = &f, .late = 900 * MOYAI_MS)), 0);
    pull(k, 1, "REQUEST ncc/7 flood several");
    assert_int_equal(k->out.wait, 99);
    /* A copy of it that comes when its time is over here, too. */
    k->now += 2000 * MS;
    assert_int_equal(step(k, EV(RECEIVE, .link = 1, .frame = &f, .late = 2900 * MOYAI_MS)), 0);
    pull(k, 2, "");
}

/* 5.2: where frames come late, rings wait for longer, and after a while not any more. */
static void test_late_rings(void **state) {
    struct kit *k = three(state);
    struct locate_frame f = request_of((struct ask){.key = 0xcc, .ttl = 1, .wait = 1000});
    look(k, 1, LOCATE_NODE, 0xcd);
    uint64_t usual = locate_find_request(k->l, LOCATE_NODE, id_of(0xcd).b)->ring_at - k->now;
    /* Half of what is more, an eighth of what is less; a timer, which is all of the node, at once. */
    static const struct {
        int frame, timer; /* how late, ms */
        uint64_t counts;  /* us */
    } tells[] = {{50, -1, 25000}, {50, -1, 37500}, {5, -1, 33437}, {0, -1, 29257}, {-1, 20, 29257}, {-1, 60, 60000}};
    for (uint32_t i = 0; i < sizeof tells / sizeof *tells; i++) {
        if (tells[i].frame >= 0)
            assert_int_equal(step(k, EV(RECEIVE, .link = 0, .frame = &f, .late = tells[i].frame * MOYAI_MS)), 0);
        else
            assert_int_equal(step(k, EV(TIMEOUT, .late = tells[i].timer * MOYAI_MS)), 0);
        assert_int_equal(locate_late(k->l, k->now) / (uint64_t)MOYAI_US, tells[i].counts);
    }
    look(k, 2, LOCATE_NODE, 0xce);
    uint64_t longer = locate_find_request(k->l, LOCATE_NODE, id_of(0xce).b)->ring_at - k->now;
    assert_int_equal(longer, usual + 4 * 3 * 60 * MS);
    k->now += 100000 * MS;
    look(k, 9, LOCATE_NODE, 0xcf);
    assert_int_equal(locate_find_request(k->l, LOCATE_NODE, id_of(0xcf).b)->ring_at - k->now, usual);
}

/* 5.2: who finds nothing where frames come late tries once more. */
static void test_once_more(void **state) {
    struct kit *k = three(state);
    for (int late = 0; late <= 26; late += 26) {
        look(k, 1, LOCATE_NODE, 0xcd);
        for (int tries = 0; tries < (late ? 2 : 1); tries++) {
            const struct locate_request *r = locate_find_request(k->l, LOCATE_NODE, id_of(0xcd).b);
            assert_non_null(r);
            while (r->ring < LOCATE_RINGS - 1) timeout(k);
            drain(k);
            k->now = r->ring_at + 2000 * MS; /* longer than it lasts also with what it is late now */
            assert_int_equal(step(k, EV(TIMEOUT, .late = late * MOYAI_MS)), 0);
            if (late && tries == 0) expect(k, "");
        }
        expect(k, late ? "not-found1?" : "not-found1");
    }
}

/* Each invariant, broken by hand. */
static void test_check(void **state) {
    struct kit *k = three(state);
    tells(k, 0, 0, 0xb1, 5);
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 1);
    ask(k, 0, .key = 0xcd, .ttl = 4, .nonce = 1);
    reply(k, 1, .key = 0xcd, .owner = 0xcd, .hops = 1, .cost = 10000);
    reply(k, 2, .key = 0xcd, .owner = 0xcd, .hops = 1, .cost = 10001);
    look(k, 1, LOCATE_NODE, 0xce);
    wait_for(k, 2, 0x5f, k->now + 1000 * MS);
    add_name(k, 0x51, 0x61, true);
    add_name(k, 0x52, 0x61, true);
    k->told[0] = 0;
    step(k, EV(EVIDENCE, .node = id_of(0xdd), .how = LOCATE_DEAD));
    struct locate_frame f = {.kind = LOCATE_LOST, .ttl = 3, .key = {1}, .owner = {3}, .object = {4}};
    key_put(f.dest, 0xa1);
    assert_int_equal(receive(k, 1, &f), 0);
    check(k);
    char *copy = malloc(k->size);
    memcpy(copy, k->l, k->size);
    struct locate *l = k->l;
    struct locate_request *cc = locate_find_request(l, LOCATE_NODE, id_of(0xcc).b);
    struct locate_request *cd = locate_find_request(l, LOCATE_NODE, id_of(0xcd).b);
    struct locate_request *ce = locate_find_request(l, LOCATE_NODE, id_of(0xce).b);
    struct locate_lookup *looks = locate_entry(l, &l->lookups, 0);
    struct locate_name *names = locate_entry(l, &l->names, 0);
    struct locate_routes *r = locate_entry(l, &l->routes, 0);
    struct locate_corpse *c = locate_entry(l, &l->dead, 0);
    assert_true(cc && cd && ce && r->n == 2);
#define BREAK(...)                                                                                                     \
    do {                                                                                                               \
        struct moyai_error why = {0};                                                                                  \
        __VA_ARGS__;                                                                                                   \
        if (locate_check(l, &why)) fail_msg("not noticed: %s", #__VA_ARGS__);                                          \
        assert_true(why.text[0] != 0);                                                                                 \
        memcpy(l, copy, k->size);                                                                                      \
    } while (0)
    BREAK(l->names.n = l->names.cap + 1);
    BREAK(l->names.n = 1);
    BREAK(names[0].name[0] = 0xf0);
    BREAK(names[1] = names[0]);
    BREAK(l->up |= low_links(8));
    BREAK(l->up &= ~low_links(2));
    BREAK(locate_link(l, 4)->cost = 1);
    BREAK(locate_link(l, 4)->dirty = low_links(1));
    BREAK(locate_link(l, 4)->state = LINK_DEAD; locate_link(l, 4)->dirty = low_links(1));
    BREAK(locate_link(l, 4)->state = LINK_DEAD; locate_link(l, 4)->names_dirty = 1);
    BREAK(locate_link(l, 1)->names_dirty = 4);
    BREAK(locate_link(l, 1)->dirty = low_links(2); l->changed |= low_links(2));
    BREAK(l->changed ^= low_links(2));
    BREAK(locate_near(l, 4)[5].cost = 1);
    BREAK(locate_near_at(l)[l->links]++);
    BREAK(for (uint32_t i = 5; i <= l->links; i++) locate_near_at(l)[i] += 8);
    BREAK(locate_known(l, 4)[1].name[0] = 1);
    BREAK(memcpy(locate_near(l, 1)[5].node, l->self, 16));
    BREAK(cc->askers |= low_links(8));
    BREAK(cc->asked |= low_links(8));
    BREAK(cc->busy |= low_links(8));
    BREAK(cc->send |= low_links(1));
    BREAK(cc->direct |= low_links(1));
    BREAK(cc->hint |= low_links(1));
    BREAK(l->digests |= low_links(8));
    BREAK(l->digest_new |= low_links(8));
    BREAK(l->digest_send |= low_links(1); l->maybe &= ~low_links(1));
    BREAK(l->digest_at = l->due - 1);
    BREAK(l->near_n++);
    BREAK(cc->busy = low_links(1));
    BREAK(cc->busy = low_links(2));
    BREAK(cc->busy_at = UINT64_MAX);
    BREAK(ce->flags |= REQ_DONE);
    BREAK(cd->askers = low_links(1));
    BREAK(cd->asked = low_links(1));
    BREAK(cc->reply = low_links(1));
    BREAK(cc->ring_at = UINT64_MAX);
    BREAK(ce->ring_at = 0);
    BREAK(cc->flags |= REQ_OWN; cc->ring_at = UINT64_MAX);
    BREAK(cc->until = l->sweep - 1);
    BREAK(ce->ring_at = l->due - 1);
    BREAK(cc->busy = low_links(2); cc->busy_at = l->due - 1);
    BREAK(cc->ttl = 9);
    BREAK(ce->ring = LOCATE_RINGS + 1);
    BREAK(l->maybe = SET_NONE);
    BREAK(l->maybe = low_links(5));
    BREAK(looks[0].flags |= LOOK_DONE);
    BREAK(l->done_n = 1);
    BREAK(ce->flags = 0; ce->ring_at = 0; looks[0].key[0] = 0x77);
    BREAK(looks[0].key[0] = 0xcc);
    BREAK(looks[1].until = l->due - 1);
    BREAK(names[0].state = NAME_LOST);
    BREAK(names[0].state = NAME_CLAIMED);
    BREAK(names[0].state = NAME_CLAIMED; names[0].slot = 0; l->used_slots = 2);
    BREAK(names[0].slot = 2);
    BREAK(names[0].slot = 3; l->used_slots = 6);
    BREAK(l->used_slots = 1);
    BREAK(names[0].slot = 0; l->used_slots = 2);
    BREAK(l->name_tell = 1);
    BREAK(r->n = 0);
    BREAK(r->n = 4);
    BREAK(r->n = 1);
    BREAK(r->alt[1].link = r->alt[0].link);
    BREAK(r->alt[0].link = 4);
    BREAK(r->alt[1].cost = r->alt[0].cost - 1);
    BREAK(r->alt[1].said = r->best);
    BREAK(r->best = r->alt[0].cost + 1);
    BREAK(c->send |= low_links(8));
    BREAK(l->dead_tell = 1);
    BREAK(l->notes[0].link = 4);
    BREAK(cc->send = cc->direct = SET_NONE; cd->reply = SET_NONE; ce->send = SET_NONE; c->send = SET_NONE;
          l->requests.n = 0; l->maybe = low_links(2));
    BREAK(l->notes_n = LOCATE_NOTES + 1; for (int i = 0; i <= LOCATE_NOTES; i++) l->notes[i % LOCATE_NOTES].link = 0);
    free(copy);
}

/* As many links as there can be: all are neighbours, and are told in frames of so many slots. */
static void test_many(void **state) {
    const struct locate_cfg c = {
        .seed = 1, .links = LOCATE_LINKS, .told = 2, .requests = 8, .lookups = 4, .routes = 4, .dead = 4};
    struct kit *k = kit_new(&c);
    const uint32_t all = LOCATE_LINKS - 2; /* for ids of one byte */
    bool told[LOCATE_LINKS] = {false};
    (void)state;
    for (uint32_t i = 0; i < all; i++) {
        if (i + 1 != k->l->self[0]) assert_int_equal(up(k, i, (uint8_t)(i + 1), 1000), 0);
    }
    drain(k); /* at once, since the machine's check looks at much */
    k->now += 1000 * MS;
    /* one more hears of all others */
    assert_int_equal(up(k, all, 0xff, 1000), 0);
    uint32_t frames = 0;
    while (locate_pull(k->l, all, k->now, &k->out)) {
        check(k);
        assert_int_equal(k->out.kind, LOCATE_NEIGHBOURS);
        assert_true(k->out.n <= LOCATE_SLOTS);
        for (uint32_t i = 0; i < k->out.n; i++) {
            const struct locate_slot *s = &k->out.slots[i];
            assert_true(s->slot < all && s->id[0] == s->slot + 1 && !told[s->slot]);
            told[s->slot] = true;
        }
        frames++;
    }
    assert_int_equal(frames, (all + LOCATE_SLOTS - 1) / LOCATE_SLOTS);
    for (uint32_t i = 0; i < all; i++) assert_true(told[i] == (i + 1 != k->l->self[0]));
    drain(k);
    /* the last asks for a node and a name that nobody here knows: all others are asked, and the answer is its own */
    assert_int_equal(ask(k, all, .kind = LOCATE_NAME, .key = 0x77, .ttl = 8, .flags = LOCATE_FLOOD), 0);
    assert_int_equal(set_count(locate_ready(k->l, k->now)), all - 1); /* less this node itself */
    assert_false(is_ready(k, all));
    drain(k);
    assert_int_equal(reply(k, 200, .kind = LOCATE_NAME, .key = 0x77, .owner = 201, .object = 0x78), 0);
    assert_true(is_ready(k, all) && set_count(locate_ready(k->l, k->now)) == 1);
    route(k, 150, 0, "149/1:1000");
    kit_free(k);
}

/* 10.2: any list of events. */
static void test_random(void **state) {
    (void)state;
    struct moyai_rng r;
    rng_seed(&r, 7);
    for (int world = 0; world < 60; world++) {
        struct locate_cfg cfg = small;
        if (world & 1) cfg.digest_every = MOYAI_SEC;
        if (world & 2) cfg.linger = 20 * MOYAI_MS;
        struct kit *k = kit_new(&cfg);
        for (int i = 0; i < 1500; i++) {
            struct locate_frame f = {.kind = (enum locate_frame_kind)rng_below(&r, 8),
                                     .key_kind = (enum locate_key_kind)rng_below(&r, 3),
                                     .ttl = (uint32_t)rng_below(&r, 9),
                                     .flags = rng_below(&r, 2) ? 0 : (uint32_t)rng_below(&r, 9),
                                     .status = rng_below(&r, 3) ? 1 : (uint32_t)rng_below(&r, 6),
                                     .how = (uint32_t)rng_below(&r, 4),
                                     .hops = (uint32_t)rng_below(&r, 5),
                                     .wait = (uint32_t)rng_below(&r, 3000),
                                     .cost = (uint32_t)rng_below(&r, 5000),
                                     .nonce = rng_below(&r, 4),
                                     .n = (uint32_t)rng_below(&r, 3)};
            uint8_t some[8];
            for (int b = 0; b < 8; b++) some[b] = (uint8_t)(0x0f + rng_below(&r, 7));
            key_put(f.key, some[0]);
            key_put(f.owner, f.key_kind == LOCATE_NODE ? some[0] : some[1]);
            key_put(f.object, f.key_kind == LOCATE_NODE && f.kind == LOCATE_REPLY ? 0 : some[2]);
            key_put(f.dest, some[3]);
            for (int b = 0; f.kind == LOCATE_DIGESTED && b < 600; b++) f.digest[rng_below(&r, LOCATE_DIGEST)] = 0xff;
            for (uint32_t s = 0; f.kind != LOCATE_DIGESTED && s < f.n; s++) {
                bool some_id = rng_below(&r, 3);
                f.slots[s] = (struct locate_slot){.slot = (uint32_t)rng_below(&r, 7),
                                                  .cost = some_id ? 1 + (uint32_t)rng_below(&r, 900) : 0};
                key_put(f.slots[s].id, some_id ? some[4 + s] : 0);
                if (f.kind == LOCATE_NAMES) key_put(f.slots[s].object, some_id ? some[6] : 0);
            }
            struct locate_event ev = {.kind = (enum locate_event_kind)rng_below(&r, 12),
                                      .link = (uint32_t)rng_below(&r, 6),
                                      .cost = (moyai_dur)rng_below(&r, 5 * (uint64_t)MOYAI_MS),
                                      .node = id_of(some[0]),
                                      .how = (enum locate_how)rng_below(&r, 4),
                                      .frame = &f,
                                      .token = rng_below(&r, 5),
                                      .key_kind = f.key_kind,
                                      .until = k->now + rng_below(&r, 2000) * MS,
                                      .moved = rng_below(&r, 2)};
            key_put(ev.key, some[0]);
            key_put(ev.object.b, some[2]);
            if (ev.kind == LOCATE_EV_LINK_DOWN && rng_below(&r, 3)) ev.kind = LOCATE_EV_RECEIVE;
            if (ev.kind == LOCATE_EV_EVIDENCE && rng_below(&r, 8)) ev.kind = LOCATE_EV_RECEIVE;
            if (ev.kind == LOCATE_EV_RECEIVE && f.kind == LOCATE_EVIDENCE && rng_below(&r, 8)) f.kind = LOCATE_REQUEST;
            (void)step(k, ev);
            k->told[0] = 0;
            uint32_t link = (uint32_t)rng_below(&r, 6);
            if (rng_below(&r, 2))
                while (locate_pull(k->l, link, k->now, &k->out)) check(k);
            k->now += rng_below(&r, 3) ? 1 : rng_below(&r, 100) * MS;
        }
        kit_free(k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        cmocka_unit_test(test_config),
        T(test_frames),
        T(test_full),
        T(test_busy),
        T(test_rate),
        T(test_held),
        T(test_held_busy),
        T(test_slow),
        T(test_outlived),
        T(test_late),
        T(test_late_rings),
        T(test_once_more),
        T(test_routes_full),
        T(test_over),
        T(test_check),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
