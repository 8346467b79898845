/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/forward.h"

#include "base/dur.h"
#include "base/err.h"
#include "base/rng.h"
#include "exec/child.h"
#include "link/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK       (2 * MOYAI_SEC)
#define FIRST      (1 * MOYAI_SEC)
#define MOST       (60 * MOYAI_SEC)
#define RETRY      (100 * MOYAI_MS)
#define RETRY_MOST (10 * MOYAI_SEC)
#define PATIENCE   (60 * MOYAI_SEC)
#define YIELD      (500 * MOYAI_MS) /* all that leave at one time have said so by then */
#define SILENCE    (30 * MOYAI_SEC)
#define HEAR_MOST  65536u          /* bytes that are read of it ... */
#define HEAR_EVERY (1 * MOYAI_SEC) /* in this time: behind one that says more the pipe fills, and it waits */
#define LINES      3u              /* the last ones that ssh has said: the very last seldom says the cause */
#define LAST       150u            /* bytes of each */
#define SAID       (LINES * (LAST + 2) + 1)
#define NAMED      400u         /* of a text: which ssh */
#define WORSE      (SAID + 400) /* of what has gone wrong */

struct forward {
    struct exec *x;
    struct forward_cfg cfg;
    struct moyai_rng rng;
    char name[40];         /* of the lock's file */
    bool runs, stopped;    /* ssh; nothing is begun any more */
    struct exec_kept lock; /* -1: another has it */
    struct exec_kept next; /* then: shared by all that stand ready to take it; -1: this one does not */
    bool leaves;           /* and so does not stand ready */
    struct exec_timer look_timer, start_timer, dial_timer, yield_timer;

    struct exec_child *child;
    struct exec_kept alive; /* the pipe whose end is the shell's; -1: none */
    struct exec_fd *said;
    int said_fd;
    size_t heard; /* since hear_since */
    moyai_ns hear_since;
    struct exec_timer hear_timer;               /* set: nothing is read until then */
    char last[LINES][LAST + 1], line[LAST + 1]; /* what it has said last, the latest first, and what it is saying */
    size_t n_line;
    const char *killed; /* why; NULL: it was not */
    moyai_ns started;
    moyai_dur wait;
    bool complained; /* about a lock that cannot be had */
    bool of_use;     /* this ssh has been */
    bool wrong;      /* something has been shown to be so, and not that it is not any more */
    char told[WORSE];
    char last_fault[WORSE];    /* since there was a link */
    bool looked, failed;       /* for the lock; and not only to connect, where somebody may be there soon */
    moyai_ns told_at, tell_at; /* not again before */
    moyai_dur pause;           /* until then; 0: nothing was told yet */

    uint16_t port; /* to connect to */
    moyai_dur retry;
    bool dialling;         /* until it has failed, or the link has ended */
    bool linked, answered; /* answered: by a node, this time */
    moyai_ns vain;         /* since when connections were taken and nobody has answered; 0: not so */
    moyai_ns until;        /* the port is to be open; UINT64_MAX: it has been */
};

static const char *leads_to(const struct forward *f) {
    return f->cfg.line->host[f->cfg.line->reverse ? 0 : 1];
}

/* A bit earlier or later, so that what failed at once is not tried again at once. */
static moyai_ns soon(struct forward *f, moyai_dur d) {
    uint64_t n = (uint64_t)d;
    return moyai_now() + n - n / 8 + rng_below(&f->rng, n / 4 + 1);
}

static void double_up_to(moyai_dur *d, moyai_dur most) {
    *d = *d < most / 2 ? *d * 2 : most;
}

/* Without numbers: those of ports and processes make no other reason. */
static bool same(const char *a, const char *b) {
    for (;; a++, b++) {
        a += strspn(a, "0123456789");
        b += strspn(b, "0123456789");
        if (*a != *b) return false;
        if (!*a) return true;
    }
}

/* What does not work is an error, since that is shown by default, but with the pauses of warnings: is it time? */
static bool due(const struct forward *f, const char *text) {
    moyai_ns now = moyai_now();
    return f->pause == 0 || now >= f->tell_at || (now - f->told_at >= (moyai_ns)f->cfg.repeat && !same(f->told, text));
}

