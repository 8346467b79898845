/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_lines.h"

#include "base/rng.h"
#include "tests/support/alloc.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *p;
    size_t n, cap;
};

static void add(struct text *t, const void *p, size_t n) {
    if (t->n + n + 1 > t->cap) {
        t->cap = (t->n + n + 1) * 2;
        t->p = realloc(t->p, t->cap);
        assert_non_null(t->p);
    }
    if (n > 0) memcpy(t->p + t->n, p, n);
    t->n += n;
    t->p[t->n] = 0;
}

static void drain(struct lines_out *o, struct text *t, size_t most) {
    size_t n = lines_size(o) < most ? lines_size(o) : most;
    add(t, o->p + o->at, n);
    lines_take(o, n);
}

static struct lines_in writer(const char *prefix) {
    struct lines_in i = {0};
    snprintf(i.prefix, sizeof i.prefix, "%s", prefix);
    return i;
}

/* What one writer's text becomes when it comes in portions of at most that many bytes. */
static struct text through(const char *text, size_t n, size_t portion, const char *prefix, bool terminal) {
    struct lines_out o = {.terminal = terminal};
    struct lines_in i = writer(prefix);
    struct text t = {0};
    for (size_t at = 0; at < n;) {
        size_t k = n - at < portion ? n - at : portion;
        assert_int_equal(lines_feed(&o, &i, (const uint8_t *)text + at, k), 0);
        assert_true(i.n <= LINES_MOST);
        at += k;
    }
    assert_int_equal(lines_end(&o, &i), 0);
    drain(&o, &t, SIZE_MAX);
    lines_in_done(&o, &i);
    lines_out_done(&o);
    return t;
}

static void expect(const char *text, const char *prefix, bool terminal, const char *result) {
    size_t n = strlen(text);
    for (size_t portion = 1; portion <= n + 1; portion++) {
        struct text t = through(text, n, portion, prefix, terminal);
        add(&t, "", 0);
        assert_string_equal(t.p, result);
        free(t.p);
    }
}

static void whole_lines(void **state) {
    (void)state;
    expect("", "> ", false, "");
    expect("a\nbc\n", "> ", false, "> a\n> bc\n");
    expect("a\n\n\nb\n", "> ", false, "> a\n> \n> \n> b\n");
    expect("a\nb", "> ", false, "> a\n> b\n"); /* the last line gets its newline */
    expect("a\nb", "", false, "a\nb\n");
    expect("a\r\nb\rc\n", "> ", false, "> a\r\n> b\rc\n"); /* a file has no carriage to return */
}

static void progress_on_a_terminal(void **state) {
    (void)state;
    expect("a\r\nb\r\n", "> ", true, "> a\r\n> b\r\n");
    expect("1%\r2%\rdone\n", "> ", true, "> 1%\r> 2%\r> done\n");
    expect("1%\r2%", "> ", true, "> 1%\r> 2%\n");
    /* It is passed on before its line has ended, and another's line does not overwrite it. */
    struct lines_out o = {.terminal = true};
    struct lines_in a = writer("a "), b = writer("b ");
    struct text t = {0};
    assert_int_equal(lines_feed(&o, &a, (const uint8_t *)"50%\r", 4), 0);
    drain(&o, &t, SIZE_MAX);
    assert_string_equal(t.p, "a 50%\r");
    assert_int_equal(lines_feed(&o, &b, (const uint8_t *)"line\n", 5), 0);
    assert_int_equal(lines_feed(&o, &a, (const uint8_t *)"60%\r", 4), 0);
    drain(&o, &t, SIZE_MAX);
    assert_string_equal(t.p, "a 50%\r\nb line\na 60%\r");
    lines_in_done(&o, &a);
    lines_in_done(&o, &b);
    lines_out_done(&o);
    free(t.p);
}

static void long_lines(void **state) {
    (void)state;
    static const size_t sizes[] = {LINES_MOST - 1, LINES_MOST, LINES_MOST + 1, 2 * LINES_MOST, 3 * LINES_MOST + 17};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        size_t n = sizes[k];
        char *text = malloc(n + 2);
        for (size_t i = 0; i < n; i++) text[i] = (char)('a' + i % 23);
        text[n] = '\n';
        static const size_t portions[] = {4093, LINES_MOST, SIZE_MAX};
        for (size_t j = 0; j < 3; j++) { /* alone it stays one line, whatever the portions */
            struct text t = through(text, n + 1, portions[j], "> ", false);
            assert_int_equal(t.n, n + 3);
            assert_memory_equal(t.p + 2, text, n + 1);
            free(t.p);
        }
        free(text);
    }
}

