/* SPDX-License-Identifier: Apache-2.0 */
/* Each invariant of the session machine is seen to fail: one field of a right block is made wrong. White box. */
#include "overlay/session_testkit.h"

#include "base/rng.h"

static const struct session_cfg low = {
    .id = 0xa, .lower = true, .entries = 8, .streams = 4, .small = 10, .chunk = 20, .window = 100};
static const struct session_cfg high = {
    .id = 0xb, .lower = false, .entries = 8, .streams = 4, .small = 10, .chunk = 20, .window = 100};

/* b in the middle of everything: up; out: stream 1 begun and 10 of 30 acknowledged, 5 more sent as a continuation;
 * stream 2 begun and aborted; stream 3 waiting, a small message waiting, one sent; in: stream 1, 10 of 30, a grant due.
 */
static struct end *busy(void) {
    struct end *a = end_new(&low), *b = end_new(&high);
    a->credit = b->credit = 1000;
    open_pair(a, b);
    give(b, 1, 30);
    carry(b, a, "DATA1 #0 1:b10/30");
    step(a, EV(GRANT, .stream = 1, .allowed = 25));
    carry(a, b, "GRANT1 ack10 1:25");
    give(b, 2, 20);
    give(b, 3, 4);
    pull_room(b, 26 + 12, "DATA1 #10 2:b10/20 0:be4");
    pull_room(b, 13, "DATA1 #24 1:5");
    step(b, EV(DROP, .token = 2));
    give(b, 4, 40);
    give(b, 5, 6);
    give(a, 6, 30);
    carry(a, b, "DATA1 ack10 #0 1:b10/30");
    step(b, EV(GRANT, .stream = 1, .allowed = 20));
    b->told[0] = 0;
    end_free(a);
    return b;
}

static const char *law(const struct end *e) {
    static struct moyai_error why;
    memset(&why, 0, sizeof why);
    if (session_check(e->s, &why)) return "";
    assert_int_equal(why.code, MOYAI_EINTERNAL);
    return strstr(why.text, ": ") + 2;
}

/* With `change` made to s, the law that `text` names is broken. */
#define BREAKS(text, change)                                                                                           \
    do {                                                                                                               \
        struct end *e = busy();                                                                                        \
        struct session *s = e->s;                                                                                      \
        struct session_tx *tx = session_txs(s);                                                                        \
        struct session_rx *rx = session_rxs(s);                                                                        \
        struct session_wait *wait = &session_waits(s)[s->wait_head];                                                   \
        struct session_seg *seg = &session_segs(s)[s->sent_head];                                                      \
        (void)tx, (void)rx, (void)wait, (void)seg;                                                                     \
        assert_string_equal(law(e), "");                                                                               \
        change;                                                                                                        \
        assert_string_equal(law(e), text);                                                                             \
        end_free(e);                                                                                                   \
    } while (0)
/* The law takes no notice of `change`. */
#define HOLDS(change) BREAKS("", change)

static void flip(struct session *s, enum session_set set, uint32_t i) {
    session_set(s, set)[0] ^= UINT64_C(1) << i;
}

static void test_life(void **state) {
    (void)state;
    BREAKS("no such state", s->state = SESSION_FAILED + 1);
    BREAKS("up without a path", s->path_up = 0);
    BREAKS("up without a path", (s->state = SESSION_RESUMING, s->path_up = 0));
    BREAKS("a path too many", s->state = SESSION_NEW);
    BREAKS("a path too many", s->state = SESSION_LOST);
    BREAKS("a path without a number", s->path = 0);
    BREAKS("the time to find a path runs when it should not, or not", s->lost_at = 1);
    BREAKS("the time to find a path runs when it should not, or not", s->state = SESSION_OPENING);
    BREAKS("the time to find a path runs when it should not, or not", s->state = SESSION_RESUMING);
    BREAKS("the time to find a path runs when it should not, or not", s->state = SESSION_CLOSING);
    BREAKS("traffic while not up", (s->state = SESSION_RESUMING, s->lost_at = 1));
    BREAKS("traffic while not up", (s->state = SESSION_RESUMING, s->lost_at = 1, s->grant_n = 0, s->say = SAY_ACK));
    BREAKS("traffic while not up", (s->state = SESSION_RESUMING, s->lost_at = 1, s->grant_n = 0));
    BREAKS("OPEN is due where it has no place", s->say = SAY_OPEN);
    HOLDS((s->say = SAY_OPEN, s->unborn = 1));
    BREAKS("what was taken will not be acknowledged", s->ack_at = 0);
    HOLDS((s->ack_at = 0, s->say = SAY_ACK));
    HOLDS((s->ack_at = 0, s->say = SAY_ACCEPT));
    HOLDS((s->ack_at = 0, s->say = SAY_RESUMED));
    HOLDS((s->ack_at = 0, s->rx_said = s->rx_next));
    BREAKS("effects left over", s->tell = TELL_PATH);
    BREAKS("effects left over", s->ack_to++);
    BREAKS("effects left over", s->drop_n++);
    BREAKS("effects left over", s->report_n++);
    BREAKS("effects left over", s->cursor++);
    HOLDS((s->draining = 1, s->tell = TELL_PATH, s->ack_to++, s->cursor++));
    BREAKS("a frame left over", s->chunks = e->chunks);
    BREAKS("a frame left over", s->chunk_i++);
    BREAKS("a frame left over", s->chunk_n++);
    BREAKS("a frame left over", s->chunk_dup++);
    BREAKS("an end with messages left", (s->state = SESSION_ENDED, s->grant_n = 0, s->ack_at = 0));
}

