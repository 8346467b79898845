/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture: all nodes on a circle, hosts beside each other in colours of their own, names outside along the radius.
 * A circle needs no search for places, and looks the same each time.
 */
#include "cli/graph_edges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- edges ----------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    const struct edge *x = a, *y = b;
    if (x->a != y->a) return x->a < y->a ? -1 : 1;
    if (x->b != y->b) return x->b < y->b ? -1 : 1;
    return strcmp(x->kind, y->kind);
}

struct place {
    const struct crawl_node *node;
    size_t index;
};

static int compare_places(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    return strcmp(x->node->id, y->node->id);
}

static void add_links_of(struct graph *g, size_t i, const struct place *by_id) {
    const moyai_value *links = moyai_value_find(g->c->node[i]->info, "links");
    for (size_t k = 0; k < moyai_value_count(links); k++) {
        const moyai_value *l = moyai_value_at(links, k);
        struct place key = {crawl_find(g->c, info_text(l, "peer")), 0};
        if (!key.node || key.node == g->c->node[i]) continue;
        const struct place *other = bsearch(&key, by_id, g->c->n, sizeof key, compare_places);
        if (!other) continue;
        size_t j = other->index;
        g->edge[g->n++] = (struct edge){i < j ? i : j, i < j ? j : i, info_text(l, "kind"), info_int(l, "queued")};
    }
}

/* The edges of each node. */
static int index_edges(struct graph *g) {
    size_t n = g->c->n;
    g->first = calloc(n + 2, sizeof *g->first);
    g->of = calloc(2 * g->n + 1, sizeof *g->of);
    if (!g->first || !g->of) return MOYAI_ENOMEM;
    for (size_t k = 0; k < g->n; k++) {
        g->first[g->edge[k].a + 2]++;
        g->first[g->edge[k].b + 2]++;
    }
    for (size_t i = 2; i < n + 2; i++) g->first[i] += g->first[i - 1];
    for (size_t k = 0; k < g->n; k++) { /* first[i + 1]: where the next of node i goes, in the end where i + 1 begins */
        g->of[g->first[g->edge[k].a + 1]++] = k;
        g->of[g->first[g->edge[k].b + 1]++] = k;
    }
    return 0;
}

int graph_make(struct graph *g, const struct crawl *c) {
    size_t most = 0, n = 0;
    *g = (struct graph){.c = c};
    for (size_t i = 0; i < c->n; i++) most += moyai_value_count(moyai_value_find(c->node[i]->info, "links"));
    g->edge = calloc(most + 1, sizeof *g->edge);
    struct place *by_id = calloc(c->n + 1, sizeof *by_id);
    if (!g->edge || !by_id) {
        free(by_id);
        graph_done(g);
        return MOYAI_ENOMEM;
    }
    for (size_t i = 0; i < c->n; i++) by_id[i] = (struct place){c->node[i], i};
    qsort(by_id, c->n, sizeof *by_id, compare_places);
    for (size_t i = 0; i < c->n; i++) add_links_of(g, i, by_id);
    free(by_id);
    qsort(g->edge, g->n, sizeof *g->edge, compare);
    for (size_t k = 0; k < g->n; k++) {
        if (n > 0 && compare(&g->edge[n - 1], &g->edge[k]) == 0)
            g->edge[n - 1].queued += g->edge[k].queued;
        else
            g->edge[n++] = g->edge[k];
    }
    g->n = n;
    int rc = index_edges(g);
    if (rc < 0) graph_done(g);
    return rc;
}

void graph_done(struct graph *g) {
    free(g->edge);
    free(g->of);
    free(g->first);
    g->of = g->first = NULL;
    g->edge = NULL;
    g->n = 0;
}

/* ---- the picture ----------------------------------------------------------------------------- */

#define LABEL_CHARS 40
#define CHAR_WIDE   7.5  /* most of a label's width, for each of its characters */
#define EDGE        40.0 /* around it all */
#define STEP        18.0 /* between two nodes on the circle */
#define LEAST       60.0 /* its radius */
#define PI          3.14159265358979323846

