/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that look at a grid, with nodes in processes of their own: ping, call, ps, graph. */
#include "tests/cli/kit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A run of three nodes, a, b and the run itself. */
static struct cli run;
static char grid[200];
static pid_t pid_a, pid_b;

/* What the command prints; the last run's texts. */
static struct cli c;

/* Do it in the grid and give the status. */
#define IN_GRID(...) in_grid((const char *const[]){__VA_ARGS__, NULL})
static int in_grid(const char *const *words) {
    char env[220];
    snprintf(env, sizeof env, "MOYAI_GRID=%s", grid);
    const char *const added[] = {env, NULL};
    cli_startv(&c, &(struct cli_opts){.env = added}, words);
    cli_close_in(&c);
    return cli_wait(&c);
}

#define HAS(text, part)                                                                                                \
    do {                                                                                                               \
        if (!strstr(text, part)) fail_msg("no '%s' in:\n%s", part, text);                                              \
    } while (0)
#define HAS_NOT(text, part)                                                                                            \
    do {                                                                                                               \
        if (strstr(text, part)) fail_msg("'%s' in:\n%s", part, text);                                                  \
    } while (0)

static pid_t pid_of(const char *name) {
    assert_int_equal(IN_GRID("call", name, "pid"), 0);
    pid_t pid = atoi(c.text[0].p);
    assert_true(pid > 0);
    cli_free(&c);
    return pid;
}

static int open_run(void **state) {
    (void)state;
    cli_start(&run, NULL, "run", "--print-grid", "--grace", "5s", "@n", "serve", "a", ":", "@n", "serve", "b", NULL);
    snprintf(grid, sizeof grid, "%s", strstr(cli_line(&run, 2, "moyai run: grid file:/"), "file:"));
    cli_await(&run, 1, "serving", 2);
    pid_a = pid_of("a");
    pid_b = pid_of("b");
    return 0;
}

static int close_run(void **state) {
    (void)state;
    kill(run.pid, SIGTERM);
    assert_int_equal(cli_wait(&run), 143);
    cli_free(&run);
    return kit_left();
}

/* The node's id of the process, as ps has it. */
static void id_of(pid_t pid, char id[33]) {
    char want[64];
    snprintf(want, sizeof want, "\"pid\": %d,", (int)pid);
    assert_int_equal(IN_GRID("ps", "--json"), 0);
    char *line = strtok(c.text[0].p, "\n");
    while (line && !strstr(line, want)) line = strtok(NULL, "\n");
    assert_non_null(line);
    assert_int_equal(sscanf(line, " {\"node\": \"%32[0-9a-f]\"", id), 1);
    cli_free(&c);
}

