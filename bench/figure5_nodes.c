/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master is figure 1 of S0: it calls its workers asynchronously, one task each, and what has failed with its worker
 * it gives to another. It knows nothing of clusters, kills and cuts but what its calls come back with.
 */
#include "bench/figure5.h"

#include "bench/node.h"

#include <fcntl.h>

#define LIMIT        (600 * MOYAI_SEC) /* hang guard */
#define MOST_WORKERS 10000             /* one after another */

/* ---- workers --------------------------------------------------------------------------------- */

static int ran = -1;

/* work(task, ms): the task, when that time has passed. */
static int w_work(moyai_request *rq, void *self) {
    (void)self;
    struct figure5_ran r = {.pid = (int)getpid()};
    int64_t task, ms;
    int rc = moyai_args(rq, MOYAI_INTO(&task, &ms));
    if (rc < 0) return rc;
    r.task = (int)task;
    bench_write(ran, &r, sizeof r); /* in one write: others append to it, too */
    rc = moyai_sleep_masked(moyai_request_node(rq), ms * MOYAI_MS);
    return rc < 0 ? moyai_raise(rq, rc, "a task") : moyai_return(rq, MOYAI_ARGS(task));
}

static const struct moyai_method worker_methods[] = {{"work", w_work}, {NULL, NULL}};
static const struct moyai_class worker_class = MOYAI_CLASS("Worker", worker_methods, NULL);

int figure5_worker(int said) {
    ran = open(getenv("FIGURE5_RAN"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (ran < 0) bench_die("%s", getenv("FIGURE5_RAN"));
    moyai_node *n = node_join("worker", true);
    moyai_ref *master = NULL, *me = node_object(n, &worker_class, NULL);
    int64_t pid = getpid();
    const char *site = getenv("MOYAI_SITE");
    int rc = moyai_lookup_wait(n, "master", LIMIT, &master);
    while (rc == 0) {
        rc = moyai_call(master, "hello", MOYAI_ARGS(me, pid, site), MOYAI_NONE, NULL);
        if (rc != MOYAI_EUNREACHABLE || moyai_node_stopping(n)) break;
        rc = 0; /* who linked it to the rest may just have been killed */
    }
    if (rc < 0 && !moyai_node_stopping(n)) node_die(n, "cannot call the master", rc);
    (void)!write(said, "x", 1);
    close(said);
    (void)moyai_node_serve(n, MOYAI_FOREVER);
    moyai_ref_unref(master);
    moyai_ref_unref(me);
    moyai_node_free(n);
    return 0;
}

/* ---- the master ------------------------------------------------------------------------------ */

struct worker {
    moyai_ref *ref;
    int64_t pid;
    int task;
};

static struct {
    moyai_node *node;
    FILE *log;
    struct worker w[MOST_WORKERS];
    int n_workers;
    struct worker *idle[MOST_WORKERS];
    int n_idle;
    int *tasks, n_tasks; /* to be handed out */
} m;

static int m_hello(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    int64_t pid;
    const char *site;
    int rc = moyai_args(rq, MOYAI_INTO(&ref, &pid, &site));
    if (rc < 0) return rc;
    for (int i = 0; i < m.n_workers; i++)
        if (moyai_ref_equal(m.w[i].ref, ref)) { /* the answer to the one before did not get through */
            moyai_ref_unref(ref);
            return 0;
        }
    if (m.n_workers == MOST_WORKERS) bench_die("a worker too many");
    struct worker *w = &m.w[m.n_workers++];
    *w = (struct worker){.ref = ref, .pid = pid};
    m.idle[m.n_idle++] = w;
    fprintf(m.log, "J %.6f %d %s\n", bench_now(), (int)pid, site);
    return moyai_signal(moyai_self(rq));
}

static void hand_out(moyai_set *busy, int64_t ms) {
    while (m.n_idle > 0 && m.n_tasks > 0) {
        struct worker *w = m.idle[--m.n_idle];
        w->task = m.tasks[--m.n_tasks];
        moyai_future *f = moyai_call_async(w->ref, "work", MOYAI_ARGS((int64_t)w->task, ms));
        moyai_future_set_user(f, w);
        int rc = moyai_set_add(busy, f);
        if (rc < 0) node_die(m.node, "set", rc);
    }
}

/* 1: done. Else its worker has gone, and it is to be done by another. */
static int take(moyai_future *f) {
    struct worker *w = moyai_future_user(f);
    int64_t task;
    double t = bench_now();
    int rc = moyai_future_get(f, MOYAI_INTO(&task));
    if (rc == 0) {
        if (task != w->task) bench_die("the answer of another task");
        fprintf(m.log, "D %.6f %d %d\n", t, (int)w->pid, w->task);
        m.idle[m.n_idle++] = w;
        return 1;
    }
    struct moyai_error e;
    moyai_future_error(f, 0, &e);
    fprintf(m.log, "L %.6f %d %d %s %s\n", t, (int)w->pid, w->task, moyai_err_name(rc), e.text);
    m.tasks[m.n_tasks++] = w->task;
    return 0;
}

/* Runs as a method, so that hello wakes it. */
static int m_run(moyai_request *rq, void *self) {
    (void)self;
    int64_t tasks, ms;
    moyai_set *busy;
    int rc = moyai_args(rq, MOYAI_INTO(&tasks, &ms));
    if (rc == 0) rc = moyai_set_new(m.node, &busy);
    if (rc < 0) return rc;
    double told = 0;
    for (int64_t done = 0; done < tasks;) {
        hand_out(busy, ms);
        rc = moyai_wait(busy, MOYAI_SEC);
        if (rc < 0 && rc != MOYAI_SIGNALLED && rc != MOYAI_ETIMEDOUT) node_die(m.node, "wait", rc);
        for (moyai_future *f; (f = moyai_set_next(busy)); moyai_future_free(f)) done += take(f);
        if (bench_now() - told < 1) continue;
        told = bench_now();
        struct moyai_node_stats s = {.size = sizeof s};
        moyai_node_stats(m.node, &s);
        fprintf(m.log, "N %.6f %d\n", told, (int)s.links);
    }
    moyai_set_free(busy);
    return 0;
}

static const struct moyai_method master_methods[] = {{"hello", m_hello}, {"run", m_run}, {NULL, NULL}};
static const struct moyai_class master_class = MOYAI_CLASS("Master", master_methods, NULL);

int figure5_master(int tasks, int ms) {
    m.log = fopen(getenv("FIGURE5_LOG"), "we");
    m.tasks = calloc((size_t)tasks, sizeof *m.tasks);
    if (!m.log || !m.tasks) bench_die("%s", getenv("FIGURE5_LOG"));
    for (int i = tasks; i-- > 0;) m.tasks[m.n_tasks++] = i;
    m.node = node_join("master", false);
    moyai_ref *me = node_object(m.node, &master_class, NULL);
    int rc = moyai_register(me, "master");
    if (rc < 0) node_die(m.node, "register", rc);
    fputs("ready\n", stdout);
    fflush(stdout);
    rc = moyai_call(me, "run", MOYAI_ARGS((int64_t)tasks, (int64_t)ms), MOYAI_NONE, NULL);
    if (rc < 0) node_die(m.node, "run", rc);
    if (fclose(m.log) != 0) bench_die("%s", getenv("FIGURE5_LOG"));
    for (int i = 0; i < m.n_workers; i++) moyai_ref_unref(m.w[i].ref);
    moyai_ref_unref(me);
    moyai_node_free(m.node);
    free(m.tasks);
    return 0;
}
