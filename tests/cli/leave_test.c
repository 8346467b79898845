/* SPDX-License-Identifier: Apache-2.0 */
/* moyai leave: nodes that finish what they have begun, agents that end what they run, and those that do not go. */
#include "tests/cli/kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char grid[100], places[60];

static int set_up(void **state) {
    if (kit_setup(state) != 0) return -1;
    snprintf(grid, sizeof grid, "%s/grid", kit_dir());
    snprintf(places, sizeof places, "%s/moyai", kit_dir());
    if (mkdir(grid, 0700) != 0) return -1;
    setenv("MOYAI_GRID", grid, 1);
    return 0;
}

static int tear_down(void **state) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s %s", grid, places);
    if (system(command) != 0) return -1;
    return kit_teardown(state);
}

static void serve(struct cli *c, const char *name) {
    char line[60];
    snprintf(line, sizeof line, "serving %s", name);
    cli_start(c, NULL, "run", "--grid", grid, "@n", "serve", name, NULL);
    (void)cli_line(c, 1, line);
}

static void find_titled(const char *title, char id[9]) {
    struct cli c;
    assert_int_equal(cli_do(&c, "ps", NULL), 0);
    const char *row = strstr(c.text[0].p, title);
    assert_non_null(row);
    while (row > c.text[0].p && row[-1] != '\n') row--;
    snprintf(id, 9, "%s", row);
    cli_free(&c);
}

/* The only one that is not of the command itself. */
static void find_node(char id[9]) {
    find_titled("cli_node", id);
}

#define HAS(text, part)                                                                                                \
    do {                                                                                                               \
        if (!strstr(text, part)) fail_msg("no \"%s\" in: %s", part, text);                                             \
    } while (0)

/* By its name; its call is finished before, and it ends as its program wants to. */
static void a_node_leaves_in_order(void **state) {
    (void)state;
    struct cli a, call, c;
    char id[9];
    serve(&a, "a");
    find_node(id);
    cli_start(&call, NULL, "call", "a", "block", NULL);
    bool begun = false;
    for (; !begun; cli_free(&c)) {
        assert_int_equal(cli_do(&c, "call", id, "info", NULL), 0);
        begun = strstr(c.text[0].p, "\"fibers\": 1") != NULL;
    }
    assert_int_equal(cli_do(&c, "leave", "a", NULL), 0); /* its method is told, and returns */
    HAS(c.text[0].p, " leaves, within 28.0 s\n");
    HAS(c.text[0].p, " has left after ");
    assert_string_equal(c.text[1].p, "");
    cli_free(&c);
    assert_int_equal(cli_wait(&call), 1);
    HAS(call.text[1].p, "MOYAI_ELEAVING");
    cli_free(&call);
    (void)cli_line(&a, 1, "ended a");
    assert_int_equal(cli_wait(&a), 0);
    cli_free(&a);
}

/* All of a host at once, with an agent, whose command is asked to end, and a run, which ends what it has started: the
 * command is asked once. */
static void a_host_leaves(void **state) {
    (void)state;
    struct cli node, run, c;
    char host[100];
    cli_start(&node, NULL, "node", "--slots", "1", NULL);
    (void)cli_line(&node, 2, "takes commands");
    cli_start(&run, NULL, "run", "--grid", grid, "--on-nodes", "@h", "count-asked", NULL);
    (void)cli_line(&run, 1, "ready");
    assert_int_equal(gethostname(host, sizeof host), 0);
    assert_int_equal(cli_do(&c, "leave", "--host", host, "--json", NULL), 0);
    HAS(c.text[0].p, "\"state\": \"left\"");
    cli_free(&c);
    (void)cli_wait(&run);
    HAS(run.text[0].p, "asked 1 time\n");
    cli_free(&run);
    assert_int_equal(cli_wait(&node), 0);
    HAS(node.text[1].p, "moyai node: told to leave"); /* the run may have ended its command before */
    cli_free(&node);
}

