/* SPDX-License-Identifier: Apache-2.0 */
/*
 * S0/3.1, signals: whom they force open, what stays pending, and what is not touched. Each rule for each blocking
 * operation, as far as it has it.
 */
#include "tests/public/box.h"

#include <pthread.h>

static struct box box;

static int open_box(void **state) {
    (void)state;
    box_open(&box);
    return 0;
}

static int close_box(void **state) {
    (void)state;
    box_close(&box);
    return 0;
}

/* What an operation that was forced open has left behind is whole: it can be waited for again. */
static void use_again(enum box_op op) {
    int64_t x = 0;
    switch (op) {
    case BOX_CALL:
    case BOX_GET:
        FIBER_ASSERT(box.pending && !moyai_future_ready(box.pending));
        box_release(&box, op);
        KIT_OK(moyai_future_get(box.pending, MOYAI_INTO(&x)));
        FIBER_ASSERT_INT(x, op == BOX_CALL ? 7 : 8);
        moyai_future_free(box.pending);
        box.pending = NULL;
        return;
    case BOX_WAIT:
    case BOX_WAIT_ALL:
        FIBER_ASSERT_INT(moyai_set_count(box.set), 2);
        FIBER_ASSERT(!moyai_set_next(box.set)); /* nothing consumed, nothing ready */
        box_release(&box, op);
        FIBER_ASSERT_INT(moyai_wait_all(box.set, MOYAI_FOREVER), 2);
        for (int i = 0; i < 2; i++) {
            moyai_future *f = moyai_set_next(box.set);
            KIT_OK(moyai_future_get(f, MOYAI_INTO(&x)));
            FIBER_ASSERT_INT(x, i);
            moyai_future_free(f);
        }
        moyai_set_free(box.set);
        return;
    case BOX_SLEEP:
    case BOX_LOOKUP:
        return;
    case BOX_ROOM:
        box_release(&box, op);
        KIT_OK(moyai_room(box.peer, MOYAI_FOREVER));
        return;
    case BOX_OPS_N:
        break;
    }
}

/* ---- forced open ----------------------------------------------------------------------------- */

static void each_blocking_operation_is_forced_open(void **state) {
    (void)state;
    for (enum box_op op = 0; op < BOX_OPS_N; op++) {
        box_shut(&box, op);
        moyai_future *f = box_block(&box, op, false);
        FIBER_ASSERT_INT(box.blocked, 1);
        KIT_OK(moyai_signal(box.ref));
        FIBER_ASSERT_INT(box_result(f), MOYAI_SIGNALLED);
        use_again(op);
    }
}

/* Nobody is blocked: the flag stays for the next, whatever it blocks in, and for one only. */
static void a_pending_signal_opens_the_next_block(void **state) {
    (void)state;
    for (enum box_op op = 0; op < BOX_OPS_N; op++) {
        box_shut(&box, op);
        for (int i = 0; i < 3; i++) KIT_OK(moyai_signal(box.ref)); /* several count as one */
        moyai_future *f = box_block(&box, op, false);
        FIBER_ASSERT_INT(box.blocked, 0); /* it did not block */
        FIBER_ASSERT_INT(box_result(f), MOYAI_SIGNALLED);
        use_again(op);
        box_shut(&box, BOX_GET);
        f = box_block(&box, BOX_GET, false);
        FIBER_ASSERT_INT(box.blocked, 1); /* the others have coalesced with the first */
        box_release(&box, BOX_GET);
        KIT_OK(box_result(f));
    }
}

static void masked_operations_are_not_forced_open(void **state) {
    (void)state;
    for (enum box_op op = 0; op < BOX_OPS_N; op++) {
        if (!box_ops[op].masked) continue;
        for (int before = 0; before < 2; before++) { /* the signal comes before the block, or during it */
            box_shut(&box, op);
            if (op == BOX_SLEEP) box.nap = 20 * MOYAI_MS;
            if (before) KIT_OK(moyai_signal(box.ref));
            moyai_future *f = box_block(&box, op, true);
            if (!before) KIT_OK(moyai_signal(box.ref));
            kit_settle(box.node);
            if (op != BOX_SLEEP) FIBER_ASSERT_INT(box.blocked, 1);
            box_release(&box, op);
            KIT_OK(box_result(f));
            /* It has consumed nothing: the next unmasked block finds the signal. */
            box_shut(&box, BOX_SLEEP);
            FIBER_ASSERT_INT(box_result(box_block(&box, BOX_SLEEP, false)), MOYAI_SIGNALLED);
        }
    }
}

