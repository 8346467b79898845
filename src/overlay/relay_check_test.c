/* SPDX-License-Identifier: Apache-2.0 */
/* relay_check finds each thing that must not be; and the normal form. */
#include "overlay/relay_testkit.h"

/* Path 1 passes: a frame waits for credit towards node 91, one for node 10 can go, a loan is out. Path 2 begins here,
 * path 3 ends here, path 4 waits for its route, path 5 is ending. */
static struct tested *busy(void) {
    struct relay_cfg c = usual;
    c.pointers = 5;
    struct tested *t = linked(&c);
    (void)passing(t, 1, 7);
    assert_int_equal(receive(t, 1, 1, 1, OWN), 0);
    pull(t, 2, "1:1");
    assert_int_equal(get(t, 1, F(BLOCKED, .label = 1)), 0);
    pull(t, 1, "CREDIT1 200");
    assert_int_equal(receive(t, 1, 1, 2, OWN), 0);
    pull(t, 2, "BLOCKED1");
    assert_int_equal(receive(t, 2, 1, 3, 70), 0);
    (void)opened(t);
    (void)arrived(t, 3, 8);
    assert_int_equal(get(t, 1, path_frame(5, 10, 92, 9)), 0);
    assert_int_equal(get(t, 3, path_frame(1, 30, 92, 9)), 0);
    check(t);
    return t;
}

static struct relay_path *path(struct tested *t, uint32_t ref) {
    return relay_path_at(t->r, ref);
}

#define LOST(want, ...)                                                                                                \
    do {                                                                                                               \
        struct tested *t = busy();                                                                                     \
        struct relay *r = t->r;                                                                                        \
        struct relay_path *p = path(t, 1), *own = path(t, 2), *in = path(t, 3), *asks = path(t, 4),                    \
                          *ends = path(t, 5);                                                                          \
        struct relay_side *a = &p->side[0], *b = &p->side[1];                                                          \
        (void)r, (void)own, (void)in, (void)asks, (void)ends, (void)a, (void)b;                                        \
        __VA_ARGS__;                                                                                                   \
        struct moyai_error why = {0};                                                                                  \
        if (relay_check(r, &why)) fail_msg("not found: %s", want);                                                     \
        if (!strstr(why.text, want)) fail_msg("\"%s\" instead of \"%s\"", why.text, want);                             \
        tested_free(t);                                                                                                \
    } while (0)

static void test_queues(void **state) {
    (void)state;
    LOST("relay, path 1: a queue is miscounted", a->n++);
    LOST("a queue is miscounted", a->bytes++);
    LOST("a queue is miscounted", a->last++);
    LOST("a queue is miscounted", relay_item_at(r, a->last)->next = b->first); /* longer than it is said to be */
    LOST("more than a frame waits from here", (void)send_one(t, relay_handle(r, own), 9, 70);
         struct relay_side *h = &own->side[0]; relay_item_at(r, h->last)->next = a->first; h->last = a->last;
         h->n += a->n; h->bytes += a->bytes; a->out += (int32_t)a->bytes; a->first = a->last = a->n = a->bytes = 0);
    LOST("an ending path holds", ends->side[0].due = 1);
    LOST("an ending path holds", ends->side[0].lent = 1);
    LOST("credit of a side without link", own->side[0].out = 1);
    LOST("credit of a side without link", own->side[0].due = 1);
    LOST("credit of a side without link", own->side[0].asked = 1);
    LOST("credit of a side without link", own->side[0].take = 1);
    LOST("credit of a side without link", own->side[0].credit = 1);
    LOST("credit of a side without link", own->side[0].give = 1);
    LOST("credit of a side without link", own->side[0].say = 1);
    LOST("do not add up", a->out++);
    LOST("do not add up", a->due++);
    LOST("do not add up", a->lent++);
    LOST("too far ahead", a->ahead = 1);
    LOST("above the most", own->side[1].out++, own->side[1].lent++);
    LOST("credit is due and is not said", a->due += (uint32_t)a->out, a->out = 0);
    LOST("credit is due and is not said", a->due = 50, a->out -= 50);
    LOST("credit is due and is not said", a->due = 1, a->out -= 1); /* little, but less than a frame is left */
    LOST("credit is due and is not said", own->side[1].due = 200, own->side[1].out -= 200); /* a quarter */
    LOST("no credit is due and is said", relay_say(r, p, 0, RELAY_SAY_CREDIT));
    LOST("to be asked for, and not said", a->take = 1);
    LOST("to be asked for, and not said", relay_say(r, p, 0, RELAY_SAY_TAKE));
    LOST("to be given back, and not said", a->give = 1);
    LOST("who is not listened to", a->deaf = 1);
}

