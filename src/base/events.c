/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines are gathered in a buffer and appended whole, so that several writers (two nodes of a process, or processes
 * that inherited one path) can share a file. Who empties it is settled by flock: a writer holds the shared lock as
 * long as it lives; the one that gets the exclusive lock first is alone and may truncate. It has written nothing when
 * it steps down to the shared lock, so another that slips in between truncates nothing of value.
 */
#include "base/events.h"

#include "base/err.h"
#include "base/id.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct events {
    pthread_mutex_t lock;
    struct moyai_log *log;
    char *path;
    int fd; /* -1: ended by a failure */
    pid_t pid;
    char *buf;
    size_t n, cap;
    moyai_ns oldest; /* when the first of the gathered lines came */
};

static int64_t wall_now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The log ends here; the run goes on. */
static void give_up(struct events *e, int sys) {
    close(e->fd);
    e->fd = -1;
    e->n = 0;
    log_error(e->log, "base", "MOYAI-EVENTS-LOST", "the event log \"%s\" ends: %s", e->path, strerror(sys));
}

static void flush(struct events *e) {
    if (e->fd < 0 || e->n == 0) return;
    if (getpid() != e->pid) { /* inherited by fork: the lines are the parent's */
        e->n = 0;
        close(e->fd);
        e->fd = -1;
        return;
    }
    for (size_t at = 0; at < e->n;) {
        ssize_t k = write(e->fd, e->buf + at, e->n - at);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) {
            give_up(e, k < 0 ? errno : ENOSPC);
            return;
        }
        at += (size_t)k;
    }
    e->n = 0;
}

static bool room(struct events *e, size_t more) {
    if (e->cap - e->n >= more) return true;
    size_t cap = e->n + more + EVENTS_BUFFER;
    char *buf = realloc(e->buf, cap);
    if (!buf) return false;
    e->buf = buf;
    e->cap = cap;
    return true;
}

static bool put(struct events *e, const char *text, size_t n) {
    if (!room(e, n)) return false;
    memcpy(e->buf + e->n, text, n);
    e->n += n;
    return true;
}

static bool put_text(struct events *e, const char *text) {
    return put(e, text, strlen(text));
}

static bool put_string(struct events *e, const char *text) {
    size_t n = strnlen(text, EVENTS_TEXT);
    if (!room(e, JSON_WORST * n + 2)) return false;
    e->buf[e->n++] = '"';
    e->n += json_escape(e->buf + e->n, text, n);
    e->buf[e->n++] = '"';
    return true;
}

static bool put_int(struct events *e, int64_t i) {
    char text[24];
    return put(e, text, (size_t)snprintf(text, sizeof text, "%" PRId64, i));
}

static bool put_double(struct events *e, double d) {
    char text[40];
    if (!isfinite(d)) return put_text(e, "null"); /* JSON has no other numbers */
    int n = snprintf(text, sizeof text, "%.17g", d);
    for (int i = 0; i < n; i++) {
        if (text[i] == ',') text[i] = '.'; /* a program with a locale of its own */
    }
    return put(e, text, (size_t)n);
}

static bool put_field(struct events *e, const struct event_field *f) {
    if (!put_text(e, ",") || !put_string(e, f->name) || !put_text(e, ":")) return false;
    switch (f->type) {
    case EVENT_TEXT:
        return f->v.text ? put_string(e, f->v.text) : put_text(e, "null");
    case EVENT_INT:
        return put_int(e, f->v.i);
    case EVENT_DOUBLE:
        return put_double(e, f->v.d);
    }
    return false;
}

static bool put_line(struct events *e, const struct moyai_node_id *node, const char *kind,
                     const struct event_field *fields, size_t n, moyai_ns now) {
    bool good =
        put_text(e, "{\"wall\":") && put_int(e, wall_now()) && put_text(e, ",\"mono\":") && put_int(e, (int64_t)now);
    if (node) {
        char hex[33];
        id_format(node->b, hex);
        good = good && put_text(e, ",\"node\":\"") && put_text(e, hex) && put_text(e, "\"");
    }
    good = good && put_text(e, ",\"kind\":") && put_string(e, kind);
    for (size_t i = 0; i < n && good; i++) good = put_field(e, &fields[i]);
    return good && put_text(e, "}\n");
}

