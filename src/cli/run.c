/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moyai run: starts groups of processes on a grid and looks after them.
 *
 *   run_args.c     the command line
 *   run_grid.c     the grid's directory
 *   run_guard.c    three processes, so that nothing outlives the run: front and keeper wait, the runner does the rest
 *   run_life.c     the runner: node, processes, how it all ends
 *   run_nodes.c    processes on other nodes: which agent runs which
 *   run_output.c   what the processes write; run_lines.c merges lines
 */
#include "cli/cli.h"
#include "cli/run_args.h"
#include "cli/run_grid.h"
#include "cli/run_guard.h"
#include "cli/run_life.h"
#include "cli/run_ward.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int runnable(const char *path) {
    struct stat st;
    if (stat(path, &st) < 0) return errno;
    if (S_ISDIR(st.st_mode)) return EISDIR;
    return access(path, X_OK) < 0 ? errno : 0;
}

/* Could the system run it? 0 or errno. As execvp(3) would look for it, so that a mistyped name starts nothing at all.
 */
static int find_program(const char *name) {
    if (strchr(name, '/')) return runnable(name);
    const char *path = getenv("PATH");
    if (!path) path = "/bin:/usr/bin";
    int result = ENOENT;
    for (;;) {
        char full[PATH_MAX];
        size_t n = strcspn(path, ":");
        int len = snprintf(full, sizeof full, "%.*s/%s", n > 0 ? (int)n : 1, n > 0 ? path : ".", name);
        int rc = len < (int)sizeof full ? runnable(full) : ENOENT;
        if (rc == 0) return 0;
        if (rc == EACCES) result = rc;
        if (path[n] == 0) return result;
        path += n + 1;
    }
}

static int check_programs(const struct run_args *a) {
    for (unsigned i = 0; i < a->n_groups; i++) {
        int e = find_program(a->groups[i].argv[0]);
        if (e == 0) continue;
        const char *name = a->groups[i].argv[0];
        bool sought = e == ENOENT && !strchr(name, '/');
        const bool here = sought && *name && runnable(name) == 0;
        cli_say(a->title, "cannot run '%s': %s%s%s%s", name, sought ? "not found in PATH" : strerror(e),
                here ? "; did you mean './" : "", here ? name : "", here ? "'?" : "");
        return e == ENOENT || e == ENOTDIR ? CLI_NOT_FOUND : CLI_CANNOT_RUN;
    }
    return 0;
}

static int fail(const struct run_args *a, const struct moyai_error *why) {
    cli_say(a->title, "%s", why->text);
    return why->code == MOYAI_EINVAL ? CLI_USAGE : CLI_BROKEN;
}

/* Who has set the variable may expect it to be heeded, as by other verbs. A run whose own processes have it, which they
 * have together with MOYAI_PARENT, has not been asked by anybody. */
static void say_private(const struct run_args *a) {
    const char *grid = getenv("MOYAI_GRID"), *parent = getenv("MOYAI_PARENT");
    if (!grid || !*grid || (parent && *parent) || a->keep || a->grid_file) return;
    cli_say(a->title,
            "makes a private grid: that of MOYAI_GRID ('%.200s') is joined by --grid \"$MOYAI_GRID\"; unset the "
            "variable if it is not meant",
            grid);
}

static int run(const struct run_args *a, struct run_grid *grid) {
    struct moyai_error why;
    const char *where = a->on_nodes ? cli_which_grid(a->title, &a->grids) : a->grid;
    if (a->on_nodes && !where) return CLI_USAGE;
    if (!where) say_private(a);
    if (!where) guard_begin(); /* the directory is not to be left behind by a Ctrl-C */
    int rc = where ? run_grid_join(grid, where, &why) : run_grid_make(grid, a->keep, &why);
    if (rc < 0) return fail(a, &why);
    if (where && reach_is_useless(&a->reach, a->title, grid->path)) {
        (void)run_grid_end(grid, NULL);
        return CLI_USAGE;
    }
    /* Only if it holds this grid's address it is removed at the end: so it need not be there yet. */
    snprintf(grid->told, sizeof grid->told, "%s", a->grid_file ? a->grid_file : "");
    struct guard guard;
    if (guard_divide(&guard, "run", &why) < 0) {
        (void)run_grid_end(grid, NULL);
        return fail(a, &why);
    }
    if (guard.role == GUARD_RUNNER) return run_live(a, grid, &guard);
    if (guard.role == GUARD_KEEPER) {
        pid_t front = getppid();
        int status = guard_keep(&guard);
        if (getppid() != front) ward_obituary(&guard, grid, a->title);
        (void)run_grid_end(grid, NULL); /* a front that has been killed seems to live until it is its turn to run */
        return status;
    }
    int status = guard_watch(&guard);
    ward_obituary(&guard, grid, a->title);
    if (run_grid_end(grid, &why) < 0) {
        guard_say("%s: %s", a->title, why.text);
        if (status == 0) status = CLI_BROKEN;
    }
    return status;
}

int cli_run(int argc, char **argv) {
    struct run_args a;
    run_args_parse(&a, argc, argv);
    int status = a.on_nodes ? 0 : check_programs(&a); /* elsewhere, others may be there */
    if (status == 0) wall_begin(&a.wall, a.wall_time, a.grace, a.title);
    struct run_grid *grid = status ? NULL : malloc(sizeof *grid); /* paths: too much for a stack */
    if (grid)
        status = run(&a, grid);
    else if (status == 0)
        status = CLI_BROKEN;
    free(grid);
    run_args_done(&a);
    return status;
}
