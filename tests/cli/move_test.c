/* SPDX-License-Identifier: Apache-2.0 */
/* moyai move: objects that go to another node, and those that stay, with why. */
#include "tests/cli/look_kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static char id[2][33];
static pid_t pid[2];

/* a and b move, and theirs takes them; fixed does neither. */
static int open_movers(void **state) {
    (void)state;
    cli_start(&run, NULL, "run", "--print-grid", "@n", "move", "a", ":", "@n", "move", "b", ":", "@n", "serve", "fixed",
              NULL);
    snprintf(grid, sizeof grid, "%s", strstr(cli_line(&run, 2, "moyai run: grid file:/"), "file:"));
    cli_await(&run, 1, "serving", 3);
    for (int i = 0; i < 2; i++) {
        pid[i] = pid_of(i ? "b" : "a");
        id_of(pid[i], id[i]);
    }
    return 0;
}

/* Where all end together nobody is left to take them: no error, and nobody is waited for. */
static void those_of_a_run_end_with_it(void **state) {
    (void)state;
    cli_start(&run, NULL, "run", "@n", "move", "a", ":", "@n", "move", "b", NULL);
    cli_await(&run, 1, "serving", 2);
    assert_int_equal(kill(run.pid, SIGTERM), 0);
    assert_int_equal(cli_wait(&run), 143);
    assert_null(strstr(run.text[1].p, "MOYAI-"));
    cli_free(&run);
}

#define MOVERS(test) cmocka_unit_test_setup_teardown(test, open_movers, close_run)

static void is_at(const char *object, int where) {
    char began[40];
    assert_int_equal(pid_of(object), pid[where]);
    assert_int_equal(IN_GRID("call", object, "began"), 0);
    snprintf(began, sizeof began, "%d\n", (int)pid[0]);
    assert_string_equal(c.text[0].p, began); /* its state has gone along */
    cli_free(&c);
}

/* By its name, and by a reference that says where it was; to a node by its id, its beginning, and a name there. */
static void an_object_moves(void **state) {
    (void)state;
    char ref[120], want[200], short_id[9];
    assert_int_equal(IN_GRID("move", "a", id[1]), 0);
    HAS(c.text[0].p, "a has moved to node ");
    const char *at = strstr(c.text[0].p, "moyai:");
    assert_non_null(at);
    snprintf(ref, sizeof ref, "%.71s", at);
    snprintf(want, sizeof want, "@%s\n", id[1]);
    HAS(at, want);
    assert_string_equal(c.text[1].p, "");
    cli_free(&c);
    is_at("a", 1);
    assert_int_equal(IN_GRID("move", "a", "b"), 0);
    HAS(c.text[0].p, "a is there already: node ");
    cli_free(&c);
    snprintf(short_id, sizeof short_id, "%.8s", id[0]);
    assert_int_equal(IN_GRID("move", "--json", ref, short_id), 0);
    snprintf(want, sizeof want, "\", \"from\": \"%s\", \"to\": \"%s\", \"seconds\": ", id[1], id[0]);
    HAS(c.text[0].p, want);
    cli_free(&c);
    is_at("a", 0);
    assert_int_equal(IN_GRID("move", ref, id[1]), 0); /* it says where it was before */
    cli_free(&c);
    is_at("a", 1);
    snprintf(ref + 39, sizeof ref - 39, "%s", id[0]);
    assert_int_equal(IN_GRID("move", ref, id[0]), 0);
    cli_free(&c);
    is_at("a", 0);
}

/* Not that of looks whether it is there. */
static void its_time_is_true(void **state) {
    (void)state;
    double seconds = 1;
    for (int i = 1; seconds >= 0.05; i = !i) { /* on a busy machine it may take longer, now and then */
        assert_int_equal(IN_GRID("move", "--json", "a", id[i]), 0);
        const char *at = strstr(c.text[0].p, "\"seconds\": ");
        assert_true(at && sscanf(at + 11, "%lf", &seconds) == 1 && seconds > 0);
        cli_free(&c);
    }
}