static void told(struct forward *f, const char *text) {
    snprintf(f->told, sizeof f->told, "%s", text);
    f->wrong = true;
    f->pause = f->pause ? f->pause : f->cfg.repeat;
    f->told_at = moyai_now();
    f->tell_at = f->told_at + (moyai_ns)f->pause;
    double_up_to(&f->pause, LOG_REPEAT_MOST);
}

/* To be read by who can mend it: the program is his choice, or is not installed. */
static const char *about_program(const struct forward *f) {
    return strcmp(f->cfg.ssh, "ssh") == 0 ? "Is OpenSSH's client installed, or is MOYAI_SSH to name another program?"
                                          : "MOYAI_SSH names it: is that right? Without it, ssh is run";
}

/* runs: the program could be run at all. */
static void complain(struct forward *f, const char *text, bool runs) {
    const struct gridfile_line *l = f->cfg.line;
    if (!due(f, text)) {
        log_warning(f->cfg.log, "overlay", "MOYAI-FORWARD", "\"%s\", line %u: %s; again in %s", f->cfg.file, l->number,
                    text, DUR(f->wait));
        return;
    }
    if (!runs) {
        log_error(f->cfg.log, "overlay", "MOYAI-FORWARD", "\"%s\", line %u: %s; again in %s. %s", f->cfg.file,
                  l->number, text, DUR(f->wait), about_program(f));
        told(f, text);
        return;
    }
    char more[32] = "";
    if (l->port) snprintf(more, sizeof more, " -p %u", l->port);
    log_error(f->cfg.log, "overlay", "MOYAI-FORWARD",
              "\"%s\", line %u: %s; again in %s. Does '%s -o BatchMode=yes%s%s%s%s%s %s true' work?", f->cfg.file,
              l->number, text, DUR(f->wait), f->cfg.ssh, l->user[0] ? " -l " : "", l->user, more,
              l->jump[0] ? " -J " : "", l->jump, leads_to(f));
    told(f, text);
}

static void fault(struct forward *f, const char *text, bool failed) {
    f->failed |= failed;
    snprintf(f->last_fault, sizeof f->last_fault, "%s", text);
}

/* Somebody has taken the connection, if only to close it, or to say nothing, since nobody is there. */
static bool was_taken(const struct moyai_error *why) {
    return why->code == MOYAI_ECLOSED || why->code == MOYAI_EPROTO ||
           (why->code == MOYAI_ETIMEDOUT && why->sys == ETIMEDOUT);
}

/* "ssh to far", or whose it is, and what it needs to get there. */
static void name_ssh(const struct forward *f, char out[NAMED]) {
    const struct gridfile_line *l = f->cfg.line;
    char port[24] = "";
    if (l->port) snprintf(port, sizeof port, " (port %u)", l->port);
    if (f->runs)
        snprintf(out, NAMED, "%s to %s%s%s%s", f->cfg.ssh, leads_to(f), port, l->jump[0] ? " by way of " : "", l->jump);
    else
        snprintf(out, NAMED, "ssh from %s", l->host[1]);
}

/* Why there is no link, in words of the line: its port of this host means nothing to who has not chosen it. */
static void why_not(const struct forward *f, const struct moyai_error *why, char out[WORSE]) {
    const struct gridfile_line *l = f->cfg.line;
    const bool there = strcmp(l->to_host, "127.0.0.1") == 0;
    const char *quote = f->last[0][0] ? "\"" : "", *host = there ? "port " : l->to_host, *colon = there ? "" : ":";
    char ssh[NAMED], at[24];
    name_ssh(f, ssh);
    const size_t n = (size_t)snprintf(at, sizeof at, "127.0.0.1:%u: ", f->port);
    if (was_taken(why))
        snprintf(out, WORSE, "%s is up, but no node answers at %s%s%u there%s%s%s%s", ssh, host, colon, l->to,
                 *quote ? "; it has said " : "", quote, f->last[0], quote);
    else if (why->code != MOYAI_EUNREACHABLE)
        snprintf(out, WORSE, "%s, %s%s%u there: %s", ssh, host, colon, l->to,
                 why->text + (strncmp(why->text, at, n) == 0 ? n : 0));
    else if (f->runs)
        snprintf(out, WORSE, "%s has not got through yet%s%s%s%s", ssh, *quote ? "; it has said " : "", quote,
                 f->last[0], quote);
    else
        snprintf(out, WORSE, "%s has not got through yet: nothing listens at port %u here", ssh, f->port);
}

