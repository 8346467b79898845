/* SPDX-License-Identifier: Apache-2.0 */
/* Names: what neighbours are told, look-ups, waits, claims, conflicts. Numbers: doc/spec/04-locating.md. */
#include "overlay/locate_testkit.h"

static const struct locate_cfg small = {
    .seed = 1, .links = 6, .told = 2, .names = 4, .requests = 8, .lookups = 6, .routes = 4, .dead = 2};

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
    return k;
}

static void rings(struct kit *k, int n) {
    for (int i = 0; i < n; i++) send_all(k), timeout(k);
    drain(k);
}

/* 9.1, 9.3: a claim, its rings, and then the name is held and told. */
static void test_claim(void **state) {
    struct kit *k = three(state);
    assert_int_equal(add_name(k, 0x51, 0x61, false), 0);
    expect(k, "");
    pull(k, 0, "REQUEST c51/2 10=61");
    pull(k, 1, "REQUEST c51/2 10=61");
    ask(k, 1, .kind = LOCATE_NAME, .key = 0x51, .ttl = 1, .nonce = 4); /* not a name yet */
    look(k, 1, LOCATE_NAME, 0x51);
    drain(k);
    timeout(k);
    pull(k, 0, "REQUEST N51/2; REQUEST c51/3 10=61");
    timeout(k);
    pull(k, 0, "REQUEST N51/3; REQUEST c51/24 flood 10=61");
    drain(k);
    expect(k, "");
    timeout(k);
    expect(k, "found1:10/0=61 held:51");
    pull(k, 0, "NAMES 0:51=61");
    pull(k, 1, "REPLY N51 found 10=61 0:0; NAMES 0:51=61"); /* who asked has been waiting for it */
    look(k, 2, LOCATE_NAME, 0x51);
    expect(k, "found2:10/0=61");
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 1, .nonce = 4);
    pull(k, 0, "REPLY N51 found 10=61 0:0");
    assert_int_equal(up(k, 3, 0xa4, 1), 0);
    pull(k, 3, "NEIGHBOURS 0:a1 1:a2 2:a3; NAMES 0:51=61");
    assert_int_equal(add_name(k, 0x51, 0x62, false), MOYAI_EEXIST);
    assert_int_equal(add_name(k, 0x51, 0x62, true), MOYAI_EEXIST);
    drain(k);
    assert_int_equal(remove_name(k, 0x51), 0);
    pull(k, 0, "NAMES 0:00=00");
    look(k, 3, LOCATE_NAME, 0x51);
    expect(k, "");
    assert_int_equal(remove_name(k, 0x51), MOYAI_EINVAL);
    /* a claim that is withdrawn */
    assert_int_equal(add_name(k, 0x52, 0x61, false), 0);
    assert_int_equal(remove_name(k, 0x52), 0);
    assert_int_equal(add_name(k, 0x52, 0x61, false), 0); /* and made again */
    pull(k, 0, "REQUEST N51/1; REQUEST c52/2 10=61");
    rings(k, 8);
    expect(k, "held:52 not-found3");
}

static void test_arguments(void **state) {
    struct kit *k = three(state);
    assert_int_equal(add_name(k, 0, 0x61, false), MOYAI_EINVAL);
    assert_int_equal(add_name(k, 0x51, 0, true), MOYAI_EINVAL);
    assert_int_equal(look(k, 1, LOCATE_NAME, 0), MOYAI_EINVAL);
    assert_int_equal(look(k, 1, LOCATE_CLAIM, 0x51), MOYAI_EINVAL);
    struct locate_event ev = EV(WAIT, .key_kind = LOCATE_NODE, .until = k->now + 1);
    key_put(ev.key, 0xcc);
    assert_int_equal(step(k, ev), MOYAI_EINVAL);
}

