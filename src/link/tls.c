/* SPDX-License-Identifier: Apache-2.0 */
#include "link/tls.h"

#include "base/err.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define LABEL       "moyai tls 1.3 psk"
#define READ_BUFFER (4u * (16384 + 64)) /* whole records, several a system call */

struct tls_ctx {
    const struct keyfile *keys;
    SSL_CTX *ssl;
    BIO_METHOD *io;
    uint8_t scratch[16384];
};

struct tls {
    SSL *ssl;
    struct tls_ctx *ctx;
    int fd;
    bool server, ready, ended;
    bool more;    /* another record follows at once */
    bool emptied; /* the last read took all that the socket had */
    bool unknown; /* a client offered a key that is not ours */
    size_t key;
    char id[KEY_ID];
};

/* ---- the socket ------------------------------------------------------------------------------ */

/* OpenSSL's own sends without MSG_NOSIGNAL: a peer that is gone would end the process. */

static int io_write(BIO *b, const char *p, int n) {
    const struct tls *t = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    ssize_t r;
    do r = send(t->fd, p, (size_t)n, MSG_NOSIGNAL | (t->more ? MSG_MORE : 0));
    while (r < 0 && errno == EINTR);
    if (r < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN)) BIO_set_retry_write(b);
    return (int)r;
}

static int io_read(BIO *b, char *p, int n) {
    struct tls *t = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    ssize_t r;
    do r = recv(t->fd, p, (size_t)n, 0);
    while (r < 0 && errno == EINTR);
    t->emptied = r < n;
    if (r < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_read(b);
    if (r == 0) BIO_set_flags(b, BIO_FLAGS_IN_EOF);
    return (int)r;
}

static long io_ctrl(BIO *b, int cmd, long number, void *p) {
    (void)number, (void)p;
    if (cmd == BIO_CTRL_EOF) return BIO_test_flags(b, BIO_FLAGS_IN_EOF) != 0;
    return cmd == BIO_CTRL_FLUSH;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static SSL_SESSION *session_of(SSL *ssl, const struct key *k) {
    static const unsigned char suite[] = {0x13, 0x01};
    uint8_t secret[32];
    SSL_SESSION *s = SSL_SESSION_new();
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite);
    bool ok = s && cipher && key_derive(k, LABEL, secret, sizeof secret) == 0 &&
              SSL_SESSION_set1_master_key(s, secret, sizeof secret) == 1 && SSL_SESSION_set_cipher(s, cipher) == 1 &&
              SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION) == 1;
    OPENSSL_cleanse(secret, sizeof secret);
    if (ok) return s;
    SSL_SESSION_free(s);
    return NULL;
}

