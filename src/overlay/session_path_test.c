/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and their paths: resuming, what is unsent, withdrawing, closing, failing, and what became of each message.
 */
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

static void down(struct end *e) {
    assert_int_equal(step(e, EV(PATH_DOWN)), 0);
    expect(e, "want");
    pull(e, "");
}

static void up(struct end *e) {
    assert_int_equal(step(e, EV(PATH_UP, .credit = e->credit)), 0);
}

/* --- resuming --- */

static void test_resume(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 4);
    give(a, 2, 5);
    carry(a, b, "DATA1 #0 0:be4 0:be5");
    expect(b, "0:be0+4/4 0:be0+5/5");
    give(a, 3, 6);
    pull(a, "DATA1 #9 0:be6"); /* is lost */
    give(a, 4, 7);
    down(a);
    assert_int_equal(session_deadline(a->s), a->now + 10 * MOYAI_SEC);
    down(b);
    assert_int_equal(step(b, EV(CREDIT, .credit = 5)), MOYAI_EINVAL);
    up(b);
    give(b, 8, 1);
    pull(b, "RESUME2 ack9");
    pull(b, ""); /* nothing more before the answer */
    assert_int_equal(pass(b, a), 0);
    expect(a, "path acked:1 acked:2");
    assert_int_equal(session_deadline(a->s), UINT64_MAX);
    carry(a, b, "RESUMED2");
    assert_int_equal(session_deadline(b->s), UINT64_MAX);
    carry(a, b, "DATA2 #9 0:be6 0:be7");
    expect(b, "0:be0+6/6 0:be0+7/7");
    carry(b, a, "DATA2 ack22 #0 0:be1");
    expect(a, "acked:3 acked:4 0:be0+1/1");
}

/* What was taken but not acknowledged is acknowledged by RESUMED; large messages go on where they were. */
static void test_resume_large(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 50);
    give(a, 2, 3);
    give(a, 3, 30);
    carry(a, b, "DATA1 #0 1:b10/50 0:be3 2:b10/30");
    step(b, EV(GRANT, .stream = 1, .allowed = 40));
    step(b, EV(GRANT, .stream = 2, .allowed = 30));
    carry(b, a, "GRANT1 ack23 1:40");
    carry(b, a, "GRANT1 ack23 2:30");
    carry(a, b, "DATA1 #23 1:20 2:e20 1:10");
    pull(a, "");
    expect(b, "1:b0+10/50 0:be0+3/3 2:b0+10/30 1:10+20/50 2:e10+20/30 1:30+10/50");
    expect(a, "acked:2");
    step(b, EV(GRANT, .stream = 1, .allowed = 50));
    down(b);
    up(a); /* replaces a path that has not broken here */
    assert_int_equal(session_deadline(a->s), a->now + 10 * MOYAI_SEC);
    carry(a, b, "RESUME3");
    expect(b, "path");
    carry(b, a, "RESUMED3 ack73");
    expect(a, "acked:3");
    carry(b, a, "GRANT3 ack73 1:50"); /* repeated, and what was granted meanwhile */
    pull(b, "");
    carry(a, b, "DATA3 #73 1:e10");
    expect(b, "1:e40+10/50");
}

/* A large message is unsent in the middle, a second one altogether: it begins again, in its order. */
static void test_unsend(void **state) {
    ENDS;
    a->credit = 26 + 46 + 26;
    open_pair(a, b);
    give(a, 1, 40);
    carry(a, b, "DATA1 #0 1:b10/40");
    step(b, EV(GRANT, .stream = 1, .allowed = 40));
    carry(b, a, "GRANT1 ack10 1:40");
    pull(a, "DATA1 #10 1:20 1:e10"); /* is lost */
    give(a, 2, 12);
    give(a, 3, 1);
    give(a, 4, 2);
    pull(a, "DATA1 #40 2:b10/12"); /* as much as there is credit */
    pull(a, "");
    step(a, EV(CREDIT, .credit = 10));
    pull(a, "DATA1 #50 0:be1");
    b->told[0] = 0;
    down(a);
    a->credit = 26 + 19 + 28 + 10;
    up(a);
    carry(a, b, "RESUME3");
    expect(b, "path");
    carry(b, a, "RESUMED3 ack10");
    expect(a, "");
    carry(b, a, "GRANT3 ack10 1:40");
    carry(a, b, "DATA3 #10 2:b10/12 0:be1 0:be2 1:20"); /* credit for 2 bytes is left */
    expect(b, "2:b0+10/12 0:be0+1/1 0:be0+2/2 1:10+20/40");
    carry(a, b, "DATA3 #43 1:2");
    expect(b, "1:30+2/40");
}

