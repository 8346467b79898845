/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls from one node to one object start in the order they were made: small and large ones, one-way ones, to several
 * objects at once, over slow links, across sessions that close and open, and around calls that are given up on the way.
 */
#include "tests/public/kit.h"

enum { LARGE = 1024 * 1024, OBJECTS = 3 };

/* ---- the callee ------------------------------------------------------------------------------ */

struct recorder {
    int64_t next;   /* the number expected, or the least */
    int64_t calls;  /* all */
    int64_t before; /* of all objects, when the last one began */
    bool gaps;      /* numbers may be missing: those of calls that were given up */
};

static int64_t calls_of_all;

/* note(i, bytes): bytes are all of one value, which follows from i. */
static int m_note(moyai_request *rq, void *self) {
    struct recorder *r = self;
    int64_t i;
    const void *p;
    size_t n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&i, moyai_into_bytes(&p, &n))));
    if (r->gaps ? i < r->next : i != r->next)
        FIBER_FAIL("call %lld begins, and %lld was to be next", (long long)i, (long long)r->next);
    r->next = i + 1;
    r->calls++;
    r->before = calls_of_all++;
    const uint8_t *b = p;
    for (size_t k = 0; k < n; k += 4093) FIBER_ASSERT_INT(b[k], 0x5a);
    return moyai_return(rq, MOYAI_ARGS(i));
}

static int m_reset(moyai_request *rq, void *self) {
    struct recorder *r = self;
    bool gaps;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&gaps)));
    int rc = moyai_return(rq, MOYAI_ARGS(r->calls));
    *r = (struct recorder){.gaps = gaps};
    return rc;
}

static int m_before(moyai_request *rq, void *self) {
    return moyai_return(rq, MOYAI_ARGS(((struct recorder *)self)->before));
}

/* call_back(ref, n): n calls to ref in turn. */
static int m_call_back(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    int64_t n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref, &n)));
    moyai_future **f = calloc((size_t)n, sizeof(moyai_future *));
    FIBER_ASSERT(f);
    static const uint8_t bytes[1] = {0x5a};
    for (int64_t i = 0; i < n; i++) f[i] = moyai_call_async(ref, "note", MOYAI_ARGS(i, moyai_bytes(bytes, 1)));
    for (int64_t i = 0; i < n; i++) {
        KIT_OK(moyai_future_get(f[i], MOYAI_NONE));
        moyai_future_free(f[i]);
    }
    free(f);
    moyai_ref_unref(ref);
    return 0;
}

static const struct moyai_method methods[] = {
    {"note", m_note}, {"reset", m_reset}, {"call_back", m_call_back}, {"before", m_before}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Recorder", methods, NULL);

static int role_recorder(int argc, char **argv) {
    (void)argc, (void)argv;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.signals = true;
    moyai_node *n = kit_node(&opts);
    struct recorder r[OBJECTS] = {{0}};
    moyai_ref *ref[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "recorder%d", i);
        ref[i] = kit_object(n, &cls, &r[i]);
        KIT_OK(moyai_register(ref[i], name));
    }
    KIT_OK(moyai_node_serve(n, MOYAI_FOREVER));
    for (int i = 0; i < OBJECTS; i++) moyai_ref_unref(ref[i]);
    moyai_node_free(n);
    return 0;
}

/* ---- the caller ------------------------------------------------------------------------------ */

static struct {
    moyai_node *node;
    moyai_ref *far[OBJECTS], *near;
    struct recorder here;
    pid_t pid;
    uint8_t *bytes;
    uint32_t rng;
    bool larger; /* half of all calls are large */
} w;

static uint32_t draw(void) {
    w.rng = w.rng * 1664525u + 1013904223u;
    return w.rng >> 8;
}

