/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futures: freed at each stage of their call, completed once, waited for in sets, followed by functions; one-way calls;
 * several callers. Arrays are lent to the library only until the future completes or is freed.
 */
#include "tests/public/kit.h"

#include <pthread.h>
#include <unistd.h>

enum { LARGE = 300 * 1024 };

struct server {
    int64_t sum, calls, bad;
    int gates;
    bool open;
};

/* A block of bytes that proves itself: each follows from its number. */
static void fill(uint8_t *p, size_t n, uint8_t seed) {
    for (size_t i = 0; i < n; i++) p[i] = (uint8_t)(seed + i * 7 + (i >> 8));
}
static bool is_filled(const uint8_t *p, size_t n, uint8_t seed) {
    for (size_t i = 0; i < n; i++)
        if (p[i] != (uint8_t)(seed + i * 7 + (i >> 8))) return false;
    return true;
}

static int m_add(moyai_request *rq, void *self) {
    struct server *s = self;
    int64_t x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    s->calls++;
    s->sum += x;
    return moyai_return(rq, MOYAI_ARGS(s->sum));
}

/* take(seed, bytes): what has arrived must be whole. */
static int m_take(moyai_request *rq, void *self) {
    struct server *s = self;
    uint8_t seed;
    const void *p;
    size_t n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&seed, moyai_into_bytes(&p, &n))));
    s->calls++;
    if (!is_filled(p, n, seed)) s->bad++;
    return moyai_return(rq, MOYAI_ARGS(n));
}

/* give(seed, n) */
static int m_give(moyai_request *rq, void *self) {
    (void)self;
    uint8_t seed;
    size_t n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&seed, &n)));
    uint8_t *p = malloc(n + 1);
    FIBER_ASSERT(p);
    fill(p, n, seed);
    int rc = moyai_return(rq, MOYAI_ARGS(moyai_bytes(p, n)));
    free(p); /* it was copied */
    return rc;
}

static int m_gate(moyai_request *rq, void *self) {
    struct server *s = self;
    s->gates++;
    while (!s->open) {
        int rc = moyai_sleep_masked(moyai_request_node(rq), MOYAI_MS);
        if (rc < 0) return rc;
    }
    s->gates--;
    return 0;
}

static int m_open(moyai_request *rq, void *self) {
    struct server *s = self;
    bool open;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&open)));
    s->open = open;
    return moyai_return(rq, MOYAI_ARGS(s->gates));
}

static int m_counts(moyai_request *rq, void *self) {
    struct server *s = self;
    return moyai_return(rq, MOYAI_ARGS(s->calls, s->sum, s->bad));
}

static const struct moyai_method methods[] = {{"add", m_add},   {"take", m_take}, {"give", m_give},
                                              {"gate", m_gate}, {"open", m_open}, {"counts", m_counts},
                                              {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Server", methods, NULL);

static int role_server(int argc, char **argv) {
    (void)argc, (void)argv;
    struct server s = {0};
    return kit_serve(NULL, &cls, &s, "server");
}

/* ---- the world ------------------------------------------------------------------------------- */

static moyai_node *node;
static moyai_ref *refs[2]; /* here and there */
static struct server here;
static pid_t pid;

static int open_world(void **state) {
    (void)state;
    node = kit_node(NULL);
    here = (struct server){0};
    refs[0] = kit_object(node, &cls, &here);
    pid = kit_child("server", NULL);
    refs[1] = kit_lookup(node, "server");
    return 0;
}

static struct server counts(moyai_ref *ref) {
    struct server s = {0};
    KIT_OK(moyai_call(ref, "counts", MOYAI_NONE, MOYAI_INTO(&s.calls, &s.sum, &s.bad), NULL));
    return s;
}

static int close_world(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        FIBER_ASSERT_INT(counts(refs[i]).bad, 0);
        moyai_ref_unref(refs[i]);
    }
    struct moyai_node_stats s = {.size = sizeof s};
    moyai_node_stats(node, &s);
    FIBER_ASSERT_INT(s.calls_open, 0);
    moyai_node_free(node);
    kit_end(pid);
    return 0;
}

/* ---- freed at each stage --------------------------------------------------------------------- */

/* Such a call is not made. On a crowded machine the progress thread may have sent some before they were freed: not in
 * round after round. */
static void freed_before_it_leaves(void **state) {
    (void)state;
    int64_t made = 1;
    for (int round = 0; round < 100 && made > 0; round++) {
        int64_t before = counts(refs[1]).calls;
        for (int k = 0; k < 10; k++) moyai_future_free(moyai_call_async(refs[1], "add", MOYAI_ARGS(1)));
        made = counts(refs[1]).calls - before;
        FIBER_ASSERT(made <= 10);
    }
    FIBER_ASSERT_INT(made, 0);
    /* What runs here has been taken already, and goes on. */
    for (int k = 0; k < 10; k++) moyai_future_free(moyai_call_async(refs[0], "add", MOYAI_ARGS(1)));
    FIBER_ASSERT(counts(refs[0]).calls <= 10);
}

static void freed_while_it_runs(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        int gates = 0;
        moyai_future *f = moyai_call_async(refs[i], "gate", MOYAI_NONE);
        while (gates < 1) KIT_OK(moyai_call(refs[i], "open", MOYAI_ARGS((bool)false), MOYAI_INTO(&gates), NULL));
        moyai_future_free(f);
        while (gates > 0) KIT_OK(moyai_call(refs[i], "open", MOYAI_ARGS((bool)true), MOYAI_INTO(&gates), NULL));
    }
}