/* Both raise the path at once: the higher number wins, the other RESUME is dropped. */
static void test_cross(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 3);
    give(b, 2, 3);
    up(a);
    up(b);
    pull(a, "RESUME3");
    pull(b, "RESUME2");
    assert_int_equal(pass(b, a), 0);
    expect(a, "");
    pull(a, "");
    assert_int_equal(step(b, EV(RECEIVE, .frame = &(struct session_frame){.kind = SESSION_RESUME, .id = 0xa, .path = 3},
                                .credit = 50)),
                     0);
    expect(b, "path");
    carry(b, a, "RESUMED3");
    carry(b, a, "DATA3 #0 0:be3");
    expect(a, "0:be0+3/3");
    up(b);
    up(a);
    pull(a, "RESUME5 ack3");
    carry(b, a, "RESUME4"); /* lower: dropped */
    expect(a, "");
    down(a); /* and now it is all there is: a says its own by the path it came by */
    assert_int_equal(pass(b, a), 0);
    expect(a, "path");
    carry(a, b, "RESUME7 ack3");
    expect(b, "path acked:2");
    carry(b, a, "RESUMED7");
    carry(a, b, "DATA7 ack3 #0 0:be3");
}

/* Late frames of any kind are dropped, from a lower path or a path that is down. */
static void test_late(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 3);
    pull(a, "DATA1 #0 0:be3");
    const struct session_frame data = a->out;
    step(b, EV(PATH_DOWN));
    expect(b, "want");
    static const enum session_frame_kind kinds[] = {SESSION_ACCEPT, SESSION_RESUMED, SESSION_CLOSED, SESSION_ACK,
                                                    SESSION_GRANT};
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            struct session_frame f = {.kind = kinds[i], .id = 0xa, .path = 1, .ack = 99, .stream = 7};
            assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0);
        }
        assert_int_equal(step(b, EV(RECEIVE, .frame = &data)), 0);
        expect(b, "");
        if (round == 0) up(b);
    }
    for (int i = 0; i < 2; i++) {
        struct session_frame f = {.kind = i ? SESSION_CLOSE : SESSION_RESUME, .id = 0xa, .path = 1, .ack = 99};
        assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0);
        expect(b, "");
    }
    pull(b, "RESUME2");
    pull(b, "");
}

static void test_not_resumed(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 3);
    give(a, 2, 30);
    give(a, 3, 40);
    carry(a, b, "DATA1 #0 0:be3 1:b10/30 2:b10/40");
    step(b, EV(GRANT, .stream = 1, .allowed = 30));
    b->told[0] = 0;
    carry(b, a, "GRANT1 ack23 1:30");
    expect(a, "acked:1");
    pull(a, "DATA1 #23 1:e20");
    give(a, 4, 5);
    pull(a, "DATA1 #43 0:be5");
    give(a, 5, 6);
    down(a);
    give(a, 6, 60);
    down(b);
    a->now += (moyai_ns)(10 * MOYAI_SEC);
    step(a, EV(TIMEOUT));
    expect(a, "maybe:4 never:5 never:6 maybe:2 never:3 failed-14");
    pull(a, "");
    b->now += (moyai_ns)(10 * MOYAI_SEC);
    up(b);
    step(b, EV(TIMEOUT));
    expect(b, "aborted:1 aborted:2 failed-14");
    pull(b, "REFUSE"); /* a path, but no answer in time */
    assert_int_equal(pass(b, a), MOYAI_EINVAL);
}

/* The count in RESUME settles what did not arrive: after it, failing says NEVER. */
static void test_counted(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 3);
    pull(a, "DATA1 #0 0:be3");
    down(a);
    down(b);
    up(b);
    carry(b, a, "RESUME2");
    expect(a, "path");
    pull(a, "RESUMED2");
    assert_int_equal(step(a, EV(PEER_DEAD)), 0);
    expect(a, "never:1 failed-13");
}