static void open_world_of(const char *env, const char *callees) {
    const char *all[] = {env, callees};
    char *copy[] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        copy[i] = strdup(all[i] ? all[i] : "KIT_NONE=1");
        FIBER_ASSERT(copy[i]);
        char *value = strchr(copy[i], '=');
        *value++ = 0;
        setenv(copy[i], value, 1);
        if (i == 0) w.node = kit_node(NULL);
    }
    w.pid = kit_child("recorder", NULL);
    for (int i = 0; i < OBJECTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "recorder%d", i);
        w.far[i] = kit_lookup(w.node, name);
    }
    for (int i = 0; i < 2; i++) {
        unsetenv(copy[i]);
        free(copy[i]);
    }
    w.here = (struct recorder){0};
    w.near = kit_object(w.node, &cls, &w.here);
    w.bytes = malloc(4 * LARGE);
    FIBER_ASSERT(w.bytes);
    memset(w.bytes, 0x5a, 4 * LARGE);
    w.rng = (uint32_t)kit_seed();
    w.larger = false;
}

/* env holds for both. */
static void open_world(const char *env) {
    open_world_of(env, NULL);
}

static void close_world(void) {
    for (int i = 0; i < OBJECTS; i++) moyai_ref_unref(w.far[i]);
    moyai_ref_unref(w.near);
    moyai_node_free(w.node);
    kit_end(w.pid);
    free(w.bytes);
}

static int64_t reset(moyai_ref *ref, bool gaps) {
    int64_t calls = -1;
    KIT_OK(moyai_call(ref, "reset", MOYAI_ARGS(gaps), MOYAI_INTO(&calls), NULL));
    return calls;
}

static size_t draw_size(void) {
    static const size_t sizes[] = {0, 1, 64, 1000, 4000, 4200, 60000, 66000, 200000};
    uint32_t x = draw();
    if (w.larger && x % 2) return 5000 + (x >> 6) % 60000;
    if (x % 64 == 0) return LARGE;
    return sizes[(x >> 6) % (x % 8 ? 5 : sizeof sizes / sizeof sizes[0])];
}

