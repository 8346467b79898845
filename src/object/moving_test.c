/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of moving objects, one by one: what is said and what becomes of it, for each state and event. */
#include "object/moving.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* In state `from`, by move 4; what went by move 3 was given, and by move 2 dropped, unless a test says otherwise. */
#define NUMBER  4u
#define GIVEN   3u
#define DROPPED 2u

struct rule {
    enum moving_event ev;
    uint64_t number;
    enum moving_state to;
    enum moving_say say;
    uint64_t number_then, given, dropped;
};

static void follow(enum moving_state from, uint64_t given, const struct rule *rule, size_t n) {
    bool told[MOVING_EVENTS] = {false};
    for (size_t i = 0; i < n; i++) {
        struct moving m = {.state = from, .number = NUMBER, .given = given, .dropped = DROPPED};
        told[rule[i].ev] = true;
        assert_int_equal(moving_step(&m, rule[i].ev, rule[i].number), rule[i].say);
        assert_int_equal(m.state, rule[i].to);
        assert_int_equal(m.number, rule[i].number_then);
        assert_int_equal(m.given, rule[i].given);
        assert_int_equal(m.dropped, rule[i].dropped);
    }
    for (int ev = 0; ev < MOVING_EVENTS; ev++) { /* what does not concern it leaves it as it is */
        struct moving m = {.state = from, .number = NUMBER, .given = given, .dropped = DROPPED};
        if (told[ev]) continue;
        assert_int_equal(moving_step(&m, (enum moving_event)ev, NUMBER), MOVING_SAY_NOTHING);
        assert_int_equal(m.state, from);
        assert_int_equal(m.number, NUMBER);
        assert_int_equal(m.given, given);
        assert_int_equal(m.dropped, DROPPED);
    }
}
#define FOLLOW(from, given, ...)                                                                                       \
    do {                                                                                                               \
        static const struct rule rules[] = {__VA_ARGS__};                                                              \
        follow(from, given, rules, sizeof rules / sizeof rules[0]);                                                    \
    } while (0)
#define AS_BEFORE        NUMBER, GIVEN, DROPPED
#define STAYS(number, g) number, g, DROPPED

/* A settle of a move that is not known to have been dropped here was answered already: it may have gone on. */
#define OLD_SETTLES(state)                                                                                             \
    {MOVING_EV_SETTLE, DROPPED, state, MOVING_SAY_NO, AS_BEFORE},                                                      \
        {MOVING_EV_SETTLE, DROPPED - 1, state, MOVING_SAY_YES, AS_BEFORE},                                             \
        {MOVING_EV_SETTLE, NUMBER + 1, state, MOVING_SAY_YES, AS_BEFORE}, {                                            \
        MOVING_EV_DROP, NUMBER + 1, state, MOVING_SAY_NOTHING, AS_BEFORE                                               \
    }
#define NOT_HERE_TOO(state)                                                                                            \
    { MOVING_EV_ADOPT, NUMBER + 1, state, MOVING_SAY_NO, AS_BEFORE }
#define NOT_YOURS(state)                                                                                               \
    {MOVING_EV_CLAIM, 0, state, MOVING_SAY_NO, AS_BEFORE}, {                                                           \
        MOVING_EV_CLAIM, GIVEN - 1, state, MOVING_SAY_NO, AS_BEFORE                                                    \
    }

static void who_has_it_not_takes_it(void **arg) {
    (void)arg;
    FOLLOW(MOVING_NONE, GIVEN, OLD_SETTLES(MOVING_NONE), NOT_YOURS(MOVING_NONE),
           {MOVING_EV_CLAIM, GIVEN, MOVING_NONE, MOVING_SAY_YES, AS_BEFORE},
           {MOVING_EV_ADOPT, NUMBER + 1, MOVING_ARRIVES, MOVING_SAY_YES, NUMBER + 1, GIVEN, 0});
    struct moving m = {.state = MOVING_NONE}; /* nothing is remembered */
    assert_int_equal(moving_step(&m, MOVING_EV_CLAIM, 0), MOVING_SAY_NO);
    assert_int_equal(moving_step(&m, MOVING_EV_SETTLE, 1), MOVING_SAY_YES);
}

