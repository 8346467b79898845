/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving of small worlds of two session ends (sim/pair.h says what may happen in one).
 *
 *   explore_session [--long] [--only NAME] [--budget STATES]
 *
 * The default set takes less than a minute. Each line: states, moves made, worlds at rest, the longest way to a state,
 * and whether all of it was seen. A broken law is told as the shortest story that leads to it, and ends the run.
 *
 * Sizes are scaled down: small = chunk = 4 bytes stand for 4 KiB and 64 KiB, a credit of 4 for a path shrunk to 4 KiB.
 */
#include "sim/explore.h"
#include "sim/pair.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TINY                                                                                                           \
    { .entries = 4, .streams = 2, .small = 4, .chunk = 4, .window = 16 }
#define WORLD(...) .session = TINY, .room = 8, __VA_ARGS__
#define GIVES(...) .messages = {__VA_ARGS__}, .given = true

static const struct pair_cfg usual[] = {
    /* both open at once, over one link or two, with breaks in between */
    {.name = "open", WORLD(.end = {{GIVES(3), .opens = true}, {GIVES(3), .opens = true}}, .cuts = 2, .parallel = true)},
    {.name = "open-late",
     WORLD(.end = {{GIVES(3), .opens = true}, {GIVES(3), .opens = true}}, .again = true, .cuts = 1, .parallel = true,
           .late = true)},
    /* two messages each way, one of them large; two breaks and a crash of either end */
    {.name = "crash", WORLD(.end = {{GIVES(3, 6), .opens = true}, {GIVES(6, 3)}}, .cuts = 2, .crashes = 1)},
    /* messages given at any moment */
    {.name = "send", WORLD(.end = {{.messages = {3, 6}, .opens = true}, {.messages = {6, 3}}}, .cuts = 1)},
    /* paths replaced while they work, at both ends at once: RESUMEs cross */
    {.name = "cross",
     WORLD(.end = {{GIVES(3), .opens = true}, {GIVES(6)}}, .cuts = 1, .replaces = 1, .parallel = true)},
    {.name = "cross-two", WORLD(.end = {{GIVES(3), .opens = true}, {GIVES(3)}}, .replaces = 2, .parallel = true)},
    /* late bytes of old paths */
    {.name = "late", WORLD(.end = {{GIVES(3), .opens = true}, {GIVES(6)}}, .cuts = 2, .late = true)},
    /* credit that suffices for one small message at a time */
    {.name = "credit", WORLD(.end = {{GIVES(3, 6), .opens = true}, {GIVES(3)}}, .cuts = 1), .credit = 4},
    /* a stream nobody reads, while small messages and a read one pass */
    {.name = "unread", WORLD(.end = {{GIVES(6, 3, 6), .unread = {true}, .opens = true}, {GIVES(3, 6)}}, .cuts = 1)},
    /* messages withdrawn at any moment */
    {.name = "drop", WORLD(.end = {{GIVES(9, 3), .drops = {true, true}, .opens = true}, {GIVES(3)}}, .cuts = 1)},
    {.name = "drop-twice",
     WORLD(.end = {{GIVES(9, 3), .drops = {true, true}, .opens = true}, {.opens = false}}, .cuts = 2)},
    /* closed by either end at any moment, also while opening */
    {.name = "close",
     WORLD(.end = {{GIVES(3, 6), .opens = true, .closes = true}, {GIVES(6), .closes = true}}, .cuts = 1)},
    {.name = "close-open",
     WORLD(.end = {{GIVES(3), .opens = true, .closes = true}, {GIVES(6), .opens = true, .closes = true}}, .again = true,
           .cuts = 1)},
    /* the time to find a path is over, at any moment */
    {.name = "time",
     WORLD(.end = {{GIVES(3), .opens = true, .closes = true}, {GIVES(6), .opens = true}}, .again = true, .cuts = 1,
           .timeouts = 1)},
};

