/* SPDX-License-Identifier: Apache-2.0 */
/* In which order leavers go that are neighbours (doc/spec/09-leave.md, 11.11). */
#include "overlay/stay_testkit.h"

#define BLOCK_ALL() memset(w.blocked, 1, sizeof w.blocked)

/* Which of them it waits for that have not finished. */
static uint32_t behind(uint32_t i) {
    struct moyai_node_id ids[NODES];
    const uint32_t n = stay_behind(w.s[i], ids, NODES);
    uint32_t set = 0;
    for (uint32_t k = 0; k < n; k++) set |= 1u << ids[k].b[0];
    return set;
}

/* A gateway has nothing to finish, those behind it have: it goes after them, in whatever order they are told. */
static void test_gate(void **state) {
    (void)state;
    static const uint32_t orders[6][3] = {{0, 3, 4}, {0, 4, 3}, {3, 0, 4}, {4, 0, 3}, {3, 4, 0}, {4, 3, 0}};
    for (uint32_t turn = 0; turn < 12; turn++) {
        world_new(5, 0);
        BLOCK_ALL();
        link_up(0, 1);
        link_up(1, 2);
        for (uint32_t i = 3; i < 5; i++) link_up(0, i);
        link_up(3, 4);
        for (uint32_t i = 0; i < 3; i++) {
            leave(orders[turn / 2][i]);
            run(turn % 2 * MS);
        }
        run(10000 * MS);
        STAYS(0);
        assert_int_equal(stay_cut_off(w.s[0], NULL, 0), 0);
        assert_int_equal(behind(0), 1u << 3 | 1u << 4);
        for (uint32_t i = 3; i < 5; i++) {
            MAY_GO(i);
            assert_int_equal(behind(i), 0);
        }
        assert_int_equal(step(3, (struct stay_event){.kind = STAY_EV_DONE}), 0);
        run(0);
        assert_int_equal(behind(0), 1u << 4); /* it may still want something of the grid, but has begun nothing */
        STAYS(0);
        go(4);
        run(1000 * MS);
        STAYS(0);
        go(3);
        run(1000 * MS);
        MAY_GO(0);
        world_free();
    }
}

/* One behind the other, the last first; a second gate is as near as the first, and neither waits for the other. */
static void test_row(void **state) {
    (void)state;
    world_new(7, 0);
    BLOCK_ALL();
    for (uint32_t i = 1; i < 4; i++) link_up(i - 1, i); /* 0 stays */
    link_up(0, 4);
    link_up(4, 2);
    link_up(4, 1);
    link_up(0, 5);
    link_up(5, 6); /* stays as well */
    for (uint32_t i = 1; i < 5; i++) leave(i);
    run(10000 * MS);
    STAYS(1);
    STAYS(2);
    STAYS(4);
    assert_int_equal(behind(1), 1u << 2);
    assert_int_equal(behind(2), 1u << 3);
    assert_int_equal(behind(4), 1u << 2);
    MAY_GO(3);
    go(3);
    run(1000 * MS);
    MAY_GO(2);
    STAYS(1);
    go(2);
    run(1000 * MS);
    MAY_GO(1);
    MAY_GO(4);
    world_free();
}

static void watch(uint32_t at, bool yes) {
    assert_int_equal(step(at, (struct stay_event){.kind = STAY_EV_WATCHED, .yes = yes}), 0);
}

/* Processes of a gateway leave: what only they hold together keeps the last of them, which is the one that ends the
 * others, or by which somebody looks, or the one with the greatest id. */
