/* SPDX-License-Identifier: Apache-2.0 */
/* The death machine and time: what is said again, who is waited for, and until when what was said counts. */
#include "overlay/death_testkit.h"

static struct tested *one_inside(void) {
    struct tested *t = tested_new((struct death_cfg){0});
    assert_int_equal(step(t, EV(UP, .id = node(9), .host = 5)), 0);
    const struct death_member m[] = {{node(10), 1}, {node(11), 2}, {node(12), 3}, {node(5), 5}};
    assert_int_equal(step(t, EV(END, .id = node(9), .members = m, .n = 4)), 0);
    expect(t, "probe9 ENDED9>9 ENDED9>10 ENDED9>11 ENDED9>12");
    says(t, 10, DEATH_ENDED, 9);
    says(t, 11, DEATH_ENDED, 9);
    return t;
}

static void pass(struct tested *t, moyai_ns time) {
    t->now += time;
    (void)step(t, EV(TIMEOUT));
}

static void test_inside_asked(void **state) {
    (void)state;
    struct tested *t = one_inside();
    pass(t, 50 * MS);
    expect(t, ""); /* 12 has not spoken */
    says(t, 12, DEATH_ENDED, 9);
    expect(t, "ENDED9>5");
    assert_int_equal(death_deadline(t->d), t->now + 50 * MS); /* the first look, which asks nobody */
    pass(t, 50 * MS);
    expect(t, "");
    assert_int_equal(death_deadline(t->d), t->now + 50 * MS);
    pass(t, 50 * MS - 1);
    expect(t, "");
    pass(t, 1);
    expect(t, "dead9:2:0 DEAD9>10h1 DEAD9>11h1 DEAD9>12h1 DEAD9>5h1");
    tested_free(t);
    /* Before a quarter of the window nobody is asked who says it by itself. */
    t = one_inside();
    says(t, 12, DEATH_ENDED, 9);
    expect(t, "");
    assert_int_equal(death_deadline(t->d), t->now + 25 * MS);
    pass(t, 25 * MS);
    expect(t, "ENDED9>5");
    /* It objects. */
    says(t, 5, DEATH_ALIVE, 9);
    pass(t, 100 * MS);
    expect(t, "");
    tested_free(t);
    /* Another one inside, of which we hear when the first counts as silent, is asked and waited for as well. */
    t = one_inside();
    pass(t, 100 * MS);
    assert_int_equal(says_from(t, 12, 3, DEATH_NONE, 9, ""), 0);
    expect(t, "ENDED9>5");
    pass(t, 60 * MS);
    struct death_frame f = {.kind = DEATH_ENDED, .subject = node(9), .host = 1, .seq = 999, .n = 1};
    f.m[0] = (struct death_member){node(6), 5};
    assert_int_equal(step(t, EV(FRAME, .id = node(10), .frame = &f)), 0);
    expect(t, "ENDED9>5 ENDED9>6");
    pass(t, 99 * MS);
    assert_null(strstr(t->did, "dead9"));
    t->did[0] = 0;
    pass(t, 1 * MS);
    assert_non_null(strstr(t->did, "dead9:2:0"));
    tested_free(t);
}

static void test_time(void **state) {
    (void)state;
    struct tested *t = asked();
    says(t, 1, DEATH_ENDED, 9);
    says(t, 2, DEATH_ENDED, 9);
    t->now += 2000 * MS - 1;
    for (int look = 0; look < 5; look++) (void)step(t, EV(TIMEOUT));
    assert_non_null(death_case_of(t->d, node(9).b));
    assert_int_equal(death_deadline(t->d), t->now + 1);
    t->now++;
    (void)step(t, EV(TIMEOUT));
    assert_null(death_case_of(t->d, node(9).b));
    t->did[0] = 0;
    says(t, 3, DEATH_ENDED, 9); /* too late; we have no link, which is what we say */
    expect(t, "NONE9>3");
    tested_free(t);
}

/* What gets lost is said again: after twice the window, four times, and so on. */
static void test_again(void **state) {
    (void)state;
    struct tested *t = asked();
    moyai_ns begun = t->now;
    says(t, 1, DEATH_NONE, 9);
    says(t, 2, DEATH_ENDED, 9);
    expect(t, "");
    for (unsigned look = 0; look < 5; look++) {
        assert_int_equal(likely(t, 9), look == 0);
        assert_int_equal(death_deadline(t->d), begun + (100 * MS << look));
        t->now = death_deadline(t->d) - 1;
        (void)step(t, EV(TIMEOUT));
        expect(t, "");
        t->now++;
        (void)step(t, EV(TIMEOUT));
        expect(t, look == 0   ? ""
                  : look == 1 ? "ENDED9>9 ENDED9>3"
                  : look == 2 ? "ENDED9>9 ENDED9>2 ENDED9>3"
                              : "ENDED9>3");
        /* The second says it again: it has not heard us. It is answered at the next look, however often it says so. */
        for (int i = 0; look == 1 && i < 3; i++) says(t, 2, DEATH_ENDED, 9);
        if (look == 2) says(t, 9, DEATH_ALIVE, 9); /* it lives: it need not be asked again */
        expect(t, "");
    }
    assert_int_equal(death_deadline(t->d), begun + 2000 * MS);
    tested_free(t);
    t = asked(); /* who only objects, or has no link, says nothing of itself */
    link_up(t, 9);
    t->did[0] = 0;
    for (int look = 0; look < 3; look++) {
        t->now = death_deadline(t->d);
        (void)step(t, EV(TIMEOUT));
        expect(t, "");
    }
    tested_free(t);
}

