/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who looks at a grid through lines of the grid file that the command connects by itself: two clusters of an agent
 * each, of which nothing else is known here, with a program in ssh's place (tests/support/fake_ssh.c).
 */
#include "tests/cli/look_kit.h"
#include "tests/support/port.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static char base[40];
static unsigned port[2];
static struct cli far[2];
static const char nowhere[] = "MOYAI_ADVERTISE=127.0.0.1:1"; /* else they would find each other without lines */

static void write_file(const char *name, const char *text) {
    char path[100], temp[110];
    snprintf(path, sizeof path, "%s/%s", base, name);
    snprintf(temp, sizeof temp, "%s.new", path);
    FILE *f = fopen(temp, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rename(temp, path), 0);
}

static int set_up(void **state) {
    char path[100], host[100] = "", text[500], at[40], run_dir[80];
    if (kit_setup(state) != 0) return -1;
    strcpy(base, "/tmp/moyai-cli-lines-XXXXXX");
    assert_non_null(mkdtemp(base));
    setenv("FAKE_SSH", base, 1);
    setenv("MOYAI_SSH", kit_program("SSH"), 1);
    snprintf(path, sizeof path, "%s/key", base);
    assert_int_equal(cli_do(&c, "key", "new", "--key-file", path, NULL), 0);
    cli_free(&c);
    setenv("MOYAI_KEY_FILE", path, 1);
    for (int i = 0; i < 2; i++) {
        port[i] = test_free_port();
        snprintf(at, sizeof at, "127.0.0.1:%u", port[i]);
        snprintf(run_dir, sizeof run_dir, "MOYAI_RUN_DIR=%s/far%d", base, i);
        cli_start(&far[i], &(struct cli_opts){.env = (const char *const[]){run_dir, nowhere, NULL}}, "node", "--grid",
                  at, "--listen", at, NULL);
        (void)cli_line(&far[i], 2, "takes commands");
    }
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    snprintf(text, sizeof text, "# mine\nforward %s first to=%u\nforward %s second port=2223 to=%u\n", host, port[0],
             host, port[1]);
    write_file("lines", text);
    snprintf(path, sizeof path, "%s/lines", base);
    setenv("MOYAI_GRID_FILE", path, 1);
    snprintf(path, sizeof path, "%s/here", base);
    setenv("MOYAI_RUN_DIR", path, 1);
    strcpy(grid, "127.0.0.1:1"); /* nobody is there */
    write_file("mode-first", "forward");
    return 0;
}

static int tear_down(void **state) {
    char command[100];
    for (int i = 0; i < 2; i++) {
        kill(far[i].pid, SIGTERM);
        assert_int_equal(cli_wait(&far[i]), 0);
        cli_free(&far[i]);
    }
    snprintf(command, sizeof command, "rm -r %s", base);
    assert_int_equal(system(command), 0);
    return kit_teardown(state);
}

/* Begun while the second ssh takes its time, and left with a link through the first. */
static void begin(struct cli *look, const char *verb, const char *more, const char *yet_more) {
    static const char *const loud[] = {"MOYAI_LOG=info", NULL};
    write_file("mode-second", "wait");
    cli_startv(look, &(struct cli_opts){.env = loud},
               (const char *const[]){verb, "--grid", grid, "--timeout", "100s", more, yet_more, NULL});
    (void)cli_line(look, 2, "line 2: there is a link");
}

/* The second cluster is seen, too, however late. */
static void all_lines_are_waited_for(void **state) {
    (void)state;
    static const char *const verbs[] = {"ps", "graph"};
    for (int i = 0; i < 2; i++) {
        begin(&c, verbs[i], NULL, NULL);
        (void)cli_line(&c, 2, " waiting, since ");
        write_file("mode-second", "forward");
        assert_int_equal(cli_wait(&c), 0);
        HAS(c.text[1].p, "line 3: there is a link");
        assert_int_equal(kit_count(&c.text[0], "moyai node"), 2);
        cli_free(&c);
    }
}

