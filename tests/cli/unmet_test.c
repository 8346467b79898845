/* SPDX-License-Identifier: Apache-2.0 */
/* A grid of several hosts in which nobody is met: the reason is said, by whoever waits for somebody. */
#include "tests/cli/kit.h"
#include "tests/support/port.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOWHERE "http://127.0.0.1:1/lab"

#define SILENT_ADVICE                                                                                                  \
    "; is the address right, its host up, a firewall between? Or is what listens there stopped, or something else "    \
    "than "                                                                                                            \
    "an endpoint or a member?"
#define REFUSED    "could be reached within 3 s; if it is still starting, --timeout waits for it\n"
#define KEY_ADVICE "; compare moyai key show here and there, and copy the grid's key file"

static char key[2][64], url[100];
static struct cli endpoint, node;

static int set_up(void **state) {
    struct cli c;
    char line[200];
    if (kit_setup(state) != 0) return -1;
    setenv("MOYAI_LISTEN", "127.0.0.1", 1);
    for (int i = 0; i < 2; i++) {
        snprintf(key[i], sizeof key[i], "/tmp/moyai-cli-unmet-key%d-%d", i, (int)getpid());
        assert_int_equal(cli_do(&c, "key", "new", "--key-file", key[i], NULL), 0);
        cli_free(&c);
    }
    cli_start(&endpoint, NULL, "endpoint", "--listen", "127.0.0.1:0", NULL);
    snprintf(url, sizeof url, "%.80s", strstr(cli_line(&endpoint, 1, "http://"), "http://"));
    strcpy(strstr(url + 7, "/"), "/lab");
    cli_start(&node, NULL, "node", "--grid", url, "--key-file", key[0], NULL);
    (void)cli_line(&node, 2, "takes commands");
    snprintf(line, sizeof line, "moyai node: first node of the grid at '%s': nobody else is known there yet", url);
    (void)cli_line(&node, 2, line);
    /* Its entry is there when it is found. */
    assert_int_equal(cli_do(&c, "ps", "--grid", url, "--key-file", key[0], NULL), 0);
    assert_non_null(strstr(c.text[0].p, "moyai node"));
    cli_free(&c);
    return 0;
}

static int tear_down(void **state) {
    struct cli *all[] = {&node, &endpoint};
    for (size_t i = 0; i < 2; i++) {
        kill(all[i]->pid, SIGTERM);
        assert_int_equal(cli_wait(all[i]), 0);
        cli_free(all[i]);
        unlink(key[i]);
    }
    char command[100]; /* the default run directory, which such a grid uses, stays */
    snprintf(command, sizeof command, "rmdir %s/moyai", kit_dir());
    assert_int_equal(system(command), 0);
    return kit_teardown(state);
}

static void says(struct cli *c, int status, const char *text) {
    assert_int_equal(cli_wait(c), status);
    if (!strstr(c->text[1].p, text)) fail_msg("not \"%s\" but: %s", text, c->text[1].p);
    cli_free(c);
}

#define HAS_NO_MORE(text, part, other)                                                                                 \
    do {                                                                                                               \
        if (!strstr(text, part) || strstr(text, other)) fail_msg("%s", text);                                          \
    } while (0)

/* One before the other. */
static void says_first(struct cli *c, const char *early, const char *late) {
    assert_int_equal(cli_wait(c), 1);
    const char *a = strstr(c->text[1].p, early), *b = strstr(c->text[1].p, late);
    if (!a || !b || a > b) fail_msg("not \"%s\" and \"%s\" but: %s", early, late, c->text[1].p);
    cli_free(c);
}

/* A socket at which everybody is let in and nobody is answered. */
static int silence(char at[40]) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(fd, 100), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    snprintf(at, 40, "127.0.0.1:%u", ntohs(a.sin_port));
    return fd;
}

/* That it does not answer is said before the connection is given up, which is said, too. Some seconds lie between: if
 * the machine stands still just then it is said once only. */
#define SILENT_TRIES 3
struct silence {
    struct cli http, member;
};

static void look_at_silence(struct silence *s, const char *at) {
    char still[80];
    snprintf(still, sizeof still, "http://%s/lab", at);
    cli_start(&s->http, NULL, "ps", "--grid", still, "--key-file", key[0], NULL);
    cli_start(&s->member, NULL, "ps", "--grid", at, "--key-file", key[0], NULL);
}

