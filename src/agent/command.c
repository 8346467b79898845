/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a command:
 *
 *     starts -> its process ends -> what it left behind has ended (gone) -> all it wrote has been taken (over)
 *
 * When the process has ended, what is left of it is asked to end, and killed after the grace. It is looked for among
 * the children of this process, to which the system gives whoever has lost his parent: by the group, which is the
 * process's own number, and by a variable that the command was given in its environment. Each end of a child leads to
 * another look, since that child's own children are ours only then.
 *
 * The process's number is kept (not reaped) until nothing is left, so that a signal to its group reaches nobody else.
 */
#include "agent/internal.h"

#include "base/err.h"
#include "base/events.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK    MOYAI_SEC   /* between looks at what does not end although it was killed */
#define CHUNK   (64u << 10) /* read at once */
#define ENVIRON (256u << 10)

static void wake(struct command *c) {
    if (c->reader) (void)blocked_wake(c->a->node, c->reader, 0);
    if (c->runner) (void)blocked_wake(c->a->node, c->runner, 0);
}

/* ---- output ---------------------------------------------------------------------------------- */

static void outlet_close(struct outlet *s) {
    if (!s->watched) return;
    exec_fd_free(s->watched, true, NULL);
    s->watched = NULL;
    wake(s->c);
}

/* As much as there is room for. */
static void outlet_read(struct outlet *s) {
    struct command *c = s->c;
    size_t got = 0;
    while (s->watched) {
        if (s->n == AGENT_OUTPUT && !c->deaf) {
            s->paused = true;
            exec_fd_events(s->watched, 0);
            break;
        }
        if (!s->buf) s->buf = malloc(AGENT_OUTPUT);
        if (!s->buf) { /* its output cannot be had: it shall notice, rather than wait for ever */
            outlet_close(s);
            break;
        }
        size_t at = c->deaf ? 0 : s->n, room = AGENT_OUTPUT - at;
        ssize_t n = read(s->fd, s->buf + at, room < CHUNK ? room : CHUNK);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN && !c->gone) break;
        if (n <= 0) { /* who could write has ended, or somebody has it for whatever reason */
            outlet_close(s);
            break;
        }
        s->n = c->deaf ? 0 : at + (size_t)n;
        got += (size_t)n;
        if (!c->gone && got >= CHUNK) break; /* others' turn; the loop comes back */
    }
    if (got > 0) wake(c);
}

static void on_readable(struct exec_fd *f, int events, void *arg) {
    (void)f, (void)events;
    outlet_read(arg);
}

static void resume(struct outlet *s) {
    if (!s->watched) return;
    if (s->paused) exec_fd_events(s->watched, UV_READABLE);
    s->paused = false;
    if (s->c->gone) outlet_read(s);
}

uint8_t *outlet_take(struct outlet *s, size_t *n) {
    uint8_t *buf = s->buf;
    *n = s->n;
    s->buf = NULL;
    s->n = 0;
    resume(s);
    return buf;
}

static int outlet_open(struct command *c, struct outlet *s, int *writer, struct moyai_error *why) {
    int fd[2];
    s->c = c;
    if (pipe2(fd, O_CLOEXEC) < 0) return err_sys(why, errno, "cannot make a pipe");
    (void)fcntl(fd[0], F_SETFL, O_NONBLOCK);
    s->fd = fd[0];
    s->watched = exec_fd_new(c->a->node->x, fd[0], UV_READABLE, on_readable, s);
    if (!s->watched) {
        close(fd[0]);
        close(fd[1]);
        return err_set(why, MOYAI_ENOMEM, "out of memory");
    }
    *writer = fd[1];
    return 0;
}

void command_deafen(struct command *c) {
    c->deaf = true;
    for (int i = 0; i < 2; i++) {
        c->out[i].n = 0;
        resume(&c->out[i]);
    }
    wake(c);
}

void command_close(struct command *c, int which) {
    c->out[which].n = 0;
    outlet_close(&c->out[which]);
}

bool command_has_output(const struct command *c) {
    return c->out[0].n > 0 || c->out[1].n > 0;
}

bool command_over(const struct command *c) {
    return c->gone && !c->out[0].watched && !c->out[1].watched && !command_has_output(c);
}

/* ---- what it leaves behind ------------------------------------------------------------------- */

struct search {
    struct command *c;
    int sig; /* to be sent to each; 0: none */
    size_t n;
};

enum marked { MARKED_NOT, MARKED, MARKED_UNKNOWN };

/* Does its environment have the mark? It is what the program was started with, if it has not written over it. */
static enum marked has_mark(pid_t pid, const char *mark) {
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? MARKED_UNKNOWN : MARKED_NOT;
    enum marked found = MARKED_NOT;
    size_t len = strlen(mark) + 1; /* with its NUL */
    char *text = malloc(ENVIRON);
    if (!text) found = MARKED_UNKNOWN;
    ssize_t n = text ? read(fd, text, ENVIRON) : -1;
    for (const char *p = text, *end = text + n; n > 0 && p && !found;) {
        if ((size_t)(end - p) >= len && memcmp(p, mark, len) == 0) found = MARKED;
        p = memchr(p, 0, (size_t)(end - p));
        if (p) p++;
    }
    free(text);
    close(fd);
    return found;
}