static void who_has_it_offers_it(void **arg) {
    (void)arg;
    FOLLOW(MOVING_HERE, GIVEN, OLD_SETTLES(MOVING_HERE), NOT_HERE_TOO(MOVING_HERE), NOT_YOURS(MOVING_HERE),
           {MOVING_EV_CLAIM, GIVEN, MOVING_HERE, MOVING_SAY_NO, AS_BEFORE},
           {MOVING_EV_OFFER, 0, MOVING_OFFERED, MOVING_SAY_ADOPT, AS_BEFORE});
    const struct moving m = {.state = MOVING_OFFERED, .number = NUMBER};
    assert_int_equal(moving_offer(&m), NUMBER + 1);
}

static void what_is_offered_stays_unless_it_is_taken(void **arg) {
    (void)arg;
    FOLLOW(MOVING_OFFERED, GIVEN, OLD_SETTLES(MOVING_OFFERED), NOT_HERE_TOO(MOVING_OFFERED), NOT_YOURS(MOVING_OFFERED),
           {MOVING_EV_YES, 0, MOVING_SETTLES, MOVING_SAY_SETTLE, AS_BEFORE},
           {MOVING_EV_NO, 0, MOVING_HERE, MOVING_SAY_NOTHING, STAYS(NUMBER + 1, 0)},
           {MOVING_EV_NEVER, 0, MOVING_HERE, MOVING_SAY_NOTHING, STAYS(NUMBER + 1, 0)},
           {MOVING_EV_PEER_GONE, 0, MOVING_HERE, MOVING_SAY_NOTHING, STAYS(NUMBER + 1, 0)},
           {MOVING_EV_UNREACHABLE, 0, MOVING_HERE, MOVING_SAY_DROP, STAYS(NUMBER + 1, 0)},
           {MOVING_EV_REBORN, 0, MOVING_HERE, MOVING_SAY_NOTHING, STAYS(NUMBER + 1, 0)},
           {MOVING_EV_LATE, 0, MOVING_HERE, MOVING_SAY_NOTHING, STAYS(NUMBER + 1, 0)},
           {MOVING_EV_CLAIM, NUMBER + 1, MOVING_HERE, MOVING_SAY_NO, STAYS(NUMBER + 1, 0)});
}

static void what_is_settled_has_gone_unless_it_is_refused(void **arg) {
    (void)arg;
    FOLLOW(MOVING_SETTLES, GIVEN, OLD_SETTLES(MOVING_SETTLES), NOT_HERE_TOO(MOVING_SETTLES),
           {MOVING_EV_YES, 0, MOVING_NONE, MOVING_SAY_NOTHING, STAYS(NUMBER, 0)},
           {MOVING_EV_NO, 0, MOVING_HERE, MOVING_SAY_DROP, STAYS(NUMBER + 1, 0)},
           {MOVING_EV_NEVER, 0, MOVING_HERE, MOVING_SAY_DROP, STAYS(NUMBER + 1, 0)},
           {MOVING_EV_PEER_GONE, 0, MOVING_NONE, MOVING_SAY_NOTHING, STAYS(NUMBER, NUMBER + 1)},
           {MOVING_EV_UNREACHABLE, 0, MOVING_SETTLES, MOVING_SAY_SETTLE, AS_BEFORE},
           {MOVING_EV_REBORN, 0, MOVING_SETTLES, MOVING_SAY_SETTLE, AS_BEFORE},
           {MOVING_EV_LATE, 0, MOVING_NONE, MOVING_SAY_NOTHING, STAYS(NUMBER, NUMBER + 1)},
           {MOVING_EV_CLAIM, 0, MOVING_SETTLES, MOVING_SAY_NO, AS_BEFORE},
           {MOVING_EV_CLAIM, GIVEN - 1, MOVING_SETTLES, MOVING_SAY_NO, AS_BEFORE},
           {MOVING_EV_CLAIM, NUMBER + 1, MOVING_SETTLES, MOVING_SAY_YES, STAYS(NUMBER, NUMBER + 1)});
}