static bool said_before(struct cli *c, const char *early, const char *late) {
    assert_int_equal(cli_wait(c), 1);
    const char *a = strstr(c->text[1].p, early), *b = strstr(c->text[1].p, late);
    if (!b || (a && a > b)) fail_msg("not \"%s\" and \"%s\" but: %s", early, late, c->text[1].p);
    if (!a) fprintf(stderr, "not \"%s\" but: %s", early, c->text[1].p);
    cli_free(c);
    return a != NULL;
}

static bool looked_at_silence(struct silence *s, const char *at) {
    char text[300], late[300];
    snprintf(text, sizeof text, "could be met yet: http://%s/lab: it has not answered" SILENT_ADVICE "\n", at);
    snprintf(
        late, sizeof late,
        "could be reached within 10 s: http://%s/lab: it accepts the connection, and has not answered in full for ",
        at);
    const bool told = said_before(&s->http, text, late);
    snprintf(text, sizeof text, "could be met yet: %s: it has not answered" SILENT_ADVICE "\n", at);
    return said_before(&s->member, text, "it accepts the connection, and says nothing for 8 s") && told;
}

/* All at once: most give up after a while only. Who has been answered that nobody is there does not wait so long. */
static void who_looks_is_told_why(void **state) {
    (void)state;
    static const char *const loud[] = {"MOYAI_LOG=warning", NULL};
    char ways[100], *at_ways = strchr(strcpy(ways, "MOYAI_GRID_FILE="), '=') + 1;
    const char *const other_way[] = {ways, NULL};
    struct cli ps, dead, both, unknown, lines, empty, hasty, http, tls;
    struct silence look;
    char nobody[120], at[40], still[80], text[300];
    int fd = silence(at);
    snprintf(at_ways, 80, "%s-ways", key[0]);
    fclose(fopen(at_ways, "w")); /* there are none yet */
    snprintf(nobody, sizeof nobody, "%.90s-empty", url);
    snprintf(still, sizeof still, "http://%s/lab", at);
    cli_start(&ps, &(struct cli_opts){.env = loud}, "ps", "--grid", url, "--key-file", key[1], NULL);
    cli_start(&dead, NULL, "ping", "--grid", NOWHERE, "--key-file", key[0], "0123", NULL);
    cli_start(&both, NULL, "graph", "--grid", NOWHERE, "--grid", url, "--key-file", key[1], NULL);
    cli_start(&unknown, NULL, "call", "--grid", "127.0.0.1:1", "--key-file", key[0], "x", "y", NULL);
    cli_start(&lines, &(struct cli_opts){.env = other_way}, "ps", "--grid", "127.0.0.1:1", "--key-file", key[0], NULL);
    cli_start(&empty, NULL, "ps", "--grid", nobody, "--key-file", key[0], NULL);
    look_at_silence(&look, at);
    cli_start(&hasty, NULL, "ps", "--json", "--grid", still, "--timeout", "1500ms", "--key-file", key[0], NULL);
    /* Who has forgotten http://, or written too much of it. */
    snprintf(text, sizeof text, "%.*s", (int)strcspn(url + 7, "/"), url + 7);
    cli_start(&tls, NULL, "ps", "--grid", text, "--key-file", key[0], NULL);
    char listens[100];
    uint16_t port = test_free_port();
    struct cli alone;
    snprintf(listens, sizeof listens, "127.0.0.1:%u", port);
    cli_start(&alone, NULL, "node", "--listen", listens, "--grid", listens, "--key-file", key[0], NULL);
    (void)cli_line(&alone, 2, "takes commands");
    snprintf(text, sizeof text, "http://%s/lab", listens);
    cli_start(&http, NULL, "ps", "--grid", text, "--key-file", key[0], NULL);
    /* A key that no place takes is not tried for 10 s. */
    struct cli wrong;
    assert_int_equal(cli_do(&wrong, "ps", "--grid", listens, "--key-file", key[1], NULL), 1);
    HAS_NO_MORE(wrong.text[1].p, "could be reached within 3 s", "still starting");
    if (!strstr(wrong.text[1].p, "show on both, and copy the key file")) fail_msg("%s", wrong.text[1].p);
    cli_free(&wrong);
    assert_non_null(strstr(cli_line(&ps, 2, "MOYAI-RENDEZVOUS"), "1 entry there is sealed with another key"));
    (void)cli_line(&ps, 2, "could be met: 1 entry there is sealed with another key" KEY_ADVICE);
    (void)cli_line(&tls, 2, "if it is an endpoint, write http://HOST:PORT/GRID");
    (void)cli_line(&http, 2, "; if it is a member, write HOST:PORT, without http://");
    assert_int_equal(cli_wait(&ps), 1); /* and that was all */
    assert_int_equal(kit_count(&ps.text[1], "moyai ps: nobody of the grid at"), 1);
    assert_int_equal(kit_count(&ps.text[1], "sealed with another key"), 2);
    cli_free(&ps);
    snprintf(text, sizeof text,
             "could be reached within 10 s: %s: it answers, and knows nobody of this grid: it began ", nobody);
    says(&empty, 1, text);
    snprintf(text, sizeof text, "could be reached within 1.5 s: %s: it has not answered" SILENT_ADVICE "\n", still);
    assert_int_equal(cli_wait(&hasty), 1);
    assert_non_null(strstr(hasty.text[1].p, text));
    assert_int_equal(kit_count(&hasty.text[0], ""), 1);
    text[strcspn(text, "\n")] = 0;
    assert_non_null(strstr(hasty.text[0].p, "{\"error\": [{\"code\": -"));
    assert_non_null(strstr(hasty.text[0].p, "\"name\": \"MOYAI_ETIMEDOUT\""));
    assert_non_null(strstr(hasty.text[0].p, text));
    cli_free(&hasty);
    /* What is wrong is said at once, and that there is no answer when it has been waited for. */
    says_first(&dead, "moyai ping: nobody of the grid at '" NOWHERE "' could be met: Connection refused", REFUSED);
    says_first(&unknown, "nobody of the grid at '127.0.0.1:1' could be met: Connection refused\n", REFUSED);
    says_first(&lines, "could be met: Connection refused\n", "could be reached within 10 s\n");
    unlink(at_ways);
    bool told = looked_at_silence(&look, at);
    for (int i = 1; i < SILENT_TRIES && !told; i++) {
        look_at_silence(&look, at);
        told = looked_at_silence(&look, at);
    }
    assert_true(told);
    says(&tls, 1, "within 10 s\n");
    says(&http, 1, "within 10 s\n");
    kill(alone.pid, SIGTERM);
    says(&alone, 0, ": nobody else is known there yet");
    assert_int_equal(cli_wait(&both), 1);
    assert_non_null(strstr(both.text[1].p, "within 10 s\n"));
    assert_non_null(strstr(both.text[1].p, "could be met: " NOWHERE ": Connection refused"));
    snprintf(text, sizeof text, "; %s: 1 entry there is sealed with another key", url);
    assert_non_null(strstr(both.text[1].p, text));
    cli_free(&both);
    close(fd);
}

