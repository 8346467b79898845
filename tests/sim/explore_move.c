/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving of small worlds in which an object moves among nodes.
 *
 *   explore_move [--long] [--only NAME] [--budget STATES]
 *
 * Each node has the real rules (object/moving.h). Who has the object may offer it to any other, so many times in all.
 * What two nodes say to each other comes in order. A session may fail: what is under way in it is lost, and each end
 * notices some time, but before it takes anything of the next. A node may die: what it has said may come still, until
 * its end is noticed; or it may be taken for dead by all others, while it lives, and be reborn, once, before or after
 * they notice: then what it said under its former id may come still, too, between what it says under the other.
 *
 * Laws, after each move: at most one node has the object. At rest: nobody is in the midst of anything; and exactly one
 * has it, if nobody died, and at most one was taken for dead.
 */
#include "object/moving.h"
#include "tests/sim/explore_main.h"

#include "base/err.h"

#define NODES   3
#define QUEUE   6
#define CLAIMED 2u /* answers to claim are other letters */

struct world_cfg {
    const char *name;
    uint8_t n, offers, cuts, deaths, shuns;
};

enum { LIVES, SHUNNED, REBORN }; /* SHUNNED: is to notice that it was taken for dead */

struct small {
    uint8_t offers, cuts, deaths, shuns, overflow, faults;
    struct {
        uint8_t state, number, given, dropped; /* struct moving */
        uint8_t other, old;                    /* its other home, + 1; it is known by its former id */
        uint8_t mine;                          /* it has come when this node had its former id */
        uint8_t given_to, given_old;           /* as the other, of what was given */
        uint8_t first, never;                  /* settle has been said once; and it was lost */
        uint8_t busy, busy_old; /* as the other: of an offer that its claim has ended, and whose answer is to come */
        uint8_t hears;          /* what it asked has ended with this event, which its fiber is to notice */
    } at[NODES];
    uint8_t dead[NODES], born[NODES];
    uint8_t cut[NODES][NODES];          /* i is to notice that its session with k has failed: 1; that k is gone: 2 */
    uint8_t former[NODES][NODES];       /* i is to notice that the former id of k is gone */
    uint16_t q[2][NODES][NODES][QUEUE]; /* of its former id, from, to: a letter */
};

static uint32_t letter(uint32_t say, bool mine, uint32_t number) {
    return say | (uint32_t)mine << 4 | number << 5;
}

/* old: to its former id, which takes nothing any more. */
static void post(struct small *w, uint32_t from, uint32_t to, bool old, uint32_t what) {
    uint32_t k = 0;
    if (old || w->dead[to] || w->born[to] == SHUNNED || w->cut[from][to] || w->cut[to][from] == 2) return;
    while (k < QUEUE && w->q[0][from][to][k]) k++;
    if (k == QUEUE)
        w->overflow = 1;
    else
        w->q[0][from][to][k] = (uint16_t)what;
}

static bool asks(const struct small *w, uint32_t i) {
    return w->at[i].state == MOVING_OFFERED || w->at[i].state == MOVING_SETTLES;
}

