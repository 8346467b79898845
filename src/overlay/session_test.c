/* SPDX-License-Identifier: Apache-2.0 */
/* The session machine, rule by rule: opening, sending, acknowledging, flow control, aborting, what breaks the rules. */
#include "overlay/session_testkit.h"

static const struct session_cfg low = {
    .id = 0xa, .lower = true, .entries = 8, .streams = 4, .small = 10, .chunk = 20, .window = 100};
static const struct session_cfg high = {
    .id = 0xb, .lower = false, .entries = 8, .streams = 4, .small = 10, .chunk = 20, .window = 100};

struct pair {
    struct end *a, *b;
};

static int pair_setup(void **state) {
    struct pair *p = calloc(1, sizeof *p);
    p->a = end_new(&low);
    p->b = end_new(&high);
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

/* --- opening --- */

static void test_configuration(void **state) {
    (void)state;
    struct session_cfg c = {.id = 1};
    assert_in_range(session_size(&c), 1, 300000);
    c.id = 0;
    assert_int_equal(session_size(&c), 0);
    c = (struct session_cfg){.id = 1, .small = 100, .chunk = 99};
    assert_int_equal(session_size(&c), 0);
    c.chunk = 100;
    assert_true(session_size(&c) > 0);
    c.window = 99;
    assert_int_equal(session_size(&c), 0);
    c = (struct session_cfg){.id = 1, .chunk = SESSION_CHUNK_MAX};
    assert_true(session_size(&c) > 0);
    c.chunk++;
    assert_int_equal(session_size(&c), 0);
    c = (struct session_cfg){.id = 1, .entries = 1u << 20, .streams = 4096, .window = SESSION_NUMBER_MAX - 1};
    assert_true(session_size(&c) > 0);
    c.entries++;
    assert_int_equal(session_size(&c), 0);
    c.entries--;
    c.streams++;
    assert_int_equal(session_size(&c), 0);
    c.streams--;
    c.window++;
    assert_int_equal(session_size(&c), 0);
    c = (struct session_cfg){.id = 1, .small = 4096, .window = 4096};
    assert_true(session_size(&c) > 0);
    c = (struct session_cfg){.id = 1, .chunk = 1u << 24};
    struct session *s = aligned_alloc(16, 1024);
    assert_int_equal(session_init(s, &c), MOYAI_EINVAL);
    free(s);
}

/* The block is as long as its size says, and everything in it has its own place. */
static void test_layout(void **state) {
    (void)state;
    static const struct session_cfg all[] = {{.id = 1, .entries = 1, .streams = 1},
                                             {.id = 1, .entries = 7, .streams = 64},
                                             {.id = 1, .entries = 5, .streams = 65}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct end *e = end_new(&all[i]);
        const struct session *s = e->s;
        struct {
            size_t from, n;
        } parts[] = {{0, sizeof *s},
                     {s->off_tx, s->streams * sizeof(struct session_tx)},
                     {s->off_rx, s->streams * sizeof(struct session_rx)},
                     {s->off_bits, SETS * ((s->streams + 63) / 64) * sizeof(uint64_t)},
                     {s->off_wait, s->entries * sizeof(struct session_wait)},
                     {s->off_sent, (s->entries + 5 * s->streams) * sizeof(struct session_seg)}};
        size_t at = 0;
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            assert_in_range(parts[k].from, at, at + 15);
            assert_int_equal(parts[k].from % 8, 0);
            at = parts[k].from + parts[k].n;
        }
        assert_in_range(session_size(&all[i]), at, at + 15);
        assert_int_equal(session_size(&all[i]) % 16, 0);
        end_free(e);
    }
}