/* Where nobody listens one is not waited for long: by who has said how long he would. */
static void who_looks_waits_longer_where_told(void **state) {
    (void)state;
    struct cli patient, hasty, late;
    char listens[40];
    snprintf(listens, sizeof listens, "127.0.0.1:%u", test_free_port());
    cli_start(&patient, NULL, "ps", "--timeout", "100s", "--grid", listens, "--key-file", key[0], NULL);
    (void)cli_line(&patient, 2, "could be met: Connection refused");
    cli_start(&hasty, NULL, "ps", "--grid", listens, "--key-file", key[0], NULL);
    says(&hasty, 1, REFUSED);
    cli_start(&late, NULL, "node", "--listen", listens, "--grid", listens, "--key-file", key[0], NULL);
    assert_int_equal(cli_wait(&patient), 0);
    assert_int_equal(kit_count(&patient.text[0], "moyai node"), 1);
    cli_free(&patient);
    kill(late.pid, SIGTERM);
    assert_int_equal(cli_wait(&late), 0);
    cli_free(&late);
}

/* A run and an agent go on, since others may come, and say it once. */
static void who_goes_on_is_told_why(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "--grid", NOWHERE, "--key-file", key[0], "cat", NULL);
    (void)cli_line(&c, 2, "moyai run: nobody of the grid at '" NOWHERE "' could be met: Connection refused");
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[1], "could be met"), 1);
    cli_free(&c);
    cli_start(&c, NULL, "run", "--grid", url, "--key-file", key[1], "cat", NULL);
    (void)cli_line(&c, 2, "could be met: 1 entry there is sealed with another key");
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    cli_free(&c);
    cli_start(&c, NULL, "node", "--grid", NOWHERE, "--key-file", key[0], NULL);
    (void)cli_line(&c, 2, "moyai node: nobody of the grid at '" NOWHERE "' could be met: Connection refused");
    kill(c.pid, SIGTERM);
    assert_int_equal(cli_wait(&c), 0);
    cli_free(&c);
    /* Others are to meet at this node, by a port that is forwarded to it, but by which it does not reach itself. */
    static const char *const slow[] = {"MOYAI_LOG=warning", NULL};
    cli_start(&c, &(struct cli_opts){.env = slow}, "run", "--grid", "127.0.0.1:1", "--listen", "127.0.0.1:0",
              "--advertise", "127.0.0.1:1", "--key-file", key[0], "cat", NULL);
    (void)cli_line(&c, 2, "MOYAI-DIAL cannot connect to 127.0.0.1:1: Connection refused");
    sleep(5); /* more than a run waits before it says that nobody could be met */
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[1], "could be met"), 0);
    cli_free(&c);
    /* A name that nobody else has. */
    char text[300], nobody[120];
    snprintf(nobody, sizeof nobody, "%.90s-mistyped", url);
    snprintf(text, sizeof text, "moyai run: nobody else is known at '%s' yet; is the name right? Others are looked for",
             nobody);
    cli_start(&c, NULL, "run", "--grid", nobody, "--key-file", key[0], "cat", NULL);
    (void)cli_line(&c, 2, text);
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[1], ""), 1);
    cli_free(&c);
    /* Where all is well nothing is said. */
    if (cli_do(&c, "run", "--grid", url, "--key-file", key[0], "true", NULL) != 0) fail_msg("%s", c.text[1].p);
    assert_string_equal(c.text[1].p, "");
    cli_free(&c);
}