/* Of what the other home k says, by its former id (old), or what becomes of it. */
static void step(struct small *w, uint32_t i, uint32_t k, bool old, enum moving_event ev, uint32_t number) {
    struct moving m = {(enum moving_state)w->at[i].state, w->at[i].number, w->at[i].given, w->at[i].dropped};
    const enum moving_state before = m.state;
    const uint64_t offer = moving_offer(&m);
    const enum moving_say say = moving_step(&m, ev, number);
    if (ev == MOVING_EV_ADOPT && say == MOVING_SAY_YES) {
        w->at[i].other = (uint8_t)(k + 1);
        w->at[i].old = old;
    }
    if (say == MOVING_SAY_YES || say == MOVING_SAY_NO) {
        post(w, i, k, old, letter(say + (ev == MOVING_EV_CLAIM ? CLAIMED : 0), false, 0));
    } else if (say) {
        const uint64_t n = say == MOVING_SAY_CLAIM ? m.number : offer;
        post(w, i, k, old, letter(say, say == MOVING_SAY_CLAIM && w->at[i].mine, (uint32_t)n));
    }
    if (ev == MOVING_EV_CLAIM && before == MOVING_OFFERED && m.state == MOVING_HERE) {
        w->at[i].busy = w->at[i].hears ? 0 : w->at[i].other;
        w->at[i].busy_old = w->at[i].hears ? 0 : w->at[i].old;
        post(w, i, w->at[i].other - 1u, w->at[i].old, letter(MOVING_SAY_DROP, false, (uint32_t)offer));
    }
    if (m.given && m.given != w->at[i].given) {
        w->at[i].given_to = w->at[i].other;
        w->at[i].given_old = w->at[i].old;
    }
    if (!m.given) w->at[i].given_to = w->at[i].given_old = 0;
    w->at[i].state = (uint8_t)m.state;
    w->at[i].number = (uint8_t)m.number;
    w->at[i].given = (uint8_t)m.given;
    w->at[i].dropped = (uint8_t)m.dropped;
    w->at[i].first = say == MOVING_SAY_SETTLE && before == MOVING_OFFERED;
    w->at[i].never = 0;
    if (m.state == MOVING_NONE || m.state == MOVING_HERE) w->at[i].other = w->at[i].old = w->at[i].mine = 0;
    if (m.state == MOVING_NONE) w->at[i].number = 0;
    if (!asks(w, i)) w->at[i].hears = 0;
    if (say != MOVING_SAY_SETTLE && say != MOVING_SAY_CLAIM) return;
    const bool gone = old ? !w->former[i][k] : (w->dead[k] || w->born[k] == SHUNNED) && !w->cut[i][k];
    if (gone && asks(w, i))
        w->at[i].hears = MOVING_EV_PEER_GONE;
    else if (gone)
        step(w, i, k, old, MOVING_EV_PEER_GONE, 0);
}

static void idle(struct small *w, uint32_t i, uint32_t k, bool old) {
    if (w->at[i].busy == k + 1 && w->at[i].busy_old == old) w->at[i].busy = w->at[i].busy_old = 0;
}

/* What it asked has ended: it hears that some time, and other requests before. */
static void ends(struct small *w, uint32_t i, enum moving_event ev) {
    if (asks(w, i) && !w->at[i].hears) w->at[i].hears = (uint8_t)ev;
}

/* A message of k comes to i. */
static void receive(struct small *w, uint32_t i, uint32_t k, bool old, uint32_t what) {
    static const uint8_t events[] = {
        [MOVING_SAY_ADOPT] = MOVING_EV_ADOPT,       [MOVING_SAY_SETTLE] = MOVING_EV_SETTLE,
        [MOVING_SAY_DROP] = MOVING_EV_DROP,         [MOVING_SAY_CLAIM] = MOVING_EV_CLAIM,
        [MOVING_SAY_YES] = MOVING_EV_YES,           [MOVING_SAY_NO] = MOVING_EV_NO,
        [MOVING_SAY_YES + CLAIMED] = MOVING_EV_YES, [MOVING_SAY_NO + CLAIMED] = MOVING_EV_NO};
    const uint32_t say = what & 15, state = w->at[i].state;
    const enum moving_event ev = (enum moving_event)events[say];
    const bool is_other = w->at[i].other == k + 1;
    uint32_t number = what >> 5;
    if (say == MOVING_SAY_YES || say == MOVING_SAY_NO) {
        if (is_other && w->at[i].old == old) ends(w, i, ev);
        idle(w, i, k, old);
        return;
    }
    if (say > MOVING_SAY_NO && (state != MOVING_CLAIMS || !is_other || w->at[i].old != old)) return;
    if (say == MOVING_SAY_CLAIM) {
        const bool by_former = old || (what >> 4 & 1);
        const bool given = state == MOVING_NONE && w->at[i].given_to == k + 1 && w->at[i].given_old == by_former;
        if (!given && !(is_other && w->at[i].old == by_former)) number = 0;
    }
    const uint8_t first = w->at[i].first, never = w->at[i].never;
    step(w, i, k, old, ev, number);
    if (asks(w, i)) w->at[i].first = first, w->at[i].never = never;
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
    M_REBORN = M_SHUN + NODES,
    M_HEAR = M_REBORN + NODES,
    M_OFFER = M_HEAR + NODES,
    M_RECV = M_OFFER + NODES * NODES,
    M_RECV_FORMER = M_RECV + NODES * NODES,
    M_CUT = M_RECV_FORMER + NODES * NODES,
    M_NOTICE = M_CUT + NODES * NODES,
    M_NOTICE_FORMER = M_NOTICE + NODES * NODES,
    MOVES = M_NOTICE_FORMER + NODES * NODES
};

