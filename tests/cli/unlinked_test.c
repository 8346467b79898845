/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members are known where a grid of several hosts is met, and there is no link to any of them: whoever goes on all the
 * same says why, and does not say that all is well before he has one.
 */
#include "tests/cli/kit.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOWHERE "MOYAI_ADVERTISE=127.0.0.1:1" /* as behind what lets nothing in */

#define MISSING                                                                                                        \
    "if they have not ended, a member is missing to which all can connect (an endpoint is none; see moyai(7))"

static char base[40], key[2][60], run[4][80], url[100];
static struct cli endpoint;

static int set_up(void **state) {
    struct cli c;
    if (kit_setup(state) != 0) return -1;
    strcpy(base, "/tmp/moyai-cli-unlinked-XXXXXX");
    assert_non_null(mkdtemp(base));
    setenv("MOYAI_LISTEN", "127.0.0.1", 1);
    for (int i = 0; i < 2; i++) {
        snprintf(key[i], sizeof key[i], "%s/key%d", base, i);
        assert_int_equal(cli_do(&c, "key", "new", "--key-file", key[i], NULL), 0);
        cli_free(&c);
    }
    for (int i = 0; i < 4; i++) snprintf(run[i], sizeof run[i], "MOYAI_RUN_DIR=%s/run%d", base, i); /* as of hosts */
    cli_start(&endpoint, NULL, "endpoint", "--listen", "127.0.0.1:0", NULL);
    snprintf(url, sizeof url, "%.80s", strstr(cli_line(&endpoint, 1, "http://"), "http://"));
    strcpy(strstr(url + 7, "/"), "/lab");
    return 0;
}

static void ends(struct cli *c) {
    kill(c->pid, SIGTERM);
    (void)cli_wait(c);
    cli_free(c);
}

static int tear_down(void **state) {
    char command[60];
    ends(&endpoint);
    snprintf(command, sizeof command, "rm -r %s", base);
    assert_int_equal(system(command), 0);
    return kit_teardown(state);
}

static void a_node(struct cli *c, const char *grid, const char *run_dir, const char *keys, const char *advertise) {
    const char *const env[] = {run_dir, advertise, NULL};
    cli_start(c, &(struct cli_opts){.env = env}, "node", "--grid", grid, "--key-file", keys, NULL);
    (void)cli_line(c, 2, "takes commands");
}

/* Two of which neither can be connected to say so, as who looks does; so does a run; and that it is over. */
static void who_can_connect_to_nobody_says_so(void **state) {
    (void)state;
    struct cli node[2], ran, open, ps;
    char text[300];
    for (int i = 0; i < 2; i++) a_node(&node[i], url, run[i], key[0], NOWHERE);
    const char *const env[] = {run[2], NOWHERE, NULL};
    cli_start(&ran, &(struct cli_opts){.env = env}, "run", "--grid", url, "--key-file", key[0], "cat", NULL);
    cli_start(&ps, &(struct cli_opts){.env = (const char *const[]){run[3], NULL}}, "ps", "--grid", url, "--key-file",
              key[0], NULL);
    snprintf(text, sizeof text, ": no link to the grid at '%s' yet: %s: it answers, and knows nodes of this grid", url,
             url);
    struct cli *all[] = {&node[0], &node[1], &ran};
    for (int i = 0; i < 3; i++) {
        const char *said = cli_line(all[i], 2, text);
        assert_non_null(strstr(said, "cannot connect to node "));
        assert_non_null(strstr(said, MISSING));
    }
    assert_int_equal(cli_wait(&ps), 1);
    if (!strstr(ps.text[1].p, MISSING)) fail_msg("%s", ps.text[1].p);
    if (!strstr(ps.text[1].p, "/lab: it answers, and knows nodes of this grid")) fail_msg("%s", ps.text[1].p);
    cli_free(&ps);
    snprintf(run[2] + strlen(run[2]), 8, "-open");
    a_node(&open, url, run[2], key[0], NULL);
    for (int i = 0; i < 3; i++) (void)cli_line(all[i], 2, "/lab' can be met now");
    cli_close_in(&ran);
    assert_int_equal(cli_wait(&ran), 0);
    assert_int_equal(kit_count(&ran.text[1], "no link to the grid"), 1);
    cli_free(&ran);
    ends(&open);
    for (int i = 0; i < 2; i++) ends(&node[i]);
}

