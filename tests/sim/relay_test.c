/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of paths through relays, in the simulated world. */
#include "sim/paths.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#define KIB 1024u
#define MIB (1024u * 1024u)

struct story {
    struct world w;
    struct trace t;
    struct paths p;
};

static struct story *begin(struct paths_cfg cfg) {
    struct story *s = sim_alloc(sizeof *s);
    if (!cfg.messages) cfg.messages = 64;
    if (!cfg.delay) cfg.delay = MOYAI_MS;
    if (!cfg.route) cfg.route = 1;
    if (!cfg.relay.links) cfg.relay.links = 2 * cfg.nodes;
    if (!cfg.relay.pointers) cfg.relay.pointers = cfg.nodes * cfg.nodes + 16;
    if (!cfg.session.entries) cfg.session.entries = 64;
    world_init(&s->w, 5, false);
    trace_init(&s->t, false, NULL);
    paths_init(&s->p, &s->w, &s->t, &cfg);
    return s;
}

static void end(struct story *s) {
    if (s->p.broken) fail_msg("%s", s->p.why.text);
    world_done(&s->w);
    paths_done(&s->p);
    trace_done(&s->t);
    free(s);
}

static void run_ms(struct story *s, uint64_t ms) {
    (void)world_run(&s->w, NULL, NULL, s->w.now + ms * (uint64_t)MOYAI_MS);
    if (s->p.broken) fail_msg("%s", s->p.why.text);
}

static bool settled(void *p) {
    return ((const struct paths *)p)->broken || paths_settled(p);
}

static void run_all(struct story *s, uint64_t ms) {
    bool ok = world_run(&s->w, settled, &s->p, s->w.now + ms * (uint64_t)MOYAI_MS);
    if (s->p.broken) fail_msg("%s", s->p.why.text);
    assert_true(ok);
}

static void chain(struct story *s) {
    for (uint32_t i = 1; i < s->p.cfg.nodes; i++) paths_link(&s->p, i - 1, i, 0);
}

static void star(struct story *s, uint64_t rate) {
    for (uint32_t i = 1; i < s->p.cfg.nodes; i++) paths_link(&s->p, 0, i, rate);
}

/* No round trip is spent on a path: with 1 ms a link and 3 relays a message is there after OPEN, ACCEPT, DATA: 12 ms.
 */
static void test_opening(void **state) {
    (void)state;
    struct story *s = begin((struct paths_cfg){.nodes = 5});
    chain(s);
    paths_give(&s->p, 0, 4, 1000);
    run_all(s, 100);
    assert_int_equal(s->p.node[4].ends[0].whole, 1);
    assert_true(s->p.node[4].ends[0].last - MOYAI_SEC < 13 * (uint64_t)MOYAI_MS);
    assert_int_equal(s->p.arrivals, 1);
    assert_int_equal(relay_count(s->p.node[2].r).passing, 1);
    end(s);
}

/* A relay crashes under traffic: the session goes on by the other, and nothing is lost or doubled (which is checked).
 */
static void test_crash(void **state) {
    (void)state;
    struct story *s = begin((struct paths_cfg){.nodes = 4, .bytes_a_second = 10 * MIB, .relay.most = 64 * KIB});
    paths_link(&s->p, 0, 1, 0);
    paths_link(&s->p, 1, 3, 0);
    paths_link(&s->p, 0, 2, 0);
    paths_link(&s->p, 2, 3, 0);
    for (int i = 0; i < 8; i++) paths_give(&s->p, 0, 3, 100000);
    for (int i = 0; i < 8; i++) paths_give(&s->p, 3, 0, 5000);
    run_ms(s, 30);
    uint32_t used = relay_count(s->p.node[1].r).passing ? 1 : 2;
    moyai_ns at = s->w.now;
    paths_crash(&s->p, used, false);
    run_ms(s, 45); /* each end notices within 10 ms, and resumes */
    assert_true(s->p.node[3].ends[0].last > at + 10 * (uint64_t)MOYAI_MS);
    run_all(s, 2000);
    assert_int_equal(s->p.node[3].ends[0].whole, 8);
    assert_int_equal(s->p.node[0].ends[3].whole, 8);
    end(s);
}