/* Not that of looks at it: one that has nothing to do is gone before the second. */
static void its_time_is_true(void **state) {
    (void)state;
    for (bool soon = false; !soon;) { /* on a busy machine it may take longer, now and then */
        struct cli a, c;
        double seconds;
        serve(&a, "a");
        assert_int_equal(cli_do(&c, "leave", "--json", "a", NULL), 0);
        const char *at = strstr(c.text[0].p, "\"seconds\": ");
        assert_true(at && sscanf(at + 11, "%lf", &seconds) == 1 && seconds > 0);
        soon = seconds < 0.1;
        cli_free(&c);
        (void)cli_wait(&a);
        cli_free(&a);
    }
}

/* By its grace, before its time to leave is over: who has told it hears of that, and so does its log say. */
static void what_an_agent_kills_is_said(void **state) {
    (void)state;
    struct cli node, run, c;
    char id[9];
    cli_start(&node, NULL, "node", "--slots", "2", "--grace", "100ms", NULL);
    (void)cli_line(&node, 2, "takes commands");
    find_titled("moyai node", id);
    cli_start(&run, NULL, "run", "--grid", grid, "--on-nodes", "-n", "2", "@h", "stubborn", NULL);
    cli_await(&run, 1, "ready", 2);
    assert_int_equal(cli_do(&c, "leave", "--json", id, NULL), 1);
    HAS(c.text[0].p, "\"state\": \"left\"");
    HAS(c.text[0].p, "\"cut\": 2, \"cut_short\": \"2 commands killed\"");
    cli_free(&c);
    (void)cli_wait(&run);
    cli_free(&run);
    assert_int_equal(cli_wait(&node), 0);
    assert_int_equal(kit_count(&node.text[1], ") did not end within 100 ms and is killed"), 2);
    cli_free(&node);
}

/* One of the host is stopped, and does not say that it is of it: not all of it has left. */
static void who_does_not_answer_is_not_forgotten(void **state) {
    (void)state;
    struct cli a, b, c;
    char host[100], id[9];
    serve(&a, "a");
    find_node(id);
    assert_int_equal(cli_do(&c, "call", id, "info", NULL), 0);
    const char *pid = strstr(c.text[0].p, "\"pid\": ");
    assert_non_null(pid);
    const pid_t stopped = (pid_t)atol(pid + 7);
    cli_free(&c);
    serve(&b, "b");
    assert_int_equal(kill(stopped, SIGSTOP), 0);
    for (int json = 0; json < 2; json++) { /* is there one of it? */
        assert_int_equal(cli_do(&c, "leave", "--site", "x", "--timeout", "1s", json ? "--json" : NULL, NULL), 1);
        HAS(c.text[1].p, "did not answer: ");
        HAS(c.text[1].p, id);
        HAS(c.text[1].p, "no node of site 'x' is among those that are seen: ");
        if (json) HAS(c.text[0].p, "no node of site 'x' is among those that are seen: ");
        if (json)
            HAS(c.text[0].p,
                ", \"executed\": \"never executed\", \"origin\": null}],\n \"complete\": false, \"unseen\": [\"not");
        cli_free(&c);
    }
    assert_int_equal(gethostname(host, sizeof host), 0);
    assert_int_equal(cli_do(&c, "leave", "--host", host, "--timeout", "1s", "--deadline", "2s", NULL), 1);
    HAS(c.text[0].p, " has left after ");
    HAS(c.text[1].p, "did not answer: ");
    HAS(c.text[1].p, id);
    cli_free(&c);
    (void)cli_wait(&b);
    cli_free(&b);
    assert_int_equal(cli_do(&c, "leave", "--host", host, "--timeout", "1s", "--json", NULL), 1); /* there is none */
    HAS(c.text[0].p, "no node of host '");
    HAS(c.text[0].p, "' is in the grid: ");
    HAS(c.text[0].p, "\"complete\": true, \"unseen\": []}\n");
    cli_free(&c);
    (void)kill(stopped, SIGCONT); /* its run may have killed it */
    (void)cli_wait(&a);
    cli_free(&a);
}

