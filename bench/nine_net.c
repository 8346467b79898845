/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Its processes are:
 *
 *   PROGRAM host       on each host: starts its workers, and ends them when its input ends. For each it takes a byte
 *                      from a pipe that all hosts share, and gives it back when the worker has called
 *   PROGRAM worker FD  says on FD (a byte) when it has called the master
 *   PROGRAM master ... in hongo
 *
 * A host is told on its standard input, by a byte each: '+': another worker; '-': kill one, the longest there; 'x':
 * kill all that are there.
 */
#include "bench/nine_net.h"

#include "bench/bench.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define PORT       7780
#define WINDOW     4    /* workers that have been started and have not called yet, on all hosts; the machine is small */
#define HOSTS      4    /* of a cluster, the most */
#define MOST       4096 /* workers of one host, one after another */
#define GRACE_S    10
#define AGENT_S    60
#define MOST_HOSTS (NINE_CLUSTERS * (HOSTS + 1))

const struct nine_cluster nine_clusters[NINE_CLUSTERS] = {
    {"chiba", "global", 168}, {"hongo", "global", 90},     {"okubo", "global", 28},
    {"suzuk", "global", 72},  {"kototoi", "firewall", 82}, {"kyoto", "nat", 69},
    {"imade", "nat", 60},     {"istbs", "blocked", 315},   {"tsubame", "blocked", 64}};

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
        execl(self, "nine", "worker", fd, (char *)NULL);
        _exit(127);
    }
    close(p[1]);
    *said = p[0];
    return pid;
}

struct host {
    int n, wanted, first; /* started; to be started in all; those before are dead */
    pid_t pid[MOST];      /* 0: killed */
    pid_t zombie[MOST];   /* those, until they are reaped */
    int n_zombies;
    struct pollfd p[MOST + 2];
    int turn, back, kills;
};

/* The time goes into the file in one write: other hosts write there, too. That of its end is negative. */
static void kill_one(struct host *h, int i) {
    char line[64];
    int n = snprintf(line, sizeof line, "%d %.6f\n", (int)h->pid[i], bench_now());
    kill(h->pid[i], SIGKILL);
    bench_write(h->kills, line, (size_t)n);
}

/* The zombies of those killed before are taken away when something else is to be done: where the system has seen many
 * processes come and go, that takes it tens of milliseconds of a processor, which the others need to notice the death.
 */
static void reap(struct host *h) {
    for (; h->n_zombies > 0; h->n_zombies--)
        while (waitpid(h->zombie[h->n_zombies - 1], NULL, 0) < 0 && errno == EINTR) {
        }
}

static void gone(struct host *h, int i) {
    h->zombie[h->n_zombies++] = h->pid[i];
    h->pid[i] = 0;
    if (h->p[i + 2].fd < 0) return;
    close(h->p[i + 2].fd); /* it had not called */
    h->p[i + 2].fd = -1;
    bench_write(h->back, "x", 1);
}

/* When has the system ended them? Before it has, nobody can know of it. */
static void note_ends(struct host *h, struct pollfd *p, int n, const pid_t *pid) {
    for (int left = n; left > 0;) {
        if (poll(p, (nfds_t)n, GRACE_S * 1000) <= 0) return;
        for (int i = 0; i < n; i++) {
            if (p[i].fd < 0 || !p[i].revents) continue;
            char line[64];
            bench_write(h->kills, line, (size_t)snprintf(line, sizeof line, "%d -%.6f\n", (int)pid[i], bench_now()));
            close(p[i].fd);
            p[i].fd = -1;
            left--;
        }
    }
}

/* Those from i to j that live. */
static void kill_from(struct host *h, int i, int j) {
    static struct pollfd end[MOST];
    static pid_t pid[MOST];
    int n = 0;
    for (int k = i; k < j; k++) {
        if (h->pid[k] == 0) continue;
        pid[n] = h->pid[k];
        end[n] = (struct pollfd){.fd = (int)syscall(SYS_pidfd_open, pid[n], 0), .events = POLLIN};
        if (end[n++].fd < 0) bench_die("pidfd_open");
    }
    for (int k = i; k < j; k++)
        if (h->pid[k] != 0) kill_one(h, k);
    note_ends(h, end, n, pid);
    for (int k = i; k < j; k++)
        if (h->pid[k] != 0) gone(h, k);
}

static void do_as_told(struct host *h, char c) {
    reap(h);
    switch (c) {
    case '+':
        if (h->wanted == MOST) bench_die("too many workers");
        h->wanted++;
        break;
    case '-':
        while (h->first < h->n && h->pid[h->first] == 0) h->first++;
        if (h->first < h->n) kill_from(h, h->first, h->first + 1);
        break;
    case 'x':
        kill_from(h, h->first, h->n);
        h->first = h->wanted = h->n;
        break;
    }
}

