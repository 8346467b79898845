/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving of small grids that locate: 3 or 4 nodes in a line, a ring, a star.
 *
 *   explore_locate [--long] [--only NAME] [--budget STATES]
 *
 * What may happen in any order: each node begins its look-up, wait or claim; a frame arrives; a link is cut (what is on
 * its way is lost) and each end notices; a node dies with it and its neighbours are told. Time passes only when
 * nothing is under way: answers come within their time (tests/sim/locate_soak.c is about when they do not); then the
 * next timers ring, of several nodes in any order.
 *
 * Laws: the machines' invariants; no frame refused; no answer names a node known dead; each look-up is answered once,
 * and finds what was in reach for all of its last ring; of claims one is held; at rest nothing is outstanding.
 *
 * Folding: what only bounds time (locate_settle) is made exact, and what links have paid is forgotten.
 */
#include "base/err.h"
#include "overlay/locate_ring.h"
#include "overlay/locate_text.h"
#include "overlay/locate_wire.h"
#include "tests/sim/explore_main.h"

#define NODES 5
#define EDGES 4
#define QUEUE 8
#define BYTES 80

enum task_kind {
    TASK_NONE,
    TASK_NODE,
    TASK_NAME,
    TASK_WAIT,
    TASK_CLAIM, /* of the name, for an object of its own number */
    TASK_HOLD,  /* the same, as moved: held at once */
};

struct task {
    uint8_t kind, target; /* node */
};

struct small_world {
    const char *name;
    uint32_t nodes, edges;
    uint8_t edge[EDGES][2];
    struct task task[NODES];
    uint8_t cuts;
    uint8_t dies;        /* node + 1, that may die once */
    uint8_t leaves;      /* it does not die, but leaves, and is cleared */
    bool fresh;          /* links come up as part of the story */
    bool hints;          /* look-ups begin with requests for hints; digests are lost */
    uint8_t memo[NODES]; /* node + 1, of which this one remembers that it has the name */
};

struct queue {
    uint8_t n, zero[7];
    struct {
        uint8_t type, len, zero[6];
        uint8_t bytes[BYTES];
    } frames[QUEUE];
};

struct edge {
    uint8_t up[2]; /* at each end */
    uint8_t cut, zero[5];
    struct queue to[2];
};

struct world {
    uint64_t now;
    uint8_t fate[NODES];             /* 0: not begun, 1: begun, 2: found, 3: not found, 4: dead, 5: held, 6: lost */
    uint8_t dead, cuts, quiet, told; /* quiet: times passed since a change; told: neighbours that know of the death */
    struct edge edges[EDGES];
    /* behind it: the machines */
};

enum {
    MOVE_BEGIN = 0,                     /* node */
    MOVE_TIME = MOVE_BEGIN + NODES,     /* node */
    MOVE_CLOCK = MOVE_TIME + NODES,     /* time passes */
    MOVE_ARRIVE = MOVE_CLOCK + 1,       /* edge, end */
    MOVE_CUT = MOVE_ARRIVE + 2 * EDGES, /* edge */
    MOVE_DOWN = MOVE_CUT + EDGES,       /* edge, end */
    MOVE_UP = MOVE_DOWN + 2 * EDGES,    /* edge */
    MOVE_DIE = MOVE_UP + EDGES,         /* once */
    MOVE_TELL = MOVE_DIE + 1,           /* node */
    MOVES = MOVE_TELL + NODES,
};

static const uint8_t name[16] = {0x55, [15] = 1};

static void id_put(uint8_t id[16], uint32_t node) {
    memset(id, 0, 16);
    id[0] = (uint8_t)(0xa0 + node);
    id[15] = 1;
}
static void object_put(uint8_t id[16], uint32_t node) {
    memset(id, 0, 16);
    id[0] = (uint8_t)(0x60 + (node * 7 + 3) % 5); /* not in the order of the nodes */
    id[15] = 1;
}

static struct locate_cfg cfg_of(const struct small_world *c, uint32_t node) {
    struct locate_cfg cfg = {.seed = node,
                             .links = 3,
                             .told = 1,
                             .names = 1,
                             .requests = 8,
                             .lookups = 1,
                             .routes = 3,
                             .dead = 1,
                             .rate = 1000000,
                             .burst = 1000,
                             .interest = 3 * MOYAI_SEC,
                             .delta_every = 1};
    if (c->hints) cfg.digest_every = 3600 * MOYAI_SEC;
    id_put(cfg.self.b, node);
    return cfg;
}

