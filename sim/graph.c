/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/graph.h"

#include "base/err.h"
#include "base/id.h"
#include "overlay/locate_internal.h"
#include "overlay/locate_text.h"

#include <inttypes.h>
#include <stdlib.h>

/* What is under way: a frame, or the news that a link is cut. The list is for whoever ends the world early. */
struct graph_flight {
    struct graph_flight *next, **at;
};

static void flight_put(struct graph *g, struct graph_flight *f) {
    *f = (struct graph_flight){g->flights, &g->flights};
    if (f->next) f->next->at = &f->next;
    g->flights = f;
}
static void flight_cut(struct graph_flight *f) {
    *f->at = f->next;
    if (f->next) f->next->at = f->at;
    free(f);
}

struct packet_in {
    struct graph_flight flight;
    struct graph *g;
    uint32_t node, link, serial;
    moyai_ns due;
    struct locate_frame f; /* as many slots as it has */
};

void graph_init(struct graph *g, struct world *w, struct trace *t, const struct graph_cfg *cfg) {
    *g = (struct graph){.w = w, .trace = t, .cfg = *cfg};
    rng_fork(&w->rng, "graph", 0, &g->rng);
}

static void broken(struct graph *g, const char *text, uint32_t node) {
    if (g->broken) return;
    g->broken = true;
    err_set(&g->why, MOYAI_EINVAL, "node %" PRIu32 ": %s", node, text);
}

static struct graph_chore *chore_take(struct graph_node *n) {
    struct graph_chore *c = n->chores;
    if (!c) return NULL;
    n->chores = c->next;
    if (!n->chores) n->last = NULL;
    return c;
}

void graph_done(struct graph *g) {
    while (g->flights) flight_cut(g->flights);
    for (uint32_t i = 0; i < g->n; i++) {
        for (struct graph_chore *c; (c = chore_take(&g->nodes[i]));) free(c);
        free(g->nodes[i].l);
    }
    free(g->nodes);
    free(g->lookups);
}

uint32_t graph_find(const struct graph *g, const uint8_t id[16]) {
    uint32_t i;
    memcpy(&i, id + 12, 4); /* graph_add wrote it there */
    return i < g->n && id_equal(g->nodes[i].id.b, id) ? i : GRAPH_FAR;
}

/* --- one machine for all ----------------------------------------------------------------------------- */

void graph_slow(struct graph *g, moyai_dur each) {
    g->each = each;
}

static void works(void *who, uint64_t fresh) {
    struct graph *g = who;
    g->working = g->first_turn != 0;
    if (!g->working) return;
    struct graph_node *n = &g->nodes[g->first_turn - 1];
    struct graph_chore *c = fresh ? NULL : chore_take(n);
    if (c) c->fn(c->who, c->what);
    free(c);
    n = &g->nodes[g->first_turn - 1];
    bool next = !n->chores;
    if (next) {
        g->first_turn = n->turn;
        if (!g->first_turn) g->last_turn = 0;
        n->turn = 0;
        n->waits = false;
    }
    world_in(g->w, g->each, works, g, next);
}

static void waits(void *who, uint64_t node) {
    struct graph *g = who;
    if (g->last_turn) g->nodes[g->last_turn - 1].turn = (uint32_t)node + 1;
    g->last_turn = (uint32_t)node + 1;
    if (!g->first_turn) g->first_turn = (uint32_t)node + 1;
    if (!g->working) world_at(g->w, g->w->now, works, g, 1);
    g->working = true;
}

void graph_stalls(struct graph *g, uint32_t one_in, moyai_dur most) {
    g->stalls = one_in;
    g->stall = most;
}

static void chore_put(struct graph *g, uint32_t node, world_fn *fn, void *who, uint64_t what, bool before) {
    struct graph_node *n = &g->nodes[node];
    struct graph_chore *c = sim_alloc(sizeof *c);
    *c = (struct graph_chore){before ? n->chores : NULL, fn, who, what};
    if (!n->waits) {
        n->waits = true;
        if (g->stalls && rng_below(&g->rng, g->stalls) == 0)
            world_in(g->w, (moyai_dur)rng_below(&g->rng, (uint64_t)g->stall), waits, g, node);
        else
            waits(g, node);
    }
    if (!before && n->chores) *n->last = c;
    if (before || !n->chores) n->chores = c;
    if (!c->next) n->last = &c->next;
}

void graph_do(struct graph *g, uint32_t node, world_fn *fn, void *who, uint64_t what) {
    if (g->each)
        chore_put(g, node, fn, who, what, false);
    else
        fn(who, what);
}

