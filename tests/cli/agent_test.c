/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moyai node, and moyai run --on-nodes: each test has agents of its own in one grid. That nothing of a command is left
 * is seen at a fifo that it and all its descendants have open.
 */
#include "tests/cli/kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A run that makes the grid: a node that does nothing but be there. */
static struct cli run;
static char grid[200], env[220];
static const char *const added[] = {env, NULL};
static char fifo[128];

static int open_run(void **state) {
    (void)state;
    cli_start(&run, NULL, "run", "--print-grid", "@n", "master", ":", "@n", "serve", "bystander", NULL);
    snprintf(grid, sizeof grid, "%s", strstr(cli_line(&run, 2, "moyai run: grid file:/"), "file:"));
    snprintf(env, sizeof env, "MOYAI_GRID=%s", grid);
    cli_await(&run, 1, "serving", 1);
    snprintf(fifo, sizeof fifo, "%s/fifo", kit_dir());
    assert_int_equal(mkfifo(fifo, 0600), 0);
    return 0;
}

static int close_run(void **state) {
    (void)state;
    unlink(fifo);
    cli_close_in(&run);
    assert_int_equal(cli_wait(&run), 0);
    cli_free(&run);
    return kit_left();
}

static void start_agent(struct cli *c, const char *slots, const char *grace) {
    cli_start(c, &(struct cli_opts){.env = added}, "node", "--slots", slots, "--grace", grace, NULL);
    (void)cli_line(c, 2, "takes commands");
}

static void end_agent(struct cli *c) {
    kill(c->pid, SIGTERM);
    assert_int_equal(cli_wait(c), 0);
    cli_free(c);
}

static void end_agent_saying(struct cli *c, const char *text, int times) {
    kill(c->pid, SIGTERM);
    assert_int_equal(cli_wait(c), 0);
    assert_int_equal(kit_count(&c->text[1], text), times);
}

/* moyai run --on-nodes WORDS */
#define START(c, ...) start_run(c, (const char *const[]){"run", "--on-nodes", __VA_ARGS__, NULL})
static void start_run(struct cli *c, const char *const *words) {
    cli_startv(c, &(struct cli_opts){.env = added}, words);
}

/* The status; what it wrote is in c. */
#define DO(c, ...) (START(c, __VA_ARGS__), cli_close_in(c), cli_wait(c))

static void has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("no '%s' in:\n%s", part, text);
}

/* A command whose descendants hold the fifo: one in a session of its own, which ignores SIGTERM. Open it for reading
 * before, and await_nobody after. */
#define FAMILY "sh", "-c", "exec 9>\"$0\"; \"$1\" family sg & \"$1\" until-asked 0"