static void test_same_links(void **state) {
    (void)state;
    for (uint32_t turn = 0; turn < 8; turn++) {
        const uint32_t ends = turn % 4; /* 3: none */
        const bool watched = turn / 4;
        world_new(7, 0);
        BLOCK_ALL();
        for (uint32_t i = 0; i < 3; i++) {
            for (uint32_t k = i + 1; k < 3; k++) link_up(i, k);
            for (uint32_t k = 3; k < 7; k++) link_up(i, k);
        }
        link_up(3, 4);
        link_up(5, 6);
        if (watched) watch(1, true);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(step(i, (struct stay_event){.kind = STAY_EV_LEAVE, .yes = i == ends}), 0);
        run(0);
        const uint32_t last = ends < 3 ? ends : watched ? 1 : 2;
        for (uint32_t i = 0; i < 3; i++) assert_int_equal(goes(i), i != last);
        for (uint32_t i = 0; i < 3; i++)
            if (i != last) go(i);
        run(10000 * MS);
        assert_true(whole() && !goes(last));
        assert_int_equal(stay_cut_off(w.s[last], NULL, 0), 2);
        world_free();
    }
    world_new(5, 0);
    BLOCK_ALL();
    link_up(0, 1);
    for (uint32_t k = 2; k < 5; k++) link_up(1, k);
    link_up(0, 2);
    link_up(0, 3); /* 4 has a link to 1 only, which so cannot go before 0 */
    leave(1);
    leave(0);
    run(10000 * MS);
    assert_true(goes(0) && !goes(1));
    world_free();
}

/* Those who go in any order of those that may: whoever is there is connected with all others, at any time. The last. */
static uint32_t go_in_turn(struct moyai_rng *r, uint64_t seed, uint32_t leavers) {
    uint32_t left = 0, last = NODES;
    for (uint32_t rounds = 0; left < leavers; rounds++) {
        if (rounds == 200) fail_msg("seed %u: %u of %u wait for each other", (unsigned)seed, leavers - left, leavers);
        run(500 * MS);
        for (uint32_t k = 0, at = (uint32_t)rng_below(r, NODES); k < NODES; k++) {
            const uint32_t i = (at + k) % NODES;
            if (!w.s[i] || w.gone[i] || !goes(i) || rng_below(r, 2)) continue;
            go(last = i);
            left++;
            if (rng_below(r, 2)) run(0);
            if (!whole()) fail_msg("seed %u: one is cut off when %u goes", (unsigned)seed, i);
        }
    }
    return last;
}

static uint32_t random_world(struct moyai_rng *r, uint64_t seed, bool open) {
    rng_seed(r, seed);
    const uint32_t n = 2 + (uint32_t)rng_below(r, NODES - 1);
    world_new(n, open ? UINT32_MAX : 0);
    if (!open) BLOCK_ALL();
    for (uint32_t i = 1; i < n; i++) link_up(i, (uint32_t)rng_below(r, i));
    for (uint32_t i = (uint32_t)rng_below(r, n); i > 0; i--) {
        const uint32_t a = (uint32_t)rng_below(r, n), b = (uint32_t)rng_below(r, n);
        if (a != b) link_up(a, b);
    }
    return n;
}

/* Where all leave the last is one of them; nobody can be connected to, so that each way there was counts. */
static void test_all(void **state) {
    (void)state;
    struct moyai_rng r;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        const uint32_t n = random_world(&r, seed, false);
        for (uint32_t i = 0; i < n; i++) {
            leave(i);
            if (rng_below(&r, 2)) run((moyai_ns)rng_below(&r, 200) * MS);
        }
        go_in_turn(&r, seed, n);
        world_free();
    }
}

/* Somebody looks at the grid by one or two of them, who may have come later, or go: the last is one by which he does,
 * so that he hears of all. */
static void test_watched(void **state) {
    (void)state;
    struct moyai_rng r;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        const uint32_t n = random_world(&r, seed, false);
        const uint32_t by = (uint32_t)rng_below(&r, n), other = (uint32_t)rng_below(&r, n), how = seed % 4;
        if (how != 1) watch(by, true);
        if (how > 1) watch(other, true);
        for (uint32_t i = 0; i < n; i++) {
            leave(i);
            if (rng_below(&r, 2)) run((moyai_ns)rng_below(&r, 200) * MS);
        }
        if (how == 1) watch(by, true);
        run(1000 * MS);
        if (how == 3 && other != by) watch(other, false);
        const uint32_t last = go_in_turn(&r, seed, n);
        if (last != by && (how != 2 || last != other)) fail_msg("seed %u: %u is the last", (unsigned)seed, last);
        world_free();
    }
}

