/* SPDX-License-Identifier: Apache-2.0 */
/* Processes for runs under test, which know nothing of moyai: cli_helper MODE [ARGUMENT...] */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char *text) {
    size_t n = strlen(text);
    if (write(1, text, n) != (ssize_t)n) _exit(99);
}

static void pause_for_ever(void) {
    for (;;) pause();
}

static void write_all(const char *p, size_t n) {
    while (n > 0) {
        ssize_t k = write(1, p, n);
        if (k < 0) exit(99);
        p += k;
        n -= (size_t)k;
    }
}

/* COUNT lines "RANK SEQUENCE letters", each the checker's to recompute, written in odd portions. */
static int lines(int count) {
    const char *rank = getenv("MOYAI_RANK");
    unsigned seed = (unsigned)atoi(rank) + 1;
    static char text[1 << 20];
    size_t n = 0;
    for (int i = 0; i < count; i++) {
        n += (size_t)sprintf(text + n, "%s %d ", rank, i);
        int len = (i * 37 + (atoi(rank) + 1) * 11) % 200;
        for (int j = 0; j < len; j++) text[n++] = (char)('a' + (i + j) % 26);
        text[n++] = '\n';
        if (n > sizeof text / 2 || i == count - 1) {
            for (size_t at = 0; at < n;) {
                size_t k = 1 + (size_t)(rand_r(&seed) % 700);
                if (k > n - at) k = n - at;
                write_all(text + at, k);
                at += k;
            }
            n = 0;
        }
    }
    return 0;
}

/* Bytes without a newline, in one line that is larger than any buffer. */
static int long_line(size_t n) {
    static char part[10000];
    for (size_t i = 0; i < sizeof part; i++) part[i] = (char)('a' + i % 26);
    for (size_t at = 0; at < n;) {
        size_t k = n - at < sizeof part ? n - at : sizeof part;
        write_all(part, k);
        at += k;
    }
    write_all("\n", 1);
    return 0;
}

static volatile sig_atomic_t asked;
static void on_term(int sig) {
    (void)sig;
    asked = 1;
}

/* End in order: exit with STATUS when asked to, and when there is no more input. */
static int until_asked(int status) {
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &before);
    signal(SIGTERM, on_term);
    say("ready\n");
    while (!asked) sigsuspend(&before);
    say("asked to end\n");
    char c;
    while (read(0, &c, 1) > 0) {
    }
    say("ends in order\n");
    return status;
}

/* How often SIGTERM comes, each within half a second of the one before: the exit status, too. */
static int count_asked(void) {
    const struct timespec more = {.tv_nsec = 500 * 1000 * 1000};
    sigset_t set;
    int times = 0, sig;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    say("ready\n");
    for (sig = sigwaitinfo(&set, NULL); sig == SIGTERM; sig = sigtimedwait(&set, NULL, &more)) times++;
    char text[40];
    snprintf(text, sizeof text, "asked %d time%s\n", times, times == 1 ? "" : "s");
    say(text);
    return times;
}

/* A child that ignores SIGTERM; kind: 's' in a session of its own, 'g' in a group of its own, 'p' plain, 'd' with its
 * parent gone. */
static void child(int kind) {
    int ready[2];
    if (pipe(ready) < 0) exit(99);
    pid_t pid = fork();
    if (pid == 0) {
        if (kind == 's') setsid();
        if (kind == 'g') setpgid(0, 0);
        if (kind == 'd' && fork() > 0) _exit(0);
        if (kind == 'd') setsid();
        signal(SIGTERM, SIG_IGN);
        close(ready[0]);
        if (write(ready[1], "r", 1) != 1) _exit(99);
        close(ready[1]);
        pause_for_ever();
    }
    close(ready[1]);
    char c;
    if (read(ready[0], &c, 1) != 1) exit(99);
    close(ready[0]);
    if (kind == 'd') waitpid(pid, NULL, 0);
}

static int family(const char *kinds) {
    for (; *kinds; kinds++) child(*kinds);
    say("ready\n");
    pause_for_ever();
    return 0;
}

static int show(int argc, char **argv) {
    for (int i = 0; i < argc; i++) {
        const char *v = getenv(argv[i]);
        printf("%s=%s\n", argv[i], v ? v : "(unset)");
    }
    return 0;
}

/* Which of descriptors 3 to 63 are open, and is standard input /dev/null? */
static int descriptors(void) {
    struct stat in, null;
    int n = 0;
    for (int fd = 3; fd < 64; fd++)
        if (fcntl(fd, F_GETFD) >= 0) n++;
    bool is_null = fstat(0, &in) == 0 && stat("/dev/null", &null) == 0 && in.st_rdev == null.st_rdev;
    printf("open %d null %d group %d\n", n, is_null, getpgrp() == getpid());
    return 0;
}

/* Write until nothing is taken any more, then say on standard error how much it was. */
static int fill(void) {
    static char part[4096];
    memset(part, 'x', sizeof part);
    part[sizeof part - 1] = '\n';
    long long n = 0;
    for (;;) {
        ssize_t k = write(1, part, sizeof part);
        if (k < 0) return 1;
        n += k;
        if (n % (1 << 16) == 0) fprintf(stderr, "%lld\n", n);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return 98;
    const char *mode = argv[1], *arg = argc > 2 ? argv[2] : "";
    if (strcmp(mode, "lines") == 0) return lines(atoi(arg));
    if (strcmp(mode, "long") == 0) return long_line((size_t)atol(arg));
    if (strcmp(mode, "exit") == 0) return atoi(arg);
    if (strcmp(mode, "die") == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        prctl(PR_SET_DUMPABLE, 0);
        signal(atoi(arg), SIG_DFL);
        raise(atoi(arg));
        return 97;
    }
    if (strcmp(mode, "pause") == 0) {
        say("ready\n");
        pause_for_ever();
    }
    if (strcmp(mode, "stubborn") == 0) {
        signal(SIGTERM, SIG_IGN);
        say("ready\n");
        pause_for_ever();
    }
    if (strcmp(mode, "until-asked") == 0) return until_asked(atoi(arg));
    if (strcmp(mode, "count-asked") == 0) return count_asked();
    if (strcmp(mode, "family") == 0) return family(arg);
    if (strcmp(mode, "show") == 0) return show(argc - 2, argv + 2);
    if (strcmp(mode, "descriptors") == 0) return descriptors();
    if (strcmp(mode, "fill") == 0) return fill();
    if (strcmp(mode, "host") == 0 &&
        argc > 3) { /* NAME PROGRAM ARGUMENT...: in a namespace of its own (unshare --uts) */
        if (sethostname(arg, strlen(arg)) < 0) return 77;
        execvp(argv[3], argv + 3);
        return 127;
    }
    return 98;
}
