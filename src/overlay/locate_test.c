/* SPDX-License-Identifier: Apache-2.0 */
/* Locating nodes, rule by rule: tables, rings, aggregation, answers, routes, evidence. Numbers:
 * doc/spec/04-locating.md. */
#include "overlay/locate_testkit.h"

static const struct locate_cfg small = {
    .seed = 1, .links = 6, .told = 2, .names = 3, .requests = 8, .lookups = 6, .routes = 2, .dead = 2};

static int setup(void **state) {
    *state = kit_new(&small);
    return 0;
}
static int teardown(void **state) {
    kit_free(*state);
    return 0;
}

/* Links 0, 1, 2 to a1, a2, a3 at 1, 2, 3 ms; all said. */
static struct kit *three(void **state) {
    struct kit *k = *state;
    assert_int_equal(up(k, 0, 0xa1, 1000), 0);
    assert_int_equal(up(k, 1, 0xa2, 2000), 0);
    assert_int_equal(up(k, 2, 0xa3, 3000), 0);
    drain(k);
    return k;
}

/* 3: what neighbours are told. */
static void test_changes(void **state) {
    struct kit *k = *state;
    assert_int_equal(up(k, 0, 0xa1, 1000), 0);
    pull(k, 0, ""); /* nobody else */
    assert_int_equal(up(k, 2, 0xa2, 2000), 0);
    pull(k, 0, "NEIGHBOURS 2:a2"); /* 3.3: at once */
    assert_int_equal(k->out.slots[0].cost, 2000);
    pull(k, 2, "NEIGHBOURS 0:a1");
    assert_int_equal(up(k, 1, 0xa3, 3000), 0);
    pull(k, 1, "NEIGHBOURS 0:a1 2:a2");
    pull(k, 0, ""); /* 3.3: not again within 50 ms */
    assert_true(locate_deadline(k->l, k->now) == k->now + 50 * MS);
    k->now += 20 * MS;
    assert_int_equal(down(k, 2), 0);
    k->now += 30 * MS;
    pull(k, 0, "NEIGHBOURS 1:a3 2:00"); /* gathered; a place that is empty is told by zero */
    pull(k, 1, "NEIGHBOURS 2:00");
    assert_true(locate_deadline(k->l, k->now) == UINT64_MAX); /* 8.3: idle */
}

/* 3.1: hosts, as they were known when the links came up, and as others tell them. */
static void test_hosts(void **state) {
    struct kit *k = *state;
    struct locate_event ev = EV(LINK_UP, .link = 0, .host = 77, .cost = MOYAI_MS);
    key_put(ev.node.b, 0xa1);
    assert_int_equal(step(k, ev), 0);
    assert_int_equal(up(k, 1, 0xa2, 1000), 0);
    pull(k, 1, "NEIGHBOURS 0:a1");
    assert_true(k->out.slots[0].host == 77);
    pull(k, 0, "NEIGHBOURS 1:a2");
    assert_true(k->out.slots[0].host == 0);
    struct locate_frame f = {
        .kind = LOCATE_NEIGHBOURS, .n = 2, .slots = {{.slot = 4, .cost = 1, .host = 5}, {.slot = 2, .cost = 1}}};
    struct locate_neighbour out[3];
    key_put(f.slots[0].id, 0xb4);
    key_put(f.slots[1].id, 0xb2);
    assert_int_equal(receive(k, 1, &f), 0);
    assert_int_equal(locate_neighbours(k->l, 1, out, 3), 2);
    assert_true(id_equal(out[0].node.b, f.slots[1].id) && out[0].host == 0);
    assert_true(id_equal(out[1].node.b, f.slots[0].id) && out[1].host == 5);
    assert_int_equal(locate_neighbours(k->l, 1, out, 1), 1);
    assert_int_equal(locate_neighbours(k->l, 0, out, 3), 0);
    f = (struct locate_frame){.kind = LOCATE_NEIGHBOURS, .n = 1, .slots = {{.slot = 4}}};
    assert_int_equal(receive(k, 1, &f), 0);
    assert_int_equal(locate_neighbours(k->l, 1, out, 3), 1);
}

/* 7.7: who leaves tells that its slots are empty, and answers for itself only. */
static void test_leave(void **state) {
    struct kit *k = three(state);
    struct locate_frame f = {.kind = LOCATE_REQUEST, .key_kind = LOCATE_NODE, .ttl = 4, .nonce = 7, .wait = 1000};
    assert_int_equal(step(k, EV(LEAVE)), 0);
    assert_int_equal(step(k, EV(LEAVE)), MOYAI_EINVAL);
    k->now += 50 * MS;
    pull(k, 0, "NEIGHBOURS 1:00 2:00");
    pull(k, 1, "NEIGHBOURS 0:00 2:00");
    key_put(f.key, 0xa2); /* a neighbour */
    assert_int_equal(receive(k, 0, &f), 0);
    key_put(f.key, 0xcc);
    assert_int_equal(receive(k, 0, &f), 0);
    pull(k, 0, "");
    pull(k, 1, "");
    memcpy(f.key, k->l->self, 16);
    assert_int_equal(receive(k, 0, &f), 0);
    assert_true(locate_pull(k->l, 0, k->now, &k->out));
    assert_true(k->out.kind == LOCATE_REPLY && k->out.status == LOCATE_ST_FOUND && k->out.hops == 0);
    assert_int_equal(up(k, 5, 0xa7, 1000), 0);
    k->now += 50 * MS;
    pull(k, 5, ""); /* nothing to be told of */
    pull(k, 0, "");
    struct locate_hop hop;
    struct moyai_node_id to = {{0}};
    key_put(to.b, 0xa2);
    assert_true(locate_route(k->l, &to, SET_NONE, k->now, &hop)); /* its own ways are as before */
}