/* Runs end after their processes, whoever is farther: nobody waits in vain for his own run. */
static void test_ended(void **state) {
    (void)state;
    struct moyai_rng r;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        const uint32_t n = random_world(&r, seed, false), stays = seed % 2 ? (uint32_t)rng_below(&r, n) : NODES;
        uint32_t runs[NODES], left = 0; /* runs[i]: whose process it is; itself: nobody's */
        for (uint32_t i = 0; i < n; i++) {
            runs[i] = i % 4 ? i / 4 * 4 : i;
            w.cfg[i].ended = runs[i] != i;
            memset(w.s[i], 0, w.size);
            assert_int_equal(stay_init(w.s[i], &w.cfg[i]), 0);
            for (uint32_t k = 0; k < n; k++) w.linked[i][k] = false;
        }
        for (uint32_t i = 1; i < n; i++) link_up(i, runs[i] != i ? runs[i] : (uint32_t)rng_below(&r, i));
        for (uint32_t i = (uint32_t)rng_below(&r, n); i > 0; i--) {
            const uint32_t a = (uint32_t)rng_below(&r, n), b = (uint32_t)rng_below(&r, n);
            if (a != b) link_up(a, b);
        }
        for (uint32_t i = 0; i < n; i++) {
            if (i == stays) continue;
            left++;
            assert_int_equal(step(i, (struct stay_event){.kind = STAY_EV_LEAVE, .yes = runs[i] == i}), 0);
            if (rng_below(&r, 2)) run((moyai_ns)rng_below(&r, 200) * MS);
        }
        for (uint32_t rounds = 0; left > 0; rounds++) {
            uint32_t went = 0;
            run(500 * MS);
            for (uint32_t i = 0; i < n; i++) {
                bool has = false; /* a process still */
                for (uint32_t k = 0; k < n; k++) has |= k != i && k != stays && runs[k] == i && !w.gone[k];
                if (i == stays || w.gone[i] || has || !goes(i) || rng_below(&r, 2)) continue;
                go(i);
                went++;
            }
            left -= went;
            if (rounds == 100) fail_msg("seed %u: %u of %u wait in vain", (unsigned)seed, left, n);
        }
        world_free();
    }
}

/* And where some stay. */
static void test_some(void **state) {
    (void)state;
    struct moyai_rng r;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        const uint32_t n = random_world(&r, seed, true);
        uint32_t leavers = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (rng_below(&r, 3) == 0) continue;
            leave(i);
            leavers++;
            if (rng_below(&r, 2)) run((moyai_ns)rng_below(&r, 200) * MS);
        }
        go_in_turn(&r, seed, leavers);
        world_free();
    }
}

/* The only one that stays dies: that it was there is not handed round for ever, and all go after all. */
static void test_root_dies(void **state) {
    (void)state;
    struct moyai_rng r;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        const uint32_t n = random_world(&r, seed, false);
        const uint32_t root = (uint32_t)rng_below(&r, n);
        for (uint32_t i = 0; i < n; i++)
            if (i != root) leave(i);
        run(1000 * MS);
        const uint32_t frames = w.frames;
        for (uint32_t i = 0; i < n; i++) {
            if (i == root) continue;
            assert_int_equal(w.s[i]->place_key, 0);
            assert_true(w.s[i]->place_links < n);
        }
        go(root);
        run(1000 * MS);
        assert_true(w.frames - frames < 40 * ORDER_LINKS * NODES);
        for (uint32_t i = 0; i < n; i++)
            if (i != root) assert_true(w.s[i]->place_key != 0);
        if (!whole()) {
            world_free();
            continue;
        }
        go_in_turn(&r, seed, n - 1);
        world_free();
    }
}