/* The path with "%p" replaced; NULL: out of memory. */
static char *expand(const char *path) {
    char pid[24];
    int n = snprintf(pid, sizeof pid, "%ld", (long)getpid());
    size_t len = strlen(path);
    char *to = malloc(len * (size_t)n + 1), *at = to;
    if (!to) return NULL;
    for (const char *p = path; *p; p++) {
        if (p[0] == '%' && p[1] == 'p') {
            memcpy(at, pid, (size_t)n);
            at += n;
            p++;
        } else {
            *at++ = *p;
        }
    }
    *at = 0;
    return to;
}

static int open_file(struct events *e, struct moyai_error *reterr) {
    struct stat st;
    e->fd = open(e->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (e->fd < 0) return err_sys(reterr, errno, "cannot open the event log \"%s\"", e->path);
    if (fstat(e->fd, &st) < 0) return err_sys(reterr, errno, "cannot look at the event log \"%s\"", e->path);
    if (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode)) { /* a pipe could stop the run */
        return err_set(reterr, MOYAI_EINVAL, "the event log \"%s\" is not a file", e->path);
    }
    if (S_ISREG(st.st_mode)) {
        bool alone = flock(e->fd, LOCK_EX | LOCK_NB) == 0;
        if (alone && ftruncate(e->fd, 0) < 0) return err_sys(reterr, errno, "cannot empty \"%s\"", e->path);
        (void)flock(e->fd, LOCK_SH); /* a file system without locks: later writers append, which is no harm */
    }
    return 0;
}

static bool put_header(struct events *e) {
    return put_text(e, "{\"moyai-events\":") && put_int(e, EVENTS_VERSION) && put_text(e, ",\"moyai\":") &&
           put_string(e, moyai_version()) && put_text(e, ",\"pid\":") && put_int(e, e->pid) &&
           put_text(e, ",\"wall\":") && put_int(e, wall_now()) && put_text(e, ",\"mono\":") &&
           put_int(e, (int64_t)moyai_now()) && put_text(e, "}\n");
}

int events_open(struct events **ret, const char *path, struct moyai_log *log, struct moyai_error *reterr) {
    struct events *e = calloc(1, sizeof *e);
    if (!e) return err_set(reterr, MOYAI_ENOMEM, "%s", moyai_strerror(MOYAI_ENOMEM));
    e->fd = -1;
    e->pid = getpid();
    e->log = log;
    e->path = expand(path);
    int rc = e->path && put_header(e) ? 0 : err_set(reterr, MOYAI_ENOMEM, "%s", moyai_strerror(MOYAI_ENOMEM));
    if (rc == 0) rc = open_file(e, reterr);
    int sys = rc == 0 ? pthread_mutex_init(&e->lock, NULL) : 0;
    if (sys) rc = err_sys(reterr, sys, "cannot make a lock");
    if (rc < 0) {
        if (e->fd >= 0) close(e->fd);
        free(e->path);
        free(e->buf);
        free(e);
        return rc;
    }
    e->oldest = moyai_now();
    *ret = e;
    return 0;
}

void events_flush(struct events *e) {
    if (!e) return;
    pthread_mutex_lock(&e->lock);
    flush(e);
    pthread_mutex_unlock(&e->lock);
}

void events_close(struct events *e) {
    if (!e) return;
    flush(e);
    if (e->fd >= 0) close(e->fd);
    pthread_mutex_destroy(&e->lock);
    free(e->path);
    free(e->buf);
    free(e);
}

void events_write(struct events *e, const struct moyai_node_id *node, const char *kind,
                  const struct event_field *fields, size_t n) {
    if (!e) return;
    pthread_mutex_lock(&e->lock);
    if (e->fd >= 0) {
        moyai_ns now = moyai_now();
        size_t start = e->n;
        if (start == 0) e->oldest = now;
        if (put_line(e, node, kind, fields, n, now)) {
            if (e->n >= EVENTS_BUFFER || now - e->oldest >= (moyai_ns)EVENTS_FLUSH_TIME) flush(e);
        } else {
            e->n = start; /* what was gathered before is whole */
            flush(e);
            if (e->fd >= 0) give_up(e, ENOMEM);
        }
    }
    pthread_mutex_unlock(&e->lock);
}
