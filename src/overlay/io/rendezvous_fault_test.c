/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous when several use it at once, when one of them is stopped, and when the disk is full. */
#include "overlay/io/rendezvous_testkit.h"

#include <errno.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>

/* ---- many at once ---------------------------------------------------------------------------- */

#define RACERS 16
#define ROUNDS 10

/* RACERS processes do fn at once; how many of them said 0? All others must have said `other`. */
static int race(struct fix *f, int round, int (*fn)(struct rdv *r, int round, unsigned k), int other) {
    int go[2], won = 0;
    assert_int_equal(pipe(go), 0);
    pid_t pids[RACERS];
    for (unsigned k = 0; k < RACERS; k++) {
        pids[k] = start();
        if (pids[k] == 0) {
            char c;
            struct rdv *r;
            close(go[1]);
            if (rdv_open(&r, f->url, NULL) < 0) _exit(255);
            (void)!read(go[0], &c, 1); /* until all are there */
            int rc = fn(r, round, k);
            rdv_abandon(r);
            _exit(-rc);
        }
    }
    close(go[0]);
    close(go[1]);
    for (unsigned k = 0; k < RACERS; k++) {
        int code = -exit_of(pids[k]);
        if (code == 0)
            won++;
        else
            assert_int_equal(code, other);
    }
    return won;
}

static int take_name(struct rdv *r, int round, unsigned k) {
    char name[20];
    snprintf(name, sizeof name, "name %d", round);
    int rc;
    unsigned dead = 9999;
    do {
        rc = put_name(r, name, k + 1, k + 1, is_dead, &dead, NULL);
    } while (rc == MOYAI_EAGAIN);
    if (rc == 0 && get_name(r, name, is_dead, &dead, NULL) != (int)k + 1) return MOYAI_EINTERNAL;
    return rc;
}

static void one_of_many_gets_a_free_name(void **state) {
    struct fix *f = *state;
    for (int i = 0; i < ROUNDS; i++) assert_int_equal(race(f, i, take_name, MOYAI_EEXIST), 1);
    assert_int_equal(files(f, "m"), ROUNDS);
    assert_int_equal(files(f, "t"), 0);
}

static void one_of_many_replaces_the_dead(void **state) {
    struct fix *f = *state;
    char name[20];
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(name, sizeof name, "name %d", i);
        assert_int_equal(put_name(f->r, name, 9999, 9999, NULL, NULL, NULL), 0);
        assert_int_equal(race(f, i, take_name, MOYAI_EEXIST), 1);
        assert_in_range(get_name(f->r, name, NULL, NULL, NULL), 1, RACERS);
    }
    assert_int_equal(files(f, "m"), ROUNDS);
    assert_int_equal(files(f, "t"), 0);
}

/* Half of them only ask, and remove the dead's entry on the way, while the others replace it. */
static int take_or_ask(struct rdv *r, int round, unsigned k) {
    if (k % 2) return take_name(r, round, k);
    char name[20];
    snprintf(name, sizeof name, "name %d", round);
    unsigned dead = 9999;
    int rc = get_name(r, name, is_dead, &dead, NULL);
    return rc > 0 || rc == MOYAI_ENOENT ? MOYAI_EEXIST : rc;
}

static void removing_the_dead_harms_no_successor(void **state) {
    struct fix *f = *state;
    char name[20];
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(name, sizeof name, "name %d", i);
        assert_int_equal(put_name(f->r, name, 9999, 9999, NULL, NULL, NULL), 0);
        assert_int_equal(race(f, i, take_or_ask, MOYAI_EEXIST), 1);
        assert_in_range(get_name(f->r, name, NULL, NULL, NULL), 1, RACERS);
    }
}

static int forget_dead(struct rdv *r, int round, unsigned k) {
    (void)k;
    struct moyai_node_id id = node_id(1000u + (unsigned)round);
    return rdv_forget_node(r, &id, NULL, NULL);
}

