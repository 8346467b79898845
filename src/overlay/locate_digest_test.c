/* SPDX-License-Identifier: Apache-2.0 */
/* Digests: what is in them and when they go, where hints lead; changes that wait for others; and rows of
 * neighbours' neighbours. */
#include "overlay/locate_testkit.h"

#define EVERY (60 * MOYAI_SEC)

static const struct locate_cfg cfg = {
    .seed = 1, .links = 8, .told = 2, .requests = 8, .lookups = 4, .routes = 4, .dead = 4, .digest_every = EVERY};

static int setup(void **state) {
    *state = kit_new(&cfg);
    return 0;
}
static int teardown(void **state) {
    kit_free(*state);
    return 0;
}

/* Ids that differ in all that a digest looks at. */
static struct moyai_node_id far_id(uint8_t b) {
    struct moyai_node_id id;
    for (uint32_t i = 0; i < 16; i++) id.b[i] = (uint8_t)(b * 37u + i * (b * 11u + 101u) + 1);
    return id;
}

static int tells_far(struct kit *k, uint32_t link, uint32_t slot, uint8_t b) {
    struct locate_frame f = {.kind = LOCATE_NEIGHBOURS, .n = 1, .slots = {{.slot = slot, .cost = 1000}}};
    memcpy(f.slots[0].id, far_id(b).b, 16);
    return receive(k, link, &f);
}

static int look_far(struct kit *k, uint64_t token, uint8_t b) {
    struct locate_event ev = EV(LOOKUP, .token = token, .key_kind = LOCATE_NODE);
    memcpy(ev.key, far_id(b).b, 16);
    return step(k, ev);
}

static int look_lost(struct kit *k, uint64_t token, uint8_t b) {
    struct locate_event ev = EV(LOOKUP, .token = token, .key_kind = LOCATE_NODE, .lost = true);
    memcpy(ev.key, far_id(b).b, 16);
    return step(k, ev);
}

static int asks_far(struct kit *k, uint32_t link, uint8_t b, uint32_t ttl, uint32_t flags, uint64_t nonce) {
    struct locate_frame f = request_of((struct ask){.ttl = ttl, .flags = flags, .nonce = nonce});
    memcpy(f.key, far_id(b).b, 16);
    return receive(k, link, &f);
}

/* A digest as a neighbour makes it that has these two links away. */
static void digest_of(struct locate_frame *f, uint8_t from, uint8_t n) {
    struct kit *other = kit_new(&cfg);
    assert_int_equal(up(other, 0, 0x20, 1000), 0);
    assert_int_equal(up(other, 1, 0x21, 1000), 0);
    for (uint8_t i = 0; i < n; i++) assert_int_equal(tells_far(other, 0, i, (uint8_t)(from + i)), 0);
    for (int i = 0; i < 100 && !set_has(&other->l->digest_send, 1); i++) timeout(other);
    bool got = false;
    while (!got && locate_pull(other->l, 1, other->now, f)) got = f->kind == LOCATE_DIGESTED;
    assert_true(got);
    kit_free(other);
}

static void digest(struct kit *k, uint32_t link, uint8_t from, uint8_t n) {
    static struct locate_frame f;
    digest_of(&f, from, n);
    assert_int_equal(receive(k, link, &f), 0);
}

static uint64_t knows(const struct kit *k, uint8_t b) {
    return locate_digest_find(k->l, far_id(b).b, SET_ALL)[0];
}

/* Links that are sent a request now; all of them are as said. */
static uint64_t asked(struct kit *k, uint32_t ttl, uint32_t flags) {
    uint64_t to = 0;
    SET_EACH (i, locate_ready(k->l, k->now))
        while (locate_pull(k->l, i, k->now, &k->out)) {
            check(k);
            if (k->out.kind != LOCATE_REQUEST) continue;
            assert_int_equal(k->out.ttl, ttl);
            assert_int_equal(k->out.flags, flags);
            to |= UINT64_C(1) << i;
        }
    return to;
}

static struct kit *links(void **state, uint32_t n) {
    struct kit *k = *state;
    for (uint32_t i = 0; i < n; i++) assert_int_equal(up(k, i, (uint8_t)(0xa0 + i), 1000), 0);
    drain(k);
    return k;
}

