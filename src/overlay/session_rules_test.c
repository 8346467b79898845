/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that break the rules leave no trace; repeated bytes are skipped; no list of events breaks the machine. */
#include "overlay/session_testkit.h"

#include "base/rng.h"

static const struct session_cfg low = {
    .id = 0xa, .lower = true, .entries = 8, .streams = 4, .small = 10, .chunk = 20, .window = 100};
static const struct session_cfg high = {
    .id = 0xb, .lower = false, .entries = 8, .streams = 4, .small = 10, .chunk = 20, .window = 100};

struct pair {
    struct end *a, *b;
};

/* Established over path 1; b has begun streams 1 (10 of 30, 25 allowed) and 3 (10 of 11) from a, 26 bytes in all taken.
 */
static int pair_setup(void **state) {
    struct pair *p = calloc(1, sizeof *p);
    p->a = end_new(&low);
    p->b = end_new(&high);
    open_pair(p->a, p->b);
    give(p->a, 1, 30);
    give(p->a, 2, 6);
    carry(p->a, p->b, "DATA1 #0 1:b10/30 0:be6");
    struct session_chunk c = {.stream = 3, .flags = SESSION_BEGIN, .len = 10, .total = 11};
    struct session_frame f = {.kind = SESSION_DATA, .id = 0xa, .path = 1, .seq = 16, .n_chunks = 1, .chunks = &c};
    assert_int_equal(step(p->b, EV(RECEIVE, .frame = &f)), 0);
    step(p->b, EV(GRANT, .stream = 1, .allowed = 25));
    pull(p->b, "GRANT1 ack26 1:25");
    p->b->told[0] = 0;
    *state = p;
    return 0;
}

static int pair_teardown(void **state) {
    struct pair *p = *state;
    end_free(p->a);
    end_free(p->b);
    free(p);
    return 0;
}

#define ENDS                                                                                                           \
    struct pair *pair = *state;                                                                                        \
    struct end *a = pair->a, *b = pair->b

#define B   SESSION_BEGIN
#define E   SESSION_END
#define X   SESSION_ABORT
#define MAX 3

struct data {
    uint64_t seq;
    struct session_chunk c[MAX];
    int expected;
    const char *told;
};

static int data(struct end *e, const struct data *d) {
    struct session_chunk c[MAX];
    memcpy(c, d->c, sizeof c);
    struct session_frame f = {.kind = SESSION_DATA, .id = 0xa, .path = 1, .seq = d->seq, .chunks = c};
    while (f.n_chunks < MAX && c[f.n_chunks].len) f.n_chunks++;
    return step(e, EV(RECEIVE, .frame = &f));
}

