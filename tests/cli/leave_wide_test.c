/* SPDX-License-Identifier: Apache-2.0 */
/* moyai leave in grids of several hosts: what becomes of the place where they are met. Each node is on a host of its
 * own, as it has a run directory of its own. */
#include "tests/cli/kit.h"
#include "tests/support/port.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Who goes with all that lead to it may be out of the command's sight before it has said that it has gone. */
static void leave(const char *option, const char *of, int nodes) {
    struct cli c;
    look_from("look");
    const int status = cli_do(&c, "leave", "--grid", grid, "--timeout", "60s", option, of, NULL);
    const int out_of_sight = nodes > 1 ? kit_count(&c.text[0], " cannot be reached any more: ") : 0;
    if (status != (out_of_sight > 0)) fail_msg("status %d: %s%s", status, c.text[0].p, c.text[1].p);
    assert_int_equal(kit_count(&c.text[0], " has left after ") + out_of_sight, nodes);
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

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_leave_a_server),
        cmocka_unit_test(a_meeting_place_leaves),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
