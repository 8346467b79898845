/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories watched for changes, by one inotify descriptor of ours for all of them. libuv's uv_fs_event is not used:
 * only the driver may call it, so the caller would learn too late that the system's limit is reached.
 *
 * The system gives one number to all watches of one directory, so a number is removed with its last watch.
 */
#include "exec/impl.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

struct exec_watch {
    struct exec_watch *next;
    struct exec *x;
    int wd; /* -1: the directory is gone */
    bool changed;
    void (*fn)(void *arg);
    void *arg;
};

struct exec_watches {
    int fd;
    struct exec_fd *watched;
    struct exec_watch *list; /* not empty */
};

enum {
    MASK = IN_CREATE | IN_DELETE | IN_MOVE | IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF |
           IN_ONLYDIR
};

static void mark(struct exec_watches *ws, const struct inotify_event *ev) {
    for (struct exec_watch *w = ws->list; w; w = w->next) {
        if (w->wd != ev->wd && !(ev->mask & IN_Q_OVERFLOW)) continue;
        w->changed = true;
        if (ev->mask & IN_IGNORED) w->wd = -1;
    }
}

/* However many events there are, each watch hears once. */
static void on_events(struct exec_fd *f, int events, void *arg) {
    (void)f, (void)events;
    struct exec *x = arg;
    struct exec_watches *ws = x->watches;
    char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n;
    while ((n = read(ws->fd, buf, sizeof buf)) > 0)
        for (char *p = buf; p < buf + n;) {
            const struct inotify_event *ev = (const struct inotify_event *)(const void *)p;
            mark(ws, ev);
            p += sizeof *ev + ev->len;
        }
    /* A callback may free any watch, and with the last one the list's owner: begin again after each. */
    for (struct exec_watch *w = ws->list; w;) {
        if (!w->changed) {
            w = w->next;
            continue;
        }
        w->changed = false;
        w->fn(w->arg);
        w = x->watches ? x->watches->list : NULL;
    }
}

static int limit(struct moyai_error *reterr, int sys, const char *what) {
    int rc = err_set(reterr, MOYAI_ELIMIT, "the user's limit of inotify %s is reached", what);
    if (reterr) reterr->sys = sys;
    return rc;
}

static struct exec_watches *watches(struct exec *x, struct moyai_error *reterr) {
    if (x->watches) return x->watches;
    struct exec_watches *ws = calloc(1, sizeof *ws);
    if (!ws) {
        err_set(reterr, MOYAI_ENOMEM, "out of memory");
        return NULL;
    }
    ws->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (ws->fd < 0) {
        if (errno == EMFILE)
            limit(reterr, errno, "instances or open files (fs.inotify.max_user_instances)");
        else
            err_sys(reterr, errno, "cannot watch directories");
        free(ws);
        return NULL;
    }
    ws->watched = exec_fd_new(x, ws->fd, UV_READABLE, on_events, x);
    if (!ws->watched) {
        err_set(reterr, MOYAI_ENOMEM, "out of memory");
        close(ws->fd);
        free(ws);
        return NULL;
    }
    return x->watches = ws;
}

static void release(struct exec *x) {
    struct exec_watches *ws = x->watches;
    if (ws->list) return;
    x->watches = NULL;
    exec_fd_free(ws->watched, true, NULL);
    free(ws);
}

struct exec_watch *exec_watch_new(struct exec *x, const char *dir, void (*fn)(void *arg), void *arg,
                                  struct moyai_error *reterr) {
    struct exec_watches *ws = watches(x, reterr);
    if (!ws) return NULL;
    struct exec_watch *w = calloc(1, sizeof *w);
    if (!w) {
        err_set(reterr, MOYAI_ENOMEM, "out of memory");
        release(x);
        return NULL;
    }
    w->wd = inotify_add_watch(ws->fd, dir, MASK);
    if (w->wd < 0) {
        if (errno == ENOSPC)
            limit(reterr, errno, "watches (fs.inotify.max_user_watches)");
        else
            err_sys(reterr, errno, "cannot watch '%s'", dir);
        free(w);
        release(x);
        return NULL;
    }
    w->x = x;
    w->fn = fn;
    w->arg = arg;
    w->next = ws->list;
    ws->list = w;
    return w;
}

void exec_watch_free(struct exec_watch *w) {
    if (!w) return;
    struct exec *x = w->x;
    struct exec_watches *ws = x->watches;
    bool shared = false;
    for (struct exec_watch **p = &ws->list; *p;) {
        if (*p == w) {
            *p = w->next;
            continue;
        }
        if ((*p)->wd == w->wd) shared = true;
        p = &(*p)->next;
    }
    if (!shared && w->wd >= 0) inotify_rm_watch(ws->fd, w->wd);
    free(w);
    release(x);
}
