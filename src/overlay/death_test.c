/* SPDX-License-Identifier: Apache-2.0 */
/* The death machine rule by rule: who is asked, what is said, what suffices and what does not, who is told. */
#include "overlay/death_testkit.h"

#include "base/rng.h"

static void test_cfg(void **state) {
    (void)state;
    const struct death_cfg good = {.self = node(1)};
    struct death_cfg c = good;
    assert_true(death_size(&c) > 0 && death_size(&c) < 200000);
#define BAD(change)                                                                                                    \
    do {                                                                                                               \
        c = good;                                                                                                      \
        change;                                                                                                        \
        assert_int_equal(death_size(&c), 0);                                                                           \
        assert_int_equal(death_init(NULL, &c), MOYAI_EINVAL);                                                          \
    } while (0)
    BAD(memset(&c.self, 0, 16));
    BAD(c.links = 65537);
    BAD(c.cases = 65537);
    BAD(c.dead = 65537);
    BAD(c.members = DEATH_MEMBERS + 1);
    BAD(c.window = -1);
    BAD(c.transit = -1);
    BAD(c.keep = 90000 * MOYAI_SEC);
    c = good;
    c.links = c.cases = c.dead = 65536;
    c.members = 1;
    c.keep = 86400 * MOYAI_SEC;
    assert_true(death_size(&c) > 0);
}

