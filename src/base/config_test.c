/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"

#include "tests/support/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int clean_environment(void **state) {
    (void)state;
    for (size_t i = 0; i < CONFIG_COUNT; i++) unsetenv(config_options()[i].env);
    return 0;
}

static void the_table_is_sound(void **state) {
    (void)state;
    const struct config_option *o = config_options();
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        char name[40];
        config_option_name(&o[i], name);
        assert_memory_equal(o[i].env, "MOYAI_", 6);
        for (size_t k = 0; name[k]; k++) { /* one name in three spellings */
            char upper = name[k] == '-' ? '_' : (char)(name[k] - 'a' + 'A');
            assert_int_equal(o[i].env[6 + k], upper);
        }
        assert_int_equal(strlen(o[i].env), 6 + strlen(name));
        assert_true(strlen(o[i].help) > 10);
        assert_true(o[i].least <= o[i].most);
        if (o[i].type != CONFIG_STRING) assert_non_null(o[i].deflt);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(o[i].env, o[k].env);
    }
}

static void defaults(void **state) {
    (void)state;
    struct config c;
    assert_int_equal(config_load(&c, NULL), 0);
    assert_null(c.grid);
    assert_null(c.run_dir);
    assert_null(c.parent);
    assert_null(c.title);
    assert_null(c.events);
    assert_string_equal(c.log, "error");
    assert_int_equal(c.max_fibers, 25000);
    assert_int_equal(c.stack, 256 * 1024);
    assert_int_equal(c.queue_calls, 1000000);
    assert_int_equal(c.queue_bytes, 256 * 1024 * 1024);
    assert_int_equal(c.max_message, 1024 * 1024 * 1024);
    assert_true(c.reattach == 10 * MOYAI_SEC && c.session_idle == 60 * MOYAI_SEC);
    assert_true(c.link_delay == 0 && c.link_rate == 0 && !c.no_install);
    for (size_t i = 0; i < CONFIG_COUNT; i++) assert_int_equal(c.origin[i], CONFIG_FROM_DEFAULT);
    config_done(&c);
    config_done(&c); /* twice is fine */
}

static void the_environment_counts(void **state) {
    (void)state;
    struct config c;
    setenv("MOYAI_GRID", "file:/tmp/g", 1);
    setenv("MOYAI_STACK", "1MiB", 1);
    setenv("MOYAI_REATTACH", "1.5s", 1);
    setenv("MOYAI_MAX_FIBERS", "7", 1);
    setenv("MOYAI_NO_INSTALL", "YES", 1);
    setenv("MOYAI_LOG", "", 1); /* as if not set */
    assert_int_equal(config_load(&c, NULL), 0);
    assert_string_equal(c.grid, "file:/tmp/g");
    assert_int_equal(c.stack, 1 << 20);
    assert_true(c.reattach == 1500 * MOYAI_MS);
    assert_int_equal(c.max_fibers, 7);
    assert_true(c.no_install);
    assert_string_equal(c.log, "error");
    assert_int_equal(c.origin[CONFIG_grid], CONFIG_FROM_ENVIRONMENT);
    assert_int_equal(c.origin[CONFIG_log], CONFIG_FROM_DEFAULT);
    setenv("MOYAI_GRID", "changed", 1);
    assert_string_equal(c.grid, "file:/tmp/g"); /* a copy */
    assert_int_equal(config_set(&c, "max-fibers", "9", NULL), 0);
    assert_int_equal(config_set(&c, "grid", "file:/tmp/h", NULL), 0);
    assert_int_equal(c.max_fibers, 9);
    assert_string_equal(c.grid, "file:/tmp/h");
    assert_int_equal(c.origin[CONFIG_max_fibers], CONFIG_FROM_OPTION);
    config_done(&c);
}

