/* SPDX-License-Identifier: Apache-2.0 */
/* The leave machine, rule by rule (doc/spec/09-leave.md, section 4). What rules do together is for the explorer. */
#include "member/leave_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tested {
    struct leave *l;
    size_t size;
    char did[1024]; /* since it was last looked at */
};

static struct tested *tested_new(uint32_t ports) {
    const struct leave_cfg cfg = {.ports = ports};
    struct tested *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->size = leave_size(&cfg);
    assert_true(t->size > 0);
    t->l = aligned_alloc(16, t->size);
    assert_non_null(t->l);
    memset(t->l, 0, t->size);
    assert_int_equal(leave_init(t->l, &cfg), 0);
    return t;
}

static void tested_free(struct tested *t) {
    free(t->l);
    free(t);
}

/* An event; what is refused leaves no trace. */
static int step(struct tested *t, struct leave_event ev) {
    static const char *const frames[] = {"SEEK", "ROOT", "ACK"};
    static const char *const effects[] = {"", "data", "pass", "deliver", "hold", "close", "done"};
    void *before = malloc(t->size);
    assert_non_null(before);
    memcpy(before, t->l, t->size);
    const int rc = leave_step(t->l, &ev);
    if (rc) assert_memory_equal(before, t->l, t->size);
    free(before);
    struct leave_effect fx;
    while (leave_next(t->l, &fx)) {
        char *at = t->did + strlen(t->did);
        const size_t left = sizeof t->did - (size_t)(at - t->did);
        const char *gap = at == t->did ? "" : " ";
        if (fx.kind != LEAVE_FX_FRAME)
            snprintf(at, left, fx.link ? "%s%s@%" PRIu64 : "%s%s", gap, effects[fx.kind], fx.link);
        else if (fx.frame == LEAVE_ACK)
            snprintf(at, left, "%sACK@%" PRIu64, gap, fx.link);
        else
            snprintf(at, left, "%s%s%" PRIu32 "@%" PRIu64, gap, frames[fx.frame], fx.n, fx.link);
    }
    struct moyai_error why = {0};
    if (!leave_check(t->l, &why)) fail_msg("%s", why.text);
    return rc;
}

#define EV(k, ...)       ((struct leave_event){.kind = LEAVE_EV_##k, ##__VA_ARGS__})
#define OPEN(t, at)      assert_int_equal(step(t, EV(OPEN, .link = (at))), 0)
#define GET(t, f, at, k) assert_int_equal(step(t, EV(FRAME, .frame = LEAVE_##f, .link = (at), .n = (k))), 0)
#define DID(t, text)                                                                                                   \
    do {                                                                                                               \
        assert_string_equal((t)->did, text);                                                                           \
        (t)->did[0] = 0;                                                                                               \
    } while (0)

static struct tested *with_channels(uint64_t n) {
    struct tested *t = tested_new(8);
    for (uint64_t i = 1; i <= n; i++) OPEN(t, i);
    DID(t, "");
    return t;
}

/* With channels 1 to n of which all but the first come later, attached over channel 1. */
static struct tested *attached(uint64_t n) {
    struct tested *t = with_channels(n);
    assert_int_equal(step(t, EV(WANT)), 0);
    t->did[0] = 0;
    GET(t, ROOT, 1, 1);
    return t;
}

static void test_configuration(void **state) {
    (void)state;
    assert_int_equal(leave_size(&(struct leave_cfg){.ports = 65537}), 0);
    assert_true(leave_size(&(struct leave_cfg){.ports = 65536}) > 0);
    assert_int_equal(leave_size(&(struct leave_cfg){0}), leave_size(&(struct leave_cfg){.ports = 512}));
    struct tested *t = tested_new(1);
    assert_true(t->size % 16 == 0 && t->size >= t->l->off_fx + t->l->fx_cap * sizeof(struct leave_effect));
    OPEN(t, 9);
    assert_int_equal(step(t, EV(OPEN, .link = 10)), MOYAI_ELIMIT);
    assert_int_equal(step(t, EV(OPENING, .link = 10)), MOYAI_ELIMIT);
    tested_free(t);
}

