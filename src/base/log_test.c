/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/utf8.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct seen {
    int n;
    struct log_event last;
    char text[2048], line[2048], id[64], source[64];
};

static void see(const struct log_event *ev, void *arg) {
    struct seen *s = arg;
    s->n++;
    s->last = *ev;
    strcpy(s->text, ev->text);
    strcpy(s->line, ev->line);
    strcpy(s->id, ev->id);
    strcpy(s->source, ev->source);
}

static void quiet_by_default(void **state) {
    (void)state;
    static const char *const empty[] = {NULL, ""};
    for (size_t i = 0; i < 2; i++) {
        struct moyai_log log;
        struct seen s = {0};
        assert_int_equal(log_init(&log, empty[i], NULL), 0);
        log_set_sink(&log, see, &s);
        log_warning(&log, "link", "MOYAI-A", "not seen");
        log_info(&log, "link", "MOYAI-A", "not seen");
        log_debug(&log, "link", "MOYAI-A", "not seen");
        log_trace(&log, "link", "MOYAI-A", "not seen");
        assert_int_equal(s.n, 0);
        log_error(&log, "link", "MOYAI-LINK-RESET", "link to \"%s\" reset", "8a0f");
        assert_int_equal(s.n, 1);
        assert_int_equal(s.last.level, LOG_LEVEL_ERROR);
        assert_string_equal(s.id, "MOYAI-LINK-RESET");
        assert_string_equal(s.source, "link");
        assert_string_equal(s.text, "link to \"8a0f\" reset");
        log_mended(&log, "link", "MOYAI-LINK-RESET", "there is %s", "one");
        assert_int_equal(s.n, 2);
        assert_int_equal(s.last.level, LOG_LEVEL_INFO);
        assert_string_equal(s.text, "there is one");
        log_done(&log);
    }
    log_error(NULL, "link", "MOYAI-A", "nobody listens");
    log_mended(NULL, "link", "MOYAI-A", "nobody listens");
    struct moyai_log log;
    struct seen s = {0};
    assert_int_equal(log_init(&log, "off,node=info", NULL), 0);
    log_set_sink(&log, see, &s);
    log_mended(&log, "link", "MOYAI-A", "nor is the error shown");
    assert_int_equal(s.n, 0);
    log_done(&log);
}

/* Whatever others do to provoke them: of each id so many, and then how many there were. */
static void a_flood_is_held_back(void **state) {
    (void)state;
    struct moyai_log log;
    struct seen s = {0};
    assert_int_equal(log_init(&log, "debug", NULL), 0);
    log_set_sink(&log, see, &s);
    for (int i = 0; i < 50; i++) log_warning(&log, "link", "MOYAI-FLOOD", "one %d", i);
    assert_int_equal(s.n, LOG_BURST);
    log_error(&log, "link", "MOYAI-OTHER", "another");
    assert_int_equal(s.n, LOG_BURST + 1);
    assert_int_equal(log.counts[0].left_out, 50 - LOG_BURST);
    log.counts[0].since -= (moyai_ns)LOG_SPAN;
    log_warning(&log, "link", "MOYAI-FLOOD", "one more");
    assert_string_equal(s.text, "one more (30 before this were left out)");
    log_warning(&log, "link", "MOYAI-FLOOD", "and one");
    assert_string_equal(s.text, "and one");
    for (int i = 0; i < 50; i++) log_error(&log, "link", "MOYAI-FLOOD", "another %d", i);
    for (int i = 0; i < 50; i++) log_info(&log, "link", "MOYAI-ASKED-FOR", "one");
    assert_int_equal(s.n, LOG_BURST + 1 + LOG_BURST + 50);
    /* Now and then what nothing has said since is said, once. */
    log_left_out(&log);
    assert_string_equal(s.id, "MOYAI-ASKED-FOR");
    log.counts[0].since -= (moyai_ns)LOG_SPAN;
    log_left_out(&log);
    log_left_out(&log);
    log_left_out(NULL);
    assert_string_equal(s.text, "32 more of these were left out");
    assert_int_equal(s.n, LOG_BURST + 1 + LOG_BURST + 50 + 1);
    for (int i = 0; i < 32 + (int)LOG_BURST; i++) log_error(&log, "link", "MOYAI-FLOOD", "a third %d", i);
    /* With more ids than there is place for these are not counted. */
    for (int i = 0; i < 2 * LOG_IDS; i++) {
        char id[32];
        snprintf(id, sizeof id, "MOYAI-%d", i);
        log_warning(&log, "link", id, "one");
        assert_string_equal(s.id, id);
    }
    log_done(&log);
    assert_string_equal(s.id, "MOYAI-FLOOD");
    assert_string_equal(s.text, "32 more of these were left out");
    assert_int_equal(s.last.level, LOG_LEVEL_ERROR);
}

