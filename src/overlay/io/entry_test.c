/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/entry.h"

#include "base/id.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char node_text[] = "moyai node 1\n"
                                "id 000102030405060708090a0b0c0d0e0f\n"
                                "host ffffffffffffffffffffffffffffffff\n"
                                "pid 4711\n"
                                "started 1700000000\n"
                                "run-dir /run/user/1000/moyai\n"
                                "title 100%25 w\xc3\xb6rker %0A\n"
                                "end\n";
static const char name_text[] = "moyai name 1\n"
                                "name the master\n"
                                "object 101112131415161718191a1b1c1d1e1f\n"
                                "node 000102030405060708090a0b0c0d0e0f\n"
                                "end\n";

static struct rdv_node node_sample(void) {
    struct rdv_node n;
    memset(&n, 0, sizeof n);
    for (int i = 0; i < 16; i++) n.id.b[i] = (uint8_t)i;
    memset(n.host, 0xff, sizeof n.host);
    n.pid = 4711;
    n.started = 1700000000;
    strcpy(n.run_dir, "/run/user/1000/moyai");
    strcpy(n.title, "100% w\xc3\xb6rker \n");
    return n;
}

static struct rdv_name name_sample(void) {
    struct rdv_name n;
    memset(&n, 0, sizeof n);
    strcpy(n.name, "the master");
    for (int i = 0; i < 16; i++) {
        n.object.b[i] = (uint8_t)(16 + i);
        n.node.b[i] = (uint8_t)i;
    }
    return n;
}

/* Decode memory of exactly n bytes, as a node if `node`, else as a name. */
static int decode(bool node, const char *p, size_t n, struct moyai_error *e) {
    char *exact = malloc(n ? n : 1), again[ENTRY_MAX];
    assert_non_null(exact);
    memcpy(exact, p, n);
    struct rdv_node a;
    struct rdv_name b;
    int rc = node ? entry_decode_node(exact, n, &a, e) : entry_decode_name(exact, n, &b, e);
    if (rc == 0) {
        /* Whatever is accepted encodes to itself. */
        int m = node ? entry_encode_node(&a, again, NULL) : entry_encode_name(&b, again, NULL);
        assert_int_equal(m, n);
        assert_memory_equal(again, exact, n);
    }
    free(exact);
    return rc;
}

static void refused(bool node, const char *p, int code, const char *word) {
    struct moyai_error e = {0};
    int rc = decode(node, p, strlen(p), &e);
    if (rc != code) fail_msg("%d and not %d for '%s' (%s)", rc, code, p, e.text);
    assert_int_equal(e.code, code);
    if (!strstr(e.text, word)) fail_msg("'%s' is not in '%s'", word, e.text);
    assert_int_equal(decode(node, p, strlen(p), NULL), code);
}

/* Replace the line that begins with `from` in text. */
static const char *with_line(const char *text, const char *from, const char *line, char out[ENTRY_MAX]) {
    const char *at = strstr(text, from);
    assert_non_null(at);
    const char *nl = strchr(at, '\n');
    assert_non_null(nl);
    snprintf(out, ENTRY_MAX, "%.*s%s%s", (int)(at - text), text, line, nl);
    return out;
}

static void the_text_is_as_documented(void **state) {
    (void)state;
    char out[ENTRY_MAX];
    struct rdv_node n = node_sample(), n2;
    struct rdv_name m = name_sample(), m2;
    assert_int_equal(entry_encode_node(&n, out, NULL), sizeof node_text - 1);
    assert_memory_equal(out, node_text, sizeof node_text - 1);
    assert_int_equal(entry_encode_name(&m, out, NULL), sizeof name_text - 1);
    assert_memory_equal(out, name_text, sizeof name_text - 1);

    assert_int_equal(entry_decode_node(node_text, sizeof node_text - 1, &n2, NULL), 0);
    assert_memory_equal(&n2.id, &n.id, sizeof n.id);
    assert_memory_equal(n2.host, n.host, sizeof n.host);
    assert_int_equal(n2.pid, 4711);
    assert_int_equal(n2.started, 1700000000);
    assert_string_equal(n2.run_dir, n.run_dir);
    assert_string_equal(n2.title, n.title);
    assert_int_equal(entry_decode_name(name_text, sizeof name_text - 1, &m2, NULL), 0);
    assert_string_equal(m2.name, m.name);
    assert_memory_equal(&m2.object, &m.object, sizeof m.object);
    assert_memory_equal(&m2.node, &m.node, sizeof m.node);
}

