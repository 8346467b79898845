/* SPDX-License-Identifier: Apache-2.0 */
/* moyai ps: the nodes of a grid. */
#include "base/dur.h"
#include "cli/cli.h"
#include "cli/crawl.h"
#include "cli/seek.h"
#include "cli/value_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
    struct observe_opts o;
};

static error_t on_option(int key, char *arg, struct argp_state *state) {
    struct request *r = state->input;
    cli_help(key, state);
    if (observe_option(key, arg, state, &r->o)) return 0;
    switch (key) {
    case ARGP_KEY_ARG:
        cli_usage(state, "unknown argument '%s'", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { NODE, TITLE, PID, HOST, SITE, ARCH, LOAD, SLOTS, OBJECTS, LINKS, UPTIME, COLUMNS };
static const char *const heads[COLUMNS] = {"NODE", "TITLE", "PID",     "HOST",  "SITE",  "ARCH",
                                           "LOAD", "SLOTS", "OBJECTS", "LINKS", "UPTIME"};
#define CELL 72

static bool is_count(int column) {
    return column == PID || column == LOAD || column == SLOTS || column == OBJECTS || column == LINKS;
}

static void put_time(double seconds, char out[CELL]) {
    long long s = seconds > 0 && seconds < 1e15 ? (long long)seconds : 0;
    if (s < 60)
        snprintf(out, CELL, "%llds", s);
    else if (s < 3600)
        snprintf(out, CELL, "%lldm%02llds", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, CELL, "%lldh%02lldm", s / 3600, s / 60 % 60);
    else
        snprintf(out, CELL, "%lldd%02lldh", s / 86400, s / 3600 % 24);
}

/* Nothing leaves what is there. */
static void put_text(const char *text, char out[CELL]) {
    if (*text) clean_cut(out, CELL, text);
}

/* The link over which it was asked, or that of another who looks. */
static bool is_looked_over(const struct crawl *c, const moyai_value *l) {
    return info_bool(l, "observer") || strcmp(info_text(l, "peer"), c->self) == 0;
}

/* But for those. */
static int64_t links_of(const struct crawl *c, const moyai_value *info) {
    const moyai_value *links = moyai_value_find(info, "links");
    int64_t n = info_int(info, "n_links");
    for (size_t i = 0; i < moyai_value_count(links); i++) n -= is_looked_over(c, moyai_value_at(links, i));
    return n;
}

/* To how many nodes: a command has a link to its agent as its parent and may have one as any other. */
static int64_t peers_of(const struct crawl *c, const moyai_value *info) {
    const moyai_value *links = moyai_value_find(info, "links");
    int64_t n = links_of(c, info);
    for (size_t i = 0; i < moyai_value_count(links); i++) {
        const char *peer = info_text(moyai_value_at(links, i), "peer");
        size_t k = 0;
        while (strcmp(info_text(moyai_value_at(links, k), "peer"), peer) != 0) k++;
        n -= k < i && !is_looked_over(c, moyai_value_at(links, i));
    }
    return n;
}

/* So it says itself; an agent ends its commands before, and takes no more of them. */
static bool is_leaving(const moyai_value *info) {
    const moyai_value *agent = moyai_value_find(info, "agent");
    return moyai_value_find(info, "leaving") || (agent && info_int(agent, "slots") == 0);
}

static void put_row(const struct crawl *c, const struct crawl_node *k, const struct request *q,
                    char cell[COLUMNS][CELL]) {
    const moyai_value *v = k->info;
    for (int i = 0; i < COLUMNS; i++) strcpy(cell[i], "-");
    snprintf(cell[NODE], CELL, "%.8s", k->id);
    put_text(k->title, cell[TITLE]);
    if (k->pid > 0) snprintf(cell[PID], CELL, "%lld", (long long)k->pid);
    if (k->state == CRAWL_SILENT) snprintf(cell[UPTIME], CELL, "no answer in %s", DUR(q->o.timeout));
    if (k->state == CRAWL_DEAD) strcpy(cell[UPTIME], "dead");
    if (k->state == CRAWL_FAILED) snprintf(cell[UPTIME], CELL, "failed: %s", moyai_strerror(k->why.code));
    if (!v) return;
    put_text(info_text(v, "host"), cell[HOST]);
    put_text(info_text(v, "site"), cell[SITE]);
    put_text(info_text(v, "machine"), cell[ARCH]);
    snprintf(cell[LOAD], CELL, "%.2f", info_double(v, "load"));
    const moyai_value *agent = moyai_value_find(v, "agent");
    if (agent)
        snprintf(cell[SLOTS], CELL, "%lld/%lld", (long long)info_int(agent, "used"),
                 (long long)info_int(agent, "slots"));
    snprintf(cell[OBJECTS], CELL, "%lld", (long long)info_int(v, "objects"));
    snprintf(cell[LINKS], CELL, "%lld", (long long)peers_of(c, v));
    put_time(info_double(v, "uptime"), cell[UPTIME]);
    if (is_leaving(v)) strcat(cell[UPTIME], ", leaving");
}

static void print_row(char cell[COLUMNS][CELL], const int width[COLUMNS]) {
    for (int i = 0; i < COLUMNS; i++) {
        int gap = width[i] - clean_width(cell[i]);
        if (i) fputs("  ", stdout);
        if (is_count(i)) printf("%*s", gap, "");
        print_clean(stdout, cell[i]);
        if (!is_count(i) && i < COLUMNS - 1) printf("%*s", gap, "");
    }
    fputc('\n', stdout);
}

static void print_table(const struct crawl *c, const struct request *q) {
    char cell[COLUMNS][CELL];
    int width[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) width[i] = clean_width(heads[i]);
    for (size_t k = 0; k < c->n; k++) {
        put_row(c, c->node[k], q, cell);
        for (int i = 0; i < COLUMNS; i++)
            if (clean_width(cell[i]) > width[i]) width[i] = clean_width(cell[i]);
    }
    for (int i = 0; i < COLUMNS; i++) strcpy(cell[i], heads[i]);
    print_row(cell, width);
    for (size_t k = 0; k < c->n; k++) {
        put_row(c, c->node[k], q, cell);
        print_row(cell, width);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void print_links(const struct crawl *c, const moyai_value *info) {
    const moyai_value *links = moyai_value_find(info, "links");
    const char *comma = "";
    printf(", \"n_links\": %lld, \"links\": [", (long long)links_of(c, info));
    for (size_t i = 0; i < moyai_value_count(links); i++) {
        const moyai_value *l = moyai_value_at(links, i);
        if (is_looked_over(c, l)) continue;
        fputs(comma, stdout);
        value_print(stdout, l);
        comma = ", ";
    }
    fputc(']', stdout);
}

/* What the node says of itself, without what stands there already. */
static void print_object(const struct crawl *c, const struct crawl_node *k) {
    static const char *const ours[] = {"node", "state", "title", "pid", "error", "n_links", "links"};
    fputc('{', stdout);
    json_print_field(stdout, "", "node", k->id);
    json_print_field(stdout, ", ", "state", crawl_state_name(k->state));
    json_print_field(stdout, ", ", "title", k->title);
    if (k->pid > 0) printf(", \"pid\": %lld", (long long)k->pid);
    if (!k->info) {
        json_print_field(stdout, ", ", "error", k->why.text);
    }
    for (size_t i = 0; i < moyai_value_count(k->info); i++) {
        const char *key = moyai_value_key(k->info, i);
        bool known = false;
        for (size_t j = 0; key && j < sizeof ours / sizeof ours[0]; j++) known |= strcmp(key, ours[j]) == 0;
        if (!key || known) continue;
        fputs(", ", stdout);
        json_print_text(stdout, key, strlen(key));
        fputs(": ", stdout);
        value_print(stdout, moyai_value_at(k->info, i));
    }
    if (k->info && is_leaving(k->info) && !moyai_value_find(k->info, "leaving"))
        printf(", \"leaving\": %lld", (long long)info_int(moyai_value_find(k->info, "agent"), "used"));
    if (k->info) print_links(c, k->info);
    fputc('}', stdout);
}

static void print_json(const struct crawl *c, const struct observer *o) {
    printf("{\"nodes\": [");
    for (size_t k = 0; k < c->n; k++) {
        fputs(k ? ",\n " : "\n ", stdout);
        print_object(c, c->node[k]);
    }
    printf("],");
    observer_print_doubts(o);
    printf("}\n");
}

int cli_ps(int argc, char **argv) {
    static const struct argp_option options[] = {
        OBSERVE_OPTIONS("How long to wait for a node's answer (default 2s)", "Print one JSON object"),
        {0},
    };
    static const struct argp parser = {
        .options = options,
        .parser = on_option,
        .doc =
            "Lists the nodes of a grid: id, title, process id, host, site, architecture, load of the host, for agents "
            "the slots taken of all, objects, links, and time since the start. Those that do not answer in time are "
            "listed as such.\v" CLI_TIME_FORM,
    };
    struct request q = {.o.timeout = 2 * MOYAI_SEC};
    cli_parse(&parser, argc, argv, CLI_ANY_ORDER, &q);
    struct observer o;
    int status = observer_join(&o, argv[0], &q.o);
    if (status) return status;
    observer_await_lines(&o);
    struct crawl c = {.all_known = true};
    struct moyai_error why = {0};
    const int rc = crawl(&c, o.node, q.o.timeout, &why);
    status = seek_interrupted(&o, q.o.json);
    if (status == CLI_OK && rc < 0) {
        observer_failed(argv[0], q.o.json, why.code, why.text);
        status = CLI_FAILED;
    } else if (status == CLI_OK && q.o.json) {
        (void)observer_doubt(&o, &c.lost);
        print_json(&c, &o);
    } else if (status == CLI_OK) {
        print_table(&c, &q);
    }
    o.lost = c.lost;
    if (status == CLI_OK) status = observer_doubts(&o);
    if (status == CLI_OK && c.n == 0 && !q.o.json) seek_nobody(&o);
    crawl_done(&c);
    observer_leave(&o);
    return status;
}
