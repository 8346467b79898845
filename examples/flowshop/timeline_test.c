/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "timeline.h"

#include <dirent.h>
#include <math.h>
#include <unistd.h>

static int occurrences(const struct bytes *b, const char *what) {
    int count = 0;
    size_t n = strlen(what);
    for (size_t k = 0; k + n <= b->n; k++) count += memcmp(b->p + k, what, n) == 0;
    return count;
}

/* As much of XML as the pictures use: tags nest, quotes close, no stray < or &. */
static void assert_well_formed(const struct bytes *b) {
    const char *open[16];
    size_t length[16];
    int depth = 0;
    const char *p = (const char *)b->p, *end = p + b->n;
    while (p < end) {
        if (*p == '&') {
            assert_true(!strncmp(p, "&lt;", 4) || !strncmp(p, "&gt;", 4) || !strncmp(p, "&amp;", 5));
        }
        if (*p++ != '<') continue;
        bool closing = *p == '/';
        p += closing;
        const char *name = p;
        while (p < end && ((*p >= 'a' && *p <= 'z'))) p++;
        size_t n = (size_t)(p - name);
        assert_true(n > 0);
        bool quoted = false;
        for (; p < end && (quoted || *p != '>'); p++) {
            assert_true(*p != '<');
            quoted ^= *p == '"';
        }
        assert_true(p < end);
        if (closing) {
            assert_true(depth > 0 && length[--depth] == n && !strncmp(open[depth], name, n));
        } else if (p[-1] != '/') {
            assert_true(depth < 16);
            open[depth] = name;
            length[depth++] = n;
        }
    }
    assert_int_equal(depth, 0);
}

static const struct timeline_sample samples[] = {{0, 0, 0, 0},   {0.5, 2, 0, 0}, {1, 2, 1, 1},  {2, 2, 0, 2},
                                                 {3.5, 3, 0, 3}, {5.0, 2, 0, 2}, {9.5, 2, 0, 0}};
static const struct timeline_event events[] = {{0.5, "w1 joined", TIMELINE_NOTE},
                                               {0.5, "w2 joined", TIMELINE_NOTE},
                                               {3.5, "w3 joined", TIMELINE_NOTE},
                                               {5, "w1 lost", TIMELINE_LOST},
                                               {9.5, "ta<1> & proved", TIMELINE_NOTE}};
static const struct timeline picture = {.title = "A run & more",
                                        .seconds = 10,
                                        .samples = samples,
                                        .n_samples = sizeof samples / sizeof samples[0],
                                        .events = events,
                                        .n_events = sizeof events / sizeof events[0]};

static void shows_counts_and_events(void **state) {
    (void)state;
    struct bytes b = {0};
    timeline_draw(&picture, &b);
    assert_false(b.failed);
    assert_well_formed(&b);
    assert_int_equal(occurrences(&b, "w1 joined</text>"), 1);
    assert_int_equal(occurrences(&b, "ta&lt;1&gt; &amp; proved</text>"), 1);
    assert_int_equal(occurrences(&b, "class=\"event\""), 4);
    assert_int_equal(occurrences(&b, "class=\"event lost\""), 1);
    assert_int_equal(occurrences(&b, "class=\"label lost\""), 1);
    assert_int_equal(occurrences(&b, "class=\"cross\" d=\"M491.0 "), 1); /* and one in the legend */
    assert_int_equal(occurrences(&b, "class=\"cross\""), 2);
    assert_int_equal(occurrences(&b, "prefers-color-scheme: dark) {\ntext"), 1);
    assert_int_equal(occurrences(&b, "}\n</style>"), 1);
    assert_int_equal(occurrences(&b, "time (s)"), 1);
    assert_int_equal(occurrences(&b, "<script"), 0);
    assert_int_equal(occurrences(&b, "prefers-color-scheme: dark"), 1);
    /* Plot: x = 56 + 88 s; the highest count is 3, the upper edge 4. Workers: to 2 at 0.5 s, 3 at 3.5 s, 2 at 5 s. One
     * is finding a start value from 1 s to 2 s. */
    assert_int_equal(occurrences(&b, "H100.0V"), 1);
    assert_int_equal(occurrences(&b, "H144.0V"), 2);
    assert_int_equal(occurrences(&b, "H232.0V"), 1);
    assert_int_equal(occurrences(&b, "H364.0V"), 2);
    assert_int_equal(occurrences(&b, "H496.0V"), 2);
    assert_int_equal(occurrences(&b, "H892.0V"), 1);
    assert_int_equal(occurrences(&b, "H936.0\"/>"), 1);
    bytes_done(&b);
}

