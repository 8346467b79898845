/* SPDX-License-Identifier: Apache-2.0 */
/* moyai run: how a run ends. */
#include "tests/cli/kit.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The first group has ended: the others are asked to, and their last words are heard. */
static void first_group_ends_it(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "-n", "2", "sh", "-c", "read line", ":", "-n", "3", "@h", "until-asked", "9", NULL);
    for (int i = 0; i < 3; i++) (void)cli_line(&c, 1, "ready");
    cli_close_in(&c);
    (void)cli_wait(&c); /* read fails at the end of file: status 1, in both */
    assert_int_equal(c.status, 1);
    assert_int_equal(kit_count(&c.text[0], "asked to end"), 3);
    assert_int_equal(kit_count(&c.text[1], "[1."), 0); /* how they end then is nobody's concern */
    cli_free(&c);
}

/* Not before all of it has ended. */
static void all_of_the_first_group(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "-n", "2", "sh", "-c", "test $MOYAI_RANK = 1 || cat; echo end $MOYAI_RANK", ":", "@h",
              "until-asked", "0", NULL);
    cli_await(&c, 1, "end 1", 1);
    cli_await(&c, 1, "ready", 1);
    assert_null(strstr(c.text[0].p, "asked"));
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[0], "asked to end"), 1);
    cli_free(&c);
}

/* Those who do not end in time are killed, and that is said. */
static void grace(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "--grace", "50ms", "sh", "-c", "read line; exit 3", ":", "@h", "stubborn", ":", "@h",
              "until-asked", "0", NULL);
    (void)cli_line(&c, 1, "ready");
    (void)cli_line(&c, 1, "ready");
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 3);
    assert_int_equal(kit_count(&c.text[0], "asked to end"), 1);
    assert_int_equal(kit_count(&c.text[1], "[1.0]"), 1);
    assert_int_equal(kit_count(&c.text[1], "did not end within 50 ms and is killed"), 1);
    cli_free(&c);
}

/* A process that is stopped is woken so that it can end. */
static void stopped_process(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "--grace", "1h", "cat", ":", "sh", "-c", "echo pid $$; exec \"$0\" until-asked 0",
              kit_program("HELPER"), NULL);
    pid_t pid = atoi(strstr(cli_line(&c, 1, "pid "), "pid ") + 4);
    (void)cli_line(&c, 1, "ready");
    assert_int_equal(kill(pid, SIGSTOP), 0);
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[0], "asked to end"), 1);
    cli_free(&c);
}

/* A first signal ends it in order, with 128 and its number. */
static void signals(void **state) {
    (void)state;
    static const int sigs[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < 3; i++) {
        struct cli c;
        cli_start(&c, NULL, "run", "--grace", "1h", "-n", "2", "@h", "until-asked", "0", ":", "@h", "until-asked", "4",
                  NULL);
        for (int j = 0; j < 3; j++) (void)cli_line(&c, 1, "ready");
        cli_close_in(&c);
        assert_int_equal(kill(c.pid, sigs[i]), 0);
        assert_int_equal(cli_wait(&c), 128 + sigs[i]);
        assert_int_equal(kit_count(&c.text[0], "asked to end"), 3);
        assert_int_equal(kit_count(&c.text[1], ": ending 3 processes in order; another "), 1);
        assert_int_equal(kit_count(&c.text[1], ""), 1);
        cli_free(&c);
    }
    assert_int_equal(kit_left(), 0);
}

/* A second one kills at once. The first has arrived when somebody says that he was asked; the second counts from 100 ms
 * after the first, so it is sent until it has worked. */
static void second_signal(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "--grace", "1h", "@h", "stubborn", ":", "@h", "until-asked", "0", NULL);
    (void)cli_line(&c, 1, "ready");
    (void)cli_line(&c, 1, "ready");
    assert_int_equal(kill(c.pid, SIGINT), 0);
    (void)cli_line(&c, 1, "asked to end");
    int status;
    pid_t ended;
    while ((ended = waitpid(c.pid, &status, WNOHANG)) == 0) {
        kill(c.pid, SIGINT);
        usleep(1000);
    }
    assert_int_equal(ended, c.pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    cli_await_gone(&c);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* The same signal to the process and to its group, as timeout(1) sends it, is one. */
static void doubled_signal(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, &(struct cli_opts){.group = true}, "run", "--grace", "1h", "@h", "until-asked", "0", NULL);
    (void)cli_line(&c, 1, "ready");
    assert_int_equal(kill(c.pid, SIGTERM), 0);
    assert_int_equal(kill(-c.pid, SIGTERM), 0);
    (void)cli_line(&c, 1, "asked to end");
    cli_close_in(&c); /* a second signal would have killed it before */
    assert_int_equal(cli_wait(&c), 143);
    assert_int_equal(kit_count(&c.text[0], "ends in order"), 1);
    cli_free(&c);
}

