/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of others: which endpoints are kept, that the sample is fair, and whom of them a node connects to. */
#include "overlay/peers_testkit.h"

static bool known(const struct tested *t, uint32_t n) {
    struct moyai_node_id id = node(n);
    return peers_find(t->p, id.b) != NULL;
}

static struct tested *started(struct peers_cfg cfg) {
    struct tested *t = tested_new(cfg);
    (void)step(t, EV(START));
    t->did[0] = 0;
    return t;
}

static void test_which(void **state) {
    (void)state;
    struct tested *t = started((struct peers_cfg){.known = 8, .text = 8});
    struct peers_endpoint e = open_node(500);
    knows(t, e); /* itself */
    e.id = (struct moyai_node_id){{0}};
    knows(t, e);
    e = open_node(2);
    e.lifetime = 0;
    knows(t, e);
    e = open_node(3);
    e.n_text = 0;
    knows(t, e);
    knows(t, at_site(4, 2, false)); /* of another site, and nobody gets in */
    knows(t, at_site(5, 0, false)); /* of none */
    assert_int_equal(peers_count(t->p).known, 0);
    knows(t, at_site(6, 1, false));
    knows(t, open_node(7));
    assert_true(known(t, 6) && known(t, 7));
    assert_int_equal(peers_count(t->p).known, 2);
    assert_int_equal(peers_knowns(t->p)[0].n_text, 6); /* its second address does not fit */
    e = open_node(8);
    e.text = (const uint8_t *)"\10abcdefgh";
    e.n_text = 9;
    knows(t, e);
    assert_false(known(t, 8)); /* its first does not */
    e.n_text = 5;
    assert_int_equal(step(t, EV(ENTRY, .endpoint = &e)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(ENTRY)), MOYAI_EINVAL);
    tested_free(t);
    t = started((struct peers_cfg){.known = 8, .text = 10}); /* both fit, and no byte more would */
    knows(t, open_node(7));
    assert_int_equal(peers_knowns(t->p)[0].n_text, 10);
    tested_free(t);
}

/* Whom a leaver has named is kept though there is no place, and for the usual time, whatever is said of that; if its
 * first address fits. */
static void test_kept(void **state) {
    (void)state;
    struct tested *t = started((struct peers_cfg){.known = 8, .text = 10});
    struct peers_endpoint e = open_node(60);
    for (uint32_t i = 1; i <= 8; i++) knows(t, open_node(i));
    const uint32_t has = peers_count(t->p).known;
    assert_int_equal(has, 6); /* of 8 places two are for those of the own site */
    e.text = (const uint8_t *)"\12abcdefghij";
    e.n_text = 11;
    e.lifetime = 0;
    assert_int_equal(peers_keep(t->p, &e, t->now), UINT32_MAX);
    e.lifetime = 60;
    knows(t, e);
    assert_false(known(t, 60));
    e.text = (const uint8_t *)"\11abcdefghi";
    e.n_text = 10;
    e.lifetime = 0;
    t->now += MOYAI_SEC;
    const uint32_t at = peers_keep(t->p, &e, t->now);
    assert_true(at < has && known(t, 60));
    assert_int_equal(peers_knowns(t->p)[at].n_text, 10);
    assert_int_equal(peers_knowns(t->p)[at].until, t->now + t->p->lifetime * (uint64_t)MOYAI_SEC);
    assert_int_equal(peers_count(t->p).known, has);
    tested_free(t);
    t = started((struct peers_cfg){.known = 8, .text = 10});
    e.lifetime = 60;
    knows(t, e); /* it is learnt likewise */
    assert_true(known(t, 60));
    tested_free(t);
}

static void test_newer(void **state) {
    (void)state;
    struct tested *t = started((struct peers_cfg){.known = 8});
    struct moyai_node_id id = node(1);
    struct peers_endpoint e = open_node(1);
    knows(t, e);
    moyai_ns until = peers_find(t->p, id.b)->until;
    assert_int_equal(until, t->now + 600 * SEC);
    e.lifetime = 500; /* older */
    e.n_text = 6;
    knows(t, e);
    assert_int_equal(peers_find(t->p, id.b)->n_text, 10);
    e.lifetime = 700;
    knows(t, e);
    assert_int_equal(peers_find(t->p, id.b)->n_text, 6);
    assert_int_equal(peers_find(t->p, id.b)->until, t->now + 700 * SEC);
    e.lifetime = UINT32_MAX; /* nobody's word is good for more than an hour */
    knows(t, e);
    assert_int_equal(peers_find(t->p, id.b)->until, t->now + 3600 * SEC);
    t->now += 3100 * SEC; /* 500 s are left of that: its hello makes it 600, and is no news of anybody else */
    assert_int_equal(step(t, EV(SEEN, .id = node(3))), 0);
    assert_false(known(t, 3));
    peers_find(t->p, id.b)->vain = 3;
    assert_int_equal(step(t, EV(SEEN, .id = id)), 0);
    assert_int_equal(peers_find(t->p, id.b)->until, t->now + 600 * SEC);
    assert_int_equal(peers_find(t->p, id.b)->vain, 1);
    e.lifetime = UINT32_MAX;
    knows(t, e);
    assert_int_equal(step(t, EV(SEEN, .id = id)), 0); /* it does not shorten what was said */
    assert_int_equal(peers_find(t->p, id.b)->until, t->now + 3600 * SEC);
    e = at_site(2, 1, true);
    knows(t, e);
    assert_int_equal(t->p->near_n, 1);
    e.site = 9; /* moved: not near any more */
    e.lifetime++;
    knows(t, e);
    assert_int_equal(t->p->near_n, 0);
    assert_true(known(t, 2));
    t->now += 3599 * SEC;
    (void)step(t, EV(TIMEOUT));
    assert_true(known(t, 1) && !known(t, 2));
    t->now += SEC;
    (void)step(t, EV(TIMEOUT));
    assert_false(known(t, 1));
    tested_free(t);
}