/* 3.7: who is two links away, and the known dead; not the neighbours, nor who is one no more. */
static void test_holds(void **state) {
    struct kit *k = links(state, 2);
    digest(k, 0, 1, 3);
    for (uint8_t b = 1; b <= 3; b++) assert_true(knows(k, b) == 1);
    uint32_t wrong = 0;
    for (uint8_t b = 4; b < 204; b++) wrong += knows(k, b) != 0;
    assert_int_equal(wrong, 0);
    digest(k, 1, 3, 2);
    assert_true(knows(k, 3) == 3 && knows(k, 4) == 2);
    digest(k, 0, 7, 1); /* the later counts */
    assert_true(knows(k, 1) == 0 && knows(k, 7) == 1);
    assert_int_equal(down(k, 0), 0);
    assert_true(knows(k, 7) == 0);
    assert_int_equal(up(k, 0, 0xa7, 1000), 0);
    assert_true(knows(k, 7) == 0);

    assert_int_equal(step(k, EV(EVIDENCE, .node = far_id(9), .how = LOCATE_DEAD)), 0);
    while (!set_has(&k->l->digest_send, 0)) timeout(k);
    static struct locate_frame f;
    while (locate_pull(k->l, 0, k->now, &f) && f.kind != LOCATE_DIGESTED)
        ;
    assert_int_equal(f.kind, LOCATE_DIGESTED);
    struct kit *other = kit_new(&cfg);
    assert_int_equal(up(other, 0, SELF + 1, 1000), 0);
    assert_int_equal(receive(other, 0, &f), 0);
    assert_true(knows(other, 9) == 1);
    assert_false(set_any(locate_digest_find(other->l, id_of(0xa1).b, set_of(0))));
    kit_free(other);
}

static moyai_ns until_sent(struct kit *k, uint64_t to) {
    moyai_ns start = k->now;
    for (int i = 0; i < 100 && !set_any(k->l->digest_send); i++) timeout(k);
    assert_true(are_links(k->l->digest_send, to));
    drain(k);
    return k->now - start;
}

/* 3.8: a new link soon, all when something has changed, sooner when much has. */
static void test_times(void **state) {
    struct kit *k = *state;
    assert_int_equal(up(k, 0, 0xa0, 1000), 0);
    assert_int_equal(up(k, 1, 0xa1, 1000), 0);
    assert_in_range(until_sent(k, 3), 5000 * MS, 5500 * MS);
    assert_true(locate_deadline(k->l, k->now) == UINT64_MAX); /* nothing is sent that nothing has caused */
    for (uint8_t i = 0; i < 8; i++) assert_int_equal(tells_far(k, i & 1, i / 2, i), 0);
    (void)until_sent(k, 3);
    assert_int_equal(tells_far(k, 0, 0, 0), 0); /* the same again */
    assert_true(locate_deadline(k->l, k->now) == UINT64_MAX);
    assert_int_equal(tells_far(k, 0, 0, 50), 0); /* one of eight */
    assert_in_range(until_sent(k, 3), EVERY / 2 - 1000 * MOYAI_MS, 3 * EVERY / 2);
    assert_int_equal(tells_far(k, 0, 0, 51), 0);
    assert_int_equal(tells_far(k, 0, 1, 52), 0);
    assert_in_range(until_sent(k, 3), 1, 8 * MOYAI_SEC);
    assert_int_equal(tells_far(k, 0, 0, 53), 0);
    assert_int_equal(up(k, 2, 0xa2, 1000), 0);
    assert_in_range(until_sent(k, 4), 4000 * MS, 5500 * MS); /* the newcomer only */
    assert_in_range(until_sent(k, 7), EVERY / 4, 3 * EVERY / 2);
    assert_int_equal(down(k, 2), 0);
    assert_int_equal(down(k, 1), 0);
    assert_int_equal(down(k, 0), 0);
    assert_false(set_any(k->l->digest_send));
}