/* Entries of nodes in the rendezvous: who looked is out of it again. */
static int entries(void) {
    char path[256];
    snprintf(path, sizeof path, "%s/n", grid + 5);
    DIR *d = opendir(path);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* ---- call ------------------------------------------------------------------------------------ */

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

/* ---- ping ------------------------------------------------------------------------------------ */

static void traces_a_neighbour(void **state) {
    (void)state;
    char id[33], hop[64];
    id_of(pid_a, id);
    assert_int_equal(IN_GRID("trace", "a"), 0);
    snprintf(hop, sizeof hop, " 1  %.8s  unix  ", id);
    HAS(c.text[0].p, hop);
    assert_int_equal(kit_count(&c.text[0], ""), 1);
    cli_free(&c);
    assert_int_equal(IN_GRID("trace", "nobody"), 1);
    HAS(c.text[1].p, "nobody has registered the name \"nobody\"");
    cli_free(&c);
    /* What "way" takes. */
    assert_int_equal(IN_GRID("call", id, "way", "\"x\""), 1);
    HAS(c.text[1].p, "node is an id of 32 hexadecimal digits");
    cli_free(&c);
    assert_int_equal(IN_GRID("call", id, "way", "\"00112233445566778899aabbccddeeff\"", "17"), 0);
    assert_string_equal(c.text[0].p, "null\n");
    cli_free(&c);
}

/* One object, as of a call. */
static void has_error(const char *json, const char *name, const char *text) {
    static const char begin[] = "{\"error\": [{\"code\": -";
    if (strncmp(json, begin, sizeof begin - 1) != 0) fail_msg("%s", json);
    HAS(json, name);
    HAS(json, text);
    assert_string_equal(strchr(json, '\n'), "\n");
    HAS(json, "\", \"where\": \"caller\", \"executed\": \"never executed\", \"origin\": null}]}\n");
}

static void what_fails_is_an_object_too(void **state) {
    (void)state;
    static const char *const verbs[] = {"ping", "trace", "call", "ps", "graph"};
    for (size_t i = 0; i < 5; i++) {
        if (i < 2) {
            assert_int_equal(IN_GRID(verbs[i], "--json", "no-such-name"), 1);
            has_error(c.text[0].p, "\"MOYAI_ENOENT\"", "nobody has");
            HAS(c.text[1].p, "nobody has");
            cli_free(&c);
        }
        assert_int_equal(
            cli_do(&c, verbs[i], "--json", "--grid", "/no/such/dir", i < 3 ? "a" : NULL, i == 2 ? "b" : NULL, NULL), 1);
        has_error(c.text[0].p, "\"MOYAI_E", "/no/such/dir");
        cli_free(&c);
    }
    assert_int_equal(IN_GRID("ping", "-c", "2", "-i", ".001", "b"), 0);
    cli_free(&c);
}

static void pings(void **state) {
    (void)state;
    char id[33], want[64];
    id_of(pid_b, id);
    assert_int_equal(IN_GRID("ping", "-c", "3", "-i", "0", "b"), 0);
    snprintf(want, sizeof want, "answer of node %.8s: seq=", id);
    assert_int_equal(kit_count(&c.text[0], want), 3);
    HAS(c.text[0].p, "seq=3 time=");
    HAS(c.text[0].p, "\n3 sent, 3 answered, 0% lost, in ");
    HAS(c.text[0].p, "\nround trip min/avg/max/mdev = ");
    cli_free(&c);
    assert_int_equal(IN_GRID("ping", "--json", "--count=2", "--interval", "1ms", id), 0);
    assert_int_equal(kit_count(&c.text[0], "{\"seq\": "), 2);
    HAS(c.text[0].p, "\"sent\": 2, \"answered\": 2, ");
    cli_free(&c);

    /* Until interrupted: statistics all the same. */
    cli_start(&c, NULL, "ping", "--grid", grid, "-i", "1ms", "b", NULL);
    cli_await(&c, 1, "answer of node", 5);
    kill(c.pid, SIGINT);
    assert_int_equal(cli_wait(&c), 0);
    HAS(c.text[0].p, "answered, 0% lost");
    cli_free(&c);

    kill(pid_b, SIGSTOP);
    assert_int_equal(IN_GRID("ping", "-c", "2", "-i", "0", "--timeout", "20ms", id), 1);
    assert_int_equal(kit_count(&c.text[0], "no answer: seq="), 2);
    HAS(c.text[0].p, "2 sent, 0 answered, 100% lost");
    cli_free(&c);
    kill(pid_b, SIGCONT);
    assert_int_equal(IN_GRID("ping", "-c", "1", id), 0);
    cli_free(&c);

    assert_int_equal(IN_GRID("ping", "nobody"), 1);
    cli_free(&c);
    assert_int_equal(entries(), 3);
}

/* ---- ps and graph ---------------------------------------------------------------------------- */

static void lists_nodes(void **state) {
    (void)state;
    char a[33], b[33], want[200];
    id_of(pid_a, a);
    id_of(pid_b, b);
    assert_int_equal(IN_GRID("ps"), 0);
    assert_int_equal(kit_count(&c.text[0], ""), 4); /* its head, a, b and the run; not itself */
    HAS_NOT(c.text[0].p, "moyai ps");
    HAS(c.text[0].p, "moyai run");
    snprintf(want, sizeof want, "%.8s  cli_node ", a);
    HAS(c.text[0].p, want);
    cli_free(&c);
    assert_int_equal(IN_GRID("ps", "--json"), 0);
    assert_int_equal(kit_count(&c.text[0], "\"state\": \"up\""), 3);
    HAS_NOT(c.text[0].p, "moyai ps"); /* nor is its link */
    HAS(c.text[0].p, "],\n \"complete\": true, \"unseen\": []}\n");
    cli_free(&c);

    kill(pid_b, SIGSTOP);
    assert_int_equal(IN_GRID("ps", "--timeout", "100ms"), 1);
    assert_int_equal(kit_count(&c.text[0], ""), 4);
    assert_int_equal(kit_count(&c.text[0], "no answer in 100 ms"), 1);
    snprintf(want, sizeof want, " is seen: 1 node known to others did not answer: %.8s\n", b);
    HAS(c.text[1].p, want);
    cli_free(&c);
    assert_int_equal(IN_GRID("ps", "--json", "--timeout", "100ms"), 1);
    snprintf(want, sizeof want, " is seen: 1 node known to others did not answer: %.8s\"]}\n", b);
    HAS(c.text[0].p, want);
    HAS(c.text[0].p, "\n \"complete\": false, \"unseen\": [\"not all of the grid at ");
    snprintf(want, sizeof want,
             "{\"node\": \"%s\", \"state\": \"silent\", \"title\": \"cli_node [1.0]\", \"pid\": %d, ", b, (int)pid_b);
    HAS(c.text[0].p, want);
    cli_free(&c);
    kill(pid_b, SIGCONT);
    assert_int_equal(entries(), 3);
}

/* Who looks is not seen by others who look, though he is linked to nodes. */
static void leaves_observers_out(void **state) {
    (void)state;
    struct cli other;
    cli_start(&other, NULL, "ping", "--grid", grid, "-i", "1ms", "b", NULL);
    cli_await(&other, 1, "answer of node", 1);
    assert_int_equal(entries(), 4);
    assert_int_equal(IN_GRID("ps"), 0);
    assert_int_equal(kit_count(&c.text[0], ""), 4);
    HAS_NOT(c.text[0].p, "moyai ping");
    cli_free(&c);
    assert_int_equal(IN_GRID("graph"), 0);
    HAS_NOT(c.text[0].p, "moyai ping");
    cli_free(&c);
    kill(other.pid, SIGTERM);
    assert_int_equal(cli_wait(&other), 0);
    cli_free(&other);
}

/* A node that the rendezvous does not name is found through those that are linked to it. */
static void crawls(void **state) {
    (void)state;
    char a[33], path[300];
    id_of(pid_a, a);
    snprintf(path, sizeof path, "%s/n/%s", grid + 5, a);
    char *entry = kit_read(path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(IN_GRID("ps"), 0);
    assert_int_equal(kit_count(&c.text[0], ""), 4);
    a[8] = 0;
    HAS(c.text[0].p, a);
    cli_free(&c);
    free(entry);
}

static void draws(void **state) {
    (void)state;
    char a[33], want[100];
    id_of(pid_a, a);
    assert_int_equal(IN_GRID("graph"), 0);
    assert_int_equal(kit_count(&c.text[0], ""), 3);
    snprintf(want, sizeof want, "%.8s cli_node [0.0], pid %d, at ", a, (int)pid_a);
    HAS(c.text[0].p, want);
    HAS(c.text[0].p, " moyai run (unix)\n");
    HAS_NOT(c.text[0].p, "moyai graph");
    cli_free(&c);
    assert_int_equal(IN_GRID("graph", "--json"), 0);
    assert_int_equal(kit_count(&c.text[0], "{\"nodes\": [\""), 2); /* each to the run */
    assert_int_equal(kit_count(&c.text[0], "\"state\": \"up\""), 3);
    cli_free(&c);
    assert_int_equal(IN_GRID("graph", "--dot"), 0);
    assert_int_equal(kit_count(&c.text[0], "\" -- \""), 2);
    assert_int_equal(kit_count(&c.text[0], "[label=\""), 5);
    cli_free(&c);
    assert_int_equal(IN_GRID("graph", "--svg"), 0);
    assert_int_equal(kit_count(&c.text[0], "<path class=\"near\""), 2);
    assert_int_equal(kit_count(&c.text[0], "<circle "), 3);
    HAS(c.text[0].p, "</svg>\n");
    cli_free(&c);
}

/* What a terminal obeys, or XML cannot hold: U+0000 to U+001F, U+007F to U+009F, U+FFFE and U+FFFF. */
static void is_clean(const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if ((*p < ' ' && *p != '\n') || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0) ||
            (*p == 0xef && p[1] == 0xbf && p[2] >= 0xbe))
            fail_msg("byte %td is %#x: %s", p - (const unsigned char *)text, *p, text);
}

/* Titles are anything: they are escaped, and no control character reaches the terminal. */
static void strange_titles(void **state) {
    (void)state;
    const char *const env[] = {"MOYAI_TITLE=<x>&\"\\ \xc3\xa9\033[31m\xc2\x9b\xef\xbf\xbf\xff", NULL};
    struct cli other;
    cli_start(&other, &(struct cli_opts){.env = env}, "run", "--grid", grid, "@n", "serve", "z", NULL);
    cli_await(&other, 1, "serving z", 1);
    assert_int_equal(IN_GRID("ps"), 0);
    HAS(c.text[0].p, "<x>&\"\\ \xc3\xa9?[31m??? ");
    is_clean(c.text[0].p);
    cli_free(&c);
    assert_int_equal(IN_GRID("ps", "--json"), 0);
    HAS(c.text[0].p, "\"title\": \"<x>&\\\"\\\\ \xc3\xa9?[31m\\u009b\xef\xbf\xbf?\"");
    cli_free(&c);
    assert_int_equal(IN_GRID("graph", "--svg"), 0);
    HAS(c.text[0].p, "&lt;x&gt;&amp;&quot;\\ \xc3\xa9?[31m??"
                     "?</text>");
    is_clean(c.text[0].p);
    HAS_NOT(c.text[0].p, "<x>");
    cli_free(&c);
    assert_int_equal(IN_GRID("graph", "--dot"), 0);
    HAS(c.text[0].p, "<x>&\\\"\\\\ \xc3\xa9?[31m???\\n");
    is_clean(c.text[0].p);
    cli_free(&c);
    kill(other.pid, SIGTERM);
    assert_int_equal(cli_wait(&other), 143);
    cli_free(&other);
}

/* A node that nobody looks after, serving the name, with those variables. */
static pid_t start_node(const char *name, const char *const *env) {
    int out[2];
    char byte;
    assert_int_equal(pipe(out), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("MOYAI_GRID", grid, 1);
        for (; env && *env; env++) putenv((char *)(uintptr_t)*env);
        dup2(out[1], 1);
        execl(kit_program("NODE"), "cli_node", "serve", name, NULL);
        _exit(120);
    }
    close(out[1]);
    assert_int_equal(read(out[0], &byte, 1), 1); /* it says that it serves */
    close(out[0]);
    return pid;
}

/* Nobody saw their end: who finds them dead says so, once. */
static void dead_nodes(void **state) {
    (void)state;
    char dir[64] = "/tmp/moyai-cli-look-XXXXXX", a[33], command[100];
    assert_non_null(mkdtemp(dir));
    snprintf(grid, sizeof grid, "file:%s", dir);
    pid_t pid[3];
    for (int i = 0; i < 3; i++) pid[i] = start_node((const char *[]){"a", "b", "c"}[i], NULL);
    id_of(pid[0], a);
    for (int i = 0; i < 3; i++) kill(pid[i], SIGKILL);
    for (int i = 0; i < 3; i++) assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
    assert_int_equal(entries(), 3);
    assert_int_equal(IN_GRID("ping", "-c", "3", a), 1);
    HAS(c.text[0].p, "no answer: seq=1, ");
    HAS(c.text[0].p, "\n1 sent, 0 answered"); /* there is no use in more */
    cli_free(&c);
    int left = entries(); /* it is known now; and who stays for a second, on a busy machine, looks at them all */
    assert_true(left == 2 || left == 0);
    assert_int_equal(IN_GRID("ps"), 0);
    assert_int_equal(kit_count(&c.text[0], "  dead"), left);
    cli_free(&c);
    assert_int_equal(entries(), 0);
    assert_int_equal(IN_GRID("ps"), 0);
    assert_int_equal(kit_count(&c.text[0], ""), 1);
    cli_free(&c);
    snprintf(command, sizeof command, "rm -r %s %s/moyai", dir, kit_dir());
    assert_int_equal(system(command), 0);
}

/* ---- several hosts --------------------------------------------------------------------------- */

/* The way to a node, directly or over the one in the middle. */
static void traces(const char *id, bool relayed) {
    char want[64];
    assert_int_equal(IN_GRID("trace", id), 0);
    assert_int_equal(kit_count(&c.text[0], "  tcp  "), relayed ? 2 : 1);
    snprintf(want, sizeof want, " %d  %.8s  tcp  ", relayed ? 2 : 1, id);
    HAS(c.text[0].p, want);
    cli_free(&c);
    assert_int_equal(IN_GRID("trace", "--json", id), 0);
    HAS(c.text[0].p, "\"whole\": true");
    assert_int_equal(kit_count(&c.text[0], "\"kind\": \"tcp\""), relayed ? 2 : 1);
    assert_int_equal(kit_count(&c.text[0], "\"ms\": "), relayed ? 2 : 1);
    cli_free(&c);
}

/* No directory knows the nodes, and none but one can be connected to: who looks goes from that one to the others, and
 * talks to them through it. */
static void several_hosts(void **state) {
    (void)state;
    static char base[64] = "/tmp/moyai-cli-look-XXXXXX", key[100], listen_at[220], dir[3][100], command[100];
    assert_non_null(mkdtemp(base));
    snprintf(key, sizeof key, "MOYAI_KEY_FILE=%s/key", base);
    snprintf(grid, sizeof grid, "127.0.0.1:%d", kit_free_port());
    snprintf(listen_at, sizeof listen_at, "MOYAI_LISTEN=%s", grid);
    assert_int_equal(cli_do(&c, "key", "new", "--key-file", key + strlen("MOYAI_KEY_FILE="), NULL), 0);
    cli_free(&c);
    setenv("MOYAI_KEY_FILE", key + strlen("MOYAI_KEY_FILE="), 1);
    pid_t pid[3];
    for (int i = 0; i < 3; i++) {
        snprintf(dir[i], sizeof dir[i], "MOYAI_RUN_DIR=%s/%d", base, i);
        pid[i] = start_node((const char *[]){"middle", "left", "right"}[i],
                            (const char *const[]){i ? "MOYAI_OUTBOUND_ONLY=yes" : listen_at, dir[i],
                                                  i == 1 ? "MOYAI_SITE=over there" : "MOYAI_SITE=here", NULL});
    }
    /* All are there when they have found the one in the middle. */
    for (bool all = false; !all; cli_free(&c)) {
        assert_int_equal(IN_GRID("ps"), 0);
        assert_in_range(kit_count(&c.text[0], ""), 2, 4);
        all = kit_count(&c.text[0], "") == 4;
    }
    assert_int_equal(IN_GRID("ps"), 0);
    assert_int_equal(kit_count(&c.text[0], "  over there  "), 1);
    HAS_NOT(c.text[0].p, "no answer");
    cli_free(&c);
    assert_int_equal(IN_GRID("graph"), 0);
    assert_int_equal(kit_count(&c.text[0], " (tcp)"), 3);
    cli_free(&c);
    for (int i = 0; i < 3; i++) {
        char id[33];
        assert_int_equal(pid_of((const char *[]){"middle", "left", "right"}[i]), pid[i]);
        id_of(pid[i], id);
        id[10] = 0;
        assert_int_equal(IN_GRID("ping", "-c", "2", "-i", "0", id), 0);
        HAS(c.text[0].p, "2 sent, 2 answered");
        cli_free(&c);
        traces(id, i > 0);
    }
    for (int i = 2; i >= 0; i--) {
        kill(pid[i], SIGTERM);
        assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
    }
    unsetenv("MOYAI_KEY_FILE");
    snprintf(command, sizeof command, "rm -r %s %s/moyai", base, kit_dir());
    assert_int_equal(system(command), 0);
}

/* Runs of two hosts, which meet in a directory that both see. One of their addresses leads nowhere. */
static void hosts_with_a_directory(void **state) {
    (void)state;
    char base[64] = "/tmp/moyai-cli-look-XXXXXX", key[100], dir[100], path[110], command[200];
    assert_non_null(mkdtemp(base));
    snprintf(key, sizeof key, "%s/key", base);
    snprintf(dir, sizeof dir, "%s/met", base);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(cli_do(&c, "key", "new", "--key-file", key, NULL), 0);
    cli_free(&c);
    setenv("MOYAI_KEY_FILE", key, 1);
    struct cli host[2];
    static const char *const names[] = {"left", "right"};
    for (int i = 0; i < 2; i++) {
        char run_dir[110];
        snprintf(run_dir, sizeof run_dir, "MOYAI_RUN_DIR=%s/%d", base, i);
        const char *const env[] = {run_dir, "MOYAI_LISTEN=127.0.0.1", NULL};
        cli_start(&host[i], &(struct cli_opts){.env = env}, "run", "--grid", dir, "--grid", "127.0.0.1:1",
                  "--no-prefix", "--grace", "5s", "@n", "serve", names[i], NULL);
    }
    for (int i = 0; i < 2; i++) cli_await(&host[i], 1, "serving", 1);
    snprintf(grid, sizeof grid, "file:%s", dir);
    for (bool both = false; !both; cli_free(&c)) {
        assert_int_equal(IN_GRID("ps"), 0);
        both = kit_count(&c.text[0], "moyai run") == 2 && kit_count(&c.text[0], "cli_node") == 2;
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cli_do(&c, "call", "--grid", "127.0.0.1:1", "--grid", grid, names[i], "pid", NULL), 0);
        cli_free(&c);
    }
    for (int i = 0; i < 2; i++) {
        kill(host[i].pid, SIGTERM);
        (void)cli_wait(&host[i]);
        cli_free(&host[i]);
    }
    snprintf(path, sizeof path, "%s/n", dir);
    assert_int_equal(access(path, F_OK), -1); /* no directory of a grid of one host */
    snprintf(path, sizeof path, "%s/e", dir);
    assert_int_equal(rmdir(path), 0); /* all have gone in order */
    /* Without the key there is no way in. */
    assert_int_equal(mkdir(path, 0700), 0);
    unsetenv("MOYAI_KEY_FILE");
    assert_int_equal(cli_do(&c, "ps", "--grid", dir, NULL), 1);
    HAS(c.text[1].p, "MOYAI_KEY_FILE");
    cli_free(&c);
    /* A run's own grid is of one host, whatever keys the user has. */
    setenv("MOYAI_KEY_FILE", key, 1);
    cli_start(&host[0], NULL, "run", "--print-grid", "--no-prefix", "--grace", "5s", "@n", "serve", "a", NULL);
    snprintf(grid, sizeof grid, "%s", strstr(cli_line(&host[0], 2, "moyai run: grid file:/"), "file:"));
    cli_await(&host[0], 1, "serving", 1);
    assert_int_equal(entries(), 2);
    assert_int_equal(cli_do(&c, "call", "--grid", grid + 5, "a", "pid", NULL), 0);
    cli_free(&c);
    kill(host[0].pid, SIGTERM);
    (void)cli_wait(&host[0]);
    cli_free(&host[0]);
    unsetenv("MOYAI_KEY_FILE");
    snprintf(command, sizeof command, "rm -r %s", base);
    assert_int_equal(system(command), 0);
}

