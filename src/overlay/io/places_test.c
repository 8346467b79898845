/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void every_kind_is_taken(void **state) {
    (void)state;
    struct places p;
    assert_int_equal(places_parse(&p, " http://a:1/G  file:/tmp/x\thost:4711\n[::1]:2 fd:3,4 http://b:2/H ", NULL), 0);
    assert_string_equal(p.file, "file:/tmp/x");
    assert_int_equal(p.n_http, 2);
    assert_string_equal(p.http[1], "http://b:2/H");
    assert_int_equal(p.n_member, 2);
    assert_string_equal(p.member[0], "host:4711");
    assert_string_equal(p.member[1], "[::1]:2");
    assert_int_equal(p.in, 3);
    assert_int_equal(p.out, 4);
    assert_false(places_local(&p));
    places_done(&p);
    assert_null(p.file);
    static const struct {
        const char *text;
        bool local;
    } kinds[] = {{"file:/x", true}, {"file:/x a:1", false}, {"file:/x fd:0,1", false}, {"http://a/G", false}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_int_equal(places_parse(&p, kinds[i].text, NULL), 0);
        assert_true(places_local(&p) == kinds[i].local);
        places_done(&p);
    }
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"", "no rendezvous"},      {"  ", "no rendezvous"},      {"ftp://nowhere", "ftp://nowhere"},
        {"host", "host"},           {"host:0", "host:0"},         {"host:66000", "66000"},
        {"fd:1", "fd:1"},           {"fd:1,", "fd:1,"},           {"fd:1,2x", "fd:1,2x"},
        {"fd:-1,2", "fd:-1,2"},     {"fd:1,2 fd:3,4", "two fd:"}, {"fd:,", "fd:,"},
        {"file:/a file:/b", "two"}, {"/tmp/x", "/tmp/x"},         {"file:/a nonsense", "nonsense"},
        {"file:a", "file:a"},       {"file:", "\"file:\""},       {"file://host/a", "absolute path"},
    };
    struct places p;
    struct moyai_error e;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(places_parse(&p, bad[i][0], &e), MOYAI_EINVAL);
        assert_non_null(strstr(e.text, bad[i][1]));
        assert_null(p.file);
        assert_int_equal(p.in, -1);
    }
    char many[300] = "";
    for (unsigned i = 0; i <= PLACES_MOST; i++) {
        assert_int_equal(places_parse(&p, i ? many : "a:1", NULL), 0);
        places_done(&p);
        strcat(many, "http://a:1/G ");
    }
    assert_int_equal(places_parse(&p, many, NULL), MOYAI_EINVAL);
    many[0] = 0;
    for (unsigned i = 0; i <= PLACES_MOST; i++) strcat(many, "a:1 ");
    assert_int_equal(places_parse(&p, many, NULL), MOYAI_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kind_is_taken), cmocka_unit_test(what_is_wrong_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