/* 5.2: a hint is followed, then neighbours are asked for theirs, then they ask a few, then floods. */
static void test_look(void **state) {
    struct kit *k = links(state, 7);
    digest(k, 2, 1, 3);
    drain(k);
    assert_int_equal(look_far(k, 1, 2), 0);
    assert_true(asked(k, 3, LOCATE_HINTED) == 4);
    timeout(k);
    assert_true(asked(k, 3, LOCATE_HINTED) == (0x7f & ~4));
    timeout(k);
    assert_true(asked(k, 4, LOCATE_FEW) == 0x7f);
    timeout(k);
    assert_true(asked(k, 2, 0) == 0x7f);
    timeout(k);
    assert_true(asked(k, 3, 0) == 0x7f);
    timeout(k);
    assert_true(asked(k, 8, LOCATE_FLOOD) == 0x7f);
    timeout(k);
    expect(k, "not-found1");

    assert_int_equal(look_far(k, 2, 90), 0); /* no hint: a few neighbours */
    uint64_t first = asked(k, 3, LOCATE_HINTED);
    assert_int_equal(__builtin_popcountll(first), 4);
    timeout(k);
    assert_true(asked(k, 3, LOCATE_HINTED) == (0x7f & ~first));
    struct locate_frame f = reply_of((struct reply){.hops = 2, .cost = 500});
    memcpy(f.key, far_id(90).b, 16);
    memcpy(f.owner, far_id(90).b, 16);
    assert_int_equal(receive(k, 5, &f), 0);
    assert_true(strncmp(k->told, "found2:", 7) == 0);
    k->told[0] = 0;
}

/* 3.7, 4.10, 5.2: names are in digests, and looked for along hints, as nodes are. */
static void test_names(void **state) {
    struct kit *k = links(state, 7), *other = kit_new(&cfg);
    static struct locate_frame f;
    assert_int_equal(up(other, 0, 0x20, 1000), 0);
    assert_int_equal(up(other, 1, 0x21, 1000), 0);
    assert_int_equal(tells_name(other, 0, 0, 0x51, 0x61), 0);
    for (uint8_t i = 0; i < 3; i++) assert_int_equal(add_name(other, (uint8_t)(0x52 + i), 0x62, true), 0);
    while (!set_has(&other->l->digest_send, 1)) timeout(other);
    while (locate_pull(other->l, 1, other->now, &f) && f.kind != LOCATE_DIGESTED)
        ;
    assert_int_equal(receive(k, 2, &f), 0);
    assert_true(are_links(locate_digest_find(k->l, id_of(0x51).b, SET_ALL), 4));
    assert_true(are_links(locate_digest_find(k->l, id_of(0x52).b, SET_ALL), 0)); /* its own it tells itself, */
    assert_true(are_links(locate_digest_find(k->l, id_of(0x54).b, SET_ALL), 4)); /* but for what has no place */
    kit_free(other);

    assert_int_equal(look(k, 1, LOCATE_NAME, 0x51), 0);
    assert_true(asked(k, 3, LOCATE_HINTED) == 4);
    timeout(k);
    assert_true(asked(k, 3, LOCATE_HINTED) == (0x7f & ~4));
    timeout(k);
    assert_true(asked(k, 4, LOCATE_FEW) == 0x7f);
    timeout(k);
    assert_true(asked(k, 2, 0) == 0x7f);
    reply(k, 2, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xc1, .object = 0x61, .hops = 1);
    expect(k, "found1:c1/2=61");
    assert_int_equal(ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 3, .flags = LOCATE_HINTED, .nonce = 5), 0);
    pull(k, 0, "REPLY N51 found c1=61 2:1000+1");

    k->now += 5000 * MS; /* others': where hints say, else nowhere */
    assert_int_equal(ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 3, .flags = LOCATE_HINTED, .nonce = 6), 0);
    assert_true(asked(k, 2, LOCATE_HINTED) == 4);
    assert_int_equal(ask(k, 1, .kind = LOCATE_NAME, .key = 0x59, .ttl = 3, .flags = LOCATE_HINTED, .nonce = 6), 0);
    assert_true(asked(k, 0, 0) == 0);
    assert_null(locate_find_request(k->l, LOCATE_NAME, id_of(0x59).b));
}

