/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node knows of where objects are, what it says of that, and how long it looks for one: with room for four
 * (PLACES_MOST), and a clock and look-ups of the test. What moved.c calls of the object layer stands here.
 */
#include "object/moved.h"

#include "base/err.h"
#include "object/failure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS ((moyai_ns)MOYAI_MS)

static struct world {
    moyai_node n;
    struct self_id id;
    moyai_ns now;
    void (*seek)(void *arg);
    void *arg;
    /* What a look-up says, and how long it takes; how many there were. */
    int rc;
    uint8_t home[16];
    moyai_ns takes;
    unsigned looks, crowded; /* so many of the next have no room */
    moyai_future *sent[8];
    unsigned n_sent, failed;
    int code;            /* with which the last one has failed */
    const uint8_t *died; /* a node; NULL: none */
} w;

static const uint8_t A[16] = {1, 1}, B[16] = {1, 2}, SELF[16] = {1, 9};

/* ---- the layer ------------------------------------------------------------------------------- */

moyai_ns __wrap_moyai_now(void);
moyai_ns __wrap_moyai_now(void) {
    return w.now;
}

void api_enter(moyai_node *n) {
    (void)n;
}
void api_leave(moyai_node *n) {
    (void)n;
}

void blocked_init(moyai_node *n, struct blocked *b, const char *what) {
    (void)n, (void)b, (void)what;
}
bool blocked_wake(moyai_node *n, struct blocked *b, int result) {
    (void)n, (void)b, (void)result;
    return true;
}
int block(moyai_node *n, struct blocked *b, moyai_ns deadline, bool masked) {
    (void)n, (void)b;
    assert_true(masked);
    assert_true(deadline > w.now && deadline != UINT64_MAX); /* nothing is out */
    w.now = deadline;
    return MOYAI_ETIMEDOUT;
}

int go_locked(moyai_node *n, void (*fn)(void *arg), void *arg) {
    (void)n;
    w.seek = fn;
    w.arg = arg;
    return 0;
}

static void look_for_it(void) {
    assert_non_null(w.seek);
    w.looks = 0;
    w.seek(w.arg);
    w.seek = NULL;
}

int name_where(moyai_node *n, const char *name, uint8_t home[16], struct moyai_error *e) {
    (void)n;
    assert_int_equal(name[0], '@');
    w.looks++;
    w.now += w.takes;
    if (w.crowded) {
        w.crowded--;
        return err_set(e, MOYAI_ELIMIT, "no room");
    }
    memcpy(home, w.home, 16);
    return w.rc;
}

struct object *object_find(moyai_node *n, const uint8_t id[16]) {
    (void)n, (void)id;
    return NULL;
}

void call_again(moyai_future *f) {
    w.sent[w.n_sent++] = f;
    failure_unref(f->failure);
    f->failure = NULL;
    moved_sends(f);
}
bool call_home_died(moyai_node *n, const uint8_t home[16], struct moyai_error *e) {
    (void)n;
    *e = (struct moyai_error){.code = MOYAI_EDEAD};
    return w.died && memcmp(home, w.died, 16) == 0;
}
void future_back(moyai_future *f) {
    (void)f;
}
void future_fail_back(moyai_future *f) {
    w.failed++;
    w.code = f->failure->level[0].code;
    failure_unref(f->failure);
    f->failure = NULL;
    moved_drop(f);
}

struct failure *failure_new(const struct moyai_error *e, const struct failure *cause) {
    struct failure *f = calloc(1, sizeof *f + sizeof f->level[0]);
    (void)cause;
    assert_non_null(f);
    f->refs = f->n = 1;
    f->level[0] = *e;
    return f;
}
struct failure *failure_ref(struct failure *f) {
    if (f) f->refs++;
    return f;
}
void failure_unref(struct failure *f) {
    if (f && --f->refs == 0) free(f);
}
int failure_set(struct moyai_error *e, int code, enum moyai_where where, enum moyai_executed executed, const char *fmt,
                ...) {
    (void)fmt;
    *e = (struct moyai_error){.code = code, .where = where, .executed = executed};
    return code;
}

