/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/observe.h"

#include "base/dur.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/near.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/crawl.h"
#include "cli/reach.h"
#include "cli/unmet.h"
#include "cli/value_json.h"
#include "node/node.h"
#include "overlay/io/met.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define LINK_TIME    (10 * MOYAI_SEC)
#define REFUSED_TIME (3 * MOYAI_SEC) /* where nobody listens: a place is tried for the third time by then, or soon */
#define REPORT       2000            /* bytes, of all places */
#define SHOWN        65536           /* of what the log says of lines of the grid file */
#define LINK_LOOK    (100 * MOYAI_MS)
#define LINE_LOOK    (50 * MOYAI_MS)
#define FIND_TIME    (2 * MOYAI_SEC) /* to ask who is there */
#define PREFIX_LEAST 4               /* hex digits that are taken for the beginning of an id */
#define PREFIX_SURE  8 /* so many are hardly a name, as all reports show ids: nobody is asked for that first */

/* ---- options --------------------------------------------------------------------------------- */

const char *cli_grid_called = "--grid";

const char *cli_which_grid(const char *title, const struct cli_grid *given) {
    const char *grid = given->all ? given->all : getenv("MOYAI_GRID");
    if (given->all && !*given->all) { /* as of --grid "$(cat missing)": another grid would be a surprise */
        cli_say(title, "the address of --grid is empty; it is DIR, file:DIR, http://HOST:PORT/GRID or HOST:PORT");
        return NULL;
    }
    cli_grid_called = given->all ? "--grid" : "$MOYAI_GRID";
    if (grid && *grid) return grid;
    cli_say(title, "which grid? Give --grid, or set MOYAI_GRID");
    return NULL;
}

void cli_key_file(const struct argp_state *state, const char *path) {
    char full[PATH_MAX];
    cli_filled(state, "--key-file", path);
    if (!realpath(path, full)) cli_usage(state, "--key-file: '%s': %s", path, strerror(errno));
    if (setenv("MOYAI_KEY_FILE", full, 1) < 0) argp_failure(state, CLI_FAILED, errno, "--key-file");
}

bool observe_option(int key, char *arg, const struct argp_state *state, struct observe_opts *o) {
    switch (key) {
    case OBSERVE_GRID:
        cli_grid(state, &o->grid, arg);
        return true;
    case OBSERVE_KEY_FILE:
        cli_key_file(state, arg);
        return true;
    case OBSERVE_TIMEOUT:
        o->timeout = cli_timeout(state, arg);
        o->timed = true;
        return true;
    case OBSERVE_JSON:
        o->json = true;
        return true;
    default:
        return false;
    }
}

bool observe_target(int key, char *arg, const struct argp_state *state, const char **target) {
    switch (key) {
    case ARGP_KEY_ARG:
        if (*target) cli_usage(state, "unknown argument '%s'", arg);
        cli_filled(state, "the name of a node", arg);
        *target = arg;
        return true;
    case ARGP_KEY_NO_ARGS:
        cli_usage(state, "which node? Its id or the beginning of it, a name or a reference");
        return true;
    default:
        return false;
    }
}

/* ---- lines of the grid file ------------------------------------------------------------------ */

struct unlinked {
    struct observer *o;
    size_t waits;
};

/* It stands above, where people read. */
static bool was_shown(const struct observer *o, const struct overlay_line *l) {
    char text[UNMET_LINE];
    snprintf(text, sizeof text, "\", line %u: %s", l->number, l->why);
    return *l->why && o->shown && strstr(o->shown, text);
}

static void add_line(char list[UNMET_LINE], const struct overlay_line *l, const char *colon, const char *why) {
    const size_t n = strlen(list);
    snprintf(list + n, UNMET_LINE - n, "%s\"%s\", line %u has no link yet%s%s", n ? "; " : "", l->file, l->number,
             colon, why);
}

static bool look_line(const struct overlay_line *l, void *ctx) {
    struct unlinked *u = ctx;
    const char *colon = *l->why ? ": " : "";
    const bool shown = was_shown(u->o, l);
    u->waits += !l->failed;
    add_line(u->o->unlinked, l, colon, l->why);
    add_line(u->o->unshown, l, shown ? "" : colon, shown ? ", as is said above" : l->why);
    return true;
}

/* o->unlinked: those that have none. How many may have one soon? */
static size_t look_lines(struct observer *o) {
    struct unlinked u = {.o = o};
    o->unlinked[0] = o->unshown[0] = 0;
    exec_lock(node_exec(o->node));
    overlay_each_line(node_overlay(o->node), look_line, &u);
    exec_unlock(node_exec(o->node));
    return u.waits;
}

