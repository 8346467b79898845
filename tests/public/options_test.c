/* SPDX-License-Identifier: Apache-2.0 */
/* Options with wrong values: the error calls the option as it was given, also where a node that is alone ignores it. */
#include "tests/public/kit.h"

#include <unistd.h>

#define LONG       "a-host-that-has-more-letters-in-its-name-than-any-that-there-is"
#define NAME_OF_65 "a234567890123456789012345678901234567890123456789012345678901234.5"

static void expect(const struct moyai_node_opts *o, int code, const char *begin) {
    struct moyai_error e = {0};
    moyai_node *n = NULL;
    KIT_RC(moyai_node_new(&n, o, &e), code);
    FIBER_ASSERT(!n);
    if (strncmp(e.text, begin, strlen(begin)) != 0) FIBER_FAIL("\"%s\" does not begin with \"%s\"", e.text, begin);
}

static void of_the_environment(void **state) {
    (void)state;
    static const char *const wrong[][3] = {
        {"MOYAI_GRID", "tmp/foo", "$MOYAI_GRID: \"tmp/foo\" is no rendezvous"},
        {"MOYAI_GRID", "file:foo", "$MOYAI_GRID: \"file:foo\" is no rendezvous"},
        {"MOYAI_GRID", "http://h:1/lab/x",
         "$MOYAI_GRID: \"http://h:1/lab/x\": a grid cannot be called \"lab/x\": 1 to 64 char"},
        {"MOYAI_GRID", "h:1 http://h:1/a%20b/",
         "$MOYAI_GRID: \"http://h:1/a%20b/\": a grid cannot be called \"a%20b\""},
        {"MOYAI_GRID", "http://h:1/..", "$MOYAI_GRID: \"http://h:1/..\": a grid cannot be called \"..\""},
        {"MOYAI_GRID", "http://h:1/" NAME_OF_65, "$MOYAI_GRID: \"http://h:1/" NAME_OF_65 "\": a grid cannot be called"},
        {"MOYAI_GRID", "http://h:1", "$MOYAI_GRID: \"http://h:1\": not of the form http://HOST:PORT/GRID"},
        {"MOYAI_GRID", "http://h:99999/g", "$MOYAI_GRID: \"h:99999\": a port is a number from 1 to 65535"},
        {"MOYAI_GRID", "http://h:/g", "$MOYAI_GRID: \"h:\": a port is a number from 1 to 65535"},
        {"MOYAI_GRID", "http://u:p@[::1]:0/g", "$MOYAI_GRID: \"[::1]:0\": a port is a number from 1 to 65535"},
        {"MOYAI_GRID", "http://u:p@[::1]/g", "$MOYAI_GRID: \"[::1]\": the port is missing"},
        {"MOYAI_GRID", "http://u:p@[::1]:7471/..",
         "$MOYAI_GRID: \"http://u:p@[::1]:7471/..\": a grid cannot be called"},
        {"MOYAI_GRID", "http://2001:db8::7:7471/g", "$MOYAI_GRID: \"2001:db8::7:7471\": write an IPv6 address in"},
        {"MOYAI_GRID", "http://:7471/g", "$MOYAI_GRID: \":7471\": no host"},
        {"MOYAI_GRID", "http://" LONG LONG LONG LONG LONG ":1/g",
         "$MOYAI_GRID: \"a-host-that-has-more-letters-in-its-name...\": too long"},
        {"MOYAI_RUN_DIR", "foo", "$MOYAI_RUN_DIR: run directory 'foo' must be an absolute path"},
        {"MOYAI_PARENT", "foo", "$MOYAI_PARENT: \"foo\" is no node id"},
        {"MOYAI_LOG", "lnk=trace", "$MOYAI_LOG: log levels \"lnk=trace\""},
        {"MOYAI_PORT_RANGE", "x", "$MOYAI_PORT_RANGE: \"x\""},
        {"MOYAI_LISTEN", "any 127.0.0.1 b:c", "$MOYAI_LISTEN: \"b:c\""},
        {"MOYAI_LISTEN", "any foo", "$MOYAI_LISTEN: \"foo\": not a numeric address"},
        {"MOYAI_LISTEN", "127.0.0.1 99999",
         "$MOYAI_LISTEN: \"99999\": no host: HOST:PORT; any address to listen at is"},
        {"MOYAI_LISTEN", "[::1]:x", "$MOYAI_LISTEN: \"[::1]:x\": a port is a number"},
        {"MOYAI_PORT_RANGE", "70000-70100", "$MOYAI_PORT_RANGE: \"70000-70100\""},
        {"MOYAI_ADVERTISE", "b:c", "$MOYAI_ADVERTISE: \"b:c\""},
        {"MOYAI_ADVERTISE", "7471", "$MOYAI_ADVERTISE: \"7471\": no host"},
        {"MOYAI_ADVERTISE", LONG LONG LONG LONG LONG,
         "$MOYAI_ADVERTISE: \"a-host-that-has-more-letters-in-its-name...\": too long"},
        {"MOYAI_SITE", NAME_OF_65, "$MOYAI_SITE: \"" NAME_OF_65 "\" is longer than 63 bytes"},
        {"MOYAI_STACK", "1k", "$MOYAI_STACK is \"1k\""},
        {"MOYAI_LEAVE_DEADLINE", "0",
         "$MOYAI_LEAVE_DEADLINE is \"0\"; accepted is a duration such as 10s, 500ms, 5m or 1h, at least 1ms"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *name = wrong[i][0];
        char *had = getenv(name) ? strdup(getenv(name)) : NULL;
        setenv(name, wrong[i][1], 1);
        expect(NULL, MOYAI_EINVAL, wrong[i][2]);
        if (strcmp(name, "MOYAI_GRID") != 0) { /* and when it is alone */
            unsetenv("MOYAI_GRID");
            expect(NULL, MOYAI_EINVAL, wrong[i][2]);
            setenv("MOYAI_GRID", kit_grid(), 1);
        }
        if (had)
            setenv(name, had, 1);
        else
            unsetenv(name);
        free(had);
    }
}

static void of_the_program(void **state) {
    (void)state;
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    o.grid = "tmp/foo";
    expect(&o, MOYAI_EINVAL, "option grid: \"tmp/foo\" is no rendezvous");
    o.grid = NULL;
    o.run_dir = "foo";
    expect(&o, MOYAI_EINVAL, "option run_dir: run directory 'foo'");
    o.run_dir = NULL;
    o.site = NAME_OF_65;
    expect(&o, MOYAI_EINVAL, "option site: \"" NAME_OF_65 "\" is longer than 63 bytes");
    o.site = NULL;
    o.port_range = "x";
    expect(&o, MOYAI_EINVAL, "option port_range: \"x\"");
    o.port_range = NULL;
    o.reattach = -1;
    expect(&o, MOYAI_EINVAL, "option reattach: -1 ns; a time is not negative");
    o.reattach = 0;
    struct {
        size_t *at, value;
        const char *begin;
    } numbers[] = {{&o.max_fibers, SIZE_MAX, "option max_fibers: 18446744073709551615 is not from 1 to 10000000"},
                   {&o.max_fibers, 10000001, "option max_fibers: 10000001 is not"},
                   {&o.queue_calls, SIZE_MAX, "option queue_calls: "},
                   {&o.queue_bytes, SIZE_MAX, "option queue_bytes: "},
                   {&o.queue_bytes, 4095, "option queue_bytes: 4095 is not from 4096 to "},
                   {&o.max_message, SIZE_MAX, "option max_message: "},
                   {&o.max_message, 1, "option max_message: 1 is not"},
                   {&o.stack, SIZE_MAX, "option stack: "},
                   {&o.stack, 1, "option stack: "}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        *numbers[i].at = numbers[i].value;
        expect(&o, MOYAI_EINVAL, numbers[i].begin);
        *numbers[i].at = 0;
    }
}

/* What only the use of it tells. */
static void what_cannot_be_used(void **state) {
    (void)state;
    char missing[300], grid[320];
    snprintf(missing, sizeof missing, "%s/not/there", kit_dir());
    snprintf(grid, sizeof grid, "file:%s", missing);
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    o.grid = grid;
    expect(&o, MOYAI_ESYS, "option grid: rendezvous directory '");
    o.grid = NULL;
    o.run_dir = missing;
    expect(&o, MOYAI_ESYS, "option run_dir: run directory '");
    setenv("MOYAI_GRID", grid, 1);
    expect(NULL, MOYAI_ESYS, "$MOYAI_GRID: rendezvous directory '");
    setenv("MOYAI_GRID", kit_grid(), 1);
    setenv("MOYAI_RUN_DIR", missing, 1);
    expect(NULL, MOYAI_ESYS, "$MOYAI_RUN_DIR: run directory '");
    setenv("MOYAI_RUN_DIR", kit_dir(), 1);
    setenv("MOYAI_EVENTS", missing, 1);
    expect(NULL, MOYAI_ESYS, "$MOYAI_EVENTS: ");
    unsetenv("MOYAI_EVENTS");
}

/* A title that is too long is cut. */
static void a_long_title_is_cut(void **state) {
    (void)state;
    char title[201];
    memset(title, 'x', sizeof title);
    title[200] = 0;
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    o.title = title;
    moyai_node *n = kit_node(&o);
    moyai_ref *self = NULL;
    moyai_value *v = NULL;
    const char *got = NULL;
    KIT_OK(moyai_node_ref(n, moyai_node_self(n), &self));
    KIT_OK(moyai_call(self, "info", MOYAI_NONE, MOYAI_INTO(&v), NULL));
    KIT_OK(moyai_value_get(moyai_value_find(v, "title"), MOYAI_INTO(&got)->v[0]));
    FIBER_ASSERT_INT(strlen(got), 63);
    moyai_value_free(v);
    moyai_ref_unref(self);
    moyai_node_free(n);
}

static int tests(void) {
    const struct CMUnitTest list[] = {
        cmocka_unit_test(of_the_environment),
        cmocka_unit_test(of_the_program),
        cmocka_unit_test(what_cannot_be_used),
        cmocka_unit_test(a_long_title_is_cut),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