/* ---- the tests' own -------------------------------------------------------------------------- */

static int open_world(void **state) {
    (void)state;
    memset(&w, 0, sizeof w);
    memcpy(w.id.id.b, SELF, 16);
    atomic_init(&w.n.self, &w.id);
    w.now = 1000 * 1000 * MS;
    return 0;
}

static int close_world(void **state) {
    (void)state;
    moved_done(&w.n);
    assert_int_equal(moved_kept(&w.n), 0);
    return 0;
}

static const uint8_t *object(unsigned k) {
    static uint8_t id[16][16];
    id[k][0] = 7;
    id[k][1] = (uint8_t)k;
    id[k][15] = 1;
    return id[k];
}

static moyai_future call_of(unsigned k, const uint8_t home[16], uint64_t seq) {
    moyai_future f = {.node = &w.n, .movable = true, .seq = seq};
    memcpy(f.object, object(k), 16);
    memcpy(f.home, home, 16);
    return f;
}

static bool comes_back(moyai_future *f, int code) {
    const struct moyai_error e = {.code = code, .where = MOYAI_AT_PEER, .executed = MOYAI_NEVER_EXECUTED};
    return moved_again(f, &e);
}

static void says(unsigned k, enum moved_whither whither, const uint8_t *where) {
    uint8_t to[16] = {0};
    assert_int_equal(moved_whither(&w.n, object(k), to), whither);
    if (where) assert_memory_equal(to, where, 16);
}

/* ---- what is known --------------------------------------------------------------------------- */

static void who_had_it_says_where_it_is(void **state) {
    (void)state;
    says(0, MOVED_ENDED, NULL); /* it has never been elsewhere */
    moved_here(&w.n, object(0));
    assert_int_equal(moved_kept(&w.n), 0);
    moved_put(&w.n, object(0), A);
    says(0, MOVED_THERE, A);
    assert_memory_equal(moved_to(&w.n, object(0)), A, 16);
    moved_here(&w.n, object(0));
    says(0, MOVED_ENDED, NULL); /* it is asked only when the object is not here */
    assert_null(moved_to(&w.n, object(0)));
    moved_put(&w.n, object(0), B);
    says(0, MOVED_THERE, B);
    moved_put(&w.n, object(0), SELF);
    says(0, MOVED_UNKNOWN, NULL);
    says(1, MOVED_ENDED, NULL);
}

static void some_are_remembered(void **state) {
    (void)state;
    for (unsigned k = 0; k < 4; k++) moved_put(&w.n, object(k), A);
    assert_int_equal(moved_kept(&w.n), 4);
    says(0, MOVED_THERE, A);
    says(9, MOVED_ENDED, NULL);
    moved_put(&w.n, object(4), A);
    assert_int_equal(moved_kept(&w.n), 4);
    says(0, MOVED_UNKNOWN, NULL);
    says(1, MOVED_THERE, A);
    says(9, MOVED_UNKNOWN, NULL); /* it may have been forgotten */
}

/* Also when all who wanted to know have given up: its fiber goes on. */
static void what_is_looked_for_is_not_forgotten(void **state) {
    (void)state;
    moyai_future f = call_of(0, A, 1);
    assert_true(comes_back(&f, MOYAI_ENOOBJECT));
    failure_unref(f.failure);
    moved_drop(&f);
    for (unsigned k = 1; k <= 4; k++) moved_put(&w.n, object(k), A);
    says(1, MOVED_UNKNOWN, NULL); /* the oldest of the others */
    says(2, MOVED_THERE, A);
    memcpy(w.home, B, 16);
    look_for_it();
    says(0, MOVED_THERE, B);
    assert_int_equal(w.n_sent, 0);
}

static void what_refusals_say_counts(void **state) {
    (void)state;
    moyai_future f = call_of(0, A, 1), fixed = {.node = &w.n};
    moved_hint(&fixed, B);
    moved_home(&fixed);
    assert_int_equal(moved_kept(&w.n), 0);
    moved_hint(&f, A); /* it is there again */
    assert_null(moved_to(&w.n, object(0)));
    says(0, MOVED_UNKNOWN, NULL);
    moved_hint(&f, B);
    assert_memory_equal(moved_to(&w.n, object(0)), B, 16);
    says(0, MOVED_THERE, B);
    moved_home(&f);
    assert_memory_equal(f.home, B, 16);
}

