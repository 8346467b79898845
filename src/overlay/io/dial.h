/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting to a node that has several addresses: all are tried at once, and the first with which the handshake is
 * done wins; the others are closed before anything of ours is said on them. Where our first key is refused the next
 * one is offered. All functions: node lock held.
 */
#ifndef OVERLAY_IO_DIAL_H
#define OVERLAY_IO_DIAL_H

#include "exec/exec.h"
#include "link/tcp.h"
#include "link/tls.h"

#define DIAL_MOST 16u /* addresses tried, those of names included; what is beyond is left out */

struct dial;

/* A connection that is through its handshake; fd and tls are the callee's. */
struct dialled {
    int fd;
    struct tls *tls;
    struct tcp_addr at;
};

/* got NULL: no address works, and why of the one that went farthest: ECLOSED if the connection was taken and closed, be
 * it reset; ETIMEDOUT, and if there is one address, and it has taken the connection and said nothing, with that as sys;
 * others. sys is ECONNREFUSED where nobody listens at any: one has refused, and for none is it not known yet. Driver,
 * lock held, once, never from within dial_new; the dial is gone after it. */
typedef void (*dial_fn)(void *arg, const struct dialled *got, const struct moyai_error *why);

/* places: "host:port", of which names are asked for; copied. NULL: ENOMEM. tls and keys are borrowed; keys are those of
 * tls. */
struct dial *dial_new(struct exec *x, struct tls_ctx *tls, const struct keyfile *keys, const char *const *places,
                      size_t n, moyai_dur limit, dial_fn fn, void *arg);
void dial_cancel(struct dial *d); /* fn will not be called; NULL is fine */

#endif
