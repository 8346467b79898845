/* SPDX-License-Identifier: Apache-2.0 */
/* With a program in ssh's place that does what it is told (tests/support/fake_ssh.c). */
#include "overlay/io/forward.h"

#include "link/tcp.h"
#include "overlay/io/dial.h"
#include "tests/support/fiber_assert.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT (100 * MOYAI_SEC) /* hang guard */

static struct world {
    struct exec *x;
    struct moyai_log log;
    char dir[40], seen[16384];
    struct gridfile file;
    int listener; /* where the forward is to lead */
    uint16_t port;
    int dials, cancels, over; /* over: of the dials, by await_dial */
    uint16_t dialled;         /* the last port */
    int n_errors;             /* in the log, and when */
    moyai_ns errors[64];
    enum log_level level; /* of the last event */
} w;

static void sink(const struct log_event *ev, void *arg) {
    (void)arg;
    size_t n = strlen(w.seen);
    w.level = ev->level;
    if (ev->level == LOG_LEVEL_ERROR && w.n_errors < 64) w.errors[w.n_errors++] = moyai_now();
    snprintf(w.seen + n, sizeof w.seen - n, "%s\n", ev->text);
}

static void set_mode(const char *mode) {
    char path[64], temp[64];
    snprintf(path, sizeof path, "%s/mode", w.dir);
    snprintf(temp, sizeof temp, "%s/mode.new", w.dir);
    FILE *f = fopen(temp, "w");
    assert_non_null(f);
    fputs(mode, f);
    fclose(f);
    assert_int_equal(rename(temp, path), 0);
}

static char *slurp(const char *name) {
    static char text[65536];
    char path[64];
    snprintf(path, sizeof path, "%s/%s", w.dir, name);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    return text;
}

static pid_t pid(void) {
    return (pid_t)atoi(slurp("pid"));
}

static off_t said(void) {
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "%s/said", w.dir);
    return stat(path, &st) == 0 ? st.st_size : 0;
}

static void remove_file(const char *name) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", w.dir, name);
    unlink(path);
}

static int begin(void **state) {
    (void)state;
    memset(&w, 0, sizeof w);
    strcpy(w.dir, "/tmp/moyai-forward-XXXXXX");
    if (!mkdtemp(w.dir)) return -1;
    setenv("FAKE_SSH", w.dir, 1);
    assert_int_equal(log_init(&w.log, "info", NULL), 0);
    log_set_sink(&w.log, sink, NULL);
    assert_int_equal(exec_new(&w.x, NULL, NULL), 0);
    struct tcp_addr a, at;
    assert_int_equal(tcp_parse("127.0.0.1:0", &a, NULL), 0);
    assert_int_equal(tcp_listen(&w.listener, &a, 0, 0, &at, NULL), 0);
    w.port = tcp_port(&at);
    exec_lock(w.x);
    return 0;
}

static int end(void **state) {
    (void)state;
    exec_unlock(w.x);
    exec_free(w.x);
    close(w.listener);
    log_done(&w.log);
    char command[80];
    snprintf(command, sizeof command, "rm -rf %s", w.dir);
    return system(command);
}

