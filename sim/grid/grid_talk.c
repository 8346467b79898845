/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nodes say to each other, and the laws of it. A message is its record's number, its length, and bytes that follow
 * from the number; whoever takes a request answers it with another message. Names are "node-INDEX".
 */
#include "sim/grid/grid_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD      16u
#define HELD_LONG (10 * GRID_SECOND) /* a name is known after it */
#define ANSWER    100u               /* bytes */

struct letter {
    uint64_t answers;  /* the request's number + 1; 0: it is one */
    struct call *call; /* of a request that waits for its answer */
    moyai_ns given;
    uint32_t from, to, length;
    uint8_t begun, delivered, told, never;
    uint8_t far;     /* its sender had no link to whom it is for */
    uint8_t refused; /* delivered to one who was told to leave, and not executed; or the answer that says so */
};

struct post { /* until it is over */
    struct msg m;
    struct grid_node *n;
    uint64_t number;
    uint8_t bytes[];
};

struct call {
    struct call *next, **at; /* of the peer's */
    struct grid_node *n;
    uint64_t number;
};

struct pal { /* what a peer has */
    struct call *calls;
    uint64_t last; /* the number of the last request that began to arrive, + 1 */
};

struct arriving {
    struct inbound in;
    uint64_t number;
};

struct look {
    struct name_ask ask;
    struct grid_node *n;
    struct look *next, **at;
    uint32_t to;
    moyai_ns given;
    moyai_dur wait;
};