/* A method that signals its own object is not blocked: the flag is set. */
static void a_running_method_sets_the_flag(void **state) {
    (void)state;
    KIT_OK(moyai_call(box.ref, "signal_me", MOYAI_NONE, MOYAI_NONE, NULL));
    box_shut(&box, BOX_WAIT);
    FIBER_ASSERT_INT(box_result(box_block(&box, BOX_WAIT, false)), MOYAI_SIGNALLED);
    use_again(BOX_WAIT);
}

/* ---- whom it wakes --------------------------------------------------------------------------- */

static void one_signal_wakes_the_longest_blocked_unmasked_fiber(void **state) {
    (void)state;
    enum { N = 6 };
    box_shut(&box, BOX_GET);
    moyai_future *f[N];
    /* 0 and 3 are masked; the others block in different things. */
    static const enum box_op ops[N] = {BOX_GET, BOX_SLEEP, BOX_GET, BOX_GET, BOX_LOOKUP, BOX_SLEEP};
    for (int i = 0; i < N; i++) f[i] = box_block(&box, ops[i], i % 3 == 0);
    FIBER_ASSERT_INT(box.blocked, N);
    static const int order[] = {1, 2, 4, 5};
    for (size_t k = 0; k < sizeof order / sizeof order[0]; k++) {
        KIT_OK(moyai_signal(box.ref));
        kit_settle(box.node);
        FIBER_ASSERT_INT(box.blocked, N - 1 - (int)k);
        FIBER_ASSERT_INT(box_result(f[order[k]]), MOYAI_SIGNALLED);
        if (ops[order[k]] == BOX_GET) {
            moyai_future_free(box.pending);
            box.pending = NULL;
        }
    }
    /* Only masked ones are left. Two signals at once: the second finds the flag set. */
    KIT_OK(moyai_signal(box.ref));
    KIT_OK(moyai_signal(box.ref));
    kit_settle(box.node);
    FIBER_ASSERT_INT(box.blocked, 2);
    FIBER_ASSERT_INT(box_result(box_block(&box, BOX_SLEEP, false)), MOYAI_SIGNALLED);
    box_release(&box, BOX_GET);
    KIT_OK(box_result(f[0]));
    KIT_OK(box_result(f[3]));
}

/* Two signals before anybody has run wake two: each goes to one that is still blocked. */
static void two_signals_wake_two(void **state) {
    (void)state;
    moyai_future *f[3];
    box_shut(&box, BOX_SLEEP);
    for (int i = 0; i < 3; i++) f[i] = box_block(&box, BOX_SLEEP, false);
    KIT_OK(moyai_signal(box.ref));
    KIT_OK(moyai_signal(box.ref));
    kit_settle(box.node);
    FIBER_ASSERT_INT(box.blocked, 1);
    FIBER_ASSERT_INT(box_result(f[0]), MOYAI_SIGNALLED);
    FIBER_ASSERT_INT(box_result(f[1]), MOYAI_SIGNALLED);
    KIT_OK(moyai_signal(box.ref));
    FIBER_ASSERT_INT(box_result(f[2]), MOYAI_SIGNALLED);
}

/* ---- a result beats a signal ----------------------------------------------------------------- */

static int ready_all(moyai_request *rq, void *self) {
    struct box *b = self;
    (void)rq;
    moyai_ref *ref = NULL;
    int x = 0;
    moyai_future *f = moyai_call_async(b->gate, "pass", MOYAI_ARGS(5));
    while (!moyai_future_ready(f)) moyai_yield(b->node); /* not one of the blocking operations */
    moyai_set *set = kit_set(b->node);
    KIT_OK(moyai_set_add(set, f));
    KIT_OK(moyai_register(b->gate, b->name));
    KIT_OK(moyai_signal(b->ref));
    /* None of these has to block, so none consumes the signal. */
    KIT_OK(moyai_future_get(f, MOYAI_INTO(&x)));
    FIBER_ASSERT_INT(moyai_wait(set, MOYAI_FOREVER), 1);
    FIBER_ASSERT_INT(moyai_wait_all(set, MOYAI_FOREVER), 1);
    KIT_OK(moyai_lookup_wait(b->node, b->name, MOYAI_FOREVER, &ref));
    moyai_ref_unref(ref);
    KIT_OK(moyai_lookup(b->node, b->name, &ref));
    KIT_OK(moyai_room(b->peer, MOYAI_FOREVER));
    KIT_OK(moyai_room(ref, MOYAI_FOREVER));
    moyai_yield(b->node);
    KIT_RC(moyai_sleep(b->node, 3600 * MOYAI_SEC), MOYAI_SIGNALLED); /* this one does */
    KIT_OK(moyai_sleep(b->node, MOYAI_MS));
    moyai_ref_unref(ref);
    KIT_OK(moyai_unregister(b->gate, b->name));
    moyai_future_free(f);
    moyai_set_free(set);
    return 0;
}

