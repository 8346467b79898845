/* SPDX-License-Identifier: Apache-2.0 */
/* Members meet over pairs of descriptors (meet_fd.c). The test is the launcher that carries all to all. */
#include "overlay/io/meet_fd.h"

#include "base/id.h"
#include "link/seal.h"
#include "tests/support/fiber_assert.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT (100 * MOYAI_SEC) /* hang guard */

enum { MOST = 40 };

static struct exec *x;
static char key_path[64];
static struct keyfile *keys;

struct member {
    struct meet_fd *m;
    int in, out;    /* the member's ends */
    int to, from;   /* the launcher's */
    uint8_t id;     /* 0: it has nothing to say */
    int heard[256]; /* of whom, how often */
    int entries, troubles, code;
    char text[200];
};

static struct member w[MOST];
static size_t n_members;
static uint64_t lines; /* carried */

/* 24 bytes that nobody looks at, and the id. */
static size_t own(void *ctx, uint8_t *out) {
    struct member *e = ctx;
    if (!e->id) return 0;
    memset(out, 0, 40);
    memset(out + 24, e->id, 16);
    return 40;
}
static void on_entry(void *ctx, const uint8_t *p, size_t n) {
    struct member *e = ctx;
    e->entries++;
    if (n == 40) e->heard[p[24]]++;
}
static void on_trouble(void *ctx, int code, const char *text) {
    struct member *e = ctx;
    e->troubles++;
    e->code = code;
    snprintf(e->text, sizeof e->text, "%s", text);
}
static const struct meet_fd_ops ops = {on_entry, own, on_trouble};

static void pair(int fd[2], bool sockets) {
    assert_int_equal(sockets ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) : pipe2(fd, O_CLOEXEC), 0);
}

static struct member *add(bool sockets, uint8_t id) {
    struct member *e = &w[n_members++];
    *e = (struct member){.id = id};
    int in[2], out[2];
    pair(in, sockets);
    pair(out, sockets);
    e->in = in[0];
    e->to = in[1];
    e->out = out[1];
    e->from = out[0];
    assert_int_equal(fcntl(e->from, F_SETFL, O_NONBLOCK), 0);
    struct moyai_error why = {0};
    if (meet_fd_new(&e->m, x, keys, e->in, e->out, &ops, e, &why) < 0) fail_msg("%s", why.text);
    assert_int_equal(fcntl(e->in, F_GETFL) & O_NONBLOCK, 0); /* others may have it, too */
    assert_int_equal(fcntl(e->out, F_GETFL) & O_NONBLOCK, 0);
    return e;
}

static void drop(struct member *e) {
    meet_fd_free(e->m);
    e->m = NULL;
    assert_true(fcntl(e->in, F_GETFD) >= 0); /* they are the program's */
    assert_true(fcntl(e->out, F_GETFD) >= 0);
    close(e->in);
    close(e->out);
    close(e->to);
    close(e->from);
    e->from = -1;
}

/* All that members have written, to all. */
static void carry(void) {
    for (size_t i = 0; i < n_members; i++) {
        char buf[65536];
        ssize_t n = w[i].from >= 0 ? read(w[i].from, buf, sizeof buf) : 0;
        for (ssize_t k = 0; k < n; k++) lines += buf[k] == '\n';
        for (size_t k = 0; n > 0 && k < n_members; k++)
            if (w[k].m) assert_int_equal(write(w[k].to, buf, (size_t)n), n);
    }
}

