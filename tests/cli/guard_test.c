/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing of a run outlives it. cli_await_gone() returns when no process that descends from the run is left; if one
 * were, the hang guard would end the test.
 */
#include "tests/cli/kit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
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

static int open_process(pid_t pid) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(fd >= 0);
    return fd;
}

static void await_end(int process) {
    struct pollfd p = {.fd = process, .events = POLLIN};
    assert_int_equal(poll(&p, 1, -1), 1);
    close(process);
}

/* It may have ended already, and been collected. */
static void send_signal(int process, int sig) {
    if (syscall(SYS_pidfd_send_signal, process, sig, NULL, 0) < 0) assert_int_equal(errno, ESRCH);
}

/* Kill two of the three in the same instant, or as good as: b is stopped first, so that it does not react to the
 * other's end before it is let go on for that. */
static void kill_both(pid_t a, pid_t b) {
    int process = open_process(b);
    send_signal(process, SIGSTOP);
    assert_int_equal(kill(a, SIGKILL), 0);
    send_signal(process, SIGKILL);
    close(process);
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
    kill_both(keeper_of(&c), runner_of(&c));
    assert_int_equal(cli_wait(&c), 137);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* ---- one is stopped, another is killed ------------------------------------------------------- */

enum { FRONT, KEEPER, RUNNER, N_GUARDS };

static size_t open_descendants(pid_t pid, int fds[], size_t n, size_t most) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    char *text = kit_read(path), *next;
    for (char *at = text;; at = next) {
        long child = strtol(at, &next, 10);
        if (next == at) break;
        assert_true(n < most);
        fds[n++] = open_process((pid_t)child);
        n = open_descendants((pid_t)child, fds, n, most);
    }
    free(text);
    return n;
}

/* Whoever of the three is stopped, and whoever of the other two is killed, before it or after it: nothing is left. A
 * front that is stopped stays, but the programs end. */
static void stopped_and_killed(int stopped, int killed, int stop_first) {
    struct cli c;
    start_stubborn(&c, NULL);
    int guards[N_GUARDS] = {open_process(c.pid), open_process(keeper_of(&c)), open_process(runner_of(&c))};
    int programs[32];
    size_t n = open_descendants(runner_of(&c), programs, 0, 32);
    assert_true(n >= 8);
    if (stop_first) send_signal(guards[stopped], SIGSTOP);
    send_signal(guards[killed], SIGKILL);
    if (!stop_first) send_signal(guards[stopped], SIGSTOP);
    for (size_t i = 0; i < n; i++) await_end(programs[i]);
    send_signal(guards[FRONT], SIGCONT);
    for (int i = 0; i < N_GUARDS; i++) close(guards[i]);
    if (killed == FRONT) {
        expect_killed(&c);
    } else {
        assert_int_equal(cli_wait(&c), 137);
        assert_int_equal(kit_count(&c.text[1], killed == KEEPER ? "moyai run: its keeper" : "moyai run: its runner"),
                         1);
        cli_free(&c);
    }
    assert_int_equal(kit_left(), 0);
}

static void keeper_stopped_runner_killed(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) stopped_and_killed(KEEPER, RUNNER, first);
}

static void keeper_stopped_front_killed(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) stopped_and_killed(KEEPER, FRONT, first);
}

static void runner_stopped_keeper_killed(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) stopped_and_killed(RUNNER, KEEPER, first);
}

static void runner_stopped_front_killed(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) stopped_and_killed(RUNNER, FRONT, first);
}

static void front_stopped_keeper_killed(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) stopped_and_killed(FRONT, KEEPER, first);
}

static void front_stopped_runner_killed(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) stopped_and_killed(FRONT, RUNNER, first);
}

