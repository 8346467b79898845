/* SPDX-License-Identifier: Apache-2.0 */
/* The groups are cut at each lone ":", and each piece is parsed as a command line of its own. */
#include "cli/run_args.h"

#include "base/config.h"
#include "cli/cli.h"
#include "cli/run_grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_GRID = 0x100,
    KEY_SITE,
    KEY_KEY_FILE,
    KEY_ON_NODES,
    KEY_DIR,
    KEY_ENV,
    KEY_GRID_FILE,
    KEY_PRINT_GRID,
    KEY_KEEP,
    KEY_OUTPUT,
    KEY_NO_PREFIX,
    KEY_NO_COLOR,
    KEY_GRACE,
    KEY_LEAVE_DEADLINE,
    KEY_TIMEOUT,
    KEY_WALL_TIME
};

static const struct argp_option options[] = {
    {"count", 'n', "COUNT", 0, "Processes of this group (default 1)", 0},
    {"grid", KEY_GRID, "ADDRESS", 0,
     "Add the processes to the grid at DIR, file:DIR, http://HOST:PORT/GRID or HOST:PORT instead of making one; may be "
     "given several times",
     1},
    {"on-nodes", KEY_ON_NODES, 0, 0,
     "Have them run by agents of the grid (moyai node), of --grid or MOYAI_GRID, where slots are free", 1},
    {"dir", KEY_DIR, "DIR", 0, "With --on-nodes: their working directory there (default: the path of this one)", 1},
    {"env", KEY_ENV, "NAME[=VALUE]", 0, "With --on-nodes: put it into their environment", 1},
    {"key-file", KEY_KEY_FILE, "FILE", 0, "The grid's keys (default: as MOYAI_KEY_FILE)", 1},
    {"site", KEY_SITE, "NAME", 0, "Where this host is (default: MOYAI_SITE, then its domain)", 1},
    REACH_OPTIONS(1),
    {"grid-file", KEY_GRID_FILE, "FILE", 0, "Write the grid's address to FILE once it is there", 1},
    {"print-grid", KEY_PRINT_GRID, 0, 0, "Say the grid's address on standard error", 1},
    {"keep", KEY_KEEP, 0, 0, "Do not remove the grid's directory at the end", 1},
    {"output", KEY_OUTPUT, "DIR", 0, "Also write what each process writes to DIR/GROUP.INDEX.out and .err", 2},
    {"no-prefix", KEY_NO_PREFIX, 0, 0, "Do not put [GROUP.INDEX] before each line", 2},
    {"no-color", KEY_NO_COLOR, 0, 0, "No colours on a terminal, as if NO_COLOR were set", 2},
    {"grace", KEY_GRACE, "TIME", 0, "How long processes may take to end when asked to (default 5s)", 3},
    {"leave-deadline", KEY_LEAVE_DEADLINE, "TIME", 0, LEAVE_DEADLINE_HELP, 3},
    {"timeout", KEY_TIMEOUT, "TIME", 0, "End the run after this time, with exit status 124", 3},
    {"wall-time", KEY_WALL_TIME, "TIME", 0,
     "End the run before this time, so that all is over by then (default: when the job of Slurm ends, if it is one)",
     3},
    CLI_HELP_OPTIONS,
    {0},
};

static const char doc[] =
    "Starts groups of processes, makes a private grid for them, and looks after them until the first group has "
    "ended.\v"
    "Ctrl-C asks all processes to end (SIGTERM); a second one kills them.\n\n"
    "Exit status: that of the first group, 128+n if signal n ended it; 124 timed out, 125 moyai run itself failed, 126 "
    "or 127 a program cannot be run or found; 2 usage.\n\n"
    "Each process finds in its environment MOYAI_GRID, MOYAI_RUN_DIR, MOYAI_PARENT, MOYAI_GRACE, MOYAI_RANK (0 to "
    "MOYAI_SIZE-1 "
    "over all groups), MOYAI_GROUP and MOYAI_INDEX (within it).\n\n" CLI_TIME_FORM "\n\n" CLI_SIZE_FORM;

struct piece {
    struct run_args *a;
    struct run_group *g;
    bool first;
};

/* For a group after the first: options of the whole run come too late there. */
static void whole_run(const struct piece *p, struct argp_state *state, const char *name) {
    if (!p->first) cli_usage(state, "--%s is for the whole run: put it before the first program", name);
}

static unsigned count(struct argp_state *state, const char *text) {
    int64_t n = 0;
    if (config_parse_integer(text, &n) < 0 || n < 1 || n > RUN_PROCESSES_MOST)
        cli_usage(state, "-n: '%s' is not a number from 1 to %d%s", text, RUN_PROCESSES_MOST,
                  text[0] == 'p' ? "; for the -np of other launchers write -n" : "");
    return (unsigned)n;
}

static void *must(void *p) {
    if (p) return p;
    fprintf(stderr, "moyai run: out of memory\n");
    exit(CLI_BROKEN);
}

/* NAME alone: as it is here. */
static void add_env(struct run_args *a, struct argp_state *state, char *arg) {
    const char *value = getenv(arg);
    if (!*arg || *arg == '=') cli_usage(state, "--env: '%s' has no name", arg);
    if (!strchr(arg, '=')) {
        if (!value) cli_usage(state, "--env: there is no variable '%s' here", arg);
        char *text = must(malloc(strlen(arg) + strlen(value) + 2));
        sprintf(text, "%s=%s", arg, value);
        arg = text; /* lives as long as the process */
    }
    a->env = must(realloc(a->env, (a->n_env + 1) * sizeof *a->env));
    a->env[a->n_env++] = arg;
}

