/* SPDX-License-Identifier: Apache-2.0 */
/* The mapping between JSON and values: what comes out is what went in, what is wrong is named, no memory is lost. */
#include "cli/value_json.h"

#include "tests/support/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static moyai_node *node;

static int open_node(void **state) {
    (void)state;
    unsetenv("MOYAI_GRID");
    return moyai_node_new(&node, NULL, NULL);
}

static int close_node(void **state) {
    (void)state;
    moyai_node_free(node);
    return 0;
}

/* The code; 0: the value. */
static int read_value(const char *text, moyai_value **ret, struct moyai_error *why) {
    json_t *j = NULL;
    int rc = value_json_read(text, &j, why);
    if (rc == 0) rc = value_of_json(node, j, ret, why);
    json_decref(j);
    return rc;
}

static char *print(const moyai_value *v) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    value_print(f, v);
    fclose(f);
    return text;
}

static const char *const forms[] = {
    "null",
    "false",
    "0",
    "9223372036854775807",
    "0.1",
    "1e-300",
    "123456789012345.0",
    "-0.0",
    "\"\"",
    "\"a\\u0000b\\n\\t\\\"\\\\\"",
    "[0]",
    "[1.0]",
    "[[1, 2], [1.5]]",
    "[]",
    "[null]",
    "{\"a\": {\"b\": []}}",
    "{\"$bytes\": \"\"}",
    "{\"$bytes\": \"AA==\"}",
    "{\"$bytes\": \"AAE=\"}",
    "{\"$bytes\": \"//79\"}",
    "{\"$u8\": []}",
    "{\"$u8\": [0, 255]}",
    "{\"$u16\": [65535]}",
    "{\"$u32\": [4294967295]}",
    "{\"$u64\": [0, \"18446744073709551615\"]}",
    "{\"$i8\": [-128, 127]}",
    "{\"$i16\": [-32768]}",
    "{\"$i32\": [-2147483648]}",
    "{\"$i64\": []}",
    "{\"$f32\": [0.1, 16777216.0, \"nan\", \"inf\", \"-inf\"]}",
    "{\"$f64\": []}",
    "{\"$f64\": [0.1, \"nan\"]}",
    "{\"$float\": \"nan\"}",
    "{\"$float\": \"-inf\"}",
    "{\"$uint\": \"18446744073709551615\"}",
    "{\"$list\": [1, 2]}",
    "{\"$list\": [1, 0.5]}",
    "[1, {\"$uint\": \"9223372036854775808\"}]",
    "[1, {\"$float\": \"nan\"}]",
    "{\"$map\": {\"$ref\": 1}}",
    "{\"$map\": {\"a\": 1, \"$\": {}}}",
    "{\"$ref\": \"moyai:00000000000000000000000000000001@00000000000000000000000000000002\"}",
};
enum { N_FORMS = sizeof forms / sizeof forms[0] };

static void comes_back(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++) {
        moyai_value *v = NULL, *w = NULL;
        struct moyai_error why = {0};
        if (read_value(forms[i], &v, &why) < 0) fail_msg("%s: %s", forms[i], why.text);
        char *text = print(v);
        assert_string_equal(text, forms[i]);
        assert_int_equal(read_value(text, &w, &why), 0);
        assert_true(moyai_value_equal(v, w));
        free(text);
        moyai_value_free(v);
        moyai_value_free(w);
    }
}

/* Other ways to write a value than that in which it is printed. */
static void other_forms(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } same[] = {
        {" 1e2 ", "100.0"},
        {"[1, 2.5]", "[1.0, 2.5]"},
        {"{\"$list\": []}", "[]"},
        {"{\"$list\": [\"a\"]}", "[\"a\"]"},
        {"{\"$map\": {\"a\": 1}}", "{\"a\": 1}"},
        {"{\"$i64\": [1]}", "[1]"},
        {"{\"$f64\": [1]}", "[1.0]"},
        {"{\"$f32\": 0.5}", "0.5"},
        {"{\"$f32\": 0.1}", "0.10000000149011612"},
        {"{\"$f32\": 2}", "2.0"},
        {"{\"$uint\": \"5\"}", "5"},
        {"{\"$u64\": [\"5\"]}", "{\"$u64\": [5]}"},
        {"\"\\u00e9\"", "\"\xc3\xa9\""},
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        moyai_value *v = NULL;
        struct moyai_error why = {0};
        if (read_value(same[i].in, &v, &why) < 0) fail_msg("%s: %s", same[i].in, why.text);
        char *text = print(v);
        assert_string_equal(text, same[i].out);
        free(text);
        moyai_value_free(v);
    }
}

