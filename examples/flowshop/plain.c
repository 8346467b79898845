/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flowshop_plain: the solver's plain loop in one thread of one process, with no library around it. Benches compare
 * with it.
 */
#include "bound.h"
#include "check.h"
#include "greedy.h"
#include "instance.h"
#include "search.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char usage[] =
    "Usage: flowshop_plain [OPTION]... INSTANCE\n"
    "Solves a permutation flow shop by branch and bound in one thread.\n"
    "\n"
    "INSTANCE is ta001 to ta120 (Taillard's), or FILE or FILE:K, the K-th instance of a file in his format.\n"
    "\n"
    "  --greedy SECONDS  start from a schedule found within SECONDS (default: 1)\n"
    "  --seed N          random seed for that (default: 1)\n"
    "  --upper N         instead, look only for schedules shorter than N\n"
    "  --nodes N         give up after N nodes (exit status 1)\n"
    "  --help            print this and exit\n";

struct options {
    const char *name;
    double greedy;
    uint64_t seed, nodes;
    int32_t upper; /* 0: not given */
};

static double seconds_of(clockid_t clock) {
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool parse_number(const char *text, uint64_t max, uint64_t *ret) {
    char *end;
    errno = 0;
    unsigned long long x = strtoull(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || x > max) return false;
    *ret = x;
    return true;
}

/* 0, or the exit status with which to end. */
static int parse_options(struct options *o, int argc, char **argv, bool *stop) {
    enum { GREEDY = 256, SEED, UPPER, NODES, HELP };
    static const struct option options[] = {
        {"greedy", required_argument, NULL, GREEDY}, {"seed", required_argument, NULL, SEED},
        {"upper", required_argument, NULL, UPPER},   {"nodes", required_argument, NULL, NODES},
        {"help", no_argument, NULL, HELP},           {0}};
    *stop = true;
    *o = (struct options){.greedy = 1, .seed = 1, .nodes = UINT64_MAX};
    uint64_t x = 0;
    char *end;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        bool good = true;
        switch (c) {
        case GREEDY:
            o->greedy = strtod(optarg, &end);
            good = end != optarg && !*end && isfinite(o->greedy) && o->greedy >= 0;
            break;
        case SEED:
            good = parse_number(optarg, UINT64_MAX, &o->seed);
            break;
        case NODES:
            good = parse_number(optarg, UINT64_MAX, &o->nodes);
            break;
        case UPPER:
            good = parse_number(optarg, INT32_MAX, &x) && x > 0;
            o->upper = (int32_t)x;
            break;
        case HELP:
            (void)fputs(usage, stdout);
            return 0;
        default:
            (void)fputs(usage, stderr);
            return 2;
        }
        if (!good) {
            (void)fprintf(stderr, "flowshop_plain: '%s' is not a value for this option\n%s", optarg, usage);
            return 2;
        }
    }
    if (argc - optind != 1) {
        (void)fputs(usage, stderr);
        return 2;
    }
    o->name = argv[optind];
    *stop = false;
    return 0;
}

static int solve(const struct instance *in, const struct options *o) {
    uint16_t perm[INSTANCE_MAX_JOBS];
    struct fail f;
    int32_t best = -1;
    if (!o->upper) {
        double begin = seconds_of(CLOCK_MONOTONIC);
        best = greedy_search(in, o->greedy, o->seed, bound_instance(in), perm);
        if (best < 0) return -1;
        printf("start %d\nstart-seconds %.3f\n", best, seconds_of(CLOCK_MONOTONIC) - begin);
    }
    struct search *s = search_new(in);
    if (!s) return -1;
    search_upper(s, o->upper ? o->upper : best);
    search_whole(s);
    double begin = seconds_of(CLOCK_MONOTONIC), cpu_begin = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    enum search_state state = search_run(s, o->nodes);
    double seconds = seconds_of(CLOCK_MONOTONIC) - begin, cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_begin;
    if (search_best(s, NULL) >= 0) best = search_best(s, perm);
    if (best < 0)
        printf("makespan none below %d%s\n", o->upper, state == SEARCH_DONE ? "" : " so far");
    else
        printf("makespan %d%s\n", best, state == SEARCH_DONE ? " optimal" : "");
    double nodes = (double)search_nodes(s);
    printf("nodes %.0f\nseconds %.3f\ncpu-seconds %.3f\n", nodes, seconds, cpu);
    printf("nodes/s %.0f\nnodes/cpu-s %.0f\n", nodes / fmax(seconds, 1e-9), nodes / fmax(cpu, 1e-9));
    search_free(s);
    if (best >= 0 && check_solution(in, perm, (size_t)in->n, best, &f)) {
        (void)fprintf(stderr, "flowshop_plain: %s\n", f.text);
        return 1;
    }
    return state == SEARCH_DONE ? 0 : 1;
}

int main(int argc, char **argv) {
    struct options o;
    bool stop;
    int status = parse_options(&o, argc, argv, &stop);
    if (stop) return status;
    struct fail f;
    struct instance *in;
    if (instance_open(&in, o.name, &f)) {
        (void)fprintf(stderr, "flowshop_plain: %s\n", f.text);
        return 2;
    }
    printf("instance %s %dx%d\n", in->name, in->n, in->m);
    status = solve(in, &o);
    if (status < 0) (void)fprintf(stderr, "flowshop_plain: out of memory\n");
    instance_free(in);
    return status < 0 ? 1 : status;
}