static void put_escaped(FILE *f, const char *text, int most) {
    for (const char *c; *text;) {
        if (most-- == 0) {
            fputs("\xe2\x80\xa6", f);
            return;
        }
        const size_t n = clean_next(&text, &c);
        switch (*c) {
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '&':
            fputs("&amp;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        default:
            fwrite(c, 1, n, f);
        }
    }
}

static const char *colour_of(size_t host) {
    static const char *const colours[] = {"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#997700"};
    return colours[host % (sizeof colours / sizeof colours[0])];
}

static void put_node(const struct graph *g, size_t i, double middle, double radius, const char *colour, FILE *f) {
    const struct crawl_node *k = g->c->node[i];
    double turn = 360.0 * (double)i / (double)g->c->n;
    bool left = turn > 90 && turn < 270; /* names are never upside down */
    fprintf(f, "<g class=\"%s\" transform=\"rotate(%.3f %.1f %.1f)\"><title>", crawl_state_name(k->state), turn, middle,
            middle);
    put_escaped(f, k->id, 32);
    fputs("\n", f);
    put_escaped(f, k->title, 128);
    if (k->pid > 0) fprintf(f, ", pid %lld", (long long)k->pid);
    if (k->info) {
        fputs("\n", f);
        put_escaped(f, info_text(k->info, "host"), 128);
        fprintf(f, ", load %.2f, objects %lld", info_double(k->info, "load"), (long long)info_int(k->info, "objects"));
    } else {
        fprintf(f, "\n%s", k->state == CRAWL_SILENT ? "no answer" : crawl_state_name(k->state));
    }
    fprintf(f, "</title><circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\"/>", middle + radius, middle,
            k->info ? colour : "none");
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\"", middle + radius + 10, middle + 4);
    if (left) fprintf(f, " text-anchor=\"end\" transform=\"rotate(180 %.1f %.1f)\"", middle + radius + 10, middle);
    fprintf(f, ">%.8s ", k->id);
    put_escaped(f, k->title, LABEL_CHARS - 9);
    fputs("</text></g>\n", f);
}

static void put_edge(const struct graph *g, const struct edge *e, double middle, double radius, FILE *f) {
    double a = 2 * PI * (double)e->a / (double)g->c->n, b = 2 * PI * (double)e->b / (double)g->c->n;
    fprintf(f, "<path class=\"%s\" d=\"M%.1f %.1fQ%.1f %.1f %.1f %.1f\"><title>",
            strcmp(e->kind, "unix") == 0 ? "near" : "far", middle + radius * cos(a), middle + radius * sin(a), middle,
            middle, middle + radius * cos(b), middle + radius * sin(b));
    put_escaped(f, e->kind, 20);
    fputs("</title></path>\n", f);
}

/* Room for the longest label. */
static double margin(const struct graph *g) {
    size_t most = 0;
    for (size_t i = 0; i < g->c->n; i++) {
        size_t n = strlen(g->c->node[i]->title);
        if (n > most) most = n;
    }
    return EDGE + CHAR_WIDE * (double)(9 + (most < LABEL_CHARS - 9 ? most : LABEL_CHARS - 9));
}

void graph_svg(const struct graph *g, FILE *f) {
    double radius = (double)g->c->n * STEP / (2 * PI), size;
    size_t host = 0;
    if (radius < LEAST) radius = LEAST;
    size = 2 * (radius + margin(g));
    fprintf(f,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
            "<style>text{font:12px sans-serif;fill:#333}path{fill:none;stroke:#999}.far{stroke:#d95f02}"
            "circle{stroke:#333}.silent text,.dead text,.failed text{fill:#b00}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
            "<text x=\"16\" y=\"24\">%zu node%s, %zu link%s</text>\n",
            size, size, size, size, g->c->n, g->c->n == 1 ? "" : "s", g->n, g->n == 1 ? "" : "s");
    for (size_t j = 0; j < g->n; j++) put_edge(g, &g->edge[j], size / 2, radius, f);
    for (size_t i = 0; i < g->c->n; i++) {
        if (i > 0 && strcmp(info_text(g->c->node[i]->info, "host"), info_text(g->c->node[i - 1]->info, "host")) != 0)
            host++;
        put_node(g, i, size / 2, radius, colour_of(host), f);
    }
    fputs("</svg>\n", f);
}