/* 3.2: costs, when they have doubled or halved. */
static void test_cost(void **state) {
    struct kit *k = three(state);
    assert_int_equal(step(k, EV(COST, .link = 0, .cost = 2 * MOYAI_MS)), 0);
    assert_int_equal(step(k, EV(COST, .link = 0, .cost = 500 * MOYAI_US)), 0);
    pull(k, 1, "");
    assert_int_equal(step(k, EV(COST, .link = 0, .cost = 499 * MOYAI_US)), 0);
    pull(k, 0, "");
    pull(k, 1, "NEIGHBOURS 0:a1");
    assert_int_equal(k->out.slots[0].cost, 499);
    route(k, 0xa1, 0, "0/1:499");
    k->now += 50 * MS;
    assert_int_equal(step(k, EV(COST, .link = 0, .cost = 999 * MOYAI_US)), 0);
    pull(k, 1, "NEIGHBOURS 0:a1");
    assert_int_equal(k->out.slots[0].cost, 999);
    assert_int_equal(step(k, EV(COST, .link = 0, .cost = 0)), 0);
    route(k, 0xa1, 0, "0/1:1");
    assert_int_equal(step(k, EV(COST, .link = 0, .cost = INT64_MAX)), 0);
    route(k, 0xa1, 0, "0/1:600000000");
    assert_int_equal(step(k, EV(COST, .link = 3, .cost = 1)), MOYAI_EINVAL);
    assert_int_equal(step(k, EV(COST, .link = 99, .cost = 1)), MOYAI_EINVAL);
}

static void test_links(void **state) {
    struct kit *k = three(state);
    assert_int_equal(up(k, 0, 0xa9, 1), MOYAI_EINVAL); /* taken */
    assert_int_equal(up(k, 6, 0xa9, 1), MOYAI_EINVAL);
    assert_int_equal(up(k, 3, 0, 1), MOYAI_EINVAL);
    assert_int_equal(up(k, 3, SELF, 1), MOYAI_EINVAL);
    assert_int_equal(up(k, 5, 0xa9, 1), 0);
    assert_int_equal(down(k, 4), MOYAI_EINVAL);
    assert_int_equal(down(k, 6), MOYAI_EINVAL);
    assert_int_equal(down(k, 5), 0);
    assert_int_equal(down(k, 5), MOYAI_EINVAL);
    struct locate_frame f = request_of((struct ask){.key = 1, .ttl = 1});
    assert_int_equal(receive(k, 5, &f), MOYAI_EINVAL);
    assert_int_equal(receive(k, 6, &f), MOYAI_EINVAL);
    assert_int_equal(step(k, EV(ROUTE_BAD, .link = 6, .node = id_of(1))), MOYAI_EINVAL);
    assert_false(locate_pull(k->l, 5, k->now, &k->out));
    assert_false(locate_pull(k->l, 6, k->now, &k->out));
}

/* 5.1, 7.1: from the tables: oneself, a neighbour, its neighbour, the nearest of several. */
static void test_tables(void **state) {
    struct kit *k = three(state);
    assert_int_equal(tells(k, 0, 0, 0xb1, 5000), 0);
    assert_int_equal(tells(k, 1, 3, 0xb1, 3000), 0);
    look(k, 1, LOCATE_NODE, SELF);
    expect(k, "found1:10/0");
    look(k, 2, LOCATE_NODE, 0xa2);
    expect(k, "found2:a2/1");
    look(k, 3, LOCATE_NODE, 0xb1);
    expect(k, "found3:b1/2");
    route(k, 0xb1, 0, "1/2:5000");
    route(k, 0xb1, 2, "0/2:6000");
    route(k, 0xb1, 3, "none");
    route(k, 0xa1, 1, "none");
    route(k, SELF, 0, "none");
    pull(k, 0, "");
    assert_int_equal(tells(k, 1, 3, 0, 0), 0); /* not any more */
    route(k, 0xb1, 0, "0/2:6000");
    assert_int_equal(tells(k, 0, 0, 0xb2, 1), 0); /* its place is another's */
    route(k, 0xb1, 0, "none");
    route(k, 0xb2, 0, "0/2:1001");
    assert_int_equal(tells(k, 2, 1, SELF, 1), 0); /* that is us */
    assert_int_equal(tells(k, 2, 6, 0xb7, 1), 0); /* 3.4: beyond what we can note */
    assert_int_equal(tells(k, 2, 63, 0xb7, 1), 0);
    route(k, 0xb7, 0, "none");
    assert_int_equal(tells(k, 2, 5, 0xb7, 1), 0);
    route(k, 0xb7, 0, "2/2:3001");
    assert_int_equal(down(k, 2), 0); /* 3.5 */
    route(k, 0xb7, 0, "none");
    /* two links to one node: the cheaper */
    assert_int_equal(up(k, 4, 0xa2, 1500), 0);
    route(k, 0xa2, 0, "4/1:1500");
    route(k, 0xa2, 16, "1/1:2000");
    ask(k, 0, .key = 0xa2, .ttl = 1, .nonce = 5);
    pull(k, 0, "REPLY na2 found a2 1:1500; NEIGHBOURS 2:00 4:a2");
}

/* 5.2: rings of 1, 2, 3 and 8, to all; then there is none. */
static void test_rings(void **state) {
    struct kit *k = three(state);
    look(k, 7, LOCATE_NODE, 0xcc);
    expect(k, "");
    moyai_ns start = k->now;
    pull(k, 0, "REQUEST ncc/1");
    assert_int_equal(k->out.wait, 25);
    uint64_t nonce = k->out.nonce;
    assert_true(nonce != 0);
    pull(k, 1, "REQUEST ncc/1");
    pull(k, 2, "REQUEST ncc/1");
    pull(k, 0, "");
    timeout(k); /* slowest link 3 ms: 18 ms, at least a quarter of 100 */
    assert_true(k->now == start + 25 * MS);
    start = k->now;
    pull(k, 0, "REQUEST ncc/2");
    assert_int_equal(k->out.wait, 100);
    assert_true(k->out.nonce == nonce);
    pull(k, 1, "REQUEST ncc/2");
    pull(k, 2, "REQUEST ncc/2");
    timeout(k); /* 24 ms, at least 100 */
    assert_true(k->now == start + 100 * MS);
    pull(k, 0, "REQUEST ncc/3");
    assert_true(k->out.nonce == nonce);
    drain(k);
    timeout(k);
    pull(k, 1, "REQUEST ncc/8 flood");
    expect(k, "");
    drain(k);
    timeout(k);
    expect(k, "not-found7");
    assert_true(k->now == start + 460 * MS); /* drain takes 180, twice */
    assert_true(locate_deadline(k->l, k->now) == UINT64_MAX);
}

