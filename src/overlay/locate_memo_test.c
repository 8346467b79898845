/* SPDX-License-Identifier: Apache-2.0 */
/* Where answers came from as hints, and floods that meet what has been answered. Numbers: doc/spec/04-locating.md. */
#include "overlay/locate_ring.h"
#include "overlay/locate_testkit.h"

static const struct locate_cfg cfg = {.seed = 1,
                                      .links = 8,
                                      .told = 2,
                                      .requests = 8,
                                      .lookups = 4,
                                      .routes = 4,
                                      .dead = 4,
                                      .memos = 2,
                                      .digest_every = 60 * MOYAI_SEC};

static int setup(void **state) {
    *state = kit_new(&cfg);
    return 0;
}
static int teardown(void **state) {
    kit_free(*state);
    return 0;
}

static struct kit *links(void **state, uint32_t n) {
    struct kit *k = *state;
    for (uint32_t i = 0; i < n; i++) assert_int_equal(up(k, i, (uint8_t)(0xa0 + i), 1000), 0);
    drain(k);
    return k;
}

/* The name 0x51 of node 0xee has been looked up from here and found by link 2, so many links from its other end. */
static void found_by_2(struct kit *k, uint32_t hops) {
    assert_int_equal(look(k, 1, LOCATE_NAME, 0x51), 0);
    drain(k);
    reply(k, 2, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xee, .object = 0x61, .hops = hops, .cost = 10);
    assert_true(strstr(k->told, "found1:ee") != NULL);
    k->told[0] = 0;
    drain(k);
    k->now += 5000 * MS; /* and is not fresh any more */
}

/* 4.12: who asks is led there, to the end of the way, whatever ttl he gave; others are not asked. */
static void test_led(void **state) {
    struct kit *k = links(state, 4);
    found_by_2(k, 4);
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 1, .flags = LOCATE_HINTED, .nonce = 5);
    pull(k, 2, "REQUEST N51/5 hinted");
    pull(k, 1, "");
    pull(k, 3, "");
    ask(k, 3, .kind = LOCATE_NAME, .key = 0x51, .ttl = 3, .flags = LOCATE_FEW, .nonce = 6); /* waits for it, too */
    for (uint32_t i = 0; i < 3; i++) pull(k, i, i == 2 ? "REQUEST N51/5 hinted" : "");
    reply(k, 2, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xee, .object = 0x61, .hops = 4, .cost = 10);
    pull(k, 0, "REPLY N51 found ee=61 5:1010");
    pull(k, 3, "REPLY N51 found ee=61 5:1010");
}

/* Who has gone round asks not by whom he was asked; and what is longer than any ttl is renewed on the way. */
static void test_led_back(void **state) {
    struct kit *k = links(state, 4);
    found_by_2(k, 11);
    ask(k, 2, .kind = LOCATE_NAME, .key = 0x51, .ttl = 1, .flags = LOCATE_HINTED, .nonce = 5);
    for (uint32_t i = 0; i < 4; i++) pull(k, i, "");
    ask(k, 1, .kind = LOCATE_NAME, .key = 0x51, .ttl = 1, .flags = LOCATE_HINTED, .nonce = 6);
    pull(k, 2, "REQUEST N51/8 hinted");
}

/* 5.2: an own look-up asks there alone, then as without. */
static void test_own(void **state) {
    struct kit *k = links(state, 4);
    found_by_2(k, 4);
    assert_int_equal(look(k, 2, LOCATE_NAME, 0x51), 0);
    pull(k, 2, "REQUEST N51/5 hinted");
    const struct locate_request *r = locate_find_request(k->l, LOCATE_NAME, id_of(0x51).b);
    assert_true(are_links(r->asked, 4));
    drain(k);
    while (r->ring == 0) timeout(k);
    assert_true(are_links(r->hint, 11) && r->hint_ttl == 3);
}