/* --- the driver ------------------------------------------------------------------------------------- */

static void judge_not_found(struct graph *g, const struct graph_lookup *k, uint32_t at) {
    if (k->until && g->w->now < k->until) broken(g, "a wait ended before its time", at);
    if (!g->cfg.strict || g->changed + 2 * (uint64_t)MOYAI_SEC > k->start) return;
    if (k->until && k->until - k->start < (uint64_t)graph_bound(g)) return; /* shorter than a look-up may take */
    if (k->kind == LOCATE_NODE) {
        uint32_t to = graph_find(g, k->key);
        uint32_t far = to == GRAPH_FAR || !g->nodes[to].alive ? GRAPH_FAR : graph_distance(g, at, to, NULL);
        if (far <= 9) broken(g, "a node within the rings was not found", at);
        return;
    }
    uint32_t *dist = sim_alloc(g->n * sizeof *dist);
    (void)graph_distance(g, at, at, dist);
    for (uint32_t i = 0; i < g->n; i++)
        if (g->nodes[i].alive && dist[i] <= 9 && graph_holds(g, i, k->key))
            broken(g, "a name within the rings was not found", at);
    free(dist);
}

/* What is told of a node's end is what those knew who were beside it. */
static void judge_end(struct graph *g, const uint8_t node[16], uint32_t how, uint32_t at) {
    const uint32_t who = graph_find(g, node);
    if (who == GRAPH_FAR) return;
    if (g->nodes[who].alive)
        broken(g, "a live node was called dead", at);
    else if (g->nodes[who].how != how)
        broken(g, "a node's end was told as another", at);
}

static void judge(struct graph *g, uint32_t at, const struct locate_effect *fx) {
    struct graph_lookup *k = &g->lookups[fx->token];
    if (fx->token >= g->lookups_n || k->from != at || k->fate != LOOKUP_OPEN) {
        broken(g, "an answer to no look-up, or a second one", at);
        return;
    }
    k->end = g->w->now;
    if (!k->until && k->end - k->start > (uint64_t)graph_bound(g)) broken(g, "an answer after its bound", at);
    switch (fx->kind) {
    case LOCATE_FX_FOUND:
        k->fate = LOOKUP_FOUND;
        k->hops = fx->hops;
        k->node = graph_find(g, fx->node.b);
        k->object = fx->object;
        if (k->node == GRAPH_FAR) broken(g, "found a node that never was", at);
        if (locate_dead(g->nodes[at].l, &fx->node, g->w->now)) broken(g, "found a node known to be dead", at);
        if (k->kind == LOCATE_NODE && !id_equal(fx->node.b, k->key)) broken(g, "found another node", at);
        return;
    case LOCATE_FX_DEAD:
        k->fate = LOOKUP_DEAD;
        k->node = graph_find(g, k->key);
        judge_end(g, k->key, fx->how, at);
        return;
    case LOCATE_FX_NOT_FOUND:
        k->fate = LOOKUP_NOT_FOUND;
        k->unsure = fx->unsure;
        if (!fx->unsure) judge_not_found(g, k, at);
        return;
    case LOCATE_FX_EVIDENCE:
    case LOCATE_FX_NAME_HELD:
    case LOCATE_FX_NAME_LOST:
        return;
    }
}

static void effects(struct graph *g, uint32_t at) {
    struct locate_effect fx;
    char text[128], who[16];
    while (locate_next(g->nodes[at].l, &fx)) {
        (void)snprintf(who, sizeof who, "%" PRIu32, at);
        text[0] = 0;
        locate_effect_text(text, sizeof text, &fx);
        trace_line(g->trace, g->w->now, who, "%s", text);
        g->held += fx.kind == LOCATE_FX_NAME_HELD;
        g->lost += fx.kind == LOCATE_FX_NAME_LOST;
        if (fx.kind == LOCATE_FX_NAME_HELD || fx.kind == LOCATE_FX_NAME_LOST) g->changed = g->w->now;
        if (fx.kind <= LOCATE_FX_DEAD) judge(g, at, &fx);
        if (fx.kind == LOCATE_FX_EVIDENCE) judge_end(g, fx.node.b, fx.how, at);
    }
}

static void arrives(void *who, uint64_t what);
static void wakes(void *who, uint64_t what);

