/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moyai node: a node that runs commands for others (agent/agent.h). It is three processes as a run is (run_guard.c), so
 * that nothing of what it has started outlives it; the runner is the node.
 */
#include "node/node.h"
#include "agent/agent.h"
#include "base/config.h"
#include "base/dur.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/linger.h"
#include "cli/notify.h"
#include "cli/reach.h"
#include "cli/run_grid.h"
#include "cli/run_guard.h"
#include "cli/run_ward.h"
#include "cli/unmet.h"
#include "cli/wall.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRID_LOOK MOYAI_SEC /* between looks whether the grid's directory is still there */
#define TELL      ((moyai_ns)(10 * MOYAI_MS))

#define FILES_NODE    128u /* descriptors: links, and what a node has besides; and ... */
#define FILES_LISTENS 320u /* ... of one that has places for those who can connect to nobody else */
#define FILES_COMMAND 5u   /* pipes, handles, and the link of one that joins */

enum { KEY_GRID = 0x100, KEY_SLOTS, KEY_SITE, KEY_KEY_FILE, KEY_GRACE, KEY_LEAVE_DEADLINE, KEY_WALL_TIME };

struct request {
    const char *title;
    struct cli_grid grid;
    const char *site;
    struct cli_reach reach;
    int64_t slots;
    moyai_dur grace, wall_time; /* wall_time 0: not given */
    struct wall wall;
};