static void freed_when_it_is_ready(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 100, 5000, LARGE};
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            moyai_future *f = moyai_call_async(refs[i], "give", MOYAI_ARGS(1, sizes[k]));
            KIT_UNTIL(node, moyai_future_ready(f));
            moyai_future_free(f); /* never read */
            f = moyai_call_async(refs[i], "give", MOYAI_ARGS(2, sizes[k]));
            const void *p;
            size_t n = 1;
            KIT_OK(moyai_future_get(f, MOYAI_INTO(moyai_into_bytes(&p, &n))));
            FIBER_ASSERT(n == sizes[k] && is_filled(p, n, 2));
            moyai_future_free(f);
        }
    }
    moyai_future_free(NULL);
}

/* At any moment, with arguments and results of any size. The buffer goes with the future: whoever reads it later
 * reads something else, and the callee or a sanitizer sees it. */
static void freed_at_any_moment(void **state) {
    (void)state;
    uint32_t rng = (uint32_t)kit_seed();
    enum { SLOTS = 40 };
    struct {
        moyai_future *f;
        uint8_t *p;
    } slot[SLOTS] = {0};
    const int rounds = FIBER_SCALE(3000, 800, 300);
    for (int r = 0; r < rounds; r++) {
        rng = rng * 1664525u + 1013904223u;
        uint32_t x = rng >> 8;
        int i = (int)(x % SLOTS);
        if (slot[i].f) {
            if (x & 0x400) moyai_future_cancel(slot[i].f);
            moyai_future_free(slot[i].f);
            if (slot[i].p) memset(slot[i].p, 0xee, 16);
            free(slot[i].p);
        }
        static const size_t sizes[] = {16, 2000, 5000, 70000, LARGE, 4 * LARGE};
        size_t n = sizes[(x >> 11) % 6];
        uint8_t seed = (uint8_t)x;
        moyai_ref *ref = refs[(x >> 14) % 4 > 0];
        slot[i].p = NULL;
        if (x & 0x100) {
            slot[i].f = moyai_call_async(ref, "give", MOYAI_ARGS(seed, n));
        } else {
            slot[i].p = malloc(n);
            FIBER_ASSERT(slot[i].p);
            fill(slot[i].p, n, seed);
            slot[i].f = moyai_call_async(ref, "take", MOYAI_ARGS(seed, moyai_bytes(slot[i].p, n)));
        }
        if ((x >> 16) % 4 == 0) moyai_yield(node);
        if ((x >> 18) % 64 == 0) (void)counts(refs[1]);
    }
    for (int i = 0; i < SLOTS; i++) {
        if (slot[i].f) KIT_OK(moyai_future_get(slot[i].f, MOYAI_NONE));
        moyai_future_free(slot[i].f);
        free(slot[i].p);
    }
}