/* What is wrong at the other end of the line, while ssh does its part. */
static void blame_far(struct forward *f, const char *text, const char *advice) {
    fault(f, text, true);
    if (!due(f, text)) return;
    log_error(f->cfg.log, "overlay", "MOYAI-FORWARD", "\"%s\", line %u: %s%s", f->cfg.file, f->cfg.line->number, text,
              advice);
    told(f, text);
}

/* Connections are taken and come to nothing. */
static void nobody_there(struct forward *f, const char *text) {
    const moyai_ns now = moyai_now();
    if (!f->vain) f->vain = now;
    if (now - f->vain >= (moyai_ns)f->cfg.silence)
        blame_far(f, text, ". Does one run there, with this grid file, or is to= another port?");
}

/* ---- the lock -------------------------------------------------------------------------------- */

/* Not one that has been removed meanwhile. */
static bool is_at(int fd, const char *path) {
    struct stat here, there;
    return fstat(fd, &here) == 0 && stat(path, &there) == 0 && here.st_ino == there.st_ino &&
           here.st_dev == there.st_dev;
}

/* 1: it is ours; 0: another's. An error: *why. Whoever ends in order removes the file, so the one that was locked must
 * still be the one that is there. */
static int take_lock(struct forward *f, struct moyai_error *why) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", f->cfg.dir, f->name);
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return err_sys(why, errno, "cannot open \"%.200s\"", path);
    int rc = 0;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        rc = errno == EWOULDBLOCK ? 0 : err_sys(why, errno, "cannot lock \"%.200s\"", path);
    else
        rc = is_at(fd, path);
    if (rc == 1)
        exec_keep(f->x, &f->lock, fd);
    else
        close(fd);
    return rc;
}

/* Who stands ready holds this one, too, with the others that do. */
static int open_next(const struct forward *f, int flags, char path[512]) {
    snprintf(path, 512, "%s/%s.next", f->cfg.dir, f->name);
    return open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
}

static void stand_ready(struct forward *f) {
    if (f->next.fd >= 0 || f->leaves) return;
    char path[512];
    const int fd = open_next(f, O_CREAT, path);
    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 && is_at(fd, path))
        exec_keep(f->x, &f->next, fd);
    else if (fd >= 0)
        close(fd); /* it is being looked at, or removed: next time */
}

static void stand_down(struct forward *f) {
    char path[512];
    if (f->next.fd < 0) return;
    snprintf(path, sizeof path, "%s/%s.next", f->cfg.dir, f->name);
    if (flock(f->next.fd, LOCK_EX | LOCK_NB) == 0) unlink(path); /* nobody else does */
    exec_keep_close(&f->next);
}

static bool another_stands_ready(const struct forward *f) {
    char path[512];
    const int fd = open_next(f, 0, path);
    const bool does = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return does;
}

static void drop_lock(struct forward *f) {
    char path[512];
    if (f->lock.fd < 0) return;
    snprintf(path, sizeof path, "%s/%s", f->cfg.dir, f->name);
    unlink(path); /* while it is ours */
    exec_keep_close(&f->lock);
}

static void on_look(struct exec *x, struct exec_timer *t) {
    struct forward *f = (struct forward *)((char *)t - offsetof(struct forward, look_timer));
    struct moyai_error why = {0};
    int rc = f->leaves && another_stands_ready(f) ? 0 : take_lock(f, &why);
    f->looked = true;
    f->failed = false; /* ssh has not been begun yet */
    if (rc == 0) stand_ready(f);
    if (rc != 0) stand_down(f);
    if (rc < 0) fault(f, why.text, true);
    if (rc < 0 && !f->complained) {
        f->complained = true;
        log_error(f->cfg.log, "overlay", "MOYAI-FORWARD", "\"%s\", line %u: %s", f->cfg.file, f->cfg.line->number,
                  why.text);
    }
    if (rc <= 0)
        exec_timer_set(x, t, soon(f, f->cfg.look));
    else if (f->runs)
        exec_timer_set(x, &f->start_timer, 1);
    else
        exec_timer_set(x, &f->dial_timer, 1);
}

/* ---- ssh ------------------------------------------------------------------------------------- */

/* "$@" is ssh. The reader ends it with everything that it has started, as they are a process group. Then the status is
 * nobody's concern; else it is that of ssh. */
