/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cli/look_kit.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct cli run, c;
char grid[200];
pid_t pid_a, pid_b;

int in_grid(const char *const *words) {
    char env[220];
    snprintf(env, sizeof env, "MOYAI_GRID=%s", grid);
    const char *const added[] = {env, NULL};
    cli_startv(&c, &(struct cli_opts){.env = added}, words);
    cli_close_in(&c);
    return cli_wait(&c);
}

pid_t pid_of(const char *name) {
    assert_int_equal(IN_GRID("call", name, "pid"), 0);
    pid_t pid = atoi(c.text[0].p);
    assert_true(pid > 0);
    cli_free(&c);
    return pid;
}

int open_run(void **state) {
    (void)state;
    cli_start(&run, NULL, "run", "--print-grid", "--grace", "5s", "@n", "serve", "a", ":", "@n", "serve", "b", NULL);
    snprintf(grid, sizeof grid, "%s", strstr(cli_line(&run, 2, "moyai run: grid file:/"), "file:"));
    cli_await(&run, 1, "serving", 2);
    pid_a = pid_of("a");
    pid_b = pid_of("b");
    return 0;
}

int close_run(void **state) {
    (void)state;
    kill(run.pid, SIGTERM);
    assert_int_equal(cli_wait(&run), 143);
    cli_free(&run);
    return kit_left();
}

void id_of(pid_t pid, char id[33]) {
    char want[64];
    snprintf(want, sizeof want, "\"pid\": %d,", (int)pid);
    assert_int_equal(IN_GRID("ps", "--json"), 0);
    char *line = strtok(c.text[0].p, "\n");
    while (line && !strstr(line, want)) line = strtok(NULL, "\n");
    assert_non_null(line);
    assert_int_equal(sscanf(line, " {\"node\": \"%32[0-9a-f]\"", id), 1);
    cli_free(&c);
}

int entries(void) {
    char path[256];
    snprintf(path, sizeof path, "%s/n", grid + 5);
    DIR *d = opendir(path);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}