static error_t on_option(int key, char *arg, struct argp_state *state) {
    struct request *q = state->input;
    cli_help(key, state);
    if (reach_option(key, arg, state, &q->reach)) return 0;
    switch (key) {
    case KEY_GRID:
        cli_grid(state, &q->grid, arg);
        return 0;
    case KEY_SLOTS:
        if (config_parse_integer(arg, &q->slots) < 0 || q->slots < 1 || q->slots > AGENT_SLOTS)
            cli_usage(state, "--slots: '%s' is not a number from 1 to %u", arg, AGENT_SLOTS);
        return 0;
    case KEY_SITE:
        q->site = reach_site(arg, state);
        return 0;
    case KEY_KEY_FILE:
        cli_key_file(state, arg);
        return 0;
    case KEY_GRACE:
        q->grace = cli_duration(state, "grace", arg);
        return 0;
    case KEY_LEAVE_DEADLINE:
        cli_leave_deadline(state, arg);
        return 0;
    case KEY_WALL_TIME:
        q->wall_time = wall_option(state, arg);
        return 0;
    case ARGP_KEY_ARG:
        cli_usage(state, "unknown argument '%s'", arg);
        return 0;
    case ARGP_KEY_END:
        wall_check(state, q->wall_time, q->grace);
        reach_check(&q->reach, q->site, state, true);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int64_t processors(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* more than a cpu_set_t can name */
    return n > 0 ? n : 1;
}

/* ---- the runner ------------------------------------------------------------------------------ */

enum { ENV_GRID, ENV_PARENT, ENV_RUN_DIR, ENV_SITE, N_ENV };

struct host {
    const struct request *q;
    struct run_grid *grid;
    moyai_node *node;
    struct exec *x;
    struct ward ward;
    struct agent *agent;
    struct exec_timer grid_look, wall, late, tell;
    char *env[N_ENV + REACH_ENV + 1];
    struct unmet unmet;
    struct notify manager;
    moyai_ns until; /* told to leave by then; 0: not told */
    struct lingering linger;
    size_t killed; /* commands, as their grace was over, of which those who have told it to leave have not heard */
    bool ending, orphaned;
};

static void say(const struct host *h, const char *fmt, ...) MOYAI_PRINTF(2, 3);
static void say(const struct host *h, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    cli_say(h->q->title, "%s", text);
}

/* It goes, and takes no more commands. kill: those that run are not waited for. */
static void end(struct host *h, bool kill) {
    if (!h->ending) notify_tell(&h->manager, "STOPPING=1\nSTATUS=leaves the grid");
    h->ending = true;
    node_ends(h->node);
    agent_end(h->agent, kill);
}

/* What those who have told it to leave are to hear. */
static void cut(struct host *h, size_t n) {
    char what[60];
    snprintf(what, sizeof what, "%zu command%s killed", n, n == 1 ? "" : "s");
    if (n > 0) node_cut(h->node, n, what);
}

static void tell_killed(struct host *h) {
    exec_timer_clear(h->x, &h->tell);
    cut(h, h->killed);
    h->killed = 0;
}

static void on_tell(struct exec *x, struct exec_timer *t) {
    (void)x;
    tell_killed((struct host *)(void *)((char *)t - offsetof(struct host, tell)));
}

/* Of many at a time all are told of in one word. */
static void on_killed(const char *what, pid_t pid, bool ended, void *arg) {
    struct host *h = arg;
    say(h, "%s%.60s (pid %d) did not end within %s and is killed",
        !what   ? "what a command has left behind"
        : ended ? "what is left of "
                : "",
        what ? what : "", (int)pid, DUR(h->q->grace));
    if (ended || !h->ending) return;
    if (h->killed++ == 0) exec_timer_set(h->x, &h->tell, moyai_now() + TELL);
}

static void on_over(void *arg) {
    struct host *h = arg;
    tell_killed(h);
    moyai_node_stop(h->node);
}

static void on_signal(int sig, void *arg) {
    struct host *h = arg;
    switch (sig) {
    case SIGCHLD:
        agent_look(h->agent);
        return;
    case SIGTSTP:
        agent_signal(h->agent, SIGSTOP);
        return;
    case SIGCONT:
        agent_signal(h->agent, SIGCONT);
        return;
    default:
        break;
    }
    /* The first signal asks as if nobody had done so before, and the second one is for more haste. */
    const bool notice = sig == SIGUSR1, again = h->linger.asked && !notice;
    if (notice && (h->ending || h->linger.on)) return; /* which hurries nobody */
    h->linger.asked |= !notice;
    if (h->linger.on) {
        linger_signal(&h->linger, sig, again);
        return;
    }
    const size_t n = agent_running(h->agent);
    const char *by = notice ? CLI_TWICE : sig == SIGINT ? "another Ctrl-C" : "another signal";
    char what[40];
    (void)cli_signal_text(sig, what);
    if (again) {
        cut(h, agent_untold(h->agent));
        end(h, true);
    } else if (h->ending) { /* they have been asked before, and are killed no later for that */
        if (n > 0)
            say(h, "%s: %zu command%s end%s already; %s kills %s", what, n, n == 1 ? "" : "s", n == 1 ? "s" : "", by,
                n == 1 ? "it" : "them");
    } else {
        if (n > 0)
            say(h, "%s: ending %zu command%s in order; %s kills %s", what, n, n == 1 ? "" : "s", by,
                n == 1 ? "it" : "them");
        end(h, false);
    }
}

/* By moyai leave: as by SIGTERM, but that it may be told so again, and the time for it. */
static void on_told(moyai_ns until, void *arg) {
    struct host *h = arg;
    size_t n = agent_running(h->agent);
    exec_timer_clear(h->x, &h->late);
    if (until != UINT64_MAX) exec_timer_set(h->x, &h->late, until);
    h->until = until;
    if (h->ending) return;
    if (n > 0)
        say(h, "told to leave: ending %zu command%s in order; " CLI_TWICE " kills %s", n, n == 1 ? "" : "s",
            n == 1 ? "it" : "them");
    else
        say(h, "told to leave");
    end(h, false);
}

static void on_late(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct host *h = (struct host *)(void *)((char *)t - offsetof(struct host, late));
    const size_t n = agent_untold(h->agent);
    if (n > 0) say(h, "the time to leave is over: killing %zu command%s", n, n == 1 ? "" : "s");
    cut(h, n);
    end(h, true);
}

/* All are told, once; and what is still there when it is time to say good-bye is killed. */
static void on_wall(struct exec *x, struct exec_timer *t) {
    struct host *h = (struct host *)(void *)((char *)t - offsetof(struct host, wall));
    const struct wall *w = &h->q->wall;
    const size_t n = agent_running(h->agent);
    if (moyai_now() >= wall_kills(w)) {
        if (!h->ending) say(h, "%s is about to be over", w->of);
        cut(h, agent_untold(h->agent));
        end(h, true);
        return;
    }
    char text[100];
    wall_text(w, text);
    if (!h->ending && n > 0)
        say(h, "%s: ending %zu command%s in order; " CLI_TWICE " kills %s", text, n, n == 1 ? "" : "s",
            n == 1 ? "it" : "them");
    else if (!h->ending)
        say(h, "%s: leaves", text);
    exec_timer_set(x, t, wall_kills(w));
    if (h->ending) return; /* for another reason */
    end(h, false);
}

static void end_now(void *arg) {
    struct host *h = arg;
    h->orphaned = true;
    linger_hurry(&h->linger);
    end(h, true);
    moyai_node_stop(h->node);
}

static const struct ward_ops ward_ops = {.signal = on_signal, .orphaned = end_now};

/* A directory's end is told to nobody, so it is looked for. */
static void on_grid_look(struct exec *x, struct exec_timer *t) {
    struct host *h = (struct host *)(void *)((char *)t - offsetof(struct host, grid_look));
    if (h->ending) return;
    if (!h->grid->path[0]) {
        char line[UNMET_LINE];
        if (unmet_look(&h->unmet, node_overlay(h->node), h->grid->address, line)) cli_say(h->q->title, "%s", line);
        exec_timer_set(x, t, moyai_now() + UNMET_LOOK);
        return;
    }
    if (access(h->grid->path, F_OK) == 0 || errno != ENOENT) {
        char line[UNMET_LINE];
        if (unmet_split(&h->unmet, h->node, line)) cli_say(h->q->title, "%s", line);
        exec_timer_set(x, t, moyai_now() + GRID_LOOK);
        return;
    }
    say(h, "the grid at '%s' has ended", h->grid->path);
    end(h, false);
}

static bool env_add(struct host *h, size_t *n, const char *name, const char *value) {
    if (!value || !*value) return true;
    if (asprintf(&h->env[*n], "%s=%s", name, value) >= 0) return ++*n;
    h->env[*n] = NULL;
    return false;
}

/* By which commands join the grid, wherever they are started. */
static int make_env(struct host *h, struct moyai_error *why) {
    size_t n = 0;
    cli_tell_grace(h->q->grace);
    char id[33];
    moyai_node_id_format(moyai_node_self(h->node), id);
    if (env_add(h, &n, "MOYAI_GRID", h->grid->address) && env_add(h, &n, "MOYAI_PARENT", id) &&
        env_add(h, &n, "MOYAI_RUN_DIR", h->grid->run_dir) && env_add(h, &n, "MOYAI_SITE", h->q->site) &&
        reach_env(&h->q->reach, h->grid->path, h->env + n) >= 0)
        return 0;
    return err_set(why, MOYAI_ENOMEM, "out of memory");
}

static int make_node(struct host *h, struct moyai_error *why) {
    static const char *const theirs[] = {"MOYAI_RANK",   "MOYAI_GROUP", "MOYAI_INDEX",   "MOYAI_SIZE",
                                         "MOYAI_PARENT", "MOYAI_GRID",  "MOYAI_RUN_DIR", AGENT_MARK};
    for (size_t i = 0; i < sizeof theirs / sizeof theirs[0]; i++) unsetenv(theirs[i]);
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    o.grid = h->grid->address;
    o.run_dir = h->grid->run_dir[0] ? h->grid->run_dir : NULL;
    o.title = h->q->title;
    o.site = h->q->site;
    reach_set(&h->q->reach, &o);
    int rc = moyai_node_new(&h->node, &o, why);
    if (rc < 0) reach_blame(why);
    if (rc == 0) cli_log(h->node, h->q->title);
    return rc;
}

static int begin(struct host *h, struct moyai_error *why) {
    struct agent_cfg cfg = {.slots = (unsigned)h->q->slots,
                            .grace = h->q->grace,
                            .env = (const char *const *)h->env,
                            .over = on_over,
                            .killed = on_killed,
                            .arg = h};
    int rc = make_env(h, why);
    if (rc == 0) rc = agent_new(&h->agent, h->node, &cfg, why);
    if (rc < 0) return rc;
    exec_lock(h->x);
    rc = ward_watch(&h->ward, why);
    node_witness(h->node);
    node_on_leave(h->node, on_told, h);
    moyai_dur first = h->grid->path[0] ? GRID_LOOK : UNMET_FIRST;
    unmet_begin(&h->unmet, UNMET_AGENT);
    if (rc == 0) exec_timer_set(h->x, &h->grid_look, moyai_now() + (moyai_ns)first);
    if (rc == 0 && h->q->wall.until) exec_timer_set(h->x, &h->wall, wall_tells(&h->q->wall, h->q->grace));
    exec_unlock(h->x);
    return rc;
}

/* The library has made it as high as this user may. Of what it lacks later it says so in its log only, each time. */
static void warn_of_few_files(const struct host *h) {
    struct rlimit r;
    exec_lock(h->x);
    bool listens = overlay_accepts(node_overlay(h->node));
    exec_unlock(h->x);
    rlim_t need = (listens ? FILES_LISTENS : FILES_NODE) + FILES_COMMAND * (rlim_t)h->q->slots;
    if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur >= need) return;
    say(h,
        "warning: this process may have %llu files open, which is too few to be sure of links and of %lld commands at "
        "once: it needs %llu. Raise the hard limit (ulimit -Hn; LimitNOFILE= of a systemd unit), or give fewer --slots",
        (unsigned long long)r.rlim_cur, (long long)h->q->slots, (unsigned long long)need);
}

static int live(const struct request *q, struct run_grid *grid, const struct guard *guard) {
    struct host h = {.q = q, .grid = grid};
    struct moyai_error why = {0};
    notify_begin(&h.manager, q->title);
    int rc = make_node(&h, &why);
    if (rc == 0) {
        h.x = node_exec(h.node);
        h.ward = (struct ward){.x = h.x, .guard = guard, .ops = &ward_ops, .arg = &h};
        exec_timer_init(&h.grid_look, on_grid_look);
        exec_timer_init(&h.wall, on_wall);
        exec_timer_init(&h.late, on_late);
        exec_timer_init(&h.tell, on_tell);
        rc = begin(&h, &why);
    }
    if (rc == 0) {
        ward_lives(&h.ward, h.node, grid, &h.linger.asked);
        warn_of_few_files(&h);
        say(&h, "node %.8s takes commands, %lld at once", strchr(h.env[ENV_PARENT], '=') + 1, (long long)q->slots);
        exec_lock(h.x);
        if (!h.ending) notify_tell(&h.manager, "READY=1\nSTATUS=takes commands, %lld at once", (long long)q->slots);
        exec_unlock(h.x);
        (void)moyai_node_serve(h.node, MOYAI_FOREVER);
        if (h.orphaned) ward_end_orphaned(guard, h.node, grid);
        /* What commands have come to is known to their starters. */
        linger(&h.linger, h.node, q->title, wall_most(&q->wall, linger_time(h.until)));
    } else {
        cli_say(q->title, "%s", why.text);
    }
    if (h.x) {
        exec_lock(h.x);
        ward_done(&h.ward);
        exec_timer_clear(h.x, &h.grid_look);
        exec_timer_clear(h.x, &h.wall);
        exec_timer_clear(h.x, &h.late);
        exec_timer_clear(h.x, &h.tell);
        exec_unlock(h.x);
    }
    agent_free(h.agent);
    moyai_node_free(h.node);
    ward_left(guard);
    notify_done(&h.manager);
    for (int i = 0; i < N_ENV + REACH_ENV; i++) free(h.env[i]);
    return rc == 0 ? CLI_OK : why.code == MOYAI_EINVAL ? CLI_USAGE : CLI_FAILED;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int divide(const struct request *q, struct run_grid *grid) {
    struct guard guard;
    struct moyai_error why;
    if (guard_divide(&guard, "node", &why) < 0) {
        cli_say(q->title, "%s", why.text);
        return CLI_FAILED;
    }
    if (guard.role == GUARD_RUNNER) return live(q, grid, &guard);
    bool keeper = guard.role == GUARD_KEEPER;
    pid_t front = getppid();
    int status = keeper ? guard_keep(&guard) : guard_watch(&guard);
    if (!keeper || getppid() != front) ward_obituary(&guard, grid, q->title);
    return status;
}

int cli_node(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"slots", KEY_SLOTS, "COUNT", 0, "Commands at once (default: the processors)", 0},
        {"site", KEY_SITE, "NAME", 0, "Where this host is (default: MOYAI_SITE, then its domain)", 0},
        REACH_OPTIONS(0),
        {"grid", KEY_GRID, "ADDRESS", 0,
         "The grid to join: a directory, or as MOYAI_GRID (the default); again for several places", 0},
        {"key-file", KEY_KEY_FILE, "FILE", 0, "The grid's keys (default: as MOYAI_KEY_FILE)", 0},
        {"grace", KEY_GRACE, "TIME", 0, "How long commands may take to end when asked to (default 5s)", 0},
        {"leave-deadline", KEY_LEAVE_DEADLINE, "TIME", 0, LEAVE_DEADLINE_HELP, 0},
        {"wall-time", KEY_WALL_TIME, "TIME", 0,
         "Leave before this time, so that all is over by then (default: when the job of Slurm ends, if it is one)", 0},
        CLI_HELP_OPTIONS,
        {0},
    };
    static const struct argp parser = {
        .options = options,
        .parser = on_option,
        .doc =
            "Joins a grid as an agent: runs commands for others, as of moyai run --on-nodes, and ends them when their "
            "starter ends.\v"
            "Ctrl-C asks all commands to end (SIGTERM) and leaves the grid; a second one kills them.\n\n" CLI_TIME_FORM
            "\n\n" CLI_SIZE_FORM,
    };
    struct request q = {.title = argv[0], .slots = processors(), .grace = 5 * MOYAI_SEC};
    cli_parse(&parser, argc, argv, CLI_ANY_ORDER, &q);
    struct run_grid *grid = malloc(sizeof *grid); /* paths: too much for a stack */
    const char *where = cli_which_grid(argv[0], &q.grid);
    struct moyai_error why = {0};
    int status = !grid ? CLI_FAILED : !where ? CLI_USAGE : CLI_OK;
    if (status == CLI_OK && run_grid_join(grid, where, &why) < 0) {
        cli_say(argv[0], "%s", why.text);
        status = why.code == MOYAI_EINVAL ? CLI_USAGE : CLI_FAILED;
    } else if (status == CLI_OK && reach_is_useless(&q.reach, argv[0], grid->path)) {
        (void)run_grid_end(grid, NULL);
        status = CLI_USAGE;
    } else if (status == CLI_OK) {
        wall_begin(&q.wall, q.wall_time, q.grace, argv[0]);
        status = divide(&q, grid);
        (void)run_grid_end(grid, NULL);
    }
    free(grid);
    reach_done(&q.reach);
    return status;
}
