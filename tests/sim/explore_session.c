/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving of small worlds of two session ends. Without arguments the default set, a minute at most;
 * --long: larger ones; --only NAME; --budget STATES.
 */
#include "sim/explore.h"
#include "sim/pair.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TINY                                                                                                           \
    {.entries = 4, .streams = 2, .small = 4, .chunk = 4, .window = 16}

#define SMALL1 {{3}, .opens = true, .given = true}
#define TWO(...) {{__VA_ARGS__}, .opens = true, .given = true}
static const struct pair_cfg worlds[] = {
    {.name = "close0", .session = TINY, .room = 8, .end = {{{3,6}, .opens = true, .given=true, .closes=true}, {{6}, .given=true, .closes=true}}, .cuts = 1},
    {.name = "close", .session = TINY, .room = 8, .end = {{{3,6}, .opens = true, .given=true, .closes=true}, {{6,3}, .given=true, .closes=true}}, .cuts = 2},
    {.name = "closeo", .session = TINY, .room = 8, .end = {{{3}, .opens = true, .given=true, .closes=true}, {{6}, .opens=true, .given=true, .closes=true}}, .cuts = 2},
    {.name = "drop", .session = TINY, .room = 8, .end = {{{9,3}, .drops={1,1}, .opens = true, .given=true}, {{3}, .given=true}}, .cuts = 1},
    {.name = "drop2", .session = TINY, .room = 8, .end = {{{9,3}, .drops={1,1}, .opens = true, .given=true}, {{0}, .given=true}}, .cuts = 2},
    {.name = "credit", .session = TINY, .room = 8, .credit=4, .end = {{{3,6}, .opens = true, .given=true}, {{3}, .given=true}}, .cuts = 1},
    {.name = "time", .session = TINY, .room = 8, .end = {{{3,6}, .opens = true, .given=true}, {{6}, .given=true}}, .cuts = 2, .timeouts=1},
    {.name = "cross", .session = TINY, .room = 8, .end = {{{3}, .opens = true, .given=true}, {{6}, .given=true}}, .cuts = 1, .replaces=1, .parallel=true},
    {.name = "send", .session = TINY, .room = 8, .end = {{{3,6}, .opens = true}, {{6,3}}}, .cuts = 1},
};

int main(int argc, char **argv) {
    uint64_t budget = 3000000;
    const char *only = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--only") && i + 1 < argc) only = argv[++i];
        else if (!strcmp(argv[i], "--budget") && i + 1 < argc) budget = strtoull(argv[++i], NULL, 10);
        else return 2;
    }
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        if (only && strcmp(only, worlds[i].name)) continue;
        struct explore_model m = pair_model(&worlds[i]);
        struct explore_result r;
        clock_t t = clock();
        int rc = explore(&m, budget, stdout, &r);
        printf("%-12s %9" PRIu64 " states %10" PRIu64 " moves %7" PRIu64 " at rest, depth %3u, %5.1f s, %zu bytes: ", worlds[i].name, r.states, r.moves, r.rests, r.depth,
               (double)(clock() - t) / CLOCKS_PER_SEC, m.size);
        if (rc < 0) printf("%s\n", moyai_strerror(rc));
        else if (r.broken) printf("BROKEN: %s\n", r.why.text);
        else if (r.exhausted) printf("exhausted\n");
        else printf("not exhausted (budget %" PRIu64 ")\n", budget);
        fflush(stdout);
        if (rc < 0 || r.broken) return 1;
    }
    return 0;
}
