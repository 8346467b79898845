/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figure 5 of the paper (S0/5.1): a master and 10,000 tasks, while workers join, are killed and are cut off, cluster by
 * cluster, at the paper's times divided by 12, in the nine clusters of nine_net.h. Besides, every few seconds one
 * worker of any cluster is killed and another started, so that there are more deaths to measure than those of clusters.
 *
 *   figure5 [--quick] [--no-agents] [--seed N] [--svg FILE] [WORKERS]
 *
 * On each host runs an agent (moyai node), the witness of the processes there. With --no-agents there is none: then it
 * is for a worker's neighbours to agree that it has died, which takes longer (doc/spec/06-death.md), and which those of
 * a whole cluster cannot (6.6 there): the master's calls to them fail when they have been unreachable for a while.
 *
 * All processes of a machine have one clock and one space of pids; so hosts write down whom they kill and when, workers
 * what they begin, and the master what its calls come back with (figure5.h), and afterwards these are compared:
 *
 *  - no task is lost;
 *  - a call fails only if its worker was killed before, or is in the cluster that is cut off;
 *  - a task is begun again only after such a failure. All others are done once, though those who relayed their calls
 *    were killed under them;
 *  - how long after SIGKILL the master's call came back.
 */
#include "bench/figure5.h"

#include "bench/bench.h"
#include "bench/nine_net.h"
#include "timeline.h"

#include <poll.h>

#define TASKS        10000
#define QUICK_TASKS  2500
#define SCALE        12 /* the paper's seconds in one of ours */
#define QUICK_SCALE  48
#define WORKERS      60
#define END          2600 /* by when all tasks are to be done, as far as can be foreseen; the paper's seconds */
#define SINGLE_FROM  300
#define SINGLE_EVERY 60
#define SINGLE_AFTER 30 /* then another is started, when the death of the one has been dealt with */
#define SINGLE_CLEAR 40 /* no single worker is killed so shortly before or after something happens to a cluster */
#define MOST_PIDS    10000
#define MOST_SECONDS 3600
#define SLOW_S       0.1 /* deaths that were known so late are named */
#define GATHER_S     1.5 /* what happens to the workers of a cluster at once does so within this */

/* The workers of the paper's run; imade took no part. */
static const struct share {
    const char *cluster;
    int workers;
} shares[] = {{"chiba", 169}, {"hongo", 90},   {"okubo", 28},  {"suzuk", 72},
              {"kyoto", 69},  {"kototoi", 82}, {"istbs", 203}, {"tsubame", 65}};
enum { N_SHARES = sizeof shares / sizeof shares[0], ALL = 778, FIRST = 6 };

enum act { START, AGAIN, CUT, BACK, KILL };
static const struct event {
    int second;
    enum act act;
    int share; /* -1: the FIRST of them */
    const char *label;
} schedule[] = {
    {0, START, -1, "six clusters"},   {60, START, 6, "istbs joins"},   {280, START, 7, "tsubame joins"},
    {830, CUT, 7, "tsubame cut off"}, {980, BACK, 7, "tsubame again"}, {1320, KILL, 0, "chiba killed"},
    {1800, AGAIN, 0, "chiba again"},  {1950, KILL, 6, "istbs killed"}, {2350, AGAIN, 6, "istbs again"},
};
enum { N_EVENTS = sizeof schedule / sizeof schedule[0] };

static int workers[N_SHARES];
static double at[N_EVENTS]; /* when it was done */
static double began, healed;
static int tasks, scale;

/* ---- the run --------------------------------------------------------------------------------- */

static bool there[N_SHARES]; /* a single one of it may be killed */

static void start_share(int i) {
    int cluster = nine_find(shares[i].cluster);
    if (nine_is_blocked(cluster)) nine_start_gateway(cluster);
    nine_start_hosts(cluster, workers[i]);
    there[i] = true;
}

static void act(const struct event *e) {
    int cluster = e->share < 0 ? 0 : nine_find(shares[e->share].cluster);
    switch (e->act) {
    case START:
        nine_new_turns();
        for (int i = 0; e->share < 0 && i < FIRST; i++) start_share(i);
        if (e->share >= 0) start_share(e->share);
        break;
    case AGAIN:
        nine_start_again(cluster);
        there[e->share] = true;
        break;
    case CUT: /* all that leads into it and out of it are lines to hongo */
        there[e->share] = false;
        if (nine_tool("grid-cut", "tsubame hongo >/dev/null") != 0) bench_die("cannot cut off tsubame");
        break;
    case BACK: /* those that were cut off are ended where they are; nobody outside sees it */
        nine_kill_all(cluster);
        if (nine_tool("grid-heal", ">/dev/null") != 0) bench_die("cannot heal the network");
        healed = bench_now();
        nine_start_again(cluster);
        there[e->share] = true;
        break;
    case KILL:
        there[e->share] = false;
        nine_kill_all(cluster);
        break;
    }
}

