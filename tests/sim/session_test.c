/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stories of a session, told as traces: milliseconds, who, and what: "> FRAME" is sent, "| effects" are told upwards,
 * "= ..." is done to it. Links take 1 ms and lose nothing; paths are found at once. doc/spec/01-session.md refers here.
 */
#include "sim/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

struct story {
    struct world w;
    struct trace t;
    struct net n;
    struct host *a, *b;
};

static struct story *begin(const struct net_cfg *special) {
    struct story *s = sim_alloc(sizeof *s);
    struct net_cfg cfg = {.messages = 100, .find = 1, .link.delay = MOYAI_MS};
    if (special) {
        cfg.session = special->session;
        cfg.credits[0] = special->credits[0];
    }
    world_init(&s->w, 5, false);
    trace_init(&s->t, true, NULL);
    net_init(&s->n, &s->w, &s->t, &cfg);
    s->a = &s->n.host[0];
    s->b = &s->n.host[1];
    return s;
}

static void end(struct story *s) {
    if (s->n.broken) fail_msg("%s", s->n.why.text);
    net_done(&s->n);
    world_done(&s->w);
    trace_done(&s->t);
    free(s);
}

static void run_ms(struct story *s, uint64_t ms) {
    (void)world_run(&s->w, NULL, NULL, s->w.now + ms * (uint64_t)MOYAI_MS);
}

#define EXPECT(s, text) assert_true(trace_expect(&(s)->t, text))

/* Established, and nothing in the trace. */
static struct story *begin_open(const struct net_cfg *special) {
    struct story *s = begin(special);
    host_open(s->a);
    run_ms(s, 10);
    EXPECT(s, "1000.000 a | want\n1000.000 a = path up\n1000.000 a > OPEN1\n1001.000 b | opened path\n"
              "1001.000 b > ACCEPT1\n1002.000 a | opened");
    return s;
}

static void test_open(void **state) {
    (void)state;
    struct story *s = begin_open(NULL);
    host_give(s->a, 100);
    run_ms(s, 30);
    EXPECT(s, "1010.000 a > DATA1 #0 0:be100\n"
              "1011.000 b | 0:be0+100/100\n"
              "1031.000 b > ACK1 ack100\n" /* no data to ride on */
              "1032.000 a | acked:1");
    end(s);
}

static void test_open_both(void **state) {
    (void)state;
    struct story *s = begin(NULL);
    host_give(s->b, 5);
    host_open(s->a);
    host_open(s->b);
    run_ms(s, 10);
    EXPECT(s, "1000.000 a | want\n1000.000 b | want\n"
              "1000.000 a = path up\n1000.000 a > OPEN1\n"
              "1000.000 b = path up\n1000.000 b > OPEN2\n"
              "1001.000 b | opened path\n" /* the lower end's id and path */
              "1001.000 b > ACCEPT1\n1001.000 b > DATA1 #0 0:be5\n"
              "1002.000 a | opened\n1002.000 a | 0:be0+5/5");
    assert_int_equal(session_id(s->b->s), s->a->cfg.id);
    end(s);
}

/* A path breaks in the middle of a large message; what had arrived is not sent again. */
static void test_break(void **state) {
    (void)state;
    struct story *s = begin_open(NULL);
    host_give(s->a, 200000);
    run_ms(s, 4);
    EXPECT(s,
           "1010.000 a > DATA1 #0 1:b4096/200000\n"
           "1011.000 b | 1:b0+4096/200000\n"
           "1011.000 b > GRANT1 ack4096 1:200000\n"
           "1012.000 a > DATA1 #4096 1:65536\n1012.000 a > DATA1 #69632 1:65536\n1012.000 a > DATA1 #135168 1:e64832\n"
           "1013.000 b | 1:4096+65536/200000\n1013.000 b | 1:69632+65536/200000\n1013.000 b | 1:e135168+64832/200000");
    host_give(s->a, 150000);
    run_ms(s, 2);
    EXPECT(
        s,
        "1014.000 a > DATA1 #200000 2:b4096/150000\n1015.000 b | 2:b0+4096/150000\n"
        "1015.000 b > GRANT1 ack204096 2:150000\n"
        "1016.000 a | acked:1\n"
        "1016.000 a > DATA1 #204096 2:65536\n1016.000 a > DATA1 #269632 2:65536\n1016.000 a > DATA1 #335168 2:e14832");
    const moyai_dur after[2] = {0, 5 * MOYAI_MS};
    net_cut(&s->n, true, after);
    run_ms(s, 10);
    EXPECT(
        s,
        "1016.000 - cut, all lost\n"
        "1016.000 a | want\n1016.000 a = path up\n1016.000 a > RESUME3\n"
        "1017.000 b | path\n1017.000 b > RESUMED3 ack204096\n1017.000 b > GRANT3 ack204096 2:150000\n"
        "1018.000 a > DATA3 #204096 2:65536\n1018.000 a > DATA3 #269632 2:65536\n1018.000 a > DATA3 #335168 2:e14832\n"
        "1019.000 b | 2:4096+65536/150000\n1019.000 b | 2:69632+65536/150000\n1019.000 b | 2:e135168+14832/150000");
    end(s);
}

