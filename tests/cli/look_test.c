/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that look at a grid, with nodes in processes of their own: ping, trace, ps, graph. moyai call has
 * call_test.c. */
#include "tests/cli/look_kit.h"
#include "tests/support/port.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
    assert_int_equal(kit_count(&c.text[0], ", within 20 ms: "), 2); /* why, as far as is known */
    HAS(c.text[0].p, " the node");
    HAS(c.text[0].p, "2 sent, 0 answered, 100% lost");
    cli_free(&c);
    assert_int_equal(IN_GRID("ping", "-c", "1", "--json", "--timeout", "20ms", id), 1);
    HAS(c.text[0].p, " within 20 ms");
    HAS(c.text[0].p, " the node");
    cli_free(&c);
    kill(pid_b, SIGCONT);
    assert_int_equal(IN_GRID("ping", "-c", "1", id), 0);
    cli_free(&c);

    assert_int_equal(IN_GRID("ping", "nobody"), 1);
    HAS_NOT(c.text[1].p, "first four digits");
    cli_free(&c);
    assert_int_equal(entries(), 3);
}

/* Of an id that is too short; a letter, or what is no part of an id, is a name. */
static void an_id_has_four_digits(void **state) {
    (void)state;
    static const struct {
        const char *target;
        bool hint;
    } some[] = {{"209", true}, {"f7", true}, {"F7b", true}, {"x09", false}, {"e", false}, {"00112", false}};
    static const char *const verbs[] = {"ping", "trace", "call"};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
        for (size_t k = 0; k < 3; k++) {
            assert_int_equal(IN_GRID(verbs[k], some[i].target, k == 2 ? "info" : NULL), 1);
            if (some[i].hint)
                HAS(c.text[1].p, "; of a node's id at least its first four digits are needed");
            else
                HAS_NOT(c.text[1].p, "first four digits");
            cli_free(&c);
        }
}

