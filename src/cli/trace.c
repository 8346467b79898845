/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moyai trace: the way of a call to a node, hop by hop. This node's session with it runs over a link or over a path;
 * each node that the path passes is asked where it goes on from there, and how long a round trip to it takes.
 */
#include "base/err.h"
#include "base/id.h"
#include "cli/cli.h"
#include "cli/crawl.h"
#include "cli/observe.h"
#include "cli/seek.h"
#include "cli/value_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOPS_MOST 32 /* paths are shorter */
#define PINGS     3
#define TRIES     5 /* ways may change while one is followed */

struct request {
    struct observe_opts o;
    const char *target;
};

static error_t on_option(int key, char *arg, struct argp_state *state) {
    struct request *r = state->input;
    cli_help(key, state);
    return observe_option(key, arg, state, &r->o) || observe_target(key, arg, state, &r->target) ? 0 : ARGP_ERR_UNKNOWN;
}

struct hop {
    struct moyai_node_id id;
    char kind[16]; /* of the link by which it is reached */
    double ms;     /* of the quickest round trip to it; < 0: why */
    moyai_value *info;
    struct moyai_error why;
};

struct trace {
    const struct observer *o;
    const char *target;
    moyai_node *node;
    moyai_dur timeout;
    struct moyai_node_id end;
    struct hop hop[HOPS_MOST];
    int n;
    bool whole; /* the last is the end */
};

/* Call a method of a node itself. */
static int ask(const struct trace *t, struct moyai_node_id id, const char *method, const struct moyai_args *args,
               moyai_value **ret, struct moyai_error *why) {
    moyai_ref *ref = NULL;
    int rc = moyai_node_ref(t->node, id, &ref);
    if (rc < 0) return err_set(why, rc, "%s", moyai_strerror(rc));
    moyai_future *f = moyai_call_async(ref, method, args);
    moyai_future_deadline(f, t->timeout);
    rc = moyai_future_get_masked(f, ret ? MOYAI_INTO(ret) : MOYAI_NONE);
    if (rc < 0) moyai_last_error(t->node, why);
    moyai_future_free(f);
    moyai_ref_unref(ref);
    return rc;
}

static void forget(struct trace *t) {
    for (int i = 0; i < t->n; i++) moyai_value_free(t->hop[i].info);
    memset(t->hop, 0, sizeof t->hop);
    t->n = 0;
    t->whole = false;
}

static bool parse_id(const char *text, struct moyai_node_id *id) {
    return strlen(text) == 32 && id_parse(text, 32, id->b);
}

/* Follow the way. 0, also if it is lost on the way: t->whole tells. */
static int follow(struct trace *t, struct moyai_error *why) {
    struct moyai_node_id at = moyai_node_self(t->node);
    uint64_t path = 0;
    char end[33];
    moyai_node_id_format(t->end, end);
    while (t->n < HOPS_MOST && !t->whole) {
        moyai_value *way = NULL;
        struct hop *h = &t->hop[t->n];
        int rc =
            path ? ask(t, at, "way", MOYAI_ARGS(end, path), &way, why) : ask(t, at, "way", MOYAI_ARGS(end), &way, why);
        if (rc < 0 && t->n == 0) return rc;
        bool known = rc == 0 && parse_id(info_text(way, "next"), &h->id);
        if (known) {
            clean_cut(h->kind, sizeof h->kind, info_text(way, "kind"));
            const moyai_value *p = moyai_value_find(way, "path");
            if (!p || moyai_value_get(p, MOYAI_INTO(&path)->v[0]) < 0) path = 0;
            at = h->id;
            t->n++;
            t->whole = moyai_node_id_equal(at, t->end);
        }
        moyai_value_free(way);
        if (!known || (path == 0 && !t->whole)) return 0;
    }
    return 0;
}

static void measure(struct trace *t, struct hop *h) {
    h->ms = -1;
    if (ask(t, h->id, "info", MOYAI_NONE, &h->info, &h->why) < 0) return;
    for (int i = 0; i < PINGS; i++) {
        moyai_ns begin = moyai_now();
        if (ask(t, h->id, "ping", MOYAI_NONE, NULL, &h->why) < 0) return;
        double ms = (double)(moyai_now() - begin) * 1e-6;
        if (h->ms < 0 || ms < h->ms) h->ms = ms;
    }
}

