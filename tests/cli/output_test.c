/* SPDX-License-Identifier: Apache-2.0 */
/* moyai run: what the processes write. */
#include "tests/cli/kit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void both_outputs(void **state) {
    (void)state;
    struct cli c;
    assert_int_equal(cli_do(&c, "run", "sh", "-c", "echo out; echo err >&2; printf 'no newline'", NULL), 0);
    assert_string_equal(c.text[0].p, "[0.0] out\n[0.0] no newline\n");
    assert_string_equal(c.text[1].p, "[0.0] err\n");
    cli_free(&c);
    assert_int_equal(cli_do(&c, "run", "--no-prefix", "printf", "a\\n\\0b\\n", NULL), 0);
    assert_int_equal(c.text[0].n, 5);
    assert_memory_equal(c.text[0].p, "a\n\0b\n", 5);
    cli_free(&c);
}

/* Line i of that rank, as the helper makes it. */
static void expected_line(char *text, int rank, int i) {
    int n = sprintf(text, "%d %d ", rank, i);
    int len = (i * 37 + (rank + 1) * 11) % 200;
    for (int j = 0; j < len; j++) text[n++] = (char)('a' + (i + j) % 26);
    text[n] = 0;
}

/* Many write at once in odd portions: all lines are whole, in each one's order, none is lost. */
static void many_writers(void **state) {
    (void)state;
    enum { WRITERS = 8, LINES = 3000 };
    struct cli c;
    char count[16], want[300];
    snprintf(count, sizeof count, "%d", LINES);
    assert_int_equal(cli_do(&c, "run", "-n", "8", "@h", "lines", count, NULL), 0);
    int next[WRITERS] = {0}, total = 0;
    for (char *p = c.text[0].p, *end; *p; p = end + 1) {
        end = strchr(p, '\n');
        assert_non_null(end);
        *end = 0;
        int group, index, rank;
        assert_int_equal(sscanf(p, "[%d.%d] %d", &group, &index, &rank), 3);
        assert_int_equal(group, 0);
        assert_int_equal(index, rank);
        assert_in_range(rank, 0, WRITERS - 1);
        expected_line(want, rank, next[rank]++);
        assert_string_equal(strchr(p, ' ') + 1, want);
        total++;
    }
    assert_int_equal(total, WRITERS * LINES);
    cli_free(&c);
}

/* 8 MiB without a newline arrive as they are, from one writer; and our memory is not what they fill. */
static void long_line(void **state) {
    (void)state;
    enum { BYTES = 8 << 20 };
    struct cli c;
    char count[16];
    snprintf(count, sizeof count, "%d", BYTES);
    assert_int_equal(cli_do(&c, "run", "@h", "long", count, NULL), 0);
    assert_int_equal(c.text[0].n, 6 + BYTES + 1);
    for (size_t i = 0; i < BYTES; i++)
        if (c.text[0].p[6 + i] != 'a' + (char)(i % 10000 % 26)) fail_msg("byte %zu", i);
    assert_int_equal(c.text[0].p[c.text[0].n - 1], '\n');
    cli_free(&c);
}

static long resident_kib(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    char *text = kit_read(path);
    const char *p = strstr(text, "VmRSS:");
    long kib = p ? atol(p + 6) : -1;
    free(text);
    return kib;
}

/* A reader that stops makes the process wait: it stops, too, after what the pipes and buffers in between hold. */
static void stopped_reader(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, NULL, "run", "--grace", "100ms", "@h", "fill", NULL);
    /* The process says on standard error how much it has written. It has stopped when no more comes for a while: the
     * one wait for nothing in these tests. */
    long long n = 0;
    struct pollfd p = {.fd = c.fd[1], .events = POLLIN};
    char buf[4096];
    while (poll(&p, 1, n > 64 << 10 ? 1000 : -1) > 0) {
        ssize_t k = read(c.fd[1], buf, sizeof buf - 1);
        assert_true(k > 0);
        buf[k] = 0;
        for (char *q = buf; (q = strstr(q, "[0.0] ")); q++) n = atoll(q + 6);
        assert_true(n < 4 << 20); /* two pipes of 64 KiB, OUTPUT_HIGH, one portion, growth by prefixes */
    }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_in_range(resident_kib(kit_child_of(kit_child_of(c.pid))), 1, 32 << 10);
#else
    (void)resident_kib;
#endif
    /* The rest of the run is not affected: it ends when asked to, though nobody reads. */
    assert_int_equal(kill(c.pid, SIGTERM), 0);
    int status;
    assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
    assert_int_equal(WEXITSTATUS(status), 143);
    cli_await_gone(&c);
    cli_free(&c);
}