static void test_complete(void **state) {
    (void)state;
    struct tested *t = asked();
    says(t, 1, DEATH_ENDED, 9);
    says(t, 2, DEATH_ENDED, 9);
    expect(t, ""); /* 3 may have a link */
    says(t, 3, DEATH_ENDED, 9);
    expect(t, "dead9:2:0 DEAD9>1h1 DEAD9>2h1 DEAD9>3h1 DEAD9>50");
    assert_int_equal(death_of(t->d, &(struct moyai_node_id){{9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}),
                     DEATH_IS_DEAD);
    /* It is remembered for a while, and whoever asks or still comes is told. */
    says(t, 4, DEATH_ENDED, 9);
    expect(t, "DEAD9>4");
    assert_int_equal(t->last.frame.cause, DEATH_LINKS);
    link_up(t, 9);
    expect(t, "DEAD9>9");
    (void)step(t, EV(HEARD, .id = node(9)));
    expect(t, "DEAD9>9");
    says(t, 9, DEATH_ENDED, 50);
    expect(t, "DEAD9>9");
    struct death_frame of = {.kind = DEATH_DEAD, .subject = node(50)}; /* nor is it believed of others */
    (void)step(t, EV(FRAME, .id = node(9), .frame = &of));
    expect(t, "DEAD9>9");
    (void)step(t, EV(HEARD, .id = node(8)));
    expect(t, "");
    assert_int_equal(death_deadline(t->d), t->now + 30000 * MS);
    t->now += 30000 * MS;
    (void)step(t, EV(TIMEOUT));
    link_up(t, 9);
    expect(t, "");
    assert_int_equal(death_deadline(t->d), UINT64_MAX);
    tested_free(t);
}

static void test_objection(void **state) {
    (void)state;
    struct tested *t = asked();
    says(t, 1, DEATH_ENDED, 9);
    says(t, 2, DEATH_ENDED, 9);
    says(t, 3, DEATH_ALIVE, 9);
    expect(t, "");
    assert_false(likely(t, 9));
    says(t, 3, DEATH_ENDED, 9); /* and then its link broke too */
    expect(t, "dead9:2:0 DEAD9>1h1 DEAD9>2h1 DEAD9>3h1 DEAD9>50");
    tested_free(t);
    /* Of two frames of one node the later counts, not the one that comes last. */
    t = asked();
    struct death_frame f = {.kind = DEATH_ENDED, .subject = node(9), .seq = 7, .host = 3};
    says(t, 1, DEATH_ENDED, 9);
    t->seq = 7;
    says(t, 3, DEATH_ALIVE, 9);
    (void)step(t, EV(FRAME, .id = node(3), .frame = &f));
    f.seq = 8;
    (void)step(t, EV(FRAME, .id = node(3), .frame = &f));
    says(t, 2, DEATH_ENDED, 9);
    expect(t, "");
    f.seq = 9;
    (void)step(t, EV(FRAME, .id = node(3), .frame = &f));
    assert_non_null(strstr(t->did, "dead9"));
    tested_free(t);
    /* X itself says that it lives, whatever its neighbours say. */
    t = asked();
    says(t, 9, DEATH_ALIVE, 9);
    assert_false(likely(t, 9));
    for (uint32_t i = 1; i <= 3; i++) says(t, i, DEATH_ENDED, 9);
    (void)step(t, EV(REFUSED, .id = node(9)));
    t->now += 200 * MS;
    (void)step(t, EV(TIMEOUT));
    expect(t, "");
    tested_free(t);
    /* Who is not in our list and has a link, too. */
    t = asked();
    says(t, 7, DEATH_ALIVE, 9);
    for (uint32_t i = 1; i <= 3; i++) says(t, i, DEATH_ENDED, 9);
    expect(t, "");
    tested_free(t);
    /* We have a link again. */
    t = asked();
    link_up(t, 9);
    assert_false(likely(t, 9));
    expect(t, "ALIVE9>1 ALIVE9>2 ALIVE9>3");
    for (uint32_t i = 1; i <= 3; i++) says(t, i, DEATH_ENDED, 9);
    expect(t, "ALIVE9>1 ALIVE9>2 ALIVE9>3");
    assert_int_equal(link_end(t, 9, DEATH_BROKEN, ""), 0);
    assert_non_null(strstr(t->did, "dead9"));
    tested_free(t);
}

/* Three reporters, on two hosts; who has no link is none. */
static void test_enough(void **state) {
    (void)state;
    struct tested *t = asked();
    says(t, 1, DEATH_NONE, 9);
    says(t, 2, DEATH_ENDED, 9);
    expect(t, "");
    says(t, 3, DEATH_ENDED, 9);
    assert_non_null(strstr(t->did, "dead9:2:0"));
    tested_free(t);
    t = asked();
    says(t, 1, DEATH_NONE, 9);
    says(t, 2, DEATH_NONE, 9);
    says(t, 3, DEATH_ENDED, 9);
    expect(t, "");
    tested_free(t);
    for (uint64_t other = 99; other <= 100; other++) { /* all on host 100 but one, or all */
        t = asked();
        for (uint32_t i = 1; i <= 3; i++)
            assert_int_equal(says_from(t, i, i == 2 ? other : 100, DEATH_ENDED, 9, ""), 0);
        assert_int_equal(strstr(t->did, "dead9") != NULL, other == 99);
        tested_free(t);
    }
    t = tested_new((struct death_cfg){0}); /* none known to have neighbours */
    link_up(t, 9);
    assert_int_equal(link_end(t, 9, DEATH_BROKEN, ""), 0);
    expect(t, "probe9 ENDED9>9");
    tested_free(t);
}

/* Only some are told at once, who hear it of all: those outside whose ids are closest, as far as they may still live.
 */
static void test_first(void **state) {
    (void)state;
    struct tested *t = tested_new((struct death_cfg){0});
    link_up(t, 9);
    link_up(t, 13);
    const struct death_member m[] = {{node(8), 9},   {node(10), 10}, {node(11), 11},
                                     {node(12), 12}, {node(13), 13}, {node(14), 14}};
    assert_int_equal(step(t, EV(END, .id = node(9), .members = m, .n = 6)), 0);
    expect(t, "probe9 ENDED9>9 ENDED9>10 ENDED9>11 ENDED9>13"); /* 8 is on its host */
    assert_int_equal(t->last.frame.n, 6);
    says(t, 11, DEATH_NONE, 9); /* it has no case: another one hears it instead */
    expect(t, "ENDED9>12");
    assert_int_equal(link_end(t, 13, DEATH_BROKEN, ""), 0); /* it may have died with it */
    expect(t, "ENDED9>14 probe13 ENDED13>13");
    struct death_frame f = {.kind = DEATH_DEAD, .subject = node(10), .number = 9};
    (void)step(t, EV(FRAME, .id = node(50), .frame = &f));
    expect(t, "dead10:0:9"); /* now we are the third */
    says(t, 12, DEATH_ENDED, 9);
    says(t, 13, DEATH_ENDED, 9);
    says(t, 14, DEATH_ENDED, 9);
    t->did[0] = 0;
    t->now += 50 * MS; /* 8 is inside */
    (void)step(t, EV(TIMEOUT));
    expect(t, "ENDED9>8");
    t->now += 100 * MS;
    (void)step(t, EV(TIMEOUT));
    expect(t, "dead9:2:0 DEAD9>8h1 DEAD9>11h1 DEAD9>12h1 DEAD9>13h1 DEAD9>14h1");
    tested_free(t);
    /* Who is one of them itself tells fewer. Who is not told at once is told at the second look, whatever it has said.
     */
    t = tested_new((struct death_cfg){.first = 2});
    link_up(t, 97);
    assert_int_equal(link_end(t, 97, DEATH_BROKEN, "96 98 120 121"), 0);
    expect(t, "probe97 ENDED97>97 ENDED97>96 ENDED97>98");
    tested_free(t);
    t = tested_new((struct death_cfg){.first = 2});
    link_up(t, 97);
    assert_int_equal(link_end(t, 97, DEATH_BROKEN, "96 120 121"), 0);
    expect(t, "probe97 ENDED97>97 ENDED97>96");
    assert_int_equal(says_from(t, 120, 120, DEATH_ENDED, 97, "96 100 121"), 0);
    for (int look = 0; look < 2; look++) {
        t->did[0] = 0;
        t->now = death_deadline(t->d);
        (void)step(t, EV(TIMEOUT));
    }
    expect(t, "ENDED97>97 ENDED97>96 ENDED97>120 ENDED97>121");
    /* The next look is far: who asks now, who was not known, is answered at once, once. */
    assert_int_equal(says_from(t, 122, 122, DEATH_ENDED, 97, "96 100 120 121"), 0);
    expect(t, "ENDED97>122");
    assert_int_equal(says_from(t, 122, 122, DEATH_ENDED, 97, "96 100 120 121"), 0);
    expect(t, "");
    tested_free(t);
    /* Who does not know of one of them has not told it, and is answered, once, so that it does. */
    t = tested_new((struct death_cfg){.first = 2});
    link_up(t, 97);
    assert_int_equal(link_end(t, 97, DEATH_BROKEN, "96 120 121 98"), 0);
    t->did[0] = 0;
    assert_int_equal(says_from(t, 120, 120, DEATH_ENDED, 97, "96 100 98"), 0);
    expect(t, "");
    assert_int_equal(says_from(t, 121, 121, DEATH_ENDED, 97, "96 100 120"), 0);
    expect(t, "ENDED97>121");
    assert_int_equal(says_from(t, 121, 121, DEATH_ENDED, 97, "96 100 120"), 0);
    expect(t, "");
    tested_free(t);
    /* A neighbour of X that declares it tells the others itself; another witness may not know them. */
    for (uint32_t from = 50; from <= 51; from++) {
        t = tested_new((struct death_cfg){0});
        link_up(t, 9);
        link_up(t, 10);
        link_up(t, 52);
        assert_int_equal(link_end(t, 9, DEATH_BROKEN, "10 50"), 0);
        t->did[0] = 0;
        f = (struct death_frame){.kind = DEATH_DEAD, .subject = node(9), .number = 9, .hops = 1};
        (void)step(t, EV(FRAME, .id = node(from), .frame = &f));
        expect(t, from == 50 ? "dead9:0:9 DEAD9>52" : "dead9:0:9 DEAD9>52 DEAD9>10");
        tested_free(t);
    }
    /* We have objected before: all hear that we do not any more. */
    t = tested_new((struct death_cfg){.first = 1});
    link_up(t, 9);
    assert_int_equal(says_from(t, 1, 1, DEATH_ENDED, 9, "2 3"), 0);
    expect(t, "ALIVE9>1");
    assert_int_equal(link_end(t, 9, DEATH_BROKEN, ""), 0);
    expect(t, "probe9 ENDED9>9 ENDED9>1 ENDED9>2 ENDED9>3");
    tested_free(t);
}

/* Neighbours of which only another knows are waited for, and asked later. */
static void test_lists(void **state) {
    (void)state;
    struct tested *t = asked();
    assert_int_equal(says_from(t, 1, 1, DEATH_ENDED, 9, "2 100 9 4"), 0);
    expect(t, "");
    says(t, 2, DEATH_ENDED, 9);
    says(t, 3, DEATH_ENDED, 9);
    expect(t, "");
    says(t, 4, DEATH_NONE, 9);
    assert_non_null(strstr(t->did, "dead9"));
    tested_free(t);
    /* More than there is room for: nothing follows from links. */
    t = tested_new((struct death_cfg){.members = 3});
    link_up(t, 9);
    link_up(t, 50);
    assert_int_equal(link_end(t, 9, DEATH_BROKEN, "1 2 3 4"), 0);
    expect(t, "probe9 ENDED9>9 ENDED9>1 ENDED9>2 ENDED9>3");
    for (uint32_t i = 1; i <= 4; i++) says(t, i, DEATH_ENDED, 9);
    (void)step(t, EV(REFUSED, .id = node(9)));
    expect(t, "");
    t->now += 100 * MS;
    (void)step(t, EV(TIMEOUT));
    assert_non_null(strstr(t->did, "dead9:3:0")); /* but from a refusal and one witness */
    tested_free(t);
}

/* Neighbours on X's host: may have died with it. */
static void test_inside(void **state) {
    (void)state;
    struct tested *t = tested_new((struct death_cfg){0});
    assert_int_equal(step(t, EV(UP, .id = node(9), .host = 5)), 0);
    const struct death_member m[] = {{node(1), 1}, {node(2), 2}, {node(5), 5}};
    assert_int_equal(step(t, EV(END, .id = node(9), .members = m, .n = 3)), 0);
    says(t, 1, DEATH_ENDED, 9);
    says(t, 2, DEATH_ENDED, 9);
    t->did[0] = 0;
    assert_int_equal(death_deadline(t->d), t->now + 25 * MS);
    t->now += 25 * MS;
    (void)step(t, EV(TIMEOUT));
    expect(t, "ENDED9>5");
    t->now += 100 * MS - 1;
    (void)step(t, EV(TIMEOUT));
    expect(t, "");
    t->now++;
    (void)step(t, EV(TIMEOUT));
    expect(t, "dead9:2:0 DEAD9>1h1 DEAD9>2h1 DEAD9>5h1");
    tested_free(t);
    t = tested_new((struct death_cfg){0});
    assert_int_equal(step(t, EV(UP, .id = node(9), .host = 5)), 0);
    assert_int_equal(step(t, EV(END, .id = node(9), .members = m, .n = 3)), 0);
    says(t, 1, DEATH_ENDED, 9);
    says(t, 2, DEATH_ENDED, 9);
    t->did[0] = 0;
    assert_int_equal(says_from(t, 5, 5, DEATH_ENDED, 9, ""), 0); /* it lives, and says so: no need to wait */
    assert_non_null(strstr(t->did, "dead9"));
    tested_free(t);
    t = tested_new((struct death_cfg){0});
    assert_int_equal(step(t, EV(UP, .id = node(9), .host = 5)), 0);
    assert_int_equal(step(t, EV(END, .id = node(9), .members = m, .n = 3)), 0);
    for (uint32_t i = 1; i <= 2; i++) says(t, i, DEATH_ENDED, 9);
    assert_int_equal(says_from(t, 5, 5, DEATH_ALIVE, 9, ""), 0);
    t->did[0] = 0;
    t->now += 100 * MS;
    (void)step(t, EV(TIMEOUT));
    expect(t, "");
    tested_free(t);
    /* A host that is not known is nobody's. */
    t = tested_new((struct death_cfg){0});
    assert_int_equal(step(t, EV(UP, .id = node(9))), 0);
    const struct death_member u[] = {{node(1), 1}, {node(2), 2}, {node(5), 0}};
    assert_int_equal(step(t, EV(END, .id = node(9), .members = u, .n = 3)), 0);
    for (uint32_t i = 1; i <= 2; i++) says(t, i, DEATH_ENDED, 9);
    t->did[0] = 0;
    t->now += 100 * MS;
    (void)step(t, EV(TIMEOUT));
    expect(t, "");
    tested_free(t);
}

/* Those outside come first, so one inside is asked when these have spoken, and only then its silence counts. */
static void test_refused(void **state) {
    (void)state;
    struct tested *t = tested_new((struct death_cfg){0}); /* nobody else to ask */
    link_up(t, 9);
    (void)step(t, EV(REFUSED, .id = node(9)));
    expect(t, ""); /* our link stands */
    assert_int_equal(link_end(t, 9, DEATH_BROKEN, ""), 0);
    t->did[0] = 0;
    (void)step(t, EV(REFUSED, .id = node(9)));
    expect(t, "dead9:3:0");
    tested_free(t);
    t = asked(); /* all have answered */
    (void)step(t, EV(REFUSED, .id = node(9)));
    says(t, 1, DEATH_NONE, 9);
    says(t, 2, DEATH_NONE, 9);
    expect(t, "");
    says(t, 3, DEATH_NONE, 9);
    assert_non_null(strstr(t->did, "dead9:3:0"));
    tested_free(t);
    t = asked(); /* one says the same, the others are silent */
    (void)step(t, EV(REFUSED, .id = node(9)));
    says(t, 1, DEATH_ENDED, 9);
    expect(t, "");
    t->now += 100 * MS;
    (void)step(t, EV(TIMEOUT));
    assert_non_null(strstr(t->did, "dead9:3:0"));
    tested_free(t);
    t = asked(); /* all are silent: it may be we who are cut off */
    (void)step(t, EV(REFUSED, .id = node(9)));
    says(t, 1, DEATH_NONE, 9);
    t->now += 100 * MS;
    (void)step(t, EV(TIMEOUT));
    expect(t, "");
    says(t, 2, DEATH_ENDED, 9);
    assert_non_null(strstr(t->did, "dead9:3:0"));
    tested_free(t);
    t = asked(); /* an objection stands against it */
    (void)step(t, EV(REFUSED, .id = node(9)));
    says(t, 1, DEATH_ENDED, 9);
    says(t, 2, DEATH_ALIVE, 9);
    t->now += 100 * MS;
    (void)step(t, EV(TIMEOUT));
    expect(t, "");
    link_up(t, 9); /* and is forgotten with a new link */
    says(t, 2, DEATH_ENDED, 9);
    says(t, 3, DEATH_NONE, 9);
    t->did[0] = 0;
    assert_int_equal(link_end(t, 9, DEATH_BROKEN, ""), 0);
    expect(t, "dead9:2:0 DEAD9>1h1 DEAD9>2h1 DEAD9>3h1 DEAD9>50"); /* by links alone */
    tested_free(t);
}

/* Only the last link counts, and how it ended. */
static void test_how(void **state) {
    (void)state;
    struct tested *t = tested_new((struct death_cfg){.links = 2});
    link_up(t, 9);
    link_up(t, 9);
    assert_int_equal(link_end(t, 9, DEATH_BROKEN, "1"), 0);
    expect(t, "");
    says(t, 1, DEATH_ENDED, 9);
    expect(t, "ALIVE9>1"); /* one stands */
    assert_int_equal(link_end(t, 9, DEATH_ORDERLY, "1"), 0);
    expect(t, "NONE9>1");
    assert_int_equal(link_end(t, 9, DEATH_BROKEN, "1"), MOYAI_EINVAL);
    link_up(t, 8);
    assert_int_equal(link_end(t, 8, DEATH_SILENT, "1"), 0);
    assert_int_equal(link_end(t, 8, DEATH_SILENT, "1"), MOYAI_EINVAL);
    assert_int_equal(link_end(t, 7, DEATH_SILENT, "1"), MOYAI_EINVAL);
    expect(t, "");
    says(t, 1, DEATH_ENDED, 8);
    expect(t, "ALIVE8>1"); /* silence is no evidence: we object */
    assert_int_equal(death_deadline(t->d), t->now + 100 * MS);
    t->now += 30000 * MS;
    (void)step(t, EV(TIMEOUT));
    says(t, 1, DEATH_ENDED, 8);
    expect(t, "NONE8>1");
    /* A silent one gives its place away, a linked one does not. */
    link_up(t, 1);
    link_up(t, 2);
    assert_int_equal(step(t, EV(UP, .id = node(3))), MOYAI_EAGAIN);
    link_up(t, 2);
    assert_int_equal(link_end(t, 2, DEATH_SILENT, ""), 0);
    assert_int_equal(step(t, EV(UP, .id = node(3))), MOYAI_EAGAIN);
    assert_int_equal(link_end(t, 2, DEATH_SILENT, ""), 0);
    says(t, 1, DEATH_ENDED, 2);
    expect(t, "ALIVE2>1");
    link_up(t, 3);
    says(t, 1, DEATH_ENDED, 2);
    expect(t, "NONE2>1");
    tested_free(t);
}

static void test_final(void **state) {
    (void)state;
    struct tested *t = tested_new((struct death_cfg){0});
    struct death_member m[8];
    for (uint32_t i = 1; i <= 3; i++) link_up(t, i);
    /* A witness: to X, which may live, to its neighbours and to ours, who pass it on. */
    assert_int_equal(
        step(t, EV(WITNESSED, .id = node(1), .cause = DEATH_SIGNAL, .number = 9, .members = m, .n = members("2 7", m))),
        0);
    expect(t, "dead1:0:9 DEAD1>1 DEAD1>2h1 DEAD1>7h1 DEAD1>3h1");
    (void)step(t, EV(WITNESSED, .id = node(1), .cause = DEATH_EXIT));
    (void)step(t, EV(FAREWELL, .id = node(1)));
    expect(t, ""); /* the first word counts */
    assert_int_equal(step(t, EV(WITNESSED, .id = node(2), .cause = DEATH_CAUSES)), MOYAI_EINVAL);
    assert_int_equal(link_end(t, 1, DEATH_BROKEN, ""), MOYAI_EINVAL); /* its links are gone */
    (void)step(t, EV(FAREWELL, .id = node(2)));
    expect(t, "left2 LEFT2>3");
    assert_int_equal(death_of(t->d, &(struct moyai_node_id){{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}),
                     DEATH_HAS_LEFT);
    (void)step(t, EV(HEARD, .id = node(2)));
    says(t, 2, DEATH_ENDED, 3);
    expect(t, "");
    link_up(t, 2);
    expect(t, "LEFT2>2");
    says(t, 3, DEATH_ENDED, 2);
    expect(t, "LEFT2>3");
    /* From others: hops 1 is passed on to our links but whom it came from, 0 is not; once. */
    link_up(t, 4);
    struct death_frame f = {.kind = DEATH_DEAD, .subject = node(5), .cause = DEATH_EXIT, .number = 3, .hops = 1};
    (void)step(t, EV(FRAME, .id = node(4), .frame = &f));
    expect(t, "dead5:1:3 DEAD5>3");
    assert_true(t->last.frame.cause == DEATH_EXIT && t->last.frame.number == 3);
    (void)step(t, EV(FRAME, .id = node(3), .frame = &f));
    expect(t, "");
    f.subject = node(6);
    f.hops = 0;
    (void)step(t, EV(FRAME, .id = node(4), .frame = &f));
    expect(t, "dead6:1:3");
    f.kind = DEATH_LEFT;
    f.subject = node(7);
    f.hops = 1;
    f.cause = f.number = 0;
    (void)step(t, EV(FRAME, .id = node(4), .frame = &f));
    expect(t, "left7 LEFT7>3");
    f.subject = node(17);
    f.cleared = 1;
    (void)step(t, EV(FRAME, .id = node(4), .frame = &f));
    expect(t, "left17c LEFT17>3c");
    f.cleared = 2;
    assert_int_equal(step(t, EV(FRAME, .id = node(4), .frame = &f)), MOYAI_EPROTO);
    f.cleared = 0;
    /* Who asks about it hears the same. */
    says(t, 3, DEATH_ENDED, 17);
    expect(t, "LEFT17>3c");
    says(t, 3, DEATH_ENDED, 7);
    expect(t, "LEFT7>3");
    struct death_frame of;
    assert_true(death_news(t->d, &f.subject, &of) && of.kind == DEATH_LEFT && of.cleared == 1);
    /* Of one that we have a link to: who has left says so himself; who is dead is told, and has no link to us. */
    f.subject = node(3);
    (void)step(t, EV(FRAME, .id = node(4), .frame = &f));
    expect(t, "");
    link_up(t, 18); /* its link may break: it has left all the same */
    f.subject = node(18);
    (void)step(t, EV(FRAME, .id = node(4), .frame = &f));
    expect(t, "");
    assert_int_equal(link_end(t, 18, DEATH_BROKEN, "4"), 0);
    expect(t, "left18 LEFT18>3 LEFT18>4");
    f.kind = DEATH_DEAD;
    f.number = 9;
    f.subject = node(3);
    (void)step(t, EV(FRAME, .id = node(4), .frame = &f));
    expect(t, "dead3:0:9 DEAD3>3");
    f.number = 0;
    /* Of ourselves; also from one who is dead, who is not told so in turn: it could go on for ever. */
    f.subject = node(100);
    f.cause = DEATH_LINKS;
    (void)step(t, EV(FRAME, .id = node(3), .frame = &f));
    expect(t, "told:2:0");
    (void)step(t, EV(FRAME, .id = node(3), .frame = &f));
    (void)step(t, EV(FRAME, .id = node(4), .frame = &f));
    f.kind = DEATH_LEFT;
    (void)step(t, EV(FRAME, .id = node(4), .frame = &f));
    expect(t, "");
    says(t, 4, DEATH_ENDED, 100); /* asked about ourselves */
    expect(t, "ALIVE100>4");
    tested_free(t);
}

/* A dead neighbour is not waited for. */
static void test_chain(void **state) {
    (void)state;
    struct tested *t = asked();
    link_up(t, 8);
    t->did[0] = 0;
    assert_int_equal(link_end(t, 8, DEATH_BROKEN, "9 1 3"), 0);
    t->did[0] = 0;
    for (uint32_t i = 1; i <= 3; i += 2) says(t, i, DEATH_ENDED, 8);
    for (uint32_t i = 1; i <= 3; i += 2) says(t, i, DEATH_ENDED, 9);
    expect(t, ""); /* 8 waits for 9, 9 for 2 */
    (void)step(t, EV(WITNESSED, .id = node(2), .cause = DEATH_SIGNAL, .number = 9));
    assert_non_null(strstr(t->did, "dead2:0:9"));
    assert_non_null(strstr(t->did, "dead9:2:0"));
    assert_non_null(strstr(t->did, "dead8:2:0"));
    assert_null(strstr(t->did, "DEAD9>8")); /* the dead are not told of the dead */
    assert_null(strstr(t->did, "DEAD9>2"));
    /* Nor is one asked that was dead before. */
    link_up(t, 10);
    t->did[0] = 0;
    assert_int_equal(link_end(t, 10, DEATH_BROKEN, "2 1"), 0);
    expect(t, "probe10 ENDED10>10 ENDED10>1");
    tested_free(t);
    /* Who says of one death what completes the case of another knows the one only: it is told of the other. */
    t = asked();
    says(t, 1, DEATH_ENDED, 9);
    says(t, 2, DEATH_ENDED, 9);
    struct death_frame f = {.kind = DEATH_DEAD, .subject = node(3), .number = 9};
    (void)step(t, EV(FRAME, .id = node(2), .frame = &f));
    expect(t, "dead3:0:9 dead9:2:0 DEAD9>1h1 DEAD9>2h1 DEAD9>50");
    tested_free(t);
}

static void test_full(void **state) {
    (void)state;
    struct tested *t = tested_new((struct death_cfg){.cases = 1, .dead = 2});
    for (uint32_t i = 1; i <= 4; i++) link_up(t, i);
    says(t, 50, DEATH_ENDED, 1);
    expect(t, "ALIVE1>50");
    t->now++;
    says(t, 50, DEATH_ENDED, 2); /* where we only object gives way */
    expect(t, "ALIVE2>50");
    assert_null(death_case_of(t->d, node(1).b));
    assert_int_equal(link_end(t, 3, DEATH_BROKEN, "7"), 0);
    expect(t, "probe3 ENDED3>3 ENDED3>7");
    says(t, 50, DEATH_ENDED, 1); /* where we have asked does not */
    expect(t, "ALIVE1>50");
    assert_non_null(death_case_of(t->d, node(3).b));
    assert_int_equal(link_end(t, 4, DEATH_BROKEN, "7"), 0);
    expect(t, "");                       /* no room: nothing is claimed */
    for (uint32_t i = 20; i < 24; i++) { /* the dead: the one to be forgotten first is */
        t->now++;
        (void)step(t, EV(WITNESSED, .id = node(i), .cause = DEATH_OTHER));
        assert_int_equal(t->d->dead_n, i == 20 ? 1 : 2);
    }
    assert_non_null(death_dead_of(t->d, node(22).b));
    assert_non_null(death_dead_of(t->d, node(23).b));
    tested_free(t);
}

static void test_wrong(void **state) {
    (void)state;
    struct tested *t = asked();
    struct death_frame f = {.kind = DEATH_FRAMES, .subject = node(9), .seq = 1};
    struct death_event ev = EV(FRAME, .id = node(1), .frame = &f);
    assert_int_equal(step(t, ev), MOYAI_EINVAL);
    f.kind = DEATH_ENDED;
    f.n = DEATH_MEMBERS + 1;
    assert_int_equal(step(t, ev), MOYAI_EINVAL);
    f.n = 0;
    f.seq = 0;
    for (uint32_t k = DEATH_ENDED; k <= DEATH_NONE; k++) {
        f.kind = (enum death_frame_kind)k;
        assert_int_equal(step(t, ev), MOYAI_EPROTO);
    }
    f.seq = 1;
    f.hops = 2;
    assert_int_equal(step(t, ev), MOYAI_EPROTO);
    f.hops = 0;
    f.cause = DEATH_CAUSES;
    assert_int_equal(step(t, ev), MOYAI_EPROTO);
    f.cause = 0;
    memset(&f.subject, 0, 16);
    assert_int_equal(step(t, ev), MOYAI_EPROTO);
    f.subject = node(1);
    f.kind = DEATH_ENDED;
    assert_int_equal(step(t, ev), MOYAI_EPROTO); /* of itself */
    ev.frame = NULL;
    assert_int_equal(step(t, ev), MOYAI_EINVAL);
    ev.frame = &f;
    ev.id = node(100);
    assert_int_equal(step(t, ev), MOYAI_EINVAL);
    memset(&ev.id, 0, 16);
    assert_int_equal(step(t, ev), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(UP, .id = node(100))), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(WITNESSED, .id = node(100))), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(END, .id = node(50), .n = DEATH_MEMBERS + 1)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(END, .id = node(50), .how = (enum death_how)3)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(WITNESSED, .id = node(1), .n = DEATH_MEMBERS + 1)), MOYAI_EINVAL);
    assert_int_equal(step(t, (struct death_event){.kind = (enum death_event_kind)77, .id = node(1)}), MOYAI_EINVAL);
    /* Effects first. */
    ev = EV(FAREWELL, .id = node(50), .now = t->now);
    struct death_effect fx;
    assert_int_equal(death_step(t->d, &ev), 0);
    assert_int_equal(death_step(t->d, &ev), MOYAI_EINVAL);
    while (death_next(t->d, &fx)) {
    }
    assert_false(death_next(t->d, &fx));
    assert_int_equal(death_step(t->d, &ev), 0);
    while (death_next(t->d, &fx)) {
    }
    tested_free(t);
}