static void test_peer_dead(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 3);
    give(a, 2, 11);
    give(a, 3, 4);
    pull_room(a, 11 + 26, "DATA1 #0 0:be3 1:b10/11");
    step(a, EV(PEER_DEAD));
    expect(a, "maybe:1 never:3 never:2 failed-13");
    pull(a, "");
    assert_int_equal(step(a, EV(TIMEOUT)), 0);
    assert_int_equal(step(a, EV(PATH_UP)), MOYAI_EINVAL);
    assert_int_equal(step(a, EV(PATH_DOWN)), MOYAI_EINVAL);
    assert_int_equal(step(a, EV(DROP, .token = 1)), MOYAI_EINVAL);
    pull(b, "");
    struct session_frame f = {.kind = SESSION_ACK, .id = 0xa, .path = 1};
    assert_int_equal(step(a, EV(RECEIVE, .frame = &f)), MOYAI_EINVAL);
    assert_true(session_refuse(&f, &a->out));
    assert_int_equal(pass(a, b), 0);
    expect(b, "failed-16");
    assert_int_equal(step(a, EV(PEER_DEAD)), MOYAI_EINVAL);
}

/* Who leaves has said how much it has taken: the rest of what was sent it does not take. Only while the session is up.
 */
static void test_peer_left(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 3);
    give(a, 2, 4);
    pull(a, "DATA1 #0 0:be3 0:be4");
    give(a, 3, 11);
    step(a, EV(PEER_LEFT));
    expect(a, "never:1 never:2 never:3 failed-13");
    assert_int_equal(step(a, EV(PEER_LEFT)), MOYAI_EINVAL);
    give(b, 4, 3);
    pull(b, "DATA1 #0 0:be3");
    down(b);
    step(b, EV(PEER_LEFT));
    expect(b, "maybe:4 failed-13");
}

static void test_refuse(void **state) {
    ENDS;
    struct session_frame in = {.id = 5}, out = {.chunks = a->chunks};
    for (int k = SESSION_OPEN; k <= SESSION_GRANT; k++) {
        in.kind = (enum session_frame_kind)k;
        bool due = k != SESSION_REFUSE && k != SESSION_CLOSED;
        assert_int_equal(session_refuse(&in, &out), due);
        if (!due) continue;
        assert_int_equal(out.kind, SESSION_REFUSE);
        assert_int_equal(out.id, 5);
        assert_ptr_equal(out.chunks, a->chunks);
    }
    give(a, 1, 3);
    step(a, EV(OPEN));
    up(a);
    expect(a, "want");
    pull(a, "OPEN1");
    struct session_frame f = {.kind = SESSION_REFUSE, .id = 0xc};
    assert_int_equal(step(a, EV(RECEIVE, .frame = &f)), MOYAI_EINVAL);
    f.id = 0xa;
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), MOYAI_EINVAL);
    assert_int_equal(step(a, EV(RECEIVE, .frame = &f)), 0);
    expect(a, "never:1 failed-16");
}

/* An OPEN of another id finds the session without a path: the path it came by serves to ask. */
static void test_foreign_open(void **state) {
    ENDS;
    open_pair(a, b);
    down(b);
    struct session_frame f = {.kind = SESSION_OPEN, .id = 0xc, .path = 9};
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f, .credit = 7)), 0);
    expect(b, "path");
    pull(b, "RESUME10");
    f.path = 11;
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0);
    pull(b, "");
    f.id = 0xa; /* the right id, on a higher path, though much was taken: impossible */
    give(a, 1, 3);
    pull(a, "DATA1 #0 0:be3");
}

/* --- withdrawing --- */

static void test_drop(void **state) {
    ENDS;
    for (uint64_t i = 1; i <= 5; i++) give(a, i, i);
    give(a, 6, 60);
    step(a, EV(DROP, .token = 3));
    expect(a, "never:3");
    step(a, EV(DROP, .token = 1));
    expect(a, "never:1");
    step(a, EV(DROP, .token = 6));
    expect(a, "never:6");
    step(a, EV(DROP, .token = 6));
    step(a, EV(DROP, .token = 77));
    expect(a, "");
    open_pair(a, b);
    carry(a, b, "DATA1 #0 0:be2 0:be4 0:be5");
    step(a, EV(DROP, .token = 4));
    expect(a, "");
    assert_true(settle(a, b) > 0);
    expect(a, "acked:2 acked:4 acked:5");
    assert_true(session_idle(a->s));
}

