/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leave protocol as S2 prints it (figure 1 there), and what goes wrong in it: the reason why ours is another
 * (doc/spec/09-leave.md, section 7). Each flaw is searched breadth first, in the smallest network that has it, with
 * those before it repaired; that it is found, and how deep, is what is checked.
 *
 *   explore_printed [NAME]
 *
 * A model, which shares nothing with our machine. Numbers of lines are those of the figure. What it cannot mean as
 * printed is read as its prose says: l.36 and 45-47, q is p; l.48 is the else of l.43; l.50 only open ports; l.59 i is
 * not j.
 */
#include "base/err.h"
#include "sim/explore.h"

#include <inttypes.h>
#include <string.h>

#define NODES  4
#define QUEUE  16
#define NONE   0xff
#define BUDGET 4000000

enum repair {
    ALL_TREES = 1,  /* l.3, 6: no DATA to the children in any tree, not only to those in one's own (F1) */
    ONLY_UP = 2,    /* l.6: who leaves forwards to a parent only (F2) */
    ALL_CLOSED = 4, /* l.67: who finishes has closed all ports but the parent's (F3) */
    ACK_CLOSES = 8, /* l.55-57: also of who is in no tree (F4) */
};

struct world_cfg {
    const char *name;
    uint8_t n, edges[NODES], messages, repairs;
    bool closed;      /* law: nothing meets a closed port (F5) */
    bool from_parent; /* law: nobody has ACK from his parent (F8) */
    const char *law;  /* that is broken */
    uint32_t depth;   /* where, breadth first */
};

enum { DATA, SEEKROOT, ROOT, CANCEL, ACK };
static const char *const frame_names[] = {"DATA", "SEEKROOT", "ROOT", "CANCEL", "ACK"};

struct letter {
    uint8_t used, kind, i, zero; /* i: the tree */
};

struct process {
    uint8_t leaves, done, held, open; /* open: bits of nodes */
    uint8_t parent[NODES];            /* in each tree; NONE */
    uint8_t children[NODES];          /* bits */
};

struct small {
    uint8_t said, overflow, lost, stray, wrong_ack, zero[3];
    struct process p[NODES];
    struct letter q[NODES][NODES][QUEUE];
};

static void post(struct small *w, uint32_t from, uint32_t to, uint32_t kind, uint32_t i) {
    struct letter *q = w->q[from][to];
    uint32_t k = 0;
    while (k < QUEUE && q[k].used) k++;
    if (k == QUEUE)
        w->overflow = 1;
    else
        q[k] = (struct letter){.used = 1, .kind = (uint8_t)kind, .i = (uint8_t)i};
}

static bool is_child(const struct process *p, uint32_t port) {
    for (uint32_t i = 0; i < NODES; i++)
        if (p->children[i] & 1u << port) return true;
    return false;
}

static bool is_parent(const struct process *p, uint32_t port) {
    for (uint32_t i = 0; i < NODES; i++)
        if (p->parent[i] == port) return true;
    return false;
}

static void shut(struct process *p, uint32_t port) {
    p->open &= (uint8_t) ~(1u << port);
}

/* l.45-47, 63-65 */
static void close_unused(struct small *w, uint32_t id, uint32_t port) {
    struct process *p = &w->p[id];
    if (is_child(p, port) || is_parent(p, port)) return;
    post(w, id, port, ACK, 0);
    shut(p, port);
}

/* --- the rules ------------------------------------------------------------------------------------ */

/* l.03, 06 */
static bool may_send(const struct world_cfg *c, const struct process *p, uint32_t id, uint32_t port) {
    if (!(p->open & 1u << port)) return false;
    if (p->children[id] & 1u << port) return false;
    if (c->repairs & ALL_TREES && is_child(p, port)) return false;
    return !(c->repairs & ONLY_UP && p->leaves && !is_parent(p, port));
}

static void on_cancel(struct small *w, uint32_t id, uint32_t port, uint32_t i) {
    struct process *p = &w->p[id];
    if (p->parent[i] == port) {
        post(w, id, port, CANCEL, i);
        p->parent[i] = NONE;
        for (uint32_t q = 0; q < NODES; q++)
            if (p->children[i] & 1u << q) post(w, id, q, CANCEL, i);
    } else if (p->children[i] & 1u << port) {
        p->children[i] &= (uint8_t) ~(1u << port);
    } else if (id == i) {
        post(w, id, port, CANCEL, i);
    }
}

