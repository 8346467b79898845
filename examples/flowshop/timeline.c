/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout, in user units: labels of events in rows at the top, as many as they need; below them the plot; axis numbers
 * under and left of it; the legend in the title line. Counts are steps, not slopes: they change at once. What the
 * workers do is drawn as areas, one on the other, under the line of their number: what is left free is idleness.
 *
 * The mark of an event is a line from its label down through the plot. So a label has three things to keep clear of:
 * other labels, the lines of others, which come down from rows above it, and labels in rows below that its own line
 * would go through. Labels never overlap; of lines through labels there are as few as a greedy choice of rows and
 * sides finds, and around the text the line is interrupted.
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
#define LETTER      7.2        /* width of a letter at the size of labels, rather too much */
#define MARK_GAP    4.0        /* between a mark and its label */
#define LABEL_GAP   10.0       /* between labels in a row */
#define CROSSING    3          /* a line through a label is as bad as so many more rows */

/* Where a label is: a row, -1: nowhere; and on which side of its mark. */
struct place {
    signed char row;
    bool left;
};

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

static double label_begin(const struct plot *p, const struct timeline_event *e, bool left) {
    double x = x_of(p, e->seconds);
    return left ? x - MARK_GAP - width_of(e->label) : x + MARK_GAP;
}

static bool fits(const struct plot *p, const struct timeline_event *e, bool left) {
    double begin = label_begin(p, e, left);
    return begin >= 0 && begin + width_of(e->label) <= WIDTH;
}

/* How bad it would be to have label i there; -1: another label is in the way. */
static int badness(const struct plot *p, const struct place *at, const size_t *placed, size_t n, size_t i,
                   struct place here) {
    const struct timeline_event *e = p->t->events;
    double x = x_of(p, e[i].seconds), begin = label_begin(p, &e[i], here.left), end = begin + width_of(e[i].label);
    int sum = here.row;
    for (size_t k = 0; k < n; k++) {
        size_t j = placed[k];
        double xj = x_of(p, e[j].seconds), bj = label_begin(p, &e[j], at[j].left), ej = bj + width_of(e[j].label);
        if (at[j].row == here.row && begin < ej + LABEL_GAP && bj < end + LABEL_GAP) return -1;
        if (here.row <= at[j].row && x > bj && x < ej) sum += CROSSING;
        if (at[j].row <= here.row && xj > begin && xj < end) sum += CROSSING;
    }
    return sum;
}

static void place_label(const struct plot *p, struct place *at, size_t *placed, size_t *n, size_t i) {
    int least = -1;
    for (int left = 0; left < 2; left++) {
        if (!fits(p, &p->t->events[i], left)) continue;
        for (int r = 0; r < MAX_ROWS; r++) {
            struct place here = {(signed char)r, left};
            int bad = badness(p, at, placed, *n, i, here);
            if (bad < 0 || (least >= 0 && bad >= least)) continue;
            least = bad;
            at[i] = here;
        }
    }
    if (least >= 0) placed[(*n)++] = i;
}

/* First those that have room on one side only, from the edge inwards, then the rest as time goes. There is room for a
 * few hundred labels, whatever the number of events: `placed` stays short. Returns the number of rows. */