/* The time of those who are told without one, where a run or an agent is given it. */
static void a_run_gives_its_processes_a_time(void **state) {
    (void)state;
    struct cli a, c;
    cli_start(&a, NULL, "run", "--leave-deadline", "7s", "--grid", grid, "@n", "serve", "a", NULL);
    (void)cli_line(&a, 1, "serving a");
    assert_int_equal(cli_do(&c, "leave", "a", NULL), 0);
    HAS(c.text[0].p, " leaves, within 6.3 s\n");
    cli_free(&c);
    assert_int_equal(cli_wait(&a), 0);
    cli_free(&a);
    cli_start(&a, NULL, "node", "--leave-deadline", "0", NULL);
    assert_int_equal(cli_wait(&a), 2);
    HAS(a.text[1].p, "--leave-deadline: a node needs some time to leave in order");
    cli_free(&a);
}

/* Whose program does not end is gone all the same when its time is over, and it is said there. */
static void who_does_not_go_is_gone(void **state) {
    (void)state;
    struct cli master, c;
    cli_start(&master, NULL, "run", "--grid", grid, "@n", "master", NULL);
    cli_type(&master, "links\n");
    (void)cli_line(&master, 1, "links: ");
    char id[9];
    find_node(id);
    assert_int_equal(cli_do(&c, "leave", "--deadline", "200ms", id, NULL), 0);
    HAS(c.text[0].p, " leaves, within 0.1 s\n"); /* before it may be killed by its run */
    HAS(c.text[0].p, " has left after ");
    cli_free(&c);
    (void)cli_line(&master, 2, "MOYAI-LEAVE-CUT this node leaves now");
    cli_type(&master, "links\n");
    (void)cli_line(&master, 1, "links: 0");
    cli_close_in(&master);
    assert_int_equal(cli_wait(&master), 0);
    cli_free(&master);
}

static void await_fibers(const char *id, int n) {
    char text[40];
    snprintf(text, sizeof text, "\"fibers\": %d", n);
    struct cli c;
    for (bool begun = false; !begun; cli_free(&c)) {
        assert_int_equal(cli_do(&c, "call", id, "info", NULL), 0);
        begun = strstr(c.text[0].p, text) != NULL;
    }
}

/* That is no clean leave: what it was is said, and counted. */
static void what_is_cut_short_is_said(void **state) {
    (void)state;
    enum { N = 3 };
    for (int json = 0; json < 2; json++) {
        struct cli a, call[N], c;
        char id[9];
        serve(&a, "a");
        find_node(id);
        for (int i = 0; i < N; i++) cli_start(&call[i], NULL, "call", "a", "stay", NULL);
        await_fibers(id, N);
        assert_int_equal(cli_do(&c, "leave", "a", "--deadline", "300ms", json ? "--json" : NULL, NULL), 1);
        if (json) {
            HAS(c.text[0].p, "\"state\": \"left\"");
            HAS(c.text[0].p, "\"cut\": 3, \"cut_short\": \"3 calls in progress here\"");
        } else {
            HAS(c.text[0].p, " has cut short: 3 calls in progress here\n");
            HAS(c.text[0].p, " has left after ");
        }
        assert_string_equal(c.text[1].p, "");
        cli_free(&c);
        for (int i = 0; i < N; i++) {
            assert_int_equal(cli_wait(&call[i]), 1);
            cli_free(&call[i]);
        }
        (void)cli_wait(&a);
        HAS(a.text[1].p, "cut short: 3 calls in progress here");
        cli_free(&a);
    }
    struct cli a, c;
    serve(&a, "a");
    assert_int_equal(cli_do(&c, "leave", "a", "--json", NULL), 0);
    HAS(c.text[0].p, "\"cut\": 0}");
    cli_free(&c);
    (void)cli_wait(&a);
    cli_free(&a);
}

/* A run and its process hear of the same time: the process has said what has become of its calls when it is killed. */
static void who_is_killed_in_time_has_left_before(void **state) {
    (void)state;
    struct cli a, call, c;
    char id[9], host[100];
    assert_int_equal(gethostname(host, sizeof host), 0);
    serve(&a, "a");
    find_node(id);
    cli_start(&call, NULL, "call", "--json", "a", "stay", NULL);
    await_fibers(id, 1);
    assert_int_equal(cli_do(&c, "leave", "--host", host, "--deadline", "2s", NULL), 1);
    HAS(c.text[0].p, " has cut short: 1 call in progress here\n");
    assert_null(strstr(c.text[0].p, "has died"));
    cli_free(&c);
    assert_int_equal(cli_wait(&call), 1);
    HAS(call.text[0].p, "\"MOYAI_ECLOSED\"");
    cli_free(&call);
    (void)cli_wait(&a);
    assert_null(strstr(a.text[1].p, "is killed"));
    cli_free(&a);
}