static void on_root(struct small *w, const struct world_cfg *c, uint32_t id, uint32_t port, uint32_t i) {
    struct process *p = &w->p[id];
    if (!p->leaves && i != id) {
        post(w, id, port, ROOT, i);
    } else if (p->children[i] & 1u << port) {
        p->children[i] &= (uint8_t) ~(1u << port);
        close_unused(w, id, port);
    } else if (i != id && p->leaves) {
        p->parent[i] = (uint8_t)port;
        for (uint32_t q = 0; q < c->n; q++) {
            if (q == port || !(p->open & 1u << q)) continue;
            post(w, id, q, ROOT, i);
            p->children[i] |= (uint8_t)(1u << q);
        }
    }
}

static int receive(struct small *w, const struct world_cfg *c, uint32_t from, uint32_t id) {
    struct process *p = &w->p[id];
    struct letter *q = w->q[from][id];
    if (!q[0].used) return 0;
    const struct letter l = q[0];
    memmove(&q[0], &q[1], (QUEUE - 1) * sizeof *q);
    q[QUEUE - 1] = (struct letter){0};
    if (p->done || !(p->open & 1u << from)) {
        w->lost |= l.kind == DATA;
        w->stray = l.kind != ACK;
        return 1;
    }
    switch (l.kind) {
    case DATA:
        p->held = (uint8_t)(p->held + p->leaves);
        break;
    case SEEKROOT:
        if (p->leaves) break;
        post(w, id, from, ROOT, id);
        p->children[id] |= (uint8_t)(1u << from);
        break;
    case CANCEL:
        on_cancel(w, id, from, l.i);
        break;
    case ROOT:
        on_root(w, c, id, from, l.i);
        break;
    case ACK:
        w->wrong_ack = is_parent(p, from);
        if (!is_child(p, from) && !(c->repairs & ACK_CLOSES)) break;
        for (uint32_t i = 0; i < NODES; i++) p->children[i] &= (uint8_t) ~(1u << from);
        shut(p, from);
        break;
    }
    return 1;
}

static void want(struct small *w, const struct world_cfg *c, uint32_t id) {
    struct process *p = &w->p[id];
    p->leaves = 1;
    for (uint32_t q = 0; q < c->n; q++)
        if (p->open & 1u << q) post(w, id, q, p->children[id] & 1u << q ? CANCEL : SEEKROOT, id);
}

/* l.58-65; i: whose tree is given up, one of several */
static int close_leaf(struct small *w, const struct world_cfg *c, uint32_t id, uint32_t i) {
    struct process *p = &w->p[id];
    bool another = false;
    for (uint32_t j = 0; j < c->n; j++) another = another || (j != i && p->parent[j] != NONE);
    if (p->parent[i] == NONE || p->children[i] || !another) return 0;
    const uint32_t port = p->parent[i];
    post(w, id, port, ROOT, i);
    p->parent[i] = NONE;
    close_unused(w, id, port);
    return 1;
}

/* l.66-70 */
static int finish(struct small *w, const struct world_cfg *c, uint32_t id) {
    struct process *p = &w->p[id];
    uint32_t tree = NONE, parents = 0;
    if (!p->leaves || p->done || p->held) return 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (p->parent[i] != NONE) {
            tree = i;
            parents++;
        }
    if (parents != 1 || p->children[tree]) return 0;
    const uint32_t port = p->parent[tree];
    if (c->repairs & ALL_CLOSED && p->open != 1u << port) return 0;
    post(w, id, port, ACK, 0);
    shut(p, port);
    p->parent[tree] = NONE;
    p->done = 1;
    return 1;
}

/* (*): those that do not want to leave are connected, and it is connected to one of them. */
static bool may_want(const struct small *w, const struct world_cfg *c, uint32_t id) {
    uint32_t stay = 0, seen = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (i != id && !w->p[i].leaves) stay |= 1u << i;
    if (w->p[id].leaves || !stay || !(w->p[id].open & stay)) return false;
    seen = stay & (0u - stay);
    for (uint32_t before = 0; before != seen;) {
        before = seen;
        for (uint32_t i = 0; i < c->n; i++)
            if (seen & 1u << i) seen |= w->p[i].open & stay;
    }
    return seen == stay;
}

