/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/await.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct await {
    const struct store *s;
    struct exec_fd *watched;
    int fd;
    void (*fn)(void *arg);
    void *arg;
    char file[ENTRY_FILE_MAX + 1];
};

/* A pipe that is there under its name and locked; -1: none, or *again. */
static int open_pipe(const struct store *s, const char *file, bool *again) {
    *again = false;
    if (mkfifoat(s->waits.fd, file, 0600) < 0 && errno != EEXIST) return -1;
    int fd = openat(s->waits.fd, file, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        *again = errno == ENOENT;
        return -1;
    }
    struct stat st;
    if (flock(fd, LOCK_SH | LOCK_NB) == 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && st.st_nlink > 0) return fd;
    close(fd);
    *again = true; /* somebody is removing it */
    return -1;
}

static void on_told(struct exec_fd *f, int events, void *arg) {
    (void)events;
    struct await *w = arg;
    exec_fd_events(f, 0);
    w->fn(w->arg); /* may free it */
}

struct await *await_new(const struct store *s, struct exec *x, const char *file, void (*fn)(void *arg), void *arg) {
    struct await *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    bool again = true;
    w->fd = -1;
    for (int i = 0; again && i < STORE_TRIES; i++) {
        if (i > 0) sched_yield();
        w->fd = open_pipe(s, file, &again);
    }
    if (w->fd >= 0) w->watched = exec_fd_new(x, w->fd, UV_READABLE, on_told, w);
    if (!w->watched) {
        if (w->fd >= 0) close(w->fd);
        free(w);
        return NULL;
    }
    w->s = s;
    w->fn = fn;
    w->arg = arg;
    strcpy(w->file, file);
    return w;
}

void await_free(struct await *w) {
    if (!w) return;
    struct stat st;
    /* Under its name is this very pipe as long as it has a name: nobody renames them. */
    if (flock(w->fd, LOCK_EX | LOCK_NB) == 0 && fstat(w->fd, &st) == 0 && st.st_nlink > 0)
        (void)unlinkat(w->s->waits.fd, w->file, 0);
    (void)flock(w->fd, LOCK_UN); /* a child forked meanwhile would keep it */
    exec_fd_free(w->watched, true, NULL);
    free(w);
}

void await_tell(const struct store *s, const char *file) {
    int fd = openat(s->waits.fd, file, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno != ENXIO) return; /* as a rule nobody waits */
    (void)unlinkat(s->waits.fd, file, 0); /* first: who is told may wait again at once */
    if (fd < 0) return;
    ssize_t n = write(fd, "", 1);
    (void)n; /* there is room: nobody else writes to it, but for who has just done the same */
    close(fd);
}