/* 4.3, 4.10: who looks for the same as many others do asks a few, however many ask him. */
static void test_crowd(void **state) {
    struct kit *k = links(state, 7);
    assert_int_equal(ask(k, 0, .kind = LOCATE_NAME, .key = 0x51, .ttl = 4, .flags = LOCATE_FEW, .nonce = 5), 0);
    uint64_t first = asked(k, 3, LOCATE_HINTED);
    assert_int_equal(__builtin_popcountll(first), 4);
    assert_true(!(first & 1));
    assert_int_equal(look(k, 1, LOCATE_NAME, 0x51), 0); /* enough have been asked */
    assert_true(asked(k, 0, 0) == 0);
    for (uint32_t i = 1; i < 5; i++)
        assert_int_equal(ask(k, i, .kind = LOCATE_NAME, .key = 0x51, .ttl = 3, .flags = LOCATE_HINTED, .nonce = 10 + i),
                         0);
    assert_int_equal(ask(k, 5, .kind = LOCATE_NAME, .key = 0x51, .ttl = 4, .flags = LOCATE_FEW, .nonce = 20), 0);
    assert_true(asked(k, 0, 0) == 0);
    reply(k, 6, .kind = LOCATE_NAME, .key = 0x51, .owner = 0xc1, .object = 0x61, .hops = 1);
    expect(k, "found1:c1/2=61");
    for (uint32_t i = 0; i < 6; i++) pull(k, i, "REPLY N51 found c1=61 2:1000");

    /* a flood that has gone on from here reaches farther than hints would */
    assert_int_equal(ask(k, 0, .kind = LOCATE_NAME, .key = 0x52, .ttl = 4, .nonce = 5), 0);
    assert_true(asked(k, 3, 0) == 0x7e);
    assert_int_equal(ask(k, 1, .kind = LOCATE_NAME, .key = 0x52, .ttl = 3, .flags = LOCATE_HINTED, .nonce = 6), 0);
    assert_int_equal(look(k, 2, LOCATE_NAME, 0x52), 0);
    assert_true(asked(k, 0, 0) == 0);
    reply(k, 6, .kind = LOCATE_NAME, .key = 0x52, .owner = 0xc1, .object = 0x61, .hops = 1);
    expect(k, "found2:c1/2=61");
    pull(k, 0, "REPLY N52 found c1=61 2:1000");
    pull(k, 1, "REPLY N52 found c1=61 2:1000");

    /* hints are asked for once; then a flood comes */
    assert_int_equal(ask(k, 0, .kind = LOCATE_NAME, .key = 0x53, .ttl = 4, .flags = LOCATE_FEW, .nonce = 5), 0);
    assert_int_equal(__builtin_popcountll(asked(k, 3, LOCATE_HINTED)), 4);
    assert_int_equal(ask(k, 1, .kind = LOCATE_NAME, .key = 0x53, .ttl = 4, .flags = LOCATE_FEW, .nonce = 6), 0);
    assert_true(asked(k, 0, 0) == 0);
    assert_int_equal(ask(k, 2, .kind = LOCATE_NAME, .key = 0x53, .ttl = 2, .nonce = 7), 0);
    assert_true(asked(k, 1, 0) == 0x7f);
    assert_true(k->out.nonce == 7); /* of who floods, not of several */
}

/* 5.2: a ring lasts as long as it would have been given, had it been known how late frames come, and how late timers.
 */
