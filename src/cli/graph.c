/* SPDX-License-Identifier: Apache-2.0 */
/* moyai graph: the links between the nodes of a grid, as text, JSON, for dot(1), or as a picture. */
#include "base/err.h"
#include "cli/cli.h"
#include "cli/graph_edges.h"
#include "cli/seek.h"
#include "cli/value_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_DOT = 0x100, KEY_SVG };

struct request {
    struct observe_opts o;
    int form; /* 0: text */
};

static error_t on_option(int key, char *arg, struct argp_state *state) {
    struct request *r = state->input;
    cli_help(key, state);
    if (key != OBSERVE_JSON && observe_option(key, arg, state, &r->o)) return 0;
    switch (key) {
    case OBSERVE_JSON:
    case KEY_DOT:
    case KEY_SVG:
        if (r->form && r->form != key) cli_usage(state, "only one of --json, --dot and --svg");
        r->form = key;
        r->o.json = key == OBSERVE_JSON;
        return 0;
    case ARGP_KEY_ARG:
        cli_usage(state, "unknown argument '%s'", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_name(const struct crawl_node *k) {
    printf("%.8s", k->id);
    if (k->title[0]) fputc(' ', stdout);
    print_clean(stdout, k->title);
}

static void print_lines(const struct graph *g) {
    for (size_t i = 0; i < g->c->n; i++) {
        const struct crawl_node *k = g->c->node[i];
        size_t found = 0;
        print_name(k);
        if (k->pid > 0) printf(", pid %lld", (long long)k->pid);
        if (k->info) {
            fputs(", at ", stdout);
            print_clean(stdout, info_text(k->info, "host"));
        } else {
            printf(", %s", k->state == CRAWL_SILENT ? "no answer" : crawl_state_name(k->state));
        }
        for (size_t j = g->first[i]; j < g->first[i + 1]; j++) {
            const struct edge *e = &g->edge[g->of[j]];
            fputs(found++ ? ", " : ": ", stdout);
            print_name(g->c->node[e->a == i ? e->b : e->a]);
            fputs(" (", stdout);
            print_clean(stdout, e->kind);
            fputc(')', stdout);
        }
        fputc('\n', stdout);
    }
}

/* ---- JSON and dot ---------------------------------------------------------------------------- */

static void print_text(const char *text) {
    json_print_text(stdout, text, strlen(text));
}

static void print_json(const struct graph *g, const struct observer *o) {
    printf("{\"nodes\": [");
    for (size_t i = 0; i < g->c->n; i++) {
        const struct crawl_node *k = g->c->node[i];
        printf("%s\n {\"node\": \"%s\", \"state\": \"%s\", \"title\": ", i ? "," : "", k->id,
               crawl_state_name(k->state));
        print_text(k->title);
        printf(", \"pid\": %lld, \"host\": ", (long long)k->pid);
        print_text(info_text(k->info, "host"));
        printf(", \"site\": ");
        print_text(info_text(k->info, "site"));
        fputc('}', stdout);
    }
    printf("],\n \"links\": [");
    for (size_t j = 0; j < g->n; j++) {
        const struct edge *e = &g->edge[j];
        printf("%s\n {\"nodes\": [\"%s\", \"%s\"], \"kind\": ", j ? "," : "", g->c->node[e->a]->id,
               g->c->node[e->b]->id);
        print_text(e->kind);
        printf(", \"queued\": %lld}", (long long)e->queued);
    }
    printf("],");
    observer_print_doubts(o);
    printf("}\n");
}

static void print_dot_text(const char *text) {
    for (const char *c; *text;) {
        const size_t n = clean_next(&text, &c);
        if (*c == '"' || *c == '\\') fputc('\\', stdout);
        fwrite(c, 1, n, stdout);
    }
}

static void print_dot(const struct graph *g) {
    printf("graph moyai {\n  node [shape=box];\n");
    for (size_t i = 0; i < g->c->n; i++) {
        const struct crawl_node *k = g->c->node[i];
        printf("  \"%s\" [label=\"%.8s\\n", k->id, k->id);
        print_dot_text(k->title);
        printf("\\n");
        print_dot_text(info_text(k->info, "host"));
        printf("\"%s];\n", k->info ? "" : " style=dashed");
    }
    for (size_t j = 0; j < g->n; j++) {
        const struct edge *e = &g->edge[j];
        printf("  \"%s\" -- \"%s\" [label=\"", g->c->node[e->a]->id, g->c->node[e->b]->id);
        print_dot_text(e->kind);
        printf("\"];\n");
    }
    printf("}\n");
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int draw(const struct crawl *c, struct observer *o, int form, struct moyai_error *why) {
    struct graph g;
    int rc = graph_make(&g, c);
    if (rc < 0) return err_set(why, rc, "out of memory for the links of %zu nodes", c->n);
    if (form == OBSERVE_JSON) (void)observer_doubt(o, &c->lost);
    if (form == OBSERVE_JSON)
        print_json(&g, o);
    else if (form == KEY_DOT)
        print_dot(&g);
    else if (form == KEY_SVG)
        graph_svg(&g, stdout);
    else
        print_lines(&g);
    graph_done(&g);
    return 0;
}

int cli_graph(int argc, char **argv) {
    static const struct argp_option options[] = {
        OBSERVE_OPTIONS("How long to wait for a node's answer (default 2s)", "Print one JSON object"),
        {"dot", KEY_DOT, 0, 0, "Print a graph for dot(1)", 0},
        {"svg", KEY_SVG, 0, 0, "Print a picture", 0},
        {0},
    };
    static const struct argp parser = {
        .options = options,
        .parser = on_option,
        .doc = "Shows the links between the nodes of a grid: by default one line a node, with those that it is linked "
               "to.\v" CLI_TIME_FORM,
    };
    struct request q = {.o.timeout = 2 * MOYAI_SEC};
    cli_parse(&parser, argc, argv, CLI_ANY_ORDER, &q);
    struct observer o;
    int status = observer_join(&o, argv[0], &q.o);
    if (status) return status;
    observer_await_lines(&o);
    struct crawl c = {.all_known = true};
    struct moyai_error why = {0};
    int rc = crawl(&c, o.node, q.o.timeout, &why);
    status = seek_interrupted(&o, q.o.json);
    if (rc == 0 && status == CLI_OK) rc = draw(&c, &o, q.form, &why);
    if (status == CLI_OK && rc < 0) {
        observer_failed(argv[0], q.o.json, why.code, why.text);
        status = CLI_FAILED;
    } else if (status == CLI_OK) {
        o.lost = c.lost;
        status = observer_doubts(&o);
        if (status == CLI_OK && c.n == 0 && !q.o.json) seek_nobody(&o);
    }
    crawl_done(&c);
    observer_leave(&o);
    return status;
}
