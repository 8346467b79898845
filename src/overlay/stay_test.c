/* SPDX-License-Identifier: Apache-2.0 */
/* The stay machine: stories, and rules one by one (doc/spec/09-leave.md, 11). */
#include "overlay/stay_testkit.h"

/* A star's hub goes: the others make links to their next. */
static void test_hub(void **state) {
    (void)state;
    world_new(6, 0x3f);
    for (uint32_t i = 1; i < 6; i++) link_up(0, i);
    STAYS(0);
    leave(0);
    STAYS(0);
    run(1 * MS);
    MAY_GO(0);
    assert_int_equal(stay_cut_off(w.s[0], NULL, 0), 0);
    assert_int_equal(w.s[0]->least.weight, 0); /* no part is weighed where there is but one */
    for (uint32_t i = 1; i < 6; i++) {
        assert_int_equal(w.leaves[i], 1);
        assert_true(w.linked[i][i % 5 + 1]);
    }
    go(0);
    assert_true(whole());
    for (uint32_t i = 1; i < 6; i++) assert_int_equal(w.s[i]->needs_n, 0);
    world_free();
}

/* Links that there are, and ways that are known, count at once. */
static void test_nothing_to_do(void **state) {
    (void)state;
    for (int ways = 0; ways < 2; ways++) {
        world_new(5, 0x1f);
        for (uint32_t i = 0; i < 5; i++)
            for (uint32_t k = 0; k < i; k++)
                if (!ways || i == 4 || k == 0) link_up(i, k); /* or by 4 */
        w.ways = ways;
        leave(0);
        run(0);
        MAY_GO(0);
        assert_int_equal(w.connects, 0);
        assert_int_equal(w.searches, 0);
        go(0);
        assert_true(whole());
        world_free();
    }
}

static void test_one_neighbour(void **state) {
    (void)state;
    world_new(2, 3);
    STAYS(0);
    leave(0);
    MAY_GO(0); /* alone */
    link_up(0, 1);
    STAYS(0);
    run(0);
    MAY_GO(0);
    world_free();
}

/* Only one of two can be connected to: it waits for the other. */
static void test_one_way(void **state) {
    (void)state;
    world_new(3, 2);
    link_up(0, 1);
    link_up(0, 2);
    leave(0);
    run(0);
    MAY_GO(0);
    assert_true(w.linked[1][2]);
    assert_int_equal(w.connects, 1);
    world_free();
}

/* A gateway: 1, 2 and 6, behind these, are open, and 3, 4 and 5, which are one behind the other, can be linked to
 * nobody: to as many. */
static void a_gateway(void) {
    world_new(7, 0x47);
    link_up(0, 1);
    link_up(0, 2);
    link_up(1, 2);
    link_up(0, 3);
    link_up(0, 4);
    link_up(3, 5);
    link_up(4, 5);
    link_up(1, 6);
    for (uint32_t i = 3; i < 6; i++)
        for (uint32_t k = 0; k < 7; k++) w.blocked[i][k] = true;
}

static void test_gateway(void **state) {
    (void)state;
    struct moyai_node_id cut[4];
    a_gateway();
    leave(0);
    run(10000 * MS);
    STAYS(0);
    assert_int_equal(stay_cut_off(w.s[0], cut, 4), 2); /* not 1 or 2; and they have a way to each other */
    assert_int_equal(cut[0].b[0] + cut[1].b[0], 3 + 4);
    memset(cut, 0, sizeof cut);
    assert_int_equal(stay_dependants(w.s[0], cut, 1, &cut[3]), 2); /* but one is asked for */
    assert_true(cut[0].b[0] >= 3 && cut[3].b[0] < 3);
    assert_int_equal(cut[1].b[0], 0);
    assert_true(w.searches > 0);
    w.blocked[5][2] = false; /* another way for them appears, and is found */
    link_up(5, 2);
    run(10000 * MS);
    MAY_GO(0);
    go(0);
    assert_true(whole());
    world_free();
}

