/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "base/utf8.h"

#include <moyai/version.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void the_table_is_consistent(void **state) {
    (void)state;
    static const struct {
        int code;
        const char *name, *text;
        enum moyai_category category;
    } rows[] = {
#define X(name, value, category, text) {name, #name, text, MOYAI_CAT_##category},
        MOYAI_ERROR_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(rows[i].code, -1 - (int)i); /* dense, never renumbered: the last line is the last code */
        assert_string_equal(moyai_err_name(rows[i].code), rows[i].name);
        assert_string_equal(moyai_strerror(rows[i].code), rows[i].text);
        assert_int_equal(moyai_err_category(rows[i].code), rows[i].category);
    }
    assert_int_equal(MOYAI_EINTERNAL, -31);
    assert_int_equal(sizeof rows / sizeof rows[0], 31);
    assert_string_equal(moyai_err_name(0), "MOYAI_OK");
    assert_int_equal(moyai_err_category(0), MOYAI_CAT_OK);
    assert_string_equal(moyai_err_name(-999), "MOYAI_E?");
    assert_string_equal(moyai_err_name(-1000), "own code");
    assert_string_equal(moyai_err_name(-2000000000), "own code");
    assert_string_equal(moyai_err_name(1), "MOYAI_E?");
    assert_string_equal(moyai_strerror(-999), "unknown error");
    assert_int_equal(moyai_err_category(-999), MOYAI_CAT_INTERNAL);
    assert_int_equal(moyai_err_category(-1000), MOYAI_CAT_PEER);
    assert_int_equal(moyai_err_category(INT32_MIN), MOYAI_CAT_PEER);
}

static void categories_have_names(void **state) {
    (void)state;
    for (int c = MOYAI_CAT_OK; c <= MOYAI_CAT_INTERNAL; c++) {
        const char *name = moyai_category_name((enum moyai_category)c);
        assert_true(strlen(name) > 1);
        for (int d = MOYAI_CAT_OK; d < c; d++) {
            assert_string_not_equal(name, moyai_category_name((enum moyai_category)d));
        }
    }
}

