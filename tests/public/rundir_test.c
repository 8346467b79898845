/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grid of one directory, joined from environments that differ: a login session has XDG_RUNTIME_DIR, a batch job has
 * not. All of it have their sockets in one run directory, and nobody takes a living node for dead because it looked in
 * another one.
 */
#include "tests/public/kit.h"

#include <sys/stat.h>

static int m_number(moyai_request *rq, void *self) {
    return moyai_return(rq, MOYAI_ARGS(*(int *)self));
}

static const struct moyai_method methods[] = {{"number", m_number}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Numbered", methods, NULL);

static char login[300], batch[300], grid[300];

static void begin(const char *name) {
    snprintf(login, sizeof login, "%s/%s.login", kit_dir(), name);
    snprintf(batch, sizeof batch, "%s/%s.batch", kit_dir(), name);
    snprintf(grid, sizeof grid, "%s/%s", kit_grid(), name);
    FIBER_ASSERT_INT(mkdir(login, 0700), 0);
    FIBER_ASSERT_INT(mkdir(batch, 0700), 0);
    unsetenv("MOYAI_RUN_DIR");
}

static void end(void) {
    unsetenv("XDG_RUNTIME_DIR");
    setenv("MOYAI_RUN_DIR", kit_dir(), 1);
}

/* A node as of a session in whose environment this is the runtime directory. */
static moyai_node *join_from(const char *runtime_dir) {
    setenv("XDG_RUNTIME_DIR", runtime_dir, 1);
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.grid = grid;
    return kit_node(&opts);
}

static void expect_number(moyai_node *n, const char *name, int want) {
    moyai_ref *ref = kit_lookup(n, name);
    int number = 0;
    KIT_OK(moyai_call(ref, "number", MOYAI_NONE, MOYAI_INTO(&number), NULL));
    FIBER_ASSERT_INT(number, want);
    moyai_ref_unref(ref);
}

static pid_t alpha(void) {
    char at[2][320];
    snprintf(at[0], sizeof at[0], "MOYAI_GRID=%s", grid);
    snprintf(at[1], sizeof at[1], "XDG_RUNTIME_DIR=%s", login);
    return kit_child("alpha", at[0], at[1], NULL);
}

static int role_alpha(int argc, char **argv) {
    (void)argc, (void)argv;
    int number = 7;
    return kit_serve(NULL, &cls, &number, "alpha");
}

static void who_joins_goes_where_the_others_are(void **state) {
    (void)state;
    begin("joined");
    int other = 8;
    pid_t pid = alpha();
    moyai_node *n = join_from(login); /* it has come when alpha is there */
    expect_number(n, "alpha", 7);
    moyai_node_free(n);
    n = join_from(batch);
    expect_number(n, "alpha", 7);
    moyai_ref *ref = kit_object(n, &cls, &other);
    KIT_RC(moyai_register(ref, "alpha"), MOYAI_EEXIST);
    moyai_ref_unref(ref);
    moyai_node_free(n);
    n = join_from(login);
    expect_number(n, "alpha", 7);
    moyai_node_free(n);

    /* Who was told another directory is refused: it could reach nobody. */
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    struct moyai_error e = {0};
    opts.grid = grid;
    opts.run_dir = batch;
    KIT_RC(moyai_node_new(&n, &opts, &e), MOYAI_EINVAL);
    KIT_TEXT(e.text, batch);
    KIT_TEXT(e.text, login);
    KIT_TEXT(e.text, "set MOYAI_RUN_DIR to that");

    /* With the last of them that directory is nobody's. */
    kit_kill(pid);
    KIT_OK(moyai_node_new(&n, &opts, &e));
    moyai_node_free(n);
    end();
}

/* The directory of the others' sockets is not to be seen for a while: nobody can say that they are dead. */
static void a_node_elsewhere_keeps_its_names(void **state) {
    (void)state;
    begin("kept");
    int other = 8, got;
    char away[320], run_dir[320];
    snprintf(away, sizeof away, "%s.away", login);
    snprintf(run_dir, sizeof run_dir, "%s/moyai", login);
    pid_t pid = alpha();
    moyai_node *n = join_from(login);
    expect_number(n, "alpha", 7);
    moyai_node_free(n);
    FIBER_ASSERT_INT(rename(login, away), 0);
    n = join_from(batch);
    moyai_ref *mine = kit_object(n, &cls, &other), *ref = NULL;
    KIT_RC(moyai_register(mine, "alpha"), MOYAI_EEXIST);
    KIT_OK(moyai_lookup(n, "alpha", &ref));
    struct moyai_error e = {0};
    KIT_RC(moyai_call(ref, "number", MOYAI_NONE, MOYAI_INTO(&got), NULL), MOYAI_EUNREACHABLE);
    moyai_last_error(n, &e);
    KIT_TEXT(e.text, run_dir);
    FIBER_ASSERT_INT(e.executed, MOYAI_NEVER_EXECUTED);
    moyai_ref_unref(ref);
    FIBER_ASSERT_INT(rename(away, login), 0);

    KIT_OK(moyai_lookup(n, "alpha", &ref)); /* to be seen again */
    moyai_ref_unref(ref);
    kit_kill(pid);
    KIT_OK(moyai_register(mine, "alpha")); /* and now it is dead */
    moyai_ref_unref(mine);
    moyai_node_free(n);
    end();
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(who_joins_goes_where_the_others_are),
        cmocka_unit_test(a_node_elsewhere_keeps_its_names),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"alpha", role_alpha}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
