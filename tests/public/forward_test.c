/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two nodes that reach each other by nothing but a line of the grid file, with a program in ssh's place
 * (tests/support/fake_ssh.c). Each has a run directory, so a host, of its own; one cannot be connected to, the other
 * says that it is where nobody is, and both ask for the grid at an address where nobody is.
 */
#include "link/key.h"
#include "tests/public/kit.h"
#include "tests/support/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
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

static int m_count(moyai_request *rq, void *self) {
    struct server *s = self;
    return moyai_return(rq, MOYAI_ARGS(s->calls));
}

/* add_at(name, x): of that object, by this one. */
static int m_add_at(moyai_request *rq, void *self) {
    (void)self;
    const char *name;
    int64_t x, y = 0;
    moyai_ref *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&name, &x)));
    KIT_OK(moyai_lookup_wait(moyai_request_node(rq), name, MOYAI_FOREVER, &ref));
    KIT_OK(moyai_call(ref, "add", MOYAI_ARGS(x), MOYAI_INTO(&y), NULL));
    moyai_ref_unref(ref);
    return moyai_return(rq, MOYAI_ARGS(y));
}

/* stop(ms): its node ends, for no signal, and gets a first one so much later. */
static int m_stop(moyai_request *rq, void *self) {
    (void)self;
    int ms;
    const pid_t pid = getpid();
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ms)));
    const pid_t child = fork();
    FIBER_ASSERT(child >= 0);
    if (child == 0) {
        (void)usleep((useconds_t)ms * 1000);
        _exit(kill(pid, SIGTERM));
    }
    moyai_node_stop(moyai_request_node(rq));
    return 0;
}

