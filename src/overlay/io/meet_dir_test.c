/* SPDX-License-Identifier: Apache-2.0 */
/* Members meet in a directory (meet_dir.c), also one in which others write what they like. */
#include "overlay/io/meet.h"

#include "base/id.h"
#include "link/seal.h"
#include "tests/support/fiber_assert.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], url[100], key_path[100];

/* What a node has heard. */
struct ear {
    struct exec *x;
    struct meet *m;
    struct keyfile *keys;
    atomic_bool stop;
    int done, asked, code, entries, counted;
    size_t foreign;
    char text[300], all[4000];
};

static void on_entry(void *ctx, const uint8_t *p, size_t n) {
    struct ear *e = ctx;
    size_t at = strlen(e->all);
    e->entries++;
    snprintf(e->all + at, sizeof e->all - at, "%.*s;", (int)n, (const char *)p);
}
static void on_asked(void *ctx, size_t place, const char *at, int code, enum met_what what, const char *text) {
    struct ear *e = ctx;
    (void)place, (void)at, (void)what;
    e->asked++;
    e->code = code;
    snprintf(e->text, sizeof e->text, "%s", text);
}
static void on_foreign(void *ctx, size_t place, const char *at, size_t n) {
    struct ear *e = ctx;
    (void)place, (void)at;
    e->foreign = n;
    e->counted++;
}
static void on_done(void *ctx) {
    struct ear *e = ctx;
    e->done++;
    atomic_store(&e->stop, true);
    exec_kick(e->x);
}
static const struct meet_ops ops = {.entry = on_entry, .asked = on_asked, .foreign = on_foreign, .done = on_done};

static void open_ear_of(struct ear *e, const char *at, bool looks) {
    memset(e, 0, sizeof *e);
    assert_int_equal(exec_new(&e->x, NULL, NULL), 0);
    assert_int_equal(keyfile_open(&e->keys, key_path, NULL), 0);
    exec_lock(e->x);
    assert_int_equal(meet_new(&e->m, e->x, e->keys, &at, 1, looks, &ops, e, NULL), 0);
}

static void open_ear(struct ear *e, const char *at) {
    open_ear_of(e, at, false);
}

static void close_ear(struct ear *e) {
    meet_free(e->m);
    exec_unlock(e->x);
    exec_free(e->x);
    keyfile_close(e->keys);
}

static void leave(struct ear *e, uint8_t who, const char *text, moyai_dur lifetime) {
    uint8_t id[16] = {who};
    assert_int_equal(meet_entry(e->m, id, (const uint8_t *)text, strlen(text), lifetime), 0);
}

static void look(struct ear *e) {
    e->entries = e->asked = e->done = 0;
    e->all[0] = 0;
    atomic_store(&e->stop, false);
    assert_int_equal(meet_look(e->m, NULL), 0);
    assert_int_equal(exec_serve(e->x, &e->stop, moyai_now() + 100 * MOYAI_SEC), 0);
    assert_int_equal(e->done, 1);
    assert_int_equal(e->asked, 1);
}

static void heard(const struct ear *e, int code, const char *const *texts, int n) {
    if (e->code != code) fail_msg("%d: %s", e->code, e->text);
    if (e->entries != n) fail_msg("heard %s", e->all);
    for (int i = 0; i < n; i++)
        if (!strstr(e->all, texts[i])) fail_msg("not heard: %s", texts[i]);
}
#define HEARD(e, ...) heard(e, 0, (const char *[]){__VA_ARGS__}, sizeof(const char *[]){__VA_ARGS__} / sizeof(char *))

static void path_of(const char *name, char path[256]) {
    snprintf(path, 256, "%s/grid/e/%s", dir, name);
}

/* A file of an id of equal digits. */
static void put(char digit, const void *p, size_t n) {
    char path[256], name[33] = "";
    memset(name, digit, 32);
    path_of(name, path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    fclose(f);
}

static bool there(const char *name) {
    char path[256];
    path_of(name, path);
    return access(path, F_OK) == 0;
}

/* All files have been written a day ago. */
static void age(void) {
    char path[256];
    path_of("", path);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        struct timespec t[2] = {{.tv_sec = time(NULL) - 86400}, {.tv_sec = time(NULL) - 86400}};
        assert_int_equal(utimensat(dirfd(d), e->d_name, t, AT_SYMLINK_NOFOLLOW), 0);
    }
    closedir(d);
}