static error_t on_option(int key, char *arg, struct argp_state *state) {
    struct piece *p = state->input;
    struct run_args *a = p->a;
    struct moyai_error why;
    cli_help(key, state);
    for (const struct argp_option *o = options; o->name; o++)
        if (o->key == key && o->group > 0) whole_run(p, state, o->name);
    if (reach_option(key, arg, state, &a->reach)) return 0;
    switch (key) {
    case 'n':
        p->g->n = count(state, arg);
        return 0;
    case KEY_GRID:
        if (run_grid_check(arg, &why) < 0) cli_usage(state, "--grid: %s", why.text);
        cli_grid(state, &a->grids, arg);
        a->grid = a->grids.all;
        return 0;
    case KEY_KEY_FILE:
        cli_key_file(state, arg);
        return 0;
    case KEY_SITE:
        a->site = reach_site(arg, state);
        return 0;
    case KEY_ON_NODES:
        a->on_nodes = true;
        return 0;
    case KEY_DIR:
        cli_filled(state, "--dir", arg);
        a->dir = arg;
        return 0;
    case KEY_ENV:
        add_env(a, state, arg);
        return 0;
    case KEY_GRID_FILE:
        cli_filled(state, "--grid-file", arg);
        a->grid_file = arg;
        return 0;
    case KEY_PRINT_GRID:
        a->print_grid = true;
        return 0;
    case KEY_KEEP:
        a->keep = true;
        return 0;
    case KEY_OUTPUT:
        cli_filled(state, "--output", arg);
        a->output = arg;
        return 0;
    case KEY_NO_PREFIX:
        a->no_prefix = true;
        return 0;
    case KEY_NO_COLOR:
        a->no_color = true;
        return 0;
    case KEY_GRACE:
        a->grace = cli_duration(state, "grace", arg);
        return 0;
    case KEY_LEAVE_DEADLINE:
        cli_leave_deadline(state, arg);
        return 0;
    case KEY_TIMEOUT:
        a->timeout = cli_timeout(state, arg);
        return 0;
    case KEY_WALL_TIME:
        a->wall_time = wall_option(state, arg);
        return 0;
    case ARGP_KEY_ARG:
        cli_filled(state, "the program's name", arg);
        p->g->argv = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        cli_usage(state, p->first ? "no program to run" : "no program after ':'");
        return 0;
    case ARGP_KEY_END:
        if (!a->on_nodes && (a->dir || a->env)) cli_usage(state, "--dir and --env are for --on-nodes");
        if (a->on_nodes && (a->keep || a->grid_file))
            cli_usage(state, "--keep and --grid-file are for a private grid, not with --on-nodes");
        if (p->first) wall_check(state, a->wall_time, a->grace);
        if (p->first) reach_check(&a->reach, a->site, state, a->grid || a->on_nodes);
        if (a->grid && a->keep) cli_usage(state, "--keep is for a private grid, not with --grid");
        if (a->grid && a->grid_file) cli_usage(state, "--grid-file is for a private grid, not with --grid");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* One piece as a command line: the verb's title, the words, NULL. The group's argv points into it. */
static char **copy_piece(char *title, char **words, int n) {
    char **v = must(calloc((size_t)n + 2, sizeof *v));
    v[0] = title;
    for (int i = 0; i < n; i++) v[i + 1] = words[i];
    return v;
}

void run_args_parse(struct run_args *a, int argc, char **argv) {
    static const struct argp parser = {.options = options,
                                       .parser = on_option,
                                       .args_doc = "PROGRAM [ARGUMENT...] [: [-n COUNT] PROGRAM [ARGUMENT...]]...",
                                       .doc = doc};
    *a = (struct run_args){.title = argv[0], .grace = 5 * MOYAI_SEC};
    for (int from = 1, to; from == 1 || from <= argc; from = to + 1) {
        for (to = from; to < argc && strcmp(argv[to], ":") != 0; to++) {
        }
        a->groups = must(realloc(a->groups, (a->n_groups + 1) * sizeof *a->groups));
        struct run_group *g = &a->groups[a->n_groups++];
        *g = (struct run_group){.n = 1};
        struct piece p = {a, g, a->n_groups == 1};
        char **piece = copy_piece(argv[0], argv + from, to - from);
        cli_parse(&parser, to - from + 1, piece, CLI_PROGRAM, &p);
        /* argp may move nothing in order, so the piece is the title, options, and the group's argv. */
        size_t skip = (size_t)(g->argv - piece);
        memmove(piece, g->argv, ((size_t)(to - from) + 2 - skip) * sizeof *piece);
        g->argv = piece;
        a->n_processes += g->n;
        if (a->n_processes > RUN_PROCESSES_MOST) {
            cli_say(a->title, "more than %d processes in all", RUN_PROCESSES_MOST);
            exit(CLI_USAGE);
        }
    }
}

void run_args_done(struct run_args *a) {
    for (unsigned i = 0; i < a->n_groups; i++) free(a->groups[i].argv);
    free(a->groups);
    free(a->env);
    reach_done(&a->reach);
}
