/* SPDX-License-Identifier: Apache-2.0 */
/* TLS over a socket pair: who may come in, what the others get to see, and bytes in any portions. */
#include "link/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/moyai-tls-XXXXXX";
static struct key key[4];

/* A ring of some of the keys, as a node has it. */
struct side {
    struct keyfile *keys;
    struct tls_ctx *ctx;
    struct tls *tls;
    int fd;
    struct moyai_error e;
};

static struct side side(int fd, bool server, const struct key *const *of, size_t which) {
    struct side s = {.fd = fd};
    struct keyring r = {0};
    for (size_t i = 0; of[i]; i++) r.key[r.n++] = *of[i];
    char path[64];
    snprintf(path, sizeof path, "%s/key", dir);
    assert_int_equal(keyfile_write(&r, path, false, NULL), 0);
    assert_int_equal(keyfile_open(&s.keys, path, NULL), 0);
    assert_int_equal(tls_ctx_new(&s.ctx, s.keys, NULL), 0);
    s.tls = tls_new(s.ctx, fd, server, which);
    assert_non_null(s.tls);
    return s;
}

static void end(struct side *s) {
    tls_free(s->tls);
    tls_ctx_free(s->ctx);
    keyfile_close(s->keys);
    close(s->fd);
}

static void pair(int fd[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    int small = 8192;
    setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
}

/* Both handshakes to their ends. */
static void shake(struct side *a, struct side *b, int *ra, int *rb) {
    *ra = *rb = TLS_WANT_READ;
    for (int i = 0; i < 20 && (*ra > TLS_READY || *rb > TLS_READY); i++) {
        if (*ra > TLS_READY) *ra = tls_handshake(a->tls, &a->e);
        if (*ra < 0) shutdown(a->fd, SHUT_WR);
        if (*rb > TLS_READY) *rb = tls_handshake(b->tls, &b->e);
        if (*rb < 0) shutdown(b->fd, SHUT_WR);
    }
}

#define RING(...) ((const struct key *const[]){__VA_ARGS__, NULL})

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++)
        if (key_new(&key[i], NULL) < 0) return -1;
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/key", dir);
    unlink(path);
    return rmdir(dir);
}

static void bytes_pass_in_any_portions(void **state) {
    (void)state;
    int fd[2], ra, rb;
    pair(fd);
    struct side a = side(fd[0], false, RING(&key[0]), 0), b = side(fd[1], true, RING(&key[0]), 0);
    shake(&a, &b, &ra, &rb);
    assert_int_equal(ra, TLS_READY);
    assert_int_equal(rb, TLS_READY);
    assert_string_equal(tls_suite(a.tls), "TLS_AES_128_GCM_SHA256");
    assert_string_equal(tls_suite(b.tls), "TLS_AES_128_GCM_SHA256");
    assert_string_equal(tls_key_id(a.tls), key[0].id);
    assert_string_equal(tls_key_id(b.tls), key[0].id);
    enum { N = 3 << 20 };
    uint8_t *out = malloc(N), *in = malloc(N);
    assert_true(out && in);
    for (size_t i = 0; i < N; i++) out[i] = (uint8_t)(i * 7 + (i >> 9));
    for (int way = 0; way < 2; way++) {
        struct side *from = way ? &b : &a, *to = way ? &a : &b;
        size_t sent = 0, got = 0, step = 1;
        memset(in, 0, N);
        uint8_t scratch[40000]; /* the bytes may lie elsewhere when a write is tried again */
        while (got < N) {
            step = step * 3 % 40000 + 1;
            size_t n = N - sent < step ? N - sent : step;
            if (n > 0) {
                memcpy(scratch, out + sent, n);
                ssize_t k = tls_write(from->tls, scratch, n, false);
                while (k == -EAGAIN) {
                    ssize_t r = tls_read(to->tls, in + got, N - got < 1000 ? N - got : 1000);
                    if (r > 0) got += (size_t)r;
                    memset(scratch, 0, n);
                    size_t more = N - sent < n + 5 && n + 5 <= sizeof scratch ? N - sent : n; /* or more behind them */
                    memcpy(scratch, out + sent, more);
                    k = tls_write(from->tls, scratch, n, false);
                }
                assert_true(k > 0);
                sent += (size_t)k;
            }
            ssize_t r = tls_read(to->tls, in + got, N - got < step ? N - got : step);
            assert_true(r > 0 || r == -EAGAIN);
            if (r > 0) got += (size_t)r;
        }
        assert_memory_equal(in, out, N);
    }
    free(in);
    free(out);
    /* The end, in order and not. */
    tls_free(a.tls);
    a.tls = NULL;
    char c;
    assert_int_equal(tls_read(b.tls, &c, 1), 0);
    end(&a);
    end(&b);
}

