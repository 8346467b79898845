/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_grid.h"

#include "overlay/io/rendezvous.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char base[64];

static int setup(void **state) {
    (void)state;
    alarm(120);
    strcpy(base, "/tmp/moyai-grid-test-XXXXXX");
    assert_non_null(mkdtemp(base));
    setenv("XDG_RUNTIME_DIR", base, 1);
    unsetenv("MOYAI_RUN_DIR");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    return rmdir(base); /* fails if something has been left */
}

static bool there(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

static void make(struct run_grid *g, bool keep) {
    struct moyai_error e;
    if (run_grid_make(g, keep, &e) < 0) fail_msg("%s", e.text);
}

static void end(struct run_grid *g) {
    struct moyai_error e;
    if (run_grid_end(g, &e) < 0) fail_msg("%s", e.text);
}

static void private_directory(void **state) {
    (void)state;
    struct run_grid g;
    make(&g, false);
    struct stat st;
    assert_int_equal(stat(g.path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(strncmp(g.path, base, strlen(base)), 0);
    assert_string_equal(g.address + 5, g.path);
    assert_int_equal(strncmp(g.address, "file:", 5), 0);
    /* Whatever is put in goes, links without what they lead to. */
    char path[PATH_MAX + 32], outside[128];
    snprintf(outside, sizeof outside, "%s/outside", base);
    assert_int_equal(mkdir(outside, 0700), 0);
    snprintf(path, sizeof path, "%s/a", outside);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    snprintf(path, sizeof path, "%s/link", g.path);
    assert_int_equal(symlink(outside, path), 0);
    snprintf(path, sizeof path, "%s/d", g.path);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/d/e", g.path);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/d/e/fifo", g.path);
    assert_int_equal(mkfifo(path, 0600), 0);
    end(&g);
    assert_false(there(g.path));
    snprintf(path, sizeof path, "%s/a", outside);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(outside), 0);
}

static void bases(void **state) {
    (void)state;
    struct run_grid g;
    char other[256];
    static const char *const unfit[] = {"", "relative", "/nowhere/at/all", "/proc/1/fdinfo", NULL};
    for (int i = 0; unfit[i]; i++) {
        setenv("XDG_RUNTIME_DIR", unfit[i], 1);
        make(&g, false);
        assert_int_equal(strncmp(g.path, "/tmp/moyai-run-", 15), 0);
        end(&g);
    }
    unsetenv("XDG_RUNTIME_DIR");
    make(&g, false);
    assert_int_equal(strncmp(g.path, "/tmp/moyai-run-", 15), 0);
    end(&g);
    /* One that is too long for the sockets in it. */
    snprintf(other, sizeof other, "%s/%080d", base, 1);
    assert_int_equal(mkdir(other, 0700), 0);
    setenv("XDG_RUNTIME_DIR", other, 1);
    make(&g, false);
    assert_int_equal(strncmp(g.path, "/tmp/moyai-run-", 15), 0);
    end(&g);
    assert_int_equal(rmdir(other), 0);
    setenv("XDG_RUNTIME_DIR", base, 1);
}

/* A umask that takes rights from ourselves. */
static void odd_umask(void **state) {
    (void)state;
    struct run_grid g;
    struct stat st;
    mode_t before = umask(0777);
    make(&g, false);
    umask(before);
    assert_int_equal(stat(g.path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    end(&g);
}

/* Only what nobody uses and nobody wants to keep is swept. */
static void sweeping(void **state) {
    (void)state;
    struct run_grid live, kept, joined;
    struct moyai_error e;
    char stale[256], file[256], target[256];
    make(&live, false);
    make(&kept, true);
    end(&kept);
    assert_true(there(kept.path));

    snprintf(stale, sizeof stale, "%s/moyai-run-stale1", base);
    assert_int_equal(mkdir(stale, 0700), 0);
    snprintf(file, sizeof file, "%s/moyai-run-file", base);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    snprintf(target, sizeof target, "%s/moyai-run-link", base);
    assert_int_equal(symlink(live.path, target), 0);
    assert_int_equal(run_grid_sweep(base), 1);
    assert_false(there(stale));
    assert_true(there(live.path) && there(kept.path) && there(file) && there(target));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(unlink(target), 0);

    /* A grid whose maker is gone stays while somebody who has joined it is there. */
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct run_grid g;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (run_grid_make(&g, false, &e) < 0) _exit(1);
        if (write(1, "", 0) < 0) _exit(1);
        snprintf(file, sizeof file, "%s/path", base);
        FILE *f = fopen(file, "w");
        if (!f) _exit(1);
        fprintf(f, "%s", g.path);
        fclose(f);
        _exit(0); /* as if killed: the directory is left */
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    snprintf(file, sizeof file, "%s/path", base);
    char path[256] = "";
    FILE *f = fopen(file, "r");
    assert_non_null(f);
    assert_non_null(fgets(path, sizeof path, f));
    fclose(f);
    unlink(file);
    assert_true(there(path));
    if (run_grid_join(&joined, path, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(run_grid_sweep(base), 0);
    end(&joined);
    assert_true(there(path)); /* not ours to remove */
    assert_int_equal(run_grid_sweep(base), 1);
    assert_false(there(path));

    end(&live);
    snprintf(file, sizeof file, "%.240s/keep", kept.path);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(run_grid_sweep(base), 1);
}

/* Runs that begin while others sweep: nobody loses his directory. */
static void beginning_at_once(void **state) {
    (void)state;
    enum { N = 6, ROUNDS = 60 };
    pid_t pid[N];
    for (int i = 0; i < N; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] > 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int r = 0; r < ROUNDS; r++) {
            struct run_grid g;
            struct moyai_error e;
            if (run_grid_make(&g, false, &e) < 0 || !there(g.path)) _exit(1);
            (void)run_grid_sweep(base);
            if (!there(g.path)) _exit(2);
            if (run_grid_end(&g, &e) < 0) _exit(3);
        }
        _exit(0);
    }
    for (int i = 0; i < N; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
}

static void joining(void **state) {
    (void)state;
    struct run_grid g, j;
    struct moyai_error e;
    make(&g, false);
    assert_int_equal(run_grid_join(&j, g.address, &e), 0);
    assert_string_equal(j.path, g.path);
    assert_string_equal(j.address, g.address);
    assert_string_equal(j.run_dir, ""); /* nodes find out by themselves */
    assert_int_equal(run_grid_end(&j, &e), 0);
    setenv("MOYAI_RUN_DIR", "/elsewhere", 1);
    assert_int_equal(run_grid_join(&j, g.path, &e), 0);
    assert_string_equal(j.run_dir, "/elsewhere");
    assert_int_equal(run_grid_end(&j, &e), 0);
    unsetenv("MOYAI_RUN_DIR");
    end(&g);

    assert_int_equal(run_grid_join(&j, g.path, &e), MOYAI_ENOENT);
    assert_false(there(g.path));
    assert_int_equal(run_grid_join(&j, "/dev/null", &e), MOYAI_EPERM);
    assert_int_equal(run_grid_join(&j, "/", &e), MOYAI_ENOENT);
    char dir[128], path[160];
    snprintf(dir, sizeof dir, "%s/other", base);
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(path, sizeof path, "%s/file", dir);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(run_grid_join(&j, dir, &e), MOYAI_ENOENT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(run_grid_look(&j, dir, &e), MOYAI_ENOENT); /* yet */
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(run_grid_join(&j, dir, &e), MOYAI_EPERM);
    assert_int_equal(run_grid_look(&j, dir, &e), MOYAI_EPERM); /* nobody can join one there */
    assert_non_null(strstr(e.text, "is open to others (mode 0755)"));
    assert_int_equal(rmdir(dir), 0); /* nothing has been put in */
}

/* A directory in which several hosts meet: by a key, but for one that a run has made for itself. */
static void joining_with_a_key(void **state) {
    (void)state;
    struct run_grid g, j;
    struct moyai_error e;
    char dir[128], url[140], several[300], sub[140];
    snprintf(dir, sizeof dir, "%s/met", base);
    snprintf(url, sizeof url, "file:%s", dir);
    snprintf(several, sizeof several, "%s http://127.0.0.1:1/lab", url);
    setenv("MOYAI_KEY_FILE", "/my/key", 1); /* a mistyped one: no node is to make it */
    assert_int_equal(run_grid_join(&j, dir, &e), MOYAI_ENOENT);
    assert_int_equal(run_grid_join(&j, url, &e), MOYAI_ENOENT);
    unsetenv("MOYAI_KEY_FILE");
    assert_int_equal(mkdir(dir, 0700), 0);
    make(&g, false);
    assert_int_equal(run_grid_join(&j, several, &e), 0); /* whose key is where keys are by default */
    assert_string_equal(j.address, several);
    assert_string_equal(j.path, "");
    assert_int_equal(run_grid_end(&j, &e), 0);
    setenv("MOYAI_KEY_FILE", "/my/key", 1);
    const char *const same[] = {dir, url};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_grid_join(&j, same[i], &e), 0);
        assert_string_equal(j.address, url);
        assert_string_equal(j.path, "");
        assert_string_equal(j.run_dir, "");
        assert_int_equal(run_grid_end(&j, &e), 0);
        assert_true(there(dir));
    }
    assert_int_equal(run_grid_join(&j, g.path, &e), 0);
    assert_string_equal(j.path, g.path);
    assert_int_equal(run_grid_end(&j, &e), 0);
    unsetenv("MOYAI_KEY_FILE");
    snprintf(sub, sizeof sub, "%s/e", dir);
    assert_int_equal(mkdir(sub, 0700), 0);
    assert_int_equal(run_grid_join(&j, dir, &e), MOYAI_EPERM);
    assert_non_null(strstr(e.text, "MOYAI_KEY_FILE"));
    assert_int_equal(run_grid_join(&j, "fd:0,1", &e), MOYAI_EINVAL);
    assert_int_equal(rmdir(sub), 0);
    assert_int_equal(rmdir(dir), 0);
    end(&g);
}

static int files_in(const char *dir) {
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return d ? n : -1;
}

/* A directory among others is what it would be alone, and nothing is made before all are known to be right. */
static void one_of_several(void **state) {
    (void)state;
    struct run_grid j;
    struct moyai_error e;
    char dir[128], docs[128], blank[128], letter[160], here[PATH_MAX], want[300], text[500];
    snprintf(dir, sizeof dir, "%s/met", base);
    snprintf(docs, sizeof docs, "%s/docs", base);
    snprintf(blank, sizeof blank, "%s/a b", base);
    snprintf(letter, sizeof letter, "%s/letter.txt", docs);
    assert_int_equal(mkdir(dir, 0700) | mkdir(docs, 0700) | mkdir(blank, 0700), 0);
    close(open(letter, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(base), 0);
    const struct {
        const char *at;
        int code;
        const char *text;
    } wrong[] = {
        {"nix", MOYAI_ENOENT, "there is no grid at 'nix': no such directory"},
        {"file:nix", MOYAI_ENOENT, "there is no grid at 'nix': no such directory"},
        {"/nonexistent/x", MOYAI_ENOENT,
         "there is no grid at '/nonexistent/x': no such directory; is the name right? A new grid's is made beforehand "
         "(mkdir -m 700)"},
        {"docs", MOYAI_ENOENT, "there is no grid at 'docs', but something else"},
        {"file:docs", MOYAI_ENOENT, "there is no grid at 'docs', but something else"},
        {docs, MOYAI_ENOENT, "/docs', but something else"},
        {letter, MOYAI_EPERM, "letter.txt', which is not a directory"},
        {"ftp://x/y", MOYAI_EINVAL, "'ftp://x/y' is not the address of a grid: DIR, "},
        {"x:99999", MOYAI_EINVAL, "'x:99999' is not the address of a grid: a port is a number from 1 to 65535"},
        {"http//x:1/y", MOYAI_EINVAL, "'http//x:1/y' is not the address of a grid: a ':' is missing: http://HOST"},
        {"x:1/y", MOYAI_EINVAL, "'x:1/y' is not the address of a grid: a member's address is HOST:PORT alone; that of"},
        {":1", MOYAI_EINVAL, "':1' is not the address of a grid: no host: HOST:PORT"},
        {"::1:7472", MOYAI_EINVAL, "'::1:7472' is not the address of a grid: write an IPv6 address in brackets"},
        {"x:1,y:2", MOYAI_EINVAL, "'x:1,y:2' is not the address of a grid: several addresses are separated by spaces"},
        {"https://x/y", MOYAI_EINVAL, "'https://x/y' is not the address of a grid: there is no https:, and no need of"},
        {"HTTP://x/y", MOYAI_EINVAL, "'HTTP://x/y' is not the address of a grid: write http:// in small"},
        {"fd:3", MOYAI_EINVAL, "\"fd:3\" is no pair"},
        {"met file:met", MOYAI_EINVAL, "two file: addresses"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        for (int before = 0; before < 2; before++) {
            snprintf(text, sizeof text, before ? "%s 127.0.0.1:1" : "127.0.0.1:1 %s", wrong[i].at);
            int rc = i % 2 ? run_grid_look(&j, text, &e) : run_grid_join(&j, text, &e);
            if (rc != wrong[i].code || !strstr(e.text, wrong[i].text)) fail_msg("'%s': %d: %s", text, rc, e.text);
        }
    assert_int_equal(files_in(docs), 1);
    assert_int_equal(run_grid_join(&j, "/nonexistent/my grid", &e), MOYAI_ENOENT);
    assert_non_null(strstr(e.text, "there is no grid at '/nonexistent/my grid': no such directory"));
    assert_int_equal(run_grid_join(&j, blank, &e), MOYAI_EINVAL);
    assert_non_null(strstr(e.text, "/a b' is not the address of a grid: white space"));
    static const char *const right[] = {"127.0.0.1:1 met", "127.0.0.1:1\tfile:met ", " 127.0.0.1:1  ./met/"};
    snprintf(want, sizeof want, "127.0.0.1:1 file:%s", dir);
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_int_equal(run_grid_join(&j, right[i], &e), 0);
        assert_string_equal(j.address, want);
        assert_string_equal(j.path, "");
    }
    assert_int_equal(run_grid_look(&j, "met ", &e),
                     MOYAI_ENOENT); /* alone: nobody has begun there, and nothing is made */
    assert_non_null(strstr(e.text, "yet"));
    assert_int_equal(files_in(dir), 0);
    assert_int_equal(run_grid_join(&j, " file:met", &e), 0);
    assert_string_equal(j.path, dir);
    assert_int_equal(run_grid_end(&j, &e), 0);
    assert_int_equal(run_grid_look(&j, "met", &e), 0); /* somebody has */
    assert_int_equal(run_grid_end(&j, &e), 0);
    assert_int_equal(chdir(here), 0);
    snprintf(text, sizeof text, "rm -r '%s' %s %s", blank, docs, dir);
    assert_int_equal(system(text), 0);
}

static void telling(void **state) {
    (void)state;
    struct run_grid g;
    struct moyai_error e;
    char file[128], line[PATH_MAX];
    snprintf(file, sizeof file, "%s/address", base);
    make(&g, false);
    assert_int_equal(run_grid_tell(&g, file, &e), 0);
    FILE *f = fopen(file, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_int_equal(strncmp(line, g.address, strlen(g.address)), 0);
    assert_string_equal(line + strlen(g.address), "\n");
    fclose(f);
    end(&g);
    assert_false(there(file));
    /* Somebody else's by now: it stays. */
    make(&g, false);
    assert_int_equal(run_grid_tell(&g, file, &e), 0);
    f = fopen(file, "w");
    fprintf(f, "file:/other\n");
    fclose(f);
    end(&g);
    assert_true(there(file));
    assert_int_equal(unlink(file), 0);
    make(&g, false);
    assert_true(run_grid_tell(&g, "/nowhere/at/all", &e) < 0);
    assert_non_null(strstr(e.text, "/nowhere/at/all"));
    end(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(private_directory),
        cmocka_unit_test(bases),
        cmocka_unit_test(odd_umask),
        cmocka_unit_test(sweeping),
        cmocka_unit_test(beginning_at_once),
        cmocka_unit_test(joining),
        cmocka_unit_test(joining_with_a_key),
        cmocka_unit_test(one_of_several),
        cmocka_unit_test(telling),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