/* 5.2: the time of a ring follows the slowest link, within bounds. */
static void test_ring_time(void **state) {
    struct kit *k = three(state);
    assert_int_equal(step(k, EV(COST, .link = 1, .cost = 40 * MOYAI_MS)), 0);
    drain(k);
    look(k, 7, LOCATE_NODE, 0xcc);
    assert_true(locate_deadline(k->l, k->now) == k->now + 240 * MS);
    timeout(k);
    assert_true(k->l->due == k->now + 320 * MS);
    timeout(k);
    assert_true(k->l->due == k->now + 400 * MS);
    timeout(k);
    assert_true(k->l->due == k->now + 800 * MS);
    send_all(k);
    timeout(k);
    expect(k, "not-found7");
    assert_int_equal(step(k, EV(COST, .link = 1, .cost = 10 * MOYAI_SEC)), 0);
    drain(k);
    look(k, 8, LOCATE_NODE, 0xcc);
    assert_true(k->l->due == k->now + 500 * MS);
    timeout(k);
    assert_true(k->l->due == k->now + 2000 * MS);
}

/* 5.5: an answer serves all who look here; 7.2: it leaves a route. */
static void test_found(void **state) {
    struct kit *k = three(state);
    look(k, 1, LOCATE_NODE, 0xcc);
    look(k, 2, LOCATE_NODE, 0xcc);
    pull(k, 0, "REQUEST ncc/1");
    pull(k, 0, "");
    reply(k, 1, .key = 0xcc, .owner = 0xcc, .hops = 2, .cost = 700);
    expect(k, "found2:cc/3 found1:cc/3");
    route(k, 0xcc, 0, "1/3:2700");
    route(k, 0xcc, 2, "none");
    look(k, 3, LOCATE_NODE, 0xcc); /* 5.1 */
    expect(k, "found3:cc/3");
    pull(k, 2, ""); /* what has not been asked need not be */
}

/* 4.3: who asks while we do. */
static void test_aggregate(void **state) {
    struct kit *k = three(state);
    ask(k, 0, .key = 0xcc, .ttl = 3, .nonce = 5);
    pull(k, 0, "");
    pull(k, 1, "REQUEST ncc/2");
    assert_true(k->out.nonce == 5 && k->out.wait == 999);
    pull(k, 2, "REQUEST ncc/2");
    ask(k, 1, .key = 0xcc, .ttl = 3, .nonce = 5); /* an echo */
    pull(k, 0, "");
    pull(k, 1, "");
    pull(k, 2, "");
    ask(k, 2, .key = 0xcc, .ttl = 3, .nonce = 6); /* another's, that is no last ring */
    pull(k, 0, "");
    pull(k, 1, "");
    pull(k, 2, "");
    ask(k, 0, .key = 0xcc, .ttl = 3, .nonce = 5, .flags = LOCATE_FLOOD); /* and one that is: an asker waits already */
    pull(k, 0, "REQUEST ncc/2 flood");
    assert_true(k->out.nonce == 5);
    pull(k, 1, "REQUEST ncc/2 flood");
    pull(k, 2, "REQUEST ncc/2 flood");
    ask(k, 1, .key = 0xcc, .ttl = 3, .nonce = 5, .flags = LOCATE_FLOOD);
    pull(k, 0, "");
    ask(k, 2, .key = 0xcc, .ttl = 3, .nonce = 6, .flags = LOCATE_FLOOD); /* another's last ring: all, once more */
    pull(k, 0, "REQUEST ncc/2 flood several");
    pull(k, 1, "REQUEST ncc/2 flood several");
    pull(k, 2, "REQUEST ncc/2 flood several");
    ask(k, 1, .key = 0xcc, .ttl = 3, .nonce = 7, .flags = LOCATE_FLOOD);
    pull(k, 0, "");
    pull(k, 1, "");
    pull(k, 2, "");
    reply(k, 1, .key = 0xcc, .owner = 0xcc, .hops = 1, .cost = 10);
    pull(k, 0, "REPLY ncc found cc 2:2010");
    pull(k, 1, ""); /* that is where it came from */
    pull(k, 2, "REPLY ncc found cc 2:2010");
    reply(k, 2, .key = 0xcc, .owner = 0xcc, .hops = 3, .cost = 10); /* once */
    pull(k, 0, "");
}

/* 4.3: of several from the start: who asked first is asked when a second comes. */
static void test_several(void **state) {
    struct kit *k = three(state);
    ask(k, 0, .key = 0xcc, .ttl = 3, .nonce = 0);
    pull(k, 0, "");
    pull(k, 1, "REQUEST ncc/2 several");
    pull(k, 2, "REQUEST ncc/2 several");
    ask(k, 1, .key = 0xcc, .ttl = 3, .nonce = 0);
    pull(k, 0, "REQUEST ncc/2 several");
    pull(k, 1, "");
    pull(k, 2, "");
}