static void test_late(void **state) {
    struct kit *k = links(state, 2);
    assert_int_equal(look(k, 1, LOCATE_NAME, 0x51), 0);
    assert_true(asked(k, 3, LOCATE_HINTED) == 3);
    moyai_ns began = k->now;
    struct locate_frame f = {.kind = LOCATE_BUSY, .key = {9}};
    assert_int_equal(step(k, EV(RECEIVE, .link = 0, .frame = &f, .late = 30 * MOYAI_MS)), 0);
    timeout(k);
    assert_true(asked(k, 0, 0) == 0);
    assert_true(k->l->due == began + (25 + 4 * 3 * 15) * MS);
    k->now = k->l->due + 40 * MS;
    assert_int_equal(step(k, EV(TIMEOUT, .late = 40 * MOYAI_MS)), 0);
    assert_true(k->l->due == began + (25 + 4 * 3 * 40) * MS);
    timeout(k);
    timeout(k); /* the second had all of its links asked */
    assert_true(asked(k, 4, LOCATE_FEW) == 3);
    k->now += 1;
    assert_int_equal(step(k, EV(TIMEOUT, .late = 3600 * MOYAI_SEC)),
                     0); /* the machine has slept: no ring lasts so long */
    const struct locate_request *r = locate_find_request(k->l, LOCATE_NAME, id_of(0x51).b);
    began = r->ring_from;
    k->now = began + 50 * MS + 4 * 4 * 40 * MS;
    assert_int_equal(step(k, EV(TIMEOUT)), 0);
    assert_true(r->ring_at == began + 6050 * MS);
}

/* 5.2: one to whom a way has just failed is asked for of all, and then of those who were linked to it, who know why. */
static void test_lost(void **state) {
    struct kit *k = links(state, 7);
    digest(k, 2, 1, 3);
    drain(k);
    assert_int_equal(look_lost(k, 1, 2), 0);
    assert_true(asked(k, 3, LOCATE_HINTED) == 0x7f);
    moyai_ns began = k->now;
    timeout(k);
    assert_int_equal(k->now, began + 25 * MS);
    assert_true(asked(k, 2, 0) == 0x7f);
    timeout(k);
    assert_true(asked(k, 3, 0) == 0x7f);
    struct locate_frame f = reply_of((struct reply){.hops = 2, .cost = 500});
    f.status = LOCATE_ST_DEAD;
    memcpy(f.key, far_id(2).b, 16);
    memcpy(f.owner, far_id(2).b, 16);
    assert_int_equal(receive(k, 5, &f), 0);
    assert_non_null(strstr(k->told, "dead"));
    k->told[0] = 0;
    k->now += 5000 * MS; /* the next one of it is as any */
    assert_int_equal(look_lost(k, 2, 90), 0);
    assert_int_equal(step(k, EV(CANCEL, .token = 2)), 0);
    drain(k);
    assert_int_equal(look_far(k, 3, 90), 0);
    assert_int_equal(__builtin_popcountll(asked(k, 3, LOCATE_HINTED)), 4);
    assert_int_equal(step(k, EV(CANCEL, .token = 3)), 0);
    drain(k);
}

/* 5.2, turns: where hints have found nothing and others ask for the same, the floods begin one after the other. */
static void test_turns(void **state) {
    struct kit *k = links(state, 2);
    assert_int_equal(look(k, 1, LOCATE_NAME, 0x51), 0);
    timeout(k);
    timeout(k);
    const struct locate_request *r = locate_find_request(k->l, LOCATE_NAME, id_of(0x51).b);
    assert_int_equal(r->ring, 2);
    assert_int_equal(r->ring_at, r->ring_from + 50 * MS);
    uint64_t turn = k->l->self[0] ^ r->key[0];
    assert_true(turn > 0);
    struct locate_frame f = {
        .kind = LOCATE_REQUEST, .key_kind = LOCATE_NAME, .ttl = 2, .flags = LOCATE_FEW, .nonce = 9};
    f.wait = 1000;
    memcpy(f.key, id_of(0x51).b, 16);
    assert_int_equal(step(k, EV(RECEIVE, .link = 0, .frame = &f)), 0);
    assert_true(are_links(r->askers, 1));
    uint64_t end = r->ring_from + 50 * MS + 2 * turn * 2000 * MS / 256;
    k->now = r->ring_from + 50 * MS;
    assert_int_equal(step(k, EV(TIMEOUT)), 0);
    assert_int_equal(r->ring, 2);
    assert_int_equal(r->ring_at, end);
    k->now = end;
    assert_int_equal(step(k, EV(TIMEOUT)), 0);
    assert_int_equal(r->ring, 3);
}