/* Wait until that second. false: the master has ended before. */
static bool wait_until(FILE *master, double second) {
    for (;;) {
        double left = began + second - bench_now();
        if (left <= 0) return true;
        struct pollfd p = {.fd = fileno(master), .events = POLLIN};
        if (poll(&p, 1, (int)(left * 1e3) + 1) <= 0) continue;
        char line[300];
        if (!fgets(line, sizeof line, master)) return false;
        fputs(line, stdout);
    }
}

static void kill_single(unsigned *seed) {
    int i = (int)((unsigned)rand_r(seed) % N_SHARES);
    if (there[i]) nine_kill_one(nine_find(shares[i].cluster), (unsigned)rand_r(seed));
}

static void run_schedule(FILE *master, unsigned seed) {
    int single = SINGLE_FROM;
    began = bench_now();
    for (int i = 0; i <= N_EVENTS; i++) {
        int second = i < N_EVENTS ? schedule[i].second : END - 2 * SINGLE_CLEAR;
        for (; single < second; single += SINGLE_EVERY) {
            bool clear = single + SINGLE_CLEAR < second && (i == 0 || single > schedule[i - 1].second + SINGLE_CLEAR);
            if (!clear) continue;
            if (!wait_until(master, (double)single / scale)) return;
            kill_single(&seed);
            if (!wait_until(master, (double)(single + SINGLE_AFTER) / scale)) return;
            nine_replace_one();
        }
        if (i == N_EVENTS) return;
        if (!wait_until(master, (double)second / scale)) bench_die("all was done before \"%s\"", schedule[i].label);
        at[i] = bench_now();
        act(&schedule[i]);
        printf("%6.1f s  %s\n", at[i] - began, schedule[i].label);
        fflush(stdout);
    }
}

/* Milliseconds of a task, with which they are all done at the END. */
static int length_of_task(void) {
    double sum = 0;
    int n = 0, before = 0;
    for (int i = 0; i <= N_EVENTS; i++) {
        int second = i < N_EVENTS ? schedule[i].second : END;
        sum += (double)n * (second - before) / scale;
        before = second;
        if (i == N_EVENTS) break;
        const struct event *e = &schedule[i];
        int sign = e->act == CUT || e->act == KILL ? -1 : 1;
        for (int k = 0; e->share < 0 && k < FIRST; k++) n += workers[k];
        if (e->share >= 0) n += sign * workers[e->share];
    }
    return (int)(sum * 1e3 / tasks);
}

/* ---- what came of it ------------------------------------------------------------------------- */

static struct process {
    int pid, share;
    double joined, killed, ended, lost; /* 0: not */
    bool cut;                           /* lost with its cluster's network */
} processes[MOST_PIDS];
static int n_processes;
static struct timeline_sample samples[MOST_SECONDS];

static struct process *process(int pid) {
    for (int i = 0; i < n_processes; i++)
        if (processes[i].pid == pid) return &processes[i];
    if (n_processes == MOST_PIDS) bench_die("too many processes");
    processes[n_processes] = (struct process){.pid = pid, .share = -1};
    return &processes[n_processes++];
}

static FILE *open_file(const char *name) {
    char path[160];
    FILE *f = fopen(nine_path(name, path), "re");
    if (!f) bench_die("%s", path);
    return f;
}

static void read_kills(void) {
    FILE *f = open_file("kills");
    int pid;
    double t;
    while (fscanf(f, "%d %lf", &pid, &t) == 2) *(t < 0 ? &process(pid)->ended : &process(pid)->killed) = fabs(t);
    fclose(f);
}

static struct {
    int done, twice, failed, repeated, cut, killed, most_workers, most_links;
    double end;
} all;

static int second_of(double t) {
    int s = (int)(t - began);
    return s < 0 ? 0 : s < MOST_SECONDS ? s : MOST_SECONDS - 1;
}