/* 4.4: a larger ring goes further, an echo of one comes from nearer; so does one that has more time. */
static void test_larger(void **state) {
    struct kit *k = three(state);
    ask(k, 0, .key = 0xcc, .ttl = 1, .nonce = 5);
    pull(k, 1, "");
    ask(k, 1, .key = 0xcc, .ttl = 2, .nonce = 5);
    pull(k, 0, "REQUEST ncc/1");
    pull(k, 1, "");
    pull(k, 2, "REQUEST ncc/1");
    ask(k, 1, .key = 0xcc, .ttl = 4, .nonce = 5);
    pull(k, 2, "REQUEST ncc/3");
    pull(k, 0, "REQUEST ncc/3");
    ask(k, 1, .key = 0xcc, .ttl = 4, .nonce = 5, .flags = LOCATE_FLOOD);
    pull(k, 2, "REQUEST ncc/3 flood");
    pull(k, 0, "REQUEST ncc/3 flood");
    reply(k, 2, .key = 0xcc, .owner = 0xcc, .hops = 1, .cost = 10);
    pull(k, 0, "");
    pull(k, 1, "REPLY ncc found cc 2:3010");

    ask(k, 0, .key = 0xcd, .ttl = 4, .nonce = 0);
    pull(k, 2, "REQUEST ncd/3 several");
    ask(k, 1, .key = 0xcd, .ttl = 4, .nonce = 0, .wait = 2000); /* twice: enough */
    pull(k, 2, "");
    ask(k, 1, .key = 0xcd, .ttl = 4, .nonce = 0, .wait = 5000);
    pull(k, 2, "REQUEST ncd/3 several");
    assert_int_equal(k->out.wait, 4999); /* 4.5: but for the way it came */
    ask(k, 1, .key = 0xce, .ttl = 1, .nonce = 3, .wait = 100000000);
    assert_true(locate_find_request(k->l, LOCATE_NODE, id_of(0xce).b)->until == k->now + 119999 * MS); /* 4.5 */
}

/* 4.3: an own look-up that meets a request; 5.4: one that comes when the rings have begun. */
static void test_own_meets(void **state) {
    struct kit *k = three(state);
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 5, .wait = 10000);
    drain(k);
    look(k, 1, LOCATE_NODE, 0xcc);
    pull(k, 0, "REQUEST ncc/3");
    assert_true(k->out.nonce != 5 && k->out.nonce != 0);
    uint64_t nonce = k->out.nonce;
    pull(k, 1, "REQUEST ncc/3");
    ask(k, 1, .key = 0xcc, .ttl = 2, .nonce = 9);
    ask(k, 2, .key = 0xcc, .ttl = 8, .nonce = nonce); /* our own echo */
    pull(k, 0, "");
    drain(k);
    look(k, 2, LOCATE_NODE, 0xcc);
    for (int i = 0; i < 3; i++) timeout(k);
    pull(k, 0, "REQUEST ncc/8 flood");
    send_all(k);
    timeout(k);
    expect(k, "not-found1");
    for (int i = 0; i < 3; i++) timeout(k);
    send_all(k);
    timeout(k);
    expect(k, "not-found2");
    assert_true(k->l->due == UINT64_MAX);
    reply(k, 2, .key = 0xcc, .owner = 0xcc, .hops = 1, .cost = 10); /* others wait longer */
    pull(k, 0, "REPLY ncc found cc 2:3010");
}

/* 4.2: the destination and its neighbours answer, at once; who is two links away sends it there alone. */
static void test_answers(void **state) {
    struct kit *k = three(state);
    ask(k, 0, .key = SELF, .ttl = 1, .nonce = 5);
    pull(k, 0, "REPLY n10 found 10 0:0");
    ask(k, 0, .key = 0xa2, .ttl = 2, .nonce = 5);
    pull(k, 0, "REPLY na2 found a2 1:2000");
    pull(k, 1, "");
    pull(k, 2, "");
    ask(k, 0, .key = 0xa2, .ttl = 1, .nonce = 5, .flags = LOCATE_DIRECT);
    pull(k, 0, "REPLY na2 found a2 1:2000");
    tells(k, 1, 0, 0xb1, 100);
    tells(k, 2, 0, 0xb1, 100);
    ask(k, 0, .key = 0xb1, .ttl = 1, .nonce = 5);
    pull(k, 1, "REQUEST nb1/1 direct");
    pull(k, 2, "");
    ask(k, 2, .key = 0xb1, .ttl = 4, .nonce = 6);
    pull(k, 1, "REQUEST nb1/1 direct");
    pull(k, 0, "");
    ask(k, 0, .key = 0xb1, .ttl = 4, .nonce = 6, .flags = LOCATE_FLOOD); /* 4.6: the last ring asks all */
    pull(k, 1, "REQUEST nb1/3 flood");
    pull(k, 2, "REQUEST nb1/3 flood");
    pull(k, 0, "REQUEST nb1/3 flood");                                    /* there are two who ask */
    ask(k, 0, .key = 0xb9, .ttl = 1, .nonce = 6, .flags = LOCATE_DIRECT); /* not known: forgotten */
    assert_null(locate_find_request(k->l, LOCATE_NODE, id_of(0xb9).b));
    /* the asker himself is no way */
    tells(k, 1, 1, 0xb3, 100);
    ask(k, 1, .key = 0xb3, .ttl = 1, .nonce = 5);
    pull(k, 1, "");
    pull(k, 0, "");
}