/* What looks like the beginning of an id, and is none, is a name. */
static void eight_digits_may_be_a_name(void **state) {
    (void)state;
    struct cli a, c;
    serve(&a, "deadbeef");
    assert_int_equal(cli_do(&c, "leave", "deadbeef", NULL), 0);
    HAS(c.text[0].p, " has left after ");
    cli_free(&c);
    (void)cli_wait(&a);
    cli_free(&a);
}

/* What is finished is not always a call of somebody's. */
static void a_function_that_leaves_is_no_call(void **state) {
    (void)state;
    struct cli a, call, c;
    for (int calls = 0; calls < 2; calls++) {
        char id[9];
        cli_start(&a, NULL, "run", "--grid", grid, "@n", "hooked", "a", NULL);
        (void)cli_line(&a, 1, "serving a");
        find_node(id);
        if (calls) cli_start(&call, NULL, "call", "a", "stay", NULL);
        if (calls) await_fibers(id, 1);
        assert_int_equal(cli_do(&c, "leave", "a", "--deadline", "2s", NULL), 1);
        HAS(c.text[0].p, calls ? " finishes 1 call and 1 on_leave\n" : " finishes 1 on_leave\n");
        HAS(c.text[0].p, "1 on_leave that has not returned");
        cli_free(&c);
        if (calls) assert_int_equal(cli_wait(&call), 1);
        if (calls) cli_free(&call);
        (void)cli_wait(&a);
        cli_free(&a);
    }
}

/* One that kills counts from 100 ms after the last: until it has worked, or is heard. */
static void kill_until_gone(const struct cli *c) {
    for (siginfo_t si = {0}; waitid(P_PID, (id_t)c->pid, &si, WEXITED | WNOWAIT | WNOHANG) == 0 && si.si_pid == 0;) {
        (void)kill(c->pid, SIGTERM);
        usleep(1000);
    }
}

static void who_leaves_is_listed_so(void **state) {
    (void)state;
    struct cli a, call, leave, c;
    char id[9];
    serve(&a, "a");
    find_node(id);
    assert_int_equal(cli_do(&c, "ps", NULL), 0);
    assert_int_equal(kit_count(&c.text[0], "leaving"), 0);
    cli_free(&c);
    cli_start(&call, NULL, "call", "a", "stay", NULL);
    await_fibers(id, 1);
    cli_start(&leave, NULL, "leave", "a", "--deadline", "1h", NULL);
    (void)cli_line(&leave, 1, " finishes 1 call");
    assert_int_equal(cli_do(&c, "ps", NULL), 0);
    assert_int_equal(kit_count(&c.text[0], "s, leaving"), 1);
    cli_free(&c);
    assert_int_equal(cli_do(&c, "ps", "--json", NULL), 0);
    assert_int_equal(kit_count(&c.text[0], "\"leaving\": 1,"), 1);
    cli_free(&c);
    kill_until_gone(&a);
    (void)cli_wait(&a);
    cli_free(&a);
    (void)cli_wait(&call);
    cli_free(&call);
    (void)cli_wait(&leave);
    cli_free(&leave);
}

/* Others' signals, as of a batch system or systemd, come while it is told to leave: the first one asks in order, as if
 * it were the first thing that was heard, and the second one kills. */
enum begun { BY_LEAVE, BY_NOTICE, BY_SIGNAL };

static void begin(enum begun by, const struct cli *c, struct cli *leave, const char *title) {
    char id[9];
    find_titled(title, id);
    if (by == BY_LEAVE) cli_start(leave, NULL, "leave", id, "--deadline", "1h", NULL);
    if (by == BY_NOTICE) assert_int_equal(kill(c->pid, SIGUSR1), 0);
    if (by == BY_SIGNAL) assert_int_equal(kill(c->pid, SIGTERM), 0);
}

static const char *const begins[] = {"told to leave", "got SIGUSR1", "got SIGTERM"};
static const char *const kills[] = {"SIGTERM or Ctrl-C twice", "SIGTERM or Ctrl-C twice", "another signal"};