/* Nothing may be due where there is no path. */
static void test_no_path(void **state) {
    (void)state;
#define LOST(text, change)                                                                                             \
    BREAKS(text, step(e, EV(PATH_DOWN)); assert_string_equal(law(e), ""); assert_int_equal(s->path_up, 0); change)
    LOST("", (void)0);
    LOST("something is due on no path", s->say = SAY_RESUME);
    LOST("something is due on no path", s->credit = 1);
    LOST("something is due on no path", s->grant_n = 1);
    LOST("something is due on no path", s->ack_at = 1);
    LOST("the time to find a path runs when it should not, or not", s->lost_at = 0);
    LOST("the time to find a path runs when it should not, or not", s->state = SESSION_NEW);
    LOST("effects left over", s->state = SESSION_ENDED);
}

/* Each kind of thing that could be left at the end. */
static void test_end(void **state) {
    (void)state;
#define ENDED(text, change) BREAKS(text, step(e, EV(PEER_DEAD)); assert_string_equal(law(e), ""); change)
    ENDED("", (void)0);
    ENDED("an end with messages left", s->used = 1);
    ENDED("an end with messages left", s->streams_used = 1);
    ENDED("an end with messages left", s->sent_n = 1);
    ENDED("an end with messages left", s->wait_n = 1);
}

/* Of an end that owes a CLOSED, and one that waits for ACCEPT. */
static void test_held(void **state) {
    (void)state;
    struct session_frame f = {.kind = SESSION_CLOSE, .id = 0xa, .path = 1, .ack = 10};
#define OWES(text, change)                                                                                             \
    BREAKS(text, step(e, EV(RECEIVE, .frame = &f)); assert_string_equal(law(e), ""); assert_true(s->lost_at > 0);      \
           change)
    OWES("", s->lost_at = 1);
    OWES("effects left over", s->lost_at = 0);
    OWES("effects left over", s->tell = 0);
    OWES("effects left over", s->tell |= TELL_PATH);
    OWES("the time to find a path runs when it should not, or not", s->state = SESSION_FAILED);
    OWES("traffic while not up", s->ack_at = 1);
    struct end *a = end_new(&low);
    step(a, EV(OPEN));
    step(a, EV(PATH_UP));
    pull(a, "OPEN1");
    assert_true(a->s->ack_at > 0);
    a->s->say = SAY_OPEN;
    assert_string_equal(law(a), "");
    a->s->say = SAY_ACK;
    assert_string_equal(law(a), "traffic while not up");
    end_free(a);
}

static void test_waiting(void **state) {
    (void)state;
    const char *length = "a waiting message of no right length", *slot = "a waiting message without its slot";
    BREAKS(length, wait[1].length = 0);
    BREAKS(length, wait[1].length = 11);
    HOLDS(wait[1].length = 10);
    HOLDS(wait[0].length = 99); /* of a large one: without meaning */
    BREAKS(slot, wait[0].stream = 5);
    BREAKS(slot, wait[0].stream = 1);
    BREAKS(slot, wait[0].stream = 4);
    BREAKS(slot, wait[0].token++);
    BREAKS(slot, tx[2].aborted = 1);
    BREAKS(slot, tx[2].sent = 1);
    BREAKS(slot, wait[1].stream = 3); /* whose token is another */
}