/* Any list of events: no invariant breaks, and what is refused leaves no trace (step sees to both). */
static void test_random(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct moyai_rng r;
        rng_seed(&r, seed);
        struct tested *t = tested_new((struct death_cfg){
            .links = 6, .cases = 3, .members = 4, .dead = 3, .keep = (moyai_dur)(1 + rng_below(&r, 900)) * MOYAI_MS});
        for (int i = 0; i < 1500; i++) {
            struct death_frame f = {.kind = (enum death_frame_kind)rng_below(&r, DEATH_FRAMES)};
            struct death_member m[4];
            struct death_event ev = {.kind = (enum death_event_kind)rng_below(&r, DEATH_EV_TIMEOUT + 1)};
            if ((ev.kind == DEATH_EV_WITNESSED || ev.kind == DEATH_EV_FAREWELL) && rng_below(&r, 4))
                ev.kind = DEATH_EV_UP;
            ev.id = node(1 + (uint32_t)rng_below(&r, 9));
            ev.host = rng_below(&r, 4);
            ev.how = (enum death_how)(rng_below(&r, 2) ? 0 : rng_below(&r, 3));
            ev.cause = (enum death_cause)rng_below(&r, DEATH_CAUSES);
            ev.number = ev.cause == DEATH_SIGNAL ? 9 : 0;
            ev.n = (uint32_t)rng_below(&r, 5);
            for (uint32_t k = 0; k < ev.n; k++)
                m[k] = f.m[k] = (struct death_member){node((uint32_t)rng_below(&r, 10)), rng_below(&r, 4)};
            ev.members = m;
            ev.frame = &f;
            f.n = ev.n;
            f.subject = node((uint32_t)(rng_below(&r, 20) ? 1 + rng_below(&r, 9) : 100));
            f.host = rng_below(&r, 4);
            f.seq = rng_below(&r, 200);
            f.cause = (uint32_t)rng_below(&r, DEATH_CAUSES);
            f.number = f.cause == DEATH_SIGNAL ? 9 : 0;
            f.hops = (uint32_t)rng_below(&r, 2);
            (void)step(t, ev);
            t->did[0] = 0;
            t->now += rng_below(&r, 40 * MS);
        }
        tested_free(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cfg),    cmocka_unit_test(test_complete), cmocka_unit_test(test_objection),
        cmocka_unit_test(test_enough), cmocka_unit_test(test_first),    cmocka_unit_test(test_lists),
        cmocka_unit_test(test_inside), cmocka_unit_test(test_refused),  cmocka_unit_test(test_how),
        cmocka_unit_test(test_final),  cmocka_unit_test(test_chain),    cmocka_unit_test(test_full),
        cmocka_unit_test(test_wrong),  cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests_name("death", tests, NULL, NULL);
}