/* ---- joining --------------------------------------------------------------------------------- */

static void print_error(int code, const char *text) {
    const char *name = moyai_err_name(code);
    printf("{\"error\": [{\"code\": %d", code);
    json_print_field(stdout, ", ", "name", name);
    json_print_field(stdout, ", ", "text", text);
    printf(", \"where\": \"caller\", \"executed\": \"never executed\", \"origin\": null}]");
}

void observer_print_error(bool json, int code, const char *text) {
    if (!json) return;
    print_error(code, text);
    printf("}\n");
}

void observer_failed(const char *title, bool json, int code, const char *text) {
    cli_say(title, "%s", text);
    observer_print_error(json, code, text);
}

/* 0, or the reason has been printed. */
static int await_link(struct observer *o, const char *title, const char *grid, const struct observe_opts *given) {
    moyai_node *n = o->node;
    moyai_dur timeout = given->timed ? given->timeout : LINK_TIME;
    struct unmet u;
    char line[UNMET_LINE], report[REPORT];
    unmet_begin(&u, UNMET_LOOKS);
    bool refused = false;
    int rc;
    do {
        moyai_dur left = timeout - (moyai_dur)(moyai_now() - u.began);
        rc = node_await_link(n, left < 0 ? 0 : left < LINK_LOOK ? left : LINK_LOOK);
        if (rc != MOYAI_ETIMEDOUT || left <= LINK_LOOK) break;
        exec_lock(node_exec(n));
        bool news = moyai_now() - u.began >= (moyai_ns)UNMET_FIRST && unmet_look(&u, node_overlay(n), grid, line);
        bool left_out = !given->timed && overlay_left_out(node_overlay(n));
        refused = !given->timed && moyai_now() - u.began >= (moyai_ns)REFUSED_TIME && overlay_refused(node_overlay(n));
        exec_unlock(node_exec(n));
        if (left_out) rc = MOYAI_EUNREACHABLE;
        if (left_out) break;
        if (news) cli_say(title, "%s", line);
    } while (!refused);
    if (rc == 0) return 0;
    exec_lock(node_exec(n));
    const unsigned what = overlay_report(node_overlay(n), report, sizeof report);
    exec_unlock(node_exec(n));
    if (refused) timeout = REFUSED_TIME;
    const char *more = refused && !(what & MET_KEY_TOLD) ? "; if it is still starting, --timeout waits for it" : "";
    const char *advice = unmet_advice(what);
    bool said = unmet_was_said(&u, grid, report);
    if (advice == u.advice) advice = "";
    char text[2 * UNMET_LINE + 200];
    if (rc == MOYAI_ETIMEDOUT)
        snprintf(text, sizeof text, "no node of the grid at '%s' could be reached within %s: %s%s%s", grid,
                 DUR(timeout), report, advice, more);
    else if (rc == MOYAI_ENOENT)
        snprintf(text, sizeof text, "nobody of the grid at '%s' could be met: %s%s", grid, report, advice);
    else if (rc == MOYAI_EUNREACHABLE)
        snprintf(text, sizeof text, "no place in the grid at '%s': %s", grid, report);
    else if (rc == MOYAI_ECANCELED)
        snprintf(text, sizeof text, "interrupted");
    else
        snprintf(text, sizeof text, "no node of the grid at '%s' could be reached: %s", grid, moyai_strerror(rc));
    const size_t end = strlen(text);
    if (rc != MOYAI_ECANCELED) (void)look_lines(o);
    if (o->unlinked[0]) snprintf(text + end, sizeof text - end, "; %s", o->unlinked);
    observer_print_error(given->json, rc, text);
    text[end] = 0;
    if (rc == MOYAI_ETIMEDOUT && said) /* all but that has been said */
        cli_say(title, "no node of the grid at '%s' could be reached within %s%s", grid, DUR(timeout), more);
    else if (rc != MOYAI_ENOENT || !said)
        cli_say(title, "%s", text);
    if (o->unlinked[0]) cli_say(title, "%s", o->unshown);
    return rc;
}

/* What it shows is kept as far as it is of lines: that is said with the node lock held, and is not to be said again. */
static void on_log(const struct log_event *ev, void *arg) {
    struct observer *o = arg;
    const size_t n = strlen(ev->text) + 1;
    cli_show(o->title, ev);
    if (strcmp(ev->id, "MOYAI-FORWARD") != 0 || ev->level != LOG_LEVEL_ERROR || o->n_shown + n > SHOWN) return;
    char *all = realloc(o->shown, o->n_shown + n + 1);
    if (!all) return; /* it is, then */
    snprintf(all + o->n_shown, n + 1, "%s\n", ev->text);
    o->shown = all;
    o->n_shown += n;
}