/* Of another program: its own words, and one area. */
static void names_are_the_callers(void **state) {
    (void)state;
    struct timeline t = picture;
    t.names = (struct timeline_names){.workers = "a < b", .running = "per second", .lost = "gone", .axis = "c & d"};
    struct bytes b = {0};
    timeline_draw(&t, &b);
    assert_false(b.failed);
    assert_well_formed(&b);
    assert_int_equal(occurrences(&b, ">a &lt; b</text>"), 1);
    assert_int_equal(occurrences(&b, ">per second</text>"), 1);
    assert_int_equal(occurrences(&b, ">gone</text>"), 1);
    assert_int_equal(occurrences(&b, ">c &amp; d</text>"), 1);
    assert_int_equal(occurrences(&b, "class=\"greedy\""), 0);
    assert_int_equal(occurrences(&b, "class=\"running\""), 2); /* the area, and in the legend */
    assert_int_equal(occurrences(&b, "searching"), 0);
    assert_int_equal(occurrences(&b, "class=\"cross\""), 2);
    bytes_done(&b);
}

struct label {
    double x, from, to, y;
};

/* Where labels are, with a width of 7 a letter, which is more than most are. */
static int labels_of(struct bytes *b, struct label *l, int most) {
    bytes_put_text(b, "", 1); /* ends the text */
    int n = 0;
    for (const char *p = (const char *)b->p; (p = strstr(p, "<text class=\"label")) != NULL && n < most; n++) {
        p = strstr(p, " x=");
        assert_non_null(p);
        assert_int_equal(sscanf(p, " x=\"%lf\" y=\"%lf\"", &l[n].x, &l[n].y), 2);
        const char *tag_end = strchr(p, '>'), *end = strstr(p, "</text>");
        assert_true(tag_end && end);
        double width = 7.0 * (double)(end - tag_end - 1);
        bool left = strstr(p, "text-anchor=\"end\"") && strstr(p, "text-anchor=\"end\"") < tag_end;
        l[n].from = left ? l[n].x - width : l[n].x;
        l[n].to = left ? l[n].x : l[n].x + width;
    }
    return n;
}

/* Also where all happens at the right edge. */
static void labels_do_not_overlap(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    for (int round = 0; round < 100; round++) {
        struct timeline_event e[40];
        char text[40][40];
        int n = 1 + (int)random_below(&random, 40);
        for (int i = 0; i < n; i++) {
            (void)snprintf(text[i], sizeof text[i], "ta%03d: optimum %.*s proved", i, (int)random_below(&random, 8),
                           "12345678");
            double at = round % 2 ? 10.0 * i / n : 9.7 + 0.3 * (i + 1) / n;
            e[i] = (struct timeline_event){at, text[i], i % 7 ? TIMELINE_NOTE : TIMELINE_LOST};
        }
        struct timeline t = {.title = "", .seconds = 10, .events = e, .n_events = (size_t)n};
        struct bytes b = {0};
        timeline_draw(&t, &b);
        struct label l[40];
        int shown = labels_of(&b, l, 40);
        assert_in_range(shown, n < 10 ? n : 10, n);
        for (int i = 0; i < shown; i++) {
            assert_true(l[i].from >= 0 && l[i].to <= 960);
            for (int j = 0; j < i; j++) assert_true(l[i].y != l[j].y || l[i].from > l[j].to || l[j].from > l[i].to);
        }
        bytes_done(&b);
    }
}