#define UNTIL(cond)                                                                                                    \
    do {                                                                                                               \
        moyai_ns limit_ = moyai_now() + (moyai_ns)LIMIT;                                                               \
        while (carry(), !(cond)) {                                                                                     \
            static const atomic_bool never;                                                                            \
            if (moyai_now() > limit_) fail_msg("has not come true: %s", #cond);                                        \
            (void)exec_serve(x, &never, moyai_now() + 2 * MOYAI_MS);                                                   \
        }                                                                                                              \
    } while (0)

static void settle(moyai_dur d) {
    moyai_ns until = moyai_now() + (moyai_ns)d;
    UNTIL(moyai_now() > until);
}

static void give(struct member *e, const void *p, size_t n) {
    assert_int_equal(write(e->to, p, n), n);
}

/* That id's line, without its end. */
static size_t line_of(uint8_t id, const struct key *k, char out[4200]) {
    struct member from = {.id = id};
    uint8_t entry[64], sealed[64 + SEAL_MORE];
    size_t n = own(&from, entry);
    assert_int_equal(seal(k, SEAL_RENDEZVOUS, entry, n, sealed), 0);
    size_t at = (size_t)sprintf(out, "moyai 1 ");
    for (size_t i = 0; i < n + SEAL_MORE; i++) at += (size_t)sprintf(out + at, "%02x", sealed[i]);
    return at;
}

static int begin(void **state) {
    (void)state;
    struct keyring r = {.n = 1};
    snprintf(key_path, sizeof key_path, "/tmp/moyai-meet-fd-%d", (int)getpid());
    assert_int_equal(key_new(&r.key[0], NULL), 0);
    assert_int_equal(keyfile_write(&r, key_path, false, NULL), 0);
    assert_int_equal(keyfile_open(&keys, key_path, NULL), 0);
    assert_int_equal(exec_new(&x, NULL, NULL), 0);
    exec_lock(x);
    n_members = 0;
    lines = 0;
    return 0;
}

static int end(void **state) {
    (void)state;
    for (size_t i = 0; i < n_members; i++)
        if (w[i].m) drop(&w[i]);
    exec_unlock(x);
    exec_free(x);
    keyfile_close(keys);
    return unlink(key_path);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Who comes late is told of those who were there, though what they said is gone. */
static void newcomers_are_answered(void **state) {
    (void)state;
    for (int sockets = 0; sockets < 2; sockets++) {
        struct member *a = add(sockets, 1), *b = add(sockets, 2);
        meet_fd_look(a->m);
        meet_fd_look(b->m);
        UNTIL(a->heard[2] && b->heard[1]);
        settle(300 * MOYAI_MS); /* they have answered each other */
        struct member *c = add(sockets, 3);
        settle(20 * MOYAI_MS);
        assert_int_equal(c->entries, 0);
        meet_fd_look(c->m);
        UNTIL(c->heard[1] && c->heard[2] && a->heard[3] && b->heard[3]);
        assert_int_equal(a->troubles + b->troubles + c->troubles, 0);
        drop(a);
        drop(b);
        drop(c);
    }
}

/* All begin at once: each hears of all, and what is said is not their number squared. */
static void many_begin_at_once(void **state) {
    (void)state;
    for (int i = 0; i < MOST; i++) add(false, (uint8_t)(i + 1));
    for (int i = 0; i < MOST; i++) meet_fd_look(w[i].m);
    for (int i = 0; i < MOST; i++)
        for (int k = 0; k < MOST; k++) UNTIL(w[i].heard[k + 1]);
    settle(500 * MOYAI_MS); /* answers */
    assert_true(lines >= MOST);
    assert_true(lines <= 5 * MOST);
    printf("%llu lines of %d members\n", (unsigned long long)lines, MOST);
}

/* Entries but its own: it answers a newcomer within 200 ms, and hears itself as all do. */
static int of_others(const struct member *e) {
    return e->entries - e->heard[e->id];
}

static void what_is_no_entry_is_passed_over(void **state) {
    (void)state;
    struct member *a = add(false, 1);
    struct keyring other = {.n = 1};
    char line[4200], junk[9000];
    assert_int_equal(key_new(&other.key[0], NULL), 0);
    memset(junk, 'x', sizeof junk);
    give(a, "\n\nhello\nmoyai 1 \nmoyai 1 0\nmoyai 1 zz\nmoyai 2 00\n", 49);
    give(a, "\0\xff\n", 3);
    give(a, junk, sizeof junk); /* a line that is too long, and the next one is read again */
    give(a, "\n", 1);
    size_t n = line_of(2, &other.key[0], line);
    line[n] = '\n';
    give(a, line, n + 1);
    n = line_of(3, &keyfile_keys(keys)->key[0], line);
    line[20] ^= 1;
    line[n] = '\n';
    give(a, line, n + 1);
    n = line_of(4, &keyfile_keys(keys)->key[0], line);
    for (size_t i = 0; i < n; i++) { /* in the smallest pieces */
        give(a, line + i, 1);
        if (i % 16 == 0) settle(MOYAI_MS);
    }
    assert_int_equal(a->entries, 0);
    give(a, "\n", 1);
    UNTIL(a->heard[4]);
    assert_int_equal(of_others(a), 1);
    /* As long as a line may be, and longer by one. */
    memcpy(junk, "moyai 1 ", 8);
    memset(junk + 8, '0', sizeof junk - 8);
    junk[4096] = junk[8194] = '\n';
    give(a, junk, 8195);
    n = line_of(5, &keyfile_keys(keys)->key[0], line);
    line[n] = '\n';
    give(a, line, n + 1);
    UNTIL(a->heard[5]);
    assert_int_equal(of_others(a), 2);
    assert_int_equal(a->troubles, 1); /* that there is another key, once */
    assert_int_equal(a->code, MOYAI_EPERM);
}

/* Nobody reads: neither does the node wait, nor is it killed; and when somebody does again, it goes on. */
static void nobody_listens(void **state) {
    (void)state;
    for (int sockets = 0; sockets < 2; sockets++) {
        struct member *a = add(sockets, 1);
        int from = a->from;
        a->from = -1; /* it is not carried */
        for (int i = 0; i < 5000; i++) meet_fd_look(a->m);
        assert_int_equal(a->troubles, 0);
        char buf[4096];
        while (read(from, buf, sizeof buf) > 0) continue;
        assert_int_equal(errno, EAGAIN);
        char last[8192] = "";
        meet_fd_look(a->m);
        ssize_t n = read(from, last, sizeof last - 1);
        assert_true(n > 0 && last[n - 1] == '\n');
        close(from);
        meet_fd_look(a->m);
        meet_fd_look(a->m);
        assert_int_equal(a->troubles, 1); /* said once */
        a->from = open("/dev/null", O_RDONLY | O_CLOEXEC);
        /* What it hears it hears on. */
        char line[4200];
        size_t k = line_of(4, &keyfile_keys(keys)->key[0], line);
        line[k] = '\n';
        give(a, line, k + 1);
        UNTIL(a->heard[4]);
        close(a->to);
        a->to = -1;
        a->troubles = 0;
        settle(20 * MOYAI_MS);
        a->to = open("/dev/null", O_WRONLY | O_CLOEXEC);
        drop(a);
    }
}

static void bad_descriptors_are_errors(void **state) {
    (void)state;
    struct member e = {0};
    struct moyai_error why;
    int file = open(key_path, O_RDWR | O_CLOEXEC), p[2];
    pair(p, false);
    assert_int_equal(meet_fd_new(&e.m, x, keys, 100000, p[1], &ops, &e, &why), MOYAI_EINVAL);
    assert_non_null(strstr(why.text, "descriptor 100000"));
    assert_int_equal(meet_fd_new(&e.m, x, keys, p[0], file, &ops, &e, &why), MOYAI_EINVAL);
    assert_non_null(strstr(why.text, "neither a pipe nor a socket"));
    close(file);
    close(p[0]);
    close(p[1]);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void) {
    alarm(300);
    const struct CMUnitTest tests[] = {
        TEST(newcomers_are_answered), TEST(many_begin_at_once),         TEST(what_is_no_entry_is_passed_over),
        TEST(nobody_listens),         TEST(bad_descriptors_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