/* A word that is newer by no more than 10 s may be the same that has come by another way. */
static void test_renewed(void **state) {
    (void)state;
    for (int by_hello = 0; by_hello < 2; by_hello++) {
        struct tested *t = started((struct peers_cfg){.known = 8});
        struct peers_endpoint e = open_node(1); /* for 600 s, as is what a hello says */
        knows(t, e);
        struct peers_known *k = peers_find(t->p, e.id.b);
        for (uint32_t newer = 9; newer <= 11; newer++) {
            for (uint32_t vain = 0; vain <= 3; vain += 3) {
                k->until = t->now + (600 - newer) * SEC;
                k->vain = vain;
                if (by_hello)
                    assert_int_equal(step(t, EV(SEEN, .id = e.id)), 0);
                else
                    knows(t, e);
                assert_int_equal(k->until, t->now + 600 * SEC);
                assert_int_equal(k->vain, newer <= 10 || vain == 0 ? vain : 1);
            }
        }
        tested_free(t);
    }
}

/* A quarter of the places for the own site, three for others; neither takes from the other. */
static void test_shares(void **state) {
    (void)state;
    struct tested *t = started((struct peers_cfg){.known = 16});
    for (uint32_t i = 1; i < 100; i++) knows(t, open_node(i));
    assert_int_equal(peers_count(t->p).known, 12);
    for (uint32_t i = 101; i < 200; i++) knows(t, at_site(i, 1, i & 1));
    assert_int_equal(peers_count(t->p).known, 16);
    assert_int_equal(t->p->near_n, 4);
    tested_free(t);
}

/* Whatever the order, and however often each is named, all have the same chance; and two nodes know different ones. */
static void test_fair(void **state) {
    (void)state;
    uint32_t times[40] = {0}, both = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct tested *t = started((struct peers_cfg){.known = 12, .seed = seed});
        for (uint32_t i = 0; i < 40; i++)
            for (uint32_t k = 0; k < (i < 10 ? 20u : 1u); k++) knows(t, open_node(1 + (i + k) % 40));
        for (uint32_t i = 0; i < 40; i++) times[i] += known(t, 1 + i);
        both += known(t, 1) && known(t, 2);
        tested_free(t);
    }
    /* 9 of 40 each: 67.5 of 300, standard deviation 7.2 */
    for (uint32_t i = 0; i < 40; i++) assert_in_range(times[i], 67 - 32, 68 + 32);
    assert_in_range(both, 1, 40); /* 9/40 * 8/39 of 300: 14 */
}

