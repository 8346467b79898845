/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the session machine's tests: one end, what it told, and frames carried by hand. */
#ifndef OVERLAY_SESSION_TESTKIT_H
#define OVERLAY_SESSION_TESTKIT_H

#include "overlay/session.h"
#include "overlay/session_internal.h"
#include "overlay/session_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct end {
    struct session *s;
    struct session_cfg cfg;
    moyai_ns now;
    uint64_t credit; /* of paths that come up or are adopted */
    char told[4096]; /* effects since they were last looked at */
    struct session_chunk chunks[SESSION_CHUNKS];
    struct session_frame out;
};

static inline struct end *end_new(const struct session_cfg *cfg) {
    struct end *e = calloc(1, sizeof *e);
    assert_non_null(e);
    e->cfg = *cfg;
    e->credit = UINT64_MAX;
    e->now = 1000;
    size_t size = session_size(cfg);
    assert_true(size > 0);
    e->s = aligned_alloc(16, size);
    assert_non_null(e->s);
    memset(e->s, 0, size);
    assert_int_equal(session_init(e->s, cfg), 0);
    return e;
}

static inline void end_free(struct end *e) {
    free(e->s);
    free(e);
}

static inline void check(const struct end *e) {
    struct moyai_error why = {0};
    if (!session_check(e->s, &why)) fail_msg("%s", why.text);
}

/* Step and fetch all effects. A refused event must leave no trace. */
static inline int step(struct end *e, struct session_event ev) {
    size_t size = session_size(&e->cfg);
    void *before = malloc(size);
    assert_non_null(before);
    memcpy(before, e->s, size);
    ev.now = e->now;
    int rc = session_step(e->s, &ev);
    if (rc) assert_memory_equal(before, e->s, size);
    free(before);
    struct session_effect fx;
    while (session_next(e->s, &fx)) {
        size_t at = strlen(e->told);
        if (at && at + 1 < sizeof e->told) memcpy(e->told + at, " ", 2);
        session_effect_text(e->told, sizeof e->told, &fx);
    }
    check(e);
    return rc;
}

#define EV(k, ...) ((struct session_event){.kind = SESSION_EV_##k, ##__VA_ARGS__})

static inline int give(struct end *e, uint64_t token, uint64_t length) {
    return step(e, EV(SEND, .token = token, .length = length));
}

static inline void expect_at(const char *file, int line, struct end *e, const char *text) {
    if (strcmp(e->told, text)) {
        print_error("%s:%d: told \"%s\"\n     expected \"%s\"\n", file, line, e->told, text);
        fail();
    }
    e->told[0] = 0;
}
#define expect(e, text) expect_at(__FILE__, __LINE__, e, text)

/* Pull a frame; it must read so ("": nothing to send, and nothing pending). */
static inline void pull_at(const char *file, int line, struct end *e, uint64_t room, const char *text) {
    char got[4096] = "";
    bool pending = session_pending(e->s);
    struct session_frame f = {.chunks = e->chunks};
    if (session_pull(e->s, e->now, room, &f)) {
        e->out = f;
        session_frame_text(got, sizeof got, &e->out);
        if (!pending) fail_msg("%s:%d: pulled %s, which was not pending", file, line, got);
    } else if (pending && room == 65536) {
        fail_msg("%s:%d: pending, but nothing to pull", file, line);
    }
    check(e);
    if (strcmp(got, text)) {
        print_error("%s:%d: pulled \"%s\"\n       expected \"%s\"\n", file, line, got, text);
        fail();
    }
}
#define pull(e, text)            pull_at(__FILE__, __LINE__, e, 65536, text)
#define pull_room(e, room, text) pull_at(__FILE__, __LINE__, e, room, text)

/* Hand the frame last pulled from one to the other. */
static inline int pass(const struct end *from, struct end *to) {
    return step(to, EV(RECEIVE, .frame = &from->out, .credit = to->credit));
}
#define carry(from, to, text)                                                                                          \
    do {                                                                                                               \
        pull(from, text);                                                                                              \
        assert_int_equal(pass(from, to), 0);                                                                           \
    } while (0)

/* Carry frames both ways until nothing is left to send; returns how many. */
static inline int settle(struct end *a, struct end *b) {
    int n = 0, before;
    do {
        before = n;
        struct end *ends[] = {a, b};
        for (int i = 0; i < 2; i++) {
            struct end *from = ends[i], *to = ends[1 - i];
            from->out.chunks = from->chunks;
            while (session_pull(from->s, from->now, 65536, &from->out)) {
                assert_int_equal(pass(from, to), 0);
                assert_true(++n < 100000);
            }
        }
    } while (n != before);
    return n;
}

/* a is the lower; both established over path 1, which a brought up. */
static inline void open_pair(struct end *a, struct end *b) {
    assert_int_equal(step(a, EV(OPEN)), 0);
    expect(a, "want");
    assert_int_equal(step(a, EV(PATH_UP, .credit = a->credit)), 0);
    expect(a, "");
    carry(a, b, "OPEN1");
    expect(b, "opened path");
    carry(b, a, "ACCEPT1");
    expect(a, "opened");
    assert_int_equal(session_id(a->s), session_id(b->s));
}

#endif