static void test_turns(void **state) {
    (void)state;
    LOST("a loan that is not listed", relay_side_list(r, p, 0, ON_LENT, false));
    LOST("a loan that is not listed", relay_side_list(r, p, 1, ON_LENT, true));
    LOST("is on its lists", own->side[0].on = 1);
    LOST("not on its link's list", relay_side_list(r, p, 0, ON_LINK, false));
    LOST("something to say and not listed", relay_side_list(r, p, 0, ON_SAY, true));
    LOST("something to say and not listed", a->say = RELAY_SAY_WARN);
    LOST("can be sent and is not listed", relay_side_list(r, p, 0, ON_SMALL, false));
    LOST("can be sent and is not listed", relay_side_list(r, p, 0, ON_BULK, true));
    LOST("can be sent and is not listed", relay_side_list(r, p, 1, ON_SMALL, true));
    LOST("can be sent and is not listed", b->credit = OWN);
    LOST("waits for credit, and this was not said", b->blocked = 0);
    LOST("a side closes before its time", relay_say(r, p, 0, RELAY_SAY_CLOSE));
    LOST("is to be sent on a path that is not open", relay_side_list(r, ends, 0, ON_SMALL, true));
    LOST("is to be sent on a path that is not open", relay_side_list(r, asks, 0, ON_BULK, true));
    LOST("of no link, or without label", in->side[0].link = 4);
    LOST("of no link, or without label", in->side[0].link = 0);
    LOST("of no link, or without label", in->side[0].label = 0);
    LOST("a label that leads elsewhere", own->side[1].label = 1);
}

static void test_paths(void **state) {
    (void)state;
    LOST("something to tell and not listed", p->tell = RELAY_TELL_ROUTE);
    LOST("something to tell and not listed", relay_path_list(r, p, ON_TELL, true));
    LOST("waits for its route is not listed", relay_path_list(r, asks, ON_ROUTE, false));
    LOST("waits for its route is not listed", relay_path_list(r, p, ON_ROUTE, true));
    LOST("a free place is not zero", r->paths_top++, path(t, 6)->hops = 1);
    LOST("a path without route has a second side", asks->side[1].where = HERE);
    LOST("a path without route has a second side", relay_side_drop(r, asks, 0));
    LOST("an open path without sides", own->side[0].where = NOWHERE, relay_side_drop(r, own, 1));
    LOST("a path from here to here", relay_side_drop(r, own, 1), own->side[1].where = HERE);
    LOST("an end here of a path that has closed", relay_side_drop(r, own, 1));
    LOST("an end here of a path that has closed", relay_side_drop(r, in, 0));
    LOST("an ended path keeps its place", relay_side_drop(r, ends, 0));
    LOST("an ending path that does not say so", ends->side[0].say = RELAY_SAY_WARN);
    LOST("an ending path that does not tell so", ends->side[1].where = HERE);
    LOST("not found by its id", relay_id_drop(r, p));
    LOST("not found by its id", p->id ^= 1);
    LOST("not found by its id", relay_id_put(r, ends, 99));
    LOST("wants to send without an end here", p->wants = 1);
    LOST("wants to send without an end here", ends->wants = 1);
}

static void test_counts(void **state) {
    (void)state;
    LOST("paths are miscounted", r->paths_n++);
    LOST("paths are miscounted", r->live++);
    LOST("paths are miscounted", r->passing++);
    LOST("more paths than allowed", r->pointers = 3);
    LOST("loans are miscounted", r->lent++);
    LOST("loans are miscounted", r->lenders++);
    LOST("more is lent", r->memory = 99);
    LOST("frames are miscounted", r->items_n++);
    LOST("frames are miscounted", r->items_cap = 1);
    LOST("a list is miscounted", relay_link_at(r, 4)->all[ON_LINK].first = relay_side_ref(r, p, 0));
    LOST("a list is miscounted", r->lents.first = 0);
    LOST("links are miscounted", r->links_n++);
    LOST("has something to send", relay_link_at(r, 1)->idle = 1);
    LOST("has something to send", relay_link_at(r, 3)->idle = 1);
    LOST("to be told is miscounted", r->tells.first = 1);
    LOST("to be told is miscounted", r->routes.first = 0);
    LOST("effects are due", r->deliver = 1);
    LOST("effects are due", r->wakes.first = 1);
    LOST("effects are due", r->withdrawn = 1);
    LOST("effects are due", relay_token_free(r, 5), r->draining = 0);
    LOST("effects are due", relay_tell(r, own, RELAY_TELL_ROOM), r->draining = 0);
    LOST("a time to withdraw by", r->withdraw_at = 5);
    struct tested *t = busy();
    t->r->items_cap = t->r->items_n; /* the last frame may be held */
    check(t);
    tested_free(t);
}

