/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random grids of 64 to 1,000 nodes, of which any leave, many at once, while users send messages and others join; in a
 * third of the runs nodes crash and channels break besides.
 *
 *   leave_soak [--seed N] [--runs N] [--nodes N] [--trace]
 *
 * Each node opens channels to five others, as in S2/5.1; how long a message takes is drawn for each channel and
 * direction, some being a hundred times as slow as others. Laws: each message is delivered once, or was lost with a
 * crash or a broken channel; whoever wants to leave is done in the end; nothing is sent to who is done, and nothing
 * refused.
 */
#include "base/err.h"
#include "base/id.h"
#include "member/leave.h"
#include "sim/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS       ((moyai_ns)MOYAI_MS)
#define DEGREE   5
#define MOST     1200 /* nodes, those that join included */
#define PORTS    400
#define CHANNELS 16000
#define SPAN     (400 * MS) /* all that happens begins within this */
#define PATIENCE (300 * MS) /* who has sought for so long opens a channel, if there were faults */

enum { DATA = LEAVE_FRAMES, OPEN, OPENED, REFUSE };

struct channel {
    uint32_t end[2];
    moyai_dur delay[2];   /* to end[1], to end[0] */
    moyai_ns last[2];     /* arrival of what was sent last */
    bool broken, open[2]; /* open: that end has a port */
};

struct node {
    struct leave *l;
    bool dead, wants;
    moyai_ns wanted, done;
    uint32_t *held, held_n, held_cap;
};

struct flight {
    uint32_t channel, kind, n;
    uint8_t to;
};

struct sim {
    struct world w;
    struct moyai_rng rng;
    bool faults;
    uint32_t n, channels, messages;
    struct node node[MOST];
    struct channel ch[CHANNELS];
    uint8_t *place; /* of each message: 0 under way or held, 1 delivered, 2 lost */
    struct flight *flight;
    uint32_t flights, flight_cap, messages_cap;
    uint64_t frames, data;
    const char *wrong;
};

static uint64_t drawn(struct sim *s, uint64_t below) {
    return rng_below(&s->rng, below);
}

static void wrong(struct sim *s, const char *what) {
    if (!s->wrong) s->wrong = what;
}

static void *grown(void *p, uint32_t n, uint32_t *cap, size_t each) {
    if (n < *cap) return p;
    *cap = *cap ? *cap * 2 : 64;
    p = realloc(p, *cap * each);
    if (!p) abort();
    return p;
}

/* --- channels ------------------------------------------------------------------------------------- */

static void arrive(void *who, uint64_t what);

static void lose(struct sim *s, uint32_t kind, uint32_t n) {
    if (kind != DATA) return;
    if (s->place[n]) wrong(s, "what is lost is elsewhere, too");
    s->place[n] = 2;
    if (!s->faults) wrong(s, "a message is lost");
}

static void post(struct sim *s, uint32_t c, uint32_t from, uint32_t kind, uint32_t n) {
    struct channel *ch = &s->ch[c];
    const uint8_t to = ch->end[0] == from;
    s->frames += kind < DATA;
    s->data += kind == DATA;
    if (ch->broken) {
        lose(s, kind, n);
        return;
    }
    moyai_ns at = s->w.now + (moyai_ns)ch->delay[to];
    if (at <= ch->last[to]) at = ch->last[to] + 1;
    ch->last[to] = at;
    s->flight = grown(s->flight, s->flights, &s->flight_cap, sizeof *s->flight);
    s->flight[s->flights] = (struct flight){c, kind, n, to};
    world_at(&s->w, at, arrive, s, s->flights++);
}

/* Each direction has a speed of its own, every tenth a much lower one. */
static uint32_t channel_new(struct sim *s, uint32_t a, uint32_t b) {
    struct channel *ch = &s->ch[s->channels];
    if (s->channels == CHANNELS - 1) abort();
    *ch = (struct channel){.end = {a, b}};
    for (int i = 0; i < 2; i++) {
        const uint64_t speed = drawn(s, 10);
        ch->delay[i] = (moyai_dur)(MS / 10 + drawn(s, speed ? MS : 50 * MS));
    }
    return s->channels++;
}

static uint64_t link_of(uint32_t channel) {
    return channel + 1;
}

/* --- steps ---------------------------------------------------------------------------------------- */

