/* SPDX-License-Identifier: Apache-2.0 */
/* How nodes of a grid of several hosts are reached: the options --listen, --advertise, --port-range and
 * --outbound-only; and --relay-memory. */
#include "tests/cli/kit.h"
#include "tests/support/port.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOWHERE "127.0.0.1:1"
#define TELL    "echo $MOYAI_LISTEN,$MOYAI_ADVERTISE,$MOYAI_PORT_RANGE,$MOYAI_OUTBOUND_ONLY."

static char key[64];

static int set_up(void **state) {
    struct cli c;
    if (kit_setup(state) != 0) return -1;
    static const char *const ours[] = {"MOYAI_LISTEN", "MOYAI_ADVERTISE", "MOYAI_PORT_RANGE", "MOYAI_OUTBOUND_ONLY",
                                       "MOYAI_RELAY_MEMORY"};
    for (size_t i = 0; i < 5; i++) unsetenv(ours[i]);
    snprintf(key, sizeof key, "/tmp/moyai-cli-reach-key-%d", (int)getpid());
    assert_int_equal(cli_do(&c, "key", "new", "--key-file", key, NULL), 0);
    cli_free(&c);
    setenv("MOYAI_KEY_FILE", key, 1);
    return 0;
}

static int tear_down(void **state) {
    unlink(key);
    char command[100]; /* the default run directory, which such a grid uses, stays */
    snprintf(command, sizeof command, "rmdir %s/moyai", kit_dir());
    assert_int_equal(system(command), 0);
    return kit_teardown(state);
}

static void a_port(char text[8]) {
    snprintf(text, 8, "%u", test_free_port());
}

static void says(struct cli *c, int status, int fd, const char *text) {
    assert_int_equal(cli_wait(c), status);
    if (!strstr(c->text[fd - 1].p, text)) fail_msg("not \"%s\" but: %s%s", text, c->text[0].p, c->text[1].p);
    cli_free(c);
}

/* As the variables are looked at, and with the same words. */
static void values_are_checked(void **state) {
    (void)state;
    static const char *const wrong[][3] = {
        {"--listen", "foo", "--listen: \"foo\": not a numeric address"},
        {"--listen", "127.0.0.1 b:c", "--listen: \"b:c\": a port is a number from 0 to 65535"},
        {"--listen", "2001:db8::7", "--listen: \"2001:db8::7\": write an IPv6 address in brackets"},
        {"--listen", ":7471", "--listen: \":7471\": no host: HOST:PORT; any address to listen at is 0.0.0.0"},
        {"--listen", " ", "--listen: it is empty"},
        {"--advertise", "7471", "--advertise: \"7471\": no host: HOST:PORT\n"},
        {"--advertise", "h:99999", "--advertise: \"h:99999\""},
        {"--port-range", "9-x", "--port-range: \"9-x\": not a port or a range of them"},
        {"--port-range", "", "--port-range: it is empty"},
        {"--relay-memory", "", "--relay-memory: it is empty"},
        {"--relay-memory", "much", "--relay-memory is \"much\"; accepted is a size"},
        {"--relay-memory", "0", "--relay-memory is \"0\"; accepted is a size"},
        {"--relay-memory", "9999999T", "--relay-memory is \"9999999T\"; accepted is a size"},
    };
    struct cli c;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cli_start(&c, NULL, "run", "--grid", NOWHERE, wrong[i][0], wrong[i][1], "true", NULL);
        says(&c, 2, 2, wrong[i][2]);
        cli_start(&c, NULL, "node", "--grid", NOWHERE, wrong[i][0], wrong[i][1], NULL);
        says(&c, 2, 2, wrong[i][2]);
    }
    static const char *const closed[] = {"MOYAI_OUTBOUND_ONLY=yes", NULL};
    cli_start(&c, NULL, "run", "--listen", "any", "true", NULL);
    says(&c, 2, 2, "--listen is for grids of several hosts: --grid says which");
    cli_start(&c, NULL, "run", "--relay-memory", "1M", "true", NULL);
    says(&c, 2, 2, "--relay-memory is for grids of several hosts: --grid says which");
    cli_start(&c, NULL, "node", "--grid", NOWHERE, "--outbound-only", "--advertise", "h", NULL);
    says(&c, 2, 2, "--advertise is for nodes that listen: not with --outbound-only");
    cli_start(&c, &(struct cli_opts){.env = closed}, "node", "--grid", NOWHERE, "--port-range", "9-10", NULL);
    says(&c, 2, 2, "--port-range is for nodes that listen: not with $MOYAI_OUTBOUND_ONLY");
    cli_start(&c, NULL, "run", "--grid", NOWHERE, "true", ":", "--listen", "any", "true", NULL);
    says(&c, 2, 2, "--listen is for the whole run");
    /* A directory is a grid of one host without a key. */
    char dir[100];
    snprintf(dir, sizeof dir, "%s/one", kit_dir());
    static const char *const no_key[] = {"MOYAI_KEY_FILE=", NULL};
    char command[120];
    snprintf(command, sizeof command, "mkdir -m 700 %s", dir);
    assert_int_equal(system(command), 0);
    cli_start(&c, &(struct cli_opts){.env = no_key}, "run", "--grid", dir, "--outbound-only", "true", NULL);
    says(&c, 2, 2, "--outbound-only is for grids of several hosts, and that in");
    cli_start(&c, &(struct cli_opts){.env = no_key}, "node", "--grid", dir, "--relay-memory", "1M", NULL);
    says(&c, 2, 2, "--relay-memory is for grids of several hosts, and that in");
    cli_start(&c, &(struct cli_opts){.env = no_key}, "node", "--grid", dir, "--listen", "any", NULL);
    says(&c, 2, 2, "--listen is for grids of several hosts, and that in");
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

