/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/dirwatch.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

/* File systems whose changes may be made by other hosts (numbers from statfs(2) and linux/magic.h). */
bool dirwatch_shared(int fd) {
    static const uint32_t magic[] = {
        0x6969,     /* NFS */
        0x517b,     /* SMB */
        0xfe534d42, /* SMB2 */
        0xff534d42, /* CIFS */
        0x65735546, /* FUSE: sshfs and its kin */
        0x01021997, /* 9P */
        0x00c36400, /* Ceph */
        0x0bd00bd0, /* Lustre */
        0x47504653, /* GPFS */
        0x19830326, /* BeeGFS */
        0x5346414f, /* AFS */
        0x7461636f, /* OCFS2 */
        0x01161970, /* GFS2 */
    };
    struct statfs st;
    if (fstatfs(fd, &st) < 0) return true;
    for (size_t i = 0; i < sizeof magic / sizeof *magic; i++)
        if ((uint32_t)st.f_type == magic[i]) return true;
    return false;
}

/* Look at the time stamp; true if entries may have changed since the last look. *fresh: they surely have. */
static bool look(struct dirwatch *d, bool *fresh) {
    struct stat st;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    /* Removed: its time stamp need not change. Told once; who is waiting will find out why. */
    if (fstat(d->fd, &st) < 0 || st.st_nlink == 0) memset(&st, 0, sizeof st);
    *fresh = st.st_mtim.tv_sec != d->seen.tv_sec || st.st_mtim.tv_nsec != d->seen.tv_nsec;
    bool changed = *fresh || d->doubt;
    d->seen = st.st_mtim;
    /* Also while it lies in the future, as the clock of a file server may have it. */
    d->doubt = now.tv_sec - st.st_mtim.tv_sec <= DIRWATCH_LOOK_DOUBT / MOYAI_SEC;
    return changed;
}

static void on_timer(struct exec *x, struct exec_timer *t) {
    struct dirwatch *d = (struct dirwatch *)((char *)t - offsetof(struct dirwatch, timer));
    bool fresh, changed = look(d, &fresh);
    if (!d->slow) {
        d->interval = fresh ? DIRWATCH_LOOK_FIRST : 2 * d->interval;
        if (d->interval > DIRWATCH_LOOK_LAST) d->interval = DIRWATCH_LOOK_LAST;
    }
    exec_timer_set(x, t, exec_now(x) + (moyai_ns)d->interval);
    if (changed) d->fn(d->arg); /* may stop d */
}

static bool start_inotify(struct dirwatch *d, const char *path) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n == 0 || n >= sizeof parent) return false;
    memcpy(parent, path, n);
    parent[n] = 0;
    d->w = exec_watch_new(d->x, path, d->fn, d->arg, NULL);
    if (!d->w) return false;
    d->parent = exec_watch_new(d->x, parent, d->fn, d->arg, NULL);
    if (d->parent) return true;
    exec_watch_free(d->w);
    d->w = NULL;
    return false;
}

static void init(struct dirwatch *d, struct exec *x, int fd, void (*fn)(void *arg), void *arg) {
    memset(d, 0, sizeof *d);
    d->x = x;
    d->fd = fd;
    d->fn = fn;
    d->arg = arg;
    exec_timer_init(&d->timer, on_timer);
}

static void start_looking(struct dirwatch *d, moyai_dur interval) {
    bool fresh;
    (void)look(d, &fresh); /* from here on */
    d->interval = interval;
    exec_timer_set(d->x, &d->timer, exec_now(d->x) + (moyai_ns)d->interval);
}

void dirwatch_start(struct dirwatch *d, struct exec *x, const char *path, int fd, bool look_only, void (*fn)(void *arg),
                    void *arg) {
    init(d, x, fd, fn, arg);
    if (look_only || dirwatch_shared(fd) || !start_inotify(d, path)) start_looking(d, DIRWATCH_LOOK_FIRST);
}

void dirwatch_start_slow(struct dirwatch *d, struct exec *x, int fd, void (*fn)(void *arg), void *arg) {
    init(d, x, fd, fn, arg);
    d->slow = true;
    start_looking(d, DIRWATCH_LOOK_SLOW);
}

void dirwatch_stop(struct dirwatch *d) {
    if (!d->x) return;
    if (d->w) {
        exec_watch_free(d->w);
        exec_watch_free(d->parent);
    } else {
        exec_timer_clear(d->x, &d->timer);
    }
    d->x = NULL;
    d->w = d->parent = NULL;
}
