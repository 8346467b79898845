/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has an entry in the directory of a grid of one host (rendezvous.h), and whether he lives.
 *
 * What cannot be judged from here, since a node's entry names a run directory that is not there, as on another host, is
 * never called dead. All functions only read; any thread.
 */
#ifndef OVERLAY_IO_ONEHOST_H
#define OVERLAY_IO_ONEHOST_H

#include "overlay/io/entry.h"

struct rundir;

/* The run directory that an entry names; NULL: it is not there, or another one, as after a restart of the host. */
struct rundir *onehost_dir(const struct rdv_node *e);
bool onehost_is_dead(const struct rdv_node *e);

/*
 * May several hosts meet in this directory, or do nodes that have begun without a key live in it? With an e/ beside
 * theirs the next to come would be asked for a key that they do not have. alone: it is the grid's only address, and was
 * given with a key. EPERM: the text names the directory, one who lives there, and what to do.
 */
int onehost_check(const char *dir, bool alone, struct moyai_error *reterr) MOYAI_MUST_USE;

#endif