static size_t machine_size(const struct small_world *c) {
    const struct locate_cfg cfg = cfg_of(c, 0);
    return locate_size(&cfg);
}
static struct locate *machine(const struct world *w, const struct small_world *c, uint32_t node) {
    return (struct locate *)((char *)(uintptr_t)w + ((sizeof *w + 15) & ~(size_t)15) + node * machine_size(c));
}

/* The link of a node on an edge has the number of the edge, taken among its own. */
static uint32_t link_of(const struct small_world *c, uint32_t node, uint32_t edge) {
    uint32_t n = 0;
    for (uint32_t e = 0; e < edge; e++) n += c->edge[e][0] == node || c->edge[e][1] == node;
    return n;
}
static uint32_t edge_of(const struct small_world *c, uint32_t node, uint32_t link, uint32_t *end) {
    for (uint32_t e = 0; e < c->edges; e++) {
        for (*end = 0; *end < 2; (*end)++)
            if (c->edge[e][*end] == node && link_of(c, node, e) == link) return e;
    }
    abort();
}

static int law(struct moyai_error *why, const char *text, uint32_t node) {
    err_set(why, MOYAI_EINVAL, "node %" PRIu32 ": %s", node, text);
    return -1;
}

static enum locate_how end_of(const struct small_world *c) {
    return c->leaves ? LOCATE_CLEARED : LOCATE_DEAD;
}

static int effects(struct world *w, const struct small_world *c, uint32_t node, struct moyai_error *why) {
    struct locate_effect fx;
    struct locate *l = machine(w, c, node);
    while (locate_next(l, &fx)) {
        uint8_t *fate = &w->fate[node];
        switch (fx.kind) {
        case LOCATE_FX_FOUND:
            if (*fate != 1) return law(why, "a second answer", node);
            if (locate_dead(l, &fx.node, w->now)) return law(why, "found a node known dead", node);
            *fate = 2;
            break;
        case LOCATE_FX_NOT_FOUND:
            if (*fate != 1) return law(why, "a second answer", node);
            *fate = 3;
            break;
        case LOCATE_FX_DEAD:
            if (*fate != 1 || !w->dead) return law(why, "a live node was called dead", node);
            if (fx.how != end_of(c)) return law(why, "its end is told as another", node);
            *fate = 4;
            break;
        case LOCATE_FX_NAME_HELD:
            *fate = 5;
            w->quiet = 0;
            break;
        case LOCATE_FX_NAME_LOST:
            *fate = 6;
            break;
        case LOCATE_FX_EVIDENCE:
            if (!w->dead) return law(why, "evidence of nobody's death", node);
            if (fx.how != end_of(c)) return law(why, "its end is known as another", node);
            break;
        }
    }
    return locate_check(l, why) ? 1 : -1;
}

/* Step, tell, and send all that can be sent. */
static int turn(struct world *w, const struct small_world *c, uint32_t node, struct locate_event *ev,
                struct moyai_error *why) {
    static struct locate_frame f;
    struct locate *l = machine(w, c, node);
    ev->now = w->now;
    int rc = locate_step(l, ev);
    if (rc && rc != MOYAI_EDEAD) return law(why, "an event was refused", node);
    if (effects(w, c, node, why) < 0) return -1;
    SET_EACH (link, locate_ready(l, w->now)) {
        uint32_t end, e = edge_of(c, node, link, &end);
        struct queue *q = &w->edges[e].to[1 - end];
        while (locate_pull(l, link, w->now, &f)) {
            uint8_t bytes[LOCATE_WIRE_MAX];
            size_t n = locate_wire_put(bytes, &f);
            if (w->edges[e].cut || f.kind == LOCATE_DIGESTED) continue;
            if (n > BYTES || q->n == QUEUE) return law(why, "the explorer's queue is too small", node);
            q->frames[q->n].type = (uint8_t)(FRAME_LOCATE + f.kind);
            q->frames[q->n].len = (uint8_t)n;
            memcpy(q->frames[q->n++].bytes, bytes, n);
        }
    }
    return 1;
}

