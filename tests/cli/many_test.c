/* SPDX-License-Identifier: Apache-2.0 */
/* moyai run with many processes. */
#include "tests/cli/kit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { PROCESSES = 500, NODES = 40 }; /* of a node, a sanitizer takes tens of MiB */
#else
enum { PROCESSES = 500, NODES = 120 };
#endif

/* Descriptors are raised to what the system allows, whatever the shell's limit. */
static void five_hundred(void **state) {
    (void)state;
    struct rlimit before, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    if (before.rlim_max < PROCESSES * 6) skip();
    low = before;
    low.rlim_cur = 256;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    struct cli c;
    char n[16];
    snprintf(n, sizeof n, "%d", PROCESSES - 1);
    cli_start(&c, NULL, "run", "--grace", "60s", "cat", ":", "-n", n, "sh", "-c",
              "echo I am $MOYAI_RANK; exec \"$0\" until-asked 0", kit_program("HELPER"), NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 1; i < PROCESSES; i++) (void)cli_line(&c, 1, "ready");
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    assert_string_equal(c.text[1].p, "");
    assert_int_equal(kit_count(&c.text[0], "asked to end"), PROCESSES - 1);
    for (int i = 1; i < PROCESSES; i++) {
        char want[64];
        snprintf(want, sizeof want, "[1.%d] I am %d", i - 1, i);
        char *p = strstr(c.text[0].p, want);
        assert_non_null(p);
        assert_int_equal(p[strlen(want)], '\n');
    }
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

static void many_nodes(void **state) {
    (void)state;
    struct cli c;
    char n[16];
    snprintf(n, sizeof n, "%d", NODES);
    cli_start(&c, NULL, "run", "--grace", "1h", "cat", ":", "-n", n, "sh", "-c", "exec \"$0\" serve n$MOYAI_RANK",
              kit_program("NODE"), NULL);
    for (int i = 0; i < NODES; i++) (void)cli_line(&c, 1, "serving");
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 0);
    assert_string_equal(c.text[1].p, "");
    assert_int_equal(kit_count(&c.text[0], "ended n"), NODES);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

/* Not enough descriptors for all: said, and nothing is left of those that were started. */
static void too_many(void **state) {
    (void)state;
    struct cli c;
    const char *const words[] = {"run", "-n", "40", "@h", "until-asked", "0", NULL};
    cli_startv(&c, &(struct cli_opts){.files = 64}, words);
    cli_close_in(&c);
    assert_int_equal(cli_wait(&c), 125);
    assert_int_equal(kit_count(&c.text[1], "Too many open files"), 1);
    cli_free(&c);
    assert_int_equal(kit_left(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_hundred),
        cmocka_unit_test(many_nodes),
        cmocka_unit_test(too_many),
    };
    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