static void test_data(void **state) {
    ENDS;
    (void)a;
    static const struct data all[] = {
        /* numbers */
        {27, {{0, B | E, 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {SESSION_NUMBER_MAX, {{0, B | E, 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{0}}, MOYAI_EPROTO, ""},
        /* stream 0: messages of one small chunk */
        {26, {{0, B | E, 11, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{0, B, 5, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{0, E, 5, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{0, 0, 5, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{0, B | E | X, 5, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{0, X, 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{0, B | E | 8, 5, 0, 0, 0}}, MOYAI_EPROTO, ""},
        /* streams that are not there */
        {26, {{2, 0, 5, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{2, E, 5, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{2, X, 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{5, B, 10, 30, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{UINT32_MAX, B, 10, 30, 0, 0}}, MOYAI_EPROTO, ""},
        /* beginnings */
        {26, {{1, B, 10, 30, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{2, B, 9, 30, 0, 0}}, MOYAI_EPROTO, ""}, /* a beginning is whole: who reads may need all of it */
        {26, {{2, B, 11, 30, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{2, B, 10, 10, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{2, B, 10, SESSION_NUMBER_MAX, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{2, B | E, 10, 11, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{2, B | X, 1, 30, 0, 0}}, MOYAI_EPROTO, ""},
        /* continuations */
        {26, {{1, 0, 16, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{1, E, 15, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{1, 0, SESSION_CHUNK_MAX, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{1, 0, SESSION_CHUNK_MAX + 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{1, E | X, 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{3, E, 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{1, X, 2, 0, 0, 0}}, MOYAI_EPROTO, ""},
        /* the first chunks are right, a later one is not */
        {26, {{0, B | E, 1, 0, 0, 0}, {1, 0, 5, 0, 0, 0}, {1, 0, 11, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{2, B, 10, 30, 0, 0}, {1, 0, 15, 0, 0, 0}, {2, 0, 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{2, B, 10, 30, 0, 0}, {4, B, 10, 11, 0, 0}, {2, B, 10, 30, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{1, X, 1, 0, 0, 0}, {1, 0, 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{1, X, 1, 0, 0, 0}, {1, X, 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{1, X, 1, 0, 0, 0}, {1, B, 10, 30, 0, 0}}, MOYAI_EPROTO, ""},
        {26, {{1, X, 1, 0, 0, 0}, {3, X, 1, 0, 0, 0}, {0, E, 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        /* repeated bytes: wholly, and in part */
        {0, {{1, B, 10, 30, 0, 0}, {0, B | E, 6, 0, 0, 0}, {3, B, 10, 11, 0, 0}}, 0, ""},
        {25, {{3, B, 1, 11, 0, 0}, {1, 0, 1, 0, 0, 0}, {0, E, 3, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {24, {{0, B | E, 3, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {16, {{3, B, 11, 12, 0, 0}}, MOYAI_EPROTO, ""},
        {24, {{1, E, 4, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {25, {{3, X, 2, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {20, {{3, 0, 6, 0, 0, 0}, {0, B | E, 2, 0, 0, 0}}, 0, "0:be0+2/2"},
        {24, {{1, 0, 9, 0, 0, 0}, {0, E, 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {20, {{3, 0, 6, 0, 0, 0}, {1, 0, 9, 0, 0, 0}, {0, E, 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {20, {{UINT32_MAX, X, 8, 0, 0, 0}, {0, E, 1, 0, 0, 0}}, MOYAI_EPROTO, ""}, /* old ones may say anything */
        {23, {{3, 0, 1, 0, 0, 0}, {1, 0, 7, 0, 0, 0}}, 0, "1:10+3/30(4)"},
        {31, {{1, 0, 2, 0, 0, 0}}, 0, "1:13+2/30"},
        /* (33 taken) what is right is right */
        {33,
         {{1, 0, 10, 0, 0, 0}, {0, B | E, 10, 0, 0, 0}, {2, B, 10, 11, 0, 0}},
         0,
         "1:15+10/30 0:be0+10/10 2:b0+10/11"},
        {63, {{2, 0, 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {62, {{2, X, 1, 0, 0, 0}, {2, X, 1, 0, 0, 0}, {1, X, 1, 0, 0, 0}}, 0, "aborted:2 aborted:1"},
        {65, {{1, X, 1, 0, 0, 0}}, MOYAI_EPROTO, ""},
        {65, {{1, B, 10, 20, 0, 0}}, 0, "1:b0+10/20"},
        {65, {{1, B, 11, 21, 0, 0}}, MOYAI_EPROTO, ""},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int rc = data(b, &all[i]);
        if (rc != all[i].expected) fail_msg("data %zu: %d instead of %d, told \"%s\"", i, rc, all[i].expected, b->told);
        if (strcmp(b->told, all[i].told)) fail_msg("data %zu: told \"%s\" instead of \"%s\"", i, b->told, all[i].told);
        b->told[0] = 0;
    }
}

static void test_too_many_chunks(void **state) {
    ENDS;
    (void)a;
    static struct session_chunk c[SESSION_CHUNKS + 1];
    for (size_t i = 0; i <= SESSION_CHUNKS; i++) c[i] = (struct session_chunk){.flags = B | E, .len = 1};
    struct session_frame f = {
        .kind = SESSION_DATA, .id = 0xa, .path = 1, .seq = 26, .n_chunks = SESSION_CHUNKS + 1, .chunks = c};
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), MOYAI_EPROTO);
    f.n_chunks = SESSION_CHUNKS;
    assert_int_equal(session_step(b->s, &EV(RECEIVE, .frame = &f)), 0);
    struct session_effect fx;
    uint32_t n = 0;
    for (; session_next(b->s, &fx); n++) assert_int_equal(fx.index, n);
    assert_int_equal(n, SESSION_CHUNKS);
}

/* Chunks that a frame cannot carry, for who does not read frames with session_wire. */
static void test_lengths(void **state) {
    ENDS;
    (void)a;
    struct session_chunk c[2] = {{.flags = B | E, .len = 0}, {.flags = B | E, .len = 1}};
    struct session_frame f = {.kind = SESSION_DATA, .id = 0xa, .path = 1, .seq = 26, .n_chunks = 2, .chunks = c};
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), MOYAI_EPROTO);
    c[0] = (struct session_chunk){.stream = 1};
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), MOYAI_EPROTO);
    c[0] = (struct session_chunk){.stream = 2, .flags = B, .len = 10, .total = UINT64_C(1) << 26};
    f.n_chunks = 1;
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0);
    assert_int_equal(step(b, EV(GRANT, .stream = 2, .allowed = UINT64_MAX)), 0);
    c[0] = (struct session_chunk){.stream = 2, .len = SESSION_CHUNK_MAX + 1};
    f.seq = 36;
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), MOYAI_EPROTO);
    c[0].len--;
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0);
}

/* Numbers end long before they could wrap. */
static void test_numbers_end(void **state) {
    ENDS;
    (void)a;
    struct session_chunk c = {.flags = B | E, .len = 2};
    struct session_frame f = {
        .kind = SESSION_DATA, .id = 0xa, .path = 1, .seq = SESSION_NUMBER_MAX - 2, .n_chunks = 1, .chunks = &c};
    b->s->rx_next = b->s->rx_said = SESSION_NUMBER_MAX - 2;
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), MOYAI_EPROTO);
    c.len = 1;
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0);
}

/* A repeated frame is acknowledged at once: its sender does not know. */
static void test_repeated(void **state) {
    ENDS;
    (void)a;
    pull(b, "");
    const struct data again = {.c = {{1, B, 10, 30, 0, 0}}};
    assert_int_equal(data(b, &again), 0);
    expect(b, "");
    pull(b, "ACK1 ack26");
    const struct data all = {.c = {{1, B, 10, 30, 0, 0}, {0, B | E, 6, 0, 0, 0}, {3, B, 10, 11, 0, 0}}};
    assert_int_equal(data(b, &all), 0);
    pull(b, "ACK1 ack26");
    assert_int_equal(session_deadline(b->s), UINT64_MAX);
}

/* An acknowledgement at once only if a quarter waits for it: what was acknowledged, or has come before, does not count.
 */
static void test_ack_is_patient(void **state) {
    (void)state;
    struct session_cfg la = low, lb = high;
    la.entries = lb.entries = 16;
    la.small = lb.small = 20;
    struct end *a = end_new(&la), *b = end_new(&lb);
    assert_int_equal(step(a, EV(KEEP)), MOYAI_EINVAL);
    open_pair(a, b);
    /* The path is to carry something, though nothing is owed; what is owed goes along. */
    assert_int_equal(step(a, EV(KEEP)), 0);
    carry(a, b, "ACK1");
    pull(a, "");
    pull(b, "");
    /* A quarter of the window's 100 bytes. */
    give(a, 1, 12);
    carry(a, b, "DATA1 #0 0:be12");
    pull(b, "");
    give(a, 2, 13);
    carry(a, b, "DATA1 #12 0:be13");
    carry(b, a, "ACK1 ack25");
    give(a, 3, 13);
    carry(a, b, "DATA1 #25 0:be13");
    pull(b, "");
    b->now = session_deadline(b->s);
    assert_int_equal(step(b, EV(TIMEOUT)), 0);
    carry(b, a, "ACK1 ack38");
    /* A quarter of the 16 entries, in chunks. */
    struct session_chunk c[MAX] = {{.flags = B | E, .len = 1}, {.flags = B | E, .len = 1}, {.flags = B | E, .len = 1}};
    struct session_frame f = {.kind = SESSION_DATA, .id = 0xa, .path = 1, .seq = 38, .chunks = c};
    for (f.n_chunks = 1; f.n_chunks <= 3; f.n_chunks++) { /* each time one is new */
        assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0);
        pull(b, "");
    }
    f.seq = 41;
    f.n_chunks = 1;
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0);
    pull(b, "ACK1 ack42");
    end_free(a);
    end_free(b);
}

/* Texts are cut to the room that is there, wherever they begin. */
static void test_texts_are_cut(void **state) {
    (void)state;
    struct session_chunk c[MAX] = {{.flags = B | E, .len = 1}, {.flags = B | E, .len = 2}, {.flags = B | E, .len = 3}};
    const struct session_frame f = {.kind = SESSION_DATA, .path = 1, .seq = 5, .n_chunks = MAX, .chunks = c};
    char whole[100] = "", text[100];
    session_frame_text(whole, sizeof whole, &f);
    assert_true(strlen(whole) > 20);
    for (size_t n = 1; n <= strlen(whole) + 1; n++) {
        memset(text, 'x', sizeof text);
        text[0] = 0;
        session_frame_text(text, n, &f);
        assert_int_equal(strlen(text), n - 1);
        assert_memory_equal(text, whole, n - 1);
        for (size_t i = n; i < sizeof text; i++) assert_int_equal(text[i], 'x');
    }
}

static int frame(struct end *e, enum session_frame_kind kind, uint32_t path, uint64_t ack) {
    struct session_frame f = {.kind = kind, .id = 0xa, .path = path, .ack = ack};
    return step(e, EV(RECEIVE, .frame = &f, .credit = 5));
}

static int grant(struct end *e, uint32_t stream, uint64_t allowed, uint64_t ack) {
    struct session_frame f = {
        .kind = SESSION_GRANT, .id = 0xa, .path = 1, .stream = stream, .allowed = allowed, .ack = ack};
    return step(e, EV(RECEIVE, .frame = &f));
}

/* a has sent #0 1:b10/30 0:be6 and then nothing. */
static void test_acks(void **state) {
    ENDS;
    (void)b;
    assert_int_equal(frame(a, SESSION_ACK, 1, 17), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_ACK, 1, 11), MOYAI_EPROTO); /* half a small message */
    assert_int_equal(frame(a, SESSION_ACK, 1, 15), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_ACK, 1, 4), 0); /* part of a large one */
    expect(a, "");
    assert_int_equal(frame(a, SESSION_ACK, 1, 3), MOYAI_EPROTO); /* less than before */
    assert_int_equal(frame(a, SESSION_ACK, 1, 10), 0);
    expect(a, "");
    assert_int_equal(frame(a, SESSION_RESUME, 2, 9), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_RESUME, 2, 17), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_CLOSE, 1, 17), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_CLOSED, 1, 12), MOYAI_EPROTO);
    assert_int_equal(grant(a, 1, 20, 12), MOYAI_EPROTO);
    struct session_chunk c = {.flags = B | E, .len = 1};
    struct session_frame f = {.kind = SESSION_DATA, .id = 0xa, .path = 1, .n_chunks = 1, .chunks = &c, .ack = 12};
    assert_int_equal(step(a, EV(RECEIVE, .frame = &f)), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_ACK, 1, 16), 0);
    expect(a, "acked:2");
    assert_int_equal(frame(a, SESSION_RESUME, 2, 16), 0);
}

static void test_grants(void **state) {
    ENDS;
    (void)b;
    assert_int_equal(grant(a, 0, 20, 0), MOYAI_EPROTO);
    assert_int_equal(grant(a, 2, 20, 0), MOYAI_EPROTO);
    assert_int_equal(grant(a, 5, 20, 0), MOYAI_EPROTO);
    assert_int_equal(grant(a, 1, 9, 0), MOYAI_EPROTO);
    assert_int_equal(grant(a, 1, 10, 0), 0);
    pull(a, "");
    assert_int_equal(grant(a, 1, 12, 0), 0);
    assert_int_equal(grant(a, 1, 11, 0), MOYAI_EPROTO);
    pull(a, "DATA1 #16 1:2");
    assert_int_equal(grant(a, 1, UINT64_MAX, 0), 0);
    give(a, 3, 30);
    assert_int_equal(grant(a, 2, 20, 0), MOYAI_EPROTO); /* given, but not begun */
    pull(a, "DATA1 #18 2:b10/30 1:e18");
}

static void test_paths(void **state) {
    ENDS;
    /* numbers that are not the other's to give, or that nobody may give */
    assert_int_equal(frame(a, SESSION_RESUME, 3, 0), MOYAI_EPROTO);
    assert_int_equal(frame(b, SESSION_RESUME, 2, 0), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_CLOSE, 3, 0), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_RESUME, UINT32_MAX - 1, 0), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_RESUME, 1, 0), MOYAI_EPROTO);
    static const enum session_frame_kind kinds[] = {SESSION_ACCEPT, SESSION_RESUMED, SESSION_CLOSED,
                                                    SESSION_DATA,   SESSION_ACK,     SESSION_GRANT};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) assert_int_equal(frame(a, kinds[i], 2, 0), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_RESUMED, 1, 0), MOYAI_EPROTO); /* nobody asked */
    assert_int_equal(frame(a, SESSION_ACCEPT, 1, 0), MOYAI_EPROTO);
    assert_int_equal(frame(a, (enum session_frame_kind)99, 1, 0), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_OPEN, 0, 0), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_OPEN, 3, 0), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_OPEN, UINT32_MAX - 1, 0), MOYAI_EPROTO);
    struct session_frame f = {.kind = SESSION_OPEN, .path = 2};
    assert_int_equal(step(a, EV(RECEIVE, .frame = &f)), MOYAI_EPROTO);
    /* opened again though it has taken something */
    assert_int_equal(frame(b, SESSION_OPEN, 3, 0), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_ACK, 1, 10), 0);
    assert_int_equal(frame(a, SESSION_OPEN, 2, 0), MOYAI_EPROTO);
}

/* Traffic before the answer. */
static void test_too_early(void **state) {
    ENDS;
    (void)a;
    assert_int_equal(frame(b, SESSION_RESUME, 3, 0), 0);
    static const struct data d = {26, {{0, B | E, 1, 0, 0, 0}}, 0, ""};
    struct session_chunk c = d.c[0];
    struct session_frame f = {.kind = SESSION_DATA, .id = 0xa, .path = 3, .seq = 26, .n_chunks = 1, .chunks = &c};
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), MOYAI_EPROTO);
    assert_int_equal(frame(b, SESSION_ACK, 3, 0), MOYAI_EPROTO);
    expect(b, "path");
    pull(b, "RESUMED3 ack26");
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0);
    step(b, EV(PATH_UP, .credit = 1));
    pull(b, "RESUME4 ack27");
    assert_int_equal(frame(b, SESSION_ACK, 4, 0), MOYAI_EPROTO);
    assert_int_equal(frame(b, SESSION_ACCEPT, 4, 0), MOYAI_EPROTO);
    assert_int_equal(frame(b, SESSION_RESUMED, 4, 1), MOYAI_EPROTO);
    assert_int_equal(frame(b, SESSION_RESUMED, 4, 0), 0);
}

static void test_opening(void **state) {
    (void)state;
    struct end *a = end_new(&low), *b = end_new(&high);
    step(a, EV(OPEN));
    step(a, EV(PATH_UP));
    pull(a, "OPEN1");
    struct session_frame f = {.kind = SESSION_OPEN, .id = 0xa, .path = 2};
    assert_int_equal(step(a, EV(RECEIVE, .frame = &f)), MOYAI_EPROTO); /* our id, from the other */
    assert_int_equal(frame(a, SESSION_ACK, 1, 0), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_RESUMED, 1, 0), MOYAI_EPROTO);
    assert_int_equal(frame(a, SESSION_CLOSED, 1, 1), MOYAI_EPROTO);
    assert_int_equal(frame(b, SESSION_ACK, 1, 0), MOYAI_EINVAL); /* of no session */
    f.path = 1;
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0);
    assert_int_equal(frame(b, SESSION_ACK, 1, 0), MOYAI_EPROTO); /* before ACCEPT was said */
    assert_int_equal(frame(a, SESSION_CLOSED, 1, 0), 0);
    expect(a, "want closed");
    end_free(a);
    end_free(b);
}

/* The highest number that may be given is taken. */
static void test_path_numbers_last(void **state) {
    ENDS;
    (void)a;
    assert_int_equal(frame(b, SESSION_RESUME, SESSION_PATH_MAX, 0), 0);
    assert_int_equal(frame(b, SESSION_CLOSE, SESSION_PATH_MAX + 2, 0), MOYAI_EPROTO);
    assert_int_equal(step(b, EV(PATH_UP)), MOYAI_EINVAL);
    struct end *c = end_new(&high);
    assert_int_equal(frame(c, SESSION_OPEN, SESSION_PATH_MAX + 2, 0), MOYAI_EPROTO);
    assert_int_equal(frame(c, SESSION_OPEN, SESSION_PATH_MAX, 0), 0);
    expect(c, "opened path");
    end_free(c);
}

static void test_path_numbers_end(void **state) {
    ENDS;
    (void)b;
    assert_int_equal(frame(a, SESSION_RESUME, SESSION_PATH_MAX - 1, 0), 0);
    assert_int_equal(step(a, EV(PATH_UP)), 0);
    pull(a, "RESUME4294967291");
    assert_int_equal(step(a, EV(PATH_UP)), MOYAI_EINVAL);
}

/* --- any events at all --- */

static struct session_frame any_frame(struct moyai_rng *r, const struct session *s, struct session_chunk *c) {
    static const uint64_t near[] = {0, 1, 2, 3, 9, 10, 11, 20, 25, 100, UINT64_MAX};
#define NEAR(x) ((x) + near[rng_below(r, sizeof near / sizeof *near)])
    struct session_frame f = {.kind = (enum session_frame_kind)rng_below(r, 11),
                              .id = rng_below(r, 8) ? s->id : 0xa + rng_below(r, 3),
                              .path = s->path + (uint32_t)(rng_below(r, 4) ? 0 : rng_below(r, 4) - 1),
                              .seq = rng_below(r, 2) ? s->rx_next : s->rx_next - near[rng_below(r, 10)],
                              .ack = rng_below(r, 2) ? s->tx_acked : NEAR(s->tx_acked),
                              .stream = (uint32_t)rng_below(r, 6),
                              .allowed = NEAR(0),
                              .n_chunks = (uint32_t)rng_below(r, 4),
                              .chunks = c};
    for (uint32_t i = 0; i < f.n_chunks; i++)
        c[i] = (struct session_chunk){.stream = (uint32_t)rng_below(r, 6),
                                      .flags = (uint32_t)rng_below(r, 5),
                                      .len = (uint32_t)rng_below(r, 12),
                                      .total = NEAR(9)};
    return f;
}

static void test_any(void **state) {
    (void)state;
    struct moyai_rng seed;
    rng_seed(&seed, 7);
    uint64_t taken = 0;
    for (uint64_t run = 0; run < 300; run++) {
        struct moyai_rng r;
        rng_fork(&seed, "any", run, &r);
        struct end *e = end_new(run % 2 ? &low : &high);
        struct session_chunk c[4];
        for (int i = 0; i < 200; i++) {
            struct session_frame f = any_frame(&r, e->s, c);
            struct session_event ev = {.kind = (enum session_event_kind)rng_below(&r, 13),
                                       .token = rng_below(&r, 20),
                                       .length = rng_below(&r, 40),
                                       .request = rng_below(&r, 2),
                                       .credit = rng_below(&r, 2) ? UINT64_MAX : rng_below(&r, 50),
                                       .frame = &f,
                                       .stream = (uint32_t)rng_below(&r, 6),
                                       .allowed = rng_below(&r, 60)};
            if (rng_below(&r, 3)) ev.kind = rng_below(&r, 2) ? SESSION_EV_RECEIVE : SESSION_EV_SEND;
            bool ends = ev.kind == SESSION_EV_PEER_DEAD || ev.kind == SESSION_EV_PEER_LEFT ||
                        ev.kind == SESSION_EV_CLOSE || f.kind == SESSION_REFUSE;
            if (ends && rng_below(&r, 20)) continue;
            taken += step(e, ev) == 0;
            e->told[0] = 0;
            e->now += rng_below(&r, 20) ? 1 : (moyai_ns)MOYAI_SEC;
            struct session_frame out = {.chunks = e->chunks};
            for (int k = 0; k < 3 && session_pull(e->s, e->now, rng_below(&r, 40), &out); k++) check(e);
        }
        end_free(e);
    }
    assert_true(taken > 300 * 50); /* it was not all refused */
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_data),
        TEST(test_too_many_chunks),
        TEST(test_lengths),
        TEST(test_numbers_end),
        TEST(test_repeated),
        TEST(test_acks),
        TEST(test_grants),
        TEST(test_paths),
        TEST(test_too_early),
        cmocka_unit_test(test_ack_is_patient),
        cmocka_unit_test(test_texts_are_cut),
        cmocka_unit_test(test_opening),
        TEST(test_path_numbers_last),
        TEST(test_path_numbers_end),
        cmocka_unit_test(test_any),
    };
    return cmocka_run_group_tests_name("session_rules", tests, NULL, NULL);
}
