/* SPDX-License-Identifier: Apache-2.0 */
/* What all verbs have in common, and `moyai config`. */
#include "tests/cli/kit.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void version(void **state) {
    (void)state;
    struct cli c;
    assert_int_equal(cli_do(&c, "--version", NULL), 0);
    assert_string_equal(c.text[0].p, "moyai 0.1.0\n");
    cli_free(&c);
    assert_int_equal(cli_do(&c, "-V", NULL), 0);
    assert_string_equal(c.text[0].p, "moyai 0.1.0\n");
    cli_free(&c);
}

/* On standard output, with status 0, and the same in all ways of asking. */
static void help(void **state) {
    (void)state;
    struct cli a, b;
    assert_int_equal(cli_do(&a, "--help", NULL), 0);
    assert_int_equal(cli_do(&b, "help", NULL), 0);
    assert_string_equal(a.text[0].p, b.text[0].p);
    assert_string_equal(a.text[1].p, "");
    assert_int_equal(kit_count(&a.text[0], "Usage: moyai "), 1);
    cli_free(&a);
    cli_free(&b);
    assert_int_equal(cli_do(&a, "-h", NULL), 0);
    cli_free(&a);

    static const char *const verbs[] = {"run",   "node", "config", "key",   "endpoint", "ps",
                                        "graph", "call", "ping",   "trace", "leave"};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        assert_int_equal(cli_do(&a, verbs[i], "--help", NULL), 0);
        assert_int_equal(cli_do(&b, "help", verbs[i], NULL), 0);
        assert_string_equal(a.text[0].p, b.text[0].p);
        assert_string_equal(a.text[1].p, "");
        assert_non_null(strstr(a.text[0].p, "Usage: moyai "));
        assert_non_null(strstr(a.text[0].p, verbs[i]));
        cli_free(&a);
        cli_free(&b);
    }
}

/* The long option in a line of --help, "  -n, --count=COUNT   Processes"; of what is no such line, false. */
static bool option_of_help(const char *line, char name[40]) {
    const char *p = line + strspn(line, " ");
    if (p == line || *p != '-') return false;
    if (p[1] != '-' && (p[1] == 0 || strncmp(p + 2, ", ", 2) != 0)) return false;
    if (p[1] != '-') p += 4;
    return sscanf(p, "--%39[a-z-]", name) == 1;
}

/* The one in an item of a manual page, ".It Fl n Ar count , Fl Fl count Ar count". */
static bool option_of_page(const char *line, char name[40]) {
    const char *p = strncmp(line, ".It ", 4) == 0 ? memmem(line, strcspn(line, "\n"), "Fl Fl ", 6) : NULL;
    return p && sscanf(p, "Fl Fl %39[a-z-]", name) == 1;
}

static int options_in(const char *text, bool (*of)(const char *line, char name[40]), char names[40][40]) {
    int n = 0;
    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (of(p, names[n])) assert_true(++n < 40);
    return n;
}

static void expect_all(char a[][40], int n, char b[][40], int m, const char *page, const char *where) {
    for (int i = 0; i < n; i++) {
        bool found = false;
        for (int k = 0; k < m && !found; k++) found = strcmp(a[i], b[k]) == 0;
        if (!found) fail_msg("%s: --%s is not in %s", page, a[i], where);
    }
}

static bool has_word(const char *text, const char *word) {
    size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p++)
        if (!isalnum((unsigned char)p[n]) && !isalnum((unsigned char)p[-1])) return true;
    return false;
}