/* What has not been sent yet goes out as it should be, or not at all. */
static void test_unsent(void **state) {
    struct kit *k = links(state, 5);
    assert_int_equal(look_far(k, 1, 90), 0);
    assert_int_equal(step(k, EV(CANCEL, .token = 1)), 0);
    assert_true(asked(k, 0, 0) == 0);

    k->now += 5000 * MS;
    digest(k, 2, 1, 3);
    assert_int_equal(look_far(k, 2, 91), 0);
    (void)asked(k, 3, LOCATE_HINTED);
    assert_int_equal(asks_far(k, 0, 91, 8, 0, 77), 0); /* a flood, to all; */
    assert_int_equal(down(k, 0), 0);                   /* and nobody wants it any more */
    while (locate_find_request(k->l, LOCATE_NODE, far_id(91).b)->ring == 0) timeout(k);
    (void)asked(k, 3, LOCATE_HINTED);
}

/* 4.10: on along hints only; of a node the asker is remembered for as long as he waits. */
static void test_relay(void **state) {
    struct kit *k = links(state, 7);
    digest(k, 2, 1, 3);
    digest(k, 3, 2, 3);
    drain(k);
    assert_int_equal(k->l->requests.n, 0);
    assert_int_equal(asks_far(k, 0, 90, 3, LOCATE_HINTED, 5), 0);
    assert_true(asked(k, 0, LOCATE_HINTED) == 0);
    assert_int_equal(step(k, EV(EVIDENCE, .node = far_id(90), .how = LOCATE_DEAD)), 0);
    for (uint32_t i = 0, told = 0; i < 7; i++, told = 0) {
        while (locate_pull(k->l, i, k->now, &k->out))
            told += k->out.kind == LOCATE_REPLY && k->out.status == LOCATE_ST_DEAD;
        assert_int_equal(told, i == 0);
    }
    assert_int_equal(asks_far(k, 0, 1, 1, LOCATE_HINTED, 5), 0); /* as far as it may go */
    assert_int_equal(asks_far(k, 3, 4, 3, LOCATE_HINTED, 5), 0); /* the hint is the asker's own */
    assert_true(asked(k, 0, LOCATE_HINTED) == 0);
    assert_int_equal(asks_far(k, 0, 2, 3, LOCATE_HINTED, 5), 0);
    assert_true(asked(k, 2, LOCATE_HINTED) == 12);
    assert_int_equal(asks_far(k, 2, 2, 3, LOCATE_HINTED, 5), 0); /* an echo */
    assert_int_equal(asks_far(k, 1, 2, 3, LOCATE_HINTED, 6), 0); /* one more asker */
    struct locate_frame f = reply_of((struct reply){.hops = 1, .cost = 500});
    memcpy(f.key, far_id(2).b, 16);
    memcpy(f.owner, far_id(2).b, 16);
    assert_int_equal(receive(k, 3, &f), 0);
    uint64_t answered = 0;
    for (uint32_t i = 0; i < 7; i++)
        while (locate_pull(k->l, i, k->now, &k->out)) answered |= k->out.kind == LOCATE_REPLY ? 1u << i : 0;
    assert_true(answered == 3);

    assert_int_equal(tells_far(k, 4, 0, 40), 0); /* a neighbour's neighbour: that one alone */
    assert_int_equal(asks_far(k, 0, 40, 1, LOCATE_HINTED, 7), 0);
    assert_true(asked(k, 1, LOCATE_DIRECT) == 16);

    assert_int_equal(asks_far(k, 0, 91, 4, LOCATE_FEW, 8), 0); /* no hint: four, not the asker */
    uint64_t some = asked(k, 3, LOCATE_HINTED);
    assert_int_equal(__builtin_popcountll(some), 4);
    assert_false(some & 1);
    assert_int_equal(asks_far(k, 0, 3, 3, LOCATE_HINTED, 9), 0);
    assert_true(asked(k, 2, LOCATE_HINTED) == 12);
    assert_int_equal(asks_far(k, 0, 3, 2, 0, 9), 0); /* a flood goes farther */
    assert_true(asked(k, 1, 0) == (0x7f & ~1));
}

