/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's object.
 *
 * A job is a set of subtrees. While it searches, the worker exchanges with the master every EXCHANGE: the best
 * makespan both ways, its count of nodes, and what is left of the job, so that when this process dies another goes on
 * from there. When others are idle the master asks it to give: it splits off the untouched half of what is left and
 * hands it over *together with* its new rest, in one call, so that at no moment a subtree is in two places or in none.
 *
 * The calls are asynchronous: the search goes on while they are on their way, and looks between two slices whether
 * the answer is there.
 *
 * A worker that is told to leave (SIGTERM) breaks off between two slices, and returns what is left of the job with what
 * it has found: others go on there, and nothing is searched twice.
 */
#include "worker.h"

#include "bound.h"
#include "greedy.h"
#include "instance.h"
#include "search.h"

#include <inttypes.h>
#include <moyai.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXCHANGE (20 * MOYAI_MS)
#define SLICE    4096 /* nodes between two looks at the clock: about a millisecond */
#define PATIENCE (2 * MOYAI_SEC)
#define SPLIT    6 /* subtrees of fewer free jobs are not worth a journey */

struct worker {
    moyai_ref *master;
    int64_t number; /* the master's name for this worker */
    struct instance *in;
    struct search *search;
    uint32_t fingerprint;
};

/* A search for the instance that these bytes describe; kept from job to job of one instance. */
static int prepare(struct worker *w, moyai_request *rq, const void *bytes, size_t n) {
    struct instance *in;
    struct fail f;
    if (instance_load(&in, bytes, n, &f)) return moyai_raise(rq, MOYAI_EDATA, "%s", f.text);
    uint32_t print = instance_fingerprint(in);
    if (w->search && print == w->fingerprint) {
        instance_free(in);
        return 0;
    }
    struct search *s = search_new(in);
    if (!s) {
        instance_free(in);
        return moyai_raise(rq, MOYAI_ENOMEM, "out of memory for a search");
    }
    search_free(w->search);
    instance_free(w->in);
    w->search = s;
    w->in = in;
    w->fingerprint = print;
    return 0;
}

/* greedy(instance, seconds, seed) -> makespan, permutation */
static int greedy(moyai_request *rq, void *self) {
    struct worker *w = self;
    const void *bytes;
    size_t n;
    double seconds;
    uint64_t seed;
    if (moyai_args(rq, MOYAI_INTO(moyai_into_bytes(&bytes, &n), &seconds, &seed)) < 0)
        return moyai_raise(rq, MOYAI_EARGS, "greedy(instance, seconds, seed)");
    int rc = prepare(w, rq, bytes, n);
    if (rc < 0) return rc;
    uint16_t perm[INSTANCE_MAX_JOBS];
    int32_t best = greedy_search(w->in, seconds, seed, bound_instance(w->in), perm);
    if (best < 0) return moyai_raise(rq, MOYAI_ENOMEM, "out of memory for a start value");
    return moyai_return(rq, MOYAI_ARGS(best, moyai_u16s(perm, (size_t)w->in->n)));
}

/* One talk with the master on its way. */
struct talk {
    moyai_future *f;
    moyai_ns next; /* when the next one is due */
    int32_t told;  /* the makespan the master has been told */
};

static void talk_begin(struct worker *w, struct talk *t, uint64_t before) {
    uint16_t perm[INSTANCE_MAX_JOBS];
    int32_t best = search_best(w->search, perm);
    size_t n = best >= 0 && best < t->told ? (size_t)w->in->n : 0;
    if (n) t->told = best;
    struct bytes rest = {0};
    int saved = search_save(w->search, &rest);
    t->f = moyai_call_async(w->master, "exchange",
                            MOYAI_ARGS(w->number, n ? best : -1, moyai_u16s(perm, n), search_nodes(w->search) - before,
                                       moyai_bytes(rest.p, saved > 0 ? rest.n : 0)));
    bytes_done(&rest);
}