static void send_frame(struct graph *g, uint32_t at, uint32_t link, const struct locate_frame *f) {
    struct graph_node *n = &g->nodes[at];
    struct graph_end *e = &n->ends[link];
    n->sent++;
    g->frames[f->kind]++;
    if (g->trace->print || g->trace->keep) {
        char text[512] = "", who[16];
        (void)snprintf(who, sizeof who, "%" PRIu32 ">%" PRIu32, at, e->peer);
        locate_frame_text(text, sizeof text, f);
        trace_line(g->trace, g->w->now, who, "%s", text);
    }
    size_t more = f->kind == LOCATE_DIGESTED ? sizeof f->digest : f->n * sizeof f->slots[0];
    size_t size = offsetof(struct packet_in, f.slots) + more;
    struct packet_in *p = malloc(size);
    if (!p) abort();
    memcpy(&p->f, f, offsetof(struct locate_frame, slots) + more);
    flight_put(g, &p->flight);
    p->g = g;
    p->node = e->peer;
    p->link = e->peer_link;
    p->serial = e->serial;
    moyai_ns due = g->w->now + (moyai_ns)e->delay;
    if (due <= e->last) due = e->last + 1;
    e->last = due;
    p->due = due;
    world_at(g->w, due, arrives, p, 0);
}

/* After each step: tell, send what can be sent, set the timer. */
static void turn(struct graph *g, uint32_t at) {
    struct graph_node *n = &g->nodes[at];
    struct locate_frame f;
    effects(g, at);
    SET_EACH (link, locate_ready(n->l, g->w->now))
        while (locate_pull(n->l, link, g->w->now, &f)) send_frame(g, at, link, &f);
    if (g->cfg.check && !locate_check(n->l, &g->why)) g->broken = true;
    moyai_ns due = locate_deadline(n->l, g->w->now);
    if (due == UINT64_MAX || due == n->timer) return;
    n->timer = due;
    world_at(g->w, due, wakes, g, (uint64_t)at << 40 | (due & ((UINT64_C(1) << 40) - 1)));
}

int graph_step(struct graph *g, uint32_t node, struct locate_event *ev) {
    ev->now = g->w->now;
    int rc = locate_step(g->nodes[node].l, ev);
    turn(g, node);
    return rc;
}

static void rings(void *who, uint64_t what) {
    struct graph *g = who;
    uint32_t at = (uint32_t)(what >> 40);
    struct graph_node *n = &g->nodes[at];
    if (!n->alive || (n->timer & ((UINT64_C(1) << 40) - 1)) != (what & ((UINT64_C(1) << 40) - 1))) return;
    moyai_dur late = (moyai_dur)(g->w->now - n->timer);
    n->timer = 0;
    (void)graph_step(g, at, &(struct locate_event){.kind = LOCATE_EV_TIMEOUT, .late = late});
}

/* A loop runs timers before it reads. */
static void wakes(void *who, uint64_t what) {
    struct graph *g = who;
    if (g->each)
        chore_put(g, (uint32_t)(what >> 40), rings, who, what, true);
    else
        rings(who, what);
}

static void read_frame(void *who, uint64_t what) {
    struct packet_in *p = who;
    struct graph *g = p->g;
    struct graph_node *n = &g->nodes[p->node];
    (void)what;
    const struct graph_end *e = &n->ends[p->link];
    if (n->alive && e->serial == p->serial && !e->cut) {
        int rc = graph_step(
            g, p->node,
            &(struct locate_event){
                .kind = LOCATE_EV_RECEIVE, .link = p->link, .frame = &p->f, .late = (moyai_dur)(g->w->now - p->due)});
        if (rc && rc != MOYAI_EDEAD) broken(g, "the frame of a right neighbour was refused", p->node);
    }
    flight_cut(&p->flight);
}

static void arrives(void *who, uint64_t what) {
    struct packet_in *p = who;
    graph_do(p->g, p->node, read_frame, who, what);
}

/* --- what happens ------------------------------------------------------------------------------------ */

uint32_t graph_add(struct graph *g) {
    if (g->n == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 64;
        g->nodes = realloc(g->nodes, g->cap * sizeof *g->nodes);
        if (!g->nodes) abort();
    }
    uint32_t i = g->n++;
    struct graph_node *n = &g->nodes[i];
    *n = (struct graph_node){.alive = true};
    rng_bytes(&g->rng, n->id.b, 12);
    n->id.b[0] = (uint8_t)(i + 1); /* readable in traces */
    n->id.b[1] |= 1;
    memcpy(n->id.b + 12, &i, 4);
    struct locate_cfg cfg = g->cfg.locate;
    cfg.self = n->id;
    cfg.seed = rng_next(&g->rng);
    n->l = calloc(1, locate_size(&cfg)); /* not touched where not used */
    if (!n->l || locate_init(n->l, &cfg)) abort();
    return i;
}