/* 3.7: who looks for the dead is told so by who knows. */
static void test_dead(void **state) {
    struct kit *k = links(state, 3);
    assert_int_equal(step(k, EV(EVIDENCE, .node = far_id(5), .how = LOCATE_DEAD, .told = true)), 0);
    assert_int_equal(asks_far(k, 1, 5, 3, LOCATE_HINTED, 5), 0);
    assert_true(locate_pull(k->l, 1, k->now, &k->out));
    assert_int_equal(k->out.kind, LOCATE_REPLY);
    assert_int_equal(k->out.status, LOCATE_ST_DEAD);
}

static void test_guess(void **state) {
    struct kit *k = links(state, 4);
    struct moyai_node_id id = far_id(2);
    uint32_t link = 9;
    assert_false(locate_guess(k->l, &id, SET_NONE, &link));
    digest(k, 1, 1, 3);
    digest(k, 3, 2, 3);
    uint64_t seen = 0;
    for (int i = 0; i < 100; i++) {
        assert_true(locate_guess(k->l, &id, SET_NONE, &link));
        seen |= UINT64_C(1) << link;
    }
    assert_true(seen == 10);
    assert_true(locate_guess(k->l, &id, low_links(8), &link));
    assert_int_equal(link, 1);
    assert_false(locate_guess(k->l, &id, low_links(10), &link));
}

/* 3.3: a neighbour more waits for others, a neighbour less does not. */
static void test_linger(void **state) {
    (void)state;
    struct locate_cfg c = cfg;
    c.digest_every = 0;
    c.linger = 500 * MOYAI_MS;
    struct kit *k = kit_new(&c);
    assert_int_equal(up(k, 0, 0xa0, 1000), 0);
    k->now += 1000 * MS;
    assert_int_equal(up(k, 1, 0xa1, 1000), 0);
    pull(k, 1, "NEIGHBOURS 0:a0"); /* what is there is told to a newcomer at once */
    pull(k, 0, "");
    assert_true(locate_deadline(k->l, k->now) == k->now + 500 * MS);
    k->now += 400 * MS;
    assert_int_equal(up(k, 2, 0xa2, 1000), 0);
    pull(k, 0, "");
    k->now += 100 * MS;
    pull(k, 0, "NEIGHBOURS 1:a1 2:a2");
    k->now += 300 * MS;
    assert_int_equal(up(k, 3, 0xa3, 1000), 0);
    assert_int_equal(down(k, 1), 0);
    pull(k, 0, "NEIGHBOURS 1:00 3:a3");
    pull(k, 2, "NEIGHBOURS 0:a0 1:00 3:a3");
    assert_int_equal(step(k, EV(COST, .link = 2, .cost = 9 * MOYAI_MS)), 0);
    pull(k, 0, "");
    assert_int_equal(add_name(k, 0x71, 0x61, true), 0); /* a name is somebody's errand */
    k->now += 60 * MS;
    pull(k, 0, "NEIGHBOURS 2:a2; NAMES 0:71=61");
    kit_free(k);
}

static int yielded(struct kit *k, uint32_t link) {
    return step(k, EV(LINK_DOWN, .link = link, .parted = true));
}

/* 3.3: so does one that was given up by agreement; and after what was told, changes are gathered for longer. */
static void test_parted(void **state) {
    (void)state;
    struct locate_cfg c = cfg;
    c.digest_every = 0;
    c.linger = 500 * MOYAI_MS;
    c.grace = 30 * MOYAI_MS;
    struct kit *k = kit_new(&c);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(up(k, i, (uint8_t)(0xa0 + i), 1000), 0);
    drain(k);
    k->now += 5000 * MS;
    drain(k);
    k->now += 5000 * MS;
    assert_int_equal(yielded(k, 1), 0); /* long after the last: `linger` */
    pull(k, 0, "");
    assert_true(locate_deadline(k->l, k->now) == k->now + 500 * MS);
    k->now += 500 * MS;
    pull(k, 0, "NEIGHBOURS 1:00");
    pull(k, 2, "NEIGHBOURS 1:00");
    pull(k, 3, "NEIGHBOURS 1:00");
    k->now += 100 * MS;
    assert_int_equal(up(k, 1, 0xa5, 1000), 0); /* soon after it: 4 x `linger` */
    pull(k, 1, "NEIGHBOURS 0:a0 2:a2 3:a3");
    pull(k, 0, "");
    assert_true(locate_deadline(k->l, k->now) == k->now + 1900 * MS);
    k->now += 1700 * MS;
    assert_int_equal(yielded(k, 2), 0);
    k->now += 200 * MS;
    pull(k, 0, "NEIGHBOURS 1:a5 2:00");
    pull(k, 3, "NEIGHBOURS 1:a5 2:00");
    k->now += 100 * MS;
    assert_int_equal(yielded(k, 1), 0);
    pull(k, 0, "");
    assert_int_equal(down(k, 3), 0); /* one that is lost takes the others along */
    pull(k, 0, "");
    k->now += 30 * MS;
    pull(k, 0, "NEIGHBOURS 1:00 3:00");
    kit_free(k);
}