static int trace(struct trace *t, struct moyai_error *why) {
    if (moyai_node_id_equal(t->end, moyai_node_self(t->node)))
        return err_set(why, MOYAI_EINVAL, "that is this command itself");
    for (int i = 0; i < TRIES && !t->whole && !moyai_node_stopping(t->node); i++) {
        forget(t);
        int rc = ask(t, t->end, "ping", MOYAI_NONE, NULL, why); /* lays the way, if there is none */
        if (rc < 0) seek_unanswered(t->o, t->target, t->end, t->timeout, why);
        if (rc == 0) rc = follow(t, why);
        if (rc < 0) return rc;
    }
    for (int i = 0; i < t->n && !moyai_node_stopping(t->node); i++) measure(t, &t->hop[i]);
    return 0;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* Of the longest. */
static int width_of(const struct trace *t, const char *key) {
    int width = 0;
    for (int i = 0; i < t->n; i++) {
        const int one = clean_width(info_text(t->hop[i].info, key));
        if (one > width) width = one;
    }
    return width;
}

static void print_text(const struct trace *t) {
    const int host = width_of(t, "host"), site = width_of(t, "site"), title = width_of(t, "title");
    for (int i = 0; i < t->n; i++) {
        const struct hop *h = &t->hop[i];
        char id[33];
        moyai_node_id_format(h->id, id);
        printf("%2d  %.8s  ", i + 1, id);
        print_cell(stdout, h->kind, 4);
        fputs("  ", stdout);
        if (h->ms >= 0)
            printf("%9.3f ms  ", h->ms);
        else
            printf("%9s     ", "-");
        print_cell(stdout, info_text(h->info, "host"), host);
        fputs("  ", stdout);
        if (site > 0) { /* one has one */
            print_cell(stdout, info_text(h->info, "site"), site);
            fputs("  ", stdout);
        }
        print_cell(stdout, info_text(h->info, "title"), h->ms < 0 ? title : 0);
        if (h->ms < 0) {
            fputs("  no answer: ", stdout);
            print_clean(stdout, h->why.text);
        }
        fputc('\n', stdout);
    }
    if (!t->whole) printf("%2d  ?         the way has changed, or is not known from here\n", t->n + 1);
}

static void print_json(const struct trace *t) {
    char id[33];
    moyai_node_id_format(t->end, id);
    printf("{\"node\": \"%s\", \"whole\": %s, \"hops\": [", id, t->whole ? "true" : "false");
    for (int i = 0; i < t->n; i++) {
        const struct hop *h = &t->hop[i];
        moyai_node_id_format(h->id, id);
        printf("%s{\"node\": \"%s\"", i ? ",\n " : "\n ", id);
        json_print_field(stdout, ", ", "kind", h->kind);
        json_print_field(stdout, ", ", "host", info_text(h->info, "host"));
        json_print_field(stdout, ", ", "site", info_text(h->info, "site"));
        json_print_field(stdout, ", ", "title", info_text(h->info, "title"));
        if (h->ms >= 0)
            printf(", \"ms\": %.6f", h->ms);
        else
            json_print_field(stdout, ", ", "error", h->why.text);
        fputc('}', stdout);
    }
    printf("]}\n");
}

int cli_trace(int argc, char **argv) {
    static const struct argp_option options[] = {
        OBSERVE_OPTIONS("How long to wait for each answer (default 5s)", "Print one JSON object"),
        {0},
    };
    static const struct argp parser = {
        .options = options,
        .parser = on_option,
        .args_doc = "NODE|NAME|REF",
        .doc =
            "Shows the way of a call to a node of the grid, hop by hop: id, kind of link, round trip from here, host, "
            "site and title of each node that it passes, and of the node itself.\v"
            "NODE is a node's id or its beginning; a NAME or a reference REF stands for the node of that "
            "object.\n\n" CLI_TIME_FORM,
    };
    struct request q = {.o.timeout = 5 * MOYAI_SEC};
    cli_parse(&parser, argc, argv, CLI_ANY_ORDER, &q);
    struct observer o;
    int status = observer_join(&o, argv[0], &q.o);
    if (status) return status;
    struct moyai_error why = {0};
    struct moyai_node_id end;
    static struct trace t;
    int rc = seek_node(&o, q.target, q.o.timeout, &end, NULL, &why);
    if (rc == 0) {
        t = (struct trace){.o = &o, .target = q.target, .node = o.node, .timeout = q.o.timeout, .end = end};
        rc = trace(&t, &why);
    }
    status = seek_interrupted(&o, q.o.json);
    if (status == CLI_OK && rc < 0) {
        observer_failed(argv[0], q.o.json, why.code, why.text);
        status = CLI_FAILED;
    } else if (status == CLI_OK) {
        if (q.o.json)
            print_json(&t);
        else
            print_text(&t);
        status = t.whole ? CLI_OK : CLI_FAILED;
    }
    forget(&t);
    observer_leave(&o);
    return status;
}