/* Those that depend on it leave as well, and go before. */
static void test_dependants_leave(void **state) {
    (void)state;
    a_gateway();
    leave(0);
    run(10000 * MS);
    leave(3);
    leave(4);
    run(10000 * MS);
    STAYS(0);
    assert_false(stay_may_go(w.s[3], w.now) && stay_may_go(w.s[4], w.now)); /* on whom 5 depends */
    leave(5);
    run(10000 * MS);
    STAYS(3);
    for (uint32_t i = 5; i > 2; i--) { /* behind the others */
        MAY_GO(i);
        go(i);
        run(1000 * MS);
    }
    MAY_GO(0);
    go(0);
    assert_true(whole());
    world_free();
}

static void go_by_force(void) {
    for (uint32_t rounds = 0; rounds < 60; rounds++) {
        run(1000 * MS);
        for (uint32_t i = 0; i < NODES; i++) {
            if (!w.s[i] || w.gone[i] || !stay_leaving(w.s[i])) continue;
            (void)tell_dependants(i);
            if (goes(i) && !waits_for_told(i)) go(i);
        }
    }
}

/* All of the part that is cut off, also who is no neighbour of the leaver; and before it. */
static void test_force(void **state) {
    (void)state;
    memset(&force, 0, sizeof force);
    a_gateway();
    leave_by_force(0);
    go_by_force();
    for (uint32_t i = 0; i < 7; i++) assert_int_equal(w.gone[i], i != 1 && i != 2 && i != 6);
    assert_int_equal(force.by[3], 1);
    assert_int_equal(force.by[4], 1);
    assert_true(force.by[5] == 4 || force.by[5] == 5);
    assert_true(whole());
    world_free();
}

/* One of those finds a way when it is told of somebody of the others: then it stays, and so do these. */
static void test_force_finds_a_way(void **state) {
    (void)state;
    memset(&force, 0, sizeof force);
    a_gateway();
    for (uint32_t k = 0; k < 7; k++) w.blocked[5][k] = false;
    leave_by_force(0);
    go_by_force();
    for (uint32_t i = 0; i < 7; i++) assert_int_equal(w.gone[i], i == 0 || i == 3 || i == 4);
    assert_true(whole());
    world_free();
}

/* A grid of five, of which a gateway is linked to one, and a cluster of three behind it, of which it is linked to all,
 * and which others have reached: the larger goes on; also where there is a second gateway between, whatever ids are. */
static void test_larger_stays(void **state) {
    (void)state;
    for (uint32_t turn = 0; turn < 4; turn++) {
        const uint32_t gates = 1 + turn % 2, main = turn < 2 ? 2 : 5, cluster = turn < 2 ? 7 : 2;
        memset(&force, 0, sizeof force);
        world_new(10, 0);
        for (uint32_t i = 0; i < 3; i++) w.reached[cluster + i] = true, w.cfg[cluster + i].accepts = true;
        memset(w.blocked, 1, sizeof w.blocked);
        for (uint32_t i = 1; i < 5; i++) link_up(main, main + i);
        if (gates > 1) link_up(0, 1);
        link_up(0, main);
        for (uint32_t i = 0; i < 3; i++) link_up(gates - 1, cluster + i);
        if (gates == 1) go(1);
        for (uint32_t i = 0; i < gates; i++) leave_by_force(i);
        go_by_force();
        for (uint32_t i = 2; i < 10; i++) assert_int_equal(w.gone[i], i >= cluster && i < cluster + 3);
        world_free();
    }
}

/* Who is told so meanwhile is no neighbour of who stays: c - g - x - y, and c has another neighbour. The part with the
 * most goes on, whatever the ids are, and however many leavers are between. */
static void test_force_row(void **state) {
    (void)state;
    for (uint32_t turn = 0; turn < 12; turn++) {
        const uint32_t n = turn % 2 ? 6 : 5, y = turn / 2 % 2 ? 0 : n - 1, c = y ? 0 : n - 1;
        memset(&force, 0, sizeof force);
        world_new(n, 0);
        for (uint32_t i = 1; i < n; i++) link_up(i - 1, i); /* c, c's, leavers, y, or the reverse */
        link_up(c, y ? 2 : n - 3);
        for (uint32_t i = 2; i < n - 1; i++) {
            leave_by_force(y ? i : n - 1 - i);
            run(turn / 4 * 1000 * MS);
        }
        go_by_force();
        for (uint32_t i = 0; i < n; i++) assert_int_equal(w.gone[i], i != c && i != (y ? 1 : n - 2));
        assert_int_equal(force.by[y], 1 + (y ? n - 2 : 1));
        assert_int_equal(force.told, 1);
        world_free();
    }
}