/* A line more if it leaves, and none if not. */
static void who_leaves_says_so(void **state) {
    (void)state;
    char out[ENTRY_MAX], t[ENTRY_MAX];
    struct rdv_node n = node_sample(), n2;
    n.leaving = true;
    const int k = entry_encode_node(&n, out, NULL);
    assert_true(k > 0);
    assert_string_equal(with_line(node_text, "end", "leaving 1\nend", t), out);
    assert_int_equal(decode(true, out, (size_t)k, NULL), 0);
    assert_int_equal(entry_decode_node(out, (size_t)k, &n2, NULL), 0);
    assert_true(n2.leaving);
    assert_string_equal(n2.title, n.title);
    for (size_t i = 0; i < (size_t)k; i++) assert_int_equal(decode(true, out, i, NULL), MOYAI_EDATA);
    assert_int_equal(entry_decode_node(node_text, sizeof node_text - 1, &n2, NULL), 0);
    assert_false(n2.leaving);

    refused(true, with_line(node_text, "end", "leaving 0\nend", t), MOYAI_EDATA, "only way");
    refused(true, with_line(node_text, "end", "leaving 2\nend", t), MOYAI_EDATA, "line 8: 'leaving'");
    refused(true, with_line(node_text, "end", "leaving \nend", t), MOYAI_EDATA, "line 8: 'leaving'");
    refused(true, with_line(node_text, "end", "leaving\nend", t), MOYAI_EDATA, "line 8 is not 'end'");
    refused(true, with_line(node_text, "end", "leaving 1\nleaving 1\nend", t), MOYAI_EDATA, "line 9 is not 'end'");
    refused(true, with_line(node_text, "title ", "leaving 1\ntitle x", t), MOYAI_EDATA, "line 7 is not 'title");
}

static void the_longest_fit(void **state) {
    (void)state;
    char out[ENTRY_MAX];
    struct moyai_error e = {0};
    struct rdv_node n = node_sample();
    n.pid = INT64_MAX;
    n.started = UINT64_MAX;
    memset(n.run_dir, '\n', ENTRY_DIR_MAX);
    n.run_dir[0] = '/';
    memset(n.title, '%', ENTRY_TITLE_MAX);
    int k = entry_encode_node(&n, out, &e);
    assert_true(k > 3 * (ENTRY_DIR_MAX + ENTRY_TITLE_MAX - 1));
    if (decode(true, out, (size_t)k, &e) < 0) fail_msg("%s", e.text);
    struct rdv_name m = name_sample();
    memset(m.name, '\x01', ENTRY_NAME_MAX);
    k = entry_encode_name(&m, out, &e);
    assert_true(k > 3 * ENTRY_NAME_MAX);
    if (decode(false, out, (size_t)k, &e) < 0) fail_msg("%s", e.text);
    /* A path may be any bytes. */
    n = node_sample();
    strcpy(n.run_dir, "/\xff\xc3/\x80");
    k = entry_encode_node(&n, out, &e);
    assert_true(k > 0);
    out[k < ENTRY_MAX ? k : ENTRY_MAX - 1] = 0;
    assert_non_null(strstr(out, "run-dir /%FF%C3/%80\n"));
    assert_int_equal(decode(true, out, (size_t)k, &e), 0);
}

static void fills_in_this_process(void **state) {
    (void)state;
    struct rdv_node s = node_sample(), n;
    char title[300], out[ENTRY_MAX];
    memset(title, 'x', sizeof title);
    title[sizeof title - 1] = 0;
    memcpy(title + ENTRY_TITLE_MAX - 1, "\xc3\xa9", 2); /* would be cut in two */
    rdv_node_fill(&n, &s.id, s.host, "/run/x", title);
    assert_memory_equal(&n.id, &s.id, sizeof n.id);
    assert_memory_equal(n.host, s.host, sizeof n.host);
    assert_int_equal(n.pid, getpid());
    assert_true(n.started > 1700000000);
    assert_string_equal(n.run_dir, "/run/x");
    assert_int_equal(strlen(n.title), ENTRY_TITLE_MAX - 1);
    assert_true(entry_encode_node(&n, out, NULL) > 0);
}

