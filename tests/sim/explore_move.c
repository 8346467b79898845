/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving of small worlds in which an object moves among nodes.
 *
 *   explore_move [--long] [--only NAME] [--budget STATES]
 *
 * Each node has the real rules (object/moving.h). Who has the object may offer it to any other, so many times in all.
 * What two nodes say to each other comes in order. A session may fail: what is under way in it is lost, and each end
 * notices some time, but before it takes anything of the next. A node may die: what it has said may come still, until
 * its end is noticed; or it may be taken for dead by all others, while it lives, and be reborn. Who waits for an answer
 * that will not come may give up.
 *
 * Laws, after each move: at most one node has the object. At rest: exactly one has it, if nobody died or gave up; and
 * nobody is in the midst of anything.
 */
#include "object/moving.h"
#include "tests/sim/explore_main.h"

#include "base/err.h"

#define NODES 3
#define QUEUE 6

struct world_cfg {
    const char *name;
    uint8_t n, offers, cuts, deaths, shuns, lates;
};

struct small {
    uint8_t offers, cuts, deaths, shuns, lates, overflow, faults, zero;
    struct {
        uint8_t state, number, seen, other;
    } at[NODES];                        /* struct moving; and its other home, + 1 */
    uint8_t dead[NODES], reborn[NODES]; /* reborn: is to notice that it was taken for dead */
    uint8_t cut[NODES][NODES];          /* i is to notice that its session with k has failed: 1; that k is gone: 2 */
    uint8_t q[NODES][NODES][QUEUE];     /* from, to: enum moving_say, and 8 times its number */
};

static void post(struct small *w, uint32_t from, uint32_t to, uint32_t say, uint32_t number) {
    uint32_t k = 0;
    if (w->dead[to] || w->reborn[to] || w->cut[from][to] == 2 || w->cut[to][from] == 2) return;
    while (k < QUEUE && w->q[from][to][k]) k++;
    if (k == QUEUE)
        w->overflow = 1;
    else
        w->q[from][to][k] = (uint8_t)(say | number << 3);
}

static void step(struct small *w, uint32_t i, uint32_t k, enum moving_event ev, uint32_t number) {
    struct moving m = {(enum moving_state)w->at[i].state, w->at[i].number, w->at[i].seen};
    const enum moving_say say = moving_step(&m, ev, number);
    const bool answers = ev == MOVING_EV_ADOPT || ev == MOVING_EV_SETTLE;
    if (ev == MOVING_EV_ADOPT && say == MOVING_SAY_YES) w->at[i].other = (uint8_t)(k + 1);
    if (say) post(w, i, k, say, answers ? 0 : (uint32_t)moving_offer(&m));
    w->at[i].state = (uint8_t)m.state;
    w->at[i].number = (uint8_t)m.number;
    w->at[i].seen = (uint8_t)m.seen;
    if (m.state == MOVING_NONE || m.state == MOVING_HERE) w->at[i].other = 0;
    if (m.state == MOVING_NONE) w->at[i].number = 0;
}

/* A message of k comes to i. */
static void receive(struct small *w, uint32_t i, uint32_t k, uint32_t letter) {
    static const uint8_t events[] = {[MOVING_SAY_ADOPT] = MOVING_EV_ADOPT,
                                     [MOVING_SAY_SETTLE] = MOVING_EV_SETTLE,
                                     [MOVING_SAY_DROP] = MOVING_EV_DROP,
                                     [MOVING_SAY_YES] = MOVING_EV_YES,
                                     [MOVING_SAY_NO] = MOVING_EV_NO};
    const uint32_t say = letter & 7;
    const bool answer = say == MOVING_SAY_YES || say == MOVING_SAY_NO;
    const bool asks = w->at[i].state == MOVING_OFFERED || w->at[i].state == MOVING_SETTLES;
    if (answer && (!asks || w->at[i].other != k + 1)) return; /* it has given up meanwhile */
    step(w, i, k, (enum moving_event)events[say], letter >> 3);
}

static int laws(const struct small *w, const struct world_cfg *c, struct moyai_error *why) {
    uint32_t have = 0;
    for (uint32_t i = 0; i < c->n; i++) have += !w->dead[i] && w->at[i].state == MOVING_HERE;
    if (w->overflow) return err_set(why, MOYAI_EINTERNAL, "QUEUE is too small"), -1;
    if (have > 1) return err_set(why, MOYAI_EINTERNAL, "%" PRIu32 " nodes have the object", have), -1;
    return 1;
}