/* The array is the caller's again as soon as the future has completed, however it did. */
static void an_array_is_lent_until_completion(void **state) {
    (void)state;
    uint8_t *p = malloc(4 * LARGE);
    FIBER_ASSERT(p);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 30; k++) {
            fill(p, 4 * LARGE, (uint8_t)k);
            moyai_future *f = moyai_call_async(refs[i], "take", MOYAI_ARGS(k, moyai_bytes(p, 4 * LARGE)));
            if (k % 3 == 1) {
                for (int y = 0; y < k % 5; y++) moyai_yield(node); /* some of it is on its way */
                moyai_future_cancel(f);
            } else if (k % 3 == 2) {
                moyai_future_deadline(f, k * 50 * MOYAI_US);
                (void)moyai_future_get(f, MOYAI_NONE);
            } else {
                KIT_OK(moyai_future_get(f, MOYAI_NONE));
            }
            FIBER_ASSERT(moyai_future_ready(f));
            memset(p, 0xee, 4 * LARGE); /* what is still sent, for order's sake, must not be this */
            for (int y = 0; y < 3; y++) moyai_yield(node);
            moyai_future_free(f);
        }
    }
    free(p);
}

/* ---- one-way calls --------------------------------------------------------------------------- */

static void one_way_calls_arrive(void **state) {
    (void)state;
    enum { N = 1000 };
    uint8_t *p = malloc(LARGE);
    FIBER_ASSERT(p);
    for (int i = 0; i < 2; i++) {
        struct server before = counts(refs[i]);
        for (int k = 0; k < N; k++) KIT_OK(moyai_call_oneway(refs[i], "add", MOYAI_ARGS(k)));
        FIBER_ASSERT_INT(counts(refs[i]).sum - before.sum, N * (N - 1) / 2);
        /* There is no future: all is copied. */
        for (int k = 0; k < 20; k++) {
            fill(p, LARGE, (uint8_t)k);
            KIT_OK(moyai_call_oneway(refs[i], "take", MOYAI_ARGS(k, moyai_bytes(p, LARGE))));
            memset(p, 0xee, LARGE);
        }
        FIBER_ASSERT_INT(counts(refs[i]).calls - before.calls, N + 20);
    }
    free(p);
}

/* What was given before the node ends still leaves. */
static void one_way_calls_survive_their_node(void **state) {
    (void)state;
    struct server before = counts(refs[1]);
    moyai_node *n = kit_node(NULL);
    moyai_ref *ref = kit_lookup(n, "server");
    KIT_OK(moyai_call(ref, "add", MOYAI_ARGS(0), MOYAI_NONE, NULL)); /* it is connected */
    for (int k = 0; k < 10; k++) KIT_OK(moyai_call_oneway(ref, "add", MOYAI_ARGS(1)));
    moyai_ref_unref(ref);
    moyai_node_free(n);
    KIT_UNTIL(node, counts(refs[1]).sum == before.sum + 10);
}

/* ---- then ------------------------------------------------------------------------------------ */

struct follow {
    int runs;
    moyai_future *f;
    pthread_t thread;
    bool free_it, block;
};

static void follow(moyai_future *f, void *arg) {
    struct follow *w = arg;
    w->runs++;
    FIBER_ASSERT(f == w->f && moyai_future_ready(f));
    FIBER_ASSERT(pthread_equal(pthread_self(), w->thread));
    int64_t x = 0;
    if (w->block) KIT_OK(moyai_call(refs[1], "add", MOYAI_ARGS(0), MOYAI_INTO(&x), NULL));
    KIT_OK(moyai_future_get(f, MOYAI_INTO(&x)));
    if (w->free_it) moyai_future_free(f);
}

static void a_function_follows_completion(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        struct follow w = {.thread = pthread_self(), .free_it = i & 2, .block = i & 4};
        w.f = moyai_call_async(refs[i & 1], "add", MOYAI_ARGS(1));
        KIT_OK(moyai_future_then(w.f, follow, &w));
        KIT_RC(moyai_future_then(w.f, follow, &w), MOYAI_ESTATE);
        KIT_RC(moyai_future_then(w.f, NULL, &w), MOYAI_EINVAL);
        FIBER_ASSERT_INT(w.runs, 0); /* never from within */
        KIT_UNTIL(node, w.runs == 1);
        kit_settle(node);
        (void)counts(refs[1]);
        FIBER_ASSERT_INT(w.runs, 1);
        if (!w.free_it) moyai_future_free(w.f);
        /* Of one that is ready: soon. */
        w = (struct follow){.thread = pthread_self(), .free_it = i & 2, .block = i & 4};
        w.f = moyai_call_async(refs[i & 1], "add", MOYAI_ARGS(1));
        KIT_OK(moyai_future_get(w.f, MOYAI_NONE));
        KIT_OK(moyai_future_then(w.f, follow, &w));
        FIBER_ASSERT_INT(w.runs, 0);
        KIT_UNTIL(node, w.runs == 1);
        (void)counts(refs[1]);
        if (!w.free_it) moyai_future_free(w.f);
    }
}

