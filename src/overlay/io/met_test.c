/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/met.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t node[16] = {0xab, 0xcd, 0xef, 0x01};

static void says(const struct met *m, bool nobody, unsigned what, const char *text) {
    char out[512];
    unsigned of;
    assert_int_equal(met_nobody(m, out, sizeof out, &of), nobody);
    assert_string_equal(out, text);
    assert_int_equal(of, what);
}

/* What is wrong with places goes before what was seen there; who has met somebody has not met nobody. */
static void tells_why_nobody_was_met(void **state) {
    (void)state;
    struct met m = {0};
    size_t a = met_add(&m, "http://a/g"), b = met_add(&m, "b:1");
    says(&m, false, 0, "");
    assert_true(met_tell(&m, a, -1, MET_SILENT, "no answer"));
    assert_false(met_tell(&m, a, -1, MET_SILENT, "no answer"));
    says(&m, true, MET_SILENT, "http://a/g: no answer");
    assert_true(met_foreign(&m, b, 2));
    assert_false(met_foreign(&m, b, 3));
    says(&m, true, MET_SILENT | MET_KEY, "http://a/g: no answer; b:1: 3 entries there are sealed with another key");
    m.others = true;
    says(&m, false, MET_SILENT | MET_KEY, "http://a/g: no answer; b:1: 3 entries there are sealed with another key");
    assert_true(met_tell(&m, a, 0, MET_OTHER, ""));
    assert_false(met_foreign(&m, b, 0));
    says(&m, false, 0, "");
}

/* Clocks that differ: said once, and where nothing else is known of. */
static void tells_of_clocks(void **state) {
    (void)state;
    struct met m = {0};
    size_t a = met_add(&m, "http://a/g");
    assert_true(met_ahead(&m, 70));
    assert_false(met_ahead(&m, 71));
    says(&m, false, MET_CLOCK,
         "an entry there seems to be made 71 s from now, and is not believed: this host's clock is behind, or the "
         "other's "
         "ahead");
    met_dial_failed(&m, node, MET_OTHER, "refused");
    says(&m, false, MET_OTHER | MET_CLOCK,
         "cannot connect to node abcdef01: refused; an entry that seems to be made 71 s from now is not believed: "
         "clocks "
         "differ");
    m.ahead = 0;
    says(&m, false, MET_OTHER, "cannot connect to node abcdef01: refused");
    const uint8_t other[16] = {1};
    met_dial_over(&m, other);
    says(&m, false, MET_OTHER, "cannot connect to node abcdef01: refused");
    met_dial_failed(&m, other, MET_KEY_TOLD, "another key");
    met_dial_failed(&m, node, MET_OTHER, "refused");
    says(&m, false, MET_KEY_TOLD, "cannot connect to node 01000000: another key");
    met_dial_failed(&m, other, MET_OTHER, "refused");
    met_dial_failed(&m, node, MET_OTHER, "refused");
    says(&m, false, MET_OTHER, "cannot connect to node abcdef01: refused");
    assert_true(met_dial_has_failed(&m, node) && met_dial_has_failed(&m, other));
    met_dial_over(&m, node); /* it has died */
    assert_false(met_dial_has_failed(&m, node));
    met_dial_failed(&m, other, MET_FULL, "no place");
    assert_false(met_dial_has_failed(&m, other));
    met_dial_over(&m, other);
    assert_true(met_ahead(&m, 71));
    says(&m, false, MET_CLOCK,
         "an entry there seems to be made 71 s from now, and is not believed: this host's clock is behind, or the "
         "other's "
         "ahead");
    met_looked(&m);
    assert_false(met_ahead(&m, 72)); /* at the next look as well */
    met_looked(&m);
    assert_true(m.ahead != 0);
    met_looked(&m); /* but not at that */
    says(&m, false, 0, "");
    assert_true(met_ahead(&m, 72));
    met_looked(&m);
    met_looked(&m);
    met_over(&m, 3000);
    met_over(&m, 2940);
    met_over(&m, 2960);
    says(&m, false, MET_CLOCK,
         "an entry there was over 49 min ago, and is not believed: this host's clock is ahead, or the other's behind, "
         "or "
         "its node has ended without a word");
    assert_false(met_empty(&m));
    m.others = true; /* some are believed: so the clock is right */
    says(&m, false, 0, "");
    m.others = false;
    assert_true(met_ahead(&m, 71));
    assert_true(met_tell(&m, a, -1, MET_SILENT, "no answer"));
    says(&m, true, MET_SILENT, "no answer");
}