/* What a verb accepts, what --help and --usage list and what its page explains are the same. */
static void help_and_pages_agree(void **state) {
    (void)state;
    static const char *const verbs[] = {"",   "run",   "node", "config", "key",   "endpoint",
                                        "ps", "graph", "call", "ping",   "trace", "leave"};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        const char *const help_words[] = {verbs[i][0] ? verbs[i] : "--help", verbs[i][0] ? "--help" : NULL, NULL};
        const char *const usage_words[] = {verbs[i][0] ? verbs[i] : "--usage", verbs[i][0] ? "--usage" : NULL, NULL};
        char path[1000], listed[40][40], explained[40][40], want[64];
        struct cli c;
        cli_startv(&c, NULL, help_words);
        cli_close_in(&c);
        assert_int_equal(cli_wait(&c), 0);
        snprintf(path, sizeof path, "%s/moyai%s%s.1", kit_program("PAGES"), verbs[i][0] ? "-" : "", verbs[i]);
        char *page = kit_read(path);
        int n = options_in(c.text[0].p, option_of_help, listed), m = options_in(page, option_of_page, explained);
        assert_true(n >= 3);
        expect_all(listed, n, explained, m, path, "the page");
        expect_all(explained, m, listed, n, path, "--help");
        for (const char *p = c.text[0].p; *p; p += strcspn(p, "\n"), p += *p == '\n')
            if (strspn(p, " ") == strcspn(p, "\n") && *p == ' ') fail_msg("%s --help has a line of blanks", verbs[i]);
        static const char *const units[] = {"d", "h", "min", "s", "ms", "us", "ns"};
        for (size_t k = 0; strstr(c.text[0].p, "=TIME") && k < sizeof units / sizeof units[0]; k++) {
            const char *form = strstr(c.text[0].p, "TIME is a number");
            if (!form || !has_word(form, units[k])) fail_msg("%s --help: no word of the unit %s", verbs[i], units[k]);
        }
        if (strstr(c.text[0].p, "=SIZE")) assert_non_null(strstr(c.text[0].p, "SIZE is a number"));
        free(page);
        cli_free(&c);

        cli_startv(&c, NULL, usage_words);
        cli_close_in(&c);
        assert_int_equal(cli_wait(&c), 0);
        assert_string_equal(c.text[1].p, "");
        for (int k = 0; k < n; k++) {
            snprintf(want, sizeof want, "[--%.40s", listed[k]);
            if (!strstr(c.text[0].p, want)) fail_msg("%s --usage: no %s", verbs[i], want);
        }
        cli_free(&c);
    }
}

/* What is alike in all verbs that look at a grid stands in each of their pages. */
static void pages_say_alike_how_long_is_waited(void **state) {
    (void)state;
    static const char *const verbs[] = {"ps", "graph", "call", "ping", "trace", "leave"};
    static const char begin[] = "\nIn a grid of several hosts the first link is waited for", end[] = "\nreached.\n";
    char path[1000], *first = NULL;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        snprintf(path, sizeof path, "%s/moyai-%s.1", kit_program("PAGES"), verbs[i]);
        char *page = kit_read(path), *at = strstr(page, begin), *over = at ? strstr(at, end) : NULL;
        if (!over) fail_msg("%s: not how long is waited", path);
        *over = 0;
        if (!strstr(at, "\nplaces at which the grid is met have answered that they know of nobody, and no endpoint of "
                        "them began"))
            fail_msg("%s: not that an endpoint may be young", path);
        if (first && strcmp(at, first) != 0) fail_msg("%s: not as in moyai-ps.1:%s", path, at);
        if (!first) first = strdup(at);
        free(page);
    }
    free(first);
}