int observer_join(struct observer *o, const char *title, const struct observe_opts *given) {
    struct moyai_error why = {0};
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    *o = (struct observer){
        .title = title, .grid.lock = -1, .until = moyai_now() + (moyai_ns)(given->timed ? given->timeout : LINK_TIME)};
    const char *grid = cli_which_grid(title, &given->grid);
    if (!grid) {
        observer_print_error(given->json, MOYAI_EINVAL, "no grid was given");
        return CLI_USAGE;
    }
    int rc = run_grid_look(&o->grid, grid, &why);
    opts.grid = o->grid.address;
    opts.run_dir = o->grid.run_dir[0] ? o->grid.run_dir : NULL;
    opts.title = title;
    opts.signals = true;
    opts.outbound_only = true;
    if (rc == 0) rc = node_new_observer(&o->node, &opts, &why);
    reach_blame(&why);
    if (rc == 0) {
        log_set_sink(node_log(o->node), on_log, o);
        rc = o->grid.path[0] ? 0 : await_link(o, title, grid, given);
        if (rc == 0) return CLI_OK;
    } else {
        observer_failed(title, given->json, why.code, why.text);
    }
    observer_leave(o);
    if (rc == MOYAI_ECANCELED) return CLI_INTERRUPTED;
    return why.code == MOYAI_EINVAL ? CLI_USAGE : CLI_FAILED;
}

/* ---- waiting for lines ----------------------------------------------------------------------- */

/* Is there a line that may soon have a link? */
static bool lines_wait(struct observer *o) {
    return look_lines(o) > 0 && moyai_now() < o->until && !moyai_node_stopping(o->node);
}

/* Between two looks at them. */
static void await_lines(struct observer *o) {
    if (!o->awaits) log_info(node_log(o->node), "cli", "MOYAI-CLI-LINES", "waiting, since %s", o->unlinked);
    o->awaits = true;
    (void)moyai_sleep(o->node, LINE_LOOK);
}

void observer_await_lines(struct observer *o) {
    while (lines_wait(o)) await_lines(o);
}

/* ---- what is not seen ------------------------------------------------------------------------ */

/* Who has left, or died among others, has been told of; of who has ended alone nobody knows. */
static void doubt_lost(const struct observer *o, char line[UNMET_LINE]) {
    const struct crawl_lost *l = &o->lost;
    const bool one = l->n == 1;
    char who[CRAWL_LOST * sizeof l->of[0] + 40] = "";
    size_t n = 0;
    for (size_t i = 0; i < l->n && i < CRAWL_LOST; i++)
        n += (size_t)snprintf(who + n, sizeof who - n, "%s%.8s at %s", i ? ", " : "", l->of[i].id, l->of[i].at);
    if (l->n > CRAWL_LOST) snprintf(who + n, sizeof who - n, " and %zu more", l->n - CRAWL_LOST);
    snprintf(line, UNMET_LINE,
             "perhaps not all of the grid at '%.200s' is seen: %zu node%s that said in the last minute where %s cannot "
             "be reached from here, or %s ended since: %s",
             o->grid.address, l->n, one ? "" : "s", one ? "it is" : "they are", one ? "has" : "have", who);
}

/* Others have links to it, or it has left an entry in the directory. */
static void doubt_silent(const struct observer *o, char line[UNMET_LINE]) {
    const struct crawl_lost *l = &o->lost;
    char who[CRAWL_LOST * 12 + 40] = "";
    size_t n = 0;
    for (size_t i = 0; i < l->silent && i < CRAWL_LOST; i++)
        n += (size_t)snprintf(who + n, sizeof who - n, "%s%.8s", i ? ", " : "", l->silent_id[i]);
    if (l->silent > CRAWL_LOST) snprintf(who + n, sizeof who - n, " and %zu more", l->silent - CRAWL_LOST);
    snprintf(line, UNMET_LINE, "not all of the grid at '%.200s' is seen: %zu node%s known to others did not answer: %s",
             o->grid.address, l->silent, l->silent == 1 ? "" : "s", who);
}

static void doubt_lines(const struct observer *o, const char *lines, char line[UNMET_LINE]) {
    snprintf(line, UNMET_LINE, "not all of the grid at '%.200s' is seen: %.*s", o->grid.address,
             (int)(UNMET_LINE - 300), lines);
}