/* All of a mesh, each linked to all others: what was said of the last that stayed is not said again and again. */
static void test_mesh(void **state) {
    (void)state;
    for (uint32_t turn = 0; turn < 2; turn++) {
        world_new(NODES, 0);
        BLOCK_ALL();
        for (uint32_t i = 0; i < NODES; i++)
            for (uint32_t k = 0; k < i; k++) link_up(i, k);
        for (uint32_t i = 0; i < NODES; i++) {
            leave(i);
            if (turn) run(MS);
        }
        run(5000 * MS);
        assert_true(w.frames < 40 * NODES * NODES);
        uint32_t may = 0;
        for (uint32_t i = 0; i < NODES; i++) {
            may += stay_may_go(w.s[i], w.now);
            assert_true(w.s[i]->place_links <= 2);
            assert_int_equal(w.s[i]->place_key, w.s[0]->place_key);
        }
        assert_int_equal(may, NODES - 1); /* all but the root */
        world_free();
    }
}

static void hear_place(uint32_t at, uint32_t from, uint64_t key, uint32_t word) {
    static uint32_t number;
    struct peers_frame f = {.kind = PEERS_LEAVE, .count = ++number, .n = 1};
    f.e[0].id = node(from);
    f.e[0].site = key;
    f.e[0].lifetime = word;
    assert_int_equal(step(at, (struct stay_event){.kind = STAY_EV_FRAME, .link = number_of(at, from), .frame = &f}), 0);
}

/* By whom a place is: the nearest, and of those as near the one that it is by; what is said of it may be out of bounds.
 */
static void test_places(void **state) {
    (void)state;
    world_new(5, 0);
    for (uint32_t i = 1; i < 5; i++) link_up(0, i);
    struct stay *s = w.s[0];
    for (uint32_t i = 1; i < 5; i++) w.deaf[i] = true;
    leave(0);
    for (uint32_t i = 1; i < 4; i++) hear_place(0, i, 0, 4);
    assert_int_equal(s->place_key, 0);
    assert_int_equal(s->place_links, 1); /* 4 stays */
    hear_place(0, 4, 0, ORDER_LINKS);    /* too far for others to be by it */
    assert_true(s->place_key != 0);
    assert_int_equal(s->place_at, w.now + s->quiet);
    assert_false(stay_may_go(s, w.now));
    assert_true(stay_deadline(s) <= s->place_at);
    run(300 * MS); /* then it is by one of them */
    assert_int_equal(s->place_at, 0);
    assert_int_equal(s->place_key, 0);
    assert_int_equal(s->place_links, 5);
    const uint64_t by = s->place_by;
    for (uint32_t i = 1; i < 4; i++) {
        hear_place(0, i, 0, 4);
        assert_int_equal(s->place_by, by);
    }
    hear_place(0, 3, 0, 3);
    hear_place(0, 2, 0, 3);
    assert_int_equal(s->place_by, number_of(0, 3));
    assert_int_equal(s->place_links, 4);
    hear_place(0, 1, 0, 3);
    assert_int_equal(s->place_by, number_of(0, 3));
    hear_place(0, 1, 0, 2);
    assert_int_equal(s->place_by, number_of(0, 1));
    hear_place(0, 1, 0, 3); /* not nearer than it has been itself: as 2 and 3 */
    assert_true(s->place_key != 0);
    run(300 * MS);
    assert_int_equal(s->place_links, 4);
    /* Who is farther is waited for, and is behind, if it has not finished; and is placed. */
    const struct stay_link *l = stay_link_of(s, number_of(0, 4));
    assert_true(stay_waits_for(s, l));
    assert_int_equal(behind(0), 1u << 4);
    hear_place(0, 4, 0, ORDER_LINKS | ORDER_DONE);
    assert_true(stay_waits_for(s, l));
    assert_int_equal(behind(0), 0);
    assert_true(stay_is_placed(s, node(4).b));
    for (uint32_t word = 0; word < 2 * ORDER_DONE; word++) {
        const uint32_t links = word & (ORDER_DONE - 1);
        if (links > 0 && links < 4) continue; /* that would be nearer */
        hear_place(0, 4, 0, word);
        assert_int_equal(stay_is_placed(s, node(4).b), links > 0 && links <= ORDER_LINKS);
        assert_int_equal(stay_waits_for(s, l), links > s->place_links && links <= ORDER_LINKS);
    }
    assert_true(stay_is_placed(s, node(9).b)); /* no neighbour */
    hear_place(0, 4, 5, 1);                    /* of another root */
    assert_true(stay_waits_for(s, l));
    assert_int_equal(behind(0), 1u << 4);
    struct moyai_node_id one[2];
    memset(one, 0, sizeof one);
    assert_int_equal(stay_behind(s, one, 0), 1);
    assert_int_equal(one[0].b[0], 0);
    for (uint32_t i = 1; i < 4; i++) hear_place(0, i, 0, 9); /* without a root that stays nobody is cut off */
    assert_int_equal(behind(0), 0);
    hear_place(0, 4, 5, ORDER_LINKS + 1); /* that is no place */
    assert_false(stay_waits_for(s, l));
    for (uint32_t i = 1; i < 5; i++) hear_place(0, i, 0, ORDER_LINKS);
    run(1000 * MS);
    assert_int_equal(s->place_by, 0); /* there would be none for the next */
    world_free();
}