static int place_labels(const struct plot *p, struct place *at, size_t *placed) {
    const struct timeline_event *e = p->t->events;
    size_t n = 0, n_events = p->t->n_events;
    for (size_t i = 0; i < n_events; i++) at[i] = (struct place){-1, false};
    for (size_t i = n_events; i-- > 0;)
        if (!fits(p, &e[i], false)) place_label(p, at, placed, &n, i);
    for (size_t i = 0; i < n_events; i++)
        if (fits(p, &e[i], false)) place_label(p, at, placed, &n, i);
    int rows = 0;
    for (size_t k = 0; k < n; k++) rows = rows > at[placed[k]].row ? rows : at[placed[k]].row + 1;
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
           ".event { stroke: #888; stroke-dasharray: 3 3; }\n"
           ".label { paint-order: stroke; stroke: #fff; stroke-width: 4; stroke-linejoin: round; }\n");
    put(p, ".workers { stroke: #1f6fd0; fill: none; stroke-width: 2.5; }\n"
           ".greedy { fill: #9cd6b4; }\n"
           ".running { fill: #f6c28b; }\n"
           ".lost { stroke: #d11f2d; }\n"
           ".cross { stroke: #d11f2d; fill: none; stroke-width: 3; }\n"
           "text.lost { fill: #d11f2d; stroke: #fff; font-weight: bold; }\n"
           "@media (prefers-color-scheme: dark) {\n"
           "text { fill: #ccc; }\n"
           ".paper { fill: #15181c; }\n");
    put(p, ".label, text.lost { stroke: #15181c; }\n"
           ".grid { stroke: #333; }\n"
           ".axis, .event { stroke: #999; }\n"
           ".workers { stroke: #6aa9f4; }\n"
           ".greedy { fill: #2c6b48; }\n"
           ".running { fill: #8a5117; }\n"
           ".lost, .cross { stroke: #ff6b76; }\n"
           "text.lost { fill: #ff6b76; }\n"
           "}\n</style>\n");
    put(p, "<rect class=\"paper\" width=\"%g\" height=\"%g\"/>\n", WIDTH, p->height);
    put(p, "<text class=\"title\" x=\"%g\" y=\"24\">", LEFT);
    put_escaped(p, p->t->title);
    put(p, "</text>\n");
}

/* A cross where a worker went. */
static void draw_cross(struct plot *p, double x, double y) {
    put(p, "<path class=\"cross\" d=\"M%.1f %.1fl10 10m0 -10l-10 10\"/>", x - 5, y - 5);
}

/* The names of p->t, with flowshop's for those it does not have; greedy NULL: not drawn. */
static struct timeline_names names_of(const struct plot *p) {
    struct timeline_names n = p->t->names;
    if (!n.greedy && !n.running) n.greedy = "finding a start value";
    if (!n.workers) n.workers = "workers";
    if (!n.running) n.running = "searching";
    if (!n.lost) n.lost = "worker lost";
    if (!n.axis) n.axis = "workers";
    return n;
}

static double legend_width(const char *name) {
    return name ? 46 + 0.87 * width_of(name) : 0;
}

/* From x on; returns where the next begins. */
static double draw_area_name(struct plot *p, double x, const char *class, const char *name) {
    if (!name) return x;
    put(p, "<path class=\"%s\" d=\"M%g 14h24v12h-24z\"/><text x=\"%g\" y=\"24\">", class, x, x + 30);
    put_escaped(p, name);
    put(p, "</text>\n");
    return x + legend_width(name);
}

static void draw_legend(struct plot *p) {
    struct timeline_names n = names_of(p);
    double x = WIDTH - RIGHT - legend_width(n.workers) - legend_width(n.greedy) - legend_width(n.running) -
               legend_width(n.lost) + 20;
    put(p, "<path class=\"workers\" d=\"M%g 20h24\"/><text x=\"%g\" y=\"24\">", x, x + 30);
    put_escaped(p, n.workers);
    put(p, "</text>\n");
    x = draw_area_name(p, x + legend_width(n.workers), "greedy", n.greedy);
    x = draw_area_name(p, x, "running", n.running);
    draw_cross(p, x + 10, 20);
    put(p, "<text x=\"%g\" y=\"24\">", x + 22);
    put_escaped(p, n.lost);
    put(p, "</text>\n");
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
    put(p, "<text transform=\"translate(16 %g) rotate(-90)\" text-anchor=\"middle\">", (p->top + p->bottom) / 2);
    put_escaped(p, names_of(p).axis);
    put(p, "</text>\n");
}

enum curve { WORKERS, GREEDY, BUSY };

static int limited(int count) {
    if (count > MOST) return MOST;
    return count > 0 ? count : 0;
}

static int count_of(const struct timeline_sample *s, enum curve c) {
    switch (c) {
    case WORKERS:
        return limited(s->workers);
    case GREEDY:
        return limited(s->greedy);
    case BUSY:
        break;
    }
    return limited(limited(s->greedy) + limited(s->running));
}

