/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the relay machine's tests: one node, number 50, its links, what it told in one line, and frames by hand. */
#ifndef OVERLAY_RELAY_TESTKIT_H
#define OVERLAY_RELAY_TESTKIT_H

#include "overlay/relay.h"
#include "overlay/relay_internal.h"
#include "overlay/relay_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN 100u /* of the tests: a frame of 68 bytes is charged all of it */

static inline struct moyai_node_id node(int n) {
    return (struct moyai_node_id){{(uint8_t)n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
}

struct tested {
    struct relay *r;
    struct relay_cfg cfg;
    moyai_ns now;
    char told[8192];
    uint64_t path; /* the last that was told of */
    struct relay_out out;
};

static const struct relay_cfg usual = {.links = 4, .pointers = 4, .spare = 2, .own = OWN, .most = 800, .memory = 1600};

static inline struct tested *tested_new(const struct relay_cfg *cfg) {
    struct tested *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->cfg = *cfg;
    t->cfg.self = node(50);
    t->now = 1000;
    size_t size = relay_size(&t->cfg);
    assert_true(size > 0);
    t->r = aligned_alloc(16, size);
    assert_non_null(t->r);
    memset(t->r, 0, size);
    assert_int_equal(relay_init(t->r, &t->cfg), 0);
    return t;
}

static inline void tested_free(struct tested *t) {
    free(t->r);
    free(t);
}

static inline void check(const struct tested *t) {
    struct moyai_error why = {0};
    if (!relay_check(t->r, &why)) fail_msg("%s", why.text);
}

static inline void drain(struct tested *t) {
    struct relay_effect fx;
    while (relay_next(t->r, &fx)) {
        size_t at = strlen(t->told);
        if (at && at + 1 < sizeof t->told) memcpy(t->told + at, " ", 2);
        relay_effect_text(t->told, sizeof t->told, &fx);
        if (fx.path) t->path = fx.path;
        check(t);
    }
}

/* Step and fetch all effects. A refused event must leave no trace. */
static inline int step(struct tested *t, struct relay_event ev) {
    size_t size = relay_size(&t->cfg);
    void *before = malloc(size);
    assert_non_null(before);
    memcpy(before, t->r, size);
    ev.now = t->now;
    int rc = relay_step(t->r, &ev);
    if (rc) assert_memory_equal(before, t->r, size);
    free(before);
    drain(t);
    check(t);
    return rc;
}
#define EV(k, ...) ((struct relay_event){.kind = RELAY_EV_##k, ##__VA_ARGS__})

static inline void expect_at(const char *file, int line, struct tested *t, const char *text) {
    if (strcmp(t->told, text)) {
        print_error("%s:%d: told \"%s\"\n     expected \"%s\"\n", file, line, t->told, text);
        fail();
    }
    t->told[0] = 0;
}
#define expect(t, text) expect_at(__FILE__, __LINE__, t, text)

/* Pull from a link; it must read so ("": nothing). A token reads "label:token", bulk "label:token bulk". */
static inline void pull_at(const char *file, int line, struct tested *t, uint64_t link, const char *text) {
    char got[512] = "";
    if (relay_pull(t->r, link, &t->out)) {
        if (t->out.control)
            relay_frame_text(got, sizeof got, &t->out.frame);
        else
            snprintf(got, sizeof got, "%" PRIu32 ":%" PRIu64 "%s", t->out.label, t->out.token,
                     t->out.class_ == 2 ? " bulk" : "");
    }
    drain(t);
    check(t);
    if (strcmp(got, text)) {
        print_error("%s:%d: pulled \"%s\"\n       expected \"%s\"\n", file, line, got, text);
        fail();
    }
}
#define pull(t, link, text) pull_at(__FILE__, __LINE__, t, link, text)

static inline int get(struct tested *t, uint64_t link, struct relay_frame f) {
    return step(t, EV(FRAME, .link = link, .frame = &f));
}
#define F(k, ...) ((struct relay_frame){.kind = RELAY_##k, ##__VA_ARGS__})

/* A session frame that is charged so much comes. */
static inline int receive(struct tested *t, uint64_t link, uint32_t label, uint64_t token, uint32_t charge) {
    return step(t, EV(RECEIVE, .link = link, .label = label, .token = token, .class_ = 1,
                      .bytes = charge - RELAY_TOLL + RELAY_HEAD));
}
static inline int receive_bulk(struct tested *t, uint64_t link, uint32_t label, uint64_t token, uint32_t charge) {
    return step(t, EV(RECEIVE, .link = link, .label = label, .token = token, .class_ = 2,
                      .bytes = charge - RELAY_TOLL + RELAY_HEAD));
}
static inline int send_one(struct tested *t, uint64_t path, uint64_t token, uint32_t charge) {
    return step(t, EV(SEND, .path = path, .token = token, .class_ = 1, .bytes = charge - RELAY_TOLL + RELAY_HEAD));
}

/* Links 1, 2, 3 to nodes 10, 90, 30: 10 and 30 are lower than 50. Their labels are odd, 90's even. */
static inline struct tested *linked(const struct relay_cfg *cfg) {
    struct tested *t = tested_new(cfg);
    assert_int_equal(step(t, EV(LINK_UP, .link = 1, .id = node(10))), 0);
    assert_int_equal(step(t, EV(LINK_UP, .link = 2, .id = node(90))), 0);
    assert_int_equal(step(t, EV(LINK_UP, .link = 3, .id = node(30))), 0);
    expect(t, "");
    return t;
}

static inline struct relay_frame path_frame(uint32_t label, int from, int to, uint64_t id) {
    return F(PATH, .label = label, .hops = 5, .amount = OWN, .from = node(from), .to = node(to), .id = id);
}

/* Node 10's path to node 91 comes by link 1 under this label, and goes on by link 2 under the next odd one. Returns its
 * handle. */
static inline uint64_t passing(struct tested *t, uint32_t label, uint64_t id) {
    assert_int_equal(get(t, 1, path_frame(label, 10, 91, id)), 0);
    uint64_t path = t->path;
    assert_int_equal(step(t, EV(ROUTED, .path = path, .link = 2)), 0);
    t->told[0] = 0;
    assert_true(relay_pull(t->r, 2, &t->out));
    assert_true(t->out.control && t->out.frame.kind == RELAY_PATH);
    drain(t);
    return path;
}

/* From here to node 91 by link 2. */
static inline uint64_t opened(struct tested *t) {
    assert_int_equal(step(t, EV(OPEN, .id = node(91), .link = 2)), 0);
    t->told[0] = 0;
    assert_true(relay_pull(t->r, 2, &t->out));
    assert_true(t->out.control && t->out.frame.kind == RELAY_PATH);
    drain(t);
    return t->path;
}

/* From node 10 to here by link 1. */
static inline uint64_t arrived(struct tested *t, uint32_t label, uint64_t id) {
    assert_int_equal(get(t, 1, path_frame(label, 10, 50, id)), 0);
    assert_true(relay_pull(t->r, 1, &t->out));
    drain(t);
    t->told[0] = 0;
    return t->path;
}

#endif