static struct peers_endpoint at_places(uint32_t n, uint8_t *text, const char *const *places) {
    struct peers_endpoint e = open_node(n);
    e.n_text = 0;
    e.text = text;
    for (; *places; places++) assert_true(peers_address_put(text, PEERS_TEXT, &e.n_text, *places));
    return e;
}
#define AT(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Where one answers nobody else is: who has no address but its own was it, in an earlier life; others keep theirs. */
static void test_found(void **state) {
    (void)state;
    struct tested *t = started((struct peers_cfg){.known = 16});
    uint8_t text[PEERS_TEXT];
    char address[PEERS_ADDRESS + 1];
    knows(t, at_places(1, text, AT("gw:1")));
    knows(t, at_places(2, text, AT("b:2", "gw:1")));
    knows(t, at_places(3, text, AT("home:7", "gw:1", "c:3")));
    knows(t, at_places(4, text, AT("home:7")));
    knows(t, at_places(5, text, AT("gw:11")));
    struct peers_endpoint e = at_places(9, text, AT("gw:1", "home:7", "b:2"));
    assert_int_equal(step(t, EV(FOUND, .endpoint = &e)), 0);
    assert_true(!known(t, 1) && !known(t, 2) && known(t, 3) && known(t, 5) && known(t, 9));
    assert_true(known(t, 4)); /* it is at another site, maybe: nobody was there */
    struct moyai_node_id id = node(3);
    uint32_t at = (uint32_t)(peers_find(t->p, id.b) - peers_knowns(t->p));
    struct peers_endpoint seen = peers_known_at(t->p, at, t->now);
    assert_true(peers_knows(t->p, id.b) && id_equal(seen.id.b, id.b) && seen.lifetime > 0);
    assert_int_equal(peers_known_at(t->p, at, t->now + 1000000000000000000u).lifetime, 0);
    id = node(1);
    assert_false(peers_knows(t->p, id.b));
    struct peers_endpoint left = {.text = peers_text(t->p, at), .n_text = peers_knowns(t->p)[at].n_text};
    assert_true(peers_address_get(&left, 0, address));
    assert_string_equal(address, "home:7");
    assert_true(peers_address_get(&left, 1, address));
    assert_string_equal(address, "c:3");
    assert_false(peers_address_get(&left, 2, address));
    /* Whom CONNECT named by a name that led there. */
    e.lifetime++;
    assert_int_equal(step(t, EV(FOUND, .endpoint = &e, .id = node(5))), 0);
    assert_false(known(t, 5));
    e.n_text--;
    assert_int_equal(step(t, EV(FOUND, .endpoint = &e)), MOYAI_EINVAL);
    e.n_text = 0;
    assert_int_equal(step(t, EV(FOUND, .endpoint = &e)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(FOUND)), MOYAI_EINVAL);
    tested_free(t);
}

/* Where there is room for no byte more the last address, and one in the middle, are taken away all the same, and
 * nothing of the next endpoint. */
static void test_found_full(void **state) {
    (void)state;
    static const char *const places[][4] = {{"home:7", "c:3", "gw:1"}, {"home:7", "gw:1", "c:3"}};
    for (int i = 0; i < 2; i++) {
        struct tested *t = started((struct peers_cfg){.known = 8, .text = 16});
        uint8_t text[PEERS_TEXT], next[PEERS_TEXT];
        static const uint8_t left[16] = "\6home:7\3c:3";
        knows(t, at_places(1, text, places[i]));
        knows(t, at_places(2, next, AT("away:8", "d:4", "gw:2")));
        assert_int_equal(peers_knowns(t->p)[0].n_text, 16);
        struct peers_endpoint e = at_places(9, text, AT("gw:1"));
        assert_int_equal(step(t, EV(FOUND, .endpoint = &e)), 0);
        assert_int_equal(peers_knowns(t->p)[0].n_text, 11);
        assert_memory_equal(peers_text(t->p, 0), left, 16);
        assert_memory_equal(peers_text(t->p, 1), next, 16);
        tested_free(t);
    }
}

/* However many earlier lives of a node are known, each call that leads to the new one is no failure, after which others
 * would wait. */
static void test_earlier_lives(void **state) {
    (void)state;
    struct tested *t = started((struct peers_cfg){.known = 64, .degree = 4, .gap = 100 * MOYAI_MS});
    uint8_t text[PEERS_TEXT];
    for (uint32_t i = 1; i <= 30; i++) knows(t, at_places(i, text, AT("gw:1")));
    (void)step(t, EV(LOOKED, .entries = 30));
    t->did[0] = 0;
    while (t->dialled_n == 0) wait_next(t);
    struct peers_endpoint e = at_places(31, text, AT("gw:1"));
    assert_int_equal(step(t, EV(FOUND, .endpoint = &e, .id = node(t->dialled[0]))), 0);
    assert_int_equal(peers_count(t->p).known, 1);
    assert_int_equal(peers_count(t->p).open, 0);
    moyai_ns began = t->now;
    while (t->dialled_n == 1) wait_next(t);
    assert_int_equal(t->dialled[1], 31);
    assert_true(t->now - began <= 150 * MS);
    assert_int_equal(t->p->misses, 0);
    e = at_places(32, text, AT("gw:2")); /* a way that is not that of an attempt takes no attempt */
    assert_int_equal(step(t, EV(FOUND, .endpoint = &e, .id = node(7))), 0);
    assert_int_equal(peers_count(t->p).open, 1);
    tested_free(t);
}