static void test_slots(void **state) {
    (void)state;
    const char *set = "an outbound slot does not agree with its set", *zero = "a free outbound slot is not zero";
    const char *order = "outbound: acknowledged, sent, allowed, total are out of order";
    const char *sum = "outbound: segments do not add up to what was sent of a message";
    const char *ready = "outbound: a message is ready or not, and its set says otherwise";
    const char *abort = "an aborted message without its ABORT, or the reverse";
    BREAKS(set, flip(s, SET_TX_USED, 0));
    BREAKS(set, flip(s, SET_TX_USED, 3));
    BREAKS(set, tx[3].total = 20);
    BREAKS(zero, tx[3].token = 1);
    BREAKS(zero, tx[3].sent = 1);
    BREAKS(zero, tx[3].acked = 1);
    BREAKS(zero, tx[3].allowed = 1);
    BREAKS(zero, tx[3].aborted = 1);
    BREAKS("a free outbound slot is in a set", flip(s, SET_ABORT, 3));
    BREAKS("a free outbound slot is in a set", flip(s, SET_READY, 3));
    BREAKS(order, tx[0].acked = 16);
    BREAKS(order, tx[0].sent = 26);
    BREAKS(order, tx[0].allowed = 31);
    BREAKS(order, tx[2].allowed = 9);
    BREAKS(sum, tx[0].acked = 9);
    BREAKS(sum, tx[0].sent = 14);
    BREAKS(abort, tx[1].aborted = 0);
    BREAKS(abort, (tx[0].aborted = 1, flip(s, SET_READY, 0), s->ready_n--));
    BREAKS(abort, flip(s, SET_ABORT, 1));
    HOLDS((flip(s, SET_ABORT, 1), s->abort_n--, /* its ABORT is under way */
           seg[s->sent_n++] = (struct session_seg){.length = 1, .stream = 2 | SESSION_ABORT_BIT}, s->tx_next++));
    BREAKS(ready, flip(s, SET_READY, 0));
    BREAKS(ready, flip(s, SET_READY, 1));
    BREAKS(ready, flip(s, SET_READY, 2));
    BREAKS(ready, tx[0].allowed = 15);
    BREAKS("an acknowledged message keeps its slot",
           (tx[0].total = tx[0].allowed = tx[0].sent = tx[0].acked = 15, seg[2].length = 0, seg[2].stream = 0,
            s->sent_n--, flip(s, SET_READY, 0)));
}

static void test_counts(void **state) {
    (void)state;
    BREAKS("an empty segment", seg[1].length = 0);
    BREAKS("segments do not add up to what is under way", seg[1].length = 3);
    BREAKS("segments do not add up to what is under way", s->tx_next++);
    BREAKS("more under way than the window allows", s->window = 18);
    HOLDS(s->window = 19);
    BREAKS("entries are miscounted", s->used++);
    BREAKS("entries are miscounted", s->entries = 4);
    BREAKS("sets of streams are miscounted", s->streams_used++);
    BREAKS("sets of streams are miscounted", s->ready_n++);
    BREAKS("sets of streams are miscounted", s->abort_n++);
    BREAKS("sets of streams are miscounted", flip(s, SET_REPORT, 0));
    HOLDS((s->draining = 1, flip(s, SET_REPORT, 1), s->report_n++));
    BREAKS("the turn is nobody's", s->turn = 4);
    HOLDS(s->turn = 3);
    BREAKS("the turn is nobody's", (step(e, EV(PEER_DEAD)), s->turn = 1));
    BREAKS("continuations are miscounted", s->conts++);
    BREAKS("continuations are miscounted", seg[2].token = 0);
    BREAKS("continuations are miscounted", s->conts_max = 0);
    BREAKS("a ring holds more than it can", s->sent_cap = 2);
    BREAKS("a ring holds more than it can", s->entries = 1);
    HOLDS(s->conts_max = 1);
    HOLDS(s->sent_cap = 3);
    BREAKS("an empty ring not at its start", (step(e, EV(PEER_DEAD)), s->sent_head = 1));
    BREAKS("an empty ring not at its start", (step(e, EV(PEER_DEAD)), s->wait_head = 1));
}

static void test_inbound(void **state) {
    (void)state;
    const char *sets = "an inbound slot does not agree with its sets", *zero = "a free inbound slot is not zero";
    const char *order = "inbound: taken, allowed, total are out of order";
    BREAKS(sets, flip(s, SET_RX_USED, 0));
    BREAKS(sets, flip(s, SET_RX_USED, 1));
    BREAKS(sets, rx[1].total = 20);
    BREAKS(sets, flip(s, SET_GRANT, 1));
    BREAKS(zero, rx[1].got = 1);
    BREAKS(zero, rx[1].told = 1);
    BREAKS(zero, rx[1].allowed = 1);
    BREAKS(zero, rx[1].aborted = 1);
    BREAKS("inbound: taken and not told", rx[0].told = 9);
    BREAKS("inbound: taken and not told", rx[0].aborted = 1);
    HOLDS((s->draining = 1, rx[0].told = 9, rx[0].aborted = 1));
    BREAKS(order, rx[0].got = rx[0].told = 0);
    BREAKS(order, rx[0].got = rx[0].told = 21);
    BREAKS(order, (rx[0].total = 20, rx[0].got = rx[0].told = 20));
    BREAKS(order, rx[0].total = 19);
    BREAKS(order, rx[0].allowed = rx[0].got = rx[0].told = 9);
    HOLDS(rx[0].total = 20);
    HOLDS(rx[0].allowed = 10);
    BREAKS("grants are miscounted", s->grant_n++);
    BREAKS("more acknowledged than taken", s->rx_said = s->rx_next + 1);
}