/* R1, R3: who stays sends to whom it likes that stays, and deals with what comes. */
static void test_who_stays(void **state) {
    (void)state;
    struct tested *t = with_channels(2);
    assert_true(leave_may_send(t->l, 1));
    assert_int_equal(step(t, EV(SAY, .link = 1)), 0);
    DID(t, "data@1");
    assert_int_equal(step(t, EV(DATA, .link = 2)), 0);
    DID(t, "deliver@2");
    GET(t, SEEK, 1, 5); /* R5: it has a root: this node */
    DID(t, "ROOT5@1");
    assert_false(leave_may_send(t->l, 1)); /* and has been told that nothing comes any more */
    assert_int_equal(step(t, EV(SAY, .link = 1)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(SAY, .link = 3)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(DATA, .link = 1)), 0); /* from its child */
    DID(t, "deliver@1");
    GET(t, ACK, 1, 0); /* R8 */
    DID(t, "ACK@1 close@1");
    assert_false(leave_knows(t->l, 1));
    assert_true(leave_knows(t->l, 2));
    assert_int_equal(step(t, EV(PASS)), MOYAI_EINVAL);
    tested_free(t);
}

/* R2, R6, R7, R8: the way of one that leaves among those that stay. */
static void test_one_leaves(void **state) {
    (void)state;
    struct tested *t = with_channels(3);
    assert_int_equal(step(t, EV(WANT)), 0);
    DID(t, "SEEK1@1 SEEK2@2 SEEK3@3");
    assert_int_equal(leave_phase(t->l), LEAVE_SEEKING);
    assert_int_equal(step(t, EV(WANT)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(SAY, .link = 1)), 0);
    assert_int_equal(step(t, EV(DATA, .link = 3)), 0);
    DID(t, "hold hold");
    assert_int_equal(step(t, EV(PASS)), MOYAI_EINVAL); /* where to? */
    GET(t, ROOT, 2, 2);
    assert_int_equal(leave_parent(t->l), 2);
    DID(t, "");
    assert_int_equal(step(t, EV(SAY)), MOYAI_EAGAIN); /* R1: not while others are held */
    assert_int_equal(step(t, EV(PASS)), 0);
    GET(t, ROOT, 1, 1);
    GET(t, ROOT, 3, 3);
    DID(t, "pass@2"); /* spares; and one is held still */
    assert_int_equal(leave_held(t->l), 1);
    assert_int_equal(step(t, EV(PASS)), 0);
    DID(t, "pass@2 ACK@1 ACK@2 ACK@3");
    assert_int_equal(leave_phase(t->l), LEAVE_CLOSING);
    assert_int_equal(step(t, EV(SAY)), MOYAI_ELEAVING);
    assert_int_equal(step(t, EV(DATA, .link = 2)), MOYAI_EPROTO); /* who sent that has answered ROOT */
    GET(t, ACK, 2, 0);
    GET(t, SEEK, 1, 9); /* it wants to leave, too, and had not had our ACK: nothing more to say */
    GET(t, ACK, 1, 0);
    DID(t, "close@2 close@1");
    GET(t, ACK, 3, 0);
    DID(t, "close@3 done");
    assert_int_equal(leave_phase(t->l), LEAVE_DONE);
    assert_int_equal(step(t, EV(OPEN, .link = 4)), MOYAI_EINVAL);
    tested_free(t);
}

/* R4, R1: with a parent, and nothing held, the user's go straight up. */
static void test_up(void **state) {
    (void)state;
    struct tested *t = attached(2);
    assert_int_equal(step(t, EV(SAY)), 0);
    DID(t, "data@1");
    assert_int_equal(step(t, EV(DATA, .link = 2)), 0);
    DID(t, "hold");
    tested_free(t);
}

