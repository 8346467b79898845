/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a run:
 *
 *            first group has ended, a signal, --timeout, a program that cannot be started
 *     ON ----------------------------------------------------------------------------------> ENDING
 *      \                                                          (SIGTERM to all groups)      |
 *       \ front or keeper has been killed                     --grace, or a second signal      |
 *        \                                                                                     v
 *         +-------------------------------------------------------------------------------> KILLING
 *                                                               (SIGKILL to all that descends) |
 *     OVER <--- no process is left, all output is written <-------- (also from ENDING) --------+
 *
 * The status is decided when ON is left. Everything after the start happens in callbacks, with the node lock held, so
 * that it goes on while the main context is inside posix_spawn, which takes a millisecond and more each time. Processes
 * are started one after the other: the system does not make them faster in parallel, and those that run already have
 * the other processors.
 *
 * A process that ends is collected at once. What it has started and left behind becomes the runner's child
 * (run_guard.c), goes on as long as the run, and is asked to end with the others.
 */
#include "cli/run_life.h"

#include "base/events.h"
#include "cli/cli.h"
#include "cli/run_output.h"
#include "exec/child.h"
#include "node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_LOOK MOYAI_SEC /* between looks at what does not end although it was killed */
#define GRID_LOOK MOYAI_SEC /* between looks whether the grid of --grid is still there */
#define KILL_MOST 10        /* such looks */

enum run_state { RUN_ON, RUN_ENDING, RUN_KILLING, RUN_OVER };

struct proc {
    struct run *r;
    unsigned group, index, rank;
    struct exec_child *child; /* NULL: not started, or ended */
    struct output_pair *out;
    pid_t pid;
};

struct run {
    const struct run_args *a;
    struct run_grid *grid;
    moyai_node *node;
    struct exec *x;
    struct output *out;
    struct proc *procs;
    enum run_state state;
    size_t live;
    unsigned first_left; /* processes of the first group that have not ended */
    int first_status;    /* of the first of them that did not end well */
    int status;          /* what to exit with, once ON is left */
    bool hurry;          /* do not wait for a reader of our output */
    bool spawning;       /* a child may be there that is not known yet */
    bool stopped;        /* by Ctrl-Z */
    bool orphaned;       /* front or keeper have been killed */
    bool told_rest;
    int looks;
    struct exec_timer grace, timeout, grid_look;
    const struct guard *guard;
    int lifeline, signals;
    struct exec_fd *lifeline_watch, *signals_watch;
    char **env;
};

static const char *program(const struct proc *p) {
    return p->r->a->groups[p->group].argv[0];
}

static void look(struct run *r);

/* ---- children of ours that we have not started ----------------------------------------------- */

static bool is_started(const struct run *r, pid_t pid) {
    for (unsigned i = 0; i < r->a->n_processes; i++)
        if (r->procs[i].child && r->procs[i].pid == pid) return true;
    return false;
}

/* Collect those that have ended. False: there is no child at all any more. */
static bool collect_left(struct run *r) {
    for (;;) {
        siginfo_t si = {0};
        if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0) return errno != ECHILD;
        /* One that exec will collect hides others behind it: its end will lead here again. */
        if (si.si_pid == 0 || r->spawning || is_started(r, si.si_pid)) return true;
        (void)waitpid(si.si_pid, NULL, WNOHANG);
    }
}

static void tell_left(pid_t pid, void *arg) {
    struct run *r = arg;
    if (is_started(r, pid)) return;
    pid_t group = getpgid(pid);
    for (unsigned i = 0; i < r->a->n_processes; i++) {
        const struct proc *p = &r->procs[i];
        if (p->pid == group && group > 0 && (p->child || r->told_rest)) return; /* has been told with its group */
    }
    kill(pid, SIGCONT);
    kill(pid, SIGTERM);
}

