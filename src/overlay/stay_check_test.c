/* SPDX-License-Identifier: Apache-2.0 */
/* stay_check finds each thing that must not be. */
#include "overlay/stay_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define LINKS 6u
#define SELF  99

static struct moyai_node_id node(uint8_t n) {
    return (struct moyai_node_id){{n, 1}};
}

static void step(struct stay *s, struct stay_event ev) {
    struct stay_effect fx;
    ev.now = 1000 * (moyai_ns)MOYAI_MS;
    assert_int_equal(stay_step(s, &ev), 0);
    while (stay_next(s, &fx)) {
    }
}

static void get(struct stay *s, uint64_t link, const struct peers_frame *f) {
    step(s, (struct stay_event){.kind = STAY_EV_FRAME, .link = link, .frame = f});
}

/* Node 3 leaves and names 1, to whom there is a link, and 7, 8, who are looked for and asked about; 1 and 2 stay. */
static struct stay *staying(void) {
    const struct stay_cfg c = {.self = node(SELF), .seed = 1, .links = LINKS, .text = 16};
    const size_t n = (stay_size(&c) + 15) & ~(size_t)15;
    struct stay *s = aligned_alloc(16, n);
    assert_non_null(s);
    memset(s, 0, n);
    assert_int_equal(stay_init(s, &c), 0);
    for (uint8_t i = 1; i <= 3; i++) {
        const struct peers_endpoint e = {.id = node(i), .site = i};
        step(s, (struct stay_event){.kind = STAY_EV_UP, .link = i, .endpoint = &e});
    }
    struct peers_frame f = {.kind = PEERS_LEAVE, .count = 1, .n = 3};
    f.e[0].id = node(1);
    f.e[1].id = node(7);
    f.e[2].id = node(8);
    for (uint32_t i = 0; i < f.n; i++) f.e[i].lifetime = NAMED_STAYS;
    get(s, 3, &f);
    step(s, (struct stay_event){.kind = STAY_EV_WAY, .id = node(7)});
    assert_int_equal(stay_needs_of(s)[0].state, NEED_OK);
    assert_int_equal(stay_needs_of(s)[1].state, NEED_SEARCH);
    assert_int_equal(stay_needs_of(s)[2].state, NEED_WAY);
    return s;
}

/* It leaves itself: 1 and 2 were named to each other, and node 3, which leaves too, has named one who comes first. */
static struct stay *leaving(void) {
    struct stay *s = staying();
    struct peers_frame f = {.kind = PEERS_LEAVE, .count = 2, .n = 1};
    f.e[0].id = node(0);
    f.e[0].lifetime = NAMED_STAYS + 2;
    step(s, (struct stay_event){.kind = STAY_EV_LEAVE});
    get(s, 3, &f);
    assert_int_equal(s->parent, 3);
    assert_int_equal(s->least.weight, 1);
    assert_true(s->edges_n >= 3);
    return s;
}

#define LOST_IN(make, want, ...)                                                                                       \
    do {                                                                                                               \
        struct stay *s = make();                                                                                       \
        struct stay_link *l = stay_links(s);                                                                           \
        struct stay_need *k = stay_needs_of(s);                                                                        \
        struct stay_edge *e = stay_edges(s);                                                                           \
        struct moyai_error why = {0};                                                                                  \
        (void)l, (void)k, (void)e;                                                                                     \
        assert_true(stay_check(s, &why));                                                                              \
        __VA_ARGS__;                                                                                                   \
        if (stay_check(s, &why)) fail_msg("not found: %s", want);                                                      \
        if (!strstr(why.text, want)) fail_msg("\"%s\" instead of \"%s\"", why.text, want);                             \
        free(s);                                                                                                       \
    } while (0)
#define LOST(want, ...)         LOST_IN(staying, want, __VA_ARGS__)
#define LOST_LEAVING(want, ...) LOST_IN(leaving, want, __VA_ARGS__)

/* What is at its bound is right. */
#define FINE_IN(make, ...)                                                                                             \
    do {                                                                                                               \
        struct stay *s = make();                                                                                       \
        struct moyai_error why = {0};                                                                                  \
        __VA_ARGS__;                                                                                                   \
        if (!stay_check(s, &why)) fail_msg("%s", why.text);                                                            \
        free(s);                                                                                                       \
    } while (0)