/* No hint: the way has ended, or who had the name is dead. A neighbour, and a neighbour's, is found without a route. */
static void test_ways(void **state) {
    struct kit *k = links(state, 4);
    found_by_2(k, 4);
    assert_int_equal(up(k, 4, 0xee, 1000), 0);
    drain(k);
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 1, .flags = LOCATE_HINTED, .nonce = 5);
    pull(k, 4, "REQUEST N51/1 hinted");
    assert_int_equal(down(k, 4), 0);
    drain(k);
    k->now += 3000 * MS;
    assert_int_equal(tells(k, 3, 0, 0xee, 1000), 0);
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 1, .flags = LOCATE_HINTED, .nonce = 6);
    pull(k, 3, "REQUEST N51/2 hinted");
    assert_int_equal(down(k, 3), 0);
    drain(k);
    k->now += 3000 * MS;
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 1, .flags = LOCATE_HINTED, .nonce = 7);
    pull(k, 2, "REQUEST N51/5 hinted");
    k->now += 3000 * MS;
    assert_int_equal(up(k, 3, 0xa3, 1000), 0);
    assert_int_equal(tells(k, 3, 0, 0xee, 1000), 0); /* it has not heard of it */
    drain(k);
    assert_int_equal(step(k, EV(EVIDENCE, .node = id_of(0xee), .how = LOCATE_DEAD, .told = true)), 0);
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 1, .flags = LOCATE_HINTED, .nonce = 8);
    for (uint32_t i = 0; i < 4; i++) pull(k, i, "");
}

/* Where others' question has been led there already, an own one goes no farther than hints do. */
static void test_own_meets(void **state) {
    struct kit *k = links(state, 4);
    found_by_2(k, 4);
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 1, .flags = LOCATE_HINTED, .nonce = 5, .wait = 9000);
    pull(k, 2, "REQUEST N51/5 hinted");
    assert_int_equal(look(k, 2, LOCATE_NAME, 0x51), 0);
    for (uint32_t i = 0; i < 4; i++) pull(k, i, i == 2 ? "" : "REQUEST N51/3 hinted");
}

/* Of a node sought the noted route is the hint, also when it has not been used for long. */
static void test_node(void **state) {
    struct kit *k = links(state, 3);
    assert_int_equal(look(k, 1, LOCATE_NODE, 0xee), 0);
    drain(k);
    reply(k, 2, .key = 0xee, .owner = 0xee, .hops = 3, .cost = 10);
    k->now += 100000 * MS;
    ask(k, 0, .key = 0xee, .ttl = 2, .flags = LOCATE_HINTED, .nonce = 5);
    pull(k, 2, "REQUEST nee/4 hinted");
    pull(k, 1, "");
}

/* A claim has to ask all; and there is room for the names answered last. */
static void test_claims_and_room(void **state) {
    struct kit *k = links(state, 3);
    found_by_2(k, 4);
    assert_int_equal(add_name(k, 0x51, 0x60, false), 0);
    for (uint32_t i = 0; i < 3; i++) pull(k, i, "REQUEST c51/2 10=60");
    assert_int_equal(remove_name(k, 0x51), 0);
    for (uint8_t i = 0; i < 2; i++) {
        assert_int_equal(look(k, 1, LOCATE_NAME, (uint8_t)(0x52 + i)), 0);
        drain(k);
        reply(k, 1, .kind = LOCATE_NAME, .key = (uint8_t)(0x52 + i), .owner = 0xee, .object = 0x62, .hops = 2);
        k->now += 5000 * MS;
    }
    struct locate_hop hop;
    assert_false(locate_memo_hint(k->l, LOCATE_NAME, id_of(0x51).b, low_links(7), &hop));
    assert_true(locate_memo_hint(k->l, LOCATE_NAME, id_of(0x52).b, low_links(7), &hop) && hop.link == 1 &&
                hop.hops == 3);
    assert_true(locate_memo_hint(k->l, LOCATE_NAME, id_of(0x53).b, low_links(7), &hop));
    assert_false(locate_memo_hint(k->l, LOCATE_NAME, id_of(0x53).b, low_links(5), &hop));
    assert_false(locate_memo_hint(k->l, LOCATE_CLAIM, id_of(0x53).b, low_links(7), &hop));
    /* The one noted first goes, though it came last into the table; one that is noted again does not. */
    locate_memo_note(k->l, id_of(0x52).b, id_of(0xee).b, k->now);
    locate_memo_note(k->l, id_of(0x54).b, id_of(0xee).b, k->now + 1);
    assert_true(locate_memo_hint(k->l, LOCATE_NAME, id_of(0x52).b, low_links(7), &hop));
    assert_false(locate_memo_hint(k->l, LOCATE_NAME, id_of(0x53).b, low_links(7), &hop));
    locate_memo_note(k->l, id_of(0x55).b, id_of(0xee).b, k->now + 2);
    assert_false(locate_memo_hint(k->l, LOCATE_NAME, id_of(0x52).b, low_links(7), &hop));
    assert_true(locate_memo_hint(k->l, LOCATE_NAME, id_of(0x54).b, low_links(7), &hop));
    k->l->digest_every = 0; /* nor for who keeps no digests */
    assert_false(locate_memo_hint(k->l, LOCATE_NAME, id_of(0x54).b, low_links(7), &hop));
    k->l->digest_every = 60 * (uint64_t)MOYAI_SEC;
}

