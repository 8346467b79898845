/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/public/kit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* Long enough for valgrind on a busy machine. */
#define HANG_SECONDS 600

extern char **environ;

/* One test program a process: its state is the process's. */
static struct {
    char exe[PATH_MAX], dir[64], grid[80], parent[32];
    uint64_t seed;
    bool seeded, seed_said, longer;
} kit;

#ifdef __SANITIZE_THREAD__
/* libuv closes its descriptors past the sanitizer, by the bare system call: who gets the same number next, in another
 * node, seems to race with the end of the loop that had it. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) {
    return "race:^loop_done$\n";
}
#endif

/* ---- the grid's directory -------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

/* A process that does nothing but outlive this one and remove its directory. Returns the end of the pipe whose
 * closing it waits for; it closes by itself with this process. */
static int janitor(pid_t *pid) {
    int fd[2];
    if (pipe2(fd, O_CLOEXEC) < 0) FIBER_FAIL("pipe: %s", strerror(errno));
    fflush(NULL);
    *pid = fork();
    if (*pid < 0) FIBER_FAIL("fork: %s", strerror(errno));
    if (*pid > 0) {
        close(fd[0]);
        return fd[1];
    }
    setsid(); /* Ctrl-C is for the others */
    close(fd[1]);
    int null = open("/dev/null", O_RDWR);
    for (int i = 0; i <= 2; i++) dup2(null, i);
    char c;
    while (read(fd[0], &c, 1) < 0 && errno == EINTR) {
    }
    nftw(kit.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    _exit(0);
}

static void forget_environment(void) {
    static const char prefix[] = "MOYAI_";
    for (char **e = environ; *e;) {
        char name[64];
        size_t n = strcspn(*e, "=");
        if (strncmp(*e, prefix, sizeof prefix - 1) != 0 || n >= sizeof name) {
            e++;
            continue;
        }
        memcpy(name, *e, n);
        name[n] = 0;
        unsetenv(name);
        e = environ;
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

static int play(int argc, char **argv, const struct kit_role *roles) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char *parent = getenv("KIT_PARENT");
    if (!parent || getppid() != atoi(parent)) return 1;
    alarm(HANG_SECONDS);
    const char *grid = getenv("MOYAI_GRID");
    snprintf(kit.grid, sizeof kit.grid, "%s", grid ? grid : "");
    snprintf(kit.dir, sizeof kit.dir, "%s", grid ? grid + strlen("file:") : "");
    for (; roles->name; roles++)
        if (strcmp(roles->name, argv[2]) == 0) return roles->run(argc - 3, argv + 3);
    FIBER_FAIL("no role %s", argv[2]);
}

int kit_main(int argc, char **argv, const struct kit_role *roles, int (*tests)(void)) {
    if (argc >= 3 && strcmp(argv[1], "--role") == 0) return play(argc, argv, roles);
    if (argc == 3 && strcmp(argv[1], "--seed") == 0) {
        kit.seed = strtoull(argv[2], NULL, 0);
        kit.seeded = true;
    } else if (argc == 2 && strcmp(argv[1], "--long") == 0) {
        kit.longer = true;
    } else if (argc != 1) {
        fprintf(stderr, "usage: %s [--seed N | --long]\n", argv[0]);
        return 2;
    }
    alarm(HANG_SECONDS);
    ssize_t n = readlink("/proc/self/exe", kit.exe, sizeof kit.exe - 1);
    if (n < 0) FIBER_FAIL("readlink: %s", strerror(errno));
    forget_environment();
    strcpy(kit.dir, "/tmp/moyai-test-XXXXXX");
    if (!mkdtemp(kit.dir)) FIBER_FAIL("mkdtemp: %s", strerror(errno));
    snprintf(kit.grid, sizeof kit.grid, "file:%s", kit.dir);
    setenv("MOYAI_GRID", kit.grid, 1);
    setenv("MOYAI_RUN_DIR", kit.dir, 1);
    snprintf(kit.parent, sizeof kit.parent, "%d", getpid());
    setenv("KIT_PARENT", kit.parent, 1);
    pid_t pid;
    int end = janitor(&pid);
    cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
    int rc = tests();
    close(end);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return rc;
}

uint64_t kit_seed(void) {
    if (kit.seed_said) return kit.seed;
    kit.seed_said = true;
    if (!kit.seeded) {
        if (getrandom(&kit.seed, sizeof kit.seed, 0) != sizeof kit.seed) FIBER_FAIL("getrandom");
        kit.seed >>= 32;
    }
    printf("seed %" PRIu64 "\n", kit.seed);
    fflush(stdout);
    return kit.seed;
}

bool kit_long(void) {
    return kit.longer;
}

const char *kit_dir(void) {
    return kit.dir;
}
const char *kit_grid(void) {
    return kit.grid;
}

_Atomic uint32_t *kit_shared(const char *name, size_t n) {
    char path[128];
    snprintf(path, sizeof path, *name == '/' ? "%.0s%s" : "%s/shared.%s", kit.dir, name);
    size_t size = n * sizeof(uint32_t);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0) FIBER_FAIL("%s: %s", path, strerror(errno));
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) FIBER_FAIL("mmap: %s", strerror(errno));
    close(fd);
    return p;
}