/* 3.3: who is lost is told of after `grace`; what comes with it goes along, what waits longer is hastened. */
static void test_grace(void **state) {
    (void)state;
    struct locate_cfg c = cfg;
    c.digest_every = 0;
    c.linger = 500 * MOYAI_MS;
    c.grace = 30 * MOYAI_MS;
    struct kit *k = kit_new(&c);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(up(k, i, (uint8_t)(0xa0 + i), 1000), 0);
    drain(k);
    k->now += 1000 * MS;
    drain(k);
    assert_int_equal(step(k, EV(COST, .link = 3, .cost = 9 * MOYAI_MS)), 0);
    assert_int_equal(down(k, 1), 0);
    pull(k, 0, "");
    assert_true(locate_deadline(k->l, k->now) == k->now + 30 * MS);
    k->now += 20 * MS;
    assert_int_equal(down(k, 2), 0); /* does not put it off */
    pull(k, 0, "");
    k->now += 10 * MS;
    pull(k, 0, "NEIGHBOURS 1:00 2:00 3:a3");
    kit_free(k);
}

/* Each neighbour's neighbours stay its own, whatever slots they come into and go from. The machine's check after each
 * step also wants no place kept for who is gone. */
static void test_rows(void **state) {
    const struct locate_cfg c = {
        .seed = 1, .links = 40, .told = 2, .requests = 8, .lookups = 4, .routes = 4, .dead = 4};
    struct kit *k = kit_new(&c);
    (void)state;
    uint8_t is[4][LOCATE_LINKS] = {{0}};
    struct moyai_rng rng;
    rng_seed(&rng, 7);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(up(k, i, (uint8_t)(0xa0 + i), 1000), 0);
    for (int turn = 0; turn < 5000; turn++) {
        uint32_t link = (uint32_t)rng_below(&rng, 4), slot = (uint32_t)rng_below(&rng, k->l->links), row = 0;
        uint8_t node = rng_below(&rng, 3) ? (uint8_t)(0x20 + rng_below(&rng, 0x70)) : 0;
        if (rng_below(&rng, 200) == 0) {
            assert_int_equal(down(k, link), 0);
            assert_int_equal(locate_neighbours(k->l, link, NULL, 0), 0);
            assert_int_equal(up(k, link, (uint8_t)(0xa0 + link), 1000), 0);
            memset(is[link], 0, sizeof is[link]);
        }
        assert_int_equal(tells(k, link, slot, node, node ? 1000 : 0), 0);
        is[link][slot] = node;
        for (link = 0; link < 4; link++, row = 0) {
            struct locate_neighbour out[LOCATE_LINKS];
            uint32_t n = locate_neighbours(k->l, link, out, LOCATE_LINKS);
            for (slot = 0; slot < k->l->links; slot++)
                if (is[link][slot]) assert_true(row < n && id_equal(out[row++].node.b, id_of(is[link][slot]).b));
            assert_int_equal(row, n);
        }
    }
    kit_free(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        T(test_holds),
        T(test_times),
        T(test_look),
        T(test_names),
        T(test_crowd),
        T(test_late),
        T(test_lost),
        T(test_turns),
        T(test_unsent),
        T(test_relay),
        T(test_dead),
        T(test_guess),
        cmocka_unit_test(test_linger),
        cmocka_unit_test(test_parted),
        cmocka_unit_test(test_grace),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
