/* SPDX-License-Identifier: Apache-2.0 */
/* Names and keys in a grid of several hosts. */
#include "link/key.h"
#include "tests/public/wide_kit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* Its name comes just after who waits for it is to say that he does: after 5 s. */
static int role_late(int argc, char **argv) {
    struct server s = {0};
    FIBER_ASSERT_INT(argc, 1);
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.signals = true;
    moyai_node *n = kit_node(&opts);
    moyai_ref *ref = kit_object(n, &cls, &s);
    KIT_OK(moyai_register(ref, "soon"));
    (void)moyai_sleep(n, 5500 * MOYAI_MS);
    KIT_OK(moyai_register(ref, argv[0]));
    KIT_OK(moyai_node_serve(n, MOYAI_FOREVER));
    moyai_ref_unref(ref);
    moyai_node_free(n);
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

static void a_name_has_one_object(void **state) {
    (void)state;
    begin_grid(1);
    pid_t pid[] = {start("middle", 0), start("taken", -1)};
    moyai_node *n = join();
    moyai_ref *taken = kit_lookup(n, "taken");
    struct server s = {0};
    moyai_ref *mine = kit_object(n, &cls, &s), *found = NULL, *other = kit_object(n, &cls, &s);
    KIT_RC(moyai_register(mine, "taken"), MOYAI_EEXIST);
    struct moyai_error e;
    moyai_last_error(n, &e);
    KIT_TEXT(e.text, "\"taken\"");
    KIT_OK(moyai_register(mine, "mine"));
    KIT_OK(moyai_register(mine, "mine"));
    KIT_RC(moyai_register(other, "mine"), MOYAI_EEXIST);
    int64_t y = 0;
    KIT_OK(moyai_call(taken, "add_at", MOYAI_ARGS("mine", 1), MOYAI_INTO(&y), NULL));
    FIBER_ASSERT_INT(s.calls, 1);
    KIT_OK(moyai_unregister(mine, "mine"));
    KIT_RC(moyai_unregister(mine, "mine"), MOYAI_ENOENT);
    KIT_RC(moyai_lookup(n, "mine", &found), MOYAI_ENOENT);
    KIT_OK(moyai_register(other, "mine"));
    KIT_RC(moyai_lookup(n, "nobody's", &found), MOYAI_ENOENT);
    KIT_RC(moyai_lookup_wait(n, "nobody's", 20 * MOYAI_MS, &found), MOYAI_ETIMEDOUT);
    /* It goes with its object. */
    KIT_OK(moyai_object_end(other));
    KIT_RC(moyai_lookup(n, "mine", &found), MOYAI_ENOENT);
    KIT_OK(moyai_register(mine, "mine"));
    KIT_OK(moyai_lookup(n, "mine", &found));
    FIBER_ASSERT(moyai_ref_equal(found, mine));
    moyai_ref_unref(found);
    moyai_ref_unref(mine);
    moyai_ref_unref(other);
    moyai_ref_unref(taken);
    moyai_node_free(n);
    kit_end(pid[1]);
    kit_end(pid[0]);
}

/* That a name is nowhere is said only if somebody was asked, or nobody else can be there. */
static void a_name_is_asked_for(void **state) {
    (void)state;
    begin_grid(1);
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.grid = opts.listen = place[0];
    opts.key_file = key;
    char dir[128];
    snprintf(dir, sizeof dir, "%s/lone", kit_dir());
    opts.run_dir = dir;
    moyai_node *lone = kit_node(&opts), *n = join();
    moyai_ref *found = NULL;
    moyai_node_free(n);
    KIT_RC(moyai_lookup(lone, "middle", &found), MOYAI_ENOENT); /* it is the only place where it would be met */
    moyai_node_free(lone);
    n = join();
    KIT_RC(moyai_lookup(n, "middle", &found), MOYAI_EUNREACHABLE);
    struct moyai_error e;
    moyai_last_error(n, &e);
    KIT_TEXT(e.text, "nobody could be asked for the name \"middle\": this node has no link");
    KIT_RC(moyai_lookup_wait(n, "middle", 20 * MOYAI_MS, &found), MOYAI_ETIMEDOUT);
    pid_t pid = start("middle", 0);
    moyai_ref_unref(kit_lookup(n, "middle"));
    moyai_node *late = join();
    KIT_OK(moyai_lookup(late, "middle", &found)); /* it has no link yet */
    moyai_ref_unref(found);
    KIT_RC(moyai_lookup(late, "nobody's", &found), MOYAI_ENOENT);
    moyai_node_free(late);
    moyai_node_free(n);
    kit_end(pid);
}

/* ---- keys ------------------------------------------------------------------------------------ */

struct awaited {
    moyai_node *n;
    int rc;
    bool over;
};

static void await_late(void *arg) {
    struct awaited *a = arg;
    moyai_ref *ref = NULL;
    a->rc = moyai_lookup_wait(a->n, "late", 60 * MOYAI_SEC, &ref);
    moyai_ref_unref(ref);
    a->over = true;
}

/* Who waits hears of the name also if it is found when his time to say so has come, and before he has run. */
static void a_name_comes_while_its_waiter_is_due(void **state) {
    (void)state;
    begin_grid(1);
    pid_t pid[] = {start("one", 0), start_as("late", "late", -1, NULL)};
    moyai_node *n = join();
    moyai_ref *soon = kit_lookup(n, "soon");
    struct awaited a = {.n = n};
    KIT_OK(moyai_go(n, await_late, &a));
    (void)moyai_sleep(n, MOYAI_MS); /* it waits */
    moyai_ns until = moyai_now() + 7 * (moyai_ns)MOYAI_SEC;
    while (moyai_now() < until) { /* this thread computes; another serves the network */
    }
    for (int i = 0; i < 1000 && !a.over; i++) (void)moyai_sleep(n, 10 * MOYAI_MS);
    FIBER_ASSERT(a.over);
    KIT_OK(a.rc);
    moyai_ref_unref(soon);
    moyai_node_free(n);
    for (int i = 0; i < 2; i++) kit_end(pid[i]);
}

static void another_key_is_another_grid(void **state) {
    (void)state;
    begin_grid(1);
    pid_t pid = start("middle", 0);
    char stranger[128];
    make_key("stranger", stranger);
    moyai_node *n = join(), *m = join_with(stranger);
    moyai_ref *ref = kit_lookup(n, "middle"), *found = NULL;
    KIT_RC(moyai_lookup_wait(m, "middle", 300 * MOYAI_MS, &found), MOYAI_ETIMEDOUT);
    struct moyai_node_stats s = {.size = sizeof s};
    moyai_node_stats(m, &s);
    FIBER_ASSERT_INT(s.links, 0);
    add_much(n, ref, 10);
    moyai_ref_unref(ref);
    moyai_node_free(n);
    moyai_node_free(m);
    kit_end(pid);
    /* None at all is an error at once. */
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    struct moyai_error e;
    opts.grid = places;
    opts.key_file = "/nonexistent/key";
    KIT_RC(moyai_node_new(&n, &opts, &e), MOYAI_ENOENT);
    KIT_TEXT(e.text, "moyai key new");
    opts.key_file = key;
    opts.listen = "192.0.2.1:1";
    FIBER_ASSERT(moyai_node_new(&n, &opts, &e) < 0); /* not an address of this host */
    KIT_TEXT(e.text, "192.0.2.1:1");
    opts.listen = "nonsense";
    KIT_RC(moyai_node_new(&n, &opts, &e), MOYAI_EINVAL);
    KIT_TEXT(e.text, "nonsense");
    opts.listen = NULL;
    opts.grid = "fd:1000000,1000001";
    KIT_RC(moyai_node_new(&n, &opts, &e), MOYAI_EINVAL);
    KIT_TEXT(e.text, "descriptor 1000000");
    /* A grid in a directory is one of one host unless a key is given: what else is set for others does not change it.
     */
    opts.grid = kit_grid();
    opts.listen = "any";
    opts.key_file = NULL;
    moyai_node *local = kit_node(&opts);
    moyai_node_free(local);
    opts.key_file = "/nonexistent/key";
    KIT_RC(moyai_node_new(&n, &opts, &e), MOYAI_ENOENT);
    KIT_TEXT(e.text, "moyai key new");
    opts.listen = NULL;
    opts.key_file = key;
    opts.grid = places;
    opts.port_range = "9-3";
    KIT_RC(moyai_node_new(&n, &opts, &e), MOYAI_EINVAL);
    KIT_TEXT(e.text, "port_range");
}

/* Links made with a key that has been withdrawn are closed at the next handshake; what goes on goes on. */
static void a_key_is_rotated(void **state) {
    (void)state;
    begin_grid(1);
    char grid[160], file[160], dir[160], at[48], events[160], seen[140];
    snprintf(grid, sizeof grid, "MOYAI_GRID=%s", places);
    snprintf(file, sizeof file, "MOYAI_KEY_FILE=%s", key);
    snprintf(dir, sizeof dir, "MOYAI_RUN_DIR=%s/rotated", kit_dir());
    snprintf(at, sizeof at, "MOYAI_LISTEN=%s", place[0]);
    snprintf(seen, sizeof seen, "%s/rotated.events", kit_dir());
    snprintf(events, sizeof events, "MOYAI_EVENTS=%s", seen);
    pid_t pid = kit_child("server", grid, file, dir, at, events, "middle", NULL);
    char ours[140];
    snprintf(ours, sizeof ours, "%s/rotated.ours", kit_dir());
    setenv("MOYAI_EVENTS", ours, 1);
    moyai_node *n = join();
    unsetenv("MOYAI_EVENTS");
    moyai_ref *ref = kit_lookup(n, "middle");
    add_much(n, ref, 10);
    moyai_future *f = moyai_call_async(ref, "linked", MOYAI_ARGS(2)); /* answered when both are there */
    make_key("key", key);
    moyai_node *m = join();
    moyai_ref *again = kit_lookup(m, "middle");
    add_much(m, again, 10);
    /* The link of the first is made anew, with the new key, and its call has outlived the old one. */
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    add_much(n, ref, 10);
    moyai_future_free(f);
    moyai_ref_unref(ref);
    moyai_ref_unref(again);
    moyai_node_free(n);
    moyai_node_free(m);
    kit_end(pid);
    FILE *in = fopen(seen, "r");
    FIBER_ASSERT(in);
    char line[1024];
    int closed = 0;
    while (fgets(line, sizeof line, in)) closed += strstr(line, "link-down") && strstr(line, "withdrawn");
    fclose(in);
    FIBER_ASSERT_INT(closed, 1);
    /* And the other end was told that it ends in order: else it would count as evidence of a death. */
    in = fopen(ours, "r");
    FIBER_ASSERT(in);
    for (closed = 0; fgets(line, sizeof line, in);) closed += strstr(line, "link-down") && strstr(line, "given up");
    fclose(in);
    FIBER_ASSERT_INT(closed, 1);
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(a_name_has_one_object),
        cmocka_unit_test(a_name_is_asked_for),
        cmocka_unit_test(a_name_comes_while_its_waiter_is_due),
        cmocka_unit_test(another_key_is_another_grid),
        cmocka_unit_test(a_key_is_rotated),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"server", role_server}, {"late", role_late}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