static void must_not_follow(moyai_future *f, void *freed) {
    (void)f;
    FIBER_ASSERT(!*(bool *)freed);
}

static void a_freed_future_is_not_followed(void **state) {
    (void)state;
    uint8_t *p = malloc(4 * LARGE);
    FIBER_ASSERT(p);
    fill(p, 4 * LARGE, 9);
    static bool freed[20]; /* the library may look at it late */
    for (int i = 0; i < 2; i++) {
        memset(freed, 1, sizeof freed);
        moyai_future *f = moyai_call_async(refs[i], "add", MOYAI_ARGS(1)); /* not yet complete */
        KIT_OK(moyai_future_then(f, must_not_follow, freed));
        moyai_future_free(f);
        (void)counts(refs[i]);
        f = moyai_call_async(refs[i], "add", MOYAI_ARGS(1)); /* complete */
        KIT_OK(moyai_future_get(f, MOYAI_NONE));
        KIT_OK(moyai_future_then(f, must_not_follow, freed));
        moyai_future_free(f);
        (void)counts(refs[i]);
        for (int k = 0; k < 20; k++) { /* completed by cancel, with its message under way */
            if (k % 2)
                f = moyai_call_async(refs[i], "take", MOYAI_ARGS(9, moyai_bytes(p, 4 * LARGE)));
            else /* sent, and perhaps not yet acknowledged */
                f = moyai_call_async(refs[i], "gate", MOYAI_NONE);
            freed[k] = false;
            KIT_OK(moyai_future_then(f, must_not_follow, &freed[k]));
            for (int y = 0; y < k % 4; y++) moyai_yield(node);
            moyai_future_cancel(f);
            moyai_future_free(f);
            freed[k] = true;
            for (int y = 0; y < k % 3; y++) (void)counts(refs[i]);
        }
    }
    free(p);
}

/* ---- sets ------------------------------------------------------------------------------------ */

static void a_future_is_in_one_set(void **state) {
    (void)state;
    moyai_set *a = kit_set(node), *b = kit_set(node);
    moyai_future *f = moyai_call_async(refs[1], "add", MOYAI_ARGS(1));
    FIBER_ASSERT(!moyai_future_user(f));
    moyai_future_set_user(f, a);
    KIT_OK(moyai_set_add(a, f));
    KIT_OK(moyai_set_add(a, f)); /* it is there already */
    KIT_RC(moyai_set_add(b, f), MOYAI_ESTATE);
    FIBER_ASSERT_INT(moyai_set_count(a), 1);
    FIBER_ASSERT_INT(moyai_set_count(b), 0);
    moyai_set_remove(b, f); /* is not in it: fine */
    FIBER_ASSERT_INT(moyai_set_count(a), 1);
    moyai_set_remove(a, f);
    FIBER_ASSERT_INT(moyai_set_count(a), 0);
    KIT_OK(moyai_set_add(b, f));
    FIBER_ASSERT_INT(moyai_wait(b, MOYAI_FOREVER), 1);
    FIBER_ASSERT_INT(moyai_wait(b, 0), 1); /* nothing is consumed */
    FIBER_ASSERT_INT(moyai_wait_all_masked(b, MOYAI_FOREVER), 1);
    KIT_RC(moyai_set_add(a, f), MOYAI_ESTATE);
    FIBER_ASSERT(moyai_set_next(b) == f);
    FIBER_ASSERT(!moyai_set_next(b));
    KIT_OK(moyai_set_add(a, f)); /* complete: ready at once */
    FIBER_ASSERT_INT(moyai_wait(a, MOYAI_FOREVER), 1);
    FIBER_ASSERT(moyai_future_user(f) == a);
    moyai_set_free(a); /* the future lives on */
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    KIT_OK(moyai_set_add(b, f));
    moyai_future_free(f); /* takes it out */
    FIBER_ASSERT_INT(moyai_set_count(b), 0);
    moyai_set_free(b);
    moyai_set_free(NULL);
}