/* From then on a signal is the node's, which the verb asks. */
static bool takes_signals(pid_t pid) {
    char path[64], to[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    assert_non_null(d);
    bool found = false;
    for (struct dirent *e; (e = readdir(d));) {
        ssize_t n = readlinkat(dirfd(d), e->d_name, to, sizeof to - 1);
        to[n < 0 ? 0 : n] = 0;
        found |= strstr(to, "[signalfd]") != NULL;
    }
    closedir(d);
    return found;
}

/* While they wait for one who does not answer. */
static void who_is_interrupted_says_so(void **state) {
    (void)state;
    static const char *const verbs[] = {"ps", "graph", "trace"};
    char id[33];
    id_of(pid_b, id);
    kill(pid_b, SIGSTOP);
    for (int i = 0; i < 6; i++) {
        const char *verb = verbs[i / 2], *json = i % 2 ? "--json" : NULL;
        const bool traces = i > 3;
        const char *const words[] = {
            verb, "--grid", grid, "--timeout", traces ? "2s" : "1h", traces ? id : json, traces ? json : NULL, NULL};
        cli_startv(&c, NULL, words);
        while (!takes_signals(c.pid)) usleep(1000);
        kill(c.pid, i % 2 ? SIGTERM : SIGINT);
        assert_int_equal(cli_wait(&c), 130);
        HAS(c.text[1].p, ": interrupted\n");
        if (json)
            has_error(c.text[0].p, "\"MOYAI_ECANCELED\"", "\"interrupted\"");
        else
            assert_string_equal(c.text[0].p, "");
        cli_free(&c);
    }
    kill(pid_b, SIGCONT);
    assert_int_equal(entries(), 3);
}

/* What each level tells of a node that serves a call. */
static void the_log_tells_of_links_and_calls(void **state) {
    (void)state;
    static const char *const levels[] = {"MOYAI_LOG=info", "MOYAI_LOG=debug", "MOYAI_LOG=debug,object=trace"};
    for (size_t i = 0; i < 3; i++) {
        const char *const env[] = {levels[i], NULL};
        struct cli other;
        cli_start(&other, &(struct cli_opts){.env = env}, "run", "--grid", grid, "@n", "serve", "logged", NULL);
        cli_await(&other, 1, "serving", 1);
        assert_int_equal(IN_GRID("call", "logged", "learn", "\"a\""), 0);
        cli_free(&c);
        assert_int_equal(IN_GRID("call", "logged", "try"), 0);
        cli_free(&c);
        kill(other.pid, SIGTERM);
        assert_int_equal(cli_wait(&other), 143);
        const struct {
            size_t from;
            const char *text;
        } lines[] = {
            {1, " debug overlay MOYAI-LINK-UP link to node "},
            {1, " (\"moyai call\", pid "},
            {1, " debug overlay MOYAI-LINK-DOWN no link to node "},
            {1, " debug overlay MOYAI-NODE-LEFT node "},
            {2, " trace object MOYAI-CALL-SERVED method \"learn\" of class \"Server\" begins"},
            {2, " trace object MOYAI-CALL-MADE call of \"pid\" at node "},
        };
        for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++)
            if ((strstr(other.text[1].p, lines[k].text) != NULL) != (i >= lines[k].from))
                fail_msg("%s: %s: %s", levels[i], lines[k].text, other.text[1].p);
        cli_free(&other);
    }
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

/* Who looks at that node of three is not seen by others who look, though he is linked to nodes; nor missed when he is
 * stopped. */
static void is_looked_over(const char *name) {
    struct cli other;
    cli_start(&other, NULL, "ping", "--grid", grid, "-i", "1ms", name, NULL);
    cli_await(&other, 1, "answer of node", 1);
    for (int stopped = 0; stopped < 2; stopped++) {
        if (stopped) kill(other.pid, SIGSTOP);
        assert_int_equal(IN_GRID("ps", "--timeout", stopped ? "1h" : "2s"), 0); /* it is not waited for */
        assert_int_equal(kit_count(&c.text[0], ""), 4);
        HAS_NOT(c.text[0].p, "moyai ping");
        cli_free(&c);
        assert_int_equal(IN_GRID("ps", "--json"), 0);
        HAS_NOT(c.text[0].p, "moyai ping"); /* nor is its link */
        HAS(c.text[0].p, "],\n \"complete\": true, \"unseen\": []}\n");
        cli_free(&c);
        assert_int_equal(IN_GRID("graph"), 0);
        HAS_NOT(c.text[0].p, "moyai ping");
        cli_free(&c);
    }
    kill(other.pid, SIGCONT);
    kill(other.pid, SIGTERM);
    assert_int_equal(cli_wait(&other), 0);
    cli_free(&other);
}

static void leaves_observers_out(void **state) {
    (void)state;
    is_looked_over("b");
    assert_int_equal(entries(), 3);
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
    HAS(c.text[0].p, "],\n \"complete\": true, \"unseen\": []}\n");
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
    static const char *const words[][2] = {{"ps", NULL}, {"graph", NULL}, {"graph", "--dot"}, {"ps", "--json"}};
    char nobody[300];
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(IN_GRID(words[i][0], words[i][1]), 0);
        snprintf(nobody, sizeof nobody, "moyai %s: nobody is in the grid at '%s' now\n", words[i][0], grid);
        assert_string_equal(c.text[1].p, i < 3 ? nobody : "");
        cli_free(&c);
    }
    assert_int_equal(IN_GRID("ps"), 0);
    assert_int_equal(kit_count(&c.text[0], ""), 1);
    cli_free(&c);
    snprintf(command, sizeof command, "rm -r %s %s/moyai", dir, kit_dir());
    assert_int_equal(system(command), 0);
}

/* ---- several hosts --------------------------------------------------------------------------- */

/* The way to a node, directly or over the one in the middle. */
static void traces(const char *id, const char *title, bool relayed) {
    char want[64];
    assert_int_equal(IN_GRID("trace", id), 0);
    assert_int_equal(kit_count(&c.text[0], "  tcp  "), relayed ? 2 : 1);
    if (strcmp(title, "left") == 0) { /* in columns, as that of moyai ps: its site's name is the longer one */
        HAS(c.text[0].p, "  here        cli_node\n");
        HAS(c.text[0].p, "  over there  cli_node\n");
    }
    snprintf(want, sizeof want, " %d  %.8s  tcp  ", relayed ? 2 : 1, id);
    HAS(c.text[0].p, want);
    cli_free(&c);
    assert_int_equal(IN_GRID("trace", "--json", id), 0);
    HAS(c.text[0].p, "\"whole\": true");
    assert_int_equal(kit_count(&c.text[0], "\"kind\": \"tcp\""), relayed ? 2 : 1);
    assert_int_equal(kit_count(&c.text[0], "\"ms\": "), relayed ? 2 : 1);
    cli_free(&c);
}