/* 4.7: who comes late has the same answer, for as long as it is new and its way is there. */
static void test_late(void **state) {
    struct kit *k = three(state);
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 5, .wait = 100);
    drain(k);
    reply(k, 1, .key = 0xcc, .owner = 0xcc, .hops = 1, .cost = 10);
    pull(k, 0, "REPLY ncc found cc 2:2010");
    ask(k, 2, .key = 0xcc, .ttl = 2, .nonce = 5); /* an echo */
    pull(k, 2, "");
    ask(k, 2, .key = 0xcc, .ttl = 2, .nonce = 6);
    pull(k, 2, "REPLY ncc found cc 2:2010+1");
    pull(k, 0, "");
    ask(k, 1, .key = 0xcc, .ttl = 2, .nonce = 7); /* the way leads to who asks: asked anew */
    pull(k, 0, "REQUEST ncc/1");
    reply(k, 0, .key = 0xcc, .owner = 0xcc, .hops = 1, .cost = 10);
    drain(k);
    ask(k, 1, .key = 0xcc, .ttl = 4, .nonce = 7); /* an echo that goes farther: its sender has missed the answer */
    pull(k, 1, "REPLY ncc found cc 2:1010+12");
    pull(k, 2, "");
    ask(k, 1, .key = 0xcc, .ttl = 4, .nonce = 7); /* and once is enough */
    pull(k, 1, "");
    k->now += 1000 * MS;
    ask(k, 2, .key = 0xcc, .ttl = 2, .nonce = 6);
    drain(k);
    assert_false(locate_find_request(k->l, LOCATE_NODE, id_of(0xcc).b)->flags & REQ_DONE);
    reply(k, 0, .key = 0xcc, .owner = 0xcc, .hops = 1, .cost = 10);
    drain(k);
    assert_int_equal(step(k, EV(ROUTE_BAD, .node = id_of(0xcc), .link = 0)), 0);
    ask(k, 1, .key = 0xcc, .ttl = 2, .nonce = 8);
    pull(k, 2, "REQUEST ncc/1");
}

/* 4.7: and it says how old it is, so that it does not go round for ever. */
static void test_age(void **state) {
    struct kit *k = three(state);
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 5, .wait = 100);
    drain(k);
    reply(k, 1, .key = 0xcc, .owner = 0xcc, .hops = 1, .cost = 10, .age = 60); /* it was served late */
    pull(k, 0, "REPLY ncc found cc 2:2010+60");                                /* to who had asked before: no older */
    k->now += 30 * MS;
    ask(k, 2, .key = 0xcc, .ttl = 2, .nonce = 6);
    pull(k, 2, "REPLY ncc found cc 2:2010+62");
    k->now += 10 * MS; /* a second in all */
    ask(k, 2, .key = 0xcc, .ttl = 2, .nonce = 7, .wait = 100000);
    pull(k, 0, "REQUEST ncc/1");
    k->now += 4000 * MS;
    reply(k, 0, .key = 0xcc, .owner = 0xcc, .hops = 1, .cost = 10, .age = 255);
    pull(k, 2, "REPLY ncc found cc 2:1010+255");
    /* What is in the tables is of now, whatever was remembered. */
    assert_int_equal(up(k, 3, 0xcc, 100), 0);
    drain(k);
    ask(k, 2, .key = 0xcc, .ttl = 2, .nonce = 8);
    pull(k, 2, "REPLY ncc found cc 1:100");
    k->now += 20 * MS;
    ask(k, 0, .key = 0xcc, .ttl = 2, .nonce = 9);
    pull(k, 0, "REPLY ncc found cc 1:100");
    /* One that has gone too far is no answer. */
    ask(k, 0, .key = 0xcd, .ttl = 4, .nonce = 5, .wait = 100);
    drain(k);
    assert_int_equal(reply(k, 1, .key = 0xcd, .owner = 0xcd, .hops = 64, .cost = 10), 0);
    pull(k, 0, "");
    route(k, 0xcd, 0, "none");
    reply(k, 1, .key = 0xcd, .owner = 0xcd, .hops = 63, .cost = 10);
    pull(k, 0, "REPLY ncd found cd 64:2010");
}

/* 7: routes. */
static void test_routes(void **state) {
    struct kit *k = three(state);
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 5, .wait = 100000);
    reply(k, 1, .key = 0xcc, .owner = 0xcc, .hops = 2, .cost = 5000);
    route(k, 0xcc, 0, "1/3:7000");
    reply(k, 2, .key = 0xcc, .owner = 0xcc, .hops = 1, .cost = 7000); /* 7.3: not nearer than we were */
    route(k, 0xcc, 2, "none");
    reply(k, 2, .key = 0xcc, .owner = 0xcc, .hops = 1, .cost = 6999);
    route(k, 0xcc, 0, "1/3:7000");
    route(k, 0xcc, 2, "2/2:9999");
    reply(k, 0, .key = 0xcc, .owner = 0xcc, .hops = 4, .cost = 5500); /* nearer than all: and no way for the second */
    route(k, 0xcc, 0, "0/5:6500");
    route(k, 0xcc, 1, "1/3:7000");
    route(k, 0xcc, 3, "none");
    reply(k, 1, .key = 0xcc, .owner = 0xcc, .hops = 4, .cost = 6400); /* the same way, dearer */
    route(k, 0xcc, 1, "1/3:7000");
    reply(k, 1, .key = 0xcc, .owner = 0xcc, .hops = 4, .cost = 100);
    route(k, 0xcc, 0, "1/5:2100");
    route(k, 0xcc, 2, "none");
    /* 7.2: the first answer to the next request replaces them */
    ask(k, 2, .key = 0xcc, .ttl = 4, .nonce = 7, .wait = 100000); /* late: served */
    k->now += 2000 * MS;
    ask(k, 2, .key = 0xcc, .ttl = 4, .nonce = 8, .wait = 100000);
    reply(k, 0, .key = 0xcc, .owner = 0xcc, .hops = 6, .cost = 90000);
    route(k, 0xcc, 0, "0/7:91000");
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 8, .wait = 100000); /* 7.4: an echo of what has been answered */
    route(k, 0xcc, 0, "0/7:91000");
    ask(k, 0, .key = 0xcc, .ttl = 1, .nonce = 9); /* who asks has no way */
    route(k, 0xcc, 0, "none");
    /* 7.3: also when the best is gone */
    ask(k, 0, .key = 0xce, .ttl = 4, .nonce = 5, .wait = 100000);
    reply(k, 1, .key = 0xce, .owner = 0xce, .hops = 2, .cost = 500);
    reply(k, 2, .key = 0xce, .owner = 0xce, .hops = 1, .cost = 2400);
    assert_int_equal(step(k, EV(ROUTE_BAD, .node = id_of(0xce), .link = 1)), 0);
    reply(k, 0, .key = 0xce, .owner = 0xce, .hops = 1, .cost = 2500);
    route(k, 0xce, 0, "2/2:5400");
    reply(k, 0, .key = 0xce, .owner = 0xce, .hops = 1, .cost = 2499);
    route(k, 0xce, 0, "0/2:3499");
    reply(k, 1, .key = 0xcd, .owner = 0xcd, .hops = 2, .cost = 5000); /* nobody asked */
    route(k, 0xcd, 0, "none");
}

