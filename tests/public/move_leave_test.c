/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who leaves while objects move, be they others' or its own: nothing that it has begun is lost with it, and nothing
 * keeps it that nobody waits for.
 */
#include "tests/public/move_kit.h"

#include <stdio.h>
#include <unistd.h>

enum { CALLS = 8 };

static moyai_future *send(int by, moyai_ref *to, const char *method, uint32_t times, bool waits) {
    return moyai_call_async(host[by], "send", MOYAI_ARGS(to, method, times, waits));
}

static void expect_ok(moyai_future *f) {
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    moyai_future_free(f);
}

/* Told so; what it does if it does not wait for anything takes less. */
static void begin_to_leave(int i) {
    kill(pid[i], SIGTERM);
    KIT_UNTIL(node, kit_gone(pid[i]) || says_that_it_leaves(i));
    for (int k = 0; k < 50; k++) (void)!moyai_sleep_masked(node, 4 * MOYAI_MS);
}

static void expect_left(int i) {
    FIBER_ASSERT_INT(kit_reap(pid[i]), 0);
    pid[i] = 0;
}

/* All of `send`, in order, and its signal. */
static void expect_sent(moyai_ref *ref) {
    int n = 0, rc = 0;
    uint32_t sum = 0, want = 0;
    uint64_t made;
    for (uint32_t i = 0; i < CALLS; i++) want = want * 31 + i;
    KIT_OK(moyai_call(ref, "get", MOYAI_NONE, MOYAI_INTO(&n, &sum, &made), NULL));
    FIBER_ASSERT_INT(n, CALLS);
    FIBER_ASSERT(sum == want);
    KIT_OK(moyai_call(ref, "take", MOYAI_NONE, MOYAI_INTO(&rc), NULL));
    FIBER_ASSERT_INT(rc, MOYAI_SIGNALLED);
}

/* The object's home has them, and refuses them when it has moved; so the leaver is still needed. */
static void what_nobody_waits_for_follows_an_object(void **state) {
    (void)state;
    open_hosts(3);
    moyai_ref *ref = made_at(0, "");
    counts[PACKS] = 1;
    moyai_future *f = begin_move(ref, 0, 1);
    KIT_UNTIL(node, counts[PACKS] == 2);
    expect_ok(send(2, ref, "add", CALLS, false));
    begin_to_leave(2);
    FIBER_ASSERT(!kit_gone(pid[2]));
    counts[PACKS] = 3;
    expect_left(2);
    KIT_OK(end_move(f));
    expect_sent(ref);
    moyai_ref_unref(ref);
    close_hosts(3);
}

/* And of its own object, which moves as it leaves: called by a method that goes on, while it is packed. */
static void what_nobody_waits_for_follows_an_own_object(void **state) {
    (void)state;
    open_hosts(2);
    moyai_ref *ref = made_at(0, "");
    counts[PACKS] = counts[WAITS] = 1;
    moyai_future *f = send(0, ref, "add", CALLS, true);
    KIT_UNTIL(node, counts[BEGUN] == 1);
    kill(pid[0], SIGTERM);
    KIT_UNTIL(node, counts[PACKS] == 2);
    counts[WAITS] = 2;
    expect_ok(f);
    counts[PACKS] = 3;
    expect_left(0);
    expect_sent(ref);
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* Methods that take long, of whose end nobody is to hear: it is waited for until they have begun. i: called before, and
 * called again as the object has moved. */
static void what_has_begun_is_not_waited_for(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        open_hosts(2);
        pid[2] = kit_child_quiet("host", "MOYAI_LOG=error", "host2", NULL);
        host[2] = kit_lookup(node, "host2");
        moyai_ref *ref = made_at(0, "");
        moyai_future *f = NULL;
        if (i == 1) {
            counts[PACKS] = 1;
            f = begin_move(ref, 0, 1);
            KIT_UNTIL(node, counts[PACKS] == 2);
        }
        expect_ok(send(2, ref, "hold", 2, false));
        if (i == 0) KIT_UNTIL(node, counts[DONE] == 2);
        begin_to_leave(2);
        counts[PACKS] = 3;
        FIBER_ASSERT_INT(kit_reap(pid[2]), 0);
        char *said = kit_stderr(pid[2]);
        FIBER_ASSERT(!strstr(said, "MOYAI-LEAVE-CUT"));
        free(said);
        pid[2] = 0;
        if (f) KIT_OK(end_move(f));
        KIT_UNTIL(node, counts[DONE] == 2);
        for (int k = 0; k < 2; k++) KIT_OK(moyai_signal(ref));
        expect_sum(ref);
        moyai_ref_unref(ref);
        close_hosts(3);
    }
}

