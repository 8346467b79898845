/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the peers machine's tests: one node, what it did in one line of text, and frames from others. */
#ifndef OVERLAY_PEERS_TESTKIT_H
#define OVERLAY_PEERS_TESTKIT_H

#include "overlay/peers.h"
#include "overlay/peers_internal.h"
#include "overlay/peers_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS  ((moyai_ns)MOYAI_MS)
#define SEC ((moyai_ns)MOYAI_SEC)

/* Node n is called so; its id begins with n, so that ids have the order of the numbers. */
static inline struct moyai_node_id node(uint32_t n) {
    return (struct moyai_node_id){{(uint8_t)(n >> 8), (uint8_t)n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
}
static inline uint32_t number(const struct moyai_node_id *id) {
    return (uint32_t)id->b[0] << 8 | id->b[1];
}

static const uint8_t some_text[] = {5, 'h', 'o', 's', 't', ':', 3, 'a', ':', '1'};

/* One that can be connected to, at a site of its own. */
static inline struct peers_endpoint at_site(uint32_t n, uint64_t site, bool accepts) {
    return (struct peers_endpoint){.id = node(n),
                                   .site = site,
                                   .accepts = accepts,
                                   .lifetime = 600,
                                   .n_text = sizeof some_text,
                                   .text = some_text};
}
static inline struct peers_endpoint open_node(uint32_t n) {
    return at_site(n, 1000 + n, true);
}

struct tested {
    struct peers *p;
    struct peers_cfg cfg;
    moyai_ns now;
    char did[4096];           /* since it was last looked at */
    struct peers_effect last; /* SEND */
    uint32_t dialled[64], dialled_n;
};

static inline struct tested *tested_new(struct peers_cfg cfg) {
    struct tested *t = calloc(1, sizeof *t);
    assert_non_null(t);
    if (id_zero(cfg.self.id.b)) cfg.self = at_site(500, 1, true);
    t->cfg = cfg;
    t->now = 1000 * SEC;
    size_t size = peers_size(&cfg);
    assert_true(size > 0);
    t->p = aligned_alloc(16, size);
    assert_non_null(t->p);
    memset(t->p, 0, size);
    assert_int_equal(peers_init(t->p, &cfg), 0);
    return t;
}

static inline void tested_free(struct tested *t) {
    free(t->p);
    free(t);
}

static inline void say(struct tested *t, const char *fmt, ...) MOYAI_PRINTF(2, 3);
static inline void say(struct tested *t, const char *fmt, ...) {
    size_t at = strlen(t->did);
    if (at && at + 1 < sizeof t->did) t->did[at++] = ' ';
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(t->did + at, sizeof t->did - at, fmt, ap);
    va_end(ap);
}

static const char *const frame_names[] = {"OFFER", "ACCEPT", "REFUSE", "ASK", "ANSWER", "YIELD", "KEEP", "BYE"};

static inline void note(struct tested *t, const struct peers_effect *fx) {
    switch (fx->kind) {
    case PEERS_FX_CONNECT:
        say(t, "connect");
        assert_true(t->dialled_n < 64 && fx->endpoint.n_text > 0);
        t->dialled[t->dialled_n++] = number(&fx->endpoint.id);
        break;
    case PEERS_FX_CANCEL:
        say(t, "cancel:%" PRIu32, number(&fx->id));
        break;
    case PEERS_FX_SEND:
        say(t, "%s@%" PRIu64, frame_names[fx->frame.kind], fx->link);
        char text[64] = "";
        size_t n = 0;
        if (fx->frame.count) n += (size_t)snprintf(text + n, sizeof text - n, "c%" PRIu32, fx->frame.count);
        if (fx->frame.flags) n += (size_t)snprintf(text + n, sizeof text - n, "f%" PRIu32, fx->frame.flags);
        if (fx->frame.what) n += (size_t)snprintf(text + n, sizeof text - n, "w%" PRIu32, fx->frame.what);
        if (n) say(t, "%s", text);
        t->last = *fx;
        break;
    case PEERS_FX_USE:
        say(t, "use@%" PRIu64, fx->link);
        break;
    case PEERS_FX_DROP:
        say(t, "drop@%" PRIu64 "w%" PRIu32, fx->link, fx->what);
        break;
    case PEERS_FX_PROBE:
        say(t, "probe@%" PRIu64, fx->link);
        break;
    case PEERS_FX_LOOK:
        say(t, "look");
        break;
    }
}

/* Step and fetch all effects. A refused event must leave no trace. */
static inline int step(struct tested *t, struct peers_event ev) {
    size_t size = peers_size(&t->cfg);
    void *before = malloc(size);
    assert_non_null(before);
    memcpy(before, t->p, size);
    ev.now = t->now;
    int rc = peers_step(t->p, &ev);
    if (rc) assert_memory_equal(before, t->p, size);
    free(before);
    struct peers_effect fx;
    while (peers_next(t->p, &fx)) {
        uint8_t bytes[PEERS_WIRE_MAX];
        struct peers_frame again;
        note(t, &fx);
        if (fx.kind != PEERS_FX_SEND) continue;
        peers_wire_put(bytes, &fx.frame);
        assert_int_equal(
            peers_wire_get((uint8_t)(FRAME_PEERS + fx.frame.kind), bytes, peers_wire_size(&fx.frame), &again, NULL), 0);
    }
    struct moyai_error why = {0};
    if (!peers_check(t->p, &why)) fail_msg("%s", why.text);
    return rc;
}

#define EV(k, ...) ((struct peers_event){.kind = PEERS_EV_##k, ##__VA_ARGS__})

static inline void expect_at(const char *file, int line, struct tested *t, const char *text) {
    if (strcmp(t->did, text)) {
        print_error("%s:%d: did \"%s\"\n  expected \"%s\"\n", file, line, t->did, text);
        fail();
    }
    t->did[0] = 0;
}
#define expect(t, text) expect_at(__FILE__, __LINE__, t, text)

static inline void knows(struct tested *t, struct peers_endpoint e) {
    assert_int_equal(step(t, EV(ENTRY, .endpoint = &e)), 0);
}

/* The node e is the sender of a frame of this kind over a link. */
static inline int from(struct tested *t, uint64_t link, const struct peers_endpoint *e, enum peers_frame_kind kind,
                       uint32_t count, uint32_t what, uint32_t flags) {
    struct peers_frame f = {.kind = kind, .count = count, .what = what, .flags = flags};
    if (kind == PEERS_OFFER || kind == PEERS_ACCEPT || kind == PEERS_ASK || kind == PEERS_ANSWER) f.e[f.n++] = *e;
    return step(t, EV(FRAME, .link = link, .id = e->id, .frame = &f));
}

/* Node n, open, offers and is taken. */
static inline void joins(struct tested *t, uint64_t link, uint32_t n, uint32_t count) {
    struct peers_endpoint e = open_node(n);
    assert_int_equal(from(t, link, &e, PEERS_OFFER, count, PEERS_MESH, PEERS_ACCEPTS), 0);
    char text[32];
    snprintf(text, sizeof text, "use@%" PRIu64, link);
    assert_non_null(strstr(t->did, text));
    t->did[0] = 0;
}

/* Until the next deadline. */
static inline void wait_next(struct tested *t) {
    moyai_ns at = peers_deadline(t->p);
    assert_true(at != UINT64_MAX);
    if (at > t->now) t->now = at;
    assert_int_equal(step(t, EV(TIMEOUT)), 0);
}

/* Full with links 1 to 4 to nodes 1 to 4, of so many links each. degree 3, most 4. */
static inline struct tested *full(uint32_t a, uint32_t b, uint32_t c, uint32_t d, bool accepts) {
    struct tested *t =
        tested_new((struct peers_cfg){.self = at_site(500, 1, accepts), .degree = 3, .most = 4, .rescue = 1});
    (void)step(t, EV(START));
    const uint32_t counts[] = {a, b, c, d};
    for (uint32_t i = 0; i < 4; i++) joins(t, 1 + i, 1 + i, counts[i] - 1);
    return t;
}

static inline int offers(struct tested *t, uint64_t link, uint32_t n, uint32_t count, uint32_t flags) {
    struct peers_endpoint e = at_site(n, 1000 + n, flags & PEERS_ACCEPTS);
    return from(t, link, &e, PEERS_OFFER, count, PEERS_MESH, flags);
}

static inline void accept_not(struct tested *t, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i <= to; i++) peers_link_of(t->p, i)->flags &= (uint8_t)~LINK_ACCEPTS;
}

#endif