/* A case that is over counts for nothing, also where its timer has not fired, as this node was stopped itself: neither
 * what others said in it, nor that it has been refused. */
static void test_stopped(void **state) {
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct tested *t = tested_new((struct death_cfg){0});
        link_up(t, 9);
        link_up(t, 50);
        says(t, 1, DEATH_ENDED, 9);
        expect(t, "ALIVE9>1");
        t->now += 2000 * MS - !late;
        assert_int_equal(link_end(t, 9, DEATH_BROKEN, "1 2"), 0);
        (void)step(t, EV(REFUSED, .id = node(9)));
        assert_int_equal(death_case_of(t->d, node(9).b)->since, t->now);
        pass(t, 100 * MS);
        if (late)
            expect(t, "probe9 ENDED9>9 ENDED9>1 ENDED9>2");
        else
            assert_non_null(strstr(t->did, "dead9:3:0"));
        tested_free(t);
    }
    struct tested *t = asked();
    says(t, 1, DEATH_ENDED, 9);
    t->now += 2000 * MS;
    (void)step(t, EV(REFUSED, .id = node(9)));
    assert_null(death_case_of(t->d, node(9).b));
    says(t, 2, DEATH_ENDED, 9);
    expect(t, "NONE9>2");
    tested_free(t);
    t = asked();
    says(t, 1, DEATH_ENDED, 9);
    says(t, 2, DEATH_ENDED, 9);
    t->now += 2000 * MS;
    says(t, 3, DEATH_ENDED, 9);
    expect(t, "NONE9>3");
    tested_free(t);
    t = asked(); /* and the timer itself does not judge by what was said */
    (void)step(t, EV(REFUSED, .id = node(9)));
    says(t, 1, DEATH_ENDED, 9);
    pass(t, 2000 * MS);
    expect(t, "");
    tested_free(t);
    /* An event that is refused ends no case. */
    t = asked();
    t->now += 2000 * MS;
    assert_int_equal(link_end(t, 9, DEATH_BROKEN, ""), MOYAI_EINVAL);
    assert_non_null(death_case_of(t->d, node(9).b));
    tested_free(t);
}

/* Who has lost all links may be the one that is cut off, or was stopped: that nobody objects means nothing. */
static void test_alone(void **state) {
    (void)state;
    for (int how = 0; how < 4; how++) {
        struct tested *t = tested_new((struct death_cfg){0});
        link_up(t, 9);
        if (how < 3) link_up(t, 50);
        says(t, 1, DEATH_ENDED, 9);
        assert_int_equal(link_end(t, 9, DEATH_BROKEN, "1 2"), 0);
        (void)step(t, EV(REFUSED, .id = node(9)));
        if (how == 1 || how == 2) assert_int_equal(link_end(t, 50, DEATH_BROKEN, ""), 0);
        if (how == 2) link_up(t, 60); /* what was asked before has not been heard */
        t->did[0] = 0;
        pass(t, 100 * MS);
        if (how == 0)
            assert_non_null(strstr(t->did, "dead9:3:0"));
        else
            expect(t, "");
        says(t, 2, DEATH_NONE, 9); /* when all have spoken it is so in any case */
        if (how > 0) assert_non_null(strstr(t->did, "dead9:3:0"));
        tested_free(t);
    }
    struct tested *t = asked(); /* a link to it again, and the next case is another one */
    assert_int_equal(link_end(t, 50, DEATH_BROKEN, ""), 0);
    assert_int_equal(death_case_of(t->d, node(9).b)->alone, 1);
    link_up(t, 9);
    link_up(t, 60);
    says(t, 1, DEATH_ENDED, 9);
    assert_int_equal(link_end(t, 9, DEATH_BROKEN, ""), 0);
    (void)step(t, EV(REFUSED, .id = node(9)));
    t->did[0] = 0;
    pass(t, 100 * MS);
    assert_non_null(strstr(t->did, "dead9:3:0"));
    tested_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inside_asked), cmocka_unit_test(test_again), cmocka_unit_test(test_time),
        cmocka_unit_test(test_stopped),      cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests_name("death_time", tests, NULL, NULL);
}