/* R5, R6: what a child asks is asked of the parent, one question at a time, and answered when that is. */
static void test_children(void **state) {
    (void)state;
    struct tested *t = attached(4);
    GET(t, SEEK, 2, 7);
    DID(t, "SEEK5@1");
    GET(t, SEEK, 3, 8); /* waits */
    GET(t, SEEK, 2, 9); /* the latest counts, and has not been passed up */
    DID(t, "");
    GET(t, ROOT, 1, 4); /* of an earlier question */
    DID(t, "");
    GET(t, ROOT, 1, 5);
    DID(t, "SEEK6@1"); /* nobody was asked for; now for both */
    GET(t, ROOT, 1, 6);
    DID(t, "ROOT9@2 ROOT8@3");
    GET(t, ROOT, 2, 2); /* it has one, too: neither is the other's parent */
    DID(t, "ACK@2");
    GET(t, SEEK, 2, 11);
    DID(t, "");
    GET(t, ACK, 2, 0);
    DID(t, "close@2");
    GET(t, ROOT, 4, 4); /* a spare */
    DID(t, "");
    GET(t, ACK, 3, 0); /* the last child */
    DID(t, "ACK@3 close@3 ACK@1 ACK@4");
    tested_free(t);
}

/* R5: the parent leaves, and asks: so it has no root, and whoever hangs on it has none. */
static void test_the_parent_leaves(void **state) {
    (void)state;
    struct tested *t = attached(3);
    GET(t, SEEK, 3, 7);
    DID(t, "SEEK4@1");
    GET(t, SEEK, 1, 20);
    DID(t, "SEEK5@1 SEEK6@2 SEEK7@3");
    assert_int_equal(leave_phase(t->l), LEAVE_SEEKING);
    GET(t, ROOT, 1, 4); /* too old to mean anything */
    assert_int_equal(leave_phase(t->l), LEAVE_SEEKING);
    GET(t, ROOT, 2, 6);
    assert_int_equal(leave_parent(t->l), 2);
    DID(t, "SEEK8@2"); /* for 1 and 3, who asked */
    GET(t, ROOT, 2, 8);
    DID(t, "ROOT20@1 ROOT7@3");
    tested_free(t);
}

/* E1: none that leaves agrees to a channel; what was being opened is asked, or forgotten, before the end. */
static void test_channels_come(void **state) {
    (void)state;
    struct tested *t = with_channels(1);
    assert_int_equal(step(t, EV(OPENING, .link = 2)), 0);
    assert_int_equal(step(t, EV(OPENING, .link = 2)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(OPENING, .link = 3)), 0);
    assert_false(leave_may_send(t->l, 2));
    assert_int_equal(step(t, EV(DATA, .link = 2)), MOYAI_EPROTO);
    assert_int_equal(step(t, EV(FRAME, .frame = LEAVE_SEEK, .link = 2, .n = 1)), MOYAI_EPROTO);
    assert_int_equal(step(t, EV(WANT)), 0);
    DID(t, "SEEK1@1");
    GET(t, ROOT, 1, 1);
    DID(t, ""); /* not yet */
    assert_int_equal(step(t, EV(OPEN, .link = 4)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(OPENING, .link = 4)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(OPEN, .link = 2)), 0);
    DID(t, "SEEK2@2");
    assert_int_equal(step(t, EV(REFUSED, .link = 2)), MOYAI_EINVAL);
    GET(t, ROOT, 2, 2);
    DID(t, "");
    assert_int_equal(step(t, EV(REFUSED, .link = 3)), 0);
    DID(t, "ACK@1 ACK@2");
    tested_free(t);
}