/* A member at an address that is known: where others meet. Its commands join, at ports of their own. */
static void a_member_is_a_meeting_point(void **state) {
    (void)state;
    char port[8], address[40], advertised[40];
    struct cli node, c;
    a_port(port);
    snprintf(address, sizeof address, "127.0.0.1:%s", port);
    snprintf(advertised, sizeof advertised, "localhost:%s", port);
    cli_start(&node, NULL, "node", "--grid", NOWHERE, "--slots", "2", "--listen", address, "--listen", "[::1]",
              "--advertise", advertised, NULL);
    (void)cli_line(&node, 2, "takes commands");
    cli_start(&c, NULL, "run", "--grid", address, "--outbound-only", "--on-nodes", "--no-prefix", "-n", "2", "sh", "-c",
              TELL "; exec \"$0\" once", kit_program("NODE"), NULL);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[0], "127.0.0.1 [::1],localhost,,."), 2);
    cli_free(&c);
    assert_int_equal(cli_do(&c, "ps", "--grid", advertised, NULL), 0);
    assert_int_equal(kit_count(&c.text[0], "moyai node"), 1);
    cli_free(&c);
    kill(node.pid, SIGTERM);
    assert_int_equal(cli_wait(&node), 0);
    cli_free(&node);
}

/* What is given to a run holds for its processes, before the variables; what is not given is as it was. */
static void it_is_passed_on(void **state) {
    (void)state;
    static const char *const env[] = {"MOYAI_LISTEN=10.0.0.1", "MOYAI_ADVERTISE=a,[2001:db8::7]:9",
                                      "MOYAI_PORT_RANGE=9", NULL};
    static const char *const ports[] = {"MOYAI_LISTEN=127.0.0.1:0,any", "MOYAI_ADVERTISE=h:7", NULL};
    struct cli c;
    cli_start(&c, &(struct cli_opts){.env = env}, "run", "--grid", NOWHERE, "--listen", "127.0.0.1", "--port-range",
              "20000-60000", "sh", "-c", TELL "; exec \"$0\" once", kit_program("NODE"), NULL);
    says(&c, 0, 1, "[0.0] 127.0.0.1,a [2001:db8::7],20000-60000,.\n");
    cli_start(&c, &(struct cli_opts){.env = ports}, "run", "--grid", NOWHERE, "sh", "-c", TELL, NULL);
    says(&c, 0, 1, "[0.0] 127.0.0.1 any,h,,.\n");
    /* It does not listen: or it could not, at an address that is not here. */
    static const char *const elsewhere[] = {"MOYAI_LISTEN=192.0.2.1", NULL};
    cli_start(&c, &(struct cli_opts){.env = elsewhere}, "run", "--grid", NOWHERE, "--outbound-only", "sh", "-c",
              TELL "; exec \"$0\" once", kit_program("NODE"), NULL);
    says(&c, 0, 1, "[0.0] 192.0.2.1,,,yes.\n");
    /* Where it does not listen it lends memory all the same. */
    static const char *const memory[] = {"MOYAI_RELAY_MEMORY=3M", NULL};
    cli_start(&c, &(struct cli_opts){.env = memory}, "run", "--grid", NOWHERE, "--outbound-only", "--relay-memory",
              "20k", "sh", "-c", "echo of $MOYAI_RELAY_MEMORY.; exec \"$0\" once", kit_program("NODE"), NULL);
    says(&c, 0, 1, "[0.0] of 20k.\n");
    /* A private grid has no use for them, and what the processes do with them is theirs. */
    cli_start(&c, &(struct cli_opts){.env = ports}, "run", "sh", "-c", TELL, NULL);
    says(&c, 0, 1, "[0.0] 127.0.0.1:0,any,h:7,,.\n");
}