/* A method of a class of its own would be in another object's scope: the box needs this one, too. */
static const struct moyai_method ready_methods[] = {{"ready", ready_all}, {NULL, NULL}};
static const struct moyai_class ready_class = MOYAI_CLASS("Ready", ready_methods, NULL);

static void a_result_that_is_there_beats_the_signal(void **state) {
    (void)state;
    struct box b = box;
    b.ref = kit_object(box.node, &ready_class, &b);
    box.open = true;
    KIT_OK(moyai_call(b.ref, "ready", MOYAI_NONE, MOYAI_NONE, NULL));
    KIT_OK(moyai_object_end(b.ref));
    moyai_ref_unref(b.ref);
}

/* A fiber whose result has come is not blocked any more, though it has not run yet: the signal goes to another. */
static int signal_box(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    KIT_OK(moyai_signal(box.ref));
    return 0;
}
static const struct moyai_method signaller_methods[] = {{"signal", signal_box}, {NULL, NULL}};
static const struct moyai_class signaller_class = MOYAI_CLASS("Signaller", signaller_methods, NULL);

static void a_fiber_with_its_result_does_not_swallow_a_signal(void **state) {
    (void)state;
    moyai_ref *signaller = kit_object(box.node, &signaller_class, NULL);
    for (int other = 0; other < 2; other++) {
        box_shut(&box, BOX_GET);
        moyai_future *first = box_block(&box, BOX_GET, false);
        moyai_future *second = other ? box_block(&box, BOX_SLEEP, false) : NULL;
        FIBER_ASSERT_INT(box.blocked, 1 + other);
        /* The run queue: the gate's fiber, which completes what `first` waits for; the signaller; then `first`. */
        box.open = true;
        KIT_OK(moyai_signal(box.gate));
        KIT_OK(moyai_call_oneway(signaller, "signal", MOYAI_NONE));
        KIT_OK(box_result(first));
        if (!second) second = box_block(&box, BOX_SLEEP, false); /* nobody was blocked: it is pending */
        FIBER_ASSERT_INT(box_result(second), MOYAI_SIGNALLED);
    }
    KIT_OK(moyai_object_end(signaller));
    moyai_ref_unref(signaller);
}

/* The same with a deadline that has passed. Whether it has passed for the scheduler when the signal comes, nobody can
 * say; but the signal is not lost either way. */
static void a_fiber_whose_time_is_up_does_not_swallow_a_signal(void **state) {
    (void)state;
    int timed_out = 0;
    for (int i = 0; i < 40 && timed_out < 5; i++) {
        box.nap = 3 * MOYAI_MS;
        moyai_future *first = box_block(&box, BOX_SLEEP, false);
        box.nap = 3600 * MOYAI_SEC;
        moyai_future *second = box_block(&box, BOX_SLEEP, false);
        kit_compute(8 * MOYAI_MS); /* the progress thread sees the first one's deadline */
        KIT_OK(moyai_signal(box.ref));
        if (box_result(first) == 0) {
            timed_out++;
        } else {
            kit_settle(box.node);
            FIBER_ASSERT(!moyai_future_ready(second));
            KIT_OK(moyai_signal(box.ref));
        }
        kit_settle(box.node);
        FIBER_ASSERT(moyai_future_ready(second));
        FIBER_ASSERT_INT(box_result(second), MOYAI_SIGNALLED);
    }
}

/* ---- who gets none --------------------------------------------------------------------------- */

static void *sleep_on_a_thread(void *arg) {
    (void)arg;
    KIT_OK(moyai_sleep(box.node, 20 * MOYAI_MS));
    return NULL;
}

static void sleep_on_a_fiber(void *done) {
    KIT_OK(moyai_sleep(box.node, 20 * MOYAI_MS));
    *(bool *)done = true;
}

