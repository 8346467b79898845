/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/gridfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct gridfile g;

static int parse(const char *text, struct moyai_error *why) {
    return gridfile_parse(&g, "grid.conf", text, strlen(text), why);
}

static void lines_are_taken(void **state) {
    (void)state;
    assert_int_equal(parse("# the two blocked clusters\n\n"
                           "forward istbs-gw hongo00\r\n"
                           "  forward\ttsubame.example.org hongo01 reverse user=kenji port=2222 "
                           "jump=kenji@gate,inner:23 listen=9001 to=4711 # as agreed\n"
                           "forward a b to=b-inner.local:9", /* no newline */
                           NULL),
                     0);
    assert_int_equal(g.n, 3);
    const struct gridfile_line *l = &g.line[0];
    assert_string_equal(l->host[0], "istbs-gw");
    assert_string_equal(l->host[1], "hongo00");
    assert_int_equal(l->number, 3);
    assert_false(l->reverse);
    assert_string_equal(l->user, "");
    assert_string_equal(l->jump, "");
    assert_int_equal(l->port, 0);
    assert_int_equal(l->listen, 0);
    assert_string_equal(l->to_host, "127.0.0.1");
    assert_int_equal(l->to, GRIDFILE_TO);
    l = &g.line[1];
    assert_int_equal(l->number, 4);
    assert_true(l->reverse);
    assert_string_equal(l->user, "kenji");
    assert_int_equal(l->port, 2222);
    assert_string_equal(l->jump, "kenji@gate,inner:23");
    assert_int_equal(l->listen, 9001);
    assert_int_equal(l->to, 4711);
    assert_string_equal(g.line[2].to_host, "b-inner.local");
    assert_int_equal(g.line[2].to, 9);
    assert_int_equal(parse("forward a. b jump=h\nforward a b jump=u.v@10.0.0.1:65535,h.,[::1],me@[fe80::1:2]:22", NULL),
                     0);
    assert_string_equal(g.line[1].jump, "u.v@10.0.0.1:65535,h.,[::1],me@[fe80::1:2]:22");
    assert_int_equal(parse("", NULL), 0);
    assert_int_equal(g.n, 0);
}

