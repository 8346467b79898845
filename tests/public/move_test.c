/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that move to other nodes, by moyai_move and when their node leaves: calls reach them wherever they are, in
 * order and once; names and signals go along; and whatever dies, at most one node has them.
 */
#include "tests/public/move_kit.h"

#include <stdio.h>
#include <unistd.h>

/* Round and round: the same reference works, and so does the name, which nobody misses. */
static void it_moves_with_its_names(void **state) {
    (void)state;
    open_hosts(3);
    moyai_ref *ref = made_at(0, "counter"), *found;
    KIT_RC(moyai_lookup(node, "counter", &found), 0);
    FIBER_ASSERT(moyai_ref_equal(ref, found));
    moyai_ref_unref(found);
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    for (int i = 0; i < 7; i++) {
        FIBER_ASSERT_INT(move(ref, i % 3, (i + 1) % 3), 0);
        FIBER_ASSERT_INT(call_next(ref), pid[(i + 1) % 3]);
        found = NULL;
        KIT_OK(moyai_lookup(node, "counter", &found));
        /* Elsewhere it is known a moment later who has it now; calls find it all the same. */
        FIBER_ASSERT(wide || moyai_node_id_equal(moyai_ref_home(found), moyai_ref_home(host[(i + 1) % 3])));
        FIBER_ASSERT(moyai_ref_equal(ref, found));
        FIBER_ASSERT_INT(call_next(found), pid[(i + 1) % 3]);
        moyai_ref_unref(found);
    }
    expect_sum(ref);
    FIBER_ASSERT_INT(counts[PACKED], 7);
    FIBER_ASSERT_INT(counts[UNPACKED], 7);
    FIBER_ASSERT_INT(counts[DESTROYED], 7);
    /* To where it is; of somebody else; of a class that does not move; to who does not take it. */
    FIBER_ASSERT_INT(move(ref, 1, 1), 0);
    FIBER_ASSERT_INT(move(ref, 0, 1), MOYAI_ENOOBJECT);
    FIBER_ASSERT_INT(move(host[0], 0, 1), MOYAI_ESTATE);
    int rc = 1;
    moyai_ref *self = kit_object(node, &host_class, NULL);
    KIT_OK(moyai_call(host[1], "move", MOYAI_ARGS(ref, self), MOYAI_INTO(&rc), NULL));
    FIBER_ASSERT_INT(rc, MOYAI_ENOENT);
    FIBER_ASSERT_INT(call_next(ref), pid[1]);
    moyai_ref_unref(self);
    moyai_ref_unref(ref);
    close_hosts(3);
}

/* Many calls are under way while it moves: each begins once, in order, and none fails. */
static void calls_under_way_follow_it(void **state) {
    (void)state;
    enum { CALLS = 3000, OUT = 200 };
    static double large[20000];
    open_hosts(3);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) large[i] = (double)(i % 10);
    moyai_ref *ref = made_at(0, "");
    moyai_set *set = kit_set(node);
    int at = 0, moves = 0, done = 0;
    moyai_future *moving = NULL, *sums[8] = {NULL};
    for (int i = 0; i < CALLS; i++) {
        const uint32_t x = (uint32_t)i + 7;
        expected = expected * 31 + x;
        if (i % 5 == 4) { /* whose end nobody hears of */
            KIT_OK(moyai_call_oneway(ref, "add", MOYAI_ARGS(x)));
        } else {
            moyai_future *f = moyai_call_async(ref, "next", MOYAI_ARGS(x));
            moyai_future_set_user(f, (void *)(intptr_t)i);
            KIT_OK(moyai_set_add(set, f));
        }
        called++;
        if (i % 400 == 0) sums[i / 400] = moyai_call_async(ref, "sum", MOYAI_ARGS(moyai_doubles(large, 20000)));
        if (moving && moyai_future_ready(moving)) {
            int rc = 1;
            KIT_OK(moyai_future_get(moving, MOYAI_INTO(&rc)));
            FIBER_ASSERT_INT(rc, 0);
            moyai_future_free(moving);
            moving = NULL;
            at = (at + 1) % 3;
            moves++;
        }
        if (!moving && i % 50 == 0) moving = moyai_call_async(host[at], "move", MOYAI_ARGS(ref, host[(at + 1) % 3]));
        while (moyai_set_count(set) > OUT || (i == CALLS - 1 && moyai_set_count(set) > 0)) {
            (void)moyai_wait(set, MOYAI_FOREVER);
            for (moyai_future *f; (f = moyai_set_next(set)); moyai_future_free(f), done++) {
                int n = -1, where;
                KIT_OK(moyai_future_get(f, MOYAI_INTO(&n, &where)));
                FIBER_ASSERT_INT(n, (int)(intptr_t)moyai_future_user(f));
            }
        }
    }
    for (int i = 0; i < 8; i++) {
        double sum = 0;
        int where;
        KIT_OK(moyai_future_get(sums[i], MOYAI_INTO(&sum, &where)));
        FIBER_ASSERT(sum == 90000);
        moyai_future_free(sums[i]);
    }
    if (moving) KIT_OK(moyai_future_get(moving, MOYAI_NONE));
    moyai_future_free(moving);
    expect_sum(ref);
    FIBER_ASSERT_INT(done, CALLS - CALLS / 5);
    FIBER_ASSERT(moves >= 2);
    moyai_set_free(set);
    moyai_ref_unref(ref);
    close_hosts(3);
}

