/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a rendezvous directory: read whole, written whole, replaced and removed by one at a time.
 *
 * Entries are never changed, only made, replaced and removed, so a file that is still the same inode has the content
 * that was read from it. An entry is made by linking a finished file to its name: link fails if the name is taken, and
 * exactly one of several wins. Who wants to replace or remove an entry others may want to remove too, first locks it
 * (flock on the entry's own file, never waiting); whoever has the lock and finds the same inode still under the name
 * is the only one who may do it. The kernel drops the lock of a process that is killed, so nothing needs to be cleaned
 * up; while one that has it is stopped, others hear EAGAIN for that one entry.
 *
 * Tried and dropped: renaming a dead entry aside and looking at it afterwards. It may turn out that a third process's
 * new entry was taken, and putting that back cannot be made safe against a fourth, or a crash.
 *
 * Descriptors of the directories are opened and checked once, and everything goes through them. Texts name the file.
 * ECLOSED everywhere: the directory has been removed.
 */
#ifndef OVERLAY_IO_STORE_H
#define OVERLAY_IO_STORE_H

#include "overlay/io/entry.h"
#include <dirent.h>
#include <moyai/error.h>

struct store_dir {
    int fd;
    const char *sub; /* its name in the directory */
};

struct store {
    char *path;
    char *names_path;
    struct store_dir nodes, names, temps, waits;
};

int store_open(struct store *s, const char *path, size_t n, struct moyai_error *reterr) MOYAI_MUST_USE;
void store_done(struct store *s);

int store_check(const struct store *s, const struct store_dir *d, struct moyai_error *reterr) MOYAI_MUST_USE;

/* Read a file that should be an entry: its bytes. lockable not NULL: it stays open there, to be locked; yours to close.
 * ENOENT; EDATA, EPERM and the like. Nothing that may lie there (a link, a pipe, a huge file) is followed, waited for
 * or read in. */
int store_load(const struct store *s, const struct store_dir *d, const char *file, char buf[ENTRY_MAX], int *lockable,
               struct moyai_error *reterr) MOYAI_MUST_USE;
/* Errors about what was read: EDATA with `why`, or rc with the file put before the text that is there. */
int store_bad(const struct store *s, const struct store_dir *d, const char *file, const char *why,
              struct moyai_error *reterr);
int store_bad_text(const struct store *s, const struct store_dir *d, const char *file, int rc,
                   struct moyai_error *reterr);

/* Write a whole file in t/; its name goes to temp. It is to become d's `file`. ENOSPC and others leave nothing. */
int store_write(const struct store *s, const struct store_dir *d, const char *file, const char *p, size_t n,
                char temp[33], struct moyai_error *reterr) MOYAI_MUST_USE;
void store_drop(const struct store *s, const char *temp);
/* Put it into place, if nothing is there (EEXIST; temp stays in any case), or whatever is there (temp is gone then). */
int store_link(const struct store *s, const struct store_dir *d, const char *file, const char *temp,
               struct moyai_error *reterr) MOYAI_MUST_USE;
int store_rename(const struct store *s, const struct store_dir *d, const char *file, const char *temp,
                 struct moyai_error *reterr) MOYAI_MUST_USE;

/* Become the one who may remove or replace the entry that was loaded as fd: 0; EAGAIN, somebody else is at it; ESTATE,
 * it is not that entry any more. */
int store_lock(const struct store *s, const struct store_dir *d, const char *file, int fd,
               struct moyai_error *reterr) MOYAI_MUST_USE;
void store_unlock(int fd); /* and close it */
/* Remove the entry that was loaded as fd, and close fd. 0 also if somebody else has. EAGAIN. */
int store_remove(const struct store *s, const struct store_dir *d, const char *file, int fd,
                 struct moyai_error *reterr);
/* Remove a file whoever's it is: ENOENT, not there. */
int store_unlink(const struct store *s, const struct store_dir *d, const char *file,
                 struct moyai_error *reterr) MOYAI_MUST_USE;
/* Times to try again after EAGAIN, with a sched_yield between: the lock is held for a few system calls. */
#define STORE_TRIES 200

/* A stream of the directory, of its own position; NULL with errno. */
DIR *store_stream(const struct store_dir *d);
/* Call fn for each file until it returns false. */
int store_each(const struct store *s, const struct store_dir *d, bool (*fn)(const char *file, void *ctx), void *ctx,
               struct moyai_error *reterr) MOYAI_MUST_USE;

#endif