static int link_up(struct world *w, const struct small_world *c, uint32_t e, struct moyai_error *why) {
    for (uint32_t end = 0; end < 2; end++) {
        struct locate_event ev = {.kind = LOCATE_EV_LINK_UP, .cost = (moyai_dur)(1 + e) * MOYAI_MS};
        ev.link = link_of(c, c->edge[e][end], e);
        id_put(ev.node.b, c->edge[e][1 - end]);
        w->edges[e].up[end] = 1;
        if (turn(w, c, c->edge[e][end], &ev, why) < 0) return -1;
    }
    return 1;
}

static int arrive(struct world *w, const struct small_world *c, uint32_t e, uint32_t end, struct moyai_error *why) {
    static struct locate_frame f;
    struct queue *q = &w->edges[e].to[end];
    if (!q->n || !w->edges[e].up[end]) return 0;
    struct locate_event ev = {.kind = LOCATE_EV_RECEIVE, .link = link_of(c, c->edge[e][end], e), .frame = &f};
    if (locate_wire_get(q->frames[0].type, q->frames[0].bytes, q->frames[0].len, &f, why)) return -1;
    memmove(&q->frames[0], &q->frames[1], sizeof q->frames[0] * (QUEUE - 1));
    memset(&q->frames[QUEUE - 1], 0, sizeof q->frames[0]);
    q->n--;
    return turn(w, c, c->edge[e][end], &ev, why);
}

static void init(void *world, const void *cfg) {
    struct world *w = world;
    const struct small_world *c = cfg;
    struct moyai_error why;
    memset(w, 0, sizeof *w);
    w->now = (uint64_t)MOYAI_SEC;
    for (uint32_t i = 0; i < c->nodes; i++) {
        const struct locate_cfg m = cfg_of(c, i);
        memset(machine(w, c, i), 0, machine_size(c));
        if (locate_init(machine(w, c, i), &m)) abort();
    }
    for (uint32_t e = 0; e < c->edges && !c->fresh; e++)
        if (link_up(w, c, e, &why) < 0) abort();
    for (uint32_t i = 0; i < c->nodes; i++) {
        struct locate_event ev = {.kind = LOCATE_EV_NAME_ADD, .moved = true};
        memcpy(ev.key, name, 16);
        object_put(ev.object.b, i);
        if (c->task[i].kind == TASK_HOLD && turn(w, c, i, &ev, &why) < 0) abort();
    }
    for (bool some = true; some;) {
        some = false;
        w->now += 10;
        for (uint32_t e = 0; e < c->edges; e++)
            for (uint32_t end = 0; end < 2; end++) some |= arrive(w, c, e, end, &why) == 1;
        for (uint32_t i = 0; i < c->nodes; i++)
            if (turn(w, c, i, &(struct locate_event){.kind = LOCATE_EV_TIMEOUT}, &why) < 0) abort();
        for (uint32_t e = 0; e < c->edges; e++) some |= w->edges[e].to[0].n || w->edges[e].to[1].n;
    }
    for (uint32_t i = 0; i < c->nodes; i++) {
        uint8_t owner[16];
        id_put(owner, c->memo[i] - 1u);
        if (c->memo[i]) locate_memo_note(machine(w, c, i), name, owner, w->now);
    }
}

static int begin(struct world *w, const struct small_world *c, uint32_t i, struct moyai_error *why) {
    const struct task *t = &c->task[i];
    if (w->fate[i] || t->kind == TASK_NONE || t->kind == TASK_HOLD || w->dead == i + 1) return 0;
    struct locate_event ev = {.kind = t->kind == TASK_CLAIM  ? LOCATE_EV_NAME_ADD
                                      : t->kind == TASK_WAIT ? LOCATE_EV_WAIT
                                                             : LOCATE_EV_LOOKUP};
    ev.key_kind = t->kind == TASK_NODE ? LOCATE_NODE : LOCATE_NAME;
    ev.until = w->now + 4 * (uint64_t)MOYAI_SEC;
    if (t->kind == TASK_NODE) id_put(ev.key, t->target);
    if (t->kind != TASK_NODE) memcpy(ev.key, name, 16);
    object_put(ev.object.b, i);
    ev.lost = i == 1;
    w->fate[i] = 1;
    return turn(w, c, i, &ev, why);
}

static bool under_way(const struct world *w, const struct small_world *c) {
    for (uint32_t e = 0; e < c->edges; e++) {
        const struct edge *g = &w->edges[e];
        for (int end = 0; end < 2; end++) {
            if (g->to[end].n && g->up[end]) return true;
            if (g->cut && g->up[end]) return true;
        }
    }
    return false;
}

