/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a grid of several hosts is met: a directory that all see, descriptors, several places at once. Each node has a
 * run directory of its own unless it is said, so that it shares a host with nobody.
 */
#include "link/key.h"
#include "tests/public/kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct server {
    int64_t calls;
};

static int m_add(moyai_request *rq, void *self) {
    struct server *s = self;
    int64_t x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    s->calls++;
    return moyai_return(rq, MOYAI_ARGS(x + 1));
}

static const struct moyai_method methods[] = {{"add", m_add}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Server", methods, NULL);

static int role_server(int argc, char **argv) {
    struct server s = {0};
    FIBER_ASSERT_INT(argc, 1);
    return kit_serve(NULL, &cls, &s, argv[0]);
}

/* ---- the grid -------------------------------------------------------------------------------- */

static char key[128], dir[128], url[140];
static int round_;

static void begin_grid(void) {
    struct keyring r = {.n = 1};
    KIT_OK(key_new(&r.key[0], NULL));
    snprintf(key, sizeof key, "%s/key%d", kit_dir(), ++round_);
    KIT_OK(keyfile_write(&r, key, false, NULL));
    snprintf(dir, sizeof dir, "%s/met%d", kit_dir(), round_);
    snprintf(url, sizeof url, "file:%s", dir);
}

static pid_t start(const char *name, const char *grid, const char *host) {
    char at[400], file[160], run_dir[160];
    snprintf(at, sizeof at, "MOYAI_GRID=%s", grid);
    snprintf(file, sizeof file, "MOYAI_KEY_FILE=%s", key);
    snprintf(run_dir, sizeof run_dir, "MOYAI_RUN_DIR=%s/%s%d", kit_dir(), host, round_);
    return kit_child("server", at, file, run_dir, "MOYAI_LISTEN=127.0.0.1", name, NULL);
}

static struct moyai_node_opts opts_of(const char *grid, const char *host) {
    static char run_dir[160];
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    snprintf(run_dir, sizeof run_dir, "%s/%s%d", kit_dir(), host, round_);
    opts.grid = grid;
    opts.run_dir = run_dir;
    opts.key_file = key;
    opts.listen = "127.0.0.1";
    return opts;
}

static moyai_node *join(const char *grid, const char *host) {
    struct moyai_node_opts opts = opts_of(grid, host);
    return kit_node(&opts);
}

static void call(moyai_node *n, const char *name) {
    moyai_ref *ref = kit_lookup(n, name);
    int64_t y = 0;
    KIT_OK(moyai_call(ref, "add", MOYAI_ARGS(41), MOYAI_INTO(&y), NULL));
    FIBER_ASSERT_INT(y, 42);
    moyai_ref_unref(ref);
}

static int entries(void) {
    char path[140];
    int n = 0;
    snprintf(path, sizeof path, "%s/e", dir);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

/* ---- a directory ----------------------------------------------------------------------------- */

static void hosts_meet_in_a_directory(void **state) {
    (void)state;
    begin_grid();
    pid_t pid[] = {start("one", url, "a"), start("two", url, "b"), start("three", url, "b")};
    moyai_node *n = join(url, "c");
    call(n, "one");
    call(n, "two");
    call(n, "three");
    /* It is no directory of a grid of one host. */
    char path[140];
    snprintf(path, sizeof path, "%s/n", dir);
    FIBER_ASSERT(access(path, F_OK) < 0 && errno == ENOENT);
    while (entries() < 4) (void)moyai_sleep(n, MOYAI_MS);
    kit_end(pid[0]);
    while (entries() > 3) (void)moyai_sleep(n, MOYAI_MS);
    kit_kill(pid[1]);
    pid_t late = start("late", url, "d"); /* it finds who lives, whatever is there of the dead */
    call(n, "late");
    call(n, "three");
    /* The directory goes, which those who have met need no more. */
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s 2>/dev/null", dir);
    KIT_UNTIL(n, system(command) == 0); /* somebody may write there just then */
    call(n, "late");
    /* Without the key one does not get in, nor makes a grid of one's own of it by mistake. (Who looks there now and
     * then may just have made it anew.) */
    FIBER_ASSERT(mkdir(dir, 0700) == 0 || errno == EEXIST);
    snprintf(path, sizeof path, "%s/e", dir);
    FIBER_ASSERT(mkdir(path, 0700) == 0 || errno == EEXIST);
    struct moyai_node_opts opts = opts_of(url, "c");
    struct moyai_error e;
    moyai_node *m;
    opts.key_file = NULL;
    KIT_RC(moyai_node_new(&m, &opts, &e), MOYAI_EPERM);
    KIT_TEXT(e.text, dir);
    KIT_TEXT(e.text, "MOYAI_KEY_FILE");
    moyai_node_free(n);
    kit_end(pid[2]);
    kit_end(late);
}

/* A grid that is kept to one host stays that, whatever keys there are. */
static void a_directory_of_one_host(void **state) {
    (void)state;
    begin_grid();
    char path[140];
    FIBER_ASSERT_INT(mkdir(dir, 0700), 0);
    snprintf(path, sizeof path, "%s/one-host", dir);
    FIBER_ASSERT(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
    pid_t pid = start("one", url, "a");
    moyai_node *n = join(url, "a");
    call(n, "one");
    FIBER_ASSERT_INT(entries(), 0);
    snprintf(path, sizeof path, "%s/m/one", dir);
    FIBER_ASSERT(access(path, F_OK) == 0);
    moyai_node_free(n);
    kit_end(pid);
}

/* ---- several places -------------------------------------------------------------------------- */

static void several_places(void **state) {
    (void)state;
    begin_grid();
    char both[300], dead[300];
    snprintf(both, sizeof both, "http://127.0.0.1:1/lab %s 127.0.0.1:1", url);
    snprintf(dead, sizeof dead, "file:/nonexistent/x/y http://127.0.0.1:1/lab 127.0.0.1:1");
    pid_t pid = start("one", both, "a");
    moyai_node *n = join(url, "b"), *m = join(dead, "c");
    call(n, "one");
    moyai_ref *none = NULL;
    KIT_RC(moyai_lookup_wait(m, "one", 200 * MOYAI_MS, &none), MOYAI_ETIMEDOUT);
    moyai_node_free(m);
    moyai_node_free(n);
    kit_end(pid);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

enum { MEMBERS = 4 };

static struct launcher {
    int to[MEMBERS], from[MEMBERS];
    atomic_bool stop;
    pthread_t thread;
} hub;

static void *carry(void *arg) {
    (void)arg;
    while (!hub.stop) {
        struct pollfd p[MEMBERS];
        for (int i = 0; i < MEMBERS; i++) p[i] = (struct pollfd){.fd = hub.from[i], .events = POLLIN};
        if (poll(p, MEMBERS, 20) <= 0) continue;
        for (int i = 0; i < MEMBERS; i++) {
            char buf[4096];
            ssize_t n = p[i].revents & POLLIN ? read(hub.from[i], buf, sizeof buf) : 0;
            for (int k = 0; n > 0 && k < MEMBERS; k++) (void)!write(hub.to[k], buf, (size_t)n);
        }
    }
    return NULL;
}

static void hosts_meet_over_descriptors(void **state) {
    (void)state;
    begin_grid();
    char grid[MEMBERS][32];
    int in[MEMBERS][2], out[MEMBERS][2];
    for (int i = 0; i < MEMBERS; i++) {
        FIBER_ASSERT(pipe2(in[i], O_CLOEXEC) == 0 && pipe2(out[i], O_CLOEXEC) == 0);
        hub.to[i] = in[i][1];
        hub.from[i] = out[i][0];
        FIBER_ASSERT(fcntl(hub.to[i], F_SETFL, O_NONBLOCK) == 0);
        snprintf(grid[i], sizeof grid[i], "fd:%d,%d", in[i][0], out[i][1]);
    }
    FIBER_ASSERT(pthread_create(&hub.thread, NULL, carry, NULL) == 0);
    static const char *const names[] = {"one", "two"};
    pid_t pid[2];
    for (int i = 0; i < 2; i++) {
        (void)fcntl(in[i][0], F_SETFD, 0);
        (void)fcntl(out[i][1], F_SETFD, 0);
        pid[i] = start(names[i], grid[i], names[i]);
        (void)fcntl(in[i][0], F_SETFD, FD_CLOEXEC);
        (void)fcntl(out[i][1], F_SETFD, FD_CLOEXEC);
    }
    moyai_node *n = join(grid[2], "c");
    call(n, "one");
    call(n, "two");
    struct moyai_node_opts opts = opts_of(grid[3], "d"); /* nobody can connect to this one */
    opts.listen = NULL;
    opts.outbound_only = true;
    moyai_node *m = kit_node(&opts);
    call(m, "one");
    call(m, "two");
    moyai_node_free(m);
    moyai_node_free(n);
    for (int i = 0; i < 2; i++) kit_end(pid[i]);
    hub.stop = true;
    pthread_join(hub.thread, NULL);
    for (int i = 0; i < MEMBERS; i++) {
        FIBER_ASSERT(fcntl(in[i][0], F_GETFD) >= 0); /* they stay the program's */
        close(in[i][0]);
        close(in[i][1]);
        close(out[i][0]);
        close(out[i][1]);
    }
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(hosts_meet_in_a_directory),
        cmocka_unit_test(a_directory_of_one_host),
        cmocka_unit_test(several_places),
        cmocka_unit_test(hosts_meet_over_descriptors),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"server", role_server}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