/* 7.6: life, bounds. */
static void test_route_life(void **state) {
    struct kit *k = three(state);
    look(k, 1, LOCATE_NODE, 0xcc);
    reply(k, 1, .key = 0xcc, .owner = 0xcc, .hops = 2, .cost = 5000);
    k->now += 59 * (moyai_ns)MOYAI_SEC;
    route(k, 0xcc, 0, "1/3:7000"); /* used: lives on */
    k->now += 59 * (moyai_ns)MOYAI_SEC;
    route(k, 0xcc, 0, "1/3:7000");
    k->now += 60 * (moyai_ns)MOYAI_SEC;
    route(k, 0xcc, 0, "none");
    for (uint8_t i = 0; i < 3; i++) { /* two fit */
        look(k, 2, LOCATE_NODE, (uint8_t)(0xd0 + i));
        reply(k, 1, .key = (uint8_t)(0xd0 + i), .owner = (uint8_t)(0xd0 + i), .hops = 1, .cost = 50);
        k->now += MS;
    }
    route(k, 0xd0, 0, "none");
    route(k, 0xd1, 0, "1/2:2050");
    route(k, 0xd2, 0, "1/2:2050");
    look(k, 3, LOCATE_NODE, 0xd3);
    reply(k, 1, .key = 0xd3, .owner = 0xd3, .hops = 1, .cost = UINT32_MAX);
    route(k, 0xd1, 0, "none"); /* the least recently used */
    route(k, 0xd3, 0, "1/2:4294967295");
    assert_int_equal(down(k, 1), 0);
    route(k, 0xd3, 0, "none");
    assert_int_equal(k->l->routes.n, 0);
}

/* 6: evidence. */
static void test_evidence(void **state) {
    struct kit *k = three(state);
    tells(k, 1, 0, 0xb1, 100);
    look(k, 1, LOCATE_NODE, 0xcc);
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 6);
    drain(k);
    assert_int_equal(step(k, EV(EVIDENCE, .node = id_of(0xcc), .how = LOCATE_LEFT)), 0);
    expect(k, "left1:cc");
    pull(k, 0, "REPLY ncc left cc 0:0; EVIDENCE cc left/2");
    assert_int_equal(k->out.wait, 30000);
    pull(k, 1, "EVIDENCE cc left/2");
    look(k, 2, LOCATE_NODE, 0xcc);
    expect(k, "left2:cc");
    ask(k, 2, .key = 0xcc, .ttl = 1, .nonce = 6);
    pull(k, 2, "REPLY ncc left cc 0:0; EVIDENCE cc left/2");
    assert_int_equal(step(k, EV(EVIDENCE, .node = id_of(0xcc), .how = LOCATE_DEAD)), 0); /* the first stands */
    assert_int_equal(locate_dead(k->l, &(struct moyai_node_id){.b = {0xcc, [15] = 1}}, k->now), LOCATE_LEFT);
    struct locate_frame f = {.kind = LOCATE_EVIDENCE, .how = LOCATE_DEAD, .ttl = 2, .wait = 500};
    key_put(f.key, 0xb1);
    assert_int_equal(receive(k, 0, &f), 0);
    expect(k, "evidence:b1:dead");
    pull(k, 0, "");
    pull(k, 1, "EVIDENCE b1 dead/1");
    assert_int_equal(k->out.wait, 500);
    route(k, 0xb1, 0, "none"); /* whatever a neighbour's list says */
    assert_int_equal(receive(k, 2, &f), 0);
    expect(k, "");
    k->now += 500 * MS; /* its time is over */
    route(k, 0xb1, 0, "1/2:2100");
    f.ttl = 1;
    f.wait = 1000000; /* never longer than our own */
    assert_int_equal(receive(k, 2, &f), 0);
    expect(k, "evidence:b1:dead");
    pull(k, 1, "");
    k->now += 30000 * MS - 1;
    route(k, 0xb1, 0, "none");
    k->now += 1;
    route(k, 0xb1, 0, "1/2:2100");
    /* What others are told of otherwise is kept, and not passed on. */
    assert_int_equal(step(k, EV(EVIDENCE, .node = id_of(0xce), .how = LOCATE_DEAD, .told = true)), 0);
    assert_int_equal(locate_dead(k->l, &(struct moyai_node_id){.b = {0xce, [15] = 1}}, k->now), LOCATE_DEAD);
    for (uint32_t i = 0; i < 3; i++) pull(k, i, "");
    assert_int_equal(step(k, EV(EVIDENCE, .node = id_of(0xcd), .how = 0)), MOYAI_EINVAL);
    assert_int_equal(step(k, EV(EVIDENCE, .node = id_of(0xcd), .how = 4)), MOYAI_EINVAL);
    assert_int_equal(step(k, EV(EVIDENCE, .node = id_of(0), .how = 1)), MOYAI_EINVAL);
    assert_int_equal(step(k, EV(EVIDENCE, .node = id_of(SELF), .how = 1)), MOYAI_EINVAL);
    key_put(f.key, SELF); /* 6.5: they believe it of us */
    assert_int_equal(receive(k, 2, &f), 0);
    expect(k, "evidence:10:dead");
}