/* Several drops before the effects are fetched; SEND meanwhile, and a pull. */
static void test_drop_rows(void **state) {
    ENDS;
    open_pair(a, b);
    for (uint64_t i = 1; i <= 6; i++) give(a, i, i);
    for (uint64_t i = 2; i <= 6; i += 2) assert_int_equal(session_step(a->s, &EV(DROP, .token = i)), 0);
    assert_int_equal(session_step(a->s, &EV(SEND, .token = 7, .length = 7)), 0);
    assert_int_equal(session_step(a->s, &EV(SEND, .token = 8, .length = 8)), 0);
    assert_int_equal(session_step(a->s, &EV(SEND, .token = 9, .length = 9)), MOYAI_EAGAIN); /* not yet told */
    assert_int_equal(session_step(a->s, &EV(PEER_DEAD)), MOYAI_EINVAL);
    pull(a, "");
    step(a, EV(SEND, .token = 9, .length = 9));
    expect(a, "never:2 never:4 never:6");
    give(a, 9, 9);
    carry(a, b, "DATA1 #0 0:be1 0:be3 0:be5 0:be7 0:be8 0:be9");
}

/* While a drop is being told the ring begins with what was dropped. */
static void test_drop_most(void **state) {
    ENDS;
    open_pair(a, b);
    for (uint64_t i = 1; i <= 3; i++) give(a, i, i);
    for (uint64_t i = 1; i <= 2; i++) assert_int_equal(session_step(a->s, &EV(DROP, .token = i)), 0);
    assert_false(session_pending(a->s));
    step(a, EV(CREDIT, .credit = 1));
    expect(a, "never:1 never:2");
    carry(a, b, "DATA1 #0 0:be3");
}

/* One that waited and one that was begun, told in one row. */
static void test_drop_kinds(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 30);
    carry(a, b, "DATA1 #0 1:b10/30");
    give(a, 2, 5);
    assert_int_equal(session_step(a->s, &EV(DROP, .token = 1)), 0);
    assert_int_equal(session_step(a->s, &EV(DROP, .token = 2)), 0);
    step(a, EV(CREDIT, .credit = 1));
    expect(a, "never:2 never:1");
    carry(a, b, "DATA1 #10 1:x1");
}

static void test_abort(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 30);
    carry(a, b, "DATA1 #0 1:b10/30");
    step(b, EV(GRANT, .stream = 1, .allowed = 30));
    step(a, EV(DROP, .token = 1));
    expect(a, "never:1");
    step(a, EV(DROP, .token = 1));
    expect(a, "");
    carry(b, a, "GRANT1 ack10 1:30"); /* crosses the abort */
    carry(a, b, "DATA1 #10 1:x1");
    expect(b, "1:b0+10/30 aborted:1");
    pull(a, "");
    give(a, 2, 30);
    carry(a, b, "DATA1 #11 2:b10/30"); /* stream 1 is not free before its abort is acknowledged */
    carry(b, a, "ACK1 ack21");
    expect(a, "");
    give(a, 3, 30);
    carry(a, b, "DATA1 #21 1:b10/30");
    expect(b, "2:b0+10/30 1:b0+10/30");
}

static void test_abort_resumed(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 30);
    carry(a, b, "DATA1 #0 1:b10/30");
    give(a, 2, 30);
    give(a, 3, 30);
    pull_room(a, 26 + 26, "DATA1 #10 2:b10/30 3:b10/30"); /* is lost */
    step(a, EV(DROP, .token = 2));
    step(a, EV(DROP, .token = 1));
    pull(a, "DATA1 #30 1:x1 2:x1"); /* is lost as well */
    step(a, EV(DROP, .token = 3));
    expect(a, "never:2 never:1 never:3");
    b->told[0] = 0;
    down(a);
    up(a);
    carry(a, b, "RESUME3");
    carry(b, a, "RESUMED3 ack10");
    expect(a, "");
    carry(a, b, "DATA3 #10 1:x1"); /* the peer has never heard of the others */
    expect(b, "path aborted:1");
    pull(a, "");
    carry(b, a, "ACK3 ack11");
    assert_true(session_idle(a->s) && session_idle(b->s));
}

/* --- closing --- */