static void spill(struct small *w, bool old, uint32_t i, uint32_t k) {
    memset(w->q[old][i][k], 0, sizeof w->q[old][i][k]);
}

/* All others are to hear that i is gone. */
static void end(struct small *w, const struct world_cfg *c, uint32_t i) {
    for (uint32_t k = 0; k < c->n; k++) {
        spill(w, false, k, i);
        w->cut[i][k] = 0;
        if (k != i && !w->dead[k]) w->cut[k][i] = 2;
    }
}

static void reborn(struct small *w, const struct world_cfg *c, uint32_t i) {
    w->born[i] = REBORN;
    for (uint32_t k = 0; k < c->n; k++) {
        if (k == i || w->dead[k]) continue;
        if (w->cut[k][i] == 2) { /* it hears of that later, of an id that has nothing to do with the other */
            w->former[k][i] = 1;
            w->cut[k][i] = 0;
            memcpy(w->q[1][i][k], w->q[0][i][k], sizeof w->q[0][i][k]);
        }
        spill(w, false, i, k);
        if (w->at[k].other == i + 1) w->at[k].old = 1;
        if (w->at[k].busy == i + 1) w->at[k].busy_old = 1;
        if (w->at[k].given_to == i + 1) w->at[k].given_old = 1;
    }
    w->at[i].busy = w->at[i].busy_old = 0;
    if (!w->at[i].other) return;
    w->at[i].mine = 1;
    if (asks(w, i)) /* what it was told before it heard that holds */
        ends(w, i, MOVING_EV_REBORN);
    else
        step(w, i, w->at[i].other - 1u, w->at[i].old, MOVING_EV_REBORN, 0);
}

static int node_move(struct small *w, const struct world_cfg *c, uint32_t what, uint32_t i) {
    switch (what) {
    case M_DIE:
        if (!w->deaths) return 0;
        w->deaths--;
        w->faults = 2;
        w->dead[i] = 1;
        memset(&w->at[i], 0, sizeof w->at[i]);
        w->born[i] = LIVES;
        end(w, c, i);
        for (uint32_t k = 0; k < c->n; k++) {
            w->former[i][k] = 0;
            spill(w, true, k, i);
        }
        return 1;
    case M_SHUN:
        if (!w->shuns || w->born[i]) return 0;
        w->shuns--;
        w->faults++;
        end(w, c, i);
        w->born[i] = SHUNNED;
        return 1;
    case M_REBORN:
        if (w->born[i] != SHUNNED) return 0;
        reborn(w, c, i);
        return 1;
    default: { /* M_HEAR */
        const enum moving_event ev = (enum moving_event)w->at[i].hears;
        if (!ev) return 0;
        w->at[i].hears = 0;
        step(w, i, w->at[i].other - 1u, w->at[i].old, ev, 0);
        return 1;
    }
    }
}

static int receives(struct small *w, bool old, uint32_t i, uint32_t k) {
    uint16_t *q = w->q[old][k][i];
    const uint16_t what = q[0];
    if (!what || (!old && w->cut[i][k] == 1) || (!old && w->born[k] == SHUNNED && w->cut[i][k] != 2)) return 0;
    memmove(q, q + 1, (QUEUE - 1) * sizeof *q);
    q[QUEUE - 1] = 0;
    receive(w, i, k, old, what);
    return 1;
}