static const struct moyai_method methods[] = {
    {"add", m_add}, {"count", m_count}, {"add_at", m_add_at}, {"stop", m_stop}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Server", methods, NULL);

static int role_server(int argc, char **argv) {
    struct server s = {0};
    FIBER_ASSERT_INT(argc, 1);
    return kit_serve(NULL, &cls, &s, argv[0]);
}

/* ---- the grid -------------------------------------------------------------------------------- */

enum { NOBODY, NOBODY_EITHER, FAR, NEAR, PORTS };
static unsigned port[PORTS]; /* that are free now */
static char key[128];

static void write_file(const char *name, const char *text, char path[128]) {
    char temp[160];
    snprintf(path, 128, "%s/%s", kit_dir(), name);
    snprintf(temp, sizeof temp, "%s.new", path);
    FILE *f = fopen(temp, "w");
    FIBER_ASSERT(f && fputs(text, f) >= 0 && fclose(f) == 0 && rename(temp, path) == 0);
}

static void set_mode(const char *mode) {
    char path[128];
    write_file("mode", mode, path);
}

static pid_t ssh_pid(void) {
    char path[128];
    int pid = 0;
    snprintf(path, sizeof path, "%s/pid", kit_dir());
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%d", &pid) != 1) pid = 0;
    if (f) fclose(f);
    return pid;
}

static void begin_grid(void) {
    struct keyring r = {.n = 1};
    for (int i = 0; i < PORTS; i++) port[i] = test_free_port();
    KIT_OK(key_new(&r.key[0], NULL));
    snprintf(key, sizeof key, "%s/key%u", kit_dir(), port[NOBODY]);
    KIT_OK(keyfile_write(&r, key, false, NULL));
    setenv("FAKE_SSH", kit_dir(), 1);
    setenv("MOYAI_SSH", FAKE_SSH, 1);
    setenv("MOYAI_REATTACH", "100s", 1);
    char path[128];
    snprintf(path, sizeof path, "%s/pid", kit_dir());
    unlink(path);
}

/* This host is HOST1 to one and HOST2 to the other. */
static void grid_file(const char *name, bool far, bool reverse, char path[128]) {
    char host[256] = "", text[700], words[48] = "";
    FIBER_ASSERT(gethostname(host, sizeof host - 1) == 0);
    if (reverse) snprintf(words, sizeof words, "reverse listen=%u", port[NEAR]);
    snprintf(text, sizeof text, "forward %s %s %s to=%u\n", far ? "elsewhere" : host, far ? host : "elsewhere", words,
             port[FAR]);
    write_file(name, text, path);
}

static pid_t start_at(bool is_far, const char *name, bool reverse) {
    char path[128], grid[64], file[160], keys[160], dir[160], at[64];
    grid_file(is_far ? "far.conf" : "near.conf", is_far, reverse, path);
    snprintf(grid, sizeof grid, "MOYAI_GRID=127.0.0.1:%u", port[NOBODY]);
    snprintf(file, sizeof file, "MOYAI_GRID_FILE=%s", path);
    snprintf(keys, sizeof keys, "MOYAI_KEY_FILE=%s", key);
    snprintf(dir, sizeof dir, "MOYAI_RUN_DIR=%s/%s", kit_dir(), name);
    snprintf(at, sizeof at, "MOYAI_ADVERTISE=127.0.0.1:%u", port[NOBODY_EITHER]);
    if (!is_far) return kit_child("server", grid, file, keys, dir, "MOYAI_OUTBOUND_ONLY=1", name, NULL);
    return kit_child("server", grid, file, keys, dir, at, "MOYAI_LISTEN=127.0.0.1", name, NULL);
}

static pid_t start_far(const char *name, bool reverse) {
    return start_at(true, name, reverse);
}

static moyai_node *join_at(bool is_far, bool reverse) {
    char path[128], grid[64], dir[128], at[64];
    grid_file(is_far ? "far.conf" : "near.conf", is_far, reverse, path);
    snprintf(grid, sizeof grid, "127.0.0.1:%u", port[NOBODY]);
    snprintf(dir, sizeof dir, "%s/near%u", kit_dir(), port[NOBODY]);
    snprintf(at, sizeof at, "127.0.0.1:%u", port[NOBODY_EITHER]);
    setenv("MOYAI_GRID_FILE", path, 1);
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.grid = grid;
    opts.run_dir = dir;
    opts.key_file = key;
    opts.outbound_only = !is_far;
    if (is_far) opts.listen = "127.0.0.1";
    if (is_far) opts.advertise = at;
    return kit_node(&opts);
}

static moyai_node *join(bool reverse) {
    return join_at(false, reverse);
}

static void add_some(moyai_ref *ref, int64_t *calls) {
    for (int i = 0; i < 20; i++, ++*calls) {
        int64_t y = 0, n = 0;
        KIT_OK(moyai_call(ref, "add", MOYAI_ARGS(i), MOYAI_INTO(&y), NULL));
        FIBER_ASSERT_INT(y, i + 1);
        KIT_OK(moyai_call(ref, "count", MOYAI_NONE, MOYAI_INTO(&n), NULL));
        FIBER_ASSERT_INT(n, *calls + 1);
    }
}

/* Whose child it has become may not have reaped it. */
static void await_end(pid_t pid) {
    char path[40], state = 'R';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    for (FILE *f; state != 'Z' && (f = fopen(path, "r")); fclose(f))
        if (fscanf(f, "%*d %*s %c", &state) != 1) state = 'Z';
}

static void through_ssh(bool reverse) {
    begin_grid();
    set_mode("refuse");
    pid_t pid = start_far("far", reverse);
    moyai_node *n = join(reverse);
    struct server s = {0};
    moyai_ref *near = kit_object(n, &cls, &s), *far = NULL;
    KIT_OK(moyai_register(near, "near"));
    /* There is no other way. */
    KIT_RC(moyai_lookup_wait(n, "far", 300 * MOYAI_MS, &far), MOYAI_ETIMEDOUT);
    set_mode("forward");
    far = kit_lookup(n, "far");
    int64_t calls = 0, y = 0;
    add_some(far, &calls);
    KIT_OK(moyai_call(far, "add_at", MOYAI_ARGS("near", 41), MOYAI_INTO(&y), NULL));
    FIBER_ASSERT_INT(y, 42);
    FIBER_ASSERT_INT(s.calls, 1);
    /* ssh dies, which is no death of a node: what is called meanwhile is executed, and once. */
    for (int i = 0; i < 2; i++) {
        pid_t ssh = ssh_pid();
        FIBER_ASSERT(ssh > 1 && kill(ssh, SIGKILL) == 0);
        add_some(far, &calls);
        while (ssh_pid() == ssh) (void)moyai_sleep(n, MOYAI_MS); /* what was under way may have been enough */
    }
    moyai_ref_unref(far);
    /* The node at the other end dies, and another takes its place. */
    kit_kill(pid);
    pid = start_far("further", reverse);
    far = kit_lookup(n, "further");
    calls = 0;
    add_some(far, &calls);
    moyai_ref_unref(far);
    moyai_ref_unref(near);
    pid_t ssh = ssh_pid();
    moyai_node_free(n);
    kit_end(pid);
    await_end(ssh); /* with who has started it */
    unsetenv("MOYAI_GRID_FILE");
}

static void the_first_host_runs_ssh(void **state) {
    (void)state;
    through_ssh(false);
}

static void the_second_host_runs_ssh(void **state) {
    (void)state;
    through_ssh(true);
}

/* And it is known that it has: in order. */
static void has_left(moyai_node *n, moyai_ref *there) {
    struct moyai_error e;
    int64_t y = 0;
    KIT_RC(moyai_call(there, "add", MOYAI_ARGS(1), MOYAI_INTO(&y), NULL), MOYAI_ECLOSED);
    moyai_last_error(n, &e);
    KIT_TEXT(e.text, "has left");
    moyai_ref_unref(there);
    moyai_node_free(n);
    unsetenv("MOYAI_GRID_FILE");
}

/* What a node says last passes its own ssh, slow as that is, before it ends that. */
static void who_runs_ssh_leaves(bool reverse) {
    begin_grid();
    set_mode("slow");
    pid_t pid = start_at(reverse, "there", reverse);
    moyai_node *n = join_at(!reverse, reverse);
    moyai_ref *there = kit_lookup(n, "there");
    int64_t y = 0;
    KIT_OK(moyai_call(there, "add", MOYAI_ARGS(1), MOYAI_INTO(&y), NULL));
    kit_end(pid);
    has_left(n, there);
}

static void the_first_host_leaves(void **state) {
    (void)state;
    who_runs_ssh_leaves(false);
}

static void the_second_host_leaves(void **state) {
    (void)state;
    who_runs_ssh_leaves(true);
}

/* A first signal asks for what it does already, and cuts short nothing of what it says last. */
static void a_signal_at_the_end_hurries_nobody(void **state) {
    (void)state;
    static const int after[] = {0, 50, 150};
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        begin_grid();
        set_mode("slow");
        pid_t pid = start_at(false, "there", false);
        moyai_node *n = join_at(true, false);
        moyai_ref *there = kit_lookup(n, "there");
        KIT_OK(moyai_call(there, "stop", MOYAI_ARGS(after[i]), MOYAI_NONE, NULL));
        FIBER_ASSERT_INT(kit_reap(pid), 0);
        has_left(n, there);
    }
}