/* Give half of what is left. Waits for the answer: what is given must have arrived before the job can end. */
static int give(struct worker *w) {
    struct bytes part = {0}, rest = {0};
    int split = search_split(w->search, SPLIT, &part);
    int saved = search_save(w->search, &rest);
    int rc = 0;
    if (split < 0 || saved < 0)
        rc = MOYAI_ENOMEM; /* half given and not handed over would be lost: the job fails and is handed out again */
    else
        rc = moyai_call(w->master, "give",
                        MOYAI_ARGS(w->number, moyai_bytes(part.p, split > 0 ? part.n : 0),
                                   moyai_bytes(rest.p, saved > 0 ? rest.n : 0)),
                        MOYAI_NONE, NULL);
    bytes_done(&part);
    bytes_done(&rest);
    return rc;
}

/* Hear the answer if it is there. */
static int talk_end(struct worker *w, struct talk *t) {
    int32_t upper;
    bool hungry;
    int rc = moyai_future_get(t->f, MOYAI_INTO(&upper, &hungry));
    moyai_future_free(t->f);
    t->f = NULL;
    t->next = moyai_now() + (moyai_ns)EXCHANGE;
    if (rc < 0) return rc;
    search_upper(w->search, upper);
    return hungry ? give(w) : 0;
}

/* doJob(instance, task, upper) -> nodes, makespan or -1, permutation, what is left if this worker leaves */
static int do_job(moyai_request *rq, void *self) {
    struct worker *w = self;
    const void *bytes, *task;
    size_t n, n_task;
    int32_t upper;
    if (moyai_args(rq, MOYAI_INTO(moyai_into_bytes(&bytes, &n), moyai_into_bytes(&task, &n_task), &upper)) < 0)
        return moyai_raise(rq, MOYAI_EARGS, "doJob(instance, task, upper)");
    int rc = prepare(w, rq, bytes, n);
    if (rc < 0) return rc;
    struct fail f;
    search_upper(w->search, upper);
    if (n_task == 0)
        search_whole(w->search);
    else if (search_load(w->search, task, n_task, &f))
        return moyai_raise(rq, MOYAI_EDATA, "%s", f.text);
    uint64_t before = search_nodes(w->search);
    struct talk t = {.next = moyai_now() + (moyai_ns)EXCHANGE, .told = upper};
    while (rc == 0 && search_run(w->search, SLICE) == SEARCH_MORE) {
        if (moyai_leaving(moyai_request_node(rq))) break;
        if (t.f ? moyai_future_ready(t.f) : moyai_now() < t.next) {
            if (t.f) rc = talk_end(w, &t);
            continue;
        }
        if (!t.f) talk_begin(w, &t, before);
        if (moyai_cancelled(rq)) rc = MOYAI_ECANCELED;
    }
    if (t.f && rc == 0) rc = talk_end(w, &t);
    moyai_future_free(rc == 0 ? NULL : t.f);
    struct bytes rest = {0};
    if (rc == 0 && search_save(w->search, &rest) < 0) rc = MOYAI_ENOMEM;
    if (rc < 0) {
        bytes_done(&rest);
        return moyai_raise(rq, rc, "the search was broken off: %s", moyai_strerror(rc));
    }
    uint16_t perm[INSTANCE_MAX_JOBS];
    int32_t best = search_best(w->search, perm);
    bool news = best >= 0 && best < upper;
    rc = moyai_return(rq, MOYAI_ARGS(search_nodes(w->search) - before, news ? best : -1,
                                     moyai_u16s(perm, news ? (size_t)w->in->n : 0), moyai_bytes(rest.p, rest.n)));
    bytes_done(&rest);
    return rc;
}

static const struct moyai_method methods[] = {{"greedy", greedy}, {"doJob", do_job}, {NULL, NULL}};
static const struct moyai_class worker_class = MOYAI_CLASS("Worker", methods, NULL);