static bool has_ended(int process) {
    struct pollfd p = {.fd = process, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* The front may be stopped at any moment of the end of a run whose keeper was killed. So at none of them may the runner
 * be gone and its programs be there: it ends them, and then itself, and the front lets it. (A runner that takes too
 * long is killed.) */
static void the_runner_outlives_its_programs(void **state) {
    (void)state;
    enum { PATIENCE = 2 };
    for (int i = 0; i < 8; i++) {
        struct cli c;
        struct timespec from, to;
        start_stubborn(&c, NULL);
        int runner = open_process(runner_of(&c)), programs[32];
        size_t n = open_descendants(runner_of(&c), programs, 0, 32), left = 0;
        assert_true(n >= 8);
        clock_gettime(CLOCK_BOOTTIME, &from);
        assert_int_equal(kill(keeper_of(&c), SIGKILL), 0);
        await_end(runner);
        for (size_t k = 0; k < n; k++) left += !has_ended(programs[k]);
        clock_gettime(CLOCK_BOOTTIME, &to);
        if (left > 0 && to.tv_sec - from.tv_sec < PATIENCE)
            fail_msg("%zu programs are left when the runner has ended", left);
        for (size_t k = 0; k < n; k++) close(programs[k]);
        assert_int_equal(cli_wait(&c), 137);
        cli_free(&c);
        assert_int_equal(kit_left(), 0);
    }
}

/* A front that has been killed, but has not had its turn to die, is as one that is stopped: it may not be relied on. */
static void nothing_is_left_to_a_front(void **state) {
    (void)state;
    struct cli c;
    start_stubborn(&c, NULL);
    int keeper = open_process(keeper_of(&c)), status;
    pid_t runner = runner_of(&c);
    assert_int_equal(kill(c.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(c.pid, &status, WUNTRACED), c.pid);
    assert_int_equal(kill(runner, SIGKILL), 0);
    await_end(keeper);
    assert_int_equal(kit_left(), 0);
    assert_int_equal(kill(c.pid, SIGKILL), 0);
    expect_killed(&c);
}

/* At any moment of the end of an orphaned run. */
static void keeper_stopped_after_front_killed(void **state) {
    (void)state;
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    for (int i = 0; i < 25; i++) {
        struct cli c;
        cli_start(&c, NULL, "run", "-n", "3", "@h", "family", "p", NULL);
        for (int k = 0; k < 3; k++) (void)cli_line(&c, 1, "ready");
        int keeper = open_process(keeper_of(&c));
        assert_int_equal(kill(c.pid, SIGKILL), 0);
        usleep((unsigned)rand_r(&seed) % 5000);
        send_signal(keeper, SIGSTOP);
        close(keeper);
        expect_killed(&c);
    }
    assert_int_equal(kit_left(), 0);
}

/* Both that could see the end of the third. */
static void two_stopped_one_killed(void **state) {
    (void)state;
    static const int stopped[][2] = {{KEEPER, RUNNER}, {RUNNER, KEEPER}, {FRONT, RUNNER}, {FRONT, KEEPER}};
    static const int killed[] = {FRONT, FRONT, KEEPER, RUNNER};
    for (int i = 0; i < 4; i++) {
        struct cli c;
        start_stubborn(&c, NULL);
        pid_t pid[N_GUARDS] = {c.pid, keeper_of(&c), runner_of(&c)};
        for (int k = 0; k < 2; k++) assert_int_equal(kill(pid[stopped[i][k]], SIGSTOP), 0);
        assert_int_equal(kill(pid[killed[i]], SIGKILL), 0);
        if (killed[i] == FRONT) {
            expect_killed(&c);
            continue;
        }
        assert_int_equal(kill(c.pid, SIGCONT), 0); /* it was the user who stopped it */
        assert_int_equal(cli_wait(&c), 137);
        cli_free(&c);
    }
    assert_int_equal(kit_left(), 0);
}

/* ---- nothing is to be had any more ----------------------------------------------------------- */

/* That may be why two of the three have ended: no file can be opened, and no memory is left. The third still ends all.
 */
static void two_killed_and_all_is_short(void **state) {
    (void)state;
    for (int last = 0; last < N_GUARDS; last++) {
        struct cli c;
        start_stubborn(&c, NULL);
        int guards[N_GUARDS] = {open_process(c.pid), open_process(keeper_of(&c)), open_process(runner_of(&c))};
        pid_t pid[N_GUARDS] = {c.pid, keeper_of(&c), runner_of(&c)};
        int programs[32];
        size_t n = open_descendants(pid[RUNNER], programs, 0, 32);
        assert_int_equal(prlimit(pid[last], RLIMIT_NOFILE, &(struct rlimit){3, 3}, NULL), 0);
#ifndef __SANITIZE_ADDRESS__
        assert_int_equal(prlimit(pid[last], RLIMIT_DATA, &(struct rlimit){0, 0}, NULL), 0);
#endif
        for (int i = 0; i < N_GUARDS; i++)
            if (i != last) send_signal(guards[i], SIGSTOP);
        for (int i = 0; i < N_GUARDS; i++)
            if (i != last) send_signal(guards[i], SIGKILL);
        for (size_t i = 0; i < n; i++) await_end(programs[i]);
        int status;
        assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
        cli_await_gone(&c);
        cli_free(&c);
        for (int i = 0; i < N_GUARDS; i++) close(guards[i]);
    }
    /* It could not look into the directories either. */
    struct cli c;
    assert_int_equal(cli_do(&c, "run", "true", NULL), 0);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* ---- names and signals -------------------------------------------------------------------- */

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
    int end = open_process(runner);
    int status;
    assert_int_equal(kill(c.pid, SIGSTOP), 0); /* from above, so that nobody is let go on; killed from below likewise */
    assert_int_equal(waitpid(c.pid, &status, WUNTRACED), c.pid);
    assert_int_equal(kill(keeper, SIGSTOP), 0);
    assert_int_equal(kill(runner, SIGKILL), 0);
    assert_int_equal(kill(keeper, SIGKILL), 0);
    assert_int_equal(kill(c.pid, SIGKILL), 0);
    assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
    assert_int_equal(kill(pid, SIGKILL), 0);
    cli_await_gone(&c);
    cli_free(&c);
    /* The pipe is closed a moment before the directory's lock is. */
    await_end(end);
    assert_int_equal(kit_left(), 1);
    assert_int_equal(cli_do(&c, "run", "true", NULL), 0);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* As soon as there is something to be left behind. */
static void interrupted_at_the_start(void **state) {
    (void)state;
    int watch = inotify_init1(IN_CLOEXEC);
    assert_true(watch >= 0);
    assert_true(inotify_add_watch(watch, kit_dir(), IN_CREATE) >= 0);
    for (int i = 0; i < 50; i++) {
        struct cli c;
        _Alignas(struct inotify_event) char event[4096];
        cli_start(&c, NULL, "run", "@h", "pause", NULL);
        assert_true(read(watch, event, sizeof event) > 0);
        assert_int_equal(kill(c.pid, i % 2 ? SIGINT : SIGTERM), 0);
        assert_int_equal(cli_wait(&c), 128 + (i % 2 ? SIGINT : SIGTERM));
        cli_free(&c);
        assert_int_equal(kit_left(), 0);
    }
    close(watch);
}

/* Standard error is a pipe that is full, and stays so: what the front has to say is dropped, and it ends. */
static void nobody_reads_errors(void **state) {
    (void)state;
    for (int asked = 0; asked < 2; asked++) {
        struct cli c;
        cli_start(&c, NULL, "run", "@h", "pause", NULL);
        (void)cli_line(&c, 1, "ready");
        char path[64], zeros[4096] = {0};
        snprintf(path, sizeof path, "/proc/self/fd/%d", c.fd[1]);
        int full = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        assert_true(full >= 0);
        while (write(full, zeros, sizeof zeros) > 0) {
        }
        assert_int_equal(errno, EAGAIN);
        close(full);
        pid_t front = c.pid;
        int status;
        assert_int_equal(kill(keeper_of(&c), SIGKILL), 0);
        if (asked) assert_int_equal(kill(front, SIGINT), 0);
        assert_int_equal(waitpid(front, &status, 0), front);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 137);
        cli_await_gone(&c);
        cli_free(&c);
        assert_int_equal(kit_left(), 0);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* the name of one test */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(front_killed),
        cmocka_unit_test(group_killed),
        cmocka_unit_test(runner_killed),
        cmocka_unit_test(keeper_killed),
        cmocka_unit_test(front_and_runner_killed),
        cmocka_unit_test(front_and_keeper_killed),
        cmocka_unit_test(runner_and_keeper_killed),
        cmocka_unit_test(keeper_stopped_runner_killed),
        cmocka_unit_test(keeper_stopped_front_killed),
        cmocka_unit_test(runner_stopped_keeper_killed),
        cmocka_unit_test(runner_stopped_front_killed),
        cmocka_unit_test(front_stopped_keeper_killed),
        cmocka_unit_test(front_stopped_runner_killed),
        cmocka_unit_test(the_runner_outlives_its_programs),
        cmocka_unit_test(nothing_is_left_to_a_front),
        cmocka_unit_test(keeper_stopped_after_front_killed),
        cmocka_unit_test(two_stopped_one_killed),
        cmocka_unit_test(two_killed_and_all_is_short),
        cmocka_unit_test(keeper_has_another_name),
        cmocka_unit_test(runner_asked_to_end),
        cmocka_unit_test(runner_hangs),
        cmocka_unit_test(killed_at_any_moment),
        cmocka_unit_test(stale_directory),
        cmocka_unit_test(interrupted_at_the_start),
        cmocka_unit_test(nobody_reads_errors),
    };
    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