/* Without force they stay as long as they may, and each says who is cut off: y, or one who leaves on the way to it. */
static void test_row_waits(void **state) {
    (void)state;
    struct moyai_node_id cut;
    for (uint32_t y = 0; y < 5; y += 4) {
        world_new(5, 0);
        for (uint32_t i = 1; i < 5; i++) link_up(i - 1, i);
        link_up(4 - y, 2);
        leave(2);
        leave(y ? 3 : 1);
        run(10000 * MS);
        STAYS(2);
        STAYS(y ? 3 : 1);
        assert_int_equal(stay_cut_off(w.s[2], &cut, 1), 1);
        assert_int_equal(cut.b[0], y ? 3 : 1);
        assert_int_equal(stay_cut_off(w.s[y ? 3 : 1], &cut, 1), 1);
        assert_int_equal(cut.b[0], y);
        world_free();
    }
}

static void random_world(struct moyai_rng *r, uint32_t *n) {
    memset(&force, 0, sizeof force);
    *n = 3 + (uint32_t)rng_below(r, NODES - 2);
    world_new(*n, 0); /* nobody can be connected to */
    for (uint32_t i = 1; i < *n; i++) link_up(i, (uint32_t)rng_below(r, i));
    for (uint32_t i = (uint32_t)rng_below(r, *n / 2 + 1); i > 0; i--) {
        const uint32_t a = (uint32_t)rng_below(r, *n), b = (uint32_t)rng_below(r, *n);
        if (a != b) link_up(a, b);
    }
}

/* Parts are made of who is there when nodes leave whom all of them hang together by, whatever the ids are: all but one
 * of them leave, each as a whole. */
static void leave_random(uint64_t seed, uint32_t most, bool in_a_row, uint32_t *told) {
    struct moyai_rng r;
    uint32_t n, parts = 0, size[NODES] = {0}, whole_parts = 0, leaver[NODES];
    bool seen[NODES] = {false}, part[NODES][NODES] = {{false}};
    rng_seed(&r, seed);
    random_world(&r, &n);
    for (uint32_t i = 0; i < most; i++) { /* one beside the other, or anywhere */
        uint32_t one = (uint32_t)rng_below(&r, n);
        for (uint32_t k = 0; k < n && i > 0 && in_a_row && !w.linked[leaver[i - 1]][one]; k++) one = (one + 1) % n;
        leaver[i] = one;
        seen[one] = true;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (seen[i]) continue;
        bool here[NODES];
        memcpy(here, seen, sizeof here);
        size[parts] = reach(i, here);
        for (uint32_t k = 0; k < n; k++) part[parts][k] = here[k] && !seen[k];
        memcpy(seen, here, sizeof seen);
        parts++;
    }
    for (uint32_t i = 0; i < most; i++) {
        if (!force.forced[leaver[i]]) leave_by_force(leaver[i]);
        if (rng_below(&r, 2)) run((moyai_ns)rng_below(&r, 200) * MS);
    }
    go_by_force();
    for (uint32_t p = 0; p < parts; p++) {
        uint32_t left = 0;
        for (uint32_t k = 0; k < n; k++) left += part[p][k] && w.gone[k];
        if (left != 0 && left != size[p] && in_a_row)
            fail_msg("seed %u: %u of %u have left", (unsigned)seed, left, size[p]);
        whole_parts += left == 0;
    }
    for (uint32_t i = 0; i < most; i++)
        if (!w.gone[leaver[i]]) fail_msg("seed %u: %u stays", (unsigned)seed, leaver[i]);
    if ((parts > 0 && whole_parts != 1 && in_a_row) || !whole())
        fail_msg("seed %u: %u of %u parts stay", (unsigned)seed, whole_parts, parts);
    *told += force.told;
    world_free();
}

static void test_force_random(void **state) {
    (void)state;
    uint32_t told = 0;
    for (uint64_t seed = 1; seed <= 500; seed++) leave_random(seed, 1, true, &told);
    assert_true(told > 200);
    told = 0;
    for (uint32_t seed = 1; seed <= 1000; seed++) leave_random(seed, 2 + seed % 3, seed % 2, &told);
    assert_true(told > 200);
}