/* --- moves ---------------------------------------------------------------------------------------- */

enum {
    M_WANT,
    M_FINISH = M_WANT + NODES,
    M_SAY = M_FINISH + NODES,
    M_FORWARD = M_SAY + NODES * NODES,
    M_LEAF = M_FORWARD + NODES * NODES,
    M_RECV = M_LEAF + NODES * NODES,
    MOVES = M_RECV + NODES * NODES
};

static int law(const struct small *w, const struct world_cfg *c, struct moyai_error *why) {
    if (w->overflow) return err_set(why, MOYAI_EINTERNAL, "QUEUE is too small"), -1;
    if (w->lost) return err_set(why, MOYAI_EINTERNAL, "a message is lost"), -1;
    if (c->closed && w->stray) return err_set(why, MOYAI_EINTERNAL, "a frame meets a closed port"), -1;
    if (c->from_parent && w->wrong_ack) return err_set(why, MOYAI_EINTERNAL, "ACK from a parent"), -1;
    for (uint32_t i = 0; i < c->n; i++)
        for (uint32_t k = 0; k < c->n; k++)
            for (uint32_t q = 0; q < QUEUE && w->p[i].done; q++)
                if (w->q[k][i][q].used && w->q[k][i][q].kind == DATA)
                    return err_set(why, MOYAI_EINTERNAL, "a message is lost"), -1;
    return 1;
}

static int move(void *world, const void *cfg, uint32_t m, struct moyai_error *why) {
    struct small *w = world;
    const struct world_cfg *c = cfg;
    int rc = 0;
    w->stray = w->wrong_ack = 0;
    if (m < M_SAY) {
        const uint32_t id = m % NODES;
        if (id >= c->n) return 0;
        if (m >= M_FINISH) {
            rc = finish(w, c, id);
        } else if (may_want(w, c, id)) {
            want(w, c, id);
            rc = 1;
        }
    } else {
        const uint32_t at = (m - M_SAY) % (NODES * NODES), id = at / NODES, k = at % NODES, what = m - at;
        struct process *p = &w->p[id];
        if (id >= c->n || k >= c->n) return 0;
        if (what == M_RECV) {
            rc = receive(w, c, id, k);
        } else if (what == M_LEAF) {
            rc = close_leaf(w, c, id, k);
        } else if (!p->done && may_send(c, p, id, k) && (what == M_SAY ? w->said < c->messages : p->held > 0)) {
            if (what == M_SAY)
                w->said++;
            else
                p->held--;
            post(w, id, k, DATA, 0);
            rc = 1;
        }
    }
    return rc > 0 ? law(w, c, why) : rc;
}

static bool must(const void *world, const void *cfg, uint32_t m) {
    (void)world, (void)cfg;
    return m >= M_FINISH && !(m >= M_SAY && m < M_FORWARD);
}

static bool rest(const void *world, const void *cfg, struct moyai_error *why) {
    const struct small *w = world;
    const struct world_cfg *c = cfg;
    for (uint32_t i = 0; i < c->n; i++)
        if (w->p[i].leaves && !w->p[i].done) return err_set(why, MOYAI_EINTERNAL, "somebody cannot leave"), false;
    return true;
}

static void settle(void *world, const void *cfg) {
    (void)world, (void)cfg;
}

static void init(void *world, const void *cfg) {
    struct small *w = world;
    const struct world_cfg *c = cfg;
    memset(w, 0, sizeof *w);
    for (uint32_t i = 0; i < NODES; i++) {
        memset(w->p[i].parent, NONE, sizeof w->p[i].parent);
        for (uint32_t k = 0; k < NODES; k++)
            if (k != i && c->edges[k < i ? k : i] & 1u << (k < i ? i : k)) w->p[i].open |= (uint8_t)(1u << k);
    }
}

static void tell(void *world, const void *cfg, uint32_t m, char *text, size_t n) {
    static const char *const pair[] = {"says a message to", "forwards a message to", "gives up the tree of",
                                       "'s frame is received by"};
    const struct small *w = world;
    (void)cfg;
    const uint32_t at = m >= M_SAY ? (m - M_SAY) % (NODES * NODES) : 0, i = at / NODES, k = at % NODES;
    if (m >= M_SAY)
        snprintf(text, n, "%" PRIu32 " %s %" PRIu32 " %s", i, pair[(m - M_SAY) / (NODES * NODES)], k,
                 m >= M_RECV && w->q[i][k][0].used ? frame_names[w->q[i][k][0].kind] : "");
    else
        snprintf(text, n, "%" PRIu32 " %s", m % NODES, m >= M_FINISH ? "finishes" : "wants to leave");
}