static const struct pair_cfg larger[] = {
    {.name = "L-data", WORLD(.end = {{.messages = {3, 6}, .opens = true}, {.messages = {6, 3}}}, .cuts = 2)},
    {.name = "L-frames", .session = TINY, .room = 4, .end = {{GIVES(3, 6), .opens = true}, {GIVES(6, 3)}}, .cuts = 2},
    {.name = "L-higher", .session = TINY, .room = 8, .end = {{GIVES(3, 6)}, {GIVES(6, 3), .opens = true}}, .cuts = 3},
    {.name = "L-both",
     WORLD(.end = {{GIVES(3, 6), .opens = true}, {GIVES(6, 3), .opens = true}}, .cuts = 2, .crashes = 1)},
    {.name = "L-late", WORLD(.end = {{GIVES(3, 6), .opens = true}, {GIVES(6, 3)}}, .cuts = 2, .late = true)},
    {.name = "L-credit", WORLD(.end = {{GIVES(3, 6), .opens = true}, {GIVES(6, 3)}}, .cuts = 2), .credit = 4},
    {.name = "L-unread",
     WORLD(.end = {{GIVES(6, 3, 6), .unread = {true}, .opens = true}, {GIVES(6, 3), .unread = {true}}}, .cuts = 3)},
    {.name = "L-drop",
     WORLD(.end = {{GIVES(9, 3), .drops = {true, true}, .opens = true}, {GIVES(9), .drops = {true}}}, .cuts = 2)},
    {.name = "L-close",
     WORLD(.end = {{GIVES(3, 6), .opens = true, .closes = true}, {GIVES(6, 3), .closes = true}}, .cuts = 2)},
    {.name = "L-time",
     WORLD(.end = {{GIVES(3, 6), .opens = true, .closes = true}, {GIVES(6)}}, .cuts = 2, .timeouts = 2)},
    {.name = "L-cross",
     WORLD(.end = {{GIVES(3, 6), .opens = true}, {GIVES(6)}}, .cuts = 1, .replaces = 2, .parallel = true)},
};

struct options {
    const char *only;
    uint64_t budget;
    bool longer;
};

/* 0; 1: a law is broken, there was no memory, or the set should have been exhausted. */
static int run(const struct pair_cfg *worlds, size_t n, const struct options *o, bool must_exhaust) {
    for (size_t i = 0; i < n; i++) {
        if (o->only && strcmp(o->only, worlds[i].name)) continue;
        struct explore_model m = pair_model(&worlds[i]);
        struct explore_result r;
        clock_t start = clock();
        int rc = explore(&m, o->budget, stdout, &r);
        printf("%-10s %9" PRIu64 " states %10" PRIu64 " moves %6" PRIu64 " at rest, depth %3" PRIu32 ", %6.1f s: ",
               worlds[i].name, r.states, r.moves, r.rests, r.depth, (double)(clock() - start) / CLOCKS_PER_SEC);
        if (rc < 0) {
            printf("%s\n", moyai_strerror(rc));
        } else if (r.broken) {
            printf("broken: %s\n", r.why.text);
        } else if (r.exhausted) {
            printf("exhausted\n");
        } else {
            printf("not exhausted (budget %" PRIu64 ")\n", o->budget);
        }
        fflush(stdout);
        if (rc < 0 || r.broken || (must_exhaust && !r.exhausted)) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct options o = {.budget = 0};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--long")) {
            o.longer = true;
        } else if (!strcmp(argv[i], "--only") && i + 1 < argc) {
            o.only = argv[++i];
        } else if (!strcmp(argv[i], "--budget") && i + 1 < argc) {
            o.budget = strtoull(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: %s [--long] [--only NAME] [--budget STATES]\n", argv[0]);
            return 2;
        }
    }
    bool all = o.budget == 0; /* without a budget of the user's the default set must be seen whole */
    if (all) o.budget = o.longer ? 30000000 : 5000000;
    if (run(usual, sizeof usual / sizeof *usual, &o, all)) return 1;
    if (o.longer || o.only) return run(larger, sizeof larger / sizeof *larger, &o, false);
    return 0;
}