static bool is_told_of_silence(void) {
    struct cli c[2];
    char at[40], text[2][300], url_at[60];
    bool first[2];
    int fd = silence(at);
    snprintf(url_at, sizeof url_at, "http://%s/lab", at);
    cli_start(&c[0], NULL, "node", "--grid", url_at, "--key-file", key[0], NULL);
    cli_start(&c[1], NULL, "run", "--grid", at, "--key-file", key[0], "cat", NULL);
    for (int i = 0; i < 2; i++) {
        snprintf(text[i], sizeof text[i], "' could be met yet: %s: it has not answered" SILENT_ADVICE, i ? at : url_at);
        first[i] = strstr(cli_line(&c[i], 2, "could be met"), text[i]) != NULL;
    }
    kill(c[0].pid, SIGTERM);
    cli_close_in(&c[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cli_wait(&c[i]), 0);
        if (!first[i]) fprintf(stderr, "not \"%s\" but: %s\n", text[i], c[i].text[1].p);
        cli_free(&c[i]);
    }
    close(fd);
    return first[0] && first[1];
}

static void who_goes_on_is_told_of_silence(void **state) {
    (void)state;
    bool told = false;
    for (int i = 0; i < SILENT_TRIES && !told; i++) told = is_told_of_silence();
    assert_true(told);
}