static void a_set_gives_futures_in_the_order_of_completion(void **state) {
    (void)state;
    moyai_set *set = kit_set(node);
    moyai_future *gate = moyai_call_async(refs[1], "gate", MOYAI_NONE), *f[3];
    KIT_OK(moyai_set_add(set, gate));
    for (int i = 0; i < 3; i++) {
        f[i] = moyai_call_async(refs[1], "add", MOYAI_ARGS(1));
        KIT_OK(moyai_set_add(set, f[i]));
        KIT_OK(moyai_future_get(f[i], MOYAI_NONE));
        FIBER_ASSERT_INT(moyai_wait(set, MOYAI_FOREVER), i + 1);
    }
    KIT_RC(moyai_wait_all(set, 20 * MOYAI_MS), MOYAI_ETIMEDOUT);
    KIT_RC(moyai_wait_all_masked(set, 0), MOYAI_ETIMEDOUT);
    KIT_OK(moyai_call_oneway(refs[1], "open", MOYAI_ARGS((bool)true)));
    FIBER_ASSERT_INT(moyai_wait_all(set, MOYAI_FOREVER), 4);
    for (int i = 0; i < 3; i++) {
        FIBER_ASSERT(moyai_set_next(set) == f[i]);
        moyai_future_free(f[i]);
    }
    FIBER_ASSERT(moyai_set_next(set) == gate);
    FIBER_ASSERT(!moyai_set_next(set));
    moyai_future_free(gate);
    moyai_set_free(set);
}

struct waiting {
    moyai_set *set;
    int code;
};

static void wait_on_a_fiber(void *arg) {
    struct waiting *w = arg;
    w->code = moyai_wait(w->set, MOYAI_FOREVER);
}

static void a_set_serves_one_waiter(void **state) {
    (void)state;
    struct waiting w = {.set = kit_set(node), .code = 0};
    KIT_OK(moyai_go(node, wait_on_a_fiber, &w));
    kit_settle(node);
    KIT_RC(moyai_wait(w.set, 0), MOYAI_ESTATE);
    /* What is added while it waits counts. */
    moyai_future *f = moyai_call_async(refs[1], "add", MOYAI_ARGS(1));
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    FIBER_ASSERT_INT(w.code, 0);
    KIT_OK(moyai_set_add(w.set, f));
    KIT_UNTIL(node, w.code != 0);
    FIBER_ASSERT_INT(w.code, 1);
    moyai_future_free(f);
    moyai_set_free(w.set);
}

struct ending {
    moyai_future *f;
    moyai_set *set; /* NULL: f is freed */
    int code;
};

static void get_and_free(void *arg) {
    struct ending *e = arg;
    KIT_OK(moyai_future_get(e->f, MOYAI_NONE));
    if (e->set)
        moyai_set_free(e->set);
    else
        moyai_future_free(e->f);
}

static void get_on_a_fiber(void *arg) {
    struct ending *e = arg;
    e->code = moyai_future_get(e->f, MOYAI_NONE);
}

/* Freed while somebody waits for it: before it is ready, and when it is ready, but who waits has not had its turn. */
static void a_waiter_hears_that_its_set_was_freed(void **state) {
    (void)state;
    struct waiting w = {.set = kit_set(node), .code = 0};
    moyai_future *f = moyai_call_async(refs[0], "gate", MOYAI_NONE);
    KIT_OK(moyai_set_add(w.set, f));
    KIT_OK(moyai_go(node, wait_on_a_fiber, &w));
    kit_settle(node);
    moyai_set_free(w.set);
    KIT_UNTIL(node, w.code != 0);
    FIBER_ASSERT_INT(w.code, MOYAI_EINVAL);

    w = (struct waiting){.set = kit_set(node), .code = 0};
    KIT_OK(moyai_set_add(w.set, f));
    struct ending e = {.f = f, .set = w.set};
    KIT_OK(moyai_go(node, wait_on_a_fiber, &w));
    KIT_OK(moyai_go(node, get_and_free, &e));
    kit_settle(node);
    here.open = true;
    KIT_UNTIL(node, w.code != 0);
    FIBER_ASSERT_INT(w.code, MOYAI_EINVAL);
    moyai_future_free(f);
}

