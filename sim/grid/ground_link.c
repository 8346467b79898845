/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: link.h and dial.h, and listening (tcp.h through the linker, see ground_rest.c). */
#include "sim/grid/ground_link.h"

#include "base/err.h"
#include "link/link.h"
#include "overlay/io/dial.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUT_MARK (1024u * 1024) /* as link.c */

struct box { /* a frame, or the end, on its way */
    struct box *next;
    moyai_ns due;
    int end; /* 0: a frame; 1: end of file; else an errno */
    struct frame_head head;
    _Alignas(16) uint8_t payload[];
};

struct way {
    struct box *first, *last;
    uint64_t bytes; /* in them */
    moyai_ns busy;  /* until then it transmits */
    bool waking;    /* an event is set */
    bool full;      /* its sender was told that there is no room */
};

struct ground_conn {
    struct ground *g;
    size_t slot;
    struct ground_node *node[2];
    struct link *link[2];
    struct ground_conn *next[2], *prev[2]; /* of the node's */
    struct ground_conn *waiting;
    bool mine[2]; /* the process has it, or the kernel for it */
    uint32_t refs;
    moyai_dur delay;
    struct way way[2]; /* towards node[0], node[1] */
    bool hole;
    moyai_ns silent; /* since when; 0: it is not */
    struct dial *dial;
};

struct link {
    struct exec *x;
    const struct link_ops *ops;
    void *owner;
    struct ground_conn *c;
    int end;
    bool down_told, reset, freed, telling, last;
    int code, sys;
    char text[96];
};

/* Frames come and go faster than anything else: what one leaves the next takes, while it is near. Not where the
 * sanitizer shall see who uses one that has gone. */
struct ground_spare {
    struct ground_spare *next;
};
static const size_t sizes[2] = {192, sizeof(struct box) + 1088};
#ifdef __SANITIZE_ADDRESS__
#define SPARED 0
#else
#define SPARED 2
#endif
#define SPARES (1u << 16)

static int size_of(size_t length) {
    int i = 0;
    while (i < SPARED && sizeof(struct box) + length > sizes[i]) i++;
    return i;
}

static struct box *box_new(struct ground *g, size_t length) {
    int i = size_of(length);
    struct ground_spare *s = i < SPARED ? g->spare[i] : NULL;
    if (s) {
        g->spare[i] = s->next;
        g->n_spare[i]--;
    }
    struct box *b = s ? (void *)s : malloc(i < SPARED ? sizes[i] : sizeof *b + length);
    if (!b) abort();
    return b;
}

static void box_free(struct ground *g, struct box *b) {
    int i = size_of(b->head.length);
    if (i == SPARED || g->n_spare[i] == SPARES) { /* what all have begun at once is memory for something else */
        free(b);
        return;
    }
    g->n_spare[i]++;
    struct ground_spare *s = (void *)b;
    s->next = g->spare[i];
    g->spare[i] = s;
}

void ground_spare_done(struct ground *g) {
    for (int i = 0; i < SPARED; i++)
        for (struct ground_spare *s = g->spare[i], *next; s; s = next) {
            next = s->next;
            free(s);
        }
}

static int end_of(const struct ground_conn *c, const struct ground_node *n) {
    return c->node[1] == n;
}

static void conn_unref(struct ground_conn *c) {
    if (--c->refs > 0) return;
    for (int e = 0; e < 2; e++) {
        while (c->way[e].first) {
            struct box *b = c->way[e].first;
            c->way[e].first = b->next;
            box_free(c->g, b);
        }
    }
    c->g->conn[c->slot] = c->g->conn[--c->g->n_conn];
    c->g->conn[c->slot]->slot = c->slot;
    free(c);
}

static struct ground_conn *conn_new(struct ground_node *from, struct ground_node *to, moyai_dur delay) {
    struct ground *g = from->g;
    if (g->n_conn == g->cap_conn) {
        g->cap_conn = g->cap_conn ? 2 * g->cap_conn : 1024;
        g->conn = realloc(g->conn, g->cap_conn * sizeof *g->conn);
        if (!g->conn) abort();
    }
    struct ground_conn *c = sim_alloc(sizeof *c);
    *c = (struct ground_conn){.g = g, .slot = g->n_conn, .node = {from, to}, .delay = delay, .refs = 2};
    g->conn[g->n_conn++] = c;
    for (int e = 0; e < 2; e++) {
        struct ground_node *n = c->node[e];
        c->mine[e] = true;
        c->next[e] = n->conns;
        if (n->conns) n->conns->prev[end_of(n->conns, n)] = c;
        n->conns = c;
        n->n_conns++;
    }
    return c;
}

