/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of whole grids that locate. Node i has the id that begins with i + 1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEC ((moyai_ns)MOYAI_SEC)
#define MS  ((moyai_ns)MOYAI_MS)

struct story {
    struct world w;
    struct trace trace;
    struct graph g;
};

static struct story *story_of(uint64_t seed, uint32_t nodes, moyai_dur delay) {
    struct story *s = sim_alloc(sizeof *s);
    const struct graph_cfg cfg = {
        .locate = {.links = 16, .told = 4, .requests = 512, .lookups = 512, .routes = 64, .dead = 16},
        .delay = delay,
        .check = true,
        .strict = true};
    world_init(&s->w, seed, false);
    trace_init(&s->trace, true, NULL);
    graph_init(&s->g, &s->w, &s->trace, &cfg);
    for (uint32_t i = 0; i < nodes; i++) (void)graph_add(&s->g);
    return s;
}

static void over(struct story *s) {
    if (s->g.broken) fail_msg("%s", s->g.why.text);
    world_done(&s->w);
    graph_done(&s->g);
    trace_done(&s->trace);
    free(s);
}

static void pass(struct story *s, moyai_ns span) {
    (void)world_run(&s->w, NULL, NULL, s->w.now + span);
    if (s->g.broken) fail_msg("%s", s->g.why.text);
}

static void line(struct story *s) {
    for (uint32_t i = 1; i < s->g.n; i++) assert_true(graph_link(&s->g, i - 1, i));
    pass(s, SEC);
}

static void key_of(uint8_t key[16], uint8_t b) {
    memset(key, 0, 16);
    key[0] = b;
    key[15] = 1;
}

static uint32_t look(struct story *s, uint32_t from, uint32_t to) {
    return graph_lookup(&s->g, from, LOCATE_NODE, s->g.nodes[to].id.b, 0);
}

static void expect(struct story *s, const char *text) {
    assert_true(trace_expect(&s->trace, text));
}

static void forget_lines(struct story *s) {
    s->trace.n = 0;
}

/* 4.2, 4.7, 7: a look-up over a line of five; each node on the way has a route afterwards. */
static void test_line(void **state) {
    (void)state;
    struct story *s = story_of(1, 5, MOYAI_MS);
    line(s);
    forget_lines(s);
    (void)look(s, 0, 4);
    pass(s, SEC);
    expect(s, "2000.000 0>1 REQUEST n05/1\n"
              "2025.000 0>1 REQUEST n05/2\n"
              "2026.000 1>2 REQUEST n05/1\n"
              "2027.000 2>3 REQUEST n05/1 direct\n"
              "2028.000 3>2 REPLY n05 found 05 1:2000\n"
              "2029.000 2>1 REPLY n05 found 05 2:4000\n"
              "2030.000 1>0 REPLY n05 found 05 3:6000\n"
              "2031.000 0 found0:05/4\n");
    assert_int_equal(graph_walk(&s->g, 0, 4), 4);
    over(s);
}

/* 4.3: all of a line look for its last node at once: each link carries what it must. */
static void test_together(void **state) {
    (void)state;
    struct story *s = story_of(1, 9, MOYAI_MS);
    line(s);
    uint64_t before = graph_sent(&s->g);
    for (uint32_t i = 0; i < 8; i++) (void)look(s, i, 8);
    pass(s, 2 * SEC);
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(s->g.lookups[i].fate, LOOKUP_FOUND);
    assert_true(graph_sent(&s->g) - before < 60);
    over(s);
}

/* 5.2, 5.3: what is not there is not found, in time; 8 links and one more are in reach, 10 are not. */
static void test_reach(void **state) {
    (void)state;
    struct story *s = story_of(1, 12, 100 * MOYAI_US);
    line(s);
    uint8_t key[16];
    key_of(key, 0x99);
    uint32_t none = graph_lookup(&s->g, 0, LOCATE_NODE, key, 0);
    uint32_t near = look(s, 0, 9), far = look(s, 0, 11);
    pass(s, SEC);
    assert_int_equal(s->g.lookups[none].fate, LOOKUP_NOT_FOUND);
    assert_int_equal(s->g.lookups[none].end - s->g.lookups[none].start, 325 * MS);
    assert_int_equal(s->g.lookups[near].fate, LOOKUP_FOUND);
    assert_int_equal(s->g.lookups[far].fate, LOOKUP_NOT_FOUND);
    over(s);
}

