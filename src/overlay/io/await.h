/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for an entry of a rendezvous directory to be made.
 *
 * Watching the directory would wake all who wait for anything with each entry: where a thousand processes start at
 * once, each registering a name and waiting for another's, that is a million times. And of inotify instances a user has
 * 128. So who waits for m/X makes a pipe w/X and polls it; who has made m/X removes w/X and writes a byte to it, which
 * nobody reads, so that all see it. All have it open for writing, too: when one of several that only read goes, the
 * system wakes the others.
 *
 *   waits:  pipe made and opened, *then* looks for the entry
 *   makes:  entry made, *then* pipe opened: whoever opened it before is told, whoever comes later finds the entry
 *
 * Who waits holds a shared lock on the pipe (flock). Who stops waiting removes it if it can have the lock alone, so it
 * is neither left there nor taken from others. What a killed process leaves goes when the entry is made, or with the
 * next who waits for it. A pipe knows one host only: on network file systems look at the directory instead.
 */
#ifndef OVERLAY_IO_AWAIT_H
#define OVERLAY_IO_AWAIT_H

#include "exec/exec.h"
#include "overlay/io/store.h"

/* fn is called once, on the driver, lock held; it may free. s is borrowed. NULL: it cannot be (of whatever reason). */
struct await *await_new(const struct store *s, struct exec *x, const char *file, void (*fn)(void *arg), void *arg);
void await_free(struct await *w);
void await_tell(const struct store *s, const char *file); /* the entry has been made */

#endif
