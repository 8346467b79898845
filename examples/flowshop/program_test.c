/* SPDX-License-Identifier: Apache-2.0 */
/* What the program says to whoever has started it; FLOWSHOP is its path, and PLAIN that of the search alone. Everything
 * waits for lines; alarm(2) guards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT 240 /* seconds */

/* Its own directory for everything a node makes; removed at the end. */
static char dir[] = "/tmp/moyai-flowshop-test-XXXXXX", grid[64];

/* program: the variable with its path. */
static pid_t start_program(const char *program, char *const *argv, const char *address, FILE *out[2]) {
    int fd[2][2];
    for (int i = 0; i < 2; i++) assert_int_equal(pipe2(fd[i], O_CLOEXEC), 0);
    pid_t parent = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(120);
        for (int i = 0; i < 2; i++) dup2(fd[i][1], i + 1);
        setenv("XDG_RUNTIME_DIR", dir, 1);
        if (address)
            setenv("MOYAI_GRID", address, 1);
        else
            unsetenv("MOYAI_GRID");
        const char *path = getenv(program);
        if (path) execv(path, argv);
        _exit(121);
    }
    for (int i = 0; i < 2; i++) {
        close(fd[i][1]);
        out[i] = fdopen(fd[i][0], "r");
        assert_non_null(out[i]);
    }
    return pid;
}

static pid_t start(char *const *argv, const char *address, FILE *out[2]) {
    return start_program("FLOWSHOP", argv, address, out);
}

static void stop(pid_t pid, FILE *out[2]) {
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (int i = 0; i < 2; i++) fclose(out[i]);
}

/* A worker that nobody needs says what it waits for, and where. */
static void worker_waits(void **state) {
    (void)state;
    char *argv[] = {"flowshop", "worker", NULL};
    char line[400], expect[200];
    FILE *out[2];
    pid_t pid = start(argv, NULL, out);
    assert_non_null(fgets(line, sizeof line, out[1]));
    assert_string_equal(line, "flowshop worker: waits for a 'flowshop master' in this process alone: MOYAI_GRID is not "
                              "set (moyai run sets it)\n");
    stop(pid, out);

    pid = start(argv, grid, out);
    assert_non_null(fgets(line, sizeof line, out[1]));
    snprintf(expect, sizeof expect, "flowshop worker: waits for a 'flowshop master' in the grid %s\n", grid);
    assert_string_equal(line, expect);
    stop(pid, out);
}

/* So does a master, in its lines of progress. */
static void master_waits(void **state) {
    (void)state;
    char *argv[] = {"flowshop", "master", "--progress", "lines", "--workers", "3", "ta001", NULL};
    char line[400];
    FILE *out[2];
    pid_t pid = start(argv, grid, out);
    assert_non_null(fgets(line, sizeof line, out[1]));
    assert_string_equal(line, "ta001: waits for workers, 0 of 3 have joined\n");
    stop(pid, out);
}

/* A search of a few milliseconds has no lines of progress. */
static void short_search(void **state) {
    (void)state;
    char *master[] = {"flowshop", "master", "--progress", "lines", "--upper", "1359", "ta002", NULL};
    char *worker[] = {"flowshop", "worker", NULL};
    char line[400];
    FILE *out[2], *unused[2];
    pid_t w = start(worker, grid, unused), m = start(master, grid, out);
    int proved = 0, shown = 0, status;
    double seconds = -1, rate;
    while (fgets(line, sizeof line, out[0])) {
        proved += strcmp(line, "ta002: no makespan below 1359, proved\n") == 0;
        if (strstr(line, " nodes in "))
            assert_int_equal(sscanf(line, "ta002: %*s nodes in %lf s, %lf M nodes/s", &seconds, &rate), 2);
    }
    while (fgets(line, sizeof line, out[1])) shown += strstr(line, "open subproblems") != NULL;
    assert_int_equal(proved, 1);
    assert_true(seconds >= 0);
    if (seconds < 0.99) assert_int_equal(shown, 0); /* a slow machine may have something to show */
    assert_int_equal(waitpid(m, &status, 0), m);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(waitpid(w, &status, 0), w);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int i = 0; i < 2; i++) {
        fclose(out[i]);
        fclose(unused[i]);
    }
}

/* The next line that begins so; line is its place. */
static bool next_line(FILE *f, const char *begin, char line[400]) {
    while (fgets(line, 400, f))
        if (strncmp(line, begin, strlen(begin)) == 0) return true;
    return false;
}

static void ends_well(pid_t pid, FILE *out[2]) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int i = 0; i < 2; i++) fclose(out[i]);
}

/* Until the program has said that. */
static void await_line(FILE *f, const char *what) {
    char line[400];
    do assert_non_null(fgets(line, sizeof line, f));
    while (!strstr(line, what));
}

/* A worker that is asked to leave gives back what it has, of which nothing is searched twice, and its end is no
 * failure.
 */
