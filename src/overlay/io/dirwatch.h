/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory watched for changes of its entries: through inotify, or by looking at its time stamp.
 *
 * Inotify instances are few (128 a user by default) and say nothing of what other hosts do on network file systems.
 * Where it cannot serve, the directory is looked at after LOOK_FIRST, then at growing intervals up to LOOK_LAST, from
 * the start again when something has changed. Time stamps are coarse: one that is younger than LOOK_DOUBT may hide a
 * second change, so while it is that young each look counts as a change.
 *
 * The removal of the directory counts as a change. Inotify does not tell it while the directory is open; its parent
 * does.
 *
 * Node lock held; fn is called on the driver. Spurious calls are possible, missed changes are not.
 */
#ifndef OVERLAY_IO_DIRWATCH_H
#define OVERLAY_IO_DIRWATCH_H

#include "exec/exec.h"

#define DIRWATCH_LOOK_FIRST (50 * MOYAI_MS)
#define DIRWATCH_LOOK_LAST  (1 * MOYAI_SEC)
#define DIRWATCH_LOOK_SLOW  (2 * MOYAI_SEC)
#define DIRWATCH_LOOK_DOUBT (2 * MOYAI_SEC)

struct dirwatch {
    struct exec *x;       /* NULL: not watching */
    struct exec_watch *w; /* NULL: looking */
    struct exec_watch *parent;
    struct exec_timer timer;
    void (*fn)(void *arg);
    void *arg;
    int fd;
    moyai_dur interval;
    struct timespec seen; /* time stamp at the last look */
    bool doubt;           /* it was young then */
    bool slow;
};

/* Watch the directory at path (absolute, its last part a name), which is open as fd (borrowed until dirwatch_stop). d
 * must be zero or stopped. look: do without inotify. It may fall back to looking, so it cannot fail. fn may stop it. */
void dirwatch_start(struct dirwatch *d, struct exec *x, const char *path, int fd, bool look, void (*fn)(void *arg),
                    void *arg);
/* For who hears of nearly all changes otherwise: look every LOOK_SLOW only. */
void dirwatch_start_slow(struct dirwatch *d, struct exec *x, int fd, void (*fn)(void *arg), void *arg);
bool dirwatch_shared(int fd);           /* is it on a file system whose changes may be made by other hosts? */
void dirwatch_stop(struct dirwatch *d); /* fine if it is not watching; no call comes after it */

#endif
