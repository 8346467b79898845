/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting over loopback to a server that does the other half of the handshake. */
#include "overlay/io/dial.h"

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT (100 * MOYAI_SEC) /* hang guard */

/* Stands before that of the C library: for one host no name server answers as long as the test likes. */
static sem_t name_server;
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    void *f = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&real, &f, sizeof f);
    if (strcmp(host, "silent.invalid") != 0) return real(host, port, hints, ret);
    sem_wait(&name_server);
    return EAI_AGAIN;
}

/* A key file of its own, and TLS by it. */
struct side {
    struct keyfile *keys;
    struct tls_ctx *tls;
};

struct world {
    struct exec *x;
    char dir[32];
    struct key key[3];
    struct side here, there;
    /* The server: it shakes hands with one client at a time. */
    int listener, client;
    uint16_t port;
    struct exec_fd *listening, *shaking;
    struct tls *tls;
    char key_id[64];
    int shaken;
    /* What was told. */
    atomic_bool told;
    int tells;
    bool got;
    char at[TCP_TEXT];
    struct moyai_error why;
};
static struct world *w;

static void side_open(struct side *s, const struct key *const *of) {
    struct keyring r = {0};
    static int files;
    char path[64];
    while (of[r.n]) {
        r.key[r.n] = *of[r.n];
        r.n++;
    }
    snprintf(path, sizeof path, "%s/key%d", w->dir, files++);
    assert_int_equal(keyfile_write(&r, path, false, NULL), 0);
    assert_int_equal(keyfile_open(&s->keys, path, NULL), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(tls_ctx_new(&s->tls, s->keys, NULL), 0);
}
static void side_close(struct side *s) {
    tls_ctx_free(s->tls);
    keyfile_close(s->keys);
    *s = (struct side){0};
}
#define RING(...) ((const struct key *const[]){__VA_ARGS__, NULL})

static void server_drop(void) {
    tls_free(w->tls);
    w->tls = NULL;
    if (w->shaking) exec_fd_free(w->shaking, true, NULL);
    w->shaking = NULL;
}

static void on_shake(struct exec_fd *f, int events, void *arg) {
    (void)f, (void)events, (void)arg;
    int rc = tls_handshake(w->tls, NULL);
    if (rc < 0) {
        server_drop();
    } else if (rc == TLS_READY) {
        w->shaken++;
        snprintf(w->key_id, sizeof w->key_id, "%s", tls_key_id(w->tls));
        exec_fd_events(w->shaking, 0);
    }
}

static void on_accept(struct exec_fd *f, int events, void *arg) {
    (void)f, (void)events, (void)arg;
    struct tcp_addr from;
    if (tcp_accept(w->listener, &w->client, &from, NULL) < 0) return;
    server_drop();
    w->tls = tls_new(w->there.tls, w->client, true, 0);
    w->shaking = exec_fd_new(w->x, w->client, UV_READABLE, on_shake, NULL);
}

static void listen_on_loopback(int *fd, uint16_t *port) {
    struct tcp_addr a, at;
    assert_int_equal(tcp_parse("127.0.0.1:0", &a, NULL), 0);
    assert_int_equal(tcp_listen(fd, &a, 0, 0, &at, NULL), 0);
    *port = tcp_port(&at);
}

static int open_world(void **state) {
    (void)state;
    w = calloc(1, sizeof *w);
    strcpy(w->dir, "/tmp/moyai-dial-XXXXXX");
    if (!mkdtemp(w->dir)) return -1;
    for (int i = 0; i < 3; i++)
        if (key_new(&w->key[i], NULL) < 0) return -1;
    assert_int_equal(exec_new(&w->x, NULL, NULL), 0);
    exec_lock(w->x);
    listen_on_loopback(&w->listener, &w->port);
    w->listening = exec_fd_new(w->x, w->listener, UV_READABLE, on_accept, NULL);
    return 0;
}

static int close_world(void **state) {
    (void)state;
    server_drop();
    exec_fd_free(w->listening, true, NULL);
    exec_unlock(w->x);
    exec_free(w->x);
    side_close(&w->here);
    side_close(&w->there);
    assert_int_equal(rmdir(w->dir), 0);
    free(w);
    return 0;
}

static void on_end(void *arg, const struct dialled *got, const struct moyai_error *why) {
    assert_ptr_equal(arg, w);
    w->tells++;
    w->got = got != NULL;
    if (got) {
        assert_null(why);
        tcp_format(&got->at, w->at);
        tls_free(got->tls);
        close(got->fd);
    } else {
        w->why = *why;
    }
    atomic_store(&w->told, true);
    exec_kick(w->x);
}

static struct dial *start(const char *const *places, size_t n, moyai_dur limit) {
    w->tells = 0;
    atomic_store(&w->told, false);
    struct dial *d = dial_new(w->x, w->here.tls, w->here.keys, places, n, limit, on_end, w);
    assert_non_null(d);
    assert_int_equal(w->tells, 0);
    return d;
}

static void dial(const char *const *places, size_t n, moyai_dur limit) {
    (void)start(places, n, limit);
    assert_int_equal(exec_serve(w->x, &w->told, moyai_now() + (moyai_ns)LIMIT), 0);
    assert_int_equal(w->tells, 1);
}

/* The client's side is through first. */
static void server_has_shaken(int n) {
    while (w->shaken < n) exec_yield(w->x);
    assert_int_equal(w->shaken, n);
}

static void place(char out[TCP_TEXT], uint16_t port) {
    snprintf(out, TCP_TEXT, "127.0.0.1:%u", port);
}

/* A port where nobody listens. */
static uint16_t closed_port(void) {
    int fd;
    uint16_t port;
    listen_on_loopback(&fd, &port);
    close(fd);
    return port;
}

/* Of several, that works which works. */
static void the_first_that_answers_wins(void **state) {
    (void)state;
    side_open(&w->here, RING(&w->key[0]));
    side_open(&w->there, RING(&w->key[0]));
    int silent;
    uint16_t port;
    listen_on_loopback(&silent, &port); /* the system takes the connection, and nobody speaks */
    char at[3][TCP_TEXT], name[TCP_TEXT];
    place(at[0], closed_port());
    place(at[1], port);
    place(at[2], w->port);
    dial((const char *const[]){at[0], at[1], at[2]}, 3, LIMIT);
    assert_true(w->got);
    assert_string_equal(w->at, at[2]);
    snprintf(name, sizeof name, "localhost:%u", w->port);
    dial((const char *const[]){at[1], "nowhere", name}, 3, LIMIT);
    assert_true(w->got);
    assert_string_equal(w->at, at[2]);
    server_has_shaken(2);
    close(silent);
}

static void it_is_said_why_none_works(void **state) {
    (void)state;
    side_open(&w->here, RING(&w->key[0], &w->key[2]));
    side_open(&w->there, RING(&w->key[1]));
    char closed[TCP_TEXT], other[TCP_TEXT], quiet[TCP_TEXT];
    place(closed, closed_port());
    place(other, w->port);
    int silent;
    uint16_t port;
    listen_on_loopback(&silent, &port);
    place(quiet, port);
    dial((const char *const[]){closed}, 1, LIMIT);
    assert_false(w->got);
    assert_int_equal(w->why.code, MOYAI_EUNREACHABLE);
    assert_non_null(strstr(w->why.text, closed));
    assert_non_null(strstr(w->why.text, "refused"));
    assert_int_equal(w->why.sys, ECONNREFUSED);
    dial((const char *const[]){quiet, closed}, 2, 20 * MOYAI_MS);
    assert_non_null(strstr(w->why.text, "refused"));
    assert_int_equal(w->why.sys, 0); /* of the other one it is not known */
    dial((const char *const[]){closed, other}, 2, LIMIT);
    assert_int_equal(w->why.code, MOYAI_EPERM); /* says more than that nobody is at the other one */
    assert_non_null(strstr(w->why.text, other));
    dial((const char *const[]){quiet}, 1, 20 * MOYAI_MS);
    assert_int_equal(w->why.code, MOYAI_ETIMEDOUT);
    assert_non_null(strstr(w->why.text, "says nothing"));
    assert_int_equal(w->why.sys, ETIMEDOUT);
    dial(NULL, 0, LIMIT);
    assert_int_equal(w->why.code, MOYAI_EUNREACHABLE);
    dial((const char *const[]){"nowhere"}, 1, LIMIT);
    assert_int_equal(w->why.code, MOYAI_EINVAL);
    dial((const char *const[]){"host.invalid:1"}, 1, LIMIT);
    assert_int_equal(w->why.code, MOYAI_EUNREACHABLE);
    assert_non_null(strstr(w->why.text, "cannot find the address of host.invalid: "));
    assert_int_equal(sem_init(&name_server, 0, 0), 0);
    dial((const char *const[]){"silent.invalid:1"}, 1, 20 * MOYAI_MS);
    assert_int_equal(w->why.code, MOYAI_EUNREACHABLE);
    assert_string_equal(w->why.text, "cannot find the address of silent.invalid: no name server answers");
    sem_post(&name_server);
    assert_int_equal(w->shaken, 0);
    close(silent);
}

/* However it is closed, and when: that is what it is. */
static void what_is_taken_and_closed_is_closed(void **state) {
    (void)state;
    enum { AT_ONCE, RESET_AT_ONCE, UNREAD, READ, WAYS };
    side_open(&w->here, RING(&w->key[0]));
    char at[TCP_TEXT], closed[TCP_TEXT], want[TCP_TEXT + 3];
    int listener;
    uint16_t port;
    listen_on_loopback(&listener, &port);
    place(at, port);
    place(closed, closed_port());
    snprintf(want, sizeof want, "%s: ", at);
    for (int way = 0; way < 2 * WAYS; way++) {
        (void)start((const char *const[]){at, closed}, way < WAYS ? 1 : 2, LIMIT);
        const struct linger at_once = {.l_onoff = 1};
        struct tcp_addr from;
        char hello[4096];
        int fd;
        moyai_ns limit = moyai_now() + (moyai_ns)LIMIT;
        while (tcp_accept(listener, &fd, &from, NULL) < 0) assert_true(moyai_now() < limit);
        if (way % WAYS == UNREAD || way % WAYS == READ)
            while (recv(fd, hello, sizeof hello, way % WAYS == READ ? 0 : MSG_PEEK) <= 0) {
                assert_true(moyai_now() < limit);
                exec_yield(w->x);
            }
        if (way % WAYS == RESET_AT_ONCE)
            assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
        close(fd);
        assert_int_equal(exec_serve(w->x, &w->told, moyai_now() + (moyai_ns)LIMIT), 0);
        if (w->got || w->why.code != MOYAI_ECLOSED || strncmp(w->why.text, want, strlen(want)) != 0)
            fail_msg("%d: %d, %s", way, w->why.code, w->why.text);
    }
    close(listener);
}

/* Where the first is refused: the other end has but the new one yet, or has withdrawn the old one. */
static void another_key_is_offered(void **state) {
    (void)state;
    side_open(&w->here, RING(&w->key[0], &w->key[1], &w->key[2]));
    side_open(&w->there, RING(&w->key[2]));
    char at[TCP_TEXT];
    place(at, w->port);
    dial((const char *const[]){at}, 1, LIMIT);
    assert_true(w->got);
    server_has_shaken(1);
    assert_string_equal(w->key_id, w->key[2].id);
}

static void more_places_than_are_tried(void **state) {
    (void)state;
    side_open(&w->here, RING(&w->key[0]));
    side_open(&w->there, RING(&w->key[0]));
    char closed[TCP_TEXT];
    place(closed, closed_port());
    const char *places[3 * DIAL_MOST];
    for (size_t i = 0; i < 3 * DIAL_MOST; i++) places[i] = closed;
    dial(places, 3 * DIAL_MOST, LIMIT);
    assert_int_equal(w->why.code, MOYAI_EUNREACHABLE);
}

/* At any moment: nobody is told. */
static void a_dial_is_cancelled(void **state) {
    (void)state;
    side_open(&w->here, RING(&w->key[0]));
    side_open(&w->there, RING(&w->key[0]));
    char at[TCP_TEXT];
    place(at, w->port);
    for (int i = 0; i < 40; i++) {
        struct dial *d = start((const char *const[]){at, "localhost:1"}, 2, LIMIT);
        for (int k = 0; k < i / 4 && w->tells == 0; k++) exec_yield(w->x);
        if (w->tells == 0) {
            dial_cancel(d);
            for (int k = 0; k < 5; k++) exec_yield(w->x);
            assert_int_equal(w->tells, 0);
        }
    }
    dial_cancel(NULL);
}

int main(void) {
#define WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest tests[] = {WORLD(the_first_that_answers_wins),        WORLD(it_is_said_why_none_works),
                                       WORLD(what_is_taken_and_closed_is_closed), WORLD(another_key_is_offered),
                                       WORLD(more_places_than_are_tried),         WORLD(a_dial_is_cancelled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