/* A command has a link to its agent as its parent, and one of the grid: that is one node it is linked to. */
static void a_node_is_linked_to_another_once(void **state) {
    (void)state;
    char port[8], address[40];
    struct cli node, run, c;
    a_port(port);
    snprintf(address, sizeof address, "127.0.0.1:%s", port);
    cli_start(&node, NULL, "node", "--grid", address, "--slots", "2", "--listen", address, NULL);
    (void)cli_line(&node, 2, "takes commands");
    cli_start(&run, NULL, "run", "--grid", address, "--outbound-only", "--on-nodes", kit_program("NODE"), "serve", "it",
              NULL);
    (void)cli_line(&run, 1, "serving");
    for (;;) { /* the second comes when it comes */
        assert_int_equal(cli_do(&c, "ps", "--grid", address, "--json", NULL), 0);
        bool both = strstr(c.text[0].p, "\"n_links\": 2, ") != NULL;
        cli_free(&c);
        if (both) break;
    }
    assert_int_equal(cli_do(&c, "ps", "--grid", address, NULL), 0);
    char *row = strstr(c.text[0].p, "cli_node");
    assert_non_null(row);
    row[strcspn(row, "\n")] = 0;
    char *uptime = strrchr(row, ' ');
    assert_non_null(uptime);
    *uptime = 0;
    while (uptime > row && uptime[-1] == ' ') *--uptime = 0;
    assert_string_equal(strrchr(row, ' ') + 1, "1");
    cli_free(&c);
    kill(run.pid, SIGTERM);
    assert_int_equal(cli_wait(&run), 143);
    cli_free(&run);
    kill(node.pid, SIGTERM);
    assert_int_equal(cli_wait(&node), 0);
    cli_free(&node);
}

/* An agent that has lost all others says so, and when it has found some again. */
static void who_has_lost_the_grid_says_so(void **state) {
    (void)state;
    char port[8], address[40];
    struct cli hub, node, c;
    a_port(port);
    snprintf(address, sizeof address, "127.0.0.1:%s", port);
    cli_start(&hub, NULL, "node", "--grid", address, "--listen", address, NULL);
    (void)cli_line(&hub, 2, "takes commands");
    cli_start(&node, NULL, "node", "--grid", address, "--outbound-only", NULL);
    for (int rows = 0; rows < 2; cli_free(&c)) { /* who looks leaves in order: nothing is said of that */
        (void)cli_do(&c, "ps", "--grid", address, NULL);
        rows = kit_count(&c.text[0], "moyai node");
    }
    pid_t keeper = kit_child_of(hub.pid), runner = kit_child_of(keeper);
    kill(keeper, SIGSTOP);
    kill(runner, SIGKILL);
    kill(hub.pid, SIGKILL);
    kill(keeper, SIGKILL);
    (void)cli_wait(&hub);
    cli_free(&hub);
    const char *said = cli_line(&node, 2, "MOYAI-ALONE no link to another node is left; that to node ");
    if (!strstr(said, " broke last. Others are looked for, again within 45 s each time: 127.0.0.1:"))
        fail_msg("%s", said);
    cli_start(&hub, NULL, "node", "--grid", address, "--listen", address, NULL);
    (void)cli_line(&node, 2, "MOYAI-ALONE there is a link to another node again");
    kill(hub.pid, SIGTERM); /* it ends in order */
    assert_int_equal(cli_wait(&hub), 0);
    cli_free(&hub);
    kill(node.pid, SIGTERM);
    assert_int_equal(cli_wait(&node), 0);
    assert_int_equal(kit_count(&node.text[1], "MOYAI-ALONE"), 2);
    cli_free(&node);
}

/* So many members have a link, and others none. For a moment they may be more, some being guests, or one less, while
 * who is to have the place has not called again. */
