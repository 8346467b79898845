/* SPDX-License-Identifier: Apache-2.0 */
/* moyai leave in grids of several hosts: what becomes of the place where they are met. Each node is on a host of its
 * own, as it has a run directory of its own. */
#include "tests/cli/kit.h"
#include "tests/support/port.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char key[120], host[100], grid[200];

static int set_up(void **state) {
    if (kit_setup(state) != 0 || gethostname(host, sizeof host) != 0) return -1;
    snprintf(key, sizeof key, "%s/key", kit_dir());
    setenv("MOYAI_KEY_FILE", key, 1);
    struct cli c;
    const int rc = cli_do(&c, "key", "new", NULL);
    cli_free(&c);
    return rc;
}

static int tear_down(void **state) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s/of-* %s", kit_dir(), key);
    if (system(command) != 0) return -1;
    return kit_teardown(state);
}

#define HAS(text, part)                                                                                                \
    do {                                                                                                               \
        if (!strstr(text, part)) fail_msg("no \"%s\" in: %s", part, text);                                             \
    } while (0)

/* An agent, which says what happens to it. */
static void start_agent(struct cli *c, const char *name, const char *listen) {
    char dir[160];
    snprintf(dir, sizeof dir, "MOYAI_RUN_DIR=%s/of-%s", kit_dir(), name);
    const char *const env[] = {dir, NULL};
    cli_start(c, &(struct cli_opts){.env = env}, "node", "--slots", "1", "--site", name, "--grid", grid, "--listen",
              listen, NULL);
    (void)cli_line(c, 2, "takes commands");
}

static void left(struct cli *c) {
    cli_close_in(c);
    assert_int_equal(cli_wait(c), 0);
    HAS(c->text[1].p, "told to leave");
    assert_null(strstr(c->text[1].p, "MOYAI-"));
    cli_free(c);
}

static void look_from(const char *name) {
    char dir[160];
    snprintf(dir, sizeof dir, "%s/of-%s", kit_dir(), name);
    setenv("MOYAI_RUN_DIR", dir, 1);
    setenv("MOYAI_LISTEN", "127.0.0.1", 1);
}

static void leave(const char *option, const char *of, int nodes) {
    struct cli c;
    look_from("look");
    const int status = cli_do(&c, "leave", "--grid", grid, "--timeout", "60s", option, of, NULL);
    if (status != 0) fail_msg("status %d: %s%s", status, c.text[0].p, c.text[1].p);
    assert_int_equal(kit_count(&c.text[0], " has left after "), nodes);
    assert_string_equal(c.text[1].p, "");
    cli_free(&c);
    unsetenv("MOYAI_RUN_DIR");
    unsetenv("MOYAI_LISTEN");
}

/* Until so many are seen. */
static void await_nodes(int n) {
    look_from("look");
    for (int seen = -1; seen != n;) {
        struct cli c;
        (void)cli_do(&c, "ps", "--grid", grid, "--timeout", "60s", NULL);
        seen = kit_count(&c.text[0], "moyai node");
        cli_free(&c);
    }
    unsetenv("MOYAI_RUN_DIR");
    unsetenv("MOYAI_LISTEN");
}

/* All at once; the server is no node, and stays for who comes next. */
static void all_leave_a_server(void **state) {
    (void)state;
    enum { N = 4 };
    static const char *const names[N] = {"a", "b", "c", "d"};
    struct cli server, node[N];
    cli_start(&server, NULL, "endpoint", "--listen", "127.0.0.1:0", NULL);
    snprintf(grid, sizeof grid, "%s", strstr(cli_line(&server, 1, "http://"), "http://"));
    *strchr(grid + strlen("http://"), '/') = 0;
    strcat(grid, "/g");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) start_agent(&node[i], names[i], "127.0.0.1");
        await_nodes(N);
        if (round == 0) { /* all but one, one by one, and it goes on */
            for (int i = 0; i < N - 1; i++) {
                leave("--site", names[i], 1);
                left(&node[i]);
            }
            await_nodes(1);
            leave("--host", host, 1);
            left(&node[N - 1]);
        } else {
            leave("--host", host, N);
            for (int i = 0; i < N; i++) left(&node[i]);
        }
    }
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    cli_close_in(&server);
    assert_int_equal(cli_wait(&server), 0);
    cli_free(&server);
}

