/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cli/kit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

const char *kit_program(const char *which) {
    const char *p = getenv(which);
    if (!p) {
        fprintf(stderr, "$%s is not set: run this through `meson test`\n", which);
        exit(1);
    }
    return p;
}

const char *kit_dir(void) {
    if (!dir[0]) {
        snprintf(dir, sizeof dir, "/tmp/moyai-cli-test-XXXXXX");
        if (!mkdtemp(dir)) fail_msg("mkdtemp: %s", strerror(errno));
        setenv("XDG_RUNTIME_DIR", dir, 1);
    }
    return dir;
}

int kit_left(void) {
    DIR *d = opendir(kit_dir());
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* What is waited for, and of whom: said when the guard ends a test that hangs. */
static struct {
    const struct cli *of;
    const char *needle;
} waits;

static void say(const char *text) {
    for (size_t n = text ? strlen(text) : 0; n > 0;) {
        ssize_t done = write(2, text, n);
        if (done <= 0) return;
        text += done;
        n -= (size_t)done;
    }
}

static void hung(int signum) {
    say("\nhung: waiting for ");
    say(waits.needle ? waits.needle : "something else than a command");
    if (waits.of) {
        say("\nits output:\n");
        say(waits.of->text[0].p);
        say("\nits errors:\n");
        say(waits.of->text[1].p);
    }
    say("\n");
    signal(signum, SIG_DFL);
    raise(signum);
}

/* ---- who ends what a test leaves ------------------------------------------------------------- */

/* Told of each run by the inode of its pipe `alive`; and again when that is over. */
static int to_warden = -1;

static void tell_warden(int alive) {
    struct stat st;
    if (to_warden < 0 || fstat(alive, &st) < 0) return;
    (void)!write(to_warden, &st.st_ino, sizeof st.st_ino);
}

/* Does it hold one of these pipes? */
static bool of_run(const char *pid, const ino_t *pipes, size_t n) {
    char path[300], to[64], expect[64];
    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *d = opendir(path);
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        const ssize_t len = readlinkat(dirfd(d), e->d_name, to, sizeof to - 1);
        if (len <= 0) continue;
        to[len] = 0;
        for (size_t i = 0; i < n && !found; i++) {
            snprintf(expect, sizeof expect, "pipe:[%llu]", (unsigned long long)pipes[i]);
            found = strcmp(to, expect) == 0;
        }
    }
    if (d) closedir(d);
    return found;
}

/* Not found again when it has ended: until then it may have begun others. */
static bool end_all(const ino_t *pipes, size_t n) {
    DIR *d = opendir("/proc");
    bool found = false;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strspn(e->d_name, "0123456789") != strlen(e->d_name) || !of_run(e->d_name, pipes, n)) continue;
        found = true;
        kill((pid_t)atoi(e->d_name), SIGKILL);
    }
    if (d) closedir(d);
    return found;
}

/* A test that fails leaves what it has stopped, and what ought to have ended and did not: when it has gone, however it
 * went, that is ended by a process that does nothing else. */
static void start_warden(void) {
    int p[2];
    ino_t pipes[256], pipe;
    size_t n = 0;
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    to_warden = p[1];
    if (pid > 0) {
        close(p[0]);
        return;
    }
    setsid(); /* who ends the test's group does not end this */
    close(p[1]);
    for (ssize_t got; (got = read(p[0], &pipe, sizeof pipe)) != 0;) {
        size_t i = 0;
        if (got != sizeof pipe) continue;
        while (i < n && pipes[i] != pipe) i++;
        if (i < n)
            pipes[i] = pipes[--n];
        else if (n < sizeof pipes / sizeof pipes[0])
            pipes[n++] = pipe;
    }
    while (n > 0 && end_all(pipes, n)) usleep(10000);
    _exit(0);
}

int kit_setup(void **state) {
    (void)state;
    start_warden();
    signal(SIGALRM, hung);
    alarm(KIT_LIMIT);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_DFL); /* under nohup(1) what is started here would not be asked by it to end */
    unsetenv("MOYAI_GRID");
    unsetenv("SLURM_JOB_END_TIME"); /* of a job, or a service, in which the tests run */
    unsetenv("NOTIFY_SOCKET");
    unsetenv("MOYAI_EVENTS");
    unsetenv("NO_COLOR");
    (void)kit_dir();
    return 0;
}