/* Nothing passes an ssh that hangs: its node ends all the same, and ssh with it. */
static void a_stopped_ssh_holds_up_nobody(void **state) {
    (void)state;
    begin_grid();
    set_mode("forward");
    pid_t pid = start_far("far", false);
    moyai_node *n = join(false);
    moyai_ref *far = kit_lookup(n, "far");
    moyai_ref_unref(far);
    pid_t ssh = ssh_pid();
    FIBER_ASSERT(ssh > 1 && kill(-getpgid(ssh), SIGSTOP) == 0);
    moyai_node_free(n);
    await_end(ssh);
    kit_end(pid);
    unsetenv("MOYAI_GRID_FILE");
}

static void a_bad_file_is_an_error(void **state) {
    (void)state;
    begin_grid();
    char path[128], dir[128];
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    struct moyai_error e;
    moyai_node *n;
    snprintf(dir, sizeof dir, "%s/bad", kit_dir());
    opts.run_dir = dir;
    opts.key_file = key;
    write_file("bad.conf", "# mine\nforward here\n", path);
    setenv("MOYAI_GRID_FILE", path, 1);
    KIT_RC(moyai_node_new(&n, &opts, &e), MOYAI_EINVAL);
    KIT_TEXT(e.text, "$MOYAI_GRID_FILE: \"");
    KIT_TEXT(e.text, "bad.conf\", line 2: a host is missing; accepted is: forward HOST1 HOST2");
    setenv("MOYAI_GRID_FILE", kit_dir(), 1);
    KIT_RC(moyai_node_new(&n, &opts, &e), MOYAI_EINVAL);
    KIT_TEXT(e.text, "is no file");
    setenv("MOYAI_GRID_FILE", "/nonexistent/grid", 1);
    KIT_RC(moyai_node_new(&n, &opts, &e), MOYAI_ENOENT);
    KIT_TEXT(e.text, "there is no grid file \"/nonexistent/grid\"");
    /* What concerns other hosts does no harm. */
    write_file("good.conf", "forward one.example another.example\n", path);
    setenv("MOYAI_GRID_FILE", path, 1);
    n = kit_node(&opts);
    /* Who wonders is told. */
    char keys[160], at[160];
    snprintf(keys, sizeof keys, "MOYAI_KEY_FILE=%s", key);
    snprintf(at, sizeof at, "MOYAI_RUN_DIR=%s", dir);
    pid_t pid = kit_child_quiet("server", keys, at, "MOYAI_LOG=info", "idle", NULL);
    moyai_ref_unref(kit_lookup(n, "idle"));
    moyai_node_free(n);
    kit_end(pid);
    char *said = kit_stderr(pid);
    KIT_TEXT(said, "good.conf\": no line of the grid file concerns this host, ");
    free(said);
    unsetenv("MOYAI_GRID_FILE");
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(the_first_host_runs_ssh),
        cmocka_unit_test(the_second_host_runs_ssh),
        cmocka_unit_test(the_first_host_leaves),
        cmocka_unit_test(the_second_host_leaves),
        cmocka_unit_test(a_stopped_ssh_holds_up_nobody),
        cmocka_unit_test(a_bad_file_is_an_error),
        cmocka_unit_test(a_signal_at_the_end_hurries_nobody),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"server", role_server}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