/* 3.6: names beyond the places are not told; one takes the place that another leaves. */
static void test_places(void **state) {
    struct kit *k = three(state);
    for (uint8_t i = 1; i <= 3; i++) assert_int_equal(add_name(k, (uint8_t)(0x50 + i), 0x61, true), 0);
    expect(k, "held:51 held:52 held:53");
    pull(k, 0, "NAMES 0:51=61 1:52=61");
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x53, .ttl = 1, .nonce = 4);
    pull(k, 0, "REPLY N53 found 10=61 0:0");
    k->now += 50 * MS;
    assert_int_equal(remove_name(k, 0x53), 0);
    pull(k, 0, "");
    assert_int_equal(add_name(k, 0x54, 0x61, true), 0);
    assert_int_equal(add_name(k, 0x55, 0x61, true), 0);
    assert_int_equal(add_name(k, 0x56, 0x61, true), MOYAI_EAGAIN);
    assert_int_equal(remove_name(k, 0x51), 0);
    pull(k, 0, "NAMES 0:54=61");
    k->now += 50 * MS;
    assert_int_equal(remove_name(k, 0x55), 0);
    assert_int_equal(remove_name(k, 0x54), 0);
    pull(k, 0, "NAMES 0:00=00");
}

/* 5.1: a neighbour's name; 6.4: that goes with it. */
static void test_neighbours_names(void **state) {
    struct kit *k = three(state);
    assert_int_equal(tells_name(k, 1, 0, 0x51, 0x61), 0);
    look(k, 1, LOCATE_NAME, 0x51);
    expect(k, "found1:a2/1=61");
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 2, .nonce = 4);
    pull(k, 0, "REPLY N51 found a2=61 1:2000");
    pull(k, 2, "");
    assert_int_equal(tells_name(k, 1, 2, 0x52, 0x61), 0); /* more than we note */
    look(k, 2, LOCATE_NAME, 0x52);
    expect(k, "");
    step(k, EV(CANCEL, .token = 2));
    assert_int_equal(tells_name(k, 1, 0, 0x53, 0x61), 0);
    look(k, 3, LOCATE_NAME, 0x51);
    expect(k, "");
    drain(k);
    assert_int_equal(tells_name(k, 2, 1, 0x51, 0x62), 0); /* now it comes */
    expect(k, "found3:a3/1=62");
    assert_int_equal(down(k, 1), 0);
    look(k, 4, LOCATE_NAME, 0x53);
    expect(k, "");
    assert_int_equal(tells_name(k, 2, 1, 0, 0), 0);
    look(k, 5, LOCATE_NAME, 0x51);
    expect(k, "");
}

/* 4.2, 7.2: an answer to a name is a route to its owner. */
static void test_name_route(void **state) {
    struct kit *k = three(state);
    look(k, 1, LOCATE_NAME, 0x51);
    reply(k, 1, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xcc, .object = 0x61, .hops = 1, .cost = 500);
    expect(k, "found1:cc/2=61");
    route(k, 0xcc, 0, "1/2:2500");
    look(k, 2, LOCATE_NAME, 0x51); /* names are not remembered */
    expect(k, "");
}

/* 5.6: a wait: rings, then others remember it; it is renewed; the name comes, or the time is over. */
static void test_wait(void **state) {
    struct kit *k = three(state);
    moyai_ns start = k->now, until = start + 100 * (moyai_ns)MOYAI_SEC;
    wait_for(k, 1, 0x51, until);
    pull(k, 0, "REQUEST N51/1");
    assert_int_equal(k->out.wait, 25);
    timeout(k);
    start = k->now;
    pull(k, 0, "REQUEST N51/2");
    assert_int_equal(k->out.wait, 100);
    timeout(k);
    pull(k, 0, "REQUEST N51/3");
    assert_int_equal(k->out.wait, 100);
    timeout(k);
    pull(k, 0, "REQUEST N51/8 flood");
    assert_int_equal(k->out.wait, 60000);
    send_all(k);
    timeout(k);
    expect(k, "");
    drain(k);
    assert_true(k->l->due == start + 300 * MS + 45000 * MS);
    ask(k, 1, .kind = LOCATE_NAME, .key = 0x51, .ttl = 8, .nonce = 4); /* it is being waited for */
    pull(k, 0, "");
    timeout(k);
    pull(k, 0, "REQUEST N51/8 flood");
    assert_int_equal(k->out.wait, 54675); /* what is left of the wait */
    drain(k);
    timeout(k);
    drain(k);
    expect(k, "");
    /* a look-up meanwhile has rings of its own */
    look(k, 2, LOCATE_NAME, 0x51);
    pull(k, 0, "REQUEST N51/8 flood");
    for (int i = 0; i < 4; i++) {
        timeout(k);
        drain(k);
    }
    expect(k, "not-found2");
    while (!k->told[0]) timeout(k);
    expect(k, "not-found1");
    assert_true(k->now == until);
    assert_true(k->l->due == UINT64_MAX || (timeout(k), k->l->due == UINT64_MAX));
    wait_for(k, 3, 0x51, k->now + 1000 * MS);
    timeout(k);
    tells_name(k, 0, 1, 0x51, 0x61);
    expect(k, "found3:a1/1=61");
    wait_for(k, 4, 0x52, k->now); /* no time */
    timeout(k);
    expect(k, "not-found4");
}

