/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of strangers, who hold no key, take all places that a node has for those that have not said hello, again
 * and again: members get in all the same. */
#include "tests/cli/kit.h"
#include "tests/support/port.h"

#include "link/tcp.h"
#include "link/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STRANGERS 1000

static char key[64], address[64];
static uint16_t port;
static struct cli node;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Where an agent listens, that others can be told before it is there. */
static void find_port(void) {
    port = test_free_port();
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
}

static int set_up(void **state) {
    struct cli c;
    if (kit_setup(state) != 0) return -1;
    snprintf(key, sizeof key, "/tmp/moyai-cli-strangers-%d", (int)getpid());
    assert_int_equal(cli_do(&c, "key", "new", "--key-file", key, NULL), 0);
    cli_free(&c);
    find_port();
    cli_start(&node, NULL, "node", "--grid", address, "--listen", address, "--key-file", key, NULL);
    (void)cli_line(&node, 2, "takes commands");
    return 0;
}

static int tear_down(void **state) {
    kill(node.pid, SIGTERM);
    assert_int_equal(cli_wait(&node), 0);
    cli_free(&node);
    unlink(key);
    char command[100]; /* the default run directory, which such a grid uses, stays */
    snprintf(command, sizeof command, "rmdir %s/moyai", kit_dir());
    assert_int_equal(system(command), 0);
    return kit_teardown(state);
}

/* ---- the strangers --------------------------------------------------------------------------- */

enum way { ONE_ADDRESS, MANY_ADDRESSES, CAPTURED };
static const char *const ways[] = {"strangers of one address", "strangers of many addresses", "captured hellos"};
static uint8_t hello[2000]; /* what a member has said first */
static size_t hello_n;

static void capture(void) {
    struct keyfile *keys;
    struct tls_ctx *ctx;
    int s[2];
    assert_int_equal(keyfile_open(&keys, key, NULL), 0);
    assert_int_equal(tls_ctx_new(&ctx, keys, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s), 0);
    struct tls *t = tls_new(ctx, s[0], false, 0);
    assert_int_equal(tls_handshake(t, NULL), TLS_WANT_READ);
    ssize_t n = read(s[1], hello, sizeof hello);
    assert_true(n > 100);
    hello_n = (size_t)n;
    tls_free(t);
    tls_ctx_free(ctx);
    keyfile_close(keys);
    close(s[0]);
    close(s[1]);
}

/* One that says nothing, the beginning of what a member would say, or a part of it after which it waits; or what a
 * member has said, without knowing how it goes on. */
static int one(int i, enum way way) {
    static const uint8_t said[] = "\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03 and then nothing";
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from = {.sin_family = AF_INET};
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (way == MANY_ADDRESSES ? (uint32_t)(i % 500) : 0));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof from) < 0 ||
        (connect(fd, (struct sockaddr *)&a, sizeof a) < 0 && errno != EINPROGRESS)) {
        if (fd >= 0) close(fd);
        return -1;
    }
    if (way == CAPTURED)
        (void)!send(fd, hello, hello_n, MSG_NOSIGNAL);
    else if (i % 3)
        (void)!send(fd, said, i % 3 == 1 ? 1 : sizeof said - 1, MSG_NOSIGNAL);
    return fd;
}

/* Until it is killed: whoever is thrown out comes again at once. `ready`: all have come. */
static void hammer(int n, enum way way, int ready) {
    struct pollfd *p = calloc((size_t)n, sizeof *p);
    for (int i = 0; i < n; i++) p[i] = (struct pollfd){.fd = one(i, way), .events = POLLIN};
    (void)!write(ready, "", 1);
    for (;;) {
        (void)poll(p, (nfds_t)n, 10);
        for (int i = 0; i < n; i++) {
            uint8_t got[4000];
            bool more = p[i].fd >= 0 && (!p[i].revents || recv(p[i].fd, got, sizeof got, MSG_DONTWAIT) > 0);
            if (more) continue;
            if (p[i].fd >= 0) close(p[i].fd);
            p[i].fd = one(i, way);
        }
    }
}