static int fail(moyai_node *n, const char *what) {
    struct moyai_error e;
    moyai_last_error(n, &e);
    fprintf(stderr, "flowshop worker: %s: %s\n", what, e.text);
    return 1;
}

static void write_pid(const char *path) {
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f) return;
    fprintf(f, "%d\n", (int)getpid());
    fclose(f);
}

/* Wait for a name. Whoever waits for long shall know what for; and be able to end it. */
static int find(moyai_node *n, const char *name, moyai_ref **ret) {
    int rc = moyai_lookup_wait(n, name, PATIENCE, ret);
    if (rc != MOYAI_ETIMEDOUT || moyai_node_stopping(n)) return rc;
    const char *grid = getenv("MOYAI_GRID");
    fprintf(stderr, "flowshop worker: waits for a '%s' in %s%s\n", name,
            grid && *grid ? "the grid " : "this process alone",
            grid && *grid ? grid : ": MOYAI_GRID is not set (moyai run sets it)");
    while (rc == MOYAI_ETIMEDOUT && !moyai_node_stopping(n)) rc = moyai_lookup_wait(n, name, PATIENCE, ret);
    return rc;
}

static void stayed(moyai_future *f, void *node) {
    (void)f;
    moyai_node_stop(node);
}

/* Until the master has done its work, or this process is told to go (SIGTERM); jobs come in meanwhile. */
static int stay(struct worker *w, moyai_node *n, moyai_ref *lobby) {
    moyai_future *f = moyai_call_async(lobby, "stay", MOYAI_ARGS(w->number));
    int rc = moyai_future_then(f, stayed, n);
    if (rc == 0) rc = moyai_node_serve(n, MOYAI_FOREVER);
    if (rc == 0 && moyai_future_ready(f)) {
        rc = moyai_future_get(f, MOYAI_NONE);
    } else if (rc == 0) {  /* of a master that is gone as well nobody is left to be told */
        moyai_leave(n, 0); /* after Ctrl-C, too, it ends when its job has been given back */
        (void)moyai_call(w->master, "nodeLeave", MOYAI_ARGS(w->number), MOYAI_NONE, NULL);
    }
    moyai_future_free(f);
    return rc;
}

int worker_main(const char *pid_file) {
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.title = "flowshop worker";
    opts.signals = true;
    moyai_node *node;
    struct moyai_error e;
    if (moyai_node_new(&node, &opts, &e) < 0) {
        fprintf(stderr, "flowshop worker: %s\n", e.text);
        return 1;
    }
    struct worker w = {0};
    moyai_ref *self, *lobby = NULL;
    int status = 1;
    if (moyai_object_new(node, &worker_class, &w, &self, &e) < 0) {
        fprintf(stderr, "flowshop worker: %s\n", e.text);
        moyai_node_free(node);
        return 1;
    }
    if (find(node, "flowshop master", &w.master) < 0 || find(node, "flowshop lobby", &lobby) < 0) {
        status = moyai_node_stopping(node) ? 0 : fail(node, "cannot find the master");
    } else {
        int rc = moyai_call(w.master, "nodeJoin", MOYAI_ARGS(self), MOYAI_INTO(&w.number), NULL);
        bool late = rc == MOYAI_ECLOSED || rc == MOYAI_EDEAD; /* it has done its work since it was found */
        if (rc < 0) {
            status = late ? 0 : fail(node, "cannot join the master");
        } else {
            write_pid(pid_file);
            rc = stay(&w, node, lobby);
            status = rc == 0 || rc == MOYAI_ECLOSED ? 0 : fail(node, "the master is gone");
        }
    }
    moyai_ref_unref(w.master);
    moyai_ref_unref(lobby);
    moyai_ref_unref(self);
    moyai_node_free(node);
    search_free(w.search);
    instance_free(w.in);
    return status;
}
