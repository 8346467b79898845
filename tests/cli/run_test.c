/* SPDX-License-Identifier: Apache-2.0 */
/* moyai run: what the processes get, what becomes of them, and the exit status. */
#include "tests/cli/kit.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void environment(void **state) {
    (void)state;
    struct cli c;
    const char *const env[] = {"MOYAI_RANK=old", "MOYAI_PARENT=00000000000000000000000000000001", "MOYAI_RUN_DIR=/old",
                               "KEPT=yes", NULL};
    /* The first group waits for its input to end, so that the second has time. */
    cli_start(&c, &(struct cli_opts){.env = env}, "run", "-n", "2", "sh", "-c",
              "cat; echo R=$MOYAI_RANK G=$MOYAI_GROUP S=$MOYAI_SIZE K=$KEPT", ":", "-n", "3", "sh", "-c",
              "echo R=$MOYAI_RANK G=$MOYAI_GROUP S=$MOYAI_SIZE $MOYAI_GRID $MOYAI_RUN_DIR $MOYAI_PARENT.; exec \"$0\" "
              "pause",
              kit_program("HELPER"), NULL);
    char expect[100], grid[200] = "", first[400] = "";
    for (int i = 0; i < 3; i++) {
        const char *line = cli_line(&c, 1, " G=1 ");
        const char *rank = strstr(line, "R=");
        assert_non_null(rank);
        int r = atoi(rank + 2);
        assert_in_range(r, 2, 4);
        snprintf(expect, sizeof expect, "[1.%d] R=%d G=1 S=5 file:%s/moyai-run-", r - 2, r, kit_dir());
        assert_int_equal(strncmp(line, expect, strlen(expect)), 0);
        char dir[200], parent[64];
        assert_int_equal(sscanf(strstr(line, "file:"), "file:%199s %199s %63s", grid, dir, parent), 3);
        assert_int_equal(strncmp(dir, grid, strlen(grid)), 0);
        assert_int_equal(strspn(parent, "0123456789abcdef"), 32);
        assert_string_equal(parent + 32, ".");
        if (i == 0) snprintf(first, sizeof first, "%s %s %s", grid, dir, parent);
        char same[500];
        snprintf(same, sizeof same, "%s %s %s", grid, dir, parent);
        assert_string_equal(first, same);
    }
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[0], "[0.0] R=0 G=0 S=5 K=yes"), 1);
    assert_int_equal(kit_count(&c.text[0], "[0.1] R=1 G=0 S=5 K=yes"), 1);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* Whatever it says itself begins so, its log as well. */
static void what_it_says_begins_with_its_name(void **state) {
    (void)state;
    static const char *const full[] = {"MOYAI_EVENTS=/dev/full", NULL};
    struct cli c;
    cli_start(&c, &(struct cli_opts){.env = full}, "run", "sh", "-c", "echo up; exec cat", NULL);
    (void)cli_line(&c, 1, "up");
    kill(c.pid, SIGTERM);
    assert_int_equal(cli_wait(&c), 143);
    const char *said =
        strstr(c.text[1].p, "moyai run: got SIGTERM: ending 1 process in order; another signal kills it\n");
    assert_non_null(said);
    assert_int_equal(kit_count(&c.text[1], "MOYAI-EVENTS-LOST"), 1);
    assert_int_equal(kit_count(&c.text[1], "moyai run: "), kit_count(&c.text[1], ""));
    cli_free(&c);
}