/* Status 2, nothing on standard output, a hint on standard error. */
static void usage_errors(void **state) {
    (void)state;
    static const struct {
        const char *words[8];
        const char *text;
    } wrong[] = {
        {{NULL}, "no verb; there are: run, node, ps,"},
        {{"frob"},
         "unknown verb 'frob'; the verbs are: run, node, ps, graph, call, ping, trace, move, leave, key, endpoint, "
         "config, "
         "and "
         "help"},
        {{"pnig"}, "unknown verb 'pnig' (did you mean 'ping'?); the verbs are: run, "},
        {{"hlep"}, "unknown verb 'hlep' (did you mean 'help'?); "},
        {{"--frob"}, "--frob"},
        {{"help", "ps", "extra"}, "unknown argument 'extra'"},
        {{"help", "ps", "--json"}, "unknown argument '--json'"},
        {{"help", "frob"}, "unknown verb 'frob'; the verbs are: run, node, "},
        {{"config", "--frob"}, "--frob"},
        {{"config", "frob"}, "'frob'"},
        {{"run", "--frob", "true"}, "--frob"},
        {{"key"}, "what to do"},
        {{"key", "frob"}, "'frob'"},
        {{"key", "new", "new"}, "'new'"},
        {{"key", "rotate", "--keep", "long"}, "'long'"},
        {{"key", "rotate", "--keep", "200000d"}, "more than 292 years"},
        {{"key", "new", "--keep", "1d"}, "for rotate"},
        {{"key", "show", "--key-file", ""}, "empty"},
        {{"endpoint", "--listen", "host:1"}, "host:1"},
        {{"endpoint", "--entries", "0"}, "'0'"},
        {{"endpoint", "x"}, "'x'"},
        {{"ps", "--frob"}, "--frob"},
        {{"ps", "x"}, "'x'"},
        {{"ps", "--timeout", "soon"}, "'soon'"},
        {{"graph", "--frob"}, "--frob"},
        {{"graph", "--dot", "--svg"}, "only one"},
        {{"ping", "--frob"}, "--frob"},
        {{"ping"}, "which node"},
        {{"ping", "a", "b"}, "'b'"},
        {{"ping", "-c", "0", "a"}, "--count: '0' is not a number of 1 or more"},
        {{"ping", "-i", "often", "a"}, "'often'"},
        {{"call", "--frob"}, "--frob"},
        {{"call"}, "which object? A reference, a name, or a node's id or its beginning"},
        {{"call", "a"}, "which method"},
        {{"call", "a", ""}, "1 to 255"},
        {{"call", "a", "b", "c"}, "argument 1: 'c' is not JSON"},
        {{"call", "a", "b", "99999999999999999999"},
         "argument 1: '99999999999999999999' is larger than 2^63 - 1; up to 2^64 - 1 it is written"},
        {{"call", "a", "b", "-99999999999999999999"}, "argument 1: '-99999999999999999999' is less than -2^63"},
        {{"call", "a", "b", "[1e999]"}, "argument 1: '[1e999]' is larger than a double"},
        {{"call", "a", "b", "1", "{"}, "argument 2: "},
        {{"run"}, "no program"},
        {{"run", ":", "true"}, "no program"},
        {{"run", "true", ":"}, "after ':'"},
        {{"run", "true", ":", ":", "true"}, "after ':'"},
        {{"run", "-n", "2"}, "no program"},
        {{"run", "-n", "0", "true"}, "'0'"},
        {{"run", "-n", "-1", "true"}, "'-1'"},
        {{"run", "-n", "x", "true"}, "'x'"},
        {{"run", "-n", "3x", "true"}, "'3x'"},
        {{"run", "-np", "2", "true"}, "write -n"},
        {{"run", "-n", "99999999999999999999", "true"}, "'9999"},
        {{"run", "-n", "32768", "true", ":", "true"}, "32768"},
        {{"run", "-n"}, "requires an argument"},
        {{"run", "--grace", "soon", "true"}, "'soon'"},
        {{"run", "--grace", "-1s", "true"}, "'-1s'"},
        {{"run", "--timeout", "0", "true"}, "'0'"},
        {{"run", "true", ":", "--keep", "true"}, "--keep"},
        {{"run", "true", ":", "--grid", "/x", "true"}, "--grid"},
        {{"run", "--grid", "/tmp", "--keep", "true"}, "--keep"},
        {{"run", "--grid", "/tmp", "--grid-file", "/tmp/x", "true"}, "--grid-file"},
        {{"run", ""}, "the program's name: it is empty; is a variable not set?"},
        {{"run", "--site", "x", "true"}, "--site is for grids of several hosts: --grid says which"},
        {{"run", "--site", "", "true"}, "--site: it is empty; is a variable not set?"},
        {{"run", "--output", "", "true"}, "--output: it is empty; is a variable not set?"},
        {{"run", "--grid-file", "", "true"}, "--grid-file: it is empty; is a variable not set?"},
        {{"run", "--on-nodes", "--dir", "", "true"}, "--dir: it is empty; is a variable not set?"},
        {{"run", "--key-file", "", "true"}, "--key-file: it is empty; is a variable not set?"},
        {{"node", "--site="}, "--site: it is empty; is a variable not set?"},
        {{"endpoint", "--port-file", ""}, "--port-file: it is empty; is a variable not set?"},
        {{"endpoint", "--key-file", ""}, "--key-file: it is empty; is a variable not set?"},
        {{"endpoint", "--listen", ""}, "--listen: it is empty; is a variable not set?"},
        {{"ping", ""}, "the name of a node: it is empty; is a variable not set?"},
        {{"trace", ""}, "the name of a node: it is empty; is a variable not set?"},
        {{"call", "", "b"}, "the name of the object: it is empty; is a variable not set?"},
        {{"move", "", "b"}, "the name of the object: it is empty; is a variable not set?"},
        {{"move", "a", ""}, "the name of the node: it is empty; is a variable not set?"},
        {{"run", "--site", "0123456789012345678901234567890123456789012345678901234567890123", "true"},
         "--site: \"0123456789012345678901234567890123456789012345678901234567890123\" is longer than 63 bytes"},
        {{"node", "--site", "0123456789012345678901234567890123456789012345678901234567890123"},
         "--site: \"0123456789012345678901234567890123456789012345678901234567890123\" is longer than 63 bytes"},
        /* `--grid $(cat missing)` takes what comes next. */
        {{"run", "--grid", "-n", "2", "true"}, "'-n' is not the address of a grid but an option"},
        {{"run", "--grid", "", "true"},
         "the grid's address is empty; it is DIR, file:DIR, http://HOST:PORT/GRID or HOST:PORT"},
        {{"run", "--grid", "file:", "true"}, "the grid's address is empty; it is DIR, file:DIR, http://HOST:PORT/GRID"},
        {{"run", "--grid", "ftp://localhost/x", "true"}, "DIR, file:DIR, http://HOST:PORT/GRID or HOST:PORT"},
        {{"run", "--grid", "fd:3,4", "true"},
         "'fd:3,4': fd: is for programs that a launcher has given these descriptors"},
        {{"node", "--grid", "fd:3,4"},
         "moyai run and moyai node, and the processes that they start, have not got them"},
        {{"ps", "--grid", "HTTP://h:1/lab"}, "'HTTP://h:1/lab' is not the address of a grid: write http:// in small"},
        {{"ps", "--grid", "http://h:1/l b"}, "is not the address of a grid: its name has no spaces"},
        {{"ps", "--grid", "http://gw/lab"}, "--grid: \"gw\": the port is missing; an endpoint's is 7471 by default"},
        {{"node", "--grid", "http://[::1]/lab"}, "\"[::1]\": the port is missing; an endpoint's is 7471 by default"},
        {{"ps", "--grid", "http://h:1/a/b"}, "moyai ps: --grid: \"http://h:1/a/b\": a grid cannot be called"},
        {{"ps", "--grid", "--json"}, "'--json' is not the address of a grid but an option"},
        {{"ps", "--grid", ""}, "the address of --grid is empty; it is DIR, file:DIR, http://"},
        {{"call", "--grid", "", "a", "b"}, "the address of --grid is empty"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct cli c;
        cli_startv(&c, NULL, wrong[i].words);
        cli_close_in(&c);
        assert_int_equal(cli_wait(&c), 2);
        assert_string_equal(c.text[0].p, "");
        if (!strstr(c.text[1].p, wrong[i].text)) fail_msg("%zu: %s", i, c.text[1].p);
        cli_free(&c);
    }
}

/* Of the options of that verb, wherever it stands among the words. */
static void a_mistyped_option_is_guessed(void **state) {
    (void)state;
    static const struct {
        const char *words[8];
        const char *first; /* the line */
    } wrong[] = {
        {{"ps", "--gird", "/x"}, "moyai ps: unrecognized option '--gird'; did you mean '--grid'?"},
        {{"ps", "--gird=/x", "--json"}, "moyai ps: unrecognized option '--gird'; did you mean '--grid'?"},
        {{"ping", "a", "--timout", "1s"}, "moyai ping: unrecognized option '--timout'; did you mean '--timeout'?"},
        {{"call", "a", "b", "-1", "--onway"}, "moyai call: unrecognized option '--onway'; did you mean '--oneway'?"},
        {{"run", "-n", "2", "--kepe", "true"}, "moyai run: unrecognized option '--kepe'; did you mean '--keep'?"},
        {{"run", "true", ":", "--no-prefx", "true"},
         "moyai run: unrecognized option '--no-prefx'; did you mean '--no-prefix'?"},
        {{"config", "--jsno"}, "moyai config: unrecognized option '--jsno'; did you mean '--json'?"},
        {{"--verison"}, "moyai: unrecognized option '--verison'; did you mean '--version'?"},
        /* no byte that a terminal would obey */
        {{"ps", "--fr\033[31mob"}, "moyai ps: unrecognized option '--fr?[31mob'"},
        {{"ps", "--fr\033[31mob=x"}, "moyai ps: unrecognized option '--fr?[31mob'"},
        {{"ps", "-\033"}, "moyai ps: unrecognized option '-?'"},
        {{"ping", "-c1\377", "a"}, "moyai ping: --count: '1?' is not a number of 1 or more"},
        {{"ping", "-\xc3\xa9x", "a"}, "moyai ping: unrecognized option '-\xc3\xa9x'"},
        {{"ps", "-z"}, "moyai ps: invalid option -- 'z'"},
        {{"-\033z"}, "moyai: unrecognized option '-?z'"},
        /* what is like none, or another verb's, or like many: in the C library's words */
        {{"ps", "--onway"}, "moyai ps: unrecognized option '--onway'"},
        {{"ps", "--frob"}, "moyai ps: unrecognized option '--frob'"},
        {{"run", "--no", "true"}, "moyai run: option '--no' is ambiguous; possibilities: "},
        {{"ps", "--json=x"}, "moyai ps: option '--json' doesn't allow an argument"},
        {{"ps", "--timeout"}, "moyai ps: option '--timeout' requires an argument"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct cli c;
        cli_startv(&c, NULL, wrong[i].words);
        cli_close_in(&c);
        assert_int_equal(cli_wait(&c), 2);
        assert_string_equal(c.text[0].p, "");
        const char *said = strstr(c.text[1].p, wrong[i].first);
        if (!said || (said != c.text[1].p && said[-1] != '/')) fail_msg("%zu: %s", i, c.text[1].p);
        assert_int_equal(kit_count(&c.text[1], "unrecognized"), strstr(wrong[i].first, "unrecognized") != NULL);
        assert_int_equal(kit_count(&c.text[1], "did you mean"), strstr(wrong[i].first, "did you mean") != NULL);
        assert_int_equal(kit_count(&c.text[1], "Try `moyai"), 1);
        cli_free(&c);
    }
}

/* Options end at the program: what follows is the program's. */
static void programs_own_options(void **state) {
    (void)state;
    struct cli c;
    assert_int_equal(cli_do(&c, "run", "--no-prefix", "echo", "--help", "-n", "3", NULL), 0);
    assert_string_equal(c.text[0].p, "--help -n 3\n");
    cli_free(&c);
    assert_int_equal(cli_do(&c, "run", "--no-prefix", "--", "echo", "-V", NULL), 0);
    assert_string_equal(c.text[0].p, "-V\n");
    cli_free(&c);
    assert_int_equal(cli_do(&c, "run", "--no-prefix", "echo", "--gird", NULL), 0);
    assert_string_equal(c.text[0].p, "--gird\n");
    cli_free(&c);
}

static void config(void **state) {
    (void)state;
    struct cli c, d;
    const char *const env[] = {"MOYAI_STACK=64k", NULL};
    cli_start(&c, &(struct cli_opts){.env = env}, "config", NULL);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[0], "MOYAI_GRID "), 1);
    assert_int_equal(kit_count(&c.text[0], "environment"), 1);
    assert_int_equal(kit_count(&c.text[0], "(default "), 1); /* of what is not its default */
    assert_int_equal(kit_count(&c.text[0], "VARIABLE "), 1);
    assert_int_equal(kit_count(&c.text[0], "host:port of a member, fd:R,W; none: "), 1);
    int all = kit_count(&c.text[0], "MOYAI_");
    cli_start(&d, &(struct cli_opts){.env = env}, "config", "--list", NULL);
    assert_int_equal(cli_wait(&d), 0);
    assert_string_equal(c.text[0].p, d.text[0].p);
    cli_free(&c);
    cli_free(&d);
    cli_start(&c, &(struct cli_opts){.env = env}, "config", "--json", NULL);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(c.text[0].p[0], '{');
    assert_non_null(strstr(c.text[0].p, "\"stack\": {\"variable\": \"MOYAI_STACK\""));
    assert_non_null(strstr(c.text[0].p, "\"value\": 65536"));
    cli_free(&c);

    /* Values are whatever somebody has set, and names nearly so. */
    const char *const odd[] = {"MOYAI_TITLE=a\033[31m\xc2\x9b\xff b", "MOYAI_O\033DD=x\ny", "MOYAI_STACK=\033[31m",
                               NULL};
    cli_start(&c, &(struct cli_opts){.env = odd}, "config", NULL);
    assert_int_equal(cli_wait(&c), 1);
    assert_int_equal(kit_count(&c.text[0], "MOYAI_TITLE         a?[31m?? b           environment  "), 1);
    assert_int_equal(kit_count(&c.text[0], "MOYAI_O?DD          x y                  unknown      "), 1);
    assert_int_equal(kit_count(&c.text[0], "MOYAI_STACK         ?[31m                bad          "), 1);
    assert_int_equal(kit_count(&c.text[0], "\033") + kit_count(&c.text[0], "\xc2\x9b"), 0);
    cli_free(&c);

    /* A mistyped one is listed; a program says it in its log, once, and those of moyai run are none. */
    const char *const typo[] = {"MOYAI_STAK=64k", "MOYAI_LOG=warning", NULL};
    cli_start(&c, &(struct cli_opts){.env = typo}, "config", NULL);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[0], "MOYAI_STAK          64k                  unknown "), 1);
    assert_int_equal(kit_count(&c.text[0], "Did you mean MOYAI_STACK?"), 1);
    assert_string_equal(c.text[1].p, "");
    cli_free(&c);
    cli_start(&c, &(struct cli_opts){.env = typo}, "run", "@n", "serve", "x", ":", "@n", "serve", "y", NULL);
    cli_await(&c, 2, "MOYAI-CONFIG-UNKNOWN", 3);
    assert_int_equal(kill(c.pid, SIGTERM), 0);
    assert_int_equal(cli_wait(&c), 143);
    assert_int_equal(kit_count(&c.text[1], "MOYAI-CONFIG-UNKNOWN"), 3);
    assert_int_equal(kit_count(&c.text[1], "$MOYAI_STAK is "), 3);
    assert_int_equal(
        kit_count(&c.text[1], "moyai run: MOYAI_STAK is not a setting of moyai; did you mean MOYAI_STACK?"), 1);
    cli_free(&c);
    /* The command says it, whatever the level of the log, and goes on. */
    const char *const silent[] = {"MOYAI_GIRD=file:/x", "MOYAI_COLOUR=red", "MOYAI_LOG=off", NULL};
    cli_start(&c, &(struct cli_opts){.env = silent}, "run", "--no-prefix", "true", NULL);
    assert_int_equal(cli_wait(&c), 0);
    assert_string_equal(c.text[0].p, "");
    assert_int_equal(kit_count(&c.text[1], ""), 2);
    assert_int_equal(kit_count(&c.text[1], "moyai run: MOYAI_GIRD is not a setting of moyai; did you mean MOYAI_GRID?"),
                     1);
    assert_int_equal(
        kit_count(&c.text[1], "moyai run: MOYAI_COLOUR is not a setting of moyai (moyai config lists all)"), 1);
    cli_free(&c);

    const char *const bad[] = {"MOYAI_STACK=huge", NULL};
    cli_start(&c, &(struct cli_opts){.env = bad}, "config", NULL);
    assert_int_equal(cli_wait(&c), 1);
    assert_non_null(strstr(c.text[1].p, "MOYAI_STACK"));
    cli_free(&c);
    /* All is listed, and all that is wrong. */
    const char *const several[] = {"MOYAI_STACK=huge", "MOYAI_GRID=foo:", "MOYAI_DEGREE=99", "MOYAI_TITLE=t", NULL};
    cli_start(&c, &(struct cli_opts){.env = several}, "config", NULL);
    assert_int_equal(cli_wait(&c), 1);
    assert_int_equal(kit_count(&c.text[0], "MOYAI_"), all);
    assert_int_equal(kit_count(&c.text[0], "MOYAI_STACK         huge                 bad          $MOYAI_STACK is "),
                     1);
    assert_int_equal(kit_count(&c.text[0], "MOYAI_GRID          foo:                 bad          $MOYAI_GRID: "), 1);
    assert_int_equal(kit_count(&c.text[0], " bad "), 3);
    assert_int_equal(kit_count(&c.text[0], "MOYAI_TITLE         t                    environment"), 1);
    assert_int_equal(kit_count(&c.text[1], "moyai config: $MOYAI_"), 3);
    cli_free(&c);
    cli_start(&c, &(struct cli_opts){.env = several}, "config", "--json", NULL);
    assert_int_equal(cli_wait(&c), 1);
    assert_int_equal(kit_count(&c.text[0], "\"value\": \"huge\""), 1);
    assert_int_equal(kit_count(&c.text[0], ", \"error\": \"$MOYAI_"), 3);
    assert_int_equal(kit_count(&c.text[0], "\"variable\": "), all);
    cli_free(&c);
    static const char *const wrong[][2] = {
        {"MOYAI_GRID=tmp/foo", "$MOYAI_GRID: \"tmp/foo\" is no rendezvous: /DIR, file:/DIR, "},
        {"MOYAI_GRID=file:foo", "$MOYAI_GRID: \"file:foo\""},
        {"MOYAI_RUN_DIR=relative", "$MOYAI_RUN_DIR: run directory 'relative'"},
        {"MOYAI_PARENT=me", "$MOYAI_PARENT: \"me\""},
        {"MOYAI_LEAVE_DEADLINE=0", "$MOYAI_LEAVE_DEADLINE is \"0\"; accepted is "},
        {"MOYAI_LOG=verbose", "$MOYAI_LOG: log levels \"verbose\""},
        {"MOYAI_LOG=warning,lnk=trace", "$MOYAI_LOG: log levels \"warning,lnk=trace\""},
        {"MOYAI_PORT_RANGE=9-x", "$MOYAI_PORT_RANGE: \"9-x\""},
        {"MOYAI_LISTEN=any,a:b:c", "$MOYAI_LISTEN: \"a:b:c\""},
        {"MOYAI_LISTEN=foo", "$MOYAI_LISTEN: \"foo\": not a numeric address"},
        {"MOYAI_ADVERTISE=h:99999", "$MOYAI_ADVERTISE: \"h:99999\""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *const one[] = {wrong[i][0], NULL};
        cli_start(&c, &(struct cli_opts){.env = one}, "config", NULL);
        assert_int_equal(cli_wait(&c), 1);
        assert_int_equal(kit_count(&c.text[0], " bad "), 1);
        if (!strstr(c.text[1].p, wrong[i][1])) fail_msg("%s: %s", wrong[i][0], c.text[1].p);
        cli_free(&c);
    }
    cli_start(&c, &(struct cli_opts){.env = bad}, "run", "true", NULL);
    assert_int_equal(cli_wait(&c), 2);
    assert_non_null(strstr(c.text[1].p, "MOYAI_STACK"));
    cli_free(&c);
}

