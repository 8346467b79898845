/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the death machine's tests: one node, what it did in one line of text, and frames from others. */
#ifndef OVERLAY_DEATH_TESTKIT_H
#define OVERLAY_DEATH_TESTKIT_H

#include "overlay/death.h"
#include "overlay/death_internal.h"
#include "overlay/death_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS ((moyai_ns)MOYAI_MS)

/* Node n is on host n. The node under test is 100. */
static inline struct moyai_node_id node(uint32_t n) {
    return (struct moyai_node_id){{(uint8_t)n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
}

struct tested {
    struct death *d;
    struct death_cfg cfg;
    moyai_ns now;
    uint64_t seq; /* of frames from others */
    char did[4096];
    struct death_effect last;
};

static inline struct tested *tested_new(struct death_cfg cfg) {
    struct tested *t = calloc(1, sizeof *t);
    assert_non_null(t);
    cfg.self = node(100);
    if (!cfg.host) cfg.host = 100;
    t->cfg = cfg;
    t->now = 1000 * MS;
    size_t size = death_size(&cfg);
    assert_true(size > 0);
    t->d = aligned_alloc(16, size);
    assert_non_null(t->d);
    memset(t->d, 0, size);
    assert_int_equal(death_init(t->d, &cfg), 0);
    return t;
}

static inline void tested_free(struct tested *t) {
    free(t->d);
    free(t);
}

static inline void note(struct tested *t, const struct death_effect *fx) {
    static const char *const kinds[] = {"ENDED", "ALIVE", "NONE", "DEAD", "LEFT"};
    const struct death_frame *f = &fx->frame;
    uint32_t of = f->subject.b[0], to = fx->id.b[0];
    char text[128] = "";
    switch (fx->kind) {
    case DEATH_FX_SEND:
        snprintf(text, sizeof text, "%s%" PRIu32 ">%" PRIu32, kinds[f->kind], of, to);
        if (f->hops) snprintf(text + strlen(text), sizeof text - strlen(text), "h%" PRIu32, f->hops);
        if (f->cleared) strcat(text, "c");
        if (f->kind <= DEATH_NONE) assert_true(f->host == t->cfg.host && f->seq == t->d->seq);
        t->last = *fx;
        break;
    case DEATH_FX_DECLARED:
        snprintf(text, sizeof text, "dead%" PRIu32 ":%d:%" PRIu32, to, (int)fx->cause, fx->number);
        break;
    case DEATH_FX_LEFT:
        snprintf(text, sizeof text, "left%" PRIu32 "%s", to, fx->cleared ? "c" : "");
        break;
    case DEATH_FX_TOLD:
        snprintf(text, sizeof text, "told:%d:%" PRIu32, (int)fx->cause, fx->number);
        break;
    case DEATH_FX_PROBE:
        snprintf(text, sizeof text, "probe%" PRIu32, to);
        break;
    }
    size_t at = strlen(t->did);
    snprintf(t->did + at, sizeof t->did - at, "%s%s", at ? " " : "", text);
}

/* Step and fetch all effects. A refused event must leave no trace. */
static inline int step(struct tested *t, struct death_event ev) {
    size_t size = death_size(&t->cfg);
    void *before = malloc(size);
    assert_non_null(before);
    memcpy(before, t->d, size);
    ev.now = t->now;
    int rc = death_step(t->d, &ev);
    if (rc) assert_memory_equal(before, t->d, size);
    free(before);
    struct death_effect fx;
    while (death_next(t->d, &fx)) {
        static uint8_t bytes[DEATH_WIRE_MAX];
        static struct death_frame again;
        note(t, &fx);
        if (fx.kind != DEATH_FX_SEND) continue;
        death_wire_put(bytes, &fx.frame);
        assert_int_equal(
            death_wire_get((uint8_t)(FRAME_DEATH + fx.frame.kind), bytes, death_wire_size(&fx.frame), &again, NULL), 0);
    }
    struct moyai_error why = {0};
    if (!death_check(t->d, &why)) fail_msg("%s", why.text);
    return rc;
}

#define EV(k, ...) ((struct death_event){.kind = DEATH_EV_##k, ##__VA_ARGS__})

static inline void expect_at(const char *file, int line, struct tested *t, const char *text) {
    if (strcmp(t->did, text)) {
        print_error("%s:%d: did \"%s\"\n  expected \"%s\"\n", file, line, t->did, text);
        fail();
    }
    t->did[0] = 0;
}
#define expect(t, text) expect_at(__FILE__, __LINE__, t, text)

static inline void link_up(struct tested *t, uint32_t n) {
    assert_int_equal(step(t, EV(UP, .id = node(n), .host = n)), 0);
}

/* The nodes named in text ("1 2 3"), each on its host. */
static inline uint32_t members(const char *text, struct death_member *m) {
    uint32_t n = 0;
    for (char *end; *text; text = end) {
        uint32_t k = (uint32_t)strtoul(text, &end, 10);
        m[n++] = (struct death_member){node(k), k};
    }
    return n;
}

static inline int link_end(struct tested *t, uint32_t n, enum death_how how, const char *neighbours) {
    struct death_member m[DEATH_MEMBERS];
    return step(t, EV(END, .id = node(n), .how = how, .members = m, .n = members(neighbours, m)));
}

static inline int says_from(struct tested *t, uint32_t from, uint64_t host, enum death_frame_kind kind, uint32_t of,
                            const char *neighbours) {
    struct death_frame f = {.kind = kind, .subject = node(of), .seq = ++t->seq, .host = host, .subject_host = of};
    f.n = members(neighbours, f.m);
    return step(t, EV(FRAME, .id = node(from), .frame = &f));
}
static inline void says(struct tested *t, uint32_t from, enum death_frame_kind kind, uint32_t of) {
    assert_int_equal(says_from(t, from, from, kind, of, ""), 0);
}

static inline bool likely(const struct tested *t, uint32_t n) {
    const struct moyai_node_id id = node(n);
    return death_likely(t->d, &id);
}

/* Node 9 has neighbours 100 (we), 1, 2, 3. */
static inline struct tested *asked(void) {
    struct tested *t = tested_new((struct death_cfg){0});
    link_up(t, 9);
    link_up(t, 50);
    assert_false(likely(t, 9));
    assert_int_equal(link_end(t, 9, DEATH_BROKEN, "1 2 3"), 0);
    assert_true(likely(t, 9) && !likely(t, 50));
    expect(t, "probe9 ENDED9>9 ENDED9>1 ENDED9>2 ENDED9>3");
    assert_int_equal(t->last.frame.n, 3);
    assert_int_equal(t->last.frame.subject_host, 9);
    return t;
}

#endif