static void many_forget_the_dead(void **state) {
    struct fix *f = *state;
    char name[20];
    assert_int_equal(put_name(f->r, "kept", 1, 1, NULL, NULL, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        struct rdv *r = open_ok(f->url);
        struct rdv_node n = node_entry(1000u + (unsigned)i);
        assert_int_equal(rdv_put_node(r, &n, NULL), 0);
        for (unsigned k = 0; k < 5; k++) {
            snprintf(name, sizeof name, "%u of %d", k, i);
            assert_int_equal(put_name(r, name, k, 1000u + (unsigned)i, NULL, NULL, NULL), 0);
        }
        rdv_abandon(r);
        assert_int_equal(race(f, i, forget_dead, 0), RACERS);
        assert_int_equal(files(f, "m"), 1);
        assert_int_equal(files(f, "n"), 0);
    }
}

/* A name that is put, replaced and removed all the time: whoever reads sees one whole entry or none. */
static void readers_see_whole_entries(void **state) {
    struct fix *f = *state;
    int enough[2];
    assert_int_equal(pipe2(enough, O_NONBLOCK), 0);
    pid_t pid = start();
    if (pid == 0) {
        struct rdv *r;
        char x;
        if (rdv_open(&r, f->url, NULL) < 0) _exit(1);
        for (unsigned i = 0; i < 30000 && read(enough[0], &x, 1) < 0; i++) {
            unsigned dead = 2 * i + 1;
            if (put_name(r, "busy", 2 * i + 1, 2 * i + 1, NULL, NULL, NULL) < 0) _exit(2);
            if (put_name(r, "busy", 2 * i + 2, 2 * i + 2, is_dead, &dead, NULL) < 0) _exit(3);
            if (del_name(r, "busy", 2 * i + 2, 2 * i + 2) < 0) _exit(4);
        }
        rdv_close(r);
        _exit(0);
    }
    int status, seen = 0, last = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        struct moyai_error e = {0};
        int k = get_name(f->r, "busy", NULL, NULL, &e);
        if (k == MOYAI_ENOENT) continue;
        if (k < 0) fail_msg("%s", e.text);
        assert_true(k >= last);
        last = k;
        if (++seen == 1000) assert_int_equal(write(enough[1], "x", 1), 1);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(seen >= 1000);
    assert_int_equal(get_name(f->r, "busy", NULL, NULL, NULL), MOYAI_ENOENT);
    close(enough[0]);
    close(enough[1]);
}

/* Who replaces an entry is stopped while he does: only that name is affected, and only until he dies. */
static void a_stopped_process_blocks_one_name(void **state) {
    struct fix *f = *state;
    char path[400];
    unsigned dead = 2;
    struct moyai_error e = {0};
    struct rdv *r2 = open_ok(f->url);
    assert_int_equal(put_name(r2, "a", 20, 2, NULL, NULL, NULL), 0);
    assert_int_equal(put_name(r2, "b", 21, 2, NULL, NULL, NULL), 0);
    rdv_abandon(r2);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    in(f, "m", "a", path);
    pid_t pid = start();
    if (pid == 0) {
        int fd = open(path, O_RDWR);
        if (fd < 0 || flock(fd, LOCK_EX) < 0) _exit(1);
        (void)!write(ready[1], "x", 1);
        for (;;) pause();
    }
    char x;
    assert_int_equal(read(ready[0], &x, 1), 1);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(put_name(f->r, "a", 1, 1, is_dead, &dead, &e), MOYAI_EAGAIN);
    assert_non_null(strstr(e.text, path));
    assert_int_equal(del_name(f->r, "a", 20, 2), MOYAI_EAGAIN);
    assert_int_equal(get_name(f->r, "a", is_dead, &dead, &e), MOYAI_ENOENT); /* no need to wait */
    assert_int_equal(put_name(f->r, "b", 1, 1, is_dead, &dead, &e), 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(put_name(f->r, "a", 1, 1, is_dead, &dead, &e), 0);
    assert_int_equal(get_name(f->r, "a", is_dead, &dead, &e), 1);
    assert_int_equal(files(f, "t"), 0);
}

/* ---- a full disk ----------------------------------------------------------------------------- */

/* In a mount namespace of its own, with a small file system on the rendezvous. 77: not allowed here. */
static int on_a_full_disk(struct fix *f, const char *options, bool fill_bytes) {
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, "") < 0) return 77;
    if (mount("moyai-test", f->dir, "tmpfs", 0, options) < 0) return 77;
    struct rdv *r;
    struct moyai_error e = {0};
    if (rdv_open(&r, f->url, &e) < 0) return 1;
    struct rdv_node n = node_entry(1);
    if (rdv_put_node(r, &n, NULL) < 0 || put_name(r, "before", 1, 1, NULL, NULL, NULL) < 0) return 2;

    char path[400];
    int made = 0;
    if (fill_bytes) {
        static const char block[4096];
        int fd = open(in(f, "", "filler", path), O_CREAT | O_WRONLY, 0600);
        while (write(fd, block, sizeof block) > 0) made++;
        close(fd);
    } else {
        for (; made < 1000; made++) { /* no inodes are left */
            char name[20];
            snprintf(name, sizeof name, "filler%d", made);
            int fd = open(in(f, "", name, path), O_CREAT | O_WRONLY, 0600);
            if (fd < 0) break;
            close(fd);
        }
    }
    if (made == 0 || made == 1000) return 3;

    unsigned dead = 1;
    int left = files(f, "m") * 100 + files(f, "n") * 10 + files(f, "t");
    if (left != 110) return 4;
    if (put_name(r, "after", 2, 1, NULL, NULL, &e) != MOYAI_ENOSPC || e.sys != ENOSPC) return 5;
    if (!strstr(e.text, in(f, "m", "after", path))) return 6;
    if (put_name(r, "before", 3, 3, is_dead, &dead, &e) != MOYAI_ENOSPC) return 7;
    strcpy(n.title, "new");
    if (rdv_put_node(r, &n, &e) != MOYAI_ENOSPC) return 8;
    if (files(f, "m") * 100 + files(f, "n") * 10 + files(f, "t") != left) return 9;
    /* What was there still is, and what needs no room works. */
    if (get_name(r, "before", NULL, NULL, NULL) != 1 || get_name(r, "after", NULL, NULL, NULL) != MOYAI_ENOENT)
        return 10;
    if (rdv_get_node(r, &n.id, &n, NULL) < 0 || strcmp(n.title, "test") != 0) return 11;
    if (del_name(r, "before", 1, 1) < 0) return 12;

    if (fill_bytes) {
        unlink(in(f, "", "filler", path));
    } else {
        for (int i = 0; i < made; i++) {
            char name[20];
            snprintf(name, sizeof name, "filler%d", i);
            unlink(in(f, "", name, path));
        }
    }
    if (put_name(r, "after", 2, 1, NULL, NULL, &e) < 0 || get_name(r, "after", NULL, NULL, NULL) != 2) return 13;
    if (rdv_put_node(r, &n, &e) < 0) return 14;
    rdv_close(r);
    return files(f, "m") + files(f, "n") + files(f, "t") == 0 ? 0 : 15;
}

static void full_disk(void **state, const char *options, bool fill_bytes) {
    struct fix *f = *state;
    pid_t pid = start();
    if (pid == 0) _exit(on_a_full_disk(f, options, fill_bytes));
    int code = exit_of(pid);
    if (code == 77) {
        print_message("skipped: mounting a small file system is not permitted here\n");
        skip();
    }
    assert_int_equal(code, 0);
}

static void a_full_disk_leaves_nothing_half(void **state) {
    full_disk(state, "size=64k,mode=0700", true);
}

static void no_inodes_leave_nothing_half(void **state) {
    full_disk(state, "size=1m,nr_inodes=24,mode=0700", false);
}

int main(void) {
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(one_of_many_gets_a_free_name),
        T(one_of_many_replaces_the_dead),
        T(removing_the_dead_harms_no_successor),
        T(many_forget_the_dead),
        T(readers_see_whole_entries),
        T(a_stopped_process_blocks_one_name),
        T(a_full_disk_leaves_nothing_half),
        T(no_inodes_leave_nothing_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