/* A method in progress is waited for, and what is called meanwhile waits; a signal goes where the object is. */
static void methods_end_first(void **state) {
    (void)state;
    open_hosts(2);
    moyai_ref *ref = made_at(0, "");
    moyai_future *held = moyai_call_async(ref, "hold", MOYAI_NONE);
    KIT_UNTIL(node, counts[DONE] == 1);
    moyai_future *moving = moyai_call_async(host[0], "move", MOYAI_ARGS(ref, host[1]));
    moyai_future *late = moyai_call_async(ref, "next", MOYAI_ARGS(7u));
    moyai_future_deadline(moving, 30 * MOYAI_MS);
    KIT_RC(moyai_future_get(moving, MOYAI_NONE), MOYAI_ETIMEDOUT); /* the call, not the move */
    FIBER_ASSERT(!moyai_future_ready(late) && counts[PACKED] == 0);
    KIT_OK(moyai_signal(ref));
    int where = 0, n = -1;
    KIT_OK(moyai_future_get(held, MOYAI_INTO(&where)));
    FIBER_ASSERT_INT(where, pid[0]);
    KIT_OK(moyai_future_get(late, MOYAI_INTO(&n, &where)));
    FIBER_ASSERT_INT(where, pid[1]);
    FIBER_ASSERT_INT(n, 0);
    moyai_future_free(moving);
    moyai_future_free(late);
    moyai_future_free(held);
    held = moyai_call_async(ref, "hold", MOYAI_NONE);
    KIT_UNTIL(node, counts[DONE] == 2);
    moyai_future *told = moyai_signal_async(ref);
    KIT_OK(moyai_future_get(told, MOYAI_NONE));
    KIT_OK(moyai_future_get(held, MOYAI_INTO(&where)));
    FIBER_ASSERT_INT(where, pid[1]);
    moyai_future_free(told);
    moyai_future_free(held);
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* Nobody has told this node that it has moved, and those whom it believes to have it are gone. */
static void signals_look_for_it(void **state) {
    (void)state;
    open_hosts(3);
    moyai_ref *ref = made_at(0, ""), *old = made_at(0, "");
    KIT_OK(move(ref, 0, 1));
    KIT_OK(moyai_call_oneway(ref, "add", MOYAI_ARGS(1u)));
    moyai_future *held = moyai_call_async(ref, "hold", MOYAI_NONE);
    KIT_UNTIL(node, counts[DONE] == 1);
    KIT_OK(moyai_signal(ref));
    KIT_OK(moyai_future_get(held, MOYAI_NONE));
    moyai_future_free(held);
    for (int i = 0; i < 2; i++) { /* both go to host 2, as host 0 does not stay either */
        kill(pid[1 - i], SIGTERM);
        FIBER_ASSERT_INT(kit_reap(pid[1 - i]), 0);
        pid[1 - i] = 0;
    }
    moyai_ref *const both[] = {ref, old};
    for (int i = 0; i < 2; i++) {
        KIT_OK(moyai_signal(both[i]));
        int where = 0;
        held = moyai_call_async(both[i], "hold", MOYAI_NONE);
        KIT_OK(moyai_future_get(held, MOYAI_INTO(&where)));
        FIBER_ASSERT_INT(where, pid[2]);
        moyai_future_free(held);
        moyai_ref_unref(both[i]);
    }
    close_hosts(3);
}

/* A node that leaves gives what moves to one that stays; to who holds a reference nothing has happened. */
static void who_leaves_gives_away(void **state) {
    (void)state;
    enum { OBJECTS = 40, NAMED = 4 };
    open_hosts(3);
    moyai_ref *ref[OBJECTS];
    uint32_t sums[OBJECTS] = {0};
    for (int i = 0; i < OBJECTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        ref[i] = made_at(0, i < NAMED ? name : "");
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < OBJECTS; i++) KIT_OK(moyai_call_oneway(ref[i], "add", MOYAI_ARGS((uint32_t)(round + i))));
        for (int i = 0; i < OBJECTS; i++) sums[i] = sums[i] * 31 + (uint32_t)(round + i);
        if (round < 2) { /* host 0 leaves, then host 1, to which some have gone */
            kill(pid[round], SIGTERM);
            for (int i = 0; i < OBJECTS; i++) {
                KIT_OK(moyai_call(ref[i], "add", MOYAI_ARGS(1u), MOYAI_NONE, NULL));
                sums[i] = sums[i] * 31 + 1;
            }
            FIBER_ASSERT_INT(kit_reap(pid[round]), 0);
            pid[round] = 0;
        }
    }
    for (int i = 0; i < OBJECTS; i++) {
        int n = 0;
        uint32_t sum = 0;
        uint64_t made;
        KIT_OK(moyai_call(ref[i], "get", MOYAI_NONE, MOYAI_INTO(&n, &sum, &made), NULL));
        FIBER_ASSERT_INT(n, 5);
        FIBER_ASSERT(sum == sums[i]);
        if (i < NAMED) {
            char name[16];
            snprintf(name, sizeof name, "c%d", i);
            moyai_ref *found = NULL;
            KIT_OK(moyai_lookup(node, name, &found));
            FIBER_ASSERT(wide || moyai_node_id_equal(moyai_ref_home(found), moyai_ref_home(host[2])));
            moyai_ref_unref(found);
        }
        moyai_ref_unref(ref[i]);
    }
    FIBER_ASSERT(counts[HOOKS] >= OBJECTS);
    close_hosts(3);
}