/* An object made by a method that goes on while its node leaves, i: where another node takes it, or none. */
static void what_is_made_late_is_as_the_others(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        open_hosts(0);
        pid[0] = kit_child_quiet("host", "MOYAI_LOG=error", "host0", NULL);
        host[0] = kit_lookup(node, "host0");
        if (i == 0) pid[1] = start("host1", 1);
        if (i == 0) host[1] = kit_lookup(node, "host1");
        moyai_ref *ref = made_at(0, ""), *late = NULL;
        counts[WAITS] = 1;
        moyai_future *f = moyai_call_async(host[0], "make_late", MOYAI_NONE);
        KIT_UNTIL(node, counts[BEGUN] == 1);
        kill(pid[0], SIGTERM);
        KIT_UNTIL(node, counts[LEAVES] == 1 && counts[HOOKS] == 1);
        counts[WAITS] = 2;
        KIT_OK(moyai_future_get(f, MOYAI_INTO(&late)));
        FIBER_ASSERT_INT(kit_reap(pid[0]), 0);
        FIBER_ASSERT_INT(counts[HOOKS], 2);
        char *said = kit_stderr(pid[0]);
        FIBER_ASSERT(!strstr(said, "MOYAI-LEAVE-CUT"));
        if (i == 1) KIT_TEXT(said, "MOYAI-LEAVE-STAYS this node leaves, and 2 of its objects end with it");
        free(said);
        pid[0] = 0;
        if (i == 0) FIBER_ASSERT_INT(call_next(late), pid[1]);
        moyai_future_free(f);
        moyai_ref_unref(late);
        moyai_ref_unref(ref);
        close_hosts(2);
    }
}