/* 5.6: who remembers a wait answers it when the name comes. */
static void test_interest(void **state) {
    struct kit *k = three(state);
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 1, .nonce = 4, .wait = 60000);
    ask(k, 1, .kind = LOCATE_NAME, .key = 0x52, .ttl = 1, .nonce = 4, .wait = 60000);
    drain(k);
    k->now += 50000 * MS;
    tells_name(k, 2, 0, 0x51, 0x61);
    pull(k, 0, "REPLY N51 found a3=61 1:3000");
    assert_int_equal(add_name(k, 0x52, 0x61, false), 0);
    drain(k);
    timeout(k);
    timeout(k);
    drain(k);
    timeout(k);
    expect(k, "held:52");
    pull(k, 1, "REPLY N52 found 10=61 0:0; NAMES 0:52=61");
}

/* 9.2: of claims that meet here the lower object goes on. */
static void test_claims_meet(void **state) {
    struct kit *k = three(state);
    ask(k, 0, .kind = LOCATE_CLAIM, .key = 0x51, .ttl = 4, .nonce = 4, .owner = 0xc1, .object = 0x65);
    pull(k, 1, "REQUEST c51/3 c1=65");
    ask(k, 1, .kind = LOCATE_CLAIM, .key = 0x51, .ttl = 4, .nonce = 4, .owner = 0xc1, .object = 0x65); /* echo */
    pull(k, 0, "");
    ask(k, 2, .kind = LOCATE_CLAIM, .key = 0x51, .ttl = 4, .nonce = 5, .owner = 0xc2, .object = 0x66);
    pull(k, 2, "REPLY c51 claimed c1=65 0:0; REQUEST c51/3 c1=65");
    ask(k, 2, .kind = LOCATE_CLAIM, .key = 0x51, .ttl = 4, .nonce = 6, .owner = 0xc3, .object = 0x64);
    pull(k, 0, "REPLY c51 claimed c3=64 0:0; REQUEST c51/3 c3=64");
    pull(k, 1, "REQUEST c51/3 c3=64");
    pull(k, 2, "");
    /* an answer goes to who claims; one that does not go before it means nothing */
    reply(k, 1, .kind = LOCATE_CLAIM, .key = 0x51, .owner = 0xc1, .object = 0x65, .status = LOCATE_ST_CLAIMED);
    reply(k, 1, .kind = LOCATE_CLAIM, .key = 0x51, .owner = 0xc3, .object = 0x64, .status = LOCATE_ST_FOUND);
    pull(k, 2, "");
    reply(k, 1, .kind = LOCATE_CLAIM, .key = 0x51, .owner = 0xc4, .object = 0x63, .status = LOCATE_ST_CLAIMED);
    pull(k, 2, "REPLY c51 claimed c4=63 1:2000");
    reply(k, 1, .kind = LOCATE_CLAIM, .key = 0x51, .owner = 0xc5, .object = 0x62);
    pull(k, 2, "");
    /* claimed anew by the same: another number */
    ask(k, 2, .kind = LOCATE_CLAIM, .key = 0x51, .ttl = 4, .nonce = 7, .owner = 0xc3, .object = 0x64);
    pull(k, 1, "REQUEST c51/3 c3=64");
    ask(k, 2, .kind = LOCATE_CLAIM, .key = 0x51, .ttl = 4, .nonce = 8, .owner = 0xc3, .object = 0x64);
    pull(k, 1, "");
    ask(k, 2, .kind = LOCATE_CLAIM, .key = 0x51, .ttl = 4, .flags = LOCATE_FLOOD, .nonce = 8, .owner = 0xc3,
        .object = 0x64);
    pull(k, 1, "REQUEST c51/3 flood c3=64");
    ask(k, 2, .kind = LOCATE_CLAIM, .key = 0x51, .ttl = 4, .flags = LOCATE_FLOOD, .nonce = 9, .owner = 0xc3,
        .object = 0x64);
    pull(k, 1, "REQUEST c51/3 flood several c3=64");
    reply(k, 1, .kind = LOCATE_CLAIM, .key = 0x51, .owner = 0xc5, .object = 0x68); /* held beats claimed */
    pull(k, 2, "REPLY c51 found c5=68 1:2000");
    /* long ago */
    k->now += 5000 * MS;
    ask(k, 2, .kind = LOCATE_CLAIM, .key = 0x51, .ttl = 4, .nonce = 9, .owner = 0xc6, .object = 0x69);
    pull(k, 1, "REQUEST c51/3 c6=69");
}