static void errors_name_line_and_remedy(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"froward a b", "\"grid.conf\", line 1: \"froward\" is not understood; accepted is: forward HOST1 HOST2"},
        {"# x\n\nforward a", "line 3: a host is missing"},
        {"forward a A", "line 1: the two hosts are the same"},
        {"forward a a.example.org", "the two hosts are the same"},
        {"forward -oProxyCommand=x b", "host \"-oProxyCommand=x\" is not made of"},
        {"forward a b;reboot", "host \"b;reboot\" is not made of"},
        {"forward a b user=-x", "user \"-x\" is not made of"},
        {"forward a b user=", "user \"\" is not made of"},
        {"forward a b jump=x;y", "jump host \"x;y\" is not made of"},
        {"forward a b jump=x,,y", "jump=x,,y is no list"},
        {"forward a b jump=x,", "jump=x, is no list"},
        {"forward a b jump=x,-oy", "jump=x,-oy is no list"},
        {"forward a b jump=x@-y", "jump=x@-y is no list"},
        {"forward a b jump=h:99999", "jump=h:99999 is no list of [USER@]HOST[:PORT]"},
        {"forward a b jump=h:abc", "jump=h:abc is no list"},
        {"forward a b jump=h:0", "jump=h:0 is no list"},
        {"forward a b jump=h:", "jump=h: is no list"},
        {"forward a b jump=h:1:2", "jump=h:1:2 is no list"},
        {"forward a b jump=ok,h:", "jump=ok,h: is no list"},
        {"forward a b jump=u@", "jump=u@ is no list"},
        {"forward a b jump=@h", "jump=@h is no list"},
        {"forward a b jump=u@h@k", "jump=u@h@k is no list"},
        {"forward a b jump=u@h@k", "line 1: "},
        {"forward a b jump=.", "jump=. is no list"},
        {"forward a b jump=.h", "jump=.h is no list"},
        {"forward a b jump=h..k", "jump=h..k is no list"},
        {"forward a b jump=::1", "jump=::1 is no list"},
        {"forward a b jump=[::1", "jump=[::1 is no list"},
        {"forward a b jump=[::1]x", "jump=[::1]x is no list"},
        {"forward a b jump=[::1]:", "jump=[::1]: is no list"},
        {"forward a b jump=[h]:22", "jump=[h]:22 is no list"},
        {"forward a b jump=h]", "jump=h] is no list"},
        {"forward a .h", "line 1: \".h\" is no name of a host"},
        {"forward . b", "\".\" is no name of a host"},
        {"forward a b to=.h:1", "\".h\" is no name of a host"},
        {"forward a b port=0", "port=0 is no port"},
        {"forward a b port=65536", "port=65536 is no port"},
        {"forward a b port=00000022", "is no port"},
        {"forward a b listen=x", "listen=x is no port, a number from 1 to 65535"},
        {"forward a b to=", "to= is no port"},
        {"forward a b to=x:", "is no port"},
        {"forward a b to=$(x):1", "host \"$(x)\" is not made of"},
        {"forward a b to=1 to=2", "to= is given twice"},
        {"forward a b reversed", "\"reversed\" is none of reverse, user=, port=, jump=, listen= and to="},
        {"forward a b reverse", "reverse needs listen=PORT, a free port that ssh is to open at a"},
        {"forward a b\nforward c d\nforward A b", "line 3: it says the same as line 1"},
        {"forward a b listen=9\nforward A.x c reverse listen=9",
         "line 2: listen=9 of A.x is taken by line 1: give each a port of its own"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct moyai_error e = {0};
        int rc = parse(wrong[i].text, &e);
        if (rc != MOYAI_EINVAL || !strstr(e.text, wrong[i].says)) fail_msg("%s: %d: %s", wrong[i].text, rc, e.text);
    }
    struct moyai_error e;
    assert_int_equal(gridfile_parse(&g, "grid.conf", "forward a b\0c", 13, &e), MOYAI_EINVAL);
    assert_non_null(strstr(e.text, "zero byte"));
}

static void what_is_too_much_is_refused(void **state) {
    (void)state;
    struct moyai_error e;
    char *text = calloc(1, GRIDFILE_MOST + 2);
    assert_non_null(text);
    for (unsigned i = 0; i <= GRIDFILE_LINES; i++) sprintf(text + strlen(text), "forward a%u b\n", i);
    assert_int_equal(parse(text, &e), MOYAI_EINVAL);
    assert_non_null(strstr(e.text, "line 65: more than 64 lines"));
    *strrchr(text, 'f') = 0;
    assert_int_equal(parse(text, NULL), 0);
    assert_int_equal(g.n, GRIDFILE_LINES);
    memset(text, '#', GRIDFILE_MOST + 1);
    assert_int_equal(parse(text, &e), MOYAI_EINVAL);
    text[GRIDFILE_MOST] = 0;
    assert_int_equal(parse(text, &e), 0); /* a long comment */
    memset(text, 'x', GRIDFILE_MOST);
    assert_int_equal(parse(text, &e), MOYAI_EINVAL);
    strcpy(text, "forward ");
    memset(text + 8, 'h', 64);
    strcpy(text + 72, " b");
    assert_int_equal(parse(text, &e), MOYAI_EINVAL);
    assert_non_null(strstr(e.text, "longer than 63 bytes"));
    free(text);
}

static void hosts_go_by_short_and_full_names(void **state) {
    (void)state;
    assert_true(gridfile_is_host("gw", "gw"));
    assert_true(gridfile_is_host("GW", "gw.example.org"));
    assert_true(gridfile_is_host("gw.example.org", "gw"));
    assert_false(gridfile_is_host("gw.example.org", "gw.example.com"));
    assert_false(gridfile_is_host("gw", "gw2.example.org"));
    assert_false(gridfile_is_host("gw2", "gw"));
    assert_false(gridfile_is_host("gw", ""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_taken),
        cmocka_unit_test(errors_name_line_and_remedy),
        cmocka_unit_test(what_is_too_much_is_refused),
        cmocka_unit_test(hosts_go_by_short_and_full_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
