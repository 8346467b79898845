/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes to an object just while it moves, ends or comes back: who is early and who late is arranged by stopping
 * processes and by methods that wait, so that each case is met in each run.
 */
#include "overlay/io/rendezvous.h"
#include "tests/public/move_kit.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- helpers --------------------------------------------------------------------------------- */

/* That node computes: what comes to it waits, and is counted. */
static moyai_future *spin(int i) {
    counts[WAITS] = 1;
    moyai_future *f = moyai_call_async(host[i], "spin", MOYAI_NONE);
    KIT_UNTIL(node, counts[LOAD] > 0);
    return f;
}

static void expect_ok(moyai_future *f) {
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    moyai_future_free(f);
}

static int taken(moyai_ref *ref) {
    int rc = 1;
    KIT_OK(moyai_call(ref, "take", MOYAI_NONE, MOYAI_INTO(&rc), NULL));
    return rc;
}

/* What a method of that host returns, which takes an object. */
static int told(int i, const char *method, moyai_ref *ref, const char *name) {
    int rc = 1;
    if (name)
        KIT_OK(moyai_call(host[i], method, MOYAI_ARGS(ref, name), MOYAI_INTO(&rc), NULL));
    else
        KIT_OK(moyai_call(host[i], method, MOYAI_ARGS(ref), MOYAI_INTO(&rc), NULL));
    return rc;
}

/* This process believes the object at host 1; it is at host 0. */
static moyai_ref *believed_at_1(void) {
    moyai_ref *ref = made_at(0, "");
    KIT_OK(move(ref, 0, 1));
    FIBER_ASSERT_INT(taken(ref), 0);
    KIT_OK(move(ref, 1, 0));
    return ref;
}

/* Moves from 0 to 1, where it has been unpacked, and arrives; host 0 is stopped, and has not heard of it. */
static moyai_future *arrives_at_1(moyai_ref *ref) {
    const uint64_t had = mark(1);
    counts[UNPACKS] = 1;
    moyai_future *f = begin_move(ref, 0, 1);
    KIT_UNTIL(node, counts[UNPACKS] == 2);
    kit_stop(pid[0]);
    counts[UNPACKS] = 3;
    KIT_UNTIL(node, mark(1) == had + 1);
    return f;
}

static void expect_gone(moyai_future *f) {
    struct moyai_error e;
    KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ENOOBJECT);
    (void)moyai_future_error(f, 0, &e);
    FIBER_ASSERT_INT(e.executed, MOYAI_NEVER_EXECUTED);
    moyai_future_free(f);
}

/* In the grid's directory, the object is at host 2, which is stopped: who looks for it hangs. */
static struct rdv *led_astray(moyai_ref *ref) {
    struct rdv *r = NULL;
    struct moyai_error e;
    char name[2 + 32] = "@";
    struct moyai_object_id id = moyai_ref_object(ref), had;
    struct moyai_node_id to = moyai_ref_home(host[2]), at;
    for (size_t i = 0; i < sizeof id.b; i++) snprintf(name + 1 + 2 * i, 3, "%02x", id.b[i]);
    KIT_OK(rdv_open(&r, kit_grid(), &e));
    if (rdv_get_name(r, name, NULL, NULL, &had, &at, NULL) == 0) KIT_OK(rdv_del_name(r, name, &had, &at, NULL));
    KIT_OK(rdv_put_name(r, name, &id, &to, NULL, NULL, &e));
    kit_stop(pid[2]);
    return r;
}

