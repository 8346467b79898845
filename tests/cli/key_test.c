/* SPDX-License-Identifier: Apache-2.0 */
/* moyai key: files are made once, shown without their secrets, and replaced so that nobody is locked out. */
#include "tests/cli/kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[200], file[256], env_file[300], env_config[300];

static int set_up(void **state) {
    if (kit_setup(state) != 0) return -1;
    snprintf(dir, sizeof dir, "/tmp/moyai-cli-key-%d", (int)getpid());
    snprintf(file, sizeof file, "%s/moyai/key", dir);
    snprintf(env_file, sizeof env_file, "MOYAI_KEY_FILE=%s", file);
    snprintf(env_config, sizeof env_config, "XDG_CONFIG_HOME=%s", dir);
    return mkdir(dir, 0700);
}

static int tear_down(void **state) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) | kit_teardown(state);
}

static int key(struct cli *c, const char *env, const char *a, const char *b, const char *d) {
    const char *const envs[] = {env, NULL};
    cli_start(c, &(struct cli_opts){.env = envs}, "key", a, b, d, NULL);
    return cli_wait(c);
}

/* No word of standard output or error is a secret of the file. */
static void shows_no_secret(const struct cli *c) {
    char *text = kit_read(file);
    int keys = 0;
    for (char *save, *w = strtok_r(text, " \n", &save); w; w = strtok_r(NULL, " \n", &save)) {
        if (strlen(w) != 64) continue;
        keys++;
        assert_null(strstr(c->text[0].p, w));
        assert_null(strstr(c->text[1].p, w));
    }
    assert_true(keys > 0);
    free(text);
}

static void a_file_is_made_once(void **state) {
    (void)state;
    struct cli c;
    assert_int_equal(key(&c, env_config, "show", NULL, NULL), 1);
    assert_non_null(strstr(c.text[1].p, "copy it from a host of the grid, or make the first with: moyai key new"));
    cli_free(&c);
    assert_int_equal(key(&c, env_config, "new", NULL, NULL), 0);
    assert_non_null(strstr(c.text[0].p, file));
    assert_int_equal(kit_count(&c.text[0], "offered"), 1);
    shows_no_secret(&c);
    cli_free(&c);
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    char *before = kit_read(file);
    assert_int_equal(key(&c, env_config, "new", NULL, NULL), 1);
    assert_non_null(strstr(c.text[1].p, "rotate"));
    assert_string_equal(c.text[0].p, "");
    cli_free(&c);
    assert_int_equal(key(&c, env_config, "new", "--json", NULL), 1);
    assert_non_null(strstr(c.text[1].p, "rotate"));
    assert_non_null(strstr(c.text[0].p, "{\"error\": [{\"code\": "));
    assert_non_null(strstr(c.text[0].p, " is there already: moyai key rotate"));
    cli_free(&c);
    char *after = kit_read(file);
    assert_string_equal(before, after);
    free(before);
    free(after);
    /* By variable and by option it is the same file. */
    assert_int_equal(key(&c, env_file, "show", NULL, NULL), 0);
    assert_int_equal(kit_count(&c.text[0], "offered"), 1);
    assert_string_equal(c.text[1].p, "");
    shows_no_secret(&c);
    cli_free(&c);
    assert_int_equal(key(&c, "A=b", "show", "--key-file", file), 0);
    assert_int_equal(kit_count(&c.text[0], "no end"), 1);
    cli_free(&c);
}

static void keys_are_rotated(void **state) {
    (void)state;
    struct cli c;
    assert_int_equal(key(&c, env_file, "rotate", NULL, NULL), 0);
    assert_int_equal(kit_count(&c.text[0], "offered"), 1);
    assert_int_equal(kit_count(&c.text[0], "accepted"), 1);
    assert_int_equal(kit_count(&c.text[0], "until 20"), 1);
    assert_non_null(strstr(c.text[1].p, "/key to the other hosts of the grid: who has not got it is shut out from 20"));
    shows_no_secret(&c);
    cli_free(&c);
    assert_int_equal(key(&c, env_file, "show", "--json", NULL), 0);
    assert_non_null(strstr(c.text[0].p, "\"state\": \"offered\", \"until\": null"));
    assert_non_null(strstr(c.text[0].p, "\"state\": \"accepted\", \"until\": \"20"));
    cli_free(&c);
    /* At once: the old ones are gone. */
    assert_int_equal(key(&c, env_file, "rotate", "--keep", "0"), 0);
    assert_int_equal(kit_count(&c.text[0], "offered"), 1);
    assert_int_equal(kit_count(&c.text[0], "accepted"), 0);
    assert_non_null(strstr(c.text[1].p, "the old keys have ended"));
    assert_non_null(strstr(c.text[1].p, "/key to the other hosts now"));
    shows_no_secret(&c);
    cli_free(&c);
}

static void a_bad_file_is_explained(void **state) {
    (void)state;
    struct cli c;
    assert_int_equal(chmod(file, 0644), 0);
    assert_int_equal(key(&c, env_file, "show", NULL, NULL), 1);
    assert_non_null(strstr(c.text[1].p, "chmod 600"));
    cli_free(&c);
    static const char *const actions[] = {"show", "rotate"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(key(&c, env_file, actions[i], "--json", NULL), 1);
        assert_non_null(strstr(c.text[0].p, "\"name\": \"MOYAI_EPERM\", \"text\": \""));
        cli_free(&c);
    }
    assert_int_equal(chmod(file, 0600), 0);
    FILE *f = fopen(file, "a");
    fprintf(f, "kee\n");
    fclose(f);
    assert_int_equal(key(&c, env_file, "rotate", NULL, NULL), 1);
    assert_non_null(strstr(c.text[1].p, "/moyai/key:5:"));
    cli_free(&c);
}

/* What is no key file stays as it is; a link is followed to the file that it names. */
static void odd_places_are_explained(void **state) {
    (void)state;
    struct cli c;
    struct stat st;
    char empty[220], away[220], real[220];
    snprintf(empty, sizeof empty, "%s/empty", dir);
    snprintf(away, sizeof away, "%s/link", dir);
    snprintf(real, sizeof real, "%s/real", dir);
    assert_int_equal(key(&c, "A=b", "new", "--key-file", dir), 1);
    assert_non_null(strstr(c.text[1].p, "is no file"));
    cli_free(&c);
    int fd = open(empty, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(key(&c, "A=b", "new", "--key-file", empty), 1);
    assert_non_null(strstr(c.text[1].p, "holds no key: remove it first"));
    cli_free(&c);
    assert_int_equal(key(&c, "A=b", "rotate", "--key-file", empty), 1);
    assert_non_null(
        strstr(c.text[1].p, "remove it, and copy it from a host of the grid, or make the first with: moyai key new"));
    cli_free(&c);
    assert_int_equal(key(&c, "A=b", "new", "--key-file", real), 0);
    cli_free(&c);
    assert_int_equal(symlink("real", away), 0);
    assert_int_equal(key(&c, "A=b", "rotate", "--key-file", away), 0);
    cli_free(&c);
    assert_int_equal(lstat(away, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(key(&c, "A=b", "show", "--key-file", real), 0);
    assert_int_equal(kit_count(&c.text[0], "accepted"), 1);
    cli_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_made_once),
        cmocka_unit_test(keys_are_rotated),
        cmocka_unit_test(a_bad_file_is_explained),
        cmocka_unit_test(odd_places_are_explained),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