static bool swallows(const struct ground_conn *c) {
    return c->hole || (c->g->parted && c->node[0]->part != c->node[1]->part);
}

static void way_set(struct ground_conn *c, int to);

/* ---- frames ---------------------------------------------------------------------------------- */

static void link_down(struct link *l, int code, int sys, const char *text) {
    if (l->down_told) return;
    struct moyai_error why = {0};
    l->down_told = true;
    if (sys)
        err_sys(&why, sys, "connection lost");
    else if (code)
        err_set(&why, code, "%s", text);
    else
        snprintf(why.text, sizeof why.text, "%s", text);
    l->telling = true;
    l->ops->down(l, &why);
    l->telling = false;
    if (l->freed && !l->reset) free(l);
}

/* As link.c does: large frames are offered a place first. */
static int hand_over(struct link *l, struct box *b, struct moyai_error *why) {
    uint8_t *dest = NULL;
    if (b->head.length >= LINK_LARGE) {
        size_t n = l->ops->place(l, &b->head, b->payload, &dest);
        if (n > 0) {
            memcpy(dest, b->payload + n, b->head.length - n);
            return l->ops->placed(l, &b->head, b->payload, dest, why);
        }
    }
    return l->ops->frame(l, &b->head, b->payload, why);
}

static void room_again(struct ground_conn *c, int from) {
    struct way *y = &c->way[1 - from];
    struct link *l = c->link[from];
    if (!y->full || !l || l->down_told || link_queued(l) >= OUT_MARK / 2) return;
    y->full = false;
    l->ops->room(l);
}

static void room_due(void *arg) {
    struct ground_conn *c = arg;
    room_again(c, end_of(c, ground_now));
    conn_unref(c);
}
static void room_undo(void *arg) {
    conn_unref(arg);
}

static void way_run(struct ground_conn *c, int to) {
    struct way *y = &c->way[to];
    struct ground_node *n = c->node[to];
    if (!c->mine[to]) { /* nobody reads any more */
        while (y->first) {
            struct box *b = y->first;
            y->first = b->next;
            box_free(c->g, b);
        }
        y->bytes = 0;
        return;
    }
    if (n->stopped || swallows(c) || !c->link[to]) return; /* whoever changes that comes back */
    c->refs++;
    ground_enter(n);
    while (y->first && y->first->due <= c->g->w->now && c->link[to] && !c->link[to]->down_told && !c->link[to]->reset) {
        struct box *b = y->first;
        struct link *l = c->link[to];
        struct moyai_error why = {0};
        y->first = b->next;
        if (!y->first) y->last = NULL;
        y->bytes -= b->head.length + FRAME_HEAD;
        if (b->end) {
            link_down(l, 0, b->end == 1 ? 0 : b->end, "end of file");
        } else {
            if (c->g->ops->came) c->g->ops->came(c->g->ctx, n, c->node[1 - to], &b->head, b->payload);
            l->telling = true;
            int rc = hand_over(l, b, &why);
            l->telling = false;
            if (l->freed && !l->reset)
                free(l);
            else if (rc < 0 && !l->freed)
                link_down(l, rc, 0, why.text);
        }
        box_free(c->g, b);
    }
    ground_leave(n);
    if (y->full && c->mine[1 - to] && link_queued(c->link[1 - to]) < OUT_MARK / 2) {
        c->refs++;
        ground_task(c->node[1 - to], 0, room_due, room_undo, c);
    }
    way_set(c, to);
    conn_unref(c);
}

static void way_due(void *who, uint64_t to) {
    struct ground_conn *c = who;
    c->way[to].waking = false;
    way_run(c, (int)to);
    conn_unref(c);
}

bool ground_ahead_link(world_fn *fn, void *who, uint64_t what, unsigned stage) {
    if (fn != way_due) return false;
    const struct ground_conn *c = who;
    const struct link *l = stage > 0 ? c->link[what] : NULL;
    const struct ground_node *n = stage > 0 ? c->node[what] : NULL;
    if (stage == 0) {
        ground_fetch(c, sizeof *c);
    } else if (stage == 1) {
        ground_fetch(c->way[what].first, 128);
        ground_fetch(l, 64);
        ground_fetch(n, sizeof *n);
    } else if (stage == 2 && l) {
        ground_fetch(l->owner, 64);
        ground_fetch(n->x.due, 128);
    } else if (l && c->g->ops->ahead) {
        c->g->ops->ahead(c->g->ctx, n, l->owner, stage);
    }
    return true;
}