/* And told to leave, if all of a host are. */
static void all_lines_are_waited_for_by_leave(void **state) {
    (void)state;
    char host[100];
    assert_int_equal(gethostname(host, sizeof host), 0);
    begin(&c, "leave", "--host", host);
    (void)cli_line(&c, 2, " waiting, since ");
    write_file("mode-second", "forward");
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[0], " has left after "), 2);
    cli_free(&c);
}

/* Unless it cannot be: then that is said, once. */
static void a_line_that_fails_is_named(void **state) {
    (void)state;
    begin(&c, "ps", "--json", NULL);
    write_file("mode-second", "refuse");
    assert_int_equal(cli_wait(&c), 1);
    static const char text[] = "lines\", line 3 has no link yet, as is said above\n";
    static const char said[] = "to second has ended with status 255, and said last: ";
    const char *unseen = strstr(c.text[0].p, "],\n \"complete\": false, \"unseen\": [\"not all of the grid at ");
    HAS(c.text[1].p, text);
    assert_int_equal(kit_count(&c.text[1], said), 1);
    HAS(c.text[1].p, "somebody@somewhere: Permission denied (publickey).\"");
    assert_true(strstr(c.text[1].p, said) < strstr(c.text[1].p, text));
    assert_non_null(unseen);
    HAS(unseen, "line 3 has no link yet: "); /* there is nothing above it */
    HAS(unseen, said);
    assert_int_equal(kit_count(&c.text[0], "\"title\": \"moyai node\", \"pid\""), 1);
    cli_free(&c);
    begin(&c, "graph", "--json", NULL);
    write_file("mode-second", "refuse");
    assert_int_equal(cli_wait(&c), 1);
    HAS(c.text[1].p, text);
    HAS(c.text[0].p, "],\n \"complete\": false, \"unseen\": [\"not all of the grid at ");
    HAS(c.text[0].p, "line 3 has no link yet: ");
    cli_free(&c);
}

/* Where a node of this host runs ssh, who looks has no line to wait for: that node knows. */
static void a_line_of_a_node_beside_is_named(void **state) {
    (void)state;
    static const char *const loud[] = {"MOYAI_LOG=info", nowhere, NULL};
    static const char *const verbs[] = {"ps", "graph"};
    struct cli node;
    char at[40];
    snprintf(at, sizeof at, "127.0.0.1:%u", test_free_port());
    write_file("mode-second", "refuse");
    cli_start(&node, &(struct cli_opts){.env = loud}, "node", "--grid", at, "--listen", at, NULL);
    cli_await(&node, 2, "line 2: there is a link", 1);
    cli_await(&node, 2, "to second has ended with status 255", 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(IN_GRID(verbs[i], "--grid", at, i ? NULL : "--json"), 1);
        HAS(c.text[1].p, "not all of the grid at '");
        HAS(c.text[1].p, "lines\", line 3 has no link yet in node ");
        HAS(c.text[1].p, "to second has ended with status 255");
        HAS_NOT(c.text[1].p, "line 2");
        if (i == 0) HAS(c.text[0].p, "\"complete\": false, \"unseen\": [\"not all of the grid at ");
        cli_free(&c);
    }
    write_file("mode-second", "forward");
    cli_await(&node, 2, "line 3: there is a link", 1);
    assert_int_equal(IN_GRID("ps", "--grid", at), 0);
    cli_free(&c);
    kill(node.pid, SIGTERM);
    assert_int_equal(cli_wait(&node), 0);
    cli_free(&node);
}

/* What the log does not show is not left out. */
static void what_is_not_shown_is_said(void **state) {
    (void)state;
    static const char *const quiet[] = {"MOYAI_LOG=off", NULL};
    write_file("mode-second", "refuse");
    cli_start(&c, &(struct cli_opts){.env = quiet}, "ps", "--grid", grid, "--timeout", "100s", NULL);
    assert_int_equal(cli_wait(&c), 1);
    HAS(c.text[1].p, "line 3 has no link yet: ");
    assert_int_equal(kit_count(&c.text[1], "to second has ended with status 255, and said last: "), 1);
    cli_free(&c);
}