static void draw_steps(struct plot *p, enum curve c, const char *class) {
    const struct timeline_sample *s = p->t->samples;
    if (p->t->n_samples == 0) return;
    put(p, "<path class=\"%s\" d=\"M%.1f %.1f", class, x_of(p, s[0].seconds), y_of(p, count_of(&s[0], c)));
    for (size_t i = 1; i < p->t->n_samples; i++) {
        if (count_of(&s[i], c) == count_of(&s[i - 1], c)) continue;
        put(p, "H%.1fV%.1f", x_of(p, s[i].seconds), y_of(p, count_of(&s[i], c)));
    }
    put(p, "H%.1f", x_of(p, p->seconds));
    if (c != WORKERS) put(p, "V%.1fH%.1fz", p->bottom, x_of(p, s[0].seconds)); /* an area */
    put(p, "\"/>\n");
}

static void draw_mark(struct plot *p, const struct timeline_event *e, int row) {
    double y = row < 0 ? p->top : TITLE_LINE + ROW * row;
    put(p, "<g><path class=\"event%s\" d=\"M%.1f %.1fV%g\"/><title>%.2f s: ", e->kind == TIMELINE_LOST ? " lost" : "",
        x_of(p, e->seconds), y, p->bottom, within(p, e->seconds));
    put_escaped(p, e->label);
    put(p, "</title></g>\n");
}

/* Left of its mark it ends there, however wide it comes out. */
static void draw_label(struct plot *p, const struct timeline_event *e, struct place at) {
    if (at.row < 0) return;
    double x = x_of(p, e->seconds) + (at.left ? -MARK_GAP : MARK_GAP);
    put(p, "<text class=\"label%s\" x=\"%.1f\" y=\"%.1f\"%s>", e->kind == TIMELINE_LOST ? " lost" : "", x,
        TITLE_LINE + ROW * at.row + 11, at.left ? " text-anchor=\"end\"" : "");
    put_escaped(p, e->label);
    put(p, "</text>\n");
}

/* On the line of workers, at the height it falls from. */
static void draw_losses(struct plot *p) {
    const struct timeline *t = p->t;
    size_t next = 0;
    for (size_t i = 0; i < t->n_events; i++) {
        if (t->events[i].kind != TIMELINE_LOST) continue;
        while (next < t->n_samples && t->samples[next].seconds < t->events[i].seconds) next++;
        int before = next > 0 ? count_of(&t->samples[next - 1], WORKERS) : 0;
        draw_cross(p, x_of(p, t->events[i].seconds), y_of(p, before));
        put(p, "\n");
    }
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
        int w = count_of(&t->samples[i], WORKERS), b = count_of(&t->samples[i], BUSY), most = w > b ? w : b;
        if (most > p->top_count) p->top_count = most;
    }
    p->top_count += (p->top_count + 9) / 10; /* so that the highest step is not the edge */
}

void timeline_draw(const struct timeline *t, struct bytes *out) {
    struct plot p = {.t = t, .out = out};
    set_ranges(&p);
    struct place *at = malloc((t->n_events + 1) * sizeof *at);
    size_t *placed = malloc((t->n_events + 1) * sizeof *placed);
    if (!at || !placed) {
        out->failed = true;
        goto out_free;
    }
    p.top = TITLE_LINE + ROW * place_labels(&p, at, placed) + 8;
    p.bottom = p.top + PLOT_HEIGHT;
    p.height = p.bottom + BOTTOM;
    draw_head(&p);
    draw_legend(&p);
    draw_steps(&p, BUSY, "running");
    if (names_of(&p).greedy) draw_steps(&p, GREEDY, "greedy"); /* on the other, whose upper part remains */
    draw_axes(&p);
    for (size_t i = 0; i < t->n_events; i++) draw_mark(&p, &t->events[i], at[i].row);
    draw_steps(&p, WORKERS, "workers");
    draw_losses(&p);
    for (size_t i = 0; i < t->n_events; i++) draw_label(&p, &t->events[i], at[i]);
    put(&p, "</svg>\n");
out_free:
    free(placed);
    free(at);
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