static void exit_status(void **state) {
    (void)state;
    static const struct {
        const char *words[16];
        int status;
        const char *said; /* NULL: nothing */
    } runs[] = {
        {{"run", "@h", "exit", "0"}, 0, NULL},
        {{"run", "@h", "exit", "7"}, 7, "exited with status 7"},
        {{"run", "@h", "exit", "255"}, 255, "exited with status 255"},
        {{"run", "@h", "die", "9"}, 137, "was killed by signal 9 (Killed)"},
        {{"run", "@h", "die", "15"}, 143, "was killed by signal 15 (Terminated)"},
        {{"run", "@h", "die", "11"}, 139, "was killed by signal 11 (Segmentation fault)"},
        {{"run", "-n", "3", "sh", "-c", "exit $((MOYAI_RANK == 1 ? 4 : 0))"}, 4, "[0.1] sh (pid "},
        {{"run", "./nothere"}, 127, "'./nothere': No such file"},
        {{"run", "nothere-either"}, 127, "'nothere-either': not found in PATH"},
        {{"run", "/etc/passwd"}, 126, "'/etc/passwd': Permission denied"},
        {{"run", "/etc"}, 126, "'/etc': Is a directory"},
        {{"run", "/etc/passwd/x"}, 127, "'/etc/passwd/x': Not a directory"},
        {{"run", "@h", "pause", ":", "./nothere"}, 127, "'./nothere'"},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct cli c;
        cli_startv(&c, NULL, runs[i].words);
        cli_close_in(&c);
        int status = cli_wait(&c);
        if (status != runs[i].status) fail_msg("%zu: status %d, not %d: %s", i, status, runs[i].status, c.text[1].p);
        if (!runs[i].said)
            assert_string_equal(c.text[1].p, "");
        else if (!strstr(c.text[1].p, runs[i].said) || strncmp(c.text[1].p, "moyai run: ", 11) != 0)
            fail_msg("%zu: said '%s'", i, c.text[1].p);
        cli_free(&c);
    }
}

/* As of who forgot the "./"; for what cannot be run that is no help. */
static void a_program_beside_is_named(void **state) {
    (void)state;
    struct cli c;
    char here[PATH_MAX];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(kit_dir()), 0);
    for (int runs = 0; runs < 2; runs++) {
        close(open("only-here", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        assert_int_equal(chmod("only-here", runs ? 0700 : 0600), 0);
        cli_start(&c, NULL, "run", "-n", "2", "only-here", NULL);
        assert_int_equal(cli_wait(&c), 127);
        assert_string_equal(c.text[1].p, runs ? "moyai run: cannot run 'only-here': not found in PATH; did you mean "
                                                "'./only-here'?\n"
                                              : "moyai run: cannot run 'only-here': not found in PATH\n");
        cli_free(&c);
    }
    assert_int_equal(unlink("only-here"), 0);
    assert_int_equal(chdir(here), 0);
}

/* Standard input is the first process's; the others' is empty. Nothing else of ours is open in them, and each leads a
 * process group. */
static void descriptors(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "--no-prefix", "-n", "3", "sh", "-c", "cat; exec \"$0\" descriptors",
              kit_program("HELPER"), NULL);
    cli_type(&c, "typed\n");
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[0], "typed"), 1);
    /* One descriptor is the kit's own. */
    assert_int_equal(kit_count(&c.text[0], "open 1 null 0 group 1"), 1);
    assert_int_equal(kit_count(&c.text[0], "open 1 null 1 group 1"), 2);
    cli_free(&c);
}

/* The writer of our input learns that nobody reads it any more, when the first process has ended. */
static void input_closed(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "-n", "2", "sh", "-c",
              "test $MOYAI_RANK = 1 && exec \"$0\" until-asked 0; read line; echo got $line", kit_program("HELPER"),
              NULL);
    cli_type(&c, "line\n");
    (void)cli_line(&c, 1, "got line");
    char part[4096] = "";
    ssize_t n;
    do n = write(c.in, part, sizeof part);
    while (n > 0); /* would block for ever if somebody still held the other end and did not read */
    assert_int_equal(kill(c.pid, SIGTERM), 0);
    assert_int_equal(cli_wait(&c), 143);
    cli_free(&c);
}

/* A process of another group dies: it is said, and the run goes on. */
static void others_die(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "cat", ":", "-n", "2", "sh", "-c", "exit $((5 * MOYAI_RANK))", ":", "@h", "die", "6",
              ":", "@h", "exit", "0", NULL);
    char expect[300];
    const char *line;
    bool seen[3] = {false};
    for (int i = 0; i < 3; i++) {
        line = cli_line(&c, 2, "moyai run: [");
        seen[0] |= strstr(line, "[1.0] sh (pid ") && strstr(line, ") exited with status 5");
        seen[1] |= strstr(line, "[1.1] sh (pid ") && strstr(line, ") exited with status 10");
        snprintf(expect, sizeof expect, "[2.0] %s (pid ", kit_program("HELPER"));
        seen[2] |= strstr(line, expect) && strstr(line, ") was killed by signal 6 (Aborted)");
    }
    assert_true(seen[0] && seen[1] && seen[2]);
    cli_type(&c, "still here\n");
    assert_string_equal(cli_line(&c, 1, "still"), "[0.0] still here");
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[1], ""), 3);
    cli_free(&c);
}

