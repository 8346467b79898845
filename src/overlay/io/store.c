/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/store.h"

#include "base/err.h"
#include "base/id.h"
#include "base/rng.h"
#include "link/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEMP_TIMEOUT 60 /* seconds; an entry takes microseconds to write */

/* Where an entry is, for texts: cut so that the reason behind it still has room. */
#define WHERE                  "'%.110s/%s/%.70s'"
#define WHERE_ARGS(s, d, file) (s)->path, (d)->sub, (file)

/* ---- opening --------------------------------------------------------------------------------- */

static int open_sub(struct store *s, int root, struct store_dir *d, struct moyai_error *reterr) {
    char shown[PATH_MAX + 8];
    snprintf(shown, sizeof shown, "%s/%s", s->path, d->sub);
    return rundir_private(&d->fd, root, d->sub, shown, "rendezvous directory", reterr);
}

DIR *store_stream(const struct store_dir *d) {
    int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return NULL;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int e = errno;
        close(fd);
        errno = e;
    }
    return dir;
}

/* Remove what processes killed while writing have left. */
static void sweep_temps(const struct store *s) {
    DIR *dir = store_stream(&s->temps);
    if (!dir) return; /* only tidying */
    time_t now = time(NULL);
    for (struct dirent *e; (e = readdir(dir));) {
        struct stat st;
        if (fstatat(s->temps.fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            now - st.st_mtim.tv_sec > TEMP_TIMEOUT)
            (void)unlinkat(s->temps.fd, e->d_name, 0);
    }
    closedir(dir);
}

int store_open(struct store *s, const char *path, size_t n, struct moyai_error *reterr) {
    memset(s, 0, sizeof *s);
    s->nodes = (struct store_dir){-1, "n"};
    s->names = (struct store_dir){-1, "m"};
    s->temps = (struct store_dir){-1, "t"};
    s->waits = (struct store_dir){-1, "w"};
    s->path = strndup(path, n);
    s->names_path = malloc(n + 3);
    int root = -1, rc;
    if (!s->path || !s->names_path) {
        rc = err_set(reterr, MOYAI_ENOMEM, "out of memory");
        goto fail;
    }
    snprintf(s->names_path, n + 3, "%s/%s", s->path, s->names.sub);
    rc = rundir_private(&root, AT_FDCWD, s->path, s->path, "rendezvous directory", reterr);
    if (rc == 0) rc = open_sub(s, root, &s->nodes, reterr);
    if (rc == 0) rc = open_sub(s, root, &s->names, reterr);
    if (rc == 0) rc = open_sub(s, root, &s->temps, reterr);
    if (rc == 0) rc = open_sub(s, root, &s->waits, reterr);
    if (rc < 0) goto fail;
    close(root);
    sweep_temps(s);
    return 0;

fail:
    if (root >= 0) close(root);
    store_done(s);
    return rc;
}

void store_done(struct store *s) {
    if (s->nodes.fd >= 0) close(s->nodes.fd);
    if (s->names.fd >= 0) close(s->names.fd);
    if (s->temps.fd >= 0) close(s->temps.fd);
    if (s->waits.fd >= 0) close(s->waits.fd);
    free(s->path);
    free(s->names_path);
}

int store_check(const struct store *s, const struct store_dir *d, struct moyai_error *reterr) {
    struct stat st;
    if (fstat(d->fd, &st) == 0 && st.st_nlink > 0) return 0;
    return err_set(reterr, MOYAI_ECLOSED, "rendezvous directory '%.110s/%s' has been removed", s->path, d->sub);
}

/* ---- reading --------------------------------------------------------------------------------- */

int store_bad(const struct store *s, const struct store_dir *d, const char *file, const char *why,
              struct moyai_error *reterr) {
    return err_set(reterr, MOYAI_EDATA, "entry " WHERE " %s: remove it", WHERE_ARGS(s, d, file), why);
}

int store_bad_text(const struct store *s, const struct store_dir *d, const char *file, int rc,
                   struct moyai_error *reterr) {
    if (!reterr) return rc;
    if (rc != MOYAI_EDATA) { /* of another version, say */
        err_prefix(reterr, "entry " WHERE, WHERE_ARGS(s, d, file));
        return rc;
    }
    char why[sizeof reterr->text];
    memcpy(why, reterr->text, sizeof why);
    return err_set(reterr, rc, "entry " WHERE ": %.90s: remove it", WHERE_ARGS(s, d, file), why);
}

/* All of f, if it can be an entry. */
static int read_all(const struct store *s, const struct store_dir *d, const char *file, int f, char buf[ENTRY_MAX],
                    struct moyai_error *reterr) {
    struct stat st;
    if (fstat(f, &st) < 0) return err_sys(reterr, errno, "entry " WHERE, WHERE_ARGS(s, d, file));
    if (!S_ISREG(st.st_mode)) return store_bad(s, d, file, "is not a regular file", reterr);
    if (st.st_size > ENTRY_MAX) return store_bad(s, d, file, "is too long for one", reterr);
    size_t n = 0;
    while (n < ENTRY_MAX) {
        ssize_t got = read(f, buf + n, ENTRY_MAX - n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return err_sys(reterr, errno, "cannot read entry " WHERE, WHERE_ARGS(s, d, file));
        if (got == 0) break;
        n += (size_t)got;
    }
    return (int)n;
}

int store_load(const struct store *s, const struct store_dir *d, const char *file, char buf[ENTRY_MAX], int *lockable,
               struct moyai_error *reterr) {
    /* Network file systems lock only what is open for writing. */
    int f = openat(d->fd, file, (lockable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (f < 0) {
        int e = errno;
        if (e == ENOENT) {
            int rc = store_check(s, d, reterr);
            return rc < 0 ? rc : err_set(reterr, MOYAI_ENOENT, "entry " WHERE " is not there", WHERE_ARGS(s, d, file));
        }
        if (e == ELOOP || e == EISDIR || e == ENXIO) return store_bad(s, d, file, "is not a regular file", reterr);
        return err_sys(reterr, e, "cannot open entry " WHERE, WHERE_ARGS(s, d, file));
    }
    int n = read_all(s, d, file, f, buf, reterr);
    if (n < 0 || !lockable)
        close(f);
    else
        *lockable = f;
    return n;
}

int store_each(const struct store *s, const struct store_dir *d, bool (*fn)(const char *file, void *ctx), void *ctx,
               struct moyai_error *reterr) {
    int rc = store_check(s, d, reterr);
    if (rc < 0) return rc;
    DIR *dir = store_stream(d);
    if (!dir) return err_sys(reterr, errno, "cannot read rendezvous directory '%.110s/%s'", s->path, d->sub);
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(dir);
        if (!e) {
            if (errno) rc = err_sys(reterr, errno, "cannot read rendezvous directory '%.110s/%s'", s->path, d->sub);
            break;
        }
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !fn(e->d_name, ctx)) break;
    }
    closedir(dir);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

int store_write(const struct store *s, const struct store_dir *d, const char *file, const char *p, size_t n,
                char temp[33], struct moyai_error *reterr) {
    uint8_t random[16];
    if (rng_system(random, sizeof random) < 0) return err_set(reterr, MOYAI_ESYS, "no random bytes from the system");
    id_format(random, temp);
    int fd = openat(s->temps.fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int e = fd < 0 ? errno : 0;
    for (size_t at = 0; e == 0 && at < n;) {
        ssize_t put = write(fd, p + at, n - at);
        if (put < 0 && errno != EINTR) e = errno;
        if (put > 0) at += (size_t)put;
    }
    if (fd >= 0 && close(fd) < 0 && e == 0) e = errno; /* where network file systems say that the disk is full */
    if (e == 0) return 0;
    if (fd >= 0) store_drop(s, temp);
    int rc = e == ENOENT ? store_check(s, &s->temps, reterr) : 0;
    return rc < 0 ? rc : err_sys(reterr, e, "cannot write entry " WHERE, WHERE_ARGS(s, d, file));
}

void store_drop(const struct store *s, const char *temp) {
    (void)unlinkat(s->temps.fd, temp, 0); /* what stays is removed by the next store_open */
}

/* A temporary file that cannot be put into place: e is the errno of link or rename. */
static int cannot_place(const struct store *s, const struct store_dir *d, const char *file, int e,
                        struct moyai_error *reterr) {
    if (e == ENOENT) {
        int rc = store_check(s, d, reterr);
        if (rc == 0) rc = store_check(s, &s->temps, reterr);
        if (rc < 0) return rc;
        /* Stopped for a minute, this process was taken for dead and its temporary file swept. */
        return err_set(reterr, MOYAI_EAGAIN, "entry " WHERE " took too long to write", WHERE_ARGS(s, d, file));
    }
    if (e == EEXIST) return err_set(reterr, MOYAI_EEXIST, "entry " WHERE " is there already", WHERE_ARGS(s, d, file));
    return err_sys(reterr, e, "cannot make entry " WHERE, WHERE_ARGS(s, d, file));
}

int store_link(const struct store *s, const struct store_dir *d, const char *file, const char *temp,
               struct moyai_error *reterr) {
    if (linkat(s->temps.fd, temp, d->fd, file, 0) == 0) return 0;
    return cannot_place(s, d, file, errno, reterr);
}

int store_rename(const struct store *s, const struct store_dir *d, const char *file, const char *temp,
                 struct moyai_error *reterr) {
    if (renameat(s->temps.fd, temp, d->fd, file) == 0) return 0;
    return cannot_place(s, d, file, errno, reterr);
}

/* ---- one at a time --------------------------------------------------------------------------- */

int store_lock(const struct store *s, const struct store_dir *d, const char *file, int fd, struct moyai_error *reterr) {
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK || errno == EINTR)
            return err_set(reterr, MOYAI_EAGAIN,
                           "entry " WHERE
                           " is being removed or replaced by another process, or by one that was stopped",
                           WHERE_ARGS(s, d, file));
        return err_sys(reterr, errno, "cannot lock entry " WHERE, WHERE_ARGS(s, d, file));
    }
    struct stat mine, now;
    if (fstat(fd, &mine) == 0 && fstatat(d->fd, file, &now, AT_SYMLINK_NOFOLLOW) == 0 && mine.st_dev == now.st_dev &&
        mine.st_ino == now.st_ino)
        return 0;
    flock(fd, LOCK_UN);
    return err_set(reterr, MOYAI_ESTATE, "entry " WHERE " is another one by now", WHERE_ARGS(s, d, file));
}

void store_unlock(int fd) {
    flock(fd, LOCK_UN); /* a child forked meanwhile shares the lock and would keep it */
    close(fd);
}

int store_remove(const struct store *s, const struct store_dir *d, const char *file, int fd,
                 struct moyai_error *reterr) {
    struct moyai_error why;
    int rc;
    for (int i = 0; (rc = store_lock(s, d, file, fd, &why)) == MOYAI_EAGAIN && i < STORE_TRIES; i++) sched_yield();
    if (rc == 0) {
        if (unlinkat(d->fd, file, 0) < 0 && errno != ENOENT)
            rc = err_sys(reterr, errno, "cannot remove entry " WHERE, WHERE_ARGS(s, d, file));
        store_unlock(fd);
        return rc;
    }
    close(fd);
    if (rc == MOYAI_ESTATE) return 0;
    if (reterr) *reterr = why;
    return rc;
}

int store_unlink(const struct store *s, const struct store_dir *d, const char *file, struct moyai_error *reterr) {
    if (unlinkat(d->fd, file, 0) == 0) return 0;
    int e = errno;
    if (e != ENOENT) return err_sys(reterr, e, "cannot remove entry " WHERE, WHERE_ARGS(s, d, file));
    int rc = store_check(s, d, reterr);
    return rc < 0 ? rc : err_set(reterr, MOYAI_ENOENT, "entry " WHERE " is not there", WHERE_ARGS(s, d, file));
}