/* More than all buffers hold: it waits again and again for a reader that is slower, and nothing is lost. */
static void slow_reader(void **state) {
    (void)state;
    enum { LINES = 60000 };
    struct cli c;
    char count[16], want[300];
    snprintf(count, sizeof count, "%d", LINES);
    cli_start(&c, NULL, "run", "--no-prefix", "@h", "lines", count, NULL);
    FILE *f = fdopen(c.fd[0], "r");
    assert_non_null(f);
    char line[400];
    for (int i = 0; i < LINES; i++) {
        assert_non_null(fgets(line, sizeof line, f));
        line[strcspn(line, "\n")] = 0;
        expected_line(want, 0, i);
        assert_string_equal(line, want);
    }
    assert_null(fgets(line, sizeof line, f));
    fclose(f);
    c.fd[0] = -1;
    c.text[0].ended = true;
    assert_int_equal(cli_wait(&c), 0);
    cli_free(&c);
}

/* moyai run ... | head: the process is told, as it would be without us; also if a shell stands between. */
static void reader_gone(void **state) {
    (void)state;
    static const char *const runs[][16] = {
        {"run", "@h", "fill", ":", "@h", "until-asked", "0"},
        {"run", "sh", "-c", "\"$0\" fill; exit $?", "@h", ":", "@h", "until-asked", "0"},
        {"run", "sh", "-c", "\"$0\" run --no-prefix \"$1\" fill", "@m", "@h", ":", "@h", "until-asked", "0"},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct cli c;
        cli_startv(&c, NULL, runs[i]);
        (void)cli_line(&c, 1, "[0.0] ");
        close(c.fd[0]);
        c.fd[0] = -1;
        c.text[0].ended = true;
        assert_int_equal(cli_wait(&c), 141);
        if (kit_count(&c.text[1], "moyai run:") != 0) fail_msg("%zu: %s", i, c.text[1].p);
        cli_free(&c);
    }
}

/* A status that wrappers make of a signal is said while somebody reads. */
static void status_of_a_wrapper(void **state) {
    (void)state;
    struct cli c;
    assert_int_equal(cli_do(&c, "run", "sh", "-c", "exit 141", NULL), 141);
    assert_int_equal(kit_count(&c.text[1], "exited with status 141"), 1);
    cli_free(&c);
    /* Once it was asked to end: a crash is said, and the end that was asked for is not. */
    cli_start(&c, NULL, "run", "cat", ":", "sh", "-c", "trap : TERM; \"$0\" until-asked 0; exit 139",
              kit_program("HELPER"), ":", "sh", "-c", "trap : TERM; \"$0\" until-asked 0; exit 143",
              kit_program("HELPER"), NULL);
    cli_await(&c, 1, "ready", 2);
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[1], "exited with status 139"), 1);
    assert_int_equal(kit_count(&c.text[1], "moyai run: "), 1);
    cli_free(&c);
}

static void full_disk(void **state) {
    (void)state;
    struct cli c;
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0);
    cli_start(&c, &(struct cli_opts){.out = full}, "run", "echo", "lost", NULL);
    assert_int_equal(cli_wait(&c), 125);
    assert_int_equal(kit_count(&c.text[1], "moyai run: cannot write to standard output: No space left on device"), 1);
    cli_free(&c);
    /* Processes that are cut off by that end by SIGPIPE, or fail. */
    static const char *const also[][6] = {
        {"run", "@h", "fill"}, {"run", "-n", "3", "@h", "fill"}, {"run", "sh", "-c", "\"$0\" fill; exit 3", "@h"}};
    for (size_t i = 0; i < sizeof also / sizeof also[0]; i++) {
        cli_startv(&c, &(struct cli_opts){.out = full}, also[i]);
        assert_int_equal(cli_wait(&c), 125);
        cli_free(&c);
    }
    close(full);
}

/* Both outputs are one file: lines do not mix, and the file's position is shared with whoever else writes to it. */
static void one_file_for_both(void **state) {
    (void)state;
    char path[128], cmd[700];
    snprintf(path, sizeof path, "%s/both", kit_dir());
    snprintf(cmd, sizeof cmd, "(echo before; %s run -n 2 sh -c 'echo out; echo err >&2'; echo after) >%s 2>&1",
             kit_program("MOYAI"), path);
    assert_int_equal(system(cmd), 0);
    struct kit_text t = {.p = kit_read(path)};
    assert_int_equal(strncmp(t.p, "before\n", 7), 0);
    for (int i = 0; i < 2; i++) {
        char line[32];
        snprintf(line, sizeof line, "[0.%d] out", i);
        assert_int_equal(kit_count(&t, line), 1);
        snprintf(line, sizeof line, "[0.%d] err", i);
        assert_int_equal(kit_count(&t, line), 1);
    }
    assert_string_equal(t.p + strlen(t.p) - 7, "\nafter\n");
    assert_int_equal(kit_count(&t, ""), 6);
    free(t.p);
    unlink(path);
}