/* And that there is an answer at last. */
static void who_goes_on_is_told_of_the_end_of_that(void **state) {
    (void)state;
    struct cli later, late, other;
    char text[300], listens[40];
    snprintf(listens, sizeof listens, "127.0.0.1:%u", test_free_port());
    snprintf(text, sizeof text, "http://%s/lab", listens);
    cli_start(&later, NULL, "node", "--grid", text, "--key-file", key[0], NULL);
    (void)cli_line(&later, 2, "/lab' could be met: Connection refused");
    cli_start(&late, NULL, "endpoint", "--listen", listens, NULL);
    (void)cli_line(&later, 2, "/lab' can be met now");
    (void)cli_line(&later, 2, "/lab': nobody else is known there yet");
    struct cli look; /* who only looks is no other, however long it does */
    char id[9];
    assert_int_equal(cli_do(&look, "ps", "--grid", text, "--key-file", key[0], NULL), 0);
    snprintf(id, sizeof id, "%s", strchr(look.text[0].p, '\n') + 1);
    cli_free(&look);
    assert_int_equal(cli_do(&look, "ping", "-c", "3", "--grid", text, "--key-file", key[0], id, NULL), 0);
    cli_free(&look);
    struct pollfd said = {.fd = later.fd[1], .events = POLLIN};
    assert_int_equal(poll(&said, 1, 0), 0);
    cli_start(&other, NULL, "node", "--grid", text, "--key-file", key[0], NULL);
    (void)cli_line(&later, 2, "/lab': others are there now");
    struct cli *rest[] = {&other, &later, &late};
    for (int i = 0; i < 3; i++) {
        kill(rest[i]->pid, SIGTERM);
        assert_int_equal(cli_wait(rest[i]), 0);
        assert_true(kit_count(&rest[i]->text[1], "others are there now") <= 1);
    }
    for (int i = 0; i < 3; i++) cli_free(rest[i]);
}

/* With a key that others have no more, one sees those alone who have not got the new file either. */
static void who_sees_some_only_is_told(void **state) {
    (void)state;
    struct cli old, c;
    char text[300];
    assert_int_equal(cli_do(&c, "ps", "--grid", url, "--key-file", key[0], NULL), 0);
    assert_string_equal(c.text[1].p, "");
    cli_free(&c);
    cli_start(&old, NULL, "node", "--grid", url, "--key-file", key[1], NULL);
    (void)cli_line(&old, 2, "could be met: 1 entry there is sealed with another key" KEY_ADVICE);
    snprintf(text, sizeof text,
             "not all of the grid at '%s' is seen: 1 entry there is sealed with another key" KEY_ADVICE, url);
    static const char *const verbs[][2] = {{"ps", NULL}, {"ps", "--json"}, {"graph", NULL}, {"ping", "nosuch-name"}};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        assert_int_equal(cli_do(&c, verbs[i][0], "--grid", url, "--key-file", key[1], verbs[i][1], NULL), 1);
        if (i < 3) assert_int_equal(kit_count(&c.text[0], "moyai node"), 1);
        if (!strstr(c.text[1].p, text)) fail_msg("%s: not \"%s\" but: %s", verbs[i][0], text, c.text[1].p);
        cli_free(&c);
    }
    kill(old.pid, SIGTERM);
    assert_int_equal(cli_wait(&old), 0);
    cli_free(&old);
}