/* Zero is the default, less is as little as there is, and what would pass the end of time is never. */
static void test_durations(void **state) {
    (void)state;
    struct session_cfg c = low;
    c.reattach = -5;
    c.ack_delay = MOYAI_FOREVER;
    struct end *a = end_new(&c);
    assert_int_equal(a->s->reattach, 1);
    assert_int_equal(a->s->ack_delay, (uint64_t)MOYAI_FOREVER);
    end_free(a);
    c.reattach = MOYAI_FOREVER;
    a = end_new(&c);
    a->now = UINT64_MAX - 5;
    step(a, EV(OPEN));
    assert_int_equal(session_deadline(a->s), UINT64_MAX);
    step(a, EV(PATH_UP));
    struct session_frame f = {.kind = SESSION_ACCEPT, .id = 0xa, .path = 1};
    a->out.chunks = a->chunks;
    assert_true(session_pull(a->s, 0, 0, &a->out));
    assert_int_equal(step(a, EV(RECEIVE, .frame = &f)), 0);
    struct session_chunk d = {.flags = SESSION_BEGIN | SESSION_END, .len = 1};
    f = (struct session_frame){.kind = SESSION_DATA, .id = 0xa, .path = 1, .n_chunks = 1, .chunks = &d};
    assert_int_equal(step(a, EV(RECEIVE, .frame = &f)), 0);
    assert_int_equal(session_deadline(a->s), UINT64_MAX);
    step(a, EV(PATH_DOWN));
    a->now = UINT64_MAX;
    step(a, EV(TIMEOUT));
    end_free(a);
}

static void test_open(void **state) {
    ENDS;
    assert_int_equal(step(a, EV(PATH_UP)), MOYAI_EINVAL);
    assert_int_equal(step(a, EV(PATH_DOWN)), MOYAI_EINVAL);
    open_pair(a, b);
    assert_int_equal(session_id(b->s), 0xa);
    assert_true(session_idle(a->s) && session_idle(b->s));
    pull(a, "");
    pull(b, "");
    assert_int_equal(step(a, EV(OPEN)), MOYAI_EINVAL);
    struct session_frame again = {.kind = SESSION_ACCEPT, .id = 0xa, .path = 1};
    assert_int_equal(step(a, EV(RECEIVE, .frame = &again)), MOYAI_EPROTO);
    assert_int_equal(session_deadline(a->s), UINT64_MAX);
}

static void test_open_higher(void **state) {
    ENDS;
    step(b, EV(OPEN));
    expect(b, "want");
    step(b, EV(PATH_UP, .credit = 100));
    carry(b, a, "OPEN2");
    expect(a, "opened path");
    carry(a, b, "ACCEPT2");
    expect(b, "opened");
    assert_int_equal(session_id(a->s), 0xb);
}

/* Both open at once, over one link: the lower's stands. */
static void test_open_both(void **state) {
    ENDS;
    step(a, EV(OPEN));
    step(b, EV(OPEN));
    step(a, EV(PATH_UP, .credit = 100));
    step(b, EV(PATH_UP, .credit = 100));
    expect(a, "want");
    expect(b, "want");
    pull(a, "OPEN1");
    carry(b, a, "OPEN2");
    expect(a, "");
    pull(a, "");
    assert_int_equal(step(b, EV(RECEIVE, .frame = &(struct session_frame){.kind = SESSION_OPEN, .id = 0xa, .path = 1})),
                     0);
    expect(b, "opened path");
    carry(b, a, "ACCEPT1");
    expect(a, "opened");
    assert_int_equal(session_id(b->s), 0xa);
    /* the same OPEN, late: it may be a peer that forgot, so it is asked */
    assert_int_equal(step(a, EV(RECEIVE, .frame = &(struct session_frame){.kind = SESSION_OPEN, .id = 0xb, .path = 2})),
                     0);
    expect(a, "");
    carry(a, b, "ACK1");
    expect(b, "");
}

/* The lower has no path: it answers by its own OPEN on the path the other's came by. */
static void test_open_both_one_path(void **state) {
    ENDS;
    step(a, EV(OPEN));
    step(b, EV(OPEN));
    step(b, EV(PATH_UP, .credit = 100));
    expect(a, "want");
    expect(b, "want");
    carry(b, a, "OPEN2");
    expect(a, "path");
    carry(a, b, "OPEN3");
    expect(b, "opened path");
    carry(b, a, "ACCEPT3");
    expect(a, "opened");
}

