/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a run:
 *
 *            first group has ended, a signal, --timeout, --wall-time, a program that cannot be started
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

#include "base/dur.h"
#include "base/events.h"
#include "cli/cli.h"
#include "cli/linger.h"
#include "cli/run_nodes.h"
#include "cli/run_output.h"
#include "cli/run_ward.h"
#include "cli/unmet.h"
#include "exec/child.h"
#include "node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_LOOK MOYAI_SEC /* between looks at what does not end although it was killed */
#define GRID_LOOK MOYAI_SEC /* between looks whether the grid of --grid is still there */
#define KILL_MOST 10        /* such looks */

enum run_state { RUN_ON, RUN_ENDING, RUN_KILLING, RUN_OVER };

struct proc {
    struct run *r;
    unsigned group, index, rank;
    struct exec_child *child; /* NULL: not started, or ended, or on another node */
    struct output_pair *out;
    pid_t pid;
    char where[40]; /* on another node: host and site; empty: here */
};

struct run {
    const struct run_args *a;
    struct run_grid *grid;
    moyai_node *node;
    struct exec *x;
    struct output *out;
    struct nodes *nodes; /* NULL: the processes run here */
    struct proc *procs;
    enum run_state state;
    size_t live;
    unsigned first_left; /* processes of the first group that have not ended */
    int first_status;    /* of the first of them that did not end well */
    int status;          /* what to exit with, once ON is left */
    bool by_itself;      /* it is that of the first group */
    bool own;            /* ON was left for no reason from outside, so that its status may change yet */
    bool hurry;          /* do not wait for a reader of our output */
    bool spawning;       /* a child may be there that is not known yet */
    bool stopped;        /* by Ctrl-Z */
    bool orphaned;       /* front or keeper have been killed */
    bool told_rest;
    bool told;         /* to end, by somebody or the wall time: those who depend on its node are waited for */
    moyai_ns leave_by; /* told by moyai leave: then, or UINT64_MAX; 0: not */
    struct unmet unmet;
    int looks;
    struct exec_timer grace, timeout, wall, grid_look;
    moyai_ns asked, killed; /* when those that run were asked to end, and are killed */
    moyai_dur patience;     /* between the two: --grace, or what the wall time, or who has told us, leaves of it */
    struct ward ward;
    struct lingering linger;
    char **env; /* ours: the first N_ENV, and n_reach; then what we were given */
    size_t n_reach;
};

static const char *program(const struct proc *p) {
    return p->r->a->groups[p->group].argv[0];
}

static void look(struct run *r);

static bool is_alive(const struct proc *p) {
    return p->r->nodes ? nodes_is_running(p->r->nodes, p->rank) : p->child != NULL;
}

static size_t alive(const struct run *r) {
    return r->nodes ? nodes_running(r->nodes) : r->live;
}

/* "(pid 4711)", "(pid 4711 on hongo1)" */
static void print_pid(const struct proc *p, char text[80]) {
    if (p->pid > 0)
        snprintf(text, 80, "(pid %d%s%s)", (int)p->pid, p->where[0] ? " on " : "", p->where);
    else
        snprintf(text, 80, "(on %s)", p->where);
}

/* ---- children of ours that we have not started ----------------------------------------------- */

/* Collect those that have ended. */
static void collect_left(struct run *r) {
    for (;;) {
        siginfo_t si = {0};
        if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0) return;
        /* One that exec will collect hides others behind it: its end will lead here again. */
        if (si.si_pid == 0 || exec_child_known(r->x, si.si_pid)) return;
        (void)waitpid(si.si_pid, NULL, WNOHANG);
    }
}

static void count_one(pid_t pid, void *arg) {
    (void)pid;
    ++*(size_t *)arg;
}

/* Is any child left but those that the node has started for itself? */
static bool is_any_left(const struct run *r) {
    size_t n = 0;
    bool all = exec_children_left(r->x, r->ward.guard->children, count_one, &n);
    return n > 0 || !all;
}

static void tell_one(pid_t pid, void *arg) {
    struct run *r = arg;
    if (exec_child_known(r->x, pid)) return;
    pid_t group = getpgid(pid);
    for (unsigned i = 0; i < r->a->n_processes; i++) {
        const struct proc *p = &r->procs[i];
        if (p->pid == group && group > 0 && (p->child || r->told_rest)) return; /* has been told with its group */
    }
    kill(pid, SIGCONT);
    kill(pid, SIGTERM);
}