static void what_may_not_be_written(void **state) {
    (void)state;
    char out[ENTRY_MAX];
    struct moyai_error e = {0};
#define BAD(kind, change, word)                                                                                        \
    do {                                                                                                               \
        struct rdv_##kind n = kind##_sample();                                                                         \
        change;                                                                                                        \
        assert_int_equal(entry_encode_##kind(&n, out, &e), MOYAI_EINVAL);                                              \
        if (!strstr(e.text, word)) fail_msg("'%s' is not in '%s'", word, e.text);                                      \
    } while (0)
    BAD(node, memset(&n.id, 0, sizeof n.id), "node id");
    BAD(node, n.pid = -1, "process id");
    BAD(node, strcpy(n.run_dir, "relative"), "absolute");
    BAD(node, n.run_dir[0] = 0, "absolute");
    BAD(node, memset(n.run_dir, '/', sizeof n.run_dir), "run directory");
    BAD(node, strcpy(n.title, "\xff"), "title");
    BAD(node, memset(n.title, 'x', sizeof n.title), "title");
    BAD(name, n.name[0] = 0, "empty");
    BAD(name, strcpy(n.name, "\xc3"), "UTF-8");
    BAD(name, memset(n.name, 'x', sizeof n.name), "200 bytes");
    BAD(name, memset(&n.object, 0, sizeof n.object), "zero");
    BAD(name, memset(&n.node, 0, sizeof n.node), "zero");
#undef BAD
}

static void any_cut_or_addition_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof node_text - 1; i++) assert_int_equal(decode(true, node_text, i, NULL), MOYAI_EDATA);
    for (size_t i = 0; i < sizeof name_text - 1; i++) assert_int_equal(decode(false, name_text, i, NULL), MOYAI_EDATA);
    assert_int_equal(decode(true, node_text, sizeof node_text, NULL), MOYAI_EDATA); /* a NUL behind it */
    assert_int_equal(decode(false, node_text, sizeof node_text - 1, NULL), MOYAI_EDATA);
    assert_int_equal(decode(true, name_text, sizeof name_text - 1, NULL), MOYAI_EDATA);
    char twice[2 * sizeof name_text];
    strcpy(twice, name_text);
    strcat(twice, name_text);
    refused(false, twice, MOYAI_EDATA, "end");
}

static void any_damage_is_survived(void **state) {
    (void)state;
    size_t accepted = 0;
    for (int kind = 0; kind < 2; kind++) {
        const char *text = kind ? node_text : name_text;
        size_t n = strlen(text);
        for (size_t i = 0; i < n; i++) {
            for (unsigned c = 0; c < 256; c++) {
                char changed[ENTRY_MAX];
                memcpy(changed, text, n);
                changed[i] = (char)c;
                if (decode(kind != 0, changed, n, NULL) == 0) accepted++;
            }
        }
    }
    assert_true(accepted > 500); /* other ids, titles, paths, numbers */
}

