/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of nodes: the private grid, evidence of death, joining a run from a second terminal, the event log. */
#include "tests/cli/kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Give the master one line and return what it says. */
static const char *ask(struct cli *c, const char *line) {
    char answer[300];
    cli_type(c, line);
    cli_type(c, "\n");
    snprintf(answer, sizeof answer, "%s:", line);
    const char *got = cli_line(c, 1, answer);
    return strstr(got, answer) + strlen(answer) + 1;
}

static void nodes_find_each_other(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "@n", "master", ":", "@n", "serve", "a", ":", "-n", "1", "@n", "serve", "b", NULL);
    assert_true(atoi(ask(&c, "call a")) > 0);
    assert_true(atoi(ask(&c, "call b")) > 0);
    assert_string_equal(ask(&c, "learn a b"), "ok");
    assert_string_equal(ask(&c, "try a"), "ok ");
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    assert_string_equal(c.text[1].p, "");
    /* The others were asked to end when the master had ended, and did so in order. */
    assert_int_equal(kit_count(&c.text[0], "[1.0] ended a"), 1);
    assert_int_equal(kit_count(&c.text[0], "[2.0] ended b"), 1);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* A process that has no link to the victim, and holds a reference to it, knows that it is dead and what of: from the
 * witness. The reference is used after the report has been seen, when the news is in the bystander's socket. */
static void evidence_of_death(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "@n", "master", ":", "@n", "serve", "victim", ":", "@n", "serve", "bystander", NULL);
    assert_string_equal(ask(&c, "learn bystander victim"), "ok");
    pid_t victim = atoi(ask(&c, "call victim"));
    char expect[200];
    snprintf(expect, sizeof expect, "moyai run: [1.0] %s (pid %d) was killed by signal 9 (Killed)", kit_program("NODE"),
             (int)victim);
    assert_int_equal(kill(victim, SIGKILL), 0);
    assert_string_equal(cli_line(&c, 2, "was killed"), expect);
    snprintf(expect, sizeof expect, ", pid %d) has died: killed by signal 9 (Killed)", (int)victim);
    const char *heard = ask(&c, "try bystander");
    if (!strstr(heard, expect)) fail_msg("the bystander heard: %s", heard);
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0); /* the run goes on, and ends as its first group does */
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* The node is a grandchild, behind a shell that goes on: its end is seen through its own hello. */
static void wrapped_node(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "@n", "master", ":", "sh", "-c", "\"$0\" serve victim; sleep 1000", kit_program("NODE"),
              ":", "@n", "serve", "bystander", NULL);
    assert_string_equal(ask(&c, "learn bystander victim"), "ok");
    pid_t victim = atoi(ask(&c, "call victim"));
    cli_type(&c, "block victim\n");
    assert_int_equal(kill(victim, SIGKILL), 0);
    const char *got = cli_line(&c, 1, "block victim:");
    assert_non_null(strstr(got, "MOYAI_EDEAD"));
    cli_type(&c, "try bystander\n");
    assert_non_null(strstr(cli_line(&c, 1, "try bystander:"), "MOYAI_EDEAD"));
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    cli_free(&c);
}

/* Many nodes that come and end in order: none of them is taken for dead. */
static void ending_in_order_is_no_death(void **state) {
    (void)state;
    char events[128], env[160];
    snprintf(events, sizeof events, "/tmp/moyai-cli-events-%d", (int)getpid());
    snprintf(env, sizeof env, "MOYAI_EVENTS=%s", events);
    const char *const added[] = {env, NULL};
    struct cli c;
    cli_start(&c, &(struct cli_opts){.env = added}, "run", "-n", "24", "@n", "once", NULL);
    assert_int_equal(cli_wait(&c), 0);
    assert_string_equal(c.text[1].p, "");
    cli_free(&c);
    char *log = kit_read(events);
    struct kit_text t = {.p = log};
    assert_int_equal(kit_count(&t, "\"kind\":\"process-start\""), 24);
    assert_int_equal(kit_count(&t, "\"kind\":\"process-end\""), 24);
    assert_int_equal(kit_count(&t, "\"kind\":\"node-dead\""), 0);
    /* Not all of them: of those that came last, the run may have ended before it heard of them. */
    assert_in_range(kit_count(&t, "\"kind\":\"node-left\""), 1, 24);
    free(log);
    unlink(events);
}

