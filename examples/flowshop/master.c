/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master's object: figure 1 of the paper, grown up.
 *
 * run() never ends before all is proved, and yet nodeJoin, exchange and give are served while it is blocked in its
 * wait; no lock anywhere, because state changes only where run() blocks. Newcomers and gifts wake it by a signal.
 *
 * A job is a set of subtrees. Its record holds what is left of it, as of the worker's last word. A worker that dies
 * costs what it searched since then, never a subtree. When workers are idle and no job waits, as many busy ones are
 * asked to give as there are idle ones.
 *
 * A worker that leaves gives back what is left of its job, and is given no other: what it refuses was never begun.
 *
 * The other object, the lobby, is where workers stay: its method returns when the run is over, and when a
 * worker's process ends before, that is heard there even if the worker was idle.
 */
#include "master.h"

#include "bound.h"
#include "check.h"
#include "greedy.h"
#include "instance.h"
#include "timeline.h"

#include <inttypes.h>
#include <moyai.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_FAILURES 3 /* of one job by its method's error: then it is the job */

struct job {
    struct job *next; /* waiting */
    uint8_t *task;    /* what is left; n == 0: the whole tree */
    size_t n;
    uint64_t nodes; /* explored by the present worker, as last heard */
    int failures;
};

struct worker {
    struct worker *next;
    moyai_ref *ref;
    int64_t number;
    struct job *job; /* NULL: idle */
    moyai_future *f; /* of the job */
    bool asked;      /* to give */
    bool gone;
};

struct master {
    const struct master_opts *o;
    moyai_node *node;
    moyai_ref *self, *lobby;
    struct worker *workers; /* all that ever came */
    int64_t n_workers;
    int alive, idle, asked;
    struct job *jobs; /* waiting */
    int n_jobs, running;
    int staying; /* calls of stay() that run */
    int greedy;  /* calls for a start value that run */
    moyai_set *busy;
    uint64_t created, finished; /* jobs */
    int left, lost;             /* workers, and ... */
    int again_left, again_lost; /* ... jobs that others did again, in part at least, because of these */
    bool over;

    /* the present instance */
    struct instance *in;
    struct bytes in_bytes;
    int32_t upper;
    bool have_perm;
    uint16_t perm[INSTANCE_MAX_JOBS];
    uint64_t nodes; /* of jobs that have ended */
    moyai_ns begun, searched_since;

    /* the picture and the progress line */
    moyai_ns start, shown;
    uint64_t shown_nodes;
    struct timeline_sample *samples;
    struct timeline_event *events;
    size_t n_samples, n_events, room_samples, room_events;
    FILE *out;
    bool tty;
};

/* ---- reporting ------------------------------------------------------------------------------- */

static double seconds_since(moyai_ns t) {
    return (double)(moyai_now() - t) * 1e-9;
}

static void note_as(struct master *m, const char *label, enum timeline_kind kind) {
    if (m->n_samples == m->room_samples) {
        size_t room = m->room_samples ? 2 * m->room_samples : 256;
        struct timeline_sample *s = realloc(m->samples, room * sizeof *s);
        if (!s) return; /* the picture is poorer for it, nothing else */
        m->samples = s;
        m->room_samples = room;
    }
    double t = seconds_since(m->start);
    m->samples[m->n_samples++] = (struct timeline_sample){t, m->alive, m->greedy, m->running};
    if (!label) return;
    if (m->n_events == m->room_events) {
        size_t room = m->room_events ? 2 * m->room_events : 64;
        struct timeline_event *e = realloc(m->events, room * sizeof *e);
        if (!e) return;
        m->events = e;
        m->room_events = room;
    }
    char *copy = strdup(label);
    if (copy) m->events[m->n_events++] = (struct timeline_event){t, copy, kind};
}

static void note(struct master *m, const char *label) {
    note_as(m, label, TIMELINE_NOTE);
}

static uint64_t all_nodes(const struct master *m) {
    uint64_t n = m->nodes;
    for (const struct worker *w = m->workers; w; w = w->next)
        if (w->job) n += w->job->nodes;
    return n;
}

