/* SPDX-License-Identifier: Apache-2.0 */
/* Half of a grid of several hosts, as it is to the processes, leaves at once; the others go on. */
#include "tests/cli/kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EACH 16 /* at each of the two sites */

static char dir[60], key[80], places[60];

static int set_up(void **state) {
    struct cli c;
    if (kit_setup(state) != 0) return -1;
    unsetenv("http_proxy");
    snprintf(dir, sizeof dir, "/tmp/moyai-exodus-%d", (int)getpid());
    snprintf(key, sizeof key, "%s/key", dir);
    snprintf(places, sizeof places, "%s/moyai", kit_dir());
    if (mkdir(dir, 0700) != 0) return -1;
    setenv("MOYAI_KEY_FILE", key, 1);
    const int rc = cli_do(&c, "key", "new", NULL);
    cli_free(&c);
    return rc;
}

static int tear_down(void **state) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s %s", dir, places);
    if (system(command) != 0) return -1;
    return kit_teardown(state);
}

static void begin_server(struct cli *c) {
    char url[120];
    cli_start(c, NULL, "endpoint", "--listen", "127.0.0.1:0", NULL);
    snprintf(url, sizeof url, "%.60s", strstr(cli_line(c, 1, "http://"), "http://"));
    *strchr(url + 7, '/') = 0;
    strcat(url, "/lab");
    setenv("MOYAI_GRID", url, 1);
}

/* Each node of that site has a name of its own. */
static void begin_site(struct cli *c, const char *site) {
    char n[12], command[80];
    snprintf(n, sizeof n, "%d", EACH);
    snprintf(command, sizeof command, "exec \"$0\" serve %s$MOYAI_RANK", site);
    setenv("MOYAI_SITE", site, 1);
    cli_start(c, NULL, "run", "--grid", getenv("MOYAI_GRID"), "-n", n, "--no-prefix", "sh", "-c", command, "@n", NULL);
    cli_await(c, 1, "serving ", EACH);
    unsetenv("MOYAI_SITE");
}

static void call_all(const char *site) {
    for (int i = 0; i < EACH; i++) {
        struct cli c;
        char name[20];
        snprintf(name, sizeof name, "%s%d", site, i);
        if (cli_do(&c, "call", name, "pid", NULL) != 0) fail_msg("%s does not answer: %s", name, c.text[1].p);
        cli_free(&c);
    }
}

static void leave(struct cli *c, const char *site) {
    char text[900] = "";
    if (cli_do(c, "leave", "--site", site, NULL) == 0) return;
    for (char *line = strtok(c->text[0].p, "\n"); line; line = strtok(NULL, "\n"))
        if (!strstr(line, " has left after ") && !strstr(line, " leaves, within ") && !strstr(line, " has finished "))
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n", line);
    fail_msg("not all of %s have left: %s%s", site, text, c->text[1].p);
}

/* Off, or short. */
static void nothing_is_cut(const struct cli *c) {
    const char *said = strstr(c->text[1].p, "MOYAI-");
    if (said) fail_msg("%s", said);
}

static void half_of_a_grid_leaves(void **state) {
    (void)state;
    struct cli server, go, stay, c;
    begin_server(&server);
    begin_site(&go, "go");
    begin_site(&stay, "stay");
    leave(&c, "go");
    assert_true(kit_count(&c.text[0], " has left after ") >= EACH);
    assert_int_equal(kit_count(&c.text[0], "no other way"), 0);
    assert_int_equal(kit_count(&c.text[0], "died"), 0);
    cli_free(&c);
    (void)cli_wait(&go); /* as if it had got SIGTERM */
    assert_int_equal(kit_count(&go.text[0], "ended go"), EACH);
    nothing_is_cut(&go);
    cli_free(&go);
    call_all("stay");
    leave(&c, "stay"); /* all that are left */
    cli_free(&c);
    (void)cli_wait(&stay);
    nothing_is_cut(&stay);
    cli_free(&stay);
    kill(server.pid, SIGTERM);
    assert_int_equal(cli_wait(&server), 0);
    cli_free(&server);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_of_a_grid_leaves),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
