/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker of moyai(7), which is asked to end at any moment: it lets nothing new begin, finishes what it has begun,
 * and frees its node. No call that has begun is lost, and so no work is done twice by who repeats the others.
 */
#include "tests/public/kit.h"

enum { BEGUN, ENDED, COUNTS };
static _Atomic uint32_t *counts;

static uint64_t rng;
static unsigned draw(unsigned below) {
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(rng >> 33) % below;
}

static int m_work(moyai_request *rq, void *self) {
    (void)self;
    int n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&n)));
    counts[BEGUN]++;
    for (unsigned i = draw(20); i > 0; i--) {
        if (draw(4))
            moyai_yield(moyai_request_node(rq));
        else
            (void)moyai_sleep(moyai_request_node(rq), (moyai_dur)draw(1000) * MOYAI_US);
    }
    counts[ENDED]++;
    return moyai_return(rq, MOYAI_ARGS(2 * n));
}
static const struct moyai_method methods[] = {{"work", m_work}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Worker", methods, NULL);

static int role_worker(int argc, char **argv) {
    (void)argc;
    counts = kit_shared(argv[0], COUNTS);
    rng = strtoull(argv[1], NULL, 10);
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.signals = true;
    moyai_node *node = kit_node(&opts);
    moyai_ref *ref = kit_object(node, &cls, NULL);
    KIT_OK(moyai_register(ref, argv[0]));
    int rc = moyai_node_serve(node, MOYAI_FOREVER);
    struct moyai_node_stats now = {.size = sizeof now};
    (void)moyai_object_end(ref);
    for (;;) {
        moyai_node_stats(node, &now);
        if (now.fibers == 0) break;
        (void)moyai_sleep_masked(node, MOYAI_MS);
    }
    moyai_ref_unref(ref);
    moyai_node_free(node);
    return rc < 0;
}

/* Calls go out until the worker refuses them; after `most` answers it is asked to end. */
static void round_of(moyai_node *node, int round) {
    char name[32], seed[32];
    snprintf(name, sizeof name, "worker%d", round);
    snprintf(seed, sizeof seed, "%u", draw(1u << 30));
    counts = kit_shared(name, COUNTS);
    pid_t pid = kit_child("worker", name, seed, NULL);
    moyai_ref *ref = kit_lookup(node, name);
    moyai_set *set = kit_set(node);
    unsigned good = 0, most = draw(200), at_once = 1 + draw(30);
    bool asked = false, refused = false;
    for (int job = 0; !refused || moyai_set_count(set) > 0;) {
        while (!refused && moyai_set_count(set) < at_once) {
            moyai_future *f = moyai_call_async(ref, "work", MOYAI_ARGS(job));
            moyai_future_set_user(f, (void *)(intptr_t)job++);
            KIT_OK(moyai_set_add(set, f));
        }
        if (!asked && good >= most) {
            FIBER_ASSERT_INT(kill(pid, SIGTERM), 0);
            asked = true;
        }
        KIT_OK(moyai_wait(set, MOYAI_FOREVER));
        for (moyai_future *f; (f = moyai_set_next(set)); moyai_future_free(f)) {
            int x = -1, rc = moyai_future_get(f, MOYAI_INTO(&x));
            if (rc == 0) {
                FIBER_ASSERT_INT(x, 2 * (int)(intptr_t)moyai_future_user(f));
                good++;
                continue;
            }
            FIBER_ASSERT(asked);
            if (rc == MOYAI_EDEAD) FIBER_ASSERT_INT(good, 0); /* it had ended before this node met it */
            if (rc != MOYAI_ELEAVING && rc != MOYAI_EDEAD) KIT_RC(rc, MOYAI_ECLOSED);
            refused = true;
        }
    }
    FIBER_ASSERT_INT(kit_reap(pid), 0);
    FIBER_ASSERT_INT(counts[ENDED], counts[BEGUN]);
    FIBER_ASSERT_INT(good, counts[BEGUN]);
    moyai_set_free(set);
    moyai_ref_unref(ref);
}

static void what_has_begun_is_finished(void **state) {
    (void)state;
    rng = kit_seed();
    moyai_node *node = kit_node(NULL);
    for (int round = 0; round < (kit_long() ? 1000 : 40); round++) round_of(node, round);
    moyai_node_free(node);
}

static int tests(void) {
    const struct CMUnitTest list[] = {cmocka_unit_test(what_has_begun_is_finished)};
    return cmocka_run_group_tests(list, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"worker", role_worker}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
