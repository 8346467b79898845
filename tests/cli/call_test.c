/* SPDX-License-Identifier: Apache-2.0 */
/* moyai call, with nodes in processes of their own. */
#include "tests/cli/look_kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What is given comes back, to the letter. */
static void values_come_back(void **state) {
    (void)state;
    static const char *const values[] = {
        "null",
        "true",
        "17",
        "-9223372036854775808",
        "1.0",
        "-0.25",
        "1e+300",
        "\"text \\\" \\u0001 \xc3\xa9\"",
        "[1, 2, 3]",
        "[1.0, 2.5]",
        "[]",
        "[\"a\", 1]",
        "{}",
        "{\"b\": 1, \"a\": [true, null]}",
        "{\"$bytes\": \"AAEC/w==\"}",
        "{\"$u8\": [1, 255]}",
        "{\"$f32\": [0.1, \"nan\", \"-inf\"]}",
        "{\"$u64\": [1, \"18446744073709551615\"]}",
        "{\"$i64\": []}",
        "{\"$list\": [1, 2.5]}",
        "{\"$map\": {\"$x\": 1}}",
        "{\"$float\": \"inf\"}",
        "{\"$uint\": \"9223372036854775808\"}",
        "{\"$ref\": \"moyai:00112233445566778899aabbccddeeff@ffeeddccbbaa99887766554433221100\"}",
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char want[200];
        snprintf(want, sizeof want, "%s\n", values[i]);
        assert_int_equal(IN_GRID("call", "a", "echo", "--", values[i]), 0);
        assert_string_equal(c.text[0].p, want);
        assert_string_equal(c.text[1].p, "");
        cli_free(&c);
    }
}

static void calls(void **state) {
    (void)state;
    char id[33], ref[200], want[300];
    id_of(pid_a, id);
    assert_int_equal(IN_GRID("call", id, "objects"), 0);
    const char *found = strstr(c.text[0].p, "{\"$ref\": \"moyai:");
    assert_non_null(found);
    snprintf(ref, sizeof ref, "%.*s", (int)(strchr(found, '}') + 1 - found), found);
    HAS(c.text[0].p, "\"class\": \"Server\", \"names\": [\"a\"]");
    cli_free(&c);

    assert_int_equal(IN_GRID("call", "a", "mixed", "[1, 2, 0.5]", "{\"$bytes\": \"AAEC\"}", "\"text\"", ref), 0);
    assert_string_equal(c.text[0].p, "3.5\n{\"$bytes\": \"AAEC\"}\ntrue\n");
    cli_free(&c);
    assert_int_equal(IN_GRID("call", "--json", "a", "mixed", "[1.0]", "{\"$bytes\": \"\"}", "\"\"", ref), 0);
    assert_string_equal(c.text[0].p, "{\"results\": [1.0, {\"$bytes\": \"\"}, true]}\n");
    cli_free(&c);

    /* By reference, and the node by a part of its id. */
    snprintf(want, sizeof want, "%.*s", 71, strstr(ref, "moyai:"));
    assert_int_equal(IN_GRID("call", want, "pid"), 0);
    assert_int_equal(atoi(c.text[0].p), pid_a);
    cli_free(&c);
    id[12] = 0;
    assert_int_equal(IN_GRID("call", id, "info"), 0);
    snprintf(want, sizeof want, "{\"node\": \"%s", id);
    HAS(c.text[0].p, want);
    snprintf(want, sizeof want, "\"pid\": %d, ", (int)pid_a);
    HAS(c.text[0].p, want);
    cli_free(&c);
    assert_int_equal(IN_GRID("call", "a", "learn", "\"b\""), 0);
    assert_string_equal(c.text[0].p, "");
    cli_free(&c);
    assert_int_equal(entries(), 3);
}