static void way_set(struct ground_conn *c, int to) {
    struct way *y = &c->way[to];
    if (!y->first || y->waking || (c->link[to] && c->link[to]->reset)) return;
    y->waking = true;
    c->refs++;
    world_at(c->g->w, y->first->due, way_due, c, (uint64_t)to);
}

static void put(struct ground_conn *c, int from, struct box *b) {
    struct way *y = &c->way[1 - from];
    moyai_ns now = c->g->w->now, start = y->busy > now ? y->busy : now;
    uint64_t n = b->head.length + FRAME_HEAD, rate = c->g->bytes_a_second;
    y->busy = start + (rate ? n * (moyai_ns)MOYAI_SEC / rate : 0);
    b->due = y->busy + (moyai_ns)c->delay;
    b->next = NULL;
    y->bytes += n;
    if (y->last)
        y->last->next = b;
    else
        y->first = b;
    y->last = b;
    way_set(c, 1 - from);
}

static void put_end(struct ground_conn *c, int from, int end) {
    struct box *b = box_new(c->g, 0);
    *b = (struct box){.end = end};
    put(c, from, b);
}

/* One end lets go: what was sent arrives, then the end. */
static void conn_close(struct ground_conn *c, int e) {
    if (!c->mine[e]) return;
    struct ground_node *n = c->node[e];
    c->mine[e] = false;
    c->link[e] = NULL;
    if (c->prev[e])
        c->prev[e]->next[end_of(c->prev[e], n)] = c->next[e];
    else
        n->conns = c->next[e];
    if (c->next[e]) c->next[e]->prev[end_of(c->next[e], n)] = c->prev[e];
    n->n_conns--;
    if (n->mute && rng_below(&c->g->rng, 2)) { /* what is on its way is lost, too */
        struct way *y = &c->way[1 - e];
        while (y->first) {
            struct box *b = y->first;
            y->first = b->next;
            box_free(c->g, b);
        }
        y->last = NULL;
        y->bytes = 0;
    }
    if (c->mine[1 - e]) put_end(c, e, n->mute && rng_below(&c->g->rng, 2) ? ECONNRESET : 1);
    conn_unref(c);
}

struct link *link_new(struct exec *x, int fd, struct tls *tls, const struct link_ops *ops, void *owner) {
    (void)tls;
    struct ground_conn *c = ground_fd_conn(x->node->g, fd);
    struct link *l = calloc(1, sizeof *l);
    if (!l || !c) abort();
    *l = (struct link){.x = x, .ops = ops, .owner = owner, .c = c, .end = fd & 1};
    c->link[l->end] = l;
    way_set(c, l->end);
    return l;
}

void link_free(struct link *l) {
    conn_close(l->c, l->end);
    l->c = NULL;
    l->down_told = true;
    if (l->telling || l->reset)
        l->freed = true;
    else
        free(l);
}

void *link_owner(const struct link *l) {
    return l->owner;
}

static void reset_due(void *arg) {
    struct link *l = arg;
    l->reset = false;
    if (l->freed)
        free(l);
    else
        link_down(l, l->code, l->sys, l->text);
}

static void reset_undo(void *arg) {
    struct link *l = arg;
    l->reset = false;
    if (l->freed) free(l);
}

static void reset(struct link *l, int code, int sys, const char *text) {
    if (l->down_told || l->reset) return;
    l->reset = true;
    l->code = code;
    l->sys = sys;
    snprintf(l->text, sizeof l->text, "%s", text);
    ground_task(l->x->node, 0, reset_due, reset_undo, l);
}

void link_reset(struct link *l, int code, const char *text) {
    reset(l, code, 0, text);
}

uint8_t *link_reserve(struct link *l, const struct frame_head *h) {
    struct box *b = box_new(l->x->node->g, h->length);
    *b = (struct box){.head = *h};
    struct ground_conn *c = l->c;
    struct ground_node *n = l->x->node;
    if (n->mute || l->reset || l->last || l->down_told ||
        !c->mine[1 - l->end]) { /* into the void; the end has been sent */
        static _Thread_local uint8_t nowhere[FRAME_MAX];
        box_free(n->g, b);
        return nowhere;
    }
    n->g->frames++;
    n->g->bytes += h->length + FRAME_HEAD;
    put(c, l->end, b);
    return b->payload;
}

void link_last(struct link *l) {
    l->last = true;
}