/* A relay leaves: paths are changed before they break, so that nothing is ever down. */
static void test_leave(void **state) {
    (void)state;
    struct story *s = begin((struct paths_cfg){.nodes = 4, .bytes_a_second = 10 * MIB, .relay.most = 64 * KIB});
    paths_link(&s->p, 0, 1, 0);
    paths_link(&s->p, 1, 3, 0);
    paths_link(&s->p, 0, 2, 0);
    paths_link(&s->p, 2, 3, 0);
    for (int i = 0; i < 8; i++) paths_give(&s->p, 0, 3, 100000);
    run_ms(s, 30);
    uint32_t used = relay_count(s->p.node[1].r).passing ? 1 : 2;
    paths_withdraw(&s->p, used);
    run_all(s, 2000);
    assert_int_equal(s->p.node[3].ends[0].whole, 8);
    assert_int_equal(relay_count(s->p.node[used].r).passing, 0);
    assert_int_equal(relay_count(s->p.node[3 - used].r).passing, 1);
    end(s);
}

/* Everybody talks to everybody over relays that have nothing to lend, on links of little room: it goes on. */
static void all_to_all(uint32_t kind, uint32_t nodes) {
    struct story *s = begin((struct paths_cfg){.nodes = nodes,
                                               .bytes_a_second = 50 * MIB,
                                               .delay = 100 * MOYAI_US,
                                               .relay = {.memory = 1, .most = RELAY_OWN},
                                               .session = {.window = 32 * KIB}});
    for (uint32_t i = 1; i < nodes; i++) paths_link(&s->p, kind == 1 ? 0 : i - 1, i, 0);
    if (kind == 2) paths_link(&s->p, 0, nodes - 1, 0);
    for (uint32_t i = 0; i < nodes; i++)
        for (uint32_t j = 0; j < nodes; j++)
            if (i != j) {
                paths_give(&s->p, i, j, 60000);
                paths_give(&s->p, i, j, 4096);
            }
    run_all(s, 60000);
    for (uint32_t i = 0; i < nodes; i++)
        for (uint32_t j = 0; j < nodes; j++)
            if (i != j) assert_int_equal(s->p.node[j].ends[i].whole, 2);
    assert_true(s->p.most_held <= 2 * (uint64_t)RELAY_OWN * nodes * nodes);
    assert_null(paths_rest(&s->p));
    end(s);
}

static void test_all_to_all(void **state) {
    (void)state;
    for (uint32_t kind = 0; kind < 3; kind++) all_to_all(kind, 7);
}

/* A reader that has stopped, and one behind a slow link, hold up nobody else at the same relay, in neither direction.
 */
static void test_stopped(void **state) {
    (void)state;
    struct story *s = begin((struct paths_cfg){.nodes = 5, .bytes_a_second = 50 * MIB, .relay.memory = 256 * KIB});
    for (uint32_t i = 1; i < 4; i++) paths_link(&s->p, 0, i, 0);
    paths_link(&s->p, 0, 4, 20 * KIB);
    paths_give(&s->p, 1, 2, 100); /* node 2 will read nothing large of 1 */
    run_ms(s, 20);
    paths_stop(&s->p, 2, 1, true);
    paths_give(&s->p, 1, 2, 8 * MIB);
    paths_give(&s->p, 1, 4, 8 * MIB);
    run_ms(s, 300);
    assert_true(s->p.node[2].ends[1].bytes <= 100 + 4096);
    uint64_t before = s->p.node[4].ends[1].bytes;
    moyai_ns start = s->w.now;
    paths_give(&s->p, 1, 3, 2 * MIB); /* by the same links, past both */
    paths_give(&s->p, 3, 2, 1000);
    paths_give(&s->p, 1, 2, 1000); /* even to the one that reads nothing: its small messages are taken */
    run_ms(s, 300);
    assert_int_equal(s->p.node[3].ends[1].whole, 1);
    assert_true(s->p.node[3].ends[1].last - start < 150 * (uint64_t)MOYAI_MS); /* 40 ms if alone */
    assert_int_equal(s->p.node[2].ends[3].whole, 1);
    assert_int_equal(s->p.node[2].ends[1].whole, 2);
    assert_true(s->p.node[4].ends[1].bytes - before < 20 * KIB);
    assert_true(relay_count(s->p.node[0].r).held <= 2 * (uint64_t)RELAY_OWN * 5 + 256 * KIB);
    end(s);
}