int observer_doubt(struct observer *o, const struct crawl_lost *lost) {
    o->lost = *lost;
    o->n_doubts = 0;
    char split[MOYAI_ERROR_TEXT];
    exec_lock(node_exec(o->node));
    if (!o->grid.path[0])
        o->n_doubts += unmet_some(node_overlay(o->node), o->grid.address, o->doubt[0]);
    else if (overlay_split(node_overlay(o->node), split))
        snprintf(o->doubt[o->n_doubts++], UNMET_LINE, "not all of the grid at '%.200s' is seen: %s", o->grid.address,
                 split);
    exec_unlock(node_exec(o->node));
    const bool lines = o->unlinked[0] != 0;
    o->of_lines = lines ? o->n_doubts : OBSERVER_DOUBTS;
    if (lines) doubt_lines(o, o->unlinked, o->doubt[o->n_doubts++]);
    if (lost->lines[0]) doubt_lines(o, lost->lines, o->doubt[o->n_doubts++]);
    if (lost->n) doubt_lost(o, o->doubt[o->n_doubts++]);
    if (lost->silent) doubt_silent(o, o->doubt[o->n_doubts++]);
    return o->n_doubts ? CLI_FAILED : CLI_OK;
}

int observer_doubts(struct observer *o) {
    const struct crawl_lost lost = o->lost;
    int status = observer_doubt(o, &lost);
    (void)fflush(stdout); /* it stands below what it is about */
    char short_of[UNMET_LINE];
    doubt_lines(o, o->unshown, short_of);
    for (size_t i = 0; i < o->n_doubts; i++) cli_say(o->title, "%s", i == o->of_lines ? short_of : o->doubt[i]);
    return status;
}

void observer_print_doubts(const struct observer *o) {
    printf("\n \"complete\": %s, \"unseen\": [", o->n_doubts ? "false" : "true");
    for (size_t i = 0; i < o->n_doubts; i++) {
        if (i) fputs(", ", stdout);
        json_print_text(stdout, o->doubt[i], strlen(o->doubt[i]));
    }
    fputc(']', stdout);
}

void observer_found_none(const struct observer *o, bool json, int code, const char *text) {
    cli_say(o->title, "%s", text);
    if (!json) return;
    print_error(code, text);
    fputc(',', stdout);
    observer_print_doubts(o);
    printf("}\n");
}

void observer_leave(struct observer *o) {
    moyai_node_free(o->node);
    free(o->shown);
    free(o->seen);
    (void)run_grid_end(&o->grid, NULL);
}

/* ---- finding --------------------------------------------------------------------------------- */

struct prefix {
    char text[33];
    struct moyai_node_id id;
    size_t found;
};

static void match(struct prefix *p, const char *id) {
    if (strncmp(id, p->text, strlen(p->text)) != 0) return;
    (void)id_parse(id, 32, p->id.b);
    p->found++;
}

static bool match_known(const struct rdv_node *node, const struct moyai_error *bad, void *ctx) {
    char id[33];
    if (bad) return true;
    id_format(node->id.b, id);
    match(ctx, id);
    return true;
}

/* By asking all nodes: where no directory knows them. Of many that are looked for each need not ask again. */
static int match_all(struct observer *o, struct prefix *p, struct moyai_error *why) {
    for (size_t i = 0; i < o->n_seen; i++) match(p, o->seen[i]);
    if (p->found > 0) return 0;
    struct crawl c = {.all_known = true};
    int rc = crawl(&c, o->node, FIND_TIME, why);
    o->lost = c.lost;
    free(o->seen);
    o->seen = calloc(c.n + 1, sizeof *o->seen);
    o->n_seen = o->seen ? c.n : 0; /* or they are asked again */
    for (size_t i = 0; i < c.n; i++) {
        match(p, c.node[i]->id);
        if (o->seen) memcpy(o->seen[i], c.node[i]->id, sizeof o->seen[i]);
    }
    crawl_done(&c);
    return rc;
}

/* ENOENT: no such node; EINVAL: several. */
static int find_prefix(struct observer *o, const char *target, size_t least, moyai_ref **ret, struct moyai_error *why) {
    struct prefix p = {.found = 0};
    size_t n = strlen(target);
    if (n < least || n >= 32 || strspn(target, "0123456789abcdefABCDEF") != n) return MOYAI_ENOENT;
    for (size_t i = 0; i < n; i++) p.text[i] = (char)tolower((unsigned char)target[i]);
    int rc = node_known(o->node, match_known, &p, why);
    if (rc == 0 && p.found == 0) rc = match_all(o, &p, why);
    if (rc < 0) return rc;
    if (p.found == 0)
        return err_set(why, MOYAI_ENOENT, "'%s' is neither the name of an object nor the beginning of a node's id",
                       target);
    if (p.found > 1) return err_set(why, MOYAI_EINVAL, "several nodes have ids that begin with '%s'", target);
    return moyai_node_ref(o->node, p.id, ret);
}