static int step(struct sim *s, uint32_t i, struct leave_event ev, uint32_t message) {
    struct node *n = &s->node[i];
    struct leave_effect fx;
    struct moyai_error why;
    const int rc = leave_step(n->l, &ev);
    if (rc == MOYAI_EAGAIN || rc == MOYAI_ELEAVING || rc == MOYAI_ELIMIT) return rc;
    if (rc < 0) {
        wrong(s, rc == MOYAI_EPROTO ? "a frame is refused" : "an event is refused");
        return rc;
    }
    while (leave_next(n->l, &fx)) {
        const uint32_t c = fx.link ? (uint32_t)fx.link - 1 : 0;
        switch (fx.kind) {
        case LEAVE_FX_FRAME:
            post(s, c, i, fx.frame, fx.n);
            break;
        case LEAVE_FX_DATA:
            post(s, c, i, DATA, message);
            break;
        case LEAVE_FX_PASS:
            post(s, c, i, DATA, n->held[0]);
            memmove(n->held, n->held + 1, --n->held_n * sizeof *n->held);
            break;
        case LEAVE_FX_DELIVER:
            if (s->place[message]) wrong(s, "a message comes twice");
            s->place[message] = 1;
            break;
        case LEAVE_FX_HOLD:
            n->held = grown(n->held, n->held_n, &n->held_cap, sizeof *n->held);
            n->held[n->held_n++] = message;
            break;
        case LEAVE_FX_CLOSE:
            s->ch[c].open[s->ch[c].end[1] == i] = false;
            break;
        case LEAVE_FX_DONE:
            n->done = s->w.now;
            break;
        }
    }
    if (n->held_n != leave_held(n->l)) wrong(s, "held messages are miscounted");
    if (!leave_check(n->l, &why)) wrong(s, "leave_check");
    return 0;
}

/* What is held goes up as fast as the channel takes it. */
static void pass(void *who, uint64_t what) {
    struct sim *s = who;
    const uint32_t i = (uint32_t)what;
    if (s->node[i].dead || leave_phase(s->node[i].l) != LEAVE_ATTACHED || !s->node[i].held_n) return;
    (void)step(s, i, (struct leave_event){.kind = LEAVE_EV_PASS}, 0);
    world_in(&s->w, 10 * MOYAI_US, pass, s, what);
}

static bool stays(const struct sim *s, uint32_t i) {
    return !s->node[i].dead && leave_phase(s->node[i].l) == LEAVE_NORMAL;
}

static void arrive(void *who, uint64_t what) {
    struct sim *s = who;
    const struct flight f = s->flight[what];
    struct channel *ch = &s->ch[f.channel];
    const uint32_t to = ch->end[f.to];
    struct leave_event ev = {
        .kind = LEAVE_EV_FRAME, .frame = (enum leave_frame_kind)f.kind, .link = link_of(f.channel)};
    if (ch->broken || s->node[to].dead) {
        lose(s, f.kind, f.n);
        return;
    }
    if (leave_phase(s->node[to].l) == LEAVE_DONE && f.kind != OPEN) wrong(s, "something is sent to who is done");
    ev.n = f.n;
    if (f.kind == OPEN) {
        const bool agreed =
            stays(s, to) && step(s, to, (struct leave_event){.kind = LEAVE_EV_OPEN, .link = ev.link}, 0) == 0;
        ch->open[f.to] = agreed;
        post(s, f.channel, to, agreed ? OPENED : REFUSE, 0);
        return;
    }
    if (f.kind == OPENED) ev.kind = LEAVE_EV_OPEN;
    if (f.kind == REFUSE) {
        ev.kind = LEAVE_EV_REFUSED;
        ch->open[f.to] = false;
    }
    if (f.kind == DATA) ev.kind = LEAVE_EV_DATA;
    (void)step(s, to, ev, f.n);
    pass(s, to);
}

/* --- what users and operators do ------------------------------------------------------------------ */

static void open_to(struct sim *s, uint32_t a, uint32_t b) {
    const uint32_t c = channel_new(s, a, b);
    if (step(s, a, (struct leave_event){.kind = LEAVE_EV_OPENING, .link = link_of(c)}, 0) < 0) return;
    s->ch[c].open[0] = true;
    post(s, c, a, OPEN, 0);
}

static uint32_t some_stayer(struct sim *s) {
    for (int k = 0; k < 1000; k++) {
        const uint32_t i = (uint32_t)drawn(s, s->n);
        if (stays(s, i)) return i;
    }
    return MOST;
}

static void say(void *who, uint64_t what) {
    struct sim *s = who;
    const uint32_t i = (uint32_t)what;
    uint64_t links[PORTS];
    uint32_t n = 0;
    if (s->node[i].dead) return;
    for (uint32_t c = 0; c < s->channels && stays(s, i) && n < PORTS; c++)
        if ((s->ch[c].end[0] == i || s->ch[c].end[1] == i) && leave_may_send(s->node[i].l, link_of(c)))
            links[n++] = link_of(c);
    if (stays(s, i) && !n) return;
    s->place = grown(s->place, s->messages, &s->messages_cap, 1);
    s->place[s->messages] = 0;
    const int rc =
        step(s, i, (struct leave_event){.kind = LEAVE_EV_SAY, .link = n ? links[drawn(s, n)] : 0}, s->messages);
    s->messages += rc == 0;
}