/* ---- how it is looked for -------------------------------------------------------------------- */

/* It is nowhere: so many looks, and so long. */
static void nowhere(unsigned k, int code, moyai_ns takes, unsigned looks, moyai_ns span) {
    moyai_future f = call_of(k, A, 1);
    const moyai_ns from = w.now;
    w.rc = MOYAI_ENOENT;
    w.takes = takes;
    assert_true(comes_back(&f, code));
    says(k, MOVED_UNKNOWN, NULL);
    look_for_it();
    assert_int_equal(w.looks, looks);
    assert_int_equal(w.now - from, span);
    assert_int_equal(w.failed, 1);
    assert_int_equal(w.n_sent, 0);
    w.failed = 0;
    w.takes = 0;
}

static void what_is_nowhere_is_looked_for_again(void **state) {
    (void)state;
    nowhere(0, MOYAI_ENOOBJECT, 0, 22, 210 * MS); /* for more than 200 ms */
    nowhere(1, MOYAI_ELEAVING, 0, 22, 210 * MS);
    nowhere(2, MOYAI_ENOOBJECT, 250 * MS, 2, 510 * MS); /* and twice */
    nowhere(3, MOYAI_EDEAD, 0, 3, 20 * MS);
    nowhere(4, MOYAI_EDEAD, 250 * MS, 1, 250 * MS);
    w.crowded = 10; /* that is no answer: 10 ms, 20, ... 640, and a second each */
    nowhere(5, MOYAI_EDEAD, 0, 11, 4270 * MS);
    w.crowded = 1000; /* for a minute; and it is not believed to be nowhere */
    nowhere(7, MOYAI_ECLOSED, 0, 67, 60270 * MS);
    w.crowded = 0;
    nowhere(7, MOYAI_EDEAD, 0, 3, 20 * MS);
    moyai_future f = call_of(6, A, 1);
    moved_put(&w.n, object(6), A);
    assert_true(comes_back(&f, MOYAI_EDEAD));
    says(6, MOVED_THERE, A); /* where it went from here; is it there still? */
    look_for_it();
    says(6, MOVED_UNKNOWN, NULL);
}

/* Refused by a home that has not got it, or by none: whoever had it last is dead. */
static void what_died_with_its_home_is_dead(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        moyai_future f = call_of(i, A, 1);
        moved_put(&w.n, object(i), B);
        assert_true(comes_back(&f, MOYAI_ENOOBJECT));
        look_for_it();
        assert_int_equal(w.n_sent, 1);
        assert_memory_equal(f.home, B, 16);
        w.n_sent = 0;
        w.rc = MOYAI_ENOENT;
        w.died = i == 0 ? B : A;
        assert_true(comes_back(&f, MOYAI_ENOOBJECT));
        look_for_it();
        assert_int_equal(w.failed, i + 1);
        assert_int_equal(w.code, i == 0 ? MOYAI_EDEAD : MOYAI_ENOOBJECT);
        says(i, i == 0 ? MOVED_THERE : MOVED_UNKNOWN, i == 0 ? B : NULL);
        w.rc = 0;
        w.died = NULL;
    }
    moved_put(&w.n, object(0), A); /* it was not lost after all */
    says(0, MOVED_THERE, A);
}

static void that_it_is_nowhere_is_believed_for_a_while(void **state) {
    (void)state;
    moyai_future f = call_of(0, A, 1);
    nowhere(0, MOYAI_EDEAD, 0, 3, 20 * MS);
    for (unsigned i = 0; i < 8; i++) {
        w.now += (1000 * MS << (i < 5 ? i : 5)) - 1;
        assert_false(comes_back(&f, MOYAI_EDEAD));
        w.now += 1;
        w.rc = MOYAI_ENOENT;
        nowhere(0, MOYAI_EDEAD, 0, 3, 20 * MS);
    }
    moved_hint(&f, B); /* somebody knows */
    assert_true(comes_back(&f, MOYAI_EDEAD));
    look_for_it();
    assert_int_equal(w.looks, 0);
    assert_int_equal(w.n_sent, 1);
    assert_memory_equal(f.home, B, 16);
    moved_drop(&f);
}