/* The member at whose address others meet: those that are there go on, and meet who is there next. */
static void a_meeting_place_leaves(void **state) {
    (void)state;
    struct cli place, a, b;
    char at[40];
    snprintf(at, sizeof at, "127.0.0.1:%u", test_free_port());
    snprintf(grid, sizeof grid, "%s", at);
    start_agent(&place, "place", at);
    start_agent(&a, "a", "127.0.0.1");
    start_agent(&b, "b", "127.0.0.1");
    await_nodes(3);
    leave("--site", "place", 1);
    left(&place);
    start_agent(&place, "next", at);
    await_nodes(3);
    leave("--host", host, 3);
    left(&place);
    left(&a);
    left(&b);
}

/* An agent that can connect to others only. */
static void start_outbound(struct cli *c, const char *name) {
    char dir[160];
    snprintf(dir, sizeof dir, "MOYAI_RUN_DIR=%s/of-%s", kit_dir(), name);
    const char *const env[] = {dir, NULL};
    cli_start(c, &(struct cli_opts){.env = env}, "node", "--slots", "1", "--site", name, "--grid", grid,
              "--outbound-only", NULL);
    (void)cli_line(c, 2, "takes commands");
}

/* A run is all that others can connect to: it is there for them as long as it may, and says so. */
static void start_hub(struct cli *c, const char *option, const char *value) {
    snprintf(grid, sizeof grid, "127.0.0.1:%u", test_free_port());
    char dir[160];
    snprintf(dir, sizeof dir, "MOYAI_RUN_DIR=%s/of-hub", kit_dir());
    const char *const env[] = {dir, "MOYAI_LOG=warning", NULL};
    cli_start(c, &(struct cli_opts){.env = env}, "run", option, value, "--site", "hub", "--grid", grid, "--listen",
              grid, "@h", "until-asked", "0", NULL);
    (void)cli_line(c, 1, "ready");
    cli_close_in(c);
}

#define WAITS "moyai run: waits for 1 node that has no other way to the grid: "

static void a_run_is_there_for_others(void **state) {
    (void)state;
    struct cli hub, a, b, c;
    for (int how = 0; how < 4; how++) {
        start_hub(&hub, "--grace", "1s");
        start_outbound(&a, "a");
        start_outbound(&b, "b");
        await_nodes(2);
        if (how == 0) { /* until a second signal ends that at once */
            assert_int_equal(kill(hub.pid, SIGTERM), 0);
            (void)cli_line(&hub, 2, WAITS);
            assert_int_equal(kill(hub.pid, SIGTERM), 0);
        } else if (how == 1) { /* until its time is over */
            look_from("look");
            assert_int_equal(cli_do(&c, "leave", "--grid", grid, "--site", "hub", "--deadline", "5s", NULL), 1);
            HAS(c.text[0].p, " waits for 1 node that has no other way to the grid: ");
            HAS(c.text[0].p, " has left 1 node without a way to the grid: ");
            HAS(c.text[0].p, " has left after ");
            cli_free(&c);
            unsetenv("MOYAI_RUN_DIR");
            unsetenv("MOYAI_LISTEN");
        } else if (how == 2) { /* the same, but that the first signal, which may be another's, leaves it 10 s */
            look_from("look");
            cli_start(&c, NULL, "leave", "--grid", grid, "--site", "hub", "--deadline", "1h", NULL);
            (void)cli_line(&hub, 2, "; SIGTERM or Ctrl-C twice ends it at once");
            assert_int_equal(kill(hub.pid, SIGTERM), 0);
            (void)cli_line(&hub, 2, "moyai run: got SIGTERM: leaves within 10 s; another signal ends it at once");
            for (siginfo_t si = {0};
                 waitid(P_PID, (id_t)hub.pid, &si, WEXITED | WNOWAIT | WNOHANG) == 0 && !si.si_pid;) {
                (void)kill(hub.pid, SIGTERM);
                usleep(10000);
            }
            cli_close_in(&c);
            assert_int_equal(cli_wait(&c), 1);
            HAS(c.text[0].p, " has left 1 node without a way to the grid: ");
            cli_free(&c);
            unsetenv("MOYAI_RUN_DIR");
            unsetenv("MOYAI_LISTEN");
        } else { /* until they have gone */
            assert_int_equal(kill(hub.pid, SIGTERM), 0);
            (void)cli_line(&hub, 2, WAITS);
            assert_int_equal(kill(a.pid, SIGTERM), 0);
            assert_int_equal(kill(b.pid, SIGTERM), 0);
        }
        cli_close_in(&hub);
        assert_int_equal(cli_wait(&hub), 143);
        HAS(hub.text[1].p, WAITS);
        assert_int_equal(kit_count(&hub.text[1], "MOYAI-LEAVE-WAITS this node is to leave, and waits for 1 node"), 1);
        assert_int_equal(kit_count(&hub.text[1], "MOYAI-LEAVE-CUT"), how == 3 ? 0 : 1);
        cli_free(&hub);
        for (int i = 0; i < 2; i++) {
            struct cli *one = i ? &b : &a;
            (void)kill(one->pid, SIGTERM);
            cli_close_in(one);
            (void)cli_wait(one);
            cli_free(one);
        }
    }
}

