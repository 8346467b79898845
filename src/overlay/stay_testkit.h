/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the stay machine's tests: small worlds of real machines, whose frames and links the test carries. */
#ifndef OVERLAY_STAY_TESTKIT_H
#define OVERLAY_STAY_TESTKIT_H

#include "overlay/peers_wire.h"
#include "overlay/stay_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS ((moyai_ns)MOYAI_MS)

static const uint8_t some_text[] = {3, 'a', ':', '1'};

static inline struct moyai_node_id node(uint32_t n) {
    return (struct moyai_node_id){{(uint8_t)n, 1}};
}

/* ---- a world --------------------------------------------------------------------------------- */

#define NODES 16u

struct way { /* a frame under way */
    struct way *next;
    uint32_t from, to;
    size_t n;
    uint8_t type, bytes[PEERS_WIRE_MAX];
};

static struct {
    struct stay *s[NODES];
    struct stay_cfg cfg[NODES];
    size_t size;
    bool linked[NODES][NODES], blocked[NODES][NODES], gone[NODES], deaf[NODES], reached[NODES], ways;
    uint32_t connects, searches, frames, leaves[NODES];
    struct way *first, **last;
    moyai_ns now;
} w;

static inline uint64_t number_of(uint32_t at, uint32_t to) {
    return 1 + at * NODES + to;
}

/* The site of each is its own, unless same is set; it can be connected to if open has its bit. */
static inline void world_new(uint32_t n, uint32_t open) {
    memset(&w, 0, sizeof w);
    w.last = &w.first;
    w.now = 1000 * MS;
    for (uint32_t i = 0; i < n; i++) {
        w.cfg[i] = (struct stay_cfg){
            .self = node(i), .site = i + 1, .seed = i + 1, .accepts = open >> i & 1, .links = NODES, .seen = 1024};
        w.size = stay_size(&w.cfg[i]);
        assert_true(w.size > 0);
        w.s[i] = aligned_alloc(16, w.size);
        assert_non_null(w.s[i]);
        memset(w.s[i], 0, w.size);
        assert_int_equal(stay_init(w.s[i], &w.cfg[i]), 0);
    }
}

static inline void world_free(void) {
    for (struct way *y; (y = w.first);) {
        w.first = y->next;
        free(y);
    }
    for (uint32_t i = 0; i < NODES; i++) free(w.s[i]);
}

static inline int step(uint32_t at, struct stay_event ev);

static inline struct peers_endpoint endpoint(uint32_t i) {
    return (struct peers_endpoint){.id = node(i),
                                   .site = w.cfg[i].site,
                                   .accepts = w.cfg[i].accepts,
                                   .reached = w.reached[i],
                                   .lifetime = 600,
                                   .n_text = sizeof some_text,
                                   .text = some_text};
}

static inline void link_up(uint32_t a, uint32_t b) {
    const struct peers_endpoint ea = endpoint(a), eb = endpoint(b);
    if (w.linked[a][b]) return;
    w.linked[a][b] = w.linked[b][a] = true;
    assert_int_equal(step(a, (struct stay_event){.kind = STAY_EV_UP, .link = number_of(a, b), .endpoint = &eb}), 0);
    assert_int_equal(step(b, (struct stay_event){.kind = STAY_EV_UP, .link = number_of(b, a), .endpoint = &ea}), 0);
}

static inline void link_down(uint32_t a, uint32_t b) {
    if (!w.linked[a][b]) return;
    w.linked[a][b] = w.linked[b][a] = false;
    if (!w.gone[a]) assert_int_equal(step(a, (struct stay_event){.kind = STAY_EV_DOWN, .link = number_of(a, b)}), 0);
    if (!w.gone[b]) assert_int_equal(step(b, (struct stay_event){.kind = STAY_EV_DOWN, .link = number_of(b, a)}), 0);
}

static inline void send_frame(uint32_t at, const struct stay_effect *fx) {
    struct way *y = calloc(1, sizeof *y);
    assert_non_null(y);
    y->from = at;
    y->to = (uint32_t)((fx->link - 1) % NODES);
    y->type = (uint8_t)(FRAME_PEERS + fx->frame.kind);
    y->n = peers_wire_size(&fx->frame);
    peers_wire_put(y->bytes, &fx->frame);
    *w.last = y;
    w.last = &y->next;
    w.frames++;
    w.searches += fx->frame.kind == PEERS_SEARCH;
}

/* Within a step nothing else may be stepped: what is to follow is noted. */
struct todo {
    enum stay_effect_kind kind;
    uint32_t who;
};

/* As the driver counts: those that do not leave, its neighbours and theirs. */
static inline uint32_t sees(uint32_t at) {
    bool seen[NODES] = {false};
    uint32_t n = 0;
    seen[at] = true;
    for (uint32_t k = 0; k < NODES; k++) {
        if (!w.linked[at][k] || stay_leaves(w.s[at], number_of(at, k))) continue;
        seen[k] = true;
        for (uint32_t i = 0; i < NODES; i++)
            if (w.linked[k][i] && !(w.linked[at][i] && stay_leaves(w.s[at], number_of(at, i)))) seen[i] = true;
    }
    for (uint32_t k = 0; k < NODES; k++) n += seen[k];
    return n;
}