/* Who has not answered may be cut off, or not: that is not known before all have. */
static void test_answered(void **state) {
    (void)state;
    a_gateway();
    assert_false(stay_answered(w.s[0]));
    leave(0);
    assert_false(stay_answered(w.s[0]));
    run(10000 * MS);
    assert_true(stay_answered(w.s[0]));
    world_free();
}

/* Who is stopped is not waited for. */
static void test_deaf(void **state) {
    (void)state;
    world_new(4, 15);
    for (uint32_t i = 1; i < 4; i++) link_up(0, i);
    w.deaf[2] = true;
    leave(0);
    run(1000 * MS);
    STAYS(0);
    run(9000 * MS);
    MAY_GO(0);
    assert_true(w.linked[1][3]);
    world_free();
}

/* A chain of leavers between those that stay; told in any order, each goes when it may. */
static void test_chain(void **state) {
    (void)state;
    for (uint32_t turn = 0; turn < 24; turn++) {
        world_new(8, 0xff);
        for (uint32_t i = 0; i < 5; i++) link_up(i, i + 1);
        link_up(2, 6);
        link_up(3, 7);
        uint32_t order[4] = {1, 2, 3, 4};
        for (uint32_t i = 0, t = turn; i < 4; i++) {
            const uint32_t at = i + t % (4 - i), x = order[at];
            t /= 4 - i;
            order[at] = order[i];
            order[i] = x;
        }
        for (uint32_t i = 0; i < 4; i++) {
            leave(order[i]);
            if (turn % 2) run(1);
        }
        for (uint32_t left = 4, rounds = 0; left > 0; rounds++) {
            assert_true(rounds < 20);
            run(1000 * MS);
            for (uint32_t i = 1; i < 5; i++)
                if (!w.gone[i] && stay_may_go(w.s[i], w.now)) {
                    go(i);
                    left--;
                }
        }
        run(20000 * MS);
        if (!whole()) fail_msg("those that stay are not connected, order %u", turn);
        world_free();
    }
}

/* Random graphs, leavers told at random moments. */
static void test_random(void **state) {
    (void)state;
    struct moyai_rng r;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        rng_seed(&r, seed);
        const uint32_t n = 3 + (uint32_t)rng_below(&r, NODES - 2);
        world_new(n, rng_below(&r, 2) ? UINT32_MAX : (uint32_t)rng_next(&r) | 1);
        w.ways = rng_below(&r, 2);
        for (uint32_t i = 1; i < n; i++) link_up(i, (uint32_t)rng_below(&r, i));
        for (uint32_t i = (uint32_t)rng_below(&r, n); i > 0; i--) {
            const uint32_t a = (uint32_t)rng_below(&r, n), b = (uint32_t)rng_below(&r, n);
            if (a != b) link_up(a, b);
        }
        const uint32_t most = (uint32_t)rng_below(&r, n);
        /* Where two cannot be linked, one by whom a leaver's neighbours would have come to the others may leave before
         * they have: one at a time. */
        bool all_open = true;
        for (uint32_t k = 0; k < n; k++) all_open = all_open && w.cfg[k].accepts;
        uint32_t told = 0, left = 0;
        for (uint32_t rounds = 0; rounds < 200 && (left < most || rounds < 20); rounds++) {
            const uint32_t i = (uint32_t)rng_below(&r, n);
            if (told < most && !w.gone[i] && !stay_leaving(w.s[i]) && (all_open || told == left)) {
                leave(i);
                told++;
            }
            run(rng_below(&r, 2) ? 0 : 1000 * MS);
            for (uint32_t k = 0; k < n; k++)
                if (!w.gone[k] && goes(k)) {
                    go(k);
                    left++;
                }
        }
        run(20000 * MS);
        if (left == told && !whole()) fail_msg("seed %u: those that stay are not connected", (unsigned)seed);
        if (all_open && left < told) fail_msg("seed %u: %u leavers are kept", (unsigned)seed, told - left);
        world_free();
    }
}

/* Two gates leave that each have counted as the way past the other: what was found by one that leaves then is not there
 * any more, and that is said at once. */