static void the_second_signal_kills_processes(void **state) {
    (void)state;
    for (enum begun by = BY_LEAVE; by <= BY_SIGNAL; by++) {
        struct cli run, c;
        char line[160];
        /* One that ends in order when its input ends, and one that does not. */
        cli_start(&run, NULL, "run", "--grid", grid, "--grace", "1h", "@h", "until-asked", "0", ":", "@h", "stubborn",
                  NULL);
        cli_await(&run, 1, "ready", 2);
        begin(by, &run, &c, "moyai run");
        snprintf(line, sizeof line, "moyai run: %s: ending 2 processes in order; %s kills them", begins[by], kills[by]);
        (void)cli_line(&run, 2, line);
        if (by != BY_SIGNAL) {
            assert_int_equal(kill(run.pid, SIGTERM), 0);
            (void)cli_line(&run, 2, "moyai run: got SIGTERM: 2 processes end already; another signal kills them");
        }
        cli_close_in(&run);
        (void)cli_line(&run, 1, "ends in order");
        kill_until_gone(&run);
        assert_int_equal(cli_wait(&run), by == BY_NOTICE ? 128 + SIGUSR1 : 143);
        cli_free(&run);
        if (by != BY_LEAVE) continue;
        cli_close_in(&c);
        (void)cli_wait(&c);
        HAS(c.text[0].p, " has left after ");
        cli_free(&c);
    }
}

static void the_second_signal_kills_commands(void **state) {
    (void)state;
    for (enum begun by = BY_LEAVE; by <= BY_SIGNAL; by++) {
        struct cli node, run, c;
        char line[160];
        cli_start(&node, NULL, "node", "--slots", "2", "--grace", "1h", NULL);
        (void)cli_line(&node, 2, "takes commands");
        cli_start(&run, NULL, "run", "--grid", grid, "--on-nodes", "sh", "-c",
                  "trap 'sleep 1; echo in order; exit' TERM; echo ready; while :; do sleep 0.1; done", ":", "@h",
                  "stubborn", NULL);
        cli_await(&run, 1, "ready", 2);
        begin(by, &node, &c, "moyai node");
        snprintf(line, sizeof line, "moyai node: %s: ending 2 commands in order; %s kills them", begins[by], kills[by]);
        (void)cli_line(&node, 2, line);
        struct cli ps;
        assert_int_equal(cli_do(&ps, "ps", NULL), 0);
        assert_int_equal(kit_count(&ps.text[0], "s, leaving"), 1);
        cli_free(&ps);
        assert_int_equal(cli_do(&ps, "ps", "--json", NULL), 0);
        assert_int_equal(kit_count(&ps.text[0], "\"leaving\": 2,"), 1);
        cli_free(&ps);
        if (by != BY_SIGNAL) {
            assert_int_equal(kill(node.pid, SIGTERM), 0);
            (void)cli_line(&node, 2, "moyai node: got SIGTERM: 2 commands end already; another signal kills them");
        }
        (void)cli_line(&run, 1, "in order");
        kill_until_gone(&node);
        assert_int_equal(cli_wait(&node), 0);
        cli_free(&node);
        cli_close_in(&run);
        (void)cli_wait(&run);
        cli_free(&run);
        if (by != BY_LEAVE) continue;
        cli_close_in(&c);
        assert_int_equal(cli_wait(&c), 1);
        HAS(c.text[0].p, " has cut short: "); /* the one, or both, if the other's end was not seen yet */
        HAS(c.text[0].p, " has left after ");
        cli_free(&c);
    }
}

/* What an agent and a run have begun is commands, of which each may take longer than the time that is left. Told
 * again, the shorter time holds. */