static int run(const char *fmt, ...) MOYAI_PRINTF(1, 2);
static int run(const char *fmt, ...) {
    char command[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    return system(command);
}

static int set_up(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/moyai-meet-dir-%d", (int)getpid());
    snprintf(url, sizeof url, "file:%s/grid", dir);
    snprintf(key_path, sizeof key_path, "%s/key", dir);
    struct keyring r = {.n = 1};
    return mkdir(dir, 0700) | key_new(&r.key[0], NULL) | keyfile_write(&r, key_path, true, NULL);
}

static int tear_down(void **state) {
    (void)state;
    (void)run("umount %s/grid 2>/dev/null", dir);
    return run("chmod -R u+rwX %s; rm -rf %s", dir, dir);
}

static int empty(void **state) {
    (void)state;
    (void)run("umount %s/grid 2>/dev/null", dir);
    return run("rm -rf %s/grid", dir);
}

/* ---- tests ----------------------------------------------------------------------------------- */

#define LONG (600 * MOYAI_SEC)

static void members_meet(void **state) {
    (void)state;
    struct ear a, b;
    open_ear(&a, url);
    open_ear(&b, url);
    look(&a); /* the directory is made; nothing of its own to leave yet */
    heard(&a, 0, NULL, 0);
    leave(&a, 1, "I am a", LONG);
    look(&a);
    HEARD(&a, "I am a;");
    leave(&b, 2, "I am b", LONG);
    look(&b);
    HEARD(&b, "I am a;", "I am b;");
    leave(&a, 1, "I am a, elsewhere", LONG);
    look(&a);
    HEARD(&a, "I am a, elsewhere;", "I am b;");
    close_ear(&b); /* takes its entry back */
    look(&a);
    HEARD(&a, "I am a, elsewhere;");
    close_ear(&a);
    assert_false(there("01000000000000000000000000000000"));
    char path[256];
    path_of("", path);
    assert_int_equal(rmdir(path), 0); /* nothing else is left */
}

/* Without the key nothing is understood, and nothing is disturbed. */
static void strangers_do_not(void **state) {
    (void)state;
    struct ear a, b;
    struct keyring r = {.n = 1}, before;
    open_ear(&a, url);
    leave(&a, 1, "I am a", LONG);
    look(&a);
    assert_int_equal(keyfile_read(&before, key_path, NULL), 0);
    assert_int_equal(key_new(&r.key[0], NULL), 0);
    assert_int_equal(keyfile_write(&r, key_path, false, NULL), 0);
    open_ear(&b, url);
    leave(&b, 2, "I am b", LONG);
    look(&b);
    HEARD(&b, "I am b;");
    assert_int_equal(b.foreign, 1);
    assert_int_equal(b.counted, 1);
    look(&a);
    HEARD(&a, "I am a;");
    close_ear(&b);
    close_ear(&a);
    assert_int_equal(keyfile_write(&before, key_path, false, NULL), 0);
}

/* Nor does who has no key left, and he is told that this is why: what others wrote is not sealed with another key. */
static void whose_key_has_ended_is_told(void **state) {
    (void)state;
    struct ear a, b;
    struct keyring r, before;
    struct moyai_error why;
    open_ear(&a, url);
    leave(&a, 1, "I am a", LONG);
    look(&a);
    assert_int_equal(keyfile_read(&before, key_path, NULL), 0);
    r = before;
    r.key[0].until = (int64_t)time(NULL) + 1;
    assert_int_equal(keyfile_write(&r, key_path, false, NULL), 0);
    open_ear(&b, url);
    while (keyfile_usable(b.keys, NULL) == 0) usleep(20000);
    look(&b);
    heard(&b, MOYAI_EPERM, NULL, 0);
    assert_non_null(strstr(b.text, " has ended, by this host's clock: "));
    assert_int_equal(b.foreign, 0);
    close_ear(&b);
    close_ear(&a);
    struct keyfile *none;
    assert_int_equal(keyfile_open(&none, key_path, &why), MOYAI_EPERM);
    assert_non_null(strstr(why.text, key_path));
    assert_int_equal(keyfile_write(&before, key_path, false, NULL), 0);
}

/* Whatever others put there. */
static void what_is_no_entry_is_passed_over(void **state) {
    (void)state;
    struct ear a;
    static uint8_t huge[100000];
    char path[256], to[100];
    open_ear(&a, url);
    leave(&a, 1, "I am a", LONG);
    look(&a);
    put('a', "", 0);
    put('b', "garbage", 7);
    put('c', huge, sizeof huge);
    put('d', huge, 4096);
    path_of("11111111111111111111111111111111", path);
    assert_int_equal(mkdir(path, 0700), 0);
    path_of("22222222222222222222222222222222", path);
    assert_int_equal(mkfifo(path, 0600), 0);
    path_of("33333333333333333333333333333333", path);
    snprintf(to, sizeof to, "%s/key", dir);
    assert_int_equal(symlink(to, path), 0);
    path_of("44444444444444444444444444444444", path);
    assert_int_equal(symlink("/dev/zero", path), 0);
    path_of("README", path);
    assert_int_equal(symlink("/nonexistent", path), 0);
    look(&a);
    HEARD(&a, "I am a;");
    close_ear(&a);
    assert_true(there("bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"));
}

/* What the killed have left goes when it has expired, by the file server's clock; what lives, stays. */
static void old_entries_are_removed(void **state) {
    (void)state;
    struct ear a, b;
    open_ear(&a, url);
    open_ear(&b, url);
    leave(&a, 1, "I am a", LONG);
    leave(&b, 2, "I am b", LONG);
    look(&b);
    put('a', "garbage", 7);
    char path[256];
    path_of(".new-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", path);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    path_of("notes", path);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    age();
    struct ear c; /* has nothing to leave, so it cannot tell what is old */
    open_ear(&c, url);
    look(&c);
    HEARD(&c, "I am b;");
    close_ear(&c);
    look(&a);
    HEARD(&a, "I am a;");
    assert_false(there("02000000000000000000000000000000"));
    assert_false(there("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    assert_false(there(".new-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    assert_true(there("notes")); /* not ours */
    look(&b);                    /* it was not dead */
    HEARD(&b, "I am a;", "I am b;");
    close_ear(&b);
    close_ear(&a);
}

/* As many as are taken at once, out of more. */
static void a_sample_is_taken(void **state) {
    (void)state;
    enum { ALL = 300 };
    struct ear a;
    struct keyring r;
    char path[256], name[33];
    open_ear(&a, url);
    look(&a);
    assert_int_equal(keyfile_read(&r, key_path, NULL), 0);
    bool heard_of[ALL] = {false};
    for (int i = 0; i < ALL; i++) {
        char text[8];
        uint8_t sealed[8 + SEAL_MORE];
        int n = snprintf(text, sizeof text, "n%03d", i);
        assert_int_equal(seal(&r.key[0], SEAL_RENDEZVOUS, (uint8_t *)text, (size_t)n, sealed), 0);
        snprintf(name, sizeof name, "%032x", i);
        path_of(name, path);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fwrite(sealed, 1, (size_t)n + SEAL_MORE, f), (size_t)n + SEAL_MORE);
        fclose(f);
    }
    int all = 0;
    for (int looks = 0; all < ALL; looks++) {
        assert_true(looks < 100); /* each has passed over an entry with chance 0.57 */
        look(&a);
        assert_int_equal(a.entries, 128);
        for (const char *s = a.all; (s = strchr(s, 'n')); s++) {
            int i = atoi(s + 1);
            all += !heard_of[i];
            heard_of[i] = true;
        }
    }
    close_ear(&a);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    struct ear a;
    char at[120];
    snprintf(at, sizeof at, "file:%s/not/there", dir);
    open_ear(&a, at);
    leave(&a, 1, "I am a", LONG);
    look(&a);
    assert_true(a.code < 0);
    assert_non_null(strstr(a.text, "/not/there\""));
    char path[100];
    snprintf(path, sizeof path, "%s/not", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    look(&a); /* it was only not mounted yet */
    HEARD(&a, "I am a;");
    run("rm -rf %s/not/there", dir); /* it can be removed, too */
    look(&a);
    HEARD(&a, "I am a;");
    close_ear(&a);
    snprintf(at, sizeof at, "file:%s/key", dir);
    open_ear(&a, at);
    look(&a);
    assert_true(a.code < 0);
    assert_non_null(strstr(a.text, "/key\""));
    close_ear(&a);
    if (geteuid() != 0) { /* root may write anywhere */
        assert_int_equal(run("mkdir -p %s/grid/e && chmod 0500 %s/grid/e", dir, dir), 0);
        open_ear(&a, url);
        leave(&a, 1, "I am a", LONG);
        look(&a);
        assert_int_equal(a.code, MOYAI_EPERM);
        close_ear(&a);
    }
}

/* A disk that is full: the others are heard all the same. */
static void a_full_disk(void **state) {
    (void)state;
    struct ear a, b;
    char path[256];
    if (geteuid() != 0 ||
        run("mkdir %s/grid && mount -t tmpfs -o size=64k,mode=0700 none %s/grid 2>/dev/null", dir, dir) != 0)
        skip();
    open_ear(&a, url);
    open_ear(&b, url);
    leave(&a, 1, "I am a", LONG);
    look(&a);
    path_of("full", path);
    (void)run("cat /dev/zero >%s 2>/dev/null", path);
    leave(&b, 2, "I am b", LONG);
    look(&b);
    heard(&b, MOYAI_ENOSPC, (const char *[]){"I am a;"}, 1);
    assert_non_null(strstr(b.text, "/grid/e\""));
    assert_false(there(".new-02000000000000000000000000000000"));
    assert_int_equal(unlink(path), 0);
    look(&b);
    HEARD(&b, "I am a;", "I am b;");
    close_ear(&b);
    close_ear(&a);
    assert_int_equal(run("umount %s/grid", dir), 0);
}

/* A directory that several users may write to: so is what is made in it. */
static void modes_are_the_directory_s(void **state) {
    (void)state;
    struct ear a;
    struct stat st;
    char path[256];
    assert_int_equal(run("mkdir %s/grid && chmod 1777 %s/grid", dir, dir), 0);
    open_ear(&a, url);
    leave(&a, 1, "I am a", LONG);
    look(&a);
    path_of("", path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 01777);
    close_ear(&a);
}

/* Who only looks makes nothing, wherever that would be. */
static void who_looks_makes_nothing(void **state) {
    (void)state;
    struct ear a, b;
    char path[256];
    path_of("", path);
    open_ear_of(&a, url, true);
    look(&a);
    assert_true(a.code < 0);
    assert_non_null(strstr(a.text, "/grid\""));
    assert_int_equal(run("test ! -e %s/grid", dir), 0);
    assert_int_equal(run("mkdir %s/grid", dir), 0);
    look(&a);
    heard(&a, 0, NULL, 0);
    assert_int_equal(access(path, F_OK), -1);
    open_ear(&b, url);
    leave(&b, 2, "I am b", LONG);
    look(&b);
    look(&a);
    HEARD(&a, "I am b;");
    close_ear(&b);
    close_ear(&a);
}

int main(void) {
    alarm(300);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(members_meet, empty),
        cmocka_unit_test_setup(strangers_do_not, empty),
        cmocka_unit_test_setup(whose_key_has_ended_is_told, empty),
        cmocka_unit_test_setup(what_is_no_entry_is_passed_over, empty),
        cmocka_unit_test_setup(old_entries_are_removed, empty),
        cmocka_unit_test_setup(a_sample_is_taken, empty),
        cmocka_unit_test_setup(what_is_wrong_is_said, empty),
        cmocka_unit_test_setup(a_full_disk, empty),
        cmocka_unit_test_setup(modes_are_the_directory_s, empty),
        cmocka_unit_test_setup(who_looks_makes_nothing, empty),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
