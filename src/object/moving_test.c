/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of moving objects, one by one: what is said and what becomes of it, for each state and event. */
#include "object/moving.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* In state `from`, by move 4, having been here by move 3. */
#define NUMBER 4u
#define SEEN   3u

struct rule {
    enum moving_event ev;
    uint64_t number;
    enum moving_state to;
    enum moving_say say;
    uint64_t seen;
};

static void follow(enum moving_state from, const struct rule *rule, size_t n) {
    bool told[MOVING_EVENTS] = {false};
    for (size_t i = 0; i < n; i++) {
        struct moving m = {.state = from, .number = NUMBER, .seen = SEEN};
        told[rule[i].ev] = true;
        assert_int_equal(moving_step(&m, rule[i].ev, rule[i].number), rule[i].say);
        assert_int_equal(m.state, rule[i].to);
        assert_int_equal(m.seen, rule[i].seen);
        assert_int_equal(m.number,
                         rule[i].ev == MOVING_EV_ADOPT && rule[i].say == MOVING_SAY_YES ? rule[i].number : NUMBER);
    }
    for (int ev = 0; ev < MOVING_EVENTS; ev++) { /* what does not concern it leaves it as it is */
        struct moving m = {.state = from, .number = NUMBER, .seen = SEEN};
        if (told[ev]) continue;
        assert_int_equal(moving_step(&m, (enum moving_event)ev, NUMBER), MOVING_SAY_NOTHING);
        assert_int_equal(m.state, from);
        assert_int_equal(m.number, NUMBER);
        assert_int_equal(m.seen, SEEN);
    }
}
#define FOLLOW(from, ...)                                                                                              \
    do {                                                                                                               \
        static const struct rule rules[] = {__VA_ARGS__};                                                              \
        follow(from, rules, sizeof rules / sizeof rules[0]);                                                           \
    } while (0)

/* What is refused, and a settle of a move by which it has come, are the same wherever it is. */
#define OLD_SETTLES(state)                                                                                             \
    {MOVING_EV_SETTLE, SEEN - 1, state, MOVING_SAY_YES, SEEN}, {MOVING_EV_SETTLE, SEEN, state, MOVING_SAY_YES, SEEN},  \
    {                                                                                                                  \
        MOVING_EV_SETTLE, NUMBER + 1, state, MOVING_SAY_NO, SEEN                                                       \
    }
#define NOT_HERE_TOO(state)                                                                                            \
    { MOVING_EV_ADOPT, NUMBER + 1, state, MOVING_SAY_NO, SEEN }

static void who_has_it_not_takes_it(void **arg) {
    (void)arg;
    FOLLOW(MOVING_NONE, OLD_SETTLES(MOVING_NONE), {MOVING_EV_SETTLE, NUMBER, MOVING_NONE, MOVING_SAY_NO, SEEN},
           {MOVING_EV_ADOPT, NUMBER + 1, MOVING_ARRIVES, MOVING_SAY_YES, SEEN});
}

static void who_has_it_offers_it(void **arg) {
    (void)arg;
    FOLLOW(MOVING_HERE, OLD_SETTLES(MOVING_HERE), NOT_HERE_TOO(MOVING_HERE),
           {MOVING_EV_OFFER, 0, MOVING_OFFERED, MOVING_SAY_ADOPT, SEEN});
    const struct moving m = {.state = MOVING_OFFERED, .number = NUMBER, .seen = SEEN};
    assert_int_equal(moving_offer(&m), NUMBER + 1);
}

static void what_is_offered_stays_unless_it_is_taken(void **arg) {
    (void)arg;
    FOLLOW(MOVING_OFFERED, OLD_SETTLES(MOVING_OFFERED), NOT_HERE_TOO(MOVING_OFFERED),
           {MOVING_EV_YES, 0, MOVING_SETTLES, MOVING_SAY_SETTLE, SEEN},
           {MOVING_EV_NO, 0, MOVING_HERE, MOVING_SAY_NOTHING, SEEN},
           {MOVING_EV_PEER_GONE, 0, MOVING_HERE, MOVING_SAY_NOTHING, SEEN},
           {MOVING_EV_UNREACHABLE, 0, MOVING_HERE, MOVING_SAY_DROP, SEEN},
           {MOVING_EV_REBORN, 0, MOVING_HERE, MOVING_SAY_NOTHING, SEEN});
}

static void what_is_settled_has_gone_unless_it_is_refused(void **arg) {
    (void)arg;
    FOLLOW(MOVING_SETTLES, OLD_SETTLES(MOVING_SETTLES), NOT_HERE_TOO(MOVING_SETTLES),
           {MOVING_EV_YES, 0, MOVING_NONE, MOVING_SAY_NOTHING, SEEN},
           {MOVING_EV_NO, 0, MOVING_HERE, MOVING_SAY_DROP, SEEN},
           {MOVING_EV_PEER_GONE, 0, MOVING_NONE, MOVING_SAY_NOTHING, SEEN},
           {MOVING_EV_UNREACHABLE, 0, MOVING_SETTLES, MOVING_SAY_SETTLE, SEEN},
           {MOVING_EV_LATE, 0, MOVING_NONE, MOVING_SAY_NOTHING, SEEN},
           {MOVING_EV_REBORN, 0, MOVING_NONE, MOVING_SAY_NOTHING, SEEN});
}

/* By its own move only; and it goes with who can no more say which. */
static void what_arrives_is_here_when_it_is_settled(void **arg) {
    (void)arg;
    FOLLOW(MOVING_ARRIVES, OLD_SETTLES(MOVING_ARRIVES), NOT_HERE_TOO(MOVING_ARRIVES),
           {MOVING_EV_SETTLE, NUMBER, MOVING_HERE, MOVING_SAY_YES, NUMBER},
           {MOVING_EV_DROP, NUMBER, MOVING_NONE, MOVING_SAY_NOTHING, SEEN},
           {MOVING_EV_DROP, NUMBER - 1, MOVING_ARRIVES, MOVING_SAY_NOTHING, SEEN},
           {MOVING_EV_DROP, NUMBER + 1, MOVING_ARRIVES, MOVING_SAY_NOTHING, SEEN},
           {MOVING_EV_PEER_GONE, 0, MOVING_NONE, MOVING_SAY_NOTHING, SEEN},
           {MOVING_EV_UNREACHABLE, 0, MOVING_NONE, MOVING_SAY_NOTHING, SEEN},
           {MOVING_EV_REBORN, 0, MOVING_NONE, MOVING_SAY_NOTHING, SEEN});
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(who_has_it_not_takes_it),
        cmocka_unit_test(who_has_it_offers_it),
        cmocka_unit_test(what_is_offered_stays_unless_it_is_taken),
        cmocka_unit_test(what_is_settled_has_gone_unless_it_is_refused),
        cmocka_unit_test(what_arrives_is_here_when_it_is_settled),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