static void the_time_holds_for_commands(void **state) {
    (void)state;
    struct cli node, run, c, patient;
    char host[100];
    assert_int_equal(gethostname(host, sizeof host), 0);
    cli_start(&node, NULL, "node", "--slots", "1", "--grace", "1h", NULL);
    (void)cli_line(&node, 2, "takes commands");
    cli_start(&run, NULL, "run", "--grid", grid, "--on-nodes", "--grace", "1h", "@h", "stubborn", NULL);
    (void)cli_line(&run, 1, "ready");
    cli_start(&patient, NULL, "leave", "--host", host, NULL);
    (void)cli_line(&node, 2, "told to leave: ending 1 command in order");
    assert_int_equal(cli_do(&c, "leave", "--host", host, "--deadline", "300ms", "--json", NULL), 1);
    assert_null(strstr(c.text[0].p, "\"stays\""));
    HAS(c.text[0].p, "\"state\": \"left\"");
    /* The run and the agent have the same time, and kill it when that is over: whoever is first says so. */
    const bool by_run = strstr(c.text[0].p, "\"cut_short\": \"1 process killed\"");
    if (!by_run) HAS(c.text[0].p, "\"cut_short\": \"1 command killed\"");
    cli_free(&c);
    assert_int_equal(cli_wait(&node), 0);
    if (!by_run) HAS(node.text[1].p, "the time to leave is over: killing 1 command\n");
    cli_free(&node);
    (void)cli_wait(&run);
    cli_free(&run);
    cli_close_in(&patient);
    assert_int_equal(cli_wait(&patient), 1); /* it hears of it as well */
    HAS(patient.text[0].p, by_run ? " has cut short: 1 process killed\n" : " has cut short: 1 command killed\n");
    cli_free(&patient);
    /* A run with processes of its own. */
    cli_start(&run, NULL, "run", "--grid", grid, "--grace", "1h", "@h", "stubborn", NULL);
    (void)cli_line(&run, 1, "ready");
    cli_start(&patient, NULL, "leave", "--host", host, "--deadline", "4s", NULL);
    (void)cli_line(&patient, 1, " leaves, within 4.0 s");
    assert_int_equal(cli_do(&c, "leave", "--host", host, "--deadline", "1h", NULL), 1); /* the shorter time holds */
    const char *within = strstr(c.text[0].p, " leaves, within ");
    assert_true(within && strtod(within + strlen(" leaves, within "), NULL) <= 4);
    HAS(c.text[0].p, " has cut short: 1 process killed\n");
    HAS(c.text[0].p, " has left after ");
    cli_free(&c);
    cli_close_in(&patient);
    assert_int_equal(cli_wait(&patient), 1);
    cli_free(&patient);
    assert_int_equal(cli_wait(&run), 143);
    HAS(run.text[1].p, " did not end within ");
    cli_free(&run);
}

/* A host's name of as many letters as there may be, of two bytes each, is shown whole. */
static void no_letter_is_cut(void **state) {
    (void)state;
    struct cli a, c;
    char host[80] = "", want[100];
    for (int i = 0; i < 32; i++) strcat(host, "\xc3\xa4");
    snprintf(want, sizeof want, ", %s) leaves, within ", host);
    cli_start(&a, NULL, "run", "--grid", grid, "sh", "-c",
              "unshare --user --map-root-user --uts true || { echo impossible; exit 77; }\n"
              "exec unshare --user --map-root-user --uts \"$0\" host \"$@\"",
              kit_program("HELPER"), host, kit_program("NODE"), "serve", "a", NULL);
    const bool possible = !strstr(cli_line(&a, 1, "[0.0] "), "impossible");
    if (possible) {
        assert_int_equal(cli_do(&c, "leave", "a", NULL), 0);
        HAS(c.text[0].p, want);
        cli_free(&c);
    }
    assert_int_equal(cli_wait(&a), possible ? 0 : 77);
    cli_free(&a);
    if (!possible) skip();
}

/* Named twice, and of the host besides: each is told once. Two at a time tell the same. */
static void told_twice_is_told_once(void **state) {
    (void)state;
    struct cli a, b, c, other;
    char host[100];
    assert_int_equal(gethostname(host, sizeof host), 0);
    serve(&a, "a");
    serve(&b, "b");
    cli_start(&other, NULL, "leave", "b", "a", NULL);
    (void)cli_line(&other, 1, " leaves, within 28.0 s");
    cli_do(&c, "leave", "a", NULL); /* which may have gone by now */
    cli_free(&c);
    cli_close_in(&other);
    assert_int_equal(cli_wait(&other), 0);
    cli_free(&other);
    for (int i = 0; i < 2; i++) {
        struct cli *one = i ? &b : &a;
        (void)cli_line(one, 1, "ended ");
        assert_int_equal(cli_wait(one), 0);
        cli_free(one);
    }
    serve(&a, "a");
    char id[9], of_run[9];
    find_node(id);
    find_titled("moyai run", of_run);
    assert_int_equal(cli_do(&c, "leave", "a", id, of_run, "a", "--host", host, "--json", NULL), 0);
    assert_int_equal(kit_count(&c.text[0], id), 1); /* one row */
    cli_free(&c);
    (void)cli_line(&a, 1, "ended a");
    (void)cli_wait(&a);
    cli_free(&a);
}

