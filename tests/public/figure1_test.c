/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paper's program (S0/3.4, figure 1) with a grid that does not hold still: a master hands out jobs to workers that
 * join, are killed at any moment, leave in order, or fail; each job is finished exactly once in the master's book, and
 * none is lost. The schedule follows from a seed and from how far the jobs are.
 */
#include "tests/public/kit.h"

#include <signal.h>
#include <stdatomic.h>

enum { JOBS = 2000, WORKERS = 8 };

static int64_t answer(int64_t job) {
    return job * job + 7;
}

/* ---- the worker ------------------------------------------------------------------------------ */

struct worker {
    moyai_node *node;
    moyai_ref *master, *self;
    _Atomic uint32_t *executed;
};

static int worker_work(moyai_request *rq, void *self) {
    struct worker *w = self;
    int64_t job;
    if (moyai_args(rq, MOYAI_INTO(&job)) < 0) return moyai_raise(rq, MOYAI_EARGS, "work(job)");
    uint32_t times = ++w->executed[job];
    if (job % 100 == 13 && times == 1) { /* the master drops it; it comes again */
        KIT_OK(moyai_call_oneway(w->master, "nodeJoin", MOYAI_ARGS(w->self)));
        return moyai_raise(rq, -1001, "tired");
    }
    if (job % 3 == 0) {
        int rc = moyai_sleep(w->node, (job % 5) * 200 * MOYAI_US);
        if (rc != MOYAI_ELEAVING) KIT_OK(rc); /* then what is left is done at once */
    }
    if (job % 7 == 0) kit_compute(job % 11 * 50 * MOYAI_US);
    return moyai_return(rq, MOYAI_ARGS(answer(job)));
}

static const struct moyai_method worker_methods[] = {{"work", worker_work}, {NULL, NULL}};
static const struct moyai_class worker_class = MOYAI_CLASS("Worker", worker_methods, NULL);

static int role_worker(int argc, char **argv) {
    (void)argc, (void)argv;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.signals = true;
    struct worker w = {.node = kit_node(&opts), .executed = kit_shared("executed", JOBS)};
    w.self = kit_object(w.node, &worker_class, &w);
    w.master = kit_lookup(w.node, "master");
    KIT_OK(moyai_call(w.master, "nodeJoin", MOYAI_ARGS(w.self), MOYAI_NONE, NULL));
    KIT_OK(moyai_node_serve(w.node, MOYAI_FOREVER));
    moyai_ref_unref(w.self);
    moyai_ref_unref(w.master);
    moyai_node_free(w.node);
    return 0;
}

/* ---- the master ------------------------------------------------------------------------------ */

struct assignment {
    moyai_ref *node;
    int64_t job;
};

struct master {
    moyai_node *node;
    moyai_ref *nodes[1000]; /* idle workers */
    int n_nodes;
    int64_t jobs[JOBS]; /* waiting */
    int n_jobs;
    int finished[JOBS];
    int n_finished, n_again, n_assigned, n_idle_waits;
};

static int master_add_job(moyai_request *rq, void *self) {
    struct master *m = self;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&m->jobs[m->n_jobs])));
    m->n_jobs++;
    return moyai_signal(moyai_self(rq));
}

static int master_node_join(moyai_request *rq, void *self) {
    struct master *m = self;
    FIBER_ASSERT(m->n_nodes < 1000);
    KIT_OK(moyai_args(rq, MOYAI_INTO(&m->nodes[m->n_nodes])));
    m->n_nodes++;
    return moyai_signal(moyai_self(rq));
}