static int watch_fifo(void) {
    int fd = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void await_nobody(int fd) {
    char b;
    (void)fcntl(fd, F_SETFL, 0);
    ssize_t n;
    do n = read(fd, &b, 1);
    while (n > 0 || (n < 0 && errno == EINTR));
    assert_int_equal(n, 0);
    close(fd);
}

/* From now on it can open that many more files. */
static void leave_files(pid_t pid, int n) {
    char path[64];
    bool open_here[4096] = {false};
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.' && atoi(e->d_name) < 4096) open_here[atoi(e->d_name)] = true;
    closedir(d);
    int fd = 0;
    for (; n > 0; fd++) n -= !open_here[fd];
    struct rlimit limit;
    assert_int_equal(prlimit(pid, RLIMIT_NOFILE, NULL, &limit), 0);
    limit.rlim_cur = (rlim_t)fd;
    assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

/* ---- placing --------------------------------------------------------------------------------- */

static void processes_are_placed(void **state) {
    (void)state;
    struct cli one, two, c;
    start_agent(&one, "1", "5s");
    start_agent(&two, "2", "5s");
    assert_int_equal(DO(&c, "-n", "2", "--env", "A=b c", "sh", "-c",
                        "echo out $MOYAI_RANK of $MOYAI_SIZE $A; pwd; echo err >&2; printf last; exit 3", ":", "sleep",
                        "300"), /* ended with the first group */
                     3);
    char host[256], line[300], dir[256];
    assert_int_equal(gethostname(host, sizeof host), 0);
    host[strcspn(host, ".")] = 0;
    assert_non_null(getcwd(dir, sizeof dir));
    snprintf(line, sizeof line, "[0.1 %.24s", host);
    has(c.text[0].p, line);
    has(c.text[0].p, "] out 0 of 3 b c\n");
    has(c.text[0].p, "] out 1 of 3 b c\n");
    assert_int_equal(kit_count(&c.text[0], "] last"), 2); /* a line of its own each */
    assert_int_equal(kit_count(&c.text[0], dir), 2);
    assert_int_equal(kit_count(&c.text[1], "] err"), 2);
    assert_int_equal(kit_count(&c.text[1], "exited with status 3"), 2);
    cli_free(&c);
    end_agent(&one);
    end_agent(&two);
}

/* Many more than slots, at once; all run, one after the other. */
static void many_share_slots(void **state) {
    (void)state;
    struct cli one, c;
    start_agent(&one, "4", "5s");
    assert_int_equal(DO(&c, "-n", "100", "sh", "-c", "echo rank $MOYAI_RANK."), 0);
    for (int i = 0; i < 100; i++) {
        char want[32];
        snprintf(want, sizeof want, "] rank %d.\n", i);
        has(c.text[0].p, want);
    }
    assert_int_equal(kit_count(&c.text[0], ""), 100);
    cli_free(&c);
    end_agent(&one);
}

/* No agent, then one without a free slot: it waits and says so, and runs once there is one. */
static void waits_for_a_slot(void **state) {
    (void)state;
    struct cli one, first, c, ps;
    START(&first, "@h", "until-asked", "0");
    has(cli_line(&first, 2, "moyai run: "), "1 process waits for a node that takes commands: there is none");
    start_agent(&one, "1", "5s");
    (void)cli_line(&first, 1, "ready");
    START(&c, "@h", "show", "MOYAI_RANK");
    has(cli_line(&c, 2, "moyai run: "), "1 process waits for a slot: the only one is taken");
    cli_startv(&ps, &(struct cli_opts){.env = added}, (const char *const[]){"ps", NULL});
    cli_close_in(&ps);
    assert_int_equal(cli_wait(&ps), 0);
    has(ps.text[0].p, "  1/1  ");
    cli_free(&ps);
    kill(first.pid, SIGTERM);
    assert_int_equal(cli_wait(&first), 143);
    has(first.text[0].p, "ends in order");
    cli_free(&first);
    assert_int_equal(cli_wait(&c), 0);
    has(c.text[0].p, "MOYAI_RANK=0");
    cli_free(&c);
    end_agent(&one);
}

static void what_cannot_be_run(void **state) {
    (void)state;
    struct cli one, c;
    start_agent(&one, "2", "5s");
    assert_int_equal(DO(&c, "-n", "2", "./no-such-program"), 127);
    has(c.text[1].p, "cannot run './no-such-program': No such file or directory");
    cli_free(&c);
    assert_int_equal(DO(&c, "/etc/passwd"), 126);
    has(c.text[1].p, "cannot run '/etc/passwd': Permission denied");
    cli_free(&c);
    assert_int_equal(DO(&c, "--dir", "/no-such-dir", "true"), 127);
    has(c.text[1].p, "cannot run 'true' in '/no-such-dir'");
    cli_free(&c);
    assert_int_equal(DO(&c, "sh", "-c", "kill -SEGV $$"), 139);
    has(c.text[1].p, "was killed by signal 11");
    cli_free(&c);
    end_agent(&one);
}

static void wrong_arguments(void **state) {
    (void)state;
    static const struct {
        const char *words[8], *text;
    } wrong[] = {
        {{"node", "--slots", "0"}, "--slots: '0' is not a number from 1 to 65536"},
        {{"node", "--slots", "x"}, "--slots: 'x' is not"},
        {{"node", "--grid", ""}, "the address of --grid is empty"},
        {{"node", "more"}, "unknown argument 'more'"},
        {{"node"}, "which grid? Give --grid, or set MOYAI_GRID"},
        {{"run", "--on-nodes", "true"}, "which grid? Give --grid, or set MOYAI_GRID"},
        {{"run", "--on-nodes"}, "no program to run"},
        {{"run", "--dir", "/", "true"}, "--dir and --env are for --on-nodes"},
        {{"run", "--on-nodes", "--env", "=x", "true"}, "--env: '=x' has no name"},
        {{"run", "--on-nodes", "--env", "NO_SUCH_VARIABLE", "true"}, "there is no variable 'NO_SUCH_VARIABLE' here"},
        {{"run", "--on-nodes", "--keep", "true"}, "--keep and --grid-file are for a private grid"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct cli c;
        cli_startv(&c, NULL, wrong[i].words);
        cli_close_in(&c);
        assert_int_equal(cli_wait(&c), 2);
        has(c.text[1].p, wrong[i].text);
        cli_free(&c);
    }
}

/* ---- output ---------------------------------------------------------------------------------- */

static void much_output(void **state) {
    (void)state;
    struct cli one, c;
    start_agent(&one, "2", "5s");
    assert_int_equal(
        DO(&c, "--no-prefix", "-n", "2", "sh", "-c", "yes 0123456789 | head -n 500000; echo end of $MOYAI_RANK"), 0);
    assert_int_equal(c.text[0].n, 2 * (500000 * 11 + 9));
    has(c.text[0].p, "\nend of 0\n");
    has(c.text[0].p, "\nend of 1\n");
    cli_free(&c);
    end_agent(&one);
}

/* Nobody reads what the run writes: the command waits, and a Ctrl-C ends the run all the same. */
static void stopped_reader(void **state) {
    (void)state;
    struct cli one, c;
    start_agent(&one, "1", "5s");
    START(&c, "--grace", "100ms", "@h", "fill");
    /* It says on standard error how much it has written; of that, too, nothing comes when it waits. Until it has
     * written more than pipes hold: */
    char buf[4096], *p = NULL;
    long long n = 0;
    while (n < 256 << 10) {
        ssize_t k = read(c.fd[1], buf, sizeof buf - 1);
        assert_true(k > 0);
        buf[k] = 0;
        for (p = buf; (p = strstr(p, "] ")); p += 2) n = atoll(p + 2);
    }
    kill(c.pid, SIGINT);
    int status;
    assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
    assert_int_equal(WEXITSTATUS(status), 130);
    cli_await_gone(&c);
    cli_free(&c);
    end_agent(&one);
}

/* Whoever read has gone: the command gets SIGPIPE, as if it wrote there itself. */
static void reader_gone(void **state) {
    (void)state;
    struct cli one, c;
    start_agent(&one, "1", "5s");
    START(&c, "@h", "fill");
    (void)cli_line(&c, 1, "[0.0 ");
    close(c.fd[0]);
    c.fd[0] = -1;
    c.text[0].ended = true;
    assert_int_equal(cli_wait(&c), 141);
    cli_free(&c);
    end_agent(&one);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void signals_are_handed_on(void **state) {
    (void)state;
    struct cli one, c;
    start_agent(&one, "3", "5s");
    START(&c, "-n", "2", "@h", "until-asked", "0", ":", "@h", "stubborn");
    cli_await(&c, 1, "ready", 3);
    kill(c.pid, SIGTERM);
    cli_await(&c, 1, "ends in order", 2);
    kill(c.pid, SIGTERM); /* the one that ignores it */
    assert_int_equal(cli_wait(&c), 143);
    cli_free(&c);
    end_agent(&one);
}

/* Of where it runs the beginning of the site's name is said, in whole characters. */
static void site_is_named(void **state) {
    (void)state;
    struct cli one, c;
    cli_start(&one, &(struct cli_opts){.env = added}, "node", "--site",
              "x\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", NULL);
    (void)cli_line(&one, 2, "takes commands");
    assert_int_equal(DO(&c, "sh", "-c", "kill -9 $$"), 137);
    has(c.text[1].p, "/x\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4) was killed by");
    cli_free(&c);
    end_agent(&one);
}

static pid_t who(struct cli *c, int which) {
    pid_t pid = c->pid;
    while (which-- > 0) pid = kit_child_of(pid);
    return pid;
}

/* Of the three processes of an agent any is killed: its commands are gone with all they have started, and reported. */
static void agent_is_killed(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct cli one, c;
        start_agent(&one, "2", "5s");
        int fd = watch_fifo();
        START(&c, "-n", "2", FAMILY, fifo, "@h");
        cli_await(&c, 1, "ready", 4);
        kill(who(&one, i), SIGKILL);
        assert_int_equal(cli_wait(&c), 137);
        assert_int_equal(kit_count(&c.text[1], "is lost: node"), 2);
        has(c.text[1].p, "has died");
        await_nobody(fd);
        (void)cli_wait(&one);
        cli_free(&one);
        cli_free(&c);
    }
}

/* And of a starter: its commands are ended, and their slots are free again. */
static void starter_is_killed(void **state) {
    (void)state;
    struct cli one, c;
    start_agent(&one, "2", "100ms");
    for (int i = 0; i < 3; i++) {
        int fd = watch_fifo();
        START(&c, "-n", "2", FAMILY, fifo, "@h");
        cli_await(&c, 1, "ready", 4);
        kill(who(&c, i), SIGKILL);
        (void)cli_wait(&c);
        cli_free(&c);
        await_nobody(fd);
    }
    assert_int_equal(DO(&c, "-n", "2", "@h", "show", "MOYAI_RANK"), 0);
    cli_free(&c);
    end_agent(&one);
}

/* It asks its commands to end, hands on what they say, and only then leaves. */
static void agent_leaves_in_order(void **state) {
    (void)state;
    struct cli one, c;
    start_agent(&one, "2", "5s");
    START(&c, "-n", "2", "@h", "until-asked", "7");
    cli_await(&c, 1, "ready", 2);
    kill(one.pid, SIGTERM);
    assert_int_equal(cli_wait(&one), 0);
    has(one.text[1].p, "got SIGTERM: ending 2 commands in order");
    cli_free(&one);
    assert_int_equal(cli_wait(&c), 7);
    assert_int_equal(kit_count(&c.text[0], "ends in order"), 2);
    assert_int_equal(kit_count(&c.text[1], "exited with status 7"), 2);
    cli_free(&c);
}

/* The slot that becomes free while it ends is none: who waits goes elsewhere, and is not lost with it. */
static void nobody_is_sent_to_an_agent_that_ends(void **state) {
    (void)state;
    enum { N = 5 };
    struct cli agents[N], c;
    for (int i = 0; i < N; i++) start_agent(&agents[i], "1", "5s");
    START(&c, "-n", "8", "sh", "-c", "trap 'exit 0' TERM; echo up; sleep 1 & wait");
    cli_await(&c, 1, "up", N);
    for (int i = 1; i < N; i++) kill(agents[i].pid, SIGTERM);
    for (int i = 1; i < N; i++) assert_int_equal(cli_wait(&agents[i]), 0);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[0], "up"), 8);
    assert_int_equal(kit_count(&c.text[1], "is lost"), 0);
    cli_free(&c);
    for (int i = 1; i < N; i++) cli_free(&agents[i]);
    end_agent(&agents[0]);
}

/* What a command leaves behind ends with it, and its slot is free only then. */
static void nothing_is_left_behind(void **state) {
    (void)state;
    struct cli one, c;
    start_agent(&one, "1", "100ms");
    int fd = watch_fifo();
    char ready[160];
    snprintf(ready, sizeof ready, "%s/ready", kit_dir());
    assert_int_equal(DO(&c, "sh", "-c",
                        "exec 9>\"$0\"; \"$1\" family sdg >\"$2\" & until test -s \"$2\"; do :; done; exit 6", fifo,
                        "@h", ready),
                     6);
    unlink(ready);
    await_nobody(fd);
    cli_free(&c);
    end_agent(&one);
}

/* A node that dies on an agent: the agent has seen it, and others know. */
static void agent_is_a_witness(void **state) {
    (void)state;
    struct cli one, c;
    start_agent(&one, "1", "5s");
    START(&c, "@n", "serve", "victim");
    (void)cli_line(&c, 1, "serving victim");
    cli_type(&run, "learn bystander victim\n");
    (void)cli_line(&run, 1, "learn bystander victim: ok");
    cli_type(&run, "call victim\n");
    pid_t pid = atoi(strstr(cli_line(&run, 1, "call victim: "), "victim: ") + 8);
    assert_true(pid > 0);
    kill(pid, SIGKILL);
    assert_int_equal(cli_wait(&c), 137);
    cli_free(&c);
    cli_type(&run, "try bystander\n");
    has(cli_line(&run, 1, "try bystander: "), "MOYAI_EDEAD");
    end_agent(&one);
}

/* ---- the object ------------------------------------------------------------------------------ */

/* Called by others than moyai run: the agent's reference is in what its node says of itself. */
static void called_by_hand(void **state) {
    (void)state;
    struct cli one, c;
    char ref[200], order[64];
    start_agent(&one, "1", "5s");
    cli_startv(&c, &(struct cli_opts){.env = added}, (const char *const[]){"ps", "--json", NULL});
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    const char *found = strstr(c.text[0].p, "\"agent\": {\"ref\": {\"$ref\": \"");
    assert_non_null(found);
    snprintf(ref, sizeof ref, "%.71s", strstr(found, "moyai:"));
    cli_free(&c);
    static const struct {
        const char *method, *value, *text;
        int status;
    } calls[] = {
        {"run", "{\"argv\": [\"sh\", \"-c\", \"exit 5\"]}", "\"exited\"\n5\n", 0},
        {"run", "{\"argv\": [\"sh\", \"-c\", \"kill -9 $$\"]}", "\"killed\"\n9\n", 0},
        {"run", "{\"argv\": [\"/no/such\"]}", "\"not started\"\n2\n", 0},
        {"run", "{\"argv\": []}", "MOYAI_EARGS", 1},
        {"run", "{}", "MOYAI_EARGS", 1},
        {"run", "1", "MOYAI_EARGS", 1},
        {"run", "{\"argv\": [\"true\"], \"env\": [\"x\"]}", "not of the form NAME=VALUE", 1},
        {"run", "{\"argv\": [\"true\"], \"id\": \"\"}", "\"id\" is a text of 1 to 64 bytes", 1},
        {"run", "{\"argv\": [\"a\", {\"$bytes\": \"AAEC\"}]}", "item 1 of \"argv\" is neither a text", 1},
        {"read", "\"x\"", "there is no command \"x\"", 1},
        {"commands", NULL, "[]\n", 0},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        snprintf(order, sizeof order, "%.10s", calls[i].method);
        cli_startv(&c, &(struct cli_opts){.env = added},
                   (const char *const[]){"call", ref, calls[i].method, calls[i].value, NULL});
        cli_close_in(&c);
        if (cli_wait(&c) != calls[i].status) fail_msg("call %zu: %s%s", i, c.text[0].p, c.text[1].p);
        has(c.text[calls[i].status].p, calls[i].text);
        cli_free(&c);
    }
    end_agent(&one);
}

/* One that is there, but stopped, is not one that is not there. */
static void a_stopped_agent(void **state) {
    (void)state;
    struct cli one, c;
    start_agent(&one, "1", "5s");
    pid_t agent = kit_child_of(kit_child_of(one.pid));
    assert_int_equal(kill(agent, SIGSTOP), 0);
    START(&c, "echo", "at last");
    char want[80];
    snprintf(want, sizeof want, ", pid %d) does not answer", (int)agent);
    has(cli_line(&c, 2, "1 process waits for "), "none is known; node ");
    has(c.text[1].p, want);
    assert_int_equal(kill(agent, SIGCONT), 0);
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    cli_free(&c);
    /* Interrupted before anything runs: nothing is said to be ended. */
    end_agent(&one);
    START(&c, "echo", "never");
    (void)cli_line(&c, 2, "there is none in the grid");
    kill(c.pid, SIGINT);
    assert_int_equal(cli_wait(&c), 130);
    has(c.text[1].p, "moyai run: interrupted\n");
    cli_free(&c);
}

/* An agent that can open a connection's file but no command's pipes: another starts it; if there is none, it has not
 * been started, rather than lost. */
static void agent_without_files(void **state) {
    (void)state;
    struct cli one, two, c;
    start_agent(&one, "2", "5s");
    leave_files(kit_child_of(kit_child_of(one.pid)), 3); /* the keeper of its front, and the agent */
    assert_int_equal(DO(&c, "echo", "never"), 125);
    has(c.text[1].p, "cannot start a process at the moment: cannot make a pipe: Too many open files");
    has(c.text[1].p, "[0.0] on ");
    assert_int_equal(kit_count(&c.text[1], "lost"), 0);
    cli_free(&c);
    start_agent(&two, "1", "5s");
    assert_int_equal(DO(&c, "-n", "4", "echo", "somewhere else"), 0);
    assert_int_equal(kit_count(&c.text[0], "] somewhere else"), 4);
    cli_free(&c);
    end_agent(&one);
    end_agent(&two);
}

/* One that will never have enough says so at its start, once, and what to do. */
static void an_agent_with_few_files_says_so(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, &(struct cli_opts){.env = added, .files = 137}, "node", "--slots", "2", NULL);
    (void)cli_line(&c, 2, "takes commands");
    end_agent_saying(&c, "warning: this process may have 137 files open", 1);
    has(c.text[1].p, "needs 138. Raise the hard limit (ulimit -Hn");
    cli_free(&c);
    cli_start(&c, &(struct cli_opts){.env = added, .files = 138}, "node", "--slots", "2", NULL);
    (void)cli_line(&c, 2, "takes commands");
    end_agent_saying(&c, "warning", 0);
    cli_free(&c);
}