/* As long as it is the same it is said at ever longer times, and at once when it is something else. */
static void what_stays_is_said_rarely(void **state) {
    (void)state;
    struct moyai_log log;
    struct seen s = {0};
    struct log_fact *f = log.facts;
    assert_int_equal(log_init(&log, "info", NULL), 0);
    log_set_sink(&log, see, &s);
    int said[6] = {0, 5, 35, 95, 215, 455}, n = 0;
    for (int t = 0; t < 600; t += 5) { /* each 5 seconds for 10 minutes */
        log_warning(&log, "overlay", "MOYAI-DIAL", "cannot connect to node %s: 127.0.0.1:%d: refused", "a1b2",
                    40000 + t);
        if (n < 6 && t == said[n]) n++;
        assert_int_equal(s.n, n);
        for (size_t i = 0; i < LOG_FACTS && f[i].hash; i++) {
            f[i].said -= 5 * (moyai_ns)MOYAI_SEC;
            f[i].heard -= 5 * (moyai_ns)MOYAI_SEC;
        }
    }
    assert_string_equal(s.text, "cannot connect to node a1b2: 127.0.0.1:40455: refused (47 times since this was said)");
    /* Another node, text, port of a server, id: each is another fact. */
    log_warning(&log, "overlay", "MOYAI-DIAL", "cannot connect to node %s: 127.0.0.1:%d: refused", "a1b3", 40000);
    log_warning(&log, "overlay", "MOYAI-DIAL", "cannot connect to node %s: 127.0.0.1:%d: timeout", "a1b2", 40000);
    log_warning(&log, "overlay", "MOYAI-DIAL", "cannot connect to [::1]:7471");
    log_warning(&log, "overlay", "MOYAI-DIAL", "cannot connect to [::1]:7472");
    log_warning(&log, "overlay", "MOYAI-LINK", "cannot connect to [::1]:7472");
    assert_int_equal(s.n, 6 + 5);
    log_warning(&log, "overlay", "MOYAI-LINK", "cannot connect to [::1]:7472");
    assert_int_equal(s.n, 6 + 6);
    log_warning(&log, "overlay", "MOYAI-LINK", "cannot connect to [::1]:7472");
    assert_int_equal(s.n, 6 + 6);
    /* Of what happens each time counts. */
    for (int i = 0; i < 3; i++) log_error(&log, "overlay", "MOYAI-DEAD", "it has died");
    assert_int_equal(s.n, 6 + 6 + 3);
    for (int i = 0; i < 3; i++) log_info(&log, "overlay", "MOYAI-LINK", "who wants all gets all");
    assert_int_equal(s.n, 6 + 6 + 6);
    /* What had gone is news when it is back. */
    for (size_t i = 0; i < LOG_FACTS; i++) f[i].heard -= (moyai_ns)LOG_FORGET;
    log_warning(&log, "overlay", "MOYAI-DIAL", "cannot connect to node %s: 127.0.0.1:%d: refused", "a1b2", 40000);
    assert_int_equal(s.n, 6 + 6 + 7);
    assert_non_null(strstr(s.text, "refused (28 times since this was said)"));
    log_warning(&log, "overlay", "MOYAI-DIAL", "cannot connect to node %s: 127.0.0.1:%d: refused", "a1b2", 40000);
    /* What is not said to the end is counted with the rest; so is what had to make room. */
    log.counts[0].since -= (moyai_ns)LOG_SPAN;
    for (int i = 0; i < 2 * (int)LOG_FACTS; i++) {
        char id[32];
        snprintf(id, sizeof id, "MOYAI-%d", i % 40);
        log_warning(&log, "overlay", id, "fact %d", i);
    }
    log_done(&log);
    assert_string_equal(s.text, "1 more of these were left out");
}