/* SIGHUP is ignored if we were started so (nohup); SIGINT is not, though shells start background jobs so. */
static void ignored_signals(void **state) {
    (void)state;
    struct cli c;
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    cli_start(&c, NULL, "run", "@h", "until-asked", "0", NULL);
    signal(SIGHUP, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    (void)cli_line(&c, 1, "ready");
    cli_close_in(&c);
    assert_int_equal(kill(c.pid, SIGHUP), 0);
    assert_int_equal(kill(c.pid, SIGINT), 0);
    assert_int_equal(cli_wait(&c), 130);
    cli_free(&c);
}

static void timeout(void **state) {
    (void)state;
    struct cli c;
    assert_int_equal(
        cli_do(&c, "run", "--timeout", "300ms", "@h", "until-asked", "0", ":", "@h", "until-asked", "0", NULL), 124);
    assert_int_equal(kit_count(&c.text[1], "moyai run: timed out after "), 1);
    cli_free(&c);
    assert_int_equal(cli_do(&c, "run", "--timeout", "10ms", "--grace", "10ms", "@h", "stubborn", NULL), 124);
    cli_free(&c);
    /* In time: nothing of it is seen. */
    assert_int_equal(cli_do(&c, "run", "--timeout", "1h", "@h", "exit", "5", NULL), 5);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* What a process has left behind is asked to end with the rest, and killed like the rest; in a group or session of its
 * own as well. 's', 'g', 'p', 'd' ignore SIGTERM. */
static void grandchildren(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "--grace", "50ms", "sh", "-c", "read line; exit 6", ":", "@h", "family", "sgpd", NULL);
    (void)cli_line(&c, 1, "ready");
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 6); /* it asserts that nobody is left */
    cli_free(&c);
    /* The first group is a shell that leaves somebody behind who ends in order. */
    cli_start(&c, NULL, "run", "--grace", "1h", "sh", "-c", "\"$0\" until-asked 0 & read line < /dev/null; exit 0",
              kit_program("HELPER"), ":", "cat", NULL);
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    cli_free(&c);
    cli_start(&c, NULL, "run", "--grace", "1h", "sh", "-c", "setsid \"$0\" until-asked 0 & cat; exit 0",
              kit_program("HELPER"), NULL);
    (void)cli_line(&c, 1, "ready");
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[0], "asked to end"), 1);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* A long run whose processes leave orphans that end: they are collected. */
static void orphans_are_collected(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do (true & true); done; echo done; cat", NULL);
    (void)cli_line(&c, 1, "done");
    pid_t runner = kit_child_of(kit_child_of(c.pid));
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)runner, (int)runner);
    for (int n = 2; n > 1;) { /* in the end only the shell is left; alarm(2) guards */
        char *text = kit_read(path);
        n = 0;
        for (char *p = text; *p; p++) n += *p == ' ';
        free(text);
        sched_yield();
    }
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    cli_free(&c);
}

static char state_of(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    char *text = kit_read(path);
    char s = strrchr(text, ')')[2];
    free(text);
    return s;
}

/* Ctrl-Z stops the processes and the front; fg lets all go on. */
static void stop_and_go(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "sh", "-c", "echo pid $$; exec \"$0\" until-asked 0", kit_program("HELPER"), NULL);
    pid_t pid = atoi(strstr(cli_line(&c, 1, "pid "), "pid ") + 4);
    (void)cli_line(&c, 1, "ready");
    cli_close_in(&c);
    assert_int_equal(kill(c.pid, SIGTSTP), 0);
    int status;
    assert_int_equal(waitpid(c.pid, &status, WUNTRACED), c.pid);
    assert_true(WIFSTOPPED(status));
    while (state_of(pid) != 'T') sched_yield();
    assert_int_equal(kill(c.pid, SIGCONT), 0);
    while (state_of(pid) == 'T') sched_yield();
    assert_int_equal(kill(c.pid, SIGTERM), 0);
    assert_int_equal(cli_wait(&c), 143);
    assert_int_equal(kit_count(&c.text[0], "asked to end"), 1);
    cli_free(&c);
}

/* The terminal's input goes to the first process, and its Ctrl-C to us; the processes are not hit by it directly. */
static void terminal(void **state) {
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    int tty = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(tty >= 0);
    struct cli c;
    cli_start(&c, &(struct cli_opts){.in = tty, .terminal = true}, "run", "--grace", "1h", "sh", "-c",
              "read line; echo got $line; cat; echo end of input; exec \"$0\" until-asked 0", kit_program("HELPER"),
              NULL);
    assert_int_equal(write(master, "typed\n", 6), 6);
    (void)cli_line(&c, 1, "got typed");
    assert_int_equal(write(master, "more\n\004", 6), 6); /* Ctrl-D */
    (void)cli_line(&c, 1, "more");
    (void)cli_line(&c, 1, "end of input");
    (void)cli_line(&c, 1, "ready");
    assert_int_equal(write(master, "\003", 1), 1); /* Ctrl-C */
    assert_int_equal(cli_wait(&c), 130);
    assert_int_equal(kit_count(&c.text[0], "asked to end"), 1);
    cli_free(&c);
    close(tty);
    close(master);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_group_ends_it),
        cmocka_unit_test(all_of_the_first_group),
        cmocka_unit_test(grace),
        cmocka_unit_test(stopped_process),
        cmocka_unit_test(signals),
        cmocka_unit_test(second_signal),
        cmocka_unit_test(doubled_signal),
        cmocka_unit_test(ignored_signals),
        cmocka_unit_test(timeout),
        cmocka_unit_test(grandchildren),
        cmocka_unit_test(orphans_are_collected),
        cmocka_unit_test(stop_and_go),
        cmocka_unit_test(terminal),
    };
    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