static void errors_name_variable_value_and_what_is_accepted(void **state) {
    (void)state;
    static const struct {
        const char *env, *value, *text;
    } cases[] = {
        {"MOYAI_STACK", "12q",
         "$MOYAI_STACK is \"12q\"; accepted is a size such as 65536, 64k, 256MiB or 1GiB, from 16KiB to 1GiB"},
        {"MOYAI_STACK", "16383", "$MOYAI_STACK is \"16383\""},
        {"MOYAI_STACK", "2G", "$MOYAI_STACK is \"2G\""},
        {"MOYAI_MAX_FIBERS", "0", "$MOYAI_MAX_FIBERS is \"0\"; accepted is an integer, from 1 to 10000000"},
        {"MOYAI_MAX_FIBERS", "-5", "$MOYAI_MAX_FIBERS is \"-5\""},
        {"MOYAI_MAX_FIBERS", "99999999999999999999", "$MOYAI_MAX_FIBERS"},
        {"MOYAI_REATTACH", "soon", "accepted is a duration such as 10s, 500ms, 5m or 1h, at least 0s"},
        {"MOYAI_LINK_DELAY", "2h", "from 0s to 1h"},
        {"MOYAI_NO_INSTALL", "maybe", "$MOYAI_NO_INSTALL is \"maybe\"; accepted is yes or no"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c;
        struct moyai_error e;
        clean_environment(NULL);
        setenv("MOYAI_GRID", "file:/x", 1); /* taken before the failure: freed again */
        setenv(cases[i].env, cases[i].value, 1);
        assert_int_equal(config_load(&c, &e), MOYAI_EINVAL);
        assert_non_null(strstr(e.text, cases[i].text));
    }
    clean_environment(NULL);
    struct config c;
    struct moyai_error e;
    assert_int_equal(config_load(&c, NULL), 0);
    assert_int_equal(config_set(&c, "stack", "x", &e), MOYAI_EINVAL);
    assert_non_null(strstr(e.text, "option stack is \"x\""));
    assert_int_equal(c.stack, 256 * 1024);
    assert_int_equal(config_set(&c, "stacks", "1M", &e), MOYAI_ENOENT);
    assert_string_equal(e.text, "there is no option \"stacks\"");
    config_done(&c);
}

static void tell(const char *name, const char *value, const char *like, void *arg) {
    strcat(strcat(strcat(arg, name), " is "), value);
    strcat(strcat(strcat(arg, like ? " like " : ""), like ? like : ""), "\n");
}

static void an_option_is_called_as_it_was_given(void **state) {
    (void)state;
    struct config c;
    assert_int_equal(config_load(&c, NULL), 0);
    assert_string_equal(config_called(&c, CONFIG_run_dir), "$MOYAI_RUN_DIR");
    assert_int_equal(config_set(&c, "run-dir", "/x", NULL), 0);
    assert_string_equal(config_called(&c, CONFIG_run_dir), "option run_dir");
    assert_string_equal(config_called(&c, CONFIG_grid), "$MOYAI_GRID");
    assert_string_equal(config_called(NULL, CONFIG_grid), "option grid");
    config_done(&c);
}

static void unknown_variables_are_told(void **state) {
    (void)state;
    static const char *const names[] = {
        "MOYAI_GIRD",    "MOYAI_",
        "MOYAI_GRID",    "MOYAI_RANK",
        "MOYAI_SIZE",    "MOYAI_GROUP",
        "MOYAI_INDEX",   "MOYAI_TEST_SEED",
        "MOYAIGRID",     "MOYAI_GRIDS",
        "MOYAI_NOTHING", "MOYAI_A_NAME_THAT_IS_LONGER_THAN_ANY_OPTION_WILL_EVER_BE_SINCE_NOBODY_TYPES_IT"};
    enum { N = sizeof names / sizeof names[0] };
    char all[1000] = "", want[100];
    config_unknown(tell, all);
    assert_string_equal(all, "");
    for (size_t i = 0; i < N; i++) setenv(names[i], strcmp(names[i], "MOYAI_NOTHING") == 0 ? "" : "file:/x", 1);
    config_unknown(tell, all);
    assert_non_null(strstr(all, "MOYAI_GIRD is file:/x like MOYAI_GRID\n"));
    assert_non_null(strstr(all, "MOYAI_ is file:/x\n"));
    assert_non_null(strstr(all, "MOYAI_GRIDS is file:/x like MOYAI_GRID\n"));
    snprintf(want, sizeof want, "%.63s is file:/x\n", names[N - 1]);
    assert_non_null(strstr(all, want));
    size_t lines = 0;
    for (const char *p = all; *p; p++) lines += *p == '\n';
    assert_int_equal(lines, 4);
    for (size_t i = 0; i < N; i++) unsetenv(names[i]);
}

/* Missing letters, one too many, others, and two in each other's place; not what is like nothing. */
static void the_one_that_is_meant_is_found(void **state) {
    (void)state;
    static const char *const like[][2] = {
        {"MOYAI_STAK", "MOYAI_STACK"},
        {"MOYAI_STACKS", "MOYAI_STACK"},
        {"MOYAI_TITEL", "MOYAI_TITLE"},
        {"MOYAI_LOOG", "MOYAI_LOG"},
        {"MOYAI_EVENT", "MOYAI_EVENTS"},
        {"MOYAI_RUNDIR", "MOYAI_RUN_DIR"},
        {"MOYAI_QUEUE_CALL", "MOYAI_QUEUE_CALLS"},
        {"MOYAI_KEYFILES", "MOYAI_KEY_FILE"},
        {"MOYAI_GERD", "MOYAI_GRID"},
        {"MOYAI_COLOUR", ""},
        {"MOYAI_X", ""},
        {"MOYAI_FOO", ""},
        {"MOYAI_KEYS", ""},
    };
    for (size_t i = 0; i < sizeof like / sizeof like[0]; i++) {
        char all[200] = "", want[200];
        setenv(like[i][0], "1", 1);
        config_unknown(tell, all);
        unsetenv(like[i][0]);
        snprintf(want, sizeof want, "%s is 1%s%s\n", like[i][0], like[i][1][0] ? " like " : "", like[i][1]);
        assert_string_equal(all, want);
    }
}

/* Each bad value has its fault and its default, and the others are what they were given. */
static void all_faults_are_told(void **state) {
    (void)state;
    static struct config_faults faults;
    struct config c;
    struct moyai_error e = {0};
    setenv("MOYAI_STACK", "huge", 1);
    setenv("MOYAI_DEGREE", "17", 1);
    setenv("MOYAI_TITLE", "good", 1);
    setenv("MOYAI_REATTACH", "3s", 1);
    assert_int_equal(config_load(&c, &e), MOYAI_EINVAL);
    assert_int_equal(config_load_all(&c, &faults, &e), 0);
    for (size_t i = 0; i < CONFIG_COUNT; i++)
        assert_int_equal(faults.of[i].code, i == CONFIG_stack || i == CONFIG_degree ? MOYAI_EINVAL : 0);
    assert_non_null(strstr(faults.of[CONFIG_stack].text, "$MOYAI_STACK is \"huge\""));
    assert_non_null(strstr(faults.of[CONFIG_degree].text, "from 1 to 16"));
    assert_true(c.stack == 256 * 1024 && c.degree == 15 && c.reattach == 3 * MOYAI_SEC);
    assert_int_equal(c.origin[CONFIG_stack], CONFIG_FROM_DEFAULT);
    assert_string_equal(c.title, "good");
    config_done(&c);
    long k = 1;
    for (; alloc_next(&k, ALLOC_ONE | ALLOC_MINE); k++) {
        e = (struct moyai_error){0};
        int rc = config_load_all(&c, &faults, &e);
        if (rc == 0)
            config_done(&c);
        else
            assert_true(rc == MOYAI_ENOMEM && e.code == rc);
    }
    alloc_disarm();
    assert_true(k > 2);
    unsetenv("MOYAI_STACK");
    unsetenv("MOYAI_DEGREE");
    unsetenv("MOYAI_TITLE");
    unsetenv("MOYAI_REATTACH");
}

static void without_memory(void **state) {
    (void)state;
    struct config c;
    setenv("MOYAI_GRID", "file:/x", 1);
    setenv("MOYAI_TITLE", "t", 1);
    for (long k = 1; alloc_next(&k, ALLOC_ONE); k++) {
        int rc = config_load(&c, NULL);
        assert_int_equal(rc, alloc_hit() ? MOYAI_ENOMEM : 0);
        if (rc < 0) assert_null(c.grid);
    }
    alloc_arm(1, ALLOC_ONE);
    assert_int_equal(config_set(&c, "grid", "file:/y", NULL), MOYAI_ENOMEM);
    alloc_disarm();
    assert_string_equal(c.grid, "file:/x");
    config_done(&c);
}

static void sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t want;
    } good[] = {{"0", 0},
                {"65536", 65536},
                {"12B", 12},
                {"64k", 65536},
                {"64K", 65536},
                {"64KiB", 65536},
                {"64kB", 64000},
                {"3M", 3u << 20},
                {"3MiB", 3u << 20},
                {"3MB", 3000000},
                {"2G", (uint64_t)2 << 30},
                {"2GiB", (uint64_t)2 << 30},
                {"2GB", 2000000000},
                {"1T", (uint64_t)1 << 40},
                {"1TiB", (uint64_t)1 << 40},
                {"1TB", 1000000000000},
                {"18446744073709551615", UINT64_MAX}};
    static const char *const bad[] = {"",     "k",    "-1",  "+1",   " 1",  "1 ", "1 k",
                                      "1.5M", "1kib", "1mb", "0x10", "1kk", "one"};
    static const char *const large[] = {"18446744073709551616", "99999999999999999999999", "18014398509481984k",
                                        "16777216T"};
    uint64_t x = 77;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(config_parse_size(good[i].text, &x), 0);
        assert_true(x == good[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(config_parse_size(bad[i], &x), MOYAI_EINVAL);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        assert_int_equal(config_parse_size(large[i], &x), MOYAI_ERANGE);
}

static void durations(void **state) {
    (void)state;
    static const struct {
        const char *text;
        moyai_dur want;
    } good[] = {{"0", 0},
                {"10s", 10 * MOYAI_SEC},
                {"10", 10 * MOYAI_SEC},
                {"500ms", 500 * MOYAI_MS},
                {"250us", 250 * MOYAI_US},
                {"7ns", 7},
                {"5m", 300 * MOYAI_SEC},
                {"5min", 300 * MOYAI_SEC},
                {"1h", 3600 * MOYAI_SEC},
                {"2d", 172800 * MOYAI_SEC},
                {"1.5s", 1500 * MOYAI_MS},
                {".5", 500 * MOYAI_MS},
                {".5ms", 500 * MOYAI_US},
                {"0.1", 100 * MOYAI_MS},
                {"0.25h", 900 * MOYAI_SEC},
                {"1.0000000019s", 1000000001},
                {"0.0000005ms", 0},
                {"106751d", (moyai_dur)106751 * 86400 * MOYAI_SEC}};
    static const char *const bad[] = {"", "s", "-1s", "1.s", ".", ".s", "1 s", "1S", "1.5.5s", "forever", "1e3"};
    static const char *const large[] = {"106752d", "9223372037s", "18446744073709551616ns", "9223372036.9s"};
    moyai_dur x = 77;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(config_parse_duration(good[i].text, &x), 0);
        assert_true(x == good[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(config_parse_duration(bad[i], &x), MOYAI_EINVAL);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        assert_int_equal(config_parse_duration(large[i], &x), MOYAI_ERANGE);
}

static void integers_and_bools(void **state) {
    (void)state;
    int64_t x;
    assert_int_equal(config_parse_integer("-9223372036854775808", &x), 0);
    assert_true(x == INT64_MIN);
    assert_int_equal(config_parse_integer("9223372036854775807", &x), 0);
    assert_true(x == INT64_MAX);
    assert_int_equal(config_parse_integer("-0", &x), 0);
    assert_int_equal(x, 0);
    assert_int_equal(config_parse_integer("9223372036854775808", &x), MOYAI_ERANGE);
    assert_int_equal(config_parse_integer("-9223372036854775809", &x), MOYAI_ERANGE);
    static const char *const bad[] = {"", "-", "--1", "1k", "1.0", " 1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(config_parse_integer(bad[i], &x), MOYAI_EINVAL);
    static const char *const yes[] = {"yes", "Yes", "true", "on", "1"}, *const no[] = {"no", "NO", "false", "off", "0"};
    for (size_t i = 0; i < 5; i++) {
        bool b = false;
        assert_int_equal(config_parse_bool(yes[i], &b), 0);
        assert_true(b);
        assert_int_equal(config_parse_bool(no[i], &b), 0);
        assert_false(b);
        assert_int_equal(config_parse_bool("2", &b), MOYAI_EINVAL);
        assert_int_equal(config_parse_bool("", &b), MOYAI_EINVAL);
    }
}

static char *printed(const struct config *c, bool json) {
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    assert_int_equal(config_print(c, NULL, f, json), 0);
    fclose(f);
    return text;
}

static void printing(void **state) {
    (void)state;
    struct config c;
    setenv("MOYAI_TITLE", "a \"title\"\n with \\ and é \xff in it, longer than a part", 1);
    setenv("MOYAI_REATTACH", "90s", 1);
    setenv("MOYAI_TITEL", "t", 1);
    setenv("MOYAI_STAK", "\"", 1);
    assert_int_equal(config_load(&c, NULL), 0);
    assert_int_equal(config_set(&c, "session-idle", "2h", NULL), 0);
    char *text = printed(&c, false);
    assert_int_equal(strncmp(text, "VARIABLE            VALUE                FROM         MEANING\nMOYAI_GRID ", 73),
                     0);
    assert_non_null(strstr(text, "MOYAI_STACK         256KiB               default      stack of one call\n"));
    assert_non_null(strstr(text,
                           "MOYAI_REATTACH      90s                  environment  how long a broken session tries to "
                           "resume before it fails (default 10s)\n"));
    assert_non_null(strstr(text, "MOYAI_SESSION_IDLE  2h                   option"));
    assert_non_null(strstr(text, "MOYAI_GRID          -                    default"));
    assert_non_null(strstr(text, "MOYAI_NO_INSTALL    no                   default"));
    assert_non_null(strstr(text, "MOYAI_TITEL         t                    unknown      there is no such variable"));
    assert_non_null(strstr(text, "MOYAI_STAK          \"                    unknown      there is no such variable"));
    free(text);
    text = printed(&c, true);
    assert_non_null(
        strstr(text, "\"value\": \"a \\\"title\\\"\\n with \\\\ and é \\ufffd in it, longer than a part\""));
    assert_non_null(
        strstr(text, "\"reattach\": {\"variable\": \"MOYAI_REATTACH\", \"type\": \"duration\", \"unit\": \"time\", "
                     "\"value\": 90000000000, \"default\": \"10s\", \"origin\": \"environment\""));
    assert_non_null(strstr(text, "\"grid\": {\"variable\": \"MOYAI_GRID\", \"type\": \"string\", \"unit\": "
                                 "\"address\", \"value\": null, \"default\": null"));
    assert_non_null(strstr(text, "\"value\": false"));
    assert_true(strstr(text, "\"unknown\": [\"MOYAI_TITEL\", \"MOYAI_STAK\"]") ||
                strstr(text, "\"unknown\": [\"MOYAI_STAK\", \"MOYAI_TITEL\"]"));
    unsetenv("MOYAI_TITEL");
    unsetenv("MOYAI_STAK");
    int depth = 0;
    bool string = false;
    for (const char *p = text; *p; p++) {
        if (string && *p == '\\') {
            p++;
        } else if (*p == '"') {
            string = !string;
        } else if (!string) {
            depth += (*p == '{') - (*p == '}');
        }
    }
    assert_true(depth == 0 && !string);
    free(text);
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        assert_int_equal(config_print(&c, NULL, full, false), MOYAI_ESYS);
        fclose(full);
    }
    config_done(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test_setup_teardown(defaults, clean_environment, clean_environment),
        cmocka_unit_test_setup_teardown(the_environment_counts, clean_environment, clean_environment),
        cmocka_unit_test_setup_teardown(errors_name_variable_value_and_what_is_accepted, clean_environment,
                                        clean_environment),
        cmocka_unit_test_setup_teardown(an_option_is_called_as_it_was_given, clean_environment, clean_environment),
        cmocka_unit_test_setup_teardown(unknown_variables_are_told, clean_environment, clean_environment),
        cmocka_unit_test_setup_teardown(the_one_that_is_meant_is_found, clean_environment, clean_environment),
        cmocka_unit_test_setup_teardown(all_faults_are_told, clean_environment, clean_environment),
        cmocka_unit_test_setup_teardown(without_memory, clean_environment, clean_environment),
        cmocka_unit_test(sizes),
        cmocka_unit_test(durations),
        cmocka_unit_test(integers_and_bools),
        cmocka_unit_test_setup_teardown(printing, clean_environment, clean_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