/* Nor is it waited for longer than was said; and what is missing is named, not a port that nobody has chosen. */
static void time_is_kept(void **state) {
    (void)state;
    char up[300];
    write_file("mode-second", "hang");
    assert_int_equal(IN_GRID("ps", "--timeout", "5s"), 1);
    HAS(c.text[1].p, "line 3 has no link yet: ");
    HAS(c.text[1].p, " to second (port 2223) has not got through yet\n");
    cli_free(&c);
    /* As ssh does where nothing listens. */
    write_file("mode-second", "unread");
    assert_int_equal(IN_GRID("ps", "--timeout", "5s"), 1);
    snprintf(up, sizeof up, " to second (port 2223) is up, but no node answers at port %u there; it has said \"channel",
             port[1]);
    HAS(c.text[1].p, up);
    cli_free(&c);
}

/* Nor are they forgotten where there is no link at all. */
static void what_is_missing_of_all_is_said(void **state) {
    (void)state;
    static const char *const said[] = {"line 2 has no link yet: ", " to first has not got through yet; \"",
                                       "line 3 has no link yet: ", " to second (port 2223) has not got through yet"};
    write_file("mode-first", "hang");
    write_file("mode-second", "hang");
    const int status = IN_GRID("ps", "--json", "--timeout", "5s");
    write_file("mode-first", "forward");
    assert_int_equal(status, 1);
    HAS(c.text[1].p, "could be reached within 5 s");
    const char *at = c.text[1].p;
    for (int i = 0; i < 4; i++) {
        HAS(at, said[i]);
        at = strstr(at, said[i]);
    }
    HAS(c.text[0].p, " has not got through yet; \\\"");
    HAS(c.text[0].p, " to second (port 2223) has not got through yet\"");
    cli_free(&c);
}

static void a_wrong_program_is_named(void **state) {
    (void)state;
    setenv("MOYAI_SSH", "nope", 1);
    assert_int_equal(IN_GRID("ps", "--timeout", "5s"), 1);
    setenv("MOYAI_SSH", kit_program("SSH"), 1);
    for (int line = 2; line <= 3; line++) {
        char text[100];
        snprintf(text, sizeof text, "line %d: cannot run 'nope': ", line);
        assert_int_equal(kit_count(&c.text[1], text), 1);
    }
    HAS(c.text[1].p, ". MOYAI_SSH names it: is that right?");
    HAS_NOT(c.text[1].p, "true' work?");
    cli_free(&c);
}

/* Nor is one whose ssh is another host's to run, and is not there. */
static void a_line_of_others_is_not_waited_for(void **state) {
    (void)state;
    static const char *const verbs[] = {"ps", "graph"};
    char path[100], host[100] = "", text[700];
    snprintf(path, sizeof path, "%s/lines", base);
    char *before = kit_read(path);
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    snprintf(text, sizeof text, "%.500sforward %s elsewhere reverse listen=%u\n", before, host, test_free_port());
    write_file("lines", text);
    write_file("mode-second", "forward");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(IN_GRID(verbs[i], "--timeout", "1h"), 1);
        HAS(c.text[1].p,
            "line 4 has no link yet: ssh from elsewhere has not got through yet: nothing listens at port ");
        HAS_NOT(c.text[1].p, "line 3 has no link");
        assert_int_equal(kit_count(&c.text[0], "moyai node"), 2);
        cli_free(&c);
    }
    write_file("lines", before);
    free(before);
}

/* Who stays, and is asked twice to end, does, and an ssh that hangs goes with him: it has the pipe to which cli_wait
 * looks for who is left. */
static void who_is_asked_twice_ends(void **state) {
    (void)state;
    static const char *const loud[] = {"MOYAI_LOG=info", NULL};
    static const int sig[] = {SIGTERM, SIGINT};
    write_file("mode-second", "hang");
    for (int i = 0; i < 4; i++) {
        const bool node = i < 2;
        const int s = sig[i % 2];
        cli_startv(
            &c, &(struct cli_opts){.env = loud},
            node ? (const char *const[]){"node", "--grid", grid, "--slots", "1", "--outbound-only", NULL}
                 : (const char *const[]){"run", "--grid", grid, "--outbound-only", "@h", "until-asked", "0", NULL});
        cli_await(&c, 2, "line 2: there is a link", 1);
        cli_await(&c, 2, "to second is started", 1);
        if (!node) cli_await(&c, 1, "ready", 1);
        kill(c.pid, s);
        kill(c.pid, s);
        assert_int_equal(cli_wait(&c), node ? 0 : 128 + s);
        cli_free(&c);
    }
}