static uint32_t free_end(const struct graph *g, uint32_t node) {
    const struct locate *l = g->nodes[node].l;
    uint32_t i = 0;
    while (i < l->links && g->nodes[node].ends[i].serial) i++;
    return i < l->links ? i : GRAPH_FAR;
}

bool graph_link(struct graph *g, uint32_t a, uint32_t b) {
    uint32_t i = free_end(g, a), k = free_end(g, b);
    if (a == b || !g->nodes[a].alive || !g->nodes[b].alive || i == GRAPH_FAR || k == GRAPH_FAR) return false;
    for (uint32_t x = 0; x < GRAPH_LINKS; x++)
        if (g->nodes[a].ends[x].serial && g->nodes[a].ends[x].peer == b) return false;
    if (locate_dead(g->nodes[a].l, &g->nodes[b].id, g->w->now)) return false;
    if (locate_dead(g->nodes[b].l, &g->nodes[a].id, g->w->now)) return false;
    moyai_dur delay = g->cfg.delay + (moyai_dur)rng_below(&g->rng, (uint64_t)g->cfg.jitter + 1);
    g->serial++;
    g->nodes[a].ends[i] = (struct graph_end){.peer = b, .peer_link = k, .serial = g->serial, .delay = delay};
    g->nodes[b].ends[k] = (struct graph_end){.peer = a, .peer_link = i, .serial = g->serial, .delay = delay};
    g->nodes[a].degree++;
    g->nodes[b].degree++;
    g->changed = g->w->now;
    (void)graph_step(
        g, a, &(struct locate_event){.kind = LOCATE_EV_LINK_UP, .link = i, .node = g->nodes[b].id, .cost = 2 * delay});
    (void)graph_step(
        g, b, &(struct locate_event){.kind = LOCATE_EV_LINK_UP, .link = k, .node = g->nodes[a].id, .cost = 2 * delay});
    return true;
}

void graph_join(struct graph *g, uint32_t node, uint32_t opens) {
    for (uint32_t tries = 0; opens && tries < 200; tries++)
        if (graph_link(g, node, (uint32_t)rng_below(&g->rng, g->n))) opens--;
}

struct closing {
    struct graph_flight flight;
    struct graph *g;
    uint32_t node, link, serial;
};

static void noticed(void *who, uint64_t what) {
    struct closing *c = who;
    struct graph *g = c->g;
    struct graph_node *n = &g->nodes[c->node];
    (void)what;
    if (n->alive && n->ends[c->link].serial == c->serial) {
        n->ends[c->link] = (struct graph_end){0};
        n->degree--;
        g->changed = g->w->now;
        (void)graph_step(g, c->node, &(struct locate_event){.kind = LOCATE_EV_LINK_DOWN, .link = c->link});
    }
    flight_cut(&c->flight);
}

static void end_cut(struct graph *g, uint32_t node, uint32_t link) {
    struct closing *c = sim_alloc(sizeof *c);
    *c = (struct closing){.g = g, .node = node, .link = link, .serial = g->nodes[node].ends[link].serial};
    flight_put(g, &c->flight);
    g->nodes[node].ends[link].cut = true;
    world_in(g->w, (moyai_dur)rng_below(&g->rng, (uint64_t)g->cfg.notice + 1), noticed, c, 0);
}

void graph_cut(struct graph *g, uint32_t node, uint32_t link) {
    const struct graph_end e = g->nodes[node].ends[link];
    if (!e.serial || e.cut) return;
    g->changed = g->w->now;
    end_cut(g, node, link);
    end_cut(g, e.peer, e.peer_link);
}

void graph_kill(struct graph *g, uint32_t node, int how) {
    struct graph_node *n = &g->nodes[node];
    for (uint32_t i = 0; i < GRAPH_LINKS; i++) graph_cut(g, node, i);
    n->alive = false;
    n->how = (uint32_t)how;
    for (uint32_t i = 0; i < GRAPH_LINKS; i++)
        if (how && n->ends[i].serial && g->nodes[n->ends[i].peer].alive)
            (void)graph_step(
                g, n->ends[i].peer,
                &(struct locate_event){.kind = LOCATE_EV_EVIDENCE, .node = n->id, .how = (enum locate_how)how});
    for (uint32_t i = 0; i < g->lookups_n; i++)
        if (g->lookups[i].from == node && g->lookups[i].fate == LOOKUP_OPEN) g->lookups[i].fate = LOOKUP_DEAD;
}