/* Are those that stay, without i, connected, and i to one of them? */
static bool may_want(const struct sim *s, uint32_t i) {
    static uint32_t of[MOST];
    uint32_t parts = 0;
    bool way = false;
    for (uint32_t k = 0; k < s->n; k++) {
        of[k] = k;
        parts += k != i && stays(s, k);
    }
    for (uint32_t c = 0; c < s->channels; c++) {
        const struct channel *ch = &s->ch[c];
        uint32_t a = ch->end[0], b = ch->end[1];
        if (ch->broken || !ch->open[0] || !ch->open[1] || !stays(s, a) || !stays(s, b)) continue;
        if (a == i || b == i) {
            way = true;
            continue;
        }
        while (of[a] != a) a = of[a] = of[of[a]];
        while (of[b] != b) b = of[b] = of[of[b]];
        if (a == b) continue;
        of[a] = b;
        parts--;
    }
    return way && parts == 1;
}

static void seek_more(void *who, uint64_t what);

static void want(void *who, uint64_t what) {
    struct sim *s = who;
    const uint32_t i = (uint32_t)what;
    if (!stays(s, i) || !may_want(s, i)) return;
    s->node[i].wants = true;
    s->node[i].wanted = s->w.now;
    (void)step(s, i, (struct leave_event){.kind = LEAVE_EV_WANT}, 0);
    if (s->faults) world_in(&s->w, (moyai_dur)PATIENCE, seek_more, s, what);
}

/* E2b: cut off, or impatient. */
static void seek_more(void *who, uint64_t what) {
    struct sim *s = who;
    const uint32_t i = (uint32_t)what;
    if (s->node[i].dead || leave_phase(s->node[i].l) == LEAVE_DONE) return;
    const uint32_t to = some_stayer(s);
    if (leave_phase(s->node[i].l) == LEAVE_SEEKING && to < MOST) open_to(s, i, to);
    world_in(&s->w, (moyai_dur)PATIENCE, seek_more, s, what);
}

static void notice(void *who, uint64_t what) {
    struct sim *s = who;
    struct channel *ch = &s->ch[what / 2];
    const uint32_t at = what & 1, i = ch->end[at];
    if (s->node[i].dead || !ch->open[at] || !leave_knows(s->node[i].l, link_of((uint32_t)(what / 2)))) return;
    ch->open[at] = false;
    (void)step(s, i, (struct leave_event){.kind = LEAVE_EV_RESET, .link = link_of((uint32_t)(what / 2))}, 0);
    pass(s, i);
}

static void cut(struct sim *s, uint32_t c) {
    if (s->ch[c].broken) return;
    s->ch[c].broken = true;
    for (uint64_t at = 0; at < 2; at++)
        world_in(&s->w, (moyai_dur)(1 + drawn(s, 5 * MS)), notice, s, 2 * (uint64_t)c + at);
}

static void cut_any(void *who, uint64_t what) {
    (void)what;
    struct sim *s = who;
    cut(s, (uint32_t)drawn(s, s->channels));
}

static void crash(void *who, uint64_t what) {
    struct sim *s = who;
    const uint32_t i = (uint32_t)what;
    struct node *n = &s->node[i];
    uint32_t stay = 0;
    for (uint32_t k = 0; k < s->n; k++) stay += stays(s, k);
    if (n->dead || leave_phase(n->l) == LEAVE_DONE || (stays(s, i) && stay < 3)) return;
    for (uint32_t k = 0; k < n->held_n; k++) lose(s, DATA, n->held[k]);
    n->held_n = 0;
    n->dead = true;
    for (uint32_t c = 0; c < s->channels; c++)
        if (s->ch[c].end[0] == i || s->ch[c].end[1] == i) cut(s, c);
}

static void node_new(struct sim *s) {
    static const struct leave_cfg cfg = {.ports = PORTS};
    struct node *n = &s->node[s->n++];
    *n = (struct node){.l = sim_alloc(leave_size(&cfg))};
    if (leave_init(n->l, &cfg) < 0) abort();
}

static void join(void *who, uint64_t what) {
    (void)what;
    struct sim *s = who;
    if (s->n == MOST) return;
    const uint32_t i = s->n;
    node_new(s);
    for (int k = 0; k < DEGREE; k++) {
        const uint32_t to = some_stayer(s);
        if (to < MOST && to != i) open_to(s, i, to);
    }
}