static void test_way_leaves(void **state) {
    (void)state;
    for (int crossing = 0; crossing < 2; crossing++) {
        world_new(5, 0);
        for (uint32_t i = 0; i < 4; i++) link_up(i / 2, 2 + i % 2);
        link_up(2, 4); /* who is asked */
        w.ways = true;
        leave(0);
        if (!crossing) run(0);
        assert_int_equal(stay_may_go(w.s[0], w.now), !crossing);
        leave(1);
        run(0);
        STAYS(0);
        STAYS(1);
        assert_false(stay_answered(w.s[0]));
        run(10000 * MS);
        for (uint32_t i = 0; i < 2; i++) {
            STAYS(i);
            assert_true(stay_answered(w.s[i]));
            assert_int_equal(stay_cut_off(w.s[i], NULL, 0), 1);
        }
        world_free();
    }
}

/* A link that was the way ends; another way is found, or there is none. */
static void test_way_ends(void **state) {
    (void)state;
    for (int other = 0; other < 2; other++) {
        world_new(4, 0);
        for (uint32_t i = 1; i < 3; i++) link_up(0, i);
        link_up(1, 2);
        if (other) link_up(1, 3), link_up(2, 3);
        leave(0);
        run(0);
        MAY_GO(0);
        link_down(1, 2);
        run(0);
        assert_int_equal(stay_may_go(w.s[0], w.now), other); /* a search finds it in no time */
        run(10000 * MS);
        assert_int_equal(stay_may_go(w.s[0], w.now), other);
        assert_int_equal(stay_cut_off(w.s[0], NULL, 0), !other);
        world_free();
    }
}

/* The same of a link over which the way was, be it known of or found: it may have been given up for a newcomer. */
static void test_over_it_ends(void **state) {
    (void)state;
    for (int k = 0; k < 8; k++) {
        const bool other = k & 1, at_2 = k & 2;
        world_new(5, 0);
        w.ways = k & 4;
        for (uint32_t i = 1; i < 3; i++) {
            link_up(0, i);
            link_up(i, 3);
            if (other) link_up(i, 4);
        }
        leave(0);
        run(0);
        MAY_GO(0);
        link_down(at_2 ? 2 : 1, 3);
        run(0);
        assert_int_equal(stay_may_go(w.s[0], w.now), other);
        run(10000 * MS);
        assert_int_equal(stay_may_go(w.s[0], w.now), other);
        assert_int_equal(stay_cut_off(w.s[0], NULL, 0), !other);
        world_free();
    }
}

/* One has a way to the other, but not the reverse: what it has found may be over one that leaves. */
static void test_contrary(void **state) {
    (void)state;
    for (int lacks = 0; lacks < 2; lacks++) {
        world_new(3, 0);
        link_up(0, 1);
        link_up(0, 2);
        leave(0);
        for (uint32_t i = 1; i < 3; i++) {
            struct peers_frame f = {.kind = PEERS_READY, .count = w.s[0]->number - 2 + i, .n = i == 2 && lacks};
            f.e[0].id = node(1);
            f.e[0].lifetime = READY_LACK;
            assert_int_equal(step(0, (struct stay_event){.kind = STAY_EV_FRAME, .link = number_of(0, i), .frame = &f}),
                             0);
        }
        assert_int_equal(stay_may_go(w.s[0], w.now), !lacks);
        assert_int_equal(stay_cut_off(w.s[0], NULL, 0), lacks);
        world_free();
    }
}

static void hear_leave(uint32_t from, uint32_t number, uint32_t named, uint32_t lifetime) {
    struct peers_frame f = {.kind = PEERS_LEAVE, .count = number, .n = named > 0};
    f.e[0].id = node(named);
    f.e[0].lifetime = lifetime;
    assert_int_equal(step(0, (struct stay_event){.kind = STAY_EV_FRAME, .link = number_of(0, from), .frame = &f}), 0);
}

/* Of whom a leaver has its least, and for how long: until that one names another, or has not known that this one
 * leaves. */