/* What has ended cannot leave, and nobody is told where one of them is not there. */
static void who_has_died_cannot_leave(void **state) {
    (void)state;
    struct cli a, b, c;
    char id[9], pid[40];
    serve(&a, "a");
    find_node(id);
    serve(&b, "b");
    assert_int_equal(cli_do(&c, "call", "a", "pid", NULL), 0);
    snprintf(pid, sizeof pid, "%s", c.text[0].p + strspn(c.text[0].p, "[ \n"));
    cli_free(&c);
    assert_int_equal(kill(atoi(pid), SIGKILL), 0);
    cli_close_in(&a);
    (void)cli_wait(&a);
    cli_free(&a);
    const char *const named[] = {id, "a"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cli_do(&c, "leave", "b", named[i], NULL), 1);
        assert_string_equal(c.text[0].p, "");
        assert_int_equal(kit_count(&c.text[1], "moyai leave: "), 1);
        cli_free(&c);
    }
    assert_int_equal(cli_do(&c, "call", "b", "pid", NULL), 0);
    cli_free(&c);
    assert_int_equal(cli_do(&c, "leave", "b", NULL), 0);
    cli_free(&c);
    assert_int_equal(cli_wait(&b), 0);
    cli_free(&b);
}

/* The run that has made the grid. */
static void a_run_is_told(void **state) {
    (void)state;
    struct cli run, c;
    char address[200], host[100];
    assert_int_equal(gethostname(host, sizeof host), 0);
    cli_start(&run, NULL, "run", "--print-grid", "@h", "until-asked", "0", ":", "@n", "serve", "a", NULL);
    snprintf(address, sizeof address, "%s", strstr(cli_line(&run, 2, "moyai run: grid file:/"), "file:"));
    cli_await(&run, 1, "ready", 1); /* either may be the first */
    cli_await(&run, 1, "serving a", 1);
    cli_close_in(&run);
    assert_int_equal(cli_do(&c, "leave", "--grid", address, "--host", host, NULL), 0);
    assert_int_equal(kit_count(&c.text[0], " has left after "), 2);
    cli_free(&c);
    assert_int_equal(cli_wait(&run), 143);
    HAS(run.text[1].p, "moyai run: told to leave: ending ");
    HAS(run.text[0].p, "ends in order");
    cli_free(&run);
}

/* Where no byte can be written any more: the event log, the grid's directory and the run directory are full. Their
 * removal needs none. */
static void a_disk_is_full(void **state) {
    (void)state;
    static const char script[] =
        "mount -t tmpfs -o size=256k tmpfs \"$1\" || exit 77\n"
        "export MOYAI_GRID=\"$1/g\" MOYAI_RUN_DIR=\"$1/g\" MOYAI_EVENTS=\"$1/events\"\n"
        "mkdir -m 700 \"$1/g\"\n"
        "\"$2\" serve a >\"$3.a\" & a=$!\n"
        "\"$2\" serve b >\"$3.b\" & b=$!\n"
        "until grep -q serving \"$3.a\" && grep -q serving \"$3.b\"; do sleep 0.05; done\n"
        "dd if=/dev/zero of=\"$1/rest\" bs=4k 2>/dev/null; cat /dev/zero >>\"$1/rest\" 2>/dev/null\n"
        "kill -TERM $a; wait $a; echo \"a $?\"\n"
        "env -u MOYAI_EVENTS \"$4\" leave b; echo \"told $?\"\n"
        "kill -TERM $b 2>/dev/null; wait $b; echo \"b $?\"\n"
        "find \"$1/g\" ! -type d\n";
    char at[120], out[120], command[400];
    snprintf(at, sizeof at, "%s/full", kit_dir());
    snprintf(out, sizeof out, "%s/out", kit_dir());
    assert_int_equal(mkdir(at, 0700), 0);
    struct cli c;
    cli_start(&c, NULL, "run", "--no-prefix", "unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script,
              "sh", at, kit_program("NODE"), out, kit_program("MOYAI"), NULL);
    cli_close_in(&c);
    const int status = cli_wait(&c);
    const bool possible = status != 77 && !strstr(c.text[1].p, "unshare failed");
    if (possible) {
        assert_int_equal(status, 0);
        HAS(c.text[0].p, "a 0\n");
        HAS(c.text[0].p, " has left after ");
        HAS(c.text[0].p, "told 0\n");
        assert_string_equal(strstr(c.text[0].p, "b 0\n"), "b 0\n"); /* and nothing is left of them */
    }
    cli_free(&c);
    snprintf(command, sizeof command, "rm -rf %s %s.a %s.b", at, out, out);
    assert_int_equal(system(command), 0);
    if (!possible) skip();
}

