/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nine clusters of the paper (S0/5) in network namespaces (tests/grid), with its 948 processes: four open clusters,
 * one behind a firewall, two behind NATs, and two into which and out of which only ssh gets. One master in hongo; what
 * is configured is a key, the rendezvous, and six lines for ssh. The rendezvous is a server in hongo and, as blocked
 * clusters cannot ask that, a directory in the home that the hosts of each cluster share.
 *
 *   ninecluster [--quick | WORKERS]
 *
 * It needs root, and takes minutes: all nodes share the processors of one machine, and what each does to look for a
 * node that is far (some frames for each of its links) is done by all of them at once there. Its processes are:
 *
 *   ninecluster host COUNT   on each host: starts its workers, and ends them when its input ends. For each it takes a
 *                            byte from a pipe that all hosts share, and gives it back when the worker has called
 *   ninecluster worker, ninecluster master WORKERS   (nine_nodes.c)
 */
#include "bench/nine.h"

#include "bench/bench.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define PORT    7780
#define WINDOW  4 /* workers that have been started and have not called yet, on all hosts; the machine is small */
#define QUICK   60
#define HOSTS   4 /* of a cluster; --quick: 2 */
#define GRACE_S 10

static const struct cluster {
    const char *name, *class;
    int workers;
} clusters[] = {{"chiba", "global", 168}, {"hongo", "global", 90},     {"okubo", "global", 28},
                {"suzuk", "global", 72},  {"kototoi", "firewall", 82}, {"kyoto", "nat", 69},
                {"imade", "nat", 60},     {"istbs", "blocked", 315},   {"tsubame", "blocked", 64}};
enum { N_CLUSTERS = sizeof clusters / sizeof clusters[0], ALL = 948, MOST_HOSTS = N_CLUSTERS * (HOSTS + 1) };

static const char forwards[] = "forward hongo0     istbs0 jump=istbs-gw\n"
                               "forward hongo0     istbs1 jump=istbs-gw\n"
                               "forward istbs-gw   hongo0\n"
                               "forward tsubame0   hongo0 reverse listen=9001 jump=tsubame-gw\n"
                               "forward tsubame1   hongo0 reverse listen=9001 jump=tsubame-gw\n"
                               "forward tsubame-gw hongo0\n";

/* ---- on a host ------------------------------------------------------------------------------- */

static char work[64], self[PATH_MAX];

static pid_t start_worker(int *said) {
    int p[2];
    if (pipe2(p, O_CLOEXEC) < 0) bench_die("pipe");
    pid_t pid = bench_fork();
    if (pid == 0) {
        char fd[16];
        snprintf(fd, sizeof fd, "%d", p[1]);
        (void)fcntl(p[1], F_SETFD, 0);
        int nothing = open("/dev/null", O_RDONLY);
        if (nothing >= 0) dup2(nothing, 0);
        execl(self, "ninecluster", "worker", fd, (char *)NULL);
        _exit(127);
    }
    close(p[1]);
    *said = p[0];
    return pid;
}

/* A byte of each that has called the master; the end of standard input ends all. */
static int host(int count) {
    pid_t *pid = calloc((size_t)count, sizeof *pid);
    struct pollfd *p = calloc((size_t)count + 2, sizeof *p);
    if (!pid || !p) bench_die("memory");
    int started = 0, turn = atoi(getenv("NINE_TURN")), back = atoi(getenv("NINE_BACK"));
    (void)fcntl(turn, F_SETFD, FD_CLOEXEC);
    (void)fcntl(back, F_SETFD, FD_CLOEXEC);
    p[0] = (struct pollfd){.fd = 0, .events = POLLIN};
    for (bool end = false; !end;) {
        p[1] = (struct pollfd){.fd = started < count ? turn : -1, .events = POLLIN};
        if (poll(p, (nfds_t)started + 2, -1) < 0) continue;
        char c;
        end = p[0].revents && read(0, &c, 1) <= 0;
        for (int i = 2; i < started + 2; i++) {
            if (p[i].fd < 0 || !p[i].revents) continue;
            if (read(p[i].fd, &c, 1) <= 0) bench_die("a worker has ended");
            close(p[i].fd);
            p[i].fd = -1;
            bench_write(back, "x", 1);
        }
        if (p[1].revents & POLLIN && read(turn, &c, 1) == 1) { /* another host may have been faster */
            int said;
            pid[started] = start_worker(&said);
            p[started++ + 2] = (struct pollfd){.fd = said, .events = POLLIN};
        }
    }
    for (int i = 0; i < started; i++) kill(pid[i], SIGTERM);
    double until = bench_now() + GRACE_S;
    for (int i = 0; i < started; i++) {
        while (waitpid(pid[i], NULL, WNOHANG) == 0) {
            if (bench_now() > until) kill(pid[i], SIGKILL);
            usleep(5000);
        }
    }
    free(pid);
    free(p);
    return 0;
}