enum {
    M_DIE,
    M_SHUN = M_DIE + NODES,
    M_LATE = M_SHUN + NODES,
    M_REBORN = M_LATE + NODES,
    M_OFFER = M_REBORN + NODES,
    M_RECV = M_OFFER + NODES * NODES,
    M_CUT = M_RECV + NODES * NODES,
    M_NOTICE = M_CUT + NODES * NODES,
    MOVES = M_NOTICE + NODES * NODES
};

static void spill(struct small *w, uint32_t i, uint32_t k) {
    memset(w->q[i][k], 0, QUEUE);
}

/* All others are to hear that i is gone. */
static void end(struct small *w, const struct world_cfg *c, uint32_t i) {
    for (uint32_t k = 0; k < c->n; k++) {
        spill(w, k, i);
        w->cut[i][k] = 0;
        if (k != i && !w->dead[k]) w->cut[k][i] = 2;
    }
}

static int node_move(struct small *w, const struct world_cfg *c, uint32_t what, uint32_t i) {
    switch (what) {
    case M_DIE:
        if (!w->deaths) return 0;
        w->deaths--;
        w->faults = 1;
        w->dead[i] = 1;
        memset(&w->at[i], 0, sizeof w->at[i]);
        w->reborn[i] = 0;
        end(w, c, i);
        return 1;
    case M_SHUN:
        if (!w->shuns || w->reborn[i]) return 0;
        w->shuns--;
        w->faults = 1;
        end(w, c, i);
        w->reborn[i] = 1;
        return 1;
    case M_REBORN: /* it hears that from one that has noticed, and its sessions have all failed */
        for (uint32_t k = 0; k < c->n; k++)
            if (w->cut[k][i] == 2) return 0; /* to these it would have another name; so small a world has none */
        if (!w->reborn[i]) return 0;
        w->reborn[i] = 0;
        for (uint32_t k = 0; k < c->n; k++) spill(w, i, k);
        if (w->at[i].other) step(w, i, w->at[i].other - 1u, MOVING_EV_REBORN, 0);
        return 1;
    default: /* M_LATE */
        if (!w->lates || w->at[i].state != MOVING_SETTLES) return 0;
        w->lates--;
        w->faults = 1;
        step(w, i, w->at[i].other - 1u, MOVING_EV_LATE, 0);
        return 1;
    }
}

static int pair_move(struct small *w, const struct world_cfg *c, uint32_t what, uint32_t i, uint32_t k) {
    if (i == k || i >= c->n || k >= c->n || w->dead[i]) return 0;
    switch (what) {
    case M_OFFER:
        if (!w->offers || w->at[i].state != MOVING_HERE || w->dead[k] || w->cut[i][k] || w->reborn[i] || w->reborn[k])
            return 0;
        w->offers--;
        w->at[i].other = (uint8_t)(k + 1);
        step(w, i, k, MOVING_EV_OFFER, 0);
        return 1;
    case M_RECV: { /* from k; of a session that has not failed, as far as i knows */
        const uint8_t say = w->q[k][i][0];
        if (!say || w->cut[i][k] == 1 || (w->reborn[k] && w->cut[i][k] != 2)) return 0;
        memmove(w->q[k][i], w->q[k][i] + 1, QUEUE - 1);
        w->q[k][i][QUEUE - 1] = 0;
        receive(w, i, k, say);
        return 1;
    }
    case M_CUT:
        if (i > k || !w->cuts || w->dead[k] || w->cut[i][k] || w->cut[k][i] || w->reborn[i] || w->reborn[k]) return 0;
        w->cuts--;
        spill(w, i, k);
        spill(w, k, i);
        w->cut[i][k] = w->cut[k][i] = 1;
        return 1;
    default: { /* M_NOTICE */
        const uint8_t how = w->cut[i][k];
        if (!how) return 0;
        w->cut[i][k] = 0;
        if (how == 2) spill(w, k, i);
        if (w->at[i].other == k + 1) step(w, i, k, how == 2 ? MOVING_EV_PEER_GONE : MOVING_EV_UNREACHABLE, 0);
        return 1;
    }
    }
}