static uint8_t byte_of(uint64_t number, size_t i) {
    return (uint8_t)(number * 31 + i * 7 + i / 251);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct pal *pal_of(struct peer *p) {
    void **data = peer_data(p);
    if (!*data) {
        *data = calloc(1, sizeof(struct pal));
        if (!*data) abort();
    }
    return *data;
}

static void call_over(struct grid *g, struct call *c) {
    g->letter[c->number].call = NULL;
    *c->at = c->next;
    if (c->next) c->next->at = c->at;
    free(c);
}

/* Was somebody well that everybody can connect to, from when all must know of it? */
static bool open_well(const struct grid *g, moyai_ns since) {
    for (uint32_t i = 0; i < g->live; i++) {
        const struct grid_node *n = g->node[g->lives[i]];
        if (g->net.site[n->u->site] == GROUND_OPEN && grid_well(n, since - GRID_WHOLE)) return true;
    }
    return false;
}

/* Were both well from then until now, and could they have a way to each other? */
static bool both_well(const struct grid *g, const struct grid_node *a, const struct grid_node *b, moyai_ns since) {
    if (!grid_well(a, since) || !grid_well(b, since)) return false;
    return (a->u->site == b->u->site && grid_listens(g, a->u)) || (since > GRID_WHOLE && open_well(g, since));
}

static void call_failed(struct grid *g, struct call *c, int code, const char *text) {
    const struct letter *l = &g->letter[c->number];
    struct grid_node *n = c->n, *to = g->node[l->to];
    moyai_ns given = l->given;
    g->count.failed++;
    if (to->cleared && !l->never && !n->gone && !n->leaving) {
        g->count.unsure++;
        if (code == MOYAI_ECLOSED)
            grid_law(g, n, "call %" PRIu64 " to %" PRIu32 ", which was cleared, may have been executed: %s", c->number,
                     to->index, text);
    }
    grid_say(g, n, "call %" PRIu64 " to %" PRIu32 " failed: %d %s", c->number, l->to, code, text);
    call_over(g, c);
    if (n->gone) return;
    if (!to->o && !to->gone) return; /* it has not been up yet */
    if (both_well(g, n, to, given))
        grid_law(g, n, "a call to %" PRIu32 " fails, though both are well: %d %s", to->index, code, text);
    else
        g->count.excused++;
}

static void call_late(void *who, uint64_t number) {
    struct grid *g = who;
    if (g->ending || g->broken || !g->letter[number].call) return;
    const struct letter *l = &g->letter[number];
    struct grid_node *n = g->node[l->from], *to = g->node[l->to];
    if (both_well(g, n, to, l->given))
        grid_law(g, n, "a call to %" PRIu32 " is not answered in time, though both are well (%s, %s)", to->index,
                 l->delivered ? "delivered"
                 : l->begun   ? "begun"
                              : "not delivered",
                 l->told ? "taken" : "not taken");
    else
        world_in(g->w, g->cfg.patience, call_late, g, number);
}

/* Its node has left, and was cleared: what it has not answered it has not had, and never has. */
static bool is_cleared(const struct moyai_error *why) {
    return why->code == MOYAI_ECLOSED && why->executed == MOYAI_NEVER_EXECUTED;
}

static void call_cleared(struct grid *g, const struct call *c, bool sent) {
    struct letter *l = &g->letter[c->number];
    l->never = 1;
    g->count.cleared++;
    if (sent && l->far) g->count.cleared_far++;
    if (l->delivered && !l->refused)
        grid_law(g, c->n, "call %" PRIu64 " to one who was cleared was executed", c->number);
    if (!g->node[l->to]->cleared)
        grid_law(g, c->n, "call %" PRIu64 " was never executed, as %" PRIu32 " was cleared, which it was not",
                 c->number, l->to);
}

static void over(struct msg *m, int code, enum moyai_executed executed) {
    struct post *p = (struct post *)((char *)m - offsetof(struct post, m));
    struct grid *g = p->n->g;
    struct letter *l = &g->letter[p->number];
    if (l->answers && !l->refused) p->n->owes--;
    if (l->told) grid_law(g, p->n, "message %" PRIu64 " ends twice", p->number);
    l->told = 1;
    if (code == 0 && l->delivered != 1)
        grid_law(g, p->n, "message %" PRIu64 " is told to be taken, and was not delivered", p->number);
    if (code == 0) g->count.taken++;
    if (code != 0 && executed == MOYAI_NEVER_EXECUTED) {
        l->never = 1;
        if (l->delivered)
            grid_law(g, p->n, "message %" PRIu64 " is told never to be executed, and was delivered", p->number);
    } else if (code != 0) {
        g->count.maybe++;
    }
    if (code != 0 && l->call && is_cleared(peer_why(m->peer)))
        call_cleared(g, l->call, executed != MOYAI_NEVER_EXECUTED);
    if (code != 0 && l->call) call_failed(g, l->call, code, peer_why(m->peer)->text);
    free(p);
}

static uint64_t letter_new(struct grid *g, uint32_t from, uint32_t to, uint32_t length, uint64_t answers) {
    if (g->letters == g->letters_cap) {
        g->letters_cap = g->letters_cap ? 2 * g->letters_cap : 4096;
        g->letter = realloc(g->letter, g->letters_cap * sizeof *g->letter);
        if (!g->letter) abort();
    }
    g->letter[g->letters] =
        (struct letter){.from = from, .to = to, .length = length, .answers = answers, .given = g->w->now};
    return g->letters++;
}

/* In the turn of n. */
static int post(struct grid_node *n, struct peer *to, uint32_t length, uint64_t answers, bool refuses,
                uint64_t *number) {
    struct grid *g = n->g;
    uint32_t index = grid_node_of(g, peer_id(to))->index;
    if (length < HEAD) length = HEAD;
    struct post *p = malloc(sizeof *p + length);
    if (!p) abort();
    *p = (struct post){.n = n, .number = letter_new(g, n->index, index, length, answers)};
    uint64_t head[2] = {p->number, length};
    memcpy(p->bytes, head, HEAD);
    for (uint32_t i = HEAD; i < length; i++) p->bytes[i] = byte_of(p->number, i);
    p->m = (struct msg){.head = p->bytes, .head_len = length, .length = length, .request = !answers, .done = over};
    *number = p->number;
    g->letter[p->number].refused = refuses;
    g->letter[p->number].far = !olink_ready(to);
    int rc = overlay_send(to, &p->m);
    if (rc < 0) {
        g->letter[p->number].told = g->letter[p->number].never = 1;
        free(p);
    } else if (answers && !refuses) {
        n->owes++;
    }
    return rc;
}

void grid_call_of(struct grid_node *n, const struct grid_node *to, uint32_t bytes) {
    struct grid *g = n->g;
    if (n->u->stopped || n == to) return;
    ground_enter(n->u);
    struct peer *p = overlay_peer(n->o, to->u->id.b);
    uint64_t number;
    if (p && !peer_dead(p, NULL) && post(n, p, bytes, 0, false, &number) == 0) {
        struct call *c = sim_alloc(sizeof *c);
        struct pal *pal = pal_of(p);
        *c = (struct call){.next = pal->calls, .at = &pal->calls, .n = n, .number = number};
        if (c->next) c->next->at = &c->next;
        pal->calls = c;
        g->letter[number].call = c;
        g->count.calls++;
        world_in(g->w, g->cfg.patience, call_late, g, number);
    }
    ground_leave(n->u);
}

void grid_call(struct grid *g, uint32_t a, uint32_t b, uint32_t bytes) {
    grid_call_of(g->node[g->lives[a]], g->node[g->lives[b]], bytes);
}

uint64_t grid_open(const struct grid *g) {
    return g->count.calls - g->count.answered - g->count.failed;
}

/* ---- what arrives ---------------------------------------------------------------------------- */

static bool head_of(struct grid_node *n, struct peer *p, const uint8_t *bytes, size_t have, uint64_t total,
                    uint64_t *number) {
    struct grid *g = n->g;
    uint64_t head[2];
    if (have < HEAD) {
        grid_law(g, n, "a message without its head");
        return false;
    }
    memcpy(head, bytes, HEAD);
    struct letter *l = head[0] < g->letters ? &g->letter[head[0]] : NULL;
    if (!l || l->length != head[1] || total != head[1] || l->to != n->index ||
        grid_node_of(g, peer_id(p)) != g->node[l->from]) {
        grid_law(g, n, "a message that nobody has sent");
        return false;
    }
    *number = head[0];
    if (l->begun > 0 && l->length == have) grid_law(g, n, "message %" PRIu64 " comes twice", *number);
    l->begun = 1;
    if (l->answers) return true;
    struct pal *pal = pal_of(p);
    if (*number + 1 <= pal->last) grid_law(g, n, "request %" PRIu64 " after %" PRIu64, *number, pal->last - 1);
    pal->last = *number + 1;
    return true;
}

static void whole(struct grid_node *n, struct peer *p, uint64_t number, const uint8_t *bytes) {
    struct grid *g = n->g;
    struct letter *l = &g->letter[number];
    for (uint32_t i = HEAD; i < l->length; i++)
        if (bytes[i] != byte_of(number, i)) {
            grid_law(g, n, "byte %" PRIu32 " of message %" PRIu64 " is another", i, number);
            break;
        }
    if (l->delivered++) grid_law(g, n, "message %" PRIu64 " is delivered twice", number);
    if (!l->answers) l->refused = n->told_to > 0;
    if (l->never && !l->refused)
        grid_law(g, n, "message %" PRIu64 " is delivered, of which it was told that it never is", number);
    if (l->answers) {
        struct call *c = g->letter[l->answers - 1].call;
        if (c) {
            g->count.answered++;
            call_over(g, c);
            overlay_release(p);
        }
        return;
    }
    uint64_t answer;
    (void)post(n, p, ANSWER, number + 1, l->refused, &answer);
}

static int on_message(void *ctx, struct peer *p, uint8_t *bytes, size_t n) {
    uint64_t number;
    if (head_of(ctx, p, bytes, n, n, &number)) whole(ctx, p, number, bytes);
    return 0;
}

static struct inbound *on_begin(void *ctx, struct peer *p, const uint8_t *bytes, size_t n, uint64_t total) {
    uint64_t number;
    if (!head_of(ctx, p, bytes, n, total, &number)) return NULL;
    struct arriving *a = calloc(1, sizeof *a);
    if (!a) abort();
    a->number = number;
    a->in.body = malloc((size_t)total);
    if (!a->in.body) abort();
    return &a->in;
}

static void on_aborted(void *ctx, struct inbound *in) {
    (void)ctx;
    free(in->body);
    free(in);
}

static int on_complete(void *ctx, struct inbound *in) {
    whole(ctx, in->peer, ((struct arriving *)in)->number, in->body);
    on_aborted(ctx, in);
    return 0;
}

static void on_failed(void *ctx, struct peer *p, const struct moyai_error *why) {
    struct grid_node *n = ctx;
    struct pal *pal = *peer_data(p);
    while (pal && pal->calls) {
        if (is_cleared(why)) call_cleared(n->g, pal->calls, n->g->letter[pal->calls->number].told);
        call_failed(n->g, pal->calls, why->code, why->text);
    }
}

/* All that has come before it was told to leave has been answered, and the answers have been taken. What has come since
 * was refused, be that heard or not (doc/spec/09-leave.md, 9.4). */
static bool on_cleared(void *ctx) {
    struct grid_node *n = ctx;
    n->cleared = n->told_to > 0 && n->owes == 0;
    return n->cleared;
}

static bool on_busy(void *ctx, struct peer *p) {
    (void)ctx;
    const struct pal *pal = *peer_data(p);
    return pal && pal->calls;
}

static void on_room(void *ctx, struct peer *p) {
    (void)ctx, (void)p;
}

/* The nodes of the grid are known by the rest of their ids. */
static bool on_rejoin(void *ctx, struct moyai_node_id *id) {
    struct grid_node *n = ctx;
    n->u->id.b[GRID_LIFE]++;
    *id = n->u->id;
    grid_say(n->g, n, "joins again");
    return true;
}

static void on_rejoined(void *ctx) {
    struct grid_node *n = ctx;
    n->g->count.rejoined++;
    n->g->changed = n->g->w->now;
}

const struct overlay_ops grid_talk_ops = {.message = on_message,
                                          .begin = on_begin,
                                          .complete = on_complete,
                                          .aborted = on_aborted,
                                          .failed = on_failed,
                                          .room = on_room,
                                          .owes_less = on_room,
                                          .rejoin = on_rejoin,
                                          .rejoined = on_rejoined,
                                          .busy = on_busy,
                                          .cleared = on_cleared};

/* ---- names ----------------------------------------------------------------------------------- */

static void name_of(const struct grid_node *n, char out[24]) {
    snprintf(out, 24, "node-%" PRIu32, n->index);
}

static void on_claimed(struct name_ask *a, int code, const uint8_t object[16], const uint8_t node[16]) {
    struct grid_node *n = (struct grid_node *)((char *)a - offsetof(struct grid_node, claim));
    (void)object, (void)node;
    if (n->gone || (n->leaving && code == MOYAI_ECLOSED)) return;
    if (code < 0) {
        grid_law(n->g, n, "its name is said to be another's: %d", code);
        return;
    }
    n->held = true;
    n->held_since = n->g->w->now;
    n->g->count.held++;
}

void grid_name(struct grid *g, uint32_t a) {
    struct grid_node *n = g->node[g->lives[a]];
    char name[24];
    if (n->named || n->u->stopped) return;
    n->named = true;
    n->claim.told = on_claimed;
    name_of(n, name);
    ground_enter(n->u);
    if (overlay_name_claim(n->o, name, n->u->id.b, &n->claim) < 0) n->named = false;
    ground_leave(n->u);
}

static void on_found(struct name_ask *a, int code, const uint8_t object[16], const uint8_t node[16]) {
    struct look *k = (struct look *)a;
    struct grid_node *n = k->n, *to = n->g->node[k->to];
    struct grid *g = n->g;
    (void)object;
    if (!n->gone && code == 0) {
        g->count.found++;
        if (grid_node_of(g, node) != to) grid_law(g, n, "the name of %" PRIu32 " is found at another node", to->index);
    } else if (!n->gone) {
        g->count.not_found++;
        if (to->held && to->held_since + HELD_LONG <= k->given && both_well(g, n, to, k->given))
            grid_law(g, n, "the name of %" PRIu32 " is not found, though both are well: %d", to->index, code);
    }
    free(k);
}

void grid_lookup(struct grid *g, uint32_t a, uint32_t b, moyai_dur wait) {
    struct grid_node *n = g->node[g->lives[a]], *to = g->node[g->lives[b]];
    char name[24];
    if (n->u->stopped) return;
    struct look *k = sim_alloc(sizeof *k);
    *k = (struct look){.ask = {.told = on_found}, .n = n, .to = to->index, .given = g->w->now, .wait = wait};
    name_of(to, name);
    ground_enter(n->u);
    if (overlay_name_find(n->o, name, wait ? g->w->now + (moyai_ns)wait : 0, &k->ask) < 0) free(k);
    ground_leave(n->u);
}

/* ---- in the background ----------------------------------------------------------------------- */

static uint32_t times(struct grid *g, double a_minute) {
    double each = a_minute * g->live / 600;
    uint32_t n = (uint32_t)each;
    return n + ((double)rng_below(&g->rng, 1u << 30) < (each - n) * (1u << 30));
}

static uint32_t any(struct grid *g) {
    return (uint32_t)rng_below(&g->rng, g->live);
}

static uint32_t partner(struct grid *g, uint32_t a) {
    if (rng_below(&g->rng, 100) >= g->traffic.near) return any(g);
    uint32_t *at = &g->node[g->lives[a]]->near[rng_below(&g->rng, 4)];
    if (*at == UINT32_MAX || !g->node[*at]->o) *at = g->lives[any(g)];
    return g->node[*at]->at;
}

void grid_talk_tick(struct grid *g) {
    if (g->live < 2) return;
    for (uint32_t n = times(g, g->traffic.calls); n; n--) {
        uint32_t a = any(g), bytes = HEAD + (uint32_t)rng_below(&g->rng, 200);
        if (rng_below(&g->rng, 100) < g->cfg.large) bytes = HEAD + (uint32_t)rng_below(&g->rng, g->cfg.largest + 1);
        grid_call(g, a, partner(g, a), bytes);
    }
    for (uint32_t n = times(g, g->traffic.names); n; n--) grid_name(g, any(g));
    for (uint32_t n = times(g, g->traffic.lookups); n; n--) { /* what nobody has costs a flood */
        uint32_t b = any(g);
        for (int i = 0; i < 8 && !g->node[g->lives[b]]->named; i++) b = any(g);
        grid_lookup(g, any(g), b, rng_below(&g->rng, 4) ? 0 : 10 * MOYAI_SEC);
    }
}

void grid_talk_done(struct grid *g) {
    free(g->letter);
}