static void worker_leaves(void **state) {
    (void)state;
    char *master[] = {"flowshop", "master", "--progress", "none", "--upper", "1484", "ta017", NULL};
    char *worker[] = {"flowshop", "worker", NULL};
    FILE *out[2], *of[2][2];
    pid_t w[2], m = start(master, grid, out);
    w[0] = start(worker, grid, of[0]);
    await_line(out[0], "searching");
    w[1] = start(worker, grid, of[1]);
    await_line(out[0], "w2 joined");
    kill(w[0], SIGTERM);
    ends_well(w[0], of[0]);
    await_line(out[0], "w1 leaves, its subproblem goes to another");
    await_line(out[0], "ta017: 34511287 nodes"); /* as by one that searches all */
    await_line(out[0], "ta017: no makespan below 1484, proved");
    ends_well(m, out);
    ends_well(w[1], of[1]);
}

/* What workers that leave have not done is done by others, and nothing else: as many nodes as one search alone. */
static void workers_leave(void **state) {
    (void)state;
    char *plain[] = {"flowshop_plain", "--upper", "2237", "ta029", NULL};
    char *master[] = {"flowshop", "master", "--progress", "none", "--upper", "2237", "ta029", NULL};
    char *worker[] = {"flowshop", "worker", NULL};
    char line[400], expect[100];
    FILE *out[2], *of[2];
    unsigned long alone = 0, together = 0;
    int n = 0, given_back = 0;
    pid_t m = start_program("PLAIN", plain, NULL, out);
    assert_true(next_line(out[0], "nodes ", line));
    assert_int_equal(sscanf(line, "nodes %lu", &alone), 1);
    ends_well(m, out);
    m = start(master, grid, out);
    for (; given_back < 3;
         n++) { /* each has the whole rest of the search; the first ones may leave before they begin */
        pid_t w = start(worker, grid, of);
        snprintf(expect, sizeof expect, "w%d joined\n", n + 1);
        assert_true(next_line(out[0], expect, line));
        usleep(10000u * ((unsigned)n + 1));
        assert_int_equal(kill(w, SIGTERM), 0);
        ends_well(w, of);
        snprintf(expect, sizeof expect, "w%d leaves", n + 1);
        assert_true(next_line(out[0], expect, line));
        given_back += strstr(line, ", its subproblem goes to another") != NULL;
    }
    pid_t w = start(worker, grid, of);
    assert_true(next_line(out[0], "ta029: ", line));
    assert_int_equal(sscanf(line, "ta029: %lu nodes in ", &together), 1);
    assert_true(next_line(out[0], "ta029: no makespan below 2237, proved", line));
    assert_true(next_line(out[0], "tasks lost 0\n", line));
    snprintf(expect, sizeof expect, "tasks executed again: 0 for workers that left (%d), 0 for workers lost (0)\n", n);
    assert_true(next_line(out[0], expect, line));
    ends_well(m, out);
    ends_well(w, of);
    assert_int_equal(alone, together);
}

static int count_of(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++) n++;
    return n;
}

/* The picture calls things what the lines call them. */
static void picture(void **state) {
    (void)state;
    char path[80], svg[1 << 16], expect[100], line[400];
    snprintf(path, sizeof path, "%s/picture.svg", dir);
    char *master[] = {"flowshop", "master", "--progress", "none", "--workers", "2",
                      "--greedy", "0.01",   "--svg",      path,   "ta011",     NULL};
    char *worker[] = {"flowshop", "worker", NULL};
    FILE *out[3][2];
    pid_t pid[3] = {start(worker, grid, out[0]), start(worker, grid, out[1]), start(master, grid, out[2])};
    int start_value = 0, status;
    while (fgets(line, sizeof line, out[2][0])) (void)sscanf(line, "ta011: start value %d after", &start_value);
    assert_true(start_value >= 1582);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        for (int k = 0; k < 2; k++) fclose(out[i][k]);
    }
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    svg[fread(svg, 1, sizeof svg - 1, f)] = 0;
    fclose(f);
    snprintf(expect, sizeof expect, ">ta011: start value %d</text>", start_value);
    assert_int_equal(count_of(svg, expect), 1);
    assert_int_equal(count_of(svg, ">ta011: optimum 1582 proved</text>"), 1);
    /* Otherwise only what was found meanwhile. */
    assert_int_equal(count_of(svg, ">ta011: "), 2 + count_of(svg, ">ta011: best "));
    assert_int_equal(count_of(svg, ">finding a start value</text>"), 1);
}

static int setup(void **state) {
    (void)state;
    alarm(LIMIT);
    if (!mkdtemp(dir)) return -1;
    snprintf(grid, sizeof grid, "file:%s/grid", dir);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(worker_waits),  cmocka_unit_test(master_waits),
                                       cmocka_unit_test(short_search),  cmocka_unit_test(worker_leaves),
                                       cmocka_unit_test(workers_leave), cmocka_unit_test(picture)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