/* Who was told that it is his has it, though settle has not come. */
static void what_was_claimed_does_not_come_back(void **arg) {
    (void)arg;
    struct moving m = {.state = MOVING_SETTLES, .number = NUMBER};
    assert_int_equal(moving_step(&m, MOVING_EV_CLAIM, NUMBER + 1), MOVING_SAY_YES);
    assert_int_equal(moving_step(&m, MOVING_EV_NEVER, 0), MOVING_SAY_SETTLE);
    assert_int_equal(m.state, MOVING_SETTLES);
    assert_int_equal(moving_step(&m, MOVING_EV_PEER_GONE, 0), MOVING_SAY_NOTHING);
    assert_int_equal(moving_step(&m, MOVING_EV_CLAIM, NUMBER + 1), MOVING_SAY_YES);
    assert_int_equal(m.state, MOVING_NONE);
}

/* By its own move only. */
#define ARRIVING(state)                                                                                                \
    OLD_SETTLES(state), NOT_HERE_TOO(state), NOT_YOURS(state),                                                         \
        {MOVING_EV_CLAIM, GIVEN, state, MOVING_SAY_NO, AS_BEFORE},                                                     \
        {MOVING_EV_SETTLE, NUMBER, MOVING_HERE, MOVING_SAY_YES, NUMBER, 0, 0},                                         \
        {MOVING_EV_DROP, NUMBER, MOVING_NONE, MOVING_SAY_NOTHING, NUMBER, GIVEN, NUMBER},                              \
        {MOVING_EV_DROP, NUMBER - 1, state, MOVING_SAY_NOTHING, AS_BEFORE},                                            \
        {MOVING_EV_PEER_GONE, 0, MOVING_NONE, MOVING_SAY_NOTHING, NUMBER, GIVEN, NUMBER},                              \
        {MOVING_EV_LATE, 0, MOVING_NONE, MOVING_SAY_NOTHING, NUMBER, GIVEN, NUMBER},                                   \
        {MOVING_EV_UNREACHABLE, 0, MOVING_CLAIMS, MOVING_SAY_CLAIM, AS_BEFORE}, {                                      \
        MOVING_EV_REBORN, 0, MOVING_CLAIMS, MOVING_SAY_CLAIM, AS_BEFORE                                                \
    }

static void what_arrives_is_here_when_it_is_settled(void **arg) {
    (void)arg;
    FOLLOW(MOVING_ARRIVES, GIVEN, ARRIVING(MOVING_ARRIVES));
}

static void who_is_not_told_whose_it_is_asks(void **arg) {
    (void)arg;
    FOLLOW(MOVING_CLAIMS, GIVEN, ARRIVING(MOVING_CLAIMS),
           {MOVING_EV_YES, 0, MOVING_HERE, MOVING_SAY_NOTHING, NUMBER, 0, 0},
           {MOVING_EV_NO, 0, MOVING_NONE, MOVING_SAY_NOTHING, NUMBER, GIVEN, NUMBER});
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(who_has_it_not_takes_it),
        cmocka_unit_test(who_has_it_offers_it),
        cmocka_unit_test(what_is_offered_stays_unless_it_is_taken),
        cmocka_unit_test(what_is_settled_has_gone_unless_it_is_refused),
        cmocka_unit_test(what_was_claimed_does_not_come_back),
        cmocka_unit_test(what_arrives_is_here_when_it_is_settled),
        cmocka_unit_test(who_is_not_told_whose_it_is_asks),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