/* E2: a broken channel is as good as closed; without its parent a node seeks anew, and may open a channel. */
static void test_channels_break(void **state) {
    (void)state;
    struct tested *t = attached(2);
    assert_int_equal(step(t, EV(RESET, .link = 9)), MOYAI_EINVAL);
    GET(t, ROOT, 2, 2);
    DID(t, "ACK@1 ACK@2");
    assert_int_equal(step(t, EV(RESET, .link = 1)), 0);
    assert_int_equal(step(t, EV(RESET, .link = 2)), 0);
    DID(t, "done");
    tested_free(t);
    t = attached(3);
    assert_int_equal(step(t, EV(RESET, .link = 3)), 0); /* not the parent's */
    DID(t, "");
    assert_int_equal(leave_parent(t->l), 1);
    tested_free(t);
    t = attached(2);
    assert_int_equal(step(t, EV(RESET, .link = 1)), 0);
    DID(t, "SEEK3@2");
    assert_int_equal(step(t, EV(RESET, .link = 2)), 0);
    DID(t, "");
    assert_int_equal(leave_phase(t->l), LEAVE_SEEKING);
    assert_int_equal(step(t, EV(OPENING, .link = 5)), 0); /* E2b: cut off */
    assert_int_equal(step(t, EV(OPEN, .link = 5)), 0);
    DID(t, "SEEK4@5");
    GET(t, ROOT, 5, 4);
    DID(t, "ACK@5");
    tested_free(t);
}

static void test_who_breaks_the_rules(void **state) {
    (void)state;
    struct tested *t = attached(2);
    assert_int_equal(step(t, EV(FRAME, .frame = LEAVE_ACK, .link = 1)), MOYAI_EPROTO); /* a parent waits for ours */
    assert_int_equal(step(t, EV(FRAME, .frame = LEAVE_SEEK, .link = 2)), MOYAI_EPROTO);
    assert_int_equal(step(t, EV(FRAME, .frame = LEAVE_FRAMES, .link = 2, .n = 1)), MOYAI_EPROTO);
    assert_int_equal(step(t, EV(FRAME, .frame = LEAVE_SEEK, .link = 3, .n = 1)), MOYAI_EINVAL);
    assert_int_equal(step(t, EV(DATA, .link = 3)), MOYAI_EINVAL);
    assert_int_equal(step(t, (struct leave_event){.kind = LEAVE_EVENTS}), MOYAI_EINVAL);
    tested_free(t);
    t = with_channels(1); /* a driver that has not fetched all effects */
    assert_int_equal(leave_step(t->l, &EV(WANT)), 0);
    assert_int_equal(leave_step(t->l, &EV(SAY)), MOYAI_EINVAL);
    tested_free(t);
}

/* The number of a question is never 0. */
static void test_numbers(void **state) {
    (void)state;
    struct tested *t = with_channels(2);
    t->l->seq = UINT32_MAX;
    assert_int_equal(step(t, EV(WANT)), 0);
    DID(t, "SEEK1@1 SEEK2@2");
    tested_free(t);
}

/* Nobody that it could ask stays, as far as they have said. */
static void test_alone(void **state) {
    (void)state;
    struct tested *t = with_channels(2);
    GET(t, SEEK, 1, 1);
    GET(t, SEEK, 2, 1);
    assert_false(leave_alone(t->l)); /* it stays itself */
    assert_int_equal(step(t, EV(WANT)), 0);
    assert_true(leave_alone(t->l));
    assert_int_equal(step(t, EV(RESET, .link = 1)), 0);
    assert_int_equal(step(t, EV(RESET, .link = 2)), 0);
    assert_true(leave_alone(t->l));
    tested_free(t);
    t = with_channels(2);
    assert_int_equal(step(t, EV(WANT)), 0);
    GET(t, SEEK, 1, 1);
    assert_false(leave_alone(t->l)); /* the other may stay */
    GET(t, SEEK, 2, 5);
    assert_true(leave_alone(t->l));
    GET(t, ROOT, 2, 2);
    assert_false(leave_alone(t->l)); /* that one knows of one */
    tested_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configuration),
        cmocka_unit_test(test_who_stays),
        cmocka_unit_test(test_one_leaves),
        cmocka_unit_test(test_up),
        cmocka_unit_test(test_children),
        cmocka_unit_test(test_the_parent_leaves),
        cmocka_unit_test(test_channels_come),
        cmocka_unit_test(test_channels_break),
        cmocka_unit_test(test_who_breaks_the_rules),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