static void test_least(void **state) {
    (void)state;
    world_new(4, 0);
    for (uint32_t i = 1; i < 4; i++) link_up(0, i);
    leave(0);
    hear_leave(2, 1, 9, NAMED_STAYS);
    assert_int_equal(w.s[0]->least.id[0], 1); /* the first of its own */
    assert_int_equal(w.s[0]->parent, 0);
    hear_leave(2, 2, 9, NAMED_STAYS + 2 * 5); /* but it weighs more */
    assert_int_equal(w.s[0]->least.id[0], 9);
    assert_int_equal(w.s[0]->least.weight, 5);
    assert_int_equal(w.s[0]->parent, number_of(0, 2));
    assert_false(w.s[0]->least.last);
    hear_leave(2, 3, 9, NAMED_STAYS + 2 * 5 + 1);
    assert_true(w.s[0]->least.last);
    hear_leave(3, 1, 8, NAMED_STAYS + 2 * 5); /* as much, and a lower id */
    assert_int_equal(w.s[0]->least.id[0], 8);
    assert_int_equal(w.s[0]->parent, number_of(0, 3));
    assert_false(w.s[0]->least.last);
    hear_leave(3, 2, 7, NAMED_STAYS); /* less: it has thought better of it */
    assert_int_equal(w.s[0]->least.id[0], 8);
    assert_int_equal(w.s[0]->parent, 0);
    world_free();
}

/* What a leaver that goes has named is for others to name, who pass it on if none of their own neighbours stays. */
static void test_orphans(void **state) {
    (void)state;
    world_new(4, 0);
    for (uint32_t i = 2; i < 4; i++) link_up(0, i);
    leave(0);
    hear_leave(2, 1, 9, NAMED_STAYS);
    hear_leave(3, 1, 7, NAMED_STAYS);
    run(0);
    assert_int_equal(w.s[3]->needs_n, 1);
    link_down(0, 2);
    run(0);
    assert_int_equal(w.s[3]->needs_n, 2);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(stay_needs_of(w.s[3])[i].orphan, stay_needs_of(w.s[3])[i].id[0] == 9);
    world_free();
}

/* It does not go while its own have no way to one that another has named who has gone, unless that one has gone, too.
 */
static void test_orphan_lacks(void **state) {
    (void)state;
    world_new(3, 0);
    for (uint32_t i = 1; i < 3; i++) link_up(0, i);
    leave(0);
    hear_leave(2, 1, 9, NAMED_STAYS);
    link_down(0, 2);
    run(10000 * MS);
    STAYS(0);
    assert_int_equal(step(1, (struct stay_event){.kind = STAY_EV_GONE, .id = node(9)}), 0);
    run(10000 * MS);
    MAY_GO(0);
    world_free();
}

static void many_go(uint32_t n) {
    struct stay_event ev = {.kind = STAY_EV_GONE};
    for (uint64_t i = 1; i <= n; i++) {
        const uint64_t x = i * 0xbf58476d1ce4e5b9u;
        memcpy(ev.id.b, &x, 8);
        memcpy(ev.id.b + 8, &i, 8);
        assert_int_equal(step(0, ev), 0);
    }
}

/* However many go after it, who has gone does not come back as an orphan that nobody has a way to; nor, be they some
 * hundreds, as what one has said that has not heard of it. Whom several have named is one orphan. */
static void test_orphan_of_many(void **state) {
    (void)state;
    world_new(5, 0);
    for (uint32_t i = 1; i < 5; i++) link_up(0, i);
    link_up(1, 4); /* who leaves by the script only */
    leave(0);
    for (uint32_t i = 2; i < 4; i++) {
        hear_leave(i, 1, 9, NAMED_STAYS);
        link_down(0, i);
    }
    hear_leave(4, 1, 0, NAMED_STAYS);
    run(10000 * MS);
    STAYS(0);
    assert_int_equal(w.s[0]->needs_n, 1);
    assert_int_equal(step(0, (struct stay_event){.kind = STAY_EV_GONE, .id = node(9)}), 0);
    many_go(5000);
    run(10000 * MS);
    MAY_GO(0);
    assert_int_equal(w.s[0]->needs_n, 0);
    assert_int_equal(step(0, (struct stay_event){.kind = STAY_EV_GONE, .id = node(8)}), 0);
    many_go(500);
    hear_leave(4, 2, 8, NAMED_STAYS);
    link_down(0, 4);
    run(10000 * MS);
    MAY_GO(0);
    world_free();
}