/* Up to the last ring of an own look-up of 0x51; links have been asked. */
static void until_ring(struct kit *k, uint32_t ring) {
    struct locate_request *r = locate_find_request(k->l, LOCATE_NAME, id_of(0x51).b);
    for (int i = 0; i < 20 && r->ring < ring; i++) {
        timeout(k);
        r = locate_find_request(k->l, LOCATE_NAME, id_of(0x51).b);
        if (r->ring < ring) drain(k);
    }
    assert_int_equal(r->ring, ring);
}

/* 5.2: the last ring is put off, once, while another's is outstanding that has gone on from here. */
static void test_put_off(void **state) {
    struct kit *k = links(state, 3);
    assert_int_equal(look(k, 1, LOCATE_NAME, 0x51), 0);
    drain(k);
    until_ring(k, LOCATE_RINGS - 2);
    drain(k);
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 5, .flags = LOCATE_FLOOD, .nonce = 5, .wait = 10000);
    drain(k);
    timeout(k);
    for (uint32_t i = 0; i < 3; i++) pull(k, i, "REQUEST N51/3 hinted");
    timeout(k);
    for (uint32_t i = 0; i < 3; i++) pull(k, i, "REQUEST N51/8 flood");
}

/* Not for one that is over, nor for what is none. */
static void test_not_put_off(void **state) {
    struct kit *k = links(state, 3);
    assert_int_equal(look(k, 1, LOCATE_NAME, 0x51), 0);
    drain(k);
    until_ring(k, LOCATE_RINGS - 2);
    drain(k);
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 5, .nonce = 5, .wait = 10000);
    drain(k);
    timeout(k);
    pull(k, 0, "REQUEST N51/8 flood");
    drain(k);
    timeout(k);
    expect(k, "not-found1");
}

/* 5.4: rings that begin anew for who came late have a number, though the last one was several's: else their echoes
 * would be askers. */
static void test_anew(void **state) {
    struct kit *k = links(state, 4);
    assert_int_equal(look(k, 1, LOCATE_NAME, 0x51), 0);
    drain(k);
    until_ring(k, LOCATE_RINGS - 1);
    drain(k);
    const struct locate_request *r = locate_find_request(k->l, LOCATE_NAME, id_of(0x51).b);
    uint64_t nonce = r->nonce;
    assert_int_equal(look(k, 2, LOCATE_NAME, 0x51), 0);
    for (int i = 0; i < 20 && r->ring; i++) send_all(k), timeout(k);
    assert_int_equal(r->ring, 0);
    assert_true(r->nonce == nonce); /* still the same look-up */
    until_ring(k, LOCATE_RINGS - 1);
    drain(k);
    assert_int_equal(look(k, 3, LOCATE_NAME, 0x51), 0);
    assert_int_equal(down(k, 3), 0);
    assert_true(r->nonce == 0);
    for (int i = 0; i < 20 && r->ring; i++) send_all(k), timeout(k);
    assert_int_equal(r->ring, 0);
    assert_true(r->nonce != 0);
}

#define FLOODS(nonce_) .kind = LOCATE_NAME, .key = 0x51, .ttl = 5, .flags = LOCATE_FLOOD, .nonce = nonce_, .wait = 10000

/* 5.2, turns: who asks by hints begins now, too; a flood may be of one who has gone, and nobody waits for it. */
static void test_turn(void **state) {
    for (int flood = 0; flood < 2; flood++) {
        struct kit *k = links(state, 4);
        assert_int_equal(look(k, 1, LOCATE_NAME, 0x51), 0);
        drain(k);
        until_ring(k, 2);
        const struct locate_request *r = locate_find_request(k->l, LOCATE_NAME, id_of(0x51).b);
        assert_int_equal(r->ring_at, k->now + 50 * MS);
        if (flood)
            ask(k, 1, FLOODS(6));
        else
            ask(k, 1, .kind = LOCATE_NAME, .key = 0x51, .ttl = 4, .flags = LOCATE_FEW, .nonce = 6, .wait = 10000);
        k->now += 50 * MS;
        assert_int_equal(step(k, EV(TIMEOUT)), 0);
        assert_int_equal(r->ring, flood ? 3 : 2);
        kit_free(k);
        *state = kit_new(&cfg);
    }
}