static void back_on_track(struct rdv *r) {
    kit_cont(pid[2]);
    rdv_close(r);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Three calls wait at the new home for an object that arrives; then it computes, while the word comes that the object
 * is there, and three calls more. */
static void what_waited_begins_before_what_came_later(void **state) {
    (void)state;
    enum { CALLS = 6 };
    open_hosts(2);
    moyai_ref *ref = believed_at_1();
    moyai_future *f = arrives_at_1(ref), *call[CALLS];
    for (int i = 0; i < CALLS / 2; i++) call[i] = moyai_call_async(ref, "next", MOYAI_ARGS((uint32_t)i));
    (void)mark(1);
    moyai_future *busy = spin(1);
    const uint32_t first = counts[LOAD];
    kit_cont(pid[0]);
    KIT_UNTIL(node, counts[LOAD] == first + 1); /* settle */
    for (int i = CALLS / 2; i < CALLS; i++) call[i] = moyai_call_async(ref, "next", MOYAI_ARGS((uint32_t)i));
    KIT_UNTIL(node, counts[LOAD] == first + 1 + CALLS / 2);
    counts[WAITS] = 2;
    for (int i = 0; i < CALLS; i++) {
        int n = -1, where = 0;
        KIT_OK(moyai_future_get(call[i], MOYAI_INTO(&n, &where)));
        FIBER_ASSERT_INT(n, i);
        FIBER_ASSERT_INT(where, pid[1]);
        moyai_future_free(call[i]);
    }
    expect_ok(busy);
    KIT_OK(end_move(f));
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* The caller of what waits does not take answers meanwhile: that would hold its calls back, but these have waited for
 * nothing but the object. */
static void what_waited_is_not_held_back_again(void **state) {
    (void)state;
    setenv("MOYAI_QUEUE_BYTES", "1000000", 1);
    open_hosts(3);
    unsetenv("MOYAI_QUEUE_BYTES");
    moyai_ref *ref = made_at(0, "");
    KIT_OK(move(ref, 0, 1));
    KIT_OK(moyai_call(host[2], "visit", MOYAI_ARGS(ref), MOYAI_NONE, NULL));
    FIBER_ASSERT_INT(call_next(ref), pid[1]);
    KIT_OK(move(ref, 1, 0));
    moyai_future *f = arrives_at_1(ref);
    counts[WAITS] = 1;
    moyai_future *load = moyai_call_async(host[2], "load", MOYAI_ARGS(host[1], ref));
    KIT_UNTIL(node, counts[BEGUN] == 1);
    kit_stop(pid[2]);
    counts[WAITS] = 2;
    KIT_UNTIL(node, counts[BEGUN] == 2);
    (void)mark(1); /* it owes all of that, and `hold` has waited since before */
    kit_cont(pid[0]);
    KIT_OK(end_move(f));
    FIBER_ASSERT_INT(call_next(ref), pid[1]);
    FIBER_ASSERT_INT(counts[DONE], 1);
    kit_cont(pid[2]);
    KIT_OK(moyai_signal(ref));
    expect_ok(load);
    moyai_ref_unref(ref);
    close_hosts(3);
}

/* ---- signals --------------------------------------------------------------------------------- */

static void signal_it(moyai_ref *ref, bool waits) {
    if (waits)
        expect_ok(moyai_signal_async(ref));
    else
        KIT_OK(moyai_signal(ref));
}

/* To the old home while the new one unpacks; and to the new one before it is told that the object is there. */
static void signals_go_along(void **state) {
    (void)state;
    open_hosts(2);
    for (int i = 0; i < 4; i++) {
        moyai_ref *ref = i < 2 ? made_at(0, "") : believed_at_1();
        FIBER_ASSERT(i >= 2 || taken(ref) == 0);
        moyai_future *f;
        if (i < 2) {
            counts[UNPACKS] = 1;
            f = begin_move(ref, 0, 1);
            KIT_UNTIL(node, counts[UNPACKS] == 2);
        } else {
            f = arrives_at_1(ref);
        }
        signal_it(ref, i % 2 == 1);
        (void)mark(i < 2 ? 0 : 1); /* it is there */
        counts[UNPACKS] = 3;
        if (i >= 2) kit_cont(pid[0]);
        KIT_OK(end_move(f));
        FIBER_ASSERT_INT(taken(ref), MOYAI_SIGNALLED);
        FIBER_ASSERT_INT(taken(ref), 0);
        moyai_ref_unref(ref);
    }
    close_hosts(2);
}

/* The old home has said that it is there now, and has no answer: what comes to it is not its own any more. */
static void signals_follow_what_has_been_said(void **state) {
    (void)state;
    open_hosts(2);
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref = made_at(0, "");
        FIBER_ASSERT_INT(taken(ref), 0);
        moyai_future *f = arrives_at_1(ref), *busy = spin(1), *s = NULL;
        const uint32_t first = counts[LOAD];
        kit_cont(pid[0]);
        KIT_UNTIL(node, counts[LOAD] == first + 1); /* settle */
        if (i == 0)
            s = moyai_signal_async(ref);
        else
            KIT_OK(moyai_signal(ref));
        (void)mark(0);
        counts[WAITS] = 2;
        if (s) expect_ok(s);
        expect_ok(busy);
        KIT_OK(end_move(f));
        if (i == 0)
            FIBER_ASSERT_INT(taken(ref), MOYAI_SIGNALLED);
        else
            KIT_UNTIL(node, taken(ref) == MOYAI_SIGNALLED); /* nobody is told when it is there */
        FIBER_ASSERT_INT(taken(ref), 0);
        moyai_ref_unref(ref);
    }
    close_hosts(2);
}

/* ---- refusals that say where it is ----------------------------------------------------------- */

static void who_has_it_no_more_says_where_it_is(void **state) {
    (void)state;
    open_hosts(3);
    moyai_ref *ref = made_at(0, "");
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    KIT_OK(move(ref, 0, 1));
    struct rdv *r = led_astray(ref);
    moyai_future *f = moyai_call_async(ref, "next", MOYAI_ARGS(1u));
    moyai_future_deadline(f, 60 * MOYAI_SEC);
    int n = -1, where = 0;
    KIT_OK(moyai_future_get(f, MOYAI_INTO(&n, &where)));
    FIBER_ASSERT_INT(where, pid[1]);
    moyai_future_free(f);
    back_on_track(r);
    moyai_ref_unref(ref);
    close_hosts(3);
}

/* Its old home has refused a call, and has it again when the caller hears of that: it is told by the two who
 * have had it, one after the other. */
static void who_comes_back_is_found_there(void **state) {
    (void)state;
    open_hosts(3);
    moyai_ref *ref = made_at(0, "");
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    KIT_OK(move(ref, 0, 1));
    moyai_future *later = moyai_call_async(host[2], "later", MOYAI_ARGS(host[1], ref, host[0]));
    KIT_UNTIL(node, counts[BEGUN] == 1);
    moyai_future *call = moyai_call_async(ref, "next", MOYAI_ARGS(1u));
    moyai_future *behind = moyai_call_async(host[0], "wait", MOYAI_NONE);
    while (counts[BEGUN] < 2) { /* it has been refused; nothing here hears of that yet */
    }
    counts[WAITS] = 2;
    while (counts[WAITS] != 3) {
    }
    counts[WAITS] = 2;
    struct rdv *r = led_astray(ref);
    int n = -1, where = 0;
    moyai_future_deadline(call, 60 * MOYAI_SEC);
    KIT_OK(moyai_future_get(call, MOYAI_INTO(&n, &where)));
    FIBER_ASSERT_INT(n, 1);
    FIBER_ASSERT_INT(where, pid[0]);
    moyai_future_free(call);
    back_on_track(r);
    expect_ok(behind);
    KIT_OK(end_move(later));
    moyai_ref_unref(ref);
    close_hosts(3);
}

/* Also where it has never moved, has come back, and where its caller has not heard of that. */
static void what_has_ended_is_not_looked_for(void **state) {
    (void)state;
    open_hosts(3);
    for (int i = 0; i < 6; i++) {
        const int moves = i / 2;
        moyai_ref *ref = made_at(0, "");
        for (int k = 0; k < moves; k++) KIT_OK(move(ref, k, 1 - k));
        if (i % 2) FIBER_ASSERT_INT(taken(ref), 0);
        KIT_OK(told(moves % 2, "end", ref, NULL));
        struct rdv *r = led_astray(ref);
        if (moves == 2) kit_stop(pid[1]); /* he need not be asked */
        moyai_future *f = moyai_call_async(ref, "next", MOYAI_ARGS(1u));
        moyai_future_deadline(f, 60 * MOYAI_SEC);
        expect_gone(f);
        if (moves == 2) kit_cont(pid[1]);
        back_on_track(r);
        moyai_ref_unref(ref);
    }
    close_hosts(3);
}

/* ---- ends and names -------------------------------------------------------------------------- */

/* A method ends it while a move waits for just that; and what waited for the move hears of it. */
static void who_ends_does_not_move(void **state) {
    (void)state;
    open_hosts(2);
    moyai_ref *ref = made_at(0, "");
    int rc = 1;
    counts[WAITS] = 1;
    moyai_future *quits = moyai_call_async(ref, "quit", MOYAI_NONE);
    KIT_UNTIL(node, counts[BEGUN] == 1);
    moyai_future *f = begin_move(ref, 0, 1), *late = moyai_call_async(ref, "next", MOYAI_ARGS(1u));
    (void)mark(0);
    KIT_RC(told(0, "name", ref, "late"), 0); /* it has not been packed */
    KIT_RC(told(0, "unname", ref, "late"), 0);
    counts[WAITS] = 2;
    KIT_OK(moyai_future_get(quits, MOYAI_INTO(&rc)));
    KIT_RC(rc, 0);
    KIT_RC(end_move(f), MOYAI_ENOOBJECT);
    expect_gone(late);
    FIBER_ASSERT_INT(counts[PACKED], 0);
    FIBER_ASSERT_INT(mark(1), mark(0));
    moyai_future_free(quits);
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* Nor does anybody complain that it has not moved. */
static void who_ends_as_its_node_leaves_does_not_move(void **state) {
    (void)state;
    open_hosts(0);
    pid[0] = kit_child_quiet("host", "MOYAI_LOG=warning", "host0", NULL);
    host[0] = kit_lookup(node, "host0");
    pid[1] = start("host1", 1);
    host[1] = kit_lookup(node, "host1");
    moyai_ref *ref = made_at(0, "");
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    counts[ENDS] = 1;
    kill(pid[0], SIGTERM);
    FIBER_ASSERT_INT(kit_reap(pid[0]), 0);
    FIBER_ASSERT_INT(counts[ENDS], 2);
    FIBER_ASSERT_INT(counts[PACKED], 0);
    char *said = kit_stderr(pid[0]);
    FIBER_ASSERT(!strstr(said, "MOYAI-LEAVE-STAYS"));
    free(said);
    pid[0] = 0;
    FIBER_ASSERT(moyai_call(ref, "next", MOYAI_ARGS(1u), MOYAI_NONE, NULL) < 0);
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* A name that it gets while it is packed goes along; once it has been, it neither gets nor loses any, nor ends. */
static void names_stay_as_they_were_packed(void **state) {
    (void)state;
    open_hosts(2);
    moyai_ref *ref = made_at(0, "one"), *found = NULL;
    counts[PACKS] = counts[UNPACKS] = 1;
    moyai_future *f = begin_move(ref, 0, 1);
    KIT_UNTIL(node, counts[PACKS] == 2);
    KIT_RC(told(0, "name", ref, "two"), 0);
    counts[PACKS] = 3;
    KIT_UNTIL(node, counts[UNPACKS] == 2);
    KIT_RC(told(0, "name", ref, "three"), MOYAI_ESTATE);
    KIT_RC(told(0, "unname", ref, "one"), MOYAI_ESTATE);
    KIT_RC(told(0, "end", ref, NULL), MOYAI_ESTATE);
    counts[UNPACKS] = 3;
    KIT_OK(end_move(f));
    static const char *const names[] = {"one", "two"};
    for (int i = 0; i < 2; i++) {
        KIT_OK(moyai_lookup(node, names[i], &found));
        FIBER_ASSERT(moyai_ref_equal(found, ref) &&
                     moyai_node_id_equal(moyai_ref_home(found), moyai_ref_home(host[1])));
        FIBER_ASSERT_INT(call_next(found), pid[1]);
        moyai_ref_unref(found);
        found = NULL;
    }
    KIT_RC(moyai_lookup(node, "three", &found), MOYAI_ENOENT);
    counts[PACKS] = 1; /* it ends while it is packed: so it does not move */
    f = begin_move(ref, 1, 0);
    KIT_UNTIL(node, counts[PACKS] == 2);
    KIT_RC(told(1, "end", ref, NULL), 0);
    counts[PACKS] = 3;
    KIT_RC(end_move(f), MOYAI_ENOOBJECT);
    expect_gone(moyai_call_async(ref, "next", MOYAI_ARGS(1u)));
    moyai_ref_unref(ref);
    close_hosts(2);
}

static moyai_future *begin_told(int i, const char *method, moyai_ref *ref, const char *name) {
    return name ? moyai_call_async(host[i], method, MOYAI_ARGS(ref, name))
                : moyai_call_async(host[i], method, MOYAI_ARGS(ref));
}

/* Where it was a moment ago, at most. */
static void expect_name(const char *name, moyai_ref *ref, int at) {
    int where = 0;
    moyai_ref *found = kit_lookup(node, name);
    FIBER_ASSERT(moyai_ref_equal(found, ref));
    KIT_OK(moyai_call(found, "next", MOYAI_ARGS(1u), MOYAI_INTO(moyai_skip(), &where), NULL));
    FIBER_ASSERT_INT(where, pid[at]);
    moyai_ref_unref(found);
}

/* Where names are located, to register one takes rings of questions. What is asked for meanwhile does not change what
 * is true of it. */
static void names_are_decided_before_an_object_moves(void **state) {
    (void)state;
    wide = true;
    open_hosts(3);
    moyai_ref *ref = made_at(0, ""), *other = made_at(2, "taken"), *ends = made_at(0, "");
    moyai_future *one = begin_told(0, "name", ref, "one"), *again = begin_told(0, "name", ref, "one");
    moyai_future *f = begin_move(ref, 0, 1);
    KIT_RC(end_move(one), 0);
    KIT_RC(end_move(again), 0);
    KIT_OK(end_move(f));
    expect_name("one", ref, 1);
    counts[PACKS] = 1; /* once more, while it is packed */
    f = begin_move(ref, 1, 0);
    KIT_UNTIL(node, counts[PACKS] == 2);
    moyai_future *two = begin_told(1, "name", ref, "two");
    (void)mark(1);
    counts[PACKS] = 3;
    KIT_RC(end_move(two), 0);
    KIT_OK(end_move(f));
    expect_name("one", ref, 0);
    expect_name("two", ref, 0);
    moyai_future *no = begin_told(0, "name", ref, "taken"); /* it does not take along what it has not got */
    f = begin_move(ref, 0, 1);
    KIT_RC(end_move(no), MOYAI_EEXIST);
    KIT_OK(end_move(f));
    expect_name("taken", other, 2);
    expect_name("two", ref, 1);
    one = begin_told(0, "name", ends, "three"), again = begin_told(0, "name", ends, "three");
    KIT_RC(told(0, "unname", ends, "three"), 0);
    KIT_RC(end_move(one), MOYAI_ECANCELED);
    KIT_RC(end_move(again), 0); /* it asks for itself */
    expect_name("three", ends, 0);
    one = begin_told(0, "name", ends, "four");
    KIT_RC(told(0, "end", ends, NULL), 0);
    KIT_RC(end_move(one), MOYAI_ENOOBJECT);
    moyai_ref_unref(ends);
    moyai_ref_unref(other);
    moyai_ref_unref(ref);
    close_hosts(3);
    wide = false;
}

/* ---- nodes that leave ------------------------------------------------------------------------ */

/* Nothing can run at the node that leaves but what runs: its objects go when there is room for that. */
static void who_has_no_room_moves_them_later(void **state) {
    (void)state;
    enum { OBJECTS = 5, FIBERS = 20 };
    for (int i = 0; i < 2; i++) {
        bare = i == 0;
        setenv("MOYAI_MAX_FIBERS", "20", 1);
        open_hosts(2);
        unsetenv("MOYAI_MAX_FIBERS");
        moyai_ref *ref[OBJECTS];
        for (int k = 0; k < OBJECTS; k++) ref[k] = made_at(0, "");
        counts[WAITS] = 1;
        moyai_future *busy[FIBERS];
        for (int k = 0; k < FIBERS; k++) busy[k] = moyai_call_async(host[0], "wait", MOYAI_NONE);
        KIT_UNTIL(node, counts[BEGUN] == FIBERS);
        FIBER_ASSERT(!says_that_it_leaves(0));
        kill(pid[0], SIGTERM);
        KIT_UNTIL(node, counts[LEAVES] == 1 && says_that_it_leaves(0)); /* so nobody moves objects to it */
        FIBER_ASSERT(!says_that_it_leaves(1));
        counts[WAITS] = 2;
        for (int k = 0; k < FIBERS; k++) expect_ok(busy[k]);
        FIBER_ASSERT_INT(kit_reap(pid[0]), 0);
        pid[0] = 0;
        for (int k = 0; k < OBJECTS; k++) {
            int where = 0;
            KIT_OK(moyai_call(ref[k], "next", MOYAI_ARGS(1u), MOYAI_INTO(moyai_skip(), &where), NULL));
            FIBER_ASSERT_INT(where, pid[1]);
            moyai_ref_unref(ref[k]);
        }
        close_hosts(2);
    }
    bare = false;
}

/* One that has just been unpacked at the leaver is not its own yet: it hears that its node leaves when it is, and goes
 * back. */
static void what_arrives_hears_of_the_leave_when_it_is_there(void **state) {
    (void)state;
    open_hosts(2);
    moyai_ref *ref = made_at(0, "");
    FIBER_ASSERT_INT(taken(ref), 0);
    moyai_future *f = arrives_at_1(ref);
    kill(pid[1], SIGTERM);
    KIT_UNTIL(node, says_that_it_leaves(1));
    for (int i = 0; i < 20; i++) (void)!moyai_ping(node, moyai_ref_home(host[1]), MOYAI_FOREVER);
    FIBER_ASSERT_INT(counts[HOOKS], 0);
    kit_cont(pid[0]);
    KIT_OK(end_move(f));
    FIBER_ASSERT_INT(kit_reap(pid[1]), 0);
    pid[1] = 0;
    FIBER_ASSERT_INT(counts[HOOKS], 1);
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* One of those that might take them is stopped: it is asked, but not for each. */
static void who_is_stopped_holds_up_few(void **state) {
    (void)state;
    enum { OBJECTS = 500 };
    open_hosts(3);
    moyai_ref *ref[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) ref[i] = made_at(0, "");
    kit_stop(pid[2]);
    kit_end(pid[0]);
    pid[0] = 0;
    kit_cont(pid[2]);
    for (int i = 0; i < OBJECTS; i++) {
        int where = 0;
        KIT_OK(moyai_call(ref[i], "next", MOYAI_ARGS(1u), MOYAI_INTO(moyai_skip(), &where), NULL));
        FIBER_ASSERT_INT(where, pid[1]);
        moyai_ref_unref(ref[i]);
    }
    close_hosts(3);
}

/* ---- a full disk ----------------------------------------------------------------------------- */

/* The new home cannot write that it has the names now. References go on working, and the names work once it can. */
static void names_come_when_there_is_room(void **state) {
    (void)state;
    static const char block[4096];
    char dir[100], filler[128];
    snprintf(dir, sizeof dir, "%s/tiny", kit_dir());
    snprintf(filler, sizeof filler, "%s/filler", dir);
    if (mkdir(dir, 0700) < 0 || unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, "") < 0 ||
        mount("moyai-test", dir, "tmpfs", 0, "size=64k,mode=0700") < 0) {
        print_message("skipped: mounting a small file system is not permitted here\n");
        skip();
    }
    snprintf(grid, sizeof grid, "file:%s", dir);
    char at_grid[160];
    snprintf(at_grid, sizeof at_grid, "MOYAI_GRID=%s", grid);
    open_hosts(1);
    pid[1] = kit_child_quiet("host", at_grid, "MOYAI_LOG=error", "host1", NULL);
    host[1] = kit_lookup(node, "host1");
    moyai_ref *ref = made_at(0, "named"), *found = NULL;
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    const int fd = open(filler, O_CREAT | O_WRONLY, 0600);
    while (write(fd, block, sizeof block) > 0) {
    }
    close(fd);
    KIT_OK(move(ref, 0, 1));
    FIBER_ASSERT_INT(call_next(ref), pid[1]);
    char *said = kit_stderr(pid[1]);
    KIT_TEXT(said, "MOYAI-MOVE-NAME an object that has moved here lacks its name, which is tried again: ");
    free(said);
    KIT_OK(unlink(filler));
    KIT_OK(moyai_lookup_wait(node, "named", 60 * MOYAI_SEC, &found));
    FIBER_ASSERT(moyai_ref_equal(found, ref));
    FIBER_ASSERT_INT(call_next(found), pid[1]);
    expect_sum(ref);
    moyai_ref_unref(found);
    moyai_ref_unref(ref);
    close_hosts(2);
    grid[0] = 0;
    (void)!umount(dir);
}

/* ---- taken for dead -------------------------------------------------------------------------- */

static const struct moyai_method no_methods[] = {{NULL, NULL}};
static const struct moyai_class met_class = MOYAI_CLASS("Met", no_methods, NULL);

/* Somebody who is not linked to that host finds its socket gone, and says so when it comes: it lives on under another
 * id. */
static void taken_for_dead(int i, moyai_ref *goes) {
    char hex[33], path[200];
    const struct moyai_node_id before = moyai_ref_home(host[i]);
    moyai_node *other = kit_node(NULL);
    moyai_ref *met = kit_object(other, &met_class, NULL), *its = kit_lookup(other, i ? "host1" : "host0"), *now = NULL;
    moyai_node_id_format(before, hex);
    snprintf(path, sizeof path, "%s/%.16s", getenv("MOYAI_RUN_DIR"), hex);
    FIBER_ASSERT(unlink(path) == 0);
    moyai_future *f = moyai_call_async(its, "mark", MOYAI_NONE);
    (void)KIT_FAILED(f, MOYAI_EDEAD, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
    moyai_future_free(f);
    if (i == 0) kit_cont(pid[0]);
    f = moyai_call_async(host[i], "move", MOYAI_ARGS(goes, met)); /* it meets that one */
    (void)moyai_future_get(f, MOYAI_NONE);
    moyai_future_free(f);
    while (!now || moyai_node_id_equal(moyai_ref_home(now), before)) {
        moyai_ref_unref(now);
        now = kit_lookup(node, i ? "host1" : "host0");
        (void)moyai_sleep_masked(node, MOYAI_MS);
    }
    if (i != 0) kit_cont(pid[0]);
    moyai_ref_unref(host[i]);
    host[i] = now;
    moyai_ref_unref(its);
    moyai_ref_unref(met);
    moyai_node_free(other);
}

/* One of the homes, after adopt has been answered. Whatever the old home is told of the move, the object is at one. */
static void who_is_taken_for_dead_loses_nothing(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        open_hosts(2);
        moyai_ref *ref = made_at(0, "kept"), *goes = made_at(i, "");
        FIBER_ASSERT_INT(taken(ref), 0);
        moyai_future *f = arrives_at_1(ref);
        taken_for_dead(i, goes);
        int rc = 0;
        (void)moyai_future_get(f, MOYAI_INTO(&rc));
        moyai_future_free(f);
        moyai_ref *found = kit_lookup(node, "kept");
        FIBER_ASSERT(moyai_ref_equal(found, ref));
        (void)call_next(found);
        expect_sum(found);
        moyai_ref_unref(found);
        moyai_ref_unref(goes);
        moyai_ref_unref(ref);
        close_hosts(2);
    }
}

static int64_t claimed(moyai_ref *ref, uint64_t number, const moyai_ref *by) {
    const struct moyai_object_id id = moyai_ref_object(ref);
    const struct moyai_node_id who = moyai_ref_home(by);
    moyai_ref *home = NULL;
    int64_t whose = -1;
    KIT_OK(moyai_node_ref(node, moyai_ref_home(host[0]), &home));
    KIT_OK(moyai_call(home, "claim", MOYAI_ARGS(moyai_bytes(id.b, 16), number, moyai_bytes(who.b, 16)),
                      MOYAI_INTO(&whose), NULL));
    moyai_ref_unref(home);
    return whose;
}

/* The new home dies, after settle was said and before it was answered: that is no success. If it lived it would be told
 * that the object is its own, and nobody else would. */
static void who_dies_without_a_word_loses_it(void **state) {
    (void)state;
    open_hosts(2);
    moyai_ref *ref = made_at(0, "lost");
    FIBER_ASSERT_INT(claimed(ref, 1, host[1]), 0);
    moyai_future *f = arrives_at_1(ref);
    kit_stop(pid[1]);
    kit_cont(pid[0]);
    for (int i = 0; i < 5; i++) (void)mark(0); /* it has taken the answer, too */
    kit_kill(pid[1]);
    pid[1] = 0;
    FIBER_ASSERT_INT(end_move(f), MOYAI_EDEAD);
    FIBER_ASSERT_INT(claimed(ref, 1, host[0]), 0);
    FIBER_ASSERT_INT(claimed(ref, 2, host[1]), 0);
    FIBER_ASSERT_INT(claimed(ref, 1, host[1]), 1);
    FIBER_ASSERT_INT(claimed(ref, 1, host[1]), 1); /* whose answer was lost asks again */
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* Its home is killed: what is lost with it has not ended, whoever asks, and whatever he or its old home knows of it. i:
 * it is known where it was; it is not, and its old home has not been told that it is gone; it has; and it has moved
 * again, so that neither of two old homes that are asked in turn had it last. */
static void what_is_lost_with_its_home_is_dead(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        open_hosts(3);
        moyai_ref *ref = made_at(0, "");
        const int last = i == 3 ? 2 : 1;
        KIT_OK(move(ref, 0, 1));
        if (i == 3) KIT_OK(move(ref, 1, 2));
        if (i == 0) FIBER_ASSERT_INT(taken(ref), 0);
        kit_kill(pid[last]);
        pid[last] = 0;
        if (i >= 2) FIBER_ASSERT_INT(told(0, "poke", ref, NULL), MOYAI_EDEAD);
        for (int k = 0; k < 3; k++) {
            moyai_future *f = moyai_call_async(ref, "next", MOYAI_ARGS(1u));
            KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_EDEAD); /* it may be on its way as that is known */
            moyai_future_free(f);
        }
        moyai_ref_unref(ref);
        close_hosts(3);
    }
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(what_waited_begins_before_what_came_later),
        cmocka_unit_test(what_waited_is_not_held_back_again),
        cmocka_unit_test(who_comes_back_is_found_there),
        cmocka_unit_test(signals_go_along),
        cmocka_unit_test(signals_follow_what_has_been_said),
        cmocka_unit_test(who_has_it_no_more_says_where_it_is),
        cmocka_unit_test(what_has_ended_is_not_looked_for),
        cmocka_unit_test(who_ends_does_not_move),
        cmocka_unit_test(who_ends_as_its_node_leaves_does_not_move),
        cmocka_unit_test(names_stay_as_they_were_packed),
        cmocka_unit_test(names_are_decided_before_an_object_moves),
        cmocka_unit_test(who_has_no_room_moves_them_later),
        cmocka_unit_test(what_arrives_hears_of_the_leave_when_it_is_there),
        cmocka_unit_test(who_is_stopped_holds_up_few),
        cmocka_unit_test(names_come_when_there_is_room),
        cmocka_unit_test(who_is_taken_for_dead_loses_nothing),
        cmocka_unit_test(who_dies_without_a_word_loses_it),
        cmocka_unit_test(what_is_lost_with_its_home_is_dead),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    return kit_main(argc, argv, move_roles, tests);
}