/* Parts are compared by how large they are, also with those that are no neighbours, then by who was reached and who
 * accepts, but not who is stopped: 2 and 3 against 1, and then 1 and 5. */
static void test_weight(void **state) {
    (void)state;
    const uint32_t least[4] = {2, 1, 2, 1}, weight[4] = {2 * 25 + 2, 2 * 25 + 5 + 1, 2 * 25 + 2, 25 + 1};
    for (int turn = 0; turn < 4; turn++) {
        world_new(6, 0x3e);
        memset(w.blocked, 1, sizeof w.blocked);
        w.reached[1] = turn < 2;
        w.reached[3] = turn == 3;
        w.deaf[3] = turn == 3;
        for (uint32_t i = 1; i < 5; i++) link_up(0, i);
        if (turn < 3) link_up(2, 3);
        if (turn == 1 || turn == 2) link_up(1, 5);
        leave(0);
        run(20000 * MS);
        assert_int_equal(w.s[0]->least.id[0], least[turn]);
        assert_int_equal(w.s[0]->least.weight, weight[turn]);
        world_free();
    }
}

/* What is said fits into a lifetime, however large the parts are, and of large ones the order of size counts. */
static void test_weight_of_many(void **state) {
    (void)state;
    const uint32_t says[][3] = {/* of 1 and 2, and who goes on */
                                {63, 64, 2}, {64, 100, 1}, {127, 128, 2}, {130, 200, 1},
                                {0, 1, 1},   {0, 2, 2},    {3600, 70, 1}, {3599, 3600, 1}};
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        world_new(3, 0);
        for (uint32_t k = 1; k < 3; k++) link_up(0, k);
        leave(0);
        for (uint32_t round = 0; round < 2; round++)
            for (uint32_t k = 1; k < 3; k++) {
                struct stay_link *l = stay_link_of(w.s[0], number_of(0, k));
                struct peers_frame f = {.kind = PEERS_READY, .count = l->said, .n = says[i][k - 1] ? 2 : 1};
                f.e[0].id = node(3 - k);
                f.e[0].lifetime = READY_LACK;
                f.e[1].id = node(k);
                f.e[1].lifetime = says[i][k - 1];
                assert_int_equal(
                    step(0, (struct stay_event){.kind = STAY_EV_FRAME, .link = number_of(0, k), .frame = &f}), 0);
            }
        assert_int_equal(w.s[0]->least.id[0], says[i][2]);
        assert_true(NAMED_STAYS + 2 * w.s[0]->least.weight + 1 <= PEERS_LIFETIME);
        world_free();
    }
}

#define MANY 40u

/* To the only one that can be connected to no more are named than there is room for in a word. */
static void test_many(void **state) {
    (void)state;
    const struct stay_cfg c = {.self = node(200), .seed = 1, .links = MANY};
    const size_t n = (stay_size(&c) + 15) & ~(size_t)15;
    struct stay *s = aligned_alloc(16, n);
    struct stay_effect fx;
    uint32_t words = 0, named = 0;
    assert_non_null(s);
    memset(s, 0, n);
    assert_int_equal(stay_init(s, &c), 0);
    for (uint32_t i = 1; i <= MANY; i++) {
        const struct peers_endpoint e = {.id = node(i), .accepts = i == 1, .site = i};
        const struct stay_event ev = {.kind = STAY_EV_UP, .now = MS, .link = i, .endpoint = &e};
        assert_int_equal(stay_step(s, &ev), 0);
        assert_false(stay_next(s, &fx));
    }
    const struct stay_event ev = {.kind = STAY_EV_LEAVE, .now = MS};
    assert_int_equal(stay_step(s, &ev), 0);
    while (stay_next(s, &fx)) {
        assert_int_equal(fx.kind, STAY_FX_SEND);
        words++;
        if (fx.link == 1) named = fx.frame.n;
        if (fx.link != 1) assert_int_equal(fx.frame.n, 1);
    }
    assert_int_equal(words, MANY);
    assert_int_equal(named, PEERS_ENTRIES);
    assert_int_equal(s->edges_n, PEERS_ENTRIES + MANY - 1);
    assert_true(stay_check(s, NULL));
    free(s);
}

