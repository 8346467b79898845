/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS over a connected stream socket: version 1.3 only, one suite (TLS_AES_128_GCM_SHA256), no certificates. Both ends
 * prove that they hold a key of the grid (external pre-shared key, RFC 8446 2.2) and agree on fresh secrets besides
 * (Diffie-Hellman, psk_dhe_ke): who takes the key later cannot read what was recorded before. No tickets, no early
 * data.
 *
 * The identity that is sent in clear is the key's id. A client that holds no key of ours gets an alert and not a byte
 * else. All functions: node lock held, or one thread.
 */
#ifndef LINK_TLS_H
#define LINK_TLS_H

#include "link/key.h"

#include <sys/types.h>

struct tls_ctx; /* what the connections of a node share */
struct tls;     /* one end of a connection */

/* keys is borrowed, and looked into at each handshake. ENOMEM. */
int tls_ctx_new(struct tls_ctx **ret, const struct keyfile *keys, struct moyai_error *reterr) MOYAI_MUST_USE;
void tls_ctx_free(struct tls_ctx *c);

/* fd: connected or connecting, non-blocking; it stays the caller's. key: a client offers the key-th of those that have
 * not ended. NULL: out of memory. */
struct tls *tls_new(struct tls_ctx *c, int fd, bool server, size_t key);
void tls_free(struct tls *t); /* says goodbye if that can be done at once; NULL is fine */

enum { TLS_READY = 1, TLS_WANT_READ = 2, TLS_WANT_WRITE = 3 };
/*
 * Go on with the handshake: TLS_READY, or what the socket has to be ready for before the next try; EPERM (there is no
 * key both have: the text says which was offered), EPROTO (the other side does not speak this), ECLOSED (it ended the
 * connection), ESYS (connection lost).
 */
int tls_handshake(struct tls *t, struct moyai_error *reterr) MOYAI_MUST_USE;

/* What the other end has shown: nothing; that it holds a key of ours, if it has not repeated what another once said;
 * and that for certain. */
enum tls_shown { TLS_NOTHING, TLS_CLAIM, TLS_PROOF };
enum tls_shown tls_shown(const struct tls *t);

/* Bytes moved (> 0). 0: reading: the other end has finished. -EAGAIN: not now. Other negative numbers: an errno. */
ssize_t tls_read(struct tls *t, void *p, size_t n);
/* After -EAGAIN the same bytes, or more behind them. more: another write follows at once, so that the kernel may put
 * both into one packet. */
ssize_t tls_write(struct tls *t, const void *p, size_t n, bool more);

/* Bytes that have been taken from the socket and not given yet: its readiness will not tell of them. */
bool tls_pending(const struct tls *t);

/* All that had arrived when the socket was last read has been given. Its readiness tells of more, and of the end. */
bool tls_emptied(const struct tls *t);

uint8_t *tls_scratch(struct tls *t); /* 16 KiB for whoever needs them at the moment */

const char *tls_key_id(const struct tls *t); /* offered, or found; "" if none yet */
const char *tls_suite(const struct tls *t);

#endif