/* Who waits says so when all have answered, or one that is stopped is not waited for any more: before, who it is
 * changes. */
static void it_is_said_once(void **state) {
    (void)state;
    enum { N = 4 };
    static const char *const names[N] = {"a", "b", "c", "d"};
    struct cli hub, node[N];
    start_hub(&hub, "--grace", "1s");
    for (int i = 0; i < N; i++) start_outbound(&node[i], names[i]);
    await_nodes(N);
    const pid_t runner = kit_child_of(kit_child_of(node[N - 1].pid));
    assert_int_equal(kill(runner, SIGSTOP), 0);
    assert_int_equal(kill(hub.pid, SIGTERM), 0);
    assert_int_equal(cli_wait(&hub), 143);
    assert_int_equal(kit_count(&hub.text[1], "MOYAI-LEAVE-WAITS this node is to leave, and waits for "), 1);
    cli_free(&hub);
    assert_int_equal(kill(runner, SIGCONT), 0);
    for (int i = 0; i < N; i++) {
        (void)kill(node[i].pid, SIGTERM);
        cli_close_in(&node[i]);
        (void)cli_wait(&node[i]);
        cli_free(&node[i]);
    }
}

/* All but one of those that only it connects, of which each is a part of its own. */
static void those_who_depend_leave_too(void **state) {
    (void)state;
    enum { N = 4 };
    static const char *const names[N] = {"a", "b", "c", "d"};
    struct cli hub, node[N], c;
    start_hub(&hub, "--grace", "1s");
    for (int i = 0; i < N; i++) start_outbound(&node[i], names[i]);
    await_nodes(N);
    look_from("look");
    const int status = cli_do(&c, "leave", "--grid", grid, "--site", "hub", "--force-dependants", NULL);
    if (status != 0) fail_msg("status %d: %s%s", status, c.text[0].p, c.text[1].p);
    assert_int_equal(kit_count(&c.text[0], " leaves, too, as it depends on node "), N - 1);
    assert_int_equal(kit_count(&c.text[0], " has left after "), N);
    assert_int_equal(kit_count(&c.text[0], "without a way"), 0);
    const char *last = strstr(c.text[0].p, " (moyai run, ");
    for (const char *next = last; (next = strstr(next + 1, " (moyai run, "));) last = next;
    HAS(last, " has left after "); /* after them */
    cli_free(&c);
    unsetenv("MOYAI_RUN_DIR");
    unsetenv("MOYAI_LISTEN");
    cli_close_in(&hub);
    assert_int_equal(cli_wait(&hub), 143);
    assert_int_equal(kit_count(&hub.text[1], "MOYAI-LEAVE-CUT"), 0);
    assert_int_equal(kit_count(&hub.text[1], "MOYAI-LEAVE-WAITS"), 1); /* when all have answered */
    cli_free(&hub);
    int left = 0;
    for (int i = 0; i < N; i++) {
        (void)kill(node[i].pid, SIGTERM);
        cli_close_in(&node[i]);
        assert_int_equal(cli_wait(&node[i]), 0);
        left += strstr(node[i].text[1].p, "told to leave") != NULL;
        cli_free(&node[i]);
    }
    assert_int_equal(left, N - 1);
}