static inline int step(uint32_t at, struct stay_event ev) {
    struct stay *s = w.s[at];
    struct todo todo[64];
    uint32_t n = 0;
    struct moyai_error why = {0};
    uint8_t *before = malloc(w.size);
    assert_non_null(before);
    memcpy(before, s, w.size);
    ev.now = w.now;
    ev.sees = sees(at);
    const int rc = stay_step(s, &ev);
    if (rc) assert_memory_equal(before, s, w.size);
    free(before);
    struct stay_effect fx;
    while (stay_next(s, &fx)) {
        switch (fx.kind) {
        case STAY_FX_SEND:
            send_frame(at, &fx);
            break;
        case STAY_FX_LEAVES:
            w.leaves[at]++;
            break;
        case STAY_FX_WAY:
            assert_true(n < 64);
            todo[n++] = (struct todo){fx.kind, fx.id.b[0]};
            break;
        case STAY_FX_CONNECT:
            assert_true(n < 64 && fx.endpoint.n_text > 0);
            w.connects++;
            todo[n++] = (struct todo){fx.kind, fx.endpoint.id.b[0]};
            break;
        }
    }
    if (!stay_check(s, &why)) fail_msg("node %u: %s", at, why.text);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t to = todo[i].who;
        if (todo[i].kind == STAY_FX_WAY) {
            bool yes = false; /* over one common neighbour, as locating would know */
            for (uint32_t k = 0; k < NODES && w.ways; k++)
                yes |= w.linked[at][k] && w.linked[k][to] && !stay_leaves(s, number_of(at, k));
            (void)step(at, (struct stay_event){.kind = STAY_EV_WAY, .id = node(to), .yes = yes});
        } else if (w.blocked[at][to] || w.gone[to] || stay_leaving(w.s[to])) {
            (void)step(at, (struct stay_event){.kind = STAY_EV_FAILED, .id = node(to)});
        } else {
            link_up(at, to);
        }
    }
    return rc;
}

/* Until nothing is under way, and then until so much time has passed. */
static inline void run(moyai_ns span) {
    const moyai_ns until = w.now + span;
    for (;;) {
        struct way *y = w.first;
        if (y) {
            w.first = y->next;
            if (!w.first) w.last = &w.first;
            struct peers_frame f;
            assert_int_equal(peers_wire_get(y->type, y->bytes, y->n, &f, NULL), 0);
            if (w.linked[y->from][y->to] && !w.gone[y->to] && !w.deaf[y->to])
                assert_int_equal(
                    step(y->to,
                         (struct stay_event){.kind = STAY_EV_FRAME, .link = number_of(y->to, y->from), .frame = &f}),
                    0);
            free(y);
            continue;
        }
        moyai_ns at = UINT64_MAX;
        uint32_t who = 0;
        for (uint32_t i = 0; i < NODES; i++)
            if (w.s[i] && !w.gone[i] && stay_deadline(w.s[i]) < at) at = stay_deadline(w.s[who = i]);
        if (at > until) break;
        if (at > w.now) w.now = at;
        (void)step(who, (struct stay_event){.kind = STAY_EV_TIMEOUT});
    }
    w.now = until;
}

/* As drain.c does with force: whom it finds to depend on it leaves, too, and is there to be waited for. */
static struct {
    bool forced[NODES];
    uint32_t by[NODES], told; /* by[i]: 1 + who has told it */
} force;

static inline void leave_by_force(uint32_t i) {
    force.forced[i] = true;
    assert_int_equal(step(i, (struct stay_event){.kind = STAY_EV_LEAVE}), 0);
}

static inline bool tell_dependants(uint32_t i) {
    struct moyai_node_id ids[NODES], from;
    const uint32_t n = force.forced[i] ? stay_dependants(w.s[i], ids, NODES, &from) : 0;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t who = ids[k].b[0];
        if (force.forced[who]) continue;
        force.forced[who] = true;
        force.by[who] = i + 1;
        force.told++;
        assert_int_equal(step(who, (struct stay_event){.kind = STAY_EV_LEAVE, .id = from}), 0);
    }
    return n > 0;
}

static inline bool waits_for_told(uint32_t i) {
    for (uint32_t k = 0; k < NODES; k++)
        if (force.by[k] == i + 1 && !w.gone[k] && !stay_is_placed(w.s[i], node(k).b)) return true;
    return false;
}

static inline void leave(uint32_t i) {
    assert_int_equal(step(i, (struct stay_event){.kind = STAY_EV_LEAVE}), 0);
}

static inline void go(uint32_t i) {
    w.gone[i] = true;
    for (uint32_t k = 0; k < NODES; k++) link_down(i, k);
    for (uint32_t k = 0; k < NODES; k++) /* as is told to the neighbours of neighbours */
        if (w.s[k] && !w.gone[k])
            assert_int_equal(step(k, (struct stay_event){.kind = STAY_EV_GONE, .id = node(i)}), 0);
}

static inline uint32_t reach(uint32_t from, bool *seen) {
    uint32_t n = 1;
    seen[from] = true;
    for (uint32_t k = 0; k < NODES; k++)
        if (w.linked[from][k] && !seen[k]) n += reach(k, seen);
    return n;
}

/* Those that are there are connected. */
static inline bool whole(void) {
    bool seen[NODES] = {false};
    uint32_t n = 0, some = 0;
    for (uint32_t i = 0; i < NODES; i++)
        if (w.s[i] && !w.gone[i]) {
            n++;
            some = i;
        }
    return n == 0 || reach(some, seen) == n;
}

/* As staying.c does: also before another that leaves and has links to all that this one has. */
static inline bool goes(uint32_t i) {
    if (stay_may_go(w.s[i], w.now)) return true;
    for (uint32_t k = 0; k < NODES && stay_leaving(w.s[i]); k++) {
        if (!w.linked[i][k] || !stay_may_go_before(w.s[i], number_of(i, k), w.now)) continue;
        bool all = true;
        for (uint32_t to = 0; to < NODES && all; to++) all = to == k || !w.linked[i][to] || w.linked[k][to];
        if (all) return true;
    }
    return false;
}

#define MAY_GO(i) assert_true(stay_may_go(w.s[i], w.now))
#define STAYS(i)  assert_false(stay_may_go(w.s[i], w.now))

#endif