/* An agent that cannot open a file any more ends what a command has left behind all the same. */
static void nothing_is_left_behind_without_files(void **state) {
    (void)state;
    struct cli one, c;
    start_agent(&one, "1", "100ms");
    int fd = watch_fifo();
    START(&c, "sh", "-c", "exec 9>\"$0\"; \"$1\" family p & exec \"$1\" until-asked 6", fifo, "@h");
    cli_await(&c, 1, "ready", 2);
    pid_t agent = kit_child_of(kit_child_of(one.pid));
    struct rlimit limit;
    assert_int_equal(prlimit(agent, RLIMIT_NOFILE, NULL, &limit), 0);
    assert_int_equal(prlimit(agent, RLIMIT_NOFILE, &(struct rlimit){3, limit.rlim_max}, NULL), 0);
    kill(c.pid, SIGTERM);
    assert_int_equal(cli_wait(&c), 143);
    has(c.text[0].p, "ends in order");
    cli_free(&c);
    await_nobody(fd);
    assert_int_equal(prlimit(agent, RLIMIT_NOFILE, &limit, NULL), 0);
    end_agent(&one);
}

/* ---- a directory of several hosts ------------------------------------------------------------- */

/* The entry that a node of another host would leave there. */
static void put_foreign(const char *host, char path[300]) {
    snprintf(path, 300, "%s/n/0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f", strchr(grid, '/'));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fprintf(f,
                        "moyai node 1\nid 0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f\nhost %s\npid 4711\nstarted %lld\n"
                        "run-dir /nowhere/moyai\ntitle far\nend\n",
                        host, (long long)time(NULL)) > 0);
    assert_int_equal(fclose(f), 0);
}

