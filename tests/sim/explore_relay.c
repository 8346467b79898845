/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All interleavings of small worlds of paths through relays (sim/line.h).
 *
 *   explore_relay [--long] [--only NAME] [--budget STATES]
 *
 * In each state: the machines' invariants; each message at most once, in order, whole, reported rightly; no frame of a
 * right peer refused, by a relay or a session. Where nothing more can happen: if there is a way both ends have the same
 * path and all is delivered, else neither has one; each pointer has its neighbours'; no frame is queued.
 */
#include "sim/line.h"
#include "tests/sim/explore_main.h"

#define LINE3    .nodes = 3, .links = {{0, 1}, {1, 2}}
#define TRIANGLE .nodes = 3, .links = {{0, 1}, {1, 2}, {0, 2}}
#define LINE4    .nodes = 4, .links = {{0, 1}, {1, 2}, {2, 3}}
#define DIAMOND  .nodes = 4, .links = {{0, 1}, {1, 3}, {0, 2}, {2, 3}}
#define GIVES(n) .messages = {n}

static const struct line_cfg usual[] = {
    /* nothing goes wrong; nodes send at any moment */
    {.name = "plain", LINE3, .end = {{GIVES(3), .opens = true}, {GIVES(3)}}, .tries = 1},
    /* a message each way, a break of either link, the relay crashes */
    {.name = "break",
     LINE3,
     .end = {{GIVES(3), .opens = true}, {GIVES(3)}},
     .cuts = 1,
     .crashes = 1,
     .tries = 2,
     .eager = true},
    {.name = "break-slow", LINE3, .end = {{GIVES(3), .opens = true}, {.opens = false}}, .cuts = 1, .tries = 2},
    /* two messages in a frame: more than anybody has credit for */
    {.name = "longer",
     LINE3,
     .end = {{.messages = {3, 3}, .opens = true}, {.messages = {3, 3}}},
     .longer = true,
     .cuts = 1,
     .tries = 2,
     .eager = true},
    /* both open: paths cross */
    {.name = "both", LINE3, .end = {{GIVES(3), .opens = true}, {GIVES(3), .opens = true}}, .tries = 2, .eager = true},
    /* an end crashes */
    {.name = "end",
     LINE3,
     .end = {{GIVES(3), .opens = true}, {GIVES(3)}},
     .crashes = 1,
     .crash_ends = true,
     .tries = 2,
     .eager = true},
    /* orderly */
    {.name = "close",
     LINE3,
     .end = {{GIVES(3), .opens = true, .closes = true}, {GIVES(3), .closes = true}},
     .tries = 2,
     .eager = true},
    /* another way: a path replaced while it works, and a relay that leaves */
    {.name = "replace",
     TRIANGLE,
     .end = {{GIVES(3), .opens = true}, {GIVES(3)}},
     .replaces = 1,
     .tries = 3,
     .eager = true},
    {.name = "withdraw",
     DIAMOND,
     .end = {{GIVES(3), .opens = true}, {.opens = false}},
     .withdraws = 1,
     .tries = 2,
     .eager = true},
};

static const struct line_cfg larger[] = {
    {.name = "L-replace",
     TRIANGLE,
     .end = {{GIVES(3), .opens = true}, {GIVES(3)}},
     .replaces = 1,
     .cuts = 1,
     .tries = 3,
     .eager = true},
    {.name = "L-leave",
     DIAMOND,
     .end = {{GIVES(3), .opens = true}, {GIVES(3)}},
     .withdraws = 1,
     .tries = 2,
     .eager = true},
    {.name = "L-break", LINE3, .end = {{GIVES(3), .opens = true}, {GIVES(3)}}, .cuts = 1, .crashes = 1, .tries = 2},
    {.name = "L-twice",
     LINE3,
     .end = {{GIVES(6), .opens = true}, {GIVES(3)}},
     .cuts = 2,
     .crashes = 1,
     .tries = 3,
     .eager = true},
    {.name = "L-line",
     LINE4,
     .end = {{GIVES(3), .opens = true}, {GIVES(3)}},
     .cuts = 1,
     .crashes = 1,
     .tries = 2,
     .eager = true},
    {.name = "L-diamond",
     DIAMOND,
     .end = {{GIVES(3), .opens = true}, {GIVES(3)}},
     .cuts = 1,
     .crashes = 1,
     .tries = 3,
     .eager = true},
    {.name = "L-withdraw",
     DIAMOND,
     .end = {{GIVES(3), .opens = true}, {GIVES(3)}},
     .withdraws = 1,
     .cuts = 1,
     .tries = 3,
     .eager = true},
    {.name = "L-both",
     DIAMOND,
     .end = {{GIVES(3), .opens = true}, {GIVES(3), .opens = true}},
     .cuts = 1,
     .tries = 2,
     .eager = true},
    {.name = "L-close",
     LINE4,
     .end = {{GIVES(3), .opens = true, .closes = true}, {GIVES(6), .closes = true}},
     .cuts = 1,
     .tries = 2,
     .eager = true},
};

static struct explore_model model(size_t i, const char **name) {
    const size_t n = sizeof usual / sizeof *usual;
    const struct line_cfg *cfg = i < n ? &usual[i] : &larger[i - n];
    *name = cfg->name;
    return line_model(cfg);
}

int main(int argc, char **argv) {
    static const struct explore_worlds worlds = {.usual = sizeof usual / sizeof *usual,
                                                 .larger = sizeof larger / sizeof *larger,
                                                 .model = model,
                                                 .budget = 1000000,
                                                 .long_budget = 4000000};
    return explore_main(argc, argv, &worlds);
}