/* ACCEPT is lost with its path: opened again, or resumed by the other. */
static void test_open_again(void **state) {
    ENDS;
    step(a, EV(OPEN));
    step(a, EV(PATH_UP, .credit = 100));
    carry(a, b, "OPEN1");
    pull(b, "ACCEPT1");
    give(b, 7, 5);
    pull(b, "DATA1 #0 0:be5");
    a->told[0] = b->told[0] = 0;
    step(a, EV(PATH_DOWN));
    expect(a, "want");
    step(a, EV(PATH_UP, .credit = 100));
    carry(a, b, "OPEN3");
    expect(b, "path");
    carry(b, a, "ACCEPT3");
    expect(a, "opened");
    carry(b, a, "DATA3 #0 0:be5");
    expect(a, "0:be0+5/5");
}

static void test_open_resumed(void **state) {
    ENDS;
    step(a, EV(OPEN));
    step(a, EV(PATH_UP, .credit = 100));
    carry(a, b, "OPEN1");
    a->told[0] = b->told[0] = 0;
    pull(b, "ACCEPT1");
    step(a, EV(PATH_DOWN));
    step(b, EV(PATH_DOWN));
    step(b, EV(PATH_UP, .credit = 100));
    expect(b, "want");
    carry(b, a, "RESUME2");
    expect(a, "want opened path");
    carry(a, b, "RESUMED2");
    expect(b, "");
    give(a, 1, 3);
    carry(a, b, "DATA2 #0 0:be3");
    expect(b, "0:be0+3/3");
}

/* Without an answer OPEN is said again, every second. */
static void test_open_repeated(void **state) {
    ENDS;
    (void)b;
    step(a, EV(OPEN));
    step(a, EV(PATH_UP));
    expect(a, "want");
    for (int i = 0; i < 3; i++) {
        pull(a, "OPEN1");
        pull(a, "");
        assert_int_equal(session_deadline(a->s), a->now + MOYAI_SEC);
        a->now += MOYAI_SEC - 1;
        step(a, EV(TIMEOUT));
        pull(a, "");
        a->now++;
        step(a, EV(TIMEOUT));
    }
    carry(a, b, "OPEN1");
    a->now += MOYAI_SEC;
    step(a, EV(TIMEOUT)); /* once more, but the answer comes before it is said */
    carry(b, a, "ACCEPT1");
    pull(a, "");
    assert_int_equal(session_deadline(a->s), UINT64_MAX);
    a->told[0] = b->told[0] = 0;
    assert_int_equal(step(b, EV(RECEIVE, .frame = &a->out)), 0); /* the same again */
    expect(b, "");
    pull(b, "");
}

static void test_open_timeout(void **state) {
    ENDS;
    (void)b;
    give(a, 1, 3);
    step(a, EV(OPEN));
    give(a, 2, 30);
    assert_int_equal(session_deadline(a->s), 1000 + 10 * MOYAI_SEC);
    a->now = 1000 + (moyai_ns)(10 * MOYAI_SEC) - 1;
    step(a, EV(TIMEOUT));
    step(a, EV(PATH_UP, .credit = 10));
    expect(a, "want");
    a->now++; /* a path, but no answer */
    step(a, EV(TIMEOUT));
    expect(a, "never:1 never:2 failed-14");
    assert_int_equal(session_deadline(a->s), UINT64_MAX);
    assert_int_equal(give(a, 3, 1), MOYAI_EINVAL);
    assert_int_equal(step(a, EV(CLOSE)), MOYAI_EINVAL);
    assert_int_equal(step(a, EV(PEER_DEAD)), MOYAI_EINVAL);
}

/* --- sending --- */