/* A path that drains, bulk that can go, all is well; and each that is not. */
static void test_drains(void **state) {
    (void)state;
    struct tested *t = linked(&usual);
    (void)passing(t, 1, 7);
    assert_int_equal(receive_bulk(t, 1, 1, 1, OWN), 0);
    assert_int_equal(get(t, 1, F(CLOSE, .label = 1)), 0);
    check(t);
    struct relay_path *p = path(t, 1);
    p->side[1].due = 1;
    struct moyai_error why = {0};
    assert_false(relay_check(t->r, &why));
    p->side[1].due = 0;
    pull(t, 2, "1:1 bulk");
    check(t);
    relay_unsay(t->r, p, 1, RELAY_SAY_CLOSE);
    assert_false(relay_check(t->r, &why));
    assert_non_null(strstr(why.text, "does not close"));
    tested_free(t);
}

/* Machines that hold the same frames in the same queues are the same bytes, wherever the frames came to lie. */
static void test_settle(void **state) {
    (void)state;
    struct tested *t[2];
    for (int i = 0; i < 2; i++) {
        t[i] = linked(&usual);
        (void)passing(t[i], 1, 7);
        (void)passing(t[i], 3, 8);
        (void)passing(t[i], 5, 9);
        relay_settle(t[i]->r); /* of nothing */
        if (i == 0) assert_int_equal(receive(t[i], 1, 3, 4, 64), 0);
        assert_int_equal(receive(t[i], 1, 1, 1, 64), 0);
        assert_int_equal(receive(t[i], 2, 1, 2, 64), 0);
        assert_int_equal(receive(t[i], 2, 5, 7, 64), 0);
        if (i == 1) assert_int_equal(receive(t[i], 1, 3, 4, 64), 0);
        for (int k = 0; k < 2; k++) { /* the order of what can be sent is a history, too */
            relay_side_list(t[i]->r, path(t[i], 2), 1, ON_SMALL, k);
        }
        relay_settle(t[i]->r);
        check(t[i]);
    }
    assert_memory_equal(t[0]->r, t[1]->r, relay_size(&t[0]->cfg));
    pull(t[0], 1, "1:2");
    pull(t[0], 2, "CREDIT1 64");
    pull(t[0], 2, "1:1");
    relay_settle(t[0]->r);
    assert_int_equal(t[0]->r->items_top, 2);
    for (uint32_t i = 3; i <= 5; i++) assert_int_equal(relay_item_at(t[0]->r, i)->token, 0);
    check(t[0]);
    pull(t[0], 2, "3:4");
    tested_free(t[0]);
    tested_free(t[1]);
}

/* As many frames as it has room for; of more it leaves all as they are. */
static void test_settle_most(void **state) {
    (void)state;
    const uint32_t most = 256;
    struct relay_cfg c = usual;
    c.own = c.most = (most + 2) * RELAY_TOLL;
    struct tested *t = linked(&c);
    struct relay_frame f = path_frame(1, 10, 91, 7);
    f.amount = c.own;
    assert_int_equal(get(t, 1, f), 0);
    assert_int_equal(step(t, EV(ROUTED, .path = t->path, .link = 2)), 0);
    pull(t, 2, "PATH1 10>91 hops4 credit16512");
    const struct relay_side *y = &path(t, 1)->side[0];
    for (uint64_t i = 1; i <= most + 1; i++) assert_int_equal(receive(t, 1, 1, i, RELAY_TOLL), 0);
    pull(t, 2, "1:1");
    assert_int_equal(receive(t, 1, 1, 999, RELAY_TOLL), 0);
    relay_settle(t->r);
    assert_int_equal(y->n, most + 1);
    assert_int_equal(y->first, 2);
    pull(t, 2, "1:2");
    relay_settle(t->r);
    check(t);
    assert_int_equal(y->n, most);
    assert_int_equal(y->first, 1);
    tested_free(t);
}

#define TEST(f) cmocka_unit_test(f)
int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_queues), TEST(test_turns),  TEST(test_paths),      TEST(test_counts),
                                       TEST(test_drains), TEST(test_settle), TEST(test_settle_most)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
