/* SPDX-License-Identifier: Apache-2.0 */
/* A grid of several hosts in which nobody is met: the reason is said, by whoever waits for somebody. */
#include "tests/cli/kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOWHERE "http://127.0.0.1:1/lab"

static char key[2][64], url[100];
static struct cli endpoint, node;

static int set_up(void **state) {
    struct cli c;
    if (kit_setup(state) != 0) return -1;
    setenv("MOYAI_LISTEN", "127.0.0.1", 1);
    for (int i = 0; i < 2; i++) {
        snprintf(key[i], sizeof key[i], "/tmp/moyai-cli-unmet-key%d-%d", i, (int)getpid());
        assert_int_equal(cli_do(&c, "key", "new", "--key-file", key[i], NULL), 0);
        cli_free(&c);
    }
    cli_start(&endpoint, NULL, "endpoint", "--listen", "127.0.0.1:0", NULL);
    snprintf(url, sizeof url, "%.80s", strstr(cli_line(&endpoint, 1, "http://"), "http://"));
    strcpy(strstr(url + 7, "/"), "/lab");
    cli_start(&node, NULL, "node", "--grid", url, "--key-file", key[0], NULL);
    (void)cli_line(&node, 2, "takes commands");
    /* Its entry is there when it is found. */
    assert_int_equal(cli_do(&c, "ps", "--grid", url, "--key-file", key[0], NULL), 0);
    assert_non_null(strstr(c.text[0].p, "moyai node"));
    cli_free(&c);
    return 0;
}

static int tear_down(void **state) {
    struct cli *all[] = {&node, &endpoint};
    for (size_t i = 0; i < 2; i++) {
        kill(all[i]->pid, SIGTERM);
        assert_int_equal(cli_wait(all[i]), 0);
        cli_free(all[i]);
        unlink(key[i]);
    }
    char command[100]; /* the default run directory, which such a grid uses, stays */
    snprintf(command, sizeof command, "rmdir %s/moyai", kit_dir());
    assert_int_equal(system(command), 0);
    return kit_teardown(state);
}

static void says(struct cli *c, int status, const char *text) {
    assert_int_equal(cli_wait(c), status);
    if (!strstr(c->text[1].p, text)) fail_msg("not \"%s\" but: %s", text, c->text[1].p);
    cli_free(c);
}

/* All at once: they give up after a while only. */
static void who_looks_is_told_why(void **state) {
    (void)state;
    static const char *const loud[] = {"MOYAI_LOG=warning", NULL};
    struct cli ps, dead, both, unknown;
    cli_start(&ps, &(struct cli_opts){.env = loud}, "ps", "--grid", url, "--key-file", key[1], NULL);
    cli_start(&dead, NULL, "ping", "--grid", NOWHERE, "--key-file", key[0], "0123", NULL);
    cli_start(&both, NULL, "graph", "--grid", NOWHERE, "--grid", url, "--key-file", key[1], NULL);
    cli_start(&unknown, NULL, "call", "--grid", "127.0.0.1:1", "--key-file", key[0], "x", "y", NULL);
    assert_non_null(strstr(cli_line(&ps, 2, "MOYAI-RENDEZVOUS"), "1 entry there is sealed with another key"));
    says(&ps, 1, "could be reached within 10 s: 1 entry there is sealed with another key\n");
    says(&dead, 1, "could be reached within 10 s: Couldn't connect");
    says(&unknown, 1, "could be reached within 10 s: ");
    assert_int_equal(cli_wait(&both), 1);
    assert_non_null(strstr(both.text[1].p, NOWHERE ": Couldn't connect"));
    assert_non_null(strstr(both.text[1].p, "sealed with another key"));
    cli_free(&both);
}

/* A run and an agent go on, since others may come, and say it once. */
static void who_goes_on_is_told_why(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "--grid", NOWHERE, "--key-file", key[0], "cat", NULL);
    (void)cli_line(&c, 2, "moyai run: nobody of the grid at '" NOWHERE "' could be met: Couldn't connect");
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[1], "could be met"), 1);
    cli_free(&c);
    cli_start(&c, NULL, "run", "--grid", url, "--key-file", key[1], "cat", NULL);
    (void)cli_line(&c, 2, "could be met: 1 entry there is sealed with another key");
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    cli_free(&c);
    cli_start(&c, NULL, "node", "--grid", NOWHERE, "--key-file", key[0], NULL);
    (void)cli_line(&c, 2, "moyai node: nobody of the grid at '" NOWHERE "' could be met: Couldn't connect");
    kill(c.pid, SIGTERM);
    assert_int_equal(cli_wait(&c), 0);
    cli_free(&c);
    /* Where all is well nothing is said. */
    assert_int_equal(cli_do(&c, "run", "--grid", url, "--key-file", key[0], "true", NULL), 0);
    assert_string_equal(c.text[1].p, "");
    cli_free(&c);
}

static void a_missing_name_is_missing_in_that_grid(void **state) {
    (void)state;
    char text[200];
    struct cli c;
    cli_start(&c, NULL, "call", "--grid", url, "--key-file", key[0], "nosuch-name", "x", NULL);
    snprintf(text, sizeof text,
             "nobody has registered the name \"nosuch-name\" in the grid at \"%s\", which has 1 node ", url);
    says(&c, 1, text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_looks_is_told_why),
        cmocka_unit_test(who_goes_on_is_told_why),
        cmocka_unit_test(a_missing_name_is_missing_in_that_grid),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