/* ---- child processes ------------------------------------------------------------------------- */

static void stderr_path(char path[128], pid_t pid) {
    snprintf(path, 128, "%s/err.%d", kit.dir, pid);
}

static pid_t child(bool quiet, const char *role, va_list ap) {
    enum { MOST = 24 };
    const char *args[MOST + 4] = {kit.exe, "--role", role};
    const char *vars[MOST];
    size_t n_args = 3, n_vars = 0, n_env = 0;
    const char *a;
    while ((a = va_arg(ap, const char *))) {
        if (n_args == MOST || n_vars == MOST) FIBER_FAIL("too many arguments for a child");
        if (n_args == 3 && strchr(a, '='))
            vars[n_vars++] = a;
        else
            args[n_args++] = a;
    }
    while (environ[n_env]) n_env++;
    const char **env = calloc(n_vars + n_env + 1, sizeof *env);
    if (!env) FIBER_FAIL("out of memory");
    memcpy(env, vars, n_vars * sizeof *env); /* the first of two counts */
    memcpy(env + n_vars, environ, n_env * sizeof *env);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    char path[128], made[128];
    snprintf(path, sizeof path, "%s/err.new", kit.dir);
    if (quiet) posix_spawn_file_actions_addopen(&actions, 2, path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    fflush(NULL);
    pid_t pid;
    int rc = posix_spawn(&pid, kit.exe, &actions, NULL, (char *const *)(uintptr_t)args, (char *const *)(uintptr_t)env);
    if (rc) FIBER_FAIL("cannot start %s: %s", kit.exe, strerror(rc));
    posix_spawn_file_actions_destroy(&actions);
    free(env);
    if (quiet) {
        stderr_path(made, pid);
        if (rename(path, made) < 0) FIBER_FAIL("rename: %s", strerror(errno));
    }
    return pid;
}

pid_t kit_child(const char *role, ...) {
    va_list ap;
    va_start(ap, role);
    pid_t pid = child(false, role, ap);
    va_end(ap);
    return pid;
}

pid_t kit_child_quiet(const char *role, ...) {
    va_list ap;
    va_start(ap, role);
    pid_t pid = child(true, role, ap);
    va_end(ap);
    return pid;
}

char *kit_stderr(pid_t pid) {
    char path[128];
    stderr_path(path, pid);
    FILE *f = fopen(path, "r");
    if (!f) FIBER_FAIL("%s: %s", path, strerror(errno));
    char *text = calloc(1, 65536);
    if (!text) FIBER_FAIL("out of memory");
    text[fread(text, 1, 65535, f)] = 0;
    fclose(f);
    return text;
}

int kit_reap(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) FIBER_FAIL("waitpid: %s", strerror(errno));
    return status;
}