static void wrong(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int code;
        const char *part;
    } bad[] = {
        {"", MOYAI_EINVAL, "not JSON"},
        {"hello", MOYAI_EINVAL, "quotes"},
        {"[1", MOYAI_EINVAL, "not JSON"},
        {"{\"a\": 1, \"a\": 2}", MOYAI_EINVAL, "not JSON"},
        {"1 2", MOYAI_EINVAL, "not JSON"},
        {"-9223372036854775809", MOYAI_EINVAL, "is less than -2^63"},
        {"99999999999999999999", MOYAI_EINVAL, "larger than 2^63 - 1; up to 2^64 - 1 it is written {\"$uint\""},
        {"\"\xff\"", MOYAI_EINVAL, "not JSON"},
        {"{\"$x\": 1}", MOYAI_EINVAL, "'$x'"},
        {"{\"$u8\": [1], \"a\": 2}", MOYAI_EINVAL, "alone"},
        {"{\"$u8\": 1}", MOYAI_EINVAL, "$u8"},
        {"{\"$u8\": [256]}", MOYAI_ERANGE, "element 1 of an array, 256, is no u8"},
        {"{\"$u8\": [1, -1]}", MOYAI_ERANGE, "element 2"},
        {"{\"$u8\": [1.0]}", MOYAI_ERANGE, "u8"},
        {"{\"$i8\": [128]}", MOYAI_ERANGE, "i8"},
        {"{\"$u64\": [-1]}", MOYAI_ERANGE, "u64"},
        {"{\"$u64\": [\"18446744073709551616\"]}", MOYAI_ERANGE, "u64"},
        {"{\"$f32\": [1e300]}", MOYAI_ERANGE, "f32"},
        {"{\"$f32\": 1e300}", MOYAI_ERANGE, "$f32: 1e300 is too large for a float"},
        {"{\"$f32\": 9007199254740993}", MOYAI_ERANGE, "too many digits for an integer here; with a point"},
        {"{\"$f32\": \"nan\"}", MOYAI_EINVAL, "an array or a number; what is none is written {\"$float\": "},
        {"{\"$f32\": \"x\"}", MOYAI_EINVAL, "$f32: its value must be an array or a number"},
        {"{\"$f64\": 1.5}", MOYAI_EINVAL, "$f64"},
        {"{\"$f64\": [\"x\"]}", MOYAI_ERANGE, "f64"},
        {"{\"$f64\": [null]}", MOYAI_ERANGE, "f64"},
        {"[9007199254740993, 0.5]", MOYAI_ERANGE, "f64"},
        {"{\"$bytes\": 1}", MOYAI_EINVAL, "base64"},
        {"{\"$bytes\": \"A\"}", MOYAI_EINVAL, "base64"},
        {"{\"$bytes\": \"AB==\"}", MOYAI_EINVAL, "base64"},
        {"{\"$bytes\": \"A=AA\"}", MOYAI_EINVAL, "base64"},
        {"{\"$bytes\": \"====\"}", MOYAI_EINVAL, "base64"},
        {"{\"$ref\": \"moyai:\"}", MOYAI_EINVAL, "reference"},
        {"{\"$ref\": 1}", MOYAI_EINVAL, "reference"},
        {"{\"$float\": \"x\"}", MOYAI_EINVAL, "nan"},
        {"{\"$float\": 1}", MOYAI_EINVAL, "nan"},
        {"{\"$uint\": 1.5}", MOYAI_EINVAL, "$uint"},
        {"{\"$list\": {}}", MOYAI_EINVAL, "$list"},
        {"{\"$map\": []}", MOYAI_EINVAL, "$map"},
        {"[{\"a\": [\"x\", {\"$u8\": [\"y\"]}]}]", MOYAI_ERANGE, "u8"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        moyai_value *v = NULL;
        struct moyai_error why = {0};
        if (read_value(bad[i].text, &v, &why) != bad[i].code) fail_msg("%s: %d %s", bad[i].text, why.code, why.text);
        assert_null(v);
        if (!strstr(why.text, bad[i].part)) fail_msg("%s: %s", bad[i].text, why.text);
    }
}

/* The innermost may hold something, an array of numbers too, or be empty. */
static void depths(void **state) {
    (void)state;
    static const char *const within[] = {"", "[", "1", "\"a\"", "{", "{\"a\":"};
    for (size_t i = 0; i < sizeof within / sizeof within[0]; i++)
        for (size_t n = 31; n <= 40; n++) {
            char text[200], *end = text + n;
            const bool list = within[i][0] == '[', map = within[i][0] == '{', full = map && within[i][1];
            memset(text, '[', n);
            end += sprintf(end, "%s%s%s", within[i], full ? "1" : "", list ? "]" : map ? "}" : "");
            memset(end, ']', n);
            end[n] = 0;
            moyai_value *v = NULL;
            struct moyai_error why = {0};
            const size_t depth = n + list + map - (within[i][0] == '1'); /* [1] is no list */
            const int rc = read_value(text, &v, &why);
            if (rc != (depth > 32 ? MOYAI_EDEPTH : 0) || (rc && !strstr(why.text, "more than 32 deep")))
                fail_msg("%s: %d %s", text, rc, why.text);
            assert_true((rc == 0) == (v != NULL));
            moyai_value_free(v);
        }
}

/* Long texts are printed in parts, characters stay whole. */
static void long_texts(void **state) {
    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        char text[2000], *printed = NULL;
        size_t n = shift, m = 0;
        memset(text, 'x', shift);
        for (; n + 4 < sizeof text; n += 4) memcpy(text + n, "\xf0\x9f\x98\x80", 4);
        FILE *f = open_memstream(&printed, &m);
        assert_non_null(f);
        json_print_text(f, text, n);
        fclose(f);
        assert_int_equal(m, n + 2);
        assert_memory_equal(printed + 1, text, n);
        free(printed);
    }
}

static void no_memory(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++) {
        json_t *j = NULL;
        assert_int_equal(value_json_read(forms[i], &j, NULL), 0);
        for (long k = 1; alloc_next(&k, ALLOC_ONE | ALLOC_MINE); k++) {
            moyai_value *v = NULL;
            struct moyai_error why = {0};
            int rc = value_of_json(node, j, &v, &why);
            if (rc < 0 && rc != MOYAI_ENOMEM) fail_msg("%s: %s", forms[i], why.text);
            assert_true((rc == 0) == (v != NULL));
            moyai_value_free(v);
        }
        alloc_disarm();
        json_decref(j);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back), cmocka_unit_test(other_forms), cmocka_unit_test(wrong),
        cmocka_unit_test(depths),     cmocka_unit_test(long_texts),  cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, open_node, close_node);
}