static void each_line_is_checked(void **state) {
    (void)state;
    char t[ENTRY_MAX];
    static const struct {
        const char *from, *line;
        const char *word;
    } cases[] = {
        {"id ", "id 0001", "line 2: 'id' is not 32"},
        {"id ", "id 000102030405060708090A0B0C0D0E0F", "only way"}, /* upper case */
        {"id ", "id 00000000000000000000000000000000", "node id"},
        {"id ", "ID 000102030405060708090a0b0c0d0e0f", "line 2 is not 'id"},
        {"host ", "host", "line 3 is not"},
        {"pid ", "pid -1", "line 4: 'pid'"},
        {"pid ", "pid ", "line 4: 'pid'"},
        {"pid ", "pid 1 ", "line 4: 'pid'"},
        {"pid ", "pid 0x10", "line 4: 'pid'"},
        {"pid ", "pid 9223372036854775808", "line 4: 'pid'"}, /* 2^63 */
        {"pid ", "pid 007", "only way"},
        {"pid ", "pid  7", "line 4: 'pid'"},
        {"started ", "started 18446744073709551616", "line 5: 'started'"}, /* 2^64 */
        {"started ", "started 99999999999999999999999", "line 5: 'started'"},
        {"run-dir ", "run-dir relative", "absolute"},
        {"run-dir ", "run-dir /%", "line 6: 'run-dir' has a '%'"},
        {"run-dir ", "run-dir /%4", "line 6: 'run-dir' has a '%'"},
        {"run-dir ", "run-dir /%4g", "line 6: 'run-dir' has a '%'"},
        {"run-dir ", "run-dir /%2f", "line 6: 'run-dir' has a '%'"}, /* lower case */
        {"run-dir ", "run-dir /%00", "zero byte"},
        {"run-dir ", "run-dir /%41", "only way"}, /* an A needs no escape */
        {"run-dir ", "run-dir /\x01", "only way"},
        {"title ", "title \xff", "UTF-8"},
        {"title ", "title %FF", "UTF-8"},
        {"title ", "title", "line 7 is not 'title"},
        {"end", "end ", "line 8 is not 'end'"},
        {"end", "END", "line 8 is not 'end'"},
        {"pid ", "pid 1\npid 2", "line 5 is not 'started"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(true, with_line(node_text, cases[i].from, cases[i].line, t), MOYAI_EDATA, cases[i].word);
    char title[160];
    snprintf(title, sizeof title, "title %0*d", ENTRY_TITLE_MAX + 1, 0);
    refused(true, with_line(node_text, "title ", title, t), MOYAI_EDATA, "longer than 127");
    refused(false, with_line(name_text, "name the", "name ", t), MOYAI_EDATA, "empty");
    refused(false, with_line(name_text, "object ", "object 00000000000000000000000000000000", t), MOYAI_EDATA, "zero");
    refused(false, with_line(name_text, "node ", "node x", t), MOYAI_EDATA, "line 4");
    refused(true, "", MOYAI_EDATA, "line 1");
    refused(true, "\n", MOYAI_EDATA, "line 1");
    /* Empty titles are fine. */
    with_line(node_text, "title ", "title ", t);
    assert_int_equal(decode(true, t, strlen(t), NULL), 0);
}

static void a_newer_format_is_named(void **state) {
    (void)state;
    char t[ENTRY_MAX];
    refused(true, with_line(node_text, "moyai ", "moyai node 2", t), MOYAI_EVERSION, "format 2");
    refused(false, with_line(name_text, "moyai ", "moyai name 17", t), MOYAI_EVERSION, moyai_version());
    refused(false, with_line(name_text, "moyai ", "moyai name ", t), MOYAI_EDATA, "number");
    refused(false, with_line(name_text, "moyai ", "moyai name x", t), MOYAI_EDATA, "number");
    refused(false, with_line(name_text, "moyai ", "moyai names 1", t), MOYAI_EDATA, "line 1");
    refused(false, with_line(name_text, "moyai ", "moyai", t), MOYAI_EDATA, "line 1");
}

static void names_make_safe_files(void **state) {
    (void)state;
    static const char *cases[][2] = {
        {"master", "master"},
        {"A-z_0.9", "A-z_0.9"},
        {".", "%2E"},
        {"..", "%2E."},
        {".hidden", "%2Ehidden"},
        {"a/b", "a%2Fb"},
        {"../../x", "%2E.%2F..%2Fx"},
        {"100%", "100%25"},
        {"a b\n", "a%20b%0A"},
        {"\xc3\xa9", "%C3%A9"},
        {"%2F", "%252F"},
        {"*?~", "%2A%3F%7E"},
    };
    char file[ENTRY_FILE_MAX + 1];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        entry_file_of_name(cases[i][0], file);
        assert_string_equal(file, cases[i][1]);
    }
    /* As long as a file's name may be, then a hash: the two can never meet. */
    char name[ENTRY_NAME_MAX + 1] = {0}, other[ENTRY_FILE_MAX + 1];
    memset(name, '/', 85);
    entry_file_of_name(name, file);
    assert_int_equal(strlen(file), 255);
    name[85] = 'x';
    entry_file_of_name(name, file);
    assert_int_equal(strlen(file), 34);
    assert_memory_equal(file, "%%", 2);
    uint8_t id[16];
    assert_true(id_parse(file + 2, 32, id));
    name[85] = 'y';
    entry_file_of_name(name, other);
    assert_string_not_equal(file, other);
    memset(name, 'x', ENTRY_NAME_MAX);
    entry_file_of_name(name, file);
    assert_int_equal(strlen(file), ENTRY_NAME_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_as_documented), cmocka_unit_test(who_leaves_says_so),
        cmocka_unit_test(the_longest_fit),           cmocka_unit_test(fills_in_this_process),
        cmocka_unit_test(what_may_not_be_written),   cmocka_unit_test(any_cut_or_addition_is_refused),
        cmocka_unit_test(any_damage_is_survived),    cmocka_unit_test(each_line_is_checked),
        cmocka_unit_test(a_newer_format_is_named),   cmocka_unit_test(names_make_safe_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
