/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host names to addresses without holding anybody up: each question has a thread of its own, as getaddrinfo(3) may take
 * as long as the name servers like and cannot be broken off. One that is cancelled is left to end by itself.
 */
#ifndef EXEC_RESOLVE_H
#define EXEC_RESOLVE_H

#include "exec/exec.h"

#include <netdb.h>

struct exec_resolve;

/* list: stream addresses with the port in them, until the return; NULL: none, and why. Driver, lock held, once; the
 * question is gone after it. */
typedef void (*exec_resolve_fn)(void *arg, const struct addrinfo *list, const char *why);

/* Ask. NULL with *reterr filled: ELIMIT (descriptors, threads), ENOMEM. Lock held. */
struct exec_resolve *exec_resolve(struct exec *x, const char *host, uint16_t port, exec_resolve_fn fn, void *arg,
                                  struct moyai_error *reterr);
void exec_resolve_cancel(struct exec_resolve *q); /* fn will not be called. Lock held; NULL is fine */

#endif
