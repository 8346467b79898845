/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The children of this process, as the kernel lists them: also those that processes which ended have left to it.
 *
 * Who asks may be about to kill them, for nobody else is left who would. So it needs no memory, and a spare list where
 * no file can be opened any more: that of the main thread, which gets whoever is left to this process, and has most
 * others.
 */
#include "exec/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK       1024
#define GENERATIONS 64

typedef void visit_fn(pid_t pid, void *arg);

int exec_children_spare(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* A file of numbers, from its beginning. */
static bool read_children(int fd, visit_fn *fn, void *arg) {
    char text[CHUNK];
    pid_t pid = 0;
    ssize_t n;
    if (lseek(fd, 0, SEEK_SET) < 0) return false;
    while ((n = read(fd, text, sizeof text)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == ESRCH; /* the thread has ended */
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
            } else if (pid > 0) {
                fn(pid, arg);
                pid = 0;
            }
        }
    }
    if (pid > 0) fn(pid, arg);
    return true;
}

/* Call fn for each number that is a name in the directory; false if it cannot be read, or fn says so. */
static bool each_number(const char *path, bool (*fn)(int number, void *arg), void *arg) {
    _Alignas(struct dirent64) char text[CHUNK];
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return false;
    bool all = true;
    ssize_t n;
    while ((n = getdents64(dir, text, sizeof text)) > 0) {
        for (const char *p = text; p < text + n;) {
            const struct dirent64 *e = (const void *)p;
            int number = atoi(e->d_name);
            if (number > 0 && !fn(number, arg)) all = false;
            p += e->d_reclen;
        }
    }
    close(dir);
    return all && n == 0;
}

struct search {
    visit_fn *fn;
    void *arg;
    bool unlisted; /* this kernel has no lists */
};

/* One list for each thread. */
static bool visit_thread(int thread, void *arg) {
    struct search *s = arg;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && thread == getpid()) s->unlisted = true;
    if (fd < 0) return errno == ENOENT || errno == ESRCH;
    bool all = read_children(fd, s->fn, s->arg);
    close(fd);
    return all;
}

/* 0: it has ended; negative: that cannot be read. The parent's number is the second after the name, which is in
 * parentheses and may contain anything. */
static pid_t parent_of(pid_t pid) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT || errno == ESRCH ? 0 : -1;
    ssize_t n = read(fd, line, sizeof line - 1);
    close(fd);
    line[n > 0 ? n : 0] = 0;
    const char *p = strrchr(line, ')');
    return p && strlen(p) > 4 ? atoi(p + 4) : 0; /* ") S 4711 " */
}

static bool visit_process(int pid, void *arg) {
    const struct search *s = arg;
    pid_t parent = parent_of(pid);
    if (parent == getpid()) s->fn(pid, s->arg);
    return parent >= 0;
}

bool exec_has_started(pid_t pid) {
    for (int i = 0; pid > 0 && i < GENERATIONS; i++)
        if ((pid = parent_of(pid)) == getpid()) return true;
    return false;
}

bool exec_children(int spare, visit_fn *fn, void *arg) {
    struct search s = {.fn = fn, .arg = arg};
    bool all = each_number("/proc/self/task", visit_thread, &s);
    if (all && s.unlisted) all = each_number("/proc", visit_process, &s);
    if (!all && spare >= 0) all = read_children(spare, fn, arg);
    return all;
}

/* ---- left to this process -------------------------------------------------------------------- */

struct left {
    struct exec *x;
    visit_fn *fn;
    void *arg;
    bool collected;
};

static void collect_one(pid_t pid, void *arg) {
    struct left *l = arg;
    if (!exec_child_known(l->x, pid) && waitpid(pid, NULL, WNOHANG) == pid) l->collected = true;
}

static void visit_unknown(pid_t pid, void *arg) {
    const struct left *l = arg;
    if (!exec_child_known(l->x, pid)) l->fn(pid, l->arg);
}

/* One that is collected may have ended after the list was read, which lacks the children it has left to us, then. So it
 * is read again until none has; and who ends after that is visited himself. */
bool exec_children_left(struct exec *x, int spare, visit_fn *fn, void *arg) {
    struct left l = {.x = x, .fn = fn, .arg = arg};
    do {
        l.collected = false;
        (void)exec_children(spare, collect_one, &l);
    } while (l.collected);
    return exec_children(spare, visit_unknown, &l);
}