static const struct locate_request *asked_for(struct kit *k) {
    return locate_find_request(k->l, LOCATE_NAME, id_of(0x51).b);
}

/* Until those who wait for another's answer wait no more. */
static void held(struct kit *k) {
    for (int i = 0; i < 20 && (asked_for(k)->flags & REQ_LEADS); i++) timeout(k);
    assert_true(asked_for(k)->flags & REQ_LED);
}

/* 4.13: a flood is led where an answer came from; whoever comes meanwhile waits for that one, too. */
static void test_flood_led(void **state) {
    struct kit *k = links(state, 4);
    found_by_2(k, 4);
    ask(k, 0, FLOODS(5));
    pull(k, 2, "REQUEST N51/5 hinted");
    ask(k, 1, FLOODS(6));
    ask(k, 3, .kind = LOCATE_NAME, .key = 0x51, .ttl = 2, .nonce = 7, .wait = 20000);
    assert_int_equal(up(k, 4, 0xa4, 1000), 0);
    const struct locate_request *r = asked_for(k);
    assert_true(are_links(r->busy, 16 + 8 + 2 + 1) && !set_any(r->send));
    drain(k);
    reply(k, 2, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xee, .object = 0x61, .hops = 4, .cost = 10);
    for (uint32_t i = 0; i < 4; i++) pull(k, i, i == 2 ? "" : "REPLY N51 found ee=61 5:1010");
    assert_true(r->flags & REQ_DONE && !set_any(r->busy));
}

/* Without an answer all are asked, and what was remembered is forgotten: the next one goes on at once. */
static void test_flood_led_in_vain(void **state) {
    struct kit *k = links(state, 4);
    found_by_2(k, 4);
    ask(k, 0, FLOODS(5));
    pull(k, 2, "REQUEST N51/5 hinted");
    moyai_ns from = k->now;
    held(k);
    assert_true(k->now - from >= 12 * MS && k->now - from <= 50 * MS);
    assert_true(are_links(asked_for(k)->send, 2 + 8) && !set_any(asked_for(k)->hint)); /* 2 has been asked */
    drain(k);
    ask(k, 1, FLOODS(6)); /* of several, and led no more */
    for (uint32_t i = 0; i < 4; i++) pull(k, i, "REQUEST N51/4 flood several");
    k->now += 20000 * MS;
    ask(k, 0, FLOODS(7));
    for (uint32_t i = 1; i < 4; i++) pull(k, i, "REQUEST N51/4 flood");
}

/* Nor if the way ends, or if he is the only one; and an own last ring asks all. */
static void test_flood_led_ends(void **state) {
    struct kit *k = links(state, 4);
    found_by_2(k, 4);
    ask(k, 0, FLOODS(5));
    drain(k);
    assert_int_equal(down(k, 3), 0); /* one that waits */
    assert_false(set_any(asked_for(k)->send));
    assert_int_equal(down(k, 2), 0);
    assert_true(are_links(asked_for(k)->send, 2) && !asked_for(k)->busy_at);
    assert_int_equal(up(k, 2, 0xa2, 1000), 0);
    reply(k, 2, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xee, .object = 0x61, .hops = 4, .cost = 10);
    drain(k);
    k->now += 20000 * MS;
    assert_int_equal(down(k, 1), 0);
    drain(k);
    ask(k, 0, FLOODS(6));
    pull(k, 2, "REQUEST N51/4 flood");
}

static void test_flood_led_own(void **state) {
    struct kit *k = links(state, 4);
    found_by_2(k, 4);
    ask(k, 0, FLOODS(5));
    drain(k);
    assert_int_equal(look(k, 2, LOCATE_NAME, 0x51), 0);
    for (uint32_t i = 0; i < 4; i++) pull(k, i, "");
    const struct locate_request *r = asked_for(k);
    assert_true(r->flags & REQ_LEADS);
    until_ring(k, LOCATE_RINGS - 1);
    assert_false(r->flags & REQ_LEADS);
    assert_int_equal(r->ring_at - r->ring_from, 200 * MS); /* 5.2: twice what others' rings last */
    for (uint32_t i = 0; i < 4; i++) pull(k, i, "REQUEST N51/8 flood");
}