static void test_links(void **state) {
    (void)state;
    LOST("stay: more links than places", s->links_cap = 2);
    FINE_IN(staying, s->links_cap = 3);
    LOST("a link to nobody", l[1].link = 0);
    LOST("a link to nobody", memset(l[1].id, 0, 16));
    LOST("a link to nobody", memcpy(l[1].id, s->self, 16));
    LOST("two links to one node", l[1].link = l[0].link);
    LOST("two links to one node", memcpy(l[1].id, l[0].id, 16));
    LOST("two links to one node", l[2].link = l[1].link);
    LOST("one leaves that has not said so", l[2].heard = 0);
    LOST("or the reverse", l[1].heard = 1);
    LOST("who stays says that it leaves", l[1].said = 1);
    LOST("who stays says that it leaves", l[1].changed = 1);
    LOST_LEAVING("one has not been told", l[1].changed = 1);
    LOST_LEAVING("one has not been told", l[1].said = 0);
    LOST_LEAVING("mute, and has answered", l[1].answered = UINT16_MAX + 1);
    FINE_IN(leaving, stay_links(s)[1].answered = UINT16_MAX);
    LOST_LEAVING("mute, and has answered", l[1].answered = l[1].said, l[1].mute = 1);
    FINE_IN(leaving, stay_links(s)[1].mute = 1);
    LOST("who stays answers for others", l[1].lacks = 1);
    LOST("who stays answers for others", l[1].opens = 1);
    LOST("who stays has a place in the order of going", l[1].placed = 1);
    FINE_IN(staying, stay_links(s)[2].placed = 1);
    LOST("a place too far away", l[2].place_links = ORDER_LINKS + 1);
    FINE_IN(staying, stay_links(s)[2].place_links = ORDER_LINKS);
    LOST("more addresses than places", l[1].n_text = 17);
    FINE_IN(staying, stay_links(s)[1].n_text = 16);
}

static void test_needs(void **state) {
    (void)state;
    LOST("more needs than places", s->needs_n = STAY_NEEDS + 1);
    FINE_IN(staying, while (s->needs_n < STAY_NEEDS) stay_needs_of(s)[s->needs_n++] = stay_needs_of(s)[0]);
    LOST("a need for the sake of nobody", k[1].link = 9);
    LOST("a need for the sake of nobody", k[1].link = 1); /* who stays */
    LOST("a need for the sake of nobody", k[1].link = 0);
    FINE_IN(leaving, stay_needs_of(s)[0].link = 0, s->parent = 0); /* an orphan */
    LOST("a need of nobody", memset(k[1].id, 0, 16));
    LOST("a need of nobody", memcpy(k[1].id, s->self, 16));
    LOST("a need of nobody", k[1].state = NEED_GONE + 1);
    LOST_LEAVING("a need of nobody", k[0].state = NEED_GONE + 1);
    FINE_IN(leaving, stay_needs_of(s)[0].state = NEED_GONE);
    LOST("a need is not looked at", k[2].state = NEED_NEW);
    LOST("a need's timer runs when it should not, or not", k[1].due = 0);
    LOST("a need's timer runs when it should not, or not", k[2].due = 1);
    LOST("a need's timer runs when it should not, or not", k[0].due = 1);
    LOST("a need's timer runs when it should not, or not", k[1].state = NEED_LINK, k[1].due = 0);
    LOST("a need's timer runs when it should not, or not", k[1].state = NEED_LACK, k[1].due = 0);
    LOST("a need's timer runs when it should not, or not", k[1].state = NEED_GONE);
    FINE_IN(staying, stay_needs_of(s)[1].state = NEED_LINK);
    FINE_IN(staying, stay_needs_of(s)[1].state = NEED_LACK);
    LOST("a need though there is a link", k[0].state = NEED_WAY);
    FINE_IN(staying, stay_needs_of(s)[0].state = NEED_GONE);
}

static void test_edges(void **state) {
    (void)state;
    LOST("named by who stays", s->edges_n = 1);
    LOST_LEAVING("named by who stays", s->edges_cap = s->edges_n - 1);
    FINE_IN(leaving, s->edges_cap = s->edges_n);
    LOST_LEAVING("named to nobody, or to one that leaves", e[0].link = 9);
    LOST_LEAVING("named to nobody, or to one that leaves", e[0].link = 3);
    LOST_LEAVING("named to nobody, or to one that leaves", e[0].state = EDGE_LACK + 1);
    FINE_IN(leaving, stay_edges(s)[0].state = EDGE_LACK);
    LOST_LEAVING("named twice", e[1] = e[0]);
    LOST_LEAVING("named twice", e[2] = e[1]);
}

static void test_least(void **state) {
    (void)state;
    LOST_LEAVING("the least is of one that does not leave", s->parent = 1);
    LOST_LEAVING("the least is of one that does not leave", s->parent = 9);
    LOST("the least is of one that does not leave", s->parent = 3);
    FINE_IN(leaving, s->parent = 0);
    LOST_LEAVING("the least is nobody", memset(s->least.id, 0, 16), s->parent = 0);
    LOST("the least is nobody", s->least.last = 1);
    LOST_LEAVING("the least is nobody", s->least = (struct stay_need){0});
    LOST_LEAVING("a part that nobody has weighed", s->least.weight = 0, s->least.last = 1);
    FINE_IN(leaving, s->least.last = 1);
}