/* 4 KiB of credit: small messages and beginnings of large ones pass one by one. */
static void test_credit(void **state) {
    (void)state;
    const struct net_cfg cfg = {.credits = {4112}};
    struct story *s = begin_open(&cfg);
    host_give(s->a, 4000);
    host_give(s->a, 5000);
    host_give(s->a, 4096);
    run_ms(s, 15);
    EXPECT(s, "1010.000 a > DATA1 #0 0:be4000\n"
              "1011.000 b | 0:be0+4000/4000\n"
              "1012.000 a > DATA1 #4000 1:b4096/5000\n" /* credit came back */
              "1013.000 b | 1:b0+4096/5000\n"
              "1013.000 b > GRANT1 ack8096 1:5000\n"
              "1014.000 a > DATA1 #8096 0:be4096\n"
              "1014.000 a | acked:1\n"
              "1015.000 b | 0:be0+4096/4096\n"
              "1016.000 a > DATA1 #12192 1:e904\n"
              "1017.000 b | 1:e4096+904/5000");
    end(s);
}

/* A reader that has stopped does not stop the replies it waits for, nor what others read. */
static void test_unread(void **state) {
    (void)state;
    struct story *s = begin_open(NULL);
    host_read(s->b, READS_NOT);
    host_give(s->a, 100000);
    run_ms(s, 2);
    host_give(s->a, 10);
    host_give(s->b, 20);
    run_ms(s, 3);
    EXPECT(s, "1010.000 a > DATA1 #0 1:b4096/100000\n1011.000 b | 1:b0+4096/100000\n"
              "1012.000 a > DATA1 #4096 0:be10\n1012.000 b > DATA1 ack4096 #0 0:be20\n"
              "1013.000 b | 0:be0+10/10\n1013.000 a | 0:be0+20/20");
    host_read(s->b, READS_ALL);
    run_ms(s, 3);
    EXPECT(s, "1015.000 b > GRANT1 ack4106 1:100000\n"
              "1016.000 a | acked:2\n"
              "1016.000 a > DATA1 ack20 #4106 1:65536\n1016.000 a > DATA1 ack20 #69642 1:e30368\n"
              "1017.000 b | acked:1 1:4096+65536/100000\n1017.000 b | 1:e69632+30368/100000");
    end(s);
}

/* What the peer had not taken when it heard of the close is NEVER, whether it was sent or not. */
static void test_close(void **state) {
    (void)state;
    struct story *s = begin_open(NULL);
    host_give(s->b, 10);
    run_ms(s, 2);
    host_close(s->a);
    host_give(s->b, 11);
    host_give(s->b, 50000);
    run_ms(s, 4);
    EXPECT(s, "1010.000 b > DATA1 #0 0:be10\n1011.000 a | 0:be0+10/10\n"
              "1012.000 a = closes\n1012.000 a > CLOSE1 ack10\n"
              "1012.000 b > DATA1 #10 0:be11\n1012.000 b > DATA1 #21 1:b4096/50000\n" /* cross it */
              "1013.000 b | acked:1 never:2 never:3\n"
              "1013.000 b > CLOSED1\n"
              "1013.000 b | closed\n"
              "1014.000 a | closed");
    end(s);
}