static void progress(struct master *m, bool now) {
    double since = seconds_since(m->shown);
    if (!m->out || !m->in || (!now && since < (m->tty ? 0.2 : 1.0))) return;
    uint64_t nodes = all_nodes(m);
    double rate = nodes > m->shown_nodes && since > 0 ? (double)(nodes - m->shown_nodes) / since : 0;
    if (m->upper == 0)
        fprintf(m->out, "%s%s: waits for workers, %d of %d have joined%s", m->tty ? "\r\033[K" : "", m->in->name,
                m->alive, m->o->workers > 1 ? m->o->workers : 1, m->tty ? "" : "\n");
    else
        fprintf(m->out, "%s%s: %d workers, %d open subproblems, best %d, %.2f M nodes/s, %.1f s%s",
                m->tty ? "\r\033[K" : "", m->in->name, m->alive, m->n_jobs + m->running, m->upper, rate * 1e-6,
                seconds_since(m->begun), m->tty ? "" : "\n");
    fflush(m->out);
    m->shown = moyai_now();
    m->shown_nodes = nodes;
}

static void say(struct master *m, const char *line) {
    if (m->out && m->tty) fputs("\r\033[K", m->out);
    if (m->out) fflush(m->out);
    printf("%s\n", line);
    fflush(stdout);
}

/* ---- workers and jobs ------------------------------------------------------------------------ */

static struct worker *worker_of(struct master *m, int64_t number) {
    for (struct worker *w = m->workers; w; w = w->next)
        if (w->number == number) return w;
    return NULL;
}

static void not_asked(struct master *m, struct worker *w) {
    if (w->asked) m->asked--;
    w->asked = false;
}

static void goes(struct master *m, struct worker *w) {
    w->gone = true;
    m->alive--;
    if (!w->job) m->idle--;
    not_asked(m, w);
}

static void leave(struct master *m, struct worker *w) {
    if (w->gone) return;
    m->left++;
    goes(m, w);
    char label[96];
    snprintf(label, sizeof label, "w%" PRId64 " leaves%s", w->number, w->job ? ", its subproblem goes to another" : "");
    note(m, label);
    if (!m->over) say(m, label);
}

static void lose(struct master *m, struct worker *w, bool busy) {
    if (w->gone) return;
    m->lost++;
    goes(m, w);
    char label[96];
    snprintf(label, sizeof label, "w%" PRId64 " lost", w->number);
    note_as(m, label, TIMELINE_LOST);
    if (m->over) return;
    if (busy) snprintf(label, sizeof label, "w%" PRId64 " lost, its subproblem goes to another", w->number);
    say(m, label);
}

static int job_add(struct master *m, const void *task, size_t n) {
    struct job *j = calloc(1, sizeof *j);
    uint8_t *copy = n ? malloc(n) : NULL;
    if (!j || (n && !copy)) {
        free(j);
        free(copy);
        return MOYAI_ENOMEM;
    }
    if (n) memcpy(copy, task, n);
    j->task = copy;
    j->n = n;
    j->next = m->jobs;
    m->jobs = j;
    m->n_jobs++;
    m->created++;
    return 0;
}

static int job_left(struct job *j, const void *task, size_t n) {
    uint8_t *copy = malloc(n);
    if (!copy) return MOYAI_ENOMEM;
    memcpy(copy, task, n);
    free(j->task);
    j->task = copy;
    j->n = n;
    return 0;
}

static void job_free(struct job *j) {
    free(j->task);
    free(j);
}

/* The one that was added last: all of what a worker gives is taken, or nothing. */
static void job_drop(struct master *m) {
    struct job *j = m->jobs;
    m->jobs = j->next;
    m->n_jobs--;
    m->created--;
    job_free(j);
}

/* A solution somebody claims: taken only if the independent checker agrees. */
static int improve(struct master *m, int32_t makespan, const uint16_t *perm, size_t n) {
    if (makespan < 0 || makespan >= m->upper) return 0;
    struct fail f;
    if (check_solution(m->in, perm, n, makespan, &f)) {
        fprintf(stderr, "flowshop master: a worker claims a wrong solution: %s\n", f.text);
        return MOYAI_EDATA;
    }
    m->upper = makespan;
    memcpy(m->perm, perm, n * sizeof *perm);
    m->have_perm = true;
    if (m->greedy > 0) return 0; /* the best of these will be the start value */
    char label[64];
    snprintf(label, sizeof label, "%s: best %d", m->in->name, makespan);
    note(m, label);
    return 0;
}