/* ---- the network, and what runs in it -------------------------------------------------------- */

static struct {
    pid_t pid;
    int in; /* its end ends it */
} part[MOST_HOSTS + 2];
static int n_parts;
static bool is_up;

static int tool(const char *name, const char *args) {
    char command[1200];
    snprintf(command, sizeof command, "%s/%s %s", GRID_TOOLS, name, args);
    return system(command);
}

static void clean_up(void) {
    for (int i = 0; i < n_parts; i++) close(part[i].in);
    double until = bench_now() + GRACE_S + 5;
    for (int i = 0; i < n_parts; i++)
        while (part[i].pid > 0 && waitpid(part[i].pid, NULL, WNOHANG) == 0) {
            if (bench_now() > until) kill(part[i].pid, SIGKILL);
            usleep(10000);
        }
    n_parts = 0;
    if (is_up) (void)tool("grid-down", ">/dev/null 2>&1");
    is_up = false;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", work);
    if (work[0] && system(command) != 0) fprintf(stderr, "cannot remove %s\n", work);
    work[0] = 0;
}

static void on_signal(int s) {
    (void)s;
    exit(1); /* the bench waits; nothing is in the midst of anything that clean_up needs */
}

static void set(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void set(const char *name, const char *fmt, ...) {
    char value[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    setenv(name, value, 1);
}

/* Run words on a host, in a process of its own: its home is that of its cluster. *out: its standard output; NULL: as
 * ours. */
static void start(const char *where, const char *cluster, const char *const *words, int *out) {
    char exec[PATH_MAX], home[100], shared[140];
    const char *argv[16] = {exec,   where, "/bin/sh", "-c", "mount --bind \"$0\" \"$1\" && shift && exec \"$@\"",
                            shared, home};
    size_t n = 7;
    int in[2], o[2] = {-1, -1};
    snprintf(exec, sizeof exec, "%s/grid-exec", GRID_TOOLS);
    snprintf(home, sizeof home, "%s/home", work);
    snprintf(shared, sizeof shared, "%s/%s", work, cluster);
    while (*words) argv[n++] = *words++;
    argv[n] = NULL;
    if (pipe2(in, O_CLOEXEC) < 0 || (out && pipe2(o, O_CLOEXEC) < 0)) bench_die("pipe");
    pid_t pid = bench_fork();
    if (pid == 0) {
        char log[140];
        dup2(in[0], 0);
        if (out) dup2(o[1], 1);
        snprintf(log, sizeof log, "%s/%s.log", work, where);
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd >= 0 && !out) dup2(fd, 2);
        set("MOYAI_SITE", "%s", cluster);
        set("MOYAI_RUN_DIR", "%s/run-%s", work, where);
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(in[0]);
    if (out) {
        close(o[1]);
        *out = o[0];
    }
    part[n_parts].pid = pid;
    part[n_parts++].in = in[1];
}

static void write_file(const char *name, const char *text, mode_t mode) {
    char path[140];
    snprintf(path, sizeof path, "%s/%s", work, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    if (fd < 0) bench_die("%s", path);
    bench_write(fd, text, strlen(text));
    close(fd);
}

static int skip(const char *why) {
    printf("skipped: %s\n", why);
    return 77;
}

static void begin(int hosts) {
    char command[600], spec[600] = "", path[140];
    strcpy(work, "/tmp/moyai-nine-XXXXXX");
    if (!mkdtemp(work)) bench_die("mkdtemp");
    atexit(clean_up);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    set("GRID_NAME", "nine%d", (int)getpid());
    set("GRID_STATE", "/tmp/grid-state/nine%d", (int)getpid());
    set("MOYAI_KEY_FILE", "%s/key", work);
    set("MOYAI_GRID_FILE", "%s/forwards", work);
    set("MOYAI_SSH", "%s/ssh", work);
    setenv("MOYAI_LOG", "error", 0);
    write_file("forwards", forwards, 0600);
    write_file("ssh", "#!/bin/sh\nexec ssh -F \"$GRID_SSH_CONFIG\" \"$@\"\n", 0700);
    snprintf(path, sizeof path, "%s/home", work);
    if (mkdir(path, 0700) < 0) bench_die("mkdir");
    size_t n = 0;
    for (int i = 0; i < N_CLUSTERS; i++) {
        n += (size_t)snprintf(spec + n, sizeof spec - n, "%s:%s:%d:ssh=both,", clusters[i].name, clusters[i].class,
                              hosts);
        snprintf(path, sizeof path, "%s/%s", work, clusters[i].name);
        if (mkdir(path, 0700) < 0) bench_die("mkdir");
    }
    snprintf(command, sizeof command, "%s key new >/dev/null 2>&1", MOYAI);
    if (system(command) != 0) bench_die("cannot make a key");
    snprintf(command, sizeof command, "%ssshd=blocked >/dev/null", spec);
    is_up = true;
    if (tool("grid-up", command) != 0) bench_die("the network could not be made");
}

static void read_until(FILE *f, const char *word) {
    char line[200];
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, word, strlen(word)) == 0) return;
        fputs(line, stdout);
    }
    errno = 0;
    bench_die("no \"%s\": see the lines before", word);
}