/* Sets of streams against the same in a plain array, with something in the sets beside them. */
static void test_sets(void **state) {
    (void)state;
    static const uint32_t sizes[] = {1, 2, 63, 64, 65, 127, 128, 130};
    struct moyai_rng r;
    rng_seed(&r, 3);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const uint32_t n = sizes[k];
        struct session_cfg c = {.id = 1, .streams = n};
        struct end *e = end_new(&c);
        for (int round = 0; round < 40; round++) {
            bool in[130] = {false};
            uint32_t count = 0, all = 0;
            memset(session_set(e->s, SET_TX_USED), 0xaa, SETS * e->s->words * sizeof(uint64_t));
            memset(session_set(e->s, SET_REPORT), 0, e->s->words * sizeof(uint64_t));
            for (uint32_t i = 0; i < n; i++) {
                in[i] = rng_below(&r, 40) < (uint64_t)round;
                if (round == 39 && i + 1 == n) in[i] = false; /* session_bit_free needs one */
                session_bit_put(e->s, SET_REPORT, i, in[i], &count);
                session_bit_put(e->s, SET_REPORT, i, in[i], &count); /* no change, no count */
                all += in[i];
            }
            assert_int_equal(count, all);
            uint32_t next = n, free_ = n;
            for (uint32_t i = n; i-- > 0;) {
                assert_int_equal(session_bit(e->s, SET_REPORT, i), in[i]);
                if (in[i])
                    next = i;
                else
                    free_ = i;
                assert_int_equal(session_bit_next(e->s, SET_REPORT, i), next);
            }
            assert_int_equal(session_bit_next(e->s, SET_REPORT, n), n);
            if (free_ < n) assert_int_equal(session_bit_free(e->s, SET_REPORT), free_);
            for (uint32_t i = 0; i < n; i++) session_bit_put(e->s, SET_REPORT, i, false, &count);
            assert_int_equal(count, 0);
            session_bit_put(e->s, SET_REPORT, n - 1, true, NULL);
            assert_true(session_bit(e->s, SET_REPORT, n - 1));
        }
        end_free(e);
    }
}

/* Turned so that they start at 0, rings of equal contents are equal bytes; and go on as before. */
static void test_settle(void **state) {
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        struct end *a = end_new(&low), *b = end_new(&high);
        open_pair(a, b);
        for (uint64_t i = 1; i <= 7; i++) give(a, i, 1);
        pull_room(a, 45, "DATA1 #0 0:be1 0:be1 0:be1 0:be1 0:be1");
        for (uint64_t i = 8; i <= 8; i++) give(a, i, 1);
        pass(a, b);
        pull_room(a, 18, "DATA1 #5 0:be1 0:be1");
        pass(a, b);
        step(a, EV(RECEIVE, .frame = &(struct session_frame){.kind = SESSION_ACK, .id = 0xa, .path = 1, .ack = 5}));
        expect(a, "acked:1 acked:2 acked:3 acked:4 acked:5");
        for (uint64_t i = 9; i <= 13; i++) give(a, i, 1);
        assert_int_equal(give(a, 14, 1), MOYAI_EAGAIN);
        if (turned) {
            session_settle(a->s);
            assert_int_equal(a->s->wait_head, 0);
            assert_int_equal(a->s->sent_head, 0);
            assert_int_equal(session_waits(a->s)[0].token, 8);
            assert_int_equal(session_waits(a->s)[5].token, 13);
            assert_int_equal(session_waits(a->s)[6].token, 0);
            assert_int_equal(session_segs(a->s)[0].token, 6);
            assert_int_equal(session_segs(a->s)[1].token, 7);
            assert_int_equal(session_segs(a->s)[2].token, 0);
            check(a);
        }
        carry(a, b, "DATA1 #7 0:be1 0:be1 0:be1 0:be1 0:be1 0:be1");
        step(a, EV(RECEIVE, .frame = &(struct session_frame){.kind = SESSION_ACK, .id = 0xa, .path = 1, .ack = 13}));
        expect(a, "acked:6 acked:7 acked:8 acked:9 acked:10 acked:11 acked:12 acked:13");
        end_free(a);
        end_free(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),   cmocka_unit_test(test_no_path), cmocka_unit_test(test_end),
        cmocka_unit_test(test_held),   cmocka_unit_test(test_waiting), cmocka_unit_test(test_slots),
        cmocka_unit_test(test_counts), cmocka_unit_test(test_inbound), cmocka_unit_test(test_sets),
        cmocka_unit_test(test_settle),
    };
    return cmocka_run_group_tests_name("session_check", tests, NULL, NULL);
}