static void test_peer_dead(void **state) {
    (void)state;
    struct story *s = begin_open(NULL);
    host_give(s->a, 10);
    run_ms(s, 22);
    host_give(s->a, 11);
    host_give(s->a, 50000);
    host_crash(s->b, 3 * MOYAI_MS);
    run_ms(s, 1);
    host_give(s->a, 12);
    run_ms(s, 5);
    EXPECT(s, "1010.000 a > DATA1 #0 0:be10\n1011.000 b | 0:be0+10/10\n1031.000 b > ACK1 ack10\n1032.000 a | acked:1\n"
              "1032.000 a > DATA1 #10 0:be11\n1032.000 a > DATA1 #21 1:b4096/50000\n"
              "1032.000 b = crashes\n1032.000 - cut\n"
              "1033.000 a | want\n"
              "1035.000 a | maybe:2 never:4 never:3 failed-13");
    end(s);
}

/* The peer does not know the session any more: it refuses. */
static void test_refuse(void **state) {
    (void)state;
    struct story *s = begin_open(NULL);
    host_give(s->a, 10);
    run_ms(s, 25);
    EXPECT(s, "1010.000 a > DATA1 #0 0:be10\n1011.000 b | 0:be0+10/10\n1031.000 b > ACK1 ack10\n1032.000 a | acked:1");
    s->n.down = true;
    const moyai_dur after[2] = {9 * MOYAI_SEC, 0}; /* a notices late */
    net_cut(&s->n, true, after);
    run_ms(s, 10100);
    s->n.down = false;
    host_give(s->a, 20);
    run_ms(s, 200);
    EXPECT(s, "1035.000 - cut, all lost\n"
              "1035.000 b | want\n"
              "10035.000 a | want\n"
              "11035.000 b | failed-14\n"
              "11135.000 a = path up\n11135.000 a > RESUME3\n"
              "11137.000 a | never:2 failed-16");
    end(s);
}

/* Both ends bring up a path at once: the higher number wins at both. */
static void test_cross(void **state) {
    (void)state;
    struct story *s = begin_open(NULL);
    const moyai_dur after[2] = {0, 0};
    host_give(s->a, 10);
    net_cut(&s->n, true, after);
    run_ms(s, 5);
    EXPECT(s, "1010.000 a > DATA1 #0 0:be10\n1010.000 - cut, all lost\n"
              "1010.000 a | want\n1010.000 b | want\n"
              "1010.000 a = path up\n1010.000 a > RESUME3\n"
              "1010.000 b = path up\n1010.000 b > RESUME2\n"
              "1011.000 b | path\n1011.000 b > RESUMED3\n"
              "1012.000 a > DATA3 #0 0:be10\n1013.000 b | 0:be0+10/10");
    end(s);
}

/* Withdrawn: before it is begun without a trace, afterwards by an abort that survives the break of its path. */
static void test_drop(void **state) {
    (void)state;
    struct story *s = begin_open(NULL);
    host_read(s->b, READS_NOT);
    host_give(s->a, 50000);
    run_ms(s, 5);
    const moyai_dur after[2] = {0, 0};
    host_drop(s->a, 1);
    net_cut(&s->n, true, after);
    run_ms(s, 30);
    EXPECT(s, "1010.000 a > DATA1 #0 1:b4096/50000\n1011.000 b | 1:b0+4096/50000\n"
              "1015.000 a = drops 1\n1015.000 a | never:1\n1015.000 a > DATA1 #4096 1:x1\n"
              "1015.000 - cut, all lost\n1015.000 a | want\n1015.000 b | want\n"
              "1015.000 a = path up\n1015.000 a > RESUME3\n1015.000 b = path up\n1015.000 b > RESUME2 ack4096\n"
              "1016.000 b | path\n1016.000 b > RESUMED3 ack4096\n"
              "1017.000 a > DATA3 #4096 1:x1\n1018.000 b | aborted:1\n1038.000 b > ACK3 ack4097");
    end(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),      cmocka_unit_test(test_open_both), cmocka_unit_test(test_break),
        cmocka_unit_test(test_credit),    cmocka_unit_test(test_unread),    cmocka_unit_test(test_close),
        cmocka_unit_test(test_peer_dead), cmocka_unit_test(test_refuse),    cmocka_unit_test(test_cross),
        cmocka_unit_test(test_drop),
    };
    return cmocka_run_group_tests_name("session stories", tests, NULL, NULL);
}