/* The method's own words, and how it is written in JSON. */
static void says_how_values_are_written(void **state) {
    (void)state;
    static const struct {
        const char *method, *argument, *error, *hint;
    } some[] = {
        {"sum", "[1, 2]", "value 1: array of int64, where array of double is expected",
         "moyai call: argument 1: such an array is written {\"$f64\": [...]}, or with a point in one of its numbers, "
         "as in "
         "[1.0, 2]: moyai-call(1)\n"},
        {"sum", "[]", "value 1: list, where array of double",
         "argument 1: such an array is written {\"$f64\": [...]}: "},
        {"sum", "{\"$u8\": [1]}", "value 1: array of uint8, where array of double", NULL},
        {"sum", "\"text\"", "value 1: text, where array of double", NULL},
        {"sum", "[1.0, \"nan\"]", "value 1: list, where array of double",
         "argument 1: such an array is written {\"$f64\": [...]}: moyai-call(1)\n"},
        {"note", "\"abc\"", "value 1: text, where bytes is expected",
         "moyai call: argument 1: bytes are written in base64, {\"$bytes\": \"...\"}: moyai-call(1)\n"},
        {"small", "[1, 2]", "value 1: array of int64, where int8", NULL},
        {"small", "0.1", "value 1: 0.1 does not fit int8", NULL},
        {"small", "-129", "value 1: -129 does not fit int8", NULL}, /* no option, though it looks like one */
        {"half", "0.1", "value 1: 0.1 does not fit float",
         "moyai call: argument 1: a number to be rounded to float is written {\"$f32\": 0.1}: moyai-call(1)\n"},
    };
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        assert_int_equal(IN_GRID("call", "a", some[i].method, some[i].argument), 1);
        HAS(c.text[1].p, some[i].error);
        if (some[i].hint)
            HAS(c.text[1].p, some[i].hint);
        else
            HAS_NOT(c.text[1].p, "is written");
        cli_free(&c);
    }
    assert_int_equal(IN_GRID("call", "a", "mixed", "[1.0]", "{\"$bytes\": \"\"}", "\"\"", "\"moyai:...\""), 1);
    HAS(c.text[1].p, "moyai call: argument 4: a reference is written {\"$ref\": \"moyai:...\"}: moyai-call(1)\n");
    cli_free(&c);
    static const char *const good[][3] = {
        {"sum", "[1.0, 2]", "3.0\n"},
        {"sum", "{\"$f64\": [1, 2]}", "3.0\n"},
        {"sum", "{\"$f64\": []}", "0.0\n"},
        {"half", "1", "0.5\n"},
        {"half", "-1", "-0.5\n"},
        {"half", "-25.0e0", "-12.5\n"},
        {"half", "{\"$f32\": 0.1}", "0.05000000074505806\n"},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(IN_GRID("call", "a", good[i][0], good[i][1]), 0);
        assert_string_equal(c.text[0].p, good[i][2]);
        cli_free(&c);
    }
}

/* A name that is like the one that was typed. */
static void says_which_name_was_meant(void **state) {
    (void)state;
    struct cli other;
    cli_start(&other, NULL, "run", "--grid", grid, "@n", "serve", "adder", ":", "@n", "serve", "a name: %", NULL);
    cli_await(&other, 1, "serving", 2);
    static const char *const typed[][3] = {
        {"call", "addr", "did you mean \"adder\"?"},
        {"ping", "addre", "did you mean \"adder\"?"},
        {"trace", "adder2", "did you mean \"adder\"?"},
        {"call", "a_name: %", "did you mean \"a name: %\"?"},
    };
    for (size_t i = 0; i < sizeof typed / sizeof typed[0]; i++) {
        bool calls = strcmp(typed[i][0], "call") == 0;
        assert_int_equal(IN_GRID(typed[i][0], typed[i][1], calls ? "pid" : NULL), 1);
        HAS(c.text[1].p, typed[i][2]);
        cli_free(&c);
    }
    kill(other.pid, SIGTERM);
    assert_int_equal(cli_wait(&other), 143);
    cli_free(&other);
}

/* What is no argument is an error as others, also where --json comes after it, or the grid is needed to see it. */
static void errors_of_arguments_are_printed(void **state) {
    (void)state;
    const char *const wrong[][4] = {{"--json", "{no", "1", "argument 1: "},
                                    {"7", "{no", "--json", "argument 2: "},
                                    {"--json", "1", "{\"$ref\": \"x\"}", "argument 2: "}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(IN_GRID("call", "a", "echo", wrong[i][0], wrong[i][1], wrong[i][2]), 2);
        HAS(c.text[0].p, "{\"error\": [{\"code\": ");
        HAS(c.text[0].p, "\"executed\": \"never executed\", \"origin\": null}]}\n");
        HAS(c.text[0].p, wrong[i][3]);
        HAS(c.text[1].p, wrong[i][3]);
        cli_free(&c);
    }
    assert_int_equal(IN_GRID("call", "a", "echo", "{no"), 2);
    assert_string_equal(c.text[0].p, "");
    cli_free(&c);
}

