/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that move in a grid without a directory, where a node has room for so many names and look-ups. */
#include "tests/public/move_kit.h"

#include "object/internal.h"

#include <signal.h>

static void fill(int i, uint64_t left) {
    KIT_OK(moyai_call(host[i], "fill", MOYAI_ARGS(left), MOYAI_NONE, NULL));
}

static void expect_no_room(moyai_ref *ref, int from, int to) {
    int rc = 0;
    const char *text = "";
    moyai_future *f = moyai_call_async(host[from], "try", MOYAI_ARGS(ref, host[to]));
    KIT_OK(moyai_future_get(f, MOYAI_INTO(&rc, &text)));
    KIT_RC(rc, MOYAI_ELIMIT);
    KIT_TEXT(text, "as many names as it may have in a grid without a directory");
    moyai_future_free(f);
}

/* It has a name of its own there, and those that it was given: without room for all of them nobody would find it. */
static void who_has_no_room_for_its_names_does_not_take_it(void **state) {
    (void)state;
    open_hosts(2);
    moyai_ref *ref = made_at(0, "one"), *other = made_at(0, ""), *found = NULL;
    fill(1, 1);
    expect_no_room(ref, 0, 1);
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    fill(1, 2);
    KIT_OK(move(ref, 0, 1));
    FIBER_ASSERT_INT(call_next(ref), pid[1]);
    KIT_OK(moyai_lookup(node, "one", &found));
    FIBER_ASSERT(moyai_ref_equal(found, ref) && moyai_node_id_equal(moyai_ref_home(found), moyai_ref_home(host[1])));
    moyai_ref_unref(found);
    expect_no_room(other, 0, 1); /* they take place there */
    KIT_OK(move(ref, 1, 0));     /* and it is free again */
    KIT_OK(move(other, 0, 1));
    FIBER_ASSERT_INT(call_next(ref), pid[0]);
    expect_sum(ref);
    moyai_ref_unref(other);
    moyai_ref_unref(ref);
    close_hosts(2);
}

/* What arrives has its names only when its old home has said settle: till then their place is kept. */
static void names_of_what_arrives_have_their_place(void **state) {
    (void)state;
    open_hosts(3);
    moyai_ref *first = made_at(0, ""), *second = made_at(2, "");
    KIT_OK(moyai_call(second, "take", MOYAI_NONE, MOYAI_NONE, NULL));
    moyai_ref *local = made_at(1, "");
    const uint64_t before = mark(1);
    int rc = 0;
    fill(1, 1);
    counts[UNPACKS] = 1;
    moyai_future *f = begin_move(first, 0, 1);
    KIT_UNTIL(node, counts[UNPACKS] == 2);
    kit_stop(pid[0]);
    counts[UNPACKS] = 3;
    KIT_UNTIL(node, mark(1) > before);
    expect_no_room(second, 2, 1);
    KIT_OK(moyai_call(host[1], "name", MOYAI_ARGS(local, "local"), MOYAI_INTO(&rc), NULL));
    KIT_RC(rc, MOYAI_ELIMIT); /* nor does the program there get it */
    kit_cont(pid[0]);
    KIT_OK(end_move(f));
    FIBER_ASSERT_INT(call_next(first), pid[1]);
    expect_no_room(second, 2, 1);
    fill(1, 1);
    KIT_OK(move(second, 2, 1));
    expect_sum(first);
    moyai_ref_unref(local);
    moyai_ref_unref(first);
    moyai_ref_unref(second);
    close_hosts(3);
}

/* Who leaves moves its objects elsewhere then. */
static void who_leaves_looks_for_room(void **state) {
    enum { OBJECTS = 20 };
    (void)state;
    open_hosts(3);
    moyai_ref *ref[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) ref[i] = made_at(0, "");
    fill(1, 2);
    kit_end(pid[0]);
    pid[0] = 0;
    int at[2] = {0};
    for (int i = 0; i < OBJECTS; i++) {
        int where = 0;
        KIT_OK(moyai_call(ref[i], "next", MOYAI_ARGS(1u), MOYAI_INTO(moyai_skip(), &where), NULL));
        FIBER_ASSERT(where == pid[1] || where == pid[2]);
        at[where == pid[2]]++;
        moyai_ref_unref(ref[i]);
    }
    FIBER_ASSERT(at[0] <= 2);
    close_hosts(3);
}

/* ---- look-ups ---------------------------------------------------------------------------------- */

enum { LOOKS = 128 }; /* at a time */

struct looks {
    size_t begun, wait;
};

static struct looks looks(void) {
    struct looks l = {0};
    exec_lock(node->x);
    l.begun = node->looks;
    for (const struct blocked *b = node->look_waits; b; b = b->wait_next) l.wait++;
    exec_unlock(node->x);
    FIBER_ASSERT(l.begun <= LOOKS);
    return l;
}

static bool all_look(size_t n) {
    const struct looks l = looks();
    return l.begun == LOOKS && l.wait == n - LOOKS;
}

/* Hundreds are looked for at once, as their node has left, and nobody answers for a while: those who are asked have
 * room for some. */
static void not_all_are_looked_for_at_once(void **state) {
    enum { OBJECTS = 400 };
    (void)state;
    hidden = true;
    open_hosts(3);
    hidden = false;
    moyai_ref *ref[OBJECTS];
    moyai_future *f[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) ref[i] = made_at(1, "");
    kit_end(pid[1]);
    pid[1] = 0;
    FIBER_ASSERT_INT(call_next(ref[0]), pid[2]); /* so it is known that the other has left */
    kit_stop(pid[0]);                            /* whom all look-ups pass */
    for (int i = 1; i < OBJECTS; i++) f[i] = moyai_call_async(ref[i], "next", MOYAI_ARGS(1u));
    KIT_UNTIL(node, all_look(OBJECTS - 1));
    kit_cont(pid[0]);
    for (int i = 1; i < OBJECTS; i++) {
        int where = 0;
        KIT_OK(moyai_future_get(f[i], MOYAI_INTO(moyai_skip(), &where)));
        FIBER_ASSERT_INT(where, pid[2]);
        moyai_future_free(f[i]);
    }
    const struct looks l = looks();
    FIBER_ASSERT(l.begun == 0 && l.wait == 0);
    for (int i = 0; i < OBJECTS; i++) moyai_ref_unref(ref[i]);
    kit_end(pid[2]); /* the first is its only way, and would wait for it */
    pid[2] = 0;
    close_hosts(3);
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(who_has_no_room_for_its_names_does_not_take_it),
        cmocka_unit_test(names_of_what_arrives_have_their_place),
        cmocka_unit_test(who_leaves_looks_for_room),
        cmocka_unit_test(not_all_are_looked_for_at_once),
    };
    wide = true;
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    return kit_main(argc, argv, move_roles, tests);
}