/* Another's line and one of our own come in between: on lines of their own. */
static void long_line_interrupted(void **state) {
    (void)state;
    struct lines_out o = {0};
    struct lines_in a = writer("a "), b = writer("b ");
    struct text t = {0};
    static uint8_t part[LINES_MOST];
    memset(part, 'x', sizeof part);
    assert_int_equal(lines_feed(&o, &a, part, sizeof part), 0);
    assert_int_equal(lines_feed(&o, &a, (const uint8_t *)"y", 1), 0); /* one more than is held back */
    assert_int_equal(lines_feed(&o, &b, (const uint8_t *)"line\n", 5), 0);
    assert_int_equal(lines_feed(&o, &a, (const uint8_t *)"z\n", 2), 0);
    drain(&o, &t, SIZE_MAX);
    assert_int_equal(t.n, 2 + sizeof part + 1 + 7 + 5);
    assert_string_equal(t.p + 2 + sizeof part, "\nb line\na yz\n");
    /* Nothing is left of it when only its newline comes after the interruption. */
    t.n = 0;
    o.terminal = true;
    assert_int_equal(lines_feed(&o, &a, (const uint8_t *)"50%\r", 4), 0);
    assert_int_equal(lines_say(&o, "own"), 0);
    assert_int_equal(lines_feed(&o, &a, (const uint8_t *)"\nnext\n", 6), 0);
    drain(&o, &t, SIZE_MAX);
    assert_string_equal(t.p, "a 50%\r\nown\na next\n");
    lines_in_done(&o, &a);
    lines_in_done(&o, &b);
    lines_out_done(&o);
    free(t.p);
}

/* Many writers in random portions, a reader that takes random amounts: every line comes out whole, each writer's in
 * order, none twice. Lines longer than LINES_MOST are only asked to have the right bytes. */
static void random_portions(void **state) {
    (void)state;
    enum { WRITERS = 7, BYTES = 400000 };
    struct moyai_rng rng;
    uint64_t seed;
    assert_int_equal(rng_system(&seed, sizeof seed), 0);
    print_message("seed %llu\n", (unsigned long long)seed);
    rng_seed(&rng, seed);
    for (int round = 0; round < 12; round++) {
        bool with_long = round % 3 == 0;
        struct lines_out o = {0};
        struct lines_in in[WRITERS];
        struct text src[WRITERS] = {0}, got[WRITERS] = {0}, out = {0};
        size_t at[WRITERS] = {0};
        for (int w = 0; w < WRITERS; w++) {
            char prefix[8];
            snprintf(prefix, sizeof prefix, "%d|", w);
            in[w] = writer(prefix);
            while (src[w].n < BYTES / WRITERS) {
                size_t n = rng_next(&rng) % (with_long && rng_next(&rng) % 50 == 0 ? 3 * LINES_MOST : 300);
                for (size_t i = 0; i < n; i++) add(&src[w], &"abcdefgh"[rng_next(&rng) % 8], 1);
                add(&src[w], "\n", 1);
            }
            if (round % 2) src[w].n--; /* the last newline is missing */
        }
        for (int left = WRITERS; left > 0;) {
            int w = (int)(rng_next(&rng) % WRITERS);
            size_t rest = src[w].n - at[w];
            size_t k = 1 + rng_next(&rng) % (rng_next(&rng) % 4 ? 900 : 100000);
            if (k > rest) k = rest;
            assert_int_equal(lines_feed(&o, &in[w], (const uint8_t *)src[w].p + at[w], k), 0);
            assert_true(in[w].n <= LINES_MOST);
            if (k > 0 && (at[w] += k) == src[w].n) {
                assert_int_equal(lines_end(&o, &in[w]), 0);
                left--;
            }
            drain(&o, &out, rng_next(&rng) % 3 ? rng_next(&rng) % 5000 : 0);
        }
        drain(&o, &out, SIZE_MAX);
        assert_int_equal(out.p[out.n - 1], '\n');
        for (char *p = out.p, *end; p < out.p + out.n; p = end + 1) {
            end = memchr(p, '\n', out.n - (size_t)(p - out.p));
            assert_true(p[0] >= '0' && p[0] < '0' + WRITERS && p[1] == '|');
            add(&got[p[0] - '0'], p + 2, (size_t)(end - p) - 2 + !with_long);
        }
        for (int w = 0; w < WRITERS; w++) {
            struct text want = {0};
            for (size_t i = 0; i < src[w].n; i++)
                if (!with_long || src[w].p[i] != '\n') add(&want, &src[w].p[i], 1);
            if (!with_long && round % 2) add(&want, "\n", 1);
            assert_int_equal(got[w].n, want.n);
            assert_memory_equal(got[w].p, want.p, want.n);
            free(want.p);
            free(src[w].p);
            free(got[w].p);
            lines_in_done(&o, &in[w]);
        }
        lines_out_done(&o);
        free(out.p);
    }
}

/* Without memory bytes are lost and that is said; what comes later works. */
static void out_of_memory(void **state) {
    (void)state;
    static uint8_t line[LINES_MOST + 100];
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    for (long k = 1; alloc_next(&k, ALLOC_ONE); k++) {
        struct lines_out o = {0};
        struct lines_in i = writer("> ");
        bool lost = false;
        for (size_t at = 0; at < sizeof line; at += 100)
            lost |= lines_feed(&o, &i, line + at, sizeof line - at < 100 ? sizeof line - at : 100) < 0;
        lost |= lines_say(&o, "own") < 0;
        bool hit = alloc_hit();
        alloc_disarm();
        assert_int_equal(lost, hit);
        lines_take(&o, lines_size(&o));
        assert_int_equal(lines_feed(&o, &i, (const uint8_t *)"last\n", 5), 0);
        assert_true(lines_size(&o) >= 7);
        assert_memory_equal(o.p + o.n - 5, "last\n", 5);
        lines_in_done(&o, &i);
        lines_out_done(&o);
    }
    alloc_disarm();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_lines),     cmocka_unit_test(progress_on_a_terminal),
        cmocka_unit_test(long_lines),      cmocka_unit_test(long_line_interrupted),
        cmocka_unit_test(random_portions), cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
