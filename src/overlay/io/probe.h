/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does anybody still listen at an address? Only a refusal answers that: the system of that host says so (evidence of
 * death, doc/spec/06-death.md 4.3). A process that is being ended closes its descriptors one by one, the listening one
 * perhaps last: then the connection is made, and breaks when that goes. So one that was made is watched, and tried
 * again when it breaks. All functions: node lock held.
 */
#ifndef OVERLAY_IO_PROBE_H
#define OVERLAY_IO_PROBE_H

#include "exec/exec.h"
#include "link/tcp.h"

struct probe;

/* Once, on the driver, never from within probe_new; the probe is gone after it. */
typedef void (*probe_fn)(void *arg, bool refused);

/* It gives up, as not refused, after `limit`. NULL: ENOMEM. */
struct probe *probe_new(struct exec *x, const struct tcp_addr *to, moyai_dur limit, probe_fn fn, void *arg);
void probe_cancel(struct probe *p); /* fn will not be called; NULL is fine */

#endif