/* Who wants one node goes on when he has it; and it is not missing before all lines have been tried. */
static void one_node_is_enough(void **state) {
    (void)state;
    char id[2][33];
    write_file("mode-second", "forward");
    for (int i = 0; i < 2; i++) {
        char want[64];
        snprintf(want, sizeof want, "\"pid\": %d,", (int)kit_child_of(kit_child_of(far[i].pid)));
        assert_int_equal(IN_GRID("ps", "--json", "--timeout", "100s"), 0);
        char *line = strtok(c.text[0].p, "\n");
        while (line && !strstr(line, want)) line = strtok(NULL, "\n");
        assert_non_null(line);
        assert_int_equal(sscanf(line, " {\"node\": \"%32[0-9a-f]\"", id[i]), 1);
        cli_free(&c);
    }
    write_file("mode-second", "hang");
    assert_int_equal(IN_GRID("ping", "--timeout", "1h", "-c", "1", id[0]), 0);
    cli_free(&c);
    id[0][12] = 0;
    assert_int_equal(IN_GRID("ping", "--timeout", "1h", "-c", "1", id[0]), 0);
    cli_free(&c);
    for (int part = 0; part < 2; part++) {
        if (part) id[1][12] = 0;
        begin(&c, "ping", id[1], "-c1");
        (void)cli_line(&c, 2, " waiting, since ");
        write_file("mode-second", "forward");
        assert_int_equal(cli_wait(&c), 0);
        cli_free(&c);
    }
}

static int64_t now_ms(void) {
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &t), 0);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static pid_t pid_of_ssh(void) {
    char path[100];
    snprintf(path, sizeof path, "%s/pid", base);
    char *text = kit_read(path);
    const pid_t pid = (pid_t)atoi(text);
    free(text);
    assert_true(pid > 1);
    return pid;
}

/* What a run's node says last may take a second to pass its ssh, here a stopped one: the first signal asks for what is
 * being done, and does not end that. */
static void a_first_signal_hurries_no_farewell(void **state) {
    (void)state;
    struct cli ran;
    char host[100], text[200], file[140];
    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(text, sizeof text, "forward %s first to=%u\n", host, port[0]);
    write_file("one-line", text);
    snprintf(file, sizeof file, "MOYAI_GRID_FILE=%s/one-line", base);
    cli_start(&ran, &(struct cli_opts){.env = (const char *const[]){file, "MOYAI_LOG=info", NULL}}, "run", "--grid",
              grid, "--outbound-only", "cat", NULL);
    (void)cli_line(&ran, 2, "line 1: there is a link");
    assert_int_equal(kill(-getpgid(pid_of_ssh()), SIGSTOP), 0);
    const int64_t from = now_ms();
    cli_close_in(&ran); /* for no signal */
    (void)usleep(200 * 1000);
    kill(ran.pid, SIGINT);
    (void)cli_wait(&ran);
    const int64_t took = now_ms() - from; /* 1.4 s while the loop turns, and then a second */
    if (took < 2000) fail_msg("it has ended after %d ms: %s", (int)took, ran.text[1].p);
    cli_free(&ran);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* the name of one test */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_lines_are_waited_for),
        cmocka_unit_test(a_line_that_fails_is_named),
        cmocka_unit_test(a_line_of_a_node_beside_is_named),
        cmocka_unit_test(what_is_not_shown_is_said),
        cmocka_unit_test(time_is_kept),
        cmocka_unit_test(what_is_missing_of_all_is_said),
        cmocka_unit_test(a_wrong_program_is_named),
        cmocka_unit_test(a_line_of_others_is_not_waited_for),
        cmocka_unit_test(who_is_asked_twice_ends),
        cmocka_unit_test(one_node_is_enough),
        cmocka_unit_test(a_first_signal_hurries_no_farewell),
        cmocka_unit_test(all_lines_are_waited_for_by_leave), /* the last: the agents end */
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