/* Whoever owed a CLOSED tells of the end once it was said. */
static void told_closed(struct end *e) {
    expect(e, "");
    assert_true(session_deadline(e->s) <= e->now);
    step(e, EV(TIMEOUT));
    expect(e, "closed");
    assert_int_equal(session_deadline(e->s), UINT64_MAX);
}

static void test_close(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 3);
    give(b, 2, 4);
    give(b, 3, 30);
    carry(a, b, "DATA1 #0 0:be3");
    carry(b, a, "DATA1 ack3 #0 0:be4 1:b10/30");
    give(a, 4, 5);
    carry(a, b, "DATA1 ack14 #3 0:be5");
    expect(a, "acked:1 0:be0+4/4 1:b0+10/30");
    expect(b, "0:be0+3/3 acked:2 0:be0+5/5");
    give(a, 5, 6);
    give(a, 6, 60);
    give(b, 7, 7);
    pull(b, "DATA1 ack8 #14 0:be7"); /* crosses the close */
    give(b, 8, 8);
    assert_int_equal(step(a, EV(CLOSE)), 0);
    expect(a, "never:5 never:6");
    assert_int_equal(give(a, 9, 1), MOYAI_EINVAL);
    assert_int_equal(step(a, EV(CLOSE)), MOYAI_EINVAL);
    assert_int_equal(step(a, EV(DROP, .token = 4)), 0);
    assert_int_equal(step(a, EV(GRANT, .stream = 1, .allowed = 30)), MOYAI_EINVAL);
    assert_int_equal(pass(b, a), 0);
    expect(a, "acked:4"); /* its bytes are not taken */
    carry(a, b, "CLOSE1 ack14");
    expect(b, "never:7 never:8 never:3");
    assert_int_equal(session_deadline(b->s), b->now + 10 * MOYAI_SEC);
    carry(b, a, "CLOSED1 ack8");
    told_closed(b);
    expect(a, "aborted:1 closed");
    assert_int_equal(step(a, EV(DROP, .token = 4)), MOYAI_EINVAL);
    assert_int_equal(step(a, EV(PATH_UP)), MOYAI_EINVAL);
    pull(a, "");
    pull(b, "");
    assert_false(session_idle(a->s));
}

/* Of large messages under way those not sent whole are reported at once. */
static void test_close_large(void **state) {
    ENDS;
    open_pair(a, b);
    for (uint64_t i = 1; i <= 4; i++) give(a, i, 11 * i);
    carry(a, b, "DATA1 #0 1:b10/11 2:b10/22 3:b10/33 4:b10/44");
    step(b, EV(GRANT, .stream = 1, .allowed = 11));
    step(b, EV(GRANT, .stream = 3, .allowed = 33));
    carry(b, a, "GRANT1 ack40 1:11");
    carry(b, a, "GRANT1 ack40 3:33");
    carry(a, b, "DATA1 #40 1:e1 3:20 3:e3");
    step(a, EV(DROP, .token = 2));
    expect(a, "never:2");
    step(a, EV(CLOSE));
    expect(a, "never:4");
    b->told[0] = 0;
    carry(a, b, "CLOSE1");
    expect(b, "aborted:2 aborted:4");
    carry(b, a, "CLOSED1 ack64");
    told_closed(b);
    expect(a, "acked:1 acked:3 closed");
}

static void test_close_untaken(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 3);
    give(a, 2, 20);
    give(a, 3, 4);
    carry(a, b, "DATA1 #0 0:be3 1:b10/20 0:be4");
    b->told[0] = 0;
    step(b, EV(CLOSE));
    expect(b, "");
    give(a, 4, 5);
    carry(a, b, "DATA1 #17 0:be5"); /* not taken any more */
    expect(b, "");
    step(a, EV(CLOSE)); /* both at once */
    expect(a, "never:2");
    pull(b, "CLOSE1 ack17");
    const struct session_frame from_b = b->out;
    carry(a, b, "CLOSE1");
    expect(b, "aborted:1");
    assert_int_equal(step(a, EV(RECEIVE, .frame = &from_b)), 0);
    expect(a, "acked:1 acked:3 never:4");
    carry(b, a, "CLOSED1 ack17");
    carry(a, b, "CLOSED1");
    told_closed(a);
    told_closed(b);
}