static void an_object_stays(void **state) {
    (void)state;
    char fixed[33];
    id_of(pid_of("fixed"), fixed);
    const struct {
        const char *words[6];
        int status;
        const char *text;
    } wrong[] = {
        {{"move"}, 2, "which object? A reference or a name"},
        {{"move", "a"}, 2, "to which node? Its id or the beginning of it, a name or a reference"},
        {{"move", "a", "b", "c"}, 2, "unknown argument 'c'"},
        {{"move", "--deadline", "0", "a", "b"}, 2, "--deadline: '0' is no time at all"},
        {{"move", "nosuch", "b"}, 1, "nobody has registered the name \"nosuch\""},
        {{"move", "a", "nosuch"}, 1, "nobody has registered the name \"nosuch\""},
        {{"move", "a", "0123456789abcdef0123456789abcdef"}, 1, "01234567"},
        {{"move", id[0], "b"}, 1, "' is a node, which does not move: name an object of it"},
        {{"move", "fixed", "b"}, 1, "moyai move: objects of class \"Server\" do not move: it has no pack and unpack"},
        {{"move", "a", fixed}, 1, "it stays where it is: that node does not take objects of class \"Mover\""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        for (int json = 0; json < 2; json++) {
            const char *words[8];
            size_t n = 0;
            for (; wrong[i].words[n]; n++) words[n] = wrong[i].words[n];
            if (json) words[n++] = "--json";
            words[n] = NULL;
            const int status = in_grid(words);
            if (status != wrong[i].status) fail_msg("%zu: %d: %s%s", i, status, c.text[0].p, c.text[1].p);
            HAS(c.text[1].p, wrong[i].text);
            if (json && status == 1)
                HAS(c.text[0].p, "{\"error\": ");
            else
                assert_string_equal(c.text[0].p, "");
            cli_free(&c);
        }
    }
    is_at("a", 0);
}

/* A method in progress ends first, or the object stays; whoever is killed meanwhile cannot say what became of it. */
static void a_method_ends_first(void **state) {
    (void)state;
    struct cli call, move;
    char env[220];
    snprintf(env, sizeof env, "MOYAI_GRID=%s", grid);
    const char *const added[] = {env, NULL};
    const struct cli_opts in = {.env = added};
    cli_start(&call, &in, "call", "a", "stay", NULL);
    for (bool begun = false; !begun; cli_free(&c)) {
        assert_int_equal(IN_GRID("call", id[0], "info"), 0);
        begun = strstr(c.text[0].p, "\"fibers\": 1") != NULL;
    }
    assert_int_equal(IN_GRID("move", "--deadline", "100ms", "a", "b"), 1);
    HAS(c.text[1].p, "it stays where it is: a method of the object is in progress still");
    cli_free(&c);
    cli_start(&move, &in, "move", "--deadline", "1h", "a", "b", NULL);
    for (bool begun = false; !begun; cli_free(&c)) { /* a fiber more: that which moves it */
        assert_int_equal(IN_GRID("call", id[0], "info"), 0);
        const char *fibers = strstr(c.text[0].p, "\"fibers\": ");
        begun = fibers && atoi(fibers + 10) > 1;
    }
    assert_int_equal(IN_GRID("move", "a", "b"), 1);
    HAS(c.text[1].p, "the object moves already");
    cli_free(&c);
    assert_int_equal(kill(pid[0], SIGKILL), 0);
    cli_close_in(&move);
    assert_int_equal(cli_wait(&move), 1);
    HAS(move.text[1].p, "it is not known whether it has moved: its node cannot say any more");
    cli_free(&move);
    (void)cli_wait(&call);
    cli_free(&call);
}

/* Its reference as of old, at the other node: "a" has moved from 0 to 1. */
static void move_a(char ref[72]) {
    assert_int_equal(IN_GRID("move", "a", id[1]), 0);
    const char *at = strstr(c.text[0].p, "moyai:");
    assert_non_null(at);
    snprintf(ref, 72, "%.39s%s", at, id[0]);
    cli_free(&c);
}

static void names_node(const char *verb, const char *option, const char *what, int where) {
    char want[40];
    assert_int_equal(IN_GRID(verb, what, option), 0);
    snprintf(want, sizeof want, "%.8s", id[where]);
    HAS(c.text[0].p, want);
    snprintf(want, sizeof want, "%.8s", id[!where]);
    HAS_NOT(c.text[0].p, want);
    cli_free(&c);
}

/* It is the node of its object: where that is, not where it once was. */
static void a_reference_names_where_it_is(void **state) {
    (void)state;
    char ref[72], want[60];
    move_a(ref);
    for (int by_name = 0; by_name < 2; by_name++) {
        names_node("ping", "-c1", by_name ? "a" : ref, 1);
        names_node("trace", "--json", by_name ? "a" : ref, 1);
    }
    assert_int_equal(IN_GRID("move", "b", ref), 0);
    HAS(c.text[0].p, "b is there already: node ");
    cli_free(&c);
    assert_int_equal(IN_GRID("leave", ref), 0);
    snprintf(want, sizeof want, "node %.8s (", id[1]);
    HAS(c.text[0].p, want);
    snprintf(want, sizeof want, "node %.8s (", id[0]);
    HAS_NOT(c.text[0].p, want);
    cli_free(&c);
    is_at("a", 0); /* and it has moved back, as its node left */
    names_node("ping", "-c1", ref, 0);
}

/* A node is told to leave by its object only if it has that; who has it nowhere is said to be so. */
static void no_other_node_is_told(void **state) {
    (void)state;
    char ref[72], object[100], nobody[72];
    move_a(ref);
    snprintf(object, sizeof object, "{\"$ref\": \"%s\"}", ref);
    assert_int_equal(IN_GRID("call", id[0], "leave", "1.0", "false", object, object), 1);
    HAS(c.text[1].p, "MOYAI_ENOOBJECT: leave: the object is not here (any more)");
    cli_free(&c);
    snprintf(nobody, sizeof nobody, "moyai:%.31s1@%s", "0123456789abcdef0123456789abcdef", id[0]);
    static const char *const verbs[] = {"ping", "trace", "leave"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(IN_GRID(verbs[i], "--json", nobody), 1);
        HAS(c.text[0].p, "{\"error\": ");
        HAS(c.text[1].p, "' names is nowhere (any more): ");
        cli_free(&c);
    }
    assert_int_equal(IN_GRID("leave", "b", nobody), 1); /* then nobody is told */
    assert_string_equal(c.text[0].p, "");
    cli_free(&c);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(IN_GRID("call", id[i], "info"), 0);
        HAS_NOT(c.text[0].p, "\"leaving\"");
        cli_free(&c);
    }
    assert_int_equal(IN_GRID("leave", "--json", ref, "a", id[1]), 0); /* thrice the same */
    assert_null(strstr(strstr(c.text[0].p, "\"node\"") + 1, "\"node\""));
    cli_free(&c);
}

