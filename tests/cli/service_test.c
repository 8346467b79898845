/* SPDX-License-Identifier: Apache-2.0 */
/* moyai node as a service: what it tells the manager that has started it, which this test plays. */
#include "tests/cli/kit.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char grid[100], places[100], path[100], variable[140];
static const char *const added[] = {variable, NULL};
static const struct cli_opts as_service = {.env = added};

static int set_up(void **state) {
    if (kit_setup(state) != 0) return -1;
    snprintf(grid, sizeof grid, "%s/grid", kit_dir());
    snprintf(places, sizeof places, "%s/moyai", kit_dir());
    return mkdir(grid, 0700);
}

static int tear_down(void **state) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s %s", grid, places);
    if (system(command) != 0) return -1;
    return kit_teardown(state);
}

static void has(const struct cli *c, int which, const char *part) {
    if (!strstr(c->text[which].p, part)) fail_msg("no \"%s\" in: %s", part, c->text[which].p);
}

/* The manager's socket, of a path or, of a number, abstract; and the variable that names it. */
static int listen_at(bool abstract) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (abstract)
        snprintf(path, sizeof path, "@moyai-service-test-%d", (int)getpid());
    else
        snprintf(path, sizeof path, "%s/notify", kit_dir());
    snprintf(variable, sizeof variable, "NOTIFY_SOCKET=%s", path);
    strcpy(a.sun_path, path);
    if (abstract) a.sun_path[0] = 0;
    const size_t n = offsetof(struct sockaddr_un, sun_path) + strlen(path) + !abstract;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&a, (socklen_t)n), 0);
    return fd;
}

static void close_at(int fd) {
    close(fd);
    if (path[0] == '/') unlink(path);
}

static void await(int fd, const char *told) {
    char text[300];
    ssize_t n = recv(fd, text, sizeof text - 1, 0); /* alarm(2) guards */
    assert_true(n > 0);
    text[n] = 0;
    if (!strstr(text, told)) fail_msg("no \"%s\" in: %s", told, text);
}

static void nothing_more(int fd) {
    char text[300];
    assert_int_equal(recv(fd, text, sizeof text, MSG_DONTWAIT), -1);
}

static void start(struct cli *node, const char *grace) {
    cli_start(node, &as_service, "node", "--grid", grid, "--slots", "2", "--grace", grace, NULL);
}

static void it_is_ready_and_stops(void **state) {
    (void)state;
    for (int abstract = 0; abstract < 2; abstract++) {
        struct cli node, c;
        int fd = listen_at(abstract);
        start(&node, "1h");
        await(fd, "READY=1\nSTATUS=takes commands, 2 at once");
        /* Its commands are others. */
        assert_int_equal(cli_do(&c, "run", "--grid", grid, "--on-nodes", "env", NULL), 0);
        has(&c, 0, "MOYAI_GRID=");
        assert_null(strstr(c.text[0].p, "NOTIFY_SOCKET"));
        cli_free(&c);
        /* It tells before they have ended. */
        cli_start(&c, NULL, "run", "--grid", grid, "--on-nodes", "--grace", "50ms", "@h", "stubborn", NULL);
        (void)cli_line(&c, 1, "ready");
        nothing_more(fd);
        assert_int_equal(kill(node.pid, SIGTERM), 0);
        await(fd, "STOPPING=1\n");
        assert_int_equal(kill(c.pid, SIGTERM), 0);
        assert_int_equal(kill(c.pid, SIGCONT), 0);
        cli_close_in(&c);
        (void)cli_wait(&c);
        cli_free(&c);
        assert_int_equal(cli_wait(&node), 0);
        assert_null(strstr(node.text[1].p, "warning: cannot"));
        cli_free(&node);
        nothing_more(fd);
        close_at(fd);
    }
}

/* moyai leave, and a notice: with status 0, so that a manager leaves it where it is. */
static void it_leaves_on_purpose(void **state) {
    (void)state;
    struct cli node, c;
    char host[100];
    int fd = listen_at(true);
    assert_int_equal(gethostname(host, sizeof host), 0);
    start(&node, "5s");
    await(fd, "READY=1\n");
    assert_int_equal(cli_do(&c, "leave", "--grid", grid, "--host", host, NULL), 0);
    cli_free(&c);
    await(fd, "STOPPING=1\n");
    assert_int_equal(cli_wait(&node), 0);
    cli_free(&node);
    start(&node, "5s");
    await(fd, "READY=1\n");
    assert_int_equal(kill(node.pid, SIGUSR1), 0);
    await(fd, "STOPPING=1\n");
    assert_int_equal(cli_wait(&node), 0);
    cli_free(&node);
    nothing_more(fd);
    close_at(fd);
}

static void it_says_that_it_cannot_tell(void **state) {
    (void)state;
    static const struct {
        const char *where, *why;
    } wrong[] = {{"/nosuch/notify", "No such file or directory"},
                 {"@moyai-nobody", "Connection refused"},
                 {"vsock:2:1", "Address family not supported"},
                 {"@", "Invalid argument"},
                 {"/a-name-that-is-longer-than-an-address-of-a-socket-may-be-which-has-a-place-for-hundred-and-eight-"
                  "bytes-only",
                  "File name too long"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct cli node;
        snprintf(variable, sizeof variable, "NOTIFY_SOCKET=%s", wrong[i].where);
        start(&node, "5s");
        (void)cli_line(&node, 2, "warning: cannot tell the service manager");
        assert_int_equal(kill(node.pid, SIGTERM), 0);
        assert_int_equal(cli_wait(&node), 0); /* all the same */
        has(&node, 1, wrong[i].where);
        has(&node, 1, wrong[i].why);
        assert_int_equal(kit_count(&node.text[1], "warning"), 1);
        cli_free(&node);
    }
    struct cli node;
    strcpy(variable, "NOTIFY_SOCKET=");
    start(&node, "5s");
    (void)cli_line(&node, 2, "takes commands");
    assert_int_equal(kill(node.pid, SIGTERM), 0);
    assert_int_equal(cli_wait(&node), 0);
    assert_null(strstr(node.text[1].p, "warning"));
    cli_free(&node);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_ready_and_stops),
        cmocka_unit_test(it_leaves_on_purpose),
        cmocka_unit_test(it_says_that_it_cannot_tell),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
