/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/onehost.h"

#include "base/err.h"
#include "base/id.h"
#include "link/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CLOCK_OFF 60 /* seconds by which the clock may have been set since a node has started */

/* ---- one ------------------------------------------------------------------------------------- */

struct rundir *onehost_dir(const struct rdv_node *e) {
    struct stat st;
    struct rundir *d;
    if (stat(e->run_dir, &st) < 0 || st.st_uid != geteuid() || rundir_open(&d, e->run_dir, NULL) < 0) return NULL;
    if (id_equal(rundir_host(d), e->host)) return d;
    rundir_close(d);
    return NULL;
}

static bool before_boot(uint64_t started) {
    struct timespec now, up;
    if (clock_gettime(CLOCK_REALTIME, &now) < 0 || clock_gettime(CLOCK_BOOTTIME, &up) < 0) return false;
    return now.tv_sec > up.tv_sec + CLOCK_OFF && started < (uint64_t)(now.tv_sec - up.tv_sec) - CLOCK_OFF;
}

bool onehost_is_dead(const struct rdv_node *e) {
    struct rundir *d = onehost_dir(e);
    if (!d) return before_boot(e->started);
    bool dead = rundir_is_dead(d, &e->id);
    rundir_close(d);
    return dead;
}

/* ---- all of a directory ---------------------------------------------------------------------- */

/* Its n/. Such a grid is its owner's: what somebody else has put into a directory that all may write into says nothing
 * of it, or he could keep everybody out. */
static DIR *open_nodes(const char *dir) {
    char path[PATH_MAX];
    struct stat all, st;
    if (snprintf(path, sizeof path, "%s/n", dir) >= (int)sizeof path || stat(dir, &all) < 0) return NULL;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return NULL;
    DIR *d = fstat(fd, &st) == 0 && (st.st_uid == all.st_uid || st.st_uid == geteuid()) ? fdopendir(fd) : NULL;
    if (!d) close(fd);
    return d;
}

static bool load(int dir, const char *name, struct rdv_node *ret) {
    char text[ENTRY_MAX + 1], right[33];
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t n = 0;
    ssize_t got = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? 1 : 0;
    while (got != 0 && n < sizeof text) {
        got = read(fd, text + n, sizeof text - n);
        if (got > 0) n += (size_t)got;
        if (got < 0 && errno != EINTR) break;
    }
    close(fd);
    if (n == 0 || n > ENTRY_MAX || entry_decode_node(text, n, ret, NULL) < 0) return false;
    id_format(ret->id.b, right);
    return strcmp(name, right) == 0;
}

/* The first who is not dead. */
static bool living(DIR *d, struct rdv_node *who) {
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.' && load(dirfd(d), e->d_name, who) && !onehost_is_dead(who)) return true;
    return false;
}

int onehost_check(const char *dir, bool alone, struct moyai_error *reterr) {
    DIR *d = open_nodes(dir);
    if (!d) return 0;
    struct rdv_node e;
    bool found = living(d, &e);
    closedir(d);
    if (!found) return 0;
    char who[ENTRY_CALLED], doubt[80] = "";
    entry_called(who, e.id.b, e.title, e.pid);
    if (!rundir_this_host(e.host))
        return err_set(
            reterr, MOYAI_EPERM,
            "nodes meet in \"%.70s\" without a key, as %.50s of another host (or it has left its entry in n/): "
            "end them, or remove that, before a grid of several hosts begins there",
            dir, who);
    struct rundir *theirs = onehost_dir(&e);
    if (!theirs) snprintf(doubt, sizeof doubt, ", or has left its entry in n/: remove that if it has ended");
    rundir_close(theirs);
    return err_set(reterr, MOYAI_EPERM, "the grid in \"%.70s\" is one of one host (%.50s lives there%s): %s", dir, who,
                   doubt,
                   alone ? "do not name a key (MOYAI_KEY_FILE or --key-file)" : "name it alone, and do not name a key");
}