static void test_small(void **state) {
    ENDS;
    give(a, 100, 10);
    give(a, 101, 1);
    assert_int_equal(give(a, 102, 0), MOYAI_EINVAL);
    assert_int_equal(give(a, 102, SESSION_NUMBER_MAX), MOYAI_EINVAL);
    assert_int_equal(give(a, 103, SESSION_NUMBER_MAX - 1), 0);
    step(a, EV(DROP, .token = 103));
    expect(a, "never:103");
    open_pair(a, b);
    give(a, 102, 5);
    pull_room(a, 17, ""); /* a chunk has a head of 8 bytes */
    pull_room(a, 18 + 9, "DATA1 #0 0:be10 0:be1");
    pass(a, b);
    carry(a, b, "DATA1 #11 0:be5");
    expect(b, "0:be0+10/10 0:be0+1/1 0:be0+5/5");
    pull(a, "");
    carry(b, a, "ACK1 ack16"); /* at once: 3 of 8 entries wait for it */
    expect(a, "acked:100 acked:101 acked:102");
    assert_true(session_idle(a->s) && session_idle(b->s));
}

static void test_ack_delay(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 4);
    carry(a, b, "DATA1 #0 0:be4");
    pull(b, "");
    assert_false(session_idle(a->s) || session_idle(b->s));
    assert_int_equal(session_deadline(b->s), 1000 + 20 * MOYAI_MS);
    b->now += 19 * MOYAI_MS;
    step(b, EV(TIMEOUT));
    pull(b, "");
    b->now += MOYAI_MS;
    step(b, EV(TIMEOUT));
    assert_int_equal(session_deadline(b->s), UINT64_MAX);
    carry(b, a, "ACK1 ack4");
    b->told[0] = 0;
    expect(a, "acked:1");
    give(a, 2, 4);
    carry(a, b, "DATA1 #4 0:be4");
    give(b, 9, 1); /* data carry it */
    carry(b, a, "DATA1 ack8 #0 0:be1");
    expect(a, "acked:2 0:be0+1/1");
    pull(b, "");
    assert_int_equal(session_deadline(b->s), UINT64_MAX);
}

static void pass_any(struct end *from, struct end *to, uint64_t room) {
    from->out.chunks = from->chunks;
    assert_true(session_pull(from->s, from->now, room, &from->out));
    assert_int_equal(pass(from, to), 0);
}

/* n large messages under way and granted, so that what is left of each can be sent. */
static void begin_all(struct end *a, struct end *b, uint64_t n, uint64_t length) {
    for (uint64_t k = 1; k <= n; k++) give(a, k, length);
    pass_any(a, b, 1000);
    for (uint32_t k = 1; k <= n; k++) {
        step(b, EV(GRANT, .stream = k, .allowed = length));
        pass_any(b, a, 0);
    }
}

/* The delay runs from the first byte that waits, and is over when much waits. */
static void test_ack_at_once(void **state) {
    (void)state;
    const struct {
        struct session_cfg c;
        uint64_t each, frames; /* with the frames-th message of each bytes it is due */
    } all[] = {
        {{.entries = 1000, .streams = 64, .small = 10, .chunk = 20, .window = 101}, 2, 13}, /* 26 bytes */
        {{.entries = 1000, .streams = 64, .small = 10, .chunk = 20, .window = 105}, 1, 27}, /* 27 bytes */
        {{.entries = 9, .streams = 64, .small = 10, .chunk = 20, .window = 1000}, 1, 3},    /* entries */
        {{.entries = 8, .streams = 64, .small = 10, .chunk = 20, .window = 1000}, 1, 2},
        {{.entries = 1000, .streams = 5, .small = 10, .chunk = 20, .window = 1000}, 11, 2}, /* streams */
        {{.entries = 1000, .streams = 9, .small = 10, .chunk = 20, .window = 1000}, 11, 3},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct session_cfg c = all[i].c;
        c.id = 0xa;
        c.lower = true;
        struct end *a = end_new(&c), *b = end_new(&high);
        end_free(b);
        c.id = 0xb;
        c.lower = false;
        b = end_new(&c);
        open_pair(a, b);
        bool large = all[i].each > c.small;
        if (large) begin_all(a, b, all[i].frames, all[i].each);
        uint64_t start = b->now;
        for (uint64_t k = 1; k <= all[i].frames; k++, b->now++) {
            assert_int_equal(session_deadline(b->s), k == 1 ? UINT64_MAX : start + 20 * (uint64_t)MOYAI_MS);
            if (!large) give(a, k, all[i].each);
            pass_any(a, b, large ? 9 : 100);
            bool due = session_pending(b->s);
            if (due != (k == all[i].frames)) fail_msg("case %zu: due %d after %d", i, due, (int)k);
        }
        assert_int_equal(session_deadline(b->s), UINT64_MAX);
        give(a, 99, 1); /* while one is due already */
        pass_any(a, b, 100);
        assert_int_equal(session_deadline(b->s), UINT64_MAX);
        end_free(a);
        end_free(b);
    }
}