#define FAR "node 0f0f0f0f (far, pid 4711) is (or was, if it has ended) of another host or container: a grid over "

/* Without a key it would be one for each host: everybody says so who sees it. */
static void several_hosts_need_a_key(void **state) {
    (void)state;
    char path[300];
    struct cli before, after, c;
    start_agent(&before, "1", "5s");
    put_foreign("0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f", path);
    (void)cli_line(&before, 2, "moyai node: warning: " FAR "several needs a key that each names (moyai key new, ");
    start_agent(&after, "1", "5s");
    (void)cli_line(&after, 2, "moyai node: warning: " FAR);
    /* So do those who look, and what is started. */
    assert_int_equal(cli_do(&c, "ps", "--grid", grid, NULL), 1);
    has(c.text[1].p, "not all of the grid at '");
    has(c.text[1].p, FAR);
    cli_free(&c);
    assert_int_equal(cli_do(&c, "call", "--grid", grid, "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f", "info", NULL), 1);
    has(c.text[1].p, FAR);
    cli_free(&c);
    cli_start(&c, NULL, "run", "--grid", grid, "@n", "serve", "x", NULL);
    (void)cli_line(&c, 2, "moyai run: warning: " FAR);
    kill(c.pid, SIGTERM);
    (void)cli_wait(&c);
    cli_free(&c);
    static const char *const logs[] = {"MOYAI_LOG=warning", NULL};
    cli_start(&c, &(struct cli_opts){.env = logs}, "run", "--grid", grid, "@n", "serve", "x", NULL);
    cli_await(&c, 2, " warning overlay MOYAI-GRID-HOSTS " FAR, 2);
    kill(c.pid, SIGTERM);
    (void)cli_wait(&c);
    assert_int_equal(kit_count(&c.text[1], "moyai run: warning: "), 0); /* not twice */
    cli_free(&c);
    end_agent_saying(&after, FAR, 1);
    end_agent_saying(&before, FAR, 1);
    cli_free(&after);
    cli_free(&before);
    unlink(path);
}