/* Equals that have nothing to do get as many of them, or one more: those who have answered in time, as a rule all. */
static void who_leaves_spreads_them(void **state) {
    (void)state;
    enum { OBJECTS = 32, TAKERS = 4 };
    if (wide) return;
    open_hosts(3);
    const pid_t taker[TAKERS] = {pid[1], pid[2], start("host3", 0), start("host4", 0)};
    moyai_ref_unref(kit_lookup(node, "host3"));
    moyai_ref_unref(kit_lookup(node, "host4"));
    moyai_ref *ref[OBJECTS];
    int got[TAKERS] = {0}, takers = 0;
    for (int i = 0; i < OBJECTS; i++) ref[i] = made_at(0, "");
    kit_end(pid[0]);
    pid[0] = 0;
    for (int i = 0; i < OBJECTS; i++) {
        int n = 0, where = 0, k = 0;
        KIT_OK(moyai_call(ref[i], "next", MOYAI_ARGS(1u), MOYAI_INTO(&n, &where), NULL));
        while (k < TAKERS && taker[k] != where) k++;
        FIBER_ASSERT(k < TAKERS);
        takers += got[k]++ == 0;
        moyai_ref_unref(ref[i]);
    }
    for (int k = 0; k < TAKERS; k++)
        FIBER_ASSERT(got[k] == 0 || got[k] == OBJECTS / takers || got[k] == (OBJECTS + takers - 1) / takers);
    kit_end(taker[2]);
    kit_end(taker[3]);
    close_hosts(3);
}

/* Who is told to leave when he has adopted it, and the old home has not said settle yet, is told that still, and gives
 * it on. */
static void who_leaves_takes_what_arrives(void **state) {
    (void)state;
    open_hosts(3);
    moyai_ref *ref = made_at(0, "arriving");
    (void)call_next(ref);
    counts[DIES] = 5;
    KIT_OK(move(ref, 0, 1));
    FIBER_ASSERT_INT(kit_reap(pid[1]), 0);
    pid[1] = 0;
    const int where = call_next(ref);
    FIBER_ASSERT(where == pid[0] || where == pid[2]);
    expect_sum(ref);
    moyai_ref_unref(ref);
    close_hosts(3);
}