/* Pieces of large messages fill the sender's ring: they count for themselves. */
static void test_ack_pieces(void **state) {
    (void)state;
    struct session_cfg c = {
        .id = 0xa, .lower = true, .entries = 1000, .streams = 5, .small = 10, .chunk = 20, .window = 1000};
    struct end *a = end_new(&c);
    c.id = 0xb;
    c.lower = false;
    struct end *b = end_new(&c);
    open_pair(a, b);
    begin_all(a, b, 2, 100);
    for (int k = 1; k <= 5; k++) {
        assert_false(session_pending(b->s));
        pass_any(a, b, 9);
    }
    carry(b, a, "ACK1 ack25");
    for (int k = 1; k <= 3; k++) pass_any(a, b, 9);
    pull(b, "");
    /* a repeated chunk is not one more */
    struct session_chunk two[2] = {{.stream = 2, .len = 1}, {.stream = 1, .len = 1}};
    struct session_frame f = {.kind = SESSION_DATA, .id = 0xa, .path = 1, .seq = 27, .n_chunks = 2, .chunks = two};
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0);
    pull(b, "");
    end_free(a);
    end_free(b);
}

static void test_large(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 5, 45);
    carry(a, b, "DATA1 #0 1:b10/45");
    expect(b, "1:b0+10/45");
    pull(a, ""); /* the reader has not asked for more */
    assert_int_equal(step(b, EV(GRANT, .stream = 2, .allowed = 99)), MOYAI_EINVAL);
    assert_int_equal(step(b, EV(GRANT, .stream = 0, .allowed = 99)), MOYAI_EINVAL);
    assert_int_equal(step(b, EV(GRANT, .stream = 5, .allowed = 99)), MOYAI_EINVAL);
    assert_int_equal(step(b, EV(GRANT, .stream = 1, .allowed = 10)), 0);
    pull(b, "");
    step(b, EV(GRANT, .stream = 1, .allowed = 40));
    carry(b, a, "GRANT1 ack10 1:40");
    carry(a, b, "DATA1 #10 1:20 1:10");
    pull(a, "");
    step(b, EV(GRANT, .stream = 1, .allowed = UINT64_MAX));
    carry(b, a, "GRANT1 ack40 1:45");
    expect(a, "");
    carry(a, b, "DATA1 #40 1:e5");
    expect(b, "1:10+20/45 1:30+10/45 1:e40+5/45");
    carry(b, a, "ACK1 ack45"); /* at once: one of four streams waits for it */
    expect(a, "acked:5");
    assert_true(session_idle(a->s) && session_idle(b->s));
}

/* Beginnings first, in order; continuations take turns; streams are used again once acknowledged. */
static void test_interleave(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 50);
    give(a, 2, 11);
    give(a, 3, 3);
    pull_room(a, 26 + 26 + 11, "DATA1 #0 1:b10/50 2:b10/11 0:be3");
    pass(a, b);
    step(b, EV(GRANT, .stream = 1, .allowed = 99));
    step(b, EV(GRANT, .stream = 2, .allowed = 99));
    carry(b, a, "GRANT1 ack23 1:50");
    carry(b, a, "GRANT1 ack23 2:11");
    expect(a, "acked:3");
    give(a, 4, 2);
    pull_room(a, 10 + 28 + 9 + 15, "DATA1 #23 0:be2 1:20 2:e1"); /* room for 7 bytes: no sliver of stream 1 */
    pass(a, b);
    b->told[0] = 0;
    carry(b, a, "ACK1 ack46");
    expect(a, "acked:4 acked:2");
    give(a, 5, 12);
    carry(a, b, "DATA1 #46 2:b10/12 1:e20");
    expect(b, "2:b0+10/12 1:e30+20/50");
}