/* A node that is linked to those at that place alone: nobody can connect to it at what it says its address is. */
static void start_hidden(struct cli *c, const char *name, const char *at, const char *first, const char *second) {
    char dir[160];
    snprintf(dir, sizeof dir, "MOYAI_RUN_DIR=%s/of-%s", kit_dir(), name);
    const char *const env[] = {dir, "MOYAI_LOG=warning,overlay=error", NULL};
    const char *const words[] = {"node", "--slots",     "1",         "--site", name,  "--listen",
                                 at,     "--advertise", "192.0.2.1", "--grid", first, second ? "--grid" : NULL,
                                 second, NULL};
    cli_startv(c, &(struct cli_opts){.env = env}, words);
    (void)cli_line(c, 2, "takes commands");
}

/* Until there are so many links between them. */
static void await_links(int n) {
    look_from("look");
    for (int seen = -1; seen != 2 * n;) { /* each is said at both ends */
        struct cli c;
        (void)cli_do(&c, "graph", "--grid", grid, "--timeout", "60s", NULL);
        seen = 0;
        for (const char *p = c.text[0].p; (p = strstr(p, " (tcp)")); p++) seen++;
        cli_free(&c);
    }
    unsetenv("MOYAI_RUN_DIR");
    unsetenv("MOYAI_LISTEN");
}

static void find_pid(pid_t pid, char id[9]) {
    struct cli c;
    char want[40];
    snprintf(want, sizeof want, "\"pid\": %d,", (int)pid);
    assert_int_equal(cli_do(&c, "ps", "--grid", grid, "--timeout", "60s", "--json", NULL), 0);
    char *line = strtok(c.text[0].p, "\n");
    while (line && !strstr(line, want)) line = strtok(NULL, "\n");
    assert_non_null(line);
    assert_int_equal(sscanf(line, " {\"node\": \"%8[0-9a-f]", id), 1);
    cli_free(&c);
}

/* d - c - gate - a - b, and d - gate, so that the gate knows their part to be the larger one: b depends on the gate,
 * and is no neighbour of it. */
static void those_behind_them_leave_too(void **state) {
    (void)state;
    enum { GATE, A, B, C, D, N };
    static const char *const names[N] = {"gate", "a", "b", "c", "d"};
    struct cli node[N], c;
    char at[N][40];
    for (int i = 0; i < N; i++) snprintf(at[i], sizeof at[i], "127.0.0.1:%u", test_free_port());
    start_hidden(&node[GATE], names[GATE], at[GATE], at[GATE], NULL);
    start_hidden(&node[A], names[A], at[A], at[GATE], NULL);
    start_hidden(&node[B], names[B], at[B], at[A], NULL);
    start_hidden(&node[C], names[C], at[C], at[GATE], NULL);
    start_hidden(&node[D], names[D], at[D], at[C], at[GATE]);
    snprintf(grid, sizeof grid, "%s", at[GATE]);
    await_nodes(N);
    await_links(5);
    char id[2][9];
    look_from("look");
    for (int i = 0; i < 2; i++) find_pid(kit_child_of(kit_child_of(node[A + i].pid)), id[i]);
    const int status = cli_do(&c, "leave", "--grid", grid, "--site", "gate", "--force-dependants", NULL);
    if (status != 0) fail_msg("status %d: %s%s", status, c.text[0].p, c.text[1].p);
    assert_int_equal(kit_count(&c.text[0], " leaves, too, as it depends on node "), 2);
    for (int i = 0; i < 2; i++) { /* the others would be waited for in vain */
        char depends[90];
        const char *said;
        snprintf(depends, sizeof depends, "\nnode %s (moyai node, ", id[i]); /* its host, or, if it is gone, its pid */
        for (said = c.text[0].p; (said = strstr(said, depends)); said++)
            if (strncmp(strchr(said, ')'), ") leaves, too, as it depends on ", 32) == 0) break;
        if (!said) fail_msg("node %s was not told: %s", id[i], c.text[0].p);
    }
    assert_int_equal(kit_count(&c.text[0], " has left after "), 3);
    cli_free(&c);
    unsetenv("MOYAI_RUN_DIR");
    unsetenv("MOYAI_LISTEN");
    for (int i = 0; i < N; i++) {
        if (i >= C) (void)kill(node[i].pid, SIGTERM);
        cli_close_in(&node[i]);
        assert_int_equal(cli_wait(&node[i]), 0);
        assert_int_equal(strstr(node[i].text[1].p, "told to leave") != NULL, i < C);
        assert_null(strstr(node[i].text[1].p, "MOYAI-LEAVE-CUT"));
        cli_free(&node[i]);
    }
}