/* Those that expired, and those that failed again and again, give way. */
static void test_give_way(void **state) {
    (void)state;
    struct tested *t = started((struct peers_cfg){.known = 4});
    uint32_t n = 0;
    for (uint32_t i = 1; i < 50; i++) knows(t, open_node(i));
    for (uint32_t i = 1; i < 50; i++) n += known(t, i);
    assert_int_equal(n, 3);
    knows(t, open_node(60));
    knows(t, open_node(61));
    uint32_t newcomer = 62;
    while (newcomer < 100) { /* one that is not among the smallest */
        knows(t, open_node(newcomer));
        if (!known(t, newcomer)) break;
        newcomer++;
    }
    struct peers_known *k = &peers_knowns(t->p)[1];
    k->fails = 3;
    knows(t, open_node(newcomer));
    assert_false(known(t, newcomer));
    k->fails = 4;
    knows(t, open_node(newcomer));
    assert_true(known(t, newcomer));
    assert_int_equal(k->fails, 0);
    for (newcomer = 62; known(t, newcomer); newcomer++) {
    }
    knows(t, open_node(newcomer));
    assert_false(known(t, newcomer));
    k->until = t->now; /* just now */
    knows(t, open_node(newcomer));
    assert_true(known(t, newcomer));
    for (uint32_t i = 101; i < 200; i++) { /* and an expired one to the next that comes, without a timeout between */
        t->now += 700 * SEC;
        knows(t, open_node(i));
        assert_true(known(t, i));
    }
    assert_int_equal(peers_count(t->p).known, 3);
    tested_free(t);
}

/* Who is tried: one without a link and not resting; the own site half the time; a kind that fails seldom. */
static void test_candidate(void **state) {
    (void)state;
    struct tested *t = started((struct peers_cfg){.known = 64});
    for (uint32_t i = 1; i <= 10; i++) knows(t, open_node(i));
    for (uint32_t i = 21; i <= 30; i++) knows(t, at_site(i, 1, false));
    const struct {
        uint32_t streak[2], extra;
        bool far;
        uint32_t least, most; /* of 1000, near */
    } cases[] = {
        {{0, 0}, 0, false, 400, 600}, {{3, 0}, 0, false, 400, 600}, {{4, 0}, 0, false, 820, 930},
        {{0, 4}, 0, false, 70, 180},  {{4, 4}, 0, false, 400, 600}, {{0, 0}, 1, false, 70, 180},
        {{4, 0}, 0, true, 0, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint32_t near = 0, times[32] = {0};
        memcpy(t->p->streak, cases[c].streak, sizeof t->p->streak);
        t->p->extra = cases[c].extra;
        for (int i = 0; i < 1000; i++) {
            uint32_t k = peers_candidate(t->p, cases[c].far, t->now);
            assert_true(k < t->p->known_n);
            near += peers_knowns(t->p)[k].near;
            struct moyai_node_id id;
            memcpy(id.b, peers_knowns(t->p)[k].id, 16);
            times[number(&id)]++;
        }
        assert_in_range(near, cases[c].least, cases[c].most);
        for (uint32_t i = 1; near && i <= 30; i++) /* all of a kind alike */
            if (i <= 10 || i > 20) assert_in_range(times[i], (i <= 10 ? 1000 - near : near) / 25, 1000 / 5);
    }
    t->p->streak[0] = t->p->streak[1] = 0;
    t->p->extra = 0;
    /* With one kind resting the other is taken; with both, until the first is ready. */
    for (uint32_t i = 0; i < t->p->known_n; i++)
        if (peers_knowns(t->p)[i].near) peers_knowns(t->p)[i].retry = t->now + i * SEC + SEC;
    for (int i = 0; i < 50; i++) assert_false(peers_knowns(t->p)[peers_candidate(t->p, false, t->now)].near);
    for (uint32_t i = 0; i < t->p->known_n; i++) peers_knowns(t->p)[i].retry = t->now + (i + 7) * SEC;
    assert_int_equal(peers_candidate(t->p, false, t->now), UINT32_MAX);
    assert_int_equal(t->p->dry_until, t->now + 7 * SEC);
    assert_int_equal(peers_candidate(t->p, false, t->now + 7 * SEC), 0);
    for (uint32_t i = 0; i < t->p->known_n; i++) peers_knowns(t->p)[i].until = t->now;
    assert_int_equal(peers_candidate(t->p, false, t->now + 100 * SEC), UINT32_MAX);
    assert_int_equal(t->p->dry_until, UINT64_MAX);
    tested_free(t);
}

/* Somebody has been lost for whom a session waits: some of those lost lately are called at once, before all others. */
static void test_again(void **state) {
    (void)state;
    struct tested *t = started((struct peers_cfg){.known = 16});
    for (uint32_t i = 1; i <= 8; i++) knows(t, open_node(i));
    struct peers_known *k = peers_knowns(t->p);
    uint32_t times[8] = {0};
    t->p->attempts = 2;
    for (uint32_t i = 0; i < 8; i++) {
        k[i].retry = t->now + 5 * SEC;
        k[i].lost = i < 4 ? t->now + SEC : t->now;
    }
    for (int round = 0; round < 200; round++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < 4; i++) k[i].retry = t->now + 5 * SEC;
        peers_again(t->p, t->now);
        for (uint32_t i = 0; i < 8; i++) {
            n += k[i].again;
            times[i] += k[i].again;
            assert_int_equal(k[i].retry, k[i].again ? 0 : t->now + 5 * SEC);
        }
        assert_int_equal(n, 2);
    }
    for (uint32_t i = 0; i < 8; i++) assert_in_range(times[i], i < 4 ? 60 : 0, i < 4 ? 140 : 0);
    assert_true(k[peers_candidate(t->p, false, t->now)].lost > t->now);
    assert_true(k[peers_candidate(t->p, false, t->now)].lost > t->now);
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(k[i].again, 0); /* once each */
    for (uint32_t i = 0; i < 8; i++) k[i].retry = t->now;
    k[6].again = k[5].again = 1;
    k[5].lost = t->now + 1; /* the other's time is over */
    assert_int_equal(peers_candidate(t->p, false, t->now), 5);
    k[5].again = 1;
    k[5].retry = t->now + 1;
    uint32_t fifth = 0;
    for (int i = 0; i < 50; i++) fifth += peers_candidate(t->p, false, t->now) == 5;
    assert_int_equal(fifth, 0);
    tested_free(t);
}