bool kit_gone(pid_t pid) {
    pid_t rc = waitpid(pid, NULL, WNOHANG);
    if (rc < 0 && errno != EINTR) FIBER_FAIL("waitpid: %s", strerror(errno));
    return rc == pid;
}

static void send_signal(pid_t pid, int sig) {
    if (pid <= 1 || kill(pid, sig) < 0) FIBER_FAIL("kill %d: %s", pid, strerror(errno));
}

void kit_kill(pid_t pid) {
    send_signal(pid, SIGKILL);
    (void)kit_reap(pid);
}

void kit_stop(pid_t pid) {
    send_signal(pid, SIGSTOP);
    int status = 0;
    while (waitpid(pid, &status, WUNTRACED) < 0)
        if (errno != EINTR) FIBER_FAIL("waitpid: %s", strerror(errno));
    if (!WIFSTOPPED(status)) FIBER_FAIL("child %d ended with wait status 0x%x", pid, (unsigned)status);
}

void kit_cont(pid_t pid) {
    send_signal(pid, SIGCONT);
}

void kit_end(pid_t pid) {
    send_signal(pid, SIGTERM);
    int status = kit_reap(pid);
    if (status != 0) FIBER_FAIL("child %d ended with wait status 0x%x", pid, (unsigned)status);
}

int kit_serve(const struct moyai_node_opts *opts, const struct moyai_class *cls, void *self, const char *name) {
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    if (opts) o = *opts;
    o.signals = true;
    moyai_node *n = kit_node(&o);
    moyai_ref *ref = kit_object(n, cls, self);
    KIT_OK(moyai_register(ref, name));
    KIT_OK(moyai_node_serve(n, MOYAI_FOREVER));
    moyai_ref_unref(ref);
    moyai_node_free(n);
    return 0;
}

/* ---- nodes and objects ----------------------------------------------------------------------- */

moyai_node *kit_node(const struct moyai_node_opts *opts) {
    moyai_node *n;
    struct moyai_error e;
    if (moyai_node_new(&n, opts, &e) < 0) FIBER_FAIL("cannot start a node: %s", e.text);
    return n;
}

moyai_ref *kit_object(moyai_node *n, const struct moyai_class *cls, void *self) {
    moyai_ref *ref;
    struct moyai_error e;
    if (moyai_object_new(n, cls, self, &ref, &e) < 0) FIBER_FAIL("cannot make an object: %s", e.text);
    return ref;
}

moyai_ref *kit_lookup(moyai_node *n, const char *name) {
    moyai_ref *ref;
    int rc = moyai_lookup_wait(n, name, MOYAI_FOREVER, &ref);
    if (rc < 0) FIBER_FAIL("cannot find %s: %s", name, moyai_err_name(rc));
    return ref;
}

moyai_set *kit_set(moyai_node *n) {
    moyai_set *set;
    KIT_OK(moyai_set_new(n, &set));
    return set;
}

void kit_settle(moyai_node *n) {
    /* A fiber that runs may make others runnable; none of our chains is longer than this. */
    for (int i = 0; i < 8; i++) moyai_yield(n);
}

void kit_compute(moyai_dur d) {
    moyai_ns end = moyai_now() + (moyai_ns)d;
    while (moyai_now() < end) {
    }
}

struct moyai_error kit_failed(const char *file, int line, moyai_future *f, int code, enum moyai_where where,
                              enum moyai_executed executed) {
    static const char *const wheres[] = {"caller", "method", "path", "peer"};
    static const char *const execs[] = {"may have", "never", "was"};
    int rc = moyai_future_get_masked(f, MOYAI_NONE);
    struct moyai_error e = {0};
    int also = moyai_future_error(f, 0, &e);
    if (rc != code || also != code || e.code != code || e.where != where || e.executed != executed) {
        fprintf(stderr,
                "%s:%d: the future failed with %s at the %s, %s executed: \"%s\"; not %s at the %s, %s executed\n",
                file, line, moyai_err_name(e.code), wheres[e.where], execs[e.executed], e.text, moyai_err_name(code),
                wheres[where], execs[executed]);
        _exit(1);
    }
    return e;
}