static bool due(const struct world *w, const struct small_world *c, uint32_t i) {
    return w->dead != i + 1 && locate_deadline(machine(w, c, i), w->now) <= w->now;
}

/* To the next timer of all, when nothing is under way and no timer is due. */
static int clock_move(struct world *w, const struct small_world *c) {
    uint64_t at = UINT64_MAX;
    if (under_way(w, c)) return 0;
    for (uint32_t i = 0; i < c->nodes; i++) {
        if (w->dead == i + 1) continue;
        if (due(w, c, i)) return 0;
        uint64_t next = locate_deadline(machine(w, c, i), w->now);
        if (next < at) at = next;
    }
    if (at == UINT64_MAX) return 0;
    w->now = at;
    if (w->quiet < 9) w->quiet++;
    return 1;
}

static int cut(struct world *w, uint32_t e) {
    struct edge *g = &w->edges[e];
    g->cut = 1;
    memset(g->to, 0, sizeof g->to);
    w->quiet = 0;
    return 1;
}

static int move_down(struct world *w, const struct small_world *c, uint32_t e, uint32_t end, struct moyai_error *why) {
    uint32_t node = c->edge[e][end];
    if (!w->edges[e].cut || !w->edges[e].up[end]) return 0;
    w->edges[e].up[end] = 0;
    w->quiet = 0;
    if (w->dead == node + 1) return 1;
    return turn(w, c, node, &(struct locate_event){.kind = LOCATE_EV_LINK_DOWN, .link = link_of(c, node, e)}, why);
}

static int die(struct world *w, const struct small_world *c) {
    if (!c->dies || w->dead) return 0;
    w->dead = c->dies;
    w->quiet = 0;
    for (uint32_t e = 0; e < c->edges; e++)
        if ((c->edge[e][0] == c->dies - 1 || c->edge[e][1] == c->dies - 1) && !w->edges[e].cut) (void)cut(w, e);
    for (uint32_t e = 0; e < c->edges; e++)
        for (int end = 0; end < 2; end++)
            if (c->edge[e][end] == c->dies - 1) w->edges[e].up[end] = 0;
    w->fate[c->dies - 1] = 0;
    memset(machine(w, c, w->dead - 1u), 0, machine_size(c));
    return 1;
}

static bool beside(const struct small_world *c, uint32_t a, uint32_t b) {
    for (uint32_t e = 0; e < c->edges; e++)
        if ((c->edge[e][0] == a && c->edge[e][1] == b) || (c->edge[e][1] == a && c->edge[e][0] == b)) return true;
    return false;
}

static int tell_death(struct world *w, const struct small_world *c, uint32_t i, struct moyai_error *why) {
    if (!w->dead || i >= c->nodes || (w->told >> i & 1) || !beside(c, i, w->dead - 1u)) return 0;
    struct locate_event ev = {.kind = LOCATE_EV_EVIDENCE, .how = end_of(c)};
    id_put(ev.node.b, w->dead - 1u);
    w->told |= (uint8_t)(1 << i);
    w->quiet = 0;
    return turn(w, c, i, &ev, why);
}

static int move(void *world, const void *cfg, uint32_t m, struct moyai_error *why) {
    struct world *w = world;
    const struct small_world *c = cfg;
    if (m < MOVE_TIME) return m < c->nodes ? begin(w, c, m, why) : 0;
    if (m < MOVE_CLOCK) {
        uint32_t i = m - MOVE_TIME;
        if (i >= c->nodes || !due(w, c, i)) return 0;
        return turn(w, c, i, &(struct locate_event){.kind = LOCATE_EV_TIMEOUT}, why);
    }
    if (m == MOVE_CLOCK) return clock_move(w, c);
    if (m < MOVE_CUT) {
        uint32_t e = (m - MOVE_ARRIVE) / 2;
        return e < c->edges ? arrive(w, c, e, (m - MOVE_ARRIVE) % 2, why) : 0;
    }
    if (m < MOVE_DOWN) {
        uint32_t e = m - MOVE_CUT;
        if (e >= c->edges || w->cuts == c->cuts || w->edges[e].cut || !w->edges[e].up[0]) return 0;
        w->cuts++;
        return cut(w, e);
    }
    if (m < MOVE_UP) {
        uint32_t e = (m - MOVE_DOWN) / 2;
        return e < c->edges ? move_down(w, c, e, (m - MOVE_DOWN) % 2, why) : 0;
    }
    if (m < MOVE_DIE) {
        uint32_t e = m - MOVE_UP;
        if (!c->fresh || e >= c->edges || w->edges[e].up[0] || w->edges[e].cut) return 0;
        w->quiet = 0;
        return link_up(w, c, e, why);
    }
    if (m == MOVE_DIE) return die(w, c);
    return tell_death(w, c, m - MOVE_TELL, why);
}

