/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_grid.h"

#include "base/err.h"
#include "link/rundir.h"
#include "overlay/io/places.h"
#include "overlay/io/rendezvous.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX    "moyai-run-"
#define BASE_MAX  60 /* bytes: PREFIX, six more and "/s" must fit into a run directory's 86 */
#define DEPTH     16 /* of what is removed; a run's own directory has 2 */
#define TRIES     100
#define BLANKS    " \t\n"
#define NO_BLANKS "white space stands between several addresses, and in none of them"
#define FORMS     "DIR, file:DIR, http://HOST:PORT/GRID or HOST:PORT"

static const char *base_dir(void) {
    const char *dir = getenv("XDG_RUNTIME_DIR");
    struct stat st;
    if (dir && dir[0] == '/' && strlen(dir) <= BASE_MAX && stat(dir, &st) == 0 && S_ISDIR(st.st_mode) &&
        st.st_uid == geteuid() && access(dir, W_OK | X_OK) == 0)
        return dir;
    return "/tmp";
}

/* ---- removing -------------------------------------------------------------------------------- */

/* A directory to be removed; -1: errno. If its rights keep us out they are changed, provided that it is ours: nobody
 * else can put another in its place then, also in a /tmp that all may write to. */
static int open_dir(int base, const char *name) {
    int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 || errno != EACCES || fstatat(base, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
        st.st_uid != geteuid() || fchmodat(base, name, 0700, 0) < 0)
        return fd;
    return openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Empty the directory and close it. Links are removed and not followed. 0 or errno. */
static int empty(int fd, int depth) {
    DIR *d = fdopendir(fd);
    if (!d) {
        int e = errno;
        close(fd);
        return e;
    }
    int result = 0;
    for (struct dirent *e; (e = readdir(d));) {
        const char *name = e->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        if (unlinkat(fd, name, 0) == 0 || errno == ENOENT) continue;
        int rc = errno;
        if (rc == EISDIR || rc == EPERM) {
            int sub = depth > 0 ? open_dir(fd, name) : -1;
            rc = depth == 0 ? ELOOP : sub < 0 ? errno : empty(sub, depth - 1);
            if (rc == 0 && unlinkat(fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) rc = errno;
        }
        if (rc) result = rc;
    }
    closedir(d);
    return result;
}

static int remove_tree(int base, const char *name) {
    int fd = open_dir(base, name);
    if (fd < 0) return errno == ENOENT ? 0 : errno;
    int rc = empty(fd, DEPTH);
    if (rc) return rc;
    return unlinkat(base, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : errno;
}

/* A directory of ours that nobody has locked and nobody wants to be kept. It is unlocked when it is gone. */
static bool remove_stale(int base, const char *name) {
    int fd = open_dir(base, name);
    if (fd < 0) return false;
    struct stat st;
    bool stale = fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
                 faccessat(fd, "keep", F_OK, 0) < 0 && errno == ENOENT;
    if (stale) stale = remove_tree(base, name) == 0;
    close(fd);
    return stale;
}

int run_grid_sweep(const char *base) {
    DIR *d = opendir(base);
    if (!d) return 0;
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0 && remove_stale(dirfd(d), e->d_name)) n++;
    closedir(d);
    return n;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Lock a directory that was just made. 0 or errno; ENOENT: a sweep was faster, and it is gone or about to go. */
static int lock_new(struct run_grid *g) {
    struct stat a, b;
    if (chmod(g->path, 0700) < 0) return errno; /* a umask may have taken rights from us */
    g->lock = open(g->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (g->lock < 0) return errno;
    /* A file system that knows no locks cannot lock for a sweep either. */
    if (flock(g->lock, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK) return ENOENT;
    if (fstat(g->lock, &a) < 0 || lstat(g->path, &b) < 0) return errno;
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino ? 0 : ENOENT;
}

static int make_locked(struct run_grid *g, const char *base, struct moyai_error *reterr) {
    for (int i = 0; i < TRIES; i++) {
        snprintf(g->path, sizeof g->path, "%s/" PREFIX "XXXXXX", base);
        if (!mkdtemp(g->path)) return err_sys(reterr, errno, "cannot make a directory in '%s'", base);
        int e = lock_new(g);
        if (e == 0) return 0;
        if (g->lock >= 0) close(g->lock);
        g->lock = -1;
        if (e == ENOENT) continue;
        rmdir(g->path);
        return err_sys(reterr, e, "cannot use the directory '%s'", g->path);
    }
    return err_set(reterr, MOYAI_ESYS, "cannot keep a directory in '%s': others remove it", base);
}

static void name_parts(struct run_grid *g) {
    snprintf(g->address, sizeof g->address, "file:%s", g->path);
}

static int make_file(const struct run_grid *g, const char *name, struct moyai_error *reterr) {
    int fd = openat(g->lock, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return err_sys(reterr, errno, "cannot write into '%s'", g->path);
    close(fd);
    return 0;
}

int run_grid_make(struct run_grid *g, bool keep, struct moyai_error *reterr) {
    const char *base = base_dir();
    (void)run_grid_sweep(base);
    *g = (struct run_grid){.own = true, .keep = keep, .lock = -1};
    int rc = make_locked(g, base, reterr);
    if (rc < 0) return rc;
    name_parts(g);
    snprintf(g->run_dir, sizeof g->run_dir, "%.*s/s", PATH_MAX - 3, g->path);
    /* Also where the user has a key for grids of several hosts. */
    rc = make_file(g, PLACES_ONE_HOST, reterr);
    if (rc == 0 && keep) rc = make_file(g, "keep", reterr);
    if (rc < 0) {
        g->keep = false;
        (void)run_grid_end(g, NULL);
    }
    return rc;
}

/* ---- one address ----------------------------------------------------------------------------- */

/* Not given: every process finds out by itself. */
static void take_run_dir(struct run_grid *g) {
    const char *env = getenv("MOYAI_RUN_DIR");
    snprintf(g->run_dir, sizeof g->run_dir, "%s", env ? env : "");
}

static int kind_of(const char *address, struct places *p, bool *wide, struct moyai_error *reterr) {
    int rc = places_parse(p, address, reterr);
    if (rc < 0) return rc;
    rc = places_kind(p, getenv("MOYAI_KEY_FILE"), wide, reterr);
    if (rc < 0) places_done(p);
    return rc;
}

/* A grid of several hosts, by its address: nothing of it is a file of ours. */
static int join_wide(struct run_grid *g, const struct places *p, bool processes, struct moyai_error *reterr) {
    if (p->in >= 0 && processes)
        return err_set(reterr, MOYAI_EINVAL,
                       "'%.80s': fd: is for programs that a launcher has given these descriptors; moyai run and moyai "
                       "node, and the processes that they start, have not got them",
                       g->address);
    g->path[0] = 0;
    take_run_dir(g);
    return 0;
}

static const char *directory_of(const char *where) {
    return strncmp(where, "file:", 5) == 0 ? where + 5 : where;
}

int run_grid_check(const char *where, struct moyai_error *reterr) {
    if (!*directory_of(where)) return err_set(reterr, MOYAI_EINVAL, "the grid's address is empty; it is " FORMS);
    if (*where == '-')
        return err_set(reterr, MOYAI_EINVAL,
                       "'%s' is not the address of a grid but an option: is the address before it empty?", where);
    return 0;
}

/* A path, rather than another kind of address? */
static bool is_directory(const char *where) {
    return access(where, F_OK) == 0 || *where == '/' || strncmp(where, "file:", 5) == 0;
}

static int wrong_address(const char *where, struct moyai_error *reterr) {
    struct moyai_error scratch;
    const char *reason = places_reason(where, &scratch);
    if (reason) return err_set(reterr, MOYAI_EINVAL, "'%s' is not the address of a grid: %s", where, reason);
    return err_set(reterr, MOYAI_EINVAL, "'%s' is not the address of a grid: " FORMS, where);
}

/* Why it is none; sys: of looking for such a directory. */
static int no_such_grid(const char *where, int sys, struct moyai_error *reterr) {
    const char *dir = directory_of(where);
    if (sys != ENOENT && sys != ENOTDIR) return err_sys(reterr, sys, "cannot join the grid '%s'", where);
    if (strncasecmp(where, "http:", 5) == 0 && strncmp(where, "http:", 5) != 0)
        return err_set(reterr, MOYAI_EINVAL, "'%s' is not the address of a grid: write http:// in small letters",
                       where);
    if (dir == where && strchr(where, ':')) return wrong_address(where, reterr);
    return err_set(reterr, MOYAI_ENOENT, "there is no grid at '%s': no such directory%s", dir,
                   dir == where && !strchr(where, '/')
                       ? " (a member of a grid is named HOST:PORT)"
                       : "; is the name right? A new grid's is made beforehand (mkdir -m 700)");
}

/* The whole path of a directory that may be a grid's; nothing is made in it. */
static int find_directory(const char *where, char path[PATH_MAX], struct moyai_error *reterr) {
    struct stat st;
    const char *dir = directory_of(where);
    if (!realpath(dir, path)) return no_such_grid(where, errno, reterr);
    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return err_set(reterr, MOYAI_EPERM, "there is no grid at '%s', which is not a directory", dir);
    if (!places_may_be_grid(path))
        return err_set(reterr, MOYAI_ENOENT,
                       "there is no grid at '%s', but something else: a grid's directory is empty at first, and holds "
                       "nothing but the grid",
                       dir);
    return 0;
}

/* ---- several addresses ----------------------------------------------------------------------- */

static int check_one(const char *word, const char *all, struct moyai_error *reterr) {
    struct places p;
    struct moyai_error why = {0};
    int rc = places_parse(&p, word, &why);
    if (rc == 0) places_done(&p);
    if (rc != MOYAI_EINVAL) return rc < 0 ? err_set(reterr, rc, "%s", why.text) : 0;
    if (strncmp(word, "fd:", 3) == 0) return err_set(reterr, rc, "%s", why.text);
    if (strncmp(all, "http://", 7) == 0 && !strpbrk(word, ":/")) /* as of a name with a space in it */
        return err_set(reterr, rc,
                       "'%s' is not the address of a grid: its name has no spaces, and what follows one is another "
                       "address: " FORMS,
                       all);
    return no_such_grid(word, ENOENT, reterr);
}

/* One of several is what it would be alone: a directory is there, and a grid's or empty, and may be named from here.
 * After the address of the others, from `n` on; how long they are then. */
static int add_one(struct run_grid *g, size_t n, const char *word, const char *all, struct moyai_error *reterr) {
    char path[PATH_MAX];
    const bool directory = is_directory(word);
    int rc = directory ? find_directory(word, path, reterr) : check_one(word, all, reterr);
    if (rc < 0) return rc;
    if (directory && strpbrk(path, BLANKS))
        return err_set(reterr, MOYAI_EINVAL, "'%s' is not the address of a grid: " NO_BLANKS, path);
    int more = snprintf(g->address + n, sizeof g->address - n, "%s%s%s", n ? " " : "", directory ? "file:" : "",
                        directory ? path : word);
    if (more < 0 || (size_t)more >= sizeof g->address - n)
        return err_set(reterr, MOYAI_ERANGE, "the grid's address is too long");
    return (int)n + more;
}

/* A path with blanks in it? What follows them is nothing that could stand beside a directory, not even another one. */
static bool is_one_path(const char *where) {
    const char *more = where + strcspn(where, BLANKS);
    return (*where == '/' || strncmp(where, "file:", 5) == 0) && more[strspn(more, BLANKS)] && !strpbrk(more, ":/");
}

/* Into g->address. */
static int add_all(struct run_grid *g, const char *all, struct moyai_error *reterr) {
    if (is_one_path(all)) return no_such_grid(all, ENOENT, reterr);
    char *copy = strdup(all), *rest = NULL;
    if (!copy) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    int n = 0;
    for (char *word = strtok_r(copy, BLANKS, &rest); word && n >= 0; word = strtok_r(NULL, BLANKS, &rest))
        n = add_one(g, (size_t)n, word, all, reterr);
    free(copy);
    return n < 0 ? n : 0;
}

/* ---- joining --------------------------------------------------------------------------------- */

/* A grid of one host, in the directory g->path. looks: nothing is made there. */
static int join_directory(struct run_grid *g, bool looks, struct moyai_error *reterr) {
    char nodes[PATH_MAX + 3];
    struct rdv *r;
    snprintf(nodes, sizeof nodes, "%s/n", g->path);
    if (looks && access(nodes, F_OK) < 0 && errno == ENOENT) {
        int fd, rc = rundir_private(&fd, AT_FDCWD, g->path, g->path, "rendezvous directory", reterr);
        if (rc < 0) return rc; /* nobody can */
        close(fd);
        return err_set(reterr, MOYAI_ENOENT, "there is no grid at '%s' yet: nobody has joined one there", g->path);
    }
    int rc = rdv_open(&r, g->address, reterr);
    if (rc < 0) return rc;
    rdv_close(r);
    take_run_dir(g);
    /* If the run that made it is killed, the directory shall stay as long as we are in the grid. */
    g->lock = open(g->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (g->lock >= 0) (void)flock(g->lock, LOCK_SH | LOCK_NB);
    return 0;
}

static int join(struct run_grid *g, const char *where, bool processes, struct moyai_error *reterr) {
    *g = (struct run_grid){.lock = -1};
    int rc = run_grid_check(where, reterr);
    if (rc < 0) return rc;
    if (access(directory_of(where), F_OK) == 0) { /* also if there are blanks in it */
        rc = find_directory(where, g->path, reterr);
        if (rc == 0 && strpbrk(g->path, BLANKS))
            rc = err_set(reterr, MOYAI_EINVAL, "'%s' is not the address of a grid: " NO_BLANKS, g->path);
        name_parts(g);
    } else {
        rc = add_all(g, where, reterr);
    }
    struct places places;
    bool wide = false;
    if (rc == 0) rc = kind_of(g->address, &places, &wide, reterr);
    if (rc < 0) return rc;
    if (wide)
        rc = join_wide(g, &places, processes, reterr);
    else
        snprintf(g->path, sizeof g->path, "%s", places_path(places.file));
    places_done(&places);
    return wide || rc < 0 ? rc : join_directory(g, !processes, reterr);
}

int run_grid_join(struct run_grid *g, const char *where, struct moyai_error *reterr) {
    return join(g, where, true, reterr);
}

int run_grid_look(struct run_grid *g, const char *where, struct moyai_error *reterr) {
    return join(g, where, false, reterr);
}

/* ---- the address in a file ------------------------------------------------------------------- */

/* The first line of what is no more than that; NULL: it is something else. O_NONBLOCK: it may be a FIFO. */
static char *only_line(int fd, char *line, size_t cap) {
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) return NULL;
    size_t n = 0;
    ssize_t k;
    while (n < cap && (k = read(fd, line + n, cap - n)) > 0) n += (size_t)k;
    if (n == cap) return NULL;
    line[n] = 0;
    size_t len = strcspn(line, "\n");
    if (n > len + 1 || strlen(line) != n) return NULL;
    line[len] = 0;
    return line;
}

static int open_told(const char *file) {
    return open(file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* What is there is replaced, and removed at the end: so only if it is of that kind, left by a run that was killed. */
static int may_tell(const char *file, struct moyai_error *reterr) {
    char line[sizeof((struct run_grid *)0)->address + 1];
    struct places p;
    int fd = open_told(file);
    if (fd < 0) return errno == ENOENT ? 0 : err_sys(reterr, errno, "cannot look at '%s'", file);
    const char *text = only_line(fd, line, sizeof line);
    close(fd);
    /* A path alone is an address, too, but nothing that we write, and may be anybody's. */
    bool good = text && (!*text || (*text != '/' && places_parse(&p, text, NULL) == 0));
    if (good && *text) places_done(&p);
    if (good) return 0;
    return err_set(reterr, MOYAI_EEXIST,
                   "'%.100s' is there, and not the address of a grid: --grid-file would replace it; remove it or give "
                   "another name",
                   file);
}

int run_grid_tell(struct run_grid *g, const char *file, struct moyai_error *reterr) {
    char temp[PATH_MAX];
    if (snprintf(temp, sizeof temp, "%s.XXXXXX", file) >= (int)sizeof temp)
        return err_set(reterr, MOYAI_ERANGE, "cannot write '%.60s...': the path is too long", file);
    int rc = may_tell(file, reterr);
    if (rc < 0) return rc;
    int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0) return err_sys(reterr, errno, "cannot write '%s'", file);
    int e = 0;
    if (dprintf(fd, "%s\n", g->address) < 0) e = errno;
    if (close(fd) < 0 && e == 0) e = errno;
    if (e == 0 && rename(temp, file) < 0) e = errno;
    if (e) {
        unlink(temp);
        return err_sys(reterr, e, "cannot write '%s'", file);
    }
    snprintf(g->told, sizeof g->told, "%s", file);
    return 0;
}

static void untell(const struct run_grid *g) {
    char line[sizeof g->address + 1];
    int fd = open_told(g->told);
    if (fd < 0) return;
    const char *text = only_line(fd, line, sizeof line);
    close(fd);
    if (text && strcmp(text, g->address) == 0) unlink(g->told);
}

int run_grid_end(struct run_grid *g, struct moyai_error *reterr) {
    int e = 0;
    if (g->told[0]) untell(g);
    g->told[0] = 0;
    if (g->own && !g->keep && g->path[0]) {
        e = remove_tree(AT_FDCWD, g->path);
        if (e == ENOTEMPTY) e = remove_tree(AT_FDCWD, g->path); /* the last of somebody who was just leaving */
    }
    if (g->lock >= 0) close(g->lock);
    g->lock = -1;
    return e ? err_sys(reterr, e, "cannot remove '%s'", g->path) : 0;
}