/* The last eight of those that are full. */
static void who_is_full(void **state) {
    (void)state;
    struct met m = {0};
    uint8_t id[10][16] = {{0}};
    for (uint8_t i = 0; i < 10; i++) {
        id[i][0] = i + 1;
        assert_false(met_is_full(&m, id[i]));
        met_full(&m, id[i]);
        met_full(&m, id[i]);
        assert_true(met_is_full(&m, id[i]));
        assert_int_equal(met_is_full(&m, id[0]), i < 8);
    }
    assert_true(met_is_full(&m, id[2]));
    m.n_full = 0;
    assert_false(met_is_full(&m, id[2]));
}

static void reports(const struct met *m, moyai_dur waited, unsigned what, const char *text) {
    char out[512], less[40];
    assert_int_equal(met_report(m, waited, out, sizeof out), what);
    assert_string_equal(out, text);
    (void)met_report(m, waited, less, sizeof less);
    assert_true(strlen(less) < sizeof less);
    assert_memory_equal(less, out, strlen(less));
}

/* A directory is no one who answers. */
static void reports_a_directory(void **state) {
    (void)state;
    struct met m = {0};
    (void)met_tell(&m, met_add(&m, "file:/d"), 0, MET_OTHER, "");
    reports(&m, 0, MET_ANSWERS, "file:/d: it can be read, and names nobody of this grid");
    m.others = true;
    reports(&m, 0, MET_ANSWERS | MET_KNOWN, "file:/d: it can be read, and names nodes of this grid");
}

/* Each place, and what is known of it. When all have said twice that they know of nobody nobody is to be waited for. */
static void reports_each_place(void **state) {
    (void)state;
    struct met m = {0};
    assert_false(met_settled(&m, false));
    size_t a = met_add(&m, "http://a/g"), b = met_add(&m, "b:1"), c = met_add(&m, "c:1");
    m.of[c].own = true;
    reports(&m, 2 * MOYAI_SEC, MET_NOT_YET,
            "http://a/g: it has not answered; b:1: it has not answered; c:1: is this node's own address");
    reports(&m, 7 * MOYAI_SEC, MET_NOT_YET,
            "http://a/g: it accepts the connection, and has not answered in full for 7 s; b:1: it has not answered; "
            "c:1: is this "
            "node's own address");
    assert_false(met_heard(&m));
    (void)met_tell(&m, c, -1, MET_OTHER, "refused");
    says(&m, false, 0, ""); /* where it would reach itself it need not */
    for (int i = 0; i < 2; i++) {
        assert_false(met_settled(&m, false));
        (void)met_tell(&m, a, 0, MET_OTHER, "");
        assert_false(met_settled(&m, false) || met_empty(&m));
        (void)met_tell(&m, b, 0, MET_OTHER, "");
    }
    assert_true(met_settled(&m, false));
    assert_true(met_heard(&m));
    assert_true(met_empty(&m));
    (void)met_tell(&m, a, 0, MET_OTHER, "it began 3 s ago"); /* so some may come yet */
    assert_false(met_settled(&m, false));
    assert_true(met_settled(&m, true));
    (void)met_foreign(&m, a, 1);
    assert_true(met_settled(&m, false));
    assert_false(met_empty(&m));
    (void)met_foreign(&m, a, 0);
    reports(&m, 0, MET_ANSWERS | MET_EMPTY,
            "http://a/g: it answers, and knows nobody of this grid: it began 3 s ago; b:1: it answers, and knows "
            "nobody of this grid; c:1: is this node's own address");
    (void)met_tell(&m, a, 0, MET_OTHER, "");
    assert_true(met_settled(&m, false));
    (void)met_foreign(&m, b, 2);
    reports(&m, 0, MET_ANSWERS | MET_EMPTY | MET_KEY,
            "http://a/g: it answers, and knows nobody of this grid; b:1: 2 entries there are sealed with another key; "
            "c:1: is this node's own address");
    assert_true(met_settled(&m, false));
    (void)met_tell(&m, b, -1, MET_OTHER, "broken");
    assert_false(met_heard(&m));
    assert_false(met_settled(&m, false));
    (void)met_tell(&m, b, 0, MET_OTHER, "");
    m.others = true;
    (void)met_tell(&m, a, 0, MET_OTHER, "it began 3 s ago");
    reports(
        &m, 0, MET_ANSWERS | MET_KNOWN | MET_KEY,
        "http://a/g: it answers, and knows nodes of this grid: it began 3 s ago; b:1: 2 entries there are sealed with "
        "another key; c:1: is this node's own address");
    met_dial_failed(&m, node, met_dial_what(&(struct moyai_error){.code = MOYAI_ETIMEDOUT}),
                    "no answer"); /* they are known, and silent */
    reports(
        &m, 0, MET_ANSWERS | MET_KNOWN | MET_SILENT | MET_KEY,
        "http://a/g: it answers, and knows nodes of this grid: it began 3 s ago; b:1: 2 entries there are sealed with "
        "another key; c:1: is this node's own address; cannot connect to node abcdef01: no answer");
    met_dial_failed(&m, node, met_dial_what(&(struct moyai_error){.code = MOYAI_EUNREACHABLE}),
                    "refused"); /* or not there: others may come */
    reports(
        &m, 0, MET_ANSWERS | MET_YOUNG | MET_OTHER | MET_KEY,
        "http://a/g: it answers, and knows nodes of this grid: it began 3 s ago; b:1: 2 entries there are sealed with "
        "another key; c:1: is this node's own address; cannot connect to node abcdef01: refused");
    (void)met_tell(&m, a, 0, MET_OTHER, "");
    assert_false(met_settled(&m, false));
    met_dial_failed(&m, node, met_dial_what(&(struct moyai_error){.code = MOYAI_EPERM}), "refused");
    reports(
        &m, 0, MET_ANSWERS | MET_KEY | MET_KEY_TOLD,
        "http://a/g: it answers, and knows nodes of this grid; b:1: 2 entries there are sealed with another key; c:1: "
        "is this node's own address; cannot connect to node abcdef01: refused");
}