static bool must(const void *world, const void *cfg, uint32_t m) {
    (void)world;
    (void)cfg;
    return m < MOVE_CUT || (m >= MOVE_DOWN && m < MOVE_DIE) || m >= MOVE_TELL;
}

static bool connected(const struct world *w, const struct small_world *c, uint32_t a, uint32_t b) {
    uint32_t reach = 1u << a;
    for (uint32_t n = 0; n < c->nodes; n++)
        for (uint32_t e = 0; e < c->edges; e++) {
            if (w->edges[e].cut || !w->edges[e].up[0]) continue;
            uint32_t both = 1u << c->edge[e][0] | 1u << c->edge[e][1];
            if (reach & both) reach |= both;
        }
    return reach >> b & 1;
}

static uint32_t holder(const struct world *w, const struct small_world *c, uint32_t *n) {
    uint32_t who = NODES;
    *n = 0;
    for (uint32_t i = 0; i < c->nodes; i++) {
        const struct locate *l = machine(w, c, i);
        const struct locate_name *n1 = locate_entry(l, &l->names, 0);
        if (w->dead == i + 1 || l->names.n == 0 || n1->state != NAME_HELD) continue;
        who = i;
        ++*n;
    }
    return who;
}

static bool rest(const void *world, const void *cfg, struct moyai_error *why) {
    const struct world *w = world;
    const struct small_world *c = cfg;
    uint32_t names, claims = 0;
    (void)holder(w, c, &names);
    for (uint32_t i = 0; i < c->nodes; i++) {
        const struct task *t = &c->task[i];
        if (w->dead == i + 1 || t->kind == TASK_NONE || t->kind == TASK_HOLD) continue;
        if (w->fate[i] <= 1) return law(why, "a look-up or claim without an answer", i) > 0;
        if (machine(w, c, i)->lookups.n) return law(why, "a look-up is left", i) > 0;
        claims += t->kind == TASK_CLAIM;
    }
    if (claims && !w->cuts && !w->dead && names != 1) return law(why, "not one holds the name", names) > 0;
    return true;
}

/* Not found is right only if something changed since the last ring began, or there is no way. */
static int move_judged(void *world, const void *cfg, uint32_t m, struct moyai_error *why) {
    struct world *w = world;
    const struct small_world *c = cfg;
    uint8_t before[NODES], quiet = w->quiet;
    uint32_t names;
    memcpy(before, w->fate, sizeof before);
    int rc = move(world, cfg, m, why);
    if (rc != 1) return rc;
    for (uint32_t i = 0; i < c->nodes; i++) {
        if (w->fate[i] != 3 || before[i] == 3 || quiet < 2) continue;
        const struct task *t = &c->task[i];
        uint32_t to = t->kind == TASK_NODE ? t->target : holder(w, c, &names);
        if (to == NODES || !connected(w, c, i, to) || w->dead == to + 1u) continue;
        return law(why, "not found, though in reach for all of the last ring", i);
    }
    return 1;
}

static void settle(void *world, const void *cfg) {
    struct world *w = world;
    const struct small_world *c = cfg;
    for (uint32_t i = 0; i < c->nodes; i++) {
        struct locate *l = machine(w, c, i);
        if (w->dead == i + 1) continue;
        locate_settle(l);
        for (uint32_t k = 0; k < l->links; k++) locate_link(l, k)->paid = 0;
    }
}

