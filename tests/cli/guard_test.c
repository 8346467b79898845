/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing of a run outlives it. cli_await_gone() returns when no process that descends from the run is left; if one
 * were, the hang guard would end the test.
 */
#include "tests/cli/kit.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t keeper_of(const struct cli *c) {
    return kit_child_of(c->pid);
}

static pid_t runner_of(const struct cli *c) {
    return kit_child_of(keeper_of(c));
}

/* Start what is hard to end, and wait until all of it is there. */
static void start_stubborn(struct cli *c, const struct cli_opts *o) {
    cli_start(c, o, "run", "--grace", "1h", "-n", "2", "@h", "stubborn", ":", "@h", "family", "sgpd", ":", "sh", "-c",
              "trap '' TERM; \"$0\" family spd & cat /dev/zero > /dev/null", kit_program("HELPER"), NULL);
    for (int i = 0; i < 4; i++) (void)cli_line(c, 1, "ready");
}

static void expect_killed(struct cli *c) {
    int status;
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    cli_await_gone(c);
    cli_free(c);
}

static void front_killed(void **state) {
    (void)state;
    struct cli c;
    start_stubborn(&c, NULL);
    assert_int_equal(kill(c.pid, SIGKILL), 0);
    expect_killed(&c);
    assert_int_equal(kit_left(), 0); /* the runner has removed the directory before it ended */
}

/* As shells, timeout -s KILL and test harnesses do it: the whole group. */
static void group_killed(void **state) {
    (void)state;
    struct cli c;
    start_stubborn(&c, &(struct cli_opts){.group = true});
    assert_int_equal(kill(-c.pid, SIGKILL), 0);
    expect_killed(&c);
    assert_int_equal(kit_left(), 0);
}

/* The front cleans up, and says so. */
static void runner_killed(void **state) {
    (void)state;
    struct cli c;
    start_stubborn(&c, NULL);
    assert_int_equal(kill(runner_of(&c), SIGKILL), 0);
    assert_int_equal(cli_wait(&c), 137);
    assert_int_equal(kit_count(&c.text[1], "moyai run: its runner"), 1);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

static void keeper_killed(void **state) {
    (void)state;
    struct cli c;
    start_stubborn(&c, NULL);
    assert_int_equal(kill(keeper_of(&c), SIGKILL), 0);
    assert_int_equal(cli_wait(&c), 137);
    assert_int_equal(kit_count(&c.text[1], "moyai run: its keeper"), 1);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* Kill two of the three in the same instant: they are stopped first, so that neither can react to the other's end. */
static void kill_both(pid_t a, pid_t b) {
    assert_int_equal(kill(b, SIGSTOP), 0);
    assert_int_equal(kill(a, SIGKILL), 0);
    assert_int_equal(kill(b, SIGKILL), 0);
}

static void front_and_runner_killed(void **state) {
    (void)state;
    struct cli c;
    start_stubborn(&c, NULL);
    kill_both(c.pid, runner_of(&c));
    expect_killed(&c);
    assert_int_equal(kit_left(), 0);
}

static void front_and_keeper_killed(void **state) {
    (void)state;
    struct cli c;
    start_stubborn(&c, NULL);
    kill_both(c.pid, keeper_of(&c));
    expect_killed(&c);
    assert_int_equal(kit_left(), 0);
}

static void runner_and_keeper_killed(void **state) {
    (void)state;
    struct cli c;
    start_stubborn(&c, NULL);
    kill_both(runner_of(&c), keeper_of(&c));
    assert_int_equal(cli_wait(&c), 137);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* A runner that is stopped when the front is killed does not see it: the keeper waits a while for it. */
static void front_killed_runner_hangs(void **state) {
    (void)state;
    struct cli c;
    start_stubborn(&c, NULL);
    assert_int_equal(kill(runner_of(&c), SIGSTOP), 0);
    assert_int_equal(kill(c.pid, SIGKILL), 0);
    expect_killed(&c);
    assert_int_equal(kit_left(), 0);
}

/* Whoever kills by command line or by name (pkill -f, killall) finds front and runner, and not the keeper. */
static void keeper_has_another_name(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "@h", "pause", NULL);
    (void)cli_line(&c, 1, "ready");
    char path[64], expect[64];
    pid_t keeper = keeper_of(&c);
    snprintf(expect, sizeof expect, "run-keeper of %d", (int)c.pid);
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)keeper);
    for (bool found = false; !found; usleep(1000)) { /* it does that while the others go on */
        char *line = kit_read(path);
        found = strcmp(line, expect) == 0;
        free(line);
    }
    snprintf(path, sizeof path, "/proc/%d/comm", (int)keeper);
    char *name = kit_read(path);
    assert_string_equal(name, "run-keeper\n");
    free(name);
    /* A signal to it is handed on. */
    assert_int_equal(kill(keeper, SIGTERM), 0);
    assert_int_equal(cli_wait(&c), 143);
    cli_free(&c);
}

