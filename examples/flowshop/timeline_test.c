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

static const struct timeline_sample samples[] = {{0, 0, 0},   {0.5, 2, 0}, {1, 2, 2},  {2, 2, 2},
                                                 {3.5, 3, 3}, {5.0, 2, 2}, {9.5, 2, 0}};
static const struct timeline_event events[] = {
    {0.5, "w1 joined"}, {0.5, "w2 joined"}, {3.5, "w3 joined"}, {5, "w1 killed"}, {9.5, "ta<1> & proved"}};
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
    assert_int_equal(occurrences(&b, "class=\"event\""), 5);
    assert_int_equal(occurrences(&b, "time (s)"), 1);
    assert_int_equal(occurrences(&b, "<script"), 0);
    assert_int_equal(occurrences(&b, "prefers-color-scheme: dark"), 1);
    /* Plot: x = 56 + 88 s; the highest count is 3, the upper edge 4. Workers: to 2 at 0.5 s, 3 at 3.5 s, 2 at 5 s. */
    assert_int_equal(occurrences(&b, "H100.0V"), 1);
    assert_int_equal(occurrences(&b, "H364.0V"), 2);
    assert_int_equal(occurrences(&b, "H496.0V"), 2);
    assert_int_equal(occurrences(&b, "H892.0V"), 1);
    assert_int_equal(occurrences(&b, "H936.0\"/>"), 2);
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
            s[i] = (struct timeline_sample){t, counts[random_below(&random, 6)], counts[random_below(&random, 6)]};
            for (int k = 0; k < 23; k++) label[i][k] = (char)(' ' + random_below(&random, 95));
            label[i][random_below(&random, 24)] = 0;
            label[i][23] = 0;
            e[i] = (struct timeline_event){t, label[i]};
        }
        struct timeline t = {.title = label[0], .seconds = round % 2 ? 0 : NAN, .samples = s, .events = e};
        t.n_samples = (size_t)random_below(&random, 51);
        t.n_events = (size_t)random_below(&random, 51);
        struct bytes b = {0};
        timeline_draw(&t, &b);
        assert_false(b.failed);
        assert_well_formed(&b);
        assert_int_equal(occurrences(&b, "nan") + occurrences(&b, "inf\""), 0);
        assert_int_equal(occurrences(&b, "class=\"event\""), (int)t.n_events);
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
        cmocka_unit_test(shows_counts_and_events),
        cmocka_unit_test(takes_any_numbers),
        cmocka_unit_test(file_is_whole_or_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