/* Who may be reached again is called soon, whatever was meant; never later for it. */
static void test_hasten(void **state) {
    (void)state;
    struct tested *t = started((struct peers_cfg){.known = 16});
    for (uint32_t i = 1; i <= 3; i++) knows(t, open_node(i));
    struct peers_known *k = peers_knowns(t->p);
    k[0].retry = t->now + 100 * SEC;
    k[1].retry = t->now + 1;
    k[2].retry = t->now;
    k[0].fails = 5;
    peers_hasten(t->p, t->now);
    assert_in_range(k[0].retry, t->now + SEC / 2, t->now + 3 * SEC / 2);
    assert_int_equal(k[1].retry, t->now + 1);
    assert_int_equal(k[2].retry, t->now);
    assert_int_equal(k[0].fails, 0);
    tested_free(t);
}

/* Whose links all lead to nodes of his own host rests for no longer than half a minute, be it from before or after. */
static void test_inward(void **state) {
    (void)state;
    struct tested *t = started((struct peers_cfg){.known = 16});
    struct peers_endpoint here = at_site(20, 1, false);
    struct peers_frame offer = {.kind = PEERS_OFFER, .what = PEERS_MESH, .n = 1, .e = {here}};
    for (uint32_t i = 1; i <= 4; i++) knows(t, open_node(i));
    joins(t, 70, 9, 1);
    assert_int_equal(step(t, EV(FRAME, .link = 71, .id = here.id, .frame = &offer, .here = true)), 0);
    assert_non_null(strstr(t->did, "use@71"));
    struct peers_known *k = peers_knowns(t->p);
    k[0].retry = t->now + 240 * SEC;
    k[1].retry = t->now + 1;
    k[2].retry = 0;
    peers_rest(t->p, k[3].id, 1000 * SEC, t->now);
    assert_true(k[3].retry >= t->now + 500 * SEC);
    assert_int_equal(step(t, EV(LOST, .link = 70)), 0);
    assert_in_range(k[0].retry, t->now + 15 * SEC, t->now + 45 * SEC);
    assert_in_range(k[3].retry, t->now + 15 * SEC, t->now + 45 * SEC);
    assert_int_equal(k[1].retry, t->now + 1);
    assert_int_equal(k[2].retry, 0);
    for (int i = 0; i < 8; i++) {
        peers_missed(t->p, k[2].id, false, t->now);
        assert_true(k[2].retry <= t->now + 45 * SEC);
    }
    joins(t, 72, 9, 1); /* then as ever */
    peers_rest(t->p, k[3].id, 1000 * SEC, t->now);
    assert_true(k[3].retry >= t->now + 500 * SEC);
    /* The end of one within the host changes nothing. */
    assert_int_equal(step(t, EV(LOST, .link = 71)), 0);
    assert_true(k[3].retry >= t->now + 500 * SEC);
    tested_free(t);
}

/* How often it looks in so long, when each time so many are named. */
static uint32_t looks_in(struct tested *t, moyai_ns span, uint32_t entries) {
    const moyai_ns end = t->now + span;
    uint32_t looks = 0;
    while (peers_deadline(t->p) < end) {
        t->did[0] = 0;
        wait_next(t);
        if (!strstr(t->did, "look")) continue;
        looks++;
        (void)step(t, EV(LOOKED, .entries = entries));
    }
    t->now = end;
    return looks;
}

/* Whose links do not lead beyond his host or site looks for more after 1, 2, 4 ... s, if few are there who do. */
static void test_inward_looks(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const bool here = seed % 2, many = seed % 4 < 2;
        struct tested *t = started((struct peers_cfg){.seed = seed});
        struct peers_endpoint near = at_site(20, here ? 0 : 1, false);
        struct peers_frame offer = {.kind = PEERS_OFFER, .what = PEERS_MESH, .n = 1, .e = {near}};
        assert_int_equal(step(t, EV(FRAME, .link = 71, .id = near.id, .frame = &offer, .here = here)), 0);
        assert_non_null(strstr(t->did, "use@71"));
        t->p->look_at = t->now; /* that of before, without links */
        const uint32_t looks = looks_in(t, 24 * SEC, many ? 400 : 7);
        if (many)
            assert_in_range(looks, 1, 2);
        else
            assert_in_range(looks, 4, 6);
        joins(t, 72, 9, 1); /* beyond it */
        t->p->look_at = t->now;
        assert_in_range(looks_in(t, 24 * SEC, 7), 1, 2);
        tested_free(t);
    }
}