/* 6.3: that who has left was cleared goes along with all that tells of it. */
static void test_cleared(void **state) {
    struct kit *k = three(state);
    look(k, 1, LOCATE_NODE, 0xcc);
    look(k, 2, LOCATE_NODE, 0xcd);
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 6);
    drain(k);
    assert_int_equal(step(k, EV(EVIDENCE, .node = id_of(0xcc), .how = LOCATE_CLEARED)), 0);
    expect(k, "cleared1:cc");
    pull(k, 0, "REPLY ncc cleared cc 0:0; EVIDENCE cc cleared/2");
    assert_int_equal(locate_dead(k->l, &(struct moyai_node_id){.b = {0xcc, [15] = 1}}, k->now), LOCATE_CLEARED);
    reply(k, 1, .key = 0xcd, .owner = 0xcd, .status = LOCATE_ST_CLEARED);
    expect(k, "evidence:cd:cleared cleared2:cd");
    ask(k, 0, .key = 0xcd, .ttl = 1, .nonce = 7);
    pull(k, 0, "REPLY ncd cleared cd 0:0");
    struct locate_frame f = {.kind = LOCATE_EVIDENCE, .how = LOCATE_CLEARED, .ttl = 2, .wait = 500};
    key_put(f.key, 0xb1); /* the table holds two */
    drain(k);
    assert_int_equal(receive(k, 0, &f), 0);
    expect(k, "evidence:b1:cleared");
    pull(k, 1, "EVIDENCE b1 cleared/1");
}

/* 6.3: an answer is evidence as well; 6.4 and an answer never names a dead node. */
static void test_dead_answers(void **state) {
    struct kit *k = three(state);
    look(k, 1, LOCATE_NODE, 0xcc);
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 6);
    drain(k);
    reply(k, 1, .key = 0xcc, .owner = 0xcc, .status = LOCATE_ST_DEAD);
    expect(k, "evidence:cc:dead dead1:cc");
    pull(k, 0, "REPLY ncc dead cc 0:0");
    pull(k, 2, "");
    look(k, 2, LOCATE_NAME, 0x51);
    drain(k);
    reply(k, 1, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xcc, .object = 0x61);
    expect(k, "");
    reply(k, 1, .kind = LOCATE_NAME, .key = 0x51, .owner = SELF, .object = 0x61); /* we know better */
    expect(k, "");
    /* an answered look-up, and then the destination dies: who comes late is told so */
    look(k, 3, LOCATE_NODE, 0xcd);
    reply(k, 1, .key = 0xcd, .owner = 0xcd, .hops = 1, .cost = 1);
    expect(k, "found3:cd/2");
    step(k, EV(EVIDENCE, .node = id_of(0xcd), .how = LOCATE_DEAD));
    route(k, 0xcd, 0, "none");
    drain(k);
    ask(k, 0, .key = 0xcd, .ttl = 4, .nonce = 16);
    pull(k, 0, "REPLY ncd dead cd 0:0");
}

/* 6.2: a neighbour that is dead, while its link is still there. */
static void test_dead_neighbour(void **state) {
    struct kit *k = three(state);
    tells(k, 1, 0, 0xb1, 100);
    tells_name(k, 1, 0, 0x51, 0x61);
    ask(k, 1, .key = 0xcc, .ttl = 4, .nonce = 6);
    step(k, EV(EVIDENCE, .node = id_of(0xa2), .how = LOCATE_DEAD));
    expect(k, "");
    pull(k, 0, "EVIDENCE a2 dead/2; NEIGHBOURS 1:00");
    pull(k, 1, "");
    route(k, 0xa2, 0, "none");
    route(k, 0xb1, 0, "none");
    struct locate_frame f = request_of((struct ask){.key = 0xcd, .ttl = 1});
    assert_int_equal(receive(k, 1, &f), MOYAI_EDEAD);
    assert_int_equal(step(k, EV(COST, .link = 1, .cost = 1)), MOYAI_EINVAL);
    assert_int_equal(up(k, 4, 0xa2, 1), MOYAI_EDEAD);
    assert_int_equal(down(k, 1), 0);
    assert_int_equal(up(k, 1, 0xa4, 1), 0);
    drain(k);
    k->now += 30000 * MS;
    assert_int_equal(up(k, 4, 0xa2, 1), 0); /* forgotten */
}

/* 6.1: when full, what would be forgotten first goes. */
static void test_evidence_full(void **state) {
    struct kit *k = three(state);
    for (uint8_t i = 1; i <= 3; i++) {
        step(k, EV(EVIDENCE, .node = id_of((uint8_t)(0xd0 - i)), .how = LOCATE_DEAD));
        k->now += MS;
    }
    for (uint8_t i = 1; i <= 3; i++) {
        struct moyai_node_id id = id_of((uint8_t)(0xd0 - i));
        assert_int_equal(locate_dead(k->l, &id, k->now), i == 1 ? 0 : LOCATE_DEAD);
    }
    k->now += 40000 * MS; /* all are over */
    step(k, EV(EVIDENCE, .node = id_of(0xdd), .how = LOCATE_DEAD));
    assert_int_equal(k->l->dead.n, 1);
    pull(k, 0, "EVIDENCE dd dead/2"); /* and what was not sent in time is not */
}