/* What cannot be told before: a script whose interpreter does not exist, one that is no program at all. What had been
 * started is ended. */
static void cannot_be_started(void **state) {
    (void)state;
    char script[128];
    static const struct {
        const char *text;
        int status;
    } scripts[] = {{"#!/nowhere/at/all\n", 127}, {"\177ELF nonsense", 126}};
    for (size_t i = 0; i < 2; i++) {
        snprintf(script, sizeof script, "%s/script", kit_dir());
        int fd = open(script, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
        assert_true(fd >= 0);
        assert_true(write(fd, scripts[i].text, strlen(scripts[i].text)) > 0);
        close(fd);
        struct cli c;
        assert_int_equal(cli_do(&c, "run", "@h", "until-asked", "3", ":", script, NULL), scripts[i].status);
        assert_int_equal(kit_count(&c.text[1], "cannot run"), 1);
        assert_int_equal(kit_count(&c.text[1], "[1.0]"), 1);
        cli_free(&c);
        unlink(script);
    }
    assert_int_equal(kit_left(), 0);
}

/* Runs inside a run make grids of their own. */
static void nested(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "sh", "-c",
              "echo $MOYAI_GRID; \"$0\" run --no-prefix sh -c 'echo $MOYAI_GRID $MOYAI_RANK'", kit_program("MOYAI"),
              NULL);
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    char a[200], b[200];
    int rank;
    assert_int_equal(sscanf(c.text[0].p, "[0.0] %199s\n[0.0] %199s %d", a, b, &rank), 3);
    assert_string_not_equal(a, b);
    assert_int_equal(rank, 0);
    assert_string_equal(c.text[1].p, ""); /* nobody has meant another by MOYAI_GRID */
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* Who has set MOYAI_GRID and gives no --grid may have meant that one. */
static void a_private_grid_is_said(void **state) {
    (void)state;
    const char *const set[] = {"MOYAI_GRID=127.0.0.1:1", NULL}, *const of_run[] = {set[0], "MOYAI_PARENT=x", NULL};
    const struct {
        const char *const *env;
        const char *option;
        int said;
    } way[] = {{set, "--no-prefix", 1}, {of_run, "--no-prefix", 0}, {set, "--grid-file=/dev/null/none", 0}};
    for (size_t i = 0; i < sizeof way / sizeof way[0]; i++) {
        struct cli c;
        cli_start(&c, &(struct cli_opts){.env = way[i].env}, "run", way[i].option, "true", NULL);
        cli_close_in(&c);
        (void)cli_wait(&c);
        assert_int_equal(kit_count(&c.text[1], "moyai run: makes a private grid: that of MOYAI_GRID ('127.0.0.1:1') "
                                               "is joined by --grid \"$MOYAI_GRID\"; "),
                         way[i].said);
        cli_free(&c);
    }
    assert_int_equal(kit_left(), 0);
}

/* Run from a program that ignores SIGCHLD, or has closed its standard descriptors. */
static void odd_parents(void **state) {
    (void)state;
    struct cli c;
    signal(SIGCHLD, SIG_IGN);
    cli_start(&c, NULL, "run", "@h", "exit", "3", NULL);
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(cli_wait(&c), 3);
    cli_free(&c);

    char cmd[1000];
    snprintf(cmd, sizeof cmd, "%s run sh -c 'cat; echo out; exit 4' 0<&- 1>&- 2>&-", kit_program("MOYAI"));
    int rc = system(cmd);
    assert_true(WIFEXITED(rc));
    assert_int_equal(WEXITSTATUS(rc), 4);
    assert_int_equal(kit_left(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment),
        cmocka_unit_test(exit_status),
        cmocka_unit_test(a_program_beside_is_named),
        cmocka_unit_test(what_it_says_begins_with_its_name),
        cmocka_unit_test(descriptors),
        cmocka_unit_test(input_closed),
        cmocka_unit_test(others_die),
        cmocka_unit_test(cannot_be_started),
        cmocka_unit_test(nested),
        cmocka_unit_test(a_private_grid_is_said),
        cmocka_unit_test(odd_parents),
    };
    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