/* Who had enough links, and called in vain whom he knows elsewhere, does not wait as long when he loses what he has. */
static void test_gap_ends(void **state) {
    (void)state;
    struct tested *t = started((struct peers_cfg){.known = 16, .degree = 4});
    for (uint32_t i = 1; i <= 4; i++) joins(t, i, i, 3);
    t->p->gap_at = t->now + 300 * SEC;
    t->p->looks = 6;
    for (uint32_t i = 4; i > 1; i--) {
        assert_int_equal(step(t, EV(LOST, .link = i)), 0);
        assert_in_range(t->p->gap_at, t->now, t->now + (i == 2 ? 1500 * MS : 45 * SEC));
    }
    assert_int_equal(t->p->looks, 6);
    t->p->gap_at = t->now + 300 * SEC;
    assert_int_equal(step(t, EV(LOST, .link = 1)), 0);
    assert_int_equal(t->p->looks, 0);
    t->did[0] = 0;
    wait_next(t);
    assert_non_null(strstr(t->did, "look"));
    assert_int_equal(step(t, EV(LOOKED, .entries = 9)), 0);
    assert_true(t->p->gap_at <= t->now + 5 * SEC);
    tested_free(t);
}

/* The gap between attempts that fail grows to a second with few links, to half a minute with more. */
static void test_gap(void **state) {
    (void)state;
    struct tested *t = started((struct peers_cfg){.known = 16, .degree = 7});
    const struct moyai_node_id nobody = node(9);
    const struct {
        uint32_t mesh, streak;
        moyai_ns most;
    } cases[] = {{0, 0, SEC}, {2, 4, SEC}, {3, 4, 30 * SEC}, {6, 4, 30 * SEC}, {7, 3, 30 * SEC}, {7, 4, 300 * SEC}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        t->p->mesh = cases[c].mesh;
        t->p->streak[0] = cases[c].streak;
        t->p->misses = 16;
        peers_missed(t->p, nobody.b, false, t->now);
        assert_in_range(t->p->gap_at, t->now + cases[c].most / 2, t->now + cases[c].most / 2 * 3);
    }
    t->p->mesh = 0;
    tested_free(t);
}

/* Call whoever it wants to, in vain; false: it calls nobody any more. */
static bool calls_in_vain(struct tested *t) {
    uint32_t before = t->dialled_n;
    while (t->dialled_n == before) {
        if (peers_deadline(t->p) == UINT64_MAX || t->now > 2000 * SEC) return false;
        wait_next(t);
        if (strstr(t->did, "look")) (void)step(t, EV(LOOKED, .entries = 1));
        t->did[0] = 0;
    }
    return step(t, EV(FAILED, .id = node(t->dialled[before]))) == 0;
}

/* Without a link all are called in turn, but first whose word is new. */
static void test_in_turn(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct tested *t = started((struct peers_cfg){.seed = seed});
        for (uint32_t i = 1; i <= 20; i++) knows(t, open_node(i));
        (void)step(t, EV(LOOKED, .entries = 20));
        for (int i = t->dialled_n ? step(t, EV(FAILED, .id = node(t->dialled[0]))) + 1 : 0; i < 20; i++) {
            t->p->streak[0] = 2;
            t->p->misses = 0; /* or every other call would be the newest's */
            assert_true(calls_in_vain(t));
        }
        for (uint32_t i = 0; i < 20; i++)
            for (uint32_t k = 0; k < i; k++) assert_int_not_equal(t->dialled[i], t->dialled[k]);
        struct peers_endpoint late = open_node(50), again = open_node(7);
        late.lifetime = 100;
        knows(t, late);
        t->p->misses = 0;
        assert_true(calls_in_vain(t));
        assert_int_equal(t->dialled[20], 50);
        for (uint32_t i = 0; i < t->p->known_n; i++) assert_int_equal(peers_knowns(t->p)[i].vain, 2);
        again.lifetime = 600 - (uint32_t)((t->now - 1000 * SEC) / SEC) + 9; /* the same word, by another way */
        knows(t, again);
        assert_int_equal(peers_find(t->p, again.id.b)->vain, 2);
        again.lifetime += 11;
        knows(t, again);
        for (uint32_t i = 0; i < t->p->known_n; i++) peers_knowns(t->p)[i].retry = 0;
        t->p->misses = 0;
        assert_true(calls_in_vain(t));
        assert_int_equal(t->dialled[21], 7);
        tested_free(t);
    }
}