/* 4.4: what comes by fewer links is not sent again, where it has gone on far enough: of a claim, which goes farther. */
static void test_flood_of_claim(void **state) {
    struct kit *k = three(state);
#define FLOOD(link, k_, ttl_, ...)                                                                                     \
    ask(k, link, .kind = (k_), .key = 0x51, .ttl = (ttl_), .flags = LOCATE_FLOOD, .nonce = 4, ##__VA_ARGS__)
    FLOOD(0, LOCATE_CLAIM, 7, .owner = 0xc1, .object = 0x65);
    pull(k, 1, "REQUEST c51/6 flood c1=65");
    FLOOD(2, LOCATE_CLAIM, 8, .owner = 0xc1, .object = 0x65);
    pull(k, 1, "REQUEST c51/7 flood c1=65");
    pull(k, 0, "REQUEST c51/7 flood c1=65"); /* he is no asker any more */
    FLOOD(0, LOCATE_CLAIM, 24, .owner = 0xc1, .object = 0x65);
    pull(k, 1, "");
    pull(k, 2, "");
    reply(k, 1, .kind = LOCATE_CLAIM, .key = 0x51, .owner = 0xc5, .object = 0x68);
    pull(k, 2, "REPLY c51 found c5=68 1:2000");
    FLOOD(0, LOCATE_NAME, 7);
    pull(k, 1, "REQUEST N51/6 flood");
    FLOOD(2, LOCATE_NAME, 8);
    pull(k, 1, "REQUEST N51/7 flood");
#undef FLOOD
}

/* 9.2: and our own among them. */
static void test_own_claim(void **state) {
    struct kit *k = three(state);
    assert_int_equal(add_name(k, 0x51, 0x65, false), 0);
    drain(k);
    ask(k, 2, .kind = LOCATE_CLAIM, .key = 0x51, .ttl = 4, .nonce = 5, .owner = 0xc2, .object = 0x66);
    pull(k, 2, "REPLY c51 claimed 10=65 0:0");
    pull(k, 1, "");
    ask(k, 2, .kind = LOCATE_CLAIM, .key = 0x51, .ttl = 4, .nonce = 9, .owner = 0xc2, .object = 0x65); /* it moves */
    pull(k, 2, "REQUEST c51/3 10=65");
    pull(k, 1, "REQUEST c51/3 10=65");
    ask(k, 2, .kind = LOCATE_CLAIM, .key = 0x51, .ttl = 4, .nonce = 6, .owner = 0xc3, .object = 0x64);
    expect(k, "lost:51 to c3=64");
    pull(k, 2, "");
    pull(k, 1, "REQUEST c51/3 c3=64");
    assert_int_equal(add_name(k, 0x51, 0x65, false), 0); /* theirs is still under way */
    expect(k, "lost:51 to c3=64");
    ask(k, 1, .kind = LOCATE_CLAIM, .key = 0x51, .ttl = 2, .nonce = 6, .owner = 0xc3, .object = 0x64); /* an echo */
    pull(k, 2, "");
    assert_int_equal(add_name(k, 0x51, 0x63, false), 0);
    expect(k, "");
    pull(k, 2, "REPLY c51 claimed 10=63 0:0; REQUEST c51/2 10=63");
    drain(k);
    reply(k, 1, .kind = LOCATE_CLAIM, .key = 0x51, .owner = 0xc5, .object = 0x64, .status = LOCATE_ST_CLAIMED);
    expect(k, "");
    reply(k, 1, .kind = LOCATE_CLAIM, .key = 0x51, .owner = 0xc5, .object = 0x62, .status = LOCATE_ST_CLAIMED);
    expect(k, "lost:51 to c5=62");
    assert_int_equal(k->l->names.n, 0);
    /* one of a neighbour is known without asking; the same object moves */
    tells_name(k, 0, 0, 0x52, 0x61);
    assert_int_equal(add_name(k, 0x52, 0x60, false), 0);
    expect(k, "lost:52 to a1=61");
    assert_int_equal(add_name(k, 0x52, 0x61, true), 0);
    expect(k, "held:52");
    tells_name(k, 0, 0, 0, 0);
    tells_name(k, 1, 0, 0x53, 0x6f);
    ask(k, 2, .kind = LOCATE_CLAIM, .key = 0x53, .ttl = 4, .nonce = 5, .owner = 0xc2, .object = 0x66);
    pull(k, 2, "REPLY c53 found a2=6f 1:2000; NAMES 0:52=61");
    ask(k, 2, .kind = LOCATE_CLAIM, .key = 0x53, .ttl = 4, .nonce = 5, .owner = 0xc2, .object = 0x6f);
    pull(k, 1, "NAMES 0:52=61; REQUEST c53/3 c2=6f");
    /* a claim that waits at a relay when the name comes */
    ask(k, 2, .kind = LOCATE_CLAIM, .key = 0x54, .ttl = 4, .nonce = 5, .owner = 0xc2, .object = 0x66);
    drain(k);
    tells_name(k, 0, 0, 0x54, 0x6f);
    pull(k, 2, "REPLY c54 found a1=6f 1:1000");
    assert_int_equal(add_name(k, 0x55, 0x65, false), 0);
    tells_name(k, 0, 1, 0x55, 0x6f); /* and our own */
    expect(k, "lost:55 to a1=6f");
    /* held: a better claim comes too late */
    ask(k, 2, .kind = LOCATE_CLAIM, .key = 0x52, .ttl = 4, .nonce = 5, .owner = 0xc2, .object = 0x11);
    pull(k, 2, "REPLY c52 found 10=61 0:0");
    reply(k, 1, .kind = LOCATE_CLAIM, .key = 0x52, .owner = 0xc5, .object = 0x11, .status = LOCATE_ST_CLAIMED);
    expect(k, "");
}

static int lose(struct kit *k, uint32_t link, uint8_t name, uint8_t dest, uint8_t owner, uint8_t object, uint32_t ttl) {
    struct locate_frame f = {.kind = LOCATE_LOST, .ttl = ttl};
    key_put(f.key, name);
    key_put(f.dest, dest);
    key_put(f.owner, owner);
    key_put(f.object, object);
    return receive(k, link, &f);
}

/* 9.4: two hold one name. */
static void test_conflict(void **state) {
    struct kit *k = three(state);
    assert_int_equal(add_name(k, 0x51, 0x65, true), 0);
    assert_int_equal(add_name(k, 0x52, 0x65, true), 0);
    expect(k, "held:51 held:52");
    drain(k);
    tells_name(k, 0, 0, 0x51, 0x66); /* theirs gives way */
    expect(k, "");
    pull(k, 0, "LOST 51 of a1 to 10=65/12");
    tells_name(k, 0, 0, 0x51, 0x65); /* it has come here, or goes there */
    pull(k, 0, "");
    tells_name(k, 0, 0, 0x51, 0x64);
    expect(k, "lost:51 to a1=64");
    pull(k, 1, "NAMES 0:00=00");
    tells_name(k, 1, 0, 0x51, 0x66); /* two neighbours */
    pull(k, 1, "LOST 51 of a2 to a1=64/12");
    tells_name(k, 2, 0, 0x51, 0x63);
    pull(k, 0, "LOST 51 of a1 to a3=63/12; NAMES 0:00=00");
    pull(k, 1, "LOST 51 of a2 to a3=63/12");
    /* told from afar */
    assert_int_equal(lose(k, 1, 0x52, SELF, 0xc1, 0x66, 3), 0);
    expect(k, "");
    assert_int_equal(lose(k, 1, 0x59, SELF, 0xc1, 0x64, 3), 0);
    expect(k, "");
    assert_int_equal(lose(k, 1, 0x52, SELF, 0xc1, 0x64, 3), 0);
    expect(k, "lost:52 to c1=64");
    assert_int_equal(add_name(k, 0x52, 0x65, false), 0);
    assert_int_equal(lose(k, 1, 0x52, SELF, 0xc1, 0x64, 3), 0); /* a claim finds out by itself */
    expect(k, "");
    drain(k);
    assert_int_equal(lose(k, 1, 0x52, 0xa3, 0xc1, 0x64, 3), 0);
    pull(k, 2, "LOST 52 of a3 to c1=64/2");
    assert_int_equal(lose(k, 1, 0x52, 0xa3, 0xc1, 0x64, 1), 0);
    assert_int_equal(lose(k, 2, 0x52, 0xa3, 0xc1, 0x64, 3), 0); /* not back */
    assert_int_equal(lose(k, 1, 0x52, 0xbb, 0xc1, 0x64, 3), 0); /* no way */
    pull(k, 2, "");
}

/* 9.4: two answers to one request. */
static void test_conflict_seen(void **state) {
    struct kit *k = three(state);
    ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 4, .nonce = 4);
    reply(k, 1, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xc1, .object = 0x65, .hops = 1, .cost = 100);
    drain(k);
    reply(k, 1, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xc1, .object = 0x65, .hops = 1, .cost = 100);
    pull(k, 1, "");
    reply(k, 2, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xa3, .object = 0x66, .hops = 0, .cost = 0);
    pull(k, 2, "LOST 51 of a3 to c1=65/12");
    reply(k, 2, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xa3, .object = 0x64, .hops = 0, .cost = 0);
    pull(k, 1, "LOST 51 of c1 to a3=64/12");
}