static void errnos_become_codes(void **state) {
    (void)state;
    static const struct {
        int sys, code;
    } cases[] = {
        {ENOSPC, MOYAI_ENOSPC}, {EDQUOT, MOYAI_ENOSPC}, {EMFILE, MOYAI_ELIMIT}, {ENFILE, MOYAI_ELIMIT},
        {EAGAIN, MOYAI_ELIMIT}, {ENOMEM, MOYAI_ENOMEM}, {EACCES, MOYAI_EPERM},  {EPERM, MOYAI_EPERM},
        {ENOENT, MOYAI_ESYS},   {EIO, MOYAI_ESYS},      {0, MOYAI_ESYS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct moyai_error e;
        assert_int_equal(err_of_errno(cases[i].sys), cases[i].code);
        assert_int_equal(err_sys(NULL, cases[i].sys, "x"), cases[i].code);
        assert_int_equal(err_sys(&e, cases[i].sys, "cannot open \"%s\"", "a"), cases[i].code);
        assert_int_equal(e.code, cases[i].code);
        assert_int_equal(e.sys, cases[i].sys);
        char want[200];
        snprintf(want, sizeof want, "cannot open \"a\": %s%s", strerror(cases[i].sys),
                 cases[i].sys == EMFILE ? " (raise ulimit -n)" : "");
        assert_string_equal(e.text, want);
    }
}

static void all_of_an_error_is_set(void **state) {
    (void)state;
    struct moyai_error e;
    memset(&e, 0xee, sizeof e);
    assert_int_equal(err_set(&e, MOYAI_EDEAD, "node %d", 7), MOYAI_EDEAD);
    assert_int_equal(err_set(NULL, MOYAI_EDEAD, "node %d", 7), MOYAI_EDEAD);
    assert_int_equal(e.code, MOYAI_EDEAD);
    assert_int_equal(e.sys, 0);
    assert_int_equal(e.where, MOYAI_AT_CALLER);
    assert_int_equal(e.executed, MOYAI_MAY_HAVE_EXECUTED);
    for (size_t i = 0; i < 16; i++) assert_int_equal(e.origin.b[i], 0);
    assert_string_equal(e.text, "node 7");
    for (size_t i = 6; i < sizeof e.text; i++) assert_int_equal(e.text[i], 0); /* nothing of the stack leaks */
    e.where = MOYAI_AT_PEER;
    assert_int_equal(err_prefix(&e, "call of \"%s\"", "work"), MOYAI_EDEAD);
    assert_string_equal(e.text, "call of \"work\": node 7");
    assert_int_equal(e.where, MOYAI_AT_PEER);
    assert_true(err_prefix(NULL, "x") < 0);
}

static void texts_are_one_clean_line(void **state) {
    (void)state;
    struct moyai_error e;
    err_set(&e, -1, "%s", "a\nb\r\tc\x01\x7f\xff\xc3[é");
    assert_string_equal(e.text, "a b  c????[é");
}

/* However long the prefix and wherever the cut falls, the text stays terminated and well-formed. */
static void texts_are_cut_between_characters(void **state) {
    (void)state;
    static const char *const letters[] = {"a", "é", "舫", "🛶"};
    for (size_t l = 0; l < 4; l++) {
        for (size_t shift = 0; shift < 8; shift++) {
            char text[2000];
            size_t n = 0;
            while (n < shift) text[n++] = '.';
            while (n < sizeof text - 8) {
                memcpy(text + n, letters[l], strlen(letters[l]));
                n += strlen(letters[l]);
            }
            text[n] = 0;
            struct moyai_error e;
            err_set(&e, -1, "%s", text);
            assert_true(utf8_valid(e.text, strlen(e.text)));
            assert_in_range(strlen(e.text), MOYAI_ERROR_TEXT - 4, MOYAI_ERROR_TEXT - 1);
            assert_memory_equal(e.text, text, 116);
            assert_non_null(strstr(e.text, " ... "));
            err_prefix(&e, "%s", letters[l]);
            assert_true(utf8_valid(e.text, strlen(e.text)));
            assert_memory_equal(e.text, letters[l], strlen(letters[l]));
            err_prefix(&e, "%s", text);
            assert_true(utf8_valid(e.text, strlen(e.text)));
            err_sys(&e, ENOENT, "%s", text);
            assert_true(utf8_valid(e.text, strlen(e.text)));
            const char *why = strerror(ENOENT); /* the reason is still there */
            assert_string_equal(e.text + strlen(e.text) - strlen(why), why);
        }
    }
}

/* Contexts without end: the outermost and the cause stay, with one gap between them. */
static void a_long_chain_loses_its_middle(void **state) {
    (void)state;
    static const char *const contexts[] = {"rec", "réc", "a rather long context with 42 in it"};
    for (size_t c = 0; c < 3; c++) {
        struct moyai_error e;
        err_set(&e, -1, "%s", "the cause at the very end");
        for (int i = 0; i < 500; i++) {
            char front[100];
            err_prefix(&e, "%s %d", contexts[c], i);
            size_t n = (size_t)snprintf(front, sizeof front, "%s %d: ", contexts[c], i);
            assert_true(utf8_valid(e.text, strlen(e.text)));
            assert_memory_equal(e.text, front, n);
            assert_string_equal(e.text + strlen(e.text) - 27, ": the cause at the very end");
            const char *gap = strstr(e.text, " ... ");
            assert_true(i < 50 || gap);
            assert_true(!gap || !strstr(gap + 1, " ... "));
        }
        assert_in_range(strlen(e.text), MOYAI_ERROR_TEXT - 8, MOYAI_ERROR_TEXT - 1);
    }
}

static void utf8_as_in_rfc_3629(void **state) {
    (void)state;
    static const char *const good[] = {"",
                                       "a",
                                       "\x7f",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2"
                                      "a",
                                      "\xe0\x9f\xbf",
                                      "\xe0\xa0",
                                      "\xed\xa0\x80",
                                      "\xed\xbf\xbf",
                                      "\xe1\x80"
                                      "a",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xf1\x80\x80",
                                      "\xff",
                                      "\xfe"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_true(utf8_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        for (size_t before = 0; before < 18; before++) { /* at every place of the eight-byte step */
            char text[64];
            memset(text, 'x', sizeof text);
            assert_true(utf8_valid(text, before));
            memcpy(text + before, bad[i], strlen(bad[i]));
            assert_false(utf8_valid(text, before + strlen(bad[i])));
            assert_false(utf8_valid(text, before + strlen(bad[i]) + 9));
        }
    }
    assert_true(utf8_valid("a\0b", 3));
    assert_int_equal(utf8_cut("aé", 3, 3), 3);
    assert_int_equal(utf8_cut("aé", 3, 2), 1);
    assert_int_equal(utf8_cut("🛶", 4, 3), 0);
    char out[4];
    assert_int_equal(utf8_line(out, 1, "abc", 3), 0);
    assert_int_equal(utf8_line(out, 4, "aéé", 5), 3);
    assert_string_equal(out, "aé");
}

static void clock_and_version(void **state) {
    (void)state;
    moyai_ns a = moyai_now(), b = moyai_now();
    assert_true(a > 0 && b >= a);
    char want[40];
    snprintf(want, sizeof want, "%d.%d.%d", MOYAI_VERSION_MAJOR, MOYAI_VERSION_MINOR, MOYAI_VERSION_PATCH);
    assert_string_equal(moyai_version(), want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_consistent),
        cmocka_unit_test(categories_have_names),
        cmocka_unit_test(errnos_become_codes),
        cmocka_unit_test(all_of_an_error_is_set),
        cmocka_unit_test(texts_are_one_clean_line),
        cmocka_unit_test(texts_are_cut_between_characters),
        cmocka_unit_test(a_long_chain_loses_its_middle),
        cmocka_unit_test(utf8_as_in_rfc_3629),
        cmocka_unit_test(clock_and_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