/* 5.6, 4.8: a wait over a long line is answered when the name comes, whoever joins meanwhile. */
static void test_wait(void **state) {
    (void)state;
    struct story *s = story_of(1, 7, MOYAI_MS);
    line(s);
    uint8_t key[16], object[16];
    key_of(key, 0x55);
    key_of(object, 0x66);
    uint32_t token = graph_lookup(&s->g, 0, LOCATE_NAME, key, s->w.now + 200 * SEC);
    uint32_t vain = graph_lookup(&s->g, 1, LOCATE_NAME, key, s->w.now + 20 * SEC);
    pass(s, 100 * SEC);
    assert_int_equal(s->g.lookups[vain].fate, LOOKUP_NOT_FOUND);
    uint32_t late = graph_add(&s->g);
    assert_true(graph_link(&s->g, late, 6));
    assert_int_equal(graph_name_add(&s->g, late, key, object, false), 0);
    pass(s, SEC);
    assert_int_equal(s->g.lookups[token].fate, LOOKUP_FOUND);
    assert_int_equal(s->g.lookups[token].node, late);
    assert_int_equal(graph_walk(&s->g, 0, late), 7);
    over(s);
}

/* 6: a death is known two links from who learns it, and asking tells the others. */
static void test_death(void **state) {
    (void)state;
    struct story *s = story_of(1, 6, MOYAI_MS);
    line(s);
    graph_kill(&s->g, 5, LOCATE_DEAD);
    pass(s, SEC);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(locate_dead(s->g.nodes[i].l, &s->g.nodes[5].id, s->w.now), i >= 2 ? LOCATE_DEAD : 0);
    uint32_t token = look(s, 0, 5);
    pass(s, SEC);
    assert_int_equal(s->g.lookups[token].fate, LOOKUP_DEAD);
    assert_int_equal(locate_dead(s->g.nodes[0].l, &s->g.nodes[5].id, s->w.now), LOCATE_DEAD);
    pass(s, 60 * SEC);
    assert_int_equal(locate_dead(s->g.nodes[2].l, &s->g.nodes[5].id, s->w.now), 0);
    over(s);
}

static uint32_t holders(struct story *s, const uint8_t key[16]) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->g.n; i++) n += s->g.nodes[i].alive && graph_holds(&s->g, i, key);
    return n;
}

/* 9.3: of claims at about the same time, anywhere in a grid, one is held, and all are told. */
static void test_claims(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct story *s = story_of(seed, 24, (moyai_dur)(1 + seed % 7) * MOYAI_MS);
        for (uint32_t i = 1; i < 24; i++) assert_true(graph_link(&s->g, i, (uint32_t)rng_below(&s->g.rng, i)));
        for (uint32_t i = 0; i < 12; i++) graph_join(&s->g, i, 1);
        pass(s, SEC);
        uint8_t key[16], object[16];
        key_of(key, 0x55);
        uint32_t n = 2 + (uint32_t)(seed % 5);
        for (uint32_t i = 0; i < n; i++) {
            key_of(object, (uint8_t)(1 + rng_below(&s->g.rng, 250)));
            object[1] = (uint8_t)i;
            assert_int_equal(graph_name_add(&s->g, i * 4, key, object, false), 0);
            pass(s, rng_below(&s->g.rng, 40 * MS));
        }
        pass(s, 20 * SEC);
        assert_int_equal(holders(s, key), 1);
        assert_int_equal(s->g.held, 1);
        assert_int_equal(s->g.lost, n - 1);
        over(s);
    }
}