/* ---- without a grid -------------------------------------------------------------------------- */

/* Nothing is done in no time: the same of all verbs that take one. */
static void no_time(void **state) {
    (void)state;
    static const char *const words[][8] = {
        {"ps", "--timeout", "0"},         {"graph", "--timeout", "0s"},         {"ping", "--timeout", "0ms", "a"},
        {"trace", "--timeout", "0", "a"}, {"call", "--timeout", "0", "a", "b"}, {"run", "--timeout", "0", "true"}};
    char want[64];
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        cli_startv(&c, NULL, words[i]);
        cli_close_in(&c);
        assert_int_equal(cli_wait(&c), 2);
        snprintf(want, sizeof want, "moyai %s: --timeout: '%s' is no time at all\n", words[i][0], words[i][2]);
        HAS(c.text[1].p, want);
        cli_free(&c);
    }
}

static void no_grid(void **state) {
    (void)state;
    static const char *const words[][4] = {{"ps"}, {"graph"}, {"ping", "a"}, {"call", "a", "b"}};
    for (size_t i = 0; i < 4; i++) {
        cli_startv(&c, NULL, words[i]);
        cli_close_in(&c);
        assert_int_equal(cli_wait(&c), 2);
        HAS(c.text[1].p, "MOYAI_GRID");
        cli_free(&c);
    }
    assert_int_equal(cli_do(&c, "ps", "--grid", "/tmp/there-is-no-such-grid", NULL), 1);
    HAS(c.text[1].p, "there is no grid at '/tmp/there-is-no-such-grid'");
    cli_free(&c);
    assert_int_equal(access("/tmp/there-is-no-such-grid", F_OK), -1);
    assert_int_equal(kit_left(), 0);
}