/* Standard output is a socket that others have, too: it stays blocking. */
static void socket_output(void **state) {
    (void)state;
    int s[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
    struct cli c;
    cli_start(&c, &(struct cli_opts){.out = s[1]}, "run", "--no-prefix", "@h", "long", "3000000", NULL);
    size_t n = 0;
    static char buf[1 << 16];
    bool last = false;
    while (!last) {
        ssize_t k = read(s[0], buf, sizeof buf);
        assert_true(k > 0);
        n += (size_t)k;
        last = buf[k - 1] == '\n';
    }
    assert_int_equal(n, 3000001);
    assert_int_equal(fcntl(s[1], F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(cli_wait(&c), 0);
    cli_free(&c);
    close(s[0]);
    close(s[1]);
}

/* The pipes we are given stay blocking for the others who have them. */
static void pipe_stays_blocking(void **state) {
    (void)state;
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    struct cli c;
    cli_start(&c, &(struct cli_opts){.out = p[1]}, "run", "echo", "x", NULL);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(fcntl(p[1], F_GETFL) & O_NONBLOCK, 0);
    close(p[1]);
    char buf[32] = "";
    assert_int_equal(read(p[0], buf, sizeof buf), 8);
    assert_string_equal(buf, "[0.0] x\n");
    cli_free(&c);
    close(p[0]);
}

static void files(void **state) {
    (void)state;
    char dir[128], path[300];
    snprintf(dir, sizeof dir, "%s/files", kit_dir());
    struct cli c;
    assert_int_equal(cli_do(&c, "run", "--output", dir, "-n", "2", "sh", "-c",
                            "echo out $MOYAI_RANK; printf 'err %s' $MOYAI_RANK >&2", ":", "true", NULL),
                     0);
    assert_int_equal(kit_count(&c.text[0], "out"), 2); /* there as well */
    for (int i = 0; i < 2; i++) {
        char want[32];
        snprintf(path, sizeof path, "%s/0.%d.out", dir, i);
        char *text = kit_read(path);
        snprintf(want, sizeof want, "out %d\n", i);
        assert_string_equal(text, want);
        free(text);
        unlink(path);
        snprintf(path, sizeof path, "%s/0.%d.err", dir, i);
        text = kit_read(path);
        snprintf(want, sizeof want, "err %d", i); /* what it wrote, nothing added */
        assert_string_equal(text, want);
        free(text);
        unlink(path);
    }
    cli_free(&c);
    /* A directory that is there is fine; what a former run left in a file is replaced. */
    snprintf(path, sizeof path, "%s/0.0.out", dir);
    FILE *f = fopen(path, "w");
    fprintf(f, "something longer\n");
    fclose(f);
    assert_int_equal(cli_do(&c, "run", "--output", dir, "echo", "new", NULL), 0);
    char *text = kit_read(path);
    assert_string_equal(text, "new\n");
    free(text);
    cli_free(&c);
    snprintf(path, sizeof path, "rm -r %s", dir);
    assert_int_equal(system(path), 0);
    /* One that cannot be made. */
    assert_int_equal(cli_do(&c, "run", "--output", "/nowhere/at/all", "echo", "new", NULL), 125);
    assert_non_null(strstr(c.text[1].p, "/nowhere/at/all"));
    assert_string_equal(c.text[0].p, "");
    cli_free(&c);
}

/* A file that cannot be written: the line comes out all the same, the file is named, and the status tells. */
static void full_file(void **state) {
    (void)state;
    char dir[128], path[300], said[400];
    snprintf(dir, sizeof dir, "%s/files", kit_dir());
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(path, sizeof path, "%s/1.1.err", dir);
    assert_int_equal(symlink("/dev/full", path), 0);
    snprintf(said, sizeof said, "moyai run: cannot write '%s', the rest of it is lost: No space left on device", path);
    struct cli c;
    cli_start(&c, NULL, "run", "--output", dir, "cat", ":", "-n", "2", "sh", "-c", "echo a >&2; echo b >&2", NULL);
    cli_await(&c, 2, "] b", 2);
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 125);
    assert_int_equal(kit_count(&c.text[1], said), 1);
    assert_int_equal(kit_count(&c.text[1], "[1.1] a"), 1);
    cli_free(&c);
    /* The program's own failure goes before ours. */
    snprintf(path, sizeof path, "%s/0.0.out", dir);
    unlink(path);
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_int_equal(cli_do(&c, "run", "--output", dir, "sh", "-c", "echo a; exit 3", NULL), 3);
    assert_int_equal(kit_count(&c.text[1], "moyai run: cannot write '"), 1);
    cli_free(&c);
    snprintf(path, sizeof path, "rm -r %s", dir);
    assert_int_equal(system(path), 0);
}

/* What is no file in the place of one is refused, and waited for by nobody; a device is fine. */
static void no_file_in_the_place_of_one(void **state) {
    (void)state;
    char dir[128], path[300];
    struct cli c;
    snprintf(dir, sizeof dir, "%s/files", kit_dir());
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(path, sizeof path, "%s/0.0.out", dir);
    for (int reader = 0; reader < 2; reader++) {
        assert_int_equal(mkfifo(path, 0600), 0);
        int fd = reader ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
        assert_int_equal(cli_do(&c, "run", "--output", dir, "echo", "a", NULL), 125);
        assert_non_null(strstr(c.text[1].p, "0.0.out': it is there, and no file"));
        cli_free(&c);
        if (fd >= 0) close(fd);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(cli_do(&c, "run", "--output", dir, "echo", "a", NULL), 0);
    assert_string_equal(c.text[1].p, "");
    cli_free(&c);
    snprintf(path, sizeof path, "rm -r %s", dir);
    assert_int_equal(system(path), 0);
}

/* With files, they get it all when the reader has gone. */
static void files_without_reader(void **state) {
    (void)state;
    char dir[128], path[200];
    snprintf(dir, sizeof dir, "%s/files", kit_dir());
    struct cli c;
    cli_start(&c, NULL, "run", "--output", dir, "sh", "-c", "echo begin; cat; seq 100000", NULL);
    (void)cli_line(&c, 1, "begin");
    close(c.fd[0]);
    c.fd[0] = -1;
    c.text[0].ended = true;
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    snprintf(path, sizeof path, "%s/0.0.out", dir);
    char *text = kit_read(path);
    assert_string_equal(text + strlen(text) - 14, "\n99999\n100000\n");
    free(text);
    cli_free(&c);
    snprintf(path, sizeof path, "rm -r %s", dir);
    assert_int_equal(system(path), 0);
}

/* Colours on a terminal only, and only if wanted. */
static void colours(void **state) {
    (void)state;
    static const struct {
        const char *env, *option;
        bool coloured;
    } cases[] = {{"TERM=xterm", "--count=1", true},
                 {"TERM=dumb", "--count=1", false},
                 {"NO_COLOR=1", "--count=1", false},
                 {"TERM=xterm", "--no-color", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        assert_true(master >= 0);
        assert_int_equal(grantpt(master), 0);
        assert_int_equal(unlockpt(master), 0);
        int tty = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
        assert_true(tty >= 0);
        const char *const env[] = {"TERM=xterm", cases[i].env, NULL};
        struct cli c;
        cli_start(&c, &(struct cli_opts){.out = tty, .env = env}, "run", cases[i].option, "printf",
                  "10%%\\r20%%\\rx\\n", NULL);
        char buf[256] = "";
        size_t n = 0;
        while (!memchr(buf, '\n', n)) {
            ssize_t k = read(master, buf + n, sizeof buf - 1 - n);
            assert_true(k > 0);
            n += (size_t)k;
        }
        assert_int_equal(cli_wait(&c), 0);
        if (cases[i].coloured)
            assert_string_equal(buf, "\033[32m[0.0]\033[0m 10%\r\033[32m[0.0]\033[0m 20%\r\033[32m[0.0]\033[0m x\r\n");
        else
            assert_string_equal(buf, "[0.0] 10%\r[0.0] 20%\r[0.0] x\r\n");
        cli_free(&c);
        close(tty);
        close(master);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_outputs),
        cmocka_unit_test(many_writers),
        cmocka_unit_test(long_line),
        cmocka_unit_test(slow_reader),
        cmocka_unit_test(stopped_reader),
        cmocka_unit_test(reader_gone),
        cmocka_unit_test(status_of_a_wrapper),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(one_file_for_both),
        cmocka_unit_test(socket_output),
        cmocka_unit_test(files),
        cmocka_unit_test(files_without_reader),
        cmocka_unit_test(pipe_stays_blocking),
        cmocka_unit_test(colours),
        cmocka_unit_test(full_file),
        cmocka_unit_test(no_file_in_the_place_of_one),
    };
    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
