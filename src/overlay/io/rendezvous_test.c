/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/rendezvous_testkit.h"

#include "exec/exec.h"
#include "link/rundir.h"

#include <sched.h>
#include <time.h>

#define LIMIT (60 * MOYAI_SEC) /* until a wait counts as hung */

/* ---- the directory --------------------------------------------------------------------------- */

static void opens_and_makes(void **state) {
    struct fix *f = *state;
    struct stat st;
    char path[400];
    static const char *subs[] = {"", "n", "m", "t", "w"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(stat(in(f, subs[i], "", path), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
    }
    assert_string_equal(rdv_path(f->r), f->dir);
    char url[80];
    snprintf(url, sizeof url, "file://%s//", f->dir);
    struct rdv *again = open_ok(url);
    assert_string_equal(rdv_path(again), f->dir);
    rdv_close(again);
    rdv_close(NULL);
}

static void refuses_other_addresses(void **state) {
    (void)state;
    static const char *urls[] = {
        "",           "file:",       "file:relative", "file://host/dir", "http://127.0.0.1:1/grid",
        "/tmp/plain", "FILE:/tmp/x", "file:////x",    "fd:3,4"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct rdv *r = (struct rdv *)1;
        struct moyai_error e = {0};
        assert_int_equal(rdv_open(&r, urls[i], &e), MOYAI_EINVAL);
        assert_ptr_equal(r, (struct rdv *)1);
        assert_non_null(strstr(e.text, urls[i]));
    }
}

static void refused(const struct fix *f, int code, const char *word) {
    struct rdv *r;
    struct moyai_error e = {0};
    assert_int_equal(rdv_open(&r, f->url, &e), code);
    if (!strstr(e.text, word)) fail_msg("'%s' is not in '%s'", word, e.text);
}

static void keeps_the_rules(void **state) {
    struct fix *f = *state;
    char path[400], aside[400];
    assert_int_equal(chmod(f->dir, 0750), 0);
    refused(f, MOYAI_EPERM, "of mode 0700");
    assert_int_equal(chmod(f->dir, 0700), 0);
    assert_int_equal(chmod(in(f, "m", "", path), 0755), 0);
    refused(f, MOYAI_EPERM, "grid/m' is open to others");
    assert_int_equal(chmod(path, 0700), 0);
    in(f, "n", "", path);
    path[strlen(path) - 1] = 0;
    in(f, "aside", "", aside);
    aside[strlen(aside) - 1] = 0;
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(symlink(aside, path), 0);
    refused(f, MOYAI_EPERM, "grid/n' is a symbolic link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(aside, path), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(f->dir, 1, 1), 0);
        refused(f, MOYAI_EPERM, "belongs to uid 1");
        assert_int_equal(chown(f->dir, 0, 0), 0);
    }
    strcat(f->url, "/a/b");
    refused(f, MOYAI_ESYS, "parent");
}

static void sweeps_what_the_killed_left(void **state) {
    struct fix *f = *state;
    char path[400];
    put_file(f, "t", "00112233445566778899aabbccddeeff", "x", 1);
    put_file(f, "t", "ff112233445566778899aabbccddeeff", "x", 1);
    struct timespec old[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    assert_int_equal(utimensat(AT_FDCWD, in(f, "t", "00112233445566778899aabbccddeeff", path), old, 0), 0);
    rdv_close(open_ok(f->url));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(files(f, "t"), 1); /* the young one may be in the making */
}

/* Each call says that the directory is gone, and none crashes. */
static void a_removed_directory_is_told(void **state) {
    struct fix *f = *state;
    struct rdv_node n = node_entry(1);
    struct moyai_error e = {0};
    assert_int_equal(rdv_put_node(f->r, &n, NULL), 0);
    assert_int_equal(put_name(f->r, "a", 1, 1, NULL, NULL, NULL), 0);
    remove_all(f->dir);
    assert_int_equal(rdv_put_node(f->r, &n, &e), MOYAI_ECLOSED);
    if (!strstr(e.text, f->dir) || !strstr(e.text, "removed")) fail_msg("%s", e.text);
    assert_int_equal(rdv_get_node(f->r, &n.id, &n, &e), MOYAI_ECLOSED);
    assert_int_equal(rdv_nodes(f->r, NULL, NULL, &e), MOYAI_ECLOSED);
    assert_int_equal(put_name(f->r, "b", 1, 1, NULL, NULL, &e), MOYAI_ECLOSED);
    assert_int_equal(get_name(f->r, "a", NULL, NULL, &e), MOYAI_ECLOSED);
    assert_int_equal(del_name(f->r, "a", 1, 1), MOYAI_ECLOSED);
    assert_int_equal(rdv_forget_node(f->r, &n.id, NULL, &e), MOYAI_ECLOSED);
    assert_int_equal(rdv_del_node(f->r, &n.id, &e), MOYAI_ECLOSED);
    assert_int_equal(rdv_watch(f->r, NULL, true, NULL, NULL, &e), MOYAI_ECLOSED);
    /* A new one in its place is another one. */
    struct rdv *again = open_ok(f->url);
    assert_int_equal(get_name(f->r, "a", NULL, NULL, &e), MOYAI_ECLOSED);
    assert_int_equal(get_name(again, "a", NULL, NULL, &e), MOYAI_ENOENT);
    rdv_close(again);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

struct seen {
    int good, bad;
    unsigned sum;
    int stop_after;
    char texts[4096];
};

static bool see(const struct rdv_node *node, const struct moyai_error *bad, void *ctx) {
    struct seen *s = ctx;
    assert_true((node == NULL) != (bad == NULL));
    if (node) {
        s->good++;
        s->sum += node->id.b[2];
    } else {
        s->bad++;
        strncat(s->texts, bad->text, sizeof s->texts - strlen(s->texts) - 2);
        strcat(s->texts, "\n");
    }
    return s->good + s->bad != s->stop_after;
}

static void nodes_come_and_go(void **state) {
    struct fix *f = *state;
    struct seen s = {0};
    struct moyai_error e = {0};
    assert_int_equal(rdv_nodes(f->r, see, &s, &e), 0);
    assert_int_equal(s.good + s.bad, 0);

    struct rdv_node n = node_entry(7), back, other = node_entry(8);
    assert_int_equal(rdv_get_node(f->r, &n.id, &back, &e), MOYAI_ENOENT);
    assert_int_equal(rdv_put_node(f->r, &n, &e), 0);
    assert_int_equal(rdv_get_node(f->r, &n.id, &back, &e), 0);
    assert_memory_equal(&back.id, &n.id, sizeof n.id);
    assert_memory_equal(back.host, n.host, sizeof n.host);
    assert_int_equal(back.pid, getpid());
    assert_int_equal(back.started, n.started);
    assert_string_equal(back.run_dir, "/run/nowhere");
    assert_string_equal(back.title, "test");
    strcpy(n.title, "another title"); /* replaced */
    assert_int_equal(rdv_put_node(f->r, &n, &e), 0);
    assert_int_equal(rdv_get_node(f->r, &n.id, &back, &e), 0);
    assert_string_equal(back.title, "another title");
    assert_int_equal(files(f, "n"), 1);
    assert_int_equal(files(f, "t"), 0);
    assert_int_equal(rdv_put_node(f->r, &other, &e), MOYAI_ESTATE);

    struct rdv *r2 = open_ok(f->url);
    assert_int_equal(rdv_put_node(r2, &other, &e), 0);
    assert_int_equal(rdv_nodes(f->r, see, &s, &e), 0);
    assert_int_equal(s.good, 2);
    assert_int_equal(s.sum, 15);
    s = (struct seen){.stop_after = 1};
    assert_int_equal(rdv_nodes(f->r, see, &s, &e), 0);
    assert_int_equal(s.good, 1);
    rdv_close(r2); /* takes its entry along */
    assert_int_equal(rdv_get_node(f->r, &other.id, &back, &e), MOYAI_ENOENT);
    assert_int_equal(rdv_del_node(f->r, &n.id, &e), 0);
    assert_int_equal(rdv_del_node(f->r, &n.id, &e), MOYAI_ENOENT);
    assert_int_equal(rdv_put_node(f->r, &other, &e), 0); /* now it may be another one */
}

static void bad_node_entries_do_not_stop_others(void **state) {
    struct fix *f = *state;
    struct moyai_error e = {0};
    struct rdv_node n = node_entry(7);
    assert_int_equal(rdv_put_node(f->r, &n, &e), 0);
    char path[400], text[ENTRY_MAX], good[400];
    static const char *ids[] = {"000000000000000000000000000000a0", "000000000000000000000000000000a1",
                                "000000000000000000000000000000a2", "000000000000000000000000000000a3",
                                "000000000000000000000000000000a4", "000000000000000000000000000000a5",
                                "000000000000000000000000000000a6", "000000000000000000000000000000a7"};
    int len = entry_encode_node(&n, text, &e);
    assert_true(len > 0);
    put_file(f, "n", ids[0], "", 0);
    put_file(f, "n", ids[1], "garbage\n", 8);
    put_file(f, "n", ids[2], text, (size_t)len - 3); /* half */
    put_file(f, "n", ids[3], text, (size_t)len);     /* another node's */
    static const char big[100000];
    put_file(f, "n", ids[4], big, sizeof big);
    assert_int_equal(mkdir(in(f, "n", ids[5], path), 0700), 0);
    assert_int_equal(mkfifo(in(f, "n", ids[6], path), 0600), 0);
    char hex[33];
    id_format(n.id.b, hex);
    assert_int_equal(symlink(in(f, "n", hex, good), in(f, "n", ids[7], path)), 0);
    put_file(f, "n", "README", text, (size_t)len);
    int bad = 9;
    if (geteuid() != 0) {
        put_file(f, "n", "000000000000000000000000000000a8", text, (size_t)len);
        assert_int_equal(chmod(in(f, "n", "000000000000000000000000000000a8", path), 0), 0);
        bad++;
    }
    struct seen s = {0};
    assert_int_equal(rdv_nodes(f->r, see, &s, &e), 0);
    assert_int_equal(s.good, 1);
    assert_int_equal(s.bad, bad);
    for (int i = 0; i < 8; i++)
        if (!strstr(s.texts, ids[i])) fail_msg("%s is not in: %s", ids[i], s.texts);
    assert_non_null(strstr(s.texts, "README' is not named after a node"));
    assert_non_null(strstr(s.texts, "is that of another node"));
    assert_non_null(strstr(s.texts, "is not a regular file"));
    assert_non_null(strstr(s.texts, "too long"));
    struct moyai_node_id id;
    assert_true(id_parse(ids[1], 32, id.b));
    assert_int_equal(rdv_get_node(f->r, &id, &n, &e), MOYAI_EDATA);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void names_come_and_go(void **state) {
    struct fix *f = *state;
    struct moyai_error e = {0};
    assert_int_equal(get_name(f->r, "master", NULL, NULL, &e), MOYAI_ENOENT);
    assert_non_null(strstr(e.text, "master"));
    e = (struct moyai_error){0};
    assert_int_equal(put_name(f->r, "master", 1, 1, NULL, NULL, &e), 0);
    assert_int_equal(e.code, 0);                                         /* touched on failure only */
    assert_int_equal(put_name(f->r, "master", 1, 1, NULL, NULL, &e), 0); /* the same again */
    assert_int_equal(e.code, 0);
    assert_int_equal(get_name(f->r, "master", NULL, NULL, &e), 1);
    assert_int_equal(put_name(f->r, "master", 2, 1, NULL, NULL, &e), MOYAI_EEXIST); /* another object */
    char hex[33], want[100];
    struct moyai_node_id n = node_id(1);
    id_format(n.b, hex);
    snprintf(want, sizeof want, "the name \"master\" belongs to an object of node %.8s", hex);
    assert_string_equal(e.text, want); /* whose entry is not there */
    assert_int_equal(del_name(f->r, "master", 2, 1), MOYAI_ENOENT);
    assert_int_equal(del_name(f->r, "master", 1, 2), MOYAI_ENOENT);
    assert_int_equal(put_name(f->r, "master", 1, 2, NULL, NULL, &e), 0); /* the object has moved */
    assert_int_equal(del_name(f->r, "master", 1, 1), MOYAI_ENOENT);
    assert_int_equal(put_name(f->r, "master", 2, 2, NULL, NULL, &e), MOYAI_EEXIST);
    assert_int_equal(put_name(f->r, "master", 1, 1, NULL, NULL, &e), 0); /* and back */
    assert_int_equal(del_name(f->r, "master", 1, 2), MOYAI_ENOENT);
    assert_int_equal(get_name(f->r, "master", NULL, NULL, &e), 1);
    assert_int_equal(del_name(f->r, "master", 1, 1), 0);
    assert_int_equal(del_name(f->r, "master", 1, 1), MOYAI_ENOENT);
    assert_int_equal(get_name(f->r, "master", NULL, NULL, &e), MOYAI_ENOENT);
    assert_int_equal(put_name(f->r, "master", 2, 2, NULL, NULL, &e), 0);
    assert_int_equal(files(f, "m"), 1);
    assert_int_equal(files(f, "t"), 0);
}

static void any_text_is_a_name(void **state) {
    struct fix *f = *state;
    struct moyai_error e = {0};
    char longest[ENTRY_NAME_MAX + 2], hashed[ENTRY_NAME_MAX + 1], hashed2[ENTRY_NAME_MAX + 1];
    memset(longest, 'x', sizeof longest);
    longest[ENTRY_NAME_MAX] = 0;
    memset(hashed, ' ', sizeof hashed);
    hashed[ENTRY_NAME_MAX] = 0;
    strcpy(hashed2, hashed);
    hashed2[ENTRY_NAME_MAX - 1] = '!';
    const char *names[] = {".", "..",    "a/b", "../n/x", "100%", "%2F",   "/",    "\n",   "\xc3\xa9",
                           " ", "a\x01", "-",   "A",      "a",    longest, hashed, hashed2};
    const unsigned n = sizeof names / sizeof *names;
    for (unsigned i = 0; i < n; i++)
        if (put_name(f->r, names[i], 100 + i, 1, NULL, NULL, &e) < 0) fail_msg("'%s': %s", names[i], e.text);
    for (unsigned i = 0; i < n; i++) assert_int_equal(get_name(f->r, names[i], NULL, NULL, &e), 100 + i);
    assert_int_equal(files(f, "m"), n);
    for (unsigned i = 0; i < n; i++) assert_int_equal(del_name(f->r, names[i], 100 + i, 1), 0);
    assert_int_equal(files(f, "m"), 0);

    longest[ENTRY_NAME_MAX] = 'x';
    longest[ENTRY_NAME_MAX + 1] = 0;
    const char *bad[] = {"", longest, "\xff", "a\xc3"};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(put_name(f->r, bad[i], 1, 1, NULL, NULL, &e), MOYAI_EINVAL);
        assert_int_equal(get_name(f->r, bad[i], NULL, NULL, &e), MOYAI_EINVAL);
        assert_int_equal(del_name(f->r, bad[i], 1, 1), MOYAI_EINVAL);
    }
}

static void the_dead_lose_their_names(void **state) {
    struct fix *f = *state;
    struct moyai_error e = {0};
    struct rdv *r2 = open_ok(f->url);
    unsigned dead = 2;
    assert_int_equal(put_name(r2, "a", 20, 2, NULL, NULL, &e), 0);
    assert_int_equal(put_name(r2, "b", 21, 2, NULL, NULL, &e), 0);
    assert_int_equal(put_name(r2, "c", 30, 3, NULL, NULL, &e), 0);
    rdv_abandon(r2);
    /* The living keep theirs. */
    assert_int_equal(put_name(f->r, "c", 10, 1, is_dead, &dead, &e), MOYAI_EEXIST);
    assert_int_equal(get_name(f->r, "c", is_dead, &dead, &e), 30);
    assert_int_equal(put_name(f->r, "a", 10, 1, NULL, NULL, &e), MOYAI_EEXIST);
    assert_int_equal(get_name(f->r, "a", NULL, NULL, &e), 20);
    /* Replaced. */
    assert_int_equal(put_name(f->r, "a", 10, 1, is_dead, &dead, &e), 0);
    assert_int_equal(get_name(f->r, "a", is_dead, &dead, &e), 10);
    /* Removed on the way. */
    assert_int_equal(get_name(f->r, "b", is_dead, &dead, &e), MOYAI_ENOENT);
    assert_non_null(strstr(e.text, "dead"));
    assert_int_equal(files(f, "m"), 2);
    assert_int_equal(files(f, "t"), 0);
    /* Nobody asks whether this process's own node is dead. */
    struct rdv_node n = node_entry(1);
    assert_int_equal(rdv_put_node(f->r, &n, &e), 0);
    assert_int_equal(get_name(f->r, "a", all_dead, NULL, &e), 10);
    assert_int_equal(put_name(f->r, "a", 11, 1, all_dead, NULL, &e), MOYAI_EEXIST);
}

static void bad_name_entries_are_told_and_kept(void **state) {
    struct fix *f = *state;
    struct moyai_error e = {0};
    char path[400], text[ENTRY_MAX];
    struct rdv_name x = {.name = "other", .object = object_id(1), .node = node_id(1)};
    int len = entry_encode_name(&x, text, &e);
    assert_true(len > 0);
    put_file(f, "m", "garbage", "garbage", 7);
    put_file(f, "m", "empty", "", 0);
    put_file(f, "m", "half", text, (size_t)len / 2);
    put_file(f, "m", "moved", text, (size_t)len);
    put_file(f, "m", "new", "moyai name 2\n", 13);
    assert_int_equal(mkdir(in(f, "m", "folder", path), 0700), 0);
    assert_int_equal(mkfifo(in(f, "m", "pipe", path), 0600), 0);
    assert_int_equal(symlink("/etc/passwd", in(f, "m", "link", path)), 0);
    assert_int_equal(symlink("/nonexistent", in(f, "m", "dangling", path)), 0);
    static const char *names[] = {"garbage", "empty", "half", "moved", "folder", "pipe", "link", "dangling", "new"};
    for (int i = 0; i < 9; i++) {
        int code = i == 8 ? MOYAI_EVERSION : MOYAI_EDATA;
        assert_int_equal(get_name(f->r, names[i], all_dead, NULL, &e), code);
        assert_non_null(strstr(e.text, in(f, "m", names[i], path)));
        assert_int_equal(strstr(e.text, ": remove it") != NULL, code == MOYAI_EDATA);
        assert_int_equal(put_name(f->r, names[i], 1, 1, all_dead, NULL, &e), code);
        assert_non_null(strstr(e.text, path));
        assert_int_equal(del_name(f->r, names[i], 1, 1), code);
        struct stat st;
        assert_int_equal(lstat(path, &st), 0); /* nobody removed what he does not understand */
    }
    assert_int_equal(files(f, "t"), 0);
    if (geteuid() != 0) {
        put_file(f, "m", "shut", text, (size_t)len);
        assert_int_equal(chmod(in(f, "m", "shut", path), 0), 0);
        assert_int_equal(get_name(f->r, "shut", NULL, NULL, &e), MOYAI_EPERM);
    }
    struct rdv_node n = node_entry(1);
    assert_int_equal(rdv_put_node(f->r, &n, &e), 0);
    assert_int_equal(rdv_forget_node(f->r, &n.id, NULL, &e), 0); /* passes over them */
    assert_int_equal(files(f, "m"), 9 + (geteuid() != 0));
}

/* ---- the end of a node ----------------------------------------------------------------------- */

static void closing_takes_all_along(void **state) {
    struct fix *f = *state;
    struct rdv *r = open_ok(f->url);
    struct rdv_node n = node_entry(5);
    unsigned dead = 5;
    assert_int_equal(rdv_put_node(r, &n, NULL), 0);
    assert_int_equal(put_name(r, "mine", 50, 5, NULL, NULL, NULL), 0);
    assert_int_equal(put_name(r, "gone", 51, 5, NULL, NULL, NULL), 0);
    assert_int_equal(put_name(r, "lost", 52, 5, NULL, NULL, NULL), 0);
    assert_int_equal(del_name(r, "gone", 51, 5), 0);
    assert_int_equal(put_name(f->r, "gone", 1, 1, NULL, NULL, NULL), 0);
    assert_int_equal(put_name(f->r, "lost", 1, 1, is_dead, &dead, NULL), 0); /* a false belief */
    assert_int_equal(files(f, "m"), 3);
    rdv_close(r);
    assert_int_equal(files(f, "m"), 2);
    assert_int_equal(files(f, "n"), 0);
    assert_int_equal(get_name(f->r, "gone", NULL, NULL, NULL), 1);
    assert_int_equal(get_name(f->r, "lost", NULL, NULL, NULL), 1);
}

static void a_killed_node_is_forgotten(void **state) {
    struct fix *f = *state;
    char run[64];
    struct moyai_error e = {0};
    snprintf(run, sizeof run, "%s/run", f->base);
    struct rundir *d;
    assert_int_equal(rundir_open(&d, run, &e), 0);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = start();
    if (pid == 0) {
        struct rdv *r;
        struct rdv_node n = node_entry(6);
        int l;
        if (rundir_listen(d, &n.id, &l, NULL) < 0 || rdv_open(&r, f->url, NULL) < 0 || rdv_put_node(r, &n, NULL) < 0 ||
            put_name(r, "a", 60, 6, NULL, NULL, NULL) < 0 || put_name(r, "b", 61, 6, NULL, NULL, NULL) < 0)
            _exit(1);
        (void)!write(ready[1], "x", 1);
        for (;;) pause();
    }
    char x;
    assert_int_equal(read(ready[0], &x, 1), 1);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(put_name(f->r, "c", 10, 1, NULL, NULL, NULL), 0);
    struct moyai_node_id id = node_id(6);
    assert_false(rundir_is_dead(d, &id));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(rundir_is_dead(d, &id));
    assert_int_equal(files(f, "m"), 3);
    assert_int_equal(rdv_forget_node(f->r, &id, d, &e), 0);
    assert_int_equal(files(f, "m"), 1);
    assert_int_equal(files(f, "n"), 0);
    char hex[33], path[100];
    id_format(id.b, hex);
    snprintf(path, sizeof path, "%s/%.16s", run, hex);
    struct stat st;
    assert_int_equal(lstat(path, &st), -1);
    e = (struct moyai_error){0};
    assert_int_equal(rdv_forget_node(f->r, &id, d, &e), 0); /* again: nothing to do */
    assert_int_equal(e.code, 0);
    rundir_close(d);
}

/* ---- watching -------------------------------------------------------------------------------- */

struct waiter {
    struct exec *x;
    struct rdv *r;
    atomic_bool stop;
    int found;
};

static void look_up(void *arg) {
    struct waiter *w = arg;
    w->found = get_name(w->r, "late", NULL, NULL, NULL);
    if (w->found == MOYAI_ENOENT) return;
    rdv_unwatch(w->r); /* allowed in the call */
    atomic_store(&w->stop, true);
    exec_kick(w->x);
}

static void a_look_up_waits(void **state, bool poll) {
    struct fix *f = *state;
    struct waiter w = {.r = f->r};
    struct moyai_error e = {0};
    pid_t pid = start();
    if (pid == 0) {
        /* Registers once the parent has said that it waits. */
        struct rdv *r;
        char path[400];
        if (rdv_open(&r, f->url, NULL) < 0) _exit(1);
        in(f, "m", "waiting", path);
        while (access(path, F_OK) < 0) sched_yield();
        int rc = put_name(r, "late", 77, 7, NULL, NULL, NULL);
        rdv_abandon(r);
        _exit(rc < 0);
    }
    assert_int_equal(exec_new(&w.x, NULL, &e), 0);
    exec_lock(w.x);
    rdv_poll_only(f->r, poll);
    assert_int_equal(rdv_watch(f->r, w.x, true, look_up, &w, &e), 0);
    assert_int_equal(rdv_watch(f->r, w.x, true, look_up, &w, &e), MOYAI_ESTATE);
    assert_int_equal(get_name(f->r, "late", NULL, NULL, &e), MOYAI_ENOENT);
    assert_int_equal(put_name(f->r, "waiting", 1, 1, NULL, NULL, &e), 0);
    (void)exec_serve(w.x, &w.stop, moyai_now() + (moyai_ns)LIMIT);
    assert_int_equal(w.found, 77);
    rdv_unwatch(f->r);
    assert_int_equal(rdv_watch(f->r, w.x, true, look_up, &w, &e), 0); /* again; ended by closing */
    assert_int_equal(exit_of(pid), 0);
    rdv_close(f->r);
    f->r = NULL;
    exec_unlock(w.x);
    exec_free(w.x);
}

static void a_look_up_waits_by_inotify(void **state) {
    a_look_up_waits(state, false);
}

static void a_look_up_waits_by_looking(void **state) {
    a_look_up_waits(state, true);
}

struct awaiting {
    struct rdv *r;
    struct await *await;
    int told;
};

static void on_awaited(void *arg) {
    struct awaiting *a = arg;
    a->told++;
    rdv_await_free(a->await); /* allowed in the call */
    a->await = NULL;
}

#define SOON(x, cond)                                                                                                  \
    do {                                                                                                               \
        moyai_ns limit_ = moyai_now() + (moyai_ns)LIMIT;                                                               \
        while (!(cond)) {                                                                                              \
            if (moyai_now() > limit_) fail_msg("has not come true: %s", #cond);                                        \
            run_for(x, MOYAI_MS);                                                                                      \
        }                                                                                                              \
    } while (0)

static void run_for(struct exec *x, moyai_dur d) {
    atomic_bool stop = false;
    (void)exec_serve(x, &stop, moyai_now() + (moyai_ns)d);
}

/* Who waits for a name hears of that one only, whoever else waits, stops waiting, or was killed when it waited. */
static void a_name_is_awaited(void **state) {
    struct fix *f = *state;
    struct exec *x;
    struct awaiting a[4] = {{.r = f->r}, {.r = f->r}, {.r = f->r}, {.r = f->r}};
    const char *names[4] = {"late", "late", "late", "never"};
    char name[40], path[400];
    assert_int_equal(exec_new(&x, NULL, NULL), 0);
    exec_lock(x);
    for (int i = 0; i < 4; i++) assert_true(rdv_await(f->r, x, names[i], on_awaited, &a[i], &a[i].await));
    assert_int_equal(files(f, "w"), 2);
    for (unsigned i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "other-%u", i);
        assert_int_equal(put_name(f->r, name, i + 1, 1, NULL, NULL, NULL), 0);
    }
    run_for(x, 50 * MOYAI_MS);
    rdv_await_free(a[1].await);
    assert_int_equal(files(f, "w"), 2);
    for (int i = 0; i < 4; i++) assert_int_equal(a[i].told, 0);
    assert_int_equal(put_name(f->r, "late", 77, 7, NULL, NULL, NULL), 0);
    SOON(x, a[0].told && a[2].told);
    assert_int_equal(files(f, "w"), 1);
    rdv_await_free(a[3].await);
    assert_int_equal(files(f, "w"), 0);
    run_for(x, 20 * MOYAI_MS);
    assert_true(a[0].told == 1 && a[1].told == 0 && a[2].told == 1 && a[3].told == 0);

    /* Left by one that was killed: it serves the next who waits, and goes with it or with the name. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mkfifo(in(f, "w", "heritage", path), 0600), 0);
        assert_true(rdv_await(f->r, x, "heritage", on_awaited, &a[0], &a[0].await));
        if (i == 0) {
            rdv_await_free(a[0].await);
        } else {
            assert_int_equal(put_name(f->r, "heritage", 9, 1, NULL, NULL, NULL), 0);
            SOON(x, a[0].told == 2);
        }
        assert_int_equal(files(f, "w"), 0);
    }
    assert_int_equal(mkfifo(in(f, "w", "heir", path), 0600), 0);
    assert_int_equal(put_name(f->r, "heir", 10, 1, NULL, NULL, NULL), 0);
    assert_int_equal(files(f, "w"), 0);
    put_file(f, "w", "nonsense", "x", 1); /* no pipe: looked at instead */
    assert_false(rdv_await(f->r, x, "nonsense", on_awaited, &a[0], &a[0].await));
    rdv_poll_only(f->r, true);
    assert_false(rdv_await(f->r, x, "polled", on_awaited, &a[0], &a[0].await));
    exec_unlock(x);
    exec_free(x);
}

int main(void) {
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(opens_and_makes),
        T(refuses_other_addresses),
        T(keeps_the_rules),
        T(sweeps_what_the_killed_left),
        T(a_removed_directory_is_told),
        T(nodes_come_and_go),
        T(bad_node_entries_do_not_stop_others),
        T(names_come_and_go),
        T(any_text_is_a_name),
        T(the_dead_lose_their_names),
        T(bad_name_entries_are_told_and_kept),
        T(closing_takes_all_along),
        T(a_killed_node_is_forgotten),
        T(a_look_up_waits_by_inotify),
        T(a_look_up_waits_by_looking),
        T(a_name_is_awaited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