/* Of a node that nobody has heard of it is said what was given, and what may be the matter. */
static void asks_who_has_never_been(const char *id) {
    static const char nobody[] = "cafecafecafecafecafecafecafecafe";
    static const char of_nobody[] = "moyai:00112233445566778899aabbccddeeff@cafecafecafecafecafecafecafecafe";
    const struct {
        const char *words[5];
        int status;
    } verbs[] = {{{"trace", nobody}, 1},
                 {{"leave", nobody}, 1},
                 {{"leave", of_nobody}, 1},
                 {{"move", of_nobody, id}, 1},
                 {{"move", of_nobody, nobody}, 1},
                 {{"call", nobody, "info"}, 124},
                 {{"call", of_nobody, "pid"}, 124},
                 {{"call", "--oneway", of_nobody, "pid"}, 124},
                 {{"ping", "-c", "1", nobody}, 1}};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        for (int json = 0; json < 2; json++) {
            const char *const *w = verbs[i].words, *all[9] = {w[0], "--timeout", "500ms"};
            int n = 3;
            if (json) all[n++] = "--json";
            for (int k = 1; w[k]; k++) all[n++] = w[k];
            assert_int_equal(in_grid(all), verbs[i].status);
            const bool pinged = strcmp(w[0], "ping") == 0;
            if (json || pinged) HAS(c.text[0].p, "no way to the node is known: it does not answer, is in another part");
            if (!pinged) HAS(c.text[1].p, " within 500 ms: no way to the node is known: it does not answer, ");
            if (!pinged) HAS(c.text[1].p, "cafecafe' ");
            cli_free(&c);
        }
    }
}

/* No directory knows the nodes, and none but one can be connected to: who looks goes from that one to the others, and
 * talks to them through it. */
static void several_hosts(void **state) {
    (void)state;
    static char base[64] = "/tmp/moyai-cli-look-XXXXXX", key[100], listen_at[220], dir[3][100], command[100];
    assert_non_null(mkdtemp(base));
    snprintf(key, sizeof key, "MOYAI_KEY_FILE=%s/key", base);
    snprintf(grid, sizeof grid, "127.0.0.1:%d", test_free_port());
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
        traces(id, (const char *[]){"middle", "left", "right"}[i], i > 0);
        if (i == 0) asks_who_has_never_been(id);
    }
    is_looked_over("left");
    for (int i = 2; i >= 0; i--) {
        kill(pid[i], SIGTERM);
        assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
    }
    unsetenv("MOYAI_KEY_FILE");
    snprintf(command, sizeof command, "rm -r %s %s/moyai", base, kit_dir());
    assert_int_equal(system(command), 0);
}

/* Who comes to a grid of one host with a key, or meets others there, is told so, and leaves it as it was: with an e/ in
 * it nobody could come without a key any more. */