int link_send(struct link *l, const struct frame_head *h, const struct link_piece *pieces, size_t n) {
    uint8_t *out = link_reserve(l, h), *at = out;
    for (size_t i = 0; i < n; i++) {
        if (pieces[i].n) memcpy(at, pieces[i].p, pieces[i].n);
        at += pieces[i].n;
    }
    return 0;
}

/* What kernels hold does not count. */
size_t link_queued(const struct link *l) {
    if (!l->c) return 0;
    const struct way *y = &l->c->way[1 - l->end];
    return y->bytes > GROUND_BACKLOG ? (size_t)y->bytes - GROUND_BACKLOG : 0;
}

size_t link_room(const struct link *l) {
    size_t q = link_queued(l);
    if (l->c && q >= OUT_MARK / 16) l->c->way[1 - l->end].full = true;
    return l->down_told || q >= OUT_MARK ? 0 : OUT_MARK - q;
}

void link_flush(struct link *l) {
    (void)l; /* what is sent is written at once */
}

void link_flush_full(struct link *l) {
    link_flush(l);
}
bool link_look(struct link *l) {
    (void)l;
    return false;
}
int link_unborrow(struct link *l, const void *p, size_t n) {
    (void)l, (void)p, (void)n;
    return 0;
}
void link_unplace(struct link *l, const void *p, size_t n) {
    (void)l, (void)p, (void)n;
}
void link_shape(struct link *l, moyai_dur delay, uint64_t rate) {
    (void)l, (void)delay, (void)rate;
}
int link_fd(const struct link *l) {
    (void)l;
    return -1;
}
const struct tls *link_tls(const struct link *l) {
    (void)l;
    return ground_tls();
}

/* ---- connecting ------------------------------------------------------------------------------ */

struct dial {
    struct ground_node *from, *to; /* to NULL: nobody has that address */
    dial_fn fn;
    void *arg;
    struct ground_conn *c;
    moyai_dur delay;
    uint32_t refs;
    bool over;
};

static void dial_unref(struct dial *d) {
    if (--d->refs == 0) free(d);
}
static void dial_undo(void *arg) {
    dial_unref(arg);
}

static void dial_over(struct dial *d, int code, const char *text) {
    if (d->over) return;
    d->over = true;
    if (d->c) {
        d->c->dial = NULL;
        conn_close(d->c, 0);
        d->c = NULL;
    }
    struct moyai_error why = {0};
    if (code) {
        err_set(&why, code, "%s", text);
        d->fn(d->arg, NULL, &why);
    }
    dial_unref(d);
}

static void dial_refused(void *arg) {
    struct dial *d = arg;
    dial_over(d, MOYAI_EUNREACHABLE, "connection refused");
    dial_unref(d);
}

static void dial_late(void *arg) {
    struct dial *d = arg;
    dial_over(d, MOYAI_ETIMEDOUT, "no answer");
    dial_unref(d);
}

static void dial_done(void *arg) {
    struct dial *d = arg;
    if (!d->over) {
        struct dialled got = {.fd = ground_conn_fd(d->c, 0), .tls = ground_tls()};
        char at[32];
        ground_address(d->to->index, at);
        ground_parse(at, &got.at);
        d->over = true;
        d->c->dial = NULL;
        d->c = NULL;
        d->fn(d->arg, &got, NULL);
        d->refs--; /* its own; this task has another */
    }
    dial_unref(d);
}

/* At the other end. */
static void dial_knock(void *who, uint64_t what) {
    struct dial *d = who;
    struct ground_node *n = d->from;
    struct ground *g = n->g;
    (void)what;
    enum ground_answer a = d->over || !n->here ? GROUND_NOTHING : d->to ? ground_knock(n, d->to) : GROUND_NO;
    if (a == GROUND_NO) {
        d->refs++;
        ground_task(n, d->delay, dial_refused, dial_undo, d);
    } else if (a == GROUND_YES) {
        struct ground_conn *c = d->c = conn_new(n, d->to, d->delay);
        c->dial = d;
        if (d->to->waiting)
            d->to->waiting_last->waiting = c;
        else
            d->to->waiting = c;
        d->to->waiting_last = c;
        c->refs++; /* of the queue */
        g->calls++;
        if (d->to->second_in != g->w->now / (moyai_ns)MOYAI_SEC) d->to->calls = 0;
        d->to->second_in = g->w->now / (moyai_ns)MOYAI_SEC;
        if (++d->to->calls > g->calls_most) g->calls_most = d->to->calls;
        ground_accepts(d->to);
    }
    dial_unref(d);
}