/* What is like it, where a directory knows the names. */
static void add_nearest(struct observer *o, const char *target, struct moyai_error *why) {
    struct near s = {.wanted = target, .least = SIZE_MAX};
    if (node_names(o->node, near_look, &s, NULL) < 0 || !s.name[0]) return;
    size_t n = strlen(why->text);
    snprintf(why->text + n, sizeof why->text - n, "; did you mean \"%s\"?", s.name);
}

/* It may be at the other end of a line that has no link yet, and is asked in vain before. */
static void await_node(struct observer *o, struct moyai_node_id id) {
    moyai_ref *node = NULL;
    if (!lines_wait(o) || moyai_node_ref(o->node, id, &node) < 0) return;
    for (bool found = false; !found && lines_wait(o);) {
        moyai_future *f = moyai_call_async(node, "info", MOYAI_NONE);
        moyai_value *info = NULL;
        while (!moyai_future_ready(f) && lines_wait(o)) await_lines(o);
        found = moyai_future_ready(f) && moyai_future_get(f, MOYAI_INTO(&info)) == 0;
        moyai_value_free(info);
        moyai_future_free(f);
        if (!found) await_lines(o);
    }
    moyai_ref_unref(node);
}

int observer_find(struct observer *o, const char *target, moyai_ref **ret, struct moyai_error *why) {
    struct moyai_node_id id;
    int rc;
    bool more;
    if (strncmp(target, "moyai:", 6) == 0 || id_parse(target, strlen(target), id.b)) {
        rc = target[0] == 'm' ? moyai_ref_parse(o->node, target, ret) : moyai_node_ref(o->node, id, ret);
        if (rc == 0) await_node(o, moyai_ref_home(*ret));
        if (rc < 0) moyai_last_error(o->node, why);
        return rc;
    }
    if (find_prefix(o, target, PREFIX_SURE, ret, why) == 0) {
        await_node(o, moyai_ref_home(*ret));
        return 0;
    }
    do {
        more = lines_wait(o); /* then it may be at the other end of one */
        rc = moyai_lookup(o->node, target, ret);
        if (rc == 0) return 0;
        moyai_last_error(o->node, why);
        int other = rc == MOYAI_ENOENT ? find_prefix(o, target, PREFIX_LEAST, ret, why) : rc;
        if (other == 0) await_node(o, moyai_ref_home(*ret)); /* others may know it, and not reach it either */
        if (other != MOYAI_ENOENT) return other;
        if (more) await_lines(o);
    } while (more);
    if (rc == MOYAI_ENOENT) { /* the text stays that of the name, if it can be nothing else */
        add_nearest(o, target, why);
        (void)observer_doubts(o);
    }
    return rc;
}

size_t clean_next(const char **text, const char **c) {
    static const char none[] = "\xef\xbf\xbe"; /* U+FFFE; U+FFFF is one more */
    const char *p = *text;
    const size_t n = utf8_length((const uint8_t *)p, strnlen(p, 4));
    const bool good = n > 0 && !utf8_control((const uint8_t *)p) &&
                      !(n == 3 && memcmp(p, none, 2) == 0 && (uint8_t)p[2] >= (uint8_t)none[2]);
    *c = good ? p : "?";
    *text += n ? n : 1;
    return good ? n : 1;
}

void print_clean(FILE *f, const char *text) {
    for (const char *c; *text;) {
        const size_t n = clean_next(&text, &c);
        fwrite(c, 1, n, f);
    }
}

int clean_width(const char *text) {
    int width = 0;
    for (const char *c; *text; width++) (void)clean_next(&text, &c);
    return width;
}

void print_cell(FILE *f, const char *text, int width) {
    if (!*text) text = "-";
    print_clean(f, text);
    fprintf(f, "%*s", width - clean_width(text) > 0 ? width - clean_width(text) : 0, "");
}

void clean_cut(char *out, size_t cap, const char *text) {
    const char *end = text;
    for (const char *c, *next = text; *next; end = next) {
        (void)clean_next(&next, &c);
        if ((size_t)(next - text) >= cap) break;
    }
    memcpy(out, text, (size_t)(end - text));
    out[end - text] = 0;
}