static const char guardian[] = "exec 3<&0\n"
                               "\"$@\" </dev/null 3<&- &\n"
                               "ssh=$!\n"
                               "{ read -r nothing <&3; kill -9 0; } 2>/dev/null &\n"
                               "reader=$!\n"
                               "exec 3<&-\n"
                               "wait $ssh 2>/dev/null\n"
                               "status=$?\n"
                               "kill -9 $reader\n"
                               "exit $status\n";

struct command {
    const char *argv[48];
    size_t n;
    char forward[200], port[8];
};

static void add(struct command *c, const char *word) {
    c->argv[c->n++] = word;
}

static void command(const struct forward *f, struct command *c) {
    /* What is asked of the user's own settings is not to be taken over by them: a shared connection would make the
     * forward outlive the process, and nobody is there to be asked. */
    static const char *const options[] = {
        "BatchMode=yes",     "ExitOnForwardFailure=yes", "ServerAliveInterval=15", "ServerAliveCountMax=3",
        "ConnectTimeout=20", "ControlMaster=no",         "ControlPath=none",       "PermitLocalCommand=no",
    };
    const struct gridfile_line *l = f->cfg.line;
    c->n = 0;
    add(c, "/bin/sh");
    add(c, "-c");
    add(c, guardian);
    add(c, "moyai-forward");
    add(c, f->cfg.ssh);
    add(c, "-N");
    add(c, "-T");
    add(c, "-a");
    add(c, "-x");
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        add(c, "-o");
        add(c, options[i]);
    }
    if (l->user[0]) {
        add(c, "-l");
        add(c, l->user);
    }
    if (l->port) {
        snprintf(c->port, sizeof c->port, "%u", l->port);
        add(c, "-p");
        add(c, c->port);
    }
    if (l->jump[0]) {
        add(c, "-J");
        add(c, l->jump);
    }
    snprintf(c->forward, sizeof c->forward, "127.0.0.1:%u:%s:%u", f->port, l->to_host, l->to);
    add(c, l->reverse ? "-R" : "-L");
    add(c, c->forward);
    add(c, l->host[l->reverse ? 0 : 1]);
    add(c, NULL);
}

/* The end of a line that ssh says. */
static void line_ends(struct forward *f) {
    while (f->n_line > 0 && (f->line[f->n_line - 1] == '\r' || f->line[f->n_line - 1] == ' ')) f->n_line--;
    if (f->n_line > 0) {
        memmove(f->last[1], f->last[0], sizeof f->last - sizeof f->last[0]);
        err_fit(f->last[0], sizeof f->last[0], f->line, f->n_line);
    }
    f->n_line = 0;
}

/* ', and said last: "..."', or nothing if it has said nothing. */
static void quote(const struct forward *f, char out[SAID + 24]) {
    size_t n = 0;
    out[0] = 0;
    for (unsigned i = LINES; i-- > 0;)
        if (f->last[i][0])
            n += (size_t)snprintf(out + n, SAID + 24 - n, "%s%s", n ? "; " : ", and said last: \"", f->last[i]);
    if (n) snprintf(out + n, SAID + 24 - n, "\"");
}

static void hear(struct forward *f, size_t most) {
    char buf[1024];
    ssize_t n;
    for (; most >= sizeof buf && (n = read(f->said_fd, buf, sizeof buf)) > 0; most -= (size_t)n, f->heard += (size_t)n)
        for (ssize_t k = 0; k < n; k++)
            if (buf[k] == '\n')
                line_ends(f);
            else if (f->n_line < LAST)
                f->line[f->n_line++] = buf[k];
}

static void on_said(struct exec_fd *fd, int events, void *arg) {
    struct forward *f = arg;
    const moyai_ns now = moyai_now();
    if (now - f->hear_since >= (moyai_ns)HEAR_EVERY) {
        f->hear_since = now;
        f->heard = 0;
    }
    hear(f, HEAR_MOST - f->heard);
    const bool much = HEAR_MOST - f->heard < 1024;
    if (much || events & UV_DISCONNECT) exec_fd_events(fd, 0);
    if (much) exec_timer_set(f->x, &f->hear_timer, f->hear_since + (moyai_ns)HEAR_EVERY);
}