static void one_host_and_a_key(void **state) {
    (void)state;
    char dir[64] = "/tmp/moyai-cli-look-XXXXXX", key[80], id[33], path[80], command[100];
    assert_non_null(mkdtemp(dir));
    snprintf(grid, sizeof grid, "file:%s/grid", dir);
    snprintf(key, sizeof key, "%s/key", dir);
    snprintf(path, sizeof path, "%s/grid/e", dir);
    assert_int_equal(cli_do(&c, "key", "new", "--key-file", key, NULL), 0);
    cli_free(&c);
    pid_t pid = start_node("a", NULL); /* makes the directory */
    id_of(pid, id);
    const char *const verbs[][6] = {{"ps"},
                                    {"graph"},
                                    {"ping", "-c", "1", id},
                                    {"trace", id},
                                    {"call", id, "info"},
                                    {"node"},
                                    {"run", "@n", "once", NULL}};
    for (size_t i = 0; i < 2 * sizeof verbs / sizeof verbs[0]; i++) {
        const char *words[12] = {verbs[i / 2][0], "--grid", grid, i % 2 ? "--grid" : "--key-file",
                                 i % 2 ? "127.0.0.1:1" : key};
        for (int k = 1; k < 6 && verbs[i / 2][k]; k++) words[4 + k] = verbs[i / 2][k];
        cli_startv(&c, NULL, words);
        cli_close_in(&c);
        const int status = cli_wait(&c);
        if (status != (i / 2 == 6 ? 125 : 1)) fail_msg("%s: status %d: %s", words[0], status, c.text[1].p);
        HAS(c.text[1].p, "/grid\" is one of one host (node ");
        HAS(c.text[1].p, i % 2 ? "name it alone, and do not name a key" : "do not name a key (MOYAI_KEY_FILE");
        cli_free(&c);
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_int_equal(IN_GRID("ps"), 0);
    cli_free(&c);
    kill(pid, SIGTERM);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    /* It has ended: now it may be a directory of several, of which who looks makes nothing yet. */
    assert_int_equal(cli_do(&c, "ps", "--key-file", key, "--timeout", "1s", "--grid", grid, NULL), 1);
    HAS(c.text[1].p, "names nobody");
    cli_free(&c);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(command, sizeof command, "rm -r %s %s/moyai", dir, kit_dir());
    assert_int_equal(system(command), 0);
}

/* Each of several directories is looked at as it would be alone, by every verb, and nothing is made of it. */
static void several_directories(void **state) {
    (void)state;
    char dir[64] = "/tmp/moyai-cli-look-XXXXXX", key[80], docs[80], nix[80], both[130], command[500];
    assert_non_null(mkdtemp(dir));
    snprintf(key, sizeof key, "%s/key", dir);
    snprintf(docs, sizeof docs, "%s/docs", dir);
    snprintf(nix, sizeof nix, "file:%s/nix", dir);
    assert_int_equal(cli_do(&c, "key", "new", "--key-file", key, NULL), 0);
    cli_free(&c);
    snprintf(command, sizeof command, "mkdir %s && touch %s/letter.txt", docs, docs);
    assert_int_equal(system(command), 0);
    setenv("MOYAI_KEY_FILE", key, 1);
    const struct {
        const char *at, *text;
    } wrong[] = {{docs, "/docs', but something else"},
                 {nix, "/nix': no such directory"},
                 {"/etc", "there is no grid at '/etc', but something else"},
                 {"/etc/passwd", "there is no grid at '/etc/passwd', which is not a directory"}};
    static const char *const verbs[][4] = {
        {"ps"}, {"graph"}, {"ping", "a"}, {"trace", "a"}, {"call", "a", "b"}, {"node"}, {"run", "@n", "once"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        for (size_t k = 0; k < 2 * sizeof verbs / sizeof verbs[0]; k++) {
            const bool is_run = k / 2 == 6;
            if (k % 2 && is_run) continue; /* of MOYAI_GRID it takes nothing */
            const char *words[12] = {verbs[k / 2][0]};
            int n = 1;
            snprintf(both, sizeof both, "MOYAI_GRID=127.0.0.1:1 %s", wrong[i].at);
            const char *const env[] = {both, NULL};
            if (k % 2 == 0) memcpy(words + 1, (const char *[]){"--grid", "127.0.0.1:1", "--grid", wrong[i].at}, 32);
            if (k % 2 == 0) n = 5;
            for (int w = 1; w < 4 && verbs[k / 2][w]; w++) words[n++] = verbs[k / 2][w];
            cli_startv(&c, &(struct cli_opts){.env = k % 2 ? env : NULL}, words);
            cli_close_in(&c);
            const int status = cli_wait(&c);
            if (status != (is_run ? 125 : 1)) fail_msg("%s: status %d: %s", words[0], status, c.text[1].p);
            HAS(c.text[1].p, wrong[i].text);
            cli_free(&c);
        }
    unsetenv("MOYAI_KEY_FILE");
    snprintf(command, sizeof command, "rm %s/letter.txt %s && rmdir %s %s && ! test -e /etc/e", docs, key, docs, dir);
    assert_int_equal(system(command), 0); /* nothing else is there */
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
    const struct CMUnitTest tests[] = {
        RUN(what_fails_is_an_object_too),
        RUN(pings),
        RUN(traces_a_neighbour),
        RUN(an_id_has_four_digits),
        RUN(who_is_interrupted_says_so),
        RUN(the_log_tells_of_links_and_calls),
        RUN(lists_nodes),
        RUN(leaves_observers_out),
        RUN(crawls),
        RUN(draws),
        RUN(strange_titles),
        RUN(unwritable_output),
        cmocka_unit_test(dead_nodes),
        cmocka_unit_test(one_host_and_a_key),
        cmocka_unit_test(several_directories),
        cmocka_unit_test(hosts_with_a_directory),
        cmocka_unit_test(several_hosts),
        cmocka_unit_test(no_grid),
        cmocka_unit_test(no_time),
    };
    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