static void levels_by_source(void **state) {
    (void)state;
    struct moyai_log log;
    struct seen s = {0};
    assert_int_equal(log_init(&log, "warn,link=trace,base=off,object=debug", NULL), 0);
    log_set_sink(&log, see, &s);
    static const struct {
        const char *source;
        int sum; /* of the five levels, how many are wanted */
    } cases[] = {{"link", 5}, {"base", 0}, {"object", 4}, {"overlay", 2}, {"linkx", 2}, {"lin", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        s.n = 0;
        for (int l = LOG_LEVEL_ERROR; l <= LOG_LEVEL_TRACE; l++) {
            assert_int_equal(log_wants(&log, (enum log_level)l, cases[i].source), l <= cases[i].sum);
            LOG_AT(&log, (enum log_level)l, cases[i].source, "MOYAI-X", "x");
        }
        assert_int_equal(s.n, cases[i].sum);
    }
    log_done(&log);
    assert_int_equal(log_init(&log, "off", NULL), 0);
    assert_false(log_wants(&log, LOG_LEVEL_ERROR, "link"));
    log_done(&log);
    assert_int_equal(log_init(&log, "link=debug,link=error", NULL), 0); /* the last one counts */
    assert_false(log_wants(&log, LOG_LEVEL_DEBUG, "link"));
    assert_false(log_wants(NULL, LOG_LEVEL_ERROR, "link"));
    log_done(&log);
    for (int l = LOG_LEVEL_OFF; l <= LOG_LEVEL_TRACE; l++) {
        assert_int_equal(log_init(&log, log_level_name((enum log_level)l), NULL), 0);
        assert_int_equal(log.max, l);
        log_done(&log);
    }
}

static void wrong_levels_are_explained(void **state) {
    (void)state;
    static const char *const wrong[] = {"loud",
                                        "=debug",
                                        "link=",
                                        "link=loud",
                                        "debug,",
                                        ",debug",
                                        "debug,,info",
                                        "Debug",
                                        "debug ",
                                        "link=debug=trace",
                                        "a-source-with-much-too-long-a-name=debug",
                                        "warning,lnk=trace",
                                        "linkx=trace",
                                        "lin=trace",
                                        ("link=info,link=info,link=info,link=info,link=info,link=info,"
                                         "link=info,link=info,link=info,link=info,link=info,link=info,"
                                         "link=info,link=info,link=info,link=info,link=info")};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct moyai_log log;
        struct moyai_error e;
        assert_int_equal(log_init(&log, wrong[i], &e), MOYAI_EINVAL);
        assert_non_null(strstr(e.text, "expected off, error, warning, info, debug or trace"));
        assert_non_null(strstr(e.text, "sources, which are base, link, node, object, overlay"));
        assert_true(log_wants(&log, LOG_LEVEL_ERROR, "a") && !log_wants(&log, LOG_LEVEL_WARNING, "a"));
        log_done(&log);
    }
}

