/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing without ever blocking, though descriptors 1 and 2 are shared with whoever started us, and so must not be made
 * non-blocking: a pipe or terminal is opened again through /proc, which gives an open file of our own; a socket is
 * written with MSG_DONTWAIT; files and devices do not block. Where a pipe cannot be opened again (somebody else's), it
 * is asked whether there is room, and given no more than a pipe then takes. What cannot be watched is tried again
 * every RETRY.
 */
#include "cli/run_output.h"

#include "base/err.h"
#include "cli/cli.h"
#include "cli/run_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (64u << 10)
#define LOW   (OUTPUT_HIGH / 2)
#define RETRY (10 * MOYAI_MS)

enum sink_kind {
    SINK_OWN,    /* an open file of our own, non-blocking */
    SINK_SOCKET, /* shared */
    SINK_ASKED,  /* shared pipe or terminal: poll(2) before each write */
    SINK_FILE,   /* never blocks */
};

/* Our standard output or standard error. */
struct sink {
    struct output *o;
    enum sink_kind kind;
    int fd;
    const char *name;
    struct lines_out lines;
    struct exec_fd *watched; /* SINK_OWN */
    struct exec_timer retry; /* others */
    bool blocked;            /* the last write found no room */
    bool full;               /* the streams that lead here are not read */
    bool gone;               /* its reader has gone, or it cannot be written */
};

/* One process's standard output or standard error. */
struct stream {
    struct output *o;
    const struct output_pair *pair; /* that it is one half of */
    struct sink *sink;
    struct exec_fd *watched; /* NULL: closed, or given */
    int fd;
    int file; /* -1: none */
    bool open, paused;
    struct lines_in lines;
};

struct output_pair {
    struct output_pair *next;
    unsigned group, index;
    char host[40];           /* empty: this one */
    void (*room)(void *arg); /* of what is given; NULL: it is read */
    void *arg;
    struct stream s[2];
};

struct output {
    struct exec *x;
    struct output_cfg cfg;
    struct sink sinks[2];
    struct sink *of[2]; /* both the same, if our two outputs are */
    struct output_pair *pairs;
    size_t open; /* streams */
    bool failed, changed;
    int unwritable; /* errno */
    struct exec_hook hook;
    uint8_t chunk[CHUNK];
};

/* Have `changed` called before the next poll. */
static void mark(struct output *o) {
    o->changed = true;
    exec_attention(o->x);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void stream_close(struct stream *s);

static void resume(struct sink *k) {
    k->full = false;
    for (struct output_pair *p = k->o->pairs; p; p = p->next)
        for (int i = 0; i < 2; i++) {
            struct stream *s = &p->s[i];
            if (s->sink != k || !s->paused) continue;
            s->paused = false;
            if (p->room) p->room(p->arg);
            if (s->watched) exec_fd_events(s->watched, UV_READABLE);
        }
}

/* Nobody reads it any more, or it cannot be written: e, which is said unless it is EPIPE. */
static void give_up(struct sink *k, int e) {
    struct output *o = k->o;
    k->gone = true;
    lines_take(&k->lines, lines_size(&k->lines));
    if (k->watched) exec_fd_events(k->watched, 0);
    exec_timer_clear(o->x, &k->retry);
    for (struct output_pair *p = o->pairs; p; p = p->next)
        for (int i = 0; i < 2; i++)
            if (p->s[i].sink == k && p->s[i].file < 0) stream_close(&p->s[i]);
    resume(k);
    if (e == EPIPE) return;
    o->failed = true;
    o->unwritable = e;
    output_say(o, "moyai run: cannot write to %s: %s", k->name, strerror(e));
}

static ssize_t put(const struct sink *k, const uint8_t *p, size_t n) {
    switch (k->kind) {
    case SINK_SOCKET:
        return send(k->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    case SINK_ASKED: {
        struct pollfd room = {.fd = k->fd, .events = POLLOUT};
        if (poll(&room, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
        return write(k->fd, p, n < PIPE_BUF ? n : PIPE_BUF);
    }
    case SINK_OWN:
    case SINK_FILE:
        break;
    }
    return write(k->fd, p, n);
}

static void sink_flush(struct sink *k) {
    struct output *o = k->o;
    if (k->gone || lines_size(&k->lines) == 0) return;
    k->blocked = false;
    while (lines_size(&k->lines) > 0) {
        ssize_t n = put(k, k->lines.p + k->lines.at, lines_size(&k->lines));
        if (n >= 0) {
            lines_take(&k->lines, (size_t)n);
            continue;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN) {
            give_up(k, errno);
            break;
        }
        k->blocked = true;
        break;
    }
    if (k->full && lines_size(&k->lines) <= LOW) resume(k);
    if (k->watched)
        exec_fd_events(k->watched, k->blocked ? UV_WRITABLE : 0);
    else if (k->blocked)
        exec_timer_set(o->x, &k->retry, moyai_now() + (moyai_ns)RETRY);
    if (lines_size(&k->lines) == 0) mark(o);
}

static void on_writable(struct exec_fd *f, int events, void *arg) {
    (void)f, (void)events;
    sink_flush(arg);
}

static void on_retry(struct exec *x, struct exec_timer *t) {
    (void)x;
    sink_flush((struct sink *)(void *)((char *)t - offsetof(struct sink, retry)));
}

/* Before each poll: what this turn has gathered goes out in one write. */
static void on_hook(struct exec_hook *h) {
    struct output *o = (struct output *)(void *)((char *)h - offsetof(struct output, hook));
    for (int i = 0; i < 2; i++)
        if (!o->sinks[i].blocked) sink_flush(&o->sinks[i]);
    if (!o->changed) return;
    o->changed = false;
    o->cfg.changed(o->cfg.arg);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void out_of_memory(struct output *o) {
    if (!o->failed) output_say(o, "moyai run: out of memory: output is lost");
    o->failed = true;
}

static void stream_close(struct stream *s) {
    if (!s->open) return;
    s->open = false;
    if (!s->sink->gone && lines_end(&s->sink->lines, &s->lines) < 0) out_of_memory(s->o);
    lines_in_done(&s->sink->lines, &s->lines);
    if (s->watched) exec_fd_free(s->watched, true, NULL);
    s->watched = NULL;
    if (s->file >= 0) close(s->file);
    s->file = -1;
    s->o->open--;
    mark(s->o);
}

static void file_path(const struct stream *s, char path[PATH_MAX]) {
    const struct output_pair *p = s->pair;
    snprintf(path, PATH_MAX, "%s/%u.%u.%s", s->o->cfg.dir, p->group, p->index, s == &p->s[1] ? "err" : "out");
}

static void to_file(struct stream *s, const uint8_t *p, size_t n) {
    struct output *o = s->o;
    while (n > 0) {
        ssize_t k = write(s->file, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) {
            int e = errno;
            char path[PATH_MAX];
            file_path(s, path);
            output_say(o, "moyai run: cannot write '%s', the rest of it is lost: %s", path, strerror(e));
            o->failed = true;
            close(s->file);
            s->file = -1;
            return;
        }
        p += k;
        n -= (size_t)k;
    }
}

static void take(struct stream *s, const uint8_t *p, size_t n) {
    struct output *o = s->o;
    struct sink *k = s->sink;
    if (s->file >= 0) to_file(s, p, n);
    if (!k->gone && lines_feed(&k->lines, &s->lines, p, n) < 0) out_of_memory(o);
    if (k->gone && s->file < 0) stream_close(s);
    if (!k->blocked && lines_size(&k->lines) >= OUTPUT_HIGH) sink_flush(k);
}

/* One portion. False: nothing more at the moment. */
static bool stream_read(struct stream *s) {
    struct output *o = s->o;
    struct sink *k = s->sink;
    if (!s->watched) return false;
    if (!k->gone && lines_size(&k->lines) >= OUTPUT_HIGH) {
        k->full = true;
        s->paused = true;
        exec_fd_events(s->watched, 0);
        return false;
    }
    ssize_t n = read(s->fd, o->chunk, CHUNK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return errno == EINTR;
    if (n <= 0) {
        stream_close(s);
        return false;
    }
    take(s, o->chunk, (size_t)n);
    return true;
}

static void on_readable(struct exec_fd *f, int events, void *arg) {
    (void)f, (void)events;
    (void)stream_read(arg); /* one portion, then it is the others' turn */
}

enum output_given output_give(struct output_pair *p, int which, const void *bytes, size_t n) {
    struct stream *s = &p->s[which - 1];
    struct sink *k = s->sink;
    if (!s->open) return OUTPUT_UNWANTED;
    take(s, bytes, n);
    exec_attention(s->o->x);
    if (!s->open) return OUTPUT_UNWANTED;
    if (k->gone || lines_size(&k->lines) < OUTPUT_HIGH) return OUTPUT_TAKEN;
    k->full = true;
    s->paused = true;
    return OUTPUT_FULL;
}

void output_close_given(struct output_pair *p) {
    for (int i = 0; p && i < 2; i++) stream_close(&p->s[i]);
}

void output_drain(struct output_pair *p) {
    if (!p) return;
    /* A pipe holds 64 KiB, or 1 MiB if asked to; somebody else who has it may go on writing. */
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 32 && stream_read(&p->s[i]); j++) {
        }
}

void output_finish(struct output *o) {
    for (struct output_pair *p = o->pairs; p; p = p->next)
        for (int i = 0; i < 2; i++) {
            struct stream *s = &p->s[i];
            while (stream_read(s)) {
            }
            if (s->watched && !s->paused) stream_close(s); /* somebody has its other end for whatever reason */
        }
}

void output_say(struct output *o, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    cli_line_of(text, sizeof text, fmt, ap);
    va_end(ap);
    struct sink *k = o->of[1];
    if (!k->gone && lines_say(&k->lines, text) < 0) o->failed = true;
    exec_attention(o->x);
}

bool output_done(const struct output *o) {
    return o->open == 0 && lines_size(&o->sinks[0].lines) == 0 && lines_size(&o->sinks[1].lines) == 0;
}

bool output_unread(const struct output *o) {
    return o->of[0]->gone;
}

int output_unwritable(const struct output *o) {
    return o->unwritable;
}

bool output_failed(const struct output *o) {
    return o->failed;
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool same_file(int a, int b) {
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
           x.st_rdev == y.st_rdev;
}

static int sink_open(struct sink *k, struct output *o, int fd) {
    k->o = o;
    k->fd = fd;
    k->kind = SINK_FILE;
    k->name = fd == 1 ? "standard output" : "standard error";
    k->lines.terminal = isatty(fd);
    exec_timer_init(&k->retry, on_retry);
    struct stat st;
    if (fstat(fd, &st) < 0) return 0; /* the first write says why */
    if (S_ISSOCK(st.st_mode)) k->kind = SINK_SOCKET;
    if (!S_ISFIFO(st.st_mode) && !k->lines.terminal) return 0;
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own < 0) {
        k->gone = errno == ENXIO; /* a pipe without a reader */
        k->kind = SINK_ASKED;
        return 0;
    }
    k->watched = exec_fd_new(o->x, own, 0, on_writable, k);
    if (!k->watched) {
        close(own);
        return MOYAI_ENOMEM;
    }
    k->kind = SINK_OWN;
    k->fd = own;
    return 0;
}

int output_new(struct output **ret, struct exec *x, const struct output_cfg *cfg, struct moyai_error *reterr) {
    if (cfg->dir && mkdir(cfg->dir, 0777) < 0 && errno != EEXIST)
        return err_sys(reterr, errno, "cannot make the directory '%s'", cfg->dir);
    struct output *o = calloc(1, sizeof *o);
    if (!o) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    o->x = x;
    o->cfg = *cfg;
    o->hook.fn = on_hook;
    exec_hook_add(x, &o->hook);
    int rc = sink_open(&o->sinks[0], o, 1);
    if (rc == 0) rc = sink_open(&o->sinks[1], o, 2);
    if (rc < 0) {
        output_free(o);
        return err_set(reterr, rc, "out of memory");
    }
    o->of[0] = &o->sinks[0];
    o->of[1] = same_file(1, 2) ? &o->sinks[0] : &o->sinks[1];
    *ret = o;
    return 0;
}

void output_free(struct output *o) {
    if (!o) return;
    while (o->pairs) {
        struct output_pair *p = o->pairs;
        o->pairs = p->next;
        for (int i = 0; i < 2; i++) stream_close(&p->s[i]);
        free(p);
    }
    for (int i = 0; i < 2; i++) {
        exec_timer_clear(o->x, &o->sinks[i].retry);
        exec_fd_free(o->sinks[i].watched, true, NULL);
        lines_out_done(&o->sinks[i].lines);
    }
    exec_hook_remove(o->x, &o->hook);
    free(o);
}

static void set_prefix(const struct output_pair *p, struct stream *s) {
    static const char *const colors[] = {"32", "33", "34", "35", "36", "92", "93", "94", "95", "96"};
    const struct output *o = s->o;
    if (!o->cfg.prefix) return;
    const char *color = colors[(p->group * 7 + p->index) % (sizeof colors / sizeof colors[0])];
    bool colored = o->cfg.color && s->sink->lines.terminal;
    snprintf(s->lines.prefix, sizeof s->lines.prefix, "%s%s%s[%u.%u%s%s]%s ", colored ? "\033[" : "",
             colored ? color : "", colored ? "m" : "", p->group, p->index, p->host[0] ? " " : "", p->host,
             colored ? "\033[0m" : "");
}

/* Files and devices (/dev/null, a terminal) only: a FIFO would make us wait for somebody who reads it, at the beginning
 * or later, and a socket cannot be opened. -1: errno. */
static int open_file(const char *path) {
    struct stat st;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0) {
        if (errno == ENXIO) errno = ENOTSUP;
        return -1;
    }
    bool good = fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISCHR(st.st_mode));
    if (good && fcntl(fd, F_SETFL, 0) == 0) return fd;
    int e = good ? errno : ENOTSUP;
    close(fd);
    errno = e;
    return -1;
}

/* Its file, if there is to be one. */
static int stream_begin(struct output *o, struct output_pair *p, int which, struct moyai_error *reterr) {
    struct stream *s = &p->s[which];
    s->o = o;
    s->pair = p;
    s->sink = o->of[which];
    s->file = -1;
    set_prefix(p, s);
    if (!o->cfg.dir) return 0;
    char path[PATH_MAX];
    file_path(s, path);
    s->file = open_file(path);
    if (s->file >= 0) return 0;
    if (errno == ENOTSUP)
        return err_set(reterr, MOYAI_EEXIST, "cannot write to '%.150s': it is there, and no file", path);
    return err_sys(reterr, errno, "cannot make '%s'", path);
}

static void stream_opened(struct stream *s) {
    s->open = true;
    s->o->open++;
}

static int stream_open(struct output *o, struct output_pair *p, int which, int *writer, struct moyai_error *reterr) {
    struct stream *s = &p->s[which];
    int rc = stream_begin(o, p, which, reterr);
    if (rc < 0) return rc;
    int fd[2];
    if (pipe2(fd, O_CLOEXEC) < 0) {
        rc = err_sys(reterr, errno, "cannot make a pipe");
        if (s->file >= 0) close(s->file);
        return rc;
    }
    (void)fcntl(fd[0], F_SETFL, O_NONBLOCK);
    s->watched = exec_fd_new(o->x, fd[0], UV_READABLE, on_readable, s);
    if (!s->watched) {
        close(fd[0]);
        close(fd[1]);
        if (s->file >= 0) close(s->file);
        return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    }
    s->fd = fd[0];
    *writer = fd[1];
    stream_opened(s);
    return 0;
}

int output_open(struct output *o, struct output_pair **ret, unsigned group, unsigned index, int fd[2],
                struct moyai_error *reterr) {
    struct output_pair *p = calloc(1, sizeof *p);
    if (!p) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    p->group = group;
    p->index = index;
    int rc = stream_open(o, p, 0, &fd[0], reterr);
    if (rc < 0) {
        free(p);
        return rc;
    }
    rc = stream_open(o, p, 1, &fd[1], reterr);
    if (rc < 0) {
        close(fd[0]);
        stream_close(&p->s[0]);
        lines_in_done(&p->s[0].sink->lines, &p->s[0].lines);
        free(p);
        return rc;
    }
    p->next = o->pairs;
    o->pairs = p;
    *ret = p;
    return 0;
}

int output_open_given(struct output *o, struct output_pair **ret, unsigned group, unsigned index, const char *host,
                      void (*room)(void *arg), void *arg, struct moyai_error *reterr) {
    struct output_pair *p = calloc(1, sizeof *p);
    if (!p) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    p->group = group;
    p->index = index;
    p->room = room;
    p->arg = arg;
    snprintf(p->host, sizeof p->host, "%s", host);
    for (int i = 0; i < 2; i++) {
        int rc = stream_begin(o, p, i, reterr);
        if (rc < 0) {
            output_close_given(p);
            free(p);
            return rc;
        }
        stream_opened(&p->s[i]);
        if (p->s[i].sink->gone && p->s[i].file < 0) stream_close(&p->s[i]);
    }
    p->next = o->pairs;
    o->pairs = p;
    *ret = p;
    return 0;
}