static int move(void *world, const void *cfg, uint32_t m, struct moyai_error *why) {
    struct small *w = world;
    const struct world_cfg *c = cfg;
    int rc = 0;
    if (m < M_OFFER) {
        if (m % NODES < c->n && !w->dead[m % NODES]) rc = node_move(w, c, m / NODES * NODES, m % NODES);
    } else {
        const uint32_t at = (m - M_OFFER) % (NODES * NODES);
        rc = pair_move(w, c, m - at, at / NODES, at % NODES);
    }
    return rc > 0 ? laws(w, c, why) : rc;
}

static bool must(const void *world, const void *cfg, uint32_t m) {
    (void)world, (void)cfg;
    return (m >= M_REBORN && m < M_OFFER) || (m >= M_RECV && m < M_CUT) || m >= M_NOTICE;
}

static bool rest(const void *world, const void *cfg, struct moyai_error *why) {
    const struct small *w = world;
    const struct world_cfg *c = cfg;
    uint32_t have = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (w->dead[i]) continue;
        have += w->at[i].state == MOVING_HERE;
        if (w->at[i].other) return err_set(why, MOYAI_EINTERNAL, "node %" PRIu32 " does not come to an end", i), false;
    }
    if (!w->faults && have != 1) return err_set(why, MOYAI_EINTERNAL, "nobody has the object"), false;
    return true;
}

static void settle(void *world, const void *cfg) {
    (void)world, (void)cfg; /* its only form */
}

static void init(void *world, const void *cfg) {
    struct small *w = world;
    const struct world_cfg *c = cfg;
    memset(w, 0, sizeof *w);
    w->offers = c->offers;
    w->cuts = c->cuts;
    w->deaths = c->deaths;
    w->shuns = c->shuns;
    w->lates = c->lates;
    w->at[0].state = MOVING_HERE;
}

static void tell(void *world, const void *cfg, uint32_t m, char *text, size_t n) {
    static const char *const one[] = {"dies", "is taken for dead", "gives up", "is reborn"};
    static const char *const says[] = {"", "adopt", "settle", "drop", "yes", "no"};
    const struct small *w = world;
    (void)cfg;
    if (m < M_OFFER) {
        snprintf(text, n, "%" PRIu32 " %s", m % NODES, one[m / NODES]);
        return;
    }
    const uint32_t at = (m - M_OFFER) % (NODES * NODES), i = at / NODES, k = at % NODES;
    switch (m - at) {
    case M_OFFER:
        snprintf(text, n, "%" PRIu32 " offers it to %" PRIu32, i, k);
        break;
    case M_RECV:
        snprintf(text, n, "%" PRIu32 " hears %s of %" PRIu32, i, says[w->q[k][i][0] & 7], k);
        break;
    case M_CUT:
        snprintf(text, n, "the session of %" PRIu32 " and %" PRIu32 " fails", i, k);
        break;
    default:
        snprintf(text, n, "%" PRIu32 " notices the end of %s %" PRIu32, i,
                 w->cut[i][k] == 2 ? "node" : "its session with", k);
    }
}

static const struct world_cfg cfgs[] = {
    {.name = "moves", .n = 3, .offers = 4},
    {.name = "cuts", .n = 3, .offers = 3, .cuts = 2},
    {.name = "deaths", .n = 3, .offers = 3, .deaths = 2},
    {.name = "shuns", .n = 3, .offers = 3, .shuns = 1, .cuts = 1},
    {.name = "lates", .n = 3, .offers = 3, .cuts = 2, .lates = 1},
    {.name = "all", .n = 3, .offers = 2, .cuts = 1, .deaths = 1, .shuns = 1, .lates = 1},
    {.name = "more", .n = 3, .offers = 4, .cuts = 2, .deaths = 1, .shuns = 1, .lates = 1},
};
#define LARGER 1u

static struct explore_model model(size_t i, const char **name) {
    *name = cfgs[i].name;
    return (struct explore_model){.size = (sizeof(struct small) + 7) / 8 * 8,
                                  .moves = MOVES,
                                  .cfg = &cfgs[i],
                                  .init = init,
                                  .move = move,
                                  .must = must,
                                  .rest = rest,
                                  .settle = settle,
                                  .tell = tell};
}

int main(int argc, char **argv) {
    const size_t n = sizeof cfgs / sizeof cfgs[0];
    const struct explore_worlds w = {
        .usual = n - LARGER, .larger = LARGER, .model = model, .budget = 2000000, .long_budget = 20000000};
    return explore_main(argc, argv, &w);
}