/* 4.3: a link that ends by which others were asked in a last ring: all are asked by nonce 0, once. */
static void test_loses(void **state) {
    struct kit *k = three(state);
    assert_int_equal(up(k, 3, 0xa4, 1000), 0);
    drain(k);
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 6, .flags = LOCATE_FLOOD);
    ask(k, 0, .key = 0xcd, .ttl = 4, .nonce = 6);
    look(k, 1, LOCATE_NODE, 0xce);
    for (uint32_t i = 1; i < 4; i++) pull(k, i, "REQUEST ncc/3 flood; REQUEST ncd/3; REQUEST nce/1");
    pull(k, 0, "REQUEST nce/1");
    assert_int_equal(down(k, 1), 0);
    pull(k, 0, "NEIGHBOURS 1:00");
    pull(k, 2, "NEIGHBOURS 1:00; REQUEST ncc/3 flood several");
    pull(k, 3, "NEIGHBOURS 1:00; REQUEST ncc/3 flood several");
    k->now += 60 * MS;
    assert_int_equal(down(k, 2), 0);
    pull(k, 3, "NEIGHBOURS 2:00"); /* he asks, whatever number he has */
    reply(k, 3, .key = 0xcc, .owner = 0xcc, .hops = 1, .cost = 10);
    pull(k, 0, "REPLY ncc found cc 2:1010; NEIGHBOURS 2:00");

    /* an own one, too; what has not been sent was not asked */
    timeout(k);
    timeout(k);
    timeout(k);
    pull(k, 3, "REQUEST nce/8 flood");
    assert_true(k->out.nonce != 0);
    assert_int_equal(up(k, 1, 0xa2, 1000), 0);
    pull(k, 3, "NEIGHBOURS 1:a2");
    assert_int_equal(down(k, 1), 0);
    k->now += 60 * MS;
    pull(k, 3, "NEIGHBOURS 1:00");
    pull(k, 0, "NEIGHBOURS 1:00; REQUEST nce/8 flood");
    assert_int_equal(down(k, 0), 0);
    pull(k, 3, "REQUEST nce/8 flood several");
}

/* 4.8: a link that ends, and one that comes while something is outstanding. */
static void test_breaks(void **state) {
    struct kit *k = three(state);
    ask(k, 0, .key = 0xcc, .ttl = 4, .nonce = 6);
    ask(k, 0, .key = 0xcd, .ttl = 4, .nonce = 6);
    ask(k, 1, .key = 0xcd, .ttl = 4, .nonce = 7);
    look(k, 1, LOCATE_NODE, 0xce);
    ask(k, 0, .key = 0xce, .ttl = 4, .nonce = 9);
    drain(k);
    assert_int_equal(down(k, 0), 0);
    assert_null(locate_find_request(k->l, LOCATE_NODE, id_of(0xcc).b)); /* nobody asks any more */
    assert_non_null(locate_find_request(k->l, LOCATE_NODE, id_of(0xcd).b));
    drain(k);
    assert_int_equal(up(k, 3, 0xa4, 1000), 0);
    pull(k, 3, "NEIGHBOURS 1:a2 2:a3; REQUEST ncd/3; REQUEST nce/3");
    drain(k);
    assert_int_equal(up(k, 0, 0xce, 1000), 0); /* it is what is looked for */
    expect(k, "found1:ce/1");
    ask(k, 1, .key = 0xcf, .ttl = 1, .nonce = 2);
    drain(k);
    assert_int_equal(up(k, 4, 0xcf, 1000), 0);
    pull(k, 1, "REPLY ncf found cf 1:1000; NEIGHBOURS 4:cf");
}

/* What is told of a look-up. */
static void test_effect(void **state) {
    struct kit *k = three(state);
    struct locate_effect fx;
    tells(k, 1, 3, 0xb1, 3000);
    struct locate_event ev = EV(LOOKUP, .token = 4, .now = k->now);
    key_put(ev.key, 0xb1);
    assert_int_equal(locate_step(k->l, &ev), 0);
    assert_true(locate_next(k->l, &fx));
    assert_true(fx.kind == LOCATE_FX_FOUND && fx.token == 4 && fx.hops == 2 && fx.cost == 5 * MOYAI_MS);
    assert_memory_equal(fx.node.b, id_of(0xb1).b, 16);
    assert_memory_equal(fx.key, id_of(0xb1).b, 16);
    assert_false(locate_next(k->l, &fx));
}

static void test_cancel(void **state) {
    struct kit *k = three(state);
    look(k, 1, LOCATE_NODE, 0xcc);
    look(k, 2, LOCATE_NODE, 0xcc);
    drain(k);
    assert_int_equal(step(k, EV(CANCEL, .token = 3)), MOYAI_EINVAL);
    assert_int_equal(step(k, EV(CANCEL, .token = 1)), 0);
    reply(k, 1, .key = 0xcc, .owner = 0xcc, .hops = 1, .cost = 10);
    expect(k, "found2:cc/2");
    look(k, 3, LOCATE_NODE, 0xcd);
    assert_int_equal(step(k, EV(CANCEL, .token = 3)), 0);
    assert_true(k->l->due == UINT64_MAX || (timeout(k), 1));
    expect(k, "");
    for (uint64_t t = 5; t <= 7; t++) look(k, t, LOCATE_NODE, 0xcf);
    assert_int_equal(step(k, EV(CANCEL, .token = 7)), 0);
    assert_int_equal(step(k, EV(CANCEL, .token = 6)), 0);
    assert_int_equal(step(k, EV(CANCEL, .token = 5)), 0);
    /* one that has been answered, and not been told yet */
    struct locate_event ev = EV(LOOKUP, .token = 4, .now = k->now);
    key_put(ev.key, 0xa1);
    assert_int_equal(locate_step(k->l, &ev), 0);
    assert_int_equal(step(k, EV(CANCEL, .token = 4)), 0);
    expect(k, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        T(test_changes),      T(test_hosts),          T(test_leave),         T(test_cost),     T(test_links),
        T(test_tables),       T(test_rings),          T(test_ring_time),     T(test_found),    T(test_aggregate),
        T(test_several),      T(test_larger),         T(test_own_meets),     T(test_answers),  T(test_late),
        T(test_age),          T(test_routes),         T(test_route_life),    T(test_evidence), T(test_cleared),
        T(test_dead_answers), T(test_dead_neighbour), T(test_evidence_full), T(test_loses),    T(test_breaks),
        T(test_cancel),       T(test_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