/* A gate that waits for who depends on it is stopped until its time is over and its links are given up: what it says
 * then may not be heard, and it is not said that all is well. */
static void who_was_stopped_may_have_cut_short(void **state) {
    (void)state;
    struct cli gate, node[2], c;
    char at[3][40];
    for (int i = 0; i < 3; i++) snprintf(at[i], sizeof at[i], "127.0.0.1:%u", test_free_port());
    start_hidden(&gate, "gate", at[0], at[0], NULL);
    start_hidden(&node[0], "a", at[1], at[0], NULL);
    start_hidden(&node[1], "b", at[2], at[0], NULL);
    snprintf(grid, sizeof grid, "%s", at[0]);
    await_nodes(3);
    look_from("look");
    cli_start(&c, NULL, "leave", "--grid", grid, "--site", "gate", "--deadline", "2s", NULL);
    (void)cli_line(&c, 1, " waits for 1 node that has no other way to the grid: ");
    const pid_t runner = kit_child_of(kit_child_of(gate.pid));
    assert_int_equal(kill(runner, SIGSTOP), 0);
    sleep(7); /* longer than silence is believed in */
    assert_int_equal(kill(runner, SIGCONT), 0);
    assert_int_equal(cli_wait(&c), 1);
    const bool heard = strstr(c.text[0].p, " has left 1 node without a way to the grid: ");
    if (!heard) HAS(c.text[0].p, "answered nothing for ");
    assert_null(strstr(c.text[0].p, "is still there"));
    cli_free(&c);
    unsetenv("MOYAI_RUN_DIR");
    unsetenv("MOYAI_LISTEN");
    cli_close_in(&gate);
    (void)cli_wait(&gate);
    HAS(gate.text[1].p, "MOYAI-LEAVE-CUT");
    cli_free(&gate);
    for (int i = 0; i < 2; i++) {
        (void)kill(node[i].pid, SIGTERM);
        cli_close_in(&node[i]);
        (void)cli_wait(&node[i]);
        cli_free(&node[i]);
    }
}

/* d, c - gate - gate - y - z: both gates leave, and y, who depends on both, is told so by the one it is linked to, and
 * z by y. Those that go on are as many as can be: c and d, both neighbours of a gate. */
static void those_behind_a_row_leave_too(void **state) {
    (void)state;
    enum { GATE, X, Y, Z, C, D, N };
    static const char *const names[N] = {"gate", "gate", "y", "z", "c", "d"};
    struct cli node[N], c;
    char at[N][40];
    for (int i = 0; i < N; i++) snprintf(at[i], sizeof at[i], "127.0.0.1:%u", test_free_port());
    start_hidden(&node[GATE], names[GATE], at[GATE], at[GATE], NULL);
    start_hidden(&node[X], names[X], at[X], at[GATE], NULL);
    start_hidden(&node[Y], names[Y], at[Y], at[X], NULL);
    start_hidden(&node[Z], names[Z], at[Z], at[Y], NULL);
    start_hidden(&node[C], names[C], at[C], at[GATE], NULL);
    start_hidden(&node[D], names[D], at[D], at[C], at[GATE]);
    snprintf(grid, sizeof grid, "%s", at[GATE]);
    await_nodes(N);
    look_from("look");
    const int status = cli_do(&c, "leave", "--grid", grid, "--site", "gate", "--force-dependants", NULL);
    if (status != 0) fail_msg("status %d: %s%s", status, c.text[0].p, c.text[1].p);
    assert_true(kit_count(&c.text[0], " leaves, too, as it depends on node ") >= 1);
    assert_true(kit_count(&c.text[0], " has left after ") >= 3);
    cli_free(&c);
    unsetenv("MOYAI_RUN_DIR");
    unsetenv("MOYAI_LISTEN");
    for (int i = 0; i < N; i++) {
        if (i >= C) (void)kill(node[i].pid, SIGTERM);
        cli_close_in(&node[i]);
        assert_int_equal(cli_wait(&node[i]), 0);
        assert_int_equal(strstr(node[i].text[1].p, "told to leave") != NULL, i < C);
        assert_null(strstr(node[i].text[1].p, "MOYAI-LEAVE-CUT"));
        cli_free(&node[i]);
    }
}

