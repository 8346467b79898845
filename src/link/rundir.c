/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run directory.
 *
 * A name leads to a listening socket or to nothing, never to one that is not ready: rundir_listen binds
 * "<name>.new", listens, and only then renames it. A renamed socket stays reachable, since the kernel finds it by
 * inode. So a socket under its final name that refuses is one whose process is gone, and may be swept.
 *
 * Sockets are bound and connected by path (the directory's descriptor cannot be given to bind), so somebody who can
 * rename the directory's parents could lead us elsewhere between check and use. What comes of it is caught afterwards:
 * a bound socket must be seen through the descriptor, and the process behind a connection must be this user's.
 */
#include "link/rundir.h"

#include "base/err.h"
#include "base/id.h"
#include "link/hash128.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define NAME_HEX    16
#define NEW_SUFFIX  ".new"
#define NAME_SIZE   (NAME_HEX + sizeof NEW_SUFFIX) /* with NUL */
#define BACKLOG     4096                           /* the kernel cuts it to net.core.somaxconn */
#define HOST_TEXT   160
#define NEW_TIMEOUT 60 /* seconds from bind to rename; then it is taken for dead */

_Static_assert(RUNDIR_PATH_MAX + 1 + NAME_SIZE == sizeof((struct sockaddr_un *)0)->sun_path, "a path fits exactly");

struct rundir {
    int fd;
    dev_t dev;
    ino_t ino;
    uint8_t host[16];
    char path[RUNDIR_PATH_MAX + 1];
};

/* ---- the rules ------------------------------------------------------------------------------- */

static int check_rules(const struct stat *st, const char *shown, const char *what, struct moyai_error *reterr) {
    uid_t me = geteuid();
    if (S_ISLNK(st->st_mode))
        return err_set(reterr, MOYAI_EPERM,
                       "%s '%.100s' is a symbolic link: name the directory it leads to, or remove the link", what,
                       shown);
    if (!S_ISDIR(st->st_mode))
        return err_set(reterr, MOYAI_EPERM, "%s '%.100s' is not a directory: remove it or choose another path", what,
                       shown);
    if (st->st_uid != me)
        return err_set(reterr, MOYAI_EPERM,
                       "%s '%.100s' belongs to uid %u and not to you (uid %u): choose a directory of your own", what,
                       shown, (unsigned)st->st_uid, (unsigned)me);
    if (st->st_mode & 077)
        return err_set(
            reterr, MOYAI_EPERM,
            "%s '%.100s' is open to others (mode %04o): name a directory of your own, for nothing else, of mode 0700",
            what, shown, (unsigned)st->st_mode & 07777u);
    return 0;
}

int rundir_private(int *ret, int at, const char *name, const char *shown, const char *what,
                   struct moyai_error *reterr) {
    /* With a slash behind it O_NOFOLLOW would follow a link, and "." would hide one. */
    char path[PATH_MAX];
    size_t n = strlen(name);
    while (n > 1 && name[n - 1] == '/') n--;
    if (n >= sizeof path) return err_set(reterr, MOYAI_ERANGE, "%s '%.60s...': the path is too long", what, shown);
    memcpy(path, name, n);
    path[n] = 0;
    const char *slash = strrchr(path, '/');
    const char *last = slash ? slash + 1 : path;
    if (!*last || !strcmp(last, ".") || !strcmp(last, ".."))
        return err_set(reterr, MOYAI_EINVAL, "%s '%.100s': the path must end in a name", what, shown);

    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(at, path, flags);
    if (fd < 0 && errno == ENOENT) {
        if (mkdirat(at, path, 0700) < 0 && errno != EEXIST) {
            int e = errno;
            if (e == ENOENT)
                return err_sys(reterr, e, "%s '%.100s' cannot be made, its parent directory must exist", what, shown);
            return err_sys(reterr, e, "%s '%.100s' cannot be made", what, shown);
        }
        fd = openat(at, path, flags);
    }
    struct stat st;
    if (fd < 0) {
        int e = errno;
        /* Say which rule it breaks, if that is why. */
        if (fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            int rc = check_rules(&st, shown, what, reterr);
            if (rc < 0) return rc;
        }
        return err_sys(reterr, e, "%s '%.100s' cannot be opened", what, shown);
    }
    int rc =
        fstat(fd, &st) < 0 ? err_sys(reterr, errno, "%s '%.100s'", what, shown) : check_rules(&st, shown, what, reterr);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    *ret = fd;
    return 0;
}

/* ---- which directory ------------------------------------------------------------------------- */

static const char *env(const char *name) {
    const char *v = secure_getenv(name);
    return v && *v ? v : NULL;
}

/* The path and, for texts, where it came from. buf holds a path that is put together here. */
static const char *choose(const char *path, char *buf, size_t size, const char **what) {
    *what = "run directory";
    if (path) return path;
    path = env("MOYAI_RUN_DIR");
    if (path) {
        *what = "run directory ($MOYAI_RUN_DIR)";
        return path;
    }
    /* After su or in a batch job the variable may name a directory that is another user's or is not there. */
    const char *xdg = env("XDG_RUNTIME_DIR");
    struct stat st;
    if (xdg && xdg[0] == '/' && stat(xdg, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid()) {
        *what = "run directory ($XDG_RUNTIME_DIR/moyai)";
        int n = snprintf(buf, size, "%s/moyai", xdg);
        if (n > 0 && (size_t)n < size) return buf;
    }
    snprintf(buf, size, "/tmp/moyai-%u", (unsigned)geteuid());
    return buf;
}

/* What the ids of a host's run directories have in common: its boot, network namespace, and uid. How long it is. */
static int host_text(char text[HOST_TEXT], struct moyai_error *reterr) {
    static const char boot_id[] = "/proc/sys/kernel/random/boot_id", net[] = "/proc/self/ns/net";
    int fd = open(boot_id, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_sys(reterr, errno, "cannot tell this host from others: %s", boot_id);
    ssize_t n = read(fd, text, 64);
    int e = n < 0 ? errno : EIO;
    close(fd);
    if (n <= 0) return err_sys(reterr, e, "cannot tell this host from others: %s", boot_id);
    struct stat st;
    if (stat(net, &st) < 0) return err_sys(reterr, errno, "cannot tell this host from others: %s", net);
    size_t at = (size_t)n;
    at += (size_t)snprintf(text + at, HOST_TEXT - at, "net %llu uid %u", (unsigned long long)st.st_ino,
                           (unsigned)geteuid());
    return (int)at;
}

/* Its second half is the same for all run directories of the host; the first one tells them apart as well. */
static int host_id(struct rundir *d, struct moyai_error *reterr) {
    char text[HOST_TEXT + 60];
    uint8_t common[16];
    int n = host_text(text, reterr);
    if (n < 0) return n;
    hash128(text, (size_t)n, common);
    n += snprintf(text + n, 60, " dir %llu %llu", (unsigned long long)d->dev, (unsigned long long)d->ino);
    hash128(text, (size_t)n, d->host);
    memcpy(d->host + 8, common, 8);
    return 0;
}

bool rundir_this_host(const uint8_t host[16]) {
    char text[HOST_TEXT];
    uint8_t common[16];
    int n = host_text(text, NULL);
    if (n < 0) return true;
    hash128(text, (size_t)n, common);
    return memcmp(host + 8, common, 8) == 0;
}

static int check_form(const char *path, const char *what, struct moyai_error *reterr) {
    if (path[0] != '/') return err_set(reterr, MOYAI_EINVAL, "%s '%.100s' must be an absolute path", what, path);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    if (n > RUNDIR_PATH_MAX)
        return err_set(reterr, MOYAI_ERANGE,
                       "%s '%.60s...' is %zu bytes long; a socket's address has room for %d: choose a shorter path",
                       what, path, n, RUNDIR_PATH_MAX);
    return 0;
}

int rundir_check(const char *path, struct moyai_error *reterr) {
    return check_form(path, "run directory", reterr);
}

int rundir_open(struct rundir **ret, const char *path, struct moyai_error *reterr) {
    char buf[PATH_MAX];
    const char *what;
    path = choose(path, buf, sizeof buf, &what);
    int rc = check_form(path, what, reterr);
    if (rc < 0) return rc;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    struct rundir *d = calloc(1, sizeof *d);
    if (!d) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    memcpy(d->path, path, n);
    rc = rundir_private(&d->fd, AT_FDCWD, d->path, d->path, what, reterr);
    if (rc < 0) {
        free(d);
        return rc;
    }
    struct stat st;
    if (fstat(d->fd, &st) < 0) {
        rc = err_sys(reterr, errno, "%s '%s'", what, d->path);
    } else {
        d->dev = st.st_dev;
        d->ino = st.st_ino;
        rc = host_id(d, reterr);
    }
    if (rc < 0) {
        rundir_close(d);
        return rc;
    }
    *ret = d;
    return 0;
}

void rundir_close(struct rundir *d) {
    if (!d) return;
    close(d->fd);
    free(d);
}

const char *rundir_path(const struct rundir *d) {
    return d->path;
}

const uint8_t *rundir_host(const struct rundir *d) {
    return d->host;
}

/* Does the path still lead to the directory that was opened? 0 or ESTATE. */
static int check_same(const struct rundir *d, struct moyai_error *reterr) {
    struct stat st;
    if (lstat(d->path, &st) < 0) return err_set(reterr, MOYAI_ESTATE, "run directory '%s' has been removed", d->path);
    if (st.st_dev != d->dev || st.st_ino != d->ino)
        return err_set(reterr, MOYAI_ESTATE, "run directory '%s' has been replaced by another one", d->path);
    return 0;
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void socket_name(const struct moyai_node_id *id, const char *suffix, char name[NAME_SIZE]) {
    char hex[33];
    id_format(id->b, hex);
    snprintf(name, NAME_SIZE, "%.*s%s", NAME_HEX, hex, suffix);
}

static void address(const struct rundir *d, const char *name, struct sockaddr_un *a) {
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    snprintf(a->sun_path, sizeof a->sun_path, "%s/%.*s", d->path, (int)NAME_SIZE - 1, name);
}

static int open_socket(int type, struct moyai_error *reterr) {
    int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd < 0 ? err_sys(reterr, errno, "cannot make a Unix socket") : fd;
}

int rundir_listen(const struct rundir *d, const struct moyai_node_id *id, int *ret, struct moyai_error *reterr) {
    char name[NAME_SIZE], fresh[NAME_SIZE];
    socket_name(id, "", name);
    socket_name(id, NEW_SUFFIX, fresh);
    struct stat st;
    if (fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(reterr, MOYAI_EEXIST, "socket '%s/%s' is there already", d->path, name);

    int fd = open_socket(SOCK_STREAM, reterr);
    if (fd < 0) return fd;
    (void)fchmod(fd, 0600); /* becomes the file's mode; the directory's is what protects it */
    struct sockaddr_un a;
    address(d, fresh, &a);
    int rc;
    if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0) {
        int e = errno;
        if (e == EADDRINUSE)
            rc = err_set(reterr, MOYAI_EEXIST, "socket '%s' is there already", a.sun_path);
        else if (e != ENOENT || (rc = check_same(d, reterr)) == 0)
            rc = err_sys(reterr, e, "cannot make socket '%s'", a.sun_path);
        goto out_close;
    }
    if (fstatat(d->fd, fresh, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode)) {
        rc = err_set(reterr, MOYAI_ESTATE, "run directory '%s' has been replaced by another one", d->path);
        (void)unlink(a.sun_path); /* it is ours, wherever it is */
        goto out_close;
    }
    if (listen(fd, BACKLOG) < 0 || renameat(d->fd, fresh, d->fd, name) < 0) {
        rc = err_sys(reterr, errno, "cannot listen on socket '%s/%s'", d->path, name);
        (void)unlinkat(d->fd, fresh, 0); /* if it is gone, all the better */
        goto out_close;
    }
    *ret = fd;
    return 0;

out_close:
    close(fd);
    return rc;
}

/* The process at the other end; it must be this user's. */
static int check_peer(int fd, uid_t *uid, pid_t *pid, struct moyai_error *reterr) {
    struct ucred cred;
    socklen_t n = sizeof cred;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
        return err_sys(reterr, errno, "cannot tell who is at the other end of a socket");
    if (cred.uid != geteuid())
        return err_set(reterr, MOYAI_EPERM, "the other end of a socket is process %d of uid %u, not of yours (uid %u)",
                       (int)cred.pid, (unsigned)cred.uid, (unsigned)geteuid());
    if (uid) *uid = cred.uid;
    if (pid) *pid = cred.pid;
    return 0;
}

int rundir_connect(const struct rundir *d, const struct moyai_node_id *id, int *ret, pid_t *pid,
                   struct moyai_error *reterr) {
    char name[NAME_SIZE];
    socket_name(id, "", name);
    struct sockaddr_un a;
    address(d, name, &a);
    int fd = open_socket(SOCK_STREAM, reterr);
    if (fd < 0) return fd;
    int e;
    do {
        e = connect(fd, (struct sockaddr *)&a, sizeof a) < 0 ? errno : 0;
    } while (e == EINTR);

    int rc;
    if (e == 0) {
        rc = check_peer(fd, NULL, pid, reterr);
    } else if (e == ECONNREFUSED || e == ENOENT) {
        rc = check_same(d, reterr);
        if (rc == 0)
            rc = err_set(reterr, MOYAI_EDEAD, "nobody listens on socket '%s'%s", a.sun_path,
                         e == ENOENT ? ": it is not there" : " any more");
    } else if (e == EAGAIN) {
        rc = err_set(reterr, MOYAI_EAGAIN, "too many wait for socket '%s' to take their connection", a.sun_path);
    } else {
        rc = err_sys(reterr, e, "cannot connect to socket '%s'", a.sun_path);
    }
    if (rc < 0) {
        close(fd);
        return rc;
    }
    *ret = fd;
    return 0;
}

int rundir_accept(int listener, int *ret, uid_t *uid, pid_t *pid, struct moyai_error *reterr) {
    int fd;
    do {
        fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (fd < 0) {
        if (errno == EAGAIN) return err_set(reterr, MOYAI_EAGAIN, "no connection waits");
        return err_sys(reterr, errno, "cannot take a connection");
    }
    int rc = check_peer(fd, uid, pid, reterr);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    *ret = fd;
    return 0;
}

void rundir_unlink(const struct rundir *d, const struct moyai_node_id *id) {
    char name[NAME_SIZE];
    socket_name(id, "", name);
    (void)unlinkat(d->fd, name, 0); /* gone already, or the directory is: nothing is left to do */
}

/* ---- sweeping -------------------------------------------------------------------------------- */

/* A name rundir_listen could have made? fresh: with the suffix it has before it listens. */
static bool is_ours(const char *name, bool *fresh) {
    if (strspn(name, "0123456789abcdef") != NAME_HEX) return false;
    *fresh = strcmp(name + NAME_HEX, NEW_SUFFIX) == 0;
    return *fresh || name[NAME_HEX] == 0;
}

/* Does anybody have the socket open? A datagram socket that connects to a stream socket is told EPROTOTYPE if so and
 * ECONNREFUSED if not, and the listener does not notice. Returns the errno. */
static int ask(const struct rundir *d, int probe, const char *name) {
    struct sockaddr_un a;
    address(d, name, &a);
    return connect(probe, (struct sockaddr *)&a, sizeof a) < 0 ? errno : 0;
}

static bool is_stale(const struct rundir *d, int probe, const char *name, bool fresh) {
    struct stat st;
    if (fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode)) return false;
    if (ask(d, probe, name) != ECONNREFUSED) return false;
    /* The file is there a moment before it is a socket; who is stopped just then for a minute is told so. */
    return !fresh || time(NULL) - st.st_mtim.tv_sec > NEW_TIMEOUT;
}

bool rundir_has(const struct rundir *d, const struct moyai_node_id *id) {
    char name[NAME_SIZE];
    socket_name(id, "", name);
    struct stat st;
    return fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode);
}

bool rundir_is_dead(const struct rundir *d, const struct moyai_node_id *id) {
    int probe = open_socket(SOCK_DGRAM, NULL);
    if (probe < 0) return false;
    char name[NAME_SIZE];
    socket_name(id, "", name);
    int e = ask(d, probe, name);
    close(probe);
    return (e == ECONNREFUSED || e == ENOENT) && check_same(d, NULL) == 0;
}

int rundir_sweep(const struct rundir *d, size_t most, uint64_t random, struct moyai_error *reterr) {
    int rc = check_same(d, reterr);
    if (rc < 0) return rc;
    int probe = open_socket(SOCK_DGRAM, reterr);
    if (probe < 0) return probe;
    int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        rc = err_sys(reterr, errno, "cannot read run directory '%s'", d->path);
        if (fd >= 0) close(fd);
        close(probe);
        return rc;
    }
    int removed = 0;
    size_t n = 0, skip = 0;
    bool fresh;
    for (struct dirent *e; (e = readdir(dir));) n += is_ours(e->d_name, &fresh);
    if (n > most) skip = (size_t)(random % (n - most + 1));
    rewinddir(dir);
    n = 0;
    for (struct dirent *e; n < skip + most && (e = readdir(dir));) {
        if (!is_ours(e->d_name, &fresh) || n++ < skip) continue;
        removed += is_stale(d, probe, e->d_name, fresh) && unlinkat(d->fd, e->d_name, 0) == 0;
    }
    closedir(dir);
    close(probe);
    return removed;
}