/* --- a run ---------------------------------------------------------------------------------------- */

static void build(struct sim *s, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) node_new(s);
    for (uint32_t i = 1; i < n; i++)
        for (int k = 0; k < (i < DEGREE ? 1 : DEGREE); k++) {
            const uint32_t to = (uint32_t)drawn(s, i), c = channel_new(s, i, to);
            bool fits = true;
            for (uint8_t at = 0; at < 2; at++) {
                const struct leave_event ev = {.kind = LEAVE_EV_OPEN, .link = link_of(c)};
                fits = fits && step(s, at ? to : i, ev, 0) == 0;
                s->ch[c].open[at] = fits;
            }
            if (!fits) abort();
        }
}

static const char *judge(struct sim *s) {
    for (uint32_t i = 0; i < s->n; i++)
        if (s->node[i].wants && !s->node[i].dead && leave_phase(s->node[i].l) != LEAVE_DONE)
            wrong(s, "somebody could not leave");
    for (uint32_t m = 0; m < s->messages; m++)
        if (!s->place[m]) wrong(s, "a message is not delivered");
    return s->wrong;
}

static const char *run(uint64_t seed, uint32_t nodes, bool trace) {
    static struct sim s;
    memset(&s, 0, sizeof s);
    world_init(&s.w, seed, seed % 2);
    rng_seed(&s.rng, seed);
    s.faults = seed % 3 == 0;
    const uint32_t n = nodes ? nodes : 64 + (uint32_t)drawn(&s, drawn(&s, 4) ? 64 : 937);
    const uint64_t share = 1 + drawn(&s, 100), at_once = drawn(&s, 3) ? SPAN : MS;
    build(&s, n);
    for (uint32_t i = 0; i < n; i++)
        if (drawn(&s, 100) < share) world_in(&s.w, (moyai_dur)(SPAN / 4 + drawn(&s, at_once)), want, &s, i);
    for (uint32_t k = 0; k < 12 * n; k++)
        world_in(&s.w, (moyai_dur)(SPAN / 8 + drawn(&s, 2 * at_once)), say, &s, drawn(&s, n));
    for (uint32_t k = 0; k < n / 16; k++) world_in(&s.w, (moyai_dur)drawn(&s, SPAN), join, &s, 0);
    for (uint32_t k = 0; s.faults && k < n / 16; k++) {
        world_in(&s.w, (moyai_dur)drawn(&s, SPAN), crash, &s, drawn(&s, n));
        world_in(&s.w, (moyai_dur)drawn(&s, SPAN), cut_any, &s, 0);
    }
    (void)world_run(&s.w, NULL, NULL, s.w.now + 3600 * (moyai_ns)MOYAI_SEC);
    const char *why = judge(&s);
    uint32_t left = 0;
    moyai_ns slowest = 0;
    for (uint32_t i = 0; i < s.n; i++) {
        if (!s.node[i].done) continue;
        left++;
        if (s.node[i].done - s.node[i].wanted > slowest) slowest = s.node[i].done - s.node[i].wanted;
    }
    uint32_t lost = 0;
    for (uint32_t m = 0; m < s.messages; m++) lost += s.place[m] == 2;
    if (trace || why)
        printf("seed %" PRIu64 ": %" PRIu32 " nodes, %" PRIu32 " left, the slowest in %.1f ms; %" PRIu32
               " messages, %" PRIu32 " lost%s; %" PRIu64 " frames, %" PRIu64 " hops of messages: %s\n",
               seed, n, left, (double)slowest / 1e6, s.messages, lost, s.faults ? " with crashes" : "", s.frames,
               s.data, why ? why : "ok");
    for (uint32_t i = 0; i < s.n; i++) {
        free(s.node[i].l);
        free(s.node[i].held);
    }
    free(s.flight);
    free(s.place);
    world_done(&s.w);
    return why;
}

int main(int argc, char **argv) {
    uint64_t seed = 1, runs = 60;
    uint32_t nodes = 0;
    bool trace = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seed") && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--runs") && i + 1 < argc) {
            runs = strtoull(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--nodes") && i + 1 < argc) {
            nodes = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--trace")) {
            trace = true;
        } else {
            fprintf(stderr, "usage: %s [--seed N] [--runs N] [--nodes N] [--trace]\n", argv[0]);
            return 2;
        }
    }
    printf("seed %" PRIu64 ", %" PRIu64 " runs\n", seed, runs);
    fflush(stdout);
    int failed = 0;
    for (uint64_t i = 0; i < runs && failed < 5; i++) failed += run(seed + i, nodes, trace) != NULL;
    return failed != 0;
}