/* Each of them, some times, and nobody was met: then there is little to wait for. */
static void tells_that_nobody_listens(void **state) {
    (void)state;
    struct met m = {0};
    assert_false(met_refused(&m));
    size_t a = met_add(&m, "http://a/g"), b = met_add(&m, "b:1"), c = met_add(&m, "c:1");
    m.of[c].own = true;
    const enum met_what no = met_dial_what(&(struct moyai_error){.code = MOYAI_EUNREACHABLE, .sys = ECONNREFUSED});
    assert_int_equal(no, MET_REFUSED);
    for (unsigned i = 0; i < MET_REFUSALS; i++) {
        assert_false(met_refused(&m));
        (void)met_tell(&m, a, -1, no, "refused");
        assert_false(met_refused(&m));
        (void)met_tell(&m, b, -1, no, "refused");
    }
    assert_true(met_refused(&m));
    (void)met_tell(&m, b, -1, MET_SILENT, "no answer");
    assert_false(met_refused(&m));
    (void)met_tell(&m, b, -1, no, "refused"); /* it is counted anew */
    assert_false(met_refused(&m));
    for (unsigned i = 1; i < MET_REFUSALS; i++) (void)met_tell(&m, b, -1, no, "refused");
    assert_true(met_refused(&m));
    (void)met_tell(&m, a, 0, MET_OTHER, "");
    assert_false(met_refused(&m));
    for (unsigned i = 0; i < MET_REFUSALS; i++) (void)met_tell(&m, a, -1, no, "refused");
    assert_true(met_refused(&m));
    /* Nor is there where no key is taken. */
    const enum met_what key = met_dial_what(&(struct moyai_error){.code = MOYAI_EPERM});
    (void)met_tell(&m, b, -1, MET_SILENT, "no answer");
    for (unsigned i = 0; i < MET_REFUSALS; i++) {
        assert_false(met_refused(&m));
        (void)met_tell(&m, b, -1, key, "no key that both have");
    }
    assert_true(met_refused(&m));
    m.others = true;
    assert_false(met_refused(&m));
    m.others = false;
    m.of[a].own = m.of[b].own = true;
    assert_false(met_refused(&m));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_why_nobody_was_met),
        cmocka_unit_test(tells_of_clocks),
        cmocka_unit_test(reports_a_directory),
        cmocka_unit_test(reports_each_place),
        cmocka_unit_test(who_is_full),
        cmocka_unit_test(tells_that_nobody_listens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