/* Who is known where the grid is met, and cannot be reached: it may be in another part of the grid, or have ended. */
static void who_sees_a_part_is_told(void **state) {
    (void)state;
    static const char *const away[] = {"MOYAI_ADVERTISE=127.0.0.1:1", NULL};
    struct cli far, here, c;
    char parts[120], text[300];
    snprintf(parts, sizeof parts, "%.90s-parts", url);
    cli_start(&far, &(struct cli_opts){.env = away}, "node", "--grid", parts, "--key-file", key[0], NULL);
    (void)cli_line(&far, 2, "nobody else is known there yet");
    pid_t agent = kit_child_of(kit_child_of(far.pid)); /* behind its front and the keeper of that */
    assert_int_equal(kill(agent, SIGSTOP), 0);
    cli_start(&here, NULL, "node", "--grid", parts, "--key-file", key[0], NULL);
    (void)cli_line(&here, 2, "takes commands");
    snprintf(text, sizeof text,
             "perhaps not all of the grid at '%s' is seen: 1 node that said in the last minute where it is cannot be "
             "reached from here, or has ended since: ",
             parts);
    static const char *const verbs[][2] = {{"ps", NULL}, {"ps", "--json"}, {"graph", NULL}, {"ping", "0123"}};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        assert_int_equal(cli_do(&c, verbs[i][0], "--grid", parts, "--key-file", key[0], verbs[i][1], NULL), 1);
        if (i < 3) assert_int_equal(kit_count(&c.text[0], "moyai node"), 1);
        if (i == 0) assert_int_equal(kit_count(&c.text[0], ""), 3); /* its head, and that node: with no answer */
        if (i == 1) assert_int_equal(kit_count(&c.text[0], "\"complete\": false, \"unseen\": [\"perhaps "), 1);
        if (!strstr(c.text[1].p, text)) fail_msg("%s: not \"%s\" but: %s", verbs[i][0], text, c.text[1].p);
        assert_non_null(strstr(c.text[1].p, " at 127.0.0.1:1\n"));
        cli_free(&c);
    }
    /* Who has time for it asks again until there is a way. */
    static const char *const hasty[] = {"MOYAI_REATTACH=100ms", "MOYAI_LOG=cli=info", NULL};
    cli_start(&c, &(struct cli_opts){.env = hasty}, "ps", "--grid", parts, "--key-file", key[0], "--timeout", "100s",
              NULL);
    (void)cli_line(&c, 2, "MOYAI-CLI-AGAIN node ");
    assert_int_equal(kill(agent, SIGCONT), 0);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[0], "moyai node"), 2);
    cli_free(&c);
    for (int rows = 0; rows < 2; cli_free(&c)) {
        int status = cli_do(&c, "ps", "--grid", parts, "--key-file", key[0], NULL);
        rows = kit_count(&c.text[0], "moyai node");
        assert_int_equal(status, rows == 2 ? 0 : 1);
    }
    /* Who has left is not missed. */
    kill(far.pid, SIGTERM);
    assert_int_equal(cli_wait(&far), 0);
    assert_int_equal(cli_do(&c, "ps", "--grid", parts, "--key-file", key[0], NULL), 0);
    assert_string_equal(c.text[1].p, "");
    cli_free(&c);
    kill(here.pid, SIGTERM);
    assert_int_equal(cli_wait(&here), 0);
    cli_free(&here);
    cli_free(&far);
}

/* All that are known are stopped: it is not the endpoint, however young, that is to be waited for. */
static void who_sees_nobody_but_stopped_ones_is_told(void **state) {
    (void)state;
    struct cli young, stopped, c;
    char grid[120];
    cli_start(&young, NULL, "endpoint", "--listen", "127.0.0.1:0", NULL);
    snprintf(grid, sizeof grid, "%.80s", strstr(cli_line(&young, 1, "http://"), "http://"));
    strcpy(strstr(grid + 7, "/"), "/lab");
    cli_start(&stopped, NULL, "node", "--grid", grid, "--key-file", key[0], NULL);
    (void)cli_line(&stopped, 2, "nobody else is known there yet");
    pid_t agent = kit_child_of(kit_child_of(stopped.pid));
    assert_int_equal(cli_do(&c, "ps", "--grid", grid, "--key-file", key[0], NULL), 0);
    cli_free(&c);
    assert_int_equal(kill(agent, SIGSTOP), 0);
    assert_int_equal(cli_do(&c, "ps", "--grid", grid, "--key-file", key[0], "--timeout", "2s", NULL), 1);
    if (!strstr(c.text[1].p, "/lab: it answers, and knows nodes of this grid") ||
        !strstr(c.text[1].p, "; members are known there, but none answers: are they stopped, did they end without ") ||
        strstr(c.text[1].p, "has just begun"))
        fail_msg("%s", c.text[1].p);
    cli_free(&c);
    assert_int_equal(kill(agent, SIGCONT), 0);
    struct cli *all[] = {&stopped, &young};
    for (int i = 0; i < 2; i++) {
        kill(all[i]->pid, SIGTERM);
        assert_int_equal(cli_wait(all[i]), 0);
        cli_free(all[i]);
    }
}