static void tell(void *world, const void *cfg, uint32_t m, char *text, size_t n) {
    static const char *kinds[] = {"NEIGHBOURS", "NAMES", "REQUEST", "REPLY", "BUSY", "EVIDENCE", "LOST"};
    struct world *w = world;
    const struct small_world *c = cfg;
    uint32_t e = (m - MOVE_ARRIVE) / 2, end = (m - MOVE_ARRIVE) % 2;
    if (m < MOVE_TIME) {
        (void)snprintf(text, n, "%" PRIu32 " begins", m);
    } else if (m < MOVE_CLOCK) {
        (void)snprintf(text, n, "%" PRIu32 "'s timer", m - MOVE_TIME);
    } else if (m == MOVE_CLOCK) {
        (void)snprintf(text, n, "time passes");
    } else if (m < MOVE_CUT) {
        const struct queue *q = &w->edges[e].to[end];
        struct locate_frame f;
        size_t at = (size_t)snprintf(text, n, "%d>%d ", c->edge[e][1 - end], c->edge[e][end]);
        if (locate_wire_get(q->frames[0].type, q->frames[0].bytes, q->frames[0].len, &f, NULL) == 0)
            locate_frame_text(text + at, n - at, &f);
        else
            (void)snprintf(text + at, n - at, "%s", kinds[q->frames[0].type % 7]);
    } else {
        (void)snprintf(text, n, "%s %" PRIu32,
                       m < MOVE_DOWN   ? "cut"
                       : m < MOVE_UP   ? "noticed"
                       : m < MOVE_DIE  ? "up"
                       : m == MOVE_DIE ? "dies"
                                       : "told",
                       m < MOVE_DOWN   ? m - MOVE_CUT
                       : m < MOVE_UP   ? m - MOVE_DOWN
                       : m < MOVE_DIE  ? m - MOVE_UP
                       : m == MOVE_DIE ? 0
                                       : m - MOVE_TELL);
    }
}

#define LINE3 .nodes = 3, .edges = 2, .edge = {{0, 1}, {1, 2}}
#define LINE4 .nodes = 4, .edges = 3, .edge = {{0, 1}, {1, 2}, {2, 3}}
#define RING4 .nodes = 4, .edges = 4, .edge = {{0, 1}, {1, 2}, {2, 3}, {3, 0}}
#define STAR4 .nodes = 4, .edges = 3, .edge = {{0, 1}, {0, 2}, {0, 3}}
#define TREE5 .nodes = 5, .edges = 4, .edge = {{0, 1}, {1, 2}, {2, 3}, {1, 4}}
#define RING3 .nodes = 3, .edges = 3, .edge = {{0, 1}, {1, 2}, {2, 0}}

static const struct small_world usual[] = {
    {.name = "line", LINE4, .task = {{TASK_NODE, 3}, {TASK_NODE, 3}, {TASK_NODE, 0}, {TASK_NODE, 0}}},
    {.name = "line-cut", LINE4, .task = {{TASK_NODE, 3}, {0}, {0}, {TASK_NODE, 0}}, .cuts = 1},
    {.name = "ring-cut", RING4, .task = {{TASK_NODE, 2}, {TASK_NODE, 3}, {TASK_NODE, 0}, {TASK_NODE, 1}}, .cuts = 1},
    {.name = "ring-cuts", RING4, .task = {{TASK_NODE, 2}, {TASK_NODE, 3}, {0}, {0}}, .cuts = 2},
    {.name = "star-cut", STAR4, .task = {{0}, {TASK_NODE, 2}, {TASK_NODE, 1}, {TASK_NODE, 2}}, .cuts = 1},
    {.name = "name", RING4, .task = {{TASK_NAME, 0}, {TASK_NAME, 0}, {TASK_HOLD, 0}, {TASK_NAME, 0}}},
    {.name = "name-cut", RING4, .task = {{TASK_NAME, 0}, {0}, {TASK_HOLD, 0}, {TASK_NAME, 0}}, .cuts = 1},
    {.name = "hints", RING4, .task = {{TASK_NAME, 0}, {TASK_NAME, 0}, {TASK_HOLD, 0}, {TASK_NODE, 1}}, .hints = true},
    {.name = "hints-cut",
     RING4,
     .task = {{TASK_NAME, 0}, {0}, {TASK_HOLD, 0}, {TASK_NODE, 1}},
     .hints = true,
     .cuts = 1},
    {.name = "led",
     TREE5,
     .task = {{TASK_NAME, 0}, {TASK_NAME, 0}, {0}, {TASK_HOLD, 0}, {0}},
     .hints = true,
     .memo = {4, 4, 0, 0, 4}},
    {.name = "misled",
     TREE5,
     .task = {{TASK_NAME, 0}, {0}, {0}, {TASK_HOLD, 0}, {TASK_NAME, 0}},
     .hints = true,
     .memo = {2, 5, 0, 0, 1}},
    {.name = "misled-cut",
     TREE5,
     .task = {{TASK_NAME, 0}, {0}, {0}, {TASK_HOLD, 0}, {0}},
     .hints = true,
     .memo = {2, 5, 0, 0, 1},
     .cuts = 1},
    {.name = "fresh", RING3, .task = {{TASK_NODE, 2}, {TASK_NODE, 0}, {0}}, .fresh = true},
    {.name = "claims", LINE3, .task = {{TASK_CLAIM, 0}, {0}, {TASK_CLAIM, 0}}},
    {.name = "claims-line", LINE4, .task = {{TASK_CLAIM, 0}, {0}, {TASK_CLAIM, 0}, {TASK_CLAIM, 0}}},
    {.name = "claims-ring", RING3, .task = {{TASK_CLAIM, 0}, {TASK_CLAIM, 0}, {TASK_CLAIM, 0}}},
    {.name = "claim-cut", RING4, .task = {{TASK_CLAIM, 0}, {TASK_NAME, 0}, {0}, {0}}, .cuts = 1},
    {.name = "wait", LINE3, .task = {{TASK_WAIT, 0}, {TASK_NAME, 0}, {TASK_CLAIM, 0}}},
    {.name = "wait-cut", LINE3, .task = {{TASK_WAIT, 0}, {0}, {TASK_CLAIM, 0}}, .cuts = 1},
    {.name = "death", RING4, .task = {{TASK_NODE, 2}, {TASK_NODE, 3}, {0}, {0}}, .dies = 3},
    {.name = "death-line", LINE4, .task = {{TASK_NODE, 3}, {TASK_NODE, 2}, {0}, {0}}, .dies = 4},
    {.name = "leave", RING4, .task = {{TASK_NODE, 2}, {TASK_NODE, 3}, {0}, {0}}, .dies = 3, .leaves = 1},
    {.name = "leave-line", LINE4, .task = {{TASK_NODE, 3}, {TASK_NODE, 2}, {0}, {0}}, .dies = 4, .leaves = 1},
};