/* CLOSED is lost: asked again on a new path, answered again. */
static void test_close_again(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 3);
    carry(a, b, "DATA1 #0 0:be3");
    step(a, EV(CLOSE));
    expect(a, "");
    carry(a, b, "CLOSE1");
    expect(b, "0:be0+3/3");
    assert_int_equal(step(b, EV(PATH_DOWN)), 0); /* before it could be said */
    expect(b, "closed");
    pull(b, "");
    down(a);
    up(a);
    carry(a, b, "CLOSE3");
    expect(b, "path");
    pull(b, "CLOSED3 ack3"); /* is lost */
    assert_int_equal(session_deadline(b->s), UINT64_MAX);
    assert_int_equal(step(b, EV(PATH_DOWN)), 0);
    expect(b, "");
    up(a);
    carry(a, b, "CLOSE5");
    expect(b, "path");
    carry(b, a, "CLOSED5 ack3");
    expect(a, "acked:1 closed");
}

static void test_close_resuming(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 3);
    pull(a, "DATA1 #0 0:be3"); /* is lost */
    down(a);
    up(a);
    carry(a, b, "RESUME3");
    expect(b, "path");
    step(a, EV(CLOSE));
    expect(a, "");
    carry(b, a, "RESUMED3");
    expect(a, "never:1"); /* by the count of RESUMED */
    carry(a, b, "CLOSE3");
    carry(b, a, "CLOSED3");
    told_closed(b);
    expect(a, "closed");
}

/* The other end resumes while this one closes. */
static void test_close_resumed(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 3);
    pull(a, "DATA1 #0 0:be3"); /* is lost */
    step(a, EV(CLOSE));
    up(b);
    carry(b, a, "RESUME2");
    expect(a, "path never:1");
    give(b, 2, 2);
    carry(a, b, "CLOSE2");
    expect(b, "never:2");
    carry(b, a, "CLOSED2");
    expect(a, "closed");
    struct session_frame f = {.kind = SESSION_OPEN, .id = 0xb, .path = 2};
    assert_int_equal(step(a, EV(RECEIVE, .frame = &f)), MOYAI_EINVAL); /* for a new machine */
    f = (struct session_frame){.kind = SESSION_OPEN, .id = 0xc, .path = 1};
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0); /* the peer has gone on */
    expect(b, "closed");
    assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), MOYAI_EINVAL);
}

static void test_close_no_answer(void **state) {
    ENDS;
    open_pair(a, b);
    give(a, 1, 3);
    carry(a, b, "DATA1 #0 0:be3");
    give(b, 2, 3);
    carry(b, a, "DATA1 ack3 #0 0:be3");
    step(a, EV(CLOSE));
    step(b, EV(CLOSE));
    a->told[0] = b->told[0] = 0;
    pull(a, "CLOSE1 ack3");
    assert_int_equal(session_deadline(a->s), a->now + 10 * MOYAI_SEC);
    a->now += (moyai_ns)(10 * MOYAI_SEC);
    step(a, EV(TIMEOUT));
    expect(a, "closed"); /* nothing was unreported */
    carry(a, b, "REFUSE");
    expect(b, "maybe:2 failed-16");
}

static void test_close_early(void **state) {
    ENDS;
    give(a, 1, 3);
    step(a, EV(CLOSE));
    expect(a, "never:1 closed");
    give(b, 2, 3);
    step(b, EV(OPEN));
    up(b);
    step(b, EV(CLOSE)); /* OPEN was not said: nobody knows */
    expect(b, "want never:2 closed");
    pull(b, "");
}

/* OPEN was said: the peer may have accepted it, so it is told. */
static void test_close_opening(void **state) {
    ENDS;
    give(a, 1, 3);
    step(a, EV(OPEN));
    up(a);
    carry(a, b, "OPEN1");
    give(b, 2, 3);
    step(a, EV(CLOSE));
    expect(a, "want never:1");
    carry(b, a, "ACCEPT1");
    carry(b, a, "DATA1 #0 0:be3");
    expect(a, "");
    carry(a, b, "CLOSE1");
    expect(b, "opened path never:2");
    carry(b, a, "CLOSED1");
    told_closed(b);
    expect(a, "closed");
}