/* Its time is over while a method holds it back: what has waited was never executed, and that is said. */
static void who_waits_too_long_was_never_executed(void **state) {
    (void)state;
    setenv("MOYAI_LEAVE_DEADLINE", "300ms", 1);
    setenv("MOYAI_LOG", "off", 1);
    open_hosts(1);
    unsetenv("MOYAI_LOG");
    unsetenv("MOYAI_LEAVE_DEADLINE");
    moyai_ref *ref = made_at(0, "");
    moyai_future *held = moyai_call_async(ref, "hold", MOYAI_NONE), *f[16];
    KIT_UNTIL(node, counts[DONE] == 1);
    kill(pid[0], SIGTERM);
    KIT_UNTIL(node, counts[HOOKS] == 1); /* it leaves */
    for (int i = 0; i < 16; i++) f[i] = moyai_call_async(ref, "next", MOYAI_ARGS(1u));
    for (int i = 0; i < 16; i++) {
        struct moyai_error e;
        KIT_RC(moyai_future_get(f[i], MOYAI_NONE), MOYAI_ELEAVING);
        (void)moyai_future_error(f[i], 0, &e);
        FIBER_ASSERT_INT(e.executed, MOYAI_NEVER_EXECUTED);
        moyai_future_free(f[i]);
    }
    KIT_RC(moyai_future_get(held, MOYAI_NONE), MOYAI_ECLOSED);
    moyai_future_free(held);
    FIBER_ASSERT_INT(kit_reap(pid[0]), 0);
    pid[0] = 0;
    moyai_ref_unref(ref);
    close_hosts(1);
}

/* What is called meanwhile fails as what has come back does, if it ends with its node. */
static void who_waits_for_it_hears_of_its_end(void **state) {
    (void)state;
    open_hosts(1);
    moyai_ref *ref = made_at(0, "");
    kill(pid[0], SIGKILL);
    for (bool over = false; !over;) {
        moyai_future *f[16];
        for (int i = 0; i < 16; i++) f[i] = moyai_call_async(ref, "next", MOYAI_ARGS(1u));
        for (int i = 0; i < 16; i++) {
            const int rc = moyai_future_get(f[i], MOYAI_NONE);
            if (rc < 0 && !(wide && rc == MOYAI_EUNREACHABLE)) KIT_RC(rc, MOYAI_EDEAD);
            over |= rc < 0;
            moyai_future_free(f[i]);
        }
        (void)moyai_sleep(node, 10 * MOYAI_MS);
    }
    kit_reap(pid[0]);
    pid[0] = 0;
    moyai_ref_unref(ref);
    close_hosts(1);
}

/* Many whose methods take long: others go meanwhile, and these when they can. */
static void who_is_busy_holds_up_nobody(void **state) {
    (void)state;
    enum { BUSY = 40, IDLE = 5 };
    open_hosts(2);
    moyai_ref *ref[BUSY + IDLE];
    moyai_future *held[BUSY];
    for (int i = 0; i < BUSY + IDLE; i++) ref[i] = made_at(0, "");
    for (int i = 0; i < BUSY; i++) held[i] = moyai_call_async(ref[IDLE + i], "hold", MOYAI_NONE);
    KIT_UNTIL(node, counts[DONE] == BUSY);
    kill(pid[0], SIGTERM);
    int n = 0, where = 0;
    for (int i = 0; i < IDLE; i++) { /* of the first it may come before the signal */
        do KIT_OK(moyai_call(ref[i], "next", MOYAI_ARGS(1u), MOYAI_INTO(&n, &where), NULL));
        while (where != pid[1]);
    }
    FIBER_ASSERT(!kit_gone(pid[0]));
    for (int i = 0; i < BUSY; i++) KIT_OK(moyai_signal(ref[IDLE + i]));
    for (int i = 0; i < BUSY; i++) {
        KIT_OK(moyai_future_get(held[i], MOYAI_INTO(&where)));
        FIBER_ASSERT_INT(where, pid[0]);
        moyai_future_free(held[i]);
        KIT_OK(moyai_call(ref[IDLE + i], "next", MOYAI_ARGS(1u), MOYAI_INTO(&n, &where), NULL));
        FIBER_ASSERT_INT(where, pid[1]);
    }
    FIBER_ASSERT_INT(kit_reap(pid[0]), 0);
    pid[0] = 0;
    for (int i = 0; i < BUSY + IDLE; i++) moyai_ref_unref(ref[i]);
    close_hosts(2);
}