static void one_clean_line(void **state) {
    (void)state;
    struct moyai_log log;
    struct seen s = {0};
    assert_int_equal(log_init(&log, "info", NULL), 0);
    log_set_sink(&log, see, &s);
    log_info(&log, "base", "MOYAI-X", "%s", "two\nlines \xff\x1b[31m");
    assert_string_equal(s.text, "two lines ??[31m");
    int y, mo, d, h, mi, sec, ms, used = 0;
    assert_int_equal(
        sscanf(s.line, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ info base MOYAI-X %n", &y, &mo, &d, &h, &mi, &sec, &ms, &used), 7);
    assert_true(y >= 2024 && mo >= 1 && mo <= 12 && d >= 1 && d <= 31 && h < 24 && mi < 60 && sec < 61 && ms < 1000);
    assert_int_equal(used, strlen("2024-01-01T00:00:00.000Z info base MOYAI-X "));
    assert_string_equal(s.line + used, "two lines ??[31m\n");
    assert_true(s.last.wall > (int64_t)1700000000 * 1000000000);
    char huge[5000];
    for (size_t i = 0; i + 3 < sizeof huge; i += 3) memcpy(huge + i, "舫", 4);
    log_info(&log, "base", "MOYAI-X", "%s", huge);
    assert_true(utf8_valid(s.line, strlen(s.line)));
    assert_in_range(strlen(s.text), 990, 1000);
    assert_int_equal(s.line[strlen(s.line) - 1], '\n');
    log_done(&log);
}

static int counted;
static int count(void) {
    return ++counted;
}

static void arguments_of_unwanted_events_are_not_evaluated(void **state) {
    (void)state;
    struct moyai_log log;
    assert_int_equal(log_init(&log, NULL, NULL), 0);
    log_debug(&log, "base", "MOYAI-X", "%d", count());
    assert_int_equal(counted, 0);
    log_done(&log);
}

static void standard_error_gets_whole_lines(void **state) {
    (void)state;
    char path[] = "/tmp/moyai-log-test-XXXXXX";
    int fd = mkstemp(path), old = dup(STDERR_FILENO);
    assert_true(fd >= 0 && old >= 0);
    unlink(path);
    dup2(fd, STDERR_FILENO);
    struct moyai_log log;
    int rc = log_init(&log, NULL, NULL);
    log_error(&log, "link", "MOYAI-A", "first");
    log_error(&log, "link", "MOYAI-B", "second");
    log_done(&log);
    dup2(old, STDERR_FILENO);
    close(old);
    assert_int_equal(rc, 0);
    char got[500] = "";
    ssize_t n = pread(fd, got, sizeof got - 1, 0);
    close(fd);
    assert_true(n > 0);
    assert_non_null(strstr(got, "Z error link MOYAI-A first\n2"));
    assert_non_null(strstr(got, "Z error link MOYAI-B second\n"));
}

static void count_events(const struct log_event *ev, void *arg) {
    (void)ev;
    ++*(int *)arg; /* under the log's lock */
}
static void *many(void *log) {
    for (int i = 0; i < 1000; i++) log_info((struct moyai_log *)log, "base", "MOYAI-X", "%d", i);
    return NULL;
}

static void several_threads(void **state) {
    (void)state;
    struct moyai_log log;
    pthread_t t[3];
    int n = 0;
    assert_int_equal(log_init(&log, "info", NULL), 0);
    log_set_sink(&log, count_events, &n);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, many, &log), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_int_equal(n, 3000);
    log_done(&log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quiet_by_default),
        cmocka_unit_test(a_flood_is_held_back),
        cmocka_unit_test(what_stays_is_said_rarely),
        cmocka_unit_test(levels_by_source),
        cmocka_unit_test(wrong_levels_are_explained),
        cmocka_unit_test(one_clean_line),
        cmocka_unit_test(arguments_of_unwanted_events_are_not_evaluated),
        cmocka_unit_test(standard_error_gets_whole_lines),
        cmocka_unit_test(several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