/* Of a leaver that says no place nothing is known, and one that does not answer may be stopped: neither is waited for.
 */
static void test_not_waited_for(void **state) {
    (void)state;
    for (int stopped = 0; stopped < 2; stopped++) {
        world_new(3, 0);
        link_up(0, 1);
        link_up(0, 2);
        if (stopped) {
            leave(2);
            run(0);
            w.deaf[2] = true;
            hear_place(0, 2, 0, 3);
        } else {
            const struct peers_frame f = {.kind = PEERS_LEAVE, .count = 1};
            w.deaf[2] = true;
            assert_int_equal(step(0, (struct stay_event){.kind = STAY_EV_FRAME, .link = number_of(0, 2), .frame = &f}),
                             0);
        }
        leave(0);
        run(1000 * MS);
        STAYS(0);
        assert_int_equal(stay_unanswered(w.s[0], NULL, 0), 1);
        run(9000 * MS);
        assert_int_equal(stay_unanswered(w.s[0], NULL, 0), 0);
        assert_int_equal(behind(0), 0);
        MAY_GO(0);
        world_free();
    }
}

static void hear_ready(uint32_t at, uint32_t from) {
    const struct stay_link *l = stay_link_of(w.s[at], number_of(at, from));
    const struct peers_frame f = {.kind = PEERS_READY, .count = l->said};
    assert_int_equal(step(at, (struct stay_event){.kind = STAY_EV_FRAME, .link = number_of(at, from), .frame = &f}), 0);
}

static void begin_deaf(bool ended) {
    world_new(3, 0);
    BLOCK_ALL();
    w.cfg[0].ended = ended;
    memset(w.s[0], 0, w.size);
    assert_int_equal(stay_init(w.s[0], &w.cfg[0]), 0);
    for (uint32_t i = 1; i < 3; i++) link_up(0, i);
    for (uint32_t i = 1; i < 3; i++) w.deaf[i] = true;
}

/* Before whom a leaver may go that holds nobody together alone: one that leaves, has said its place, and has answered
 * what this one has said last. And who waits for whom that is farther: all but those that are ended by another, for who
 * ends others. */