/* Nor does one wait that goes farther, where this node asks, too. */
static void test_flood_led_own_farther(void **state) {
    struct kit *k = links(state, 4);
    found_by_2(k, 4);
    ask(k, 0, FLOODS(5));
    drain(k);
    assert_int_equal(look(k, 2, LOCATE_NAME, 0x51), 0);
    ask(k, 1, .kind = LOCATE_NAME, .key = 0x51, .ttl = 7, .flags = LOCATE_FLOOD, .nonce = 6, .wait = 10000);
    assert_true((asked_for(k)->flags & (REQ_LEADS | REQ_LED)) == REQ_LED && !asked_for(k)->busy_at);
    for (uint32_t i = 0; i < 4; i++) pull(k, i, "REQUEST N51/6 flood");
}

/* 4.7: floods that come late where one has been answered: longer the same answer, and none begins anew by the way of
 * the answer alone. */
static void test_late_floods(void **state) {
    struct kit *k = links(state, 4);
    const uint32_t flood = LOCATE_FLOOD;
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 5, .flags = flood, .nonce = 5, .wait = 20000);
    for (uint32_t i = 1; i < 4; i++) pull(k, i, "REQUEST N51/4 flood");
    reply(k, 2, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xee, .object = 0x61, .hops = 1, .cost = 10);
    drain(k);
    k->now += 5000 * MS;
    ask(k, 1, .kind = LOCATE_NAME, .key = 0x51, .ttl = 5, .flags = flood, .nonce = 6, .wait = 10000);
    pull(k, 1, "REPLY N51 found ee=61 2:1010+255");
    ask(k, 2, .kind = LOCATE_NAME, .key = 0x51, .ttl = 5, .flags = flood, .nonce = 7, .wait = 10000);
    for (uint32_t i = 0; i < 4; i++) pull(k, i, "");
    ask(k, 2, .kind = LOCATE_NAME, .key = 0x51, .ttl = 6, .flags = flood, .nonce = 7, .wait = 10000); /* farther */
    for (uint32_t i = 0; i < 4; i++) pull(k, i, i == 2 ? "" : "REQUEST N51/5 flood");
}

static void test_late_floods_end(void **state) {
    struct kit *k = links(state, 4);
    const uint32_t flood = LOCATE_FLOOD;
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 5, .flags = flood, .nonce = 5, .wait = 20000);
    drain(k);
    reply(k, 2, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xee, .object = 0x61, .hops = 1, .cost = 10);
    drain(k);
    k->now += 8000 * MS; /* too old */
    ask(k, 1, .kind = LOCATE_NAME, .key = 0x51, .ttl = 5, .flags = flood, .nonce = 6, .wait = 10000);
    pull(k, 1, "");
    pull(k, 2, "REQUEST N51/2 hinted");
    pull(k, 3, "");
    held(k);
    assert_true(are_links(asked_for(k)->send, 1 + 8));
    drain(k);
    reply(k, 2, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xee, .object = 0x61, .hops = 1, .cost = 10);
    drain(k);
    assert_int_equal(down(k, 2), 0); /* the way has ended: who comes from anywhere begins anew */
    drain(k);
    ask(k, 3, .kind = LOCATE_NAME, .key = 0x51, .ttl = 5, .flags = flood, .nonce = 7, .wait = 10000);
    pull(k, 0, "REQUEST N51/4 flood");
    pull(k, 1, "REQUEST N51/4 flood");
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(test_led),
                                       T(test_led_back),
                                       T(test_own),
                                       T(test_ways),
                                       T(test_own_meets),
                                       T(test_node),
                                       T(test_claims_and_room),
                                       T(test_put_off),
                                       T(test_not_put_off),
                                       T(test_anew),
                                       T(test_turn),
                                       T(test_flood_led),
                                       T(test_flood_led_in_vain),
                                       T(test_flood_led_ends),
                                       T(test_flood_led_own),
                                       T(test_flood_led_own_farther),
                                       T(test_late_floods),
                                       T(test_late_floods_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