struct dial *dial_new(struct exec *x, struct tls_ctx *tls, const struct keyfile *keys, const char *const *places,
                      size_t n, moyai_dur limit, dial_fn fn, void *arg) {
    (void)tls, (void)keys;
    struct ground_node *from = x->node;
    struct ground *g = from->g;
    struct dial *d = sim_alloc(sizeof *d);
    *d = (struct dial){.from = from, .to = n ? ground_at(g, places[0]) : NULL, .fn = fn, .arg = arg, .refs = 3};
    d->delay = d->to ? ground_delay(g, from, d->to) : 1;
    if (from->second != g->w->now / (moyai_ns)MOYAI_SEC) from->dials = 0;
    from->second = g->w->now / (moyai_ns)MOYAI_SEC;
    if (++from->dials > g->dials_most) g->dials_most = from->dials;
    g->dials++;
    world_in(g->w, d->delay, dial_knock, d, 0);
    ground_task(from, limit, dial_late, dial_undo, d);
    return d;
}

void dial_cancel(struct dial *d) {
    if (d) dial_over(d, 0, NULL);
}

/* ---- listening ------------------------------------------------------------------------------- */

int ground_accept(int listener, int *ret, struct tcp_addr *from) {
    (void)listener;
    struct ground_node *n = ground_now;
    for (;;) {
        struct ground_conn *c = n->waiting;
        if (!c) return MOYAI_EAGAIN;
        n->waiting = c->waiting;
        c->waiting = NULL;
        bool given_up = !c->mine[1];
        if (!given_up && c->dial) { /* the handshake takes a round trip from here on */
            c->dial->refs++;
            ground_task(c->node[0], c->delay, dial_done, dial_undo, c->dial);
        }
        *ret = ground_conn_fd(c, 1);
        char at[32];
        ground_address(c->node[0]->index, at);
        ground_parse(at, from);
        n->g->accepted++;
        conn_unref(c);
        if (!given_up) return 0;
    }
}

int ground_conn_fd(const struct ground_conn *c, int end) {
    return (int)(GROUND_FDS + 2 * c->slot) + end;
}

struct ground_conn *ground_fd_conn(struct ground *g, int fd) {
    size_t i = (size_t)(fd - GROUND_FDS) / 2;
    return fd >= GROUND_FDS && i < g->n_conn ? g->conn[i] : NULL;
}

/* ---- what happens ---------------------------------------------------------------------------- */

static void tell_end(struct ground_conn *c, int e, int sys) {
    if (c->mine[e] && c->link[e])
        reset(c->link[e], 0, sys, "");
    else if (c->mine[e])
        put_end(c, 1 - e, sys);
}

void ground_break(struct ground_conn *c) {
    for (int e = 0; e < 2; e++) tell_end(c, e, ECONNRESET);
}

static void kernel_gives_up(void *who, uint64_t since) {
    struct ground_conn *c = who;
    if (c->silent == since && swallows(c))
        for (int e = 0; e < 2; e++) tell_end(c, e, ETIMEDOUT);
    conn_unref(c);
}

static void silence(struct ground_conn *c) {
    c->silent = c->g->w->now;
    c->refs++;
    world_in(c->g->w, GROUND_KERNEL, kernel_gives_up, c, c->silent);
}

void ground_swallow(struct ground_conn *c) {
    if (c->hole) return;
    c->hole = true;
    silence(c);
}

void ground_part(struct ground *g, bool yes) {
    g->parted = yes;
    for (size_t i = 0; i < g->n_conn; i++) {
        struct ground_conn *c = g->conn[i];
        if (c->hole || c->node[0]->part == c->node[1]->part) continue;
        if (yes) {
            silence(c);
            continue;
        }
        c->silent = 0;
        for (int e = 0; e < 2; e++) way_set(c, e);
    }
}

void ground_resume_conns(struct ground_node *n) {
    for (struct ground_conn *c = n->conns; c; c = c->next[end_of(c, n)]) way_set(c, end_of(c, n));
}

struct ground_conn *ground_conn_of(struct ground_node *n, uint32_t which) {
    struct ground_conn *c = n->conns;
    while (c && which-- > 0) c = c->next[end_of(c, n)];
    return c;
}

struct ground_node *ground_other(const struct ground_conn *c, const struct ground_node *n) {
    return c->node[1 - end_of(c, n)];
}

/* All of a node's connections that its process has no link for: the kernel closes them with the process. */
void ground_close(struct ground_node *n) {
    while (n->conns) {
        struct ground_conn *c = n->conns;
        conn_close(c, end_of(c, n));
    }
    while (n->waiting) {
        struct ground_conn *c = n->waiting;
        n->waiting = c->waiting;
        conn_unref(c);
    }
}