/* 4.5: who has asked long ago is not answered when the name is somebody's at last; nor is that another than it was then
 * a conflict, in which the one who has it now would lose it. */
static void test_over(void **state) {
    struct kit *k = three(state);
    for (int answered = 0; answered < 2; answered++) {
        const uint8_t name = (uint8_t)(0x51 + answered);
        ask(k, 0, .kind = LOCATE_NAME, .key = name, .ttl = 3, .nonce = 4, .wait = 500);
        drain(k);
        if (answered) reply(k, 1, .kind = LOCATE_NAME, .key = name, .owner = 0x91, .object = 0x61, .cost = 1);
        drain(k);
        k->now += 2600 * MS; /* nothing has happened since that would have removed it */
        assert_int_equal(k->l->requests.n, 1);
        reply(k, 1, .kind = LOCATE_NAME, .key = name, .owner = 0x92, .object = 0x62, .cost = 1);
        pull(k, 1, "");
        tells_name(k, 2, (uint32_t)answered, name, 0x62);
        pull(k, 0, "");
        pull(k, 2, "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        T(test_claim),         T(test_arguments), T(test_places),         T(test_neighbours_names), T(test_name_route),
        T(test_wait),          T(test_interest),  T(test_claims_meet),    T(test_own_claim),        T(test_conflict),
        T(test_conflict_seen), T(test_over),      T(test_flood_of_claim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