/* ---- methods --------------------------------------------------------------------------------- */

static int node_join(moyai_request *rq, void *self) {
    struct master *m = self;
    moyai_ref *ref;
    if (moyai_args(rq, MOYAI_INTO(&ref)) < 0) return moyai_raise(rq, MOYAI_EARGS, "nodeJoin(worker)");
    struct worker *w = calloc(1, sizeof *w);
    if (!w) {
        moyai_ref_unref(ref);
        return moyai_raise(rq, MOYAI_ENOMEM, "out of memory for a worker");
    }
    w->ref = ref;
    w->number = ++m->n_workers;
    w->next = m->workers;
    m->workers = w;
    m->alive++;
    m->idle++;
    char label[48];
    snprintf(label, sizeof label, "w%" PRId64 " joined", w->number);
    note(m, label);
    say(m, label);
    moyai_signal(m->self);
    return moyai_return(rq, MOYAI_ARGS(w->number));
}

/* nodeLeave(worker): it finishes what it has begun, and takes nothing else. */
static int node_leave(moyai_request *rq, void *self) {
    struct master *m = self;
    int64_t number;
    if (moyai_args(rq, MOYAI_INTO(&number)) < 0) return moyai_raise(rq, MOYAI_EARGS, "nodeLeave(worker)");
    struct worker *w = worker_of(m, number);
    if (!w) return moyai_raise(rq, MOYAI_ESTATE, "unknown worker %" PRId64, number);
    leave(m, w);
    return 0;
}

/* exchange(worker, makespan or -1, permutation, nodes, rest) -> upper bound, give? */
static int exchange(moyai_request *rq, void *self) {
    struct master *m = self;
    int64_t number;
    int32_t makespan;
    const uint16_t *perm;
    size_t n, n_rest;
    uint64_t nodes;
    const void *rest;
    if (moyai_args(rq, MOYAI_INTO(&number, &makespan, moyai_into_u16s(&perm, &n), &nodes,
                                  moyai_into_bytes(&rest, &n_rest))) < 0)
        return moyai_raise(rq, MOYAI_EARGS, "exchange(worker, makespan, permutation, nodes, rest)");
    struct worker *w = worker_of(m, number);
    if (!w || !w->job) return moyai_raise(rq, MOYAI_ESTATE, "worker %" PRId64 " has no job", number);
    int rc = improve(m, makespan, perm, n);
    if (rc == 0 && n_rest) rc = job_left(w->job, rest, n_rest);
    if (rc < 0) return moyai_raise(rq, rc, "the exchange could not be taken");
    w->job->nodes = nodes;
    bool hungry = !w->asked && !w->gone && m->n_jobs == 0 && m->asked < m->idle;
    if (hungry) {
        w->asked = true;
        m->asked++;
    }
    progress(m, false);
    return moyai_return(rq, MOYAI_ARGS(m->upper, (bool)hungry));
}

/* give(worker, part, rest): the part is a new job, the rest is what is left of the worker's. */
static int give(moyai_request *rq, void *self) {
    struct master *m = self;
    int64_t number;
    const void *part, *rest;
    size_t n_part, n_rest;
    if (moyai_args(rq, MOYAI_INTO(&number, moyai_into_bytes(&part, &n_part), moyai_into_bytes(&rest, &n_rest))) < 0)
        return moyai_raise(rq, MOYAI_EARGS, "give(worker, part, rest)");
    struct worker *w = worker_of(m, number);
    if (!w || !w->job) return moyai_raise(rq, MOYAI_ESTATE, "worker %" PRId64 " has no job", number);
    not_asked(m, w);
    if (n_part == 0) return 0;
    int rc = job_add(m, part, n_part);
    if (rc == 0 && n_rest && (rc = job_left(w->job, rest, n_rest)) < 0) job_drop(m);
    if (rc < 0) return moyai_raise(rq, rc, "out of memory for a job");
    moyai_signal(m->self);
    return 0;
}