static void test_limits(void **state) {
    ENDS;
    open_pair(a, b);
    for (uint64_t i = 0; i < 6; i++) assert_int_equal(step(a, EV(SEND, .token = i, .length = 1, .request = true)), 0);
    assert_false(session_room(a->s, 1, true));
    assert_int_equal(step(a, EV(SEND, .token = 9, .length = 1, .request = true)), MOYAI_EAGAIN);
    assert_true(session_room(a->s, 1, false));
    assert_int_equal(give(a, 6, 1), 0);
    assert_int_equal(give(a, 7, 1), 0);
    assert_false(session_room(a->s, 1, false));
    assert_int_equal(give(a, 8, 1), MOYAI_EAGAIN);
    settle(a, b);
    b->now += (moyai_ns)MOYAI_SEC;
    step(b, EV(TIMEOUT));
    settle(a, b);
    expect(a, "acked:0 acked:1 acked:2 acked:3 acked:4 acked:5 acked:6 acked:7");
    for (uint64_t i = 0; i < 3; i++) assert_int_equal(step(a, EV(SEND, .token = i, .length = 11, .request = true)), 0);
    assert_false(session_room(a->s, 11, true));
    assert_true(session_room(a->s, 10, true));
    assert_int_equal(step(a, EV(SEND, .token = 9, .length = 11, .request = true)), MOYAI_EAGAIN);
    assert_int_equal(give(a, 3, 11), 0);
    assert_int_equal(give(a, 4, 11), MOYAI_EAGAIN);
    assert_int_equal(step(a, EV(SEND, .token = 4, .length = 10, .request = true)), 0);
}

static void test_window(void **state) {
    ENDS;
    open_pair(a, b);
    for (uint64_t i = 0; i < 4; i++) give(a, i, 28);
    pull(a, "DATA1 #0 1:b10/28 2:b10/28 3:b10/28 4:b10/28");
    pass(a, b);
    for (uint32_t i = 1; i <= 4; i++) step(b, EV(GRANT, .stream = i, .allowed = 99));
    for (uint32_t i = 1; i <= 4; i++) {
        pull_at(__FILE__, __LINE__, b, 0,
                (const char *[]){"", "GRANT1 ack40 1:28", "GRANT1 ack40 2:28", "GRANT1 ack40 3:28",
                                 "GRANT1 ack40 4:28"}[i]);
        pass(b, a);
    }
    for (uint64_t i = 0; i < 4; i++) give(a, 10 + i, 10);
    pull(a, "DATA1 #40 0:be10 0:be10 0:be10 0:be10 1:e18 2:e18 3:e18");
    assert_int_equal(pass(a, b), 0);
    pull(a, "DATA1 #134 4:6");
    assert_int_equal(pass(a, b), 0);
    pull(a, ""); /* 100 bytes are under way */
    carry(b, a, "ACK1 ack140");
    expect(a, "acked:10 acked:11 acked:12 acked:13 acked:0 acked:1 acked:2");
    carry(a, b, "DATA1 #140 4:e12");
}

static void test_credit(void **state) {
    ENDS;
    a->credit = 23;
    open_pair(a, b);
    give(a, 1, 10);
    give(a, 2, 10);
    give(a, 3, 30);
    carry(a, b, "DATA1 #0 0:be10");
    pull(a, ""); /* 5 bytes are not enough for a small message, and nothing may pass it */
    step(a, EV(CREDIT, .credit = 12));
    pull(a, ""); /* nor are 17: its head has 8 */
    step(a, EV(CREDIT, .credit = 4));
    carry(a, b, "DATA1 #10 0:be10");
    step(a, EV(CREDIT, .credit = 13));
    pull(a, ""); /* a large one's has 16 */
    step(a, EV(CREDIT, .credit = 9));
    pull(a, ""); /* it begins with all of `small` bytes or not at all */
    step(a, EV(CREDIT, .credit = 1));
    carry(a, b, "DATA1 #20 1:b10/30");
    give(a, 4, 7);
    step(a, EV(CREDIT, .credit = 15));
    carry(a, b, "DATA1 #30 0:be7");
    step(a, EV(CREDIT, .credit = UINT64_MAX - 1));
    step(a, EV(CREDIT, .credit = 2)); /* without limit from now on */
    give(a, 5, 8);
    pull(a, "DATA1 #37 0:be8");
    assert_true(a->s->credit == UINT64_MAX);
}