static void start_workers(int cluster, int hosts, int workers) {
    const struct cluster *c = &clusters[cluster];
    bool blocked = strcmp(c->class, "blocked") == 0;
    char name[32], count[16];
    if (blocked) { /* the gateway's, as ssh starts there */
        snprintf(name, sizeof name, "%s-gw", c->name);
        start(name, c->name, (const char *[]){self, "host", "1", NULL}, NULL);
        workers--;
    }
    for (int h = 0; h < hosts; h++) {
        int n = workers / hosts + (h < workers % hosts);
        snprintf(name, sizeof name, "%s%d", c->name, h);
        snprintf(count, sizeof count, "%d", n);
        if (n > 0) start(name, c->name, (const char *[]){self, "host", count, NULL}, NULL);
    }
}

static int run(int all) {
    int hosts = all < ALL ? 2 : HOSTS, n[N_CLUSTERS], sum = 0, out, status;
    for (int i = 0; i < N_CLUSTERS; i++) {
        n[i] = clusters[i].workers * all / ALL;
        if (n[i] < 3) n[i] = 3;
        sum += n[i];
    }
    begin(hosts);
    char number[16], place[200];
    const char *address = "10.77.2.1"; /* hongo0 */
    /* The server, then the master. */
    snprintf(place, sizeof place, "0.0.0.0:%d", PORT);
    start("hongo0", "hongo", (const char *[]){MOYAI, "endpoint", "--listen", place, NULL}, &out);
    FILE *f = fdopen(out, "r");
    read_until(f, "moyai endpoint: serving");
    pid_t server = part[n_parts - 1].pid;
    set("MOYAI_GRID", "http://%s:%d/lab file:%s/home/grid", address, PORT, work);
    snprintf(number, sizeof number, "%d", sum);
    start("hongo1", "hongo", (const char *[]){self, "master", number, NULL}, &out);
    pid_t master = part[n_parts - 1].pid;
    FILE *g = fdopen(out, "r");
    read_until(g, "ready");
    printf("%d workers on %d hosts of %d clusters\n", sum, hosts * N_CLUSTERS, N_CLUSTERS);
    fflush(stdout);
    /* Those of blocked clusters wait until those at the other ends of their lines are there: they have turns of their
     * own. */
    for (int blocked = 0; blocked < 2; blocked++) {
        int turns[2];
        if (pipe(turns) < 0 || fcntl(turns[0], F_SETFL, O_NONBLOCK) < 0) bench_die("pipe");
        set("NINE_TURN", "%d", turns[0]);
        set("NINE_BACK", "%d", turns[1]);
        for (int i = 0; i < N_CLUSTERS; i++)
            if ((strcmp(clusters[i].class, "blocked") == 0) == blocked) start_workers(i, hosts, n[i]);
        bench_write(turns[1], "xxxxxxxxxxxxxxxx", WINDOW);
    }
    char line[300];
    while (fgets(line, sizeof line, g)) {
        fputs(line, stdout);
        fflush(stdout);
    }
    fclose(g);
    if (waitpid(master, &status, 0) < 0) bench_die("waitpid");
    for (int i = 0; i < n_parts; i++)
        if (part[i].pid == master) part[i].pid = 0;
    kill(server, SIGTERM);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
        char command[160];
        snprintf(command, sizeof command, "tail -n 3 %s/*.log >&2", work);
        (void)!system(command);
        return 1;
    }
    return WEXITSTATUS(status);
}

int main(int argc, char **argv) {
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) bench_die("/proc/self/exe");
    if (argc == 3 && strcmp(argv[1], "worker") == 0) return nine_worker(atoi(argv[2]));
    if (argc == 3 && strcmp(argv[1], "host") == 0) return host(atoi(argv[2]));
    if (argc == 3 && strcmp(argv[1], "master") == 0) return nine_master(atoi(argv[2]));
    int all = argc < 2 ? ALL : strcmp(argv[1], "--quick") == 0 ? QUICK : atoi(argv[1]);
    if (all < 1 || all > ALL) {
        fprintf(stderr, "usage: ninecluster [--quick | WORKERS], at most %d\n", ALL);
        return 2;
    }
    if (geteuid() != 0) return skip("network namespaces with devices need root");
    if (system("PATH=$PATH:/usr/sbin; for p in ip nft unshare ssh sshd ssh-keygen python3; do "
               "command -v $p >/dev/null || exit 1; done; unshare -n true 2>/dev/null") != 0)
        return skip(
            "it needs ip, nft, unshare, ssh, sshd and python3 (tools/install-deps grid), and network namespaces");
    int status = run(all);
    clean_up();
    return status;
}