static void a_peer_that_is_killed_is_an_end(void **state) {
    (void)state;
    int fd[2], ra, rb;
    pair(fd);
    struct side a = side(fd[0], false, RING(&key[0]), 0), b = side(fd[1], true, RING(&key[0]), 0);
    shake(&a, &b, &ra, &rb);
    char c = 'x';
    assert_int_equal(tls_read(b.tls, &c, 1), -EAGAIN);
    shutdown(fd[0], SHUT_RDWR);
    assert_int_equal(tls_read(b.tls, &c, 1), 0);
    ssize_t r = tls_write(b.tls, &c, 1, false); /* and does not end this process by SIGPIPE */
    assert_true(r == -EPIPE || r == -ECONNRESET);
    end(&a);
    end(&b);
}

/* What has been taken from the socket and is not given yet is told of. */
static void pending_bytes_are_told(void **state) {
    (void)state;
    int fd[2], ra, rb;
    pair(fd);
    struct side a = side(fd[0], false, RING(&key[0]), 0), b = side(fd[1], true, RING(&key[0]), 0);
    shake(&a, &b, &ra, &rb);
    char text[100] = "abcdefgh";
    assert_int_equal(tls_write(a.tls, text, 4, true), 4);
    assert_int_equal(tls_write(a.tls, text + 4, 4, false), 4);
    assert_false(tls_pending(b.tls));
    assert_int_equal(tls_read(b.tls, text, 2), 2);
    assert_true(tls_pending(b.tls));
    assert_false(tls_emptied(b.tls));
    assert_int_equal(tls_read(b.tls, text, 100), 2);
    assert_true(tls_pending(b.tls)); /* the second record came along */
    assert_int_equal(tls_read(b.tls, text, 100), 4);
    assert_memory_equal(text, "efgh", 4);
    assert_false(tls_pending(b.tls));
    assert_true(tls_emptied(b.tls)); /* the socket gave less than was asked for */
    end(&a);
    end(&b);
}

/* Without the key: an alert and not a byte else. */
static void a_stranger_gets_an_alert_only(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++) {
        int fd[2], tap[2];
        pair(fd);
        pair(tap);
        struct side b = side(tap[1], true, RING(&key[0]), 0);
        struct side a = side(fd[0], false, RING(&key[1]), 0);
        uint8_t bytes[4096], answer[4096];
        size_t got = 0;
        int ra = TLS_WANT_READ, rb = TLS_WANT_READ;
        for (int i = 0; i < 20 && (ra > TLS_READY || rb > TLS_READY); i++) {
            if (ra > TLS_READY) ra = tls_handshake(a.tls, &a.e);
            ssize_t n = read(fd[1], bytes, sizeof bytes); /* in between, everything is seen */
            if (n > 0) {
                if (round == 1) { /* the id of a key that is ours: the binder cannot be right */
                    uint8_t *at = memmem(bytes, (size_t)n, key[1].id, KEY_ID - 1);
                    assert_non_null(at);
                    memcpy(at, key[0].id, KEY_ID - 1);
                }
                assert_int_equal(write(tap[0], bytes, (size_t)n), n);
            }
            if (rb > TLS_READY) rb = tls_handshake(b.tls, &b.e);
            n = read(tap[0], answer + got, sizeof answer - got);
            if (n > 0) {
                assert_int_equal(write(fd[1], answer + got, (size_t)n), n);
                got += (size_t)n;
            }
        }
        assert_int_equal(ra, MOYAI_EPERM);
        assert_int_equal(rb, MOYAI_EPERM);
        assert_non_null(strstr(a.e.text, key[1].id));
        assert_non_null(strstr(a.e.text, "compare moyai key show on both, and copy the key file"));
        assert_non_null(strstr(b.e.text, round ? key[0].id : key[1].id));
        assert_int_equal(got, 7);
        assert_int_equal(answer[0], 21); /* alert, fatal */
        assert_int_equal(answer[5], 2);
        end(&a);
        end(&b);
        close(fd[1]);
        close(tap[0]);
    }
}

static void rings_that_overlap_meet(void **state) {
    (void)state;
    static const struct {
        size_t which;
        bool ready;
    } tries[] = {{0, false}, {1, true}, {2, false}};
    for (size_t i = 0; i < 3; i++) {
        int fd[2], ra, rb;
        pair(fd);
        struct side a = side(fd[0], false, RING(&key[0], &key[1]), tries[i].which);
        struct side b = side(fd[1], true, RING(&key[2], &key[1]), 0);
        shake(&a, &b, &ra, &rb);
        assert_int_equal(ra, tries[i].ready ? TLS_READY : MOYAI_EPERM);
        if (tries[i].ready) assert_string_equal(tls_key_id(b.tls), key[1].id);
        if (i == 2) assert_non_null(strstr(a.e.text, "no key left"));
        end(&a);
        end(&b);
    }
}