static void nobody_takes_commands_but_elsewhere(void **state) {
    (void)state;
    char path[300];
    struct cli c;
    put_foreign("0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f", path);
    START(&c, "echo", "never");
    cli_await(&c, 2, "none is known; node 0f0f0f0f (far, pid 4711) does not answer", 1);
    cli_await(&c, 2, "moyai run: warning: " FAR, 1);
    kill(c.pid, SIGINT);
    assert_int_equal(cli_wait(&c), 130);
    cli_free(&c);
    unlink(path);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* the name of one test */
#define RUN(test) cmocka_unit_test_setup_teardown(test, open_run, close_run)
    const struct CMUnitTest tests[] = {
        RUN(processes_are_placed),
        RUN(many_share_slots),
        RUN(waits_for_a_slot),
        RUN(what_cannot_be_run),
        cmocka_unit_test(wrong_arguments),
        RUN(much_output),
        RUN(stopped_reader),
        RUN(reader_gone),
        RUN(signals_are_handed_on),
        RUN(site_is_named),
        RUN(agent_is_killed),
        RUN(starter_is_killed),
        RUN(agent_leaves_in_order),
        RUN(nobody_is_sent_to_an_agent_that_ends),
        RUN(nothing_is_left_behind),
        RUN(agent_is_a_witness),
        RUN(called_by_hand),
        RUN(agent_without_files),
        RUN(an_agent_with_few_files_says_so),
        RUN(nothing_is_left_behind_without_files),
        RUN(a_stopped_agent),
        RUN(several_hosts_need_a_key),
        RUN(nobody_takes_commands_but_elsewhere),
    };
    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
