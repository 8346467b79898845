/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archipelagos of real processes; ISLANDS is the path of the program. Everything waits for lines of output or for the
 * end of a process; alarm(2) is the hang guard, and the islands die with this program.
 */
#include "examples/flowshop/test_support.h"

#include "examples/flowshop/greedy.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <moyai.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANG_SECONDS 300
#define MOST_ARGS    12

struct process {
    pid_t pid;
    int fd; /* its standard output */
    char text[8192];
    size_t n;
};

/* ---- the grid's directory -------------------------------------------------------------------- */

static char dir[64];

static int make_grid(void **state) {
    (void)state;
    char grid[80];
    strcpy(dir, "/tmp/moyai-islands-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(grid, sizeof grid, "file:%s", dir);
    setenv("MOYAI_GRID", grid, 1);
    setenv("MOYAI_RUN_DIR", dir, 1);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int remove_grid(void **state) {
    (void)state;
    return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void start(struct process *p, const char *const *args) {
    const char *argv[MOST_ARGS + 2] = {getenv("ISLANDS")};
    assert_non_null(argv[0]);
    for (int i = 0; args[i]; i++) argv[i + 1] = args[i];
    int fd[2];
    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    pid_t parent = getpid();
    fflush(NULL);
    *p = (struct process){.pid = fork(), .fd = fd[0]};
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || dup2(fd[1], STDOUT_FILENO) < 0) _exit(126);
        execv(argv[0], (char **)(uintptr_t)argv);
        _exit(127);
    }
    close(fd[1]);
}
#define START(p, ...) start(p, (const char *const[]){__VA_ARGS__, NULL})

/* More of its output. False: that was all. */
static bool read_more(struct process *p) {
    ssize_t n;
    assert_true(p->n + 1 < sizeof p->text);
    while ((n = read(p->fd, p->text + p->n, sizeof p->text - 1 - p->n)) < 0) assert_int_equal(errno, EINTR);
    p->n += (size_t)n;
    return n > 0;
}

static void await(struct process *p, const char *line) {
    while (!strstr(p->text, line))
        if (!read_more(p)) fail_msg("no line '%s' in:\n%s", line, p->text);
}

/* All of its output and its wait status. */
static int finish(struct process *p) {
    int status;
    while (read_more(p)) {
    }
    close(p->fd);
    while (waitpid(p->pid, &status, 0) < 0) assert_int_equal(errno, EINTR);
    return status;
}

/* The number behind the text; it must be there. */
static int number_behind(const struct process *p, const char *text) {
    const char *at = strstr(p->text, text);
    if (!at) fail_msg("no '%s' in:\n%s", text, p->text);
    return atoi(at + strlen(text));
}

/* The makespan that the island at this place says at its end. */
static int own_best(const struct process *p, int place) {
    char text[32];
    snprintf(text, sizeof text, "island %d: best ", place);
    return number_behind(p, text);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void four_islands_find_the_optimum(void **state) {
    (void)state;
    struct process p[4];
    bool there[4] = {false};
    int told = 0;
    for (int i = 0; i < 4; i++) START(&p[i], "--islands", "4", "--target", "2724", "--seconds", "280", "ta031");
    for (int i = 0; i < 4; i++) assert_int_equal(finish(&p[i]), 0);
    for (int i = 0; i < 4; i++) {
        int k = number_behind(&p[i], "island ");
        assert_in_range(k, 0, 3);
        assert_false(there[k]);
        there[k] = true;
        assert_int_equal(own_best(&p[i], k), test_optimum(31));
        told += strstr(p[i].text, "ta031: best 2724 over 4 islands\n") != NULL;
        assert_int_equal(strstr(p[i].text, "ta031: ") != NULL, k == 0); /* it is the lowest who tells */
    }
    assert_int_equal(told, 1);
}

static void the_rest_goes_on_when_two_of_five_are_killed(void **state) {
    (void)state;
    struct process p[5], *at[5] = {NULL};
    for (int i = 0; i < 5; i++) START(&p[i], "--islands", "5", "--seconds", "3600", "ta051");
    for (int i = 0; i < 5; i++) {
        await(&p[i], ": between ");
        int k = number_behind(&p[i], "island ");
        assert_in_range(k, 0, 4);
        at[k] = &p[i];
    }
    for (int k = 0; k < 5; k++) assert_non_null(at[k]);
    for (int k = 0; k <= 2; k += 2) { /* the first among them */
        assert_int_equal(kill(at[k]->pid, SIGKILL), 0);
        assert_int_equal(finish(at[k]), SIGKILL);
        assert_null(strstr(at[k]->text, "best"));
    }
    await(at[1], "island 1: between 4 and 3\n");
    await(at[3], "island 3: between 1 and 4\n");
    await(at[4], "island 4: between 3 and 1\n");

    struct process newcomer; /* takes the place of the first */
    START(&newcomer, "--seconds", "3600", "ta051");
    await(&newcomer, "island 0: between 4 and 1\n");
    await(at[1], "island 1: between 0 and 3\n");
    await(at[4], "island 4: between 3 and 0\n");

    struct process *rest[4] = {&newcomer, at[1], at[3], at[4]};
    static const int places[4] = {0, 1, 3, 4};
    int told = 0, least = INT32_MAX;
    for (int i = 0; i < 4; i++) assert_int_equal(kill(rest[i]->pid, SIGINT), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(finish(rest[i]), 0);
    for (int i = 0; i < 4; i++) {
        int own = own_best(rest[i], places[i]);
        assert_in_range(own, 3000, 5000);
        least = own < least ? own : least;
    }
    for (int i = 0; i < 4; i++) {
        if (!strstr(rest[i]->text, " over 4 islands\n")) continue;
        told++;
        int most = own_best(rest[i], places[i]); /* the least, unless another went on after that */
        assert_in_range(number_behind(rest[i], "ta051: best "), least, most);
    }
    assert_true(told >= 1); /* a second one only if some process was held up for a second */
}

static void one_island_needs_no_grid(void **state) {
    (void)state;
    unsetenv("MOYAI_GRID");
    struct process p;
    START(&p, "--generations", "300", "--population", "10", "--seed", "3", "ta001");
    assert_int_equal(finish(&p), 0);
    assert_string_equal(p.text, "island 0: best 1278\nta001: best 1278 over 1 islands\n");
}

static void an_island_that_is_asked_to_end_leaves_the_others(void **state) {
    (void)state;
    struct process p[2];
    for (int i = 0; i < 2; i++) START(&p[i], "--islands", "2", "--seconds", "3600", "ta051");
    for (int i = 0; i < 2; i++) await(&p[i], ": beside ");
    assert_int_equal(kill(p[0].pid, SIGTERM), 0);
    assert_int_equal(finish(&p[0]), 0);
    assert_non_null(strstr(p[0].text, " over 2 islands\n"));
    await(&p[1], ": alone\n");
    assert_null(strstr(p[1].text, "best"));
    assert_int_equal(kill(p[1].pid, SIGINT), 0);
    assert_int_equal(finish(&p[1]), 0);
    assert_non_null(strstr(p[1].text, " over 1 islands\n"));
}

/* ---- the test as an island ------------------------------------------------------------------- */

/* An island that has ended and has one individual, true or not. */
struct guest {
    moyai_node *node;
    moyai_ref *self;
    struct instance *in;
    uint16_t perm[INSTANCE_MAX_JOBS];
    int32_t makespan;
    int calls;
};

static int guest_exchange(moyai_request *rq, void *self) {
    struct guest *g = self;
    if (++g->calls == 3 && moyai_register(g->self, "heard enough") < 0) return MOYAI_EUSER;
    return moyai_return(rq, MOYAI_ARGS(1000000, moyai_u16s(g->perm, (size_t)g->in->n), moyai_i32s(&g->makespan, 1)));
}

static int guest_best(moyai_request *rq, void *self) {
    struct guest *g = self;
    return moyai_return(rq, MOYAI_ARGS(true, moyai_u16s(g->perm, (size_t)g->in->n), moyai_i32s(&g->makespan, 1)));
}

static void guest_open(struct guest *g, int taillard) {
    static const struct moyai_method methods[] = {{"exchange", guest_exchange}, {"best", guest_best}, {NULL, NULL}};
    static const struct moyai_class guest_class = MOYAI_CLASS("Guest", methods, NULL);
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.own_thread = true;
    *g = (struct guest){.in = test_taillard(taillard)};
    assert_int_equal(moyai_node_new(&g->node, &opts, NULL), 0);
    assert_int_equal(moyai_object_new(g->node, &guest_class, g, &g->self, NULL), 0);
}

static void guest_close(struct guest *g) {
    moyai_ref_unref(g->self);
    moyai_node_free(g->node);
    instance_free(g->in);
}

static moyai_ref *await_name(struct guest *g, const char *name) {
    moyai_ref *ref;
    assert_int_equal(moyai_lookup_wait(g->node, name, MOYAI_FOREVER, &ref), 0);
    return ref;
}

static int call_exchange(moyai_ref *island, const uint16_t *perms, size_t n_perms, const int32_t *makespans, size_t n) {
    return moyai_call(island, "exchange", MOYAI_ARGS(0, moyai_u16s(perms, n_perms), moyai_i32s(makespans, n)),
                      MOYAI_NONE, NULL);
}

static void what_is_no_solution_is_refused(void **state) {
    (void)state;
    struct process p;
    struct guest g;
    START(&p, "--islands", "2", "--seconds", "3600", "--target", "1277", "ta001");
    guest_open(&g, 1);
    moyai_ref *island = await_name(&g, "islands/ta001/0"); /* it waits for another and does not breed yet */

    uint16_t perms[100];
    int32_t makespans[5];
    for (int i = 0; i < 100; i++) perms[i] = (uint16_t)(i % 20);
    for (int i = 0; i < 5; i++) makespans[i] = instance_makespan(g.in, perms, 20);
    assert_int_equal(call_exchange(island, perms, 40, makespans, 2), 0);
    assert_int_equal(call_exchange(island, perms, 0, makespans, 0), 0);
    assert_int_equal(call_exchange(island, perms, 39, makespans, 2), MOYAI_EDATA);
    assert_int_equal(call_exchange(island, perms, 100, makespans, 5), MOYAI_EDATA); /* too many at once */
    makespans[1]--;
    assert_int_equal(call_exchange(island, perms, 40, makespans, 2), MOYAI_EDATA);
    makespans[1]++;
    perms[25] = 6; /* twice */
    assert_int_equal(call_exchange(island, perms, 40, makespans, 2), MOYAI_EDATA);
    perms[25] = 65535;
    assert_int_equal(call_exchange(island, perms, 40, makespans, 2), MOYAI_EDATA);
    assert_int_equal(moyai_call(island, "exchange", MOYAI_ARGS(1), MOYAI_NONE, NULL), MOYAI_EARGS);

    memcpy(g.perm, perms, 20 * sizeof *perms);
    g.makespan = 1000; /* no schedule of ta001 is so short */
    assert_int_equal(moyai_register(g.self, "islands/ta001/1"), 0);
    await(&p, "island 0: beside 1\n");
    moyai_ref *enough = await_name(&g, "heard enough");
    assert_null(strstr(p.text, "best")); /* the target was not reached by a lie */
    assert_int_equal(kill(p.pid, SIGINT), 0);
    assert_int_equal(finish(&p), 0);
    assert_true(number_behind(&p, "ta001: best ") >= test_optimum(1));
    assert_non_null(strstr(p.text, " over 1 islands\n"));
    moyai_ref_unref(enough);
    moyai_ref_unref(island);
    guest_close(&g);
}

static void what_others_have_found_is_taken_in(void **state) {
    (void)state;
    struct process p;
    struct guest g;
    char target[16], text[64];
    guest_open(&g, 101);
    int n = g.in->n;
    int32_t neh = greedy_neh(g.in, g.perm);
    g.makespan = greedy_search(g.in, 0.5, 1, 0, g.perm); /* out of the island's own reach for long */
    assert_true(g.makespan < neh);
    snprintf(target, sizeof target, "%d", g.makespan);
    START(&p, "--islands", "2", "--population", "2", "--seconds", "3600", "--target", target, "ta101");
    moyai_ref *island = await_name(&g, "islands/ta101/0");

    /* By the call's argument: the answer has it already. By the answer: the target is reached. */
    uint16_t better[INSTANCE_MAX_JOBS];
    const uint16_t *perms;
    const int32_t *makespans;
    size_t n_perms, n_makespans;
    int highest;
    int32_t less = greedy_search(g.in, 0, 1, 0, better);
    assert_true(less < neh);
    moyai_future *f =
        moyai_call_async(island, "exchange", MOYAI_ARGS(7, moyai_u16s(better, (size_t)n), moyai_i32s(&less, 1)));
    assert_int_equal(moyai_future_get(f, MOYAI_INTO(&highest, moyai_into_u16s(&perms, &n_perms),
                                                    moyai_into_i32s(&makespans, &n_makespans))),
                     0);
    assert_int_equal(highest, 7);
    assert_int_equal(n_makespans, 2);
    assert_int_equal(n_perms, 2 * n);
    assert_int_equal(makespans[0], less);
    assert_memory_equal(perms, better, (size_t)n * sizeof *perms);
    moyai_future_free(f);
    assert_int_equal(moyai_register(g.self, "islands/ta101/1"), 0);
    assert_int_equal(finish(&p), 0);
    assert_int_equal(own_best(&p, 0), g.makespan);
    snprintf(text, sizeof text, "ta101: best %d over 2 islands\n", g.makespan);
    assert_non_null(strstr(p.text, text));
    moyai_ref_unref(island);
    guest_close(&g);
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    static const char *const wrong[][3] = {{"--seconds", "0", "ta001"},    {"--seconds", "soon", "ta001"},
                                           {"--population", "1", "ta001"}, {"--target", "-1", "ta001"},
                                           {"--islands", "257", "ta001"},  {"--generations", "", "ta001"},
                                           {"--never", "1", "ta001"},      {"ta001", "ta002", NULL},
                                           {"ta121", NULL, NULL},          {NULL, NULL, NULL}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *args[4] = {wrong[i][0], wrong[i][1], wrong[i][2], NULL};
        struct process p;
        start(&p, args);
        int status = finish(&p);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 2);
        assert_string_equal(p.text, "");
    }
}

int main(void) {
    static const char *const ours[] = {"MOYAI_PARENT", "MOYAI_SIZE", "MOYAI_RANK", "MOYAI_GROUP", "MOYAI_EVENTS"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) unsetenv(ours[i]);
    alarm(HANG_SECONDS);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(four_islands_find_the_optimum, make_grid, remove_grid),
        cmocka_unit_test_setup_teardown(the_rest_goes_on_when_two_of_five_are_killed, make_grid, remove_grid),
        cmocka_unit_test_setup_teardown(one_island_needs_no_grid, make_grid, remove_grid),
        cmocka_unit_test_setup_teardown(an_island_that_is_asked_to_end_leaves_the_others, make_grid, remove_grid),
        cmocka_unit_test_setup_teardown(what_is_no_solution_is_refused, make_grid, remove_grid),
        cmocka_unit_test_setup_teardown(what_others_have_found_is_taken_in, make_grid, remove_grid),
        cmocka_unit_test_setup_teardown(wrong_arguments_are_refused, make_grid, remove_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