/* Let the node work until something has come true. */
#define UNTIL(cond)                                                                                                    \
    do {                                                                                                               \
        moyai_ns limit_ = moyai_now() + (moyai_ns)LIMIT;                                                               \
        while (!(cond)) {                                                                                              \
            static const atomic_bool never;                                                                            \
            if (moyai_now() > limit_) fail_msg("has not come true: %s; log: %s", #cond, w.seen);                       \
            (void)exec_serve(w.x, &never, moyai_now() + 2 * MOYAI_MS);                                                 \
        }                                                                                                              \
    } while (0)

static void on_dial(void *ctx, struct forward *f, uint16_t port) {
    (void)ctx, (void)f;
    w.dials++;
    w.dialled = port;
}
static void on_cancel(void *ctx, struct forward *f) {
    (void)ctx, (void)f;
    w.cancels++;
}
static const struct forward_ops ops = {on_dial, on_cancel};

static struct forward_cfg cfg_of(const char *host) {
    struct forward_cfg c = {.file = "grid.conf",
                            .ssh = FAKE_SSH,
                            .dir = w.dir,
                            .log = &w.log,
                            .ops = &ops,
                            .look = 5 * MOYAI_MS,
                            .first = 5 * MOYAI_MS,
                            .most = 40 * MOYAI_MS,
                            .retry = 2 * MOYAI_MS,
                            .patience = LIMIT};
    c.line = &w.file.line[0];
    assert_true(forward_concerns(c.line, host, &c.connects));
    return c;
}

static void parse(const char *fmt, ...) MOYAI_PRINTF(1, 2);
static void parse(const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct moyai_error e = {0};
    if (gridfile_parse(&w.file, "grid.conf", text, strlen(text), &e) < 0) fail_msg("%s", e.text);
}

static int connect_to(uint16_t port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
    close(fd);
    return -1;
}

static void fail_with(struct forward *f, int code) {
    struct moyai_error e = {.code = code};
    forward_failed(f, &e);
}

static void await_dial(void) {
    UNTIL(w.dials > w.over);
    w.over = w.dials;
}

static void fail_some(struct forward *f, int n, int code) {
    for (int i = 0; i < n; i++) {
        await_dial();
        fail_with(f, code);
    }
}

/* It has ended, whoever is to reap it. */
static bool has_ended(pid_t p) {
    char path[40], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", p);
    FILE *f = fopen(path, "r");
    if (!f) return true;
    if (fscanf(f, "%*d %*s %c", &state) != 1) state = 'Z';
    fclose(f);
    return state == 'Z' || state == 'X';
}

static int attempts(void) {
    int n = 0;
    for (const char *s = slurp("args"); (s = strstr(s, "\n\n")); s += 2) n++;
    return n;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* And the reason: has it that part? "": there is none. */
static bool state_is(const struct forward *f, enum forward_state s, const char *part) {
    const char *why;
    if (forward_state(f, &why) != s) return false;
    return !part || (*part ? strstr(why, part) != NULL : !*why);
}

static void ssh_forwards_the_port(void **state) {
    (void)state;
    parse("forward here there user=kenji port=2222 jump=a@gate,b to=%u", w.port);
    set_mode("forward");
    struct forward_cfg c = cfg_of("here.example.org");
    struct forward *f = forward_new(w.x, &c);
    assert_true(state_is(f, FORWARD_WAITS, ""));
    UNTIL(w.dials == 1);
    int fd;
    while ((fd = connect_to(w.dialled)) < 0) { /* not yet */
        int n = w.dials;
        fail_with(f, MOYAI_EUNREACHABLE);
        UNTIL(w.dials > n);
    }
    struct tcp_addr from;
    int there;
    UNTIL(tcp_accept(w.listener, &there, &from, NULL) == 0);
    assert_int_equal(write(fd, "x", 1), 1);
    char b = 0;
    UNTIL(read(there, &b, 1) == 1);
    assert_int_equal(b, 'x');
    close(there);
    close(fd);
    const char *args = slurp("args");
    assert_non_null(strstr(args, "-N\n"));
    assert_non_null(strstr(args, "-o\nBatchMode=yes\n"));
    assert_non_null(strstr(args, "-o\nExitOnForwardFailure=yes\n"));
    assert_non_null(strstr(args, "-o\nServerAliveInterval=15\n"));
    char tail[160];
    snprintf(tail, sizeof tail, "-l\nkenji\n-p\n2222\n-J\na@gate,b\n-L\n127.0.0.1:%u:127.0.0.1:%u\nthere\n\n",
             w.dialled, w.port);
    assert_non_null(strstr(args, tail));
    pid_t p = pid();
    fail_with(f, MOYAI_ECLOSED); /* nobody is there yet */
    UNTIL(w.dials > 1);
    assert_true(state_is(f, FORWARD_WAITS, NULL));
    const int n = w.dials;
    fail_with(f, MOYAI_EPERM);
    assert_true(state_is(f, FORWARD_FAILED, NULL)); /* time alone does not mend it */
    UNTIL(w.dials > n);
    forward_up(f);
    assert_true(state_is(f, FORWARD_LINKED, ""));
    forward_free(f);
    assert_int_equal(w.cancels, 1);
    UNTIL(has_ended(p));
    assert_string_equal(slurp("forward"), "");
}

static void either_end_runs_it(void **state) {
    (void)state;
    bool connects;
    uint16_t port;
    struct tcp_addr a, at;
    int fd;
    assert_int_equal(tcp_parse("127.0.0.1:0", &a, NULL), 0);
    assert_int_equal(tcp_listen(&fd, &a, 0, 0, &at, NULL), 0);
    port = tcp_port(&at);
    close(fd);
    parse("forward here there\nforward here there reverse listen=%u to=%u", port, w.port);
    assert_true(forward_concerns(&w.file.line[0], "here", &connects) && connects);
    assert_false(forward_concerns(&w.file.line[0], "there", &connects));
    assert_true(forward_concerns(&w.file.line[1], "here", &connects) && connects);
    assert_true(forward_concerns(&w.file.line[1], "there", &connects) && !connects);
    set_mode("forward");
    struct forward_cfg there = cfg_of("here"), here = there;
    there.line = here.line = &w.file.line[1];
    there.connects = false;
    struct forward *g = forward_new(w.x, &there);
    UNTIL(pid() > 0);
    char tail[100];
    snprintf(tail, sizeof tail, "-R\n127.0.0.1:%u:127.0.0.1:%u\nhere\n\n", port, w.port);
    assert_non_null(strstr(slurp("args"), tail));
    assert_int_equal(w.dials, 0);
    struct forward *f = forward_new(w.x, &here); /* the same run directory: each end has its own lock */
    UNTIL(w.dials == 1);
    assert_int_equal(w.dialled, port);
    assert_int_equal(attempts(), 1);
    assert_true(state_is(f, FORWARD_WAITS, ""));
    fail_with(f, MOYAI_EUNREACHABLE);
    assert_true(state_is(f, FORWARD_FAILED, NULL)); /* nobody here knows whether it ever comes */
    UNTIL(w.dials == 2);                            /* with no ssh of its own it goes on by itself */
    forward_down(f);
    UNTIL(w.dials == 3);
    forward_free(f);
    forward_free(g);
}

static void it_is_started_again(void **state) {
    (void)state;
    parse("forward here there to=%u", w.port);
    set_mode("refuse");
    struct forward_cfg c = cfg_of("here");
    struct forward *f = forward_new(w.x, &c);
    UNTIL(attempts() >= 5);
    UNTIL(strstr(w.seen, "again in 5 ms"));
    assert_non_null(strstr(w.seen, "\"grid.conf\", line 1: "));
    UNTIL(strstr(w.seen,
                 " to there has ended with status 255, and said last: \"one; ?[1mtwo; somebody@somewhere: Permission "
                 "denied (publickey).\""));
    assert_true(state_is(f, FORWARD_FAILED, "Permission denied"));
    set_mode("forward");
    UNTIL(pid() > 0);
    pid_t p = pid();
    int n = 0;
    UNTIL(w.dials > n); /* while it runs somebody connects */
    forward_up(f);
    w.seen[0] = 0;
    n = w.dials;
    kill(p, SIGKILL);
    UNTIL(pid() != p);
    assert_non_null(strstr(w.seen, "has ended with status 137; again"));
    UNTIL(w.dials > n);
    p = pid();
    forward_free(f);
    UNTIL(has_ended(p));
}

static void the_pauses_grow(void **state) {
    (void)state;
    parse("forward here there");
    set_mode("refuse");
    struct forward_cfg c = cfg_of("here");
    c.first = 300 * MOYAI_MS;
    c.most = 900 * MOYAI_MS; /* one that lives for longer, as it may on a full machine, was of use */
    struct forward *f = forward_new(w.x, &c);
    UNTIL(attempts() >= 5);
    static const char *const said[] = {"again in 300 ms", "again in 600 ms", "again in 900 ms", "again in 900 ms"};
    const char *s = w.seen;
    for (size_t i = 0; i < 4; i++) {
        s = strstr(s, said[i]);
        if (!s) fail_msg("no \"%s\" in %s", said[i], w.seen);
        s++;
    }
    forward_free(f);
}

/* What does not work is an error at once, and again after ever longer times; so is that it works. */
static void what_does_not_work_is_shown(void **state) {
    (void)state;
    parse("forward here there user=me port=2222 jump=gate to=%u", w.port);
    set_mode("refuse");
    struct forward_cfg c = cfg_of("here");
    c.repeat = 100 * MOYAI_MS;
    struct forward *f = forward_new(w.x, &c);
    UNTIL(w.n_errors == 1);
    if (!strstr(w.seen, "\"grid.conf\", line 1: ") ||
        !strstr(w.seen, "Permission denied (publickey).\"; again in 5 ms. Does '" FAKE_SSH
                        " -o BatchMode=yes -l me -p 2222 -J gate there true' work?"))
        fail_msg("%s", w.seen);
    int n = attempts();
    UNTIL(w.n_errors == 3);
    assert_true(attempts() > n + 2);
    assert_true(w.errors[1] - w.errors[0] >= 100 * MOYAI_MS && w.errors[2] - w.errors[1] >= 200 * MOYAI_MS);
    n = w.dials;
    set_mode("forward");
    UNTIL(pid() > 0);
    UNTIL(w.dials > n);
    forward_up(f);
    assert_true(w.level == LOG_LEVEL_INFO && strstr(w.seen, "line 1: there is a link now"));
    /* One that has been of use is only started again. */
    n = w.n_errors;
    pid_t p = pid();
    kill(p, SIGKILL);
    UNTIL(pid() != p);
    assert_int_equal(w.n_errors, n);
    forward_free(f);
}

/* An ssh that does its part, with nobody behind it, is an error after a while, which is taken back. */
static void that_nobody_is_there_is_shown(void **state) {
    (void)state;
    parse("forward here there to=%u", w.port);
    set_mode("forward");
    struct forward_cfg c = cfg_of("here");
    c.silence = LIMIT;
    struct forward *f = forward_new(w.x, &c);
    fail_some(f, 5, MOYAI_ECLOSED);
    assert_int_equal(w.n_errors, 0); /* nor before its time */
    forward_free(f);
    w.over = w.dials;
    c.silence = 20 * MOYAI_MS;
    f = forward_new(w.x, &c);
    fail_some(f, 4, MOYAI_EUNREACHABLE); /* ssh is not ready */
    assert_int_equal(w.n_errors, 0);
    while (w.n_errors == 0) fail_some(f, 1, MOYAI_ECLOSED);
    char text[200];
    snprintf(text, sizeof text,
             "\"grid.conf\", line 1: " FAKE_SSH " to there is up, but no node answers at port %u there. ", w.port);
    if (!strstr(w.seen, text)) fail_msg("no '%s' in %s", text, w.seen);
    fail_some(f, 3, MOYAI_ECLOSED);
    assert_int_equal(w.n_errors, 1); /* not again so soon */
    await_dial();
    forward_up(f);
    assert_int_equal(w.n_errors, 1);
    assert_true(w.level == LOG_LEVEL_INFO && strstr(w.seen, "line 1: there is a link now"));
    forward_free(f);
    /* One that is not needed is there all the same. */
    f = forward_new(w.x, &c);
    while (w.n_errors == 1) fail_some(f, 1, MOYAI_EPROTO);
    await_dial();
    forward_answered(f);
    forward_down(f);
    assert_true(w.n_errors == 2 && w.level == LOG_LEVEL_INFO);
    assert_non_null(strstr(w.seen, "a node answers now, and there is another link to it"));
    forward_free(f);
}

/* A dial as it is made by a node. */
static struct {
    struct keyfile *keys;
    struct tls_ctx *tls;
    struct dial *dial;
    moyai_dur limit;
} real;

static void on_dialled(void *arg, const struct dialled *got, const struct moyai_error *why) {
    real.dial = NULL;
    assert_null(got);
    forward_failed(arg, why);
}

static void on_real_dial(void *ctx, struct forward *f, uint16_t port) {
    char place[24];
    const char *places = place;
    (void)ctx;
    snprintf(place, sizeof place, "127.0.0.1:%u", port);
    real.dial = dial_new(w.x, real.tls, real.keys, &places, 1, real.limit, on_dialled, f);
    assert_non_null(real.dial);
}

static void on_real_cancel(void *ctx, struct forward *f) {
    (void)ctx, (void)f;
    dial_cancel(real.dial);
    real.dial = NULL;
}

/* So it is where nothing listens at the other end, in whatever way ssh closes what it has accepted, or if it does not.
 */
static void who_accepts_and_closes_has_nobody_behind_him(void **state) {
    (void)state;
    static const char *const modes[] = {"close", "reset", "unread", "mute"};
    static const struct forward_ops real_ops = {on_real_dial, on_real_cancel};
    struct keyring keys = {.n = 1};
    char path[64], text[200];
    snprintf(path, sizeof path, "%s/key", w.dir);
    assert_int_equal(key_new(&keys.key[0], NULL), 0);
    assert_int_equal(keyfile_write(&keys, path, false, NULL), 0);
    assert_int_equal(keyfile_open(&real.keys, path, NULL), 0);
    assert_int_equal(tls_ctx_new(&real.tls, real.keys, NULL), 0);
    parse("forward here there port=2222 to=%u", w.port);
    struct forward_cfg c = cfg_of("here");
    c.ops = &real_ops;
    c.silence = 20 * MOYAI_MS;
    snprintf(text, sizeof text,
             "\"grid.conf\", line 1: " FAKE_SSH " to there (port 2222) is up, but no node answers at port %u there",
             w.port);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const bool mute = strcmp(modes[i], "mute") == 0;
        w.n_errors = 0;
        w.seen[0] = 0;
        real.limit = mute ? 10 * MOYAI_MS : LIMIT;
        set_mode(modes[i]);
        struct forward *f = forward_new(w.x, &c);
        UNTIL(w.n_errors == 1);
        if (!strstr(w.seen, text)) fail_msg("%s: no '%s' in %s", modes[i], text, w.seen);
        assert_non_null(strstr(w.seen, ". Does one run there, with this grid file, or is to= another port?"));
        if (strcmp(modes[i], "unread") == 0)
            assert_non_null(
                strstr(w.seen, "; it has said \"channel 2: open failed: connect failed: Connection refused\""));
        assert_true(state_is(f, FORWARD_FAILED, " is up, but no node answers"));
        forward_free(f);
    }
    /* One that says nothing at all may hang by itself. */
    c.silence = LIMIT;
    c.patience = 500 * MOYAI_MS; /* in which one of those that are started one after the other opens its port */
    struct forward *f = forward_new(w.x, &c);
    UNTIL(strstr(w.seen, " was ended since nobody answered through it; again"));
    forward_free(f);
    tls_ctx_free(real.tls);
    keyfile_close(real.keys);
}

/* In words of the line: a port that nobody has chosen says nothing. */
static void what_is_missing_is_named(void **state) {
    (void)state;
    parse("forward here there port=2222 jump=gate to=%u\nforward here there reverse listen=%u to=inner:7", w.port,
          w.port);
    set_mode("mute");
    struct forward_cfg c = cfg_of("here"), there = c;
    there.line = &w.file.line[1];
    struct forward *f = forward_new(w.x, &c), *g = forward_new(w.x, &there);
    char text[200];
    const char *why;
    UNTIL(w.dials == 2); /* one each */
    fail_with(f, MOYAI_EUNREACHABLE);
    assert_true(state_is(f, FORWARD_WAITS, NULL));
    (void)forward_state(f, &why);
    assert_string_equal(why, FAKE_SSH " to there (port 2222) by way of gate has not got through yet");
    fail_with(g, MOYAI_EUNREACHABLE);
    snprintf(text, sizeof text, "ssh from there has not got through yet: nothing listens at port %u here", w.port);
    assert_true(state_is(g, FORWARD_FAILED, text));
    fail_with(g, MOYAI_ECLOSED);
    assert_true(state_is(g, FORWARD_FAILED, "ssh from there is up, but no node answers at inner:7 there"));
    /* That no key fits is told at once, once, and its end as well. */
    assert_int_equal(w.n_errors, 0);
    struct moyai_error e = {.code = MOYAI_EPERM};
    snprintf(e.text, sizeof e.text, "127.0.0.1:%u: the other side does not take key k", w.port);
    for (int i = 0; i < 2; i++) forward_failed(g, &e);
    assert_int_equal(w.n_errors, 1);
    if (!strstr(w.seen, "line 2: ssh from there, inner:7 there: the other side does not take key k\n"))
        fail_msg("%s", w.seen);
    forward_up(g);
    assert_non_null(strstr(w.seen, "line 2: there is a link now"));
    forward_free(f);
    forward_free(g);
}

static void a_missing_program_is_named(void **state) {
    (void)state;
    parse("forward here there");
    struct forward_cfg c = cfg_of("here");
    c.ssh = "/nonexistent/ssh";
    struct forward *f = forward_new(w.x, &c);
    UNTIL(w.n_errors == 1);
    if (!strstr(w.seen, "line 1: cannot run '/nonexistent/ssh': ") || !strstr(w.seen, "not found; again in 5 ms. ") ||
        !strstr(w.seen, ". MOYAI_SSH names it: is that right?"))
        fail_msg("%s", w.seen);
    assert_null(strstr(w.seen, "moyai-forward"));
    assert_true(state_is(f, FORWARD_FAILED, "cannot run '/nonexistent/ssh': "));
    forward_free(f);
    /* Nor is what cannot be executed, or is not installed. */
    c.ssh = w.dir;
    w.seen[0] = 0;
    f = forward_new(w.x, &c);
    UNTIL(w.n_errors == 2);
    if (!strstr(w.seen, "line 1: cannot run '/tmp/moyai-forward-")) fail_msg("%s", w.seen);
    forward_free(f);
    char *path = strdup(getenv("PATH"));
    setenv("PATH", w.dir, 1);
    c.ssh = "ssh";
    w.seen[0] = 0;
    f = forward_new(w.x, &c);
    UNTIL(w.n_errors == 3);
    forward_free(f);
    setenv("PATH", path, 1);
    free(path);
    if (!strstr(w.seen, "line 1: cannot run 'ssh': ") || !strstr(w.seen, ". Is OpenSSH's client installed, or "))
        fail_msg("%s", w.seen);
    /* One that is there, and says 127 itself, has run. */
    set_mode("gone");
    c.ssh = FAKE_SSH;
    w.seen[0] = 0;
    f = forward_new(w.x, &c);
    UNTIL(w.n_errors == 4);
    assert_non_null(
        strstr(w.seen, " to there has ended with status 127, and said last: \"wrapper: 3: ssh: not found\""));
    assert_non_null(strstr(w.seen, ". Does '"));
    forward_free(f);
}

static void one_that_hangs_is_replaced(void **state) {
    (void)state;
    parse("forward here there to=%u", w.port);
    set_mode("hang");
    struct forward_cfg c = cfg_of("here");
    c.patience = 1;
    struct forward *f = forward_new(w.x, &c);
    UNTIL(pid() > 0);
    pid_t p = pid();
    UNTIL(w.dials == 1);
    fail_with(f, MOYAI_ETIMEDOUT);
    UNTIL(pid() != p);
    UNTIL(has_ended(p));
    assert_non_null(strstr(w.seen, "was ended since its port did not open"));
    /* A port that is open, though nobody is behind it, is no reason. */
    p = pid();
    UNTIL(w.dials >= 2);
    w.seen[0] = 0;
    int n;
    for (int i = 0; i < 5; i++) {
        n = w.dials;
        fail_with(f, i == 0 ? MOYAI_ECLOSED : MOYAI_EUNREACHABLE);
        UNTIL(w.dials > n);
    }
    assert_int_equal(pid(), p);
    assert_null(strstr(w.seen, "was ended"));
    forward_free(f);
    UNTIL(has_ended(p)); /* though it minds no signal */
}

/* What is said without end is read at a bounded rate, and its end is known all the same. */
static void one_that_babbles_waits(void **state) {
    (void)state;
    parse("forward here there to=%u", w.port);
    set_mode("babble");
    struct forward_cfg c = cfg_of("here");
    moyai_ns began = moyai_now();
    struct forward *f = forward_new(w.x, &c);
    UNTIL(said() >= 2 * 65536); /* it was read, and the pipe is full again */
    moyai_ns until = moyai_now() + 300 * MOYAI_MS;
    UNTIL(moyai_now() > until);
    off_t n = said();
    moyai_ns seconds = (moyai_now() - began) / MOYAI_SEC;
    if (n > (off_t)(3 + seconds) * 65536) fail_msg("%lld bytes in %llu s", (long long)n, (unsigned long long)seconds);
    set_mode("forward");
    kill(pid(), SIGKILL);
    UNTIL(strstr(w.seen, "has ended with status 137, and said last: \"abcdefg; abcdefg; abcdefg\"; again"));
    forward_free(f);
}

static void one_of_several_does_it(void **state) {
    (void)state;
    parse("forward here there to=%u", w.port);
    set_mode("forward");
    struct forward_cfg c = cfg_of("here");
    struct forward *f[3];
    for (int i = 0; i < 3; i++) f[i] = forward_new(w.x, &c);
    UNTIL(pid() > 0);
    int holder = -1;
    for (int i = 0; i < 3; i++)
        if (forward_holds(f[i])) {
            assert_int_equal(holder, -1);
            holder = i;
        }
    assert_true(holder >= 0);
    for (int i = 0; i < 3; i++) assert_true(state_is(f[i], i == holder ? FORWARD_WAITS : FORWARD_OTHERS, NULL));
    pid_t p = pid();
    forward_free(f[holder]);
    f[holder] = NULL;
    UNTIL(pid() != p);
    UNTIL(has_ended(p));
    int holders = 0;
    for (int i = 0; i < 3; i++) holders += f[i] && forward_holds(f[i]);
    assert_int_equal(holders, 1);
    for (int i = 0; i < 3; i++) forward_free(f[i]);
}

/* One that leaves gives the line to another that stays, and keeps it while none stands ready. */
static void who_leaves_gives_it_to_one_that_stays(void **state) {
    (void)state;
    parse("forward here there to=%u", w.port);
    set_mode("forward");
    struct forward_cfg c = cfg_of("here");
    struct forward *f[3];
    f[0] = forward_new(w.x, &c);
    UNTIL(forward_holds(f[0]) && pid() > 0);
    const pid_t first = pid();
    forward_leaves(f[0]);
    moyai_ns until = moyai_now() + (moyai_ns)(700 * MOYAI_MS);
    UNTIL(moyai_now() > until);
    assert_true(forward_holds(f[0]) && forward_carries(f[0]));
    forward_free(f[0]);
    for (int i = 0; i < 3; i++) f[i] = forward_new(w.x, &c);
    UNTIL(forward_holds(f[0]) + forward_holds(f[1]) + forward_holds(f[2]) == 1 && pid() != first);
    const pid_t second = pid();
    const int holder = forward_holds(f[0]) ? 0 : forward_holds(f[1]) ? 1 : 2, goes = (holder + 1) % 3;
    until = moyai_now() + (moyai_ns)(3 * c.look);
    UNTIL(moyai_now() > until); /* the others stand ready */
    forward_leaves(f[goes]);    /* both at once */
    forward_leaves(f[holder]);
    UNTIL(forward_holds(f[3 - holder - goes]) && pid() != second);
    assert_true(!forward_holds(f[holder]) && !forward_carries(f[holder]) && !forward_holds(f[goes]));
    UNTIL(has_ended(second));
    for (int i = 0; i < 3; i++) forward_free(f[i]);
    char path[200];
    snprintf(path, sizeof path, "test -z \"$(ls %s | grep ^forward-)\"", w.dir);
    assert_int_equal(system(path), 0); /* no file is left */
}

/* A process of its own, which holds the line until it is killed: "holder", the directory, the line. */
static int holder(const char *dir, const char *line) {
    alarm(300);
    snprintf(w.dir, sizeof w.dir, "%s", dir);
    if (log_init(&w.log, "error", NULL) < 0 || exec_new(&w.x, NULL, NULL) < 0) return 1;
    parse("%s", line);
    exec_lock(w.x);
    struct forward_cfg c = cfg_of("here");
    if (!forward_new(w.x, &c)) return 1;
    static const atomic_bool never;
    for (;;) (void)exec_serve(w.x, &never, UINT64_MAX);
}

/* A node that is killed cannot end its ssh; another takes over all the same, and the port is free. */
static void a_killed_holder_is_followed(void **state) {
    (void)state;
    uint16_t port;
    struct tcp_addr a, at;
    int fd;
    assert_int_equal(tcp_parse("127.0.0.1:0", &a, NULL), 0);
    assert_int_equal(tcp_listen(&fd, &a, 0, 0, &at, NULL), 0);
    port = tcp_port(&at);
    close(fd);
    char line[80];
    snprintf(line, sizeof line, "forward here there listen=%u to=%u", port, w.port);
    parse("%s", line);
    set_mode("forward");
    fflush(NULL);
    exec_unlock(w.x);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "forward_test", "holder", w.dir, line, (char *)NULL);
        _exit(127);
    }
    exec_lock(w.x);
    UNTIL(pid() > 0);
    pid_t p = pid();
    struct forward_cfg c = cfg_of("here");
    struct forward *f = forward_new(w.x, &c);
    assert_false(forward_holds(f));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    UNTIL(pid() != p);
    UNTIL(has_ended(p));
    assert_true(forward_holds(f));
    UNTIL((fd = connect_to(port)) >= 0);
    close(fd);
    forward_free(f);
}