/* Much of it, all at once. */
static void who_leaves_has_much(void **state) {
    (void)state;
    enum { OBJECTS = 64 };
    if (wide) return; /* the bytes are as slow there as they are */
    if (kit_long()) setenv("BIG", "yes", 1);
    open_hosts(2);
    moyai_ref *ref[OBJECTS];
    for (int i = 0; i < OBJECTS; i++)
        KIT_OK(moyai_call(host[0], "make_big", MOYAI_ARGS((uint8_t)i), MOYAI_INTO(&ref[i]), NULL));
    kill(pid[0], SIGTERM);
    FIBER_ASSERT_INT(kit_reap(pid[0]), 0);
    pid[0] = 0;
    for (int i = 0; i < OBJECTS; i++) {
        uint64_t wrong = 1;
        uint8_t seed = 255;
        int where = 0;
        KIT_OK(moyai_call(ref[i], "check", MOYAI_NONE, MOYAI_INTO(&wrong, &seed, &where), NULL));
        FIBER_ASSERT(wrong == 0 && seed == i);
        FIBER_ASSERT_INT(where, pid[1]);
        moyai_ref_unref(ref[i]);
    }
    close_hosts(2);
}

/* Who does not take it in time, or cannot, has not got it, also when it would have it in the end. */
static void who_does_not_take_it_has_it_not(void **state) {
    (void)state;
    if (wide) return; /* nothing of it is about that */
    open_hosts(1);
    pid[1] = kit_child("host", "MOYAI_MAX_MESSAGE=1000000", "host1", NULL);
    host[1] = kit_lookup(node, "host1");
    moyai_ref *ref = made_at(0, ""), *big = NULL;
    int rc = 0;
    const char *text = "";
    KIT_OK(moyai_call(host[0], "make_big", MOYAI_ARGS((uint8_t)1), MOYAI_INTO(&big), NULL));
    KIT_OK(moyai_call(host[0], "try", MOYAI_ARGS(big, host[1]), MOYAI_INTO(&rc, &text), NULL));
    KIT_RC(rc, MOYAI_ETOOBIG);
    KIT_TEXT(text, "the packed state is larger than max_message of that node");
    moyai_ref_unref(big);
    counts[UNPACKS] = 1; /* it takes long */
    KIT_OK(moyai_call(host[0], "try", MOYAI_ARGS(ref, host[1]), MOYAI_INTO(&rc, &text), NULL));
    KIT_RC(rc, MOYAI_ETIMEDOUT);
    KIT_TEXT(text, "has not taken the object in time");
    FIBER_ASSERT_INT(counts[UNPACKS], 2);
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    counts[UNPACKS] = 3;
    KIT_UNTIL(node, counts[DESTROYED] == 1); /* what has been unpacked too late */
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    counts[PACKS] = 1; /* nor is it packed in time: what calls it meanwhile waits */
    KIT_OK(moyai_call(host[0], "try", MOYAI_ARGS(ref, host[1]), MOYAI_INTO(&rc, &text), NULL));
    KIT_RC(rc, MOYAI_ETIMEDOUT);
    KIT_TEXT(text, "class \"Counter\": its pack has not returned in time");
    FIBER_ASSERT_INT(counts[PACKS], 2);
    KIT_OK(moyai_call(host[0], "try", MOYAI_ARGS(ref, host[1]), MOYAI_INTO(&rc, &text), NULL));
    KIT_RC(rc, MOYAI_EBUSY);
    counts[PACKS] = 3;
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    KIT_OK(move(ref, 0, 1));
    FIBER_ASSERT_INT(call_next(ref), pid[1]);
    expect_sum(ref);
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* Nobody takes it: it ends with its node, calls of it have never been executed, and the log says so. */
static void nobody_takes_it(void **state) {
    (void)state;
    if (wide) return; /* nothing of it is about that */
    open_hosts(0);
    pid[0] = kit_child_quiet("host", "MOYAI_LOG=warning", "alone", NULL);
    host[0] = kit_lookup(node, "alone");
    moyai_ref *ref = made_at(0, "");
    kill(pid[0], SIGTERM);
    moyai_future *f;
    for (;;) {
        f = moyai_call_async(ref, "next", MOYAI_ARGS(1u));
        if (moyai_future_get(f, MOYAI_NONE) < 0) break;
        moyai_future_free(f);
    }
    struct moyai_error e;
    (void)moyai_future_error(f, 0, &e);
    FIBER_ASSERT(e.code == MOYAI_ELEAVING || e.code == MOYAI_ECLOSED);
    FIBER_ASSERT_INT(e.executed, MOYAI_NEVER_EXECUTED);
    moyai_future_free(f);
    FIBER_ASSERT_INT(kit_reap(pid[0]), 0);
    char *said = kit_stderr(pid[0]);
    KIT_TEXT(said, "MOYAI-LEAVE-STAYS this node leaves, and 1 of its objects ends with it that could have moved: no "
                   "node that stays takes objects of class \"Counter\"");
    free(said);
    pid[0] = 0;
    moyai_ref_unref(ref);
    close_hosts(1);
}

/* And it says so: those who call it while its node goes on leaving need not look for it anywhere. */
static void what_nobody_takes_is_not_looked_for(void **state) {
    (void)state;
    enum { OBJECTS = 20 };
    if (wide) return; /* there the first does not take it, and the others are behind it */
    open_hosts(0);
    pid[0] = kit_child_quiet("host", "alone", NULL);
    host[0] = kit_lookup(node, "alone");
    moyai_ref *ref[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) ref[i] = made_at(0, "");
    counts[WAITS] = 1;
    moyai_future *held = moyai_call_async(host[0], "wait", MOYAI_NONE);
    KIT_UNTIL(node, counts[BEGUN] == 1);
    kill(pid[0], SIGTERM);
    moyai_dur least = MOYAI_FOREVER;
    for (int i = 0; i < OBJECTS; i++) {
        int rc = 0;
        moyai_ns began;
        do {
            began = moyai_now();
            rc = moyai_call(ref[i], "next", MOYAI_ARGS(1u), MOYAI_NONE, NULL);
        } while (rc == 0);
        KIT_RC(rc, MOYAI_ELEAVING);
        const moyai_dur took = (moyai_dur)(moyai_now() - began);
        if (took < least) least = took;
        moyai_ref_unref(ref[i]);
    }
    FIBER_ASSERT(least < 190 * MOYAI_MS); /* who looks does so for 0.2 s at least */
    counts[WAITS] = 2;
    KIT_OK(moyai_future_get(held, MOYAI_NONE));
    moyai_future_free(held);
    FIBER_ASSERT_INT(kit_reap(pid[0]), 0);
    pid[0] = 0;
    close_hosts(1);
}

static void expect_dead(moyai_future *f) {
    const int rc = moyai_future_get(f, MOYAI_NONE);
    if (!wide || rc != MOYAI_EUNREACHABLE) KIT_RC(rc, MOYAI_EDEAD);
    moyai_future_free(f);
}

/* What fails at either end leaves it where it was; who dies with it takes it along. */
static void whatever_fails_there_is_one(void **state) {
    (void)state;
    open_hosts(2);
    moyai_ref *ref = made_at(0, "one");
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    counts[DIES] = 3; /* pack fails */
    FIBER_ASSERT_INT(move(ref, 0, 1), MOYAI_ENOSPC);
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    counts[DIES] = 4; /* unpack fails */
    FIBER_ASSERT_INT(move(ref, 0, 1), MOYAI_EDATA);
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    counts[DIES] = 2; /* the new home dies while it unpacks */
    const int rc = move(ref, 0, 1);
    FIBER_ASSERT(rc == MOYAI_EDEAD || (wide && rc == MOYAI_EUNREACHABLE)); /* without a witness */
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    FIBER_ASSERT(kit_reap(pid[1]) != 0);
    pid[1] = 0;
    moyai_ref *found = NULL;
    KIT_OK(moyai_lookup(node, "one", &found));
    FIBER_ASSERT_INT(call_next(found), pid[0]);
    moyai_ref_unref(found);
    counts[DIES] = 1; /* the old home dies while it packs */
    moyai_ref_unref(host[1]);
    counts[DIES] = 0;
    pid[1] = start("other", 2);
    host[1] = kit_lookup(node, "other");
    counts[DIES] = 1;
    moyai_future *f = moyai_call_async(host[0], "move", MOYAI_ARGS(ref, host[1]));
    expect_dead(f);
    FIBER_ASSERT(kit_reap(pid[0]) != 0);
    pid[0] = 0;
    counts[DIES] = 0;
    expect_dead(moyai_call_async(ref, "next", MOYAI_ARGS(1u)));
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* Whoever takes it is linked to a third alone, as the leaver is: that one takes none. */
static void who_takes_it_is_far(void **state) {
    (void)state;
    if (!wide) return;
    hidden = true;
    open_hosts(3);
    hidden = false;
    moyai_ref *ref = made_at(1, "far");
    (void)call_next(ref);
    kit_end(pid[1]);
    pid[1] = 0;
    FIBER_ASSERT_INT(call_next(ref), pid[2]);
    expect_sum(ref);
    moyai_ref_unref(ref);
    kit_end(pid[2]); /* the first is its only way, and would wait for it */
    pid[2] = 0;
    close_hosts(3);
}

/* Whoever answers first leaves as well, and the only one that stays is stopped for a while: he is asked again. */
static void who_takes_it_is_slow(void **state) {
    (void)state;
    open_hosts(3);
    moyai_ref *ref = made_at(0, "");
    (void)call_next(ref);
    kit_stop(pid[2]);
    kill(pid[0], SIGTERM);
    KIT_OK(moyai_sleep(node, 20 * MOYAI_MS));
    kill(pid[1], SIGTERM);
    KIT_OK(moyai_sleep(node, wide ? 300 * MOYAI_MS : 5300 * MOYAI_MS)); /* longer than an answer is waited for */
    kit_cont(pid[2]);
    for (int i = 0; i < 2; i++) {
        FIBER_ASSERT_INT(kit_reap(pid[i]), 0);
        pid[i] = 0;
    }
    FIBER_ASSERT_INT(call_next(ref), pid[2]);
    expect_sum(ref);
    moyai_ref_unref(ref);
    close_hosts(3);
}

/* More than a link lets ask for at one time: they are looked for one after the other, and none is taken for lost. */
static void many_are_found(void **state) {
    (void)state;
    enum { OBJECTS = 1000 };
    if (!wide) return;
    bare = true;
    open_hosts(2);
    bare = false;
    static moyai_ref *ref[OBJECTS];
    static moyai_future *f[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) f[i] = moyai_call_async(host[0], "make", MOYAI_ARGS(""));
    for (int i = 0; i < OBJECTS; i++) {
        KIT_OK(moyai_future_get(f[i], MOYAI_INTO(&ref[i])));
        moyai_future_free(f[i]);
    }
    kit_end(pid[0]);
    pid[0] = 0;
    for (int i = 0; i < OBJECTS; i++) f[i] = moyai_call_async(ref[i], "next", MOYAI_ARGS(1u));
    for (int i = 0; i < OBJECTS; i++) {
        int n, where = 0;
        KIT_OK(moyai_future_get(f[i], MOYAI_INTO(&n, &where)));
        FIBER_ASSERT_INT(where, pid[1]);
        moyai_future_free(f[i]);
        moyai_ref_unref(ref[i]);
    }
    kit_kill(pid[1]); /* which would look for somebody to take them */
    pid[1] = 0;
    close_hosts(2);
}

static int on_several_hosts(void **state) {
    (void)state;
    wide = true;
    setenv("MOYAI_REATTACH", "1s", 1);
    return 0;
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(it_moves_with_its_names),
        cmocka_unit_test(calls_under_way_follow_it),
        cmocka_unit_test(methods_end_first),
        cmocka_unit_test(signals_look_for_it),
        cmocka_unit_test(who_leaves_gives_away),
        cmocka_unit_test(who_leaves_spreads_them),
        cmocka_unit_test(who_leaves_takes_what_arrives),
        cmocka_unit_test(who_is_busy_holds_up_nobody),
        cmocka_unit_test(who_waits_for_it_hears_of_its_end),
        cmocka_unit_test(who_waits_too_long_was_never_executed),
        cmocka_unit_test(who_leaves_has_much),
        cmocka_unit_test(who_does_not_take_it_has_it_not),
        cmocka_unit_test(nobody_takes_it),
        cmocka_unit_test(what_nobody_takes_is_not_looked_for),
        cmocka_unit_test(whatever_fails_there_is_one),
        cmocka_unit_test(who_takes_it_is_far),
        cmocka_unit_test(who_takes_it_is_slow),
        cmocka_unit_test(many_are_found),
    };
    return cmocka_run_group_tests(all, NULL, NULL) + cmocka_run_group_tests(all, on_several_hosts, NULL);
}

int main(int argc, char **argv) {
    return kit_main(argc, argv, move_roles, tests);
}