/* The main program, fibers of moyai_go and other threads are in no object's scope. */
static void outside_of_methods_there_are_no_signals(void **state) {
    (void)state;
    bool done = false;
    pthread_t thread;
    FIBER_ASSERT_INT(pthread_create(&thread, NULL, sleep_on_a_thread, NULL), 0);
    KIT_OK(moyai_go(box.node, sleep_on_a_fiber, &done));
    moyai_yield(box.node);
    KIT_OK(moyai_signal(box.ref));
    KIT_OK(moyai_signal(box.gate));
    moyai_set *set = kit_set(box.node);
    KIT_RC(moyai_wait(set, 30 * MOYAI_MS), MOYAI_ETIMEDOUT);
    moyai_set_free(set);
    while (!done) moyai_yield(box.node);
    pthread_join(thread, NULL);
    /* Nobody has taken it. */
    FIBER_ASSERT_INT(box_result(box_block(&box, BOX_SLEEP, false)), MOYAI_SIGNALLED);
    box_shut(&box, BOX_GET);
    moyai_future *f = box_block(&box, BOX_GET, false); /* the gate's flag is still set, which its method ignores */
    box_release(&box, BOX_GET);
    KIT_OK(box_result(f));
}

/* ---- across processes ------------------------------------------------------------------------ */

static void a_signal_crosses_processes(void **state) {
    (void)state;
    for (enum box_op op = 0; op < BOX_OPS_N; op++) {
        if (op == BOX_ROOM) continue; /* the other process is stopped then */
        box_shut(&box, op);
        moyai_future *f = box_block(&box, op, false);
        KIT_OK(moyai_call(box.peer, "signal", MOYAI_ARGS(box.ref), MOYAI_NONE, NULL));
        FIBER_ASSERT_INT(box_result(f), MOYAI_SIGNALLED);
        use_again(op);
    }
}

static void a_signal_to_an_ended_object_is_an_error(void **state) {
    (void)state;
    moyai_ref *ref = kit_object(box.node, &signaller_class, NULL);
    KIT_OK(moyai_signal(ref));
    KIT_OK(moyai_object_end(ref));
    KIT_RC(moyai_signal(ref), MOYAI_ENOOBJECT);
    moyai_future *f = moyai_signal_async(ref);
    KIT_FAILED(f, MOYAI_ENOOBJECT, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
    moyai_future_free(f);
    /* From another process: the sender of moyai_signal does not hear it, that of moyai_signal_async does. */
    KIT_RC(moyai_call(box.peer, "signal", MOYAI_ARGS(ref), MOYAI_NONE, NULL), MOYAI_ENOOBJECT);
    moyai_ref_unref(ref);
    /* And to an object of another process that never was. */
    char text[MOYAI_REF_TEXT];
    moyai_ref_format(box.peer, text);
    text[10] = text[10] == '0' ? '1' : '0';
    KIT_OK(moyai_ref_parse(box.node, text, &ref));
    KIT_OK(moyai_signal(ref));
    f = moyai_signal_async(ref);
    KIT_FAILED(f, MOYAI_ENOOBJECT, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
    moyai_future_free(f);
    moyai_ref_unref(ref);
}

/* While a method of it still runs, an ended object takes no signals either. */
static void an_ended_object_in_use_takes_no_signal(void **state) {
    (void)state;
    struct box b = box;
    b.ref = kit_object(box.node, &ready_class, &b);
    moyai_ref *mine = box.ref;
    box_shut(&box, BOX_GET);
    moyai_future *f = box_block(&box, BOX_GET, false);
    FIBER_ASSERT(mine == box.ref);
    moyai_ref *ended = moyai_ref_ref(box.ref);
    KIT_OK(moyai_object_end(ended));
    KIT_RC(moyai_signal(ended), MOYAI_ENOOBJECT);
    box_release(&box, BOX_GET);
    KIT_OK(box_result(f));
    KIT_RC(moyai_signal(ended), MOYAI_ENOOBJECT);
    moyai_ref_unref(ended);
    moyai_ref_unref(b.ref);
}

static int tests(void) {
#define BOXED(test) cmocka_unit_test_setup_teardown(test, open_box, close_box)
    const struct CMUnitTest all[] = {
        BOXED(each_blocking_operation_is_forced_open),
        BOXED(a_pending_signal_opens_the_next_block),
        BOXED(masked_operations_are_not_forced_open),
        BOXED(a_running_method_sets_the_flag),
        BOXED(one_signal_wakes_the_longest_blocked_unmasked_fiber),
        BOXED(two_signals_wake_two),
        BOXED(a_result_that_is_there_beats_the_signal),
        BOXED(a_fiber_with_its_result_does_not_swallow_a_signal),
        BOXED(a_fiber_whose_time_is_up_does_not_swallow_a_signal),
        BOXED(outside_of_methods_there_are_no_signals),
        BOXED(a_signal_crosses_processes),
        BOXED(a_signal_to_an_ended_object_is_an_error),
        BOXED(an_ended_object_in_use_takes_no_signal),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"box-peer", box_peer}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