static void on_hear(struct exec *x, struct exec_timer *t) {
    struct forward *f = (struct forward *)((char *)t - offsetof(struct forward, hear_timer));
    (void)x;
    exec_fd_events(f->said, UV_READABLE | UV_DISCONNECT);
}

static void stop_dialling(struct forward *f) {
    exec_timer_clear(f->x, &f->dial_timer);
    if (f->dialling) f->cfg.ops->cancel(f->cfg.ctx, f);
    f->dialling = f->linked = false;
}

static void let_go(struct forward *f) {
    if (f->child) {
        /* Whatever ssh has started is of its group; nothing of it has anything to put in order. */
        (void)exec_child_kill(f->child, SIGKILL, true);
        exec_child_free(f->child);
    }
    f->child = NULL;
    exec_keep_close(&f->alive);
    exec_timer_clear(f->x, &f->hear_timer);
    if (f->said) exec_fd_free(f->said, true, NULL);
    f->said = NULL;
}

static void again(struct forward *f) {
    exec_timer_set(f->x, &f->start_timer, soon(f, f->wait));
    double_up_to(&f->wait, f->cfg.most);
}

/* There is no such program, or it is none: what the shell says of it, without how that calls itself. */
static bool not_run(const struct forward *f, int status, char text[WORSE]) {
    static const char shell[] = "moyai-forward: ";
    if (f->killed || status == EXEC_STATUS_UNKNOWN || !WIFEXITED(status) || WEXITSTATUS(status) < 126 ||
        WEXITSTATUS(status) > 127 || strncmp(f->last[0], shell, sizeof shell - 1) != 0)
        return false;
    const char *why = strstr(f->last[0], f->cfg.ssh);
    why = why && strncmp(why + strlen(f->cfg.ssh), ": ", 2) == 0 ? why + strlen(f->cfg.ssh) + 2 : f->last[0];
    snprintf(text, WORSE, "cannot run '%.300s': %s", f->cfg.ssh, why);
    return true;
}

static void on_end(struct exec_child *c, int status, void *arg) {
    struct forward *f = arg;
    (void)c;
    hear(f, HEAR_MOST); /* what the pipe has */
    line_ends(f);
    /* One that has run for long has not failed to begin. */
    const moyai_ns lived = moyai_now() - f->started;
    if (lived > (moyai_ns)f->cfg.most) f->wait = f->cfg.first;
    if (f->of_use && lived > (moyai_ns)LOG_FORGET) f->pause = 0;
    char how[64], said[SAID + 24], text[WORSE];
    if (f->killed)
        snprintf(how, sizeof how, "was ended");
    else if (status == EXEC_STATUS_UNKNOWN)
        snprintf(how, sizeof how, "has ended");
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof how, "has ended with status %d", WEXITSTATUS(status));
    quote(f, said);
    snprintf(text, sizeof text, "%s to %s %s%s%s%s", f->cfg.ssh, leads_to(f), how, f->killed ? " since " : "",
             f->killed ? f->killed : "", said);
    const bool runs = !not_run(f, status, text);
    if (f->of_use || (!f->cfg.connects && lived > (moyai_ns)f->cfg.most)) /* the next one will be, too */
        log_warning(f->cfg.log, "overlay", "MOYAI-FORWARD", "\"%s\", line %u: %s; again in %s", f->cfg.file,
                    f->cfg.line->number, text, DUR(f->wait));
    else
        complain(f, text, runs);
    fault(f, text, true);
    stop_dialling(f);
    let_go(f);
    if (!f->stopped) again(f);
}

/* A port of loopback that is free now. If it is not any more when ssh wants it, ssh ends and another is tried. */
static uint16_t free_port(void) {
    struct tcp_addr where, at;
    int fd;
    if (tcp_parse("127.0.0.1:0", &where, NULL) < 0 || tcp_listen(&fd, &where, 0, 0, &at, NULL) < 0) return 0;
    close(fd);
    return tcp_port(&at);
}