static void await_info(const char *node, const char *part) {
    for (bool there = false; !there; cli_free(&c)) {
        assert_int_equal(IN_GRID("call", node, "info"), 0);
        there = strstr(c.text[0].p, part) != NULL;
    }
}

/* It refuses calls, of what it has as well. */
static void who_leaves_has_it_still(void **state) {
    (void)state;
    struct cli call, leave;
    char env[220], node[33], ref[72], want[40];
    cli_start(&run, NULL, "run", "--print-grid", "@n", "serve", "fixed", ":", "@n", "both", "a", NULL);
    snprintf(grid, sizeof grid, "%s", strstr(cli_line(&run, 2, "moyai run: grid file:/"), "file:"));
    cli_await(&run, 1, "serving", 2);
    id_of(pid_of("a"), node);
    assert_int_equal(IN_GRID("call", node, "objects"), 0);
    const char *at = strstr(c.text[0].p, "\"class\": \"Mover\"");
    while (at && at > c.text[0].p && strncmp(at, "moyai:", 6) != 0) at--;
    assert_true(at && strncmp(at, "moyai:", 6) == 0);
    snprintf(ref, sizeof ref, "%.71s", at);
    cli_free(&c);
    snprintf(env, sizeof env, "MOYAI_GRID=%s", grid);
    const char *const added[] = {env, NULL};
    cli_start(&call, &(struct cli_opts){.env = added}, "call", "a-too", "stay", NULL);
    await_info(node, "\"fibers\": 1");
    cli_start(&leave, &(struct cli_opts){.env = added}, "leave", "--deadline", "1h", node, NULL);
    (void)cli_line(&leave, 1, "finishes 1 call");
    assert_int_equal(IN_GRID("ping", "-c1", ref), 0);
    snprintf(want, sizeof want, "answer of node %.8s", node);
    HAS(c.text[0].p, want);
    cli_free(&c);
    assert_int_equal(IN_GRID("leave", "--deadline", "300ms", ref), 1);
    HAS(c.text[0].p, " has left after ");
    cli_free(&c);
    assert_int_equal(cli_wait(&leave), 1);
    cli_free(&leave);
    (void)cli_wait(&call);
    cli_free(&call);
}

static int close_killed(void **state) {
    (void)state;
    (void)cli_wait(&run); /* the first group has ended */
    cli_free(&run);
    return kit_left();
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        MOVERS(an_object_moves),
        MOVERS(its_time_is_true),
        MOVERS(an_object_stays),
        MOVERS(a_reference_names_where_it_is),
        MOVERS(no_other_node_is_told),
        cmocka_unit_test_setup_teardown(who_leaves_has_it_still, NULL, close_run),
        cmocka_unit_test(those_of_a_run_end_with_it),
        cmocka_unit_test_setup_teardown(a_method_ends_first, open_movers, close_killed),
    };
    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