/* n calls to objects chosen at random, every fourth one-way, made as fast as the queue takes them. */
static void burst(moyai_ref *const *refs, int n_refs, int n) {
    moyai_future **f = calloc((size_t)n, sizeof(moyai_future *));
    int64_t *number = calloc((size_t)n, sizeof(int64_t)), next[OBJECTS] = {0};
    FIBER_ASSERT(f && number);
    for (int i = 0; i < n; i++) {
        int k = (int)(draw() % (uint32_t)n_refs);
        size_t size = draw_size();
        number[i] = next[k]++;
        const struct moyai_args *args = MOYAI_ARGS(number[i], moyai_bytes(w.bytes, size));
        for (;;) {
            int rc;
            if (draw() % 4 == 0) {
                rc = moyai_call_oneway(refs[k], "note", args);
                f[i] = NULL;
            } else {
                f[i] = moyai_call_async(refs[k], "note", args);
                rc = moyai_future_error(f[i], 0, NULL);
            }
            if (rc == 0) break;
            KIT_RC(rc, MOYAI_EAGAIN);
            moyai_future_free(f[i]);
            KIT_OK(moyai_room(refs[k], MOYAI_FOREVER));
        }
        if (draw() % 50 == 0) moyai_yield(w.node);
    }
    for (int i = 0; i < n; i++) {
        int64_t x = -1;
        if (!f[i]) continue;
        KIT_OK(moyai_future_get(f[i], MOYAI_INTO(&x)));
        FIBER_ASSERT_INT(x, number[i]);
        moyai_future_free(f[i]);
    }
    for (int k = 0; k < n_refs; k++) FIBER_ASSERT_INT(reset(refs[k], false), next[k]);
    free(f);
    free(number);
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void ten_thousand_calls(void **state) {
    (void)state;
    open_world(NULL);
    burst(w.far, 1, FIBER_SCALE(10000, 2000, 600));
    close_world();
}

static void within_a_process(void **state) {
    (void)state;
    open_world(NULL);
    burst(&w.near, 1, FIBER_SCALE(3000, 1000, 300));
    close_world();
}

static void several_objects_interleaved(void **state) {
    (void)state;
    open_world(NULL);
    burst(w.far, OBJECTS, FIBER_SCALE(3000, 1000, 300));
    close_world();
}

static void over_a_slow_link(void **state) {
    (void)state;
    open_world("MOYAI_LINK_DELAY=1ms");
    burst(w.far, OBJECTS, FIBER_SCALE(2000, 500, 200));
    close_world();
}

/* Sessions that close when idle for a moment, and are opened again by the next call. */
static void across_sessions(void **state) {
    (void)state;
    open_world("MOYAI_SESSION_IDLE=2ms");
    for (int i = 0; i < 60; i++) {
        int64_t n = 1 + draw() % 8;
        for (int64_t k = 0; k < n; k++)
            KIT_OK(moyai_call_oneway(w.far[0], "note",
                                     MOYAI_ARGS(k, moyai_bytes(w.bytes, k % 3 ? 10 : (size_t)(draw() % 9000)))));
        FIBER_ASSERT_INT(reset(w.far[0], false), n);
        KIT_OK(moyai_sleep(w.node, (1 + draw() % 4) * MOYAI_MS)); /* about as long as it takes to close */
    }
    close_world();
}

/* The same where a session's end is on its way as the next calls are: they come back untaken, small and large ones, and
 * go by the next session in the order in which they were made. */
static void across_ends_on_their_way(void **state) {
    (void)state;
    open_world_of("MOYAI_LINK_DELAY=3ms", "MOYAI_SESSION_IDLE=2ms");
    for (int i = 0; i < 40; i++) {
        for (int64_t k = 0; k < 6; k++)
            KIT_OK(moyai_call_oneway(w.far[0], "note", MOYAI_ARGS(k, moyai_bytes(w.bytes, k % 2 ? 10 : 9000))));
        FIBER_ASSERT_INT(reset(w.far[0], false), 6);
        /* Until the callee has the last reply acknowledged (after 20 ms and the way there), and is idle. */
        KIT_OK(moyai_sleep(w.node, 20 * MOYAI_MS + draw() % (12 * MOYAI_MS)));
    }
    close_world();
}

struct maker {
    int64_t *next;
    int left;
};

static void make_calls(void *arg) {
    struct maker *m = arg;
    while (m->left > 0) {
        moyai_future *f =
            moyai_call_async(w.far[0], "note", MOYAI_ARGS((*m->next)++, moyai_bytes(w.bytes, draw_size())));
        if (draw() % 8 == 0) moyai_yield(w.node);
        if (draw() % 4 == 0) KIT_OK(moyai_future_get(f, MOYAI_NONE));
        if (!moyai_future_ready(f)) KIT_OK(moyai_future_get(f, MOYAI_NONE));
        moyai_future_free(f);
        m->left--;
    }
}

/* Whichever fibers make them. */
static void from_several_fibers(void **state) {
    (void)state;
    open_world(NULL);
    int64_t next = 0;
    struct maker makers[5];
    for (int i = 0; i < 5; i++) {
        makers[i] = (struct maker){&next, FIBER_SCALE(200, 100, 40)};
        KIT_OK(moyai_go(w.node, make_calls, &makers[i]));
    }
    for (int i = 0; i < 5; i++) KIT_UNTIL(w.node, makers[i].left == 0);
    FIBER_ASSERT_INT(reset(w.far[0], false), next);
    close_world();
}

static void both_ways_at_once(void **state) {
    (void)state;
    open_world(NULL);
    int64_t n = FIBER_SCALE(3000, 1000, 300);
    moyai_future *f = moyai_call_async(w.far[1], "call_back", MOYAI_ARGS(w.near, n));
    burst(w.far, 1, (int)n);
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    moyai_future_free(f);
    FIBER_ASSERT_INT(w.here.calls, n);
    close_world();
}

/* Where large ones to one object have all streams, and more wait, a small one to another object goes ahead of them, and
 * one to the same object last. */
static void small_ones_pass_to_others(void **state) {
    (void)state;
    open_world("MOYAI_LINK_RATE=40MB");
    enum { MANY = 160 };
    moyai_future *f[MANY], *other, *same;
    for (int64_t i = 0; i < MANY; i++)
        f[i] = moyai_call_async(w.far[0], "note", MOYAI_ARGS(i, moyai_bytes(w.bytes, LARGE / 2)));
    same = moyai_call_async(w.far[0], "note", MOYAI_ARGS(MANY, moyai_bytes(w.bytes, 10)));
    other = moyai_call_async(w.far[1], "note", MOYAI_ARGS(0, moyai_bytes(w.bytes, 10)));
    for (int i = 0; i < MANY; i++) {
        KIT_OK(moyai_future_get(f[i], MOYAI_NONE));
        moyai_future_free(f[i]);
    }
    KIT_OK(moyai_future_get(same, MOYAI_NONE));
    KIT_OK(moyai_future_get(other, MOYAI_NONE));
    moyai_future_free(same);
    moyai_future_free(other);
    int64_t before = -1;
    KIT_OK(moyai_call(w.far[1], "before", MOYAI_NONE, MOYAI_INTO(&before), NULL));
    FIBER_ASSERT(before >= 0 && before < 12); /* else it has waited until the last has begun */
    FIBER_ASSERT_INT(reset(w.far[0], false), MANY + 1);
    close_world();
}

/* Passing at random: each object's calls keep their order. */
static void with_all_streams_in_use(void **state) {
    (void)state;
    open_world_of("MOYAI_LINK_RATE=200MB", "MOYAI_LINK_DELAY=1ms");
    w.larger = true;
    burst(w.far, OBJECTS, FIBER_SCALE(4000, 1000, 300));
    close_world();
}

/* A large one begins, another follows and is given up half way, a small one follows that: it still begins after the
 * first, though that is the last to be complete. */
static void a_call_given_up_on_the_way(void **state) {
    (void)state;
    open_world("MOYAI_LINK_RATE=40MB");
    for (int round = 0; round < 3; round++) {
        (void)reset(w.far[0], true);
        moyai_future *first =
            moyai_call_async(w.far[0], "note", MOYAI_ARGS(0, moyai_bytes(w.bytes, (size_t)(4 - round) * LARGE)));
        moyai_future *lost = moyai_call_async(w.far[0], "note", MOYAI_ARGS(1, moyai_bytes(w.bytes, 4 * LARGE)));
        moyai_future *small = moyai_call_async(w.far[0], "note", MOYAI_ARGS(2, moyai_bytes(w.bytes, 10)));
        KIT_OK(moyai_ping(w.node, moyai_ref_home(w.far[0]), MOYAI_FOREVER)); /* they have begun to arrive */
        if (round == 1)
            moyai_future_cancel(lost);
        else
            moyai_future_free(lost);
        int64_t x = -1;
        KIT_OK(moyai_future_get(small, MOYAI_INTO(&x)));
        FIBER_ASSERT_INT(x, 2);
        KIT_OK(moyai_future_get(first, MOYAI_INTO(&x)));
        FIBER_ASSERT_INT(x, 0);
        moyai_future_free(first);
        moyai_future_free(small);
        if (round == 1) moyai_future_free(lost);
        FIBER_ASSERT(reset(w.far[0], false) <= 3);
    }
    close_world();
}

/* The same at random. */
static void calls_given_up_at_random(void **state) {
    (void)state;
    open_world("MOYAI_LINK_RATE=300MB");
    enum { SLOTS = 30 };
    moyai_future *f[SLOTS] = {NULL};
    (void)reset(w.far[0], true);
    const int n = FIBER_SCALE(1500, 500, 200);
    for (int64_t i = 0; i < n; i++) {
        uint32_t k = draw() % SLOTS;
        if (f[k] && draw() % 3 == 0) moyai_future_cancel(f[k]);
        moyai_future_free(f[k]);
        f[k] = moyai_call_async(w.far[0], "note", MOYAI_ARGS(i, moyai_bytes(w.bytes, draw_size())));
        if (draw() % 4 == 0) moyai_yield(w.node);
    }
    for (int k = 0; k < SLOTS; k++) {
        if (f[k]) KIT_OK(moyai_future_get(f[k], MOYAI_NONE));
        moyai_future_free(f[k]);
    }
    FIBER_ASSERT(reset(w.far[0], false) > 0);
    close_world();
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(ten_thousand_calls),
        cmocka_unit_test(within_a_process),
        cmocka_unit_test(several_objects_interleaved),
        cmocka_unit_test(over_a_slow_link),
        cmocka_unit_test(across_sessions),
        cmocka_unit_test(across_ends_on_their_way),
        cmocka_unit_test(from_several_fibers),
        cmocka_unit_test(both_ways_at_once),
        cmocka_unit_test(small_ones_pass_to_others),
        cmocka_unit_test(with_all_streams_in_use),
        cmocka_unit_test(a_call_given_up_on_the_way),
        cmocka_unit_test(calls_given_up_at_random),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"recorder", role_recorder}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