static void process_events(void **state) {
    (void)state;
    char events[128], env[160];
    snprintf(events, sizeof events, "/tmp/moyai-cli-events-%d", (int)getpid());
    snprintf(env, sizeof env, "MOYAI_EVENTS=%s", events);
    const char *const added[] = {env, NULL};
    struct cli c;
    cli_start(&c, &(struct cli_opts){.env = added}, "run", "@h", "exit", "3", ":", "-n", "2", "@h", "die", "9", NULL);
    assert_int_equal(cli_wait(&c), 3);
    cli_free(&c);
    char *log = kit_read(events);
    struct kit_text t = {.p = log};
    assert_int_equal(kit_count(&t, "\"moyai-events\":1"), 1);
    int n = kit_count(&t, "\"kind\":\"process-start\"");
    assert_in_range(n, 1, 3); /* those of the second group that had been started when the first ended */
    assert_int_equal(kit_count(&t, "\"kind\":\"process-end\""), n);
    assert_int_equal(kit_count(&t, "\"group\":0,\"index\":0,\"rank\":0,"), 2);
    assert_int_equal(kit_count(&t, "\"status\":3,\"how\":\"exited with status 3\""), 1);
    free(log);
    unlink(events);
}

/* A second terminal: the address from --grid-file, more processes by --grid. */
static void joining(void **state) {
    (void)state;
    char file[128];
    snprintf(file, sizeof file, "/tmp/moyai-cli-grid-%d", (int)getpid());
    struct cli a, b;
    cli_start(&a, NULL, "run", "--grid-file", file, "--print-grid", "@n", "master", NULL);
    const char *said = strstr(cli_line(&a, 2, "moyai run: grid file:/"), "file:");
    char address[200];
    snprintf(address, sizeof address, "%s", said);
    assert_int_equal(access(address + 5, F_OK), 0);
    char *written = kit_read(file);
    assert_int_equal(strncmp(written, address, strlen(address)), 0);
    assert_string_equal(written + strlen(address), "\n");
    free(written);
    struct stat st;
    assert_int_equal(stat(address + 5, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);

    cli_start(&b, NULL, "run", "--grid", address, "-n", "2", "sh", "-c", "exec \"$0\" serve late$MOYAI_RANK",
              kit_program("NODE"), NULL);
    pid_t late = atoi(ask(&a, "call late0"));
    assert_true(late > 0);
    assert_true(atoi(ask(&a, "call late1")) > 0); /* it has joined, too */
    cli_type(&a, "block late0\n");
    assert_int_equal(kill(late, SIGKILL), 0);
    (void)cli_line(&b, 2, "was killed by signal 9");
    assert_non_null(strstr(cli_line(&a, 1, "block late0:"), "MOYAI_EDEAD"));
    /* With the grid's directory the second run ends, in order, and says why. */
    kill(a.pid, SIGTERM);
    assert_int_equal(cli_wait(&a), 143);
    assert_int_equal(access(file, F_OK), -1);
    assert_int_equal(access(address + 5, F_OK), -1);
    assert_int_equal(cli_wait(&b), 0);
    assert_int_equal(kit_count(&b.text[1], "has ended"), 1);
    assert_int_equal(kit_count(&b.text[0], "ended late1"), 1);
    cli_free(&a);
    cli_free(&b);
    assert_int_equal(kit_left(), 0);

    /* By the directory's plain name; a grid that is not there. */
    struct cli c;
    assert_int_equal(cli_do(&c, "run", "--grid", address + 5, "true", NULL), 125);
    assert_non_null(strstr(c.text[1].p, "there is no grid at"));
    assert_int_equal(access(address + 5, F_OK), -1);
    cli_free(&c);
    assert_int_equal(cli_do(&c, "run", "--grid", kit_program("NODE"), "true", NULL), 125);
    assert_non_null(strstr(c.text[1].p, "which is not a directory"));
    cli_free(&c);
}

/* What is in the place of --grid-file is nobody's to lose, and holds nobody up. */
static void the_grid_file_replaces_grid_files_only(void **state) {
    (void)state;
    static const char *const wrong[] = {"precious\n", "file:/tmp/x\nprecious\n", "\n\n", "precious", "/tmp/precious"};
    static const char *const good[] = {"", "\n", "file:/tmp/x\n", "file:/tmp/x", "a:1 file:/tmp/x\n"};
    char file[128];
    struct cli c;
    snprintf(file, sizeof file, "/tmp/moyai-cli-grid-%d", (int)getpid());
    for (size_t i = 0; i < 5; i++) {
        FILE *f = fopen(file, "w");
        fputs(wrong[i], f);
        fclose(f);
        assert_int_equal(cli_do(&c, "run", "--grid-file", file, "@h", "exit", "3", NULL), 125);
        assert_non_null(strstr(c.text[1].p, "is there, and not the address of a grid"));
        cli_free(&c);
        char *text = kit_read(file);
        assert_string_equal(text, wrong[i]);
        free(text);
        f = fopen(file, "w");
        fputs(good[i], f);
        fclose(f);
        assert_int_equal(cli_do(&c, "run", "--grid-file", file, "@h", "exit", "3", NULL), 3);
        cli_free(&c);
        assert_int_equal(access(file, F_OK), -1);
    }
    assert_int_equal(mkfifo(file, 0600), 0);
    assert_int_equal(cli_do(&c, "run", "--grid-file", file, "true", NULL), 125);
    cli_free(&c);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(kit_left(), 0);
}

/* Nodes without a title of their own are told apart as their lines are. */
static void nodes_are_called_after_their_numbers(void **state) {
    (void)state;
    struct cli c, ps;
    cli_start(&c, NULL, "run", "--print-grid", "@n", "master", ":", "-n", "2", "sh", "-c",
              "exec \"$0\" serve w$MOYAI_INDEX", kit_program("NODE"), ":", "env", "MOYAI_TITLE=mine", "@n", "serve",
              "t", NULL);
    char address[200];
    snprintf(address, sizeof address, "%s", strstr(cli_line(&c, 2, "moyai run: grid file:/"), "file:"));
    assert_true(atoi(ask(&c, "call w0")) > 0 && atoi(ask(&c, "call w1")) > 0 && atoi(ask(&c, "call t")) > 0);
    assert_int_equal(cli_do(&ps, "ps", "--grid", address, NULL), 0);
    assert_int_equal(kit_count(&ps.text[0], "  cli_node [0.0]  "), 1);
    assert_int_equal(kit_count(&ps.text[0], "  cli_node [1.0]  "), 1);
    assert_int_equal(kit_count(&ps.text[0], "  cli_node [1.1]  "), 1);
    assert_int_equal(kit_count(&ps.text[0], "  mine "), 1);
    cli_free(&ps);
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    cli_free(&c);
}

/* A grid of several hosts: met at a server, with a key. Who runs a process witnesses its end there, too. */
static void met_at_a_server(void **state) {
    (void)state;
    char key[64], url[100];
    struct cli e, a, b, c;
    snprintf(key, sizeof key, "/tmp/moyai-cli-key-%d", (int)getpid());
    setenv("MOYAI_KEY_FILE", key, 1);
    assert_int_equal(cli_do(&c, "key", "new", NULL), 0);
    cli_free(&c);
    cli_start(&e, NULL, "endpoint", "--listen", "127.0.0.1:0", NULL);
    snprintf(url, sizeof url, "%.80s", strstr(cli_line(&e, 1, "http://"), "http://"));
    strcpy(strstr(url + 7, "/"), "/test");
    cli_start(&b, NULL, "run", "--grid", url, "-n", "2", "sh", "-c", "exec \"$0\" serve far$MOYAI_RANK",
              kit_program("NODE"), NULL);
    cli_start(&a, NULL, "run", "--grid", url, "@n", "master", NULL);
    assert_string_equal(ask(&a, "wait far0"), "ok");
    pid_t far = atoi(ask(&a, "call far0"));
    assert_true(far > 0);
    assert_string_equal(ask(&a, "wait far1"), "ok");
    cli_type(&a, "block far0\n");
    assert_int_equal(kill(far, SIGKILL), 0);
    assert_non_null(strstr(cli_line(&a, 1, "block far0:"), "MOYAI_EDEAD"));
    assert_true(atoi(ask(&a, "call far1")) > 0);
    struct cli *all[] = {&a, &b, &e};
    for (size_t i = 0; i < 3; i++) {
        kill(all[i]->pid, SIGTERM);
        assert_int_equal(cli_wait(all[i]), i < 2 ? 143 : 0);
        cli_free(all[i]);
    }
    assert_int_equal(unlink(key), 0);
    assert_int_equal(cli_do(&c, "run", "--grid", url, "true", NULL), 125); /* no key */
    assert_non_null(strstr(c.text[1].p, "moyai key new"));
    cli_free(&c);
    unsetenv("MOYAI_KEY_FILE");
    char command[100]; /* the default run directory, which such a grid uses, stays */
    snprintf(command, sizeof command, "rmdir %s/moyai", kit_dir());
    assert_int_equal(system(command), 0);
    assert_int_equal(kit_left(), 0);
}

/* A grid of the user's own, that nobody runs: --grid neither makes nor removes the directory. */
static void grid_of_ones_own(void **state) {
    (void)state;
    char dir[64] = "/tmp/moyai-cli-own-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct cli c;
    cli_start(&c, NULL, "run", "--grid", dir, "@n", "master", ":", "@n", "serve", "x", NULL);
    assert_true(atoi(ask(&c, "call x")) > 0);
    /* Programs and verbs take the same addresses. */
    char env[100];
    struct cli p, look;
    snprintf(env, sizeof env, "MOYAI_GRID=%s", dir);
    cli_start(&p, NULL, "run", "env", "-u", "MOYAI_RUN_DIR", "-u", "MOYAI_PARENT", env, "@n", "serve", "plain", NULL);
    assert_string_equal(ask(&c, "wait plain"), "ok");
    assert_true(atoi(ask(&c, "call plain")) > 0);
    const char *const added[] = {env, NULL};
    cli_start(&look, &(struct cli_opts){.env = added}, "call", "x", "pid", NULL);
    assert_int_equal(cli_wait(&look), 0);
    cli_free(&look);
    kill(p.pid, SIGTERM);
    assert_int_equal(cli_wait(&p), 143);
    cli_free(&p);
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    cli_free(&c);
    assert_int_equal(access(dir, F_OK), 0);
    char cmd[100];
    snprintf(cmd, sizeof cmd, "rm -r %s %s/moyai", dir, kit_dir());
    assert_int_equal(system(cmd), 0);
    assert_int_equal(kit_left(), 0);
}

static void keeping(void **state) {
    (void)state;
    struct cli c;
    assert_int_equal(cli_do(&c, "run", "--keep", "--no-prefix", "sh", "-c", "echo $MOYAI_GRID", NULL), 0);
    char *dir = strdup(c.text[0].p + 5);
    dir[strcspn(dir, "\n")] = 0;
    char said[300];
    snprintf(said, sizeof said, "moyai run: keeps the grid's directory '%s'\n", dir);
    assert_string_equal(c.text[1].p, said);
    cli_free(&c);
    assert_int_equal(access(dir, F_OK), 0);
    /* The next run removes what others have left, but not this. */
    assert_int_equal(cli_do(&c, "run", "true", NULL), 0);
    cli_free(&c);
    assert_int_equal(access(dir, F_OK), 0);
    char cmd[100];
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    assert_int_equal(system(cmd), 0);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_find_each_other),
        cmocka_unit_test(evidence_of_death),
        cmocka_unit_test(wrapped_node),
        cmocka_unit_test(ending_in_order_is_no_death),
        cmocka_unit_test(process_events),
        cmocka_unit_test(joining),
        cmocka_unit_test(the_grid_file_replaces_grid_files_only),
        cmocka_unit_test(nodes_are_called_after_their_numbers),
        cmocka_unit_test(met_at_a_server),
        cmocka_unit_test(grid_of_ones_own),
        cmocka_unit_test(keeping),
    };
    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