static void visit(pid_t pid, void *arg) {
    struct search *s = arg;
    bool in_group = getpgid(pid) == s->c->pid;
    enum marked marked = in_group ? MARKED : has_mark(pid, s->c->mark);
    if (marked == MARKED_NOT) return;
    s->n++;
    if (marked == MARKED_UNKNOWN) return; /* it counts until it can be looked at */
    if (s->sig == SIGTERM && in_group)
        return; /* it has been told with its group; twice means to many that it is urgent */
    if (s->sig == SIGTERM) kill(pid, SIGCONT);
    if (s->sig) kill(pid, s->sig);
}

/* How many are left; each is sent the signal. */
static size_t left_behind(struct command *c, int sig) {
    struct search s = {.c = c, .sig = sig};
    bool all = exec_children_left(c->a->node->x, c->a->children, visit, &s);
    return s.n + !all + c->a->spawning; /* then none has been looked at, and will be */
}

static void be_gone(struct command *c) {
    moyai_node *n = c->a->node;
    exec_child_free(c->child);
    c->child = NULL;
    c->gone = true;
    exec_timer_clear(n->x, &c->timer);
    for (int i = 0; i < 2; i++)
        if (!c->out[i].paused || c->deaf) outlet_read(&c->out[i]);
    wake(c);
    agent_check(c->a);
}