static void calls_that_fail(void **state) {
    (void)state;
    assert_int_equal(IN_GRID("call", "a", "nonsense"), 1);
    assert_string_equal(c.text[0].p, "");
    HAS(c.text[1].p, "moyai call: MOYAI_ENOMETHOD: class Server has no method 'nonsense'; it has: ");
    HAS(c.text[1].p, "; never executed)\n");
    cli_free(&c);

    /* The whole chain. */
    assert_int_equal(IN_GRID("call", "--json", "a", "fail_below"), 1);
    assert_int_equal(kit_count(&c.text[1], "moyai call: "), 2);
    HAS(c.text[1].p, "moyai call: code -1234: cannot do it (at the method, ");
    HAS(c.text[1].p, "moyai call: because: MOYAI_ENOMETHOD: ");
    HAS(c.text[0].p, "{\"error\": [{\"code\": -1234, ");
    HAS(c.text[0].p, ", {\"code\": -4, \"name\": \"MOYAI_ENOMETHOD\", ");
    cli_free(&c);

    assert_int_equal(IN_GRID("call", "nobody", "pid"), 1);
    HAS(c.text[1].p, "\"nobody\"");
    HAS_NOT(c.text[1].p, "did you mean");
    cli_free(&c);
    assert_int_equal(IN_GRID("call", "0123abcd", "info"), 1);
    HAS(c.text[1].p, "'0123abcd' is neither");
    cli_free(&c);
    assert_int_equal(IN_GRID("call", "moyai:nonsense", "pid"), 1);
    HAS(c.text[1].p, "not a reference");
    cli_free(&c);
    assert_int_equal(IN_GRID("call", "a", "block", "--timeout", "50ms"), 124);
    HAS(c.text[1].p, "MOYAI_ETIMEDOUT");
    cli_free(&c);
    assert_int_equal(entries(), 3);
}

/* It is there when the command ends, however large. */
static void one_way(void **state) {
    (void)state;
    static char large[100 * 1024 + 40];
    assert_int_equal(IN_GRID("call", "--oneway", "b", "note", "{\"$bytes\": \"AAEC\"}"), 0);
    assert_string_equal(c.text[0].p, "");
    cli_free(&c);
    cli_await(&run, 1, "noted 3", 1);
    size_t n = (size_t)snprintf(large, sizeof large, "{\"$bytes\": \"");
    memset(large + n, 'A', 96 * 1024);
    memcpy(large + n + 96 * 1024, "\"}", 3);
    assert_int_equal(IN_GRID("call", "--oneway", "b", "note", large), 0);
    cli_free(&c);
    cli_await(&run, 1, "noted 73728", 1);
    assert_int_equal(IN_GRID("call", "--oneway", "--json", "b", "note", "null"), 0);
    assert_string_equal(c.text[0].p, "{\"results\": []}\n");
    cli_free(&c);
    /* Its errors are lost, but for those that are known here. */
    assert_int_equal(IN_GRID("call", "--oneway", "b", "nonsense"), 0);
    cli_free(&c);
    kill(pid_b, SIGSTOP);
    assert_int_equal(IN_GRID("call", "--oneway", "--timeout", "50ms", "b", "note", "null"), 124);
    HAS(c.text[1].p, "has not taken");
    cli_free(&c);
    kill(pid_b, SIGCONT);
}

/* The first signal ends a call in order. */
static void interrupted(void **state) {
    (void)state;
    cli_start(&c, NULL, "call", "--grid", grid, "a", "block", NULL);
    /* It blocks when a has one call in its scope. */
    for (;;) {
        struct cli other = c;
        char id[33];
        id_of(pid_a, id);
        assert_int_equal(IN_GRID("call", id, "objects"), 0);
        bool blocks = strstr(c.text[0].p, "\"calls\": 1}") != NULL;
        cli_free(&c);
        c = other;
        if (blocks) break;
    }
    kill(c.pid, SIGINT);
    assert_int_equal(cli_wait(&c), 130);
    HAS(c.text[1].p, "interrupted");
    cli_free(&c);
    assert_int_equal(entries(), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        RUN(values_come_back),
        RUN(calls),
        RUN(says_how_values_are_written),
        RUN(says_which_name_was_meant),
        RUN(errors_of_arguments_are_printed),
        RUN(calls_that_fail),
        RUN(one_way),
        RUN(interrupted),
    };
    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
