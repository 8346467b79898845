/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for ssh: forwards a port, or does what ssh does when it cannot. $FAKE_SSH is a directory:
 *
 *   mode-HOST or, without it, mode
 *          what to do. forward: listen at the first port of -L or -R, and pass all to the second; of -R too, as here
 *          both ends are one host. slow: the same, each part 100 ms later. refuse: say why and end. hang: neither, for
 *          ever, whatever signal comes. babble: say lines without end. wait: until it is something else. gone: be a
 *          script that finds no ssh.
 *
 *          Where nothing listens at the other end ssh takes connections all the same, and closes them when it hears
 *          so. close: at once; reset: at once, by a reset; unread: when something has come, and say it, as ssh does;
 *          mute: never.
 *
 *   said   of babble: is as many bytes long as those that were said
 *
 *   args   to it the arguments are added, a line each, and an empty line
 *
 *   pid    is replaced by one with the process's number when it has begun
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void die(const char *what) {
    fprintf(stderr, "fake ssh: %s: %s\n", what, strerror(errno));
    exit(255);
}

static void path_of(const char *name, char path[256]) {
    snprintf(path, 256, "%s/%s", getenv("FAKE_SSH"), name);
}

static void record(int argc, char **argv) {
    char path[256], all[4096] = "";
    size_t n = 0;
    for (int i = 1; i < argc; i++) n += (size_t)snprintf(all + n, sizeof all - n, "%s\n", argv[i]);
    n += (size_t)snprintf(all + n, sizeof all - n, "\n");
    path_of("args", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || write(fd, all, n) != (ssize_t)n) die(path);
    close(fd);
}

static void say_pid(void) {
    char path[256], temp[256];
    path_of("pid", path);
    char own[30]; /* two may begin at one time */
    snprintf(own, sizeof own, "pid.%d", getpid());
    path_of(own, temp);
    FILE *f = fopen(temp, "w");
    if (!f || fprintf(f, "%d\n", getpid()) < 0 || fclose(f) || rename(temp, path) < 0) die(path);
}

static void read_mode(const char *host, char mode[16]) {
    char name[100], path[256];
    snprintf(name, sizeof name, "mode-%.80s", host);
    path_of(name, path);
    FILE *f = fopen(path, "r");
    if (!f) {
        path_of("mode", path);
        f = fopen(path, "r");
    }
    if (!f || fscanf(f, "%15s", mode) != 1) die(path);
    fclose(f);
}

static int listen_at(unsigned port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    a.sin_port = htons((uint16_t)port);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 16) < 0)
        die("cannot listen");
    return fd;
}

/* All of one side to the other until both have ended, each part after a while. */
static void pass(int a, unsigned port, unsigned ms) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int b = socket(AF_INET, SOCK_STREAM, 0);
    to.sin_port = htons((uint16_t)port);
    if (b < 0 || connect(b, (struct sockaddr *)&to, sizeof to) < 0) return;
    struct pollfd p[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
    static char buf[65536];
    while ((p[0].fd >= 0 || p[1].fd >= 0) && poll(p, 2, -1) >= 0)
        for (int i = 0; i < 2; i++) {
            if (p[i].fd < 0 || !p[i].revents) continue;
            ssize_t n = read(p[i].fd, buf, sizeof buf);
            if (n < 0) return;
            (void)poll(NULL, 0, (int)ms);
            if (n == 0) {
                (void)shutdown(i ? a : b, SHUT_WR);
                p[i].fd = -1;
            }
            for (ssize_t at = 0, m; at < n; at += m)
                if ((m = write(i ? a : b, buf + at, (size_t)(n - at))) <= 0) return;
        }
}

static void vain(int c, const char *mode) {
    const struct linger at_once = {.l_onoff = 1};
    struct pollfd p = {.fd = c, .events = POLLIN};
    if (strcmp(mode, "reset") == 0) (void)setsockopt(c, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (strcmp(mode, "unread") == 0) (void)poll(&p, 1, -1);
    if (strcmp(mode, "unread") == 0) fprintf(stderr, "channel 2: open failed: connect failed: Connection refused\r\n");
    if (strcmp(mode, "mute") != 0) close(c);
}

static bool is_vain(const char *mode) {
    static const char *const modes[] = {"close", "reset", "unread", "mute"};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(mode, modes[i]) == 0) return true;
    return false;
}

static void babble(void) {
    char path[256], lines[4096];
    path_of("said", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) die(path);
    for (size_t i = 0; i < sizeof lines; i++) lines[i] = i % 8 == 7 ? '\n' : (char)('a' + i % 8);
    say_pid();
    for (off_t n = (off_t)sizeof lines;; n += (off_t)sizeof lines)
        if (write(STDERR_FILENO, lines, sizeof lines) != (ssize_t)sizeof lines || ftruncate(fd, n) < 0) die("babble");
}

int main(int argc, char **argv) {
    char mode[16] = "";
    unsigned port = 0, to = 0;
    record(argc, argv);
    read_mode(argv[argc - 1], mode);
    while (strcmp(mode, "wait") == 0) {
        (void)poll(NULL, 0, 20);
        read_mode(argv[argc - 1], mode);
    }
    if (strcmp(mode, "refuse") == 0) {
        fprintf(stderr, "debug\none\n\n\033[1mtwo\r\nsomebody@somewhere: Permission denied (publickey).\r\n");
        return 255;
    }
    if (strcmp(mode, "gone") == 0) {
        fprintf(stderr, "wrapper: 3: ssh: not found\n");
        return 127;
    }
    if (strcmp(mode, "hang") == 0) {
        signal(SIGTERM, SIG_IGN);
        say_pid();
        for (;;) pause();
    }
    if (strcmp(mode, "babble") == 0) babble();
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "-L") == 0 || strcmp(argv[i], "-R") == 0)
            if (sscanf(argv[i + 1], "127.0.0.1:%u:127.0.0.1:%u", &port, &to) != 2) die(argv[i + 1]);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    int fd = listen_at(port);
    say_pid();
    pid_t self = getpid();
    for (;;) {
        int c = accept(fd, NULL, NULL);
        if (c < 0) die("cannot accept");
        if (is_vain(mode)) {
            vain(c, mode);
            continue;
        }
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == self) pass(c, to, strcmp(mode, "slow") == 0 ? 100 : 0);
            _exit(0);
        }
        close(c);
    }
}