static void key_file(const char *path, const char *a, const char *b) {
    char command[600];
    snprintf(command, sizeof command, "umask 077; cat %s %s > %s.new && mv %s.new %s", a, b, path, path, path);
    assert_int_equal(system(command), 0);
}

static void says_not(struct cli *c, const char *text, int seconds) {
    static char all[20000];
    struct pollfd p = {.fd = c->fd[1], .events = POLLIN};
    size_t n = 0;
    for (int i = 0; i < seconds * 10; i++) {
        const ssize_t m = poll(&p, 1, 100) > 0 ? read(p.fd, all + n, sizeof all - 1 - n) : 0;
        if (m > 0) n += (size_t)m;
        all[n] = 0;
        if (strstr(all, text)) fail_msg("it has said: %s", all);
    }
}

/* Who has no key that fits is told of. That he has ended is no link to anybody; that to another is. */
static void only_a_link_takes_it_back(void **state) {
    (void)state;
    struct cli hidden, c;
    char file[80], grid[120];
    snprintf(file, sizeof file, "%s/both", base);
    snprintf(grid, sizeof grid, "%.90s-keys", url);
    key_file(file, key[0], key[1]);
    cli_start(&hidden, &(struct cli_opts){.env = (const char *const[]){run[0], NULL}}, "node", "--grid", grid,
              "--key-file", file, NULL);
    (void)cli_line(&hidden, 2, "nobody else is known there yet");
    key_file(file, key[1], "/dev/null");
    cli_start(&c, &(struct cli_opts){.env = (const char *const[]){run[1], NULL}}, "node", "--grid", grid, "--key-file",
              key[0], NULL);
    const char *said = cli_line(&c, 2, "' is seen: ");
    if (strstr(said, "cannot connect")) assert_non_null(strstr(said, "show on both, and copy the key file"));
    ends(&hidden);
    says_not(&c, " now", 35); /* it asks the endpoint again within that time */
    a_node(&hidden, grid, run[0], key[0], NULL);
    (void)cli_line(&c, 2, "-keys' can be met now");
    ends(&hidden);
    ends(&c);
}

/* An agent that a run reaches through another only is lost: what it calls itself is said all the same. */
static void who_is_lost_behind_another_is_named(void **state) {
    (void)state;
    struct cli relay, hidden, ran;
    char grid[120], id[9], text[60];
    snprintf(grid, sizeof grid, "%.90s-behind", url);
    struct cli *both[] = {&relay, &hidden};
    for (int i = 0; i < 2; i++) {
        cli_start(both[i], &(struct cli_opts){.env = (const char *const[]){run[i], NULL}}, "node", "--grid", grid,
                  "--key-file", key[0], "--slots", "1", i ? "--outbound-only" : NULL, NULL);
        snprintf(id, sizeof id, "%s", strstr(cli_line(both[i], 2, "takes commands"), ": node ") + 7);
    }
    cli_start(&ran, &(struct cli_opts){.env = (const char *const[]){run[2], NULL}}, "run", "--grid", grid, "--key-file",
              key[0], "--outbound-only", "--on-nodes", "-n", "2", "@h", "until-asked", "0", NULL);
    cli_await(&ran, 1, "ready", 2);
    kill(kit_child_of(kit_child_of(hidden.pid)), SIGKILL);
    snprintf(text, sizeof text, "is lost: node %s (moyai node", id);
    (void)cli_line(&ran, 2, text);
    ends(&ran);
    (void)cli_wait(&hidden);
    cli_free(&hidden);
    ends(&relay);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* the name of one test */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_can_connect_to_nobody_says_so),
        cmocka_unit_test(only_a_link_takes_it_back),
        cmocka_unit_test(who_is_lost_behind_another_is_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