/* It is in vain also if there is no place; a link ends the count. Who has a link calls any. */
static void test_vain(void **state) {
    (void)state;
    struct peers_endpoint e = open_node(1);
    uint32_t first[3] = {0};
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct tested *t = started((struct peers_cfg){.seed = seed});
        knows(t, e);
        peers_find(t->p, e.id.b)->vain = 3;
        (void)step(t, EV(LOOKED, .entries = 1));
        if (!t->dialled_n) wait_next(t);
        (void)step(t, EV(UP, .link = 1, .id = e.id));
        assert_int_equal(from(t, 1, &e, PEERS_REFUSE, 45, PEERS_FULL, 0), 0);
        assert_int_equal(peers_find(t->p, e.id.b)->vain, 4);
        joins(t, 2, 1, 3);
        assert_int_equal(peers_find(t->p, e.id.b)->vain, 0);
        for (uint32_t i = 2; i <= 3; i++) knows(t, open_node(i));
        peers_knowns(t->p)[1].vain = 3;
        t->dialled_n = 0;
        while (t->dialled_n == 0) wait_next(t);
        first[t->dialled[0] - 1]++;
        tested_free(t);
    }
    assert_true(first[1] >= 8 && first[2] >= 8);
}

/* Of many that were killed and left their word, the one who lives is found soon; and yet a thousand do not all begin
 * with the same. */
static void test_newest(void **state) {
    (void)state;
    uint32_t calls = 0, first = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct tested *t = started((struct peers_cfg){.seed = seed});
        for (uint32_t i = 1; i <= 40; i++) {
            struct peers_endpoint e = open_node(i);
            e.lifetime = i == 20 ? 590 : 200 + 5 * i;
            knows(t, e);
        }
        (void)step(t, EV(LOOKED, .entries = 40));
        if (t->dialled_n) (void)step(t, EV(FAILED, .id = node(t->dialled[0])));
        while (t->dialled_n == 0 || t->dialled[t->dialled_n - 1] != 20) assert_true(calls_in_vain(t));
        calls += t->dialled_n;
        first += t->dialled_n == 1;
        tested_free(t);
    }
    assert_true(calls <= 7 * 40); /* by chance alone 20 */
    assert_true(first <= 10);
}

/* Few calls find the one that others have connected to, among many that answer nothing; and that it is kept, however
 * many there are. */
static void test_reached(void **state) {
    (void)state;
    uint32_t calls = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct tested *t = started((struct peers_cfg){.seed = seed, .known = 32});
        struct peers_endpoint open = open_node(1000);
        open.reached = true;
        for (uint32_t i = 1; i <= 50; i++) knows(t, open_node(i));
        knows(t, open);
        for (uint32_t i = 51; i <= 300; i++) knows(t, open_node(i));
        assert_true(known(t, 1000));
        (void)step(t, EV(LOOKED, .entries = 301));
        const moyai_ns began = t->now;
        while (t->dialled_n == 0 || t->dialled[t->dialled_n - 1] != 1000) wait_next(t);
        assert_true(t->now < began + 12 * SEC);
        calls += t->dialled_n;
        tested_free(t);
    }
    assert_true(calls <= 3 * 40); /* every second one; by chance 12 and more */
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct tested *t = started((struct peers_cfg){.seed = seed, .known = 32});
        for (uint32_t i = 1; i <= 300; i++) knows(t, open_node(i));
        struct peers_endpoint e = at_site(0, 0, true);
        e.reached = true;
        for (uint32_t i = 301; i <= 600; i++) {
            e.id = node(i);
            knows(t, e);
        }
        uint32_t n = 0;
        for (uint32_t i = 0; i < t->p->known_n; i++) n += peers_knowns(t->p)[i].reached;
        assert_in_range(n, 13, 20); /* of 24 at first the half, then by chance as any */
        tested_free(t);
    }
}

/* In how many of 40 cases is the one that others have connected to called first, of 31 that are known? */
static uint32_t first_called(uint32_t links) {
    uint32_t n = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct tested *t = started((struct peers_cfg){.seed = seed, .degree = 15});
        for (uint32_t i = 1; i <= links; i++) joins(t, 2000 + i, 2000 + i, 3);
        struct peers_endpoint open = open_node(1000);
        open.reached = true;
        for (uint32_t i = 1; i <= 30; i++) knows(t, open_node(i));
        knows(t, open);
        (void)step(t, EV(LOOKED, .entries = 31));
        while (t->dialled_n == 0) wait_next(t);
        n += t->dialled[0] == 1000;
        tested_free(t);
    }
    return n;
}

/* Every second call is for such a one, and not every one: all would call the same. With more links none is. */
static void test_reached_first(void **state) {
    (void)state;
    assert_in_range(first_called(0), 10, 32);
    assert_in_range(first_called(4), 10, 32);
    assert_in_range(first_called(5), 0, 6);
}