/* e - d - c - gate, and a and b, linked to each other and to it: the larger part goes on, though the gate is linked to
 * one of it only. */
static void the_larger_part_stays(void **state) {
    (void)state;
    enum { GATE, A, B, C, D, E, N };
    static const char *const names[N] = {"gate", "a", "b", "c", "d", "e"};
    static const int by[N] = {GATE, GATE, A, GATE, C, D};
    struct cli node[N], c;
    char at[N][40];
    for (int i = 0; i < N; i++) {
        snprintf(at[i], sizeof at[i], "127.0.0.1:%u", test_free_port());
        start_hidden(&node[i], names[i], at[i], at[by[i]], i == B ? at[GATE] : NULL);
    }
    snprintf(grid, sizeof grid, "%s", at[GATE]);
    await_nodes(N);
    await_links(6);
    look_from("look");
    const int status = cli_do(&c, "leave", "--grid", grid, "--site", "gate", "--force-dependants", NULL);
    if (status != 0) fail_msg("status %d: %s%s", status, c.text[0].p, c.text[1].p);
    assert_int_equal(kit_count(&c.text[0], " leaves, too, as it depends on node "), 2);
    cli_free(&c);
    unsetenv("MOYAI_RUN_DIR");
    unsetenv("MOYAI_LISTEN");
    for (int i = 0; i < N; i++) {
        if (i >= C) (void)kill(node[i].pid, SIGTERM);
        cli_close_in(&node[i]);
        assert_int_equal(cli_wait(&node[i]), 0);
        assert_int_equal(strstr(node[i].text[1].p, "told to leave") != NULL, i < C);
        cli_free(&node[i]);
    }
}

/* A run that serves, behind a gate: nobody can connect to it, and it to the gate alone. Nobody waits till its grace is
 * over. */
static void start_behind(struct cli *c, const char *site, const char *gate) {
    char dir[160];
    snprintf(dir, sizeof dir, "MOYAI_RUN_DIR=%s/of-behind", kit_dir());
    const char *const env[] = {dir, "MOYAI_LOG=warning,overlay=error", NULL};
    cli_start(c, &(struct cli_opts){.env = env}, "run", "--grace", "200s", "--no-prefix", "--site", site, "--listen",
              "127.0.0.1", "--advertise", "192.0.2.1", "--grid", gate, "@n", "serve", "behind", NULL);
    (void)cli_line(c, 1, "serving behind");
}

/* main - gate - behind, a run and its process. */
static void start_row(struct cli *place, struct cli *gate, struct cli *behind) {
    char at[2][40];
    for (int i = 0; i < 2; i++) snprintf(at[i], sizeof at[i], "127.0.0.1:%u", test_free_port());
    start_hidden(place, "main", at[0], at[0], NULL);
    start_hidden(gate, "clu", at[1], at[0], NULL);
    start_behind(behind, "clu", at[1]);
    snprintf(grid, sizeof grid, "%s", at[0]);
    await_nodes(2); /* agents */
    look_from("look");
}

static void end_row(struct cli *place, struct cli *gate, struct cli *behind) {
    struct cli *all[] = {behind, gate, place};
    unsetenv("MOYAI_RUN_DIR");
    unsetenv("MOYAI_LISTEN");
    for (int i = 0; i < 3; i++) {
        if (i == 2) (void)kill(all[i]->pid, SIGTERM);
        cli_close_in(all[i]);
        (void)cli_wait(all[i]);
        if (strstr(all[i]->text[1].p, "MOYAI-LEAVE")) fail_msg("%d has said: %s", i, all[i]->text[1].p);
        cli_free(all[i]);
    }
}

