/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory that several hosts see, as a meeting place (doc/spec/07-rendezvous.md, 4): one sealed entry a node, a
 * file named after its id in e/, written beside it and renamed into place, so that nobody reads half of one.
 *
 * Nothing in it is trusted, as on a server: what is no regular file, too large, or sealed by nobody we know is passed
 * over. Who may write into the directory can withhold entries, and that is all.
 *
 * Entries of those that were killed are removed by whoever comes by. How old a file is, is asked of the file server
 * alone, by the time of our own file, which was written just now: a host whose clock is wrong removes nobody's entry.
 */
#include "overlay/io/meet_internal.h"

#include "base/err.h"
#include "base/id.h"
#include "base/rng.h"
#include "overlay/io/places.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUB  "e"
#define TEMP ".new-" /* and the id */

static bool is_id(const char *name) {
    return strlen(name) == 32 && strspn(name, "0123456789abcdef") == 32;
}

static bool is_temp(const char *name) {
    return strncmp(name, TEMP, strlen(TEMP)) == 0 && is_id(name + strlen(TEMP));
}

/* A descriptor of e/, or ENOENT without a text: who looks has found the directory, and nothing in it. For others what
 * is missing is made, e/ beside whatever else the directory holds, but not the directory's parent; e/ is open to whom the
 * directory is. */
static int open_entries(const char *path, bool looks, struct moyai_error *why) {
    struct stat st;
    if (!looks && mkdir(path, 0700) < 0 && errno != EEXIST) return err_sys(why, errno, "cannot make \"%.200s\"", path);
    int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || fstat(root, &st) < 0) {
        int e = errno;
        if (root >= 0) close(root);
        return err_sys(why, e, "cannot open \"%.200s\"", path);
    }
    if (looks && fstatat(root, SUB, &(struct stat){0}, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
        close(root);
        return MOYAI_ENOENT;
    }
    bool made = !looks && mkdirat(root, SUB, 0700) == 0;
    int e = made || looks || errno == EEXIST ? 0 : errno;
    int fd = openat(root, SUB, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && !e) e = errno;
    if (fd >= 0 && made) (void)fchmod(fd, st.st_mode & 07777);
    close(root);
    return fd >= 0 ? fd : err_sys(why, e, "cannot open \"%.200s/" SUB "\"", path);
}

/* Our own file; *at: when it was written, by the file server's clock. */
static int put(int dir, const char *path, const struct place_entry *e, struct timespec *at, struct moyai_error *why) {
    char temp[sizeof TEMP + 32];
    snprintf(temp, sizeof temp, TEMP "%s", e->id);
    int fd = openat(dir, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    if (fd < 0) return err_sys(why, errno, "cannot write into \"%.200s/" SUB "\"", path);
    size_t n = 0;
    int sys = 0;
    while (n < e->n && !sys) {
        ssize_t m = write(fd, e->sealed + n, e->n - n);
        if (m > 0)
            n += (size_t)m;
        else if (m < 0 && errno != EINTR)
            sys = errno;
    }
    struct stat st = {0};
    if (!sys && fstat(fd, &st) < 0) sys = errno;
    if (close(fd) < 0 && !sys) sys = errno; /* a file server may say only now that its disk is full */
    if (!sys && renameat(dir, temp, dir, e->id) < 0) sys = errno;
    if (sys) {
        (void)unlinkat(dir, temp, 0);
        return err_sys(why, sys, "cannot write into \"%.200s/" SUB "\"", path);
    }
    *at = st.st_mtim;
    return 0;
}

/* Some of the files, each with equal chances; those that were left half written go. now NULL: not known. */
static size_t sample(int dir, char name[MEET_SAMPLE][33], const struct timespec *now, moyai_dur lifetime) {
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0) close(fd);
        return 0;
    }
    struct moyai_rng rng;
    uint64_t seed = moyai_now(), seen = 0;
    (void)rng_system(&seed, sizeof seed);
    rng_seed(&rng, seed);
    for (struct dirent *e; (e = readdir(d));) {
        struct stat st;
        if (now && is_temp(e->d_name) && fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            now->tv_sec - st.st_mtim.tv_sec > lifetime / MOYAI_SEC)
            (void)unlinkat(dir, e->d_name, 0);
        if (!is_id(e->d_name)) continue;
        uint64_t at = seen < MEET_SAMPLE ? seen : rng_below(&rng, seen + 1);
        if (at < MEET_SAMPLE) memcpy(name[at], e->d_name, 33);
        seen++;
    }
    closedir(d);
    return seen < MEET_SAMPLE ? (size_t)seen : MEET_SAMPLE;
}

/* The bytes of one; 0: it is no entry, or an old one, and then removed. */
static size_t get(int dir, const char *name, const struct timespec *now, moyai_dur lifetime,
                  uint8_t out[MEET_SEALED_MAX]) {
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return 0;
    size_t n = 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        if (now && now->tv_sec - st.st_mtim.tv_sec > lifetime / MOYAI_SEC)
            (void)unlinkat(dir, name, 0);
        else
            while (st.st_size <= MEET_SEALED_MAX && n < MEET_SEALED_MAX) {
                ssize_t m = read(fd, out + n, MEET_SEALED_MAX - n);
                if (m < 0 && errno == EINTR) continue;
                if (m <= 0) break;
                n += (size_t)m;
            }
    }
    close(fd);
    return n;
}

int meet_dir_ask(struct place *p, struct moyai_error *why) {
    const char *path = places_path(p->url);
    struct place_entry e;
    struct timespec at;
    int dir = open_entries(path, p->m->looks, why);
    if (dir == MOYAI_ENOENT && !why->code) {
        place_counted(p);
        return 0;
    }
    if (dir < 0) return dir;
    place_entry(p, &e);
    int rc = e.n ? put(dir, path, &e, &at, why) : 0;
    const struct timespec *now = e.n && rc == 0 ? &at : NULL;
    char(*name)[33] = malloc(sizeof *name * MEET_SAMPLE);
    size_t n = name ? sample(dir, name, now, e.lifetime) : 0;
    for (size_t i = 0; i < n && !place_stopping(p); i++) {
        uint8_t sealed[MEET_SEALED_MAX];
        size_t len = get(dir, name[i], now, e.lifetime, sealed);
        if (len) place_count(p, sealed, len);
        if (len) place_take(p, sealed, len);
    }
    place_counted(p);
    if (!name && rc == 0) rc = err_set(why, MOYAI_ENOMEM, "out of memory");
    free(name);
    close(dir);
    return rc;
}

void meet_dir_goodbye(struct place *p) {
    char file[4200], id[33];
    id_format(p->m->id, id);
    if (snprintf(file, sizeof file, "%s/" SUB "/%s", places_path(p->url), id) < (int)sizeof file) (void)unlink(file);
}
