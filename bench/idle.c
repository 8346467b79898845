/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does an idle grid cost? 500 processes join one grid, each calls the master once, so that a link and a session
 * are there, and then does nothing. The figure is the milliseconds of processor time that all of them together use in
 * 10 s; beside it the private memory of one.
 */
#include "bench/bench.h"
#include "bench/pair.h"

#include <dirent.h>
#include <spawn.h>

#define PROCESSES 500
#define SECONDS   10

extern char **environ;

struct master {
    int here;
};

static int hello(moyai_request *rq, void *self) {
    struct master *m = self;
    int64_t number;
    if (moyai_args(rq, MOYAI_INTO(&number)) < 0) return moyai_raise(rq, MOYAI_EARGS, "hello(number)");
    m->here++;
    return moyai_return(rq, MOYAI_ARGS(number));
}

static const struct moyai_method methods[] = {{"hello", hello}, {NULL, NULL}};
static const struct moyai_class master_class = MOYAI_CLASS("Master", methods, NULL);

static int child(int64_t number) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    moyai_node *n = pair_node();
    struct pair p = {.node = n};
    int rc = moyai_lookup_wait(n, "master", 120 * MOYAI_SEC, &p.ref);
    int64_t answer;
    if (rc == 0) rc = moyai_call(p.ref, "hello", MOYAI_ARGS(number), MOYAI_INTO(&answer), NULL);
    if (rc < 0) pair_die(&p, rc);
    if (answer != number) bench_die("wrong answer");
    moyai_node_serve(n, MOYAI_FOREVER);
    return 0;
}

/* Nanoseconds on a processor of all threads of a process. */
static double cpu(pid_t pid) {
    char path[300];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    if (!d) bench_die("%s", path);
    double sum = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", (int)pid, e->d_name);
        FILE *f = fopen(path, "r");
        double ns;
        if (!f || fscanf(f, "%lf", &ns) != 1) bench_die("%s", path);
        fclose(f);
        sum += ns;
    }
    closedir(d);
    return sum;
}

static double private_memory(pid_t pid) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f) bench_die("%s", path);
    double sum = 0, kib;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "Private_Clean: %lf", &kib) == 1 || sscanf(line, "Private_Dirty: %lf", &kib) == 1) sum += kib;
    fclose(f);
    return sum * 1024;
}

int main(int argc, char **argv) {
    if (argc == 2) return child(atoll(argv[1]));
    struct pair pair;
    pair_grid(&pair);
    static pid_t pid[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        char *args[] = {argv[0], number, NULL};
        if ((errno = posix_spawn(&pid[i], "/proc/self/exe", NULL, NULL, args, environ))) bench_die("posix_spawn");
    }
    pair.node = pair_node();
    struct master m = {0};
    moyai_ref *ref;
    if (moyai_object_new(pair.node, &master_class, &m, &ref, NULL) < 0 || moyai_register(ref, "master") < 0)
        bench_die("cannot register");
    double start = bench_now();
    while (m.here < PROCESSES) {
        moyai_sleep(pair.node, 20 * MOYAI_MS);
        if (bench_now() - start > 120) bench_die("only %d of %d came", m.here, PROCESSES);
    }
    printf("%d processes have called the master within %.2f s of its registration\n", PROCESSES, bench_now() - start);
    moyai_sleep(pair.node, 2 * MOYAI_SEC); /* acknowledgements, progress threads falling asleep */
    double before = 0, after = 0;
    for (int i = 0; i < PROCESSES; i++) before += cpu(pid[i]);
    moyai_sleep(pair.node, SECONDS * MOYAI_SEC);
    for (int i = 0; i < PROCESSES; i++) after += cpu(pid[i]);
    static double memory[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) memory[i] = private_memory(pid[i]);
    bench_sort(memory, PROCESSES);
    for (int i = 0; i < PROCESSES; i++) kill(pid[i], SIGKILL);
    for (int i = 0; i < PROCESSES; i++) waitpid(pid[i], NULL, 0);
    moyai_ref_unref(ref);
    moyai_node_free(pair.node);
    pair_remove(&pair);
    printf("private memory of an idle process: %.2f MiB median, %.2f MiB most\n", memory[PROCESSES / 2] / (1 << 20),
           memory[PROCESSES - 1] / (1 << 20));
    printf("milliseconds of processor time of all %d in %d s:\n", PROCESSES, SECONDS);
    const struct bench_demand d[] = {{NULL, (after - before) * 1e-6, 50, true},
                                     {"memory", memory[PROCESSES / 2] / (1 << 20), 2, true}};
    return bench_end(d, 2);
}