/* Every verb whose standard output is closed, full or has no reader any more, also of one that would go on for ever. */
static void unwritable_output(void **state) {
    (void)state;
    static const char *const verbs[][5] = {
        {"ps"},
        {"ps", "--json"},
        {"graph"},
        {"graph", "--dot"},
        {"graph", "--svg"},
        {"call", "a", "pid"},
        {"call", "--json", "a", "pid"},
        {"call", "--json", "a", "no-such-method"},
        {"ping", "a"},
        {"ping", "--json", "a"},
        {"trace", "a"},
        {"config"},
        {"config", "--list"},
        {"endpoint", "--listen", "127.0.0.1:0"},
        {"--version"},
        {"--help"},
        {"help", "run"},
        {"node", "--help"},
        {"key", "--usage"},
        {"run", "--no-prefix", "echo", "lost"},
    };
    char env[220];
    snprintf(env, sizeof env, "MOYAI_GRID=%s", grid);
    const char *const added[] = {env, NULL};
    int no_reader[2], full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pipe2(no_reader, O_CLOEXEC), 0);
    close(no_reader[0]);
    const struct {
        int fd;
        const char *why;
    } out[] = {{full, strerror(ENOSPC)}, {-1, strerror(EBADF)}, {no_reader[1], NULL}};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        for (size_t j = 0; j < sizeof out / sizeof out[0]; j++) {
            bool is_run = strcmp(verbs[i][0], "run") == 0;
            char want[200];
            cli_startv(&c, &(struct cli_opts){.env = is_run ? NULL : added, .out = out[j].fd}, verbs[i]);
            cli_close_in(&c);
            int status = cli_wait(&c);
            if (!out[j].why && !is_run) {
                if (status != 128 + SIGPIPE) fail_msg("%s: status %d: %s", verbs[i][0], status, c.text[1].p);
                HAS_NOT(c.text[1].p, "cannot write");
            } else if (out[j].why) {
                if (status != (is_run ? 125 : 1)) fail_msg("%s: status %d: %s", verbs[i][0], status, c.text[1].p);
                snprintf(want, sizeof want, ": cannot write to standard output: %s\n", out[j].why);
                HAS(c.text[1].p, want);
            }
            cli_free(&c);
        }
    close(full);
    close(no_reader[1]);
}

int main(void) {
#define RUN(test) cmocka_unit_test_setup_teardown(test, open_run, close_run)
    const struct CMUnitTest tests[] = {
        RUN(values_come_back),
        RUN(calls),
        RUN(says_how_values_are_written),
        RUN(says_which_name_was_meant),
        RUN(calls_that_fail),
        RUN(one_way),
        RUN(interrupted),
        RUN(what_fails_is_an_object_too),
        RUN(pings),
        RUN(traces_a_neighbour),
        RUN(lists_nodes),
        RUN(leaves_observers_out),
        RUN(crawls),
        RUN(draws),
        RUN(strange_titles),
        RUN(unwritable_output),
        cmocka_unit_test(dead_nodes),
        cmocka_unit_test(hosts_with_a_directory),
        cmocka_unit_test(several_hosts),
        cmocka_unit_test(no_grid),
        cmocka_unit_test(no_time),
    };
    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