static void a_waiter_hears_that_its_future_was_freed(void **state) {
    (void)state;
    here.open = false;
    struct ending e = {.f = moyai_call_async(refs[0], "gate", MOYAI_NONE)};
    KIT_OK(moyai_go(node, get_on_a_fiber, &e));
    kit_settle(node);
    KIT_OK(moyai_go(node, get_and_free, &e)); /* who waits last has its turn first */
    kit_settle(node);
    here.open = true;
    KIT_UNTIL(node, e.code != 0);
    FIBER_ASSERT_INT(e.code, MOYAI_EINVAL);
}

struct all {
    moyai_set *set;
    int code;
    bool done;
};

static void wait_all_on_a_fiber(void *arg) {
    struct all *a = arg;
    a->code = moyai_wait_all(a->set, MOYAI_FOREVER);
    a->done = true;
}

/* Nothing is pending any more once the last that was has been freed or taken out. */
static void waiting_for_all_ends_with_the_last(void **state) {
    (void)state;
    for (int freed = 0; freed < 2; freed++) {
        struct all a = {.set = kit_set(node)};
        moyai_future *ready = moyai_call_async(refs[1], "add", MOYAI_ARGS(1));
        moyai_future *gate = moyai_call_async(refs[0], "gate", MOYAI_NONE);
        KIT_OK(moyai_future_get(ready, MOYAI_NONE));
        KIT_OK(moyai_set_add(a.set, ready));
        KIT_OK(moyai_set_add(a.set, gate));
        KIT_OK(moyai_go(node, wait_all_on_a_fiber, &a));
        kit_settle(node);
        FIBER_ASSERT(!a.done);
        if (freed)
            moyai_future_free(gate);
        else
            moyai_set_remove(a.set, gate);
        KIT_UNTIL(node, a.done);
        FIBER_ASSERT_INT(a.code, 1);
        here.open = true;
        if (!freed) KIT_OK(moyai_future_get(gate, MOYAI_NONE));
        if (!freed) moyai_future_free(gate);
        moyai_future_free(ready);
        moyai_set_free(a.set);
        here.open = false;
    }
}

static void get_and_take(void *arg) {
    struct ending *e = arg;
    KIT_OK(moyai_future_get(e->f, MOYAI_NONE));
    FIBER_ASSERT(moyai_set_next(e->set) == e->f);
}

/* What had completed was taken by another fiber before who waits for it had its turn: it goes on waiting. */
static void a_waiter_waits_on_for_what_another_took(void **state) {
    (void)state;
    struct waiting w = {.set = kit_set(node)};
    struct ending e = {.f = moyai_call_async(refs[0], "gate", MOYAI_NONE), .set = w.set};
    KIT_OK(moyai_set_add(w.set, e.f));
    KIT_OK(moyai_go(node, wait_on_a_fiber, &w));
    KIT_OK(moyai_go(node, get_and_take, &e));
    kit_settle(node);
    here.open = true;
    KIT_UNTIL(node, moyai_set_count(w.set) == 0);
    kit_settle(node);
    FIBER_ASSERT_INT(w.code, 0);
    moyai_future *next = moyai_call_async(refs[1], "add", MOYAI_ARGS(1));
    KIT_OK(moyai_set_add(w.set, next));
    KIT_UNTIL(node, w.code != 0);
    FIBER_ASSERT_INT(w.code, 1);
    moyai_future_free(next);
    moyai_future_free(e.f);
    moyai_set_free(w.set);
}

static void a_set_is_of_one_node(void **state) {
    (void)state;
    moyai_node *n = kit_node(NULL);
    struct server other = {.open = true};
    moyai_ref *ref = kit_object(n, &cls, &other);
    moyai_future *f = moyai_call_async(ref, "gate", MOYAI_NONE);
    moyai_set *set = kit_set(node);
    struct moyai_error e = {0};
    KIT_RC(moyai_set_add(set, f), MOYAI_EINVAL);
    moyai_last_error(node, &e);
    KIT_TEXT(e.text, "another node");
    FIBER_ASSERT_INT(moyai_set_count(set), 0);
    moyai_set_free(set);
    moyai_future_free(f);
    moyai_ref_unref(ref);
    moyai_node_free(n);
}