/* What the reader needs to know what is beginning stands in the first chunk: neither the window nor a frame cuts it. */
static void test_whole_beginning(void **state) {
    (void)state;
    struct session_cfg c = {
        .id = 0xa, .lower = true, .entries = 8, .streams = 5, .small = 10, .chunk = 20, .window = 25};
    struct end *a = end_new(&c);
    c.id = 0xb;
    c.lower = false;
    struct end *b = end_new(&c);
    open_pair(a, b);
    give(a, 1, 10);
    give(a, 2, 10);
    give(a, 3, 12);
    give(a, 4, 1);
    carry(a, b, "DATA1 #0 0:be10 0:be10");
    assert_false(session_pending(a->s)); /* 5 bytes of the window are left */
    pull(a, "");
    b->told[0] = 0;
    carry(b, a, "ACK1 ack20");
    pull_room(a, 25, "");
    carry(a, b, "DATA1 #20 1:b10/12 0:be1");
    expect(b, "1:b0+10/12 0:be0+1/1");
    end_free(a);
    end_free(b);
}

/* A message waits to begin: the end of another does not slip in before it. */
static void test_no_passing(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 12);
    carry(a, b, "DATA1 #0 1:b10/12");
    step(b, EV(GRANT, .stream = 1, .allowed = 12));
    carry(b, a, "GRANT1 ack10 1:12");
    give(a, 2, 3);
    give(a, 3, 30);
    pull_room(a, 10, "");
    pull_room(a, 11 + 21, "DATA1 #10 0:be3");
    pass(a, b);
    pull_room(a, 25, "");
    carry(a, b, "DATA1 #13 2:b10/30 1:e2");
}

/* Pieces sent one after the other are one to the sender; pieces of several messages in turn are as many as it can hold.
 */
static void test_pieces(void **state) {
    (void)state;
    struct session_cfg c = {
        .id = 0xa, .lower = true, .entries = 1000, .streams = 2, .small = 1, .chunk = 1, .window = 4000};
    struct end *a = end_new(&c);
    c.id = 0xb;
    c.lower = false;
    struct end *b = end_new(&c);
    open_pair(a, b);
    begin_all(a, b, 1, 2000);
    for (int i = 0; i < 20; i++) {
        a->out.chunks = a->chunks;
        assert_true(session_pull(a->s, 0, 9, &a->out));
        check(a);
    }
    assert_int_equal(a->s->sent_n, 1);
    assert_true(session_pull(a->s, 0, 10000, &a->out));
    assert_int_equal(a->out.n_chunks, SESSION_CHUNKS);
    struct session_frame g = {.kind = SESSION_GRANT, .id = 0xa, .path = 1, .stream = 2, .allowed = 2000, .ack = 1};
    give(a, 2, 2000);
    assert_true(session_pull(a->s, 0, 17, &a->out)); /* begins */
    assert_int_equal(step(a, EV(RECEIVE, .frame = &g)), 0);
    for (int i = 0; i < 8; i++) {
        assert_true(session_pull(a->s, 0, 9, &a->out));
        assert_int_equal(a->out.chunks[0].stream, 2 - i % 2);
    }
    assert_int_equal(a->s->conts, 8);
    pull(a, "");
    g.ack = 600;
    assert_int_equal(step(a, EV(RECEIVE, .frame = &g)), MOYAI_EPROTO);
    g.ack = 541;
    assert_int_equal(step(a, EV(RECEIVE, .frame = &g)), 0);
    pull_room(a, 8, "");
    pull_room(a, 9, "DATA1 #542 2:1");
    end_free(a);
    end_free(b);
}

