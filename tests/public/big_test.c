/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Very large numbers, which take their time: ten million calls at once, of which the queue takes what its limit says
 * and refuses the others; as many with back-pressure; an argument and a result of 1 GiB.
 */
#include "tests/public/kit.h"

enum { CALLS = 10000000, QUEUE = 1000000 };

struct server {
    int64_t calls, last;
};

static int m_take(moyai_request *rq, void *self) {
    struct server *s = self;
    int64_t i;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&i)));
    if (i <= s->last) FIBER_FAIL("call %lld after %lld", (long long)i, (long long)s->last);
    s->last = i;
    s->calls++;
    return moyai_return(rq, MOYAI_ARGS(i));
}

static int m_reset(moyai_request *rq, void *self) {
    struct server *s = self;
    int rc = moyai_return(rq, MOYAI_ARGS(s->calls));
    *s = (struct server){0, -1};
    return rc;
}

static uint64_t element(size_t i) {
    return i * 0x9e3779b97f4a7c15u;
}

static int m_sum(moyai_request *rq, void *self) {
    (void)self;
    const uint64_t *p;
    size_t n;
    bool back;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&back, moyai_into_u64s(&p, &n))));
    for (size_t i = 0; i < n; i++)
        if (p[i] != element(i)) return moyai_raise(rq, MOYAI_EDATA, "element %zu", i);
    return back ? moyai_return(rq, MOYAI_ARGS(moyai_u64s(p, n))) : moyai_return(rq, MOYAI_ARGS(n));
}

static const struct moyai_method methods[] = {{"take", m_take}, {"reset", m_reset}, {"sum", m_sum}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Big", methods, NULL);

static int role_big(int argc, char **argv) {
    (void)argc, (void)argv;
    struct server s = {0, -1};
    return kit_serve(NULL, &cls, &s, "big");
}

static struct {
    moyai_node *node;
    moyai_ref *near, *far;
    struct server here;
    pid_t pid;
} w;

static int open_world(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.max_message = (size_t)1 << 30 | 4096;
    w.node = kit_node(&opts);
    w.here = (struct server){0, -1};
    w.near = kit_object(w.node, &cls, &w.here);
    w.pid = kit_child("big", "MOYAI_MAX_MESSAGE=1074000000", NULL);
    w.far = kit_lookup(w.node, "big");
    KIT_OK(moyai_call(w.far, "reset", MOYAI_NONE, MOYAI_NONE, NULL));
    return 0;
}

static int close_world(void **state) {
    (void)state;
    moyai_ref_unref(w.near);
    moyai_ref_unref(w.far);
    moyai_node_free(w.node);
    kit_end(w.pid);
    return 0;
}

/* ---- ten million at once --------------------------------------------------------------------- */

static void ten_million(moyai_ref *ref) {
    moyai_future **f = malloc(CALLS * sizeof(moyai_future *)); /* how many are through meanwhile depends */
    FIBER_ASSERT(f);
    int64_t taken = 0, refused = 0;
    for (int64_t i = 0; i < CALLS; i++) {
        moyai_future *g = moyai_call_async(ref, "take", MOYAI_ARGS(i));
        struct moyai_error e;
        int rc = moyai_future_error(g, 0, &e);
        if (rc == 0) {
            f[taken++] = g;
            continue;
        }
        KIT_RC(rc, MOYAI_EAGAIN);
        FIBER_ASSERT_INT(e.executed, MOYAI_NEVER_EXECUTED);
        refused++;
        moyai_future_free(g);
    }
    printf("%lld taken, %lld refused\n", (long long)taken, (long long)refused);
    FIBER_ASSERT(taken >= QUEUE && refused > 0);
    if (ref == w.far) kit_cont(w.pid);
    for (int64_t i = 0; i < taken; i++) {
        KIT_OK(moyai_future_get(f[i], MOYAI_NONE));
        moyai_future_free(f[i]);
    }
    free(f);
    int64_t calls = 0;
    KIT_OK(moyai_call(ref, "reset", MOYAI_NONE, MOYAI_INTO(&calls), NULL));
    FIBER_ASSERT_INT(calls, taken);
}

static void ten_million_outstanding(void **state) {
    (void)state;
    kit_stop(w.pid); /* else some would be through before the last is made */
    ten_million(w.far);
    ten_million(w.near);
}

/* ---- ten million with back-pressure ---------------------------------------------------------- */

static void ten_million_in_a_row(void **state) {
    (void)state;
    moyai_set *set = kit_set(w.node);
    int64_t done = 0;
    for (int64_t i = 0; i < CALLS;) {
        moyai_future *f = moyai_call_async(w.far, "take", MOYAI_ARGS(i));
        if (moyai_future_error(f, 0, NULL) == MOYAI_EAGAIN) {
            moyai_future_free(f);
            KIT_OK(moyai_room(w.far, MOYAI_FOREVER));
        } else {
            KIT_OK(moyai_set_add(set, f));
            i++;
        }
        if (i % 4096 == 0) moyai_yield(w.node);
        while ((f = moyai_set_next(set))) {
            KIT_OK(moyai_future_get(f, MOYAI_NONE));
            moyai_future_free(f);
            done++;
        }
    }
    moyai_future *f;
    while (done < CALLS) {
        KIT_OK(moyai_wait(set, MOYAI_FOREVER));
        while ((f = moyai_set_next(set))) {
            KIT_OK(moyai_future_get(f, MOYAI_NONE));
            moyai_future_free(f);
            done++;
        }
    }
    moyai_set_free(set);
    int64_t calls = 0;
    KIT_OK(moyai_call(w.far, "reset", MOYAI_NONE, MOYAI_INTO(&calls), NULL));
    FIBER_ASSERT_INT(calls, CALLS);
}

/* ---- 1 GiB ----------------------------------------------------------------------------------- */

static void a_gibibyte(void **state) {
    (void)state;
    size_t n = ((size_t)1 << 30) / sizeof(uint64_t), m = 0;
    uint64_t *p = malloc(n * sizeof *p);
    FIBER_ASSERT(p);
    for (size_t i = 0; i < n; i++) p[i] = element(i);
    KIT_OK(moyai_call(w.far, "sum", MOYAI_ARGS((bool)false, moyai_u64s(p, n)), MOYAI_INTO(&m), NULL));
    FIBER_ASSERT_INT(m, n);
    /* There and back with half of it: this process has it three times then. */
    n /= 2;
    const uint64_t *q = NULL;
    moyai_future *f = moyai_call_async(w.far, "sum", MOYAI_ARGS((bool)true, moyai_u64s(p, n)));
    KIT_OK(moyai_future_get(f, MOYAI_INTO(moyai_into_u64s(&q, &m))));
    FIBER_ASSERT(m == n && (uintptr_t)q % 8 == 0);
    for (size_t i = 0; i < n; i++)
        if (q[i] != element(i)) FIBER_FAIL("element %zu", i);
    moyai_future_free(f);
    /* One byte more than a message may have. */
    f = moyai_call_async(w.far, "sum", MOYAI_ARGS((bool)false, moyai_bytes(p, ((size_t)1 << 30) + 4096)));
    KIT_FAILED(f, MOYAI_ETOOBIG, MOYAI_AT_CALLER, MOYAI_NEVER_EXECUTED);
    moyai_future_free(f);
    free(p);
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test_setup_teardown(ten_million_outstanding, open_world, close_world),
        cmocka_unit_test_setup_teardown(ten_million_in_a_row, open_world, close_world),
        cmocka_unit_test_setup_teardown(a_gibibyte, open_world, close_world),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"big", role_big}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