/* Who has nothing to finish is there for those behind it that have, and leave, too: their callers hear the answers. */
static void a_gate_leaves_last(void **state) {
    (void)state;
    struct cli place, gate, behind, call, c;
    start_row(&place, &gate, &behind);
    cli_start(&call, NULL, "call", "--grid", grid, "--timeout", "60s", "behind", "nap", "2", NULL);
    (void)cli_line(&behind, 1, "naps");
    const int status = cli_do(&c, "leave", "--grid", grid, "--site", "clu", "--deadline", "60s", NULL);
    if (status != 0) fail_msg("status %d: %s%s", status, c.text[0].p, c.text[1].p);
    assert_int_equal(kit_count(&c.text[0], " has left after "), 3);
    HAS(strstr(c.text[0].p, " (cli_node") ? c.text[0].p : "", " has finished its calls");
    const char *last = c.text[0].p;
    for (const char *next = last; (next = strstr(next, "\nnode ")) != NULL;) last = ++next;
    HAS(last, " (moyai node, "); /* after them */
    cli_free(&c);
    cli_close_in(&call);
    if (cli_wait(&call) != 0) fail_msg("the call has failed: %s", call.text[1].p);
    HAS(call.text[0].p, "2");
    cli_free(&call);
    end_row(&place, &gate, &behind);
}

/* All leave at once, told so by one who has a way to those behind the gate by it alone, and hears of each. Whose id is
 * the least is chance: hence several times. */
static void all_leave_with_a_gate(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct cli place, gate, behind;
        start_row(&place, &gate, &behind);
        leave("--host", host, 4);
        end_row(&place, &gate, &behind);
    }
}

/* All of them get a signal: none waits for another in vain. */
static void a_gate_and_a_run_behind_end_at_once(void **state) {
    (void)state;
    struct cli place, gate, behind;
    for (int all = 0; all < 4; all++) { /* of these one is the nearest, as its id has it: perhaps the run's process */
        start_row(&place, &gate, &behind);
        assert_int_equal(kill(behind.pid, SIGTERM), 0);
        assert_int_equal(kill(gate.pid, SIGTERM), 0);
        if (all) assert_int_equal(kill(place.pid, SIGTERM), 0);
        end_row(&place, &gate, &behind);
    }
}

/* It has no time to hear who depends on it, as they try what they know of each other: it says that, and not that all
 * is well. */
static void who_has_no_time_says_so(void **state) {
    (void)state;
    enum { GATE, A, B, N };
    static const char *const names[N] = {"gate", "a", "b"};
    struct cli node[N], c;
    char at[N][40];
    for (int i = 0; i < N; i++) {
        snprintf(at[i], sizeof at[i], "127.0.0.1:%u", test_free_port());
        start_hidden(&node[i], names[i], at[i], at[GATE], NULL);
    }
    snprintf(grid, sizeof grid, "%s", at[GATE]);
    await_nodes(N);
    await_links(2);
    look_from("look");
    assert_int_equal(cli_do(&c, "leave", "--grid", grid, "--site", "gate", "--deadline", "500ms", NULL), 1);
    HAS(c.text[0].p, " did not wait to hear whether 2 nodes have another way to the grid: ");
    HAS(c.text[0].p, " has left after ");
    cli_free(&c);
    unsetenv("MOYAI_RUN_DIR");
    unsetenv("MOYAI_LISTEN");
    for (int i = 0; i < N; i++) {
        if (i != GATE) (void)kill(node[i].pid, SIGTERM);
        cli_close_in(&node[i]);
        (void)cli_wait(&node[i]);
        assert_int_equal(kit_count(&node[i].text[1], "its neighbours have not said whether"), i == GATE);
        cli_free(&node[i]);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_leave_a_server),
        cmocka_unit_test(a_meeting_place_leaves),
        cmocka_unit_test(a_run_is_there_for_others),
        cmocka_unit_test(it_is_said_once),
        cmocka_unit_test(who_was_stopped_may_have_cut_short),
        cmocka_unit_test(those_who_depend_leave_too),
        cmocka_unit_test(those_behind_them_leave_too),
        cmocka_unit_test(those_behind_a_row_leave_too),
        cmocka_unit_test(a_gate_leaves_last),
        cmocka_unit_test(all_leave_with_a_gate),
        cmocka_unit_test(the_larger_part_stays),
        cmocka_unit_test(who_has_no_time_says_so),
        cmocka_unit_test(a_gate_and_a_run_behind_end_at_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