static void test_effects(void **state) {
    (void)state;
    LOST("more effects than places", s->fx_n = s->fx_cap + 1);
    FINE_IN(staying, s->fx_n = s->fx_at = s->fx_cap);
    LOST("more effects than places", s->fx_at = 1);
}

/* What can be asked for, to the last value that can; and what it is if nothing is. */
static void test_limits(void **state) {
    (void)state;
    const moyai_dur day = 86400 * MOYAI_SEC;
#define SIZE(...) stay_size(&(struct stay_cfg){.self = node(SELF), ##__VA_ARGS__})
#define LIMIT(field, most)                                                                                             \
    do {                                                                                                               \
        if (SIZE(field = (most)) == 0) fail_msg("%s: refused", #field);                                                \
        if (SIZE(field = (most) + 1) != 0) fail_msg("%s: taken", #field);                                              \
    } while (0)
    assert_true(SIZE() > 0);
    assert_int_equal(stay_size(&(struct stay_cfg){.seed = 1}), 0);
    LIMIT(.links, 65536);
    LIMIT(.text, PEERS_TEXT);
    LIMIT(.gone, 4096 * STAY_GONE + STAY_GONE - 1);
    LIMIT(.seen, 4096 * STAY_SEEN + STAY_SEEN - 1);
    assert_int_equal(SIZE(.gone = STAY_GONE - 1), 0);
    assert_int_equal(SIZE(.seen = STAY_SEEN - 1), 0);
    LIMIT(.reply, day);
    LIMIT(.attempt, day);
    LIMIT(.search, day);
    LIMIT(.again, day);
    LIMIT(.quiet, day);
    assert_int_equal(SIZE(.reply = -1), 0);
#undef LIMIT
#undef SIZE
    const struct stay_cfg c = {.self = node(SELF), .links = LINKS, .text = 16};
    struct stay *s = aligned_alloc(16, (stay_size(&c) + 15) & ~(size_t)15);
    assert_non_null(s);
    assert_int_equal(stay_init(s, &c), 0);
    assert_int_equal(s->reply, 5 * MOYAI_SEC);
    assert_int_equal(s->attempt, 1500 * MOYAI_MS);
    assert_int_equal(s->search, 1500 * MOYAI_MS);
    assert_int_equal(s->again, 4 * MOYAI_SEC);
    assert_int_equal(s->quiet, 300 * MOYAI_MS);
    free(s);
}

/* Nothing lies in another's place. */
static void test_layout(void **state) {
    (void)state;
    const struct stay_cfg c = {
        .self = node(SELF), .links = LINKS, .text = 17, .gone = 3 * STAY_GONE, .seen = 5 * STAY_SEEN};
    const size_t all = stay_size(&c);
    struct stay *s = aligned_alloc(16, (all + 15) & ~(size_t)15);
    assert_non_null(s);
    assert_int_equal(stay_init(s, &c), 0);
    const struct {
        uint32_t at;
        size_t n;
    } part[] = {{0, sizeof *s},
                {s->off_links, LINKS * sizeof(struct stay_link)},
                {s->off_ltexts, (size_t)LINKS * 17},
                {s->off_gone, (size_t)3 * STAY_GONE * 16},
                {s->off_seen, (size_t)5 * STAY_SEEN * sizeof(struct stay_seen)},
                {s->off_needs, STAY_NEEDS * sizeof(struct stay_need)},
                {s->off_edges, s->edges_cap * sizeof(struct stay_edge)},
                {s->off_fx, (16 + 2 * STAY_NEEDS + 4 * LINKS) * sizeof(struct stay_fx)},
                {s->off_order, LINKS * sizeof(uint32_t)},
                {s->off_class, (LINKS + 1) * sizeof(uint32_t)},
                {s->off_ntexts, (size_t)(STAY_NEEDS + 1) * 17}};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        const size_t next = i + 1 < sizeof part / sizeof *part ? part[i + 1].at : all;
        if (part[i].at + part[i].n > next) fail_msg("part %zu has %zu bytes, not %zu", i, next - part[i].at, part[i].n);
        if (part[i].at + part[i].n + 16 < next)
            fail_msg("part %zu has %zu bytes, for %zu", i, next - part[i].at, part[i].n);
    }
    assert_int_equal(s->fx_cap, 16 + 2 * STAY_NEEDS + 4 * LINKS);
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links),  cmocka_unit_test(test_needs),   cmocka_unit_test(test_edges),
        cmocka_unit_test(test_least),  cmocka_unit_test(test_effects), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