static int notices(struct small *w, uint32_t i, uint32_t k) {
    const uint8_t how = w->cut[i][k];
    if (!how) return 0;
    w->cut[i][k] = 0;
    if (how == 2) spill(w, false, k, i);
    idle(w, i, k, false);
    if (w->at[i].other != k + 1 || w->at[i].old) return 1;
    if (asks(w, i))
        ends(w, i, how == 2 ? MOVING_EV_PEER_GONE : w->at[i].never ? MOVING_EV_NEVER : MOVING_EV_UNREACHABLE);
    else
        step(w, i, k, false, how == 2 ? MOVING_EV_PEER_GONE : MOVING_EV_UNREACHABLE, 0);
    return 1;
}

/* The session fails: does a settle said once not come to be executed? */
static void settle_lost(struct small *w, uint32_t i, uint32_t k) {
    for (uint32_t j = 0; j < QUEUE; j++)
        if (w->at[i].first && w->at[i].other == k + 1 && (w->q[0][i][k][j] & 15) == MOVING_SAY_SETTLE)
            w->at[i].never = 1;
}

static int pair_move(struct small *w, const struct world_cfg *c, uint32_t what, uint32_t i, uint32_t k) {
    if (i == k || i >= c->n || k >= c->n || w->dead[i]) return 0;
    const bool shunned = w->born[i] == SHUNNED || w->born[k] == SHUNNED;
    switch (what) {
    case M_OFFER:
        if (!w->offers || w->at[i].state != MOVING_HERE || w->at[i].busy || w->dead[k] || w->cut[i][k] || shunned)
            return 0;
        w->offers--;
        w->at[i].other = (uint8_t)(k + 1);
        step(w, i, k, false, MOVING_EV_OFFER, 0);
        return 1;
    case M_RECV: /* from k; of a session that has not failed, as far as i knows */
        return receives(w, false, i, k);
    case M_RECV_FORMER:
        return receives(w, true, i, k);
    case M_CUT:
        if (i > k || !w->cuts || w->dead[k] || w->cut[i][k] || w->cut[k][i] || shunned) return 0;
        w->cuts--;
        settle_lost(w, i, k);
        settle_lost(w, k, i);
        spill(w, false, i, k);
        spill(w, false, k, i);
        w->cut[i][k] = w->cut[k][i] = 1;
        return 1;
    case M_NOTICE:
        return notices(w, i, k);
    default: /* M_NOTICE_FORMER */
        if (!w->former[i][k]) return 0;
        w->former[i][k] = 0;
        spill(w, true, k, i);
        idle(w, i, k, true);
        if (w->at[i].other != k + 1 || !w->at[i].old) return 1;
        if (asks(w, i))
            ends(w, i, MOVING_EV_PEER_GONE);
        else
            step(w, i, k, true, MOVING_EV_PEER_GONE, 0);
        return 1;
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
        if (w->at[i].other || w->at[i].busy)
            return err_set(why, MOYAI_EINTERNAL, "node %" PRIu32 " does not come to an end", i), false;
    }
    if (w->faults < 2 && have != 1) return err_set(why, MOYAI_EINTERNAL, "nobody has the object"), false;
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
    w->at[0].state = MOVING_HERE;
}

static void tell(void *world, const void *cfg, uint32_t m, char *text, size_t n) {
    static const char *const one[] = {"dies", "is taken for dead", "is reborn",
                                      "hears what has become of what it asked"};
    static const char *const says[] = {"", "adopt", "settle", "drop", "claim", "yes", "no", "yours", "mine"};
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
        snprintf(text, n, "%" PRIu32 " hears %s of %" PRIu32, i, says[w->q[0][k][i][0] & 15], k);
        break;
    case M_RECV_FORMER:
        snprintf(text, n, "%" PRIu32 " hears %s of %" PRIu32 ", by its former id", i, says[w->q[1][k][i][0] & 15], k);
        break;
    case M_NOTICE_FORMER:
        snprintf(text, n, "%" PRIu32 " notices the end of the former id of %" PRIu32, i, k);
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
    {.name = "twice", .n = 3, .offers = 2, .shuns = 2},
    {.name = "all", .n = 3, .offers = 2, .cuts = 1, .deaths = 1, .shuns = 1},
    {.name = "more", .n = 3, .offers = 3, .cuts = 2, .deaths = 1, .shuns = 1},
    {.name = "longer", .n = 3, .offers = 3, .cuts = 1, .shuns = 2},
};
#define LARGER 2u

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
