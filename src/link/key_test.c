/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and their file: what may stand in it, who may read it, how it changes. */
#include "link/key.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/moyai-key-XXXXXX";
static char path[128];

static int make_dir(void **state) {
    (void)state;
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof path, "%s/key", dir);
    return 0;
}

static int remove_dir(void **state) {
    (void)state;
    char command[160];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static void put(const char *text, mode_t mode) {
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void refused(const char *text, const char *part) {
    struct keyring r;
    struct moyai_error e = {0};
    assert_int_equal(keyring_parse(&r, text, strlen(text), "FILE", &e), MOYAI_EDATA);
    if (!strstr(e.text, part)) fail_msg("\"%s\" does not hold \"%s\"", e.text, part);
    assert_int_equal(r.n, 0);
}

/* A key whose derived values were computed by another program: python3's hmac, after RFC 5869. */
#define SECRET "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define ID     "815f103f0cdc636d"

static void keys_are_derived_by_purpose(void **state) {
    (void)state;
    struct keyring r;
    assert_int_equal(keyring_parse(&r, "key " ID " " SECRET, strlen("key " ID " " SECRET), "FILE", NULL), 0);
    assert_int_equal(r.n, 1);
    assert_string_equal(r.key[0].id, ID);
    uint8_t out[32],
        want[32] = {0x15, 0x8d, 0xab, 0xd0, 0x33, 0x81, 0x8a, 0xc0, 0x3c, 0x6e, 0x30, 0xc0, 0x3f, 0xcc, 0x3d, 0x9d,
                    0x70, 0x53, 0x60, 0x10, 0x36, 0x38, 0xc2, 0xa1, 0xc9, 0x5b, 0x09, 0x65, 0x66, 0x71, 0x31, 0x61};
    assert_int_equal(key_derive(&r.key[0], "moyai test", out, sizeof out), 0);
    assert_memory_equal(out, want, sizeof want);
    assert_int_equal(key_derive(&r.key[0], "moyai tess", out, sizeof out), 0);
    assert_memory_not_equal(out, want, sizeof want);
}

static void lines_are_read(void **state) {
    (void)state;
    struct key a, b;
    assert_int_equal(key_new(&a, NULL), 0);
    assert_int_equal(key_new(&b, NULL), 0);
    assert_string_not_equal(a.id, b.id);
    assert_memory_not_equal(a.secret, b.secret, KEY_SECRET);
    struct keyring out = {.n = 2, .key = {a, b}}, in;
    out.key[1].until = 1798761599;
    assert_int_equal(keyfile_write(&out, path, false, NULL), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(keyfile_read(&in, path, NULL), 0);
    assert_int_equal(in.n, 2);
    assert_memory_equal(in.key[0].secret, a.secret, KEY_SECRET);
    assert_string_equal(in.key[1].id, b.id);
    assert_true(in.key[0].until == INT64_MAX);
    assert_int_equal(in.key[1].until, 1798761599);
    /* Which is offered and which accepted, before and after the second one's end. */
    assert_ptr_equal(keyring_usable(&in, 0, 0), &in.key[0]);
    assert_ptr_equal(keyring_usable(&in, 1, 1798761598), &in.key[1]);
    assert_null(keyring_usable(&in, 1, 1798761599));
    assert_null(keyring_usable(&in, 2, 0));
    assert_ptr_equal(keyring_find(&in, b.id, 16, 0), &in.key[1]);
    assert_true(keyring_ended(&in, 0, 1798761599));
    assert_true(keyring_ended(&in, 1798761598, 1798761599));
    assert_false(keyring_ended(&in, 0, 1798761598));
    assert_false(keyring_ended(&in, 1798761599, INT64_MAX - 1));
    assert_null(keyring_find(&in, b.id, 16, 1798761599));
    assert_null(keyring_find(&in, b.id, 15, 0));
    assert_null(keyring_find(&in, "0000000000000000", 16, 0));
    keyring_wipe(&in);
    assert_int_equal(in.n, 0);
}

static void bad_lines_are_named(void **state) {
    (void)state;
    refused("", "holds no key");
    refused("# nothing\n\n", "moyai key new");
    refused("kei " ID " " SECRET, "FILE:1:");
    refused("\nkey " ID, "FILE:2:");
    refused("key " ID " " SECRET " until", "FILE:1:");
    refused("key " ID " " SECRET " since 2026-01-01", "FILE:1:");
    refused("key " ID " " SECRET " until 2026-13-01", "2026-13-01");
    refused("key " ID " " SECRET " until 2026-02-30", "2026-02-30");
    refused("key " ID " " SECRET " until 2026-02-03 x", "FILE:1:");
    refused("key 00 " SECRET, "16 hex digits");
    refused("key " ID " 00", "64 hex digits");
    refused("key " ID " 1" SECRET, "64 hex digits");
    refused("key " ID " g00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "64 hex digits");
    refused("key " ID " 100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "damaged");
    refused("key " ID " " SECRET "\nkey " ID " " SECRET, "second time");
    struct keyring r;
    struct moyai_error e = {0};
    assert_int_equal(keyring_parse(&r, "key\0", 4, "FILE", &e), MOYAI_EDATA);
    static char big[70000];
    memset(big, '#', sizeof big);
    assert_int_equal(keyring_parse(&r, big, sizeof big, "FILE", &e), MOYAI_EDATA);
    assert_non_null(strstr(e.text, "larger"));
    /* No text ever shows a secret. */
    const char *bad = "key " ID " 100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f until never";
    assert_int_equal(keyring_parse(&r, bad, strlen(bad), "FILE", &e), MOYAI_EDATA);
    assert_null(strstr(e.text, "100102"));
}

static void too_many_keys_are_refused(void **state) {
    (void)state;
    static struct keyring r, in;
    for (r.n = 0; r.n < KEYS_MOST; r.n++) assert_int_equal(key_new(&r.key[r.n], NULL), 0);
    assert_int_equal(keyfile_write(&r, path, false, NULL), 0);
    assert_int_equal(keyfile_read(&in, path, NULL), 0);
    assert_int_equal(in.n, KEYS_MOST);
    FILE *f = fopen(path, "a");
    fprintf(f, "key " ID " " SECRET "\n");
    fclose(f);
    struct moyai_error e = {0};
    assert_int_equal(keyfile_read(&in, path, &e), MOYAI_EDATA);
    assert_non_null(strstr(e.text, "more than 64 keys"));
}

static void times_are_utc(void **state) {
    (void)state;
    int64_t t;
    char text[32];
    for (int i = 0; i < 2; i++) {
        setenv("TZ", i ? "Asia/Tokyo" : "America/New_York", 1);
        assert_int_equal(key_parse_time("2026-12-31T23:59:59Z", &t), 0);
        assert_int_equal(t, 1798761599);
        key_format_time(t, text);
        assert_string_equal(text, "2026-12-31T23:59:59Z");
        assert_int_equal(key_parse_time("2027-01-01", &t), 0);
        assert_int_equal(t, 1798761600);
    }
    unsetenv("TZ");
    assert_int_equal(key_parse_time("tomorrow", &t), MOYAI_EINVAL);
    assert_int_equal(key_parse_time("2026-12-31T23:59:59", &t), MOYAI_EINVAL);
    key_format_time(INT64_MAX, text);
    assert_string_equal(text, "");
}

static void the_file_must_be_ones_own(void **state) {
    (void)state;
    struct keyring r;
    struct moyai_error e = {0};
    static const mode_t open_to_others[] = {0644, 0640, 0604, 0610, 0666};
    for (size_t i = 0; i < sizeof open_to_others / sizeof open_to_others[0]; i++) {
        put("key " ID " " SECRET "\n", open_to_others[i]);
        assert_int_equal(keyfile_read(&r, path, &e), MOYAI_EPERM);
        assert_non_null(strstr(e.text, "chmod 600"));
    }
    put("key " ID " " SECRET "\n", 0400);
    assert_int_equal(keyfile_read(&r, path, &e), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
        assert_int_equal(keyfile_read(&r, path, &e), MOYAI_EPERM);
        assert_non_null(strstr(e.text, "12345"));
    }
    assert_int_equal(keyfile_read(&r, dir, &e), MOYAI_EPERM);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* must not hang */
    assert_int_equal(keyfile_read(&r, path, &e), MOYAI_EPERM);
    unlink(path);
    assert_int_equal(keyfile_read(&r, path, &e), MOYAI_ENOENT);
    assert_non_null(strstr(e.text, "moyai key new"));
}

static void writing_keeps_what_is_there(void **state) {
    (void)state;
    struct keyring r = {.n = 1}, in;
    assert_int_equal(key_new(&r.key[0], NULL), 0);
    char deep[160];
    snprintf(deep, sizeof deep, "%s/a/b/key", dir);
    assert_int_equal(keyfile_write(&r, deep, true, NULL), 0);
    struct key first = r.key[0];
    assert_int_equal(key_new(&r.key[0], NULL), 0);
    struct moyai_error e = {0};
    assert_int_equal(keyfile_write(&r, deep, true, &e), MOYAI_EEXIST);
    assert_int_equal(keyfile_read(&in, deep, NULL), 0);
    assert_string_equal(in.key[0].id, first.id);
    assert_true(keyfile_write(&r, "/proc/moyai/key", false, &e) < 0);
    assert_non_null(strstr(e.text, "/proc/moyai"));
    /* No room for the new file: the old one stays. */
    struct rlimit none = {.rlim_cur = 100, .rlim_max = RLIM_INFINITY}, before;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    int rc = keyfile_write(&r, deep, false, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(rc < 0);
    assert_int_equal(keyfile_read(&in, deep, NULL), 0);
    assert_string_equal(in.key[0].id, first.id);
    snprintf(deep, sizeof deep, "%s/a/b", dir);
    char command[200];
    snprintf(command, sizeof command, "test \"$(ls %s)\" = key", deep);
    assert_int_equal(system(command), 0); /* nothing else is left */
}

static void where_it_is(void **state) {
    (void)state;
    char *p, *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    setenv("XDG_CONFIG_HOME", "/some/where", 1);
    setenv("HOME", "/home/x", 1);
    assert_int_equal(keyfile_path(&p, "key", NULL), 0);
    assert_string_equal(p, "key");
    free(p);
    assert_int_equal(keyfile_path(&p, NULL, NULL), 0);
    assert_string_equal(p, "/some/where/moyai/key");
    free(p);
    setenv("XDG_CONFIG_HOME", "relative", 1); /* to be ignored, says the specification */
    assert_int_equal(keyfile_path(&p, NULL, NULL), 0);
    assert_string_equal(p, "/home/x/.config/moyai/key");
    free(p);
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("HOME");
    struct moyai_error e = {0};
    int rc = keyfile_path(&p, NULL, &e);
    if (rc == 0) {
        assert_non_null(strstr(p, "/.config/moyai/key"));
        free(p);
    } else {
        assert_int_equal(rc, MOYAI_ENOENT);
    }
    if (home) setenv("HOME", home, 1);
    free(home);
}

static void changes_are_seen(void **state) {
    (void)state;
    struct keyring r = {.n = 1};
    assert_int_equal(key_new(&r.key[0], NULL), 0);
    assert_int_equal(keyfile_write(&r, path, false, NULL), 0);
    struct keyfile *f;
    struct moyai_error e = {0};
    assert_int_equal(keyfile_open(&f, path, &e), 0);
    assert_int_equal(keyfile_refresh(f, &e), 0);
    struct key old = r.key[0];
    assert_int_equal(key_new(&r.key[0], NULL), 0);
    assert_int_equal(keyfile_write(&r, path, false, NULL), 0);
    assert_int_equal(keyfile_refresh(f, &e), 1);
    assert_int_equal(keyfile_refresh(f, &e), 0);
    assert_string_equal(keyfile_keys(f)->key[0].id, r.key[0].id);
    assert_null(keyring_find(keyfile_keys(f), old.id, 16, 0));
    /* What is no good is told once, and the old keys stay. */
    put("nonsense\n", 0600);
    assert_int_equal(keyfile_refresh(f, &e), MOYAI_EDATA);
    assert_int_equal(keyfile_refresh(f, &e), 0);
    assert_int_equal(keyfile_keys(f)->n, 1);
    chmod(path, 0644);
    assert_int_equal(keyfile_refresh(f, &e), MOYAI_EPERM);
    assert_int_equal(keyfile_refresh(f, &e), 0);
    unlink(path);
    assert_int_equal(keyfile_refresh(f, &e), MOYAI_ENOENT);
    assert_int_equal(keyfile_refresh(f, &e), 0);
    assert_string_equal(keyfile_keys(f)->key[0].id, r.key[0].id);
    /* The same keys again are no change. */
    assert_int_equal(keyfile_write(&r, path, false, NULL), 0);
    assert_int_equal(keyfile_refresh(f, &e), 0);
    keyfile_close(f);
    keyfile_close(NULL);
    unlink(path);
    assert_int_equal(keyfile_open(&f, path, &e), MOYAI_ENOENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_derived_by_purpose),
        cmocka_unit_test(lines_are_read),
        cmocka_unit_test(bad_lines_are_named),
        cmocka_unit_test(too_many_keys_are_refused),
        cmocka_unit_test(times_are_utc),
        cmocka_unit_test(the_file_must_be_ones_own),
        cmocka_unit_test(writing_keeps_what_is_there),
        cmocka_unit_test(where_it_is),
        cmocka_unit_test(changes_are_seen),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