/* A short label beside a long one, and the end of a run as it often is: no line goes through a label. */
static void lines_keep_clear_of_labels(void **state) {
    (void)state;
    static const struct timeline_event e[] = {
        {1.0, "short", TIMELINE_NOTE},   {1.0, "one that is very much longer", TIMELINE_NOTE},
        {2.0, "next", TIMELINE_NOTE},    {8.0, "ta028: start value 2200", TIMELINE_NOTE},
        {8.4, "w2 lost", TIMELINE_LOST}, {9.9, "ta028: optimum 2200 proved", TIMELINE_NOTE}};
    struct timeline t = {.title = "", .seconds = 10, .events = e, .n_events = 6};
    struct bytes b = {0};
    timeline_draw(&t, &b);
    struct label l[6];
    assert_int_equal(labels_of(&b, l, 6), 6);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            double mark = 56 + 88 * e[j].seconds;
            assert_false(l[j].y <= l[i].y && mark > l[i].from && mark < l[i].to);
        }
    bytes_done(&b);
}

static void takes_any_numbers(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    for (int round = 0; round < 200; round++) {
        struct timeline_sample s[50];
        struct timeline_event e[50];
        char label[50][24];
        for (int i = 0; i < 50; i++) {
            static const double odd[] = {-1, 0, 1e300, INFINITY, NAN, 1e-300, 3};
            static const int counts[] = {-5, 0, 1, 7, 1000, INT32_MAX};
            double t = random_below(&random, 5) ? i * 0.3 : odd[random_below(&random, 7)];
            s[i] = (struct timeline_sample){t, counts[random_below(&random, 6)], counts[random_below(&random, 6)],
                                            counts[random_below(&random, 6)]};
            for (int k = 0; k < 23; k++) label[i][k] = (char)(' ' + random_below(&random, 95));
            label[i][random_below(&random, 24)] = 0;
            label[i][23] = 0;
            e[i] = (struct timeline_event){t, label[i], i % 3 ? TIMELINE_NOTE : TIMELINE_LOST};
        }
        struct timeline t = {.title = label[0], .seconds = round % 2 ? 0 : NAN, .samples = s, .events = e};
        t.n_samples = (size_t)random_below(&random, 51);
        t.n_events = (size_t)random_below(&random, 51);
        struct bytes b = {0};
        timeline_draw(&t, &b);
        assert_false(b.failed);
        assert_well_formed(&b);
        assert_int_equal(occurrences(&b, "nan") + occurrences(&b, "inf\""), 0);
        assert_int_equal(occurrences(&b, "class=\"event"), (int)t.n_events);
        bytes_done(&b);
    }
}

static void file_is_whole_or_not_there(void **state) {
    (void)state;
    char dir[] = "/tmp/flowshop-timeline-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    struct fail f;
    (void)snprintf(path, sizeof path, "%s/no/picture.svg", dir);
    assert_int_equal(timeline_write(&picture, path, &f), -1);
    assert_non_null(strstr(f.text, "No such file or directory"));
    (void)snprintf(path, sizeof path, "%s/picture.svg", dir);
    assert_int_equal(timeline_write(&picture, path, &f), 0);
    assert_int_equal(timeline_write(&picture, path, &f), 0);
    DIR *d = opendir(dir);
    assert_non_null(d);
    int files = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) files += e->d_name[0] != '.';
    (void)closedir(d);
    assert_int_equal(files, 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_counts_and_events),    cmocka_unit_test(labels_do_not_overlap),
        cmocka_unit_test(lines_keep_clear_of_labels), cmocka_unit_test(takes_any_numbers),
        cmocka_unit_test(file_is_whole_or_not_there), cmocka_unit_test(names_are_the_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