/* A row of pieces longer than 32 bits can count. */
static void test_huge(void **state) {
    (void)state;
    struct session_cfg c = {
        .id = 0xa, .lower = true, .streams = 1, .small = 127, .chunk = SESSION_CHUNK_MAX, .window = UINT64_C(1) << 40};
    struct end *a = end_new(&c);
    c.id = 0xb;
    c.lower = false;
    struct end *b = end_new(&c);
    open_pair(a, b);
    begin_all(a, b, 1, UINT64_C(1) << 36);
    a->s->tx_acked = a->s->ack_to = 0; /* as if the beginning had not been acknowledged */
    session_segs(a->s)[0] = (struct session_seg){.length = 127, .stream = 1};
    a->s->sent_n = 1;
    session_txs(a->s)[0].acked = 0;
    check(a);
    a->out.chunks = a->chunks;
    assert_true(session_pull(a->s, 0, UINT64_MAX, &a->out));
    check(a);
    assert_int_equal(a->out.n_chunks, SESSION_CHUNKS);
    assert_int_equal(session_segs(a->s)[0].length, (UINT32_MAX >> 1) + SESSION_CHUNK_MAX); /* 127 + 129 pieces */
    assert_int_equal(session_segs(a->s)[1].length, 129 * UINT64_C(0xffffff));
    end_free(a);
    end_free(b);
}

/* More aborts than a frame has chunks. */
static void test_many_aborts(void **state) {
    (void)state;
    struct session_cfg c = {.id = 0xa, .lower = true, .streams = 600, .small = 1};
    struct end *a = end_new(&c);
    c.id = 0xb;
    c.lower = false;
    struct end *b = end_new(&c);
    open_pair(a, b);
    for (uint64_t i = 1; i <= 600; i++) assert_int_equal(session_step(a->s, &EV(SEND, .token = i, .length = 2)), 0);
    assert_int_equal(session_step(a->s, &EV(SEND, .token = 601, .length = 2)), MOYAI_EAGAIN);
    a->out.chunks = a->chunks;
    assert_true(session_pull(a->s, 0, 10000, &a->out));
    assert_int_equal(a->out.n_chunks, SESSION_CHUNKS);
    assert_true(session_pull(a->s, 0, 10000, &a->out));
    assert_int_equal(a->out.n_chunks, 88);
    for (uint64_t i = 1; i <= 600; i++) assert_int_equal(session_step(a->s, &EV(DROP, .token = i)), 0);
    struct session_effect fx;
    for (uint64_t i = 1; i <= 600; i++) {
        assert_true(session_next(a->s, &fx));
        assert_int_equal(fx.token, i);
    }
    assert_false(session_next(a->s, &fx));
    assert_true(session_pull(a->s, 0, 10000, &a->out));
    assert_int_equal(a->out.n_chunks, SESSION_CHUNKS);
    assert_int_equal(a->out.chunks[511].stream, 512);
    assert_true(session_pull(a->s, 0, 10000, &a->out));
    assert_int_equal(a->out.n_chunks, 88);
    check(a);
    end_free(a);
    end_free(b);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configuration),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_durations),
        TEST(test_open),
        TEST(test_open_higher),
        TEST(test_open_both),
        TEST(test_open_both_one_path),
        TEST(test_open_again),
        TEST(test_open_resumed),
        TEST(test_open_repeated),
        TEST(test_open_timeout),
        TEST(test_small),
        TEST(test_ack_delay),
        cmocka_unit_test(test_ack_at_once),
        cmocka_unit_test(test_ack_pieces),
        TEST(test_large),
        TEST(test_interleave),
        TEST(test_limits),
        TEST(test_window),
        TEST(test_credit),
        TEST(test_whole_beginning),
        TEST(test_no_passing),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_huge),
        cmocka_unit_test(test_many_aborts),
    };
    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