static void nobody_is_told_by_mistake(void **state) {
    (void)state;
    struct cli a, c;
    static const struct {
        const char *words[8];
        int status;
        const char *text;
    } wrong[] = {
        {{"leave"}, 2, "who is to leave? Name nodes, or a --host or --site"},
        {{"leave", "--deadline", "0", "a"}, 2, "--deadline: a node needs some time to leave in order"},
        {{"leave", "a", "nosuch"}, 1, "nobody has registered the name"},
        {{"leave", "--host", "nosuch"}, 1, "no node of host 'nosuch' is in the grid: moyai ps shows hosts and sites"},
        {{"leave", "a", "--site", "x", "--host", "y"}, 1, "no node of host 'y' and site 'x' is in the grid"},
        {{"leave", "--site", "x"}, 1, "no node of site 'x' is in the grid"},
        /* as of --site "$SITE": the nodes of this grid have none */
        {{"leave", "--site", ""}, 2, "--site: it is empty; is a variable not set? Nodes that have no site"},
        {{"leave", "--host", ""}, 2, "--host: it is empty; is a variable not set?"},
        {{"leave", "a", "--site="}, 2, "--site: it is empty"},
        {{"leave", "a", ""}, 2, "the name of a node: it is empty; is a variable not set?"},
    };
    serve(&a, "a");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cli_startv(&c, NULL, wrong[i].words);
        cli_close_in(&c);
        assert_int_equal(cli_wait(&c), wrong[i].status);
        HAS(c.text[1].p, wrong[i].text);
        assert_string_equal(c.text[0].p, "");
        cli_free(&c);
    }
    assert_int_equal(cli_do(&c, "call", "a", "pid", NULL), 0);
    cli_free(&c);
    kill(a.pid, SIGTERM);
    (void)cli_wait(&a);
    cli_free(&a);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_leaves_in_order),
        cmocka_unit_test(a_host_leaves),
        cmocka_unit_test(what_an_agent_kills_is_said),
        cmocka_unit_test(its_time_is_true),
        cmocka_unit_test(who_does_not_answer_is_not_forgotten),
        cmocka_unit_test(a_run_gives_its_processes_a_time),
        cmocka_unit_test(who_does_not_go_is_gone),
        cmocka_unit_test(what_is_cut_short_is_said),
        cmocka_unit_test(eight_digits_may_be_a_name),
        cmocka_unit_test(who_is_killed_in_time_has_left_before),
        cmocka_unit_test(a_function_that_leaves_is_no_call),
        cmocka_unit_test(who_leaves_is_listed_so),
        cmocka_unit_test(the_second_signal_kills_processes),
        cmocka_unit_test(the_second_signal_kills_commands),
        cmocka_unit_test(the_time_holds_for_commands),
        cmocka_unit_test(no_letter_is_cut),
        cmocka_unit_test(told_twice_is_told_once),
        cmocka_unit_test(who_has_died_cannot_leave),
        cmocka_unit_test(a_run_is_told),
        cmocka_unit_test(a_disk_is_full),
        cmocka_unit_test(nobody_is_told_by_mistake),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