uint32_t graph_lookup(struct graph *g, uint32_t from, uint32_t kind, const uint8_t key[16], moyai_ns until) {
    if (g->lookups_n == g->lookups_cap) {
        g->lookups_cap = g->lookups_cap ? 2 * g->lookups_cap : 64;
        g->lookups = realloc(g->lookups, g->lookups_cap * sizeof *g->lookups);
        if (!g->lookups) abort();
    }
    struct locate_event ev = {.kind = until ? LOCATE_EV_WAIT : LOCATE_EV_LOOKUP,
                              .token = g->lookups_n,
                              .key_kind = (enum locate_key_kind)kind,
                              .until = until,
                              .lost = !until && kind == LOCATE_NODE && g->lookups_n % 3 == 2};
    struct graph_lookup *k = &g->lookups[g->lookups_n++];
    *k = (struct graph_lookup){.from = from, .kind = kind, .start = g->w->now, .until = until};
    memcpy(ev.key, key, 16);
    memcpy(k->key, key, 16);
    uint32_t token = g->lookups_n - 1;
    int rc = graph_step(g, from, &ev);
    if (rc == 0) return token;
    if (rc != MOYAI_EAGAIN) broken(g, "a look-up was refused", from);
    g->lookups_n--;
    return UINT32_MAX;
}

int graph_name_add(struct graph *g, uint32_t node, const uint8_t name[16], const uint8_t object[16], bool moved) {
    struct locate_event ev = {.kind = LOCATE_EV_NAME_ADD, .moved = moved};
    memcpy(ev.key, name, 16);
    memcpy(ev.object.b, object, 16);
    return graph_step(g, node, &ev);
}

int graph_name_remove(struct graph *g, uint32_t node, const uint8_t name[16]) {
    struct locate_event ev = {.kind = LOCATE_EV_NAME_REMOVE};
    memcpy(ev.key, name, 16);
    g->changed = g->w->now;
    return graph_step(g, node, &ev);
}

bool graph_holds(const struct graph *g, uint32_t node, const uint8_t name[16]) {
    const struct locate *l = g->nodes[node].l;
    const struct locate_name *n = locate_get(l, &l->names, name);
    return n && n->state == NAME_HELD;
}

/* --- measures ---------------------------------------------------------------------------------------- */

/* All rings, and once more for who came when they had begun. On one slow machine each may last longer. */
moyai_dur graph_bound(const struct graph *g) {
    moyai_dur ring = g->cfg.locate.ring_max ? g->cfg.locate.ring_max : 2 * MOYAI_SEC;
    return 2 * LOCATE_RINGS * (g->each ? 8 : 1) * ring;
}

uint32_t graph_distance(const struct graph *g, uint32_t from, uint32_t to, uint32_t *dist) {
    uint32_t *d = dist ? dist : sim_alloc(g->n * sizeof *d), *queue = sim_alloc(g->n * sizeof *queue);
    uint32_t head = 0, tail = 0;
    for (uint32_t i = 0; i < g->n; i++) d[i] = GRAPH_FAR;
    d[from] = 0;
    queue[tail++] = from;
    while (head < tail) {
        uint32_t at = queue[head++];
        for (uint32_t i = 0; i < GRAPH_LINKS; i++) {
            const struct graph_end *e = &g->nodes[at].ends[i];
            if (!e->serial || e->cut || d[e->peer] != GRAPH_FAR || !g->nodes[e->peer].alive) continue;
            d[e->peer] = d[at] + 1;
            queue[tail++] = e->peer;
        }
    }
    uint32_t far = d[to];
    free(queue);
    if (!dist) free(d);
    return far;
}

uint32_t graph_walk(struct graph *g, uint32_t from, uint32_t to) {
    locate_set avoid = SET_NONE;
    uint32_t at = from;
    for (uint32_t hops = 0; hops <= g->n; hops++) {
        struct locate_hop hop;
        if (at == to) return hops;
        if (!g->nodes[at].alive || !locate_route(g->nodes[at].l, &g->nodes[to].id, avoid, g->w->now, &hop))
            return GRAPH_FAR;
        const struct graph_end *e = &g->nodes[at].ends[hop.link];
        if (e->cut) return GRAPH_FAR;
        avoid = set_of(e->peer_link);
        at = e->peer;
    }
    return GRAPH_LOOP;
}

uint64_t graph_sent(const struct graph *g) {
    uint64_t sum = 0;
    for (uint32_t k = 0; k < GRAPH_KINDS; k++) sum += g->frames[k];
    return sum;
}