static void a_key_that_has_ended_is_not_taken(void **state) {
    (void)state;
    struct key old = key[0];
    old.until = 1000;
    int fd[2], ra, rb;
    pair(fd);
    struct side a = side(fd[0], false, RING(&key[0]), 0), b = side(fd[1], true, RING(&old, &key[1]), 0);
    shake(&a, &b, &ra, &rb);
    assert_int_equal(ra, MOYAI_EPERM);
    assert_int_equal(rb, MOYAI_EPERM);
    end(&a);
    end(&b);
    pair(fd);
    a = side(fd[0], false, RING(&old, &key[1]), 0); /* the first that has not ended is offered */
    b = side(fd[1], true, RING(&key[1]), 0);
    shake(&a, &b, &ra, &rb);
    assert_int_equal(ra, TLS_READY);
    assert_string_equal(tls_key_id(b.tls), key[1].id);
    end(&a);
    end(&b);
}

static void garbage_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n",
                                        "\x16\x03\x01\xff\xff\xff\xff\xff\xff\xff", "moyaimoyaimoyaimoyai",
                                        "\x15\x03\x03\x00\x02\x02\x28"};
    for (size_t i = 0; i < 2 * sizeof texts / sizeof texts[0]; i++) {
        const char *text = texts[i / 2];
        int fd[2];
        pair(fd);
        struct side s = side(fd[0], i % 2, RING(&key[0]), 0);
        size_t n = text[0] == 21 ? 7 : strlen(text);
        assert_int_equal(write(fd[1], text, n), n);
        shutdown(fd[1], SHUT_WR);
        int rc = tls_handshake(s.tls, &s.e);
        if (rc > TLS_READY) rc = tls_handshake(s.tls, &s.e);
        if (i / 2 == 4 && i % 2 == 0)
            assert_int_equal(rc, MOYAI_EPERM); /* the alert of one that does not know our key */
        else
            assert_int_equal(rc, MOYAI_EPROTO);
        assert_true(s.e.text[0]);
        /* Who has confused an endpoint and a node is told which is written how. */
        if (i == 1) assert_non_null(strstr(s.e.text, "speaks HTTP: this is a node, which is met as HOST:PORT"));
        if (i == 2) assert_non_null(strstr(s.e.text, "if it is an endpoint, write http://HOST:PORT/GRID"));
        end(&s);
        close(fd[1]);
    }
}

/* A server with a certificate, which would do for a client of the web; older versions. */
static void certificates_do_not_help(void **state) {
    (void)state;
    EVP_PKEY *pk = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    assert_true(pk && x);
    X509_set_version(x, 2);
    X509_gmtime_adj(X509_getm_notBefore(x), -1000);
    X509_gmtime_adj(X509_getm_notAfter(x), 1000000);
    X509_set_pubkey(x, pk);
    assert_true(X509_sign(x, pk, EVP_sha256()) > 0);
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(ctx, x), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(ctx, pk), 1);
    int fd[2];
    pair(fd);
    struct side a = side(fd[0], false, RING(&key[0]), 0);
    SSL *ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd[1]);
    int rc = TLS_WANT_READ;
    for (int i = 0; i < 20 && rc > TLS_READY; i++) {
        rc = tls_handshake(a.tls, &a.e);
        (void)SSL_accept(ssl);
    }
    assert_int_equal(rc, MOYAI_EPERM);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    X509_free(x);
    EVP_PKEY_free(pk);
    end(&a);
    close(fd[1]);
    /* A client of version 1.2, or one that knows no keys at all. */
    for (int v = TLS1_2_VERSION; v <= TLS1_3_VERSION; v++) {
        ctx = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_max_proto_version(ctx, v);
        pair(fd);
        struct side b = side(fd[0], true, RING(&key[0]), 0);
        ssl = SSL_new(ctx);
        SSL_set_fd(ssl, fd[1]);
        rc = TLS_WANT_READ;
        for (int i = 0; i < 20 && rc > TLS_READY; i++) {
            assert_true(SSL_connect(ssl) != 1);
            rc = tls_handshake(b.tls, &b.e);
        }
        assert_int_equal(rc, MOYAI_EPROTO);
        SSL_free(ssl);
        SSL_CTX_free(ctx);
        end(&b);
        close(fd[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_pass_in_any_portions), cmocka_unit_test(a_peer_that_is_killed_is_an_end),
        cmocka_unit_test(pending_bytes_are_told),     cmocka_unit_test(a_stranger_gets_an_alert_only),
        cmocka_unit_test(rings_that_overlap_meet),    cmocka_unit_test(a_key_that_has_ended_is_not_taken),
        cmocka_unit_test(garbage_is_refused),         cmocka_unit_test(certificates_do_not_help),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