/* A run's own processes are met where others would be, and are none. */
static void who_starts_nodes_is_told_that_nobody_else_is_there(void **state) {
    (void)state;
    struct cli run, other;
    char typo[120], text[300];
    snprintf(typo, sizeof typo, "%.90s-typo", url);
    cli_start(&run, NULL, "run", "--grid", typo, "--key-file", key[0], "@n", "serve", "x", ":", "sh", "-c",
              "\"$0\" serve y; true", kit_program("NODE"), NULL);
    snprintf(text, sizeof text,
             "moyai run: nobody but what this run has started is known at '%s' yet; is the name right? Others are "
             "looked for",
             typo);
    (void)cli_line(&run, 2, text);
    cli_start(&other, NULL, "node", "--grid", typo, "--key-file", key[0], NULL);
    (void)cli_line(&run, 2, "-typo': others are there now");
    kill(other.pid, SIGTERM);
    assert_int_equal(cli_wait(&other), 0);
    cli_free(&other);
    kill(run.pid, SIGINT);
    (void)cli_wait(&run);
    cli_free(&run);
    /* Where others are nothing is said. */
    cli_start(&run, NULL, "run", "--grid", url, "--key-file", key[0], "@n", "serve", "x", NULL);
    (void)cli_line(&run, 1, "serving x");
    sleep(5); /* more than a run waits before it says that nobody is there */
    kill(run.pid, SIGINT);
    (void)cli_wait(&run);
    assert_int_equal(kit_count(&run.text[1], "nobody"), 0);
    cli_free(&run);
}

/* A process that is a node, and its output. */
static pid_t start_node(const char *grid, const char *run, const char *advertise, int *out) {
    int p[2];
    assert_int_equal(pipe(p), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(p[1], 1);
        dup2(p[1], 2);
        setenv("MOYAI_GRID", grid, 1);
        setenv("MOYAI_KEY_FILE", key[0], 1);
        if (run) setenv("MOYAI_RUN_DIR", run, 1);
        if (advertise) setenv("MOYAI_ADVERTISE", advertise, 1);
        execl(kit_program("NODE"), "cli_node", "serve", "twice", NULL);
        _exit(127);
    }
    close(p[1]);
    *out = p[0];
    return pid;
}

static bool node_says(int fd, const char *text) {
    char all[1000];
    size_t n = 0;
    ssize_t m;
    while (n < sizeof all - 1 && (m = read(fd, all + n, sizeof all - 1 - n)) > 0) {
        n += (size_t)m;
        all[n] = 0;
        if (strstr(all, text)) return true;
    }
    return false;
}

/* In parts of a grid that cannot know of each other a name can be had twice: until they meet, and then it is told. */
static void a_name_that_two_have_is_one_s_when_they_meet(void **state) {
    (void)state;
    char grid[120], run[80];
    int out[2];
    snprintf(grid, sizeof grid, "%.90s-twice", url);
    snprintf(run, sizeof run, "%s-run", key[0]);
    assert_int_equal(mkdir(run, 0700), 0);
    pid_t a = start_node(grid, run, "127.0.0.1:1", &out[0]);
    assert_true(node_says(out[0], "serving twice"));
    assert_int_equal(kill(a, SIGSTOP), 0);
    pid_t b = start_node(grid, NULL, NULL, &out[1]);
    assert_true(node_says(out[1], "serving twice")); /* a is there, and cannot be asked */
    assert_int_equal(kill(a, SIGCONT), 0);
    struct pollfd p[2] = {{.fd = out[0], .events = POLLIN}, {.fd = out[1], .events = POLLIN}};
    assert_true(poll(p, 2, -1) > 0);
    assert_true(node_says(out[p[0].revents ? 0 : 1], "MOYAI-NAME-LOST the name \"twice\" was registered twice"));
    pid_t c = start_node(grid, NULL, NULL, &out[p[0].revents ? 0 : 1]);
    assert_true(node_says(out[p[0].revents ? 0 : 1], "register: the name is taken"));
    kill(a, SIGTERM);
    kill(b, SIGTERM);
    assert_int_equal(waitpid(a, NULL, 0), a);
    assert_int_equal(waitpid(b, NULL, 0), b);
    assert_int_equal(waitpid(c, NULL, 0), c);
    for (int i = 0; i < 2; i++) close(out[i]);
    close(p[p[0].revents ? 0 : 1].fd);
    (void)rmdir(run);
}