static void found(int code, const uint8_t home[16], unsigned looks, moyai_ns span) {
    moyai_future f = call_of(0, A, 1);
    const moyai_ns from = w.now;
    memcpy(w.home, home, 16);
    w.rc = 0;
    w.n_sent = 0;
    assert_true(comes_back(&f, code));
    look_for_it();
    assert_int_equal(w.looks, looks);
    assert_int_equal(w.now - from, span);
    assert_int_equal(w.n_sent, 1);
    assert_memory_equal(f.home, home, 16);
    moved_drop(&f);
}

static void what_is_said_to_be_where_it_was_not_is_looked_for(void **state) {
    (void)state;
    found(MOYAI_ENOOBJECT, A, 11, 100 * MS); /* it may have come back */
    w.now += 1000 * MS;
    moyai_future f = call_of(0, A, 1);
    const moyai_ns from = w.now;
    w.n_sent = 0;
    assert_true(comes_back(&f, MOYAI_ELEAVING)); /* it has not gone yet */
    look_for_it();
    assert_int_equal(w.looks, 101);
    assert_int_equal(w.now - from, 1000 * MS);
    assert_int_equal(w.failed, 1);
    assert_int_equal(w.n_sent, 0);
}

static void what_moves_on_and_on_is_followed_slower(void **state) {
    (void)state;
    for (unsigned i = 0; i < 6; i++) found(MOYAI_ENOOBJECT, B, 1, i < 4 ? 0 : 10 * MS);
    w.now += 100 * MS;
    found(MOYAI_ENOOBJECT, B, 1, 10 * MS);
    for (unsigned i = 0; i < 3; i++) found(MOYAI_ENOOBJECT, B, 1, 0);
}

static void who_refuses_it_knows(void **state) {
    (void)state;
    for (int back = 0; back < 2; back++) {
        moyai_future f = call_of((unsigned)back, A, 1);
        w.n_sent = 0;
        moved_hint(&f, back ? A : B);
        assert_true(comes_back(&f, MOYAI_ENOOBJECT));
        look_for_it();
        assert_int_equal(w.looks, 0);
        assert_int_equal(w.n_sent, 1);
        assert_memory_equal(f.home, back ? A : B, 16);
        moved_drop(&f);
    }
    moyai_future f = call_of(2, A, 1); /* but not that it is where it was refused */
    moved_hint(&f, B);
    memcpy(f.home, B, 16);
    assert_true(comes_back(&f, MOYAI_ENOOBJECT));
    memcpy(w.home, A, 16);
    w.n_sent = 0;
    look_for_it();
    assert_int_equal(w.looks, 1);
    assert_memory_equal(f.home, A, 16);
    moved_drop(&f);
}

/* Who only waits until those before him are answered has not been refused, whatever was before. */
static void it_may_be_again_where_it_was_refused(void **state) {
    (void)state;
    moyai_future f = call_of(0, A, 1), g = call_of(0, A, 2);
    assert_true(comes_back(&f, MOYAI_ENOOBJECT));
    memcpy(w.home, B, 16);
    look_for_it();
    assert_memory_equal(f.home, B, 16);
    assert_true(moved_waits(&g));
    moved_drop(&f); /* it is answered */
    memcpy(w.home, A, 16);
    look_for_it();
    assert_int_equal(w.looks, 1);
    assert_int_equal(w.n_sent, 2);
    assert_memory_equal(g.home, A, 16);
    assert_false(moved_waits(&g)); /* all go there now */
    moved_drop(&g);
}

