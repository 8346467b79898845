/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moyai run and moyai node that end before a certain time. No test looks at a clock: the time is an hour away, and
 * ending may take an hour but for a moment, so that nothing would end if it were done at the time itself.
 */
#include "tests/cli/kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HOUR 3600L
#define ALL_BUT                                                                                                        \
    "3596.7s" /* --grace: of an hour, with the 3 s that are left for the rest, so much that 0.3 s remain               \
               */
#define TOLD     "is over in 59.9"
#define OF_SLURM "SLURM_JOB_END_TIME"

static char slurm[60];
static const char *const added[] = {slurm, NULL};
static const struct cli_opts in_job = {.env = added};

static void job_ends_in(long seconds) {
    snprintf(slurm, sizeof slurm, OF_SLURM "=%lld", (long long)time(NULL) + seconds);
}

static void has(const struct cli *c, const char *part) {
    if (!strstr(c->text[1].p, part)) fail_msg("no \"%s\" in: %s", part, c->text[1].p);
}

static int end(struct cli *c) {
    cli_close_in(c);
    return cli_wait(c);
}

static void a_run_has_ended_by_then(void **state) {
    (void)state;
    struct cli c;
    assert_int_equal(cli_do(&c, "run", "--wall-time", "1h", "--grace", ALL_BUT, "@h", "until-asked", "0", ":", "@h",
                            "until-asked", "0", NULL),
                     124);
    has(&c, "moyai run: its wall time " TOLD);
    has(&c, " min: ending 2 processes in order\n");
    cli_free(&c);
    /* Who does not listen, from his beginning, is killed; what a long grace would leave of the time is too much. */
    signal(SIGTERM, SIG_IGN);
    cli_start(&c, NULL, "run", "--wall-time", "3.2s", "--grace", "100ms", "@h", "pause", NULL);
    assert_int_equal(end(&c), 124);
    has(&c, "did not end within ");
    has(&c, " and is killed\n");
    cli_free(&c);
    job_ends_in(6);
    cli_start(&c, &in_job, "run", "--grace", "1h", "@h", "pause", NULL);
    signal(SIGTERM, SIG_DFL);
    assert_int_equal(end(&c), 124);
    has(&c, "did not end within ");
    has(&c, " and is killed\n");
    cli_free(&c);
    /* Before that: nothing of it is seen. */
    assert_int_equal(cli_do(&c, "run", "--wall-time", "1h", "@h", "exit", "5", NULL), 5);
    assert_null(strstr(c.text[1].p, "time"));
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

static void the_job_of_slurm_tells(void **state) {
    (void)state;
    struct cli c;
    job_ends_in(HOUR);
    cli_start(&c, &in_job, "run", "--grace", "3595s", "@h", "until-asked", "0", NULL);
    assert_int_equal(end(&c), 124);
    has(&c, "moyai run: the job's time is over in ");
    has(&c, " (" OF_SLURM "): to end 59.97 min before that; --wall-time sets another time\n");
    has(&c, "moyai run: the job's time is over in ");
    has(&c, " min: ending 1 process in order\n");
    cli_free(&c);
    /* It begins too late for that. */
    job_ends_in(HOUR);
    cli_start(&c, &in_job, "run", "--grace", "2h", "@h", "until-asked", "0", NULL);
    assert_int_equal(end(&c), 124);
    has(&c, ", and ending may take 2.001 h: to end at once; --wall-time sets another time\n");
    cli_free(&c);
    /* Who says another time means it. */
    cli_start(&c, &in_job, "run", "--wall-time", "10h", "--grace", "2h", "@h", "exit", "5", NULL);
    assert_int_equal(end(&c), 5);
    assert_null(strstr(c.text[1].p, "time"));
    cli_free(&c);
    job_ends_in(-100);
    cli_start(&c, &in_job, "run", "@h", "exit", "5", NULL);
    assert_int_equal(end(&c), 5);
    has(&c, "moyai run: warning: " OF_SLURM " is ");
    has(&c,
        " s ago, which is not when a job ends that runs, so it is not known when this one does: give --wall-time\n");
    cli_free(&c);
    static const char *const wrong[] = {"soon", "9999999999999999999", "10s", "1.5"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[200];
        snprintf(slurm, sizeof slurm, OF_SLURM "=%s", wrong[i]);
        cli_start(&c, &in_job, "run", "@h", "exit", "5", NULL);
        assert_int_equal(end(&c), 5);
        snprintf(text, sizeof text, "warning: " OF_SLURM " is '%s', not seconds since 1970", wrong[i]);
        has(&c, text);
        cli_free(&c);
    }
    static const char *const past[] = {"0", "1", "-1", "86400"};
    for (size_t i = 0; i < sizeof past / sizeof past[0]; i++) {
        char text[200];
        snprintf(slurm, sizeof slurm, OF_SLURM "=%s", past[i]);
        cli_start(&c, &in_job, "run", "@h", "exit", "5", NULL);
        assert_int_equal(end(&c), 5);
        snprintf(text, sizeof text, "warning: " OF_SLURM " is %s, which is not when a job ends that runs, ", past[i]);
        has(&c, text);
        cli_free(&c);
    }
    static const char *const none[] = {"", "9223372036854775807"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        snprintf(slurm, sizeof slurm, OF_SLURM "=%s", none[i]);
        cli_start(&c, &in_job, "run", "@h", "exit", "5", NULL);
        assert_int_equal(end(&c), 5);
        assert_null(strstr(c.text[1].p, "time"));
        cli_free(&c);
    }
    assert_int_equal(kit_left(), 0);
}

static void agents_have_left_by_then(void **state) {
    (void)state;
    struct cli node, run, c;
    char grid[100], places[100], command[300];
    snprintf(grid, sizeof grid, "%s/grid", kit_dir());
    snprintf(places, sizeof places, "%s/moyai", kit_dir());
    assert_int_equal(mkdir(grid, 0700), 0);
    assert_int_equal(cli_do(&c, "node", "--grid", grid, "--wall-time", "1h", "--grace", ALL_BUT, NULL), 0);
    has(&c, "moyai node: its wall time " TOLD);
    has(&c, " min: leaves\n");
    cli_free(&c);
    /* Its commands are asked to end, and those who do not are killed. */
    cli_start(&node, NULL, "node", "--grid", grid, "--slots", "2", "--wall-time", "6s", "--grace", "1s", NULL);
    (void)cli_line(&node, 2, "takes commands");
    cli_start(&run, NULL, "run", "--grid", grid, "--on-nodes", "@h", "until-asked", "0", ":", "@h", "stubborn", NULL);
    (void)cli_line(&run, 1, "asked to end");
    assert_int_equal(cli_wait(&node), 0);
    has(&node, "ending 2 commands in order; SIGTERM or Ctrl-C twice kills them\n");
    (void)end(&run);
    cli_free(&node);
    cli_free(&run);
    job_ends_in(HOUR);
    cli_start(&c, &in_job, "node", "--grid", grid, "--grace", "2h", NULL);
    assert_int_equal(end(&c), 0);
    has(&c, "moyai node: the job's time is over in ");
    has(&c, "moyai node: the job's time is over in ");
    has(&c, " min: leaves\n");
    cli_free(&c);
    snprintf(command, sizeof command, "rm -rf %s %s", grid, places);
    assert_int_equal(system(command), 0);
}

/* SIGUSR1, as Slurm gives it to all processes of a job: once more changes nothing. */
static void a_notice_ends_in_order(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "--grace", "1h", "@h", "until-asked", "0", NULL);
    (void)cli_line(&c, 1, "ready");
    for (int i = 0; i < 3; i++) assert_int_equal(kill(c.pid, SIGUSR1), 0);
    assert_int_equal(kill(kit_child_of(c.pid), SIGUSR1), 0); /* the keeper */
    (void)cli_line(&c, 1, "asked to end");
    assert_int_equal(kill(c.pid, SIGUSR1), 0);
    assert_int_equal(end(&c), 128 + SIGUSR1);
    assert_int_equal(kit_count(&c.text[0], "ends in order"), 1);
    assert_int_equal(kit_count(&c.text[1], "moyai run: got SIGUSR1: ending 1 process in order"), 1);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* Who is killed at once is told so; 0 would be that nobody kills it. */
static void no_grace_is_told(void **state) {
    (void)state;
    struct cli c;
    assert_int_equal(cli_do(&c, "run", "--no-prefix", "--grace", "0", "sh", "-c", "echo $MOYAI_GRACE", NULL), 0);
    assert_string_equal(c.text[0].p, "1ns\n");
    cli_free(&c);
}

static void wrong_times(void **state) {
    (void)state;
    struct cli c;
    static const struct {
        const char *words[9], *text;
    } wrong[] = {
        {{"run", "--wall-time", "0", "@h", "exit", "0"}, "--wall-time: '0' is no time at all"},
        {{"run", "--wall-time", "02:00:00", "@h", "exit", "0"}, "--wall-time: '02:00:00' is not a time such as"},
        {{"run", "--wall-time", "7s", "@h", "exit", "0"},
         "--wall-time: 7 s is not more than ending may take, which is --grace (5 s) and 3 s: give less --grace"},
        {{"run", "--wall-time", "3s", "--grace", "0", "@h", "exit", "0"}, "and 3 s: give more time"},
        {{"run", "--wall-time", "20s", "--grace", "30s", "@h", "exit", "0"}, "which is --grace (30 s) and 3 s"},
        {{"run", "@h", "exit", "0", ":", "--wall-time", "1h", "@h"}, "--wall-time is for the whole run"},
        {{"node", "--grid", "/nosuch", "--wall-time", "8s"}, "--wall-time: 8 s is not more than ending may take"},
        {{"node", "--grid", "/nosuch", "--wall-time", "forever"}, "--wall-time: 'forever' is not a time such as"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cli_startv(&c, NULL, wrong[i].words);
        assert_int_equal(end(&c), 2);
        has(&c, wrong[i].text);
        cli_free(&c);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_has_ended_by_then),  cmocka_unit_test(the_job_of_slurm_tells),
        cmocka_unit_test(agents_have_left_by_then), cmocka_unit_test(a_notice_ends_in_order),
        cmocka_unit_test(no_grace_is_told),         cmocka_unit_test(wrong_times),
    };
    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