static void assign(struct master *m) {
    for (struct worker *w = m->workers; w && m->jobs; w = w->next) {
        if (w->gone || w->job) continue;
        struct job *j = m->jobs;
        m->jobs = j->next;
        m->n_jobs--;
        j->nodes = 0;
        w->job = j;
        w->f = moyai_call_async(
            w->ref, "doJob",
            MOYAI_ARGS(moyai_bytes(m->in_bytes.p, m->in_bytes.n), moyai_bytes(j->task, j->n), m->upper));
        moyai_future_set_user(w->f, w);
        if (moyai_set_add(m->busy, w->f) < 0) { /* out of memory: the job waits for another moment */
            moyai_future_free(w->f);
            w->f = NULL;
            w->job = NULL;
            j->next = m->jobs;
            m->jobs = j;
            m->n_jobs++;
            return;
        }
        m->idle--;
        m->running++;
        note(m, NULL);
    }
}

/* It goes to another, which begins at the worker's last word. Was something done since then, that is done again? */
static int job_failed(struct master *m, struct worker *w, struct job *j, moyai_future *f, int rc) {
    struct moyai_error e;
    moyai_future_error(f, 0, &e);
    const bool begun = e.executed != MOYAI_NEVER_EXECUTED;
    switch (rc) {
    case MOYAI_ELEAVING: /* it takes no jobs, or was cut short */
    case MOYAI_ECLOSED:  /* it ended, in order, before it could say so */
        leave(m, w);
        m->again_left += begun;
        return 0;
    case MOYAI_EDEAD:
    case MOYAI_EUNREACHABLE:
        lose(m, w, true);
        m->again_lost += begun;
        return 0;
    default:
        fprintf(stderr, "flowshop master: w%" PRId64 " could not do a job: %s\n", w->number, e.text);
        return ++j->failures == MOST_FAILURES ? rc : 0;
    }
}

/* One job has ended, well or not. */
static int job_end(struct master *m, moyai_future *f) {
    struct worker *w = moyai_future_user(f);
    struct job *j = w->job;
    uint64_t nodes;
    int32_t makespan;
    const uint16_t *perm;
    size_t n, n_rest;
    const void *rest;
    int rc = moyai_future_get(
        f, MOYAI_INTO(&nodes, &makespan, moyai_into_u16s(&perm, &n), moyai_into_bytes(&rest, &n_rest)));
    if (rc == 0) rc = improve(m, makespan, perm, n);
    if (rc == 0 && n_rest) rc = job_left(j, rest, n_rest);
    const bool done = rc == 0 && n_rest == 0;
    if (rc == 0 && n_rest) leave(m, w);
    w->job = NULL;
    w->f = NULL;
    m->running--;
    not_asked(m, w);
    if (!w->gone) m->idle++;
    m->nodes += rc == 0 ? nodes : j->nodes;
    if (done) {
        m->finished++;
        job_free(j);
    } else {
        if (rc < 0 && job_failed(m, w, j, f, rc) < 0) return rc;
        j->next = m->jobs; /* to another */
        m->jobs = j;
        m->n_jobs++;
    }
    moyai_future_free(f);
    note(m, NULL);
    return 0;
}

static int wait_for_news(struct master *m) {
    progress(m, false);
    int rc = moyai_wait(m->busy, m->tty ? 200 * MOYAI_MS : MOYAI_SEC);
    if (moyai_node_stopping(m->node)) return MOYAI_ECANCELED;
    return rc == MOYAI_SIGNALLED || rc == MOYAI_ETIMEDOUT || rc > 0 ? 0 : rc;
}

/* The start value: every worker searches greedily from its own seed for a while; the best counts. */
static int start_value(struct master *m) {
    moyai_set *set;
    int rc = moyai_set_new(m->node, &set);
    if (rc < 0) return rc;
    int32_t neh = greedy_neh(m->in, m->perm);
    if (neh < 0) rc = MOYAI_ENOMEM;
    m->upper = neh;
    m->have_perm = neh >= 0;
    for (struct worker *w = m->workers; w && rc == 0; w = w->next) {
        if (w->gone) continue;
        moyai_future *f = moyai_call_async(
            w->ref, "greedy", MOYAI_ARGS(moyai_bytes(m->in_bytes.p, m->in_bytes.n), m->o->greedy, (uint64_t)w->number));
        rc = moyai_set_add(set, f);
        if (rc < 0)
            moyai_future_free(f);
        else
            m->greedy++;
    }
    note(m, NULL);
    while (moyai_set_count(set) > 0) {
        int ready = moyai_wait_masked(set, MOYAI_FOREVER);
        if (ready < 0 && rc == 0) rc = ready;
        if (ready < 0) break;
        for (moyai_future *f; (f = moyai_set_next(set)); moyai_future_free(f)) {
            int32_t makespan;
            const uint16_t *perm;
            size_t n;
            if (moyai_future_get(f, MOYAI_INTO(&makespan, moyai_into_u16s(&perm, &n))) == 0 && rc == 0)
                (void)improve(m, makespan, perm, n); /* a wrong claim is reported and not taken */
            m->greedy--;
        }
        note(m, NULL);
    }
    m->greedy = 0; /* of those that were not waited for, too */
    moyai_set_free(set);
    return rc;
}