static void are_taken(const char *address, int places) {
    struct cli c;
    int rows = 0;
    for (int looks = 0; rows != 1 + places; looks++) {
        assert_true(looks < 100);
        assert_int_equal(cli_do(&c, "ps", "--grid", address, NULL), 0);
        rows = kit_count(&c.text[0], "moyai node");
        cli_free(&c);
    }
}

/* Where descriptors are few there are as many places fewer, and who is left out hears of it, and says so until there is
 * one; who looks at the grid has a place of his own, and the agent says once that it is full. */
static void who_may_open_few_files_has_few_places(void **state) {
    (void)state;
    /* Of the least degree; and of 76 files: 12 links, a guest's being 4, one for who looks, one for who listens. */
    enum { PLACES = 3 + 3, OTHERS = PLACES + 3, TURNS = 12 };
    char port[8], address[40], id[9], run[100],
        lates[104]; /* on a host of its own: by Unix sockets all can talk without places */
    const char *const small[] = {"MOYAI_DEGREE=1", run, NULL};
    struct cli node, other[OTHERS], c;
    snprintf(run, sizeof run, "MOYAI_RUN_DIR=%s-run", key);
    assert_int_equal(mkdir(strchr(run, '=') + 1, 0700), 0);
    a_port(port);
    snprintf(address, sizeof address, "127.0.0.1:%s", port);
    cli_start(&node, &(struct cli_opts){.env = small, .files = 76}, "node", "--grid", address, "--slots", "1",
              "--listen", address, NULL);
    snprintf(id, sizeof id, "%s", strstr(cli_line(&node, 2, "takes commands"), ": node ") + 7);
    for (int i = 0; i < OTHERS; i++)
        cli_start(&other[i], NULL, "node", "--grid", address, "--slots", "1", "--outbound-only", NULL);
    (void)cli_line(&node, 2, "this node is full, and one that has no other link had to be turned away");
    for (int i = 0; i < OTHERS; i++) (void)cli_line(&other[i], 2, "takes commands");
    are_taken(address, PLACES);
    /* A second one to look finds that taken, and does not wait for nothing. */
    struct cli looks;
    cli_start(&looks, NULL, "ping", "--grid", address, "-i", "100ms", id, NULL);
    (void)cli_line(&looks, 1, "answer of node");
    assert_int_equal(cli_do(&c, "ps", "--grid", address, "--json", NULL), 1);
    const char *said = c.text[1].p;
    if (!strstr(said, "no place in the grid at '") || !strstr(said, ": it has no place for another observer now"))
        fail_msg("%s", said);
    assert_non_null(strstr(c.text[0].p, "\"name\": \"MOYAI_EUNREACHABLE\""));
    cli_free(&c);
    /* But who has time waits: these have their turn one after the other. */
    struct cli turn[TURNS];
    for (int i = 0; i < TURNS; i++) cli_start(&turn[i], NULL, "ps", "--grid", address, "--timeout", "200s", NULL);
    (void)cli_line(&turn[0], 2, "no link to the grid at '");
    kill(looks.pid, SIGINT);
    assert_int_equal(cli_wait(&looks), 0);
    cli_free(&looks);
    for (int i = 0; i < TURNS; i++) {
        if (cli_wait(&turn[i]) != 0) fail_msg("%s", turn[i].text[1].p);
        cli_free(&turn[i]);
    }
    are_taken(address, PLACES);
    struct cli late;
    const char *const third[] = {lates, NULL};
    snprintf(lates, sizeof lates, "%s2", run);
    assert_int_equal(mkdir(strchr(lates, '=') + 1, 0700), 0);
    cli_start(&late, &(struct cli_opts){.env = third}, "node", "--grid", address, "--slots", "1", "--outbound-only",
              NULL);
    (void)cli_line(&late, 2, "it has no place for a link more");
    for (int i = 0; i < OTHERS; i++) kill(other[i].pid, SIGTERM);
    (void)cli_line(&late, 2, "can be met now");
    kill(late.pid, SIGTERM);
    assert_int_equal(cli_wait(&late), 0);
    cli_free(&late);
    for (int i = 0; i < OTHERS; i++) {
        assert_int_equal(cli_wait(&other[i]), 0);
        cli_free(&other[i]);
    }
    kill(node.pid, SIGTERM);
    assert_int_equal(cli_wait(&node), 0);
    assert_int_equal(kit_count(&node.text[1], "this process may have 76 files open"), 1);
    assert_int_equal(kit_count(&node.text[1], "it needs 325"), 1);
    assert_int_equal(kit_count(&node.text[1], "this node is full"), 1);
    cli_free(&node);
    (void)rmdir(strchr(run, '=') + 1);
    (void)rmdir(strchr(lates, '=') + 1);
}