void command_look(struct command *c) {
    if (!c->ended || c->gone) return;
    if (left_behind(c, c->stop == STOP_KILL ? SIGKILL : c->told_rest ? 0 : SIGTERM) == 0) {
        be_gone(c);
        return;
    }
    c->told_rest = true;
    command_stop(c, STOP_TERM);
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* Its starter and its agent may both be told to leave. Each asks the command to end, which is to hear it once: a second
 * SIGTERM means to many, moyai's own programs among them, that it is urgent, and a SIGCONT after the first may come at
 * the wrong moment (run_life.c). */
static bool is_heard(struct command *c, int sig) {
    bool again = false;
    switch (sig) {
    case SIGTERM:
        again = c->stop != STOP_NOT && !c->asked;
        c->asked = true;
        break;
    case SIGCONT:
        again = c->stop != STOP_NOT && !c->stopped;
        c->stopped = false;
        break;
    case SIGSTOP:
    case SIGTSTP:
        c->stopped = true;
        break;
    default:
        break;
    }
    return again;
}

void command_signal(struct command *c, int sig) {
    if (sig == SIGKILL && c->stop < STOP_KILL) {
        command_stop(c, STOP_KILL);
        return;
    }
    if (is_heard(c, sig)) return;
    if (c->child) (void)exec_child_kill(c->child, sig, true); /* EDEAD: its end is coming */
}

void command_stop(struct command *c, enum stop how) {
    if (c->stop >= how || c->gone) return;
    moyai_node *n = c->a->node;
    moyai_ns now = moyai_now();
    moyai_dur grace = how == STOP_KILL ? LOOK : c->a->cfg.grace;
    c->stop = how;
    exec_timer_set(n->x, &c->timer, grace < MOYAI_FOREVER - (moyai_dur)now ? now + (moyai_ns)grace : UINT64_MAX - 1);
    if (!c->child) return; /* it is just being started: command_new sees */
    if (how == STOP_TERM) {
        /* One that is stopped would never know. In this order: see run_life.c. */
        const bool asked = c->asked && !c->ended; /* what a command leaves behind may be younger than that */
        if (!asked || c->stopped) (void)exec_child_kill(c->child, SIGCONT, true);
        if (!asked) (void)exec_child_kill(c->child, SIGTERM, true);
    } else {
        (void)exec_child_kill(c->child, SIGKILL, true);
    }
    if (c->ended && how == STOP_KILL) (void)left_behind(c, SIGKILL);
}

static void on_timer(struct exec *x, struct exec_timer *t) {
    struct command *c = (struct command *)(void *)((char *)t - offsetof(struct command, timer));
    if (c->stop == STOP_TERM) {
        c->late = true;
        c->a->cfg.killed(c->program, c->pid, c->ended, c->a->cfg.arg);
        command_stop(c, STOP_KILL);
    } else if (c->child) {
        (void)exec_child_kill(c->child, SIGKILL, true);
        exec_timer_set(x, t, moyai_now() + (moyai_ns)LOOK);
        if (c->a->ending) command_deafen(c); /* its starter has had its time to take what there is */
    }
    command_look(c);
}

static void on_exit_of(struct exec_child *child, int status, void *arg) {
    (void)child;
    struct command *c = arg;
    moyai_node *n = c->a->node;
    char how[128];
    c->ended = true;
    c->status = status;
    exec_status_text(status, how);
    (void)overlay_process_ended(n->o, c->pid, strncmp(how, "was ", 4) == 0 ? how + 4 : how);
    EVENT(n->events, node_id(n), "command-end", event_int("pid", c->pid), event_int("status", exec_status_exit(status)),
          event_text("how", how));
    command_look(c);
}

/* ---- starting -------------------------------------------------------------------------------- */

static bool same_name(const char *a, const char *b) {
    size_t n = strcspn(a, "=");
    return strncmp(a, b, n) == 0 && b[n] == '=';
}

static bool is_in(const char *const *list, size_t n, const char *item) {
    for (size_t i = 0; i < n; i++)
        if (same_name(list[i], item)) return true;
    return false;
}

/* The mark, what the agent gives all, what the order has, and of this process's what is in none of these. */
static const char **make_env(const struct command *c, const struct order *o) {
    size_t n = 1, k = 0;
    for (const char *const *e = c->a->cfg.env; e && *e; e++) n++;
    for (char **e = o->env; e && *e; e++) n++;
    for (char **e = environ; e && *e; e++) n++;
    const char **env = calloc(n + 1, sizeof *env);
    if (!env) return NULL;
    env[k++] = c->mark;
    for (const char *const *e = c->a->cfg.env; e && *e; e++) env[k++] = *e;
    size_t fixed = k;
    for (char **e = o->env; e && *e; e++)
        if (!is_in(env, fixed, *e)) env[k++] = *e;
    fixed = k;
    for (char **e = environ; e && *e; e++)
        if (!is_in(env, fixed, *e)) env[k++] = *e;
    return env;
}

static int spawn(struct command *c, const struct order *o, const int fd[2], struct moyai_error *why) {
    const char **env = make_env(c, o);
    if (!env) return err_set(why, MOYAI_ENOMEM, "out of memory");
    struct child_opts opts = {
        .argv = (const char *const *)o->argv, .envp = env, .dir = o->dir, .fd = {-1, fd[0], fd[1]}, .own_group = true};
    c->a->spawning = true;
    int rc = exec_child_spawn(c->a->node->x, &c->child, &opts, on_exit_of, c, why);
    c->a->spawning = false;
    free(env);
    return rc;
}

static void unlink_command(struct command *c) {
    *c->prev = c->next;
    if (c->next) c->next->prev = c->prev;
}

int command_new(struct command **ret, struct agent *a, const struct order *o, const struct moyai_node_id *starter,
                struct moyai_error *why) {
    moyai_node *n = a->node;
    struct command *c = calloc(1, sizeof *c);
    int fd[2] = {-1, -1}, rc = 0;
    if (!c) return err_set(why, MOYAI_ENOMEM, "out of memory");
    c->a = a;
    c->users = 1;
    c->starter = *starter;
    c->since = moyai_now();
    snprintf(c->id, sizeof c->id, "%s", o->id);
    char id[33];
    moyai_node_id_format(*node_id(n), id);
    snprintf(c->mark, sizeof c->mark, AGENT_MARK "=%.16s.%llu", id, (unsigned long long)++a->number);
    snprintf(c->program, sizeof c->program, "%s", o->argv[0]);
    exec_timer_init(&c->timer, on_timer);
    c->next = a->commands;
    c->prev = &a->commands;
    if (c->next) c->next->prev = &c->next;
    a->commands = c;
    for (int i = 0; i < 2 && rc == 0 && c->id[0]; i++) rc = outlet_open(c, &c->out[i], &fd[i], why);
    if (rc == 0) rc = spawn(c, o, fd, why);
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0) close(fd[i]);
    if (rc < 0) {
        command_free(c);
        return rc;
    }
    c->pid = exec_child_pid(c->child);
    EVENT(n->events, node_id(n), "command-start", event_int("pid", c->pid), event_text("program", c->program));
    if (c->stop != STOP_NOT) { /* meanwhile all have been told to end */
        enum stop how = c->stop;
        c->stop = STOP_NOT;
        command_stop(c, how);
    }
    *ret = c;
    return 0;
}

void command_free(struct command *c) {
    for (int i = 0; i < 2; i++) {
        if (c->out[i].watched) exec_fd_free(c->out[i].watched, true, NULL);
        free(c->out[i].buf);
    }
    exec_timer_clear(c->a->node->x, &c->timer);
    exec_child_free(c->child);
    unlink_command(c);
    free(c);
}

void command_leave(struct command *c) {
    if (--c->users == 0) command_free(c);
}

struct command *command_find(struct agent *a, const char *id) {
    for (struct command *c = a->commands; c; c = c->next)
        if (id[0] && strcmp(c->id, id) == 0) return c;
    return NULL;
}