static int solve(struct master *m) {
    char line[256];
    m->begun = moyai_now();
    m->nodes = 0;
    m->shown = m->begun;
    m->shown_nodes = 0;
    m->have_perm = false;
    while (m->alive == 0 || m->alive < m->o->workers) {
        m->upper = 0;
        int rc = wait_for_news(m);
        if (rc < 0) return rc;
    }
    int rc = 0;
    if (m->o->upper > 0)
        m->upper = m->o->upper;
    else
        rc = start_value(m);
    int32_t start = m->upper;
    double start_seconds = seconds_since(m->begun);
    m->searched_since = m->shown = moyai_now();
    if (rc == 0) {
        snprintf(line, sizeof line, "%s: start value %d", m->in->name, start);
        note(m, line);
        snprintf(line, sizeof line, "%s: start value %d after %.2f s, searching", m->in->name, start, start_seconds);
        say(m, line);
        rc = job_add(m, NULL, 0);
    }
    while (rc == 0 && (m->n_jobs > 0 || m->running > 0)) {
        assign(m);
        rc = wait_for_news(m);
        for (moyai_future *f; rc == 0 && (f = moyai_set_next(m->busy));) rc = job_end(m, f);
    }
    if (rc < 0) return rc;
    double seconds = seconds_since(m->searched_since);
    if (seconds >= 1) progress(m, true); /* of a shorter search the lines below say all */
    snprintf(line, sizeof line, "%s: %" PRIu64 " nodes in %.2f s, %.3f M nodes/s", m->in->name, m->nodes, seconds,
             (double)m->nodes / seconds * 1e-6);
    say(m, line);
    struct fail f;
    if (m->have_perm && check_solution(m->in, m->perm, (size_t)m->in->n, m->upper, &f)) {
        fprintf(stderr, "flowshop master: %s\n", f.text);
        return MOYAI_EDATA;
    }
    if (m->have_perm)
        snprintf(line, sizeof line, "%s: optimum %d proved", m->in->name, m->upper);
    else
        snprintf(line, sizeof line, "%s: no makespan below %d, proved", m->in->name, m->upper);
    note(m, line);
    say(m, line);
    return 0;
}

static int run(moyai_request *rq, void *self) {
    struct master *m = self;
    for (size_t i = 0; i < m->o->n_names; i++) {
        struct fail f;
        if (instance_open(&m->in, m->o->names[i], &f)) return moyai_raise(rq, MOYAI_EINVAL, "%s", f.text);
        instance_save(m->in, &m->in_bytes);
        int rc = m->in_bytes.failed ? MOYAI_ENOMEM : solve(m);
        bytes_done(&m->in_bytes);
        instance_free(m->in);
        m->in = NULL;
        if (rc < 0) return moyai_raise(rq, rc, "%s: %s", m->o->names[i], moyai_strerror(rc));
    }
    return 0;
}

/* stay(worker): returns when the run is over. Each that is woken wakes the next. */
static int stay(moyai_request *rq, void *self) {
    struct master *m = self;
    int64_t number;
    moyai_set *none;
    if (moyai_args(rq, MOYAI_INTO(&number)) < 0) return moyai_raise(rq, MOYAI_EARGS, "stay(worker)");
    struct worker *w = worker_of(m, number);
    if (!w) return moyai_raise(rq, MOYAI_ESTATE, "unknown worker %" PRId64, number);
    if (moyai_set_new(m->node, &none) < 0) return moyai_raise(rq, MOYAI_ENOMEM, "out of memory");
    int rc = MOYAI_SIGNALLED;
    m->staying++;
    while (!m->over && rc == MOYAI_SIGNALLED) rc = moyai_wait(none, MOYAI_FOREVER);
    m->staying--;
    moyai_set_free(none);
    if (m->over) {
        moyai_signal(m->lobby);
        return 0;
    }
    /* Cancelled: its process has ended. A busy one's job tells the same to run(). */
    if (!w->job) lose(m, w, false);
    moyai_signal(m->self);
    return rc;
}

