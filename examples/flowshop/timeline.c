/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout, in user units: labels of events in rows at the top, as many as they need; below them the plot; axis numbers
 * under and left of it; the legend in the title line. Counts are steps, not slopes: they change at once.
 */
#include "timeline.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH       960.0
#define LEFT        56.0
#define RIGHT       24.0
#define TITLE_LINE  40.0
#define ROW         15.0 /* of labels */
#define MAX_ROWS    10
#define PLOT_HEIGHT 260.0
#define BOTTOM      48.0
#define MOST        1000000000 /* larger counts are drawn as this */
#define LETTER      6.4        /* mean width of a letter at the size of labels */

struct plot {
    const struct timeline *t;
    struct bytes *out;
    double seconds; /* at the right edge */
    int top_count;  /* at the upper edge */
    double top, bottom, height;
};

static void put(struct plot *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(struct plot *p, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n > 0) bytes_put_text(p->out, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static void put_escaped(struct plot *p, const char *text) {
    for (const char *c = text; *c; c++) {
        switch (*c) {
        case '<':
            put(p, "&lt;");
            break;
        case '>':
            put(p, "&gt;");
            break;
        case '&':
            put(p, "&amp;");
            break;
        default:
            if ((unsigned char)*c >= ' ') bytes_put_text(p->out, c, 1);
        }
    }
}

static double within(const struct plot *p, double seconds) {
    if (!(seconds > 0)) return 0; /* what is not a number, too */
    return seconds < p->seconds ? seconds : p->seconds;
}

static double x_of(const struct plot *p, double seconds) {
    return LEFT + (WIDTH - LEFT - RIGHT) * within(p, seconds) / p->seconds;
}

static double y_of(const struct plot *p, int count) {
    return p->bottom - PLOT_HEIGHT * count / p->top_count;
}

/* The distance of about 8 axis marks: 1, 2 or 5 times a power of ten. */
static double mark_distance(double range) {
    double d = pow(10, floor(log10(range / 8)));
    if (range / d > 40) return 5 * d;
    if (range / d > 16) return 2 * d;
    return d;
}

static double width_of(const char *text) {
    int letters = 0;
    for (const char *c = text; *c; c++) letters += ((unsigned char)*c & 0xc0) != 0x80; /* UTF-8: first bytes */
    return letters * LETTER;
}

/* A label stands right of its mark, or left of it near the right edge. */
static double label_begin(const struct plot *p, const struct timeline_event *e) {
    double x = x_of(p, e->seconds), w = width_of(e->label);
    return x + 4 + w <= WIDTH - 4 ? x + 4 : x - 4 - w;
}

/* Finds each label the first row in which nothing is in its way; -1: there is none. Returns the number of rows. */
static int place_labels(const struct plot *p, signed char *row) {
    double taken[MAX_ROWS];
    int rows = 0;
    for (int r = 0; r < MAX_ROWS; r++) taken[r] = 0;
    for (size_t i = 0; i < p->t->n_events; i++) {
        double begin = label_begin(p, &p->t->events[i]);
        row[i] = -1;
        for (int r = 0; r < MAX_ROWS && row[i] < 0; r++) {
            if (taken[r] > begin) continue;
            row[i] = (signed char)r;
            taken[r] = begin + width_of(p->t->events[i].label) + 10;
            rows = rows > r + 1 ? rows : r + 1;
        }
    }
    return rows;
}

static void draw_head(struct plot *p) {
    put(p, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" role=\"img\">\n",
        WIDTH, p->height, WIDTH, p->height);
    put(p, "<title>");
    put_escaped(p, p->t->title);
    put(p, "</title>\n<style>\n"
           "text { font: 12px sans-serif; fill: #333; }\n"
           ".title { font-size: 15px; font-weight: bold; }\n"
           ".paper { fill: #fff; }\n"
           ".grid { stroke: #ddd; }\n"
           ".axis { stroke: #666; }\n"
           ".event { stroke: #888; stroke-dasharray: 3 3; }\n");
    put(p,
        ".workers { stroke: #1f6fd0; fill: none; stroke-width: 5; stroke-opacity: 0.5; }\n" /* shows beside the other */
        ".running { stroke: #d9730d; fill: none; stroke-width: 1.5; }\n"
        "@media (prefers-color-scheme: dark) {\n"
        "text { fill: #ccc; }\n"
        ".paper { fill: #15181c; }\n"
        ".grid { stroke: #333; }\n"
        ".axis, .event { stroke: #999; }\n");
    put(p, ".workers { stroke: #6aa9f4; }\n"
           ".running { stroke: #f2a154; }\n"
           "}\n</style>\n");
    put(p, "<rect class=\"paper\" width=\"%g\" height=\"%g\"/>\n", WIDTH, p->height);
    put(p, "<text class=\"title\" x=\"%g\" y=\"24\">", LEFT);
    put_escaped(p, p->t->title);
    put(p, "</text>\n");
    double x = WIDTH - RIGHT - 220;
    put(p, "<path class=\"workers\" d=\"M%g 20h24\"/><text x=\"%g\" y=\"24\">workers</text>\n", x, x + 30);
    put(p, "<path class=\"running\" d=\"M%g 20h24\"/><text x=\"%g\" y=\"24\">running tasks</text>\n", x + 106, x + 136);
}

static void draw_axes(struct plot *p) {
    int step = (int)fmax(1, mark_distance(p->top_count));
    for (int k = 0; k <= p->top_count / step; k++) {
        int c = k * step;
        double y = y_of(p, c);
        if (c > 0) put(p, "<path class=\"grid\" d=\"M%g %.1fH%g\"/>", LEFT, y, WIDTH - RIGHT);
        put(p, "<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n", LEFT - 8, y + 4, c);
    }
    double d = mark_distance(p->seconds);
    for (int k = 0; k * d <= p->seconds * 1.0001; k++) {
        double x = x_of(p, k * d);
        put(p, "<path class=\"axis\" d=\"M%.1f %gv5\"/>", x, p->bottom);
        put(p, "<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%g</text>\n", x, p->bottom + 19, k * d);
    }
    put(p, "<path class=\"axis\" fill=\"none\" d=\"M%g %gV%gH%g\"/>\n", LEFT, p->top, p->bottom, WIDTH - RIGHT);
    put(p, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">time (s)</text>\n", (LEFT + WIDTH - RIGHT) / 2,
        p->bottom + 38);
    put(p, "<text transform=\"translate(16 %g) rotate(-90)\" text-anchor=\"middle\">count</text>\n",
        (p->top + p->bottom) / 2);
}

static int count_of(const struct timeline_sample *s, bool workers) {
    int count = workers ? s->workers : s->running;
    if (count > MOST) return MOST;
    return count > 0 ? count : 0;
}

static void draw_steps(struct plot *p, bool workers) {
    const struct timeline_sample *s = p->t->samples;
    if (p->t->n_samples == 0) return;
    put(p, "<path class=\"%s\" d=\"M%.1f %.1f", workers ? "workers" : "running", x_of(p, s[0].seconds),
        y_of(p, count_of(&s[0], workers)));
    for (size_t i = 1; i < p->t->n_samples; i++) {
        if (count_of(&s[i], workers) == count_of(&s[i - 1], workers)) continue;
        put(p, "H%.1fV%.1f", x_of(p, s[i].seconds), y_of(p, count_of(&s[i], workers)));
    }
    put(p, "H%.1f\"/>\n", x_of(p, p->seconds));
}

static void draw_event(struct plot *p, const struct timeline_event *e, int row) {
    double x = x_of(p, e->seconds), y = TITLE_LINE + ROW * (row < 0 ? 0 : row);
    put(p, "<g><path class=\"event\" d=\"M%.1f %.1fV%g\"/><title>%.2f s: ", x, row < 0 ? p->top : y, p->bottom,
        within(p, e->seconds));
    put_escaped(p, e->label);
    put(p, "</title>");
    if (row >= 0) {
        put(p, "<text x=\"%.1f\" y=\"%.1f\">", label_begin(p, e), y + 11);
        put_escaped(p, e->label);
        put(p, "</text>");
    }
    put(p, "</g>\n");
}

static void set_ranges(struct plot *p) {
    const struct timeline *t = p->t;
    p->seconds = t->seconds > 0.001 && t->seconds < 1e9 ? t->seconds : 0.001;
    for (size_t i = 0; i < t->n_samples; i++)
        if (t->samples[i].seconds > p->seconds && t->samples[i].seconds < 1e9) p->seconds = t->samples[i].seconds;
    for (size_t i = 0; i < t->n_events; i++)
        if (t->events[i].seconds > p->seconds && t->events[i].seconds < 1e9) p->seconds = t->events[i].seconds;
    p->top_count = 1;
    for (size_t i = 0; i < t->n_samples; i++) {
        int w = count_of(&t->samples[i], true), r = count_of(&t->samples[i], false), both = w > r ? w : r;
        if (both > p->top_count) p->top_count = both;
    }
    p->top_count += (p->top_count + 9) / 10; /* so that the highest step is not the edge */
}

void timeline_draw(const struct timeline *t, struct bytes *out) {
    struct plot p = {.t = t, .out = out};
    set_ranges(&p);
    signed char *row = malloc(t->n_events + 1);
    if (!row) {
        out->failed = true;
        return;
    }
    p.top = TITLE_LINE + ROW * place_labels(&p, row) + 8;
    p.bottom = p.top + PLOT_HEIGHT;
    p.height = p.bottom + BOTTOM;
    draw_head(&p);
    draw_axes(&p);
    for (size_t i = 0; i < t->n_events; i++) draw_event(&p, &t->events[i], row[i]);
    draw_steps(&p, true);
    draw_steps(&p, false);
    put(&p, "</svg>\n");
    free(row);
}

int timeline_write(const struct timeline *t, const char *path, struct fail *f) {
    char part[4096];
    if (snprintf(part, sizeof part, "%s.tmp", path) >= (int)sizeof part)
        return fail_set(f, "%.40s...: the name is too long", path);
    struct bytes picture = {0};
    timeline_draw(t, &picture);
    if (picture.failed) {
        bytes_done(&picture);
        return fail_set(f, "%s: out of memory", path);
    }
    FILE *file = fopen(part, "wb");
    bool good = file && fwrite(picture.p, 1, picture.n, file) == picture.n;
    if (file && fclose(file)) good = false;
    if (good && rename(part, path)) good = false;
    int rc = good ? 0 : fail_set(f, "%s: %s", path, strerror(errno));
    if (!good && file) (void)remove(part);
    bytes_done(&picture);
    return rc;
}