static void only_what_was_never_executed_is_made_again(void **state) {
    (void)state;
    static const struct moyai_error no[] = {
        {.code = MOYAI_ENOOBJECT, .where = MOYAI_AT_PEER, .executed = MOYAI_MAY_HAVE_EXECUTED},
        {.code = MOYAI_ENOOBJECT, .where = MOYAI_AT_PATH, .executed = MOYAI_NEVER_EXECUTED},
        {.code = MOYAI_EUSER, .where = MOYAI_AT_PEER, .executed = MOYAI_NEVER_EXECUTED}};
    moyai_future f = call_of(0, A, 1);
    for (unsigned i = 0; i < 3; i++) assert_false(moved_again(&f, &no[i]));
    f.movable = false;
    assert_false(comes_back(&f, MOYAI_ENOOBJECT));
    f = call_of(0, A, 1);
    f.again = 100;
    assert_false(comes_back(&f, MOYAI_ENOOBJECT));
    assert_null(w.seek);
    static const int codes[] = {MOYAI_ENOOBJECT, MOYAI_ELEAVING, MOYAI_EDEAD, MOYAI_ECLOSED};
    for (unsigned i = 0; i < 4; i++) {
        f = call_of(i, A, 1);
        f.again = 99;
        memcpy(w.home, B, 16);
        assert_true(comes_back(&f, codes[i]));
        assert_int_equal(f.again, 100);
        look_for_it();
        moved_drop(&f);
    }
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Those that come back, in any order, and those that wait, some of which are given up: sent in the order in which they
 * were made, in a round of their own. */
static void all_are_sent_in_order(void **state) {
    (void)state;
    struct moyai_rng r;
    rng_seed(&r, 1);
    for (unsigned run = 0; run < 500; run++) {
        enum { CALLS = 6 };
        moyai_future f[CALLS];
        bool done[CALLS] = {0};
        uint16_t round = 0;
        for (unsigned i = 0; i < CALLS; i++) f[i] = call_of(0, A, run * 10 + i);
        for (unsigned i = 0; i < 4; i++) {
            moved_sends(&f[i]);
            if (i) assert_int_equal(f[i].round, round);
            round = f[i].round;
        }
        for (unsigned n = 0; n < 4;) {
            const unsigned i = (unsigned)rng_below(&r, 4);
            if (done[i]) continue;
            done[i] = true;
            assert_true(comes_back(&f[i], MOYAI_ENOOBJECT));
            if (n++ == 0)
                for (unsigned k = 4; k < CALLS; k++) assert_true(moved_waits(&f[k]));
            const unsigned drop = (unsigned)rng_below(&r, 2 * CALLS);
            if (drop >= CALLS || !f[drop].seeking) continue;
            failure_unref(f[drop].failure);
            moved_drop(&f[drop]);
        }
        memcpy(w.home, B, 16);
        w.n_sent = 0;
        unsigned waits = 0;
        for (unsigned i = 0; i < CALLS; i++) waits += f[i].seeking != NULL;
        look_for_it();
        assert_int_equal(w.n_sent, waits);
        for (unsigned i = 0; i < waits; i++) {
            if (i) assert_true(w.sent[i - 1]->seq < w.sent[i]->seq);
            assert_int_not_equal(w.sent[i]->round, round);
            assert_int_equal(w.sent[i]->round, w.sent[0]->round);
            moved_drop(w.sent[i]);
        }
    }
    moyai_future fixed[2] = {{.node = &w.n}, {.node = &w.n}};
    for (unsigned i = 0; i < 2; i++) moved_sends(&fixed[i]);
    assert_int_not_equal(fixed[0].round, fixed[1].round);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(who_had_it_says_where_it_is),
        TEST(some_are_remembered),
        TEST(what_is_looked_for_is_not_forgotten),
        TEST(what_refusals_say_counts),
        TEST(what_is_nowhere_is_looked_for_again),
        TEST(what_died_with_its_home_is_dead),
        TEST(that_it_is_nowhere_is_believed_for_a_while),
        TEST(what_is_said_to_be_where_it_was_not_is_looked_for),
        TEST(what_moves_on_and_on_is_followed_slower),
        TEST(who_refuses_it_knows),
        TEST(it_may_be_again_where_it_was_refused),
        TEST(only_what_was_never_executed_is_made_again),
        TEST(all_are_sent_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