static pid_t begin(enum way way) {
    int ready[2];
    char c;
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_cur < STRANGERS + 50) files.rlim_cur = files.rlim_max;
    if (files.rlim_cur > STRANGERS + 50) files.rlim_cur = STRANGERS + 50;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the test may fail */
        (void)setrlimit(RLIMIT_NOFILE, &files);
        hammer((int)files.rlim_cur - 50, way, ready[1]);
    }
    assert_true(pid > 0);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end(pid_t pid) {
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- the members ----------------------------------------------------------------------------- */

/* A newcomer asks who is there; it gives up after 10 s by itself. */
static void a_member_gets_in(const char *what) {
    struct cli c;
    double begun = now();
    int rc = cli_do(&c, "ps", "--grid", address, "--key-file", key, NULL);
    print_message("%s: %.2f s\n", what, now() - begun);
    if (rc != 0) fail_msg("%s", c.text[1].p);
    assert_non_null(strstr(c.text[0].p, "moyai node"));
    cli_free(&c);
}

static void strangers_keep_nobody_out(void **state) {
    (void)state;
    a_member_gets_in("with nobody about");
    capture();
    for (enum way way = ONE_ADDRESS; way <= CAPTURED; way++) {
        pid_t pid = begin(way);
        for (int i = 0; i < 3; i++) a_member_gets_in(ways[way]);
        end(pid);
    }
    a_member_gets_in("when they have gone");
}

/* A thousand that hold the key come at once, from one address, as the nodes of a cluster behind a NAT do: no place
 * is taken from them, but perhaps from one that the system has stopped for long between its connection and its hello.
 */
static void a_herd_of_members_gets_in(void **state) {
    (void)state;
    struct keyfile *keys;
    struct tls_ctx *ctx;
    struct tcp_addr at;
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_cur < STRANGERS + 50) files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    int n = files.rlim_cur < STRANGERS + 50 ? (int)files.rlim_cur - 50 : STRANGERS;
    assert_int_equal(keyfile_open(&keys, key, NULL), 0);
    assert_int_equal(tls_ctx_new(&ctx, keys, NULL), 0);
    assert_int_equal(tcp_parse(address, &at, NULL), 0);
    struct pollfd *p = calloc((size_t)n, sizeof *p);
    struct tls **tls = calloc((size_t)n, sizeof(void *));
    double begun = now();
    int lost = 0;
    for (int i = 0, done = 0; done < n;) { /* the alarm guards */
        struct moyai_error why = {0};
        if (i < n) {
            assert_int_equal(tcp_connect(&p[i].fd, &at, NULL), 0);
            p[i].events = POLLOUT;
            tls[i] = tls_new(ctx, p[i].fd, false, 0);
            assert_non_null(tls[i++]);
        }
        assert_true(poll(p, (nfds_t)i, i < n ? 0 : 100) >= 0);
        for (int k = 0; k < i; k++) {
            if (p[k].fd < 0 || !p[k].revents) continue;
            int rc = tls_handshake(tls[k], &why);
            if (rc < 0 && lost++ > n / 50) fail_msg("%d of %d: %s", k, n, why.text);
            p[k].events = rc == TLS_WANT_WRITE ? POLLOUT : POLLIN;
            if (rc == TLS_WANT_READ || rc == TLS_WANT_WRITE) continue;
            tls_free(tls[k]);
            close(p[k].fd);
            p[k].fd = -1;
            done++;
        }
    }
    print_message("a herd of %d: %.2f s, %d lost\n", n, now() - begun, lost);
    free(p);
    free(tls);
    tls_ctx_free(ctx);
    keyfile_close(keys);
    a_member_gets_in("after the herd");
}

/* However many lines of garbage come, it is said why a member with another key is refused. */
static void garbage_hides_no_wrong_key(void **state) {
    (void)state;
    char wrong[80];
    struct cli c, one_more;
    find_port();
    snprintf(wrong, sizeof wrong, "%s-wrong", key);
    assert_int_equal(cli_do(&c, "key", "new", "--key-file", wrong, NULL), 0);
    cli_free(&c);
    cli_start(&one_more, &(struct cli_opts){.env = (const char *const[]){"MOYAI_LOG=warning", NULL}}, "node", "--grid",
              address, "--listen", address, "--key-file", key, NULL);
    (void)cli_line(&one_more, 2, "takes commands");
    for (int i = 0; i < 30; i++) {
        struct tcp_addr at;
        int fd;
        char got[100];
        assert_int_equal(tcp_parse(address, &at, NULL), 0);
        assert_int_equal(tcp_connect(&fd, &at, NULL), 0);
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        assert_int_equal(poll(&p, 1, -1), 1);
        assert_int_equal(send(fd, "what is this?\n\n", 15, MSG_NOSIGNAL), 15);
        p.events = POLLIN;
        do assert_int_equal(poll(&p, 1, -1), 1);
        while (recv(fd, got, sizeof got, 0) > 0);
        close(fd);
    }
    (void)cli_line(&one_more, 2, "MOYAI-LINK-STRANGER the link to somebody at 127.0.0.1:");
    assert_int_equal(cli_do(&c, "ps", "--grid", address, "--timeout", "5", "--key-file", wrong, NULL), 1);
    cli_free(&c);
    (void)cli_line(&one_more, 2, "MOYAI-LINK-KEY the link to somebody at 127.0.0.1:");
    kill(one_more.pid, SIGTERM);
    assert_int_equal(cli_wait(&one_more), 0);
    assert_non_null(strstr(one_more.text[1].p, "MOYAI-LINK-STRANGER 28 more of these were left out"));
    cli_free(&one_more);
    unlink(wrong);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(strangers_keep_nobody_out),
                                       cmocka_unit_test(a_herd_of_members_gets_in),
                                       cmocka_unit_test(garbage_hides_no_wrong_key)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