static int start(struct forward *f, struct moyai_error *why) {
    f->port = f->cfg.line->listen ? f->cfg.line->listen : free_port();
    if (!f->port) return err_set(why, MOYAI_ELIMIT, "no port of 127.0.0.1 is free, or no descriptor");
    int in[2], err[2];
    if (pipe2(in, O_CLOEXEC) < 0) return err_sys(why, errno, "cannot run %s", f->cfg.ssh);
    if (pipe2(err, O_CLOEXEC) < 0) {
        int sys = errno;
        close(in[0]);
        close(in[1]);
        return err_sys(why, sys, "cannot run %s", f->cfg.ssh);
    }
    (void)fcntl(err[0], F_SETFL, O_NONBLOCK);
    struct command c;
    command(f, &c);
    struct child_opts o = {.argv = c.argv, .fd = {in[0], -1, err[1]}, .own_group = true, .keep_lock = true};
    int rc = exec_child_spawn(f->x, &f->child, &o, on_end, f, why);
    close(in[0]);
    close(err[1]);
    exec_keep(f->x, &f->alive, in[1]);
    f->said_fd = err[0];
    f->n_line = 0;
    memset(f->last, 0, sizeof f->last);
    f->killed = NULL;
    f->said = exec_fd_new(f->x, err[0], UV_READABLE | UV_DISCONNECT, on_said, f);
    if (!f->said) close(err[0]);
    if (rc == 0 && !f->said) rc = err_set(why, MOYAI_ENOMEM, "out of memory");
    if (rc < 0) let_go(f);
    return rc;
}