static void tell_left(struct run *r) {
    (void)exec_children(r->ward.guard->children, tell_one, r);
}

static void kill_one(pid_t pid, void *arg) {
    (void)arg;
    kill(pid, SIGKILL);
}

static void kill_left(const struct run *r) {
    (void)exec_children(r->ward.guard->children, kill_one, NULL);
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void signal_all(struct run *r, int sig) {
    for (unsigned i = 0; r->nodes && i < r->a->n_processes; i++) nodes_signal(r->nodes, i, sig);
    for (unsigned i = 0; i < r->a->n_processes; i++)
        if (r->procs[i].child) (void)exec_child_kill(r->procs[i].child, sig, true); /* EDEAD: its end is coming */
}

static void kill_all(struct run *r) {
    if (r->state == RUN_OVER) return;
    r->state = RUN_KILLING;
    signal_all(r, SIGKILL);
    kill_left(r);
    r->looks = 0;
    exec_timer_set(r->x, &r->grace, moyai_now() + (moyai_ns)KILL_LOOK);
}

/* Could nobody of a grid of several hosts be met? The processes wait for others without knowing why. */
static void look_unmet(struct run *r) {
    char line[UNMET_LINE];
    if (!r->grid->path[0] && unmet_look(&r->unmet, node_overlay(r->node), r->grid->address, line))
        output_say(r->out, "%s: %s", r->a->title, line);
}

/* Those that have not ended by then are killed, or earlier. */
static void kill_at(struct run *r, moyai_ns when) {
    if (exec_timer_is_set(&r->grace) && r->killed <= when) return;
    r->killed = when;
    r->patience = when > r->asked ? (moyai_dur)(when - r->asked) : 0;
    exec_timer_clear(r->x, &r->grace);
    exec_timer_set(r->x, &r->grace, when);
}

static void end_run(struct run *r, int status, bool hurry) {
    r->hurry |= hurry;
    if (r->hurry && r->nodes) nodes_hurry(r->nodes);
    if (r->state != RUN_ON) return;
    r->state = RUN_ENDING;
    node_ends(r->node);
    r->status = status;
    r->own = !hurry;
    look_unmet(r);
    exec_timer_clear(r->x, &r->timeout);
    exec_timer_clear(r->x, &r->wall);
    if (r->nodes) nodes_stop(r->nodes);
    /* One that is stopped would never know. This order, since a process that ends may be stopping itself on purpose:
     * leak checkers do, and a SIGCONT in that moment leaves them waiting for ever. */
    signal_all(r, SIGCONT);
    signal_all(r, SIGTERM);
    if (!r->spawning) tell_left(r); /* else a child that is not known yet would be told twice */
    const moyai_ns now = moyai_now();
    moyai_ns killed = r->a->grace < MOYAI_FOREVER - (moyai_dur)now ? now + (moyai_ns)r->a->grace : UINT64_MAX - 1;
    if (r->a->wall.until && wall_kills(&r->a->wall) < killed) killed = wall_kills(&r->a->wall);
    r->asked = now;
    kill_at(r, killed);
    look(r);
}

static void on_grace(struct exec *x, struct exec_timer *t) {
    struct run *r = (struct run *)(void *)((char *)t - offsetof(struct run, grace));
    if (r->state == RUN_ENDING) {
        size_t cut = 0;
        for (unsigned i = 0; i < r->a->n_processes; i++) {
            const struct proc *p = &r->procs[i];
            char pid[80];
            print_pid(p, pid);
            if (!is_alive(p)) continue;
            output_say(r->out, "%s: [%u.%u] %s %s did not end within %s and is killed", r->a->title, p->group, p->index,
                       program(p), pid, DUR(r->patience));
            cut++;
        }
        char what[60];
        snprintf(what, sizeof what, "%zu process%s killed", cut, cut == 1 ? "" : "es");
        if (cut > 0) node_cut(r->node, cut, what);
        kill_all(r);
        return;
    }
    if (r->nodes) nodes_give_up(r->nodes);     /* their agents have been told, and are on their own now */
    if (r->hurry || ++r->looks >= KILL_MOST) { /* the front will try once more to kill, and say so */
        if (alive(r) == 0 || r->looks >= KILL_MOST) {
            r->state = RUN_OVER;
            moyai_node_stop(r->node);
            return;
        }
    }
    kill_left(r);
    exec_timer_set(x, t, moyai_now() + (moyai_ns)KILL_LOOK);
}

static void on_timeout(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct run *r = (struct run *)(void *)((char *)t - offsetof(struct run, timeout));
    if (r->state != RUN_ON) return;
    output_say(r->out, "%s: timed out after %s", r->a->title, DUR(r->a->timeout));
    end_run(r, CLI_TIMED_OUT, true);
}

static void on_wall(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct run *r = (struct run *)(void *)((char *)t - offsetof(struct run, wall));
    if (r->state != RUN_ON) return;
    const size_t n = alive(r) + r->spawning;
    char text[100];
    wall_text(&r->a->wall, text);
    r->told = true;
    output_say(r->out, "%s: %s: ending %zu process%s in order", r->a->title, text, n, n == 1 ? "" : "es");
    end_run(r, CLI_TIMED_OUT, true);
}

/* A grid that somebody else made: is it still there? A directory's end is told to nobody, so it is looked for. */
static void on_grid_look(struct exec *x, struct exec_timer *t) {
    struct run *r = (struct run *)(void *)((char *)t - offsetof(struct run, grid_look));
    if (r->state != RUN_ON) return;
    if (!r->grid->path[0]) {
        look_unmet(r);
        exec_timer_set(x, t, moyai_now() + UNMET_LOOK);
        return;
    }
    if (access(r->grid->path, F_OK) == 0 || errno != ENOENT) {
        char line[UNMET_LINE];
        if (unmet_split(&r->unmet, r->node, line)) output_say(r->out, "%s: %s", r->a->title, line);
        exec_timer_set(x, t, moyai_now() + GRID_LOOK);
        return;
    }
    output_say(r->out, "%s: the grid at '%s' has ended", r->a->title, r->grid->path);
    end_run(r, 0, false);
}

/* Is it over? */
static void look(struct run *r) {
    if (r->state == RUN_ON || r->state == RUN_OVER || alive(r) > 0 || r->spawning) return;
    if (is_any_left(r)) {
        if (r->state == RUN_KILLING) {
            kill_left(r);
        } else if (!r->told_rest) { /* those who had left their groups, and are ours only now */
            r->told_rest = true;
            tell_left(r);
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

/* what: has happened; by: what kills them. */
static void ask_all(struct run *r, const char *what, const char *by, int status) {
    const size_t n = alive(r) + r->spawning; /* one that is just being started may have spoken already */
    r->told = true;
    if (n == 0)
        output_say(r->out, "%s: %s", r->a->title, what);
    else
        output_say(r->out, "%s: %s: ending %zu process%s in order; %s kills %s", r->a->title, what, n,
                   n == 1 ? "" : "es", by, n == 1 ? "it" : "them");
    end_run(r, status, true);
}

/* Does it wait for processes, and not for a reader of their output only? */
static bool is_anybody_left(const struct run *r) {
    return alive(r) > 0 || r->spawning || is_any_left(r);
}

/* The first signal, where they have been asked to end already: they are killed no later for that. */
static void ask_again(struct run *r, const char *what, const char *by) {
    const size_t n = alive(r) + r->spawning;
    r->hurry = r->told = true;
    if (r->nodes) nodes_hurry(r->nodes);
    if (n > 0)
        output_say(r->out, "%s: %s: %zu process%s already; %s kills %s", r->a->title, what, n,
                   n == 1 ? " ends" : "es end", by, n == 1 ? "it" : "them");
}

static void cut_short(struct run *r, int sig) {
    if (r->own) { /* the first group had ended; we cut short what comes after it */
        r->status = 128 + sig;
        r->by_itself = false;
    }
    r->hurry = true;
    r->told = false;
    if (r->nodes) nodes_hurry(r->nodes);
    kill_all(r);
}

static void on_signal(int sig, void *arg) {
    struct run *r = arg;
    switch (sig) {
    case SIGCHLD:
        collect_left(r);
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
    const bool notice = sig == SIGUSR1, again = r->linger.asked; /* a notice hurries nobody */
    const char *by = notice ? CLI_TWICE : sig == SIGINT ? "another Ctrl-C" : "another signal";
    char what[40];
    (void)cli_signal_text(sig, what);
    r->linger.asked |= !notice;
    if (r->state == RUN_ON) {
        ask_all(r, what, by, 128 + sig);
    } else if (!notice && r->state == RUN_ENDING) {
        if (again || !is_anybody_left(r))
            cut_short(r, sig);
        else
            ask_again(r, what, by);
    } else if (!notice) {
        linger_signal(&r->linger, sig, again);
    }
}

/* Nobody may be there any more who would look after what we leave. */
static void end_now(void *arg) {
    struct run *r = arg;
    r->orphaned = true;
    linger_hurry(&r->linger);
    kill_all(r);
    r->state = RUN_OVER;
    moyai_node_stop(r->node);
}

/* By moyai leave: as by SIGTERM, but that it may be told so again, and the time for it. */
static void on_told(moyai_ns until, void *arg) {
    struct run *r = arg;
    r->leave_by = until;
    r->told = true;
    if (r->state == RUN_ON) ask_all(r, "told to leave", CLI_TWICE, 128 + SIGTERM);
    if (r->state == RUN_ENDING) kill_at(r, until);
}

/* In a grid of several hosts others may have no way but by this node. They are waited for, as for any other that is
 * told to leave; a run that is over by itself leaves as any program that has ended. */
static moyai_dur lingers(const struct run *r) {
    if (r->grid->path[0] || !r->told || r->orphaned) return 0;
    return wall_most(&r->a->wall, linger_time(r->leave_by));
}

static const struct ward_ops ward_ops = {.signal = on_signal, .orphaned = end_now};

/* ---- processes ------------------------------------------------------------------------------- */

static int exit_status(int status) {
    int n = exec_status_exit(status);
    return n < 0 ? CLI_BROKEN : n;
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

/* status: as it counts; how: in words. */
static void has_ended(struct proc *p, int status, const char *how, bool say) {
    struct run *r = p->r;
    char pid[80];
    print_pid(p, pid);
    if (say) output_say(r->out, "%s: [%u.%u] %s %s %s", r->a->title, p->group, p->index, program(p), pid, how);
    struct moyai_node_id self = moyai_node_self(r->node);
    EVENT(node_events(r->node), &self, "process-end", event_int("group", p->group), event_int("index", p->index),
          event_int("rank", p->rank), event_int("pid", p->pid), event_int("status", status), event_text("how", how));
    if (p->group > 0) return;
    if (r->first_status == 0) r->first_status = status;
    if (--r->first_left > 0) return;
    if (r->state == RUN_ON) r->by_itself = true;
    end_run(r, r->first_status, false);
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
    exec_status_text(status, how);
    (void)node_child_ended(r->node, p->pid, strncmp(how, "was ", 4) == 0 ? how + 4 : how);
    has_ended(p, exit_status(status), how, worth_saying(r, status));
    collect_left(r);
    look(r);
}

enum { ENV_RANK, ENV_GROUP, ENV_INDEX, ENV_SIZE, ENV_PARENT, ENV_GRID, ENV_RUN_DIR, N_ENV };
static const char *const env_names[N_ENV] = {"MOYAI_RANK",   "MOYAI_GROUP", "MOYAI_INDEX",  "MOYAI_SIZE",
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

/* Is a variable of that name among them? */
static bool is_in(char *const *list, size_t n, const char *item) {
    size_t name = strcspn(item, "=");
    for (size_t i = 0; i < n; i++)
        if (strncmp(list[i], item, name) == 0 && list[i][name] == '=') return true;
    return false;
}

/* Ours first, then what we were given; ours have been taken out of that. */
static bool env_make(struct run *r) {
    size_t n = 0, k;
    cli_tell_grace(r->a->grace);
    while (environ[n]) n++;
    r->env = calloc(N_ENV + REACH_ENV + n + 1, sizeof *r->env);
    if (!r->env) return false;
    char id[33];
    moyai_node_id_format(moyai_node_self(r->node), id);
    if (!env_set(r, ENV_PARENT, id) || !env_set(r, ENV_GRID, r->grid->address) ||
        !env_set_number(r, ENV_SIZE, r->a->n_processes) || !env_set(r, ENV_RUN_DIR, r->grid->run_dir) ||
        !env_set_number(r, ENV_RANK, 0) || !env_set_number(r, ENV_GROUP, 0) || !env_set_number(r, ENV_INDEX, 0))
        return false;
    char **reach = r->env + N_ENV;
    int n_reach = reach_env(&r->a->reach, r->grid->path, reach);
    while (r->n_reach < REACH_ENV && reach[r->n_reach]) r->n_reach++;
    if (n_reach < 0) return false;
    k = N_ENV + r->n_reach;
    for (size_t i = 0; i < n; i++)
        if (!is_in(reach, r->n_reach, environ[i])) r->env[k++] = environ[i];
    return true;
}

static void env_free(struct run *r) {
    for (int i = 0; r->env && i < N_ENV + (int)r->n_reach; i++) free(r->env[i]);
    free(r->env);
}

/* Standard input is the first process's alone: whoever writes to it shall see its end. */
static void give_input_away(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return;
    (void)dup2(null, 0);
    close(null);
}

static void has_started(const struct proc *p) {
    struct moyai_node_id self = moyai_node_self(p->r->node);
    EVENT(node_events(p->r->node), &self, "process-start", event_int("group", p->group), event_int("index", p->index),
          event_int("rank", p->rank), event_int("pid", p->pid), event_text("program", program(p)));
}

static int start(struct run *r, struct proc *p, struct moyai_error *why) {
    if (!env_set_number(r, ENV_RANK, p->rank) || !env_set_number(r, ENV_GROUP, p->group) ||
        !env_set_number(r, ENV_INDEX, p->index)) {
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
    has_started(p);
    return 0;
}

static int start_failure(int sys) {
    if (sys == ENOENT || sys == ENOTDIR) return CLI_NOT_FOUND;
    return sys == EACCES || sys == ENOEXEC || sys == EISDIR ? CLI_CANNOT_RUN : CLI_BROKEN;
}

/* What has happened to all others while this one was being started. */
static void catch_up(struct run *r, struct proc *p) {
    if (r->stopped && p->child) (void)exec_child_kill(p->child, SIGSTOP, true);
    if (r->state == RUN_ON) return;
    if (r->state == RUN_ENDING) tell_left(r);
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
        end_run(r, start_failure(why.sys), false);
    }
    collect_left(r);
    look(r);
}

/* ---- processes on other nodes ---------------------------------------------------------------- */

static void on_remote_started(unsigned rank, pid_t pid, const char *where, void *arg) {
    struct run *r = arg;
    struct proc *p = &r->procs[rank];
    p->pid = pid;
    snprintf(p->where, sizeof p->where, "%s", where);
    has_started(p);
}

static void on_remote_ended(unsigned rank, const struct nodes_end *e, void *arg) {
    struct run *r = arg;
    struct proc *p = &r->procs[rank];
    char how[400];
    if (r->state == RUN_OVER) return;
    snprintf(p->where, sizeof p->where, "%s", e->where);
    switch (e->how) {
    case NODES_ENDED:
        exec_status_text(e->status, how);
        has_ended(p, exit_status(e->status), how, worth_saying(r, e->status));
        break;
    case NODES_LOST: /* as if it had been killed, which its agent, or what is left of it, sees to */
        snprintf(how, sizeof how, "is lost: %s", e->text);
        has_ended(p, 128 + SIGKILL, how, r->state == RUN_ON);
        break;
    case NODES_NOT_STARTED:
        if (r->state == RUN_ON)
            output_say(r->out, "%s: [%u.%u] on %s: %s", r->a->title, p->group, p->index, e->where, e->text);
        end_run(r, start_failure(e->sys), false);
        break;
    }
    look(r);
}

static const struct nodes_ops nodes_ops = {.started = on_remote_started, .ended = on_remote_ended};

static int place_all(struct run *r, struct moyai_error *why) {
    int rc = nodes_new(&r->nodes, r->node, r->a, r->out, &nodes_ops, r, why);
    return rc < 0 ? rc : nodes_start(r->nodes, why);
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
    if (r->a->site) setenv("MOYAI_SITE", r->a->site, 1);    /* the processes' as well */
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    o.grid = r->grid->address;
    o.run_dir = r->grid->run_dir[0] ? r->grid->run_dir : NULL;
    o.title = r->a->title;
    reach_set(&r->a->reach, &o);
    int rc = moyai_node_new(&r->node, &o, why);
    if (rc < 0) reach_blame(why);
    if (rc == 0) cli_log(r->node, r->a->title);
    return rc;
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
    exec_timer_init(&r->wall, on_wall);
    exec_timer_init(&r->grid_look, on_grid_look);
    int rc = output_new(&r->out, r->x, &oc, why);
    if (rc == 0) rc = ward_watch(&r->ward, why);
    if (rc < 0) return rc;
    r->procs = calloc(r->a->n_processes, sizeof *r->procs);
    if (!r->procs || !env_make(r)) {
        snprintf(why->text, sizeof why->text, "out of memory");
        return why->code = MOYAI_ENOMEM;
    }
    number_all(r);
    node_witness(r->node);
    node_on_leave(r->node, on_told, r);
    bool wide = !r->grid->path[0];
    unmet_begin(&r->unmet, UNMET_RUN);
    if (!r->grid->own)
        exec_timer_set(r->x, &r->grid_look, moyai_now() + (moyai_ns)(wide ? UNMET_FIRST : GRID_LOOK));
    if (r->a->timeout) exec_timer_set(r->x, &r->timeout, moyai_now() + (moyai_ns)r->a->timeout);
    if (r->a->wall.until) exec_timer_set(r->x, &r->wall, wall_tells(&r->a->wall, r->a->grace));
    return 0;
}

/* Lock held. */
static void release(struct run *r) {
    r->state = RUN_OVER;
    for (unsigned i = 0; r->procs && i < r->a->n_processes; i++) exec_child_free(r->procs[i].child);
    exec_timer_clear(r->x, &r->grace);
    exec_timer_clear(r->x, &r->timeout);
    exec_timer_clear(r->x, &r->wall);
    exec_timer_clear(r->x, &r->grid_look);
    ward_done(&r->ward);
    output_free(r->out);
    free(r->procs);
    env_free(r);
}

static int refuse(const struct run *r, const struct moyai_error *why) {
    guard_say("%s: %s", r->a->title, why->text);
    return why->code == MOYAI_EINVAL ? CLI_USAGE : CLI_BROKEN;
}

int run_live(const struct run_args *a, struct run_grid *grid, const struct guard *guard) {
    struct run r = {.a = a, .grid = grid};
    struct moyai_error why = {0};
    if (make_node(&r, &why) < 0) return refuse(&r, &why);
    r.x = node_exec(r.node);
    r.ward = (struct ward){.x = r.x, .guard = guard, .ops = &ward_ops, .arg = &r};
    exec_lock(r.x);
    int rc = prepare(&r, &why);
    if (rc == 0 && a->grid_file) rc = run_grid_tell(grid, a->grid_file, &why);
    if (rc == 0) {
        ward_lives(&r.ward, r.node, grid, &r.linger.asked);
        if (a->keep) output_say(r.out, "%s: keeps the grid's directory '%s'", a->title, grid->path);
        if (a->print_grid) output_say(r.out, "%s: grid %s", a->title, grid->address);
        if (a->on_nodes)
            rc = place_all(&r, &why);
        else
            start_all(&r);
    }
    if (rc == 0) {
        exec_unlock(r.x);
        (void)moyai_node_serve(r.node, MOYAI_FOREVER); /* until OVER */
        if (r.orphaned) ward_end_orphaned(guard, r.node, grid);
        exec_lock(r.x);
        if (r.nodes) nodes_await_scout(r.nodes);
        const moyai_dur wait = lingers(&r);
        exec_unlock(r.x);
        if (wait > 0) linger(&r.linger, r.node, r.a->title, wait);
        exec_lock(r.x);
    }
    bool failed = r.out && output_failed(r.out);
    /* Programs whose output nobody takes any more end as if they had failed, or by SIGPIPE. If it was closed from the
     * beginning nobody wants it, and what they say themselves counts. */
    int lost = r.out ? output_unwritable(r.out) : 0;
    if (r.by_itself && lost && (lost != EBADF || r.status == 128 + SIGPIPE)) r.status = CLI_BROKEN;
    release(&r);
    exec_unlock(r.x);
    nodes_free(r.nodes);
    moyai_node_free(r.node);
    ward_left(guard);
    if (rc < 0) return refuse(&r, &why);
    return failed && r.status == 0 ? CLI_BROKEN : r.status;
}
