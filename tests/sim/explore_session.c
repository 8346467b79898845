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
#include "sim/pair.h"
#include "tests/sim/explore_main.h"

#define TINY                                                                                                           \
    { .entries = 4, .streams = 2, .small = 4, .chunk = 4, .window = 16 }
#define WORLD(...) .session = TINY, .room = 32, __VA_ARGS__
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
    {.name = "credit", WORLD(.end = {{GIVES(3, 6), .opens = true}, {GIVES(3)}}, .cuts = 1), .credit = 28},
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
    {.name = "L-frames", .session = TINY, .room = 20, .end = {{GIVES(3, 6), .opens = true}, {GIVES(6, 3)}}, .cuts = 2},
    {.name = "L-higher", .session = TINY, .room = 32, .end = {{GIVES(3, 6)}, {GIVES(6, 3), .opens = true}}, .cuts = 3},
    {.name = "L-both",
     WORLD(.end = {{GIVES(3, 6), .opens = true}, {GIVES(6, 3), .opens = true}}, .cuts = 2, .crashes = 1)},
    {.name = "L-late", WORLD(.end = {{GIVES(3, 6), .opens = true}, {GIVES(6, 3)}}, .cuts = 2, .late = true)},
    {.name = "L-credit", WORLD(.end = {{GIVES(3, 6), .opens = true}, {GIVES(6, 3)}}, .cuts = 2), .credit = 28},
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

static struct explore_model model(size_t i, const char **called) {
    size_t n = sizeof usual / sizeof *usual;
    const struct pair_cfg *world = i < n ? &usual[i] : &larger[i - n];
    *called = world->name;
    return pair_model(world);
}

int main(int argc, char **argv) {
    static const struct explore_worlds worlds = {.usual = sizeof usual / sizeof *usual,
                                                 .larger = sizeof larger / sizeof *larger,
                                                 .model = model,
                                                 .budget = 5000000,
                                                 .long_budget = 15000000};
    return explore_main(argc, argv, &worlds);
}