static const struct moyai_method master_methods[] = {{"nodeJoin", node_join},
                                                     {"nodeLeave", node_leave},
                                                     {"exchange", exchange},
                                                     {"give", give},
                                                     {"run", run},
                                                     {NULL, NULL}};
static const struct moyai_class master_class = MOYAI_CLASS("Master", master_methods, NULL);
static const struct moyai_method lobby_methods[] = {{"stay", stay}, {NULL, NULL}};
static const struct moyai_class lobby_class = MOYAI_CLASS("Lobby", lobby_methods, NULL);

/* ---- the program ----------------------------------------------------------------------------- */

static void open_progress(struct master *m) {
    const char *how = m->o->progress;
    if (strcmp(how, "none") == 0) return;
    if (strcmp(how, "tty") == 0) m->out = fopen("/dev/tty", "w");
    m->tty = m->out != NULL;
    if (!m->out) m->out = stderr;
}

static void cleanup(struct master *m) {
    for (struct worker *w = m->workers, *next; w; w = next) {
        next = w->next;
        moyai_future_free(w->f);
        if (w->job) job_free(w->job);
        moyai_ref_unref(w->ref);
        free(w);
    }
    while (m->jobs) {
        struct job *j = m->jobs;
        m->jobs = j->next;
        job_free(j);
    }
    moyai_set_free(m->busy);
    moyai_ref_unref(m->self);
    moyai_ref_unref(m->lobby);
    moyai_node_free(m->node);
    for (size_t i = 0; i < m->n_events; i++) free((char *)(uintptr_t)m->events[i].label);
    free(m->events);
    free(m->samples);
    if (m->tty) fclose(m->out);
}

static void picture(struct master *m) {
    struct timeline t = {.title = "flowshop: what the workers did",
                         .seconds = seconds_since(m->start),
                         .samples = m->samples,
                         .n_samples = m->n_samples,
                         .events = m->events,
                         .n_events = m->n_events};
    struct fail f;
    if (timeline_write(&t, m->o->svg, &f))
        fprintf(stderr, "flowshop master: %s\n", f.text);
    else
        printf("picture: %s\n", m->o->svg);
}

int master_main(const struct master_opts *o) {
    struct master m = {.o = o, .start = moyai_now()};
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.title = "flowshop master";
    opts.signals = true;
    struct moyai_error e;
    if (moyai_node_new(&m.node, &opts, &e) < 0) {
        fprintf(stderr, "flowshop master: %s\n", e.text);
        return 1;
    }
    open_progress(&m);
    int rc = moyai_set_new(m.node, &m.busy);
    if (rc == 0) rc = moyai_object_new(m.node, &master_class, &m, &m.self, &e);
    if (rc == 0) rc = moyai_object_new(m.node, &lobby_class, &m, &m.lobby, &e);
    if (rc == 0) rc = moyai_register(m.lobby, "flowshop lobby");
    if (rc == 0) rc = moyai_register(m.self, "flowshop master");
    if (rc == 0) rc = moyai_call(m.self, "run", MOYAI_NONE, MOYAI_NONE, NULL);
    if (rc < 0) {
        moyai_last_error(m.node, &e);
        fprintf(stderr, "flowshop master: %s\n", e.text);
    }
    m.over = true;
    moyai_signal(m.lobby); /* the workers go home; what they stay in ends before the node does */
    while (m.staying > 0 && moyai_sleep(m.node, MOYAI_MS) == 0) {
    }
    if (rc == 0) {
        printf("tasks lost %" PRIu64 "\n", m.created - m.finished);
        printf("tasks executed again: %d for workers that left (%d), %d for workers lost (%d)\n", m.again_left, m.left,
               m.again_lost, m.lost);
        if (o->svg) picture(&m);
        if (m.created != m.finished) rc = MOYAI_EINTERNAL;
    }
    fflush(stdout);
    cleanup(&m);
    return rc < 0 ? 1 : 0;
}