/* How often each task was done goes into done[], how often its call failed into lost[]. */
static void read_log(int *done, int *lost) {
    FILE *f = open_file("log");
    char line[600], what, word[40];
    int pid, third, now = 0, n;
    int *change = calloc(MOST_SECONDS, sizeof *change);
    if (!change) bench_die("memory");
    while (fgets(line, sizeof line, f)) {
        double t;
        if (sscanf(line, "%c %lf %d%n", &what, &t, &pid, &n) < 3) bench_die("the master's log: %s", line);
        all.end = t;
        if (what == 'N') {
            if (pid > all.most_links) all.most_links = pid;
            continue;
        }
        struct process *p = process(pid);
        if (sscanf(line + n, " %39s", word) != 1) bench_die("the master's log: %s", line);
        third = atoi(word);
        if (what != 'J' && (third < 0 || third >= tasks)) bench_die("a task that there is not");
        switch (what) {
        case 'J':
            for (int i = 0; i < N_SHARES; i++)
                if (strcmp(shares[i].cluster, word) == 0) p->share = i;
            p->joined = t;
            if (++now > all.most_workers) all.most_workers = now;
            change[second_of(t)]++;
            break;
        case 'D':
            done[third]++;
            samples[second_of(t)].running++;
            break;
        case 'L':
            p->lost = t;
            now--;
            change[second_of(t)]--;
            lost[third]++;
            p->cut = p->share == 7 && t > at[3] && !(p->killed > 0 && p->killed < at[3]) && p->joined < at[3];
            if (p->cut) {
                all.cut++;
            } else if (p->killed > 0 && p->killed <= t) {
                all.killed++;
                if (t - p->killed > SLOW_S)
                    printf("known only after %.0f ms: %.1f s, %s%s", (t - p->killed) * 1e3, p->killed - began,
                           shares[p->share].cluster, strchr(line + n + 1, ' '));
            } else {
                all.failed++;
                printf("a worker in %s lives, and yet: %s", shares[p->share].cluster, line);
            }
            break;
        }
    }
    fclose(f);
    for (int s = 0, known = 0; s < MOST_SECONDS; s++) {
        known += change[s];
        samples[s].seconds = s;
        samples[s].workers = known;
    }
    free(change);
}

/* Each task was begun once, and once more for each time that its worker was lost (or less, if it did not get there). */
static void compare_runs(const int *done, const int *lost) {
    FILE *f = open_file("ran");
    struct figure5_ran r;
    int *begun = calloc((size_t)tasks, sizeof *begun);
    if (!begun) bench_die("memory");
    while (fread(&r, sizeof r, 1, f) == 1) {
        if (r.task < 0 || r.task >= tasks) bench_die("a task that there is not");
        begun[r.task]++;
    }
    fclose(f);
    for (int i = 0; i < tasks; i++) {
        all.done += done[i] == 1;
        all.repeated += lost[i] > 0;
        if (begun[i] <= 1 + lost[i] && begun[i] >= 1) continue;
        printf("task %d was begun %d times, and its call failed %d times\n", i, begun[i], lost[i]);
        all.twice++;
    }
    free(begun);
}

/* Of the workers killed with a cluster (event: which), or of the single ones (-1). Returns how many. */
static int say_times(int event, double *median, double *most) {
    static double x[MOST_PIDS], end[MOST_PIDS];
    int n = 0;
    for (int i = 0; i < n_processes; i++) {
        const struct process *p = &processes[i];
        int with = -1;
        if (p->killed <= 0 || p->lost < p->killed || p->cut) continue;
        for (int e = 0; e < N_EVENTS; e++)
            if (schedule[e].act == KILL && schedule[e].share == p->share && p->killed >= at[e] &&
                p->killed < at[e] + GATHER_S)
                with = e;
        if (with != event) continue;
        end[n] = (p->ended - p->killed) * 1e3;
        x[n++] = (p->lost - p->killed) * 1e3;
    }
    if (n == 0) return 0;
    bench_sort(end, (size_t)n);
    bench_sort(x, (size_t)n);
    *median = bench_percentile(x, (size_t)n, 0.5);
    *most = x[n - 1];
    printf("from SIGKILL to the master's error, %-12s %3d workers: median %.2f ms, 90 %% %.2f ms, most %.2f ms\n",
           event < 0    ? "one at once,"
           : event == 5 ? "all of chiba,"
                        : "all of istbs,",
           n, *median, bench_percentile(x, (size_t)n, 0.9), *most);
    printf("  by when the system had ended their processes: median %.2f ms, 90 %% %.2f ms, most %.2f ms\n",
           bench_percentile(end, (size_t)n, 0.5), bench_percentile(end, (size_t)n, 0.9), end[n - 1]);
    return n;
}

static void draw(const char *path) {
    struct timeline_event e[N_EVENTS];
    struct fail why;
    for (int i = 0; i < N_EVENTS; i++) {
        bool bad = schedule[i].act == CUT || schedule[i].act == KILL;
        e[i] = (struct timeline_event){at[i] - began, schedule[i].label, bad ? TIMELINE_LOST : TIMELINE_NOTE};
    }
    int seconds = second_of(all.end);
    char title[100];
    snprintf(title, sizeof title, "%d tasks, %d lost", tasks, tasks - all.done);
    struct timeline t = {.title = title,
                         .seconds = seconds,
                         .samples = samples,
                         .n_samples = (size_t)seconds + 1,
                         .events = e,
                         .n_events = N_EVENTS,
                         .names = {.workers = "workers known to the master",
                                   .running = "tasks done in a second",
                                   .lost = "cluster lost",
                                   .axis = "workers, tasks/s"}};
    if (timeline_write(&t, path, &why)) bench_die("%s", why.text);
    printf("the picture is in %s\n", path);
}