/* Two agents have a copy each of one key, and in one the old key is ended: both say that they are alone, though what
 * looked at them meanwhile has left in order. */
static void who_is_shut_out_says_so(void **state) {
    (void)state;
    char port[8], address[40], copy[80], command[200], dir[2][120];
    struct cli node[2], ping, c;
    for (int i = 0; i < 2; i++) snprintf(dir[i], sizeof dir[i], "MOYAI_RUN_DIR=%s/host%d", kit_dir(), i);
    a_port(port);
    snprintf(address, sizeof address, "127.0.0.1:%s", port);
    snprintf(copy, sizeof copy, "%s-copy", key);
    snprintf(command, sizeof command, "cp -p %s %s", key, copy);
    assert_int_equal(system(command), 0);
    cli_start(&node[0], &(struct cli_opts){.env = (const char *const[]){dir[0], NULL}}, "node", "--grid", NOWHERE,
              "--listen", address, NULL);
    (void)cli_line(&node[0], 2, "takes commands");
    cli_start(&node[1], &(struct cli_opts){.env = (const char *const[]){dir[1], NULL}}, "node", "--grid", address,
              "--outbound-only", "--key-file", copy, NULL);
    (void)cli_line(&node[1], 2, "takes commands");
    /* Who waits for something here looks on meanwhile; and a process of this host is no grid. */
    cli_start(&ping, &(struct cli_opts){.env = (const char *const[]){dir[1], NULL}}, "call", "--grid", address,
              "--key-file", copy, "nobody-has-this-name", "x", NULL);
    for (bool both = false; !both; cli_free(&c)) {
        assert_int_equal(cli_do(&c, "ps", "--grid", address, NULL), 0);
        both = kit_count(&c.text[0], "moyai node") == 2;
    }
    assert_int_equal(cli_do(&c, "key", "rotate", "--keep", "0", "--key-file", key, NULL), 0);
    cli_free(&c);
    assert_int_equal(cli_do(&c, "ps", "--grid", address, NULL), 0); /* whose handshake makes it look at the file */
    cli_free(&c);
    for (int i = 0; i < 2; i++) {
        (void)cli_line(&node[i], 2, "MOYAI-ALONE no link to another host is left; that to node ");
        kill(node[i].pid, SIGTERM);
        assert_int_equal(cli_wait(&node[i]), 0);
        cli_free(&node[i]);
    }
    (void)cli_wait(&ping);
    cli_free(&ping);
    unlink(copy);
    snprintf(command, sizeof command, "rm -r %s/host0 %s/host1", kit_dir(), kit_dir());
    assert_int_equal(system(command), 0);
}

/* Of the three processes of a run, whichever are killed, one is left that tells the agent, which has no other link and
 * would wait for as long as a session lives without one. And so with an agent and its starter. */
static void who_is_killed_is_known_to_be(void **state) {
    (void)state;
    static const char *const patient[] = {"MOYAI_REATTACH=200s", NULL};
    static const int killed[][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 2}};
    char port[8], address[40];
    struct cli node, c;
    for (size_t agent = 0; agent < 2; agent++)
        for (size_t i = 0; i < sizeof killed / sizeof killed[0]; i++) {
            a_port(port);
            snprintf(address, sizeof address, "127.0.0.1:%s", port);
            cli_start(&node, &(struct cli_opts){.env = patient}, "node", "--grid", agent ? address : NOWHERE, "--slots",
                      "2", "--listen", address, NULL);
            (void)cli_line(&node, 2, "takes commands");
            cli_start(&c, &(struct cli_opts){.env = patient}, "run", "--grid", address, "--outbound-only", "--on-nodes",
                      "--no-prefix", "sh", "-c", "echo $$; exec \"$0\" until-asked 0", kit_program("HELPER"), NULL);
            pid_t command = (pid_t)atoi(cli_line(&c, 1, ""));
            assert_true(command > 0);
            int pidfd = (int)syscall(SYS_pidfd_open, command, 0);
            struct cli *victim = agent ? &node : &c;
            pid_t three[3] = {victim->pid, kit_child_of(victim->pid), 0};
            three[2] = kit_child_of(three[1]);
            for (int k = 0; k < 3; k++)
                if (k == killed[i][0] || k == killed[i][1]) kill(three[k], SIGKILL);
            if (agent) { /* the run has lost its only process */
                assert_int_equal(cli_wait(&c), 137);
                (void)cli_wait(&node);
            } else {
                struct pollfd p = {.fd = pidfd, .events = POLLIN};
                assert_int_equal(poll(&p, 1, -1), 1);
                (void)cli_wait(&c);
                kill(node.pid, SIGTERM);
                assert_int_equal(cli_wait(&node), 0);
            }
            close(pidfd);
            cli_free(&c);
            cli_free(&node);
        }
}