/* --- flaws ---------------------------------------------------------------------------------------- */

#define CHAIN    .n = 3, .edges = {2, 4}
#define TRIANGLE .n = 3, .edges = {6, 4}
#define CYCLE    .n = 4, .edges = {12, 12}
#define PAW      .n = 4, .edges = {14, 4}
#define LOST     .law = "a message is lost"
#define STUCK    .law = "somebody cannot leave"

static const struct world_cfg worlds[] = {
    {.name = "F1", CHAIN, .messages = 1, LOST, .depth = 8},
    {.name = "F3-lost", TRIANGLE, .messages = 1, .repairs = ALL_TREES, LOST, .depth = 12},
    {.name = "F3-stuck", TRIANGLE, STUCK, .depth = 18},
    {.name = "F4", TRIANGLE, .repairs = ALL_TREES | ONLY_UP | ALL_CLOSED, STUCK, .depth = 18},
    {.name = "F5", CHAIN, .closed = true, .law = "a frame meets a closed port", .depth = 6},
    {.name = "F6", CYCLE, .repairs = 15, STUCK, .depth = 26},
    {.name = "F7", PAW, .repairs = 15, STUCK, .depth = 27},
    {.name = "F8", PAW, .repairs = 15, .from_parent = true, .law = "ACK from a parent", .depth = 23},
    {.name = "repaired-3", TRIANGLE, .messages = 2, .repairs = 15},
};

/* F2: 0 and 1 leave, 1 over 2 and 0 over 1, and hand a message to and fro: after four more moves all is as before. */
static int livelock(void) {
    static const struct world_cfg chain = {.name = "F2", CHAIN, .messages = 1};
#define RECV(from, to) (M_RECV + (from)*NODES + (to))
    static const uint32_t first[] = {M_WANT + 0, M_WANT + 1, RECV(1, 2), RECV(2, 1),
                                     RECV(1, 0), RECV(1, 0), RECV(0, 1), M_SAY + 0 * NODES + 1,
                                     RECV(0, 1)};
    static const uint32_t then[] = {M_FORWARD + 1 * NODES + 0, RECV(1, 0), M_FORWARD + 0 * NODES + 1, RECV(0, 1)};
    static struct small w, before;
    struct moyai_error why = {0};
    init(&w, &chain);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (move(&w, &chain, first[i], &why) != 1) return printf("F2: move %zu: %s\n", i, why.text), 1;
    before = w;
    for (size_t i = 0; i < sizeof then / sizeof *then; i++)
        if (move(&w, &chain, then[i], &why) != 1) return printf("F2: move %zu of the circle: %s\n", i, why.text), 1;
    const bool same = memcmp(&w, &before, sizeof w) == 0;
    printf("%-10s a message goes to and fro for ever: %s\n", "F2", same ? "as before after 4 moves" : "no");
    return !same;
}

static int one(const struct world_cfg *c) {
    const struct explore_model m = {.size = sizeof(struct small),
                                    .moves = MOVES,
                                    .cfg = c,
                                    .init = init,
                                    .move = move,
                                    .must = must,
                                    .rest = rest,
                                    .settle = settle,
                                    .tell = tell};
    struct explore_result r;
    printf("%s\n", c->name);
    if (explore(&m, BUDGET, stdout, &r) < 0) return printf("%s: out of memory\n", c->name), 1;
    const bool as_known =
        c->law ? r.broken && strcmp(r.why.text, c->law) == 0 && r.depth == c->depth : r.exhausted && !r.broken;
    printf("%-10s %8" PRIu64 " states: %s", c->name, r.states, r.broken ? r.why.text : "nothing found");
    if (r.broken) printf(", at depth %" PRIu32, r.depth);
    printf("%s\n", as_known ? "" : ", WHICH IS NOT WHAT IS KNOWN OF IT");
    return !as_known;
}

int main(int argc, char **argv) {
    int failed = argc < 2 ? livelock() : 0;
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        if (argc < 2 || !strcmp(argv[1], worlds[i].name)) failed |= one(&worlds[i]);
    return failed;
}