/* A byte of each that has called the master; the end of standard input ends all. */
int nine_host(void) {
    struct host *h = calloc(1, sizeof *h);
    if (!h) bench_die("memory");
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) bench_die("/proc/self/exe");
    h->turn = atoi(getenv("NINE_TURN"));
    h->back = atoi(getenv("NINE_BACK"));
    h->kills = open(getenv("NINE_KILLS"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (h->kills < 0) bench_die("%s", getenv("NINE_KILLS"));
    (void)fcntl(h->turn, F_SETFD, FD_CLOEXEC);
    (void)fcntl(h->back, F_SETFD, FD_CLOEXEC);
    h->p[0] = (struct pollfd){.fd = 0, .events = POLLIN};
    for (bool end = false; !end;) {
        char c;
        h->p[1] = (struct pollfd){.fd = h->n < h->wanted ? h->turn : -1, .events = POLLIN};
        if (poll(h->p, (nfds_t)h->n + 2, -1) < 0) continue;
        for (int i = 0; i < h->n; i++) {
            struct pollfd *p = &h->p[i + 2];
            if (p->fd < 0 || !p->revents) continue;
            errno = 0;
            if (read(p->fd, &c, 1) <= 0) bench_die("a worker has ended");
            close(p->fd);
            p->fd = -1;
            bench_write(h->back, "x", 1);
        }
        if (h->p[1].revents & POLLIN && read(h->turn, &c, 1) == 1) { /* another host may have been faster */
            int said;
            h->pid[h->n] = start_worker(&said);
            h->p[h->n++ + 2] = (struct pollfd){.fd = said, .events = POLLIN};
        }
        if (h->p[0].revents) {
            end = read(0, &c, 1) <= 0;
            if (!end) do_as_told(h, c);
        }
    }
    reap(h);
    for (int i = 0; i < h->n; i++)
        if (h->pid[i] != 0) kill(h->pid[i], SIGTERM);
    double until = bench_now() + GRACE_S;
    for (int i = 0; i < h->n; i++) {
        while (h->pid[i] != 0 && waitpid(h->pid[i], NULL, WNOHANG) == 0) {
            if (bench_now() > until) kill(h->pid[i], SIGKILL);
            usleep(5000);
        }
    }
    free(h);
    return 0;
}

/* ---- the network, and what runs in it -------------------------------------------------------- */

static struct {
    pid_t pid;
    int in;      /* its end ends it */
    int cluster; /* -1: no host's */
    int workers;
    bool term; /* it takes a signal to end it */
} part[2 * MOST_HOSTS + 2];
static struct { char host[32], id[33]; } agent[MOST_HOSTS];
static int n_parts, n_hosts, n_agents;
static pid_t server, master;
static bool is_up;

int nine_tool(const char *name, const char *args) {
    char command[1200];
    snprintf(command, sizeof command, "%s/%s %s", GRID_TOOLS, name, args);
    return system(command);
}

void nine_end(void) {
    for (int i = 0; i < n_parts; i++) {
        close(part[i].in);
        if (part[i].term) kill(part[i].pid, SIGTERM);
    }
    double until = bench_now() + GRACE_S + 5;
    for (int i = 0; i < n_parts; i++)
        while (part[i].pid > 0 && waitpid(part[i].pid, NULL, WNOHANG) == 0) {
            if (bench_now() > until) kill(part[i].pid, SIGKILL);
            usleep(10000);
        }
    n_parts = 0;
    if (is_up) (void)nine_tool("grid-down", ">/dev/null 2>&1");
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
        for (int i = 0; i < n_agents; i++)
            if (strcmp(agent[i].host, where) == 0) set("MOYAI_PARENT", "%s", agent[i].id);
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(in[0]);
    if (out) {
        close(o[1]);
        *out = o[0];
    }
    part[n_parts].pid = pid;
    part[n_parts].in = in[1];
    part[n_parts].cluster = -1;
    part[n_parts].term = false;
    part[n_parts++].workers = 0;
}

static void write_file(const char *name, const char *text, mode_t mode) {
    char path[140];
    snprintf(path, sizeof path, "%s/%s", work, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    if (fd < 0) bench_die("%s", path);
    bench_write(fd, text, strlen(text));
    close(fd);
}

void nine_begin(int hosts) {
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) bench_die("/proc/self/exe");
    n_hosts = hosts;
    char command[600], spec[600] = "", path[140];
    strcpy(work, "/tmp/moyai-nine-XXXXXX");
    if (!mkdtemp(work)) bench_die("mkdtemp");
    atexit(nine_end);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    set("GRID_NAME", "nine%d", (int)getpid());
    set("GRID_STATE", "/tmp/grid-state/nine%d", (int)getpid());
    set("MOYAI_KEY_FILE", "%s/key", work);
    set("MOYAI_GRID_FILE", "%s/forwards", work);
    set("MOYAI_SSH", "%s/ssh", work);
    set("NINE_KILLS", "%s/kills", work);
    setenv("MOYAI_LOG", "error", 0);
    write_file("forwards", forwards, 0600);
    write_file("ssh", "#!/bin/sh\nexec ssh -F \"$GRID_SSH_CONFIG\" \"$@\"\n", 0700);
    snprintf(path, sizeof path, "%s/home", work);
    if (mkdir(path, 0700) < 0) bench_die("mkdir");
    snprintf(path, sizeof path, "%s/home/grid", work); /* for who has none of a cluster; verbs do not make it */
    if (mkdir(path, 0700) < 0) bench_die("mkdir");
    size_t n = 0;
    for (int i = 0; i < NINE_CLUSTERS; i++) {
        n += (size_t)snprintf(spec + n, sizeof spec - n, "%s:%s:%d:ssh=both,", nine_clusters[i].name,
                              nine_clusters[i].class, hosts);
        snprintf(path, sizeof path, "%s/%s", work, nine_clusters[i].name);
        if (mkdir(path, 0700) < 0) bench_die("mkdir");
        snprintf(path, sizeof path, "%s/%s/grid", work, nine_clusters[i].name);
        if (mkdir(path, 0700) < 0) bench_die("mkdir");
    }
    snprintf(command, sizeof command, "%s key new >/dev/null 2>&1", MOYAI);
    if (system(command) != 0) bench_die("cannot make a key");
    snprintf(command, sizeof command, "%ssshd=blocked >/dev/null", spec);
    is_up = true;
    if (nine_tool("grid-up", command) != 0) bench_die("the network could not be made");
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

FILE *nine_start_master(const char *const *words) {
    char place[40];
    const char *argv[8] = {self};
    const char *address = "10.77.2.1"; /* hongo0 */
    int out, n = 1;
    snprintf(place, sizeof place, "0.0.0.0:%d", PORT);
    start("hongo0", "hongo", (const char *[]){MOYAI, "endpoint", "--listen", place, NULL}, &out);
    FILE *f = fdopen(out, "r"); /* open until the end: it may say more */
    read_until(f, "moyai endpoint: serving");
    server = part[n_parts - 1].pid;
    set("MOYAI_GRID", "http://%s:%d/lab file:%s/home/grid", address, PORT, work);
    while (*words) argv[n++] = *words++;
    start("hongo1", "hongo", argv, &out);
    master = part[n_parts - 1].pid;
    f = fdopen(out, "r");
    read_until(f, "ready");
    return f;
}

int nine_master_status(void) {
    int status;
    if (waitpid(master, &status, 0) < 0) bench_die("waitpid");
    for (int i = 0; i < n_parts; i++)
        if (part[i].pid == master) part[i].pid = 0;
    kill(server, SIGTERM);
    if (WIFEXITED(status) && WEXITSTATUS(status) <= 1) return WEXITSTATUS(status);
    char command[160];
    snprintf(command, sizeof command, "tail -n 3 %s/*.log >&2", work);
    (void)!system(command);
    return 1;
}

void nine_new_turns(void) {
    int turns[2];
    if (pipe(turns) < 0 || fcntl(turns[0], F_SETFL, O_NONBLOCK) < 0) bench_die("pipe");
    set("NINE_TURN", "%d", turns[0]);
    set("NINE_BACK", "%d", turns[1]);
    bench_write(turns[1], "xxxxxxxxxxxxxxxx", WINDOW);
}

static void host_name(int cluster, int host, char name[32]) {
    if (host < n_hosts)
        snprintf(name, 32, "%s%d", nine_clusters[cluster].name, host);
    else
        snprintf(name, 32, "%s-gw", nine_clusters[cluster].name);
}

/* It says so in the log of its host. */
static void await_agent(const char *host) {
    char log[140], line[300];
    double until = bench_now() + AGENT_S;
    snprintf(log, sizeof log, "%s/%s.log", work, host);
    for (bool ready = false; !ready; usleep(20000)) {
        FILE *f = fopen(log, "re");
        while (!ready && f && fgets(line, sizeof line, f)) ready = strstr(line, " takes commands, ");
        if (f) fclose(f);
        errno = 0;
        if (bench_now() > until) bench_die("the agent of %s does not get ready", host);
    }
}

/* "KEY": "TEXT" in a line of JSON. */
static bool field(const char *line, const char *key, char *text, size_t size) {
    char pattern[40];
    int n = snprintf(pattern, sizeof pattern, "\"%s\": \"", key);
    const char *p = strstr(line, pattern);
    size_t length = p ? strcspn(p + n, "\"") : size;
    if (length >= size) return false;
    memcpy(text, p + n, length);
    text[length] = 0;
    return true;
}

/* Their ids, which the processes of their hosts are given as that of their witness, as those are that they start. */
static void ask_agents(int n) {
    char command[PATH_MAX + 400], line[2000], title[64];
    double until = bench_now() + AGENT_S;
    snprintf(command, sizeof command, "MOYAI_RUN_DIR=%s/run-ps %s/grid-exec hongo0 %s ps --json", work, GRID_TOOLS,
             MOYAI);
    for (; n_agents < n; usleep(100000)) {
        FILE *f = popen(command, "r");
        n_agents = 0;
        while (f && n_agents < n && fgets(line, sizeof line, f))
            if (field(line, "title", title, sizeof title) && strcmp(title, "moyai node") == 0 &&
                field(line, "host", agent[n_agents].host, sizeof agent[n_agents].host) &&
                field(line, "node", agent[n_agents].id, sizeof agent[n_agents].id))
                n_agents++;
        if (f) pclose(f);
        errno = 0;
        if (bench_now() > until) bench_die("only %d of %d agents are to be found", n_agents, n);
    }
}

void nine_start_agents(const int *clusters, int n) {
    int started = 0;
    for (int wait = 0; wait < 2; wait++)
        for (int i = 0; i < n; i++)
            for (int h = 0; h < n_hosts + nine_is_blocked(clusters[i]); h++) {
                char name[32];
                host_name(clusters[i], h, name);
                if (wait) {
                    await_agent(name);
                    continue;
                }
                const char *cluster = nine_clusters[clusters[i]].name;
                start(name, cluster, (const char *[]){MOYAI, "node", "--slots", "1", NULL}, NULL);
                part[n_parts - 1].term = true;
                started++;
            }
    ask_agents(started);
}

bool nine_is_blocked(int cluster) {
    return strcmp(nine_clusters[cluster].class, "blocked") == 0;
}

static void tell(int i, char c, int times) {
    for (int k = 0; k < times; k++) bench_write(part[i].in, &c, 1);
}

static void start_host(int cluster, const char *name, int workers) {
    start(name, nine_clusters[cluster].name, (const char *[]){self, "host", NULL}, NULL);
    part[n_parts - 1].cluster = cluster;
    part[n_parts - 1].workers = workers;
    tell(n_parts - 1, '+', workers);
}

void nine_start_gateway(int cluster) {
    char name[32];
    host_name(cluster, n_hosts, name);
    start_host(cluster, name, 1);
}

void nine_start_hosts(int cluster, int workers) {
    char name[32];
    if (nine_is_blocked(cluster)) workers--; /* the gateway's */
    for (int h = 0; h < n_hosts; h++) {
        int n = workers / n_hosts + (h < workers % n_hosts);
        host_name(cluster, h, name);
        if (n > 0) start_host(cluster, name, n);
    }
}

void nine_kill_all(int cluster) {
    for (int i = 0; i < n_parts; i++)
        if (part[i].cluster == cluster) tell(i, 'x', 1);
}

void nine_start_again(int cluster) {
    for (int i = 0; i < n_parts; i++)
        if (part[i].cluster == cluster) tell(i, '+', part[i].workers);
}

static int killed = -1;

void nine_kill_one(int cluster, unsigned random) {
    int at[MOST_HOSTS], n = 0;
    for (int i = 0; i < n_parts; i++)
        if (part[i].cluster == cluster) at[n++] = i;
    if (n == 0) return;
    killed = at[random % (unsigned)n];
    tell(killed, '-', 1);
}

void nine_replace_one(void) {
    if (killed >= 0) tell(killed, '+', 1);
    killed = -1;
}

const char *nine_path(const char *name, char path[160]) {
    snprintf(path, 160, "%s/%s", work, name);
    return path;
}

int nine_find(const char *name) {
    for (int i = 0; i < NINE_CLUSTERS; i++)
        if (strcmp(nine_clusters[i].name, name) == 0) return i;
    bench_die("no cluster %s", name);
}

const char *nine_missing(void) {
    if (geteuid() != 0) return "network namespaces with devices need root";
    if (system("PATH=$PATH:/usr/sbin; for p in ip nft unshare ssh sshd ssh-keygen python3; do "
               "command -v $p >/dev/null || exit 1; done; unshare -n true 2>/dev/null") != 0)
        return "it needs ip, nft, unshare, ssh, sshd and python3 (tools/install-deps grid), and network namespaces";
    return NULL;
}