static void test_refused(void **state) {
    (void)state;
    world_new(3, 7);
    link_up(0, 1);
    struct peers_frame f = {.kind = PEERS_LEAVE};
    const struct peers_endpoint self = endpoint(0), e = endpoint(1);
    struct stay_event ev = {.kind = STAY_EV_FRAME, .link = number_of(0, 1), .frame = &f};
    assert_int_equal(step(0, ev), MOYAI_EPROTO); /* without number */
    f.kind = PEERS_READY;
    assert_int_equal(step(0, ev), MOYAI_EPROTO);
    f.count = 1;
    assert_int_equal(step(0, ev), 0); /* late, or of nothing */
    f.kind = PEERS_SEARCH;
    f.n = 1;
    f.e[0] = endpoint(2);
    f.e[0].site = 0;
    assert_int_equal(step(0, ev), MOYAI_EPROTO);
    f.kind = PEERS_BYE;
    assert_int_equal(step(0, ev), MOYAI_EINVAL);
    ev.link = 99;
    f.kind = PEERS_READY;
    assert_int_equal(step(0, ev), MOYAI_EINVAL);
    assert_int_equal(step(0, (struct stay_event){.kind = STAY_EV_UP, .link = 5, .endpoint = &self}), MOYAI_EINVAL);
    assert_int_equal(step(0, (struct stay_event){.kind = STAY_EV_UP, .link = 5, .endpoint = &e}), MOYAI_EINVAL);
    assert_int_equal(step(0, (struct stay_event){.kind = STAY_EV_DOWN, .link = 99}), MOYAI_EINVAL);
    leave(0);
    assert_int_equal(step(0, (struct stay_event){.kind = STAY_EV_LEAVE}), MOYAI_EINVAL);
    assert_int_equal(step(0, (struct stay_event){.kind = STAY_EV_LEAVE, .id = node(2)}), 0);
    assert_int_equal(step(0, (struct stay_event){.kind = STAY_EV_LEAVE, .id = node(2)}), MOYAI_EINVAL);
    run(0);
    world_free();
    const struct stay_cfg wrong[] = {
        {.self = {{0}}}, {.self = {{1}}, .text = PEERS_TEXT + 1}, {.self = {{1}}, .reply = -1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_int_equal(stay_size(&wrong[i]), 0);
}

/* However many are under way, each search is passed on once: else those that come round are begun anew. */
static void test_searches_once(void **state) {
    (void)state;
    world_new(4, 0);
    for (uint32_t i = 1; i < 4; i++) link_up(0, i);
    struct peers_frame f = {.kind = PEERS_SEARCH, .n = 1, .count = 5};
    f.e[0].id = node(9); /* whom nobody knows */
    for (uint32_t round = 0; round < 2; round++) {
        w.searches = 0;
        for (uint32_t nonce = 1; nonce <= 500; nonce++) {
            f.e[0].site = nonce;
            assert_int_equal(
                step(0, (struct stay_event){.kind = STAY_EV_FRAME, .link = number_of(0, 1 + nonce % 3), .frame = &f}),
                0);
        }
        assert_int_equal(w.searches, round ? 0 : 2 * 500); /* to the two others */
    }
    world_free();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hub),
        cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_one_neighbour),
        cmocka_unit_test(test_one_way),
        cmocka_unit_test(test_gateway),
        cmocka_unit_test(test_dependants_leave),
        cmocka_unit_test(test_deaf),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_force),
        cmocka_unit_test(test_force_finds_a_way),
        cmocka_unit_test(test_force_random),
        cmocka_unit_test(test_answered),
        cmocka_unit_test(test_force_row),
        cmocka_unit_test(test_row_waits),
        cmocka_unit_test(test_way_leaves),
        cmocka_unit_test(test_way_ends),
        cmocka_unit_test(test_over_it_ends),
        cmocka_unit_test(test_contrary),
        cmocka_unit_test(test_least),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_orphans),
        cmocka_unit_test(test_orphan_lacks),
        cmocka_unit_test(test_weight),
        cmocka_unit_test(test_larger_stays),
        cmocka_unit_test(test_weight_of_many),
        cmocka_unit_test(test_orphan_of_many),
        cmocka_unit_test(test_searches_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
