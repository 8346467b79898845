/* SPDX-License-Identifier: Apache-2.0 */
/*
 * islands: good schedules of permutation flow shops by a genetic algorithm on as many islands as there are. All are
 * equals: each may come, leave or die at any time, the first as well.
 *
 *     moyai run -n 4 islands ta031
 *     moyai run --grid DIR -n 2 islands ta031      two more, later
 */
#include "genetic.h"
#include "island.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "Usage: islands [OPTION]... INSTANCE\n"
    "Looks for short schedules of a permutation flow shop, together with all others that do so in the grid:\n"
    "    moyai run -n 4 islands ta031\n"
    "\n"
    "INSTANCE is ta001 to ta120 (Taillard's), or FILE or FILE:K, the K-th instance of a file in his format.\n"
    "\n"
    "  --seconds S        end after S seconds (default: 10, without --generations)\n"
    "  --generations N    end after N generations\n"
    "  --target M         end at a makespan of M or less\n"
    "  --population P     individuals of an island (default: 40)\n"
    "  --seed N           of the random numbers (default: 1)\n"
    "  --islands N        begin when N islands have come (default: 1)\n"
    "  --help             print this and exit\n";

static int bad(const char *what, const char *value) {
    fprintf(stderr, "islands: %s '%s'\nTry 'islands --help'.\n", what, value);
    return 2;
}

static bool number(const char *text, long long min, long long max, long long *ret) {
    char *end;
    errno = 0;
    *ret = strtoll(text, &end, 10);
    return errno == 0 && end != text && !*end && *ret >= min && *ret <= max;
}

int main(int argc, char **argv) {
    enum { GENERATIONS, TARGET, POPULATION, SEED, ISLANDS, NUMBERS, SECONDS, HELP };
    static const struct option options[] = {{"generations", required_argument, NULL, GENERATIONS},
                                            {"target", required_argument, NULL, TARGET},
                                            {"population", required_argument, NULL, POPULATION},
                                            {"seed", required_argument, NULL, SEED},
                                            {"islands", required_argument, NULL, ISLANDS},
                                            {"seconds", required_argument, NULL, SECONDS},
                                            {"help", no_argument, NULL, HELP},
                                            {0}};
    static const struct {
        long long min, max;
        const char *wanted;
    } range[NUMBERS] = {{1, INT64_MAX, "--generations takes a number, not"},
                        {1, INT32_MAX, "--target takes a makespan, not"},
                        {GENETIC_MIN_SIZE, GENETIC_MAX_SIZE, "--population takes 2 to 10000, not"},
                        {0, INT64_MAX, "--seed takes a number, not"},
                        {1, ISLAND_PLACES, "--islands takes 1 to 256, not"}};
    long long x[NUMBERS] = {0, 0, 40, 1, 1};
    double seconds = 0;
    char *end;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == HELP) {
            fputs(usage, stdout);
            return 0;
        }
        if (c == SECONDS) {
            seconds = strtod(optarg, &end);
            if (end == optarg || *end || !(seconds > 0 && seconds <= 1e8))
                return bad("--seconds takes seconds, not", optarg);
        } else if (c < 0 || c >= NUMBERS) {
            fputs("Try 'islands --help'.\n", stderr);
            return 2;
        } else if (!number(optarg, range[c].min, range[c].max, &x[c])) {
            return bad(range[c].wanted, optarg);
        }
    }
    if (optind == argc) return bad("an instance is missing, for example", "ta031");
    if (optind + 1 < argc) return bad("unexpected argument", argv[optind + 1]);
    struct instance *in;
    struct fail f;
    if (instance_open(&in, argv[optind], &f)) {
        fprintf(stderr, "islands: %s\n", f.text);
        return 2;
    }
    struct island_opts o = {.in = in,
                            .seconds = seconds > 0 || x[GENERATIONS] ? seconds : 10,
                            .generations = (uint64_t)x[GENERATIONS],
                            .target = (int32_t)x[TARGET],
                            .population = (int)x[POPULATION],
                            .seed = (uint64_t)x[SEED],
                            .islands = (int)x[ISLANDS]};
    int status = island_main(&o);
    instance_free(in);
    return status;
}