/* Any number of new deadlines for a peer that takes nothing: the calls in progress there do not suffer. */
static void deadlines_are_moved_while_the_peer_is_stopped(void **state) {
    (void)state;
    moyai_future *f = moyai_call_async(refs[1], "gate", MOYAI_NONE),
                 *other = moyai_call_async(refs[1], "gate", MOYAI_NONE);
    int gates = 0;
    KIT_UNTIL(node, moyai_call(refs[1], "open", MOYAI_ARGS(false), MOYAI_INTO(&gates), NULL) == 0 && gates == 2);
    kit_stop(pid);
    for (int i = 0; i < 70000; i++) {
        moyai_future_deadline(f, 1000 * MOYAI_SEC);
        if (i % 1000 == 0) kit_settle(node);
    }
    kit_cont(pid);
    KIT_OK(moyai_call(refs[1], "open", MOYAI_ARGS(true), MOYAI_INTO(&gates), NULL));
    KIT_OK(moyai_future_get(other, MOYAI_NONE));
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    moyai_future_free(f);
    moyai_future_free(other);
}

/* ---- several callers ------------------------------------------------------------------------- */

static int role_caller(int argc, char **argv) {
    (void)argc;
    int me = atoi(argv[0]), n = atoi(argv[1]);
    moyai_node *mine = kit_node(NULL);
    moyai_ref *ref = kit_lookup(mine, "server");
    for (int i = 0; i < n; i++) {
        size_t size = (size_t)(i % 50 == 0 ? LARGE : i % 100), got = 0;
        uint8_t seed = (uint8_t)(me * 50 + i);
        const void *p;
        moyai_future *f = moyai_call_async(ref, "give", MOYAI_ARGS(seed, size));
        moyai_future *g = moyai_call_async(ref, "add", MOYAI_ARGS(1));
        KIT_OK(moyai_future_get(g, MOYAI_NONE));
        KIT_OK(moyai_future_get(f, MOYAI_INTO(moyai_into_bytes(&p, &got))));
        FIBER_ASSERT(got == size && is_filled(p, got, seed));
        moyai_future_free(f);
        moyai_future_free(g);
    }
    moyai_ref_unref(ref);
    moyai_node_free(mine);
    return 0;
}

static void several_callers(void **state) {
    (void)state;
    int64_t before = counts(refs[1]).sum;
    const int n = FIBER_SCALE(1000, 200, 200);
    char number[16], me[16];
    snprintf(number, sizeof number, "%d", n);
    pid_t callers[3];
    for (int i = 0; i < 3; i++) {
        snprintf(me, sizeof me, "%d", i);
        callers[i] = kit_child("caller", me, number, NULL);
    }
    for (int i = 0; i < n; i++) KIT_OK(moyai_call(refs[1], "add", MOYAI_ARGS(1), MOYAI_NONE, NULL));
    for (int i = 0; i < 3; i++) FIBER_ASSERT_INT(kit_reap(callers[i]), 0);
    FIBER_ASSERT_INT(counts(refs[1]).sum - before, 4 * n);
}

static int tests(void) {
#define WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest all[] = {
        WORLD(freed_before_it_leaves),
        WORLD(freed_while_it_runs),
        WORLD(freed_when_it_is_ready),
        WORLD(freed_at_any_moment),
        WORLD(an_array_is_lent_until_completion),
        WORLD(one_way_calls_arrive),
        WORLD(one_way_calls_survive_their_node),
        WORLD(a_function_follows_completion),
        WORLD(a_freed_future_is_not_followed),
        WORLD(a_future_is_in_one_set),
        WORLD(a_set_gives_futures_in_the_order_of_completion),
        WORLD(a_set_serves_one_waiter),
        WORLD(a_waiter_hears_that_its_set_was_freed),
        WORLD(a_waiter_hears_that_its_future_was_freed),
        WORLD(waiting_for_all_ends_with_the_last),
        WORLD(a_waiter_waits_on_for_what_another_took),
        WORLD(a_set_is_of_one_node),
        WORLD(deadlines_are_moved_while_the_peer_is_stopped),
        WORLD(several_callers),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"server", role_server}, {"caller", role_caller}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