/* 9.4: two halves have registered one name each; when they meet, one loses it. */
static void test_partition(void **state) {
    (void)state;
    struct story *s = story_of(1, 8, MOYAI_MS);
    for (uint32_t i = 1; i < 8; i++)
        if (i != 4) assert_true(graph_link(&s->g, i - 1, i));
    pass(s, SEC);
    uint8_t key[16], object[16];
    key_of(key, 0x55);
    key_of(object, 0x61);
    assert_int_equal(graph_name_add(&s->g, 6, key, object, false), 0);
    key_of(object, 0x62);
    assert_int_equal(graph_name_add(&s->g, 1, key, object, false), 0);
    pass(s, SEC);
    assert_int_equal(holders(s, key), 2);
    assert_true(graph_link(&s->g, 3, 4));
    pass(s, SEC);
    assert_int_equal(holders(s, key), 2); /* nobody sees both */
    (void)graph_lookup(&s->g, 4, LOCATE_NAME, key, 0);
    pass(s, SEC);
    uint32_t token = graph_lookup(&s->g, 3, LOCATE_NAME, key, 0);
    pass(s, SEC);
    assert_int_equal(s->g.lookups[token].fate, LOOKUP_FOUND);
    (void)graph_link(&s->g, 1, 6); /* neighbours */
    pass(s, SEC);
    assert_int_equal(holders(s, key), 1);
    assert_true(graph_holds(&s->g, 6, key));
    token = graph_lookup(&s->g, 2, LOCATE_NAME, key, 0);
    pass(s, SEC);
    assert_int_equal(s->g.lookups[token].node, 6);
    over(s);
}

/* 4.4, 4.5, 8.3: a storm of look-ups for what is not there is over with its rings. */
static void test_storm(void **state) {
    (void)state;
    struct story *s = story_of(3, 40, MOYAI_MS);
    for (uint32_t i = 1; i < 40; i++) assert_true(graph_link(&s->g, i, (uint32_t)rng_below(&s->g.rng, i)));
    for (uint32_t i = 0; i < 40; i++) graph_join(&s->g, i, 1);
    pass(s, SEC);
    uint64_t before = graph_sent(&s->g), links = 0;
    for (uint32_t i = 0; i < 40; i++) links += s->g.nodes[i].degree;
    uint8_t key[16];
    for (uint8_t k = 0; k < 20; k++) {
        key_of(key, (uint8_t)(0x80 + k));
        for (uint32_t i = 0; i < 40; i += 5) (void)graph_lookup(&s->g, i, LOCATE_NODE, key, 0);
    }
    pass(s, 5 * SEC);
    uint64_t sent = graph_sent(&s->g) - before;
    assert_true(sent <= 20 * 3 * 3 * links); /* keys, rings, a few times a link and direction */
    pass(s, 200 * SEC);
    assert_int_equal(graph_sent(&s->g) - before, sent);
    assert_int_equal(s->w.n, 0);
    over(s);
}

struct crowd {
    uint32_t askers, each, once; /* of these that many names are asked for, so many at a time */
    bool relayed;                /* all ask by one other, and not the holder himself */
    moyai_dur delay;
};