int kit_teardown(void **state) {
    (void)state;
    int left = kit_left();
    if (left) { /* cmocka does not count a teardown that fails */
        fprintf(stderr, "%d left in %s\n", left, dir);
        _exit(1);
    }
    rmdir(dir);
    return 0;
}

static void open_pipe(int p[2]) {
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
}

static const char *resolve(const char *word) {
    if (strcmp(word, "@h") == 0) return kit_program("HELPER");
    if (strcmp(word, "@n") == 0) return kit_program("NODE");
    if (strcmp(word, "@m") == 0) return kit_program("MOYAI");
    return word;
}

static _Noreturn void become(const struct cli_opts *o, int in, int out, int err, int alive, char **argv) {
    if (o->group) setpgid(0, 0);
    if (o->terminal) {
        setsid();
        ioctl(in, TIOCSCTTY, 0);
    }
    if (o->files) setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)o->files, (rlim_t)o->files});
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies leaves nothing: that is what the command promises */
    dup2(in, 0);
    dup2(out, 1);
    if (o->in < 0) close(0);
    if (o->out < 0) close(1);
    dup2(err, 2);
    for (int fd = 3; fd < 1024; fd++) (void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* what we have inherited ourselves */
    (void)fcntl(alive, F_SETFD, 0);
    signal(SIGPIPE, SIG_DFL);
    for (const char *const *e = o->env; e && *e; e++) putenv((char *)(uintptr_t)*e);
    execv(argv[0], argv);
    _exit(120);
}

void cli_startv(struct cli *c, const struct cli_opts *o, const char *const *words) {
    static const struct cli_opts none;
    if (!o) o = &none;
    char *argv[64] = {(char *)(uintptr_t)kit_program("MOYAI")};
    for (int i = 0; words[i]; i++) argv[i + 1] = (char *)(uintptr_t)resolve(words[i]);
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2], alive[2];
    if (!o->in) open_pipe(in);
    if (!o->out) open_pipe(out);
    open_pipe(err);
    open_pipe(alive);
    memset(c, 0, sizeof *c);
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (c->pid == 0) become(o, o->in ? o->in : in[0], o->out ? o->out : out[1], err[1], alive[1], argv);
    if (o->group) setpgid(c->pid, c->pid);
    if (!o->in) close(in[0]);
    if (!o->out) close(out[1]);
    close(err[1]);
    close(alive[1]);
    c->in = in[1];
    c->fd[0] = out[0];
    c->fd[1] = err[0];
    c->alive = alive[0];
    tell_warden(c->alive);
    c->text[0].ended = out[0] < 0;
}

#define WORDS(words, last)                                                                                             \
    const char *words[64];                                                                                             \
    do {                                                                                                               \
        va_list ap_;                                                                                                   \
        va_start(ap_, last);                                                                                           \
        int n_ = 0;                                                                                                    \
        while ((words[n_] = va_arg(ap_, const char *))) assert_true(++n_ < 63);                                        \
        va_end(ap_);                                                                                                   \
    } while (0)

void cli_start(struct cli *c, const struct cli_opts *o, ...) {
    WORDS(words, o);
    cli_startv(c, o, words);
}

static void add(struct kit_text *t, const char *p, size_t n) {
    if (t->cap < t->n + n + 1) {
        t->cap = (t->n + n + 1) * 2;
        t->p = realloc(t->p, t->cap);
        assert_non_null(t->p);
    }
    memcpy(t->p + t->n, p, n);
    t->n += n;
    t->p[t->n] = 0;
}

/* Read what is there of both, waiting for something, in the end for needle. */
static void read_some(struct cli *c, const char *needle) {
    struct pollfd p[2] = {{.fd = c->text[0].ended ? -1 : c->fd[0], .events = POLLIN},
                          {.fd = c->text[1].ended ? -1 : c->fd[1], .events = POLLIN}};
    waits.of = c;
    waits.needle = needle;
    int n_ready = poll(p, 2, -1);
    waits.of = NULL;
    waits.needle = NULL;
    if (n_ready < 0) return;
    for (int i = 0; i < 2; i++) {
        if (!p[i].revents) continue;
        static char buf[1 << 16];
        ssize_t n = read(c->fd[i], buf, sizeof buf);
        if (n > 0)
            add(&c->text[i], buf, (size_t)n);
        else
            c->text[i].ended = true;
    }
}