/* Its state is packed for a move that was asked for before: on_leave would change what is left behind. */
static void what_is_packed_already_just_goes(void **state) {
    (void)state;
    open_hosts(2);
    moyai_ref *ref = made_at(0, "");
    counts[PACKS] = 1;
    moyai_future *f = begin_move(ref, 0, 1);
    KIT_UNTIL(node, counts[PACKS] == 2);
    kill(pid[0], SIGTERM);
    KIT_UNTIL(node, counts[LEAVES] == 1);
    counts[PACKS] = 3;
    KIT_OK(end_move(f));
    expect_left(0);
    FIBER_ASSERT_INT(counts[HOOKS], 0);
    FIBER_ASSERT_INT(call_next(ref), pid[1]);
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* It is told to leave when a move that was asked for before is about to begin, and both wait for their turn: on_leave
 * is run first. */
static void what_is_about_to_be_packed_hears_of_it(void **state) {
    (void)state;
    open_hosts(2);
    moyai_ref *ref = made_at(0, "");
    counts[PACKS] = counts[WAITS] = 1;
    kit_stop(pid[1]);
    moyai_future *f = begin_move(ref, 0, 1);
    (void)mark(0);
    moyai_future *s = moyai_call_async(host[0], "spin", MOYAI_NONE);
    KIT_UNTIL(node, counts[LOAD] > 0);
    kit_cont(pid[1]);
    (void)!moyai_sleep_masked(node, 300 * MOYAI_MS); /* its answer is there, and nobody looks at it */
    kill(pid[0], SIGTERM);
    (void)!moyai_sleep_masked(node, 300 * MOYAI_MS);
    counts[WAITS] = 2;
    KIT_UNTIL(node, counts[PACKS] == 2);
    counts[PACKS] = 3;
    KIT_OK(end_move(f));
    (void)moyai_future_get(s, MOYAI_NONE);
    moyai_future_free(s);
    expect_left(0);
    FIBER_ASSERT_INT(counts[HOOKS], 1);
    FIBER_ASSERT_INT(counts[LATE], 0);
    FIBER_ASSERT_INT(call_next(ref), pid[1]);
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* A move that was asked for before fails, and the object is to move since its node leaves: it knows that already. */
static void who_cannot_go_hears_of_the_leave_once(void **state) {
    (void)state;
    open_hosts(0);
    pid[0] = kit_child_quiet("host", "MOYAI_LOG=error", "host0", NULL);
    host[0] = kit_lookup(node, "host0");
    pid[1] = start("host1", 1);
    host[1] = kit_lookup(node, "host1");
    moyai_ref *ref = made_at(0, "");
    moyai_future *held = moyai_call_async(ref, "hold", MOYAI_NONE);
    KIT_UNTIL(node, counts[DONE] == 1);
    moyai_future *f = begin_move(ref, 0, 1);
    (void)mark(0);
    kill(pid[0], SIGTERM);
    KIT_UNTIL(node, counts[HOOKS] == 1);
    counts[DIES] = 3; /* pack fails */
    KIT_OK(moyai_signal(ref));
    expect_ok(held);
    KIT_RC(end_move(f), MOYAI_ENOSPC);
    FIBER_ASSERT_INT(kit_reap(pid[0]), 0);
    FIBER_ASSERT_INT(counts[HOOKS], 1);
    char *said = kit_stderr(pid[0]);
    KIT_TEXT(said, "MOYAI-LEAVE-STAYS this node leaves, and 1 of its objects ends with it");
    free(said);
    pid[0] = 0;
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* A move that was asked for before fails while on_leave goes on: the object goes once, after that. */
static void whose_on_leave_goes_on_goes_after_it(void **state) {
    (void)state;
    open_hosts(0);
    pid[0] = kit_child_quiet("host", "MOYAI_LOG=error", "host0", NULL);
    host[0] = kit_lookup(node, "host0");
    pid[1] = start("host1", 1);
    host[1] = kit_lookup(node, "host1");
    moyai_ref *ref = made_at(0, "");
    int rc = 0;
    const char *text;
    moyai_future *held = moyai_call_async(ref, "hold", MOYAI_NONE);
    KIT_UNTIL(node, counts[DONE] == 1);
    counts[ENDS] = RESTS;
    moyai_future *f = moyai_call_async(host[0], "soon", MOYAI_ARGS(ref, host[1]));
    (void)mark(0);
    kill(pid[0], SIGTERM);
    KIT_UNTIL(node, counts[HOOKS] == 1);
    KIT_OK(moyai_signal(ref));
    expect_ok(held);
    KIT_OK(moyai_future_get(f, MOYAI_INTO(&rc, &text)));
    FIBER_ASSERT_INT(rc, MOYAI_ETIMEDOUT);
    moyai_future_free(f);
    counts[ENDS] = 0;
    FIBER_ASSERT_INT(kit_reap(pid[0]), 0);
    char *said = kit_stderr(pid[0]);
    if (said[0]) FIBER_FAIL("it has said: %s", said);
    free(said);
    pid[0] = 0;
    FIBER_ASSERT_INT(counts[HOOKS], 1);
    FIBER_ASSERT_INT(call_next(ref), pid[1]);
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* Each on_leave makes the next: they go on until the time is over, and no longer. */
static void who_makes_objects_for_ever_leaves_in_time(void **state) {
    (void)state;
    open_hosts(0);
    pid[0] = kit_child_quiet("host", "MOYAI_LOG=error", "MOYAI_LEAVE_DEADLINE=1s", "host0", NULL);
    host[0] = kit_lookup(node, "host0");
    pid[1] = start("host1", 1);
    host[1] = kit_lookup(node, "host1");
    moyai_ref *ref = made_at(0, "");
    counts[ENDS] = MAKES;
    kill(pid[0], SIGTERM);
    const int status = kit_reap(pid[0]);
    counts[ENDS] = 0;
    char *said = kit_stderr(pid[0]);
    if (status != 0) FIBER_FAIL("'host' ended with wait status 0x%x, and said:\n%s", (unsigned)status, said);
    FIBER_ASSERT(counts[HOOKS] > 3);
    KIT_TEXT(said, "MOYAI-LEAVE-CUT");
    free(said);
    pid[0] = 0;
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* One of two that take them is stopped when it is taking some: the other gets those as well, and all that follow. */
static void who_is_stopped_while_it_takes_them_is_given_up(void **state) {
    (void)state;
    enum { OBJECTS = 40 };
    open_hosts(0);
    pid[0] = kit_child_quiet("host", "MOYAI_LOG=error", "MOYAI_LEAVE_DEADLINE=6s", "host0", NULL);
    host[0] = kit_lookup(node, "host0");
    for (int i = 1; i < 3; i++) {
        char text[8];
        snprintf(text, sizeof text, "host%d", i);
        pid[i] = start(text, i);
        host[i] = kit_lookup(node, text);
    }
    moyai_ref *ref[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) ref[i] = made_at(0, "");
    counts[UNPACKS] = 1;
    kill(pid[0], SIGTERM);
    KIT_UNTIL(node, counts[UNPACKS] == 2);
    (void)!moyai_sleep_masked(node, 100 * MOYAI_MS); /* both take some */
    kit_stop(pid[1]);
    counts[UNPACKS] = 0;
    (void)kit_reap(pid[0]); /* it waits for the other one to take what was sent, and leaves in the end */
    char *said = kit_stderr(pid[0]);
    if (strstr(said, "MOYAI-LEAVE-STAYS") || strstr(said, "MOYAI-MOVE-LOST")) FIBER_FAIL("%s", said);
    free(said);
    pid[0] = 0;
    for (int i = 0; i < OBJECTS; i++) {
        int where = 0;
        KIT_OK(moyai_call(ref[i], "next", MOYAI_ARGS(1u), MOYAI_INTO(moyai_skip(), &where), NULL));
        FIBER_ASSERT_INT(where, pid[2]);
    }
    kit_cont(pid[1]);
    (void)mark(1); /* what it takes now it is told to drop, or asks for */
    for (int i = 0; i < OBJECTS; i++) {
        int where = 0;
        KIT_OK(moyai_call(ref[i], "next", MOYAI_ARGS(1u), MOYAI_INTO(moyai_skip(), &where), NULL));
        FIBER_ASSERT_INT(where, pid[2]);
        moyai_ref_unref(ref[i]);
    }
    close_hosts(3);
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(what_nobody_waits_for_follows_an_object),
        cmocka_unit_test(what_nobody_waits_for_follows_an_own_object),
        cmocka_unit_test(what_has_begun_is_not_waited_for),
        cmocka_unit_test(what_is_made_late_is_as_the_others),
        cmocka_unit_test(what_is_packed_already_just_goes),
        cmocka_unit_test(what_is_about_to_be_packed_hears_of_it),
        cmocka_unit_test(who_cannot_go_hears_of_the_leave_once),
        cmocka_unit_test(whose_on_leave_goes_on_goes_after_it),
        cmocka_unit_test(who_makes_objects_for_ever_leaves_in_time),
        cmocka_unit_test(who_is_stopped_while_it_takes_them_is_given_up),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    return kit_main(argc, argv, move_roles, tests);
}
