/* SPDX-License-Identifier: Apache-2.0 */
/* Each invariant is one: break it in a block that is right, and death_check says so. */
#include "overlay/death_testkit.h"

static struct tested *right(void) {
    struct tested *t = tested_new((struct death_cfg){.links = 6, .cases = 3, .dead = 4, .members = 4});
    for (uint32_t i = 1; i <= 4; i++) link_up(t, i);
    (void)link_end(t, 1, DEATH_BROKEN, "2 20 21"); /* case 0: we ask */
    says(t, 30, DEATH_ENDED, 2);                   /* case 1: we object */
    (void)link_end(t, 3, DEATH_SILENT, "");
    (void)step(t, EV(WITNESSED, .id = node(40), .cause = DEATH_EXIT));
    (void)step(t, EV(FAREWELL, .id = node(41)));
    struct moyai_error why;
    assert_true(death_check(t->d, &why));
    assert_true(t->d->links_n == 3 && t->d->dead_n == 2);
    return t;
}

#define BREAKS(change)                                                                                                 \
    do {                                                                                                               \
        struct tested *t = right();                                                                                    \
        struct death *d = t->d;                                                                                        \
        struct death_link *l = death_links(d);                                                                         \
        struct death_case *c = death_cases(d);                                                                         \
        struct death_dead *x = death_deads(d);                                                                         \
        struct death_seat *s = death_seats(d, c);                                                                      \
        struct moyai_error why = {0};                                                                                  \
        (void)l, (void)c, (void)x, (void)s;                                                                            \
        change;                                                                                                        \
        if (death_check(d, &why)) fail_msg("%s goes unseen", #change);                                                 \
        assert_true(why.code == MOYAI_EINTERNAL && why.text[0]);                                                       \
        tested_free(t);                                                                                                \
    } while (0)

static void test_all(void **state) {
    (void)state;
    BREAKS(d->links_n = 7);
    BREAKS(d->dead_n = 5);
    BREAKS(d->links_cap = 2);
    BREAKS(memset(l[0].id, 0, 16));
    BREAKS(memcpy(l[0].id, d->self, 16));
    BREAKS(memcpy(l[1].id, l[0].id, 16));
    BREAKS(memcpy(l[0].id, x[0].id, 16));
    BREAKS(l[0].n = 0);
    BREAKS(l[0].silent = 1);
    BREAKS(l[3].host = 1);
    BREAKS(l[5].n = 1);
    BREAKS(memset(x[0].id, 0, 16));
    BREAKS(memcpy(x[0].id, d->self, 16));
    BREAKS(memcpy(x[1].id, x[0].id, 16));
    BREAKS(x[0].news = 1);
    BREAKS(x[0].hops = 1);
    BREAKS(x[0].left = DEATH_CLEAR + 1);
    BREAKS(x[0].cause = DEATH_CAUSES);
    BREAKS(x[2].until = 1);
    BREAKS(x[3].number = 1);
    BREAKS(c[0].n = 5);
    BREAKS(s[3].say = 1);
    BREAKS((c[0].n = 2));
    BREAKS(c[2].own = 1);
    BREAKS(c[2].n = 1);
    BREAKS(death_seats(d, &c[2])[0].say = 1);
    BREAKS(memset(c[0].id, 0, 16));
    BREAKS(memcpy(c[1].id, c[0].id, 16));
    BREAKS(memcpy(c[0].id, d->self, 16));
    BREAKS(memcpy(c[0].id, x[0].id, 16));
    BREAKS(c[0].own = SAID_NOTHING);
    BREAKS(c[0].own = 4);
    BREAKS(c[0].own = SAID_ALIVE);
    BREAKS(c[1].own = SAID_ENDED);
    BREAKS(c[1].own = SAID_NONE);
    BREAKS(c[1].refused = 1);
    BREAKS(c[1].alone = 1);
    BREAKS(c[0].ask = 1);
    BREAKS(c[0].probe = 1);
    BREAKS(memset(s[0].id, 0, 16));
    BREAKS(memcpy(s[0].id, d->self, 16));
    BREAKS(memcpy(s[0].id, c[0].id, 16));
    BREAKS(memcpy(s[1].id, s[0].id, 16));
    BREAKS(s[0].say = 1);
    BREAKS(s[0].said = 4);
    BREAKS(d->reply = 1);
    BREAKS(d->told = 1);
    BREAKS(d->stage = 1);
    BREAKS(d->at = 1);
    BREAKS(d->from[0] = 1);
    struct tested *t = right(); /* while effects are fetched much of it does not hold */
    struct moyai_error why;
    t->d->draining = 1;
    t->d->reply = 1;
    assert_true(death_check(t->d, &why));
    tested_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests_name("death check", tests, NULL, NULL);
}