const char *cli_line(struct cli *c, int fd, const char *needle) {
    struct kit_text *t = &c->text[fd - 1];
    static char line[4096];
    for (;;) {
        char *end = t->p ? strchr(t->p + t->at, '\n') : NULL;
        if (end) {
            size_t n = (size_t)(end - (t->p + t->at));
            snprintf(line, sizeof line, "%.*s", (int)n, t->p + t->at);
            t->at += n + 1;
            if (strstr(line, needle)) return line;
            continue;
        }
        if (t->ended)
            fail_msg("no line with '%s' in:\n%s\nthe other output:\n%s", needle, t->p ? t->p : "",
                     c->text[2 - fd].p ? c->text[2 - fd].p : "");
        read_some(c, needle);
    }
}

void cli_await(struct cli *c, int fd, const char *needle, int count) {
    struct kit_text *t = &c->text[fd - 1];
    for (;;) {
        int n = 0;
        for (char *p = t->p, *end; p && (end = strchr(p, '\n')); p = end + 1)
            if (memmem(p, (size_t)(end - p), needle, strlen(needle))) n++;
        if (n >= count) return;
        if (t->ended) fail_msg("%d times '%s', not %d, in:\n%s", n, needle, count, t->p ? t->p : "");
        read_some(c, needle);
    }
}

void cli_type(struct cli *c, const char *text) {
    assert_int_equal(write(c->in, text, strlen(text)), strlen(text));
}

void cli_close_in(struct cli *c) {
    if (c->in >= 0) close(c->in);
    c->in = -1;
}

void cli_await_gone(struct cli *c) {
    char b;
    ssize_t n;
    waits.of = c;
    waits.needle = "the end of all that it started";
    do n = read(c->alive, &b, 1);
    while (n < 0 && errno == EINTR);
    waits.of = NULL;
    waits.needle = NULL;
    assert_int_equal(n, 0);
}

int cli_wait(struct cli *c) {
    while (!c->text[0].ended || !c->text[1].ended) read_some(c, "its end");
    int status;
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    c->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    /* When the front ends by itself nobody else is left; when it is killed its runner ends soon. */
    if (!WIFSIGNALED(status)) {
        struct pollfd p = {.fd = c->alive, .events = POLLIN};
        const int patience = getenv("MOYAI_SSH") ? 10000 : 0; /* ssh is killed by who ends, and takes a moment for it */
        if (poll(&p, 1, patience) != 1) fail_msg("a process of the run is left");
    }
    cli_await_gone(c);
    for (int i = 0; i < 2; i++)
        if (!c->text[i].p) add(&c->text[i], "", 0);
    return c->status;
}

void cli_free(struct cli *c) {
    cli_close_in(c);
    for (int i = 0; i < 2; i++) {
        if (c->fd[i] >= 0) close(c->fd[i]);
        free(c->text[i].p);
    }
    tell_warden(c->alive);
    close(c->alive);
}

int cli_do(struct cli *c, ...) {
    WORDS(words, c);
    cli_startv(c, NULL, words);
    cli_close_in(c);
    return cli_wait(c);
}

int kit_count(const struct kit_text *t, const char *needle) {
    int n = 0;
    for (const char *p = t->p; *p;) {
        const char *end = strchrnul(p, '\n');
        if (memmem(p, (size_t)(end - p), needle, strlen(needle))) n++;
        p = *end ? end + 1 : end;
    }
    return n;
}

char *kit_read(const char *path) {
    FILE *f = fopen(path, "re");
    if (!f) fail_msg("%s: %s", path, strerror(errno));
    struct kit_text t = {0};
    char buf[4096];
    size_t n;
    add(&t, "", 0);
    while ((n = fread(buf, 1, sizeof buf, f)) > 0) add(&t, buf, n);
    fclose(f);
    return t.p;
}

pid_t kit_child_of(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    char *text = kit_read(path);
    pid_t child = atoi(text);
    free(text);
    assert_true(child > 0);
    return child;
}