/* The one that is at fault is named. */
static void what_cannot_be_had_is_named(void **state) {
    (void)state;
    char port[8], address[40], text[160], range[40];
    struct cli c;
    struct sockaddr_in6 here = {.sin6_family = AF_INET6, .sin6_port = htons(test_free_port())};
    int taken = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(taken, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(listen(taken, 1), 0);
    snprintf(port, sizeof port, "%u", ntohs(here.sin6_port));
    snprintf(address, sizeof address, "[::1]:%s", port);
    cli_start(&c, NULL, "run", "--grid", NOWHERE, "--port-range", port, "true", NULL);
    snprintf(text, sizeof text, "moyai run: --port-range: port %s is in use\n", port);
    says(&c, 125, 2, text);
    cli_start(&c, NULL, "node", "--grid", NOWHERE, "--listen", address, NULL);
    snprintf(text, sizeof text, "moyai node: --listen: cannot listen at %s: another program does\n", address);
    says(&c, 1, 2, text);
    static const char *const relative[] = {"MOYAI_RUN_DIR=here", NULL};
    cli_start(&c, &(struct cli_opts){.env = relative}, "ps", "--grid", NOWHERE, NULL);
    says(&c, 2, 2, "moyai ps: $MOYAI_RUN_DIR: run directory 'here' must be an absolute path\n");
    snprintf(range, sizeof range, "MOYAI_PORT_RANGE=%s", port);
    const char *const env[] = {range, NULL};
    cli_start(&c, &(struct cli_opts){.env = env}, "run", "--grid", NOWHERE, "true", NULL);
    snprintf(text, sizeof text, "moyai run: $MOYAI_PORT_RANGE: port %s is in use\n", port);
    says(&c, 125, 2, text);
    close(taken);
    /* The run itself takes a port, too. */
    cli_start(&c, NULL, "run", "--grid", NOWHERE, "--port-range", port, "@n", "once", NULL);
    snprintf(text, sizeof text, "$MOYAI_PORT_RANGE: port %s is in use\n", port);
    says(&c, 1, 2, text);
}

/* Also before the first link, by which time nothing of the verb's own is under way. */
static void who_waits_for_the_grid_is_interrupted(void **state) {
    (void)state;
    static const char *const words[][8] = {{"ps", "--grid", NOWHERE, NULL},
                                           {"graph", "--grid", NOWHERE, "--json", NULL},
                                           {"trace", "--grid", NOWHERE, "0123456789abcdef0123456789abcdef", NULL},
                                           {"ping", "--grid", NOWHERE, "-c", "1", "master", NULL},
                                           {"call", "--grid", NOWHERE, "master", "x", NULL}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct cli c;
        cli_startv(&c, NULL, words[i]);
        (void)cli_line(&c, 2, "nobody of the grid at '");
        kill(c.pid, i % 2 ? SIGTERM : SIGINT);
        assert_int_equal(cli_wait(&c), 130);
        assert_non_null(strstr(c.text[1].p, ": interrupted\n"));
        cli_free(&c);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* the name of one test */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_checked),
        cmocka_unit_test(who_waits_for_the_grid_is_interrupted),
        cmocka_unit_test(a_member_is_a_meeting_point),
        cmocka_unit_test(it_is_passed_on),
        cmocka_unit_test(a_node_is_linked_to_another_once),
        cmocka_unit_test(who_has_lost_the_grid_says_so),
        cmocka_unit_test(who_may_open_few_files_has_few_places),
        cmocka_unit_test(who_is_shut_out_says_so),
        cmocka_unit_test(who_is_killed_is_known_to_be),
        cmocka_unit_test(what_cannot_be_had_is_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