static int report(const char *svg) {
    int *done = calloc((size_t)tasks, sizeof *done), *lost = calloc((size_t)tasks, sizeof *lost);
    if (!done || !lost) bench_die("memory");
    read_kills();
    read_log(done, lost);
    compare_runs(done, lost);
    free(done);
    free(lost);
    printf("%d tasks done in %.1f s by up to %d workers, called over at most %d links of the master\n", all.done,
           all.end - began, all.most_workers, all.most_links);
    printf("calls that failed because their worker was killed: %d; because it was cut off: %d; tasks repeated: %d\n",
           all.killed, all.cut, all.repeated);
    printf("calls to live workers that failed: %d; tasks that ran again without a cause: %d\n", all.failed, all.twice);
    double median = NAN, most = NAN, cluster_median[2] = {NAN, NAN}, cluster_most[2] = {NAN, NAN};
    (void)say_times(-1, &median, &most);
    (void)say_times(5, &cluster_median[0], &cluster_most[0]);
    (void)say_times(7, &cluster_median[1], &cluster_most[1]);
    draw(svg);
    printf("tasks lost %d\n", tasks - all.done);
    const struct bench_demand d[] = {{NULL, median, 10, true},
                                     {"most", most, 100, true},
                                     {"cluster-median", fmax(cluster_median[0], cluster_median[1]), 10, true},
                                     {"cluster-most", fmax(cluster_most[0], cluster_most[1]), 100, true},
                                     {"live-failed", all.failed, 0, true},
                                     {"ran-twice", all.twice, 0, true},
                                     {"tasks-lost", tasks - all.done, 0, true}};
    return bench_end(d, sizeof d / sizeof d[0]);
}

static int run(int n, unsigned seed, const char *svg, bool agents) {
    char count[16], ms[16], path[160], line[300];
    nine_begin(2);
    setenv("FIGURE5_RAN", nine_path("ran", path), 1);
    setenv("FIGURE5_LOG", nine_path("log", path), 1);
    int sum = 0;
    for (int i = 0; i < N_SHARES; i++) {
        workers[i] = (n * shares[i].workers + ALL / 2) / ALL;
        if (workers[i] < 3) workers[i] = 3; /* one at each end of the lines */
        sum += workers[i];
    }
    snprintf(count, sizeof count, "%d", tasks);
    snprintf(ms, sizeof ms, "%d", length_of_task());
    printf("seed %u; %d workers, %d tasks of %s ms\n", seed, sum, tasks, ms);
    FILE *master = nine_start_master((const char *[]){"master", count, ms, NULL});
    int clusters[N_SHARES];
    for (int i = 0; i < N_SHARES; i++) clusters[i] = nine_find(shares[i].cluster);
    if (agents) nine_start_agents(clusters, N_SHARES);
    run_schedule(master, seed);
    while (fgets(line, sizeof line, master)) fputs(line, stdout);
    fclose(master);
    int status = nine_master_status();
    return status != 0 ? status : report(svg);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "worker") == 0) return figure5_worker(atoi(argv[2]));
    if (argc == 2 && strcmp(argv[1], "host") == 0) return nine_host();
    if (argc == 4 && strcmp(argv[1], "master") == 0) return figure5_master(atoi(argv[2]), atoi(argv[3]));
    int n = WORKERS;
    unsigned seed = (unsigned)time(NULL);
    bool agents = true;
    const char *svg = "figure5.svg";
    tasks = TASKS;
    scale = SCALE;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            tasks = QUICK_TASKS;
            scale = QUICK_SCALE;
        } else if (strcmp(argv[i], "--no-agents") == 0) {
            agents = false;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = (unsigned)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--svg") == 0 && i + 1 < argc) {
            svg = argv[++i];
        } else {
            n = atoi(argv[i]);
        }
    }
    if (n < 1 || n > ALL) {
        fprintf(stderr,
                "usage: figure5 [--quick] [--no-agents] [--seed N] [--svg FILE] [WORKERS], at most %d workers\n", ALL);
        return 2;
    }
    const char *why = nine_missing();
    if (why) {
        printf("skipped: %s\n", why);
        return 77;
    }
    int status = run(n, seed, svg, agents);
    nine_end();
    return status;
}