static void test_who_is_looked_at(void **state) {
    (void)state;
    for (uint32_t ended = 0; ended < 2; ended++) {
        begin_deaf(ended);
        struct stay *s = w.s[0];
        const struct stay_link *l = stay_link_of(s, number_of(0, 1));
        const uint64_t to = number_of(0, 1);
        hear_place(0, 1, 0, 1);
        assert_false(stay_may_go_before(s, to, w.now)); /* this one stays */
        assert_false(stay_waits_for(s, l));
        leave(0);
        assert_int_equal(s->place_key, 0); /* 2 stays */
        assert_false(stay_may_go_before(s, to, w.now));
        hear_ready(0, 1);
        assert_true(stay_may_go_before(s, to, w.now));
        watch(0, true); /* perhaps it says at the same time that it is not watched any more */
        watch(0, false);
        assert_false(stay_may_go_before(s, to, w.now));
        hear_ready(0, 1);
        assert_true(stay_may_go_before(s, to, w.now));
        assert_false(stay_may_go_before(s, number_of(0, 2), w.now));
        assert_false(stay_may_go_before(s, 1000, w.now));
        hear_place(0, 1, 0, ORDER_LINKS + 1); /* none */
        assert_false(stay_may_go_before(s, to, w.now));
        hear_place(0, 1, 0, 2);
        assert_true(stay_waits_for(s, l));
        assert_false(stay_may_go_before(s, to, w.now));
        hear_place(0, 1, 0, 2 | ORDER_ENDS);
        assert_int_equal(stay_waits_for(s, l), !ended);
        assert_int_equal(stay_may_go_before(s, to, w.now), ended);
        hear_place(0, 1, 0, 1);
        watch(0, true);
        run(6000 * MS);
        assert_true(l->mute);
        hear_ready(0, 1);
        assert_false(l->mute);
        world_free();
    }
    begin_deaf(false);
    const uint64_t to = number_of(0, 1);
    leave(0);
    for (uint32_t i = 1; i < 3; i++) hear_place(0, i, 0, ORDER_LINKS);
    for (uint32_t i = 1; i < 3; i++) hear_place(0, i, 1, 1);
    hear_ready(0, 1);
    assert_false(stay_may_go_before(w.s[0], to, w.now)); /* it is not known yet who is farther */
    run(400 * MS);
    hear_ready(0, 1);
    assert_true(stay_may_go_before(w.s[0], to, w.now));
    assert_int_equal(w.s[0]->place_key, 1);
    watch(0, true); /* the own key is no less than 1: the place remains */
    assert_int_equal(w.s[0]->place_key, 1);
    run(5050 * MS);
    assert_true(w.s[0]->place_key != 1); /* who does not answer gives no place, until it is told something new */
    world_free();
}

/* Two whose way is the other's, as both have heard when they said so. */
static void test_crossing(void **state) {
    (void)state;
    world_new(4, 0);
    BLOCK_ALL();
    link_up(0, 2);
    link_up(0, 1);
    link_up(1, 3);
    leave(0);
    leave(1);
    run(1000 * MS);
    for (uint32_t i = 2; i < 4; i++) leave(i); /* both lose their neighbour that stays, at once */
    run(1000 * MS);
    uint32_t may = 0;
    for (uint32_t i = 0; i < 4; i++) may += stay_may_go(w.s[i], w.now);
    assert_true(may > 0);
    struct moyai_rng r;
    rng_seed(&r, 1);
    go_in_turn(&r, 1, 4);
    world_free();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mesh),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_gate),
        cmocka_unit_test(test_row),
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_some),
        cmocka_unit_test(test_root_dies),
        cmocka_unit_test(test_not_waited_for),
        cmocka_unit_test(test_crossing),
        cmocka_unit_test(test_same_links),
        cmocka_unit_test(test_watched),
        cmocka_unit_test(test_ended),
        cmocka_unit_test(test_who_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