/* A small call past a transfer: 2.5 MB/s, so 256 KiB take 105 ms; it is to take no more than that and 2 ms a hop. */
static void test_small_first(void **state) {
    (void)state;
    struct story *s = begin((struct paths_cfg){.nodes = 5, .bytes_a_second = 100 * MIB, .delay = 500 * MOYAI_US});
    for (uint32_t i = 1; i < 4; i++) paths_link(&s->p, 0, i, 0);
    paths_link(&s->p, 0, 4, 2500000);
    paths_give(&s->p, 1, 4, 64);
    paths_give(&s->p, 2, 4, 64);
    run_ms(s, 50);
    paths_give(&s->p, 1, 4, 32 * MIB);
    run_ms(s, 500);
    assert_true(s->p.node[4].ends[1].bytes > 900 * KIB);
    for (int i = 0; i < 5; i++) {
        moyai_ns start = s->w.now;
        paths_give(&s->p, 2, 4, 64);
        run_ms(s, 60);
        assert_int_equal(s->p.node[4].ends[2].whole, 2 + i);
        assert_true(s->p.node[4].ends[2].last - start < 12 * (uint64_t)MOYAI_MS); /* what is in the link: 6.5 ms */
    }
    end(s);
}

/* 1,024 paths through one relay share 4 MiB: all get on alike, and the memory holds. */
static void test_fair(void **state) {
    (void)state;
    const uint32_t half = 32;
    struct story *s = begin((struct paths_cfg){.nodes = 1 + 2 * half,
                                               .bytes_a_second = 40 * MIB,
                                               .unchecked = true,
                                               .relay = {.memory = 4 * MIB, .pointers = 2000},
                                               .session = {.entries = 4, .streams = 4, .window = MIB}});
    star(s, 4 * MIB);
    for (uint32_t i = 1; i <= half; i++)
        for (uint32_t j = 1; j <= half; j++) paths_give(&s->p, i, half + j, 16 * MIB);
    uint64_t held = 0, most = 0, least = UINT64_MAX;
    struct moyai_error why;
    for (int k = 0; k < 30; k++) {
        run_ms(s, 50);
        struct relay_count c = relay_count(s->p.node[0].r);
        if (c.held > held) held = c.held;
        assert_true(c.lent <= 4 * MIB);
        if (!relay_check(s->p.node[0].r, &why)) fail_msg("%s", why.text);
    }
    assert_int_equal(relay_count(s->p.node[0].r).passing, half * half);
    assert_true(held <= 2 * (uint64_t)RELAY_OWN * half * half + 4 * MIB);
    uint64_t sum = 0;
    for (uint32_t i = 1; i <= half; i++)
        for (uint32_t j = 1; j <= half; j++) {
            uint64_t b = s->p.node[half + j].ends[i].bytes;
            sum += b;
            if (b > most) most = b;
            if (b < least) least = b;
        }
    /* 32 links of 4 MiB/s for 1.5 s; a path's part of it is 192 KiB */
    assert_true(sum > 32 * 4 * (uint64_t)MIB);
    assert_true(least > 0 && most <= 2 * least);
    end(s);
}

/* A long thick path is filled: 20 MiB/s over 4 hops of 5 ms need more than 200 KiB at each hop. */
static void test_fill(void **state) {
    (void)state;
    struct story *s = begin((struct paths_cfg){.nodes = 5, .bytes_a_second = 20 * MIB, .delay = 5 * MOYAI_MS});
    chain(s);
    paths_give(&s->p, 0, 4, 100);
    run_ms(s, 200);
    paths_give(&s->p, 0, 4, 64 * MIB);
    run_ms(s, 1000);
    uint64_t before = s->p.node[4].ends[0].bytes;
    run_ms(s, 500);
    uint64_t got = s->p.node[4].ends[0].bytes - before;
    if (got < 9 * MIB) fail_msg("%u KiB in half a second", (unsigned)(got / KIB));
    end(s);
}

#define TEST(f) cmocka_unit_test(f)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_opening), TEST(test_crash),       TEST(test_leave), TEST(test_all_to_all),
        TEST(test_stopped), TEST(test_small_first), TEST(test_fair),  TEST(test_fill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