/* How long until the next call, when the last one, of node 1, has failed and many before, and node 2 is as it says?
 * Times: 0: as they are; 1: now; 2: a moment later. */
static moyai_ns pause_beside(struct peers_known other, bool dialled, uint32_t links) {
    struct tested *t = started((struct peers_cfg){.degree = 15, .attempts = 2});
    for (uint32_t i = 1; i <= links; i++) joins(t, 2000 + i, 2000 + i, 3);
    knows(t, open_node(1));
    if (dialled) knows(t, open_node(2));
    (void)step(t, EV(LOOKED, .entries = 2));
    while (t->dialled_n < (dialled ? 2 : 1)) wait_next(t);
    if (!dialled) knows(t, open_node(2));
    struct peers_known *k = peers_find(t->p, node(2).b);
    k->vain = other.vain;
    k->retry = other.retry ? t->now + other.retry - 1 : 0;
    if (other.until) k->until = t->p->expire_at = t->now + other.until - 1;
    t->p->misses = 8;
    const moyai_ns now = t->now;
    assert_int_equal(step(t, EV(FAILED, .id = node(1))), 0);
    const moyai_ns pause = t->p->gap_at - now;
    tested_free(t);
    return pause;
}

/* The pause does not grow while somebody can be called whom nobody has called in vain. */
static void test_pause(void **state) {
    (void)state;
    const moyai_ns least = 500 * MS, most = 150 * MS; /* of a long one; of a short one */
    assert_true(pause_beside((struct peers_known){0}, false, 0) <= most);
    assert_true(pause_beside((struct peers_known){.retry = 1}, false, 0) <= most); /* just now it may be called again */
    assert_true(pause_beside((struct peers_known){.retry = 2}, false, 0) >= least);
    assert_true(pause_beside((struct peers_known){.vain = 1}, false, 0) >= least);
    assert_true(pause_beside((struct peers_known){.until = 1}, false, 0) >= least);
    assert_true(pause_beside((struct peers_known){.until = 2}, false, 0) <= most);
    assert_true(pause_beside((struct peers_known){0}, true, 0) >= least);
    assert_true(pause_beside((struct peers_known){0}, false, 1) >= least);
}

/* So often in a row: once it counts more than whose word was renewed. */
static void test_in_vain(void **state) {
    (void)state;
    static const uint32_t counts[][2] = {{0, 2}, {1, 2}, {2, 3}, {3, 4}, {254, 255}, {255, 255}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct tested *t = started((struct peers_cfg){0});
        knows(t, open_node(1));
        (void)step(t, EV(LOOKED, .entries = 1));
        while (t->dialled_n == 0) wait_next(t);
        peers_find(t->p, node(1).b)->vain = counts[i][0];
        assert_int_equal(step(t, EV(FAILED, .id = node(1))), 0);
        assert_int_equal(peers_find(t->p, node(1).b)->vain, counts[i][1]);
        tested_free(t);
    }
}

/* Without a link no time is lost over those that cannot be reached, as long as there are others. */
static void test_no_gap(void **state) {
    (void)state;
    struct tested *t = started((struct peers_cfg){0});
    for (uint32_t i = 1; i <= 30; i++) knows(t, open_node(i));
    (void)step(t, EV(LOOKED, .entries = 30));
    const moyai_ns began = t->now;
    for (int i = t->dialled_n ? step(t, EV(FAILED, .id = node(t->dialled[0]))) + 1 : 0; i < 30; i++)
        assert_true(calls_in_vain(t));
    assert_true(t->now < began + 5 * SEC);
    for (uint32_t i = 0; i < 30; i++)
        for (uint32_t k = 0; k < i; k++) assert_int_not_equal(t->dialled[i], t->dialled[k]);
    const moyai_ns then = t->now;
    for (int i = 0; i < 4; i++) assert_true(calls_in_vain(t)); /* again */
    assert_true(t->now > then + SEC);
    tested_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_again),        cmocka_unit_test(test_hasten),        cmocka_unit_test(test_inward),
        cmocka_unit_test(test_inward_looks), cmocka_unit_test(test_gap_ends),      cmocka_unit_test(test_gap),
        cmocka_unit_test(test_which),        cmocka_unit_test(test_newer),         cmocka_unit_test(test_shares),
        cmocka_unit_test(test_fair),         cmocka_unit_test(test_give_way),      cmocka_unit_test(test_candidate),
        cmocka_unit_test(test_found),        cmocka_unit_test(test_found_full),    cmocka_unit_test(test_earlier_lives),
        cmocka_unit_test(test_in_turn),      cmocka_unit_test(test_newest),        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_vain),         cmocka_unit_test(test_reached),       cmocka_unit_test(test_no_gap),
        cmocka_unit_test(test_renewed),      cmocka_unit_test(test_reached_first), cmocka_unit_test(test_pause),
        cmocka_unit_test(test_in_vain),
    };
    return cmocka_run_group_tests_name("peers known", tests, NULL, NULL);
}