/* Each asks for names of his own, which one node holds: those that are told are few. */
static moyai_dur crowd(const struct crowd *c) {
    const struct graph_cfg cfg = {
        .locate = {.links = 32, .names = 8192, .digest_every = 60 * MOYAI_SEC}, .delay = c->delay, .strict = true};
    struct story *s = sim_alloc(sizeof *s);
    const uint32_t all = c->askers * c->each;
    uint8_t(*key)[16] = sim_alloc(all * sizeof *key);
    uint32_t *token = sim_alloc(all * sizeof *token), *begun = sim_alloc(c->askers * sizeof *begun), done = 0;
    world_init(&s->w, 5, false);
    trace_init(&s->trace, false, NULL);
    graph_init(&s->g, &s->w, &s->trace, &cfg);
    for (uint32_t i = 0; i < c->askers + 2; i++) (void)graph_add(&s->g); /* the holder, another, and who ask */
    for (uint32_t i = 1; i < c->askers + 2; i++) assert_true(graph_link(&s->g, i, 0));
    for (uint32_t i = 2; i < c->askers + 2; i++) assert_true(c->relayed || graph_link(&s->g, i, 1));
    for (uint32_t i = 0; i < all; i++) {
        rng_bytes(&s->g.rng, key[i], 16);
        assert_int_equal(graph_name_add(&s->g, c->relayed ? 1 : 0, key[i], key[i], true), 0);
    }
    pass(s, 5 * SEC);
    const moyai_ns from = s->w.now;
    for (; done < all && s->w.now < from + 200 * SEC; pass(s, 2 * MS)) {
        done = 0;
        for (uint32_t a = 0; a < c->askers; a++) {
            const uint32_t first = a * c->each;
            uint32_t found = 0;
            for (uint32_t i = first; i < first + begun[a]; i++) {
                if (s->g.lookups[token[i]].fate == LOOKUP_NOT_FOUND)
                    fail_msg("asker %u found nothing %d", a, s->g.lookups[token[i]].unsure);
                found += s->g.lookups[token[i]].fate == LOOKUP_FOUND;
            }
            for (; begun[a] < c->each && begun[a] < found + c->once; begun[a]++) {
                const uint32_t i = first + begun[a];
                token[i] = graph_lookup(&s->g, 2 + a, LOCATE_NAME, key[i], 0);
                assert_int_not_equal(token[i], UINT32_MAX);
            }
            done += found;
        }
    }
    const moyai_dur took = (moyai_dur)(s->w.now - from);
    printf("took %.3f s, frames %llu\n", (double)took * 1e-9, (unsigned long long)graph_sent(&s->g));
    assert_int_equal(done, all);
    free(key), free(token), free(begun);
    over(s);
    return took;
}

/* 5.2, 8.1: more than links let through in the time of a ring: each waits for its turn, and is found. */
static void test_crowd(void **state) {
    (void)state;
    (void)crowd(&(struct crowd){.askers = 1, .each = 2000, .once = 128, .delay = MOYAI_MS});
    (void)crowd(&(struct crowd){.askers = 1, .each = 1000, .once = 128, .delay = MOYAI_MS, .relayed = true});
    (void)crowd(&(struct crowd){.askers = 8, .each = 300, .once = 128, .delay = MOYAI_MS});
    (void)crowd(&(struct crowd){.askers = 8, .each = 300, .once = 128, .delay = MOYAI_MS, .relayed = true});
}

/* 7.5: a link breaks on the way; who looks again is led around, and nobody in circles. */
static void test_repair(void **state) {
    (void)state;
    struct story *s = story_of(1, 8, MOYAI_MS);
    for (uint32_t i = 0; i < 8; i++) assert_true(graph_link(&s->g, i, (i + 1) % 8));
    pass(s, SEC);
    (void)look(s, 0, 3);
    pass(s, SEC);
    assert_int_equal(graph_walk(&s->g, 0, 3), 3);
    graph_cut(&s->g, 2, 1); /* 2 - 3 */
    pass(s, SEC);
    assert_int_equal(graph_walk(&s->g, 0, 3), GRAPH_FAR);
    (void)graph_step(&s->g, 0,
                     &(struct locate_event){.kind = LOCATE_EV_ROUTE_BAD, .node = s->g.nodes[3].id, .link = 0});
    (void)look(s, 0, 3);
    pass(s, SEC);
    assert_int_equal(graph_walk(&s->g, 0, 3), 5);
    for (uint32_t i = 0; i < 8; i++) assert_true(graph_walk(&s->g, i, 3) != GRAPH_LOOP);
    over(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),      cmocka_unit_test(test_together), cmocka_unit_test(test_reach),
        cmocka_unit_test(test_wait),      cmocka_unit_test(test_death),    cmocka_unit_test(test_claims),
        cmocka_unit_test(test_partition), cmocka_unit_test(test_storm),    cmocka_unit_test(test_repair),
        cmocka_unit_test(test_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