static const struct small_world larger[] = {
    {.name = "line-all", LINE4, .task = {{TASK_NODE, 3}, {TASK_NODE, 3}, {TASK_NODE, 0}, {TASK_NODE, 0}}, .cuts = 1},
    {.name = "wait-look", RING3, .task = {{TASK_WAIT, 0}, {TASK_NAME, 0}, {TASK_CLAIM, 0}}},
    {.name = "claims-4", RING4, .task = {{TASK_CLAIM, 0}, {TASK_CLAIM, 0}, {TASK_CLAIM, 0}, {TASK_CLAIM, 0}}},
    {.name = "claims-cut", RING4, .task = {{TASK_CLAIM, 0}, {TASK_NAME, 0}, {TASK_CLAIM, 0}, {0}}, .cuts = 1},
    {.name = "wait-ring", RING4, .task = {{TASK_WAIT, 0}, {TASK_WAIT, 0}, {TASK_CLAIM, 0}, {TASK_NAME, 0}}, .cuts = 1},
    {.name = "death-cut", RING4, .task = {{TASK_NODE, 2}, {TASK_NODE, 3}, {0}, {TASK_NODE, 1}}, .dies = 3, .cuts = 1},
    {.name = "fresh-ring", RING4, .task = {{TASK_NODE, 2}, {TASK_NODE, 3}, {0}, {0}}, .fresh = true},
    {.name = "cuts-all", RING4, .task = {{TASK_NODE, 2}, {TASK_NODE, 3}, {TASK_NODE, 0}, {TASK_NODE, 1}}, .cuts = 2},
};

static struct explore_model model(size_t i, const char **called) {
    size_t n = sizeof usual / sizeof *usual;
    const struct small_world *world = i < n ? &usual[i] : &larger[i - n];
    *called = world->name;
    return (struct explore_model){.size =
                                      ((sizeof(struct world) + 15) & ~(size_t)15) + world->nodes * machine_size(world),
                                  .moves = MOVES,
                                  .cfg = world,
                                  .init = init,
                                  .move = move_judged,
                                  .must = must,
                                  .rest = rest,
                                  .settle = settle,
                                  .tell = tell};
}

int main(int argc, char **argv) {
    static const struct explore_worlds worlds = {.usual = sizeof usual / sizeof *usual,
                                                 .larger = sizeof larger / sizeof *larger,
                                                 .model = model,
                                                 .budget = 1000000,
                                                 .long_budget = 3000000};
    return explore_main(argc, argv, &worlds);
}