static void on_start(struct exec *x, struct exec_timer *t) {
    struct forward *f = (struct forward *)((char *)t - offsetof(struct forward, start_timer));
    struct moyai_error why = {0};
    f->started = moyai_now();
    f->of_use = false;
    f->vain = 0;
    if (start(f, &why) < 0) {
        fault(f, why.text, true);
        complain(f, why.text, true);
        again(f);
        return;
    }
    log_info(f->cfg.log, "overlay", "MOYAI-FORWARD", "\"%s\", line %u: %s to %s is started, port %u", f->cfg.file,
             f->cfg.line->number, f->cfg.ssh, leads_to(f), f->port);
    if (!f->cfg.connects) return;
    f->retry = f->cfg.retry;
    f->until = f->started + (moyai_ns)f->cfg.patience;
    exec_timer_set(x, &f->dial_timer, soon(f, f->retry));
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void on_dial(struct exec *x, struct exec_timer *t) {
    struct forward *f = (struct forward *)((char *)t - offsetof(struct forward, dial_timer));
    (void)x;
    f->dialling = true;
    f->answered = false;
    f->cfg.ops->dial(f->cfg.ctx, f, f->port);
}

static void dial_later(struct forward *f, moyai_dur most) {
    if (f->runs && !f->child) return; /* with the next one */
    exec_timer_set(f->x, &f->dial_timer, soon(f, f->retry));
    double_up_to(&f->retry, most);
}

void forward_failed(struct forward *f, const struct moyai_error *why) {
    f->dialling = false;
    /* Another host's ssh that is not there is not to be waited for: whether it ever comes is not known here. */
    const bool no_key = why->code == MOYAI_EPERM, failed = no_key || !f->runs;
    char text[WORSE];
    why_not(f, why, text);
    if (!f->failed || failed) fault(f, text, failed);
    /* Who closes connections since nobody is there does what he should; one that says nothing may hang himself. */
    if (why->code != MOYAI_EUNREACHABLE && why->code != MOYAI_ETIMEDOUT) f->until = UINT64_MAX;
    if (was_taken(why))
        nobody_there(f, text);
    else if (no_key)
        blame_far(f, text, ""); /* that no key fits is nothing that time mends */
    if (f->runs && f->child && !f->killed && moyai_now() > f->until) {
        f->killed = was_taken(why) ? "nobody answered through it" : "its port did not open";
        (void)exec_child_kill(f->child, SIGKILL, true);
    }
    dial_later(f, RETRY_MOST);
}

void forward_answered(struct forward *f) {
    f->answered = true;
    f->vain = 0;
}

void forward_up(struct forward *f) {
    forward_answered(f);
    if (f->wrong)
        log_mended(f->cfg.log, "overlay", "MOYAI-FORWARD", "\"%s\", line %u: there is a link now", f->cfg.file,
                   f->cfg.line->number);
    else
        log_info(f->cfg.log, "overlay", "MOYAI-FORWARD", "\"%s\", line %u: there is a link", f->cfg.file,
                 f->cfg.line->number);
    f->wrong = f->failed = false;
    f->last_fault[0] = 0;
    f->linked = f->of_use = true;
    f->until = UINT64_MAX;
    f->wait = f->cfg.first;
}

void forward_down(struct forward *f) {
    f->dialling = false;
    if (f->linked) { /* else it was not wanted: there is another one, perhaps */
        f->retry = f->cfg.retry;
        f->until = moyai_now() + (moyai_ns)f->cfg.patience;
    } else {
        f->until = UINT64_MAX;
        if (f->answered && f->wrong)
            log_mended(f->cfg.log, "overlay", "MOYAI-FORWARD",
                       "\"%s\", line %u: a node answers now, and there is another link to it", f->cfg.file,
                       f->cfg.line->number);
        if (f->answered) f->wrong = false;
    }
    f->linked = false;
    dial_later(f, MOST);
}

void forward_hasten(struct forward *f) {
    if (f->linked) return;
    f->retry = f->cfg.retry;
    if (exec_timer_is_set(&f->dial_timer)) exec_timer_set(f->x, &f->dial_timer, 1);
}

/* ---- life ------------------------------------------------------------------------------------ */

bool forward_concerns(const struct gridfile_line *l, const char *host, bool *connects) {
    *connects = gridfile_is_host(l->host[0], host);
    return *connects || (l->reverse && gridfile_is_host(l->host[1], host));
}

void forward_stop(struct forward *f) {
    if (!f) return;
    f->stopped = true;
    stop_dialling(f);
    exec_timer_clear(f->x, &f->look_timer);
    exec_timer_clear(f->x, &f->start_timer);
    exec_timer_clear(f->x, &f->yield_timer);
}

static void on_yield(struct exec *x, struct exec_timer *t) {
    struct forward *f = (struct forward *)((char *)t - offsetof(struct forward, yield_timer));
    if (f->lock.fd < 0 || !another_stands_ready(f)) {
        exec_timer_set(x, t, moyai_now() + (moyai_ns)YIELD);
        return;
    }
    forward_stop(f);
    let_go(f);
    drop_lock(f);
}

struct forward *forward_new(struct exec *x, const struct forward_cfg *cfg) {
    struct forward *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->x = x;
    f->cfg = *cfg;
    if (!f->cfg.look) f->cfg.look = LOOK;
    if (!f->cfg.first) f->cfg.first = FIRST;
    if (!f->cfg.most) f->cfg.most = MOST;
    if (!f->cfg.retry) f->cfg.retry = RETRY;
    if (!f->cfg.patience) f->cfg.patience = PATIENCE;
    if (!f->cfg.silence) f->cfg.silence = SILENCE;
    if (!f->cfg.repeat) f->cfg.repeat = LOG_REPEAT;
    f->wait = f->cfg.first;
    f->retry = f->cfg.retry;
    f->runs = cfg->connects != cfg->line->reverse;
    f->port = cfg->line->listen;
    f->lock.fd = f->next.fd = f->alive.fd = -1;
    f->until = UINT64_MAX;
    rng_seed(&f->rng, cfg->seed);
    snprintf(f->name, sizeof f->name, "forward-%016" PRIx64 "%c", gridfile_hash(cfg->line), cfg->connects ? '1' : '2');
    exec_timer_init(&f->look_timer, on_look);
    exec_timer_init(&f->start_timer, on_start);
    exec_timer_init(&f->dial_timer, on_dial);
    exec_timer_init(&f->hear_timer, on_hear);
    exec_timer_init(&f->yield_timer, on_yield);
    exec_timer_set(x, &f->look_timer, 1);
    return f;
}

void forward_leaves(struct forward *f) {
    if (!f || f->leaves || f->stopped) return;
    f->leaves = true;
    stand_down(f);
    exec_timer_set(f->x, &f->yield_timer, moyai_now() + (moyai_ns)YIELD);
}

bool forward_carries(const struct forward *f) {
    return f && f->child;
}

void forward_free(struct forward *f) {
    if (!f) return;
    forward_stop(f);
    let_go(f);
    drop_lock(f);
    stand_down(f);
    free(f);
}

enum forward_state forward_state(const struct forward *f, const char **why) {
    *why = f->last_fault;
    if (!f->cfg.connects || (f->looked && f->lock.fd < 0 && !f->failed)) return FORWARD_OTHERS;
    return f->linked ? FORWARD_LINKED : f->failed ? FORWARD_FAILED : FORWARD_WAITS;
}

bool forward_holds(const struct forward *f) {
    return f->lock.fd >= 0;
}
