/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flowshop: proves optima of permutation flow shops with as many workers as there are.
 *
 *     moyai run -n 1 flowshop master ta011 ta012 : -n 4 flowshop worker
 */
#include "check.h"
#include "master.h"
#include "worker.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: flowshop master [OPTION]... INSTANCE...\n"
    "       flowshop worker [--pid-file FILE]\n"
    "       flowshop check INSTANCE MAKESPAN JOB...\n"
    "Proves optima of permutation flow shops by branch and bound. Start it with moyai run:\n"
    "    moyai run -n 1 flowshop master ta011 : -n 2 flowshop worker\n"
    "\n"
    "INSTANCE is ta001 to ta120 (Taillard's), or FILE or FILE:K, the K-th instance of a file in his format.\n"
    "\n"
    "  --greedy SECONDS   search a start value for SECONDS on each worker (default: 1)\n"
    "  --upper N          instead, look only for schedules shorter than N\n"
    "  --workers N        begin when N workers have come (default: 1)\n"
    "  --svg FILE         draw over time how many workers there were and what they did\n"
    "  --progress HOW     tty (default; lines where there is no terminal), lines, none\n"
    "  --pid-file FILE    of a worker: write its process id once it has joined\n"
    "  --help             print this and exit\n"
    "\n"
    "check recomputes the makespan of a schedule from the definition; jobs are numbered from 0.\n";

static int bad(const char *what, const char *value) {
    fprintf(stderr, "flowshop: %s '%s'\nTry 'flowshop --help'.\n", what, value);
    return 2;
}

static bool number(const char *text, long min, long max, long *ret) {
    char *end;
    errno = 0;
    *ret = strtol(text, &end, 10);
    return errno == 0 && end != text && !*end && *ret >= min && *ret <= max;
}

static int check_main(int argc, char **argv) {
    long makespan, job;
    struct instance *in;
    struct fail f;
    static uint16_t perm[INSTANCE_MAX_JOBS + 1];
    if (argc < 2) return bad("check needs an instance, a makespan and jobs:", argc ? argv[0] : "");
    if (instance_open(&in, argv[0], &f)) {
        fprintf(stderr, "flowshop: %s\n", f.text);
        return 2;
    }
    if (!number(argv[1], 0, INT32_MAX, &makespan)) return bad("no makespan:", argv[1]);
    size_t n = 0;
    for (int i = 2; i < argc && n <= INSTANCE_MAX_JOBS; i++) {
        if (!number(argv[i], 0, UINT16_MAX, &job)) return bad("no job:", argv[i]);
        perm[n++] = (uint16_t)job;
    }
    int rc = check_solution(in, perm, n, makespan, &f);
    puts(rc ? f.text : "correct");
    instance_free(in);
    return rc ? 1 : 0;
}

int main(int argc, char **argv) {
    enum { GREEDY = 256, UPPER, WORKERS, SVG, PROGRESS, PID_FILE, HELP };
    static const struct option options[] = {{"greedy", required_argument, NULL, GREEDY},
                                            {"upper", required_argument, NULL, UPPER},
                                            {"workers", required_argument, NULL, WORKERS},
                                            {"svg", required_argument, NULL, SVG},
                                            {"progress", required_argument, NULL, PROGRESS},
                                            {"pid-file", required_argument, NULL, PID_FILE},
                                            {"help", no_argument, NULL, HELP},
                                            {0}};
    struct master_opts o = {.greedy = 1, .progress = "tty"};
    const char *pid_file = NULL;
    long x;
    char *end;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case GREEDY:
            o.greedy = strtod(optarg, &end);
            if (end == optarg || *end || !isfinite(o.greedy) || o.greedy < 0)
                return bad("--greedy takes seconds, not", optarg);
            break;
        case UPPER:
            if (!number(optarg, 1, INT32_MAX, &x)) return bad("--upper takes a makespan, not", optarg);
            o.upper = (int32_t)x;
            break;
        case WORKERS:
            if (!number(optarg, 1, 100000, &x)) return bad("--workers takes a number, not", optarg);
            o.workers = (int)x;
            break;
        case SVG:
            o.svg = optarg;
            break;
        case PROGRESS:
            if (strcmp(optarg, "tty") != 0 && strcmp(optarg, "lines") != 0 && strcmp(optarg, "none") != 0)
                return bad("--progress takes tty, lines or none, not", optarg);
            o.progress = optarg;
            break;
        case PID_FILE:
            pid_file = optarg;
            break;
        case HELP:
            fputs(usage, stdout);
            return 0;
        default:
            fputs("Try 'flowshop --help'.\n", stderr);
            return 2;
        }
    }
    if (optind == argc) {
        fputs(usage, stderr);
        return 2;
    }
    const char *verb = argv[optind++];
    if (strcmp(verb, "worker") == 0)
        return optind < argc ? bad("unexpected argument", argv[optind]) : worker_main(pid_file);
    if (strcmp(verb, "check") == 0) return check_main(argc - optind, argv + optind);
    if (strcmp(verb, "master") != 0) return bad("master, worker or check, not", verb);
    if (optind == argc) return bad("master needs an instance, for example", "ta011");
    o.names = argv + optind;
    o.n_names = (size_t)(argc - optind);
    for (size_t i = 0; i < o.n_names; i++) { /* a wrong name is better heard of now than after an hour */
        struct fail f;
        struct instance *in;
        if (instance_open(&in, o.names[i], &f)) {
            fprintf(stderr, "flowshop: %s\n", f.text);
            return 2;
        }
        instance_free(in);
    }
    return master_main(&o);
}