/* Names may hold anything: what is said of them is one line, and nothing that a terminal obeys. */
static void names_are_said_in_one_line(void **state) {
    (void)state;
#define NASTY "/nowhere/no\n\033[31m\xc2\x9b\tMARK"
    static const char *const words[][6] = {
        {NASTY},
        {"run", NASTY},
        {"run", "--timeout", NASTY, "true"},
        {"run", "--grid", NASTY, "true"},
        {"run", "--output", NASTY, "true"},
        {"run", "--grid-file", NASTY, "true"},
        {"node", "--grid", NASTY},
        {"ps", NASTY},
        {"ps", "--grid", NASTY},
        {"ping", "-i", NASTY, "x"},
        {"call", "a", "b", NASTY},
        {"key", NASTY},
        {"key", "show", "--key-file", NASTY},
        {"endpoint", "--listen", NASTY},
        {"endpoint", "--key-file", NASTY},
        {"trace", "--grid", NASTY, "x"},
        {"graph", "--key-file", NASTY},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct cli c;
        cli_startv(&c, NULL, words[i]);
        assert_int_not_equal(cli_wait(&c), 0);
        for (const char *p = c.text[1].p; *p; p++)
            if ((unsigned char)*p < ' ' && *p != '\n') fail_msg("%zu: %s", i, c.text[1].p);
        if (!strstr(c.text[1].p, "/no ?[31m? MARK") || strstr(c.text[1].p, "\xc2\x9b"))
            fail_msg("%zu: %s", i, c.text[1].p);
        cli_free(&c);
    }
}

/* What could not be written is an error. */
static void full_disk(void **state) {
    (void)state;
    struct cli c;
    const char *const words[] = {"config", NULL};
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    cli_startv(&c, &(struct cli_opts){.out = full}, words);
    assert_int_equal(cli_wait(&c), 1);
    assert_non_null(strstr(c.text[1].p, "cannot write"));
    cli_free(&c);
    close(full);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version),
        cmocka_unit_test(help),
        cmocka_unit_test(help_and_pages_agree),
        cmocka_unit_test(pages_say_alike_how_long_is_waited),
        cmocka_unit_test(usage_errors),
        cmocka_unit_test(a_mistyped_option_is_guessed),
        cmocka_unit_test(programs_own_options),
        cmocka_unit_test(config),
        cmocka_unit_test(names_are_said_in_one_line),
        cmocka_unit_test(full_disk),
    };
    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