/* Of an endpoint that has just begun, which has heard of one only, to whom nobody can connect. */
static void who_is_early_waits(void **state) {
    (void)state;
    struct cli late, nat, open, hasty, patient;
    char grid[100], run[2][100];
    for (int i = 0; i < 2; i++) { /* as on hosts of their own */
        snprintf(run[i], sizeof run[i], "MOYAI_RUN_DIR=%s-run%d", key[0], i);
        assert_int_equal(mkdir(strchr(run[i], '=') + 1, 0700), 0);
    }
    cli_start(&late, NULL, "endpoint", "--listen", "127.0.0.1:0", NULL);
    snprintf(grid, sizeof grid, "%.80s", strstr(cli_line(&late, 1, "http://"), "http://"));
    strcpy(strstr(grid + 7, "/"), "/lab");
    cli_start(&nat, &(struct cli_opts){.env = (const char *const[]){run[0], "MOYAI_ADVERTISE=127.0.0.1:1", NULL}},
              "node", "--grid", grid, "--key-file", key[0], NULL);
    (void)cli_line(&nat, 2, "nobody else is known there yet");
    cli_start(&hasty, NULL, "ps", "--grid", grid, "--timeout", "11s", "--key-file", key[0], NULL);
    cli_start(&patient, NULL, "ps", "--grid", grid, "--timeout", "100s", "--key-file", key[0], NULL);
    assert_int_equal(cli_wait(&hasty), 1);
    cli_start(&open, &(struct cli_opts){.env = (const char *const[]){run[1], NULL}}, "node", "--grid", grid,
              "--key-file", key[0], NULL);
    const char *said = hasty.text[1].p;
    if (!strstr(said, "within 11 s: ") || !strstr(said, "/lab: it answers, and knows nodes of this grid: it began ") ||
        !strstr(said, "; an endpoint that has just begun hears of all nodes within 45 s\n"))
        fail_msg("%s", said);
    (void)cli_wait(&patient); /* the two may not be linked yet: then it says so */
    assert_true(kit_count(&patient.text[0], "moyai node") >= 1);
    assert_null(strstr(patient.text[1].p, "could be "));
    struct cli *all[] = {&nat, &open, &late};
    for (int i = 0; i < 3; i++) {
        kill(all[i]->pid, SIGTERM);
        assert_int_equal(cli_wait(all[i]), 0);
        cli_free(all[i]);
        if (i < 2) (void)rmdir(strchr(run[i], '=') + 1);
    }
    cli_free(&hasty);
    cli_free(&patient);
}

static void a_missing_name_is_missing_in_that_grid(void **state) {
    (void)state;
    char text[200];
    struct cli c;
    cli_start(&c, NULL, "call", "--grid", url, "--key-file", key[0], "nosuch-name", "x", NULL);
    snprintf(text, sizeof text,
             "nobody has registered the name \"nosuch-name\" in the grid at \"%s\", to which this node has 1 link",
             url);
    says(&c, 1, text);
}

/* By the numbers that its user has given. */
static void descriptors_are_named(void **state) {
    (void)state;
    char command[600], text[4000];
    snprintf(command, sizeof command,
             "sleep 1 | %s ps --grid fd:3,4 --timeout 300ms --key-file %s 3<&0 4>&1 2>&1 </dev/null",
             kit_program("MOYAI"), key[0]);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    (void)pclose(f);
    if (!strstr(text, "could be reached within 300 ms: fd:3,4: it has not answered")) fail_msg("%s", text);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* the name of one test */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_looks_is_told_why),
        cmocka_unit_test(who_looks_waits_longer_where_told),
        cmocka_unit_test(who_goes_on_is_told_why),
        cmocka_unit_test(who_goes_on_is_told_of_silence),
        cmocka_unit_test(who_goes_on_is_told_of_the_end_of_that),
        cmocka_unit_test(who_sees_some_only_is_told),
        cmocka_unit_test(who_sees_a_part_is_told),
        cmocka_unit_test(who_sees_nobody_but_stopped_ones_is_told),
        cmocka_unit_test(a_name_that_two_have_is_one_s_when_they_meet),
        cmocka_unit_test(who_starts_nodes_is_told_that_nobody_else_is_there),
        cmocka_unit_test(who_is_early_waits),
        cmocka_unit_test(a_missing_name_is_missing_in_that_grid),
        cmocka_unit_test(descriptors_are_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