static void kill_left(pid_t pid, void *arg) {
    (void)arg;
    kill(pid, SIGKILL);
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void signal_all(struct run *r, int sig) {
    for (unsigned i = 0; i < r->a->n_processes; i++)
        if (r->procs[i].child) (void)exec_child_kill(r->procs[i].child, sig, true); /* EDEAD: its end is coming */
}

static void kill_all(struct run *r) {
    if (r->state == RUN_OVER) return;
    r->state = RUN_KILLING;
    signal_all(r, SIGKILL);
    guard_children(kill_left, NULL);
    r->looks = 0;
    exec_timer_set(r->x, &r->grace, moyai_now() + (moyai_ns)KILL_LOOK);
}

static void end_run(struct run *r, int status, bool hurry) {
    r->hurry |= hurry;
    if (r->state != RUN_ON) return;
    r->state = RUN_ENDING;
    r->status = status;
    exec_timer_clear(r->x, &r->timeout);
    /* One that is stopped would never know. This order, since a process that ends may be stopping itself on purpose:
     * leak checkers do, and a SIGCONT in that moment leaves them waiting for ever. */
    signal_all(r, SIGCONT);
    signal_all(r, SIGTERM);
    if (!r->spawning) guard_children(tell_left, r); /* else a child that is not known yet would be told twice */
    moyai_ns now = moyai_now();
    exec_timer_set(r->x, &r->grace,
                   r->a->grace < MOYAI_FOREVER - (moyai_dur)now ? now + (moyai_ns)r->a->grace : UINT64_MAX - 1);
    look(r);
}

static void on_grace(struct exec *x, struct exec_timer *t) {
    struct run *r = (struct run *)(void *)((char *)t - offsetof(struct run, grace));
    if (r->state == RUN_ENDING) {
        for (unsigned i = 0; i < r->a->n_processes; i++) {
            const struct proc *p = &r->procs[i];
            if (p->child)
                output_say(r->out, "%s: [%u.%u] %s (pid %d) did not end within %.6g s and is killed", r->a->title,
                           p->group, p->index, program(p), (int)p->pid, (double)r->a->grace * 1e-9);
        }
        kill_all(r);
        return;
    }
    if (r->hurry || ++r->looks >= KILL_MOST) { /* the front will try once more to kill, and say so */
        if (r->live == 0 || r->looks >= KILL_MOST) {
            r->state = RUN_OVER;
            moyai_node_stop(r->node);
            return;
        }
    }
    guard_children(kill_left, NULL);
    exec_timer_set(x, t, moyai_now() + (moyai_ns)KILL_LOOK);
}

static void on_timeout(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct run *r = (struct run *)(void *)((char *)t - offsetof(struct run, timeout));
    if (r->state != RUN_ON) return;
    output_say(r->out, "%s: timed out after %.6g s", r->a->title, (double)r->a->timeout * 1e-9);
    end_run(r, CLI_TIMED_OUT, true);
}

/* A grid that somebody else made: is it still there? A directory's end is told to nobody, so it is looked for. */
static void on_grid_look(struct exec *x, struct exec_timer *t) {
    struct run *r = (struct run *)(void *)((char *)t - offsetof(struct run, grid_look));
    if (r->state != RUN_ON) return;
    if (access(r->grid->path, F_OK) == 0 || errno != ENOENT) {
        exec_timer_set(x, t, moyai_now() + GRID_LOOK);
        return;
    }
    output_say(r->out, "%s: the grid at '%s' has ended", r->a->title, r->grid->path);
    end_run(r, 0, false);
}

/* Is it over? */
static void look(struct run *r) {
    if (r->state == RUN_ON || r->state == RUN_OVER || r->live > 0 || r->spawning) return;
    if (collect_left(r)) {
        if (r->state == RUN_KILLING) {
            guard_children(kill_left, NULL);
        } else if (!r->told_rest) { /* those who had left their groups, and are ours only now */
            r->told_rest = true;
            guard_children(tell_left, r);
        }
        return;
    }
    output_finish(r->out);
    if (!output_done(r->out)) return;
    r->state = RUN_OVER;
    moyai_node_stop(r->node);
}

static void on_output(void *arg) {
    look(arg);
}

/* ---- signals --------------------------------------------------------------------------------- */

static void on_signal(struct run *r, int sig) {
    switch (sig) {
    case SIGCHLD:
        (void)collect_left(r);
        look(r);
        return;
    case SIGTSTP:
        r->stopped = true;
        signal_all(r, SIGSTOP);
        return;
    case SIGCONT:
        r->stopped = false;
        signal_all(r, SIGCONT);
        return;
    default:
        break;
    }
    if (r->state == RUN_ON) {
        size_t n = r->live + r->spawning; /* one that is just being started may have spoken already */
        output_say(r->out, "%s: %s: ending %zu process%s in order; another %s kills them", r->a->title,
                   sig == SIGINT ? "interrupted" : strsignal(sig), n, n == 1 ? "" : "es",
                   sig == SIGINT ? "Ctrl-C" : "signal");
        end_run(r, 128 + sig, true);
    } else if (r->state == RUN_ENDING) {
        if (!r->hurry) r->status = 128 + sig; /* the first group had ended; we cut short what comes after it */
        r->hurry = true;
        kill_all(r);
    }
}

/* Nobody may be there any more who would look after what we leave. */
static void end_now(struct run *r) {
    r->orphaned = true;
    kill_all(r);
    r->state = RUN_OVER;
    moyai_node_stop(r->node);
}

static void on_signals(struct exec_fd *f, int events, void *arg) {
    (void)f, (void)events;
    struct run *r = arg;
    struct signalfd_siginfo si;
    while (read(r->signals, &si, sizeof si) == sizeof si)
        if (si.ssi_signo != SIGCONT) /* which is sent to us when the keeper ends; those of fg come by the lifeline */
            on_signal(r, (int)si.ssi_signo);
        else if (getppid() != r->guard->parent)
            end_now(r);
}

static void on_lifeline(struct exec_fd *f, int events, void *arg) {
    (void)events;
    struct run *r = arg;
    uint8_t sigs[64];
    ssize_t n = read(r->lifeline, sigs, sizeof sigs);
    for (ssize_t i = 0; i < n; i++) on_signal(r, sigs[i]);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
    exec_fd_events(f, 0);
    end_now(r);
}

/* ---- processes ------------------------------------------------------------------------------- */

/* "was killed by signal 9 (Killed)"; the same without "was " is the cause of death the others hear of. */
static void describe(int status, char text[128]) {
    if (status == EXEC_STATUS_UNKNOWN)
        snprintf(text, 128, "ended in an unknown way");
    else if (WIFSIGNALED(status))
        snprintf(text, 128, "was killed by signal %d (%s)%s", WTERMSIG(status), strsignal(WTERMSIG(status)),
                 WCOREDUMP(status) ? ", core dumped" : "");
    else
        snprintf(text, 128, "exited with status %d", WEXITSTATUS(status));
}

static int exit_status(int status) {
    if (status == EXEC_STATUS_UNKNOWN) return CLI_BROKEN;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The signal that has ended it, or what it has started: shells and other wrappers (env, timeout, moyai run) exit with
 * 128+n then. 0: none. */
static int signal_of(int status) {
    if (status == EXEC_STATUS_UNKNOWN) return 0;
    if (WIFSIGNALED(status)) return WTERMSIG(status);
    return WEXITSTATUS(status) > 128 && WEXITSTATUS(status) <= 128 + SIGSYS ? WEXITSTATUS(status) - 128 : 0;
}

/* How it ends after it was asked to is its own affair, unless it breaks. */
static bool worth_saying(const struct run *r, int status) {
    if (status == 0 || r->state == RUN_KILLING) return false;
    int sig = signal_of(status);
    /* `moyai run ... | head` has ended, as a shell would not mention either. */
    if (sig == SIGPIPE && output_unread(r->out)) return false;
    return r->state == RUN_ON || (sig && sig != SIGTERM);
}

static void on_exit_of(struct exec_child *c, int status, void *arg) {
    struct proc *p = arg;
    struct run *r = p->r;
    exec_child_free(c);
    p->child = NULL;
    r->live--;
    if (r->state == RUN_OVER) return;

    output_drain(p->out);
    char how[128];
    describe(status, how);
    if (worth_saying(r, status))
        output_say(r->out, "%s: [%u.%u] %s (pid %d) %s", r->a->title, p->group, p->index, program(p), (int)p->pid, how);
    (void)node_child_ended(r->node, p->pid, strncmp(how, "was ", 4) == 0 ? how + 4 : how);
    struct moyai_node_id self = moyai_node_self(r->node);
    EVENT(node_events(r->node), &self, "process-end", event_int("group", p->group), event_int("index", p->index),
          event_int("rank", p->rank), event_int("pid", p->pid), event_int("status", exit_status(status)),
          event_text("how", how));
    if (p->group == 0) {
        if (r->first_status == 0) r->first_status = exit_status(status);
        if (--r->first_left == 0) end_run(r, r->first_status, false);
    }
    (void)collect_left(r);
    look(r);
}

enum { ENV_RANK, ENV_GROUP, ENV_SIZE, ENV_PARENT, ENV_GRID, ENV_RUN_DIR, N_ENV };
static const char *const env_names[N_ENV] = {"MOYAI_RANK",   "MOYAI_GROUP", "MOYAI_SIZE",
                                             "MOYAI_PARENT", "MOYAI_GRID",  "MOYAI_RUN_DIR"};

static bool env_set(struct run *r, int which, const char *value) {
    char *s = malloc(strlen(env_names[which]) + strlen(value) + 2);
    if (!s) return false;
    sprintf(s, "%s=%s", env_names[which], value);
    free(r->env[which]);
    r->env[which] = s;
    return true;
}

static bool env_set_number(struct run *r, int which, unsigned value) {
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    return env_set(r, which, text);
}

/* Ours first, then what we were given; ours have been taken out of that. */
static bool env_make(struct run *r) {
    size_t n = 0;
    while (environ[n]) n++;
    r->env = calloc(N_ENV + n + 1, sizeof *r->env);
    if (!r->env) return false;
    char id[33];
    moyai_node_id_format(moyai_node_self(r->node), id);
    if (!env_set(r, ENV_PARENT, id) || !env_set(r, ENV_GRID, r->grid->address) ||
        !env_set_number(r, ENV_SIZE, r->a->n_processes) || !env_set(r, ENV_RUN_DIR, r->grid->run_dir) ||
        !env_set_number(r, ENV_RANK, 0) || !env_set_number(r, ENV_GROUP, 0))
        return false;
    memcpy(r->env + N_ENV, environ, n * sizeof *environ);
    return true;
}

static void env_free(struct run *r) {
    for (int i = 0; r->env && i < N_ENV; i++) free(r->env[i]);
    free(r->env);
}

/* Standard input is the first process's alone: whoever writes to it shall see its end. */
static void give_input_away(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return;
    (void)dup2(null, 0);
    close(null);
}

static int start(struct run *r, struct proc *p, struct moyai_error *why) {
    if (!env_set_number(r, ENV_RANK, p->rank) || !env_set_number(r, ENV_GROUP, p->group)) {
        *why = (struct moyai_error){.code = MOYAI_ENOMEM, .text = "out of memory"};
        return MOYAI_ENOMEM;
    }
    int fd[2];
    int rc = output_open(r->out, &p->out, p->group, p->index, fd, why);
    if (rc < 0) {
        why->sys = 0; /* no matter of the program's: the run is broken */
        return rc;
    }
    struct child_opts o = {.argv = (const char *const *)r->a->groups[p->group].argv,
                           .envp = (const char *const *)r->env,
                           .fd = {p->rank == 0 ? 0 : -1, fd[0], fd[1]},
                           .own_group = true};
    r->spawning = true;
    rc = exec_child_spawn(r->x, &p->child, &o, on_exit_of, p, why);
    r->spawning = false;
    close(fd[0]);
    close(fd[1]);
    if (p->rank == 0) give_input_away();
    if (rc < 0) return rc;
    p->pid = exec_child_pid(p->child);
    r->live++;
    struct moyai_node_id self = moyai_node_self(r->node);
    EVENT(node_events(r->node), &self, "process-start", event_int("group", p->group), event_int("index", p->index),
          event_int("rank", p->rank), event_int("pid", p->pid), event_text("program", program(p)));
    return 0;
}

static int start_failure(const struct moyai_error *why) {
    if (why->sys == ENOENT || why->sys == ENOTDIR) return CLI_NOT_FOUND;
    return why->sys == EACCES || why->sys == ENOEXEC || why->sys == EISDIR ? CLI_CANNOT_RUN : CLI_BROKEN;
}

/* What has happened to all others while this one was being started. */
static void catch_up(struct run *r, struct proc *p) {
    if (r->stopped && p->child) (void)exec_child_kill(p->child, SIGSTOP, true);
    if (r->state == RUN_ON) return;
    if (r->state == RUN_ENDING) guard_children(tell_left, r);
    if (p->child) (void)exec_child_kill(p->child, SIGCONT, true);
    if (p->child) (void)exec_child_kill(p->child, r->state == RUN_ENDING ? SIGTERM : SIGKILL, true);
}

static void start_all(struct run *r) {
    for (unsigned i = 0; i < r->a->n_processes && r->state == RUN_ON; i++) {
        struct proc *p = &r->procs[i];
        struct moyai_error why = {0};
        int rc = start(r, p, &why);
        catch_up(r, p);
        if (rc == 0 || r->state != RUN_ON) continue;
        output_say(r->out, "%s: [%u.%u] %s", r->a->title, p->group, p->index, why.text);
        end_run(r, start_failure(&why), false);
    }
    (void)collect_left(r);
    look(r);
}

static void number_all(struct run *r) {
    unsigned rank = 0;
    for (unsigned g = 0; g < r->a->n_groups; g++)
        for (unsigned i = 0; i < r->a->groups[g].n; i++, rank++)
            r->procs[rank] = (struct proc){.r = r, .group = g, .index = i, .rank = rank};
    r->first_left = r->a->groups[0].n;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static int make_node(struct run *r, struct moyai_error *why) {
    for (int i = 0; i < N_ENV; i++) unsetenv(env_names[i]); /* they may be those of a run that this one is part of */
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    o.grid = r->grid->address;
    o.run_dir = r->grid->run_dir[0] ? r->grid->run_dir : NULL;
    o.title = r->a->title;
    return moyai_node_new(&r->node, &o, why);
}

static int watch(struct run *r, struct moyai_error *why) {
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGCONT};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) sigaddset(&set, taken[i]);
    r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    r->signals_watch = r->signals < 0 ? NULL : exec_fd_new(r->x, r->signals, UV_READABLE, on_signals, r);
    (void)fcntl(r->lifeline, F_SETFL, O_NONBLOCK);
    r->lifeline_watch = exec_fd_new(r->x, r->lifeline, UV_READABLE, on_lifeline, r);
    if (r->signals_watch && r->lifeline_watch) return 0;
    snprintf(why->text, sizeof why->text, "cannot watch for signals: %s", strerror(errno));
    return why->code = MOYAI_ESYS;
}

/* Lock held. */
static int prepare(struct run *r, struct moyai_error *why) {
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    struct output_cfg oc = {.prefix = !r->a->no_prefix,
                            .color = !r->a->no_color && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0,
                            .dir = r->a->output,
                            .changed = on_output,
                            .arg = r};
    exec_timer_init(&r->grace, on_grace);
    exec_timer_init(&r->timeout, on_timeout);
    exec_timer_init(&r->grid_look, on_grid_look);
    int rc = output_new(&r->out, r->x, &oc, why);
    if (rc == 0) rc = watch(r, why);
    if (rc < 0) return rc;
    r->procs = calloc(r->a->n_processes, sizeof *r->procs);
    if (!r->procs || !env_make(r)) {
        snprintf(why->text, sizeof why->text, "out of memory");
        return why->code = MOYAI_ENOMEM;
    }
    number_all(r);
    node_witness(r->node);
    if (r->a->grid && r->grid->path[0]) exec_timer_set(r->x, &r->grid_look, moyai_now() + GRID_LOOK);
    if (r->a->timeout) exec_timer_set(r->x, &r->timeout, moyai_now() + (moyai_ns)r->a->timeout);
    return 0;
}

/* Lock held. */
static void release(struct run *r) {
    r->state = RUN_OVER;
    for (unsigned i = 0; r->procs && i < r->a->n_processes; i++) exec_child_free(r->procs[i].child);
    exec_timer_clear(r->x, &r->grace);
    exec_timer_clear(r->x, &r->timeout);
    exec_timer_clear(r->x, &r->grid_look);
    exec_fd_free(r->signals_watch, true, NULL);
    exec_fd_free(r->lifeline_watch, true, NULL);
    output_free(r->out);
    free(r->procs);
    env_free(r);
}

/* The keeper waits for our end, but somebody may stop it before it sees that. While it is our parent its number cannot
 * be another's. Not if something is left that will not be killed: the keeper tries once more. */
static _Noreturn void end_orphaned(struct run *r) {
    bool gone = guard_sweep();
    (void)run_grid_end(r->grid, NULL);
    events_flush(node_events(r->node));
    if (getppid() == r->guard->parent) kill(r->guard->parent, gone ? SIGKILL : SIGCONT);
    _exit(128 + SIGKILL);
}

static int refuse(const struct run *r, const struct moyai_error *why) {
    fprintf(stderr, "%s: %s\n", r->a->title, why->text);
    return why->code == MOYAI_EINVAL ? CLI_USAGE : CLI_BROKEN;
}

int run_live(const struct run_args *a, struct run_grid *grid, const struct guard *guard) {
    struct run r = {.a = a, .grid = grid, .guard = guard, .lifeline = guard->lifeline, .signals = -1};
    struct moyai_error why = {0};
    if (make_node(&r, &why) < 0) return refuse(&r, &why);
    r.x = node_exec(r.node);
    exec_lock(r.x);
    int rc = prepare(&r, &why);
    if (rc == 0 && a->grid_file) rc = run_grid_tell(grid, a->grid_file, &why);
    if (rc == 0) {
        if (a->print_grid) output_say(r.out, "%s: grid %s", a->title, grid->address);
        start_all(&r);
        exec_unlock(r.x);
        (void)moyai_node_serve(r.node, MOYAI_FOREVER); /* until OVER */
        if (r.orphaned) end_orphaned(&r);
        exec_lock(r.x);
    }
    bool failed = r.out && output_failed(r.out);
    release(&r);
    exec_unlock(r.x);
    moyai_node_free(r.node);
    if (rc < 0) return refuse(&r, &why);
    return failed && r.status == 0 ? CLI_BROKEN : r.status;
}