static void runner_asked_to_end(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "@h", "until-asked", "0", NULL);
    (void)cli_line(&c, 1, "ready");
    cli_close_in(&c);
    assert_int_equal(kill(runner_of(&c), SIGTERM), 0);
    assert_int_equal(cli_wait(&c), 143);
    assert_int_equal(kit_count(&c.text[0], "asked to end"), 1);
    cli_free(&c);
}

/* A runner that hangs (here: is stopped) is ended by force after a second signal. */
static void runner_hangs(void **state) {
    (void)state;
    struct cli c;
    start_stubborn(&c, NULL);
    assert_int_equal(kill(runner_of(&c), SIGSTOP), 0);
    int status;
    while (waitpid(c.pid, &status, WNOHANG) == 0) { /* a second one counts from 100 ms after the first */
        kill(c.pid, SIGINT);
        usleep(10000);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 137);
    cli_await_gone(&c);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* At any moment, also while processes are being started. */
static void killed_at_any_moment(void **state) {
    (void)state;
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    for (int i = 0; i < 25; i++) {
        struct cli c;
        cli_start(&c, NULL, "run", "-n", "12", "@h", "family", "p", NULL);
        for (int n = rand_r(&seed) % 13; n > 0; n--) (void)cli_line(&c, 1, "ready");
        if (rand_r(&seed) % 2) usleep((unsigned)rand_r(&seed) % 5000);
        assert_int_equal(kill(c.pid, SIGKILL), 0);
        expect_killed(&c);
    }
    /* A front that is killed before it has a runner leaves its directory to the next run. */
    struct cli c;
    assert_int_equal(cli_do(&c, "run", "true", NULL), 0);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* All are killed: what can be done then is to tidy up at the next start. */
static void stale_directory(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "sh", "-c", "echo pid $$; exec \"$0\" pause", kit_program("HELPER"), NULL);
    pid_t pid = atoi(strstr(cli_line(&c, 1, "pid "), "pid ") + 4);
    (void)cli_line(&c, 1, "ready");
    pid_t keeper = keeper_of(&c), runner = runner_of(&c);
    int end = (int)syscall(SYS_pidfd_open, runner, 0);
    assert_true(end >= 0);
    assert_int_equal(kill(keeper, SIGSTOP), 0); /* so that they cannot react to the others' ends */
    assert_int_equal(kill(runner, SIGSTOP), 0);
    assert_int_equal(kill(c.pid, SIGKILL), 0);
    int status;
    assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
    assert_int_equal(kill(keeper, SIGKILL), 0);
    assert_int_equal(kill(runner, SIGKILL), 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    cli_await_gone(&c);
    cli_free(&c);
    /* The pipe is closed a moment before the directory's lock is. */
    struct pollfd p = {.fd = end, .events = POLLIN};
    assert_int_equal(poll(&p, 1, -1), 1);
    close(end);
    assert_int_equal(kit_left(), 1);
    assert_int_equal(cli_do(&c, "run", "true", NULL), 0);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(front_killed),
        cmocka_unit_test(group_killed),
        cmocka_unit_test(runner_killed),
        cmocka_unit_test(keeper_killed),
        cmocka_unit_test(front_and_runner_killed),
        cmocka_unit_test(front_and_keeper_killed),
        cmocka_unit_test(runner_and_keeper_killed),
        cmocka_unit_test(front_killed_runner_hangs),
        cmocka_unit_test(keeper_has_another_name),
        cmocka_unit_test(runner_asked_to_end),
        cmocka_unit_test(runner_hangs),
        cmocka_unit_test(killed_at_any_moment),
        cmocka_unit_test(stale_directory),
    };
    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