static int offer_key(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *n, SSL_SESSION **ret) {
    struct tls *t = SSL_get_app_data(ssl);
    *ret = NULL;
    *id = NULL;
    *n = 0;
    const struct key *k = keyring_usable(keyfile_keys(t->ctx->keys), t->key, (int64_t)time(NULL));
    if (!k) return 1;
    SSL_SESSION *s = session_of(ssl, k);
    if (!s) return 0;
    if (md && SSL_CIPHER_get_handshake_digest(SSL_SESSION_get0_cipher(s)) != md) {
        SSL_SESSION_free(s);
        return 1;
    }
    memcpy(t->id, k->id, KEY_ID);
    *id = (const unsigned char *)t->id;
    *n = KEY_ID - 1;
    *ret = s;
    return 1;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t n, SSL_SESSION **ret) {
    struct tls *t = SSL_get_app_data(ssl);
    *ret = NULL;
    const struct key *k = keyring_find(keyfile_keys(t->ctx->keys), (const char *)id, n, (int64_t)time(NULL));
    t->unknown = !k;
    if (!k) { /* for the text; it may hold anything */
        size_t i = 0;
        for (; i < n && i < KEY_ID - 1; i++) t->id[i] = id[i] > ' ' && id[i] < 127 ? (char)id[i] : '?';
        t->id[i] = 0;
        return 1;
    }
    memcpy(t->id, k->id, KEY_ID);
    *ret = session_of(ssl, k);
    return *ret != NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

int tls_ctx_new(struct tls_ctx **ret, const struct keyfile *keys, struct moyai_error *reterr) {
    struct tls_ctx *c = calloc(1, sizeof *c);
    if (!c) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    c->keys = keys;
    c->ssl = SSL_CTX_new(TLS_method());
    c->io = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "moyai socket");
    bool ok = c->ssl && c->io && BIO_meth_set_write(c->io, io_write) && BIO_meth_set_read(c->io, io_read) &&
              BIO_meth_set_ctrl(c->io, io_ctrl) && SSL_CTX_set_min_proto_version(c->ssl, TLS1_3_VERSION) == 1 &&
              SSL_CTX_set_max_proto_version(c->ssl, TLS1_3_VERSION) == 1 &&
              SSL_CTX_set_ciphersuites(c->ssl, "TLS_AES_128_GCM_SHA256") == 1 &&
              SSL_CTX_set1_groups_list(c->ssl, "X25519:P-256") == 1 && SSL_CTX_set_num_tickets(c->ssl, 0) == 1;
    if (!ok) {
        tls_ctx_free(c);
        ERR_clear_error();
        return err_set(reterr, MOYAI_ENOMEM,
                       "cannot set up TLS 1.3: out of memory, or OpenSSL's configuration forbids it");
    }
    SSL_CTX_set_session_cache_mode(c->ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(c->ssl, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(c->ssl,
                     SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(c->ssl, 1);
    SSL_CTX_set_default_read_buffer_len(c->ssl, READ_BUFFER);
    SSL_CTX_set_psk_use_session_callback(c->ssl, offer_key);
    SSL_CTX_set_psk_find_session_callback(c->ssl, find_key);
    *ret = c;
    return 0;
}

void tls_ctx_free(struct tls_ctx *c) {
    if (!c) return;
    SSL_CTX_free(c->ssl);
    BIO_meth_free(c->io);
    free(c);
}

struct tls *tls_new(struct tls_ctx *c, int fd, bool server, size_t key) {
    struct tls *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->fd = fd;
    t->ctx = c;
    t->server = server;
    t->key = key;
    t->ssl = SSL_new(c->ssl);
    BIO *b = t->ssl ? BIO_new(c->io) : NULL;
    if (!b) {
        SSL_free(t->ssl);
        free(t);
        ERR_clear_error();
        return NULL;
    }
    BIO_set_data(b, t);
    BIO_set_init(b, 1);
    SSL_set_bio(t->ssl, b, b);
    SSL_set_app_data(t->ssl, t);
    if (server)
        SSL_set_accept_state(t->ssl);
    else
        SSL_set_connect_state(t->ssl);
    /* A server that shows a certificate instead of knowing our key is refused: no authority is trusted. */
    if (!server) SSL_set_verify(t->ssl, SSL_VERIFY_PEER, NULL);
    return t;
}

void tls_free(struct tls *t) {
    if (!t) return;
    if (t->ready) (void)SSL_shutdown(t->ssl); /* best effort; the layer above has its own farewell */
    SSL_free(t->ssl);
    ERR_clear_error();
    free(t);
}

/* ---- handshake ------------------------------------------------------------------------------- */

static int refused(const struct tls *t, struct moyai_error *reterr) {
    unsigned long e = ERR_peek_error();
    int reason = ERR_GET_REASON(e), rc;
    const char *text = ERR_reason_error_string(e);
    if (t->server && t->unknown)
        rc = err_set(
            reterr, MOYAI_EPERM,
            "a client offered key %s, which is not (or no more) in the key file here: a member needs a copy of that",
            t->id);
    else if (!t->server && !t->id[0])
        rc = err_set(reterr, MOYAI_EPERM,
                     "no key left to offer: each key of the key file has ended or was refused: copy that of a host "
                     "that is in the grid");
    else if (!t->server &&
             (reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE || reason == SSL_R_TLSV1_ALERT_UNKNOWN_PSK_IDENTITY ||
              reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR || reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER ||
              reason == SSL_R_CERTIFICATE_VERIFY_FAILED))
        rc = err_set(
            reterr, MOYAI_EPERM,
            "the other side does not take key %s, or is no node of a grid: compare moyai key show on both, and copy "
            "the key file",
            t->id);
    else if (t->server && reason == SSL_R_BINDER_DOES_NOT_VERIFY)
        rc = err_set(reterr, MOYAI_EPERM, "a client that does not hold key %s claims to", t->id);
    else if (!t->server && reason == SSL_R_WRONG_VERSION_NUMBER) /* so "HTTP/1.1 400" looks to OpenSSL */
        rc = err_set(reterr, MOYAI_EPROTO,
                     "the other side does not speak as a node of a grid does; if it is an endpoint, write "
                     "http://HOST:PORT/GRID");
    else if (t->server && reason == SSL_R_HTTP_REQUEST)
        rc = err_set(reterr, MOYAI_EPROTO, "a client speaks HTTP: this is a node, which is met as HOST:PORT");
    else if (e != 0 && reason != SSL_R_UNEXPECTED_EOF_WHILE_READING)
        rc = err_set(reterr, MOYAI_EPROTO, "the other side does not speak as a node of a grid does (%s)",
                     text ? text : "TLS error");
    else
        rc = err_set(reterr, MOYAI_ECLOSED, "the connection ended during the handshake");
    ERR_clear_error();
    return rc;
}

int tls_handshake(struct tls *t, struct moyai_error *reterr) {
    if (t->ready) return TLS_READY;
    ERR_clear_error();
    errno = 0;
    int rc = SSL_do_handshake(t->ssl), sys = errno;
    if (rc == 1) {
        /* By a key of ours and nothing else. */
        if (!SSL_session_reused(t->ssl))
            return err_set(reterr, MOYAI_EPERM, "the other side did not prove that it holds our key");
        t->ready = true;
        return TLS_READY;
    }
    switch (SSL_get_error(t->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        return TLS_WANT_READ;
    case SSL_ERROR_WANT_WRITE:
        return TLS_WANT_WRITE;
    case SSL_ERROR_SYSCALL:
        if (sys) return err_sys(reterr, sys, "connection lost during the handshake");
        return refused(t, reterr);
    default:
        return refused(t, reterr);
    }
}

/* With a key that it does not hold a client does not get beyond its first message: the handshake has failed then. */
enum tls_shown tls_shown(const struct tls *t) {
    return t->ready ? TLS_PROOF : t->server && t->id[0] ? TLS_CLAIM : TLS_NOTHING;
}

/* ---- data ------------------------------------------------------------------------------------ */

static ssize_t outcome(struct tls *t, int rc, int sys, bool reading) {
    switch (SSL_get_error(t->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return reading ? 0 : -EPIPE;
    case SSL_ERROR_SYSCALL:
        ERR_clear_error();
        return sys ? -sys : reading ? 0 : -EPIPE;
    default: {
        /* An end without goodbye: a process that was killed. What matters is said by frames, not by it. */
        bool end = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
        ERR_clear_error();
        t->ended = true;
        return end && reading ? 0 : -EBADMSG;
    }
    }
}

ssize_t tls_read(struct tls *t, void *p, size_t n) {
    ERR_clear_error();
    errno = 0;
    int rc = SSL_read(t->ssl, p, n > INT32_MAX ? INT32_MAX : (int)n), sys = errno;
    return rc > 0 ? rc : outcome(t, rc, sys, true);
}

ssize_t tls_write(struct tls *t, const void *p, size_t n, bool more) {
    if (t->ended) return -EPIPE;
    ERR_clear_error();
    errno = 0;
    t->more = more;
    int rc = SSL_write(t->ssl, p, n > INT32_MAX ? INT32_MAX : (int)n), sys = errno;
    return rc > 0 ? rc : outcome(t, rc, sys, false);
}

bool tls_pending(const struct tls *t) {
    return SSL_has_pending(t->ssl) == 1;
}

bool tls_emptied(const struct tls *t) {
    return t->emptied && !tls_pending(t);
}

uint8_t *tls_scratch(struct tls *t) {
    return t->ctx->scratch;
}

const char *tls_key_id(const struct tls *t) {
    return t->id;
}
const char *tls_suite(const struct tls *t) {
    return SSL_get_cipher_name(t->ssl);
}