static void test_close_opening_again(void **state) {
    ENDS;
    step(a, EV(OPEN));
    up(a);
    pull(a, "OPEN1"); /* is lost */
    up(a);
    step(a, EV(CLOSE));
    expect(a, "want");
    carry(a, b, "OPEN3");
    carry(a, b, "CLOSE3");
    expect(b, "opened path");
    pull(b, "CLOSED3"); /* ACCEPT is not worth saying any more; it is lost */
    told_closed(b);
    down(a);
    up(a);
    carry(a, b, "OPEN5");
    expect(b, "path");
    carry(b, a, "CLOSED5");
    expect(a, "closed");
}

/* Both open, the higher one closes: it takes the lower's id to say so. */
static void test_close_rival(void **state) {
    ENDS;
    step(a, EV(OPEN));
    step(b, EV(OPEN));
    up(a);
    up(b);
    pull(b, "OPEN2");
    step(b, EV(CLOSE));
    carry(a, b, "OPEN1");
    expect(b, "want opened path");
    carry(b, a, "CLOSE1");
    expect(a, "want");
    carry(a, b, "CLOSED1");
    told_closed(a);
    expect(b, "closed");
}

/* The end is told although CLOSED could not be said: the time is over, the peer is dead, or does not know us. */
static void test_close_untold(void **state) {
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct end *a = end_new(&low), *b = end_new(&high);
        open_pair(a, b);
        step(a, EV(CLOSE));
        carry(a, b, "CLOSE1");
        expect(b, "");
        b->now += (moyai_ns)(10 * MOYAI_SEC) - 1;
        step(b, EV(TIMEOUT));
        expect(b, "");
        b->now++;
        struct session_frame f = {.kind = SESSION_REFUSE, .id = 0xa};
        step(b, how == 0 ? EV(TIMEOUT) : how == 1 ? EV(PEER_DEAD) : EV(RECEIVE, .frame = &f));
        expect(b, "closed");
        assert_int_equal(session_deadline(b->s), UINT64_MAX);
        assert_int_equal(step(b, EV(PEER_DEAD)), MOYAI_EINVAL);
        assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0);
        pull(b, "CLOSED1");
        end_free(a);
        end_free(b);
    }
}

/* Who has ended answers what comes by a new path, and nothing else. */
static void test_ended(void **state) {
    ENDS;
    open_pair(a, b);
    step(a, EV(CLOSE));
    carry(a, b, "CLOSE1");
    carry(b, a, "CLOSED1");
    told_closed(b);
    for (int k = SESSION_OPEN; k <= SESSION_GRANT; k++) {
        struct session_frame f = {.kind = (enum session_frame_kind)k, .id = 0xa, .path = 1};
        assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0); /* the old path */
        pull(b, "");
        f.path = 3 + 2 * (uint32_t)k;
        f.ack = 77; /* nothing is known any more that it could contradict */
        assert_int_equal(step(b, EV(RECEIVE, .frame = &f)), 0);
        bool answer = k == SESSION_OPEN || k == SESSION_RESUME || k == SESSION_CLOSE;
        assert_int_equal(session_pending(b->s), answer);
        expect(b, answer ? "path" : "");
        if (!answer) continue;
        assert_true(session_pull(b->s, 0, 0, &b->out));
        assert_int_equal(b->out.kind, SESSION_CLOSED);
        assert_int_equal(b->out.path, f.path);
    }
    assert_int_equal(session_deadline(b->s), UINT64_MAX);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_resume),
        TEST(test_resume_large),
        TEST(test_unsend),
        TEST(test_cross),
        TEST(test_late),
        TEST(test_not_resumed),
        TEST(test_counted),
        TEST(test_peer_dead),
        TEST(test_peer_left),
        TEST(test_refuse),
        TEST(test_foreign_open),
        TEST(test_drop),
        TEST(test_drop_rows),
        TEST(test_drop_most),
        TEST(test_drop_kinds),
        TEST(test_abort),
        TEST(test_abort_resumed),
        TEST(test_close),
        TEST(test_close_large),
        TEST(test_close_untaken),
        TEST(test_close_again),
        cmocka_unit_test(test_close_untold),
        TEST(test_ended),
        TEST(test_close_resuming),
        TEST(test_close_resumed),
        TEST(test_close_no_answer),
        TEST(test_close_early),
        TEST(test_close_opening),
        TEST(test_close_opening_again),
        TEST(test_close_rival),
    };
    return cmocka_run_group_tests_name("session_path", tests, NULL, NULL);
}