/* No lock, no event loop: the paper's program line by line. */
static int master_run(moyai_request *rq, void *self) {
    struct master *m = self;
    moyai_set *assigned = kit_set(moyai_request_node(rq));
    while (m->n_finished < JOBS) {
        while (m->n_nodes > 0 && m->n_jobs > 0) {
            struct assignment *a = malloc(sizeof *a);
            FIBER_ASSERT(a);
            *a = (struct assignment){m->nodes[--m->n_nodes], m->jobs[--m->n_jobs]};
            moyai_future *f = moyai_call_async(a->node, "work", MOYAI_ARGS(a->job));
            moyai_future_set_user(f, a);
            KIT_OK(moyai_set_add(assigned, f));
            m->n_assigned++;
        }
        m->n_idle_waits += moyai_set_count(assigned) == 0;
        int ready = moyai_wait(assigned, MOYAI_FOREVER);
        if (ready == MOYAI_SIGNALLED) continue; /* a worker or a job has come */
        KIT_OK(ready);
        moyai_future *f;
        while ((f = moyai_set_next(assigned))) {
            struct assignment *a = moyai_future_user(f);
            int64_t result = 0;
            int rc = moyai_future_get(f, MOYAI_INTO(&result));
            if (rc == 0) {
                FIBER_ASSERT_INT(result, answer(a->job));
                m->finished[a->job]++;
                m->n_finished++;
                m->nodes[m->n_nodes++] = a->node;
            } else {
                struct moyai_error e;
                moyai_future_error(f, 0, &e);
                if (rc != -1001 && rc != MOYAI_EDEAD && rc != MOYAI_ECLOSED && rc != MOYAI_ELEAVING)
                    FIBER_FAIL("%s: %s", moyai_err_name(rc), e.text);
                m->jobs[m->n_jobs++] = a->job; /* once more, by another: the worker is dropped */
                m->n_again++;
                moyai_ref_unref(a->node);
            }
            free(a);
            moyai_future_free(f);
        }
    }
    moyai_set_free(assigned);
    return 0;
}

static const struct moyai_method master_methods[] = {
    {"addJob", master_add_job}, {"nodeJoin", master_node_join}, {"run", master_run}, {NULL, NULL}};
static const struct moyai_class master_class = MOYAI_CLASS("Master", master_methods, NULL);

/* ---- the grid that does not hold still ------------------------------------------------------- */

static void figure1(void **state) {
    (void)state;
    uint64_t rng = kit_seed();
    static struct master m;
    m.node = kit_node(NULL);
    moyai_ref *master = kit_object(m.node, &master_class, &m);
    KIT_OK(moyai_register(master, "master"));
    _Atomic uint32_t *executed = kit_shared("executed", JOBS);
    moyai_future *run = moyai_call_async(master, "run", MOYAI_NONE); /* no worker, no job: it waits for a signal */
    kit_settle(m.node);
    FIBER_ASSERT_INT(m.n_idle_waits, 1);

    pid_t pid[WORKERS];
    int n = 0, added = 0, next = 0, killed = 0, left = 0, joined = 0;
    while (!moyai_future_ready(run)) {
        if (m.n_finished >= next || n == 0 || added == m.n_finished) {
            rng = rng * 6364136223846793005u + 1442695040888963407u;
            uint32_t x = (uint32_t)(rng >> 33);
            next = m.n_finished + (int)(x % 60);
            for (int i = (int)(x >> 6) % 200; i > 0 && added < JOBS; i--) {
                KIT_OK(moyai_call_oneway(master, "addJob", MOYAI_ARGS(added)));
                added++;
            }
            int what = (int)(x >> 14) % 8, who = n ? (int)(x >> 17) % n : 0;
            if (n == 0 || (what < 4 && n < WORKERS)) {
                pid[n++] = kit_child("worker", NULL);
                joined++;
            } else if (what < 7) {
                kit_kill(pid[who]); /* in its work, in its wait, or before it has joined */
                pid[who] = pid[--n];
                killed++;
            } else {
                /* It leaves in order. It may be just joining, which needs this thread. */
                kill(pid[who], SIGTERM);
                KIT_UNTIL(m.node, kit_gone(pid[who]));
                pid[who] = pid[--n];
                left++;
            }
        }
        KIT_OK(moyai_sleep(m.node, 200 * MOYAI_US));
    }
    KIT_OK(moyai_future_get(run, MOYAI_NONE));
    uint32_t executions = 0;
    for (int i = 0; i < JOBS; i++) {
        FIBER_ASSERT_INT(m.finished[i], 1);
        FIBER_ASSERT(executed[i] >= 1);
        executions += executed[i];
    }
    FIBER_ASSERT_INT(m.n_finished, JOBS);
    FIBER_ASSERT_INT(m.n_assigned, JOBS + m.n_again);
    FIBER_ASSERT(executions <= (uint32_t)m.n_assigned); /* a call runs at most once */
    printf("%d jobs, %d handed out again, %u executions; %d workers joined, %d were killed, %d left\n", JOBS, m.n_again,
           executions, joined, killed, left);
    for (int i = 0; i < n; i++) kit_kill(pid[i]);
    moyai_future_free(run);
    while (m.n_nodes > 0) moyai_ref_unref(m.nodes[--m.n_nodes]);
    moyai_ref_unref(master);
    moyai_node_free(m.node);
}

static int tests(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(figure1)};
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"worker", role_worker}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