/* A link that is not needed, as there is another, is tried seldom: but at once when that one has gone. */
static void what_was_superfluous_is_hastened(void **state) {
    (void)state;
    parse("forward here there reverse listen=%u", w.port);
    struct forward_cfg c = cfg_of("here");
    c.retry = 3000 * MOYAI_SEC;
    struct forward *f = forward_new(w.x, &c);
    UNTIL(w.dials == 1);
    forward_hasten(f); /* one is under way */
    forward_down(f);
    forward_hasten(f);
    UNTIL(w.dials == 2);
    forward_up(f);
    forward_hasten(f); /* there is a link */
    moyai_ns until = moyai_now() + 20 * MOYAI_MS;
    UNTIL(moyai_now() > until);
    assert_int_equal(w.dials, 2);
    forward_down(f);
    forward_hasten(f);
    UNTIL(w.dials == 3);
    forward_free(f);
}

static void a_directory_that_is_gone_is_said_once(void **state) {
    (void)state;
    parse("forward here there");
    struct forward_cfg c = cfg_of("here");
    c.dir = "/nonexistent";
    struct forward *f = forward_new(w.x, &c);
    UNTIL(strstr(w.seen, "cannot open \"/nonexistent/forward-"));
    size_t n = strlen(w.seen);
    moyai_ns until = moyai_now() + 50 * MOYAI_MS; /* some looks */
    UNTIL(moyai_now() > until);
    assert_int_equal(strlen(w.seen), n);
    forward_free(f);
    remove_file("mode");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "holder")) return holder(argv[2], argv[3]);
    alarm(600);
    const struct CMUnitTest tests[] = {
        TEST(ssh_forwards_the_port),
        TEST(either_end_runs_it),
        TEST(it_is_started_again),
        TEST(the_pauses_grow),
        TEST(what_does_not_work_is_shown),
        TEST(that_nobody_is_there_is_shown),
        TEST(who_accepts_and_closes_has_nobody_behind_him),
        TEST(what_is_missing_is_named),
        TEST(a_missing_program_is_named),
        TEST(one_that_hangs_is_replaced),
        TEST(one_that_babbles_waits),
        TEST(what_was_superfluous_is_hastened),
        TEST(one_of_several_does_it),
        TEST(who_leaves_gives_it_to_one_that_stays),
        TEST(a_killed_holder_is_followed),
        TEST(a_directory_that_is_gone_is_said_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
